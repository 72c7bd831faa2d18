/* pass_schedule.c
 * Problem: axes come from the text without sizes.
 * Method:  the variant's choice by axis name; then GRID axes 1, held axes of constant extent their extent rounded up to a
 *          power of two.  A held axis that its tile does not hold whole stays without one: pass stream makes it a chunk.  What
 *          else remains without a tile is an error of the plan.
 * Needs:   axes.   Keeps: values (a tile's elements beyond the extent are masked). */
#include "pass.h"

#include <string.h>

int pass_planned_tile(const struct variant *v, int phase, const char *axis)
{
	for (int i = 0; i < v->ntiles; i++)
		if ((v->tiles[i].phase < 0 || v->tiles[i].phase == phase) && strcmp(v->tiles[i].axis, axis) == 0)
			return v->tiles[i].tile;
	return 0;
}

int pass_schedule(struct pass *p)
{
	FOR_PHASES(p, ph) {
		for (int a = 0; a < ph->naxes; a++) {
			struct ir_axis *ax = &ph->axes[a];
			int64_t n;
			if (ax->tile)
				continue;
			ax->tile = pass_planned_tile(p->v, (int)(ph - p->k->phases), ax->name);
			if (ax->tile && ax->kind == AXIS_HELD && p->v->stream && !axis_fits(ax, p->v)) {
				ax->tile = 0;
				continue;
			}
			if (!ax->tile && ax->kind == AXIS_GRID && !ax->tiled)
				ax->tile = 1;
			if (!ax->tile && ax->kind == AXIS_HELD && hexpr_is_const(ax->extent, &n) && n > 0 && n <= 65536)
				for (ax->tile = 1; ax->tile < n; ax->tile *= 2)
					;
			if (!ax->tile && ax->kind == AXIS_LOOP && !ax->tiled)
				ax->tile = 1;
			if (!ax->tile)
				return pass_fail(p, NULL, "internal: no tile size was planned for axis %s", ax->name);
		}
	}
	return 0;
}
