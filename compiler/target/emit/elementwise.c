/* elementwise.c -- arithmetic and comparisons on scalars and short vectors.
 * In: operands of one width.  Out: one LLVM value.  No fast-math flags: op.def's meaning is exact.  Functions with an instruction of
 * their own go to it directly (llvm.exp2 would be nine instructions under IEEE denormals). */
#include "machine.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include "../../../base/num.h"

typedef LLVMValueRef build_binary(LLVMBuilderRef, LLVMValueRef, LLVMValueRef, const char *);

LLVMTypeRef op_type_like(struct emit *e, enum dtype t, LLVMValueRef like)
{
	return emit_vector(emit_type(e, t), vector_length(like));
}

/* The machine's function, which takes scalars only, per element. */
static LLVMValueRef approximate(struct emit *e, enum ir_op op, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMValueRef parts[64];
	for (int i = 0; i < n; i++)
		parts[i] = e->machine->approximate(e, op, n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, i), "") : x);
	return vector_join(e, parts, n, 1);
}

LLVMValueRef op_whole(struct emit *e, const char *name, LLVMValueRef *args, int nargs)
{
	LLVMTypeRef t = LLVMTypeOf(args[0]);
	return emit_call(e, name, &t, 1, args, nargs);
}

LLVMValueRef op_splat(struct emit *e, LLVMValueRef one, int n)
{
	LLVMValueRef parts[64];
	for (int i = 0; i < n; i++)
		parts[i] = one;
	return vector_join(e, parts, n, 1);
}

LLVMValueRef op_times(struct emit *e, LLVMValueRef x, int64_t c)
{
	bool power = c > 0 && (c & (c - 1)) == 0;
	LLVMValueRef by = LLVMConstInt(LLVMTypeOf(x), power ? (uint64_t)__builtin_ctzll((uint64_t)c) : (uint64_t)c, 1);
	return c == 1 ? x : power ? LLVMBuildShl(e->b, x, by, "") : LLVMBuildMul(e->b, x, by, "");
}

static LLVMValueRef compare(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	static const LLVMRealPredicate real_of[] = {LLVMRealOLT, LLVMRealOLE, LLVMRealOEQ, LLVMRealUNE};
	static const LLVMIntPredicate int_of[] = {LLVMIntSLT, LLVMIntSLE, LLVMIntEQ, LLVMIntNE};
	int n = i->op - IR_LT;
	return dtype_is_float(i->args[0]->dtype) ? LLVMBuildFCmp(e->b, real_of[n], a[0], a[1], "") : LLVMBuildICmp(e->b, int_of[n], a[0], a[1], "");
}

/* x / C for a whole C whose odd part is below 2^16: y = 1 / C rounded down, q = x y, and max(fma(fma(-q, C, x), y, q), q).  q is at most
 * x / C and within three steps of it; what is left, x - q C, is exact, for it is a multiple of a step of q and of C's lowest bit, and
 * no more than 3 C of them; the corrected quotient is then wrong by less than 2^-20 of a step before it is rounded, and no x / C comes
 * as close to the middle between two numbers, where steps are not denormals'.  Of an infinite x the correction is NaN and the maximum q. */
static LLVMValueRef divide_by_whole(struct emit *e, LLVMValueRef x, double c)
{
	int n = vector_length(x);
	float y = (float)(1 / c);
	y = (double)y * c > 1 ? nextafterf(y, 0) : y;              /* exact in f64 */
	LLVMValueRef by = op_splat(e, LLVMConstReal(e->f32, y), n), q = LLVMBuildFMul(e->b, x, by, "");
	LLVMValueRef left[3] = {q, op_splat(e, LLVMConstReal(e->f32, -c), n), x}, best[3], most[2];
	best[0] = op_whole(e, "llvm.fma", left, 3);
	best[1] = by;
	best[2] = q;
	most[0] = op_whole(e, "llvm.fma", best, 3);
	most[1] = q;
	return op_whole(e, "llvm.maxnum", most, 2);
}

/* 1 / s for s from 2^-126 to 2^126 or infinite: y is within a step of it, and max(fma(fma(-s, y, 1), y, y), 0) the nearest number
 * (P. Markstein, IBM J. Res. Dev. 34, 1990) but for one s in 2^23, the mantissa of ones: there it is as well unless y is the power of two
 * below, which a whole division would not mend either.  Of an infinite s the sum is NaN and the maximum 0. */
static LLVMValueRef reciprocal(struct emit *e, LLVMValueRef s)
{
	int n = vector_length(s);
	LLVMValueRef y = approximate(e, IR_RCP, s), left[3] = {LLVMBuildFNeg(e->b, s, ""), y, op_splat(e, LLVMConstReal(e->f32, 1), n)}, best[3], most[2];
	best[0] = op_whole(e, "llvm.fma", left, 3);
	best[1] = best[2] = y;
	most[0] = op_whole(e, "llvm.fma", best, 3);
	most[1] = op_splat(e, LLVMConstReal(e->f32, 0), n);
	return op_whole(e, "llvm.maxnum", most, 2);
}

/* In packed forms where registers allow: pairs have to lie side by side. */
static LLVMValueRef short_division(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	bool by_constant = i->args[1]->op == IR_CONST;
	LLVMValueRef x = a[!by_constant], part[64];
	int n = vector_length(x), each = e->v->aligned ? n : 1;
	for (int k = 0; k < n; k += each) {
		LLVMValueRef some = vector_part(e, x, k, each);
		part[k / each] = by_constant ? divide_by_whole(e, some, i->args[1]->num) : reciprocal(e, some);
	}
	return vector_join(e, part, n / each, each);
}

/* fmod without branches, in f64.  Each step takes off what is y 2^(28 k) or more: its quotient has at most 29 bits and y 24, so that the product
 * is exact, and what is left, less than y 2^(28 k) and whole in the last places of x or of that, too; ten steps for quotients up to
 * 2^277.  The quotient by a reciprocal may be one off, either way.  An infinite x and y = 0 come out NaN by
 * themselves; of an infinite y x is left. */
static LLVMValueRef float_remainder(struct emit *e, LLVMValueRef x, LLVMValueRef y)
{
	enum { STEP = 28, STEPS = 10 };
	int n = vector_length(x);
	LLVMTypeRef f64 = LLVMDoubleTypeInContext(e->ctx), wide = emit_vector(f64, n);
	LLVMValueRef size = op_whole(e, "llvm.fabs", &y, 1), left = op_whole(e, "llvm.fabs", &x, 1);
	LLVMValueRef endless = LLVMBuildFCmp(e->b, LLVMRealOEQ, size, op_splat(e, LLVMConstReal(e->f32, INFINITY), n), "");
	size = LLVMBuildFPExt(e->b, size, wide, "");
	left = LLVMBuildFPExt(e->b, left, wide, "");
	LLVMValueRef by = LLVMBuildFDiv(e->b, op_splat(e, LLVMConstReal(f64, 1), n), size, "");
	for (int k = STEPS - 1; k >= 0; k--) {
		LLVMValueRef step = LLVMBuildFMul(e->b, size, op_splat(e, LLVMConstReal(f64, ldexp(1, STEP * k)), n), "");
		LLVMValueRef q = LLVMBuildFMul(e->b, left, LLVMBuildFMul(e->b, by, op_splat(e, LLVMConstReal(f64, ldexp(1, -STEP * k)), n), ""), "");
		q = op_whole(e, "llvm.trunc", &q, 1);
		left = op_whole(e, "llvm.fma", (LLVMValueRef[]){LLVMBuildFNeg(e->b, q, ""), step, left}, 3);
		LLVMValueRef less = LLVMBuildFCmp(e->b, LLVMRealOLT, left, LLVMConstNull(wide), "");
		left = LLVMBuildSelect(e->b, less, LLVMBuildFAdd(e->b, left, step, ""), left, "");
		LLVMValueRef more = LLVMBuildFCmp(e->b, LLVMRealOGE, left, step, "");
		left = LLVMBuildSelect(e->b, more, LLVMBuildFSub(e->b, left, step, ""), left, "");
	}
	left = LLVMBuildFPTrunc(e->b, left, LLVMTypeOf(x), "");
	LLVMValueRef whole = op_whole(e, "llvm.fma", (LLVMValueRef[]){x, LLVMConstNull(LLVMTypeOf(x)), x}, 3);      /* x, or NaN */
	return LLVMBuildSelect(e->b, endless, whole, op_whole(e, "llvm.copysign", (LLVMValueRef[]){left, x}, 2), "");
}

/* Positions, extents and sums of them are divided without a sign: by a power of two that is one shift. */
static build_binary *division_of(const struct ir_ins *i)
{
	struct affine f = affine_of(i->args[0]);
	bool natural = i->dtype == DT_I32 && i->args[1]->op == IR_CONST && i->args[1]->imm > 0 && affine_never_negative(&f);
	if (i->op == IR_REM)
		return natural ? LLVMBuildURem : LLVMBuildSRem;
	return natural ? LLVMBuildUDiv : LLVMBuildSDiv;
}

/* Integer division by zero gives 0 (op.def); the divisor is made 1 first. */
static LLVMValueRef divide(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	bool rem = i->op == IR_REM;
	if (i->flags & IR_NORMAL)
		return short_division(e, i, a);
	if (dtype_is_float(i->dtype))
		return rem ? float_remainder(e, a[0], a[1]) : LLVMBuildFDiv(e->b, a[0], a[1], "");
	build_binary *op = division_of(i);
	if (i->args[1]->op == IR_CONST && i->args[1]->imm)
		return op(e->b, a[0], a[1], "");
	LLVMTypeRef t = LLVMTypeOf(a[1]);
	LLVMValueRef zero = LLVMBuildICmp(e->b, LLVMIntEQ, a[1], LLVMConstNull(t), "");
	LLVMValueRef one = op_splat(e, LLVMConstInt(emit_type(e, i->dtype), 1, 0), vector_length(a[1]));
	LLVMValueRef q = op(e->b, a[0], LLVMBuildSelect(e->b, zero, one, a[1], ""), "");
	return LLVMBuildSelect(e->b, zero, LLVMConstNull(t), q, "");
}

static LLVMValueRef shift(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	int bits = dtype_info(i->dtype)->bits;
	LLVMValueRef mask = op_splat(e, LLVMConstInt(emit_type(e, i->dtype), (unsigned)bits - 1, 0), vector_length(a[1]));
	LLVMValueRef by = LLVMBuildAnd(e->b, a[1], mask, "");
	return i->op == IR_SHL ? LLVMBuildShl(e->b, a[0], by, "") : LLVMBuildAShr(e->b, a[0], by, "");
}

/* Philox-4x32-10 (Salmon et al., SC'11): first word, 32 bits, of the block numbered by the counter, keyed by the seed, both of 32 or 64;
 * as eval_op.h. */
static LLVMValueRef philox(struct emit *e, LLVMValueRef seed, LLVMValueRef counter)
{
	LLVMValueRef c[4], k[2], hi[2], lo[2];
	int n = vector_length(seed);
	bool wide = dtype_info(DT_I64)->bits == (int)LLVMGetIntTypeWidth(n > 1 ? LLVMGetElementType(LLVMTypeOf(seed)) : LLVMTypeOf(seed));
	LLVMTypeRef t = emit_vector(e->i32, n), t64 = emit_vector(e->i64, n);
	LLVMValueRef by32 = op_splat(e, LLVMConstInt(e->i64, 32, 0), n);
	for (int h = 0; h < 2; h++) {
		LLVMValueRef from = h ? counter : seed, *to = h ? c : k;
		to[0] = wide ? LLVMBuildTrunc(e->b, from, t, "") : from;
		to[1] = wide ? LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, from, by32, ""), t, "") : LLVMConstNull(t);
	}
	c[2] = c[3] = LLVMConstNull(t);
	for (int round = 0; round < 10; round++) {
		static const uint32_t factor[2] = {0xD2511F53u, 0xCD9E8D57u}, bump[2] = {0x9E3779B9u, 0xBB67AE85u};
		for (int h = 0; h < 2; h++) {
			LLVMValueRef p = LLVMBuildMul(e->b, LLVMBuildZExt(e->b, c[2 * h], t64, ""), op_splat(e, LLVMConstInt(e->i64, factor[h], 0), n), "");
			hi[h] = LLVMBuildTrunc(e->b, LLVMBuildLShr(e->b, p, by32, ""), t, "");
			lo[h] = LLVMBuildTrunc(e->b, p, t, "");
		}
		c[0] = LLVMBuildXor(e->b, LLVMBuildXor(e->b, hi[1], c[1], ""), k[0], "");
		c[2] = LLVMBuildXor(e->b, LLVMBuildXor(e->b, hi[0], c[3], ""), k[1], "");
		c[1] = lo[1];
		c[3] = lo[0];
		for (int h = 0; h < 2; h++)
			k[h] = LLVMBuildAdd(e->b, k[h], op_splat(e, LLVMConstInt(e->i32, bump[h], 0), n), "");
	}
	return c[0];
}

static LLVMValueRef convert(struct emit *e, const struct ir_ins *i, LLVMValueRef x)
{
	if ((i->flags & IR_AGAIN) && e->machine->widened_again && vector_length(x) % 2 == 0)
		return e->machine->widened_again(e, x);
	if (i->dtype == DT_BF16 && LLVMIsAFPExtInst(x) && LLVMTypeOf(LLVMGetOperand(x, 0)) == op_type_like(e, DT_BF16, x))
		return LLVMGetOperand(x, 0);                   /* it was one before */
	if (i->flags & IR_CUT)
		return e->machine->cut_bf16(e, x);
	if (nans_are_short(e, i))
		return e->machine->round_bf16(e, x);
	return op_convert(e, x, (enum dtype)i->args[0]->dtype, (enum dtype)i->dtype, i->flags & IR_SATURATE);
}

/* One by one: a vector of conditions takes LLVM many steps; where there is one for all, halves as the words that they are in: of products and of masks of the wave. */
static LLVMValueRef choose(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	int n = vector_length(a[0]);
	LLVMValueRef part[64];
	if ((e->machine->scalar_masks || e->has_dot) && !i->args[0]->axes && n > 1 && dtype_info(i->dtype)->bits == 16) {
		LLVMTypeRef words = emit_vector(e->i32, n / 2);
		LLVMValueRef x = LLVMBuildBitCast(e->b, a[1], words, ""), y = LLVMBuildBitCast(e->b, a[2], words, "");
		return LLVMBuildBitCast(e->b, LLVMBuildSelect(e->b, vector_part(e, a[0], 0, 1), x, y, ""), LLVMTypeOf(a[1]), "");
	}
	for (int k = 0; k < n; k++)
		part[k] = LLVMBuildSelect(e->b, vector_part(e, a[0], k, 1), vector_part(e, a[1], k, 1), vector_part(e, a[2], k, 1), "");
	return vector_join(e, part, n, 1);
}

/* One by one: of pairs of words that were chosen and then count as floats LLVM negates one (convert.c, soft_widen). */
static LLVMValueRef same_bits(struct emit *e, enum dtype t, LLVMValueRef x)
{
	int n = vector_length(x);
	LLVMValueRef part[64];
	for (int k = 0; k < n; k++)
		part[k] = LLVMBuildBitCast(e->b, vector_part(e, x, k, 1), emit_type(e, t), "");
	return vector_join(e, part, n, 1);
}

/* Narrow floats are their codes. */
static LLVMValueRef constant(struct emit *e, const struct ir_ins *i)
{
	LLVMTypeRef type = emit_type(e, i->dtype);
	if (!dtype_is_float(i->dtype))
		return LLVMConstInt(type, (uint64_t)i->imm, 1);
	return type == e->i8 ? LLVMConstInt(type, num_from_f32((float)i->num, i->dtype, false), 0) : LLVMConstReal(type, i->num);
}

LLVMValueRef op_build(struct emit *e, const struct ir_ins *i, LLVMValueRef *a)
{
	bool f = dtype_is_float(i->dtype);
	switch (i->op) {
	case IR_CONST: return constant(e, i);
	case IR_NEG: return f ? LLVMBuildFNeg(e->b, a[0], "") : LLVMBuildNeg(e->b, a[0], "");
	case IR_ABS:
		if (f)
			return op_whole(e, "llvm.fabs", a, 1);
		a[1] = LLVMConstInt(e->i1, 0, 0);
		return op_whole(e, "llvm.abs", a, 2);
	case IR_SQRT: return op_whole(e, "llvm.sqrt", a, 1);
	case IR_RSQRT: case IR_RCP: case IR_EXP2: case IR_LOG2: case IR_SIN_TURNS: case IR_COS_TURNS: return approximate(e, i->op, a[0]);
	case IR_FLOOR: return op_whole(e, "llvm.floor", a, 1);
	case IR_CEIL: return op_whole(e, "llvm.ceil", a, 1);
	case IR_ROUND: return op_whole(e, "llvm.rint", a, 1);
	case IR_NOT: return LLVMBuildNot(e->b, a[0], "");
	case IR_ADD: return f ? LLVMBuildFAdd(e->b, a[0], a[1], "") : LLVMBuildAdd(e->b, a[0], a[1], "");
	case IR_SUB: return f ? LLVMBuildFSub(e->b, a[0], a[1], "") : LLVMBuildSub(e->b, a[0], a[1], "");
	case IR_MUL:
		if (!f && vector_length(a[0]) == 1 && LLVMIsAConstantInt(a[1]))
			return op_times(e, a[0], LLVMConstIntGetSExtValue(a[1]));
		return f ? LLVMBuildFMul(e->b, a[0], a[1], "") : LLVMBuildMul(e->b, a[0], a[1], "");
	case IR_DIV: case IR_REM: return divide(e, i, a);
	case IR_MIN: return op_whole(e, f ? "llvm.minnum" : "llvm.smin", a, 2);
	case IR_MAX: return op_whole(e, f ? "llvm.maxnum" : "llvm.smax", a, 2);
	case IR_AND: return LLVMBuildAnd(e->b, a[0], a[1], "");
	case IR_OR: return LLVMBuildOr(e->b, a[0], a[1], "");
	case IR_XOR: return LLVMBuildXor(e->b, a[0], a[1], "");
	case IR_SHL: case IR_SHR: return shift(e, i, a);
	case IR_LT: case IR_LE: case IR_EQ: case IR_NE: return compare(e, i, a);
	case IR_FMA: return op_whole(e, "llvm.fma", a, 3);
	case IR_SELECT: return choose(e, i, a);
	case IR_PHILOX: return philox(e, a[0], a[1]);
	case IR_CVT: return convert(e, i, a[0]);
	case IR_BITCAST: return same_bits(e, i->dtype, a[0]);
	default:
		return emit_fail(e, i, "%s is not lowered yet", ir_op_info[i->op].text);
	}
}

LLVMValueRef op_between(struct emit *e, LLVMValueRef x, LLVMValueRef most)
{
	return op_whole(e, "llvm.smin", (LLVMValueRef[]){op_whole(e, "llvm.smax", (LLVMValueRef[]){x, emit_int(e, 0)}, 2), most}, 2);
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
	return LLVMConstInt(type, (uint64_t)ir_int_identity(kind, t), 1);
}

/* select(has t, load of t, constant), as elaboration makes it of every optional tensor.  An absent tensor loads as zeros, so the
 * constant's bits are all there is to set, and their word is one scalar register where the condition would be a mask of the wave. */
static bool is_optional_load(const struct ir_ins *i)
{
	const struct ir_ins *has = i->args[0], *load = i->args[1], *none = i->args[2];
	return has->op == IR_HAS && load->op == IR_LOAD && load->imm == has->imm && none->op == IR_CONST &&
	       (i->dtype == DT_F32 || i->dtype == DT_F16 || i->dtype == DT_BF16);
}

/* 0 where the tensor is there, else the constant; computed once in front. */
static LLVMValueRef absent_bits(struct emit *e, int64_t tensor, uint32_t constant)
{
	LLVMValueRef *known = e->tensors[tensor].absent, bits = LLVMConstInt(e->i32, constant, 0);
	if (known[0] && known[1] == bits)
		return known[0];
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	LLVMPositionBuilderBefore(e->b, e->entry_end);
	LLVMValueRef absent = LLVMBuildICmp(e->b, LLVMIntEQ, arguments_pointer(e, (int)tensor), LLVMConstNull(e->p1), "");
	known[0] = LLVMBuildSelect(e->b, absent, bits, LLVMConstNull(e->i32), "");
	if (!e->v->aligned)                                 /* element by element there are many masks: vector registers are what is left */
		known[0] = e->machine->hidden_copy(e, known[0], NULL);
	known[1] = bits;
	LLVMPositionBuilderAtEnd(e->b, here);
	return known[0];
}

static LLVMValueRef optional_load(struct emit *e, const struct ir_ins *i, LLVMValueRef x)
{
	int bits = dtype_info((enum dtype)i->dtype)->bits, n = vector_length(x);
	bool dwords = bits * n % 32 == 0;
	LLVMTypeRef one = dwords || bits == 32 ? e->i32 : e->i16;
	int words = dwords ? bits * n / 32 : n;
	uint32_t code = num_from_f32((float)i->args[2]->num, (enum dtype)i->dtype, false);
	LLVMValueRef none = absent_bits(e, i->args[0]->imm, bits == 32 ? code : code << 16 | code);
	none = op_splat(e, one == e->i32 ? none : LLVMBuildTrunc(e->b, none, one, ""), words);
	LLVMValueRef set = LLVMBuildOr(e->b, LLVMBuildBitCast(e->b, x, emit_vector(one, words), ""), none, "");
	return LLVMBuildBitCast(e->b, set, LLVMTypeOf(x), "");
}

/* Close by the masks are made first, all of them: a select right behind its own comparison has to wait. */
enum { NEAR = 4 };

bool is_late_comparison(const struct emit *e, const struct ir_ins *i)
{
	if (!e->machine->scalar_masks || !i->layout || i->op < IR_LT || i->op > IR_NE || e->uses[i->id] != 1 || layout_regs(i->layout) < MANY_MASKS)
		return false;
	const struct ir_ins *user = i->next;
	int apart = 0;
	for (; user && !(user->op == IR_SELECT && user->args[0] == i); user = user->next)
		apart++;
	return apart > NEAR && user && user->layout && layout_equal(user->layout, i->layout);
}

/* Registers are handled in groups as wide as the result's or any operand's, so that dwords stay dwords. */
void emit_elementwise(struct emit *e, const struct ir_ins *i)
{
	struct value *v = value_new(e, i);
	int regs = i->layout ? layout_regs(i->layout) : 1, width = v->pack;
	const struct ir_ins *late = i->op == IR_SELECT && is_late_comparison(e, i->args[0]) ? i->args[0] : NULL;
	for (int a = late ? 1 : 0; a < i->nargs; a++)
		if (i->args[a]->layout && i->layout) {
			int pack = e->values[i->args[a]->id].pack;
			if (pack > width && regs % pack == 0)
				width = pack;
		}
	for (int r = 0; r < regs; r += width) {
		LLVMValueRef args[8] = {0}, compared[2];
		for (int a = late ? 1 : 0; a < i->nargs; a++)
			args[a] = value_vector(e, i->args[a], i->layout, r, width);
		for (int a = 0; late && a < 2; a++)
			compared[a] = value_vector(e, late->args[a], i->layout, r, width);
		if (late)
			args[0] = op_build(e, late, compared);
		LLVMValueRef x = i->op == IR_SELECT && e->machine->scalar_masks && is_optional_load(i) ? optional_load(e, i, args[1]) : op_build(e, i, args);
		if (e->failed)
			return;
		value_set(e, i, r, width, x);
	}
}
