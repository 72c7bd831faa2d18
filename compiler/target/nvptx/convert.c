/* convert.c -- e4m3 and e5m2 by instruction, two at a time; integers.
 * In: f32 or the codes, a scalar or a short vector.  Out: the codes or f32.  PTX ISA, cvt: .satfinite clamps to the finite range and
 * leaves NaN (0x7f, without its sign); there is no form that does not saturate.  Widening goes through f16, which holds every
 * value of both. */
#include "machine.h"

LLVMValueRef nvptx_to_fp8(struct emit *e, LLVMValueRef x, enum dtype t, bool saturate)
{
	const char *name = t == DT_E4M3 ? "llvm.nvvm.ff.to.e4m3x2.rn" : "llvm.nvvm.ff.to.e5m2x2.rn";
	int n = vector_length(x);
	LLVMValueRef part[64], two[2];
	if (!saturate)
		return NULL;
	if (n == 1) {
		LLVMValueRef a[2] = {LLVMConstReal(e->f32, 0), x};               /* the second goes into the low byte */
		return LLVMBuildTrunc(e->b, emit_call(e, name, NULL, 0, a, 2), e->i8, "");
	}
	for (int i = 0; i < n; i += 2) {
		for (int h = 0; h < 2; h++)
			two[h] = LLVMBuildExtractElement(e->b, x, emit_int(e, i + 1 - h), "");
		part[i / 2] = emit_call(e, name, NULL, 0, two, 2);
	}
	return LLVMBuildBitCast(e->b, vector_join(e, part, n / 2, 1), emit_vector(e->i8, n), "");
}

LLVMValueRef nvptx_from_fp8(struct emit *e, LLVMValueRef x, enum dtype t)
{
	const char *name = t == DT_E4M3 ? "llvm.nvvm.e4m3x2.to.f16x2.rn" : "llvm.nvvm.e5m2x2.to.f16x2.rn";
	int n = vector_length(x);
	LLVMValueRef out[64], pairs = n > 1 ? LLVMBuildBitCast(e->b, x, emit_vector(e->i16, n / 2), "") : LLVMBuildZExt(e->b, x, e->i16, "");
	for (int i = 0; i < n; i += 2) {
		LLVMValueRef one = n > 2 ? LLVMBuildExtractElement(e->b, pairs, emit_int(e, i / 2), "") : pairs;
		LLVMValueRef halves = emit_call(e, name, NULL, 0, &one, 1);
		for (int h = 0; h < 2 && i + h < n; h++)
			out[i + h] = LLVMBuildFPExt(e->b, LLVMBuildExtractElement(e->b, halves, emit_int(e, h), ""), e->f32, "");
	}
	return vector_join(e, out, n, 1);
}

static LLVMValueRef permuted(struct emit *e, LLVMValueRef low, LLVMValueRef high, LLVMValueRef selector)
{
	LLVMValueRef a[3] = {low, high, selector};
	return emit_call(e, "llvm.nvvm.prmt", NULL, 0, a, 3);
}

/* prmt looks up four codes at once, whose lower three bits are its selector as they lie: the upper two bytes of each one's f32; signs are the upper bits
 * of the word's bytes, and of the word's four bits on. */
LLVMValueRef nvptx_from_fp4(struct emit *e, LLVMValueRef word)
{
	static const uint32_t table[2][2] = {{0xc0800000, 0xc0804000}, {0x3f3f3f00, 0x40404040}};      /* of 1.5 1 0.5 0, 6 4 3 2 */
	static const int signs[2] = {0x5140, 0x7362};
	LLVMValueRef out[8], other = LLVMBuildShl(e->b, word, emit_int(e, 4), "");
	for (int h = 0; h < 2; h++) {
		LLVMValueRef half = h ? LLVMBuildLShr(e->b, word, emit_int(e, 16), "") : word, at = LLVMBuildAnd(e->b, half, emit_int(e, 0x7777), ""), upper[2];
		for (int n = 0; n < 2; n++)
			upper[n] = permuted(e, emit_int(e, table[n][0]), emit_int(e, table[n][1]), at);
		LLVMValueRef sign = LLVMBuildAnd(e->b, permuted(e, other, word, emit_int(e, signs[h])), emit_int(e, 0x80808080), "");
		upper[1] = LLVMBuildOr(e->b, upper[1], sign, "");
		for (int n = 0; n < 2; n++) {
			LLVMValueRef two = permuted(e, upper[0], upper[1], emit_int(e, n ? 0x7362 : 0x5140));
			out[4 * h + 2 * n] = LLVMBuildBitCast(e->b, LLVMBuildShl(e->b, two, emit_int(e, 16), ""), e->f32, "");
			out[4 * h + 2 * n + 1] = LLVMBuildBitCast(e->b, LLVMBuildAnd(e->b, two, emit_int(e, 0xffff0000), ""), e->f32, "");
		}
	}
	return vector_join(e, out, 8, 1);
}

/* One instruction an element: both halves of a word as f32's upper one.  (LLVM takes the upper half out first.) */
LLVMValueRef nvptx_from_bf16(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMValueRef out[64], words = n % 2 ? NULL : LLVMBuildBitCast(e->b, x, emit_vector(e->i32, n / 2), "");
	if (n % 2)
		return LLVMBuildFPExt(e->b, x, op_type_like(e, DT_F32, x), "");
	for (int i = 0; i < n; i++) {
		LLVMValueRef w = n > 2 ? LLVMBuildExtractElement(e->b, words, emit_int(e, i / 2), "") : words;
		w = i % 2 ? LLVMBuildAnd(e->b, w, emit_int(e, (int64_t)0xffff0000), "") : LLVMBuildShl(e->b, w, emit_int(e, 16), "");
		out[i] = LLVMBuildBitCast(e->b, w, e->f32, "");
	}
	return vector_join(e, out, n, 1);
}

/* 16, the upper half's mask, and 0, which ptxas does not know to be those: no grid is so large that its upper bit is set. */
static void make_unknown(struct emit *e)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	LLVMPositionBuilderBefore(e->b, e->entry_end);
	LLVMValueRef zero = LLVMBuildLShr(e->b, nvptx_text(e, "mov.u32 $0, %nctaid.x;", "=r", e->i32, NULL, 0, false), emit_int(e, 31), "");
	e->again[0] = LLVMBuildOr(e->b, zero, emit_int(e, 16), "");
	e->again[1] = LLVMBuildOr(e->b, zero, emit_int(e, (int64_t)0xffff0000), "");
	e->again[2] = zero;
	LLVMPositionBuilderAtEnd(e->b, here);
}

/* A word of bf16 as above, of f16 by the chip's conversion of each half of another word. */
static void widen_unknown(struct emit *e, LLVMValueRef word, bool bf16, LLVMValueRef out[2])
{
	LLVMValueRef same[2] = {word, e->again[2]};
	LLVMValueRef other = bf16 ? NULL : LLVMBuildBitCast(e->b, nvptx_text(e, "or.b32 $0, $1, $2;", "=r,r,r", e->i32, same, 2, false), emit_vector(e->f16, 2), "");
	for (int h = 0; h < 2; h++) {
		LLVMValueRef two[2] = {word, e->again[h]};
		out[h] = bf16 ? LLVMBuildBitCast(e->b, nvptx_text(e, h ? "and.b32 $0, $1, $2;" : "shl.b32 $0, $1, $2;", "=r,r,r", e->i32, two, 2, false), e->f32, "")
		              : LLVMBuildFPExt(e->b, LLVMBuildExtractElement(e->b, other, emit_int(e, h), ""), e->f32, "");
	}
}

/* By instructions of which ptxas cannot know that they do the same as those before: it would leave one of both and keep what it makes. */
LLVMValueRef nvptx_widened_again(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMValueRef out[64], words = LLVMBuildBitCast(e->b, x, emit_vector(e->i32, n / 2), "");
	if (!e->again[0])
		make_unknown(e);
	for (int i = 0; i < n; i += 2)
		widen_unknown(e, n > 2 ? LLVMBuildExtractElement(e->b, words, emit_int(e, i / 2), "") : words, LLVMGetElementType(LLVMTypeOf(x)) == e->bf16, out + i);
	return vector_join(e, out, n, 1);
}

/* Four dwords clamped to bytes, the first in the lowest: cvt.pack puts a above b, and what it is given last above both. */
static LLVMValueRef pack_bytes(struct emit *e, const LLVMValueRef *x, bool is_signed)
{
	const char *text = is_signed ? "cvt.pack.sat.s8.s32.b32 $0, $1, $2, $3;" : "cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;";
	LLVMValueRef high[3] = {x[3], x[2], emit_int(e, 0)}, low[3] = {x[1], x[0], NULL};
	low[2] = nvptx_text(e, text, "=r,r,r,r", e->i32, high, 3, false);
	return LLVMBuildBitCast(e->b, nvptx_text(e, text, "=r,r,r,r", e->i32, low, 3, false), emit_vector(e->i8, 4), "");
}

/* cvt to s32 clamps and gives 0 for NaN (PTX ISA, cvt). */
LLVMValueRef nvptx_to_integer(struct emit *e, LLVMValueRef x, enum dtype to, bool saturate)
{
	int n = vector_length(x), bits = dtype_info(to)->bits;
	LLVMValueRef word[64], zero = emit_int(e, 0);
	for (int i = 0; i < n; i++) {
		LLVMValueRef one = n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i), "") : x;
		word[i] = emit_call(e, saturate ? "llvm.nvvm.f2i.rn" : "llvm.nvvm.f2i.rz", NULL, 0, &one, 1);
	}
	if (bits == 32 || !saturate) {
		LLVMValueRef all = vector_join(e, word, n, 1);
		return bits == 32 ? all : LLVMBuildTrunc(e->b, all, emit_vector(emit_type(e, to), n), "");
	}
	for (int i = 0; i < n; i += 4) {
		LLVMValueRef four[4];
		for (int j = 0; j < 4; j++)
			four[j] = i + j < n ? word[i + j] : zero;
		word[i / 4] = pack_bytes(e, four, to == DT_I8);
	}
	LLVMValueRef all = vector_join(e, word, (n + 3) / 4, 4);
	return n % 4 ? vector_part(e, all, 0, n) : all;
}
