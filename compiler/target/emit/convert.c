/* convert.c -- conversions between element types, bit for bit those of base/num.c.
 * In: one scalar or short vector.  Out: the same elements as another type.  The chip's own 8-bit floats have instructions; all other
 * narrow floats (the other chip's pair, e2m1, e8m0) are made from words: rounded by one addition, or in integers. */
#include "machine.h"

#include <math.h>
#include <string.h>
#include "../../../base/num.h"

static LLVMValueRef real(struct emit *e, enum dtype t, double x, int n)
{
	return op_splat(e, LLVMConstReal(emit_type(e, t), x), n);
}

/* x is not NaN ? y : x's own kind of NaN stays; integers: NaN gives 0 */
static LLVMValueRef unless_nan(struct emit *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef otherwise)
{
	return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), otherwise, y, "");
}

LLVMValueRef op_clamped(struct emit *e, LLVMValueRef x, enum dtype range)
{
	int n = vector_length(x);
	LLVMValueRef bound[2] = {LLVMConstReal(e->f32, -num_max(range)), LLVMConstReal(e->f32, num_max(range))}, part[64];
	for (int i = 0; i < n; i++)
		part[i] = e->machine->clamp(e, n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i), "") : x, bound[0], bound[1]);
	return unless_nan(e, x, vector_join(e, part, n, 1), x);
}

/* e8m0: exponent byte; the scale 2^(code - 127), 0xff NaN, code 0 = 2^-127 */
static LLVMValueRef from_e8m0(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMTypeRef ti = emit_vector(e->i32, n), tf = emit_vector(e->f32, n);
	LLVMValueRef code = LLVMBuildZExt(e->b, x, ti, "");
	LLVMValueRef bits = LLVMBuildShl(e->b, code, op_splat(e, emit_int(e, 23), n), "");
	LLVMValueRef is0 = LLVMBuildICmp(e->b, LLVMIntEQ, code, LLVMConstNull(ti), "");
	LLVMValueRef nan = LLVMBuildICmp(e->b, LLVMIntEQ, code, op_splat(e, emit_int(e, 255), n), "");
	bits = LLVMBuildSelect(e->b, is0, op_splat(e, emit_int(e, 1 << 22), n), bits, "");
	bits = LLVMBuildSelect(e->b, nan, op_splat(e, emit_int(e, 0x7fc00000), n), bits, "");
	return LLVMBuildBitCast(e->b, bits, tf, "");
}

/* --- narrow floats in integers ---------------------------------------------------------------------------------------------- */

struct narrow_format { int bits, mantissa, bias; bool fnuz; };

static struct narrow_format format_of(enum dtype t)
{
	switch (t) {
	case DT_E4M3: return (struct narrow_format){8, 3, 7, false};
	case DT_E4M3FNUZ: return (struct narrow_format){8, 3, 8, true};
	case DT_E5M2: return (struct narrow_format){8, 2, 15, false};
	case DT_E5M2FNUZ: return (struct narrow_format){8, 2, 16, true};
	default: return (struct narrow_format){4, 1, 1, false};              /* e2m1 */
	}
}

static LLVMValueRef ints(struct emit *e, int64_t x, int n)
{
	return op_splat(e, emit_int(e, x), n);
}

static LLVMValueRef above(struct emit *e, LLVMValueRef x, int64_t most)
{
	return LLVMBuildICmp(e->b, LLVMIntUGT, x, ints(e, most, vector_length(x)), "");
}

static LLVMValueRef choose(struct emit *e, LLVMValueRef c, LLVMValueRef x, LLVMValueRef y)
{
	return LLVMBuildSelect(e->b, c, x, y, "");
}

static LLVMValueRef larger(struct emit *e, LLVMValueRef x, LLVMValueRef y, const char *name)
{
	LLVMValueRef a[2] = {x, y};
	return op_whole(e, name, a, 2);
}

/* Added to the power of two below it, or to the least normal one, times 2^(23 - mantissa bits), a magnitude is rounded to the bits that it keeps, ties to
 * even, and these are the sum's lowest.  The code is those and the exponent's distance from the least, side by side.  What is too large is made
 * the least that is. */
static LLVMValueRef soft_narrow(struct emit *e, LLVMValueRef x, enum dtype t, bool saturate)
{
	int n = vector_length(x);
	struct narrow_format f = format_of(t);
	LLVMBuilderRef b = e->b;
	LLVMTypeRef ti = emit_vector(e->i32, n), tf = emit_vector(e->f32, n);
	float top = (float)num_max(t);
	int64_t least = 128 - f.bias, limit = 0;
	memcpy(&limit, &top, sizeof top);
	limit = (limit & 0x7f800000) + 0x800000;
	LLVMValueRef u = LLVMBuildBitCast(b, x, ti, ""), zero = LLVMConstNull(ti), all = LLVMBuildAnd(b, u, ints(e, 0x7fffffff, n), "");
	LLVMValueRef sign = LLVMBuildAnd(b, LLVMBuildLShr(b, u, ints(e, 32 - f.bits, n), ""), ints(e, 1 << (f.bits - 1), n), "");
	LLVMValueRef mag = larger(e, all, ints(e, limit, n), "llvm.umin");
	LLVMValueRef power = LLVMBuildAnd(b, larger(e, mag, ints(e, least << 23, n), "llvm.umax"), ints(e, 0x7f800000, n), "");
	LLVMValueRef magic = LLVMBuildAdd(b, power, ints(e, (int64_t)(23 - f.mantissa) << 23, n), "");
	LLVMValueRef sum = LLVMBuildFAdd(b, LLVMBuildBitCast(b, mag, tf, ""), LLVMBuildBitCast(b, magic, tf, ""), "");
	LLVMValueRef q = LLVMBuildSub(b, LLVMBuildBitCast(b, sum, ti, ""), magic, "");
	LLVMValueRef over = LLVMBuildSub(b, LLVMBuildLShr(b, power, ints(e, 23 - f.mantissa, n), ""), ints(e, least << f.mantissa, n), "");
	LLVMValueRef code = LLVMBuildAdd(b, q, over, "");
	uint32_t most = num_from_f32(top, t, true), beyond = num_from_f32(saturate ? top : INFINITY, t, saturate);
	LLVMValueRef is_over = above(e, code, most), is_nan = above(e, all, 0x7f800000);
	code = choose(e, is_over, ints(e, beyond, n), code);
	LLVMValueRef with_sign = LLVMBuildOr(b, code, sign, ""), nan = ints(e, num_from_f32(NAN, t, false), n);
	if (f.fnuz) {                                      /* no -0; NaN has no sign */
		with_sign = choose(e, LLVMBuildICmp(b, LLVMIntEQ, code, zero, ""), zero, with_sign);
		with_sign = saturate ? with_sign : choose(e, is_over, code, with_sign);
	} else {
		nan = LLVMBuildOr(b, nan, sign, "");
	}
	return LLVMBuildTrunc(b, choose(e, is_nan, nan, with_sign), emit_vector(e->i8, n), "");
}

/* Of two words the bytes from[0..3], numbered as machine.h's `bytes`. */
static LLVMValueRef bytes_of(struct emit *e, LLVMValueRef a, LLVMValueRef c, const int from[4])
{
	LLVMTypeRef four = emit_vector(e->i8, 4);
	LLVMValueRef mask[4];
	if (e->machine->bytes)
		return e->machine->bytes(e, a, c, from);
	for (int i = 0; i < 4; i++)
		mask[i] = emit_int(e, from[i]);
	LLVMValueRef both = LLVMBuildShuffleVector(e->b, LLVMBuildBitCast(e->b, a, four, ""), LLVMBuildBitCast(e->b, c, four, ""), LLVMConstVector(mask, 4), "");
	return LLVMBuildBitCast(e->b, both, e->i32, "");
}

/* Byte `at` of each of four words. */
static LLVMValueRef bytes_gathered(struct emit *e, LLVMValueRef words, int first, int at)
{
	LLVMValueRef w[4];
	for (int i = 0; i < 4; i++)
		w[i] = LLVMBuildExtractElement(e->b, words, emit_int(e, first + i), "");
	const int two[4] = {at, 4 + at, at, at};
	return bytes_of(e, bytes_of(e, w[0], w[1], two), bytes_of(e, w[2], w[3], two), (const int[4]){0, 1, 4, 5});
}

/* Three bits of a sum below the sign of what it was made of; of four numbers at a time, side by side. */
static LLVMValueRef codes_signed(struct emit *e, LLVMValueRef sum, LLVMValueRef u)
{
	int n = vector_length(sum);
	LLVMValueRef part[16];
	if (n % 4 || n > 64) {
		LLVMValueRef sign = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, u, ints(e, 28, n), ""), ints(e, 8, n), "");
		return LLVMBuildTrunc(e->b, LLVMBuildOr(e->b, LLVMBuildAnd(e->b, sum, ints(e, 7, n), ""), sign, ""), emit_vector(e->i8, n), "");
	}
	for (int i = 0; i < n; i += 4) {
		LLVMValueRef sign = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, bytes_gathered(e, u, i, 3), emit_int(e, 4), ""), emit_int(e, 0x08080808), "");
		LLVMValueRef code = LLVMBuildAnd(e->b, bytes_gathered(e, sum, i, 0), emit_int(e, 0x07070707), "");
		part[i / 4] = LLVMBuildBitCast(e->b, LLVMBuildOr(e->b, code, sign, ""), emit_vector(e->i8, 4), "");
	}
	return vector_join(e, part, n / 4, 4);
}

/* As soft_narrow, for a format with neither infinities nor NaN, whose largest is what is too large.  The sum's lowest bits and the exponent are added
 * up where they stand, for three bits are kept; that the power's product is by one more adds the two units that the exponents differ by. */
static LLVMValueRef to_e2m1(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMBuilderRef b = e->b;
	LLVMTypeRef ti = emit_vector(e->i32, n), tf = emit_vector(e->f32, n);
	LLVMValueRef size[2] = {op_whole(e, "llvm.fabs", &x, 1), real(e, DT_F32, num_max(DT_E2M1), n)}, mag = op_whole(e, "llvm.minnum", size, 2);
	LLVMValueRef power = LLVMBuildAnd(b, larger(e, LLVMBuildBitCast(b, mag, ti, ""), ints(e, 127 << 23, n), "llvm.umax"), ints(e, 0x7f800000, n), "");
	LLVMValueRef rounding[3] = {LLVMBuildBitCast(b, power, tf, ""), real(e, DT_F32, (1 << 22) + 1, n), mag};
	LLVMValueRef sum = LLVMBuildBitCast(b, op_whole(e, "llvm.fma", rounding, 3), ti, "");
	return codes_signed(e, LLVMBuildAdd(b, sum, LLVMBuildLShr(b, power, ints(e, 22, n), ""), ""), LLVMBuildBitCast(b, x, ti, ""));
}

/* The magnitude below f32's exponent, times a power of two: exact for denormals as well.  The last choice is one between floats: of pairs whose
 * words were chosen LLVM 22 negates the second alone (performFNegCombine in AMDGPUISelLowering.cpp takes them for an f64). */
static LLVMValueRef soft_widen(struct emit *e, LLVMValueRef x, enum dtype t)
{
	int n = vector_length(x);
	struct narrow_format f = format_of(t);
	LLVMBuilderRef b = e->b;
	LLVMTypeRef ti = emit_vector(e->i32, n), tf = emit_vector(e->f32, n);
	LLVMValueRef code = LLVMBuildZExt(b, x, ti, ""), mag = LLVMBuildAnd(b, code, ints(e, (1 << (f.bits - 1)) - 1, n), "");
	LLVMValueRef sign = LLVMBuildShl(b, LLVMBuildAnd(b, code, ints(e, 1 << (f.bits - 1), n), ""), ints(e, 32 - f.bits, n), "");
	LLVMValueRef v = LLVMBuildBitCast(b, LLVMBuildShl(b, mag, ints(e, 23 - f.mantissa, n), ""), tf, "");
	v = LLVMBuildFMul(b, v, real(e, DT_F32, ldexp(1, 127 - f.bias), n), "");
	LLVMValueRef u = LLVMBuildBitCast(b, v, ti, ""), is_nan = NULL;
	if (t == DT_E5M2)
		u = choose(e, LLVMBuildICmp(b, LLVMIntEQ, mag, ints(e, 0x7c, n), ""), ints(e, 0x7f800000, n), u);
	u = LLVMBuildBitCast(b, LLVMBuildOr(b, u, sign, ""), tf, "");
	if (f.fnuz)
		is_nan = LLVMBuildICmp(b, LLVMIntEQ, code, ints(e, 0x80, n), "");
	else if (t != DT_E2M1)
		is_nan = above(e, mag, t == DT_E4M3 ? 0x7e : 0x7c);
	return is_nan ? choose(e, is_nan, real(e, DT_F32, NAN, n), u) : u;
}

/* The nearest power of two, half way up; below 2^-126 that is 1.5 * 2^-127. */
static LLVMValueRef to_e8m0(struct emit *e, LLVMValueRef x, bool saturate)
{
	int n = vector_length(x);
	LLVMTypeRef ti = emit_vector(e->i32, n);
	LLVMValueRef mag = LLVMBuildAnd(e->b, LLVMBuildBitCast(e->b, x, ti, ""), ints(e, 0x7fffffff, n), "");
	LLVMValueRef code = LLVMBuildLShr(e->b, LLVMBuildAdd(e->b, mag, ints(e, 0x400000, n), ""), ints(e, 23, n), "");
	LLVMValueRef low = LLVMBuildZExt(e->b, above(e, mag, 0x5fffff), ti, "");
	code = choose(e, above(e, mag, 0x7fffff), code, low);
	code = larger(e, code, ints(e, saturate ? 0xfe : 0xff, n), "llvm.umin");
	code = choose(e, above(e, mag, 0x7f800000), ints(e, 0xff, n), code);
	return LLVMBuildTrunc(e->b, code, emit_vector(e->i8, n), "");
}

/* --- two codes a byte ------------------------------------------------------------------------------------------------------ */

/* Of four codes in a word c, c | c >> 4 has the pairs in bytes 0 and 2; of two words at a time, of fewer codes by shifts. */
LLVMValueRef op_halves_joined(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x), m = n < 4 ? 1 : n / 4;
	LLVMValueRef c = LLVMBuildBitCast(e->b, x, n < 4 ? e->i16 : emit_vector(e->i32, m), ""), part[16];
	c = n < 4 ? LLVMBuildZExt(e->b, c, e->i32, "") : c;
	c = LLVMBuildOr(e->b, c, LLVMBuildLShr(e->b, c, ints(e, 4, m), ""), "");
	if (n < 4)
		return LLVMBuildTrunc(e->b, c, e->i8, "");
	if (m % 2 || m > 32)
		return LLVMBuildTrunc(e->b, LLVMBuildOr(e->b, LLVMBuildAnd(e->b, c, ints(e, 0xff, m), ""), LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, c, ints(e, 8, m), ""), ints(e, 0xff00, m), ""), ""), emit_vector(e->i16, m), "");
	for (int i = 0; i < m; i += 2) {
		LLVMValueRef low = LLVMBuildExtractElement(e->b, c, emit_int(e, i), ""), high = LLVMBuildExtractElement(e->b, c, emit_int(e, i + 1), "");
		part[i / 2] = LLVMBuildBitCast(e->b, bytes_of(e, low, high, (const int[4]){0, 2, 4, 6}), emit_vector(e->i16, 2), "");
	}
	return vector_join(e, part, m / 2, 2);
}

/* Word by word: of a vector of words seen as bytes, LLVM's NVPTX back end counts known bits wrongly and ends the process. */
LLVMValueRef op_halves_apart(struct emit *e, LLVMValueRef x, int n)
{
	LLVMValueRef part[16], pairs = LLVMBuildBitCast(e->b, x, n < 4 ? e->i8 : emit_vector(e->i16, n / 4), "");
	int m = n < 4 ? 1 : n / 4;
	for (int i = 0; i < m; i++) {
		LLVMValueRef c = m > 1 ? LLVMBuildExtractElement(e->b, pairs, emit_int(e, i), "") : pairs;
		c = LLVMBuildZExt(e->b, c, e->i32, "");
		for (int step = 8; step >= 4; step /= 2) {
			c = LLVMBuildOr(e->b, c, LLVMBuildShl(e->b, c, emit_int(e, step), ""), "");
			c = LLVMBuildAnd(e->b, c, emit_int(e, step == 8 ? 0x00ff00ff : 0x0f0f0f0f), "");
		}
		c = n < 4 ? LLVMBuildTrunc(e->b, c, e->i16, "") : c;
		part[i] = LLVMBuildBitCast(e->b, c, emit_vector(e->i8, n < 4 ? n : 4), "");
	}
	return vector_join(e, part, m, n < 4 ? n : 4);
}

/* --- integers --------------------------------------------------------------------------------------------------------------- */

static LLVMValueRef to_integer(struct emit *e, LLVMValueRef x, enum dtype to, bool saturate)
{
	LLVMTypeRef both[2] = {op_type_like(e, to, x), LLVMTypeOf(x)};
	if (dtype_info(to)->bits <= 32)
		return e->machine->to_integer(e, x, to, saturate);
	if (saturate)
		x = op_whole(e, "llvm.rint", &x, 1);
	return emit_call(e, "llvm.fptosi.sat", both, 2, &x, 1);
}

/* Integers clamped to a narrower type's range. */
static LLVMValueRef clamped_integer(struct emit *e, LLVMValueRef x, enum dtype to)
{
	int n = vector_length(x);
	LLVMTypeRef t = LLVMTypeOf(x), one = n > 1 ? LLVMGetElementType(t) : t;
	int64_t most = (int64_t)num_max(to), least = to == DT_U8 || to == DT_I1 ? 0 : -most - 1;
	LLVMValueRef low = larger(e, x, op_splat(e, LLVMConstInt(one, (uint64_t)least, 1), n), "llvm.smax");
	return larger(e, low, op_splat(e, LLVMConstInt(one, (uint64_t)most, 1), n), "llvm.smin");
}

static LLVMValueRef integer_to_integer(struct emit *e, LLVMValueRef x, enum dtype from, enum dtype to, bool saturate)
{
	LLVMTypeRef t = op_type_like(e, to, x);
	int fb = dtype_info(from)->bits, tb = dtype_info(to)->bits;
	if (from == DT_I1)
		return to == DT_I1 ? x : LLVMBuildZExt(e->b, x, t, "");
	if (saturate && from != to && tb <= fb) {          /* in i32: u8 and i8 meet there */
		if (fb == 8) {
			LLVMTypeRef t32 = op_type_like(e, DT_I32, x);
			x = from == DT_U8 ? LLVMBuildZExt(e->b, x, t32, "") : LLVMBuildSExt(e->b, x, t32, "");
		}
		return LLVMBuildTrunc(e->b, clamped_integer(e, x, to), t, "");
	}
	if (tb == fb)
		return x;
	if (tb < fb)
		return LLVMBuildTrunc(e->b, x, t, "");
	return from == DT_U8 ? LLVMBuildZExt(e->b, x, t, "") : LLVMBuildSExt(e->b, x, t, "");
}

/* --- all of them ------------------------------------------------------------------------------------------------------------ */

static bool is_native(const struct emit *e, enum dtype t)
{
	return e->v->target->fp8_fnuz ? t == DT_E4M3FNUZ || t == DT_E5M2FNUZ : t == DT_E4M3 || t == DT_E5M2;
}

static LLVMValueRef widened(struct emit *e, LLVMValueRef x, enum dtype from)
{
	if (from == DT_E8M0)
		return from_e8m0(e, x);
	return is_native(e, from) ? e->machine->from_fp8(e, x, from) : soft_widen(e, x, from);
}

static LLVMValueRef narrowed(struct emit *e, LLVMValueRef x, enum dtype to, bool saturate)
{
	if (to == DT_E8M0)
		return to_e8m0(e, x, saturate);
	LLVMValueRef native = is_native(e, to) ? e->machine->to_fp8(e, x, to, saturate)
	                    : to == DT_E2M1 && e->v->target->cvt_pk_fp4 ? e->machine->to_fp4(e, x) : NULL;
	return native ? native : to == DT_E2M1 ? to_e2m1(e, x) : soft_narrow(e, x, to, saturate);
}

LLVMValueRef op_convert(struct emit *e, LLVMValueRef x, enum dtype from, enum dtype to, bool saturate)
{
	char fc = dtype_info(from)->cls, tc = dtype_info(to)->cls;
	bool from_int = fc == 'I' || fc == 'B', to_int = tc == 'I' || tc == 'B';
	if (from_int && to_int)
		return integer_to_integer(e, x, from, to, saturate);
	/* everything else goes through f32 */
	if (fc == 'Q')
		x = widened(e, x, from);
	else if (from_int)
		x = from == DT_U8 || from == DT_I1 ? LLVMBuildUIToFP(e->b, x, op_type_like(e, DT_F32, x), "") : LLVMBuildSIToFP(e->b, x, op_type_like(e, DT_F32, x), "");
	else if (from == DT_BF16 && e->machine->from_bf16)
		x = e->machine->from_bf16(e, x);
	else if (from != DT_F32)
		x = LLVMBuildFPExt(e->b, x, op_type_like(e, DT_F32, x), "");
	if (to_int)
		return to_integer(e, x, to, saturate);
	if (tc == 'Q')
		return narrowed(e, x, to, saturate);
	if (saturate)
		x = op_clamped(e, x, to);
	if (to == DT_F16 && e->machine->to_f16)
		return e->machine->to_f16(e, x);
	return to == DT_F32 ? x : LLVMBuildFPTrunc(e->b, x, op_type_like(e, to, x), "");
}
