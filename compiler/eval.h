/* eval.h -- the inside of the evaluator: what eval.c, eval_elem.c, eval_mem.c and eval_reduce.c share.
 *
 * A tile is a dense array over the value's axes, ascending axis number, the last one fastest.  f32, f16 and bf16 are held as
 * float, everything else (integers, i1, codes of narrow floats) as int64_t.  A value's array is kept under its number and used
 * again each time its instruction runs.  Functions return 0, or -1 after eval_fail. */
#ifndef TDSL_EVAL_H
#define TDSL_EVAL_H
#include "eval_op.h"
#include "ir.h"

struct fold;
struct tile {
	void *data;
	size_t bytes;
	const struct ir_ins *yield;                /* for an if: the yield of the block taken */
	struct fold *fold;                         /* for a reduction: its order, kept by eval_reduce.c */
};

struct evaluator {
	const struct ir_eval *in;
	const struct ir_kernel *k;
	const struct ir_phase *ph;
	struct ir_tensor *tensors;                 /* the caller's and the workspace's */
	struct tile *tiles;                        /* by instruction number */
	int64_t size[LAYOUT_AXES], base[LAYOUT_AXES], limit[LAYOUT_AXES]; /* of each axis at present: positions held, the first, a ragged end */
	int64_t extent[LAYOUT_AXES];
	char *err; size_t errlen;
};

int eval_fail(struct evaluator *, const struct ir_ins *, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static inline bool eval_is_float(const struct ir_ins *ins) { return op_type_is_float(ins->dtype); }
static inline float *eval_floats(struct evaluator *ev, const struct ir_ins *ins) { return ev->tiles[ins->id].data; }
static inline int64_t *eval_ints(struct evaluator *ev, const struct ir_ins *ins) { return ev->tiles[ins->id].data; }
/* Makes room for the instruction's value with the present axis sizes. */
int eval_room(struct evaluator *, const struct ir_ins *);
int64_t eval_count(const struct evaluator *, ir_axes);

/* Visits the positions of a set of axes in order, in runs along the fastest dimension, with the offset of each operand; an operand
 * without an axis stays where it is along it, and axes that only an operand has stay at 0.  Use: for (bool go = walk_start(..); go; go = walk_next(..)) for (i < run) ... */
enum { WALK_OPERANDS = 10 };
struct walk {
	int dims, operands;
	int64_t size[LAYOUT_AXES], at[LAYOUT_AXES], stride[WALK_OPERANDS][LAYOUT_AXES];
	int64_t offset[WALK_OPERANDS], step[WALK_OPERANDS], run;   /* step: offset between neighbours in a run */
};
bool walk_start(struct walk *, const struct evaluator *, ir_axes axes, const ir_axes *operands, int n);
bool walk_next(struct walk *);

/* Of a list: its tensors' lengths and places. */
int64_t eval_list_length(const struct ir_tensor *list, int64_t i);
void *eval_list_entry(const struct ir_tensor *list, int64_t i);

/* Copies a value into the array of another, spread along the axes it lacks. */
int eval_spread(struct evaluator *, const struct ir_ins *to, const struct ir_ins *from);

int eval_elementwise(struct evaluator *, const struct ir_ins *);   /* UN BIN CMP BIT SEL CVT, leaves with axes */
int eval_access(struct evaluator *, const struct ir_ins *);        /* load, store, update */
int eval_reduce(struct evaluator *, const struct ir_ins *);        /* reduce, dot, argmax, scan */
void eval_fold_free(struct fold *);
#endif
