/* eval_op.h -- what each scalar operation of tile IR computes: one definition for the evaluator and for constant folding.
 *
 * Integers travel as int64_t already wrapped to their type (i1 0 or 1, u8 0..255, the others signed); f32, f16 and bf16 as
 * float holding a value of the type; the narrow floats as codes in an int64_t.  Inline, because the evaluator's loops are
 * made of these.  Float arithmetic is single precision and never contracted. */
#ifndef TDSL_EVAL_OP_H
#define TDSL_EVAL_OP_H
#include <math.h>
#include "../base/num.h"
#include "ir.h"

/* f32, f16 and bf16 are computed with; narrower floats are only converted, selected and moved. */
static inline bool op_type_is_float(enum dtype t) { return t == DT_F32 || t == DT_F16 || t == DT_BF16; }
static inline bool op_type_is_code(enum dtype t) { return dtype_info(t)->cls == 'Q'; }
static inline bool op_type_is_int(enum dtype t) { return t == DT_I1 || t == DT_I8 || t == DT_U8 || t == DT_I32 || t == DT_I64; }

static inline int64_t op_int_wrap(enum dtype t, int64_t v)
{
	switch (t) {
	case DT_I1: return v & 1;
	case DT_I8: return (int8_t)v;
	case DT_U8: return (uint8_t)v;
	case DT_I32: return (int32_t)v;
	default: return v;
	}
}

static inline float op_float_round(enum dtype t, float x)
{
	return t == DT_F32 ? x : num_to_f32(num_from_f32(x, t, false), t);
}

static inline int64_t op_int_div(int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

/* Philox-4x32-10 (Salmon et al., SC'11): first word of the block numbered by the counter, keyed by the seed. */
static inline int32_t op_philox(uint64_t seed, uint64_t counter)
{
	uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}, k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
		uint32_t n0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
		c[1] = (uint32_t)p1;
		c[3] = (uint32_t)p0;
		c[0] = n0;
		c[2] = n2;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return (int32_t)c[0];
}

/* BIN and BIT on integers of type t. */
static inline int64_t op_int_binary(enum ir_op op, enum dtype t, int64_t a, int64_t b)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b;
	int mask = t == DT_I64 ? 63 : t == DT_I32 ? 31 : 7;
	switch (op) {
	case IR_ADD: return op_int_wrap(t, (int64_t)(x + y));
	case IR_SUB: return op_int_wrap(t, (int64_t)(x - y));
	case IR_MUL: return op_int_wrap(t, (int64_t)(x * y));
	case IR_DIV: return op_int_wrap(t, op_int_div(a, b));
	case IR_REM: return b == 0 || b == -1 ? 0 : a % b;
	case IR_MIN: return a < b ? a : b;
	case IR_MAX: return a > b ? a : b;
	case IR_AND: return a & b;
	case IR_OR: return a | b;
	case IR_XOR: return a ^ b;
	case IR_SHL: return op_int_wrap(t, (int64_t)(x << (b & mask)));
	case IR_SHR: return a >> (b & mask);
	case IR_PHILOX: return t == DT_I64 ? op_philox(x, y) : op_philox((uint32_t)a, (uint32_t)b);
	default: return 0;
	}
}

/* minNum and maxNum of IEEE 754-2008 with -0 below +0, so that the order of a reduction does not matter. */
static inline float op_float_min(float a, float b)
{
	if (a < b || b != b)
		return a;
	return a == b && signbit(a) ? a : b;
}

static inline float op_float_max(float a, float b)
{
	if (a > b || b != b)
		return a;
	return a == b && !signbit(a) ? a : b;
}

/* BIN on floats, before rounding to a 16-bit type. */
static inline float op_float_binary(enum ir_op op, float a, float b)
{
	switch (op) {
	case IR_ADD: return a + b;
	case IR_SUB: return a - b;
	case IR_MUL: return a * b;
	case IR_DIV: return a / b;
	case IR_REM: return fmodf(a, b);
	case IR_MIN: return op_float_min(a, b);
	case IR_MAX: return op_float_max(a, b);
	default: return 0;
	}
}

static inline bool op_int_compare(enum ir_op op, int64_t a, int64_t b)
{
	return op == IR_LT ? a < b : op == IR_LE ? a <= b : op == IR_EQ ? a == b : a != b;
}

static inline bool op_float_compare(enum ir_op op, float a, float b)
{
	return op == IR_LT ? a < b : op == IR_LE ? a <= b : op == IR_EQ ? a == b : a != b;
}

/* UN on floats, before rounding to a 16-bit type. */
static inline float op_float_unary(enum ir_op op, float a)
{
	switch (op) {
	case IR_NEG: return -a;
	case IR_ABS: return fabsf(a);
	case IR_SQRT: return sqrtf(a);
	case IR_RSQRT: return num_rsq(a);
	case IR_RCP: return num_rcp(a);
	case IR_EXP2: return num_exp2(a);
	case IR_LOG2: return num_log2(a);
	case IR_SIN: return (float)sin(a);
	case IR_COS: return (float)cos(a);
	case IR_SIN_TURNS: return num_sin(a);
	case IR_COS_TURNS: return num_cos(a);
	case IR_EXP: return (float)exp(a);
	case IR_LOG: return (float)log(a);
	case IR_TANH: return (float)tanh(a);
	case IR_ERF: return (float)erf(a);
	case IR_ERFC: return (float)erfc(a);
	case IR_NORMCDF: return (float)(0.5 * erfc(-a * 0.70710678118654752));
	case IR_FLOOR: return floorf(a);
	case IR_CEIL: return ceilf(a);
	case IR_ROUND: return rintf(a);
	default: return 0;
	}
}

static inline int64_t op_int_unary(enum ir_op op, enum dtype t, int64_t a)
{
	if (op == IR_NOT)
		return t == DT_I1 ? !a : op_int_wrap(t, ~a);
	return op_int_wrap(t, op == IR_ABS && a >= 0 ? a : (int64_t)(0 - (uint64_t)a));
}

/* Float to integer: truncation clamped to i32 (i64) and then wrapped; with saturate nearest even, clamped to the type; NaN 0. */
static inline int64_t op_float_to_int(float x, enum dtype t, bool saturate)
{
	double least = t == DT_I64 ? -0x1p63 : -0x1p31, most = t == DT_I64 ? 0x1p63 : 0x1p31 - 1;
	if (x != x)
		return 0;
	double v = saturate ? rint(x) : trunc(x);
	if (saturate && t != DT_I32 && t != DT_I64) {
		least = t == DT_I8 ? -128 : 0;
		most = t == DT_I8 ? 127 : t == DT_U8 ? 255 : 1;
	}
	if (v >= 0x1p63)
		return op_int_wrap(t, t == DT_I64 ? INT64_MAX : (int64_t)most);
	return op_int_wrap(t, (int64_t)(v < least ? least : v > most ? most : v));
}

static inline int64_t op_int_to_int(int64_t v, enum dtype t, bool saturate)
{
	if (saturate && t != DT_I64) {
		int64_t least = t == DT_I8 ? -128 : t == DT_I32 ? INT32_MIN : 0;
		int64_t most = t == DT_I8 ? 127 : t == DT_U8 ? 255 : t == DT_I32 ? INT32_MAX : 1;
		v = v < least ? least : v > most ? most : v;
	}
	return op_int_wrap(t, v);
}
#endif
