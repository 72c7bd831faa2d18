/* rt_strides_test.c -- which strides compiled kernels follow, and what they say of others: strides beyond 32-bit offsets, and leading
 * dimensions that do not fold into one; and which extents.  libtdslc.so lies in the folder above this program. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/include/tdsl.h"
#include "rt_library.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())

static const char text[] =
	"kernel twice(x: f32[M, N]) -> y: f32[M, N]\n{\n    each m in M tiled, n in N tiled {\n        y[m, n] = x[m, n] * 2\n    }\n}\n"
	"kernel plus(x: f32[M, N]) -> y: f32[M, N]\n{\n    each m in M, n in N {\n        y[m, n] = x[m, n] + 1\n    }\n}\n"
	"kernel half(x: f32[M, 2*N]) -> y: f32[M, N]\n{\n    each m in M, n in N {\n        y[m, n] = x[m, n]\n    }\n}\n"
	"kernel total(x: f32[M, N]) -> s: f32[M]\n{\n    each m in M {\n        n = 0..N\n        s[m] = sum(x[m, n] over n)\n    }\n}\n";
static tdsl_pack pack;
static int64_t *const compact = NULL;

static void setup(void)
{
	static const char *const targets[] = {"gfx942", NULL};
	tdsl_device d;
	setenv("TDSL_CACHE_DIR", "", 1);
	OK(tdsl_open(&d, "null:gfx942"));
	OK(tdsl_compile(&pack, text, strlen(text), "t.tdsl", &(struct tdsl_compile_options){.targets = targets}));
}

static void teardown(void)
{
	tdsl_pack_close(pack);
}

/* x and y at made-up addresses: nothing runs. */
static int call(const char *kernel, int rank, int64_t *shape, int64_t *strides, int64_t *of_output)
{
	tdsl_kernel k;
	bool row = strcmp(kernel, "total") == 0;
	DLTensor x = {(void *)(uintptr_t)(1ull << 40), {kDLROCM, 0}, rank, {TDSL_DL_FLOAT, 32, 1}, shape, strides, 0};
	DLTensor y = {(void *)(uintptr_t)(1ull << 45), {kDLROCM, 0}, row ? rank - 1 : rank, {TDSL_DL_FLOAT, 32, 1}, shape, of_output, 0};
	const union tdsl_arg args[] = {{.t = &x}, {.t = &y}};
	OK(tdsl_kernel_find(&k, pack, kernel));
	return tdsl_call(k, NULL, args, 2, NULL, 0);
}

#define SAYS(expected) ck_assert_msg(strstr(tdsl_error(), expected) != NULL, "%s", tdsl_error())

/* The size that the text names is within the limit, an extent made of it is not: half's x. */
START_TEST(extents_of_a_size_in_the_limit)
{
	tdsl_kernel k;
	int64_t n = (int64_t)1 << 30, of_x[] = {1, 2 * n - 65538}, of_y[] = {1, n - 32769};
	DLTensor x = {(void *)(uintptr_t)(1ull << 40), {kDLROCM, 0}, 2, {TDSL_DL_FLOAT, 32, 1}, of_x, NULL, 0}, y = x;
	const union tdsl_arg args[] = {{.t = &x}, {.t = &y}};
	y.data = (void *)(uintptr_t)(1ull << 45);
	y.shape = of_y;
	OK(tdsl_kernel_find(&k, pack, "half"));
	OK(tdsl_call(k, NULL, args, 2, NULL, 0));
	of_x[1] += 2, of_y[1]++;
	ck_assert_int_eq(tdsl_call(k, NULL, args, 2, NULL, 0), TDSL_ESHAPE);
	SAYS("half: argument 'x', dimension 1: extent 2147418112 is over 2^31 - 65537");
}
END_TEST

/* Rows that are too many for a grid are none where they are joined: a question about them before there is memory is answered as the call is. */
START_TEST(rows_that_fit_when_they_are_joined)
{
	tdsl_kernel k;
	int64_t shape[] = {1 << 26, 3}, padded[] = {4, 1};
	DLTensor x = {(void *)(uintptr_t)(1ull << 40), {kDLROCM, 0}, 2, {TDSL_DL_FLOAT, 32, 1}, shape, NULL, 0}, y = x;
	const union tdsl_arg args[] = {{.t = &x}, {.t = &y}};
	y.data = (void *)(uintptr_t)(1ull << 45);
	OK(tdsl_kernel_find(&k, pack, "plus"));
	OK(tdsl_call(k, NULL, args, 2, NULL, 0));
	x.strides = padded;
	ck_assert_int_eq(tdsl_call(k, NULL, args, 2, NULL, 0), TDSL_ESHAPE); /* not one run of memory */
	x.data = y.data = NULL;
	ck_assert_int_eq(tdsl_workspace(k, NULL, args, 2), TDSL_ESHAPE);
	x.strides = NULL;
	ck_assert_int_eq(tdsl_workspace(k, NULL, args, 2), 0);
}
END_TEST

START_TEST(strides_beyond_32_bits)
{
	int64_t shape[] = {64, 128}, far[] = {(int64_t)1 << 28, 1}, near[] = {1 << 20, 1};
	OK(call("twice", 2, shape, near, near));
	ck_assert_int_eq(call("twice", 2, shape, far, compact), TDSL_ESTRIDE);
	SAYS("twice: argument 'x', dimension 0: stride 268435456 is too large; this kernel follows strides of at most ");
	ck_assert_int_eq(call("twice", 2, shape, compact, far), TDSL_ESTRIDE);
	SAYS("twice: argument 'y', dimension 0: stride 268435456 is too large");
	OK(call("total", 2, shape, far, compact)); /* a row at a time: 64-bit addresses */
	int64_t more[] = {2, 64, 128}, strides[] = {(int64_t)64 << 28, (int64_t)1 << 28, 1};
	ck_assert_int_eq(call("twice", 3, more, strides, compact), TDSL_ESTRIDE);
	SAYS("twice: argument 'x', dimension 1: stride 268435456 is too large");
}
END_TEST

START_TEST(leading_dimensions_that_do_not_fold)
{
	int64_t shape[] = {4, 8, 128}, apart[] = {10 * 128, 128, 1}, one[] = {8 * 200, 200, 1}, rows[] = {100, 1};
	OK(call("twice", 3, shape, compact, compact));
	OK(call("twice", 3, shape, one, one));    /* of one stride */
	OK(call("total", 3, shape, one, compact));
	OK(call("total", 3, shape, apart, rows)); /* of two, in each tensor: a row at a time */
	ck_assert_int_eq(call("twice", 3, shape, apart, compact), TDSL_ESTRIDE);
	SAYS("twice: argument 'x': its leading dimensions do not fold into one stride (4 x stride 1280, then stride 128), which this kernel cannot follow");
}
END_TEST

int main(int argc, char **argv)
{
	if (argc > 0)
		library_set("TDSL_COMPILER", "libtdslc.so", argv[0]);
	Suite *s = suite_create("rt_strides");
	TCase *c = tcase_create("strides");
	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, extents_of_a_size_in_the_limit);
	tcase_add_test(c, rows_that_fit_when_they_are_joined);
	tcase_add_test(c, strides_beyond_32_bits);
	tcase_add_test(c, leading_dimensions_that_do_not_fold);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
