/* demo.c -- `demo DATA.safetensors PACK.tpack REPORT.json`: shipped kernels, called as plain C functions.
 *
 * In: the inputs made by demo_data, the pack, and what `tdslc report --json` says of it.  Out: one table, a row a kernel and
 * chip: the variant that ran, what compiling it took, registers, instructions executed and bytes moved on the simulated
 * device, and the error against an f64 reference beside its bound.  Exit 0 only if every row agrees. */
#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/tensorfile.h"
#include "../runtime/include/tdsl.h"
#include "../sim/sim.h"
#include "../tests/ref/rows.h"
#include "kernels.h"

static const struct chip { const char *device, *target; enum ref_code fp8; int fp8_code; } chips[] = {
	{"sim:gfx942", "gfx942", REF_E4M3FNUZ, TDSL_DL_E4M3FNUZ},
	{"sim:gfx950", "gfx950", REF_E4M3FN, TDSL_DL_E4M3FN},
};

struct run {
	const struct chip *chip;
	tdsl_stream stream;
	struct tensorfile *data;
	char error[96];             /* found and bound */
	int agree;
};

static void *room(int64_t n, size_t size)
{
	void *p = calloc((size_t)(n ? n : 1), size);
	if (!p) {
		fprintf(stderr, "demo: no memory\n");
		exit(1);
	}
	return p;
}

static struct tensorfile_tensor *input(struct run *r, const char *name)
{
	struct tensorfile_tensor *t = tensorfile_find(r->data, name);
	if (!t) {
		fprintf(stderr, "demo: the data hold no tensor %s\n", name);
		exit(1);
	}
	return t;
}

static DLTensor tensor(void *data, uint8_t code, uint8_t bits, int rank, const int64_t *shape)
{
	return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = {code, bits, 1}, .shape = (int64_t *)shape};
}

static DLTensor bf16(const struct tensorfile_tensor *t)
{
	return tensor(t->data, TDSL_DL_BFLOAT, 16, t->rank, t->shape);
}

/* Scales and codes beside the reference's. */
static void compare_quantized(struct run *r, const uint8_t *y, const float *scale, const double *ry, const double *rs, int64_t n, int64_t ns)
{
	struct ref_diff s = ref_diff_f32(scale, rs, ns), c = ref_diff_codes(r->chip->fp8, y, ry, n);
	r->agree = ref_agree_scale(&s, NULL, 0) && ref_agree_codes(&c, NULL, 0);
	snprintf(r->error, sizeof r->error, "scale %g <= 4 ulp; codes %.0e <= 1e-4, ties %.0e", s.max, (double)c.over1 / (double)n,
	         (double)c.ties / (double)n);
}

static int run_rmsnorm_quant(struct run *r)
{
	struct tensorfile_tensor *x = input(r, "rmsnorm_quant.x"), *w = input(r, "rmsnorm_quant.w");
	int64_t m = x->shape[0], n = x->shape[1];
	uint8_t *y = room(m * n, 1);
	float *scale = room(m, 4);
	double *ry = room(m * n, 8), *rs = room(m, 8);
	DLTensor dx = bf16(x), dw = bf16(w), dy = tensor(y, (uint8_t)r->chip->fp8_code, 8, 2, x->shape), ds = tensor(scale, TDSL_DL_FLOAT, 32, 1, x->shape);
	int rc = rmsnorm_quant(r->stream, &dx, &dw, 1e-5f, &dy, &ds);
	if (!rc) {
		ref_rmsnorm_quant(REF_BF16, x->data, w->data, 1e-5f, m, n, r->chip->fp8, ry, rs);
		compare_quantized(r, y, scale, ry, rs, m * n, m);
	}
	free(y), free(ry), free(scale), free(rs);
	return rc;
}

static double *widened(const uint16_t *p, int64_t n)
{
	double *v = room(n, sizeof *v);
	for (int64_t i = 0; i < n; i++)
		v[i] = ref_half_value(REF_BF16, p[i]);
	return v;
}

/* What a training step needs of one norm, in one launch: fp8 row-wise and transposed by the scale of delayed scaling, the rounded sum
 * with the residual, 1/rms for the backward pass and the largest magnitude for the next scale. */
static int run_rmsnorm(struct run *r)
{
	struct tensorfile_tensor *x = input(r, "rmsnorm_quant.x"), *w = input(r, "rmsnorm_quant.w"), *res = input(r, "rmsnorm.res");
	int64_t m = x->shape[0], n = x->shape[1], t[] = {n, m}, one = 1;
	uint8_t *y = room(m * n, 1), *yt = room(m * n, 1);
	uint16_t *sum = room(m * n, 2);
	float *rstd = room(m, 4), scale = 0.0625f, amax = 0;
	double *v = room(m * n, 8), *u = room(m * n, 8), *rrstd = room(m, 8), *mu = room(m, 8), *xv = widened(x->data, m * n), *rv = widened(res->data, m * n),
		*wv = widened(w->data, n);
	struct ref_norm norm = {.eps = (double)1e-5f, .offset = 1, .res = rv, .w = wv};
	DLTensor dx = bf16(x), dw = bf16(w), dres = bf16(res), dscale = tensor(&scale, TDSL_DL_FLOAT, 32, 1, &one), damax = tensor(&amax, TDSL_DL_FLOAT, 32, 1, &one),
		dy = tensor(y, (uint8_t)r->chip->fp8_code, 8, 2, x->shape), dyt = tensor(yt, (uint8_t)r->chip->fp8_code, 8, 2, t),
		dsum = tensor(sum, TDSL_DL_BFLOAT, 16, 2, x->shape), drstd = tensor(rstd, TDSL_DL_FLOAT, 32, 1, x->shape);
	int rc = rmsnorm(r->stream, &dx, &dres, &dw, &dscale, &damax, 1e-5f, 1, &dy, &dyt, &dsum, &drstd);
	if (!rc) {
		ref_norm(&norm, xv, m, n, v, u, rrstd, mu);
		double top = ref_amax(v, m * n);
		int transposed = 1;
		for (int64_t i = 0; i < m * n; i++) {
			v[i] /= (double)scale;
			transposed &= yt[i % n * m + i / n] == y[i];
		}
		struct ref_diff c = ref_diff_codes(r->chip->fp8, y, v, m * n), s = ref_diff_half(REF_BF16, sum, u, m, n), q = ref_diff_f32(rstd, rrstd, m);
		r->agree = transposed && ref_agree_codes(&c, NULL, 0) && ref_agree_plain(&s, 1, NULL, 0) && ref_agree_scale(&q, NULL, 0)
		           && fabs((double)amax - top) <= 1e-6 * top;
		snprintf(r->error, sizeof r->error, "codes %.0e <= 1e-4; sum %g, 1/rms %g ulp", (double)c.over1 / (double)c.n, s.max, q.max);
	}
	free(y), free(yt), free(sum), free(rstd), free(v), free(u), free(rrstd), free(mu), free(xv), free(rv), free(wv);
	return rc;
}

/* The scales of 64 tensors from a history of 1024 steps, in one launch. */
static int run_delayed_scaling(struct run *r)
{
	enum { STEPS = 1024, TENSORS = 64 };
	static float history[STEPS * TENSORS], scale[TENSORS], inverse[TENSORS];
	static double rhistory[STEPS * TENSORS], rscale[TENSORS];
	int64_t shape[] = {STEPS, TENSORS}, k = TENSORS;
	struct ref_random random = {7};
	double top = ref_code_max(r->chip->fp8), worst = 0;
	for (int i = 0; i < STEPS * TENSORS; i++)
		rhistory[i] = history[i] = (float)fabs(ref_normal(&random));
	for (int i = 0; i < TENSORS; i++)
		rscale[i] = scale[i] = inverse[i] = 1;
	DLTensor dh = tensor(history, TDSL_DL_FLOAT, 32, 2, shape), ds = tensor(scale, TDSL_DL_FLOAT, 32, 1, &k), di = tensor(inverse, TDSL_DL_FLOAT, 32, 1, &k);
	int rc = delayed_scaling(r->stream, &dh, &ds, &di, (float)top, 0, 0);
	if (!rc) {
		ref_delayed_scaling(rhistory, STEPS, TENSORS, top, 0, 0, rscale);
		r->agree = 1;
		for (int i = 0; i < STEPS * TENSORS; i++)
			r->agree &= (double)history[i] == rhistory[i];
		struct ref_diff d = ref_diff_f32(scale, rscale, TENSORS);
		for (int i = 0; i < TENSORS; i++)
			worst = fmax(worst, fabs((double)inverse[i] * rscale[i] - 1));
		r->agree &= ref_agree_scale(&d, NULL, 0) && worst < 1e-6;
		snprintf(r->error, sizeof r->error, "scale %g <= 4 ulp; history equal", d.max);
	}
	return rc;
}

static int run_swiglu_quant(struct run *r)
{
	struct tensorfile_tensor *h = input(r, "swiglu_quant.h");
	int64_t m = h->shape[0], n = h->shape[1] / 2, groups = (n + 127) / 128;
	uint8_t *y = room(m * n, 1);
	float *scale = room(m * groups, 4);
	double *ry = room(m * n, 8), *rs = room(m * groups, 8);
	DLTensor dh = bf16(h), dy = tensor(y, (uint8_t)r->chip->fp8_code, 8, 2, (int64_t[]){m, n}),
		ds = tensor(scale, TDSL_DL_FLOAT, 32, 2, (int64_t[]){m, groups});
	int rc = swiglu_quant(r->stream, &dh, &dy, &ds);
	if (!rc) {
		ref_swiglu_quant(REF_BF16, h->data, m, n, 128, r->chip->fp8, ry, rs);
		compare_quantized(r, y, scale, ry, rs, m * n, m * groups);
	}
	free(y), free(ry), free(scale), free(rs);
	return rc;
}

static int run_grouped_gemm(struct run *r)
{
	struct tensorfile_tensor *a = input(r, "grouped_gemm.a"), *b = input(r, "grouped_gemm.b"), *first = input(r, "grouped_gemm.first");
	int64_t m = a->shape[0], k = a->shape[1], e = b->shape[0], n = b->shape[1];
	uint16_t *c = room(m * n, 2);
	double *ref = room(m * n, 8);
	DLTensor da = bf16(a), db = bf16(b), df = tensor(first->data, TDSL_DL_INT, 32, 1, first->shape),
		dc = tensor(c, TDSL_DL_BFLOAT, 16, 2, (int64_t[]){m, n});
	int rc = grouped_gemm(r->stream, &da, &db, &df, &dc);
	if (!rc) {
		ref_grouped_gemm(REF_BF16, a->data, b->data, first->data, m, n, k, e, 0, ref);
		struct ref_diff d = ref_diff_half(REF_BF16, c, ref, m, n);
		r->agree = ref_agree_plain(&d, 1, NULL, 0);
		snprintf(r->error, sizeof r->error, "%g <= 2 ulp; over 1 ulp %.0e <= 1e-4", d.max, (double)d.over1 / (double)d.n);
	}
	free(c), free(ref);
	return rc;
}

static int run_attention(struct run *r)
{
	struct tensorfile_tensor *q = input(r, "attention.q"), *k = input(r, "attention.k"), *v = input(r, "attention.v");
	int64_t b = q->shape[0], h = q->shape[1], s = q->shape[2], d = q->shape[3], g = k->shape[1], t = k->shape[2];
	uint16_t *o = room(q->count, 2), *rounded = room(q->count, 2);
	double *ref = room(q->count, 8), *p = room(q->count, 8);
	float scale = (float)(1 / sqrt((double)d));
	DLTensor dq = bf16(q), dk = bf16(k), dv = bf16(v), dout = tensor(o, TDSL_DL_BFLOAT, 16, 4, q->shape);
	int rc = attention(r->stream, &dq, &dk, &dv, scale, &dout);
	if (!rc) {
		ref_attention(REF_BF16, q->data, k->data, v->data, scale, b, h, g, s, t, d, 0, ref);
		ref_attention(REF_BF16, q->data, k->data, v->data, scale, b, h, g, s, t, d, 1, p);
		for (int64_t i = 0; i < q->count; i++)
			rounded[i] = ref_half_round(REF_BF16, p[i]);
		struct ref_diff got = ref_diff_half(REF_BF16, o, ref, q->count / d, d), bound = ref_diff_half(REF_BF16, rounded, ref, q->count / d, d);
		r->agree = ref_agree_attention(&got, &bound, NULL, 0);
		snprintf(r->error, sizeof r->error, "relative L2 %.2e <= %.2e", got.rel_l2, 1.25 * bound.rel_l2);
	}
	free(o), free(rounded), free(ref), free(p);
	return rc;
}

static const struct { const char *name; int (*run)(struct run *); } kernels[] = {
	{"rmsnorm_quant", run_rmsnorm_quant},
	{"rmsnorm", run_rmsnorm},
	{"delayed_scaling", run_delayed_scaling},
	{"swiglu_quant", run_swiglu_quant},
	{"grouped_gemm", run_grouped_gemm},
	{"attention", run_attention},
};

static char *read_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
	char *s = n < 0 ? NULL : calloc((size_t)n + 1, 1);
	if (s)
		rewind(f);
	if (!s || fread(s, 1, (size_t)n, f) != (size_t)n) {
		perror(path);
		exit(1);
	}
	fclose(f);
	return s;
}

static const cJSON *report_row(const cJSON *report, const struct tdsl_last *last)
{
	const cJSON *row;
	cJSON_ArrayForEach(row, report) {
		const char *kernel = cJSON_GetStringValue(cJSON_GetObjectItem(row, "kernel")), *instance = cJSON_GetStringValue(cJSON_GetObjectItem(row, "instance")),
			*target = cJSON_GetStringValue(cJSON_GetObjectItem(row, "target")), *variant = cJSON_GetStringValue(cJSON_GetObjectItem(row, "variant"));
		if (kernel && instance && target && variant && !strcmp(kernel, last->kernel) && !strcmp(instance, last->instance)
		    && !strcmp(target, last->target) && !strcmp(variant, last->predicate))
			return row;
	}
	return NULL;
}

static int number(const cJSON *row, const char *name)
{
	const cJSON *v = cJSON_GetObjectItem(row, name);
	return cJSON_IsNumber(v) ? v->valueint : -1;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: demo DATA.safetensors PACK.tpack REPORT.json\n");
		return 2;
	}
	char err[256];
	struct run r = {0};
	if (tensorfile_open(&r.data, argv[1], err, sizeof err)) {
		fprintf(stderr, "demo: %s\n", err);
		return 1;
	}
	if (tdsl_pack_add(argv[2])) {
		fprintf(stderr, "demo: %s\n", tdsl_error());
		return 1;
	}
	char *report_text = read_text(argv[3]);
	cJSON *report = cJSON_Parse(report_text);
	int bad = 0, agree = 0, all = (int)(sizeof kernels / sizeof *kernels * (sizeof chips / sizeof *chips));
	printf("%-15s %-7s %-20s %9s  %-18s %9s %10s  %-44s %s\n", "kernel", "chip", "variant", "compile", "vgpr/agpr/sgpr/lds", "wave-inst",
	       "MB in/out", "error against f64, found <= bound", "agree");
	for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
		tdsl_device device;
		r.chip = &chips[c];
		if (tdsl_open(&device, r.chip->device) || tdsl_stream_open(&r.stream, device, NULL)) {
			fprintf(stderr, "demo: %s\n", tdsl_error());
			return 1;
		}
		void *sim = dlopen("libtdsl_sim.so", RTLD_NOW | RTLD_NOLOAD);
		void (*reset)(void) = sim ? (void (*)(void))dlsym(sim, "tdsl_sim_stats_reset") : NULL;
		void (*get)(void *, size_t) = sim ? (void (*)(void *, size_t))dlsym(sim, "tdsl_sim_stats_get") : NULL;
		if (!reset || !get) {
			fprintf(stderr, "demo: the simulated device offers no statistics\n");
			return 1;
		}
		for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
			struct sim_stats stats = {0};
			struct tdsl_last last;
			uint64_t executed = 0;
			reset();
			r.agree = 0;
			if (kernels[k].run(&r) || tdsl_last_call(&last)) {
				fprintf(stderr, "demo: %s on %s: %s\n", kernels[k].name, r.chip->device, tdsl_error());
				bad++;
				continue;
			}
			get(&stats, sizeof stats);
			for (int i = 0; i < SIM_NCLASS; i++)
				executed += stats.inst[i];
			const cJSON *row = report_row(report, &last);
			const cJSON *ms = cJSON_GetObjectItem(row, "compile_ms");
			char registers[32], moved[32];
			snprintf(registers, sizeof registers, "%d/%d/%d/%d", number(row, "vgpr"), number(row, "agpr"), number(row, "sgpr"), number(row, "lds"));
			snprintf(moved, sizeof moved, "%.1f/%.1f", (double)stats.global_read * 1e-6, (double)stats.global_written * 1e-6);
			printf("%-15s %-7s %-20s %6.1f ms  %-18s %9llu %10s  %-44s %s\n", last.kernel, r.chip->target, last.predicate,
			       cJSON_IsNumber(ms) ? ms->valuedouble : NAN, registers, (unsigned long long)executed, moved, r.error, r.agree ? "yes" : "NO");
			fflush(stdout);
			agree += r.agree;
			bad += !row;
		}
		tdsl_stream_close(r.stream);
		tdsl_close(device);
	}
	printf("%d of %d rows agree\n", agree, all);
	cJSON_Delete(report);
	tensorfile_close(r.data);
	free(report_text);
	return bad || agree < all ? 1 : 0;
}
