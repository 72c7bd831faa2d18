/* jit.h -- compiling in process, in three parts: the compile library (compiler.c), one compile per key among threads and results
 * that no disk took (once.c), and what is compiled and kept for calls (jit.c). */
#ifndef TDSL_RT_JIT_H
#define TDSL_RT_JIT_H
#include "../compiler/libtdslc.h"
#include "cache.h"
#include "kernel.h"

struct compiler {
	void *handle;
	int (*compile)(const char *, size_t, const char *, const struct tdslc_options *, void **, size_t *, char **);
	int (*instance)(const char *, size_t, const char *, const struct tdslc_types *, char **, char **, char **);
	const char *(*identity)(void);
	void (*free)(void *);
};

/* The compile library, loaded when first asked for.  TDSL_EUNSUPPORTED where there is none or TDSL_JIT=0 forbids it. */
int compiler_get(const struct compiler **);
/* 0, or TDSL_EUNSUPPORTED by TDSL_JIT=0. */
int compiler_allowed(void);
/* What identifies the library, for keys; known without loading it where a note in the cache still fits its files. */
int compiler_identity(char *out, size_t size, struct cache *);

/* Waits until no other thread of this process compiles `key`, then holds it. */
void once_enter(struct cache_key);
void once_leave(struct cache_key);
/* Results in memory, for this process: at most 64 MB, the oldest dropped.  get copies (*bytes: free()). */
bool once_get(struct cache_key, void **bytes, size_t *size);
void once_put(struct cache_key, const void *bytes, size_t size);

/* A kernel compiled for a call that pack kernel `k` does not serve: its text is the pack's or one given to tdsl_compile.  Compiles
 * where needed: nothing but the instance, whose extents outputs have (which optional ones there will be is not known then); the one variant that
 * the call would get, for the optional tensors that it has; or all of them.  TDSL_ENOTFOUND where no text is known, other errors as
 * tdsl_compile. */
enum jit_extent { JIT_SIGNATURE, JIT_VARIANT, JIT_WHOLE };
int jit_kernel(tdsl_kernel *, tdsl_kernel k, tdsl_stream, const union tdsl_arg *args, enum jit_extent);
/* Takes from the cache, without the compiler, what was compiled for calls of these types before; false where that is nothing new. */
bool jit_recall(tdsl_kernel k, tdsl_stream, const union tdsl_arg *args);
/* False where the text's heading rules the call's element types out (heading.c). */
bool heading_allows(const char *text, tdsl_kernel k, const char *target, const union tdsl_arg *args);
/* Kernels of the same text that this process has compiled: the one after `after` (NULL = the first), or NULL.  Never compiles. */
tdsl_kernel jit_next(tdsl_kernel k, tdsl_kernel after);
#endif
