/* nvptx_order_test.c -- sm_90a: which workgroup follows which, and what workgroups beyond the last row do.
 *
 * In: kernels.tdsl.  Checked: by the launches' extents, which variants lay workgroups side by side in rows and which one row behind another, and
 * that y and z stay as short as CUDA's are (65,535) and hold all rows, few more; by the interpreter of PTX, with fewer rows in y than there
 * are, that what is computed is the evaluator's and that nobody writes beyond. */
#include "nvptx_help.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 65535 };

static int64_t extent(struct built *b, const struct hexpr *e, int64_t m, int64_t n)
{
	int64_t symbols[2] = {0}, value = 0;
	const char *why = "";
	ck_assert_int_le(b->r.k->nsymbols, 2);
	for (int s = 0; s < b->r.k->nsymbols; s++)
		symbols[s] = strcmp(b->r.k->symbols[s], "M") == 0 ? m : n;
	struct hexpr_env env = {symbols, b->r.k->nsymbols, NULL, NULL};
	ck_assert_msg(hexpr_eval(e, &env, &value, &why) == 0, "%s", why);
	return value;
}

/* rows, columns: of a workgroup's tile in the last launch.  SIDE: x counts columns, y and z rows; TURNED: x counts columns, y rows, of which a
 * call has no more than y; BEHIND: x counts rows, y columns. */
enum order { BEHIND, SIDE, TURNED };
static const struct { const char *kernel, *variant; enum order order; int rows, columns; } orders[] = {
	{"swiglu", "unaligned bare", SIDE, 1, 512}, {"swiglu_bwd", "unaligned bare", SIDE, 1, 512}, {"dequantize_rows", "unaligned", SIDE, 1, 1024},
	{"add", "N%8=0 aligned rows>=512", SIDE, 1, 2048}, {"swiglu", "N%8=0 aligned rows>=512 bare", SIDE, 4, 512},
	{"quantize_128", "N%128=0 aligned rows>=512 bare", SIDE, 1, 2048}, {"quantize_128", "unaligned bare", SIDE, 1, 1024},
	{"cast_transpose", "unaligned rows>=512 with y yt", TURNED, 32, 256}, {"cast_transpose", "M%8=0 N%8=0 aligned rows>=512 with y yt", TURNED, 256, 64},
	{"cast_transpose", "unaligned with y yt", TURNED, 32, 64}, {"cast_transpose", "M%8=0 N%8=0 aligned with y yt", TURNED, 64, 64},   /* few rows */
	{"quantize_both_mxfp8", "M%32=0 N%32=0 aligned", TURNED, 64, 128},
	{"gelu_tanh_both_mxfp8", "M%32=0 N%32=0 aligned with y scale yt scale_t", TURNED, 64, 64},   /* more code an element */
	{"gelu_tanh_both_mxfp8", "M%32=0 N%32=0 aligned rows>=8192 memory>=4000 with y scale yt scale_t", TURNED, 64, 128},
	{"add", "N%8=0 aligned", BEHIND, 1, 2048},                                              /* few rows */
	{"add", "N%4096=0 aligned rows>=512", SIDE, 1, 4096}, {"silu_act", "N%4096=0 aligned rows>=512 bare", SIDE, 1, 4096},   /* long lines */
	{"rmsnorm_both_mxfp8", "N<=8192 M%32=0 N%32=0 aligned with w y scale yt scale_t", TURNED, 64, 128},
	{"layernorm_both_mxfp8", "N<=8192 M%32=0 N%32=0 aligned with w y scale yt scale_t", TURNED, 64, 128},   /* behind another phase */
};
enum { ORDERS = sizeof orders / sizeof *orders };

static int64_t tiles(int64_t n, int tile) { return (n + tile - 1) / tile; }

START_TEST(workgroups_follow)
{
	static const int sizes[][2] = {{1, 1}, {640, 4096}, {4096, 12288}, {65535, 4096}, {65536, 4096}, {131071, 256}, {1000003, 256}};
	struct built b;
	struct device_code code;
	built_open(&b, orders[_i].kernel);
	device_compile(&b.d, &b.v[built_variant(&b, orders[_i].variant)], &code, orders[_i].variant);
	const struct model_launch *l = &code.launches[code.nlaunches - 1];
	for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		int64_t m = sizes[s][0], n = sizes[s][1], down = tiles(m, orders[_i].rows), along = tiles(n, orders[_i].columns), grid[3];
		for (int d = 0; d < 3; d++)
			grid[d] = extent(&b, l->grid[d], m, n);
		ck_assert_int_eq(grid[0], orders[_i].order == BEHIND ? down : along);
		if (orders[_i].order != SIDE) {
			ck_assert_int_eq(grid[1], orders[_i].order == BEHIND ? along : down);
			ck_assert_int_eq(grid[2], 1);
			continue;
		}
		ck_assert_msg(grid[1] <= SHORT && grid[2] <= SHORT, "%d rows: %d x %d", (int)m, (int)grid[1], (int)grid[2]);
		ck_assert_msg(grid[1] * grid[2] >= down && grid[1] * grid[2] < down + grid[2], "%d rows: %d x %d", (int)m, (int)grid[1], (int)grid[2]);
		ck_assert_int_eq(extent(&b, l->grid[1], 0, n) * extent(&b, l->grid[2], 0, n), 0);
	}
	free(code.elf);
	built_close(&b);
}
END_TEST

/* A call whose tiles are more than y takes goes elsewhere. */
START_TEST(turned_tiles_end)
{
	static const struct { const char *kernel, *variant, *asks; } cases[] = {
		{"cast_transpose", "M%8=0 N%8=0 aligned with y yt", "cdiv(M, 64) <= 65535"},
		{"cast_transpose", "M%8=0 N%8=0 aligned rows>=512 with y yt", "cdiv(M, 256) <= 65535"},
		{"quantize_both_mxfp8", "M%32=0 N%32=0 aligned", "cdiv(cdiv(M, 32), 2) <= 65535"},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct device_code code;
		const char *planned, *asked;
		built_open(&b, cases[c].kernel);
		built_asks(&b, cases[c].variant, &code, &planned, &asked);
		const char *most = strstr(asked, "<= 65535");
		ck_assert_msg(strstr(asked, cases[c].asks) && !strstr(most + 1, "<= 65535") && !strstr(planned, "65535"), "%s: %s", cases[c].kernel, asked);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

/* y and z as of a chip whose dimensions end at 2 and at 3: for all but three rows by three the last workgroups have no row. */
START_TEST(workgroups_without_rows_leave)
{
	static const struct { const char *kernel, *variant, *given; int m, n; } cases[] = {
		{"swiglu", "unaligned bare", "", 5, 601}, {"dequantize_rows", "unaligned", "", 7, 33}, {"quantize_128", "unaligned bare", "", 3, 301},
		{"silu_act", "N%4096=0 aligned rows>=512 bare", "", 5, 8192},      /* asked for ahead */
	};
	for (int y = 2; y <= 3; y++) {
		struct built b;
		struct device_code code;
		built_for(&b, cases[_i].kernel, NULL, cases[_i].m, cases[_i].n, cases[_i].given);
		device_compile(&b.d, &b.v[built_variant(&b, cases[_i].variant)], &code, cases[_i].variant);
		code.launches[0].grid[1] = hexpr_const(&b.d.arena, y);
		code.launches[0].grid[2] = hexpr_const(&b.d.arena, tiles(cases[_i].m, y));
		device_check(&b.d, &code, cases[_i].variant, false);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

/* What the first workgroups of the last launch store of y: the first rows, or, behind another phase, the last ones. */
START_TEST(the_last_rows_first)
{
	enum { MOST = 1 << 14, M = 192, N = 256 };
	static uint64_t stored[MOST];
	static const struct { const char *kernel, *variant, *given; int rows; bool last; } cases[] = {
		{"quantize_both_mxfp8", "M%32=0 N%32=0 aligned", "y scale yt scale_t", 64, false},
		{"rmsnorm_both_mxfp8", "N<=8192 M%32=0 N%32=0 aligned with w y scale yt scale_t", "w y scale yt scale_t", 64, true},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct device_code code;
		built_for(&b, cases[c].kernel, NULL, M, N, cases[c].given);
		b.d.stored = stored;
		b.d.most_stored = MOST;
		b.d.stored_of = (int)(ir_run_find(&b.r, "y") - b.r.tensors);
		device_compile(&b.d, &b.v[built_variant(&b, cases[c].variant)], &code, cases[c].variant);
		device_check(&b.d, &code, cases[c].variant, false);
		int first = cases[c].last ? M - cases[c].rows : 0, each = cases[c].rows * N / 8;
		ck_assert_int_ge(b.d.nstored, each);
		for (int i = 0; i < each; i++) {
			int row = (int)stored[i] / N;
			ck_assert_msg(row >= first && row < first + cases[c].rows, "%s: store %d is of row %d", cases[c].kernel, i, row);
		}
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, workgroups_follow, 0, ORDERS);
	tcase_add_test(t, turned_tiles_end);
	tcase_add_loop_test(t, workgroups_without_rows_leave, 0, 4);
	tcase_add_test(t, the_last_rows_first);
}

int main(void)
{
	return nvptx_run("nvptx order", add_tests);
}
