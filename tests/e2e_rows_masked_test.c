/* e2e_rows_masked_test.c -- batches by expert (E, T, 2H) with tokens per expert, through the runtime on both simulated chips, against f64:
 * every kind of output, and backward.  Rows at and beyond tokens[e] keep their bytes: the poison that e2e_tensor put there. */
#include "e2e_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXPERTS = 5 };
static const double tokens[EXPERTS] = {3, 0, 7, 9, -2};   /* one more than there are, one negative */

static int64_t there(int expert, int64_t m)
{
	return tokens[expert] > (double)m ? m : tokens[expert] < 0 ? 0 : (int64_t)tokens[expert];
}

/* An output as (expert, row, column) or, transposed, (expert, column, row): elements of rows that are there are compared with
 * want[expert][row][column], all others must be poison.  kind: 0 plain, 1 codes, 2 scales.  `rows` of them: groups of `by` tokens.
 * error: of what becomes a code, in units of the largest. */
struct part { int arg; const double *want; int64_t rows, columns, by; bool transposed; int kind; double error; };

static double number(const struct call *c, int arg, const uint8_t *raw, int64_t i)
{
	switch (c->types[arg]) {
	case E2E_BF16: return ref_half_value(REF_BF16, ((const uint16_t *)(const void *)raw)[i]);
	case E2E_F16: return ref_half_value(REF_F16, ((const uint16_t *)(const void *)raw)[i]);
	case E2E_F32: return (double)((const float *)(const void *)raw)[i];
	case E2E_E8M0: return ldexp(1, raw[i] - 127);
	default: return ref_code_value(e2e_type_code(c->types[arg]), raw[i]);
	}
}

static void compare(struct call *c, const struct part *p, int64_t m)
{
	size_t size = c->tensors[p->arg]->size;
	int64_t n = p->rows * p->columns;
	uint8_t *raw = call_result(c, p->arg), poison[4] = {E2E_POISON, E2E_POISON, E2E_POISON, E2E_POISON};
	int64_t far = 0, all = 0;
	bool halves = c->types[p->arg] == E2E_E2M1;
	for (int64_t i = 0; i < EXPERTS * n; i++) {
		poison[0] = halves ? i % 2 ? E2E_POISON >> 4 : E2E_POISON & 15 : E2E_POISON;
		int e = (int)(i / n);
		int64_t row = p->transposed ? i % p->rows : i % n / p->columns, column = p->transposed ? i % n / p->rows : i % p->columns;
		if (row * p->by >= there(e, m)) {
			if (memcmp(raw + (size_t)i * size, poison, size))
				ck_abort_msg("%s: argument %d, expert %d: a row that is not there was written", c->what, p->arg, e);
			continue;
		}
		double want = p->want[(e * p->rows + row) * p->columns + column], got = number(c, p->arg, raw, i);
		if (p->kind == 1) {
			enum ref_code code = e2e_type_code(c->types[p->arg]);
			int off = abs(ref_code_step(code, raw[i]) - ref_code_step(code, ref_code_round(code, want)));
			if (off > 1)
				ck_abort_msg("%s: argument %d [%ld]: found %g, expected %g", c->what, p->arg, (long)i, got, want);
			double near = 0x1p-19 * fabs(want) + p->error * ref_code_max(code);
			far += off && ref_code_step(code, ref_code_round(code, want - near)) == ref_code_step(code, ref_code_round(code, want + near));
			all++;
		} else {
			double relative = p->kind == 2 ? 0x1p-19 : c->types[p->arg] == E2E_F32 ? 0x1p-20 : 0x1p-7, absolute = p->kind == 2 ? 0x1p-30 : 0x1p-14;
			if (!(fabs(got - want) <= relative * fabs(want) + absolute))
				ck_abort_msg("%s: argument %d [%ld]: found %.9g, expected %.9g", c->what, p->arg, (long)i, got, want);
		}
	}
	ck_assert_msg((double)far <= fmax(1, 1e-4 * (double)all), "%s: argument %d: %ld of %ld codes differ", c->what, p->arg, (long)far, (long)all);
	free(raw);
}

/* --- forward */

enum scales { WHOLE, ROWS, GROUPS, BOTH };
struct kernel { const char *name; enum ref_act act; enum scales scales; int group; enum ref_scale scale; bool fp4; };
static const struct kernel kernels[] = {
	{"swiglu_masked", REF_SILU, WHOLE, 0, 0, false}, {"geglu_masked", REF_GELU, WHOLE, 0, 0, false}, {"geglu_tanh_masked", REF_GELU_TANH, WHOLE, 0, 0, false},
	{"reglu_masked", REF_RELU, WHOLE, 0, 0, false}, {"sreglu_masked", REF_SRELU, WHOLE, 0, 0, false}, {"qgeglu_masked", REF_QGELU, WHOLE, 0, 0, false},
	{"swiglu_masked_rows", REF_SILU, ROWS, 0, 0, false}, {"geglu_masked_rows", REF_GELU, ROWS, 0, 0, false}, {"geglu_tanh_masked_rows", REF_GELU_TANH, ROWS, 0, 0, false},
	{"swiglu_masked_128", REF_SILU, GROUPS, 128, 0, false}, {"geglu_masked_128", REF_GELU, GROUPS, 128, 0, false}, {"geglu_tanh_masked_128", REF_GELU_TANH, GROUPS, 128, 0, false},
	{"swiglu_masked_128_e8m0", REF_SILU, GROUPS, 128, REF_SCALE_E8M0, false}, {"swiglu_masked_mxfp8", REF_SILU, GROUPS, 32, REF_SCALE_E8M0, false},
	{"swiglu_masked_mxfp4", REF_SILU, GROUPS, 32, REF_SCALE_E8M0, true},
	{"swiglu_masked_both_mxfp8", REF_SILU, BOTH, 32, REF_SCALE_E8M0, false},
	{"swiglu_masked_both_128", REF_SILU, BOTH, 128, 0, false}, {"swiglu_masked_both_mxfp4", REF_SILU, BOTH, 32, REF_SCALE_E8M0, true},
};
enum { NKERNELS = sizeof kernels / sizeof *kernels };

/* full: with every optional tensor and a cap; type: of the codes, or of a WHOLE result. */
static void forward(const struct e2e_chip *chip, const struct kernel *k, int64_t m, int64_t n, bool full, enum e2e_type type)
{
	struct call c;
	if (!e2e_takes(k->name))
		return;
	m += k->fp4 && k->scales == BOTH && m % 2;              /* innermost extents of codes are even; tokens stay odd */
	bool coded = type == e2e_code_type(chip->fp8) || type == E2E_I8 || k->fp4;
	int64_t group = k->group ? k->group : n, gn = (n + group - 1) / group, gm = (m + group - 1) / group, all = EXPERTS * m * n;
	double *v = doubles(all), *y = doubles(all), *yt = doubles(all), *s = doubles(EXPERTS * m * gn), *st = doubles(EXPERTS * n * gm), *column = doubles(m * n), *column_y = doubles(m * n),
		*column_s = doubles(n * gm), scale = coded ? 0.0625 : 1, amax = 0.5, top = amax;
	const double *smooth = NULL, cap = 1;
	enum ref_code code = type == E2E_I8 ? REF_INT8 : k->fp4 ? REF_E2M1 : chip->fp8;
	call_begin(&c, chip, k->name, "M %ld, N %ld, %s, type %d", (long)m, (long)n, full ? "full" : "bare", type);
	const double *h = call_in(&c, e2e_input(), SHAPE(EXPERTS, m, 2 * n), 1.5);
	call_values(&c, E2E_I32, SHAPE(EXPERTS), tokens);
	if (k->scales == WHOLE && coded)
		call_values(&c, E2E_F32, SHAPE(1), &scale);
	else if (k->scales == ROWS && full)
		smooth = call_in(&c, E2E_F32, SHAPE(EXPERTS, n), 1);
	else if (k->scales < GROUPS)
		call_absent(&c);
	if (k->scales == ROWS && full)
		call_values(&c, E2E_F32, SHAPE(1), &cap);
	else if (k->scales == ROWS)
		call_absent(&c);
	int at_amax = c.n;
	if (full)
		call_values(&c, E2E_F32, SHAPE(1), &amax);
	else
		call_absent(&c);
	enum e2e_type ts = k->scale ? E2E_E8M0 : E2E_F32;
	int at_y = call_out(&c, type, SHAPE(EXPERTS, m, n)), at_s = -1, at_yt = -1, at_st = -1;
	if (k->scales == ROWS)
		at_s = call_out(&c, E2E_F32, SHAPE(EXPERTS, m));
	else if (k->scales != WHOLE)
		at_s = call_out(&c, ts, k->scales == BOTH ? TURNED(EXPERTS, m, gn) : SHAPE(EXPERTS, m, gn));
	if (k->scales == BOTH)
		at_yt = call_out(&c, type, SHAPE(EXPERTS, n, m)), at_st = call_out(&c, ts, TURNED(EXPERTS, n, gm));
	call_go(&c);
	for (int e = 0; e < EXPERTS; e++) {
		int64_t rows = there(e, m), at = e * m * n;
		ref_activate(k->act, 1, h + 2 * at, NULL, rows, n, v + at);
		for (int64_t i = 0; i < rows * n; i++)
			v[at + i] *= smooth ? smooth[e * n + i % n] : 1;
		top = fmax(top, ref_amax(v + at, rows * n));
		if (k->scales != WHOLE)
			ref_quantize(k->scale, code, k->scales == ROWS && full ? cap : 0, v + at, rows, n, 1, group, y + at, s + e * m * gn);
		for (int64_t i = 0; i < rows * n && k->scales == WHOLE; i++)
			y[at + i] = v[at + i] / scale;
		for (int64_t i = 0; i < rows * n; i++)
			column[i % n * rows + i / n] = v[at + i];
		int64_t parts = (rows + group - 1) / group;
		if (at_yt >= 0 && rows)
			ref_quantize(k->scale, code, 0, column, n, rows, 1, group, column_y, column_s);
		for (int64_t i = 0; i < rows * n && at_yt >= 0; i++)
			yt[at + i] = column_y[i % n * rows + i / n];
		for (int64_t i = 0; i < parts * n && at_yt >= 0; i++)
			st[e * n * gm + i] = column_s[i % n * parts + i / n];
	}
	compare(&c, &(struct part){at_y, y, m, n, 1, false, coded, 0}, m);
	if (at_s >= 0)
		compare(&c, &(struct part){at_s, s, m, gn, 1, false, 2, 0}, m);
	if (at_yt >= 0) {
		compare(&c, &(struct part){at_yt, yt, m, n, 1, true, 1, 0}, m);
		compare(&c, &(struct part){at_st, st, gm, n, group, true, 2, 0}, m);
	}
	if (full)
		call_near(&c, at_amax, &top, 0x1p-18, 0);
	call_end(&c);
	free(v), free(y), free(yt), free(s), free(st), free(column), free(column_y), free(column_s);
}

START_TEST(forward_agrees)
{
	const struct kernel *k = &kernels[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	enum e2e_type fp8 = k->fp4 ? E2E_E2M1 : e2e_code_type(chip->fp8);
	static const int64_t mn[][2] = {{7, 128}, {7, 33}, {5, 400}, {1, 16}, {33, 769}, {8, 2048}, {7, 14336}};
	bool every = e2e_full() || e2e_shipped(chip, k->name);
	for (int i = 0; i < (every ? 5 + e2e_full() : 1); i++)
		for (int full = 0; full < 2; full++) {
			forward(chip, k, mn[i][0], mn[i][1] + (k->fp4 && mn[i][1] % 2), full, k->scales == WHOLE ? e2e_input() : fp8);
			if (k->scales == WHOLE && (every || full))
				forward(chip, k, mn[i][0], mn[i][1], full, fp8);
			if (k->scales == ROWS && (every || full))
				forward(chip, k, mn[i][0], mn[i][1], full, E2E_I8);
		}
	forward(chip, k, 0, 64, true, fp8);
}
END_TEST

/* --- backward */

START_TEST(backward_agrees)
{
	static const struct { const char *name; enum ref_act act; } all[] = {
		{"swiglu_masked_bwd", REF_SILU}, {"geglu_masked_bwd", REF_GELU}, {"geglu_tanh_masked_bwd", REF_GELU_TANH},
		{"reglu_masked_bwd", REF_RELU}, {"sreglu_masked_bwd", REF_SRELU}, {"qgeglu_masked_bwd", REF_QGELU}};
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t mn[][2] = {{7, 128}, {7, 33}, {0, 64}, {33, 769}, {7, 2048}};
	for (int i = 0; i < (e2e_full() || _i < 2 ? 5 : 1); i++) {
		struct call c;
		int64_t m = mn[i][0], n = mn[i][1];
		double *dh = doubles(EXPERTS * m * 2 * n), *db = doubles(2 * n);
		call_begin(&c, chip, all[_i / 2].name, "M %ld, N %ld", (long)m, (long)n);
		const double *dy = call_in(&c, e2e_input(), SHAPE(EXPERTS, m, n), 1), *h = call_in(&c, e2e_input(), SHAPE(EXPERTS, m, 2 * n), 1.5);
		call_values(&c, E2E_I32, SHAPE(EXPERTS), tokens);
		int at = call_out(&c, e2e_input(), SHAPE(EXPERTS, m, 2 * n));
		call_go(&c);
		for (int e = 0; e < EXPERTS; e++)
			ref_activate_bwd(all[_i / 2].act, 1, dy + e * m * n, h + e * m * 2 * n, NULL, there(e, m), n, dh + e * m * 2 * n, db);
		compare(&c, &(struct part){at, dh, m, 2 * n, 1, false, 0, 0}, m);
		call_end(&c);
		free(dh), free(db);
	}
}
END_TEST

/* --- backward into 8 or 4 bits */

struct gradient { const char *name; enum ref_act act; enum scales scales; int group; enum ref_scale scale; bool fp4; };
static const struct gradient gradients[] = {
	{"swiglu_masked_bwd_static", REF_SILU, WHOLE, 0, 0, false}, {"geglu_masked_bwd_static", REF_GELU, WHOLE, 0, 0, false},
	{"geglu_tanh_masked_bwd_static", REF_GELU_TANH, WHOLE, 0, 0, false}, {"reglu_masked_bwd_static", REF_RELU, WHOLE, 0, 0, false},
	{"sreglu_masked_bwd_static", REF_SRELU, WHOLE, 0, 0, false}, {"qgeglu_masked_bwd_static", REF_QGELU, WHOLE, 0, 0, false},
	{"swiglu_masked_bwd_rows", REF_SILU, ROWS, 0, 0, false}, {"geglu_masked_bwd_rows", REF_GELU, ROWS, 0, 0, false},
	{"geglu_tanh_masked_bwd_rows", REF_GELU_TANH, ROWS, 0, 0, false}, {"reglu_masked_bwd_rows", REF_RELU, ROWS, 0, 0, false},
	{"sreglu_masked_bwd_rows", REF_SRELU, ROWS, 0, 0, false}, {"qgeglu_masked_bwd_rows", REF_QGELU, ROWS, 0, 0, false},
	{"swiglu_masked_bwd_both_128", REF_SILU, BOTH, 128, 0, false}, {"geglu_masked_bwd_both_128", REF_GELU, BOTH, 128, 0, false},
	{"geglu_tanh_masked_bwd_both_128", REF_GELU_TANH, BOTH, 128, 0, false}, {"swiglu_masked_bwd_both_mxfp8", REF_SILU, BOTH, 32, REF_SCALE_E8M0, false},
	{"geglu_masked_bwd_both_mxfp8", REF_GELU, BOTH, 32, REF_SCALE_E8M0, false}, {"geglu_tanh_masked_bwd_both_mxfp8", REF_GELU_TANH, BOTH, 32, REF_SCALE_E8M0, false},
	{"swiglu_masked_bwd_both_mxfp4", REF_SILU, BOTH, 32, REF_SCALE_E8M0, true}, {"geglu_masked_bwd_both_mxfp4", REF_GELU, BOTH, 32, REF_SCALE_E8M0, true},
	{"geglu_tanh_masked_bwd_both_mxfp4", REF_GELU_TANH, BOTH, 32, REF_SCALE_E8M0, true},
};
enum { NGRADIENTS = sizeof gradients / sizeof *gradients };

static void gradient(const struct e2e_chip *chip, const struct gradient *k, int64_t m, int64_t n, bool full, bool bf8)
{
	struct call c;
	bool both = k->scales == BOTH, row_wise = !both || n % k->group == 0;
	int64_t width = 2 * n, group = k->group ? k->group : width, gw = (width + group - 1) / group, gm = (m + group - 1) / group, all = EXPERTS * m * width;
	double *d = doubles(all), *y = doubles(all), *yt = doubles(all), *s = doubles(EXPERTS * m * gw), *st = doubles(EXPERTS * width * gm), *column = doubles(m * width),
		*column_y = doubles(m * width), *column_s = doubles(width * (gm + 1)), *db = doubles(width), scale = 0.0625, top = 0.5;
	enum ref_code code = k->fp4 ? REF_E2M1 : bf8 ? chip->bf8 : chip->fp8;
	enum e2e_type type = e2e_code_type(code), ts = k->scale ? E2E_E8M0 : E2E_F32;
	call_begin(&c, chip, k->name, "M %ld, N %ld, %s, type %d", (long)m, (long)n, full ? "full" : "bare", type);
	const double *dy = call_in(&c, e2e_input(), SHAPE(EXPERTS, m, n), 1), *h = call_in(&c, e2e_input(), SHAPE(EXPERTS, m, width), 1.5);
	call_values(&c, E2E_I32, SHAPE(EXPERTS), tokens);
	if (k->scales == WHOLE)
		call_values(&c, E2E_F32, SHAPE(1), &scale);
	int at_amax = c.n, at_s = -1, at_yt = -1, at_st = -1;
	if (full)
		call_values(&c, E2E_F32, SHAPE(1), &top);
	else
		call_absent(&c);
	int at_y = call_maybe(&c, row_wise, type, SHAPE(EXPERTS, m, width));
	if (k->scales == ROWS)
		at_s = call_out(&c, E2E_F32, SHAPE(EXPERTS, m));
	if (both) {
		at_s = call_maybe(&c, row_wise, ts, TURNED(EXPERTS, m, gw));
		at_yt = call_out(&c, type, SHAPE(EXPERTS, width, m)), at_st = call_out(&c, ts, TURNED(EXPERTS, width, gm));
	}
	call_go(&c);
	for (int e = 0; e < EXPERTS; e++) {
		int64_t rows = there(e, m), at = e * m * width;
		ref_activate_bwd(k->act, 1, dy + e * m * n, h + at, NULL, rows, n, d + at, db);
		top = fmax(top, ref_amax(d + at, rows * width));
		if (k->scales != WHOLE && row_wise)
			ref_quantize(k->scale, code, 0, d + at, rows, width, 1, group, y + at, s + e * m * gw);
		for (int64_t i = 0; i < rows * width; i++) {
			y[at + i] = k->scales == WHOLE ? d[at + i] / scale : y[at + i];
			column[i % width * rows + i / width] = d[at + i];
		}
		int64_t parts = (rows + group - 1) / group;
		if (both && rows)
			ref_quantize(k->scale, code, 0, column, width, rows, 1, group, column_y, column_s);
		for (int64_t i = 0; i < rows * width && both; i++)
			yt[at + i] = column_y[i % width * rows + i / width];
		for (int64_t i = 0; i < parts * width && both; i++)
			st[e * width * gm + i] = column_s[i % width * parts + i / width];
	}
	if (row_wise)
		compare(&c, &(struct part){at_y, y, m, width, 1, false, 1, 0x1p-17}, m);
	if (at_s >= 0)
		compare(&c, &(struct part){at_s, s, m, gw, 1, false, 2, 0}, m);
	if (both) {
		compare(&c, &(struct part){at_yt, yt, m, width, 1, true, 1, 0x1p-17}, m);
		compare(&c, &(struct part){at_st, st, gm, width, group, true, 2, 0}, m);
	}
	if (full)
		call_near(&c, at_amax, &top, 0x1p-17, 0);
	call_end(&c);
	free(d), free(y), free(yt), free(s), free(st), free(column), free(column_y), free(column_s), free(db);
}

START_TEST(gradients_agree)
{
	const struct gradient *k = &gradients[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t mn[][2] = {{8, 128}, {7, 33}, {16, 400}, {34, 769}, {0, 64}, {8, 2048}};
	if (!e2e_full() && _i % 2 != _i / 2 % 2)     /* compiled for the call: each on one chip, in one type */
		return;
	for (int i = 0; i < (e2e_full() ? 5 : 2); i++)
		for (int bf8 = 0; bf8 < 1 + (e2e_full() && !k->fp4); bf8++)
			gradient(chip, k, mn[i][0] + (k->fp4 && mn[i][0] % 2), mn[i][1] + (k->fp4 && mn[i][1] % 2), i % 2 == 0, bf8);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: batches by expert");
	TCase *t = tcase_create("masked");
	tcase_set_timeout(t, 1000);
	tcase_add_loop_test(t, forward_agrees, 0, 2 * NKERNELS);
	tcase_add_loop_test(t, backward_agrees, 0, 12);
	tcase_add_loop_test(t, gradients_agree, 0, 2 * NGRADIENTS);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
