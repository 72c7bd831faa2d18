/* ptx_run.h -- runs PTX on the host, warp by warp: what a kernel for NVIDIA's chips computes, without one.
 *
 * In: the text that the compiler makes, a kernel's name, its grid and argument block, the memory that it may touch.  Out: that memory.
 * Arithmetic is base/num.h's, so that results can be compared bit for bit with the evaluator's; a matrix instruction adds up its products
 * lane by lane as the layouts' order says (layout_k_order).  Refused with text: an instruction or operand form that is not known, an
 * access outside the memory or not at a multiple of its size, threads of a warp that meet a warp's instruction apart, a load of what another
 * thread of the warp has stored with nothing that orders the two; in clusters what barriers and mbarriers do not order: an access to a
 * workgroup that may not have started or may have ended, a read of what another one stored; workgroups that all wait for each other where
 * the launch does not say so, or some of which never come; of products of four warps (wgmma), which are done when the warp waits for them: an access to
 * registers and shared memory that they use before, a read of what no fence and barrier have shown them. */
#ifndef TDSL_TEST_PTX_RUN_H
#define TDSL_TEST_PTX_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_range { uint8_t *base; size_t bytes; bool writable; };
struct ptx_launch {
	const char *text, *kernel;
	uint32_t grid[3], block;
	const void *arguments; size_t argument_bytes;
	const struct ptx_range *memory; int nmemory;
	int shared;                           /* bytes of a workgroup, those declared without a size included */
	bool meets;                           /* all workgroups run at a time and may wait for each other */
	uint64_t *fetched; int nfetched, most_fetched;   /* addresses that the L2 was asked for, to be kept, in order; NULL = nobody asks */
	uint64_t *soon; int nsoon, most_soon;            /* the same of what is asked for in front of the wait for the launch before */
	uint64_t *stored; int nstored, most_stored;      /* the same of what is stored, the first ones */
	uint64_t time;                        /* ns, of the slowest warp: each has a clock, which moves on by one whenever it looks at it */
	int kept_loads, kept_stores, other_loads;        /* counted: accesses of a thread whose lines the L2 is to give up last, and those with a policy that are as all others */
};
int ptx_run(struct ptx_launch *, char *err, size_t errlen);
#endif
