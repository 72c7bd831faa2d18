/* growth.c -- where a loop's loads lie from round to round, by additions.
 * In: loads of a loop's body, two rounds that follow each other.  Out: for each the address that all lanes have in common in the first of them and by how
 * much it grows, so that the loop carries it and does not make it anew in each round, of what would fill registers. */
#include "machine.h"
#include "memory.h"

#include "../../pass.h"

/* Grows by the same from round to round, or not at all. */
static bool grows_evenly(const struct ir_ins *loop, const struct ir_ins *i, bool *grows)
{
	bool even = true, some[2] = {false, false};
	*grows = i->op == IR_IOTA && i->imm == loop->imm;
	if (i->block != loop->body || i->op == IR_IOTA)
		return true;
	for (int a = 0; a < i->nargs; a++) {
		even = even && grows_evenly(loop, i->args[a], &some[a != 0]);
		*grows = *grows || some[a != 0];
	}
	bool known = i->op == IR_ADD || i->op == IR_SUB || i->op == IR_REDUCE || (i->op == IR_MUL && !(some[0] && some[1]));
	return even && (known || !*grows);
}

void growth_find(struct emit *e, const struct ir_ins *loop, const struct ir_ins *const *loads, int n, const LLVMValueRef round[2], struct growth *g)
{
	for (int r = 0; r < 2; r++) {
		struct as_of was = round_set(e, loop, round[r]);
		for (int k = 0; k < n; k++) {
			struct access a;
			bool even = true, grows;
			for (int d = 0; d < e->k->params[loads[k]->imm].rank; d++)
				even = even && grows_evenly(loop, loads[k]->args[d], &grows);
			access_open(e, &a, loads[k], loads[k]->layout);
			LLVMValueRef at = even && a.all && !a.step && !a.fold && !a.t->list ? LLVMBuildPtrToInt(e->b, a.all, e->i64, "") : NULL;
			g[k].by = r && at ? LLVMBuildSub(e->b, at, g[k].at, "") : NULL;
			g[k].at = r ? g[k].at : at;
		}
		round_set_back(e, loop, &was);
	}
}

void growth_take(struct emit *e, const struct growth *g, struct access *a)
{
	LLVMValueRef lane = LLVMBuildZExt(e->b, a->lane, e->i64, "");
	a->all = LLVMBuildIntToPtr(e->b, emit_carried(e, g->at, g->by), LLVMTypeOf(a->base), "");
	a->base = a->joined ? a->all : LLVMBuildGEP2(e->b, e->i8, a->all, &lane, 1, "");
}
