/* pack_compress.h -- the compressed half of a pack being written: dictionary, reports, code objects. */
#ifndef TDSL_PACK_COMPRESS_H
#define TDSL_PACK_COMPRESS_H
#include "pack.h"

struct buffer { uint8_t *bytes; size_t size, cap; };
bool buffer_append(struct buffer *, const void *data, size_t n);   /* false: out of memory */

/* Appends dictionary, reports (NUL-ended texts; size 0 = none) and the model's objects to `out` and fills the records (objects: the
 * model's number of them; their targets are left alone), offsets counted from the start of `out`.  0, or -1 with text. */
int pack_compress(const struct model_pack *, const void *reports, size_t reports_size, struct pack_part parts[PP_COUNT],
                  struct pack_object *objects, struct buffer *out, char *err, size_t errlen);
#endif
