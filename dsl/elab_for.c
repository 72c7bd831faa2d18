/* elab_for.c -- `for`: bounds, the loop's axis, state carried through it.
 *
 * In: a binder and a block.  Out: an IR_FOR.  Bounds are scalars of the workgroup, so a bound that differs between positions
 * of a tile (j <= i + c, or a length read per row) becomes the least start and the greatest end of the tile, and a guard keeps
 * what differs.  Bounds read from device memory are clamped to the tensor dimension that the index subscripts. */
#include <string.h>
#include "elab.h"

struct bounds { struct ir_ins *start, *end; };        /* scalars */

static struct ir_ins *i32(struct elab *E, int64_t v) { return ir_int(&E->b, DT_I32, v); }

/* The least or greatest value of `a` in the tile. */
static struct ir_ins *over_tile(struct elab *E, enum ir_reduce kind, struct ir_ins *a)
{
	guard_set used;
	if (!a->axes)
		return a;
	guards_for_reduction(E, a->axes, used);
	for (int i = 0; i < E->nguards; i++)
		used[i] = used[i] && !(E->guards[i].axes & ~a->axes) && a->op != IR_IOTA;
	struct elab_bound bound = {ir_reduce(&E->b, kind, a, a->axes, guards_and(E, used)), NULL};
	ARENA_PUSH(E->ar, &E->bounds, bound);
	return (struct ir_ins *)bound.ins;
}

static bool reads_memory(const struct ir_ins *a, int depth)
{
	bool reads = a->op == IR_LOAD || depth > 16;
	for (int i = 0; i < a->nargs && !reads; i++)
		reads = reads_memory(a->args[i], depth + 1);
	return reads;
}

/* --- where narrows the bounds: in form >= 0 the index has coefficient -1 (an end) or 1 (a start) */

static void narrow_by(struct elab *E, const struct lin *f, const struct ir_ins *index, struct bounds *b)
{
	int64_t k = lin_coefficient(f, index);
	struct ir_ins *sum = NULL;
	if (f->bad || (k != 1 && k != -1))
		return;
	for (int negative = 0; negative < 2; negative++)      /* what is added first, so that differences read as such */
		for (int i = 0; i < f->n; i++) {
			int64_t c = k < 0 ? f->t[i].k : -f->t[i].k;   /* end = rest + 1; start = -rest */
			if (ins_same(f->t[i].atom, index) || (c < 0) != negative)
				continue;
			bool greatest = (k < 0) == (c > 0);
			struct ir_ins *atom = over_tile(E, greatest ? RED_MAX : RED_MIN, (struct ir_ins *)f->t[i].atom);
			struct ir_ins *term = ir_bin(&E->b, IR_MUL, atom, i32(E, negative ? -c : c));
			sum = negative ? ir_bin(&E->b, IR_SUB, sum ? sum : i32(E, 0), term) : sum ? ir_bin(&E->b, IR_ADD, sum, term) : term;
		}
	struct ir_ins *constant = i32(E, k < 0 ? f->c + 1 : -f->c);
	sum = sum ? ir_bin(&E->b, IR_ADD, sum, constant) : constant;
	if (k < 0)
		b->end = ir_bin(&E->b, IR_MIN, b->end, sum);
	else
		b->start = ir_bin(&E->b, IR_MAX, b->start, sum);
}

static void narrow(struct elab *E, const struct ast_expr *where, const struct ir_ins *index, struct bounds *b)
{
	struct lin f[2];
	if (where->kind == AST_BINARY && where->op == AST_AND) {
		narrow(E, where->a, index, b);
		narrow(E, where->b, index, b);
		return;
	}
	struct value v = elab_expr(E, where);
	elab_at(E, where->at);
	int n = v.ins && v.ins->dtype == DT_I1 && v.ins->op != IR_CONST ? lin_facts(v.ins, f) : 0;
	for (int i = 0; i < n; i++)
		narrow_by(E, &f[i], index, b);
}

/* --- the loop */

struct loop {
	const struct ast_binder *binder;
	struct bounds bounds;
	struct ir_ins *end;              /* of the range as the text says it: may have axes; by: of the positions, not of the groups */
	struct ir_ins *first;            /* likewise the start */
	int64_t group;                   /* by */
	int axis;
	int first_bound;                 /* of those over tiles that are this loop's */
};

static struct ir_ins *bound(struct elab *E, const struct ast_expr *e)
{
	struct value v = value_fixed(E, elab_expr(E, e), e->at);
	if (v.ins && v.ins->dtype != DT_I32) {
		ELAB_ERROR(E, E_BOUND_TYPE, e->at, elab_type_name(v.ins));
		v.ins = NULL;
	}
	return v.ins;
}

static bool range(struct elab *E, const struct ast_stmt *s, struct loop *l)
{
	const struct ast_binder *b = l->binder;
	l->first = b->range.hi ? bound(E, b->range.lo) : i32(E, 0);
	l->end = bound(E, b->range.hi ? b->range.hi : b->range.lo);
	elab_at(E, b->name.at);
	if (!l->first || !l->end)
		return false;
	if (reads_memory(l->first, 0))
		l->first = ir_bin(&E->b, IR_MAX, l->first, i32(E, 0));
	if (reads_memory(l->end, 0)) {
		const struct hexpr *total = extent_indexed(E, &s->body, b->name.text);
		l->end = total ? ir_bin(&E->b, IR_MIN, l->end, elab_extent(E, total)) : l->end;
	}
	if (b->by) {
		double zero;
		l->group = group_size(E, b->by);
		if (!l->group)
			return false;
		if (!ir_is_const(l->first, &zero) || zero != 0) {
			ELAB_ERROR(E, E_BY_FIRST, b->by->at);
			return false;
		}
	}
	l->bounds.start = over_tile(E, RED_MIN, l->first);
	l->bounds.end = over_tile(E, RED_MAX, l->end);
	if (b->by)
		l->bounds.end = ir_bin(&E->b, IR_DIV, ir_bin(&E->b, IR_ADD, l->bounds.end, i32(E, l->group - 1)), i32(E, l->group));
	return true;
}

/* The name of a loop's positions where only its order is wanted: as a value in front of the loop. */
static struct ir_ins *loop_position(struct elab *E, const struct loop *l)
{
	struct ir_ins *at = ir_leaf(&E->b, IR_IOTA, DT_I32, l->axis);
	return l->binder->tiled ? at : ir_reduce(&E->b, RED_MAX, at, at->axes, NULL);
}

static void narrow_bounds(struct elab *E, struct loop *l)
{
	struct scope scope = scope_open(E);
	struct index *x = index_add(E, &l->binder->name);
	x->position = loop_position(E, l);
	x->over = l->binder->tiled ? IR_AXIS(l->axis) : 0;
	narrow(E, l->binder->where, x->position, &l->bounds);
	scope_close(E, scope);
}

/* Index, facts and guards, inside the body. */
static bool enter(struct elab *E, const struct loop *l)
{
	const struct ast_binder *b = l->binder;
	struct ir_ins *at = loop_position(E, l);
	fact_at_most(E, l->bounds.start, at);
	if (b->by) {
		fact_below(E, at, l->bounds.end);
		/* whether a position has this group at all, which its elements need not be asked */
		int has = l->end->axes ? guard_add(E, ir_bin(&E->b, IR_LT, ir_bin(&E->b, IR_MUL, at, i32(E, l->group)), l->end)) : -1;
		if (!group_inside(E, &b->name, l->group, at, l->end))
			return false;
		if (has >= 0)
			E->guards[has].stronger = E->nguards - 1;
	} else {
		struct index *x = index_add(E, &b->name);
		x->position = at;
		x->over = b->tiled ? IR_AXIS(l->axis) : 0;
		if (l->first->axes)
			guard_add(E, ir_bin(&E->b, IR_LE, l->first, at));
		if (b->tiled || l->end->axes)
			guard_add(E, ir_bin(&E->b, IR_LT, at, l->end));
		else
			fact_below(E, at, l->bounds.end);
	}
	if (b->where)
		guards_where(E, b->where);
	return true;
}

/* --- what state may vary with: what stands in the loop is made of its names alone, and of the guards that go with them */

static ir_axes axes_of_name(struct elab *E, const char *name)
{
	struct entry *n = scope_find(E, name);
	if (!n)
		return 0;
	return n->axes | (n->index ? n->index->over | n->index->position->axes : 0) | (n->value.ins ? n->value.ins->axes : 0);
}

static ir_axes axes_in_expr(struct elab *E, const struct ast_expr *e)
{
	ir_axes axes = 0;
	if (!e)
		return 0;
	for (int i = 0; i < e->args.n; i++)
		axes |= axes_in_expr(E, e->args.items[i]);
	for (int i = 0; i < e->over.n; i++)
		axes |= axes_in_expr(E, e->over.items[i]);
	return axes | (e->kind == AST_NAME ? axes_of_name(E, e->name) : 0) | axes_in_expr(E, e->a) | axes_in_expr(E, e->b);
}

static ir_axes axes_in_block(struct elab *E, const struct ast_block *b);

static ir_axes axes_in_stmt(struct elab *E, const struct ast_stmt *s)
{
	ir_axes axes = axes_in_expr(E, s->rhs.lo) | axes_in_expr(E, s->rhs.hi) | axes_in_block(E, &s->body) | axes_in_block(E, &s->other);
	for (int i = 0; i < s->lhs.n; i++)
		axes |= axes_in_expr(E, s->lhs.items[i]);
	for (int i = 0; i < s->type.dims.n; i++)
		axes |= axes_in_expr(E, s->type.dims.items[i]);
	for (int i = 0; i < s->binders.n; i++) {
		const struct ast_binder *b = &s->binders.items[i];
		axes |= axes_in_expr(E, b->range.lo) | axes_in_expr(E, b->range.hi) | axes_in_expr(E, b->where);
	}
	return axes;
}

static ir_axes axes_in_block(struct elab *E, const struct ast_block *b)
{
	ir_axes axes = 0;
	for (int i = 0; i < b->n; i++)
		axes |= axes_in_stmt(E, b->items[i]);
	return axes;
}

/* The implicit axes that state may vary with which the loop assigns; `first`: guards from there on hold for some of it. */
static ir_axes axes_carried(struct elab *E, const struct ast_stmt *s, int first)
{
	ir_axes axes = axes_in_stmt(E, s), before;
	for (int i = first; i < E->nguards; i++)
		axes |= E->guards[i].axes;
	do {
		before = axes;
		for (int i = 0; i < E->nguards; i++)
			axes |= E->guards[i].axes & axes ? E->guards[i].axes : 0;
	} while (axes != before);
	return axes & E->implicit_axes;
}

/* `count = count + 1` once a tile would count the tiles. */
static void state_by_tiles(struct elab *E, const struct loop *l, const struct entry *e, const struct ir_ins *after, const struct ir_ins *before)
{
	if (after == before || !tiles_unseen(E, after, IR_AXIS(l->axis)) || !tiles_change(E, after, before))
		return;
	ELAB_ERROR(E, E_STATE_TILES, l->binder->name.at, e->name, l->binder->name.text);
	diag_note(E->d, e->at, "%s comes from here", e->name);
}

/* `acc = acc + max(x over n)` adds up largest elements, of as many tiles as there are. */
static void state_of_parts(struct elab *E, const struct loop *l, const struct entry *e, const struct ir_ins *loop, const struct ir_ins *after, int state)
{
	if (!after || !parts_missed(E, loop, after, state))
		return;
	ELAB_ERROR(E, E_STATE_PARTS, ((struct diag_span){0, after->line, after->col, 1}), e->name, l->binder->name.text);
	diag_note(E->d, e->at, "%s comes from here", e->name);
}

static void run(struct elab *E, const struct ast_stmt *s, const struct loop *l)
{
	struct entry *state[MAX_ASSIGNED];
	struct ir_ins *values[MAX_ASSIGNED];
	int n = elab_assigned(E, &s->body, state, 0), guards = E->nguards;
	struct ir_builder outer = E->b;
	struct scope scope = scope_open(E);
	for (int i = 0; i < n; i++) {
		values[i] = state[i]->value.ins;
		guards = state[i]->guards < guards ? state[i]->guards : guards;
	}
	ir_axes carried = axes_carried(E, s, guards);
	struct elab_range range = {0, E->ranges};
	struct ir_ins *loop = ir_for(&E->b, l->axis, l->bounds.start, l->bounds.end, values, n);
	for (int i = l->first_bound; i < E->bounds.n; i++) {
		E->bounds.items[i].loop = loop;
		range.axes |= E->bounds.items[i].ins->over & E->explicit_axes;
	}
	E->ranges = &range;
	E->b.block = loop->body;
	E->b.before = NULL;
	for (int i = 0; i < n; i++) {
		loop->body->params[i]->axes = state[i]->axes | carried;
		state[i]->value.ins = loop->body->params[i];
	}
	if (enter(E, l))
		elab_block(E, &s->body);
	for (int i = 0; i < n; i++)
		values[i] = state[i]->value.ins;
	for (int i = 0; i < n && l->binder->tiled; i++)
		state_of_parts(E, l, state[i], loop, values[i], i);
	ir_yield(&E->b, values, n);
	scope_close(E, scope);
	E->ranges = range.up;
	for (int i = 0; i < n && l->binder->tiled; i++)
		state_by_tiles(E, l, state[i], values[i], loop->body->params[i]);
	E->b.block = outer.block;
	E->b.before = outer.before;
	for (int i = 0; i < n; i++)
		state[i]->value.ins = ir_result(&E->b, loop, i);
}

void elab_for(struct elab *E, const struct ast_stmt *s)
{
	struct loop l = {.binder = &s->binders.items[0], .first_bound = E->bounds.n};
	const struct ast_name *name = &l.binder->name;
	struct scope scope = scope_open(E);
	if (!range(E, s, &l)) {
		index_failed(E, name);
		elab_block(E, &s->body);
		scope_close(E, scope);
		return;
	}
	struct ir_axis axis = {.name = name->text, .kind = AXIS_LOOP, .tiled = l.binder->tiled, .tile = l.binder->tiled ? 0 : 1};
	if (l.binder->by)
		axis.name = arena_printf(E->ar, "%s.o", name->text);
	l.axis = axis_add(E, axis, name->at);
	if (l.axis >= 0) {
		guard_set nothing = {false};
		struct lin start = lin_of(l.bounds.start);
		E->nonnegative &= ~IR_AXIS(l.axis);
		if (lin_prove(E, &start, nothing))
			E->nonnegative |= IR_AXIS(l.axis);
		if (l.binder->tiled)
			E->explicit_axes |= IR_AXIS(l.axis);
		if (l.binder->where && !l.binder->by)
			narrow_bounds(E, &l);
		run(E, s, &l);
	}
	scope_close(E, scope);
}
