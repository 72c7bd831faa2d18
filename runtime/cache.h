/* cache.h -- compiled packs on disk, by key.  Nothing here is an error: what cannot be read or written is compiled again. */
#ifndef TDSL_RT_CACHE_H
#define TDSL_RT_CACHE_H
#include "pack.h"

struct cache_key { uint64_t high, low; };

/* The pack kept under this key, checked to the last byte, or NULL; a damaged entry is removed. */
struct pack_file *cache_read(struct cache_key);
/* Keeps a pack.  The file appears whole or not at all. */
void cache_write(struct cache_key, const void *bytes, size_t size);
#endif
