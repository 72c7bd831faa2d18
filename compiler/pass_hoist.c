/* pass_hoist.c
 * Problem: elaboration leaves in a loop what does not change in it: the query tile of attention would be loaded once per key tile.
 * Method:  a pure instruction whose operands come from outside the loop moves in front of it; so do loads of tensors that the kernel
 *          never writes (a masked load is safe where the loop runs zero times).  acc + dot becomes a dot that starts from acc: the
 *          order of a dot is free until layouts fix it.
 * Needs:   simplified IR.   Keeps: values up to the order of dots. */
#include "pass.h"

static bool inside(const struct ir_ins *v, const struct ir_block *body)
{
	for (const struct ir_block *b = v->block; b; b = b->owner ? b->owner->block : NULL)
		if (b == body)
			return true;
	return false;
}

static bool depends_on_axis(const struct ir_ins *i, int axis)
{
	return (i->axes | i->over) & IR_AXIS(axis);
}

static void hoist(struct pass *p, struct ir_block *b)
{
	for (struct ir_ins *i = b->first, *next; i; i = next) {
		next = i->next;
		if (i->body)
			hoist(p, i->body);
		if (i->other)
			hoist(p, i->other);
		if (i->op != IR_FOR)
			continue;
		for (struct ir_ins *x = i->body->first, *after; x; x = after) {
			after = x->next;
			bool stays = !ir_is_pure(x) || depends_on_axis(x, (int)i->imm) ||
			             (x->op == IR_LOAD && p->k->params[x->imm].role != IR_IN);
			for (int a = 0; a < x->nargs && !stays; a++)
				stays = inside(x->args[a], i->body);
			if (!stays)
				ir_move(x, i);
		}
	}
}

struct fold { struct pass *p; struct ir_phase *ph; int *uses; };

static void fold_accumulator(struct ir_ins *i, void *ctx)
{
	struct fold *f = ctx;
	if (i->op != IR_ADD)
		return;
	for (int side = 0; side < 2; side++) {
		struct ir_ins *dot = i->args[side], *acc = i->args[!side];
		if (dot->op != IR_DOT || (dot->flags & IR_ACC) || f->uses[dot->id] != 1 || dot->axes != acc->axes || dot->block != i->block)
			continue;
		struct ir_builder b = pass_before(f->p, f->ph, i);
		struct ir_ins *r = ir_dot(&b, dot->args[0], dot->args[1], dot->over, acc);
		ir_replace(f->p->k, i, r);
		ir_remove(i);
		ir_remove(dot);
		return;
	}
}

int pass_hoist(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct fold f = {p, ph, pass_uses(p->k->arena, p->k)};
		hoist(p, ph->body);
		ir_walk(ph->body, fold_accumulator, &f);
	}
	return 0;
}
