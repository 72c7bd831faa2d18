/* exec_f32.c -- f32 vector arithmetic, its division helpers and special functions.
 *
 * In: rows of 64 lanes with sign modifiers applied.  Out: a row.  Arithmetic is the host's IEEE arithmetic, round to
 * nearest even, corrected by exec_round.c for other modes; the invalid-operation NaN is made positive as on the device.  Special functions are those of num.h. */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "exec.h"
#include "nan.h"

#include <math.h>

#define F(x) num_float(x)
#define EACH(expr) do { _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++) d[i] = num_bits(expr); } while (0)
#define EACHU(expr) do { _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++) d[i] = (uint32_t)(expr); } while (0)

static inline float add(float a, float b) { return nan2(a + b, a, b); }
static inline float mul(float a, float b) { return nan2(a * b, a, b); }
static inline float fma3(float a, float b, float c)
{
	float r = __builtin_fmaf(a, b, c);
	return r != r && a == a && b == b && c == c ? num_float(0x7fc00000u) : r;
}
static inline float mul_legacy(float a, float b) { return a == 0 || b == 0 ? 0 : mul(a, b); }

static inline float fract(float x)
{
	float r = x - floorf(x), top = num_float(0x3f7fffffu);
	return r < top ? r : top; /* of an infinite x too */
}

static inline float mantissa(float x)
{
	uint32_t u = num_bits(x), mag = u & 0x7fffffffu;
	if (mag == 0 || mag >= 0x7f800000u)
		return x;
	float n = mag < 0x00800000u ? x * 0x1p32f : x;
	return num_float((num_bits(n) & 0x807fffffu) | 0x3f000000u);
}

static inline int32_t exponent(float x)
{
	uint32_t mag = num_bits(x) & 0x7fffffffu;
	if (mag == 0 || mag >= 0x7f800000u)
		return 0;
	return mag < 0x00800000u ? (int32_t)(num_bits(fabsf(x) * 0x1p32f) >> 23) - 126 - 32 : (int32_t)(mag >> 23) - 126;
}

/* The face of a cube that a direction points to, its coordinates there, and twice the major axis. */
struct cube { float id, s, t, major; };
static inline struct cube cube(float x, float y, float z)
{
	if (fabsf(z) >= fabsf(x) && fabsf(z) >= fabsf(y))
		return (struct cube){z < 0 ? 5 : 4, z < 0 ? -x : x, -y, 2 * z};
	if (fabsf(y) >= fabsf(x))
		return (struct cube){y < 0 ? 3 : 2, x, y < 0 ? -z : z, 2 * y};
	return (struct cube){x < 0 ? 1 : 0, x < 0 ? z : -z, -y, 2 * x};
}

static inline int biased(float x) { return (int)(num_bits(x) >> 23 & 255); }

/* One operand's scaling of a division n/d; *flag is VCC's bit.  The ISA guide's cases in its order; where 1/d and n/d are
 * both denormal the denominator goes down by 2^64 (the guide's pseudo code prints +64, which would overflow).  n/d need
 * not be formed: |n| * 2^126 is exact, or beyond every d. */
static inline float div_scale(float x, float d, float n, uint32_t *flag)
{
	int32_t inf = fabsf(d) == INFINITY, r_tiny = (fabsf(d) > 0x1p126f) & (inf ^ 1);
	int32_t q_tiny = (fabsf(n) * 0x1p126f < fabsf(d)) & (inf ^ 1);
	int32_t is_d = num_bits(x) == num_bits(d), is_n = num_bits(x) == num_bits(n), none = (d == 0) | (n == 0);
	int32_t apart = biased(n) - biased(d) >= 96, d_tiny = biased(d) == 0, both = r_tiny & q_tiny;
	int32_t by = (biased(n) <= 23) * 64; /* the power of two to scale by */
	by = q_tiny ? is_n * 64 : by;
	by = r_tiny ? -64 : by;
	by = both ? is_d * -64 : by;
	by = d_tiny ? 64 : by;
	by = apart ? is_d * 64 : by;
	*flag = (uint32_t)((apart | (q_tiny & (d_tiny ^ 1))) & (none ^ 1));
	uint32_t scaled = num_bits(x * num_float((uint32_t)(127 + by) << 23)), r = by ? scaled : num_bits(x);
	return num_float(none ? 0x7fc00000u : r);
}

/* fma with the last scaling of a division, rounded once: the sum is rounded to odd in f64 (53 bits are more than twice
 * 24 + 1) before the scaled value is rounded to f32. */
static float div_fmas_scaled(float a, float b, float c)
{
	double s = sum_to_odd((double)a * b, c);
	return (float)(s * (biased(c) > 127 ? 0x1p64 : 0x1p-64));
}

static inline float div_fixup(float q, float d, float n)
{
	uint32_t sign = (num_bits(d) ^ num_bits(n)) & 0x80000000u;
	float inf = num_float(sign | 0x7f800000u), zero = num_float(sign);
	float r = q != q ? inf : num_float(sign | (num_bits(q) & 0x7fffffffu)); /* NaN: the quotient overflowed on the way */
	bool d_inf = isinf(d), n_inf = isinf(n);
	r = d_inf | (n == 0) | (biased(n) - biased(d) < -150) ? zero : r;
	r = (d == 0) | n_inf ? inf : r;
	r = ((d == 0) & (n == 0)) | (d_inf & n_inf) ? num_float(0xffc00000u) : r;
	r = d != d ? quiet(d) : r;
	return n != n ? quiet(n) : r;
}

static SIM_LANES_FN void scale_rows(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d, uint32_t *flags)
{
	EACH(div_scale(F(a[i]), F(b[i]), F(c[i]), &flags[i]));
}

static SIM_LANES_FN void fixup_rows(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	EACH(div_fixup(F(a[i]), F(b[i]), F(c[i])));
}

static SIM_LANES_FN void fma_rows(const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	EACH(fma3(F(a[i]), F(b[i]), F(c[i])));
}

static void division(struct sim_wave *w, const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c)
{
	uint32_t d[LANES], flags[LANES];
	uint64_t vcc = sim_sgpr64(w, REG_VCC), mask = 0;
	switch (in->op) {
	case OP_v_div_scale_f32:
		scale_rows(a, b, c, d, flags);
		for (int i = 0; i < LANES; i++)
			mask |= (uint64_t)flags[i] << i;
		break;
	case OP_v_div_fmas_f32:
		fma_rows(a, b, c, d);
		for (uint64_t left = vcc; left; left &= left - 1) { /* seldom any */
			int i = __builtin_ctzll(left);
			d[i] = num_bits(div_fmas_scaled(F(a[i]), F(b[i]), F(c[i])));
		}
		break;
	default: fixup_rows(a, b, c, d);
	}
	sim_put32(w, in, d);
	if (in->op == OP_v_div_scale_f32)
		sim_put_mask(w, in->sdst, mask & sim_exec(w));
}

static SIM_LANES_FN bool arithmetic(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c,
	const uint32_t *acc, bool ieee, uint32_t *d)
{
	switch (in->op) {
	case OP_v_add_f32: EACH(add(F(a[i]), F(b[i]))); return true;
	case OP_v_sub_f32: EACH(add(F(a[i]), -F(b[i]))); return true;
	case OP_v_subrev_f32: EACH(add(F(b[i]), -F(a[i]))); return true;
	case OP_v_mul_f32: EACH(mul(F(a[i]), F(b[i]))); return true;
	case OP_v_mul_legacy_f32: EACH(mul_legacy(F(a[i]), F(b[i]))); return true;
	case OP_v_fmac_f32: EACH(fma3(F(a[i]), F(b[i]), F(acc[i]))); return true;
	case OP_v_fma_f32: case OP_v_fmamk_f32: case OP_v_fmaak_f32: EACH(fma3(F(a[i]), F(b[i]), F(c[i]))); return true;
	case OP_v_min_f32: EACHU(min_f32(a[i], b[i], ieee)); return true;
	case OP_v_max_f32: EACHU(max_f32(a[i], b[i], ieee)); return true;
	case OP_v_min3_f32: EACHU(min_f32(min_f32(a[i], b[i], ieee), c[i], ieee)); return true;
	case OP_v_max3_f32: EACHU(max_f32(max_f32(a[i], b[i], ieee), c[i], ieee)); return true;
	case OP_v_med3_f32: EACHU(med3_f32(a[i], b[i], c[i], ieee)); return true;
	case OP_v_minimum3_f32: EACHU(minimum_f32(minimum_f32(a[i], b[i]), c[i])); return true;
	case OP_v_maximum3_f32: EACHU(maximum_f32(maximum_f32(a[i], b[i]), c[i])); return true;
	case OP_v_trunc_f32: EACH(nan1(truncf(F(a[i])), F(a[i]))); return true;
	case OP_v_ceil_f32: EACH(nan1(ceilf(F(a[i])), F(a[i]))); return true;
	case OP_v_floor_f32: EACH(nan1(floorf(F(a[i])), F(a[i]))); return true;
	case OP_v_rndne_f32: EACH(nan1(rintf(F(a[i])), F(a[i]))); return true;
	case OP_v_fract_f32: EACH(nan1(fract(F(a[i])), F(a[i]))); return true;
	case OP_v_frexp_mant_f32: EACH(mantissa(F(a[i]))); return true;
	case OP_v_frexp_exp_i32_f32: EACHU(exponent(F(a[i]))); return true;
	case OP_v_rcp_f32: case OP_v_rcp_iflag_f32: EACH(num_rcp(F(a[i]))); return true;
	case OP_v_rsq_f32: EACH(num_rsq(F(a[i]))); return true;
	case OP_v_sqrt_f32: EACH(num_sqrt_hw(F(a[i]))); return true;
	case OP_v_cubeid_f32: EACH(cube(F(a[i]), F(b[i]), F(c[i])).id); return true;
	case OP_v_cubesc_f32: EACH(cube(F(a[i]), F(b[i]), F(c[i])).s); return true;
	case OP_v_cubetc_f32: EACH(cube(F(a[i]), F(b[i]), F(c[i])).t); return true;
	case OP_v_cubema_f32: EACH(cube(F(a[i]), F(b[i]), F(c[i])).major); return true;
	default: return false;
	}
}

static bool special(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, uint64_t lanes, uint32_t *d)
{
	float (*f)(float);
	switch (in->op) {
	case OP_v_exp_f32: case OP_v_exp_legacy_f32: f = num_exp2; break;
	case OP_v_log_f32: case OP_v_log_legacy_f32: f = num_log2; break;
	case OP_v_sin_f32: f = num_sin; break;
	case OP_v_cos_f32: f = num_cos; break;
	case OP_v_ldexp_f32:
		for (int i = 0; i < LANES; i++)
			d[i] = num_bits(nan1(ldexpf(F(a[i]), (int32_t)b[i] < -1000 ? -1000 : (int32_t)b[i] > 1000 ? 1000 : (int32_t)b[i]), F(a[i])));
		return true;
	default: return false;
	}
	for (int i = 0; i < LANES; i++) /* costly: only the lanes that are stored */
		d[i] = lanes >> i & 1 ? num_bits(f(F(a[i]))) : 0;
	return true;
}

void exec_f32(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES], bc[LANES], bd[LANES];
	const uint32_t *a = sim_src32(w, in, 0, ba);
	const uint32_t *b = in->nsrc > 1 ? sim_src32(w, in, 1, bb) : a;
	const uint32_t *c = in->nsrc > 2 ? sim_src32(w, in, 2, bc) : a;
	if (in->op == OP_v_div_scale_f32 || in->op == OP_v_div_fmas_f32 || in->op == OP_v_div_fixup_f32) {
		division(w, in, a, b, c);
		return;
	}
	unsigned round = sim_round32(w);
	uint32_t *d = round ? bd : sim_dst32(w, in, bd); /* a correction needs the operands after the result */
	const uint32_t *acc = w->vgpr[in->vdst < w->nvgpr ? in->vdst : 0];
	if (!arithmetic(in, a, b, c, acc, w->ieee, d) && !special(in, a, b, sim_exec(w), d)) {
		sim_unknown(w, in);
		return;
	}
	if (round)
		sim_round_f32(round, in->op, a, b, in->op == OP_v_fmac_f32 ? acc : c, d);
	sim_put32(w, in, d);
}
