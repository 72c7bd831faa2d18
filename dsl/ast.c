/* ast.c -- the constructors that grammar.y's actions call.
 *
 * In: tokens and nodes.  Out: nodes in the file's arena, with the place that messages underline and the depth below. */
#include "ast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { REST_OF_LINE = 1 << 16 };

struct diag_span span_join(struct diag_span a, struct diag_span b)
{
	if (a.file == b.file && a.line == b.line)
		a.len = b.col + b.len - a.col;
	else
		a.len = REST_OF_LINE;
	return a;
}

struct ast_name ast_name(struct parse *p, struct tok t)
{
	return (struct ast_name){arena_string(p->arena, t.at, (size_t)t.len), t.span};
}

struct below { int depth, height; };

/* What lies below a node, with one more operand. */
static struct below below_with(struct below b, const struct ast_expr *e)
{
	return (struct below){e->depth > b.depth ? e->depth : b.depth, e->height > b.height ? e->height : b.height};
}

static struct below below_list(struct below b, struct ast_exprs list)
{
	for (int i = 0; i < list.n; i++)
		b = below_with(b, list.items[i]);
	return b;
}

/* A node over these, or BAD where that is too deep. */
static struct ast_expr *node(struct parse *p, enum ast_kind kind, struct below b, struct diag_span at)
{
	struct ast_expr *e = arena_alloc(p->arena, sizeof *e);
	*e = (struct ast_expr){.kind = kind, .depth = b.depth + 1, .height = b.height + 1, .at = at, .name_at = at};
	if (e->depth > AST_DEPTH || e->height > AST_HEIGHT) {
		diag_add(p->diag, DIAG_E_DEEP, at, AST_DEPTH, AST_HEIGHT);
		p->stop = true;
		e->kind = AST_BAD;
		e->depth = e->height = 0;
	}
	return e;
}

static int64_t integer_of(struct parse *p, struct tok t, const char *text)
{
	errno = 0;
	unsigned long long v = strtoull(text, NULL, text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10);
	if (errno || v > INT64_MAX)
		diag_add(p->diag, DIAG_E_INTEGER, t.span, text);
	return errno || v > INT64_MAX ? 0 : (int64_t)v;
}

struct ast_expr *ast_leaf(struct parse *p, enum ast_kind kind, struct tok t)
{
	struct ast_expr *e = node(p, kind, (struct below){0}, t.span);
	e->name = arena_string(p->arena, t.at, (size_t)t.len);
	if (kind == AST_INT)
		e->integer = integer_of(p, t, e->name);
	if (kind == AST_FLOAT)
		e->number = strtod(e->name, NULL);
	return e;
}

struct ast_expr *ast_unary(struct parse *p, enum ast_kind kind, struct tok op, struct ast_expr *a)
{
	struct ast_expr *e = node(p, kind, below_with((struct below){0}, a), span_join(op.span, a->at));
	e->a = a;
	return e;
}

struct ast_expr *ast_binary(struct parse *p, enum ast_op op, struct ast_expr *a, struct ast_expr *b)
{
	struct below all = below_with(below_with((struct below){0}, a), b);
	if (a->kind == AST_BINARY && b->depth < a->depth)
		all.depth = a->depth - 1;                 /* the next of a chain */
	struct ast_expr *e = node(p, AST_BINARY, all, span_join(a->at, b->at));
	e->op = op;
	e->a = a;
	e->b = b;
	return e;
}

struct ast_expr *ast_by(struct parse *p, struct ast_expr *a, struct ast_expr *size)
{
	struct ast_expr *e = node(p, AST_BY, below_with(below_with((struct below){0}, a), size), span_join(a->at, size->at));
	e->a = a;
	e->b = size;
	return e;
}

struct ast_expr *ast_list(struct parse *p, enum ast_kind kind, struct tok name, struct ast_exprs args, struct ast_exprs over, bool has_over, struct tok end)
{
	struct ast_expr *e = node(p, kind, below_list(below_list((struct below){0}, args), over), span_join(name.span, end.span));
	e->name = arena_string(p->arena, name.at, (size_t)name.len);
	e->name_at = name.span;
	e->args = args;
	e->over = over;
	e->has_over = has_over;
	return e;
}

struct ast_expr *ast_member(struct parse *p, struct tok name, struct tok attribute)
{
	struct ast_expr *e = node(p, AST_MEMBER, (struct below){0}, span_join(name.span, attribute.span));
	e->name = arena_string(p->arena, name.at, (size_t)name.len);
	e->name_at = name.span;
	e->attribute = arena_string(p->arena, attribute.at, (size_t)attribute.len);
	return e;
}

/* The same expression; its place now includes the brackets. */
struct ast_expr *ast_paren(struct parse *p, struct tok open, struct ast_expr *e, struct tok close)
{
	struct ast_expr *same = arena_copy(p->arena, e, sizeof *e);
	same->at = span_join(open.span, close.span);
	return same;
}

struct ast_stmt *ast_stmt(struct parse *p, enum ast_stmt_kind kind, struct diag_span at, struct ast_block *body, struct ast_block *other)
{
	struct ast_stmt *s = arena_alloc(p->arena, sizeof *s);
	*s = (struct ast_stmt){.kind = kind, .at = at, .depth = 1, .has_other = other != NULL};
	if (body)
		s->body = *body;
	if (other)
		s->other = *other;
	for (int i = 0; i < s->body.n + s->other.n; i++) {
		const struct ast_stmt *inner = i < s->body.n ? s->body.items[i] : s->other.items[i - s->body.n];
		if (inner->depth >= s->depth)
			s->depth = inner->depth + 1;
	}
	if (s->depth > AST_DEPTH) {
		diag_add(p->diag, DIAG_E_DEEP, at, AST_DEPTH, AST_HEIGHT);
		p->stop = true;
		s->body.n = s->other.n = 0;
		s->depth = 1;
	}
	return s;
}

struct ast_word ast_word(struct parse *p, struct tok t)
{
	struct ast_word w = {.text = arena_string(p->arena, t.at, (size_t)t.len), .is_number = t.at[0] >= '0' && t.at[0] <= '9', .at = t.span};
	if (w.is_number)
		w.number = integer_of(p, t, w.text);
	return w;
}

void ast_kernel_add(struct parse *p, struct ast_kernel k)
{
	bool open = false;
	for (int i = 0; i < k.types.n; i++)
		open |= k.types.items[i].kind != PARAM_TYPE;
	struct ast_kernel *kept = arena_copy(p->arena, &k, sizeof k);
	if (open)
		ARENA_PUSH(p->arena, &p->file->templates, kept);
	else
		ARENA_PUSH(p->arena, &p->file->kernels, kept);
}

/* The comment lines right above a declaration, without '#' and the blank after it. */
const char *ast_doc(struct parse *p, struct tok kernel)
{
	const char *first = kernel.at, *line = kernel.at - (kernel.span.col - 1);
	while (line > p->text) {
		const char *above = line - 1;
		while (above > p->text && above[-1] != '\n')
			above--;
		if (*above != '#')
			break;
		first = line = above;
	}
	char *doc = arena_alloc(p->arena, (size_t)(kernel.at - first) + 1);
	size_t n = 0;
	for (const char *s = first; s < kernel.at && *s == '#';) {
		for (s += s[1] == ' ' ? 2 : 1; s < kernel.at && *s != '\n'; s++)
			doc[n++] = *s;
		s += s < kernel.at;
		if (s < kernel.at && *s == '#')
			doc[n++] = '\n';
	}
	doc[n] = 0;
	return doc;
}
