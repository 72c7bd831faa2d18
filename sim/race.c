/* race.c -- who touched which bytes of LDS and of global memory: accesses that nothing orders are reported.
 *
 * LDS: each dword keeps the operation that wrote it last and each wave's last read.  A wave's operation is ordered before
 * another wave's access when it was complete (waited for by s_waitcnt) as its wave reached a barrier that both passed: an
 * operation number at most check_wave.visible.  A copy from memory to LDS completes by vmcnt, so even its own wave must
 * wait for it.  No cell is ever cleared: numbers only grow, and a new workgroup starts with everything visible.
 *
 * Global: each dword of memory that a kernel may write keeps its last writer and reader (workgroup, wave, barrier epoch,
 * instruction) in a page made at first use and shared by the launch's threads without locks: an update that is lost
 * between two threads can hide a race, never invent one.  Workgroups are unordered, but for a writer that has written its
 * cache back (buffer_wbl2 sc1) and a reader that has dropped its own (buffer_inv sc1): the XCDs' L2s are not coherent.
 * Atomics do not race with atomics, nor with a dword that is loaded past the XCD's caches (sc1), as a monotonic load is. */
#pragma GCC optimize("O3")
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- LDS ---- */

enum { ATOMIC = 0x80 };

static bool lds_report(struct check *c, struct sim_wave *w, const struct sim_inst *in, int lane, uint32_t dword, bool store, unsigned other,
	bool other_stores, uint32_t at, bool own)
{
	char place[192];
	check_place(c, at, place, sizeof place);
	if (own)
		sim_fail(w, in, SIM_ECHECK, lane, "%s LDS bytes %u..%u while %s of the same wave is not complete: an s_waitcnt is missing",
			store ? "writes" : "reads", 4 * dword, 4 * dword + 3, place);
	else
		sim_fail(w, in, SIM_ECHECK, lane, "%s LDS bytes %u..%u, which wave %u %s by %s, with no s_waitcnt and s_barrier between",
			store ? "writes" : "reads", 4 * dword, 4 * dword + 3, other, other_stores ? "writes" : "reads", place);
	return false;
}

/* Whether the last write of a dword is ordered before this wave's access. */
static inline bool written_before(const struct check *c, unsigned self, int counter, const struct check_lds *d)
{
	int by = d->count & 3;
	if (d->wave != self)
		return d->number <= c->wave[d->wave].visible[by];
	return (by == COUNT_LGKM && counter == COUNT_LGKM) || d->number <= c->wave[self].done[by];
}

static bool lds_load(struct check *c, struct sim_wave *w, const struct sim_inst *in, uint32_t number, int lane, uint32_t dword, uint32_t mask)
{
	const struct check_lds *d = &c->lds[dword];
	if (d->mask & mask && !written_before(c, w->index, COUNT_LGKM, d))
		return lds_report(c, w, in, lane, dword, false, d->wave, true, d->at, d->wave == w->index);
	c->lds_read[w->index * c->lds_dwords + dword] = number << 4 | mask;
	c->lds_read_at[dword] = in->at;
	c->lds_map[dword / 64].read |= UINT64_C(1) << dword % 64;
	return true;
}

static bool lds_store(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, uint32_t number, int lane,
	uint32_t dword, uint32_t mask)
{
	int counter = u->access == ACCESS_DMA ? COUNT_VM : COUNT_LGKM;
	struct check_lds *d = &c->lds[dword];
	unsigned self = w->index;
	bool same_order = d->wave == self && (d->count & 3) == counter;
	if (d->mask & mask && !same_order && !(u->atomic && d->count & ATOMIC) && !written_before(c, self, counter, d))
		return lds_report(c, w, in, lane, dword, true, d->wave, true, d->at, d->wave == self);
	size_t quads = c->lds_dwords / 4 + 1;
	for (uint32_t k = 0; k < 2 * c->nwaves; k++) { /* reads of the dword, then of four with it */
		uint32_t r = k / 2, read = k % 2 ? c->quad_read[r * quads + dword / 4] : c->lds_read[r * c->lds_dwords + dword], by = read >> 4;
		bool open = r == self ? counter == COUNT_VM && by > c->wave[r].done[COUNT_LGKM] : by > c->wave[r].visible[COUNT_LGKM];
		if (open && read & mask && !(u->atomic && d->count & ATOMIC))
			return lds_report(c, w, in, lane, dword, true, r, false, k % 2 ? c->quad_read_at[dword / 4] : c->lds_read_at[dword], r == self);
	}
	d->mask = (uint8_t)(d->wave == self && d->number == number ? d->mask | mask : mask);
	d->number = number;
	d->at = in->at;
	d->wave = (uint8_t)self;
	d->count = (uint8_t)(counter | (u->atomic ? ATOMIC : 0));
	c->lds_map[dword / 64].written |= UINT64_C(1) << dword % 64;
	return true;
}

bool race_lds(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, const struct check_lanes *l)
{
	bool store = u->store || u->access == ACCESS_DMA;
	uint32_t number = c->wave[w->index].issued[u->access == ACCESS_DMA ? COUNT_VM : COUNT_LGKM] + 1;
	for (int i = 0; i < LANES; i++) {
		uint32_t first = (uint32_t)l->addr[i], end = first + l->bytes[i];
		for (uint32_t at = first; at < end; at = (at | 3) + 1) {
			uint32_t left = end - (at & ~3u), mask = (15u << (at & 3)) & (left < 4 ? (1u << left) - 1 : 15u);
			if (!(store ? lds_store(c, w, in, u, number, i, at / 4, mask) : lds_load(c, w, in, number, i, at / 4, mask)))
				return false;
		}
	}
	return true;
}

/* ---- global memory ---- */

/* A cell: who in 24 bits (0 nobody, MANY several workgroups), wave 4, epoch 12, byte mask 4, atomic 1, dword of the
 * instruction 19. */
#define MANY 0xffffffu
enum { PAGE_SHIFT = 14, PAGE_CELLS = 1 << (PAGE_SHIFT - 2), BUCKETS = 4096 };
/* number: the writer's operation, among its wave's.  bytes: readers of single bytes, made when a page is first read in parts of dwords; 0 until then. */
struct check_page { struct check_page *next; uint64_t key; uint64_t writer[PAGE_CELLS], reader[PAGE_CELLS], *bytes; uint32_t number[PAGE_CELLS]; };
struct check_global {
	struct check_page *bucket[BUCKETS];
	pthread_mutex_t lock;
	uint8_t *flags; size_t nflags;    /* of a workgroup: RELEASED, ACQUIRED */
};
enum { RELEASED = 1, ACQUIRED = 2 };

struct check_global *check_global_new(void)
{
	struct check_global *g = calloc(1, sizeof *g);
	if (g)
		pthread_mutex_init(&g->lock, NULL);
	return g;
}

/* Pages of launches that have ended, for those that come: what a launch that writes a megabyte needs is kept, more is given back. */
enum { SPARE_PAGES = 64 };
static struct check_page *spare;
static unsigned spares;
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;

static struct check_page *page_new(void)
{
	pthread_mutex_lock(&spare_lock);
	struct check_page *p = spare;
	if (p) {
		spare = p->next;
		spares--;
	}
	pthread_mutex_unlock(&spare_lock);
	if (!p)
		return calloc(1, sizeof *p);
	memset(p, 0, sizeof *p);
	return p;
}

static void page_free(struct check_page *p)
{
	free(p->bytes);
	pthread_mutex_lock(&spare_lock);
	bool keep = spares < SPARE_PAGES;
	if (keep) {
		p->next = spare;
		spare = p;
		spares++;
	}
	pthread_mutex_unlock(&spare_lock);
	if (!keep)
		free(p);
}

void check_global_free(struct check_global *g)
{
	if (!g)
		return;
	for (int i = 0; i < BUCKETS; i++)
		for (struct check_page *p = g->bucket[i], *next; p; p = next) {
			next = p->next;
			page_free(p);
		}
	free(g->flags);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

static uint8_t workgroup_flags(struct check_global *g, uint32_t workgroup, uint8_t set)
{
	uint8_t value = 0;
	pthread_mutex_lock(&g->lock);
	if (set && workgroup >= g->nflags) {
		size_t n = workgroup + 64u;
		uint8_t *more = realloc(g->flags, n);
		if (more) {
			memset(more + g->nflags, 0, n - g->nflags);
			g->flags = more;
			g->nflags = n;
		}
	}
	if (workgroup < g->nflags)
		value = g->flags[workgroup] |= set;
	pthread_mutex_unlock(&g->lock);
	return value;
}

static struct check_page *page_at(struct check *c, uint64_t key)
{
	if (c->page && c->page_key == key)
		return c->page;
	struct check_global *g = c->global;
	struct check_page **bucket = &g->bucket[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 52], *p;
	for (p = __atomic_load_n(bucket, __ATOMIC_ACQUIRE); p && p->key != key; p = p->next)
		;
	if (!p) {
		pthread_mutex_lock(&g->lock);
		for (p = *bucket; p && p->key != key; p = p->next)
			;
		if (!p && (p = page_new())) {
			p->key = key;
			p->next = *bucket;
			__atomic_store_n(bucket, p, __ATOMIC_RELEASE);
		}
		pthread_mutex_unlock(&g->lock);
	}
	c->page = p;
	c->page_key = key;
	return p;
}

static inline uint32_t who(uint64_t cell) { return cell & 0xffffff; }

/* Whether the access in `old` may happen at the same time as the one in `now`. */
static bool unordered(struct check *c, uint64_t old, uint64_t now)
{
	const uint64_t masks = UINT64_C(15) << 40, atomic = UINT64_C(1) << 44;
	if (!who(old) || !(old & now & masks) || (old & now & atomic))
		return false;
	if (who(old) == who(now)) /* other waves between the same two barriers */
		return ((old ^ now) >> 28 & 0xfff) == 0 && (old >> 24 & 15) != (now >> 24 & 15);
	return who(old) == MANY || !(workgroup_flags(c->global, who(old), 0) & RELEASED) || !(workgroup_flags(c->global, who(now), 0) & ACQUIRED);
}

static bool global_report(struct check *c, struct sim_wave *w, const struct sim_inst *in, int lane, uint64_t addr, bool store, uint64_t old, bool old_store)
{
	char place[192], other[64];
	check_place(c, (uint32_t)(old >> 45) * 4, place, sizeof place);
	if (who(old) == MANY)
		memcpy(other, "several workgroups", 19);
	else if (who(old) == c->workgroup)
		snprintf(other, sizeof other, "wave %u of this workgroup", (unsigned)(old >> 24 & 15));
	else
		snprintf(other, sizeof other, "workgroup %u", who(old) - 1);
	char where[160];
	sim_memory_describe(c->group->launch->memory, addr & ~UINT64_C(3), 4, where, sizeof where);
	sim_fail(w, in, SIM_ECHECK, lane, "workgroup %u %s the dword at 0x%llx (%s), which %s %s by %s: nothing orders the two", c->workgroup - 1,
		store ? "writes" : "reads", (unsigned long long)(addr & ~UINT64_C(3)), where, other, old_store ? "writes" : "reads", place);
	return false;
}

static inline uint64_t load_cell(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline void store_cell(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }

static void note_reader(const struct check *c, uint64_t *cell, uint64_t now)
{
	uint64_t seen = load_cell(cell);
	if (who(seen) && who(seen) != c->workgroup)
		now |= MANY;
	if (seen != now)
		store_cell(cell, now);
}

/* The cells of the four bytes of dword `n`; two workgroups may read halves of one dword, and each write its own later. */
static uint64_t *byte_cells(struct check *c, struct check_page *p, uint64_t n, bool make)
{
	uint64_t *b = __atomic_load_n(&p->bytes, __ATOMIC_ACQUIRE);
	if (!b && make) {
		pthread_mutex_lock(&c->global->lock);
		b = p->bytes;
		if (!b && (b = calloc(PAGE_CELLS * 4, sizeof *b)))
			__atomic_store_n(&p->bytes, b, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&c->global->lock);
	}
	return b ? b + 4 * n : NULL;
}

/* Whether a store of another wave of this workgroup was still on its way when that wave reached the barrier between the two. */
static bool still_storing(const struct check *c, const struct sim_wave *w, uint64_t last, uint32_t number, uint64_t now)
{
	const uint64_t masks = UINT64_C(15) << 40;
	uint32_t by = last >> 24 & 15;
	return who(last) == c->workgroup && last & now & masks && by < c->nwaves && by != w->index && number > c->wave[by].visible[COUNT_VM];
}

static bool storing_report(struct check *c, struct sim_wave *w, const struct sim_inst *in, int lane, uint64_t addr, bool store, uint64_t last)
{
	char place[192], where[160];
	check_place(c, (uint32_t)(last >> 45) * 4, place, sizeof place);
	sim_memory_describe(c->group->launch->memory, addr & ~UINT64_C(3), 4, where, sizeof where);
	sim_fail(w, in, SIM_ECHECK, lane, "%s the dword at 0x%llx (%s), which wave %u writes by %s: that store was not complete (s_waitcnt vmcnt) at the barrier between",
		store ? "writes" : "reads", (unsigned long long)(addr & ~UINT64_C(3)), where, (unsigned)(last >> 24 & 15), place);
	return false;
}

static bool global_dword(struct check *c, struct sim_wave *w, const struct sim_inst *in, bool store, int lane, uint64_t addr, uint64_t now)
{
	struct check_page *p = page_at(c, addr >> PAGE_SHIFT);
	if (!p)
		return true;
	uint64_t n = addr >> 2 & (PAGE_CELLS - 1), *writer = &p->writer[n], *reader = &p->reader[n];
	const uint64_t masks = UINT64_C(15) << 40;
	uint64_t last = load_cell(writer), seen = load_cell(reader), *bytes = byte_cells(c, p, n, !store && (now & masks) != masks);
	if (unordered(c, last, now))
		return global_report(c, w, in, lane, addr, store, last, true);
	if (!(last & now & UINT64_C(1) << 44) && still_storing(c, w, last, p->number[n], now))
		return storing_report(c, w, in, lane, addr, store, last);
	if (!store && (now & masks) == masks) {
		note_reader(c, reader, now);
		return true;
	}
	if (store && unordered(c, seen, now))
		return global_report(c, w, in, lane, addr, store, seen, false);
	for (int i = 0; i < 4 && bytes; i++) {
		if (!(now >> (40 + i) & 1))
			continue;
		if (!store)
			note_reader(c, &bytes[i], now);
		else if (unordered(c, seen = load_cell(&bytes[i]), now))
			return global_report(c, w, in, lane, addr, store, seen, false);
	}
	if (!store)
		return true;
	store_cell(writer, who(last) == c->workgroup ? now | (last & masks) : now);
	p->number[n] = c->wave[w->index].issued[COUNT_VM] + 1;
	return true;
}

/* Memory that no kernel may write needs no history. */
static bool is_constant(struct check *c, uint64_t lo, uint64_t hi)
{
	struct sim_memory *m = c->group->launch->memory;
	uint64_t first, end;
	bool writable;
	for (int i = 0; i < 4; i++)
		if (lo >= c->constant[i].lo && hi <= c->constant[i].hi)
			return true;
	if (!sim_memory_range(m, lo, &first, &end, &writable) || writable || hi > end || sim_memory_written(m, first, end))
		return false;
	unsigned k = c->constant_next++ & 3;
	c->constant[k].lo = first;
	c->constant[k].hi = end;
	return true;
}

/* A lane's access of whole dwords that nobody touched before; false where one was, or where they lie in two pages. */
static bool untouched(struct check *c, bool store, uint32_t number, uint64_t addr, unsigned bytes, uint64_t now)
{
	struct check_page *p = page_at(c, addr >> PAGE_SHIFT);
	unsigned first = addr >> 2 & (PAGE_CELLS - 1), n = bytes / 4;
	uint64_t any = 0;
	if (!p || (addr | bytes) & 3 || first + n > PAGE_CELLS || __atomic_load_n(&p->bytes, __ATOMIC_ACQUIRE))
		return false;
	for (unsigned k = 0; k < n; k++)
		any |= load_cell(&p->writer[first + k]) | load_cell(&p->reader[first + k]);
	for (unsigned k = 0; !any && k < n; k++)
		store_cell(&(store ? p->writer : p->reader)[first + k], now | UINT64_C(15) << 40);
	for (unsigned k = 0; !any && store && k < n; k++)
		p->number[first + k] = number;
	return !any;
}

static SIM_LANES_FN void extent_of_all(const uint64_t addr[LANES], uint64_t *lo, uint64_t *hi)
{
	uint64_t least = addr[0], most = addr[0];
	for (int i = 0; i < LANES; i++) {
		least = addr[i] < least ? addr[i] : least;
		most = addr[i] > most ? addr[i] : most;
	}
	*lo = least;
	*hi = most;
}

static void extent_of(const struct check_lanes *l, uint64_t *lo, uint64_t *hi)
{
	*lo = ~UINT64_C(0);
	*hi = 0;
	if (l->all) {
		extent_of_all(l->addr, lo, hi);
		*hi += l->bytes[0];
		return;
	}
	for (int i = 0; i < LANES; i++)
		if (l->bytes[i]) {
			*lo = l->addr[i] < *lo ? l->addr[i] : *lo;
			*hi = l->addr[i] + l->bytes[i] > *hi ? l->addr[i] + l->bytes[i] : *hi;
		}
}

bool race_global(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, const struct check_lanes *l)
{
	if (!c->global || !c->workgroup)
		return true;
	if (in->op == OP_buffer_wbl2 || in->op == OP_buffer_inv) {
		if (in->sc1)
			workgroup_flags(c->global, c->workgroup, in->op == OP_buffer_wbl2 ? RELEASED : ACQUIRED);
		return true;
	}
	uint64_t lo, hi;
	extent_of(l, &lo, &hi);
	if (lo >= hi)
		return true;
	if (!u->store && is_constant(c, lo, hi))
		return true;
	uint64_t now = c->workgroup | (uint64_t)(w->index & 15) << 24 | (uint64_t)(c->wave[w->index].epoch & 0xfff) << 28 |
	               (uint64_t)(u->atomic || (u->load && in->sc1 && u->bytes == 4)) << 44 | (uint64_t)(in->at / 4 & 0x7ffff) << 45;
	uint32_t number = c->wave[w->index].issued[COUNT_VM] + 1;
	for (int i = 0; i < LANES; i++) {
		uint64_t end = l->addr[i] + l->bytes[i];
		if (!l->bytes[i] || untouched(c, u->store, number, l->addr[i], l->bytes[i], now))
			continue;
		for (uint64_t at = l->addr[i]; at < end; at = (at | 3) + 1) {
			uint64_t left = end - (at & ~UINT64_C(3)), mask = (15u << (at & 3)) & (left < 4 ? (1u << left) - 1 : 15u);
			if (!global_dword(c, w, in, u->store, i, at, now | mask << 40))
				return false;
		}
	}
	return true;
}
