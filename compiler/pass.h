/* pass.h -- what a pass gets and returns.  A pass edits the kernel in place; 0, or -1 with text in err. */
#ifndef TDSL_PASS_H
#define TDSL_PASS_H
#include "affine.h"
#include "compile.h"

struct pass { struct ir_kernel *k; const struct variant *v; char *err; size_t errlen; bool lacks_registers; };

#define PASS(name, needs, keeps) int pass_##name(struct pass *);
#include "pass.def"
#undef PASS

/* err = "line L: ..."; returns -1. */
int pass_fail(struct pass *, const struct ir_ins *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same, where registers do not hold what the plan asks for: another plan may do. */
#define pass_lacks_registers(p, ...) ((p)->lacks_registers = true, pass_fail((p), __VA_ARGS__))
/* Bodies of all phases, each with its phase. */
#define FOR_PHASES(p, ph) for (struct ir_phase *ph = (p)->k->phases; ph < (p)->k->phases + (p)->k->nphases; ph++)
bool pass_ends_round(const struct ir_ins *);   /* the last of reductions side by side, whose waves wait for each other once */
/* A builder that inserts before `at`, with its line. */
struct ir_builder pass_before(struct pass *, struct ir_phase *, struct ir_ins *at);
bool ir_is_pure(const struct ir_ins *);      /* no effect but its value; loads of parameters that are never stored count */
bool ir_is_plain(const struct ir_ins *);     /* pure or a store, and no scan, argmax or dot: what the workgroups of a cluster can do between them */
bool ir_crosses_cluster(const struct ir_phase *, const struct ir_ins *reduce);   /* reduced over an axis that a cluster holds */
bool ir_holds_rows(const struct ir_block *);   /* all that is reduced in it is reduced along one axis, the rows' */
bool ir_has(struct ir_block *, enum ir_op); /* at any depth */
/* A loop that does nothing but add up the sums of its rounds: these are taken once, behind it (pass_defer.c). */
bool loop_is_of_sums(const struct ir_ins *);
bool ir_stores(struct ir_block *);           /* into a tensor, or updates one */
bool value_is_of_memory(const struct ir_ins *);   /* something that it is made of is loaded */
/* Of groups along axis `groups` of the grid whose positions are reduced and no more: the axis of these; else -1.  The last one may end early: where it does
 * not, nothing is masked (pass_guard.c). */
int phase_reduced_group(const struct ir_phase *, int groups);
bool phase_is_guarded(const struct ir_kernel *, const struct ir_phase *); /* all that it stores is masked by a condition on data that is one for the workgroup */
/* For ir_walk: an elementwise result has the axes of its operands, which may have lost some. */
void ir_recompute_axes(struct ir_ins *, void *unused);
/* All conversions of the phase to the chip's 8-bit floats saturate, there are some, and nothing else in it minds the mode that does that. */
bool pass_clamps_by_mode(const struct ir_phase *, const struct target *);
/* Two axes of a phase that stand for one of so many positions: position = by * outer + inner. */
struct axis_split { int outer, inner; int64_t by; };
bool phase_splits(const struct ir_phase *, const struct hexpr *extent, struct axis_split *);
bool split_numbers(const struct axis_split *, const struct ir_phase *, const struct ir_ins *at);   /* whether it is that position */
/* Rows whose sums of columns pass_carry can carry: how many there are, the axis of columns, how many sums each has; pieces: nothing is made of a row
 * whole, so that workgroups share its columns. */
struct carried_sums { const struct hexpr *rows; int column, n; bool pieces; };
bool kernel_can_carry(struct ir_kernel *, struct carried_sums *);
/* Rows that so many workgroups take at a time where of a row of so many columns each takes a piece of `tile`: 1 or more. */
const struct hexpr *carried_rows(struct arena *, int workgroups, const struct hexpr *columns, int tile);
/* Two phases that pass_fuse can make one: of the second the axes that number groups of rows and of columns, and how many each has. */
struct fused_axes { int rows, columns; int64_t rows_by, columns_by; };
bool kernel_can_fuse(struct ir_kernel *, struct fused_axes *);
/* Rows that pass_across takes, of the pass's kernel under its variant. */
bool kernel_crosses(const struct pass *);
/* The axis of rows that the workgroups of a cluster can hold between them (pass_spread), -1 = there is none; how many sums there are over it, and of
 * these, one behind the other. */
struct row_sums { int all, in_turn; };
int kernel_can_spread(struct ir_kernel *, struct row_sums *);
/* What the phase reads and stores along the axis can be swept in chunks (pass_stream): each position is read and stored at the same place, stored last. */
bool phase_can_sweep_in_place(const struct ir_kernel *, struct ir_phase *, int axis);
/* What the matrix instructions of a phase take along an axis at a time, at most; 1 = none runs along it. */
int phase_product_side(const struct ir_phase *, const struct target *, int axis);
/* What the chip multiplies the operands of a dot as where they are as they are: bf16 where they are codes of few bits that it has no instruction for. */
void dot_types(const struct target *, const struct ir_ins *dot, enum dtype of[2]);
/* Of a dot of operands that are codes of few bits times powers of two (pass_scaled.c), or two of e2m1: the types of the codes. */
bool dot_is_scaled(const struct ir_ins *dot, enum dtype codes[2]);
/* Heads of which n in turn share what loops load for products: their axis and that of tiled rows; how many share it; the name of the axis that the pass of
 * this name makes of these.  False: there are none, or something but rows tells them apart. */
struct shared_heads { int head, row; const struct hexpr *each; const char *name; };
bool kernel_shares_heads(const struct ir_kernel *, struct shared_heads *);
/* The plan's tile of an axis in a phase; 0 = none. */
int pass_planned_tile(const struct variant *, int phase, const char *axis);
/* The largest (RED_MAX) or the least (RED_MIN) that a sum, difference or bound of positions and of numbers of the workgroup is in its tile; NULL = not known. */
struct ir_ins *tile_extreme(const struct ir_phase *, struct ir_builder *, struct ir_ins *, enum ir_reduce which);
/* Uses of every value: counted into id-indexed array of next_id entries. */
int *pass_uses(struct arena *, const struct ir_kernel *);
/* Who uses a value, in their order; n > MOST_USERS: too many to be looked at. */
enum { MOST_USERS = 16 };
struct users { const struct ir_ins *of; struct ir_ins *user[MOST_USERS]; int n; };
struct users pass_users(struct ir_phase *, const struct ir_ins *of);
bool pass_note(struct ir_ins **list, int *n, struct ir_ins *);      /* at the end of a list of so many at most; false: it is full */
#endif
