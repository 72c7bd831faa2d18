/* nvptx_policy_test.c -- sm_90a: which lines the L2 is to give up last.
 *
 * In: kernels.tdsl.  Checked by the interpreter of PTX, which counts what threads load and store by each policy: rows of tensors that are an
 * eighth of the L2 and more together, of smaller ones as all others; not weights, not the operands of products, not what is loaded and stored again,
 * not single elements, not where reductions make it slower; of more than the L2 holds, what is asked for ahead by asking for
 * it; scales of tiles always, which are stored in parts of sectors. */
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
	enum { LARGE = (50 << 20) / 8 };                        /* of an H200's L2 */
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
		{"silu_act", "N%4096=0 aligned rows>=512 bare", "", 3, 4096, 3 * 512, 0},   /* and behind */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b = run(cases[c].kernel, cases[c].variant, cases[c].given, cases[c].m, cases[c].n, 0);
		ck_assert_msg(!b.d.kept_loads && b.d.other_loads == cases[c].other && b.d.kept_stores == cases[c].kept,
		              "%s: %d kept, %d others, %d stores", cases[c].kernel, b.d.kept_loads, b.d.other_loads, b.d.kept_stores);
		built_close(&b);
	}
}
END_TEST

/* Products read each operand many times; what is loaded and stored again; rows that may not be there. */
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

/* Rows of an L2 that holds 16 of a workgroup's: kept from two on, and where more of them are asked for ahead up to 15. */
START_TEST(by_how_much_a_call_reads)
{
	static const struct { const char *kernel, *variant; bool few; } cases[] = {
		{"quantize_128", "N%4096=0 aligned rows>=512 bare", false}, {"silu_act", "N%4096=0 aligned rows>=512 bare", true},
	};
	enum { COLUMNS = 4096, LOADS = COLUMNS / 8, TILE = COLUMNS * 2 };
	static const int rows[] = {1, 2, 15, 16};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++)
		for (unsigned r = 0; r < sizeof rows / sizeof *rows; r++) {
			struct built b;
			struct device_code code;
			built_for(&b, cases[c].kernel, NULL, rows[r], COLUMNS, "");
			struct variant *v = &b.v[built_variant(&b, cases[c].variant)];
			struct target small = *v->target;
			small.l2_bytes = 16 * TILE;
			v->target = &small;
			device_compile(&b.d, v, &code, v->text);
			device_check(&b.d, &code, v->text, false);
			int kept = rows[r] > 1 && !(cases[c].few && rows[r] > 15) ? rows[r] * LOADS : 0;
			ck_assert_msg(b.d.kept_loads == kept && b.d.other_loads == rows[r] * LOADS - kept, "%s, %d rows: %d kept, %d others", cases[c].kernel, rows[r],
			              b.d.kept_loads, b.d.other_loads);
			free(code.elf);
			built_close(&b);
		}
}
END_TEST

/* loads: of a lane's, by policy: those of its row, 8 elements each, not those of weights. */
START_TEST(by_what_a_variant_does)
{
	static const struct { const char *kernel, *variant; int n; enum stored_first of; int loads; } cases[] = {
		{"rmsnorm_quant", "N=4096 aligned rows>=529", 4096, STORED_FIRST, 2}, {"rmsnorm_quant", "N=1024 aligned rows>=512", 1024, STORED_AS_READ, 0},   /* several rows a workgroup */
		{"rmsnorm_mxfp8", "N=4096 aligned rows>=529 with w", 4096, STORED_FIRST, 4}, {"quantize_rows", "N=1024 aligned rows>=1057 bare", 1024, STORED_FIRST, 2},   /* without weights */
		{"layernorm", "N=4096 aligned rows>=8192 memory>=4000 with w", 4096, STORED_FIRST, 2}, {"layernorm_mxfp8", "N=4096 aligned rows>=529 with w", 4096, STORED_AS_READ, 0},   /* behind two reductions */
		{"layernorm", "N<=1024 N%8=0 aligned", 4096, STORED_FIRST, 4}, {"add_rmsnorm_quant", "N=4096 aligned with res w res_out", 4096, STORED_FIRST, 2},   /* 16 bits */
		{"silu_act", "N%4096=0 aligned rows>=512 bare", 4096, STORED_FIRST_OF_FEW, 1}, {"rmsnorm_quant", "unaligned", 4096, STORED_AS_READ, 0},   /* asked for ahead; single elements */
		{"softmax_rows", "N=4096 aligned rows>=529 bare", 4096, STORED_FIRST, 4},   /* three dimensions */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct dsl_pin pin = {"N", cases[c].n};
		built_open_for(&b, cases[c].kernel, "sm_90a", &pin);
		const struct variant *v = &b.v[built_variant(&b, cases[c].variant)];
		int loads = built_times(built_ptx(&b, v->text), "ld.global.L2::cache_hint");
		ck_assert_msg(v->stored_first == cases[c].of && loads == cases[c].loads, "%s %s: %d, %d loads", cases[c].kernel, cases[c].variant, v->stored_first, loads);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, rows_of_large_tensors_are_kept);
	tcase_add_test(t, nothing_else_is);
	tcase_add_test(t, some_are_as_all_others);
	tcase_add_test(t, by_how_much_a_call_reads);
	tcase_add_test(t, by_what_a_variant_does);
}

int main(void)
{
	return nvptx_run("nvptx policies", add_tests);
}
