/* runs_test.c -- the AMD chips' variants for rows that begin and end anywhere: 16 bytes an access where a call has them side by side.
 *
 * In: kernels of kernels.tdsl at sizes that are multiples of nothing, tensors that begin one element later or lie apart inside rows.
 * Out: the simulated device's results against the evaluator's, bit for bit, and how many accesses waves executed: one a run where runs
 * are whole; as many as elements, besides, where a row ends in one or elements lie apart. */
#include "nvptx_help.h"

#include <stdlib.h>
#include <string.h>

static const char *const chips[] = {"gfx942", "gfx950"};

/* Input `name` anew: its elements `step` apart, from `shift` elements behind 16 aligned bytes on. */
static void place(struct built *b, const char *name, int step, int shift)
{
	struct ir_tensor *t = ir_run_find(&b->r, name);
	int64_t n = ir_tensor_count(t), bytes = dtype_info(t->dtype)->bits / 8;
	uint8_t *to = aligned_alloc(16, (size_t)((n * step + shift) * bytes + 15) / 16 * 16), *from = t->data;
	memset(to, 0xa5, (size_t)((n * step + shift) * bytes));
	for (int64_t i = 0; i < n; i++)
		memcpy(to + (i * step + shift) * bytes, from + i * bytes, (size_t)bytes);
	for (int d = 0; d < t->rank; d++)
		t->stride[d] *= step;
	t->data = to + shift * bytes;
	free(from);
}

static void unplace(struct built *b, const char *name, int shift)
{
	struct ir_tensor *t = ir_run_find(&b->r, name);
	t->data = (uint8_t *)t->data - shift * (dtype_info(t->dtype)->bits / 8);
}

static const struct { const char *kernel, *given, *moved; int m; } cases[] = {
	{"add", "", "x", 3}, {"quantize_rows", "", "x", 3}, {"rmsnorm_quant", "", "w", 2}, {"layernorm_quant", "b", "x", 2},
	{"quantize_128", "", "x", 2}, {"quantize_mxfp8", "", "x", 2}, {"swiglu", "", "h", 3}, {"swiglu_128", "amax", "h", 2},
	{"dequantize_128", "", "y", 3}, {"silu_bwd", "db", "dy", 5}, {"softmax_rows", "", "x", 2}, {"cast_transpose", "y yt amax", "x", 37},
	{"quantize_both_mxfp8", "y scale yt scale_t", "x", 35}, {"rmsnorm_both_mxfp8", "w y scale yt scale_t", "x", 33},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Every length of a row's end; a tensor that begins anywhere, one whose elements lie apart. */
START_TEST(ends_compute)
{
	static const int sizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 129, 131, 517};
	struct built b;
	built_open_for(&b, cases[_i / 2].kernel, chips[_i % 2], NULL);
	int any = built_variant(&b, "any");
	struct device_code code;
	for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		int way = (int)(s % 3), step = way == 2 ? 3 : 1, shift = way;
		ir_run_symbol(&b.r, "M", cases[_i / 2].m);
		ir_run_symbol(&b.r, "N", sizes[s]);
		if (strncmp(cases[_i / 2].kernel, "softmax", 7) == 0)
			ir_run_symbol(&b.r, "B", 1);
		built_give(&b, cases[_i / 2].given);
		place(&b, cases[_i / 2].moved, step, shift);
		if (!s)
			device_compile(&b.d, &b.v[any], &code, "any");
		if (device_takes(&b.d, &code))
			device_check(&b.d, &code, "any", false);
		else
			ck_abort_msg("%s %d: any is not for it", cases[_i / 2].kernel, sizes[s]);
		unplace(&b, cases[_i / 2].moved, shift);
	}
	free(code.elf);
	built_close(&b);
}
END_TEST

static uint64_t accesses_of(const char *kernel, const char *target, const char *given, const char *moved, int m, int n, int step)
{
	struct built b;
	struct device_code code;
	built_open_for(&b, kernel, target, NULL);
	ir_run_symbol(&b.r, "M", m);
	ir_run_symbol(&b.r, "N", n);
	built_give(&b, given);
	place(&b, moved, step, 0);
	device_compile(&b.d, &b.v[built_variant(&b, "any")], &code, "any");
	device_check(&b.d, &code, "any", false);
	free(code.elf);
	uint64_t n_accesses = b.d.accesses;
	built_close(&b);
	return n_accesses;
}

/* add: tiles of 2,048 elements by four waves, 8 elements a lane, two loads and a store. */
START_TEST(whole_runs_are_one_access)
{
	const char *chip = chips[_i];
	ck_assert_int_eq(accesses_of("add", chip, "", "x", 1, 2048, 1), 4 * 3);
	ck_assert_int_eq(accesses_of("add", chip, "", "x", 1, 4096, 1), 8 * 3);
	ck_assert_int_eq(accesses_of("add", chip, "", "x", 1, 2043, 1), 4 * 3 + 3 * 8);           /* one wave has the row's end */
	ck_assert_int_eq(accesses_of("add", chip, "", "x", 1, 2049, 1), 8 * 3 + 3 * 8);           /* the first of the second tile's */
	ck_assert_int_eq(accesses_of("add", chip, "", "x", 1, 2048, 2), 4 * 3 + 4 * 8);           /* elements of x apart: x alone, by all waves */
	ck_assert_int_eq(accesses_of("add", chip, "", "x", 1, 512, 2), 4 * 3 + 8);                /* by the one that has elements */
}
END_TEST

/* An absent tensor is no reason to access element by element, though its strides say nothing. */
START_TEST(absent_tensors_are_whole)
{
	uint64_t without = accesses_of("swiglu", chips[_i], "", "h", 1, 2048, 1), with = accesses_of("swiglu", chips[_i], "b", "h", 1, 2048, 1);
	ck_assert_msg(without <= with, "%d, %d with b", (int)without, (int)with);
}
END_TEST

/* Not where nothing is known of the tensors of a list, nor where the chip cannot. */
START_TEST(who_accesses_runs)
{
	static const struct { const char *kernel, *target; bool runs; } who[] = {
		{"add", "gfx942", true}, {"add", "gfx950", true}, {"add", "sm_90a", false}, {"multi_tensor_scale", "gfx942", false},
		{"grouped_gemm", "gfx950", true}, {"grouped_gemm", "sm_90a", false}, {"attention", "gfx942", false},
	};
	for (unsigned c = 0; c < sizeof who / sizeof *who; c++) {
		struct built b;
		built_open_for(&b, who[c].kernel, who[c].target, NULL);
		ck_assert_msg(variant_in_runs(&b.v[b.n - 1]) == who[c].runs, "%s %s %s", who[c].kernel, who[c].target, b.v[b.n - 1].text);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, ends_compute, 0, 2 * CASES);
	tcase_add_loop_test(t, whole_runs_are_one_access, 0, 2);
	tcase_add_loop_test(t, absent_tensors_are_whole, 0, 2);
	tcase_add_test(t, who_accesses_runs);
}

int main(void)
{
	return nvptx_run("runs", add_tests);
}
