/* absent.h -- what a value is in elements for which a mask is false: those of a load read +0, and what is made of them may be known. */
#ifndef TDSL_ABSENT_H
#define TDSL_ABSENT_H
#include "pass.h"

/* In rising order of what is known.  +0 is what masked-off elements of a sum count as, and waves that are not started. */
enum absent { ANYTHING, ANY_ZERO, PLUS_ZERO };

enum absent absent_value(const struct ir_ins *, const struct ir_ins *mask);

/* The mask says no more than that a position is one of its axis, so that nothing can come of what is computed where it is false. */
bool absent_is_outside(const struct ir_phase *, const struct ir_ins *mask);

/* What a masked reduction's operands have to be where its mask is false for it to have the same result without; -1 = it needs its mask. */
int absent_needed(const struct variant *, const struct ir_phase *, const struct ir_ins *reduce);
#endif
