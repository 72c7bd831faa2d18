/* elab_tiles.c -- whether what a statement does depends on the size of tiles, which is the schedule's choice.
 *
 * In: a value, axes.  Out: what it was computed from.  Inside of `n tiled` a statement runs once a tile.  An update of a value that
 * does not come from n would take effect as often as there are tiles, so it is refused; a maximum is the same however often it is
 * made, and so is a store of what does not come from the same tensor.  What is reduced over an `each .. tiled` is the tile's part, which
 * only an update puts together with those of other tiles. */
#include <stdlib.h>
#include "elab.h"

struct origin {
	struct elab *E;
	const struct ir_ins **todo; int n;
	bool *seen;                           /* by id */
	ir_axes axes, over;                   /* of all instructions met, and what they contract; the latter but for bounds that say when state is done */
	const struct ir_ins *bound;           /* of a loop: the last that contracts something yet */
	const struct ir_ins *wanted; bool found;      /* wanted: looked for where a change of it always changes the value */
	int tensor; bool loaded;                      /* whether anything is loaded from it; -1: of no interest */
};

static void origin_add(struct origin *o, const struct ir_ins *a)
{
	if (o->seen[a->id])
		return;
	o->seen[a->id] = true;
	o->todo[o->n++] = a;
}

/* One of several values: the same again if that is what it was. */
static bool chooses(const struct ir_ins *a)
{
	return a->op == IR_SELECT || a->op == IR_RESULT || a->op == IR_MAX || a->op == IR_MIN;
}

ir_axes tiles_contracted(const struct elab *E, const struct ir_ins *a)
{
	bool bound = ir_is_tile_bound(a);
	for (int i = 0; i < E->bounds.n && !bound; i++)
		bound = E->bounds.items[i].ins == a;
	return bound ? 0 : a->over;
}

/* State number n of a loop: what it begins with, what a round makes of it, and how many rounds there are; of the axes that it has each position goes by
 * its own bound. */
static void origin_follow_state(struct origin *o, const struct ir_ins *loop, int64_t n)
{
	for (int i = 0; i < o->E->bounds.n; i++) {
		const struct elab_bound *b = &o->E->bounds.items[i];
		ir_axes shared = b->loop == loop ? b->ins->over & ~loop->body->params[n]->axes : 0;
		o->over |= shared;
		o->bound = shared ? b->ins : o->bound;
	}
	origin_add(o, loop->args[0]);
	origin_add(o, loop->args[1]);
	origin_add(o, loop->args[2 + n]);
	if (loop->body->last && loop->body->last->op == IR_YIELD)
		origin_add(o, loop->body->last->args[n]);
}

/* Follows operands; the results of loops and branches through what these yield and start with. */
static void origin_follow(struct origin *o)
{
	while (o->n) {
		const struct ir_ins *a = o->todo[--o->n];
		o->axes |= a->axes | a->over;
		o->over |= tiles_contracted(o->E, a);
		o->found |= a == o->wanted;
		o->loaded |= a->op == IR_LOAD && a->imm == o->tensor;
		if (o->wanted && (chooses(a) || a->op == IR_ARG))
			continue;
		if (a->op == IR_ARG || (a->op == IR_RESULT && a->args[0]->op == IR_FOR)) {
			origin_follow_state(o, a->op == IR_ARG ? a->block->owner : a->args[0], a->imm);
			continue;
		}
		for (int i = 0; i < a->nargs; i++)
			origin_add(o, a->args[i]);
		const struct ir_block *blocks[] = {a->body, a->other};
		for (int i = 0; i < 2; i++)
			if (blocks[i] && blocks[i]->last && blocks[i]->last->op == IR_YIELD)
				origin_add(o, blocks[i]->last);
	}
}

struct met { ir_axes axes, over; const struct ir_ins *bound; bool found, loaded; };

/* What was met on the way from v. */
static struct met origin_of(struct elab *E, const struct ir_ins *v, const struct ir_ins *wanted, int tensor)
{
	size_t n = (size_t)E->k->next_id + 1;
	struct origin o = {.E = E, .todo = malloc(n * sizeof *o.todo), .seen = calloc(n, sizeof *o.seen), .wanted = wanted, .tensor = tensor};
	if (!o.todo || !o.seen)
		abort();
	origin_add(&o, v);
	origin_follow(&o);
	free(o.todo);
	free(o.seen);
	return (struct met){o.axes, o.over, o.bound, o.found, o.loaded};
}

ir_axes tiles_open(const struct elab *E)
{
	ir_axes tiled = 0;
	for (int a = 0; a < E->ph->naxes; a++)
		if (E->open_axes & IR_AXIS(a) && E->ph->axes[a].tiled)
			tiled |= IR_AXIS(a);
	return tiled;
}

ir_axes tiles_unseen(struct elab *E, const struct ir_ins *v, ir_axes open)
{
	ir_axes tiled = tiles_open(E) & open & ~(v->axes | v->over);
	return tiled ? tiled & ~origin_of(E, v, NULL, -1).axes : 0;
}

ir_axes tiles_parts(struct elab *E, const struct ir_ins *v, const struct ir_ins **bound)
{
	ir_axes tiled = 0;
	for (int a = 0; a < E->ph->naxes; a++)
		if (E->ph->axes[a].kind == AXIS_GRID && E->ph->axes[a].tiled)
			tiled |= IR_AXIS(a);
	struct met met = tiled ? origin_of(E, v, NULL, -1) : (struct met){0};
	*bound = met.bound && met.bound->over & tiled ? met.bound : *bound;
	return tiled & met.over;
}

/* depth: of sums and choices in each other, few of which are anybody's. */
static ir_axes counted(struct elab *E, const struct ir_ins *v, const struct ir_ins *old, ir_axes axes, int depth)
{
	bool chooses_one = v->op == IR_MAX || v->op == IR_MIN;
	if (v == old)
		return 0;
	if (v->op == IR_DOT && v->flags & IR_ACC && v->args[2] == old)
		return axes & ~v->over;
	for (int i = 0; i < 2 && depth < 6 && (chooses_one || v->op == IR_ADD); i++) {
		ir_axes kept = counted(E, v->args[i], old, axes, depth + 1);
		if (kept != axes)
			return chooses_one ? kept : kept | (axes & ~origin_of(E, v->args[!i], NULL, -1).over);
	}
	return axes;
}

ir_axes tiles_counted(struct elab *E, const struct ir_ins *v, const struct ir_ins *old, ir_axes axes) { return axes ? counted(E, v, old, axes, 0) : 0; }

bool tiles_change(struct elab *E, const struct ir_ins *v, const struct ir_ins *from)
{
	return origin_of(E, v, from, -1).found;
}

ir_axes tiles_again(struct elab *E, const struct ir_ins *v, int tensor, ir_axes subscripts, ir_axes open)
{
	ir_axes again = 0;
	bool ragged = false;
	for (int a = 0; a < E->ph->naxes; a++) {
		const struct ir_axis *ax = &E->ph->axes[a];
		if (open & IR_AXIS(a) && ax->kind == AXIS_GRID)
			again |= IR_AXIS(a) & ~subscripts;
		ragged = ragged || (subscripts & IR_AXIS(a) && ax->ragged);
	}
	again = (ragged ? 0 : again) | tiles_unseen(E, v, open & ~subscripts);
	return again && origin_of(E, v, NULL, tensor).loaded ? again : 0;
}
