/* host_cost.c -- what one call of a generated C function costs on the host, up to the driver's launch, on `null:gfx942`.
 * Out: one line of JSON.  16 shapes alternate, four of them strided 3-D views, so that a memory of one shape would not help;
 * the median of many batches is reported, warm.  "cold" is the first call of a shape. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../runtime/include/tdsl.h"
#include "../tests/rt_model.h"

enum { SHAPES = 16, BATCHES = 101, CALLS = 16 * 64 };

static struct tdsl_binding binding = {"rmsnorm_quant", "TTfTT", NULL, 0, NULL};

/* As the compiler's binding generator writes it. */
static __attribute__((noinline)) int rmsnorm_quant(tdsl_stream stream, const DLTensor *x, const DLTensor *w, float eps, DLTensor *y, DLTensor *scale)
{
	const union tdsl_arg args[] = {{.t = x}, {.t = w}, {.f = eps}, {.t = y}, {.t = scale}};
	return tdsl_binding_call(&binding, stream, args, 5, NULL, 0);
}

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

int main(void)
{
	static struct shape shapes[SHAPES];
	double batch[BATCHES], cold = 0;
	size_t size;
	tdsl_device d;
	void *pack = rt_pack(&size, false);
	if (tdsl_open(&d, "null:gfx942") || tdsl_pack_add_memory(pack, size))
		return fail();
	for (int i = 0; i < SHAPES; i++) {
		struct shape *s = &shapes[i];
		shape_set(s, i);
		double t = now();
		if (rmsnorm_quant(NULL, &s->tx, &s->tw, 1e-6f, &s->ty, &s->ts))
			return fail();
		cold += i ? now() - t : 0; /* the first one also finds the kernel */
	}
	for (int b = 0; b < BATCHES; b++) {
		double t = now();
		for (int c = 0; c < CALLS; c++) {
			struct shape *s = &shapes[c % SHAPES];
			s->tx.byte_offset = (uint64_t)(c & 7) * 16; /* addresses differ from call to call */
			if (rmsnorm_quant(NULL, &s->tx, &s->tw, 1e-6f, &s->ty, &s->ts))
				return fail();
		}
		batch[b] = (now() - t) / CALLS;
	}
	struct tdsl_last last;
	tdsl_last_call(&last);
	qsort(batch, BATCHES, sizeof *batch, ascending);
	printf("{\"host_call_ns\": %.1f, \"host_call_ns_best\": %.1f, \"host_call_cold_ns\": %.0f, \"shapes\": %d, \"remembered\": %d, \"target_ns\": 200}\n",
	       batch[BATCHES / 2], batch[0], cold / (SHAPES - 1), SHAPES, last.remembered);
	return 0;
}
