/* pack_compress.c -- code objects and reports -> zstd frames; objects share the model's dictionary where it has one.
 *
 * In: a model.  Out: bytes and their records.  With a dictionary a low level gives less than half the bytes of the highest one without, and
 * compresses ten times as fast (docs/pack.md).  A pack for a cache (model_pack.compression) is written once and read soon. */
#include "pack_compress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

enum { LEVEL = 9 };

struct compressor {
	const struct model_pack *model;
	int level;
	ZSTD_CCtx *context;
	ZSTD_CDict *dictionary;
	struct buffer *out;
	char *err; size_t errlen;
};

bool buffer_append(struct buffer *b, const void *data, size_t n)
{
	if (b->cap - b->size < n) {
		size_t cap = (b->size + n) * 2 + 256;
		uint8_t *bytes = realloc(b->bytes, cap);
		if (!bytes)
			return false;
		b->bytes = bytes;
		b->cap = cap;
	}
	if (n)
		memcpy(b->bytes + b->size, data, n);
	b->size += n;
	return true;
}

static int compress_fail(struct compressor *c, const char *what, const char *name)
{
	snprintf(c->err, c->errlen, "%s%s%s", what, name ? ": " : "", name ? name : "");
	return -1;
}

static int objects_check(struct compressor *c)
{
	for (int i = 0; i < c->model->nobjects; i++) {
		const struct model_object *m = &c->model->objects[i];
		if (!m->bytes || m->size == 0 || m->size > PACK_MAX_OBJECT)
			return compress_fail(c, "a code object is missing, empty or too large", m->target);
	}
	return 0;
}

/* Appends one frame; returns its bytes, 0 where memory is out. */
static size_t frame_append(struct compressor *c, const void *bytes, size_t size, const ZSTD_CDict *dictionary)
{
	size_t bound = ZSTD_compressBound(size), n = 0;
	void *packed = malloc(bound);
	if (packed) {
		n = dictionary ? ZSTD_compress_usingCDict(c->context, packed, bound, bytes, size, dictionary)
		               : ZSTD_compressCCtx(c->context, packed, bound, bytes, size, c->level);
		if (ZSTD_isError(n) || !buffer_append(c->out, packed, n))
			n = 0;
	}
	free(packed);
	return n;
}

/* The hash of what was appended last. */
static uint64_t tail_hash(const struct buffer *out, size_t n)
{
	return XXH3_64bits(out->bytes + out->size - n, n);
}

static int dictionary_add(struct compressor *c, struct pack_part *part)
{
	const void *bytes = c->model->dictionary;
	size_t n = c->model->dictionary_size;
	*part = (struct pack_part){c->out->size, n, n, XXH3_64bits(bytes, n)};
	if (n && (!buffer_append(c->out, bytes, n) || !(c->dictionary = ZSTD_createCDict(bytes, n, c->level))))
		return compress_fail(c, "out of memory", NULL);
	return 0;
}

static int reports_add(struct compressor *c, const void *reports, size_t size, struct pack_part *part)
{
	*part = (struct pack_part){.offset = c->out->size, .raw_bytes = size};
	if (size > PACK_MAX_REPORTS)
		return compress_fail(c, "the reports are too large", NULL);
	if (size && !(part->bytes = frame_append(c, reports, size, NULL)))
		return compress_fail(c, "out of memory", NULL);
	part->hash = tail_hash(c->out, part->bytes);
	return 0;
}

static int objects_add(struct compressor *c, struct pack_object *objects)
{
	for (int i = 0; i < c->model->nobjects; i++) {
		const struct model_object *m = &c->model->objects[i];
		objects[i] = (struct pack_object){.offset = c->out->size, .raw_bytes = m->size};
		if (!(objects[i].bytes = frame_append(c, m->bytes, m->size, c->dictionary)))
			return compress_fail(c, "out of memory", NULL);
		objects[i].hash = tail_hash(c->out, objects[i].bytes);
	}
	return 0;
}

int pack_compress(const struct model_pack *model, const void *reports, size_t reports_size, struct pack_part parts[PP_COUNT],
                  struct pack_object *objects, struct buffer *out, char *err, size_t errlen)
{
	struct compressor c = {.model = model, .level = model->compression ? model->compression : LEVEL, .context = ZSTD_createCCtx(),
	                       .out = out, .err = err, .errlen = errlen};
	int rc = c.context ? objects_check(&c) : compress_fail(&c, "out of memory", NULL);
	if (rc == 0)
		rc = dictionary_add(&c, &parts[PP_DICTIONARY]);
	if (rc == 0)
		rc = reports_add(&c, reports, reports_size, &parts[PP_REPORTS]);
	if (rc == 0)
		rc = objects_add(&c, objects);
	ZSTD_freeCDict(c.dictionary);
	ZSTD_freeCCtx(c.context);
	return rc;
}
