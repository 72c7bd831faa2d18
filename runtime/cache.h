/* cache.h -- compiled packs by key: on disk between processes, in memory where there is no usable disk.
 *
 * Nothing here fails: what cannot be read, locked or written costs a compile.  The first trouble of a process is told once
 * (cache_trouble, TDSL_LOG=warn).  How it stays right is in cache.c; docs/pack.md has the layout. */
#ifndef TDSL_RT_CACHE_H
#define TDSL_RT_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache_key { uint64_t high, low; };

/* The cache's folder, opened and checked; off where TDSL_CACHE_DIR is "". */
struct cache { int folder; bool off; uint64_t most; char path[4096]; };
/* 0, or TDSL_EINVAL for a value outside the table.  Closed by cache_close in every case. */
int cache_open(struct cache *);
void cache_close(struct cache *);

/* The bytes kept under this key (*bytes: free()), checked to the last one; false where there are none. */
bool cache_read(struct cache *, struct cache_key, void **bytes, size_t *size);
/* Keeps bytes.  An entry appears whole or not at all, and what is over TDSL_CACHE_MAX is dropped, least recently used first.  false where
 * the disk did not take them. */
bool cache_write(struct cache *, struct cache_key, const void *bytes, size_t size);
/* One holder per key among all processes; the system releases it with the process.  A negative handle (no locks here) is fine. */
int cache_lock(struct cache *, struct cache_key);
void cache_unlock(int lock);

/* The text of this process's first trouble with its cache, to whoever asks first; else NULL. */
const char *cache_trouble(void);

/* Small records beside the entries, checked as they are; for what is known of the compiler (compiler.c). */
bool cache_note_read(struct cache *, const char *name, void **bytes, size_t *size);
void cache_note_write(struct cache *, const char *name, const void *bytes, size_t size);
#endif
