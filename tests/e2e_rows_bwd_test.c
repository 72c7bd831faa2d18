/* e2e_rows_bwd_test.c -- gradients stored in 8 or 4 bits, through the runtime on both simulated chips, against f64: one scale of the tensor,
 * one a row, groups row-wise and transposed; with the column sums, the largest magnitude, and what is refused. */
#include "e2e_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { RMS, LAYER, GATED, PLAIN, CLAMPED, SOFTMAX };
struct formula { const char *name; enum kind kind; enum ref_act act; };
static const struct formula formulas[] = {
	{"rmsnorm", RMS, 0}, {"layernorm", LAYER, 0}, {"swiglu", GATED, REF_SILU}, {"geglu", GATED, REF_GELU}, {"geglu_tanh", GATED, REF_GELU_TANH},
	{"reglu", GATED, REF_RELU}, {"sreglu", GATED, REF_SRELU}, {"qgeglu", GATED, REF_QGELU}, {"silu", PLAIN, REF_SILU}, {"gelu", PLAIN, REF_GELU},
	{"gelu_tanh", PLAIN, REF_GELU_TANH}, {"relu", PLAIN, REF_RELU}, {"srelu", PLAIN, REF_SRELU}, {"qgelu", PLAIN, REF_QGELU},
	{"swiglu_clamped", CLAMPED, 0}, {"softmax", SOFTMAX, 0},
};
enum { NFORMULAS = sizeof formulas / sizeof *formulas };

enum scales { STATIC, ROWS, BOTH };
struct form { const char *suffix; enum scales scales; int group; enum ref_scale scale; bool fp4; };
static const struct form forms[] = {
	{"_bwd_static", STATIC, 0, 0, false}, {"_bwd_rows", ROWS, 0, 0, false}, {"_bwd_both_128", BOTH, 128, 0, false},
	{"_bwd_both_mxfp8", BOTH, 32, REF_SCALE_E8M0, false}, {"_bwd_both_mxfp4", BOTH, 32, REF_SCALE_E8M0, true},
};
enum { NFORMS = sizeof forms / sizeof *forms };

/* full: with every optional tensor; bf8: codes in e5m2; ways: of BOTH. */
enum { ROW_WISE = 1, COLUMN_WISE = 2 };
struct size { int64_t m, n; bool full, bf8; int ways; };

static int64_t width_of(const struct formula *f, int64_t n) { return f->kind == GATED || f->kind == CLAMPED ? 2 * n : n; }

/* Scales and codes of v[rows, n] in groups along the rows.  v's own error in f32, a few 2^-20 of the group's largest element, is a part of a step. */
static void check_groups(struct call *c, const struct form *o, enum ref_code code, const double *v, int64_t rows, int64_t n, int at, int at_scale)
{
	int64_t group = o->scales == ROWS ? n + !n : o->group;
	double *y = doubles(rows * n), *scales = doubles(rows * ((n + group - 1) / group + 1));
	ref_quantize(o->scale, code, 0, v, rows, n, 1, group, y, scales);
	for (int64_t i = 0; i < rows && !n; i++)
		scales[i] = 1;
	if (o->scale)
		call_scales(c, at_scale, scales);
	else
		call_near(c, at_scale, scales, 0x1p-18, 0x1p-30);
	call_codes_within(c, at, y, 0x1p-17 * ref_code_max(code));
	free(y), free(scales);
}

static void absent_if(struct call *c, bool absent, double **at, enum e2e_type t, struct shape s, double size)
{
	if (absent)
		call_absent(c);
	else
		*at = call_in(c, t, s, size);
}

static const double start = 0.25;           /* of amax */

/* What softmax gave of some logits. */
static const double *probabilities(struct call *c, int64_t m, int64_t n)
{
	double *logits = doubles(m * n), *p = doubles(m * n);
	for (int64_t i = 0; i < m * n; i++)
		logits[i] = ref_normal(&c->random) * 2;
	ref_softmax(logits, NULL, 1, 1, NULL, m, n, p);
	const double *kept = call_values(c, e2e_input(), SHAPE(m, n), p);
	free(logits), free(p);
	return kept;
}

static const double clamps[3] = {1, 1.5, 0.5};          /* limit, alpha, offset: some are clamped, and each is exact in f32 */

static void clamped_bwd(const double *dy, const double *h, const double *b, int64_t m, int64_t n, double *dh, double *db)
{
	for (int64_t i = 0; i < m * n; i++) {
		int64_t gate = i / n * 2 * n + i % n, up = gate + n;
		double by_gate, by_up;
		ref_clamped_swiglu_bwd(h[gate] + (b ? b[i % n] : 0), h[up] + (b ? b[n + i % n] : 0), clamps[0], clamps[1], clamps[2], &by_gate, &by_up);
		dh[gate] = dy[i] * by_gate;
		dh[up] = dy[i] * by_up;
		db[i % n] += dh[gate];
		db[n + i % n] += dh[up];
	}
}

/* The inputs up to and with amax, whose position is the result, and what f64 says: d of width `width`, column sums. */
static int inputs(struct call *c, const struct formula *f, const struct form *o, const struct size *z, double scale, double *d, double *dw, double *db)
{
	bool norm = f->kind == RMS || f->kind == LAYER;
	int64_t m = z->m, n = z->n, width = width_of(f, n);
	double *w = NULL, *dres = NULL, *b = NULL, *rstd = doubles(m), *mu = doubles(m), *v = doubles(m * n), *u = doubles(m * n);
	const double *dy = call_in(c, e2e_input(), SHAPE(m, n), 1), *x = f->kind == SOFTMAX ? probabilities(c, m, n) : call_in(c, e2e_input(), SHAPE(m, width), 1.5);
	if (f->kind == SOFTMAX) {
		ref_softmax_bwd(dy, x, 0.5, m, n, d);
	} else if (norm) {
		struct ref_norm p = {.layer = f->kind == LAYER, .eps = 1e-5, .offset = z->full};
		p.w = w = call_in(c, e2e_input(), SHAPE(n), 0.5);
		ref_norm(&p, x, m, n, v, u, rstd, mu);
		call_values(c, E2E_F32, SHAPE(m), rstd);
		if (p.layer)
			call_values(c, E2E_F32, SHAPE(m), mu);
		else
			call_absent(c);
		absent_if(c, !z->full, &dres, e2e_input(), SHAPE(m, n), 1);
		ref_norm_bwd(&p, dy, x, dres, m, n, d, dw, db);
	} else {
		absent_if(c, !z->full, &b, e2e_input(), SHAPE(width), 0.5);
		if (f->kind == CLAMPED)
			clamped_bwd(dy, x, b, m, n, d, db);
		else
			ref_activate_bwd(f->act, f->kind == GATED, dy, x, b, m, n, d, db);
	}
	if (o->scales == STATIC)
		call_values(c, E2E_F32, SHAPE(1), &scale);
	int at = c->n;
	if (z->full)
		call_values(c, E2E_F32, SHAPE(1), &start);
	else
		call_absent(c);
	if (norm)
		call_number(c, z->full);
	for (int i = 0; i < 3 && f->kind == CLAMPED; i++)
		call_number(c, clamps[i]);
	if (f->kind == SOFTMAX)
		call_number(c, 0.5);
	free(rstd), free(mu), free(v), free(u);
	return at;
}

static void backward(const struct e2e_chip *chip, const struct formula *f, const struct form *o, struct size z)
{
	struct call c;
	char name[64];
	if (o->fp4)                                  /* innermost extents of codes are even */
		z.n += z.n % 2, z.m += z.m % 2;
	if (width_of(f, z.n) > z.n && o->scales == BOTH && z.n % o->group)
		z.ways = COLUMN_WISE;
	bool norm = f->kind == RMS || f->kind == LAYER, row_wise = o->scales != BOTH || (z.ways & ROW_WISE), column_wise = o->scales == BOTH ? z.ways & COLUMN_WISE : z.full;
	int64_t m = z.m, n = z.n, width = width_of(f, n), group = o->group ? o->group : 1, groups = (n + group - 1) / group * (width / (n + !n));
	enum ref_code code = o->fp4 ? REF_E2M1 : z.bf8 ? chip->bf8 : chip->fp8;
	enum e2e_type type = e2e_code_type(code), type_s = o->scale ? E2E_E8M0 : E2E_F32;
	double *d = doubles(m * width), *dw = doubles(n), *db = doubles(width), scale = 0.0625;
	snprintf(name, sizeof name, "%s%s", f->name, o->suffix);
	call_begin(&c, chip, name, "M %ld, N %ld, %s, type %d, ways %d", (long)m, (long)n, z.full ? "full" : "bare", type, z.ways);
	int at_amax = inputs(&c, f, o, &z, scale, d, dw, db), at_s = -1, at_t = -1, at_st = -1, at_dw = -1;
	int at = call_maybe(&c, row_wise, type, SHAPE(m, width));
	if (o->scales != STATIC)
		at_s = call_maybe(&c, row_wise, type_s, o->scales == ROWS ? SHAPE(m) : TURNED(m, groups));
	if (o->scales != ROWS)
		at_t = call_maybe(&c, column_wise, type, SHAPE(width, m));
	if (o->scales == BOTH)
		at_st = call_maybe(&c, column_wise, type_s, TURNED(width, (m + group - 1) / group));
	if (norm)
		at_dw = call_maybe(&c, z.full, E2E_F32, SHAPE(n));
	int at_db = f->kind == SOFTMAX ? -1 : call_maybe(&c, z.full && f->kind != RMS, E2E_F32, SHAPE(width));
	call_go(&c);
	double *t = transposed(d, m, width), *y = doubles(m * width);
	for (int64_t i = 0; i < m * width; i++)
		y[i] = (o->scales == STATIC && at_t >= 0 ? t[i] : d[i]) / scale;
	if (o->scales != STATIC && row_wise)
		check_groups(&c, o, code, d, m, width, at, at_s);
	if (o->scales == BOTH && column_wise)
		check_groups(&c, o, code, t, width, m, at_t, at_st);
	if (o->scales == STATIC && at_t >= 0)
		call_codes_within(&c, at_t, y, 0x1p-14);
	for (int64_t i = 0; i < m * width; i++)
		y[i] = d[i] / scale;
	if (o->scales == STATIC)
		call_codes_within(&c, at, y, 0x1p-14);
	if (at_dw >= 0)
		call_near(&c, at_dw, dw, 0x1p-16, 0x1p-18 * (double)(m + 1));
	if (at_db >= 0)
		call_near(&c, at_db, db, 0x1p-16, 0x1p-18 * (double)(m + 1));
	if (z.full)
		call_near(&c, at_amax, &(double){fmax(ref_amax(d, m * width), start)}, 0x1p-17, 0);
	call_end(&c);
	free(d), free(dw), free(db), free(t), free(y);
}

START_TEST(backward_agrees)
{
	const struct formula *f = &formulas[_i / 2 / NFORMS];
	const struct form *o = &forms[_i / 2 % NFORMS];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {64, 128}, {130, 769}, {3, 4096}, {0, 64}, {3, 0}, {2, 7168}, {1, 14336}, {129, 256}};
	bool fp8_only = o->fp4;
	if (!e2e_full()) {                           /* compiled for the call: each on one chip, in one type */
		if (_i % 2 != _i / 2 % 2)
			return;
		bool bf8 = !fp8_only && _i / 4 % 2;
		backward(chip, f, o, (struct size){128, 256, true, bf8, ROW_WISE | COLUMN_WISE});
		backward(chip, f, o, (struct size){33, 131, false, bf8, COLUMN_WISE});
		backward(chip, f, o, (struct size){3, 0, true, bf8, ROW_WISE | COLUMN_WISE});
		return;
	}
	for (int bf8 = 0; bf8 < 1 + !fp8_only; bf8++)
		for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
			for (int full = 0; full < 2; full++) {
				backward(chip, f, o, (struct size){mn[i][0], mn[i][1], full, bf8, ROW_WISE | COLUMN_WISE});
				if (o->scales == BOTH)
					backward(chip, f, o, (struct size){mn[i][0], mn[i][1], full, bf8, full ? ROW_WISE : COLUMN_WISE});
			}
}
END_TEST

/* A group would hold columns of both halves; a layer norm's gradient without its means. */
START_TEST(refused)
{
	struct call c;
	double scale = 1, *d = doubles(2 * 3 * 33), *dw = doubles(33), *db = doubles(66);
	const struct size z = {3, 33, false, false, ROW_WISE};
	call_begin(&c, &e2e_chips[_i], "swiglu_bwd_both_mxfp8", "N 33");
	inputs(&c, &formulas[2], &forms[3], &z, scale, d, dw, db);
	call_out(&c, e2e_code_type(c.chip->fp8), SHAPE(3, 66)), call_out(&c, E2E_E8M0, TURNED(3, 4));
	for (int i = 0; i < 3; i++)
		call_absent(&c);
	call_refused(&c, TDSL_ESHAPE, "N % 32 == 0");
	call_end(&c);
	call_begin(&c, &e2e_chips[_i], "layernorm_bwd_rows", "without mu");
	inputs(&c, &formulas[0], &forms[1], &z, scale, d, dw, db);
	call_out(&c, e2e_code_type(c.chip->fp8), SHAPE(3, 33)), call_out(&c, E2E_F32, SHAPE(3));
	for (int i = 0; i < 2; i++)
		call_absent(&c);
	call_refused(&c, TDSL_ESHAPE, "mu");
	call_end(&c);
	free(d), free(dw), free(db);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: gradients in few bits");
	TCase *t = tcase_create("backward");
	tcase_set_timeout(t, 1000);
	tcase_add_loop_test(t, backward_agrees, 0, 2 * NFORMULAS * NFORMS);
	tcase_add_loop_test(t, refused, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
