/* nvptx_rounds_test.c -- sm_90a: rows that may not be there, which fewer workgroups take one after the other.
 *
 * In: kernels.tdsl, tests/lower/loops.tdsl.  Checked: that a launch has as many workgroups as compiler/target/targets.c has them worth; by the
 * interpreter of PTX that any number of them computes what the evaluated IR does, bit for bit, each row once, with and without group
 * memory, whichever rows are there, of few groups and of many, whose rows are counted; tiles of which all, some or no rows are there.
 * Which rows are asked for early: nvptx_ahead_test.c. */
#include "nvptx_help.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Opened for so many groups of so many rows.  there: of each group how many rows are there, or of each row whether it is. */
static void open_with(struct built *b, const char *kernel, int groups, int rows, int columns, const int *there, int n)
{
	built_open(b, kernel);
	ir_run_symbol(&b->r, "E", groups);
	ir_run_symbol(&b->r, "M", rows);
	ir_run_symbol(&b->r, "N", columns);
	built_give(b, strstr(kernel, "both") ? strstr(kernel, "bwd") ? "dh scale dht scale_t" : "y scale yt scale_t" : "scale");
	struct ir_tensor *t = ir_run_find(&b->r, strcmp(kernel, "kept_rows") ? "tokens" : "keep");
	ck_assert_int_eq(ir_tensor_count(t), n);
	for (int i = 0; i < n; i++)
		ir_tensor_set(t, i, there[i]);
}

static void run(struct built *b, const char *variant, int workgroups)
{
	struct device_code code;
	device_compile(&b->d, &b->v[built_variant(b, variant)], &code, variant);
	if (workgroups)                                          /* of tiles x is for columns */
		code.launches[0].grid[strstr(b->r.k->name, "both") != NULL] = hexpr_const(&b->d.arena, workgroups);
	device_check(&b->d, &code, variant, false);
	free(code.elf);
}

/* How often tensor `of` is stored; without workgroups: by as many as the launch has. */
static unsigned stores_of(const char *of, const char *kernel, const char *variant, int groups, int rows, int columns, const int *there, int workgroups)
{
	enum { MOST = 1 << 20 };
	static uint64_t stored[MOST];
	struct built b;
	open_with(&b, kernel, groups, rows, columns, there, groups);
	b.d.stored = stored;
	b.d.most_stored = MOST;
	b.d.stored_of = (int)(ir_run_find(&b.r, of) - b.r.tensors);
	run(&b, variant, workgroups);
	unsigned n = (unsigned)b.d.nstored;
	ck_assert_uint_lt(n, MOST);
	built_close(&b);
	return n;
}

static unsigned stores_by(const char *kernel, const char *variant, int groups, int rows, int columns, const int *there, int workgroups)
{
	return stores_of(strstr(kernel, "bwd") ? "dh" : "y", kernel, variant, groups, rows, columns, there, workgroups);
}

/* One workgroup a group of rows, some, and one a row, which store as often. */
START_TEST(any_number_computes_the_same)
{
	enum { GROUPS = 4, ROWS = 7 };
	static const int there[GROUPS] = {ROWS, 2, 0, 3}, workgroups[] = {1, 2, 5, ROWS};
	static const struct { const char *kernel, *variant; int columns; } cases[] = {
		{"swiglu_masked_128", "N%128=0 aligned rows>=768 bare", 256}, {"swiglu_masked_128", "N%16=0 aligned rows>=768", 144},
		{"swiglu_masked_rows", "N<=1024 N%16=0 aligned bare", 80}, {"swiglu_masked_rows", "N%16=0 aligned bare", 2064},     /* through group memory; swept */
		{"swiglu_masked_rows", "N<=1024 unaligned bare", 33}, {"swiglu_masked_bwd_rows", "N<=1024 N%16=0 aligned bare", 48},
		{"swiglu_masked", "N%8=0 aligned rows>=768 bare", 2056}, {"swiglu_masked_bwd", "N%8=0 aligned rows>=768", 24},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++)
		for (unsigned w = 0, stores = 0; w < sizeof workgroups / sizeof *workgroups; w++) {
			unsigned n = stores_by(cases[c].kernel, cases[c].variant, GROUPS, ROWS, cases[c].columns, there, workgroups[w]);
			stores = w ? stores : n;
			ck_assert_msg(stores && n == stores, "%s, %d workgroups a group: %u stores, by one %u", cases[c].variant, workgroups[w], n, stores);
		}
}
END_TEST

enum { MANY_GROUPS = 70, ROWS_OF_EACH = 5 };

static int some(int group) { return group * 7 % (ROWS_OF_EACH + 4) - 2; }            /* fewer than none, none, some, all, more than there is room for */
static int one_at_the_end(int group) { return group == MANY_GROUPS - 1; }
static int of_the_second_wave(int group) { return group >= 32 && group < 64 ? 2 : 0; }
static int all(int group) { return group < MANY_GROUPS ? ROWS_OF_EACH : 0; }
static int none(int group) { return group < MANY_GROUPS ? 0 : ROWS_OF_EACH; }

/* A wave of groups and part of one, or of several; what the one row of one group stores, each stores. */
START_TEST(rows_of_many_groups_are_counted)
{
	static int (*const counts[])(int) = {some, one_at_the_end, of_the_second_wave, all, none};
	static const int groups[] = {8, 31, 32, 33, 64, MANY_GROUPS}, workgroups[] = {1, 3, 64, MANY_GROUPS * ROWS_OF_EACH};
	static const struct { const char *kernel, *variant; int columns; } cases[] = {
		{"swiglu_masked_128", "N%128=0 aligned rows>=768 bare", 128}, {"swiglu_masked_rows", "N<=1024 N%16=0 aligned bare", 80},
		{"swiglu_masked_bwd", "N%8=0 aligned rows>=768", 24}, {"swiglu_masked_rows", "N<=1024 unaligned bare", 9},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		unsigned each = stores_by(cases[c].kernel, cases[c].variant, 1, ROWS_OF_EACH, cases[c].columns, (int[]){1}, 1);
		for (unsigned g = 0; g < sizeof groups / sizeof *groups; g++)
			for (unsigned k = 0; k < sizeof counts / sizeof *counts; k++) {
				int there[MANY_GROUPS], rows = 0;
				for (int e = 0; e < groups[g]; e++) {
					there[e] = counts[k](e);
					rows += there[e] < 0 ? 0 : there[e] < ROWS_OF_EACH ? there[e] : ROWS_OF_EACH;
				}
				int w = workgroups[(c + g + k) % (sizeof workgroups / sizeof *workgroups)], places = groups[g] * ROWS_OF_EACH;
				w = w < places ? w : places;                              /* as a launch has */
				unsigned n = stores_by(cases[c].kernel, cases[c].variant, groups[g], ROWS_OF_EACH, cases[c].columns, there, w);
				ck_assert_msg(each && n == each * (unsigned)rows, "%s, %d groups, %d rows there, %d workgroups: %u stores, %u a row", cases[c].variant, groups[g], rows,
				              w, n, each);
			}
	}
}
END_TEST

static int some_tiles(int group) { return group * 37 % (96 + 8) - 4; }

/* Of many groups and of few, all, part and none of a tile there; each group is stored as often as by itself, by whoever has its tiles. */
START_TEST(tiles_are_counted)
{
	enum { ROWS = 96 };
	static const int groups[] = {3, 9, 40}, workgroups[] = {1, 7, 0};
	static const struct { const char *kernel, *variant; int columns; } cases[] = {
		{"swiglu_masked_both_mxfp8", "M%32=0 N%32=0 aligned with y scale yt scale_t", 64}, {"swiglu_masked_both_128", "M%128=0 N%128=0 aligned", 128},
		{"swiglu_masked_bwd_both_mxfp8", "M%32=0 N%32=0 aligned", 32}, {"swiglu_masked_both_mxfp8", "unaligned with y scale yt scale_t", 33},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		int there[MANY_GROUPS], rows = strstr(cases[c].variant, "M%128") ? 256 : strstr(cases[c].variant, "unal") ? ROWS - 3 : ROWS, e = 0;
		unsigned alone = 0;
		for (unsigned g = 0; g < sizeof groups / sizeof *groups - (c > 0); g++) {
			for (; e < groups[g]; e++) {
				there[e] = rows <= ROWS ? some_tiles(e) : e * 83 % 300 - 20;
				alone += stores_by(cases[c].kernel, cases[c].variant, 1, rows, cases[c].columns, &there[e], 0);
			}
			for (unsigned w = 0; w < sizeof workgroups / sizeof *workgroups; w++) {
				unsigned n = stores_by(cases[c].kernel, cases[c].variant, groups[g], rows, cases[c].columns, there, workgroups[w]);
				ck_assert_msg(alone && n == alone, "%s, %d groups, %d workgroups: %u stores, each by itself %u", cases[c].kernel, groups[g], workgroups[w], n, alone);
			}
		}
	}
}
END_TEST

/* Behind a row that is not there others may be, where the text does not say otherwise. */
START_TEST(rows_between_missing_ones_are_found)
{
	enum { GROUPS = 2, ROWS = 6 };
	static const int there[GROUPS * ROWS] = {0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1};
	for (int workgroups = 1; workgroups < 4; workgroups++) {
		struct built b;
		open_with(&b, "kept_rows", GROUPS, ROWS, 264, there, GROUPS * ROWS);
		run(&b, "N<=1024 N%8=0 aligned", workgroups);
		built_close(&b);
	}
}
END_TEST

static int64_t along(struct built *b, const struct device_code *code, int dim)
{
	struct hexpr_env env = {b->r.symbols, b->r.k->nsymbols, NULL, NULL};
	const char *why = "";
	int64_t x = 0;
	ck_assert_msg(hexpr_eval(code->launches[0].grid[dim], &env, &x, &why) == 0, "%s", why);
	return x;
}

/* Of up to seven groups 8,192 in all where there are more rows than that, but 128 a group; of more groups one for 32 places, 1,056 to 2,048 and no more
 * than there are places; in the variant for few rows one a row.  Of tiles, 64 x 64 by 128 threads, columns side by side, then rows, then groups: of few
 * groups one a tile, of more 4,096. */
START_TEST(workgroups_are_counted)
{
	static const char many[] = "N%4096=0 aligned rows>=768 bare", few[] = "N%128=0 aligned bare", tiles[] = "M%32=0 N%32=0 aligned with y scale yt scale_t";
	static const struct { const char *variant; int groups, rows, columns; int64_t x, y, z; } cases[] = {
		{many, 4, 2048, 4096, 2048, 4, 1}, {many, 4, 4096, 4096, 2048, 4, 1}, {many, 7, 4096, 4096, 1171, 7, 1}, {many, 8, 4096, 4096, 1056, 1, 1}, {many, 12, 4096, 4096, 1536, 1, 1},
		{many, 8, 200, 4096, 1056, 1, 1}, {many, 8, 100, 4096, 800, 1, 1}, {many, 128, 4096, 4096, 2048, 1, 1}, {many, 32, 4096, 8192, 1024, 1, 2}, {many, 4, 4096, 8192, 1024, 4, 2},
		{many, 0, 4096, 4096, 4096, 0, 1}, {many, 4, 0, 4096, 0, 4, 1}, {many, 9, 0, 4096, 0, 1, 1}, {many, 5, 4096, 4096 * 32, 128, 5, 32}, {few, 32, 4096, 1024, 4096, 32, 1},
		{tiles, 7, 256, 640, 10, 4, 7}, {tiles, 9, 256, 640, 10, 36, 1}, {tiles, 32, 4096, 2048, 32, 128, 1}, {tiles, 4, 4096, 4096, 64, 64, 4}, {tiles, 9, 0, 640, 10, 0, 1},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct device_code code;
		built_open(&b, cases[c].variant == tiles ? "swiglu_masked_both_mxfp8" : "swiglu_masked_128");
		device_compile(&b.d, &b.v[built_variant(&b, cases[c].variant)], &code, cases[c].variant);
		ir_run_symbol(&b.r, "E", cases[c].groups);
		ir_run_symbol(&b.r, "M", cases[c].rows);
		ir_run_symbol(&b.r, "N", cases[c].columns);
		int64_t x = along(&b, &code, 0), y = along(&b, &code, 1), z = along(&b, &code, 2);
		ck_assert_msg(x == cases[c].x && y == cases[c].y && z == cases[c].z, "%d x %d x %d: %ld, %ld, %ld", cases[c].groups, cases[c].rows, cases[c].columns, (long)x, (long)y, (long)z);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

/* Tiles that are there as a whole and others have code of their own, and group memory in the same places. */
START_TEST(sides_share_group_memory)
{
	static const char *const kernels[] = {"swiglu_both_mxfp8", "swiglu_masked_both_mxfp8"};
	int lds[2];
	for (int k = 0; k < 2; k++) {
		struct built b;
		struct device_code code;
		built_open(&b, kernels[k]);
		device_compile(&b.d, &b.v[built_variant(&b, "M%32=0 N%32=0 aligned with y scale yt scale_t")], &code, kernels[k]);
		lds[k] = code.launches[0].lds;
		free(code.elf);
		built_close(&b);
	}
	ck_assert_int_gt(lds[0], 0);
	ck_assert_int_eq(lds[1], lds[0]);
}
END_TEST

/* Of a column of 44 rows two runs of 16 are whole, and the other twelve are stored one by one. */
START_TEST(columns_are_stored_in_runs)
{
	enum { ROWS = 44, COLUMNS = 64, RUN = 16 };
	static const int there = ROWS;
	unsigned n = stores_of("yt", "swiglu_masked_both_mxfp8", "M%32=0 N%32=0 aligned with y scale yt scale_t", 1, 64, COLUMNS, &there, 0);
	ck_assert_uint_eq(n, COLUMNS * (ROWS / RUN + ROWS % RUN));
}
END_TEST

/* All, some and none of the rows of a tile, by each side of the code. */
START_TEST(tiles_in_part)
{
	enum { GROUPS = 4, ROWS = 96 };
	static const int there[GROUPS] = {ROWS, 0, 33, 64};
	struct built b;
	built_open(&b, "swiglu_masked_both_mxfp8");
	ir_run_symbol(&b.r, "E", GROUPS);
	ir_run_symbol(&b.r, "M", ROWS);
	ir_run_symbol(&b.r, "N", 96);
	built_give(&b, "y scale yt scale_t");
	for (int e = 0; e < GROUPS; e++)
		ir_tensor_set(ir_run_find(&b.r, "tokens"), e, there[e]);
	run(&b, "M%32=0 N%32=0 aligned with y scale yt scale_t", 0);
	built_close(&b);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, any_number_computes_the_same);
	tcase_add_test(t, rows_of_many_groups_are_counted);
	tcase_add_test(t, tiles_are_counted);
	tcase_add_test(t, columns_are_stored_in_runs);
	tcase_add_test(t, rows_between_missing_ones_are_found);
	tcase_add_test(t, workgroups_are_counted);
	tcase_add_test(t, sides_share_group_memory);
	tcase_add_test(t, tiles_in_part);
}

int main(void)
{
	return nvptx_run("nvptx rounds", add_tests);
}
