/* ir.h -- tile IR: SSA over tiles whose axes have names.
 *
 * A kernel is a list of phases (launches).  A phase has axes and one block.  Every value is an element type and a set of
 * axes; a value without axes is a scalar, the same for the whole workgroup.  Elementwise operations align by axis.  Presence
 * (tails, `where`, ragged ends) is explicit: loads, stores, updates and reductions take an optional i1 mask, and the operand of
 * a dot that can be absent goes through select.  Control is structured (for, if) and scalar.
 *
 * Life of a kernel's IR: elaborate.c makes it, generic in sizes; per variant it is cloned and specialised (symbols become
 * constants), scheduled (axes get tile sizes), simplified, given layouts, and translated to LLVM IR.  Text form: text.c. */
#ifndef TDSL_IR_H
#define TDSL_IR_H
#include "../base/arena.h"
#include "../base/dtype.h"
#include "../base/hexpr.h"
#include "layout.h"

enum ir_op {
#define OP(id, text, cls, nargs, meaning) IR_##id,
#include "op.def"
#undef OP
	IR_NOP
};
enum ir_class { IR_LEAF, IR_UN, IR_BIN, IR_CMP, IR_BIT, IR_SEL, IR_CVTC, IR_MEM, IR_RED, IR_REG };
struct ir_op_info { const char *text; const char *cls; int nargs; const char *meaning; };
extern const struct ir_op_info ir_op_info[];

typedef uint32_t ir_axes;                     /* bit a = axis a of the phase */
#define IR_AXIS(a) ((ir_axes)1 << (a))

enum ir_axis_kind {
	AXIS_GRID,   /* `each`: a workgroup holds `tile` positions from tile * its index on; unordered */
	AXIS_HELD,   /* `n = 0..N` and the inside of `by` groups: positions 0 .. tile-1 all held by the workgroup */
	AXIS_LOOP,   /* `for`: positions start + iteration * tile ..; only inside its for */
};
enum { MOST_MEMBERS = 16 };               /* of a cluster */
struct ir_axis {
	const char *name;                     /* "m"; the two of `n in N by 128` are "n.o" (grid or loop) and "n" (held) */
	enum ir_axis_kind kind;
	int tile;                             /* positions held at a time; 0 = not chosen yet, the evaluator then takes the whole extent (GRID: 1) */
	int cluster;                          /* GRID: so many workgroups, a power of two, start together and hold the whole extent, `tile` positions each; what is
	                                       * reduced over the axis is reduced over all of them, which makes it one held axis in what it computes; 0 = as others */
	bool tiled;                           /* `tiled` in the text: the schedule chooses; otherwise GRID axes default to 1 and the schedule may give more */
	const struct hexpr *extent;           /* positions (GRID, HELD); NULL for LOOP and ragged axes */
	const struct hexpr *grouped;          /* S of what was cdiv(S, by) until it was pinned (pass_specialise.c), by the next axis's positions; NULL = nothing was */
	/* `i in x[k]`: as below with ragged_tensor the list x (of_list); positions 0 .. length of tensor k - 1.
	 * `m in first[e] .. first[e+1]`: axis m is ragged over group axis e.  Positions first[e] .. first[e+1]-1, clamped to
	 * 0..ragged_total and taken as non-decreasing; LIMIT gives the end.  Both axes share one grid dimension. */
	bool ragged, of_list;
	int ragged_tensor, ragged_group;      /* parameter index of `first` (i32, rank 1); axis number of e */
	const struct hexpr *ragged_total;     /* M: extent of the tensors' dimension that m indexes */
	int line, col;
};

enum ir_reduce { RED_SUM, RED_PROD, RED_MAX, RED_MIN, RED_ANY, RED_ALL };
enum ir_flag {
	IR_SATURATE = 1,   /* cvt */
	IR_PART = 1,       /* reduce: each wave, or of a cluster each workgroup, has what it holds: enough for an update of the same kind, max or min, which each does; none else may use it */
	IR_BY_LANE = 32,   /* reduce of a layout: each lane of each wave has what it holds, along axis imm, which numbers the lanes that have something and then the waves */
	IR_MASKED = 2,     /* load, store, update, reduce: the last operand is an i1 mask */
	IR_PRODUCT = 4,    /* reduce: operands a, b: sum of products, accumulated by fma */
	IR_ACC = 8,        /* dot: the last operand is the accumulator */
	IR_SCALED = 32,    /* dot: the last two operands are scales (e8m0) of the first two, each of whose elements stands for itself times its scale: along an axis of
	                    * as many positions of the contracted one each as repeat has them, or along none; operands of u8 are pairs of e2m1 (pack) */
	IR_RELAXED = 8,    /* load of 4 bytes: of what others update meanwhile, as it was at any time since the launch began */
	IR_CUT = 16,       /* cvt of f32 to bf16: its lower 16 bits, which are 0 but for what is below 2^-126, are cut off */
	IR_ANYORDER = 16,  /* reduce, dot: the order is not fixed yet (before layout) */
	IR_NORMAL = 32,    /* div of f32: y is a constant, and nobody asks what is below 2^-126; or x is 1 and y from 2^-126 to 2^126, or infinite */
	IR_STAGED = 128,   /* load: by way of group memory, asked for where it stands, taken from there where it is used */
	IR_AGAIN = 64,     /* cvt of bf16 or f16 to f32: an equal one stands before, of which nothing is kept for this one */
};

struct ir_block;
struct ir_ins {
	uint8_t op, dtype, kind, flags;       /* enum ir_op, enum dtype; kind: enum ir_reduce (reduce, update) */
	uint8_t chains;                       /* after layout. reduce: partial accumulators a lane keeps (register rank mod chains), 0 = 1; dot: k positions a lane gives one instruction */
	int id;                               /* %id in the text; unique in the kernel */
	ir_axes axes;                         /* of the result */
	ir_axes over;                         /* reduce, dot, argmax, scan: the axes contracted; repeat, pack: the axis that another takes the place of */
	int64_t imm;                          /* see op.def: constant, symbol, parameter, axis, result number */
	double num;                           /* float constant (exact f32 value) */
	struct ir_ins **args; int nargs;
	struct ir_block *body, *other;        /* for: body; if: body, other */
	const struct layout *layout;          /* after the layout pass; NULL for scalars and before */
	void *note;                           /* a pass's own; meaningless between passes */
	struct ir_ins *prev, *next; struct ir_block *block;
	int line, col;                        /* in the .tdsl text; 0 = none */
};
/* Operand order: load: subscripts, [mask].  store, update: subscripts, value, [mask].  reduce: a, [b], [mask].  dot: a, b,
 * [acc], [scale of a, of b].  for: start, end, initial values; its axis is imm.  select: condition, then, else. */

struct ir_block {
	struct ir_ins *first, *last;          /* in order; ends in yield (phase bodies: without operands) */
	struct ir_ins **params; int nparams;  /* ARGs of a for body */
	struct ir_ins *owner;                 /* the for/if, NULL for a phase body */
};

struct ir_phase {
	struct ir_axis axes[LAYOUT_AXES]; int naxes;
	struct ir_block *body;
	int line;
};

struct ir_param {
	const char *name;
	bool is_tensor;
	enum { IR_IN, IR_OUT, IR_INOUT, IR_TEMP } role;   /* TEMP: workspace tensors, after all formal parameters */
	bool optional;
	bool list;                            /* extents K, N: K tensors of any lengths, N elements in all; data is a table of K addresses (u64), then K lengths (i32) */
	enum dtype dtype;                     /* target's fp8 already resolved; scalars: f32, i32, i64 */
	int rank; const struct hexpr *extent[6];
	bool has_default; double default_value;
	int line, col;
};

/* From a `require`: symbol % multiple == 0 holds in every call, or (tensor >= 0) where that optional tensor is there. */
struct ir_multiple { int symbol; int64_t multiple; int tensor; };

struct ir_kernel {
	const char *name, *instance;          /* "rmsnorm_quant", "T=bf16,Q=fp8" */
	const char *target;                   /* "gfx942": decides fp8; NULL in generic dumps */
	const char *file;                     /* of the text, for debug lines */
	struct arena *arena;
	struct ir_param *params; int nparams;
	const char **symbols; int nsymbols;
	struct ir_multiple *multiples; int nmultiples;
	struct ir_phase *phases; int nphases;
	int next_id;
};

/* --- building (build.c) ------------------------------------------------------------------------------------------
 * A builder appends to a block, or inserts before an instruction.  Axes and dtype of results follow op.def; constants of
 * integers and floats fold at once (x+0, x*1, select of constants, and/or of i1 constants, cmp of constants). */
struct ir_builder { struct ir_kernel *k; struct ir_phase *ph; struct ir_block *block; struct ir_ins *before; int line, col; };

struct ir_ins *ir_int(struct ir_builder *, enum dtype, int64_t);         /* I32, I64, I1, I8 constants */
struct ir_ins *ir_float(struct ir_builder *, enum dtype, double);
struct ir_ins *ir_leaf(struct ir_builder *, enum ir_op, enum dtype, int64_t imm);   /* SYM PARAM HAS IOTA LIMIT */
struct ir_ins *ir_un(struct ir_builder *, enum ir_op, struct ir_ins *a);
struct ir_ins *ir_bin(struct ir_builder *, enum ir_op, struct ir_ins *a, struct ir_ins *b);  /* BIN, BIT, CMP */
struct ir_ins *ir_fma(struct ir_builder *, struct ir_ins *a, struct ir_ins *b, struct ir_ins *c);
struct ir_ins *ir_select(struct ir_builder *, struct ir_ins *c, struct ir_ins *a, struct ir_ins *b);
struct ir_ins *ir_cvt(struct ir_builder *, struct ir_ins *a, enum dtype, bool saturate);     /* same dtype: returns a */
struct ir_ins *ir_bitcast(struct ir_builder *, struct ir_ins *a, enum dtype);
struct ir_ins *ir_load(struct ir_builder *, int tensor, struct ir_ins **subs, struct ir_ins *mask /* or NULL */);
struct ir_ins *ir_store(struct ir_builder *, int tensor, struct ir_ins **subs, struct ir_ins *value, struct ir_ins *mask);
struct ir_ins *ir_update(struct ir_builder *, enum ir_reduce kind, int tensor, struct ir_ins **subs, struct ir_ins *value, struct ir_ins *mask);
struct ir_ins *ir_reduce(struct ir_builder *, enum ir_reduce kind, struct ir_ins *a, ir_axes over, struct ir_ins *mask);
int64_t ir_int_identity(enum ir_reduce, enum dtype);             /* what a reduction of integers or conditions begins with */
/* The first element may lie beyond what the reduction begins with, the type's lowest or largest finite value: an infinity does, and a NaN is nothing.
 * A magnitude is no such element.  Where some are masked, they are that value. */
bool ir_begins_beyond(const struct ir_ins *reduce);
struct ir_ins *ir_dot(struct ir_builder *, struct ir_ins *a, struct ir_ins *b, ir_axes over, struct ir_ins *acc /* or NULL */);
/* Opens a for: the returned for has a body with one ARG per initial value; build into its body, then ir_yield, then ir_result.
 * An ARG may be given more axes than its initial value (`acc: f32[m, n] = 0`): the value is then the same along them. */
struct ir_ins *ir_for(struct ir_builder *, int axis, struct ir_ins *start, struct ir_ins *end, struct ir_ins **init, int ninit);
struct ir_ins *ir_if(struct ir_builder *, struct ir_ins *cond);           /* body and other are empty blocks without yield */
struct ir_ins *ir_yield(struct ir_builder *, struct ir_ins **values, int n); /* into b->block, ends it */
struct ir_ins *ir_result(struct ir_builder *, struct ir_ins *of, int i);
/* x / y rounded up; 0 where y is 0.  nonnegative: neither is ever below 0, so that (x + y - 1) / y says it. */
struct ir_ins *ir_cdiv(struct ir_builder *, struct ir_ins *x, struct ir_ins *y, bool nonnegative);
/* A host expression over symbols as i32 scalars of the kernel. */
struct ir_ins *ir_hexpr(struct ir_builder *, const struct hexpr *);
struct ir_ins *ir_new(struct ir_builder *, enum ir_op, enum dtype, ir_axes, int nargs);  /* raw: appended, fields to be filled */
struct ir_ins *ir_copy(struct ir_builder *, const struct ir_ins *, struct ir_ins **args);    /* the same of other operands, which it keeps; no regions */

/* --- editing (build.c) */
void ir_append(struct ir_block *, struct ir_ins *);                       /* at the block's end; it stands in no block now, or in one that is being rebuilt */
void ir_remove(struct ir_ins *);                                           /* unlink; no uses may remain */
void ir_move(struct ir_ins *, struct ir_ins *before);                     /* from where it stands */
void ir_replace(struct ir_kernel *, struct ir_ins *old, struct ir_ins *by);/* every use of old in the kernel */
struct ir_kernel *ir_clone(struct arena *, const struct ir_kernel *);      /* deep copy, ids kept */
uint64_t ir_optional(const struct ir_kernel *);                            /* the tensors that calls may leave out, of its first 64 parameters */
bool ir_is_const(const struct ir_ins *, double *value);                    /* CONST of any type */
/* Calls fn for every instruction of the block and its inner blocks, in order; the instruction may be removed by fn. */
void ir_walk(struct ir_block *, void (*fn)(struct ir_ins *, void *), void *);
/* The first or last position of an axis's tile: reduce min or max of iota over its own axis. */
bool ir_is_tile_bound(const struct ir_ins *);
/* A copy with numbers of its own; what is defined outside the block is the same. */
struct ir_block *ir_clone_block(struct ir_kernel *, const struct ir_block *, struct ir_ins *owner);

/* --- text (text.c) */
char *ir_print(struct arena *, const struct ir_kernel *);                  /* print(parse(print(k))) == print(k) */
struct ir_kernel *ir_parse(struct arena *, const char *text, char *err, size_t errlen); /* NULL: err = "line 3: ..." */

/* Subscripts k, i with i the position in tensor k of a list with the same extents as list `tensor`: the only way to reach one. */
bool ir_list_subscripts(const struct ir_kernel *, const struct ir_phase *, int tensor, struct ir_ins *const *subs);

/* --- verifier (verify.c): 0, or -1 with text naming the instruction.  Types and axes by op.def, dominance, regions, masks. */
int ir_verify(const struct ir_kernel *, char *err, size_t errlen);

/* --- evaluator (eval.c): runs a kernel on host tensors, element by element, without LLVM. */
struct ir_tensor {                        /* one parameter's tensor; data NULL = absent */
	void *data; enum dtype dtype; int rank;
	int64_t extent[6], stride[6];         /* strides in elements */
};
struct ir_eval {
	const struct ir_kernel *kernel;
	struct ir_tensor *tensors;            /* nparams entries; TEMP tensors are allocated by the evaluator */
	double *scalars;                      /* nparams entries */
	int64_t *symbols;                     /* nsymbols entries */
	bool check_bounds;                    /* an unmasked access outside its tensor is an error (always on in tests) */
};
/* 0 or -1 with text.  Where an instruction has a layout, its reductions and dots follow the fixed order (docs/ir.md). */
int ir_evaluate(const struct ir_eval *, char *err, size_t errlen);
#endif
