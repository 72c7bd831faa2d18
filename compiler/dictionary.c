/* dictionary.c -- the code objects of a model -> the zstd dictionary that they share in a pack.
 *
 * Objects of one pack repeat each other: headers, notes, prologues, whole loops.  The dictionary holds the stretches that most of them
 * have, found in objects spread evenly over the model.  Samples, their order and every parameter follow from the model, so the dictionary
 * does too.  Only `tdslc` trains: what libtdslc compiles goes to a cache, where time counts more than bytes. */
#define ZDICT_STATIC_LINKING_ONLY /* ZDICT_trainFromBuffer_fastCover: the static library is the one that is linked */
#include "dictionary.h"

#include <stdio.h>
#include <string.h>
#include <zdict.h>
#include <zstd_errors.h>

enum {
	FEWEST_OBJECTS = 8,                       /* below, a dictionary costs more than it saves */
	SHARE = 16, MOST = 256 << 10,             /* its bytes: this part of the objects', at most this */
	MOST_SAMPLES = 300
};

/* Bytes that the dictionary may have; 0 = none. */
static size_t dictionary_most(const struct model_pack *m)
{
	size_t total = 0;
	for (int i = 0; i < m->nobjects; i++)
		total += m->objects[i].size;
	size_t most = total / SHARE < MOST ? total / SHARE : MOST;
	return m->nobjects < FEWEST_OBJECTS || most < ZDICT_DICTSIZE_MIN ? 0 : most;
}

int dictionary_train(struct arena *a, struct model_pack *m, char *err, size_t errlen)
{
	static const ZDICT_fastCover_params_t how = {.k = 1024, .d = 8, .f = 18, .accel = 1};
	size_t most = dictionary_most(m), sizes[MOST_SAMPLES], bytes = 0;
	int n = m->nobjects < MOST_SAMPLES ? m->nobjects : MOST_SAMPLES;
	struct arena scratch = {0};
	if (!most)
		return 0;
	for (int i = 0; i < n; i++)
		bytes += sizes[i] = m->objects[(long)i * m->nobjects / n].size;
	char *samples = arena_alloc(&scratch, bytes), *at = samples;
	for (int i = 0; i < n; at += sizes[i++])
		memcpy(at, m->objects[(long)i * m->nobjects / n].bytes, sizes[i]);
	uint8_t *dictionary = arena_alloc(a, most);
	size_t made = ZDICT_trainFromBuffer_fastCover(dictionary, most, samples, sizes, (unsigned)n, how);
	arena_free(&scratch);
	if (!ZDICT_isError(made)) {
		m->dictionary = dictionary;
		m->dictionary_size = made;
	} else if (ZSTD_getErrorCode(made) == ZSTD_error_memory_allocation) {
		snprintf(err, errlen, "out of memory");
		return -1;
	}
	return 0; /* other errors: nothing in common */
}
