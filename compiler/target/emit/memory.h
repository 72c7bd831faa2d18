/* memory.h -- one access of a tensor's tile, taken apart: between memory.c, which finds the parts, and the machines, which make
 * instructions of them.
 *   byte address of register r = base + step + lane (in the base already if `joined`) + access_offset(r); where access_condition(r) is false a load gives 0 or what it finds
 *   there, a store does nothing. */
#ifndef TDSL_MEMORY_H
#define TDSL_MEMORY_H
#include "emit.h"

struct access {
	const struct ir_ins *i;
	const struct ir_param *t;
	const struct layout *l;
	const struct ir_ins *mask;              /* or NULL */
	struct affine sub[6];
	bool affine;                            /* every subscript is, or is a scalar */
	bool scalar[6];                         /* not affine, but the same for the whole workgroup */
	bool fold;                              /* leading dimensions may be folded: the first subscript is divided */
	int width;                              /* elements an instruction, a power of two of at most 16 bytes, aligned to its size unless loose */
	int loose;                              /* axis of runs of `width` of which some may not be there, or none lie beside the other (run.c); -1 = none */
	int bytes;                              /* of one element */
	bool pairs;                             /* two elements a byte (e2m1, bytes = 1): offsets count elements until they are halved */
	int pair_axis, pair_bit;                /* then: the axis along which they lie; where two lanes hold a pair, the bit in which their numbers differ */
	bool torn;                              /* of a pair one element may be masked off alone */
	LLVMValueRef on;                        /* i1 in place of the mask, as run.c and torn pairs set it for register r; else NULL */
	LLVMValueRef lane;                      /* i32 */
	bool joined;                            /* the lane part is in the base as well, and not to be added */
	LLVMValueRef step;                      /* i32, uniform: what changes with the loop around it, NULL = nothing, or it is in the base */
	LLVMValueRef by; LLVMBasicBlockRef in_loop;  /* i64: bytes by which the base grows from round to round of the loop around it, whose block that
	                                         * is; NULL = the base is the same, or made in each round */
	int64_t row_bytes;                      /* of a store: side by side in memory, of each of several rows, by the workgroup; 0 = of one, or more than once */
	LLVMValueRef first;                     /* i1: the copy that stores, NULL where all do; of loads NULL */
	bool plain, ranged; LLVMValueRef base, policy;  /* the machine's: set by its access_open */
	LLVMValueRef all;                       /* and of the base what it is for all lanes, to which theirs is added; NULL = it is not made so */
};

/* What a machine's load of register r brought, as the load's value. */
void emit_loaded(struct emit *, const struct access *, int r, LLVMValueRef);
void emit_asked(struct emit *, const struct access *, int r, LLVMValueRef);  /* ask.c: later, behind all that is asked for with it */
/* stage.c: the load by way of group memory; false = it has to come to registers.  Then: register reg's piece is in registers. */
bool stage_load(struct emit *, const struct access *);
/* Bytes that one instruction moves. */
static inline int access_bytes(const struct access *a) { return a->pairs ? (a->width + 1) / 2 : a->width * a->bytes; }
void access_open(struct emit *, struct access *, const struct ir_ins *, const struct layout *);   /* of a load, a store or an update; may fail */
int64_t access_rows(const struct emit *, const struct ir_ins *);   /* bytes of rows of an input that the workgroup loads; 0 = it is no such load */
/* Pointer to `elements` (i64, NULL = none) behind the tensor's start. */
LLVMValueRef access_base(struct emit *, const struct access *, LLVMValueRef elements);
/* Byte offset of register r beside the lane part, to be added up: *constant known now, *uniform an i32 scalar (or NULL), *vector an i32 by
 * lane (or NULL).  The sum with the lane part is below 2^31. */
void access_offset(struct emit *, const struct access *, int r, int64_t *constant, LLVMValueRef *uniform, LLVMValueRef *vector);
/* i1, or NULL: this workgroup is the first of those that store the same to this place (once.c).  Along ragged axes all of them do. */
LLVMValueRef store_is_first(struct emit *, const struct access *);
LLVMValueRef access_condition(struct emit *, const struct access *, int r);   /* i1, NULL = always */
LLVMTypeRef access_type(struct emit *, const struct access *);                /* of what one instruction moves: i8, i16 or dwords */
/* The same as an i32 of each lane whose highest bit says that the access is not made: of masks of many elements, which would fill the
 * scalar registers. */
LLVMValueRef access_missing(struct emit *, const struct access *, int r);

/* ahead.c: the same of the later tile, where there is one, for the L2 */
void ahead_fetch(struct emit *, const struct access *);
LLVMValueRef ahead_lane(struct emit *, const struct access *);                 /* i1: of the lanes that share a line, the one that asks for it */

/* run.c: all runs of a loose access */
bool run_can_be_loose(const struct access *, int axis);                         /* along this axis */
void run_load(struct emit *, struct access *);
void run_store(struct emit *, struct access *, const struct ir_ins *value);
/* memory.c: value's registers from r on as what register r's access stores. */
LLVMValueRef store_word(struct emit *, const struct access *, const struct ir_ins *value, int r);
#endif
