/* e2e_rows_act_test.c -- activations and quantisation by itself through the runtime on both simulated chips, against f64: gated and
 * not, with every kind of output, masked batches, clamped gates, backward; rows, groups, blocks, both directions, and back. */
#include "e2e_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double *room(int64_t n)
{
	double *p = calloc((size_t)n + 1, sizeof *p);
	ck_assert_ptr_nonnull(p);
	return p;
}

static double *transposed(const double *v, int64_t rows, int64_t n)
{
	double *t = room(rows * n);
	for (int64_t i = 0; i < rows * n; i++)
		t[i % n * rows + i / n] = v[i];
	return t;
}

/* --- activations */

enum form { WHOLE, ROWS, GROUPS };
struct act { const char *kernel; enum ref_act act; int gated; enum form form; int group; enum ref_scale scale; bool bias; };
static const struct act acts[] = {
	{"swiglu", REF_SILU, 1, WHOLE, 0, 0, true}, {"geglu", REF_GELU, 1, WHOLE, 0, 0, true}, {"geglu_tanh", REF_GELU_TANH, 1, WHOLE, 0, 0, true},
	{"reglu", REF_RELU, 1, WHOLE, 0, 0, true}, {"sreglu", REF_SRELU, 1, WHOLE, 0, 0, true}, {"qgeglu", REF_QGELU, 1, WHOLE, 0, 0, true},
	{"swiglu_rows", REF_SILU, 1, ROWS, 0, 0, true}, {"geglu_rows", REF_GELU, 1, ROWS, 0, 0, true}, {"geglu_tanh_rows", REF_GELU_TANH, 1, ROWS, 0, 0, true},
	{"swiglu_128", REF_SILU, 1, GROUPS, 128, 0, true}, {"geglu_128", REF_GELU, 1, GROUPS, 128, 0, true},
	{"geglu_tanh_128", REF_GELU_TANH, 1, GROUPS, 128, 0, true}, {"swiglu_128_e8m0", REF_SILU, 1, GROUPS, 128, REF_SCALE_E8M0, true},
	{"swiglu_mxfp8", REF_SILU, 1, GROUPS, 32, REF_SCALE_E8M0, true},
	{"silu_act", REF_SILU, 0, WHOLE, 0, 0, true}, {"gelu_act", REF_GELU, 0, WHOLE, 0, 0, true}, {"gelu_tanh_act", REF_GELU_TANH, 0, WHOLE, 0, 0, true},
	{"relu_act", REF_RELU, 0, WHOLE, 0, 0, true}, {"srelu_act", REF_SRELU, 0, WHOLE, 0, 0, true}, {"qgelu_act", REF_QGELU, 0, WHOLE, 0, 0, true},
	{"gelu_tanh_128", REF_GELU_TANH, 0, GROUPS, 128, 0, true}, {"relu_128", REF_RELU, 0, GROUPS, 128, 0, true},
	{"srelu_128", REF_SRELU, 0, GROUPS, 128, 0, true},
};
enum { NACTS = sizeof acts / sizeof *acts };

struct size { int64_t batch, m, n; bool full; enum e2e_type type; struct e2e_place h, y; };

static struct shape rows_of(const struct size *z, int64_t columns, struct e2e_place place)
{
	return z->batch ? (struct shape){3, {z->batch, z->m, columns}, place} : (struct shape){2, {z->m, columns}, place};
}

static void activate(const struct e2e_chip *chip, const struct act *k, struct size z)
{
	struct call c;
	int64_t rows = (z.batch ? z.batch : 1) * z.m, n = z.n, width = k->gated ? 2 * n : n;
	enum e2e_type fp8 = e2e_code_type(chip->fp8), type = k->form == WHOLE ? z.type == E2E_BF16 ? e2e_input() : fp8 : fp8;
	double *v = room(rows * n), *y = room(rows * n), *scales = room(rows * (n + 1)), scale = 0.125, amax = 0.25;
	const double *b = NULL, *smooth = NULL;
	int at_amax = -1, at_y, at_yt = -1, at_scale = -1;
	call_begin(&c, chip, k->kernel, "batch %ld, M %ld, N %ld, %s, type %d, h pitch %ld step %ld shift %ld, y pitch %ld shift %ld", (long)z.batch, (long)z.m,
	           (long)n, z.full ? "full" : "bare", type, (long)z.h.pitch, (long)z.h.step, (long)z.h.shift, (long)z.y.pitch, (long)z.y.shift);
	const double *h = call_in(&c, e2e_input(), rows_of(&z, width, z.h), 1.5);
	if (z.full)
		b = call_in(&c, e2e_input(), SHAPE(width), 0.5);
	else
		call_absent(&c);
	ref_activate(k->act, k->gated, h, b, rows, n, v);
	if (k->form == WHOLE) {
		if (type == fp8)
			call_values(&c, E2E_F32, SHAPE(1), &scale);
		else
			call_absent(&c), scale = 1;
		at_amax = c.n;
		if (z.full)
			call_values(&c, E2E_F32, SHAPE(1), &amax);
		else
			call_absent(&c);
	}
	if (k->form == ROWS) {
		if (z.full)
			smooth = call_in(&c, E2E_F32, SHAPE(n), 1);
		else
			call_absent(&c);
		call_number(&c, z.full ? 1 : 0);
		for (int64_t i = 0; i < rows * n && smooth; i++)
			v[i] *= smooth[i % n];
	}
	at_y = call_out(&c, type, rows_of(&z, n, z.y));
	if (k->form == ROWS)
		at_scale = call_out(&c, E2E_F32, z.batch ? SHAPE(z.batch, z.m) : SHAPE(z.m));
	else if (k->form == GROUPS)
		at_scale = call_out(&c, k->scale ? E2E_E8M0 : E2E_F32, rows_of(&z, (n + k->group - 1) / k->group, (struct e2e_place){0}));
	else if (z.full && !z.batch)
		at_yt = call_out(&c, type, SHAPE(n, z.m));
	else
		call_absent(&c);
	call_go(&c);
	if (k->form == WHOLE) {
		for (int64_t i = 0; i < rows * n; i++)
			y[i] = v[i] / scale;
		if (type == e2e_input())             /* near 0 gelu's factor 1 + erf cancels */
			call_near(&c, at_y, y, 0x1p-7, 0x1p-14);
		else
			call_codes_within(&c, at_y, y, 0x1p-17);
	} else {
		ref_quantize(k->scale, chip->fp8, k->form == ROWS && z.full ? 1 : 0, v, rows, n, 1, k->form == ROWS ? n + !n : k->group, y, scales);
		for (int64_t i = 0; i < rows && !n; i++)
			scales[i] = 1;
		if (k->scale)
			call_scales(&c, at_scale, scales);
		else
			call_near(&c, at_scale, scales, 0x1p-19, 0x1p-30);
		call_codes(&c, at_y, y);
	}
	if (at_yt >= 0) {
		double *t = transposed(y, rows, n);
		if (type == e2e_input())
			call_near(&c, at_yt, t, 0x1p-7, 0x1p-14);
		else
			call_codes_within(&c, at_yt, t, 0x1p-17);
		free(t);
		double top = ref_amax(v, rows * n);
		call_near(&c, at_amax, &(double){top > amax ? top : amax}, 0x1p-18, 0);
	}
	call_end(&c);
	free(v), free(y), free(scales);
}

static const int64_t sizes[] = {1, 7, 16, 128, 769, 4096, 7168};
enum { NSIZES = sizeof sizes / sizeof *sizes };

START_TEST(activations_agree)
{
	const struct act *k = &acts[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	for (int i = 0; i < NSIZES; i++)
		for (int full = 0; full < 2; full++) {
			struct size z = {.m = sizes[i] > 1024 ? 1 : 3, .n = sizes[i], .full = full};
			activate(chip, k, z);
			z.type = E2E_E4M3FN;
			if (k->form == WHOLE)
				activate(chip, k, z);
		}
	activate(chip, k, (struct size){.m = 0, .n = 64, .full = true});
	activate(chip, k, (struct size){.m = 3, .n = 0, .full = true});
	activate(chip, k, (struct size){.m = 2, .n = 769, .h = {.pitch = 4 * 769 + 6, .step = 2}});
	activate(chip, k, (struct size){.m = 3, .n = 1024, .h = {.pitch = 2056}, .y = {.pitch = 1040}, .type = E2E_E4M3FN});
	activate(chip, k, (struct size){.m = 3, .n = 1024, .h = {.shift = 1}, .y = {.shift = 3}});
	activate(chip, k, (struct size){.batch = 2, .m = 3, .n = 256, .full = true});
	if (_i % 2 == (_i / 2) % 2) {
		activate(chip, k, (struct size){.m = 1, .n = 14336, .type = E2E_E4M3FN});
		if (e2e_full() || _i % 5 == 0)
			activate(chip, k, (struct size){.m = 1, .n = 131072, .type = E2E_E4M3FN});
	}
}
END_TEST

START_TEST(clamped_agrees)
{
	const struct e2e_chip *chip = &e2e_chips[_i];
	for (int i = 0; i < NSIZES; i++)
		for (int group = 0; group < 2; group++) {
			struct call c;
			int64_t m = 3, n = sizes[i], groups = (n + 127) / 128;
			double *v = room(m * n), *y = room(m * n), *scales = room(m * groups);
			call_begin(&c, chip, group ? "swiglu_clamped_128" : "swiglu_clamped", "M %ld, N %ld", (long)m, (long)n);
			const double *h = call_in(&c, e2e_input(), SHAPE(m, 2 * n), 4), *b = call_in(&c, e2e_input(), SHAPE(2 * n), 1);
			if (!group)
				call_absent(&c);
			call_number(&c, 3), call_number(&c, (float)1.702), call_number(&c, 1);
			int at = call_out(&c, group ? e2e_code_type(chip->fp8) : e2e_input(), SHAPE(m, n)), at_scale = group ? call_out(&c, E2E_F32, SHAPE(m, groups)) : -1;
			call_go(&c);
			for (int64_t j = 0; j < m * n; j++)
				v[j] = ref_clamped_swiglu(h[j / n * 2 * n + j % n] + b[j % n], h[j / n * 2 * n + n + j % n] + b[n + j % n], 3, (float)1.702, 1);
			if (group) {
				ref_quantize(REF_SCALE_F32, chip->fp8, 0, v, m, n, 1, 128, y, scales);
				call_near(&c, at_scale, scales, 0x1p-19, 0);
				call_codes(&c, at, y);
			} else {
				call_any(&c, at, v, n);
			}
			call_end(&c);
			free(v), free(y), free(scales);
		}
}
END_TEST

/* Rows at and beyond tokens[e] keep their bytes: the poison that e2e_tensor put there. */
START_TEST(masked_agrees)
{
	const struct e2e_chip *chip = &e2e_chips[_i / 3];
	int form = _i % 3;                               /* plain, f32 scales, e8m0 scales */
	if (e2e_input() != E2E_BF16)
		return;
	static const int64_t ns[] = {16, 128, 769, 2048};
	for (int i = 0; i < 4; i++) {
		struct call c;
		int64_t e = 4, m = 5, n = ns[i], groups = (n + 127) / 128;
		static const double tokens[] = {3, 0, 5, 9};      /* the last: more than there are */
		static const char *const kernels[] = {"swiglu_masked", "swiglu_masked_128", "swiglu_masked_128_e8m0"};
		double *v = room(m * n), *y = room(m * n), *scales = room(m * groups);
		call_begin(&c, chip, kernels[form], "N %ld", (long)n);
		const double *h = call_in(&c, e2e_input(), SHAPE(e, m, 2 * n), 1.5);
		call_values(&c, E2E_I32, SHAPE(e), tokens);
		enum e2e_type type = form ? e2e_code_type(chip->fp8) : e2e_input();
		int at = call_out(&c, type, SHAPE(e, m, n)), at_scale = form ? call_out(&c, form == 2 ? E2E_E8M0 : E2E_F32, SHAPE(e, m, groups)) : -1;
		call_go(&c);
		size_t size = form ? 1 : 2, scale_size = form == 2 ? 1 : 4;
		uint8_t *got = calloc((size_t)(e * m * n), size), *got_s = calloc((size_t)(e * m * groups), 4);
		e2e_read(c.tensors[at], got, c.what);
		if (form)
			e2e_read(c.tensors[at_scale], got_s, c.what);
		for (int64_t x = 0; x < e; x++) {
			int64_t there = tokens[x] < m ? (int64_t)tokens[x] : m;
			ref_activate(REF_SILU, 1, h + x * m * 2 * n, NULL, there, n, v);
			struct ref_diff d;
			if (form) {
				ref_quantize(form == 2 ? REF_SCALE_E8M0 : REF_SCALE_F32, chip->fp8, 0, v, there, n, 1, 128, y, scales);
				d = ref_diff_codes(chip->fp8, got + x * m * n, y, there * n);
				ck_assert_msg(ref_agree_codes(&d, NULL, 0), "%s: expert %ld: codes differ", c.what, (long)x);
				for (int64_t j = 0; j < there * groups; j++) {
					double s = form == 2 ? ldexp(1, got_s[x * m * groups + j] - 127) : (double)((float *)(void *)got_s)[x * m * groups + j];
					ck_assert_msg(fabs(s - scales[j]) <= 0x1p-19 * scales[j], "%s: expert %ld scale %ld: %g, expected %g", c.what, (long)x, (long)j, s, scales[j]);
				}
			} else {
				d = ref_diff_half(REF_BF16, (uint16_t *)(void *)got + x * m * n, v, there, n);
				ck_assert_msg(ref_agree_plain(&d, NULL, 0), "%s: expert %ld: %g ulp", c.what, (long)x, d.max);
			}
			for (int64_t j = there * n * (int64_t)size; j < m * n * (int64_t)size; j++)
				ck_assert_msg(got[x * m * n * (int64_t)size + j] == E2E_POISON, "%s: expert %ld: a row that is not there was written", c.what, (long)x);
			for (int64_t j = there * groups * (int64_t)scale_size; form && j < m * groups * (int64_t)scale_size; j++)
				ck_assert_msg(got_s[x * m * groups * (int64_t)scale_size + j] == E2E_POISON, "%s: expert %ld: a scale that is not there was written", c.what, (long)x);
		}
		free(got), free(got_s), free(v), free(y), free(scales);
		call_end(&c);
	}
}
END_TEST

/* --- backward */

static void backward(const struct e2e_chip *chip, const char *kernel, enum ref_act act, int gated, int64_t m, int64_t n, bool full)
{
	struct call c;
	int64_t width = gated ? 2 * n : n;
	double *dh = room(m * width), *db = room(width);
	const double *b = NULL;
	call_begin(&c, chip, kernel, "M %ld, N %ld, %s", (long)m, (long)n, full ? "full" : "bare");
	const double *dy = call_in(&c, e2e_input(), SHAPE(m, n), 1), *h = call_in(&c, e2e_input(), SHAPE(m, width), 1.5);
	if (full)
		b = call_in(&c, e2e_input(), SHAPE(width), 0.5);
	else
		call_absent(&c);
	int at = call_out(&c, e2e_input(), SHAPE(m, width)), at_b = full ? call_out(&c, E2E_F32, SHAPE(width)) : -1;
	if (!full)
		call_absent(&c);
	call_go(&c);
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
		{"gelu_tanh_bwd", REF_GELU_TANH, 0}, {"relu_bwd", REF_RELU, 0}, {"srelu_bwd", REF_SRELU, 0}, {"qgelu_bwd", REF_QGELU, 0}};
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {1, 128}, {65, 16}, {66, 769}, {1, 4096}, {0, 64}, {1, 14336}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn - !e2e_full(); i++)
		for (int full = 0; full < 2; full++)
			backward(&e2e_chips[_i % 2], all[_i / 2].kernel, all[_i / 2].act, all[_i / 2].gated, mn[i][0], mn[i][1], full);
}
END_TEST

/* --- quantisation by itself, and back */

struct quant { const char *kernel; int64_t gm, gn; enum ref_scale scale; bool both; const char *back; };   /* gn 0: the row */
static const struct quant quants[] = {
	{"quantize_rows", 1, 0, 0, false, "dequantize_rows"}, {"quantize_128", 1, 128, 0, false, "dequantize_128"},
	{"quantize_128_e8m0", 1, 128, REF_SCALE_E8M0, false, NULL}, {"quantize_mxfp8", 1, 32, REF_SCALE_E8M0, false, "dequantize_mxfp8"},
	{"quantize_128x128", 128, 128, 0, false, "dequantize_128x128"}, {"quantize_128x128_e8m0", 128, 128, REF_SCALE_E8M0, false, NULL},
	{"quantize_both_128", 1, 128, 0, true, NULL}, {"quantize_both_mxfp8", 1, 32, REF_SCALE_E8M0, true, NULL},
};
enum { NQUANTS = sizeof quants / sizeof *quants };

/* From the codes and scales that a call has stored. */
static void back(const struct e2e_chip *chip, const struct quant *k, const struct call *from, int at_y, int at_s, struct shape scales, int64_t m, int64_t n)
{
	struct call c;
	int64_t ns = from->count[at_s];
	double *codes = room(m * n), *s = room(ns), *want = room(m * n);
	uint8_t *raw = calloc((size_t)(m * n) + 1, 1), *raw_s = calloc((size_t)ns + 1, 4);
	e2e_read(from->tensors[at_y], raw, from->what);
	e2e_read(from->tensors[at_s], raw_s, from->what);
	for (int64_t i = 0; i < m * n; i++)
		codes[i] = ref_code_value(chip->fp8, raw[i]);
	for (int64_t i = 0; i < ns; i++)
		s[i] = k->scale ? ldexp(1, raw_s[i] - 127) : (double)((float *)(void *)raw_s)[i];
	call_begin(&c, chip, k->back, "M %ld, N %ld", (long)m, (long)n);
	call_values(&c, e2e_code_type(chip->fp8), SHAPE(m, n), codes);
	call_values(&c, k->scale ? E2E_E8M0 : E2E_F32, scales, s);
	int at = call_out(&c, e2e_input(), SHAPE(m, n));
	call_go(&c);
	for (int64_t i = 0; i < m * n; i++)
		want[i] = codes[i] * s[k->gn ? i / n / k->gm * ((n + k->gn - 1) / k->gn) + i % n / k->gn : i / n];
	call_any(&c, at, want, n);
	call_end(&c);
	free(codes), free(s), free(want), free(raw), free(raw_s);
}

static void quantise(const struct e2e_chip *chip, const struct quant *k, int64_t m, int64_t n, struct e2e_place place, double size)
{
	struct call c;
	int64_t gn = k->gn ? k->gn : n + !n, sm = (m + k->gm - 1) / k->gm, sn = (n + gn - 1) / gn;
	double *y = room(m * n), *scales = room(sm * (sn + 1)), *scales_t = room(n * (m + 1));
	enum e2e_type ts = k->scale ? E2E_E8M0 : E2E_F32, fp8 = e2e_code_type(chip->fp8);
	call_begin(&c, chip, k->kernel, "M %ld, N %ld, pitch %ld shift %ld, size %g", (long)m, (long)n, (long)place.pitch, (long)place.shift, size);
	const double *x = call_in(&c, e2e_input(), (struct shape){2, {m, n}, place}, size);
	if (!k->gn)
		call_absent(&c), call_number(&c, 0);
	struct shape ss = k->gn ? SHAPE(sm, sn) : SHAPE(m);
	int at_y = call_out(&c, fp8, SHAPE(m, n)), at_s = call_out(&c, ts, ss), at_t = -1, at_st = -1;
	if (k->both) {
		at_t = call_out(&c, fp8, SHAPE(n, m));
		at_st = call_out(&c, ts, SHAPE(n, (m + gn - 1) / gn));
	}
	call_go(&c);
	ref_quantize(k->scale, chip->fp8, 0, x, m, n, k->gm, gn, y, scales);
	for (int64_t i = 0; i < m && !n && !k->gn; i++)
		scales[i] = 1;
	call_scales(&c, at_s, scales);
	call_codes(&c, at_y, y);
	if (k->both) {
		double *t = transposed(x, m, n), *yt = room(m * n);
		ref_quantize(k->scale, chip->fp8, 0, t, n, m, 1, gn, yt, scales_t);
		call_scales(&c, at_st, scales_t);
		call_codes(&c, at_t, yt);
		free(t), free(yt);
	}
	if (k->back)
		back(chip, k, &c, at_y, at_s, ss, m, n);
	call_end(&c);
	free(y), free(scales), free(scales_t);
}

START_TEST(quantisation_agrees)
{
	const struct quant *k = &quants[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {1, 128}, {0, 64}, {130, 16}, {3, 769}, {129, 257}, {1, 4096}, {3, 7168}, {1, 14336}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
		quantise(chip, k, mn[i][0], mn[i][1], (struct e2e_place){0}, 2);
	quantise(chip, k, 3, 1024, (struct e2e_place){.pitch = 1032}, 2);
	quantise(chip, k, 3, 1024, (struct e2e_place){.shift = 1}, 2);
	quantise(chip, k, 3, 256, (struct e2e_place){0}, 0x1p-126);
	quantise(chip, k, 3, 256, (struct e2e_place){0}, e2e_input() == E2E_F16 ? 0x1p10 : 0x1p100);
	quantise(chip, k, 3, 256, (struct e2e_place){0}, 0);
	if (e2e_full() || _i == 3)
		quantise(chip, k, 1, 131072, (struct e2e_place){0}, 2);
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
			double scale = 0.25, amax = 0.5, *y = room(m * n);
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
	tcase_add_loop_test(t, activations_agree, 0, 2 * NACTS);
	tcase_add_loop_test(t, clamped_agrees, 0, 2);
	tcase_add_loop_test(t, masked_agrees, 0, 6);
	tcase_add_loop_test(t, backward_agrees, 0, 24);
	tcase_add_loop_test(t, quantisation_agrees, 0, 2 * NQUANTS);
	tcase_add_loop_test(t, whole_tensor_agrees, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
