/* lds.c -- what crosses lanes and waves: exchanges inside a wave, LDS addresses, barriers, moves between layouts.
 * In: values under one layout.  Out: the same elements under another.  Barriers are bare s_barrier behind an explicit wait for LDS:
 * a fence would also wait for every global access. */
#include "emit.h"

LLVMValueRef lds_pointer(struct emit *e, LLVMValueRef byte, int constant)
{
	LLVMValueRef p = e->lds, at = constant ? emit_int(e, constant) : NULL;
	if (byte)
		p = LLVMBuildGEP2(e->b, e->i8, p, &byte, 1, "");
	return at ? LLVMBuildGEP2(e->b, e->i8, p, &at, 1, "") : p;
}

void lds_barrier(struct emit *e)
{
	LLVMValueRef lgkm0 = emit_int(e, 0xc07f);        /* gfx9 waitcnt: vmcnt 63, expcnt 7, lgkmcnt 0 */
	if (e->v->waves > 1) {
		emit_call(e, "llvm.amdgcn.s.waitcnt", NULL, 0, &lgkm0, 1);
		emit_call(e, "llvm.amdgcn.s.barrier", NULL, 0, NULL, 0);
	} else {
		emit_call(e, "llvm.amdgcn.wave.barrier", NULL, 0, NULL, 0);
	}
}

LLVMValueRef emit_if_begin(struct emit *e, LLVMValueRef cond)
{
	LLVMBasicBlockRef then = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), join = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildCondBr(e->b, cond, then, join);
	LLVMPositionBuilderAtEnd(e->b, then);
	return LLVMBasicBlockAsValue(join);
}

void emit_if_end(struct emit *e, LLVMValueRef join)
{
	LLVMBuildBr(e->b, LLVMValueAsBasicBlock(join));
	LLVMPositionBuilderAtEnd(e->b, LLVMValueAsBasicBlock(join));
}

static LLVMValueRef dpp(struct emit *e, LLVMValueRef v, int control)
{
	LLVMValueRef args[6] = {LLVMGetPoison(e->i32), v, emit_int(e, control), emit_int(e, 15), emit_int(e, 15), LLVMConstInt(e->i1, 1, 0)};
	LLVMTypeRef t = e->i32;
	return emit_call(e, "llvm.amdgcn.update.dpp", &t, 1, args, 6);
}

/* DPP controls: CDNA3 ISA guide, "DPP control".  Mirrors stand for exclusive or where lower lanes agree. */
LLVMValueRef lane_xor(struct emit *e, LLVMValueRef v, int bit, bool lower_equal)
{
	enum { QUAD_XOR1 = 0xb1, QUAD_XOR2 = 0x4e, ROW_ROR8 = 0x128, ROW_HALF_MIRROR = 0x141 };
	LLVMTypeRef t = LLVMTypeOf(v);
	LLVMValueRef x = t == e->i32 ? v : LLVMBuildBitCast(e->b, v, e->i32, "");
	switch (bit) {
	case 0: x = dpp(e, x, QUAD_XOR1); break;
	case 1: x = dpp(e, x, QUAD_XOR2); break;
	case 3: x = dpp(e, x, ROW_ROR8); break;
	case 2:
		if (lower_equal) {
			x = dpp(e, x, ROW_HALF_MIRROR);
			break;
		}
		/* fall through */
	case 4: {
		LLVMValueRef a[2] = {x, emit_int(e, 0x1f | (1 << bit) << 10)};    /* bit mode: and 31, or 0, xor 2^bit */
		x = emit_call(e, "llvm.amdgcn.ds.swizzle", NULL, 0, a, 2);
		break;
	}
	default: {
		LLVMValueRef other = LLVMBuildXor(e->b, LLVMBuildAnd(e->b, e->tid, emit_int(e, 63), ""), emit_int(e, 1 << bit), "");
		LLVMValueRef a[2] = {LLVMBuildShl(e->b, other, emit_int(e, 2), ""), x};
		x = emit_call(e, "llvm.amdgcn.ds.bpermute", NULL, 0, a, 2);
	}
	}
	return t == e->i32 ? x : LLVMBuildBitCast(e->b, x, t, "");
}

/* --- moves ------------------------------------------------------------------------------------------------------------------ */

static bool same_lanes(struct emit *e, const struct layout *a, const struct layout *b)
{
	for (int bit = 0; bit < a->nlane + a->nwave; bit++)
		for (int x = 0; x < e->ph->naxes; x++) {
			int sa = bit < a->nlane ? a->lane[bit].step[x] : a->wave[bit - a->nlane].step[x];
			int sb = bit < b->nlane ? b->lane[bit].step[x] : b->wave[bit - b->nlane].step[x];
			if (sa != sb)
				return false;
		}
	return true;
}

static void rename_registers(struct emit *e, const struct ir_ins *i)
{
	int regs = layout_regs(i->layout), pack = e->values[i->id].pack;
	for (int r = 0; r < regs; r += pack)
		value_set(e, i, r, pack, value_vector(e, i->args[0], i->layout, r, pack));
}

/* The tile in LDS: rows along `inner`, 16 bytes of padding behind each so that rows start in different banks. */
struct tile { int inner, stride[LAYOUT_AXES], bytes, size; };

static struct tile tile_of(struct emit *e, const struct layout *l, int inner, int bytes)
{
	struct tile t = {.inner = inner, .bytes = bytes};
	int at = 1;
	for (int round = 0; round < 2; round++)
		for (int x = 0; x < e->ph->naxes; x++) {
			if ((x == inner) != (round == 0) || layout_size(l, x) == 1)
				continue;
			t.stride[x] = at;
			at *= layout_size(l, x);
			if (x == inner)
				at += 16 / bytes;
		}
	t.size = at * bytes;
	return t;
}

static LLVMValueRef lane_address(struct emit *e, const struct layout *l, const struct tile *t)
{
	LLVMValueRef sum = NULL;
	for (int x = 0; x < e->ph->naxes; x++) {
		if (!t->stride[x])
			continue;
		LLVMValueRef p = index_lane(e, l, x);
		if (LLVMIsConstant(p))
			continue;
		p = LLVMBuildMul(e->b, p, emit_int(e, t->stride[x] * t->bytes), "");
		sum = sum ? LLVMBuildAdd(e->b, sum, p, "") : p;
	}
	return sum;
}

static int register_address(struct emit *e, const struct layout *l, const struct tile *t, int reg)
{
	int sum = 0;
	for (int x = 0; x < e->ph->naxes; x++)
		if (t->stride[x])
			sum += index_register(l, reg, x) * t->stride[x] * t->bytes;
	return sum;
}

static int run_of(const struct layout *l, const struct tile *t)
{
	int run = t->inner >= 0 ? 1 << layout_vector(l, t->inner) : 1;
	while (run * t->bytes > 16)
		run /= 2;
	return run;
}

void emit_relayout(struct emit *e, const struct ir_ins *i)
{
	const struct ir_ins *v = i->args[0];
	const struct layout *from = v->layout, *to = i->layout;
	value_new(e, i);
	if (same_lanes(e, from, to)) {
		rename_registers(e, i);
		return;
	}
	LLVMTypeRef element = i->dtype == DT_I1 ? e->i8 : emit_type(e, i->dtype);
	int bytes = i->dtype == DT_I1 ? 1 : dtype_info(i->dtype)->bits / 8, inner = -1, best = 0;
	for (int x = 0; x < e->ph->naxes; x++)
		if (layout_vector(to, x) > best) {
			best = layout_vector(to, x);
			inner = x;
		}
	for (int x = 0; inner < 0 && x < e->ph->naxes; x++)
		if (layout_size(to, x) > 1)
			inner = x;
	struct tile t = tile_of(e, to, inner, bytes);
	if (t.size + e->lds_used > e->lds_bytes)
		e->lds_bytes = t.size + e->lds_used;
	if (e->lds_dirty || e->loop_depth)
		lds_barrier(e);
	LLVMValueRef once = index_is_first_copy(e, from), join = NULL;
	LLVMValueRef at = lane_address(e, from, &t);
	int run = run_of(from, &t), regs = layout_regs(from);
	if (once)
		join = emit_if_begin(e, once);
	for (int r = 0; r < regs; r += run) {
		LLVMValueRef x = value_vector(e, v, from, r, run);
		if (i->dtype == DT_I1)
			x = LLVMBuildZExt(e->b, x, emit_vector(e->i8, run), "");
		LLVMSetAlignment(LLVMBuildStore(e->b, x, lds_pointer(e, at, register_address(e, from, &t, r))), (unsigned)(run * bytes));
	}
	if (once)
		emit_if_end(e, join);
	lds_barrier(e);
	at = lane_address(e, to, &t);
	run = run_of(to, &t);
	regs = layout_regs(to);
	for (int r = 0; r < regs; r += run) {
		LLVMValueRef x = LLVMBuildLoad2(e->b, emit_vector(element, run), lds_pointer(e, at, register_address(e, to, &t, r)), "");
		LLVMSetAlignment(x, (unsigned)(run * bytes));
		if (i->dtype == DT_I1)
			x = LLVMBuildTrunc(e->b, x, emit_vector(e->i1, run), "");
		value_set(e, i, r, run, x);
	}
	e->lds_dirty = true;
}
