/* plan_cluster.c -- variants in which the workgroups of a cluster hold rows whole between them, so that two phases are one (pass_fuse.c).
 * In: a kernel whose second phase takes rows in tiles of groups both ways, made of what its first one reduces them to.  Out: for pinned lengths
 * and for classes of rows as long as a cluster holds as many as a group has, a variant; longer rows are left to those of two launches.  Each
 * workgroup holds a part of the columns as one of its tiles would be: whatever the class, so many elements. */
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
