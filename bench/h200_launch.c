/* h200_launch.c -- cuLaunchKernel itself in a loop, as a library, for who calls from Python: in its process, on its stream, in turn with its calls.
 *
 * In: a graph of one kernel, into which a call was captured, and a stream.  Out: nanoseconds of one launch of that function with those
 * arguments.  In a process of its own (h200_host.c) a launch took up to 0.75 us less than in Python's (docs/performance.md, 2026-11-26), and hosts
 * change from one second to the next: what a call from Python costs above a launch is told by one beside it alone. */
#include <dlfcn.h>
#include <stddef.h>
#include <time.h>

#include "h200_node.h"

#define EXPORTED __attribute__((visibility("default")))

static struct node taken;
static unsigned (*launch)(struct CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

/* Remembers the graph's kernel, whose arguments are the graph's: it must outlive the launches.  -1: not one kernel, or no driver. */
EXPORTED int h200_launch_take(void *graph)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *node;
	unsigned (*nodes)(void *, void **, size_t *), (*params)(void *, struct node *);
	size_t n = 1;
	if (!lib || !(*(void **)&nodes = dlsym(lib, "cuGraphGetNodes")) || !(*(void **)&params = dlsym(lib, "cuGraphKernelNodeGetParams_v2")) ||
	    !(*(void **)&launch = dlsym(lib, "cuLaunchKernel")))
		return -1;
	return nodes(graph, NULL, &n) || n != 1 || nodes(graph, &node, &n) || params(node, &taken) || !taken.function ? -1 : 0;
}

/* -1: the driver refused. */
EXPORTED double h200_launch_time(void *stream, int n)
{
	struct timespec begin, end;
	const unsigned *g = taken.grid, *b = taken.block;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < n; i++)
		if (launch(taken.function, g[0], g[1], g[2], b[0], b[1], b[2], taken.shared, stream, taken.params, taken.extra))
			return -1;
	clock_gettime(CLOCK_MONOTONIC, &end);
	return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / n;
}
