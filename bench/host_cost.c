/* host_cost.c -- what one call of a generated C function costs on the host, up to the driver's launch, on `null:gfx942`.
 *
 * In: the pack named by the argument, else kernels.tpack beside the program.  Out: two lines that end in nanoseconds: a warm call
 * (median of many batches) and the first call of a shape.  16 shapes alternate, four of them strided 3-D views, and addresses
 * change from call to call, so that a memory of one shape or of pointers would not help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"
#include "tdsl.h"

enum { SHAPES = 16, BATCHES = 101, CALLS = 16 * 64 };

struct shape { int64_t x[3], xs[3], y[3], ys[3], n[1], s[2], ss[2], ns[1]; DLTensor tx, tw, ty, ts; };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static DLTensor tensor(uintptr_t base, uint8_t code, uint8_t bits, int rank, int64_t *shape, int64_t *strides)
{
	return (DLTensor){(void *)base, {kDLCPU, 0}, rank, {code, bits, 1}, shape, strides, 0};
}

static void shape_set(struct shape *s, int i)
{
	int64_t b = 2 + i % 3, rows = 16 + 7 * i, n = 1024 + 64 * i;
	int strided = i % 4 == 0;
	*s = (struct shape){.x = {b, rows, n}, .xs = {rows * n * 2, n + 64, 1}, .y = {b, rows, n}, .ys = {rows * n, n, 1}, .n = {n}, .ns = {1},
	                    .s = {b, rows}, .ss = {rows, 1}};
	s->tx = tensor(0x100000000, TDSL_DL_BFLOAT, 16, strided ? 3 : 2, strided ? s->x : s->x + 1, strided ? s->xs : s->ys + 1);
	s->tw = tensor(0x200000000, TDSL_DL_BFLOAT, 16, 1, s->n, s->ns);
	s->ty = tensor(0x300000000, TDSL_DL_E4M3FNUZ, 8, strided ? 3 : 2, strided ? s->y : s->y + 1, strided ? s->ys : s->ys + 1);
	s->ts = tensor(0x400000000, TDSL_DL_FLOAT, 32, strided ? 2 : 1, strided ? s->s : s->s + 1, strided ? s->ss : s->ss + 1);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static int fail(void)
{
	fprintf(stderr, "host_cost: %s\n", tdsl_error());
	return 1;
}

int main(int argc, char **argv)
{
	static struct shape shapes[SHAPES];
	double batch[BATCHES], cold[SHAPES];
	char beside[4096];
	tdsl_device d;
	const char *slash = strrchr(argv[0], '/');
	snprintf(beside, sizeof beside, "%.*skernels.tpack", slash ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
	if (tdsl_open(&d, "null:gfx942") || tdsl_pack_add(argc > 1 ? argv[1] : beside))
		return fail();
	for (int i = -1; i < SHAPES; i++) { /* the very first call also finds the kernel: not counted */
		struct shape one, *s = i < 0 ? &one : &shapes[i];
		shape_set(s, i < 0 ? SHAPES : i);
		double t = now();
		if (rmsnorm_quant(NULL, &s->tx, &s->tw, 1e-6f, &s->ty, &s->ts))
			return fail();
		cold[i < 0 ? 0 : i] = now() - t;
	}
	for (int b = 0; b < BATCHES; b++) {
		double t = now();
		for (int c = 0; c < CALLS; c++) {
			struct shape *s = &shapes[c % SHAPES];
			s->tx.byte_offset = (uint64_t)(c & 7) * 16;
			if (rmsnorm_quant(NULL, &s->tx, &s->tw, 1e-6f, &s->ty, &s->ts))
				return fail();
		}
		batch[b] = (now() - t) / CALLS;
	}
	qsort(batch, BATCHES, sizeof *batch, ascending);
	qsort(cold, SHAPES, sizeof *cold, ascending);
	printf("rmsnorm_quant on null:gfx942, %d alternating shapes, %d of them strided 3-D, warm: %.1f ns\n", SHAPES, SHAPES / 4, batch[BATCHES / 2]);
	printf("the same, first call of a shape: %.0f ns\n", cold[SHAPES / 2]);
	return 0;
}
