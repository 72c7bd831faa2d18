/* dsl_help.c -- see dsl_help.h. */
#include "dsl_help.h"
#include "../compiler/compile.h"

#include <check.h>
#include <string.h>

static void elaborate_kernel(struct arena *ar, struct dsl_file *f, const struct dsl_kernel *k, struct diag *d, char **text)
{
	struct model_kernel m;
	char err[300];
	for (int b = 0; b < k->nall && !d->full; b++) {
		struct ir_kernel *ir;
		if (dsl_elaborate(ar, f, k, &k->all[b], b % 2 ? "gfx950" : "gfx942", d, &ir) < 0) {
			ck_assert_msg(d->errors > 0, "%s fails without a message", k->name);
			continue;
		}
		ck_assert_msg(ir_verify(ir, err, sizeof err) == 0, "%s %s: %s", k->name, k->all[b].text, err);
		plan_takes_schedule_somewhere(ir, k, d);
		if (text && b == 0)
			*text = arena_printf(ar, "%s%s", *text, ir_print(ar, ir));
	}
	dsl_signature(ar, f, k, d, &m);
	dsl_dump(ar, f, k);
}

int dsl_help_all(struct arena *ar, const char *text, size_t n, const char *file, struct diag *d, char **ir)
{
	struct dsl_file *f;
	*d = (struct diag){.arena = ar};
	if (ir)
		*ir = "";
	if (dsl_parse(ar, text, n, file, NULL, NULL, d, &f) < 0) {
		ck_assert_msg(d->errors > 0, "%s fails without a message", file);
		return -1;
	}
	for (int i = 0; i < f->nkernels; i++)
		elaborate_kernel(ar, f, &f->kernels[i], d, ir);
	return d->errors ? -1 : 0;
}

void dsl_run_open(struct ir_run *r, const char *path, const char *kernel, const char *instance)
{
	struct diag d = {.arena = &r->arena};
	struct dsl_file *f;
	memset(r, 0, sizeof *r);
	r->random = 0x9E3779B97F4A7C15u;
	const char *text = ir_help_file(&r->arena, path);
	int rc = dsl_parse(&r->arena, text, strlen(text), path, NULL, NULL, &d, &f);
	for (int i = 0; i < (rc ? 0 : f->nkernels); i++)
		for (int b = 0; b < f->kernels[i].nall && strcmp(f->kernels[i].name, kernel) == 0 && !r->k; b++)
			if (!*instance || strcmp(f->kernels[i].all[b].text, instance) == 0)
				dsl_elaborate(&r->arena, f, &f->kernels[i], &f->kernels[i].all[b], "gfx950", &d, &r->k);
	ck_assert_msg(r->k != NULL, "%s %s: %s", kernel, instance, diag_text(&d));
	ck_assert_msg(ir_verify(r->k, r->err, sizeof r->err) == 0, "%s: %s", kernel, r->err);
	for (int i = 0; i < r->k->nparams; i++)
		r->scalars[i] = r->k->params[i].default_value;
}
