/* rounds.c -- rows that may not be there, taken one after the other by fewer workgroups.
 * In: a phase, its grid bound (grid.c), before and after its code.  Out: that code in a loop over every so many-th row of the workgroup's group; or,
 * where the condition counts them, of those that are there (counted.c).
 * A batch has room for all rows, of which most are not there in a call that serves a model: a workgroup that starts, asks and leaves costs
 * 0.7 ns of the chip, whatever it would have done, 80 us where 32 experts have room for 4,096 rows each.  Neighbours take neighbouring rows, as
 * those that are there come first, and where the condition says so who finds one missing is done. */
#include "../../pass.h"
#include "machine.h"

/* The condition that is asked in front of all that a row does (pass_guard.c), or NULL: nothing but it, and what it is made of, stands beside it, and
 * where it does not hold nothing is done. */
static const struct ir_ins *condition_of(const struct ir_block *b)
{
	const struct ir_ins *i = b->first;
	while (i && ir_is_pure(i))
		i = i->next;
	return i && i->op == IR_IF && i->next == b->last && i->other->first == i->other->last ? i->args[0] : NULL;
}

/* How many rows a position along axis `rows` stands for, in a position that begins with it; 0 = it is another. */
static int64_t rows_each(const struct ir_phase *ph, const struct ir_ins *i, int rows)
{
	if (i->op == IR_IOTA)
		return i->imm == rows ? 1 : 0;
	if (i->op == IR_REDUCE && i->kind == RED_MIN)
		return rows_each(ph, i->args[0], rows);
	if (i->op == IR_MUL && i->args[1]->op == IR_CONST)
		return rows_each(ph, i->args[0], rows) * i->args[1]->imm;
	bool within = i->op == IR_ADD && i->args[1]->op == IR_REDUCE && i->args[1]->kind == RED_MIN && i->args[1]->args[0]->op == IR_IOTA;
	return within && ph->axes[i->args[1]->args[0]->imm].kind == AXIS_HELD ? rows_each(ph, i->args[0], rows) : 0;
}

/* `row < count`, of a row or a tile's first, and of a count that each position along one other axis of the grid has for itself. */
const struct ir_ins *rounds_count(const struct ir_phase *ph, int rows, int *group)
{
	const struct ir_ins *c = condition_of(ph->body);
	while (c && c->op == IR_REDUCE && c->kind == RED_ANY)
		c = c->args[0];
	const struct hexpr *n = ph->axes[rows].extent;
	int64_t group_rows = 1;
	if (n && n->op == HX_CDIV)
		hexpr_is_const(n->b, &group_rows);
	if (!c || c->op != IR_LT || rows_each(ph, c->args[0], rows) != group_rows || c->args[1]->dtype != DT_I32)
		return NULL;
	for (int a = 0; a < ph->naxes; a++)
		if (c->args[1]->axes == IR_AXIS(a) && a != rows && ph->axes[a].kind == AXIS_GRID && ph->axes[a].tile == 1 && !ph->axes[a].ragged) {
			*group = a;
			return c->args[1];
		}
	return NULL;
}

/* Where it does not hold for a position of the axis it does not for those behind. */
static bool ends_with(const struct ir_ins *c, int axis)
{
	if (c->op == IR_REDUCE)
		return c->kind == RED_ANY && ends_with(c->args[0], axis);
	if (c->op == IR_AND)
		return ends_with(c->args[0], axis) && ends_with(c->args[1], axis);
	bool below = c->op == IR_LT || c->op == IR_LE;
	return !(c->axes & IR_AXIS(axis)) || (below && c->args[0]->op == IR_IOTA && c->args[0]->imm == axis && !(c->args[1]->axes & IR_AXIS(axis)));
}

void rounds_begin(struct emit *e, struct rounds *r)
{
	*r = (struct rounds){.axis = -1};
	if (!grid_rounds(e, r))
		return;
	e->repeats = true;
	if (r->count) {
		counted_begin(e, r);
		e->known = condition_of(e->ph->body);
		return;
	}
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
	r->loop = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildBr(e->b, r->loop);
	LLVMPositionBuilderAtEnd(e->b, r->loop);
	r->row = LLVMBuildPhi(e->b, e->i32, "");
	LLVMAddIncoming(r->row, &e->axis_base[r->axis], &before, 1);
	e->axis_base[r->axis] = r->row;
}

void rounds_end(struct emit *e, const struct rounds *r)
{
	if (r->axis < 0)
		return;
	if (e->lds_bytes || e->lds_small_bytes)          /* the next round writes what other waves may still read */
		lds_barrier(e);
	if (r->count) {
		counted_end(e, r);
		e->known = NULL;
		return;
	}
	const struct ir_ins *c = condition_of(e->ph->body);
	LLVMValueRef next = LLVMBuildAdd(e->b, r->row, e->machine->workgroups(e, 0), "");
	LLVMValueRef more = LLVMBuildICmp(e->b, LLVMIntULT, next, emit_hexpr(e, e->ph->axes[r->axis].extent), "");
	if (c && ends_with(c, r->axis))
		more = LLVMBuildAnd(e->b, e->values[c->id].group[0], more, "");
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b), out = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildCondBr(e->b, more, r->loop, out);
	LLVMAddIncoming(r->row, &next, &latch, 1);
	LLVMPositionBuilderAtEnd(e->b, out);
}
