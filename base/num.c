/* num.c -- number formats bit by bit, and the hardware's approximate functions.
 *
 * In: codes or f32; out: f32 or codes.  A format is a row of facts (mantissa bits, bias, largest finite code, what
 * overflow and NaN give); one widening and one rounding routine serve all of f16 and the narrow floats.  Widening shifts
 * the magnitude under f32's exponent and multiplies by a power of two, which is exact for denormals as well; narrowing
 * works on integers only, so it depends on no rounding mode.  The approximate functions are the host's f64 functions
 * rounded to f32.  Checked against the ml_dtypes package, all codes and all bf16/f16 patterns (tests/sim_num_test.py). */
#include "num.h"

#include <math.h>

struct format {
	uint32_t mbits, bias;
	uint32_t sign;      /* sign bit of the code */
	uint32_t max;       /* largest finite code */
	uint32_t over;      /* code of an overflow that does not saturate, the sign is added where has_sign */
	uint32_t nan;       /* code of NaN */
	uint32_t inf;       /* code of infinity, ~0u where the format has none */
	bool fnuz;          /* no negative zero; NaN is the sign bit alone */
};

static const struct format formats[DT_COUNT] = {
	[DT_F16] =      {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7e00, 0x7c00, false},
	[DT_E4M3] =     {3, 7, 0x80, 0x7e, 0x7f, 0x7f, ~0u, false},
	[DT_E4M3FNUZ] = {3, 8, 0x80, 0x7f, 0x80, 0x80, ~0u, true},
	[DT_E5M2] =     {2, 15, 0x80, 0x7b, 0x7c, 0x7e, 0x7c, false},
	[DT_E5M2FNUZ] = {2, 16, 0x80, 0x7f, 0x80, 0x80, ~0u, true},
	[DT_E2M1] =     {1, 1, 0x8, 0x7, 0x7, 0x7, ~0u, false},
};

static float widen(uint32_t code, const struct format *f, enum dtype t)
{
	uint32_t mag = code & (f->sign - 1);
	uint32_t sign = code & f->sign ? 0x80000000u : 0;
	if (t == DT_F16 && mag > f->inf)
		return num_float(sign | 0x7f800000u | mag << 13);
	if (f->fnuz ? code == f->nan : t != DT_E2M1 && mag > (f->inf != ~0u ? f->inf : f->max))
		return num_float(0x7fc00000u);
	if (mag == f->inf)
		return num_float(sign | 0x7f800000u);
	float scale = num_float((254 - f->bias) << 23); /* 2^(127-bias) */
	return num_float(sign | num_bits(num_float(mag << (23 - f->mbits)) * scale));
}

float num_to_f32(uint32_t code, enum dtype t)
{
	switch (t) {
	case DT_F32: return num_float(code);
	case DT_BF16: return num_float(code << 16);
	case DT_E8M0:
		code &= 0xff;
		return num_float(code == 0 ? 0x00400000u : code == 0xff ? 0x7fc00000u : code << 23);
	case DT_F16: return widen(code & 0xffff, &formats[t], t);
	case DT_E2M1: return widen(code & 0xf, &formats[t], t);
	case DT_E4M3: case DT_E4M3FNUZ: case DT_E5M2: case DT_E5M2FNUZ: return widen(code & 0xff, &formats[t], t);
	default: return num_float(0x7fc00000u);
	}
}

static uint32_t narrow(uint32_t u, const struct format *f, enum dtype t, bool saturate)
{
	uint32_t mag = u & 0x7fffffffu;
	uint32_t sign = u >> 31 ? f->sign : 0;
	if (mag > 0x7f800000u)
		return f->fnuz ? f->nan : sign | f->nan | (t == DT_F16 ? (mag >> 13 & 0x3ff) : 0);
	/* value = m * 2^(e-23); below the smallest normal exponent the shift grows instead of the exponent falling */
	int e = mag >> 23 ? (int)(mag >> 23) - 127 : -126;
	uint32_t m = mag >> 23 ? (mag & 0x7fffffu) | 0x800000u : mag;
	int emin = 1 - (int)f->bias;
	int shift = 23 - (int)f->mbits + (e < emin ? emin - e : 0);
	if (shift > 25)
		shift = 25;
	uint32_t q = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
	if (rest > half || (rest == half && (q & 1)))
		q++;
	uint32_t code = e < emin ? q : ((uint32_t)(e - emin) << f->mbits) + q;
	if (code > f->max) {
		code = saturate ? f->max : f->over;
		if (!saturate && f->fnuz)
			return code;
	}
	return code == 0 && f->fnuz ? 0 : sign | code;
}

static uint32_t narrow_e8m0(uint32_t u, bool saturate)
{
	uint32_t mag = u & 0x7fffffffu;
	if (mag > 0x7f800000u)
		return 0xff;
	/* The half way between two powers goes up, as in ml_dtypes.  Below 2^-126 it is 1.5 * 2^-127 = 0x00600000. */
	uint32_t code = mag < 0x00800000u ? mag >= 0x00600000u : (mag + 0x400000u) >> 23;
	return code > 0xfe ? (saturate ? 0xfe : 0xff) : code;
}

uint32_t num_from_f32(float x, enum dtype t, bool saturate)
{
	uint32_t u = num_bits(x), mag = u & 0x7fffffffu;
	switch (t) {
	case DT_F32:
		return saturate && mag == 0x7f800000u ? u - 1 : u;
	case DT_BF16:
		if (mag > 0x7f800000u)
			return u >> 16 | 0x40;
		mag = (mag + 0x7fff + (mag >> 16 & 1)) >> 16;
		return (u >> 16 & 0x8000) | (saturate && mag > 0x7f7f ? 0x7f7f : mag);
	case DT_E8M0:
		return narrow_e8m0(u, saturate);
	case DT_F16: case DT_E4M3: case DT_E4M3FNUZ: case DT_E5M2: case DT_E5M2FNUZ: case DT_E2M1:
		return narrow(u, &formats[t], t, saturate);
	default:
		return 0;
	}
}

double num_max(enum dtype t)
{
	switch (t) {
	case DT_I1: return 1;
	case DT_I8: return 127;
	case DT_U8: return 255;
	case DT_I32: return 2147483647.0;
	case DT_I64: return 9223372036854775807.0;
	case DT_F64: return 1.7976931348623157e308;
	case DT_F32: return 3.4028234663852886e38;
	case DT_BF16: return num_to_f32(0x7f7f, t);
	case DT_E8M0: return num_to_f32(0xfe, t);
	case DT_F16: case DT_E4M3: case DT_E4M3FNUZ: case DT_E5M2: case DT_E5M2FNUZ: case DT_E2M1:
		return num_to_f32(formats[t].max, t);
	default: return 0;
	}
}

float num_exp2(float x)
{
	if (isnan(x))
		return num_quiet(x);
	return num_flush((float)exp2((double)num_flush(x)));
}

float num_log2(float x)
{
	if (isnan(x))
		return num_quiet(x);
	x = num_flush(x);
	return x < 0 ? num_float(0x7fc00000u) : (float)log2((double)x);
}

/* sin and cos take turns.  The instruction set's guide gives [-256, 256] as the domain and 0 (sin) or 1 (cos) outside
 * of it.  The turn is reduced to +-1/8 first, so that multiples of a quarter turn are exact. */
static float sin_turns(double turns)
{
	const double tau = 6.283185307179586476925286766559;
	double r = turns - floor(turns);       /* [0, 1), exact: f32 in, f64 here */
	int quarter = (int)floor(r * 4 + 0.5); /* 0..4 */
	double rest = (r - quarter * 0.25) * tau;
	switch (quarter & 3) {
	case 0: return (float)sin(rest);
	case 1: return (float)cos(rest);
	case 2: return (float)-sin(rest);
	default: return (float)-cos(rest);
	}
}

float num_sin(float turns)
{
	if (isnan(turns))
		return num_quiet(turns);
	if (isinf(turns))
		return num_float(0x7fc00000u);
	if (fabsf(turns) > 256)
		return 0;
	float x = num_flush(turns);
	return x == 0 ? x : sin_turns((double)x);
}

float num_cos(float turns)
{
	if (isnan(turns))
		return num_quiet(turns);
	if (isinf(turns))
		return num_float(0x7fc00000u);
	if (fabsf(turns) > 256)
		return 1;
	return sin_turns((double)turns + 0.25);
}

float num_dot_f32(float c, const float *a, const float *b, int n)
{
	for (int i = 0; i < n; i++)
		c += a[i] * b[i];
	return c;
}
