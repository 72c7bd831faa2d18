/* machine.c -- the NVPTX family's answers to emit/machine.h: who a thread is, shuffles, barriers, arithmetic with an instruction.
 * In: values of the kernel under translation.  Out: calls of LLVM's NVVM intrinsics, or PTX where LLVM has none.
 * Approximate functions are the .ftz forms: a denormal is zero there, as base/num.h defines them. */
#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_ARGS = 64, LAST_WORKGROUPS = 1056 };      /* the latter eight on each of an H200's multiprocessors */

LLVMValueRef nvptx_text(struct emit *e, const char *text, const char *constraints, LLVMTypeRef result, LLVMValueRef *args, int nargs, bool effect)
{
	LLVMTypeRef types[TEXT_ARGS];
	for (int i = 0; i < nargs; i++)
		types[i] = LLVMTypeOf(args[i]);
	LLVMTypeRef t = LLVMFunctionType(result, types, (unsigned)nargs, 0);
	LLVMValueRef f = LLVMGetInlineAsm(t, text, strlen(text), constraints, strlen(constraints), effect, 0, LLVMInlineAsmDialectATT, 0);
	return LLVMBuildCall2(e->b, t, f, args, (unsigned)nargs, "");
}

/* --- identity --------------------------------------------------------------------------------------------------------------- */

static void say(struct emit *e, const char *what, const char *number)
{
	LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex, LLVMCreateStringAttribute(e->ctx, what, (unsigned)strlen(what), number, (unsigned)strlen(number)));
}

static void kernel(struct emit *e)
{
	char text[16];
	LLVMSetFunctionCallConv(e->fn, 71);                  /* ptx_kernel */
	const struct hexpr *lanes;
	snprintf(text, sizeof text, "%d", waves_lanes(e, &lanes));
	say(e, lanes ? "nvvm.maxntid" : "nvvm.reqntid", text);
	snprintf(text, sizeof text, "%d,1,1", e->cluster);
	if (e->cluster)
		say(e, "nvvm.cluster_dim", text);
	snprintf(text, sizeof text, "%d", variant_each(e->v));
	if (e->v->carries && e->v->many && e->ph == e->k->phases)
		say(e, "nvvm.minctasm", text);
}

static LLVMValueRef workgroup(struct emit *e, int dim)
{
	static const char *const id[] = {"llvm.nvvm.read.ptx.sreg.ctaid.x", "llvm.nvvm.read.ptx.sreg.ctaid.y", "llvm.nvvm.read.ptx.sreg.ctaid.z"};
	return emit_call(e, id[dim], NULL, 0, NULL, 0);
}

/* Along x and y; LLVM joins what is asked twice. */
static LLVMValueRef workgroups(struct emit *e, int dim)
{
	return emit_call(e, dim ? "llvm.nvvm.read.ptx.sreg.nctaid.y" : "llvm.nvvm.read.ptx.sreg.nctaid.x", NULL, 0, NULL, 0);
}

/* Waves of a workgroup wait for each other: for what is reduced, for tiles that are turned. */
struct crossing { const struct emit *e; bool found; };

static bool changes_waves(const struct ir_ins *i)
{
	const struct layout *from = i->op == IR_RELAYOUT ? i->args[0]->layout : NULL, *to = i->layout;
	return from && to && (from->nwave != to->nwave || memcmp(from->wave, to->wave, to->nwave * sizeof *to->wave));
}

static void find_crossing(struct ir_ins *i, void *ctx)
{
	struct crossing *c = ctx;
	const struct layout *l = i->op == IR_REDUCE ? i->args[0]->layout : NULL;
	c->found = c->found || changes_waves(i);
	for (int w = 0; l && w < l->nwave; w++)
		for (int a = 0; a < c->e->ph->naxes; a++)
			c->found = c->found || ((i->over & IR_AXIS(a)) && l->wave[w].step[a]);
}

/* The next launch may take its place once each workgroup of this one has said so or is done (PTX ISA, griddepcontrol).  To say so takes
 * about a nanosecond of the whole chip's: of a large grid only the last do, when most others are done.  Where they say so before they
 * wait themselves many launches wait at a time, and those behind find the multiprocessors filled unevenly.  That costs more than it
 * saves where waves or workgroups wait for each other, up to three times what the smallest grids take (docs/performance.md, 2026-11-29): these
 * say so behind their own wait.  There ptxas would wait first of all; what finds the workgroup's place stands in front for a predicate that never holds.
 * Loads that LLVM takes for free of effects would move up past the text but for the pointers that come out of it. */
static void wait_for_launch(struct emit *e, LLVMValueRef *pointers, int n)
{
	char text[160], form[8 * TEXT_ARGS] = "";
	LLVMTypeRef types[TEXT_ARGS];
	LLVMValueRef args[TEXT_ARGS];
	struct crossing crossing = {e, e->cluster > 1};
	int at = 0;
	if (n > TEXT_ARGS / 2) {
		emit_fail(e, NULL, "internal: more than %d pointers", TEXT_ARGS / 2);
		return;
	}
	ir_walk(e->ph->body, find_crossing, &crossing);
	for (int i = 0; i < n; i++) {
		types[i] = LLVMTypeOf(pointers[i]);
		args[i] = pointers[i];
		at += snprintf(form + at, sizeof form - (size_t)at, "=l,");
	}
	for (int i = 0; i < n; i++)
		at += snprintf(form + at, sizeof form - (size_t)at, "%d,", i);
	args[n] = grid_is_last(e);
	args[n + 1] = crossing.found ? grid_is_beyond(e) : NULL;
	snprintf(form + at, sizeof form - (size_t)at, crossing.found ? "b,b,~{memory}" : "b,~{memory}");
	if (crossing.found)
		snprintf(text, sizeof text, "@$%d griddepcontrol.launch_dependents; griddepcontrol.wait; @$%d griddepcontrol.launch_dependents;", 2 * n + 1, 2 * n);
	else
		snprintf(text, sizeof text, "@$%d griddepcontrol.launch_dependents; griddepcontrol.wait;", 2 * n);
	LLVMTypeRef result = n > 1 ? LLVMStructTypeInContext(e->ctx, types, (unsigned)n, 0) : n ? types[0] : LLVMVoidTypeInContext(e->ctx);
	LLVMValueRef x = nvptx_text(e, text, form, result, args, n + 1 + crossing.found, true);
	for (int i = 0; i < n; i++)
		pointers[i] = n > 1 ? LLVMBuildExtractValue(e->b, x, (unsigned)i, "") : x;
}

static void leave(struct emit *e, LLVMValueRef i1)
{
	nvptx_text(e, "@$0 exit;", "b,~{memory}", LLVMVoidTypeInContext(e->ctx), &i1, 1, true);
}

/* A grid is not empty; LLVM knows that of its own name for the register. */
static LLVMValueRef certain(struct emit *e)
{
	LLVMValueRef size = nvptx_text(e, "mov.u32 $0, %nctaid.x;", "=r", e->i32, NULL, 0, false);
	return LLVMBuildICmp(e->b, LLVMIntNE, size, emit_int(e, 0), "");
}

static LLVMValueRef thread(struct emit *e)
{
	return emit_call(e, "llvm.nvvm.read.ptx.sreg.tid.x", NULL, 0, NULL, 0);
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
	return shuffle(e, "llvm.nvvm.shfl.sync.bfly.i32", LLVMBuildBitCast(e->b, x, e->i32, ""), emit_int(e, 1 << bit));
}

static LLVMValueRef gather(struct emit *e, LLVMValueRef x, LLVMValueRef lane)
{
	return shuffle(e, "llvm.nvvm.shfl.sync.idx.i32", x, lane);
}

static LLVMValueRef sum(struct emit *e, LLVMValueRef x)
{
	LLVMValueRef a[2] = {x, emit_int(e, -1)};
	return emit_call(e, "llvm.nvvm.redux.sync.add", NULL, 0, a, 2);
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
	LLVMValueRef number = emit_int(e, 0), all = emit_int(e, -1), wave = emit_int(e, e->v->target->wave);
	LLVMValueRef team[2] = {e->team, e->team_there ? LLVMBuildMul(e->b, e->team_there, wave, "") : emit_int(e, e->v->target->wave * e->team_waves)};
	if (e->team && e->team_waves > 1)
		emit_call(e, "llvm.nvvm.barrier.cta.sync.aligned.count", NULL, 0, team, 2);
	else if (!e->team && e->waves > 1)
		emit_call(e, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, 0, &number, 1);
	else
		emit_call(e, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
}

/* By one thread, while the others go on. */
static LLVMValueRef is_one(struct emit *e) { return LLVMBuildICmp(e->b, LLVMIntEQ, e->tid, emit_int(e, 0), ""); }

/* As CUDA's grid groups do (cooperative_groups/details): of a launch whose workgroups all run at a time the driver has four bytes for them, whose highest
 * bit turns when all have come, and names the place in two registers.  One thread of each comes and waits for all; a warp's others go with it. */
static LLVMValueRef meeting_place(struct emit *e)
{
	static const char *const text[] = {"mov.u32 $0, %envreg1;", "mov.u32 $0, %envreg2;"};
	LLVMValueRef half[2];
	for (int h = 0; h < 2; h++)
		half[h] = LLVMBuildZExt(e->b, nvptx_text(e, text[h], "=r", e->i32, NULL, 0, true), e->i64, "");
	return LLVMBuildIntToPtr(e->b, LLVMBuildOr(e->b, LLVMBuildShl(e->b, half[0], LLVMConstInt(e->i64, 32, 0), ""), half[1], ""), e->p1, "");
}

static void workgroups_meet(struct emit *e)
{
	LLVMValueRef rest = LLVMBuildSub(e->b, LLVMConstInt(e->i32, 0x80000001u, 0), grid_workgroups(e), ""), place = meeting_place(e);
	LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntEQ, grid_workgroup(e), emit_int(e, 0), "");
	LLVMValueRef args[3] = {place, is_one(e), LLVMBuildSelect(e->b, first, rest, emit_int(e, 1), "")};
	barrier(e);
	LLVMValueRef was = nvptx_text(e, "mov.b32 $0, 0; @$2 atom.add.acq_rel.gpu.global.u32 $0, [$1+4], $3;", "=&r,l,b,r,~{memory}", e->i32, args, 3, true);
	LLVMBasicBlockRef again = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), next = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildBr(e->b, again);
	LLVMPositionBuilderAtEnd(e->b, again);
	LLVMValueRef now = nvptx_text(e, "mov.b32 $0, -2147483648; @$2 ld.acquire.gpu.global.u32 $0, [$1+4];", "=&r,l,b,~{memory}", e->i32, args, 2, true);
	LLVMValueRef waits = ballot(e, LLVMBuildICmp(e->b, LLVMIntSGE, LLVMBuildXor(e->b, now, was, ""), emit_int(e, 0), ""));
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, waits, emit_int(e, 0), ""), next, again);
	LLVMPositionBuilderAtEnd(e->b, next);
	barrier(e);
}

/* ptxas decides for itself what is live. */
static LLVMValueRef settled(struct emit *e, LLVMValueRef x)
{
	(void)e;
	return x;
}

/* Not from the same second on for all chips, but in ns for all (PTX ISA, %globaltimer). */
static LLVMValueRef time_now(struct emit *e)
{
	return emit_call(e, "llvm.nvvm.read.ptx.sreg.globaltimer", NULL, 0, NULL, 0);
}

static void keep_order(struct emit *e)
{
	(void)e;                                             /* ptxas orders as its registers allow */
}

/* --- clusters --------------------------------------------------------------------------------------------------------------- */

static LLVMValueRef member(struct emit *e)
{
	return emit_call(e, "llvm.nvvm.read.ptx.sreg.cluster.ctarank", NULL, 0, NULL, 0);
}

static LLVMValueRef member_place(struct emit *e, LLVMValueRef lds, LLVMValueRef number)
{
	LLVMValueRef a[2] = {lds, number};
	return emit_call(e, "llvm.nvvm.mapa.shared.cluster", NULL, 0, a, 2);
}

/* Counters wait for one arrival, which says how many bytes are to come (PTX ISA, mbarrier). */
static void members_begin(struct emit *e, LLVMValueRef counters, int n)
{
	LLVMTypeRef none = LLVMVoidTypeInContext(e->ctx);
	LLVMValueRef join = emit_if_begin(e, is_one(e));
	for (int k = 0; k < n; k++) {
		LLVMValueRef counter = lds_pointer(e, counters, NULL, 8 * k);
		nvptx_text(e, "mbarrier.init.shared::cta.b64 [$0], 1;", "l,~{memory}", none, &counter, 1, true);
	}
	nvptx_text(e, "fence.mbarrier_init.release.cluster;", "~{memory}", none, NULL, 0, true);
	emit_if_end(e, join);
	emit_call(e, "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned", NULL, 0, NULL, 0);
}

static void members_ready(struct emit *e)
{
	emit_call(e, "llvm.nvvm.barrier.cluster.wait.aligned", NULL, 0, NULL, 0);
}

static void member_send(struct emit *e, LLVMValueRef place, LLVMValueRef *words, int n, LLVMValueRef counter)
{
	static const char *const text[] = {[1] = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $2, [$1];",
	                                   [2] = "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [$0], {$2, $3}, [$1];",
	                                   [4] = "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [$0], {$2, $3, $4, $5}, [$1];"};
	static const char *const form[] = {[1] = "l,l,r,~{memory}", [2] = "l,l,r,r,~{memory}", [4] = "l,l,r,r,r,r,~{memory}"};
	LLVMValueRef args[6] = {place, counter};
	for (int k = 0; k < n; k++)
		args[2 + k] = LLVMBuildBitCast(e->b, words[k], e->i32, "");
	nvptx_text(e, text[n], form[n], LLVMVoidTypeInContext(e->ctx), args, 2 + n, true);
}

/* Under a mask, not behind a branch: what the workgroup computes meanwhile goes on in one block (emit/order.c). */
static void members_expect(struct emit *e, LLVMValueRef counter, int bytes)
{
	LLVMValueRef args[3] = {counter, emit_int(e, bytes), is_one(e)};
	nvptx_text(e, "@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "l,r,b,~{memory}", LLVMVoidTypeInContext(e->ctx), args, 3, true);
}

static void members_receive(struct emit *e, LLVMValueRef counter)
{
	LLVMBasicBlockRef again = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), next = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildBr(e->b, again);
	LLVMPositionBuilderAtEnd(e->b, again);
	LLVMValueRef done = nvptx_text(e, "mbarrier.try_wait.parity.shared::cta.b64 $0, [$1], 0;", "=b,l,~{memory}", e->i1, &counter, 1, true);
	LLVMBuildCondBr(e->b, done, next, again);
	LLVMPositionBuilderAtEnd(e->b, next);
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

/* --- matrix ----------------------------------------------------------------------------------------------------------------- */

/* b has the words of the instruction's own A: those of row lane / 4, then those of the row 8 below; it takes them by turns. */
static LLVMValueRef multiply(struct emit *e, const struct mfma *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc)
{
	LLVMValueRef args[10], d = LLVMGetPoison(LLVMTypeOf(acc));
	static const int turn[4] = {0, 2, 1, 3};
	for (int i = 0; i < 4; i++) {
		args[i] = LLVMBuildExtractElement(e->b, b, emit_int(e, turn[i]), "");
		args[6 + i] = LLVMBuildExtractElement(e->b, acc, emit_int(e, i), "");
	}
	for (int i = 0; i < 2; i++)
		args[4 + i] = LLVMBuildExtractElement(e->b, a, emit_int(e, i), "");
	for (int i = 0; i < 6 && m->a == DT_F16; i++)
		args[i] = LLVMBuildBitCast(e->b, args[i], emit_vector(e->f16, 2), "");
	LLVMValueRef x = emit_call(e, m->intrinsic, NULL, 0, args, 10);
	for (int i = 0; i < 4 && !e->failed; i++)
		d = LLVMBuildInsertElement(e->b, d, LLVMBuildExtractValue(e->b, x, (unsigned)i, ""), emit_int(e, i), "");
	return d;
}

/* f32 as two tf32 of 11 bits each.  near: `high` of what is finite and 0 of what is not, whose low part is 0 as well: an infinity times the low part of a
 * number, often 0, would be NaN. */
struct halves { LLVMValueRef high, near, low; };

static struct halves split(struct emit *e, LLVMValueRef words)
{
	int n = vector_length(words);
	LLVMTypeRef real = emit_vector(e->f32, n), bits = emit_vector(e->i32, n);
	LLVMValueRef zero = LLVMConstNull(bits), infinity = op_splat(e, emit_int(e, 0x7f800000), n), nan = op_splat(e, emit_int(e, 0x7fc00000), n);
	LLVMValueRef magnitude = LLVMBuildAnd(e->b, words, op_splat(e, emit_int(e, 0x7fffffff), n), "");
	LLVMValueRef high = LLVMBuildAnd(e->b, words, op_splat(e, emit_int(e, (int64_t)0xffffe000), n), "");
	LLVMValueRef rest = LLVMBuildFSub(e->b, LLVMBuildBitCast(e->b, words, real, ""), LLVMBuildBitCast(e->b, high, real, ""), "");
	LLVMValueRef finite = LLVMBuildICmp(e->b, LLVMIntULT, magnitude, infinity, "");
	return (struct halves){
		.high = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntUGT, magnitude, infinity, ""), nan, high, ""),   /* whose bits may all be low ones */
		.near = LLVMBuildSelect(e->b, finite, high, zero, ""),
		.low = LLVMBuildSelect(e->b, finite, LLVMBuildBitCast(e->b, rest, bits, ""), zero, ""),
	};
}

static LLVMValueRef product(struct emit *e, const struct mfma *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc)
{
	if (m->a != DT_F32)
		return multiply(e, m, a, b, acc);
	/* what is left out is below 2^-21 of the product */
	struct halves x = split(e, a), y = split(e, b);
	acc = multiply(e, m, x.low, y.near, acc);
	acc = multiply(e, m, x.near, y.low, acc);
	return multiply(e, m, x.high, y.high, acc);
}

static const struct machine machine = {
	.kernel = kernel, .line_directives = true, .joins = true, .keeps_order = true, .separator = '_', .grid_dims = 1, .grid_short = 65535, .argument_unit = 1, .static_lds = 48 << 10,
	.last_workgroups = LAST_WORKGROUPS, .wait_for_launch = wait_for_launch, .certain = certain, .thread = thread, .workgroup = workgroup, .workgroups = workgroups, .leave = leave, .hidden_copy = same,
	.row_bits = 5, .lane_xor = exchange, .lane_gather = gather, .lane_read = gather, .lanes_sum = sum, .ballot = ballot, .uniform = uniform,
	.member = member, .member_place = member_place, .members_begin = members_begin, .members_ready = members_ready,
	.member_send = member_send, .members_expect = members_expect, .members_receive = members_receive,
	.barriers = 16, .workgroups_meet = workgroups_meet, .barrier = barrier, .memory_barrier = barrier, .time = time_now, .keep_order = keep_order, .settled = settled,
	.approximate = approximate, .clamp = clamp, .to_fp8 = nvptx_to_fp8, .from_fp8 = nvptx_from_fp8, .from_fp4 = nvptx_from_fp4, .from_bf16 = nvptx_from_bf16, .widened_again = nvptx_widened_again, .to_integer = nvptx_to_integer,
	.access_open = nvptx_access_open, .load = nvptx_load, .fetch = nvptx_fetch, .stage = nvptx_stage, .stage_close = nvptx_stage_close, .staged = nvptx_staged, .store = nvptx_store, .update = nvptx_update,
	.product = product, .quad_product = nvptx_quad_product, .quads_wait = nvptx_quads_wait, .quads_see = nvptx_quads_see,
};

int nvptx_translate(struct arena *arena, const struct ir_kernel *k, const struct variant *v, LLVMContextRef ctx, struct translated *out,
                    char *err, size_t errlen)
{
	return emit_kernel(&machine, arena, k, v, ctx, out, err, errlen);
}
