/* once.c -- one compile per key among the threads of a process, and results in memory where the disk did not take them.
 * In: keys.  A short list of the keys being compiled, one condition for all: compiles take milliseconds, waking everybody costs
 * nothing beside them.  The list belongs to one process: a forked child drops what its parent was compiling. */
#include <stdlib.h>
#include <string.h>

#include "fork.h"
#include "jit.h"

enum { MOST_BYTES = 64 << 20 };

struct running { struct running *next; struct cache_key key; };
struct kept { struct kept *next; struct cache_key key; size_t size; uint8_t bytes[]; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct running *running;
static struct kept *kept;              /* newest first */

static bool same(struct cache_key a, struct cache_key b)
{
	return a.high == b.high && a.low == b.low;
}

static bool is_running(struct cache_key key)
{
	const struct running *r = running;
	while (r && !same(r->key, key))
		r = r->next;
	return r != NULL;
}

void once_fork(enum fork_stage stage)
{
	fork_lock(&lock, stage);
	if (stage != FORK_CHILD)
		return;
	changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER; /* who waited for it is not in this process */
	for (struct running *r; (r = running);) {
		running = r->next;
		free(r);
	}
}

void once_enter(struct cache_key key)
{
	struct running *r = malloc(sizeof *r);
	pthread_mutex_lock(&lock);
	while (is_running(key))
		pthread_cond_wait(&changed, &lock);
	if (r) {
		*r = (struct running){running, key};
		running = r;
	}
	pthread_mutex_unlock(&lock);
}

void once_leave(struct cache_key key)
{
	pthread_mutex_lock(&lock);
	for (struct running **at = &running; *at; at = &(*at)->next)
		if (same((*at)->key, key)) {
			struct running *r = *at;
			*at = r->next;
			free(r);
			break;
		}
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

bool once_get(struct cache_key key, void **bytes, size_t *size)
{
	bool found = false;
	pthread_mutex_lock(&lock);
	for (const struct kept *k = kept; k && !found; k = k->next)
		if (same(k->key, key) && (*bytes = malloc(k->size ? k->size : 1))) {
			memcpy(*bytes, k->bytes, k->size);
			*size = k->size;
			found = true;
		}
	pthread_mutex_unlock(&lock);
	return found;
}

void once_put(struct cache_key key, const void *bytes, size_t size)
{
	struct kept *k = size <= MOST_BYTES ? malloc(sizeof *k + size) : NULL;
	size_t total = 0;
	if (!k)
		return;
	pthread_mutex_lock(&lock);
	k->next = kept;
	k->key = key;
	k->size = size;
	memcpy(k->bytes, bytes, size);
	kept = k;
	for (struct kept **at = &kept; *at;) {
		struct kept *old = *at;
		total += old->size;
		if (old == k || (total <= MOST_BYTES && !same(old->key, key))) {
			at = &old->next;
			continue;
		}
		*at = old->next;
		total -= old->size;
		free(old);
	}
	pthread_mutex_unlock(&lock);
}
