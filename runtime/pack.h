/* pack.h -- packs as bytes: the writer (used by the compiler) and the reader (used by the runtime and the tools).
 * The reader checks everything once when it opens, so that its users may follow every reference of a record unchecked. */
#ifndef TDSL_PACK_H
#define TDSL_PACK_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include "../base/model.h"
#include "pack_format.h"

/* ---- writing.  0 or -1 with a text in err.  The same model gives the same bytes. */
int pack_write(const struct model_pack *, void **bytes, size_t *size, char *err, size_t errlen); /* *bytes: free() */

/* ---- reading */
enum pack_status { PACK_OK = 0, PACK_EIO = -1, PACK_EFORMAT = -2, PACK_EVERSION = -3, PACK_ENOMEM = -4 };

struct pack_file {
	const uint8_t *bytes; size_t size;
	void *mapped, *owned;                     /* what pack_close gives back */
	const char *name;                         /* path, or "memory"; for messages */
	const char *strings; const uint8_t *code; uint32_t nstrings, ncode;
	const struct pack_meta *meta;
	const struct pack_kernel *kernels; uint32_t nkernels;
	const struct pack_param *params;
	const struct pack_symbol *symbols;
	const struct pack_require *requires;
	const struct pack_instance *instances;
	const struct pack_type *types;
	const struct pack_variant *variants; uint32_t nvariants;
	const struct pack_launch *launches;
	const struct pack_karg *kargs;
	const struct pack_code_ref *exprs;
	const struct pack_object *objects; uint32_t nobjects;
	const struct pack_part *parts;            /* PP_COUNT of them */
	struct pack_loaded *loaded;               /* what pack_load.c made of the parts so far */
};

int pack_open(struct pack_file **, const char *path, char *err, size_t errlen);
/* `bytes` must outlive the pack_file. */
int pack_open_memory(struct pack_file **, const void *bytes, size_t size, const char *name, char *err, size_t errlen);
void pack_close(struct pack_file *);

static inline const char *pack_string(const struct pack_file *p, uint32_t offset) { return p->strings + offset; }

/* ---- pack_load.c: what is unpacked when first needed; threads may ask at once */
struct pack_loaded *pack_loaded_new(void);               /* NULL: out of memory */
void pack_loaded_free(struct pack_loaded *);
pthread_mutex_t *pack_loaded_lock(struct pack_loaded *);
/* Decompresses one code object and checks it, and the dictionary before its first use: *bytes is malloc'ed. */
int pack_object_load(const struct pack_file *, uint32_t object, uint8_t **bytes, size_t *size, char *err, size_t errlen);
/* The report of a variant, which lives as long as the pack; NULL = it has none. */
int pack_report(const struct pack_file *, const struct pack_variant *, const char **json, char *err, size_t errlen);
/* Dictionary, reports and every object decompress and match their checksums. */
int pack_verify(const struct pack_file *, char *err, size_t errlen);
/* The whole pack as a model again.  Texts and the dictionary point into the pack_file, which must live as long; objects are decompressed into the
 * arena (with_objects) or left NULL. */
int pack_model(const struct pack_file *, struct arena *, bool with_objects, struct model_pack *, char *err, size_t errlen);
#endif
