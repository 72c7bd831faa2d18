/* e2e_rows_recipe_test.c -- softmax, residual sums and the training recipes through the runtime on both simulated chips, against f64:
 * delayed scaling over a history. */
#include "e2e_rows.h"
#include <math.h>
#include <stdlib.h>

/* --- softmax: batch, rows, columns */

static void softmax(const struct e2e_chip *chip, int64_t b, int64_t s, int64_t n, bool masked, bool causal)
{
	struct call c;
	double *y = doubles(b * s * n), scale = 0.375;
	const double *mask = NULL;
	int64_t *seen = calloc((size_t)(b * s) + 1, sizeof *seen);
	call_begin(&c, chip, "softmax_rows", "%ld x %ld x %ld, masked %d, causal %d", (long)b, (long)s, (long)n, masked, causal);
	const double *x = call_in(&c, e2e_input(), SHAPE(b, s, n), 4);
	if (masked)
		mask = call_in(&c, e2e_input(), SHAPE(s, n), 2);
	else
		call_absent(&c);
	call_number(&c, scale), call_integer(&c, causal);
	int at = call_out(&c, e2e_input(), SHAPE(b, s, n));
	call_go(&c);
	for (int64_t i = 0; i < b * s; i++) {
		int64_t last = i % s + n - s + 1;
		seen[i] = !causal ? n : last < 0 ? 0 : last > n ? n : last;
	}
	ref_softmax(x, mask, s ? s : 1, scale, seen, b * s, n, y);
	call_near(&c, at, y, 0x1p-7, 0x1p-24);
	call_end(&c);
	free(y), free(seen);
}

START_TEST(softmax_agrees)
{
	const struct e2e_chip *chip = &e2e_chips[_i];
	static const int64_t sizes[] = {1, 7, 16, 128, 769, 4096, 7168};
	for (int i = 0; i < 7; i++)
		for (int form = 0; form < 4; form++)
			softmax(chip, 2, sizes[i] > 1000 ? 1 : 3, sizes[i], form & 1, form & 2);
	softmax(chip, 1, 0, 16, false, false);
	softmax(chip, 2, 3, 0, false, false);
	softmax(chip, 1, 5, 2, false, true);                  /* the first rows see nothing */
	softmax(chip, 1, 1, _i ? 131072 : 14336, false, false);
}
END_TEST

START_TEST(softmax_backward_agrees)
{
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {0, 16}, {3, 0}, {5, 128}, {3, 769}, {1, 4096}, {1, 14336}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++) {
		struct call c;
		int64_t m = mn[i][0], n = mn[i][1];
		double *p = doubles(m * n), *dx = doubles(m * n);
		call_begin(&c, &e2e_chips[_i], "softmax_bwd", "M %ld, N %ld", (long)m, (long)n);
		double *dy = call_in(&c, e2e_input(), SHAPE(m, n), 1), *logits = doubles(m * n);
		for (int64_t j = 0; j < m * n; j++)
			logits[j] = ref_normal(&c.random) * 2;
		ref_softmax(logits, NULL, 1, 1, NULL, m, n, p);
		const double *y = call_values(&c, e2e_input(), SHAPE(m, n), p);
		call_number(&c, 0.5);
		int at = call_out(&c, e2e_input(), SHAPE(m, n));
		call_go(&c);
		ref_softmax_bwd(dy, y, 0.5, m, n, dx);
		call_near(&c, at, dx, 0x1p-7, 0x1p-20);
		call_end(&c);
		free(p), free(dx), free(logits);
	}
}
END_TEST

START_TEST(add_agrees)
{
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {0, 16}, {5, 128}, {3, 769}, {3, 4096}, {1, 131072}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++) {
		struct call c;
		int64_t m = mn[i][0], n = mn[i][1];
		double *want = doubles(m * n);
		call_begin(&c, &e2e_chips[_i], "add", "M %ld, N %ld", (long)m, (long)n);
		const double *x = call_in(&c, e2e_input(), SHAPE(m, n), 1), *res = call_in(&c, e2e_input(), SHAPE(m, n), 3);
		int at = call_out(&c, e2e_input(), SHAPE(m, n));
		call_go(&c);
		for (int64_t j = 0; j < m * n; j++)
			want[j] = x[j] + res[j];
		call_plain(&c, at, want, n);
		call_end(&c);
		free(want);
	}
}
END_TEST

/* --- delayed scaling */

static void delayed(const struct e2e_chip *chip, int64_t h, int64_t k, int newest)
{
	struct call c;
	double *start = doubles(h * k), *history = doubles(h * k), *scale = doubles(k), *inverse = doubles(k), top = ref_code_max(chip->fp8);
	struct ref_random r = {(uint64_t)(h * 100 + k)};
	for (int64_t i = 0; i < h * k; i++)
		start[i] = (float)fabs(ref_normal(&r));
	for (int64_t i = 0; i < k; i++) {
		scale[i] = (float)(1 + ref_uniform(&r));
		inverse[i] = (float)(1 / scale[i]);
		for (int64_t j = 0; j < h && i % 4 == 1; j++)       /* nothing seen: the scale stays */
			start[j * k + i] = 0;
		if (h && i % 4 == 2)
			start[i] = i % 8 == 2 ? INFINITY : NAN;
		if (h && i % 4 == 3)
			start[(h - 1) * k + i] = 100;
	}
	call_begin(&c, chip, "delayed_scaling", "history %ld, tensors %ld, newest %d", (long)h, (long)k, newest);
	const double *kept = call_values(&c, E2E_F32, SHAPE(h, k), start);
	call_values(&c, E2E_F32, SHAPE(k), scale);
	call_values(&c, E2E_F32, SHAPE(k), inverse);
	call_number(&c, top), call_number(&c, 1), call_integer(&c, newest);
	call_go(&c);
	for (int64_t i = 0; i < h * k; i++)
		history[i] = kept[i];
	double *was = doubles(k);
	for (int64_t i = 0; i < k; i++)
		was[i] = scale[i];
	ref_delayed_scaling(history, h, k, top, 1, newest, scale);
	for (int64_t i = 0; i < k; i++)
		if (scale[i] != was[i])
			inverse[i] = 1 / scale[i];
	call_near(&c, 0, history, 0, 0);
	call_near(&c, 1, scale, 0x1p-21, 0);
	call_near(&c, 2, inverse, 0x1p-21, 0);
	call_end(&c);
	free(start), free(history), free(scale), free(inverse), free(was);
}

START_TEST(delayed_scaling_agrees)
{
	static const int64_t hk[][2] = {{1, 1}, {16, 7}, {1024, 5}, {3, 300}, {0, 5}, {4, 0}};
	for (size_t i = 0; i < sizeof hk / sizeof *hk; i++)
		for (int newest = 0; newest < 2; newest++)
			delayed(&e2e_chips[_i], hk[i][0], hk[i][1], newest);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: softmax and recipes");
	TCase *t = tcase_create("recipes");
	tcase_set_timeout(t, 1000);
	tcase_add_loop_test(t, softmax_agrees, 0, 2);
	tcase_add_loop_test(t, softmax_backward_agrees, 0, 2);
	tcase_add_loop_test(t, add_agrees, 0, 2);
	tcase_add_loop_test(t, delayed_scaling_agrees, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
