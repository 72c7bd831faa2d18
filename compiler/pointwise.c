/* pointwise.c -- kernels to which rows mean nothing: what they store at a position is made of what they load at the same one.
 * In: an elaborated kernel.  Out: the symbols of rows and columns.  The runtime then calls it with other rows of as many elements.
 * Method: optional tensors that are not [rows, columns] are taken away, since a call that gives one is not meant; what is left to store has
 * to be one phase's, over rows and columns, whose positions say nothing but which element, and reductions that may come in any order.  So are
 * groups of columns, each by itself, with tensors of a number a group: other rows are then of whole groups. */
#include "affine.h"
#include "pass.h"

/* unit: columns of a group, 1 = there are none; inner: the axis inside it. */
struct look { const struct ir_kernel *k; int rows, columns; int row, column, inner; int64_t unit; bool fails; };

static bool is_symbol(const struct hexpr *e, int symbol) { return e && e->op == HX_SYM && e->imm == symbol; }

static bool is_matrix(const struct look *l, const struct ir_param *t)
{
	return t->rank == 2 && !t->list && is_symbol(t->extent[0], l->rows) && is_symbol(t->extent[1], l->columns);
}

static bool is_groups(const struct look *l, const struct hexpr *e)
{
	int64_t by;
	return e && e->op == HX_CDIV && is_symbol(e->a, l->columns) && hexpr_is_const(e->b, &by) && (l->unit == 1 || by == l->unit);
}

/* A number a group. */
static bool is_of_groups(const struct look *l, const struct ir_param *t)
{
	return t->rank == 2 && !t->list && is_symbol(t->extent[0], l->rows) && is_groups(l, t->extent[1]);
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

/* An axis of a grid for each of the two, or for groups of columns with one for what is in them, and no other of more than one position. */
static bool find_axes(struct look *l)
{
	const struct ir_phase *ph = &l->k->phases[0];
	int64_t n;
	l->row = l->column = l->inner = -1;
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].kind == AXIS_GRID && is_groups(l, ph->axes[a].extent))
			hexpr_is_const(ph->axes[a].extent->b, &l->unit);
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		if (ax->ragged || ax->kind == AXIS_LOOP)
			return false;
		bool number = hexpr_is_const(ax->extent, &n);
		if (number && n == 1)
			continue;
		if (ax->kind == AXIS_GRID && is_symbol(ax->extent, l->rows) && l->row < 0)
			l->row = a;
		else if (ax->kind == AXIS_GRID && (l->unit > 1 ? is_groups(l, ax->extent) : is_symbol(ax->extent, l->columns)) && l->column < 0)
			l->column = a;
		else if (ax->kind == AXIS_HELD && number && l->unit > 1 && n == l->unit && l->inner < 0)
			l->inner = a;
		else
			return false;
	}
	return l->row >= 0 && l->column >= 0 && (l->inner >= 0) == (l->unit > 1);
}

static bool is_position(const struct ir_ins *i, int axis) { return i->op == IR_IOTA && i->imm == axis; }

/* Of an element: its position in its row. */
static bool is_column(const struct look *l, const struct ir_ins *i)
{
	struct affine at = affine_of(i);
	bool is = at.ok && !at.nterms && !at.constant;
	for (int a = 0; is && a < LAYOUT_AXES; a++)
		is = at.coef[a] == (a == l->column ? l->unit : a == l->inner ? 1 : 0);
	return is;
}

/* Made of positions and extents alone. */
static bool is_place(const struct ir_ins *i)
{
	bool any = i->op == IR_IOTA || i->op == IR_SYM;
	if (i->op != IR_ADD && i->op != IR_SUB && i->op != IR_MUL && i->op != IR_DIV)
		return any;
	for (int a = 0; a < i->nargs; a++) {
		if (!is_place(i->args[a]) && i->args[a]->op != IR_CONST)
			return false;
		any = any || i->args[a]->op != IR_CONST;
	}
	return any;
}

/* Operand n says which element is accessed, or whether it is there. */
static bool only_places(const struct look *l, const struct ir_ins *i, int n)
{
	const struct ir_axis *axes = l->k->phases[0].axes;
	if (i->op == IR_LT)
		return (is_position(i->args[0], l->row) && value_is_extent(i->args[1], axes[l->row].extent)) ||
		       (is_position(i->args[0], l->column) && value_is_extent(i->args[1], axes[l->column].extent)) ||
		       (is_column(l, i->args[0]) && i->args[1]->op == IR_SYM && i->args[1]->imm == l->columns);
	return (i->op == IR_LOAD || i->op == IR_STORE) && n < l->k->params[i->imm].rank;
}

static bool is_at_its_place(const struct look *l, const struct ir_ins *i)
{
	const struct ir_param *t = &l->k->params[i->imm];
	if (is_matrix(l, t))
		return i->op != IR_UPDATE && is_position(i->args[0], l->row) && is_column(l, i->args[1]);
	if (l->unit > 1 && is_of_groups(l, t))
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
		if (is_place(i->args[a]) && !is_place(i))
			l->fails = l->fails || !only_places(l, i, a);
	switch (i->op) {
	case IR_UPDATE: l->fails = l->fails || !in_any_order(i) || !is_at_its_place(l, i); break;
	case IR_LOAD: case IR_STORE: l->fails = l->fails || !is_at_its_place(l, i); break;
	case IR_REDUCE: {
		ir_axes inside = l->inner < 0 ? 0 : IR_AXIS(l->inner);
		bool whole = i->over == (IR_AXIS(l->row) | IR_AXIS(l->column) | inside), group = inside && i->over == inside;
		l->fails = l->fails || !in_any_order(i) || !(whole || group);
		break;
	}
	case IR_IOTA: case IR_YIELD: break;
	default: l->fails = l->fails || !ir_is_pure(i) || i->body || i->op == IR_DOT || i->op == IR_SCAN || i->op == IR_ARGMAX || i->op == IR_LIMIT;
	}
}

bool kernel_is_pointwise(struct arena *arena, const struct ir_kernel *k, const struct target *target, int *rows, int *columns)
{
	struct look l = {.k = k, .unit = 1};
	struct variant alone = {.target = target};
	char why[400];
	if (!find_matrix(&l))
		return false;
	for (int p = 0; p < k->nparams && p < 64; p++)
		if (k->params[p].is_tensor && k->params[p].optional && !is_matrix(&l, &k->params[p]) && !is_of_groups(&l, &k->params[p]) && !is_constant(&k->params[p]))
			alone.absent |= UINT64_C(1) << p;
	struct pass p = {.k = ir_clone(arena, k), .v = &alone, .err = why, .errlen = sizeof why};
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
