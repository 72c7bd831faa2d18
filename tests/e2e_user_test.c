/* e2e_user_test.c -- kernels as users write them (tests/e2e_user.tdsl), compiled and run on both simulated chips, against f64 and fmod.
 *
 * None of them is shipped: products whose epilogues hold more than planned tiles leave room for, remainders of floats, masks that are
 * tensors, conditions as numbers, what is read and written, groups of any size.  Sizes end within tiles and vectors; races are errors.  In: $B/user.tpack, which tdslc built. */
#include "e2e.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 70, N = 201, K = 104, NARROW = 56 };

static void call(const struct e2e_chip *chip, const char *name, const union tdsl_arg *args, int n)
{
	static tdsl_pack pack;
	char path[512];
	tdsl_kernel kernel;
	tdsl_stream stream;
	const char *b = getenv("B");
	e2e_kernel(chip, "add", &stream);                                    /* opens the device */
	snprintf(path, sizeof path, "%s/user.tpack", b ? b : "build");
	ck_assert_msg(pack || tdsl_pack_open(&pack, path) == 0, "%s", tdsl_error());
	ck_assert_msg(tdsl_kernel_find(&kernel, pack, name) == 0, "%s", tdsl_error());
	ck_assert_msg(tdsl_call(kernel, stream, args, n, NULL, 0) == 0 && tdsl_sync(stream) == 0, "%s on %s: %s", name, chip->name, tdsl_error());
}

static struct e2e_tensor *tensor(enum e2e_type type, int64_t m, int64_t n, const void *dense)
{
	return e2e_tensor(type, n ? 2 : 1, (int64_t[]){m, n}, (struct e2e_place){0}, dense);
}

static void near_sum(const struct e2e_chip *chip, const char *what, int at, double found, double wanted, double size)
{
	ck_assert_msg(fabs(found - wanted) <= fabs(wanted) * 0x1p-8 + size * 1e-5, "%s on %s [%d]: found %.9g, expected %.9g", what, chip->name, at, found, wanted);
}

static void products_agree_for(const struct e2e_chip *chip, int n)
{
	static uint16_t a[M * K], b[N * K], res[M * N], c[M * N], pre[M * N];
	static float bias[N];
	struct ref_random r = {17};
	ref_fill(&r, REF_BF16, a, M * K, 1);
	ref_fill(&r, REF_BF16, b, n * K, 1);
	ref_fill(&r, REF_BF16, res, M * n, 1);
	for (int i = 0; i < n; i++)
		bias[i] = (float)i / 64 - 1;
	struct e2e_tensor *ta = tensor(E2E_BF16, M, K, a), *tb = tensor(E2E_BF16, n, K, b), *ti = tensor(E2E_F32, n, 0, bias), *tr = tensor(E2E_BF16, M, n, res),
		*tc = tensor(E2E_BF16, M, n, NULL), *tp = tensor(E2E_BF16, M, n, NULL);
	call(chip, "product", (union tdsl_arg[]){{.t = &ta->t}, {.t = &tb->t}, {.t = &tp->t}}, 3);
	e2e_read(tp, pre, "product");
	for (int i = 0; i < M * n; i++) {
		double sum = 0, size = 0;
		for (int k = 0; k < K; k++) {
			double term = ref_half_value(REF_BF16, a[i / n * K + k]) * ref_half_value(REF_BF16, b[i % n * K + k]);
			sum += term;
			size += fabs(term);
		}
		near_sum(chip, "product", i, ref_half_value(REF_BF16, pre[i]), sum, size);
	}
	call(chip, "product_join", (union tdsl_arg[]){{.t = &ta->t}, {.t = &tb->t}, {.t = &ti->t}, {.t = &tr->t}, {.t = &tc->t}, {.t = &tp->t}}, 6);
	e2e_read(tc, c, "product_join");
	e2e_read(tp, pre, "product_join");
	for (int i = 0; i < M * n; i++) {
		double z = bias[i % n], size = 0, joined = ref_half_value(REF_BF16, res[i]);
		for (int k = 0; k < K; k++) {
			double term = ref_half_value(REF_BF16, a[i / n * K + k]) * ref_half_value(REF_BF16, b[i % n * K + k]);
			z += term;
			size += fabs(term);
		}
		near_sum(chip, "product_join, pre", i, ref_half_value(REF_BF16, pre[i]), z, size);
		near_sum(chip, "product_join, c", i, ref_half_value(REF_BF16, c[i]), z * erfc(-z * M_SQRT1_2) / 2 + joined, size + fabs(joined));
	}
	e2e_free(ta), e2e_free(tb), e2e_free(ti), e2e_free(tr), e2e_free(tc), e2e_free(tp);
}

START_TEST(products_agree)
{
	products_agree_for(&e2e_chips[_i], NARROW);
	products_agree_for(&e2e_chips[_i], N);
}
END_TEST

/* Every pair of numbers of all sizes, zeros, infinities and NaN among them, and pairs drawn from all bits. */
START_TEST(remainders_are_fmod)
{
	static const float special[] = {0, -0.f, 1, -1, 3, 0.1f, FLT_MIN, FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, -FLT_TRUE_MIN, 0x1.fffffep-127f, 0x1p24f, 0x1.000002p24f, 7.5e-40f,
		0x1.fffffep100f, INFINITY, -INFINITY, NAN, 0x1.8p-100f};
	enum { COUNT = sizeof special / sizeof *special };
	static float x[M * N], y[M * N], z[M * N];
	struct ref_random r = {5};
	for (int i = 0; i < M * N; i++) {
		uint32_t bits[2] = {(uint32_t)(ref_uniform(&r) * 0x1p32), (uint32_t)(ref_uniform(&r) * 0x1p32)};
		memcpy(&x[i], &bits[0], 4);
		memcpy(&y[i], &bits[1], 4);
		if (i < COUNT * COUNT) {
			x[i] = special[i / COUNT];
			y[i] = special[i % COUNT];
		}
	}
	struct e2e_tensor *tx = tensor(E2E_F32, M, N, x), *ty = tensor(E2E_F32, M, N, y), *tz = tensor(E2E_F32, M, N, NULL);
	call(&e2e_chips[_i], "wrap", (union tdsl_arg[]){{.t = &tx->t}, {.t = &ty->t}, {.t = &tz->t}}, 3);
	e2e_read(tz, z, "wrap");
	for (int i = 0; i < M * N; i++) {
		float want = fmodf(x[i], y[i]);
		ck_assert_msg(isnan(want) ? isnan(z[i]) : want == z[i] && signbit(want) == signbit(z[i]), "%a %% %a on %s: found %a, expected %a", x[i], y[i],
		              e2e_chips[_i].name, z[i], want);
	}
	e2e_free(tx), e2e_free(ty), e2e_free(tz);
}
END_TEST

START_TEST(masks_and_conditions_agree)
{
	static uint8_t mask[M * N], below[M * N];
	static int8_t above[M * N];
	static float x[M * N], y[M * N];
	struct ref_random r = {9};
	for (int i = 0; i < M * N; i++) {
		mask[i] = ref_uniform(&r) < 0.5;
		x[i] = i % 7 ? (float)ref_uniform(&r) - 0.5f : 0;
	}
	struct e2e_tensor *tm = tensor(E2E_BOOL, M, N, mask), *tx = tensor(E2E_F32, M, N, x), *ty = tensor(E2E_F32, M, N, NULL), *ta = tensor(E2E_I8, M, N, NULL),
		*tb = tensor(E2E_U8, M, N, NULL);
	call(&e2e_chips[_i], "choose", (union tdsl_arg[]){{.t = &tm->t}, {.t = &tx->t}, {.t = &ty->t}, {.t = &ta->t}, {.t = &tb->t}}, 5);
	e2e_read(ty, y, "choose");
	e2e_read(ta, above, "choose");
	e2e_read(tb, below, "choose");
	for (int i = 0; i < M * N; i++)
		ck_assert_msg(y[i] == (mask[i] ? x[i] : 0) && above[i] == (x[i] > 0) && below[i] == (x[i] < 0), "%s [%d]: mask %d, x %g: %g, %d, %d", e2e_chips[_i].name, i,
		              mask[i], x[i], y[i], above[i], below[i]);
	e2e_free(tm), e2e_free(tx), e2e_free(ty), e2e_free(ta), e2e_free(tb);
}
END_TEST

/* The next of a row behind `last`, which is its n for the first: the largest that is no larger, and of equals the next; -1: there is none. */
static int chosen_next(const float *x, int n, int last)
{
	int next = -1;
	for (int i = 0; i < n; i++) {
		bool behind = last == n || x[i] < x[last] || (x[i] == x[last] && i > last);
		if (!isnan(x[i]) && behind && (next < 0 || x[i] > x[next]))
			next = i;
	}
	return next;
}

/* Rows shorter than what is asked for, of ties, zeros of both signs, infinities and NaNs, of one wave and of several. */
START_TEST(the_largest_and_sums_up_to_a_place_agree)
{
	enum { ROWS = 4, MOST = 5000, CHOSEN = 8 };
	static const int lengths[] = {5, 64, 1000, MOST};
	static const float special[] = {INFINITY, NAN, -INFINITY, 0, -0.f, -NAN, 2, 2};
	static float x[ROWS * MOST], value[ROWS * CHOSEN], upto[ROWS * MOST];
	static int32_t place[ROWS * CHOSEN], ahead[ROWS * MOST];
	struct ref_random r = {3};
	for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
		int n = lengths[l];
		for (int i = 0; i < ROWS * n; i++)
			x[i] = i / n == 0 ? special[i % 8] : i / n == 1 ? (float)(int)(ref_uniform(&r) * 9 - 4) : (float)(ref_uniform(&r) * 4 - 2);
		struct e2e_tensor *tx = tensor(E2E_F32, ROWS, n, x), *tv = tensor(E2E_F32, ROWS, CHOSEN, NULL), *tp = tensor(E2E_I32, ROWS, CHOSEN, NULL),
			*tu = tensor(E2E_F32, ROWS, n, NULL), *ta = tensor(E2E_I32, ROWS, n, NULL);
		call(&e2e_chips[_i], "routed", (union tdsl_arg[]){{.t = &tx->t}, {.t = &tv->t}, {.t = &tp->t}, {.t = &tu->t}, {.t = &ta->t}}, 5);
		e2e_read(tv, value, "routed");
		e2e_read(tp, place, "routed");
		e2e_read(tu, upto, "routed");
		e2e_read(ta, ahead, "routed");
		for (int m = 0; m < ROWS; m++) {
			const float *row = x + m * n;
			int next = n, on = 0;
			double sum = 0, size = 0;
			for (int k = 0; k < CHOSEN; k++) {
				next = next < 0 ? -1 : chosen_next(row, n, next);
				float want = next < 0 ? -FLT_MAX : row[next];
				ck_assert_msg(place[m * CHOSEN + k] == next && value[m * CHOSEN + k] == want, "%s, row %d of %d, choice %d: found %g at %d, expected %g at %d",
				              e2e_chips[_i].name, m, n, k, value[m * CHOSEN + k], place[m * CHOSEN + k], want, next);
			}
			for (int i = 0; i < n; i++) {
				double term = fabsf(row[i]) < 1000 ? row[i] : 1;
				sum += term;
				size += fabs(term);
				on += term > 0;
				ck_assert_msg(fabs(upto[m * n + i] - sum) <= size * 2e-6 && ahead[m * n + i] == on, "%s, row %d of %d, up to %d: found %.9g and %d, expected %.9g and %d",
				              e2e_chips[_i].name, m, n, i, upto[m * n + i], ahead[m * n + i], sum, on);
			}
		}
		e2e_free(tx), e2e_free(tv), e2e_free(tp), e2e_free(tu), e2e_free(ta);
	}
}
END_TEST

/* Rows of several waves; c is halved by one of them, when all have read it. */
START_TEST(what_is_stored_was_read_before)
{
	enum { ROWS = 3 };
	static const int lengths[] = {64, 1024, 3000, 8192};
	for (int l = 0; l < 4; l++) {
		int n = lengths[l];
		float *x = calloc((size_t)(ROWS * n), 4), *y = calloc((size_t)(ROWS * n), 4), c[ROWS] = {1, 2, 4}, after[ROWS];
		for (int i = 0; i < ROWS * n; i++)
			x[i] = (float)(i % n % 7 - 3);
		struct e2e_tensor *tx = tensor(E2E_F32, ROWS, n, x), *ty = tensor(E2E_F32, ROWS, n, NULL), *tc = tensor(E2E_F32, ROWS, 0, c);
		tc->output = true;
		call(&e2e_chips[_i], "carry", (union tdsl_arg[]){{.t = &tx->t}, {.t = &tc->t}, {.t = &ty->t}}, 3);
		e2e_read(ty, y, "carry");
		e2e_read(tc, after, "carry");
		for (int i = 0; i < ROWS * n; i++)
			ck_assert_msg(y[i] == x[i] * c[i / n], "carry on %s, N %d [%d]: found %g, expected %g", e2e_chips[_i].name, n, i, y[i], x[i] * c[i / n]);
		for (int m = 0; m < ROWS; m++)
			ck_assert_msg(after[m] == c[m] / 2, "carry on %s, N %d: c[%d] is %g, expected %g", e2e_chips[_i].name, n, m, after[m], c[m] / 2);
		e2e_free(tx), e2e_free(ty), e2e_free(tc);
		free(x), free(y);
	}
}
END_TEST

/* Groups of 24, the last of a row perhaps of fewer. */
START_TEST(groups_of_any_size_agree)
{
	enum { G = 24, MOST = 4 * 240 };
	static const struct { int rows, n; } sizes[] = {{4, 240}, {2, 33}};
	struct ref_random r = {3};
	for (int s = 0; s < 2; s++) {
		int rows = sizes[s].rows, n = sizes[s].n, groups = (n + G - 1) / G;
		float x[MOST], most[MOST], least[MOST];
		for (int i = 0; i < rows * n; i++)
			x[i] = (float)ref_normal(&r);
		struct e2e_tensor *tx = tensor(E2E_F32, rows, n, x), *tm = tensor(E2E_F32, rows, groups, NULL), *tl = tensor(E2E_F32, rows, groups, NULL);
		call(&e2e_chips[_i], "groups", (union tdsl_arg[]){{.t = &tx->t}, {.t = &tm->t}, {.t = &tl->t}}, 3);
		e2e_read(tm, most, "groups");
		e2e_read(tl, least, "groups");
		for (int g = 0; g < rows * groups; g++) {
			float high = -FLT_MAX, low = FLT_MAX;
			for (int i = g % groups * G; i < (g % groups + 1) * G && i < n; i++) {
				high = fmaxf(high, x[g / groups * n + i]);
				low = fminf(low, x[g / groups * n + i]);
			}
			ck_assert_msg(most[g] == high && least[g] == low, "groups on %s, N %d [%d]: %g, %g, expected %g, %g", e2e_chips[_i].name, n, g, most[g], least[g], high, low);
		}
		e2e_free(tx), e2e_free(tm), e2e_free(tl);
	}
}
END_TEST

static float of_bits(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, 4);
	return x;
}

static void check_rounded(const struct e2e_chip *chip, const char *what, uint32_t by, int at, uint16_t found, double want)
{
	uint16_t nearest = ref_half_round(REF_BF16, want);
	bool is_nan = (found & 0x7fff) > 0x7f80;
	ck_assert_msg(isnan(want) ? is_nan : abs(found - nearest) <= 1, "%s on %s, by %08x [%d]: found %04x, expected %04x", what, chip->name, by, at, found, nearest);
}

/* Whatever a NaN's bits, it is rounded to one; numbers to the nearest, but for what sums and functions err. */
START_TEST(nans_are_rounded_to_nans)
{
	enum { ROWS = 3, COLUMNS = 200 };
	static const uint32_t bits[] = {0x3f800000, 0x7fffffff, 0xffffffff, 0x7f800001, 0xffbfffff, 0x7fc00000, 0x7f80ffff, 0x7f800000};
	static uint16_t x[ROWS * COLUMNS], y[ROWS * COLUMNS], z[ROWS * COLUMNS], s[ROWS], t[ROWS], u[ROWS * COLUMNS], o[ROWS * COLUMNS];
	static float w[COLUMNS];
	const struct e2e_chip *chip = &e2e_chips[_i];
	for (unsigned b = 0; b < sizeof bits / sizeof *bits; b++) {
		for (int i = 0; i < ROWS * COLUMNS; i++)
			x[i] = i == 5 ? 0x7fff : i == 6 ? 0xffff : i == 7 ? 0x7f81 : ref_half_round(REF_BF16, i % 11 / 8.0 + 0.125);     /* NaNs in the first row */
		for (int i = 0; i < COLUMNS; i++)
			w[i] = i % 5 ? 1 : of_bits(bits[i / 5 % (sizeof bits / sizeof *bits)]);
		float by = of_bits(bits[b]), beside = of_bits(bits[b ? 0 : 1]);
		if (b == 7)
			beside = -1;                                             /* whose root is the chip's own NaN */
		struct e2e_tensor *tx = tensor(E2E_BF16, ROWS, COLUMNS, x), *tw = tensor(E2E_F32, COLUMNS, 0, w), *ty = tensor(E2E_BF16, ROWS, COLUMNS, NULL),
			*tz = tensor(E2E_BF16, ROWS, COLUMNS, NULL), *ts = tensor(E2E_BF16, ROWS, 0, NULL), *tt = tensor(E2E_BF16, ROWS, 0, NULL),
			*tu = tensor(E2E_BF16, ROWS, COLUMNS, NULL), *to = tensor(E2E_BF16, ROWS, COLUMNS, NULL);
		call(chip, "rounded", (union tdsl_arg[]){{.t = &tx->t}, {.t = &tw->t}, {.f = by}, {.f = beside}, {.t = &ty->t}, {.t = &tz->t}, {.t = &ts->t}, {.t = &tt->t},
		                                        {.t = &tu->t}, {.t = &to->t}}, 10);
		e2e_read(ty, y, "y");
		e2e_read(tz, z, "z");
		e2e_read(ts, s, "s");
		e2e_read(tt, t, "t");
		e2e_read(tu, u, "u");
		e2e_read(to, o, "b");
		for (int m = 0; m < ROWS; m++) {
			double sum = 0, top = -1;
			for (int n = 0; n < COLUMNS; n++) {
				int i = m * COLUMNS + n;
				double value = ref_half_value(REF_BF16, x[i]);
				sum += value * by;
				top = fmax(top, value);
				check_rounded(chip, "y", bits[b], i, y[i], value * by + 1 / sqrt(beside));
				check_rounded(chip, "z", bits[b], i, z[i], value * w[n]);
				check_rounded(chip, "u", bits[b], i, u[i], tanh(value * by));
				check_rounded(chip, "b", bits[b], i, o[i], isinf(w[n]) ? NAN : w[n]);
			}
			check_rounded(chip, "s", bits[b], m, s[m], exp2(sum * 0.001));
			check_rounded(chip, "t", bits[b], m, t[m], sum + top);
		}
		e2e_free(tx), e2e_free(tw), e2e_free(ty), e2e_free(tz), e2e_free(ts), e2e_free(tt), e2e_free(tu), e2e_free(to);
	}
}
END_TEST

int main(void)
{
	setenv("TDSL_SIM_CHECKS", "1", 1);                                   /* races are errors */
	Suite *suite = suite_create("e2e_user");
	TCase *t = tcase_create("user");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, products_agree, 0, 2);
	tcase_add_loop_test(t, remainders_are_fmod, 0, 2);
	tcase_add_loop_test(t, masks_and_conditions_agree, 0, 2);
	tcase_add_loop_test(t, the_largest_and_sums_up_to_a_place_agree, 0, 2);
	tcase_add_loop_test(t, what_is_stored_was_read_before, 0, 2);
	tcase_add_loop_test(t, groups_of_any_size_agree, 0, 2);
	tcase_add_loop_test(t, nans_are_rounded_to_nans, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
