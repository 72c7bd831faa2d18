/* pass_spread.c
 * Problem: a row that is longer than what the lanes of a workgroup hold is swept, and loaded again for each thing that is made of it; few such rows leave
 *          most of the chip idle.
 * Method:  the workgroups of a cluster hold it between them: the held axis becomes one of the grid, which a cluster holds whole, and what is
 *          reduced over it is reduced over the whole cluster.
 * Needs:   specialised, ungrouped IR.   Keeps: values, up to the order of reductions. */
#include "pass.h"

enum { MOST_ROW_AXES = 2 };                      /* beside the members, whose numbers have a dimension of the grid of their own */

struct spreading { struct ir_kernel *k; int axis; struct row_sums sums; bool reduces, ok; };

static void look(struct ir_ins *i, void *ctx)
{
	struct spreading *s = ctx;
	bool over = i->over & IR_AXIS(s->axis), stored = i->op == IR_STORE;
	intptr_t behind = 0;                             /* sums over the axis that lead here */
	for (int a = 0; a < i->nargs; a++)
		behind = (intptr_t)i->args[a]->note > behind ? (intptr_t)i->args[a]->note : behind;
	bool sum = over && i->kind == RED_SUM;
	behind += sum;
	i->note = (void *)behind;
	s->sums.all += sum;
	s->sums.in_turn = behind > s->sums.in_turn ? (int)behind : s->sums.in_turn;
	s->reduces = s->reduces || over;
	s->ok = s->ok && ir_is_plain(i) && !(over && i->dtype == DT_I64);
	s->ok = s->ok && !(stored && (s->k->params[i->imm].role != IR_OUT));      /* one workgroup of a cluster may be behind another */
}

int kernel_can_spread(struct ir_kernel *k, struct row_sums *sums)
{
	struct spreading s = {.k = k, .axis = -1, .ok = k->nphases == 1};
	const struct ir_phase *ph = &k->phases[0];
	int rows = 0, open = 0;
	int64_t n;
	for (int a = 0; s.ok && a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		rows += ax->kind == AXIS_GRID;
		s.ok = !(ax->kind == AXIS_GRID && (ax->ragged || ax->tiled || ax->tile || ax->cluster));
		if (ax->kind == AXIS_HELD && !ax->tile && !hexpr_is_const(ax->extent, &n)) {
			s.axis = a;
			open++;
		}
	}
	if (!s.ok || rows < 1 || rows > MOST_ROW_AXES || open != 1 || phase_is_guarded(k, ph))
		return -1;
	ir_walk(ph->body, look, &s);
	*sums = s.sums;
	return s.ok && s.reduces ? s.axis : -1;
}

int pass_spread(struct pass *p)
{
	struct ir_phase *ph = &p->k->phases[0];
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].cluster)                 /* pass_fuse made it */
			return 0;
	if (!p->v->cluster)
		return 0;
	struct row_sums sums;
	int axis = kernel_can_spread(p->k, &sums);
	if (axis < 0)
		return pass_fail(p, NULL, "internal: %s has no row for a cluster to hold", p->k->name);
	ph->axes[axis].kind = AXIS_GRID;
	ph->axes[axis].cluster = p->v->cluster;
	return 0;
}
