/* arena.c -- chunks in a list, a bump pointer in the newest.  In: sizes.  Out: zeroed memory that lives until arena_free. */
#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_chunk { struct arena_chunk *next; size_t size, used; _Alignas(16) char bytes[]; };

enum { CHUNK = 1 << 16 };

/* Memory that is not zeroed, but where it has a chunk of its own: the system's pages are zero. */
static void *take(struct arena *a, size_t bytes)
{
	bytes = (bytes + 15) & ~(size_t)15;
	if (!a->top || a->top->size - a->top->used < bytes) {
		size_t size = bytes > CHUNK ? bytes : CHUNK;
		struct arena_chunk *c = bytes > CHUNK ? calloc(1, sizeof *c + size) : malloc(sizeof *c + size);
		if (!c) {
			fputs("tdsl: out of memory\n", stderr);
			abort();
		}
		c->size = size;
		c->used = 0;
		c->next = a->top;
		a->top = c;
		a->total += size;
	}
	void *p = a->top->bytes + a->top->used;
	a->top->used += bytes;
	a->used += bytes;
	return p;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	void *p = take(a, bytes);
	return bytes > CHUNK ? p : memset(p, 0, bytes);
}

void *arena_copy(struct arena *a, const void *src, size_t bytes)
{
	void *p = take(a, bytes);
	if (bytes)
		memcpy(p, src, bytes);
	return p;
}

char *arena_string(struct arena *a, const char *s, size_t n)
{
	char *p = take(a, n + 1);
	if (n)
		memcpy(p, s, n);
	p[n] = 0;
	return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *p = take(a, (size_t)n + 1);
	vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}

void arena_free(struct arena *a)
{
	while (a->top) {
		struct arena_chunk *next = a->top->next;
		free(a->top);
		a->top = next;
	}
	a->used = a->total = 0;
}

void *arena_grow(struct arena *a, void *items, int n, int *cap, size_t size)
{
	int more = *cap ? *cap * 2 : 8;
	void *p = arena_alloc(a, (size_t)more * size);
	if (n)
		memcpy(p, items, (size_t)n * size);
	*cap = more;
	return p;
}
