/* plan.c -- bound arguments -> a plan: the variant, its launches' grids and their argument blocks with what to patch.
 * In: a call.  Out: a plan, made once for each shape.  Which variant of a kernel serves it is trace.c's choice; which kernel, where the pack's own
 * has none, is chosen here, among those that this process compiled or compiles now. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "env.h"
#include "follow.h"
#include "jit.h"
#include "trace.h"

/* ---- which kernel and variant serve a call */

/* Binds, and where a variant is to be chosen joins rows unless the environment has a say in the choice. */
static int bind_serve(struct bind *b, tdsl_kernel k, tdsl_device device, const union tdsl_arg *args, bool lenient, bool choose)
{
	bool open = false;
	TRY(bind_make(b, k, device, args, lenient));
	if (choose && !b->nothing)
		TRY(choice_is_open(&open, b));
	if (open)
		bind_join_rows(b);
	return 0;
}

/* Binds to a kernel that this process compiled from the same text and that has such a variant for the call. */
static bool choose_compiled_among(struct bind *b, tdsl_device device, const union tdsl_arg *args, bool lenient, enum choice among, uint32_t *index)
{
	struct bind other;
	for (tdsl_kernel j = NULL; (j = jit_next(b->kernel, j));)
		if (!j->extents_only && bind_serve(&other, j, device, args, lenient, true) == 0 && choose_variant(&other, among, index, NULL, NULL) == 0) {
			*b = other;
			return true;
		}
	return false;
}

/* The variant asks for each of the kernel's optional tensors whether it is there. */
static bool asks_each(const struct bind *b, const struct pack_variant *v)
{
	bool any = false;
	for (int p = 0; p < b->kernel->nparams; p++)
		any = any || (b->kernel->params[p].flags & PACK_PARAM_OPTIONAL);
	return any && !variant_is_tailored(b, v);
}

/* In place of what asks for each optional tensor one that was compiled for exactly those of the call, and in place of the general variant any other. */
static bool choose_compiled(struct bind *b, tdsl_device device, const union tdsl_arg *args, bool lenient, uint32_t *index)
{
	const struct pack_variant *v = &b->file->variants[b->kernel->k->variants.first + *index];
	if (!jit_next(b->kernel, NULL))
		return false;
	bool general = !v->predicate.size, asks = asks_each(b, v);
	return (asks && choose_compiled_among(b, device, args, lenient, CHOOSE_TAILORED, index)) ||
	       (general && choose_compiled_among(b, device, args, lenient, CHOOSE_SPECIAL, index));
}

/* Binds and chooses.  What no variant of the pack takes is served by a kernel compiled before, or compiled now (extent).  index: NULL = none is chosen. */
static int serve(struct bind *b, tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, bool lenient, enum jit_extent extent, uint32_t *index)
{
	bool choose = index;
	char why[1024];
	int rc = bind_serve(b, k, s->device, args, lenient, choose);
	if (rc == 0 && choose && !b->nothing)
		rc = choose_variant(b, CHOOSE_ANY, index, NULL, NULL);
	if (rc != TDSL_EDTYPE && rc != TDSL_ETARGET)
		return rc;
	snprintf(why, sizeof why, "%s", tdsl_error());
	tdsl_kernel j = NULL;
	do
		while ((j = jit_next(k, j)))
			if ((!j->extents_only || extent == JIT_SIGNATURE) && bind_serve(b, j, s->device, args, lenient, choose) == 0 &&
			    (!choose || b->nothing || choose_variant(b, CHOOSE_ANY, index, NULL, NULL) == 0))
				return 0;
	while (jit_recall(k, s, args));
	if (!*pack_string(k->pack->file, k->pack->file->meta->source))
		FAIL(rc, "%s", why);
	int made = jit_kernel(&j, k, s, args, extent);
	if (made == TDSL_ECOMPILE && extent == JIT_VARIANT) /* registers may not suffice for the likely variant, but for another */
		made = jit_kernel(&j, k, s, args, JIT_WHOLE);
	if (made == TDSL_EDTYPE)
		FAIL(rc, "%s", why);
	if (made < 0) {
		char more[900];
		snprintf(more, sizeof more, "%s", tdsl_error());
		FAIL(made == TDSL_EUNSUPPORTED ? rc : made, "%s; it was not compiled: %s", why, more);
	}
	TRY(bind_serve(b, j, s->device, args, lenient, choose));
	if (!choose || b->nothing || choose_variant(b, CHOOSE_ANY, index, NULL, NULL) == 0)
		return 0;
	TRY(jit_kernel(&j, k, s, args, JIT_WHOLE)); /* strides that the likely variant cannot follow: all of them */
	TRY(bind_serve(b, j, s->device, args, lenient, choose));
	return choose_variant(b, CHOOSE_ANY, index, NULL, NULL);
}

/* ---- what TDSL_DISABLE names and nothing has */

/* In the pack, for whatever device, or compiled by now. */
static bool variant_exists(tdsl_kernel k, const struct disabled *d)
{
	for (tdsl_kernel of = k; of; of = jit_next(k, of == k ? NULL : of))
		for (uint32_t i = 0; i < of->k->variants.count; i++) {
			const char *its = pack_string(of->pack->file, of->pack->file->variants[of->k->variants.first + i].predicate_text);
			if (strlen(its) == d->variant_length && memcmp(its, d->variant, d->variant_length) == 0)
				return true;
		}
	return false;
}

/* A misspelt entry passes nothing over: one that nothing answers to is told, once for each value; packs and variants may come yet. */
static void disabled_tell(tdsl_kernel k)
{
	static _Atomic uint64_t told;
	const char *at, *name = pack_string(k->pack->file, k->k->name);
	if (!log_on(LOG_WARN) || env_text(&at, "TDSL_DISABLE") < 0 || !at)
		return;
	uint64_t digest = XXH3_64bits(at, strlen(at)) | 1;
	bool again = atomic_exchange(&told, digest) == digest, its_again = atomic_exchange(&k->told, digest) == digest;
	for (struct disabled d; disabled_next(&at, &d);)
		if (!again && !packs_have(d.kernel, d.kernel_length))
			log_write(LOG_WARN, "TDSL_DISABLE names '%.*s'; no open pack has a kernel of that name", (int)d.kernel_length, d.kernel);
		else if (!its_again && d.variant && strlen(name) == d.kernel_length && memcmp(name, d.kernel, d.kernel_length) == 0 && !variant_exists(k, &d))
			log_write(LOG_WARN, "TDSL_DISABLE names '%s/%.*s'; no variant of the kernel has that text (tdslc list)", name, (int)d.variant_length, d.variant);
}

/* ---- building */

static int patch_of_scalar(const struct bind *b, const struct pack_karg *a, uint8_t *kind)
{
	static const struct { enum dtype type; uint8_t kind, size; } scalars[] = {
		{DT_F32, PATCH_F32, 4}, {DT_F64, PATCH_F64, 8}, {DT_I32, PATCH_I32, 4}, {DT_I64, PATCH_I64, 8}};
	enum dtype t = bind_type(b, b->instance, a->a);
	for (unsigned i = 0; i < sizeof scalars / sizeof *scalars; i++)
		if (scalars[i].type == t && scalars[i].size == a->size) {
			*kind = scalars[i].kind;
			return 0;
		}
	FAIL(TDSL_EPACK, "%s: scalar '%s' of type %s in %d bytes: not a form that can be passed", b->name, bind_param_name(b, a->a),
	     dtype_info(t)->name, a->size);
}

static void put(uint8_t *at, int64_t value, int size)
{
	memcpy(at, &value, (size_t)size);
}

/* One kernel argument: a constant into the block, or a patch. */
static int karg_make(const struct bind *b, const struct pack_launch *l, const struct pack_karg *a, uint8_t *block, struct plan *plan,
                     struct plan_launch *out)
{
	const struct view *v = &b->views[a->a < b->kernel->nparams ? a->a : 0];
	struct plan_patch patch = {PATCH_POINTER, a->a, (uint16_t)a->offset};
	int64_t value = 0;
	switch ((enum model_karg_kind)a->kind) {
	case KA_POINTER: break;
	case KA_SCALAR: TRY(patch_of_scalar(b, a, &patch.kind)); break;
	case KA_WORKSPACE: patch.kind = PATCH_WORKSPACE; break;
	case KA_STRIDE: case KA_STRIDE32: value = v->present ? v->stride[a->b] : 0; goto constant;
	case KA_SYMBOL: value = b->symbols[a->a]; goto constant;
	case KA_FOLD_INNER: value = bind_fold_inner(b); goto constant;
	case KA_FOLD_STRIDE: value = v->flat ? v->stride[0] * bind_fold_inner(b) : v->fold_stride; goto constant;
	case KA_EXPR:
		TRY(launch_argument(b, l, a, &value));
		goto constant;
	}
	if (patch.kind == PATCH_POINTER && !v->present)
		return 0; /* stays 0 */
	if (patch.kind == PATCH_I32)
		plan->narrow |= 1u << a->a;
	if (patch.kind == PATCH_F32)
		plan->single |= 1u << a->a;
	plan->patches[out->patch + out->npatch++] = patch;
	return 0;
constant:
	put(block + a->offset, value, a->size);
	return 0;
}

/* offsets: room for one of each argument. */
static int launch_make(const struct bind *b, const struct pack_variant *v, const struct pack_launch *l, struct plan *plan,
                       struct plan_launch *out, uint32_t *offsets)
{
	uint8_t *block = plan->kernargs + out->kernarg;
	out->symbol = pack_string(b->file, l->symbol);
	out->shape.block = l->block;
	if (l->lanes.size) {
		int64_t lanes;
		TRY(launch_lanes(b, l, &lanes));
		out->shape.block = (uint32_t)lanes;
	}
	out->shape.overlaps = l->flags & PACK_OVERLAPS;
	out->shape.meets = l->flags & PACK_MEETS;
	out->shape.kernarg_bytes = l->kernarg_bytes;
	out->shape.offsets = offsets;
	out->shape.narguments = l->kargs.count;
	for (uint32_t i = 0; i < l->kargs.count; i++) {
		offsets[i] = bind_karg(b, l, i)->offset;
		TRY(karg_make(b, l, bind_karg(b, l, i), block, plan, out));
	}
	struct launch_need need;
	TRY(kernel_function(&out->function, &need, b->kernel, b->device, v->object, l));
	out->shape.shared = need.shared;
	out->shape.members = need.members;
	return 0;
}

/* One block for a plan and all it points to. */
static struct plan *plan_alloc(const struct bind *b, const struct pack_variant *v, uint32_t key_words)
{
	size_t nlaunches = v ? v->launches.count : 0, npatches = 0, kernargs = 0;
	for (uint32_t i = 0; i < nlaunches; i++) {
		npatches += bind_launch(b, v, i)->kargs.count;
		kernargs += (bind_launch(b, v, i)->kernarg_bytes + 15) & ~15u;
	}
	size_t at_tensors = (sizeof(struct plan) + 15) & ~(size_t)15;
	size_t at_launches = at_tensors + (size_t)b->kernel->nparams * sizeof(struct plan_tensor);
	size_t at_key = at_launches + nlaunches * sizeof(struct plan_launch);
	size_t at_kernargs = (at_key + key_words * sizeof(uint64_t) + 15) & ~(size_t)15;
	size_t at_patches = at_kernargs + kernargs;
	size_t at_offsets = at_patches + npatches * sizeof(struct plan_patch);
	uint8_t *block = calloc(1, at_offsets + npatches * sizeof(uint32_t) + 16);
	if (!block)
		return NULL;
	struct plan *p = (struct plan *)(void *)block;
	p->tensors = (void *)(block + at_tensors);
	p->launches = (void *)(block + at_launches);
	p->key = (void *)(block + at_key);
	p->kernargs = block + at_kernargs;
	p->patches = (void *)(block + at_patches);
	p->offsets = (void *)(block + at_offsets);
	return p;
}

static int plan_fill(struct plan *p, const struct bind *b, const struct pack_variant *v)
{
	uint32_t kernarg = 0, patch = 0, argument = 0;
	int64_t workspace;
	TRY(variant_workspace(b, v, &workspace));
	p->workspace = (uint64_t)workspace;
	for (uint32_t i = 0; i < v->launches.count; i++) {
		const struct pack_launch *l = bind_launch(b, v, i);
		struct plan_launch *out = &p->launches[p->nlaunches];
		bool any;
		TRY(launch_grid(b, l, out->shape.grid, &any));
		if (!any)
			continue;
		out->kernarg = kernarg;
		out->patch = patch;
		TRY(launch_make(b, v, l, p, out, p->offsets + argument));
		kernarg += (l->kernarg_bytes + 15) & ~15u;
		patch += out->npatch;
		argument += l->kargs.count;
		p->nlaunches++;
	}
	return 0;
}

int plan_make(struct plan **out, tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, const uint64_t *key, uint32_t key_words)
{
	struct bind bind, *b = &bind;
	const struct pack_variant *v = NULL;
	tdsl_device device = s->device;
	uint32_t index = UINT32_MAX;
	TRY(serve(b, k, s, args, false, JIT_VARIANT, &index));
	disabled_tell(k);
	if (!b->nothing) {
		choose_compiled(b, device, args, false, &index);
		k = b->kernel;
		v = &b->file->variants[k->k->variants.first + index];
		trace_count(TRACE_PLANS);
		if (log_on(LOG_DEBUG))
			log_write(LOG_DEBUG, "%s", explain(b));
		else if (log_on(LOG_INFO))
			log_write(LOG_INFO, "%s[%s] on %s: variant \"%s\"%s", b->name, pack_string(b->file, b->file->instances[k->k->instances.first + b->instance].name),
			          device->target, pack_string(b->file, v->predicate_text),
			          asks_each(b, v) ? ", which asks for each optional tensor: tdsl_warm_up compiles code for those of a call" : "");
	}
	k = b->kernel;
	struct plan *p = plan_alloc(b, v, key_words);
	if (!p)
		FAIL(TDSL_ENOMEM, "out of memory");
	if (key_words)
		memcpy(p->key, key, key_words * sizeof *key);
	p->key_words = key_words;
	for (int i = 0; i < k->nparams; i++)
		p->tensors[i] = b->views[i].bytes;
	int rc = v ? plan_fill(p, b, v) : 0;
	if (rc < 0) {
		free(p);
		return rc;
	}
	p->calls = &k->calls[v ? index : k->k->variants.count];
	p->last = (struct plan_last){{b->name, pack_string(b->file, b->file->instances[k->k->instances.first + b->instance].name),
	                             v ? pack_string(b->file, v->predicate_text) : "", device->target, (int)index, (int)p->nlaunches, 0}, k->pack->serial};
	*out = p;
	return 0;
}

static int workspace_of(const struct bind *b, uint32_t index, int64_t *most)
{
	int64_t bytes;
	TRY(variant_workspace(b, &b->file->variants[b->kernel->k->variants.first + index], &bytes));
	*most = bytes > *most ? bytes : *most;
	return 0;
}

/* The most that either alignment would need, of the variants that the bound kernel has; *found: of any.  Refused where both would be: what aligned
 * tensors say is kept, for they are offered every variant that others are. */
static int workspace_of_either(struct bind *b, bool *found, int64_t *most)
{
	bool any = false;
	int last = 0;
	for (int aligned = 0; aligned <= 1; aligned++) {
		uint32_t index;
		b->assume_aligned = aligned;
		int rc = choose_variant(b, CHOOSE_ANY, &index, NULL, NULL);
		last = rc == TDSL_ETARGET ? 0 : rc;
		if (rc < 0)
			continue;
		TRY(workspace_of(b, index, most));
		*found = any = true;
	}
	return any ? 0 : last;
}

int64_t plan_workspace(tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args)
{
	struct bind bind, other, *b = &bind;
	bool addresses = true, found = false;
	int64_t most = 0;
	uint32_t index;
	tdsl_kernel whole;
	TRY(serve(b, k, s, args, true, JIT_VARIANT, NULL));
	if (b->nothing)
		return 0;
	for (int i = 0; i < k->nparams; i++)
		if (k->tensors >> i & 1)
			addresses = addresses && (args[i].t ? args[i].t->data || b->views[i].empty
			                                    : !(k->outputs >> i & 1) || (k->params[i].flags & PACK_PARAM_OPTIONAL));
	if (addresses) {
		TRY(serve(b, k, s, args, true, JIT_VARIANT, &index));
		choose_compiled(b, s->device, args, true, &index);
		TRY(workspace_of(b, index, &most));
		return most;
	}
	int rc = workspace_of_either(b, &found, &most);
	for (tdsl_kernel j = NULL; rc == 0 && (j = jit_next(k, j));)
		if (!j->extents_only && bind_make(&other, j, s->device, args, true) == 0)
			workspace_of_either(&other, &found, &most);  /* one that cannot follow the call will not be chosen */
	if (rc < 0 || found)
		bind_join_rows(b);                       /* the call may, and then fit where its own rows do not */
	if (b->joined)
		rc = workspace_of_either(b, &found, &most);
	if (rc < 0 && !found)
		return rc;
	if (!found) {                                    /* what was compiled for earlier calls serves neither */
		TRY(jit_kernel(&whole, k, s, args, JIT_WHOLE));
		TRY(bind_make(b, whole, s->device, args, true));
		TRY(workspace_of_either(b, &found, &most));
	}
	return most;
}

int plan_output(DLDataType *dtype, int64_t shape[8], tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, int param)
{
	struct bind bind, *b = &bind;
	TRY(serve(b, k, s, args, true, JIT_SIGNATURE, NULL));
	const struct pack_param *p = &b->kernel->params[param]; /* not k's where it is served by another: a pack has its own code */
	const struct dtype_info *t = dtype_info(bind_type(b, b->instance, param));
	for (int d = 0; d < p->rank; d++)
		TRY(bind_within(b, p->extent[d], "extent", 0, INT64_MAX, &shape[d]));
	*dtype = (DLDataType){t->dl_code, t->dl_bits, 1};
	return p->rank;
}

const char *tdsl_explain(tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, int nargs)
{
	struct bind bind;
	if (kernel_check(k, "tdsl_explain") < 0)
		return NULL;
	if (nargs != k->nparams || (nargs && !args)) {
		error_set(TDSL_EINVAL, "tdsl_explain: not the kernel's number of arguments");
		return NULL;
	}
	if ((!s && device_default_stream(&s) < 0) || device_open_check(s->device, "tdsl_explain") < 0)
		return NULL;
	return bind_serve(&bind, k, s->device, args, true, true) < 0 ? NULL : explain_call(&bind);
}
