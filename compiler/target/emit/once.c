/* once.c -- which workgroup stores what many of them have.
 * In: a store whose place depends on none of some axes of the grid.  Out: the condition that a workgroup is the first along them.
 *
 * `y[m] = x[m]` below `n in N tiled` is the same for all n, so every tile of n has it, and as many workgroups would write to one place.  What
 * a place depends on is looked up through its subscripts, its mask, and the loops and branches that the store stands in. */
#include "machine.h"
#include "memory.h"
#include "../../affine.h"
#include "../../pass.h"

struct behind { bool *seen, *met; ir_axes axes; };           /* by number; met: as parts of masks */

static void look_behind(struct behind *b, const struct ir_ins *i);

/* State number `state` of a loop, result number `state` of a branch. */
static void look_behind_state(struct behind *b, const struct ir_ins *owner, int state)
{
	const struct ir_block *bodies[] = {owner->body, owner->other};
	bool loop = owner->op == IR_FOR;
	for (int a = 0; a < (loop ? 2 : 1); a++)
		look_behind(b, owner->args[a]);
	if (loop)
		look_behind(b, owner->args[2 + state]);
	for (int k = 0; k < 2; k++)
		if (bodies[k])
			look_behind(b, bodies[k]->last->args[state]);
}

/* The axes that what i computes may depend on. */
static void look_behind(struct behind *b, const struct ir_ins *i)
{
	int state = 0;
	if (b->seen[i->id])
		return;
	b->seen[i->id] = true;
	switch (i->op) {
	case IR_LIMIT:
		b->axes = ~(ir_axes)0;
		break;
	case IR_ARG:
		while (i->block->params[state] != i)
			state++;
		look_behind_state(b, i->block->owner, state);
		break;
	case IR_RESULT:
		look_behind_state(b, i->args[0], (int)i->imm);
		break;
	default:
		b->axes |= i->axes | i->over;
		for (int a = 0; a < i->nargs; a++)
			look_behind(b, i->args[a]);
	}
}

/* The same of a mask; that a tile's positions are below an end holds where an axis begins if it does anywhere. */
static void look_behind_mask(struct behind *b, const struct ir_ins *m)
{
	if (b->met[m->id])
		return;
	b->met[m->id] = true;
	struct affine at = m->op == IR_LT ? affine_of(m->args[0]) : (struct affine){.ok = false};
	bool rises = at.ok && !at.nterms;
	for (int a = 0; a < LAYOUT_AXES; a++)
		rises = rises && at.coef[a] >= 0;
	if (m->op == IR_AND) {
		look_behind_mask(b, m->args[0]);
		look_behind_mask(b, m->args[1]);
	} else if (rises) {
		look_behind(b, m->args[1]);
	} else {
		look_behind(b, m);
	}
}

struct reading { int64_t tensor; bool found; };

static void look_for_load(struct ir_ins *i, void *ctx)
{
	struct reading *r = ctx;
	r->found = r->found || (i->op == IR_LOAD && i->imm == r->tensor);
}

LLVMValueRef store_is_first(struct emit *e, const struct access *a)
{
	struct reading r = {a->i->imm, false};
	ir_walk(e->ph->body, look_for_load, &r);
	if (r.found)                                       /* each workgroup sees what it stored itself */
		return NULL;
	struct behind b = {arena_alloc(e->arena, (size_t)e->k->next_id), arena_alloc(e->arena, (size_t)e->k->next_id), 0};
	LLVMValueRef first = NULL;
	bool plain = true;
	for (int d = 0; d < a->t->rank; d++)
		look_behind(&b, a->i->args[d]);
	if (a->mask)
		look_behind_mask(&b, a->mask);
	for (const struct ir_ins *in = a->i->block->owner; in; in = in->block->owner)
		for (int n = 0; n < (in->op == IR_FOR ? 2 : 1); n++)
			look_behind(&b, in->args[n]);
	for (int x = 0; x < e->ph->naxes; x++)
		plain = plain && !e->ph->axes[x].ragged;
	for (int x = 0; plain && x < e->ph->naxes; x++)
		if (e->ph->axes[x].kind == AXIS_GRID && !(b.axes & IR_AXIS(x)))
			first = emit_both(e, first, LLVMBuildICmp(e->b, LLVMIntEQ, e->axis_base[x], emit_int(e, 0), ""));
	return first;
}
