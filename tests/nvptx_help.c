/* nvptx_help.c -- the kernels that ship, opened and built for sm_90a: what the tests of the NVPTX family share.
 * In: kernels.tdsl.  Out: its kernels' names; a kernel's variants, their IR after a pass, their PTX and objects. */
#include "nvptx_help.h"
#include "../compiler/file.h"
#include "../compiler/object_code.h"
#include "dsl_help.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct nvptx_kernels nvptx_kernels;
static struct arena arena;

static bool kernels_open(void)
{
	struct diag d = {.arena = &arena};
	char err[200];
	size_t n;
	char *text = file_read("kernels.tdsl", &n, err, sizeof err);
	if (!text || dsl_parse(&arena, text, n, "kernels.tdsl", NULL, NULL, &d, &nvptx_kernels.file)) {
		fprintf(stderr, "kernels.tdsl: %s\n", text ? diag_text(&d) : err);
		return false;
	}
	for (int i = 0; i < nvptx_kernels.file->nkernels && nvptx_kernels.n < NVPTX_KERNELS; i++)
		if (nvptx_kernels.file->kernels[i].npacked)
			nvptx_kernels.names[nvptx_kernels.n++] = nvptx_kernels.file->kernels[i].name;
	return true;
}

int nvptx_run(const char *suite, void (*add)(TCase *))
{
	if (!kernels_open())
		return 1;
	Suite *s = suite_create(suite);
	TCase *t = tcase_create(suite);
	tcase_set_timeout(t, 300);
	add(t);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	arena_free(&arena);
	return failed != 0;
}

/* The file of those that tests alone compile. */
static const char *file_with(const char *kernel)
{
	static const char *const files[] = {"tests/lower/quant.tdsl", "tests/lower/phases.tdsl", "tests/lower/loops.tdsl", "tests/lower/carried.tdsl", "tests/lower/rows.tdsl"};
	enum { LAST = sizeof files / sizeof *files - 1 };
	char err[200], head[100];
	int f = 0;
	snprintf(head, sizeof head, "kernel %s(", kernel);
	for (bool here = false; !here && f < LAST; f += !here) {
		size_t n;
		char *text = file_read(files[f], &n, err, sizeof err);
		ck_assert_msg(text != NULL, "%s", err);
		here = memmem(text, n, head, strlen(head)) != NULL;
		free(text);
	}
	return files[f];
}

void built_open_for(struct built *b, const char *kernel, const char *target, struct dsl_pin *pin)
{
	struct dsl_set sets[8] = {{0}};
	struct dsl_special pinned = {sets, 1}, *special = NULL;
	struct dsl_kernel text = {0};
	for (int i = 0; i < nvptx_kernels.file->nkernels; i++)
		if (strcmp(nvptx_kernels.file->kernels[i].name, kernel) == 0)
			text = nvptx_kernels.file->kernels[i];
	if (text.nall && text.all[0].special) {
		pinned.nsets = text.all[0].special->nsets;
		ck_assert_int_le(pinned.nsets, 8);
		memcpy(sets, text.all[0].special->sets, (size_t)pinned.nsets * sizeof *sets);
	}
	for (int i = 0; pin && i < pinned.nsets; i++) {
		sets[i].pins = pin;
		sets[i].npins = 1;
	}
	if (pin || text.nall)
		special = &pinned;
	dsl_run_open(&b->r, text.name ? "kernels.tdsl" : file_with(kernel), kernel, "");
	device_open(&b->d, &b->r, target);
	b->r.k->target = target;
	ck_assert_msg(plan_variants(&b->d.arena, b->r.k, &text, special, b->d.target, &b->v, &b->n, b->d.err, sizeof b->d.err) == 0, "%s", b->d.err);
}

void built_open(struct built *b, const char *kernel)
{
	built_open_for(b, kernel, "sm_90a", NULL);
}

void built_close(struct built *b)
{
	device_close(&b->d);
	ir_run_close(&b->r);
}

int built_object(struct built *b, int variant, void **bytes, size_t *size)
{
	struct ir_kernel *final;
	struct translated made;
	char *err = b->d.err;
	size_t len = sizeof b->d.err;
	ck_assert_msg(run_passes(&b->d.arena, b->r.k, &b->v[variant], NULL, &final, err, len) == 0, "%s", err);
	ck_assert_msg(translate(&b->d.arena, final, &b->v[variant], object_context(b->d.session), &made, err, len) == 0, "%s", err);
	b->launches = made.nlaunches;
	return object_build(b->d.session, b->d.target, made.module, made.ordered, bytes, size, err, len);
}

bool have_assembler(const char *what)
{
	unsetenv("TDSL_PTXAS");
	if (!object_has_assembler())
		printf("%s: skipped: no ptxas in PATH, CUDA_HOME/bin or /usr/local/cuda/bin\n", what);
	return object_has_assembler();
}

int built_variant(const struct built *b, const char *text)
{
	int v = 0;
	while (v < b->n && strcmp(b->v[v].text, text))
		v++;
	ck_assert_msg(v < b->n, "%s has no variant %s", b->r.k->name, text);
	return v;
}

struct ir_kernel *built_passed(struct built *b, int variant, const char *pass)
{
	struct ir_kernel *k;
	ck_assert_msg(run_passes(&b->d.arena, b->r.k, &b->v[variant], pass, &k, b->d.err, sizeof b->d.err) == 0, "%s: %s", b->v[variant].text, b->d.err);
	return k;
}

const char *built_ptx(struct built *b, const char *variant)
{
	void *bytes;
	size_t n;
	setenv("TDSL_PTXAS", "", 1);
	ck_assert_msg(built_object(b, built_variant(b, variant), &bytes, &n) == 0, "%s", b->d.err);
	const char *text = arena_printf(&b->d.arena, "%s", (char *)bytes);
	free(bytes);
	return text;
}

void built_asks(struct built *b, const char *variant, struct device_code *c, const char **planned, const char **asked)
{
	const char *tensors[32];
	ck_assert_int_le(b->r.k->nparams, 32);
	for (int p = 0; p < b->r.k->nparams; p++)
		tensors[p] = b->r.k->params[p].name;
	device_compile(&b->d, &b->v[built_variant(b, variant)], c, variant);
	*planned = c->v->predicate ? hexpr_text(&b->d.arena, c->v->predicate, b->r.k->symbols, tensors) : "";
	*asked = c->condition ? hexpr_text(&b->d.arena, c->condition, b->r.k->symbols, tensors) : "";
}

static bool is_named(const char *names, const char *name)
{
	const char *at = strstr(names, name);
	size_t n = strlen(name);
	return at && (at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n]);
}

void built_give(struct built *b, const char *given)
{
	for (int p = 0; p < b->r.k->nparams; p++) {
		const struct ir_param *q = &b->r.k->params[p];
		if (q->is_tensor && (!q->optional || is_named(given, q->name)))
			ir_run_tensor(&b->r, q->name, 2);
		else
			b->r.tensors[p].rank = -1;
		if (q->role == IR_OUT) {
			free(b->r.tensors[p].data);
			b->r.tensors[p].data = NULL;
		}
	}
}

void built_run(struct built *b, const struct variant *v)
{
	struct device_code code;
	device_compile(&b->d, v, &code, v->text);
	device_check(&b->d, &code, v->text, false);
	free(code.elf);
}

void built_compute(struct built *b, const char *variant)
{
	struct device_code code;
	int v = 0;
	b->d.memory_rate = strstr(variant, "memory<") ? SLOW_MEMORY : FAST_MEMORY;
	while (v < b->n && !device_applies(&b->d, &b->v[v]))
		v++;
	ck_assert_msg(v < b->n && strcmp(b->v[v].text, variant) == 0, "%s: %s", b->r.k->name, v < b->n ? b->v[v].text : "no variant applies");
	device_compile(&b->d, &b->v[v], &code, variant);
	ck_assert_msg(device_takes(&b->d, &code), "%s: %s", b->r.k->name, variant);
	device_check(&b->d, &code, variant, false);
	free(code.elf);
}

void built_for(struct built *b, const char *kernel, struct dsl_pin *pin, int m, int n, const char *given)
{
	built_open_for(b, kernel, "sm_90a", pin);
	ir_run_symbol(&b->r, "M", m);
	ir_run_symbol(&b->r, "N", n);
	built_give(b, given);
}

void built_call(const char *kernel, struct dsl_pin *pin, int m, int n, const char *given, const char *variant)
{
	struct built b;
	built_for(&b, kernel, pin, m, n, given);
	built_compute(&b, variant);
	built_close(&b);
}

int built_times(const char *text, const char *word)
{
	int n = 0;
	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}
