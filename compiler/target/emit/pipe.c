/* pipe.c -- operands of products, loaded a round before they are used.
 * In: a loop with products, whose plan says so (variant.piped).  Out: what a round loads at positions known in front of the loop is asked for where
 * the round before has used up its own, so that it is on its way while that one computes; the first round's in front of the loop, where it
 * runs at all.  The last round asks for its own once more: there is none behind it, and nothing else is known to be there.
 * Registers are what it takes, so many for each operand: where they do not suffice the variant is built without (variant_fit.c). */
#include "emit.h"

#include "../../pass.h"

/* Known in front of the loop but for the position of the round. */
static bool is_known(const struct ir_ins *loop, const struct ir_ins *i)
{
	if (i->block != loop->body)
		return true;
	if (i->op == IR_ARG || i->op == IR_LOAD || i->layout || !ir_is_pure(i) || (i->op == IR_REDUCE && !ir_is_tile_bound(i)))
		return false;
	for (int a = 0; a < i->nargs; a++)
		if (!is_known(loop, i->args[a]))
			return false;
	return true;
}

/* The last instruction of the body that uses it; NULL where one within an inner block does. */
static const struct ir_ins *last_user(const struct emit *e, const struct ir_ins *loop, const struct ir_ins *of)
{
	const struct ir_ins *last = NULL;
	int here = 0;
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		for (int a = 0; a < i->nargs; a++)
			if (i->args[a] == of) {
				last = i;
				here++;
			}
	return here == e->uses[of->id] ? last : NULL;
}

/* Each round's is another. */
static bool varies(const struct ir_ins *loop, const struct ir_ins *i)
{
	bool moves = i->op == IR_IOTA && i->imm == loop->imm;
	for (int a = 0; !moves && i->block == loop->body && a < i->nargs; a++)
		moves = varies(loop, i->args[a]);
	return moves;
}

/* An operand of a product on its way to group memory, or what it is scaled by. */
static bool is_of_operand(const struct emit *e, const struct ir_ins *loop, const struct ir_ins *i)
{
	const struct ir_ins *last = last_user(e, loop, i);
	while (last && last->op != IR_RELAYOUT)
		last = ir_is_pure(last) && last->layout && last->axes && (!last->over || last->op == IR_REPEAT || last->op == IR_PACK) ? last_user(e, loop, last) : NULL;
	return last;
}

static bool is_piped(const struct emit *e, const struct ir_ins *loop, const struct ir_ins *i)
{
	bool loads = i->op == IR_LOAD && i->layout && !(i->flags & IR_STAGED) && !quads_bring(e, i) && e->k->params[i->imm].role == IR_IN && varies(loop, i);
	for (int a = 0; loads && a < i->nargs; a++)
		loads = is_known(loop, i->args[a]);
	return loads && is_of_operand(e, loop, i);
}

bool pipe_enter_loop(struct emit *e, struct pipe *p, const struct ir_ins *loop)
{
	*p = (struct pipe){.loop = loop, .around = e->pipe};
	int n = 0;
	if (!e->v->piped)
		return false;
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		n += i->op == IR_LOAD;
	p->piped = arena_alloc(e->arena, sizeof *p->piped * (size_t)(n + 1));
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		if (is_piped(e, loop, i))
			p->piped[p->n++] = (struct piped){.load = i, .last = last_user(e, loop, i)};
	return p->n;
}

/* What the load brings in the round at that position. */
static LLVMValueRef *load_of_round(struct emit *e, const struct pipe *p, const struct ir_ins *load, LLVMValueRef at)
{
	struct value this_round = e->values[load->id];
	index_forget(e);
	struct as_of was = round_set(e, p->loop, at);
	e->values[load->id].early = false;
	emit_load(e, load);
	LLVMValueRef *group = e->values[load->id].group;
	round_set_back(e, p->loop, &was);
	index_forget(e);
	if (p->at)
		e->values[load->id] = this_round;
	return group;
}

void pipe_load_first(struct emit *e, struct pipe *p, LLVMValueRef start)
{
	for (int n = 0; n < p->n; n++)
		load_of_round(e, p, p->piped[n].load, start);
}

void pipe_begin_round(struct emit *e, struct pipe *p, LLVMValueRef at, LLVMValueRef end)
{
	for (int n = 0; n < p->n; n++) {
		struct value *v = &e->values[p->piped[n].load->id];
		for (int g = 0; g < v->ngroups; g++) {
			LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(v->group[g]), "");
			LLVMAddIncoming(phi, &v->group[g], &e->before_loop, 1);
			v->group[g] = phi;
		}
		v->early = true;
	}
	p->at = at;
	p->end = end;
	e->pipe = p;
}

void pipe_behind(struct emit *e, const struct ir_ins *i)
{
	struct pipe *p = e->pipe;
	for (int n = 0; p && n < p->n && !e->failed; n++) {
		if (p->piped[n].last != i)
			continue;
		LLVMValueRef next = LLVMBuildAdd(e->b, p->at, emit_int(e, e->ph->axes[p->loop->imm].tile), "");
		LLVMValueRef there = LLVMBuildICmp(e->b, LLVMIntSLT, next, p->end, "");
		p->piped[n].group = load_of_round(e, p, p->piped[n].load, LLVMBuildSelect(e->b, there, next, p->at, ""));
	}
}

void pipe_leave_loop(struct emit *e, struct pipe *p, LLVMBasicBlockRef latch)
{
	for (int n = 0; n < p->n; n++) {
		struct value *v = &e->values[p->piped[n].load->id];
		for (int g = 0; g < v->ngroups; g++)
			LLVMAddIncoming(v->group[g], &p->piped[n].group[g], &latch, 1);
		v->early = false;
	}
	e->pipe = p->around;
}
