/* pack_write.c -- struct model_pack -> the bytes of a pack (pack_format.h).
 *
 * Each section grows in a buffer of its own; equal strings and equal host expressions are stored once.  Objects and
 * reports are compressed by pack_compress.c in the model's order, so that the bytes depend on the model alone.  The result is read back by the reader before
 * it is handed out: a model that breaks a limit is refused here and not by the pack's user. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "pack_compress.h"

struct pool_entry { uint32_t offset, size, used; };
struct pool { struct buffer data; struct pool_entry *table; uint32_t cap, n; }; /* cap: a power of two */

struct writer {
	const struct model_pack *model;
	struct arena arena;
	struct buffer sections[PS_COUNT];
	uint32_t counts[PS_COUNT];
	struct pool strings, code, kargs, reports;
	char *err; size_t errlen;
	bool failed;
};

static void writer_fail(struct writer *w, const char *what, const char *name)
{
	if (!w->failed)
		snprintf(w->err, w->errlen, "%s%s%s", what, name ? ": " : "", name ? name : "");
	w->failed = true;
}

/* Appends a record; returns its number in the section. */
static uint32_t record_add(struct writer *w, enum pack_section s, const void *record, size_t size)
{
	if (!buffer_append(&w->sections[s], record, size))
		writer_fail(w, "out of memory", NULL);
	return w->counts[s]++;
}

static struct pool_entry *pool_slot(struct pool *p, const void *data, uint32_t n)
{
	uint32_t i = (uint32_t)XXH3_64bits(data, n) & (p->cap - 1);
	while (p->table[i].used && !(p->table[i].size == n && memcmp(p->data.bytes + p->table[i].offset, data, n) == 0))
		i = (i + 1) & (p->cap - 1);
	return &p->table[i];
}

static bool pool_grow(struct pool *p)
{
	struct pool_entry *old = p->table;
	uint32_t cap = p->cap;
	struct pool_entry *table = calloc(cap ? cap * 2 : 256, sizeof *table);
	if (!table)
		return false;
	p->table = table;
	p->cap = cap ? cap * 2 : 256;
	for (uint32_t i = 0; i < cap; i++)
		if (old[i].used)
			*pool_slot(p, p->data.bytes + old[i].offset, old[i].size) = old[i];
	free(old);
	return true;
}

/* Offset of these bytes in the pool, added if they are new. */
static uint32_t pool_add(struct writer *w, struct pool *p, const void *data, size_t n)
{
	if (p->data.size + n > UINT32_MAX / 2 || (p->n * 2 >= p->cap && !pool_grow(p))) {
		writer_fail(w, "out of memory", NULL);
		return 0;
	}
	struct pool_entry *e = pool_slot(p, data, (uint32_t)n);
	if (!e->used) {
		*e = (struct pool_entry){(uint32_t)p->data.size, (uint32_t)n, 1};
		p->n++;
		if (!buffer_append(&p->data, data, n))
			writer_fail(w, "out of memory", NULL);
	}
	return e->offset;
}

static void pool_free(struct pool *p)
{
	free(p->data.bytes);
	free(p->table);
}

static uint32_t text_add(struct writer *w, struct pool *p, const char *s)
{
	return s ? pool_add(w, p, s, strlen(s) + 1) : 0;
}

static uint32_t string_add(struct writer *w, const char *s)
{
	return text_add(w, &w->strings, s);
}

static struct pack_code_ref code_add(struct writer *w, const struct hexpr *e)
{
	const uint8_t *code;
	uint32_t size;
	if (!e || w->failed)
		return (struct pack_code_ref){0, 0};
	if (hexpr_encode(&w->arena, e, &code, &size) < 0) {
		writer_fail(w, "a host expression is too deep", NULL);
		return (struct pack_code_ref){0, 0};
	}
	return (struct pack_code_ref){pool_add(w, &w->code, code, size), size};
}

static struct pack_range params_add(struct writer *w, const struct model_kernel *k)
{
	struct pack_range r = {w->counts[PS_PARAMS], (uint32_t)k->nparams};
	for (int i = 0; i < k->nparams; i++) {
		const struct model_param *m = &k->params[i];
		struct pack_param p = {0};
		if (m->rank < 0 || m->rank > MODEL_MAX_RANK)
			writer_fail(w, "a parameter's rank is over the limit", m->name);
		p.default_value = m->has_default ? m->default_value : 0;
		p.name = string_add(w, m->name);
		p.flags = (m->is_tensor ? PACK_PARAM_TENSOR : 0) | (m->optional ? PACK_PARAM_OPTIONAL : 0) | (m->list ? PACK_PARAM_LIST : 0) | (m->has_default ? PACK_PARAM_DEFAULT : 0);
		p.role = (uint8_t)m->role;
		p.rank = (uint8_t)m->rank;
		for (int d = 0; d < m->rank && d < MODEL_MAX_RANK; d++)
			p.extent[d] = code_add(w, m->extent[d]);
		record_add(w, PS_PARAMS, &p, sizeof p);
	}
	return r;
}

static struct pack_range symbols_add(struct writer *w, const struct model_kernel *k)
{
	struct pack_range r = {w->counts[PS_SYMBOLS], (uint32_t)k->nsymbols};
	for (int i = 0; i < k->nsymbols; i++) {
		const struct model_symbol *m = &k->symbols[i];
		struct pack_symbol s = {m->mul, m->add, string_add(w, m->name), m->tensor, m->dim, 0};
		record_add(w, PS_SYMBOLS, &s, sizeof s);
	}
	return r;
}

static struct pack_range requires_add(struct writer *w, const struct model_kernel *k)
{
	struct pack_range r = {w->counts[PS_REQUIRES], (uint32_t)k->nrequires};
	for (int i = 0; i < k->nrequires; i++) {
		struct pack_require q = {code_add(w, k->requires[i].expr), string_add(w, k->requires[i].text)};
		record_add(w, PS_REQUIRES, &q, sizeof q);
	}
	return r;
}

static struct pack_range instances_add(struct writer *w, const struct model_kernel *k)
{
	struct pack_range r = {w->counts[PS_INSTANCES], (uint32_t)k->ninstances};
	for (int i = 0; i < k->ninstances; i++) {
		const struct model_instance *m = &k->instances[i];
		struct pack_instance n = {string_add(w, m->name), w->counts[PS_TYPES]};
		for (int p = 0; p < k->nparams && p < MODEL_MAX_PARAM; p++) {
			const struct dtype_info *t = dtype_info(m->dtype[p]);
			struct pack_type y = {t->dl_code, t->dl_bits, m->native[p], 0};
			record_add(w, PS_TYPES, &y, sizeof y);
		}
		record_add(w, PS_INSTANCES, &n, sizeof n);
	}
	return r;
}

/* Equal lists of arguments are stored once: variants of a kernel differ little here. */
static struct pack_range kargs_add(struct writer *w, const struct model_launch *m)
{
	struct pack_karg *list = arena_alloc(&w->arena, (size_t)m->nkargs * sizeof *list);
	for (int i = 0; i < m->nkargs; i++) {
		const struct model_karg *a = &m->kargs[i];
		list[i] = (struct pack_karg){a->kind, a->a, a->b, a->size, a->offset};
	}
	uint32_t at = pool_add(w, &w->kargs, list, (size_t)m->nkargs * sizeof *list);
	return (struct pack_range){at / (uint32_t)sizeof *list, (uint32_t)m->nkargs};
}

static void launch_add(struct writer *w, const struct model_launch *m)
{
	struct pack_launch l = {0};
	l.symbol = string_add(w, m->symbol);
	l.block = (uint16_t)m->block;
	l.flags = (uint16_t)((m->overlaps ? PACK_OVERLAPS : 0) | (m->together ? PACK_TOGETHER : 0) | (m->meets ? PACK_MEETS : 0));
	l.kernarg_bytes = (uint32_t)m->kernarg_bytes;
	for (int d = 0; d < 3; d++)
		l.grid[d] = code_add(w, m->grid[d]);
	l.lanes = code_add(w, m->lanes);
	l.kargs = kargs_add(w, m);
	l.exprs = (struct pack_range){w->counts[PS_EXPRS], (uint32_t)m->nexprs};
	for (int i = 0; i < m->nexprs; i++) {
		struct pack_code_ref c = code_add(w, m->exprs[i]);
		record_add(w, PS_EXPRS, &c, sizeof c);
	}
	l.vgpr = m->vgpr, l.agpr = m->agpr, l.sgpr = m->sgpr, l.lds = m->lds, l.scratch = m->scratch, l.spills = m->spills;
	l.instructions = m->instructions, l.barriers = m->barriers;
	record_add(w, PS_LAUNCHES, &l, sizeof l);
}

static struct pack_range variants_add(struct writer *w, const struct model_kernel *k)
{
	struct pack_range r = {w->counts[PS_VARIANTS], (uint32_t)k->nvariants};
	for (int i = 0; i < k->nvariants; i++) {
		const struct model_variant *m = &k->variants[i];
		struct pack_variant v = {0};
		v.instance = (uint32_t)m->instance;
		v.target = string_add(w, m->target);
		v.predicate_text = string_add(w, m->predicate_text);
		v.object = (uint32_t)m->object;
		v.report_json = text_add(w, &w->reports, m->report_json);
		v.predicate = code_add(w, m->predicate);
		v.workspace = code_add(w, m->workspace);
		v.launches = (struct pack_range){w->counts[PS_LAUNCHES], (uint32_t)m->nlaunches};
		for (int l = 0; l < m->nlaunches; l++)
			launch_add(w, &m->launches[l]);
		record_add(w, PS_VARIANTS, &v, sizeof v);
	}
	return r;
}

static void kernel_add(struct writer *w, const struct model_kernel *k)
{
	struct pack_kernel r = {0};
	if (k->nparams > MODEL_MAX_PARAM || k->nsymbols > MODEL_MAX_SYMBOL)
		writer_fail(w, "too many parameters or symbols in kernel", k->name);
	r.name = string_add(w, k->name);
	r.doc = string_add(w, k->doc);
	r.flags = k->has_workspace ? PACK_WORKSPACE : 0;
	if (k->pointwise)
		r.flags |= PACK_POINTWISE | (uint32_t)k->rows << PACK_ROWS_SHIFT | (uint32_t)k->columns << PACK_COLUMNS_SHIFT;
	r.params = params_add(w, k);
	r.symbols = symbols_add(w, k);
	r.requires = requires_add(w, k);
	r.instances = instances_add(w, k);
	r.variants = variants_add(w, k);
	record_add(w, PS_KERNELS, &r, sizeof r);
}

/* Records of the parts and objects; their offsets count from the blobs' start until the index's size is known. */
static void bodies_add(struct writer *w, struct buffer *blobs)
{
	struct pack_part parts[PP_COUNT];
	const struct buffer *reports = &w->reports.data;
	struct pack_object *objects = arena_alloc(&w->arena, (size_t)w->model->nobjects * sizeof *objects + 1);
	if (w->failed)
		return;
	if (pack_compress(w->model, reports->bytes, reports->size > 1 ? reports->size : 0, parts, objects, blobs, w->err, w->errlen) < 0)
		w->failed = true;
	for (int i = 0; i < PP_COUNT && !w->failed; i++)
		record_add(w, PS_PARTS, &parts[i], sizeof parts[i]);
	for (int i = 0; i < w->model->nobjects && !w->failed; i++) {
		objects[i].target = string_add(w, w->model->objects[i].target);
		record_add(w, PS_OBJECTS, &objects[i], sizeof objects[i]);
	}
}

/* Lays header, index and blobs out in one malloc'ed block. */
static void pack_assemble(struct writer *w, const struct buffer *blobs, void **bytes, size_t *size)
{
	struct pack_index index = {0};
	struct pack_header h = {.magic = PACK_MAGIC, .version = PACK_VERSION, .header_bytes = sizeof h, .index_offset = sizeof h};
	size_t at = sizeof index;
	w->sections[PS_STRINGS] = w->strings.data;
	w->sections[PS_CODE] = w->code.data;
	w->counts[PS_STRINGS] = (uint32_t)w->strings.data.size;
	w->counts[PS_CODE] = (uint32_t)w->code.data.size;
	w->sections[PS_KARGS] = w->kargs.data;
	w->counts[PS_KARGS] = (uint32_t)(w->kargs.data.size / sizeof(struct pack_karg));
	for (int s = 0; s < PS_COUNT; s++) {
		index.sections[s] = (struct pack_section_ref){(uint32_t)at, w->counts[s]};
		at = (at + w->sections[s].size + 7) & ~(size_t)7;
	}
	h.index_bytes = at;
	h.total_bytes = sizeof h + at + blobs->size;
	if (at > UINT32_MAX / 2) {
		writer_fail(w, "the index is over 2 GiB", NULL);
		return;
	}
	uint8_t *out = calloc(1, h.total_bytes);
	if (!out) {
		writer_fail(w, "out of memory", NULL);
		return;
	}
	uint8_t *base = out + sizeof h;
	struct pack_object *objects = (struct pack_object *)(void *)w->sections[PS_OBJECTS].bytes;
	for (uint32_t i = 0; i < w->counts[PS_OBJECTS]; i++)
		objects[i].offset += sizeof h + at;
	struct pack_part *parts = (struct pack_part *)(void *)w->sections[PS_PARTS].bytes;
	for (uint32_t i = 0; i < PP_COUNT; i++)
		parts[i].offset += sizeof h + at;
	memcpy(base, &index, sizeof index);
	for (int s = 0; s < PS_COUNT; s++)
		if (w->sections[s].size)
			memcpy(base + index.sections[s].offset, w->sections[s].bytes, w->sections[s].size);
	if (blobs->size)
		memcpy(base + at, blobs->bytes, blobs->size);
	h.index_hash = XXH3_64bits(base, at);
	h.header_hash = XXH3_64bits(&h, offsetof(struct pack_header, header_hash));
	memcpy(out, &h, sizeof h);
	*bytes = out;
	*size = h.total_bytes;
}

int pack_write(const struct model_pack *model, void **bytes, size_t *size, char *err, size_t errlen)
{
	struct writer w = {.model = model, .err = err, .errlen = errlen};
	struct buffer blobs = {0};
	void *out = NULL;
	size_t n = 0;

	string_add(&w, ""); /* offset 0 is the empty string, and no report */
	text_add(&w, &w.reports, "");
	struct pack_meta meta = {string_add(&w, model->tdsl_version), string_add(&w, model->llvm_version), string_add(&w, model->options),
	                         string_add(&w, model->licence), string_add(&w, model->fp8), string_add(&w, model->source),
	                         string_add(&w, model->source_name), 0, {model->source_hash[0], model->source_hash[1]}};
	record_add(&w, PS_META, &meta, sizeof meta);
	for (int i = 0; i < model->nkernels; i++)
		kernel_add(&w, &model->kernels[i]);
	bodies_add(&w, &blobs);
	if (!w.failed)
		pack_assemble(&w, &blobs, &out, &n);
	for (int s = 0; s < PS_COUNT; s++)
		if (s != PS_STRINGS && s != PS_CODE && s != PS_KARGS)
			free(w.sections[s].bytes);
	pool_free(&w.strings), pool_free(&w.code), pool_free(&w.kargs), pool_free(&w.reports);
	free(blobs.bytes);
	arena_free(&w.arena);

	struct pack_file *check = NULL;
	if (!w.failed && pack_open_memory(&check, out, n, "the pack being written", err, errlen) < 0)
		w.failed = true;
	pack_close(check);
	if (w.failed) {
		free(out);
		return -1;
	}
	*bytes = out;
	*size = n;
	return 0;
}
