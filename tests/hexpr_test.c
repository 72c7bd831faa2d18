/* hexpr_test.c -- host expressions: folding, text and bytes both ways, errors; random trees go through every form. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../base/hexpr.h"

static const char *const symbols[] = {"M", "N", "K"};
static const char *const tensors[] = {"x", "w"};

static struct arena arena;
static void setup(void) { memset(&arena, 0, sizeof arena); }
static void teardown(void) { arena_free(&arena); }

static int64_t leaf(void *ctx, enum hexpr_op op, int64_t imm) { (void)ctx; return op == HX_STRIDE ? 100 + imm : imm & 1; }

static const struct hexpr *parse(const char *text)
{
	const char *at = NULL;
	const struct hexpr *e = hexpr_parse(&arena, text, symbols, 3, tensors, 2, &at);
	ck_assert_msg(e != NULL, "'%s' fails at '%s'", text, at);
	return e;
}

START_TEST(text_is_kept)
{
	static const char *const same[] = {
		"cdiv(N, 128) * 2", "aligned(x)", "N + 1", "(N + 1) * 2", "M - (N - K)", "M - N - K", "N % 8 == 0 and aligned(x)",
		"stride(x, 1)", "-N", "not (M == 0 or N == 0)", "M / N * K", "M / (N * K)", "exact(N, 2)", "min(M, max(N, 3))", "M <= N",
		"N == -9223372036854775808", "has(w) == 0", "flat(x) and unit(w)", "device(memory_rate) < 4000", "(M < N) == (N < K)",
	};
	for (unsigned i = 0; i < sizeof same / sizeof *same; i++)
		ck_assert_str_eq(hexpr_text(&arena, parse(same[i]), symbols, tensors), same[i]);
}
END_TEST

/* What people read has exact quotients as they write them. */
START_TEST(quotients_are_shown)
{
	static const char *const pairs[][2] = {{"exact(N, 2)", "N / 2"}, {"exact(N + K, 2) % 2 == 0", "(N + K) / 2 % 2 == 0"}, {"M * exact(N, K)", "M * (N / K)"},
		{"min(exact(M, 2) - 1, cdiv(N, 3))", "min(M / 2 - 1, cdiv(N, 3))"}};
	for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
		ck_assert_str_eq(hexpr_shown(&arena, parse(pairs[i][0]), symbols, tensors), pairs[i][1]);
}
END_TEST

START_TEST(bad_text_is_refused_where_it_is_wrong)
{
	static const struct { const char *text; int at; } bad[] = {
		{"", 0}, {"N +", 3}, {"Q", 0}, {"cdiv(N)", 6}, {"M < N < K", 9}, {"9223372036854775808", 18}, {"12x", 2}, {"aligned(q)", 8}, {"device(x)", 7}, {"N N", 2}, {"(N", 2},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *at = NULL;
		ck_assert_ptr_null(hexpr_parse(&arena, bad[i].text, symbols, 3, tensors, 2, &at));
		ck_assert_msg(at == bad[i].text + bad[i].at, "'%s': at %d, expected %d", bad[i].text, (int)(at - bad[i].text), bad[i].at);
	}
	char deep[4096];
	const char *at = NULL;
	memset(deep, '(', sizeof deep - 1);
	deep[sizeof deep - 1] = 0;
	ck_assert_ptr_null(hexpr_parse(&arena, deep, symbols, 3, tensors, 2, &at));
}
END_TEST

START_TEST(constants_and_units_fold)
{
	static const char *const pairs[][2] = {
		{"2 + 3 * 4", "14"}, {"N + 0", "N"}, {"0 + N", "N"}, {"N * 1", "N"}, {"N * 0", "0"}, {"N / 1", "N"}, {"cdiv(N, 1)", "N"}, {"cdiv(7, 4)", "2"},
		{"cdiv(0 - 7, 4)", "-1"}, {"1 and M == 0", "M == 0"}, {"0 and M == 0", "0"}, {"M == 0 or 1", "1"}, {"not not (M == 0)", "M == 0"}, {"exact(8, 4)", "2"},
		{"1 and M", "1 and M"}, {"exact(7, 4)", "exact(7, 4)"}, {"1 / 0", "1 / 0"},
	};
	for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++)
		ck_assert_str_eq(hexpr_text(&arena, parse(pairs[i][0]), symbols, tensors), pairs[i][1]);
}
END_TEST

static void expect_error(const struct hexpr *e, const struct hexpr_env *env, const char *text)
{
	const char *why = NULL;
	const uint8_t *code;
	uint32_t size;
	int64_t v;
	ck_assert_int_eq(hexpr_eval(e, env, &v, &why), -1);
	ck_assert_str_eq(why, text);
	ck_assert_int_eq(hexpr_encode(&arena, e, &code, &size), 0);
	ck_assert_int_eq(hexpr_code_eval(code, size, env, &v, &why), -1);
	ck_assert_str_eq(why, text);
}

START_TEST(errors_have_texts)
{
	int64_t values[] = {INT64_MAX, 0, -3};
	struct hexpr_env env = {values, 3, leaf, NULL}, blind = {values, 2, NULL, NULL};
	expect_error(parse("M + 1"), &env, "overflow");
	expect_error(parse("M * 2"), &env, "overflow");
	expect_error(parse("-(0 - M - 1)"), &env, "overflow");
	expect_error(parse("(0 - M - 1) / (N - 1)"), &env, "overflow");
	expect_error(parse("M / N"), &env, "division by zero");
	expect_error(parse("M % N"), &env, "division by zero");
	expect_error(parse("cdiv(M, K)"), &env, "division by a negative number");
	expect_error(parse("exact(M, 2)"), &env, "a division that must be exact leaves a remainder");
	expect_error(parse("K"), &blind, "unknown symbol");
	expect_error(parse("aligned(x)"), &blind, "a fact about tensors or the device is asked where none is known");
}
END_TEST

START_TEST(symbols_are_substituted)
{
	const struct hexpr *e = hexpr_subst(&arena, parse("cdiv(N, 128) * M + N"), 1, hexpr_const(&arena, 256));
	ck_assert_str_eq(hexpr_text(&arena, e, symbols, tensors), "2 * M + 256");
	const struct hexpr *same = parse("M + 1");
	ck_assert_ptr_eq(hexpr_subst(&arena, same, 1, hexpr_const(&arena, 5)), same);
}
END_TEST

static int step(unsigned *state)
{
	*state = *state * 1103515245u + 12345u;
	return (int)(*state >> 16);
}

/* Built without folding, so that every operation occurs. */
static const struct hexpr *random_tree(unsigned *state, int depth)
{
	struct hexpr *e = arena_alloc(&arena, sizeof *e);
	if (depth == 0 || step(state) % 5 == 0) {
		e->op = step(state) % 8;
		e->op = e->op == HX_ADD ? HX_DEVICE : e->op;
		e->imm = e->op == HX_CONST ? step(state) % 2000 - 1000 : e->op == HX_SYM ? step(state) % 3 : e->op == HX_STRIDE ? step(state) % 2 * 16 + step(state) % 6 : e->op == HX_DEVICE ? HX_MEMORY_RATE : step(state) % 2;
		return e;
	}
	e->op = HX_ADD + step(state) % (HX_DEVICE - HX_ADD);
	e->a = random_tree(state, depth - 1);
	e->b = e->op >= HX_NOT ? NULL : random_tree(state, depth - 1);
	return e;
}

/* The same tree through the folding constructor. */
static const struct hexpr *folded(const struct hexpr *e)
{
	return e->a ? hexpr_op(&arena, e->op, folded(e->a), e->b ? folded(e->b) : NULL) : e;
}

START_TEST(random_trees_agree_in_every_form)
{
	unsigned state = 1;
	int good = 0;
	for (int i = 0; i < 3000; i++) {
		const struct hexpr *e = random_tree(&state, 4), *f = folded(e);
		int64_t values[] = {step(&state) % 100, step(&state) % 50 - 25, 7}, v, w;
		struct hexpr_env env = {values, 3, leaf, NULL};
		const char *why, *why2;
		int status = hexpr_eval(e, &env, &v, &why);
		if (status == 0) {   /* folding may drop a part that has no value, so only this direction */
			ck_assert_int_eq(hexpr_eval(f, &env, &w, &why), 0);
			ck_assert_int_eq(v, w);
			good++;
		}
		const uint8_t *code;
		uint32_t size;
		ck_assert_int_eq(hexpr_encode(&arena, e, &code, &size), 0);
		ck_assert_int_eq(hexpr_code_eval(code, size, &env, &w, &why2), status);
		ck_assert_int_eq(v, w);
		const struct hexpr *back = hexpr_decode(&arena, code, size), *read = parse(hexpr_text(&arena, f, symbols, tensors));
		ck_assert(back && hexpr_equal(back, f));
		ck_assert_msg(hexpr_equal(read, f), "%s became %s", hexpr_text(&arena, f, symbols, tensors), hexpr_text(&arena, read, symbols, tensors));
	}
	ck_assert_int_gt(good, 1000);
}
END_TEST

START_TEST(altered_bytes_do_no_harm)
{
	unsigned state = 7;
	int64_t values[] = {5, 6, 7}, v;
	struct hexpr_env env = {values, 3, leaf, NULL};
	const char *why;
	for (int i = 0; i < 20000; i++) {
		uint8_t code[40];
		uint32_t size = (uint32_t)step(&state) % sizeof code;
		for (uint32_t b = 0; b < size; b++)
			code[b] = (uint8_t)(step(&state) % 3 ? step(&state) % (HX_COUNT + 2) : step(&state));
		int status = hexpr_code_eval(code, size, &env, &v, &why);
		ck_assert((status == 0) == (why == NULL));
		if (hexpr_decode(&arena, code, size) == NULL)
			ck_assert_int_eq(status, -1);
	}
	uint8_t deep[80];
	for (int i = 0; i < 80; i += 2) {
		deep[i] = HX_SYM;
		deep[i + 1] = 0;
	}
	ck_assert_int_eq(hexpr_code_eval(deep, 80, &env, &v, &why), -1);
	ck_assert_str_eq(why, "an expression is nested too deeply");
}
END_TEST

START_TEST(trees_too_deep_for_the_stack_are_not_encoded)
{
	const struct hexpr *e = hexpr_sym(&arena, 0);
	for (int i = 0; i < 40; i++)
		e = hexpr_op(&arena, HX_SUB, hexpr_sym(&arena, 1), e);
	const uint8_t *code;
	uint32_t size;
	ck_assert_int_eq(hexpr_encode(&arena, e, &code, &size), -1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hexpr");
	TCase *c = tcase_create("expressions");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, text_is_kept);
	tcase_add_test(c, quotients_are_shown);
	tcase_add_test(c, bad_text_is_refused_where_it_is_wrong);
	tcase_add_test(c, constants_and_units_fold);
	tcase_add_test(c, errors_have_texts);
	tcase_add_test(c, symbols_are_substituted);
	tcase_add_test(c, random_trees_agree_in_every_form);
	tcase_add_test(c, altered_bytes_do_no_harm);
	tcase_add_test(c, trees_too_deep_for_the_stack_are_not_encoded);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
