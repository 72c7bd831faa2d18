/* nvptx_ahead_test.c -- sm_90a: which lines the L2 is asked for, by whom and when.
 *
 * In: kernels.tdsl, tests/lower/quant.tdsl.  Checked by the interpreter of PTX, which keeps the addresses that are asked for: those of a later workgroup's tile, those that
 * the first workgroups ask for in front of the wait for the launch before; each line once, none beyond the tensor, and of few workgroups none, but of
 * rows that may not be there. */
#include "nvptx_help.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Lines of 128 bytes of a tensor of 16-bit elements, in rows of so many bytes, of a tile of rows x columns; first: bytes in front of the half. */
static int lines_of(uint64_t *line, int n, int r, int c, int rows, int columns, int first, int row_bytes)
{
	for (int i = 0; i < rows; i++)
		for (int at = 0; at < columns * 2; at += 128)
			line[n++] = (uint64_t)((r * rows + i) * row_bytes + first + c * columns * 2 + at);
	return n;
}

/* Of the addresses that were asked for, those inside the tensor are its lines at these bytes, in any order, each as often. */
static void expect_lines(uint64_t *asked, int nasked, const struct ir_tensor *t, size_t bytes, uint64_t *want, int nwant, const char *what, int of)
{
	int n = 0;
	for (int i = 0; i < nasked; i++)
		if (asked[i] - (uint64_t)(uintptr_t)t->data < bytes)
			asked[n++] = asked[i] - (uint64_t)(uintptr_t)t->data;
	qsort(asked, (size_t)n, sizeof *asked, by_number);
	qsort(want, (size_t)nwant, sizeof *want, by_number);
	ck_assert_msg(n == nwant && memcmp(asked, want, (size_t)n * sizeof *want) == 0, "%s, %d: %d lines, expected %d", what, of, n, nwant);
}

/* The L2 is asked for each line of a tile once: by the workgroup as many rows of tiles above as hold so many, or one, but for the last row, which may
 * end early; where there are too few, by nobody. */
START_TEST(later_tiles_are_asked_for)
{
	enum { MOST = 1 << 14 };
	static uint64_t asked[MOST], want[MOST];
	static const struct { const char *kernel, *given, *variant, *tensor; int m, n, rows, columns, from; } cases[] = {
		{"quantize_both_128", "y scale yt scale_t", "M%128=0 N%128=0 aligned", "x", 640, 512, 128, 128, 0},
		{"quantize_both_mxfp8", "y scale yt scale_t", "M%32=0 N%32=0 aligned", "x", 256, 384, 64, 128, 0},
		{"silu_act", "", "N%4096=0 aligned rows>=512 bare", "x", 5, 8192, 1, 4096, 0},
		{"silu_act", "", "N%4096=0 aligned rows>=512 bare", "x", 5, 8192, 1, 4096, 9},
		{"silu_act", "", "N%4096=0 aligned rows>=512 bare", "x", 5, 8192, 1, 4096, 10},
		{"silu_act", "", "N%4096=0 aligned rows>=512 with b? scale? amax?", "x", 5, 8192, 1, 4096, 0},      /* of what may be there nothing */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++)
		for (int ahead = 1; ahead < 15; ahead += 4) {
			struct built b;
			built_for(&b, cases[c].kernel, NULL, cases[c].m, cases[c].n, cases[c].given);
			struct variant *v = &b.v[built_variant(&b, cases[c].variant)];
			ck_assert_int_gt(v->ahead, 64);
			v->ahead = ahead;
			v->ahead_from = cases[c].from;
			b.d.fetched = asked;
			b.d.most_fetched = MOST;
			built_run(&b, v);
			int n = 0, across = cases[c].n / cases[c].columns, down = cases[c].m / cases[c].rows, below = ahead / across > 1 ? ahead / across : 1;
			for (int r = 0; r < down && across * down > cases[c].from; r++)
				for (int at = 0; at < across; at++)
					if (r >= below && r < down - 1)
						n = lines_of(want, n, r, at, cases[c].rows, cases[c].columns, 0, cases[c].n * 2);
			ck_assert_int_eq(b.d.nfetched, n);             /* none beyond it either */
			expect_lines(asked, n, ir_run_find(&b.r, cases[c].tensor), (size_t)(cases[c].m * cases[c].n * 2), want, n, cases[c].kernel, ahead);
			built_close(&b);
		}
}
END_TEST

/* In front of the wait the first workgroups of many ask for what they load behind it, each line once, where they are there: of few nobody does, and
 * nobody for what lies beyond the last row. */
START_TEST(first_rows_are_asked_for_early)
{
	enum { MOST = 1 << 12, FIRST = 3 };
	static uint64_t asked[MOST], want[MOST];
	static const struct { const char *kernel, *given, *variant, *tensor; int m, n, rows, columns, halves; } cases[] = {
		{"quantize_both_mxfp8", "y scale yt scale_t", "M%32=0 N%32=0 aligned", "x", 96, 512, 64, 128, 1},
		{"swiglu_both_128", "y scale yt scale_t", "M%128=0 N%128=0 aligned with y scale yt scale_t", "h", 256, 256, 128, 128, 2},
		{"rmsnorm_128", "w", "N=4096 aligned rows>=529 with w", "x", 5, 4096, 1, 4096, 1},
		{"add", "", "N%4096=0 aligned rows>=512", "res", 4, 8192, 1, 4096, 1},     /* of two tensors */
		{"softmax_rows", "", "N=4096 aligned rows>=529 bare", "x", 6, 4096, 1, 4096, 1},     /* three dimensions */
		{"rmsnorm_128", "w", "N=4096 aligned with w", "x", 0, 4096, 1, 4096, 1},     /* of few rows */
		{"layernorm_quant", "w", "N=4096 aligned rows>=512 memory<4000 with w", "x", 5, 4096, 1, 4096, 1},
		{"layernorm_quant", "w", "N=4096 aligned rows>=529 with w", "x", 0, 4096, 1, 4096, 1},     /* of fast memory */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++)
		for (int all = 0; all < 2; all++) {
			struct built b;
			int m = cases[c].m ? cases[c].m : 5, across = cases[c].n / cases[c].columns, down = (m + cases[c].rows - 1) / cases[c].rows, n = 0;
			bool batches = strcmp(cases[c].kernel, "softmax_rows") == 0;   /* of rows, where others have M of them */
			struct dsl_pin pin = {"N", cases[c].n};
			built_open_for(&b, cases[c].kernel, "sm_90a", batches ? &pin : NULL);
			ir_run_symbol(&b.r, "B", m / FIRST);
			ir_run_symbol(&b.r, "S", FIRST);
			ir_run_symbol(&b.r, "M", m);
			ir_run_symbol(&b.r, "N", cases[c].n);
			built_give(&b, cases[c].given);
			struct variant *v = &b.v[built_variant(&b, cases[c].variant)];
			struct target chip = *v->target;
			int tensors = strcmp(cases[c].kernel, "add") == 0 ? 2 : cases[c].halves, first = all ? across * down : FIRST;
			chip.early_bytes = cases[c].rows * cases[c].columns * 2 * tensors * first;
			v->target = &chip;
			b.d.soon = asked;
			b.d.most_soon = MOST;
			built_run(&b, v);
			for (int h = 0; h < cases[c].halves; h++)
				for (int at = 0; cases[c].m && !all && at < first; at++) {
					int r = at / across, column = at % across;
					int rows = m - r * cases[c].rows < cases[c].rows ? m - r * cases[c].rows : cases[c].rows;
					for (int i = 0; i < rows; i++)
						n = lines_of(want, n, r * cases[c].rows + i, column, 1, cases[c].columns, h * cases[c].n * 2, cases[c].halves * cases[c].n * 2);
				}
			size_t bytes = (size_t)(m * cases[c].n * 2 * cases[c].halves);
			expect_lines(asked, b.d.nsoon, ir_run_find(&b.r, cases[c].tensor), bytes, want, n, cases[c].kernel, first);
			built_close(&b);
		}
}
END_TEST

/* Of rows that may not be there whether they are or not: those of the workgroups that begin first, of few workgroups as of many; of many groups, over
 * which rows are counted, fewer, all groups' first ones before their second. */
START_TEST(rows_are_asked_for_before_they_are_known)
{
	enum { GROUPS = 3, COUNTED = 8, ROWS = 4, COLUMNS = 4096, ROW_BYTES = 2 * COLUMNS * 2, MOST = 1 << 12 };
	static const int there[COUNTED] = {0, 1, ROWS}, firsts[] = {1, 3, 100, 100, 11}, groups[] = {GROUPS, GROUPS, GROUPS, COUNTED, COUNTED};
	static uint64_t asked[MOST], want[MOST];
	for (unsigned f = 0; f < sizeof firsts / sizeof *firsts; f++)
		for (int some = 0; some < 2; some++) {
			bool counted = groups[f] == COUNTED;
			int each = some ? ROWS * (counted ? 4 : 1) : 1;             /* workgroups a group, or of all that are counted */
			struct built b;
			struct device_code code;
			built_open(&b, "swiglu_masked_128");
			ir_run_symbol(&b.r, "E", groups[f]);
			ir_run_symbol(&b.r, "M", ROWS);
			ir_run_symbol(&b.r, "N", COLUMNS);
			built_give(&b, "");
			for (int e = 0; e < groups[f]; e++)
				ir_tensor_set(ir_run_find(&b.r, "tokens"), e, there[e]);
			struct variant *v = &b.v[built_variant(&b, "N%4096=0 aligned rows>=768 bare")];
			struct target chip = *v->target;
			chip.early_bytes = counted ? 2 * ROW_BYTES : firsts[f] * ROW_BYTES;
			chip.early_counted = counted ? firsts[f] * ROW_BYTES : 0;
			v->target = &chip;
			b.d.soon = asked;
			b.d.most_soon = MOST;
			device_compile(&b.d, v, &code, v->text);
			code.launches[0].grid[0] = hexpr_const(&b.d.arena, each);
			device_check(&b.d, &code, v->text, false);
			int n = 0;
			for (int w = 0; w < firsts[f] && w < each * (counted ? 1 : groups[f]); w++)
				n = lines_of(want, n, counted ? w % COUNTED * ROWS + w / COUNTED : w / each * ROWS + w % each, 0, 1, 2 * COLUMNS, 0, ROW_BYTES);
			ck_assert_int_eq(b.d.nsoon, n);                        /* and nothing elsewhere */
			expect_lines(asked, b.d.nsoon, ir_run_find(&b.r, "h"), (size_t)groups[f] * ROWS * ROW_BYTES, want, n, v->text, firsts[f]);
			free(code.elf);
			built_close(&b);
		}
}
END_TEST

/* Tiles of groups of one tensor and of three, many tiles of one tensor without groups if they read more than 50 MB, rows of one tensor, with a number a
 * group or without, of which many are called for, if they are stored wider than they are loaded more than 50 MB together; not tiles of two tensors,
 * nothing behind another phase, no rows that are reduced, stored narrower than they are loaded, or of two. */
START_TEST(who_asks_ahead)
{
	enum { L2 = 50 << 20 };
	static const struct { const char *kernel, *target, *variant; bool asks; int from; } cases[] = {
		{"swiglu_both_128", "sm_90a", "M%128=0 N%128=0 aligned with y scale yt scale_t", false, 0}, {"quantize_both_128_e8m0", "sm_90a", "M%128=0 N%128=0 aligned", true, 0},
		{"products_both_128", "sm_90a", "M%128=0 N%128=0 aligned", true, 0},
		{"silu_act", "sm_90a", "N%4096=0 aligned rows>=512 bare", true, 0}, {"silu_act", "sm_90a", "N%4096=0 aligned rows>=512 memory<4000 bare", false, 0}, {"silu_act", "sm_90a", "N%8=0 aligned bare", false, 0},
		{"dequantize_rows", "sm_90a", "N%4096=0 aligned rows>=512", true, L2 / (4096 * (1 + 2))}, {"dequantize_128x128", "sm_90a", "N%4096=0 aligned rows>=512", true, L2 / (4096 * (1 + 2))}, {"add", "sm_90a", "N%4096=0 aligned rows>=512", false, 0},
		{"quantize_both_mxfp8", "sm_90a", "M%32=0 N%32=0 aligned", true, 0}, {"swiglu_both_mxfp8", "sm_90a", "M%32=0 N%32=0 aligned with y scale yt scale_t", false, 0},
		{"rmsnorm_both_mxfp8", "sm_90a", "N<=8192 M%32=0 N%32=0 aligned with w y scale yt scale_t", false, 0}, {"rmsnorm_both_mxfp8", "sm_90a", "N<=4096 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", true, 0},
		{"cast_transpose", "sm_90a", "M%8=0 N%8=0 aligned rows>=512 with y yt", true, L2 / (64 * 256 * 2)}, {"cast_transpose", "sm_90a", "M%8=0 N%8=0 aligned with y yt", false, 0},
		{"rmsnorm_quant", "sm_90a", "N=4096 aligned", false, 0}, {"quantize_mxfp8", "sm_90a", "N%4096=0 aligned rows>=512 bare", false, 0}, {"quantize_128x128", "sm_90a", "M%128=0 N%128=0 aligned with y", false, 0},
		{"quantize_both_128", "gfx942", "M%128=0 N%128=0 aligned", false, 0}, {"swiglu_both_128", "sm_90a", "unaligned with y scale yt scale_t", false, 0},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open_for(&b, cases[c].kernel, cases[c].target, NULL);
		const struct variant *v = &b.v[built_variant(&b, cases[c].variant)];
		ck_assert_msg((v->ahead > 0) == cases[c].asks && v->ahead_from == cases[c].from, "%s %s: %d ahead from %d", cases[c].kernel, cases[c].variant, v->ahead, v->ahead_from);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, later_tiles_are_asked_for);
	tcase_add_test(t, first_rows_are_asked_for_early);
	tcase_add_test(t, rows_are_asked_for_before_they_are_known);
	tcase_add_test(t, who_asks_ahead);
}

int main(void)
{
	return nvptx_run("nvptx ahead", add_tests);
}
