/* num.h -- number formats and the hardware's approximate functions, one definition of each.
 *
 * The evaluator of tile IR and the simulated device both call these, so that a kernel's evaluated and executed results
 * can be compared bit for bit.  Where real hardware may differ by an ulp (rcp, rsq, exp2, log2, sin, cos, matrix
 * accumulation) docs/simulator.md says so.  Pure functions; no state; round to nearest even unless said otherwise. */
#ifndef TDSL_NUM_H
#define TDSL_NUM_H
#include "dtype.h"

/* Widening is exact.  Any code of any format of class F (16/32 bits) or Q to f32; NaN payloads of bf16/f16 are kept
 * shifted, other formats give the quiet NaN 0x7fc00000. */
float num_to_f32(uint32_t code, enum dtype t);
/* f32 -> code of `t`, rounding to nearest even.  saturate: finite overflow and +-inf go to the largest finite value of
 * the same sign; otherwise overflow gives inf where the format has it, NaN where it has not (OCP e4m3, FNUZ).  NaN stays
 * NaN (e4m3 0x7f|sign, FNUZ 0x80, e8m0 0xff; e2m1 has none: NaN gives +0 is NOT allowed, it gives the code 0x7 (6.0)
 * with the sign, as the scaled conversions of gfx950 do).  e8m0 rounds the magnitude to the nearest power of two. */
uint32_t num_from_f32(float x, enum dtype t, bool saturate);
/* Largest finite value of a float format, e.g. 448 for e4m3, 240 for e4m3fnuz; 127, 255, 2^31-1 for integers. */
double num_max(enum dtype t);

static inline uint32_t num_bits(float x) { union { float f; uint32_t u; } c = {x}; return c.u; }
static inline float num_float(uint32_t u) { union { uint32_t u; float f; } c = {u}; return c.f; }

/* The single-instruction functions (v_exp_f32, v_log_f32, v_rcp_f32, v_rsq_f32, v_sqrt_f32, v_sin_f32, v_cos_f32):
 * the f64 result rounded to f32; v_exp/v_log/v_rsq/v_sqrt take a denormal input as zero of its sign and v_exp and v_rcp
 * flush a denormal result to zero of its sign (v_rcp takes a denormal input as zero too).  sin/cos take turns. */
float num_exp2(float x);
float num_log2(float x);
float num_sin(float turns);
float num_cos(float turns);

static inline float num_quiet(float x) { return num_float(num_bits(x) | 0x00400000u); }
/* A denormal becomes the zero of its sign. */
static inline float num_flush(float x) { return num_float(num_bits(x) & 0x7f800000u ? num_bits(x) : num_bits(x) & 0x80000000u); }
/* Here, so that loops over lanes become vector code. */
static inline float num_rcp(float x)
{
	float r = num_flush((float)(1.0 / (double)num_flush(x)));
	return x != x ? num_quiet(x) : r;
}
static inline float num_rsq(float x)
{
	float f = num_flush(x), r = (float)(1.0 / __builtin_sqrt((double)f));
	r = f < 0 ? num_float(0x7fc00000u) : r;
	return x != x ? num_quiet(x) : r;
}
static inline float num_sqrt_hw(float x)
{
	float f = num_flush(x), r = (float)__builtin_sqrt((double)f);
	r = f < 0 ? num_float(0x7fc00000u) : r;
	return x != x ? num_quiet(x) : r;
}

/* Matrix accumulation: c + a[0]*b[0] + a[1]*b[1] + ... in this order, each product rounded to f32 (exact for bf16, f16
 * and fp8 operands in range), each sum rounded to f32, denormals kept. */
float num_dot_f32(float c, const float *a, const float *b, int n);
#endif
