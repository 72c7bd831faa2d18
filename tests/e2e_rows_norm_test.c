/* e2e_rows_norm_test.c -- every norm kernel through the runtime on both simulated chips, against f64: forward with all outputs,
 * backward; sizes from 0 to 131072, strides, three dimensions, unaligned bases, absent and present optional tensors. */
#include "e2e_rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form { WHOLE, ROWS, GROUPS };       /* one scale of the tensor, or none; one a row; one a group */
struct norm { const char *kernel; int layer; enum form form; int group; enum ref_scale scale; bool t5, fp4; };
static const struct norm norms[] = {
	{"rmsnorm", 0, WHOLE, 0, 0, false, false}, {"layernorm", 1, WHOLE, 0, 0, false, false},
	{"add_rmsnorm_quant", 0, ROWS, 0, 0, false, false}, {"layernorm_quant", 1, ROWS, 0, 0, false, false},
	{"rmsnorm_t5", 0, WHOLE, 0, 0, true, false}, {"rmsnorm_t5_quant", 0, ROWS, 0, 0, true, false}, {"rmsnorm_t5_128", 0, GROUPS, 128, 0, true, false},
	{"rmsnorm_t5_128_e8m0", 0, GROUPS, 128, REF_SCALE_E8M0, true, false}, {"rmsnorm_t5_mxfp8", 0, GROUPS, 32, REF_SCALE_E8M0, true, false},
	{"rmsnorm_128", 0, GROUPS, 128, 0, false, false}, {"rmsnorm_128_e8m0", 0, GROUPS, 128, REF_SCALE_E8M0, false, false}, {"rmsnorm_mxfp8", 0, GROUPS, 32, REF_SCALE_E8M0, false, false},
	{"rmsnorm_mxfp4", 0, GROUPS, 32, REF_SCALE_E8M0, false, true}, {"rmsnorm_t5_mxfp4", 0, GROUPS, 32, REF_SCALE_E8M0, true, true},
	{"layernorm_mxfp4", 1, GROUPS, 32, REF_SCALE_E8M0, false, true},
	{"layernorm_128", 1, GROUPS, 128, 0, false, false}, {"layernorm_128_e8m0", 1, GROUPS, 128, REF_SCALE_E8M0, false, false}, {"layernorm_mxfp8", 1, GROUPS, 32, REF_SCALE_E8M0, false, false},
};
enum { NNORMS = sizeof norms / sizeof *norms };

static double to_bf16(double x) { return ref_half_value(REF_BF16, ref_half_round(REF_BF16, x)); }
static double to_f16(double x) { return ref_half_value(REF_F16, ref_half_round(REF_F16, x)); }
static double to_f32(double x) { return (float)x; }
static double (*rounding(void))(double) { return e2e_input() == E2E_BF16 ? to_bf16 : e2e_input() == E2E_F16 ? to_f16 : to_f32; }

/* full: with every optional tensor, weights of 1 + w, a cap where there is one; across: with the transpose alone, and LayerNorm's bias, which the pack has
 * code of its own for; sums: and what training keeps of it.  type: of a WHOLE result (E2E_E4M3FN: the chip's). */
struct size { int64_t batch, m, n; bool full, across, sums; enum e2e_type in, type; struct e2e_place x, y; };

struct out { int y, yt, scale, res, rstd, mu, amax; };

static struct shape one_of(const struct size *z)
{
	return z->batch ? SHAPE(z->batch, z->m) : SHAPE(z->m);
}

/* Of a row whose elements differ by little beside their size the mean takes the leading digits away. */
static void check_rstd(struct call *c, int at, bool layer, const double *u, const double *rstd, int64_t rows, int64_t n)
{
	double *bounds = calloc((size_t)rows + 1, sizeof *bounds);
	for (int64_t i = 0; i < rows; i++)
		bounds[i] = rstd[i] * (0x1p-20 + (layer ? 0x1p-23 * ref_amax(u + i * n, n) * rstd[i] : 0));
	call_within(c, at, rstd, bounds);
	free(bounds);
}

static void check(struct call *c, const struct norm *k, const struct size *z, const struct ref_norm *p, const double *x, const double *smooth,
                  double scale, double limit, const struct out *o, double amax)
{
	int64_t rows = (z->batch ? z->batch : 1) * z->m, n = z->n, groups = k->form == GROUPS ? (n + k->group - 1) / k->group : 1;
	double *v = calloc((size_t)(rows * n + 1), 8), *u = calloc((size_t)(rows * n + 1), 8), *y = calloc((size_t)(rows * n + 1), 8),
		*rstd = calloc((size_t)rows + 1, 8), *mu = calloc((size_t)rows + 1, 8), *scales = calloc((size_t)(rows * (groups + !groups) + 1), 8);
	ref_norm(p, x, rows, n, v, u, rstd, mu);
	for (int64_t i = 0; i < rows * n && smooth; i++)
		v[i] *= smooth[i % n];
	if (k->form == WHOLE) {
		for (int64_t i = 0; i < rows * n; i++)
			y[i] = v[i] / scale;
		call_any(c, o->y, y, n);
	} else {
		ref_quantize(k->scale, k->fp4 ? REF_E2M1 : c->chip->fp8, limit, v, rows, n, 1, k->form == ROWS ? n + !n : k->group, y, scales);
		for (int64_t i = 0; i < rows && !n; i++)
			scales[i] = 1;
		if (k->form == GROUPS)
			call_settle(c, o->scale, k->fp4 ? REF_E2M1 : c->chip->fp8, y, scales, rows, n, k->group);
		call_scales(c, o->scale, scales);
		call_codes(c, o->y, y);
	}
	if (o->yt >= 0) {
		double *t = calloc((size_t)(rows * n + 1), 8);
		for (int64_t i = 0; i < rows * n; i++)
			t[i % n * rows + i / n] = y[i];
		call_any(c, o->yt, t, rows);
		free(t);
	}
	if (z->full)
		call_any(c, o->res, u, n);
	if (z->full || z->sums) {
		check_rstd(c, o->rstd, k->layer, u, rstd, rows, n);
		if (k->layer)
			call_near(c, o->mu, mu, 0x1p-20, 0x1p-20);
		double top = ref_amax(v, rows * n);
		call_near(c, o->amax, &(double){top > amax ? top : amax}, 0x1p-20, 0);
	}
	free(v), free(u), free(y), free(rstd), free(mu), free(scales);
}

static void run(const struct e2e_chip *chip, const struct norm *k, struct size z)
{
	if (!e2e_takes(k->kernel))
		return;
	z.in = e2e_input();
	if (k->fp4) {                            /* extents, pitches and shifts are even */
		z.n += z.n % 2;
		z.y.pitch += z.y.pitch % 2, z.y.shift += z.y.shift % 2;
	}
	struct call c;
	struct out o = {-1, -1, -1, -1, -1, -1, -1};
	double eps = (float)1e-5, scale = 0.0625, amax = 0.5, limit = z.full ? 2 : 0, *smooth = NULL, start = z.n > 2048 ? 100 : 0.5;
	enum e2e_type fp8 = k->fp4 ? E2E_E2M1 : e2e_code_type(chip->fp8), y = k->form == WHOLE && z.type != E2E_E4M3FN ? z.type : fp8;
	bool coded = y == fp8;
	call_begin(&c, chip, k->kernel, "batch %ld, M %ld, N %ld, %s, types %d %d, x pitch %ld step %ld shift %ld, y pitch %ld shift %ld", (long)z.batch,
	           (long)z.m, (long)z.n, z.full ? "full" : z.sums ? "across with sums" : z.across ? "across" : "bare", z.in, y, (long)z.x.pitch, (long)z.x.step, (long)z.x.shift, (long)z.y.pitch, (long)z.y.shift);
	c.rounds_within = k->t5;
	struct ref_norm p = {.layer = k->layer, .eps = eps, .offset = z.full, .round = k->t5 ? rounding() : NULL};
	const double *x = call_in(&c, z.in, rows_of(z.batch, z.m, z.n, z.x), 1.5);
	amax = start;
	if (z.full)
		p.res = call_in(&c, z.in, rows_of(z.batch, z.m, z.n, (struct e2e_place){0}), 1);
	else
		call_absent(&c);
	p.w = call_in(&c, z.in, SHAPE(z.n), 0.5);
	if (k->layer && (z.full || z.across))
		p.b = call_in(&c, z.in, SHAPE(z.n), 0.5);
	else if (k->layer)
		call_absent(&c);
	if (k->form == WHOLE && coded)
		call_values(&c, E2E_F32, SHAPE(1), &scale);
	else if (k->form == WHOLE)
		call_absent(&c), scale = 1;
	if (k->form == ROWS && z.full)
		smooth = call_in(&c, E2E_F32, SHAPE(z.n), 1);
	else if (k->form == ROWS)
		call_absent(&c);
	if (k->form == ROWS && z.full)
		call_values(&c, E2E_F32, SHAPE(1), &limit);
	else if (k->form == ROWS)
		call_absent(&c);
	o.amax = c.n;
	if (z.full || z.sums)
		call_values(&c, E2E_F32, SHAPE(1), &amax);
	else
		call_absent(&c);
	call_number(&c, eps);
	call_number(&c, p.offset);
	o.y = call_out(&c, y, rows_of(z.batch, z.m, z.n, z.y));
	if (k->form == ROWS)
		o.scale = call_out(&c, E2E_F32, one_of(&z));
	if (k->form == GROUPS)
		o.scale = call_out(&c, k->scale == REF_SCALE_E8M0 ? E2E_E8M0 : E2E_F32, rows_of(z.batch, z.m, (z.n + k->group - 1) / k->group, (struct e2e_place){0}));
	if (k->form == WHOLE && (z.full || z.across) && !z.batch)
		o.yt = call_out(&c, y, SHAPE(z.n, z.m));
	else if (k->form == WHOLE)
		call_absent(&c);
	for (int i = 0; i < 2 + k->layer; i++) {
		int *at = i == 0 ? &o.res : i == 1 ? &o.rstd : &o.mu;
		if (z.full || (z.sums && i))
			*at = i == 0 ? call_out(&c, z.in, rows_of(z.batch, z.m, z.n, (struct e2e_place){0})) : call_out(&c, E2E_F32, one_of(&z));
		else
			call_absent(&c);
	}
	call_go(&c);
	check(&c, k, &z, &p, x, smooth, scale, k->form == ROWS ? limit : 0, &o, amax);
	call_end(&c);
}

static const int64_t sizes[] = {1, 7, 16, 128, 400, 769, 1024, 2048, 4096, 7168};
enum { NSIZES = sizeof sizes / sizeof *sizes };

START_TEST(sizes_agree)
{
	const struct norm *k = &norms[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	for (int i = 0; i < NSIZES; i++)
		for (int full = 0; full < 2; full++) {
			struct size z = {.m = sizes[i] > 1024 ? 1 : 3, .n = sizes[i], .full = full, .type = E2E_E4M3FN};
			run(chip, k, z);
			z.type = e2e_input();
			if (k->form == WHOLE)
				run(chip, k, z);
		}
	run(chip, k, (struct size){.m = 0, .n = 64, .full = true, .type = E2E_E4M3FN});
	run(chip, k, (struct size){.m = 3, .n = 0, .type = E2E_E4M3FN});
	run(chip, k, (struct size){.m = 3, .n = 0, .full = true, .type = E2E_E4M3FN});
}
END_TEST

/* Whole tiles, tiles that end within, rows that are no whole accesses; held and swept.  Of tensors that a set of the pack names, and of others. */
START_TEST(transposes_agree)
{
	const struct norm *k = &norms[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t extents[][2] = {{64, 1024}, {48, 4096}, {16, 272}, {3, 64}, {80, 769}, {16, 8192}, {1, 16}, {0, 64}, {16, 40000}};
	for (size_t i = 0; k->form == WHOLE && i < sizeof extents / sizeof *extents; i++) {
		run(chip, k, (struct size){.m = extents[i][0], .n = extents[i][1], .across = true, .type = E2E_E4M3FN});
		run(chip, k, (struct size){.m = extents[i][0], .n = extents[i][1], .across = true, .sums = true, .type = E2E_E4M3FN});
		run(chip, k, (struct size){.m = extents[i][0], .n = extents[i][1], .full = true, .type = E2E_E4M3FN});
		run(chip, k, (struct size){.m = extents[i][0], .n = extents[i][1], .across = true, .type = e2e_input(), .y = {.pitch = extents[i][1] + 16}});
	}
}
END_TEST

START_TEST(long_rows_agree)
{
	const struct norm *k = &norms[_i];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t lengths[] = {14336, 131072, 16384, 28672, 100003};
	for (int i = 0; i < (e2e_full() ? 5 : 2); i++) {
		run(chip, k, (struct size){.m = 1, .n = lengths[i], .type = E2E_E4M3FN});
		if (e2e_full() || i == 0)
			run(chip, k, (struct size){.m = 2, .n = lengths[i], .full = true, .type = E2E_E4M3FN});
	}
}
END_TEST

START_TEST(places_agree)
{
	const struct norm *k = &norms[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t ns[] = {64, 769, 1024};
	for (int i = 0; i < 3; i++) {
		int64_t n = ns[i];
		struct size cases[] = {
			{.m = 3, .n = n, .x = {.pitch = 2 * n + 8}, .y = {.pitch = n + 16}},
			{.m = 3, .n = n, .x = {.pitch = 2 * n + 3}, .y = {.pitch = n + 5}},
			{.m = 2, .n = n, .x = {.pitch = 4 * n + 6, .step = 2}},
			{.batch = 2, .m = 3, .n = n, .x = {.pitch = 2 * n + 8}, .full = true},
			{.m = 3, .n = n, .x = {.shift = 1}, .y = {.shift = 3}, .full = true},
		};
		for (size_t j = 0; j < sizeof cases / sizeof *cases; j++) {
			cases[j].type = E2E_E4M3FN;
			run(chip, k, cases[j]);
		}
	}
}
END_TEST

/* --- row-wise and transposed, each with its own scales */

struct both { const char *kernel; int layer; int64_t group; enum ref_scale scale; bool fp4; };
static const struct both boths[] = {
	{"rmsnorm_both_mxfp8", 0, 32, REF_SCALE_E8M0, false}, {"layernorm_both_mxfp8", 1, 32, REF_SCALE_E8M0, false},
	{"rmsnorm_both_mxfp4", 0, 32, REF_SCALE_E8M0, true}, {"layernorm_both_mxfp4", 1, 32, REF_SCALE_E8M0, true},
	{"rmsnorm_both_128", 0, 128, 0, false}, {"layernorm_both_128", 1, 128, 0, false},
	{"rmsnorm_both_128_e8m0", 0, 128, REF_SCALE_E8M0, false}, {"layernorm_both_128_e8m0", 1, 128, REF_SCALE_E8M0, false},
};
enum { NBOTHS = sizeof boths / sizeof *boths, ROW_WISE = 1, COLUMN_WISE = 2 };

/* A group of one element may hold a difference that is near 0: what f32 rounds of a row's numbers, which are about 1, is then its error. */
static void check_scales(struct call *c, const struct both *k, enum ref_code code, int at, const double *want)
{
	if (k->scale)
		call_scales(c, at, want);
	else
		call_near(c, at, want, 0x1p-21, 0x1p-21 / ref_code_max(code));
}

static void both(const struct e2e_chip *chip, const struct both *k, int64_t m, int64_t n, bool full, int ways)
{
	struct call c;
	if (!e2e_takes(k->kernel))
		return;
	m += k->fp4 && m % 2, n += k->fp4 && n % 2;      /* innermost extents of codes are even */
	size_t all = (size_t)(m * n) + 1;
	int64_t gm = (m + k->group - 1) / k->group, gn = (n + k->group - 1) / k->group;
	double *v = calloc(all, 8), *u = calloc(all, 8), *y = calloc(all, 8), *t = calloc(all, 8), *rstd = calloc((size_t)m + 1, 8), *mu = calloc((size_t)m + 1, 8),
		*s = calloc((size_t)(m * (gn + 1)) + 1, 8), *st = calloc((size_t)(n * (gm + 1)) + 1, 8), amax = 0.5, start = 0.5;
	struct ref_norm p = {.layer = k->layer, .eps = (float)1e-5, .offset = full};
	enum ref_code code = k->fp4 ? REF_E2M1 : chip->fp8;
	enum e2e_type fp8 = e2e_code_type(code), scale = k->scale == REF_SCALE_E8M0 ? E2E_E8M0 : E2E_F32;
	call_begin(&c, chip, k->kernel, "M %ld, N %ld, %s, ways %d", (long)m, (long)n, full ? "full" : "bare", ways);
	const double *x = call_in(&c, e2e_input(), SHAPE(m, n), 1.5);
	if (full)
		p.res = call_in(&c, e2e_input(), SHAPE(m, n), 1);
	else
		call_absent(&c);
	p.w = call_in(&c, e2e_input(), SHAPE(n), 0.5);
	if (k->layer && full)
		p.b = call_in(&c, e2e_input(), SHAPE(n), 0.5);
	else if (k->layer)
		call_absent(&c);
	int at_amax = k->layer ? -1 : c.n;
	if (!k->layer && full)
		call_values(&c, E2E_F32, SHAPE(1), &start);
	else if (!k->layer)
		call_absent(&c);
	call_number(&c, p.eps), call_number(&c, p.offset);
	int at_y = call_maybe(&c, ways & ROW_WISE, fp8, SHAPE(m, n)), at_s = call_maybe(&c, ways & ROW_WISE, scale, TURNED(m, gn)),
		at_t = call_maybe(&c, ways & COLUMN_WISE, fp8, SHAPE(n, m)), at_st = call_maybe(&c, ways & COLUMN_WISE, scale, TURNED(n, gm)),
		at_res = call_maybe(&c, full, e2e_input(), SHAPE(m, n)), at_rstd = call_maybe(&c, full, E2E_F32, SHAPE(m)),
		at_mu = k->layer ? call_maybe(&c, full, E2E_F32, SHAPE(m)) : -1;
	call_go(&c);
	ref_norm(&p, x, m, n, v, u, rstd, mu);
	if (ways & ROW_WISE) {
		ref_quantize(k->scale, code, 0, v, m, n, 1, k->group, y, s);
		call_settle(&c, at_s, code, y, s, m, n, k->group);
		check_scales(&c, k, code, at_s, s);
		call_codes(&c, at_y, y);
	}
	for (int64_t i = 0; i < m * n; i++)
		t[i % n * m + i / n] = v[i];
	if (ways & COLUMN_WISE) {
		ref_quantize(k->scale, code, 0, t, n, m, 1, k->group, y, st);
		call_settle(&c, at_st, code, y, st, n, m, k->group);
		check_scales(&c, k, code, at_st, st);
		call_codes(&c, at_t, y);
	}
	if (full) {
		call_any(&c, at_res, u, n);
		call_near(&c, at_rstd, rstd, 0x1p-20, 0);
	}
	if (full && k->layer)
		call_near(&c, at_mu, mu, 0x1p-20, 0x1p-20);
	amax = ref_amax(v, m * n) > start ? ref_amax(v, m * n) : start;
	if (full && !k->layer)
		call_near(&c, at_amax, &amax, 0x1p-20, 0);
	call_end(&c);
	free(v), free(u), free(y), free(t), free(rstd), free(mu), free(s), free(st);
}

START_TEST(both_agree)
{
	const struct both *k = &boths[_i / 2];
	const struct e2e_chip *chip = &e2e_chips[_i % 2];
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {0, 64}, {32, 128}, {48, 400}, {33, 769}, {65, 64}, {2, 4096}, {1, 14336}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
		for (int full = 0; full < 2; full++)
			both(chip, k, mn[i][0], mn[i][1], full, ROW_WISE | COLUMN_WISE);
	both(chip, k, 33, 129, true, ROW_WISE);
	both(chip, k, 64, 256, false, ROW_WISE);
	both(chip, k, 33, 129, false, COLUMN_WISE);
	both(chip, k, 64, 256, true, COLUMN_WISE);
	both(chip, k, 3, 0, true, ROW_WISE | COLUMN_WISE);
	if (e2e_full())
		both(chip, k, 33, 131072, true, ROW_WISE | COLUMN_WISE);
}
END_TEST

/* --- backward */

static void backward(const struct e2e_chip *chip, int layer, int64_t m, int64_t n, bool full)
{
	struct call c;
	if (!e2e_takes(layer ? "layernorm_bwd" : "rmsnorm_bwd"))
		return;
	size_t all = (size_t)(m * n) + 1;
	double *v = calloc(all, 8), *u = calloc(all, 8), *rstd = calloc((size_t)m + 1, 8), *mu = calloc((size_t)m + 1, 8), *dx = calloc(all, 8),
		*dw = calloc((size_t)n + 1, 8), *db = calloc((size_t)n + 1, 8);
	struct ref_norm p = {.layer = layer, .eps = 1e-5, .offset = full};
	call_begin(&c, chip, layer ? "layernorm_bwd" : "rmsnorm_bwd", "M %ld, N %ld, %s", (long)m, (long)n, full ? "full" : "bare");
	const double *dy = call_in(&c, e2e_input(), SHAPE(m, n), 1), *x = call_in(&c, e2e_input(), SHAPE(m, n), 1.5), *dres = NULL;
	p.w = call_in(&c, e2e_input(), SHAPE(n), 0.5);
	ref_norm(&p, x, m, n, v, u, rstd, mu);
	call_values(&c, E2E_F32, SHAPE(m), rstd);
	if (layer)
		call_values(&c, E2E_F32, SHAPE(m), mu);
	if (full)
		dres = call_in(&c, e2e_input(), SHAPE(m, n), 1);
	else
		call_absent(&c);
	call_number(&c, p.offset);
	int odx = call_out(&c, e2e_input(), SHAPE(m, n)), odw = call_out(&c, E2E_F32, SHAPE(n)), odb = layer ? call_out(&c, E2E_F32, SHAPE(n)) : -1;
	call_go(&c);
	ref_norm_bwd(&p, dy, x, dres, m, n, dx, dw, db);
	call_near(&c, odx, dx, 0x1p-8, 0x1p-9);
	call_near(&c, odw, dw, 0x1p-16, 0x1p-18 * (double)(m + 1));
	if (layer)
		call_near(&c, odb, db, 0x1p-16, 0x1p-18 * (double)(m + 1));
	call_end(&c);
	free(v), free(u), free(rstd), free(mu), free(dx), free(dw), free(db);
}

START_TEST(backward_agrees)
{
	const struct e2e_chip *chip = &e2e_chips[_i / 2];
	static const int64_t mn[][2] = {{1, 1}, {3, 7}, {1, 128}, {65, 16}, {130, 769}, {66, 400}, {3, 4096}, {0, 64}, {2, 7168}, {1, 14336}};
	for (size_t i = 0; i < sizeof mn / sizeof *mn; i++)
		backward(chip, _i % 2, mn[i][0], mn[i][1], i % 2);
	if (e2e_full())
		backward(chip, _i % 2, 2, 131072, true);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: norms");
	TCase *t = tcase_create("norms");
	tcase_set_timeout(t, 1000);
	tcase_add_loop_test(t, sizes_agree, 0, 2 * NNORMS);
	tcase_add_loop_test(t, transposes_agree, 0, 2 * NNORMS);
	tcase_add_loop_test(t, long_rows_agree, 0, NNORMS);
	tcase_add_loop_test(t, places_agree, 0, 2 * NNORMS);
	tcase_add_loop_test(t, both_agree, 0, 2 * NBOTHS);
	tcase_add_loop_test(t, backward_agrees, 0, 4);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
