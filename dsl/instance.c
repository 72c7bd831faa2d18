/* instance.c -- named instances: `kernel silu_quant = act_quant[F: silu, G: 128]` from the template act_quant.
 *
 * In: a file whose instances only name their template and what they give.  Out: the same kernels as if their text stood there: the
 * template's tree, copied, with functions called by their own names, integers in place of their parameters, and dtype parameters
 * with the choices given.  Substitution in the tree, before anything is elaborated: no later stage knows of templates, and
 * places in messages are those of the template's text. */
#include <string.h>
#include "elab.h"

struct instance {
	struct arena *ar;
	struct diag *d;
	const struct ast_file *file;
	struct ast_kernel *k;
	const struct ast_kernel *from;
};

/* What the instance gives for a function or integer parameter; NULL for any other name. */
static const struct ast_typeparam *given_for(const struct instance *x, const char *name, enum ast_typekind kind)
{
	for (int i = 0; name && i < x->k->given.n; i++)
		if (x->k->given.items[i].kind == kind && strcmp(x->k->given.items[i].name.text, name) == 0)
			return &x->k->given.items[i];
	return NULL;
}

/* --- the tree, copied */

static struct ast_expr *copy_expr(struct instance *x, const struct ast_expr *e);

static struct ast_exprs copy_exprs(struct instance *x, const struct ast_exprs *list)
{
	struct ast_exprs out = {0};
	for (int i = 0; i < list->n; i++)
		ARENA_PUSH(x->ar, &out, copy_expr(x, list->items[i]));
	return out;
}

static struct ast_expr *copy_expr(struct instance *x, const struct ast_expr *e)
{
	if (!e)
		return NULL;
	const struct ast_typeparam *number = e->kind == AST_NAME ? given_for(x, e->name, PARAM_INT) : NULL;
	const struct ast_typeparam *fn = e->kind == AST_CALL ? given_for(x, e->name, PARAM_FN) : NULL;
	struct ast_expr *out = arena_copy(x->ar, number ? number->value : e, sizeof *e);
	out->at = e->at;
	out->name_at = e->name_at;
	if (fn)
		out->name = fn->choices.items[0].text;
	out->a = copy_expr(x, e->a);
	out->b = copy_expr(x, e->b);
	out->args = copy_exprs(x, &e->args);
	out->over = copy_exprs(x, &e->over);
	return out;
}

/* The text may not use a parameter's name for something of its own: it would be replaced there. */
static void check_name(struct instance *x, const char *name, struct diag_span at)
{
	if (given_for(x, name, PARAM_INT) || given_for(x, name, PARAM_FN))
		diag_add(x->d, DIAG_E_TAKEN, at, name);
}

static struct ast_type copy_type(struct instance *x, const struct ast_type *t)
{
	return (struct ast_type){t->name, copy_exprs(x, &t->dims), t->at, t->list};
}

static struct ast_range copy_range(struct instance *x, const struct ast_range *r)
{
	return (struct ast_range){copy_expr(x, r->lo), copy_expr(x, r->hi)};
}

static struct ast_block copy_block(struct instance *x, const struct ast_block *b)
{
	struct ast_block out = {0};
	for (int i = 0; i < b->n; i++) {
		struct ast_stmt *s = arena_copy(x->ar, b->items[i], sizeof *s);
		struct ast_binders binders = {0};
		for (int j = 0; j < s->binders.n; j++) {
			struct ast_binder n = s->binders.items[j];
			check_name(x, n.name.text, n.name.at);
			n.range = copy_range(x, &n.range);
			n.by = copy_expr(x, n.by);
			n.where = copy_expr(x, n.where);
			ARENA_PUSH(x->ar, &binders, n);
		}
		for (int j = 0; j < s->lhs.n; j++)
			if (s->lhs.items[j]->kind == AST_NAME)
				check_name(x, s->lhs.items[j]->name, s->lhs.items[j]->at);
		if (s->kind == STMT_DECLARE || s->kind == STMT_TEMP)
			check_name(x, s->name.text, s->name.at);
		s->binders = binders;
		s->body = copy_block(x, &s->body);
		s->other = copy_block(x, &s->other);
		s->lhs = copy_exprs(x, &s->lhs);
		s->rhs = copy_range(x, &s->rhs);
		s->type = copy_type(x, &s->type);
		ARENA_PUSH(x->ar, &out, s);
	}
	return out;
}

static struct ast_params copy_params(struct instance *x, const struct ast_params *list)
{
	struct ast_params out = {0};
	for (int i = 0; i < list->n; i++) {
		struct ast_param p = list->items[i];
		check_name(x, p.name.text, p.name.at);
		p.type = copy_type(x, &p.type);
		ARENA_PUSH(x->ar, &out, p);
	}
	return out;
}

/* --- what is given */

static bool fn_known(const struct ast_file *f, const char *name)
{
	bool known = builtin_exists(name);
	for (int i = 0; i < f->fns.n; i++)
		known |= strcmp(f->fns.items[i]->name.text, name) == 0;
	return known;
}

static bool choices_known(struct instance *x, const struct ast_typeparam *p, const struct ast_typeparam *given)
{
	for (int i = 0; i < given->choices.n; i++) {
		bool known = false;
		for (int c = 0; c < p->choices.n; c++)
			known |= strcmp(p->choices.items[c].text, given->choices.items[i].text) == 0;
		if (!known) {
			diag_add(x->d, DIAG_E_PACK_TYPE, given->choices.items[i].at, given->choices.items[i].text, p->name.text);
			return false;
		}
	}
	return true;
}

/* Fits what is given for parameter p; a dtype parameter that is not named keeps its choices. */
static bool take(struct instance *x, const struct ast_typeparam *p)
{
	static const char *const want[] = {"types", "a function", "an integer"};
	struct ast_typeparam *given = NULL;
	for (int i = 0; i < x->k->given.n; i++)
		if (strcmp(x->k->given.items[i].name.text, p->name.text) == 0)
			given = &x->k->given.items[i];
	if (!given && p->kind == PARAM_TYPE) {
		ARENA_PUSH(x->ar, &x->k->types, *p);
		return true;
	}
	if (!given || (p->kind == PARAM_INT) != (given->value != NULL) || (p->kind == PARAM_FN && given->choices.n != 1)) {
		diag_add(x->d, DIAG_E_GIVEN, given ? given->name.at : x->k->name.at, x->from->name.text, want[p->kind], p->name.text);
		diag_note(x->d, p->name.at, "%s comes from here", p->name.text);
		return false;
	}
	given->kind = p->kind;
	if (p->kind == PARAM_FN && !fn_known(x->file, given->choices.items[0].text)) {
		diag_add(x->d, DIAG_E_UNKNOWN_FUNCTION, given->choices.items[0].at, given->choices.items[0].text,
			builtin_hint(x->ar, x->file, given->choices.items[0].text));
		return false;
	}
	if (p->kind != PARAM_TYPE)
		return true;
	ARENA_PUSH(x->ar, &x->k->types, (struct ast_typeparam){.name = p->name, .choices = given->choices});
	return choices_known(x, p, given);
}

static bool takes(struct instance *x)
{
	const struct ast_typeparams *params = &x->from->types, *given = &x->k->given;
	bool good = true;
	for (int i = 0; i < params->n; i++)
		good &= take(x, &params->items[i]);
	for (int i = 0; i < given->n; i++) {
		bool known = false;
		for (int p = 0; p < params->n; p++)
			known |= strcmp(params->items[p].name.text, given->items[i].name.text) == 0;
		for (int j = 0; j < i; j++)
			known &= strcmp(given->items[j].name.text, given->items[i].name.text) != 0;
		if (!known)
			diag_add(x->d, DIAG_E_GIVEN_NAME, given->items[i].name.at, given->items[i].name.text, x->from->name.text);
		good &= known;
	}
	return good;
}

static const struct ast_kernel *template_named(const struct ast_file *f, const char *name)
{
	for (int i = 0; i < f->templates.n + f->kernels.n; i++) {
		const struct ast_kernel *k = i < f->templates.n ? f->templates.items[i] : f->kernels.items[i - f->templates.n];
		if (!k->of.text && strcmp(k->name.text, name) == 0)
			return k;
	}
	return NULL;
}

bool ast_wanted(const struct ast_kernel *k, const char *const *kernels)
{
	bool wanted = !kernels;
	for (; !wanted && *kernels; kernels++)
		wanted = strcmp(k->name.text, *kernels) == 0;
	return wanted;
}

void ast_instances(struct arena *ar, struct diag *d, struct ast_file *file, const char *const *kernels)
{
	for (int i = 0; i < file->kernels.n && !d->full; i++) {
		struct ast_kernel *k = file->kernels.items[i];
		struct instance x = {ar, d, file, k, k->of.text ? template_named(file, k->of.text) : NULL};
		if (!k->of.text || !ast_wanted(k, kernels))
			continue;
		if (!x.from) {
			diag_add(d, DIAG_E_UNKNOWN_KERNEL, k->of.at, k->of.text);
			continue;
		}
		if (!takes(&x))
			continue;
		k->doc = k->doc[0] ? k->doc : x.from->doc;
		k->params = copy_params(&x, &x.from->params);
		k->results = copy_params(&x, &x.from->results);
		k->requires = copy_exprs(&x, &x.from->requires);
		k->body = copy_block(&x, &x.from->body);
	}
}
