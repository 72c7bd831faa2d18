/* kernarg.c -- the hidden kernel arguments that a driver fills in at every launch.
 *
 * In: a kernel's arguments from its metadata, and the launch's shape.  Out: their bytes in the kernarg segment.  Kinds
 * and meanings are those of LLVM's AMDGPUUsage, "code object V5 metadata"; the grid is in whole workgroups, so
 * remainders and offsets are 0, and so are the services that a simulated device has not (printf and hostcall buffers,
 * device heap, queues). */
#include "sim.h"

#include <string.h>

bool sim_arg_hidden(const struct sim_arg *a)
{
	return strncmp(a->kind, "hidden_", 7) == 0;
}

static uint64_t hidden_value(const char *kind, const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_lds)
{
	static const char axis[3] = "xyz";
	for (int i = 0; i < 3; i++) {
		const char *last = kind + strlen(kind) - 1;
		if (*last != axis[i])
			continue;
		if (strncmp(kind, "hidden_block_count_", 19) == 0)
			return grid[i];
		if (strncmp(kind, "hidden_group_size_", 18) == 0)
			return block[i];
	}
	if (strcmp(kind, "hidden_grid_dims") == 0)
		return 3;
	if (strcmp(kind, "hidden_dynamic_lds_size") == 0)
		return dynamic_lds;
	return 0;
}

void sim_kernarg_hidden(const struct sim_kernel *k, const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_lds,
                        void *kernarg)
{
	for (int i = 0; i < k->nargs; i++) {
		const struct sim_arg *a = &k->args[i];
		if (!sim_arg_hidden(a))
			continue;
		uint64_t value = hidden_value(a->kind, grid, block, dynamic_lds);
		memset((char *)kernarg + a->offset, 0, a->size);
		memcpy((char *)kernarg + a->offset, &value, a->size < sizeof value ? a->size : sizeof value);
	}
}
