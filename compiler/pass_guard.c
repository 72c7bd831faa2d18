/* pass_guard.c
 * Problem: `each m in M where m < tokens[e]` masks every access of a row.  A workgroup whose one row is not there computes all the
 *          same, and one whose row is there asks at every access.
 * Method:  a condition on what a tensor holds that is one for the workgroup and part of the mask of everything that a phase stores is
 *          asked once: what it is not made of moves into an `if`, in which it is true.  Of a tile of several rows, where a row is there
 *          if its number is below what is loaded, the first one is asked so; then the last one, for a copy of the code for tiles that are
 *          there as a whole, in which nothing is masked: where columns are stored, masks of rows part what a lane stores at once into
 *          single bytes.  Where elements are accessed one by one there is no copy.  Phases with products keep their order (pass_loads.c).  Variants for few rows (targets.c: few_rows) keep their
 *          masks: behind the branch nothing is computed while the condition is on its way, and little is saved (docs/performance.md).
 *          Groups of rows that are summed, of which the last may end early, are asked for their last row alone, for such a copy.
 * Needs:   tiles.   Keeps: values exactly. */
#include "pass.h"

enum { MOST = 8 };

struct guard {
	struct pass *p;                             /* NULL = it is only asked whether there is something to do */
	const struct ir_kernel *k;
	const struct ir_phase *ph;
	struct ir_ins *part[MOST]; int nparts;      /* conditions that every effect so far asks; of those of a tile, of the first row */
	struct ir_ins *bound[MOST]; int nbounds;    /* of a tile: what some effect asks of its last position */
	ir_axes ends;                               /* of groups of which the last may end early */
	bool any;                                   /* there was an effect */
	bool shared;                                /* one stores to a place that several workgroups have */
	bool *made;                                 /* by id: the conditions and what they are made of */
};

static bool is_of_tile(const struct guard *g, const struct ir_ins *c) { return axes_of_several(g->ph, c->axes); }

/* Positions that grow along the tile's axes, or are one for it. */
static bool grows(const struct guard *g, const struct ir_ins *a)
{
	if (!axes_of_several(g->ph, a->axes) || a->op == IR_IOTA)
		return true;
	bool scaled = a->op == IR_MUL && a->args[1]->op == IR_CONST && a->args[1]->imm >= 0;
	return (scaled || a->op == IR_ADD) && grows(g, a->args[0]) && grows(g, a->args[1]);
}

/* One value, or loaded twice: of generic IR the planner asks as well. */
static bool is_same(const struct guard *g, const struct ir_ins *a, const struct ir_ins *b)
{
	bool same = a->op == IR_LOAD && b->op == IR_LOAD && a->imm == b->imm && a->nargs == b->nargs && a->flags == b->flags;
	for (int i = 0; same && i < a->nargs; i++)
		same = a->args[i] == b->args[i];
	return a == b || (same && g->k->params[a->imm].role == IR_IN);
}

/* Two conditions of a tile are one for its first row, and hold nowhere if not there: positions along held axes begin with 0. */
static bool begin_alike(const struct guard *g, const struct ir_ins *a, const struct ir_ins *b)
{
	if (a->op != IR_LT || b->op != IR_LT || !is_same(g, a->args[1], b->args[1]) || !grows(g, a->args[0]) || !grows(g, b->args[0]))
		return false;
	struct affine d = affine_sub(affine_of(a->args[0]), affine_of(b->args[0]));
	bool alike = d.ok && !d.nterms && !d.constant;
	for (int x = 0; x < g->ph->naxes; x++)
		alike = alike && (!d.coef[x] || g->ph->axes[x].kind == AXIS_HELD);
	return alike;
}

/* Whether mask is a conjunction that holds c, or what is c for the first row. */
static bool asks(const struct guard *g, const struct ir_ins *mask, const struct ir_ins *c)
{
	if (mask == c || (is_of_tile(g, c) && begin_alike(g, mask, c)))
		return true;
	return mask->op == IR_AND && mask->dtype == DT_I1 && (asks(g, mask->args[0], c) || asks(g, mask->args[1], c));
}

/* A condition of a tile that holds for all of it where it does for the last position. */
static bool is_bound(const struct guard *g, const struct ir_ins *c)
{
	return is_of_tile(g, c) && c->block == g->ph->body && c->op == IR_LT && !axes_of_several(g->ph, c->args[1]->axes) && grows(g, c->args[0]);
}

static void collect_bounds(struct guard *g, struct ir_ins *mask)
{
	bool known = false;
	if (mask->op == IR_AND && mask->dtype == DT_I1) {
		collect_bounds(g, mask->args[0]);
		collect_bounds(g, mask->args[1]);
		return;
	}
	for (int c = 0; c < g->nbounds; c++)
		known = known || g->bound[c] == mask;
	if (!known && is_bound(g, mask) && g->nbounds < MOST)
		g->bound[g->nbounds++] = mask;
}

static void collect(struct guard *g, struct ir_ins *mask)
{
	if (mask->op == IR_AND && mask->dtype == DT_I1) {
		collect(g, mask->args[0]);
		collect(g, mask->args[1]);
	} else if (mask->block == g->ph->body && g->nparts < MOST && (is_of_tile(g, mask) ? is_bound(g, mask) && value_is_of_memory(mask->args[1]) : value_is_of_memory(mask))) {
		g->part[g->nparts++] = mask;
	}
}

static void look_at_effect(struct ir_ins *i, void *ctx)
{
	struct guard *g = ctx;
	if (i->op != IR_STORE && i->op != IR_UPDATE)
		return;
	struct ir_ins *mask = i->flags & IR_MASKED ? i->args[i->nargs - 1] : NULL;
	if (!g->any && mask)
		collect(g, mask);
	if (mask)
		collect_bounds(g, mask);
	int kept = 0;
	for (int c = 0; c < g->nparts; c++)
		if (mask && asks(g, mask, g->part[c]))
			g->part[kept++] = g->part[c];
	g->nparts = kept;
	g->any = true;
}

static void note_stored(struct ir_ins *i, void *axes)
{
	for (int a = 0; (i->op == IR_STORE || i->op == IR_UPDATE) && a < i->nargs; a++)
		*(ir_axes *)axes |= i->args[a]->axes;
}

int phase_reduced_group(const struct ir_phase *ph, int groups)
{
	const struct ir_axis *g = &ph->axes[groups], *each = groups + 1 < ph->naxes ? &ph->axes[groups + 1] : NULL;
	ir_axes stored = 0;
	ir_walk(ph->body, note_stored, &stored);
	bool grouped = g->kind == AXIS_GRID && g->extent && g->extent->op == HX_CDIV && each && each->kind == AXIS_HELD && each->extent && each->extent->op == HX_CONST;
	return grouped && !(stored & IR_AXIS(groups + 1)) ? groups + 1 : -1;
}

/* What is asked of positions in such groups, by anything: their sums mask loads, and what they are made of. */
static void look_at_group(struct ir_ins *i, void *ctx)
{
	struct guard *g = ctx;
	if (i->dtype == DT_I1 && i->op == IR_LT && (i->axes & g->ends))
		collect_bounds(g, i);
}

static struct guard guard_of(struct pass *p, const struct ir_kernel *k, const struct ir_phase *ph)
{
	struct guard g = {.p = p, .k = k, .ph = ph};
	if (!ir_has(ph->body, IR_DOT))
		ir_walk(ph->body, look_at_effect, &g);
	return g;
}

/* A store to a place that several workgroups have, one of which stores it (target/emit/once.c): which one that is must not depend on a branch. */
static void look_for_shared(struct ir_ins *i, void *ctx)
{
	struct guard *g = ctx;
	ir_axes place = 0;
	if (i->op != IR_STORE)
		return;
	for (int d = 0; d < g->k->params[i->imm].rank; d++)
		place |= i->args[d]->axes;
	for (int a = 0; a < g->ph->naxes; a++)
		g->shared = g->shared || (g->ph->axes[a].kind == AXIS_GRID && !(place & IR_AXIS(a)));
}

static struct guard ends_of(struct pass *p, const struct ir_phase *ph)
{
	struct guard g = {.p = p, .k = p->k, .ph = ph};
	ir_walk(ph->body, look_for_shared, &g);
	for (int a = 0, each; a < ph->naxes; a++) {
		each = phase_reduced_group(ph, a);
		g.ends |= each < 0 ? 0 : IR_AXIS(each);
	}
	if (!g.shared && p->v->aligned && !p->v->single && !ir_has(ph->body, IR_DOT))
		ir_walk(ph->body, look_at_group, &g);
	return g;
}

bool phase_is_guarded(const struct ir_kernel *k, const struct ir_phase *ph)
{
	return guard_of(NULL, k, ph).nparts;
}

/* False where it is made of what may change while the phase runs. */
static bool note_made(struct guard *g, const struct ir_ins *i)
{
	bool fixed = ir_is_pure(i) && !(i->op == IR_LOAD && g->k->params[i->imm].role != IR_IN);
	g->made[i->id] = true;
	for (int a = 0; fixed && a < i->nargs; a++)
		fixed = g->made[i->args[a]->id] || note_made(g, i->args[a]);
	return fixed;
}

/* All of them; of those of a tile for its first row, or its last. */
static struct ir_ins *conjunction(const struct guard *g, struct ir_builder *b, struct ir_ins *const *parts, int n, enum ir_reduce which)
{
	struct ir_ins *all = NULL;
	for (int c = 0; c < n; c++) {
		struct ir_ins *part = parts[c];
		if (is_of_tile(g, part))
			part = ir_bin(b, IR_LT, tile_extreme(g->ph, b, part->args[0], which), part->args[1]);
		all = !all || all == part ? part : ir_bin(b, IR_AND, all, part);
	}
	return all->axes ? ir_reduce(b, RED_ANY, all, all->axes, NULL) : all;
}

/* It holds in the block: what is asked once, or, of a whole tile, what is asked of positions that none of a bound's lies below. */
static bool holds(const struct guard *g, const struct ir_ins *c, bool whole)
{
	bool does = false;
	for (int p = 0; !whole && p < g->nparts; p++)
		does = does || (c == g->part[p] && !is_of_tile(g, c));
	for (int p = 0; whole && c->op == IR_LT && p < g->nbounds; p++) {
		struct affine d = affine_sub(affine_of(g->bound[p]->args[0]), affine_of(c->args[0]));
		bool below = c->args[1] == g->bound[p]->args[1] && d.ok && !d.nterms && d.constant >= 0;
		for (int x = 0; x < g->ph->naxes; x++)
			below = below && d.coef[x] >= 0;
		does = does || below;
	}
	return does;
}

/* In the block, and those within it, what holds is true. */
static void assume(const struct guard *g, struct ir_phase *ph, struct ir_block *b, bool whole)
{
	struct ir_builder at = {g->p->k, ph, b, b->first, b->first->line, b->first->col};
	struct ir_ins *true_here = ir_int(&at, DT_I1, 1);
	for (struct ir_ins *i = true_here->next; i; i = i->next) {
		for (int a = 0; a < i->nargs; a++)
			i->args[a] = holds(g, i->args[a], whole) ? true_here : i->args[a];
		if (i->body)
			assume(g, ph, i->body, whole);
		if (i->other)
			assume(g, ph, i->other, whole);
	}
}

static void end(const struct guard *g, struct ir_phase *ph, struct ir_block *b)
{
	struct ir_builder in = {g->p->k, ph, b, NULL, ph->line, 0};
	ir_yield(&in, NULL, 0);
}

/* What the conditions are made of stays in front. */
static bool note_all(struct guard *g, struct ir_ins *const *parts, int n)
{
	for (int c = 0; c < n; c++) {
		const struct ir_ins *part = parts[c];
		bool fixed = is_of_tile(g, part) ? note_made(g, part->args[0]) && note_made(g, part->args[1]) : note_made(g, part);
		if (!fixed)
			return false;
	}
	return true;
}

static bool wrap(struct guard *g, struct ir_phase *ph)
{
	struct ir_block *body = ph->body, *to;
	bool copied = !g->nparts;
	for (int c = 0; c < g->nparts; c++)
		copied = copied || is_of_tile(g, g->part[c]);
	copied = copied && g->p->v->aligned && !g->p->v->single;
	if (!note_all(g, g->part, g->nparts) || (copied && !note_all(g, g->bound, g->nbounds)))
		return false;
	struct ir_builder at = pass_before(g->p, ph, body->last);
	struct ir_ins *last = body->last->prev, *whole = NULL;
	struct ir_ins *guard = g->nparts ? ir_if(&at, conjunction(g, &at, g->part, g->nparts, RED_MIN)) : NULL;
	struct ir_builder in = guard ? (struct ir_builder){g->p->k, ph, guard->body, NULL, ph->line, 0} : at;
	if (copied)
		whole = ir_if(&in, conjunction(g, &in, g->bound, g->nbounds, RED_MAX));
	to = copied ? whole->other : guard->body;
	for (struct ir_ins *i = body->first, *next, *behind = last->next; i != behind; i = next) {
		next = i->next;
		if (g->made[i->id])
			continue;
		ir_remove(i);
		ir_append(to, i);
	}
	end(g, ph, to);
	if (copied) {
		whole->body = ir_clone_block(g->p->k, to, whole);
		assume(g, ph, whole->body, true);
	}
	if (guard) {
		if (copied)
			end(g, ph, guard->body);
		end(g, ph, guard->other);
		assume(g, ph, guard->body, false);
	}
	return true;
}

int pass_guard(struct pass *p)
{
	bool wrapped = false;
	if (p->v->few)
		return 0;
	FOR_PHASES(p, ph) {
		struct guard g = guard_of(p, p->k, ph);
		if (!g.nparts)
			g = ends_of(p, ph);
		g.made = arena_alloc(p->k->arena, sizeof *g.made * (size_t)(p->k->next_id + 1));
		wrapped |= (g.nparts || g.nbounds) && wrap(&g, ph);
	}
	return wrapped ? pass_simplify(p) : 0;
}
