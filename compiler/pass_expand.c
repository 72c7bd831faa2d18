/* pass_expand.c
 * Problem: a dot whose operands are vectors has no matrix instruction, and argmax no instruction at all.
 * Method:  dot(a, b over k) becomes a sum of products in f32 (i32 for integers), which reductions know how to do: pass reduce makes
 *          it accumulate by fma.  argmax becomes two reductions: the largest key, then the least position that has it.  A key is the
 *          value itself, or a float's bits mapped to integers of the same order, so that -inf is above "nothing present".
 * Needs:   elaborated IR.   Keeps: values up to the order of sums. */
#include "pass.h"

struct expand { struct pass *p; struct ir_phase *ph; };

static struct ir_ins *summed(struct ir_builder *b, struct ir_ins *x, enum dtype t)
{
	return x->dtype == t ? x : ir_cvt(b, x, t, false);
}

static struct ir_ins *sum_of_products(struct ir_builder *b, const struct ir_ins *dot)
{
	enum dtype t = (enum dtype)dot->dtype;
	struct ir_ins *x = ir_bin(b, IR_MUL, summed(b, dot->args[0], t), summed(b, dot->args[1], t));
	struct ir_ins *sum = ir_reduce(b, RED_SUM, x, dot->over, NULL);
	return dot->flags & IR_ACC ? ir_bin(b, IR_ADD, dot->args[2], sum) : sum;
}

/* -0 counts as +0; a NaN's key is below all others. */
static struct ir_ins *float_key(struct ir_builder *b, struct ir_ins *x)
{
	struct ir_ins *bits = ir_bitcast(b, x, DT_I32);
	struct ir_ins *flip = ir_bin(b, IR_AND, ir_bin(b, IR_SHR, bits, ir_int(b, DT_I32, 31)), ir_int(b, DT_I32, INT32_MAX));
	struct ir_ins *key = ir_bin(b, IR_XOR, bits, flip);
	key = ir_select(b, ir_bin(b, IR_EQ, x, ir_float(b, DT_F32, 0)), ir_int(b, DT_I32, 0), key);
	return ir_select(b, ir_bin(b, IR_EQ, x, x), key, ir_int(b, DT_I32, INT32_MIN));
}

static struct ir_ins *first_of_largest(struct ir_builder *b, const struct ir_ins *i)
{
	struct ir_ins *x = i->args[0], *mask = i->flags & IR_MASKED ? i->args[i->nargs - 1] : NULL;
	bool real = dtype_is_float(x->dtype);
	struct ir_ins *key = real ? float_key(b, summed(b, x, DT_F32)) : x->dtype == DT_I64 ? x : summed(b, x, DT_I32);
	struct ir_ins *top = ir_reduce(b, RED_MAX, key, i->over, mask);
	struct ir_ins *is_top = ir_bin(b, IR_EQ, key, top);
	struct ir_ins *none = ir_int(b, DT_I32, INT32_MAX);
	if (real)
		is_top = ir_bin(b, IR_AND, is_top, ir_bin(b, IR_EQ, x, x));
	struct ir_ins *at = ir_select(b, is_top, ir_leaf(b, IR_IOTA, DT_I32, __builtin_ctz(i->over)), none);
	at = ir_reduce(b, RED_MIN, at, i->over, mask);
	return ir_select(b, ir_bin(b, IR_EQ, at, none), ir_int(b, DT_I32, -1), at);
}

static void expand(struct ir_ins *i, void *ctx)
{
	struct expand *e = ctx;
	struct ir_builder b = pass_before(e->p, e->ph, i);
	struct ir_ins *r;
	if (i->op == IR_DOT && !dot_is_matrix(e->ph, i))
		r = sum_of_products(&b, i);
	else if (i->op == IR_ARGMAX)
		r = first_of_largest(&b, i);
	else
		return;
	ir_replace(e->p->k, i, r);
	ir_remove(i);
}

int pass_expand(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct expand e = {p, ph};
		ir_walk(ph->body, expand, &e);
	}
	return 0;
}
