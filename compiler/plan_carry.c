/* plan_carry.c -- variants in which as many workgroups as the chip holds take many rows one after the other and carry sums of columns.
 * In: a kernel of rows, of sums over groups of them, and of sums of these (pass_carry.c).  Out: for classes of rows a variant; fewer rows, and longer
 * ones, are left to those of three launches.  What a lane and a workgroup hold, and how many of these there are, was measured (docs/performance.md). */
#include "pass.h"
#include "plan_tiles.h"

/* Elements from which on: a workgroup then has eight rows and more. */
enum { MANY_CARRIED = 8 << 20 };

/* Of rows up to so many columns, with so many sums at most, the lanes of a workgroup, and how many of those a multiprocessor has. */
static const struct { int columns, sums, threads, each; } classes[] = {{1024, 2, 128, 8}, {2048, 2, 256, 4}, {4096, 2, 256, 2}, {8192, 2, 512, 1}, {16384, 1, 512, 1}};

void plan_carried(struct planner *p)
{
	struct variant with = {.target = p->target, .carries = 1, .given = p->given, .absent = p->absent};
	char err[200];
	struct pass carry = {ir_clone(p->arena, p->k), &with, err, sizeof err};
	struct carried_sums sums;
	if (!p->target->multiprocessors || !kernel_can_carry(carry.k, &sums) || pass_carry(&carry))
		return;
	struct planner q = {.arena = p->arena, .k = carry.k, .text = p->text, .special = p->special, .target = p->target, .given = p->given, .absent = p->absent};
	facts_look(&q.f, q.k);
	const struct ir_axis *n = &q.k->phases[0].axes[sums.column];
	for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++) {
		struct variant v = plan_variant(&q);
		if (sums.n > classes[c].sums)
			continue;
		v.carries = classes[c].each * p->target->multiprocessors;
		v.waves = waves_of(p, classes[c].threads);
		plan_limit(&q, &v, (int)n->extent->imm, classes[c].columns);
		plan_aligned(&q, &v);
		plan_rows_from(p, &v, MANY_CARRIED / classes[c].columns, plan_rows_beside(p, (int)n->extent->imm));
		v.many = true;
		plan_tile(&v, 0, n->name, classes[c].columns);
		for (int i = 1; i < q.k->nphases; i++)
			plan_phase_tiles(&q, &v, i, 0, plan_lane_elements(&q, &v));
		*plan_add(p) = v;
	}
}
