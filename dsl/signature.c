/* signature.c -- what a kernel looks like from outside: parameters, extent symbols and how to solve them, requires, instances.
 *
 * In: a kernel's declarations.  Out: struct model_kernel with parameters in the order of the C function (input tensors, scalars,
 * outputs).  The elaborator starts from the same structure, so that parameter and symbol numbers agree.  A name in a parameter's
 * extent becomes a symbol where it first appears; it is solved from the best place: inputs before outputs, a plain `M` before
 * `2*N` or `E + 1`, required tensors before optional ones. */
#include <math.h>
#include <string.h>
#include "elab.h"

struct type type_named(const char *name)
{
	if (strcmp(name, "fp8") == 0)
		return (struct type){DT_E4M3, 8};
	if (strcmp(name, "bf8") == 0)
		return (struct type){DT_E5M2, 9};
	return (struct type){dtype_by_name(name, (unsigned)strlen(name)), 0};
}

int type_parameter(const struct ast_kernel *k, const char *name)
{
	for (int i = 0; i < k->types.n; i++)
		if (strcmp(k->types.items[i].name.text, name) == 0)
			return i;
	return -1;
}

const struct ast_param *signature_param(const struct ast_kernel *k, const char *name)
{
	for (int i = 0; i < k->params.n + k->results.n; i++) {
		const struct ast_param *p = i < k->params.n ? &k->params.items[i] : &k->results.items[i - k->params.n];
		if (strcmp(p->name.text, name) == 0)
			return p;
	}
	return NULL;
}

/* --- host expressions */

struct extent { struct arena *ar; struct diag *d; struct model_kernel *m; enum extent_use use; };

static int symbol_number(const struct model_kernel *m, const char *name)
{
	for (int i = 0; i < m->nsymbols; i++)
		if (strcmp(m->symbols[i].name, name) == 0)
			return i;
	return -1;
}

static int param_number(const struct model_kernel *m, const char *name)
{
	for (int i = 0; i < m->nparams; i++)
		if (strcmp(m->params[i].name, name) == 0)
			return i;
	return -1;
}

static const struct hexpr *extent_name(struct extent *x, const struct ast_expr *e)
{
	int s = symbol_number(x->m, e->name), p = param_number(x->m, e->name);
	if (s >= 0)
		return hexpr_sym(x->ar, s);
	if (p >= 0) {
		diag_add(x->d, DIAG_E_EXTENT_PARAM, e->at, e->name);
		return NULL;
	}
	if (x->use != EXTENT_DEFINES) {
		diag_add(x->d, DIAG_E_EXTENT_NAME, e->at, e->name);
		return NULL;
	}
	if (x->m->nsymbols == MODEL_MAX_SYMBOL) {
		diag_add(x->d, DIAG_E_SYMBOLS, e->at, MODEL_MAX_SYMBOL);
		return NULL;
	}
	x->m->symbols[x->m->nsymbols] = (struct model_symbol){arena_string(x->ar, e->name, strlen(e->name)), -1, 0, 1, 0};
	return hexpr_sym(x->ar, x->m->nsymbols++);
}

static const struct hexpr *extent_value(struct extent *, const struct ast_expr *);

static const struct hexpr *extent_pair(struct extent *x, enum hexpr_op op, const struct ast_expr *a, const struct ast_expr *b)
{
	const struct hexpr *l = extent_value(x, a), *r = extent_value(x, b);
	int64_t divisor;
	if (!l || !r)
		return NULL;
	if ((op == HX_DIV || op == HX_REM || op == HX_CDIV || op == HX_EXACT) && hexpr_is_const(r, &divisor) && divisor <= 0) {
		diag_add(x->d, DIAG_E_EXTENT_DIVISOR, b->at);
		return NULL;
	}
	return hexpr_op(x->ar, op, l, r);
}

static const struct hexpr *extent_call(struct extent *x, const struct ast_expr *e)
{
	static const struct { const char *name; enum hexpr_op op; } fn[] = {{"cdiv", HX_CDIV}, {"min", HX_MIN}, {"max", HX_MAX}};
	if (strcmp(e->name, "has") == 0 && x->use == EXTENT_REQUIRE && e->args.n == 1 && e->args.items[0]->kind == AST_NAME) {
		int p = param_number(x->m, e->args.items[0]->name);
		if (p >= 0 && x->m->params[p].optional)
			return hexpr_leaf(x->ar, HX_PRESENT, p);
		diag_add(x->d, DIAG_E_HAS, e->args.items[0]->at);
		return NULL;
	}
	for (unsigned i = 0; i < sizeof fn / sizeof *fn; i++)
		if (strcmp(e->name, fn[i].name) == 0 && e->args.n == 2 && !e->has_over)
			return extent_pair(x, fn[i].op, e->args.items[0], e->args.items[1]);
	diag_add(x->d, DIAG_E_EXTENT, e->at);
	return NULL;
}

static const struct hexpr *extent_value(struct extent *x, const struct ast_expr *e)
{
	static const enum hexpr_op plain[] = {[AST_OR] = HX_OR, [AST_AND] = HX_AND, [AST_LT] = HX_LT, [AST_LE] = HX_LE, [AST_GT] = HX_LT,
		[AST_GE] = HX_LE, [AST_EQ] = HX_EQ, [AST_NE] = HX_NE, [AST_ADD] = HX_ADD, [AST_SUB] = HX_SUB, [AST_MUL] = HX_MUL, [AST_REM] = HX_REM};
	switch (e->kind) {
	case AST_BAD: return NULL;
	case AST_INT: return hexpr_const(x->ar, e->integer);
	case AST_NAME: return extent_name(x, e);
	case AST_CALL: return extent_call(x, e);
	case AST_NEG: case AST_NOT: {
		const struct hexpr *a = extent_value(x, e->a);
		return a ? hexpr_op(x->ar, e->kind == AST_NEG ? HX_NEG : HX_NOT, a, NULL) : NULL;
	}
	case AST_BINARY:
		if (e->op == AST_DIV)
			return extent_pair(x, x->use == EXTENT_REQUIRE ? HX_DIV : HX_EXACT, e->a, e->b);
		if (e->op <= AST_NE && x->use != EXTENT_REQUIRE)
			break;
		if (e->op == AST_GT || e->op == AST_GE)
			return extent_pair(x, plain[e->op], e->b, e->a);
		return extent_pair(x, plain[e->op], e->a, e->b);
	default: break;
	}
	diag_add(x->d, DIAG_E_EXTENT, e->at);
	return NULL;
}

const struct hexpr *extent_of(struct arena *ar, struct diag *d, struct model_kernel *m, const struct ast_expr *e, enum extent_use use)
{
	struct extent x = {ar, d, m, use};
	const struct hexpr *value = extent_value(&x, e);
	int64_t wide;
	const uint8_t *code;
	uint32_t size;
	if (value && hexpr_encode(ar, value, &code, &size) < 0) {
		diag_add(d, DIAG_E_EXTENT_LARGE, e->at);
		return NULL;
	}
	if (value && use != EXTENT_REQUIRE && !hexpr_is_const(value, &wide) && extent_too_wide(value, &wide)) {
		diag_add(d, DIAG_E_INT_RANGE, e->at, (long long)wide);
		return NULL;
	}
	return value;
}

bool extent_too_wide(const struct hexpr *e, int64_t *found)
{
	if (!e)
		return false;
	*found = e->imm;
	if (e->op == HX_CONST)
		return e->imm > INT32_MAX || e->imm < INT32_MIN;
	return extent_too_wide(e->a, found) || extent_too_wide(e->b, found);
}

bool extent_possible(struct diag *d, const struct hexpr *e, struct diag_span at)
{
	int64_t size;
	if (!hexpr_is_const(e, &size) || (size >= 1 && size <= INT32_MAX))
		return true;
	diag_add(d, DIAG_E_EXTENT_SIZE, at, (long long)size);
	return false;
}

/* --- parameters */

/* The default of a scalar of type t: a number of that type, kept as a double. */
static double default_number(struct diag *d, const struct ast_param *p, enum dtype t)
{
	const struct ast_expr *e = p->value;
	bool negative = e->kind == AST_NEG;
	e = negative ? e->a : e;
	double v = e->kind == AST_INT ? (double)e->integer : e->number;
	if (e->kind != AST_INT && e->kind != AST_FLOAT)
		diag_add(d, DIAG_E_DEFAULT, p->value->at);
	else if (t != DT_F32 && e->kind == AST_FLOAT)
		diag_add(d, DIAG_E_DEFAULT_TYPE, p->value->at, p->name.text, dtype_info(t)->name);
	else if (t == DT_F32 ? !isfinite((float)v) : t == DT_I32 ? v > INT32_MAX + (double)negative : e->integer > (int64_t)1 << 53)
		diag_add(d, DIAG_E_DEFAULT_RANGE, p->value->at, p->name.text, dtype_info(t)->name, t == DT_I64 ? " of at most 2^53" : "");
	return negative ? -v : v;
}

static void check_type(struct diag *d, const struct ast_kernel *k, const struct ast_param *p)
{
	const struct ast_name *n = &p->type.name;
	struct type t = type_named(n->text);
	if (t.dtype == DT_NONE && type_parameter(k, n->text) < 0)
		diag_add(d, DIAG_E_TYPE_NAME, n->at, n->text);
	else if (!p->type.dims.n && t.dtype != DT_F32 && t.dtype != DT_I32 && t.dtype != DT_I64)
		diag_add(d, DIAG_E_SCALAR_TYPE, n->at, p->name.text, n->text);
}

static void add_param(struct diag *d, const struct ast_kernel *k, const struct ast_param *p, enum model_role role, struct model_kernel *m)
{
	if (m->nparams == MODEL_MAX_PARAM) {
		diag_add(d, DIAG_E_PARAMS, p->name.at, MODEL_MAX_PARAM);
		return;
	}
	if (param_number(m, p->name.text) >= 0 || type_parameter(k, p->name.text) >= 0 || type_named(p->name.text).dtype != DT_NONE) {
		diag_add(d, DIAG_E_TAKEN, p->name.at, p->name.text);
		return;
	}
	check_type(d, k, p);
	struct model_param *out = &m->params[m->nparams++];
	*out = (struct model_param){.name = p->name.text, .is_tensor = p->type.dims.n > 0, .role = role, .optional = p->optional};
	if (p->type.dims.n > MODEL_MAX_RANK)
		diag_add(d, DIAG_E_RANK, p->type.at, MODEL_MAX_RANK);
	else
		out->rank = p->type.dims.n;
	if (p->type.list && (p->type.dims.n != 2 || p->optional || type_named(p->type.name.text).dtype == DT_E2M1))
		diag_add(d, DIAG_E_LIST, p->type.at, p->name.text);
	out->list = p->type.list;
	if (!out->is_tensor && (p->optional || p->inout || role == ROLE_OUT))
		diag_add(d, DIAG_E_SCALAR_ROLE, p->name.at, p->name.text);
	if (p->value && out->is_tensor)
		diag_add(d, DIAG_E_DEFAULT, p->value->at);
	else if (p->value) {
		out->has_default = true;
		out->default_value = default_number(d, p, type_named(p->type.name.text).dtype);
	}
}

static void add_params(struct diag *d, const struct ast_kernel *k, struct model_kernel *m)
{
	for (int scalars = 0; scalars < 2; scalars++)
		for (int i = 0; i < k->params.n; i++)
			if ((k->params.items[i].type.dims.n == 0) == scalars)
				add_param(d, k, &k->params.items[i], k->params.items[i].inout ? ROLE_INOUT : ROLE_IN, m);
	for (int i = 0; i < k->results.n; i++) {
		if (k->results.items[i].inout)
			diag_add(d, DIAG_E_RESULT_INOUT, k->results.items[i].name.at, k->results.items[i].name.text);
		add_param(d, k, &k->results.items[i], ROLE_OUT, m);
	}
}

/* --- solving: extent = mul * symbol + add */

static bool linear(const struct hexpr *e, int symbol, int64_t *mul, int64_t *add)
{
	int64_t c;
	if (e->op == HX_SYM && e->imm == symbol) {
		*mul = 1;
		*add = 0;
		return true;
	}
	if (e->op != HX_ADD && e->op != HX_SUB && e->op != HX_MUL)
		return false;
	if (hexpr_is_const(e->b, &c) && linear(e->a, symbol, mul, add)) {
		*add = e->op == HX_ADD ? *add + c : e->op == HX_SUB ? *add - c : *add * c;
		*mul = e->op == HX_MUL ? *mul * c : *mul;
		return *mul > 0;
	}
	if (e->op != HX_SUB && hexpr_is_const(e->a, &c) && linear(e->b, symbol, mul, add)) {
		*add = e->op == HX_ADD ? *add + c : *add * c;
		*mul = e->op == HX_MUL ? *mul * c : *mul;
		return *mul > 0;
	}
	return false;
}

static void solve(struct diag *d, const struct ast_kernel *k, struct model_kernel *m)
{
	int best[MODEL_MAX_SYMBOL];
	for (int s = 0; s < m->nsymbols; s++) {
		best[s] = 8;
		for (int p = 0; p < m->nparams; p++) {
			const struct model_param *t = &m->params[p];
			for (int i = 0; i < t->rank; i++) {
				int64_t mul = 1, add = 0;
				if (!t->extent[i] || !linear(t->extent[i], s, &mul, &add))
					continue;
				int rank = (t->optional ? 4 : 0) + (t->role == ROLE_OUT ? 2 : 0) + (mul != 1 || add != 0);
				if (rank >= best[s])
					continue;
				best[s] = rank;
				m->symbols[s] = (struct model_symbol){m->symbols[s].name, p, i, mul, add};
			}
		}
		if (best[s] == 8)
			diag_add(d, DIAG_E_UNSOLVED, k->name.at, m->symbols[s].name);
	}
}

/* A comparison, has(), or these joined. */
static bool is_condition(const struct ast_expr *e)
{
	for (; e->kind == AST_BINARY && e->op <= AST_AND; e = e->a)
		if (!is_condition(e->b))
			return false;
	if (e->kind == AST_NOT)
		return is_condition(e->a);
	return e->kind == AST_CALL ? strcmp(e->name, "has") == 0 : e->kind == AST_BINARY && e->op >= AST_LT && e->op <= AST_NE;
}

int signature_build(struct arena *ar, struct diag *d, const struct ast_kernel *k, struct model_kernel *m)
{
	int before = d->reported;
	*m = (struct model_kernel){.name = k->name.text, .doc = k->doc};
	m->params = arena_alloc(ar, MODEL_MAX_PARAM * sizeof *m->params);
	m->symbols = arena_alloc(ar, MODEL_MAX_SYMBOL * sizeof *m->symbols);
	add_params(d, k, m);
	for (int p = 0; p < m->nparams; p++) {
		const struct ast_param *decl = signature_param(k, m->params[p].name);
		for (int i = 0; i < m->params[p].rank; i++) {
			const struct ast_expr *dim = decl->type.dims.items[i];
			m->params[p].extent[i] = extent_of(ar, d, m, dim, EXTENT_DEFINES);
			if (m->params[p].extent[i] && !extent_possible(d, m->params[p].extent[i], dim->at) && k->of.text)
				diag_note(d, k->name.at, "in the instance %s", k->name.text);
		}
	}
	for (int s = 0; s < m->nsymbols; s++)
		if (type_parameter(k, m->symbols[s].name) >= 0)
			diag_add(d, DIAG_E_TAKEN, k->name.at, m->symbols[s].name);
	if (d->reported == before)
		solve(d, k, m);
	m->requires = arena_alloc(ar, ((size_t)k->requires.n + MODEL_MAX_PARAM) * sizeof *m->requires);
	const char *symbols[MODEL_MAX_SYMBOL], *tensors[MODEL_MAX_PARAM];
	for (int i = 0; i < m->nsymbols; i++)
		symbols[i] = m->symbols[i].name;
	for (int i = 0; i < m->nparams; i++)
		tensors[i] = m->params[i].name;
	for (int i = 0; i < k->requires.n; i++) {
		const struct hexpr *e = extent_of(ar, d, m, k->requires.items[i], EXTENT_REQUIRE);
		if (e && !is_condition(k->requires.items[i]))
			diag_add(d, DIAG_E_NOT_CONDITION, k->requires.items[i]->at, "an integer");
		else if (e)
			m->requires[m->nrequires++] = (struct model_require){e, hexpr_shown(ar, e, symbols, tensors)};
	}
	for (int p = 0; p < m->nparams && d->reported == before; p++) {      /* e2m1: two elements share a byte */
		int64_t size;
		if (type_named(signature_param(k, m->params[p].name)->type.name.text).dtype != DT_E2M1 || !m->params[p].rank)
			continue;
		const struct hexpr *last = m->params[p].extent[m->params[p].rank - 1];
		const struct hexpr *even = hexpr_op(ar, HX_EQ, hexpr_op(ar, HX_REM, last, hexpr_const(ar, 2)), hexpr_const(ar, 0));
		if (!hexpr_is_const(even, &size) || !size)
			m->requires[m->nrequires++] = (struct model_require){even, hexpr_shown(ar, even, symbols, tensors)};
	}
	return d->reported == before ? 0 : -1;
}

/* --- instances */

int dsl_signature(struct arena *ar, const struct dsl_file *file, const struct dsl_kernel *k, struct diag *d, struct model_kernel *m)
{
	const struct ast_kernel *ast = k->ast;
	(void)file;
	if (signature_build(ar, d, ast, m) < 0)
		return -1;
	m->ninstances = k->npacked;
	m->instances = arena_alloc(ar, ((size_t)k->npacked + 1) * sizeof *m->instances);
	for (int i = 0; i < k->npacked; i++) {
		struct model_instance *out = &m->instances[i];
		out->name = k->packed[i].text;
		for (int p = 0; p < m->nparams; p++) {
			const char *name = signature_param(ast, m->params[p].name)->type.name.text;
			int t = type_parameter(ast, name);
			struct type type = t >= 0 ? (struct type){k->packed[i].types[t], k->packed[i].native[t]} : type_named(name);
			out->dtype[p] = type.dtype;
			out->native[p] = (uint8_t)type.native;
		}
	}
	return 0;
}
