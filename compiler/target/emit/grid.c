/* grid.c -- which workgroup does what: a phase's grid and the positions at which a workgroup's tiles begin.
 * In: a phase with tiles, a variant.  Out: the launch's extents as host expressions; axis_base of every axis of the grid.
 * A dimension for each axis, the first declared first, where all may be as long as any axis.  Where only x may, rows take x, so that
 * those that follow each other lie one behind the other, or, in variants that ask for it (variant.sideways), what lies side by side in them
 * does, as the workgroups of a cluster must; else axes share x, by division.  Where that is so, a phase behind another begins with the last
 * rows: the L2 holds them still.  Workgroups beyond the last leave at once, and so do waves that have a row each.  Of rows that may not be there
 * there are fewer workgroups than rows (rounds.c, counted.c). */
#include "machine.h"

enum { LARGE_TILE = 32 };                              /* rows; a call of more than 65,535 such tiles, two million rows and more, is left to the general variant */

struct grid_slot { int axis; const struct hexpr *tiles; };
struct grid_slots { int n; struct grid_slot of[LAYOUT_AXES]; };

/* What has dimensions of the grid, in the order of declaration; a ragged axis and its group have one. */
static struct grid_slots slots_of(const struct emit *e)
{
	struct grid_slots s = {0};
	for (int a = 0; a < e->ph->naxes; a++) {
		const struct ir_axis *ax = &e->ph->axes[a];
		if (ax->kind != AXIS_GRID)
			continue;
		bool group = false;
		for (int r = 0; r < e->ph->naxes; r++)
			group = group || (e->ph->axes[r].ragged && e->ph->axes[r].ragged_group == a);
		if (group)
			continue;
		const struct hexpr *tile = hexpr_const(e->arena, ax->tile), *tiles = NULL;
		if (ax->ragged) {                        /* cdiv(M, t) + E - 1, not negative */
			const struct hexpr *groups = e->ph->axes[ax->ragged_group].extent;
			const struct hexpr *n = hexpr_op(e->arena, HX_CDIV, ax->ragged_total, tile);
			n = hexpr_op(e->arena, HX_SUB, hexpr_op(e->arena, HX_ADD, n, groups), hexpr_const(e->arena, 1));
			tiles = hexpr_op(e->arena, HX_MAX, n, hexpr_const(e->arena, 0));
		} else if (ax->cluster) {
			tiles = hexpr_const(e->arena, ax->cluster);
		} else {
			tiles = hexpr_op(e->arena, HX_CDIV, ax->extent, tile);
		}
		s.of[s.n++] = (struct grid_slot){a, tiles};
	}
	for (int n = 0; n + 1 < s.n; n++)                /* the members of a cluster lie side by side */
		if (e->ph->axes[s.of[n].axis].cluster) {
			struct grid_slot members = s.of[n];
			s.of[n] = s.of[n + 1];
			s.of[n + 1] = members;
		}
	return s;
}

static int tile_of(const struct emit *e, const struct grid_slot *s) { return e->ph->axes[s->axis].tile; }

static void bind_axis(struct emit *e, const struct grid_slot *s, int dim, LLVMValueRef id)
{
	int tile = tile_of(e, s);
	e->axis_base[s->axis] = tile == 1 ? id : op_times(e, id, tile);
	e->grid_axis[dim] = s->axis;
}

/* Rows of a tile, of an axis that numbers them or groups of them. */
static int64_t rows_of(const struct emit *e, const struct grid_slot *s)
{
	const struct hexpr *n = e->ph->axes[s->axis].extent;
	int64_t group = 1;
	return tile_of(e, s) * (n->op == HX_CDIV && hexpr_is_const(n->b, &group) ? group : 1);
}

/* Rows and what lies side by side in them, which come last; of tiles also groups of rows, of clusters rows of rows, which come first.  A ragged axis
 * has no extent. */
static bool is_sideways(const struct emit *e, const struct grid_slots *s)
{
	bool two = s->n == 2 || (s->n == 3 && (e->cluster || rows_of(e, &s->of[1]) > 1)), known = true;
	for (int n = 0; n < s->n; n++)
		known = known && e->ph->axes[s->of[n].axis].extent;
	return e->v->sideways && e->machine->grid_short && two && known;
}

/* --- short dimensions ------------------------------------------------------------------------------------------------------------- */

/* Dimensions that end early serve where the variant may ask for something: each slot has one of its own then. */
static bool is_short(const struct emit *e, const struct grid_slots *s)
{
	return s->n > e->machine->grid_dims && s->n <= 3 && e->machine->grid_short && e->v->predicate;
}

/* Tiles of products of which there are many, as attention's of each head: those of one follow each other, for they load the same, and the last ones come first, for a
 * loop that ends where a tile does is the longest in them. */
static bool is_of_many(const struct emit *e, const struct grid_slots *s) { return e->has_dot && s->n == 3 && tile_of(e, &s->of[2]) > 1; }

/* The long dimension is for the rows, the last axis of one position a workgroup, or for what lies side by side. */
static int along_of(const struct emit *e, const struct grid_slots *s)
{
	int along = 0;
	for (int n = 0; n < s->n; n++)
		along = is_sideways(e, s) || is_of_many(e, s) || tile_of(e, &s->of[n]) == 1 ? n : along;
	return along;
}

/* The others follow in order; beside what lies side by side, rows before groups of them. */
static int dim_of(const struct emit *e, const struct grid_slots *s, int n)
{
	int along = along_of(e, s);
	return n == along ? 0 : is_sideways(e, s) || is_of_many(e, s) ? s->n - 1 - n : n < along ? n + 1 : n;
}

/* Of rows that may not be there (rounds.c) each group has so many workgroups at least: all that are may be one group's.  Of so few groups each has
 * workgroups of its own, of more the rows that are there are counted over all (counted.c). */
enum { LEAST_OF_GROUP = 128, FEW_GROUPS = 8, MOST_ROWS = 1 << 30 };

/* The slot of rows, or tiles of them, that may not be there, a workgroup each; 0 = none. */
static int rows_slot(const struct emit *e, const struct grid_slots *s)
{
	if (!e->v->gaps || e->v->few || e->has_dot || !e->v->target->gap_workgroups || s->n < 2 || !is_short(e, s))
		return 0;
	int along = along_of(e, s), rows = is_sideways(e, s) && s->n == 3 ? along - 1 : along;
	return rows > 0 && !e->ph->axes[s->of[rows].axis].ragged ? rows : 0;
}

/* Whether those that are there are counted. */
static bool is_counted(const struct emit *e, const struct grid_slots *s)
{
	int rows = rows_slot(e, s), group = -1;
	return rows && rounds_count(e->ph, s->of[rows].axis, &group) && group == s->of[0].axis;
}

/* Tiles are taken in rounds where they are counted alone. */
static bool has_rounds(const struct emit *e, const struct grid_slots *s)
{
	int rows = rows_slot(e, s);
	return rows && (rows_of(e, &s->of[rows]) == 1 || is_counted(e, s));
}

bool grid_rounds(struct emit *e, struct rounds *r)
{
	struct grid_slots s = slots_of(e);
	int rows = rows_slot(e, &s);
	if (!has_rounds(e, &s))
		return false;
	r->axis = s.of[rows].axis;
	r->tiles = s.of[rows].tiles;
	r->rows = rows_of(e, &s.of[rows]);
	r->dim = dim_of(e, &s, rows);
	r->group = -1;
	r->count = is_counted(e, &s) ? rounds_count(e->ph, r->axis, &r->group) : NULL;
	return true;
}

LLVMValueRef grid_is_counted(struct emit *e)
{
	struct grid_slots s = slots_of(e);
	return is_counted(e, &s) ? LLVMBuildICmp(e->b, LLVMIntUGE, emit_hexpr(e, s.of[0].tiles), emit_int(e, FEW_GROUPS), "") : NULL;
}

/* Workgroups that take the rows of a group in turn. */
static const struct hexpr *rows_at_once(const struct emit *e, const struct grid_slots *s)
{
	const struct hexpr *others = hexpr_const(e->arena, 1), *rows = s->of[rows_slot(e, s)].tiles;
	for (int n = 0; n < s->n; n++)
		others = n == rows_slot(e, s) ? others : hexpr_op(e->arena, HX_MUL, others, s->of[n].tiles);
	const struct hexpr *share = hexpr_op(e->arena, HX_CDIV, hexpr_const(e->arena, e->v->target->gap_workgroups), hexpr_op(e->arena, HX_MAX, others, hexpr_const(e->arena, 1)));
	return hexpr_op(e->arena, HX_MIN, rows, hexpr_op(e->arena, HX_MAX, share, hexpr_const(e->arena, LEAST_OF_GROUP)));
}

/* Workgroups that take all rows that are there between them, of places for so many: where there is room for few, fewer are there, and a workgroup that
 * finds none costs as well.  Of tiles, in which there is more to do, more if they are small. */
static const struct hexpr *counted_workgroups(const struct emit *e, const struct grid_slots *s, const struct hexpr *places)
{
	enum { THREADS = 256, PLACES = 32 };
	const struct target *t = e->v->target;
	struct arena *a = e->arena;
	if (rows_of(e, &s->of[rows_slot(e, s)]) > 1)
		return hexpr_const(a, (int64_t)t->counted_workgroups * THREADS / (t->wave * e->waves));
	const struct hexpr *there = hexpr_op(a, HX_CDIV, places, hexpr_const(a, PLACES));
	return hexpr_op(a, HX_MIN, hexpr_op(a, HX_MAX, there, hexpr_const(a, t->counted_least)), hexpr_const(a, t->counted_workgroups));
}

/* Of many groups: as many as are worth it for all rows, one for all groups. */
static void share_counted(struct emit *e, const struct grid_slots *s, const struct hexpr *grid[3])
{
	struct arena *a = e->arena;
	int rows = rows_slot(e, s), at = dim_of(e, s, rows), group = dim_of(e, s, 0);
	/* dimensions 0, 1 and 2: the third is what neither rows nor groups have */
	const struct hexpr *groups = s->of[0].tiles, *all = hexpr_op(a, HX_MUL, groups, s->of[rows].tiles), *others = s->n == 3 ? grid[3 - at - group] : hexpr_const(a, 1);
	const struct hexpr *few = hexpr_op(a, HX_LT, groups, hexpr_const(a, FEW_GROUPS)), *many = hexpr_op(a, HX_LE, hexpr_const(a, FEW_GROUPS), groups);
	const struct hexpr *share = hexpr_op(a, HX_CDIV, counted_workgroups(e, s, all), hexpr_op(a, HX_MAX, others, hexpr_const(a, 1)));
	grid[at] = hexpr_op(a, HX_ADD, hexpr_op(a, HX_MUL, few, grid[at]), hexpr_op(a, HX_MUL, many, hexpr_op(a, HX_MIN, all, share)));
	grid[group] = hexpr_op(a, HX_ADD, hexpr_op(a, HX_MUL, few, grid[group]), many);
	emit_condition(e, hexpr_op(a, HX_LT, all, hexpr_const(a, MOST_ROWS)));
}

/* Tiles of a product whose rows (x) and columns (y) follow each other in blocks of so many rows: what workgroups of one time load between them is then
 * about as many rows as columns, and the L2 holds it. */
enum { ROWS_OF_BLOCK = 16 };

static void block_tiles(struct emit *e, LLVMValueRef *row, LLVMValueRef *column)
{
	LLVMValueRef rows = e->machine->workgroups(e, 0), columns = e->machine->workgroups(e, 1);
	LLVMValueRef n = LLVMBuildAdd(e->b, LLVMBuildMul(e->b, *column, rows, ""), *row, ""), block = LLVMBuildMul(e->b, columns, emit_int(e, ROWS_OF_BLOCK), "");
	LLVMValueRef first = LLVMBuildMul(e->b, LLVMBuildUDiv(e->b, n, block, ""), emit_int(e, ROWS_OF_BLOCK), ""), left = LLVMBuildSub(e->b, rows, first, "");
	LLVMValueRef size = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntULT, left, emit_int(e, ROWS_OF_BLOCK), ""), left, emit_int(e, ROWS_OF_BLOCK), "");
	LLVMValueRef inside = LLVMBuildURem(e->b, n, block, "");
	*row = LLVMBuildAdd(e->b, first, LLVMBuildURem(e->b, inside, size, ""), "");
	*column = LLVMBuildUDiv(e->b, inside, size, "");
}

/* The variant asks that the other dimensions are short enough. */
static void bind_short(struct emit *e, const struct grid_slots *s, const struct hexpr *grid[3])
{
	LLVMValueRef tile[2] = {NULL, NULL};
	if (e->v->quads && s->n == 2) {
		for (int d = 0; d < 2; d++)
			tile[d] = e->machine->workgroup(e, d);
		block_tiles(e, &tile[0], &tile[1]);
	}
	for (int n = 0; n < s->n; n++) {
		int at = dim_of(e, s, n);
		LLVMValueRef id = tile[0] ? tile[at] : e->machine->workgroup(e, at);
		if (at == 1 && is_sideways(e, s) && e->ph != e->k->phases)
			id = LLVMBuildSub(e->b, LLVMBuildSub(e->b, e->machine->workgroups(e, at), emit_int(e, 1), ""), id, "");
		if (!at && is_of_many(e, s))
			id = LLVMBuildSub(e->b, LLVMBuildSub(e->b, e->machine->workgroups(e, at), emit_int(e, 1), ""), id, "");
		bool rounds = has_rounds(e, s) && n == rows_slot(e, s) && rows_of(e, &s->of[n]) == 1;
		grid[at] = rounds ? rows_at_once(e, s) : s->of[n].tiles;
		bind_axis(e, &s->of[n], at, id);
		if (at)
			emit_condition(e, hexpr_op(e->arena, HX_LE, s->of[n].tiles, hexpr_const(e->arena, e->machine->grid_short)));
	}
	if (is_counted(e, s))
		share_counted(e, s, grid);
}

/* --- more rows than a short dimension has ------------------------------------------------------------------------------------------ */

static bool is_folded(const struct emit *e, const struct grid_slots *s)
{
	return is_sideways(e, s) && s->n == 2 && !e->cluster && rows_of(e, &s->of[0]) < LARGE_TILE && !has_rounds(e, s);
}

static LLVMValueRef folded_row(struct emit *e)
{
	LLVMValueRef before = LLVMBuildMul(e->b, e->machine->workgroup(e, 2), e->machine->workgroups(e, 1), "");
	return LLVMBuildAdd(e->b, before, e->machine->workgroup(e, 1), "");
}

/* What lies side by side has the long dimension; rows take y, and as many z as it takes. */
static void bind_folded(struct emit *e, const struct grid_slots *s, const struct hexpr *grid[3])
{
	const struct hexpr *rows = s->of[0].tiles;
	grid[0] = s->of[1].tiles;
	grid[2] = hexpr_op(e->arena, HX_CDIV, rows, hexpr_const(e->arena, e->machine->grid_short));
	grid[1] = hexpr_op(e->arena, HX_CDIV, rows, hexpr_op(e->arena, HX_MAX, grid[2], hexpr_const(e->arena, 1)));
	bind_axis(e, &s->of[0], 1, folded_row(e));
	bind_axis(e, &s->of[1], 0, e->machine->workgroup(e, 0));
}

void grid_leave(struct emit *e)
{
	struct grid_slots s = slots_of(e);
	if (is_folded(e, &s))
		e->machine->leave(e, LLVMBuildICmp(e->b, LLVMIntUGE, folded_row(e), emit_hexpr(e, s.of[0].tiles), ""));
}

/* --- rows of a wave each ------------------------------------------------------------------------------------------------------------ */

struct row_waves { int axis; bool only; };

/* Positions along the rows are the waves' numbers and nothing else, in all that varies with them. */
static void look_for_rows(struct ir_ins *i, void *ctx)
{
	struct row_waves *r = ctx;
	const struct layout *l = i->axes & IR_AXIS(r->axis) ? i->layout : NULL;
	for (int b = 0; l && b < l->nreg + l->nlane; b++)
		r->only = r->only && !(b < l->nreg ? &l->reg[b] : &l->lane[b - l->nreg])->step[r->axis];
	for (int b = 0; l && b < l->nwave; b++)
		r->only = r->only && l->wave[b].step[r->axis] == 1 << b;
	r->only = r->only && (!l || l->rep[r->axis] == 1);
}

/* Waves without a row are done; that of the others is there, which their masks then say. */
void grid_leave_rows(struct emit *e)
{
	struct grid_slots s = slots_of(e);
	struct row_waves rows = {s.n ? s.of[0].axis : 0, e->v->alone && s.n == 1 && e->machine->leave};
	if (rows.only)
		ir_walk(e->ph->body, look_for_rows, &rows);
	if (!rows.only)
		return;
	int axis = rows.axis, lanes = __builtin_ctz((unsigned)e->v->target->wave);
	LLVMValueRef wave = LLVMBuildLShr(e->b, e->tid, emit_int(e, lanes), ""), row = LLVMBuildAdd(e->b, e->axis_base[axis], wave, "");
	e->machine->leave(e, LLVMBuildICmp(e->b, LLVMIntSGE, row, emit_hexpr(e, e->ph->axes[axis].extent), ""));
	e->rows_there = &e->ph->axes[axis];
}

/* --- all of them ------------------------------------------------------------------------------------------------------------------- */

/* As declared; more than the machine's dimensions share the last. */
static void bind_declared(struct emit *e, const struct grid_slots *s, const struct hexpr *grid[3])
{
	int most = e->turn ? 0 : e->machine->grid_dims - 1;
	LLVMValueRef rest = NULL;
	for (int n = 0; n < s->n; n++) {
		int dim = n < most ? n : most;
		LLVMValueRef id = n > most ? rest : e->turn ? e->turn : e->machine->workgroup(e, dim);
		if (n >= most && n + 1 < s->n) {
			LLVMValueRef tiles = emit_hexpr(e, s->of[n].tiles);
			rest = LLVMBuildUDiv(e->b, id, tiles, "");
			id = LLVMBuildURem(e->b, id, tiles, "");
		}
		grid[dim] = n <= most ? s->of[n].tiles : hexpr_op(e->arena, HX_MUL, grid[dim], s->of[n].tiles);
		bind_axis(e, &s->of[n], dim, id);
	}
}

LLVMValueRef grid_row(struct emit *e)
{
	struct grid_slots s = slots_of(e);
	return is_folded(e, &s) ? folded_row(e) : e->machine->workgroup(e, 1);
}

LLVMValueRef grid_rows(struct emit *e)
{
	struct grid_slots s = slots_of(e);
	return is_folded(e, &s) ? emit_hexpr(e, s.of[0].tiles) : e->machine->workgroups(e, 1);
}

LLVMValueRef grid_workgroups(struct emit *e)
{
	if (e->turn)
		return e->turns;
	if (e->told[TOLD_WORKGROUPS])
		return e->told[TOLD_WORKGROUPS];
	return LLVMBuildMul(e->b, e->machine->workgroups(e, 0), e->machine->workgroups(e, 1), "");
}

LLVMValueRef grid_workgroup(struct emit *e)
{
	if (e->turn)
		return e->turn;
	return LLVMBuildAdd(e->b, LLVMBuildMul(e->b, e->machine->workgroups(e, 0), e->machine->workgroup(e, 1), ""), e->machine->workgroup(e, 0), "");
}

LLVMValueRef grid_is_last(struct emit *e)
{
	struct grid_slots s = slots_of(e);
	if (e->told[TOLD_LAST])
		return LLVMBuildICmp(e->b, LLVMIntSGE, e->machine->workgroup(e, s.n - 1), e->told[TOLD_LAST], "");
	LLVMValueRef all = grid_workgroups(e), left = LLVMBuildSub(e->b, all, grid_workgroup(e), "");
	return LLVMBuildICmp(e->b, LLVMIntULE, left, emit_int(e, e->machine->last_workgroups), "");
}

LLVMValueRef grid_is_beyond(struct emit *e)
{
	struct grid_slots s = slots_of(e);
	LLVMValueRef place = e->told[TOLD_LAST] ? e->machine->workgroup(e, 0) : grid_workgroup(e);
	if (e->told[TOLD_LAST] && s.n > 1)               /* x - 1 + y - 1 < x y */
		place = LLVMBuildAdd(e->b, place, e->machine->workgroup(e, 1), "");
	return LLVMBuildICmp(e->b, LLVMIntUGE, place, grid_workgroups(e), "");
}

/* Few rows wait for what asks for the grid's extents, which lie in memory apart from the arguments. */
static void tell_few(struct emit *e, const struct grid_slots *s, const struct hexpr *told[TOLD])
{
	struct arena *a = e->arena;
	if (!e->v->few || e->v->joined || !e->v->aligned || !e->machine->last_workgroups || !(s->n == 1 || (s->n == 2 && is_short(e, s) && !is_folded(e, s))))
		return;
	int last = s->n == 2 && dim_of(e, s, 1) == 1;
	const struct hexpr *along = s->of[last].tiles, *across = s->n == 2 ? s->of[!last].tiles : hexpr_const(a, 1);
	const struct hexpr *enough = hexpr_op(a, HX_CDIV, hexpr_const(a, e->machine->last_workgroups), hexpr_op(a, HX_MAX, across, hexpr_const(a, 1)));
	told[TOLD_WORKGROUPS] = hexpr_op(a, HX_MUL, along, across);
	told[TOLD_LAST] = hexpr_op(a, HX_MAX, hexpr_op(a, HX_SUB, along, enough), hexpr_const(a, 0));
}

void grid_told(struct emit *e, const struct hexpr *told[TOLD])
{
	struct grid_slots s = slots_of(e);
	bool below = e->v->ahead && is_sideways(e, &s) && (is_short(e, &s) || is_folded(e, &s));
	told[TOLD_WORKGROUPS] = told[TOLD_LAST] = NULL;
	told[TOLD_BELOW] = below ? ahead_below(e, s.of[s.n - 1].tiles, s.of[s.n - 2].tiles) : NULL;
	tell_few(e, &s, told);
}

const struct hexpr *grid_tiles(const struct emit *e)
{
	struct grid_slots s = slots_of(e);
	const struct hexpr *n = hexpr_const(e->arena, 1);
	for (int i = 0; i < s.n; i++)
		n = hexpr_op(e->arena, HX_MUL, n, s.of[i].tiles);
	return n;
}

bool grid_needs_extents(const struct emit *e)
{
	struct grid_slots s = slots_of(e);
	return is_folded(e, &s) || has_rounds(e, &s) || (s.n > e->machine->grid_dims && !is_short(e, &s));
}

void grid_bind(struct emit *e, const struct hexpr *grid[3])
{
	struct grid_slots s = slots_of(e);
	for (int i = 0; i < 3; i++)
		grid[i] = hexpr_const(e->arena, 1);
	if (e->cluster && !(is_short(e, &s) && is_sideways(e, &s)))
		emit_fail(e, NULL, "internal: the workgroups of a cluster do not lie side by side");
	if (e->turn)
		bind_declared(e, &s, grid);
	else if (is_folded(e, &s))
		bind_folded(e, &s, grid);
	else if (is_short(e, &s))
		bind_short(e, &s, grid);
	else
		bind_declared(e, &s, grid);
	if (e->told[TOLD_BELOW] && !e->turn)
		ahead_bind(e);
}
