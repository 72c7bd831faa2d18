/* pass_carry.c
 * Problem: gradients of norms read their rows for what is made of each, and once more in tiles of 64 for sums of columns, such as dw; those of
 *          activations, of which no row is needed whole, are read once, but tiles of 64 rows are 256 bytes wide and leave many parts to be added up.
 * Method:  as many workgroups as the chip holds take all rows, each every so-manieth one after the other, and carry the sums of columns from row to
 *          row: what the second phase sums up of a row's elements is computed behind what the first makes of them, of the same loads (pass_clean
 *          finds them equal).  A workgroup leaves one row of partial sums, whose number is that of workgroups from here on.  Where one phase is both,
 *          it is a piece of every so-manieth row that a workgroup takes.  Several rows side by side leave one row of sums; the last of
 *          them may not be there (variant.uneven).
 * Needs:   specialised IR, rows in the first phase and sums of groups of them in the second, or both in the first.
 * Keeps:   values, up to the order of sums of rows. */
#include "pass.h"

#include <string.h>

enum { MOST_SUMS = 64 };

struct carrying {
	struct ir_kernel *k; struct ir_phase *rows, *sums;   /* rows: NULL, the phase of sums does all that is done with them */
	const struct hexpr *extent;            /* of rows */
	int row, column;                       /* the axes of `rows` */
	struct axis_split groups; int across;  /* those of `sums`, of rows and of columns */
	uint64_t temps;                        /* workspace that `sums` stores */
	int nsums;                             /* that it stores there */
	bool ok;
};

/* The position of a row in the phase of sums. */
static bool is_row(const struct carrying *c, const struct ir_ins *at) { return split_numbers(&c->groups, c->sums, at); }

static bool is_iota(const struct ir_ins *i, int axis) { return i->op == IR_IOTA && i->imm == axis; }

static bool is_input(const struct carrying *c, const struct ir_ins *load) { return c->k->params[load->imm].role == IR_IN; }

static void look_at_rows(struct ir_ins *i, void *ctx)
{
	struct carrying *c = ctx;
	c->ok = c->ok && (ir_is_plain(i) || i->op == IR_UPDATE) && !(i->over & ~IR_AXIS(c->column)) && (i->op != IR_LOAD || is_input(c, i)) &&
	        (i->op != IR_STORE || c->k->params[i->imm].role == IR_OUT);
}

/* True of all rows and columns that there are. */
static bool is_of_all(const struct carrying *c, const struct ir_ins *mask)
{
	const struct ir_ins *at = mask->op == IR_LT ? mask->args[0] : NULL;
	if (mask->op == IR_AND)
		return is_of_all(c, mask->args[0]) && is_of_all(c, mask->args[1]);
	if (!at)
		return mask->op == IR_CONST && mask->imm;
	const struct hexpr *end = is_row(c, at) ? c->extent : is_iota(at, c->groups.outer) || is_iota(at, c->across) ? c->sums->axes[at->imm].extent : NULL;
	return end && value_is_extent(mask->args[1], end);
}

/* A sum of a group's rows, of each column, that is stored in the group's place: of several of them in one workspace, each beside the others. */
static bool is_stored_sum(const struct carrying *c, const struct ir_ins *store)
{
	const struct ir_param *t = &c->k->params[store->imm];
	const struct ir_ins *sum = store->args[2];
	bool place = store->imm < 64 && t->rank == 2 && is_iota(store->args[0], c->groups.outer) && !(store->args[1]->axes & ~IR_AXIS(c->across));
	bool all = !(sum->flags & IR_MASKED) || is_of_all(c, sum->args[sum->nargs - 1]);
	bool alone = !c->rows || (!(c->temps >> store->imm & 1) && is_iota(store->args[1], c->across));
	return t->role == IR_TEMP && place && alone && all && sum->op == IR_REDUCE && sum->kind == RED_SUM && sum->dtype == DT_F32 && sum->over == IR_AXIS(c->groups.inner) && !(sum->flags & IR_PRODUCT);
}

/* Groups and positions in them occur as rows, in guards and as places of sums alone. */
static void look_at_sums(struct ir_ins *i, void *ctx)
{
	struct carrying *c = ctx;
	bool result = i->op == IR_STORE && !c->rows && c->k->params[i->imm].role == IR_OUT;
	bool stored = i->op == IR_STORE && !result, guard = i->op == IR_LT && is_iota(i->args[0], c->groups.outer), reduces = i->op == IR_REDUCE;
	ir_axes row = IR_AXIS(c->groups.outer) | IR_AXIS(c->groups.inner);
	c->ok = c->ok && ir_is_plain(i) && (i->op != IR_LOAD || is_input(c, i)) && (!result || (i->axes & row) == row) && (!stored || is_stored_sum(c, i)) && (!reduces || i->over == IR_AXIS(c->groups.inner));
	for (int a = 0; c->ok && a < i->nargs; a++) {
		const struct ir_ins *x = i->args[a];
		bool part = is_iota(x, c->groups.outer) || is_iota(x, c->groups.inner), scaled = i->op == IR_MUL && is_iota(x, c->groups.outer);
		bool start = x->op == IR_MUL && is_iota(x->args[0], c->groups.outer);
		c->ok = (!part || guard || stored || scaled || is_row(c, i)) && (!start || is_row(c, i)) && !(x->op == IR_REDUCE && !stored);
	}
	if (!c->ok || !stored)
		return;
	c->temps |= UINT64_C(1) << i->imm;
	c->ok = ++c->nsums <= MOST_SUMS;
}

struct reading { const struct carrying *c; bool ok; };

static bool is_part(const struct carrying *c, const struct ir_ins *i) { return i->op == IR_LOAD && i->imm < 64 && (c->temps >> i->imm & 1); }

/* Of a loop over the parts: what its axis occurs in.  Sums of parts are the same however many rows each is of; what else is made of them, or of their
 * numbers, is not. */
static bool adds_parts(const struct carrying *c, const struct ir_ins *loop, const struct ir_ins *i)
{
	const struct hexpr *parts = c->sums->axes[c->groups.outer].extent;
	int axis = (int)loop->imm;
	if (!((i->axes | i->over) & IR_AXIS(axis)))
		return true;
	switch (i->op) {
	case IR_IOTA: case IR_AND: return true;
	case IR_LT: return is_iota(i->args[0], axis) && value_is_extent(i->args[1], parts);
	case IR_LOAD: return is_part(c, i) && is_iota(i->args[0], axis) && !(i->args[1]->axes & IR_AXIS(axis));
	case IR_REDUCE: return is_part(c, i->args[0]);
	default: return false;
	}
}

static bool is_loop_of_parts(const struct carrying *c, const struct ir_ins *loop)
{
	bool ok = loop && loop_is_of_sums(loop) && value_is_extent(loop->args[1], c->sums->axes[c->groups.outer].extent);
	for (const struct ir_ins *i = ok ? loop->body->first : NULL; i && ok; i = i->next)
		ok = adds_parts(c, loop, i);
	return ok;
}

/* Nobody else reads parts, or writes their workspace. */
static void look_at_parts(struct ir_ins *i, void *ctx)
{
	struct reading *r = ctx;
	bool written = (i->op == IR_STORE || i->op == IR_UPDATE) && i->imm < 64 && (r->c->temps >> i->imm & 1);
	r->ok = r->ok && !written && (!is_part(r->c, i) || is_loop_of_parts(r->c, i->block->owner));
}

/* Rows whose sums another phase takes. */
static void find_rows(struct carrying *c)
{
	struct ir_kernel *k = c->k;
	if (k->nphases < 3 || k->phases[0].naxes != 2 || k->phases[1].naxes != 3)
		return;
	c->rows = &k->phases[0];
	c->sums = &k->phases[1];
	for (int a = 0; a < 2; a++) {
		const struct ir_axis *ax = &c->rows->axes[a];
		if (ax->kind == AXIS_GRID && !ax->ragged && !ax->tiled)
			c->row = a;
		if (ax->kind == AXIS_HELD && (ax->extent->op == HX_SYM || ax->extent->op == HX_CONST))
			c->column = a;
	}
	c->extent = c->row >= 0 && c->column >= 0 ? c->rows->axes[c->row].extent : NULL;
}

/* Groups of rows of which a phase makes sums and all else. */
static void find_groups(struct carrying *c)
{
	const struct ir_phase *ph = &c->k->phases[0];
	if (c->k->nphases < 2 || ph->naxes != 3 || ph->axes[0].kind != AXIS_GRID || !ph->axes[0].extent || ph->axes[0].extent->op != HX_CDIV)
		return;
	c->sums = &c->k->phases[0];
	c->extent = ph->axes[0].extent->a->op == HX_SYM ? ph->axes[0].extent->a : NULL;
}

static struct carrying carrying_of(struct ir_kernel *k)
{
	struct carrying c = {.k = k, .row = -1, .column = -1, .across = -1};
	find_rows(&c);
	if (!c.sums)
		find_groups(&c);
	c.ok = c.extent && phase_splits(c.sums, c.extent, &c.groups);
	for (int a = 0; c.ok && a < 3; a++)
		if (a != c.groups.outer && a != c.groups.inner)
			c.across = a;
	const struct ir_axis *across = c.ok ? &c.sums->axes[c.across] : NULL;
	c.ok = c.ok && across->kind == AXIS_GRID && across->extent && (c.rows ? hexpr_equal(across->extent, c.rows->axes[c.column].extent) : across->tiled && across->extent->op == HX_SYM);
	if (c.ok && c.rows)
		ir_walk(c.rows->body, look_at_rows, &c);
	if (c.ok)
		ir_walk(c.sums->body, look_at_sums, &c);
	c.ok = c.ok && c.temps;
	struct reading r = {&c, c.ok};
	for (struct ir_phase *ph = c.sums + 1; r.ok && ph < k->phases + k->nphases; ph++)
		ir_walk(ph->body, look_at_parts, &r);
	c.ok = r.ok;
	return c;
}

bool kernel_can_carry(struct ir_kernel *k, struct carried_sums *sums)
{
	struct carrying c = carrying_of(k);
	*sums = (struct carried_sums){c.extent, c.rows ? c.column : c.across, c.nsums, !c.rows};
	return c.ok && (c.rows ? c.rows : c.sums)->axes[sums->column].extent->op == HX_SYM;      /* a pinned one is a constant later */
}

/* --- the phase that both become --------------------------------------------------------------------------------------------- */

/* What positions of the phases' axes become in it. */
struct places { struct ir_ins *row, *column, *there; };

static bool is_guard(const struct ir_ins *i, const struct ir_ins *position, const struct hexpr *extent)
{
	return i->op == IR_LT && i->args[0] == position && value_is_extent(i->args[1], extent);
}

static void move_rows(struct carrying *c, struct ir_block *to, const struct places *at)
{
	for (struct ir_ins *i = c->rows->body->first, *next; i && i->op != IR_YIELD; i = next) {
		next = i->next;
		if (is_iota(i, c->row) || is_iota(i, c->column))
			ir_replace(c->k, i, i->imm == c->row ? at->row : at->column);
		else if (is_guard(i, at->row, c->extent))
			ir_replace(c->k, i, at->there);
		ir_remove(i);
		if (i->op != IR_IOTA && !is_guard(i, at->row, c->extent))
			ir_append(to, i);
	}
}

static ir_axes axes_in_rows(const struct carrying *c, ir_axes axes)
{
	ir_axes rows = axes & (IR_AXIS(c->groups.outer) | IR_AXIS(c->groups.inner)) ? IR_AXIS(c->row) : 0;
	return axes & IR_AXIS(c->across) ? rows | IR_AXIS(c->column) : rows;
}

/* What becomes of an instruction of the second phase. */
enum fate { MOVES, STAYS, IS_ROW, IS_COLUMN, HOLDS, IS_SUM, GOES };

static enum fate fate_of(const struct carrying *c, const struct ir_ins *i)
{
	const struct hexpr *groups = c->sums->axes[c->groups.outer].extent;
	const struct ir_ins *at = i->op == IR_LT ? i->args[0] : NULL;
	if (i->op == IR_STORE)
		return IS_SUM;
	if (at && ((is_row(c, at) && value_is_extent(i->args[1], c->extent)) || (is_iota(at, c->groups.outer) && value_is_extent(i->args[1], groups))))
		return HOLDS;
	if (i->dtype == DT_I32 && is_row(c, i))
		return IS_ROW;
	if (is_iota(i, c->across))
		return IS_COLUMN;
	bool part = is_iota(i, c->groups.outer) || is_iota(i, c->groups.inner) || (i->op == IR_MUL && is_iota(i->args[0], c->groups.outer));
	return part || i->op == IR_REDUCE ? GOES : MOVES;
}

/* sums: of each workspace, what a row adds. */
static void move_sums(struct carrying *c, struct ir_block *to, const struct places *at, struct ir_ins **sums)
{
	int n = c->k->next_id;
	enum fate *fate = arena_alloc(c->k->arena, sizeof *fate * (size_t)n);
	for (const struct ir_ins *i = c->sums->body->first; i; i = i->next)      /* before anything is replaced */
		fate[i->id] = fate_of(c, i);
	for (struct ir_ins *i = c->sums->body->first, *next; i && i->op != IR_YIELD; i = next) {
		next = i->next;
		if (fate[i->id] == IS_SUM)
			sums[i->imm] = i->args[2]->args[0];
		if (fate[i->id] == IS_ROW || fate[i->id] == IS_COLUMN || fate[i->id] == HOLDS)
			ir_replace(c->k, i, fate[i->id] == IS_ROW ? at->row : fate[i->id] == IS_COLUMN ? at->column : at->there);
		ir_remove(i);
		if (fate[i->id] != MOVES)
			continue;
		i->axes = axes_in_rows(c, i->axes);
		ir_append(to, i);
	}
}

/* Sums of products round once, as reductions do.  What a row that is not there has is nothing in particular. */
static struct ir_ins *added(struct ir_builder *b, struct ir_ins *sum, struct ir_ins *x, struct ir_ins *there)
{
	struct ir_ins *more = x->op == IR_MUL ? ir_fma(b, x->args[0], x->args[1], sum) : ir_bin(b, IR_ADD, sum, x);
	return there->axes ? ir_select(b, there, more, sum) : more;
}

struct counting { const struct carrying *c; struct ir_ins *number; };

/* Loops over the parts end with them. */
static void count_parts(struct ir_ins *i, void *ctx)
{
	struct counting *n = ctx;
	if (i->op == IR_FOR && is_loop_of_parts(n->c, i)) {
		for (struct ir_ins *x = i->body->first; x; x = x->next)
			if (x->op == IR_LT && is_iota(x->args[0], (int)i->imm))
				x->args[1] = n->number;
		i->args[1] = n->number;
	}
}

static void count_workgroups(const struct carrying *c, struct ir_phase *ph, const struct hexpr *workgroups)
{
	struct ir_builder b = {c->k, ph, ph->body, ph->body->first, 0, 0};
	struct counting n = {c, ir_hexpr(&b, workgroups)};
	ir_walk(ph->body, count_parts, &n);
}

const struct hexpr *carried_rows(struct arena *ar, int workgroups, const struct hexpr *columns, int tile)
{
	const struct hexpr *pieces = hexpr_op(ar, HX_CDIV, columns, hexpr_const(ar, tile));
	return hexpr_op(ar, HX_MAX, hexpr_const(ar, 1), hexpr_op(ar, HX_DIV, hexpr_const(ar, workgroups), pieces));
}

/* Those that take all rows between them: of long rows fewer; of many rows whose columns they share as well, of each piece as many, and no more than the chip has room for. */
static const struct hexpr *workgroups_of(const struct pass *p, const struct carrying *c)
{
	struct arena *ar = p->k->arena;
	const struct hexpr *all = hexpr_const(ar, p->v->carries), *one = hexpr_const(ar, 1);
	const struct ir_axis *columns = &c->sums->axes[c->across];
	if (p->v->carried_columns) {                             /* one less than whole numbers of them: rows that are taken at a time begin in other channels of memory */
		const struct hexpr *parts = hexpr_op(ar, HX_CDIV, columns->extent, hexpr_const(ar, p->v->carried_columns));
		const struct hexpr *each = hexpr_op(ar, HX_MAX, one, hexpr_op(ar, HX_DIV, hexpr_const(ar, variant_each(p->v)), parts));
		return hexpr_op(ar, HX_SUB, hexpr_op(ar, HX_MUL, hexpr_const(ar, p->v->target->multiprocessors), each), one);
	}
	for (int t = 0; !c->rows && p->v->many && t < p->v->ntiles; t++)
		if (!p->v->tiles[t].phase && !strcmp(p->v->tiles[t].axis, columns->name))
			return carried_rows(ar, p->v->carries, columns->extent, p->v->tiles[t].tile);
	return all;
}

/* Rounds of a workgroup that takes every `workgroups`th of so many, from `first` on, of rows side by side as many as of the first of these: it has as many
 * of each, or of others one less. */
static struct ir_ins *loop_of_rounds(struct ir_builder *b, int axis, struct ir_ins *first, int grid, struct ir_ins *all, struct ir_ins *workgroups, struct ir_ins **init, int n)
{
	struct ir_ins *left = ir_bin(b, IR_SUB, all, ir_reduce(b, RED_MIN, first, IR_AXIS(grid), NULL));
	return ir_for(b, axis, ir_int(b, DT_I32, 0), ir_cdiv(b, left, workgroups, true), init, n);
}

/* The place of a workgroup's first row or group, and that of the round in hand. */
static struct ir_ins *place_of_round(struct ir_builder *in, int axis, struct ir_ins *first, struct ir_ins *workgroups)
{
	struct ir_ins *turn = ir_reduce(in, RED_MAX, ir_leaf(in, IR_IOTA, DT_I32, axis), IR_AXIS(axis), NULL);
	return ir_bin(in, IR_ADD, first, ir_bin(in, IR_MUL, turn, workgroups));
}

/* The axis of rounds, behind the others; the grid's numbers places of rows from here on, of which each workgroup has so many side by side. */
static int add_rounds(struct carrying *c, struct ir_phase *ph, int grid, const struct hexpr *places, int beside)
{
	struct ir_axis *w = &ph->axes[grid];
	ph->axes[ph->naxes] = (struct ir_axis){.name = arena_printf(c->k->arena, "%s.r", w->name), .kind = AXIS_LOOP, .tile = 1, .line = w->line, .col = w->col};
	w->name = arena_printf(c->k->arena, "%s.w", w->name);
	w->tile = beside;
	w->extent = places;
	return ph->naxes++;
}

/* Places of rows, of which each workgroup has so many side by side. */
static const struct hexpr *places_of(struct arena *ar, const struct hexpr *workgroups, int beside)
{
	return hexpr_op(ar, HX_MUL, workgroups, hexpr_const(ar, beside));
}

/* Whether there is a row: of rows side by side the last may not be there. */
static struct ir_ins *is_there(struct ir_builder *in, const struct pass *p, const struct carrying *c, struct ir_ins *row)
{
	return p->v->uneven ? ir_bin(in, IR_LT, row, ir_hexpr(in, c->extent)) : ir_int(in, DT_I1, 1);
}

static struct ir_ins *number_of_workgroup(struct ir_builder *b, struct ir_ins *first, int grid, int beside)
{
	return beside > 1 ? ir_bin(b, IR_DIV, ir_reduce(b, RED_MIN, first, IR_AXIS(grid), NULL), ir_int(b, DT_I32, beside)) : first;
}

static struct ir_ins *sum_beside(struct ir_builder *b, struct ir_ins *sum, int grid, int beside)
{
	return beside > 1 ? ir_reduce(b, RED_SUM, sum, IR_AXIS(grid), NULL) : sum;
}

static void carry_rows(struct pass *p, struct carrying *c, const struct hexpr *workgroups)
{
	struct ir_kernel *k = p->k;
	struct ir_phase *ph = c->rows;
	int beside = variant_beside(p->v), temp[64], n = 0;
	const struct hexpr *places = places_of(k->arena, workgroups, beside);
	int axis = add_rounds(c, ph, c->row, places, beside);
	struct ir_ins *sums[64], *init[64], *next[64];
	struct ir_block *body = arena_alloc(k->arena, sizeof *body);
	*body = (struct ir_block){0};
	struct ir_builder b = {k, ph, body, NULL, ph->line, 0};
	struct ir_ins *first = ir_leaf(&b, IR_IOTA, DT_I32, c->row), *by = ir_hexpr(&b, places);
	for (int t = 0; t < k->nparams; t++)
		if (t < 64 && c->temps >> t & 1) {
			temp[n] = t;
			init[n++] = ir_float(&b, DT_F32, 0);
		}
	struct ir_ins *loop = loop_of_rounds(&b, axis, first, c->row, ir_hexpr(&b, c->extent), by, init, n);
	struct ir_builder in = {k, ph, loop->body, NULL, ph->line, 0};
	struct ir_ins *row = place_of_round(&in, axis, first, by), *there = is_there(&in, p, c, row);
	struct places at = {.row = row, .column = ir_leaf(&in, IR_IOTA, DT_I32, c->column), .there = there};
	move_rows(c, loop->body, &at);
	move_sums(c, loop->body, &at, sums);
	ir_walk(loop->body, ir_recompute_axes, NULL);
	for (int s = 0; s < n; s++) {
		loop->body->params[s]->axes = sums[temp[s]]->axes | there->axes;
		next[s] = added(&in, loop->body->params[s], sums[temp[s]], there);
	}
	ir_yield(&in, next, n);
	struct ir_ins *column = ir_leaf(&b, IR_IOTA, DT_I32, c->column), *ends = ir_bin(&b, IR_LT, column, ir_hexpr(&b, ph->axes[c->column].extent));
	struct ir_ins *workgroup = number_of_workgroup(&b, first, c->row, beside);
	for (int s = 0; s < n; s++) {
		struct ir_ins *subs[] = {workgroup, column};
		ir_store(&b, temp[s], subs, sum_beside(&b, ir_result(&b, loop, s), c->row, beside), ends);
	}
	ir_yield(&b, NULL, 0);
	ph->body = body;
	for (int i = 1; i + 1 < k->nphases; i++)
		k->phases[i] = k->phases[i + 1];
	k->nphases--;
}

/* --- or which the one that there is becomes ------------------------------------------------------------------------------------ */

/* The same there: what is of no row stands in front of the loop. */
static enum fate fate_in_pieces(const struct carrying *c, const struct ir_ins *i)
{
	bool of_rows = (i->axes | i->over) & (IR_AXIS(c->groups.outer) | IR_AXIS(c->groups.inner));
	if (i->op == IR_STORE && c->k->params[i->imm].role == IR_OUT)
		return MOVES;
	enum fate f = fate_of(c, i);
	return f == IS_COLUMN || (f == MOVES && !of_rows) ? STAYS : f;
}

/* What the loop does with a row, at `row`; stores: those of sums, in their order. */
static void move_pieces(struct carrying *c, struct ir_ins *loop, struct ir_ins *row, struct ir_ins *there, const struct ir_ins **stores)
{
	enum fate *fate = arena_alloc(c->k->arena, sizeof *fate * (size_t)c->k->next_id);
	for (const struct ir_ins *i = c->sums->body->first; i; i = i->next)      /* before anything is replaced */
		fate[i->id] = fate_in_pieces(c, i);
	for (struct ir_ins *i = c->sums->body->first, *next; i->op != IR_YIELD; i = next) {
		next = i->next;
		switch (fate[i->id]) {
		case IS_SUM: *stores++ = i; break;
		case IS_ROW: case HOLDS: ir_replace(c->k, i, fate[i->id] == IS_ROW ? row : there); break;
		case STAYS: ir_move(i, loop); break;
		case MOVES: ir_remove(i); ir_append(loop->body, i); break;
		default: break;
		}
	}
}

static void carry_pieces(struct pass *p, struct carrying *c, const struct hexpr *workgroups)
{
	struct ir_kernel *k = p->k;
	struct ir_phase *ph = c->sums;
	int axis = ph->naxes, grid = c->groups.outer, column = c->across, n = c->nsums, beside = variant_beside(p->v);
	const struct hexpr *places = places_of(k->arena, workgroups, beside);
	const struct ir_ins *stores[MOST_SUMS];
	struct ir_ins *sums[MOST_SUMS];
	struct ir_block *body = arena_alloc(k->arena, sizeof *body);
	*body = (struct ir_block){0};
	struct ir_builder b = {k, ph, body, NULL, ph->line, 0};
	struct ir_ins *first = ir_leaf(&b, IR_IOTA, DT_I32, grid), *by = ir_hexpr(&b, places);
	for (int s = 0; s < n; s++)
		sums[s] = ir_float(&b, DT_F32, 0);
	struct ir_ins *loop = loop_of_rounds(&b, axis, first, grid, ir_hexpr(&b, c->extent), by, sums, n);
	struct ir_builder in = {k, ph, loop->body, NULL, ph->line, 0};
	struct ir_ins *row = place_of_round(&in, axis, first, by), *there = is_there(&in, p, c, row);
	move_pieces(c, loop, row, there, stores);
	for (int s = 0; s < n; s++) {
		loop->body->params[s]->axes = IR_AXIS(grid) | IR_AXIS(column);
		sums[s] = added(&in, loop->body->params[s], stores[s]->args[2]->args[0], there);
	}
	ir_yield(&in, sums, n);
	ir_walk(loop->body, ir_recompute_axes, NULL);
	struct ir_ins *ends = ir_bin(&b, IR_LT, ir_leaf(&b, IR_IOTA, DT_I32, column), ir_hexpr(&b, ph->axes[column].extent));
	struct ir_ins *workgroup = number_of_workgroup(&b, first, grid, beside);
	for (int s = 0; s < n; s++) {
		struct ir_ins *subs[] = {workgroup, stores[s]->args[1]};
		ir_store(&b, (int)stores[s]->imm, subs, sum_beside(&b, ir_result(&b, loop, s), grid, beside), ends);
	}
	ir_yield(&b, NULL, 0);
	ph->body = body;
	add_rounds(c, ph, grid, places, beside);
	ph->axes[c->groups.inner].extent = hexpr_const(k->arena, 1);
	ph->axes[c->groups.inner].tile = 1;
}

int pass_carry(struct pass *p)
{
	if (!p->v->carries)
		return 0;
	struct carrying c = carrying_of(p->k);
	if (!c.ok || p->v->pieces != !c.rows || (c.rows ? c.rows : c.sums)->naxes == LAYOUT_AXES)
		return pass_fail(p, NULL, "internal: %s has no sums of columns for rows to carry", p->k->name);
	const struct hexpr *workgroups = workgroups_of(p, &c);
	for (struct ir_phase *ph = c.sums + 1; ph < p->k->phases + p->k->nphases; ph++)
		count_workgroups(&c, ph, workgroups);
	for (int t = 0; t < p->k->nparams; t++)
		if (t < 64 && c.temps >> t & 1)
			p->k->params[t].extent[0] = workgroups;
	(c.rows ? carry_rows : carry_pieces)(p, &c, workgroups);
	return pass_clean(p);
}
