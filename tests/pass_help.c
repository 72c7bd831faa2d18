/* pass_help.c -- what a kernel computes, before a pass and behind it, and kernels of tests/ir with a few words changed.
 * In: IR text, a run's tensors.  Out: the outputs' values, or a failed check that names the first element that differs. */
#include "pass_help.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const struct ir_tensor *t) { return (size_t)dtype_bytes(t->dtype, ir_tensor_count(t)); }

static bool is_result(const struct ir_param *p) { return p->is_tensor && (p->role == IR_OUT || p->role == IR_INOUT); }

void pass_evaluate(struct ir_run *r, const struct ir_kernel *k, const char *what)
{
	struct ir_eval e = {k, r->tensors, r->scalars, r->symbols, true};
	for (int p = 0; p < r->k->nparams; p++)
		if (is_result(&r->k->params[p]))
			memset(r->tensors[p].data, r->k->params[p].role == IR_OUT ? 0xa5 : 0, bytes_of(&r->tensors[p]));
	ck_assert_msg(ir_evaluate(&e, r->err, sizeof r->err) == 0, "%s: %s", what, r->err);
}

void pass_keep(struct ir_run *r, double **want)
{
	for (int p = 0; p < r->k->nparams; p++)
		if (is_result(&r->k->params[p])) {
			want[p] = malloc(sizeof *want[p] * (size_t)(ir_tensor_count(&r->tensors[p]) + 1));
			for (int64_t i = 0; i < ir_tensor_count(&r->tensors[p]); i++)
				want[p][i] = ir_tensor_get(&r->tensors[p], i);
		}
}

void pass_forget(double **want)
{
	for (int p = 0; p < PASS_PARAMS; p++)
		free(want[p]);
}

void pass_compare(struct ir_run *r, double *const *want, double bound, const char *what)
{
	for (int p = 0; p < r->k->nparams; p++) {
		const struct ir_tensor *t = &r->tensors[p];
		for (int64_t i = 0; want[p] && i < ir_tensor_count(t); i++) {
			double a = ir_tensor_get(t, i), b = want[p][i];
			double step = t->dtype == DT_BF16 ? 0x1p-7 : dtype_info(t->dtype)->bits == 8 ? 0x1p-3 : 0;
			bool same = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= bound * (1 + fabs(b)) + step * fabs(b) + (step > 0x1p-7 ? 0x1p-9 : 0);
			ck_assert_msg(same, "%s: %s[%lld] is %g, before it was %g", what, r->k->params[p].name, (long long)i, a, b);
		}
	}
}

void pass_open_edited(struct arena *a, struct ir_run *r, const char *name, const struct pass_edit *edits)
{
	char *text = ir_help_file(a, arena_printf(a, "tests/ir/%s.ir", name));
	for (const struct pass_edit *e = edits; e < edits + 2 && e->from; e++) {
		char *at = strstr(text, e->from);
		ck_assert_msg(at != NULL, "%s has no %s", name, e->from);
		text = arena_printf(a, "%.*s%s%s", (int)(at - text), text, e->to, at + strlen(e->from));
	}
	ir_run_open(r, text);
}

void pass_begin_edited(struct arena *a, struct ir_run *r, const char *name, const struct pass_edit *edits, const char *what, double **want)
{
	pass_open_edited(a, r, name, edits);
	r->k->target = "gfx942";
	ir_run_symbol(r, "M", 7);
	ir_run_symbol(r, "N", 13);
	for (int p = 0; p < r->k->nparams; p++)
		ir_run_tensor(r, r->k->params[p].name, 2);
	pass_evaluate(r, r->k, what);
	pass_keep(r, want);
}

void pass_end_edited(struct arena *a, struct ir_run *r, const struct ir_kernel *k, const char *what, double **want)
{
	pass_evaluate(r, k, what);
	pass_compare(r, want, 0, what);
	pass_forget(want);
	ir_run_close(r);
	arena_free(a);
}

void pass_look_after(const char *name, const struct variant *v, const char *until, void (*note)(struct ir_ins *, void *), void *ctx)
{
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	ir_run_open(&r, name);
	r.k->target = v->target->name;
	ck_assert_msg(run_passes(&a, r.k, v, until, &k, r.err, sizeof r.err) == 0, "%s", r.err);
	ir_walk(k->phases[0].body, note, ctx);
	ir_run_close(&r);
	arena_free(&a);
}
