/* ref.h -- the four kernels computed a second time, in f64, and the rules by which results are compared.
 *
 * In: dense host arrays.  Out: f64 results, rounded codes, and differences as numbers.  Nothing here includes or links tdsl:
 * formats are written from their definitions, so that an error in the project's own conversions shows as a difference.
 * The rules: scales within 4 f32 ulp; codes at most one step apart, and that in at most one of 10^4 elements, those left out whose
 * exact value is a tie of the format to within f32's errors (a product of two bf16 numbers divided by another such product often is
 * one, and no two f32 computations agree there); plain outputs within 1 ulp for 99.99 % and 2 always; attention beside a
 * bf16 reference. */
#ifndef REF_H
#define REF_H
#include <stddef.h>
#include <stdint.h>

/* ---- formats: codes of at most 8 bits, one a byte, and 16-bit numbers */
enum ref_code { REF_E4M3FN, REF_E4M3FNUZ, REF_INT8, REF_E2M1, REF_E5M2, REF_E5M2FNUZ };
double ref_code_max(enum ref_code);                       /* 448, 240, 127, 6, 57344, 57344 */
double ref_code_value(enum ref_code, uint8_t code);       /* NaN for NaN codes */
/* Nearest even, saturating; NaN stays NaN (int8: 0, e2m1, which has none: 6). */
uint8_t ref_code_round(enum ref_code, double x);
/* Position of a code among the format's values: neighbours differ by 1, both zeros are 0.  NaN codes: INT32_MIN. */
int32_t ref_code_step(enum ref_code, uint8_t code);
enum ref_half { REF_BF16, REF_F16 };                      /* the 16-bit formats */
double ref_half_value(enum ref_half, uint16_t);
uint16_t ref_half_round(enum ref_half, double);           /* one rounding, nearest even */

/* ---- seeded numbers, the same everywhere */
struct ref_random { uint64_t state; };
double ref_uniform(struct ref_random *);                  /* [0, 1) */
double ref_normal(struct ref_random *);                   /* mean 0, variance 1 */
void ref_fill(struct ref_random *, enum ref_half, uint16_t *p, int64_t n, double scale); /* normal, times scale */

/* ---- the kernels; `t` is the type of the inputs.  Quantised results: the scales, and the values divided by them, not yet rounded to codes. */
void ref_rmsnorm_quant(enum ref_half t, const uint16_t *x, const uint16_t *w, double eps, int64_t m, int64_t n,
                       enum ref_code, double *y, double *scale);
/* h[m, 2n]: gate | up; one scale per `group` columns: scale[m, ceil(n/group)]. */
void ref_swiglu_quant(enum ref_half t, const uint16_t *h, int64_t m, int64_t n, int64_t group, enum ref_code, double *y, double *scale);
/* a[m, k], b[e, n, k], first[e+1] clamped to 0..m and taken as non-decreasing; rows in no group: `untouched` in c. */
void ref_grouped_gemm(enum ref_half t, const uint16_t *a, const uint16_t *b, const int32_t *first, int64_t m, int64_t n, int64_t k, int64_t e,
                      double untouched, double *c);
/* q[b,h,s,d], k and v[b,g,l,d]; query i sees keys j <= i + l - s; a row that sees none is 0.  round_p: softmax in f32 with P
 * rounded to bf16 and the result to bf16: the error that bf16 operands bring by themselves. */
void ref_attention(enum ref_half t, const uint16_t *q, const uint16_t *k, const uint16_t *v, double scale, int64_t b, int64_t h,
                   int64_t g, int64_t s, int64_t l, int64_t d, int round_p, double *o);

/* ---- differences */
struct ref_diff {
	int64_t n;              /* elements compared */
	double max, mean;       /* in ulp of the rounded reference (16 bits, f32); in steps (codes); small elements left out */
	int64_t over1, over2;   /* elements more than one ulp away; more than two */
	int64_t ties;           /* codes that differ where the exact value is a tie; not in over1 */
	int64_t nan;            /* NaN on one side only */
	double rel_l2, gain;    /* |got-ref| / |ref|, dot(got,ref) / dot(ref,ref) */
	int64_t worst;          /* index */
};
/* Elements below 2^-10 of their row's root mean square are left out of the ulp count, not of the rest. */
struct ref_diff ref_diff_half(enum ref_half, const uint16_t *got, const double *ref, int64_t rows, int64_t columns);
struct ref_diff ref_diff_f32(const float *got, const double *ref, int64_t n);
/* ref: exact values, rounded here. */
struct ref_diff ref_diff_codes(enum ref_code, const uint8_t *got, const double *ref, int64_t n);

/* The rules.  1 if they hold; `why` (may be NULL) tells which does not.  roundings: to 16 bits in the kernel's text, one behind the other. */
int ref_agree_plain(const struct ref_diff *, int roundings, char *why, size_t len);
int ref_agree_scale(const struct ref_diff *, char *why, size_t len);
int ref_agree_codes(const struct ref_diff *, char *why, size_t len);
/* got against f64, the bf16 reference against f64: relative L2 at most 1.25 times, plus one part in 10^6. */
int ref_agree_attention(const struct ref_diff *got, const struct ref_diff *bf16, char *why, size_t len);
#endif
