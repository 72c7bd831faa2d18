/* h200_host.c PACK [DEVICE] -- what one call of a kernel costs on the host above the driver's launch, on a real NVIDIA GPU.
 *
 * In: a pack with rmsnorm_quant for the device.  Out: one JSON object on a line: nanoseconds of a launch by cuLaunchKernel itself, by
 * cuLaunchKernelEx with the attribute that lets it begin early, of a tdsl_call that launches the same function with the same arguments,
 * and its difference to both, each the median of batches; the batches take turns, are smaller than the driver's queue, and are waited
 * for between the measurements.  While a batch is timed the stream is held back by a host function that waits: no kernel runs, so that
 * what is timed is the host alone, whether launches may overlap or not.  The function, its grid and its arguments are taken from a
 * graph into which one call was captured, and launched in the same packed form.  Exit 77: no such GPU. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../runtime/cuda_abi.h"
#include "h200_node.h"
#include "tdsl.h"

enum { M = 16, N = 4096, SHAPES = 16, BATCHES = 201, CALLS = 256, STILL_RUNNING = 600 }; /* CUDA_ERROR_NOT_READY */
enum { BY_LAUNCH, BY_LAUNCH_WITH, BY_CALL, BY_CALL_IN_TURN, WAYS };

static struct {
	unsigned (*launch)(struct CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
	unsigned (*stream_create)(void **, unsigned), (*begin)(void *, unsigned), (*end)(void *, void **);
	unsigned (*nodes)(void *, void **, size_t *), (*node_params)(void *, struct node *);
	unsigned (*context_retain)(void **, int), (*context_set)(void *);
	unsigned (*parameter)(struct CUfunc_st *, size_t, size_t *, size_t *);
	unsigned (*launch_with)(const struct cuda_launch *, struct CUfunc_st *, void **, void **);
	unsigned (*host_function)(void *, void (*)(void *), void *), (*query)(void *);
} cu;

static int fail(const char *what, unsigned rc)
{
	fprintf(stderr, "h200_host: %s: %s\n", what, rc ? "the driver refused" : tdsl_error());
	return 1;
}

static int driver_find(const char *library)
{
	static const struct { const char *name; size_t at; } names[] = {
		{"cuLaunchKernel", 0}, {"cuStreamCreate", 1}, {"cuStreamBeginCapture_v2", 2}, {"cuStreamEndCapture", 3}, {"cuGraphGetNodes", 4},
		{"cuGraphKernelNodeGetParams_v2", 5}, {"cuDevicePrimaryCtxRetain", 6}, {"cuCtxSetCurrent", 7},
		{"cuFuncGetParamInfo", 8}, {"cuLaunchKernelEx", 9}, {"cuLaunchHostFunc", 10}, {"cuStreamQuery", 11}};
	void *lib = dlopen(library, RTLD_NOW), **at = (void **)(void *)&cu;
	for (size_t i = 0; lib && i < sizeof names / sizeof *names; i++)
		if (!(at[names[i].at] = dlsym(lib, names[i].name)))
			return -1;
	return lib ? 0 : -1;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static atomic_bool held_back;

static void wait_until_let_go(void *unused)
{
	(void)unused;
	while (atomic_load(&held_back))
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* What is launched from here on waits until held_back is false. */
static unsigned hold(void *stream)
{
	atomic_store(&held_back, true);
	return cu.host_function(stream, wait_until_let_go, NULL);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, BATCHES, sizeof *v, ascending);
	return v[BATCHES / 2];
}

/* The arguments of one call; rows differ, so that several shapes take turns. */
struct call { int64_t x[2], n[1], m[1]; DLTensor tx, tw, ty, ts; union tdsl_arg args[5]; };

static void call_set(struct call *c, DLDevice place, char *memory, int rows)
{
	*c = (struct call){.x = {rows, N}, .n = {N}, .m = {rows}};
	c->tx = (DLTensor){memory, place, 2, {TDSL_DL_BFLOAT, 16, 1}, c->x, NULL, 0};
	c->tw = (DLTensor){memory + 2 * (M + SHAPES) * N, place, 1, {TDSL_DL_BFLOAT, 16, 1}, c->n, NULL, 0};
	c->ty = (DLTensor){memory + 2 * (M + SHAPES + 1) * N, place, 2, {TDSL_DL_E4M3FN, 8, 1}, c->x, NULL, 0};
	c->ts = (DLTensor){memory + 3 * (M + SHAPES + 1) * N, place, 1, {TDSL_DL_FLOAT, 32, 1}, c->m, NULL, 0};
	c->args[0].t = &c->tx, c->args[1].t = &c->tw, c->args[2].f = 1e-6, c->args[3].t = &c->ty, c->args[4].t = &c->ts;
}

/* The node's arguments as one block; its bytes, 0 where the driver gives them otherwise. */
static size_t arguments_pack(unsigned char *block, size_t room, const struct node *n)
{
	size_t offset, size, end = 0;
	for (size_t i = 0; n->params && cu.parameter(n->function, i, &offset, &size) == 0; i++) {
		if (offset + size > room)
			return 0;
		memcpy(block + offset, n->params[i], size);
		end = offset + size;
	}
	return end;
}

/* The launch that a call makes, from a graph. */
static int launch_find(struct node *found, tdsl_kernel k, tdsl_stream s, void *native, struct call *c)
{
	void *graph, *nodes[2];
	size_t n = 2;
	unsigned rc;
	if ((rc = cu.begin(native, CUDA_CAPTURE_RELAXED)))
		return fail("capturing", rc);
	if (tdsl_call(k, s, c->args, 5, NULL, 0))
		return fail("the call under capture", 0);
	if ((rc = cu.end(native, &graph)) || (rc = cu.nodes(graph, nodes, &n)) || n != 1 || (rc = cu.node_params(nodes[0], found)))
		return fail("the captured graph", rc ? rc : 1);
	return 0;
}

int main(int argc, char **argv)
{
	static struct call calls[SHAPES];
	static double batch[WAYS][BATCHES];
	struct tdsl_device_info info;
	struct node node = {0};
	tdsl_device d;
	tdsl_pack pack;
	tdsl_kernel k;
	tdsl_stream s;
	void *native, *memory, *context;
	if (argc < 2) {
		fprintf(stderr, "usage: h200_host PACK [DEVICE]\n");
		return 2;
	}
	if (tdsl_open(&d, argc > 2 ? argv[2] : "cuda:0") || tdsl_device_query(&info, d)) {
		fprintf(stderr, "h200_host: skipped: %s\n", tdsl_error());
		return 77;
	}
	if (tdsl_pack_open(&pack, argv[1]) || tdsl_kernel_find(&k, pack, "rmsnorm_quant") || tdsl_alloc(&memory, d, 4 * (M + SHAPES + 2) * N))
		return fail("opening", 0);
	if (driver_find(info.library))
		return fail("looking the driver's functions up", 1);
	unsigned rc = cu.context_retain(&context, info.dl.device_id);
	if (rc || (rc = cu.context_set(context)) || (rc = cu.stream_create(&native, 1)))
		return fail("making a stream", rc);
	if (tdsl_stream_open(&s, d, native))
		return fail("the stream", 0);
	for (int i = 0; i < SHAPES; i++) {
		call_set(&calls[i], info.dl, memory, M + i);
		if (tdsl_call(k, s, calls[i].args, 5, NULL, 0))
			return fail("a call", 0);
	}
	if (tdsl_sync(s) || launch_find(&node, k, s, native, &calls[0]))
		return fail("the first calls", 0);
	unsigned char block[256] = {0};
	size_t bytes = arguments_pack(block, sizeof block, &node);
	void *packed[] = {CUDA_EXTRA_POINTER, block, CUDA_EXTRA_SIZE, &bytes, CUDA_EXTRA_END}, **extra = bytes ? packed : node.extra;
	if (!extra)
		return fail("the arguments of the captured launch", 1);
	struct cuda_attribute early = {.id = CUDA_LAUNCH_OVERLAPS, .value = {1}};
	struct cuda_launch with = {{node.grid[0], node.grid[1], node.grid[2]}, {node.block[0], node.block[1], node.block[2]}, node.shared, native, &early, 1};
	for (int b = 0; b < BATCHES; b++)
		for (int way = 0; way < WAYS; way++) {
			if (hold(native))
				return fail("holding the stream back", 1);
			double t = now();
			for (int i = 0; i < CALLS && !rc; i++)
				switch (way) {
				case BY_LAUNCH: rc = cu.launch(node.function, node.grid[0], node.grid[1], node.grid[2], node.block[0], node.block[1],
				                               node.block[2], node.shared, native, NULL, extra); break;
				case BY_LAUNCH_WITH: rc = cu.launch_with(&with, node.function, NULL, extra); break;
				default: rc = tdsl_call(k, s, calls[way == BY_CALL ? 0 : i % SHAPES].args, 5, NULL, 0) ? 1 : 0;
				}
			batch[way][b] = (now() - t) / CALLS;
			bool held = cu.query(native) == STILL_RUNNING;
			atomic_store(&held_back, false);
			if (rc || tdsl_sync(s))
				return fail("launching", rc);
			if (!held)
				return fail("the stream ran while a batch was timed", 1);
		}
	double r = median(batch[BY_LAUNCH]), w = median(batch[BY_LAUNCH_WITH]), o = median(batch[BY_CALL]), v = median(batch[BY_CALL_IN_TURN]);
	printf("{\"cuLaunchKernel\": %.1f, \"cuLaunchKernelEx, may begin early\": %.1f, \"tdsl_call\": %.1f, \"tdsl_call, %d shapes in turn\": %.1f, "
	       "\"above\": %.1f, \"above cuLaunchKernelEx\": %.1f}\n", r, w, o, SHAPES, v, o - r, o - w);
	return 0;
}
