/* pass_clean.c
 * Problem: passes leave equal and unused instructions behind.
 * Method:  equal pure instructions of a block, and of the blocks around it, become one (the earlier); loads count as pure where
 *          nobody writes the tensor.  Then what has no use is removed, until nothing is left to remove.
 * Needs:   any IR.   Keeps: values exactly. */
#include "pass.h"

#include <string.h>

static bool same(const struct ir_ins *a, const struct ir_ins *b)
{
	if (a->op != b->op || a->dtype != b->dtype || a->kind != b->kind || a->flags != b->flags || a->axes != b->axes ||
	    a->over != b->over || a->imm != b->imm || memcmp(&a->num, &b->num, sizeof a->num) || a->nargs != b->nargs)
		return false;
	for (int i = 0; i < a->nargs; i++)
		if (a->args[i] != b->args[i])
			return false;
	return true;
}

/* Merges equal pure instructions; the earlier one of the same block or of a block around it stays. */
static void merge(struct pass *p, struct ir_block *b, bool *written)
{
	for (struct ir_ins *i = b->first, *next; i; i = next) {
		next = i->next;
		if (i->body)
			merge(p, i->body, written);
		if (i->other)
			merge(p, i->other, written);
		if (!ir_is_pure(i) || (i->op == IR_LOAD && written[i->imm]))
			continue;
		struct ir_ins *first = NULL;
		for (struct ir_block *in = b; in && !first; in = in->owner ? in->owner->block : NULL) {
			struct ir_ins *from = i->prev;
			if (in != b) {
				struct ir_block *inner = b;
				while (inner->owner->block != in)
					inner = inner->owner->block;
				from = inner->owner->prev;
			}
			for (struct ir_ins *e = from; e && !first; e = e->prev)
				if (same(e, i))
					first = e;
		}
		if (first) {
			ir_replace(p->k, i, first);
			ir_remove(i);
		}
	}
}

static void remove_unused(struct ir_block *b, int *uses, bool *changed)
{
	for (struct ir_ins *i = b->last, *prev; i; i = prev) {
		prev = i->prev;
		if (i->body)
			remove_unused(i->body, uses, changed);
		if (i->other)
			remove_unused(i->other, uses, changed);
		if ((ir_is_pure(i) || i->op == IR_RESULT) && !uses[i->id]) {
			for (int a = 0; a < i->nargs; a++)
				uses[i->args[a]->id]--;
			ir_remove(i);
			*changed = true;
		}
	}
}

int pass_clean(struct pass *p)
{
	bool *written = arena_alloc(p->k->arena, sizeof(bool) * (size_t)(p->k->nparams + 1));
	for (int i = 0; i < p->k->nparams; i++)
		written[i] = p->k->params[i].role != IR_IN;
	FOR_PHASES(p, ph) {
		merge(p, ph->body, written);
	}
	bool changed = true;
	while (changed) {
		changed = false;
		int *uses = pass_uses(p->k->arena, p->k);
		FOR_PHASES(p, ph)
			remove_unused(ph->body, uses, &changed);
	}
	return 0;
}
