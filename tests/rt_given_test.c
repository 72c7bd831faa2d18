/* rt_given_test.c -- calls of kernels that no pack holds are compiled for exactly the optional tensors that they have, once each; to be asked for
 * an output's extents a kernel needs no code.  What calls will bring can be compiled ahead, and calls that the pack
 * serves take it.  On the simulated gfx942, results against sums made here.  libtdslc.so and libtdsl_sim.so lie in the folder
 * above this program. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../runtime/include/tdsl.h"
#include "rt_library.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())

enum { M = 3, N = 128 };
static const char text[] =
	"kernel shift[T: f32|bf16](x: T[M, N], w?: T[N], b?: T[N]) -> (y: T[M, N], s?: f32[M])\n"
	"{\n    each m in M {\n        n = 0..N\n        v = f32(x[m, n]) * f32(w[n]) + f32(b[n])\n        y[m, n] = T(v)\n        s[m] = sum(v over n)\n    }\n}\n"
	"kernel served[T: f32|bf16](x: T[M, N], w?: T[N], b?: T[N]) -> (y: T[M, N], s?: f32[M])\n"
	"{\n    each m in M {\n        n = 0..N\n        v = f32(x[m, n]) * f32(w[n]) + f32(b[n])\n        y[m, n] = T(v)\n        s[m] = sum(v over n)\n    }\n}\n"
	"kernel many_weights(x: f32[M, N], a: f32[N], b: f32[N], c: f32[N], d: f32[N], e: f32[N]) -> y: f32[M, N]\n"
	"{\n"
	"    each m in M {\n"
	"        n = 0..N\n"
	"        r = rsqrt(mean(x[m, n] * x[m, n] over n) + 1)\n"
	"        y[m, n] = (x[m, n] * r * a[n] + b[n]) * c[n] + d[n] * e[n]\n"
	"    }\n"
	"}\n"
	"pack {\n    shift: none\n    served: T f32, with b\n    many_weights: none\n}\n";
static float x[M * N], w[N], b[N], y[M * N], s[M];
static tdsl_pack pack;
static tdsl_kernel kernel;

static void setup(void)
{
	static const char *const targets[] = {"gfx942", NULL};
	tdsl_device d;
	setenv("TDSL_CACHE_DIR", "", 1);
	OK(tdsl_open(&d, "sim:gfx942"));
	OK(tdsl_compile(&pack, text, strlen(text), "t.tdsl", &(struct tdsl_compile_options){.targets = targets}));
	OK(tdsl_kernel_find(&kernel, pack, "shift"));
	for (int i = 0; i < M * N; i++)
		x[i] = (float)(i % 7 - 3);
	for (int i = 0; i < N; i++) {
		w[i] = (float)(i % 3);
		b[i] = (float)(i % 5);
	}
}

static void teardown(void) { tdsl_pack_close(pack); }

enum { W = 1, B = 2, S = 4 };

/* What tensors a call of the first `most` rows has, in `given`. */
static void call_of(tdsl_kernel k, int most, unsigned given, const char *variant)
{
	int64_t rows[] = {most, N}, row[] = {N}, sums[] = {most};
	const DLDataType f32 = {TDSL_DL_FLOAT, 32, 1};
	DLTensor tx = {x, {kDLCPU, 0}, 2, f32, rows, NULL, 0}, tw = {w, {kDLCPU, 0}, 1, f32, row, NULL, 0}, tb = {b, {kDLCPU, 0}, 1, f32, row, NULL, 0};
	DLTensor ty = {y, {kDLCPU, 0}, 2, f32, rows, NULL, 0}, ts = {s, {kDLCPU, 0}, 1, f32, sums, NULL, 0};
	const union tdsl_arg args[] = {{.t = &tx}, {.t = given & W ? &tw : NULL}, {.t = given & B ? &tb : NULL}, {.t = &ty}, {.t = given & S ? &ts : NULL}};
	struct tdsl_last last;
	OK(tdsl_call(k, NULL, args, 5, NULL, 0));
	OK(tdsl_last_call(&last));
	ck_assert_str_eq(last.predicate, variant);
	for (int m = 0; m < most; m++) {
		float sum = 0;
		for (int n = 0; n < N; n++) {
			float v = x[m * N + n] * (given & W ? w[n] : 0) + (given & B ? b[n] : 0);       /* small whole numbers: exact */
			ck_assert_msg(y[m * N + n] == v, "y[%d, %d] = %g, not %g", m, n, (double)y[m * N + n], (double)v);
			sum += v;
		}
		ck_assert_msg(!(given & S) || s[m] == sum, "s[%d] = %g, not %g", m, (double)s[m], (double)sum);
	}
}

static void call(unsigned given, const char *variant) { call_of(kernel, M, given, variant); }

static int64_t compiled(void)
{
	struct tdsl_counters c;
	OK(tdsl_counters(&c));
	return (int64_t)c.compiles;
}

START_TEST(each_set_has_code_of_its_own)
{
	static const struct { unsigned given; const char *variant; } calls[] = {
		{W | B | S, "N<=256 N%4=0 aligned with w b s"}, {B, "N<=1024 N%4=0 aligned with b"}, {W | S, "N<=256 N%4=0 aligned with w s"},
	};
	int64_t before = compiled();
	for (int again = 0; again < 2; again++)
		for (unsigned c = 0; c < sizeof calls / sizeof *calls; c++) {
			call(calls[c].given, calls[c].variant);
			ck_assert_int_eq(compiled() - before, again ? 3 : c + 1);
		}
}
END_TEST

/* Which optional outputs there will be is not known when an output is made room for. */
START_TEST(extents_need_no_code)
{
	int64_t rows[] = {M, N}, shape[8];
	DLTensor tx = {x, {kDLCPU, 0}, 2, {TDSL_DL_FLOAT, 32, 1}, rows, NULL, 0};
	const union tdsl_arg args[5] = {{.t = &tx}};
	DLDataType t;
	struct tdsl_counters c;
	ck_assert_int_eq(tdsl_output(&t, shape, kernel, NULL, args, 5, 3), 2);
	ck_assert(t.code == TDSL_DL_FLOAT && t.bits == 32 && shape[0] == M && shape[1] == N);
	OK(tdsl_counters(&c));
	ck_assert_uint_eq(c.jit_kernels, 0);
	call(W | B | S, "N<=256 N%4=0 aligned with w b s");
	ck_assert_int_eq(tdsl_output(&t, shape, kernel, NULL, args, 5, 4), 1);
	ck_assert(shape[0] == M);
	OK(tdsl_counters(&c));
	ck_assert_uint_eq(c.jit_kernels, 1);
	DLTensor ty = {y, {kDLCPU, 0}, 2, {TDSL_DL_FLOAT, 32, 1}, rows, NULL, 0};
	const union tdsl_arg all[5] = {{.t = &tx}, {NULL}, {NULL}, {.t = &ty}};
	ck_assert_int_eq(tdsl_workspace(kernel, NULL, all, 5), 0);
}
END_TEST

static void many_weights(void)
{
	static int64_t rows[] = {M, N}, row[] = {N};
	const DLDataType f32 = {TDSL_DL_FLOAT, 32, 1};
	enum { LONG = 2048 };
	static float long_x[M * LONG], long_y[M * LONG], weights[LONG];
	tdsl_kernel many;
	struct tdsl_last last;
	rows[1] = row[0] = LONG;
	OK(tdsl_kernel_find(&many, pack, "many_weights"));
	DLTensor tx = {long_x, {kDLCPU, 0}, 2, f32, rows, NULL, 0}, tw = {weights, {kDLCPU, 0}, 1, f32, row, NULL, 0}, ty = {long_y, {kDLCPU, 0}, 2, f32, rows, NULL, 0};
	const union tdsl_arg args[] = {{.t = &tx}, {.t = &tw}, {.t = &tw}, {.t = &tw}, {.t = &tw}, {.t = &tw}, {.t = &ty}};
	OK(tdsl_call(many, NULL, args, 7, NULL, 0));
	OK(tdsl_last_call(&last));
	ck_assert_str_eq(last.predicate, "N<=16384 N%4=0 aligned");
}

/* Registers do not suffice for the variant that a call would get: all are compiled, and what is built instead serves. */
START_TEST(another_variant_serves) { many_weights(); }
END_TEST

static int warm(const char *name, const char *given)
{
	return tdsl_warm_up(&(struct tdsl_warm){.pack = pack, .kernel = name, .instance = "T=f32", .given = given}, 1, 1);
}

/* Ahead of the calls, once each: they compile nothing, and others of that kernel take what asks for each tensor. */
START_TEST(what_calls_bring_is_compiled_ahead)
{
	int64_t before = compiled();
	for (int again = 0; again < 2; again++) {
		ck_assert_msg(warm("shift", " w  s w") == 1 && warm("shift", "") == 1, "%s", tdsl_error());
		ck_assert_int_eq(compiled() - before, 2);
	}
	call(W | S, "N<=256 N%4=0 aligned with w s");
	call(0, "N<=1024 N%4=0 aligned bare");
	call(B | S, "N<=16384 N%4=0 aligned");
	ck_assert_int_eq(compiled() - before, 2);
}
END_TEST

/* Calls that the pack serves take it in place of what asks for each tensor, not of what is for theirs; a shape's first choice stays. */
START_TEST(calls_that_are_served_take_it)
{
	tdsl_kernel served;
	OK(tdsl_kernel_find(&served, pack, "served"));
	call_of(served, 1, W | S, "N<=16384 N%4=0 aligned");
	ck_assert_msg(warm("served", "w s") == 1, "%s", tdsl_error());
	int64_t before = compiled();
	call_of(served, 1, W | S, "N<=16384 N%4=0 aligned");
	call_of(served, 2, W | S, "N<=256 N%4=0 aligned with w s");
	call_of(served, 2, W | B | S, "N<=16384 N%4=0 aligned");
	call_of(served, 2, B, "N<=1024 N%4=0 aligned with b");
	ck_assert_int_eq(compiled() - before, 0);
	setenv("TDSL_DISABLE", "served/N<=256 N%4=0 aligned with w s", 1);
	call_of(served, 3, W | S, "N<=1024 N%4=0 aligned with w s");
	unsetenv("TDSL_DISABLE");
}
END_TEST

/* What TDSL_TUNE names for a call stands. */
START_TEST(a_tuned_choice_stands)
{
	char path[64];
	static const char table[] = "tdsl tune 1\nserved\tT=f32\tgfx942\tM=3,N=128\tN<=16384 N%4=0 aligned\t0.1\n";
	tdsl_kernel served;
	snprintf(path, sizeof path, "/tmp/tdsl_given_%ld", (long)getpid());
	FILE *f = fopen(path, "w");
	ck_assert(f && fputs(table, f) >= 0 && fclose(f) == 0);
	OK(tdsl_kernel_find(&served, pack, "served"));
	ck_assert_msg(warm("served", "w s") == 1, "%s", tdsl_error());
	setenv("TDSL_TUNE", path, 1);
	call_of(served, 3, W | S, "N<=16384 N%4=0 aligned");
	call_of(served, 2, W | S, "N<=256 N%4=0 aligned with w s");
	unsetenv("TDSL_TUNE");
	remove(path);
}
END_TEST

/* A kernel that the pack block leaves out: of several instances one has to be named, of the only one nothing. */
START_TEST(what_is_left_out_is_compiled_too)
{
	int64_t before = compiled();
	ck_assert_int_eq(tdsl_warm_up(&(struct tdsl_warm){.pack = pack, .kernel = "shift"}, 1, 1), TDSL_EINVAL);
	ck_assert_msg(strstr(tdsl_error(), "shift: found no instance, where the pack block leaves the kernel out; expected one, such as T=f32") != NULL, "%s", tdsl_error());
	ck_assert_msg(warm("shift", NULL) == 1, "%s", tdsl_error());
	ck_assert_msg(tdsl_warm_up(&(struct tdsl_warm){.pack = pack, .kernel = "many_weights"}, 1, 1) == 1, "%s", tdsl_error());
	ck_assert_int_gt(compiled(), before);
	before = compiled();
	call(W | B | S, "N<=16384 N%4=0 aligned");
	many_weights();
	ck_assert_int_eq(compiled() - before, 0);
}
END_TEST

START_TEST(other_names_are_refused)
{
	static const struct { const char *given, *why; } wrong[] = {
		{"w q", "found 'q' among the tensors that calls will bring; expected some of w, b, s"},
		{"x", "found 'x' among the tensors that calls will bring; expected some of w, b, s"},
		{"w,b", "found 'w,b' among the tensors that calls will bring; expected some of w, b, s"},
	};
	for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		ck_assert_int_eq(warm("shift", wrong[i].given), TDSL_ECOMPILE);
		ck_assert_msg(strstr(tdsl_error(), wrong[i].why) != NULL, "%s", tdsl_error());
	}
	ck_assert_int_eq(tdsl_warm_up(&(struct tdsl_warm){.pack = pack, .kernel = "many_weights", .given = "a"}, 1, 1), TDSL_ECOMPILE);
	ck_assert_msg(strstr(tdsl_error(), "found 'a' among the tensors that calls will bring; expected none") != NULL, "%s", tdsl_error());
}
END_TEST

int main(int argc, char **argv)
{
	if (argc > 0) {
		library_set("TDSL_SIM_LIBRARY", "libtdsl_sim.so", argv[0]);
		library_set("TDSL_COMPILER", "libtdslc.so", argv[0]);
	}
	Suite *suite = suite_create("rt_given");
	TCase *c = tcase_create("given");
	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, each_set_has_code_of_its_own);
	tcase_add_test(c, extents_need_no_code);
	tcase_add_test(c, another_variant_serves);
	tcase_add_test(c, what_calls_bring_is_compiled_ahead);
	tcase_add_test(c, calls_that_are_served_take_it);
	tcase_add_test(c, a_tuned_choice_stands);
	tcase_add_test(c, what_is_left_out_is_compiled_too);
	tcase_add_test(c, other_names_are_refused);
	suite_add_tcase(suite, c);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
