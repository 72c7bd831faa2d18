/* nan.h -- NaN, minimum and maximum rules of the vector unit, for f32 patterns, without branches.
 *
 * v_min and v_max: a signalling NaN gives its quiet form in IEEE mode; otherwise a NaN gives the other operand; -0 is
 * below +0.  minimum and maximum (gfx950) pass any NaN on.  f16 uses the same after widening, which is exact. */
#ifndef TDSL_SIM_NAN_H
#define TDSL_SIM_NAN_H
#include "../base/num.h"

static inline float quiet(float x) { return num_float(num_bits(x) | 0x00400000u); }
static inline float nan1(float r, float a) { return a != a ? quiet(a) : r; }
/* r = a op b: an operation on numbers that gives NaN gives the device's positive one. */
static inline float nan2(float r, float a, float b) { return r != r && a == a && b == b ? num_float(0x7fc00000u) : r; }

static inline bool is_nan_bits(uint32_t u) { return (u & 0x7fffffffu) > 0x7f800000u; }
static inline bool is_snan_bits(uint32_t u) { return (u & 0x7fffffffu) - 0x7f800001u < 0x003fffffu; }
/* Signed integers in the order of the floats, -0 below +0. */
static inline int32_t order_key(uint32_t u) { return (int32_t)(u ^ (uint32_t)((int32_t)u >> 31 & 0x7fffffff)); }

static inline uint32_t pick_nan(uint32_t r, uint32_t a, uint32_t b, bool ieee)
{
	r = is_nan_bits(b) ? a : r;
	r = is_nan_bits(a) ? b : r;
	r = ieee & is_snan_bits(b) ? b | 0x00400000u : r;
	return ieee & is_snan_bits(a) ? a | 0x00400000u : r;
}
static inline uint32_t min_f32(uint32_t a, uint32_t b, bool ieee)
{
	return pick_nan(order_key(a) < order_key(b) ? a : b, a, b, ieee);
}
static inline uint32_t max_f32(uint32_t a, uint32_t b, bool ieee)
{
	return pick_nan(order_key(a) > order_key(b) ? a : b, a, b, ieee);
}
static inline bool same_number(uint32_t a, uint32_t b) { return a == b || !((a | b) & 0x7fffffffu); }
/* The middle one: the larger of the two that are not the maximum, where zeros of both signs count as the same number; with a
 * NaN among them the minimum. */
static inline uint32_t med3_f32(uint32_t a, uint32_t b, uint32_t c, bool ieee)
{
	uint32_t ab = order_key(a) > order_key(b) ? a : b, bc = order_key(b) > order_key(c) ? b : c, ac = order_key(a) > order_key(c) ? a : c;
	uint32_t top = order_key(ab) > order_key(c) ? ab : c, m = same_number(top, a) ? bc : same_number(top, b) ? ac : ab;
	bool any = is_nan_bits(a) | is_nan_bits(b) | is_nan_bits(c);
	return any ? min_f32(min_f32(a, b, ieee), c, ieee) : m;
}
static inline uint32_t minimum_f32(uint32_t a, uint32_t b)
{
	uint32_t r = order_key(a) < order_key(b) ? a : b;
	r = is_nan_bits(b) ? b | 0x00400000u : r;
	return is_nan_bits(a) ? a | 0x00400000u : r;
}
static inline uint32_t maximum_f32(uint32_t a, uint32_t b)
{
	uint32_t r = order_key(a) > order_key(b) ? a : b;
	r = is_nan_bits(b) ? b | 0x00400000u : r;
	return is_nan_bits(a) ? a | 0x00400000u : r;
}

/* p + c in f64 rounded to odd: an inexact sum gets its last bit set, so that a later rounding to at most 51 bits is the
 * rounding of the exact sum. */
static inline double sum_to_odd(double p, double c)
{
	double s = p + c, bb = s - p;
	double err = (p - (s - bb)) + (c - bb);
	union { double d; uint64_t u; } v = {s};
	if (err != 0 && err == err && s - s == 0 && !(v.u & 1)) {
		/* towards the exact value, which lies beside s on the side of err: the odd neighbour there */
		v.u += (err > 0) == (s > 0) ? 1 : (uint64_t)-1;
	}
	return v.d;
}
#endif
