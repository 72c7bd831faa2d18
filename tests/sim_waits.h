/* sim_waits.h -- a proof that deleting one s_waitcnt changes nothing, for every path through a kernel's code.
 *
 * In: a loaded object, a kernel, the offset of an s_waitcnt in the image; what runs have shown of s_cbranch_execz, by dword of the
 * image, or NULL.  Out: true and the reason, or false: then nothing is known.  Method: data flow over the code, once as it is and once without the wait.  For each point: how many operations of each
 * counter may be outstanding at most, and for each register how many operations were issued since the one that writes it at
 * least; the register may be in flight while the second number is below the first.  The deletion changes nothing where no
 * instruction touches a register that only then may be in flight, and where the same numbers are outstanding at each instruction
 * that orders memory: barriers, cache maintenance, atomics, and in code that copies memory to LDS every LDS access and copy.
 * A jump over code that no lane wants, which runs executed and never took because every wave has such a lane, may be left out. */
#ifndef TDSL_TESTS_SIM_WAITS_H
#define TDSL_TESTS_SIM_WAITS_H
#include "../sim/sim.h"

enum { JUMP_UNKNOWN, JUMP_NOT_TAKEN, JUMP_TAKEN };
bool sim_wait_redundant(const struct sim_object *, const struct sim_kernel *, uint64_t at, const uint8_t *jumps, char *why, size_t len);
#endif
