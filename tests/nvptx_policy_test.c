/* nvptx_policy_test.c -- sm_90a: which lines the L2 is to give up last.
 *
 * In: kernels.tdsl.  Checked by the interpreter of PTX, which counts what threads load and store by each policy: rows of tensors of
 * 64 MB and more together, of smaller ones as all others; not weights, not the operands of products, not what is loaded and stored again, not
 * of three dimensions, not single elements, not where reductions make it slower; scales of tiles always, which are stored in parts of sectors; and what is asked for ahead by asking for it. */
#include "nvptx_help.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Compiled for M x N with the tensors named.  y, if not 0: workgroups along y, of which those without a row leave. */
static struct built run(const char *kernel, const char *variant, const char *given, int m, int n, int y)
{
	struct built b;
	struct device_code code;
	built_for(&b, kernel, NULL, m, n, given);
	device_compile(&b.d, &b.v[built_variant(&b, variant)], &code, variant);
	if (y)
		code.launches[0].grid[1] = hexpr_const(&b.d.arena, y);
	device_check(&b.d, &code, variant, false);
	free(code.elf);
	return b;
}

/* tile: bytes of rows that a workgroup loads; loads: of all threads together. */
START_TEST(rows_of_large_tensors_are_kept)
{
	enum { LARGE = 64 << 20 };
	static const struct { const char *kernel, *variant; int n, tile, loads; } cases[] = {
		{"add", "N%8=0 aligned rows>=512", 72, 2 * 2048 * 2, 3 * 2 * 9},            /* two tensors, accesses of eight elements */
		{"swiglu", "N%8=0 aligned rows>=512 bare", 72, 2 * 4 * 512 * 2, 3 * 2 * 9}, /* two halves of one */
		{"dequantize_rows", "N%16=0 aligned rows>=512", 48, 2048, 3 * 6},           /* the scales of rows are not rows */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++)
		for (int large = 0; large < 2; large++) {
			struct built b = run(cases[c].kernel, cases[c].variant, "", 3, cases[c].n, LARGE / cases[c].tile - !large);
			ck_assert_msg(b.d.kept_loads == large * cases[c].loads && b.d.other_loads == !large * cases[c].loads && !b.d.kept_stores,
			              "%s, %s: %d and %d loads, %d stores", cases[c].kernel, large ? "large" : "small", b.d.kept_loads, b.d.other_loads, b.d.kept_stores);
			built_close(&b);
		}
}
END_TEST

/* other: loads by a policy, of a small tensor; kept: stores. */
START_TEST(nothing_else_is)
{
	static const struct { const char *kernel, *variant, *given; int m, n, other, kept; } cases[] = {
		{"rmsnorm_quant", "N=2048 aligned", "", 2, 2048, 2 * 256, 0},               /* the row, not its weights */
		{"both_by_rows_mx", "M%32=0 N%32=0 aligned", "", 64, 128, 64 * 16, 64 * 4 + 128 * 2},   /* scales, a byte at a time of each of several rows */
		{"quantize_both_mxfp8", "M%32=0 N%32=0 aligned", "y scale yt scale_t", 64, 128, 64 * 16, 0},   /* of a group side by side */
		{"dequantize_rows", "unaligned", "", 3, 33, 0, 0},                          /* element by element */
		{"quantize_both_128", "M%128=0 N%128=0 aligned", "y scale yt scale_t", 128, 128, 128 * 16, 0},   /* asked for ahead below */
		{"silu_act", "N%4096=0 aligned rows>=512 bare", "", 3, 4096, 0, 0},         /* and behind */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b = run(cases[c].kernel, cases[c].variant, cases[c].given, cases[c].m, cases[c].n, 0);
		ck_assert_msg(!b.d.kept_loads && b.d.other_loads == cases[c].other && b.d.kept_stores == cases[c].kept,
		              "%s: %d kept, %d others, %d stores", cases[c].kernel, b.d.kept_loads, b.d.other_loads, b.d.kept_stores);
		built_close(&b);
	}
}
END_TEST

/* Products read each operand many times; what is loaded and stored again; of three dimensions. */
START_TEST(some_are_as_all_others)
{
	static const char *const kernels[] = {"grouped_gemm", "delayed_scaling", "swiglu_masked_128"};
	for (unsigned k = 0; k < sizeof kernels / sizeof *kernels; k++) {
		struct built b;
		built_open(&b, kernels[k]);
		for (int v = 0; v < b.n; v++) {
			const char *ptx = built_ptx(&b, b.v[v].text);
			ck_assert_msg(strstr(ptx, "ld.global") && !strstr(ptx, "ld.global.L2::cache_hint"), "%s: %s", kernels[k], b.v[v].text);
		}
		built_close(&b);
	}
}
END_TEST

/* loads: of a lane's, by policy. */
START_TEST(by_what_is_reduced)
{
	static const struct { const char *kernel, *variant; int n, loads; } cases[] = {
		{"rmsnorm_quant", "N=4096 aligned rows>=512", 4096, 2}, {"rmsnorm_quant", "N=1024 aligned rows>=512", 1024, 0},   /* several rows a workgroup */
		{"rmsnorm_mxfp8", "N=4096 aligned rows>=512 with w", 4096, 4}, {"quantize_rows", "N=1024 aligned rows>=512 bare", 1024, 2},   /* without weights */
		{"layernorm", "N=4096 aligned rows>=8192 memory>=4000 with w", 4096, 2}, {"layernorm_mxfp8", "N=4096 aligned rows>=512 with w", 4096, 0},   /* behind two reductions */
		{"layernorm", "N<=1024 N%8=0 aligned", 4096, 4}, {"add_rmsnorm_quant", "N=4096 aligned with res w res_out", 4096, 2},   /* 16 bits */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct dsl_pin pin = {"N", cases[c].n};
		int n = 0;
		built_open_for(&b, cases[c].kernel, "sm_90a", &pin);
		for (const char *at = built_ptx(&b, cases[c].variant); (at = strstr(at, "ld.global.L2::cache_hint")) != NULL; at++)
			n++;
		ck_assert_msg(n == cases[c].loads, "%s %s: %d loads", cases[c].kernel, cases[c].variant, n);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, rows_of_large_tensors_are_kept);
	tcase_add_test(t, nothing_else_is);
	tcase_add_test(t, some_are_as_all_others);
	tcase_add_test(t, by_what_is_reduced);
}

int main(void)
{
	return nvptx_run("nvptx policies", add_tests);
}
