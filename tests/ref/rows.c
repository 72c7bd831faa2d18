/* rows.c -- see rows.h.  As plain as it can be: one loop a sum. */
#include "rows.h"
#include <math.h>
#include <string.h>

/* ---- norms */

struct moments { double mu, rstd; };

static double element(const struct ref_norm *p, const double *x, int64_t at)
{
	return x[at] + (p->res ? p->res[at] : 0);
}

static struct moments moments(const struct ref_norm *p, const double *x, int64_t from, int64_t n)
{
	double sum = 0, square = 0, mu = 0;
	for (int64_t j = 0; j < n; j++)
		sum += element(p, x, from + j);
	if (p->layer && n)
		mu = sum / (double)n;
	for (int64_t j = 0; j < n; j++)
		square += (element(p, x, from + j) - mu) * (element(p, x, from + j) - mu);
	return (struct moments){mu, 1 / sqrt((n ? square / (double)n : 0) + p->eps)};
}

void ref_norm(const struct ref_norm *p, const double *x, int64_t rows, int64_t n, double *v, double *u, double *rstd, double *mu)
{
	for (int64_t i = 0; i < rows; i++) {
		struct moments s = moments(p, x, i * n, n);
		for (int64_t j = 0; j < n; j++) {
			double e = element(p, x, i * n + j);
			u[i * n + j] = e;
			double w = p->offset + (p->w ? p->w[j] : 0), h = (e - s.mu) * s.rstd;
			v[i * n + j] = p->round ? p->round(p->round(h) * w) : h * w + (p->b ? p->b[j] : 0);
		}
		rstd[i] = s.rstd;
		mu[i] = s.mu;
	}
}

void ref_norm_bwd(const struct ref_norm *p, const double *dy, const double *x, const double *dres, int64_t rows, int64_t n, double *dx, double *dw,
                  double *db)
{
	memset(dw, 0, (size_t)n * sizeof *dw);
	memset(db, 0, (size_t)n * sizeof *db);
	for (int64_t i = 0; i < rows; i++) {
		struct moments s = moments(p, x, i * n, n);
		double along = 0, all = 0;           /* of the gradient along the normalised row, and its sum */
		for (int64_t j = 0; j < n; j++) {
			int64_t at = i * n + j;
			double h = (element(p, x, at) - s.mu) * s.rstd, d = dy[at] * (p->offset + (p->w ? p->w[j] : 0));
			dw[j] += dy[at] * h;
			db[j] += dy[at];
			along += d * h;
			all += p->layer ? d : 0;
		}
		for (int64_t j = 0; j < n; j++) {
			int64_t at = i * n + j;
			double h = (element(p, x, at) - s.mu) * s.rstd, d = dy[at] * (p->offset + (p->w ? p->w[j] : 0));
			dx[at] = s.rstd * (d - all / (double)n - h * along / (double)n) + (dres ? dres[at] : 0);
		}
	}
}

/* ---- activations */

static double logistic(double x) { return 1 / (1 + exp(-x)); }

double ref_act(enum ref_act a, double x)
{
	switch (a) {
	case REF_SILU: return x * logistic(x);
	case REF_GELU: return x * 0.5 * erfc(-x / sqrt(2));
	case REF_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	case REF_RELU: return x > 0 ? x : 0;
	case REF_SRELU: return x > 0 ? x * x : 0;
	case REF_QGELU: return x * logistic(1.702 * x);
	}
	return NAN;
}

static double act_slope(enum ref_act a, double x)
{
	switch (a) {
	case REF_SILU: return logistic(x) * (1 + x * (1 - logistic(x)));
	case REF_GELU: return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
	case REF_GELU_TANH: {
		double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
		return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
	}
	case REF_RELU: return x > 0;
	case REF_SRELU: return x > 0 ? 2 * x : 0;
	case REF_QGELU: return logistic(1.702 * x) * (1 + 1.702 * x * (1 - logistic(1.702 * x)));
	}
	return NAN;
}

void ref_activate(enum ref_act a, int gated, const double *h, const double *b, int64_t rows, int64_t n, double *v)
{
	int64_t width = gated ? 2 * n : n;
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < n; j++) {
			double gate = h[i * width + j] + (b ? b[j] : 0);
			v[i * n + j] = ref_act(a, gate) * (gated ? h[i * width + n + j] + (b ? b[n + j] : 0) : 1);
		}
}

void ref_activate_bwd(enum ref_act a, int gated, const double *dy, const double *h, const double *b, int64_t rows, int64_t n, double *dh, double *db)
{
	int64_t width = gated ? 2 * n : n;
	memset(db, 0, (size_t)width * sizeof *db);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < n; j++) {
			double gate = h[i * width + j] + (b ? b[j] : 0), up = gated ? h[i * width + n + j] + (b ? b[n + j] : 0) : 1;
			dh[i * width + j] = dy[i * n + j] * up * act_slope(a, gate);
			db[j] += dh[i * width + j];
			if (!gated)
				continue;
			dh[i * width + n + j] = dy[i * n + j] * ref_act(a, gate);
			db[n + j] += dh[i * width + n + j];
		}
}

double ref_clamped_swiglu(double gate, double up, double limit, double alpha, double offset)
{
	double g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up;
	return g * logistic(alpha * g) * (u + offset);
}

void ref_clamped_swiglu_bwd(double gate, double up, double limit, double alpha, double offset, double *by_gate, double *by_up)
{
	double g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up, s = logistic(alpha * g);
	*by_gate = gate > limit ? 0 : s * (1 + alpha * g * (1 - s)) * (u + offset);
	*by_up = up > limit || up < -limit ? 0 : g * s;
}

/* ---- quantisation */

double ref_amax(const double *v, int64_t n)
{
	double top = 0;
	for (int64_t i = 0; i < n; i++)
		if (fabs(v[i]) > top)
			top = fabs(v[i]);
	return top;
}

double ref_group_scale(enum ref_scale kind, enum ref_code f, double amax, double limit)
{
	if (limit > 0 && amax > limit)
		amax = limit;
	if (!(amax > 0))
		return 1;
	if (kind == REF_SCALE_F32)
		return fmax(amax / ref_code_max(f), 0x1p-126);
	int e;
	double m = frexp(amax / ref_code_max(f), &e);    /* m in [0.5, 1): m * 2^e; exactly a power of two where m is 0.5 */
	return ldexp(1, fmax(-127, fmin(127, m == 0.5 ? e - 1 : e)));
}

void ref_quantize(enum ref_scale kind, enum ref_code f, double limit, const double *v, int64_t rows, int64_t n, int64_t gm, int64_t gn, double *y,
                  double *scale)
{
	for (int64_t a = 0, at = 0; a < rows; a += gm)
		for (int64_t b = 0; b < n || (b == 0 && gn > n); b += gn, at++) {
			double top = 0;
			for (int64_t i = a; i < a + gm && i < rows; i++)
				for (int64_t j = b; j < b + gn && j < n; j++)
					top = fabs(v[i * n + j]) > top ? fabs(v[i * n + j]) : top;
			scale[at] = ref_group_scale(kind, f, top, limit);
			for (int64_t i = a; i < a + gm && i < rows; i++)
				for (int64_t j = b; j < b + gn && j < n; j++)
					y[i * n + j] = v[i * n + j] / scale[at];
		}
}

/* ---- softmax */

void ref_softmax(const double *x, const double *mask, int64_t period, double scale, const int64_t *seen, int64_t rows, int64_t n, double *y)
{
	for (int64_t i = 0; i < rows; i++) {
		int64_t count = seen ? seen[i] : n;
		double top = -INFINITY, sum = 0;
		for (int64_t j = 0; j < n; j++)
			y[i * n + j] = x[i * n + j] * scale + (mask ? mask[i % period * n + j] : 0);
		for (int64_t j = 0; j < count; j++)
			top = fmax(top, y[i * n + j]);
		for (int64_t j = 0; j < n; j++)
			sum += y[i * n + j] = j < count && top > -INFINITY ? exp(y[i * n + j] - top) : 0;
		for (int64_t j = 0; j < n; j++)
			y[i * n + j] = sum > 0 ? y[i * n + j] / sum : 0;
	}
}

void ref_softmax_bwd(const double *dy, const double *y, double scale, int64_t rows, int64_t n, double *dx)
{
	for (int64_t i = 0; i < rows; i++) {
		double along = 0;
		for (int64_t j = 0; j < n; j++)
			along += dy[i * n + j] * y[i * n + j];
		for (int64_t j = 0; j < n; j++)
			dx[i * n + j] = scale * y[i * n + j] * (dy[i * n + j] - along);
	}
}

/* ---- recipes */

void ref_delayed_scaling(double *history, int64_t h, int64_t k, double top, double margin, int newest, double *scale)
{
	for (int64_t t = 0; t < k; t++) {
		double amax = 0;
		for (int64_t i = 0; i < (newest && h ? 1 : h); i++)
			amax = isnan(history[i * k + t]) ? INFINITY : fmax(amax, history[i * k + t]);
		for (int64_t i = h - 1; i > 0; i--)
			history[i * k + t] = history[(i - 1) * k + t];
		if (h)
			history[t] = 0;
		if (amax > 0 && isfinite(amax))
			scale[t] = amax / top * exp2(margin);
	}
}

void ref_adam(const struct ref_adam *a, double g, double *p, double *m, double *v)
{
	*m = a->beta1 * *m + (1 - a->beta1) * g;
	*v = a->beta2 * *v + (1 - a->beta2) * g * g;
	*p -= a->rate * (*m / a->correct1 / (sqrt(*v / a->correct2) + a->eps) + a->decay * *p);
}
