/* elab_access.c -- tensor accesses, and which elements of them are present.
 *
 * In: subscripts, guards in scope.  Out: loads, stores and updates whose masks hold exactly what cannot be proved: the guards of
 * the axes involved, and the bounds of subscripts that do not follow from those guards.
 *
 * Which guards apply.  An access is indexed by its own axes and by the implicit ones of the block; a guard applies if it speaks
 * of nothing else and of at least one of the access's own axes.  So w[n] under `each m in M` is not masked by m < M, and x[m, n]
 * in a ragged range of e is masked by that range.  A reduction leaves out what any guard on a contracted axis leaves out. */
#include <string.h>
#include "elab.h"

static const struct value none;

struct ir_ins *and_of(struct elab *E, struct ir_ins *a, struct ir_ins *b)
{
	return !a ? b : !b ? a : ir_bin(&E->b, IR_AND, a, b);
}

/* A guard that follows from another one in the set says nothing. */
static void drop_weaker(struct elab *E, guard_set used)
{
	for (int i = 0; i < E->nguards; i++)
		if (used[i] && E->guards[i].stronger >= 0 && used[E->guards[i].stronger])
			used[i] = false;
}

/* control: all that obey guards of control do; BUT_ENDS: a store of the same for all positions of an untiled index is no business of its end. */
enum control { NO_CONTROL, CONTROL, CONTROL_BUT_ENDS };

static void guards_for_access(struct elab *E, ir_axes axes, enum control control, guard_set used)
{
	for (int i = 0; i < E->nguards; i++) {
		const struct guard *g = &E->guards[i];
		bool within = !(g->axes & ~(axes | E->implicit_axes));
		bool obeyed = control && g->control && !(control == CONTROL_BUT_ENDS && g->ends);
		used[i] = within && (!g->axes || g->axes & axes || obeyed);
	}
	drop_weaker(E, used);
}

void guards_for_reduction(struct elab *E, ir_axes over, guard_set used)
{
	for (int i = 0; i < E->nguards; i++)
		used[i] = (E->guards[i].axes & over) != 0;
	drop_weaker(E, used);
}

struct ir_ins *guards_and(struct elab *E, const guard_set used)
{
	struct ir_ins *all = NULL;
	for (int i = 0; i < E->nguards; i++)
		if (used[i])
			all = and_of(E, all, E->guards[i].cond);
	return all;
}

struct ir_ins *elab_number(struct elab *E, enum dtype t, int n)
{
	return dtype_is_float(t) ? ir_float(&E->b, t, n) : ir_int(&E->b, t, n);
}

/* --- operands of dot */

/* A power of two, where absent too. */
static bool is_scale(const struct ir_ins *a) { return a->op == IR_CVT && a->args[0]->op == IR_LOAD && a->args[0]->dtype == DT_E8M0; }

static bool zero_where_absent(const struct ir_ins *a)
{
	for (;;) {
		bool times = a->op == IR_MUL && is_scale(a->args[1]) && a->args[0]->axes == a->axes;
		if (a->op != IR_CVT && !times && !(a->op == IR_SELECT && a->args[0]->op == IR_HAS))
			return a->op == IR_LOAD && a->dtype != DT_E8M0;
		a = a->args[a->op == IR_SELECT];
	}
}

struct ir_ins *elab_present(struct elab *E, struct ir_ins *a, ir_axes over)
{
	guard_set used, loaded = {false};
	guards_for_reduction(E, over, used);
	if (zero_where_absent(a))
		guards_for_access(E, a->axes, NO_CONTROL, loaded);
	for (int i = 0; i < E->nguards; i++) {
		bool covered = !(E->guards[i].axes & ~(a->axes | E->implicit_axes));
		used[i] = used[i] && covered && !loaded[i];
	}
	struct ir_ins *mask = guards_and(E, used);
	return mask ? ir_select(&E->b, mask, a, elab_number(E, (enum dtype)a->dtype, 0)) : a;
}

/* --- subscripts */

static int tensor_named(struct elab *E, const struct ast_expr *e)
{
	struct entry *n = scope_find(E, e->name);
	if (!n) {
		ELAB_ERROR(E, E_UNKNOWN_NAME, e->name_at, e->name, scope_hint(E, e->name));
	} else if (n->kind != ENTRY_TENSOR) {
		ELAB_ERROR(E, E_NOT_TENSOR, e->name_at, e->name);
		if (n->at.line)
			diag_note(E->d, n->at, "%s comes from here", e->name);
	} else if (e->args.n != E->k->params[n->number].rank) {
		ELAB_ERROR(E, E_SUBSCRIPTS, e->at, e->name, E->k->params[n->number].rank, e->args.n);
	} else {
		return n->number;
	}
	return -1;
}

static bool subscripts(struct elab *E, const struct ast_expr *e, struct ir_ins **subs, ir_axes *axes)
{
	bool good = true;
	*axes = 0;
	for (int i = 0; i < e->args.n; i++) {
		struct value v = value_fixed(E, elab_expr(E, e->args.items[i]), e->args.items[i]->at);
		if (v.ins && v.ins->dtype != DT_I32) {
			ELAB_ERROR(E, E_SUBSCRIPT_TYPE, e->args.items[i]->at, elab_type_name(v.ins));
			v.ins = NULL;
		}
		subs[i] = v.ins;
		good &= v.ins != NULL;
		*axes |= v.ins ? v.ins->axes : 0;
	}
	elab_at(E, e->at);
	return good;
}

/* The tensors of a list are as long as the ranges say, so that positions in the range are inside of them, and no others are let in. */
static bool list_followed(struct elab *E, const struct ast_expr *e, int tensor, struct ir_ins **subs)
{
	const struct ir_param *p = &E->k->params[tensor];
	if (!p->list || ir_list_subscripts(E->k, E->ph, tensor, subs))
		return true;
	ELAB_ERROR(E, E_LIST_ACCESS, e->at, e->name);
	return false;
}

/* The conditions 0 <= sub < extent that do not follow from the guards. */
static struct ir_ins *bounds(struct elab *E, int tensor, struct ir_ins **subs, const guard_set used, struct ir_ins *mask)
{
	const struct ir_param *p = &E->k->params[tensor];
	for (int i = 0; i < p->rank && !p->list; i++) {
		struct ir_ins *extent = elab_extent(E, p->extent[i]);
		struct lin low = lin_of(subs[i]), end = lin_of(extent), high = lin_add(end, -1, &low);
		high.c -= 1;
		if (!lin_prove(E, &low, used))
			mask = and_of(E, mask, ir_bin(&E->b, IR_LE, ir_int(&E->b, DT_I32, 0), subs[i]));
		if (!lin_prove(E, &high, used))
			mask = and_of(E, mask, ir_bin(&E->b, IR_LT, subs[i], extent));
	}
	return mask;
}

struct value elab_load(struct elab *E, const struct ast_expr *e)
{
	struct ir_ins *subs[MODEL_MAX_RANK];
	ir_axes axes;
	guard_set used;
	int t = tensor_named(E, e);
	if (t < 0)
		return none;
	bool before = E->stored[t] && E->stored[t] != E->phase + 1;   /* what this phase stores, waves of other workgroups may not have stored yet */
	if (E->k->params[t].role == IR_OUT && !before) {
		ELAB_ERROR(E, E_READ_OUTPUT, e->at, e->name);
		return none;
	}
	if (E->k->params[t].role == IR_TEMP && !before) {
		ELAB_ERROR(E, E_READ_TEMP, e->at, e->name);
		return none;
	}
	if (!subscripts(E, e, subs, &axes) || !list_followed(E, e, t, subs))
		return none;
	guards_for_access(E, axes, NO_CONTROL, used);
	struct ir_ins *mask = bounds(E, t, subs, used, guards_and(E, used));
	struct ir_ins *element = ir_load(&E->b, t, subs, mask);
	cross_note(E, t, subs, false, e->at);
	if (E->k->params[t].optional && (element->dtype == DT_F32 || element->dtype == DT_F16 || element->dtype == DT_BF16)) {
		struct ir_ins *none_there = ir_float(&E->b, (enum dtype)element->dtype, -0.0);   /* the number that changes no sum */
		element = ir_select(&E->b, elab_leaf(E, IR_HAS, DT_I1, t), element, none_there);
	}
	return (struct value){.ins = element};
}

/* --- stores */

/* The explicit axes of the value and of the place it goes to must agree; a value without any fills the place.  Implicit ones
 * must be named by a store, since several workgroups would write one element, but not by an update. */
static bool axes_agree(struct elab *E, const struct ast_expr *target, struct value v, ir_axes place, bool update, struct diag_span at)
{
	ir_axes value = value_axes(E, v), text = value_axes_of_text(E, v), to = place & E->explicit_axes, hidden = v.ins->axes & E->implicit_axes & ~place;
	for (int a = 0; a < E->ph->naxes; a++)        /* a row of a ragged range belongs to one group */
		if (place & IR_AXIS(a) && E->ph->axes[a].ragged)
			hidden &= ~IR_AXIS(E->ph->axes[a].ragged_group);
	if (value & ~to) {
		ELAB_ERROR(E, E_AXIS_DROPPED, at, target->name, elab_axis_name(E, value & ~to));
		return false;
	}
	if (value && to & ~text) {
		ELAB_ERROR(E, E_AXIS_ADDED, at, target->name, elab_axis_name(E, to & ~text));
		return false;
	}
	if (hidden && !update) {
		ELAB_ERROR(E, E_SHARED_ELEMENT, target->at, elab_axis_name(E, hidden), target->name);
		return false;
	}
	return true;
}

static bool writable(struct elab *E, const struct ast_expr *target, int t)
{
	if (E->k->params[t].role != IR_IN)
		return true;
	ELAB_ERROR(E, E_STORE_INPUT, target->at, target->name);
	return false;
}

void elab_store(struct elab *E, const struct ast_expr *target, struct value v, const enum ast_update *update, struct diag_span at)
{
	static const enum ir_reduce kind[] = {[UPDATE_ADD] = RED_SUM, [UPDATE_MAX] = RED_MAX, [UPDATE_MIN] = RED_MIN};
	struct ir_ins *subs[MODEL_MAX_RANK];
	ir_axes axes;
	guard_set used;
	int t = tensor_named(E, target);
	if (t >= 0)
		E->stored[t] = E->phase + 1;
	if (t < 0 || !writable(E, target, t) || !subscripts(E, target, subs, &axes) || !list_followed(E, target, t, subs) || !v.ins)
		return;
	enum dtype held = E->k->params[t].dtype;
	if (update && held != DT_F32 && held != DT_I32) {
		ELAB_ERROR(E, E_UPDATE_TYPE, target->at, target->name, dtype_info(held)->name);
		return;
	}
	struct ir_ins *was = v.ins;
	if (!value_as(E, &v, held, at)) {
		if (v.ins)
			ELAB_ERROR(E, E_STORE_TYPE, at, elab_type_name(was), target->name, dtype_info(held)->name, dtype_info(held)->name);
		return;
	}
	if (!axes_agree(E, target, v, axes, update != NULL, at))
		return;
	ir_axes unseen = update && *update == UPDATE_ADD ? tiles_unseen(E, v.ins, E->open_axes & ~axes) : 0;
	if (unseen) {
		ELAB_ERROR(E, E_UPDATE_TILES, at, target->name, elab_axis_name(E, unseen));
		return;
	}
	ir_axes missed = update ? parts_updated(E, v.ins, *update, axes) : parts_stored(E, v.ins, axes);
	if (missed && update)
		ELAB_ERROR(E, E_UPDATE_PARTS, at, target->name, elab_axis_name(E, missed));
	else if (missed)
		ELAB_ERROR(E, E_STORE_PARTS, at, target->name, elab_axis_name(E, missed));
	if (missed)
		return;
	const struct ir_ins *bound = NULL;
	ir_axes parts = update ? 0 : tiles_parts(E, v.ins, &bound);
	for (int d = 0; d < E->k->params[t].rank; d++)
		parts |= tiles_parts(E, subs[d], &bound);
	if (parts) {
		ELAB_ERROR(E, E_STORE_TILES, at, target->name, elab_axis_name(E, parts));
		if (bound && bound->over & parts)
			diag_note(E->d, (struct diag_span){0, bound->line, bound->col, 1},
			          "the range of this loop differs along %1$s; state is a position's own where it and what it is made of have that axis (`acc: f32[%1$s] = ..`)",
			          elab_axis_name(E, bound->over & parts));
		return;
	}
	ir_axes again = update ? 0 : tiles_again(E, v.ins, t, axes, E->open_axes);
	if (again) {
		ELAB_ERROR(E, E_STORE_AGAIN, at, target->name, elab_axis_name(E, again));
		return;
	}
	guards_for_access(E, axes | v.ins->axes, update ? CONTROL : CONTROL_BUT_ENDS, used);
	struct ir_ins *mask = bounds(E, t, subs, used, guards_and(E, used));
	if (update)
		ir_update(&E->b, kind[*update], t, subs, v.ins, mask);
	else
		ir_store(&E->b, t, subs, v.ins, mask);
	if (!update)
		cross_note(E, t, subs, true, target->at);
}
