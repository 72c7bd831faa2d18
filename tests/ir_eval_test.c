/* ir_eval_test.c -- the evaluator against references in double precision that know nothing of tile IR, and its fixed orders
 * against folds written out by hand. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../base/num.h"
#include "ir_help.h"

static void go(struct ir_run *r) { ck_assert_msg(ir_run_go(r) == 0, "%s", r->err); }

static void near(double found, double want, double relative, double absolute, const char *what, long at)
{
	ck_assert_msg(fabs(found - want) <= relative * fabs(want) + absolute, "%s[%ld] is %.9g, expected %.9g", what, at, found, want);
}

/* --- lists: tensors of any lengths by a table of addresses and lengths */

enum { ENTRIES = 4 };
static const int32_t entry_lengths[ENTRIES] = {5, 0, 19, 8};

/* The tensor of a list: its table made from `memory`, entries one after the other, a guard element between. */
static void list_set(struct ir_run *r, const char *name, uint8_t *table, void *memory, size_t size)
{
	struct ir_tensor *t = ir_run_find(r, name);
	uint64_t address = (uint64_t)(uintptr_t)memory;
	for (int k = 0; k < ENTRIES; k++) {
		uint64_t at = entry_lengths[k] ? address : 0;
		memcpy(table + 8 * k, &at, 8);
		memcpy(table + 8 * ENTRIES + 4 * k, &entry_lengths[k], 4);
		address += ((uint64_t)entry_lengths[k] + 1) * size;
	}
	*t = (struct ir_tensor){.data = table, .dtype = size == 4 ? DT_F32 : DT_BF16, .rank = 2, .extent = {ENTRIES, 32}, .stride = {1, 1}};
}

START_TEST(lists)
{
	struct ir_run r;
	uint8_t tables[2][12 * ENTRIES];
	float x[36];
	uint16_t y[36];
	ir_run_open(&r, "list");
	ir_run_symbol(&r, "K", ENTRIES);
	ir_run_symbol(&r, "N", 32);
	struct ir_tensor *share = ir_run_tensor(&r, "share", 2), *top = ir_run_tensor(&r, "top", 0);
	for (int i = 0; i < 36; i++) {
		x[i] = (float)(i % 7 - 3) * 0.25f;
		y[i] = 0xa5a5;
	}
	list_set(&r, "x", tables[0], x, 4);
	list_set(&r, "y", tables[1], y, 2);
	for (int k = 0; k < ENTRIES; k++)
		ir_tensor_set(top, k, -100);
	go(&r);
	for (int k = 0, at = 0; k < ENTRIES; at += entry_lengths[k++] + 1) {
		double most = -100;
		for (int i = 0; i < entry_lengths[k]; i++) {
			double want = x[at + i] * ir_tensor_get(share, k);
			most = fmax(most, want);
			near(num_to_f32(y[at + i], DT_BF16), want, 0x1p-8, 0, "y", at + i);
		}
		near(ir_tensor_get(top, k), most, 0x1p-22, 0, "top", k);
		ck_assert_uint_eq(y[at + entry_lengths[k]], 0xa5a5);
	}
	r.tensors[0].data = r.tensors[3].data = NULL;                /* not ir_run's to free */
	ir_run_close(&r);
}
END_TEST

/* A table that says more than a range lets in: clamped to the list's size. */
START_TEST(lengths_of_a_list_are_clamped)
{
	struct ir_run r;
	uint8_t tables[2][12 * ENTRIES];
	float x[36] = {0};
	uint16_t y[36] = {0};
	const int32_t negative = -7;
	ir_run_open(&r, "list");
	ir_run_symbol(&r, "K", ENTRIES);
	ir_run_symbol(&r, "N", 32);
	ir_run_tensor(&r, "share", 2);
	struct ir_tensor *top = ir_run_tensor(&r, "top", 0);
	list_set(&r, "x", tables[0], x, 4);
	list_set(&r, "y", tables[1], y, 2);
	memcpy(tables[0] + 8 * ENTRIES + 4 * 2, &negative, 4);
	ir_tensor_set(top, 2, -1);
	go(&r);
	near(ir_tensor_get(top, 2), -1, 0, 0, "top", 2);
	r.tensors[0].data = r.tensors[3].data = NULL;
	ir_run_close(&r);
}
END_TEST

/* --- rmsnorm_quant */

static void rmsnorm_case(int m, int n, int tile)
{
	struct ir_run r;
	ir_run_open(&r, "rmsnorm_quant");
	ir_run_tile(&r, "n", tile);
	ir_run_symbol(&r, "M", m);
	ir_run_symbol(&r, "N", n);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 3), *w = ir_run_tensor(&r, "w", 1), *y = ir_run_tensor(&r, "y", 0), *s = ir_run_tensor(&r, "scale", 0);
	for (int j = 0; j < n && m > 1; j++)
		ir_tensor_set(x, n + j, 0);        /* row 1 is zero: scale 1 */
	go(&r);
	for (int i = 0; i < m; i++) {
		double sum = 0, top = 0;
		for (int j = 0; j < n; j++)
			sum += pow(ir_tensor_get(x, (long)i * n + j), 2);
		double rms = 1 / sqrt(sum / n + 1e-6);
		for (int j = 0; j < n; j++)
			top = fmax(top, fabs(ir_tensor_get(x, (long)i * n + j) * ir_tensor_get(w, j) * rms));
		double scale = top > 0 ? fmax(top / 448, 0x1p-126) : 1;
		near(ir_tensor_get(s, i), scale, 4e-6, 0, "scale", i);
		for (int j = 0; j < n; j++) {
			double want = ir_tensor_get(x, (long)i * n + j) * ir_tensor_get(w, j) * rms / scale;
			near(ir_tensor_get(y, (long)i * n + j), want, 1.0 / 15, 0x1p-9, "y", (long)i * n + j);
		}
	}
	ir_run_close(&r);
}

START_TEST(rmsnorm_quant)
{
	rmsnorm_case(3, 769, 0);
	rmsnorm_case(3, 769, 1024);
	rmsnorm_case(2, 1, 0);
	rmsnorm_case(2, 64, 64);
	rmsnorm_case(0, 64, 64);
}
END_TEST

/* --- products */

static void gemm_case(int m, int n, int k, int tile_k)
{
	struct ir_run r;
	ir_run_open(&r, "gemm");
	ir_run_tile(&r, "k", tile_k);
	ir_run_symbol(&r, "M", m);
	ir_run_symbol(&r, "N", n);
	ir_run_symbol(&r, "K", k);
	struct ir_tensor *a = ir_run_tensor(&r, "a", 1), *b = ir_run_tensor(&r, "b", 1), *c = ir_run_tensor(&r, "c", 0);
	go(&r);
	for (int i = 0; i < m * n; i++) {
		double want = 0;
		for (int q = 0; q < k; q++)
			want += ir_tensor_get(a, i / n * k + q) * ir_tensor_get(b, i % n * k + q);
		near(ir_tensor_get(c, i), want, 0x1p-8, 1e-5, "c", i);
	}
	ir_run_close(&r);
}

START_TEST(gemm)
{
	gemm_case(17, 33, 65, 32);
	gemm_case(16, 16, 32, 32);
	gemm_case(5, 7, 31, 0);
	gemm_case(1, 1, 1, 64);
	gemm_case(3, 3, 0, 32);      /* an empty contraction stores 0 */
}
END_TEST

/* A gemm reads views: transposed a, every second row of b. */
START_TEST(strides_are_followed)
{
	struct ir_run r;
	ir_run_open(&r, "gemm");
	const char *names[] = {"M", "N", "K"};
	for (int i = 0; i < 3; i++)
		ir_run_symbol(&r, names[i], 12);
	struct ir_tensor *a = ir_run_tensor(&r, "a", 1), *b = ir_run_tensor(&r, "b", 1), *c = ir_run_tensor(&r, "c", 0);
	a->stride[0] = 1;
	a->stride[1] = 12;
	b->stride[0] = 24;
	b->extent[0] = 6;
	ir_run_symbol(&r, "N", 6);
	c->stride[0] = 6;
	c->extent[1] = 6;
	go(&r);
	for (int i = 0; i < 12 * 6; i++) {
		double want = 0;
		for (int q = 0; q < 12; q++)
			want += num_to_f32(((uint16_t *)a->data)[q * 12 + i / 6], DT_BF16) * num_to_f32(((uint16_t *)b->data)[i % 6 * 24 + q], DT_BF16);
		near(ir_tensor_get(c, i), want, 0x1p-8, 1e-5, "c", i);
	}
	ir_run_close(&r);
}
END_TEST

static void grouped_case(int m, int groups, const int *first)
{
	enum { N = 11, K = 19 };
	struct ir_run r;
	ir_run_open(&r, "grouped");
	ir_run_symbol(&r, "E", groups);
	ir_run_symbol(&r, "M", m);
	ir_run_symbol(&r, "N", N);
	ir_run_symbol(&r, "K", K);
	struct ir_tensor *a = ir_run_tensor(&r, "a", 1), *b = ir_run_tensor(&r, "b", 1), *f = ir_run_tensor(&r, "first", 1), *c = ir_run_tensor(&r, "c", 0);
	for (int e = 0; e <= groups; e++)
		ir_tensor_set(f, e, first[e]);
	float poison = (float)ir_tensor_get(c, 0);
	go(&r);
	for (int row = 0; row < m; row++)
		for (int n = 0; n < N; n++) {
			double want = poison;
			int low = 0;
			for (int e = 0; e < groups; e++) {
				int begin = first[e] < 0 ? 0 : first[e] > m ? m : first[e], end = first[e + 1] > m ? m : first[e + 1];
				low = begin > low ? begin : low;
				if (row < low || row >= end)
					continue;
				want = 0;
				for (int k = 0; k < K; k++)
					want += ir_tensor_get(a, row * K + k) * ir_tensor_get(b, (e * N + n) * K + k);
			}
			near(ir_tensor_get(c, row * N + n), want, 1e-5, 1e-5, "c", row * N + n);
		}
	ir_run_close(&r);
}

START_TEST(grouped)
{
	grouped_case(20, 4, (int[]){0, 5, 5, 13, 20});     /* an empty group, tails */
	grouped_case(20, 3, (int[]){2, 6, 7, 15});         /* rows in no group */
	grouped_case(9, 3, (int[]){-4, 3, 30, 40});        /* clamped */
	grouped_case(12, 3, (int[]){0, 8, 4, 12});         /* not sorted: taken as non-decreasing */
}
END_TEST

/* --- attention */

static void attention_case(int s, int t, int d)
{
	enum { B = 2, H = 4, G = 2 };
	struct ir_run r;
	ir_run_open(&r, "attention");
	ir_run_symbol(&r, "B", B);
	ir_run_symbol(&r, "H", H);
	ir_run_symbol(&r, "G", G);
	ir_run_symbol(&r, "S", s);
	ir_run_symbol(&r, "T", t);
	ir_run_symbol(&r, "D", d);
	ir_run_scalar(&r, "scale", 0.25);
	struct ir_tensor *q = ir_run_tensor(&r, "q", 2), *k = ir_run_tensor(&r, "k", 2), *v = ir_run_tensor(&r, "v", 1), *o = ir_run_tensor(&r, "o", 0);
	go(&r);
	double *p = malloc((size_t)t * sizeof *p);
	for (int row = 0; row < B * H * s; row++) {
		int i = row % s, head = row / s % H / (H / G), batch = row / s / H, last = i + (t - s);
		double den = 0, top = -INFINITY;
		for (int j = 0; j < t && j <= last; j++) {
			p[j] = 0;
			for (int e = 0; e < d; e++)
				p[j] += ir_tensor_get(q, row * d + e) * ir_tensor_get(k, ((batch * G + head) * t + j) * d + e) * 0.25;
			top = fmax(top, p[j]);
		}
		for (int j = 0; j < t && j <= last; j++)
			den += p[j] = exp(p[j] - top);
		for (int e = 0; e < d; e++) {
			double want = 0;
			for (int j = 0; j < t && j <= last; j++)
				want += p[j] / den * ir_tensor_get(v, ((batch * G + head) * t + j) * d + e);
			near(ir_tensor_get(o, row * d + e), want, 0x1p-7, 4e-3, "o", row * d + e);
		}
	}
	free(p);
	ir_run_close(&r);
}

START_TEST(attention)
{
	attention_case(9, 33, 16);
	attention_case(8, 8, 5);
	attention_case(10, 4, 8);    /* more queries than keys: the first rows have none and give 0 */
}
END_TEST

/* --- control, updates, workspace */

static void branch_case(bool with, int flip)
{
	struct ir_run r;
	ir_run_open(&r, "branch");
	ir_run_symbol(&r, "N", 10);
	ir_run_scalar(&r, "flip", flip);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *res = with ? ir_run_tensor(&r, "res", 1) : NULL, *y = ir_run_tensor(&r, "y", 0);
	go(&r);
	for (int i = 0; i < 10; i++) {
		float want = (float)ir_tensor_get(x, i) + (with ? (float)ir_tensor_get(res, i) : 0);
		ck_assert_double_eq(ir_tensor_get(y, i), flip ? -want : want);
	}
	ir_run_close(&r);
}

START_TEST(branches)
{
	for (int i = 0; i < 4; i++)
		branch_case(i & 1, i >> 1);
}
END_TEST

START_TEST(column_sums)
{
	struct ir_run r;
	ir_run_open(&r, "column_sums");
	ir_run_symbol(&r, "M", 37);
	ir_run_symbol(&r, "N", 21);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 5), *sum = ir_run_tensor(&r, "sum", 0), *amax = ir_run_tensor(&r, "amax", 0);
	ir_tensor_set(amax, 0, 1.5);
	go(&r);
	double top = 1.5;
	for (int n = 0; n < 21; n++) {
		double want = 0;
		for (int m = 0; m < 37; m++) {
			want += ir_tensor_get(x, m * 21 + n);
			top = fmax(top, fabs(ir_tensor_get(x, m * 21 + n)));
		}
		near(ir_tensor_get(sum, n), want, 1e-5, 1e-5, "sum", n);
	}
	ck_assert_double_eq(ir_tensor_get(amax, 0), top);
	ir_run_close(&r);
}
END_TEST

/* Two carried values change places in every iteration. */
START_TEST(carried_values_swap)
{
	struct ir_run r;
	ir_run_open(&r, "kernel swap { symbol N out y: i32[2] phase { axis k loop tile 1 %0 = const 0 : i32 %1 = sym N : i32 %2 = const 7 : i32 "
		"%3 = for k from %0 to %1 with %4: i32 = %0, %5: i32 = %2 { yield %5, %4 } %6 = result 0 of %3 : i32 %7 = result 1 of %3 : i32 "
		"store y[%0] = %6 %8 = const 1 : i32 store y[%8] = %7 yield } }");
	struct ir_tensor *y = ir_run_tensor(&r, "y", 0);
	for (int n = 0; n < 4; n++) {
		ir_run_symbol(&r, "N", n);
		go(&r);
		ck_assert_double_eq(ir_tensor_get(y, n & 1), 0);
		ck_assert_double_eq(ir_tensor_get(y, !(n & 1)), 7);
	}
	ir_run_close(&r);
}
END_TEST

/* --- integers and positions */

START_TEST(routing)
{
	enum { M = 3, N = 10 };
	struct ir_run r;
	ir_run_open(&r, "routing");
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *p = ir_run_tensor(&r, "p", 127), *q = ir_run_tensor(&r, "q", 6);
	struct ir_tensor *best = ir_run_tensor(&r, "best", 0), *run = ir_run_tensor(&r, "run", 0), *sq = ir_run_tensor(&r, "sq", 0);
	struct ir_tensor *q2 = ir_run_tensor(&r, "q2", 0), *rnd = ir_run_tensor(&r, "rnd", 0), *bits = ir_run_tensor(&r, "bits", 0);
	ir_tensor_set(x, 3, 2);
	ir_tensor_set(x, 7, 2);           /* the first of equals */
	ir_tensor_set(x, N + 2, NAN);
	go(&r);
	for (int m = 0; m < M; m++) {
		int64_t sum = 0, squares = 0, top = -1;
		for (int n = 0; n < N; n++) {
			int64_t v = (int64_t)ir_tensor_get(p, m * N + n);
			double xv = ir_tensor_get(x, m * N + n);
			sum += v;
			squares += v * v;
			top = !isnan(xv) && (top < 0 || xv > ir_tensor_get(x, m * N + top)) ? n : top;
			ck_assert_double_eq(ir_tensor_get(run, m * N + n), (double)sum);
			ck_assert_double_eq(ir_tensor_get(q2, m * N + n), -ir_tensor_get(q, m * N + n));
			ck_assert_int_eq((uint32_t)ir_tensor_get(bits, m * N + n), num_bits((float)xv));
		}
		ck_assert_double_eq(ir_tensor_get(best, m), (double)top);
		ck_assert_double_eq(ir_tensor_get(sq, m), (double)squares);
	}
	ck_assert_double_eq(ir_tensor_get(best, 0), 3);
	ck_assert_double_ne(ir_tensor_get(rnd, 0), ir_tensor_get(rnd, 1));
	ir_run_close(&r);
}
END_TEST

/* Every number of it exact in f32. */
START_TEST(codes_and_scales)
{
	enum { M = 4, K = 64, BY = 32 };
	struct ir_run r;
	ir_run_open(&r, "mx");
	struct ir_tensor *a = ir_run_tensor(&r, "a", 448), *sa = ir_run_tensor(&r, "sa", 2), *b = ir_run_tensor(&r, "b", 6), *sb = ir_run_tensor(&r, "sb", 2);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 0), *c = ir_run_tensor(&r, "c", 0), *d = ir_run_tensor(&r, "d", 0);
	for (int i = 0; i < M * K; i++) {
		ir_tensor_set(a, i, (i * 5 % 17 - 8) * 0.25);
		ir_tensor_set(b, i, i * 7 % 9 - 4);
	}
	for (int i = 0; i < M * K / BY; i++) {
		ir_tensor_set(sa, i, ldexp(1, i % 5 - 2));
		ir_tensor_set(sb, i, ldexp(1, i % 3 - 1));
	}
	go(&r);
	for (int m = 0; m < M; m++)
		for (int n = 0; n < M; n++) {
			double both = 3, one = 0;
			for (int k = 0; k < K; k++) {
				double by = ir_tensor_get(sb, (n * K + k) / BY), mine = ir_tensor_get(a, m * K + k) * ir_tensor_get(sa, (m * K + k) / BY);
				ck_assert_double_eq(ir_tensor_get(x, m * K + k), mine);
				both += mine * ir_tensor_get(b, n * K + k) * by;
				one += ir_tensor_get(b, m * K + k) * ir_tensor_get(b, n * K + k) * by;
			}
			ck_assert_double_eq(ir_tensor_get(c, m * M + n), both);
			ck_assert_double_eq(ir_tensor_get(d, m * M + n), one);
		}
	ir_run_close(&r);
}
END_TEST

/* First word of the zero counter under the zero key: Random123's known answers (kat_vectors, philox4x32 10). */
START_TEST(philox_known_answer)
{
	struct ir_run r;
	ir_run_open(&r, "kernel p { scalar seed: i64 scalar at: i64 out y: i32[1] phase { %0 = param seed : i64 %1 = param at : i64 %2 = philox %0, %1 : i32 %3 = const 0 : i32 store y[%3] = %2 yield } }");
	struct ir_tensor *y = ir_run_tensor(&r, "y", 0);
	go(&r);
	ck_assert_uint_eq((uint32_t)(int32_t)ir_tensor_get(y, 0), 0x6627e8d5u);
	ir_run_close(&r);
}
END_TEST

/* --- fixed orders */

static float lane_sum(const float *v, const float *w, int chains)
{
	/* v, w: 12 registers of a lane; round robin into chains, then halves */
	float c[4] = {0};
	for (int i = 0; i < 12; i++) {
		if (i < chains)
			c[i] = w ? v[i] * w[i] : v[i];
		else
			c[i % chains] = w ? fmaf(v[i], w[i], c[i % chains]) : c[i % chains] + v[i];
	}
	if (chains == 4) {
		c[0] += c[2];
		c[1] += c[3];
	}
	return c[0] + c[1];
}

/* What lane l of wave wv has of a row. */
static float ordered_lane(const struct ir_tensor *x, const struct ir_tensor *w, int row, int chains, int wv, int l)
{
	float v[12], u[12];
	for (int i = 0; i < 12; i++) {
		int n = i % 4 % 2 + i % 4 / 2 * 2 + l * 4 + wv * 32 + i / 4 * 64;
		v[i] = (float)ir_tensor_get(x, row * 192 + n);
		u[i] = w ? (float)ir_tensor_get(w, row * 192 + n) : 0;
	}
	return lane_sum(v, w ? u : NULL, chains);
}

static float ordered(const struct ir_tensor *x, const struct ir_tensor *w, int row, int chains)
{
	float wave[2];
	for (int wv = 0; wv < 2; wv++) {
		float lane[8];
		for (int l = 0; l < 8; l++)
			lane[l] = ordered_lane(x, w, row, chains, wv, l);
		wave[wv] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
	}
	return wave[0] + wave[1];
}

START_TEST(layouts_fix_the_order_of_sums)
{
	struct ir_run r;
	ir_run_open(&r, "ordered_sum");
	ir_run_symbol(&r, "M", 3);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *w = ir_run_tensor(&r, "w", 1), *y = ir_run_tensor(&r, "y", 0), *z = ir_run_tensor(&r, "z", 0);
	for (int i = 0; i < 3 * 192; i += 5)
		ir_tensor_set(x, i, ir_tensor_get(x, i) * 1e4);
	go(&r);
	for (int i = 0; i < 3; i++) {
		ck_assert_float_eq((float)ir_tensor_get(y, i), ordered(x, NULL, i, 2));
		ck_assert_float_eq((float)ir_tensor_get(z, i), ordered(x, w, i, 4));
	}
	ir_run_close(&r);
}
END_TEST

START_TEST(lanes_have_what_they_hold)
{
	struct ir_run r;
	ir_run_open(&r, "by_lane");
	ir_run_symbol(&r, "M", 3);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *each = ir_run_tensor(&r, "each", 0), *y = ir_run_tensor(&r, "y", 0);
	for (int i = 0; i < 3 * 192; i += 5)
		ir_tensor_set(x, i, ir_tensor_get(x, i) * 1e4);
	go(&r);
	for (int i = 0; i < 3; i++) {
		ck_assert_float_eq((float)ir_tensor_get(y, i), ordered(x, NULL, i, 2));
		for (int l = 0; l < 16; l++)
			ck_assert_float_eq((float)ir_tensor_get(each, i * 16 + l), ordered_lane(x, NULL, i, 2, l / 8, l % 8));
	}
	ir_run_close(&r);
}
END_TEST

/* Registers in two chains, lanes, waves, then the workgroups of the cluster, each with 192 columns, the last with none. */
static float clustered(const struct ir_tensor *x, int row, int columns)
{
	float wave[8];
	for (int w = 0; w < 8; w++) {
		float lane[8], v[12];
		for (int l = 0; l < 8; l++) {
			for (int i = 0; i < 12; i++) {
				int n = w / 2 * 192 + i / 4 * 64 + w % 2 * 32 + l * 4 + i % 4;
				v[i] = n < columns ? (float)ir_tensor_get(x, row * columns + n) : 0;
			}
			lane[l] = lane_sum(v, NULL, 2);
		}
		wave[w] = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
	}
	return ((wave[0] + wave[1]) + (wave[2] + wave[3])) + ((wave[4] + wave[5]) + (wave[6] + wave[7]));
}

START_TEST(clusters_fix_the_order_of_sums)
{
	enum { ROWS = 3, COLUMNS = 500 };
	struct ir_run r;
	ir_run_open(&r, "clustered_sum");
	ir_run_symbol(&r, "M", ROWS);
	ir_run_symbol(&r, "N", COLUMNS);
	struct ir_tensor *x = ir_run_tensor(&r, "x", 1), *y = ir_run_tensor(&r, "y", 0);
	for (int i = 0; i < ROWS * COLUMNS; i += 7)
		ir_tensor_set(x, i, ir_tensor_get(x, i) * 1e4);
	go(&r);
	for (int i = 0; i < ROWS; i++)
		ck_assert_float_eq((float)ir_tensor_get(y, i), clustered(x, i, COLUMNS));
	ir_run_close(&r);
}
END_TEST

/* A dot whose operand is laid out as v_mfma_f32_16x16x16 wants it, twice along k: k = s * 16 + lane group * 4 + register. */
START_TEST(layouts_fix_the_order_of_dots)
{
	struct ir_run r;
	ir_run_open(&r, "kernel d { in a: f32[32] in b: f32[32] out y: f32[1] phase { axis k held tile 32 : 32\n"
		"%0 = iota k : i32[k] %1 = load a[%0] : f32[k] {reg k:4 k:8 | lane k:2 k:1 | rep k:2} %2 = load b[%0] : f32[k] "
		"%3 = const 0.5 : f32 %4 = dot over k %1, %2 + %3 : f32 %5 = const 0 : i32 store y[%5] = %4 yield } }");
	struct ir_tensor *a = ir_run_tensor(&r, "a", 1), *b = ir_run_tensor(&r, "b", 1), *y = ir_run_tensor(&r, "y", 0);
	go(&r);
	/* no register steps by 1: e is empty; g = lanes (2, 1); s = registers 4, 8, then the repeat */
	float want = 0.5f;
	for (int rep = 0; rep < 2; rep++)
		for (int s = 0; s < 4; s++)
			for (int g = 0; g < 4; g++) {
				int k = rep * 16 + s * 4 + g % 2 * 2 + g / 2;
				want += (float)ir_tensor_get(a, k) * (float)ir_tensor_get(b, k);
			}
	ck_assert_float_eq((float)ir_tensor_get(y, 0), want);
	ir_run_close(&r);
}
END_TEST

/* --- errors */

START_TEST(accesses_out_of_bounds_are_named)
{
	struct ir_run r;
	ir_run_open(&r, "kernel oob { symbol N in x: f32[N] out y: f32[N] phase { axis n held tile 4 : N\n%0 = iota n : i32[n] %1 = load x[%0] : f32[n] @12:3 store y[%0] = %1 yield } }");
	ir_run_symbol(&r, "N", 3);
	ir_run_tensor(&r, "x", 1);
	ir_run_tensor(&r, "y", 0);
	ck_assert_int_eq(ir_run_go(&r), -1);
	ck_assert_str_eq(r.err, "line 12: %1 load: x[3] is outside x[3]");
	ir_run_close(&r);
}
END_TEST

START_TEST(absent_tensors_are_named)
{
	struct ir_run r;
	ir_run_open(&r, "kernel absent { in x: f32[1] out y: f32[1] phase { yield } }");
	ir_run_tensor(&r, "y", 0);
	ck_assert_int_eq(ir_run_go(&r), -1);
	ck_assert_str_eq(r.err, "tensor 'x' is absent or not f32 of rank 1");
	ir_run_close(&r);
}
END_TEST

START_TEST(unwritten_workspace_is_nan)
{
	struct ir_run r;
	ir_run_open(&r, "kernel ws { out y: f32[1] temp t: f32[4] phase { %0 = const 0 : i32 %1 = load t[%0] : f32 store y[%0] = %1 yield } }");
	struct ir_tensor *y = ir_run_tensor(&r, "y", 0);
	go(&r);
	ck_assert(isnan(ir_tensor_get(y, 0)));
	ir_run_close(&r);
}
END_TEST

/* --- element types: every operation on values of a type gives values of that type */

START_TEST(narrow_arithmetic_rounds_each_result)
{
	struct ir_run r;
	ir_run_open(&r, "kernel n { in a: f16[64] in b: f16[64] out y: f16[64] out s: f16[1] phase { axis n held : 64\n%0 = iota n : i32[n] "
		"%1 = load a[%0] : f16[n] %2 = load b[%0] : f16[n] %3 = mul %1, %2 : f16[n] %4 = add %3, %1 : f16[n] store y[%0] = %4 "
		"%5 = reduce sum anyorder over n %1 : f16 %6 = const 0 : i32 store s[%6] = %5 yield } }");
	struct ir_tensor *a = ir_run_tensor(&r, "a", 3), *b = ir_run_tensor(&r, "b", 3), *y = ir_run_tensor(&r, "y", 0), *s = ir_run_tensor(&r, "s", 0);
	go(&r);
	float sum = 0;
	for (int i = 0; i < 64; i++) {
		float product = num_to_f32(num_from_f32((float)(ir_tensor_get(a, i) * ir_tensor_get(b, i)), DT_F16, false), DT_F16);
		ck_assert_double_eq(ir_tensor_get(y, i), num_to_f32(num_from_f32(product + (float)ir_tensor_get(a, i), DT_F16, false), DT_F16));
		sum = i ? num_to_f32(num_from_f32(sum + (float)ir_tensor_get(a, i), DT_F16, false), DT_F16) : (float)ir_tensor_get(a, 0);
	}
	ck_assert_double_eq(ir_tensor_get(s, 0), sum);
	ir_run_close(&r);
}
END_TEST

START_TEST(float_to_integer_conversions)
{
	static const float x[6] = {2.5f, -3.7f, 300, NAN, INFINITY, -1e20f};
	static const int plain[6] = {2, -3, 300, 0, INT32_MAX, INT32_MIN}, saturated[6] = {2, -4, 127, 0, 127, -128};
	struct ir_run r;
	ir_run_open(&r, "kernel c { in x: f32[6] out y: i32[6] out z: i8[6] phase { axis n held : 6\n%0 = iota n : i32[n] %1 = load x[%0] : f32[n] "
		"%2 = cvt %1 : i32[n] store y[%0] = %2 %3 = cvt sat %1 : i8[n] store z[%0] = %3 yield } }");
	struct ir_tensor *t = ir_run_tensor(&r, "x", 1), *y = ir_run_tensor(&r, "y", 0), *z = ir_run_tensor(&r, "z", 0);
	memcpy(t->data, x, sizeof x);
	go(&r);
	for (int i = 0; i < 6; i++) {
		ck_assert_double_eq(ir_tensor_get(y, i), plain[i]);
		ck_assert_double_eq(ir_tensor_get(z, i), saturated[i]);
	}
	ir_run_close(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ir_eval");
	TCase *c = tcase_create("kernels");
	tcase_set_timeout(c, 60);
	tcase_add_test(c, lists);
	tcase_add_test(c, lengths_of_a_list_are_clamped);
	tcase_add_test(c, rmsnorm_quant);
	tcase_add_test(c, gemm);
	tcase_add_test(c, strides_are_followed);
	tcase_add_test(c, grouped);
	tcase_add_test(c, attention);
	tcase_add_test(c, branches);
	tcase_add_test(c, column_sums);
	tcase_add_test(c, carried_values_swap);
	tcase_add_test(c, routing);
	tcase_add_test(c, codes_and_scales);
	tcase_add_test(c, philox_known_answer);
	tcase_add_test(c, layouts_fix_the_order_of_sums);
	tcase_add_test(c, lanes_have_what_they_hold);
	tcase_add_test(c, clusters_fix_the_order_of_sums);
	tcase_add_test(c, layouts_fix_the_order_of_dots);
	tcase_add_test(c, accesses_out_of_bounds_are_named);
	tcase_add_test(c, absent_tensors_are_named);
	tcase_add_test(c, unwritten_workspace_is_nan);
	tcase_add_test(c, narrow_arithmetic_rounds_each_result);
	tcase_add_test(c, float_to_integer_conversions);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
