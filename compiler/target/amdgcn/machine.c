/* machine.c -- the AMDGPU family's answers to emit/machine.h: who a lane is, exchanges, barriers, arithmetic with an instruction.
 * In: values of the kernel under translation.  Out: calls of LLVM's AMDGPU intrinsics, one an instruction.  Functions with an
 * instruction of their own go to it directly (llvm.exp2 would be nine instructions under IEEE denormals). */
#include "machine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* --- identity --------------------------------------------------------------------------------------------------------------- */

static void set_attribute(struct emit *e, const char *key, const char *value)
{
	LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex,
	                        LLVMCreateStringAttribute(e->ctx, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}

static void kernel(struct emit *e)
{
	static const char *const none[] = {"amdgpu-no-dispatch-ptr", "amdgpu-no-queue-ptr", "amdgpu-no-implicitarg-ptr", "amdgpu-no-dispatch-id",
	                                   "amdgpu-no-workitem-id-y", "amdgpu-no-workitem-id-z", "amdgpu-no-lds-kernel-id",
	                                   "amdgpu-no-multigrid-sync-arg", "amdgpu-no-hostcall-ptr", "amdgpu-no-heap-ptr",
	                                   "amdgpu-no-default-queue", "amdgpu-no-completion-action", "amdgpu-no-flat-scratch-init"};
	char size[32];
	const struct hexpr *lanes;
	int threads = waves_lanes(e, &lanes);
	LLVMSetFunctionCallConv(e->fn, 91);                  /* amdgpu_kernel */
	snprintf(size, sizeof size, "%d,%d", lanes ? e->v->target->wave : threads, threads);
	set_attribute(e, "amdgpu-flat-work-group-size", size);
	set_attribute(e, "uniform-work-group-size", "true");
	set_attribute(e, "amdgpu-ieee", "false");
	set_attribute(e, "amdgpu-agpr-alloc", "0");          /* else workgroups of many waves have half of their registers for vectors alone */
	for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
		set_attribute(e, none[i], "");
}

static LLVMValueRef thread(struct emit *e)
{
	return emit_call(e, "llvm.amdgcn.workitem.id.x", NULL, 0, NULL, 0);
}

static LLVMValueRef workgroup(struct emit *e, int dim)
{
	static const char *const name[] = {"llvm.amdgcn.workgroup.id.x", "llvm.amdgcn.workgroup.id.y", "llvm.amdgcn.workgroup.id.z"};
	return emit_call(e, name[dim], NULL, 0, NULL, 0);
}

static LLVMValueRef hidden_copy(struct emit *e, LLVMValueRef lane, LLVMValueRef loop)
{
	LLVMTypeRef types[2] = {e->i32, e->i32}, t = LLVMFunctionType(e->i32, types, loop ? 2 : 1, 0);
	LLVMValueRef args[2] = {lane, loop};
	const char *form = loop ? "=v,0,s" : "=v,0";
	LLVMValueRef text = LLVMGetInlineAsm(t, "", 0, form, strlen(form), 0, 0, LLVMInlineAsmDialectATT, 0);
	return LLVMBuildCall2(e->b, t, text, args, loop ? 2 : 1, "");
}

/* By halves: of tied registers of two words LLVM 22 ends the process. */
static LLVMValueRef argument_block(struct emit *e)
{
	LLVMTypeRef t = LLVMFunctionType(e->i32, &e->i32, 1, 0), two = emit_vector(e->i32, 2);
	LLVMValueRef text = LLVMGetInlineAsm(t, "", 0, "=s,0", 4, 1, 0, LLVMInlineAsmDialectATT, 0);
	LLVMValueRef block = LLVMBuildPtrToInt(e->b, emit_call(e, "llvm.amdgcn.kernarg.segment.ptr", NULL, 0, NULL, 0), e->i64, "");
	LLVMValueRef halves = LLVMBuildBitCast(e->b, block, two, ""), hidden = LLVMGetPoison(two);
	for (int h = 0; h < 2; h++) {
		LLVMValueRef half = LLVMBuildExtractElement(e->b, halves, emit_int(e, h), "");
		hidden = LLVMBuildInsertElement(e->b, hidden, LLVMBuildCall2(e->b, t, text, &half, 1, ""), emit_int(e, h), "");
	}
	return LLVMBuildIntToPtr(e->b, LLVMBuildBitCast(e->b, hidden, e->i64, ""), LLVMPointerTypeInContext(e->ctx, 4), "");
}

/* --- lanes ------------------------------------------------------------------------------------------------------------------ */

static LLVMValueRef dpp(struct emit *e, LLVMValueRef v, int control)
{
	LLVMTypeRef t = LLVMTypeOf(v);
	LLVMValueRef args[6] = {LLVMGetPoison(t), v, emit_int(e, control), emit_int(e, 15), emit_int(e, 15), LLVMConstInt(e->i1, 1, 0)};
	return emit_call(e, "llvm.amdgcn.update.dpp", &t, 1, args, 6);
}

/* DPP controls: CDNA3 ISA guide, "DPP control".  Mirrors stand for exclusive or where lower lanes agree. */
static LLVMValueRef exchange(struct emit *e, LLVMValueRef x, int bit, bool lower_equal)
{
	enum { QUAD_XOR1 = 0xb1, QUAD_XOR2 = 0x4e, ROW_ROR8 = 0x128, ROW_HALF_MIRROR = 0x141 };
	switch (bit) {
	case 0: return dpp(e, x, QUAD_XOR1);
	case 1: return dpp(e, x, QUAD_XOR2);
	case 3: return dpp(e, x, ROW_ROR8);
	case 2:
		if (lower_equal)
			return dpp(e, x, ROW_HALF_MIRROR);
		/* fall through */
	case 4: {
		LLVMValueRef a[2] = {LLVMBuildBitCast(e->b, x, e->i32, ""), emit_int(e, 0x1f | (1 << bit) << 10)};    /* bit mode: and 31, or 0, xor 2^bit */
		return emit_call(e, "llvm.amdgcn.ds.swizzle", NULL, 0, a, 2);
	}
	default: {
		LLVMValueRef other = LLVMBuildXor(e->b, LLVMBuildAnd(e->b, e->tid, emit_int(e, 63), ""), emit_int(e, 1 << bit), "");
		LLVMValueRef a[2] = {LLVMBuildShl(e->b, other, emit_int(e, 2), ""), LLVMBuildBitCast(e->b, x, e->i32, "")};
		return emit_call(e, "llvm.amdgcn.ds.bpermute", NULL, 0, a, 2);
	}
	}
}

static LLVMValueRef gather(struct emit *e, LLVMValueRef x, LLVMValueRef lane)
{
	LLVMValueRef a[2] = {LLVMBuildShl(e->b, lane, emit_int(e, 2), ""), x};
	return emit_call(e, "llvm.amdgcn.ds.bpermute", NULL, 0, a, 2);
}

static LLVMValueRef read_lane(struct emit *e, LLVMValueRef x, LLVMValueRef lane)
{
	LLVMValueRef a[2] = {x, lane};
	LLVMTypeRef t = e->i32;
	return emit_call(e, "llvm.amdgcn.readlane", &t, 1, a, 2);
}

static LLVMValueRef ballot(struct emit *e, LLVMValueRef x)
{
	LLVMTypeRef t = e->i64;
	return emit_call(e, "llvm.amdgcn.ballot", &t, 1, &x, 1);
}

static LLVMValueRef bytes(struct emit *e, LLVMValueRef a, LLVMValueRef b, const int from[4])
{
	int64_t selector = 0;
	for (int k = 0; k < 4; k++)
		selector |= (int64_t)from[k] << 8 * k;      /* the instruction numbers its second operand's bytes first */
	LLVMValueRef args[3] = {b, a, LLVMConstInt(e->i32, (uint64_t)selector, 0)};
	return emit_call(e, "llvm.amdgcn.perm", NULL, 0, args, 3);
}

static LLVMValueRef uniform(struct emit *e, LLVMValueRef x)
{
	LLVMTypeRef t = e->i32;
	return emit_call(e, "llvm.amdgcn.readfirstlane", &t, 1, &x, 1);
}

/* --- order ------------------------------------------------------------------------------------------------------------------ */

/* A bare s_barrier behind an explicit wait for LDS: a fence would also wait for every global access. */
static void barrier(struct emit *e)
{
	LLVMValueRef lgkm0 = emit_int(e, 0xc07f);        /* gfx9 waitcnt: vmcnt 63, expcnt 7, lgkmcnt 0 */
	if (e->waves > 1) {
		emit_call(e, "llvm.amdgcn.s.waitcnt", NULL, 0, &lgkm0, 1);
		emit_call(e, "llvm.amdgcn.s.barrier", NULL, 0, NULL, 0);
	} else {
		emit_call(e, "llvm.amdgcn.wave.barrier", NULL, 0, NULL, 0);
	}
}

static void memory_barrier(struct emit *e)
{
	LLVMValueRef all0 = emit_int(e, 0x0070);         /* gfx9 waitcnt: vmcnt 0, expcnt 7, lgkmcnt 0 */
	emit_call(e, "llvm.amdgcn.s.waitcnt", NULL, 0, &all0, 1);
	barrier(e);
}

static LLVMValueRef settled(struct emit *e, LLVMValueRef x)
{
	LLVMTypeRef was = LLVMTypeOf(x), t = LLVMFunctionType(e->i32, &e->i32, 1, 0);
	LLVMValueRef text = LLVMGetInlineAsm(t, "", 0, "=v,0", 4, 1, 0, LLVMInlineAsmDialectATT, 0);
	x = LLVMBuildBitCast(e->b, x, e->i32, "");
	return LLVMBuildBitCast(e->b, LLVMBuildCall2(e->b, t, text, &x, 1, ""), was, "");
}

static void keep_order(struct emit *e)
{
	LLVMValueRef nothing = emit_int(e, 0);
	emit_call(e, "llvm.amdgcn.sched.barrier", NULL, 0, &nothing, 1);
}

/* --- arithmetic ------------------------------------------------------------------------------------------------------------- */

static LLVMValueRef approximate(struct emit *e, enum ir_op op, LLVMValueRef x)
{
	const char *name = op == IR_RSQRT ? "llvm.amdgcn.rsq" : op == IR_RCP ? "llvm.amdgcn.rcp" : op == IR_EXP2 ? "llvm.amdgcn.exp2"
	                 : op == IR_LOG2 ? "llvm.amdgcn.log" : op == IR_SIN_TURNS ? "llvm.amdgcn.sin" : "llvm.amdgcn.cos";
	LLVMTypeRef t = LLVMTypeOf(x);
	return emit_call(e, name, &t, 1, &x, 1);
}

static LLVMValueRef clamp(struct emit *e, LLVMValueRef x, LLVMValueRef least, LLVMValueRef most)
{
	LLVMTypeRef t = LLVMTypeOf(x);
	LLVMValueRef a[3] = {x, least, most};
	return emit_call(e, "llvm.amdgcn.fmed3", &t, 1, a, 3);
}

/* The format of an operand, cbsz and blgp of the CDNA4 ISA guide. */
static int format_of(enum dtype t) { return t == DT_E4M3 ? 0 : t == DT_E5M2 ? 1 : 4; }

static LLVMValueRef scaled_product(struct emit *e, const struct mfma *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc, const LLVMValueRef scale[2])
{
	LLVMTypeRef types[2] = {LLVMTypeOf(a), LLVMTypeOf(b)};
	LLVMValueRef byte = emit_int(e, 0);
	LLVMValueRef args[9] = {a, b, acc, emit_int(e, format_of(m->a)), emit_int(e, format_of(m->b)), byte, scale[0], byte, scale[1]};
	return emit_call(e, m->intrinsic, types, 2, args, 9);
}

/* Constants 0 stand for no scales, LLVM's way: v_mfma_f32_16x16x128_f8f6f4. */
static LLVMValueRef product(struct emit *e, const struct mfma *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc)
{
	if (m->group)
		return scaled_product(e, m, a, b, acc, (const LLVMValueRef[2]){emit_int(e, 0), emit_int(e, 0)});
	LLVMValueRef args[6] = {a, b, acc, emit_int(e, 0), emit_int(e, 0), emit_int(e, 0)};
	return emit_call(e, m->intrinsic, NULL, 0, args, 6);
}

static void clamp_by_mode(struct emit *e)
{
	LLVMValueRef a[2] = {emit_int(e, 1 | 23 << 6), emit_int(e, 1)};          /* hwreg(HW_REG_MODE, 23, 1): FP16_OVFL */
	emit_call(e, "llvm.amdgcn.s.setreg", NULL, 0, a, 2);
}

static const struct machine machine = {
	.kernel = kernel, .scalar_masks = true, .scalar_offsets = true, .separator = '.', .grid_dims = 3, .argument_unit = 8, .argument_block = argument_block, .static_lds = INT_MAX, .thread = thread, .workgroup = workgroup, .hidden_copy = hidden_copy,
	.row_bits = 4, .dealt_bits = 6, .exchange_wait = 2, .lane_xor = exchange, .lane_gather = gather, .lane_read = read_lane, .ballot = ballot, .bytes = bytes, .uniform = uniform,
	.barrier = barrier, .memory_barrier = memory_barrier, .keep_order = keep_order, .settled = settled,
	.approximate = approximate, .clamp = clamp, .to_fp8 = amdgcn_to_fp8, .clamp_by_mode = clamp_by_mode, .from_fp8 = amdgcn_from_fp8, .from_bf16 = amdgcn_from_bf16, .from_fp4 = amdgcn_from_fp4, .round_bf16 = amdgcn_round_bf16, .cut_bf16 = amdgcn_cut_bf16, .to_f16 = amdgcn_to_f16, .to_fp4 = amdgcn_to_fp4,
	.to_integer = amdgcn_to_integer,
	.access_open = amdgcn_access_open, .load = amdgcn_load, .store = amdgcn_store, .update = amdgcn_update,
	.product = product, .scaled_product = scaled_product,
};

int amdgcn_translate(struct arena *arena, const struct ir_kernel *k, const struct variant *v, LLVMContextRef ctx, struct translated *out,
                     char *err, size_t errlen)
{
	return emit_kernel(&machine, arena, k, v, ctx, out, err, errlen);
}
