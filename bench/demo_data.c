/* demo_data.c -- `demo_data OUT.safetensors`: the demonstration's inputs, the same bytes on every machine.
 *
 * In: a path.  Out: a safetensors file with one layer's worth of LLaMA-3-8B shapes (hidden 4096, intermediate 14336, 32 query
 * and 8 key heads of 128), 256 tokens, tensors named kernel.parameter.  The grouped product has four experts, one of them
 * without rows, and the width of one of eight tensor-parallel shards.  Numbers are normal, from a fixed seed. */
#include <stdio.h>
#include <stdlib.h>
#include "../base/tensorfile.h"
#include "../tests/ref/ref.h"

enum { TOKENS = 256, HIDDEN = 4096, INTERMEDIATE = 14336, HEADS = 32, KV_HEADS = 8, HEAD = 128, EXPERTS = 4, EXPERT_WIDTH = 1792 };

static struct tensorfile_tensor tensor(struct ref_random *r, const char *name, int rank, const int64_t *shape, double scale)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= shape[i];
	uint16_t *data = malloc((size_t)n * sizeof *data);
	if (!data)
		abort();
	ref_fill(r, REF_BF16, data, n, scale);
	return (struct tensorfile_tensor){.name = name, .dtype = DT_BF16, .rank = rank, .shape = shape, .data = data};
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: demo_data OUT.safetensors\n");
		return 2;
	}
	static const int64_t x[] = {TOKENS, HIDDEN}, w[] = {HIDDEN}, h[] = {TOKENS, 2 * INTERMEDIATE}, b[] = {EXPERTS, EXPERT_WIDTH, HIDDEN},
		first[] = {EXPERTS + 1}, q[] = {1, HEADS, TOKENS, HEAD}, kv[] = {1, KV_HEADS, TOKENS, HEAD};
	static int32_t bounds[] = {0, 100, 100, 163, TOKENS};
	struct ref_random r = {20260801};
	struct tensorfile_tensor tensors[] = {
		tensor(&r, "rmsnorm_quant.x", 2, x, 1),
		tensor(&r, "rmsnorm_quant.w", 1, w, 0.3),
		tensor(&r, "swiglu_quant.h", 2, h, 1.5),
		tensor(&r, "grouped_gemm.a", 2, x, 1),
		tensor(&r, "grouped_gemm.b", 3, b, 0.02),
		{.name = "grouped_gemm.first", .dtype = DT_I32, .rank = 1, .shape = first, .data = bounds},
		tensor(&r, "attention.q", 4, q, 1.5),
		tensor(&r, "attention.k", 4, kv, 1.5),
		tensor(&r, "attention.v", 4, kv, 1),
		tensor(&r, "rmsnorm.res", 2, x, 1),
	};
	char err[256];
	if (tensorfile_write(argv[1], tensors, sizeof tensors / sizeof *tensors, err, sizeof err)) {
		fprintf(stderr, "demo_data: %s\n", err);
		return 1;
	}
	return 0;
}
