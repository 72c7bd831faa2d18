/* ref_rows_test.c -- the gradients of tests/ref/rows.c against finite differences of its forward functions.
 *
 * L = sum(c * f(x)) for random c: the gradient by each input is (L(x + h) - L(x - h)) / 2h, to about h^2. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include "ref/rows.h"

enum { ROWS = 3, N = 7 };
static const double step = 1e-5;

struct problem {
	double c[ROWS * 2 * N], x[ROWS * 2 * N], w[2 * N], b[2 * N];
	struct ref_norm norm;
	enum ref_act act;
	int gated;
	double (*loss)(struct problem *);
};

static void fill(struct problem *p, uint64_t seed)
{
	struct ref_random r = {seed};
	for (int i = 0; i < ROWS * 2 * N; i++) {
		p->c[i] = ref_normal(&r);
		p->x[i] = ref_normal(&r) * 1.5;
	}
	for (int i = 0; i < 2 * N; i++) {
		p->w[i] = ref_normal(&r);
		p->b[i] = ref_normal(&r);
	}
}

/* dL/d(at[0..n)) against `want`. */
static void check(struct problem *p, double *at, int n, const double *want, const char *what)
{
	for (int i = 0; i < n; i++) {
		double was = at[i];
		at[i] = was + step;
		double up = p->loss(p);
		at[i] = was - step;
		double down = p->loss(p);
		at[i] = was;
		double found = (up - down) / (2 * step);
		ck_assert_msg(fabs(found - want[i]) < 1e-6 * (1 + fabs(want[i])), "%s[%d]: %.9g by differences, %.9g analytic", what, i, found, want[i]);
	}
}

static double dot(const double *a, const double *b, int n)
{
	double s = 0;
	for (int i = 0; i < n; i++)
		s += a[i] * b[i];
	return s;
}

static double norm_loss(struct problem *p)
{
	double v[ROWS * N], u[ROWS * N], rstd[ROWS], mu[ROWS];
	ref_norm(&p->norm, p->x, ROWS, N, v, u, rstd, mu);
	return dot(p->c, v, ROWS * N);
}

START_TEST(norms)
{
	struct problem p = {.loss = norm_loss};
	double dx[ROWS * N], dw[N], db[N];
	fill(&p, 5);
	p.norm = (struct ref_norm){.layer = _i, .eps = 1e-3, .offset = 1, .w = p.w, .b = p.b};
	ref_norm_bwd(&p.norm, p.c, p.x, NULL, ROWS, N, dx, dw, db);
	check(&p, p.x, ROWS * N, dx, "dx");
	check(&p, p.w, N, dw, "dw");
	check(&p, p.b, N, db, "db");
}
END_TEST

static double act_loss(struct problem *p)
{
	double v[ROWS * N];
	ref_activate(p->act, p->gated, p->x, p->b, ROWS, N, v);
	return dot(p->c, v, ROWS * N);
}

START_TEST(activations)
{
	struct problem p = {.loss = act_loss, .act = (enum ref_act)(_i / 2), .gated = _i % 2};
	double dh[ROWS * 2 * N], db[2 * N];
	fill(&p, 6);
	ref_activate_bwd(p.act, p.gated, p.c, p.x, p.b, ROWS, N, dh, db);
	check(&p, p.x, ROWS * N * (1 + p.gated), dh, "dh");
	check(&p, p.b, N * (1 + p.gated), db, "db");
}
END_TEST

static const double limit = 1.5, alpha = 1.7, offset = 0.5;

static double clamped_loss(struct problem *p)
{
	double sum = 0;
	for (int i = 0; i < ROWS * N; i++)
		sum += p->c[i] * ref_clamped_swiglu(p->x[i], p->x[ROWS * N + i], limit, alpha, offset);
	return sum;
}

START_TEST(clamped_gates)
{
	struct problem p = {.loss = clamped_loss};
	double by_gate[ROWS * N], by_up[ROWS * N];
	int clamped = 0;
	fill(&p, 8);
	for (int i = 0; i < ROWS * N; i++) {
		ref_clamped_swiglu_bwd(p.x[i], p.x[ROWS * N + i], limit, alpha, offset, &by_gate[i], &by_up[i]);
		clamped += (by_gate[i] == 0) + (by_up[i] == 0);
		by_gate[i] *= p.c[i];
		by_up[i] *= p.c[i];
	}
	ck_assert_int_gt(clamped, 3);
	check(&p, p.x, ROWS * N, by_gate, "gate");
	check(&p, p.x + ROWS * N, ROWS * N, by_up, "up");
}
END_TEST

static double softmax_loss(struct problem *p)
{
	double y[ROWS * N];
	ref_softmax(p->x, NULL, 1, 0.7, NULL, ROWS, N, y);
	return dot(p->c, y, ROWS * N);
}

START_TEST(softmax)
{
	struct problem p = {.loss = softmax_loss};
	double y[ROWS * N], dx[ROWS * N];
	fill(&p, 7);
	ref_softmax(p.x, NULL, 1, 0.7, NULL, ROWS, N, y);
	ref_softmax_bwd(p.c, y, 0.7, ROWS, N, dx);
	check(&p, p.x, ROWS * N, dx, "dx");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("references of rows");
	TCase *t = tcase_create("finite differences");
	tcase_add_loop_test(t, norms, 0, 2);
	tcase_add_loop_test(t, activations, 0, 12);
	tcase_add_test(t, clamped_gates);
	tcase_add_test(t, softmax);
	suite_add_tcase(s, t);
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
