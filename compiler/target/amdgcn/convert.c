/* convert.c -- the chip's own 8-bit floats, by instruction.
 * In: f32 or the codes, a scalar or a short vector.  Out: the codes or f32.  v_cvt_pk_fp8_f32 and v_cvt_pk_bf8_f32 give NaN or infinity
 * beyond the range, so what saturates is clamped before. */
#include "machine.h"

/* Four at a time into a dword where there are four; otherwise two conversions and the low bytes. */
LLVMValueRef amdgcn_to_fp8(struct emit *e, LLVMValueRef x, enum dtype t, bool saturate)
{
	const char *name = t == DT_E4M3 || t == DT_E4M3FNUZ ? "llvm.amdgcn.cvt.pk.fp8.f32" : "llvm.amdgcn.cvt.pk.bf8.f32";
	int n = vector_length(x);
	LLVMValueRef part[64], one[4];
	LLVMValueRef zero = LLVMConstNull(e->i32);
	if (saturate)
		x = op_clamped(e, x, t);
	for (int i = 0; i < n; i++)
		part[i] = n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i), "") : x;
	if (n % 4) {
		for (int i = 0; i < n; i++) {
			LLVMValueRef a[4] = {part[i], part[i], zero, LLVMConstInt(e->i1, 0, 0)};
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
