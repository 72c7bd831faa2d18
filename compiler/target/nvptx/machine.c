/* machine.c -- the NVPTX family's answers to emit/machine.h: who a thread is, shuffles, barriers, arithmetic with an instruction.
 * In: values of the kernel under translation.  Out: calls of LLVM's NVVM intrinsics, or PTX where LLVM has none.
 * Approximate functions are the .ftz forms: a denormal is zero there, as base/num.h defines them. */
#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

LLVMValueRef nvptx_text(struct emit *e, const char *text, const char *constraints, LLVMTypeRef result, LLVMValueRef *args, int nargs, bool effect)
{
	LLVMTypeRef types[16];
	for (int i = 0; i < nargs; i++)
		types[i] = LLVMTypeOf(args[i]);
	LLVMTypeRef t = LLVMFunctionType(result, types, (unsigned)nargs, 0);
	LLVMValueRef f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), effect, 0, LLVMInlineAsmDialectATT, 0);
	return LLVMBuildCall2(e->b, t, f, args, (unsigned)nargs, "");
}

/* --- identity --------------------------------------------------------------------------------------------------------------- */

static void kernel(struct emit *e)
{
	char threads[16];
	LLVMSetFunctionCallConv(e->fn, 71);                  /* ptx_kernel */
	snprintf(threads, sizeof threads, "%d", e->v->target->wave * e->v->waves);
	LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex,
	                        LLVMCreateStringAttribute(e->ctx, "nvvm.reqntid", 12, threads, (unsigned)strlen(threads)));
}

static LLVMValueRef thread(struct emit *e)
{
	return emit_call(e, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, 0, NULL, 0);
}

static LLVMValueRef workgroup(struct emit *e, int dim)
{
	(void)dim;                                           /* grid_dims is 1 */
	return emit_call(e, "llvm.nvvm.read.ptx.sreg.ctaid.x", NULL, 0, NULL, 0);
}

/* ptxas computes again what does not fit: nothing needs to be hidden. */
static LLVMValueRef same(struct emit *e, LLVMValueRef lane, LLVMValueRef loop)
{
	(void)e;
	(void)loop;
	return lane;
}

/* --- lanes ------------------------------------------------------------------------------------------------------------------ */

static LLVMValueRef shuffle(struct emit *e, const char *name, LLVMValueRef x, LLVMValueRef lane)
{
	LLVMValueRef a[4] = {emit_int(e, -1), x, lane, emit_int(e, 31)};
	return emit_call(e, name, NULL, 0, a, 4);
}

static LLVMValueRef exchange(struct emit *e, LLVMValueRef x, int bit, bool lower_equal)
{
	(void)lower_equal;
	return shuffle(e, "llvm.nvvm.shfl.sync.bfly.i32", x, emit_int(e, 1 << bit));
}

static LLVMValueRef gather(struct emit *e, LLVMValueRef x, LLVMValueRef lane)
{
	return shuffle(e, "llvm.nvvm.shfl.sync.idx.i32", x, lane);
}

static LLVMValueRef ballot(struct emit *e, LLVMValueRef x)
{
	LLVMValueRef a[2] = {emit_int(e, -1), x};
	return emit_call(e, "llvm.nvvm.vote.ballot.sync", NULL, 0, a, 2);
}

static LLVMValueRef uniform(struct emit *e, LLVMValueRef x)
{
	(void)e;
	return x;
}

/* --- order ------------------------------------------------------------------------------------------------------------------ */

static void barrier(struct emit *e)
{
	LLVMValueRef number = emit_int(e, 0), all = emit_int(e, -1);
	if (e->v->waves > 1)
		emit_call(e, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, 0, &number, 1);
	else
		emit_call(e, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
}

static void keep_order(struct emit *e)
{
	(void)e;                                             /* ptxas orders as its registers allow */
}

/* --- arithmetic ------------------------------------------------------------------------------------------------------------- */

static LLVMValueRef approximate(struct emit *e, enum ir_op op, LLVMValueRef x)
{
	const char *name = op == IR_RSQRT ? "llvm.nvvm.rsqrt.approx.ftz.f" : op == IR_RCP ? "llvm.nvvm.rcp.approx.ftz.f"
	                 : op == IR_LOG2 ? "llvm.nvvm.lg2.approx.ftz.f" : op == IR_SIN_TURNS ? "llvm.nvvm.sin.approx.ftz.f" : "llvm.nvvm.cos.approx.ftz.f";
	LLVMTypeRef t = e->f32;
	if (op == IR_EXP2)
		return emit_call(e, "llvm.nvvm.ex2.approx.ftz", &t, 1, &x, 1);
	if (op == IR_SIN_TURNS || op == IR_COS_TURNS) {      /* the instruction takes radians, best within one turn */
		LLVMValueRef whole = emit_call(e, "llvm.rint", &t, 1, &x, 1);
		x = LLVMBuildFMul(e->b, LLVMBuildFSub(e->b, x, whole, ""), LLVMConstReal(e->f32, 2 * M_PI), "");
	}
	return emit_call(e, name, NULL, 0, &x, 1);
}

static LLVMValueRef clamp(struct emit *e, LLVMValueRef x, LLVMValueRef least, LLVMValueRef most)
{
	LLVMTypeRef t = e->f32;
	LLVMValueRef a[2] = {x, least}, b[2] = {NULL, most};
	b[0] = emit_call(e, "llvm.maxnum", &t, 1, a, 2);
	return emit_call(e, "llvm.minnum", &t, 1, b, 2);
}

static LLVMValueRef product(struct emit *e, const struct mfma *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc)
{
	(void)m;
	(void)a;
	(void)b;
	(void)acc;
	return emit_fail(e, NULL, "products are not lowered for %s yet", e->v->target->name);
}

static const struct machine machine = {
	.kernel = kernel, .line_directives = true, .separator = '_', .grid_dims = 1, .argument_unit = 1, .static_lds = 48 << 10,
	.thread = thread, .workgroup = workgroup, .hidden_copy = same,
	.row_bits = 5, .lane_xor = exchange, .lane_gather = gather, .lane_read = gather, .ballot = ballot, .uniform = uniform,
	.barrier = barrier, .keep_order = keep_order,
	.approximate = approximate, .clamp = clamp, .to_fp8 = nvptx_to_fp8, .from_fp8 = nvptx_from_fp8,
	.access_open = nvptx_access_open, .load = nvptx_load, .store = nvptx_store, .update = nvptx_update,
	.product = product,
};

int nvptx_translate(struct arena *arena, const struct ir_kernel *k, const struct variant *v, LLVMContextRef ctx, struct translated *out,
                    char *err, size_t errlen)
{
	return emit_kernel(&machine, arena, k, v, ctx, out, err, errlen);
}
