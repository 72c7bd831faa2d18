/* device_test.c -- every variant's laid-out IR, evaluated, against its code object, executed by the simulated device: bit for bit.
 *
 * In: kernels as IR text (tests/ir), sizes that reach each variant.  The evaluator and the device share base/num and nothing else:
 * what differs between them is the translation, LLVM and the decoder.  Outputs lie between poisoned bytes, which must survive. */
#include "../compiler/compile.h"
#include "../compiler/object.h"
#include "../sim/sim.h"
#include "ir_help.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, POISON = 0xa5 };

struct device_run {
	struct ir_run *r;
	const struct target *target;
	struct object_session *session;
	struct arena arena;
	struct dsl_kernel text;
	char err[2000];
};

static int64_t leaf(void *ctx, enum hexpr_op op, int64_t imm)
{
	const struct device_run *d = ctx;
	const struct ir_tensor *t = &d->r->tensors[imm];
	bool unit = t->rank == 0 || t->stride[t->rank - 1] == 1 || t->extent[t->rank - 1] <= 1;
	if (op == HX_PRESENT)
		return t->data != NULL;
	if (op == HX_FLAT || !t->data)
		return 1;
	if (op == HX_UNIT)
		return unit;
	for (int i = 0; i + 1 < t->rank; i++)
		if (t->stride[i] * (dtype_info(t->dtype)->bits / 8) % 16)
			return 0;
	return unit && (uintptr_t)t->data % 16 == 0;
}

static int64_t host_value(struct device_run *d, const struct hexpr *e)
{
	struct hexpr_env env = {d->r->symbols, d->r->k->nsymbols, leaf, d};
	int64_t v = 0;
	const char *why = "";
	ck_assert_msg(hexpr_eval(e, &env, &v, &why) == 0, "%s", why);
	return v;
}

static void fill_arguments(struct device_run *d, const struct model_launch *l, uint8_t *block)
{
	for (int i = 0; i < l->nkargs; i++) {
		const struct model_karg *k = &l->kargs[i];
		const struct ir_tensor *t = &d->r->tensors[k->a];
		int64_t v = 0;
		float f = (float)d->r->scalars[k->a];
		switch (k->kind) {
		case KA_POINTER: v = (int64_t)(uintptr_t)t->data; break;
		case KA_STRIDE: case KA_STRIDE32: v = t->stride[k->b]; break;
		case KA_SYMBOL: v = d->r->symbols[k->a]; break;
		case KA_FOLD_INNER: v = 1; break;
		case KA_FOLD_STRIDE: v = t->stride[0]; break;      /* inner is 1 */
		case KA_SCALAR: memcpy(&v, &f, 4); break;
		default: ck_abort_msg("argument kind %d", k->kind);
		}
		memcpy(block + k->offset, &v, k->size);
	}
}

static void launch(struct device_run *d, struct sim_object *o, const struct model_launch *l, const char *what)
{
	struct sim_memory *m = sim_memory_new();
	_Alignas(16) uint8_t block[1024] = {0};
	struct sim_stats stats = {0};
	fill_arguments(d, l, block);
	for (int p = 0; p < d->r->k->nparams; p++) {
		const struct ir_tensor *t = &d->r->tensors[p];
		if (!d->r->k->params[p].is_tensor || !t->data)
			continue;
		int64_t last = 1;
		for (int i = 0; i < t->rank; i++)
			last += (t->extent[i] - 1) * t->stride[i];
		if (ir_tensor_count(t))
			sim_memory_add(m, t->data, (size_t)dtype_bytes(t->dtype, last), d->r->k->params[p].name, d->r->k->params[p].role != IR_IN);
	}
	sim_memory_add(m, block, sizeof block, "kernarg", false);
	struct sim_launch s = {.object = o, .kernel = sim_object_kernel(o, l->symbol), .memory = m, .block = {(uint32_t)l->block, 1, 1},
	                       .kernarg = block, .kernarg_size = (size_t)l->kernarg_bytes, .threads = 1, .checks = true, .stats = &stats};
	ck_assert_ptr_nonnull(s.kernel);
	bool empty = false;
	for (int i = 0; i < 3; i++) {
		s.grid[i] = (uint32_t)host_value(d, l->grid[i]);
		empty = empty || !s.grid[i];
	}
	if (!empty)
		ck_assert_msg(sim_run(&s, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	sim_memory_free(m);
}

/* Replaces output p by memory between guards; returns the memory. */
static uint8_t *guarded(struct ir_tensor *t)
{
	size_t n = (size_t)dtype_bytes(t->dtype, ir_tensor_count(t));
	uint8_t *p = aligned_alloc(64, (n + 2 * GUARD + 63) / 64 * 64);
	memset(p, POISON, n + 2 * GUARD);
	t->data = p + GUARD;
	return p;
}

static void compare(struct device_run *d, int p, const uint8_t *want, const uint8_t *got, const char *what)
{
	const struct ir_tensor *t = &d->r->tensors[p];
	size_t n = (size_t)dtype_bytes(t->dtype, ir_tensor_count(t)), step = (size_t)dtype_info(t->dtype)->bits / 8;
	for (size_t i = 0; i < n; i += step)
		if (memcmp(want + i, got + i, step)) {
			uint32_t a = 0, b = 0;
			memcpy(&a, want + i, step < 4 ? step : 4);
			memcpy(&b, got + i, step < 4 ? step : 4);
			ck_abort_msg("%s: %s[%zu] is 0x%x, the evaluator has 0x%x", what, d->r->k->params[p].name, i / step, b, a);
		}
	for (int i = 0; i < GUARD; i++)
		ck_assert_msg(got[-1 - i] == POISON && got[n + (size_t)i] == POISON, "%s: bytes beside %s were written", what, d->r->k->params[p].name);
}

static void run_variant(struct device_run *d, const struct variant *v, const char *what)
{
	struct ir_kernel *final, *generic = d->r->k;
	LLVMModuleRef module;
	struct model_launch *launches;
	int n;
	const struct hexpr *workspace;
	void *elf;
	size_t size;
	ck_assert_msg(run_passes(&d->arena, generic, v, NULL, &final, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	ck_assert_msg(translate(&d->arena, final, v, object_context(d->session), &module, &launches, &n, &workspace, d->err, sizeof d->err) == 0,
	              "%s: %s", what, d->err);
	ck_assert_msg(object_build(d->session, d->target, module, &elf, &size, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	struct object_facts *facts;
	int nfacts;
	ck_assert_msg(object_facts(&d->arena, d->target, elf, size, true, &facts, &nfacts, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	uint8_t *want[16] = {0}, *got[16] = {0};
	struct ir_eval e = {final, d->r->tensors, d->r->scalars, d->r->symbols, true};
	for (int p = 0; p < generic->nparams; p++)
		if (generic->params[p].is_tensor && generic->params[p].role == IR_OUT)
			want[p] = guarded(&d->r->tensors[p]);
	ck_assert_msg(ir_evaluate(&e, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	for (int p = 0; p < generic->nparams; p++)
		if (want[p])
			got[p] = guarded(&d->r->tensors[p]);
	struct sim_object *o;
	ck_assert_msg(sim_object_load(&o, sim_chip_by_name(d->target->name), elf, size, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	for (int i = 0; i < n; i++)
		launch(d, o, &launches[i], what);
	for (int p = 0; p < generic->nparams; p++)
		if (want[p]) {
			compare(d, p, want[p] + GUARD, got[p] + GUARD, what);
			free(want[p]);
			free(got[p]);
			d->r->tensors[p].data = NULL;
		}
	sim_object_free(o);
	free(elf);
}

/* Runs the variants whose predicate holds for the sizes set; fails unless at least one does. */
static void run_all(struct ir_run *r, const char *target, struct dsl_pin *pins, int npins, const char *sizes)
{
	struct device_run d = {.r = r, .target = target_by_name(target), .session = object_session_new()};
	d.text.pins = pins;
	d.text.npins = npins;
	r->k->target = target;
	struct variant *v;
	int n, ran = 0;
	ck_assert_msg(plan_variants(&d.arena, r->k, &d.text, d.target, &v, &n, d.err, sizeof d.err) == 0, "%s", d.err);
	for (int i = 0; i < n; i++) {
		for (int p = 0; p < r->k->nparams; p++)      /* predicates ask for alignment: outputs are guarded, aligned memory */
			if (r->k->params[p].is_tensor && !r->tensors[p].data)
				r->tensors[p].data = (void *)(uintptr_t)64;
		if (v[i].predicate && !host_value(&d, v[i].predicate))
			continue;
		run_variant(&d, &v[i], arena_printf(&d.arena, "%s %s %s, variant %s", r->k->name, target, sizes, v[i].text));
		ran++;
	}
	ck_assert_int_gt(ran, 0);
	object_session_free(d.session);
	arena_free(&d.arena);
}

static const char *const chips[] = {"gfx942", "gfx950"};


static void rmsnorm(const char *target, int M, int N, struct dsl_pin *pin)
{
	struct ir_run r;
	char sizes[40];
	snprintf(sizes, sizeof sizes, "M=%d N=%d", M, N);
	ir_run_open(&r, "rmsnorm_quant");
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	for (const char *const *t = (const char *const[]){"x", "w", "y", "scale", NULL}; *t; t++)
		ir_run_tensor(&r, *t, 2);
	for (int i = 0; i < 2; i++)
		ir_run_find(&r, i ? "scale" : "y")->data = NULL;
	run_all(&r, target, pin, pin ? 1 : 0, sizes);
	ir_run_close(&r);
}

START_TEST(rmsnorm_rows)
{
	static struct dsl_pin pin = {"N", 4096};
	static const int sizes[] = {1, 15, 16, 17, 128, 769, 1024, 2048, 4096, 5120, 8192, 16384, 20000, 20001};
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		rmsnorm(chips[1], 2, sizes[i], &pin);
}
END_TEST

static void gemm(const char *target, int M, int N, int K)
{
	struct ir_run r;
	char sizes[60];
	snprintf(sizes, sizeof sizes, "M=%d N=%d K=%d", M, N, K);
	ir_run_open(&r, "gemm");
	for (int p = 0; p < r.k->phases[0].naxes; p++)
		r.k->phases[0].axes[p].tile = 0;
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	ir_run_symbol(&r, "K", K);
	for (const char *const *t = (const char *const[]){"a", "b", "c", NULL}; *t; t++)
		ir_run_tensor(&r, *t, 2);
	ir_run_find(&r, "c")->data = NULL;
	run_all(&r, target, NULL, 0, sizes);
	ir_run_close(&r);
}

START_TEST(products)
{
	gemm(chips[_i], 128, 128, 64);
	gemm(chips[_i], 130, 200, 72);
	gemm(chips[_i], 33, 17, 75);
}
END_TEST

static void attention(const char *target, int S, int T, int D)
{
	struct ir_run r;
	char sizes[60];
	snprintf(sizes, sizeof sizes, "S=%d T=%d D=%d", S, T, D);
	ir_run_open(&r, "attention");
	for (int p = 0; p < r.k->phases[0].naxes; p++)
		r.k->phases[0].axes[p].tile = 0;
	for (const char *const *s = (const char *const[]){"B", "H", "G", NULL}; *s; s++)
		ir_run_symbol(&r, *s, **s == 'B' ? 1 : **s == 'H' ? 2 : 1);
	ir_run_symbol(&r, "S", S);
	ir_run_symbol(&r, "T", T);
	ir_run_symbol(&r, "D", D);
	for (const char *const *t = (const char *const[]){"q", "k", "v", "o", NULL}; *t; t++)
		ir_run_tensor(&r, *t, 2);
	ir_run_scalar(&r, "scale", 0.125);
	ir_run_find(&r, "o")->data = NULL;
	run_all(&r, target, NULL, 0, sizes);
	ir_run_close(&r);
}

START_TEST(attentions)
{
	attention(chips[_i], 128, 128, 64);
	attention(chips[_i], 40, 100, 128);
	attention(chips[_i], 33, 70, 40);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("device");
	TCase *t = tcase_create("bit for bit");
	tcase_set_timeout(t, 300);
	tcase_add_test(t, rmsnorm_rows);
	tcase_add_loop_test(t, products, 0, 2);
	tcase_add_loop_test(t, attentions, 0, 2);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
