/* pass_lanes.c
 * Problem: a sum that a loop scales and adds to, den = den * old + sum(p over j), is exchanged between lanes once a round.
 * Method:  each lane scales and adds up what it holds, and the lanes are summed up once, behind the loop: the sum of a round is taken by lane, along an
 *          axis that numbers the lanes, which what is carried has as well.
 * Needs:   layouts.   Keeps: values up to the order of sums. */
#include "pass.h"

/* next = carried * factor + sum, or carried + sum; none has another use. */
struct running { struct ir_ins *carried, *scaled, *sum, *next; int at; };

static bool is_sum(const struct ir_phase *ph, const struct ir_ins *i, int axis)
{
	return i->op == IR_REDUCE && i->kind == RED_SUM && i->dtype == DT_F32 && i->over == IR_AXIS(axis) && i->layout && i->args[0]->layout &&
	       !(i->flags & (IR_ANYORDER | IR_BY_LANE)) && i->args[0]->axes & IR_AXIS(axis) && !ir_crosses_cluster(ph, i);
}

static bool find(const struct ir_phase *ph, const struct ir_ins *loop, int at, const int *uses, struct running *r)
{
	double start;
	*r = (struct running){.carried = loop->body->params[at], .next = loop->body->last->args[at], .at = at};
	if (r->next->op != IR_ADD || r->next->block != loop->body || uses[r->next->id] != 1 || !ir_is_const(loop->args[2 + at], &start) || start != 0)
		return false;
	for (int a = 0; a < 2 && !r->sum; a++) {
		struct ir_ins *sum = r->next->args[a], *other = r->next->args[!a];
		bool scaled = other->op == IR_MUL && (other->args[0] == r->carried || other->args[1] == r->carried) && uses[other->id] == 1;
		if (!is_sum(ph, sum, (int)loop->imm) || (other != r->carried && !scaled) || sum->axes != r->carried->axes || other->axes != sum->axes)
			continue;
		r->sum = sum;
		r->scaled = scaled ? other : NULL;
	}
	return r->sum && uses[r->sum->id] == 1 && uses[r->carried->id] == 1 && r->sum->block == loop->body;
}

static struct ir_ins *result_of(const struct ir_ins *loop, int at)
{
	struct ir_ins *r = loop->next;
	while (r && !(r->op == IR_RESULT && r->args[0] == loop && r->imm == at))
		r = r->next;
	return r;
}

static void place(struct ir_ins *i, int axis, const struct layout *l)
{
	i->axes |= IR_AXIS(axis);
	i->layout = l;
}

static void keep_by_lane(struct pass *p, struct ir_phase *ph, struct ir_ins *loop, const struct running *r)
{
	const struct ir_axis *of = &ph->axes[loop->imm];
	struct arena *arena = p->k->arena;
	int lanes = ph->naxes;
	struct layout *l = layout_by_lane(arena, r->sum->args[0]->layout, r->sum->over, lanes);
	struct ir_ins *each = result_of(loop, r->at);
	if (!l || l->block[lanes] == 1 || !each)
		return;
	ph->axes[ph->naxes++] = (struct ir_axis){.name = arena_printf(arena, "%s.l", of->name), .kind = AXIS_HELD, .tile = l->block[lanes],
	                                         .extent = hexpr_const(arena, l->block[lanes]), .line = of->line, .col = of->col};
	const struct layout *whole = each->layout;
	r->sum->flags |= IR_BY_LANE;
	r->sum->imm = lanes;
	place(r->sum, lanes, l);
	place(r->carried, lanes, l);
	place(r->next, lanes, l);
	if (r->scaled)
		place(r->scaled, lanes, l);
	place(each, lanes, l);
	struct ir_builder b = pass_before(p, ph, each->next);
	struct ir_ins *all = ir_reduce(&b, RED_SUM, each, IR_AXIS(lanes), NULL);
	all->layout = whole;
	all->flags &= (uint8_t)~IR_ANYORDER;
	ir_replace(p->k, each, all);
	all->args[0] = each;
}

static void look_for_loops(struct pass *p, struct ir_phase *ph, struct ir_block *b, const int *uses)
{
	struct running r;
	for (struct ir_ins *i = b->first; i; i = i->next) {
		if (i->body)
			look_for_loops(p, ph, i->body, uses);
		if (i->other)
			look_for_loops(p, ph, i->other, uses);
		for (int at = 0; i->op == IR_FOR && at < i->body->nparams && ph->naxes < LAYOUT_AXES; at++)
			if (find(ph, i, at, uses, &r))
				keep_by_lane(p, ph, i, &r);
	}
}

int pass_lanes(struct pass *p)
{
	const int *uses = pass_uses(p->k->arena, p->k);
	FOR_PHASES(p, ph)
		look_for_loops(p, ph, ph->body, uses);
	return 0;
}
