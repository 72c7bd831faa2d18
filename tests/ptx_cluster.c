/* ptx_cluster.c -- what workgroups of a cluster do with each other's memory, for ptx_run.c: mapa, barrier.cluster, mbarrier, st.async.
 *
 * Of a cluster's memory every word notes who stored it last and how many barriers that thread had arrived at.  Another workgroup may
 * read it behind a barrier that the storing thread arrived at after the store, with an arrive that is not relaxed: the next such
 * arrive must be one of the barriers that the reader has waited for.  Not noticed: a word that one workgroup stores with no barrier
 * after another one's store or read of it.
 *
 * An mbarrier serves once: it is initialised for one arrival, which says how many bytes are expected; phase 0 ends when it and they have
 * come, in either order, and no phase follows.  Others may count bytes on it behind a barrier of the cluster that the thread which
 * initialised it arrived at, in any way, after fence.mbarrier_init; threads of its own workgroup may arrive at it or wait for it there,
 * or behind a bar.sync after it was initialised.  A warp at try_wait stays until each of its threads' phases has ended.
 *
 * What st.async stores is there at once, which a chip does not say; so threads of the workgroup may touch it only when they have waited
 * for the mbarrier that counted it, or are behind a bar.sync after some thread had: no barrier of the cluster does for that.  Its place
 * serves once: nobody has read or written it before.  A workgroup ends only after waiting for all that was counted. */
#include "ptx_cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool refuse(struct machine *m, const struct thread *t, const struct ins *i, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static bool refuse(struct machine *m, const struct thread *t, const struct ins *i, const char *fmt, ...)
{
	char why[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	return ptx_refuse(m->c, "workgroup %u thread %u: %s: %s", t->group->at[0], t->tid, i->text, why);
}

/* bits: of the one type, 0 = none. */
static bool is_form(const struct ins *i, uint64_t modifiers, int bits, int operands)
{
	return i->modifiers == modifiers && i->nop == operands && i->ntypes == (bits > 0) && (!bits || (i->type[0].kind == 'b' && i->type[0].bits == bits));
}

/* --- memory ----------------------------------------------------------------------------------------------------------------- */

static size_t words(const struct machine *m)
{
	return ((size_t)m->l->shared + 3) / 4;
}

void ptx_cluster_alloc(struct machine *m, struct group *g)
{
	g->marks = arena_alloc(&m->c->arena, words(m) * sizeof *g->marks);
	g->counters = arena_alloc(&m->c->arena, COUNTERS * sizeof *g->counters);
}

void ptx_cluster_start(struct machine *m, struct group *g)
{
	memset(g->marks, 0, words(m) * sizeof *g->marks);
	g->ncounters = 0;
	g->bars = 0;
}

static bool is_ordered(const struct mark *k, const struct thread *reader)
{
	uint32_t n = reader->waits < k->by->arrives ? reader->waits : k->by->arrives;      /* more barriers than it arrived at: it has ended */
	return k->by->released[n % 4] > k->arrives;
}

static bool has_received(const struct thread *t, const struct group *g, const struct counter *c)
{
	return t->group == g && ((t->received >> (c - g->counters) & 1) || (c->received && g->bars > c->received_bars));
}

static bool is_there(struct machine *m, const struct thread *t, const struct ins *i, const struct group *g)
{
	if (g != t->group && !t->waits)
		return refuse(m, t, i, "before the first barrier workgroup %u may not have started", g->at[0]);
	return !g->ended || refuse(m, t, i, "workgroup %u has ended", g->at[0]);
}

bool ptx_cluster_share(struct machine *m, const struct thread *t, const struct ins *i, struct group *g, uint64_t at, int bytes, bool write)
{
	if (!is_there(m, t, i, g))
		return false;
	for (uint64_t w = at / 4; w <= (at + (unsigned)bytes - 1) / 4; w++) {
		struct mark *k = &g->marks[w];
		bool reads = !write || is(i, red);
		if (k->content == COUNTER)
			return refuse(m, t, i, "a word of an mbarrier");
		if (k->content == COUNTED && !has_received(t, g, k->counter))
			return refuse(m, t, i, "has not waited for workgroup %u thread %u: %s", k->by->group->at[0], k->by->tid, k->ins->text);
		if (reads && k->content == PLAIN && k->by && k->by->group != t->group && !is_ordered(k, t))
			return refuse(m, t, i, "no barrier orders this after workgroup %u thread %u: %s", k->by->group->at[0], k->by->tid, k->ins->text);
		if (write)
			*k = (struct mark){.by = t, .ins = i, .arrives = t->arrives};
		else
			k->read = true;
	}
	return true;
}

/* In another order what others stored would have come after the end, where nothing kept the workgroup from it. */
bool ptx_cluster_end(struct machine *m, const struct group *g)
{
	const struct thread *last = g->threads;
	for (uint32_t t = 0; t < m->l->block; t++)
		last = g->threads[t].waits > last->waits ? &g->threads[t] : last;
	for (size_t w = 0; w < words(m); w++) {
		const struct mark *k = &g->marks[w];
		if (k->content == COUNTED && !k->counter->received)
			return ptx_refuse(m->c, "workgroup %u: ends, and no thread has waited for workgroup %u thread %u: %s", g->at[0], k->by->group->at[0], k->by->tid,
			                  k->ins->text);
		if (k->content == PLAIN && k->by && k->by->group != g && !is_ordered(k, last))
			return ptx_refuse(m->c, "workgroup %u: ends, and no barrier orders this after workgroup %u thread %u: %s", g->at[0], k->by->group->at[0],
			                  k->by->tid, k->ins->text);
	}
	return true;
}

/* --- addresses -------------------------------------------------------------------------------------------------------------- */

/* What lies outside the workgroup's memory is refused where it is accessed: lanes may map places that they do not store to. */
static bool map(struct machine *m, struct thread *t, const struct ins *i)
{
	if (i->modifiers != (BIT(shared) | BIT(mapped)) || i->nop != 3 || i->type[0].bits != 64)
		return false;
	uint64_t at = get(t, &i->op[1]), rank = cut(get(t, &i->op[2]), 32);
	if (rank >= (uint64_t)m->members)
		return refuse(m, t, i, "rank %llu, the cluster has %d", (unsigned long long)rank, m->members);
	if (at >> 32)
		return refuse(m, t, i, "0x%llx is not an address of the own workgroup", (unsigned long long)at);
	set(t, &i->op[0], (rank + 1) << 32 | at, 64);
	return true;
}

/* The workgroup of an address and, in *at, the address there; NULL with text. */
static struct group *place(struct machine *m, const struct thread *t, const struct ins *i, const struct operand *o, int bytes, uint64_t *at)
{
	uint64_t full = (o->reg >= 0 ? *reg_of(t, o->reg) : 0) + o->value, rank = full >> 32, size = (uint64_t)m->l->shared;
	*at = cut(full, 32);
	if (has(i, mapped) ? !rank || rank > (uint64_t)m->members : rank > 0)
		refuse(m, t, i, "0x%llx is not %s", (unsigned long long)full, has(i, mapped) ? "a mapped address" : "an address of the own workgroup");
	else if (full % (unsigned)bytes)
		refuse(m, t, i, "address 0x%llx is not a multiple of %d", (unsigned long long)full, bytes);
	else if (*at > size || size - *at < (unsigned)bytes)
		refuse(m, t, i, "shared address %llu, there are %d bytes", (unsigned long long)*at, m->l->shared);
	else
		return has(i, mapped) ? &m->groups[rank - 1] : t->group;
	return NULL;
}

/* --- mbarriers -------------------------------------------------------------------------------------------------------------- */

static bool is_complete(const struct counter *c)
{
	return c->arrived && c->bytes == c->expected;
}

/* As others may know of it who are behind a barrier. */
static bool is_published(const struct counter *c, const struct thread *t)
{
	uint32_t n = t->waits < c->by->arrives ? t->waits : c->by->arrives;                /* as for is_ordered */
	return c->fenced && n > c->fence;
}

/* The mbarrier here; NULL with text. */
static struct counter *counter_at(struct machine *m, const struct thread *t, const struct ins *i, const struct operand *o, struct group **of)
{
	uint64_t at;
	struct group *g = place(m, t, i, o, 8, &at);
	struct counter *c = NULL;
	*of = g;
	for (int n = 0; g && n < g->ncounters; n++)
		c = g->counters[n].at == at ? &g->counters[n] : c;
	if (g && !c)
		refuse(m, t, i, "workgroup %u has no mbarrier at %llu", g->at[0], (unsigned long long)at);
	else if (c && !is_published(c, t) && (has(i, mapped) || (t != c->by && g->bars == c->bars))) {
		refuse(m, t, i, "no barrier orders this after the mbarrier was initialised");
		c = NULL;
	}
	return c;
}

static bool counter_init(struct machine *m, struct thread *t, const struct ins *i)
{
	uint64_t at, count;
	if (!is_form(i, BIT(init) | BIT(shared), 64, 2))
		return false;
	struct group *g = place(m, t, i, &i->op[0], 8, &at);
	if (!g)
		return false;
	count = cut(get(t, &i->op[1]), 32);
	if (count != 1)
		return refuse(m, t, i, "a count of %llu, only 1 is known", (unsigned long long)count);
	if (g->marks[at / 4].content == COUNTER)
		return refuse(m, t, i, "initialised twice");
	if (g->ncounters == COUNTERS)
		return refuse(m, t, i, "more than %d mbarriers", COUNTERS);
	if (!ptx_cluster_share(m, t, i, g, at, 8, true))
		return false;
	struct counter *c = &g->counters[g->ncounters++];
	*c = (struct counter){.by = t, .at = at, .bars = g->bars};
	g->marks[at / 4].content = g->marks[at / 4 + 1].content = COUNTER;
	return true;
}

static bool counter_fence(struct thread *t, const struct ins *i)
{
	if (!is_form(i, BIT(mbarrier_init) | BIT(release) | BIT(cluster), 0, 0))
		return false;
	for (struct counter *c = t->group->counters; c < t->group->counters + t->group->ncounters; c++)
		if (c->by == t && !c->fenced) {
			c->fenced = true;
			c->fence = t->arrives;
		}
	return true;
}

static bool counter_expect(struct machine *m, struct thread *t, const struct ins *i)
{
	struct group *g;
	if (!is_form(i, BIT(arrive) | BIT(expect_tx) | BIT(shared), 64, 3) || i->op[0].where != AT_SINK)
		return false;
	struct counter *c = counter_at(m, t, i, &i->op[1], &g);
	if (!c)
		return false;
	if (c->arrived)
		return refuse(m, t, i, "arrives twice");
	c->arrived = true;
	c->expected = cut(get(t, &i->op[2]), 32);
	m->moved = true;
	return c->bytes <= c->expected || refuse(m, t, i, "%llu bytes have come", (unsigned long long)c->bytes);
}

bool ptx_cluster_step(struct machine *m, struct thread *t, const struct ins *i)
{
	if (is(i, mapa))
		return map(m, t, i);
	if (m->members == 1)
		return ptx_refuse(m->c, "%s: not in a cluster", i->text);
	return is(i, fence) ? counter_fence(t, i) : has(i, init) ? counter_init(m, t, i) : counter_expect(m, t, i);
}

bool ptx_cluster_send(struct machine *m, struct thread *t, const struct ins *i)
{
	int count = has(i, v2) ? 2 : has(i, v4) ? 4 : 1, bytes = 4 * count;
	uint64_t form = BIT(async) | BIT(shared) | BIT(mapped) | BIT(complete_tx) | (count == 1 ? 0 : count == 2 ? BIT(v2) : BIT(v4)), at;
	if (!is_form(i, form, 32, count + 2))
		return false;
	struct group *g = place(m, t, i, &i->op[0], bytes, &at), *of;
	if (!g || !is_there(m, t, i, g))
		return false;
	struct counter *c = counter_at(m, t, i, &i->op[1 + count], &of);
	if (!c)
		return false;
	if (of != g)
		return refuse(m, t, i, "stores in workgroup %u and counts in workgroup %u", g->at[0], of->at[0]);
	if (is_complete(c))
		return refuse(m, t, i, "its mbarrier is complete");
	if (c->arrived && c->bytes + (unsigned)bytes > c->expected)
		return refuse(m, t, i, "its mbarrier expects %llu bytes and then has %llu", (unsigned long long)c->expected,
		              (unsigned long long)c->bytes + (unsigned)bytes);
	for (int k = 0; k < count; k++) {
		struct mark *mark = &g->marks[at / 4 + (unsigned)k];
		uint32_t v = (uint32_t)get(t, &i->op[1 + k]);
		if (mark->by || mark->read)
			return refuse(m, t, i, "shared address %llu was %s before", (unsigned long long)at + 4 * (unsigned)k, mark->by ? "written" : "read");
		*mark = (struct mark){.by = t, .ins = i, .counter = c, .arrives = t->arrives, .content = COUNTED};
		memcpy(g->shared + at + 4 * k, &v, 4);
	}
	c->bytes += (unsigned)bytes;
	m->moved = true;
	return true;
}

/* --- a warp's instructions -------------------------------------------------------------------------------------------------- */

/* Threads that have ended have arrived (PTX ISA, barrier.cluster).  Those of a warp do either together. */
static bool all_arrived(const struct machine *m, uint32_t barrier)
{
	for (int g = 0; g < m->members; g++)
		for (uint32_t n = 0; n < m->l->block; n += WARP)
			if (!m->groups[g].threads[n].done && m->groups[g].threads[n].arrives <= barrier)
				return false;
	return true;
}

enum meeting ptx_cluster_meet(struct machine *m, struct thread *warp, const struct ins *i)
{
	bool waits = has(i, wait), arrived = warp->arrives > warp->waits;
	uint64_t form = BIT(aligned) | BIT(cluster) | (waits ? BIT(wait) : BIT(arrive) | (i->modifiers & BIT(relaxed)));
	if (!is_form(i, form, 0, 0))
		ptx_refuse(m->c, "%s: not known, or not in this form", i->text);
	else if (waits != arrived)
		refuse(m, warp, i, "%s", waits ? "waits without an arrive" : "arrives twice without a wait");
	if (m->c->failed)
		return FAILS;
	if (waits && !all_arrived(m, warp->waits))
		return WAITS;
	for (struct thread *t = warp; t < warp + WARP; t++) {
		if (waits) {
			t->waits++;
			continue;
		}
		uint32_t before = t->released[t->arrives++ % 4];
		t->released[t->arrives % 4] = has(i, relaxed) ? before : t->arrives;
	}
	m->moved = true;
	return GOES_ON;
}

enum meeting ptx_cluster_receive(struct machine *m, struct thread *warp, const struct ins *i)
{
	struct counter *c[WARP];
	struct group *g = warp->group;
	bool complete = true;
	if (!is_form(i, BIT(try_wait) | BIT(parity) | BIT(shared), 64, 3))
		ptx_refuse(m->c, "%s: not known, or not in this form", i->text);
	else if (m->members == 1)
		ptx_refuse(m->c, "%s: not in a cluster", i->text);
	for (int n = 0; n < WARP && !m->c->failed; n++) {
		uint64_t phase = cut(get(&warp[n], &i->op[2]), 32);
		c[n] = counter_at(m, &warp[n], i, &i->op[1], &g);
		complete = complete && c[n] && is_complete(c[n]);
		if (phase)
			refuse(m, &warp[n], i, "phase %llu, there is only 0", (unsigned long long)phase);
	}
	if (m->c->failed)
		return FAILS;
	if (!complete)
		return WAITS;
	for (int n = 0; n < WARP; n++) {
		if (!c[n]->received)
			c[n]->received_bars = g->bars;
		c[n]->received = true;
		warp[n].received |= 1ull << (c[n] - g->counters);
		set(&warp[n], &i->op[0], 1, 1);
	}
	m->moved = true;
	return GOES_ON;
}
