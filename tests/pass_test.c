/* pass_test.c -- every pass keeps what a kernel computes: the IR after each of them, evaluated, against the IR before all of them.
 *
 * In: kernels as IR text (tests/ir) and sizes that reach each kind of variant.  Passes may change the order of sums (pass.def says which),
 * so floats agree within a bound and codes within one step; a wrong mask, a lost element or a wrong rewrite is far beyond it.  Functions
 * without an instruction, against libm, and which of them are shortened.  What single passes are to make of a kernel, and where they are to
 * leave it: conditions on data asked once, masked sums of products, masks that nothing needs, loads and stores that change places. */
#include "../compiler/compile.h"
#include "pass_help.h"

#include <check.h>
#include <float.h>
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
	{"ratios", {{"M", 2}, {"N", 769}}, 1e-5},
	{"weighed", {{"M", 3}, {"N", 769}}, 1e-2},
	{"centred", {{"M", 3}, {"N", 776}}, 1e-5},
	{"centred", {{"M", 2}, {"N", 769}}, 1e-5},
	{"turned", {{"M", 70}, {"N", 200}}, 0},
	{"turned_twice", {{"M", 70}, {"N", 200}}, 0},
	{"attention", {{"B", 1}, {"H", 2}, {"G", 1}, {"S", 40}, {"T", 104}, {"D", 64}}, 5e-3},
};
enum { CASES = sizeof cases / sizeof *cases };

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
		pass_evaluate(r, k, what);
		pass_compare(r, want, bound, what);
		arena_free(&scratch);
	}
	return stages;
}

/* text: the schedule; refused: what the plan says of it, behind its place. */
static void check_results(const struct case_sizes *c, const struct dsl_kernel *text, const char *chip, const char *refused)
{
	struct ir_run r;
	struct variant *v;
	double *want[PASS_PARAMS] = {0};
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
	pass_evaluate(&r, r.k, c->name);
	pass_keep(&r, want);
	r.k->target = chip;
	struct diag diag = {.arena = &r.arena};
	ck_assert(plan_takes_schedule(r.k, text, target_by_name(chip), &diag) == !refused);
	ck_assert_msg(!refused || strstr(diag_text(&diag), refused), "found %s, expected %s", diag_text(&diag), refused);
	int rc = refused ? 0 : plan_variants(&r.arena, r.k, text, NULL, target_by_name(chip), &v, &n, r.err, sizeof r.err);
	ck_assert_msg(rc == 0, "%s", r.err);
	for (int i = 0; i < n && !refused; i++) {
		struct hexpr_env env = {r.symbols, r.k->nsymbols, leaf, NULL};
		const char *why;
		int64_t holds = 1;
		if (v[i].predicate)
			ck_assert_int_eq(hexpr_eval(v[i].predicate, &env, &holds, &why), 0);
		if (holds)
			stages += run_variant(&r, &v[i], want, c->bound, c->name);
	}
	ck_assert(refused || stages > 5);
	pass_forget(want);
	ir_run_close(&r);
}

START_TEST(each_pass_keeps_the_results) { check_results(&cases[_i], &(struct dsl_kernel){.name = cases[_i].name}, "gfx950", NULL); }
END_TEST

/* What a schedule asks of products is taken, or refused where it stands: tiles are whole in instructions, waves halve them. */
static const struct { struct case_sizes of; const char *chip, *knob; int value; const char *refused; } knobs[] = {
	{{"gemm", {{"M", 40}, {"N", 136}, {"K", 72}}, 1e-4}, "gfx942", "waves", 8, NULL},
	{{"gemm", {{"M", 40}, {"N", 136}, {"K", 72}}, 1e-4}, "gfx942", "m", 48, NULL},
	{{"gemm", {{"M", 40}, {"N", 136}, {"K", 72}}, 1e-4}, "sm_90a", "k", 48, NULL},
	{{"attention", {{"B", 1}, {"H", 2}, {"G", 1}, {"S", 40}, {"T", 104}, {"D", 64}}, 5e-3}, "gfx950", "i", 32, NULL},
	{{"attention", {{"B", 1}, {"H", 2}, {"G", 1}, {"S", 40}, {"T", 104}, {"D", 64}}, 5e-3}, "gfx942", "i", 48, NULL},
	{{"gemm", {{"M", 4}, {"N", 8}, {"K", 8}}, 0}, "gfx950", "waves", 3, ":7:9: error: waves 3 cannot take the products of gemm on gfx950; expected a power of two up to 16"},
	{{"gemm", {{"M", 4}, {"N", 8}, {"K", 8}}, 0}, "sm_90a", "waves", 6, "a power of two up to 32"},
	{{"gemm", {{"M", 4}, {"N", 8}, {"K", 8}}, 0}, "gfx942", "waves", 2048, "a workgroup has at most 1024 lanes"},
	{{"gemm", {{"M", 4}, {"N", 8}, {"K", 8}}, 0}, "gfx942", "m", 1, ":7:9: error: m 1 cannot be the tile of the dot in line"},
	{{"gemm", {{"M", 4}, {"N", 8}, {"K", 8}}, 0}, "gfx950", "k", 48, "expected a multiple of 32"},
	{{"attention", {{"B", 1}, {"H", 2}, {"G", 1}, {"S", 4}, {"T", 8}, {"D", 64}}, 0}, "gfx942", "i", 8, "expected a multiple of 16"},
};
enum { KNOBS = sizeof knobs / sizeof *knobs };

START_TEST(schedules_of_products_are_taken_or_refused)
{
	struct dsl_knob knob = {knobs[_i].knob, knobs[_i].value, true, {0, 7, 9, 1}};
	struct dsl_schedule line = {"", &knob, 1};
	check_results(&knobs[_i].of, &(struct dsl_kernel){.name = knobs[_i].of.name, .schedules = &line, .nschedules = 1}, knobs[_i].chip, knobs[_i].refused);
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
	pass_evaluate(&r, k, "functions");
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

/* Products of normcdf that are kept in 16 bits or fewer get a polynomial of seven steps, others one of ten. */
static const struct rounding_case { const char *what; struct pass_edit edits[2]; int steps; } roundings[] = {
	{"a product", {{0}}, 7},
	{"itself", {{"%6 = mul %4, %5", "%6 = abs %5"}}, 7},
	{"a product, clamped, in 8 bits", {{"out y: bf16", "out y: e4m3"}, {"%7 = cvt %6 : bf16", "%9 = min %6, %4 : f32[n]\n    %7 = cvt sat %9 : e4m3"}}, 7},
	{"selected", {{"%7 = cvt %6", "%8 = lt %4, %4 : i1[n]\n    %9 = select %8, %4, %6 : f32[n]\n    %7 = cvt %9"}}, 7},
	{"in 32 bits too", {{"store z[%1] = %4", "store z[%1] = %6"}}, 10},
	{"in 32 bits, computed from", {{"store z[%1] = %4", "%8 = neg %5 : f32[n]\n    store z[%1] = %8"}}, 10},
	{"an integer of 32 bits", {{"store z[%1] = %4", "%8 = cvt %6 : i32[n]\n    %9 = cvt %8 : f32[n]\n    store z[%1] = %9"}}, 10},
	{"added", {{"%6 = mul", "%6 = add"}}, 10},
	{"compared", {{"%7 = cvt %6", "%8 = lt %4, %5 : i1[n]\n    %9 = select %8, %4, %6 : f32[n]\n    %7 = cvt %9"}}, 10},
	{"reduced", {{"store z[%1] = %4", "%8 = reduce max over n %6 if %3 : f32\n    %9 = mul %4, %8 : f32[n]\n    store z[%1] = %9"}}, 10},
	{"an exponent", {{"%7 = cvt %6", "%8 = exp2 %6 : f32[n]\n    %7 = cvt %8"}}, 10},
};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

/* --- conditions on data ------------------------------------------------------------------------------------------------------ */

#define AMAX "    %13 = abs %11 : f32[m.o, m, n]\n    %14 = const 0 : i32\n    update max amax[%14] = %13 if %10\n"

/* once, inside: tensors that are asked in front of everything else, of a whole tile too (branches: 2), and at accesses behind that; NULL = none. */
static const struct guard_case {
	const char *what, *ir, *target; bool few;
	struct pass_edit edits[2];
	const char *once, *inside; int branches;
} guards[] = {
	{"rows", "masked", "gfx942", false, {{0}}, "tokens", NULL, 1},
	{"many rows", "masked", "sm_90a", false, {{0}}, "tokens", NULL, 1},
	{"few rows", "masked", "sm_90a", true, {{0}}, NULL, NULL, 0},
	{"one of two conditions", "masked", "gfx942", false, {{"%13 if %7\n", "%13 if %4\n"}}, "tokens", "least", 1},
	{"a store that does not ask", "masked", "gfx942", false, {{"%13 if %7\n", "%13\n"}}, NULL, NULL, 0},
	{"several rows of a workgroup", "masked", "gfx942", false, {{"m grid tile 1", "m grid tile 4"}}, "tokens", "least", 2},
	{"every second row", "masked", "sm_90a", false, {{"m grid tile 1", "m grid tile 4"}, {"%4 = lt %1, %3", "%15 = const 2 : i32\n    %16 = mul %1, %15 : i32[m]\n    %4 = lt %16, %3"}}, "tokens", "least", 2},
	{"a load of every second row", "masked", "gfx942", false, {{"m grid tile 1", "m grid tile 4"}, {"    %11 = load x[%0, %1, %2] if %10",
	  "    %15 = const 2 : i32\n    %16 = mul %1, %15 : i32[m]\n    %17 = lt %16, %3 : i1[e, m]\n    %18 = and %10, %17 : i1[e, m, n]\n    %11 = load x[%0, %1, %2] if %18"}}, NULL, "tokens", 2},
	{"a store of more columns the further down", "masked", "gfx942", false, {{"m grid tile 1", "m grid tile 4"}, {"    store y[%0, %1, %2] = %14 if %10\n    store top[%0, %1] = %13 if %7\n",
	  "    store top[%0, %1] = %13 if %7\n    %15 = sub %1, %2 : i32[m, n]\n    %16 = lt %15, %3 : i1[e, m, n]\n    %17 = and %16, %9 : i1[e, m, n]\n    store y[%0, %1, %2] = %14 if %17\n"}}, NULL, NULL, 0},
	{"rows from the last", "masked", "gfx942", false, {{"m grid tile 1", "m grid tile 4"}, {"%4 = lt %1, %3", "%15 = const 7 : i32\n    %16 = sub %15, %1 : i32[m]\n    %4 = lt %16, %3"}}, NULL, NULL, 0},
	{"a row that is there by itself", "masked", "gfx942", false, {{"m grid tile 1", "m grid tile 4"}, {"%4 = lt %1, %3", "%4 = eq %1, %3"}}, NULL, NULL, 0},
	{"tokens may be written", "masked", "gfx942", false, {{"in tokens", "inout tokens"}}, NULL, NULL, 0},
	{"no data", "masked", "gfx942", false, {{"load tokens[%0] : i32[e]", "add %0, %0 : i32[e]"}, {"load least[%0] : i32[e]", "mul %0, %0 : i32[e]"}}, NULL, NULL, 0},
	{"one for all", "masked", "gfx942", false, {{"    %3 = load tokens[%0] : i32[e]\n    %4 = lt %1, %3 : i1[e, m]\n",
	  "    %15 = const 0 : i32\n    %16 = load tokens[%15] : i32\n    %4 = lt %15, %16 : i1\n"}, {"load least[%0] : i32[e]", "add %0, %0 : i32[e]"}}, "tokens", NULL, 1},
	{"made in a branch", "masked", "gfx942", false, {{"    %3 = load", "    %15 = sym M : i32\n    %16 = sym N : i32\n    %17 = lt %15, %16 : i1\n    %18 = if %17 {\n    %3 = load"},
	  {"    yield\n", "    yield\n    } else {\n    yield\n    }\n    yield\n"}}, NULL, NULL, 0},
	{"products", "gemm", "gfx942", false, {{"  in b: bf16[N, K]\n", "  in b: bf16[N, K]\n  in go: i32[M]\n"},
	  {"%20 = and %5, %6 : i1[m, n]\n", "%21 = load go[%7] : i32\n    %22 = lt %7, %21 : i1\n    %23 = and %5, %6 : i1[m, n]\n    %20 = and %22, %23 : i1[m, n]\n"}}, NULL, NULL, 0},
	{"groups of rows that are summed", "column_sums", "gfx942", false, {{AMAX, ""}}, NULL, NULL, 1},
	{"rows that update something as well", "column_sums", "gfx942", false, {{0}}, NULL, NULL, 0},
	{"what all groups have in common stored as well", "column_sums", "gfx942", false, {{AMAX, "    %13 = const 0 : i32\n    store amax[%13] = %8\n"}, {"inout amax: f32[1]", "out amax: i32[1]"}}, NULL, NULL, 0},
	{"few rows that are summed", "column_sums", "sm_90a", true, {{AMAX, ""}}, NULL, NULL, 0},
};
enum { GUARDS = sizeof guards / sizeof *guards };

static void count_steps(struct ir_ins *i, void *n) { *(int *)n += i->op == IR_FMA; }

/* Where the short polynomial stands in, the bf16 nearest to the product is met but for a few, which lie within 2e-5 of the middle of two. */
START_TEST(rounded_functions_are_short)
{
	enum { N = 20001 };
	const struct rounding_case *c = &roundings[_i];
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	struct variant v = {.target = target_by_name("gfx950"), .text = "any"};
	int steps = 0, off = 0;
	pass_open_edited(&a, &r, "rounded", c->edits);
	ck_assert_msg(run_passes(&a, r.k, &v, "math", &k, r.err, sizeof r.err) == 0, "%s: %s", c->what, r.err);
	ir_walk(k->phases[0].body, count_steps, &steps);
	ck_assert_msg(steps == c->steps, "%s: %d steps", c->what, steps);
	if (_i == 0) {
		ir_run_symbol(&r, "N", N);
		for (int p = 0; p < r.k->nparams; p++)
			ir_run_tensor(&r, r.k->params[p].name, 0);
		for (int i = 0; i < N; i++)
			ir_tensor_set(ir_run_find(&r, "x"), i, i < N - 3 ? (float)((i - N / 2) * 7e-4) : (double[]){INFINITY, 1e30, NAN}[i - (N - 3)]);
		pass_evaluate(&r, k, c->what);
		for (int i = 0; i < N; i++) {
			double x = ir_tensor_get(ir_run_find(&r, "x"), i), y = x * normcdf(x), got = ir_tensor_get(ir_run_find(&r, "y"), i);
			double half = y != 0 && isfinite(y) ? ldexp(0.5, ilogb(y) - 7) : 0;
			bool same = got == y || (isnan(got) && isnan(y)) || fabs(got - y) <= half;
			ck_assert_msg(same || fabs(got - y) <= half + 2e-5 * fabs(y), "of %.9g is %.9g, found %.9g", x, y, got);
			off += !same;
		}
		ck_assert_msg(off < N / 100, "%d of %d", off, N);
	}
	arena_free(&a);
	ir_run_close(&r);
}
END_TEST

static bool asks(const struct ir_kernel *k, const struct ir_ins *i, const char *tensor)
{
	bool yes = i->op == IR_LOAD && strcmp(k->params[i->imm].name, tensor) == 0;
	for (int a = 0; a < i->nargs; a++)
		yes = yes || asks(k, i->args[a], tensor);
	return yes;
}

struct shape { const struct ir_kernel *k; const struct guard_case *c; int branches, stores_in_front, once, inside; };

/* It stands where a condition does not hold: of a tile that is not there as a whole. */
static bool is_other(const struct ir_ins *i)
{
	for (const struct ir_block *b = i->block; b->owner; b = b->owner->block)
		if (b == b->owner->other)
			return true;
	return false;
}

static void note_shape(struct ir_ins *i, void *ctx)
{
	struct shape *s = ctx;
	const struct ir_ins *mask = i->flags & IR_MASKED ? i->args[i->nargs - 1] : NULL;
	s->branches += i->op == IR_IF;
	s->stores_in_front += i->op == IR_STORE && !i->block->owner;
	s->once += mask && s->c->once && !is_other(i) && asks(s->k, mask, s->c->once);
	s->inside += mask && s->c->inside && asks(s->k, mask, s->c->inside);
}

static struct shape shape_after(struct arena *a, struct ir_run *r, const struct variant *v, const struct guard_case *c, const char *pass, struct ir_kernel **k)
{
	ck_assert_msg(run_passes(a, r->k, v, pass, k, r->err, sizeof r->err) == 0, "%s: %s", c->what, r->err);
	struct shape s = {.k = *k, .c = c};
	ir_walk((*k)->phases[0].body, note_shape, &s);
	return s;
}

START_TEST(conditions_are_asked_once)
{
	/* Of 8 rows: none, some, all, more than there are, none of what is left, below none. */
	static const int tokens[] = {0, 2, 8, 11, 3, -1}, least[] = {0, 0, 0, 1, 3, 0};
	enum { EXPERTS = sizeof tokens / sizeof *tokens };
	const struct guard_case *c = &guards[_i];
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	struct variant v = {.target = target_by_name(c->target), .text = "any", .waves = 1, .few = c->few, .aligned = true};
	double *want[PASS_PARAMS] = {0};
	pass_open_edited(&a, &r, c->ir, c->edits);
	r.k->target = c->target;
	const struct { const char *symbol; int value; } sizes[] = {{"E", EXPERTS}, {"M", strcmp(c->ir, "column_sums") ? 8 : 21}, {"N", c->branches > 1 ? 16 : 13}, {"K", 40}};     /* some tiles are there as a whole */
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		ir_run_symbol(&r, sizes[i].symbol, sizes[i].value);
	for (int p = 0; p < r.k->nparams; p++)
		ir_run_tensor(&r, r.k->params[p].name, 2);
	for (int e = 0; e < EXPERTS && strcmp(c->ir, "masked") == 0; e++) {
		ir_tensor_set(ir_run_find(&r, "tokens"), e, tokens[e]);
		ir_tensor_set(ir_run_find(&r, "least"), e, least[e]);
	}
	struct shape before = shape_after(&a, &r, &v, c, "stream", &k);
	pass_evaluate(&r, k, c->what);
	pass_keep(&r, want);
	struct shape s = shape_after(&a, &r, &v, c, "guard", &k);
	ck_assert_msg(s.branches - before.branches == c->branches, "%s: %d branches more", c->what, s.branches - before.branches);
	ck_assert_msg(!c->once || (before.once && !s.stores_in_front && !s.once), "%s: %d stores in front, %d masks of %d still ask %s", c->what,
	              s.stores_in_front, s.once, before.once, c->once);
	ck_assert_msg(!c->inside || s.inside, "%s: no mask asks %s any more", c->what, c->inside);
	pass_evaluate(&r, k, c->what);
	pass_compare(&r, want, 0, c->what);
	if (strcmp(c->ir, "masked") == 0) {              /* maxima, in whatever order */
		shape_after(&a, &r, &v, c, NULL, &k);
		pass_evaluate(&r, k, c->what);
		pass_compare(&r, want, 0, c->what);
	}
	pass_forget(want);
	ir_run_close(&r);
	arena_free(&a);
}
END_TEST

/* --- sums of products -------------------------------------------------------------------------------------------------------- */

struct sums { int all, fused; };

static void note_sum(struct ir_ins *i, void *ctx)
{
	struct sums *s = ctx;
	if (i->op != IR_REDUCE || i->kind != RED_SUM)
		return;
	s->all++;
	s->fused += (i->flags & IR_PRODUCT) && (i->flags & IR_MASKED) && i->nargs == 3 && i->args[0]->dtype == DT_F32 && i->args[1]->dtype == DT_F32 &&
	            i->args[2]->dtype == DT_I1;
}

/* Opens kernel `name` of tests/ir and runs the passes up to `until` (NULL = all) for a variant, whose target it is for; `note` of every
 * instruction of its first phase.  Closes both again. */
START_TEST(masked_products_are_summed_by_fma)
{
	struct sums s = {0};
	struct variant v = {.target = target_by_name("gfx942"), .text = "any", .waves = 1, .tiles = {{-1, "n", 1024}}, .ntiles = 1};
	pass_look_after("ratios", &v, "reduce", note_sum, &s);
	ck_assert_int_eq(s.all, 2);
	ck_assert_int_eq(s.fused, 2);
}
END_TEST

struct masks { int reduced, selected, branches; };

static void note_mask(struct ir_ins *i, void *ctx)
{
	struct masks *m = ctx;
	m->reduced += i->op == IR_REDUCE && (i->flags & IR_MASKED);
	m->selected += i->op == IR_SELECT;
	m->branches += i->op == IR_IF;
}

/* What is one for a row is zero where the row has ended, by a select for elements that have their mask in common: then what is made of it needs no
 * mask.  Not of elements that have one each, nor where the condition is another than that the row goes on; of a fixed size that whole registers
 * make up it is known which are needed; of a maximum only where a row has elements at all; and what is absent has to be zero: e8m0's code 0 is not. */
static const struct { const char *why, *target; int multiple, most, reduced, selected; bool other, fixed; const char *type; } maskings[] = {
	{"groups of 8", "gfx942", 8, 1024, 0, 2, false, false, NULL}, {"groups of 8", "sm_90a", 8, 1024, 0, 2, false, false, NULL},
	{"single elements", "gfx942", 1, 1024, 2, 0, false, false, NULL}, {"pairs", "gfx942", 2, 1024, 2, 0, false, false, NULL},
	{"columns below 96", "gfx942", 8, 1024, 2, 0, true, false, NULL},
	{"perhaps no element", "gfx942", 8, 0, 1, 1, false, false, NULL},
	{"a fixed size", "gfx942", 1, 0, 0, 2, false, true, NULL}, {"a fixed size of whole registers", "sm_90a", 1, 0, 2, 0, false, true, NULL},
	{"scales, which are not zero where they are absent", "gfx942", 8, 1024, 3, 0, false, false, "e8m0"},
};
enum { MASKINGS = sizeof maskings / sizeof *maskings, FIXED = 1536 };

START_TEST(masks_are_of_what_is_one_for_all)
{
	struct masks m = {0};
	struct arena a = {0};
	struct variant v = {.target = target_by_name(maskings[_i].target), .text = "any", .waves = 4, .tiles = {{-1, "n", 2048}}, .ntiles = 1};
	char *text = ir_help_file(&a, "tests/ir/centred.ir"), *at = strstr(text, "lt %1, %2");
	if (maskings[_i].other)
		text = arena_printf(&a, "%.*s%%21 = const 96 : i32\n    %%3 = lt %%1, %%21%s", (int)(at - text) - 5, text, at + 9);
	for (const char *type = maskings[_i].type; type && ((at = strstr(text, "bf16[M, N]")) || (at = strstr(text, "bf16[m, n]")));)
		text = arena_printf(&a, "%.*s%s%s", (int)(at - text), text, type, at + 4);
	if (maskings[_i].multiple > 1)
		v.multiples[v.nmultiples++].symbol = 1, v.multiples[0].multiple = maskings[_i].multiple;
	if (maskings[_i].most)
		v.limits[v.nlimits++].symbol = 1, v.limits[0].least = 1, v.limits[0].most = maskings[_i].most;
	if (maskings[_i].fixed)
		v.pins[v.npins++].symbol = 1, v.pins[0].value = FIXED;
	pass_look_after(text, &v, "absent", note_mask, &m);
	ck_assert_msg(m.reduced == maskings[_i].reduced && m.selected == maskings[_i].selected, "%s, %s: %d reductions under a mask, %d selects",
	              maskings[_i].why, maskings[_i].target, m.reduced, m.selected);
	arena_free(&a);
}
END_TEST

/* --- blocks that are there as their rows are ---------------------------------------------------------------------------------- */

struct bounds { int rows, blocks; };

static void note_bound(struct ir_ins *i, void *ctx)
{
	struct bounds *b = ctx;
	b->rows += i->op == IR_LT && i->args[0]->op != IR_DIV && (i->args[0]->axes & IR_AXIS(0));
	b->blocks += i->op == IR_LT && i->args[0]->op == IR_DIV;
}

/* Whether a block of 4 rows is there is asked where its row is not asked for, and where it is another block, of another number of rows, or of rows that
 * may lie in front of the first. */
static const struct { const char *what; struct pass_edit edits[2]; struct bounds left; } blockings[] = {
	{"one row", {{0}}, {0, 0}},
	{"several rows", {{"m grid tile 1", "m grid tile 4"}}, {1, 0}},
	{"in the other order", {{"m grid tile 1", "m grid tile 4"}, {"and %2, %13", "and %13, %2"}}, {1, 0}},
	{"with what else is asked", {{"m grid tile 1", "m grid tile 4"}, {"%15 = load scale[%9] if %14 : f32[m]", "%17 = and %6, %13 : i1[m, n]\n    %15 = load scale[%9] if %17 : f32[m, n]"}}, {1, 0}},
	{"blocks alone", {{"m grid tile 1", "m grid tile 4"}, {"and %2, %13", "and %13, %13"}}, {1, 1}},
	{"either", {{"m grid tile 1", "m grid tile 4"}, {"and %2, %13", "or %2, %13"}}, {1, 1}},
	{"not the block", {{"m grid tile 1", "m grid tile 4"}, {"%14 = and %2, %13 : i1[m]", "%20 = not %13 : i1[m]\n    %14 = and %2, %20 : i1[m]"}}, {1, 1}},
	{"fewer blocks", {{"m grid tile 1", "m grid tile 4"}, {"%10 = const 3", "%10 = const 2"}}, {1, 1}},
	{"blocks of 2 of which there are as many as of 4", {{"m grid tile 1", "m grid tile 4"}, {"%9 = div %0, %8 : i32[m]", "%18 = const 2 : i32\n    %9 = div %0, %18 : i32[m]"}}, {1, 1}},
	{"rows in front", {{"m grid tile 1", "m grid tile 4"}, {"%13 = lt %9, %12", "%18 = sub %0, %8 : i32[m]\n    %19 = div %18, %8 : i32[m]\n    %13 = lt %19, %12"}}, {1, 1}},
};
enum { BLOCKINGS = sizeof blockings / sizeof *blockings };

START_TEST(blocks_are_there_where_their_rows_are)
{
	struct bounds b = {0};
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	struct variant v = {.target = target_by_name("gfx942"), .text = "any", .waves = 1};
	double *want[PASS_PARAMS] = {0};
	pass_begin_edited(&a, &r, "blocks", blockings[_i].edits, blockings[_i].what, want);
	ck_assert_msg(run_passes(&a, r.k, &v, "simplify", &k, r.err, sizeof r.err) == 0, "%s: %s", blockings[_i].what, r.err);
	ir_walk(k->phases[0].body, note_bound, &b);
	ck_assert_msg(b.rows == blockings[_i].left.rows && b.blocks == blockings[_i].left.blocks, "%s: rows asked for %d times, blocks %d", blockings[_i].what, b.rows,
	              b.blocks);
	pass_end_edited(&a, &r, k, blockings[_i].what, want);
}
END_TEST

/* --- loops that load and add ---------------------------------------------------------------------------------------------------- */

static void note_load(struct ir_ins *i, void *ctx)
{
	*(int *)ctx += i->op == IR_LOAD && i->block->owner && i->block->owner->op == IR_FOR;
}

/* A lane has at once as many loads as 32 registers take, of one column or of four, and 64 instructions at most: of five here.  A loop stays as it is where
 * it loads by what it carries, stores, begins elsewhere, or takes its positions as a tile. */
static const struct { const char *what; struct pass_edit edits[2]; int loads; } loops[] = {
	{"two tensors", {{0}}, 24},
	{"one tensor", {{"%12 = load w[%10] : f32", "%12 = const 3 : f32"}, {"mul %11, %12", "neg %11"}}, 16},
	{"four columns a lane", {{"n grid tile 64", "n grid tile 256"}}, 6},
	{"a lane's registers are full", {{"n grid tile 64", "n grid tile 2048"}}, 2},
	{"begins at 1", {{"%4 = const 0", "%4 = const 1"}}, 2},
	{"stores", {{"yield %14", "store top[%0] = %14 if %2\n      yield %14"}}, 2},
	{"loads by what it carries", {{"%12 = load w[%10] : f32", "%18 = cvt %7 : i32[n]\n      %19 = const 0 : i32\n      %20 = mul %18, %19 : i32[n]\n      %12 = load w[%20] if %2 : f32[n]"}}, 2},
	{"is of tiles", {{"%11 = load x[%10, %0] if %2 : f32[n]", "%18 = load x[%9, %0] if %2 : f32[n, k]\n      %11 = reduce sum anyorder over k %18 : f32[n]"}}, 2},
};
enum { LOOPS = sizeof loops / sizeof *loops };

START_TEST(loops_take_several_positions)
{
	static const int ends[] = {0, 1, 15, 16, 17, 33};
	for (unsigned end = 0; end < sizeof ends / sizeof *ends; end++) {
		struct arena a = {0};
		struct ir_run r;
		struct ir_kernel *k;
		struct variant v = {.target = target_by_name("gfx942"), .text = "any", .waves = 1};
		double *want[PASS_PARAMS] = {0};
		const char *what = loops[_i].what;
		int loads = 0;
		pass_open_edited(&a, &r, "added", loops[_i].edits);
		r.k->target = "gfx942";
		ir_run_symbol(&r, "K", ends[end]);
		ir_run_symbol(&r, "N", 77);
		for (int p = 0; p < r.k->nparams; p++)
			ir_run_tensor(&r, r.k->params[p].name, 2);
		ck_assert_msg(run_passes(&a, r.k, &v, "hoist", &k, r.err, sizeof r.err) == 0, "%s: %s", what, r.err);
		pass_evaluate(&r, k, what);
		pass_keep(&r, want);
		ck_assert_msg(run_passes(&a, r.k, &v, "unroll", &k, r.err, sizeof r.err) == 0, "%s: %s", what, r.err);
		ir_walk(k->phases[0].body, note_load, &loads);
		ck_assert_msg(loads == loops[_i].loads, "%s: %d loads in the loop", what, loads);
		pass_evaluate(&r, k, what);
		pass_compare(&r, want, 0, what);
		pass_forget(want);
		ir_run_close(&r);
		arena_free(&a);
	}
}
END_TEST

/* The places of the first load and the first store of tensor z. */
struct places { int load, store, n; };

static void note_place(struct ir_ins *i, void *ctx)
{
	struct places *p = ctx;
	p->n++;
	if (i->op == IR_LOAD && i->imm == 1 && !p->load)
		p->load = p->n;
	if (i->op == IR_STORE && i->imm == 1 && !p->store)
		p->store = p->n;
}

/* A lane loads 256 bytes, of which z's are first used behind a reduction: where a target moves loads there, it is not this one. */
START_TEST(loads_stay_before_stores)
{
	struct places at = {0};
	struct variant v = {.target = target_by_name("sm_90a"), .text = "any", .waves = 4, .tiles = {{-1, "n", 4096}}, .ntiles = 1};
	pass_look_after("exchanged", &v, NULL, note_place, &at);
	ck_assert_msg(at.load && at.load < at.store, "z is loaded at %d and stored at %d", at.load, at.store);
}
END_TEST

/* The places of the loads of tensor w, of what widens it, and of the sum. */
struct lateness { int load, widened, sum, n; };

static void note_lateness(struct ir_ins *i, void *ctx)
{
	struct lateness *l = ctx;
	l->n++;
	if (i->op == IR_LOAD && i->imm == 1)
		l->load = l->n;
	if (i->op == IR_CVT && i->args[0]->op == IR_LOAD && i->args[0]->imm == 1)
		l->widened = l->n;
	if (i->op == IR_REDUCE)
		l->sum = l->n;
}

/* Weights wait in the 16 bits that they have for the sum behind which they are first used; on sm_90a they are loaded there, where a lane has
 * more than 192 bytes to load. */
static const struct { const char *target; int waves, n; bool late_load; } latenesses[] = {
	{"gfx942", 4, 4096, false}, {"gfx942", 4, 16384, false}, {"gfx950", 4, 16384, false}, {"sm_90a", 4, 4096, false}, {"sm_90a", 4, 7168, true},
};
enum { LATENESSES = sizeof latenesses / sizeof *latenesses };

START_TEST(what_is_used_late_is_computed_late)
{
	struct lateness l = {0};
	struct variant v = {.target = target_by_name(latenesses[_i].target), .text = "any", .waves = latenesses[_i].waves, .aligned = true,
	                    .tiles = {{-1, "n", latenesses[_i].n}}, .ntiles = 1};
	pass_look_after("weighed", &v, NULL, note_lateness, &l);
	ck_assert_msg(l.load && l.widened > l.sum && l.sum, "widened at %d, the sum at %d", l.widened, l.sum);
	ck_assert_msg((l.load > l.sum) == latenesses[_i].late_load, "%s, %d columns: loaded at %d, the sum at %d", latenesses[_i].target, latenesses[_i].n, l.load, l.sum);
}
END_TEST

/* The places of the store of tensor number y and of the move that turns a tile. */
struct order { int y, store, turned, n; };

static void note_order(struct ir_ins *i, void *ctx)
{
	struct order *o = ctx;
	o->n++;
	if (i->op == IR_STORE && i->imm == o->y)
		o->store = o->n;
	if (i->op == IR_RELAYOUT)
		o->turned = o->n;
}

/* y is stored before another tile is turned, but where it would take registers: 128 elements a lane, which loads fill them with; on sm_90a
 * also where elements are stored one by one, and where y may be absent and a lane has less than 64. */
static const struct { const char *kernel; int y; const char *target; bool given, single; int waves, m, n; bool early; } orders[] = {
	{"turned", 1, "sm_90a", true, false, 4, 64, 64, true},
	{"turned", 1, "sm_90a", false, false, 4, 64, 64, false},
	{"turned", 1, "sm_90a", false, false, 4, 64, 128, true},
	{"turned", 1, "sm_90a", true, true, 4, 64, 64, false},
	{"turned", 1, "sm_90a", true, false, 4, 128, 128, false},
	{"turned", 1, "gfx942", false, false, 2, 64, 64, true},
	{"turned_read", 2, "sm_90a", true, false, 4, 64, 64, false},
};
enum { ORDERS = sizeof orders / sizeof *orders };

START_TEST(stores_precede_turning)
{
	struct order o = {.y = orders[_i].y};
	struct variant v = {.target = target_by_name(orders[_i].target), .text = "any", .waves = orders[_i].waves, .aligned = true, .single = orders[_i].single,
	                    .tiles = {{-1, "m", orders[_i].m}, {-1, "n", orders[_i].n}}, .ntiles = 2,
	                    .given = (uint64_t)orders[_i].given << o.y};
	pass_look_after(orders[_i].kernel, &v, NULL, note_order, &o);
	ck_assert_msg(o.store && o.turned, "stored at %d, turned at %d", o.store, o.turned);
	ck_assert_msg((o.store < o.turned) == orders[_i].early, "%s, case %d: stored at %d, turned at %d", orders[_i].kernel, _i, o.store, o.turned);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("passes");
	TCase *t = tcase_create("results");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, each_pass_keeps_the_results, 0, CASES);
	tcase_add_loop_test(t, schedules_of_products_are_taken_or_refused, 0, KNOBS);
	tcase_add_test(t, functions_are_near);
	tcase_add_loop_test(t, rounded_functions_are_short, 0, ROUNDINGS);
	tcase_add_loop_test(t, conditions_are_asked_once, 0, GUARDS);
	tcase_add_test(t, masked_products_are_summed_by_fma);
	tcase_add_loop_test(t, masks_are_of_what_is_one_for_all, 0, MASKINGS);
	tcase_add_loop_test(t, blocks_are_there_where_their_rows_are, 0, BLOCKINGS);
	tcase_add_loop_test(t, loops_take_several_positions, 0, LOOPS);
	tcase_add_test(t, loads_stay_before_stores);
	tcase_add_loop_test(t, what_is_used_late_is_computed_late, 0, LATENESSES);
	tcase_add_loop_test(t, stores_precede_turning, 0, ORDERS);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
