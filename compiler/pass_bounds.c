/* pass_bounds.c
 * Problem: a quantising conversion clamps to the finite range, three instructions an element, although dynamic scaling already
 *          bounds what arrives; its divisions are made for every operand there is, ten instructions each; and a scale that was made
 *          as a power of two is rounded to one again.
 * Method:  (1) q = cvt(u * inv) with inv = 1 / s, s = select(top > 0, max(top / C, tiny), 1), top = max |u| over the group and C the
 *          largest value of the format.  Then |u * inv| <= C (1 + 2^-22), which rounds to C; an infinite u has inv = 0 and becomes
 *          NaN, which a clamp would keep as well.  So the clamp never acts and SATURATE is dropped; an integer format, where that
 *          would truncate, is rounded before.
 *          Or, of powers of two, inv = select(top <= the largest f32, 2^(127 - c), 0) with c = (bits(max(top, C 2^-127)) - bits(C) +
 *          2^30 - 1) >> 23: 2^(c - 127) is then the smallest power of two not below top / C (its mantissa counts as one more
 *          unless it is 0), so that |u * inv| <= C exactly.
 *          Where a mode of the chip clamps, it is that or none: conversions without SATURATE would clamp as well.
 *          (2) max(x / C, t) with C whole, its odd part below 2^16, and t no denormal; 1 / s with s such a scale, from 2^-126 to 2^126
 *          or infinite: marked NORMAL, which a few instructions divide (target/emit/elementwise.c).
 *          (3) to e8m0 from 2^(c - 127) with c from 0 to 254: c.
 * Needs:   simplified IR.   Keeps: values exactly. */
#include "../base/num.h"
#include "pass.h"

#include <math.h>

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
	const struct ir_ins *code = operand(operand(power->args[1], IR_SHR, 23), IR_ADD, 0x3fffffff);
	if (!code || code->op != IR_SUB || code->args[0]->op != IR_BITCAST || code->args[1]->op != IR_BITCAST || !is_number(code->args[1]->args[0], limit))
		return NULL;
	return operand(code->args[0]->args[0], IR_MAX, limit * 0x1p-127) == top ? top : NULL;
}

struct bounds {
	struct pass *p; struct ir_phase *ph; const int *uses;
	bool count, floats;                    /* only count what stays; drop clamps of floats as well as of integers */
	int staying;                           /* conversions to floats of 8 bits whose clamp may act */
};

/* --- clamps ----------------------------------------------------------------------------------------------------------------- */

static bool is_bounded(const struct ir_ins *i)
{
	double limit = num_max(i->dtype), v;
	if (i->args[0]->op != IR_MUL)
		return false;
	for (int side = 0; side < 2; side++) {
		const struct ir_ins *u = i->args[0]->args[side], *inv = i->args[0]->args[!side];
		bool quotient = inv->op == IR_DIV && ir_is_const(inv->args[0], &v) && v == 1;
		const struct ir_ins *top = quotient ? group_maximum(inv->args[1], limit) : group_maximum_of_power(inv, limit);
		if (top && top->op == IR_REDUCE && top->kind == RED_MAX && top->args[0]->op == IR_ABS && top->args[0]->args[0] == u)
			return true;
	}
	return false;
}

static void drop_clamp(struct ir_ins *i, void *ctx)
{
	struct bounds *s = ctx;
	if (i->op != IR_CVT || !(i->flags & IR_SATURATE) || dtype_info(i->dtype)->bits != 8 || i->dtype == DT_U8 || i->dtype == DT_E8M0)
		return;                                            /* the bound is one of magnitude */
	bool f = dtype_is_float(i->dtype), bounded = is_bounded(i);
	s->staying += f && !bounded;
	if (s->count || !bounded || (f && !s->floats))
		return;
	i->flags &= (uint8_t)~IR_SATURATE;
	if (!f) {
		struct ir_builder at = pass_before(s->p, s->ph, i);
		i->args[0] = ir_un(&at, IR_ROUND, i->args[0]);
	}
}

struct clamps { const struct target *target; bool other; int saturating; };

static bool is_native8(const struct target *t, enum dtype d)
{
	return t->fp8_fnuz ? d == DT_E4M3FNUZ || d == DT_E5M2FNUZ : d == DT_E4M3 || d == DT_E5M2;
}

static void look_at_clamps(struct ir_ins *i, void *ctx)
{
	struct clamps *c = ctx;
	bool moved = i->op == IR_LOAD || i->op == IR_RELAYOUT || i->op == IR_SELECT || i->op == IR_CONST;
	c->other = c->other || i->op == IR_DOT || (i->dtype == DT_F16 && !moved);
	if (i->op != IR_CVT || !is_native8(c->target, (enum dtype)i->dtype))
		return;
	c->other = c->other || !(i->flags & IR_SATURATE);
	c->saturating += (i->flags & IR_SATURATE) != 0;
}

bool pass_clamps_by_mode(const struct ir_phase *ph, const struct target *t)
{
	struct clamps c = {.target = t};
	ir_walk(ph->body, look_at_clamps, &c);
	return t->mode_clamps && c.saturating && !c.other;
}

/* --- divisions -------------------------------------------------------------------------------------------------------------- */

/* max(x / C, t) as in (2): the quotient. */
static const struct ir_ins *bounded_quotient(const struct ir_ins *i, double *c)
{
	double t, whole;
	if (i->op != IR_MAX || i->dtype != DT_F32)
		return NULL;
	for (int side = 0; side < 2; side++) {
		const struct ir_ins *q = i->args[side];
		if (q->op != IR_DIV || !ir_is_const(q->args[1], c) || !ir_is_const(i->args[!side], &t) || t < 0x1p-126 || *c < 4 || *c > 0x1p60)
			continue;
		for (whole = *c; whole >= 0x1p16 && fmod(whole, 2) == 0;)
			whole /= 2;
		if (whole == floor(whole) && whole < 0x1p16)
			return q;
	}
	return NULL;
}

static void shorten_division(struct ir_ins *i, void *ctx)
{
	struct bounds *s = ctx;
	double v;
	if (i->op == IR_MAX) {
		struct ir_ins *q = (struct ir_ins *)bounded_quotient(i, &v);
		if (q && s->uses[q->id] == 1)
			q->flags |= IR_NORMAL;
	}
	if (i->op != IR_DIV || i->dtype != DT_F32 || !is_number(i->args[0], 1))
		return;
	const struct ir_ins *x = i->args[1];
	if (x->op == IR_SELECT && ir_is_const(x->args[2], &v) && v >= 0x1p-126 && v <= 0x1p126)
		x = x->args[1];
	if (bounded_quotient(x, &v))
		i->flags |= IR_NORMAL;
}

/* --- powers of two ---------------------------------------------------------------------------------------------------------- */

struct range { int64_t least, most; };

/* Of an i32. */
static struct range range_of(const struct ir_ins *i)
{
	static const struct range any = {INT32_MIN, INT32_MAX};
	double v;
	if (i->op == IR_CONST)
		return (struct range){i->imm, i->imm};
	if (i->op == IR_BITCAST && i->args[0]->dtype == DT_F32) {
		const struct ir_ins *x = i->args[0];
		if (ir_is_const(x, &v))
			return (struct range){(int32_t)num_bits((float)v), (int32_t)num_bits((float)v)};
		if (x->op == IR_MAX && (ir_is_const(x->args[0], &v) || ir_is_const(x->args[1], &v)) && v > 0)   /* not NaN */
			return (struct range){(int32_t)num_bits((float)v), 0x7f800000};
		return any;
	}
	if (i->op != IR_ADD && i->op != IR_SUB && i->op != IR_SHR)
		return any;
	struct range a = range_of(i->args[0]), b = range_of(i->args[1]), r = {a.least + b.least, a.most + b.most};
	if (i->op == IR_SUB)
		r = (struct range){a.least - b.most, a.most - b.least};
	if (i->op == IR_SHR)
		r = b.least == b.most && b.least >= 0 && b.least < 32 ? (struct range){a.least >> b.least, a.most >> b.least} : any;
	return r.least < INT32_MIN || r.most > INT32_MAX ? any : r;
}

/* c where the value is 2^(c - 127), NULL if that is not known; made in front of the builder's place. */
static struct ir_ins *code_of(struct ir_builder *b, const struct ir_ins *i)
{
	double v;
	int e;
	if (ir_is_const(i, &v))
		return v > 0 && frexp(v, &e) == 0.5 && e >= -126 && e <= 128 ? ir_int(b, DT_I32, e + 126) : NULL;
	if (i->op == IR_SELECT) {
		struct ir_ins *yes = code_of(b, i->args[1]), *no = code_of(b, i->args[2]);
		return yes && no ? ir_select(b, i->args[0], yes, no) : NULL;
	}
	const struct ir_ins *bits = i->op == IR_BITCAST ? i->args[0] : NULL;
	if (!bits || bits->op != IR_SELECT || bits->args[0]->op != IR_LT || !is_number(bits->args[0]->args[0], 0) || !is_number(bits->args[2], 0x400000))
		return NULL;
	const struct ir_ins *c = operand(bits->args[1], IR_SHL, 23);
	if (!c || c != bits->args[0]->args[1])
		return NULL;
	struct range r = range_of(c);
	return r.least >= 0 && r.most <= 254 ? (struct ir_ins *)c : NULL;
}

static void take_code(struct ir_ins *i, void *ctx)
{
	struct bounds *s = ctx;
	if (i->op != IR_CVT || i->dtype != DT_E8M0 || i->args[0]->dtype != DT_F32)
		return;
	struct ir_builder b = pass_before(s->p, s->ph, i->args[0]);
	struct ir_ins *code = code_of(&b, i->args[0]);
	if (!code)
		return;
	ir_replace(s->p->k, i, ir_bitcast(&b, ir_cvt(&b, code, DT_U8, false), DT_E8M0));
	ir_remove(i);
}

int pass_bounds(struct pass *p)
{
	const struct target *t = p->v->target;
	const int *uses = pass_uses(p->k->arena, p->k);
	FOR_PHASES(p, ph) {
		struct bounds s = {.p = p, .ph = ph, .uses = uses, .count = true};
		ir_walk(ph->body, drop_clamp, &s);
		s.count = false;
		s.floats = !s.staying || !pass_clamps_by_mode(ph, t);
		if (!t->cvt8_clamps)                       /* else there is nothing to gain */
			ir_walk(ph->body, drop_clamp, &s);
		ir_walk(ph->body, shorten_division, &s);
		ir_walk(ph->body, take_code, &s);
	}
	return 0;
}
