/* plan_cluster.c -- variants in which the workgroups of a cluster hold rows whole between them.
 * In: a kernel whose second phase takes rows in tiles of groups both ways, made of what its first one reduces them to: the two are one (pass_fuse.c).
 * Out: for pinned lengths and for classes of rows as long as a cluster holds as many as a group has, a variant; longer rows are left to those of
 * two launches.  Each workgroup holds a part of the columns as one of its tiles would be: whatever the class, so many elements.
 * In: a kernel of rows that are reduced whole, one at a time (pass_spread.c).  Out: variants for classes of rows longer than a workgroup's lanes
 * hold; of how many columns each has was measured (docs/performance.md). */
#include "pass.h"
#include "plan_tiles.h"

/* As the tiles that a kernel of nothing but them has: small workgroups, five of which share a multiprocessor and wait for different things. */
enum { MEMBER_THREADS = 128, LANE_ELEMENTS = 64, FEWEST = 2 };

/* For rows up to `most`, or of so many columns whose tensors' rows lie one behind the other: these have no masks, and the addresses of a lane's
 * rows differ by numbers: most of a fifth of the instructions. */
static void plan_cluster(struct planner *p, const struct fused_axes *f, int symbol, int64_t most, int cluster, bool exactly)
{
	struct variant v = plan_variant(p);
	const struct ir_phase *ph = &p->k->phases[0];
	v.cluster = cluster;
	v.sideways = true;
	v.stored_first = p->target->stored_first ? STORED_FIRST : STORED_AS_READ;
	if (p->f.rows && (cluster > FEWEST || f->rows_by * f->columns_by >= most))     /* what lies beside the end of a row, and is asked for as well, is a tensor's still */
		v.ahead = p->target->ahead_bytes / (MEMBER_THREADS * LANE_ELEMENTS * p->f.widest * p->f.rows);
	v.waves = waves_of(p, MEMBER_THREADS);
	if (exactly)
		plan_pin_symbol(p, &v, symbol, most);
	else
		plan_limit(p, &v, symbol, most);
	plan_aligned(p, &v);
	if (exactly)
		plan_dense(p, &v);
	plan_say(p, &v, "clusters");
	plan_tile(&v, 0, ph->axes[f->rows].name, 1);
	plan_tile(&v, 0, ph->axes[f->columns].name, (int)(most / f->columns_by / cluster));
	*plan_add(p) = v;
}

/* Rows that nothing takes together would be held one by one, by many workgroups; of other groups than those that bits number, places would be empty. */
static bool are_groups(const struct ir_phase *ph, const struct fused_axes *f)
{
	bool bits = f->rows_by > 1 && !(f->rows_by & (f->rows_by - 1)) && !(f->columns_by & (f->columns_by - 1));
	return bits && ph->axes[f->rows].extent->op == HX_CDIV && ph->axes[f->columns].extent->op == HX_CDIV;
}

static bool is_pinned(const struct planner *p, int symbol, int64_t n)
{
	for (int i = 0; i < p->special->npins; i++)
		if (plan_symbol(p, p->special->pins[i].symbol) == symbol && p->special->pins[i].value == n)
			return true;
	return false;
}

void plan_clusters(struct planner *p)
{
	struct fused_axes f;
	struct variant with = {.target = p->target, .cluster = p->target->cluster, .given = p->given, .absent = p->absent};
	char err[200];
	struct pass fuse = {ir_clone(p->arena, p->k), &with, err, sizeof err};
	if (!p->target->cluster || !kernel_can_fuse(fuse.k, &f) || pass_fuse(&fuse) || pass_ungroup(&fuse) || !are_groups(&fuse.k->phases[0], &f))
		return;
	struct planner q = {.arena = p->arena, .k = fuse.k, .text = p->text, .special = p->special, .target = p->target, .given = p->given, .absent = p->absent};
	facts_look(&q.f, q.k);
	const struct hexpr *columns = q.k->phases[0].axes[f.columns].extent->a;
	int64_t held = MEMBER_THREADS * LANE_ELEMENTS / f.rows_by;               /* columns of a workgroup */
	for (int cluster = FEWEST; held >= f.columns_by && cluster <= p->target->cluster; cluster *= 2) {
		p->clustered = cluster * held;
		if (is_pinned(p, (int)columns->imm, p->clustered))
			plan_cluster(&q, &f, (int)columns->imm, p->clustered, cluster, true);
	}
	for (int cluster = FEWEST; cluster * held <= p->clustered; cluster *= 2)
		plan_cluster(&q, &f, (int)columns->imm, cluster * held, cluster, false);
	for (int i = 0; i < q.out.n; i++)
		*plan_add(p) = q.out.items[i];
}

/* --- long rows ------------------------------------------------------------------------------------------------------------ */

/* Columns of each workgroup, and the fewest workgroups; elements of a lane, and of all that its tensors have. */
enum { MEMBER_ROW = 8192, FEWEST_OF_ROW = 4, ROW_LANE = 64, ROW_LANE_ALL = 128 };

/* Many, in small workgroups of which several share a multiprocessor and wait for different things.  What is stored in front of the reductions waits
 * for less; rows that wait twice and are stored as wide as they are read hold their weights meanwhile, and are faster by fewer lanes, if these
 * have registers for it. */
static int row_elements(const struct planner *p, int sums)
{
	int each = p->f.early ? ROW_LANE / 2 : sums > 1 && p->f.weights == 1 && p->f.narrowest == p->f.widest ? 2 * ROW_LANE : ROW_LANE;
	while (each * p->f.rows > ROW_LANE_ALL)
		each /= 2;
	return each;
}

/* At most so many of plan_unit's. */
static void limit_row(struct planner *p, struct variant *v, const struct ir_axis *row, int64_t most)
{
	int64_t each = plan_open_most(p, row, most);
	if (row->extent->op == HX_SYM) {
		plan_limit(p, v, (int)row->extent->imm, each);
		return;
	}
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, row->extent, hexpr_const(p->arena, each)));
	plan_say_most(p, v, row->extent, each);
}

/* At least so many, where memory is fast. */
static void fill_row(struct planner *p, struct variant *v, const struct ir_axis *row, int64_t least)
{
	const struct hexpr *n = row->extent, *rate = hexpr_leaf(p->arena, HX_DEVICE, HX_MEMORY_RATE);
	int64_t each = plan_open_most(p, row, least);
	const struct hexpr *slow = hexpr_op(p->arena, HX_LT, rate, hexpr_const(p->arena, p->target->fast_memory));
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_OR, slow, hexpr_op(p->arena, HX_LE, hexpr_const(p->arena, each), n)));
	bool groups = n->op == HX_CDIV;
	plan_say(p, v, arena_printf(p->arena, "%s>=%lld|memory<%d", hexpr_text(p->arena, groups ? n->a : n, p->k->symbols, NULL),
	                            (long long)(groups ? each * plan_axis_by(row) : each), p->target->fast_memory));
}

/* Where members wait for each other twice to store less than they read, rows that leave more than a quarter of the smallest cluster without work are
 * as fast swept, or faster, if memory is fast. */
void plan_long_rows(struct planner *p)
{
	struct ir_kernel *k = ir_clone(p->arena, p->k);
	struct variant none = plan_variant(p);
	char err[200];
	struct pass ungroup = {k, &none, err, sizeof err};
	int sums, axis = p->target->cluster && pass_ungroup(&ungroup) == 0 ? kernel_can_spread(k, &sums) : -1;
	if (axis < 0)
		return;
	struct planner q = *p;
	q.k = k;
	facts_look(&q.f, k);
	const struct ir_axis *row = &k->phases[0].axes[axis];
	int each = row_elements(&q, sums);
	int64_t most = MEMBER_ROW / plan_unit(&q);
	for (int cluster = FEWEST_OF_ROW; most && cluster <= p->target->cluster; cluster *= 2) {
		struct variant v = plan_variant(p);
		v.waves = waves_of(p, MEMBER_ROW / each);
		limit_row(&q, &v, row, most * cluster);
		if (sums > 1 && q.f.narrowest < q.f.widest)
			fill_row(&q, &v, row, most * FEWEST_OF_ROW * 3 / 4);
		plan_aligned(&q, &v);
		plan_say(&q, &v, "clusters");
		plan_phase_tiles(&q, &v, 0, most, each);
		v.cluster = cluster;
		v.sideways = true;
		v.stored_first = p->target->stored_first ? STORED_FIRST : STORED_AS_READ;
		*plan_add(p) = v;
	}
}
