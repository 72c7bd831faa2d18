/* tensorfile.h -- safetensors files: named tensors in, named tensors out.
 *
 * Reading is strict: a file that a careful reader could understand in two ways is refused.  Tensors are copied out of
 * the file, each at a 64-byte boundary of its own, so that a kernel may read and write them in place with exact bounds
 * (the format itself promises no alignment).  Writing never leaves half a file.
 * F4 (e2m1) counts elements in its shape, two to a byte; a tensor that ends in half a byte is refused, as the format does.
 * Errors: 0 or a negative TENSORFILE_E*, with the text in the buffer given (file, tensor, what was found and expected). */
#ifndef TDSL_TENSORFILE_H
#define TDSL_TENSORFILE_H
#include "dtype.h"
#include <stddef.h>

enum { TENSORFILE_OK = 0, TENSORFILE_EIO = -1, TENSORFILE_EFORMAT = -2, TENSORFILE_ENOMEM = -3, TENSORFILE_EARG = -4 };
enum { TENSORFILE_MAX_RANK = 32 };

struct tensorfile_tensor {
	const char *name;
	enum dtype dtype;
	int rank;             /* 0 is a scalar: one element */
	const int64_t *shape; /* `rank` extents, each >= 0; dense, last axis fastest */
	int64_t count;        /* elements; ignored by tensorfile_write */
	size_t bytes;         /* ignored by tensorfile_write */
	void *data;           /* may be NULL where bytes is 0 */
};
struct tensorfile;

int tensorfile_open(struct tensorfile **out, const char *path, char *err, size_t errlen);
/* The same from `size` bytes in memory; `name` stands for the path in messages.  The bytes may go after the call. */
int tensorfile_parse(struct tensorfile **out, const void *bytes, size_t size, const char *name, char *err, size_t errlen);
void tensorfile_close(struct tensorfile *);
/* Tensors in the order of their bytes in the file.  Owned by the file; `data` may be written to (the file is not). */
int tensorfile_count(const struct tensorfile *);
struct tensorfile_tensor *tensorfile_at(const struct tensorfile *, int index);
struct tensorfile_tensor *tensorfile_find(const struct tensorfile *, const char *name); /* or NULL */

/* Writes `n` tensors to `path`: a temporary file beside it, fsync, rename.  On an error there is no new file and an old
 * one stands as it was.  Where `path` names a device or a pipe it is written to directly. */
int tensorfile_write(const char *path, const struct tensorfile_tensor *tensors, int n, char *err, size_t errlen);
#endif
