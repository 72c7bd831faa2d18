/* plan_tiles.c -- how many elements a lane of a variant holds, how many waves a workgroup has, and which tiles that makes of a phase.
 * In: a kernel's facts, a variant whose pins, limits and alignment are known, the target's row.  Out: numbers, and the variant's tiles.
 * More elements a lane share what a wave does once; fewer keep the code short and more waves resident.  What the
 * numbers were chosen by is in docs/performance.md. */
#include "plan_tiles.h"

enum { LINE = 512, LONG_ROW = 16384, CROWD_BYTES = 256, TURNING = 32, FEW_THREADS = 256, LANE_REGISTERS = 128 };
/* Elements of a lane of groups of rows that are summed; four-byte ones of a tile that is turned, at most. */
enum { SUMMED_LANE = 32, MOST_WORDS = 8192 };
/* Columns of a workgroup that adds up parts of their sums, 128 bytes, as many as a workgroup of the same launch takes at most, and a sector. */
enum { ADDED_LINE = 32, JOINED_LINE = 128, ADDED_LEAST = 8 };
/* Instructions, about: of all elements of a lane that holds 64 of a tile that is turned; of one element, up to which a lane makes one access to each of
 * several rows. */
enum { LANE_CODE = 1400, SEVERAL_CODE = 24 };

/* Every phase has groups of a fixed size and nothing beside them. */
bool plan_only_groups(const struct planner *p)
{
	for (int i = 0; i < p->k->nphases; i++) {
		struct shape s = phase_shape(NULL, &p->k->phases[i]);
		if (s.open || s.tiled || s.fixed <= 1)
			return false;
	}
	return true;
}

/* Rows of several tensors are asked for at once by many lanes rather than by few, unless each then computes for long. */
bool plan_is_several(const struct planner *p)
{
	return p->target->whole_chunks && p->f.reduces && p->f.rows > 1 && p->f.cost <= SEVERAL_CODE;
}

/* Elements of a row, at most, of which lanes hold as many as there are registers for. */
static int64_t row_of(const struct variant *v) { return v->full ? LONG_ROW : v->pins[0].value; }

/* Rows of which a lane holds 16 elements: more would share no weights, or, of a short row made narrower by light code, little else. */
bool plan_is_spread(const struct planner *p, const struct variant *v)
{
	bool light = p->f.rows == 1 && p->f.cost <= ROW_CODE && p->f.narrowest < p->f.widest;
	return p->target->whole_chunks && ((!p->f.weights && p->f.rounds < 2) || (light && row_of(v) <= ACCESS_ROW));
}

bool plan_waits_twice(const struct planner *p) { return p->f.rounds > 2 && p->f.narrowest < p->f.widest; }

/* Of rows that are reduced, of which there is one tensor, as wide as this is; else as the widest. */
int plan_access(const struct planner *p)
{
	return 16 / (p->f.reduces && p->f.rows == 1 && p->f.read ? p->f.read : p->f.widest);
}

/* Elements of a lane for slow memory; 0 = as for any.  Rows that wait twice wait longer in more lanes if they are short, or long. */
static int slow_elements(const struct planner *p, const struct variant *v)
{
	int64_t n = v->pins[0].value;
	if (!plan_waits_twice(p))
		return n <= WAVE_ROW ? 32 : 16;
	return n >= ACCESS_ROW && n < LONG_ROW && !variant_is_ragged(v) ? 16 : 0;
}

/* Of a length that is no power of two lanes hold twice as many elements: the fewer lanes, the fewer have none of the row.  Rows of several waves, for
 * which few rows have variants (plan_bands.c), do so only where there are very many: fewer wait less the more lanes they have. */
static bool is_ragged_wide(const struct planner *p, const struct variant *v, int each)
{
	bool medium = v->npins && row_of(v) > WAVE_ROW && row_of(v) <= ROW_LANES * 8;
	return variant_is_ragged(v) && (!medium || each <= 16 || p->band == BAND_WIDE || p->band == BAND_SLOW);
}

/* Elements a lane holds at most: fewer where the code for each is long, or it would take long to compile and not fit the cache.  More
 * of a row whose size is fixed, which needs no masks, or of a class that is full: what a wave does once, its part of the reductions above all, is then shared by more. */
int plan_lane_elements(const struct planner *p, const struct variant *v)
{
	bool more = v && (v->npins || v->full) && p->f.reduces;
	int n = more && (p->single || !plan_is_spread(p, v)) ? 32 : 16, most = more ? 1000 : LANE_ROW_CODE;
	bool bare = !p->f.weights && p->f.rounds > 1;        /* twice as many as these wait longer */
	bool alone = p->f.rows == 1 && p->f.long_weights < 2;   /* a row, a weight and a bias of twice as many leave room for one workgroup */
	if (more && !bare && p->target->whole_chunks && (is_ragged_wide(p, v, n) || (alone && variant_is_at_least(v, LONG_ROW)))) {
		n *= 2;
		most *= 2;
	}
	/* of rows that may not be there, which workgroups take one behind the other, two accesses a lane */
	if (more && !p->single && plan_is_several(p))
		for (n = (p->f.guarded ? 32 : 16) / p->f.widest; row_of(v) > (int64_t)ROW_LANES * n;)
			n *= 2;
	bool asks_all = p->sets && !(p->given | p->absent);  /* code for what is not there is long, and what a wave does once longer */
	int least = (p->target->whole_chunks && plan_only_groups(p)) || (p->target->more_variants && asks_all) ? 16 : 4;
	while (n > least && n * p->f.cost > most)
		n /= 2;
	if (more && (p->band == BAND_SLOW || p->band == BAND_LONE) && slow_elements(p, v))
		return slow_elements(p, v);
	if (more && p->band == BAND_CROWD)
		return (p->f.rounds > 1 ? 16 : CROWD_BYTES) / p->f.widest;
	if (more && p->band == BAND_MORE)
		for (n = plan_access(p); row_of(v) > (int64_t)ROW_LANES * n;)
			n *= 2;
	int few = v && v->npins ? plan_access(p) : 16 / p->f.widest;
	return p->few && n > few ? few : n;
}

int64_t plan_row_most(const struct planner *p, const struct variant *v) { return ROW_LANES * plan_lane_elements(p, v); }

/* Of a workgroup whose lanes have registers enough. */
int plan_most_threads(const struct planner *p)
{
	int n = p->target->registers / LANE_REGISTERS;
	return n < p->target->max_threads ? n : p->target->max_threads;
}

/* One access a lane to each of several rows, of which a part is stored before it is reduced: what is held meanwhile is so little that two
 * of the largest workgroups have registers enough. */
static bool is_slight(const struct planner *p, const struct variant *v)
{
	return v->npins && plan_is_several(p) && p->f.early && !variant_is_ragged(v) && plan_lane_elements(p, v) == 16 / p->f.widest;
}

int plan_row_waves(const struct planner *p, const struct variant *v, int64_t elements)
{
	int each = p->target->wave * plan_lane_elements(p, v);
	int64_t w = power_above((elements + each - 1) / each);
	int most = waves_of(p, is_slight(p, v) ? p->target->max_threads : plan_most_threads(p));
	return w > most ? most : (int)w;
}

/* Lanes hold runs of elements, or are planned as if they did. */
bool plan_is_wide(const struct variant *v) { return v->aligned || variant_in_runs(v); }

/* Of a lane's elements: those side by side in it, 16 bytes of the widest; where it accesses them one by one all that it has. */
int plan_vector(const struct planner *p, const struct variant *v, int each)
{
	int n = plan_is_wide(v) ? 16 / p->f.widest * p->target->vectors : each;
	return n > each ? each : n;
}

/* Of groups a lane has 16 elements, which are 16 bytes of 8-bit codes. */
int plan_filled(const struct planner *p, const struct variant *v, int each)
{
	return !plan_is_wide(v) ? plan_vector(p, v, each) : each > 16 ? 16 : each;
}

/* Positions that an axis of groups stands for each. */
int64_t plan_axis_by(const struct ir_axis *ax)
{
	int64_t by = 1;
	hexpr_is_const(ax->extent->b, &by);
	return by;
}

/* Groups in so many positions: of 24 each, say, a power of two, for lanes divide no odd number of groups among them. */
int plan_groups_within(int positions, int group)
{
	int most = positions / group, power = 1;
	if (!(group & (group - 1)))
		return most;
	while (2 * power <= most)
		power *= 2;
	return most ? power : 0;
}

/* Positions that the open axes' ones stand for, the least of them: 1, or of groups alone as many as each has. */
int64_t plan_unit(const struct planner *p)
{
	int64_t unit = 0;
	for (int i = 0; i < p->k->nphases; i++)
		for (int a = 0; a < p->k->phases[i].naxes; a++) {
			const struct ir_axis *ax = &p->k->phases[i].axes[a];
			int64_t by = !phase_is_open(NULL, ax) ? unit : ax->extent->op == HX_CDIV ? plan_axis_by(ax) : 1;
			unit = !unit || by < unit ? by : unit;
		}
	return unit ? unit : 1;
}

int64_t plan_open_most(const struct planner *p, const struct ir_axis *ax, int64_t most)
{
	int64_t unit = plan_unit(p), by = ax->extent->op == HX_CDIV ? plan_axis_by(ax) : 1;
	int64_t groups = by == unit ? most : plan_groups_within((int)(most * unit), (int)by);
	return groups ? groups : 1;
}

/* The symbol whose positions stand side by side in every phase, as lines or as groups in a line; -1 = none. */
int plan_line_symbol(const struct planner *p)
{
	int symbol = -1;
	for (int i = 0; i < p->k->nphases; i++) {
		const struct ir_phase *ph = &p->k->phases[i];
		struct shape s = phase_shape(NULL, ph);
		const struct ir_axis *ax = NULL;
		for (int a = 0; a < ph->naxes; a++)
			if (ph->axes[a].extent && (s.tiled ? ph->axes[a].tiled && !ph->axes[a].tile : ph->axes[a].kind == AXIS_GRID && ph->axes[a].extent->op == HX_CDIV))
				ax = &ph->axes[a];
		bool groups = ax && !s.tiled && plan_axis_by(ax) == s.fixed, lines = s.tiled && s.fixed == 1 && phase_is_lines(p->k, ph);
		const struct hexpr *n = groups ? ax->extent->a : ax ? ax->extent : NULL; /* ragged axes have none */
		if (!n || s.open || !(groups || lines) || n->op != HX_SYM || (symbol >= 0 && symbol != n->imm))
			return -1;
		symbol = (int)n->imm;
	}
	return symbol;
}

/* Elements of the target's long lines, where rows are known to be made of such; else 0. */
int plan_line(const struct planner *p, const struct variant *v)
{
	int n = p->target->line_bytes / p->f.widest, symbol = n && v->aligned ? plan_line_symbol(p) : -1;
	for (int i = 0; i < v->nmultiples; i++)
		if (v->multiples[i].symbol == symbol)
			return v->multiples[i].multiple % n ? 0 : n;
	return 0;
}

/* Elements of a lane that accesses them one by one: more of bytes with which little is done. */
int plan_one_by_one(const struct planner *p)
{
	return p->f.narrowest < p->f.widest && p->f.cost <= LIGHT_CODE ? 2 * ONE_BY_ONE : ONE_BY_ONE;
}

static struct turned_tile turned_tile(const struct planner *p)
{
	const struct target *t = p->target;
	struct turned_tile tile = p->single ? p->narrow ? t->turned_narrow_single : p->few ? t->turned_few_single : t->turned_single : p->few ? t->turned_few : t->turned;
	if (p->f.stored == 4)                            /* as many bytes of group memory */
		tile.rows = tile.rows > MOST_WORDS / tile.columns ? MOST_WORDS / tile.columns : tile.rows;
	return tile;
}

/* Of a workgroup whose tiles are as small as one likes. */
int plan_few_waves(const struct planner *p, const struct variant *v)
{
	bool lines = plan_is_wide(v), turned = false;
	int line = plan_line(p, v);
	struct turned_tile tile = turned_tile(p);
	if (line) {
		int threads = line / plan_vector(p, v, plan_lane_elements(p, v));
		return waves_of(p, threads < p->target->max_threads ? threads : p->target->max_threads);
	}
	for (int i = 0; i < p->k->nphases; i++) {
		bool square = phase_shape(v, &p->k->phases[i]).tiled > 1;
		lines = lines && (!square || phase_is_lines(p->k, &p->k->phases[i]));
		turned = turned || (square && plan_is_wide(v) && phase_is_turning(p->k, &p->k->phases[i]));
	}
	return waves_of(p, lines ? p->target->few_threads : turned ? tile.rows * tile.columns / tile.each : FEW_THREADS);
}

bool plan_sums_columns(const struct planner *p, const struct variant *v, const struct ir_phase *ph)
{
	struct shape s = phase_shape(v, ph);
	return p->target->whole_chunks && plan_is_wide(v) && s.tiled == 1 && s.fixed > 1 && !s.open && !phase_is_turning(p->k, ph) && ir_has(ph->body, IR_REDUCE);
}

/* That an extent is at most, as limits say; 0 = they do not. */
static int64_t extent_most(const struct variant *v, const struct hexpr *n)
{
	if (n && n->op == HX_MUL && n->a->op == HX_CONST)
		return n->a->imm * extent_most(v, n->b);
	for (int i = 0; n && n->op == HX_SYM && i < v->nlimits; i++)
		if (v->limits[i].symbol == n->imm)
			return v->limits[i].most;
	for (int i = 0; n && n->op == HX_SYM && i < v->npins; i++)
		if (v->pins[i].symbol == n->imm)
			return v->pins[i].value;
	return 0;
}

bool plan_adds_parts(const struct variant *v, const struct ir_phase *ph)
{
	struct shape s = phase_shape(v, ph);
	return phase_summed_axis(ph) >= 0 && s.tiled == 1 && s.fixed == 1 && !s.open;
}

/* Of parts of so many columns, those that lanes have room for, or as many as there are. */
static int parts_at_once(const struct planner *p, const struct variant *v, int threads, int line)
{
	int room = threads * p->target->added_parts / line, most = v->carries ? (int)power_above(v->carries) : room;
	return most > 2 * room ? room : most;                /* one round, though half of its loads may be of parts that are not there */
}

/* Columns whose parts a loop adds up, of which there are few: so many a workgroup that each multiprocessor has one, where it is known how many there
 * are at most, and of rows of parts as many as lanes have room for, since each round of the loop waits for memory.  Of many rows there are many parts. */
static void plan_summed_tiles(struct planner *p, struct variant *v, int phase)
{
	const struct ir_phase *ph = &p->k->phases[phase];
	int64_t line = ADDED_LINE;
	int summed = phase_summed_axis(ph), widest = v->joined && !v->pieces ? JOINED_LINE : ADDED_LINE;
	int lanes = p->target->added_threads * (v->carries && v->npins ? 2 : 1);                /* of rows of one length 1 % faster, of others slower: docs/performance.md */
	int waves = waves_of(p, lanes), others = variant_waves(v, phase);
	if (!v->joined && v->napart < PHASES_APART && (others > waves || (others < waves && v->carries && v->many))) {
		v->apart[v->napart].phase = phase;
		v->apart[v->napart++].waves = waves;
	}
	int threads = p->target->wave * variant_waves(v, phase);
	for (int a = 0; v->carries && a < ph->naxes; a++)
		if (a != summed && extent_most(v, ph->axes[a].extent))
			line = power_above(extent_most(v, ph->axes[a].extent) / (v->joined ? v->carries : p->target->multiprocessors));
	line = line < ADDED_LEAST ? ADDED_LEAST : line > widest ? widest : line;
	for (int a = 0; a < ph->naxes; a++)
		if (a == summed)
			plan_tile(v, phase, ph->axes[a].name, parts_at_once(p, v, threads, (int)line));
		else if (ph->axes[a].tiled && !ph->axes[a].tile)
			plan_tile(v, phase, ph->axes[a].name, (int)line);
}

/* Tiles of a phase.  most: of an open axis, in plan_unit's, 0 = as many as there is room for.  each: elements a lane is to hold at most.
 * One axis that is tiled fills the lanes; of several each gets the side of a square, the last declared first, or that one a long
 * piece of a line; groups of `by` fill the lanes with groups. */
void plan_phase_tiles(struct planner *p, struct variant *v, int phase, int64_t most, int each)
{
	const struct ir_phase *ph = &p->k->phases[phase];
	struct shape s = phase_shape(v, ph);
	if (plan_adds_parts(v, ph)) {
		plan_summed_tiles(p, v, phase);
		return;
	}
	/* columns of sums that a loop adds up, of which there are few: one a lane, for the loop has many loads at once (pass_unroll.c) */
	bool adds = phase && !p->f.has_dot && ir_has(ph->body, IR_FOR);
	int vector = adds ? 1 : plan_vector(p, v, each), filled = plan_filled(p, v, each);
	int64_t threads = p->target->wave * v->waves, held = s.fixed, room;
	/* few rows are one to a workgroup: they wait for each instruction in front of their loads */
	int line = plan_line(p, v), piece = line ? line : p->few ? (int)threads * vector : LINE;
	int side = plan_is_wide(v) && s.fixed == 1 && phase_is_lines(p->k, ph) ? piece : SIDE;
	bool given = most > 0;
	if (s.open && !most) {
		most = threads * each / s.fixed;
		if (s.tiled || s.open > 1)
			most = most > SIDE ? SIDE : most;
		most = most > 1 ? most : 1;
	}
	for (int a = 0; a < ph->naxes; a++)
		if (phase_is_open(v, &ph->axes[a]))
			held *= given ? plan_open_most(p, &ph->axes[a], most) : most;
	bool turns = plan_is_wide(v) && phase_is_turning(p->k, ph);
	struct turned_tile matrix = turned_tile(p);
	bool more = p->target->lanes_adjacent && !p->single && !p->broad && 2 * TURNING * p->f.cost <= LANE_CODE;
	int turned = s.tiled ? matrix.each : more ? 2 * TURNING : TURNING;
	if (turns && !s.open)
		each = each > turned ? each : p->target->lanes_adjacent || 2 * each > turned ? turned : 2 * each;
	bool summed = plan_sums_columns(p, v, ph);
	room = threads * (summed ? SUMMED_LANE : each) / held;
	if (summed && room < SIDE)                       /* in long pieces (docs/performance.md) */
		room = SIDE;
	int last = ph->naxes - 1, group = -1;
	while (last > 0 && !(ph->axes[last].tiled && !ph->axes[last].tile))
		last--;
	for (int a = ph->naxes - 1; a >= 0; a--) {
		const struct ir_axis *ax = &ph->axes[a];
		if (phase_is_open(v, ax))
			plan_tile(v, phase, ax->name, (int)(given ? plan_open_most(p, ax, most) : most));
		else if (ax->tiled && !ax->tile) {
			int64_t tile = summed ? room : s.tiled > 1 || held > 1 ? side : threads * vector;
			tile = turns && held == 1 ? a < last ? matrix.rows : matrix.columns : tile;
			tile = tile > room ? room : tile;
			tile = tile > 1 ? tile : 1;
			plan_tile(v, phase, ax->name, (int)tile);
			room /= tile;
		} else if (ax->kind == AXIS_GRID && !ax->tile && ax->extent && ax->extent->op == HX_CDIV && !s.tiled && held > 1 &&
		           held < threads * (turns ? each : filled)) {
			int64_t tile = threads * (turns ? each : filled) / held;
			/* the longer line is the one read, if a lane or many lanes have much of it */
			bool wide = p->broad || (p->target->lanes_adjacent && each > TURNING) ? group < 0 : a < group;
			if (turns && tile > side / plan_axis_by(ax) * (wide ? 2 : 1))
				tile = side / plan_axis_by(ax) * (wide ? 2 : 1);
			tile = tile > 1 ? tile : 1;
			plan_tile(v, phase, ax->name, (int)tile);
			group = a;
			held *= tile;
		}
	}
}
