/* nvptx_bands_test.c -- by how many rows there are, which variant of a fixed length of rows a call takes.
 *
 * In: kernels.tdsl with one pin.  Checked: where each band begins and ends, by hand from the chip's numbers - an H200's 132 multiprocessors have
 * 2,048 threads each, and a launch asks for 4 MB early - how many waves share a row there, and, run against the evaluated laid-out IR bit for bit,
 * what each computes. */
#include "nvptx_help.h"

#include <check.h>
#include <string.h>

/* A row of 5,120 to 8,192 in bf16 takes 512 lanes, four such workgroups a multiprocessor: 528 rows; their tiles are of 16 KB: 256 rows asked for.  One of
 * 4,096 has an access in each of 512 lanes: 528 as well; of 2,048, in 256 lanes, and of 1,024, in 128, 1,056, for there are to be eight workgroups at most; one
 * of 512, in 64, is too short.  One of 14,336 or 16,384 has 32
 * elements in each of 512, whose registers leave room for half: 264. */
static const struct { const char *kernel, *given; int n; struct { int from, waves; const char *variant; } bands[6]; } cases[] = {
	{"rmsnorm_quant", "", 5120, {{1, 16, "N=5120 aligned"}, {257, 16, "N=5120 aligned rows>=257"}, {529, 8, "N=5120 aligned rows>=529"},
		{8192, 4, "N=5120 aligned rows>=8192"}}},
	{"rmsnorm_mxfp8", "w", 8192, {{1, 16, "N=8192 aligned with w"}, {257, 16, "N=8192 aligned rows>=257 with w"}, {529, 8, "N=8192 aligned rows>=529 with w"}}},
	{"rmsnorm_128", "w", 7168, {{1, 16, "N=7168 aligned with w"}, {257, 16, "N=7168 aligned rows>=257 with w"}, {529, 8, "N=7168 aligned rows>=529 with w"},
		{8192, 4, "N=7168 aligned rows>=8192 with w"}}},
	/* what waits twice is not asked for early */
	{"layernorm_quant", "w", 7168, {{1, 16, "N=7168 aligned with w"}, {529, 8, "N=7168 aligned rows>=529 with w"}, {8192, 4, "N=7168 aligned rows>=8192 with w"}}},
	{"rmsnorm_quant", "", 16384, {{1, 8, "N=16384 aligned"}, {65, 16, "N=16384 aligned rows>=65 rows<=264"}, {265, 8, "N=16384 aligned"}}},
	{"layernorm_mxfp8", "w", 14336, {{1, 8, "N=14336 aligned with w"}, {65, 16, "N=14336 aligned rows>=65 rows<=264 with w"}, {265, 8, "N=14336 aligned with w"}}},
	/* the same lanes for many */
	{"quantize_rows", "", 8192, {{1, 16, "N=8192 aligned bare"}, {257, 16, "N=8192 aligned rows>=257 bare"}}},
	{"quantize_rows", "", 1024, {{1, 4, "N=1024 aligned bare"}, {1057, 8, "N=1024 aligned rows>=1057 bare"}}},      /* four rows of two */
	{"quantize_rows", "", 512, {{1, 2, "N=512 aligned bare"}, {512, 8, "N=512 aligned rows>=512 bare"}}},
	{"layernorm_quant", "w", 12288, {{1, 8, "N=12288 aligned with w"}}},                /* not the longest */
	{"quantize_rows", "", 2048, {{1, 8, "N=2048 aligned bare"}, {1057, 8, "N=2048 aligned rows>=1057 bare"}}},      /* two rows of four */
	{"rmsnorm_quant", "", 4096, {{1, 16, "N=4096 aligned"}, {529, 8, "N=4096 aligned rows>=529"}}},
	{"rmsnorm_quant", "", 2048, {{1, 8, "N=2048 aligned"}, {512, 4, "N=2048 aligned rows>=512"}}},                  /* two reductions */
	{"rmsnorm_quant", "", 1024, {{1, 4, "N=1024 aligned"}, {512, 4, "N=1024 aligned rows>=512"},   /* two rows of two */
		{4096, 8, "N=1024 aligned rows>=4096"}}},                     /* eight of one */
	{"layernorm", "w", 4096, {{1, 16, "N=4096 aligned with w"}, {529, 4, "N=4096 aligned rows>=529 with w"},
		{8192, 16, "N=4096 aligned rows>=8192 memory>=4000 with w"}}},
	/* two tensors of rows: as many lanes for all */
	{"add_rmsnorm_quant", "res w res_out", 4096, {{1, 16, "N=4096 aligned with res w res_out"}}},
};
enum { CASES = sizeof cases / sizeof *cases };

static const struct variant *taken(struct built *b)
{
	for (int v = 0; v < b->n; v++)
		if (device_applies(&b->d, &b->v[v]))
			return &b->v[v];
	ck_abort_msg("%s: no variant", b->r.k->name);
	return NULL;
}

START_TEST(bands_begin_and_end)
{
	struct dsl_pin pin = {"N", cases[_i].n};
	struct built b;
	built_for(&b, cases[_i].kernel, &pin, 1, cases[_i].n, cases[_i].given);
	for (int i = 0; i < 6 && cases[_i].bands[i].variant; i++) {
		int from = cases[_i].bands[i].from;
		ir_run_symbol(&b.r, "M", from);
		ck_assert_str_eq(taken(&b)->text, cases[_i].bands[i].variant);
		ck_assert_int_eq(taken(&b)->waves, cases[_i].bands[i].waves);
		if (i) {
			ir_run_symbol(&b.r, "M", from - 1);
			ck_assert_str_eq(taken(&b)->text, cases[_i].bands[i - 1].variant);
		}
	}
	built_close(&b);
}
END_TEST

/* Chips without these numbers have one variant of each length. */
START_TEST(other_chips_have_none)
{
	struct dsl_pin pin = {"N", 5120};
	struct built b;
	built_open_for(&b, "rmsnorm_quant", "gfx942", &pin);
	built_variant(&b, "N=5120 aligned");
	for (int v = 0; v < b.n; v++)
		ck_assert_msg(!strstr(b.v[v].text, "rows"), "%s", b.v[v].text);
	built_close(&b);
}
END_TEST

/* What only few rows do not do: of more than 256 the first 256 are asked for. */
START_TEST(rows_between_ask_early)
{
	struct dsl_pin pin = {"N", 5120};
	struct built b;
	built_open_for(&b, "rmsnorm_mxfp8", "sm_90a", &pin);
	built_give(&b, "w");
	ck_assert_int_gt(built_times(built_ptx(&b, "N=5120 aligned rows>=257 with w"), "prefetch.global.L2"), 0);
	ck_assert_int_eq(built_times(built_ptx(&b, "N=5120 aligned with w"), "prefetch.global.L2"), 0);
	built_close(&b);
}
END_TEST

/* Each by as few rows as it takes; the last workgroup of the wave each has one of eight. */
static const struct { const char *kernel, *given; int m, n; const char *variant; } calls[] = {
	{"rmsnorm_quant", "", 257, 5120, "N=5120 aligned rows>=257"}, {"rmsnorm_128", "w", 257, 5120, "N=5120 aligned rows>=257 with w"},
	{"layernorm_mxfp8", "w", 529, 5120, "N=5120 aligned rows>=529 with w"}, {"layernorm_quant", "w", 65, 14336, "N=14336 aligned rows>=65 rows<=264 with w"},
	{"rmsnorm_128", "w", 65, 16384, "N=16384 aligned rows>=65 rows<=264 with w"}, {"rmsnorm_quant", "", 4097, 1024, "N=1024 aligned rows>=4096"},
	{"rmsnorm_128", "w", 3, 2048, "N=2048 aligned with w"},
};
enum { CALLS = sizeof calls / sizeof *calls };

START_TEST(bands_compute)
{
	struct dsl_pin pin = {"N", calls[_i].n};
	built_call(calls[_i].kernel, &pin, calls[_i].m, calls[_i].n, calls[_i].given, calls[_i].variant);
}
END_TEST

/* Eight thousand rows are more than the interpreter has time for: here three, by their variant. */
START_TEST(very_many_compute)
{
	static const char *const kernels[] = {"rmsnorm_quant", "layernorm_mxfp8"}, *const given[] = {"", "w"};
	struct dsl_pin pin = {"N", 7168};
	struct built b;
	built_for(&b, kernels[_i], &pin, 3, 7168, given[_i]);
	built_run(&b, &b.v[built_variant(&b, _i ? "N=7168 aligned rows>=8192 with w" : "N=7168 aligned rows>=8192")]);
	built_close(&b);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, bands_begin_and_end, 0, CASES);
	tcase_add_test(t, other_chips_have_none);
	tcase_add_test(t, rows_between_ask_early);
	tcase_add_loop_test(t, bands_compute, 0, CALLS);
	tcase_add_loop_test(t, very_many_compute, 0, 2);
}

int main(void)
{
	return nvptx_run("nvptx bands", add_tests);
}
