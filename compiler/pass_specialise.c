/* pass_specialise.c
 * Problem: a variant knows some extents, and of some optional tensors whether they are there; the IR still carries both as unknown.
 * Method:  pinned symbols become constants in instructions and in host expressions; cdiv and exact divisions fold.  `has` becomes a
 *          constant, an `if` on it one of its sides, an absent tensor's element a constant without axes; what is stored to an absent tensor goes, and with it workspace that nobody
 *          reads any more and launches that store nothing.
 * Needs:   elaborated IR.   Keeps: values, under the variant's predicate. */
#include "pass.h"

static bool is_absent(const struct pass *p, int64_t param)
{
	return p->v->absent >> param & 1;
}

static void replace_leaf(struct ir_ins *i, void *ctx)
{
	struct pass *p = ctx;
	for (int n = 0; i->op == IR_SYM && n < p->v->npins; n++)
		if (p->v->pins[n].symbol == i->imm) {
			i->op = IR_CONST;
			i->imm = p->v->pins[n].value;
			return;
		}
	if (i->op == IR_HAS && (is_absent(p, i->imm) || p->v->given >> i->imm & 1)) {
		i->op = IR_CONST;
		i->imm = !is_absent(p, i->imm);
	}
	if (i->op == IR_LOAD && is_absent(p, i->imm)) {      /* what stands behind a `has` that is false */
		i->op = IR_CONST;
		i->imm = i->nargs = i->flags = 0;
		i->axes = 0;
	}
}

static const struct hexpr *pinned(struct pass *p, const struct hexpr *e)
{
	for (int n = 0; e && n < p->v->npins; n++)
		e = hexpr_subst(p->k->arena, e, p->v->pins[n].symbol, hexpr_const(p->k->arena, p->v->pins[n].value));
	return e;
}

/* An `if` without results on a constant: its side stands in its place. */
static void settle(struct ir_ins *i, void *ctx)
{
	if (i->op != IR_IF || i->args[0]->op != IR_CONST || (i->body->last && i->body->last->nargs))
		return;
	struct ir_block *side = i->args[0]->imm ? i->body : i->other;
	ir_walk(side, settle, ctx);
	for (struct ir_ins *x = side->first, *next; x && x->op != IR_YIELD; x = next) {
		next = x->next;
		ir_move(x, i);
	}
	ir_remove(i);
}

struct needs { struct pass *p; bool loaded[MODEL_MAX_PARAM * 2], stored[MODEL_MAX_PARAM * 2], dropped; };

static void note_loads(struct ir_ins *i, void *ctx)
{
	struct needs *n = ctx;
	if (i->op == IR_LOAD || i->op == IR_UPDATE)
		n->loaded[i->imm] = true;
}

/* Stores that nobody can see. */
static void drop_store(struct ir_ins *i, void *ctx)
{
	struct needs *n = ctx;
	if (i->op != IR_STORE && i->op != IR_UPDATE)
		return;
	if (is_absent(n->p, i->imm) || (n->p->k->params[i->imm].role == IR_TEMP && !n->loaded[i->imm])) {
		n->dropped = true;
		ir_remove(i);
	} else {
		n->stored[i->imm] = true;
	}
}

static void drop_absent(struct pass *p)
{
	struct needs n;
	int kept = 0;
	do {
		n = (struct needs){.p = p};
		FOR_PHASES(p, ph)
			if (ir_stores(ph->body))
				ir_walk(ph->body, note_loads, &n);
		FOR_PHASES(p, ph)
			ir_walk(ph->body, drop_store, &n);
		pass_clean(p);
	} while (n.dropped);
	FOR_PHASES(p, ph)
		if (ir_stores(ph->body))
			p->k->phases[kept++] = *ph;
	if (kept)
		p->k->nphases = kept;
	for (int i = 0; i < p->k->nparams; i++)
		for (int d = 0; p->k->params[i].role == IR_TEMP && !n.stored[i] && d < p->k->params[i].rank; d++)
			p->k->params[i].extent[d] = hexpr_const(p->k->arena, 0);
}

/* next: perhaps the axis of positions in groups that this one numbers. */
static void pin_extent(struct pass *p, struct ir_axis *ax, const struct ir_axis *next)
{
	const struct hexpr *n = ax->extent;
	int64_t by;
	ax->extent = pinned(p, n);
	bool groups = n && n->op == HX_CDIV && ax->extent->op == HX_CONST && hexpr_is_const(n->b, &by) && next && next->kind == AXIS_HELD && next->tile == by;
	ax->grouped = groups ? pinned(p, n->a) : ax->grouped;
}

int pass_specialise(struct pass *p)
{
	for (int i = 0; i < p->k->nparams; i++)
		for (int d = 0; d < p->k->params[i].rank; d++)
			p->k->params[i].extent[d] = pinned(p, p->k->params[i].extent[d]);
	FOR_PHASES(p, ph) {
		for (int a = 0; a < ph->naxes; a++) {
			pin_extent(p, &ph->axes[a], a + 1 < ph->naxes ? &ph->axes[a + 1] : NULL);
			ph->axes[a].ragged_total = pinned(p, ph->axes[a].ragged_total);
		}
		ir_walk(ph->body, replace_leaf, p);
		ir_walk(ph->body, settle, p);
		ir_walk(ph->body, ir_recompute_axes, NULL);
	}
	if (p->v->absent)
		drop_absent(p);
	return 0;
}
