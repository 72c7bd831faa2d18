/* check_lds.c -- accesses to LDS that meet nothing of note, checked without a look at every dword's history.
 *
 * In: the lanes of an access.  Out: true, with everything noted that later accesses will ask for; false, with nothing done,
 * where race.c and check_undef.c have to look: parts of dwords, copies from memory, atomics, transposed reads, bytes that are
 * undefined, and dwords touched since all waves were last in order at a barrier (all, for a store; only written ones, for a
 * load).  Method: lds_map holds these questions as a bit a dword. */
#include "check.h"

struct plain { const struct check_lanes *lanes; unsigned words; bool store; };

/* The bits of a lane's dwords, which lie in one word of the map. */
static inline uint64_t bits_of(uint32_t dword, unsigned words) { return ((UINT64_C(1) << words) - 1) << dword % 64; }

static bool meets_nothing(const struct check *c, const struct plain *p)
{
	const struct check_lanes *l = p->lanes;
	uint64_t found = 0, apart = 0;
	for (int i = 0; i < LANES; i++) {
		if (!l->bytes[i])
			continue;
		uint32_t at = (uint32_t)l->addr[i];
		const struct check_lds_map *m = &c->lds_map[at / 256];
		found |= (m->written | (p->store ? m->read : m->undef)) & bits_of(at / 4, p->words);
		apart |= at & (p->words * 4 - 1);
	}
	return !found && !apart;
}

static void note_loads(struct check *c, const struct plain *p, unsigned wave, uint32_t number, uint32_t from)
{
	const struct check_lanes *l = p->lanes;
	uint32_t *reads = &c->lds_read[wave * c->lds_dwords], value = number << 4 | 15;
	for (int i = 0; i < LANES; i++) {
		if (!l->bytes[i])
			continue;
		uint32_t dword = (uint32_t)l->addr[i] / 4;
		c->lds_map[dword / 64].read |= bits_of(dword, p->words);
		for (unsigned k = 0; k < p->words; k++) {
			reads[dword + k] = value;
			c->lds_read_at[dword + k] = from;
		}
	}
}

static void note_stores(struct check *c, const struct plain *p, unsigned wave, uint32_t number, uint32_t from)
{
	const struct check_lanes *l = p->lanes;
	const struct check_lds cell = {.number = number, .at = from, .wave = (uint8_t)wave, .count = COUNT_LGKM, .mask = 15, .undef = 0};
	for (int i = 0; i < LANES; i++) {
		if (!l->bytes[i])
			continue;
		uint32_t dword = (uint32_t)l->addr[i] / 4;
		uint64_t bits = bits_of(dword, p->words);
		c->lds_map[dword / 64].written |= bits;
		c->lds_map[dword / 64].undef &= ~bits;
		for (unsigned k = 0; k < p->words; k++)
			c->lds[dword + k] = cell;
	}
}

bool lds_plain(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, int part, const struct check_lanes *l)
{
	struct check_wave *cw = &c->wave[w->index];
	struct plain p = {l, u->bytes / 4u, u->store};
	unsigned data = part ? in->vdata2 : in->vdata, result = in->vdst + (unsigned)part * p.words;
	if (u->access != ACCESS_LDS || u->atomic || u->transposed || (p.words != 1 && p.words != 2 && p.words != 4) || u->bytes % 4)
		return false;
	if ((p.store && check_any(cw->vundef, data, p.words)) || !meets_nothing(c, &p))
		return false;
	(p.store ? note_stores : note_loads)(c, &p, w->index, cw->issued[COUNT_LGKM] + 1, in->at);
	if (!p.store && check_any(cw->vundef, result, p.words))
		undef_clear(cw, result, p.words, sim_exec(w));
	return true;
}
