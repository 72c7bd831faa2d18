/* elab_expr.c -- expressions: types of operands, literals, quotients of group indices.
 *
 * In: an expression.  Out: a value whose instruction stands in the current block.  Arithmetic is on f32, i32 and i64; narrow
 * types are converted in the text.  A literal takes the type of its partner, and so does an expression of literals. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "elab.h"

static const struct value none;

ir_axes value_axes(const struct elab *E, struct value v) { return v.ins ? (v.ins->axes | v.extra) & E->explicit_axes : 0; }
ir_axes value_axes_of_text(const struct elab *E, struct value v) { return v.ins ? value_axes(E, v) | (v.folded & E->explicit_axes) : 0; }

struct value value_made(struct ir_ins *ins, int n, const struct value *of)
{
	struct value v = {.ins = ins};
	for (int i = 0; i < n; i++) {
		v.extra |= of[i].extra;
		v.folded |= of[i].folded | of[i].ins->axes;
	}
	v.folded &= ~ins->axes;
	return v;
}

/* --- literals: i64 or f32 constants until they meet a type */

static struct value literal_whole(struct elab *E, int64_t v)
{
	return (struct value){.ins = ir_int(&E->b, DT_I64, v), .literal = true, .number = (double)v};
}

static bool literal_to(struct elab *E, struct value *v, enum dtype t, struct diag_span at)
{
	struct ir_ins *c = v->ins;
	bool whole = c->dtype == DT_I64;
	if (dtype_is_float(t) && dtype_info(t)->cls == 'F') {
		v->ins = ir_float(&E->b, t, whole ? v->number : c->num);
	} else if (whole && (t == DT_I32 || t == DT_I64)) {
		if (t == DT_I32 && (c->imm > INT32_MAX || c->imm < INT32_MIN)) {
			ELAB_ERROR(E, E_INT_RANGE, at, (long long)c->imm);
			v->ins = NULL;
			return false;
		}
		v->ins = ir_int(&E->b, t, c->imm);
	} else {
		return false;
	}
	v->literal = false;
	return true;
}

struct value value_fixed(struct elab *E, struct value v, struct diag_span at)
{
	if (v.ins && v.literal)
		literal_to(E, &v, v.ins->dtype == DT_I64 ? DT_I32 : DT_F32, at);
	return v;
}

bool value_as(struct elab *E, struct value *v, enum dtype t, struct diag_span at)
{
	if (!v->ins)
		return false;
	if (v->literal && !literal_to(E, v, t, at))
		return false;
	return v->ins && v->ins->dtype == t;
}

static const char *operand_name(struct value v)
{
	return !v.literal ? elab_type_name(v.ins) : v.ins->dtype == DT_F32 ? "a number with a point" : "a number";
}

/* Brings both to one type; literals stay literals where both are. */
bool value_pair(struct elab *E, struct value *a, struct value *b, struct diag_span at, const char *what)
{
	if (!a->ins || !b->ins)
		return false;
	if (a->literal && b->literal) {
		if (a->ins->dtype == b->ins->dtype)
			return true;
		struct value *whole = a->ins->dtype == DT_I64 ? a : b;
		whole->ins = ir_float(&E->b, DT_F32, whole->number);
		return true;
	}
	struct value was_a = *a, was_b = *b;
	if (a->literal)
		value_as(E, a, b->ins->dtype, at);
	else if (b->literal)
		value_as(E, b, a->ins->dtype, at);
	if (!a->ins || !b->ins)
		return false;
	if (a->ins->dtype == b->ins->dtype && !a->literal && !b->literal)
		return true;
	ELAB_ERROR(E, E_TYPES_DIFFER, at, what, operand_name(was_a), operand_name(was_b));
	return false;
}

/* --- quotients: (128 * group + rest) / 128 is the group where 0 <= rest < 128 */

struct split { struct lin whole, rest; };

static bool splits(struct elab *E, const struct ir_ins *x, int64_t g, struct split *s)
{
	struct lin f = lin_of(x), zero = {0};
	guard_set none_used = {false};
	*s = (struct split){zero, zero};
	if (f.bad || g <= 1)
		return false;
	for (int i = 0; i < f.n; i++) {
		struct lin term = {.n = 1, .t = {{f.t[i].atom, 1}}};
		if (f.t[i].k % g == 0)
			s->whole = lin_add(s->whole, f.t[i].k / g, &term);
		else
			s->rest = lin_add(s->rest, f.t[i].k, &term);
	}
	s->whole.c = f.c / g;
	s->rest.c = f.c % g;
	struct lin below = lin_add(zero, -1, &s->rest);
	below.c += g - 1;
	return s->whole.n && lin_prove(E, &s->rest, none_used) && lin_prove(E, &below, none_used) && lin_prove(E, &s->whole, none_used);
}

static struct ir_ins *build(struct elab *E, const struct lin *f)
{
	struct ir_ins *sum = NULL;
	for (int i = 0; i < f->n; i++) {
		struct ir_ins *term = ir_bin(&E->b, IR_MUL, (struct ir_ins *)f->t[i].atom, ir_int(&E->b, DT_I32, f->t[i].k));
		sum = sum ? ir_bin(&E->b, IR_ADD, sum, term) : term;
	}
	struct ir_ins *c = ir_int(&E->b, DT_I32, f->c);
	return sum ? ir_bin(&E->b, IR_ADD, sum, c) : c;
}

static struct ir_ins *quotient(struct elab *E, enum ir_op op, struct ir_ins *x, struct ir_ins *y)
{
	struct split s;
	if (x->dtype == DT_I32 && y->op == IR_CONST && splits(E, x, y->imm, &s))
		return build(E, op == IR_DIV ? &s.whole : &s.rest);
	return ir_bin(&E->b, op, x, y);
}

/* --- operators */

static bool computes(enum dtype t) { return t == DT_F32 || t == DT_I32 || t == DT_I64; }

/* a op b of two i64 literals as numbers; false where their integer has no 64 bits. */
static bool literal_number(enum ir_op op, const struct value *a, const struct value *b, double *number)
{
	int64_t x = a->ins->imm, y = b->ins->imm, whole;
	switch (op) {
	case IR_ADD: *number = a->number + b->number; return !__builtin_add_overflow(x, y, &whole);
	case IR_SUB: *number = a->number - b->number; return !__builtin_sub_overflow(x, y, &whole);
	case IR_MUL: *number = a->number * b->number; return !__builtin_mul_overflow(x, y, &whole);
	case IR_DIV: *number = a->number / b->number; return true;
	case IR_REM: *number = fmod(a->number, b->number); return true;
	case IR_MIN: *number = fmin(a->number, b->number); return true;
	case IR_MAX: *number = fmax(a->number, b->number); return true;
	default: return true;
	}
}

struct value value_binary(struct elab *E, enum ir_op op, struct value a, struct value b, struct diag_span at, const char *what)
{
	if (!value_pair(E, &a, &b, at, what))
		return none;
	enum dtype t = (enum dtype)a.ins->dtype;
	bool equality = (op == IR_EQ || op == IR_NE) && t == DT_I1;
	if (!computes(t) && !equality) {
		ELAB_ERROR(E, E_NARROW, at, what, dtype_info(t)->name);
		return none;
	}
	double number = 0;
	if (a.literal && b.literal && t == DT_I64 && !literal_number(op, &a, &b, &number)) {
		ELAB_ERROR(E, E_INTEGER, at, "this number");
		return none;
	}
	bool whole = t == DT_I32 && (op == IR_DIV || op == IR_REM);
	struct value v = value_made(whole ? quotient(E, op, a.ins, b.ins) : ir_bin(&E->b, op, a.ins, b.ins), 2, (struct value[]){a, b});
	v.number = number;
	v.literal = a.literal && b.literal && v.ins->op == IR_CONST && v.ins->dtype != DT_I1;
	return v;
}

static struct value logic(struct elab *E, const struct ast_expr *e, struct value a, struct value b)
{
	if (!a.ins || !b.ins)
		return none;
	if (a.ins->dtype != DT_I1 || b.ins->dtype != DT_I1) {
		bool left = a.ins->dtype != DT_I1;
		ELAB_ERROR(E, E_NOT_CONDITION, left ? e->a->at : e->b->at, elab_type_name(left ? a.ins : b.ins));
		return none;
	}
	return value_made(ir_bin(&E->b, e->op == AST_AND ? IR_AND : IR_OR, a.ins, b.ins), 2, (struct value[]){a, b});
}

/* One operator of a chain. */
static struct value joined(struct elab *E, const struct ast_expr *e, struct value a, struct value b)
{
	static const struct { enum ir_op op; bool swapped; const char *text; } table[] = {
		[AST_LT] = {IR_LT, false, "<"}, [AST_LE] = {IR_LE, false, "<="}, [AST_GT] = {IR_LT, true, ">"}, [AST_GE] = {IR_LE, true, ">="},
		[AST_EQ] = {IR_EQ, false, "=="}, [AST_NE] = {IR_NE, false, "!="}, [AST_ADD] = {IR_ADD, false, "+"}, [AST_SUB] = {IR_SUB, false, "-"},
		[AST_MUL] = {IR_MUL, false, "*"}, [AST_DIV] = {IR_DIV, false, "/"}, [AST_REM] = {IR_REM, false, "%"}};
	elab_at(E, e->at);
	if (e->op == AST_AND || e->op == AST_OR)
		return logic(E, e, a, b);
	if (table[e->op].swapped)
		return value_binary(E, table[e->op].op, b, a, e->at, table[e->op].text);
	return value_binary(E, table[e->op].op, a, b, e->at, table[e->op].text);
}

/* From the first operand of a chain to the last: it may be longer than the stack is deep. */
static struct value binary(struct elab *E, const struct ast_expr *e)
{
	struct { const struct ast_expr **items; int n, cap; } chain = {0};
	for (; e->kind == AST_BINARY; e = e->a)
		ARENA_PUSH(E->ar, &chain, e);
	struct value v = elab_expr(E, e);
	while (chain.n--)
		v = joined(E, chain.items[chain.n], v, elab_expr(E, chain.items[chain.n]->b));
	return v;
}

static struct value unary(struct elab *E, const struct ast_expr *e)
{
	struct value a = elab_expr(E, e->a);
	elab_at(E, e->at);
	if (!a.ins)
		return none;
	if (e->kind == AST_NOT && a.ins->dtype != DT_I1) {
		ELAB_ERROR(E, E_NOT_CONDITION, e->a->at, elab_type_name(a.ins));
		return none;
	}
	if (e->kind == AST_NEG && !computes((enum dtype)a.ins->dtype)) {
		ELAB_ERROR(E, E_NARROW, e->at, "-", elab_type_name(a.ins));
		return none;
	}
	if (e->kind == AST_NEG && a.literal && a.ins->dtype == DT_I64 && a.ins->imm == INT64_MIN) {
		ELAB_ERROR(E, E_INTEGER, e->at, "this number");
		return none;
	}
	a.ins = ir_un(&E->b, e->kind == AST_NOT ? IR_NOT : IR_NEG, a.ins);
	a.number = -a.number;
	return a;
}

/* --- names */

static struct value name(struct elab *E, const struct ast_expr *e)
{
	struct entry *n = scope_find(E, e->name);
	if (!n) {
		if (type_named(e->name).dtype != DT_NONE)
			ELAB_ERROR(E, E_TYPE_AS_VALUE, e->at, e->name);
		else
			ELAB_ERROR(E, E_UNKNOWN_NAME, e->at, e->name, scope_hint(E, e->name));
		return none;
	}
	switch (n->kind) {
	case ENTRY_SYMBOL: return (struct value){.ins = elab_leaf(E, IR_SYM, DT_I32, n->number)};
	case ENTRY_SCALAR: return (struct value){.ins = elab_leaf(E, IR_PARAM, E->k->params[n->number].dtype, n->number)};
	case ENTRY_INDEX: return (struct value){.ins = n->index->position};
	case ENTRY_VALUE: case ENTRY_STATE: return n->value;
	case ENTRY_TENSOR: ELAB_ERROR(E, E_TENSOR_BARE, e->at, e->name, E->k->params[n->number].rank); return none;
	case ENTRY_TYPE: ELAB_ERROR(E, E_TYPE_AS_VALUE, e->at, e->name); return none;
	case ENTRY_AXES:
		if (!n->index)
			ELAB_ERROR(E, E_AXES_AS_VALUE, e->at, e->name);
		return n->index ? (struct value){.ins = n->index->position} : none;
	}
	return none;
}

/* f32.lowest, Q.max: numbers that take the type of their partner. */
static struct value member(struct elab *E, const struct ast_expr *e)
{
	struct type t = elab_type(E, e->name, e->name_at);
	if (t.dtype == DT_NONE)
		return none;
	bool is_float = dtype_is_float(t.dtype), max = strcmp(e->attribute, "max") == 0;
	if ((!max && strcmp(e->attribute, "lowest") != 0) || t.dtype == DT_F64) {
		ELAB_ERROR(E, E_ATTRIBUTE, e->at, e->name, e->attribute);
		return none;
	}
	if (t.dtype == DT_I64)
		return literal_whole(E, max ? INT64_MAX : INT64_MIN);
	double v = t.dtype == DT_I1 ? 1 : num_max(t.dtype);
	if (!max)
		v = t.dtype == DT_E8M0 ? num_to_f32(0, t.dtype) : is_float ? -v : t.dtype == DT_U8 || t.dtype == DT_I1 ? 0 : -v - 1;
	return is_float ? (struct value){.ins = ir_float(&E->b, DT_F32, v), .literal = true} : literal_whole(E, (int64_t)v);
}

/* A number with a point or an exponent. */
static struct value real(struct elab *E, const struct ast_expr *e)
{
	if (e->number > FLT_MAX) {
		ELAB_ERROR(E, E_NUMBER_RANGE, e->at, e->name);
		return none;
	}
	return (struct value){.ins = ir_float(&E->b, DT_F32, e->number), .literal = true};
}

static struct value expr(struct elab *E, const struct ast_expr *e)
{
	switch (e->kind) {
	case AST_BAD: return none;
	case AST_NAME: return name(E, e);
	case AST_INT: return literal_whole(E, e->integer);
	case AST_FLOAT: return real(E, e);
	case AST_NEG: case AST_NOT: return unary(E, e);
	case AST_BINARY: return binary(E, e);
	case AST_INDEX: return elab_load(E, e);
	case AST_CALL: return elab_call(E, e);
	case AST_MEMBER: return member(E, e);
	case AST_BY: ELAB_ERROR(E, E_SPLIT, e->at); return none;
	}
	return none;
}

struct value elab_expr(struct elab *E, const struct ast_expr *e)
{
	struct value v = none;
	if (E->too_large)
		return none;
	if (E->k->next_id > MAX_INS) {
		ELAB_ERROR(E, E_TOO_LARGE, E->kernel->name.at, E->kernel->name.text);
		E->too_large = true;
		return none;
	}
	if (++E->nesting > MAX_NESTING)
		ELAB_ERROR(E, E_DEEP, e->at, AST_DEPTH, AST_HEIGHT);
	else {
		elab_at(E, e->at);
		v = expr(E, e);
	}
	E->nesting--;
	return v;
}
