/* parse.c -- feeds the lexer's tokens to the grammar.
 *
 * In: a text of any bytes.  Out: declarations added to a struct ast_file, messages.  Limits: MAX_TEXT bytes, the parser's stack,
 * AST_DEPTH; parsing stops at the limit of messages. */
#include <stdlib.h>
#include "ast.h"
#include "grammar.h"

enum { MAX_TEXT = 4 << 20 };

void *grammarAlloc(void *(*alloc)(size_t));
void grammar(void *parser, int kind, struct tok token, struct parse *p);
void grammarFree(void *parser, void (*release)(void *));

static void report_byte(struct parse *p, const struct tok *t)
{
	unsigned char c = (unsigned char)*t->at;
	char shown[16] = {(char)c};
	if (c < 0x20 || c >= 0x7f)
		diag_add(p->diag, DIAG_E_BYTE, t->span, c);
	else
		diag_add(p->diag, DIAG_E_CHARACTER, t->span, shown);
	p->stop |= p->diag->full;
}

void parse_text(struct arena *ar, const char *text, size_t n, int file_number, struct diag *d, struct ast_file *file)
{
	if (n > MAX_TEXT) {
		diag_add(d, DIAG_E_HUGE, (struct diag_span){file_number, 1, 1, 1}, n, MAX_TEXT);
		return;
	}
	char *copy = arena_string(ar, text, n);
	const unsigned char *start = (const unsigned char *)copy;
	struct lexer lx = {.cur = start, .limit = start + n, .line_start = start, .line = 1, .file = file_number};
	struct parse p = {.arena = ar, .diag = d, .file = file, .text = copy};
	void *parser = grammarAlloc(malloc);
	do {
		lex(&lx, &p.last);
		if (p.last.kind == TOK_BAD)
			report_byte(&p, &p.last);
		grammar(parser, p.last.kind, p.last, &p);
	} while (p.last.kind != 0 && !p.stop);
	grammarFree(parser, free);
}
