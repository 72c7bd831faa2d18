/* pack_model.c -- an open pack -> struct model_pack, for the tools (list, report, verify, extract).
 * Host expressions are decoded into the arena; an expression that does not decode is an error. */
#include <stdio.h>
#include <stdlib.h>

#include "pack.h"

struct reader { const struct pack_file *p; struct arena *a; char *err; size_t errlen; bool failed; };

static const char *text(const struct reader *r, uint32_t offset)
{
	return pack_string(r->p, offset);
}

static const struct hexpr *expr(struct reader *r, struct pack_code_ref c)
{
	if (c.size == 0)
		return NULL;
	const struct hexpr *e = hexpr_decode(r->a, r->p->code + c.offset, c.size);
	if (!e && !r->failed) {
		snprintf(r->err, r->errlen, "%s: offset %zu: malformed host expression", r->p->name,
		         (size_t)(r->p->code + c.offset - r->p->bytes));
		r->failed = true;
	}
	return e;
}

static void launch_read(struct reader *r, const struct pack_launch *l, struct model_launch *m)
{
	m->symbol = text(r, l->symbol);
	m->block = (int)l->block;
	m->overlaps = l->flags & PACK_OVERLAPS;
	m->together = l->flags & PACK_TOGETHER;
	m->meets = l->flags & PACK_MEETS;
	for (int d = 0; d < 3; d++)
		m->grid[d] = expr(r, l->grid[d]);
	m->lanes = expr(r, l->lanes);
	m->kernarg_bytes = (int)l->kernarg_bytes;
	m->nkargs = (int)l->kargs.count;
	m->kargs = arena_alloc(r->a, l->kargs.count * sizeof *m->kargs);
	for (uint32_t i = 0; i < l->kargs.count; i++) {
		const struct pack_karg *k = &r->p->kargs[l->kargs.first + i];
		m->kargs[i] = (struct model_karg){k->kind, k->a, k->b, k->size, (uint16_t)k->offset};
	}
	const struct hexpr **exprs = arena_alloc(r->a, l->exprs.count * sizeof *exprs);
	for (uint32_t i = 0; i < l->exprs.count; i++)
		exprs[i] = expr(r, r->p->exprs[l->exprs.first + i]);
	m->exprs = exprs;
	m->nexprs = (int)l->exprs.count;
	m->vgpr = l->vgpr, m->agpr = l->agpr, m->sgpr = l->sgpr, m->lds = l->lds, m->scratch = l->scratch, m->spills = l->spills;
	m->instructions = l->instructions, m->barriers = l->barriers;
}

static void variants_read(struct reader *r, const struct pack_kernel *k, struct model_kernel *m)
{
	m->nvariants = (int)k->variants.count;
	m->variants = arena_alloc(r->a, k->variants.count * sizeof *m->variants);
	for (uint32_t i = 0; i < k->variants.count; i++) {
		const struct pack_variant *v = &r->p->variants[k->variants.first + i];
		struct model_variant *n = &m->variants[i];
		n->instance = (int)v->instance;
		n->target = text(r, v->target);
		n->predicate = expr(r, v->predicate);
		n->predicate_text = text(r, v->predicate_text);
		n->workspace = expr(r, v->workspace);
		n->object = (int)v->object;
		if (!r->failed && pack_report(r->p, v, &n->report_json, r->err, r->errlen) < 0)
			r->failed = true;
		n->nlaunches = (int)v->launches.count;
		n->launches = arena_alloc(r->a, v->launches.count * sizeof *n->launches);
		for (uint32_t l = 0; l < v->launches.count; l++)
			launch_read(r, &r->p->launches[v->launches.first + l], &n->launches[l]);
	}
}

static void signature_read(struct reader *r, const struct pack_kernel *k, struct model_kernel *m)
{
	m->nparams = (int)k->params.count;
	m->params = arena_alloc(r->a, k->params.count * sizeof *m->params);
	for (uint32_t i = 0; i < k->params.count; i++) {
		const struct pack_param *q = &r->p->params[k->params.first + i];
		struct model_param *n = &m->params[i];
		n->name = text(r, q->name);
		n->is_tensor = q->flags & PACK_PARAM_TENSOR;
		n->optional = q->flags & PACK_PARAM_OPTIONAL;
		n->list = q->flags & PACK_PARAM_LIST;
		n->has_default = q->flags & PACK_PARAM_DEFAULT;
		n->default_value = q->default_value;
		n->role = q->role;
		n->rank = q->rank;
		for (int d = 0; d < q->rank; d++)
			n->extent[d] = expr(r, q->extent[d]);
	}
	m->nsymbols = (int)k->symbols.count;
	m->symbols = arena_alloc(r->a, k->symbols.count * sizeof *m->symbols);
	for (uint32_t i = 0; i < k->symbols.count; i++) {
		const struct pack_symbol *s = &r->p->symbols[k->symbols.first + i];
		m->symbols[i] = (struct model_symbol){text(r, s->name), s->tensor, s->dim, s->mul, s->add};
	}
	m->nrequires = (int)k->requires.count;
	m->requires = arena_alloc(r->a, k->requires.count * sizeof *m->requires);
	for (uint32_t i = 0; i < k->requires.count; i++) {
		const struct pack_require *q = &r->p->requires[k->requires.first + i];
		m->requires[i].expr = expr(r, q->expr);
		m->requires[i].text = text(r, q->text);
	}
}

static void instances_read(struct reader *r, const struct pack_kernel *k, struct model_kernel *m)
{
	m->ninstances = (int)k->instances.count;
	m->instances = arena_alloc(r->a, k->instances.count * sizeof *m->instances);
	for (uint32_t i = 0; i < k->instances.count; i++) {
		const struct pack_instance *q = &r->p->instances[k->instances.first + i];
		m->instances[i].name = text(r, q->name);
		for (uint32_t j = 0; j < k->params.count; j++) {
			const struct pack_type *t = &r->p->types[q->types + j];
			m->instances[i].dtype[j] = dtype_by_dlpack(t->code, t->bits);
			m->instances[i].native[j] = t->native;
		}
	}
}

int pack_model(const struct pack_file *p, struct arena *a, bool with_objects, struct model_pack *m, char *err, size_t errlen)
{
	struct reader r = {p, a, err, errlen, false};
	*m = (struct model_pack){.nkernels = (int)p->nkernels, .nobjects = (int)p->nobjects};
	m->tdsl_version = text(&r, p->meta->tdsl_version);
	m->llvm_version = text(&r, p->meta->llvm_version);
	m->options = text(&r, p->meta->options);
	m->licence = text(&r, p->meta->licence);
	m->fp8 = text(&r, p->meta->fp8);
	m->source = text(&r, p->meta->source);
	m->source_name = text(&r, p->meta->source_name);
	m->source_hash[0] = p->meta->source_hash[0];
	m->source_hash[1] = p->meta->source_hash[1];
	m->dictionary = p->bytes + p->parts[PP_DICTIONARY].offset;
	m->dictionary_size = p->parts[PP_DICTIONARY].bytes;
	m->kernels = arena_alloc(a, p->nkernels * sizeof *m->kernels);
	for (uint32_t i = 0; i < p->nkernels && !r.failed; i++) {
		const struct pack_kernel *k = &p->kernels[i];
		m->kernels[i].name = text(&r, k->name);
		m->kernels[i].doc = text(&r, k->doc);
		m->kernels[i].has_workspace = k->flags & PACK_WORKSPACE;
		m->kernels[i].pointwise = k->flags & PACK_POINTWISE;
		m->kernels[i].rows = k->flags >> PACK_ROWS_SHIFT & 255;
		m->kernels[i].columns = k->flags >> PACK_COLUMNS_SHIFT & 255;
		signature_read(&r, k, &m->kernels[i]);
		instances_read(&r, k, &m->kernels[i]);
		variants_read(&r, k, &m->kernels[i]);
	}
	m->objects = arena_alloc(a, p->nobjects * sizeof *m->objects);
	for (uint32_t i = 0; i < p->nobjects && !r.failed; i++) {
		m->objects[i].target = text(&r, p->objects[i].target);
		m->objects[i].size = p->objects[i].raw_bytes;
		if (with_objects) {
			uint8_t *bytes;
			size_t size;
			int rc = pack_object_load(p, i, &bytes, &size, err, errlen);
			if (rc < 0)
				return rc;
			m->objects[i].bytes = arena_copy(a, bytes, size);
			free(bytes);
		}
	}
	return r.failed ? PACK_EFORMAT : PACK_OK;
}
