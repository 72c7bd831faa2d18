/* ast_dump.c -- a kernel's tree as text, for `dump --stage ast`.
 *
 * In: a kernel.  Out: one line a declaration or statement, indented; expressions as (operator operand ..), so that precedence
 * shows.  The tree's depth is limited (AST_DEPTH). */
#include <stdio.h>
#include <string.h>
#include "ast.h"

struct dump { struct arena *arena; char *text; size_t n, cap; };

static void put(struct dump *d, const char *s)
{
	size_t len = strlen(s);
	if (d->n + len + 1 > d->cap) {
		size_t cap = (d->n + len + 1) * 2;
		char *more = arena_alloc(d->arena, cap);
		if (d->n)
			memcpy(more, d->text, d->n);
		d->text = more;
		d->cap = cap;
	}
	memcpy(d->text + d->n, s, len + 1);
	d->n += len;
}

static void put_expr(struct dump *d, const struct ast_expr *e);

static void put_exprs(struct dump *d, const struct ast_exprs *list, const char *before)
{
	for (int i = 0; i < list->n; i++) {
		put(d, i ? " " : before);
		put_expr(d, list->items[i]);
	}
}

static void put_expr(struct dump *d, const struct ast_expr *e)
{
	static const char *const op[] = {"or", "and", "<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "/", "%"};
	switch (e->kind) {
	case AST_BAD: put(d, "?"); break;
	case AST_NAME: case AST_INT: case AST_FLOAT: put(d, e->name); break;
	case AST_MEMBER: put(d, e->name); put(d, "."); put(d, e->attribute); break;
	case AST_NEG: case AST_NOT:
		put(d, e->kind == AST_NEG ? "(- " : "(not ");
		put_expr(d, e->a);
		put(d, ")");
		break;
	case AST_BINARY:
		put(d, "(");
		put(d, op[e->op]);
		put(d, " ");
		put_expr(d, e->a);
		put(d, " ");
		put_expr(d, e->b);
		put(d, ")");
		break;
	case AST_BY:
		put_expr(d, e->a);
		put(d, " by ");
		put_expr(d, e->b);
		break;
	case AST_INDEX: case AST_CALL:
		put(d, e->kind == AST_INDEX ? "[" : "(");
		put(d, e->name);
		put_exprs(d, &e->args, " ");
		put_exprs(d, &e->over, " over ");
		put(d, e->kind == AST_INDEX ? "]" : ")");
		break;
	}
}

static void put_range(struct dump *d, const struct ast_range *r)
{
	put_expr(d, r->lo);
	if (r->hi) {
		put(d, "..");
		put_expr(d, r->hi);
	}
}

static void put_type(struct dump *d, const struct ast_type *t)
{
	put(d, t->list ? "list " : "");
	put(d, t->name.text);
	if (t->dims.n) {
		put_exprs(d, &t->dims, "[");
		put(d, "]");
	}
}

static void put_block(struct dump *d, const struct ast_block *b, int indent);

static void put_binders(struct dump *d, const struct ast_binders *list)
{
	for (int i = 0; i < list->n; i++) {
		const struct ast_binder *b = &list->items[i];
		put(d, i ? ", " : " ");
		put(d, b->name.text);
		put(d, " in ");
		put_range(d, &b->range);
		if (b->by) {
			put(d, " by ");
			put_expr(d, b->by);
		}
		put(d, b->tiled ? " tiled" : "");
		if (b->where) {
			put(d, " where ");
			put_expr(d, b->where);
		}
	}
}

static void put_stmt(struct dump *d, const struct ast_stmt *s, int indent)
{
	static const char *const word[] = {"each", "for", "if ", "", "", "", "temp "};
	static const char *const update[] = {" += ", " max= ", " min= "};
	for (int i = 0; i < indent; i++)
		put(d, "  ");
	put(d, word[s->kind]);
	put_binders(d, &s->binders);
	put_exprs(d, &s->lhs, "");
	if (s->kind == STMT_DECLARE || s->kind == STMT_TEMP) {
		put(d, s->name.text);
		put(d, ": ");
		put_type(d, &s->type);
	}
	if (s->kind == STMT_UPDATE)
		put(d, update[s->update]);
	else if (s->kind == STMT_ASSIGN || s->kind == STMT_DECLARE)
		put(d, " = ");
	if (s->rhs.lo)
		put_range(d, &s->rhs);
	put(d, "\n");
	put_block(d, &s->body, indent + 1);
	if (s->has_other) {
		for (int i = 0; i < indent; i++)
			put(d, "  ");
		put(d, "else\n");
		put_block(d, &s->other, indent + 1);
	}
}

static void put_block(struct dump *d, const struct ast_block *b, int indent)
{
	for (int i = 0; i < b->n; i++)
		put_stmt(d, b->items[i], indent);
}

static void put_params(struct dump *d, const struct ast_params *list, const char *kind)
{
	for (int i = 0; i < list->n; i++) {
		const struct ast_param *p = &list->items[i];
		put(d, "  ");
		put(d, p->inout ? "inout" : kind);
		put(d, " ");
		put(d, p->name.text);
		put(d, p->optional ? "?: " : ": ");
		put_type(d, &p->type);
		if (p->value) {
			put(d, " = ");
			put_expr(d, p->value);
		}
		put(d, "\n");
	}
}

char *ast_dump_kernel(struct arena *ar, const struct ast_kernel *k)
{
	struct dump d = {.arena = ar};
	put(&d, "kernel ");
	put(&d, k->name.text);
	put(&d, "\n");
	for (int t = 0; t < k->types.n; t++) {
		put(&d, "  type ");
		put(&d, k->types.items[t].name.text);
		for (int c = 0; c < k->types.items[t].choices.n; c++) {
			put(&d, c ? " | " : ": ");
			put(&d, k->types.items[t].choices.items[c].text);
		}
		put(&d, "\n");
	}
	put_params(&d, &k->params, "in");
	put_params(&d, &k->results, "out");
	for (int i = 0; i < k->requires.n; i++) {
		put(&d, "  require ");
		put_expr(&d, k->requires.items[i]);
		put(&d, "\n");
	}
	put_block(&d, &k->body, 1);
	return d.text;
}
