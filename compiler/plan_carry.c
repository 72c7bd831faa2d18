/* plan_carry.c -- variants in which as many workgroups as the chip holds take many rows one after the other and carry sums of columns.
 * In: a kernel of rows, of sums over groups of them, and of sums of these (pass_carry.c).  Out: for classes of rows a variant, and one for rows exactly
 * as long; others for fewer rows; longer ones are left to those of three launches.  Where no ring of group memory brings rows, one for all that are
 * held.  Of kernels that make nothing of a row whole variants for many rows of any length, by how a row is cut, and three for few.  Rows that begin anywhere,
 * whose lanes access single elements, have classes of their own.  What a lane and a workgroup hold, and how many of these there are, was measured
 * (docs/performance.md). */
#include "pass.h"
#include "plan_tiles.h"

/* Elements from which on: a workgroup then has eight rows and more.  Of short ones, of which others take many times as long, as many rows as all take at
 * a time: what is known of its first row a workgroup loads without asking whether it has one. */
enum { MANY_CARRIED = 8 << 20, SHORT = 512 };

/* Of rows up to so many columns, with so many sums at most, the lanes of a workgroup, how many of those a multiprocessor has, how many rows each takes
 * side by side, if their number divides that of rows, and of how many rounds rows have places, that in hand and those on their way.  joined: its
 * workgroups add up each other's sums as fast as another launch does.  late: rows shorter than the class, and those as long of so many sums, are asked for
 * in two halves, the second behind the round's barrier, for less on its way at a time is faster there; 3, more than there are: shorter ones alone; 0 = none.
 * Of rows up to SHORT columns that are side by side the last may not be there; of longer ones those that are odd are faster one by one. */
static const struct rows { int columns, sums, threads, each, beside, rounds; bool joined; int late; } classes[] = {
	{64, 2, 256, 4, 32, 2, true, 0}, {128, 2, 256, 4, 16, 2, true, 0}, {256, 2, 256, 4, 8, 2, true, 0}, {512, 2, 256, 4, 4, 2, true, 0},
	{1024, 1, 512, 2, 4, 2, true, 0}, {1024, 2, 128, 8, 1, 3, false, 0}, {2048, 1, 512, 2, 2, 2, true, 0}, {2048, 2, 256, 4, 1, 3, false, 0},
	{4096, 2, 512, 1, 2, 3, true, 3}, {4096, 2, 256, 2, 1, 3, true, 3}, {8192, 2, 512, 1, 1, 3, true, 2}, {16384, 1, 512, 1, 1, 3, true, 0},
};

/* Fewer rows than that, at most `rows`, the first that a call fits: of rows longer than `from` up to so many columns, of so many sums (0 = of any number), the
 * lanes of a workgroup and how many there are.  Parts are added up whether their workgroup had a row or not, hence few for few rows.  joined: two sums take
 * longer in a launch of their own than where all workgroups add them up, if these are many. */
static const struct fewer { int from, columns, sums, rows, threads, workgroups; bool joined; } fewer[] = {
	{0, 4096, 0, 16, 512, 16, false}, {0, 4096, 0, 64, 512, 64, false}, {0, 4096, 1, 511, 512, 128, false}, {0, 4096, 1, 2047, 512, 264, false},
	{2048, 4096, 2, 1023, 512, 128, true}, {0, 8192, 0, 16, 512, 16, false}, {0, 8192, 0, 64, 512, 64, false}, {4096, 8192, 0, 1023, 512, 128, true},
};
/* The round in hand of those, and one on its way. */
enum { FEWER_ROUNDS = 2 };

/* Where no ring brings rows: workgroups have the waves that a row needs, whose lanes hold 16 elements of it and load the next row's meanwhile (pass_next.c).
 * A compute unit has one for each HELD_COLUMNS of the HELD_EACH times as many that keep its memory busy, and always one.  Rows that others hold side by
 * side, which are short, are left to those. */
enum { HELD_COLUMNS = 1024, HELD_EACH = 8, HELD_MOST = 16384, HELD_THREADS = 1024 };

/* Of pieces of rows of which more tensors than `more` are loaded, at most `loads`, the first that a row fills: the lanes of a workgroup, each of which
 * accesses 16 bytes of a row's tensors, how many workgroups a multiprocessor has, and for how much of its rate they ask memory, per mille (plan_pace): what
 * is read and written in turns at that rate it serves evenly, at a hundredth more unevenly (docs/performance.md).
 * whole: rows of one piece at most, whose sums are added up by more workgroups; beside: so many of them share the lanes, from so many `rows` on.  Of the
 * places of a row's pieces less than one in `parts` is empty: what is left to tiles of 64 rows takes more than that of three tensors, and less of two. */
static const struct piece { int more, loads; bool whole; int threads, each, beside, rows, parts, paced; } pieces[] = {
	{0, 2, true, 128, 2, 16, 65536, 0, 905}, {0, 2, true, 128, 2, 8, 65536, 0, 905}, {0, 2, true, 128, 2, 4, 65536, 0, 905},
	{0, 2, true, 64, 4, 1, 0, 9, 905}, {0, 2, true, 128, 2, 1, 0, 9, 905}, {0, 2, false, 128, 2, 1, 0, 9, 905},
	{2, 3, true, 128, 2, 16, 65536, 0, 895}, {2, 3, true, 128, 2, 8, 65536, 0, 895}, {2, 3, true, 128, 2, 4, 65536, 0, 895},
	{2, 3, true, 128, 2, 2, 16384, 2, 895}, {2, 3, true, 128, 2, 1, 0, 2, 895}, {2, 3, false, 128, 2, 1, 0, 2, 895},
};
/* Of rounds of pieces that have places: five are on their way, so that memory has something to do whatever a round waits for. */
enum { PIECE_ROUNDS = 6 };

/* Rows that begin anywhere, element by element, which no ring brings.  Of rows up to so many columns, from `least` on, the lanes of a workgroup, how many of
 * those a multiprocessor has, and how many rows each takes side by side.  next: a round loads the next row, where registers have room for it.  joined: as
 * above.  Longer ones, and fewer, are faster by three launches (docs/performance.md). */
static const struct single_rows { int columns, least, threads, each, beside; bool next, joined; } single_rows[] = {
	{64, 0, 256, 4, 16, false, false}, {128, 0, 256, 4, 8, false, false}, {256, 0, 256, 5, 4, false, false}, {512, 0, 256, 5, 2, false, false},
	{1024, 2048, 128, 6, 1, false, false}, {2048, 2048, 256, 4, 1, false, false}, {3072, 1024, 512, 2, 1, true, true}, {4096, 1024, 512, 2, 1, false, false},
	{5120, 1024, 512, 2, 1, false, false}, {6144, 128, 1024, 1, 1, true, true}, {8192, 512, 1024, 1, 1, true, true},
};

/* Pieces of such rows: of those of which more tensors than `more` are loaded, at most `loads`, so many columns, the lanes of a workgroup, and how many of
 * these a multiprocessor has; beside: rows of one piece at most, so many of which share the lanes, for 1 of any length, whose next is loaded meanwhile. */
static const struct single_piece { int more, loads, columns, threads, each, beside; } single_pieces[] = {
	{0, 3, 64, 256, 4, 16}, {0, 3, 128, 256, 4, 8}, {0, 3, 256, 256, 4, 4}, {0, 3, 512, 256, 4, 2}, {0, 2, 512, 128, 8, 1}, {2, 3, 512, 64, 8, 1},
};

/* Of rows one by one, of so many the next of a workgroup's would lie in the same places of memory's channels as the last: two per cent slower than with
 * one workgroup less (docs/performance.md). */
enum { SAME_CHANNELS = 16 };

/* What registers hold: sums, and tensors of which rows are loaded. */
enum { PIECE_SUMS = 2, PIECE_LOADS = 3 };
/* The lanes of a workgroup that takes few rows. */
enum { FEW_THREADS = 128 };
/* Rows that are so few that each has a workgroup of its own, or a workgroup has four: tiles of groups would compute all the rows that are not there.  Sums are
 * added up of as many workgroups, rows or not. */
static const struct few { int rows, workgroups, rounds; } few_rows[] = {{16, 16, 0}, {64, 64, 0}, {256, 64, 3}};

/* Phases behind the first that add up parts and do nothing else may have its workgroups. */
static bool can_join(const struct planner *p, const struct planner *q, const struct variant *v)
{
	bool ok = p->target->joins;
	for (int i = 1; i < q->k->nphases; i++)
		ok = ok && plan_adds_parts(v, &q->k->phases[i]);
	return ok;
}

/* Bytes of a row of the tensors that are loaded and stored by rows, each once; those that may be absent are not counted. */
struct traffic { struct planner *q; uint64_t seen; const struct hexpr *bytes; };

static void count_bytes(struct ir_ins *i, void *ctx)
{
	struct traffic *t = ctx;
	if (i->op != IR_LOAD && i->op != IR_STORE)
		return;
	const struct ir_param *p = &t->q->k->params[i->imm];
	struct arena *ar = t->q->arena;
	if (i->imm >= 64 || t->seen >> i->imm & 1 || p->role == IR_TEMP || p->rank < 2 || (p->optional && !(t->q->given >> i->imm & 1)))
		return;
	const struct hexpr *bits = hexpr_const(ar, dtype_info(p->dtype)->bits);
	for (int d = 1; d < p->rank; d++)
		bits = hexpr_op(ar, HX_MUL, bits, p->extent[d]);
	t->seen |= 1ull << i->imm;
	t->bytes = hexpr_op(ar, HX_ADD, t->bytes, hexpr_op(ar, HX_DIV, bits, hexpr_const(ar, 8)));
}

/* Of a round of so many rows what they take at so many per mille of the memory's rate, GB/s, which is bytes a ns; none where that is not known. */
static const struct hexpr *plan_pace(struct planner *p, struct planner *q, const struct hexpr *rows, int paced)
{
	struct arena *ar = p->arena;
	struct traffic t = {.q = q, .bytes = hexpr_const(ar, 0)};
	const struct hexpr *rate = hexpr_leaf(ar, HX_DEVICE, HX_MEMORY_RATE), *one = hexpr_const(ar, 1);
	ir_walk(q->k->phases[0].body, count_bytes, &t);
	const struct hexpr *parts = hexpr_op(ar, HX_MUL, hexpr_op(ar, HX_MUL, t.bytes, rows), hexpr_const(ar, 1000 * PACE_PARTS));
	const struct hexpr *asked = hexpr_op(ar, HX_MUL, hexpr_op(ar, HX_MAX, rate, one), hexpr_const(ar, paced));
	return hexpr_op(ar, HX_MUL, hexpr_op(ar, HX_DIV, parts, asked), hexpr_op(ar, HX_LE, one, rate));
}

/* Rows that a phase behind holds are no longer than what the lanes hold, and pieces of rows say nothing of how long these are. */
static bool holds_rows_behind(const struct planner *q, const struct variant *v, int columns)
{
	bool open = false;
	for (int i = 1; i < q->k->nphases; i++)
		open = open || phase_shape(v, &q->k->phases[i]).open;
	return !open || (!v->pieces && columns <= q->target->wave * v->waves * plan_lane_elements(q, v));
}

/* With a tile of so many columns of each row, and of the phases behind; NULL where one of these cannot hold as many. */
static struct variant *add_carried(struct planner *p, struct planner *q, struct variant *v, const struct ir_axis *n, int columns)
{
	if (!holds_rows_behind(q, v, columns))
		return NULL;
	plan_tile(v, 0, n->name, columns);
	for (int i = 1; i < q->k->nphases; i++)
		plan_phase_tiles(q, v, i, phase_shape(v, &q->k->phases[i]).open ? columns : 0, plan_lane_elements(q, v));
	struct variant *added = plan_add(p);
	*added = *v;
	return added;
}

/* Rows up to so many columns are for others. */
static void leave_shorter(struct planner *p, struct planner *q, struct variant *v, const struct ir_axis *n, int columns)
{
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LT, hexpr_const(p->arena, columns), n->extent));
	plan_say(p, v, arena_printf(p->arena, "%s>%d", q->k->symbols[n->extent->imm], columns));
}

/* Workgroups of a class of rows, of which each takes so many at a time, one by one or side by side. */
static int workgroups_of(const struct planner *p, int each, int beside)
{
	int n = each * p->target->multiprocessors;
	return n - (beside == 1 && n % SAME_CHANNELS == 0);
}

/* exactly: of as many columns as a class has at most, whose quotients and masks are known. */
static void plan_class(struct planner *p, struct planner *q, const struct carried_sums *sums, const struct rows *class, bool exactly)
{
	const struct ir_axis *n = &q->k->phases[0].axes[sums->column];
	struct variant v = plan_variant(q);
	v.carries = workgroups_of(p, class->each, class->beside);
	v.waves = waves_of(p, class->threads);
	v.rounds = class->rounds;
	v.late = class->late && (!exactly || sums->n >= class->late);
	v.beside = class->beside;
	v.uneven = class->columns <= SHORT && !exactly;
	v.joined = class->joined && can_join(p, q, &v);
	(exactly ? plan_pin_symbol : plan_limit)(q, &v, (int)n->extent->imm, class->columns);
	plan_aligned(q, &v);
	plan_rows_from(p, &v, class->columns > SHORT ? MANY_CARRIED / class->columns : v.carries * v.beside, sums->rows);
	if (v.beside > 1 && !v.uneven)
		plan_rows_by(p, &v, v.beside, sums->rows);
	v.many = true;
	add_carried(p, q, &v, n, class->columns);
}

/* Workgroups that have a row or none do without masks of it; where some have several, what is known of the next row is asked for under its mask (stage.c). */
static void plan_fewer(struct planner *p, struct planner *q, const struct carried_sums *sums, const struct fewer *class)
{
	const struct ir_axis *n = &q->k->phases[0].axes[sums->column];
	struct variant v = plan_variant(q);
	v.carries = class->workgroups;
	v.few = class->rows <= class->workgroups;
	v.waves = waves_of(p, class->threads);
	v.rounds = FEWER_ROUNDS;
	v.uneven = !v.few;
	v.beside = 1;
	v.joined = class->joined && can_join(p, q, &v);
	plan_limit(q, &v, (int)sums->rows->imm, class->rows);
	plan_limit(q, &v, (int)n->extent->imm, class->columns);
	if (class->from)
		leave_shorter(p, q, &v, n, class->from);
	plan_aligned(q, &v);
	add_carried(p, q, &v, n, class->columns);
}

static void plan_held(struct planner *p, struct planner *q, const struct carried_sums *sums)
{
	const struct ir_axis *n = &q->k->phases[0].axes[sums->column];
	const struct hexpr *elements = hexpr_op(p->arena, HX_MUL, sums->rows, n->extent);
	struct variant v = plan_variant(q);
	v.carries = HELD_EACH * p->target->multiprocessors - 1;      /* SAME_CHANNELS */
	v.carried_columns = HELD_COLUMNS;
	v.waves = waves_of(p, HELD_THREADS);
	v.beside = 1;
	v.next = true;
	v.many = true;
	plan_limit(q, &v, (int)n->extent->imm, HELD_MOST);
	leave_shorter(p, q, &v, n, SHORT);
	plan_aligned(q, &v);
	struct variant *added = add_carried(p, q, &v, n, HELD_MOST);
	if (!added)
		return;
	added->predicate = plan_both(p, added->predicate, hexpr_op(p->arena, HX_LE, hexpr_const(p->arena, MANY_CARRIED), elements));
	plan_say(p, added, arena_printf(p->arena, "elements>=%d", MANY_CARRIED));
}

static void plan_rows_of(struct planner *p, struct planner *q, const struct carried_sums *sums)
{
	if (!p->target->ring_bytes) {
		if (sums->n <= PIECE_SUMS)
			plan_held(p, q, sums);
		return;
	}
	for (unsigned c = 0; c < sizeof fewer / sizeof *fewer; c++)
		if (sums->rows->op == HX_SYM && sums->n <= PIECE_SUMS && (!fewer[c].sums || fewer[c].sums == sums->n))
			plan_fewer(p, q, sums, &fewer[c]);
	for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++) {
		if (sums->n > classes[c].sums)
			continue;
		plan_class(p, q, sums, &classes[c], true);
		plan_class(p, q, sums, &classes[c], false);
	}
}

/* The bytes of the widest element that is loaded of a row, and how often one is. */
struct accesses { const struct ir_kernel *k; int widest, loads; };

static void look_at_access(struct ir_ins *i, void *ctx)
{
	struct accesses *a = ctx;
	bool row = i->op == IR_LOAD && a->k->params[i->imm].role == IR_IN && a->k->params[i->imm].rank > 1;
	int bytes = row ? dtype_info(a->k->params[i->imm].dtype)->bits / 8 : 0;
	a->widest = bytes > a->widest ? bytes : a->widest;
	a->loads += row;
}

/* Workgroups of so many lanes, for so many columns; NULL as above. */
static struct variant *plan_pieces(struct planner *p, struct planner *q, struct variant v, const struct ir_axis *n, int threads, int columns)
{
	v.waves = waves_of(p, threads);
	plan_aligned(q, &v);
	return add_carried(p, q, &v, n, columns);
}

/* Many rows, of which each workgroup takes one at a time; width: bytes of an element. */
static void plan_many_pieces(struct planner *p, struct planner *q, const struct carried_sums *sums, const struct piece *piece, int width)
{
	struct arena *ar = p->arena;
	const struct ir_axis *n = &q->k->phases[0].axes[sums->column];
	int columns = piece->threads * 16 / width / piece->beside;
	const struct hexpr *number = hexpr_op(ar, HX_CDIV, n->extent, hexpr_const(ar, columns));
	const struct hexpr *places = hexpr_op(ar, HX_MUL, number, hexpr_const(ar, columns * (piece->parts - 1))), *full = hexpr_op(ar, HX_MUL, n->extent, hexpr_const(ar, piece->parts));
	struct variant many = plan_variant(q);
	many.carries = piece->each * p->target->multiprocessors;
	many.pieces = true;
	many.rounds = PIECE_ROUNDS;
	many.beside = piece->beside;
	many.uneven = piece->beside > 1;
	many.joined = can_join(p, q, &many);
	many.many = true;
	many.pace = plan_pace(p, q, hexpr_op(ar, HX_MUL, carried_rows(ar, many.carries, n->extent, columns), hexpr_const(ar, piece->beside)), piece->paced);
	if (piece->whole)
		plan_limit(q, &many, (int)n->extent->imm, columns);
	struct variant *v = plan_pieces(p, q, many, n, piece->threads, columns);
	if (!v)
		return;
	if (piece->parts)
		v->predicate = plan_both(p, v->predicate, hexpr_op(ar, HX_LT, places, full));
	if (piece->beside > 1) {
		plan_rows_from(p, v, piece->rows, sums->rows);
		return;
	}
	v->predicate = plan_both(p, v->predicate, hexpr_op(ar, HX_LE, hexpr_const(ar, MANY_CARRIED / columns), hexpr_op(ar, HX_MUL, sums->rows, number)));
	plan_say(p, v, arena_printf(ar, "pieces>=%d", MANY_CARRIED / columns));
}

static void plan_pieces_of(struct planner *p, struct planner *q, const struct carried_sums *sums)
{
	const struct ir_axis *n = &q->k->phases[0].axes[sums->column];
	struct accesses a = {.k = q->k};
	ir_walk(q->k->phases[0].body, look_at_access, &a);
	if (!p->target->ring_bytes || !a.loads || a.loads > PIECE_LOADS || sums->n > PIECE_SUMS)
		return;
	for (unsigned f = 0; f < sizeof few_rows / sizeof *few_rows; f++) {
		struct variant few = plan_variant(q);
		few.carries = few_rows[f].workgroups;
		few.pieces = true;
		few.few = few_rows[f].rows <= few.carries;
		few.rounds = few_rows[f].rounds;
		plan_limit(q, &few, (int)sums->rows->imm, few_rows[f].rows);
		plan_pieces(p, q, few, n, FEW_THREADS, FEW_THREADS * 16 / a.widest);
	}
	for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++)
		if (a.loads > pieces[i].more && a.loads <= pieces[i].loads)
			plan_many_pieces(p, q, sums, &pieces[i], a.widest);
}

static void plan_single_rows(struct planner *p, struct planner *q, const struct carried_sums *sums, const struct single_rows *class, int shorter)
{
	const struct ir_axis *n = &q->k->phases[0].axes[sums->column];
	struct variant v = plan_variant(q);
	v.carries = workgroups_of(p, class->each, class->beside);
	v.waves = waves_of(p, class->threads);
	v.beside = class->beside;
	v.uneven = class->beside > 1;
	v.next = class->next;
	v.joined = class->joined && can_join(p, q, &v);
	v.many = true;
	plan_limit(q, &v, (int)n->extent->imm, class->columns);
	if (class->least)
		leave_shorter(p, q, &v, n, shorter);
	plan_aligned(q, &v);
	if (class->least)
		plan_rows_from(p, &v, class->least, sums->rows);
	add_carried(p, q, &v, n, class->columns);
}

static void plan_single_piece(struct planner *p, struct planner *q, const struct carried_sums *sums, const struct single_piece *piece)
{
	const struct ir_axis *n = &q->k->phases[0].axes[sums->column];
	struct variant v = plan_variant(q);
	v.carries = piece->each * p->target->multiprocessors;
	v.pieces = true;
	v.beside = piece->beside;
	v.uneven = piece->beside > 1;
	v.next = piece->beside == 1;
	v.many = true;
	if (piece->beside > 1)
		plan_limit(q, &v, (int)n->extent->imm, piece->columns);
	plan_pieces(p, q, v, n, piece->threads, piece->columns);
}

/* Of rows that begin anywhere.  Those that are fewer than their class is for are not left to the class of longer ones. */
static void plan_single(struct planner *p, struct planner *q, const struct carried_sums *sums)
{
	struct accesses a = {.k = q->k};
	ir_walk(q->k->phases[0].body, look_at_access, &a);
	for (unsigned c = 0; !sums->pieces && c < sizeof single_rows / sizeof *single_rows; c++)
		plan_single_rows(p, q, sums, &single_rows[c], c ? single_rows[c - 1].columns : 0);
	for (unsigned i = 0; sums->pieces && i < sizeof single_pieces / sizeof *single_pieces; i++)
		if (a.loads > single_pieces[i].more && a.loads <= single_pieces[i].loads)
			plan_single_piece(p, q, sums, &single_pieces[i]);
}

void plan_carried(struct planner *p, bool pieces)
{
	struct variant with = {.target = p->target, .carries = 1, .given = p->given, .absent = p->absent};
	char err[200];
	struct pass carry = {.k = ir_clone(p->arena, p->k), .v = &with, .err = err, .errlen = sizeof err};
	struct carried_sums sums;
	if (!p->target->multiprocessors || !kernel_can_carry(carry.k, &sums) || (pieces && !sums.pieces))
		return;
	with.pieces = sums.pieces;
	if (pass_carry(&carry))
		return;
	struct planner q = {.arena = p->arena, .k = carry.k, .text = p->text, .special = p->special, .target = p->target, .given = p->given, .absent = p->absent, .single = p->single};
	facts_look(&q.f, q.k);
	if (p->single && sums.n > PIECE_SUMS)
		return;
	(p->single ? plan_single : sums.pieces ? plan_pieces_of : plan_rows_of)(p, &q, &sums);
}
