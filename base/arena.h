/* arena.h -- memory that is freed all at once: the compiler's only allocator.
 * Allocation cannot fail for the caller: when the system has no memory the process-wide policy is abort() with a text,
 * since a compiler half-way through has nothing to save.  Blocks are zeroed.  Not thread safe: one arena, one thread. */
#ifndef TDSL_ARENA_H
#define TDSL_ARENA_H
#include <stdarg.h>
#include <stddef.h>

struct arena { struct arena_chunk *top; size_t used, total; };

void *arena_alloc(struct arena *, size_t bytes);                 /* zeroed, 16-byte aligned */
void *arena_copy(struct arena *, const void *src, size_t bytes);
char *arena_string(struct arena *, const char *s, size_t n);     /* copy of n bytes, NUL added */
char *arena_printf(struct arena *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void arena_free(struct arena *);                                 /* all of it; the arena can be used again */

/* Growing array of T in an arena: items, n, cap.  ARENA_PUSH(a, arr, value) */
#define ARRAY(T) struct { T *items; int n, cap; }
void *arena_grow(struct arena *, void *items, int n, int *cap, size_t size);
#define ARENA_PUSH(a, arr, ...) do { \
	if ((arr)->n == (arr)->cap) (arr)->items = arena_grow((a), (arr)->items, (arr)->n, &(arr)->cap, sizeof *(arr)->items); \
	(arr)->items[(arr)->n++] = (__VA_ARGS__); } while (0)
#endif
