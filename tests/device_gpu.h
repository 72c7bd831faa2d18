/* device_gpu.h -- launches on a real GPU, for tests that otherwise interpret PTX: those of device_help.h where $TEST_GPU names one (cuda:0).
 *
 * In: a variant's object (a cubin, or PTX that the driver assembles), its launches, host memory that they use.  Out: that memory as
 * the GPU leaves it.  By the runtime's own device table, so that clusters, group memory and launches that begin early are asked for as in use. */
#ifndef TDSL_TEST_DEVICE_GPU_H
#define TDSL_TEST_DEVICE_GPU_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/model.h"

/* Is there one for this target?  A GPU that is named and cannot be had, or is of another target, fails the check. */
bool gpu_wanted(const char *target);

struct gpu_run;
struct gpu_run *gpu_open(const void *object, size_t size);
/* The GPU's copy of `bytes` at host, as far from a multiple of 256 as they are.  What is not writable must be unchanged in the end. */
void *gpu_memory(struct gpu_run *, void *host, size_t bytes, bool writable);
void gpu_launch(struct gpu_run *, const struct model_launch *, const uint32_t grid[3], uint32_t lanes, void *arguments, const char *what);
/* Waits, brings back what is writable, frees everything. */
void gpu_close(struct gpu_run *, const char *what);
#endif
