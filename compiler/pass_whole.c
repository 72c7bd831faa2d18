/* pass_whole.c
 * Problem: groups along which a matrix instruction runs may be no whole number of its steps, as those of 24 are of 16.
 * Method:  the axis of a group's positions gets a tile that is; those beyond the group are absent as those beyond the extent are: who asks whether a
 *          position is below something asks whether it is in its group as well, which is true of all positions that there are.
 * Needs:   tiles.   Keeps: values. */
#include "pass.h"

struct look { const struct pass *p; int axis; struct ir_ins **asks; int n, cap; const struct ir_ins *bare; };

static void look_at(struct ir_ins *i, void *ctx)
{
	struct look *l = ctx;
	ir_axes axis = IR_AXIS(l->axis), all = i->over;
	for (int a = 0; a < i->nargs; a++)
		all |= i->args[a]->axes;
	if (!(all & axis))
		return;
	bool counts = i->op == IR_REDUCE && (i->over & axis) && !ir_is_tile_bound(i);
	if ((counts || i->op == IR_LOAD || i->op == IR_STORE || i->op == IR_UPDATE) && !((i->flags & IR_MASKED) && (i->args[i->nargs - 1]->axes & axis)))
		l->bare = i;
	if (i->op != IR_LT || !(i->args[0]->axes & axis))
		return;
	if (l->n == l->cap)
		l->asks = arena_grow(l->p->k->arena, l->asks, l->n, &l->cap, sizeof *l->asks);
	l->asks[l->n++] = i;
}

static int make_whole(struct pass *p, struct ir_phase *ph, int axis, int tile)
{
	struct look l = {.p = p, .axis = axis};
	ir_walk(ph->body, look_at, &l);
	if (l.bare)
		return pass_fail(p, l.bare, "groups of %d along %s are no whole number of steps of a matrix instruction", ph->axes[axis].tile, ph->axes[axis].name);
	for (int i = 0; i < l.n; i++) {
		struct ir_builder b = pass_before(p, ph, l.asks[i]->next);
		struct ir_ins *inside = ir_bin(&b, IR_LT, ir_leaf(&b, IR_IOTA, DT_I32, axis), ir_int(&b, DT_I32, ph->axes[axis].tile));
		struct ir_ins *both = ir_new(&b, IR_AND, DT_I1, l.asks[i]->axes | inside->axes, 2);
		ir_replace(p->k, l.asks[i], both);
		both->args[0] = l.asks[i];
		both->args[1] = inside;
	}
	ph->axes[axis].tile = tile;
	return 0;
}

int pass_whole(struct pass *p)
{
	FOR_PHASES(p, ph)
		for (int a = 0; a < ph->naxes; a++) {
			int side = phase_product_side(ph, p->v->target, a), tile = side;
			if (ph->axes[a].kind != AXIS_HELD || side == 1)
				continue;
			while (tile < ph->axes[a].tile)
				tile *= 2;
			if (tile != ph->axes[a].tile && make_whole(p, ph, a, tile))
				return -1;
		}
	return 0;
}
