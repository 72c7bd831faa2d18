/* trace.c -- which variant serves a call and why not the others: the choice, its explanation, and counts of what happened.
 *
 * Order of the choice: the variant that TDSL_TUNE names for the call, then the pack's own order, most specific first; in place of what asks for each
 * optional tensor, one that this process has compiled for exactly those of the call (plan.c).  A variant
 * is passed over where TDSL_DISABLE names it, where TDSL_BATCH_INVARIANT is set and its predicate depends on the batch (the first
 * dimension of the first tensor) and it is not the general one, which is left where no other serves, where its predicate does not hold,
 * which may be for a stride beyond its reach, or where it cannot follow the tensors or its grid is more than the device takes (follow.c; that ends a
 * choice that may not depend on the batch).  The environment is looked at when a shape is first called: plans made before stay. */
#include "trace.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "follow.h"
#include "tune.h"

static _Atomic uint64_t counters[TRACE_COUNTERS];

void trace_count(enum trace_counter c)
{
	atomic_fetch_add_explicit(&counters[c], 1, memory_order_relaxed);
}

int tdsl_counters(struct tdsl_counters *out)
{
	if (!out)
		FAIL(TDSL_EINVAL, "tdsl_counters: out is NULL");
	*out = (struct tdsl_counters){atomic_load(&counters[TRACE_PLANS]), atomic_load(&counters[TRACE_COMPILES]),
	                              atomic_load(&counters[TRACE_CACHE_HITS]), atomic_load(&counters[TRACE_CACHE_MISSES]),
	                              atomic_load(&counters[TRACE_JIT_KERNELS])};
	return 0;
}

/* ---- rules of the environment */

struct rules { const char *disabled; bool batch_invariant; char tuned[256]; bool has_tuned; };

static bool size_find(void *ctx, const char *name, size_t length, int64_t *value)
{
	const struct bind *b = ctx;
	for (uint32_t i = 0; i < b->kernel->k->symbols.count; i++) {
		const char *its = pack_string(b->file, b->file->symbols[b->kernel->k->symbols.first + i].name);
		if (strlen(its) == length && memcmp(its, name, length) == 0) {
			*value = b->symbols[i];
			return true;
		}
	}
	return false;
}

static const char *instance_text(const struct bind *b)
{
	return pack_string(b->file, b->file->instances[b->kernel->k->instances.first + b->instance].name);
}

static int rules_get(struct rules *r, const struct bind *b)
{
	TRY(env_text(&r->disabled, "TDSL_DISABLE"));
	TRY(env_flag(&r->batch_invariant, "TDSL_BATCH_INVARIANT", false));
	int rc = tune_find(r->tuned, sizeof r->tuned, b->name, instance_text(b), b->device->target, size_find, (void *)(uintptr_t)b);
	r->has_tuned = rc > 0;
	return rc < 0 ? rc : 0;
}

int choice_is_open(bool *open, const struct bind *b)
{
	struct rules rules = {0};
	TRY(rules_get(&rules, b));
	*open = !rules.batch_invariant && !rules.has_tuned;
	return 0;
}

/* Does TDSL_DISABLE name the kernel (variant NULL) or this variant of it? */
static bool disabled(const struct rules *r, const char *kernel, const char *variant)
{
	size_t k = strlen(kernel), v = variant ? strlen(variant) : 0;
	const char *at = r->disabled;
	for (struct disabled d; at && disabled_next(&at, &d);)
		if (d.kernel_length == k && memcmp(d.kernel, kernel, k) == 0 && !d.variant == !variant && d.variant_length == v &&
		    (!v || memcmp(d.variant, variant, v) == 0))
			return true;
	return false;
}

/* The symbol of the first tensor's first dimension, or -1. */
static int batch_symbol(const struct bind *b)
{
	const struct pack_range r = b->kernel->k->symbols;
	int first = b->kernel->tensors ? __builtin_ctz(b->kernel->tensors) : -1;
	for (uint32_t i = 0; i < r.count; i++)
		if (b->file->symbols[r.first + i].tensor == first && b->file->symbols[r.first + i].dim == 0)
			return (int)i;
	return -1;
}

static bool depends_on_batch(const struct bind *b, const struct pack_variant *v)
{
	struct arena a = {0};
	int symbol = batch_symbol(b);
	bool found = symbol >= 0 && v->predicate.size &&
	             hexpr_has(hexpr_decode(&a, b->file->code + v->predicate.offset, v->predicate.size), HX_SYM, symbol);
	arena_free(&a);
	return found;
}

/* ---- the choice */

bool variant_is_tailored(const struct bind *b, const struct pack_variant *v)
{
	struct arena a = {0};
	const struct hexpr *e = v->predicate.size ? hexpr_decode(&a, b->file->code + v->predicate.offset, v->predicate.size) : NULL;
	bool found = false;
	for (int p = 0; e && p < b->kernel->nparams; p++)
		found = found || hexpr_has(e, HX_PRESENT, p);
	arena_free(&a);
	return found;
}

/* 1 if the variant serves the call, 0 with *what = why it does not, or negative with the text set and *what = the text. */
static int variant_try(const struct bind *b, const struct rules *r, const struct pack_variant *v, enum choice among, bool general, const char **what)
{
	const char *why = NULL, *text = pack_string(b->file, v->predicate_text);
	int64_t holds = 1;
	*what = "does not hold";
	if (v->predicate.size && bind_eval(b, v->predicate, &holds, &why) < 0) {
		*what = why;
		return 0;
	}
	if (!holds) {
		int rc = variant_in_reach(b, v);
		*what = rc < 0 ? tdsl_error() : *what;
		return rc;
	}
	*what = "general";
	if (among == CHOOSE_SPECIAL && !v->predicate.size)
		return 0;
	*what = "asks for each optional tensor";
	if (among == CHOOSE_TAILORED && !variant_is_tailored(b, v))
		return 0;
	*what = "disabled by TDSL_DISABLE";
	if (disabled(r, b->name, text))
		return 0;
	*what = "depends on the batch: passed over for TDSL_BATCH_INVARIANT";
	if (r->batch_invariant && !general && depends_on_batch(b, v))
		return 0;
	int rc = variant_follows(b, v);
	rc = rc < 0 ? rc : variant_fits(b, v);
	rc = rc < 0 ? rc : variant_placed(b, v);
	*what = rc < 0 ? tdsl_error() : "runs";
	return rc < 0 ? rc : 1;
}

typedef void sayer(void *, uint32_t, const char *);

static bool is_for(const struct bind *b, const struct pack_variant *v)
{
	return v->instance == b->instance && strcmp(pack_string(b->file, v->target), b->device->target) == 0;
}

/* The one that asks for nothing but strides that it can follow: of a call that no other serves, whatever its batch. */
static bool is_general(const struct bind *b, const struct pack_variant *v)
{
	return strcmp(pack_string(b->file, v->predicate_text), "any") == 0;
}

int choose_variant(const struct bind *b, enum choice among, uint32_t *index, sayer *say, void *ctx)
{
	const struct pack_range r = b->kernel->k->variants;
	struct rules rules = {0};
	int last = 0;
	bool off = false, done = false, ended = false;
	TRY(rules_get(&rules, b));
	if (disabled(&rules, b->name, NULL))
		FAIL(TDSL_EUNSUPPORTED, "%s: disabled by TDSL_DISABLE", b->name);
	int passes = rules.has_tuned && among != CHOOSE_ANY ? 1 : 2;
	for (int pass = rules.has_tuned ? 0 : 1; pass < passes; pass++) /* first the tuned choice alone */
		for (uint32_t i = 0; i < r.count && !ended && (!done || say); i++) {
			const struct pack_variant *v = &b->file->variants[r.first + i];
			const char *what;
			if (!is_for(b, v) || (pass == 0 && strcmp(pack_string(b->file, v->predicate_text), rules.tuned) != 0))
				continue;
			int rc = done && i != *index ? 0 : variant_try(b, &rules, v, among, pass == 1 && is_general(b, v), &what);
			if (say)
				say(ctx, i, done && i != *index ? "not needed" : pass == 0 && rc > 0 ? "runs, by TDSL_TUNE" : what);
			off = off || (rc == 0 && !done && what[0] == 'd' && strncmp(what, "disabled", 8) == 0);
			last = rc < 0 ? rc : last;
			ended = rc == TDSL_ESHAPE && rules.batch_invariant; /* another, chosen for the number of rows, is no substitute */
			if (rc > 0 && !done) {
				done = true;
				*index = i;
			}
		}
	if (done)
		return 0;
	if (last < 0)
		return last; /* the text of the last one passed over */
	FAIL(TDSL_ETARGET, "%s: instance '%s' on %s: no variant's predicate holds for these arguments%s", b->name, instance_text(b),
	     b->device->target, off ? " (TDSL_DISABLE passes over one that would)" : "");
}

/* ---- explaining */

struct told { char *text; size_t n, size; const struct bind *b; };
static _Thread_local char explanation[8192];

static void tell(void *ctx, uint32_t index, const char *what)
{
	struct told *t = ctx;
	const struct bind *b = t->b;
	const struct pack_variant *v = &b->file->variants[b->kernel->k->variants.first + index];
	int n = snprintf(t->text + t->n, t->size - t->n, "  %-24s %s\n", pack_string(b->file, v->predicate_text), what);
	t->n = n < 0 || (size_t)n >= t->size - t->n ? t->size - 1 : t->n + (size_t)n;
}

/* *rc: as choose_variant's. */
static const char *explanation_make(const struct bind *b, int *rc)
{
	struct told t = {explanation, 0, sizeof explanation, b};
	uint32_t index;
	char sizes[400] = "";
	size_t at = 0;
	for (uint32_t i = 0; i < b->kernel->k->symbols.count && at < sizeof sizes; i++)
		at += (size_t)snprintf(sizes + at, sizeof sizes - at, " %s=%" PRId64,
		                       pack_string(b->file, b->file->symbols[b->kernel->k->symbols.first + i].name), b->symbols[i]);
	t.n = (size_t)snprintf(t.text, t.size, "%s[%s] on %s,%s%s, from %s:\n", b->name, instance_text(b), b->device->target, sizes,
	                       b->joined ? " (as many elements in other rows)" : "", b->file->name);
	*rc = choose_variant(b, CHOOSE_ANY, &index, tell, &t);
	return explanation;
}

const char *explain(const struct bind *b)
{
	int rc;
	return explanation_make(b, &rc);
}

const char *explain_call(const struct bind *b)
{
	int rc;
	const char *text = explanation_make(b, &rc);
	return rc < 0 && rc != TDSL_ETARGET && !b->nothing ? NULL : text; /* what no variant takes is compiled; with no results there is no choice */
}
