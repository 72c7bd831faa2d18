/* text_parse.c -- tile IR from text.
 *
 * In: what text.c prints, or a hand-written test; `#` starts a comment.  Out: a kernel in the caller's arena, or "line 3: ...".
 * The parser reads characters directly: the form has few tokens, and expressions and layouts are handed on as slices to
 * their own parsers.  It checks what it needs to build the structure (names, numbers of operands, definitions before uses,
 * nesting); the verifier checks the rest. */
#include "ir.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEST_LIMIT = 64, ID_LIMIT = 1 << 22, OPERAND_LIMIT = 256 };

static const char *const reduce_names[] = {"sum", "prod", "max", "min", "any", "all"};
static const char *const role_names[] = {"in", "out", "inout", "temp"};
static const char *const kind_names[] = {"grid", "held", "loop"};

struct parser {
	struct arena *ar;
	const char *text, *p;
	struct ir_kernel *k;
	struct ir_phase *ph;
	const char *axes[LAYOUT_AXES];
	const char **tensors;
	ARRAY(struct ir_ins *) values;        /* by number in the text */
	ARRAY(struct ir_param) params;
	ARRAY(const char *) symbols;
	ARRAY(struct ir_multiple) multiples;
	ARRAY(struct ir_phase) phases;
	int depth;
	char *err; size_t errlen;
	bool failed;
};

/* Records the first error; always false. */
static bool fail(struct parser *ps, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct parser *ps, const char *fmt, ...)
{
	if (ps->failed)
		return false;
	int line = 1;
	for (const char *p = ps->text; p < ps->p; p++)
		line += *p == '\n';
	int n = snprintf(ps->err, ps->errlen, "line %d: ", line);
	va_list ap;
	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < ps->errlen)
		vsnprintf(ps->err + n, ps->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	ps->failed = true;
	return false;
}

static void skip(struct parser *ps)
{
	for (;; ps->p++) {
		if (*ps->p == '#')
			while (*ps->p && *ps->p != '\n')
				ps->p++;
		if (!*ps->p || !isspace((unsigned char)*ps->p))
			return;
	}
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '\''; }

static int word_length(struct parser *ps)
{
	int n = 0;
	skip(ps);
	while (is_word(ps->p[n]))
		n++;
	return n;
}

/* Steps over `token` (a word or punctuation) if it comes next. */
static bool accept(struct parser *ps, const char *token)
{
	size_t n = strlen(token);
	skip(ps);
	if (ps->failed || strncmp(ps->p, token, n) != 0 || (is_word(token[0]) && is_word(ps->p[n])))
		return false;
	ps->p += n;
	return true;
}

static bool expect(struct parser *ps, const char *token)
{
	return accept(ps, token) || fail(ps, "expected '%s' before '%.12s'", token, ps->p);
}

/* The word at the cursor in the arena, or NULL. */
static const char *word(struct parser *ps)
{
	int n = word_length(ps);
	if (!n || ps->failed) {
		fail(ps, "expected a name before '%.12s'", ps->p);
		return NULL;
	}
	const char *s = arena_string(ps->ar, ps->p, (size_t)n);
	ps->p += n;
	return s;
}

static const char *quoted(struct parser *ps)
{
	if (!expect(ps, "\""))
		return NULL;
	size_t n = strcspn(ps->p, "\"\n");
	const char *s = arena_string(ps->ar, ps->p, n);
	ps->p += n;
	return expect(ps, "\"") ? s : NULL;
}

static bool integer(struct parser *ps, long long least, long long most, long long *v)
{
	char *end;
	skip(ps);
	*v = strtoll(ps->p, &end, 10);
	if (ps->failed || end == ps->p || *v < least || *v > most)
		return fail(ps, "expected a number from %lld to %lld before '%.12s'", least, most, ps->p);
	ps->p = end;
	return true;
}

static bool small(struct parser *ps, int least, int most, int *v)
{
	long long wide;
	bool good = integer(ps, least, most, &wide);
	*v = good ? (int)wide : least;
	return good;
}

static bool number(struct parser *ps, double *v)
{
	char *end;
	skip(ps);
	*v = strtod(ps->p, &end);
	if (ps->failed || end == ps->p)
		return fail(ps, "expected a number before '%.12s'", ps->p);
	ps->p = end;
	return true;
}

/* Index of the next word among names, stepped over; -1 with an error naming `what`. */
static int name_among(struct parser *ps, const char *const *names, int n, const char *what)
{
	int len = word_length(ps);
	for (int i = 0; i < n && !ps->failed; i++)
		if (names[i] && (int)strlen(names[i]) == len && memcmp(names[i], ps->p, (size_t)len) == 0) {
			ps->p += len;
			return i;
		}
	fail(ps, "expected %s before '%.12s'", what, ps->p);
	return -1;
}

static int axis_ref(struct parser *ps) { return name_among(ps, ps->axes, ps->ph->naxes, "an axis"); }
static int param_ref(struct parser *ps) { return name_among(ps, ps->tensors, ps->k->nparams, "a parameter"); }

static bool place(struct parser *ps, int *line, int *col)
{
	*line = *col = 0;
	if (!accept(ps, "@"))
		return !ps->failed;
	return small(ps, 1, INT_MAX, line) && (*ps->p != ':' || (ps->p++, small(ps, 1, INT_MAX, col)));
}

/* A host expression up to one of `ends` outside parentheses, or the end of the line. */
static const struct hexpr *expression(struct parser *ps, const char *ends)
{
	int n = 0, depth = 0;
	const char *err_at = NULL;
	skip(ps);
	while (ps->p[n] && ps->p[n] != '\n' && (depth > 0 || !strchr(ends, ps->p[n]))) {
		depth += (ps->p[n] == '(') - (ps->p[n] == ')');
		n++;
	}
	const struct hexpr *e = ps->failed ? NULL : hexpr_parse(ps->ar, arena_string(ps->ar, ps->p, (size_t)n), ps->k->symbols, ps->k->nsymbols, ps->tensors, ps->k->nparams, &err_at);
	if (!e)
		fail(ps, "'%.*s' is not a host expression", n < 60 ? n : 60, ps->p);
	ps->p += n;
	return e;
}

static bool layout_ref(struct parser *ps, const struct layout **l)
{
	const char *err_at = NULL;
	if (!accept(ps, "{"))
		return !ps->failed;
	size_t n = strcspn(ps->p, "}\n");
	*l = layout_parse(ps->ar, arena_string(ps->ar, ps->p, n), ps->axes, ps->ph->naxes, &err_at);
	if (!*l)
		return fail(ps, "'%.*s' is not a layout", n < 60 ? (int)n : 60, ps->p);
	ps->p += n;
	return expect(ps, "}");
}

static bool axis_set(struct parser *ps, ir_axes *set)
{
	do {
		int a = axis_ref(ps);
		if (a < 0)
			return false;
		*set |= IR_AXIS(a);
	} while (accept(ps, ","));
	return true;
}

static bool dtype_ref(struct parser *ps, enum dtype *t)
{
	int n = word_length(ps);
	*t = dtype_by_name(ps->p, (unsigned)n);
	if (*t == DT_NONE)
		return fail(ps, "expected an element type before '%.12s'", ps->p);
	ps->p += n;
	return true;
}

static bool type(struct parser *ps, struct ir_ins *ins)
{
	enum dtype t;
	if (!dtype_ref(ps, &t))
		return false;
	ins->dtype = (uint8_t)t;
	return !accept(ps, "[") || (axis_set(ps, &ins->axes) && expect(ps, "]"));
}

/* --- values and instructions */

static bool value_number(struct parser *ps, int *id)
{
	return expect(ps, "%") && small(ps, 0, ID_LIMIT, id);
}

static struct ir_ins *value_ref(struct parser *ps)
{
	int id;
	if (!value_number(ps, &id))
		return NULL;
	if (id >= ps->values.n || !ps->values.items[id]) {
		fail(ps, "%%%d is used before it is defined", id);
		return NULL;
	}
	return ps->values.items[id];
}

static bool define(struct parser *ps, int id, struct ir_ins *ins)
{
	while (ps->values.n <= id)
		ARENA_PUSH(ps->ar, &ps->values, NULL);
	if (ps->values.items[id])
		return fail(ps, "%%%d is defined twice", id);
	ps->values.items[id] = ins;
	ins->id = id;
	return true;
}

struct operands { struct ir_ins *v[OPERAND_LIMIT]; int n; };

static bool operand(struct parser *ps, struct operands *o)
{
	if (o->n == OPERAND_LIMIT)
		return fail(ps, "more than %d operands", OPERAND_LIMIT);
	o->v[o->n] = value_ref(ps);
	return o->v[o->n++] != NULL;
}

static bool operand_list(struct parser *ps, struct operands *o)
{
	do
		if (!operand(ps, o))
			return false;
	while (accept(ps, ","));
	return true;
}

static bool mask(struct parser *ps, struct ir_ins *ins, struct operands *o)
{
	if (!accept(ps, "if"))
		return !ps->failed;
	ins->flags |= IR_MASKED;
	return operand(ps, o);
}

static bool reduce_kind(struct parser *ps, struct ir_ins *ins)
{
	int kind = name_among(ps, reduce_names, 6, "a kind of reduction");
	ins->kind = (uint8_t)kind;
	return kind >= 0;
}

static bool contraction(struct parser *ps, struct ir_ins *ins, struct operands *o)
{
	int chains = 0;
	if (ins->op == IR_REDUCE && !reduce_kind(ps, ins))
		return false;
	if (ins->op == IR_REDUCE && accept(ps, "part"))
		ins->flags |= IR_PART;
	if (ins->op == IR_REDUCE && accept(ps, "by")) {
		ins->flags |= IR_BY_LANE;
		ins->imm = expect(ps, "lane") ? axis_ref(ps) : -1;
		if (ins->imm < 0)
			return false;
	}
	if (accept(ps, "anyorder"))
		ins->flags |= IR_ANYORDER;
	if (accept(ps, "chains") && !small(ps, 1, 255, &chains))
		return false;
	ins->chains = (uint8_t)chains;
	if ((accept(ps, "over") && !axis_set(ps, &ins->over)) || !operand_list(ps, o))
		return false;
	if (ins->op == IR_REDUCE && accept(ps, "*")) {
		ins->flags |= IR_PRODUCT;
		if (!operand(ps, o))
			return false;
	}
	if (ins->op == IR_DOT && accept(ps, "+")) {
		ins->flags |= IR_ACC;
		if (!operand(ps, o))
			return false;
	}
	if (ins->op == IR_DOT && accept(ps, "scaled")) {
		ins->flags |= IR_SCALED;
		if (!operand_list(ps, o))
			return false;
	}
	if (!mask(ps, ins, o))
		return false;
	int scales = ins->op == IR_DOT && ins->flags & IR_SCALED ? 2 : 0;
	int want = 1 + (ins->op == IR_DOT) + scales + __builtin_popcount(ins->flags & (IR_PRODUCT | IR_ACC | IR_MASKED));
	return o->n == want || fail(ps, "%s has %d operands, expected %d", ir_op_info[ins->op].text, o->n, want);
}

static bool tensor_access(struct parser *ps, struct ir_ins *ins, struct operands *o)
{
	if (ins->op == IR_UPDATE && !reduce_kind(ps, ins))
		return false;
	int t = param_ref(ps);
	if (t < 0 || !expect(ps, "["))
		return false;
	ins->imm = t;
	if (!accept(ps, "]") && (!operand_list(ps, o) || !expect(ps, "]")))
		return false;
	if (!ps->k->params[t].is_tensor || o->n != ps->k->params[t].rank)
		return fail(ps, "'%s' is not a tensor of rank %d", ps->tensors[t], o->n);
	if (ins->op != IR_LOAD && (!expect(ps, "=") || !operand(ps, o)))
		return false;
	if (!mask(ps, ins, o))
		return false;
	if (ins->op == IR_LOAD && accept(ps, "staged"))
		ins->flags |= IR_STAGED;
	if (ins->op == IR_LOAD && accept(ps, "relaxed"))
		ins->flags |= IR_RELAXED;
	return true;
}

static bool loop_head(struct parser *ps, struct ir_ins *ins, struct operands *o)
{
	ARRAY(struct ir_ins *) params = {0};
	ins->imm = axis_ref(ps);
	if (ins->imm < 0 || !expect(ps, "from") || !operand(ps, o) || !expect(ps, "to") || !operand(ps, o))
		return false;
	for (bool more = accept(ps, "with"); more; more = accept(ps, ",")) {
		struct ir_ins *arg = arena_alloc(ps->ar, sizeof *arg);
		int id;
		arg->op = IR_ARG;
		arg->imm = params.n;
		arg->block = ins->body;
		if (!value_number(ps, &id) || !expect(ps, ":") || !type(ps, arg) || !layout_ref(ps, &arg->layout) || !expect(ps, "=") ||
		    !operand(ps, o) || !define(ps, id, arg))
			return false;
		ARENA_PUSH(ps->ar, &params, arg);
	}
	ins->body->params = params.items;
	ins->body->nparams = params.n;
	return !ps->failed;
}

static bool constant(struct parser *ps, struct ir_ins *ins)
{
	skip(ps);
	const char *start = ps->p;
	long long wide;
	/* the type comes after the number: read it as a float, then again as an integer where the type says so */
	if (!number(ps, &ins->num) || !expect(ps, ":") || !type(ps, ins))
		return false;
	if (dtype_is_float(ins->dtype)) {
		ins->num = (float)ins->num;
		return true;
	}
	const char *end = ps->p;
	ins->num = 0;
	ps->p = start;
	bool good = integer(ps, LLONG_MIN, LLONG_MAX, &wide) && expect(ps, ":");
	ps->p = good ? end : ps->p;
	ins->imm = wide;
	return good;
}

/* The index that a leaf names, in imm. */
static bool leaf(struct parser *ps, struct ir_ins *ins)
{
	if (ins->op == IR_SYM)
		ins->imm = name_among(ps, ps->k->symbols, ps->k->nsymbols, "a symbol");
	else if (ins->op == IR_PARAM || ins->op == IR_HAS)
		ins->imm = param_ref(ps);
	else
		ins->imm = axis_ref(ps);
	return ins->imm >= 0;
}

static bool operands_of(struct parser *ps, struct ir_ins *ins, struct operands *o)
{
	int index;
	switch (ins->op) {
	case IR_CONST: return constant(ps, ins);
	case IR_SYM: case IR_PARAM: case IR_HAS: case IR_IOTA: case IR_LIMIT: return leaf(ps, ins);
	case IR_LOAD: case IR_STORE: case IR_UPDATE: return tensor_access(ps, ins, o);
	case IR_REDUCE: case IR_DOT: case IR_ARGMAX: case IR_SCAN: return contraction(ps, ins, o);
	case IR_FOR: return loop_head(ps, ins, o);
	case IR_REPEAT: case IR_PACK:
		index = axis_ref(ps);
		if (index < 0 || !expect(ps, "along"))
			return false;
		ins->over = IR_AXIS(index);
		ins->imm = axis_ref(ps);
		return ins->imm >= 0 && operand(ps, o);
	case IR_RESULT:
		if (!small(ps, 0, OPERAND_LIMIT, &index) || !expect(ps, "of") || !operand(ps, o))
			return false;
		ins->imm = index;
		return true;
	case IR_YIELD:
		skip(ps);
		return *ps->p != '%' || operand_list(ps, o);
	default:
		if (ins->op == IR_CVT && accept(ps, "sat"))
			ins->flags |= IR_SATURATE;
		if (ins->op == IR_CVT && accept(ps, "cut"))
			ins->flags |= IR_CUT;
		if (ins->op == IR_CVT && accept(ps, "again"))
			ins->flags |= IR_AGAIN;
		if (ins->op == IR_DIV && accept(ps, "normal"))
			ins->flags |= IR_NORMAL;
		if (!operand_list(ps, o))
			return false;
		return o->n == ir_op_info[ins->op].nargs || fail(ps, "%s has %d operands, expected %d", ir_op_info[ins->op].text, o->n, ir_op_info[ins->op].nargs);
	}
}

static bool block(struct parser *ps, struct ir_block *b);

static struct ir_block *new_block(struct parser *ps, struct ir_ins *owner)
{
	struct ir_block *b = arena_alloc(ps->ar, sizeof *b);
	b->owner = owner;
	return b;
}

static bool regions(struct parser *ps, struct ir_ins *ins)
{
	if (!expect(ps, "{") || !block(ps, ins->body))
		return false;
	return !ins->other || (expect(ps, "else") && expect(ps, "{") && block(ps, ins->other));
}

static int op_by_name(struct parser *ps)
{
	int n = word_length(ps);
	for (int op = 0; op < IR_NOP && n; op++)
		if (op != IR_ARG && (int)strlen(ir_op_info[op].text) == n && memcmp(ir_op_info[op].text, ps->p, (size_t)n) == 0) {
			ps->p += n;
			return op;
		}
	fail(ps, "expected an operation before '%.12s'", ps->p);
	return -1;
}

static bool instruction(struct parser *ps, struct ir_block *b)
{
	struct ir_builder build = {.k = ps->k, .ph = ps->ph, .block = b};
	struct operands o = {.n = 0};
	int id = -1, line, col;
	skip(ps);
	if (*ps->p == '%' && (!value_number(ps, &id) || !expect(ps, "=")))
		return false;
	int op = op_by_name(ps);
	if (op < 0)
		return false;
	struct ir_ins *ins = ir_new(&build, op, DT_NONE, 0, 0);
	bool valued = op != IR_STORE && op != IR_UPDATE && op != IR_YIELD, region = op == IR_FOR || op == IR_IF;
	ins->id = -1;
	ins->body = region ? new_block(ps, ins) : NULL;
	ins->other = op == IR_IF ? new_block(ps, ins) : NULL;
	if (valued != (id >= 0))
		return fail(ps, valued ? "%s needs a number for its value" : "%s has no value", ir_op_info[op].text);
	if (!operands_of(ps, ins, &o))
		return false;
	ins->nargs = o.n;
	ins->args = arena_copy(ps->ar, o.v, (size_t)o.n * sizeof *o.v);
	if (valued && !region && op != IR_CONST && (!expect(ps, ":") || !type(ps, ins)))
		return false;
	for (int i = 0; i < o.n && (op == IR_STORE || op == IR_UPDATE); i++)
		ins->axes |= o.v[i]->axes;
	skip(ps);
	if ((!region && !layout_ref(ps, &ins->layout)) || !place(ps, &line, &col))
		return false;
	ins->line = line;
	ins->col = col;
	return (id < 0 || define(ps, id, ins)) && (!region || regions(ps, ins));
}

static bool block(struct parser *ps, struct ir_block *b)
{
	if (++ps->depth > NEST_LIMIT)
		return fail(ps, "blocks are nested more than %d deep", NEST_LIMIT);
	while (!accept(ps, "}"))
		if (ps->failed || !instruction(ps, b))
			return false;
	ps->depth--;
	return true;
}

/* --- declarations */

static bool parameter(struct parser *ps, int role, bool tensor)
{
	struct ir_param p = {.is_tensor = tensor, .role = role};
	p.optional = accept(ps, "?");
	p.name = word(ps);
	if (!p.name || !expect(ps, ":"))
		return false;
	p.list = tensor && accept(ps, "list");
	if (!dtype_ref(ps, &p.dtype) || (tensor && !expect(ps, "[")))
		return false;
	while (tensor && !accept(ps, "]")) {
		if ((p.rank && !expect(ps, ",")) || p.rank == 6)
			return fail(ps, "a tensor has at most 6 dimensions");
		p.extent[p.rank] = expression(ps, ",]");
		if (!p.extent[p.rank++])
			return false;
	}
	p.has_default = accept(ps, "=");
	if ((p.has_default && !number(ps, &p.default_value)) || !place(ps, &p.line, &p.col))
		return false;
	ARENA_PUSH(ps->ar, &ps->params, p);
	ps->k->params = ps->params.items;
	ps->tensors = arena_alloc(ps->ar, (size_t)ps->params.n * sizeof *ps->tensors);
	for (ps->k->nparams = 0; ps->k->nparams < ps->params.n; ps->k->nparams++)
		ps->tensors[ps->k->nparams] = ps->params.items[ps->k->nparams].name;
	return true;
}

static bool axis(struct parser *ps)
{
	if (ps->ph->naxes == LAYOUT_AXES)
		return fail(ps, "more than %d axes", LAYOUT_AXES);
	struct ir_axis *x = &ps->ph->axes[ps->ph->naxes];
	x->name = word(ps);
	int kind = x->name ? name_among(ps, kind_names, 3, "a kind of axis") : -1;
	if (kind < 0)
		return false;
	x->kind = kind;
	ps->axes[ps->ph->naxes++] = x->name;
	x->tiled = accept(ps, "tiled");
	if (accept(ps, "tile") && !small(ps, 1, INT_MAX, &x->tile))
		return false;
	if (accept(ps, "cluster") && !small(ps, 1, MOST_MEMBERS, &x->cluster))
		return false;
	x->ragged = accept(ps, "ragged");
	if (x->ragged) {
		x->ragged_tensor = param_ref(ps);
		if (x->ragged_tensor < 0 || !expect(ps, "["))
			return false;
		x->ragged_group = axis_ref(ps);
		if (x->ragged_group < 0 || !expect(ps, "]"))
			return false;
		x->of_list = ps->params.items[x->ragged_tensor].list;
	}
	if (accept(ps, ":"))
		*(x->ragged ? &x->ragged_total : &x->extent) = expression(ps, "@#");
	return place(ps, &x->line, &x->col);
}

static bool phase(struct parser *ps)
{
	struct ir_phase ph = {0};
	int col;
	if (!place(ps, &ph.line, &col) || !expect(ps, "{"))
		return false;
	ps->ph = &ph;
	while (accept(ps, "axis"))
		if (!axis(ps))
			return false;
	ph.body = new_block(ps, NULL);
	if (ps->failed || !block(ps, ph.body))
		return false;
	ARENA_PUSH(ps->ar, &ps->phases, ph);
	return true;
}

static bool multiple(struct parser *ps)
{
	struct ir_multiple m = {.tensor = -1};
	const char *name = word(ps);
	int n;
	while (name && m.symbol < ps->symbols.n && strcmp(ps->symbols.items[m.symbol], name))
		m.symbol++;
	if (!name || m.symbol == ps->symbols.n)
		return fail(ps, "'%s' is no symbol", name ? name : "");
	if (!small(ps, 1, INT_MAX, &n) || (accept(ps, "of") && (m.tensor = param_ref(ps)) < 0))
		return false;
	m.multiple = n;
	ARENA_PUSH(ps->ar, &ps->multiples, m);
	ps->k->multiples = ps->multiples.items;
	ps->k->nmultiples = ps->multiples.n;
	return true;
}

static bool declaration(struct parser *ps)
{
	if (accept(ps, "symbol")) {
		ARENA_PUSH(ps->ar, &ps->symbols, word(ps));
		ps->k->symbols = ps->symbols.items;
		ps->k->nsymbols = ps->symbols.n;
		return !ps->failed;
	}
	if (accept(ps, "phase"))
		return phase(ps);
	if (accept(ps, "multiple"))
		return multiple(ps);
	if (accept(ps, "scalar"))
		return parameter(ps, IR_IN, false);
	int role = name_among(ps, role_names, 4, "symbol, multiple, scalar, in, out, inout, temp or phase");
	return role >= 0 && parameter(ps, role, true);
}

static void number_unnamed(struct ir_ins *ins, void *ctx)
{
	int *next = ctx;
	if (ins->id < 0)
		ins->id = (*next)++;
}

struct ir_kernel *ir_parse(struct arena *ar, const char *text, char *err, size_t errlen)
{
	struct ir_kernel *k = arena_alloc(ar, sizeof *k);
	struct parser ps = {.ar = ar, .text = text, .p = text, .k = k, .err = err, .errlen = errlen};
	k->arena = ar;
	if (expect(&ps, "kernel"))
		k->name = word(&ps);
	skip(&ps);
	k->instance = *ps.p == '"' ? quoted(&ps) : "";
	if (accept(&ps, "target"))
		k->target = word(&ps);
	if (accept(&ps, "file"))
		k->file = quoted(&ps);
	expect(&ps, "{");
	while (!ps.failed && !accept(&ps, "}"))
		declaration(&ps);
	skip(&ps);
	if (!ps.failed && *ps.p)
		fail(&ps, "expected the end before '%.12s'", ps.p);
	if (ps.failed)
		return NULL;
	k->phases = ps.phases.items;
	k->nphases = ps.phases.n;
	k->next_id = ps.values.n;
	for (int i = 0; i < k->nphases; i++)
		ir_walk(k->phases[i].body, number_unnamed, &k->next_id);
	return k;
}
