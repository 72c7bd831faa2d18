/* pass_specialise.c
 * Problem: a variant knows some extents; the IR still carries them as symbols.
 * Method:  pinned symbols become constants in instructions and in host expressions; cdiv and exact divisions fold.
 * Needs:   elaborated IR.   Keeps: values, under the variant's predicate. */
#include "pass.h"

static void replace_symbol(struct ir_ins *i, void *ctx)
{
	struct pass *p = ctx;
	if (i->op != IR_SYM)
		return;
	for (int n = 0; n < p->v->npins; n++)
		if (p->v->pins[n].symbol == i->imm) {
			i->op = IR_CONST;
			i->imm = p->v->pins[n].value;
			return;
		}
}

static const struct hexpr *pinned(struct pass *p, const struct hexpr *e)
{
	for (int n = 0; e && n < p->v->npins; n++)
		e = hexpr_subst(p->k->arena, e, p->v->pins[n].symbol, hexpr_const(p->k->arena, p->v->pins[n].value));
	return e;
}

int pass_specialise(struct pass *p)
{
	for (int i = 0; i < p->k->nparams; i++)
		for (int d = 0; d < p->k->params[i].rank; d++)
			p->k->params[i].extent[d] = pinned(p, p->k->params[i].extent[d]);
	FOR_PHASES(p, ph) {
		for (int a = 0; a < ph->naxes; a++) {
			ph->axes[a].extent = pinned(p, ph->axes[a].extent);
			ph->axes[a].ragged_total = pinned(p, ph->axes[a].ragged_total);
		}
		ir_walk(ph->body, replace_symbol, p);
	}
	return 0;
}
