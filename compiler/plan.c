/* plan.c -- the variants of kernels of rows, and the choices made for each; what their lanes hold is plan_tiles.c's.
 * In: a planner for the set of optional tensors in hand (plan_sets.c).  Out: variants, most specific first.
 *
 * For every pinned size, for classes of sizes, and between these where rows wait long, for longer rows clusters
 * (plan_cluster.c) and a streaming variant - all of these for aligned tensors whose extents are multiples of the vector width and of whole groups,
 * then of the vector width alone - and the general one, which streams what it knows nothing of: element by element, or in runs where the chip
 * accesses those anywhere.  Rows of few columns: plan_short.c.  Where packs have room, between them: for rows that begin anywhere, the plans of aligned
 * ones, of whose elements each lane accesses one at a time, elsewhere for sizes that the text lists; and where few rows and many, or slow memory and
 * fast, want different plans, one for each.  A phase of tiles that are turned is planned as a kernel of its own.
 * Kernels with dots: plan_products.c. */
#include "affine.h"
#include "pass.h"
#include "plan_tiles.h"

#include <string.h>

/* --- rows --------------------------------------------------------------------------------------------------------------- */

enum { ROW_BESIDE = 1024, LONGEST = 16384, WHOLE_GROUP = 32 };
/* Instructions of one element, about: up to which two of the largest tiles share a compute unit; from which on few rows stand apart. */
enum { TILE_CODE = 40, LONG_CODE = 8 };
enum { SINGLES = 4 };                             /* elements of a lane that are accessed one by one, while there are lanes */
enum { SUMMING_THREADS = 256 };                   /* at least, of groups of rows that are summed */

/* More than whose addresses and masks fit the scalar registers where each element of a lane has its own. */
static bool many_tensors(const struct planner *p)
{
	int n = 0;
	for (int i = 0; i < p->k->nparams; i++)
		n += p->k->params[i].is_tensor && p->k->params[i].role != IR_TEMP;
	return n > 8;
}

/* Of a kernel of several phases, one of tiles that are turned, of groups or of nothing else: its workgroups are those of a kernel that has no other. */
static bool stands_apart(const struct planner *p, int phase)
{
	struct shape s = phase_shape(NULL, &p->k->phases[phase]);
	bool tiles = s.fixed > 1 ? !s.tiled : s.tiled == 2;
	return p->k->nphases > 1 && tiles && !s.open && phase_is_turning(p->k, &p->k->phases[phase]);
}

static bool any_apart(const struct planner *p)
{
	for (int i = 0; i < p->k->nphases; i++)
		if (stands_apart(p, i))
			return true;
	return false;
}

struct rows_search { const struct ir_kernel *k; bool found; };

static void look_for_rows(struct ir_ins *i, void *ctx)
{
	struct rows_search *s = ctx;
	s->found = s->found || (i->op == IR_STORE && s->k->params[i->imm].rank > 1);
}

/* Rows that are stored, not reduced and no more for the tiles behind them. */
static bool stores_rows(const struct planner *p)
{
	struct rows_search s = {p->k, false};
	ir_walk(p->k->phases[0].body, look_for_rows, &s);
	return s.found;
}

/* Nothing but rows, or, behind them, tiles that turn what they stored (pass_across.c). */
static bool only_rows(const struct planner *p) { return p->k->nphases == 1 || (p->k->nphases == 2 && any_apart(p) && stores_rows(p)); }

static void plan_rest(struct planner *p, bool is_aligned, bool open);

void plan_apart(struct planner *p, struct variant *v, int phase, bool open)
{
	struct ir_kernel alone = *p->k;
	struct planner q = {.arena = p->arena, .k = &alone, .text = p->text, .special = p->special, .pins = p->pins, .npins = p->npins, .target = p->target, .given = p->given, .absent = p->absent, .single = p->single};
	alone.phases += phase;
	alone.nphases = 1;
	facts_look(&q.f, &alone);
	plan_rest(&q, v->aligned, open);
	const struct variant *w = &q.out.items[0];
	for (int i = 0; i < w->ntiles; i++)
		plan_tile(v, phase, w->tiles[i].axis, w->tiles[i].tile);
	v->apart[v->napart].phase = phase;
	v->apart[v->napart++].waves = w->waves;
}

static void row_tiles(struct planner *p, struct variant *v, int64_t most, int each)
{
	for (int i = 0; i < p->k->nphases; i++)
		if (stands_apart(p, i) && v->napart < PHASES_APART)
			plan_apart(p, v, i, false);
		else
			plan_phase_tiles(p, v, i, most, each);
}

/* The most that a variant may hold of each open axis, in plan_unit's, for its tiles to fit, and the waves that it takes. */
/* What a phase holds of a class; more than a row has at most is no number. */
static int64_t class_elements(struct planner *p, const struct variant *v, int phase, int64_t most)
{
	const struct ir_phase *ph = &p->k->phases[phase];
	int64_t n = phase_shape(v, ph).fixed;
	for (int a = 0; a < ph->naxes; a++)
		if (phase_is_open(v, &ph->axes[a]) && n <= plan_row_most(p, v))   /* the product of many axes has no 64 bits */
			n *= plan_open_most(p, &ph->axes[a], most);
	return n;
}

static bool class_fits(struct planner *p, struct variant *v, int64_t most)
{
	int waves = 1;
	for (int i = 0; i < p->k->nphases; i++) {
		struct shape s = phase_shape(v, &p->k->phases[i]);
		if (stands_apart(p, i))
			continue;
		int64_t n = class_elements(p, v, i, most);
		if (n > plan_row_most(p, v) || (s.open && s.tiled && most > ROW_BESIDE))
			return false;
		if (s.tiled && n > 1)
			n *= SIDE / 4;                   /* so that accesses along the tiled axis are more than one element wide */
		waves = plan_row_waves(p, v, n) > waves ? plan_row_waves(p, v, n) : waves;
	}
	v->waves = waves;
	return true;
}

/* "N<=1024", once. */
static void say_most(struct planner *p, struct variant *v, const struct hexpr *n, int64_t most)
{
	const char *before = v->text ? v->text : "";
	struct variant alone = {.text = ""};
	plan_say_most(p, &alone, n, most);
	size_t length = strlen(alone.text);
	for (const char *at = before; (at = strstr(at, alone.text)); at += length)
		if ((at == before || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return;
	plan_say(p, v, alone.text);
}

/* Open axes hold at most `most` of plan_unit's, by the variant's predicate; or_none: perhaps nothing. */
static void limit_open(struct planner *p, struct variant *v, int64_t most, bool or_none)
{
	bool done[MODEL_MAX_SYMBOL] = {false};
	for (int groups = or_none; groups <= 1; groups++)
		for (int i = 0; i < p->k->nphases; i++)
			for (int a = 0; a < p->k->phases[i].naxes; a++) {
				const struct ir_axis *ax = &p->k->phases[i].axes[a];
				const struct hexpr *n = ax->extent;
				if (!phase_is_open(v, ax) || (!or_none && (n->op != HX_SYM) != groups))
					continue;
				int64_t each = plan_open_most(p, ax, most);
				if (groups) {
					v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, n, hexpr_const(p->arena, each)));
					say_most(p, v, n, each);
				} else if (!done[n->imm]) {
					done[n->imm] = true;
					plan_limit(p, v, (int)n->imm, each);
				}
			}
}

static bool any_open(const struct planner *p, const struct variant *v)
{
	for (int i = 0; i < p->k->nphases; i++)
		if (phase_shape(v, &p->k->phases[i]).open)
			return true;
	return false;
}

/* Rows of any length can be swept (pass_stream.c): one axis of the phase is reduced over, and not inside a loop or a branch, and what is read and stored is
 * at the same places. */
bool plan_can_sweep(const struct planner *p, int phase)
{
	struct ir_phase *ph = &p->k->phases[phase];
	int reduced = 0;
	for (int a = 0; a < ph->naxes; a++) {
		if (!phase_is_open(NULL, &ph->axes[a]))
			continue;
		if (!phase_can_sweep_in_place(p->k, ph, a))
			return false;
		reduced += !axis_is_independent(p->k, ph, a);
	}
	for (const struct ir_ins *x = ph->body->first; reduced && x; x = x->next)
		if (x->op == IR_FOR || x->op == IR_IF)
			return false;
	return reduced <= 1;
}

static bool can_stream(const struct planner *p)
{
	for (int i = 0; i < p->k->nphases; i++)
		if (!plan_can_sweep(p, i))
			return false;
	return true;
}

/* The axis that numbers all rows, so that a workgroup can have several; NULL = there is no such. */
static const struct ir_axis *joined_axis(const struct planner *p)
{
	int grids = 0;
	const struct ir_phase *ph = &p->k->phases[0];
	const struct ir_axis *row = NULL;
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].kind == AXIS_GRID) {
			row = &ph->axes[a];
			grids++;
		}
	return p->k->nphases == 1 && grids == 1 && !row->tile ? row : NULL;
}

/* So many rows a workgroup, where they can join. */
static bool set_rows(struct planner *p, struct variant *v, int each)
{
	const struct ir_axis *row = joined_axis(p);
	if (each <= 1 || !row)
		return false;
	plan_tile(v, 0, row->name, each);
	return true;
}

/* Many short rows, of one tensor or of a class of lengths: so many a workgroup that it has the waves of others, one tensor's without weights twice as
 * many; also where each has a wave of its own, which waits for none.  Of a crowd: plan_bands.c. */
static void join_rows(struct planner *p, struct variant *v)
{
	int threads = (p->f.weights || p->f.rows > 1) && p->band != BAND_LONE ? p->target->few_threads : 2 * p->target->few_threads;
	bool alone = p->target->whole_chunks && p->f.reduces && v->waves == 1, joins = !v->npins || (p->f.rows == 1 && (alone || plan_is_spread(p, v)));
	int each = joins ? waves_of(p, threads) / v->waves : 1;
	if (p->band == BAND_CROWD) {
		v->abreast = set_rows(p, v, p->f.rounds > 1 ? 2 : 1);
	} else if (set_rows(p, v, each)) {
		v->waves *= each;
		v->alone = alone;
	}
}

/* rows: of which the band has so many; NULL = however many there are; shares: rows share the lanes of a wave. */
static void plan_pin(struct planner *p, int s, int64_t n, const struct hexpr *rows, const struct row_band *band, bool shares)
{
	struct variant v = plan_variant(p);
	plan_pin_symbol(p, &v, s, n);
	p->band = band->band;
	if (!class_fits(p, &v, 1))
		return;
	p->folds = shares && !p->target->more_variants && plan_can_fold(p);
	plan_aligned(p, &v);
	p->folds = false;
	v.shares = shares;
	v.many = rows;
	v.few = p->few;
	if (rows)
		plan_rows_from(p, &v, band->least, rows);
	if (band->most)
		plan_rows_to(p, &v, band->most, rows);
	if (p->band == BAND_CROWD || p->band == BAND_SLOW)
		plan_memory(p, &v, p->band == BAND_CROWD);
	v.stream = any_open(p, &v);
	if (v.shares)
		plan_share_lanes(p, &v, n);
	else if (v.stream || !(p->f.held[s] || p->f.reduces))
		v.waves = v.waves < plan_few_waves(p, &v) ? plan_few_waves(p, &v) : v.waves;
	else if (rows)
		join_rows(p, &v);
	row_tiles(p, &v, 0, plan_lane_elements(p, &v) / (v.stream ? 2 : 1));
	*plan_add(p) = v;
}

/* Tiles of groups both ways of one tensor, so large that a workgroup of the most threads would be alone: half of them hold it as well.  Of two
 * tensors a lane would have twice as many loads to ask for at once (docs/performance.md). */
static bool two_tiles(const struct planner *p, const struct variant *v)
{
	int64_t fixed = 0;
	for (int i = 0; i < p->k->nphases; i++) {
		struct shape s = phase_shape(v, &p->k->phases[i]);
		fixed = s.open || s.tiled ? 0 : s.fixed > fixed ? s.fixed : fixed;
	}
	return fixed && p->f.rows == 1 && v->waves > waves_of(p, p->target->tile_threads) && p->f.cost <= TILE_CODE;
}

/* Several axes in one tile, or one of groups that fills many lanes. */
static bool is_square(const struct planner *p)
{
	bool square = false;
	for (int i = 0; i < p->k->nphases; i++) {
		struct shape s = phase_shape(NULL, &p->k->phases[i]);
		square = square || (!stands_apart(p, i) && (s.tiled > 1 || s.open > 1 || s.fixed > 1024 || (s.tiled && s.fixed * (s.open + 1) > 1)));
	}
	return square;
}

/* The columns of a matrix of which the first phase turns tiles, where few rows have variants of their own; -1 = none. */
static int turned_columns(const struct planner *p)
{
	const struct ir_phase *ph = &p->k->phases[0];
	struct shape s = phase_shape(NULL, ph);
	int last = ph->naxes - 1;
	if (!p->target->few_rows || s.open || s.tiled < 2 || s.fixed > 1 || !phase_is_turning(p->k, ph))
		return -1;
	while (!ph->axes[last].tiled)
		last--;
	const struct hexpr *n = ph->axes[last].extent;
	return n && n->op == HX_SYM ? (int)n->imm : -1;
}

/* What is left over of aligned tensors, or of any. */
static void plan_rest(struct planner *p, bool is_aligned, bool open)
{
	bool square = is_square(p);
	struct variant *v = plan_add(p);
	if (p->narrow)
		plan_limit(p, v, turned_columns(p), p->target->turned_narrow_single.columns);
	if (is_aligned)
		plan_aligned(p, v);
	else
		v->single = plan_has_lists(p);
	bool wide = plan_is_wide(v);
	if (!class_fits(p, v, 1) && !open)               /* a fixed tile with long code: as many lanes as there are */
		v->waves = waves_of(p, plan_most_threads(p));
	int each = wide ? plan_lane_elements(p, v) / (open ? 2 : 1) : square || !(many_tensors(p) || plan_has_lists(p)) ? ONE_BY_ONE : 1;
	if (p->single && !open && each > plan_one_by_one(p))
		each = plan_one_by_one(p);
	int few = plan_few_waves(p, v);
	if (plan_only_groups(p) && few * plan_vector(p, v, each) >= plan_filled(p, v, each))
		few = few * plan_vector(p, v, each) / plan_filled(p, v, each);
	if (open)                                        /* sweeps: few elements a lane keep the code short, many lanes keep it fast */
		v->waves = waves_of(p, wide ? plan_most_threads(p) / 2 : plan_most_threads(p));
	else
		v->waves = square && !wide ? waves_of(p, plan_most_threads(p)) : v->waves < few ? few : v->waves;
	if (p->broad)
		v->waves *= 2;
	if (wide && !p->single && two_tiles(p, v))
		v->waves = waves_of(p, p->target->tile_threads);
	for (int i = 0; i < p->k->nphases && !open; i++)
		if (plan_sums_columns(p, v, &p->k->phases[i]) && v->waves < waves_of(p, SUMMING_THREADS))
			v->waves = waves_of(p, SUMMING_THREADS);
	v->stream = open;
	row_tiles(p, v, 0, each);
	if (!is_aligned)
		v->text = "any";
}

/* Elements of a workgroup's tile in a phase. */
static int64_t tile_elements(const struct variant *v, const struct ir_phase *ph, int phase)
{
	int64_t n = phase_shape(v, ph).fixed;
	for (int t = 0; t < v->ntiles; t++)
		if (v->tiles[t].phase < 0 || v->tiles[t].phase == phase)
			n *= v->tiles[t].tile;
	return n;
}

/* Of lines of groups a fixed size spares masks alone, and those of all sizes that workgroups fill. */
static void plan_whole_lines(struct planner *p, int symbol)
{
	int multiple = p->f.multiple[symbol], before = p->out.n;
	plan_rest(p, true, false);
	p->f.multiple[symbol] = (int)tile_elements(&p->out.items[before], &p->k->phases[0], 0);
	p->out.n = before;
	plan_rest(p, true, false);
	p->f.multiple[symbol] = multiple;
}

/* Beside a held axis of this symbol another is held whose size is not fixed with it. */
static bool leaves_open(const struct planner *p, int symbol)
{
	struct variant pinned = {.pins = {{symbol, 1}}, .npins = 1};
	return any_open(p, &pinned);
}

static void plan_pins(struct planner *p)
{
	int line = plan_only_groups(p) ? plan_line_symbol(p) : -1;
	bool whole = false;
	for (int i = 0; i < p->npins; i++) {
		int s = plan_symbol(p, p->pins[i].symbol);
		int64_t n = p->pins[i].value;
		if (s < 0 || (p->f.multiple[s] && n % p->f.multiple[s]) || (p->f.held[s] && n > plan_row_most(p, NULL)) || n <= p->clustered)
			continue;
		if ((s == line && plan_is_short_line(p, s, n)) || plan_is_short_tile(p, s, n))
			continue;
		if (s == line && !p->target->line_bytes) {
			whole = true;
			continue;
		}
		const struct hexpr *rows = plan_rows_beside(p, s);
		bool apart = rows && p->target->few_rows && !plan_is_several(p) && (!p->f.reduces || n <= ROW_LANES * plan_access(p));
		bool shares = p->f.held[s] && plan_is_short(p, n) && !leaves_open(p, s);
		if (shares && p->target->few_rows) {             /* few are no faster so */
			plan_pin(p, s, n, rows, &(struct row_band){BAND_ANY, MANY_SHARED, 0}, true);
			shares = false;
		}
		struct bands b = plan_bands(p, s, n, rows, apart);
		for (int j = 0; j < b.n; j++) {
			bool last = j == b.n - 1;
			p->few = last && apart;
			plan_pin(p, s, n, b.of[j].least ? rows : NULL, &b.of[j], last && shares);
		}
		p->few = false;
		p->band = BAND_ANY;
	}
	if (whole)
		plan_whole_lines(p, line);
}

/* Rows of one tensor, with a number a group or without, of which nothing is reduced or turned, stored as wide as they are loaded, or wider. */
static bool is_light(const struct planner *p)
{
	return p->k->nphases == 1 && p->f.rows - p->f.numbers == 1 && !p->f.reduces && !phase_is_turning(p->k, &p->k->phases[0]) && p->f.stored == p->f.widest;
}

/* Many rows that are made of the target's long lines: fewer workgroups that read more side by side.  Few rows are better spread.  Light ones are
 * asked for ahead (plan_ahead), but not of slow memory. */
static void plan_long_lines(struct planner *p)
{
	int symbol = p->target->line_bytes ? plan_line_symbol(p) : -1;
	const struct hexpr *rows = symbol >= 0 ? plan_rows_beside(p, symbol) : NULL;
	if (!rows)
		return;
	int multiple = p->f.multiple[symbol];
	p->f.multiple[symbol] = p->target->line_bytes / p->f.widest;
	p->few = p->f.narrowest == p->f.widest && p->f.cost <= LIGHT_CODE;
	plan_rest(p, true, false);
	p->few = false;
	p->f.multiple[symbol] = multiple;
	struct variant *lines = &p->out.items[p->out.n - 1], any;
	plan_many_rows(p, lines, rows);
	if (p->target->fast_memory && is_light(p)) {
		any = *lines;
		plan_memory(p, lines, false);
		*plan_add(p) = any;
	}
}

/* Rows can end within a group of 128, say.  Groups of 32 are whole wherever matrices are made of them. */
static bool can_be_torn(const struct planner *p)
{
	for (int s = 0; s < MODEL_MAX_SYMBOL; s++)
		if (p->f.multiple[s] > p->f.vector[s] && p->f.multiple[s] > WHOLE_GROUP)
			return true;
	return false;
}

/* How fine the classes of sizes are: LARGEST alone where rows can be swept as well and packs have no room beside sets that have their own; there SHORT
 * rows besides for these, where rows can be swept: others then have few of the largest class's waves, as waves vary, unless sums of columns follow.
 * SECOND: every second.  FOURTH: those and 8,192, where sums of columns follow, of which many rows are carried.  BETWEEN: also what lies
 * between powers of two, where masks of single elements cost most. */
enum { LARGEST, SHORT, SECOND, FOURTH, EACH, BETWEEN };

static int classes_of(const struct planner *p)
{
	bool any_tensors = p->sets && !(p->given | p->absent);
	if ((any_tensors || p->unnamed) && !p->target->more_variants)
		return can_stream(p) ? LARGEST : SECOND;
	if (p->folds)
		return SECOND;
	if (p->single && !any_apart(p))
		return any_tensors ? EACH : BETWEEN;
	if (!p->target->more_variants && only_rows(p) && can_stream(p))
		return SHORT;
	if (p->single || (!p->target->more_variants && p->npins))
		return SECOND;
	if (p->target->more_variants || p->k->nphases == 1)
		return EACH;
	return plan_sums_follow(p) ? FOURTH : SECOND;
}

/* Of rows that are reduced the symbol of their columns; -1 = they are not, or others follow. */
static int column_symbol(const struct planner *p)
{
	const struct hexpr *n = NULL;
	for (int a = 0; only_rows(p) && p->f.reduces && a < p->k->phases[0].naxes; a++) {
		const struct ir_axis *ax = &p->k->phases[0].axes[a];
		if (phase_is_open(NULL, ax))
			n = ax->extent->op == HX_CDIV ? ax->extent->a : ax->extent;
	}
	return n && n->op == HX_SYM ? (int)n->imm : -1;
}

/* The same of one tensor whose rows are waited for. */
static int row_symbol(const struct planner *p) { return p->f.rows == 1 && (p->f.weights || p->f.rounds > 1) ? column_symbol(p) : -1; }

/* Of a class whose elements are accessed one by one: few a lane. */
static int single_waves(struct planner *p, const struct variant *v, int64_t most)
{
	int64_t lanes = p->target->wave;
	for (int i = 0; i < p->k->nphases; i++) {
		int64_t n = stands_apart(p, i) ? 0 : class_elements(p, v, i, most);
		while (lanes * SINGLES < n && lanes < plan_most_threads(p))
			lanes *= 2;
	}
	return waves_of(p, (int)lanes);
}

/* rows: of which there are as many as the band asks for; NULL = however many there are. */
static void plan_class(struct planner *p, struct variant v, int most, bool is_aligned, const struct hexpr *rows, const struct class_band *band)
{
	class_fits(p, &v, most);
	limit_open(p, &v, most, false);
	v.holds = most;
	if (is_aligned)
		plan_aligned(p, &v);
	else
		v.waves = single_waves(p, &v, most);
	if (rows) {
		plan_rows_from(p, &v, band->least, rows);
		v.many = true;
		if (band->joins)
			join_rows(p, &v);
	}
	row_tiles(p, &v, most, plan_lane_elements(p, &v));
	*plan_add(p) = v;
}

/* As long as the largest class: where there are few, and of groups, which share what waves do once among more columns of the same registers, as long
 * as the most waves hold; rows that no one has, longer ones, are then left to those that ask for every tensor. */
static int longest_class(const struct planner *p)
{
	bool set = !p->sets || p->given | p->absent;
	return classes_of(p) <= SHORT && (set || plan_unit(p) > 1) ? 2 * LONGEST : LONGEST;
}

/* Returns how many positions the largest holds, 0 = there is none. */
static int plan_classes(struct planner *p, bool is_aligned)
{
	static const struct { int most, from; } classes[] = {{64, LARGEST}, {128, LARGEST}, {256, LARGEST}, {1024, SHORT}, {2048, EACH}, {3072, BETWEEN}, {4096, SECOND}, {5120, BETWEEN},
		{6144, BETWEEN}, {8192, FOURTH}, {10240, BETWEEN}, {12288, BETWEEN}, {2 * LONGEST, LARGEST}, {LONGEST, LARGEST}};
	int wanted = classes_of(p), small = can_stream(p) ? 1024 : 256;
	bool listed = p->single && !p->target->more_variants;   /* of sizes that the text lists alone; the short ones: plan_short.c */
	int64_t group = p->target->more_variants || listed || wanted <= SHORT ? plan_unit(p) : 1;
	bool named = p->target->whole_chunks && is_aligned && (!p->sets || p->given | p->absent), full = named && !p->single;
	bool always = !p->target->whole_chunks && is_aligned;   /* others are as fast with few elements a lane where rows are few (plan_bands.c) */
	int before = 0, largest = 0, longest = longest_class(p), columns = column_symbol(p), above = SHORT_ROWS;
	const struct hexpr *rows = named && columns >= 0 ? plan_rows_beside(p, columns) : NULL;
	for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++) {
		struct variant v = plan_variant(p);
		int positions = classes[c].most, most = plan_groups_within(positions, (int)group);
		int under = above;
		above = positions > above ? positions : above;
		if (most == before || positions > longest || (is_aligned && !p->single && positions <= p->clustered))
			continue;
		if (listed && (columns < 0 || !plan_lists_odd(p, columns, under, positions)))
			continue;
		v.full = always || (full && most && !class_fits(p, &v, most));   /* rows that are not held otherwise */
		/* small classes only where larger ones do not fit; where nothing is swept one more, for the others may prove too large (variant_is_spare) */
		if (!most || !class_fits(p, &v, most) || (positions < small && class_fits(p, &v, (wanted > SHORT ? 4 : 2) * most)))
			continue;
		if (classes[c].from > wanted && (classes[c].from > EACH || class_fits(p, &v, 2 * most)))
			continue;
		before = most;
		v.instead = positions < largest;
		largest = v.instead ? largest : positions;
		struct class_band band = rows && !v.full && !p->folds ? plan_class_band(p, positions, joined_axis(p)) : (struct class_band){0};
		struct variant many = v;
		many.full = true;
		if (band.least && class_fits(p, &many, most) && (band.joins || many.waves != v.waves))
			plan_class(p, many, most, is_aligned, rows, &band);
		p->few = band.spread;
		plan_class(p, v, most, is_aligned, NULL, NULL);
		p->few = false;
	}
	return largest;
}

/* Rows with weights that wait for two sums, by what is made of them, as bits; UNBIASED: in groups, and nothing is added. */
enum { STORED_NARROW = 1, STORED_WIDE = 2, IN_GROUPS = 4, UNBIASED = 8 };

static int waiting_rows(const struct planner *p)
{
	bool narrows = p->f.narrowest < p->f.widest, waits = p->f.weights && p->f.rounds >= 2 + narrows;
	if (!p->target->whole_chunks || row_symbol(p) < 0 || !waits)
		return 0;
	if (plan_unit(p) > 1)
		return p->f.long_weights < 2 ? IN_GROUPS | UNBIASED : IN_GROUPS;
	return narrows ? STORED_NARROW : STORED_WIDE;
}

/* Many such rows: lanes hold as many accesses as the longest have, of which the last alone is masked, for the shortest have all the others: these are
 * asked for together (emit/ask.c).  Whose rows gain by it was measured (docs/performance.md). */
static void plan_between(struct planner *p)
{
	static const struct { int above, most, lane, rows; } ranges[] = {
		{1024, 1536, 32, STORED_NARROW | IN_GROUPS}, {1536, 2048, 32, STORED_NARROW | IN_GROUPS}, {2048, 3072, 32, STORED_NARROW},
		{3072, 4096, 32, STORED_NARROW | STORED_WIDE | IN_GROUPS}, {4096, 5120, 64, STORED_NARROW | UNBIASED}, {5120, 6144, 64, STORED_NARROW | UNBIASED},
		{6144, 7168, 64, STORED_NARROW}, {7168, 8192, 32, STORED_NARROW | STORED_WIDE | IN_GROUPS}, {8192, 10240, 64, STORED_NARROW | STORED_WIDE},
		{10240, 12288, 64, STORED_NARROW | STORED_WIDE}, {12288, 14336, 64, STORED_NARROW | STORED_WIDE | IN_GROUPS},
		{14336, 16384, 64, STORED_NARROW | STORED_WIDE | IN_GROUPS}};
	int symbol = row_symbol(p), unit = (int)plan_unit(p);
	const struct hexpr *rows = symbol >= 0 ? plan_rows_beside(p, symbol) : NULL;
	int waiting = rows ? waiting_rows(p) : 0;
	for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		struct variant v = plan_variant(p);
		int most = plan_groups_within(ranges[i].most, unit);
		if (!(ranges[i].rows & waiting) || most * unit != ranges[i].most)
			continue;
		plan_range(p, &v, symbol, ranges[i].above + 1, ranges[i].most);
		plan_aligned(p, &v);
		plan_many_rows(p, &v, rows);
		v.waves = waves_of(p, (int)power_above(ranges[i].most / ranges[i].lane));
		row_tiles(p, &v, most, ranges[i].lane);
		*plan_add(p) = v;
	}
}

static void plan_empty_rows(struct planner *p)
{
	struct variant *v = plan_add(p);
	int64_t most = 64;
	while (!class_fits(p, v, most) && most > 1)       /* asked of one position too: that gives the waves */
		most /= 2;
	limit_open(p, v, most, true);
	row_tiles(p, v, most, plan_lane_elements(p, v));
	v->text = "short or empty";
}

/* The rows of such a matrix; NULL = none. */
static const struct hexpr *turned_rows(const struct planner *p)
{
	int columns = turned_columns(p);
	return columns >= 0 ? plan_rows_beside(p, columns) : NULL;
}

/* The rows of a matrix of one tensor that is taken in small groups both ways: a crowd of them has variants whose tiles have longer lines, in
 * twice as many lanes, where memory is fast.  Of two tensors, or fewer rows, these cost more than they bring (docs/performance.md).  NULL = none. */
static const struct hexpr *grouped_rows(const struct planner *p)
{
	const struct ir_phase *ph = &p->k->phases[0];
	const struct hexpr *rows = NULL;
	int grids = 0;
	if (!p->target->few_rows || p->k->nphases > 1 || p->f.rows != 1 || !phase_is_turning(p->k, ph) || phase_shape(NULL, ph).fixed >= SIDE * SIDE)
		return NULL;
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		if (ax->kind != AXIS_GRID)
			continue;
		if (!ax->extent || ax->extent->op != HX_CDIV)
			return NULL;
		rows = grids++ ? rows : ax->extent->a;
	}
	return grids == 2 ? rows : NULL;
}

/* The rest for many rows, where these can be told apart, and for any. */
static void plan_many_and_few(struct planner *p, const struct hexpr *rows, bool apart, bool open)
{
	if (rows) {
		plan_rest(p, true, open);
		plan_many_rows(p, &p->out.items[p->out.n - 1], rows);
	}
	p->few = rows && apart;
	plan_rest(p, true, open);
	p->out.items[p->out.n - 1].few = rows;
	p->few = false;
}

/* Many rows so short that of a tile of others most would be empty. */
static void plan_narrow(struct planner *p, const struct hexpr *rows, bool open)
{
	p->narrow = true;
	plan_rest(p, true, open);
	plan_many_rows(p, &p->out.items[p->out.n - 1], rows);
	p->narrow = false;
}

/* What no class holds, of aligned tensors: few rows and many. */
static void plan_aligned_rest(struct planner *p, bool open)
{
	bool set = p->given | p->absent, any_tensors = p->sets && !set;
	int symbol = !open && p->target->few_rows ? plan_line_symbol(p) : -1;
	const struct hexpr *turned = any_tensors ? NULL : turned_rows(p), *grouped = any_tensors || open ? NULL : grouped_rows(p);
	if (grouped) {
		p->broad = true;
		plan_rest(p, true, open);
		struct variant *v = &p->out.items[p->out.n - 1];
		plan_many_rows(p, v, grouped);
		plan_memory(p, v, true);
		p->broad = false;
	}
	plan_many_and_few(p, symbol >= 0 ? plan_rows_beside(p, symbol) : turned, turned || plan_only_groups(p) || p->f.cost >= LONG_CODE, open);
	if (can_be_torn(p) && !any_tensors && !p->brief && (!set || p->target->more_variants)) {   /* else those of any tensors take torn rows as well */
		p->torn = true;
		plan_rest(p, true, open);
		p->torn = false;
	}
}

/* How many workgroups later the one is whose tile the L2 is asked for: those between read as much as stays there.  For tiles that are turned, of
 * groups of one tensor, or of one group both ways of three, of which few are resident, and for long lines of one tensor of which nothing is reduced
 * and that are stored as wide as they are loaded.  To have room for what is asked for, a call gives up what it could have kept: tiles of one tensor
 * without groups are asked for where a call reads more than the L2 holds, lines that are stored wider where it moves more.  Others wait for more than
 * memory, or have as much in flight as it takes (docs/performance.md). */
static void plan_ahead(const struct planner *p, struct variant *v)
{
	const struct ir_phase *ph = &p->k->phases[0];
	int64_t n = tile_elements(v, ph, 0), fixed = phase_shape(v, ph).fixed;
	bool turns = phase_is_turning(p->k, ph), groups = turns && fixed > 1 && (p->f.rows == 1 || (p->f.rows > 2 && n == fixed));
	bool light = plan_line(p, v) && is_light(p) && !v->slow, plain = turns && fixed == 1 && p->f.rows == 1 && v->many;
	int bytes = light ? p->target->line_ahead_bytes : p->target->ahead_bytes;
	if (!(groups || plain || light) || p->k->nphases > 1 || !v->aligned || v->single)
		return;
	v->ahead = (int)(bytes / (n * p->f.widest * (light ? 1 : p->f.rows)));
	int64_t element = plain ? p->f.read : light && p->f.narrowest < p->f.stored ? p->f.narrowest + p->f.stored : 0;
	v->ahead_from = element ? (int)(p->target->l2_bytes / (n * element)) : 0;
}

/* Whether workgroups that follow each other lie side by side in rows.  Where tiles do not end with sectors of memory, the two that share one
 * then write it at about the same time, and it goes to memory once; other tiles are of fewer pages at a time.  Few rows are as fast one
 * behind the other, or faster (docs/performance.md). */
static bool is_sideways(const struct planner *p, const struct variant *v)
{
	bool turns = phase_is_turning(p->k, &p->k->phases[0]) || any_apart(p);
	bool lines = v->many && plan_line_symbol(p) >= 0;
	return p->target->sideways && (turns || v->single || lines);
}

/* Of which calls what is stored leaves the L2 first (nvptx/memory.c): not by single elements, the code of which suffers; nor by several short rows
 * with weights to a workgroup, each of several waves, or in norms that are quantised behind two reductions, 1 to 3 % slower so; of more rows than
 * the L2 holds, lines that are asked for ahead say so themselves (docs/performance.md). */
static enum stored_first stored_first_of(const struct planner *p, const struct variant *v)
{
	bool joined = false;
	for (int t = 0; t < v->ntiles; t++)
		joined = joined || (v->npins && !v->abreast && !v->alone && p->f.reduces && p->f.weights && v->tiles[t].tile > 1);
	if (!p->target->stored_first || v->single || plan_waits_twice(p) || joined)
		return STORED_AS_READ;
	return v->ahead && plan_line(p, v) ? STORED_FIRST_OF_FEW : STORED_FIRST;
}

void plan_rows(struct planner *p)
{
	bool open = any_open(p, NULL), sweeps = !open || can_stream(p), set = p->given | p->absent;
	int first = p->out.n;
	p->clustered = 0;
	p->torn = can_be_torn(p) && p->sets && !set;
	if (sweeps && (set || !p->sets))
		plan_long_lines(p);
	if (set || !p->sets) {
		plan_clusters(p);
		plan_carried(p, false);
		plan_pins(p);
	} else {
		plan_carried(p, true);
	}
	bool held = open && (p->target->more_variants || !sweeps || !any_apart(p) || stores_rows(p));   /* a phase that only reduces rows sweeps them nearly as fast */
	bool longer = sweeps && held && (set || !p->sets) && !p->brief;
	if (longer) {
		plan_between(p);
		plan_long_rows(p, true);
	}
	if (sweeps && (held || !open))
		plan_short_rows(p);
	int largest = 0;
	for (int a = 1; held && a >= (sweeps || set); a--) { /* without sweeps the classes are all there is */
		largest = plan_classes(p, a);
		if (!sweeps)
			plan_uneven(p, a);
	}
	if (!sweeps && !set)
		plan_empty_rows(p);
	if (longer)
		plan_long_rows(p, false);
	int before = p->out.n;
	if (sweeps)
		plan_aligned_rest(p, open);
	for (int i = before; i < p->out.n; i++)
		p->out.items[i].instead = (set || !p->sets) && largest > LONGEST;
	p->torn = false;
	if (sweeps && (p->target->more_variants || set || !p->sets) && !plan_has_lists(p) && !p->brief) {
		p->single = true;
		int carried = p->out.n;
		if (p->target->more_variants)
			plan_carried(p, p->sets && !set);
		bool pieces = p->out.n > carried && p->out.items[carried].pieces;      /* of any length */
		if (held || !open)
			plan_short_rows(p);
		if (held)
			plan_classes(p, true);
		const struct hexpr *turned = set || !p->sets ? turned_rows(p) : NULL;
		if (turned)
			plan_narrow(p, turned, open);
		if (p->target->more_variants && !pieces)
			plan_many_and_few(p, turned, true, open);
		p->single = false;
	}
	if (sweeps && p->target->more_variants && (set || !p->sets) && !plan_has_lists(p) && !p->brief && plan_can_fold(p)) {
		p->folds = true;
		if (held)
			plan_classes(p, true);
		plan_rest(p, true, open);
		p->folds = false;
	}
	if (sweeps && !set)
		plan_rest(p, false, open);
	for (int i = first; i < p->out.n; i++) {
		if (p->out.items[i].cluster)
			continue;
		plan_ahead(p, &p->out.items[i]);
		p->out.items[i].sideways = is_sideways(p, &p->out.items[i]);
		p->out.items[i].stored_first = stored_first_of(p, &p->out.items[i]);
		p->out.items[i].gaps = p->f.guarded;
		p->out.items[i].waves_vary = plan_is_wide(&p->out.items[i]) && !p->out.items[i].single;
	}
}
