/* grammar.y -- the tile language's grammar.  Each action is one constructor of ast.h.
 *
 * In: tokens from lex.re.  Out: declarations in p->file.  The build fails on any conflict.  On an error the rest of the
 * statement is skipped; what was expected comes from the parser's own tables. */
%include {
#include <stdio.h>
#include <string.h>
#include "ast.h"
#include "grammar.h"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"

#define PUSH(list, ...) ARENA_PUSH(p->arena, &(list), __VA_ARGS__)

/* The next error is a new one. */
#define RECOVERED yypParser->yyerrcnt = -1

static const char *token_name(int code)
{
	static const char *const name[] = {
#define TOKEN(id, text) [TOK_##id] = text,
#include "tokens.def"
#undef TOKEN
	};
	return code > 0 && (size_t)code < sizeof name / sizeof *name && name[code] ? name[code] : "end of the text";
}

/* Of a token found: a name or a number as it stands there. */
static const char *token_text(struct parse *p, int code, struct tok t)
{
	bool varies = code == TOK_ID || code == TOK_INT || code == TOK_FLOAT;
	return varies ? arena_printf(p->arena, "'%.*s'", t.len < 60 ? t.len : 60, t.at) : token_name(code);
}
}
%name          grammar
%token_prefix  TOK_
%token_type    {struct tok}
%extra_argument {struct parse *p}
%stack_size    1000

%token BAD.     /* a byte that starts nothing: reported already, no rule takes it */
%left  OR.
%left  AND.
%right NOT.
%nonassoc LT LE GT GE EQ NE.
%left  PLUS MINUS.
%left  STAR SLASH REM.
%right NEG.

%syntax_error {
	char expected[256];
	int n = 0, count = 0;
	bool can[YYNTOKEN] = {false};
	for (int i = 1; i < YYNTOKEN; i++) {
		int action = yy_find_shift_action((YYCODETYPE)i, yypParser->yytos->stateno);
		can[i] = action < YY_MIN_REDUCE && action != YY_ERROR_ACTION;
	}
	bool expression = can[TOK_INT] && can[TOK_FLOAT], operation = can[TOK_PLUS] && can[TOK_STAR];
	expected[0] = 0;
	if (expression)
		n += snprintf(expected + n, sizeof expected - (size_t)n, "%san expression", count++ ? ", " : "");
	if (operation)
		n += snprintf(expected + n, sizeof expected - (size_t)n, "%san operator", count++ ? ", " : "");
	for (int i = 1; i < YYNTOKEN && n < 200; i++) {
		bool value = i == TOK_ID || i == TOK_INT || i == TOK_FLOAT || i == TOK_LP || i == TOK_MINUS || i == TOK_NOT;
		bool joins = i >= TOK_OR && i <= TOK_REM && i != TOK_NOT;
		if (can[i] && !(expression && value) && !(operation && joins))
			n += snprintf(expected + n, sizeof expected - (size_t)n, "%s%s", count++ ? ", " : "", token_name(i));
	}
	const char *want = count ? expected : "something else";
	if (yymajor >= TOK_LT && yymajor <= TOK_NE && operation)
		want = "'and' between two comparisons";
	else if (yymajor == TOK_ASSIGN && (can[TOK_EQ] || (can[TOK_REQUIRE] && !can[TOK_ARROW])))
		want = "'=='";
	bool outside = can[TOK_KERNEL], declares = yymajor == TOK_KERNEL || yymajor == TOK_SCHEDULE || yymajor == TOK_PACK;
	if (yymajor != TOK_BAD && !(p->torn && outside))
		diag_add(p->diag, DIAG_E_SYNTAX, TOKEN.span, token_text(p, yymajor, TOKEN), want);
	p->torn |= yymajor != TOK_BAD;
	p->stop |= p->diag->full || (declares && can[TOK_RB]);      /* the next declaration, in a block that was never closed */
}
%stack_overflow { diag_add(p->diag, DIAG_E_DEEP, p->last.span, AST_DEPTH, AST_HEIGHT); p->stop = true; }

file ::= items.
items ::= .
items ::= items NL.
items ::= items item NL.
items ::= items error NL.                          { RECOVERED; }

/* --- declarations */
%type typeparams   {struct ast_typeparams}
%type typeparamlist {struct ast_typeparams}
%type typeparam    {struct ast_typeparam}
%type givens       {struct ast_typeparams}
%type given        {struct ast_typeparam}
%type choices      {struct ast_names}
%type params       {struct ast_params}
%type paramlist    {struct ast_params}
%type param        {struct ast_param}
%type plainparam   {struct ast_param}
%type results      {struct ast_params}
%type type         {struct ast_type}
%type requires     {struct ast_exprs}
%type default      {struct ast_expr *}

item ::= KERNEL(K) ID(N) typeparams(T) LP params(P) RP nl results(R) requires(Q) block(B). {
	ast_kernel_add(p, (struct ast_kernel){.name = ast_name(p, N), .doc = ast_doc(p, K), .types = T, .params = P, .results = R, .requires = Q, .body = B});
}
item ::= KERNEL(K) ID(N) ASSIGN ID(O) LS givens(G) RS. {
	ast_kernel_add(p, (struct ast_kernel){.name = ast_name(p, N), .doc = ast_doc(p, K), .of = ast_name(p, O), .given = G});
}
typeparams(A) ::= .                                { A = (struct ast_typeparams){0}; }
typeparams(A) ::= LS typeparamlist(L) RS.          { A = L; }
typeparamlist(A) ::= typeparam(T).                 { A = (struct ast_typeparams){0}; PUSH(A, T); }
typeparamlist(A) ::= typeparamlist(L) COMMA typeparam(T). { A = L; PUSH(A, T); }
typeparam(A) ::= ID(N) COLON FN.                   { A = (struct ast_typeparam){.name = ast_name(p, N), .kind = PARAM_FN}; }
typeparam(A) ::= ID(N) COLON choices(C). {
	A = (struct ast_typeparam){ast_name(p, N), C, C.n == 1 && strcmp(C.items[0].text, "int") == 0 ? PARAM_INT : PARAM_TYPE, NULL};
}
givens(A) ::= given(T).                            { A = (struct ast_typeparams){0}; PUSH(A, T); }
givens(A) ::= givens(L) COMMA given(T).            { A = L; PUSH(A, T); }
given(A) ::= ID(N) COLON choices(C).               { A = (struct ast_typeparam){.name = ast_name(p, N), .choices = C}; }
given(A) ::= ID(N) COLON INT(I).                   { A = (struct ast_typeparam){.name = ast_name(p, N), .value = ast_leaf(p, AST_INT, I)}; }
choices(A) ::= ID(N).                              { A = (struct ast_names){0}; PUSH(A, ast_name(p, N)); }
choices(A) ::= choices(L) BAR ID(N).               { A = L; PUSH(A, ast_name(p, N)); }
params(A) ::= .                                    { A = (struct ast_params){0}; }
params(A) ::= paramlist(L).                        { A = L; }
paramlist(A) ::= param(P).                         { A = (struct ast_params){0}; PUSH(A, P); }
paramlist(A) ::= paramlist(L) COMMA param(P).      { A = L; PUSH(A, P); }
param(A) ::= plainparam(P).                        { A = P; }
param(A) ::= INOUT plainparam(P).                  { A = P; A.inout = true; }
plainparam(A) ::= ID(N) COLON type(T) default(D).  { A = (struct ast_param){ast_name(p, N), T, false, false, D}; }
plainparam(A) ::= ID(N) QUESTION COLON type(T).    { A = (struct ast_param){ast_name(p, N), T, true, false, NULL}; }
default(A) ::= .                                   { A = NULL; }
default(A) ::= ASSIGN expr(E).                     { A = E; }
results(A) ::= .                                   { A = (struct ast_params){0}; }
results(A) ::= ARROW plainparam(P) nl.             { A = (struct ast_params){0}; PUSH(A, P); }
results(A) ::= ARROW LP paramlist(L) RP nl.        { A = L; }
requires(A) ::= .                                  { A = (struct ast_exprs){0}; }
requires(A) ::= requires(L) REQUIRE exprs(E) nl.   { A = L; for (int i = 0; i < E.n; i++) PUSH(A, E.items[i]); }
type(A) ::= ID(N).                                 { A = (struct ast_type){ast_name(p, N), {0}, N.span, false}; }
type(A) ::= ID(N) LS exprs(E) RS(R).               { A = (struct ast_type){ast_name(p, N), E, span_join(N.span, R.span), false}; }
type(A) ::= ID(L) ID(N) LS exprs(E) RS(R).         {
	A = (struct ast_type){ast_name(p, N), E, span_join(L.span, R.span), true};
	if (L.len != 4 || memcmp(L.at, "list", 4) != 0)
		diag_add(p->diag, DIAG_E_LIST_WORD, L.span, L.len, L.at);
}
nl ::= .
nl ::= nl NL.

%type fnparams     {struct ast_fnparams}
%type fnlist       {struct ast_fnparams}
%type fnparam      {struct ast_fnparam}
%type names        {struct ast_names}
%type ids          {struct ast_names}
item ::= FN ID(N) LP fnparams(P) RP nl ARROW names(R) nl block(B). {
	struct ast_fn *f = arena_alloc(p->arena, sizeof *f);
	*f = (struct ast_fn){ast_name(p, N), P, R, B, NULL};
	PUSH(p->file->fns, f);
}
item ::= FN ID(N) LP fnparams(P) RP ASSIGN expr(E). {
	struct ast_fn *f = arena_alloc(p->arena, sizeof *f);
	*f = (struct ast_fn){ast_name(p, N), P, {0}, {0}, E};
	PUSH(p->file->fns, f);
}
fnparams(A) ::= .                                  { A = (struct ast_fnparams){0}; }
fnparams(A) ::= fnlist(L).                         { A = L; }
fnparams(A) ::= fnlist(L) OVER fnlist(M). {
	A = L;
	for (int i = 0; i < M.n; i++) {
		M.items[i].is_axis = !M.items[i].is_type;
		PUSH(A, M.items[i]);
	}
}
fnlist(A) ::= fnparam(P).                          { A = (struct ast_fnparams){0}; PUSH(A, P); }
fnlist(A) ::= fnlist(L) COMMA fnparam(P).          { A = L; PUSH(A, P); }
fnparam(A) ::= ID(N).                              { A = (struct ast_fnparam){ast_name(p, N), false, false, NULL}; }
fnparam(A) ::= ID(N) COLON ID(T) default(D). {
	A = (struct ast_fnparam){ast_name(p, N), true, false, D};
	if (T.len != 4 || memcmp(T.at, "type", 4) != 0)
		diag_add(p->diag, DIAG_E_FN_PARAM, T.span, T.len, T.at);
}
names(A) ::= ID(N).                                { A = (struct ast_names){0}; PUSH(A, ast_name(p, N)); }
names(A) ::= LP ids(L) RP.                         { A = L; }
ids(A) ::= ID(N).                                  { A = (struct ast_names){0}; PUSH(A, ast_name(p, N)); }
ids(A) ::= ids(L) COMMA ID(N).                     { A = L; PUSH(A, ast_name(p, N)); }

%type lines        {struct ast_lines}
%type line         {struct ast_line}
%type entries      {struct ast_entries}
%type entry        {struct ast_entry}
item ::= SCHEDULE ID(N) LB lines(L) RB. {
	struct ast_schedule *s = arena_alloc(p->arena, sizeof *s);
	*s = (struct ast_schedule){ast_name(p, N), L};
	PUSH(p->file->schedules, s);
}
item ::= PACK LB lines(L) RB. {
	for (int i = 0; i < L.n; i++)
		PUSH(p->file->packs, L.items[i]);
}
lines(A) ::= .                                     { A = (struct ast_lines){0}; }
lines(A) ::= lines(L) line(I) NL.                  { A = L; PUSH(A, I); }
lines(A) ::= lines(L) error NL.                    { A = L; RECOVERED; }
line(A) ::= ID(N).                                 { A = (struct ast_line){ast_name(p, N), {0}}; }
line(A) ::= ID(N) COLON entries(E).                { A = (struct ast_line){ast_name(p, N), E}; }
entries(A) ::= entry(E).                           { A = (struct ast_entries){0}; PUSH(A, E); }
entries(A) ::= entries(L) COMMA entry(E).          { A = L; PUSH(A, E); }
entry(A) ::= ID(N).                                { A = (struct ast_entry){ast_name(p, N), {0}}; }
entry(A) ::= entry(L) ID(W).                       { A = L; PUSH(A.values, ast_word(p, W)); }
entry(A) ::= entry(L) INT(W).                      { A = L; PUSH(A.values, ast_word(p, W)); }
entry(A) ::= entry(L) ID(W) QUESTION(Q). {
	struct ast_word word = ast_word(p, W);
	word.asked = true;
	if (strcmp(L.name.text, "with"))
		diag_add(p->diag, DIAG_E_PACK_ASKED, Q.span, word.text);
	A = L;
	PUSH(A.values, word);
}

/* --- statements */
%type block        {struct ast_block}
%type stmts        {struct ast_block}
%type stmt         {struct ast_stmt *}
%type binders      {struct ast_binders}
%type binder       {struct ast_binder}
%type step         {struct ast_binder}
%type where        {struct ast_expr *}
%type range        {struct ast_range}
%type lhss         {struct ast_exprs}
%type lhs          {struct ast_expr *}
%type update       {int}

block(A) ::= LB stmts(S) RB.                       { A = S; }
stmts(A) ::= .                                     { A = (struct ast_block){0}; }
stmts(A) ::= stmts(L) NL.                          { A = L; }
stmts(A) ::= stmts(L) stmt(S) NL.                  { A = L; if (S) PUSH(A, S); }
stmts(A) ::= stmts(L) error NL.                    { A = L; RECOVERED; }
stmt(A) ::= EACH(K) binders(L) block(B).           { A = ast_stmt(p, STMT_EACH, K.span, &B, NULL); A->binders = L; }
stmt(A) ::= FOR(K) binder(L) block(B).             { A = ast_stmt(p, STMT_FOR, K.span, &B, NULL); PUSH(A->binders, L); }
stmt(A) ::= IF(K) expr(C) block(B).                { A = ast_stmt(p, STMT_IF, K.span, &B, NULL); A->rhs.lo = C; }
stmt(A) ::= IF(K) expr(C) block(B) ELSE block(O).  { A = ast_stmt(p, STMT_IF, K.span, &B, &O); A->rhs.lo = C; }
stmt(A) ::= lhss(L) ASSIGN range(R).               { A = ast_stmt(p, STMT_ASSIGN, L.items[0]->at, NULL, NULL); A->lhs = L; A->rhs = R; }
stmt(A) ::= lhss(L) update(U) expr(E). {
	A = ast_stmt(p, STMT_UPDATE, L.items[0]->at, NULL, NULL);
	A->lhs = L;
	A->rhs.lo = E;
	A->update = (enum ast_update)U;
}
stmt(A) ::= ID(N) COLON type(T) ASSIGN expr(E). {
	A = ast_stmt(p, STMT_DECLARE, N.span, NULL, NULL);
	A->name = ast_name(p, N);
	A->type = T;
	A->rhs.lo = E;
}
stmt(A) ::= TEMP ID(N) COLON type(T). {
	A = ast_stmt(p, STMT_TEMP, N.span, NULL, NULL);
	A->name = ast_name(p, N);
	A->type = T;
}
update(A) ::= ADDTO.                               { A = UPDATE_ADD; }
update(A) ::= MAXTO.                               { A = UPDATE_MAX; }
update(A) ::= MINTO.                               { A = UPDATE_MIN; }
lhss(A) ::= lhs(E).                                { A = (struct ast_exprs){0}; PUSH(A, E); }
lhss(A) ::= lhss(L) COMMA lhs(E).                  { A = L; PUSH(A, E); }
lhs(A) ::= ID(N).                                  { A = ast_leaf(p, AST_NAME, N); }
lhs(A) ::= ID(N) LS exprs(E) RS(R).                { A = ast_list(p, AST_INDEX, N, E, (struct ast_exprs){0}, false, R); }

binders(A) ::= binder(B).                          { A = (struct ast_binders){0}; PUSH(A, B); }
binders(A) ::= binders(L) COMMA binder(B).         { A = L; PUSH(A, B); }
binder(A) ::= ID(N) IN range(R) step(S) where(W).  { A = (struct ast_binder){ast_name(p, N), R, S.by, W, S.tiled}; }
range(A) ::= expr(E).                              { A = (struct ast_range){E, NULL}; }
range(A) ::= expr(E) DOTDOT expr(F).               { A = (struct ast_range){E, F}; }
step(A) ::= .                                      { A = (struct ast_binder){0}; }
step(A) ::= BY expr(E).                            { A = (struct ast_binder){0}; A.by = E; }
step(A) ::= TILED.                                 { A = (struct ast_binder){0}; A.tiled = true; }
where(A) ::= .                                     { A = NULL; }
where(A) ::= WHERE expr(E).                        { A = E; }

/* --- expressions */
%type expr         {struct ast_expr *}
%type exprs        {struct ast_exprs}
%type overs        {struct ast_exprs}
%type over         {struct ast_expr *}

exprs(A) ::= expr(E).                              { A = (struct ast_exprs){0}; PUSH(A, E); }
exprs(A) ::= exprs(L) COMMA expr(E).               { A = L; PUSH(A, E); }
expr(A) ::= expr(X) OR expr(Y).                    { A = ast_binary(p, AST_OR, X, Y); }
expr(A) ::= expr(X) AND expr(Y).                   { A = ast_binary(p, AST_AND, X, Y); }
expr(A) ::= NOT(O) expr(X).                        { A = ast_unary(p, AST_NOT, O, X); }
expr(A) ::= expr(X) LT expr(Y).                    { A = ast_binary(p, AST_LT, X, Y); }
expr(A) ::= expr(X) LE expr(Y).                    { A = ast_binary(p, AST_LE, X, Y); }
expr(A) ::= expr(X) GT expr(Y).                    { A = ast_binary(p, AST_GT, X, Y); }
expr(A) ::= expr(X) GE expr(Y).                    { A = ast_binary(p, AST_GE, X, Y); }
expr(A) ::= expr(X) EQ expr(Y).                    { A = ast_binary(p, AST_EQ, X, Y); }
expr(A) ::= expr(X) NE expr(Y).                    { A = ast_binary(p, AST_NE, X, Y); }
expr(A) ::= expr(X) PLUS expr(Y).                  { A = ast_binary(p, AST_ADD, X, Y); }
expr(A) ::= expr(X) MINUS expr(Y).                 { A = ast_binary(p, AST_SUB, X, Y); }
expr(A) ::= expr(X) STAR expr(Y).                  { A = ast_binary(p, AST_MUL, X, Y); }
expr(A) ::= expr(X) SLASH expr(Y).                 { A = ast_binary(p, AST_DIV, X, Y); }
expr(A) ::= expr(X) REM expr(Y).                   { A = ast_binary(p, AST_REM, X, Y); }
expr(A) ::= MINUS(O) expr(X). [NEG]                { A = ast_unary(p, AST_NEG, O, X); }
expr(A) ::= ID(N).                                 { A = ast_leaf(p, AST_NAME, N); }
expr(A) ::= INT(N).                                { A = ast_leaf(p, AST_INT, N); }
expr(A) ::= FLOAT(N).                              { A = ast_leaf(p, AST_FLOAT, N); }
expr(A) ::= LP(L) expr(E) RP(R).                   { A = ast_paren(p, L, E, R); }
expr(A) ::= ID(N) LS exprs(E) RS(R).               { A = ast_list(p, AST_INDEX, N, E, (struct ast_exprs){0}, false, R); }
expr(A) ::= ID(N) LP RP(R).                        { A = ast_list(p, AST_CALL, N, (struct ast_exprs){0}, (struct ast_exprs){0}, false, R); }
expr(A) ::= ID(N) LP exprs(E) RP(R).               { A = ast_list(p, AST_CALL, N, E, (struct ast_exprs){0}, false, R); }
expr(A) ::= ID(N) LP exprs(E) OVER overs(V) RP(R). { A = ast_list(p, AST_CALL, N, E, V, true, R); }
overs(A) ::= over(E).                              { A = (struct ast_exprs){0}; PUSH(A, E); }
overs(A) ::= overs(L) COMMA over(E).               { A = L; PUSH(A, E); }
over(A) ::= expr(E).                               { A = E; }
over(A) ::= expr(E) BY expr(G).                    { A = ast_by(p, E, G); }
expr(A) ::= ID(N) DOT ID(M).                       { A = ast_member(p, N, M); }
