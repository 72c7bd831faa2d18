/* rows.h -- norms, activations, quantisation, softmax, their gradients and the training recipes, a second time, in f64.
 *
 * In and out: dense arrays of doubles, rows by columns; formulas are written from their definitions and share nothing with
 * tdsl.  Gradients are analytic; tests/ref_rows_test.c holds each against finite differences of the forward function here. */
#ifndef REF_ROWS_H
#define REF_ROWS_H
#include "ref.h"

/* ---- norms.  u = x + res is normalised; w NULL: weights of 0, b NULL: no bias; v: the result.  mu is 0 where not layer.
 * round (may be NULL): T5's way, which rounds u / rms and then its product with the weight to the type of x. */
struct ref_norm { int layer; double eps, offset; const double *res, *w, *b; double (*round)(double); };
void ref_norm(const struct ref_norm *, const double *x, int64_t rows, int64_t n, double *v, double *u, double *rstd, double *mu);
/* Gradients with respect to x, w and b of sum(dy * v); dres (may be NULL) is added to dx. */
void ref_norm_bwd(const struct ref_norm *, const double *dy, const double *x, const double *dres, int64_t rows, int64_t n, double *dx, double *dw,
                  double *db);

/* ---- activations */
enum ref_act { REF_SILU, REF_GELU, REF_GELU_TANH, REF_RELU, REF_SRELU, REF_QGELU };
double ref_act(enum ref_act, double x);
/* gated: h[rows, 2n] gives act(gate) * up, else h[rows, n] gives act(h).  b (may be NULL) is added to each row of h. */
void ref_activate(enum ref_act, int gated, const double *h, const double *b, int64_t rows, int64_t n, double *v);
void ref_activate_bwd(enum ref_act, int gated, const double *dy, const double *h, const double *b, int64_t rows, int64_t n, double *dh, double *db);
double ref_clamped_swiglu(double gate, double up, double limit, double alpha, double offset);
/* Its derivatives; no gradient passes where a clamp acts. */
void ref_clamped_swiglu_bwd(double gate, double up, double limit, double alpha, double offset, double *by_gate, double *by_up);

/* ---- quantisation: y is v in units of its scale, not yet rounded to codes */
enum ref_scale { REF_SCALE_F32, REF_SCALE_E8M0 };       /* e8m0: the smallest power of two not below amax / max */
/* Of one group; limit > 0: amax counts at most so much. */
double ref_group_scale(enum ref_scale, enum ref_code, double amax, double limit);
/* Groups of gm x gn elements of v[rows, n]; scale[ceil(rows / gm), ceil(n / gn)]. */
void ref_quantize(enum ref_scale, enum ref_code, double limit, const double *v, int64_t rows, int64_t n, int64_t gm, int64_t gn, double *y,
                  double *scale);
double ref_amax(const double *v, int64_t n);

/* ---- softmax of x * scale + mask[i % period, j]; columns beyond seen[i] (NULL: none) are left out; nothing seen: 0 */
void ref_softmax(const double *x, const double *mask, int64_t period, double scale, const int64_t *seen, int64_t rows, int64_t n, double *y);
void ref_softmax_bwd(const double *dy, const double *y, double scale, int64_t rows, int64_t n, double *dx);

/* ---- recipes */
/* history[h, k]; as kernels.tdsl says of delayed_scaling. */
void ref_delayed_scaling(double *history, int64_t h, int64_t k, double top, double margin, int newest, double *scale);
struct ref_adam { double rate, beta1, beta2, eps, correct1, correct2, decay; };
void ref_adam(const struct ref_adam *, double g, double *p, double *m, double *v);
#endif
