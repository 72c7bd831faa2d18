/* nans.c -- whether every NaN among a value's elements has 16 zeros in its lower half, so that rounding to bf16 by adding half a step and cutting
 * keeps it a NaN: three instructions an element less on chips that have none for it.
 * In: IR values; f32 scalars of a call.  Out: yes, or that it is not known; the same scalars, with such NaNs.
 * What came from bf16, and what an operation makes of numbers (0x7fc00000), has them; operations hand on an operand's, and so do loops.  A call's
 * scalar may be any NaN: it is made such a one where it is read, in the scalar unit, once. */
#include "machine.h"

enum { LOOKS = 256, LOOPS = 8 };

/* left: how many instructions are still looked at; carried: what loops carry, which is taken for one until it is found not to be; scalars: of a call,
 * of those that a kernel has room for in 64 bits, what is found rests on. */
struct look { int left, n; const struct ir_ins *carried[LOOPS]; uint64_t scalars; };

static bool is_short(struct look *, const struct ir_ins *);

static bool are_short(struct look *l, const struct ir_ins *i, int first, int n)
{
	for (int a = first; a < n; a++)
		if (!is_short(l, i->args[a]))
			return false;
	return true;
}

/* What a loop begins with and what each round yields. */
static bool loop_is_short(struct look *l, const struct ir_ins *loop, int64_t at)
{
	if (loop->op != IR_FOR)
		return false;
	const struct ir_ins *carried = loop->body->params[at];
	for (int c = 0; c < l->n; c++)
		if (l->carried[c] == carried)
			return true;
	if (l->n == LOOPS)
		return false;
	l->carried[l->n++] = carried;
	return is_short(l, loop->args[2 + at]) && is_short(l, loop->body->last->args[at]);
}

/* What a number's bits are joined with is a sign (pass_math.c): that number; else NULL. */
static const struct ir_ins *signed_number(const struct ir_ins *bits)
{
	double mask;
	const struct ir_ins *sign = bits->op == IR_OR ? bits->args[0] : NULL;
	bool joined = sign && sign->op == IR_AND && ir_is_const(sign->args[1], &mask) && mask == INT32_MIN && bits->args[1]->op == IR_BITCAST;
	return joined && bits->args[1]->args[0]->dtype == DT_F32 ? bits->args[1]->args[0] : NULL;
}

static bool is_short(struct look *l, const struct ir_ins *i)
{
	if (--l->left < 0)
		return false;
	switch (i->op) {
	case IR_CONST:
		return true;
	case IR_PARAM:
		l->scalars |= i->imm < 64 ? UINT64_C(1) << i->imm : 0;
		return i->dtype == DT_F32 && i->imm < 64;
	case IR_CVT:
		return i->args[0]->dtype == DT_BF16 || i->args[0]->dtype == DT_I32;
	case IR_ADD: case IR_SUB: case IR_MUL: case IR_DIV: case IR_FMA: case IR_NEG: case IR_ABS: case IR_MIN: case IR_MAX: case IR_SQRT:
	case IR_RSQRT: case IR_RCP: case IR_EXP2: case IR_LOG2: case IR_RELAYOUT:
		return are_short(l, i, 0, i->nargs);
	case IR_BITCAST: {
		const struct ir_ins *number = signed_number(i->args[0]);
		return number && is_short(l, number);
	}
	case IR_SELECT:
		return are_short(l, i, 1, 3);
	case IR_REDUCE:
		return are_short(l, i, 0, i->flags & IR_PRODUCT ? 2 : 1);
	case IR_DOT:
		return i->args[0]->dtype == DT_BF16 && i->args[1]->dtype == DT_BF16 && are_short(l, i, 2, i->nargs);
	case IR_RESULT:
		if (i->args[0]->op == IR_IF)
			return is_short(l, i->args[0]->body->last->args[i->imm]) && is_short(l, i->args[0]->other->last->args[i->imm]);
		return loop_is_short(l, i->args[0], i->imm);
	case IR_ARG:
		for (int p = 0; p < i->block->nparams; p++)
			if (i->block->params[p] == i)
				return loop_is_short(l, i->block->owner, p);
		return false;
	default:
		return false;
	}
}

static bool is_short_rounding(const struct emit *e, const struct ir_ins *i, struct look *l)
{
	bool rounds = i->op == IR_CVT && i->dtype == DT_BF16 && i->args[0]->dtype == DT_F32 && !(i->flags & (IR_SATURATE | IR_CUT));
	return rounds && !e->v->target->cvt_pk_bf16 && e->machine->round_bf16 && is_short(l, i->args[0]);
}

bool nans_are_short(const struct emit *e, const struct ir_ins *cvt)
{
	struct look l = {.left = LOOKS};
	return is_short_rounding(e, cvt, &l);
}

struct search { const struct emit *e; uint64_t scalars; };

static void look_for_scalars(struct ir_ins *i, void *ctx)
{
	struct search *s = ctx;
	struct look l = {.left = LOOKS};
	s->scalars |= is_short_rounding(s->e, i, &l) ? l.scalars : 0;
}

uint64_t nans_scalars(const struct emit *e, const struct ir_phase *ph)
{
	struct search s = {e, 0};
	ir_walk(ph->body, look_for_scalars, &s);
	return s.scalars;
}

LLVMValueRef nan_shortened(struct emit *e, LLVMValueRef scalar)
{
	LLVMValueRef bits = LLVMBuildBitCast(e->b, scalar, e->i32, "");
	LLVMValueRef nan = LLVMBuildICmp(e->b, LLVMIntUGT, LLVMBuildAnd(e->b, bits, emit_int(e, 0x7fffffff), ""), emit_int(e, 0x7f800000), "");
	return LLVMBuildBitCast(e->b, LLVMBuildSelect(e->b, nan, emit_int(e, 0x7fc00000), bits, ""), e->f32, "");
}
