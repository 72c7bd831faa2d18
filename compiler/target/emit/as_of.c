/* as_of.c -- a loop's body as it is in another round than the one that is written.
 * In: a loop, a position along its axis.  Out: the axis's base and the body's scalars are that round's, so that its loads and their masks, once written,
 * are; and as they were. */
#include "emit.h"

#include "../../pass.h"

/* Of the body's instructions those that are made of positions and of what is known in front of the loop. */
static const bool *scalars_of(const struct emit *e, const struct ir_block *body)
{
	bool *known = arena_alloc(e->arena, sizeof *known * (size_t)(e->k->next_id + 1));
	for (const struct ir_ins *i = body->first; i; i = i->next) {
		known[i->id] = (!i->axes || i->op == IR_IOTA) && i->op != IR_LOAD && ir_is_pure(i);
		for (int a = 0; known[i->id] && a < i->nargs; a++)
			known[i->id] = i->args[a]->op != IR_ARG && (i->args[a]->block != body || known[i->args[a]->id]);
	}
	for (const struct ir_ins *i = body->first; i; i = i->next)
		known[i->id] = known[i->id] && !i->axes;
	return known;
}

struct as_of round_set(struct emit *e, const struct ir_ins *loop, LLVMValueRef at)
{
	struct as_of was = {NULL, scalars_of(e, loop->body), e->axis_base[loop->imm], index_mark(e)};
	int n = 0;
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		n += was.scalar[i->id];
	was.values = arena_alloc(e->arena, sizeof *was.values * (size_t)(n + 1));
	e->axis_base[loop->imm] = at;
	n = 0;
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		if (was.scalar[i->id]) {
			was.values[n++] = e->values[i->id];
			emit_instruction(e, i);
		}
	return was;
}

void round_set_back(struct emit *e, const struct ir_ins *loop, const struct as_of *was)
{
	int n = 0;
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		if (was->scalar[i->id])
			e->values[i->id] = was->values[n++];
	index_release(e, was->mark);
	e->axis_base[loop->imm] = was->base;
}
