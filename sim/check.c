/* check.c -- the checks of one host thread, and the first of them: registers in flight.
 *
 * In: each instruction before it is executed.  Out: true, or a report.  Memory results are in their registers at once;
 * what is kept here is the number of the operation that hardware would still be working on.  vmcnt counts loads, stores
 * and copies to LDS and completes in order; lgkmcnt counts LDS operations, in order among themselves, and scalar loads,
 * in any order: s_waitcnt lgkmcnt(n) with n > 0 says nothing about scalar loads and, as any of them may have been the
 * ones to complete, leaves the last n LDS operations open.  A register may be overwritten by a load of the same counter
 * as the one in flight: their order is certain. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static struct check *spare[CHECK_SPARE]; /* the one kept last first */
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;

static void destroy(struct check *c)
{
	if (!c)
		return;
	free(c->use);
	free(c->wave);
	free(c->lds);
	free(c->lds_map);
	free(c->lds_read);
	free(c->lds_read_at);
	free(c->quad_read);
	free(c->quad_read_at);
	free(c->lds_plain);
	free(c->lds_notes);
	free(c);
}

static struct check *spare_of(const struct sim_group *g, uint32_t nwaves, size_t dwords)
{
	struct check *c = NULL;
	pthread_mutex_lock(&spare_lock);
	for (int i = 0; i < CHECK_SPARE && !c; i++)
		if (spare[i] && spare[i]->code == g->code->number && spare[i]->nwaves == nwaves && spare[i]->lds_dwords == dwords) {
			c = spare[i];
			spare[i] = NULL;
		}
	pthread_mutex_unlock(&spare_lock);
	return c;
}

static struct check *make(const struct sim_group *g, uint32_t nwaves, size_t dwords)
{
	struct check *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->code = g->code->number;
	c->nwaves = nwaves;
	c->use = calloc(g->code->object->code_size / 4 + 1, sizeof *c->use);
	c->wave = calloc(nwaves, sizeof *c->wave);
	c->lds = calloc(dwords, sizeof *c->lds);
	c->lds_dwords = dwords;
	c->lds_map = calloc(dwords / 64 + 1, sizeof *c->lds_map);
	c->lds_read = calloc(dwords * nwaves, sizeof *c->lds_read);
	c->lds_read_at = calloc(dwords, sizeof *c->lds_read_at);
	c->quad_read = calloc((dwords / 4 + 1) * nwaves, sizeof *c->quad_read);
	c->quad_read_at = calloc(dwords / 4 + 1, sizeof *c->quad_read_at);
	c->lds_plain = calloc(CHECK_LDS_PLAIN, sizeof *c->lds_plain);
	c->lds_notes = calloc(CHECK_LDS_NOTES, sizeof *c->lds_notes);
	if (c->use && c->wave && c->lds && c->lds_map && c->lds_read && c->lds_read_at && c->quad_read && c->quad_read_at && c->lds_plain && c->lds_notes)
		return c;
	destroy(c);
	return NULL;
}

struct check *check_new(struct sim_group *g, uint32_t nwaves, struct check_global *global)
{
	size_t dwords = g->lds_size / 4 + 1;
	struct check *c = spare_of(g, nwaves, dwords);
	if (!c && !(c = make(g, nwaves, dwords)))
		return NULL;
	c->group = g;
	c->global = global;
	c->page = NULL;
	c->page_key = 0;
	c->constant_next = 0;
	memset(c->constant, 0, sizeof c->constant);
	return c;
}

void check_free(struct check *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&spare_lock);
	unsigned room = 0; /* the first free place, else that of the oldest */
	while (room < CHECK_SPARE - 1 && spare[room])
		room++;
	struct check *last = spare[room];
	memmove(spare + 1, spare, sizeof *spare * room);
	spare[0] = c;
	pthread_mutex_unlock(&spare_lock);
	destroy(last);
}

void check_start_group(struct check *c, struct sim_wave *waves, uint64_t number)
{
	size_t dwords = c->lds_dwords;
	c->workgroup = number < 0xfffff0 ? (uint32_t)number + 1 : 0;
	for (uint32_t i = 0; i < c->nwaves; i++) {
		struct check_wave *w = &c->wave[i];
		if (w->issued[COUNT_VM] > 1u << 27 || w->issued[COUNT_LGKM] > 1u << 27) { /* long before the numbers end */
			memset(c->wave, 0, sizeof *c->wave * c->nwaves);
			memset(c->lds, 0, sizeof *c->lds * dwords);
			memset(c->lds_read, 0, sizeof *c->lds_read * dwords * c->nwaves);
			memset(c->quad_read, 0, sizeof *c->quad_read * (dwords / 4 + 1) * c->nwaves);
			break;
		}
	}
	for (uint32_t i = 0; i < c->nwaves; i++) {
		struct check_wave *w = &c->wave[i];
		memcpy(w->done, w->issued, sizeof w->done);
		memcpy(w->visible, w->issued, sizeof w->visible);
		memset(w->vflight, 0, sizeof w->vflight);
		memset(w->sflight, 0, sizeof w->sflight);
		w->epoch = 0;
		w->time += 64; /* past every wait state */
		undef_start(w, &waves[i]);
	}
	for (size_t i = 0; i < dwords; i++)
		c->lds[i].undef = 15;
	for (size_t i = 0; i < dwords / 64 + 1; i++)
		c->lds_map[i] = (struct check_lds_map){0, 0, ~UINT64_C(0)};
	lds_forget(c);
	c->dma = false;
}

void check_barrier(struct check *c)
{
	bool all = true; /* every access to LDS so far is in order with all that follow */
	for (uint32_t i = 0; i < c->nwaves; i++) {
		const struct check_wave *w = &c->wave[i];
		all = all && w->done[COUNT_LGKM] == w->issued[COUNT_LGKM] && (!c->dma || w->done[COUNT_VM] == w->issued[COUNT_VM]);
	}
	for (size_t i = 0; all && i < c->lds_dwords / 64 + 1; i++)
		c->lds_map[i].written = c->lds_map[i].read = 0;
	if (all)
		lds_forget(c);
	for (uint32_t i = 0; i < c->nwaves; i++) {
		memcpy(c->wave[i].visible, c->wave[i].done, sizeof c->wave[i].done);
		c->wave[i].epoch++;
	}
}

const char *check_place(const struct check *c, uint32_t at, char *buf, size_t len)
{
	const struct sim_launch *l = c->group->launch;
	char line[128];
	sim_object_line(l->object, at, line, sizeof line);
	snprintf(buf, len, "%s at 0x%llx%s%s", sim_op_name(c->group->code->inst[at / 4].op),
		(unsigned long long)(at - l->kernel->entry), *line ? " " : "", line);
	return buf;
}

/* ---- registers in flight ---- */

static bool late(struct check *c, struct sim_wave *w, const struct sim_inst *in, unsigned reg, char file, int counter, uint32_t number, bool write)
{
	const struct check_wave *cw = &c->wave[w->index];
	char place[192];
	uint32_t behind = cw->issued[counter] - number;
	check_place(c, cw->at[counter][number % CHECK_RING], place, sizeof place);
	if (counter == COUNT_SMEM)
		behind = 0;
	sim_fail(w, in, SIM_ECHECK, -1, "%s %c%u, which %s has not delivered yet: needs s_waitcnt %s(%u) before",
		write ? "overwrites" : "reads", file, reg, place, counter == COUNT_VM ? "vmcnt" : "lgkmcnt", behind);
	return false;
}

static __attribute__((noinline)) bool registers_ready(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	const struct check_wave *cw = &c->wave[w->index];
	bool vm = cw->issued[COUNT_VM] != cw->done[COUNT_VM], lgkm = cw->issued[COUNT_LGKM] != cw->done[COUNT_LGKM];
	if (vm || lgkm) {
		bool from_vm = u->access == ACCESS_VMEM || u->access == ACCESS_SCRATCH, from_lds = u->access == ACCESS_LDS;
		for (int k = 0; k < u->nread + u->nwrite; k++) {
			bool write = k >= u->nread;
			const struct check_regs *r = write ? &u->write[k - u->nread] : &u->read[k];
			for (unsigned i = r->first; i < r->first + (unsigned)r->n && i < CHECK_VGPRS; i++) {
				if (cw->vm[i] > cw->done[COUNT_VM] && !(write && from_vm))
					return late(c, w, in, i, 'v', COUNT_VM, cw->vm[i], write);
				if (cw->lgkm[i] > cw->done[COUNT_LGKM] && !(write && from_lds))
					return late(c, w, in, i, 'v', COUNT_LGKM, cw->lgkm[i], write);
			}
		}
	}
	if (cw->issued[COUNT_SMEM] != cw->done[COUNT_SMEM])
		for (int k = 0; k < u->nsread + u->nswrite; k++) {
			bool write = k >= u->nsread;
			const struct check_regs *r = write ? &u->swrite[k - u->nsread] : &u->sread[k];
			for (unsigned i = r->first; i < r->first + (unsigned)r->n && i < CHECK_SGPRS; i++)
				if (cw->smem[i] > cw->done[COUNT_SMEM])
					return late(c, w, in, i, 's', COUNT_SMEM, cw->smem[i], write);
		}
	return true;
}

static void wait_for(struct check_wave *cw, int counter, uint32_t left)
{
	if (cw->issued[counter] > left && cw->issued[counter] - left > cw->done[counter])
		cw->done[counter] = cw->issued[counter] - left;
}

/* Registers whose last load is done are no longer in flight. */
static void arrive(struct check_wave *cw)
{
	for (unsigned i = 0; i < CHECK_VMAP; i++)
		for (uint64_t left = cw->vflight[i]; left; left &= left - 1) {
			unsigned r = 64 * i + (unsigned)__builtin_ctzll(left);
			if (cw->vm[r] <= cw->done[COUNT_VM] && cw->lgkm[r] <= cw->done[COUNT_LGKM])
				cw->vflight[i] &= ~(left & -left);
		}
	for (unsigned i = 0; i < CHECK_SMAP; i++)
		for (uint64_t left = cw->sflight[i]; left; left &= left - 1)
			if (cw->smem[64 * i + (unsigned)__builtin_ctzll(left)] <= cw->done[COUNT_SMEM])
				cw->sflight[i] &= ~(left & -left);
}

static void wait(struct check_wave *cw, uint32_t imm)
{
	uint32_t vm = (imm & 15) | (imm >> 10 & 0x30), lgkm = imm >> 8 & 15;
	if (vm < 63)
		wait_for(cw, COUNT_VM, vm);
	if (lgkm < 15)
		wait_for(cw, COUNT_LGKM, lgkm);
	if (lgkm == 0)
		wait_for(cw, COUNT_SMEM, 0);
	arrive(cw);
}

static void issue(struct check_wave *cw, const struct sim_inst *in, int counter)
{
	/* vmcnt has six bits, and what it counts completes in order: the 64th operation is not issued before the first is done, which LLVM relies on (it
	 * takes a wait for something else, whose vmcnt field says 63, for a wait that leaves 63).  Of the others as many are kept as there is room for. */
	static const uint32_t most[COUNTS] = {[COUNT_VM] = 63, [COUNT_LGKM] = CHECK_RING - 1, [COUNT_SMEM] = CHECK_RING - 1};
	cw->issued[counter]++;
	cw->at[counter][cw->issued[counter] % CHECK_RING] = in->at;
	if (cw->issued[counter] - cw->done[counter] > most[counter])
		cw->done[counter] = cw->issued[counter] - most[counter];
}

static void issue_access(struct check_wave *cw, const struct sim_inst *in, const struct check_use *u)
{
	bool vm = u->access == ACCESS_VMEM || u->access == ACCESS_DMA || u->access == ACCESS_FLAT || u->access == ACCESS_SCRATCH;
	bool lgkm = u->access == ACCESS_LDS || u->access == ACCESS_FLAT;
	if (vm)
		issue(cw, in, COUNT_VM);
	if (lgkm)
		issue(cw, in, COUNT_LGKM);
	if (u->access == ACCESS_SMEM)
		issue(cw, in, COUNT_SMEM);
	for (int k = 0; k < u->nwrite; k++)
		for (unsigned i = u->write[k].first; i < u->write[k].first + (unsigned)u->write[k].n && i < CHECK_VGPRS; i++) {
			if (vm)
				cw->vm[i] = cw->issued[COUNT_VM];
			if (lgkm)
				cw->lgkm[i] = cw->issued[COUNT_LGKM];
			check_mark(cw->vflight, i, true);
		}
	if (u->access == ACCESS_SMEM)
		for (int k = 0; k < u->nswrite; k++)
			for (unsigned i = u->swrite[k].first; i < u->swrite[k].first + (unsigned)u->swrite[k].n && i < CHECK_SGPRS; i++) {
				cw->smem[i] = cw->issued[COUNT_SMEM];
				check_mark(cw->sflight, i, true);
			}
}

/* ---- each instruction ---- */

static bool lds_before(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, int part, const struct check_lanes *lanes)
{
	lds_notes(c);
	if (!race_lds(c, w, in, u, lanes))
		return false;
	undef_lds(c, w, in, u, part, lanes);
	return true;
}

static __attribute__((noinline)) bool access_before(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	struct check_lanes lanes, lds, memory;
	for (int part = 0; part < u->parts; part++) {
		if (lds_known(c, w, in, u, part))
			continue;
		lds_notes(c);
		check_lds_lanes(w, in, u, part, &lanes);
		if (lds_plain(c, w, in, u, part, &lanes))
			continue;
		if (!lds_before(c, w, in, u, part, &lanes))
			return false;
	}
	if (u->access == ACCESS_DMA) {
		c->dma = true;
		check_lds_lanes(w, in, u, 0, &lanes);
		if (!lds_before(c, w, in, u, 0, &lanes))
			return false;
	}
	if (u->access != ACCESS_VMEM && u->access != ACCESS_DMA && u->access != ACCESS_FLAT)
		return true;
	lanes.from = 0;
	do {
		check_memory_lanes(w, in, u, &lanes);
		const struct check_lanes *l = &lanes;
		if (u->access == ACCESS_FLAT) {
			if (check_flat_lanes(w, &lanes, &lds, &memory) && !lds_before(c, w, in, u, 0, &lds))
				return false;
			l = &memory;
		}
		if (!race_global(c, w, in, u, l) || !undef_global(c, w, in, u, l))
			return false;
		lanes.from = (uint8_t)(lanes.from + lanes.piece);
	} while (lanes.piece && lanes.from < u->bytes);
	return true;
}

/* What an instruction's registers call for: nothing, the marks of what it writes taken back, or a closer look at all. */
enum note { NOTHING, WRITTEN, ALL };

static inline enum note note_of(const struct check_wave *cw, const struct check_use *u)
{
	uint64_t all = 0, written = 0;
	unsigned i = 0;
	for (; i < u->vread_end; i++)
		all |= (cw->vflight[u->bits[i].word] | cw->vundef[u->bits[i].word]) & u->bits[i].mask;
	for (; i < u->vwrite_end; i++) {
		all |= cw->vflight[u->bits[i].word] & u->bits[i].mask;
		written |= cw->vundef[u->bits[i].word] & u->bits[i].mask;
	}
	for (; i < u->sread_end; i++)
		all |= (cw->sflight[u->bits[i].word] | cw->sundefined[u->bits[i].word]) & u->bits[i].mask;
	for (; i < u->swrite_end; i++) {
		all |= cw->sflight[u->bits[i].word] & u->bits[i].mask;
		written |= cw->sundefined[u->bits[i].word] & u->bits[i].mask;
	}
	return all || u->crowded ? ALL : written ? WRITTEN : NOTHING;
}

static __attribute__((noinline)) void first_time(struct check *c, struct check_use *u, const struct sim_inst *in)
{
	check_use_of(u, in);
	if (u->access == ACCESS_LDS && c->lds_numbered < UINT16_MAX)
		u->lds_number = ++c->lds_numbered;
}

bool check_before(struct check *c, struct sim_wave *w, const struct sim_inst *in)
{
	struct check_use *u = &c->use[in->at / 4];
	struct check_wave *cw = &c->wave[w->index];
	for (int i = 0; i < 4; i++) /* what the next one needs */
		__builtin_prefetch((const char *)(u + in->len) + 64 * i);
	__builtin_prefetch(in + in->len);
	if (!u->ready)
		first_time(c, u, in);
	enum note note = note_of(cw, u);
	if (note == ALL && !registers_ready(c, w, in, u))
		return false;
	if (in->op == OP_s_waitcnt)
		wait(cw, (uint32_t)in->offset & 0xffff);
	if (!hazard_before(c, w, in, u) || (note && !(note == ALL ? undef_before : undef_written)(c, w, in, u)))
		return false;
	if (u->access == ACCESS_NONE)
		return true;
	if (u->access != ACCESS_SMEM && !access_before(c, w, in, u))
		return false;
	issue_access(cw, in, u);
	return true;
}

void check_after(struct check *c, struct sim_wave *w, const struct sim_inst *in)
{
	hazard_after(c, w, in, &c->use[in->at / 4]);
}
