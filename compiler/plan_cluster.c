/* plan_cluster.c -- variants in which the workgroups of a cluster hold rows whole between them.
 * In: a kernel whose second phase takes rows in tiles of groups both ways, made of what its first one reduces them to: the two are one (pass_fuse.c).
 * Out: for pinned lengths and for classes of rows as long as a cluster holds as many as a group has, a variant; longer rows are left to those of
 * two launches.  Rows of one tensor that are stored across as well are such tiles, of rows that nothing takes together (pass_across.c).  Each workgroup
 * holds a part of the columns as one of its tiles would be: whatever the class, so many elements.
 * In: a kernel of rows that are reduced whole, one at a time (pass_spread.c).  Out: variants for classes of rows longer than a workgroup's lanes
 * hold, or hold well; of how many columns each has was measured (docs/performance.md). */
#include "pass.h"
#include "plan_tiles.h"

/* What a workgroup of a cluster holds, and how many there are at most: of more, waiting for each other costs what reading rows once spares. */
struct member { int threads, each, most; };

/* As the tiles that a kernel of nothing but them has: small workgroups, five of which share a multiprocessor and wait for different things.  A block
 * of groups of 128 both ways takes twice as many lanes, of which two workgroups share it; what is long, of two tensors, would take 168 registers and
 * more, and has lanes that hold half.  Of these blocks rows of two exchanges in turn and what is long are of few members (docs/performance.md). */
enum { FEWEST = 2, HELD = 128 * 64, TURNS = 3, LONG = 26, LANE_BYTES = 256, LONG_THREADS = 256 };

static struct member member_of(const struct planner *p, const struct fused_axes *f)
{
	int most = p->target->cluster;
	if (f->rows_by * f->columns_by <= HELD)
		return (struct member){128, 64, most};
	if (p->f.rows > 1 && p->f.cost >= LONG)
		return (struct member){512, 32, most < 4 ? most : 4};
	return (struct member){256, 64, p->f.rounds >= TURNS && most > 8 ? 8 : most};
}

/* Loads of a number a column, and for those that may be absent what stands in their place. */
struct weights { const struct planner *p; int n; };

static void look_for_weights(struct ir_ins *i, void *ctx)
{
	struct weights *w = ctx;
	const struct ir_param *t = i->op == IR_LOAD ? &w->p->k->params[i->imm] : NULL;
	if (t && t->rank == 1 && i->args[0]->axes)
		w->n += 1 + (t->optional && !(w->p->given >> i->imm & 1));
}

/* Of rows twice as long, in blocks no larger than those of groups of 32, whose members hold twice as many columns: lanes hold what they have registers
 * for, so that three workgroups share a multiprocessor.  Two launches are as fast where the code is long, as of two tensors or of half bytes, and where
 * more takes registers: a bias beside weights, weights that may be absent, what may be stored beside a row; of more lanes nothing was
 * measured.  No threads = there are no such members. */
static struct member long_member_of(const struct planner *p, const struct fused_axes *f)
{
	int rows = p->f.rows > 1 ? p->f.rows : 1, threads = 128;
	struct weights w = {p, 0};
	ir_walk(p->k->phases[0].body, look_for_weights, &w);
	while (2 * HELD / threads * p->f.widest * rows > LANE_BYTES)
		threads *= 2;
	bool slow = p->f.narrowest == 0 || (rows > 1 ? p->f.cost >= LONG : p->f.early || w.n > 1);
	bool none = slow || f->rows_by * f->columns_by > HELD || threads > LONG_THREADS;
	return none ? (struct member){0} : (struct member){threads, 2 * HELD / threads, p->target->cluster};
}

/* Rows that are longer than so. */
static void leave_shorter(struct planner *p, struct variant *v, const struct hexpr *columns, int64_t most)
{
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LT, hexpr_const(p->arena, most), columns));
	plan_say(p, v, arena_printf(p->arena, "%s>%lld", hexpr_shown(p->arena, columns, p->k->symbols, NULL), (long long)most));
}

/* Rows that clusters of so many members hold: of that symbol's columns, more than `least` and up to `most`; least = most: of so many exactly. */
struct held_rows { struct member member; int symbol, cluster; int64_t least, most; };

/* For rows up to `most`, or of so many columns whose tensors' rows lie one behind the other: these have no masks, and the addresses of a lane's
 * rows differ by numbers: most of a fifth of the instructions. */
static void plan_cluster(struct planner *p, const struct fused_axes *f, const struct held_rows *r)
{
	struct variant v = plan_variant(p);
	const struct ir_phase *ph = &p->k->phases[0];
	bool exactly = r->least == r->most;
	v.cluster = r->cluster;
	v.sideways = true;
	v.stored_first = p->target->stored_first ? STORED_FIRST : STORED_AS_READ;
	/* what lies beside the end of a row, and is asked for as well, is a tensor's still */
	if (p->f.rows && (r->cluster > FEWEST || f->rows_by * f->columns_by >= r->most))
		v.ahead = p->target->ahead_bytes / (r->member.threads * r->member.each * p->f.widest * p->f.rows);
	v.waves = waves_of(p, r->member.threads);
	if (exactly)
		plan_pin_symbol(p, &v, r->symbol, r->most);
	else
		plan_limit(p, &v, r->symbol, r->most);
	if (r->least && !exactly)
		leave_shorter(p, &v, hexpr_leaf(p->arena, HX_SYM, r->symbol), r->least);
	plan_aligned(p, &v);
	if (exactly)
		plan_dense(p, &v);
	plan_say(p, &v, "clusters");
	plan_tile(&v, 0, ph->axes[f->rows].name, ph->axes[f->rows].tiled ? (int)f->rows_by : 1);     /* of groups; of rows that are stored across, as many */
	plan_tile(&v, 0, ph->axes[f->columns].name, (int)(r->most / f->columns_by / r->cluster));
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
	for (int i = 0; i < p->npins; i++)
		if (plan_symbol(p, p->pins[i].symbol) == symbol && p->pins[i].value == n)
			return true;
	return false;
}

/* Tensors that a set leaves open, by what rows stored across do with them. */
struct leaving { const struct planner *p; uint64_t loaded, stored; };

static void look_for_open(struct ir_ins *i, void *ctx)
{
	struct leaving *l = ctx;
	bool stores = i->op == IR_STORE || i->op == IR_UPDATE;
	if ((!stores && i->op != IR_LOAD) || i->imm >= 64)
		return;
	const struct ir_param *t = &l->p->rows->params[i->imm];
	uint64_t open = t->optional && !(l->p->given >> i->imm & 1) ? UINT64_C(1) << i->imm : 0;
	l->stored |= stores ? open : 0;
	l->loaded |= !stores && t->rank > 1 ? open : 0;
}

/* Rows of more columns than `most`.  Of others than pinned ones, which leave members empty, those that leave few, and do not wait for each other twice;
 * of what is stored across, nothing is made behind that. */
static void plan_longer(const struct planner *p, struct planner *q, const struct fused_axes *f, int symbol, int64_t most)
{
	struct member m = long_member_of(q, f);
	int64_t longest = (int64_t)m.threads * m.each / f->rows_by * m.most;
	if (longest > most && is_pinned(p, symbol, longest))
		plan_cluster(q, f, &(struct held_rows){m, symbol, m.most, longest, longest});
	if (longest > most && q->f.rounds < (p->rows ? TURNS - 1 : TURNS))
		plan_cluster(q, f, &(struct held_rows){m, symbol, m.most, longest / 4 * 3, longest});
}

/* For calls without these tensors besides those that the set has not. */
static void plan_clusters_without(struct planner *p, uint64_t tensors)
{
	struct fused_axes f;
	struct variant with = {.target = p->target, .cluster = p->target->cluster, .given = p->given, .absent = p->absent | tensors};
	char err[200];
	struct pass fuse = {.k = ir_clone(p->arena, p->rows ? p->rows : p->k), .v = &with, .err = err, .errlen = sizeof err};
	if (!p->target->cluster || pass_specialise(&fuse) || pass_across(&fuse) || !kernel_can_fuse(fuse.k, &f) || pass_fuse(&fuse) || pass_ungroup(&fuse) ||
	    !(p->rows || are_groups(&fuse.k->phases[0], &f)))
		return;
	struct planner q = {.arena = p->arena, .k = fuse.k, .text = p->text, .special = p->special, .target = p->target, .given = p->given, .absent = with.absent};
	facts_look(&q.f, q.k);
	if (p->rows && q.f.rows > 1)                                     /* what lanes hold of two tensors takes longer than reading once spares */
		return;
	int symbol = (int)q.k->phases[0].axes[f.columns].extent->a->imm;
	struct member m = member_of(&q, &f);
	int64_t held = m.threads * m.each / f.rows_by, most = 0;         /* columns of a workgroup, and of a cluster */
	for (int cluster = FEWEST; held >= f.columns_by && cluster <= m.most; cluster *= 2) {
		most = cluster * held;
		if (is_pinned(p, symbol, most))
			plan_cluster(&q, &f, &(struct held_rows){m, symbol, cluster, most, most});
	}
	for (int cluster = FEWEST; cluster * held <= most; cluster *= 2)
		plan_cluster(&q, &f, &(struct held_rows){m, symbol, cluster, 0, cluster * held});
	plan_longer(p, &q, &f, symbol, most);
	for (int i = 0; i < q.out.n; i++)
		*plan_add(p) = q.out.items[i];
	if (!p->rows || q.k->phases[0].axes[f.rows].tiled)                       /* of as many rows as accesses ask for */
		p->clustered = most;
}

/* Of rows stored across, what a set leaves open: rows of a second tensor are no cluster's, and what is stored besides costs calls that have nothing
 * of it registers. */
void plan_clusters(struct planner *p)
{
	struct leaving l = {p, 0, 0};
	if (p->rows)
		ir_walk(p->rows->phases[0].body, look_for_open, &l);
	if (l.stored)
		plan_clusters_without(p, l.loaded | l.stored);
	plan_clusters_without(p, l.loaded);
	if (l.loaded | l.stored)
		p->clustered = 0;
}

/* --- long rows ------------------------------------------------------------------------------------------------------------ */

/* Elements of a lane, of which many are in small workgroups: several of these share a multiprocessor and wait for different things.  What is stored
 * in front of the reductions waits for less. */
enum { ROW_LANE = 64, ROW_LANE_ALL = 128 };

/* Workgroups of a row and columns of each.  A lane computes all that it has places for, empty ones too, so that rows which leave many of them empty
 * take as long as full ones: hence so many classes.  Pairs hold rows that a workgroup would hold as well, in more registers than are good for it. */
struct members { int n, columns; };
static const struct members row_classes[] = {{2, 5120}, {2, 6144}, {2, 7168}, {2, 8192}, {4, 5120}, {4, 6144}, {4, 7168}, {4, 8192},
	{8, 5120}, {8, 6144}, {8, 7168}, {8, 8192}, {16, 6144}, {16, 8192}, {16, 10240}, {16, 16384}};
enum { MEMBER_ROW = 8192, PAIR_FROM = 12288, LARGE_PAIR_FROM = MEMBER_ROW, UNEVEN_ROW = 6144 };

/* An ungrouped kernel, the axis that members share, elements of a lane. */
struct long_rows { struct planner q; const struct ir_axis *axis; struct row_sums sums; int each; };

static int row_elements(const struct planner *p)
{
	int each = p->f.early ? ROW_LANE / 2 : ROW_LANE;
	while (each * p->f.rows > ROW_LANE_ALL)
		each /= 2;
	return each;
}

/* Lanes of a member: those of MEMBER_ROW columns, each of which may hold a quarter more. */
static int row_lanes(const struct long_rows *r, int columns)
{
	int lanes = MEMBER_ROW / r->each, most = r->each + r->each / 4;
	while (columns > lanes * (most < ROW_LANE_ALL ? most : ROW_LANE_ALL))
		lanes *= 2;
	return lanes;
}

/* In plan_unit's, of which all lanes have as many; 0 = they have not. */
static int row_units(const struct long_rows *r, int columns)
{
	int unit = (int)plan_unit(&r->q), at_once = row_lanes(r, columns) * 16 / r->q.f.widest;
	bool bits = !(unit & (unit - 1)), whole = bits ? columns % at_once == 0 : !(columns & (columns - 1));
	return whole ? plan_groups_within(columns, unit) : 0;
}

/* Columns from which on pairs are faster than a workgroup; 0 = none are.  Two sums of two tensors take most registers; those of one lose by
 * waiting (docs/performance.md). */
static int pairs_from(const struct long_rows *r)
{
	return r->sums.all < 2 ? PAIR_FROM : r->q.f.rows > 1 ? LARGE_PAIR_FROM : 0;
}

/* Which of the classes there are, in pairs or in more: of two tensors eight and more members of UNEVEN_ROW columns are slower than larger ones that
 * leave a quarter empty. */
static bool has_class(const struct long_rows *r, const struct members *c, bool pairs)
{
	bool pair = c->n == FEWEST, longer = pairs_from(r) && c->n * c->columns > pairs_from(r);
	if (pair != pairs || c->n > r->q.target->cluster || row_lanes(r, c->columns) > r->q.target->max_threads || !row_units(r, c->columns))
		return false;
	return pair ? longer : !(c->columns == UNEVEN_ROW && c->n >= 8 && r->q.f.rows > 1);
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

static void plan_row_class(struct planner *p, struct long_rows *r, const struct members *c)
{
	struct planner *q = &r->q;
	const struct hexpr *n = r->axis->extent;
	struct variant v = plan_variant(p);
	int units = row_units(r, c->columns);
	v.waves = waves_of(p, row_lanes(r, c->columns));
	limit_row(q, &v, r->axis, (int64_t)units * c->n);
	if (c->n == FEWEST) {                            /* many rows: the others are a workgroup's */
		leave_shorter(q, &v, n->op == HX_CDIV ? n->a : n, pairs_from(r));
		plan_many_rows(q, &v, plan_rows_beside(q, -1));
	}
	plan_aligned(q, &v);
	plan_say(q, &v, "clusters");
	plan_phase_tiles(q, &v, 0, units, r->each);
	v.cluster = c->n;
	v.sideways = true;
	v.stored_first = p->target->stored_first ? STORED_FIRST : STORED_AS_READ;
	*plan_add(p) = v;
}

void plan_long_rows(struct planner *p, bool pairs)
{
	struct ir_kernel *k = ir_clone(p->arena, p->k);
	struct variant none = plan_variant(p);
	char err[200];
	struct pass ungroup = {.k = k, .v = &none, .err = err, .errlen = sizeof err};
	struct long_rows r = {.q = *p};
	int axis = p->target->cluster && pass_ungroup(&ungroup) == 0 ? kernel_can_spread(k, &r.sums) : -1;
	if (axis < 0)
		return;
	r.q.k = k;
	r.axis = &k->phases[0].axes[axis];
	facts_look(&r.q.f, k);
	r.each = row_elements(&r.q);
	for (unsigned i = 0; i < sizeof row_classes / sizeof *row_classes; i++)
		if (has_class(&r, &row_classes[i], pairs))
			plan_row_class(p, &r, &row_classes[i]);
}
