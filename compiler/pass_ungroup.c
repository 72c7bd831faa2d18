/* pass_ungroup.c
 * Problem: rows are taken by 64, say, for the sake of sums over each 64; where the tensor of the sums is absent a workgroup still
 *          holds 64 rows, and a variant that holds them without masks asks M % 64 == 0.
 * Method:  a grid axis o of cdiv(S, c) and a held axis i of c positions that occur in c * o + i alone, with nothing reduced over i and
 *          no block inside, are one tiled grid axis of S positions: o takes its place, i has one position.
 * Needs:   specialised IR without unused instructions.   Keeps: values exactly. */
#include "pass.h"

struct group { struct pass *p; int outer, inner; int64_t by; bool apart; int sums; };

static bool is_iota(const struct ir_ins *i, int axis) { return i->op == IR_IOTA && i->imm == axis; }

static bool is_scaled(const struct group *g, const struct ir_ins *i)
{
	return i->op == IR_MUL && is_iota(i->args[0], g->outer) && i->args[1]->op == IR_CONST && i->args[1]->imm == g->by;
}

static bool is_sum(const struct group *g, const struct ir_ins *i)
{
	return i->op == IR_ADD && is_scaled(g, i->args[0]) && is_iota(i->args[1], g->inner);
}

/* apart: something else asks for one of the two. */
static void look(struct ir_ins *i, void *ctx)
{
	struct group *g = ctx;
	bool sum = is_sum(g, i);
	g->sums += sum;
	g->apart = g->apart || i->body || (i->over & (IR_AXIS(g->inner) | IR_AXIS(g->outer)));
	for (int a = 0; a < i->nargs && !sum; a++)
		g->apart = g->apart || is_iota(i->args[a], g->inner) || is_scaled(g, i->args[a]) || (is_iota(i->args[a], g->outer) && !is_scaled(g, i));
}

static void join(struct ir_ins *i, void *ctx)
{
	struct group *g = ctx;
	if (!is_sum(g, i))
		return;
	ir_replace(g->p->k, i, i->args[0]->args[0]);
	ir_remove(i);
}

/* S, of groups of `by`; NULL = it is no such pair. */
static const struct hexpr *positions_of(const struct ir_phase *ph, int outer, int inner, int64_t *by)
{
	const struct ir_axis *o = &ph->axes[outer], *i = &ph->axes[inner];
	if (o->kind != AXIS_GRID || o->ragged || !o->extent || i->kind != AXIS_HELD)
		return NULL;
	*by = i->tile;
	if (o->grouped)
		return o->grouped;
	return o->extent->op == HX_CDIV && hexpr_is_const(o->extent->b, by) && i->tile == *by ? o->extent->a : NULL;
}

/* The variant was planned for the axis as it is; plans are made of what this pass leaves where tensors are absent. */
static bool is_planned_apart(const struct pass *p, const struct ir_phase *ph, int outer)
{
	return p->v->waves && !pass_planned_tile(p->v, (int)(ph - p->k->phases), ph->axes[outer].name);
}

int pass_ungroup(struct pass *p)
{
	bool changed = false;
	FOR_PHASES(p, ph)
		for (int a = 0; a + 1 < ph->naxes; a++) {
			struct group g = {.p = p, .outer = a, .inner = a + 1};
			const struct hexpr *positions = positions_of(ph, a, a + 1, &g.by);
			if (!positions || is_planned_apart(p, ph, a))
				continue;
			ir_walk(ph->body, look, &g);
			if (g.apart || !g.sums)
				continue;
			ir_walk(ph->body, join, &g);
			ir_walk(ph->body, ir_recompute_axes, NULL);
			ph->axes[a].extent = positions;
			ph->axes[a].grouped = NULL;
			ph->axes[a].tiled = true;
			ph->axes[a + 1].extent = hexpr_const(p->k->arena, 1);
			ph->axes[a + 1].tile = 1;
			changed = true;
		}
	return changed ? pass_clean(p) : 0;
}
