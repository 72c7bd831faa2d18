/* plan_facts.h -- what a kernel asks of its variants, as plan.c sees it. */
#ifndef TDSL_PLAN_FACTS_H
#define TDSL_PLAN_FACTS_H
#include "pass.h"

struct facts {
	const struct ir_kernel *k;
	const struct ir_phase *ph;         /* the phase being looked at */
	int multiple[MODEL_MAX_SYMBOL];    /* that vector accesses ask of a symbol; 0 = none */
	bool held[MODEL_MAX_SYMBOL];       /* extent of a held axis without a fixed size */
	bool has_dot;
	int rows, weights;                 /* loads of tensors of rows, of what all rows share */
	bool guarded;                      /* of its rows some are not there (pass_guard.c) */
	int cost;                          /* instructions an element, about: of the longest phase */
	bool reduces;                      /* over a held axis of any length */
	int widest, narrowest;             /* bytes of the widest and the narrowest element accessed along a contiguous axis; of half a byte 0 */
};

void facts_look(struct facts *, const struct ir_kernel *);
/* Rows side by side are all that a phase of several tiled axes touches: the last of them, and no other, is contiguous anywhere. */
bool phase_is_lines(const struct ir_kernel *, const struct ir_phase *);
/* Lines run along several axes: tiles are turned in group memory. */
bool phase_is_turning(const struct ir_kernel *, const struct ir_phase *);
#endif
