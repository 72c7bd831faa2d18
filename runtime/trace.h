/* trace.h -- dispatch in the open: process-wide counts, and the rules that the environment adds to the choice of a variant. */
#ifndef TDSL_RT_TRACE_H
#define TDSL_RT_TRACE_H
#include "bind.h"

enum trace_counter { TRACE_PLANS, TRACE_COMPILES, TRACE_CACHE_HITS, TRACE_CACHE_MISSES, TRACE_JIT_KERNELS, TRACE_COUNTERS };
void trace_count(enum trace_counter);

/* Whether neither TDSL_BATCH_INVARIANT nor an entry of TDSL_TUNE for the call's own sizes decides; 0, or a negative code. */
int choice_is_open(bool *open, const struct bind *);
/* All variants; those that have a predicate; those for exactly the optional tensors of a call.  A tuned choice stands: of the last two it is that or none. */
enum choice { CHOOSE_ANY, CHOOSE_SPECIAL, CHOOSE_TAILORED };
/* The variant that serves a bound call: its index in the kernel, or a negative code.
 * say, where not NULL, is told of every variant of instance and target what became of it, in their order. */
int choose_variant(const struct bind *, enum choice, uint32_t *index, void (*say)(void *, uint32_t index, const char *what), void *ctx);
/* Whether the variant is for exactly some optional tensors: its predicate asks which there are. */
bool variant_is_tailored(const struct bind *, const struct pack_variant *);
/* What became of every variant, a line each after one that names the call; this thread's until it asks again. */
const char *explain(const struct bind *);
/* The same, or NULL with the error set where the call is refused. */
const char *explain_call(const struct bind *);
#endif
