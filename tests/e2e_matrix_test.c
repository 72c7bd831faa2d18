/* e2e_matrix_test.c -- grouped_gemm and attention through the runtime on both simulated chips, against f64.
 *
 * Grouped products: sizes around every tile and vector width, empty groups, bounds that are out of range or fall, rows in no
 * group, strides.  Attention: lengths around tiles, S unequal T (rows that see no key), head sizes, grouped heads, both memory
 * orders; its error may be little more than that of a softmax whose P is rounded to bf16.  E2E_FULL=1 adds larger grids. */
#include "e2e.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- grouped_gemm */

struct gemm_case { int64_t m, n, k, e; int32_t first[9]; struct e2e_place a, b, c; enum ref_half half; };

static void gemm(const struct e2e_chip *chip, struct gemm_case g)
{
	static char what[256];
	char why[128];
	if (!e2e_takes("grouped_gemm"))
		return;
	snprintf(what, sizeof what, "grouped_gemm on %s, %s, M %ld, N %ld, K %ld, E %ld, first %d %d %d.., a pitch %ld shift %ld, b pitch %ld, c pitch %ld shift %ld",
	         chip->name, g.half ? "f16" : "bf16", (long)g.m, (long)g.n, (long)g.k, (long)g.e, g.first[0], g.first[1], g.first[2], (long)g.a.pitch, (long)g.a.shift,
	         (long)g.b.pitch, (long)g.c.pitch, (long)g.c.shift);
	uint16_t *a = room(g.m * g.k, 2), *b = room(g.e * g.n * g.k, 2), *c = room(g.m * g.n, 2);
	double *ref = room(g.m * g.n, 8);
	struct ref_random r = {(uint64_t)(g.m * 7919 + g.n * 104729 + g.k)};
	ref_fill(&r, g.half, a, g.m * g.k, 1);
	ref_fill(&r, g.half, b, g.e * g.n * g.k, 1);
	int64_t e1 = g.e + 1;
	struct e2e_tensor *ta = e2e_tensor(e2e_half_type(g.half), 2, (int64_t[]){g.m, g.k}, g.a, a), *tb = e2e_tensor(e2e_half_type(g.half), 3, (int64_t[]){g.e, g.n, g.k}, g.b, b),
		*tf = e2e_tensor(E2E_I32, 1, &e1, (struct e2e_place){0}, g.first), *tc = e2e_tensor(e2e_half_type(g.half), 2, (int64_t[]){g.m, g.n}, g.c, NULL);
	e2e_call(chip, "grouped_gemm", (union tdsl_arg[]){{.t = &ta->t}, {.t = &tb->t}, {.t = &tf->t}, {.t = &tc->t}}, 4, what);
	e2e_read(tc, c, what);
	ref_grouped_gemm(g.half, a, b, g.first, g.m, g.n, g.k, g.e, ref_half_value(g.half, E2E_POISON << 8 | E2E_POISON), ref);
	struct ref_diff d = ref_diff_half(g.half, c, ref, g.m, g.n);
	ck_assert_msg(ref_agree_plain(&d, 1, why, sizeof why), "%s: c[%ld, %ld]: %s (found %.9g, expected %.9g)", what,
	              (long)(g.n ? d.worst / g.n : 0), (long)(g.n ? d.worst % g.n : 0), why, ref_half_value(g.half, c[d.worst]), ref[d.worst]);
	e2e_free(ta), e2e_free(tb), e2e_free(tf), e2e_free(tc);
	free(a), free(b), free(c), free(ref);
}

/* Every second half of a loop's cases as the number of rows does not count: what is planned for few rows is passed over.  A process has its own plans. */
static void pass_over_few(bool yes) { yes ? setenv("TDSL_BATCH_INVARIANT", "1", 1) : unsetenv("TDSL_BATCH_INVARIANT"); }

static const int64_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257};
enum { NWIDTHS = sizeof widths / sizeof *widths };

START_TEST(gemm_sizes_agree)
{
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	int64_t w = widths[_i / 2 % NWIDTHS];
	pass_over_few(_i / 2 >= NWIDTHS);
	gemm(chip, (struct gemm_case){.m = w, .n = 33, .k = 64, .e = 1, .first = {0, (int32_t)w}});
	gemm(chip, (struct gemm_case){.m = 20, .n = w, .k = 64, .e = 2, .first = {0, 9, 20}});
	gemm(chip, (struct gemm_case){.m = 20, .n = 40, .k = w, .e = 2, .first = {0, 9, 20}});
	gemm(chip, (struct gemm_case){.m = 20, .n = w, .k = 64, .e = 2, .first = {0, 9, 20}, .half = REF_F16});
}
END_TEST

START_TEST(gemm_groups_agree)
{
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	pass_over_few(_i / 2);
	struct gemm_case cases[] = {
		{.m = 150, .n = 64, .k = 128, .e = 4, .first = {0, 0, 100, 100, 150}},
		{.m = 150, .n = 64, .k = 64, .e = 8, .first = {0, 1, 3, 3, 3, 70, 71, 149, 150}},
		{.m = 60, .n = 64, .k = 64, .e = 2, .first = {0, 11, 60}},
		{.m = 30, .n = 136, .k = 264, .e = 2, .first = {0, 29, 30}},
		{.m = 40, .n = 48, .k = 64, .e = 2, .first = {5, 20, 33}},                  /* rows in no group stay as they were */
		{.m = 40, .n = 48, .k = 64, .e = 3, .first = {0, 25, 10, 40}},              /* falling: group 1 is empty */
		{.m = 40, .n = 48, .k = 64, .e = 2, .first = {-7, 20, 1000}},               /* clamped */
		{.m = 40, .n = 48, .k = 64, .e = 2, .first = {40, 40, 40}},
		{.m = 0, .n = 48, .k = 64, .e = 2, .first = {0, 0, 0}},
		{.m = 17, .n = 0, .k = 64, .e = 1, .first = {0, 17}},
		{.m = 17, .n = 48, .k = 0, .e = 1, .first = {0, 17}},
		{.m = 17, .n = 48, .k = 64, .e = 0, .first = {0}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		gemm(chip, cases[i]);
}
END_TEST

START_TEST(gemm_strides_agree)
{
	pass_over_few(_i / 2);
	struct gemm_case c = {.m = 37, .n = 64, .k = 96, .e = 2, .first = {0, 20, 37}};
	struct e2e_place places[][3] = {
		{{.pitch = 104}, {.pitch = 128}, {.pitch = 72}}, {{.pitch = 97}, {.pitch = 99}, {.pitch = 65}},
		{{.shift = 1}, {.shift = 3}, {.shift = 1}}, {{.shift = 4}, {.shift = 8}, {.shift = 2}},
		{{.pitch = 200, .step = 2}, {.pitch = 200, .step = 2}, {.pitch = 130, .step = 2}},
	};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		c.a = places[i][0], c.b = places[i][1], c.c = places[i][2];
		gemm(&e2e_chips[_i % 2], c);
	}
}
END_TEST

START_TEST(gemm_deep_agrees)
{
	pass_over_few(_i / 2);
	gemm(&e2e_chips[_i % 2], (struct gemm_case){.m = 64, .n = 128, .k = 2048, .e = 2, .first = {0, 24, 64}});
	if (getenv("E2E_FULL"))
		gemm(&e2e_chips[_i % 2], (struct gemm_case){.m = 512, .n = 769, .k = 4096, .e = 4, .first = {0, 100, 356, 356, 512}});
}
END_TEST

/* ---- attention */

struct attention_case { int64_t b, h, g, s, t, d; bool swapped; int64_t shift; enum ref_half half; bool scaled; double scale; bool one_key; };      /* scaled: not by 1 / sqrt(d); one_key: all keys are the first, by a stride of 0 */

static void attention(const struct e2e_chip *chip, struct attention_case c)
{
	static char what[256];
	char why[128];
	if (!e2e_takes("attention"))
		return;
	snprintf(what, sizeof what, "attention on %s, %s, B %ld, H %ld, G %ld, S %ld, T %ld, D %ld, swapped %d, shift %ld, scale %g", chip->name,
	         c.half ? "f16" : "bf16", (long)c.b,
	         (long)c.h, (long)c.g, (long)c.s, (long)c.t, (long)c.d, c.swapped, (long)c.shift, c.scaled ? c.scale : 0);
	int64_t nq = c.b * c.h * c.s * c.d, nk = c.b * c.g * c.t * c.d;
	uint16_t *q = room(nq, 2), *k = room(nk, 2), *v = room(nk, 2), *o = room(nq, 2), *ob = room(nq, 2);
	double *ref = room(nq, 8), *rounded = room(nq, 8), scale = (float)(c.scaled ? c.scale : 1 / sqrt((double)c.d));
	struct ref_random r = {(uint64_t)(c.s * 7919 + c.t * 104729 + c.d)};
	ref_fill(&r, c.half, q, nq, 1.5);
	ref_fill(&r, c.half, k, nk, 1.5);
	ref_fill(&r, c.half, v, nk, 1);
	for (int64_t row = 0; c.one_key && row < c.b * c.g * c.t; row++)
		memcpy(k + row * c.d, k + row / c.t * c.t * c.d, (size_t)c.d * 2);
	struct e2e_place place = {.swapped = c.swapped, .shift = c.shift};
	int64_t qs[] = {c.b, c.h, c.s, c.d}, ks[] = {c.b, c.g, c.t, c.d};
	struct e2e_tensor *tq = e2e_tensor(e2e_half_type(c.half), 4, qs, place, q), *tk = e2e_tensor(e2e_half_type(c.half), 4, ks, place, k),
		*tv = e2e_tensor(e2e_half_type(c.half), 4, ks, place, v), *to = e2e_tensor(e2e_half_type(c.half), 4, qs, place, NULL);
	tk->t.strides[2] = c.one_key ? 0 : tk->t.strides[2];
	e2e_call(chip, "attention", (union tdsl_arg[]){{.t = &tq->t}, {.t = &tk->t}, {.t = &tv->t}, {.f = scale}, {.t = &to->t}}, 5, what);
	e2e_read(to, o, what);
	ref_attention(c.half, q, k, v, scale, c.b, c.h, c.g, c.s, c.t, c.d, 0, ref);
	ref_attention(c.half, q, k, v, scale, c.b, c.h, c.g, c.s, c.t, c.d, 1, rounded);
	for (int64_t i = 0; i < nq; i++)
		ob[i] = ref_half_round(c.half, rounded[i]);
	struct ref_diff d = ref_diff_half(c.half, o, ref, nq / (c.d ? c.d : 1), c.d), db = ref_diff_half(c.half, ob, ref, nq / (c.d ? c.d : 1), c.d);
	ck_assert_msg(ref_agree_attention(&d, &db, why, sizeof why), "%s: %s", what, why);
	e2e_free(tq), e2e_free(tk), e2e_free(tv), e2e_free(to);
	free(q), free(k), free(v), free(o), free(ob), free(ref), free(rounded);
}

static const int64_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 200, 256, 257, 385, 520};
enum { NLENGTHS = sizeof lengths / sizeof *lengths };

START_TEST(attention_lengths_agree)
{
	int64_t n = lengths[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	attention(chip, (struct attention_case){.b = 1, .h = 2, .g = 1, .s = n, .t = n, .d = 128});
	attention(chip, (struct attention_case){.b = 1, .h = 1, .g = 1, .s = 5, .t = n, .d = 64});      /* with n < 5: rows that see nothing */
	attention(chip, (struct attention_case){.b = 1, .h = 1, .g = 1, .s = n, .t = 40, .d = 64});
	attention(chip, (struct attention_case){.b = 1, .h = 1, .g = 1, .s = n, .t = n + 200, .d = 64});   /* tiles of which all is seen, and of which a part is */
}
END_TEST

START_TEST(attention_heads_agree)
{
	static const int64_t ds[] = {64, 96, 128, 192, 256, 8, 80};
	for (size_t i = 0; i < sizeof ds / sizeof *ds; i++)
		attention(&e2e_chips[_i], (struct attention_case){.b = 2, .h = 4, .g = 2, .s = 33, .t = 70, .d = ds[i]});
	attention(&e2e_chips[_i], (struct attention_case){.b = 2, .h = 4, .g = 2, .s = 33, .t = 70, .d = 64, .half = REF_F16});
	attention(&e2e_chips[_i], (struct attention_case){.b = 2, .h = 4, .g = 2, .s = 33, .t = 70, .d = 128, .half = REF_F16});
	attention(&e2e_chips[_i], (struct attention_case){.b = 1, .h = 6, .g = 6, .s = 20, .t = 20, .d = 64});
	attention(&e2e_chips[_i], (struct attention_case){.b = 2, .h = 4, .g = 2, .s = 33, .t = 70, .d = 128, .swapped = true});
	attention(&e2e_chips[_i], (struct attention_case){.b = 2, .h = 4, .g = 2, .s = 33, .t = 70, .d = 128, .shift = 1});
	attention(&e2e_chips[_i], (struct attention_case){.b = 2, .h = 4, .g = 2, .s = 33, .t = 70, .d = 64, .one_key = true});       /* rows of keys meet */
}
END_TEST

/* Fewer positions than heads that share keys. */
START_TEST(attention_decodes)
{
	static const int64_t ds[] = {64, 128, 72, 256};
	for (size_t i = 0; i < sizeof ds / sizeof *ds; i++)
		attention(&e2e_chips[_i], (struct attention_case){.b = 2, .h = 8, .g = 2, .s = 1 + (int64_t)i % 3, .t = 150, .d = ds[i]});
	attention(&e2e_chips[_i], (struct attention_case){.b = 1, .h = 40, .g = 2, .s = 1, .t = 70, .d = 128, .half = REF_F16});
	attention(&e2e_chips[_i], (struct attention_case){.b = 3, .h = 5, .g = 1, .s = 2, .t = 33, .d = 64, .swapped = true});
	attention(&e2e_chips[_i], (struct attention_case){.b = 1, .h = 8, .g = 2, .s = 3, .t = 2, .d = 64});      /* rows that see nothing */
}
END_TEST

/* A negative one changes which score is the largest; 0 makes all alike, which those that are not seen still are not. */
START_TEST(attention_scales_agree)
{
	static const double scales[] = {-0.125, 0, 1e-40, -3};
	for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
		attention(&e2e_chips[_i], (struct attention_case){.b = 1, .h = 2, .g = 1, .s = 33, .t = 70, .d = 64, .scaled = true, .scale = scales[i]});
		attention(&e2e_chips[_i], (struct attention_case){.b = 1, .h = 2, .g = 1, .s = 20, .t = 20, .d = 72, .half = REF_F16, .scaled = true, .scale = scales[i]});
	}
}
END_TEST

/* A row that has a NaN is one of them, not of zeros as one that sees nothing. */
START_TEST(attention_keeps_nans)
{
	enum { S = 5, D = 64 };
	static uint16_t q[S * D], k[S * D], v[S * D], o[S * D];
	struct ref_random r = {7};
	int64_t shape[] = {1, 1, S, D};
	struct e2e_place place = {0};
	if (!e2e_takes("attention"))
		return;
	ref_fill(&r, REF_BF16, q, S * D, 1);
	ref_fill(&r, REF_BF16, k, S * D, 1);
	ref_fill(&r, REF_BF16, v, S * D, 1);
	q[2 * D + 3] = 0x7fc0;
	struct e2e_tensor *tq = e2e_tensor(e2e_half_type(REF_BF16), 4, shape, place, q), *tk = e2e_tensor(e2e_half_type(REF_BF16), 4, shape, place, k),
		*tv = e2e_tensor(e2e_half_type(REF_BF16), 4, shape, place, v), *to = e2e_tensor(e2e_half_type(REF_BF16), 4, shape, place, NULL);
	e2e_call(&e2e_chips[_i], "attention", (union tdsl_arg[]){{.t = &tq->t}, {.t = &tk->t}, {.t = &tv->t}, {.f = 0.125f}, {.t = &to->t}}, 5, "attention with a NaN");
	e2e_read(to, o, "attention with a NaN");
	for (int i = 0; i < S * D; i++)
		ck_assert_msg(((o[i] & 0x7fff) > 0x7f80) == (i / D == 2), "o[%d][%d] is %#x", i / D, i % D, o[i]);
	e2e_free(tq), e2e_free(tk), e2e_free(tv), e2e_free(to);
}
END_TEST

START_TEST(attention_empty_agrees)
{
	attention(&e2e_chips[_i], (struct attention_case){.b = 0, .h = 2, .g = 1, .s = 16, .t = 16, .d = 64});
	attention(&e2e_chips[_i], (struct attention_case){.b = 1, .h = 2, .g = 1, .s = 0, .t = 16, .d = 64});
	attention(&e2e_chips[_i], (struct attention_case){.b = 1, .h = 2, .g = 1, .s = 16, .t = 0, .d = 64});
}
END_TEST

START_TEST(attention_requires_whole_groups)
{
	int64_t qs[] = {1, 3, 4, 64}, ks[] = {1, 2, 4, 64};
	struct e2e_place place = {0};
	static uint16_t zero[3 * 4 * 64];
	tdsl_stream stream;
	tdsl_kernel kernel = e2e_kernel(&e2e_chips[_i], "attention", &stream);
	struct e2e_tensor *q = e2e_tensor(E2E_BF16, 4, qs, place, zero), *k = e2e_tensor(E2E_BF16, 4, ks, place, zero),
		*o = e2e_tensor(E2E_BF16, 4, qs, place, NULL);
	union tdsl_arg args[] = {{.t = &q->t}, {.t = &k->t}, {.t = &k->t}, {.f = 1}, {.t = &o->t}};
	ck_assert_int_eq(tdsl_call(kernel, stream, args, 5, NULL, 0), TDSL_ESHAPE);
	ck_assert_msg(strstr(tdsl_error(), "H % G"), "%s", tdsl_error());
	e2e_free(q), e2e_free(k), e2e_free(o);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: matrix kernels");
	TCase *t = tcase_create("matrix");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, gemm_sizes_agree, 0, 4 * NWIDTHS);
	tcase_add_loop_test(t, gemm_groups_agree, 0, 4);
	tcase_add_loop_test(t, gemm_strides_agree, 0, 4);
	tcase_add_loop_test(t, gemm_deep_agrees, 0, 4);
	tcase_add_loop_test(t, attention_lengths_agree, 0, 2 * NLENGTHS);
	tcase_add_loop_test(t, attention_heads_agree, 0, 2);
	tcase_add_loop_test(t, attention_empty_agrees, 0, 2);
	tcase_add_loop_test(t, attention_decodes, 0, 2);
	tcase_add_loop_test(t, attention_scales_agree, 0, 2);
	tcase_add_loop_test(t, attention_keeps_nans, 0, 2);
	tcase_add_loop_test(t, attention_requires_whole_groups, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
