/* ptx_memory.c -- what a warp's instructions do to memory, one thread after the other, for ptx_run.c.
 * In: an instruction of memory, a thread, the launch's ranges.  Out: memory, registers, what the launch counts.
 * The lanes of a warp do each instruction together here, which a chip does not promise: what one stores is there for another behind bar.warp.sync, or a
 * barrier of more, and until then may come sooner or later.  So each byte of shared memory notes which lane has accessed it since.  Refused are a lane
 * that loads what another one has stored, or stores where another one has loaded or has stored another value.  Of what is written to global memory a
 * list serves: it is seldom read again.
 * Products of four warps read shared memory by another way (PTX ISA, "Async proxy"): what a thread stores is there for them when that thread has fenced it
 * since and then the workgroup has passed a barrier; and where they read nobody stores before they are done, other warps than theirs not before a barrier
 * behind that.  Barriers of some warps, or of a cluster, do not count for it. */
#include <stdio.h>
#include <string.h>
#include "../base/num.h"
#include "ptx_cluster.h"

enum { NOBODY = -1, SEVERAL = -2 };
#define IN_FLIGHT UINT32_MAX                     /* fences: what cp.async brings, and has not brought */

void ptx_memory_order(struct machine *m)
{
	m->when++;
	m->nwritten = 0;
}

static bool refuse_other(struct machine *m, const struct thread *t, const struct ins *i, const char *did)
{
	return ptx_refuse(m->c, "workgroup %u thread %u: %s: nothing orders this after another of the warp's threads %s there", t->group->at[0], t->tid, i->text, did);
}

/* Bytes of the workgroup's own shared memory. */
static bool touch(struct machine *m, const struct thread *t, const struct ins *i, uint64_t at, int bytes, bool write)
{
	int8_t lane = (int8_t)(t->tid % WARP);
	for (struct touch *k = m->touches + at, *end = k + bytes; k < end; k++) {
		if (k->when != m->when)
			*k = (struct touch){m->when, NOBODY, NOBODY};
		bool stored = k->stored != NOBODY && k->stored != lane, loaded = k->loaded != NOBODY && k->loaded != lane;
		if (write ? loaded : stored)
			return refuse_other(m, t, i, write ? "has loaded" : "has stored");
		if (write)
			k->stored = stored ? SEVERAL : lane;
		else
			k->loaded = loaded ? SEVERAL : lane;
	}
	return true;
}

bool ptx_memory_lend(struct machine *m, const struct thread *warp, const struct ins *i, uint64_t at)
{
	struct group *g = warp->group;
	int name = (int)strcspn(i->text, " ");
	if (at + PIECE > (uint64_t)m->l->shared)
		return ptx_refuse(m->c, "thread %u: %.*s: shared address %llu, there are %d bytes", warp->tid, name, i->text, (unsigned long long)at, m->l->shared);
	struct piece *p = &g->pieces[at / PIECE];
	for (const struct stored *s = g->stored + at, *end = s + PIECE; !p->shown && s < end; s++) {
		const struct thread *by = s->by ? &g->threads[s->by - 1] : NULL;
		if (by && by->shown <= s->fences)
			return ptx_refuse(m->c, "workgroup %u thread %u: %.*s: shared address %llu: thread %u has %s", g->at[0], warp->tid, name, i->text,
			                  (unsigned long long)(s - g->stored), by->tid, s->fences == IN_FLIGHT ? "not waited for what it copies there"
			                  : by->fences > s->fences ? "stored there, and fenced that behind the last barrier" : "stored there, with no fence.proxy.async since");
	}
	p->shown = true;
	p->under_way++;
	return true;
}

void ptx_memory_return(const struct thread *warp, uint64_t at)
{
	struct group *g = warp->group;
	struct piece *p = &g->pieces[at / PIECE];
	p->under_way--;
	if (p->bars != g->bars)
		p->done = 0;
	p->bars = g->bars;
	p->done |= 1u << warp->tid / WARP;
}

/* Bytes that products may read, or have read. */
static bool store_for_products(struct machine *m, const struct thread *t, const struct ins *i, uint64_t at, int bytes, uint32_t fences)
{
	struct group *g = t->group;
	uint64_t end = at + (unsigned)bytes;
	for (struct piece *p = g->pieces + at / PIECE, *last = g->pieces + (end - 1) / PIECE; p <= last; p++) {
		bool read = p->bars == g->bars && p->done & ~(1u << t->tid / WARP);
		if (p->under_way || read)
			return ptx_refuse(m->c, "workgroup %u thread %u: %s: %s", g->at[0], t->tid, i->text, p->under_way ? "products that read this are under way"
			                  : "no barrier orders this after another warp's products that have read it");
		p->shown = false;
	}
	for (struct stored *s = g->stored + at; s < g->stored + end; s++)
		*s = (struct stored){fences, (uint16_t)(t->tid + 1)};
	return true;
}

/* What is written is noted; what another lane has written is not there yet. */
static bool meet_written(struct machine *m, const struct thread *t, const struct ins *i, uint64_t at, int bytes, bool write)
{
	if (write) {
		if (m->nwritten == m->cap_written)
			m->written = arena_grow(&m->c->arena, m->written, m->nwritten, &m->cap_written, sizeof *m->written);
		m->written[m->nwritten++] = (struct written){at, bytes, t->tid};
		return true;
	}
	for (int k = 0; k < m->nwritten; k++) {
		const struct written *w = &m->written[k];
		if (w->tid != t->tid && at < w->at + (unsigned)w->bytes && w->at < at + (unsigned)bytes)
			return refuse_other(m, t, i, "has stored");
	}
	return true;
}

/* A mapped address: the workgroup's rank and one above 32 bits that are its own shared address. */
static uint8_t *reach_shared(struct machine *m, const struct thread *t, const struct ins *i, uint64_t at, int bytes, bool write)
{
	struct group *g = t->group;
	uint64_t size = (uint64_t)m->l->shared, rank = at >> 32;
	if (has(i, mapped) && rank && rank <= (uint64_t)m->members) {
		g = &m->groups[rank - 1];
		at = cut(at, 32);
	}
	if (at > size || size - at < (unsigned)bytes) {
		ptx_refuse(m->c, "thread %u: %s: shared address %llu, there are %d bytes", t->tid, i->text, (unsigned long long)at, m->l->shared);
		return NULL;
	}
	if (m->members > 1 && !ptx_cluster_share(m, t, i, g, at, bytes, write))
		return NULL;
	if (write && g == t->group && g->pieces && !store_for_products(m, t, i, at, bytes, is(i, cp) ? IN_FLIGHT : t->fences))
		return NULL;
	return g != t->group || is(i, red) || touch(m, t, i, at, bytes, write) ? g->shared + at : NULL;
}

static uint8_t *reach_global(struct machine *m, const struct thread *t, const struct ins *i, uint64_t at, int bytes, bool write)
{
	for (int r = 0; has(i, global) && r < m->l->nmemory; r++) {
		const struct ptx_range *g = &m->l->memory[r];
		uint64_t base = (uint64_t)(uintptr_t)g->base;
		if (at < base || at + (unsigned)bytes > base + g->bytes || (write && !g->writable) || (has(i, nc) && g->writable))
			continue;
		return !g->writable || is(i, red) || is(i, prefetch) || meet_written(m, t, i, at, bytes, write) ? (uint8_t *)(uintptr_t)at : NULL;
	}
	uint64_t meeting = (uint64_t)(uintptr_t)&m->meeting[1];
	if (m->l->meets && at == meeting && bytes == 4 && (is(i, atom) || has(i, acquire)))
		return (uint8_t *)&m->meeting[1];
	ptx_refuse(m->c, "workgroup %u thread %u: %s: %d bytes at 0x%llx are not this kernel's", t->group->at[0], t->tid, i->text, bytes, (unsigned long long)at);
	return NULL;
}

static uint64_t address(const struct thread *t, const struct operand *o) { return (o->reg >= 0 ? *reg_of(t, o->reg) : 0) + o->value; }

static uint8_t *reach(struct machine *m, const struct thread *t, const struct ins *i, const struct operand *o, int bytes, bool write)
{
	uint64_t at = address(t, o);
	if (at % (unsigned)bytes) {
		ptx_refuse(m->c, "thread %u: %s: address 0x%llx is not a multiple of %d", t->tid, i->text, (unsigned long long)at, bytes);
		return NULL;
	}
	if (has(i, param))
		return at + (unsigned)bytes <= m->l->argument_bytes ? (uint8_t *)m->l->arguments + at : NULL;
	if (has(i, shared))
		return reach_shared(m, t, i, at, bytes, write);
	return reach_global(m, t, i, at, bytes, write);
}

/* The L2's policies as CUTLASS writes them (CacheHintSm90): lines that leave last, and lines as all others. */
#define EVICT_LAST 0x14f0000000000000ull
#define EVICT_NORMAL 0x1000000000000000ull

static bool take_policy(struct machine *m, uint64_t policy, bool load)
{
	int *count = policy == EVICT_LAST ? load ? &m->l->kept_loads : &m->l->kept_stores : policy == EVICT_NORMAL && load ? &m->l->other_loads : NULL;
	return count && ++*count;
}

/* Lanes that store to one place store one value. */
static bool store(struct machine *m, const struct thread *t, const struct ins *i, uint8_t *p, int count, int each)
{
	uint8_t bytes[4 * 8];
	for (int k = 0; k < count; k++) {
		uint64_t v = get(t, &i->op[1 + k]);
		memcpy(bytes + k * each, &v, (size_t)each);
	}
	for (int k = 0; has(i, shared) && !has(i, mapped) && k < count * each; k++)
		if (m->touches[p + k - t->group->shared].stored == SEVERAL && bytes[k] != p[k])
			return refuse_other(m, t, i, "has stored something else");
	memcpy(p, bytes, (size_t)(count * each));
	return true;
}

static bool load_store(struct machine *m, struct thread *t, const struct ins *i)
{
	bool load = is(i, ld), hint = has(i, cache_hint);
	int count = has(i, v2) ? 2 : has(i, v4) ? 4 : 1, each = i->type[0].bits / 8;
	if (i->nop != count + 1 + hint || (hint && !take_policy(m, get(t, &i->op[count + 1]), load)))
		return false;
	uint8_t *p = reach(m, t, i, &i->op[load ? count : 0], each * count, !load);
	if (p && !load && has(i, global) && m->l->nstored < m->l->most_stored)
		m->l->stored[m->l->nstored++] = (uint64_t)(uintptr_t)p;
	if (p && !load)
		return store(m, t, i, p, count, each);
	for (int k = 0; p && k < count; k++) {
		uint64_t v = 0;
		memcpy(&v, p + k * each, (size_t)each);
		set(t, &i->op[k], i->type[0].kind == 's' ? (uint64_t)sign(v, each * 8) : v, 64);
	}
	return p;
}

/* What lies beyond the memory costs a chip more than it saves. */
static bool fetch(struct machine *m, struct thread *t, const struct ins *i)
{
	uint8_t *p = i->nop == 1 ? reach(m, t, i, &i->op[0], 1, false) : NULL;
	struct ptx_launch *l = m->l;
	if (p && has(i, evict_last) && l->nfetched < l->most_fetched)
		l->fetched[l->nfetched++] = (uint64_t)(uintptr_t)p;
	if (p && !has(i, evict_last) && l->nsoon < l->most_soon)
		l->soon[l->nsoon++] = (uint64_t)(uintptr_t)p;
	return p;
}

/* Those of the groups before `end` are there. */
static bool end_copies(struct machine *m, struct thread *t, const struct ins *i, int end)
{
	int left = 0;
	for (int k = 0; k < t->ncopies; k++) {
		struct copied *c = &t->copies[k];
		uint64_t at = (uint64_t)(c->to - t->group->shared);
		if (c->group < end && t->group->pieces && !store_for_products(m, t, i, at, sizeof c->bytes, t->fences))
			return false;
		if (c->group < end && !touch(m, t, i, at, sizeof c->bytes, true))
			return false;
		if (c->group < end)
			memcpy(c->to, c->bytes, sizeof c->bytes);
		else
			t->copies[left++] = *c;
	}
	t->ncopies = left;
	return true;
}

/* 16 bytes, or as many zeros, that are there when the thread has waited, and nothing of use before. */
static bool copy(struct machine *m, struct thread *t, const struct ins *i)
{
	if (i->modifiers == (BIT(async) | BIT(wait_all)) && !i->nop)
		return end_copies(m, t, i, t->groups + 1);
	if (i->modifiers == (BIT(async) | BIT(wait_group)) && i->nop == 1)
		return end_copies(m, t, i, t->groups - (int)get(t, &i->op[0]));
	if (i->modifiers == (BIT(async) | BIT(commit_group)) && !i->nop) {
		t->groups++;
		return true;
	}
	uint64_t cached = i->modifiers & (BIT(ca) | BIT(cg));
	if (i->modifiers != (BIT(async) | cached | BIT(shared) | BIT(global)) || !cached || i->nop != 4 || get(t, &i->op[2]) != 16 || t->ncopies == COPIES)
		return false;
	uint64_t bytes = cut(get(t, &i->op[3]), 32), at = address(t, &i->op[1]);
	uint8_t *p = reach(m, t, i, &i->op[0], 16, true), *q = p && bytes ? reach_global(m, t, i, at, 16, false) : p;
	if (!q || at % 16 || (bytes && bytes != 16))
		return false;
	t->copies[t->ncopies].to = p;
	t->copies[t->ncopies].group = t->groups;
	memset(t->copies[t->ncopies].bytes, 0, 16);
	memcpy(t->copies[t->ncopies++].bytes, q, bytes);
	memset(p, 0xA5, 16);
	return true;
}

static bool reduce_at(struct machine *m, struct thread *t, const struct ins *i)
{
	struct type type = i->type[0];
	uint8_t *p = has(i, mapped) ? NULL : reach(m, t, i, &i->op[0], type.bits / 8, true);
	uint32_t old, x = (uint32_t)get(t, &i->op[1]);
	if (!p || type.bits != 32)
		return false;
	memcpy(&old, p, 4);
	if (type.kind == 'f' && has(i, add))
		old = num_bits(num_float(old) + num_float(x));
	else if (has(i, add))
		old += x;
	else if (type.kind == 's')
		old = (has(i, max) ? (int32_t)x > (int32_t)old : (int32_t)x < (int32_t)old) ? x : old;
	else
		old = (has(i, max) ? x > old : x < old) ? x : old;
	memcpy(p, &old, 4);
	return true;
}

/* Counted by all: what was there before, and what is stored before it is seen by whoever sees it. */
static bool count(struct machine *m, struct thread *t, const struct ins *i)
{
	bool known = i->modifiers == (BIT(add) | BIT(acq_rel) | BIT(gpu) | BIT(global)) && i->nop == 3 && i->ntypes == 1 && i->type[0].bits == 32;
	uint8_t *p = known ? reach(m, t, i, &i->op[1], 4, true) : NULL;
	uint32_t old, next;
	if (!p)
		return false;
	memcpy(&old, p, 4);
	next = old + (uint32_t)get(t, &i->op[2]);
	memcpy(p, &next, 4);
	set(t, &i->op[0], old, 32);
	m->moved = true;
	return true;
}

bool ptx_memory_is(const struct ins *i)
{
	return is(i, ld) || is(i, st) || is(i, red) || is(i, atom) || is(i, prefetch) || is(i, cp);
}

bool ptx_memory_access(struct machine *m, struct thread *t, const struct ins *i)
{
	if (is(i, ld) || is(i, st))
		return has(i, async) ? ptx_cluster_send(m, t, i) : load_store(m, t, i);
	if (is(i, red))
		return reduce_at(m, t, i);
	if (is(i, atom))
		return count(m, t, i);
	return is(i, prefetch) ? fetch(m, t, i) : copy(m, t, i);
}
