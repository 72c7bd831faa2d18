/* ptx_run.c -- an interpreter of the PTX that the compiler emits (PTX ISA 8.4), for ptx_run.h.
 * Method: ptx_text.c makes a list of instructions of the kernel's text; the lanes of a warp do them together as far as they go the same way
 * (ptx_lanes.c, ptx_memory.c); where they part, those that are furthest behind go on, up to an instruction of the warp (shfl, vote, redux, mma, wgmma) or of
 * its workgroup (bar); when all of them have come it is done for all at once.  The workgroups of
 * a cluster take turns: each runs up to barriers that others have yet to come to, or to bytes that they have yet to send.  What they do
 * with each other's memory is ptx_cluster.c's.  A kernel without clusters has clusters of one; one whose workgroups all meet runs all of them so, and a
 * warp that looks whether they have come waits where it finds what it has seen before. */
#include "ptx_run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ptx_cluster.h"

enum { SPIN = 50 * 1000 * 1000, MOST_MEETING = 2048 };

/* One instruction of the lanes `on`, of which each in turn does what is of memory. */
static bool step(struct machine *m, struct thread *warp, const struct ins *i, lanes on)
{
	bool memory = ptx_memory_is(i);
	for (lanes left = i->quad == SHOW ? on : 0; left; left &= left - 1)
		warp[__builtin_ctz(left)].fences++;
	if (i->quad == SHOW)
		return true;
	if (!memory && !is(i, mapa) && !is(i, fence) && !is(i, mbarrier))
		return ptx_lanes_compute(warp, i, on);
	for (lanes left = on; left; left &= left - 1) {
		struct thread *t = &warp[__builtin_ctz(left)];
		if (!(memory ? ptx_memory_access(m, t, i) : ptx_cluster_step(m, t, i)))
			return false;
	}
	return true;
}

/* Whether all workgroups have come. */
static bool looks(const struct ins *i) { return is(i, ld) && has(i, acquire); }

static bool is_joint(const struct ins *i)
{
	return is(i, shfl) || is(i, vote) || is(i, redux) || is(i, mma) || is(i, wgmma) || is(i, bar) || is(i, barrier) ||
	       (is(i, mbarrier) && has(i, try_wait)) || looks(i);
}

/* The lanes that are furthest behind, of those that are neither done nor at a joint instruction, `going`; 0 = there are none. */
static lanes behind(const struct machine *m, const struct thread *warp, lanes *going)
{
	lanes on = 0;
	int pc = INT_MAX;
	*going = 0;
	for (int n = 0; n < WARP; n++) {
		const struct thread *t = &warp[n];
		if (t->done || m->c->ins[t->pc].joint)
			continue;
		*going |= (lanes)1 << n;
		if (t->pc > pc)
			continue;
		on = (t->pc < pc ? 0 : on) | (lanes)1 << n;
		pc = t->pc;
	}
	return on;
}

static void go_to(const struct machine *m, struct thread *warp, lanes on, int pc)
{
	for (; on; on &= on - 1) {
		struct thread *t = &warp[__builtin_ctz(on)];
		t->pc = pc;
		t->done = t->done || pc == m->c->n;
	}
}

static bool end_threads(struct machine *m, struct thread *warp, lanes on)
{
	for (; on; on &= on - 1) {
		struct thread *t = &warp[__builtin_ctz(on)];
		if (t->ncopies)
			return ptx_refuse(m->c, "thread %u: ends, and has not waited for what cp.async brings", t->tid);
		if (warp->products && warp->products->n)
			return ptx_refuse(m->c, "thread %u: ends, and has not waited for its products", t->tid);
		t->done = true;
	}
	return true;
}

/* For a warp that looks at the clock. */
static void tell_time(struct machine *m, struct thread *warp, const struct ins *i)
{
	if (i->nop < 2 || i->op[1].where != AT_REGISTER || i->op[1].reg != TIME)
		return;
	uint64_t time = *reg_of(warp, TIME) + 1;
	for (int n = 0; n < WARP; n++)
		*reg_of(&warp[n], TIME) = time;
	m->l->time = time > m->l->time ? time : m->l->time;
}

/* The lanes `on`, all at the same place, up to where they part, or to a joint instruction, or, where others are going too, by one instruction. */
static bool run_together(struct machine *m, struct thread *warp, lanes on, lanes going, int *spent)
{
	int pc = warp[__builtin_ctz(on)].pc;
	do {
		const struct ins *i = &m->c->ins[pc++];
		lanes doing = on & ptx_lanes_guarded(warp, i);
		if (++*spent > SPIN)
			return ptx_refuse(m->c, "%s: a thread does not come to an end", i->text);
		if (!doing)
			continue;
		if (warp->products && !ptx_lanes_apart(m->c, warp, i))
			return false;
		tell_time(m, warp, i);
		if (is(i, ret) || is(i, exit)) {
			if (!end_threads(m, warp, doing))
				return false;
			on &= ~doing;
			break;
		}
		if (is(i, bra) && doing != on) {
			go_to(m, warp, doing, i->target);
			on &= ~doing;
			break;
		}
		if (is(i, bra))
			pc = i->target;
		else if (!is(i, griddepcontrol) && !step(m, warp, i, doing))          /* one launch runs at a time */
			return ptx_refuse(m->c, "%s: not known, or not in this form", i->text);
	} while (on == going && pc < m->c->n && !m->c->ins[pc].joint);
	go_to(m, warp, on, pc);
	return true;
}

/* All threads of a warp up to joint instructions, or the end. */
static bool run_lanes(struct machine *m, struct thread *warp)
{
	int spent = 0;
	for (lanes on, going; (on = behind(m, warp, &going));)
		if (!run_together(m, warp, on, going, &spent))
			return false;
	for (int n = 0; n < WARP; n++) {
		const struct ins *i = warp[n].done ? NULL : &m->c->ins[warp[n].pc];
		if (i && i->guard >= 0 && !looks(i))
			return ptx_refuse(m->c, "%s: a warp's instruction under a predicate", i->text);
	}
	return true;
}

/* A warp looks: it waits where none of its threads sees anything new. */
static enum meeting look(struct machine *m, struct thread *warp, const struct ins *i)
{
	bool any = false, waits = false;
	lanes on = ptx_lanes_guarded(warp, i);
	if (!step(m, warp, i, on))
		return FAILS;
	for (; on; on &= on - 1) {
		struct thread *t = &warp[__builtin_ctz(on)];
		uint32_t now = (uint32_t)get(t, &i->op[0]);
		waits = t->looked && t->seen == now;
		any = any || !waits;
		t->looked = true;
		t->seen = now;
	}
	m->moved = m->moved || any;
	return waits && !any ? WAITS : GOES_ON;
}

enum state { ENDED, AT_BAR, AT_CLUSTER, REFUSED };

/* All threads of a warp to the same barrier or the end; again where it has not left the barrier. */
static enum state run_warp(struct machine *m, struct thread *warp)
{
	ptx_memory_order(m);
	for (;;) {
		if (!run_lanes(m, warp))
			return REFUSED;
		for (int n = 1; n < WARP; n++)
			if (warp[n].done != warp[0].done || (!warp[0].done && warp[n].pc != warp[0].pc)) {
				ptx_refuse(m->c, "thread %u: %s: the warp's threads are not all here", warp[0].tid, warp[0].done ? "end" : m->c->ins[warp[0].pc].text);
				return REFUSED;
			}
		if (warp[0].done) {
			m->moved = true;
			return ENDED;
		}
		const struct ins *i = &m->c->ins[warp[0].pc];
		if (warp->products && !is(i, wgmma) && !ptx_lanes_apart(m->c, warp, i))
			return REFUSED;
		if (is(i, bar) && !has(i, warp))
			return AT_BAR;
		if (is(i, barrier) || is(i, mbarrier) || looks(i)) {
			enum meeting met = is(i, barrier) ? ptx_cluster_meet(m, warp, i) : looks(i) ? look(m, warp, i) : ptx_cluster_receive(m, warp, i);
			if (met == WAITS)
				m->stuck = warp;
			if (met != GOES_ON)
				return met == WAITS ? AT_CLUSTER : REFUSED;
			if (is(i, barrier) && warp[0].waits == warp[0].arrives && warp[0].released[warp[0].arrives % 4] == warp[0].arrives)
				ptx_memory_order(m);
		} else if (is(i, bar))
			ptx_memory_order(m);
		else if (!(is(i, wgmma) ? ptx_lanes_quad(m, warp, i) : ptx_lanes_exchange(m->c, warp, i)))
			return REFUSED;
		for (int n = 0; n < WARP; n++)
			warp[n].pc++;
	}
}

static void start_products(struct machine *m, struct group *g)
{
	size_t registers = (size_t)m->registers;
	for (uint32_t t = 0; t < m->l->block; t += WARP) {
		struct products *all = g->threads[t].products;
		*all = (struct products){.product = all->product, .sums = all->sums, .words = all->words, .touched = all->touched};
		memset(all->sums, 0, registers * sizeof *all->sums);
		memset(all->words, 0, registers * sizeof *all->words);
		memset(all->touched, true, registers * sizeof *all->touched);
	}
	memset(g->pieces, 0, ((size_t)m->l->shared / PIECE + 1) * sizeof *g->pieces);
	memset(g->stored, 0, ((size_t)m->l->shared + PIECE) * sizeof *g->stored);
}

static void start(struct machine *m, struct group *g)
{
	uint32_t rank = (uint32_t)(g - m->groups);
	uint64_t meeting = (uint64_t)(uintptr_t)m->meeting;
	memset(g->threads[0].reg, 0xA5, (size_t)m->registers * m->l->block * sizeof *g->threads[0].reg);
	for (uint32_t n = 0; n < m->l->block; n++) {
		struct thread *t = &g->threads[n];
		uint64_t *reg = t->reg;
		struct copied *copies = t->copies;
		struct products *products = t->products;
		*t = (struct thread){.reg = reg, .copies = copies, .products = products, .tid = n, .group = g};
		*reg_of(t, TID) = n;
		*reg_of(t, RANK) = rank;
		for (int d = 0; d < 3; d++)
			*reg_of(t, CTAID + d) = g->at[d], *reg_of(t, NCTAID + d) = m->l->grid[d];
		*reg_of(t, ENVREG1) = meeting >> 32;
		*reg_of(t, ENVREG2) = cut(meeting, 32);
		*reg_of(t, TIME) = 0;
	}
	memset(g->shared, 0xA5, (size_t)m->l->shared + 1);
	if (m->members > 1)
		ptx_cluster_start(m, g);
	if (m->c->quads)
		start_products(m, g);
	g->ended = false;
}

/* The barrier for some warps, with a number, that the warp is at; NULL = it is at none. */
static const struct ins *named(const struct machine *m, const struct thread *warp)
{
	const struct ins *i = warp->done ? NULL : &m->c->ins[warp->pc];
	return i && is(i, bar) && !has(i, warp) && i->nop == 2 ? i : NULL;
}

/* Warps that are all at a barrier of theirs leave it; false = there are none. */
static bool leave_named(struct machine *m, struct group *g)
{
	bool left = false;
	for (uint32_t w = 0; w < m->l->block; w += WARP) {
		const struct ins *i = named(m, &g->threads[w]);
		uint64_t number = i ? get(&g->threads[w], &i->op[0]) : 0;
		uint32_t here = 0;
		for (uint32_t v = 0; i && v < m->l->block; v += WARP)
			here += named(m, &g->threads[v]) == i && get(&g->threads[v], &i->op[0]) == number ? WARP : 0;
		if (!i || !number || number > 15 || here != get(&g->threads[w], &i->op[1]))
			continue;
		for (uint32_t v = 0; v < m->l->block; v += WARP)
			for (uint32_t t = v; named(m, &g->threads[v]) == i && get(&g->threads[v], &i->op[0]) == number && t < v + WARP; t++)
				g->threads[t].at_named = true;
		for (uint32_t t = 0; t < m->l->block; t++) {
			g->threads[t].pc += g->threads[t].at_named;
			g->threads[t].at_named = false;
		}
		left = true;
	}
	m->moved = m->moved || left;
	return left;
}

/* Warps that do products together do the same ones. */
static bool agree(struct machine *m, const struct group *g)
{
	for (uint32_t w = 0; m->c->quads && w < m->l->block / WARP; w++) {
		uint32_t first = w / QUAD_WARPS * QUAD_WARPS;
		if (g->threads[w * WARP].products->did != g->threads[first * WARP].products->did)
			return ptx_refuse(m->c, "workgroup %u: warps %u and %u do not do the same products", g->at[0], first, w);
	}
	return true;
}

/* A workgroup's warps, each to the next barrier that is not met yet; then past the workgroup's own if all have come. */
static bool run_block(struct machine *m, struct group *g, int round)
{
	uint32_t warps = m->l->block / WARP, count[REFUSED] = {0};
	for (uint32_t w = 0; w < warps; w++) {                  /* forwards and backwards: an order that a barrier must make good for */
		struct thread *warp = &g->threads[(round % 2 ? warps - 1 - w : w) * WARP];
		enum state state = warp->done ? ENDED : run_warp(m, warp);
		if (state == REFUSED)
			return false;
		count[state]++;
	}
	g->ended = count[ENDED] == warps;
	if (g->ended && !agree(m, g))
		return false;
	if (g->ended)
		return m->members == 1 || ptx_cluster_end(m, g);
	if (count[AT_CLUSTER])                                  /* they may come yet */
		return true;
	if (leave_named(m, g))
		return true;
	if (count[AT_BAR] != warps)
		return ptx_refuse(m->c, "%u of %u warps wait at a barrier", count[AT_BAR], warps);
	for (uint32_t t = 1; t < m->l->block; t++)
		if (g->threads[t].pc != g->threads[0].pc)
			return ptx_refuse(m->c, "warps wait at different barriers");
	if (!agree(m, g))
		return false;
	for (uint32_t t = 0; t < m->l->block; t++) {
		g->threads[t].pc++;
		g->threads[t].shown = g->threads[t].fences;
	}
	g->bars++;
	m->moved = true;
	return true;
}

/* The cluster whose first workgroup is here; or all workgroups. */
static bool run_cluster(struct machine *m, uint32_t x, uint32_t y, uint32_t z)
{
	const uint32_t *grid = m->l->grid;
	for (int g = 0; g < m->ngroups; g++) {
		uint32_t n = x + (uint32_t)g;
		memcpy(m->groups[g].at, (uint32_t[]){n % grid[0], y + n / grid[0] % grid[1], z + n / grid[0] / grid[1]}, sizeof m->groups[g].at);
		start(m, &m->groups[g]);
	}
	for (int round = 0, ended = 0; ended < m->ngroups; round++) {
		ended = 0;
		m->moved = false;
		for (int n = 0; n < m->ngroups; n++) {
			struct group *g = &m->groups[round % 2 ? m->ngroups - 1 - n : n];
			if (!g->ended && !run_block(m, g, round))
				return false;
			ended += g->ended;
		}
		if (ended < m->ngroups && !m->moved) {
			const struct ins *i = &m->c->ins[m->stuck->pc];
			return ptx_refuse(m->c, "workgroup %u thread %u: %s: %s", m->stuck->group->at[0], m->stuck->tid, i->text,
			                  is(i, mbarrier) ? "its phase never ends" : "others never arrive");
		}
	}
	return true;
}

static void make_products(struct machine *m, struct group *g)
{
	struct arena *a = &m->c->arena;
	size_t registers = (size_t)m->registers;
	g->pieces = arena_alloc(a, ((size_t)m->l->shared / PIECE + 1) * sizeof *g->pieces);
	g->stored = arena_alloc(a, ((size_t)m->l->shared + PIECE) * sizeof *g->stored);
	for (uint32_t w = 0; w < m->l->block; w += WARP) {
		struct products *all = arena_alloc(a, sizeof *all);
		all->product = arena_alloc(a, PRODUCTS * sizeof *all->product);
		all->sums = arena_alloc(a, registers * sizeof *all->sums);
		all->words = arena_alloc(a, registers * sizeof *all->words);
		all->touched = arena_alloc(a, registers * sizeof *all->touched);
		for (uint32_t t = w; t < w + WARP; t++)
			g->threads[t].products = all;
	}
}

static void make_groups(struct machine *m)
{
	struct arena *a = &m->c->arena;
	m->groups = arena_alloc(a, (size_t)m->ngroups * sizeof *m->groups);
	m->touches = arena_alloc(a, ((size_t)m->l->shared + 1) * sizeof *m->touches);
	memset(m->touches, 0, ((size_t)m->l->shared + 1) * sizeof *m->touches);
	for (struct group *g = m->groups; g < m->groups + m->ngroups; g++) {
		g->threads = arena_alloc(a, m->l->block * sizeof *g->threads);
		g->shared = arena_alloc(a, (size_t)m->l->shared + 64);
		uint64_t *reg = arena_alloc(a, (size_t)m->registers * m->l->block * sizeof *reg);
		struct copied *copies = arena_alloc(a, (size_t)m->l->block * COPIES * sizeof *copies);
		for (uint32_t t = 0; t < m->l->block; t++) {
			g->threads[t].reg = reg + (size_t)m->registers * (t / WARP * WARP) + t % WARP;
			g->threads[t].copies = copies + (size_t)t * COPIES;
		}
		for (uint32_t t = 0; t < m->l->block; t++)
			g->threads[t].products = NULL;
		g->pieces = NULL;
		g->stored = NULL;
		if (m->c->quads)
			make_products(m, g);
		if (m->members > 1)
			ptx_cluster_alloc(m, g);
	}
}

int ptx_run(struct ptx_launch *l, char *err, size_t errlen)
{
	struct code c = {.err = err, .errlen = errlen};
	struct machine m = {.c = &c, .l = l};
	bool fine = ptx_read(&c, l->text, l->kernel);
	for (int i = 0; fine && i < c.n; i++)
		c.ins[i].joint = is_joint(&c.ins[i]);
	if (fine && l->block % WARP)
		fine = ptx_refuse(&c, "%s: workgroups have another shape than the compiler's", l->kernel);
	if (fine && c.quads && (l->block % (QUAD_WARPS * WARP) || c.cluster))
		fine = ptx_refuse(&c, "%s: products of four warps in a %s", l->kernel, c.cluster ? "cluster are not known here" : "workgroup with other warps");
	if (fine && (size_t)c.arguments != l->argument_bytes)
		fine = ptx_refuse(&c, "%s: %d bytes of arguments in the text, %zu are given", l->kernel, c.arguments, l->argument_bytes);
	if (fine && c.shared > l->shared)
		fine = ptx_refuse(&c, "%s: %d bytes of shared memory in the text, %d are given", l->kernel, c.shared, l->shared);
	m.members = m.ngroups = c.cluster ? c.cluster : 1;
	if (fine && c.meets != l->meets)
		fine = ptx_refuse(&c, "%s: its workgroups %s", l->kernel, l->meets ? "do not wait for each other" : "wait for each other, and may not run at a time");
	if (fine && c.meets && c.cluster)
		fine = ptx_refuse(&c, "%s: workgroups of clusters that all wait for each other are not known here", l->kernel);
	uint64_t all = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	if (fine && c.meets && all > MOST_MEETING)
		fine = ptx_refuse(&c, "%s: %llu workgroups wait for each other; expected %d at most", l->kernel, (unsigned long long)all, MOST_MEETING);
	if (fine && c.meets)
		m.ngroups = (int)all;
	m.meeting[0] = sizeof m.meeting;
	m.registers = c.nclasses ? (int)(c.classes[c.nclasses - 1].value + c.registers[c.nclasses - 1].value) : SPECIALS;
	if (fine && l->grid[0] % (uint32_t)m.members)
		fine = ptx_refuse(&c, "%s: a grid of %u workgroups along x is not one of clusters of %d", l->kernel, l->grid[0], m.ngroups);
	if (fine)
		make_groups(&m);
	for (uint32_t z = 0; z < l->grid[2]; z++)
		for (uint32_t y = 0; y < l->grid[1]; y++)
			for (uint32_t x = 0; fine && x < l->grid[0] && (!c.meets || (!x && !y && !z)); x += (uint32_t)m.members)
				fine = run_cluster(&m, x, y, z);
	arena_free(&c.arena);
	return fine ? 0 : -1;
}
