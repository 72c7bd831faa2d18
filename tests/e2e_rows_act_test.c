/* e2e_rows_act_test.c -- activations and quantisation by itself through the runtime on both simulated chips, against f64: gated and
 * not, clamped gates, each with every kind of output; backward; rows, groups, blocks, both directions, and back. */
#include "e2e_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- activations: every formula in every form */

enum kind { PLAIN, GATED, CLAMPED };
struct formula { const char *name; enum ref_act act; enum kind kind; };
static const struct formula formulas[] = {
	{"swiglu", REF_SILU, GATED}, {"geglu", REF_GELU, GATED}, {"geglu_tanh", REF_GELU_TANH, GATED}, {"reglu", REF_RELU, GATED},
	{"sreglu", REF_SRELU, GATED}, {"qgeglu", REF_QGELU, GATED}, {"silu", REF_SILU, PLAIN}, {"gelu", REF_GELU, PLAIN}, {"gelu_tanh", REF_GELU_TANH, PLAIN},
	{"relu", REF_RELU, PLAIN}, {"srelu", REF_SRELU, PLAIN}, {"qgelu", REF_QGELU, PLAIN}, {"swiglu_clamped", REF_SILU, CLAMPED},
};
enum { NFORMULAS = sizeof formulas / sizeof *formulas };

/* One scale of the tensor, or none; one a row; one a group; the same row-wise and transposed. */
enum shape_of_scales { WHOLE, ROWS, GROUPS, BOTH };
struct form { const char *suffix; enum shape_of_scales scales; int group; enum ref_scale scale; bool fp4; };
static const struct form forms[] = {
	{"", WHOLE, 0, 0, false}, {"_rows", ROWS, 0, 0, false}, {"_128", GROUPS, 128, 0, false}, {"_128_e8m0", GROUPS, 128, REF_SCALE_E8M0, false}, {"_mxfp8", GROUPS, 32, REF_SCALE_E8M0, false},
	{"_mxfp4", GROUPS, 32, REF_SCALE_E8M0, true},
	{"_both_128", BOTH, 128, 0, false}, {"_both_mxfp8", BOTH, 32, REF_SCALE_E8M0, false}, {"_both_mxfp4", BOTH, 32, REF_SCALE_E8M0, true},
};
enum { NFORMS = sizeof forms / sizeof *forms };

/* full: with every optional input and output; type: of a WHOLE result; ways: of BOTH. */
enum { ROW_WISE = 1, COLUMN_WISE = 2 };
struct size { int64_t batch, m, n; bool full; enum e2e_type type; struct e2e_place h, y; int ways; };
static const double limit = 1.5, alpha = (float)1.702, offset = 1;

static const char *name_of(const struct formula *f, const struct form *o)
{
	static char name[64];
	snprintf(name, sizeof name, "%s%s", f->name, *o->suffix || f->kind != PLAIN ? o->suffix : "_act");
	return name;
}

static void values(const struct formula *f, const double *h, const double *b, int64_t rows, int64_t n, double *v)
{
	if (f->kind != CLAMPED)
		ref_activate(f->act, f->kind == GATED, h, b, rows, n, v);
	for (int64_t i = 0; i < rows * n && f->kind == CLAMPED; i++) {
		const double *at = h + i / n * 2 * n + i % n;
		v[i] = ref_clamped_swiglu(at[0] + (b ? b[i % n] : 0), at[n] + (b ? b[n + i % n] : 0), limit, alpha, offset);
	}
}

/* Scales and codes of v[rows, n] in groups along the rows.  The reference's f32 scale is compared loosely: f's own error is in it. */
static void check_groups(struct call *c, enum ref_scale kind, enum ref_code code, double cap, const double *v, int64_t rows, int64_t n, int64_t group, int at, int at_scale)
{
	double *y = doubles(rows * n), *scales = doubles(rows * ((n + group - 1) / group + 1));
	ref_quantize(kind, code, cap, v, rows, n, 1, group, y, scales);
	for (int64_t i = 0; i < rows && !n; i++)
		scales[i] = 1;
	if (kind)
		call_scales(c, at_scale, scales);
	else
		call_near(c, at_scale, scales, 0x1p-19, 0x1p-30);
	call_codes(c, at, y);
	free(y), free(scales);
}

/* In units of `scale`.  Near 0 gelu's factor 1 + erf cancels. */
static void check_whole(struct call *c, const double *v, int64_t count, double scale, int at)
{
	double *y = doubles(count);
	for (int64_t i = 0; i < count; i++)
		y[i] = v[i] / scale;
	if (c->types[at] == e2e_input())
		call_near(c, at, y, 0x1p-7, 0x1p-14);
	else
		call_codes_within(c, at, y, 0x1p-17);
	free(y);
}

static void activate(const struct e2e_chip *chip, const struct formula *f, const struct form *o, struct size z)
{
	struct call c;
	if (!e2e_takes(name_of(f, o)))
		return;
	enum ref_code code = o->fp4 ? REF_E2M1 : chip->fp8;
	if (o->fp4)                                  /* extents, pitches and shifts are even */
		z.n += z.n % 2, z.m += o->scales == BOTH ? z.m % 2 : 0, z.y.shift += z.y.shift % 2;
	int64_t rows = (z.batch ? z.batch : 1) * z.m, n = z.n, width = f->kind == PLAIN ? n : 2 * n, group = o->group ? o->group : n + !n;
	enum e2e_type fp8 = e2e_code_type(code), type = o->scales == WHOLE && z.type == E2E_BF16 ? e2e_input() : fp8,
		type_s = o->scale ? E2E_E8M0 : E2E_F32;
	double *v = doubles(rows * n), *t, scale = type == fp8 ? 0.125 : 1, amax = 0.25, cap = z.full ? 1 : 0;
	const double *b = NULL, *smooth = NULL;
	int at_y, at_s = -1, at_yt = -1, at_st = -1;
	call_begin(&c, chip, name_of(f, o), "batch %ld, M %ld, N %ld, %s, type %d, h pitch %ld step %ld shift %ld, y pitch %ld shift %ld, ways %d", (long)z.batch,
	           (long)z.m, (long)n, z.full ? "full" : "bare", type, (long)z.h.pitch, (long)z.h.step, (long)z.h.shift, (long)z.y.pitch, (long)z.y.shift, z.ways);
	const double *h = call_in(&c, e2e_input(), rows_of(z.batch, z.m, width, z.h), 1.5);
	if (z.full)
		b = call_in(&c, e2e_input(), SHAPE(width), 0.5);
	else
		call_absent(&c);
	values(f, h, b, rows, n, v);
	if (o->scales == WHOLE && type == fp8)
		call_values(&c, E2E_F32, SHAPE(1), &scale);
	else if (o->scales == ROWS && z.full)
		smooth = call_in(&c, E2E_F32, SHAPE(n), 1);
	else if (o->scales == WHOLE || o->scales == ROWS)
		call_absent(&c);
	for (int64_t i = 0; i < rows * n && smooth; i++)
		v[i] *= smooth[i % n];
	if (o->scales == ROWS && z.full)
		call_values(&c, E2E_F32, SHAPE(1), &cap);
	else if (o->scales == ROWS)
		call_absent(&c);
	int at_amax = c.n;
	if (z.full)
		call_values(&c, E2E_F32, SHAPE(1), &amax);
	else
		call_absent(&c);
	if (f->kind == CLAMPED)
		call_number(&c, limit), call_number(&c, alpha), call_number(&c, offset);
	bool across = o->scales == BOTH, there = !across || (z.ways & ROW_WISE);
	at_y = call_maybe(&c, there, type, rows_of(z.batch, z.m, n, z.y));
	if (o->scales == ROWS)
		at_s = call_out(&c, E2E_F32, z.batch ? SHAPE(z.batch, z.m) : SHAPE(z.m));
	else if (o->scales != WHOLE)
		at_s = call_maybe(&c, there, type_s, across ? TURNED(rows, (n + group - 1) / group) : rows_of(z.batch, z.m, (n + group - 1) / group, (struct e2e_place){0}));
	if (o->scales == WHOLE || across)
		at_yt = call_maybe(&c, across ? (z.ways & COLUMN_WISE) != 0 : z.full && !z.batch, type, SHAPE(n, z.m));
	if (across)
		at_st = call_maybe(&c, z.ways & COLUMN_WISE, type_s, TURNED(n, (z.m + group - 1) / group));
	call_go(&c);
	if (o->scales == WHOLE)
		check_whole(&c, v, rows * n, scale, at_y);
	else if (there)
		check_groups(&c, o->scale, code, o->scales == ROWS ? cap : 0, v, rows, n, group, at_y, at_s);
	t = transposed(v, rows, n);
	if (at_yt >= 0 && across)
		check_groups(&c, o->scale, code, 0, t, n, rows, group, at_yt, at_st);
	else if (at_yt >= 0)
		check_whole(&c, t, rows * n, scale, at_yt);
	double top = ref_amax(v, rows * n);
	if (z.full)
		call_near(&c, at_amax, &(double){top > amax ? top : amax}, 0x1p-18, 0);
	call_end(&c);
	free(v), free(t);
}

static const int64_t sizes[] = {1, 7, 16, 128, 400, 769, 4096, 7168};
enum { NSIZES = sizeof sizes / sizeof *sizes };

static void quick(const struct e2e_chip *chip, const struct formula *f, const struct form *o)
{
	activate(chip, f, o, (struct size){.m = 128, .n = 128, .full = true, .ways = ROW_WISE | COLUMN_WISE});
	activate(chip, f, o, (struct size){.m = 3, .n = 131, .type = E2E_E4M3FN, .ways = ROW_WISE});
}

/* What the pack holds, everywhere; what is compiled for the call, quickly, or wholly with E2E_FULL. */
START_TEST(activations_agree)
{
	const struct formula *f = &formulas[_i / 2 / NFORMS];
	const struct form *o = &forms[_i / 2 % NFORMS];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	int both = ROW_WISE | COLUMN_WISE;
	if (!e2e_full() && !e2e_shipped(chip, name_of(f, o))) {
		if (_i % 2 == _i / 2 % 2)
			quick(chip, f, o);
		return;
	}
	for (int i = 0; i < NSIZES; i++)
		for (int full = 0; full < 2; full++) {
			struct size z = {.m = sizes[i] > 1024 ? 1 : 3, .n = sizes[i], .full = full, .ways = both};
			activate(chip, f, o, z);
			z.type = E2E_E4M3FN;
			if (o->scales == WHOLE)
				activate(chip, f, o, z);
		}
	activate(chip, f, o, (struct size){.m = 0, .n = 64, .full = true, .ways = both});
	activate(chip, f, o, (struct size){.m = 3, .n = 0, .full = true, .ways = both});
	activate(chip, f, o, (struct size){.m = 2, .n = 769, .h = {.pitch = 4 * 769 + 6, .step = 2}, .ways = both});
	activate(chip, f, o, (struct size){.m = 3, .n = 1024, .h = {.pitch = 2056}, .y = {.pitch = 1040}, .type = E2E_E4M3FN, .ways = both});
	activate(chip, f, o, (struct size){.m = 3, .n = 1024, .h = {.shift = 1}, .y = {.shift = 3}, .ways = both});
	activate(chip, f, o, (struct size){.batch = 2, .m = 3, .n = 256, .full = true, .ways = ROW_WISE});
	if (o->scales == BOTH) {
		activate(chip, f, o, (struct size){.m = 256, .n = 128, .ways = both});
		activate(chip, f, o, (struct size){.m = 129, .n = 33, .full = true, .ways = both});
		activate(chip, f, o, (struct size){.m = 128, .n = 256, .ways = COLUMN_WISE});
	}
	if (_i % 2 == (_i / 2) % 2) {
		activate(chip, f, o, (struct size){.m = 1, .n = 14336, .type = E2E_E4M3FN, .ways = both});
		if (e2e_full() || _i % 5 == 0)
			activate(chip, f, o, (struct size){.m = 1, .n = 131072, .type = E2E_E4M3FN, .ways = both});
	}
}
END_TEST

/* --- backward */

static void clamped_bwd(const double *dy, const double *h, const double *b, int64_t m, int64_t n, double *dh, double *db)
{
	for (int64_t j = 0; j < 2 * n; j++)
		db[j] = 0;
	for (int64_t i = 0; i < m * n; i++) {
		int64_t j = i % n, at = i / n * 2 * n + j;
		ref_clamped_swiglu_bwd(h[at] + (b ? b[j] : 0), h[at + n] + (b ? b[n + j] : 0), limit, alpha, offset, &dh[at], &dh[at + n]);
		db[j] += dh[at] *= dy[i];
		db[n + j] += dh[at + n] *= dy[i];
	}
}

static void backward(const struct e2e_chip *chip, const char *kernel, enum ref_act act, int gated, int64_t m, int64_t n, bool full)
{
	struct call c;
	if (!e2e_takes(kernel))
		return;
	int64_t width = gated ? 2 * n : n;
	double *dh = doubles(m * width), *db = doubles(width);
	const double *b = NULL;
	call_begin(&c, chip, kernel, "M %ld, N %ld, %s", (long)m, (long)n, full ? "full" : "bare");
	const double *dy = call_in(&c, e2e_input(), SHAPE(m, n), 1), *h = call_in(&c, e2e_input(), SHAPE(m, width), 1.5);
	if (full)
		b = call_in(&c, e2e_input(), SHAPE(width), 0.5);
	else
		call_absent(&c);
	if (gated == CLAMPED)
		call_number(&c, limit), call_number(&c, alpha), call_number(&c, offset);
	int at = call_out(&c, e2e_input(), SHAPE(m, width)), at_b = call_maybe(&c, full, E2E_F32, SHAPE(width));
	call_go(&c);
	if (gated == CLAMPED)
		clamped_bwd(dy, h, b, m, n, dh, db);
	else
		ref_activate_bwd(act, gated, dy, h, b, m, n, dh, db);
	call_near(&c, at, dh, 0x1p-7, 0x1p-14);
	if (full)
		call_near(&c, at_b, db, 0x1p-16, 0x1p-18 * (double)(m + 1));
	call_end(&c);
	free(dh), free(db);
}

START_TEST(backward_agrees)
{
	static const struct { const char *kernel; enum ref_act act; int gated; } all[] = {
		{"swiglu_bwd", REF_SILU, 1}, {"geglu_bwd", REF_GELU, 1}, {"geglu_tanh_bwd", REF_GELU_TANH, 1}, {"reglu_bwd", REF_RELU, 1},
		{"sreglu_bwd", REF_SRELU, 1}, {"qgeglu_bwd", REF_QGELU, 1}, {"silu_bwd", REF_SILU, 0}, {"gelu_bwd", REF_GELU, 0},
		{"gelu_tanh_bwd", REF_GELU_TANH, 0}, {"relu_bwd", REF_RELU, 0}, {"srelu_bwd", REF_SRELU, 0}, {"qgelu_bwd", REF_QGELU, 0},
		{"swiglu_clamped_bwd", REF_SILU, CLAMPED}};
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {1, 128}, {65, 16}, {66, 769}, {1, 4096}, {0, 64}, {1, 14336}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn - !e2e_full(); i++)
		for (int full = 0; full < 2; full++)
			backward(&e2e_chips[_i % 2], all[_i / 2].kernel, all[_i / 2].act, all[_i / 2].gated, mn[i][0], mn[i][1], full);
}
END_TEST

/* --- quantisation by itself, and back */

/* amax: an optional inout; both: row-wise and transposed; block: the scales of the transposed copy are those of y. */
struct quant { const char *kernel; int64_t gm, gn; enum ref_scale scale; bool amax, both, block, fp4; const char *back; };   /* gn 0: the row */
static const struct quant quants[] = {
	{"quantize_rows", 1, 0, 0, true, false, false, false, "dequantize_rows"}, {"quantize_128", 1, 128, 0, true, false, false, false, "dequantize_128"},
	{"quantize_128_e8m0", 1, 128, REF_SCALE_E8M0, true, false, false, false, "dequantize_128_e8m0"},
	{"quantize_mxfp8", 1, 32, REF_SCALE_E8M0, true, false, false, false, "dequantize_mxfp8"},
	{"quantize_mxfp4", 1, 32, REF_SCALE_E8M0, true, false, false, true, "dequantize_mxfp4"},
	{"quantize_128x128", 128, 128, 0, true, false, true, false, "dequantize_128x128"},
	{"quantize_128x128_e8m0", 128, 128, REF_SCALE_E8M0, true, false, true, false, "dequantize_128x128_e8m0"},
	{"quantize_both_128", 1, 128, 0, false, true, false, false, "dequantize_128"},
	{"quantize_both_128_e8m0", 1, 128, REF_SCALE_E8M0, false, true, false, false, "dequantize_128_e8m0"},
	{"quantize_both_mxfp8", 1, 32, REF_SCALE_E8M0, false, true, false, false, "dequantize_mxfp8"},
	{"quantize_both_mxfp4", 1, 32, REF_SCALE_E8M0, false, true, false, true, "dequantize_mxfp4"},
};
enum { NQUANTS = sizeof quants / sizeof *quants };

/* From the codes and scales that a call has stored. */
static void back(const struct e2e_chip *chip, const struct quant *k, struct call *from, int at_y, int at_s, struct shape scales, int64_t m, int64_t n)
{
	struct call c;
	int64_t ns = from->count[at_s];
	enum ref_code code = e2e_type_code(from->types[at_y]);
	double *codes = doubles(m * n), *s = doubles(ns), *want = doubles(m * n);
	uint8_t *raw = call_result(from, at_y), *raw_s = call_result(from, at_s);
	for (int64_t i = 0; i < m * n; i++)
		codes[i] = ref_code_value(code, raw[i]);
	for (int64_t i = 0; i < ns; i++)
		s[i] = k->scale ? ldexp(1, raw_s[i] - 127) : (double)((float *)(void *)raw_s)[i];
	call_begin(&c, chip, k->back, "M %ld, N %ld", (long)m, (long)n);
	call_values(&c, from->types[at_y], SHAPE(m, n), codes);
	call_values(&c, k->scale ? E2E_E8M0 : E2E_F32, scales, s);
	int at = call_out(&c, e2e_input(), SHAPE(m, n));
	call_go(&c);
	for (int64_t i = 0; i < m * n; i++)
		want[i] = codes[i] * s[k->gn ? i / n / k->gm * ((n + k->gn - 1) / k->gn) + i % n / k->gn : i / n];
	call_any(&c, at, want, n);
	call_end(&c);
	free(codes), free(s), free(want), free(raw), free(raw_s);
}

/* q: fp8 or int8 codes (rows only); full: amax, the cap and x's own scales where there are such; ways: of both and of blocks. */
struct quant_case { int64_t m, n; double size; struct e2e_place place; bool full, i8; int ways; };

static void quantise(const struct e2e_chip *chip, const struct quant *k, struct quant_case z)
{
	struct call c;
	if (!e2e_takes(k->kernel))
		return;
	int64_t m = k->fp4 && k->both ? z.m + z.m % 2 : z.m, n = k->fp4 ? z.n + z.n % 2 : z.n, gn = k->gn ? k->gn : n + !n, sm = (m + k->gm - 1) / k->gm, sn = (n + gn - 1) / gn;
	double *v = doubles(m * n), *y = doubles(m * n), *scales = doubles(sm * (sn + 1)), *scales_t = doubles(n * (m + 1)), amax = z.size / 2, cap = !k->gn && z.full ? z.size : 0;
	enum e2e_type ts = k->scale ? E2E_E8M0 : E2E_F32, type;
	enum ref_code code = z.i8 ? REF_INT8 : k->fp4 ? REF_E2M1 : chip->fp8;
	type = e2e_code_type(code);
	bool rows = z.ways & ROW_WISE, columns = (k->both || k->block) && (z.ways & COLUMN_WISE);
	call_begin(&c, chip, k->kernel, "M %ld, N %ld, pitch %ld shift %ld, size %g, %s, type %d, ways %d", (long)m, (long)n, (long)z.place.pitch,
	           (long)z.place.shift, z.size, z.full ? "full" : "bare", type, z.ways);
	const double *x = call_in(&c, e2e_input(), (struct shape){2, {m, n}, z.place}, z.size), *smooth = NULL;
	if (!k->gn && z.full)
		smooth = call_in(&c, E2E_F32, SHAPE(n), 1);
	else if (!k->gn)
		call_absent(&c);
	for (int64_t i = 0; i < m * n; i++)
		v[i] = x[i] * (smooth ? smooth[i % n] : 1);
	if (!k->gn && z.full)
		call_values(&c, E2E_F32, SHAPE(1), &cap);
	else if (!k->gn)
		call_absent(&c);
	int at_amax = c.n;
	if (k->amax && z.full)
		call_values(&c, E2E_F32, SHAPE(1), &amax);
	else if (k->amax)
		call_absent(&c);
	struct shape ss = k->both ? TURNED(sm, sn) : k->gn ? SHAPE(sm, sn) : SHAPE(m);
	int at_y = call_maybe(&c, rows, type, SHAPE(m, n)), at_s = call_maybe(&c, rows || k->block, ts, ss), at_t = -1, at_st = -1;
	if (k->both || k->block)
		at_t = call_maybe(&c, columns, type, SHAPE(n, m));
	if (k->both)
		at_st = call_maybe(&c, columns, ts, TURNED(n, (m + gn - 1) / gn));
	call_go(&c);
	ref_quantize(k->scale, code, cap, v, m, n, k->gm, gn, y, scales);
	for (int64_t i = 0; i < m && !n && !k->gn; i++)
		scales[i] = 1;
	double *t = transposed(k->both ? v : y, m, n), *yt = doubles(m * n);
	if (at_s >= 0)
		call_scales(&c, at_s, scales);
	if (rows)
		call_codes(&c, at_y, y);
	if (k->both)
		ref_quantize(k->scale, code, 0, t, n, m, 1, gn, yt, scales_t);
	if (columns)
		call_codes(&c, at_t, k->both ? yt : t);
	if (at_st >= 0)
		call_scales(&c, at_st, scales_t);
	double top = ref_amax(v, m * n);
	if (k->amax && z.full)
		call_near(&c, at_amax, &(double){top > amax ? top : (float)amax}, 0x1p-22, 0);
	if (rows)
		back(chip, k, &c, at_y, at_s, k->gn ? SHAPE(sm, sn) : SHAPE(m), m, n);
	if (columns && k->both)
		back(chip, k, &c, at_t, at_st, SHAPE(n, (m + gn - 1) / gn), n, m);
	call_end(&c);
	free(v), free(y), free(scales), free(scales_t), free(t), free(yt);
}

START_TEST(quantisation_agrees)
{
	const struct quant *k = &quants[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	int both = ROW_WISE | COLUMN_WISE;
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {1, 128}, {0, 64}, {3, 0}, {130, 16}, {144, 272}, {3, 400}, {3, 769}, {129, 257}, {1, 4096}, {3, 7168}, {1, 14336}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
		quantise(chip, k, (struct quant_case){mn[i][0], mn[i][1], 2, .full = i % 2, .ways = both});
	for (int i = 0; i < 2 && !k->gn; i++)
		quantise(chip, k, (struct quant_case){3, i ? 769 : 4096, 2, .full = i, .ways = both, .i8 = true});
	quantise(chip, k, (struct quant_case){3, 1024, 2, {.pitch = 1032}, .ways = both});
	quantise(chip, k, (struct quant_case){3, 1024, 2, {.shift = 1}, .ways = both});
	quantise(chip, k, (struct quant_case){3, 256, 0x1p-126, .ways = both});
	quantise(chip, k, (struct quant_case){3, 256, e2e_input() == E2E_F16 ? 0x1p10 : 0x1p100, .full = true, .ways = both});
	quantise(chip, k, (struct quant_case){3, 256, 0, .ways = both});
	for (int ways = ROW_WISE; ways <= COLUMN_WISE && (k->both || k->block); ways++) {
		quantise(chip, k, (struct quant_case){130, 257, 2, .ways = ways});
		quantise(chip, k, (struct quant_case){128, 256, 2, .ways = ways});
	}
	if (e2e_full() || _i == 3)
		quantise(chip, k, (struct quant_case){1, 131072, 2, .ways = both});
}
END_TEST

/* Groups with an infinite element: it is NaN, the others 0; a NaN stays one and leaves its group's scale alone.  Other groups do not notice. */
START_TEST(infinite_elements_agree)
{
	static const char *const names[] = {"quantize_mxfp8", "quantize_128_e8m0", "quantize_128"};
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	enum { M = 2, N = 384 };
	int64_t group = _i / 2 ? 128 : 32;
	struct call c;
	double x[M * N], want[M * N], scales[M * N];
	call_begin(&c, chip, names[_i / 2], "infinite elements");
	for (int i = 0; i < M * N; i++)
		x[i] = i == 5 ? INFINITY : i == N + 300 ? -INFINITY : i == 200 ? NAN : (i % 7 - 3) * 0.25;
	const double *seen = call_values(&c, e2e_input(), SHAPE(M, N), x);
	call_absent(&c);
	int at = call_out(&c, e2e_code_type(chip->fp8), SHAPE(M, N));
	call_out(&c, _i / 2 == 2 ? E2E_F32 : E2E_E8M0, SHAPE(M, N / group));
	call_go(&c);
	ref_quantize(_i / 2 == 2 ? REF_SCALE_F32 : REF_SCALE_E8M0, chip->fp8, 0, seen, M, N, 1, group, want, scales);
	for (int i = 0; i < M * N; i++)
		if (i / group == 5 / group || i / group == (N + 300) / group)
			want[i] = isinf(x[i]) ? NAN : 0;
	uint8_t *got = call_result(&c, at);
	for (int i = 0; i < M * N; i++)
		ck_assert_msg(ref_code_step(chip->fp8, got[i]) == ref_code_step(chip->fp8, ref_code_round(chip->fp8, want[i])), "%s: [%d]: found %g, expected %g", c.what, i,
		              ref_code_value(chip->fp8, got[i]), want[i]);
	free(got);
	call_end(&c);
}
END_TEST

/* Scales are the nearest numbers to maximum / largest code, and codes those of x * (1 / scale), each step rounded once, as the host's own
 * divisions are: mantissas at random, of ones and of zeros, every exponent that f32 has. */
START_TEST(divisions_are_rounded_once)
{
	enum { M = 32, GROUPS = 64, G = 128, N = GROUPS * G };
	const struct e2e_chip *chip = &e2e_chips[_i];
	struct call c;
	double *x = doubles(M * N);
	struct ref_random r = {.state = 77};
	call_begin(&c, chip, "quantize_128", "divisions");
	for (int g = 0; g < M * GROUPS; g++) {
		int mantissa = g % 8 == 0 ? 0x7fffff : g % 8 == 1 ? 0 : (int)(ref_uniform(&r) * 0x800000), exponent = g % 255;
		for (int k = 0; k < G; k++) {
			double part = k ? ref_uniform(&r) : 1;
			x[g * G + k] = (float)(ldexp(exponent ? 0x800000 + mantissa : mantissa, (exponent ? exponent : 1) - 150) * part);
		}
	}
	call_values(&c, E2E_F32, SHAPE(M, N), x);
	call_absent(&c);
	int codes = call_out(&c, e2e_code_type(chip->fp8), SHAPE(M, N)), scales = call_out(&c, E2E_F32, SHAPE(M, GROUPS));
	call_go(&c);
	uint8_t *y = call_result(&c, codes);
	float *s = call_result(&c, scales), most = (float)ref_code_max(chip->fp8);
	for (int g = 0; g < M * GROUPS; g++) {
		float top = (float)x[g * G], quotient = top / most, want = top > 0 ? fmaxf(quotient, 0x1p-126f) : 1, inverse = 1 / want;
		ck_assert_msg(s[g] == want, "%s: scale of %a: found %a, expected %a", c.what, (double)top, (double)s[g], (double)want);
		for (int k = 0; k < G; k++) {
			float u = (float)x[g * G + k] * inverse;
			ck_assert_msg(ref_code_step(chip->fp8, y[g * G + k]) == ref_code_step(chip->fp8, ref_code_round(chip->fp8, (double)u)),
			              "%s: code of %a over %a", c.what, x[g * G + k], (double)want);
		}
	}
	free(x), free(y), free(s);
	call_end(&c);
}
END_TEST

/* One scale of the whole tensor, every type of code. */
START_TEST(dequantisation_agrees)
{
	const struct e2e_chip *chip = &e2e_chips[_i];
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {0, 64}, {3, 0}, {5, 128}, {3, 400}, {3, 769}, {2, 7168}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
		for (int i8 = 0; i8 < 2; i8++) {
			struct call c;
			int64_t m = mn[i][0], n = mn[i][1];
			double *want = doubles(m * n), scale = 0.375;
			call_begin(&c, chip, "dequantize", "M %ld, N %ld, int8 %d", (long)m, (long)n, i8);
			const double *y = call_in(&c, i8 ? E2E_I8 : e2e_code_type(chip->fp8), SHAPE(m, n), 40);
			call_values(&c, E2E_F32, SHAPE(1), &scale);
			int at = call_out(&c, e2e_input(), SHAPE(m, n));
			call_go(&c);
			for (int64_t j = 0; j < m * n; j++)
				want[j] = y[j] * scale;
			call_any(&c, at, want, n);
			call_end(&c);
			free(want);
		}
}
END_TEST

START_TEST(whole_tensor_agrees)
{
	const struct e2e_chip *chip = &e2e_chips[_i];
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {0, 64}, {64, 64}, {130, 16}, {3, 769}, {65, 4096}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
		for (int form = 0; form < 3; form++) {        /* cast_transpose to bf16, to fp8 with a scale; quantize_current */
			struct call c;
			int64_t m = mn[i][0], n = mn[i][1];
			double scale = 0.25, amax = 0.5, *y = doubles(m * n);
			enum e2e_type type = form ? e2e_code_type(chip->fp8) : e2e_input();
			int at_amax = -1, at_scale = -1;
			call_begin(&c, chip, form == 2 ? "quantize_current" : "cast_transpose", "M %ld, N %ld, form %d", (long)m, (long)n, form);
			const double *x = call_in(&c, e2e_input(), SHAPE(m, n), 3);
			if (form == 1)
				call_values(&c, E2E_F32, SHAPE(1), &scale);
			else if (form == 0)
				call_absent(&c), scale = 1;
			if (form < 2)
				at_amax = c.n, call_values(&c, E2E_F32, SHAPE(1), &amax);
			int at = call_out(&c, type, SHAPE(m, n)), at_t = call_out(&c, type, SHAPE(n, m));
			if (form == 2)
				at_scale = call_out(&c, E2E_F32, SHAPE(1));
			call_go(&c);
			double top = ref_amax(x, m * n);
			if (form == 2) {
				scale = ref_group_scale(REF_SCALE_F32, chip->fp8, top, 0);
				call_scales(&c, at_scale, &scale);
			} else {
				call_near(&c, at_amax, &(double){top > amax ? top : amax}, 0, 0);
			}
			for (int64_t j = 0; j < m * n; j++)
				y[j] = x[j] / scale;
			double *t = transposed(y, m, n);
			call_any(&c, at, y, n);
			call_any(&c, at_t, t, m);
			free(t), free(y);
			call_end(&c);
		}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: activations and quantisation");
	TCase *t = tcase_create("activations");
	tcase_set_timeout(t, 1000);
	tcase_add_loop_test(t, activations_agree, 0, 2 * NFORMULAS * NFORMS);
	tcase_add_loop_test(t, backward_agrees, 0, 26);
	tcase_add_loop_test(t, quantisation_agrees, 0, 2 * NQUANTS);
	tcase_add_loop_test(t, infinite_elements_agree, 0, 6);
	tcase_add_loop_test(t, divisions_are_rounded_once, 0, 2);
	tcase_add_loop_test(t, dequantisation_agrees, 0, 2);
	tcase_add_loop_test(t, whole_tensor_agrees, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
