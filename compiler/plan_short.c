/* plan_short.c -- variants for rows so short that lanes of a wave would be left without an access.
 *
 * In: a planner, for the set in hand.  Out: variants of classes of columns, and a fixed size's tiles, in which a wave's lanes hold several rows beside
 * each other and each lane some more: 128 columns of bf16 are sixteen lanes' accesses, so four rows of a wave of 64.  They share weights and a wave's
 * exchanges.  With a row to a wave, of which few lanes did anything, heads of 64 to 256 columns, of which attention's norms are, and scores of as
 * many experts took up to ten times as long (docs/performance.md).  So have rows that begin anywhere, of whose elements each lane accesses one at a time, and
 * short lines of which nothing whole is made, as gates' are: a workgroup's tile of one would be mostly empty. */
#include "pass.h"
#include "plan_tiles.h"

/* Bytes of an access; columns of the longest such row; elements of a lane, of few rows those of one access; rows of several axes, fewer of which had
 * better have a workgroup each; columns of the shortest and the longest lines' class, and of the longest that begin anywhere; tensors that are loaded of
 * rows behind which sums follow. */
enum { ACCESS = 16, SHORT_ROW = 512, SHARED_LANE = 16, SEVERAL_ROWS = 512, SHORTEST_LINE = 128, SHORT_LINE = 1024, SINGLE_LINE = 256, SUMMED_ROWS = 2 };
/* Columns of tiles' lines, the shortest class and the longest: longer ones gain nothing on sm_90a, where memory is what they wait for.  Where packs have
 * classes for listed sizes alone, those of 256 too: of a tile of 512 half would be empty, which is half of the instructions (docs/performance.md). */
enum { SHORTEST_TILE = 64, SHORT_TILE = 128, LISTED_TILE = 256 };
/* Elements of a lane that accesses them one by one, of few rows, and of many where these are told apart (docs/performance.md). */
enum { SINGLE_FEW = 4, SINGLE_LANE = 8 };

/* How many tensors of rows are loaded, of those that are there. */
struct tensors { const struct planner *p; int rows; };

static void look_for_tensor(struct ir_ins *i, void *ctx)
{
	struct tensors *t = ctx;
	const struct ir_param *of = i->op == IR_LOAD ? &t->p->k->params[i->imm] : NULL;
	t->rows += of && of->role == IR_IN && of->rank > 1 && (!of->optional || (t->p->given >> i->imm & 1));
}

bool plan_sums_follow(const struct planner *p)
{
	struct carried_sums sums;
	return kernel_can_carry(ir_clone(p->arena, p->k), &sums) && !sums.pieces;
}

/* As gradients of norms of queries and keys have; those that also load what a residual adds are of longer rows.  Where rings bring rows, workgroups
 * that carry such sums have classes of short ones (plan_carry.c). */
static bool short_sums_follow(const struct planner *p)
{
	struct tensors t = {p, 0};
	ir_walk(p->k->phases[0].body, look_for_tensor, &t);
	return !p->target->ring_bytes && t.rows <= SUMMED_ROWS && plan_sums_follow(p);
}

/* The axis that numbers rows, the last of those of the grid; others: how many more there are.  NULL = no such kernel. */
static const struct ir_axis *row_axis(const struct planner *p, int *others)
{
	const struct ir_phase *ph = &p->k->phases[0];
	const struct ir_axis *row = NULL;
	*others = -1;
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].kind == AXIS_GRID) {
			row = &ph->axes[a];
			++*others;
		}
	bool alone = p->k->nphases == 1 || short_sums_follow(p);
	return alone && row && row->extent && !row->tile && !row->tiled && !row->ragged ? row : NULL;
}

/* What rows add up to is added in their order. */
static void look_for_sums(struct ir_ins *i, void *ctx)
{
	bool *any = ctx;
	*any = *any || (i->op == IR_UPDATE && i->kind == RED_SUM);
}

static bool can_share(const struct planner *p, int64_t columns)
{
	int others;
	bool sums = false;
	ir_walk(p->k->phases[0].body, look_for_sums, &sums);
	return row_axis(p, &others) && p->f.reduces && !p->f.guarded && !plan_has_lists(p) && !sums && columns <= SHORT_ROW;
}

bool plan_is_short(const struct planner *p, int64_t columns)
{
	int others;
	bool alone = row_axis(p, &others) && others > 0;    /* such rows do not join in a workgroup otherwise (plan.c, join_rows) */
	return plan_unit(p) == 1 && can_share(p, columns) && (alone || columns * p->f.widest <= ACCESS * p->target->wave);
}

/* Elements of a lane.  Rows that begin anywhere have fewer, for each is an access, but of groups, whose numbers then are shared by more. */
static int shared_lane(const struct planner *p, const struct variant *v)
{
	if (p->single)
		return p->few ? SINGLE_FEW : p->target->few_rows && plan_unit(p) == 1 ? SINGLE_LANE : SHARED_LANE;
	return p->few ? plan_vector(p, v, SHARED_LANE) : SHARED_LANE;
}

void plan_share_lanes(struct planner *p, struct variant *v, int64_t columns)
{
	int others, threads = p->target->few_threads, lane = shared_lane(p, v);
	const struct ir_axis *row = row_axis(p, &others);
	int each = (int)(threads * lane / power_above(columns));
	if (others) {                                    /* else rows of a workgroup might not be there */
		v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, hexpr_const(p->arena, each), row->extent));
		plan_say(p, v, arena_printf(p->arena, "%s>=%d", hexpr_shown(p->arena, row->extent, p->k->symbols, NULL), each));
	}
	plan_tile(v, 0, row->name, each);
	v->waves = waves_of(p, threads);
}

/* The symbol of the columns, or of groups of them that bits number, where they are all that is held; -1 = they are not. */
static int columns_of(const struct planner *p)
{
	const struct ir_phase *ph = &p->k->phases[0];
	struct shape s = phase_shape(NULL, ph);
	int64_t unit = plan_unit(p);
	for (int a = 0; a < ph->naxes; a++)
		if (phase_is_open(NULL, &ph->axes[a])) {
			const struct hexpr *n = ph->axes[a].extent->op == HX_CDIV ? ph->axes[a].extent->a : ph->axes[a].extent;
			bool held = s.open == 1 && s.fixed == unit && !s.tiled && !(unit & (unit - 1)) && n->op == HX_SYM;
			return held ? (int)n->imm : -1;
		}
	return -1;
}

/* Two strides cost up to an eighth of the time: where packs have room, they have variants of their own (docs/performance.md). */
static void plan_class(struct planner *p, int symbol, int most, const struct hexpr *rows)
{
	int others;
	struct variant v = plan_variant(p);
	plan_limit(p, &v, symbol, most);
	plan_aligned(p, &v);
	v.shares = true;
	v.few = p->few;
	if (!p->few && !p->folds && rows)
		plan_many_rows(p, &v, rows);
	else if (row_axis(p, &others) && others > 0 && rows)
		plan_rows_from(p, &v, SEVERAL_ROWS, rows);
	plan_share_lanes(p, &v, most);
	plan_phase_tiles(p, &v, 0, most / plan_unit(p), SHARED_LANE);
	for (int i = 1; i < p->k->nphases; i++)
		plan_phase_tiles(p, &v, i, 0, plan_lane_elements(p, &v));
	*plan_add(p) = v;
}

/* The axis of a short line's columns, or of groups of them, in a kernel of lines of which nothing whole is made and nothing is taken in turns; of tiles,
 * along the last of whose axes lines lie, that one; NULL = no such kernel. */
static const struct ir_axis *line_axis(const struct planner *p)
{
	const struct ir_phase *ph = &p->k->phases[0];
	const struct ir_axis *line = NULL;
	bool lines = phase_is_lines(p->k, ph);
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		bool groups = ax->kind == AXIS_GRID && ax->extent && ax->extent->op == HX_CDIV && ax->extent->a->op == HX_SYM;
		if (ax->tiled && ax->kind != AXIS_GRID)
			return NULL;
		if (groups || (ax->tiled && ax->extent && ax->extent->op == HX_SYM)) {
			if (line && !(lines && line->tiled && ax->tiled))
				return NULL;
			line = ax;
		}
	}
	return line;
}

/* The lines of a kernel that may be short: their axis and the symbol of their columns, how many of these a position stands for, the axis of rows. */
struct lines { const struct ir_axis *line, *row; int symbol; int64_t by; };

static bool find_lines(const struct planner *p, struct lines *l)
{
	const struct ir_phase *ph = &p->k->phases[0];
	struct shape s = phase_shape(NULL, ph);
	int grids = 0, rows, symbols;
	*l = (struct lines){.line = line_axis(p)};
	for (int a = 0; a < ph->naxes; a++)
		if (&ph->axes[a] != l->line && ph->axes[a].kind == AXIS_GRID) {
			l->row = &ph->axes[a];
			grids++;
		}
	if (!l->line || grids != 1 || p->k->nphases != 1 || s.open || l->row->tile || l->row->ragged || p->f.guarded || plan_has_lists(p) || phase_is_turning(p->k, ph) ||
	    kernel_is_pointwise(p->arena, p->k, p->target, &rows, &symbols))
		return false;
	l->by = l->line->extent->op == HX_CDIV ? plan_axis_by(l->line) : 1;
	l->symbol = (int)(l->by > 1 ? l->line->extent->a : l->line->extent)->imm;
	return s.fixed == l->by && !(l->by & (l->by - 1));
}

/* Elements of a lane that takes several lines.  Of tiles whose elements are accesses each, the more tensors are loaded the fewer (docs/performance.md). */
static int line_elements(const struct planner *p, const struct variant *v, const struct lines *l)
{
	if (p->single && l->row->tiled)
		return p->f.rows > 2 ? SINGLE_FEW : SINGLE_LANE;
	return l->by > 1 ? plan_filled(p, v, SHARED_LANE) : plan_vector(p, v, SHARED_LANE);
}

/* Many lines of up to so many columns, several to a workgroup, which would have one with few of its lanes.  Where rows mean nothing the runtime joins
 * them (pointwise.c). */
static void plan_short_line(struct planner *p, const struct lines *l, int columns)
{
	struct variant v = plan_variant(p);
	plan_limit(p, &v, l->symbol, columns);
	plan_aligned(p, &v);
	v.shares = true;
	v.waves = waves_of(p, p->target->few_threads);
	plan_many_rows(p, &v, plan_rows_beside(p, l->symbol));
	int each = p->target->few_threads * line_elements(p, &v, l) / columns;
	if (columns < l->by || each < 2)
		return;
	plan_tile(&v, 0, l->row->name, each);
	plan_tile(&v, 0, l->line->name, (int)(columns / l->by));
	*plan_add(p) = v;
}

bool plan_is_short_line(const struct planner *p, int symbol, int64_t columns)
{
	struct lines l;
	return columns <= SHORT_LINE && !p->f.reduces && find_lines(p, &l) && l.symbol == symbol;
}

static int longest_tile(const struct planner *p) { return p->target->more_variants ? SHORT_TILE : LISTED_TILE; }

bool plan_is_short_tile(const struct planner *p, int symbol, int64_t columns)
{
	struct lines l;
	return columns <= longest_tile(p) && !p->f.reduces && find_lines(p, &l) && l.row->tiled && l.symbol == symbol;
}

/* Where packs have no room for all classes, those of the sizes that the text lists. */
static void plan_short_lines(struct planner *p)
{
	struct lines l;
	if (p->f.reduces || (p->sets && !(p->given | p->absent)) || (p->single && !p->target->more_variants) || !find_lines(p, &l))
		return;
	int longest = p->single ? SINGLE_LINE : l.row->tiled ? longest_tile(p) : SHORT_LINE;
	for (int columns = l.row->tiled ? SHORTEST_TILE : SHORTEST_LINE; columns <= longest; columns *= 2) {
		bool listed = p->target->more_variants;
		for (int i = 0; i < p->npins; i++)
			listed = listed || (plan_symbol(p, p->pins[i].symbol) == l.symbol && power_above(p->pins[i].value) == columns);
		if (listed)
			plan_short_line(p, &l, columns);
	}
}

void plan_short_rows(struct planner *p)
{
	plan_short_lines(p);
	static const struct { int columns; bool always; } classes[] = {{64, false}, {128, false}, {SHORT_ROWS, true}, {512, false}};
	int symbol = columns_of(p);
	if (symbol < 0 || (p->sets && !(p->given | p->absent)))
		return;
	for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++) {
		const struct hexpr *rows = p->target->few_rows ? plan_rows_beside(p, symbol) : NULL;
		bool listed = !p->single || plan_lists_odd(p, symbol, 0, classes[c].columns);
		bool room = p->target->more_variants || (classes[c].always && plan_unit(p) == 1 && listed);
		if (!room || !can_share(p, classes[c].columns) || classes[c].columns < plan_unit(p))
			continue;
		if (rows)
			plan_class(p, symbol, classes[c].columns, rows);
		p->few = rows;
		p->folds = plan_can_fold(p) && !p->target->more_variants;
		plan_class(p, symbol, classes[c].columns, rows);
		p->few = false;
		p->folds = plan_can_fold(p);
		if (p->folds && p->target->more_variants && !p->single)
			plan_class(p, symbol, classes[c].columns, rows);
		p->folds = false;
	}
}
