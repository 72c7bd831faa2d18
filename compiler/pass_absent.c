/* pass_absent.c
 * Problem: a reduction whose operand is something else than zero behind the end of its axis, as x - mean(x) is, is masked element by element:
 *          a select each, of six instructions that an element of a LayerNorm takes.
 * Method:  what makes the operand something else is often one for all elements: the mean, a factor, what is added to a weight.  Where the
 *          mask is one for several elements side by side, these are selected instead, to be zero behind the end: one select for a whole
 *          access, after which the operand is zero there by itself.
 * Needs:   ordered reductions.   Keeps: values exactly, of all positions that there are. */
#include "absent.h"

enum { SIDE_BY_SIDE = 4 };      /* elements that share a mask, from which on it pays */

struct absence { struct pass *p; struct ir_phase *ph; struct ir_ins *mask; bool made; };

static bool settle(struct absence *, struct ir_ins *, enum absent needed, bool make);

/* Operand `a` of i is so, or can be made so. */
static bool settle_operand(struct absence *s, struct ir_ins *i, int a, enum absent needed, bool make)
{
	struct ir_ins *x = i->args[a];
	if (settle(s, x, needed, make))
		return true;
	if (!dtype_is_float(x->dtype) || (x->axes & s->mask->axes))
		return false;
	if (make) {
		struct ir_builder at = pass_before(s->p, s->ph, i);
		struct ir_ins *zero = ir_float(&at, (enum dtype)x->dtype, 0);
		i->args[a] = ir_select(&at, s->mask, x, zero);
		s->made = true;
	}
	return true;
}

/* i is `needed` where the mask is false, or can be made so; with `make` it is, if it can be. */
static bool settle(struct absence *s, struct ir_ins *i, enum absent needed, bool make)
{
	if (absent_value(i, s->mask) >= needed)
		return true;
	if (!(i->axes & s->mask->axes))
		return false;
	switch (i->op) {
	case IR_ABS:
		return settle_operand(s, i, 0, ANY_ZERO, make);
	case IR_CVT: case IR_ADD: case IR_SUB: case IR_MUL: case IR_FMA:
		for (int a = 0; a < i->nargs; a++)
			if (!settle_operand(s, i, a, i->op == IR_SUB && a ? ANY_ZERO : needed, make))
				return false;
		return true;
	default:
		return false;
	}
}

/* A fixed size that whole registers of all lanes make up, on targets whose layouts have them so: which of them are needed is known, and masks cost nothing. */
static bool is_static(const struct absence *s, const struct ir_ins *value)
{
	const struct target *t = s->p->v->target;
	const struct ir_ins *end = s->mask->args[1];
	int64_t lanes = (int64_t)variant_waves(s->p->v, (int)(s->ph - s->p->k->phases)) * t->wave, elements = end->imm;
	for (int a = 0; a < s->ph->naxes; a++)
		if (value->axes & ~s->mask->axes & IR_AXIS(a) && s->ph->axes[a].tile)
			elements *= s->ph->axes[a].tile;
	return t->whole_chunks && end->op == IR_CONST && elements % (lanes * SIDE_BY_SIDE) == 0;
}

static bool is_shared(const struct absence *s, const struct ir_ins *value)
{
	return known_divisor(s->mask->args[1], s->ph, s->p->v) >= SIDE_BY_SIDE || axes_of_several(s->ph, value->axes & ~s->mask->axes);
}

static void visit(struct ir_ins *i, void *ctx)
{
	struct absence *s = ctx;
	if (i->op != IR_REDUCE || !(i->flags & IR_MASKED))
		return;
	s->mask = i->args[i->nargs - 1];
	int needed = absent_needed(s->p->v, s->ph, i), operands = i->nargs - 1;
	if (needed < 0 || !absent_is_outside(s->ph, s->mask) || !is_shared(s, i->args[0]) || is_static(s, i->args[0]))
		return;
	bool can = true;
	for (int a = 0; a < operands; a++)
		can = can && settle(s, i->args[a], (enum absent)needed, false);
	for (int a = 0; can && a < operands; a++)
		settle(s, i->args[a], (enum absent)needed, true);
}

int pass_absent(struct pass *p)
{
	bool made = false;
	FOR_PHASES(p, ph) {
		struct absence s = {.p = p, .ph = ph};
		ir_walk(ph->body, visit, &s);
		made = made || s.made;
	}
	return made ? pass_simplify(p) : 0;
}
