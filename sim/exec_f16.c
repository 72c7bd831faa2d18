/* exec_f16.c -- f16 vector arithmetic and special functions.
 *
 * In: rows whose lower halves are f16.  Out: the same.  Sums, products and quotients of f16 are computed in f32 and
 * rounded again, which gives the correctly rounded f16 since f32 has more than 2 * 11 + 2 bits; multiply-adds go through
 * f64 rounded to odd for the same reason.  MODE.FP16_OVFL makes an overflow the largest finite value; infinities from
 * infinite operands stay. */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "exec.h"
#include "nan.h"

#include <math.h>

#define W(x) sim_f16_to_f32(x)
#define EACH(expr) do { for (int i = 0; i < LANES; i++) d[i] = sim_f32_to_f16(expr); } while (0)
#define EACHU(expr) do { for (int i = 0; i < LANES; i++) d[i] = (uint32_t)(expr); } while (0)

/* a * b + c rounded once to f16. */
uint32_t sim_f16_fma(uint32_t a, uint32_t b, uint32_t c)
{
	float x = W(a), y = W(b), z = W(c);
	double s = sum_to_odd((double)x * y, z); /* the product has 22 bits: exact */
	if (s != s)
		return x != x ? sim_f32_to_f16(quiet(x)) : y != y ? sim_f32_to_f16(quiet(y)) : z != z ? sim_f32_to_f16(quiet(z)) : 0x7e00;
	/* to f32, to odd again: 24 bits are more than 11 + 2 */
	float f = (float)s;
	if ((double)f != s && isfinite(f)) {
		uint32_t u = num_bits(f);
		if (fabs((double)f) > fabs(s))
			u--; /* truncate */
		f = num_float(u | 1);
	}
	return sim_f32_to_f16(f);
}

static inline uint32_t min_h(uint32_t a, uint32_t b, bool ieee)
{
	return sim_f32_to_f16(num_float(min_f32(num_bits(W(a)), num_bits(W(b)), ieee)));
}

static inline uint32_t max_h(uint32_t a, uint32_t b, bool ieee)
{
	return sim_f32_to_f16(num_float(max_f32(num_bits(W(a)), num_bits(W(b)), ieee)));
}

static inline uint32_t med_h(uint32_t a, uint32_t b, uint32_t c, bool ieee)
{
	return sim_f32_to_f16(num_float(med3_f32(num_bits(W(a)), num_bits(W(b)), num_bits(W(c)), ieee)));
}

static inline float div_fixup(float q, float d, float n)
{
	uint32_t sign = (num_bits(d) ^ num_bits(n)) & 0x80000000u;
	if (n != n)
		return quiet(n);
	if (d != d)
		return quiet(d);
	if ((d == 0 && n == 0) || (isinf(d) && isinf(n)))
		return num_float(0xffc00000u);
	if (d == 0 || isinf(n))
		return num_float(sign | 0x7f800000u);
	if (isinf(d) || n == 0)
		return num_float(sign);
	return num_float(sign | (num_bits(q) & 0x7fffffffu));
}

static float fract(float x)
{
	float r = x - floorf(x);
	return r < 0x1.ffcp-1f ? r : 0x1.ffcp-1f;
}

static float mantissa(float x)
{
	int e;
	return x == 0 || !isfinite(x) ? x : frexpf(x, &e);
}

static int exponent(float x)
{
	int e = 0;
	if (x != 0 && isfinite(x))
		frexpf(x, &e);
	return e;
}

/* The functions of num.h flush f32 denormals, which no f16 value reaches. */
static float rcp(float x) { return 1.0f / x; }
static float rsq(float x) { return (float)(1.0 / sqrt((double)x)); }

static bool arithmetic(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *acc,
	bool ieee, uint32_t *d)
{
	switch (in->op) {
	case OP_v_add_f16: EACH(nan2(W(a[i]) + W(b[i]), W(a[i]), W(b[i]))); return true;
	case OP_v_sub_f16: EACH(nan2(W(a[i]) - W(b[i]), W(a[i]), W(b[i]))); return true;
	case OP_v_subrev_f16: EACH(nan2(W(b[i]) - W(a[i]), W(a[i]), W(b[i]))); return true;
	case OP_v_mul_f16: EACH(nan2(W(a[i]) * W(b[i]), W(a[i]), W(b[i]))); return true;
	case OP_v_fma_f16: case OP_v_fma_legacy_f16: EACHU(sim_f16_fma(a[i], b[i], c[i])); return true;
	case OP_v_mad_f16: case OP_v_mad_legacy_f16: case OP_v_madmk_f16: case OP_v_madak_f16: /* rounds the product */
		EACH(W(sim_f32_to_f16(W(a[i]) * W(b[i]))) + W(c[i])); return true;
	case OP_v_mac_f16: EACH(W(sim_f32_to_f16(W(a[i]) * W(b[i]))) + W(acc[i])); return true;
	case OP_v_min_f16: EACHU(min_h(a[i], b[i], ieee)); return true;
	case OP_v_max_f16: EACHU(max_h(a[i], b[i], ieee)); return true;
	case OP_v_min3_f16: EACHU(min_h(min_h(a[i], b[i], ieee), c[i], ieee)); return true;
	case OP_v_max3_f16: EACHU(max_h(max_h(a[i], b[i], ieee), c[i], ieee)); return true;
	case OP_v_med3_f16: EACHU(med_h(a[i], b[i], c[i], ieee)); return true;
	case OP_v_div_fixup_f16: case OP_v_div_fixup_legacy_f16: EACH(div_fixup(W(a[i]), W(b[i]), W(c[i]))); return true;
	case OP_v_ldexp_f16: EACH(ldexpf(W(a[i]), (int16_t)b[i] < -80 ? -80 : (int16_t)b[i] > 80 ? 80 : (int16_t)b[i])); return true;
	case OP_v_floor_f16: EACH(floorf(W(a[i]))); return true;
	case OP_v_ceil_f16: EACH(ceilf(W(a[i]))); return true;
	case OP_v_trunc_f16: EACH(truncf(W(a[i]))); return true;
	case OP_v_rndne_f16: EACH(rintf(W(a[i]))); return true;
	case OP_v_fract_f16: EACH(nan1(fract(W(a[i])), W(a[i]))); return true;
	case OP_v_frexp_mant_f16: EACH(mantissa(W(a[i]))); return true;
	case OP_v_frexp_exp_i16_f16: EACHU(exponent(W(a[i]))); return true;
	case OP_v_rcp_f16: EACH(nan1(rcp(W(a[i])), W(a[i]))); return true;
	case OP_v_sqrt_f16: EACH(nan2(sqrtf(W(a[i])), W(a[i]), 0)); return true;
	case OP_v_rsq_f16: EACH(nan2(rsq(W(a[i])), W(a[i]), 0)); return true;
	case OP_v_log_f16: EACH(num_log2(W(a[i]))); return true;
	case OP_v_exp_f16: EACH(num_exp2(W(a[i]))); return true;
	case OP_v_sin_f16: EACH(num_sin(W(a[i]))); return true;
	case OP_v_cos_f16: EACH(num_cos(W(a[i]))); return true;
	default: return false;
	}
}

void exec_f16(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES], bc[LANES], d[LANES];
	const uint32_t *a = sim_src32(w, in, 0, ba);
	const uint32_t *b = in->nsrc > 1 ? sim_src32(w, in, 1, bb) : a;
	const uint32_t *c = in->nsrc > 2 ? sim_src32(w, in, 2, bc) : a;
	if (!arithmetic(in, a, b, c, w->vgpr[in->vdst < w->nvgpr ? in->vdst : 0], w->ieee, d)) {
		sim_unknown(w, in);
		return;
	}
	const uint32_t *addend = in->op == OP_v_mac_f16 ? w->vgpr[in->vdst < w->nvgpr ? in->vdst : 0] : c;
	sim_round_f16(sim_round16(w), in->op, a, b, addend, d);
	if (w->ovfl)
		for (int i = 0; i < LANES; i++) {
			bool inf_in = (a[i] & 0x7fff) == 0x7c00 || (b[i] & 0x7fff) == 0x7c00 || (c[i] & 0x7fff) == 0x7c00;
			if ((d[i] & 0x7fff) == 0x7c00 && !inf_in)
				d[i]--;
		}
	sim_put32(w, in, d);
}
