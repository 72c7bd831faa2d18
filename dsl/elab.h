/* elab.h -- what the elaborator's files share: values, names in scope, guards, the linear prover.
 *
 *   signature.c      declarations: dtype parameters, symbols, extents, requires; model_kernel
 *   elaborate.c      a kernel and its phases; scopes; diagnostics with the chain of calls
 *   elab_index.c     each and held axes: indices and the guards that say which of their positions are present
 *   elab_for.c       for: bounds, state carried through the loop
 *   elab_stmt.c      statements
 *   elab_expr.c      expressions
 *   elab_call.c      builtin functions and inlining
 *   elab_access.c    tensor accesses and presence
 *   elab_tiles.c     updates that would depend on the size of a tile
 *   elab_parts.c     what is reduced over a tile, where it does not come to what the whole axis would give
 *   elab_cross.c     elements that one workgroup stores and another one accesses
 *   near.c           known names like one that is not known
 *   linear.c         linear forms over index positions and symbols, and what follows from the guards
 *
 * Two kinds of axes.  Those that the text works with (tiled and held ones, the inside of `by` groups) are *explicit*: they
 * count in reductions and assignments.  An untiled `each` index and the group number of `each n in N by g` are *implicit*: for
 * the text they are one position, but the schedule may hold several, so values carry their axes in the IR and nobody has to
 * name them.  The index of an untiled `for` and its group number are scalars. */
#ifndef TDSL_ELAB_H
#define TDSL_ELAB_H
#include "ast.h"
#include "../base/num.h"
#include "dsl.h"

enum { MAX_GUARDS = 64, MAX_FACTS = 128, MAX_CALLS = 24, MAX_NESTING = 1200, MAX_INS = 100000, MAX_ASSIGNED = 64, MAX_HELD = 65536 };

/* --- linear forms: c + sum of k * atom over i32 instructions.  bad: does not fit. */
enum { LIN_TERMS = 12 };
struct lin { int64_t c; int n; bool bad; struct { const struct ir_ins *atom; int64_t k; } t[LIN_TERMS]; };
struct lin lin_of(const struct ir_ins *);
struct lin lin_add(struct lin a, int64_t k, const struct lin *b);              /* a + k * b */
int64_t lin_coefficient(const struct lin *, const struct ir_ins *atom);
bool ins_same(const struct ir_ins *, const struct ir_ins *);                   /* structurally equal pure instructions */

/* --- values */
struct value {
	struct ir_ins *ins;                   /* NULL: an error was reported, keep quiet */
	bool literal;                         /* a constant of the text, i64 or f32, that takes the type of its partner */
	ir_axes extra;                        /* axes that fill() adds for the text; the instruction does not carry them */
	ir_axes folded;                       /* those of what constants folded away: by the text it may vary with them */
	double number;                        /* of an i64 literal: what it is where it meets a float; 3.5 of 7 / 2, whose i64 is 3 */
};
struct type { enum dtype dtype; int native; };

struct index {
	ir_axes over;                         /* the axis that `over name` contracts; 0: one position at a time */
	bool held;                            /* all positions are held, so that a sum over it is the whole sum */
	struct ir_ins *position;
	struct ir_ins *first;                 /* position of the axis's 0; NULL: 0 */
	struct index *inside;                 /* of an index in groups: one group; `over n by 128` */
	int64_t group;                        /* its size */
};

enum entry_kind { ENTRY_SYMBOL, ENTRY_TENSOR, ENTRY_SCALAR, ENTRY_INDEX, ENTRY_VALUE, ENTRY_STATE, ENTRY_TYPE, ENTRY_AXES };
struct entry {
	enum entry_kind kind;
	const char *name; struct diag_span at;
	int number;                           /* symbol, parameter */
	struct value value;
	struct type type;                     /* of a TYPE, a STATE */
	struct index *index;                  /* INDEX; AXES that are one index */
	ir_axes axes;                         /* AXES: contracted; STATE: its explicit axes */
	bool held;                            /* AXES: all of them held */
	int block, guards;                    /* block it was made in; guards in scope then */
	ir_axes open;                         /* axes open then */
	const struct elab_range *ranges;      /* loops open then */
	struct entry *next;
};

/* "This position is there": a condition in the IR and, where it is a linear inequality, the fact form >= 0. */
struct guard {
	struct ir_ins *cond;
	ir_axes axes;
	struct lin fact[2]; int nfacts;
	int stronger;                         /* another guard that implies this one, or -1 */
	bool control;                         /* without explicit axes (untiled indices, `if`): every store and assignment of state obeys it */
	bool ends;                            /* the end of an untiled `each`, which begins with a position that is there if any is */
	struct ir_ins *count;                 /* one held axis: how many positions pass, i32 */
	struct ir_ins *whole;                 /* two held axes, a group and its inside: how many pass in all */
};

/* The least or greatest bound among a tile's positions, of a loop: state that has their axis is in its position's own range alone. */
struct elab_bound { const struct ir_ins *ins, *loop; };

/* A loop that is open, and the axes along which its range differs. */
struct elab_range { ir_axes axes; const struct elab_range *up; };

/* A load or store of a tensor that the kernel stores to, and the conditions around it. */
struct elab_access {
	int tensor; bool stores;
	struct ir_ins **subs;
	const struct ir_ins **conds; int nconds;
	struct diag_span at; struct frame *frame;
};

struct frame { struct diag_span at; const char *name; int file; struct frame *up; };   /* file: where the called text stands */

struct elab {
	struct arena *ar;
	struct diag *d;
	const struct ast_file *ast;
	const struct ast_kernel *kernel;
	const struct dsl_binding *binding;
	const char *target;
	const struct model_kernel *model;

	struct ir_kernel *k;
	struct ir_phase *ph;
	int phase;
	struct ir_builder b;
	struct ir_ins *anchor;                /* scalars of the whole phase are made before it */
	struct { const struct hexpr *e; struct ir_ins *ins; } extents[64]; int nextents;

	struct entry *top;
	const struct ast_block *text;         /* the block that is being elaborated */
	int block, next_block;
	struct frame *frame; int calls, nesting;
	struct guard guards[MAX_GUARDS]; int nguards;
	struct lin facts[MAX_FACTS]; int nfacts;          /* hold always in this scope */
	struct { const struct ir_ins *num, *den; } exact[16]; int nexact;   /* den divides num */
	struct { struct elab_bound *items; int n, cap; } bounds;
	const struct elab_range *ranges;      /* of the loops that are open */
	struct { struct elab_access *items; int n, cap; } accesses;         /* of the phase */
	int *stored;                          /* by parameter, workspace too: number, from 1, of the last phase of which a statement before here names it on the left; 0 = none */
	ir_axes explicit_axes, implicit_axes, open_axes;
	ir_axes nonnegative;                              /* axes whose positions are >= 0 */
	bool too_large;
};

/* --- names and messages (elaborate.c) */
struct entry *scope_find(struct elab *, const char *name);
const char *scope_hint(struct elab *, const char *name);          /* the name in scope that was meant, for a message */
struct entry *scope_add(struct elab *, enum entry_kind, const char *name, struct diag_span);   /* reports a name taken; never NULL */
struct scope { struct entry *top; int block, nguards, nfacts; ir_axes open_axes; };
struct scope scope_open(struct elab *);
void scope_close(struct elab *, struct scope);
void elab_at(struct elab *, struct diag_span);                    /* instructions from here on belong to this place */
#define ELAB_ERROR(E, id, at, ...) (diag_add((E)->d, DIAG_##id, (at), ##__VA_ARGS__), elab_called_from(E))
void elab_called_from(struct elab *);
struct ir_ins *elab_extent(struct elab *, const struct hexpr *);  /* as an i32 of the whole phase */
struct ir_ins *elab_leaf(struct elab *, enum ir_op, enum dtype, int64_t imm);   /* SYM, PARAM, HAS */
const char *elab_axis_name(struct elab *, ir_axes);               /* of the lowest axis in the set */
const char *elab_type_name(const struct ir_ins *);

/* --- declarations (signature.c) */
/* A host expression over the kernel's symbols, or NULL after a message.  In an extent `/` must divide exactly. */
enum extent_use { EXTENT_DEFINES, EXTENT_KNOWN, EXTENT_REQUIRE };
const struct hexpr *extent_of(struct arena *, struct diag *, struct model_kernel *, const struct ast_expr *, enum extent_use);
/* False after a message where the extent is a constant that no dimension or range can have. */
bool extent_possible(struct diag *, const struct hexpr *, struct diag_span);
/* Constants of an extent or condition that an i32 in the kernel cannot hold. */
bool extent_too_wide(const struct hexpr *, int64_t *found);
/* The type called `name`: a dtype, fp8, bf8; DT_NONE if there is none. */
struct type type_named(const char *name);
/* Parameter number of a dtype parameter, or -1. */
int type_parameter(const struct ast_kernel *, const char *name);
int signature_build(struct arena *, struct diag *, const struct ast_kernel *, struct model_kernel *);
const struct ast_param *signature_param(const struct ast_kernel *, const char *name);

/* --- indices (elab_index.c) */
void elab_each(struct elab *, const struct ast_stmt *);
void elab_for(struct elab *, const struct ast_stmt *);
void elab_held(struct elab *, const struct ast_stmt *);
int guard_add(struct elab *, struct ir_ins *cond);                /* its number; control where it has no explicit axes */
void guards_where(struct elab *, const struct ast_expr *);        /* the conditions of a `where` */
void fact_below(struct elab *, const struct ir_ins *a, const struct ir_ins *b);     /* a < b always holds */
void fact_at_most(struct elab *, const struct ir_ins *a, const struct ir_ins *b);   /* a <= b */
int axis_add(struct elab *, struct ir_axis, struct diag_span);    /* axis number, or -1 after a message */
struct index *index_add(struct elab *, const struct ast_name *);
void index_failed(struct elab *, const struct ast_name *);        /* binds the name to "no value" */
int64_t group_size(struct elab *, const struct ast_expr *by);     /* 0 after a message */
/* The inside of a group: axis n of g positions, position number * g + n, guard position < extent. */
bool group_inside(struct elab *, const struct ast_name *, int64_t g, struct ir_ins *number, struct ir_ins *extent);
/* The extent of the first tensor dimension that `name` subscripts alone; NULL if there is none. */
const struct hexpr *extent_indexed(struct elab *, const struct ast_block *, const char *name);

/* --- statements (elab_stmt.c) */
void elab_block(struct elab *, const struct ast_block *);
/* The state variables in scope that the block assigns. */
int elab_assigned(struct elab *, const struct ast_block *, struct entry **list, int n);

/* --- expressions (elab_expr.c) */
struct value elab_expr(struct elab *, const struct ast_expr *);
struct value value_fixed(struct elab *, struct value, struct diag_span);                     /* a literal takes i32 or f32 */
bool value_as(struct elab *, struct value *, enum dtype, struct diag_span);                  /* a literal takes the type; else false */
bool value_pair(struct elab *, struct value *, struct value *, struct diag_span, const char *what);
struct value value_binary(struct elab *, enum ir_op, struct value, struct value, struct diag_span, const char *what);
struct value value_made(struct ir_ins *, int n, const struct value *of);                     /* the instruction, of n values' */
ir_axes value_axes(const struct elab *, struct value);                                       /* explicit ones */
ir_axes value_axes_of_text(const struct elab *, struct value);                               /* and those of what folded away */
struct type elab_type(struct elab *, const char *name, struct diag_span);                    /* reports an unknown one */

/* --- names that are nearly right (near.c) */
struct near { const char *name, *best; int distance; };
void near_offer(struct near *, const char *known);
const char *near_hint(struct arena *, const struct near *);       /* "; did you mean silu?", or "" */

/* --- calls (elab_call.c) */
const char *builtin_hint(struct arena *, const struct ast_file *, const char *name);   /* a function of that sort */
struct value elab_call(struct elab *, const struct ast_expr *);
bool builtin_exists(const char *name);
int elab_call_many(struct elab *, const struct ast_expr *, struct value *out, int n);

/* --- accesses and presence (elab_access.c) */
typedef bool guard_set[MAX_GUARDS];
void guards_for_reduction(struct elab *, ir_axes over, guard_set);
struct ir_ins *guards_and(struct elab *, const guard_set);        /* NULL: none */
struct ir_ins *and_of(struct elab *, struct ir_ins *, struct ir_ins *);   /* either may be NULL */
struct ir_ins *elab_number(struct elab *, enum dtype, int n);             /* a constant of any type that is computed or loaded */
struct value elab_load(struct elab *, const struct ast_expr *);
void elab_store(struct elab *, const struct ast_expr *target, struct value, const enum ast_update *update, struct diag_span);
struct ir_ins *elab_present(struct elab *, struct ir_ins *, ir_axes over);   /* 0 where absent: an operand of dot */

/* --- how often a statement runs (elab_tiles.c) */
/* The axes of tiles that are as large as the schedule likes, where the text stands. */
ir_axes tiles_open(const struct elab *);
/* What an instruction contracts; what the bounds of loops do is told with the state that these carry. */
ir_axes tiles_contracted(const struct elab *, const struct ir_ins *);
/* The tiled axes among `open`, whose tiles are as large as the schedule likes, that say nothing about v: neither does it vary with
 * them, nor is anything in it reduced over them. */
ir_axes tiles_unseen(struct elab *, const struct ir_ins *v, ir_axes open);
/* The axes among `open`, divided among workgroups or in tiles that say nothing about v, that tell apart no element of a tensor so subscripted, if
 * v, which is stored there, comes from that tensor.  Rows of ragged ranges are each in one range alone. */
ir_axes tiles_again(struct elab *, const struct ir_ins *v, int tensor, ir_axes subscripts, ir_axes open);
/* Those axes of `each .. tiled` over which something that v comes from was reduced, a tile at a time; *bound: that of a loop, if there was one. */
ir_axes tiles_parts(struct elab *, const struct ir_ins *v, const struct ir_ins **bound);
/* Of the axes of an uneven range, which state that is `old` before a round and v behind it lacks, those for which it matters how many rounds there are: v
 * is no sum with what is reduced over them, no maximum and no minimum. */
ir_axes tiles_counted(struct elab *, const struct ir_ins *v, const struct ir_ins *old, ir_axes axes);
/* Whether v is computed from `from` by more than a choice, as from + 1 is. */
bool tiles_change(struct elab *, const struct ir_ins *v, const struct ir_ins *from);

/* --- what is made of parts (elab_parts.c) */
/* The tiled axes whose tiles' sizes would show in a tensor at such subscripts: v, by which it is updated, comes from what was reduced over a tile, and not
 * so that all tiles' come to what the whole axis would. */
ir_axes parts_updated(struct elab *, const struct ir_ins *v, enum ast_update, ir_axes subscripts);
/* Of `for .. tiled` around the text: v, which is stored, comes from what was reduced over a tile, and lies beside elements of the same axis. */
ir_axes parts_stored(struct elab *, const struct ir_ins *v, ir_axes subscripts);
/* Whether state number `state` of a loop over tiles, `after` behind a round, has something added that no sum over the tile is in, or was compared with
 * something that no extreme of it is in. */
bool parts_missed(struct elab *, const struct ir_ins *loop, const struct ir_ins *after, int state);

/* --- accesses of other workgroups' elements (elab_cross.c) */
void cross_note(struct elab *, int tensor, struct ir_ins *const *subs, bool stores, struct diag_span);
void cross_look(struct elab *);                                   /* reports what the phase's accesses have in common, and forgets them */

/* --- proofs (linear.c) */
/* True if form >= 0 follows from the used guards, the facts and the kernel's requires. */
bool lin_prove(struct elab *, const struct lin *form, const bool *used);
/* Facts of a condition (a comparison of i32 values): 0, 1 or 2 forms. */
int lin_facts(const struct ir_ins *cond, struct lin out[2]);
#endif
