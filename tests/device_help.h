/* device_help.h -- variants of a kernel built and run: the laid-out IR by the evaluator, its code object by the simulated device, or, where there
 * is a GPU for it, by that (device_gpu.h).
 *
 * In: a kernel with its tensors in an ir_run.  Out: a failed check where the two differ in a bit, or where a byte beside an output
 * changed.  A variant is compiled once and can run with many sizes.  A list's tensor [K, N] holds one of its tensors in each row: the first
 * and the last have N elements together, those between none. */
#ifndef TDSL_TEST_DEVICE_HELP_H
#define TDSL_TEST_DEVICE_HELP_H
#include "../compiler/compile.h"
#include "../compiler/object.h"
#include "ir_help.h"

enum { FAST_MEMORY = 4916, SLOW_MEMORY = 3352 };         /* GB/s: of an H200, of an H100 */

struct device_run {
	struct ir_run *r;
	int64_t memory_rate;                           /* what HX_MEMORY_RATE is; a fast one's unless it is set */
	const struct target *target;
	struct object_session *session;
	struct arena arena;
	uint8_t *table[MOST_PARAMS];                   /* of each list while device_check runs: addresses and lengths */
	uint64_t *fetched; int nfetched, most_fetched;   /* what PTX asked the L2 for (ptx_run.h); NULL = nobody asks */
	uint64_t *soon; int nsoon, most_soon;            /* and in front of the wait */
	uint64_t *stored; int nstored, most_stored, stored_of;   /* where PTX of the last launch stored first, bytes behind the start of tensor `stored_of` */
	int kept_loads, kept_stores, other_loads;        /* of PTX by the L2's policies, of the last launch (ptx_run.h) */
	uint64_t time;                        /* ns that the last launch of PTX took, by the interpreter's clocks (ptx_run.h) */
	bool spare;                           /* what is compiled next need not fit: device_compile() then leaves no object */
	double bound;                         /* how far a real GPU's results may be from the evaluator's where its instructions are approximate, by device_near */
	uint64_t accesses;                    /* of memory by tensors' addresses: instructions that simulated AMD waves executed */
	char err[2000];
};

/* A variant as it is shipped, and its IR. */
struct device_code {
	const struct variant *v;
	struct ir_kernel *final;
	struct model_launch *launches; int nlaunches;
	const struct hexpr *workspace, *condition;
	void *elf; size_t size;
	int instructions;                     /* of all its kernels */
};

void device_open(struct device_run *, struct ir_run *, const char *target);
void device_close(struct device_run *);
/* Passes, translation, code generation, the gate.  Free the object with free(c->elf). */
void device_compile(struct device_run *, const struct variant *, struct device_code *, const char *what);
/* Does the variant's predicate hold for the symbols and tensors set?  An output of rank -1 is absent. */
bool device_applies(struct device_run *, const struct variant *);
/* Whether what the code takes for granted holds: a call may still have too few rows for it to be chosen. */
bool device_computes(struct device_run *, const struct variant *);
/* Does what translation asks besides hold; and as well? */
bool device_allows(struct device_run *, const struct device_code *);
bool device_takes(struct device_run *, const struct device_code *);
/* Lanes of a workgroup, for the symbols set. */
uint32_t device_lanes(struct device_run *, const struct model_launch *);
/* What evaluator and device get: of lists tables, in d's arena, of all else the run's tensors. */
void device_tables(struct device_run *, struct ir_tensor *seen);
/* Bytes from a tensor's first element to its last; 0 where it has none. */
size_t device_bytes(const struct ir_tensor *);
/* Is `a` as near to `b` as it is to be: relative to 1 + |b|, and a step of its type; of i8 one of its steps.  A bound of 0: equal. */
bool device_near(double bound, enum dtype, double a, double b);
/* Evaluates and executes; outputs must agree bit for bit.  Outputs (in tensors without data, and inout tensors) hold the evaluator's
 * results afterwards if `keep`, or else are as before. */
void device_check(struct device_run *, const struct device_code *, const char *what, bool keep);
/* Every variant that takes the sizes set; fails unless at least one does. */
void device_check_all(struct ir_run *, const char *target, struct dsl_pin *pins, int npins, const char *sizes);
#endif
