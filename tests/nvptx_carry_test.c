/* nvptx_carry_test.c -- sm_90a: rows that workgroups take one after the other, with sums of columns carried from each to the next (pass_carry.c).
 *
 * In: kernels.tdsl, tests/lower/carried.tdsl.  Checked: by the interpreter of PTX, in which what is copied to group memory is rubbish until it has been
 * waited for, that any rows and columns give what the evaluated IR does, bit for bit; that rows come by way of group memory where it has room for them and
 * a round waits for other waves once; that calls of few rows, and kernels in which anything else reads the parts, keep their three launches. */
#include "nvptx_help.h"

#include <stdlib.h>
#include <string.h>

/* Of as many rows as one likes: predicates ask for more than the interpreter has time for. */
static void compute(const char *kernel, const char *given, const char *variant, int rows, int columns)
{
	struct built b;
	struct device_code code;
	built_open_for(&b, kernel, "sm_90a", NULL);
	ir_run_symbol(&b.r, "M", rows);
	ir_run_symbol(&b.r, "N", columns);
	built_give(&b, given);
	device_compile(&b.d, &b.v[built_variant(&b, variant)], &code, variant);
	device_check(&b.d, &code, variant, false);
	free(code.elf);
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
};
enum { CALLS = sizeof calls / sizeof *calls };

START_TEST(carried_sums_compute)
{
	compute(calls[_i].kernel, calls[_i].given, calls[_i].variant, calls[_i].rows, calls[_i].columns);
}
END_TEST

/* Two rows are asked for before the loop and one in it; the waves of a row meet once. */
START_TEST(rows_are_on_their_way)
{
	struct built b;
	built_open(&b, "rmsnorm_bwd");
	const char *ptx = built_ptx(&b, "N<=4096 N%8=0 aligned rows>=2048 with w dw"), *second = strstr(strstr(ptx, ".entry") + 1, ".entry");
	ck_assert_int_eq(built_times(ptx, "cp.async.cg.shared.global"), 3 * 2 * 2);
	ck_assert_int_eq(built_times(ptx, "cp.async.commit_group"), 3);
	ck_assert_int_eq(built_times(ptx, "cp.async.wait_group 1"), 1);
	ck_assert_int_eq(built_times(ptx, "bar.sync") - built_times(second, "bar.sync"), 1);
	ck_assert_int_eq(b.launches, 2);
	built_close(&b);
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

START_TEST(parts_that_others_ask_for_are_not_carried)
{
	ck_assert_int_eq(carried("sums_of_two"), 4);
	ck_assert_int_eq(carried("first_part"), 0);
	ck_assert_int_eq(carried("sums_of_results"), 0);
	ck_assert_int_eq(carried("silu_bwd"), 0);
}
END_TEST

static void add(TCase *t)
{
	tcase_add_test(t, parts_that_others_ask_for_are_not_carried);
	tcase_add_loop_test(t, carried_sums_compute, 0, CALLS);
	tcase_add_test(t, rows_are_on_their_way);
}

int main(void) { return nvptx_run("nvptx_carry", add); }
