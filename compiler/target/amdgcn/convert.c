/* convert.c -- the chip's own 8-bit floats, and integers, by instruction.
 * In: f32 or the codes, a scalar or a short vector.  Out: the codes or f32.  v_cvt_pk_fp8_f32 and v_cvt_pk_bf8_f32 give NaN or infinity
 * beyond the range, so what saturates is clamped before; under MODE.FP16_OVFL they give the largest finite value there and of infinities, and
 * NaN of NaN (CDNA4 ISA guide, "CVT_*FP8_F32 and CVT*_BF8_F32 FP16_OVFL rule"). */
#include "machine.h"

#include "../../../base/num.h"

/* Four at a time into a dword where there are four; otherwise two conversions and the low bytes. */
LLVMValueRef amdgcn_to_fp8(struct emit *e, LLVMValueRef x, enum dtype t, bool saturate)
{
	const char *name = t == DT_E4M3 || t == DT_E4M3FNUZ ? "llvm.amdgcn.cvt.pk.fp8.f32" : "llvm.amdgcn.cvt.pk.bf8.f32";
	int n = vector_length(x);
	LLVMValueRef part[64], one[4];
	if (saturate && !e->clamps_by_mode)
		x = op_clamped(e, x, t);
	for (int i = 0; i < n; i++)
		part[i] = n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i), "") : x;
	if (n % 4) {
		for (int i = 0; i < n; i++) {
			LLVMValueRef a[4] = {part[i], part[i], LLVMGetPoison(e->i32), LLVMConstInt(e->i1, 0, 0)};
			part[i] = LLVMBuildTrunc(e->b, emit_call(e, name, NULL, 0, a, 4), e->i8, "");
		}
		return vector_join(e, part, n, 1);
	}
	for (int i = 0; i < n; i += 4) {
		LLVMValueRef lo[4] = {part[i], part[i + 1], LLVMGetPoison(e->i32), LLVMConstInt(e->i1, 0, 0)};
		LLVMValueRef hi[4] = {part[i + 2], part[i + 3], emit_call(e, name, NULL, 0, lo, 4), LLVMConstInt(e->i1, 1, 0)};
		one[0] = emit_call(e, name, NULL, 0, hi, 4);
		part[i / 4] = LLVMBuildBitCast(e->b, one[0], emit_vector(e->i8, 4), "");
	}
	return vector_join(e, part, n / 4, 4);
}

LLVMValueRef amdgcn_from_fp8(struct emit *e, LLVMValueRef x, enum dtype t)
{
	const char *name = t == DT_E4M3 || t == DT_E4M3FNUZ ? "llvm.amdgcn.cvt.f32.fp8" : "llvm.amdgcn.cvt.f32.bf8";
	int n = vector_length(x);
	LLVMValueRef out[64], word = NULL;
	for (int i = 0; i < n; i++) {
		if (n % 4 == 0 && i % 4 == 0)
			word = LLVMBuildBitCast(e->b, vector_part(e, x, i, 4), e->i32, "");
		else if (n % 4)
			word = LLVMBuildZExt(e->b, n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i), "") : x, e->i32, "");
		LLVMValueRef a[2] = {word, emit_int(e, n % 4 ? 0 : i % 4)};
		out[i] = emit_call(e, name, NULL, 0, a, 2);
	}
	return vector_join(e, out, n, 1);
}

static LLVMValueRef permuted(struct emit *e, LLVMValueRef high, LLVMValueRef low, LLVMValueRef selector)
{
	LLVMValueRef a[3] = {high, low, selector};
	return emit_call(e, "llvm.amdgcn.perm", NULL, 0, a, 3);
}

/* The upper two bytes of f32's of four codes, one in the low half of each byte: tables of eight bytes, which v_perm_b32 looks up. */
static void looked_up(struct emit *e, LLVMValueRef codes, LLVMValueRef upper[2])
{
	static const uint32_t table[2][2] = {{0xc0804000, 0xc0800000}, {0x40404040, 0x3f3f3f00}};      /* of 6 4 3 2, 1.5 1 0.5 0 */
	LLVMValueRef at = LLVMBuildAnd(e->b, codes, emit_int(e, 0x07070707), ""), sign = LLVMBuildAnd(e->b, codes, emit_int(e, 0x08080808), "");
	for (int n = 0; n < 2; n++)
		upper[n] = permuted(e, emit_int(e, table[n][0]), emit_int(e, table[n][1]), at);
	upper[1] = LLVMBuildOr(e->b, LLVMBuildShl(e->b, sign, emit_int(e, 4), ""), upper[1], "");
}

LLVMValueRef amdgcn_from_fp4(struct emit *e, LLVMValueRef word)
{
	enum { ZERO = 0x0c };                                    /* a selector's byte that gives 0 */
	LLVMValueRef out[8], upper[2];
	for (int n = 0; n < 4 && e->v->target->cvt_pk_fp4; n++) {
		LLVMValueRef a[3] = {word, LLVMConstReal(e->f32, 1), emit_int(e, n)}, two = emit_call(e, "llvm.amdgcn.cvt.scalef32.pk.f32.fp4", NULL, 0, a, 3);
		for (int h = 0; h < 2; h++)
			out[2 * n + h] = LLVMBuildExtractElement(e->b, two, emit_int(e, h), "");
	}
	for (int h = 0; h < 2 && !e->v->target->cvt_pk_fp4; h++) {
		looked_up(e, h ? LLVMBuildLShr(e->b, word, emit_int(e, 4), "") : word, upper);
		for (int n = 0; n < 4; n++)
			out[2 * n + h] = LLVMBuildBitCast(e->b, permuted(e, upper[1], upper[0], emit_int(e, (4 + n) << 24 | n << 16 | ZERO << 8 | ZERO)), e->f32, "");
	}
	return vector_join(e, out, 8, 1);
}

/* Half a step of the upper half, less one where that is even.  v_bfe_u32 by name: LLVM makes a masked shift an SDWA form, which wants the mask in a
 * register of its own for each. */
static LLVMValueRef half_added(struct emit *e, LLVMValueRef bits)
{
	LLVMTypeRef t = e->i32;
	LLVMValueRef odd[3] = {bits, emit_int(e, 16), emit_int(e, 1)};
	return LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, emit_call(e, "llvm.amdgcn.ubfe", &t, 1, odd, 3), bits, ""), emit_int(e, 0x7fff), "");
}

/* v_perm_b32 takes the upper halves of two. */
static LLVMValueRef upper_halves(struct emit *e, LLVMValueRef x, bool rounds)
{
	int n = vector_length(x), each = n % 2 ? 1 : 2;
	LLVMValueRef part[64];
	for (int i = 0; i < n; i += each) {
		LLVMValueRef up[2];
		for (int j = 0; j < each; j++) {
			up[j] = LLVMBuildBitCast(e->b, vector_part(e, x, i + j, 1), e->i32, "");
			up[j] = rounds ? half_added(e, up[j]) : up[j];
		}
		LLVMValueRef both[3] = {up[1], up[0], emit_int(e, 0x07060302)};
		part[i / each] = each == 2 ? LLVMBuildBitCast(e->b, emit_call(e, "llvm.amdgcn.perm", NULL, 0, both, 3), emit_vector(e->bf16, 2), "")
		                           : LLVMBuildBitCast(e->b, LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, up[0], emit_int(e, 16), ""), e->i16, ""), e->bf16, "");
	}
	return vector_join(e, part, n / each, each);
}

LLVMValueRef amdgcn_round_bf16(struct emit *e, LLVMValueRef x) { return upper_halves(e, x, true); }
LLVMValueRef amdgcn_cut_bf16(struct emit *e, LLVMValueRef x) { return upper_halves(e, x, false); }

/* What has just been rounded need not be taken out of the word that it was put into. */
LLVMValueRef amdgcn_from_bf16(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMValueRef word = LLVMIsABitCastInst(x) ? LLVMGetOperand(x, 0) : NULL, part[2];
	LLVMValueRef made = word && LLVMIsACallInst(word) ? LLVMGetCalledValue(word) : NULL;
	if (n != 2 || !made || LLVMGetIntrinsicID(made) != LLVMLookupIntrinsicID("llvm.amdgcn.perm", 16))
		return LLVMBuildFPExt(e->b, x, op_type_like(e, DT_F32, x), "");
	for (int j = 0; j < 2; j++)
		part[j] = LLVMBuildBitCast(e->b, LLVMBuildAnd(e->b, LLVMGetOperand(word, 1 - j), LLVMConstInt(e->i32, 0xffff0000u, 0), ""), e->f32, "");
	return vector_join(e, part, 2, 1);
}

/* LLVM makes one instruction of a product that is narrowed, v_fma_mixlo_f16 of a, b and +0, which turns -0 into +0: a fence between the two.
 * Of vectors' products it makes two for two, and these keep them apart. */
LLVMValueRef amdgcn_to_f16(struct emit *e, LLVMValueRef x)
{
	if (LLVMIsAInstruction(x) && LLVMGetInstructionOpcode(x) == LLVMFMul && vector_length(x) == 1)
		x = emit_call(e, "llvm.canonicalize", &e->f32, 1, &x, 1);
	return LLVMBuildFPTrunc(e->b, x, op_type_like(e, DT_F16, x), "");
}

/* v_cvt_scalef32_pk_fp4_f32: two to one byte of a word; the scale is 1. */
LLVMValueRef amdgcn_to_fp4(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x), step = n % 8 == 0 ? 8 : n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : 1;
	LLVMValueRef part[64];
	for (int i = 0; i < n; i += step) {
		LLVMValueRef word = LLVMConstNull(e->i32);
		for (int j = 0; j < step; j += 2) {
			LLVMValueRef low = n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i + j), "") : x;
			LLVMValueRef high = step > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i + j + 1), "") : LLVMConstReal(e->f32, 0);
			LLVMValueRef a[5] = {word, low, high, LLVMConstReal(e->f32, 1), emit_int(e, j / 2)};
			word = emit_call(e, "llvm.amdgcn.cvt.scalef32.pk.fp4.f32", NULL, 0, a, 5);
		}
		if (step > 1)
			part[i / step] = op_halves_apart(e, step == 8 ? word : LLVMBuildTrunc(e->b, word, step == 4 ? e->i16 : e->i8, ""), step);
		else
			part[i] = LLVMBuildTrunc(e->b, word, e->i8, "");
	}
	return vector_join(e, part, n / step, step);
}

/* The low bytes of dwords, four to a dword: v_perm_b32 picks bytes of (first argument, second argument), 4-7 and 0-3; 12 is a zero. */
static LLVMValueRef low_bytes(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMValueRef part[16];
	if (n % 4 || n > 64)
		return LLVMBuildTrunc(e->b, x, emit_vector(e->i8, n), "");
	for (int i = 0; i < n; i += 4) {
		LLVMValueRef d[4];
		for (int j = 0; j < 4; j++)
			d[j] = LLVMBuildExtractElement(e->b, x, emit_int(e, i + j), "");
		LLVMValueRef low[3] = {d[1], d[0], emit_int(e, 0x0c0c0400)}, high[3] = {d[3], d[2], emit_int(e, 0x04000c0c)};
		LLVMValueRef word = LLVMBuildOr(e->b, emit_call(e, "llvm.amdgcn.perm", NULL, 0, low, 3), emit_call(e, "llvm.amdgcn.perm", NULL, 0, high, 3), "");
		part[i / 4] = LLVMBuildBitCast(e->b, word, emit_vector(e->i8, 4), "");
	}
	return vector_join(e, part, n / 4, 4);
}

/* v_cvt_i32_f32 saturates and gives 0 for NaN (CDNA3 ISA guide); to 8 bits it is clamped after.  LLVM leaves fptosi undefined there,
 * hence the freeze; its saturating intrinsic is written out by the AMDGPU back end, ten instructions an element. */
LLVMValueRef amdgcn_to_integer(struct emit *e, LLVMValueRef x, enum dtype to, bool saturate)
{
	int n = vector_length(x), bits = dtype_info(to)->bits;
	if (saturate)
		x = op_whole(e, "llvm.rint", &x, 1);
	x = LLVMBuildFreeze(e->b, LLVMBuildFPToSI(e->b, x, emit_vector(e->i32, n), ""), "");
	if (bits == 32)
		return x;
	if (saturate) {
		LLVMValueRef low[2] = {x, op_splat(e, emit_int(e, to == DT_I8 ? -128 : 0), n)}, high[2];
		high[0] = op_whole(e, "llvm.smax", low, 2);
		high[1] = op_splat(e, emit_int(e, (int64_t)num_max(to)), n);
		x = op_whole(e, "llvm.smin", high, 2);
	}
	return bits == 8 ? low_bytes(e, x) : LLVMBuildTrunc(e->b, x, op_type_like(e, to, x), "");
}
