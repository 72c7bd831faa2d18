/* memory.c -- the registry of allocations that kernels may touch.
 *
 * In: ranges of host memory with names.  Out: whether an access lies wholly within one of them, and the words for a
 * report where it does not.  A sorted array under a read-write lock: every simulated access may ask, allocations change
 * seldom.  Ranges may overlap (tensors that are views of one buffer), so each entry also holds the furthest end of all
 * entries before it: the search walks back from the last entry that starts at or before the address and stops as soon
 * as nothing further back can reach; without overlaps that is one comparison. */
#include "sim.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct range {
	uint64_t lo, hi;
	uint64_t reach; /* the largest hi of this entry and all before it */
	bool writable;
	char name[64];
};
struct sim_memory {
	pthread_rwlock_t lock;
	struct range *ranges; /* by lo */
	size_t count, capacity;
};

struct sim_memory *sim_memory_new(void)
{
	struct sim_memory *m = calloc(1, sizeof *m);
	if (m && pthread_rwlock_init(&m->lock, NULL) != 0) {
		free(m);
		return NULL;
	}
	return m;
}

void sim_memory_free(struct sim_memory *m)
{
	if (!m)
		return;
	pthread_rwlock_destroy(&m->lock);
	free(m->ranges);
	free(m);
}

/* Number of ranges that start at or before `addr`. */
static size_t ranges_upto(const struct sim_memory *m, uint64_t addr)
{
	size_t lo = 0, hi = m->count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (m->ranges[mid].lo <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void reach_update(struct sim_memory *m, size_t from)
{
	for (size_t i = from; i < m->count; i++) {
		uint64_t before = i ? m->ranges[i - 1].reach : 0;
		m->ranges[i].reach = m->ranges[i].hi > before ? m->ranges[i].hi : before;
	}
}

int sim_memory_add(struct sim_memory *m, const void *base, size_t size, const char *name, bool writable)
{
	uint64_t lo = (uintptr_t)base;
	if (lo + size < lo)
		return SIM_EFAULT;
	pthread_rwlock_wrlock(&m->lock);
	if (m->count == m->capacity) {
		size_t capacity = m->capacity ? 2 * m->capacity : 64;
		struct range *grown = realloc(m->ranges, capacity * sizeof *grown);
		if (!grown) {
			pthread_rwlock_unlock(&m->lock);
			return SIM_ENOMEM;
		}
		m->ranges = grown;
		m->capacity = capacity;
	}
	size_t at = ranges_upto(m, lo);
	memmove(&m->ranges[at + 1], &m->ranges[at], (m->count - at) * sizeof *m->ranges);
	struct range *r = &m->ranges[at];
	*r = (struct range){.lo = lo, .hi = lo + size, .writable = writable};
	snprintf(r->name, sizeof r->name, "%s", name ? name : "");
	m->count++;
	reach_update(m, at);
	pthread_rwlock_unlock(&m->lock);
	return SIM_OK;
}

/* Of several ranges with this start nobody can tell which one is meant, so two are joined into one that serves both
 * remaining owners; the last one goes altogether. */
int sim_memory_remove(struct sim_memory *m, const void *base)
{
	uint64_t lo = (uintptr_t)base;
	int rc = SIM_EFAULT;
	pthread_rwlock_wrlock(&m->lock);
	size_t end = ranges_upto(m, lo);
	if (end > 0 && m->ranges[end - 1].lo == lo) {
		struct range *last = &m->ranges[end - 1], *before = last - 1;
		if (end > 1 && before->lo == lo) {
			if (last->hi > before->hi) {
				before->hi = last->hi;
				memcpy(before->name, last->name, sizeof before->name);
			}
			before->writable |= last->writable;
		}
		memmove(last, last + 1, (m->count - end) * sizeof *last);
		m->count--;
		reach_update(m, end > 1 ? end - 2 : 0);
		rc = SIM_OK;
	}
	pthread_rwlock_unlock(&m->lock);
	return rc;
}

bool sim_memory_find(struct sim_memory *m, uint64_t addr, size_t size, bool write)
{
	uint64_t end = addr + size;
	bool found = false;
	if (end < addr)
		return false;
	pthread_rwlock_rdlock(&m->lock);
	for (size_t i = ranges_upto(m, addr); i > 0 && m->ranges[i - 1].reach >= end && !found; i--)
		found = m->ranges[i - 1].hi >= end && (!write || m->ranges[i - 1].writable);
	pthread_rwlock_unlock(&m->lock);
	return found;
}

bool sim_memory_range(struct sim_memory *m, uint64_t addr, uint64_t *lo, uint64_t *hi, bool *writable)
{
	const struct range *best = NULL;
	pthread_rwlock_rdlock(&m->lock);
	for (size_t i = ranges_upto(m, addr); i > 0 && m->ranges[i - 1].reach > addr; i--) {
		const struct range *r = &m->ranges[i - 1];
		if (r->hi > addr && (!best || (r->writable == best->writable ? r->hi > best->hi : r->writable)))
			best = r;
	}
	if (best) {
		*lo = best->lo;
		*hi = best->hi;
		*writable = best->writable;
	}
	pthread_rwlock_unlock(&m->lock);
	return best != NULL;
}

bool sim_memory_written(struct sim_memory *m, uint64_t lo, uint64_t hi)
{
	bool found = false;
	pthread_rwlock_rdlock(&m->lock);
	for (size_t i = ranges_upto(m, hi); i > 0 && m->ranges[i - 1].reach > lo && !found; i--)
		found = m->ranges[i - 1].writable && m->ranges[i - 1].lo < hi && m->ranges[i - 1].hi > lo;
	pthread_rwlock_unlock(&m->lock);
	return found;
}

/* How far [addr, end) is from a range: 0 inside or touching it from within. */
static uint64_t range_distance(const struct range *r, uint64_t addr, uint64_t end)
{
	if (addr < r->lo)
		return r->lo - addr;
	return end > r->hi ? end - r->hi : 0;
}

void sim_memory_describe(struct sim_memory *m, uint64_t addr, size_t size, char *buf, size_t len)
{
	const struct range *best = NULL;
	uint64_t end = addr + size < addr ? UINT64_MAX : addr + size, best_distance = UINT64_MAX;
	if (len == 0)
		return;
	pthread_rwlock_rdlock(&m->lock);
	for (size_t i = 0; i < m->count; i++) {
		uint64_t d = range_distance(&m->ranges[i], addr, end);
		if (d < best_distance) {
			best = &m->ranges[i];
			best_distance = d;
		}
	}
	if (!best || best_distance > (1u << 30))
		snprintf(buf, len, "no allocation is near 0x%" PRIx64, addr);
	else {
		uint64_t bytes = best->hi - best->lo, past = end - best->hi;
		if (addr < best->lo)
			snprintf(buf, len, "%" PRIu64 " bytes before the start of '%s' (%" PRIu64 " bytes)", best_distance, best->name, bytes);
		else if (end <= best->hi)
			snprintf(buf, len, "byte %" PRIu64 " of '%s' (%" PRIu64 " bytes%s)", addr - best->lo, best->name, bytes,
			         best->writable ? "" : ", read-only");
		else if (addr >= best->hi)
			snprintf(buf, len, "%" PRIu64 " bytes past the end of '%s' (%" PRIu64 " bytes)", addr - best->hi, best->name, bytes);
		else
			snprintf(buf, len, "the last %" PRIu64 " of %zu bytes lie past the end of '%s' (%" PRIu64 " bytes)", past, size,
			         best->name, bytes);
	}
	pthread_rwlock_unlock(&m->lock);
}
