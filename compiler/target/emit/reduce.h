/* reduce.h -- reductions that stand side by side and share a round of LDS: what reduce.c, which carries them out, and fold.c have in common. */
#ifndef TDSL_EMIT_REDUCE_H
#define TDSL_EMIT_REDUCE_H

#include "machine.h"

enum { ROUND = 16, HIGH = 8 };               /* reductions in one round; bits of the workitem id above a row of lanes */

/* Partial results of one result register, in vectors of `pack`; reg: its first register; whole: one mask for all that a lane folds. */
struct chains { LLVMValueRef acc[16]; int n, pack, reg; bool whole; };

struct part {
	const struct ir_ins *i;
	const struct layout *from;                 /* of the operand */
	const struct layout *own;                  /* of the results that a lane has a part of */
	int regs; LLVMValueRef *x;                 /* partial results, one a result register */
	struct chains *chains;                     /* by result register, until they are joined */
	unsigned lanes, waves;                     /* bits of lane and wave number that are reduced */
	bool through_lds;                          /* rows of lanes, in a round with others */
	bool by_waves;                             /* every lane folds the waves' partial results */
	bool crosses;                              /* the workgroups of a cluster have parts of the results (cluster.c) */
	bool shared;                               /* lanes of a wave that have a part of the same results finish different ones */
	bool dealt;                                /* every lane folds the partial results of those that are its own */
	int at;                                    /* LDS byte offset */
};

/* The bits of the workitem id of waves that hold what others hold: neither reduced over nor a result of their own. */
int64_t reduce_wave_copies(const struct part *);
/* How many of the waves that have a reduction between them are there, or hold something; NULL = all. */
LLVMValueRef reduce_waves(struct emit *);
/* Before partial results of `size` bytes are written behind e->lds_small_bytes, others have read those of the round before: they wait, or, of rounds that
 * are asked for ahead, have other places in turns.  Returns the way to the round's, NULL = 0. */
LLVMValueRef reduce_places(struct emit *, int size);

/* Those of `n` parts that every lane folds for itself (by_waves), in one round: each wave writes what it has, and behind one barrier its lanes read all
 * waves'.  Results come in x. */
void fold_waves(struct emit *, struct part *parts, int n);

#endif
