/* pass_across.c
 * Problem: a norm that is stored along rows and across, in its transpose as well: whoever holds a whole row has one element of each column, and
 *          stores it by itself.
 * Method:  rows are stored along alone, by the launch that reduces them; one more takes them from there in tiles of rows and columns, which later
 *          passes turn in group memory as those of any transpose.  What was stored is as wide as what it was made of, or narrower: it is read, not computed again.
 *          Where it is not known whether the transpose is wanted, nothing changes: tiles would ask of all calls what transposes ask.
 *          In clusters the rows are those of tiles, with nothing to do by themselves: pass_fuse.c moves there what is done for rows.
 * Needs:   specialised IR.   Keeps: values exactly. */
#include "pass.h"

#include <string.h>

enum { ROWS = 32, COLUMNS = 32 };               /* of a tile in clusters: a sector of bytes across; as those of numbers in groups have */

struct crossing { const struct pass *p; int row, column; struct ir_ins *across, *along; int stores; bool reduces, ok; };      /* stores: to along's tensor */

static bool is_iota(const struct ir_ins *i, int axis) { return i->op == IR_IOTA && i->imm == axis; }

static bool is_at(const struct crossing *c, const struct ir_ins *i, int first, int second)
{
	return i->op == IR_STORE && c->p->k->params[i->imm].rank == 2 && is_iota(i->args[0], first) && is_iota(i->args[1], second);
}

/* The mask of a store to all places that there are. */
static bool is_inside(const struct crossing *c, const struct ir_ins *mask)
{
	if (mask->op == IR_AND)
		return is_inside(c, mask->args[0]) && is_inside(c, mask->args[1]);
	if (mask->op != IR_LT || mask->args[0]->op != IR_IOTA)
		return false;
	const struct hexpr *extent = c->p->k->phases[0].axes[mask->args[0]->imm].extent;
	const struct ir_ins *end = mask->args[1];
	int64_t n;
	return hexpr_is_const(extent, &n) ? end->op == IR_CONST && end->imm == n : end->op == IR_SYM && extent->op == HX_SYM && end->imm == extent->imm;
}

static bool is_whole(const struct crossing *c, const struct ir_ins *store) { return !(store->flags & IR_MASKED) || is_inside(c, store->args[store->nargs - 1]); }

static bool is_there(const struct crossing *c, int64_t tensor) { return tensor < 64 && c->p->v->given >> tensor & 1; }

/* One store across, of a tensor that is known to be there. */
static void look(struct ir_ins *i, void *ctx)
{
	struct crossing *c = ctx;
	c->reduces = c->reduces || (i->op == IR_REDUCE && i->over == IR_AXIS(c->column));
	c->ok = c->ok && !i->body;
	if (!is_at(c, i, c->column, c->row))
		return;
	c->ok = c->ok && !c->across && is_there(c, i->imm) && is_whole(c, i);
	c->across = i;
}

/* The same value, in its row. */
static void look_along(struct ir_ins *i, void *ctx)
{
	struct crossing *c = ctx;
	if (!is_at(c, i, c->row, c->column) || i->args[2] != c->across->args[2] || !is_whole(c, i))
		return;
	const struct ir_param *t = &c->p->k->params[i->imm];
	c->along = t->role == IR_OUT && (!t->optional || is_there(c, i->imm)) ? i : c->along;
}

/* What is stored along stays: nothing else is stored there. */
static void count_stores(struct ir_ins *i, void *ctx)
{
	struct crossing *c = ctx;
	c->stores += i->op == IR_STORE && i->imm == c->along->imm;
}

static struct crossing crossing_of(const struct pass *p)
{
	struct crossing c = {.p = p, .row = -1, .column = -1};
	const struct ir_phase *ph = &p->k->phases[0];
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		if (ax->kind == AXIS_GRID && !ax->ragged && !ax->tiled)
			c.row = a;
		if (ax->kind == AXIS_HELD && (ax->extent->op == HX_SYM || ax->extent->op == HX_CONST))
			c.column = a;
	}
	c.ok = ph->naxes == 2 && c.row >= 0 && c.column >= 0;
	if (c.ok)
		ir_walk(ph->body, look, &c);
	if (c.ok && c.across)
		ir_walk(ph->body, look_along, &c);
	if (c.along)
		ir_walk(ph->body, count_stores, &c);
	c.ok = c.ok && c.reduces && c.stores == 1;
	return c;
}

/* Axes of the rows' phase, taken in tiles. */
static void take_tiles(struct ir_phase *tiles, const struct ir_phase *rows)
{
	*tiles = (struct ir_phase){.naxes = rows->naxes, .line = rows->line};
	for (int a = 0; a < rows->naxes; a++) {
		tiles->axes[a] = rows->axes[a];
		tiles->axes[a].kind = AXIS_GRID;
		tiles->axes[a].tiled = true;
	}
}

static void turn(struct pass *p, struct ir_phase *tiles, const struct crossing *c)
{
	tiles->body = arena_alloc(p->k->arena, sizeof *tiles->body);
	struct ir_builder b = {p->k, tiles, tiles->body, NULL, c->across->line, c->across->col};
	struct ir_ins *row = ir_leaf(&b, IR_IOTA, DT_I32, c->row), *column = ir_leaf(&b, IR_IOTA, DT_I32, c->column);
	struct ir_ins *inside = ir_bin(&b, IR_AND, ir_bin(&b, IR_LT, row, ir_hexpr(&b, tiles->axes[c->row].extent)), ir_bin(&b, IR_LT, column, ir_hexpr(&b, tiles->axes[c->column].extent)));
	struct ir_ins *value = ir_load(&b, (int)c->along->imm, (struct ir_ins *[]){row, column}, inside);
	ir_store(&b, (int)c->across->imm, (struct ir_ins *[]){column, row}, value, inside);
	ir_yield(&b, NULL, 0);
}

/* Of an axis the two of its groups of `by`: their numbers, and positions in one. */
static void take_groups(struct arena *a, struct ir_axis *two, const struct ir_axis *whole, int by)
{
	two[0] = two[1] = *whole;
	two[0].name = arena_printf(a, "%s.o", whole->name);
	two[0].kind = AXIS_GRID;
	two[0].extent = hexpr_op(a, HX_CDIV, whole->extent, hexpr_const(a, by));
	two[1].kind = AXIS_HELD;
	two[1].extent = hexpr_const(a, by);
	two[1].tile = by;
}

static void leave_tiles(struct pass *p, struct ir_phase *tiles, const struct ir_phase *rows, const struct crossing *c)
{
	*tiles = (struct ir_phase){.naxes = 4, .line = rows->line, .body = arena_alloc(p->k->arena, sizeof *tiles->body)};
	take_groups(p->k->arena, tiles->axes, &rows->axes[c->row], ROWS);
	take_groups(p->k->arena, tiles->axes + 2, &rows->axes[c->column], COLUMNS);
	struct ir_builder b = {p->k, tiles, tiles->body, NULL, c->across->line, c->across->col};
	ir_yield(&b, NULL, 0);
}

bool kernel_crosses(const struct pass *p) { return crossing_of(p).ok; }

int pass_across(struct pass *p)
{
	struct crossing c = crossing_of(p);
	if (!c.ok)
		return 0;
	struct ir_kernel *k = p->k;
	struct ir_phase *phases = arena_alloc(k->arena, (size_t)(k->nphases + 1) * sizeof *phases);
	phases[0] = k->phases[0];
	memcpy(phases + 2, k->phases + 1, (size_t)(k->nphases - 1) * sizeof *phases);
	k->phases = phases;
	k->nphases++;
	if (p->v->cluster) {
		leave_tiles(p, &phases[1], &phases[0], &c);
		return 0;
	}
	take_tiles(&phases[1], &phases[0]);
	turn(p, &phases[1], &c);
	ir_remove(c.across);
	return pass_clean(p);
}
