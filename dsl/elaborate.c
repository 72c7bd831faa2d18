/* elaborate.c -- one kernel for one choice of types: AST to tile IR.
 *
 * In: a parsed file, a kernel, a binding of its dtype parameters, a target.  Out: struct ir_kernel, or messages.  Library
 * functions are inlined, so every name, axis and dtype is checked here, per instance, and nothing needs a type system of its
 * own.  A statement that fails is reported and skipped; names it would have made are bound to "no value", which is silent. */
#include <string.h>
#include "elab.h"

/* --- messages */

void elab_called_from(struct elab *E)
{
	int shown = 0;
	for (struct frame *f = E->frame; f && shown < 6; f = f->up, shown++)
		diag_note(E->d, f->at, "called from here (%s)", f->name);
}

/* Instructions of inlined library text belong to the call in the kernel's own text. */
void elab_at(struct elab *E, struct diag_span at)
{
	for (struct frame *f = E->frame; f && at.file; f = f->up)
		at = f->at;
	if (!at.file) {
		E->b.line = at.line;
		E->b.col = at.col;
	}
}

const char *elab_axis_name(struct elab *E, ir_axes axes)
{
	for (int a = 0; a < E->ph->naxes; a++)
		if (axes & IR_AXIS(a)) {
			const char *name = E->ph->axes[a].name, *dot = strchr(name, '.');
			return dot ? arena_string(E->ar, name, (size_t)(dot - name)) : name;
		}
	return "?";
}

const char *elab_type_name(const struct ir_ins *ins) { return dtype_info(ins->dtype)->name; }

/* --- scopes */

struct entry *scope_find(struct elab *E, const char *name)
{
	for (struct entry *e = E->top; e; e = e->next)
		if (strcmp(e->name, name) == 0)
			return e;
	return NULL;
}

const char *scope_hint(struct elab *E, const char *name)
{
	struct near x = {.name = name};
	for (struct entry *e = E->top; e; e = e->next)
		near_offer(&x, e->name);
	return near_hint(E->ar, &x);
}

struct entry *scope_add(struct elab *E, enum entry_kind kind, const char *name, struct diag_span at)
{
	struct entry *old = scope_find(E, name), *e = arena_alloc(E->ar, sizeof *e);
	if (old) {                        /* the old one stays visible */
		ELAB_ERROR(E, E_TAKEN, at, name);
		if (old->at.line)
			diag_note(E->d, old->at, "%s comes from here", name);
	} else if (type_named(name).dtype != DT_NONE) {
		ELAB_ERROR(E, E_TAKEN, at, name);
	}
	*e = (struct entry){.kind = kind, .name = old ? "" : name, .at = at, .block = E->block, .guards = E->nguards, .open = E->open_axes, .ranges = E->ranges, .next = E->top};
	E->top = e;
	return e;
}

struct scope scope_open(struct elab *E)
{
	struct scope s = {E->top, E->block, E->nguards, E->nfacts, E->open_axes};
	E->block = ++E->next_block;
	return s;
}

void scope_close(struct elab *E, struct scope s)
{
	E->top = s.top;
	E->block = s.block;
	E->nguards = s.nguards;
	E->nfacts = s.nfacts;
	E->open_axes = s.open_axes;
}

/* --- scalars of the whole phase */

static struct ir_builder at_anchor(struct elab *E)
{
	struct ir_builder b = E->b;
	b.block = E->ph->body;
	b.before = E->anchor;
	return b;
}

struct ir_ins *elab_leaf(struct elab *E, enum ir_op op, enum dtype t, int64_t imm)
{
	for (struct ir_ins *i = E->ph->body->first; i && i != E->anchor; i = i->next)
		if (i->op == op && i->imm == imm)
			return i;
	struct ir_builder b = at_anchor(E);
	return ir_leaf(&b, op, t, imm);
}

/* As ir_hexpr, but each part is made once a phase. */
static struct ir_ins *extent_parts(struct elab *E, const struct hexpr *e)
{
	static const uint8_t plain[HX_COUNT] = {[HX_ADD] = IR_ADD, [HX_SUB] = IR_SUB, [HX_MUL] = IR_MUL, [HX_DIV] = IR_DIV, [HX_EXACT] = IR_DIV,
		[HX_REM] = IR_REM, [HX_MIN] = IR_MIN, [HX_MAX] = IR_MAX};
	struct ir_builder b = at_anchor(E);
	if (e->op == HX_SYM)
		return elab_leaf(E, IR_SYM, DT_I32, e->imm);
	if (e->op != HX_CDIV && !plain[e->op])
		return ir_hexpr(&b, e);
	struct ir_ins *x = elab_extent(E, e->a), *y = elab_extent(E, e->b);
	if (e->op == HX_CDIV)
		return ir_cdiv(&b, x, y, hexpr_nonnegative(e->a) && hexpr_nonnegative(e->b));
	return ir_bin(&b, plain[e->op], x, y);
}

struct ir_ins *elab_extent(struct elab *E, const struct hexpr *e)
{
	for (int i = 0; i < E->nextents; i++)
		if (hexpr_equal(E->extents[i].e, e))
			return E->extents[i].ins;
	struct ir_ins *ins = extent_parts(E, e);
	if (E->nextents < (int)(sizeof E->extents / sizeof *E->extents)) {
		E->extents[E->nextents].e = e;
		E->extents[E->nextents++].ins = ins;
	}
	return ins;
}

/* Divisions that are known to leave no rest: X % Y == 0 in a require, N / 128 in an extent. */
static void note_exact(struct elab *E, const struct hexpr *num, const struct hexpr *den)
{
	struct ir_ins *n = elab_extent(E, num), *d = elab_extent(E, den);
	if (n && d && E->nexact < (int)(sizeof E->exact / sizeof *E->exact)) {
		E->exact[E->nexact].num = n;
		E->exact[E->nexact++].den = d;
	}
}

static void note_extent(struct elab *E, const struct hexpr *e)
{
	if (!e)
		return;
	note_extent(E, e->a);
	note_extent(E, e->b);
	if (e->op == HX_EXACT)
		note_exact(E, e->a, e->b);
}

static void note_require(struct elab *E, const struct hexpr *e)
{
	int64_t zero;
	if (e->op == HX_AND) {
		note_require(E, e->a);
		note_require(E, e->b);
	} else if (extent_too_wide(e, &zero)) {
		return;
	} else if (e->op == HX_EQ && e->a->op == HX_REM && hexpr_is_const(e->b, &zero) && zero == 0) {
		note_exact(E, e->a->a, e->a->b);
	} else if (e->op == HX_EQ || e->op == HX_LE || e->op == HX_LT) {
		struct ir_builder b = at_anchor(E);
		struct ir_ins *x = elab_extent(E, e->a), *y = elab_extent(E, e->b);
		struct lin f[2];
		int n = x && y ? lin_facts(ir_bin(&b, e->op == HX_EQ ? IR_EQ : e->op == HX_LE ? IR_LE : IR_LT, x, y), f) : 0;
		for (int i = 0; i < n && E->nfacts < MAX_FACTS; i++)
			E->facts[E->nfacts++] = f[i];
	}
}

/* X % c == 0, or that where an optional tensor is given: kept for what depends on it. */
static void keep_multiple(struct elab *E, const struct hexpr *e)
{
	const struct hexpr *of = e->op == HX_OR ? e->a : e, *unless = e->op == HX_OR ? e->b : NULL;
	int64_t by, zero;
	if (unless && (unless->op != HX_NOT || unless->a->op != HX_PRESENT))
		return;
	if (of->op != HX_EQ || of->a->op != HX_REM || of->a->a->op != HX_SYM || !hexpr_is_const(of->a->b, &by) || !hexpr_is_const(of->b, &zero) || zero)
		return;
	E->k->multiples[E->k->nmultiples++] = (struct ir_multiple){(int)of->a->a->imm, by, unless ? (int)unless->a->imm : -1};
}

/* --- dead code: what was made for proofs only, names never used */

static bool has_effect(const struct ir_ins *i)
{
	return i->op == IR_STORE || i->op == IR_UPDATE || i->op == IR_FOR || i->op == IR_IF || i->op == IR_YIELD;
}

static void count_uses(struct ir_ins *i, void *ctx)
{
	int *uses = ctx;
	for (int a = 0; a < i->nargs; a++)
		uses[i->args[a]->id]++;
}

/* Backwards, so that one walk removes whole expressions. */
static void sweep(struct ir_block *block, int *uses)
{
	for (struct ir_ins *i = block->last, *prev; i; i = prev) {
		prev = i->prev;
		if (i->other)
			sweep(i->other, uses);
		if (i->body)
			sweep(i->body, uses);
		if (has_effect(i) || uses[i->id])
			continue;
		for (int a = 0; a < i->nargs; a++)
			uses[i->args[a]->id]--;
		ir_remove(i);
	}
}

static void remove_dead(struct elab *E)
{
	int *uses = arena_alloc(E->ar, (size_t)E->k->next_id * sizeof *uses);
	for (int p = 0; p < E->k->nphases; p++) {
		ir_walk(E->k->phases[p].body, count_uses, uses);
		sweep(E->k->phases[p].body, uses);
	}
}

/* --- the kernel */

static struct type bound_type(const struct elab *E, const char *name)
{
	int t = type_parameter(E->kernel, name);
	struct type type = t >= 0 ? (struct type){E->binding->types[t], E->binding->native[t]} : type_named(name);
	if (type.native && E->target[0])
		type.dtype = model_native(E->target, type.native);
	return type;
}

struct type elab_type(struct elab *E, const char *name, struct diag_span at)
{
	struct entry *e = scope_find(E, name);
	struct type t = e && e->kind == ENTRY_TYPE ? e->type : type_named(name);
	if (t.native && E->target[0])
		t.dtype = model_native(E->target, t.native);
	if (t.dtype == DT_NONE)
		ELAB_ERROR(E, E_TYPE_NAME, at, name);
	return t;
}

static void make_params(struct elab *E)
{
	struct ir_kernel *k = E->k;
	const struct model_kernel *m = E->model;
	int temps = 0;
	for (int i = 0; i < E->kernel->body.n; i++)
		temps += E->kernel->body.items[i]->kind == STMT_TEMP;
	k->params = arena_alloc(E->ar, (size_t)(m->nparams + temps + 1) * sizeof *k->params);
	E->stored = arena_alloc(E->ar, (size_t)(m->nparams + temps + 1) * sizeof *E->stored);
	k->nparams = m->nparams;
	for (int p = 0; p < m->nparams; p++) {
		static const uint8_t role[] = {[ROLE_IN] = IR_IN, [ROLE_OUT] = IR_OUT, [ROLE_INOUT] = IR_INOUT};
		const struct model_param *from = &m->params[p];
		const struct ast_param *decl = signature_param(E->kernel, from->name);
		struct ir_param *to = &k->params[p];
		*to = (struct ir_param){.name = from->name, .is_tensor = from->is_tensor, .optional = from->optional, .list = from->list, .rank = from->rank,
			.has_default = from->has_default, .default_value = from->default_value, .line = decl->name.at.line, .col = decl->name.at.col};
		to->role = role[from->role];
		to->dtype = bound_type(E, decl->type.name.text).dtype;
		memcpy(to->extent, from->extent, sizeof to->extent);
	}
	k->nsymbols = m->nsymbols;
	k->symbols = arena_alloc(E->ar, ((size_t)m->nsymbols + 1) * sizeof *k->symbols);
	for (int s = 0; s < m->nsymbols; s++)
		k->symbols[s] = m->symbols[s].name;
}

/* Names of the declarations: the outermost scope of every phase. */
static void declare_globals(struct elab *E)
{
	for (int t = 0; t < E->kernel->types.n; t++) {
		const struct ast_name *n = &E->kernel->types.items[t].name;
		scope_add(E, ENTRY_TYPE, n->text, n->at)->type = bound_type(E, n->text);
	}
	for (int s = 0; s < E->model->nsymbols; s++)
		scope_add(E, ENTRY_SYMBOL, E->model->symbols[s].name, (struct diag_span){0})->number = s;
	for (int p = 0; p < E->model->nparams; p++) {
		bool tensor = E->model->params[p].is_tensor;
		scope_add(E, tensor ? ENTRY_TENSOR : ENTRY_SCALAR, E->model->params[p].name, signature_param(E->kernel, E->model->params[p].name)->name.at)->number = p;
	}
}

static void declare_temp(struct elab *E, const struct ast_stmt *s)
{
	struct ir_param *t = &E->k->params[E->k->nparams];
	struct type type = elab_type(E, s->type.name.text, s->type.name.at);
	*t = (struct ir_param){.name = s->name.text, .is_tensor = true, .role = IR_TEMP, .dtype = type.dtype, .rank = s->type.dims.n, .line = s->at.line, .col = s->at.col};
	if (s->type.list)
		ELAB_ERROR(E, E_LIST, s->type.at, s->name.text);
	if (t->rank == 0 || t->rank > MODEL_MAX_RANK) {
		ELAB_ERROR(E, E_TEMP, s->type.at, s->name.text, MODEL_MAX_RANK);
		t->rank = 0;
		return;
	}
	bool good = type.dtype != DT_NONE;
	for (int i = 0; i < t->rank; i++) {
		const struct ast_expr *dim = s->type.dims.items[i];
		t->extent[i] = extent_of(E->ar, E->d, (struct model_kernel *)E->model, dim, EXTENT_KNOWN);
		if (!t->extent[i] || !extent_possible(E->d, t->extent[i], dim->at)) {
			elab_called_from(E);
			good = false;
		}
	}
	if (good)
		scope_add(E, ENTRY_TENSOR, s->name.text, s->name.at)->number = E->k->nparams++;
}

static void elaborate_phase(struct elab *E, const struct ast_stmt *s)
{
	struct scope scope = scope_open(E);
	E->ph = &E->k->phases[E->k->nphases++];
	E->phase = E->k->nphases - 1;
	E->ph->body = arena_alloc(E->ar, sizeof *E->ph->body);
	E->ph->line = s->at.line;
	E->b = (struct ir_builder){.k = E->k, .ph = E->ph, .block = E->ph->body};
	E->anchor = ir_int(&E->b, DT_I1, 1);
	E->nextents = E->nexact = 0;
	E->explicit_axes = E->implicit_axes = E->open_axes = E->nonnegative = 0;
	for (int p = 0; p < E->k->nparams; p++)
		for (int i = 0; i < E->k->params[p].rank; i++)
			note_extent(E, E->k->params[p].extent[i]);
	for (int i = 0; i < E->model->nrequires; i++)
		note_require(E, E->model->requires[i].expr);
	elab_each(E, s);
	cross_look(E);
	ir_yield(&E->b, NULL, 0);
	scope_close(E, scope);
}

static void elaborate_body(struct elab *E)
{
	const struct ast_block *body = &E->kernel->body;
	E->k->phases = arena_alloc(E->ar, ((size_t)body->n + 1) * sizeof *E->k->phases);
	for (int i = 0; i < body->n; i++) {
		const struct ast_stmt *s = body->items[i];
		if (s->kind == STMT_TEMP)
			declare_temp(E, s);
		else if (s->kind == STMT_EACH)
			elaborate_phase(E, s);
		else
			ELAB_ERROR(E, E_TOP_LEVEL, s->at);
	}
	if (!E->k->nphases)
		ELAB_ERROR(E, E_EMPTY_KERNEL, E->kernel->name.at, E->kernel->name.text);
}

/* A result that no statement stores to would come back as it was allocated. */
static void results_stored(struct elab *E)
{
	for (int p = 0; p < E->model->nparams; p++)
		if (E->k->params[p].role == IR_OUT && !E->stored[p])
			ELAB_ERROR(E, E_NOT_STORED, signature_param(E->kernel, E->k->params[p].name)->name.at, E->k->params[p].name);
}

int dsl_elaborate(struct arena *ar, const struct dsl_file *file, const struct dsl_kernel *k, const struct dsl_binding *binding,
                  const char *target, struct diag *d, struct ir_kernel **out)
{
	struct elab *E = arena_alloc(ar, sizeof *E);
	struct model_kernel *model = arena_alloc(ar, sizeof *model);
	int before = d->reported;
	E->ar = ar;
	E->d = d;
	E->ast = file->ast;
	E->kernel = k->ast;
	E->binding = binding;
	E->target = target ? target : "";
	E->model = model;
	if (E->target[0] && model_native(E->target, 8) == DT_NONE) {
		diag_add(d, DIAG_E_TARGET, E->kernel->name.at, E->target);
		return -1;
	}
	if (signature_build(ar, d, E->kernel, model) < 0)
		return -1;
	E->k = arena_alloc(ar, sizeof *E->k);
	*E->k = (struct ir_kernel){.name = k->name, .instance = binding->text, .target = E->target[0] ? E->target : NULL, .file = file->name, .arena = ar};
	make_params(E);
	declare_globals(E);
	E->k->multiples = arena_alloc(ar, ((size_t)model->nrequires + 1) * sizeof *E->k->multiples);
	for (int i = 0; i < model->nrequires; i++)
		keep_multiple(E, model->requires[i].expr);
	struct frame instance = {E->kernel->name.at, E->kernel->of.text, 0, NULL};
	E->frame = E->kernel->of.text ? &instance : NULL;
	elaborate_body(E);
	if (d->reported == before)
		results_stored(E);
	E->frame = NULL;
	if (d->reported != before)
		return -1;
	remove_dead(E);
	*out = E->k;
	return 0;
}
