/* elab_stmt.c -- statements: names, state, updates, conditions.
 *
 * In: a block.  Out: instructions.  A plain name belongs to its block.  A name declared with a type is state: in the IR it is a
 * value carried by every `for`, and a result of every `if`, that assigns it.  It carries its declared axes and implicit ones (elab_for.c).
 * A condition that differs between positions of an implicit axis cannot branch: its blocks run under a guard instead. */
#include <string.h>
#include "elab.h"

static const struct value none;

/* --- state */

int elab_assigned(struct elab *E, const struct ast_block *b, struct entry **list, int n)
{
	for (int i = 0; i < b->n; i++) {
		const struct ast_stmt *s = b->items[i];
		n = elab_assigned(E, &s->body, list, n);
		n = elab_assigned(E, &s->other, list, n);
		for (int l = 0; l < s->lhs.n; l++) {
			struct entry *e = s->lhs.items[l]->kind == AST_NAME ? scope_find(E, s->lhs.items[l]->name) : NULL;
			bool there = !e || e->kind != ENTRY_STATE || !e->value.ins;
			for (int j = 0; j < n && !there; j++)
				there = list[j] == e;
			if (!there && n == MAX_ASSIGNED)
				ELAB_ERROR(E, E_STATE_COUNT, s->at, MAX_ASSIGNED);
			else if (!there)
				list[n++] = e;
		}
	}
	return n;
}

/* Where a guard of control, or one on its own positions, as of a loop that some of them have left, does not hold the state keeps its value. */
static struct ir_ins *guarded(struct elab *E, const struct entry *e, struct ir_ins *ins)
{
	struct ir_ins *mask = NULL;
	for (int i = e->guards; i < E->nguards; i++)
		if (!(E->guards[i].axes & E->explicit_axes & ~e->axes))
			mask = and_of(E, mask, E->guards[i].cond);
	return mask ? ir_select(&E->b, mask, ins, e->value.ins) : ins;
}

/* The axes that it lacks of the ranges of loops that it is carried through. */
static ir_axes ranges_lacked(const struct elab *E, const struct entry *e)
{
	ir_axes axes = 0;
	for (const struct elab_range *r = E->ranges; r != e->ranges; r = r->up)
		axes |= r->axes;
	return axes & ~e->axes;
}

static void assign_state(struct elab *E, struct entry *e, struct value v, struct diag_span at)
{
	if (!v.ins || !e->value.ins)
		return;
	struct ir_ins *was = v.ins;
	ir_axes axes = value_axes(E, v), text = value_axes_of_text(E, v), counted = tiles_counted(E, v.ins, e->value.ins, ranges_lacked(E, e));
	if (!value_as(E, &v, e->type.dtype, at) && !v.ins)
		return;
	if (v.ins->dtype != e->type.dtype) {
		ELAB_ERROR(E, E_STATE_TYPE, at, elab_type_name(was), e->name, dtype_info(e->type.dtype)->name);
		diag_note(E->d, e->at, "%s comes from here", e->name);
	} else if (axes & ~e->axes) {
		ELAB_ERROR(E, E_AXIS_DROPPED, at, e->name, elab_axis_name(E, axes & ~e->axes));
		diag_note(E->d, e->at, "%s comes from here", e->name);
	} else if (axes && e->axes & ~text) {
		ELAB_ERROR(E, E_AXIS_ADDED, at, e->name, elab_axis_name(E, e->axes & ~text));
		diag_note(E->d, e->at, "%s comes from here", e->name);
	} else if (counted) {
		ELAB_ERROR(E, E_STATE_RANGE, at, e->name, elab_axis_name(E, counted));
		diag_note(E->d, e->at, "%s comes from here", e->name);
	} else {
		e->value = (struct value){.ins = guarded(E, e, v.ins), .extra = e->axes};
	}
}

/* `acc: f32[i, d] = 0` */
static void declare(struct elab *E, const struct ast_stmt *s)
{
	struct type t = elab_type(E, s->type.name.text, s->type.name.at);
	struct value v = elab_expr(E, s->rhs.lo);
	ir_axes axes = 0;
	if (s->type.list)
		ELAB_ERROR(E, E_LIST, s->type.at, s->name.text);
	for (int i = 0; i < s->type.dims.n; i++) {
		const struct ast_expr *d = s->type.dims.items[i];
		struct entry *n = d->kind == AST_NAME ? scope_find(E, d->name) : NULL;
		if (n && n->kind == ENTRY_INDEX)
			axes |= n->index->over;
		else if (n && n->kind == ENTRY_AXES)
			axes |= n->axes;
		else
			ELAB_ERROR(E, E_STATE_AXES, d->at);
	}
	struct entry *e = scope_add(E, ENTRY_STATE, s->name.text, s->name.at);
	e->type = t;
	e->axes = axes;
	if (t.dtype == DT_NONE || !v.ins)
		return;
	int before = E->d->reported;
	e->value = v;                     /* so that assign_state finds a value to replace */
	assign_state(E, e, v, s->rhs.lo->at);
	if (E->d->reported != before)
		e->value = none;
}

/* --- plain names */

static void bind(struct elab *E, const struct ast_expr *target, struct value v)
{
	struct entry *e = scope_find(E, target->name);
	v = value_fixed(E, v, target->at);
	if (e && e->kind == ENTRY_VALUE && e->block == E->block) {
		e->value = v;
	} else if (e && e->kind == ENTRY_VALUE) {
		ELAB_ERROR(E, E_OUTER_NAME, target->at, target->name);
		diag_note(E->d, e->at, "%s comes from here", e->name);
	} else {
		scope_add(E, ENTRY_VALUE, target->name, target->at)->value = v;
	}
}

static void assign_one(struct elab *E, const struct ast_expr *target, struct value v, struct diag_span at)
{
	elab_at(E, target->at);
	struct entry *e = target->kind == AST_NAME ? scope_find(E, target->name) : NULL;
	if (target->kind == AST_INDEX)
		elab_store(E, target, v, NULL, at);
	else if (e && e->kind == ENTRY_STATE)
		assign_state(E, e, v, at);
	else if (target->kind == AST_NAME)
		bind(E, target, v);
}

static void assign(struct elab *E, const struct ast_stmt *s)
{
	struct value v[16] = {none};
	const struct ast_expr *rhs = s->rhs.lo;
	int n = s->lhs.n;
	if (n == 1) {
		assign_one(E, s->lhs.items[0], elab_expr(E, rhs), rhs->at);
		return;
	}
	if (n > 16 || rhs->kind != AST_CALL) {
		ELAB_ERROR(E, E_RESULTS, rhs->at, n, 1);
		n = n > 16 ? 16 : n;
	} else if (elab_call_many(E, rhs, v, n) < 0) {
		memset(v, 0, sizeof v);
	}
	for (int i = 0; i < n; i++)
		assign_one(E, s->lhs.items[i], v[i], rhs->at);
}

/* --- updates: of a tensor's elements, or of state */

static void update_state(struct elab *E, struct entry *e, const struct ast_stmt *s)
{
	static const enum ir_op op[] = {[UPDATE_ADD] = IR_ADD, [UPDATE_MAX] = IR_MAX, [UPDATE_MIN] = IR_MIN};
	static const char *const text[] = {[UPDATE_ADD] = "+=", [UPDATE_MAX] = "max=", [UPDATE_MIN] = "min="};
	struct value v = elab_expr(E, s->rhs.lo), old = e->value;
	elab_at(E, s->at);
	if (!v.ins || !old.ins)
		return;
	/* What is added must have the state's axes itself: the sum always has them. */
	ir_axes named = value_axes_of_text(E, v);
	if (value_axes(E, v) && e->axes & ~named) {
		ELAB_ERROR(E, E_AXIS_ADDED, s->rhs.lo->at, e->name, elab_axis_name(E, e->axes & ~named));
		diag_note(E->d, e->at, "%s comes from here", e->name);
		return;
	}
	ir_axes unseen = s->update == UPDATE_ADD ? tiles_unseen(E, v.ins, E->open_axes & ~e->open) : 0;
	if (unseen) {
		ELAB_ERROR(E, E_UPDATE_TILES, s->rhs.lo->at, e->name, elab_axis_name(E, unseen));
		diag_note(E->d, e->at, "%s comes from here", e->name);
		return;
	}
	bool dot = v.ins->op == IR_DOT && !(v.ins->flags & IR_ACC) && s->rhs.lo->kind == AST_CALL && s->update == UPDATE_ADD && v.ins->dtype == old.ins->dtype;
	if (dot)
		v.ins = ir_dot(&E->b, v.ins->args[0], v.ins->args[1], v.ins->over, old.ins);
	else
		v = value_binary(E, op[s->update], old, v, s->at, text[s->update]);
	assign_state(E, e, v, s->rhs.lo->at);
}

static void update(struct elab *E, const struct ast_stmt *s)
{
	const struct ast_expr *target = s->lhs.items[0];
	struct entry *e = scope_find(E, target->name);
	if (s->lhs.n != 1) {
		ELAB_ERROR(E, E_RESULTS, s->at, s->lhs.n, 1);
	} else if (target->kind == AST_INDEX) {
		elab_store(E, target, elab_expr(E, s->rhs.lo), &s->update, s->rhs.lo->at);
	} else if (e && e->kind == ENTRY_STATE) {
		update_state(E, e, s);
	} else if (target->kind == AST_NAME) {
		ELAB_ERROR(E, E_UPDATE_NAME, target->at, target->name);
		if (e && e->at.line)
			diag_note(E->d, e->at, "%s comes from here", e->name);
	}
}

/* --- conditions */

static void run_block(struct elab *E, const struct ast_block *b)
{
	struct scope scope = scope_open(E);
	elab_block(E, b);
	scope_close(E, scope);
}

static void guarded_block(struct elab *E, const struct ast_block *b, struct ir_ins *cond)
{
	struct scope scope = scope_open(E);
	guard_add(E, cond);
	elab_block(E, b);
	scope_close(E, scope);
}

static void branch(struct elab *E, const struct ast_stmt *s, struct ir_ins *cond)
{
	struct entry *state[MAX_ASSIGNED];
	struct value before[MAX_ASSIGNED];
	struct ir_ins *yields[2][MAX_ASSIGNED];
	int n = elab_assigned(E, &s->other, state, elab_assigned(E, &s->body, state, 0));
	struct ir_builder outer = E->b;
	struct ir_ins *iff = ir_if(&E->b, cond);
	for (int i = 0; i < n; i++)
		before[i] = state[i]->value;
	for (int side = 0; side < 2; side++) {
		E->b.block = side ? iff->other : iff->body;
		E->b.before = NULL;
		run_block(E, side ? &s->other : &s->body);
		for (int i = 0; i < n; i++) {
			yields[side][i] = state[i]->value.ins;
			state[i]->value = before[i];
		}
		ir_yield(&E->b, yields[side], n);
	}
	E->b.block = outer.block;
	E->b.before = outer.before;
	for (int i = 0; i < n; i++)
		state[i]->value.ins = ir_result(&E->b, iff, i);
}

static void condition(struct elab *E, const struct ast_stmt *s)
{
	struct value c = elab_expr(E, s->rhs.lo);
	elab_at(E, s->at);
	if (!c.ins) {
		run_block(E, &s->body);
		run_block(E, &s->other);
	} else if (c.ins->dtype != DT_I1) {
		ELAB_ERROR(E, E_NOT_CONDITION, s->rhs.lo->at, elab_type_name(c.ins));
	} else if (value_axes(E, c)) {
		ELAB_ERROR(E, E_IF_AXES, s->rhs.lo->at, elab_axis_name(E, value_axes(E, c)));
	} else if (c.ins->axes) {
		guarded_block(E, &s->body, c.ins);
		guarded_block(E, &s->other, ir_un(&E->b, IR_NOT, c.ins));
	} else {
		branch(E, s, c.ins);
	}
}

/* --- blocks */

static void statement(struct elab *E, const struct ast_stmt *s)
{
	elab_at(E, s->at);
	switch (s->kind) {
	case STMT_EACH: ELAB_ERROR(E, E_NESTED_EACH, s->at); break;
	case STMT_TEMP: ELAB_ERROR(E, E_NESTED_TEMP, s->at); break;
	case STMT_FOR: elab_for(E, s); break;
	case STMT_IF: condition(E, s); break;
	case STMT_DECLARE: declare(E, s); break;
	case STMT_UPDATE: update(E, s); break;
	case STMT_ASSIGN:
		if (s->rhs.hi)
			elab_held(E, s);
		else
			assign(E, s);
		break;
	}
}

void elab_block(struct elab *E, const struct ast_block *b)
{
	const struct ast_block *outer = E->text;
	E->text = b;
	for (int i = 0; i < b->n && !E->too_large && !E->d->full; i++)
		statement(E, b->items[i]);
	E->text = outer;
}
