/* machine.h -- what the common translation asks of a chip's family: one table of functions each, defined in that family's folder.
 *
 * Every function appends LLVM instructions at the builder's place and returns the value.  Words are i32 values; `v` stands for any
 * scalar of 32 bits unless said otherwise.  A family that lacks a thing calls emit_fail, which names the kernel's line.
 *
 *   part                    whose user is             holds
 *   identity                translate.c, index.c      who am I: thread, workgroup; what a kernel function is
 *   lanes                   reduce.c, translate.c     exchange inside a wave
 *   order                   lds.c, dot.c              barriers
 *   clusters                cluster.c                 what crosses workgroups
 *   arithmetic              elementwise.c, convert.c  what has an instruction of its own
 *   memory                  memory.c                  one access of some registers of every lane
 *   matrix                  dot.c                     one matrix instruction                                              */
#ifndef TDSL_MACHINE_H
#define TDSL_MACHINE_H
#include "emit.h"

struct access;

struct machine {
	/* --- identity --- */
	/* The function `e->fn` becomes a kernel of the workgroup size that e->v says; called before its body is written. */
	void (*kernel)(struct emit *);
	bool scalar_masks;                                               /* a condition is a mask of the wave in scalar registers, of which there are few */
	bool line_directives;                                            /* lines of the text go into the assembly, not into sections */
	char separator;                                                  /* in names made of several parts */
	int grid_dims;                                                   /* how many are as long as any grid axis may be; the rest share the last */
	int grid_short;                                                  /* how long the others up to three may be; 0 = there are none */
	int argument_unit;                                               /* bytes that the argument block's size is rounded up to */
	int static_lds;                                                  /* more bytes than that are declared without a size: the launch gives it */
	/* Makes the code wait until what was launched before it is done, so that it may be started earlier: replaces the pointers by values
	 * that are there only then.  NULL = launches do not overlap. */
	void (*wait_for_launch)(struct emit *, LLVMValueRef *pointers, int n);
	int last_workgroups;                                             /* of a grid: when they have begun, the next launch may begin */
	/* i1 that is true, which nobody but the machine knows: keeps loads together (ask.c).  NULL = they stay together by themselves. */
	LLVMValueRef (*certain)(struct emit *);
	/* Pointer to the launch's arguments, each time to LLVM another one.  NULL = arguments fill no registers. */
	LLVMValueRef (*argument_block)(struct emit *);
	bool keeps_order;                                                /* of what is computed, much as it is written (order.c) */
	LLVMValueRef (*thread)(struct emit *);                           /* number in the workgroup */
	LLVMValueRef (*workgroup)(struct emit *, int dim);               /* 0..2 */
	LLVMValueRef (*workgroups)(struct emit *, int dim);              /* how many there are; 0..1.  This and the next: where grid_short is not 0 */
	void (*leave)(struct emit *, LLVMValueRef i1);                   /* the workgroup is done, all of it */
	/* `lane` again, in a way that LLVM takes for another value; `loop`: of the innermost loop's position, or NULL. */
	LLVMValueRef (*hidden_copy)(struct emit *, LLVMValueRef lane, LLVMValueRef loop);

	/* --- lanes --- */
	int row_bits;                                                    /* lane bits that a reduction exchanges cheaper than by LDS */
	int dealt_bits;                                                  /* those that it exchanges cheaper than by one more access a result in a round through LDS */
	int exchange_wait;                                               /* instructions that a lane_xor of a row waits behind what makes its operand */
	/* Bits of v in lane ^ (1 << bit), as v's type or as a word; lower_equal: lanes that differ in lower bits alone hold the same. */
	LLVMValueRef (*lane_xor)(struct emit *, LLVMValueRef v, int bit, bool lower_equal);
	LLVMValueRef (*lane_gather)(struct emit *, LLVMValueRef word, LLVMValueRef lane);  /* of the lane that each lane names */
	LLVMValueRef (*lane_read)(struct emit *, LLVMValueRef word, LLVMValueRef lane);    /* of one lane, the same for all */
	LLVMValueRef (*lanes_sum)(struct emit *, LLVMValueRef word);     /* of all lanes, the same for all; where target.gap_workgroups is not 0 */
	LLVMValueRef (*ballot)(struct emit *, LLVMValueRef i1);          /* bit n: lane n's; an integer as wide as a wave */
	/* Of two dwords the bytes from[0..3], numbered 0 .. 3 in a and 4 .. 7 in b; NULL = as LLVM does it. */
	LLVMValueRef (*bytes)(struct emit *, LLVMValueRef a, LLVMValueRef b, const int from[4]);
	LLVMValueRef (*uniform)(struct emit *, LLVMValueRef word);       /* all lanes hold the same: may become a scalar */

	/* --- order --- */
	int barriers;                                                    /* that a workgroup has, by number, of which `barrier` takes e->team; 0 = one for all its waves */
	void (*barrier)(struct emit *);                                  /* the workgroup's LDS accesses before it are seen behind it */
	/* All workgroups of the launch: what any of them stored before it is seen behind it; where target.joins.  It is a barrier as well. */
	void (*workgroups_meet)(struct emit *);
	void (*memory_barrier)(struct emit *);                           /* as that, and its accesses of global memory are done */
	LLVMValueRef (*time)(struct emit *);                             /* i64, ns, the same for all workgroups of the chip; where rows come by rings (target.ring_bytes) */
	void (*keep_order)(struct emit *);                               /* nothing moves across: bounds what is live */
	/* x (32 bits), computed before any load behind it: what it is computed from need not stay. */
	LLVMValueRef (*settled)(struct emit *, LLVMValueRef x);

	/* --- clusters: workgroups, members, that reach each other's group memory; where target.cluster is not 0 --- */
	LLVMValueRef (*member)(struct emit *);                           /* the workgroup's number in its cluster */
	LLVMValueRef (*member_place)(struct emit *, LLVMValueRef lds, LLVMValueRef member);   /* the same place in that member's group memory */
	/* `n` counters of 8 bytes are made, one behind the other, and all members are told that this one is there. */
	void (*members_begin)(struct emit *, LLVMValueRef counters, int n);
	void (*members_ready)(struct emit *);                            /* all members are there */
	/* 1, 2 or 4 words to a place of a member, aligned to all of them; their bytes are counted there. */
	void (*member_send)(struct emit *, LLVMValueRef place, LLVMValueRef *words, int n, LLVMValueRef counter);
	void (*members_expect)(struct emit *, LLVMValueRef counter, int bytes);   /* that so many will have come; once a counter */
	void (*members_receive)(struct emit *, LLVMValueRef counter);    /* waits until they have, and sees them */

	/* --- arithmetic --- */
	/* f32 scalars: RSQRT, RCP, EXP2, LOG2, SIN_TURNS, COS_TURNS as numerics defines them. */
	LLVMValueRef (*approximate)(struct emit *, enum ir_op, LLVMValueRef x);
	LLVMValueRef (*clamp)(struct emit *, LLVMValueRef x, LLVMValueRef least, LLVMValueRef most);  /* f32 scalars, x not NaN */
	/* The chip's own 8-bit floats (target.fp8_fnuz says which), `x` f32 or <n x f32>.  to_fp8: NULL where no instruction rounds so. */
	LLVMValueRef (*to_fp8)(struct emit *, LLVMValueRef x, enum dtype, bool saturate);
	void (*clamp_by_mode)(struct emit *);                            /* where target.mode_clamps: to_fp8 saturates from here on */
	LLVMValueRef (*from_fp8)(struct emit *, LLVMValueRef x, enum dtype);
	LLVMValueRef (*from_bf16)(struct emit *, LLVMValueRef x);        /* to f32; NULL = as LLVM does it */
	LLVMValueRef (*widened_again)(struct emit *, LLVMValueRef x);    /* pairs of bf16 or f16 to f32, made anew, not kept from before; NULL = as before */
	/* f32 to bf16, to nearest even, where a NaN's lower half is zero: then it stays one.  NULL = as LLVM does it. */
	LLVMValueRef (*from_fp4)(struct emit *, LLVMValueRef word);      /* eight codes of e2m1, the lowest half byte first, to f32 */
	LLVMValueRef (*round_bf16)(struct emit *, LLVMValueRef x);
	LLVMValueRef (*cut_bf16)(struct emit *, LLVMValueRef x);          /* the upper halves; where there is no instruction that rounds */
	LLVMValueRef (*to_f16)(struct emit *, LLVMValueRef x);           /* f32 to f16, to nearest even; NULL = as LLVM does it */
	/* e2m1 codes, one a byte, where target.cvt_pk_fp4: saturates, NaN to 6 with its sign. */
	LLVMValueRef (*to_fp4)(struct emit *, LLVMValueRef x);
	/* f32 or <n x f32> to integers of at most 32 bits: truncates, NaN to 0; saturate: rounds to nearest even and clamps. */
	LLVMValueRef (*to_integer)(struct emit *, LLVMValueRef x, enum dtype, bool saturate);

	/* --- memory: see memory.h --- */
	bool joins;                                                      /* a lane's address is one 64-bit number: `joined` accesses have it in their base */
	bool scalar_offsets;                                             /* an access adds a uniform 32-bit offset to its base by itself: `step` is used */
	void (*access_open)(struct emit *, struct access *, LLVMValueRef elements);   /* i64 behind the tensor's start, NULL = 0 */
	LLVMValueRef (*load)(struct emit *, const struct access *, int reg, LLVMTypeRef);
	void (*store)(struct emit *, const struct access *, int reg, LLVMValueRef);
	/* Where `on` (i1): the L2 is asked for what register reg's load would bring `bytes` (i64) further, to be kept until then; bytes NULL: for
	 * what it brings, soon.  NULL = the L2 is not asked. */
	void (*fetch)(struct emit *, const struct access *, int reg, LLVMValueRef bytes, LLVMValueRef on);
	/* What register reg's load would bring, 16 bytes, to the lane's own place in group memory, later; what was asked for since the last time
	 * is one lot; and the wait until all but the last so many lots are there, 0: everything.  NULL = what is loaded comes to registers. */
	void (*stage)(struct emit *, const struct access *, int reg, LLVMValueRef lds);
	void (*stage_close)(struct emit *);
	void (*staged)(struct emit *, int lots);
	void (*update)(struct emit *, const struct access *, int reg, enum ir_reduce, LLVMValueRef);

	/* --- matrix --- */
	LLVMValueRef (*product)(struct emit *, const struct mfma *, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc);
	/* Where the instruction scales: by e8m0 in the low byte of an i32 each, of what mfma.group says. */
	LLVMValueRef (*scaled_product)(struct emit *, const struct mfma *, LLVMValueRef a, LLVMValueRef b, LLVMValueRef acc, const LLVMValueRef scale[2]);
	/* Of four waves, where target.quads are: `steps` along k of QUAD_ROWS x 8 * vectors, under way behind it: a lot, or several.  a may be in registers, b is in group
	 * memory.  acc: vectors of four, side by side along b's positions; replaced.  quads_wait: until all but the last so many lots are done; what they gave may then be
	 * read, as acc's new values.  quads_see: what was written to group memory by this lane, before a barrier, for products behind it. */
	void (*quad_product)(struct emit *, const struct quad *, const struct quad_operand *a, const struct quad_operand *b, int steps, LLVMValueRef *acc, int vectors);
	void (*quads_wait)(struct emit *, int lots, LLVMValueRef *acc, int vectors);
	void (*quads_see)(struct emit *);
};
#endif
