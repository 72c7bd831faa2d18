/* exec_f64.c -- f64 vector arithmetic and the helpers of its division.
 *
 * In: rows of 64 doubles.  Out: a row.  The host's arithmetic; reciprocals and roots, approximate on the device (LLVM
 * refines them), are correctly rounded here. */
#include "exec.h"

#include <math.h>

#define EACH(expr) do { for (int i = 0; i < LANES; i++) { double r = (expr); r = r != r && !nan_in(a[i], b[i], c[i]) ? device_nan() : r; memcpy(&d[i], &r, 8); } } while (0)

static bool nan_in(double a, double b, double c) { return a != a || b != b || c != c; }

static double device_nan(void)
{
	uint64_t u = UINT64_C(0x7ff8000000000000);
	double d;
	memcpy(&d, &u, 8);
	return d;
}

static uint64_t bits64(double x)
{
	uint64_t u;
	memcpy(&u, &x, 8);
	return u;
}

static int biased(double x) { return (int)(bits64(x) >> 52 & 2047); }

static double min64(double a, double b)
{
	if (a != a)
		return b;
	if (b != b)
		return a;
	return a == 0 && b == 0 ? (signbit(a) ? a : b) : a < b ? a : b;
}

static double max64(double a, double b)
{
	if (a != a)
		return b;
	if (b != b)
		return a;
	return a == 0 && b == 0 ? (signbit(a) ? b : a) : a > b ? a : b;
}

/* As div_scale of exec_f32.c, with the limits of f64. */
static double div_scale(double x, double d, double n, bool *flag)
{
	*flag = false;
	if (d == 0 || n == 0)
		return device_nan();
	double q = fabs(n / d);
	bool q_tiny = q < 0x1p-1022 && !isnan(q) && !isinf(d), r_tiny = fabs(d) > 0x1p1022 && !isinf(d);
	bool is_d = bits64(x) == bits64(d), is_n = bits64(x) == bits64(n);
	if (biased(n) - biased(d) >= 768) {
		*flag = true;
		return is_d ? ldexp(x, 128) : x;
	}
	if (biased(d) == 0)
		return ldexp(x, 128);
	if (r_tiny && q_tiny) {
		*flag = true;
		return is_d ? ldexp(x, -128) : x;
	}
	if (r_tiny)
		return ldexp(x, -128);
	if (q_tiny) {
		*flag = true;
		return is_n ? ldexp(x, 128) : x;
	}
	return biased(n) <= 53 ? ldexp(x, 128) : x;
}

/* fma with the last scaling, rounded once.  Where the scaled result is denormal, the sum is kept in a wider type; should
 * that land on a value halfway between doubles by rounding, it is moved off to its true side. */
static double div_fmas(double a, double b, double c, bool scale)
{
	double r = fma(a, b, c);
	if (!scale)
		return r;
	double factor = biased(c) > 1023 ? 0x1p128 : 0x1p-128;
	if (fabs(r * factor) >= 0x1p-1021 || r != r)
		return r * factor;
	double p = a * b, low = fma(a, b, -p);
	double s = p + c, t = s - p, err = (p - (s - t)) + (c - t) + low;
	long double sum = (long double)s + err, rest = err - (sum - s);
	if (rest != 0 && sum == (long double)(double)sum)
		sum = nextafterl(sum, rest > 0 ? INFINITY : -INFINITY);
	return (double)(sum * factor);
}

static double div_fixup(double q, double d, double n)
{
	bool neg = signbit(d) != signbit(n);
	if (n != n || d != d)
		return n != n ? n + 0 : d + 0;
	if ((d == 0 && n == 0) || (isinf(d) && isinf(n)))
		return -device_nan();
	if (d == 0 || isinf(n))
		return neg ? -INFINITY : INFINITY;
	if (isinf(d) || n == 0 || biased(n) - biased(d) < -1075)
		return neg ? -0.0 : 0.0;
	if (q != q) /* the quotient overflowed on the way */
		return neg ? -INFINITY : INFINITY;
	return neg ? -fabs(q) : fabs(q);
}

/* 53 bits of 2/pi, the segment-th such piece after what an argument of this exponent does not need; scaled to their place. */
static double trig_preop(double x, uint32_t segment)
{
	static const uint64_t two_over_pi[] = { /* 1216 bits after the point */
		0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c,
		0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
		0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08,
		0x56033046fc7b6bab};
	int shift = (int)(segment & 31) * 53 + (biased(x) > 1077 ? biased(x) - 1077 : 0);
	uint64_t v = 0;
	for (int k = 0; k < 53; k++) {
		int at = shift + k;
		v = v << 1 | (at < 1201 ? two_over_pi[at / 64] >> (63 - at % 64) & 1 : 0);
	}
	return ldexp((double)v, -53 - shift + (biased(x) >= 1968 ? 128 : 0));
}

static void scale_op(struct sim_wave *w, const struct sim_inst *in, const sim_f64 *a, const sim_f64 *b, const sim_f64 *c)
{
	uint64_t d[LANES], flags = 0;
	for (int i = 0; i < LANES; i++) {
		bool flag;
		d[i] = bits64(div_scale(a[i], b[i], c[i], &flag));
		flags |= (uint64_t)flag << i;
	}
	sim_put64(w, in, d);
	sim_put_mask(w, in->sdst, flags & sim_exec(w));
}

void exec_f64(struct sim_wave *w, const struct sim_inst *in)
{
	uint64_t ba[LANES], bb[LANES], bc[LANES], d[LANES];
	uint32_t b32[LANES], d32[LANES];
	const sim_f64 *a = (const sim_f64 *)sim_src64(w, in, 0, ba);
	const sim_f64 *b = a, *c = a;
	const uint32_t *n = NULL;
	if (in->nsrc > 1 && in->src[1].type == 'd')
		b = (const sim_f64 *)sim_src64(w, in, 1, bb);
	else if (in->nsrc > 1)
		n = sim_src32(w, in, 1, b32);
	if (in->nsrc > 2)
		c = (const sim_f64 *)sim_src64(w, in, 2, bc);
	uint64_t vcc = sim_sgpr64(w, REG_VCC);
	switch (in->op) {
	case OP_v_fmac_f64: {
		struct sim_inst acc = *in; /* the result register is the third source */
		acc.src[2] = (struct sim_src){.kind = SRC_VGPR, .type = 'd', .reg = in->vdst};
		c = (const sim_f64 *)sim_src64(w, &acc, 2, bc);
	} /* fall through */
	case OP_v_fma_f64: EACH(fma(a[i], b[i], c[i])); break;
	case OP_v_add_f64: EACH(a[i] + b[i]); break;
	case OP_v_mul_f64: EACH(a[i] * b[i]); break;
	case OP_v_min_f64: EACH(min64(a[i], b[i])); break;
	case OP_v_max_f64: EACH(max64(a[i], b[i])); break;
	case OP_v_trunc_f64: EACH(trunc(a[i])); break;
	case OP_v_ceil_f64: EACH(ceil(a[i])); break;
	case OP_v_rndne_f64: EACH(rint(a[i])); break;
	case OP_v_floor_f64: EACH(floor(a[i])); break;
	case OP_v_fract_f64: EACH(a[i] != a[i] ? a[i] : fmin(a[i] - floor(a[i]), 0x1.fffffffffffffp-1)); break;
	case OP_v_rcp_f64: EACH(1 / a[i]); break;
	case OP_v_rsq_f64: EACH(1 / sqrt(a[i])); break;
	case OP_v_sqrt_f64: EACH(sqrt(a[i])); break;
	case OP_v_ldexp_f64: EACH(ldexp(a[i], (int32_t)n[i])); break;
	case OP_v_div_scale_f64: scale_op(w, in, a, b, c); return;
	case OP_v_div_fmas_f64: EACH(div_fmas(a[i], b[i], c[i], vcc >> i & 1)); break;
	case OP_v_div_fixup_f64: EACH(div_fixup(a[i], b[i], c[i])); break;
	case OP_v_frexp_mant_f64: {
		int e;
		EACH(isfinite(a[i]) ? frexp(a[i], &e) : a[i]);
		break;
	}
	case OP_v_frexp_exp_i32_f64:
		for (int i = 0; i < LANES; i++) {
			int e = 0;
			if (isfinite(a[i]) && a[i] != 0)
				frexp(a[i], &e);
			d32[i] = (uint32_t)e;
		}
		sim_put32(w, in, d32);
		return;
	case OP_v_trig_preop_f64: EACH(trig_preop(a[i], n[i])); break;
	default: sim_unknown(w, in); return;
	}
	sim_round_f64(sim_round16(w), in->op, a, b, c, d);
	sim_put64(w, in, d);
}
