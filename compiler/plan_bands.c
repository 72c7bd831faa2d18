/* plan_bands.c -- by how many rows there are, which variants a fixed length of rows has, and a class of lengths.
 *
 * In: a planner for the set in hand, the symbol that is fixed, the length, how many rows there are; or the longest of a class.  Out: bands, of which the
 * first that a call's rows lie in is its variant.
 *
 * Few rows have many lanes each, so that all loads are on their way at once; of many, lanes hold more, which share what a wave does once.  Where one is
 * better than the other follows from two numbers: how many rows of the first kind are resident at a time, for the next would wait for a whole row's
 * time; and how many a launch asks for early (target.early_bytes), which few do not, as what asks costs them more than it gives.  Between the two lies a
 * band of rows with many lanes that ask.  What the other bands were found by is in docs/performance.md. */
#include "pass.h"
#include "plan_tiles.h"

/* Rows from which on short ones have a wave each, those of no power of two sooner; the fewest that the longest have more lanes for, as fewer are as fast
 * by few waves, which wait for each other less; columns of the longest: lanes of shorter ones are not full. */
enum { LONE_ROWS = 4096, MANY_ALONE = 1536, SPREAD_ROWS = 65, LONGEST_ROW = 14336 };
/* Elements of a lane, for as many as which registers leave room in all threads of a multiprocessor (target.resident_threads); workgroups of one, of more of
 * which it takes as long to begin them. */
enum { RESIDENT_LANE = 16, RESIDENT_WORKGROUPS = 8 };

/* Classes of lengths by their longest row: of which a workgroup takes several, a wave each; of which it takes two; others.  Rows from which on a class
 * has such a variant; from which on lanes hold more; the same of long rows.  Columns of a group, up to which long rows wait for more of them. */
enum { SHORT_CLASS = 1024, PAIRED_CLASS = 2048, MEDIUM_CLASS = 4096, LONG_CLASS = 8192 };
enum { MANY_JOINED = 3072, MANY_FULL = 2048, MANY_LONG = 640, SMALL_GROUP = 32 };

/* Rows of 8 KB with weights, written as wide as they are read, of which there are more than the chip holds at a time, by far: where one
 * reduction is all they wait for, each to a wave; where two are, two rows to the same lanes, of an access each.  Shorter ones gain nothing
 * by it, longer ones not always. */
static bool has_crowd(const struct planner *p, int64_t n)
{
	return p->target->whole_chunks && p->f.reduces && p->f.rows == 1 && p->f.weights && p->f.narrowest == 2 && p->f.widest == 2 && n == ACCESS_ROW;
}

/* Rows with weights that are quantised; below, short and light enough for a wave each. */
static bool is_quantised(const struct planner *p)
{
	bool one = p->k->nphases == 1 && p->f.reduces && p->f.rows == 1;
	return p->target->fast_memory && p->target->whole_chunks && one && p->f.weights && p->f.narrowest < p->f.widest;
}

static bool is_short(const struct planner *p, int64_t n) { return n <= WAVE_ROW && p->f.cost <= ROW_CODE; }

/* Slow memory is kept busier by long rows in more lanes of fewer elements, by short rows in a wave each, and, where rows wait twice, by asking early
 * for those of a launch's first workgroups, which fast memory loses by. */
static bool has_slow(const struct planner *p, int64_t n)
{
	return is_quantised(p) && (plan_waits_twice(p) || n >= MEDIUM_ROW || is_short(p, n));
}

/* Waves of a workgroup that has a row of n elements, by a band's lanes. */
static int row_waves(struct planner *p, int64_t n, enum band band)
{
	struct variant v = plan_variant(p);
	v.pins[v.npins++].value = n;
	p->band = band;
	int waves = plan_row_waves(p, &v, n);
	p->band = BAND_ANY;
	return waves;
}

/* What a row of n elements is to workgroups of so many waves: how many are resident at a time, and how many a launch asks for early. */
static int resident_rows(const struct planner *p, int64_t n, int waves)
{
	int64_t full = (int64_t)waves * p->target->wave * RESIDENT_LANE;
	int workgroups = waves_of(p, p->target->resident_threads) / (waves * (int)((n + full - 1) / full));
	return p->target->multiprocessors * (workgroups < RESIDENT_WORKGROUPS ? workgroups : RESIDENT_WORKGROUPS);
}

static int asked_rows(const struct planner *p, int64_t n, int waves)
{
	int64_t round = (int64_t)waves * p->target->wave * plan_access(p), rounds = (n + round - 1) / round;
	return (int)(p->target->early_bytes / (rounds * round * p->f.read));
}

static void add(struct bands *b, enum band band, int least, int most) { b->of[b->n++] = (struct row_band){band, least, most}; }

/* From how many rows of n elements on, which are no power of two, lanes hold twice as many, in fewer waves; 0 = never, as short rows of two
 * reductions that are stored as wide as they are read.  Sooner where one wave is left, which waits for no other. */
static int wide_rows(struct planner *p, int64_t n, int waves)
{
	int wide = row_waves(p, n, BAND_WIDE);
	bool narrows = p->f.narrowest < p->f.widest;
	if (wide >= waves || (n <= ACCESS_ROW && p->f.rounds > 1 && !narrows))
		return 0;
	if (wide > 1 || p->f.rounds > 2 || p->f.long_weights > 1)
		return CROWD_ROWS;
	return MANY_ALONE;
}

/* Bands of rows that are held by one workgroup each and load nothing else of their length but weights. */
static void add_measured(struct planner *p, struct bands *b, int64_t n, bool apart)
{
	int most = row_waves(p, n, BAND_MORE), least = row_waves(p, n, BAND_ANY);
	int resident = resident_rows(p, n, most), asked = asked_rows(p, n, most), many = MANY_ROWS;
	int very_many = apart ? wide_rows(p, n, least) : 0;
	int64_t once = (int64_t)plan_most_threads(p) * plan_access(p);
	bool longer = n > once, differ = most > least && most >= waves_of(p, p->target->few_threads);
	if (!apart) {
		if (differ && n >= LONGEST_ROW)
			add(b, BAND_MORE, SPREAD_ROWS, resident);
		return;
	}
	if (very_many)
		add(b, BAND_WIDE, very_many, 0);
	if (!differ && longer)
		many = asked + 1;
	else if (differ && (p->f.rounds < 2 || n >= once))
		many = resident + 1;
	add(b, BAND_ANY, many, 0);
	if (differ && longer && !plan_waits_twice(p))
		add(b, BAND_MORE, asked + 1, 0);
}

/* Rows are as long as a symbol says, or have as many groups: whatever else is fixed, they are not of that length. */
static bool is_length(const struct planner *p, int symbol)
{
	const struct ir_phase *ph = &p->k->phases[0];
	for (int a = 0; a < ph->naxes; a++) {
		const struct hexpr *n = ph->axes[a].kind == AXIS_HELD ? ph->axes[a].extent : NULL;
		const struct hexpr *of = n && n->op == HX_CDIV ? n->a : n;
		if (of && of->op == HX_SYM && of->imm == symbol)
			return true;
	}
	return false;
}

struct bands plan_bands(struct planner *p, int symbol, int64_t n, const struct hexpr *rows, bool apart)
{
	struct bands b = {0};
	int many = p->f.guarded ? MANY_GUARDED : MANY_ROWS;
	bool one = p->k->nphases == 1 && p->f.reduces && p->f.rows == 1 && p->f.read && !p->f.guarded;
	bool measured = one && rows && p->target->early_bytes && is_length(p, symbol) && !plan_only_groups(p) && !plan_is_short(p, n);
	if (apart && has_crowd(p, n))
		add(&b, BAND_CROWD, CROWD_ROWS, 0);
	if (has_slow(p, n))
		add(&b, BAND_SLOW, apart ? many : 0, 0);
	if (apart && is_quantised(p) && is_short(p, n))
		add(&b, BAND_LONE, LONE_ROWS, 0);
	if (measured)
		add_measured(p, &b, n, apart);
	else if (apart)
		add(&b, BAND_ANY, many, 0);
	add(&b, BAND_ANY, 0, 0);
	return b;
}

/* Of rows that begin anywhere, and are there, lanes of many hold more where a class would else leave a quarter of them without an element, unless groups
 * are small; of powers of two those alone that are quantised, of one tensor, and of the longest those with a bias or without weights. */
static struct class_band single_band(const struct planner *p, int longest)
{
	bool groups = plan_unit(p) > 1, one = p->f.rows == 1, bare = one && !p->f.weights && p->f.rounds < 2;
	bool takes = longest > PAIRED_CLASS && longest < LONG_CLASS && !(groups && plan_unit(p) <= SMALL_GROUP);
	if (longest == MEDIUM_CLASS)
		takes = one && p->f.narrowest < p->f.widest && (p->f.weights || bare);
	else if (longest == LONG_CLASS)
		takes = p->f.long_weights > 1 || bare;
	return (struct class_band){.least = takes && !p->f.guarded ? MANY_FULL : 0};
}

/* What waves do once, their part of the reductions above all, is shared by more where lanes hold more; few rows are better spread.  Rows that wait for
 * one reduction gain sooner than those behind two; those without weights whose code is so long that a lane of few would make a single access hold more
 * only up to half of the longest.  Two tensors of rows that are quantised are asked for at once by many lanes, as those of a fixed length are, unless
 * there is as much besides. */
struct class_band plan_class_band(const struct planner *p, int longest, bool can_join)
{
	if (p->single)
		return single_band(p, longest);
	bool one = p->f.rows == 1, waits = one && (p->f.weights || p->f.rounds > 1), bare = one && !p->f.weights && p->f.rounds > 1 && !p->f.guarded;
	bool single = !p->f.weights && 16 * p->f.cost > LANE_ROW_CODE, groups = plan_unit(p) > 1;
	bool ranges = plan_waits_twice(p) && !groups && !p->brief;      /* all of these have ranges (plan.c, plan_between) */
	int spread = p->f.narrowest == p->f.widest || p->f.long_weights > 1 ? 0 : p->f.weights ? SHORT_CLASS : MEDIUM_CLASS;
	struct class_band b = {.spread = !one && !p->f.guarded && longest <= spread};
	switch (longest) {
	case SHORT_CLASS:
		b.joins = can_join;
		b.least = can_join || bare ? MANY_JOINED : 0;
		break;
	case PAIRED_CLASS:
		b.joins = can_join && one && p->f.rounds < 2 && !groups;
		b.least = b.joins ? MANY_FULL : 0;
		break;
	case MEDIUM_CLASS:
		if (single || (waits && !ranges))
			b.least = p->f.rounds < 2 && !single ? MANY_LONG : MANY_FULL;
		break;
	case LONG_CLASS:
		if (waits && !single && !ranges)
			b.least = groups && plan_unit(p) <= SMALL_GROUP ? MANY_FULL : MANY_LONG;
		break;
	}
	return b;
}
