/* e2e_rows_join_test.c -- rows that are not whole vectors, or short, called as other rows of as many elements (runtime/join.c), against f64.
 *
 * In: kernels that work element by element, sizes that are multiples of nothing, tensors with gaps, of other shapes, that begin anywhere.
 * Out: whether the call was joined, as tdsl_explain says; results, which may not depend on it. */
#include "e2e_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct join_case {
	int64_t batch, m, n;                          /* batch 0: two dimensions */
	struct e2e_place x, y;
	bool b, amax, yt;                             /* tensors that are given besides */
	bool joined;
	const char *variant;                          /* begins so; NULL = any one */
};

static bool is_joined(struct call *c)
{
	tdsl_stream stream;
	tdsl_kernel k = e2e_kernel(c->chip, c->kernel, &stream);
	const char *text = tdsl_explain(k, stream, c->args, c->n);
	ck_assert_msg(text, "%s: %s", c->what, tdsl_error());
	return strstr(text, "as many elements in other rows");
}

static struct shape shape_of(const struct join_case *z, struct e2e_place place)
{
	struct shape s = z->batch ? SHAPE(z->batch, z->m, z->n) : SHAPE(z->m, z->n);
	s.place = place;
	return s;
}

static void call_and_see(struct call *c, const struct join_case *z)
{
	struct tdsl_last last;
	bool joined = is_joined(c);
	call_go(c);
	ck_assert_int_eq(tdsl_last_call(&last), 0);
	ck_assert_msg(joined == z->joined && (!z->variant || strncmp(last.predicate, z->variant, strlen(z->variant)) == 0), "%s: joined %d, variant \"%s\"", c->what,
	              joined, last.predicate);
}

static void relu(const struct e2e_chip *chip, const struct join_case *z)
{
	struct call c;
	int64_t rows = (z->batch ? z->batch : 1) * z->m, count = rows * z->n;
	double *want = calloc((size_t)count * 2 + 2, sizeof *want), most = 0, zero = 0;
	call_begin(&c, chip, "relu_act", "%ld x %ld x %ld, pitch %ld step %ld shift %ld", (long)z->batch, (long)z->m, (long)z->n, (long)z->x.pitch, (long)z->x.step,
	           (long)z->x.shift);
	const double *x = call_in(&c, E2E_BF16, shape_of(z, z->x), 4), *b = NULL;
	if (z->b)
		b = call_in(&c, E2E_BF16, SHAPE(z->n), 1);
	else
		call_absent(&c);
	call_absent(&c);                              /* scale */
	if (z->amax)
		call_values(&c, E2E_F32, SHAPE(1), &zero);
	else
		call_absent(&c);
	int at_amax = c.n - 1, at = call_out(&c, E2E_BF16, shape_of(z, z->y)), at_t = call_maybe(&c, z->yt, E2E_BF16, SHAPE(z->n, z->m));
	call_and_see(&c, z);
	for (int64_t i = 0; i < count; i++) {
		want[i] = fmax(x[i] + (b ? b[i % z->n] : 0), 0);
		most = fmax(most, want[i]);
	}
	call_plain(&c, at, want, z->n);
	for (int64_t i = 0; z->yt && i < count; i++)
		want[count + i % z->n * z->m + i / z->n] = want[i];
	if (z->yt)
		call_plain(&c, at_t, want + count, z->m);
	if (z->amax)
		call_near(&c, at_amax, &most, 0x1p-20, 0);
	call_end(&c);
	free(want);
}

START_TEST(activations_join)
{
	static const struct join_case cases[] = {
		{.m = 4096, .n = 3, .joined = true, .variant = "N%"},                     /* 3 rows of 4,096 */
		{.m = 64, .n = 65, .joined = true, .variant = "N%"},                      /* one row of 4,160 */
		{.m = 3, .n = 8196, .joined = true, .variant = "any"},                    /* one of 24,588: not a whole number of vectors */
		{.batch = 4, .m = 16, .n = 33, .joined = true, .variant = "N%"},          /* three dimensions that are one run */
		{.m = 64, .n = 65, .amax = true, .joined = true},
		{.m = 64, .n = 64, .joined = true, .variant = "N%"},                      /* short */
		{.m = 4, .n = 2048},                                                      /* neither: whole vectors */
		{.m = 1, .n = 4097},                                                      /* one row */
		{.m = 64, .n = 65, .x = {.pitch = 72}},                                   /* gaps between the rows */
		{.m = 64, .n = 65, .y = {.pitch = 72}},
		{.m = 64, .n = 65, .x = {.pitch = 130, .step = 2}},                       /* inside them */
		{.m = 64, .n = 65, .x = {.shift = 1}},                                    /* not a vector's begin */
		{.batch = 2, .m = 8, .n = 33, .x = {.pitch = 40}},
		{.m = 64, .n = 65, .b = true},                                            /* columns mean something */
		{.m = 64, .n = 65, .yt = true},                                           /* so do rows */
		{.m = 0, .n = 65}, {.m = 64, .n = 0},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		relu(&e2e_chips[_i], &cases[i]);
}
END_TEST

START_TEST(sums_join)
{
	static const struct join_case cases[] = {
		{.m = 64, .n = 65, .joined = true, .variant = "N%"}, {.m = 5, .n = 7, .joined = true, .variant = "any"}, {.m = 64, .n = 65, .x = {.pitch = 66}},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct call c;
		const struct join_case *z = &cases[i];
		double *want = calloc((size_t)(z->m * z->n), sizeof *want);
		call_begin(&c, &e2e_chips[_i], "add", "%ld x %ld", (long)z->m, (long)z->n);
		const double *x = call_in(&c, E2E_BF16, shape_of(z, z->x), 4), *res = call_in(&c, E2E_BF16, shape_of(z, z->y), 4);
		int at = call_out(&c, E2E_BF16, shape_of(z, z->y));
		call_and_see(&c, z);
		for (int64_t k = 0; k < z->m * z->n; k++)
			want[k] = x[k] + res[k];
		call_plain(&c, at, want, z->n);
		call_end(&c);
		free(want);
	}
}
END_TEST

/* What a call needs of workspace, asked for with its tensors and before they are there. */
static void ask_workspace(struct call *c, int64_t bytes[2])
{
	tdsl_stream stream;
	tdsl_kernel k = e2e_kernel(c->chip, c->kernel, &stream);
	void *data[CALL_ARGS] = {0};
	bytes[0] = tdsl_workspace(k, stream, c->args, c->n);
	for (int i = 0; i < c->n; i++)
		if (c->tensors[i]) {
			data[i] = c->tensors[i]->t.data;
			c->tensors[i]->t.data = NULL;
		}
	bytes[1] = tdsl_workspace(k, stream, c->args, c->n);
	for (int i = 0; i < c->n; i++)
		if (c->tensors[i])
			c->tensors[i]->t.data = data[i];
}

/* A gradient that has a workspace where the bias has one: asked for, it suffices for the call as it is joined, also by the general variant. */
START_TEST(gradients_join)
{
	static const struct join_case cases[] = {
		{.m = 131, .n = 33}, {.m = 128, .n = 33, .joined = true, .variant = "N%"}, {.m = 131, .n = 33, .b = true}, {.m = 136, .n = 33, .joined = true, .variant = "any"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (cases[i].m == 136)
			setenv("TDSL_DISABLE", "relu_bwd/N%8=0 aligned bare;relu_bwd/N%8=0 aligned", 1);
		struct call c;
		const struct join_case *z = &cases[i];
		double *want = calloc((size_t)(z->m * z->n), sizeof *want), *sums = calloc((size_t)z->n, sizeof *sums);
		call_begin(&c, &e2e_chips[_i], "relu_bwd", "%ld x %ld, db %d", (long)z->m, (long)z->n, z->b);
		const double *dy = call_in(&c, E2E_BF16, shape_of(z, z->y), 4), *x = call_in(&c, E2E_BF16, shape_of(z, z->x), 4);
		call_absent(&c);
		int at = call_out(&c, E2E_BF16, shape_of(z, z->y)), at_db = call_maybe(&c, z->b, E2E_F32, SHAPE(z->n));
		int64_t bytes[2];
		ask_workspace(&c, bytes);
		ck_assert_msg(bytes[0] >= 0 && bytes[1] >= bytes[0], "%s: %ld bytes, %ld before there are tensors", c.what, (long)bytes[0], (long)bytes[1]);
		call_and_see(&c, z);
		for (int64_t k = 0; k < z->m * z->n; k++) {
			want[k] = x[k] > 0 ? dy[k] : 0;
			sums[k % z->n] += want[k];
		}
		call_plain(&c, at, want, z->n);
		if (z->b)
			call_near(&c, at_db, sums, 0x1p-18, 0x1p-12);
		call_end(&c);
		free(want), free(sums);
	}
	unsetenv("TDSL_DISABLE");
}
END_TEST

/* One scale of the whole tensor has no rows; one of each row has. */
START_TEST(scales_decide)
{
	for (int rows = 0; rows < 2; rows++) {
		struct call c;
		struct join_case z = {.m = 64, .n = 65, .joined = !rows};
		double *want = calloc(64 * 65, sizeof *want);
		call_begin(&c, &e2e_chips[_i], rows ? "dequantize_rows" : "dequantize", "64 x 65");
		const double *y = call_in(&c, e2e_code_type(e2e_chips[_i].fp8), SHAPE(64, 65), 4), *scale = call_in(&c, E2E_F32, rows ? SHAPE(64) : SHAPE(1), 1);
		int at = call_out(&c, E2E_BF16, SHAPE(64, 65));
		call_and_see(&c, &z);
		for (int k = 0; k < 64 * 65; k++)
			want[k] = y[k] * scale[rows ? k / 65 : 0];
		call_plain(&c, at, want, 65);
		call_end(&c);
		free(want);
	}
}
END_TEST

/* Rows of whole groups, with a scale each, one behind the other. */
START_TEST(groups_join)
{
	static const struct { struct join_case z; int group; enum ref_scale kind; const char *name; int64_t pitch; } cases[] = {
		{{.m = 64, .n = 256, .joined = true}, 128, 0, "quantize_128", 0}, {{.m = 33, .n = 128, .joined = true}, 128, 0, "quantize_128", 0},
		{{.m = 50, .n = 96, .joined = true}, 32, REF_SCALE_E8M0, "quantize_mxfp8", 0}, {{.m = 16, .n = 384, .joined = true}, 128, REF_SCALE_E8M0, "quantize_128_e8m0", 0},
		{{.m = 64, .n = 200}, 128, 0, "quantize_128", 0},                         /* the last group of a row ends early */
		{{.m = 4, .n = 2048}, 128, 0, "quantize_128", 0},                         /* not short */
		{{.m = 64, .n = 256, .x = {.pitch = 264}}, 128, 0, "quantize_128", 0},    /* gaps between rows */
		{{.m = 64, .n = 256}, 128, 0, "quantize_128", 3},                         /* between scales */
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct join_case *z = &cases[i].z;
		int64_t groups = (z->n + cases[i].group - 1) / cases[i].group;
		enum e2e_type code = e2e_code_type(e2e_chips[_i].fp8), scale = cases[i].kind ? E2E_E8M0 : E2E_F32;
		double *y = calloc((size_t)(z->m * z->n), sizeof *y), *scales = calloc((size_t)(z->m * groups), sizeof *scales), *want = calloc((size_t)(z->m * z->n), sizeof *want);
		struct call c;
		call_begin(&c, &e2e_chips[_i], cases[i].name, "%ld x %ld", (long)z->m, (long)z->n);
		const double *x = call_in(&c, E2E_BF16, shape_of(z, z->x), 4);
		call_absent(&c);                                                          /* amax */
		struct shape s = SHAPE(z->m, groups);
		s.place.pitch = cases[i].pitch;
		int at = call_out(&c, code, SHAPE(z->m, z->n)), at_scale = call_out(&c, scale, s);
		call_and_see(&c, z);
		ref_quantize(cases[i].kind, e2e_chips[_i].fp8, 0, x, z->m, z->n, 1, cases[i].group, y, scales);
		call_scales(&c, at_scale, scales);
		call_codes(&c, at, y);
		call_end(&c);
		char back[40];
		snprintf(back, sizeof back, "de%s", cases[i].name);
		call_begin(&c, &e2e_chips[_i], back, "%ld x %ld", (long)z->m, (long)z->n);
		const double *codes = call_in(&c, code, SHAPE(z->m, z->n), 4);
		s.place = (struct e2e_place){.pitch = cases[i].pitch};
		const double *factors = cases[i].kind ? call_values(&c, scale, s, scales) : call_in(&c, scale, s, 1);
		at = call_out(&c, E2E_BF16, shape_of(z, z->x));
		call_and_see(&c, z);
		for (int64_t k = 0; k < z->m * z->n; k++)
			want[k] = codes[k] * factors[k / z->n * groups + k % z->n / cases[i].group];
		call_plain(&c, at, want, z->n);
		call_end(&c);
		free(y), free(scales), free(want);
	}
}
END_TEST

/* Batches that may not matter, and a choice that was tuned for the call's own sizes. */
START_TEST(environment_decides)
{
	struct join_case z = {.m = 64, .n = 63, .variant = "any"};
	char path[64];
	snprintf(path, sizeof path, "/tmp/tdsl_join_%ld", (long)getpid());
	setenv("TDSL_BATCH_INVARIANT", "1", 1);
	relu(&e2e_chips[_i], &z);
	unsetenv("TDSL_BATCH_INVARIANT");
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fprintf(f, "tdsl tune 1\nrelu_act\tT=bf16,Q=bf16\t%s\tM=64,N=61\tany\t0.5\n", e2e_chips[_i].name);
	fclose(f);
	setenv("TDSL_TUNE", path, 1);
	z.n = 61;
	relu(&e2e_chips[_i], &z);
	z = (struct join_case){.m = 64, .n = 59, .joined = true, .variant = "N%"};
	relu(&e2e_chips[_i], &z);                     /* the table says nothing of it */
	unsetenv("TDSL_TUNE");
	remove(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: rows joined");
	TCase *t = tcase_create("joined");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, activations_join, 0, 2);
	tcase_add_loop_test(t, sums_join, 0, 2);
	tcase_add_loop_test(t, gradients_join, 0, 2);
	tcase_add_loop_test(t, scales_decide, 0, 2);
	tcase_add_loop_test(t, groups_join, 0, 2);
	tcase_add_loop_test(t, environment_decides, 0, 2);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
