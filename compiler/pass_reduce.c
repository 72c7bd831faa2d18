/* pass_reduce.c
 * Problem: each reduction over a row costs a round of lane exchanges and, across waves, a barrier.
 * Method:  (1) max |a * b| over n with b = rsqrt(..) free of n is b * max |a|: rounding is monotone and b is not negative, so the
 *          result is the same number (where b is infinite or NaN both give a value that `top > 0` rejects: numerics.md).
 *          (2) a sum of products accumulates by fma: the one place where a product is not rounded before it is added.
 *          (3) instructions of a block are ordered by the number of reductions they depend on, reductions last in their level, so
 *          that independent reductions stand side by side and share one round.
 * Needs:   simplified IR.   Keeps: values exactly but for (2). */
#include "layout_choose.h"
#include "pass.h"

#include <string.h>

struct reduce { struct pass *p; struct ir_phase *ph; int *uses; };

static void one_round(struct ir_ins *i, void *ctx)
{
	struct reduce *r = ctx;
	if (i->op != IR_REDUCE || i->kind != RED_MAX || i->args[0]->op != IR_ABS)
		return;
	struct ir_ins *m = i->args[0]->args[0];
	if (m->op != IR_MUL)
		return;
	for (int side = 0; side < 2; side++) {
		struct ir_ins *a = m->args[side], *b = m->args[!side];
		if (b->op != IR_RSQRT || (b->axes & i->over) || (a->axes & i->over) != i->over)
			continue;
		struct ir_builder at = pass_before(r->p, r->ph, i);
		struct ir_ins *mask = i->flags & IR_MASKED ? i->args[i->nargs - 1] : NULL;
		struct ir_ins *top = ir_reduce(&at, RED_MAX, ir_un(&at, IR_ABS, a), i->over, mask);
		struct ir_ins *by = ir_bin(&at, IR_MUL, top, b);
		ir_replace(r->p->k, i, by);
		ir_remove(i);
		return;
	}
}

static void sum_of_products(struct ir_ins *i, void *ctx)
{
	struct reduce *r = ctx;
	if (i->op != IR_REDUCE || i->kind != RED_SUM || (i->flags & IR_PRODUCT) || i->dtype != DT_F32)
		return;
	struct ir_ins *m = i->args[0];
	if (m->op != IR_MUL || r->uses[m->id] != 1)
		return;
	ir_axes wide = wide_axes(r->ph, m->axes);
	int all = wide_axes(r->ph, m->args[0]->axes) == wide ? 0 : 1;   /* the operand that has every axis decides the order */
	if (wide_axes(r->ph, m->args[all]->axes) != wide || (m->args[0]->axes & m->args[1]->axes & i->over) != i->over)
		return;
	struct ir_ins **args = arena_alloc(r->p->k->arena, 3 * sizeof *args);
	args[0] = m->args[all];
	args[1] = m->args[!all];
	if (i->flags & IR_MASKED)
		args[2] = i->args[1];
	i->args = args;
	i->nargs++;
	i->flags |= IR_PRODUCT;
}

static int level_of_args(struct ir_block *b, const int *level)
{
	int most = 0;
	for (struct ir_ins *i = b->first; i; i = i->next) {
		for (int a = 0; a < i->nargs; a++)
			if (level[i->args[a]->id] > most)
				most = level[i->args[a]->id];
		for (int s = 0; s < 2; s++) {
			struct ir_block *in = s ? i->other : i->body;
			int inner = in ? level_of_args(in, level) : 0;
			most = inner > most ? inner : most;
		}
	}
	return most;
}

/* Key of an instruction in its block: twice the reductions it waits for, plus one for a reduction itself. */
static void order_block(struct reduce *r, struct ir_block *b)
{
	struct arena *arena = r->p->k->arena;
	int *level = arena_alloc(arena, sizeof(int) * (size_t)(r->p->k->next_id + 1));
	int *memory = arena_alloc(arena, sizeof(int) * (size_t)(r->p->k->nparams + 1));
	int n = 0, top = 0;
	for (struct ir_ins *i = b->first; i; i = i->next, n++) {
		int l = 0;
		for (int a = 0; a < i->nargs; a++)
			l = level[i->args[a]->id] > l ? level[i->args[a]->id] : l;
		for (int s = 0; s < 2; s++) {
			struct ir_block *in = s ? i->other : i->body;
			if (!in)
				continue;
			order_block(r, in);
			int inner = level_of_args(in, level);
			l = inner > l ? inner : l;
		}
		bool inside = i->op == IR_FOR || i->op == IR_IF; /* effects keep their order on each tensor: no two share memory */
		bool effect = i->op == IR_STORE || i->op == IR_UPDATE || (i->op == IR_LOAD && r->p->k->params[i->imm].role != IR_IN);
		for (int t = 0; t < r->p->k->nparams; t++)
			if (inside || (effect && t == i->imm))
				l = memory[t] > l ? memory[t] : l;
		if (i->op == IR_YIELD)
			l = 1 << 28;
		if (i->op == IR_REDUCE)
			l += 1;
		level[i->id] = l;
		if (i->op == IR_REDUCE)
			level[i->id] = l + 1;             /* users wait */
		for (int t = 0; t < r->p->k->nparams; t++)
			if (inside || (effect && t == i->imm))
				memory[t] = l;
		i->note = (void *)(intptr_t)l;
		if (l < 1 << 28)
			top = l > top ? l : top;
	}
	/* Stable: by level, reductions (odd keys) after what they stand beside. */
	struct ir_ins **sorted = arena_alloc(arena, sizeof *sorted * (size_t)(n + 1));
	int k = 0;
	for (int l = 0; l <= top; l++)
		for (struct ir_ins *i = b->first; i; i = i->next)
			if ((intptr_t)i->note == l)
				sorted[k++] = i;
	for (struct ir_ins *i = b->first; i; i = i->next)
		if ((intptr_t)i->note == 1 << 28)
			sorted[k++] = i;
	b->first = b->last = NULL;
	for (int i = 0; i < k; i++)
		ir_append(b, sorted[i]);
}

int pass_reduce(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct reduce r = {p, ph, NULL};
		ir_walk(ph->body, one_round, &r);
		pass_simplify(p);
		r.uses = pass_uses(p->k->arena, p->k);
		ir_walk(ph->body, sum_of_products, &r);
		pass_clean(p);
		order_block(&r, ph->body);
	}
	return 0;
}
