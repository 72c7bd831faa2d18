/* pack_load.c -- what a pack holds compressed: code objects and reports -> checked bytes, when they are first needed.
 *
 * Code objects may have been compressed with the pack's dictionary.  It is checked and made ready for the decompressor once for each open
 * pack, read in place, and then used by all threads at once; reports are unpacked once, all together.  What fails is not kept: every
 * call that needs it fails with the same text. */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_createDDict_byReference: the static library is the one that is linked */
#include "pack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>
#include <zstd.h>

struct pack_loaded {
	pthread_mutex_t lock;                     /* held while one of these is made */
	ZSTD_DDict *_Atomic dictionary;
	char *_Atomic reports;
};

struct pack_loaded *pack_loaded_new(void)
{
	struct pack_loaded *l = calloc(1, sizeof *l);
	if (l)
		pthread_mutex_init(&l->lock, NULL);
	return l;
}

void pack_loaded_free(struct pack_loaded *l)
{
	if (!l)
		return;
	ZSTD_freeDDict(l->dictionary);
	free(l->reports);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

pthread_mutex_t *pack_loaded_lock(struct pack_loaded *l)
{
	return &l->lock;
}

static int no_memory(const struct pack_file *p, char *err, size_t errlen)
{
	snprintf(err, errlen, "%s: out of memory", p->name);
	return PACK_ENOMEM;
}

static int damaged(const struct pack_file *p, uint64_t offset, const char *what, char *err, size_t errlen)
{
	snprintf(err, errlen, "%s: offset %llu: %s", p->name, (unsigned long long)offset, what);
	return PACK_EFORMAT;
}

static bool intact(const struct pack_file *p, uint64_t offset, uint64_t bytes, uint64_t hash)
{
	return XXH3_64bits(p->bytes + offset, bytes) == hash;
}

static int dictionary_make(const struct pack_file *p, char *err, size_t errlen)
{
	const struct pack_part *d = &p->parts[PP_DICTIONARY];
	if (!intact(p, d->offset, d->bytes, d->hash))
		return damaged(p, d->offset, "the dictionary of the code objects was altered (checksum)", err, errlen);
	ZSTD_DDict *made = ZSTD_createDDict_byReference(p->bytes + d->offset, d->bytes);
	if (!made)
		return damaged(p, d->offset, "the dictionary of the code objects cannot be used", err, errlen);
	atomic_store(&p->loaded->dictionary, made);
	return 0;
}

static int reports_make(const struct pack_file *p, char *err, size_t errlen)
{
	const struct pack_part *r = &p->parts[PP_REPORTS];
	if (!intact(p, r->offset, r->bytes, r->hash))
		return damaged(p, r->offset, "the reports were altered (checksum)", err, errlen);
	char *text = malloc(r->raw_bytes);
	if (!text)
		return no_memory(p, err, errlen);
	if (ZSTD_decompress(text, r->raw_bytes, p->bytes + r->offset, r->bytes) != r->raw_bytes || text[r->raw_bytes - 1]) {
		free(text);
		return damaged(p, r->offset, "the reports do not decompress to their size", err, errlen);
	}
	atomic_store(&p->loaded->reports, text);
	return 0;
}

/* Makes the dictionary or the reports ready, where the pack has them; they stay until it is closed. */
static int part_load(const struct pack_file *p, enum pack_part_kind what, char *err, size_t errlen)
{
	struct pack_loaded *l = p->loaded;
	int rc = 0;
	if (!p->parts[what].bytes || (what == PP_DICTIONARY ? l->dictionary != NULL : l->reports != NULL))
		return 0;
	pthread_mutex_lock(&l->lock);
	if (what == PP_DICTIONARY && !l->dictionary)
		rc = dictionary_make(p, err, errlen);
	else if (what == PP_REPORTS && !l->reports)
		rc = reports_make(p, err, errlen);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int pack_object_load(const struct pack_file *p, uint32_t object, uint8_t **bytes, size_t *size, char *err, size_t errlen)
{
	char what[80];
	if (object >= p->nobjects) {
		snprintf(err, errlen, "%s: no code object %u; the pack has %u", p->name, object, p->nobjects);
		return PACK_EFORMAT;
	}
	const struct pack_object *o = &p->objects[object];
	int rc = part_load(p, PP_DICTIONARY, err, errlen);
	if (rc < 0)
		return rc;
	if (!intact(p, o->offset, o->bytes, o->hash)) {
		snprintf(what, sizeof what, "code object %u was altered (checksum)", object);
		return damaged(p, o->offset, what, err, errlen);
	}
	ZSTD_DCtx *context = ZSTD_createDCtx();
	uint8_t *raw = malloc(o->raw_bytes);
	if (!context || !raw) {
		ZSTD_freeDCtx(context);
		free(raw);
		return no_memory(p, err, errlen);
	}
	size_t n = ZSTD_decompress_usingDDict(context, raw, o->raw_bytes, p->bytes + o->offset, o->bytes, p->loaded->dictionary);
	ZSTD_freeDCtx(context);
	if (n != o->raw_bytes) {
		free(raw);
		snprintf(what, sizeof what, "code object %u does not decompress to %llu bytes", object, (unsigned long long)o->raw_bytes);
		return damaged(p, o->offset, what, err, errlen);
	}
	*bytes = raw;
	*size = n;
	return 0;
}

int pack_report(const struct pack_file *p, const struct pack_variant *v, const char **json, char *err, size_t errlen)
{
	int rc = v->report_json ? part_load(p, PP_REPORTS, err, errlen) : 0;
	*json = rc == 0 && v->report_json ? p->loaded->reports + v->report_json : NULL;
	return rc;
}

int pack_verify(const struct pack_file *p, char *err, size_t errlen)
{
	int rc = part_load(p, PP_DICTIONARY, err, errlen);
	if (rc == 0)
		rc = part_load(p, PP_REPORTS, err, errlen);
	for (uint32_t i = 0; rc == 0 && i < p->nobjects; i++) {
		uint8_t *bytes;
		size_t size;
		rc = pack_object_load(p, i, &bytes, &size, err, errlen);
		if (rc == 0)
			free(bytes);
	}
	return rc;
}
