/* plan_facts.h -- what a kernel asks of its variants, as plan.c sees it. */
#ifndef TDSL_PLAN_FACTS_H
#define TDSL_PLAN_FACTS_H
#include "pass.h"

struct facts {
	const struct ir_kernel *k;
	const struct ir_phase *ph;         /* the phase being looked at */
	ir_axes lines;                     /* of it, along which tensors of rows are read: other tensors along others, a number a row, do not count */
	int multiple[MODEL_MAX_SYMBOL];    /* that vector accesses and whole groups ask of a symbol; 0 = none */
	int vector[MODEL_MAX_SYMBOL];      /* that vector accesses alone do, where the last group may end early */
	bool held[MODEL_MAX_SYMBOL];       /* extent of a held axis without a fixed size */
	bool has_dot;
	int rows, weights, long_weights;   /* loads of tensors of rows, of what all rows share, of such as are as long as a row */
	int numbers;                       /* of those of rows, such as load a number a group */
	bool guarded;                      /* of its rows some are not there (pass_guard.c) */
	int cost;                          /* instructions an element, about: of the longest phase */
	bool reduces;                      /* over a held axis of any length */
	int rounds;                        /* of reductions, each of which waits for the one before */
	bool early;                        /* rows are stored before they are reduced */
	int read;                          /* bytes of the widest element of rows that are loaded; of half a byte 0 */
	int widest, narrowest;             /* bytes of the widest and the narrowest element accessed along a contiguous axis; of half a byte 0 */
	int stored;                        /* of the narrowest one stored so */
};

void facts_look(struct facts *, const struct ir_kernel *);
/* Rows side by side are all that a phase of several tiled axes touches: the last of them, and no other, is contiguous anywhere. */
bool phase_is_lines(const struct ir_kernel *, const struct ir_phase *);
/* Lines run along several axes: tiles are turned in group memory. */
bool phase_is_turning(const struct ir_kernel *, const struct ir_phase *);
bool phase_has_product(const struct ir_phase *);                   /* by matrix instructions */

/* The extent of an axis where the variant fixes it: N, and cdiv(N, 128).  variant: or NULL. */
bool phase_extent(const struct variant *, const struct hexpr *extent, int64_t *n);
/* An axis held whole whose extent the variant does not fix. */
bool phase_is_open(const struct variant *, const struct ir_axis *);
/* Positions, more than any workgroup holds: products of several extents have no 64 bits. */
#define HELD_MUCH (INT64_C(1) << 40)
/* What a phase holds at a time before the tiles of its open and tiled axes; HELD_MUCH = so much or more. */
struct shape { int64_t fixed; int open, tiled; };
/* The axis of a loop that adds up sums of what it takes at a time, however much that is; -1 = there is none.  It is no tiled axis of the shape. */
int phase_summed_axis(const struct ir_phase *);
struct shape phase_shape(const struct variant *, const struct ir_phase *);
/* A fixed size is no power of two: the fewer the lanes beside each other, the fewer places are empty.  One is of n positions or more. */
bool variant_is_ragged(const struct variant *);
bool variant_is_at_least(const struct variant *, int64_t n);
int64_t power_above(int64_t n);            /* the least power of two that is not below n, up to HELD_MUCH */
#endif
