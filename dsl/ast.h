/* ast.h -- what the parser makes of a text: declarations, statements and expressions, with the place of each.
 *
 * Nodes are made by the functions below (one call in each grammar action), live in the arena of the file and never change.
 * Every expression and statement knows the depth below it; a node that would be deeper than AST_DEPTH is reported and replaced
 * by AST_BAD, so that every later walk over the tree can recurse.  A chain a + b + c, which is a tree to the left, is one level
 * deep however long it is; walks with much to hold follow it in a loop, the others recurse into it, up to AST_HEIGHT. */
#ifndef TDSL_AST_H
#define TDSL_AST_H
#include <stdbool.h>
#include <stdint.h>
#include "../base/arena.h"
#include "../base/dtype.h"
#include "diag.h"

enum { AST_DEPTH = 200, AST_HEIGHT = 4000 };

/* A token: a slice of the text.  kind is the grammar's code. */
struct tok { int kind; const char *at; int len; struct diag_span span; };

struct ast_name { const char *text; struct diag_span at; };
struct ast_names { struct ast_name *items; int n, cap; };

enum ast_op { AST_OR, AST_AND, AST_LT, AST_LE, AST_GT, AST_GE, AST_EQ, AST_NE, AST_ADD, AST_SUB, AST_MUL, AST_DIV, AST_REM };
enum ast_kind {
	AST_BAD,      /* reported already */
	AST_NAME,     /* name */
	AST_INT,      /* integer */
	AST_FLOAT,    /* number */
	AST_NEG, AST_NOT, /* a */
	AST_BINARY,   /* op, a, b */
	AST_INDEX,    /* name[args] */
	AST_CALL,     /* name(args over over) */
	AST_BY,       /* a by b, after `over` */
	AST_MEMBER,   /* name.attribute */
};
struct ast_exprs { struct ast_expr * *items; int n, cap; };
struct ast_expr {
	enum ast_kind kind;
	enum ast_op op;
	int depth, height;                    /* levels of nesting; levels of the tree */
	struct diag_span at, name_at;
	const char *name, *attribute;
	int64_t integer;
	double number;
	struct ast_expr *a, *b;
	struct ast_exprs args, over;          /* over: what follows the word `over` */
	bool has_over;
};

/* `bf16[M, N]`; `f32` has no dims. */
struct ast_type { struct ast_name name; struct ast_exprs dims; struct diag_span at; bool list; };

struct ast_range { struct ast_expr *lo, *hi; };      /* hi NULL: a single expression, lo */
struct ast_binder {                                   /* `n in lo..hi by 128 where cond` */
	struct ast_name name;
	struct ast_range range;
	struct ast_expr *by, *where;
	bool tiled;
};
struct ast_binders { struct ast_binder *items; int n, cap; };

enum ast_stmt_kind { STMT_EACH, STMT_FOR, STMT_IF, STMT_ASSIGN, STMT_UPDATE, STMT_DECLARE, STMT_TEMP };
enum ast_update { UPDATE_ADD, UPDATE_MAX, UPDATE_MIN };
struct ast_block { struct ast_stmt * *items; int n, cap; };
struct ast_stmt {
	enum ast_stmt_kind kind;
	struct diag_span at;
	int depth;
	struct ast_binders binders;           /* each, for */
	struct ast_block body, other;         /* each, for, if; other: else */
	bool has_other;
	struct ast_exprs lhs;                 /* assign, update: AST_NAME or AST_INDEX */
	struct ast_range rhs;                 /* assign (hi: a held axis), update, declare; if: the condition */
	enum ast_update update;
	struct ast_name name; struct ast_type type;   /* declare, temp */
};

struct ast_param {                            /* of a kernel */
	struct ast_name name; struct ast_type type;
	bool optional, inout;
	struct ast_expr *value;               /* default */
};
struct ast_params { struct ast_param *items; int n, cap; };

/* In a kernel: `T: bf16|f16`, `F: fn`, `G: int`.  In a named instance what it gives: types, a function, or an integer (value). */
enum ast_typekind { PARAM_TYPE, PARAM_FN, PARAM_INT };
struct ast_typeparam { struct ast_name name; struct ast_names choices; enum ast_typekind kind; struct ast_expr *value; };
struct ast_typeparams { struct ast_typeparam *items; int n, cap; };

struct ast_kernel {
	struct ast_name name;
	const char *doc;
	struct ast_name of;                   /* `kernel name = of[given]`: the rest is filled in by instance.c */
	struct ast_typeparams given;
	struct ast_typeparams types;
	struct ast_params params, results;
	struct ast_exprs requires;
	struct ast_block body;
};

struct ast_fnparam { struct ast_name name; bool is_type, is_axis; struct ast_expr *value; };
struct ast_fnparams { struct ast_fnparam *items; int n, cap; };
struct ast_fn {
	struct ast_name name;
	struct ast_fnparams params;
	struct ast_names results;
	struct ast_block body;
	struct ast_expr *expr;                /* `fn f(x) = expr`; then no body */
};

/* `name: word value value, word value` -- the lines of schedule and pack blocks. */
struct ast_word { const char *text; int64_t number; bool is_number, asked; struct diag_span at; };     /* asked: `w?` */
struct ast_words { struct ast_word *items; int n, cap; };
struct ast_entry { struct ast_name name; struct ast_words values; };
struct ast_entries { struct ast_entry *items; int n, cap; };
struct ast_line { struct ast_name name; struct ast_entries entries; };
struct ast_lines { struct ast_line *items; int n, cap; };
struct ast_schedule { struct ast_name kernel; struct ast_lines lines; };

struct ast_file {
	ARRAY(struct ast_kernel *) kernels;
	ARRAY(struct ast_kernel *) templates; /* kernels with a parameter that is a function or an integer */
	ARRAY(struct ast_fn *) fns;           /* at.file 1: the library's */
	ARRAY(struct ast_schedule *) schedules;
	struct ast_lines packs;
};

/* --- the parser's state, shared by grammar.y and parse.c */
struct parse {
	struct arena *arena;
	struct diag *diag;
	struct ast_file *file;
	const char *text;                     /* the whole text: comments above a kernel are found by looking back */
	struct tok last;
	bool torn;                            /* a syntax error was reported: what is left of its declaration is no news */
	bool stop;                            /* too many errors, or out of stack */
};

/* Parses `text` into `file` (which may hold another text's declarations already). */
void parse_text(struct arena *, const char *text, size_t n, int file_number, struct diag *, struct ast_file *file);

/* Whether the kernel's name is among `kernels`, NULL-terminated; NULL = all are wanted. */
bool ast_wanted(const struct ast_kernel *, const char *const *kernels);
/* Fills the named instances of `file` that are wanted from their templates (instance.c). */
void ast_instances(struct arena *, struct diag *, struct ast_file *file, const char *const *kernels);

/* --- constructors (ast.c) */
struct ast_name ast_name(struct parse *, struct tok);
struct ast_expr *ast_leaf(struct parse *, enum ast_kind, struct tok);
struct ast_expr *ast_unary(struct parse *, enum ast_kind, struct tok op, struct ast_expr *);
struct ast_expr *ast_binary(struct parse *, enum ast_op, struct ast_expr *, struct ast_expr *);
struct ast_expr *ast_by(struct parse *, struct ast_expr *, struct ast_expr *size);
struct ast_expr *ast_list(struct parse *, enum ast_kind, struct tok name, struct ast_exprs args, struct ast_exprs over, bool has_over, struct tok end);
struct ast_expr *ast_member(struct parse *, struct tok name, struct tok attribute);
struct ast_expr *ast_paren(struct parse *, struct tok open, struct ast_expr *, struct tok close);
struct ast_stmt *ast_stmt(struct parse *, enum ast_stmt_kind, struct diag_span, struct ast_block *body, struct ast_block *other);
struct ast_word ast_word(struct parse *, struct tok);
void ast_kernel_add(struct parse *, struct ast_kernel);
const char *ast_doc(struct parse *, struct tok kernel);
struct diag_span span_join(struct diag_span, struct diag_span);

/* --- the text of lib/, built in: its files one after the other, each after a line "#file NAME" (library.sh) */
extern const char dsl_library[];

/* --- text of the tree (ast_dump.c) */
char *ast_dump_kernel(struct arena *, const struct ast_kernel *);

/* --- lexer (lex.re): the next token; kind 0 at the end, TOK_BAD for a byte that starts none. */
struct lexer {
	const unsigned char *cur, *limit, *line_start;
	int line, file, depth;                /* depth: open ( and [ */
	bool may_end;                         /* the last token can end a statement, so that a newline after it counts */
};
void lex(struct lexer *, struct tok *);
#endif
