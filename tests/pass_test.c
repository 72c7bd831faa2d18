/* pass_test.c -- every pass keeps what a kernel computes: the IR after each of them, evaluated, against the IR before all of them.
 *
 * In: kernels as IR text (tests/ir) and sizes that reach each kind of variant.  Passes may change the order of sums (pass.def says which),
 * so floats agree within a bound and codes within one step; a wrong mask, a lost element or a wrong rewrite is far beyond it.  Functions
 * without an instruction, against libm. */
#include "../compiler/compile.h"
#include "ir_help.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct case_sizes { const char *name; struct { const char *symbol; int64_t value; } sizes[8]; double bound; };

static const struct case_sizes cases[] = {
	{"rmsnorm_quant", {{"M", 2}, {"N", 4096}}, 1e-5},
	{"rmsnorm_quant", {{"M", 3}, {"N", 769}}, 1e-5},
	{"rmsnorm_quant", {{"M", 1}, {"N", 20000}}, 1e-5},
	{"by_rows", {{"M", 70}, {"N", 40}}, 0},
	{"by_rows", {{"M", 1}, {"N", 769}}, 0},
	{"gemm", {{"M", 40}, {"N", 136}, {"K", 72}}, 1e-4},
	{"gemm", {{"M", 17}, {"N", 33}, {"K", 65}}, 1e-4},
	{"attention", {{"B", 1}, {"H", 2}, {"G", 1}, {"S", 40}, {"T", 104}, {"D", 64}}, 5e-3},
};
enum { CASES = sizeof cases / sizeof *cases };

static size_t bytes_of(const struct ir_tensor *t) { return (size_t)dtype_bytes(t->dtype, ir_tensor_count(t)); }

static void evaluate(struct ir_run *r, const struct ir_kernel *k, const char *what)
{
	struct ir_eval e = {k, r->tensors, r->scalars, r->symbols, true};
	for (int p = 0; p < r->k->nparams; p++)
		if (r->k->params[p].is_tensor && r->k->params[p].role == IR_OUT)
			memset(r->tensors[p].data, 0xa5, bytes_of(&r->tensors[p]));
	ck_assert_msg(ir_evaluate(&e, r->err, sizeof r->err) == 0, "%s: %s", what, r->err);
}

static void compare(struct ir_run *r, double *const *want, double bound, const char *what)
{
	for (int p = 0; p < r->k->nparams; p++) {
		const struct ir_tensor *t = &r->tensors[p];
		for (int64_t i = 0; want[p] && i < ir_tensor_count(t); i++) {
			double a = ir_tensor_get(t, i), b = want[p][i];
			double step = t->dtype == DT_BF16 ? 0x1p-7 : dtype_info(t->dtype)->bits == 8 ? 0x1p-3 : 0;
			bool same = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= bound * (1 + fabs(b)) + step * fabs(b) + (step > 0x1p-7 ? 0x1p-9 : 0);
			ck_assert_msg(same, "%s: %s[%lld] is %g, before it was %g", what, r->k->params[p].name, (long long)i, a, b);
		}
	}
}

/* Symbols' part of a predicate; tensors here are aligned, dense and present. */
static int64_t leaf(void *ctx, enum hexpr_op op, int64_t imm)
{
	(void)ctx;
	(void)op;
	(void)imm;
	return 1;
}

static int run_variant(struct ir_run *r, const struct variant *v, double *const *want, double bound, const char *name)
{
	int stages = 0;
	for (const char *const *pass = pass_names(); *pass; pass++, stages++) {
		struct arena scratch = {0};
		struct ir_kernel *k;
		char what[200];
		snprintf(what, sizeof what, "%s, variant %s, after pass %s", name, v->text, *pass);
		ck_assert_msg(run_passes(&scratch, r->k, v, *pass, &k, r->err, sizeof r->err) == 0, "%s: %s", what, r->err);
		evaluate(r, k, what);
		compare(r, want, bound, what);
		arena_free(&scratch);
	}
	return stages;
}

START_TEST(each_pass_keeps_the_results)
{
	const struct case_sizes *c = &cases[_i];
	struct ir_run r;
	struct dsl_kernel text = {0};
	struct variant *v;
	double *want[16] = {0};
	int n, stages = 0;
	ir_run_open(&r, c->name);
	for (int p = 0; p < r.k->nphases; p++)
		for (int a = 0; a < r.k->phases[p].naxes; a++)
			r.k->phases[p].axes[a].tile = 0;
	for (int s = 0; c->sizes[s].symbol; s++)
		ir_run_symbol(&r, c->sizes[s].symbol, c->sizes[s].value);
	for (int p = 0; p < r.k->nparams; p++)
		if (r.k->params[p].is_tensor)
			ir_run_tensor(&r, r.k->params[p].name, 2);
		else if (r.scalars[p] == 0)
			r.scalars[p] = 0.125;
	evaluate(&r, r.k, c->name);
	for (int p = 0; p < r.k->nparams; p++)
		if (r.k->params[p].is_tensor && r.k->params[p].role == IR_OUT) {
			want[p] = malloc(sizeof *want[p] * (size_t)(ir_tensor_count(&r.tensors[p]) + 1));
			for (int64_t i = 0; i < ir_tensor_count(&r.tensors[p]); i++)
				want[p][i] = ir_tensor_get(&r.tensors[p], i);
		}
	r.k->target = "gfx950";
	ck_assert_msg(plan_variants(&r.arena, r.k, &text, NULL, target_by_name("gfx950"), &v, &n, r.err, sizeof r.err) == 0, "%s", r.err);
	for (int i = 0; i < n; i++) {
		struct hexpr_env env = {r.symbols, r.k->nsymbols, leaf, NULL};
		const char *why;
		int64_t holds = 1;
		if (v[i].predicate)
			ck_assert_int_eq(hexpr_eval(v[i].predicate, &env, &holds, &why), 0);
		if (holds)
			stages += run_variant(&r, &v[i], want, c->bound, c->name);
	}
	ck_assert_int_gt(stages, 5);
	for (int p = 0; p < 16; p++)
		free(want[p]);
	ir_run_close(&r);
}
END_TEST

static double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }

/* What pass_math makes of a function against libm in f64: relative error where the result is not below `small`, else absolute beside it.  Of those whose
 * small results may err more, the large ones by themselves. */
static const struct { const char *out; double (*f)(double); double bound, small; } functions[] = {
	{"erf_x", erf, 3e-7, 0}, {"erfc_x", erfc, 3e-6, 1.5e-8}, {"erfc_x", erfc, 4.5e-7, 0.15}, {"normcdf_x", normcdf, 4e-6, 7.5e-9}, {"normcdf_x", normcdf, 4e-7, 0.15},
	{"tanh_x", tanh, 4e-7, 0}, {"exp_x", exp, 2e-6, 0}, {"log_x", log, 4e-7, 0.25},
};

START_TEST(functions_are_near)
{
	enum { N = 20001 };
	struct ir_run r;
	struct ir_kernel *k;
	struct arena scratch = {0};
	struct variant v = {.target = target_by_name("gfx950"), .text = "any"};
	ir_run_open(&r, "functions");
	ir_run_symbol(&r, "N", N);
	for (int p = 0; p < r.k->nparams; p++)
		ir_run_tensor(&r, r.k->params[p].name, 0);
	struct ir_tensor *x = ir_run_find(&r, "x");
	for (int i = 0; i < N; i++)
		ir_tensor_set(x, i, i < N - 6 ? (i - N / 2) * 1e-3 : (double[]){1e10, -1e10, 1e-20, INFINITY, -INFINITY, NAN}[i - (N - 6)]);
	ck_assert_msg(run_passes(&scratch, r.k, &v, "math", &k, r.err, sizeof r.err) == 0, "%s", r.err);
	evaluate(&r, k, "functions");
	for (unsigned f = 0; f < sizeof functions / sizeof *functions; f++)
		for (int i = 0; i < N; i++) {
			double at = ir_tensor_get(x, i), y = functions[f].f(functions[f].f == log ? fabs(at) : at), got = ir_tensor_get(ir_run_find(&r, functions[f].out), i);
			double from = fmax(fabs(y), functions[f].small);
			ck_assert_msg(got == (float)y || (isnan(got) && isnan(y)) || fabs(got - y) <= functions[f].bound * from, "%s of %g is %.9g, found %.9g", functions[f].out, at, y, got);
		}
	arena_free(&scratch);
	ir_run_close(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("passes");
	TCase *t = tcase_create("results");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, each_pass_keeps_the_results, 0, CASES);
	tcase_add_test(t, functions_are_near);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
