/* pass_unroll.c
 * Problem: a loop that loads and adds, as that over partial sums of columns, waits for memory once a round: 256 rounds took longer than all that
 *          they sum up.
 * Method:  a round takes several positions of the loop: first it loads for all of them, then it does for one after the other what waits for the
 *          round before.  Positions beyond the end load nothing and leave the values that the loop carries as they are.
 * Needs:   tiles.   Keeps: values exactly. */
#include "pass.h"

/* Loads of a lane that a round waits for at once, and instructions of it at most. */
enum { AT_ONCE = 32, MOST_CODE = 64 };

/* What a loop's body is: which of it needs the values that the loop carries (by id), how many loads and other instructions there are, and whether it is
 * nothing else than arithmetic on them at one position. */
struct round { struct ir_ins *loop; bool *late; int loads, code; bool plain; };

static bool is_position(const struct round *r, const struct ir_ins *i)
{
	return i->op == IR_IOTA && i->imm == r->loop->imm;
}

static void look_at(struct round *r, const struct ir_ins *i)
{
	bool bound = ir_is_tile_bound(i) && is_position(r, i->args[0]), needs = false;
	for (int a = 0; a < i->nargs; a++) {
		bool carried = i->args[a]->op == IR_ARG && i->args[a]->block == r->loop->body;
		needs = needs || carried || r->late[i->args[a]->id];
		r->plain = r->plain && (bound || !is_position(r, i->args[a]));
	}
	r->late[i->id] = needs;
	r->loads += i->op == IR_LOAD;
	r->code += !bound && i->op != IR_CONST && !is_position(r, i);
	r->plain = r->plain && ir_is_pure(i) && !i->body && (bound || (i->op != IR_REDUCE && i->op != IR_DOT && i->op != IR_SCAN && i->op != IR_ARGMAX)) &&
	           !(i->op == IR_LOAD && needs);
}

/* How many positions a round takes; 1: as it is. */
static int positions_of(struct pass *p, const struct ir_phase *ph, struct round *r)
{
	const struct ir_axis *ax = &ph->axes[r->loop->imm];
	int64_t lane = 1;
	r->late = arena_alloc(p->k->arena, sizeof *r->late * (size_t)p->k->next_id);
	r->loads = r->code = 0;
	r->plain = ax->kind == AXIS_LOOP && ax->tile == 1 && r->loop->args[0]->op == IR_CONST && !r->loop->args[0]->imm;
	for (const struct ir_ins *i = r->loop->body->first; r->plain && i->op != IR_YIELD; i = i->next)
		look_at(r, i);
	for (int a = 0; a < ph->naxes; a++)
		lane *= ph->axes[a].kind == AXIS_LOOP || !ph->axes[a].tile ? 1 : ph->axes[a].tile;
	lane /= p->v->target->wave * p->v->waves;
	if (!r->plain || !r->loads)
		return 1;
	lane = lane > 1 ? lane : 1;
	int n = (int)(AT_ONCE / (r->loads * lane)), most = (int)(MOST_CODE / (r->code * lane));
	n = n < most ? n : most;
	return n > 1 ? n : 1;
}

/* The instruction at a position of the round, of operands there. */
static struct ir_ins *at_position(struct ir_builder *b, const struct ir_ins *i, struct ir_ins *const *map, struct ir_ins *inside)
{
	struct ir_ins **args = arena_alloc(b->k->arena, sizeof *args * (size_t)(i->nargs + 1)), *c;
	for (int a = 0; a < i->nargs; a++)
		args[a] = map[i->args[a]->id] ? map[i->args[a]->id] : i->args[a];
	b->line = i->line;
	b->col = i->col;
	if (i->op != IR_LOAD)
		return ir_copy(b, i, args);
	int subs = i->nargs - !!(i->flags & IR_MASKED);
	c = ir_load(b, (int)i->imm, args, i->flags & IR_MASKED ? ir_bin(b, IR_AND, args[subs], inside) : inside);
	c->flags |= i->flags;
	return c;
}

static void unroll(struct pass *p, struct ir_phase *ph, const struct round *r, int n)
{
	struct ir_kernel *k = p->k;
	struct ir_ins *loop = r->loop, *end = loop->args[1];
	struct ir_builder before = pass_before(p, ph, loop);
	int ids = k->next_id, carried = loop->body->nparams;
	struct ir_ins *rounds = ir_cdiv(&before, end, ir_int(&before, DT_I32, n), true);
	struct ir_ins *by = ir_for(&before, (int)loop->imm, loop->args[0], rounds, &loop->args[2], carried);
	struct ir_builder in = {k, ph, by->body, NULL, loop->line, loop->col};
	struct ir_ins *first = ir_bin(&in, IR_MUL, ir_reduce(&in, RED_MAX, ir_leaf(&in, IR_IOTA, DT_I32, loop->imm), IR_AXIS(loop->imm), NULL), ir_int(&in, DT_I32, n));
	struct ir_ins **map = arena_alloc(k->arena, sizeof *map * (size_t)ids * (size_t)n), **inside = arena_alloc(k->arena, sizeof *inside * (size_t)n);
	struct ir_ins **values = arena_alloc(k->arena, sizeof *values * (size_t)(carried + 1));
	for (int c = 0; c < carried; c++) {
		by->body->params[c]->axes = loop->body->params[c]->axes;
		values[c] = by->body->params[c];
	}
	for (int u = 0; u < n; u++) {
		struct ir_ins **here = map + (size_t)u * (size_t)ids, *at = ir_bin(&in, IR_ADD, first, ir_int(&in, DT_I32, u));
		inside[u] = ir_bin(&in, IR_LT, at, end);
		for (const struct ir_ins *i = loop->body->first; i->op != IR_YIELD; i = i->next)
			if (!r->late[i->id] && !is_position(r, i))
				here[i->id] = ir_is_tile_bound(i) ? at : at_position(&in, i, here, inside[u]);
	}
	for (int u = 0; u < n; u++) {
		struct ir_ins **here = map + (size_t)u * (size_t)ids;
		const struct ir_ins *last = loop->body->last;
		for (int c = 0; c < carried; c++)
			here[loop->body->params[c]->id] = values[c];
		for (const struct ir_ins *i = loop->body->first; i != last; i = i->next)
			if (r->late[i->id])
				here[i->id] = at_position(&in, i, here, inside[u]);
		for (int c = 0; c < carried; c++) {
			struct ir_ins *next = here[last->args[c]->id] ? here[last->args[c]->id] : last->args[c];
			values[c] = ir_select(&in, inside[u], next, here[loop->body->params[c]->id]);
		}
	}
	ir_yield(&in, values, carried);
	ir_replace(k, loop, by);
	ir_remove(loop);
}

static void look_for_loops(struct pass *p, struct ir_phase *ph, struct ir_block *b)
{
	for (struct ir_ins *i = b->first, *next; i; i = next) {
		struct round r = {.loop = i};
		next = i->next;
		if (i->body)
			look_for_loops(p, ph, i->body);
		if (i->other)
			look_for_loops(p, ph, i->other);
		int n = i->op == IR_FOR ? positions_of(p, ph, &r) : 1;
		if (n > 1)
			unroll(p, ph, &r, n);
	}
}

int pass_unroll(struct pass *p)
{
	FOR_PHASES(p, ph)
		look_for_loops(p, ph, ph->body);
	return 0;
}
