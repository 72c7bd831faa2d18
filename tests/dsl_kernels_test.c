/* dsl_kernels_test.c -- what kernels mean: elaborated from their text, evaluated, and compared with references in double
 * precision that know nothing of the language.  Tile sizes vary, also where the text leaves an index untiled. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dsl_help.h"

static void go(struct ir_run *r) { ck_assert_msg(ir_run_go(r) == 0, "%s", r->err); }

static void near(double found, double want, double relative, double absolute, const char *what, long at)
{
	ck_assert_msg(fabs(found - want) <= relative * fabs(want) + absolute || (isnan(found) && isnan(want)), "%s[%ld] is %.9g, expected %.9g", what, at, found, want);
}

static double at(const struct ir_tensor *t, int64_t i, int64_t j) { return ir_tensor_get(t, i * t->extent[t->rank - 1] + j); }

/* --- the four model kernels */

static void rmsnorm_case(const char *instance, int m, int n, int rows)
{
	struct ir_run r;
	dsl_run_open(&r, "kernels.tdsl", "rmsnorm_quant", instance);
	double limit = strstr(instance, "i8") ? 127 : 448;
	ir_run_symbol(&r, "M", m);
	ir_run_symbol(&r, "N", n);
	ir_run_tile(&r, "m", rows);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 3), *w = ir_run_tensor(&r, "w", 1), *y = ir_run_tensor(&r, "y", 0), *s = ir_run_tensor(&r, "scale", 0);
	for (int j = 0; j < n && m > 1; j++)
		ir_tensor_set(x, n + j, 0);        /* row 1 is zero: scale 1 */
	go(&r);
	for (int i = 0; i < m; i++) {
		double sum = 0, top = 0;
		for (int j = 0; j < n; j++)
			sum += pow(at(x, i, j), 2);
		double rms = 1 / sqrt(sum / n + 1e-6);
		for (int j = 0; j < n; j++)
			top = fmax(top, fabs(at(x, i, j) * ir_tensor_get(w, j) * rms));
		double scale = top > 0 ? fmax(top / limit, 0x1p-126) : 1;
		near(ir_tensor_get(s, i), scale, 4e-6, 0, "scale", i);
		for (int j = 0; j < n; j++)
			near(at(y, i, j), at(x, i, j) * ir_tensor_get(w, j) * rms / scale, limit == 127 ? 0 : 1.0 / 15, limit == 127 ? 0.51 : 0x1p-9, "y", i * n + j);
	}
	ir_run_close(&r);
}

START_TEST(rmsnorm_quant)
{
	rmsnorm_case("T=bf16,Q=fp8", 3, 769, 0);
	rmsnorm_case("T=f32,Q=i8", 5, 64, 4);
	rmsnorm_case("T=f16,Q=fp8", 2, 1, 1);
	rmsnorm_case("T=bf16,Q=i8", 0, 64, 2);
}
END_TEST

static void swiglu_case(int m, int n, int rows, int groups)
{
	struct ir_run r;
	dsl_run_open(&r, "kernels.tdsl", "swiglu_quant", "T=bf16");
	ir_run_symbol(&r, "M", m);
	ir_run_symbol(&r, "N", n);
	ir_run_tile(&r, "m", rows);
	ir_run_tile(&r, "n.o", groups);
	struct ir_tensor *h = ir_run_tensor(&r, "h", 4), *y = ir_run_tensor(&r, "y", 0), *s = ir_run_tensor(&r, "scale", 0);
	go(&r);
	for (int i = 0; i < m; i++)
		for (int g = 0; g * 128 < n; g++) {
			double u[128], top = 0;
			int size = n - g * 128 < 128 ? n - g * 128 : 128;
			for (int j = 0; j < size; j++) {
				double gate = at(h, i, g * 128 + j);
				u[j] = gate / (1 + exp(-gate)) * at(h, i, n + g * 128 + j);
				top = fmax(top, fabs(u[j]));
			}
			near(at(s, i, g), top / 448, 4e-6, 0, "scale", g);
			for (int j = 0; j < size; j++)
				near(at(y, i, g * 128 + j), u[j] / (top / 448), 1.0 / 15, 0x1p-9, "y", g * 128 + j);
		}
	ir_run_close(&r);
}

START_TEST(swiglu_quant)
{
	swiglu_case(2, 256, 0, 0);
	swiglu_case(3, 300, 2, 2);
	swiglu_case(1, 7, 1, 4);
}
END_TEST

static void grouped_case(int m, int n, int k, int e, const int *first, int tile)
{
	struct ir_run r;
	dsl_run_open(&r, "kernels.tdsl", "grouped_gemm", "T=bf16");
	ir_run_symbol(&r, "M", m);
	ir_run_symbol(&r, "N", n);
	ir_run_symbol(&r, "K", k);
	ir_run_symbol(&r, "E", e);
	ir_run_tile(&r, "m", tile);
	ir_run_tile(&r, "n", tile);
	ir_run_tile(&r, "k", tile);
	struct ir_tensor *a = ir_run_tensor(&r, "a", 1), *b = ir_run_tensor(&r, "b", 1), *f = ir_run_tensor(&r, "first", 0), *c = ir_run_tensor(&r, "c", 0);
	for (int i = 0; i <= e; i++)
		ir_tensor_set(f, i, first[i]);
	go(&r);
	for (int g = 0; g < e; g++)
		for (int i = first[g] < 0 ? 0 : first[g]; i < first[g + 1] && i < m; i++)
			for (int j = 0; j < n; j++) {
				double sum = 0, size = 0;
				for (int l = 0; l < k; l++) {
					sum += at(a, i, l) * at(b, g * n + j, l);
					size += fabs(at(a, i, l) * at(b, g * n + j, l));
				}
				near(at(c, i, j), sum, 0x1p-8, size * 1e-6, "c", i * n + j);
			}
	ir_run_close(&r);
}

START_TEST(grouped_gemm)
{
	grouped_case(13, 9, 20, 3, (int[]){0, 5, 5, 13}, 4);
	grouped_case(6, 4, 7, 2, (int[]){0, 6, 100}, 8);
	grouped_case(5, 3, 0, 1, (int[]){0, 5}, 2);
}
END_TEST

struct attention { int b, h, g, s, t, d, ti, tj, window; };

static void attention_reference(struct attention c, const struct ir_tensor *q, const struct ir_tensor *k, const struct ir_tensor *v, const struct ir_tensor *bias,
                                double scale, int b, int h, int i, double *out)
{
	double den = 0, top = -INFINITY, *p = calloc((size_t)c.t + 1, sizeof *p);
	int g = h / (c.h / c.g), end = i + c.t - c.s;
	memset(out, 0, (size_t)c.d * sizeof *out);
	for (int j = 0; j < c.t; j++) {
		for (int d = 0; d < c.d; d++)
			p[j] += ir_tensor_get(q, ((b * c.h + h) * c.s + i) * c.d + d) * ir_tensor_get(k, ((b * c.g + g) * c.t + j) * c.d + d);
		p[j] = p[j] * scale + (bias ? ir_tensor_get(bias, (h * c.s + i) * c.t + j) : 0);
		if (j > end || (c.window && j <= end - c.window))
			p[j] = -INFINITY;
		top = fmax(top, p[j]);
	}
	for (int j = 0; j < c.t; j++)
		den += p[j] = top == -INFINITY ? 0 : exp(p[j] - top);
	for (int j = 0; j < c.t; j++)
		for (int d = 0; d < c.d && den > 0; d++)
			out[d] += p[j] / den * ir_tensor_get(v, ((b * c.g + g) * c.t + j) * c.d + d);
	free(p);
}

static void attention_case(const char *path, const char *kernel, struct attention c)
{
	struct ir_run r;
	dsl_run_open(&r, path, kernel, "T=bf16");
	const char *names[] = {"B", "H", "G", "S", "L", "D"};
	int sizes[] = {c.b, c.h, c.g, c.s, c.t, c.d};
	for (int i = 0; i < 6; i++)
		ir_run_symbol(&r, names[i], sizes[i]);
	ir_run_tile(&r, "i", c.ti);
	ir_run_tile(&r, "j", c.tj);
	ir_run_scalar(&r, "scale", 0.3);
	struct ir_tensor *q = ir_run_tensor(&r, "q", 2), *k = ir_run_tensor(&r, "k", 2), *v = ir_run_tensor(&r, "v", 2), *o = ir_run_tensor(&r, "o", 0), *bias = NULL;
	if (c.window) {
		ir_run_scalar(&r, "W", c.window);
		bias = ir_run_tensor(&r, "bias", 1);
	}
	go(&r);
	double *want = calloc((size_t)c.d + 1, sizeof *want);
	for (int b = 0; b < c.b; b++)
		for (int h = 0; h < c.h; h++)
			for (int i = 0; i < c.s; i++) {
				attention_reference(c, q, k, v, bias, (float)0.3, b, h, i, want);
				for (int d = 0; d < c.d; d++)
					near(ir_tensor_get(o, ((b * c.h + h) * c.s + i) * c.d + d), want[d], 0.02, 0.02, "o", ((b * c.h + h) * c.s + i) * c.d + d);
			}
	free(want);
	ir_run_close(&r);
}

START_TEST(attention)
{
	attention_case("kernels.tdsl", "attention", (struct attention){1, 4, 2, 7, 7, 8, 4, 4, 0});
	attention_case("kernels.tdsl", "attention", (struct attention){2, 2, 2, 3, 20, 5, 2, 8, 0});
	attention_case("kernels.tdsl", "attention", (struct attention){1, 2, 1, 6, 2, 4, 4, 2, 0});    /* the first rows see nothing */
	attention_case("tests/dsl/attention.tdsl", "window", (struct attention){1, 2, 2, 9, 21, 4, 4, 4, 5});
}
END_TEST

/* --- decode over pages, a length per row, an optional sink */

static void decode_case(bool sink, int rows)
{
	enum { B = 3, H = 4, G = 2, D = 4, P = 4, Y = 3, X = 9 };
	static const int length[B] = {7, 0, 40};           /* beyond P * Y: clamped */
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/attention.tdsl", "decode", "");
	const char *names[] = {"B", "H", "G", "D", "P", "Y", "X"};
	int sizes[] = {B, H, G, D, P, Y, X};
	for (int i = 0; i < 7; i++)
		ir_run_symbol(&r, names[i], sizes[i]);
	ir_run_tile(&r, "j", 8);
	ir_run_tile(&r, "r", 2);
	ir_run_tile(&r, "b", rows);
	ir_run_scalar(&r, "scale", 0.5);
	struct ir_tensor *q = ir_run_tensor(&r, "q", 2), *k = ir_run_tensor(&r, "k", 2), *v = ir_run_tensor(&r, "v", 2), *page = ir_run_tensor(&r, "page", 0),
		*len = ir_run_tensor(&r, "len", 0), *o = ir_run_tensor(&r, "o", 0), *lse = ir_run_tensor(&r, "lse", 0), *s = sink ? ir_run_tensor(&r, "sink", 1) : NULL;
	for (int b = 0; b < B; b++) {
		ir_tensor_set(len, b, length[b]);
		for (int y = 0; y < Y; y++)
			ir_tensor_set(page, b * Y + y, (b * 4 + y * 2) % X);
	}
	go(&r);
	for (int b = 0; b < B; b++)
		for (int h = 0; h < H; h++) {
			int n = length[b] < P * Y ? length[b] : P * Y, g = h / (H / G);
			double p[P * Y] = {0}, top = s ? ir_tensor_get(s, h) : -INFINITY, den = 0, out[D] = {0};
			for (int j = 0; j < n; j++) {
				int x = (b * 4 + j / P * 2) % X;
				for (int d = 0; d < D; d++)
					p[j] += 0.5 * ir_tensor_get(q, (b * H + h) * D + d) * ir_tensor_get(k, ((x * P + j % P) * G + g) * D + d);
				top = fmax(top, p[j]);
			}
			den = s ? exp(ir_tensor_get(s, h) - top) : 0;
			for (int j = 0; j < n; j++) {
				int x = (b * 4 + j / P * 2) % X;
				den += exp(p[j] - top);
				for (int d = 0; d < D; d++)
					out[d] += exp(p[j] - top) * ir_tensor_get(v, ((x * P + j % P) * G + g) * D + d);
			}
			for (int d = 0; d < D; d++)
				near(ir_tensor_get(o, (b * H + h) * D + d), den > 0 ? out[d] / den : 0, 0.02, 0.02, "o", (b * H + h) * D + d);
			near(at(lse, b, h), den > 0 ? top + log(den) : -3.4028234663852886e38, 1e-4, 1e-4, "lse", b * H + h);
		}
	ir_run_close(&r);
}

START_TEST(decode)
{
	decode_case(false, 0);
	decode_case(true, 0);
	decode_case(true, 2);          /* two rows of different lengths in one workgroup */
}
END_TEST

/* --- contracted ragged ranges */

static void wgrad_case(const char *kernel, const int *first, int groups)
{
	enum { M = 11, N = 5, K = 6, E = 3 };
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/ragged.tdsl", kernel, "");
	bool adds = strcmp(kernel, "wgrad_add") == 0;
	const char *names[] = {"M", "N", "K", "E"};
	int sizes[] = {M, N, K, E};
	for (int i = 0; i < 4; i++)
		ir_run_symbol(&r, names[i], sizes[i]);
	ir_run_tile(&r, "m", 4);
	ir_run_tile(&r, "n", 4);
	ir_run_tile(&r, "e", groups);
	struct ir_tensor *dy = ir_run_tensor(&r, "dy", 1), *x = ir_run_tensor(&r, "x", 1), *f = ir_run_tensor(&r, "first", 0), *dw = ir_run_tensor(&r, "dw", 1);
	double old[E * N * K];
	for (int i = 0; i < E * N * K; i++)
		old[i] = adds ? ir_tensor_get(dw, i) : 0;
	for (int i = 0; i <= E; i++)
		ir_tensor_set(f, i, first[i]);
	go(&r);
	for (int e = 0; e < E; e++)
		for (int n = 0; n < N; n++)
			for (int k = 0; k < K; k++) {
				double sum = old[(e * N + n) * K + k];
				for (int m = first[e] < 0 ? 0 : first[e]; m < first[e + 1] && m < M; m++)
					sum += at(dy, m, n) * at(x, m, k);
				near(ir_tensor_get(dw, (e * N + n) * K + k), sum, 1e-5, 1e-5, "dw", (e * N + n) * K + k);
			}
	ir_run_close(&r);
}

START_TEST(ragged_for)
{
	wgrad_case("wgrad", (int[]){0, 4, 4, 11}, 0);
	wgrad_case("wgrad", (int[]){-3, 2, 7, 99}, 2);      /* clamped; two groups in one workgroup */
	wgrad_case("wgrad_add", (int[]){1, 4, 4, 9}, 0);
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/ragged.tdsl", "row_sums", "");
	ir_run_symbol(&r, "M", 5);
	ir_run_symbol(&r, "N", 9);
	ir_run_tile(&r, "m", 4);
	ir_run_tile(&r, "n", 2);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *len = ir_run_tensor(&r, "len", 0), *y = ir_run_tensor(&r, "y", 0);
	for (int i = 0; i < 5; i++)
		ir_tensor_set(len, i, i * 3 - 1);
	go(&r);
	for (int i = 0; i < 5; i++) {
		double sum = 0;
		for (int j = 0; j < i * 3 - 1 && j < 9; j++)
			sum += at(x, i, j);
		near(ir_tensor_get(y, i), sum, 1e-5, 1e-6, "y", i);
	}
	ir_run_close(&r);
}
END_TEST

/* --- products with scales */

START_TEST(gemm_blockscale)
{
	enum { M = 5, N = 130, K = 200 };
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/blocks.tdsl", "gemm_blockscale", "");
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	ir_run_symbol(&r, "K", K);
	ir_run_tile(&r, "m", 4);
	ir_run_tile(&r, "n", 64);
	struct ir_tensor *a = ir_run_tensor(&r, "a", 4), *b = ir_run_tensor(&r, "b", 4), *sa = ir_run_tensor(&r, "sa", 1), *sb = ir_run_tensor(&r, "sb", 1), *c = ir_run_tensor(&r, "c", 0);
	go(&r);
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			double sum = 0, size = 0;
			for (int k = 0; k < K; k++) {
				double term = at(a, i, k) * at(b, j, k) * at(sa, i, k / 128) * at(sb, j / 128, k / 128);
				sum += term;
				size += fabs(term);
			}
			near(at(c, i, j), sum, 0x1p-8, size * 1e-5, "c", i * N + j);
		}
	ir_run_close(&r);
}
END_TEST

START_TEST(gemm_optional_bias)
{
	for (int bias = 0; bias < 2; bias++) {
		struct ir_run r;
		dsl_run_open(&r, "tests/dsl/blocks.tdsl", "gemm_a8w8", "Q=i8");
		ir_run_symbol(&r, "M", 3);
		ir_run_symbol(&r, "N", 5);
		ir_run_symbol(&r, "K", 9);
		ir_run_tile(&r, "k", 4);
		struct ir_tensor *a = ir_run_tensor(&r, "a", 100), *b = ir_run_tensor(&r, "b", 100), *sa = ir_run_tensor(&r, "sa", 1), *sb = ir_run_tensor(&r, "sb", 1),
			*c = ir_run_tensor(&r, "c", 0), *z = bias ? ir_run_tensor(&r, "bias", 1000) : NULL;
		go(&r);
		for (int i = 0; i < 3; i++)
			for (int j = 0; j < 5; j++) {
				double sum = 0;
				for (int k = 0; k < 9; k++)
					sum += at(a, i, k) * at(b, j, k);
				near(at(c, i, j), sum * ir_tensor_get(sa, i) * ir_tensor_get(sb, j) + (z ? ir_tensor_get(z, j) : 0), 0x1p-8, 0.01, "c", i * 5 + j);
			}
		ir_run_close(&r);
	}
}
END_TEST

/* The smallest power of two not below amax / 448; beside an infinite element finite ones are 0 and it is NaN. */
START_TEST(quantize_mx)
{
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/blocks.tdsl", "quantize_rows_mx", "");
	ir_run_symbol(&r, "M", 4);
	ir_run_symbol(&r, "N", 70);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *y = ir_run_tensor(&r, "y", 0), *s = ir_run_tensor(&r, "scale", 0);
	for (int j = 0; j < 70; j++) {
		ir_tensor_set(x, j, j == 3 ? 448 : 0.5);          /* exactly 448: scale 1 */
		ir_tensor_set(x, 70 + j, j == 3 ? 450 : 0.5);     /* a little more: 2 */
		ir_tensor_set(x, 140 + j, 0);
		ir_tensor_set(x, 210 + j, j == 3 ? -INFINITY : 0.5);
	}
	go(&r);
	for (int j = 0; j < 32; j++)
		ck_assert_msg(j == 3 ? isnan(at(y, 3, j)) : at(y, 3, j) == 0, "y[3, %d] is %g beside an infinite element", j, at(y, 3, j));
	for (int i = 0; i < 4; i++)
		for (int g = i == 3; g < 3; g++) {
			double top = 0, scale = 1;
			for (int j = g * 32; j < 70 && j < g * 32 + 32; j++)
				top = fmax(top, fabs(at(x, i, j)));
			if (top > 0)
				for (scale = 0x1p-60; scale * 448 < top;)
					scale *= 2;
			near(at(s, i, g), scale, 0, 0, "scale", i * 3 + g);
			for (int j = g * 32; j < 70 && j < g * 32 + 32; j++)
				near(at(y, i, j), at(x, i, j) / scale, 1.0 / 15, 0x1p-9, "y", i * 70 + j);
		}
	ir_run_close(&r);
}
END_TEST

/* --- phases, updates */

START_TEST(phases)
{
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/phases.tdsl", "column_sums", "");
	ck_assert_int_eq(r.k->nphases, 2);
	ir_run_symbol(&r, "M", 131);
	ir_run_symbol(&r, "N", 7);
	ir_run_tile(&r, "n", 4);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *y = ir_run_tensor(&r, "y", 0);
	go(&r);
	for (int j = 0; j < 7; j++) {
		double sum = 0;
		for (int i = 0; i < 131; i++)
			sum += at(x, i, j);
		near(ir_tensor_get(y, j), sum, 1e-5, 1e-4, "y", j);
	}
	ir_run_close(&r);
}
END_TEST

START_TEST(updates)
{
	for (int rows = 0; rows < 5; rows += 4) {
		struct ir_run r;
		dsl_run_open(&r, "tests/dsl/phases.tdsl", "tensor_amax", "");
		ir_run_symbol(&r, "M", 6);
		ir_run_symbol(&r, "N", 9);
		ir_run_tile(&r, "m", rows);
		struct ir_tensor *x = ir_run_tensor(&r, "x", 3), *amax = ir_run_tensor(&r, "amax", 0), *count = ir_run_tensor(&r, "count", 0);
		ir_tensor_set(amax, 0, 0.25);
		ir_tensor_set(count, 0, 10);
		go(&r);
		double top = 0.25;
		for (int i = 0; i < 54; i++)
			top = fmax(top, fabs(ir_tensor_get(x, i)));
		near(ir_tensor_get(amax, 0), top, 0, 0, "amax", 0);
		near(ir_tensor_get(count, 0), 16, 0, 0, "count", 0);
		ir_run_close(&r);
		dsl_run_open(&r, "tests/dsl/phases.tdsl", "bias_grad", "");
		ir_run_symbol(&r, "M", 6);
		ir_run_symbol(&r, "N", 9);
		ir_run_tile(&r, "m", rows);
		struct ir_tensor *dy = ir_run_tensor(&r, "dy", 3), *db = ir_run_tensor(&r, "db", 0);
		for (int j = 0; j < 9; j++)
			ir_tensor_set(db, j, j);
		go(&r);
		for (int j = 0; j < 9; j++) {
			double sum = j;
			for (int i = 0; i < 6; i++)
				sum += at(dy, i, j);
			near(ir_tensor_get(db, j), sum, 1e-5, 1e-5, "db", j);
		}
		ir_run_close(&r);
	}
}
END_TEST

/* --- rows: optional tensors, inout, routing, recurrences, conditions */

START_TEST(add_rmsnorm)
{
	enum { M = 3, N = 10 };
	for (int all = 0; all < 2; all++) {
		struct ir_run r;
		dsl_run_open(&r, "tests/dsl/rows.tdsl", "add_rmsnorm", "T=f32");
		ir_run_symbol(&r, "M", M);
		ir_run_symbol(&r, "N", N);
		struct ir_tensor *x = ir_run_tensor(&r, "x", 2), *w = ir_run_tensor(&r, "w", 1), *y = ir_run_tensor(&r, "y", 0), *res = NULL, *sum = NULL, *rstd = NULL, *yt = NULL;
		if (all) {
			res = ir_run_tensor(&r, "res", 2);
			sum = ir_run_tensor(&r, "sum_", 0);
			rstd = ir_run_tensor(&r, "rstd", 0);
			yt = ir_run_tensor(&r, "yt", 0);
		}
		go(&r);
		for (int i = 0; i < M; i++) {
			double u[N], squares = 0;
			for (int j = 0; j < N; j++) {
				u[j] = at(x, i, j) + (all ? at(res, i, j) : 0);
				squares += u[j] * u[j];
			}
			double rms = 1 / sqrt(squares / N + 1e-6);
			for (int j = 0; j < N; j++) {
				near(at(y, i, j), u[j] * rms * ir_tensor_get(w, j), 1e-5, 1e-6, "y", i * N + j);
				if (all) {
					near(at(sum, i, j), u[j], 1e-6, 0, "sum", i * N + j);
					near(at(yt, j, i), at(y, i, j), 0, 0, "yt", i * N + j);
					near(ir_tensor_get(rstd, i), rms, 1e-5, 0, "rstd", i);
				}
			}
		}
		ir_run_close(&r);
	}
}
END_TEST

START_TEST(layernorm_inplace)
{
	enum { M = 2, N = 13 };
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/rows.tdsl", "layernorm_inplace", "");
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 2), *w = ir_run_tensor(&r, "w", 1), *b = ir_run_tensor(&r, "b", 1);
	double old[M][N];
	for (int i = 0; i < M * N; i++)
		old[i / N][i % N] = ir_tensor_get(x, i);
	go(&r);
	for (int i = 0; i < M; i++) {
		double mean = 0, var = 0;
		for (int j = 0; j < N; j++)
			mean += old[i][j] / N;
		for (int j = 0; j < N; j++)
			var += pow(old[i][j] - mean, 2) / N;
		for (int j = 0; j < N; j++)
			near(at(x, i, j), (old[i][j] - mean) / sqrt(var + 1e-5) * ir_tensor_get(w, j) + ir_tensor_get(b, j), 1e-4, 1e-5, "x", i * N + j);
	}
	ir_run_close(&r);
}
END_TEST

START_TEST(route)
{
	enum { M = 4, E = 6 };
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/rows.tdsl", "route", "");
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "E", E);
	struct ir_tensor *x = ir_run_tensor(&r, "logits", 2), *best = ir_run_tensor(&r, "best", 0), *weight = ir_run_tensor(&r, "weight", 0), *upto = ir_run_tensor(&r, "upto", 0);
	go(&r);
	for (int i = 0; i < M; i++) {
		double den = 0, sum = 0;
		int top = 0;
		for (int e = 0; e < E; e++) {
			den += exp(at(x, i, e));
			top = at(x, i, e) > at(x, i, top) ? e : top;
		}
		near(ir_tensor_get(best, i), top, 0, 0, "best", i);
		near(ir_tensor_get(weight, i), exp(at(x, i, top)) / den, 1e-5, 0, "weight", i);
		for (int e = 0; e < E; e++)
			near(at(upto, i, e), sum += exp(at(x, i, e)) / den, 1e-5, 0, "upto", i * E + e);
	}
	ir_run_close(&r);
}
END_TEST

START_TEST(best_of_groups)
{
	enum { M = 3, N = 10 };
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/rows.tdsl", "best_of_groups", "");
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *best = ir_run_tensor(&r, "best", 0), *tail = ir_run_tensor(&r, "tail", 0);
	go(&r);
	for (int i = 0; i < M; i++) {
		int top[3] = {0, 4, 8}, last = 2;
		for (int j = 0; j < N; j++) {
			top[j / 4] = at(x, i, j) > at(x, i, top[j / 4]) ? j : top[j / 4];
			last = j >= 2 && at(x, i, j) > at(x, i, last) ? j : last;
		}
		for (int g = 0; g < 3; g++)
			near(at(best, i, g), top[g], 0, 0, "best", i * 3 + g);
		near(ir_tensor_get(tail, i), last, 0, 0, "tail", i);
	}
	ir_run_close(&r);
}
END_TEST

START_TEST(decay)
{
	enum { B = 3, T = 4, N = 2 };
	static const int length[B] = {4, 0, 2};
	for (int rows = 0; rows < 3; rows += 2) {
		struct ir_run r;
		dsl_run_open(&r, "tests/dsl/rows.tdsl", "decay", "");
		ir_run_symbol(&r, "B", B);
		ir_run_symbol(&r, "T", T);
		ir_run_symbol(&r, "N", N);
		ir_run_tile(&r, "b", rows);
		struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *a = ir_run_tensor(&r, "a", 1), *len = ir_run_tensor(&r, "len", 0), *y = ir_run_tensor(&r, "y", 0), *last = ir_run_tensor(&r, "last", 0);
		double poison = ir_tensor_get(y, (T + 0) * N);
		for (int b = 0; b < B; b++)
			ir_tensor_set(len, b, length[b]);
		go(&r);
		for (int b = 0; b < B; b++)
			for (int n = 0; n < N; n++) {
				double h = 0;
				for (int t = 0; t < T; t++) {
					if (t < length[b])
						h = h * ir_tensor_get(a, n) + ir_tensor_get(x, (b * T + t) * N + n);
					near(ir_tensor_get(y, (b * T + t) * N + n), t < length[b] ? h : poison, 1e-5, 1e-6, "y", (b * T + t) * N + n);
				}
				near(at(last, b, n), h, 1e-5, 1e-6, "last", b * N + n);
			}
		ir_run_close(&r);
	}
}
END_TEST

START_TEST(conditions)
{
	for (int mode = 0; mode < 3; mode++) {
		struct ir_run r;
		dsl_run_open(&r, "tests/dsl/rows.tdsl", "choose", "");
		ir_run_symbol(&r, "M", 3);
		ir_run_symbol(&r, "N", 50);
		ir_run_tile(&r, "m", mode);
		ir_run_scalar(&r, "mode", mode);
		ir_run_scalar(&r, "p", 0.25);
		ir_run_scalar(&r, "seed", 42);
		struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *skip = ir_run_tensor(&r, "skip", 0), *y = ir_run_tensor(&r, "y", 0);
		for (int i = 0; i < 3; i++)
			ir_tensor_set(skip, i, i == 1);
		go(&r);
		double f = mode == 1 ? 2 : mode == 2 ? 3 : 1;
		int zeros = 0;
		for (int i = 0; i < 3; i++)
			for (int j = 0; j < 50; j++) {
				double found = at(y, i, j);
				zeros += i != 1 && found == 0;
				if (i == 1 || found != 0)
					near(found, i == 1 ? -f : at(x, i, j) / 0.75 * (f + 0.5), 1e-5, 0, "y", i * 50 + j);
			}
		ck_assert_msg(zeros > 10 && zeros < 40, "%d of 100 dropped, expected about 25", zeros);
		ir_run_close(&r);
	}
}
END_TEST

static void of_the_text_case(int m, int n)
{
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/rows.tdsl", "of_the_text", "");
	ir_run_symbol(&r, "M", m);
	ir_run_symbol(&r, "N", n);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 2), *w = ir_run_tensor(&r, "w", 1), *count = ir_run_tensor(&r, "count", 0),
	                 *none = ir_run_tensor(&r, "none", 0), *every = ir_run_tensor(&r, "every", 0), *best = ir_run_tensor(&r, "best", 0),
	                 *mean = ir_run_tensor(&r, "mean_w", 0), *product = ir_run_tensor(&r, "product", 0), *y = ir_run_tensor(&r, "y", 0);
	go(&r);
	for (int i = 0; i < m; i++) {
		double sum = 0, weight = ir_tensor_get(w, i);
		for (int j = 0; j < n; j++) {
			sum += weight * at(x, i, j);
			near(at(y, i, j), 2 * weight, 0, 0, "y", i * n + j);
		}
		near(ir_tensor_get(count, i), n, 0, 0, "count", i);
		near(ir_tensor_get(none, i), 0, 0, 0, "none", i);
		near(ir_tensor_get(every, i), n > 0, 0, 0, "every", i);
		near(ir_tensor_get(best, i), n > 0 ? 0 : -1, 0, 0, "best", i);
		near(ir_tensor_get(mean, i), n > 0 ? weight : 0, 1e-6, 0, "mean_w", i);
		near(ir_tensor_get(product, i), sum, 1e-5, 1e-5, "product", i);
	}
	ir_run_close(&r);
}

START_TEST(of_the_text)
{
	of_the_text_case(3, 13);
	of_the_text_case(2, 1);
	of_the_text_case(2, 0);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {rmsnorm_quant, swiglu_quant, grouped_gemm, attention, decode, ragged_for, gemm_blockscale, gemm_optional_bias, quantize_mx,
		phases, updates, add_rmsnorm, layernorm_inplace, route, best_of_groups, decay, conditions, of_the_text};
	Suite *s = suite_create("dsl_kernels");
	TCase *c = tcase_create("kernels");
	tcase_set_timeout(c, 60);
	for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
