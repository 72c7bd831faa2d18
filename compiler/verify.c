/* verify.c -- is this a well-formed kernel?
 *
 * In: any kernel, also one a faulty pass made.  Out: 0, or -1 and the first violation: "line 12: %7 add: ...".
 * One walk in program order.  `visible` says per number which definition may be used at this point: entered at the definition,
 * taken away at the end of its block, which is dominance for structured control.  Types and axes go by op.def's classes; what
 * an operation demands beyond its class stands in its own function. */
#include "ir.h"

#include <stdio.h>
#include <string.h>

#include "eval_op.h"

struct verifier {
	struct arena scratch;
	const struct ir_kernel *k;
	const struct ir_phase *ph;
	const struct ir_ins **visible;
	bool *used;                           /* by number: some instruction has it */
	ir_axes open;                         /* axes that exist here: all but the loop axes of loops not entered */
	char *err; size_t errlen;
};

static int bad(struct verifier *v, const struct ir_ins *ins, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int bad(struct verifier *v, const struct ir_ins *ins, const char *fmt, ...)
{
	int n = 0;
	va_list ap;
	if (ins)
		n = snprintf(v->err, v->errlen, "line %d: %%%d %s: ", ins->line, ins->id, ins->op <= IR_NOP ? ir_op_info[ins->op].text : "?");
	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < v->errlen)
		vsnprintf(v->err + n, v->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

#define TRY(call) do { if (call) return -1; } while (0)
#define DEMAND(v, ins, cond, ...) do { if (!(cond)) return bad((v), (ins), __VA_ARGS__); } while (0)

static bool is_scalar(const struct ir_ins *a, enum dtype t) { return a->dtype == t && !a->axes; }
static bool is_numeric(enum dtype t) { return op_type_is_float(t) || (op_type_is_int(t) && t != DT_I1); }

static ir_axes union_of(const struct ir_ins *ins, int first, int end)
{
	ir_axes all = 0;
	for (int i = first; i < end; i++)
		all |= ins->args[i]->axes;
	return all;
}

/* A ragged axis decides its group, so a value with the group's axis fits where the ragged axis stands. */
static bool fits(const struct verifier *v, const struct ir_ins *value, ir_axes axes)
{
	ir_axes groups = 0;
	for (int a = 0; a < v->ph->naxes; a++)
		if (axes & IR_AXIS(a) && v->ph->axes[a].ragged)
			groups |= IR_AXIS(v->ph->axes[a].ragged_group);
	return !(value->axes & ~(axes | groups));
}

/* --- leaves */

static bool is_axis(const struct verifier *v, int64_t a) { return a >= 0 && a < v->ph->naxes; }

static int verify_const(struct verifier *v, const struct ir_ins *ins)
{
	if (op_type_is_int(ins->dtype))
		DEMAND(v, ins, op_int_wrap(ins->dtype, ins->imm) == ins->imm, "%lld does not fit %s", (long long)ins->imm, dtype_info(ins->dtype)->name);
	else
		DEMAND(v, ins, ins->num != ins->num || (float)ins->num == ins->num, "the constant is not an f32 value");
	return 0;
}

static int verify_leaf(struct verifier *v, const struct ir_ins *ins)
{
	const struct ir_kernel *k = v->k;
	int64_t i = ins->imm;
	DEMAND(v, ins, ins->nargs == 0, "a leaf has operands");
	DEMAND(v, ins, ins->axes == (ins->op == IR_IOTA && is_axis(v, i) ? IR_AXIS(i) : 0), "the axes are not those of the leaf");
	switch (ins->op) {
	case IR_CONST:
		return verify_const(v, ins);
	case IR_SYM:
		DEMAND(v, ins, i >= 0 && i < k->nsymbols && ins->dtype == DT_I32, "not an i32 symbol");
		break;
	case IR_PARAM:
		DEMAND(v, ins, i >= 0 && i < k->nparams && !k->params[i].is_tensor, "not a scalar parameter");
		DEMAND(v, ins, ins->dtype == k->params[i].dtype, "the parameter is %s", dtype_info(k->params[i].dtype)->name);
		break;
	case IR_HAS:
		DEMAND(v, ins, i >= 0 && i < k->nparams && k->params[i].optional && ins->dtype == DT_I1, "not an optional tensor, or not i1");
		break;
	default:
		DEMAND(v, ins, is_axis(v, i) && ins->dtype == DT_I32, "not an axis, or not i32");
		DEMAND(v, ins, v->open & IR_AXIS(i), "loop axis '%s' outside its for", v->ph->axes[i].name);
		DEMAND(v, ins, ins->op != IR_LIMIT || v->ph->axes[i].ragged, "axis '%s' is not ragged", v->ph->axes[i].name);
	}
	return 0;
}

/* --- elementwise */

static int verify_elementwise(struct verifier *v, const struct ir_ins *ins)
{
	int first = ins->op == IR_SELECT;
	enum dtype t = ins->args[first]->dtype;
	for (int i = first + 1; i < ins->nargs; i++)
		DEMAND(v, ins, ins->args[i]->dtype == t, "operands are %s and %s", dtype_info(t)->name, dtype_info(ins->args[i]->dtype)->name);
	DEMAND(v, ins, ins->axes == union_of(ins, 0, ins->nargs), "the axes are not the union of the operands'");
	return 0;
}

static int verify_types(struct verifier *v, const struct ir_ins *ins)
{
	const char *cls = ir_op_info[ins->op].cls;
	enum dtype t = ins->args[ins->op == IR_SELECT]->dtype, result = strcmp(cls, "CMP") == 0 ? DT_I1 : t;
	bool whole = op_type_is_int(t), real = op_type_is_float(t), good;
	if (strcmp(cls, "UN") == 0)
		good = real || (whole && t != DT_I1 && (ins->op == IR_NEG || ins->op == IR_ABS));
	else if (strcmp(cls, "BIT") == 0)
		good = whole && (t != DT_I1 || (ins->op != IR_SHL && ins->op != IR_SHR));
	else if (strcmp(cls, "CMP") == 0)
		good = whole || real;
	else if (ins->op == IR_SELECT)
		good = ins->args[0]->dtype == DT_I1;
	else if (ins->op == IR_FMA)
		good = real;
	else
		good = is_numeric(t);
	if (ins->op == IR_PHILOX) {
		good = t == DT_I32 || t == DT_I64;
		result = DT_I32;
	}
	DEMAND(v, ins, good, "not an operation on %s", dtype_info(t)->name);
	DEMAND(v, ins, ins->dtype == result, "the result is %s, expected %s", dtype_info(ins->dtype)->name, dtype_info(result)->name);
	return 0;
}

/* An axis in the place of another, of which each position stands for several of the other or the other way round. */
static int verify_replaced(struct verifier *v, const struct ir_ins *ins)
{
	ir_axes from = ins->over, to = is_axis(v, ins->imm) ? IR_AXIS(ins->imm) : 0, has = ins->args[0]->axes;
	DEMAND(v, ins, to && from && !(from & (from - 1)) && __builtin_ctz(from) < v->ph->naxes, "not from an axis along another");
	DEMAND(v, ins, has & from && !(has & to) && ins->axes == ((has & ~from) | to), "the axes are not the operand's with one in the place of another");
	int each = v->ph->axes[__builtin_ctz(from)].tile, all = v->ph->axes[ins->imm].tile;
	if (ins->op == IR_PACK) {
		DEMAND(v, ins, ins->args[0]->dtype == DT_E2M1 && ins->dtype == DT_U8 && each == 2 * all, "%d codes of %s are not %d pairs", each, dtype_info(ins->args[0]->dtype)->name, all);
		return 0;
	}
	DEMAND(v, ins, each && all && all % each == 0, "%d positions are not so many times %d", all, each);
	DEMAND(v, ins, ins->dtype == ins->args[0]->dtype, "a repeat keeps the type");
	return 0;
}

static int verify_cvt(struct verifier *v, const struct ir_ins *ins)
{
	enum dtype from = ins->args[0]->dtype, to = ins->dtype;
	if (ins->op == IR_REPEAT || ins->op == IR_PACK)
		return verify_replaced(v, ins);
	ir_axes more = ins->op == IR_RELAYOUT ? ins->axes : 0;      /* the same along them */
	DEMAND(v, ins, ins->axes == (ins->args[0]->axes | more), "the axes are not the operand's");
	if (ins->op == IR_RELAYOUT)
		DEMAND(v, ins, from == to, "a relayout keeps the type");
	else if (ins->op == IR_CVT)
		DEMAND(v, ins, to != DT_I1, "a conversion to i1 is a comparison");
	else
		DEMAND(v, ins, dtype_info(from)->bits == dtype_info(to)->bits && dtype_info(to)->bits != 4 && from != DT_I1 && to != DT_I1,
		       "%s and %s differ in width", dtype_info(from)->name, dtype_info(to)->name);
	return 0;
}

/* --- memory */

static int verify_access(struct verifier *v, const struct ir_ins *ins)
{
	bool masked = ins->flags & IR_MASKED, writes = ins->op != IR_LOAD;
	DEMAND(v, ins, ins->imm >= 0 && ins->imm < v->k->nparams && v->k->params[ins->imm].is_tensor, "not a tensor");
	const struct ir_param *p = &v->k->params[ins->imm];
	DEMAND(v, ins, ins->nargs == p->rank + writes + masked, "%d operands for a tensor of rank %d", ins->nargs, p->rank);
	for (int i = 0; i < p->rank; i++)
		DEMAND(v, ins, ins->args[i]->dtype == DT_I32, "subscript %d is %s, expected i32", i, dtype_info(ins->args[i]->dtype)->name);
	DEMAND(v, ins, !p->list || ir_list_subscripts(v->k, v->ph, (int)ins->imm, ins->args), "list '%s' is not subscripted by one of its ranges", p->name);
	DEMAND(v, ins, !masked || ins->args[ins->nargs - 1]->dtype == DT_I1, "the mask is not i1");
	DEMAND(v, ins, ins->axes == union_of(ins, 0, ins->nargs), "the axes are not the union of the operands'");
	if (!writes) {
		DEMAND(v, ins, ins->dtype == p->dtype, "'%s' holds %s", p->name, dtype_info(p->dtype)->name);
		DEMAND(v, ins, !(ins->flags & IR_RELAXED) || (p->role == IR_INOUT && dtype_info(p->dtype)->bits == 32 && !p->list), "'%s' is nothing of 4 bytes that is updated", p->name);
		return 0;
	}
	const struct ir_ins *value = ins->args[p->rank];
	DEMAND(v, ins, p->role != IR_IN, "'%s' is an input", p->name);
	DEMAND(v, ins, value->dtype == p->dtype, "a %s value for '%s' of %s", dtype_info(value->dtype)->name, p->name, dtype_info(p->dtype)->name);
	if (ins->op == IR_UPDATE) {
		DEMAND(v, ins, ins->kind <= RED_MIN && is_numeric(p->dtype), "no such update of %s", dtype_info(p->dtype)->name);
		return 0;
	}
	ir_axes places = union_of(ins, 0, p->rank) | (masked ? ins->args[ins->nargs - 1]->axes : 0);
	DEMAND(v, ins, fits(v, value, places), "the value has an axis that no subscript has");
	return 0;
}

/* --- reductions */

static int verify_over(struct verifier *v, const struct ir_ins *ins, bool one)
{
	DEMAND(v, ins, ins->over && (!one || !(ins->over & (ins->over - 1))), one ? "expected one axis" : "no axis to remove");
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (ins->over & IR_AXIS(a)) {
			DEMAND(v, ins, v->open & IR_AXIS(a), "axis %d does not exist here", a);
		}
	int scales = ins->op == IR_DOT && ins->flags & IR_SCALED ? 2 : 0;          /* whose groups are of what is contracted */
	ir_axes rest = union_of(ins, 0, ins->nargs - scales) & ~ins->over;
	if (ins->op == IR_REDUCE && ins->flags & IR_BY_LANE)
		rest |= IR_AXIS(ins->imm);
	DEMAND(v, ins, ins->axes == (ins->op == IR_SCAN ? rest | ins->over : rest), "the axes are not what is left of the operands'");
	return 0;
}

static int verify_mask_last(struct verifier *v, const struct ir_ins *ins, int values)
{
	bool masked = ins->flags & IR_MASKED;
	DEMAND(v, ins, ins->nargs == values + masked, "%d operands", ins->nargs);
	DEMAND(v, ins, !masked || ins->args[values]->dtype == DT_I1, "the mask is not i1");
	return 0;
}

static int verify_reduce(struct verifier *v, const struct ir_ins *ins)
{
	bool product = ins->flags & IR_PRODUCT;
	TRY(verify_mask_last(v, ins, 1 + product));
	enum dtype t = ins->args[0]->dtype;
	DEMAND(v, ins, ins->kind <= RED_ALL, "no such kind");
	DEMAND(v, ins, ins->kind >= RED_ANY ? t == DT_I1 : is_numeric(t), "no such reduction of %s", dtype_info(t)->name);
	DEMAND(v, ins, !product || (ins->kind == RED_SUM && t == DT_F32 && ins->args[1]->dtype == DT_F32), "a fused product is a sum of f32");
	DEMAND(v, ins, ins->dtype == t, "the result is %s, expected %s", dtype_info(ins->dtype)->name, dtype_info(t)->name);
	DEMAND(v, ins, !(ins->chains & (ins->chains - 1)), "chains are no power of two");
	DEMAND(v, ins, !(ins->flags & IR_PART) || ins->kind == RED_MAX || ins->kind == RED_MIN, "a part of a sum is no sum");
	if (ins->flags & IR_BY_LANE) {
		const struct ir_axis *lanes = ins->imm >= 0 && ins->imm < v->ph->naxes ? &v->ph->axes[ins->imm] : NULL;
		DEMAND(v, ins, lanes && lanes->kind == AXIS_HELD && !(union_of(ins, 0, ins->nargs) & IR_AXIS(ins->imm)), "lanes are numbered by a held axis of their own");
		DEMAND(v, ins, t == DT_F32 && ins->layout && ins->args[0]->layout && !(ins->flags & IR_ANYORDER), "lanes are those of a layout, and hold f32");
	}
	return verify_over(v, ins, false);
}

/* Of all that is contracted, or along an axis of as many of its positions each. */
static int verify_scale(struct verifier *v, const struct ir_ins *dot, const struct ir_ins *of, const struct ir_ins *scale)
{
	ir_axes own = scale->axes & ~of->axes, k = dot->over;
	DEMAND(v, dot, scale->dtype == DT_E8M0 && !(own & (own - 1)) && !(scale->axes & k) && !(k & (k - 1)), "a scale is no e8m0, or has axes of its own");
	int each = own ? v->ph->axes[__builtin_ctz(own)].tile : 1, all = v->ph->axes[__builtin_ctz(k)].tile;
	DEMAND(v, dot, !own || (each && all && all % each == 0), "%d scales of %d positions", each, all);
	return 0;
}

static int verify_dot(struct verifier *v, const struct ir_ins *ins)
{
	bool acc = ins->flags & IR_ACC, scaled = ins->flags & IR_SCALED;
	DEMAND(v, ins, ins->nargs == 2 + acc + 2 * scaled, "%d operands", ins->nargs);
	enum dtype a = ins->args[0]->dtype, b = ins->args[1]->dtype;
	bool whole = a == DT_I8 && b == DT_I8, pairs = scaled && a == DT_U8 && b == DT_U8;
	bool real = pairs || ((op_type_is_float(a) || op_type_is_code(a)) && (op_type_is_float(b) || op_type_is_code(b)));
	DEMAND(v, ins, whole || real, "no dot of %s and %s", dtype_info(a)->name, dtype_info(b)->name);
	DEMAND(v, ins, ins->dtype == (whole ? DT_I32 : DT_F32), "the result is %s", dtype_info(ins->dtype)->name);
	DEMAND(v, ins, !acc || ins->args[2]->dtype == ins->dtype, "the accumulator is %s", acc ? dtype_info(ins->args[2]->dtype)->name : "");
	DEMAND(v, ins, !acc || !(ins->args[2]->axes & ins->over), "the accumulator has a contracted axis");
	for (int n = 0; scaled && n < 2; n++)
		TRY(verify_scale(v, ins, ins->args[n], ins->args[2 + acc + n]));
	return verify_over(v, ins, false);
}

static int verify_positional(struct verifier *v, const struct ir_ins *ins)
{
	TRY(verify_mask_last(v, ins, 1));
	enum dtype t = ins->args[0]->dtype;
	DEMAND(v, ins, is_numeric(t), "no %s of %s", ir_op_info[ins->op].text, dtype_info(t)->name);
	DEMAND(v, ins, ins->dtype == (ins->op == IR_ARGMAX ? DT_I32 : t), "the result is %s", dtype_info(ins->dtype)->name);
	return verify_over(v, ins, true);
}

/* --- regions */

static int verify_block(struct verifier *v, const struct ir_block *b, const struct ir_ins *owner);

/* A verified block ends in its yield. */
static const struct ir_ins *yield_of(const struct ir_block *b) { return b->last; }

static int verify_if(struct verifier *v, const struct ir_ins *ins)
{
	DEMAND(v, ins, ins->nargs == 1 && is_scalar(ins->args[0], DT_I1), "the condition is not an i1 without axes");
	DEMAND(v, ins, ins->body && ins->other, "a block is missing");
	TRY(verify_block(v, ins->body, ins));
	TRY(verify_block(v, ins->other, ins));
	const struct ir_ins *x = yield_of(ins->body), *y = yield_of(ins->other);
	DEMAND(v, ins, x->nargs == y->nargs, "its blocks yield %d and %d values", x->nargs, y->nargs);
	for (int i = 0; i < x->nargs; i++)
		DEMAND(v, ins, x->args[i]->dtype == y->args[i]->dtype, "its blocks yield different types for value %d", i);
	return 0;
}

static int verify_for(struct verifier *v, const struct ir_ins *ins)
{
	DEMAND(v, ins, is_axis(v, ins->imm) && v->ph->axes[ins->imm].kind == AXIS_LOOP, "not a loop axis");
	DEMAND(v, ins, !(v->open & IR_AXIS(ins->imm)), "axis '%s' is already looped over", v->ph->axes[ins->imm].name);
	DEMAND(v, ins, ins->nargs >= 2 && is_scalar(ins->args[0], DT_I32) && is_scalar(ins->args[1], DT_I32), "start and end are not i32 without axes");
	const struct ir_block *body = ins->body;
	DEMAND(v, ins, body && !ins->other && body->nparams == ins->nargs - 2, "%d initial values for %d carried ones", ins->nargs - 2, body ? body->nparams : 0);
	for (int i = 0; i < body->nparams; i++) {
		const struct ir_ins *arg = body->params[i], *init = ins->args[2 + i];
		DEMAND(v, ins, arg->op == IR_ARG && arg->imm == i && arg->block == body, "carried value %d is not its ARG", i);
		DEMAND(v, ins, init->dtype == arg->dtype && fits(v, init, arg->axes), "initial value %d does not fit its ARG", i);
		DEMAND(v, arg, !(arg->axes & ~v->open), "a loop axis outside its for");
	}
	v->open |= IR_AXIS(ins->imm);
	TRY(verify_block(v, body, ins));
	v->open &= ~IR_AXIS(ins->imm);
	const struct ir_ins *yield = yield_of(body);
	DEMAND(v, ins, yield->nargs == body->nparams, "its body yields %d of %d carried values", yield->nargs, body->nparams);
	for (int i = 0; i < yield->nargs; i++)
		DEMAND(v, yield, yield->args[i]->dtype == body->params[i]->dtype && fits(v, yield->args[i], body->params[i]->axes), "value %d does not fit its ARG", i);
	return 0;
}

static int verify_result(struct verifier *v, const struct ir_ins *ins)
{
	const struct ir_ins *of = ins->nargs == 1 ? ins->args[0] : NULL;
	DEMAND(v, ins, of && (of->op == IR_FOR || of->op == IR_IF), "not of a for or if");
	const struct ir_ins *x = yield_of(of->body), *y = of->other ? yield_of(of->other) : x;
	DEMAND(v, ins, ins->imm >= 0 && ins->imm < x->nargs, "there is no value %d", (int)ins->imm);
	DEMAND(v, ins, ins->dtype == x->args[ins->imm]->dtype, "the value is %s", dtype_info(x->args[ins->imm]->dtype)->name);
	if (of->op == IR_FOR)
		DEMAND(v, ins, ins->axes == of->body->params[ins->imm]->axes, "the axes are not those of the carried value");
	else
		DEMAND(v, ins, fits(v, x->args[ins->imm], ins->axes) && fits(v, y->args[ins->imm], ins->axes), "an axis of the value is missing");
	return 0;
}

static int verify_region(struct verifier *v, const struct ir_ins *ins)
{
	switch (ins->op) {
	case IR_FOR: return verify_for(v, ins);
	case IR_IF: return verify_if(v, ins);
	case IR_RESULT: return verify_result(v, ins);
	case IR_YIELD:
		DEMAND(v, ins, !ins->next, "not the last of its block");
		DEMAND(v, ins, ins->block->owner || !ins->nargs, "a phase yields nothing");
		return 0;
	default:
		return bad(v, ins, "an ARG in a block's list");
	}
}

/* --- the walk */

static int verify_layout(struct verifier *v, const struct ir_ins *ins)
{
	const struct layout *l = ins->layout;
	DEMAND(v, ins, layout_covers(l), "the layout does not cover its block once");
	for (int a = 0; a < LAYOUT_AXES; a++) {
		int tile = ins->axes & IR_AXIS(a) ? v->ph->axes[a].tile : 1;
		DEMAND(v, ins, !tile || layout_size(l, a) == tile, "the layout holds %d positions of axis %d, the tile has %d", layout_size(l, a), a, tile);
	}
	return 0;
}

static int verify_operands(struct verifier *v, const struct ir_ins *ins)
{
	int fixed = ir_op_info[ins->op].nargs;
	DEMAND(v, ins, fixed < 0 || ins->nargs == fixed, "%d operands, expected %d", ins->nargs, fixed);
	for (int i = 0; i < ins->nargs; i++) {
		const struct ir_ins *a = ins->args[i];
		DEMAND(v, ins, a && a->id >= 0 && a->id < v->k->next_id && v->visible[a->id] == a, "operand %d is not defined here", i);
		DEMAND(v, ins, (a->dtype != DT_NONE) != (ins->op == IR_RESULT), "operand %d has no value", i);
		bool part = a->op == IR_REDUCE && a->flags & IR_PART, takes = ins->op == IR_UPDATE && ins->kind == a->kind;
		DEMAND(v, ins, !part || takes || ins->op == IR_LT, "operand %d is of each workgroup", i);
	}
	return 0;
}

static int define(struct verifier *v, const struct ir_ins *ins)
{
	DEMAND(v, ins, ins->id >= 0 && ins->id < v->k->next_id && !v->used[ins->id], "the number is out of range or taken");
	v->used[ins->id] = true;
	v->visible[ins->id] = ins;
	return 0;
}

static int verify_flags(struct verifier *v, const struct ir_ins *ins)
{
	static const uint8_t allowed[IR_NOP + 1] = {
		[IR_CVT] = IR_SATURATE | IR_AGAIN | IR_CUT, [IR_DIV] = IR_NORMAL, [IR_LOAD] = IR_MASKED | IR_STAGED | IR_RELAXED, [IR_STORE] = IR_MASKED, [IR_UPDATE] = IR_MASKED,
		[IR_REDUCE] = IR_MASKED | IR_PRODUCT | IR_ANYORDER | IR_PART | IR_BY_LANE, [IR_DOT] = IR_ACC | IR_ANYORDER | IR_SCALED, [IR_ARGMAX] = IR_MASKED, [IR_SCAN] = IR_MASKED,
	};
	DEMAND(v, ins, !(ins->flags & ~allowed[ins->op]), "flag %#x does not belong to this operation", (unsigned)(ins->flags & ~allowed[ins->op]));
	DEMAND(v, ins, !(ins->flags & IR_AGAIN) || ((ins->args[0]->dtype == DT_BF16 || ins->args[0]->dtype == DT_F16) && ins->dtype == DT_F32 && ins->flags == IR_AGAIN), "again is bf16 or f16 to f32");
	DEMAND(v, ins, ins->op != IR_CVT || !(ins->flags & IR_CUT) || (ins->args[0]->dtype == DT_F32 && ins->dtype == DT_BF16 && ins->flags == IR_CUT), "cut is f32 to bf16");
	return 0;
}

static int verify_ins(struct verifier *v, const struct ir_ins *ins)
{
	DEMAND(v, NULL, ins->op < IR_NOP, "%%%d is no operation", ins->id);
	const char *cls = ir_op_info[ins->op].cls;
	bool valueless = ins->op == IR_STORE || ins->op == IR_UPDATE || ins->op == IR_FOR || ins->op == IR_IF || ins->op == IR_YIELD;
	TRY(verify_operands(v, ins));
	TRY(verify_flags(v, ins));
	DEMAND(v, ins, valueless == (ins->dtype == DT_NONE) && ins->dtype < DT_COUNT && ins->dtype != DT_F64, "%s is no type for it", dtype_info(ins->dtype)->name);
	DEMAND(v, ins, !(ins->axes & ~v->open), "a loop axis outside its for, or no axis of the phase");
	if (strcmp(cls, "LEAF") == 0)
		TRY(verify_leaf(v, ins));
	else if (strcmp(cls, "REG") == 0)
		TRY(verify_region(v, ins));
	else if (strcmp(cls, "MEM") == 0)
		TRY(verify_access(v, ins));
	else if (strcmp(cls, "CVT") == 0)
		TRY(verify_cvt(v, ins));
	else if (ins->op == IR_REDUCE)
		TRY(verify_reduce(v, ins));
	else if (ins->op == IR_DOT)
		TRY(verify_dot(v, ins));
	else if (strcmp(cls, "RED") == 0)
		TRY(verify_positional(v, ins));
	else {
		TRY(verify_elementwise(v, ins));
		TRY(verify_types(v, ins));
	}
	return ins->layout ? verify_layout(v, ins) : 0;
}

static int verify_block(struct verifier *v, const struct ir_block *b, const struct ir_ins *owner)
{
	const struct ir_ins *prev = NULL;
	DEMAND(v, owner, b->owner == owner, "a block has another owner");
	for (int i = 0; i < b->nparams; i++) {
		TRY(define(v, b->params[i]));
		if (b->params[i]->layout)
			TRY(verify_layout(v, b->params[i]));
	}
	for (const struct ir_ins *ins = b->first; ins; prev = ins, ins = ins->next) {
		DEMAND(v, ins, ins->block == b && ins->prev == prev, "the block's list is broken");
		TRY(verify_ins(v, ins));
		TRY(define(v, ins));
	}
	DEMAND(v, owner, b->last == prev && prev && prev->op == IR_YIELD, "a block does not end in yield");
	for (const struct ir_ins *ins = b->first; ins; ins = ins->next)
		v->visible[ins->id] = NULL;
	for (int i = 0; i < b->nparams; i++)
		v->visible[b->params[i]->id] = NULL;
	return 0;
}

static int verify_axis(struct verifier *v, const struct ir_axis *x)
{
	const struct ir_kernel *k = v->k;
	DEMAND(v, NULL, x->name && x->tile >= 0, "axis without a name, or with a negative tile");
	if (x->ragged) {
		DEMAND(v, NULL, !x->cluster, "ragged axis '%s' has a cluster", x->name);
		DEMAND(v, NULL, x->kind == AXIS_GRID && x->ragged_total, "ragged axis '%s' is no grid axis or has no total", x->name);
		DEMAND(v, NULL, x->ragged_tensor >= 0 && x->ragged_tensor < k->nparams && k->params[x->ragged_tensor].is_tensor, "the bounds of axis '%s' are no tensor", x->name);
		const struct ir_param *bounds = &k->params[x->ragged_tensor];
		DEMAND(v, NULL, x->of_list == bounds->list && (bounds->list || bounds->rank == 1) && (bounds->list || bounds->dtype == DT_I32), "the bounds of axis '%s' are no list and no i32 tensor of rank 1", x->name);
		DEMAND(v, NULL, is_axis(v, x->ragged_group) && v->ph->axes[x->ragged_group].kind == AXIS_GRID && !v->ph->axes[x->ragged_group].ragged,
		       "the group of axis '%s' is no grid axis", x->name);
		DEMAND(v, NULL, v->ph->axes[x->ragged_group].tile <= 1, "the group of axis '%s' has a tile of several", x->name);
		const struct hexpr *groups = v->ph->axes[x->ragged_group].extent;
		DEMAND(v, NULL, !bounds->list || (groups && hexpr_equal(groups, bounds->extent[0]) && hexpr_equal(x->ragged_total, bounds->extent[1])),
		       "axis '%s' does not go over the whole list '%s'", x->name, bounds->name);
		return 0;
	}
	DEMAND(v, NULL, !x->cluster || (x->kind == AXIS_GRID && !(x->cluster & (x->cluster - 1)) && x->cluster <= MOST_MEMBERS),
	       "axis '%s' is no grid axis, or its cluster is no power of two up to %d", x->name, MOST_MEMBERS);
	DEMAND(v, NULL, (x->extent != NULL) == (x->kind != AXIS_LOOP), "axis '%s' has no extent, or is a loop with one", x->name);
	return 0;
}

static int verify_list(struct verifier *v, const struct ir_param *p)
{
	DEMAND(v, NULL, !p->list || (p->is_tensor && p->rank == 2 && p->role != IR_TEMP && !p->optional && dtype_info(p->dtype)->bits >= 8),
	       "list '%s' is no plain parameter of rank 2 with elements of whole bytes", p->name);
	return 0;
}

static int verify_phase(struct verifier *v)
{
	DEMAND(v, NULL, v->ph->naxes >= 0 && v->ph->naxes <= LAYOUT_AXES && v->ph->body, "a phase without a body or with too many axes");
	v->open = 0;
	for (int a = 0; a < v->ph->naxes; a++) {
		TRY(verify_axis(v, &v->ph->axes[a]));
		if (v->ph->axes[a].kind != AXIS_LOOP)
			v->open |= IR_AXIS(a);
	}
	return verify_block(v, v->ph->body, NULL);
}

int ir_verify(const struct ir_kernel *k, char *err, size_t errlen)
{
	struct verifier v = {.k = k, .err = err, .errlen = errlen};
	int status = 0;
	v.visible = arena_alloc(&v.scratch, (size_t)(k->next_id + 1) * sizeof *v.visible);
	v.used = arena_alloc(&v.scratch, (size_t)(k->next_id + 1) * sizeof *v.used);
	for (int i = 0; i < k->nparams && !status; i++)
		status = verify_list(&v, &k->params[i]);
	for (int i = 0; i < k->nphases && !status; i++) {
		v.ph = &k->phases[i];
		status = verify_phase(&v);
	}
	arena_free(&v.scratch);
	return status;
}
