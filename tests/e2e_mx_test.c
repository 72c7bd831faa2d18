/* e2e_mx_test.c -- products of operands in MX, grouped_gemm_mx and grouped_gemm_mx_weights, through the runtime on both simulated chips, against f64.
 *
 * In: codes of fp8 and e2m1, a scale (e8m0) for 32 of a row, groups of rows, one of them empty.  Lengths that tiles hold, that end within a tile, a group or
 * a vector; scales that are no number, the least one, and such as are 2^50 apart.  gfx950 multiplies codes and scales as they are, gfx942 numbers of bf16. */
#include "e2e.h"
#include <math.h>
#include <stdlib.h>

enum { M = 70, N = 136, K = 544, E = 3, GROUP = 32 };

/* One operand as the call gets it, and what it stands for: code times 2^(scale - 127), which is no number where the scale is 255. */
struct mx { uint8_t codes[E * N * K], scales[E * N * K / GROUP]; double value[E * N * K]; };

static void mx_fill(struct mx *x, enum ref_code type, int rows, int k, struct ref_random *r)
{
	int groups = (k + GROUP - 1) / GROUP;
	for (int i = 0; i < rows * groups; i++)
		x->scales[i] = (uint8_t)(100 + 50 * ref_uniform(r));
	x->scales[rows * groups / 2] = 255;
	x->scales[1] = 0;
	for (int i = 0; i < rows * k; i++) {
		x->codes[i] = ref_code_round(type, ref_normal(r) * ref_code_max(type) / 4);
		uint8_t scale = x->scales[i / k * groups + i % k / GROUP];
		x->value[i] = scale == 255 ? NAN : ldexp(ref_code_value(type, x->codes[i]), scale - 127);
	}
}

/* e2m1: two codes a byte. */
static struct e2e_tensor *mx_tensor(const struct mx *x, enum ref_code type, int64_t experts, int64_t rows, int64_t k)
{
	static uint8_t pairs[E * N * K / 2];
	for (int i = 0; i < experts * rows * k / 2; i++)
		pairs[i] = (uint8_t)(x->codes[2 * i] | x->codes[2 * i + 1] << 4);
	int64_t shape[3] = {experts, rows, k};
	return e2e_tensor(e2e_code_type(type), experts > 1 ? 3 : 2, experts > 1 ? shape : shape + 1, (struct e2e_place){0}, type == REF_E2M1 ? pairs : x->codes);
}

static struct e2e_tensor *mx_scales(const struct mx *x, int64_t experts, int64_t rows, int64_t k)
{
	int64_t shape[3] = {experts, rows, (k + GROUP - 1) / GROUP};
	return e2e_tensor(E2E_E8M0, experts > 1 ? 3 : 2, experts > 1 ? shape : shape + 1, (struct e2e_place){0}, x->scales);
}

static const int32_t first[E + 1] = {0, 40, 40, M};

static void check(const struct e2e_chip *chip, const char *what, struct e2e_tensor *c, const double *a, const double *b, int n, int k)
{
	static uint16_t found[M * N];
	e2e_read(c, found, what);
	for (int i = 0; i < M * n; i++) {
		int m = i / n, e = m < first[1] ? 0 : 2;
		double sum = 0, size = 0, got = ref_half_value(REF_BF16, found[i]);
		for (int j = 0; j < k; j++) {
			double term = a[m * k + j] * b[(e * n + i % n) * k + j];
			sum += term;
			size += fabs(term);
		}
		bool right = isnan(sum) ? isnan(got) : fabs(got - sum) <= fabs(sum) * 0x1p-8 + size * 2e-6 + 0x1p-120;
		ck_assert_msg(right, "%s on %s, N %d, K %d [%d, %d]: found %.9g, expected %.9g", what, chip->name, n, k, m, i % n, got, sum);
	}
	e2e_free(c);
}

static void agree(const struct e2e_chip *chip, const enum ref_code type[2], int n, int k, struct ref_random *r)
{
	static struct mx x, w;
	static double wide[M * K];
	static uint16_t half[M * K];
	const int64_t shape[2] = {M, n}, rows[2] = {M, k}, bounds = E + 1;
	mx_fill(&x, type[0], M, k, r);
	mx_fill(&w, type[1], E * n, k, r);
	struct e2e_tensor *a = mx_tensor(&x, type[0], 1, M, k), *sa = mx_scales(&x, 1, M, k), *b = mx_tensor(&w, type[1], E, n, k), *sb = mx_scales(&w, E, n, k),
		*f = e2e_tensor(E2E_I32, 1, &bounds, (struct e2e_place){0}, first), *c = e2e_tensor(E2E_BF16, 2, shape, (struct e2e_place){0}, NULL);
	e2e_call(chip, "grouped_gemm_mx", (union tdsl_arg[]){{.t = &a->t}, {.t = &sa->t}, {.t = &b->t}, {.t = &sb->t}, {.t = &f->t}, {.t = &c->t}}, 6, "codes by codes");
	check(chip, "codes by codes", c, x.value, w.value, n, k);
	ref_fill(r, REF_BF16, half, (int64_t)M * k, 1);
	for (int i = 0; i < M * k; i++)
		wide[i] = ref_half_value(REF_BF16, half[i]);
	struct e2e_tensor *h = e2e_tensor(E2E_BF16, 2, rows, (struct e2e_place){0}, half), *d = e2e_tensor(E2E_BF16, 2, shape, (struct e2e_place){0}, NULL);
	e2e_call(chip, "grouped_gemm_mx_weights", (union tdsl_arg[]){{.t = &h->t}, {.t = &b->t}, {.t = &sb->t}, {.t = &f->t}, {.t = &d->t}}, 5, "bf16 by codes");
	check(chip, "bf16 by codes", d, wide, w.value, n, k);
	e2e_free(a), e2e_free(sa), e2e_free(b), e2e_free(sb), e2e_free(f), e2e_free(h);
}

START_TEST(products_agree)
{
	static const int lengths[][2] = {{N, 512}, {N, 544}, {N, 272}, {131, 104}, {N, 2}};
	const struct e2e_chip *chip = &e2e_chips[_i / 4 % 2];
	if (_i / 8)                                    /* what is planned for few rows is passed over */
		setenv("TDSL_BATCH_INVARIANT", "1", 1);
	const enum ref_code types[] = {chip->fp8, REF_E2M1};
	struct ref_random r = {11};
	for (unsigned n = 0; n < sizeof lengths / sizeof *lengths; n++)
		agree(chip, (const enum ref_code[]){types[_i % 2], types[_i / 2 % 2]}, lengths[n][0], lengths[n][1], &r);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("e2e_mx");
	TCase *t = tcase_create("mx");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, products_agree, 0, 16);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
