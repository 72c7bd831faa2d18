/* hexpr.c -- host expressions: construction with folding, evaluation, text both ways, postfix bytes both ways.
 *
 * In: trees made by the constructors, texts, or bytes of a pack.  Out: trees in the caller's arena, or a value.
 * One function, apply(), holds the arithmetic; folding, tree evaluation and byte evaluation all call it, so they cannot
 * disagree.  Both operands of and/or are always evaluated: postfix bytes have no jumps, and the tree follows them. */
#include "hexpr.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { STACK_DEPTH = 32, CODE_SIZE = 4096, PARSE_DEPTH = 64, PARSE_NODES = 1000 };

bool hexpr_op_is_leaf(enum hexpr_op op) { return op <= HX_STRIDE || op == HX_DEVICE; }
static bool op_is_unary(enum hexpr_op op) { return op == HX_NOT || op == HX_NEG; }

/* --- arithmetic */

static int64_t exact_quotient(int64_t a, int64_t b, const char **why)
{
	if (a % b)
		*why = "a division that must be exact leaves a remainder";
	return a / b;
}

/* Value of a op b (b is ignored by unary ops); sets *why and returns 0 where there is none. */
static int64_t apply(enum hexpr_op op, int64_t a, int64_t b, const char **why)
{
	int64_t v = 0;
	bool over = false;
	if (op >= HX_DIV && op <= HX_EXACT) {
		if (b == 0 || (op == HX_CDIV && b < 0)) {
			*why = b == 0 ? "division by zero" : "division by a negative number";
			return 0;
		}
		if (b == -1) {        /* INT64_MIN / -1 traps */
			if (op != HX_REM && __builtin_sub_overflow((int64_t)0, a, &v))
				*why = "overflow";
			return v;
		}
	}
	switch (op) {
	case HX_ADD: over = __builtin_add_overflow(a, b, &v); break;
	case HX_SUB: over = __builtin_sub_overflow(a, b, &v); break;
	case HX_MUL: over = __builtin_mul_overflow(a, b, &v); break;
	case HX_DIV: v = a / b; break;
	case HX_REM: v = a % b; break;
	case HX_CDIV: v = a / b + (a % b > 0); break;
	case HX_EXACT: v = exact_quotient(a, b, why); break;
	case HX_MIN: v = a < b ? a : b; break;
	case HX_MAX: v = a > b ? a : b; break;
	case HX_LT: v = a < b; break;
	case HX_LE: v = a <= b; break;
	case HX_EQ: v = a == b; break;
	case HX_NE: v = a != b; break;
	case HX_AND: v = a && b; break;
	case HX_OR: v = a || b; break;
	case HX_NOT: v = !a; break;
	case HX_NEG: over = __builtin_sub_overflow((int64_t)0, a, &v); break;
	default: *why = "unknown operation"; break;
	}
	if (over)
		*why = "overflow";
	return v;
}

static int64_t leaf_value(enum hexpr_op op, int64_t imm, const struct hexpr_env *env, const char **why)
{
	if (op == HX_CONST)
		return imm;
	if (op == HX_SYM) {
		if (env && imm >= 0 && imm < env->nsymbols)
			return env->symbols[imm];
		*why = "unknown symbol";
		return 0;
	}
	if (env && env->leaf)
		return env->leaf(env->ctx, op, imm);
	*why = "a fact about tensors or the device is asked where none is known";
	return 0;
}

/* --- construction */

const struct hexpr *hexpr_leaf(struct arena *a, enum hexpr_op op, int64_t imm)
{
	struct hexpr *e = arena_alloc(a, sizeof *e);
	e->op = op;
	e->imm = imm;
	return e;
}

const struct hexpr *hexpr_const(struct arena *a, int64_t v) { return hexpr_leaf(a, HX_CONST, v); }
const struct hexpr *hexpr_sym(struct arena *a, int symbol) { return hexpr_leaf(a, HX_SYM, symbol); }

bool hexpr_has(const struct hexpr *e, enum hexpr_op op, int64_t imm)
{
	return e && ((e->op == op && e->imm == imm) || hexpr_has(e->a, op, imm) || hexpr_has(e->b, op, imm));
}

bool hexpr_is_const(const struct hexpr *e, int64_t *value)
{
	if (e->op != HX_CONST)
		return false;
	*value = e->imm;
	return true;
}

bool hexpr_nonnegative(const struct hexpr *e)
{
	switch (e->op) {
	case HX_CONST: return e->imm >= 0;
	case HX_SYM: return true;
	case HX_ADD: case HX_MUL: case HX_DIV: case HX_CDIV: case HX_EXACT: case HX_MIN:
		return hexpr_nonnegative(e->a) && hexpr_nonnegative(e->b);
	case HX_REM: return hexpr_nonnegative(e->a);
	case HX_MAX: return hexpr_nonnegative(e->a) || hexpr_nonnegative(e->b);
	default: return false;
	}
}

static bool is_imm(const struct hexpr *e, int64_t v) { return e && e->op == HX_CONST && e->imm == v; }

static bool is_boolean(const struct hexpr *e)
{
	return (e->op >= HX_LT && e->op <= HX_NOT) || (e->op >= HX_ALIGNED && e->op <= HX_PRESENT) || is_imm(e, 0) || is_imm(e, 1);
}

/* The simpler expression that a op b is by a unit or an absorbing constant, or NULL. */
static const struct hexpr *fold_unit(enum hexpr_op op, const struct hexpr *a, const struct hexpr *b)
{
	switch (op) {
	case HX_ADD: return is_imm(b, 0) ? a : is_imm(a, 0) ? b : NULL;
	case HX_SUB: return is_imm(b, 0) ? a : NULL;
	case HX_MUL:
		if (is_imm(b, 1) || is_imm(a, 0))
			return a;
		return is_imm(a, 1) || is_imm(b, 0) ? b : NULL;
	case HX_DIV: case HX_CDIV: case HX_EXACT: return is_imm(b, 1) ? a : NULL;
	case HX_AND:
		if (is_imm(a, 0) || (is_imm(b, 1) && is_boolean(a)))
			return a;
		return is_imm(b, 0) || (is_imm(a, 1) && is_boolean(b)) ? b : NULL;
	case HX_OR:
		if (is_imm(a, 1) || (is_imm(b, 0) && is_boolean(a)))
			return a;
		return is_imm(b, 1) || (is_imm(a, 0) && is_boolean(b)) ? b : NULL;
	case HX_NOT: return a->op == HX_NOT && is_boolean(a->a) ? a->a : NULL;
	default: return NULL;
	}
}

const struct hexpr *hexpr_op(struct arena *ar, enum hexpr_op op, const struct hexpr *a, const struct hexpr *b)
{
	if (a->op == HX_CONST && (op_is_unary(op) || b->op == HX_CONST)) {
		const char *why = NULL;
		int64_t v = apply(op, a->imm, b ? b->imm : 0, &why);
		if (!why)
			return hexpr_const(ar, v);
	}
	const struct hexpr *unit = fold_unit(op, a, b);
	if (unit)
		return unit;
	struct hexpr *e = arena_alloc(ar, sizeof *e);
	e->op = op;
	e->a = a;
	e->b = op_is_unary(op) ? NULL : b;
	return e;
}

bool hexpr_equal(const struct hexpr *x, const struct hexpr *y)
{
	if (x == y)
		return true;
	if (!x || !y || x->op != y->op || x->imm != y->imm)
		return false;
	return hexpr_equal(x->a, y->a) && hexpr_equal(x->b, y->b);
}

const struct hexpr *hexpr_subst(struct arena *ar, const struct hexpr *e, int symbol, const struct hexpr *by)
{
	if (hexpr_op_is_leaf(e->op))
		return e->op == HX_SYM && e->imm == symbol ? by : e;
	const struct hexpr *a = hexpr_subst(ar, e->a, symbol, by);
	const struct hexpr *b = e->b ? hexpr_subst(ar, e->b, symbol, by) : NULL;
	return a == e->a && b == e->b ? e : hexpr_op(ar, e->op, a, b);
}

static int64_t tree_value(const struct hexpr *e, const struct hexpr_env *env, const char **why)
{
	if (hexpr_op_is_leaf(e->op))
		return leaf_value(e->op, e->imm, env, why);
	int64_t a = tree_value(e->a, env, why);
	int64_t b = e->b && !*why ? tree_value(e->b, env, why) : 0;
	return *why ? 0 : apply(e->op, a, b, why);
}

int hexpr_eval(const struct hexpr *e, const struct hexpr_env *env, int64_t *value, const char **why)
{
	*why = NULL;
	int64_t v = tree_value(e, env, why);
	*value = *why ? 0 : v;
	return *why ? -1 : 0;
}

/* --- text.  Operators by binding strength; functions are atoms. */

static const struct { const char *text; int strength; } spelling[HX_COUNT] = {
	[HX_OR] = {"or", 1}, [HX_AND] = {"and", 2},
	[HX_LT] = {"<", 3}, [HX_LE] = {"<=", 3}, [HX_EQ] = {"==", 3}, [HX_NE] = {"!=", 3},
	[HX_ADD] = {"+", 4}, [HX_SUB] = {"-", 4},
	[HX_MUL] = {"*", 5}, [HX_DIV] = {"/", 5}, [HX_REM] = {"%", 5},
	[HX_NOT] = {"not ", 6}, [HX_NEG] = {"-", 6},
	[HX_CDIV] = {"cdiv", 9}, [HX_EXACT] = {"exact", 9}, [HX_MIN] = {"min", 9}, [HX_MAX] = {"max", 9},
	[HX_ALIGNED] = {"aligned", 9}, [HX_UNIT] = {"unit", 9}, [HX_FLAT] = {"flat", 9}, [HX_PRESENT] = {"has", 9}, [HX_STRIDE] = {"stride", 9},
	[HX_DEVICE] = {"device", 9},
};
static const char *const facts[HX_FACTS] = {[HX_MEMORY_RATE] = "memory_rate"};

/* How names of leaves are told; quotients: what is exact is written as a quotient. */
struct writer { struct arena *ar; const char *const *syms, *const *tensors; bool quotients; };

static const char *text_at(const struct writer *w, const struct hexpr *e, int least)
{
	enum hexpr_op op = w->quotients && e->op == HX_EXACT ? HX_DIV : e->op;
	const char *name = spelling[op].text;
	int own = spelling[op].strength;
	struct arena *ar = w->ar;
	char *s;
	if (e->op == HX_CONST)
		return arena_printf(ar, "%" PRId64, e->imm);
	if (e->op == HX_SYM)
		return w->syms[e->imm];
	if (e->op == HX_STRIDE)
		return arena_printf(ar, "stride(%s, %d)", w->tensors[e->imm / 16], (int)(e->imm % 16));
	if (hexpr_op_is_leaf(e->op))
		return arena_printf(ar, "%s(%s)", name, (e->op == HX_DEVICE ? facts : w->tensors)[e->imm]);
	if (own == 9)
		return arena_printf(ar, "%s(%s, %s)", name, text_at(w, e->a, 0), text_at(w, e->b, 0));
	if (op_is_unary(e->op))
		s = arena_printf(ar, "%s%s", name, text_at(w, e->a, own));
	else /* comparisons do not chain, the others associate to the left */
		s = arena_printf(ar, "%s %s %s", text_at(w, e->a, own + (own == 3)), name, text_at(w, e->b, own + 1));
	return own < least ? arena_printf(ar, "(%s)", s) : s;
}

char *hexpr_text(struct arena *ar, const struct hexpr *e, const char *const *symbols, const char *const *tensors)
{
	const char *s = text_at(&(struct writer){ar, symbols, tensors, false}, e, 0);
	return arena_string(ar, s, strlen(s));
}

char *hexpr_shown(struct arena *ar, const struct hexpr *e, const char *const *symbols, const char *const *tensors)
{
	const char *s = text_at(&(struct writer){ar, symbols, tensors, true}, e, 0);
	return arena_string(ar, s, strlen(s));
}

/* --- parser: precedence climbing over the same table */

struct parser {
	struct arena *ar;
	const char *p;
	const char *const *symbols, *const *tensors;
	int nsymbols, ntensors, depth, nodes;
	bool failed;
};

static void skip_space(struct parser *ps)
{
	while (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\n')
		ps->p++;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool accept(struct parser *ps, const char *token)
{
	skip_space(ps);
	size_t n = strlen(token);
	if (strncmp(ps->p, token, n) != 0 || (is_word(token[0]) && is_word(ps->p[n])))
		return false;
	ps->p += n;
	return true;
}

static const struct hexpr *fail(struct parser *ps)
{
	ps->failed = true;
	return NULL;
}

static size_t word_length(const char *p)
{
	size_t n = 0;
	while (is_word(p[n]))
		n++;
	return n;
}

/* Index of the word at the cursor in `names`, which it steps over; -1 if it is not there. */
static int accept_name(struct parser *ps, const char *const *names, int n)
{
	skip_space(ps);
	size_t len = word_length(ps->p);
	for (int i = 0; i < n && len; i++)
		if (strlen(names[i]) == len && memcmp(names[i], ps->p, len) == 0) {
			ps->p += len;
			return i;
		}
	return -1;
}

static const struct hexpr *parse_number(struct parser *ps, bool negative)
{
	uint64_t v = 0, limit = negative ? (uint64_t)1 << 63 : INT64_MAX;
	for (; isdigit((unsigned char)*ps->p); ps->p++) {
		unsigned digit = (unsigned)(*ps->p - '0');
		if (v > (limit - digit) / 10)
			return fail(ps);
		v = v * 10 + digit;
	}
	return is_word(*ps->p) ? fail(ps) : hexpr_const(ps->ar, (int64_t)(negative ? 0 - v : v));
}

static const struct hexpr *parse_at(struct parser *ps, int least);

/* "name(" has been read: the arguments and ")". */
static const struct hexpr *parse_call(struct parser *ps, enum hexpr_op op)
{
	if (!hexpr_op_is_leaf(op)) {
		const struct hexpr *a = parse_at(ps, 0);
		if (ps->failed || !accept(ps, ","))
			return fail(ps);
		const struct hexpr *b = parse_at(ps, 0);
		return ps->failed || !accept(ps, ")") ? fail(ps) : hexpr_op(ps->ar, op, a, b);
	}
	int64_t imm = op == HX_DEVICE ? accept_name(ps, facts, HX_FACTS) : accept_name(ps, ps->tensors, ps->ntensors);
	if (imm < 0)
		return fail(ps);
	if (op == HX_STRIDE) {
		if (!accept(ps, ","))
			return fail(ps);
		skip_space(ps);
		if (!isdigit((unsigned char)ps->p[0]) || is_word(ps->p[1]))
			return fail(ps);
		imm = imm * 16 + (*ps->p++ - '0');
	}
	return accept(ps, ")") ? hexpr_leaf(ps->ar, op, imm) : fail(ps);
}

static const struct hexpr *parse_atom(struct parser *ps)
{
	skip_space(ps);
	if (isdigit((unsigned char)*ps->p))
		return parse_number(ps, false);
	if (accept(ps, "(")) {
		const struct hexpr *e = parse_at(ps, 0);
		return ps->failed || !accept(ps, ")") ? fail(ps) : e;
	}
	bool negative = accept(ps, "-");
	if (negative && isdigit((unsigned char)*ps->p))
		return parse_number(ps, true);
	if (negative || accept(ps, "not")) {
		const struct hexpr *a = parse_at(ps, spelling[HX_NEG].strength);
		return ps->failed ? NULL : hexpr_op(ps->ar, negative ? HX_NEG : HX_NOT, a, NULL);
	}
	int symbol = accept_name(ps, ps->symbols, ps->nsymbols);
	if (symbol >= 0)
		return hexpr_sym(ps->ar, symbol);
	for (int op = 0; op < HX_COUNT; op++)
		if (spelling[op].strength == 9 && accept(ps, spelling[op].text))
			return accept(ps, "(") ? parse_call(ps, op) : fail(ps);
	return fail(ps);
}

/* The binary operator at the cursor with at least strength `least`, stepped over; -1 if there is none. */
static int accept_binary(struct parser *ps, int least)
{
	/* longer spellings first: "<=" before "<" */
	static const enum hexpr_op order[] = {HX_OR, HX_AND, HX_LE, HX_LT, HX_EQ, HX_NE, HX_ADD, HX_SUB, HX_MUL, HX_DIV, HX_REM};
	for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
		if (spelling[order[i]].strength >= least && accept(ps, spelling[order[i]].text))
			return order[i];
	return -1;
}

static const struct hexpr *parse_at(struct parser *ps, int least)
{
	if (++ps->depth > PARSE_DEPTH)
		return fail(ps);
	const struct hexpr *a = parse_atom(ps);
	bool compared = false;
	for (int op; !ps->failed && (op = accept_binary(ps, least)) >= 0;) {
		int own = spelling[op].strength;
		const struct hexpr *b = parse_at(ps, own + 1);
		if (ps->failed || ++ps->nodes > PARSE_NODES || (own == 3 && compared))
			return fail(ps);
		compared |= own == 3;
		a = hexpr_op(ps->ar, op, a, b);
	}
	ps->depth--;
	return a;
}

const struct hexpr *hexpr_parse(struct arena *ar, const char *text, const char *const *symbols, int nsymbols,
                                const char *const *tensors, int ntensors, const char **err_at)
{
	struct parser ps = {ar, text, symbols, tensors, nsymbols, ntensors, 0, 0, false};
	const struct hexpr *e = parse_at(&ps, 0);
	skip_space(&ps);
	if (!ps.failed && !*ps.p)
		return e;
	*err_at = ps.p;
	return NULL;
}

/* --- postfix bytes */

struct code { struct arena *ar; ARRAY(uint8_t) bytes; int depth, deepest; };

static void code_byte(struct code *c, unsigned byte) { ARENA_PUSH(c->ar, &c->bytes, (uint8_t)byte); }

static void code_tree(struct code *c, const struct hexpr *e)
{
	if (hexpr_op_is_leaf(e->op)) {
		code_byte(c, e->op);
		uint64_t z = ((uint64_t)e->imm << 1) ^ (e->imm < 0 ? ~(uint64_t)0 : 0);
		for (; z >= 128; z >>= 7)
			code_byte(c, (unsigned)(z & 127) | 128);
		code_byte(c, (unsigned)z);
		if (++c->depth > c->deepest)
			c->deepest = c->depth;
		return;
	}
	code_tree(c, e->a);
	if (e->b) {
		code_tree(c, e->b);
		c->depth--;
	}
	code_byte(c, e->op);
}

/* -1 where the expression needs more stack or bytes than hexpr_code_eval has. */
int hexpr_encode(struct arena *ar, const struct hexpr *e, const uint8_t **code, uint32_t *size)
{
	struct code c = {.ar = ar};
	code_tree(&c, e);
	if (c.deepest > STACK_DEPTH || c.bytes.n > CODE_SIZE)
		return -1;
	*code = c.bytes.items;
	*size = (uint32_t)c.bytes.n;
	return 0;
}

/* Reads the imm of a leaf; false at the end of the bytes or beyond 64 bits. */
static bool code_imm(const uint8_t *code, uint32_t size, uint32_t *at, int64_t *imm)
{
	uint64_t z = 0;
	for (int shift = 0; shift < 70 && *at < size; shift += 7) {
		uint8_t byte = code[(*at)++];
		if (shift == 63 && byte > 1)
			return false;
		z |= (uint64_t)(byte & 127) << shift;
		if (byte < 128) {
			*imm = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
			return true;
		}
	}
	return false;
}

/* The next operation of the bytes and its imm; checks it against the stack's depth n, which it updates. */
static const char *code_next(const uint8_t *code, uint32_t size, uint32_t *at, int *n, enum hexpr_op *op, int64_t *imm)
{
	uint8_t byte = code[(*at)++];
	if (byte >= HX_COUNT)
		return "unknown operation in an expression's bytes";
	*op = byte;
	if (hexpr_op_is_leaf(*op)) {
		if (!code_imm(code, size, at, imm))
			return "an expression's bytes end early";
		return ++*n > STACK_DEPTH ? "an expression is nested too deeply" : NULL;
	}
	*n -= !op_is_unary(*op);
	return *n < 1 ? "an expression lacks an operand" : NULL;
}

int hexpr_code_eval(const uint8_t *code, uint32_t size, const struct hexpr_env *env, int64_t *value, const char **why)
{
	int64_t stack[STACK_DEPTH + 1] = {0}, imm = 0;
	int n = 0;
	enum hexpr_op op;
	*why = size > CODE_SIZE ? "an expression is too long" : NULL;
	for (uint32_t at = 0; at < size && !*why;) {
		*why = code_next(code, size, &at, &n, &op, &imm);
		if (*why)
			break;
		if (hexpr_op_is_leaf(op))
			stack[n - 1] = leaf_value(op, imm, env, why);
		else
			stack[n - 1] = apply(op, stack[n - 1], stack[n], why);
	}
	if (!*why && n != 1)
		*why = "an expression's bytes do not make one value";
	*value = *why ? 0 : stack[0];
	return *why ? -1 : 0;
}

const struct hexpr *hexpr_decode(struct arena *ar, const uint8_t *code, uint32_t size)
{
	const struct hexpr *stack[STACK_DEPTH + 1] = {0};
	int n = 0;
	int64_t imm = 0;
	enum hexpr_op op;
	if (size > CODE_SIZE)
		return NULL;
	for (uint32_t at = 0; at < size;) {
		if (code_next(code, size, &at, &n, &op, &imm))
			return NULL;
		stack[n - 1] = hexpr_op_is_leaf(op) ? hexpr_leaf(ar, op, imm) : hexpr_op(ar, op, stack[n - 1], stack[n]);
	}
	return n == 1 ? stack[0] : NULL;
}
