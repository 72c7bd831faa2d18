/* ahead.c -- what a later workgroup loads, asked for by this one.
 * In: loads of a tile, variant.ahead, workgroups that lie side by side in rows.  Out: behind them, the L2 is asked for the tile of the workgroup
 * about so many further on: below this one, so that one number, which the launch makes, is as far for all; of few workgroups (variant.ahead_from)
 * nothing is asked for.
 * All that is resident waits for memory at the same time: what is in the L2 by then comes in half of it.  Asked for too early it has left
 * the L2 again (docs/performance.md). */
#include "machine.h"
#include "memory.h"

#include "../../pass.h"

enum {
	LINE = 128,                          /* bytes that the L2 brings at a time (CUDA's guide to best practices) */
	NOWHERE = 1 << 30,                   /* rows below: more than there are */
};

const struct hexpr *ahead_below(struct emit *e, const struct hexpr *columns, const struct hexpr *rows)
{
	struct arena *a = e->arena;
	const struct hexpr *one = hexpr_const(a, 1), *row = hexpr_op(a, HX_MAX, columns, one);
	const struct hexpr *below = hexpr_op(a, HX_MAX, hexpr_op(a, HX_DIV, hexpr_const(a, e->v->ahead), row), one);
	const struct hexpr *few = hexpr_op(a, HX_LE, hexpr_op(a, HX_MUL, columns, rows), hexpr_const(a, e->v->ahead_from));
	return e->v->ahead_from ? hexpr_op(a, HX_ADD, below, hexpr_op(a, HX_MUL, few, hexpr_const(a, NOWHERE))) : below;
}

/* The last row of tiles is asked for by nobody: it may end early. */
void ahead_bind(struct emit *e)
{
	e->ahead = op_times(e, e->told[TOLD_BELOW], e->ph->axes[e->grid_axis[1]].tile);
	LLVMValueRef at = LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, grid_row(e), e->told[TOLD_BELOW], ""), emit_int(e, 1), "");
	e->ahead_there = LLVMBuildICmp(e->b, LLVMIntULT, at, grid_rows(e), "");
}

/* From what the access loads to what it would load there, i64; NULL = it would be the same. */
static LLVMValueRef bytes_ahead(struct emit *e, const struct access *a)
{
	LLVMValueRef bytes = NULL;
	for (int d = 0; d < a->t->rank; d++) {
		int64_t each = a->sub[d].coef[e->grid_axis[1]] * a->bytes;
		LLVMValueRef stride = e->tensors[a->i->imm].stride[d];
		if (!each)
			continue;
		LLVMValueRef n = op_times(e, LLVMBuildSExt(e->b, e->ahead, e->i64, ""), each);
		if (stride)
			n = LLVMBuildMul(e->b, n, LLVMBuildZExt(e->b, stride, e->i64, ""), "");
		bytes = bytes ? LLVMBuildAdd(e->b, bytes, n, "") : n;
	}
	return bytes;
}

LLVMValueRef ahead_lane(struct emit *e, const struct access *a)
{
	LLVMValueRef in_line = LLVMBuildAnd(e->b, a->lane, emit_int(e, LINE - access_bytes(a)), "");
	return LLVMBuildICmp(e->b, LLVMIntEQ, in_line, emit_int(e, 0), "");      /* wherever the line begins */
}

/* Nothing where some of a tile may be masked off, for beyond the tensor asking costs more than loading, unless by positions alone: what is
 * beside a row's end is then the next one's.  Nor of a tensor that may be absent: asking for what no page holds takes thirty times a load's time. */
void ahead_fetch(struct emit *e, const struct access *a)
{
	bool masked = a->mask && !(e->told[TOLD_BELOW] && !a->mask->layout);
	if (!e->machine->fetch || !a->affine || !a->l || masked || a->fold || e->loop_depth || a->t->role != IR_IN || variant_may_lack(e->v, e->k, a->i->imm))
		return;
	LLVMValueRef bytes = bytes_ahead(e, a), one = LLVMBuildAnd(e->b, ahead_lane(e, a), e->ahead_there, "");
	for (int r = 0; bytes && r < layout_regs(a->l); r += a->width)
		e->machine->fetch(e, a, r, bytes, one);
}
