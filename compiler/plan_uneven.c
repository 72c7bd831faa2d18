/* plan_uneven.c -- classes of rows that are held along several axes, one of which is much longer than the others.
 * In: a planner for the set in hand, of a kernel whose rows are not swept.  Out: variants for as many elements as a row can have, of which one axis has
 * most: 256 x 64, 1024 x 16, 4096 x 4, 16384 x 1, either way round.  Classes of all axes alike (plan.c) end at 128 of two axes, and what no class takes
 * is refused. */
#include "pass.h"
#include "plan_tiles.h"

/* Symbols that the held axes of the only phase have, each another; -1 = it has tiles besides, or an extent that is none. */
static int held_symbols(const struct planner *p, int *axes)
{
	const struct ir_phase *ph = &p->k->phases[0];
	int n = 0;
	if (p->k->nphases > 1 || phase_shape(NULL, ph).tiled)
		return -1;
	for (int a = ph->naxes - 1; a >= 0; a--) {
		if (!phase_is_open(NULL, &ph->axes[a]))
			continue;
		for (int i = 0; i < n; i++)
			if (hexpr_equal(ph->axes[axes[i]].extent, ph->axes[a].extent))
				return -1;
		if (ph->axes[a].extent->op != HX_SYM)
			return -1;
		axes[n++] = a;
	}
	return n;
}

void plan_uneven(struct planner *p, bool is_aligned)
{
	static const int shorts[] = {64, 16, 4, 1};
	const struct ir_phase *ph = &p->k->phases[0];
	int axes[LAYOUT_AXES], n = held_symbols(p, axes);
	for (unsigned c = 0; n > 1 && c < sizeof shorts / sizeof *shorts; c++)
		for (int l = 0; l < n; l++) {
			struct variant v = plan_variant(p);
			int64_t rest = phase_shape(NULL, ph).fixed;
			for (int i = 1; i < n; i++)
				rest *= shorts[c];
			int64_t longest = plan_row_most(p, NULL) / rest;
			bool any = longest > shorts[c];
			for (int i = 0; i < n; i++) {
				int64_t most = i == l ? longest : shorts[c], symbol = ph->axes[axes[i]].extent->imm;
				any = any && !(is_aligned && p->f.multiple[symbol] > most);
				plan_limit(p, &v, (int)symbol, most);
				plan_tile(&v, 0, ph->axes[axes[i]].name, (int)most);
			}
			v.waves = is_aligned ? plan_row_waves(p, &v, longest * rest) : waves_of(p, plan_most_threads(p));   /* element by element: few a lane */
			if (is_aligned)
				plan_aligned(p, &v);
			if (any)
				*plan_add(p) = v;
		}
}
