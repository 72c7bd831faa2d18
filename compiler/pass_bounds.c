/* pass_bounds.c
 * Problem: a quantising conversion clamps to the finite range, three instructions an element, although dynamic scaling already
 *          bounds what arrives.
 * Method:  q = cvt(u * inv) with inv = 1 / s, s = select(top > 0, max(top / C, tiny), 1), top = max |u| over the group and C the
 *          largest value of the format.  Then |u * inv| <= C (1 + 2^-22), which rounds to C; an infinite u has inv = 0 and becomes
 *          NaN, which a clamp would keep as well.  So the clamp never acts and SATURATE is dropped; an integer format, where that
 *          would truncate, is rounded before.
 *          Or, of powers of two, inv = select(top <= the largest f32, 2^(127 - c), 0) with c = max(((bits(max(top, 2^-126)) - bits(C) +
 *          2^23 - 1) >> 23) + 127, 0): 2^(c - 127) is then the smallest power of two not below top / C (its mantissa counts as one more
 *          unless it is 0), so that |u * inv| <= C exactly.
 * Needs:   simplified IR.   Keeps: values exactly. */
#include "../base/num.h"
#include "pass.h"

static const struct ir_ins *group_maximum(const struct ir_ins *s, double limit)
{
	if (s->op != IR_SELECT || s->args[0]->op != IR_LT)
		return NULL;
	const struct ir_ins *cond = s->args[0], *big = s->args[1], *one = s->args[2], *top = cond->args[1];
	double v;
	if (!ir_is_const(cond->args[0], &v) || v != 0 || !ir_is_const(one, &v) || v != 1 || big->op != IR_MAX)
		return NULL;
	const struct ir_ins *ratio = big->args[0]->op == IR_DIV ? big->args[0] : big->args[1];
	if (ratio->op != IR_DIV || ratio->args[0] != top || !ir_is_const(ratio->args[1], &v) || v != limit)
		return NULL;
	return top;
}

static bool is_number(const struct ir_ins *i, double want)
{
	double v;
	return ir_is_const(i, &v) && v == want;
}

/* The operand of `op` with the constant `by` on its right; NULL if it is not that. */
static const struct ir_ins *operand(const struct ir_ins *i, enum ir_op op, double by)
{
	return i && i->op == op && is_number(i->args[1], by) ? i->args[0] : NULL;
}

/* The same for 1 / s with s such a power of two. */
static const struct ir_ins *group_maximum_of_power(const struct ir_ins *inv, double limit)
{
	if (inv->op != IR_SELECT || !is_number(inv->args[2], 0) || inv->args[1]->op != IR_BITCAST)
		return NULL;
	const struct ir_ins *top = operand(inv->args[0], IR_LE, 0x1.fffffep127), *power = operand(inv->args[1]->args[0], IR_SHL, 23);
	if (!top || !power || power->op != IR_SUB || !is_number(power->args[0], 254))
		return NULL;
	const struct ir_ins *code = operand(operand(operand(operand(power->args[1], IR_MAX, 0), IR_ADD, 127), IR_SHR, 23), IR_ADD, 0x7fffff);
	if (!code || code->op != IR_SUB || code->args[0]->op != IR_BITCAST || code->args[1]->op != IR_BITCAST || !is_number(code->args[1]->args[0], limit))
		return NULL;
	return operand(code->args[0]->args[0], IR_MAX, 0x1p-126) == top ? top : NULL;
}

struct bounds { struct pass *p; struct ir_phase *ph; };

static void drop_clamp(struct ir_ins *i, void *ctx)
{
	struct bounds *s = ctx;
	double limit = num_max(i->dtype), v;
	if (i->op != IR_CVT || !(i->flags & IR_SATURATE) || i->args[0]->op != IR_MUL || dtype_info(i->dtype)->bits != 8 ||
	    i->dtype == DT_U8)                                 /* the bound is one of magnitude */
		return;
	for (int side = 0; side < 2; side++) {
		const struct ir_ins *u = i->args[0]->args[side], *inv = i->args[0]->args[!side];
		bool quotient = inv->op == IR_DIV && ir_is_const(inv->args[0], &v) && v == 1;
		const struct ir_ins *top = quotient ? group_maximum(inv->args[1], limit) : group_maximum_of_power(inv, limit);
		if (!top || top->op != IR_REDUCE || top->kind != RED_MAX || top->args[0]->op != IR_ABS || top->args[0]->args[0] != u)
			continue;
		i->flags &= (uint8_t)~IR_SATURATE;
		if (!dtype_is_float(i->dtype)) {
			struct ir_builder at = pass_before(s->p, s->ph, i);
			i->args[0] = ir_un(&at, IR_ROUND, i->args[0]);
		}
		return;
	}
}

int pass_bounds(struct pass *p)
{
	if (p->v->target->cvt8_clamps)        /* nothing to gain */
		return 0;
	FOR_PHASES(p, ph)
		ir_walk(ph->body, drop_clamp, &(struct bounds){p, ph});
	return 0;
}
