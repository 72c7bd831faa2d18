/* pass_math.c
 * Problem: exp, log, tanh, erf, erfc, normcdf, sin and cos have no instruction.
 * Method:  exp x = exp2(x log2 e) and log x = log2(x) ln 2: one instruction each and one multiply, the listed reassociation of
 *          the language; of the weights of a product, exp(s - row's), exp2(s log2 e - row's log2 e) by fma.  tanh, erf: odd polynomials near 0 (coefficients: Cephes single precision, S. Moshier, netlib), exp2
 *          forms beyond; maximal relative error about 2e-7.  erfc, normcdf: exp2 of one polynomial of |x|, of even degree so that it
 *          falls wherever it is not fitted and ends in 0; relative error about 4e-7 where |x| <= 1, 3e-6 up to 4 (erfc, 1.5e-8 there)
 *          and down to -6 (normcdf, 1e-9) 4e-6, of which 2e-6 are roundings of the exponent; beyond it grows, 1e-3 at 5 and -7.  Each
 *          has coefficients of its own, for a rounded x sqrt(1/2) would err by 2e-6 more.  A normcdf of which only products are kept, in 16
 *          bits or fewer, gets a shorter one, of degree 7, which falls as well: within 1.5e-5 down to -7 (1e-12), where half a unit of bf16 is 2e-3, of f16 2e-4.
 *          sin and cos in turns, reduced to half a turn with twice f32's digits: absolute error about 2e-6 up to a million.  Division by a power
 *          of two becomes a product, which is exact.
 * Needs:   any IR.   Keeps: values within those errors; f32 only (narrower operands are converted by the text). */
#include "pass.h"

#include <float.h>
#include <math.h>

#define LOG2_E 1.4426950408889634

static struct ir_ins *num(struct ir_builder *b, double x)
{
	return ir_float(b, DT_F32, (double)(float)x);
}

static struct ir_ins *mul(struct ir_builder *b, struct ir_ins *x, double c)
{
	return ir_bin(b, IR_MUL, x, num(b, c));
}

static struct ir_ins *exp_of(struct ir_builder *b, struct ir_ins *x)
{
	return ir_un(b, IR_EXP2, mul(b, x, LOG2_E));
}

/* c[0] z^(n-1) + ... + c[n-1], by fma */
static struct ir_ins *polynomial(struct ir_builder *b, struct ir_ins *z, const double *c, int n)
{
	struct ir_ins *r = num(b, c[0]);
	for (int i = 1; i < n; i++)
		r = ir_fma(b, r, z, num(b, c[i]));
	return r;
}

/* sign(x) * y for y >= 0 */
static struct ir_ins *with_sign(struct ir_builder *b, struct ir_ins *x, struct ir_ins *y)
{
	struct ir_ins *sign = ir_bin(b, IR_AND, ir_bitcast(b, x, DT_I32), ir_int(b, DT_I32, INT32_MIN));
	return ir_bitcast(b, ir_bin(b, IR_OR, sign, ir_bitcast(b, y, DT_I32)), DT_F32);
}

static struct ir_ins *tanh_of(struct ir_builder *b, struct ir_ins *x)
{
	static const double p[] = {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1};
	struct ir_ins *a = ir_un(b, IR_ABS, x), *z = ir_bin(b, IR_MUL, x, x);
	struct ir_ins *near = ir_fma(b, ir_bin(b, IR_MUL, polynomial(b, z, p, 5), z), x, x);
	struct ir_ins *e = ir_un(b, IR_EXP2, mul(b, a, 2 * 1.4426950408889634));
	struct ir_ins *far = ir_fma(b, ir_un(b, IR_RCP, ir_bin(b, IR_ADD, e, num(b, 1))), num(b, -2), num(b, 1));
	return ir_select(b, ir_bin(b, IR_LT, a, num(b, 0.625)), near, with_sign(b, x, far));
}

/* erf(x) for |x| < 1 */
static struct ir_ins *erf_near(struct ir_builder *b, struct ir_ins *x)
{
	static const double t[] = {7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
	                           1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710};
	return ir_bin(b, IR_MUL, x, polynomial(b, ir_bin(b, IR_MUL, x, x), t, 7));
}

static struct ir_ins *erf_of(struct ir_builder *b, struct ir_ins *x)
{
	/* log2(erfc(a)) on [1, 4], where its error times erfc(a) is below 3e-11; it falls beyond, so that erf is 1 there */
	static const double p[] = {-3.1012249e-5, 6.3349557e-4, -6.0500968e-3, 3.6325559e-2, -1.5634842e-1, -9.1360486e-1, -1.6296060, 2.6465187e-4};
	struct ir_ins *a = ir_un(b, IR_ABS, x);
	struct ir_ins *far = ir_bin(b, IR_SUB, num(b, 1), ir_un(b, IR_EXP2, polynomial(b, a, p, 8)));
	return ir_select(b, ir_bin(b, IR_LT, a, num(b, 1)), erf_near(b, x), with_sign(b, x, far));
}

/* 2^p(|x|), from 1 or 1/2 at 0 down to 0 at infinity: what a distribution has beyond |x| */
static struct ir_ins *beyond(struct ir_builder *b, struct ir_ins *x, const double *p, int n)
{
	return ir_un(b, IR_EXP2, polynomial(b, ir_un(b, IR_ABS, x), p, n));
}

static struct ir_ins *erfc_of(struct ir_builder *b, struct ir_ins *x)
{
	/* log2(erfc(a)) on [0, 4.2], Lawson's iteration with its error against 1 + |p| / 2, the coefficients rounded one by one */
	static const double p[] = {-5.81283643e-7, 1.315999e-5, -1.27281732e-4, 6.64078339e-4, -1.74350524e-3, -7.2779617e-4,
	                           2.84146909e-2, -1.48620591e-1, -9.18376803e-1, -1.62791181, 0};
	struct ir_ins *tail = beyond(b, x, p, 11);
	return ir_select(b, ir_bin(b, IR_LT, x, num(b, 0)), ir_bin(b, IR_SUB, num(b, 2), tail), tail);
}

static struct ir_ins *normcdf_of(struct ir_builder *b, struct ir_ins *x, bool is_short)
{
	/* log2(normcdf(-a)) on [0, 6], likewise; the short one on [0, 7] and its error as it is */
	static const double s[] = {-1.59716978e-6, 5.63955837e-5, -8.85858433e-4, 8.31808429e-3, -5.35469353e-2, -4.58890229e-1, -1.15109181, -1};
	static const double p[] = {-1.63743508e-8, 5.32471006e-7, -7.38713015e-6, 5.50981531e-5, -2.04335767e-4, -1.59961448e-4,
	                           7.14658806e-3, -5.25780581e-2, -4.59176391e-1, -1.15110898, -1};
	struct ir_ins *tail = is_short ? beyond(b, x, s, 8) : beyond(b, x, p, 11);
	return ir_select(b, ir_bin(b, IR_LT, x, num(b, 0)), tail, ir_bin(b, IR_SUB, num(b, 1), tail));
}

/* x / (2 pi) less the nearest whole number.  What the product's rounding took, and 1 / (2 pi) has beyond 24 bits, are added to what is left: without
 * them an angle of 8191 would be wrong by 3e-4. */
static struct ir_ins *turns(struct ir_builder *b, struct ir_ins *x)
{
	const double turn = 0.15915494309189535;
	struct ir_ins *high = num(b, turn), *t = ir_bin(b, IR_MUL, x, high);
	struct ir_ins *lost = ir_fma(b, x, num(b, turn - (float)turn), ir_fma(b, x, high, ir_un(b, IR_NEG, t)));
	return ir_bin(b, IR_ADD, ir_bin(b, IR_SUB, t, ir_un(b, IR_ROUND, t)), lost);
}

static bool power_of_two(const struct ir_ins *i)
{
	int e;
	return i->op == IR_CONST && i->num != 0 && isfinite(i->num) && fabs(frexp(i->num, &e)) == 0.5 && e > -120 && e < 120;
}

struct math { struct pass *p; struct ir_phase *ph; };

/* from: what a value is made of, directly or by products; by_id: what is. */
struct reach { const struct ir_ins *from; bool *by_id, rounded; };

static void follow(struct ir_ins *i, void *ctx)
{
	struct reach *r = ctx;
	bool reached = false;
	for (int a = 0; a < i->nargs; a++)
		reached = reached || r->by_id[i->args[a]->id];
	if (i == r->from)
		r->by_id[i->id] = true;
	if (!reached || (i->op == IR_CVT && dtype_info((enum dtype)i->dtype)->bits <= 16))
		return;
	switch (i->op) {
	case IR_MUL: case IR_DIV: case IR_NEG: case IR_ABS: case IR_MIN: case IR_MAX: case IR_SELECT:
		r->by_id[i->id] = true;
		return;
	default:
		r->rounded = false;
	}
}

/* Its relative error is that of all that is made of it, and each is rounded to 16 bits or fewer before it is kept, added or compared. */
static bool is_rounded(const struct math *m, const struct ir_ins *i)
{
	struct arena scratch = {0};
	struct reach r = {i, arena_alloc(&scratch, (size_t)m->p->k->next_id * sizeof(bool)), true};
	ir_walk(m->ph->body, follow, &r);
	arena_free(&scratch);
	return r.rounded;
}

/* Who has a value: products, in 16 bits or fewer, and sums of it. */
struct weighed { const struct ir_ins *of; const bool *multiplied; const int *uses; bool product, only; };

static void look_at_user(struct ir_ins *i, void *ctx)
{
	struct weighed *w = ctx;
	for (int a = 0; a < i->nargs; a++) {
		if (i->args[a] != w->of || (ir_is_pure(i) && !w->uses[i->id]))       /* what nobody asks for any more is taken out later */
			continue;
		bool product = i->op == IR_CVT && dtype_info((enum dtype)i->dtype)->bits <= 16 && w->multiplied[i->id];
		w->product = w->product || product;
		w->only = w->only && (product || (i->op == IR_REDUCE && i->kind == RED_SUM));
	}
}

static void look_at_dot(struct ir_ins *i, void *ctx)
{
	bool *multiplied = ctx;
	for (int a = 0; i->op == IR_DOT && a < 2; a++)
		multiplied[i->args[a]->id] = true;
}

/* exp(a c - b), a of a tile, b of its rows, c (or 1) of these or of all, which weighs a product: exp2 of one fma.  That moves a c by less than two units in
 * its last place where b is as large, as its own product's roundings do.  Where b log2 e is more than f32 holds a difference is 0 or so large that the base does
 * not matter; where c log2 e is, beyond c = 2.36e38, and b is not, the weights are NaNs, for no other base would do. */
static struct ir_ins *weight_of(struct ir_builder *b, const struct math *m, const struct ir_ins *i)
{
	struct ir_ins *x = i->args[0];
	if (x->op != IR_SUB || x->args[0]->axes == x->args[1]->axes || (x->args[1]->axes & ~x->args[0]->axes))
		return NULL;
	struct arena scratch = {0};
	bool *multiplied = arena_alloc(&scratch, (size_t)m->p->k->next_id * sizeof *multiplied);
	struct weighed w = {i, multiplied, pass_uses(&scratch, m->p->k), false, true};
	ir_walk(m->ph->body, look_at_dot, multiplied);
	ir_walk(m->ph->body, look_at_user, &w);
	arena_free(&scratch);
	if (!w.product || !w.only)
		return NULL;
	struct ir_ins *a = x->args[0], *c = NULL, *row = x->args[1], *base = num(b, LOG2_E), *one = num(b, 1);
	for (int n = 0; n < 2 && !c && a->op == IR_MUL; n++)
		c = a->args[n]->axes & ~row->axes ? NULL : a->args[n];
	a = !c ? a : a->args[a->args[0] == c];
	struct ir_ins *small = ir_bin(b, IR_LE, ir_un(b, IR_ABS, row), num(b, 0x1p126)), *by = ir_select(b, small, base, one), *times = by;
	if (c) {
		struct ir_ins *held = ir_bin(b, IR_LE, ir_un(b, IR_ABS, c), num(b, FLT_MAX / LOG2_E));
		times = ir_select(b, small, ir_select(b, held, ir_bin(b, IR_MUL, c, base), num(b, NAN)), c);
	}
	return ir_un(b, IR_EXP2, ir_fma(b, a, times, ir_un(b, IR_NEG, ir_bin(b, IR_MUL, row, by))));
}

static void expand(struct ir_ins *i, void *ctx)
{
	struct math *m = ctx;
	struct ir_builder b = pass_before(m->p, m->ph, i);
	struct ir_ins *x = i->nargs ? i->args[0] : NULL, *r;
	if (i->dtype != DT_F32)
		return;
	switch (i->op) {
	case IR_EXP:
		r = weight_of(&b, m, i);
		r = r ? r : exp_of(&b, x);
		break;
	case IR_LOG: r = mul(&b, ir_un(&b, IR_LOG2, x), 0.6931471805599453); break;
	case IR_TANH: r = tanh_of(&b, x); break;
	case IR_ERF: r = erf_of(&b, x); break;
	case IR_ERFC: r = erfc_of(&b, x); break;
	case IR_NORMCDF: r = normcdf_of(&b, x, is_rounded(m, i)); break;
	case IR_SIN: r = ir_un(&b, IR_SIN_TURNS, turns(&b, x)); break;
	case IR_COS: r = ir_un(&b, IR_COS_TURNS, turns(&b, x)); break;
	case IR_DIV:
		if (!power_of_two(i->args[1]))
			return;
		r = mul(&b, x, 1 / i->args[1]->num);
		break;
	default:
		return;
	}
	ir_replace(m->p->k, i, r);
	ir_remove(i);
}

int pass_math(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct math m = {p, ph};
		ir_walk(ph->body, expand, &m);
	}
	return 0;
}
