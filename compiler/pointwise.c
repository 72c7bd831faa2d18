/* pointwise.c -- kernels to which rows mean nothing: what they store at a position is made of what they load at the same one.
 * In: an elaborated kernel.  Out: the symbols of rows and columns.  The runtime then calls it with other rows of as many elements.
 * Method: optional tensors that are not [rows, columns] are taken away, since a call that gives one is not meant; what is left to store has
 * to be one phase's, over rows and columns, whose positions say nothing but which element, and reductions that may come in any order. */
#include "pass.h"

struct look { const struct ir_kernel *k; int rows, columns; int row, column; bool fails; };

static bool is_symbol(const struct hexpr *e, int symbol) { return e && e->op == HX_SYM && e->imm == symbol; }

static bool is_matrix(const struct look *l, const struct ir_param *t)
{
	return t->rank == 2 && !t->list && is_symbol(t->extent[0], l->rows) && is_symbol(t->extent[1], l->columns);
}

static bool is_constant(const struct ir_param *t)
{
	for (int d = 0; d < t->rank; d++)
		if (t->extent[d]->op != HX_CONST)
			return false;
	return !t->list;
}

/* The extents of the first output that every call has. */
static bool find_matrix(struct look *l)
{
	for (int p = 0; p < l->k->nparams; p++) {
		const struct ir_param *t = &l->k->params[p];
		if (!t->is_tensor || t->role != IR_OUT || t->optional)
			continue;
		if (t->rank != 2 || t->extent[0]->op != HX_SYM || t->extent[1]->op != HX_SYM)
			return false;
		l->rows = (int)t->extent[0]->imm;
		l->columns = (int)t->extent[1]->imm;
		return l->rows != l->columns;
	}
	return false;
}

/* An axis of a grid for each of the two, and no other of more than one position. */
static bool find_axes(struct look *l)
{
	const struct ir_phase *ph = &l->k->phases[0];
	int64_t n;
	l->row = l->column = -1;
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		if (ax->ragged || ax->kind == AXIS_LOOP)
			return false;
		if (hexpr_is_const(ax->extent, &n) && n == 1)
			continue;
		if (ax->kind != AXIS_GRID)
			return false;
		if (is_symbol(ax->extent, l->rows) && l->row < 0)
			l->row = a;
		else if (is_symbol(ax->extent, l->columns) && l->column < 0)
			l->column = a;
		else
			return false;
	}
	return l->row >= 0 && l->column >= 0;
}

static bool is_position(const struct ir_ins *i, int axis) { return i->op == IR_IOTA && i->imm == axis; }

/* Operand n says which element is accessed, or whether it is there. */
static bool only_places(const struct look *l, const struct ir_ins *i, int n)
{
	if (i->op == IR_LT)
		return (is_position(i->args[0], l->row) && i->args[1]->op == IR_SYM && i->args[1]->imm == l->rows) ||
		       (is_position(i->args[0], l->column) && i->args[1]->op == IR_SYM && i->args[1]->imm == l->columns);
	return (i->op == IR_LOAD || i->op == IR_STORE) && n < l->k->params[i->imm].rank;
}

static bool is_at_its_place(const struct look *l, const struct ir_ins *i)
{
	const struct ir_param *t = &l->k->params[i->imm];
	if (is_matrix(l, t))
		return i->op != IR_UPDATE && is_position(i->args[0], l->row) && is_position(i->args[1], l->column);
	for (int d = 0; d < t->rank; d++)
		if (i->args[d]->op != IR_CONST)
			return false;
	return is_constant(t) && i->op != IR_STORE;
}

static bool in_any_order(const struct ir_ins *i) { return i->kind == RED_MAX || i->kind == RED_MIN; }

static void look_at(struct ir_ins *i, void *ctx)
{
	struct look *l = ctx;
	for (int a = 0; a < i->nargs; a++)
		if (i->args[a]->op == IR_IOTA || i->args[a]->op == IR_SYM)
			l->fails = l->fails || !only_places(l, i, a);
	switch (i->op) {
	case IR_UPDATE: l->fails = l->fails || !in_any_order(i) || !is_at_its_place(l, i); break;
	case IR_LOAD: case IR_STORE: l->fails = l->fails || !is_at_its_place(l, i); break;
	case IR_REDUCE: l->fails = l->fails || !in_any_order(i) || i->over != (IR_AXIS(l->row) | IR_AXIS(l->column)); break;
	case IR_IOTA: case IR_YIELD: break;
	default: l->fails = l->fails || !ir_is_pure(i) || i->body || i->op == IR_DOT || i->op == IR_SCAN || i->op == IR_ARGMAX || i->op == IR_LIMIT;
	}
}

bool kernel_is_pointwise(struct arena *arena, const struct ir_kernel *k, const struct target *target, int *rows, int *columns)
{
	struct look l = {.k = k};
	struct variant alone = {.target = target};
	char why[400];
	if (!find_matrix(&l))
		return false;
	for (int p = 0; p < k->nparams && p < 64; p++)
		if (k->params[p].is_tensor && k->params[p].optional && !is_matrix(&l, &k->params[p]) && !is_constant(&k->params[p]))
			alone.absent |= UINT64_C(1) << p;
	struct pass p = {ir_clone(arena, k), &alone, why, sizeof why};
	if (pass_specialise(&p) || pass_ungroup(&p) || pass_clean(&p) || ir_verify(p.k, why, sizeof why))
		return false;
	l.k = p.k;
	for (int i = 1; i < p.k->nphases; i++)
		if (ir_stores(p.k->phases[i].body))
			return false;
	if (!find_axes(&l))
		return false;
	ir_walk(p.k->phases[0].body, look_at, &l);
	*rows = l.rows;
	*columns = l.columns;
	return !l.fails;
}
