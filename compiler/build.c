/* build.c -- making and editing tile IR.
 *
 * In: a builder that stands at the end of a block or before an instruction.  Out: instructions whose dtype and axes follow
 * op.def from their operands, so that callers state only what cannot be derived.  Constants fold here and not in a pass: then
 * no pass needs to clean up after itself.  What folds is small and exact; a float is never folded where that could change a
 * NaN or the sign of a zero (x*1 and x/1 fold, x+0 does not).
 *
 * A store's and an update's axes are the union of its operands': the elements that it visits.  The ARGs of a for body stand
 * in the block's params, not in its list.  Names, host expressions and layouts are immutable and shared between clones, so
 * an original's arena must outlive its clones. */
#include "ir.h"

#include <string.h>

#include "eval_op.h"

const struct ir_op_info ir_op_info[] = {
#define OP(id, text, cls, nargs, meaning) [IR_##id] = {text, #cls, nargs, meaning},
#include "op.def"
#undef OP
	[IR_NOP] = {"nop", "LEAF", 0, ""},
};

/* --- instructions */

/* Puts an instruction that stands nowhere in front of `before`, NULL = at the block's end. */
static void insert(struct ir_block *block, struct ir_ins *ins, struct ir_ins *before)
{
	ins->block = block;
	ins->next = before;
	ins->prev = before ? before->prev : block->last;
	if (ins->prev)
		ins->prev->next = ins;
	else
		block->first = ins;
	if (ins->next)
		ins->next->prev = ins;
	else
		block->last = ins;
}

void ir_append(struct ir_block *block, struct ir_ins *ins)
{
	insert(block, ins, NULL);
}

static struct ir_ins *detached(struct ir_builder *b, enum ir_op op, enum dtype dtype, ir_axes axes, int nargs)
{
	struct ir_ins *ins = arena_alloc(b->k->arena, sizeof *ins);
	ins->op = (uint8_t)op;
	ins->dtype = (uint8_t)dtype;
	ins->axes = axes;
	ins->id = b->k->next_id++;
	ins->nargs = nargs;
	ins->args = nargs ? arena_alloc(b->k->arena, (size_t)nargs * sizeof *ins->args) : NULL;
	ins->line = b->line;
	ins->col = b->col;
	return ins;
}

struct ir_ins *ir_new(struct ir_builder *b, enum ir_op op, enum dtype dtype, ir_axes axes, int nargs)
{
	struct ir_ins *ins = detached(b, op, dtype, axes, nargs);
	insert(b->before ? b->before->block : b->block, ins, b->before);
	return ins;
}

static struct ir_ins *new_with(struct ir_builder *b, enum ir_op op, enum dtype dtype, int nargs, struct ir_ins *x, struct ir_ins *y, struct ir_ins *z)
{
	struct ir_ins *all[3] = {x, y, z};
	struct ir_ins *ins = ir_new(b, op, dtype, 0, nargs);
	for (int i = 0; i < nargs; i++) {
		ins->args[i] = all[i];
		ins->axes |= all[i]->axes;
	}
	return ins;
}

/* --- constants */

struct ir_ins *ir_int(struct ir_builder *b, enum dtype t, int64_t v)
{
	struct ir_ins *ins = ir_new(b, IR_CONST, t, 0, 0);
	ins->imm = op_int_wrap(t, v);
	return ins;
}

struct ir_ins *ir_float(struct ir_builder *b, enum dtype t, double v)
{
	struct ir_ins *ins = ir_new(b, IR_CONST, t, 0, 0);
	ins->num = t == DT_F32 ? (float)v : num_to_f32(num_from_f32((float)v, t, false), t);
	return ins;
}

uint64_t ir_optional(const struct ir_kernel *k)
{
	uint64_t optional = 0;
	for (int i = 0; i < k->nparams && i < 64; i++)
		optional |= (uint64_t)k->params[i].optional << i;
	return optional;
}

bool ir_is_const(const struct ir_ins *ins, double *value)
{
	if (ins->op != IR_CONST)
		return false;
	*value = dtype_is_float(ins->dtype) ? ins->num : (double)ins->imm;
	return true;
}

static bool is_int_const(const struct ir_ins *a) { return a->op == IR_CONST && op_type_is_int(a->dtype); }
static bool is_int(const struct ir_ins *a, int64_t v) { return is_int_const(a) && a->imm == v; }
static bool is_f32_const(const struct ir_ins *a) { return a->op == IR_CONST && a->dtype == DT_F32; }
static bool is_one(const struct ir_ins *a) { return is_int(a, 1) || (a->op == IR_CONST && op_type_is_float(a->dtype) && a->num == 1); }

/* The constant x, or NULL for a NaN, which is left to be computed. */
static struct ir_ins *folded_float(struct ir_builder *b, float x) { return x == x ? ir_float(b, DT_F32, x) : NULL; }

static bool op_is_compare(enum ir_op op) { return op >= IR_LT && op <= IR_NE; }

static struct ir_ins *fold_constants(struct ir_builder *b, enum ir_op op, struct ir_ins *x, struct ir_ins *y)
{
	if (is_int_const(x) && is_int_const(y)) {
		if (op_is_compare(op))
			return ir_int(b, DT_I1, op_int_compare(op, x->imm, y->imm));
		return ir_int(b, op == IR_PHILOX ? DT_I32 : x->dtype, op_int_binary(op, x->dtype, x->imm, y->imm));
	}
	if (!is_f32_const(x) || !is_f32_const(y))
		return NULL;
	if (op_is_compare(op))
		return ir_int(b, DT_I1, op_float_compare(op, (float)x->num, (float)y->num));
	return folded_float(b, op_float_binary(op, (float)x->num, (float)y->num));
}

/* The operand that op(x, y) equals because the other one is a unit or absorbs. */
static struct ir_ins *fold_unit(enum ir_op op, struct ir_ins *x, struct ir_ins *y)
{
	bool logic = x->dtype == DT_I1;
	switch (op) {
	case IR_ADD: return is_int(y, 0) ? x : is_int(x, 0) ? y : NULL;
	case IR_MUL:
		if (is_one(y) || is_int(x, 0))
			return x;
		return is_one(x) || is_int(y, 0) ? y : NULL;
	case IR_SUB: case IR_SHL: case IR_SHR: return is_int(y, 0) ? x : NULL;
	case IR_XOR: return is_int(y, 0) ? x : is_int(x, 0) ? y : NULL;
	case IR_DIV: return is_one(y) ? x : NULL;
	case IR_AND:
		if (x == y || is_int(x, 0) || (logic && is_int(y, 1)))
			return x;
		return is_int(y, 0) || (logic && is_int(x, 1)) ? y : NULL;
	case IR_OR:
		if (x == y || is_int(y, 0) || (logic && is_int(x, 1)))
			return x;
		return is_int(x, 0) || (logic && is_int(y, 1)) ? y : NULL;
	default: return NULL;
	}
}

/* --- elementwise operations */

struct ir_ins *ir_leaf(struct ir_builder *b, enum ir_op op, enum dtype t, int64_t imm)
{
	struct ir_ins *ins = ir_new(b, op, t, op == IR_IOTA ? IR_AXIS(imm) : 0, 0);
	ins->imm = imm;
	return ins;
}

static struct ir_ins *fold_unary(struct ir_builder *b, enum ir_op op, struct ir_ins *a)
{
	bool simple = op == IR_NEG || op == IR_ABS || op == IR_FLOOR || op == IR_CEIL || op == IR_ROUND || op == IR_SQRT;
	if (is_int_const(a) && (op == IR_NEG || op == IR_ABS || op == IR_NOT))
		return ir_int(b, a->dtype, op_int_unary(op, a->dtype, a->imm));
	if (is_f32_const(a) && simple)
		return folded_float(b, op_float_unary(op, (float)a->num));
	if (op == IR_NOT && a->op == IR_NOT)
		return a->args[0];
	return NULL;
}

struct ir_ins *ir_un(struct ir_builder *b, enum ir_op op, struct ir_ins *a)
{
	struct ir_ins *folded = fold_unary(b, op, a);
	return folded ? folded : new_with(b, op, a->dtype, 1, a, NULL, NULL);
}

struct ir_ins *ir_bin(struct ir_builder *b, enum ir_op op, struct ir_ins *x, struct ir_ins *y)
{
	struct ir_ins *folded = fold_constants(b, op, x, y);
	if (!folded)
		folded = fold_unit(op, x, y);
	enum dtype t = op_is_compare(op) ? DT_I1 : op == IR_PHILOX ? DT_I32 : x->dtype;
	return folded ? folded : new_with(b, op, t, 2, x, y, NULL);
}

struct ir_ins *ir_fma(struct ir_builder *b, struct ir_ins *x, struct ir_ins *y, struct ir_ins *z)
{
	if (is_f32_const(x) && is_f32_const(y) && is_f32_const(z)) {
		struct ir_ins *folded = folded_float(b, fmaf((float)x->num, (float)y->num, (float)z->num));
		if (folded)
			return folded;
	}
	return new_with(b, IR_FMA, x->dtype, 3, x, y, z);
}

struct ir_ins *ir_select(struct ir_builder *b, struct ir_ins *c, struct ir_ins *x, struct ir_ins *y)
{
	if (x == y)
		return x;
	if (is_int_const(c))
		return c->imm ? x : y;
	return new_with(b, IR_SELECT, x->dtype, 3, c, x, y);
}

static struct ir_ins *fold_cvt(struct ir_builder *b, struct ir_ins *a, enum dtype t, bool saturate)
{
	bool to_int = op_type_is_int(t);
	if (is_int_const(a) && to_int)
		return ir_int(b, t, op_int_to_int(a->imm, t, saturate));
	if (is_int_const(a) && op_type_is_float(t) && !saturate)
		return ir_float(b, t, (float)a->imm);
	if (a->op != IR_CONST || !op_type_is_float(a->dtype) || a->num != a->num)
		return NULL;
	if (to_int)
		return ir_int(b, t, op_float_to_int((float)a->num, t, saturate));
	return ir_float(b, t, num_to_f32(num_from_f32((float)a->num, t, saturate), t));
}

struct ir_ins *ir_cvt(struct ir_builder *b, struct ir_ins *a, enum dtype t, bool saturate)
{
	if (a->dtype == t)
		return a;
	struct ir_ins *ins = fold_cvt(b, a, t, saturate);
	if (!ins) {
		ins = new_with(b, IR_CVT, t, 1, a, NULL, NULL);
		ins->flags = saturate ? IR_SATURATE : 0;
	}
	return ins;
}

struct ir_ins *ir_bitcast(struct ir_builder *b, struct ir_ins *a, enum dtype t)
{
	return a->dtype == t ? a : new_with(b, IR_BITCAST, t, 1, a, NULL, NULL);
}

/* --- memory, reductions */

static struct ir_ins *access(struct ir_builder *b, enum ir_op op, enum dtype t, int tensor, struct ir_ins **subs, struct ir_ins *value, struct ir_ins *mask)
{
	int rank = b->k->params[tensor].rank, n = rank;
	if (mask && is_int(mask, 1))
		mask = NULL;
	struct ir_ins *ins = ir_new(b, op, t, 0, rank + !!value + !!mask);
	for (int i = 0; i < rank; i++)
		ins->args[i] = subs[i];
	if (value)
		ins->args[n++] = value;
	if (mask)
		ins->args[n++] = mask;
	for (int i = 0; i < n; i++)
		ins->axes |= ins->args[i]->axes;
	ins->imm = tensor;
	ins->flags = mask ? IR_MASKED : 0;
	return ins;
}

struct ir_ins *ir_load(struct ir_builder *b, int tensor, struct ir_ins **subs, struct ir_ins *mask)
{
	return access(b, IR_LOAD, b->k->params[tensor].dtype, tensor, subs, NULL, mask);
}

struct ir_ins *ir_store(struct ir_builder *b, int tensor, struct ir_ins **subs, struct ir_ins *value, struct ir_ins *mask)
{
	return access(b, IR_STORE, DT_NONE, tensor, subs, value, mask);
}

struct ir_ins *ir_update(struct ir_builder *b, enum ir_reduce kind, int tensor, struct ir_ins **subs, struct ir_ins *value, struct ir_ins *mask)
{
	struct ir_ins *ins = access(b, IR_UPDATE, DT_NONE, tensor, subs, value, mask);
	ins->kind = (uint8_t)kind;
	return ins;
}

bool ir_begins_beyond(const struct ir_ins *i)
{
	return dtype_is_float((enum dtype)i->dtype) && ((i->kind == RED_MAX && i->args[0]->op != IR_ABS) || i->kind == RED_MIN);
}

int64_t ir_int_identity(enum ir_reduce kind, enum dtype t)
{
	int bits = dtype_info(t)->bits;
	bool sign = t != DT_U8 && t != DT_I1;
	int64_t most = (int64_t)(UINT64_MAX >> (64 - bits + sign));
	switch (kind) {
	case RED_MAX: return sign ? -most - 1 : 0;
	case RED_MIN: return most;
	case RED_PROD: case RED_ALL: return 1;
	default: return 0;
	}
}

struct ir_ins *ir_reduce(struct ir_builder *b, enum ir_reduce kind, struct ir_ins *a, ir_axes over, struct ir_ins *mask)
{
	if (mask && is_int(mask, 1))
		mask = NULL;
	struct ir_ins *ins = new_with(b, IR_REDUCE, a->dtype, mask ? 2 : 1, a, mask, NULL);
	ins->kind = (uint8_t)kind;
	ins->over = over;
	ins->axes &= ~over;
	ins->flags = (uint8_t)(IR_ANYORDER | (mask ? IR_MASKED : 0));
	return ins;
}

struct ir_ins *ir_dot(struct ir_builder *b, struct ir_ins *x, struct ir_ins *y, ir_axes over, struct ir_ins *acc)
{
	struct ir_ins *ins = new_with(b, IR_DOT, op_type_is_int(x->dtype) ? DT_I32 : DT_F32, acc ? 3 : 2, x, y, acc);
	ins->over = over;
	ins->axes &= ~over;
	ins->flags = (uint8_t)(IR_ANYORDER | (acc ? IR_ACC : 0));
	return ins;
}

/* --- regions */

static struct ir_block *new_block(struct ir_builder *b, struct ir_ins *owner)
{
	struct ir_block *block = arena_alloc(b->k->arena, sizeof *block);
	block->owner = owner;
	return block;
}

struct ir_ins *ir_for(struct ir_builder *b, int axis, struct ir_ins *start, struct ir_ins *end, struct ir_ins **init, int ninit)
{
	struct ir_ins *loop = ir_new(b, IR_FOR, DT_NONE, 0, 2 + ninit);
	loop->imm = axis;
	loop->args[0] = start;
	loop->args[1] = end;
	loop->body = new_block(b, loop);
	loop->body->nparams = ninit;
	loop->body->params = ninit ? arena_alloc(b->k->arena, (size_t)ninit * sizeof *loop->body->params) : NULL;
	for (int i = 0; i < ninit; i++) {
		struct ir_ins *arg = detached(b, IR_ARG, init[i]->dtype, init[i]->axes, 0);
		arg->imm = i;
		arg->block = loop->body;
		loop->args[2 + i] = init[i];
		loop->body->params[i] = arg;
	}
	return loop;
}

struct ir_ins *ir_if(struct ir_builder *b, struct ir_ins *cond)
{
	struct ir_ins *ins = new_with(b, IR_IF, DT_NONE, 1, cond, NULL, NULL);
	ins->body = new_block(b, ins);
	ins->other = new_block(b, ins);
	return ins;
}

struct ir_ins *ir_yield(struct ir_builder *b, struct ir_ins **values, int n)
{
	struct ir_ins *ins = ir_new(b, IR_YIELD, DT_NONE, 0, n);
	for (int i = 0; i < n; i++)
		ins->args[i] = values[i];
	return ins;
}

/* A for's result has its ARG's axes, an if's the union of what its two blocks yield. */
struct ir_ins *ir_result(struct ir_builder *b, struct ir_ins *of, int i)
{
	struct ir_ins *ins = ir_new(b, IR_RESULT, DT_NONE, 0, 1);
	ins->args[0] = of;
	ins->imm = i;
	if (of->op == IR_FOR) {
		ins->dtype = of->body->params[i]->dtype;
		ins->axes = of->body->params[i]->axes;
	} else {
		struct ir_ins *x = of->body->last->args[i], *y = of->other->last->args[i];
		ins->dtype = x->dtype;
		ins->axes = x->axes | y->axes;
	}
	return ins;
}

/* --- host expressions */

static struct ir_ins *as_i1(struct ir_builder *b, struct ir_ins *a)
{
	return a->dtype == DT_I1 ? a : ir_bin(b, IR_NE, a, ir_int(b, a->dtype, 0));
}

struct ir_ins *ir_cdiv(struct ir_builder *b, struct ir_ins *x, struct ir_ins *y, bool nonnegative)
{
	struct ir_ins *one = ir_int(b, y->dtype, 1);
	if (nonnegative)
		return ir_bin(b, IR_DIV, ir_bin(b, IR_ADD, x, ir_bin(b, IR_SUB, y, one)), y);
	/* The quotient is rounded toward zero: one more where there is a rest and it has the divisor's sign. */
	struct ir_ins *zero = ir_int(b, y->dtype, 0), *quotient = ir_bin(b, IR_DIV, x, y), *rest = ir_bin(b, IR_REM, x, y), *up;
	if (y->op == IR_CONST && y->imm > 0)
		up = ir_bin(b, IR_LT, zero, rest);
	else
		up = ir_bin(b, IR_AND, ir_bin(b, IR_NE, rest, zero), ir_bin(b, IR_EQ, ir_bin(b, IR_LT, rest, zero), ir_bin(b, IR_LT, y, zero)));
	return ir_bin(b, IR_ADD, quotient, ir_select(b, up, one, zero));
}

/* An i32 or, for comparisons and logic, an i1; NULL for facts about tensors, which kernels do not know. */
static struct ir_ins *hexpr_value(struct ir_builder *b, const struct hexpr *e)
{
	static const uint8_t plain[HX_COUNT] = {
		[HX_ADD] = IR_ADD, [HX_SUB] = IR_SUB, [HX_MUL] = IR_MUL, [HX_DIV] = IR_DIV, [HX_REM] = IR_REM, [HX_EXACT] = IR_DIV,
		[HX_MIN] = IR_MIN, [HX_MAX] = IR_MAX, [HX_LT] = IR_LT, [HX_LE] = IR_LE, [HX_EQ] = IR_EQ, [HX_NE] = IR_NE,
	};
	if (e->op == HX_CONST)
		return ir_int(b, DT_I32, e->imm);
	if (e->op == HX_SYM)
		return ir_leaf(b, IR_SYM, DT_I32, e->imm);
	if (e->op < HX_ADD)
		return NULL;
	struct ir_ins *x = hexpr_value(b, e->a), *y = e->b ? hexpr_value(b, e->b) : NULL;
	if (!x || (e->b && !y))
		return NULL;
	if (e->op == HX_NOT)
		return ir_un(b, IR_NOT, as_i1(b, x));
	if (e->op == HX_AND || e->op == HX_OR)
		return ir_bin(b, e->op == HX_AND ? IR_AND : IR_OR, as_i1(b, x), as_i1(b, y));
	x = ir_cvt(b, x, DT_I32, false);
	if (e->op == HX_NEG)
		return ir_un(b, IR_NEG, x);
	y = ir_cvt(b, y, DT_I32, false);
	if (e->op == HX_CDIV)
		return ir_cdiv(b, x, y, hexpr_nonnegative(e->a) && hexpr_nonnegative(e->b));
	return ir_bin(b, plain[e->op], x, y);
}

struct ir_ins *ir_hexpr(struct ir_builder *b, const struct hexpr *e)
{
	struct ir_ins *v = hexpr_value(b, e);
	return v ? ir_cvt(b, v, DT_I32, false) : NULL;
}

struct ir_ins *ir_copy(struct ir_builder *b, const struct ir_ins *i, struct ir_ins **args)
{
	struct ir_ins *c = ir_new(b, i->op, i->dtype, i->axes, i->nargs), put = *c;
	*c = *i;
	c->id = put.id;
	c->prev = put.prev;
	c->next = put.next;
	c->block = put.block;
	c->args = args;
	return c;
}

/* --- editing */

void ir_remove(struct ir_ins *ins)
{
	struct ir_block *block = ins->block;
	if (ins->prev)
		ins->prev->next = ins->next;
	else
		block->first = ins->next;
	if (ins->next)
		ins->next->prev = ins->prev;
	else
		block->last = ins->prev;
	ins->prev = ins->next = NULL;
	ins->block = NULL;
}

void ir_move(struct ir_ins *ins, struct ir_ins *before)
{
	ir_remove(ins);
	insert(before->block, ins, before);
}

void ir_walk(struct ir_block *block, void (*fn)(struct ir_ins *, void *), void *ctx)
{
	for (struct ir_ins *ins = block->first, *next; ins; ins = next) {
		next = ins->next;
		fn(ins, ctx);
		if (!ins->block)
			continue;
		if (ins->body)
			ir_walk(ins->body, fn, ctx);
		if (ins->other)
			ir_walk(ins->other, fn, ctx);
	}
}

struct exchange { struct ir_ins *old, *by; };

static void replace_operands(struct ir_ins *ins, void *ctx)
{
	struct exchange *x = ctx;
	for (int i = 0; i < ins->nargs; i++)
		if (ins->args[i] == x->old)
			ins->args[i] = x->by;
}

void ir_replace(struct ir_kernel *k, struct ir_ins *old, struct ir_ins *by)
{
	struct exchange x = {old, by};
	for (int i = 0; i < k->nphases; i++)
		ir_walk(k->phases[i].body, replace_operands, &x);
}

bool ir_list_subscripts(const struct ir_kernel *k, const struct ir_phase *ph, int tensor, struct ir_ins *const *subs)
{
	const struct ir_ins *of = subs[0], *at = subs[1];
	const struct ir_axis *x = at->op == IR_IOTA ? &ph->axes[at->imm] : NULL;
	if (!x || of->op != IR_IOTA || x->ragged_group != of->imm)
		return false;
	const struct ir_param *p = &k->params[tensor], *ranges = &k->params[x->ragged_tensor];
	return x->of_list && hexpr_equal(p->extent[0], ranges->extent[0]) && hexpr_equal(p->extent[1], ranges->extent[1]);
}

/* --- cloning.  Definitions come before uses, so one pass with a table from ids to copies is enough. */

struct cloner { struct arena *ar; struct ir_ins **copies; int *next_id; };     /* next_id: of copies beside what they are copies of; or NULL */

static struct ir_block *clone_block(struct cloner *c, const struct ir_block *block, struct ir_ins *owner);

static struct ir_ins *clone_ins(struct cloner *c, const struct ir_ins *ins, struct ir_block *block)
{
	struct ir_ins *copy = arena_copy(c->ar, ins, sizeof *ins);
	c->copies[ins->id] = copy;
	copy->id = c->next_id ? (*c->next_id)++ : ins->id;
	copy->block = block;
	copy->prev = copy->next = NULL;
	copy->note = NULL;
	copy->args = ins->nargs ? arena_alloc(c->ar, (size_t)ins->nargs * sizeof *ins->args) : NULL;
	for (int i = 0; i < ins->nargs; i++)
		copy->args[i] = c->copies[ins->args[i]->id] ? c->copies[ins->args[i]->id] : ins->args[i];
	copy->body = ins->body ? clone_block(c, ins->body, copy) : NULL;
	copy->other = ins->other ? clone_block(c, ins->other, copy) : NULL;
	return copy;
}

static struct ir_block *clone_block(struct cloner *c, const struct ir_block *block, struct ir_ins *owner)
{
	struct ir_block *copy = arena_copy(c->ar, block, sizeof *block);
	copy->owner = owner;
	copy->first = copy->last = NULL;
	copy->params = block->nparams ? arena_alloc(c->ar, (size_t)block->nparams * sizeof *block->params) : NULL;
	for (int i = 0; i < block->nparams; i++)
		copy->params[i] = clone_ins(c, block->params[i], copy);
	for (const struct ir_ins *ins = block->first; ins; ins = ins->next)
		ir_append(copy, clone_ins(c, ins, copy));
	return copy;
}

struct ir_kernel *ir_clone(struct arena *ar, const struct ir_kernel *k)
{
	struct ir_kernel *copy = arena_copy(ar, k, sizeof *k);
	struct cloner c = {ar, arena_alloc(ar, (size_t)k->next_id * sizeof(struct ir_ins *) + 1), NULL};
	copy->arena = ar;
	copy->params = arena_copy(ar, k->params, (size_t)k->nparams * sizeof *k->params);
	copy->symbols = arena_copy(ar, k->symbols, (size_t)k->nsymbols * sizeof *k->symbols);
	copy->phases = arena_copy(ar, k->phases, (size_t)k->nphases * sizeof *k->phases);
	for (int i = 0; i < k->nphases; i++)
		copy->phases[i].body = clone_block(&c, k->phases[i].body, NULL);
	return copy;
}

struct ir_block *ir_clone_block(struct ir_kernel *k, const struct ir_block *block, struct ir_ins *owner)
{
	struct cloner c = {k->arena, arena_alloc(k->arena, (size_t)k->next_id * sizeof(struct ir_ins *) + 1), &k->next_id};
	return clone_block(&c, block, owner);
}

bool ir_is_tile_bound(const struct ir_ins *i)
{
	return i->op == IR_REDUCE && (i->kind == RED_MAX || i->kind == RED_MIN) && !(i->flags & IR_MASKED) && i->args[0]->op == IR_IOTA &&
	       i->over == IR_AXIS(i->args[0]->imm);
}
