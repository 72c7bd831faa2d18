/* pack_compress.c -- code objects and reports -> zstd frames, with a dictionary that the objects share.
 *
 * Objects of one pack repeat each other: headers, notes, prologues, whole loops.  The dictionary is trained on objects spread evenly over
 * the model and holds the stretches that most of them have; objects so small then take half the bytes at a low level, which compresses
 * ten times as fast as the highest one without.  Samples, their order and all parameters follow from the model, so its bytes do too.
 *
 * In: a model.  Out: bytes and their records.  A pack for a cache (model_pack.compression) is written once and read soon: no dictionary. */
#define ZDICT_STATIC_LINKING_ONLY /* ZDICT_trainFromBuffer_fastCover: the static library is the one that is linked */
#include "pack_compress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zdict.h>
#include <zstd.h>

enum {
	LEVEL = 9,                                /* docs/pack.md has what other levels give */
	FEWEST_OBJECTS = 8,                       /* below, a dictionary costs more than it saves */
	SHARE = 16, MOST_DICTIONARY = 256 << 10,  /* its size: this part of the objects, at most this */
	MOST_SAMPLES = 300
};

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

/* Trains the dictionary into *bytes (malloc'ed); *size 0 where the pack is better off without one. */
static int dictionary_train(struct compressor *c, void **bytes, size_t *size)
{
	const struct model_pack *m = c->model;
	size_t total = 0, n = 0;
	struct buffer samples = {0};
	size_t sizes[MOST_SAMPLES];
	*bytes = NULL;
	*size = 0;
	for (int i = 0; i < m->nobjects; i++)
		total += m->objects[i].size;
	size_t most = total / SHARE < MOST_DICTIONARY ? total / SHARE : MOST_DICTIONARY;
	if (m->compression || m->nobjects < FEWEST_OBJECTS || most < ZDICT_DICTSIZE_MIN)
		return 0;
	int wanted = m->nobjects < MOST_SAMPLES ? m->nobjects : MOST_SAMPLES;
	bool fine = (*bytes = malloc(most)) != NULL;
	for (int i = 0; i < wanted && fine; i++) {
		const struct model_object *o = &m->objects[(long)i * m->nobjects / wanted];
		fine = buffer_append(&samples, o->bytes, o->size);
		sizes[n++] = o->size;
	}
	if (fine) {
		ZDICT_fastCover_params_t how = {.k = 1024, .d = 8, .f = 18, .accel = 1, .zParams = {.compressionLevel = c->level}};
		size_t made = ZDICT_trainFromBuffer_fastCover(*bytes, most, samples.bytes, sizes, (unsigned)n, how);
		*size = ZDICT_isError(made) ? 0 : made; /* objects with nothing in common: none */
	}
	free(samples.bytes);
	return fine ? 0 : compress_fail(c, "out of memory", NULL);
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
	void *bytes;
	size_t n;
	int rc = dictionary_train(c, &bytes, &n);
	*part = (struct pack_part){c->out->size, n, n, XXH3_64bits(bytes, n)};
	if (rc == 0 && n && (!buffer_append(c->out, bytes, n) || !(c->dictionary = ZSTD_createCDict(bytes, n, c->level))))
		rc = compress_fail(c, "out of memory", NULL);
	free(bytes);
	return rc;
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
