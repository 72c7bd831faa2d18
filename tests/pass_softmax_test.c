/* pass_softmax_test.c -- what passes make of a running softmax: masks asked once, weights by one step, one factor for its maximum and its exponents, sums
 * by lane, and rows that are heads.  In: tests/ir/attention.ir and weights.ir with edits.  Checked: where the passes do so and where they are to leave the IR as it is, and that it computes
 * what it did: exactly where a pass says so, else within bounds of f64's. */
#include "../compiler/pass.h"
#include "pass_help.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

struct found { int reduced, selected, branches, steps, multiplied, by_lane; };

static bool is_used(const struct ir_ins *of)
{
	bool used = false;
	for (const struct ir_ins *i = of->next; i && !used; i = i->next)
		for (int a = 0; a < i->nargs; a++)
			used = used || i->args[a] == of;
	return used;
}

/* reduced: under a mask; selected: by one, of what is used; multiplied: maxima that are multiplied behind their reduction. */
static void note(struct ir_ins *i, void *ctx)
{
	struct found *f = ctx;
	f->reduced += i->op == IR_REDUCE && i->flags & IR_MASKED;
	f->selected += i->op == IR_SELECT && is_used(i);
	f->branches += i->op == IR_IF;
	f->steps += i->op == IR_FMA;
	f->multiplied += i->op == IR_MUL && (i->args[0]->op == IR_REDUCE || i->args[1]->op == IR_REDUCE);
	f->by_lane += i->op == IR_REDUCE && i->flags & IR_BY_LANE;
}

/* --- masks and weights ------------------------------------------------------------------------------------------------------------ */

/* A running softmax asks once what it sees: of three masks a select of the scores is left.  Where the maximum begins with -infinity a row that has seen
 * nothing would have terms of NaN; where terms are summed unseen ones too, are something else than 0 there, or the loop does not keep the maximum, the masks stay.  Where the mask compares what grows with positions, a tile is asked first whether all is seen. */
static const struct { const char *why; struct pass_edit edits[2]; int reduced, selected, branches; } seeings[] = {
	{"as it is", {{0}}, 0, 2, 1},
	{"narrowed before they are masked", {{"%39 = select %25, %34, %16 : f32[b, h, i, j]\n      %40 = cvt %39 : bf16[b, h, i, j]",
	 "%39 = cvt %34 : bf16[b, h, i, j]\n      %53 = const 0 : bf16\n      %40 = select %25, %39, %53 : bf16[b, h, i, j]"}}, 0, 2, 1},
	{"a mask that does not grow", {{"%24 = le %22, %12", "%24 = ne %22, %12"}}, 0, 2, 0},
	{"a maximum that begins with -infinity", {{"const -3.4028235e+38", "const -inf"}}, 2, 2, 0},
	{"terms that are summed unmasked", {{"%34 if %25", "%34"}}, 1, 2, 0},
	{"terms that are -0 where they are not seen", {{"%39 = select %25, %34, %16", "%53 = const -0 : f32\n      %39 = select %25, %34, %53"}}, 2, 2, 0},
	{"a maximum that is forgotten", {{"yield %30", "yield %19"}}, 2, 2, 0},
};
enum { SEEINGS = sizeof seeings / sizeof *seeings };

START_TEST(a_running_softmax_asks_once)
{
	struct found f = {0};
	struct arena a = {0};
	struct variant v = {.target = target_by_name("gfx942"), .text = "any", .waves = 1, .tiles = {{-1, "i", 16}, {-1, "j", 16}, {-1, "d", 64}}, .ntiles = 3};
	struct ir_run r;
	struct ir_kernel *k;
	pass_open_edited(&a, &r, "attention", seeings[_i].edits);
	ck_assert_msg(run_passes(&a, r.k, &v, "seen", &k, r.err, sizeof r.err) == 0, "%s: %s", seeings[_i].why, r.err);
	ir_walk(k->phases[0].body, note, &f);
	ck_assert_msg(f.reduced == seeings[_i].reduced && f.selected == seeings[_i].selected && f.branches == seeings[_i].branches,
	              "%s: %d reductions under a mask, %d selects, %d branches", seeings[_i].why, f.reduced, f.selected, f.branches);
	ir_run_close(&r);
	arena_free(&a);
}
END_TEST

/* exp(s - row's) is one fma and exp2 where products have it, in 16 bits, and sums of it, and nobody else. */
static const struct weight_case { const char *what; struct pass_edit edits[2]; int steps; } weights[] = {
	{"weights", {{0}}, 1},
	{"not summed", {{"reduce sum anyorder over j %7", "reduce sum anyorder over j %4"}}, 1},
	{"kept in 32 bits", {{"reduce sum anyorder over j %7", "reduce max over j %7"}}, 0},
	{"of no product", {{"%10 = dot anyorder over j %8, %9", "%13 = cvt %4 : bf16[i, j]\n    %10 = dot anyorder over j %13, %9"}}, 0},
	{"less a number of their own", {{"%5 = load top[%1] : f32[i]", "%5 = load s[%1, %3] : f32[i, j]"}}, 0},
};
enum { WEIGHTS = sizeof weights / sizeof *weights };

START_TEST(weights_of_products_are_one_step)
{
	enum { N = 16 };
	static const double special[N] = {-FLT_MAX, -INFINITY, NAN, INFINITY, 0, -1, 88, 1000, -1000, 3e4, -3e4, 1e-30, 0.3, 12.7, -55.5, 3e38};
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	struct variant v = {.target = target_by_name("gfx942"), .text = "any"};
	struct found f = {0};
	pass_open_edited(&a, &r, "weights", weights[_i].edits);
	ck_assert_msg(run_passes(&a, r.k, &v, "math", &k, r.err, sizeof r.err) == 0, "%s: %s", weights[_i].what, r.err);
	ir_walk(k->phases[0].body, note, &f);
	ck_assert_msg(f.steps == weights[_i].steps, "%s: %d steps", weights[_i].what, f.steps);
	for (int p = 0; _i == 0 && p < r.k->nparams; p++)
		ir_run_tensor(&r, r.k->params[p].name, 0);
	for (int i = 0; _i == 0 && i < N; i++) {
		ir_tensor_set(ir_run_find(&r, "top"), i, special[i]);
		ir_tensor_set(ir_run_find(&r, "v"), i * N + i, 1);
		for (int j = 0; j < N; j++)
			ir_tensor_set(ir_run_find(&r, "s"), i * N + j, j == 0 ? -INFINITY : (double)(float)(special[i] - (isfinite(special[i]) ? j * 0.4 : 0)));     /* of the largest it is one number */
	}
	if (_i == 0)
		pass_evaluate(&r, k, "weights");
	for (int i = 0; _i == 0 && i < N; i++)
		for (int j = 0; j < N; j++) {
			if (j && isnan(special[i]))
				continue;                        /* NaN times 0 is in every sum */
			double s = ir_tensor_get(ir_run_find(&r, "s"), i * N + j), top = (float)special[i], y = exp(s - top), got = 0;
			got = ir_tensor_get(ir_run_find(&r, "y"), i * N + j);
			bool any = isnan(ir_tensor_get(ir_run_find(&r, "den"), i));
			double bound = fabs(y) * (ldexp(1, -8) + (fabs(top) < 1e5 ? fabs(top) * ldexp(1, -23) : 0));
			ck_assert_msg(any ? !(isfinite(special[i])) : fabs(got - y) <= bound, "exp(%g - %g) is %g, found %g", s, top, y, got);
		}
	arena_free(&a);
	ir_run_close(&r);
}
END_TEST

/* --- one factor for the maximum and the exponents -------------------------------------------------------------------------------- */

#define RUNNING_MASK "%29 = reduce max anyorder over j %28 if %25 : f32[b, h, i]"

/* A scale that is the same in all rounds, of all rows or of each, leaves the scores: of any sign, and where the mask stays.  Not where something else has the
 * scores or their products, or the scale is another for each position. */
static const struct { const char *what; struct pass_edit edits[2]; int multiplied; } scorings[] = {
	{"one scale", {{0}}, 1},
	{"a scale of each row", {{"%14 = param scale : f32", "%53 = const 2 : i32\n    %54 = sub %2, %53 : i32[i]\n    %14 = cvt %54 : f32[i]"}}, 1},
	{"in the loop", {{"%28 = mul %27, %14", "%53 = param scale : f32\n      %28 = mul %53, %27"}}, 1},
	{"a mask that stays", {{"const -3.4028235e+38", "const -inf"}, {"%28 if %25", "%28"}}, 1},
	{"a scale of each position", {{"%28 = mul %27, %14", "%53 = cvt %22 : f32[j]\n      %28 = mul %27, %53"}}, 0},
	{"scores that are kept", {{RUNNING_MASK, "%53 = reduce sum anyorder over j %28 if %25 : f32[b, h, i]\n      " RUNNING_MASK}, {"%35 = mul %20, %32", "%54 = add %32, %53 : f32[b, h, i]\n      %35 = mul %20, %54"}}, 0},
	{"products that are kept", {{RUNNING_MASK, "%53 = reduce sum anyorder over j %27 if %25 : f32[b, h, i]\n      " RUNNING_MASK}, {"%35 = mul %20, %32", "%54 = add %32, %53 : f32[b, h, i]\n      %35 = mul %20, %54"}}, 0},
	{"the smallest", {{"reduce max anyorder over j %28", "reduce min anyorder over j %28"}}, 0},
};
static const double scales[] = {0.3, -0.3, 0, -0.0, 1e-40, -2e3};
enum { SCORINGS = sizeof scorings / sizeof *scorings, SCALES = sizeof scales / sizeof *scales, RESULTS = 2 * 11 * 32 };

static void open_attention(struct arena *a, struct ir_run *r, const struct pass_edit *edits)
{
	static const struct { const char *symbol; int value; } sizes[] = {{"B", 1}, {"H", 2}, {"G", 1}, {"S", 11}, {"T", 21}, {"D", 32}};
	pass_open_edited(a, r, "attention", edits);
	r->k->target = "gfx942";
	ir_run_tile(r, "i", 16);
	ir_run_tile(r, "j", 32);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		ir_run_symbol(r, sizes[i].symbol, sizes[i].value);
	for (int p = 0; p < r->k->nparams; p++)
		if (r->k->params[p].is_tensor)
			ir_run_tensor(r, r->k->params[p].name, 2);
}

static const struct variant whole = {.text = "any", .waves = 1, .tiles = {{-1, "i", 16}, {-1, "j", 32}, {-1, "d", 32}}, .ntiles = 3};

START_TEST(a_running_softmax_multiplies_its_maximum)
{
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *before, *k;
	struct variant v = whole;
	struct found f = {0};
	v.target = target_by_name("gfx942");
	open_attention(&a, &r, scorings[_i].edits);
	ck_assert_msg(run_passes(&a, r.k, &v, "seen", &before, r.err, sizeof r.err) == 0, "%s: %s", scorings[_i].what, r.err);
	ck_assert_msg(run_passes(&a, r.k, &v, "score", &k, r.err, sizeof r.err) == 0, "%s: %s", scorings[_i].what, r.err);
	ir_walk(k->phases[0].body, note, &f);
	ck_assert_msg(f.multiplied == scorings[_i].multiplied, "%s: %d maxima are multiplied", scorings[_i].what, f.multiplied);
	for (int s = 0; s < SCALES; s++) {
		uint16_t kept[RESULTS];
		ir_run_scalar(&r, "scale", scales[s]);
		pass_evaluate(&r, before, scorings[_i].what);
		memcpy(kept, ir_run_find(&r, "o")->data, sizeof kept);
		pass_evaluate(&r, k, scorings[_i].what);
		const struct ir_tensor *o = ir_run_find(&r, "o");
		ck_assert_msg(memcmp(o->data, kept, sizeof kept) == 0, "%s, scale %g", scorings[_i].what, scales[s]);
	}
	ir_run_close(&r);
	arena_free(&a);
}
END_TEST

/* --- sums by lane -------------------------------------------------------------------------------------------------------------------- */

/* What is carried, scaled or not, and summed up in no other way, is kept by lane; not where it begins with something, or a round uses what it has so far. */
static const struct { const char *what; struct pass_edit edits[2]; int by_lane; } keepings[] = {
	{"scaled", {{0}}, 1},
	{"not scaled", {{"%37 = add %35, %36", "%37 = add %36, %20"}}, 1},
	{"from 1 on", {{"%17 = const 0 : i32", "%17 = const 0 : i32\n    %53 = const 1 : f32"}, {"%20: f32[b, h, i] = %16", "%20: f32[b, h, i] = %53"}}, 0},
	{"used in its round", {{"%38 = mul %21, %32", "%53 = min %32, %37 : f32[b, h, i]\n      %38 = mul %21, %53"}}, 0},
	{"a maximum", {{"reduce sum anyorder over j %34", "reduce max anyorder over j %34"}}, 0},
};
enum { KEEPINGS = sizeof keepings / sizeof *keepings };

START_TEST(running_sums_are_kept_by_lane)
{
	static const char *const chips[] = {"gfx942", "gfx950", "sm_90a"};
	for (int c = 0; c < 3; c++) {
		struct arena a = {0};
		struct ir_run r;
		struct ir_kernel *before, *k;
		struct variant v = whole;
		struct found f = {0};
		double *want[PASS_PARAMS] = {0};
		v.target = target_by_name(chips[c]);
		open_attention(&a, &r, keepings[_i].edits);
		ir_run_scalar(&r, "scale", 0.3);
		ck_assert_msg(run_passes(&a, r.k, &v, "layout", &before, r.err, sizeof r.err) == 0, "%s: %s", keepings[_i].what, r.err);
		ck_assert_msg(run_passes(&a, r.k, &v, "lanes", &k, r.err, sizeof r.err) == 0, "%s: %s", keepings[_i].what, r.err);
		ir_walk(k->phases[0].body, note, &f);
		ck_assert_msg(f.by_lane == keepings[_i].by_lane, "%s, %s: %d sums by lane", keepings[_i].what, chips[c], f.by_lane);
		pass_evaluate(&r, before, keepings[_i].what);
		pass_keep(&r, want);
		pass_evaluate(&r, k, keepings[_i].what);
		pass_compare(&r, want, 0, keepings[_i].what);
		pass_forget(want);
		ir_run_close(&r);
		arena_free(&a);
	}
}
END_TEST

/* --- heads that share keys ------------------------------------------------------------------------------------------------------------ */

/* Heads are rows where what a round loads and asks is one for those of a group; not where keys, or which of them are there, are a head's own, or heads are tiled. */
static const struct { const char *what; struct pass_edit edits[2]; bool shared; } groupings[] = {
	{"keys of groups", {{0}}, true},
	{"scores less a number of the head", {{"%28 = mul %27, %14", "%53 = cvt %1 : f32[h]\n      %54 = mul %27, %14 : f32[b, h, i, j]\n      %28 = sub %54, %53"}}, true},
	{"groups of a fixed number", {{"%6 = div %4, %5", "%6 = const 2"}}, true},
	{"keys of heads", {{"load k[%0, %7,", "load k[%0, %1,"}}, false},
	{"keys that heads ask for", {{"%26 = load k[%0, %7, %22, %3] if %52", "%53 = le %1, %1 : i1[h]\n      %54 = and %52, %53 : i1[h, j, d]\n      %26 = load k[%0, %7, %22, %3] if %54"}}, false},
	{"heads in tiles", {{"axis h grid : H", "axis h grid tiled tile 1 : H"}}, false},
};
enum { GROUPINGS = sizeof groupings / sizeof *groupings };

struct keys { int head, row, loads, rows; };

static void note_keys(struct ir_ins *i, void *ctx)
{
	struct keys *n = ctx;
	n->loads += i->op == IR_LOAD && i->imm > 0;
	n->rows += i->op == IR_LOAD && i->imm > 0 && i->axes & IR_AXIS(n->row);
}

START_TEST(heads_of_few_positions_are_rows)
{
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	struct shared_heads h;
	struct variant v = whole;
	double *want[PASS_PARAMS] = {0};
	v.target = target_by_name("gfx942");
	v.heads = true;
	if (groupings[_i].shared)
		open_attention(&a, &r, groupings[_i].edits);
	else
		pass_open_edited(&a, &r, "attention", groupings[_i].edits);
	ck_assert_msg(kernel_shares_heads(r.k, &h) == groupings[_i].shared, "%s", groupings[_i].what);
	if (groupings[_i].shared) {
		struct keys n = {h.head, h.row, 0, 0};
		ck_assert_msg(run_passes(&a, r.k, &v, "heads", &k, r.err, sizeof r.err) == 0, "%s: %s", groupings[_i].what, r.err);
		ir_walk(k->phases[0].body, note_keys, &n);
		ck_assert_msg(n.loads == 2 && n.rows == 0, "%s: %d loads of keys, %d for each row", groupings[_i].what, n.loads, n.rows);
		ir_run_scalar(&r, "scale", 0.3);
		pass_evaluate(&r, r.k, groupings[_i].what);
		pass_keep(&r, want);
		pass_evaluate(&r, k, groupings[_i].what);
		const struct ir_tensor *o = ir_run_find(&r, "o");
		for (int64_t e = 0; e < ir_tensor_count(o); e++)
			ck_assert_msg(ir_tensor_get(o, e) == want[4][e], "%s: o[%lld]", groupings[_i].what, (long long)e);
		pass_forget(want);
	}
	ir_run_close(&r);
	arena_free(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pass_softmax");
	TCase *t = tcase_create("pass_softmax");
	tcase_add_loop_test(t, weights_of_products_are_one_step, 0, WEIGHTS);
	tcase_add_loop_test(t, a_running_softmax_asks_once, 0, SEEINGS);
	tcase_add_loop_test(t, a_running_softmax_multiplies_its_maximum, 0, SCORINGS);
	tcase_add_loop_test(t, running_sums_are_kept_by_lane, 0, KEEPINGS);
	tcase_add_loop_test(t, heads_of_few_positions_are_rows, 0, GROUPINGS);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
