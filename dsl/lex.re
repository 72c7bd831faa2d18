/* lex.re -- bytes to tokens.  One function, no allocation, no table of names.
 *
 * In: a text of known size followed by one NUL (the sentinel; a NUL inside the text is a bad byte like any other).  Out: the
 * next token with its place.  A newline is a token only where a statement can end: outside ( ) and [ ], and not after an operator,
 * a comma or an opening bracket, so that such a line goes on.  The same end is supplied before `}` and at the end of the text, so
 * that `{ x = 1 }` needs no newline. */
#include "ast.h"
#include "grammar.h"

static void end(struct lexer *lx, struct tok *t, int kind)
{
	t->kind = kind;
	t->len = (int)((const char *)lx->cur - t->at);
	t->span.len = t->len;
	switch (kind) {
	case TOK_OR: case TOK_AND: case TOK_NOT: case TOK_IN: case TOK_BY: case TOK_WHERE: case TOK_OVER: case TOK_REQUIRE: case TOK_NL:
	case TOK_LT: case TOK_LE: case TOK_GT: case TOK_GE: case TOK_EQ: case TOK_NE: case TOK_ASSIGN: case TOK_ADDTO: case TOK_MAXTO: case TOK_MINTO:
	case TOK_PLUS: case TOK_MINUS: case TOK_STAR: case TOK_SLASH: case TOK_REM: case TOK_BAR: case TOK_COMMA: case TOK_COLON: case TOK_DOT:
	case TOK_DOTDOT: case TOK_ARROW: case TOK_LP: case TOK_LS: case TOK_LB:
		lx->may_end = false;
		break;
	default:
		lx->may_end = true;
	}
}

/* The end of a statement that the text does not spell. */
static void supply_end(struct lexer *lx, struct tok *t)
{
	lx->cur = (const unsigned char *)t->at;
	t->kind = TOK_NL;
	t->len = t->span.len = 0;
	lx->may_end = false;
}

void lex(struct lexer *lx, struct tok *t)
{
	const unsigned char *YYMARKER;
	for (;;) {
		t->at = (const char *)lx->cur;
		t->span = (struct diag_span){lx->file, lx->line, (int)(lx->cur - lx->line_start) + 1, 1};
	/*!re2c
		re2c:define:YYCTYPE  = "unsigned char";
		re2c:define:YYCURSOR = lx->cur;
		re2c:define:YYLIMIT  = lx->limit;
		re2c:yyfill:enable   = 0;
		re2c:eof             = 0;

		id  = [a-zA-Z_] [a-zA-Z0-9_]*;
		hex = "0" [xX] [0-9a-fA-F]+;
		int = [0-9]+ | hex;
		flt = [0-9]+ "." [0-9]+ ([eE] [+-]? [0-9]+)? | [0-9]+ [eE] [+-]? [0-9]+ | hex ("." [0-9a-fA-F]+)? [pP] [+-]? [0-9]+;

		[ \t\r]+    { continue; }
		"#" [^\n]*  { continue; }
		[\n;] {
			bool newline = *t->at == '\n';
			if (newline) {
				lx->line++;
				lx->line_start = lx->cur;
			}
			if (!lx->may_end || (lx->depth && newline))
				continue;
			end(lx, t, TOK_NL);
			return;
		}
		$ {
			lx->depth = 0;
			if (lx->may_end) {
				supply_end(lx, t);
				return;
			}
			t->kind = t->len = 0;
			t->span.len = 1;
			return;
		}

		"kernel"   { end(lx, t, TOK_KERNEL); return; }
		"fn"       { end(lx, t, TOK_FN); return; }
		"schedule" { end(lx, t, TOK_SCHEDULE); return; }
		"pack"     { end(lx, t, TOK_PACK); return; }
		"temp"     { end(lx, t, TOK_TEMP); return; }
		"inout"    { end(lx, t, TOK_INOUT); return; }
		"each"     { end(lx, t, TOK_EACH); return; }
		"for"      { end(lx, t, TOK_FOR); return; }
		"if"       { end(lx, t, TOK_IF); return; }
		"else"     { end(lx, t, TOK_ELSE); return; }
		"in"       { end(lx, t, TOK_IN); return; }
		"by"       { end(lx, t, TOK_BY); return; }
		"tiled"    { end(lx, t, TOK_TILED); return; }
		"where"    { end(lx, t, TOK_WHERE); return; }
		"require"  { end(lx, t, TOK_REQUIRE); return; }
		"over"     { end(lx, t, TOK_OVER); return; }
		"and"      { end(lx, t, TOK_AND); return; }
		"or"       { end(lx, t, TOK_OR); return; }
		"not"      { end(lx, t, TOK_NOT); return; }
		id         { end(lx, t, TOK_ID); return; }
		int        { end(lx, t, TOK_INT); return; }
		flt        { end(lx, t, TOK_FLOAT); return; }
		("max" | "min") "==" {
			lx->cur -= 2;
			end(lx, t, TOK_ID);
			return;
		}
		"max="  { end(lx, t, TOK_MAXTO); return; }
		"min="  { end(lx, t, TOK_MINTO); return; }
		"+="    { end(lx, t, TOK_ADDTO); return; }
		"->"    { end(lx, t, TOK_ARROW); return; }
		".."    { end(lx, t, TOK_DOTDOT); return; }
		"<="    { end(lx, t, TOK_LE); return; }
		">="    { end(lx, t, TOK_GE); return; }
		"=="    { end(lx, t, TOK_EQ); return; }
		"!="    { end(lx, t, TOK_NE); return; }
		"<"     { end(lx, t, TOK_LT); return; }
		">"     { end(lx, t, TOK_GT); return; }
		"="     { end(lx, t, TOK_ASSIGN); return; }
		"+"     { end(lx, t, TOK_PLUS); return; }
		"-"     { end(lx, t, TOK_MINUS); return; }
		"*"     { end(lx, t, TOK_STAR); return; }
		"/"     { end(lx, t, TOK_SLASH); return; }
		"%"     { end(lx, t, TOK_REM); return; }
		"|"     { end(lx, t, TOK_BAR); return; }
		"?"     { end(lx, t, TOK_QUESTION); return; }
		","     { end(lx, t, TOK_COMMA); return; }
		":"     { end(lx, t, TOK_COLON); return; }
		"."     { end(lx, t, TOK_DOT); return; }
		"("     { lx->depth++; end(lx, t, TOK_LP); return; }
		")"     { lx->depth -= lx->depth > 0; end(lx, t, TOK_RP); return; }
		"["     { lx->depth++; end(lx, t, TOK_LS); return; }
		"]"     { lx->depth -= lx->depth > 0; end(lx, t, TOK_RS); return; }
		"{"     { lx->depth = 0; end(lx, t, TOK_LB); return; }
		"}" {
			lx->depth = 0;
			if (lx->may_end) {
				supply_end(lx, t);
				return;
			}
			end(lx, t, TOK_RB);
			return;
		}
		*       { end(lx, t, TOK_BAD); return; }
	*/
	}
}
