/* e2e_rows_test.c -- rmsnorm_quant and swiglu_quant through the runtime on both simulated chips, against f64.
 *
 * Sizes: 0 and 1, one below, at and above vector and tile widths, odd and prime ones, and the large ones of real models; then
 * strided rows, strided columns, 3-D views, unaligned bases, NaN, infinities, zero and tiny rows.  E2E_FULL=1 adds larger grids. */
#include "e2e.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fill { NORMAL, ZERO_ROWS, SPECIAL, TINY, LARGE };

struct rows_case {
	int64_t batch, m, n;                 /* batch 0: two dimensions */
	struct e2e_place x, y;
	enum fill fill;
	enum ref_half half;                  /* of the inputs */
	enum ref_code code;                  /* REF_INT8, or anything else: the chip's fp8 */
};

static char *text(const struct e2e_chip *chip, const char *kernel, const struct rows_case *c)
{
	static char s[256];
	snprintf(s, sizeof s, "%s on %s, batch %ld, M %ld, N %ld, x pitch %ld step %ld shift %ld, y pitch %ld shift %ld, fill %d, %s, code %d",
	         kernel, chip->name, (long)c->batch, (long)c->m, (long)c->n, (long)c->x.pitch, (long)c->x.step, (long)c->x.shift,
	         (long)c->y.pitch, (long)c->y.shift, c->fill, c->half ? "f16" : "bf16", c->code);
	return s;
}

/* TINY: so small that the scale is at its floor; `tiny` keeps what the kernel multiplies within f32's normal numbers. */
static void fill_rows(enum ref_half t, uint16_t *x, int64_t rows, int64_t columns, enum fill fill, double tiny)
{
	struct ref_random r = {(uint64_t)(rows * 1000003 + columns)};
	double scale = fill == TINY ? tiny : fill == LARGE ? 0x1p30 : 1;
	ref_fill(&r, t, x, rows * columns, scale);
	for (int64_t i = 0; i < rows && columns; i++) {
		uint16_t *row = x + i * columns;
		if (fill == ZERO_ROWS && i % 2 == 0)
			memset(row, 0, (size_t)columns * 2);
		if (fill == SPECIAL && i % 4 != 3)
			row[(i * 37 + 5) % columns] = ref_half_round(t, (double[]){NAN, INFINITY, -INFINITY}[i % 4]);
	}
}

/* Compares one quantised result; scales and codes by the rules of ref.h. */
static void compare(enum ref_code code, const uint8_t *y, const float *scale, const double *ry, const double *rs, int64_t n, int64_t ns,
                    const char *what)
{
	char why[128];
	struct ref_diff d = ref_diff_f32(scale, rs, ns);
	ck_assert_msg(ref_agree_scale(&d, why, sizeof why), "%s: scale %ld: %s (found %.9g, expected %.9g)", what, (long)d.worst, why,
	              (double)scale[d.worst], rs[d.worst]);
	d = ref_diff_codes(code, y, ry, n);
	ck_assert_msg(ref_agree_codes(&d, why, sizeof why), "%s: y[%ld]: %s (found %g, expected %g)", what, (long)d.worst, why,
	              ref_code_value(code, y[d.worst]), ry[d.worst]);
}

static void rmsnorm(const struct e2e_chip *chip, struct rows_case c)
{
	enum ref_code code = c.code == REF_INT8 ? REF_INT8 : chip->fp8;
	if (!e2e_takes("rmsnorm_quant"))
		return;
	int64_t rows = (c.batch ? c.batch : 1) * c.m, n = c.n, shape[3] = {c.batch, c.m, n}, *sh = shape + !c.batch;
	int rank = 2 + !!c.batch;
	uint16_t *x = room(rows * n, 2), *w = room(n, 2);
	uint8_t *y = room(rows * n, 1);
	float *scale = room(rows, 4);
	double *ry = room(rows * n, 8), *rs = room(rows, 8);
	char *what = text(chip, "rmsnorm_quant", &c);
	fill_rows(c.half, x, rows, n, c.fill, 0x1p-120);
	fill_rows(c.half, w, 1, n, NORMAL, 1);
	struct e2e_tensor *tx = e2e_tensor(e2e_half_type(c.half), rank, sh, c.x, x), *tw = e2e_tensor(e2e_half_type(c.half), 1, &n, (struct e2e_place){0}, w),
		*ty = e2e_tensor(e2e_code_type(code), rank, sh, c.y, NULL),
		*ts = e2e_tensor(E2E_F32, rank - 1, sh, (struct e2e_place){0}, NULL);
	e2e_call(chip, "rmsnorm_quant", (union tdsl_arg[]){{.t = &tx->t}, {.t = &tw->t}, {.f = 1e-6}, {.t = &ty->t}, {.t = &ts->t}}, 5, what);
	e2e_read(ty, y, what);
	e2e_read(ts, scale, what);
	ref_rmsnorm_quant(c.half, x, w, (float)1e-6, rows, n, code, ry, rs);
	compare(code, y, scale, ry, rs, rows * n, rows, what);
	e2e_free(tx), e2e_free(tw), e2e_free(ty), e2e_free(ts);
	free(x), free(w), free(y), free(ry), free(scale), free(rs);
}

static void swiglu(const struct e2e_chip *chip, struct rows_case c)
{
	enum ref_code code = c.code == REF_INT8 ? REF_INT8 : chip->fp8;
	if (!e2e_takes("swiglu_quant"))
		return;
	int64_t rows = (c.batch ? c.batch : 1) * c.m, n = c.n, groups = (n + 127) / 128, ns = rows * groups;
	int rank = 2 + !!c.batch;
	int64_t hs[3] = {c.batch, c.m, 2 * n}, ys[3] = {c.batch, c.m, n}, ss[3] = {c.batch, c.m, groups};
	uint16_t *h = room(rows * 2 * n, 2);
	uint8_t *y = room(rows * n, 1);
	float *scale = room(ns, 4);
	double *ry = room(rows * n, 8), *rs = room(ns, 8);
	char *what = text(chip, "swiglu_quant", &c);
	fill_rows(c.half, h, rows, 2 * n, c.fill, 0x1p-60);
	struct e2e_tensor *th = e2e_tensor(e2e_half_type(c.half), rank, hs + !c.batch, c.x, h),
		*ty = e2e_tensor(e2e_code_type(code), rank, ys + !c.batch, c.y, NULL),
		*ts = e2e_tensor(E2E_F32, rank, ss + !c.batch, (struct e2e_place){0}, NULL);
	e2e_call(chip, "swiglu_quant", (union tdsl_arg[]){{.t = &th->t}, {.t = &ty->t}, {.t = &ts->t}}, 3, what);
	e2e_read(ty, y, what);
	e2e_read(ts, scale, what);
	ref_swiglu_quant(c.half, h, rows, n, 128, code, ry, rs);
	compare(code, y, scale, ry, rs, rows * n, ns, what);
	e2e_free(th), e2e_free(ty), e2e_free(ts);
	free(h), free(y), free(ry), free(scale), free(rs);
}

static const int64_t sizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 769, 1023, 1024, 1025,
	2047, 2048, 2049, 4095, 4096, 4097, 5120, 7168, 8191, 8192, 8193, 14336, 16384, 28672, 131072};
enum { NSIZES = sizeof sizes / sizeof *sizes };

START_TEST(sizes_agree)
{
	int64_t n = sizes[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	struct rows_case c = {.m = n > 8192 ? 1 : 3, .n = n};
	rmsnorm(chip, c);
	swiglu(chip, c);
	if (n <= 4096) {
		c.code = REF_INT8;
		rmsnorm(chip, c);
		c.half = REF_F16;
		rmsnorm(chip, c);
		c.code = REF_E4M3FN;
		rmsnorm(chip, c);
		swiglu(chip, c);
	}
}
END_TEST

START_TEST(empty_and_single_agree)
{
	static const int64_t mn[][2] = {{0, 0}, {0, 4096}, {3, 0}, {1, 1}, {0, 1}, {1, 4096}, {17, 769}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++) {
		rmsnorm(&e2e_chips[_i], (struct rows_case){.m = mn[i][0], .n = mn[i][1]});
		swiglu(&e2e_chips[_i], (struct rows_case){.m = mn[i][0], .n = mn[i][1]});
	}
}
END_TEST

/* Rows with gaps, columns with gaps, three dimensions, bases off the vector's alignment: nothing of it is refused or ignored. */
START_TEST(strided_agree)
{
	static const struct e2e_place places[] = {{.shift = 1}, {.shift = 3}, {.shift = 4}, {.shift = 8}};
	static const int64_t ns[] = {64, 769, 1024, 4096};
	for (size_t j = 0; j < 4; j++) {
		int64_t n = ns[j];
		struct rows_case cases[] = {
			{.m = 3, .n = n, .x = {.pitch = 2 * n + 8}, .y = {.pitch = n + 16}},
			{.m = 3, .n = n, .x = {.pitch = 2 * n + 3}, .y = {.pitch = n + 5}},
			{.m = 3, .n = n, .x = {.pitch = 4 * n + 6, .step = 2}},
			{.batch = 2, .m = 3, .n = n},
			{.batch = 2, .m = 3, .n = n, .x = {.pitch = 2 * n + 8}, .y = {.pitch = n + 16}},
			{.m = 3, .n = n, .x = places[j], .y = {.shift = 1}},
			{.m = 3, .n = n, .x = {.shift = 1}, .y = places[j]},
		};
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			rmsnorm(&e2e_chips[_i], cases[i]);
			swiglu(&e2e_chips[_i], cases[i]);
		}
	}
}
END_TEST

START_TEST(special_values_agree)
{
	static const int64_t ns[] = {1, 65, 769, 4096};
	static const enum fill fills[] = {ZERO_ROWS, SPECIAL, TINY, LARGE};
	for (size_t j = 0; j < 4; j++)
		for (size_t i = 0; i < 4; i++) {
			struct rows_case c = {.m = 5, .n = ns[j], .fill = fills[i]};
			rmsnorm(&e2e_chips[_i], c);
			if (fills[i] != LARGE)      /* 2^30 * 2^30 in one group: the codes of all others are 0 */
				swiglu(&e2e_chips[_i], c);
			c.code = REF_INT8;
			if (fills[i] != SPECIAL)    /* int8 has no NaN */
				rmsnorm(&e2e_chips[_i], c);
		}
}
END_TEST

START_TEST(many_rows_agree)
{
	int64_t m = getenv("E2E_FULL") ? 4096 : 67;
	rmsnorm(&e2e_chips[_i], (struct rows_case){.m = m, .n = 769});
	swiglu(&e2e_chips[_i], (struct rows_case){.m = m, .n = 769});
	rmsnorm(&e2e_chips[_i], (struct rows_case){.m = m, .n = 4096});
	swiglu(&e2e_chips[_i], (struct rows_case){.m = m / 4, .n = 4096});
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: rows");
	TCase *t = tcase_create("rows");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, sizes_agree, 0, 2 * NSIZES);
	tcase_add_loop_test(t, empty_and_single_agree, 0, 2);
	tcase_add_loop_test(t, strided_agree, 0, 2);
	tcase_add_loop_test(t, special_values_agree, 0, 2);
	tcase_add_loop_test(t, many_rows_agree, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
