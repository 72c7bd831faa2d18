/* convert.c -- e4m3 and e5m2 by instruction, two at a time.
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
