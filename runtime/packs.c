/* packs.c -- packs and kernels as handles: opening, finding, and what a tool wants to know of them.
 * In: files or memory (pack_read.c checks them).  Out: tdsl_pack and its array of tdsl_kernel; texts made here live in the
 * pack's arena.  Open packs are in a list, so that a handle whose pack was closed is told from one that can be read. */
#include <stdlib.h>
#include <string.h>

#include "fork.h"
#include "kernel.h"

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static tdsl_pack open_packs;

int pack_fail(int status, const char *text)
{
	FAIL(status == PACK_EIO ? TDSL_EIO : status == PACK_EVERSION ? TDSL_EVERSION : status == PACK_ENOMEM ? TDSL_ENOMEM : TDSL_EPACK,
	     "%s", text);
}

/* ---- which packs are open */

int pack_check(tdsl_pack p, const char *where)
{
	if (!p)
		FAIL(TDSL_EINVAL, "%s: pack is NULL", where);
	pthread_mutex_lock(&open_lock);
	tdsl_pack at = open_packs;
	while (at && at != p)
		at = at->next;
	pthread_mutex_unlock(&open_lock);
	if (!at)
		FAIL(TDSL_EINVAL, "%s: the pack is closed", where);
	return 0;
}

static bool kernel_of(tdsl_pack p, tdsl_kernel k)
{
	return (uintptr_t)k >= (uintptr_t)p->kernels && (uintptr_t)k < (uintptr_t)(p->kernels + p->file->nkernels);
}

int kernel_check(tdsl_kernel k, const char *where)
{
	if (!k)
		FAIL(TDSL_EINVAL, "%s: kernel is NULL", where);
	pthread_mutex_lock(&open_lock);
	tdsl_pack at = open_packs;
	while (at && !kernel_of(at, k))
		at = at->next;
	pthread_mutex_unlock(&open_lock);
	if (!at)
		FAIL(TDSL_EINVAL, "%s: the kernel's pack is closed", where);
	return 0;
}

bool pack_is_open(uint64_t serial)
{
	pthread_mutex_lock(&open_lock);
	tdsl_pack at = open_packs;
	while (at && at->serial != serial)
		at = at->next;
	pthread_mutex_unlock(&open_lock);
	return at != NULL;
}

bool packs_have(const char *name, size_t n)
{
	bool found = false;
	pthread_mutex_lock(&open_lock);
	for (tdsl_pack p = open_packs; p && !found; p = p->next)
		for (uint32_t i = 0; i < p->file->nkernels && !found; i++) {
			const char *its = pack_string(p->file, p->file->kernels[i].name);
			found = strlen(its) == n && memcmp(its, name, n) == 0;
		}
	pthread_mutex_unlock(&open_lock);
	return found;
}

static void open_add(tdsl_pack p)
{
	pthread_mutex_lock(&open_lock);
	p->next = open_packs;
	open_packs = p;
	pthread_mutex_unlock(&open_lock);
}

/* False where it was not open. */
static bool open_remove(tdsl_pack p)
{
	pthread_mutex_lock(&open_lock);
	tdsl_pack *at = &open_packs;
	while (*at && *at != p)
		at = &(*at)->next;
	bool found = *at != NULL;
	if (found)
		*at = p->next;
	pthread_mutex_unlock(&open_lock);
	return found;
}

void packs_fork(enum fork_stage stage)
{
	if (stage == FORK_BEFORE)
		pthread_mutex_lock(&open_lock);
	for (tdsl_pack p = open_packs; p; p = p->next) {
		fork_lock(&p->lock, stage);
		fork_lock(pack_loaded_lock(p->file->loaded), stage);
	}
	if (stage != FORK_BEFORE)
		pthread_mutex_unlock(&open_lock);
}

/* ---- opening */

static const char *extents_text(tdsl_pack p, const struct pack_kernel *k, const struct pack_param *q)
{
	const char *symbols[MODEL_MAX_SYMBOL], *tensors[MODEL_MAX_PARAM];
	const char *text = "";
	for (uint32_t i = 0; i < k->symbols.count; i++)
		symbols[i] = pack_string(p->file, p->file->symbols[k->symbols.first + i].name);
	for (uint32_t i = 0; i < k->params.count; i++)
		tensors[i] = pack_string(p->file, p->file->params[k->params.first + i].name);
	for (int d = 0; d < q->rank; d++) {
		const struct hexpr *e = hexpr_decode(&p->arena, p->file->code + q->extent[d].offset, q->extent[d].size);
		text = arena_printf(&p->arena, "%s%s%s", text, d ? ", " : "", e ? hexpr_shown(&p->arena, e, symbols, tensors) : "?");
	}
	return text;
}

static char param_letter(tdsl_pack p, const struct pack_kernel *k, uint32_t param)
{
	const struct pack_param *q = &p->file->params[k->params.first + param];
	if (q->flags & PACK_PARAM_TENSOR)
		return q->flags & PACK_PARAM_LIST ? 'L' : q->flags & PACK_PARAM_OPTIONAL ? '?' : 'T';
	if (k->instances.count == 0)
		return 'f';
	const struct pack_type *t = &p->file->types[p->file->instances[k->instances.first].types + param];
	switch (dtype_by_dlpack(t->code, t->bits)) {
	case DT_F64: return 'd';
	case DT_I32: return 'i';
	case DT_I64: return 'l';
	default: return 'f';
	}
}

/* Made when first asked for: an open pack's are seldom read. */
const char *kernel_extents(tdsl_kernel k, int param)
{
	pthread_mutex_lock(&k->pack->lock);
	if (!k->extents)
		k->extents = arena_alloc(&k->pack->arena, (size_t)k->nparams * sizeof *k->extents);
	if (!k->extents[param])
		k->extents[param] = extents_text(k->pack, k->k, &k->params[param]);
	const char *text = k->extents[param];
	pthread_mutex_unlock(&k->pack->lock);
	return text;
}

static void kernel_set(tdsl_pack p, struct tdsl_kernel_s *k, const struct pack_kernel *r)
{
	k->serial = serial_next();
	k->pack = p;
	k->k = r;
	k->params = p->file->params + r->params.first;
	k->nparams = (int)r->params.count;
	for (uint32_t i = 0; i < r->params.count; i++) {
		bool tensor = k->params[i].flags & PACK_PARAM_TENSOR;
		k->signature[i] = param_letter(p, r, i);
		k->tensors |= tensor ? 1u << i : 0;
		k->outputs |= tensor && k->params[i].role != ROLE_IN ? 1u << i : 0;
	}
	if (r->flags & 1)
		k->signature[r->params.count] = 'W';
}

/* Distinct targets of the kernels' variants, in their order. */
static void targets_set(tdsl_pack p)
{
	p->targets = arena_alloc(&p->arena, (p->file->nvariants + 1) * sizeof *p->targets);
	for (uint32_t n = 0; n < p->file->nkernels; n++) {
		const struct pack_range r = p->file->kernels[n].variants;
		for (uint32_t i = 0; i < r.count; i++) {
			const char *target = pack_string(p->file, p->file->variants[r.first + i].target);
			int j = 0;
			while (j < p->ntargets && strcmp(p->targets[j], target) != 0)
				j++;
			if (j == p->ntargets)
				p->targets[p->ntargets++] = target;
		}
	}
}

int pack_wrap(tdsl_pack *out, struct pack_file *file)
{
	fork_watch();
	tdsl_pack p = calloc(1, sizeof *p);
	if (p)
		p->kernels = calloc(file->nkernels ? file->nkernels : 1, sizeof *p->kernels);
	if (!p || !p->kernels) {
		free(p);
		pack_close(file);
		FAIL(TDSL_ENOMEM, "out of memory");
	}
	pthread_mutex_init(&p->lock, NULL);
	p->file = file;
	p->serial = serial_next();
	targets_set(p);
	_Atomic uint64_t *calls = arena_alloc(&p->arena, ((size_t)file->nvariants + file->nkernels) * sizeof *calls);
	for (uint32_t i = 0; i < file->nkernels; i++) {
		kernel_set(p, &p->kernels[i], &file->kernels[i]);
		p->kernels[i].calls = calls;
		calls += file->kernels[i].variants.count + 1;
	}
	open_add(p);
	*out = p;
	return 0;
}

int tdsl_pack_open(tdsl_pack *pack, const char *path)
{
	char err[1024];
	struct pack_file *file;
	if (!pack || !path)
		FAIL(TDSL_EINVAL, "tdsl_pack_open: %s is NULL", pack ? "path" : "pack");
	int rc = pack_open(&file, path, err, sizeof err);
	return rc < 0 ? pack_fail(rc, err) : pack_wrap(pack, file);
}

int tdsl_pack_open_memory(tdsl_pack *pack, const void *bytes, size_t size)
{
	char err[1024];
	struct pack_file *file;
	if (!pack || !bytes)
		FAIL(TDSL_EINVAL, "tdsl_pack_open_memory: %s is NULL", pack ? "bytes" : "pack");
	int rc = pack_open_memory(&file, bytes, size, "pack in memory", err, sizeof err);
	return rc < 0 ? pack_fail(rc, err) : pack_wrap(pack, file);
}

void tdsl_pack_close(tdsl_pack p)
{
	if (!p || !open_remove(p))
		return;
	device_forget_pack(p->serial);
	pack_close(p->file);
	pthread_mutex_destroy(&p->lock);
	arena_free(&p->arena);
	free(p->kernels);
	free(p);
}

int tdsl_pack_verify(tdsl_pack p)
{
	char err[1024];
	TRY(pack_check(p, "tdsl_pack_verify"));
	int rc = pack_verify(p->file, err, sizeof err);
	return rc < 0 ? pack_fail(rc, err) : 0;
}

int tdsl_kernel_find(tdsl_kernel *kernel, tdsl_pack p, const char *name)
{
	if (!kernel || !name)
		FAIL(TDSL_EINVAL, "tdsl_kernel_find: %s is NULL", kernel ? "name" : "kernel");
	TRY(pack_check(p, "tdsl_kernel_find"));
	for (uint32_t i = 0; i < p->file->nkernels; i++)
		if (strcmp(pack_string(p->file, p->file->kernels[i].name), name) == 0) {
			*kernel = &p->kernels[i];
			return 0;
		}
	FAIL(TDSL_ENOTFOUND, "%s has no kernel '%s' (it has %u kernels)", p->file->name, name, p->file->nkernels);
}

int tdsl_kernel_load(tdsl_kernel k, tdsl_stream s)
{
	bool any = false;
	TRY(kernel_check(k, "tdsl_kernel_load"));
	if (!s)
		TRY(device_default_stream(&s));
	TRY(device_open_check(s->device, "tdsl_kernel_load"));
	const struct pack_file *f = k->pack->file;
	for (uint32_t i = 0; i < k->k->variants.count; i++) {
		const struct pack_variant *v = &f->variants[k->k->variants.first + i];
		if (strcmp(pack_string(f, v->target), s->device->target) != 0)
			continue;
		any = true;
		for (uint32_t l = 0; l < v->launches.count; l++) {
			void *function;
			struct launch_need need;
			TRY(kernel_function(&function, &need, k, s->device, v->object, &f->launches[v->launches.first + l]));
		}
	}
	if (!any)
		FAIL(TDSL_ETARGET, "%s: %s has no code for %s", pack_string(f, k->k->name), f->name, s->device->target);
	return 0;
}

/* ---- enumeration */

int tdsl_pack_query(struct tdsl_pack_info *info, tdsl_pack p)
{
	if (!info)
		FAIL(TDSL_EINVAL, "tdsl_pack_query: info is NULL");
	TRY(pack_check(p, "tdsl_pack_query"));
	const struct pack_meta *m = p->file->meta;
	*info = (struct tdsl_pack_info){(int)p->file->nkernels, p->ntargets, p->targets, pack_string(p->file, m->tdsl_version),
	                                pack_string(p->file, m->llvm_version), pack_string(p->file, m->options), pack_string(p->file, m->licence)};
	return 0;
}

static int index_check(const char *where, const void *out, int index, uint32_t count)
{
	if (!out)
		FAIL(TDSL_EINVAL, "%s: an argument is NULL", where);
	if (index < 0 || (uint32_t)index >= count)
		FAIL(TDSL_EINVAL, "%s: index %d; expected 0 to %d", where, index, (int)count - 1);
	return 0;
}

int tdsl_pack_kernel(tdsl_kernel *kernel, tdsl_pack p, int index)
{
	TRY(pack_check(p, "tdsl_pack_kernel"));
	TRY(index_check("tdsl_pack_kernel", kernel, index, p->file->nkernels));
	*kernel = &p->kernels[index];
	return 0;
}

int tdsl_kernel_query(struct tdsl_kernel_info *info, tdsl_kernel k)
{
	if (!info)
		FAIL(TDSL_EINVAL, "tdsl_kernel_query: info is NULL");
	TRY(kernel_check(k, "tdsl_kernel_query"));
	const struct pack_file *f = k->pack->file;
	*info = (struct tdsl_kernel_info){pack_string(f, k->k->name), pack_string(f, k->k->doc), k->signature, k->nparams,
	                                  (int)k->k->instances.count, (int)k->k->variants.count, (int)(k->k->flags & 1)};
	return 0;
}

int tdsl_kernel_param(struct tdsl_param_info *info, tdsl_kernel k, int index)
{
	TRY(kernel_check(k, "tdsl_kernel_param"));
	TRY(index_check("tdsl_kernel_param", info, index, k->k->params.count));
	const struct pack_param *p = &k->params[index];
	*info = (struct tdsl_param_info){
		.name = pack_string(k->pack->file, p->name), .is_tensor = !!(p->flags & PACK_PARAM_TENSOR), .is_input = p->role != ROLE_OUT,
		.is_output = p->role != ROLE_IN, .is_optional = !!(p->flags & PACK_PARAM_OPTIONAL), .rank = p->rank,
		.extents = kernel_extents(k, index), .has_default = !!(p->flags & PACK_PARAM_DEFAULT), .default_value = p->default_value};
	return 0;
}

int tdsl_kernel_instance(struct tdsl_instance_info *info, tdsl_kernel k, int index)
{
	TRY(kernel_check(k, "tdsl_kernel_instance"));
	TRY(index_check("tdsl_kernel_instance", info, index, k->k->instances.count));
	info->name = pack_string(k->pack->file, k->pack->file->instances[k->k->instances.first + (uint32_t)index].name);
	return 0;
}

int tdsl_kernel_dtype(const char **name, DLDataType *dl, tdsl_kernel k, int instance, int param, const char *target)
{
	TRY(kernel_check(k, "tdsl_kernel_dtype"));
	TRY(index_check("tdsl_kernel_dtype", name, instance, k->k->instances.count));
	TRY(index_check("tdsl_kernel_dtype", dl, param, k->k->params.count));
	if (target && model_native(target, 8) == DT_NONE)
		FAIL(TDSL_EINVAL, "tdsl_kernel_dtype: unknown target '%s'; expected gfx942, gfx950 or sm_90a", target);
	const struct pack_file *f = k->pack->file;
	const struct pack_type *t = &f->types[f->instances[k->k->instances.first + (uint32_t)instance].types + (uint32_t)param];
	enum dtype type = t->native && target ? model_native(target, t->native) : dtype_by_dlpack(t->code, t->bits);
	const struct dtype_info *d = dtype_info(type);
	*name = t->native == 8 ? "fp8" : t->native == 9 ? "bf8" : d->name;
	*dl = (DLDataType){d->dl_code, d->dl_bits, 1};
	return 0;
}

int tdsl_kernel_variant(struct tdsl_variant_info *info, tdsl_kernel k, int index)
{
	char err[1024];
	TRY(kernel_check(k, "tdsl_kernel_variant"));
	TRY(index_check("tdsl_kernel_variant", info, index, k->k->variants.count));
	const struct pack_file *f = k->pack->file;
	const struct pack_variant *v = &f->variants[k->k->variants.first + (uint32_t)index];
	*info = (struct tdsl_variant_info){(int)v->instance, pack_string(f, v->target), pack_string(f, v->predicate_text), (int)v->launches.count, NULL};
	int rc = pack_report(f, v, &info->report_json, err, sizeof err);
	return rc < 0 ? pack_fail(rc, err) : 0;
}

int tdsl_kernel_calls(uint64_t *calls, tdsl_kernel k, int variant)
{
	TRY(kernel_check(k, "tdsl_kernel_calls"));
	TRY(index_check("tdsl_kernel_calls", calls, variant, k->k->variants.count));
	*calls = k->calls[variant];
	return 0;
}

const char *tdsl_pack_source(tdsl_pack p)
{
	return pack_check(p, "tdsl_pack_source") == 0 ? pack_string(p->file, p->file->meta->source) : "";
}
