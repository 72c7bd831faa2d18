/* ahead.c -- what a later workgroup loads, asked for by this one.
 * In: loads of a tile, variant.ahead.  Out: behind them, the L2 is asked for the tile of the workgroup so many further on in the grid's order,
 * or, where those that follow each other lie side by side, about so many: below this one, so that one number is as far for all; of few workgroups
 * (variant.ahead_from) nothing is asked for.
 * All that is resident waits for memory at the same time: what is in the L2 by then comes in half of it.  Asked for too early it has left
 * the L2 again (docs/performance.md). */
#include "machine.h"
#include "memory.h"

#include "../../pass.h"

enum { LINE = 128 };                         /* bytes that the L2 brings at a time (CUDA's guide to best practices) */

/* How far away along dimension `dim`, in positions of its axis. */
static void set_distance(struct emit *e, int dim, LLVMValueRef tiles)
{
	e->ahead[e->grid_axis[dim]] = op_times(e, tiles, e->ph->axes[e->grid_axis[dim]].tile);
}

const struct hexpr *ahead_below(struct emit *e, const struct hexpr *columns)
{
	const struct hexpr *one = hexpr_const(e->arena, 1), *row = hexpr_op(e->arena, HX_MAX, columns, one);
	return hexpr_op(e->arena, HX_MAX, hexpr_op(e->arena, HX_DIV, hexpr_const(e->arena, e->v->ahead), row), one);
}

/* The last row of tiles is asked for by nobody: it may end early. */
static void bind_below(struct emit *e)
{
	set_distance(e, 1, e->told[TOLD_BELOW]);
	LLVMValueRef at = LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, e->machine->workgroup(e, 1), e->told[TOLD_BELOW], ""), emit_int(e, 1), "");
	e->ahead_there = LLVMBuildICmp(e->b, LLVMIntULT, at, e->machine->workgroups(e, 1), "");
}

void ahead_bind(struct emit *e, const struct hexpr *const *grid, int dims)
{
	if (dims > 2)
		return;
	e->ahead = arena_alloc(e->arena, sizeof *e->ahead * LAYOUT_AXES);
	if (e->told[TOLD_BELOW]) {
		bind_below(e);
		return;
	}
	LLVMValueRef x = e->machine->workgroup(e, 0), columns = emit_hexpr(e, grid[0]);
	LLVMValueRef later = LLVMBuildAdd(e->b, x, emit_int(e, e->v->ahead), "");
	LLVMValueRef many = e->v->ahead_from ? LLVMBuildICmp(e->b, LLVMIntUGT, grid_workgroups(e), emit_int(e, e->v->ahead_from), "") : NULL;
	if (dims == 1) {
		set_distance(e, 0, emit_int(e, e->v->ahead));
		e->ahead_there = emit_both(e, many, LLVMBuildICmp(e->b, LLVMIntULT, later, columns, ""));
		return;
	}
	LLVMValueRef down = LLVMBuildUDiv(e->b, later, columns, ""), at = LLVMBuildSub(e->b, later, LLVMBuildMul(e->b, down, columns, ""), "");
	LLVMValueRef row = LLVMBuildAdd(e->b, e->machine->workgroup(e, 1), down, "");
	set_distance(e, 0, LLVMBuildSub(e->b, at, x, ""));
	set_distance(e, 1, down);
	e->ahead_there = emit_both(e, many, LLVMBuildICmp(e->b, LLVMIntULT, row, emit_hexpr(e, grid[1]), ""));
}

/* From what the access loads to what it would load there, i64; NULL = it would be the same. */
static LLVMValueRef bytes_ahead(struct emit *e, const struct access *a)
{
	LLVMValueRef bytes = NULL;
	for (int d = 0; d < a->t->rank; d++)
		for (int x = 0; x < e->ph->naxes; x++) {
			if (!a->sub[d].coef[x] || !e->ahead[x])
				continue;
			LLVMValueRef stride = e->tensors[a->i->imm].stride[d], n = LLVMBuildSExt(e->b, e->ahead[x], e->i64, "");
			n = op_times(e, n, a->sub[d].coef[x] * a->bytes);
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
