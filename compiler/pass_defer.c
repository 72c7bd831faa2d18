/* pass_defer.c
 * Problem: a loop that sums up what its rounds reduce, acc += sum(part[p, n] over p), exchanges between lanes and waits for other waves once a round.
 * Method:  each element of a round's tile has an accumulator of its own, and what these have is reduced once, behind the loop.  Positions in the
 *          tile become those of a held axis, for a loop's own axis ends with it.
 * Needs:   tiles.   Keeps: values up to the order of sums. */
#include "absent.h"

/* The sum of the round that this value of the next round adds to what the loop carries; NULL = it is something else. */
static struct ir_ins *sum_added(const struct ir_ins *loop, int carried)
{
	const struct ir_ins *arg = loop->body->params[carried];
	struct ir_ins *next = loop->body->last->args[carried], *sum = NULL;
	for (int a = 0; next->op == IR_ADD && a < 2; a++)
		sum = next->args[a] == arg ? next->args[!a] : sum;
	bool alone = sum && sum->op == IR_REDUCE && sum->kind == RED_SUM && sum->dtype == DT_F32 && sum->over == IR_AXIS(loop->imm) && !(sum->flags & IR_PRODUCT);
	return alone && sum->block == loop->body ? sum : NULL;
}

struct look { const struct ir_ins *loop; int uses; bool ok; };

/* Of the loop's axis nothing is used but positions, and of what it carries nothing but in the sums. */
static void look_at(struct ir_ins *i, void *ctx)
{
	struct look *l = ctx;
	l->ok = l->ok && !i->body && (ir_is_pure(i) || i->op == IR_YIELD || i->op == IR_ARG) && i->op != IR_SCAN && i->op != IR_ARGMAX && i->op != IR_DOT;
	for (int a = 0; a < i->nargs; a++)
		l->uses += i->args[a]->op == IR_ARG && i->args[a]->block == l->loop->body;
	l->uses += i->op == IR_REDUCE && (i->over & IR_AXIS(l->loop->imm));
}

bool loop_is_of_sums(const struct ir_ins *loop)
{
	int n = loop->op == IR_FOR ? loop->body->nparams : 0;
	struct look l = {loop, 0, n > 0};
	for (int c = 0; l.ok && c < n; c++)
		l.ok = sum_added(loop, c);
	if (l.ok)
		ir_walk(loop->body, look_at, &l);
	return l.ok && l.uses == 2 * n;
}

static int add_held_axis(struct ir_phase *ph, struct arena *arena, const struct ir_axis *loop)
{
	ph->axes[ph->naxes] = (struct ir_axis){.name = arena_printf(arena, "%s.i", loop->name), .kind = AXIS_HELD, .tile = loop->tile,
	                                       .extent = hexpr_const(arena, loop->tile), .line = loop->line, .col = loop->col};
	return ph->naxes++;
}

static void defer(struct pass *p, struct ir_phase *ph, struct ir_ins *loop)
{
	struct ir_kernel *k = p->k;
	int axis = (int)loop->imm, held = add_held_axis(ph, k->arena, &ph->axes[axis]), n = loop->body->nparams;
	struct ir_builder in = pass_before(p, ph, loop->body->first), before = pass_before(p, ph, loop), behind = pass_before(p, ph, loop->next);
	struct ir_ins *first = ir_reduce(&in, RED_MIN, ir_leaf(&in, IR_IOTA, DT_I32, axis), IR_AXIS(axis), NULL);
	struct ir_ins *at = ir_bin(&in, IR_ADD, first, ir_leaf(&in, IR_IOTA, DT_I32, held));
	for (struct ir_ins *i = at->next, *next; i; i = next) {
		next = i->next;
		if (i->op == IR_IOTA && i->imm == axis) {
			ir_replace(k, i, at);
			ir_remove(i);
		} else if (i->axes & IR_AXIS(axis)) {
			i->axes = (i->axes & ~IR_AXIS(axis)) | IR_AXIS(held);
		}
	}
	for (int c = 0; c < n; c++) {
		struct ir_ins *sum = sum_added(loop, c), *arg = loop->body->params[c], *next = loop->body->last->args[c], *x = sum->args[0];
		struct ir_ins *mask = sum->flags & IR_MASKED ? sum->args[1] : NULL, *start = loop->args[2 + c], *result = NULL;
		in = pass_before(p, ph, next);
		if (mask && absent_value(x, mask) != PLUS_ZERO)
			x = ir_select(&in, mask, x, ir_float(&in, DT_F32, 0));
		arg->axes |= IR_AXIS(held);
		struct ir_ins *more = ir_bin(&in, IR_ADD, arg, x);
		ir_replace(k, next, more);
		ir_remove(next);
		ir_remove(sum);
		loop->args[2 + c] = ir_float(&before, DT_F32, 0);
		for (struct ir_ins *r = loop->next; r && !result; r = r->next)
			result = r->op == IR_RESULT && r->args[0] == loop && r->imm == c ? r : NULL;
		if (!result)
			continue;
		behind.before = result;
		struct ir_ins *each = ir_result(&behind, loop, c);
		struct ir_ins *all = ir_reduce(&behind, RED_SUM, each, IR_AXIS(held), NULL);
		bool nothing = start->op == IR_CONST && start->num == 0;
		ir_replace(k, result, nothing ? all : ir_bin(&behind, IR_ADD, start, all));
		ir_remove(result);
	}
}

static void look_for_loops(struct pass *p, struct ir_phase *ph, struct ir_block *b)
{
	for (struct ir_ins *i = b->first, *next; i; i = next) {
		next = i->next;
		if (i->body)
			look_for_loops(p, ph, i->body);
		if (i->other)
			look_for_loops(p, ph, i->other);
		if (loop_is_of_sums(i) && ph->naxes < LAYOUT_AXES)
			defer(p, ph, i);
	}
}

int pass_defer(struct pass *p)
{
	FOR_PHASES(p, ph)
		look_for_loops(p, ph, ph->body);
	return 0;
}
