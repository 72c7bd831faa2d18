/* pack_read.c -- a file or a block of memory -> a checked struct pack_file whose records are used in place.
 *
 * Opening verifies header and index checksums, then every reference of every record, so that users index without checks.
 * Checksums find accidents; the reference checks keep a deliberately altered file with fresh checksums from doing harm.
 * What is compressed is checked when it is unpacked (pack_load.c). */
#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* Variants of a kernel share most of their expressions and argument lists: what was found good for the kernel at hand is not looked
 * at again.  Both tables are hints: an entry that another one displaced is checked once more. */
enum { SEEN_CODE_BITS = 9, SEEN_ARGS_BITS = 6 };
struct seen_code { const struct pack_kernel *kernel; struct pack_code_ref code; };
struct seen_args { const struct pack_kernel *kernel; struct pack_range kargs; uint32_t bytes, exprs; };
struct check {
	const struct pack_file *p; char *err; size_t errlen;
	struct seen_code code[1 << SEEN_CODE_BITS];
	struct seen_args args[1 << SEEN_ARGS_BITS];
};

static uint32_t seen_slot(uint32_t key, int bits)
{
	return key * 2654435769u >> (32 - bits);
}

#define BAD(c, ...) do { \
	int bad_n_ = snprintf((c)->err, (c)->errlen, "%s: ", (c)->p->name); \
	if (bad_n_ >= 0 && (size_t)bad_n_ < (c)->errlen) snprintf((c)->err + bad_n_, (c)->errlen - (size_t)bad_n_, __VA_ARGS__); \
	return PACK_EFORMAT; } while (0)
#define CHECK(call) do { int check_rc_ = (call); if (check_rc_ < 0) return check_rc_; } while (0)

/* File offset of a pointer into the pack, for messages. */
static size_t place(const struct check *c, const void *at)
{
	return (size_t)((const uint8_t *)at - c->p->bytes);
}

static int string_check(const struct check *c, uint32_t offset, const void *record, const char *what)
{
	if (offset >= c->p->nstrings)
		BAD(c, "offset %zu: %s: string %u is outside the strings (%u bytes)", place(c, record), what, offset, c->p->nstrings);
	return 0;
}

static bool is_tensor(const struct check *c, const struct pack_kernel *k, uint64_t param)
{
	return param < k->params.count && (c->p->params[k->params.first + param].flags & PACK_PARAM_TENSOR);
}

/* True where a leaf of an expression means something in this kernel. */
static bool leaf_known(const struct check *c, const struct pack_kernel *k, uint8_t op, int64_t imm)
{
	uint64_t at = (uint64_t)imm;
	switch (op) {
	case HX_CONST: return true;
	case HX_SYM: return at < k->symbols.count;
	case HX_DEVICE: return at < HX_FACTS;
	case HX_STRIDE: return is_tensor(c, k, at / 16) && at % 16 < c->p->params[k->params.first + at / 16].rank;
	default: return is_tensor(c, k, at);
	}
}

/* Operations, and what the leaves refer to; hexpr_code_eval checks the rest when it evaluates. */
static int code_check(struct check *c, const struct pack_kernel *k, struct pack_code_ref r, const void *record, const char *what)
{
	struct seen_code *seen = &c->code[seen_slot(r.offset, SEEN_CODE_BITS)];
	if (seen->kernel == k && seen->code.offset == r.offset && seen->code.size == r.size)
		return 0;
	if (r.offset > c->p->ncode || r.size > c->p->ncode - r.offset)
		BAD(c, "offset %zu: %s: expression %u+%u is outside the code (%u bytes)", place(c, record), what, r.offset, r.size, c->p->ncode);
	const uint8_t *code = c->p->code + r.offset, *end = code + r.size;
	while (code < end) {
		const uint8_t *start = code;
		uint8_t op = *code++;
		uint64_t imm = 0;
		if (op < HX_COUNT && !hexpr_op_is_leaf(op)) /* no operand follows */
			continue;
		bool ended = false;
		for (int shift = 0; !ended && op < HX_COUNT && code < end && shift < 64; shift += 7) {
			imm |= (uint64_t)(*code & 0x7f) << shift;
			ended = !(*code++ & 0x80);
		}
		if (!ended || !leaf_known(c, k, op, (int64_t)(imm >> 1) ^ -(int64_t)(imm & 1)))
			BAD(c, "offset %zu: %s: malformed expression", place(c, start), what);
	}
	*seen = (struct seen_code){k, r};
	return 0;
}

static int range_check(const struct check *c, struct pack_range r, uint32_t count, uint32_t limit, const void *record, const char *what)
{
	if (r.first > count || r.count > count - r.first)
		BAD(c, "offset %zu: %s %u+%u are outside their section (%u)", place(c, record), what, r.first, r.count, count);
	if (r.count > limit)
		BAD(c, "offset %zu: %u %s, at most %u are allowed", place(c, record), r.count, what, limit);
	return 0;
}

static int header_check(const struct check *c)
{
	const struct pack_file *p = c->p;
	struct pack_header h;
	if (p->size < sizeof PACK_MAGIC - 1 || memcmp(p->bytes, PACK_MAGIC, sizeof PACK_MAGIC - 1) != 0)
		BAD(c, "offset 0: not a kernel pack (no \"%s\" at the start)", PACK_MAGIC);
	if (p->size < sizeof h)
		BAD(c, "offset %zu: truncated: the header has %zu bytes", p->size, sizeof h);
	memcpy(&h, p->bytes, sizeof h);
	if (h.version != PACK_VERSION) {
		snprintf(c->err, c->errlen, "%s: offset 8: pack format %u; this library reads format %d", p->name, h.version, PACK_VERSION);
		return PACK_EVERSION;
	}
	if (XXH3_64bits(p->bytes, offsetof(struct pack_header, header_hash)) != h.header_hash)
		BAD(c, "offset 0: the header was altered (checksum)");
	if (p->size < h.total_bytes)
		BAD(c, "offset %zu: truncated: the pack has %llu bytes", p->size, (unsigned long long)h.total_bytes);
	if (p->size > h.total_bytes)
		BAD(c, "offset %llu: %llu bytes follow the end of the pack", (unsigned long long)h.total_bytes,
		    (unsigned long long)(p->size - h.total_bytes));
	if (h.header_bytes != sizeof h || h.index_offset != sizeof h || h.index_bytes > h.total_bytes - sizeof h ||
	    h.index_bytes < sizeof(struct pack_index))
		BAD(c, "offset 24: the header's sizes do not fit together");
	if (XXH3_64bits(p->bytes + h.index_offset, h.index_bytes) != h.index_hash)
		BAD(c, "offset %llu: the index was altered (checksum)", (unsigned long long)h.index_offset);
	return 0;
}

/* Points the section pointers of `p` into the index. */
static int sections_set(struct pack_file *p, const struct check *c, uint32_t count[PS_COUNT])
{
	static const uint32_t sizes[PS_COUNT] = {
		1, 1, sizeof(struct pack_meta), sizeof(struct pack_kernel), sizeof(struct pack_param), sizeof(struct pack_symbol),
		sizeof(struct pack_require), sizeof(struct pack_instance), sizeof(struct pack_type), sizeof(struct pack_variant),
		sizeof(struct pack_launch), sizeof(struct pack_karg), sizeof(struct pack_code_ref), sizeof(struct pack_object), sizeof(struct pack_part)};
	const struct pack_header *h = (const void *)p->bytes;
	const uint8_t *base = p->bytes + h->index_offset;
	const struct pack_index *index = (const void *)base;
	const void *at[PS_COUNT];
	for (int s = 0; s < PS_COUNT; s++) {
		struct pack_section_ref r = index->sections[s];
		if (r.offset % 8 || r.offset > h->index_bytes || (uint64_t)r.count * sizes[s] > h->index_bytes - r.offset)
			BAD(c, "offset %zu: section %d (%u records at %u) is outside the index", place(c, &index->sections[s]), s, r.count, r.offset);
		at[s] = base + r.offset;
		count[s] = r.count;
	}
	p->strings = at[PS_STRINGS], p->nstrings = count[PS_STRINGS];
	p->code = at[PS_CODE], p->ncode = count[PS_CODE];
	p->meta = at[PS_META];
	p->kernels = at[PS_KERNELS], p->nkernels = count[PS_KERNELS];
	p->params = at[PS_PARAMS], p->symbols = at[PS_SYMBOLS], p->requires = at[PS_REQUIRES], p->instances = at[PS_INSTANCES];
	p->types = at[PS_TYPES];
	p->variants = at[PS_VARIANTS], p->nvariants = count[PS_VARIANTS];
	p->launches = at[PS_LAUNCHES], p->kargs = at[PS_KARGS], p->exprs = at[PS_EXPRS];
	p->objects = at[PS_OBJECTS], p->nobjects = count[PS_OBJECTS];
	p->parts = at[PS_PARTS];
	if (p->nstrings == 0 || p->strings[0] != 0 || p->strings[p->nstrings - 1] != 0 || count[PS_META] != 1 || count[PS_PARTS] != PP_COUNT)
		BAD(c, "offset %zu: the strings or the description are malformed", place(c, base));
	return 0;
}

/* After the symbols' and parameters' own ranges: expressions refer to both. */
static int params_check(struct check *c, const struct pack_kernel *k)
{
	for (uint32_t i = 0; i < k->params.count; i++) {
		const struct pack_param *m = &c->p->params[k->params.first + i];
		CHECK(string_check(c, m->name, m, "parameter"));
		bool list = m->flags & PACK_PARAM_LIST;
		if (m->rank > MODEL_MAX_RANK || m->role > ROLE_INOUT || (list && (m->rank != 2 || !(m->flags & PACK_PARAM_TENSOR))))
			BAD(c, "offset %zu: a parameter of rank %u and role %u", place(c, m), m->rank, m->role);
		for (int d = 0; d < m->rank; d++) {
			CHECK(code_check(c, k, m->extent[d], m, "extent"));
			if (m->extent[d].size == 0)
				BAD(c, "offset %zu: an extent without expression", place(c, m));
		}
	}
	return 0;
}

static int symbols_check(const struct check *c, const struct pack_kernel *k)
{
	for (uint32_t i = 0; i < k->symbols.count; i++) {
		const struct pack_symbol *s = &c->p->symbols[k->symbols.first + i];
		CHECK(string_check(c, s->name, s, "symbol"));
		if (s->tensor < 0 || !is_tensor(c, k, (uint32_t)s->tensor) || s->dim < 0 ||
		    s->dim >= c->p->params[k->params.first + (uint32_t)s->tensor].rank || s->mul <= 0 || s->mul > INT32_MAX || s->add < -INT32_MAX || s->add > INT32_MAX)
			BAD(c, "offset %zu: a symbol solved from dimension %d of parameter %d, times %lld", place(c, s), s->dim, s->tensor,
			    (long long)s->mul);
	}
	return 0;
}

static int karg_check(const struct check *c, const struct pack_kernel *k, const struct pack_launch *l, const struct pack_karg *a)
{
	static const uint8_t size_of[] = {[KA_POINTER] = 8, [KA_STRIDE] = 8, [KA_STRIDE32] = 4, [KA_SYMBOL] = 4, [KA_SCALAR] = 0,
	                                  [KA_FOLD_INNER] = 4, [KA_FOLD_STRIDE] = 8, [KA_WORKSPACE] = 8, [KA_EXPR] = 4};
	if (a->kind >= sizeof size_of || (size_of[a->kind] ? a->size != size_of[a->kind] : a->size != 4 && a->size != 8) ||
	    a->offset > l->kernarg_bytes || a->size > l->kernarg_bytes - a->offset)
		BAD(c, "offset %zu: kernel argument of kind %u, %u bytes at %u of %u", place(c, a), a->kind, a->size, a->offset, l->kernarg_bytes);
	bool tensor = is_tensor(c, k, a->a), ok = true;
	switch (a->kind) {
	case KA_POINTER: case KA_FOLD_INNER: case KA_FOLD_STRIDE: ok = tensor; break;
	case KA_STRIDE: case KA_STRIDE32: ok = tensor && a->b < c->p->params[k->params.first + a->a].rank; break;
	case KA_SYMBOL: ok = a->a < k->symbols.count; break;
	case KA_SCALAR: ok = a->a < k->params.count && !tensor; break;
	case KA_EXPR: ok = a->b < l->exprs.count; break;
	}
	if (!ok)
		BAD(c, "offset %zu: kernel argument of kind %u refers to %u, %u", place(c, a), a->kind, a->a, a->b);
	return 0;
}

static int launch_check(struct check *c, const struct pack_kernel *k, const struct pack_launch *l, const uint32_t count[PS_COUNT])
{
	CHECK(string_check(c, l->symbol, l, "device function"));
	CHECK(range_check(c, l->kargs, count[PS_KARGS], 1024, l, "kernel arguments"));
	CHECK(range_check(c, l->exprs, count[PS_EXPRS], 256, l, "expressions"));
	if (l->flags & ~(PACK_OVERLAPS | PACK_TOGETHER | PACK_MEETS))
		BAD(c, "offset %zu: a launch with unknown flags %x", place(c, l), l->flags);
	if (l->block == 0 || l->block > 1024 || l->kernarg_bytes > PACK_MAX_KERNARG)
		BAD(c, "offset %zu: a workgroup of %u lanes with %u bytes of arguments", place(c, l), l->block, l->kernarg_bytes);
	for (int d = 0; d < 3; d++) {
		CHECK(code_check(c, k, l->grid[d], l, "grid"));
		if (l->grid[d].size == 0)
			BAD(c, "offset %zu: a grid without expression", place(c, l));
	}
	CHECK(code_check(c, k, l->lanes, l, "number of lanes"));
	for (uint32_t i = 0; i < l->exprs.count; i++) {
		const struct pack_code_ref *r = &c->p->exprs[l->exprs.first + i];
		CHECK(code_check(c, k, *r, r, "expression"));
		if (r->size == 0)
			BAD(c, "offset %zu: an empty expression", place(c, r));
	}
	struct seen_args *seen = &c->args[seen_slot(l->kargs.first, SEEN_ARGS_BITS)], args = {k, l->kargs, l->kernarg_bytes, l->exprs.count};
	if (memcmp(seen, &args, sizeof args) != 0)
		for (uint32_t i = 0; i < l->kargs.count; i++)
			CHECK(karg_check(c, k, l, &c->p->kargs[l->kargs.first + i]));
	*seen = args;
	return 0;
}

static int kernel_check(struct check *c, const struct pack_kernel *k, const uint32_t count[PS_COUNT])
{
	const struct pack_file *p = c->p;
	CHECK(string_check(c, k->name, k, "kernel"));
	CHECK(string_check(c, k->doc, k, "kernel"));
	CHECK(range_check(c, k->params, count[PS_PARAMS], MODEL_MAX_PARAM, k, "parameters"));
	CHECK(range_check(c, k->symbols, count[PS_SYMBOLS], MODEL_MAX_SYMBOL, k, "symbols"));
	CHECK(range_check(c, k->requires, count[PS_REQUIRES], 1024, k, "requires"));
	CHECK(range_check(c, k->instances, count[PS_INSTANCES], 1u << 16, k, "instances"));
	CHECK(range_check(c, k->variants, count[PS_VARIANTS], 1u << 20, k, "variants"));
	uint32_t rows = k->flags >> PACK_ROWS_SHIFT & 255, columns = k->flags >> PACK_COLUMNS_SHIFT & 255;
	if (k->flags & ~(uint32_t)PACK_KERNEL_FLAGS || (k->flags & PACK_POINTWISE ? rows >= k->symbols.count || columns >= k->symbols.count || rows == columns : k->flags > PACK_WORKSPACE))
		BAD(c, "offset %zu: a kernel with flags %x and %u symbols", place(c, k), k->flags, k->symbols.count);
	CHECK(params_check(c, k));
	CHECK(symbols_check(c, k));
	for (uint32_t i = 0; i < k->requires.count; i++) {
		const struct pack_require *q = &p->requires[k->requires.first + i];
		CHECK(code_check(c, k, q->expr, q, "require"));
		CHECK(string_check(c, q->text, q, "require"));
		if (q->expr.size == 0)
			BAD(c, "offset %zu: a require without expression", place(c, q));
	}
	for (uint32_t i = 0; i < k->instances.count; i++) {
		const struct pack_instance *n = &p->instances[k->instances.first + i];
		CHECK(string_check(c, n->name, n, "instance"));
		CHECK(range_check(c, (struct pack_range){n->types, k->params.count}, count[PS_TYPES], MODEL_MAX_PARAM, n, "types"));
	}
	for (uint32_t i = 0; i < k->variants.count; i++) {
		const struct pack_variant *v = &p->variants[k->variants.first + i];
		CHECK(string_check(c, v->target, v, "target"));
		CHECK(string_check(c, v->predicate_text, v, "predicate"));
		CHECK(code_check(c, k, v->predicate, v, "predicate"));
		CHECK(code_check(c, k, v->workspace, v, "workspace"));
		CHECK(range_check(c, v->launches, count[PS_LAUNCHES], 256, v, "launches"));
		if (v->report_json && v->report_json >= p->parts[PP_REPORTS].raw_bytes)
			BAD(c, "offset %zu: a report at %u of %llu bytes", place(c, v), v->report_json, (unsigned long long)p->parts[PP_REPORTS].raw_bytes);
		if (v->instance >= k->instances.count || v->object >= p->nobjects)
			BAD(c, "offset %zu: a variant of instance %u in object %u", place(c, v), v->instance, v->object);
		for (uint32_t l = 0; l < v->launches.count; l++)
			CHECK(launch_check(c, k, &p->launches[v->launches.first + l], count));
	}
	return 0;
}

/* Parts and objects lie one after the other from the index's end to the file's end: no byte is outside a checksum. */
static int bodies_check(const struct check *c)
{
	static const uint64_t most[PP_COUNT] = {PACK_MAX_DICTIONARY, PACK_MAX_REPORTS};
	const struct pack_header *h = (const void *)c->p->bytes;
	uint64_t at = h->index_offset + h->index_bytes;
	for (uint32_t i = 0; i < PP_COUNT; i++) {
		const struct pack_part *o = &c->p->parts[i];
		if (o->offset != at || o->bytes > h->total_bytes - at || o->raw_bytes > most[i] || !o->bytes != !o->raw_bytes ||
		    (i == PP_DICTIONARY && o->bytes != o->raw_bytes))
			BAD(c, "offset %zu: part %u: %llu bytes at %llu do not follow %llu", place(c, o), i, (unsigned long long)o->bytes,
			    (unsigned long long)o->offset, (unsigned long long)at);
		at += o->bytes;
	}
	for (uint32_t i = 0; i < c->p->nobjects; i++) {
		const struct pack_object *o = &c->p->objects[i];
		CHECK(string_check(c, o->target, o, "target"));
		if (o->offset != at || o->bytes > h->total_bytes - at || o->raw_bytes == 0 || o->raw_bytes > PACK_MAX_OBJECT)
			BAD(c, "offset %zu: code object %u: %llu bytes at %llu do not follow %llu", place(c, o), i, (unsigned long long)o->bytes,
			    (unsigned long long)o->offset, (unsigned long long)at);
		at += o->bytes;
	}
	if (at != h->total_bytes)
		BAD(c, "offset %llu: bytes that belong to no code object", (unsigned long long)at);
	return 0;
}

static int pack_check(struct pack_file *p, char *err, size_t errlen)
{
	struct check c = {.p = p, .err = err, .errlen = errlen};
	uint32_t count[PS_COUNT];
	CHECK(header_check(&c));
	CHECK(sections_set(p, &c, count));
	CHECK(string_check(&c, p->meta->tdsl_version, p->meta, "version"));
	CHECK(string_check(&c, p->meta->llvm_version, p->meta, "version"));
	CHECK(string_check(&c, p->meta->options, p->meta, "options"));
	CHECK(string_check(&c, p->meta->licence, p->meta, "licence"));
	CHECK(string_check(&c, p->meta->fp8, p->meta, "fp8"));
	CHECK(string_check(&c, p->meta->source, p->meta, "source"));
	CHECK(string_check(&c, p->meta->source_name, p->meta, "source"));
	for (uint32_t i = 0; i < p->nkernels; i++)
		CHECK(kernel_check(&c, &p->kernels[i], count));
	return bodies_check(&c);
}

int pack_open_memory(struct pack_file **out, const void *bytes, size_t size, const char *name, char *err, size_t errlen)
{
	struct pack_file *p = calloc(1, sizeof *p);
	if (p) {
		p->name = strdup(name);
		p->loaded = pack_loaded_new();
	}
	if (p && (uintptr_t)bytes % 8 && size) { /* records are read in place: they need their alignment */
		p->owned = malloc(size);
		if (p->owned)
			bytes = memcpy(p->owned, bytes, size);
	}
	if (!p || !p->name || !p->loaded || (uintptr_t)bytes % 8) {
		snprintf(err, errlen, "%s: out of memory", name);
		pack_close(p);
		return PACK_ENOMEM;
	}
	p->bytes = bytes;
	p->size = size;
	int rc = pack_check(p, err, errlen);
	if (rc < 0)
		pack_close(p);
	else
		*out = p;
	return rc;
}

int pack_open(struct pack_file **out, const char *path, char *err, size_t errlen)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		snprintf(err, errlen, "%s: cannot read: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return PACK_EIO;
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0) {
		snprintf(err, errlen, "%s: %s", path, S_ISREG(st.st_mode) ? "offset 0: not a kernel pack (the file is empty)" : "not a file");
		close(fd);
		return S_ISREG(st.st_mode) ? PACK_EFORMAT : PACK_EIO;
	}
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	int why = errno;
	close(fd);
	if (map == MAP_FAILED) {
		snprintf(err, errlen, "%s: cannot map: %s", path, strerror(why));
		return PACK_EIO;
	}
	int rc = pack_open_memory(out, map, (size_t)st.st_size, path, err, errlen);
	if (rc < 0)
		munmap(map, (size_t)st.st_size);
	else
		(*out)->mapped = map;
	return rc;
}

void pack_close(struct pack_file *p)
{
	if (!p)
		return;
	if (p->mapped)
		munmap(p->mapped, p->size);
	pack_loaded_free(p->loaded);
	free(p->owned);
	free((void *)(uintptr_t)p->name);
	free(p);
}
