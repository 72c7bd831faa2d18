/* elab_index.c -- indices: the binders of each and for, and held axes; the guards that say which positions are present.
 *
 * In: binders.  Out: axes of the phase, positions as i32 values, guards, and for a `for` its bounds, narrowed by `where` so that
 * tiles without an element are not visited.
 *
 *   each m in M                 GRID, implicit             for t in lo..hi            LOOP of tile 1; t is a scalar
 *   each m in M tiled           GRID, explicit             for k in K tiled           LOOP, explicit
 *   each n in N by g            GRID n.o + HELD n (g)      for k in K by g            LOOP k.o of tile 1 (scalar) + HELD k (g)
 *   each m in f[e]..f[e+1] ..   GRID, ragged over e        n = lo..hi                 HELD, explicit
 *   each i in x[k] ..           the same, x a list
 *                                                          with `over n by g`         HELD n.o + HELD n (g), both explicit */
#include <string.h>
#include "elab.h"

int guard_add(struct elab *E, struct ir_ins *cond)
{
	if (E->nguards == MAX_GUARDS) {
		diag_add(E->d, DIAG_E_GUARDS, (struct diag_span){0, E->b.line, E->b.col, 1}, MAX_GUARDS);
		return -1;
	}
	struct guard *g = &E->guards[E->nguards];
	*g = (struct guard){.cond = cond, .axes = cond->axes, .stronger = -1};
	g->control = !(cond->axes & E->explicit_axes);
	g->nfacts = lin_facts(cond, g->fact);
	return E->nguards++;
}

static void fact_add(struct elab *E, struct lin f)
{
	if (!f.bad && E->nfacts < MAX_FACTS)
		E->facts[E->nfacts++] = f;
}

/* a < b, always */
void fact_below(struct elab *E, const struct ir_ins *a, const struct ir_ins *b)
{
	struct lin x = lin_of(a), f = lin_add(lin_of(b), -1, &x);
	f.c -= 1;
	fact_add(E, f);
}

/* a <= b, always */
void fact_at_most(struct elab *E, const struct ir_ins *a, const struct ir_ins *b)
{
	struct lin x = lin_of(a);
	fact_add(E, lin_add(lin_of(b), -1, &x));
}

/* --- axes */

static bool axis_equal(const struct ir_axis *a, const struct ir_axis *b)
{
	bool extents = a->extent == b->extent || (a->extent && b->extent && hexpr_equal(a->extent, b->extent));
	return strcmp(a->name, b->name) == 0 && a->kind == b->kind && a->tile == b->tile && a->tiled == b->tiled && extents;
}

/* Axis number, or -1 after a message.  An axis equal to one of an ended scope is used again. */
int axis_add(struct elab *E, struct ir_axis a, struct diag_span at)
{
	struct ir_phase *ph = E->ph;
	const char *base = a.name;
	a.line = at.line;
	a.col = at.col;
	for (int suffix = 2; suffix < 64; suffix++) {
		int taken = -1;
		for (int i = 0; i < ph->naxes && taken < 0; i++)
			if (strcmp(ph->axes[i].name, a.name) == 0)
				taken = i;
		if (taken < 0)
			break;
		if (a.kind != AXIS_GRID && axis_equal(&ph->axes[taken], &a) && !(E->open_axes & IR_AXIS(taken))) {
			E->open_axes |= IR_AXIS(taken);
			return taken;
		}
		a.name = arena_printf(E->ar, "%s.%d", base, suffix);
	}
	if (ph->naxes == LAYOUT_AXES) {
		ELAB_ERROR(E, E_AXES, at, LAYOUT_AXES);
		return -1;
	}
	ph->axes[ph->naxes] = a;
	E->open_axes |= IR_AXIS(ph->naxes);
	return ph->naxes++;
}

static struct ir_ins *iota(struct elab *E, int axis) { return ir_leaf(&E->b, IR_IOTA, DT_I32, axis); }
static struct ir_ins *i32(struct elab *E, int64_t v) { return ir_int(&E->b, DT_I32, v); }

struct index *index_add(struct elab *E, const struct ast_name *n)
{
	struct index *x = arena_alloc(E->ar, sizeof *x);
	scope_add(E, ENTRY_INDEX, n->text, n->at)->index = x;
	return x;
}

/* A name that stands for nothing, so that its uses stay silent. */
void index_failed(struct elab *E, const struct ast_name *n)
{
	scope_add(E, ENTRY_VALUE, n->text, n->at);
}

/* --- where: its conditions, one guard each */

void guards_where(struct elab *E, const struct ast_expr *e)
{
	if (e->kind == AST_BINARY && e->op == AST_AND) {
		guards_where(E, e->a);
		guards_where(E, e->b);
		return;
	}
	struct value v = elab_expr(E, e);
	if (!v.ins)
		return;
	if (v.ins->dtype != DT_I1) {
		ELAB_ERROR(E, E_NOT_CONDITION, e->at, elab_type_name(v.ins));
		return;
	}
	guard_add(E, v.ins);
}

/* --- each */

/* False after a message where a bound is a constant that no position has: it would wrap. */
static bool bound_fits(struct elab *E, const struct hexpr *e, struct diag_span at)
{
	int64_t wide;
	if (!extent_too_wide(e, &wide))
		return true;
	ELAB_ERROR(E, E_INT_RANGE, at, (long long)wide);
	return false;
}

static const struct hexpr *host_range(struct elab *E, const struct ast_range *r, const struct hexpr **first)
{
	struct model_kernel *m = (struct model_kernel *)E->model;
	const struct hexpr *lo = extent_of(E->ar, E->d, m, r->lo, EXTENT_KNOWN), *hi = r->hi ? extent_of(E->ar, E->d, m, r->hi, EXTENT_KNOWN) : NULL;
	*first = NULL;
	if (!lo || (r->hi && !hi)) {
		elab_called_from(E);
		return NULL;
	}
	int64_t zero, size;
	const struct hexpr *extent = r->hi ? hi : lo;
	if (r->hi && (!hexpr_is_const(lo, &zero) || zero != 0)) {
		*first = lo;
		extent = hexpr_op(E->ar, HX_MAX, hexpr_op(E->ar, HX_SUB, hi, lo), hexpr_const(E->ar, 0));
		if (!bound_fits(E, lo, r->lo->at) || (!hexpr_is_const(extent, &size) && !bound_fits(E, hi, r->hi->at)))
			return NULL;
	}
	if (extent_possible(E->d, extent, r->hi ? span_join(r->lo->at, r->hi->at) : r->lo->at))
		return extent;
	elab_called_from(E);
	return NULL;
}

static const struct hexpr *extent_in_expr(struct elab *E, const struct ast_expr *e, const char *name)
{
	const struct hexpr *found = NULL;
	struct entry *t = e->kind == AST_INDEX ? scope_find(E, e->name) : NULL;
	for (int i = 0; i < e->args.n && !found; i++) {
		const struct ast_expr *s = e->args.items[i];
		if (t && t->kind == ENTRY_TENSOR && i < E->k->params[t->number].rank && s->kind == AST_NAME && strcmp(s->name, name) == 0)
			found = E->k->params[t->number].extent[i];
		else
			found = extent_in_expr(E, s, name);
	}
	if (!found && e->a)
		found = extent_in_expr(E, e->a, name);
	if (!found && e->b)
		found = extent_in_expr(E, e->b, name);
	return found;
}

/* The extent of the first tensor dimension that `name` subscripts alone; NULL if there is none. */
const struct hexpr *extent_indexed(struct elab *E, const struct ast_block *b, const char *name)
{
	const struct hexpr *found = NULL;
	for (int i = 0; i < b->n && !found; i++) {
		const struct ast_stmt *s = b->items[i];
		for (int l = 0; l < s->lhs.n && !found; l++)
			found = extent_in_expr(E, s->lhs.items[l], name);
		if (!found && s->rhs.lo)
			found = extent_in_expr(E, s->rhs.lo, name);
		if (!found)
			found = extent_indexed(E, &s->body, name);
		if (!found)
			found = extent_indexed(E, &s->other, name);
	}
	return found;
}

/* f[e] .. f[e + 1] with e an untiled index of this each: the tensor, and e's axis; -1 otherwise. */
static int ragged_form(struct elab *E, const struct ast_range *r, int *group)
{
	const struct ast_expr *lo = r->lo, *hi = r->hi;
	if (!hi || lo->kind != AST_INDEX || hi->kind != AST_INDEX || strcmp(lo->name, hi->name) || lo->args.n != 1 || hi->args.n != 1)
		return -1;
	const struct ast_expr *e = lo->args.items[0], *next = hi->args.items[0];
	if (e->kind != AST_NAME || next->kind != AST_BINARY || next->op != AST_ADD || next->a->kind != AST_NAME || strcmp(next->a->name, e->name) ||
	    next->b->kind != AST_INT || next->b->integer != 1)
		return -1;
	struct entry *t = scope_find(E, lo->name), *x = scope_find(E, e->name);
	if (!t || t->kind != ENTRY_TENSOR || !x || x->kind != ENTRY_INDEX || x->index->over || x->index->position->op != IR_IOTA)
		return -1;
	const struct ir_param *p = &E->k->params[t->number];
	*group = (int)x->index->position->imm;
	return p->rank == 1 && p->dtype == DT_I32 && p->role == IR_IN ? t->number : -1;
}

/* x[k] with x a list and k an untiled index of this each over all of x's tensors: the list, and k's axis; -1 otherwise. */
static int list_form(struct elab *E, const struct ast_expr *e, int *group)
{
	struct entry *t = scope_find(E, e->name), *x = e->args.n == 1 && e->args.items[0]->kind == AST_NAME ? scope_find(E, e->args.items[0]->name) : NULL;
	if (!t || t->kind != ENTRY_TENSOR || !E->k->params[t->number].list || !x || x->kind != ENTRY_INDEX || x->index->over || x->index->position->op != IR_IOTA)
		return -1;
	*group = (int)x->index->position->imm;
	const struct ir_axis *k = &E->ph->axes[*group];
	return k->extent && hexpr_equal(k->extent, E->k->params[t->number].extent[0]) ? t->number : -1;
}

static bool ragged_axis(struct elab *E, const struct ast_binder *b, int tensor, int group, const struct hexpr *total)
{
	int a = axis_add(E, (struct ir_axis){.name = b->name.text, .kind = AXIS_GRID, .tiled = b->tiled, .ragged = true, .of_list = E->k->params[tensor].list, .ragged_tensor = tensor, .ragged_group = group, .ragged_total = total}, b->name.at);
	if (a < 0)
		return false;
	struct index *x = index_add(E, &b->name);
	struct ir_ins *limit = ir_leaf(&E->b, IR_LIMIT, DT_I32, a);
	x->over = b->tiled ? IR_AXIS(a) : 0;
	x->position = iota(E, a);
	E->nonnegative |= IR_AXIS(a);
	*(b->tiled ? &E->explicit_axes : &E->implicit_axes) |= IR_AXIS(a);
	guard_add(E, ir_bin(&E->b, IR_LT, x->position, limit));
	fact_at_most(E, limit, elab_extent(E, total));
	return true;
}

static bool each_ragged(struct elab *E, const struct ast_binder *b, const struct ast_block *body)
{
	int group, tensor = ragged_form(E, &b->range, &group);
	const struct hexpr *total = extent_indexed(E, body, b->name.text);
	if (tensor < 0 || b->by || E->ph->axes[group].ragged) {
		ELAB_ERROR(E, E_RAGGED, span_join(b->range.lo->at, b->range.hi->at));
		return false;
	}
	if (!total) {
		ELAB_ERROR(E, E_RAGGED_TOTAL, b->name.at, b->name.text);
		return false;
	}
	return ragged_axis(E, b, tensor, group, total);
}

static bool each_of_list(struct elab *E, const struct ast_binder *b)
{
	int group, tensor = list_form(E, b->range.lo, &group);
	if (tensor < 0 || b->by || E->ph->axes[group].ragged) {
		ELAB_ERROR(E, E_LIST_RANGE, b->range.lo->at);
		return false;
	}
	return ragged_axis(E, b, tensor, group, E->k->params[tensor].extent[1]);
}

int64_t group_size(struct elab *E, const struct ast_expr *by)
{
	const struct hexpr *g = extent_of(E->ar, E->d, (struct model_kernel *)E->model, by, EXTENT_KNOWN);
	int64_t size = 0;
	if (g && (!hexpr_is_const(g, &size) || size < 1 || size > MAX_HELD)) {
		ELAB_ERROR(E, E_BY, by->at);
		size = 0;
	}
	return size;
}

/* Axis n.o, axis n, position and guard of `n in N by g`; `number` is the group's number. */
bool group_inside(struct elab *E, const struct ast_name *n, int64_t g, struct ir_ins *number, struct ir_ins *extent)
{
	int a = axis_add(E, (struct ir_axis){.name = n->text, .kind = AXIS_HELD, .tile = (int)g, .extent = hexpr_const(E->ar, g)}, n->at);
	if (a < 0)
		return false;
	struct index *x = index_add(E, n);
	struct ir_ins *first = ir_bin(&E->b, IR_MUL, number, i32(E, g)), *inside = iota(E, a);
	E->explicit_axes |= IR_AXIS(a);
	E->nonnegative |= IR_AXIS(a);
	fact_below(E, inside, i32(E, g));
	*x = (struct index){.over = IR_AXIS(a), .held = true, .position = ir_bin(&E->b, IR_ADD, first, inside), .first = first};
	int guard = guard_add(E, ir_bin(&E->b, IR_LT, x->position, extent));
	if (guard >= 0)
		E->guards[guard].count = ir_bin(&E->b, IR_MIN, i32(E, g), ir_bin(&E->b, IR_SUB, extent, first));
	return guard >= 0;
}

static bool each_by(struct elab *E, const struct ast_binder *b, const struct hexpr *extent)
{
	int64_t g = group_size(E, b->by);
	if (!g)
		return false;
	const struct hexpr *groups = hexpr_op(E->ar, HX_CDIV, extent, hexpr_const(E->ar, g));
	int a = axis_add(E, (struct ir_axis){.name = arena_printf(E->ar, "%s.o", b->name.text), .kind = AXIS_GRID, .extent = groups}, b->name.at);
	if (a < 0)
		return false;
	struct ir_ins *number = iota(E, a);
	E->implicit_axes |= IR_AXIS(a);
	E->nonnegative |= IR_AXIS(a);
	int outer = guard_add(E, ir_bin(&E->b, IR_LT, number, elab_extent(E, groups)));
	if (outer < 0 || !group_inside(E, &b->name, g, number, elab_extent(E, extent)))
		return false;
	E->guards[outer].stronger = E->nguards - 1;
	E->guards[outer].ends = true;
	return true;
}

static bool each_plain(struct elab *E, const struct ast_binder *b, const struct hexpr *extent, const struct hexpr *first)
{
	int a = axis_add(E, (struct ir_axis){.name = b->name.text, .kind = AXIS_GRID, .tiled = b->tiled, .extent = extent}, b->name.at);
	if (a < 0)
		return false;
	struct index *x = index_add(E, &b->name);
	struct ir_ins *at = iota(E, a);
	E->nonnegative |= IR_AXIS(a);
	*(b->tiled ? &E->explicit_axes : &E->implicit_axes) |= IR_AXIS(a);
	x->over = b->tiled ? IR_AXIS(a) : 0;
	x->position = first ? ir_bin(&E->b, IR_ADD, at, elab_extent(E, first)) : at;
	int end = guard_add(E, ir_bin(&E->b, IR_LT, at, elab_extent(E, extent)));
	if (end >= 0)
		E->guards[end].ends = !b->tiled;
	return end >= 0;
}

static bool each_binder(struct elab *E, const struct ast_binder *b, const struct ast_block *body)
{
	const struct hexpr *extent, *first;
	elab_at(E, b->name.at);
	if (b->range.hi && b->range.lo->kind == AST_INDEX)
		return each_ragged(E, b, body);
	if (!b->range.hi && b->range.lo->kind == AST_INDEX)
		return each_of_list(E, b);
	extent = host_range(E, &b->range, &first);
	if (!extent)
		return false;
	if (b->by && first) {
		ELAB_ERROR(E, E_BY_FIRST, b->by->at);
		return false;
	}
	return b->by ? each_by(E, b, extent) : each_plain(E, b, extent, first);
}

void elab_each(struct elab *E, const struct ast_stmt *s)
{
	struct scope scope = scope_open(E);
	for (int i = 0; i < s->binders.n; i++) {
		const struct ast_binder *b = &s->binders.items[i];
		if (!each_binder(E, b, &s->body))
			index_failed(E, &b->name);
		else if (b->where)
			guards_where(E, b->where);
	}
	elab_block(E, &s->body);
	scope_close(E, scope);
}

/* --- n = 0..N */

/* The size in `over n by size`, anywhere in the text; NULL if there is none. */
static const struct ast_expr *split_in_expr(const struct ast_expr *e, const char *name)
{
	const struct ast_expr *found = NULL;
	if (!e)
		return NULL;
	for (int i = 0; i < e->over.n && !found; i++) {
		const struct ast_expr *o = e->over.items[i];
		if (o->kind == AST_BY && o->a->kind == AST_NAME && strcmp(o->a->name, name) == 0)
			found = o->b;
	}
	for (int i = 0; i < e->args.n && !found; i++)
		found = split_in_expr(e->args.items[i], name);
	found = found ? found : split_in_expr(e->a, name);
	return found ? found : split_in_expr(e->b, name);
}

static const struct ast_expr *split_in(const struct ast_block *b, const char *name)
{
	const struct ast_expr *found = NULL;
	for (int i = 0; b && i < b->n && !found; i++) {
		const struct ast_stmt *s = b->items[i];
		found = split_in_expr(s->rhs.lo, name);
		found = found ? found : split_in(&s->body, name);
		found = found ? found : split_in(&s->other, name);
	}
	return found;
}

/* False after a message where a constant range has more positions than a plan gives a tile; rows of a symbol's length are streamed. */
static bool held_fits(struct elab *E, const struct ast_stmt *s, const char *name, const struct hexpr *extent, const char *what)
{
	int64_t n;
	if (!hexpr_is_const(extent, &n) || n <= MAX_HELD)
		return true;
	ELAB_ERROR(E, E_HELD_SIZE, span_join(s->rhs.lo->at, s->rhs.hi->at), name, (long long)n, what, MAX_HELD);
	return false;
}

/* A held index whose groups of g are reduced over: axis n.o of the groups' numbers, and n inside of one.  `over n` is both. */
static bool held_groups(struct elab *E, const struct ast_stmt *s, const struct ast_name *n, int64_t g, const struct hexpr *extent)
{
	const struct hexpr *groups = hexpr_op(E->ar, HX_CDIV, extent, hexpr_const(E->ar, g));
	if (!held_fits(E, s, n->text, groups, "groups"))
		return false;
	int a = axis_add(E, (struct ir_axis){.name = arena_printf(E->ar, "%s.o", n->text), .kind = AXIS_HELD, .extent = groups}, n->at);
	if (a < 0)
		return false;
	struct ir_ins *number = iota(E, a);
	E->explicit_axes |= IR_AXIS(a);
	E->nonnegative |= IR_AXIS(a);
	int outer = guard_add(E, ir_bin(&E->b, IR_LT, number, elab_extent(E, groups)));
	if (outer < 0 || !group_inside(E, n, g, number, elab_extent(E, extent)))
		return false;
	struct index *x = scope_find(E, n->text)->index;
	struct index *inside = arena_copy(E->ar, x, sizeof *x);
	E->guards[outer].stronger = E->nguards - 1;
	E->guards[E->nguards - 1].whole = elab_extent(E, extent);
	*x = (struct index){.over = inside->over | IR_AXIS(a), .held = true, .position = inside->position, .inside = inside, .group = g};
	return true;
}

void elab_held(struct elab *E, const struct ast_stmt *s)
{
	const struct ast_expr *target = s->lhs.items[0];
	const struct ast_name n = {target->name, target->at};
	const struct hexpr *first, *extent;
	if (s->lhs.n != 1 || target->kind != AST_NAME) {
		ELAB_ERROR(E, E_HELD_NAME, target->at);
		return;
	}
	extent = host_range(E, &s->rhs, &first);
	const struct ast_expr *by = extent ? split_in(E->text, n.text) : NULL;
	if (by) {
		int64_t g = group_size(E, by);
		if (first)
			ELAB_ERROR(E, E_BY_FIRST, by->at);
		if (first || !g || !held_groups(E, s, &n, g, extent))
			index_failed(E, &n);
		return;
	}
	bool fits = extent && held_fits(E, s, n.text, extent, "positions");
	int a = fits ? axis_add(E, (struct ir_axis){.name = n.text, .kind = AXIS_HELD, .extent = extent}, n.at) : -1;
	if (a < 0) {
		index_failed(E, &n);
		return;
	}
	struct index *x = index_add(E, &n);
	struct ir_ins *at = iota(E, a);
	E->explicit_axes |= IR_AXIS(a);
	E->nonnegative |= IR_AXIS(a);
	struct ir_ins *start = first ? elab_extent(E, first) : NULL;
	*x = (struct index){.over = IR_AXIS(a), .held = true, .position = start ? ir_bin(&E->b, IR_ADD, at, start) : at, .first = start};
	int guard = guard_add(E, ir_bin(&E->b, IR_LT, at, elab_extent(E, extent)));
	if (guard >= 0)
		E->guards[guard].count = elab_extent(E, extent);
}
