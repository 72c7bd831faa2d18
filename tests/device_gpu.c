/* device_gpu.c -- see device_gpu.h. */
#include "device_gpu.h"
#include "../runtime/device.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 256, MOST_RANGES = 160, MOST_OFFSETS = 512 };

struct gpu_range { void *host; uint8_t *base, *copy; size_t bytes; bool writable; };
struct gpu_run { void *module; struct gpu_range ranges[MOST_RANGES]; int nranges; uintptr_t saved; };

static tdsl_device gpu;                      /* opened once a process and not closed: the next test has one of its own */

#define GPU(call) ck_assert_msg((call) == 0, "%s", tdsl_error())

bool gpu_wanted(const char *target)
{
	const char *name = getenv("TEST_GPU");
	if (!name || strncmp(target, "gfx", 3) == 0)
		return false;
	if (!gpu)
		GPU(tdsl_open(&gpu, name));
	ck_assert_msg(strcmp(gpu->target, target) == 0, "%s is a GPU for %s, not for %s", name, gpu->target, target);
	return true;
}

struct gpu_run *gpu_open(const void *object, size_t size)
{
	struct gpu_run *g = calloc(1, sizeof *g);
	GPU(gpu->ops->enter(gpu, &g->saved));
	GPU(gpu->ops->module_load(gpu, &g->module, object, size));
	return g;
}

void *gpu_memory(struct gpu_run *g, void *host, size_t bytes, bool writable)
{
	void *base = NULL;
	ck_assert_int_lt(g->nranges, MOST_RANGES);
	GPU(gpu->ops->alloc(gpu, &base, bytes + PLACES));
	struct gpu_range *r = &g->ranges[g->nranges++];
	*r = (struct gpu_range){host, base, (uint8_t *)base + (uintptr_t)host % PLACES, bytes, writable};
	if (bytes)
		GPU(gpu->ops->copy(gpu, r->copy, host, bytes, true));
	return r->copy;
}

void gpu_launch(struct gpu_run *g, const struct model_launch *l, const uint32_t grid[3], uint32_t lanes, void *arguments, const char *what)
{
	struct launch_need need = {.shared = (uint32_t)l->lds, .kernarg_bytes = (uint32_t)l->kernarg_bytes, .block = (uint32_t)l->block, .meets = l->meets};
	uint32_t offsets[MOST_OFFSETS];
	void *function;
	GPU(gpu->ops->function(gpu, &function, g->module, l->symbol, &need));
	ck_assert_msg(!need.unplaced, "%s: no place for a cluster of %u", what, need.members);
	ck_assert_msg(!l->meets || (uint64_t)grid[0] * grid[1] * grid[2] <= need.room, "%s: room for %u workgroups at a time", what, need.room);
	ck_assert_int_le(l->nkargs, MOST_OFFSETS);
	for (int i = 0; i < l->nkargs; i++)
		offsets[i] = l->kargs[i].offset;
	struct launch_shape shape = {.grid = {grid[0], grid[1], grid[2]}, .block = lanes, .shared = need.shared, .members = need.members,
	                             .overlaps = l->overlaps, .meets = l->meets, .narguments = (uint32_t)l->nkargs, .offsets = offsets, .kernarg_bytes = (size_t)l->kernarg_bytes};
	GPU(gpu->ops->launch(gpu, function, &shape, NULL, arguments, what));
}

void gpu_close(struct gpu_run *g, const char *what)
{
	ck_assert_msg(gpu->ops->sync(gpu, NULL) == 0, "%s: %s", what, tdsl_error());
	for (int i = 0; i < g->nranges; i++) {
		struct gpu_range *r = &g->ranges[i];
		void *now = r->writable ? r->host : malloc(r->bytes + 1);
		if (r->bytes)
			GPU(gpu->ops->copy(gpu, now, r->copy, r->bytes, false));
		ck_assert_msg(r->writable || memcmp(now, r->host, r->bytes) == 0, "%s: an input was written", what);
		if (!r->writable)
			free(now);
		gpu->ops->free(gpu, r->base);
	}
	gpu->ops->module_unload(gpu, g->module);
	gpu->ops->leave(gpu, g->saved);
	free(g);
}
