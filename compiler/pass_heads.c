/* pass_heads.c
 * Problem: heads that share keys, h / (H / G), have workgroups of their own, each of which loads these; of few positions a tile of rows is mostly empty
 *          besides.
 * Method:  a tile's rows are the heads that share what the loops load, not positions, each of which has a workgroup: the axis of heads numbers their groups,
 *          and a tiled one of n, the head in its group, takes the place of that of positions.  What a head stores or loads by itself asks whether it is there.
 * Needs:   elaborated IR.   Keeps: values exactly. */
#include "pass.h"

static const struct hexpr *hexpr_of(struct arena *arena, const struct ir_ins *i)
{
	if (i->op == IR_SYM)
		return hexpr_sym(arena, (int)i->imm);
	if (i->op == IR_CONST && i->dtype == DT_I32)
		return hexpr_const(arena, i->imm);
	const struct hexpr *a = i->op == IR_DIV ? hexpr_of(arena, i->args[0]) : NULL, *b = a ? hexpr_of(arena, i->args[1]) : NULL;
	return b ? hexpr_op(arena, HX_DIV, a, b) : NULL;
}

/* tells: by id, whether a value is another for each head of a group. */
struct look { struct arena *arena; struct ir_phase *ph; int head; const struct ir_ins *each; const struct hexpr *extent; bool *tells, products, ok; };

static bool is_number(const struct ir_ins *i, int axis) { return i->op == IR_IOTA && i->imm == axis; }

/* head / each, the number of a group of heads. */
static bool is_group(const struct look *l, const struct ir_ins *i) { return i->op == IR_DIV && is_number(i->args[0], l->head) && i->args[1] == l->each; }

/* head < H, of all heads that there are. */
static bool is_bound(const struct look *l, const struct ir_ins *i)
{
	const struct hexpr *end = i->op == IR_LT && is_number(i->args[0], l->head) ? hexpr_of(l->arena, i->args[1]) : NULL;
	return end && hexpr_equal(end, l->extent);
}

static void note_what_tells(struct ir_ins *i, void *ctx)
{
	struct look *l = ctx;
	bool carried = i->op == IR_RESULT, tells = is_number(i, l->head) || (carried && i->axes & IR_AXIS(l->head));
	for (int a = 0; a < i->nargs && !carried && !is_group(l, i) && !is_bound(l, i); a++)
		tells = tells || (i->args[a]->op == IR_ARG ? (i->args[a]->axes & IR_AXIS(l->head)) != 0 : l->tells[i->args[a]->id]);
	l->tells[i->id] = tells;
}

/* Loaded anew in each round of a loop. */
static bool is_of_round(const struct ir_ins *i)
{
	bool along = false;
	for (const struct ir_ins *loop = i->block->owner; loop && !along; loop = loop->block->owner)
		along = loop->op == IR_FOR && i->axes & IR_AXIS(loop->imm);
	return i->op == IR_LOAD && along;
}

/* What loops load is one for the heads of a group, and so are how long they run and what is asked. */
static void look_at(struct ir_ins *i, void *ctx)
{
	struct look *l = ctx;
	bool inside = i->block->owner, load = is_of_round(i);
	l->products = l->products || (i->op == IR_DOT && inside);
	l->ok = l->ok && i->op != IR_UPDATE && !(i->op == IR_STORE && inside);
	l->ok = l->ok && i->op != IR_SCAN && i->op != IR_ARGMAX && i->op != IR_LIMIT && !(i->over & IR_AXIS(l->head));
	for (int a = 0; l->ok && a < i->nargs && (load || i->op == IR_IF || (i->op == IR_FOR && a < 2)); a++)
		l->ok = i->args[a]->op == IR_ARG ? !(i->args[a]->axes & IR_AXIS(l->head)) : !l->tells[i->args[a]->id];
}

static void find_each(struct ir_ins *i, void *ctx)
{
	struct look *l = ctx;
	const struct ir_ins *n = i->op == IR_DIV ? i->args[0] : NULL;
	const struct ir_axis *ax = n && n->op == IR_IOTA ? &l->ph->axes[n->imm] : NULL;
	if (l->each || !ax || ax->kind != AXIS_GRID || ax->tiled || ax->ragged || ax->cluster || ax->tile > 1 || i->args[1]->axes)
		return;
	l->head = (int)n->imm;
	l->each = i->args[1];
	l->extent = ax->extent;
}

static struct look look_for_groups(const struct ir_kernel *k)
{
	struct ir_phase *ph = &k->phases[0];
	struct look l = {.arena = k->arena, .ph = ph, .head = -1, .tells = arena_alloc(k->arena, sizeof(bool) * (size_t)k->next_id), .ok = k->nphases == 1 && ph->naxes < LAYOUT_AXES};
	if (l.ok)
		ir_walk(ph->body, find_each, &l);
	if (l.each)
		ir_walk(ph->body, note_what_tells, &l);
	return l;
}

bool kernel_shares_heads(const struct ir_kernel *k, struct shared_heads *s)
{
	struct ir_phase *ph = &k->phases[0];
	struct look l = look_for_groups(k);
	*s = (struct shared_heads){.head = l.head, .row = -1, .each = l.each ? hexpr_of(k->arena, l.each) : NULL};
	for (int a = 0; a < ph->naxes; a++) {
		l.ok = l.ok && !(ph->axes[a].tiled && ph->axes[a].kind == AXIS_GRID && s->row >= 0);
		s->row = ph->axes[a].tiled && ph->axes[a].kind == AXIS_GRID ? a : s->row;
	}
	if (!s->each || s->row < 0 || ph->axes[s->row].ragged || !l.ok)
		return false;
	s->name = arena_printf(k->arena, "%s.r", ph->axes[s->head].name);
	ir_walk(ph->body, look_at, &l);
	return l.ok && l.products;
}

struct sharing { struct pass *p; struct ir_phase *ph; struct look l; int head, row, position; struct ir_ins *group, *of_head, *at, *there, *always; };

static ir_axes axes_behind(const struct sharing *s, ir_axes axes)
{
	ir_axes head = IR_AXIS(s->head), row = IR_AXIS(s->row);
	return (axes & ~row) | (axes & row ? IR_AXIS(s->position) : 0) | (axes & head ? row : 0);
}

static void move_axes(struct ir_ins *i, void *ctx)
{
	const struct sharing *s = ctx;
	i->axes = axes_behind(s, i->axes);
	i->over = axes_behind(s, i->over);
	for (int a = 0; i->op == IR_FOR && a < i->body->nparams; a++)
		i->body->params[a]->axes = axes_behind(s, i->body->params[a]->axes);
}

static void ask(struct ir_ins *i, void *ctx)
{
	struct sharing *s = ctx;
	if ((i->op != IR_LOAD && i->op != IR_STORE) || !s->l.tells[i->id])
		return;
	struct ir_builder b = pass_before(s->p, s->ph, i);
	if (i->flags & IR_MASKED) {
		i->args[i->nargs - 1] = ir_bin(&b, IR_AND, i->args[i->nargs - 1], s->there);
		return;
	}
	struct ir_ins **args = arena_alloc(s->p->k->arena, sizeof *args * (size_t)(i->nargs + 1));
	for (int a = 0; a < i->nargs; a++)
		args[a] = i->args[a];
	args[i->nargs++] = s->there;
	i->args = args;
	i->flags |= IR_MASKED;
}

static void take_groups(struct ir_ins *i, void *ctx)
{
	struct sharing *s = ctx;
	if (is_group(&s->l, i))
		ir_replace(s->p->k, i, s->group);
	else if (is_bound(&s->l, i))
		ir_replace(s->p->k, i, s->always);
}

static void renumber(struct ir_ins *i, void *ctx)
{
	struct sharing *s = ctx;
	if (is_number(i, s->head) && i != s->group)
		ir_replace(s->p->k, i, s->of_head);
	else if (i->op == IR_IOTA && i->imm == s->row && i != s->at)
		i->imm = s->position;
}

static void share(struct pass *p, struct ir_phase *ph, const struct shared_heads *h)
{
	struct ir_kernel *k = p->k;
	struct sharing s = {.p = p, .ph = ph, .l = look_for_groups(k), .head = h->head, .row = h->row, .position = ph->naxes};
	const struct hexpr *heads = ph->axes[h->head].extent;
	ph->axes[ph->naxes] = ph->axes[h->row];
	ph->axes[ph->naxes++].tiled = false;
	ph->axes[h->row] = (struct ir_axis){.name = h->name, .kind = AXIS_GRID, .tiled = true, .extent = h->each, .line = ph->axes[h->head].line, .col = ph->axes[h->head].col};
	ph->axes[h->head].extent = hexpr_op(k->arena, HX_CDIV, heads, h->each);
	ir_walk(ph->body, move_axes, &s);
	struct ir_builder b = pass_before(p, ph, ph->body->first);
	struct ir_ins *each = ir_hexpr(&b, h->each), *all = ir_hexpr(&b, heads);
	s.group = ir_leaf(&b, IR_IOTA, DT_I32, h->head);
	s.at = ir_leaf(&b, IR_IOTA, DT_I32, h->row);
	struct ir_ins *first = ir_bin(&b, IR_MUL, s.group, each);
	s.of_head = ir_bin(&b, IR_ADD, first, s.at);
	s.always = ir_int(&b, DT_I1, 1);
	s.there = ir_bin(&b, IR_LT, s.at, ir_bin(&b, IR_MIN, each, ir_bin(&b, IR_SUB, all, first)));
	ir_walk(ph->body, ask, &s);
	ir_walk(ph->body, take_groups, &s);
	ir_walk(ph->body, renumber, &s);
	ir_walk(ph->body, ir_recompute_axes, NULL);
}

int pass_heads(struct pass *p)
{
	struct shared_heads h;
	if (p->v->heads && kernel_shares_heads(p->k, &h))
		share(p, &p->k->phases[0], &h);
	return p->v->heads ? pass_clean(p) : 0;
}
