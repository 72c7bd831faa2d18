/* ref.c -- number formats, the four kernels in f64, and the comparison of results.  See ref.h.
 * Everything is as plain as it can be: an 8-bit conversion looks through the table of all values of its format. */
#include "ref.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- formats */

/* Sign, exponent, mantissa: 4 and 3 bits, or 5 and 2.  OCP: S.1111.111 is NaN; S.11111.00 infinite and what is above it NaN.  FNUZ: the bias is
 * one more, and 0x80 is the only NaN. */
static const struct { int mantissa, bias; double max; uint8_t top, nan; } codes[] = {
	[REF_E4M3FN] = {3, 7, 448, 0x7e, 0x7f}, [REF_E4M3FNUZ] = {3, 8, 240, 0x7f, 0x80}, [REF_INT8] = {0, 0, 127, 0, 0}, [REF_E2M1] = {1, 1, 6, 7, 7},
	[REF_E5M2] = {2, 15, 57344, 0x7b, 0x7f}, [REF_E5M2FNUZ] = {2, 16, 57344, 0x7f, 0x80},
};

double ref_code_value(enum ref_code f, uint8_t code)
{
	static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};          /* sign, 2 exponent bits, 1 mantissa bit */
	if (f == REF_INT8)
		return (int8_t)code;
	if (f == REF_E2M1)
		return code & 8 ? -e2m1[code & 7] : e2m1[code & 7];
	int bits = codes[f].mantissa, bias = codes[f].bias, one = 1 << bits, e = (code & 0x7f) >> bits, m = code & (one - 1);
	if (codes[f].nan == 0x80 ? code == 0x80 : (code & 0x7f) == 0x7f || (f == REF_E5M2 && e == 31 && m))
		return NAN;
	double v = f == REF_E5M2 && e == 31 ? INFINITY : e ? ldexp(one + m, e - bias - bits) : ldexp(m, 1 - bias - bits);
	return code & 0x80 ? -v : v;
}

double ref_code_max(enum ref_code f)
{
	return codes[f].max;
}

uint8_t ref_code_round(enum ref_code f, double x)
{
	if (f == REF_INT8)
		return isnan(x) ? 0 : (uint8_t)(int8_t)fmax(-128, fmin(127, nearbyint(x)));
	if (isnan(x))
		return codes[f].nan;
	double top = ref_code_max(f), a = fmin(fabs(x), top);
	int lo = 0, hi = codes[f].top;   /* value(lo) <= a <= value(hi): codes grow with values */
	while (hi - lo > 1) {
		int mid = (lo + hi) / 2;
		if (ref_code_value(f, (uint8_t)mid) <= a)
			lo = mid;
		else
			hi = mid;
	}
	double below = a - ref_code_value(f, (uint8_t)lo), above = ref_code_value(f, (uint8_t)hi) - a;
	int c = below < above ? lo : above < below ? hi : lo % 2 ? hi : lo;
	if (signbit(x) && (c || codes[f].nan != 0x80))
		c |= f == REF_E2M1 ? 8 : 0x80;
	return (uint8_t)c;
}

int32_t ref_code_step(enum ref_code f, uint8_t code)
{
	if (f == REF_INT8)
		return (int8_t)code;
	if (isnan(ref_code_value(f, code)))
		return INT32_MIN;
	if (f == REF_E2M1)
		return code & 8 ? -(code & 7) : code & 7;
	return code & 0x80 ? -(code & 0x7f) : code;
}

/* bf16: 8 exponent and 7 mantissa bits; f16: 5 and 10. */
static const struct { int mantissa, bias; } halves[] = {[REF_BF16] = {7, 127}, [REF_F16] = {10, 15}};

double ref_half_value(enum ref_half t, uint16_t code)
{
	int bits = halves[t].mantissa, bias = halves[t].bias, e = (code & 0x7fff) >> bits, m = code & ((1 << bits) - 1);
	double v = e == 2 * bias + 1 ? (m ? NAN : INFINITY) : e ? ldexp((1 << bits) + m, e - bias - bits) : ldexp(m, 1 - bias - bits);
	return code & 0x8000 ? -v : v;
}

uint16_t ref_half_round(enum ref_half t, double x)
{
	int bits = halves[t].mantissa, bias = halves[t].bias, one = 1 << bits;
	uint16_t sign = signbit(x) ? 0x8000 : 0, infinite = (uint16_t)((2 * bias + 1) << bits);
	if (isnan(x))
		return (uint16_t)(infinite | one >> 1);
	double a = fabs(x);
	if (a == 0)
		return sign;
	int e = isinf(a) ? bias + 1 : ilogb(a);
	if (e < 1 - bias)
		e = 1 - bias;
	if (e <= bias) {
		int m = (int)nearbyint(ldexp(a, bits - e));   /* one .. 2 * one, or below one for denormals */
		if (m == 2 * one)
			m = one, e++;
		if (e <= bias)
			return (uint16_t)(sign | (m < one ? m : ((e + bias) << bits | (m - one))));
	}
	return sign | infinite;
}

/* ---- seeded numbers: splitmix64 */

static uint64_t next(struct ref_random *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

double ref_uniform(struct ref_random *r)
{
	return (double)(next(r) >> 11) * 0x1p-53;
}

double ref_normal(struct ref_random *r)
{
	double u = 1 - ref_uniform(r), v = ref_uniform(r);
	return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

void ref_fill(struct ref_random *r, enum ref_half t, uint16_t *p, int64_t n, double scale)
{
	for (int64_t i = 0; i < n; i++)
		p[i] = ref_half_round(t, ref_normal(r) * scale);
}

/* ---- the kernels */

static double *widen(enum ref_half t, const uint16_t *p, int64_t n)
{
	double *v = malloc((size_t)(n ? n : 1) * sizeof *v);
	if (!v)
		abort();
	for (int64_t i = 0; i < n; i++)
		v[i] = ref_half_value(t, p[i]);
	return v;
}

/* One group of n values: the scale from the largest magnitude that is no NaN, then the values in units of it. */
static double quantize(const double *u, int64_t n, enum ref_code f, double *y)
{
	double top = 0, s = 1;
	for (int64_t i = 0; i < n; i++)
		if (fabs(u[i]) > top)
			top = fabs(u[i]);
	if (top > 0)
		s = fmax(top / ref_code_max(f), 0x1p-126);
	for (int64_t i = 0; i < n; i++)
		y[i] = u[i] / s;
	return s;
}

void ref_rmsnorm_quant(enum ref_half t, const uint16_t *x, const uint16_t *w, double eps, int64_t m, int64_t n,
                       enum ref_code f, double *y, double *scale)
{
	double *g = widen(t, w, n);
	for (int64_t i = 0; i < m; i++) {
		double *u = widen(t, x + i * n, n), sum = 0;
		for (int64_t j = 0; j < n; j++)
			sum += u[j] * u[j];
		double r = 1 / sqrt((n ? sum / (double)n : 0) + eps);
		for (int64_t j = 0; j < n; j++)
			u[j] = u[j] * g[j] * r;
		scale[i] = quantize(u, n, f, y + i * n);
		free(u);
	}
	free(g);
}

void ref_swiglu_quant(enum ref_half t, const uint16_t *h, int64_t m, int64_t n, int64_t group, enum ref_code f, double *y, double *scale)
{
	int64_t groups = (n + group - 1) / group;
	for (int64_t i = 0; i < m; i++) {
		double *u = widen(t, h + i * 2 * n, 2 * n);
		for (int64_t j = 0; j < n; j++)
			u[j] = u[j] / (1 + exp(-u[j])) * u[n + j];
		for (int64_t q = 0; q < groups; q++) {
			int64_t from = q * group, count = n - from < group ? n - from : group;
			scale[i * groups + q] = quantize(u + from, count, f, y + i * n + from);
		}
		free(u);
	}
}

static double dot(const double *a, const double *b, int64_t n)
{
	double s[4] = {0};
	int64_t i = 0;
	for (; i + 4 <= n; i += 4)
		for (int j = 0; j < 4; j++)
			s[j] += a[i + j] * b[i + j];
	for (; i < n; i++)
		s[0] += a[i] * b[i];
	return s[0] + s[1] + (s[2] + s[3]);
}

void ref_grouped_gemm(enum ref_half t, const uint16_t *a, const uint16_t *b, const int32_t *first, int64_t m, int64_t n, int64_t k, int64_t e,
                      double untouched, double *c)
{
	double *av = widen(t, a, m * k);
	for (int64_t i = 0; i < m * n; i++)
		c[i] = untouched;
	int64_t from = 0, to;
	for (int64_t x = -1; x < e; x++, from = to) {         /* the first round only finds where group 0 begins */
		to = first[x + 1] > m ? m : first[x + 1] < from ? from : first[x + 1];
		for (int64_t j = 0; x >= 0 && to > from && j < n; j++) {
			double *bv = widen(t, b + (x * n + j) * k, k);
			for (int64_t i = from; i < to; i++)
				c[i * n + j] = dot(av + i * k, bv, k);
			free(bv);
		}
	}
	free(av);
}

/* One row: scores of the keys it sees, softmax, sum over v.  round_p: in f32, P rounded to t for the product only. */
static void attention_row(enum ref_half t, const double *q, const double *k, const double *v, double scale, int64_t seen, int64_t d,
                          int round_p, double *p, double *o)
{
	double top = -INFINITY, den = 0;
	for (int64_t j = 0; j < seen; j++) {
		p[j] = dot(q, k + j * d, d) * scale;
		if (round_p)
			p[j] = (float)p[j];
		if (p[j] > top)
			top = p[j];
	}
	for (int64_t x = 0; x < d; x++)
		o[x] = 0;
	for (int64_t j = 0; j < seen; j++) {
		double e = round_p ? expf((float)(p[j] - top)) : exp(p[j] - top);
		den = round_p ? (float)den + (float)e : den + e;
		if (round_p)
			e = ref_half_value(t, ref_half_round(t, e));
		for (int64_t x = 0; x < d; x++)
			o[x] += e * v[j * d + x];
	}
	for (int64_t x = 0; x < d; x++) {
		o[x] = den > 0 ? o[x] / den : 0;
		if (round_p)
			o[x] = ref_half_value(t, ref_half_round(t, o[x]));
	}
}

void ref_attention(enum ref_half t, const uint16_t *q, const uint16_t *k, const uint16_t *v, double scale, int64_t b, int64_t h,
                   int64_t g, int64_t s, int64_t l, int64_t d, int round_p, double *o)
{
	double *p = malloc((size_t)(l ? l : 1) * sizeof *p);
	if (!p)
		abort();
	for (int64_t x = 0; x < b * h; x++) {
		int64_t kv = x / h * g + x % h / (h / g);
		double *qv = widen(t, q + x * s * d, s * d), *kk = widen(t, k + kv * l * d, l * d), *vv = widen(t, v + kv * l * d, l * d);
		for (int64_t i = 0; i < s; i++) {
			int64_t seen = i + l - s + 1;
			seen = seen < 0 ? 0 : seen > l ? l : seen;
			attention_row(t, qv + i * d, kk, vv, scale, seen, d, round_p, p, o + (x * s + i) * d);
		}
		free(qv), free(kk), free(vv);
	}
	free(p);
}

/* ---- differences */

static void add_ulp(struct ref_diff *r, double ulp, int64_t at)
{
	r->mean += ulp;
	if (ulp > r->max)
		r->max = ulp, r->worst = at;
	r->over1 += ulp > 1;
	r->over2 += ulp > 2;
}

struct sums { double error, ref, cross; };

static void add_l2(struct sums *s, double got, double ref)
{
	s->error += (got - ref) * (got - ref);
	s->ref += ref * ref;
	s->cross += got * ref;
}

static void finish(struct ref_diff *r, const struct sums *s)
{
	if (r->n)
		r->mean /= (double)r->n;
	r->rel_l2 = s->ref > 0 ? sqrt(s->error / s->ref) : s->error > 0 ? INFINITY : 0;
	r->gain = s->ref > 0 ? s->cross / s->ref : 1;
}

/* Position of a 16-bit or f32 code among the format's values; both zeros are 0. */
static int64_t position(uint32_t code, int bits)
{
	uint32_t sign = 1u << (bits - 1);
	return code & sign ? -(int64_t)(code & (sign - 1)) : (int64_t)code;
}

struct ref_diff ref_diff_half(enum ref_half t, const uint16_t *got, const double *ref, int64_t rows, int64_t columns)
{
	struct ref_diff r = {.n = rows * columns};
	struct sums sums = {0};
	for (int64_t i = 0; i < rows; i++) {
		double square = 0;
		for (int64_t j = 0; j < columns; j++)
			square += isfinite(ref[i * columns + j]) ? ref[i * columns + j] * ref[i * columns + j] : 0;
		double small = sqrt(square / (double)columns) * 0x1p-10;
		for (int64_t j = 0; j < columns; j++) {
			int64_t at = i * columns + j;
			double g = ref_half_value(t, got[at]), f = ref[at];
			if (isnan(g) || isnan(f)) {
				r.nan += isnan(g) != isnan(f);
				continue;
			}
			if (fabs(f) >= small)
				add_ulp(&r, fabs((double)(position(got[at], 16) - position(ref_half_round(t, f), 16))), at);
			if (isfinite(f) && isfinite(g))
				add_l2(&sums, g, f);
		}
	}
	finish(&r, &sums);
	return r;
}

struct ref_diff ref_diff_f32(const float *got, const double *ref, int64_t n)
{
	struct ref_diff r = {.n = n};
	struct sums sums = {0};
	for (int64_t i = 0; i < n; i++) {
		union { float f; uint32_t u; } g = {got[i]}, f = {(float)ref[i]};
		if (isnan(g.f) || isnan(f.f)) {
			r.nan += isnan(g.f) != isnan(f.f);
			continue;
		}
		add_ulp(&r, fabs((double)(position(g.u, 32) - position(f.u, 32))), i);
		if (isfinite(g.f) && isfinite(f.f))
			add_l2(&sums, g.f, ref[i]);
	}
	finish(&r, &sums);
	return r;
}

/* True where the boundary between the neighbouring codes a and b is within 2^-20 of x: where f32 may decide either way. */
static int is_tie(enum ref_code f, uint8_t a, uint8_t b, double x)
{
	double boundary = (ref_code_value(f, a) + ref_code_value(f, b)) / 2;
	return fabs(x - boundary) <= 0x1p-20 * fabs(boundary);
}

struct ref_diff ref_diff_codes(enum ref_code f, const uint8_t *got, const double *ref, int64_t n)
{
	struct ref_diff r = {.n = n};
	struct sums sums = {0};
	for (int64_t i = 0; i < n; i++) {
		uint8_t code = ref_code_round(f, ref[i]);
		int32_t g = ref_code_step(f, got[i]), c = ref_code_step(f, code);
		if (g == INT32_MIN || c == INT32_MIN) {
			r.nan += g != c;
			continue;
		}
		double step = fabs((double)(g - c));
		int tie = step == 1 && is_tie(f, got[i], code, ref[i]);
		r.mean += step;
		r.ties += tie;
		r.over1 += step > 0 && !tie;                  /* for codes: elements that differ, and by more than one step */
		r.over2 += step > 1;
		if (step > r.max || (r.max <= 1 && step > 0 && !tie))
			r.max = step, r.worst = i;
		add_l2(&sums, ref_code_value(f, got[i]), ref_code_value(f, code));
	}
	finish(&r, &sums);
	return r;
}

static int no(char *why, size_t len, const char *what, double found, double bound)
{
	if (why)
		snprintf(why, len, "%s: %.9g, at most %.9g", what, found, bound);
	return 0;
}

/* Where the text rounds twice, f32 may fall to the other side of the first boundary, and the second doubles the step: that one element
 * in some thousands does is no fault, and a share of 10^-4 says nothing of so few. */
int ref_agree_plain(const struct ref_diff *r, int roundings, char *why, size_t len)
{
	double most = fmax(roundings > 1, 1e-4 * (double)r->n);
	if (r->nan)
		return no(why, len, "NaN on one side", (double)r->nan, 0);
	if (r->max > 2)
		return no(why, len, "ulp of the worst element", r->max, 2);
	if ((double)r->over1 > most)
		return no(why, len, "elements over 1 ulp", (double)r->over1, most);
	if (fabs(r->gain - 1) > 0x1p-9)
		return no(why, len, "gain away from 1", fabs(r->gain - 1), 0x1p-9);
	return 1;
}

int ref_agree_scale(const struct ref_diff *r, char *why, size_t len)
{
	if (r->nan)
		return no(why, len, "NaN scales on one side", (double)r->nan, 0);
	return r->max <= 4 ? 1 : no(why, len, "f32 ulp of the worst scale", r->max, 4);
}

/* One differing element is always allowed: a share of 10^-4 says nothing about a few elements. */
int ref_agree_codes(const struct ref_diff *r, char *why, size_t len)
{
	double most = fmax(1, 1e-4 * (double)r->n);
	if (r->nan)
		return no(why, len, "NaN on one side", (double)r->nan, 0);
	if (r->max > 1)
		return no(why, len, "steps of the worst code", r->max, 1);
	return (double)r->over1 <= most ? 1 : no(why, len, "codes that differ, ties left out", (double)r->over1, most);
}

int ref_agree_attention(const struct ref_diff *got, const struct ref_diff *bf16, char *why, size_t len)
{
	double most = 1.25 * bf16->rel_l2 + 1e-6;
	if (got->nan)
		return no(why, len, "NaN on one side", (double)got->nan, 0);
	if (got->rel_l2 > most)
		return no(why, len, "relative L2 error", got->rel_l2, most);
	if (fabs(got->gain - 1) > 0x1p-9)
		return no(why, len, "gain away from 1", fabs(got->gain - 1), 0x1p-9);
	return 1;
}
