/* elementwise.c -- arithmetic, comparisons and conversions on scalars and short vectors.
 * In: operands of one width.  Out: one LLVM value.  No fast-math flags: op.def's meaning is exact.  Functions with an instruction of
 * their own go to it directly (llvm.exp2 would be nine instructions under IEEE denormals). */
#include "emit.h"

#include <float.h>
#include <string.h>
#include "../../../base/num.h"

typedef LLVMValueRef build_binary(LLVMBuilderRef, LLVMValueRef, LLVMValueRef, const char *);

static LLVMTypeRef type_like(struct emit *e, enum dtype t, LLVMValueRef like)
{
	return emit_vector(emit_type(e, t), vector_length(like));
}

/* Calls an intrinsic that exists for scalars only, per element. */
static LLVMValueRef per_element(struct emit *e, const char *name, LLVMValueRef *args, int nargs, bool overloaded)
{
	int n = vector_length(args[0]);
	LLVMValueRef parts[64], one[3];
	for (int i = 0; i < n; i++) {
		for (int a = 0; a < nargs; a++)
			one[a] = n > 1 ? LLVMBuildExtractElement(e->b, args[a], emit_int(e, i), "") : args[a];
		LLVMTypeRef t = LLVMTypeOf(one[0]);
		parts[i] = emit_call(e, name, &t, overloaded ? 1 : 0, one, nargs);
	}
	return vector_join(e, parts, n, 1);
}

static LLVMValueRef whole(struct emit *e, const char *name, LLVMValueRef *args, int nargs)
{
	LLVMTypeRef t = LLVMTypeOf(args[0]);
	return emit_call(e, name, &t, 1, args, nargs);
}

static LLVMValueRef splat(struct emit *e, LLVMValueRef one, int n)
{
	LLVMValueRef parts[64];
	for (int i = 0; i < n; i++)
		parts[i] = one;
	return vector_join(e, parts, n, 1);
}

static LLVMValueRef real(struct emit *e, enum dtype t, double x, int n)
{
	return splat(e, LLVMConstReal(emit_type(e, t), x), n);
}

/* x is not NaN ? y : x's own kind of NaN stays; integers: NaN gives 0 */
static LLVMValueRef unless_nan(struct emit *e, LLVMValueRef x, LLVMValueRef y, LLVMValueRef otherwise)
{
	return LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealUNO, x, x, ""), otherwise, y, "");
}

static LLVMValueRef clamped(struct emit *e, LLVMValueRef x, double most, double least)
{
	int n = vector_length(x);
	LLVMValueRef a[3] = {x, real(e, DT_F32, least, n), real(e, DT_F32, most, n)};
	return unless_nan(e, x, per_element(e, "llvm.amdgcn.fmed3", a, 3, true), x);
}

/* Four at a time into a dword where there are four; otherwise two conversions and the low bytes. */
static LLVMValueRef to_fp8(struct emit *e, LLVMValueRef x, enum dtype t)
{
	const char *name = t == DT_E4M3 || t == DT_E4M3FNUZ ? "llvm.amdgcn.cvt.pk.fp8.f32" : "llvm.amdgcn.cvt.pk.bf8.f32";
	int n = vector_length(x);
	LLVMValueRef part[64], one[4];
	LLVMValueRef zero = LLVMConstNull(e->i32);
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

static LLVMValueRef from_fp8(struct emit *e, LLVMValueRef x, enum dtype t)
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

/* e8m0: exponent byte; the scale 2^(code - 127), 0xff NaN, code 0 = 2^-127 */
static LLVMValueRef from_e8m0(struct emit *e, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMTypeRef ti = emit_vector(e->i32, n), tf = emit_vector(e->f32, n);
	LLVMValueRef code = LLVMBuildZExt(e->b, x, ti, "");
	LLVMValueRef bits = LLVMBuildShl(e->b, code, splat(e, emit_int(e, 23), n), "");
	LLVMValueRef is0 = LLVMBuildICmp(e->b, LLVMIntEQ, code, LLVMConstNull(ti), "");
	LLVMValueRef nan = LLVMBuildICmp(e->b, LLVMIntEQ, code, splat(e, emit_int(e, 255), n), "");
	bits = LLVMBuildSelect(e->b, is0, splat(e, emit_int(e, 1 << 22), n), bits, "");
	bits = LLVMBuildSelect(e->b, nan, splat(e, emit_int(e, 0x7fc00000), n), bits, "");
	return LLVMBuildBitCast(e->b, bits, tf, "");
}

static LLVMValueRef to_integer(struct emit *e, LLVMValueRef x, enum dtype to, bool saturate)
{
	LLVMTypeRef t = type_like(e, to, x);
	if (!saturate)
		return LLVMBuildFPToSI(e->b, x, t, "");
	int n = vector_length(x), narrow = dtype_info(to)->bits == 8;
	LLVMTypeRef both[2] = {t, LLVMTypeOf(x)};
	x = whole(e, "llvm.rint", &x, 1);
	if (!narrow)
		return emit_call(e, "llvm.fptosi.sat", both, 2, &x, 1);
	x = LLVMBuildFPToSI(e->b, x, emit_vector(e->i32, n), "");  /* v_cvt_i32_f32: saturates, NaN gives 0 (CDNA3 ISA guide) */
	LLVMValueRef low[2] = {x, splat(e, emit_int(e, to == DT_U8 ? 0 : -128), n)};
	LLVMValueRef high[2] = {whole(e, "llvm.smax", low, 2), splat(e, emit_int(e, (int64_t)num_max(to)), n)};
	return LLVMBuildTrunc(e->b, whole(e, "llvm.smin", high, 2), t, "");
}

static LLVMValueRef convert(struct emit *e, const struct ir_ins *i, LLVMValueRef x)
{
	enum dtype from = i->args[0]->dtype, to = i->dtype;
	const struct dtype_info *fi = dtype_info(from), *ti = dtype_info(to);
	LLVMTypeRef t = type_like(e, to, x);
	bool native = (from != DT_E4M3FNUZ && from != DT_E5M2FNUZ && to != DT_E4M3FNUZ && to != DT_E5M2FNUZ) == !e->v->target->fp8_fnuz;
	bool eight = to == DT_E4M3 || to == DT_E5M2 || to == DT_E4M3FNUZ || to == DT_E5M2FNUZ;
	bool from_eight = from == DT_E4M3 || from == DT_E5M2 || from == DT_E4M3FNUZ || from == DT_E5M2FNUZ;
	if ((eight || from_eight) && !native)
		return emit_fail(e, i, "conversion between %s and %s is not native to %s and its software form is not lowered yet", fi->name,
		                 ti->name, e->v->target->name);
	if (fi->cls == 'F' && ti->cls == 'F') {
		if (ti->bits > fi->bits)
			return LLVMBuildFPExt(e->b, x, t, "");
		if (i->flags & IR_SATURATE)
			x = clamped(e, x, num_max(to), -num_max(to));
		if (fi->bits == 16) {                     /* f16 <-> bf16 through f32 */
			x = LLVMBuildFPExt(e->b, x, type_like(e, DT_F32, x), "");
		}
		return LLVMBuildFPTrunc(e->b, x, t, "");
	}
	if (from_eight && to == DT_F32)
		return from_fp8(e, x, from);
	if (from == DT_E8M0 && to == DT_F32)
		return from_e8m0(e, x);
	if (eight && from == DT_F32)
		return to_fp8(e, i->flags & IR_SATURATE ? clamped(e, x, num_max(to), -num_max(to)) : x, to);
	if (fi->cls == 'F' && ti->cls == 'I')
		return to_integer(e, x, to, i->flags & IR_SATURATE);
	if (fi->cls == 'I' && ti->cls == 'F')
		return from == DT_U8 ? LLVMBuildUIToFP(e->b, x, t, "") : LLVMBuildSIToFP(e->b, x, t, "");
	if (fi->cls == 'B' && ti->cls == 'F')
		return LLVMBuildUIToFP(e->b, x, t, "");
	if (fi->cls == 'B' && ti->cls == 'I')
		return LLVMBuildZExt(e->b, x, t, "");
	if (fi->cls == 'I' && ti->cls == 'I')
		return ti->bits < fi->bits ? LLVMBuildTrunc(e->b, x, t, "") : from == DT_U8 ? LLVMBuildZExt(e->b, x, t, "") : LLVMBuildSExt(e->b, x, t, "");
	return emit_fail(e, i, "conversion from %s to %s is not lowered yet", fi->name, ti->name);
}

static LLVMValueRef compare(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	static const LLVMRealPredicate real_of[] = {LLVMRealOLT, LLVMRealOLE, LLVMRealOEQ, LLVMRealUNE};
	static const LLVMIntPredicate int_of[] = {LLVMIntSLT, LLVMIntSLE, LLVMIntEQ, LLVMIntNE};
	int n = i->op - IR_LT;
	return dtype_is_float(i->args[0]->dtype) ? LLVMBuildFCmp(e->b, real_of[n], a[0], a[1], "") : LLVMBuildICmp(e->b, int_of[n], a[0], a[1], "");
}

/* Integer division by zero gives 0 (op.def); the divisor is made 1 first. */
static LLVMValueRef divide(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	bool rem = i->op == IR_REM;
	if (dtype_is_float(i->dtype))
		return rem ? LLVMBuildFRem(e->b, a[0], a[1], "") : LLVMBuildFDiv(e->b, a[0], a[1], "");
	build_binary *op = rem ? LLVMBuildSRem : LLVMBuildSDiv;
	if (i->args[1]->op == IR_CONST && i->args[1]->imm)
		return op(e->b, a[0], a[1], "");
	LLVMTypeRef t = LLVMTypeOf(a[1]);
	LLVMValueRef zero = LLVMBuildICmp(e->b, LLVMIntEQ, a[1], LLVMConstNull(t), "");
	LLVMValueRef one = splat(e, LLVMConstInt(emit_type(e, i->dtype), 1, 0), vector_length(a[1]));
	LLVMValueRef q = op(e->b, a[0], LLVMBuildSelect(e->b, zero, one, a[1], ""), "");
	return LLVMBuildSelect(e->b, zero, LLVMConstNull(t), q, "");
}

static LLVMValueRef shift(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	int bits = dtype_info(i->dtype)->bits;
	LLVMValueRef mask = splat(e, LLVMConstInt(emit_type(e, i->dtype), (unsigned)bits - 1, 0), vector_length(a[1]));
	LLVMValueRef by = LLVMBuildAnd(e->b, a[1], mask, "");
	return i->op == IR_SHL ? LLVMBuildShl(e->b, a[0], by, "") : LLVMBuildAShr(e->b, a[0], by, "");
}

LLVMValueRef op_build(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	bool f = dtype_is_float(i->dtype);
	switch (i->op) {
	case IR_CONST:
		return f ? LLVMConstReal(emit_type(e, i->dtype), i->num) : LLVMConstInt(emit_type(e, i->dtype), (uint64_t)i->imm, 1);
	case IR_NEG: return f ? LLVMBuildFNeg(e->b, a[0], "") : LLVMBuildNeg(e->b, a[0], "");
	case IR_ABS:
		if (f)
			return whole(e, "llvm.fabs", a, 1);
		a[1] = LLVMConstInt(e->i1, 0, 0);
		return whole(e, "llvm.abs", a, 2);
	case IR_SQRT: return whole(e, "llvm.sqrt", a, 1);
	case IR_RSQRT: return per_element(e, "llvm.amdgcn.rsq", a, 1, true);
	case IR_RCP: return per_element(e, "llvm.amdgcn.rcp", a, 1, true);
	case IR_EXP2: return per_element(e, "llvm.amdgcn.exp2", a, 1, true);
	case IR_LOG2: return per_element(e, "llvm.amdgcn.log", a, 1, true);
	case IR_SIN: return per_element(e, "llvm.amdgcn.sin", a, 1, true);
	case IR_COS: return per_element(e, "llvm.amdgcn.cos", a, 1, true);
	case IR_FLOOR: return whole(e, "llvm.floor", a, 1);
	case IR_CEIL: return whole(e, "llvm.ceil", a, 1);
	case IR_ROUND: return whole(e, "llvm.rint", a, 1);
	case IR_NOT: return LLVMBuildNot(e->b, a[0], "");
	case IR_ADD: return f ? LLVMBuildFAdd(e->b, a[0], a[1], "") : LLVMBuildAdd(e->b, a[0], a[1], "");
	case IR_SUB: return f ? LLVMBuildFSub(e->b, a[0], a[1], "") : LLVMBuildSub(e->b, a[0], a[1], "");
	case IR_MUL: return f ? LLVMBuildFMul(e->b, a[0], a[1], "") : LLVMBuildMul(e->b, a[0], a[1], "");
	case IR_DIV: case IR_REM: return divide(e, i, a);
	case IR_MIN: return whole(e, f ? "llvm.minnum" : "llvm.smin", a, 2);
	case IR_MAX: return whole(e, f ? "llvm.maxnum" : "llvm.smax", a, 2);
	case IR_AND: return LLVMBuildAnd(e->b, a[0], a[1], "");
	case IR_OR: return LLVMBuildOr(e->b, a[0], a[1], "");
	case IR_XOR: return LLVMBuildXor(e->b, a[0], a[1], "");
	case IR_SHL: case IR_SHR: return shift(e, i, a);
	case IR_LT: case IR_LE: case IR_EQ: case IR_NE: return compare(e, i, a);
	case IR_FMA: return whole(e, "llvm.fma", a, 3);
	case IR_SELECT: return LLVMBuildSelect(e->b, a[0], a[1], a[2], "");
	case IR_CVT: return convert(e, i, a[0]);
	case IR_BITCAST: return LLVMBuildBitCast(e->b, a[0], type_like(e, i->dtype, a[0]), "");
	default:
		return emit_fail(e, i, "%s is not lowered yet", ir_op_info[i->op].text);
	}
}

LLVMValueRef op_combine(struct emit *e, enum ir_reduce kind, enum dtype t, LLVMValueRef a, LLVMValueRef b)
{
	static const enum ir_op op[] = {[RED_SUM] = IR_ADD, [RED_PROD] = IR_MUL, [RED_MAX] = IR_MAX, [RED_MIN] = IR_MIN,
	                                [RED_ANY] = IR_OR, [RED_ALL] = IR_AND};
	struct ir_ins like = {.op = (uint8_t)op[kind], .dtype = (uint8_t)t};
	LLVMValueRef args[2] = {a, b};
	return op_build(e, &like, args);
}

LLVMValueRef op_identity(struct emit *e, enum ir_reduce kind, enum dtype t)
{
	LLVMTypeRef type = emit_type(e, t);
	if (dtype_is_float(t)) {
		double most = t == DT_F32 ? FLT_MAX : num_max(t);
		return LLVMConstReal(type, kind == RED_PROD ? 1 : kind == RED_MAX ? -most : kind == RED_MIN ? most : 0);
	}
	int64_t most = (int64_t)num_max(t);
	return LLVMConstInt(type, (uint64_t)(kind == RED_PROD || kind == RED_ALL ? 1 : kind == RED_MAX ? -most - 1 : kind == RED_MIN ? most : 0), 1);
}

/* Registers are handled in groups as wide as the result's or any operand's, so that dwords stay dwords. */
void emit_elementwise(struct emit *e, const struct ir_ins *i)
{
	struct value *v = value_new(e, i);
	int regs = i->layout ? layout_regs(i->layout) : 1, width = v->pack;
	for (int a = 0; a < i->nargs; a++)
		if (i->args[a]->layout && i->layout) {
			int pack = e->values[i->args[a]->id].pack;
			if (pack > width && regs % pack == 0)
				width = pack;
		}
	for (int r = 0; r < regs; r += width) {
		LLVMValueRef args[8] = {0};
		for (int a = 0; a < i->nargs; a++)
			args[a] = value_vector(e, i->args[a], i->layout, r, width);
		LLVMValueRef x = op_build(e, i, args);
		if (e->failed)
			return;
		value_set(e, i, r, width, x);
	}
}
