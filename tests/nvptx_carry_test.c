/* nvptx_carry_test.c -- sm_90a: rows that workgroups take one after the other, with sums of columns carried from each to the next (pass_carry.c), whole
 * or, where nothing is made of a row whole, several rows of some columns at a time.
 *
 * In: kernels.tdsl, tests/lower/carried.tdsl.  Checked: by the interpreter of PTX, in which what is copied to group memory is rubbish until it has been
 * waited for, that any rows and columns give what the evaluated IR does, bit for bit; that this is what the text as it stands gives, up to the order of
 * sums; that rows come by way of group memory where it has room for them and
 * a round waits for other waves once, of rows side by side for those of its own; that one launch does it all where its workgroups can wait for each other;
 * that calls of few rows, and kernels in which anything else reads the parts, keep their three launches. */
#include "nvptx_help.h"
#include "ptx_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of as many rows as one likes: predicates ask for more than the interpreter has time for. */
static void compute(const char *chip, const char *kernel, const char *given, const char *variant, int rows, int columns)
{
	struct built b;
	built_open_for(&b, kernel, chip, NULL);
	ir_run_symbol(&b.r, "M", rows);
	ir_run_symbol(&b.r, "N", columns);
	built_give(&b, given);
	built_run(&b, &b.v[built_variant(&b, variant)]);
	built_close(&b);
}

/* Of 132 and 264 workgroups; some have a row more than others, some lanes none, and waves nothing. */
static const struct { const char *kernel, *given, *variant; int rows, columns; } calls[] = {
	{"rmsnorm_bwd", "w dw", "N<=8192 N%8=0 aligned rows>=1024 with w dw", 5 * 132 + 7, 264},
	{"rmsnorm_bwd", "w dw", "N<=8192 N%8=0 aligned rows>=1024 with w dw", 132, 8192},
	{"layernorm_bwd", "w dw db", "N<=8192 N%8=0 aligned rows>=1024 with w dw db", 140, 4104},
	{"layernorm_bwd", "w dres dw db", "N<=4096 N%8=0 aligned rows>=2048 with w dres dw db", 264 + 3, 1000},
	{"rmsnorm_bwd", "w dw", "N<=1024 N%8=0 aligned rows>=8192 with w dw", 1056 + 1, 72},
	{"sums_of_two", "", "N<=2048 N%8=0 aligned rows>=4096", 528 + 300, 136}, {"sums_of_two", "", "N<=8192 N%8=0 aligned rows>=1024", 140, 2056},
	/* Four rows and two side by side, of which none or all are there. */
	{"rmsnorm_bwd", "w dw", "N<=1024 N%8=0 aligned rows>=8192 rows%4=0 with w dw", 1056 + 12, 72},
	{"rmsnorm_bwd", "w dres dw", "N<=2048 N%8=0 aligned rows>=4096 rows%2=0 with w dres dw", 528 + 2, 2048},
	{"layernorm_bwd", "w dw db", "N<=4096 N%8=0 aligned rows>=2048 rows%2=0 with w dw db", 264 + 6, 1000},
	{"rows_behind_sums", "", "N<=8192 N%4=0 aligned rows>=1024", 140, 72},
	{"layernorm_bwd", "w dw db", "N=1024 aligned rows>=8192 with w dw db", 1056 + 3, 1024},
	{"layernorm_bwd", "w dres dw db", "N=4096 aligned rows>=2048 rows%2=0 with w dres dw db", 264 + 2, 4096},
	{"rmsnorm_bwd", "w dw", "N=128 aligned rows>=8448 rows%16=0 with w dw", 528 * 16 + 32, 128},
	{"layernorm_bwd", "w dres dw db", "N<=64 N%8=0 aligned rows>=16896 with w dres dw db", 528 * 32 + 37, 8}, {"rmsnorm_bwd", "w dw", "N<=256 N%8=0 aligned rows>=4224 with w dw", 528 * 8 + 3, 40},
	{"layernorm_bwd", "w dw db", "N<=512 N%8=0 aligned rows>=2112 with w dw db", 528 * 4 + 3, 264}, {"sums_of_two", "", "N<=128 N%8=0 aligned rows>=8448", 528 * 16 + 17, 24},
	/* Fewer: each row has a workgroup, or some have two, or three; one row, whose others hold zeros; rows shorter than the class, and longer than it is for. */
	{"rmsnorm_bwd", "w dw", "M<=16 N<=4096 N%8=0 aligned with w dw", 1, 4096}, {"layernorm_bwd", "w dres dw db", "M<=64 N<=4096 N%8=0 aligned with w dres dw db", 61, 264},
	{"rmsnorm_bwd", "w dres dw", "M<=511 N<=4096 N%8=0 aligned with w dres dw", 128 + 5, 1032}, {"rmsnorm_bwd", "w dw", "M<=2047 N<=4096 N%8=0 aligned with w dw", 2 * 264 + 9, 72},
	{"layernorm_bwd", "w dw db", "M<=1023 N<=4096 N>2048 N%8=0 aligned with w dw db", 128 + 3, 2056}, {"rmsnorm_bwd", "w dw", "M<=16 N<=8192 N%8=0 aligned with w dw", 16, 4104},
	{"rmsnorm_bwd", "w dw", "M<=64 N<=8192 N%8=0 aligned with w dw", 17, 8192}, {"layernorm_bwd", "w dw db", "M<=1023 N<=8192 N>4096 N%8=0 aligned with w dw db", 2 * 128 + 1, 4104},
	/* Of pieces by some of the workgroups each: of the last one a lane has some, some workgroups have a row more than others, or none, or fewer than places. */
	{"swiglu_bwd", "b db", "N%8=0 aligned pieces>=8192", 44 * 7 + 5, 5 * 1024 + 8}, {"reglu_bwd", "", "N%8=0 aligned pieces>=8192", 28, 1024 + 8},
	{"swiglu_clamped_bwd", "db", "N<=1024 N%8=0 aligned pieces>=8192", 264 * 3 + 1, 72}, {"qgelu_bwd", "b db", "N%8=0 aligned pieces>=8192", 12 * 8 + 3, 20 * 1024 + 8},
	{"silu_bwd", "b db", "N<=1024 N%8=0 aligned pieces>=8192", 264 * 6 + 5, 72}, {"gelu_bwd", "db", "N<=1024 N%8=0 aligned pieces>=8192", 4, 1024},
	{"silu_bwd", "db", "N<=512 N%8=0 aligned pieces>=16384", 528 * 5 + 2, 8}, {"swiglu_bwd", "b db", "N<=512 N%8=0 aligned rows>=16384", 3, 512},
	/* Each row has a workgroup; of those that have none there are sums all the same. */
	{"silu_bwd", "b db", "M<=64 N%8=0 aligned", 64, 1032}, {"qgeglu_bwd", "db", "M<=16 N%8=0 aligned", 3, 72},
	/* Of 64 workgroups of a piece some have three rows and some four, or some one and some two. */
	{"swiglu_bwd", "b db", "M<=256 N%8=0 aligned", 3 * 64 + 7, 1032}, {"gelu_bwd", "db", "M<=256 N%8=0 aligned", 65, 2056},
	/* Sixteen, eight and four short ones side by side. */
	{"swiglu_bwd", "b db", "N<=64 N%8=0 aligned rows>=65536", 264 * 16 + 5, 56}, {"gelu_bwd", "db", "N<=128 N%8=0 aligned rows>=65536", 3, 128},
	{"silu_bwd", "b db", "N<=256 N%8=0 aligned rows>=65536", 264 * 4 * 2 + 3, 136},
	/* Rows that begin anywhere: side by side, one by one, the next loaded meanwhile; by one launch or two; more than there are workgroups, or fewer. */
	{"rmsnorm_bwd", "w dw", "N<=64 unaligned with w dw", 528 * 16 + 5, 13}, {"layernorm_bwd", "w dw db", "N<=128 unaligned with w dw db", 3, 127},
	{"layernorm_bwd", "w dres dw db", "N<=512 unaligned with w dres dw db", 660 * 2 + 3, 259}, {"rmsnorm_bwd", "w dw", "N<=1024 N>512 unaligned rows>=2048 with w dw", 792 + 3, 531},
	{"layernorm_bwd", "w dw db", "N<=2048 N>1024 unaligned rows>=2048 with w dw db", 5, 1025}, {"rmsnorm_bwd", "w dw", "N<=3072 N>2048 unaligned rows>=1024 with w dw", 264 + 3, 2051},
	{"layernorm_bwd", "w dres dw db", "N<=3072 N>2048 unaligned rows>=1024 with w dres dw db", 2, 3071}, {"rmsnorm_bwd", "w dres dw", "N<=5120 N>4096 unaligned rows>=1024 with w dres dw", 4, 4099},
	{"layernorm_bwd", "w dw db", "N<=6144 N>5120 unaligned rows>=128 with w dw db", 132 + 3, 5123}, {"rmsnorm_bwd", "w dw", "N<=8192 N>6144 unaligned rows>=512 with w dw", 3, 8191},
	{"sums_of_two", "", "N<=256 unaligned", 660 * 4 + 1, 21},
	/* Pieces of such rows: of the last a lane has some columns or none. */
	{"silu_bwd", "b db", "N<=64 unaligned", 528 * 16 + 7, 11}, {"swiglu_bwd", "b db", "N<=512 unaligned", 3, 509}, {"gelu_bwd", "db", "N<=256 unaligned", 528 * 4 * 2 - 1, 129},
	{"silu_bwd", "db", "unaligned", 2 * 176 + 5, 5 * 512 + 3}, {"swiglu_clamped_bwd", "db", "unaligned", 3, 701}, {"qgeglu_bwd", "b db", "unaligned", 1, 1},
};
enum { CALLS = sizeof calls / sizeof *calls };

START_TEST(carried_sums_compute)
{
	compute("sm_90a", calls[_i].kernel, calls[_i].given, calls[_i].variant, calls[_i].rows, calls[_i].columns);
}
END_TEST

/* Of 2,431, 607 and 255 workgroups that load the next row while they compute one, of one, four, five and sixteen waves: some have two rows, some none. */
#define HELD "N<=16384 N>512 N%8=0 aligned elements>=8388608"
static const struct { const char *chip, *kernel, *given, *variant; int rows, columns; } amd_calls[] = {
	{"gfx942", "rmsnorm_bwd", "w dw", HELD " with w dw", 2431 + 9, 520}, {"gfx942", "layernorm_bwd", "w dres dw db", HELD " with w dres dw db", 5, 4096},
	{"gfx950", "layernorm_bwd", "w dw db", HELD " with w dw db", 255 + 3, 4104}, {"gfx950", "rmsnorm_bwd", "w dres dw", HELD " with w dres dw", 3, 16384},
};
enum { AMD_CALLS = sizeof amd_calls / sizeof *amd_calls };

START_TEST(amd_chips_carry_sums)
{
	compute(amd_calls[_i].chip, amd_calls[_i].kernel, amd_calls[_i].given, amd_calls[_i].variant, amd_calls[_i].rows, amd_calls[_i].columns);
}
END_TEST

/* What each output has, as `k` makes it. */
static void evaluate(struct built *b, const struct ir_kernel *k, double **values)
{
	struct ir_eval e = {k, b->r.tensors, b->r.scalars, b->r.symbols, true};
	ck_assert_msg(ir_evaluate(&e, b->d.err, sizeof b->d.err) == 0, "%s: %s", k->name, b->d.err);
	for (int p = 0; p < b->r.k->nparams; p++) {
		const struct ir_tensor *t = &b->r.tensors[p];
		int64_t n = b->r.k->params[p].role == IR_OUT && t->data ? ir_tensor_count(t) : 0;
		values[p] = calloc((size_t)n + 1, sizeof **values);
		for (int64_t i = 0; i < n; i++)
			values[p][i] = ir_tensor_get(t, i);
	}
}

/* The text as it stands, and its rows carried by workgroups: the same but for the order of sums. */
static void keep_values(const char *chip, const char *pass, const char *kernel, const char *given, const char *variant, int rows, int columns)
{
	struct built b;
	double *want[64], *got[64];
	built_open_for(&b, kernel, chip, NULL);
	ir_run_symbol(&b.r, "M", rows);
	ir_run_symbol(&b.r, "N", columns);
	built_give(&b, given);
	for (int p = 0; p < b.r.k->nparams; p++)
		if (b.r.k->params[p].role == IR_OUT && b.r.tensors[p].rank >= 0)
			ir_run_tensor(&b.r, b.r.k->params[p].name, 0);
	const struct ir_kernel *carried = built_passed(&b, built_variant(&b, variant), pass);
	ck_assert_int_eq(carried->nphases, b.r.k->nphases - (b.v[built_variant(&b, variant)].pieces ? 0 : 1));
	evaluate(&b, b.r.k, want);
	evaluate(&b, carried, got);
	for (int p = 0; p < b.r.k->nparams; p++) {
		const struct ir_tensor *t = &b.r.tensors[p];
		bool out = b.r.k->params[p].role == IR_OUT && t->data;
		double step = t->dtype == DT_F32 ? 2e-8 * (rows > 500 ? rows : 500) : 0x1p-7;      /* sums of f32 */
		for (int64_t i = 0; out && i < ir_tensor_count(t); i++)
			ck_assert_msg(fabs(want[p][i] - got[p][i]) <= step * (1 + fabs(want[p][i])), "%s: %s[%d] is %g, not %g", kernel, b.r.k->params[p].name, (int)i, got[p][i], want[p][i]);
		free(want[p]);
		free(got[p]);
	}
	built_close(&b);
}

START_TEST(values_are_kept)
{
	static const struct { const char *kernel, *given, *variant; int rows, columns; } cases[] = {
		{"mean_of_parts", "", "N<=8192 N%4=0 aligned rows>=1024", 300, 8}, {"sums_of_two", "", "N<=8192 N%8=0 aligned rows>=1024", 140, 16},
		{"rmsnorm_bwd", "w dres dw", "N<=8192 N%8=0 aligned rows>=1024 with w dres dw", 300, 16}, {"layernorm_bwd", "w dw db", "N<=8192 N%8=0 aligned rows>=1024 with w dw db", 133, 24},
		{"gelu_bwd", "b db", "N<=1024 N%8=0 aligned pieces>=8192", 264 * 4 + 7, 8}, {"swiglu_clamped_bwd", "db", "N%8=0 aligned pieces>=8192", 53, 16},
		{"rmsnorm_bwd", "w dres dw", "N<=1024 N%8=0 aligned rows>=8192 rows%4=0 with w dres dw", 2112 + 8, 16},
		{"layernorm_bwd", "w dw db", "N<=4096 N%8=0 aligned rows>=2048 rows%2=0 with w dw db", 530, 8},
		{"layernorm_bwd", "w dw db", "N=1024 aligned rows>=8192 with w dw db", 41, 1024}, {"layernorm_bwd", "w dw db", "N<=64 N%8=0 aligned rows>=16896 with w dw db", 37, 8},
		{"rmsnorm_bwd", "w dres dw", "N<=128 N%8=0 aligned rows>=8448 with w dres dw", 528 * 16 + 9, 16}, {"rmsnorm_bwd", "w dw", "N=512 aligned rows>=2112 rows%4=0 with w dw", 8, 512},
		{"layernorm_bwd", "w dw db", "M<=16 N<=4096 N%8=0 aligned with w dw db", 13, 24}, {"rmsnorm_bwd", "w dw", "M<=2047 N<=4096 N%8=0 aligned with w dw", 530, 16},
		{"layernorm_bwd", "w dres dw db", "M<=1023 N<=8192 N>4096 N%8=0 aligned with w dres dw db", 131, 40},
		{"swiglu_bwd", "b db", "M<=64 N%8=0 aligned", 61, 24}, {"sums_beside_results", "", "N<=512 N%8=0 aligned pieces>=16384", 63, 504},
		{"swiglu_bwd", "b db", "N<=64 N%8=0 aligned rows>=65536", 264 * 16 + 9, 8}, {"silu_bwd", "db", "N<=128 unaligned", 528 * 8 + 5, 9},
		{"layernorm_bwd", "w dw db", "N<=512 unaligned with w dw db", 1321, 17},
	};
	keep_values("sm_90a", "carry", cases[_i].kernel, cases[_i].given, cases[_i].variant, cases[_i].rows, cases[_i].columns);
}
END_TEST

/* Where no ring brings rows each round loads those of the next one. */
START_TEST(values_are_kept_without_a_ring)
{
	static const struct { const char *chip, *kernel, *given, *variant; int rows, columns; } cases[] = {
		{"gfx942", "rmsnorm_bwd", "w dw", HELD " with w dw", 2431 * 2 + 5, 24}, {"gfx942", "layernorm_bwd", "w dw db", HELD " with w dw db", 40, 1024},
		{"gfx950", "layernorm_bwd", "w dres dw db", HELD " with w dres dw db", 2047 + 3, 24},
		{"sm_90a", "silu_bwd", "b db", "unaligned", 1056 + 7, 19}, {"sm_90a", "swiglu_clamped_bwd", "db", "unaligned", 1056 * 2 + 1, 7},
		{"sm_90a", "layernorm_bwd", "w dres dw db", "N<=3072 N>2048 unaligned rows>=1024 with w dres dw db", 530, 17},
	};
	keep_values(cases[_i].chip, "next", cases[_i].kernel, cases[_i].given, cases[_i].variant, cases[_i].rows, cases[_i].columns);
}
END_TEST

/* The first row is asked for before the launch in front is done; rows come before the loop, all but one that have places, and one in it; the waves of a
 * row that is reduced meet once, alone where there are others, and all to add up what rows side by side have; those of pieces never.  Then all workgroups
 * do. */
START_TEST(rows_are_on_their_way)
{
	static const struct { const char *kernel, *variant; int copies, rounds, row, all; } cases[] = {
		{"rmsnorm_bwd", "N<=4096 N%8=0 aligned rows>=2048 with w dw", 2 * 2, 3, 0, 1},
		{"layernorm_bwd", "N<=4096 N%8=0 aligned rows>=2048 rows%2=0 with w dw db", 2 * 2, 3, 1, 2},
		{"rmsnorm_bwd", "N<=1024 N%8=0 aligned rows>=8192 rows%4=0 with w dw", 2, 2, 1, 1},
		{"rmsnorm_bwd", "N=128 aligned rows>=8448 rows%16=0 with w dw", 2, 2, 0, 1}, {"layernorm_bwd", "N<=512 N%8=0 aligned rows>=2112 with w dw db", 2, 2, 1, 2},
		{"swiglu_bwd", "N%8=0 aligned pieces>=8192", 3, 6, 0, 0}, {"silu_bwd", "N<=1024 N%8=0 aligned pieces>=8192", 2, 6, 0, 0},
	};
	struct built b;
	char wait[40];
	built_open(&b, cases[_i].kernel);
	const char *ptx = built_ptx(&b, cases[_i].variant), *met = strstr(ptx, "%envreg"), *behind = strstr(ptx, "griddepcontrol.wait");
	int lots = cases[_i].rounds - 2, ends = built_times(ptx, "cp.async.wait_all");
	snprintf(wait, sizeof wait, "cp.async.wait_group %d", lots);
	ck_assert_int_eq(built_times(ptx, "cp.async.cg.shared.global"), cases[_i].rounds * cases[_i].copies);
	ck_assert_int_eq(built_times(ptx, "cp.async.commit_group"), cases[_i].rounds);
	ck_assert_ptr_nonnull(behind);
	ck_assert_int_eq(built_times(ptx, "prefetch.global.L2") - built_times(behind, "prefetch.global.L2"), cases[_i].copies);
	ck_assert_int_eq(lots ? built_times(ptx, wait) : ends - 1, 1);
	ck_assert_ptr_nonnull(met);
	int own = built_times(ptx, "bar.sync \t%r") - built_times(met, "bar.sync \t%r");
	ck_assert_int_eq(own, cases[_i].row);
	ck_assert_int_eq(built_times(ptx, "bar.sync") - built_times(met, "bar.sync") - own, cases[_i].all);
	ck_assert_int_eq(built_times(ptx, "atom."), 1);
	ck_assert_int_eq(b.launches, 1);
	built_close(&b);
}
END_TEST

/* Of some rows a round asks for half in front of its barrier and for half behind: less is on its way at a time. */
START_TEST(rows_are_asked_for_in_halves)
{
	static const struct { const char *kernel, *variant; int before, behind; } cases[] = {
		{"layernorm_bwd", "N=8192 aligned rows>=1024 with w dw db", 2, 2}, {"rmsnorm_bwd", "N=8192 aligned rows>=1024 with w dw", 4, 0},
		{"rmsnorm_bwd", "N<=8192 N%8=0 aligned rows>=1024 with w dw", 2, 2}, {"layernorm_bwd", "N=8192 aligned rows>=1024 with w dres dw db", 4, 2},
		{"rmsnorm_bwd", "N<=1024 N%8=0 aligned rows>=8192 rows%4=0 with w dw", 1 + 1, 0},
	};
	struct built b;
	built_open(&b, cases[_i].kernel);
	const char *round = strstr(built_ptx(&b, cases[_i].variant), "cp.async.wait_"), *wait = strstr(round, "bar.sync"), *end = strstr(wait, "cp.async.wait_all");
	ck_assert_ptr_nonnull(end);
	int from_wait = built_times(wait, "cp.async.cg"), from_end = built_times(end, "cp.async.cg");
	ck_assert_int_eq(built_times(round, "cp.async.cg") - from_wait, cases[_i].before);
	ck_assert_int_eq(from_wait - from_end, cases[_i].behind);
	built_close(&b);
}
END_TEST

/* Of rows that may be shorter than their class as many waves meet as hold something of one; of others, and where the others are not started, all. */
START_TEST(waves_of_no_columns_have_no_rounds)
{
	static const struct { const char *kernel, *variant; int some; } cases[] = {
		{"layernorm_bwd", "N<=8192 N%8=0 aligned rows>=1024 with w dw db", 1}, {"layernorm_bwd", "N=8192 aligned rows>=1024 with w dw db", 0},
		{"layernorm_bwd", "N<=4096 N%8=0 aligned rows>=2048 rows%2=0 with w dw db", 1}, {"rmsnorm_bwd", "N=4096 aligned rows>=2048 rows%2=0 with w dw", 0},
		{"rmsnorm_bwd", "N<=1024 N%8=0 aligned rows>=8192 rows%4=0 with w dw", 1}, {"layernorm_bwd", "N<=1024 N%8=0 aligned rows>=8192 with w dw db", 0},
	};
	struct built b;
	int some = 0;
	built_open(&b, cases[_i].kernel);
	for (const char *at = built_ptx(&b, cases[_i].variant); (at = strstr(at, "bar.sync")); at++) {
		const char *count = strpbrk(at, ",;");
		some += *count == ',' && strncmp(count, ", %", 3) == 0;
	}
	ck_assert_int_eq(some, cases[_i].some);
	built_close(&b);
}
END_TEST

/* Lanes of eight columns store four at a time of their sums, 32 lanes side by side, where each would store half of every sector at a time. */
START_TEST(parts_are_stored_in_whole_sectors)
{
	static const struct { const char *kernel, *variant; int sums; } cases[] = {
		{"rmsnorm_bwd", "N=8192 aligned rows>=1024 with w dw", 1}, {"layernorm_bwd", "N<=1024 N%8=0 aligned rows>=8192 with w dw db", 2},
		{"layernorm_bwd", "N<=4096 N%8=0 aligned rows>=2048 rows%2=0 with w dw db", 2}, {"rmsnorm_bwd", "N<=16384 N%8=0 aligned rows>=512 with w dw", 1},
	};
	struct built b;
	built_open(&b, cases[_i].kernel);
	int apart = 0;
	for (const char *at = built_ptx(&b, cases[_i].variant); (at = strstr(at, "st.global.v4.b32")); at++) {
		const char *plus = strpbrk(at, "+]");
		ck_assert_msg(*plus == ']' || atoi(plus + 1) % 32 == 0, "%.60s", at);
		apart += *plus == '+' && atoi(plus + 1) % 1024 == 512;
	}
	ck_assert_int_ge(apart, cases[_i].sums);
	built_close(&b);
}
END_TEST

/* So many workgroups a multiprocessor are said; in a launch of their own 256 lanes add up the sums of many rows, 512 of rows of one length, of each
 * workgroup's columns as many as each multiprocessor has: those have more than half of its group memory, so that no two share one. */
START_TEST(sums_are_added_up_everywhere)
{
	static const struct { const char *kernel, *variant; int each, added, alone; } cases[] = {
		{"layernorm_bwd", "N<=1024 N%8=0 aligned rows>=8192 with w dw db", 8, 256, 0}, {"layernorm_bwd", "N<=8192 N%8=0 aligned rows>=1024 with w dw db", 1, 0, 0},
		{"swiglu_bwd", "N<=1024 N%8=0 aligned pieces>=8192", 2, 0, 0}, {"swiglu_bwd", "M<=16 N%8=0 aligned", 0, 128, 0},
		{"layernorm_bwd", "N=1024 aligned rows>=8192 with w dw db", 8, 512, 1},
	};
	struct built b;
	struct device_code code;
	char line[40];
	built_open(&b, cases[_i].kernel);
	const char *ptx = built_ptx(&b, cases[_i].variant), *second = strstr(strstr(ptx, ".entry") + 1, ".entry");
	snprintf(line, sizeof line, "\n.minnctapersm %d\n", cases[_i].each);
	ck_assert_int_eq(built_times(ptx, line), cases[_i].each > 0);
	ck_assert_int_eq(built_times(ptx, "\n.minnctapersm "), cases[_i].each > 0);
	snprintf(line, sizeof line, "\n.reqntid %d\n", cases[_i].added);
	ck_assert_int_eq(second ? built_times(second, line) : 0, cases[_i].added > 0);
	ck_assert_int_eq(b.launches, cases[_i].added ? 2 : 1);
	device_compile(&b.d, &b.v[built_variant(&b, cases[_i].variant)], &code, cases[_i].variant);
	for (int l = 0; l < b.launches; l++)
		ck_assert_msg((code.launches[l].lds > 232448 / 2) == (l && cases[_i].alone), "launch %d has %d bytes", l, (int)code.launches[l].lds);
	free(code.elf);
	built_close(&b);
}
END_TEST

/* Behind the wait for all, one barrier for the parts that waves have of one sum or of both, and one at the end of the loop; waves but the first, which
 * stores, do not read them.  others: the bits of their numbers. */
START_TEST(sums_are_folded_by_who_stores_them)
{
	static const struct { const char *kernel, *variant; int others; } cases[] = {
		{"rmsnorm_bwd", "N=8192 aligned rows>=1024 with w dw", 512 - 32}, {"layernorm_bwd", "N=8192 aligned rows>=1024 with w dw db", 512 - 32},
		{"layernorm_bwd", "N=8192 aligned rows>=1024 with w dres dw db", 512 - 32}, {"rmsnorm_bwd", "N=8192 aligned rows>=1024 with w dres dw", 512 - 32},
	};
	struct built b;
	char first[40];
	built_open(&b, cases[_i].kernel);
	const char *met = strstr(built_ptx(&b, cases[_i].variant), "ld.acquire.gpu");
	ck_assert_ptr_nonnull(met);
	ck_assert_int_eq(built_times(met, "bar.sync"), 1 + 2);
	snprintf(first, sizeof first, ", %%r1, %d;", cases[_i].others);
	ck_assert_int_eq(built_times(met, first), 1);
	built_close(&b);
}
END_TEST

/* Two workgroups of a warp each leave their numbers and, once they have met, read the other's.  come: how many do. */
static int meet(int come, bool meets, uint32_t numbers[2], char *err, size_t errlen)
{
	static const char form[] =
		".visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n.reg .pred %%p<8>;\n.reg .b32 %%r<16>;\n.reg .b64 %%rd<16>;\n"
		"ld.param.b64 %%rd1, [k_param_0];\nmov.u32 %%r1, %%tid.x;\nmov.u32 %%r2, %%ctaid.x;\nsetp.eq.b32 %%p1, %%r1, 0;\n"
		"mul.wide.u32 %%rd2, %%r2, 4;\nadd.s64 %%rd3, %%rd1, %%rd2;\nadd.s32 %%r3, %%r2, 7;\n@%%p1 st.global.b32 [%%rd3], %%r3;\n"
		"mov.u32 %%r4, %%envreg1;\nmov.u32 %%r5, %%envreg2;\nmov.b64 %%rd4, {%%r5, %%r4};\nsetp.lt.u32 %%p2, %%r2, %d;\nand.pred %%p3, %%p1, %%p2;\n"
		"setp.eq.b32 %%p4, %%r2, 0;\nselp.b32 %%r6, 2147483647, 1, %%p4;\nmov.b32 %%r7, 0;\n@%%p3 atom.add.acq_rel.gpu.global.u32 %%r7, [%%rd4+4], %%r6;\n"
		"$again:\nmov.b32 %%r8, -2147483648;\n@%%p3 ld.acquire.gpu.global.u32 %%r8, [%%rd4+4];\nxor.b32 %%r9, %%r8, %%r7;\nsetp.ge.s32 %%p5, %%r9, 0;\n"
		"vote.sync.ballot.b32 %%r10, %%p5, -1;\nsetp.ne.b32 %%p6, %%r10, 0;\n@%%p6 bra $again;\n"
		"xor.b32 %%r11, %%r2, 1;\nmul.wide.u32 %%rd5, %%r11, 4;\nadd.s64 %%rd6, %%rd1, %%rd5;\nld.global.b32 %%r12, [%%rd6];\n@%%p1 st.global.b32 [%%rd3+8], %%r12;\nret;\n}\n";
	uint32_t memory[4] = {0};
	char text[2600];
	uint64_t at = (uint64_t)(uintptr_t)memory;
	struct ptx_range range = {(uint8_t *)memory, sizeof memory, true};
	snprintf(text, sizeof text, form, come);
	struct ptx_launch l = {.text = text, .kernel = "k", .grid = {2, 1, 1}, .block = 32, .arguments = &at, .argument_bytes = 8, .memory = &range, .nmemory = 1, .meets = meets};
	int rc = ptx_run(&l, err, errlen);
	memcpy(numbers, memory + 2, sizeof memory / 2);
	return rc;
}

START_TEST(the_interpreter_waits_for_all)
{
	uint32_t numbers[2];
	char err[300] = "";
	ck_assert_msg(meet(2, true, numbers, err, sizeof err) == 0, "%s", err);
	ck_assert_uint_eq(numbers[0], 8);
	ck_assert_uint_eq(numbers[1], 7);
	ck_assert_int_ne(meet(1, true, numbers, err, sizeof err), 0);
	ck_assert_msg(strstr(err, "others never arrive"), "%s", err);
	ck_assert_int_ne(meet(2, false, numbers, err, sizeof err), 0);
	ck_assert_msg(strstr(err, "may not run at a time"), "%s", err);
}
END_TEST

/* What a kernel of three launches carries, by its variants. */

static int carried(const char *kernel)
{
	struct built b;
	int n = 0;
	built_open_for(&b, kernel, "sm_90a", NULL);
	for (int v = 0; v < b.n; v++)
		n += b.v[v].carries > 0;
	built_close(&b);
	return n;
}

/* Phases behind others may want other workgroups: those that add up parts and nothing else are joined, of each class and of rows exactly as long. */
START_TEST(other_phases_are_launches)
{
	static const struct { const char *kernel; int joined; } cases[] = {{"sums_of_two", 16 + 3}, {"mean_of_parts", 21 + 3}, {"rows_behind_sums", 0}};
	struct built b;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		int n = 0;
		built_open_for(&b, cases[i].kernel, "sm_90a", NULL);
		for (int v = 0; v < b.n; v++) {
			n += b.v[v].joined;
			ck_assert(b.v[v].carries || !b.v[v].joined);
		}
		ck_assert_int_eq(n, cases[i].joined);
		built_close(&b);
	}
	ck_assert_int_gt(carried("rows_behind_sums"), 0);
}
END_TEST

/* Of rows that begin anywhere there are eleven classes, of which three are one launch, or four of short pieces and one of all; three more of short aligned
 * pieces. */
START_TEST(parts_that_others_ask_for_are_not_carried)
{
	ck_assert_int_eq(carried("sums_of_two"), 24 + 11);
	ck_assert_int_eq(carried("first_part"), 0);
	ck_assert_int_eq(carried("sums_of_results"), 0);
	ck_assert_int_eq(carried("squares_of_parts"), 0);
	ck_assert_int_eq(carried("numbered_parts"), 0);
	ck_assert_int_eq(carried("numbered_groups"), 0);
	ck_assert_int_eq(carried("mean_of_parts"), 31 + 11);
	ck_assert_int_eq(carried("silu_bwd"), 6 + 3 + 5);
	ck_assert_int_eq(carried("swiglu_bwd"), 6 + 3 + 5);
	ck_assert_int_eq(carried("silu_bwd_static"), 0);
	ck_assert_int_eq(carried("sums_beside_results"), 6 + 3 + 5);
	ck_assert_int_eq(carried("rows_of_their_group"), 0);
	ck_assert_int_eq(carried("sums_of_groups"), 0);
	ck_assert_int_eq(carried("places_in_groups"), 0);
	ck_assert_int_eq(carried("three_sums"), 0);
	ck_assert_int_eq(carried("sums_of_some"), 0);
	ck_assert_int_eq(carried("sums_of_some_rows"), 0);
	ck_assert_int_eq(carried("result_of_columns"), 0);
}
END_TEST

/* Launches begin early, and of the workgroups of a multiprocessor that carry sums of pieces so many have group memory at a time, and not one more; those
 * of few rows, and those that add up, ask for what they use. */
START_TEST(as_many_share_a_multiprocessor)
{
	static const struct { const char *kernel, *variant; int launches; uint32_t each; } cases[] = {
		{"silu_bwd", "N<=1024 N%8=0 aligned pieces>=8192", 1, 2}, {"silu_bwd", "N%8=0 aligned pieces>=8192", 1, 2}, {"silu_bwd", "M<=64 N%8=0 aligned", 2, 0},
		{"silu_bwd", "N<=512 N%8=0 aligned pieces>=16384", 1, 4}, {"swiglu_bwd", "N%8=0 aligned pieces>=8192", 1, 2}, {"swiglu_bwd", "N<=1024 N%8=0 aligned pieces>=8192", 1, 2},
	};
	struct built b;
	struct device_code code;
	built_open(&b, cases[_i].kernel);
	device_compile(&b.d, &b.v[built_variant(&b, cases[_i].variant)], &code, cases[_i].kernel);
	uint32_t each = cases[_i].each, lds = code.launches[0].lds;
	ck_assert_int_eq(code.nlaunches, cases[_i].launches);
	ck_assert_int_eq(code.launches[0].meets, code.nlaunches == 1);
	ck_assert_msg(each ? lds * each <= 232448 && lds * (each + 1) > 232448 : lds < 16384, "%u bytes", lds);
	for (int l = 0; l < code.nlaunches; l++)
		ck_assert(code.launches[l].overlaps && (!l || code.launches[l].lds < 16384));
	free(code.elf);
	built_close(&b);
}
END_TEST

/* A round of pieces asks for another one's rows when memory has had the time for those between, by so many per mille of its rate; where it is not known
 * there is nothing to wait for.  A warp looks at the clock in front of the loop and in each round at least once; the last of six waits for five. */
START_TEST(rounds_keep_pace_with_memory)
{
	static const struct { const char *kernel, *given, *variant; int bytes, paced, rows, columns, at_a_time; } cases[] = {
		{"swiglu_bwd", "db", "N<=512 N%8=0 aligned rows>=16384", 10, 895, 528 * 5 + 2, 264, 528}, {"silu_bwd", "b db", "N<=1024 N%8=0 aligned pieces>=8192", 6, 905, 264 * 5 + 1, 16, 264},
		{"swiglu_bwd", "b db", "N%8=0 aligned pieces>=8192", 10, 895, 132 * 5 + 1, 1024 + 8, 132},
	};
	static const int rates[] = {0, 5000, 20000};
	int columns = cases[_i].columns, looks = 1 + 6;
	double round = (double)cases[_i].bytes * columns * cases[_i].at_a_time * 1000 / cases[_i].paced;
	for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
		int rate = rates[r];
		struct built b;
		struct device_code code;
		built_open(&b, cases[_i].kernel);
		b.d.memory_rate = rate;
		ir_run_symbol(&b.r, "M", cases[_i].rows);
		ir_run_symbol(&b.r, "N", columns);
		built_give(&b, cases[_i].given);
		device_compile(&b.d, &b.v[built_variant(&b, cases[_i].variant)], &code, cases[_i].variant);
		device_check(&b.d, &code, cases[_i].variant, false);
		double least = rate ? 5 * round / rate : 0;
		ck_assert_msg(b.d.time >= least - 1 && b.d.time <= least + looks, "%d GB/s: %llu ns, not %g", rate, (unsigned long long)b.d.time, least);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, rounds_keep_pace_with_memory, 0, 3);
	tcase_add_loop_test(t, as_many_share_a_multiprocessor, 0, 6);
	tcase_add_test(t, other_phases_are_launches);
	tcase_add_test(t, the_interpreter_waits_for_all);
	tcase_add_test(t, parts_that_others_ask_for_are_not_carried);
	tcase_add_loop_test(t, values_are_kept, 0, 20);
	tcase_add_loop_test(t, values_are_kept_without_a_ring, 0, 6);
	tcase_add_loop_test(t, amd_chips_carry_sums, 0, AMD_CALLS);
	tcase_add_loop_test(t, carried_sums_compute, 0, CALLS);
	tcase_add_loop_test(t, rows_are_on_their_way, 0, 7);
	tcase_add_loop_test(t, rows_are_asked_for_in_halves, 0, 5);
	tcase_add_loop_test(t, waves_of_no_columns_have_no_rounds, 0, 6);
	tcase_add_loop_test(t, sums_are_added_up_everywhere, 0, 5);
	tcase_add_loop_test(t, sums_are_folded_by_who_stores_them, 0, 4);
	tcase_add_loop_test(t, parts_are_stored_in_whole_sectors, 0, 4);
}

int main(void) { return nvptx_run("nvptx_carry", add); }
