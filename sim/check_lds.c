/* check_lds.c -- accesses to LDS that meet nothing of note, checked without a look at every dword's history.
 *
 * In: the lanes of an access.  Out: true, with everything noted that later accesses will ask for; false, with nothing done,
 * where race.c and check_undef.c have to look: parts of dwords, copies from memory, atomics, transposed reads, bytes that are
 * undefined, and dwords touched since all waves were last in order at a barrier (all, for a store; only written ones, for a
 * load).  Method: lds_map holds these questions as a bit a dword.
 *
 * A loop goes to the same addresses again and again: an access that was plain is known by its instruction, wave and addresses, and
 * asks for its dwords in whole words of the map.  Who touched each dword last is of no use to anybody once all waves are in order
 * again, so a known access puts that off; it takes part only where no byte was undefined, so that nothing else depends on it. */
#pragma GCC optimize("O3")
#include "check.h"

#define INLINE static inline __attribute__((always_inline))

/* The bits of a lane's dwords, which lie in one word of the map. */
INLINE uint64_t bits_of(uint32_t dword, unsigned words) { return ((UINT64_C(1) << words) - 1) << dword % 64; }

INLINE bool meets_nothing(const struct check *c, const struct check_lanes *l, unsigned words, bool store)
{
	uint64_t found = 0, apart = 0;
	for (int i = 0; i < LANES; i++) {
		if (!l->bytes[i])
			continue;
		uint32_t at = (uint32_t)l->addr[i];
		const struct check_lds_map *m = &c->lds_map[at / 256];
		found |= (m->written | (store ? m->read : m->undef)) & bits_of(at / 4, words);
		apart |= at & (words * 4 - 1);
	}
	return !found && !apart;
}

INLINE void note_loads(struct check *c, const struct check_lanes *l, unsigned words, unsigned wave, uint32_t number, uint32_t from)
{
	unsigned unit = words == 4 ? 4 : 1; /* dwords of an entry */
	uint32_t *reads = unit == 4 ? &c->quad_read[wave * (c->lds_dwords / 4 + 1)] : &c->lds_read[wave * c->lds_dwords];
	uint32_t *read_at = unit == 4 ? c->quad_read_at : c->lds_read_at, value = number << 4 | 15;
	for (int i = 0; i < LANES; i++) {
		if (!l->bytes[i])
			continue;
		uint32_t dword = (uint32_t)l->addr[i] / 4;
		c->lds_map[dword / 64].read |= bits_of(dword, words);
		for (unsigned k = 0; k < words / unit; k++) {
			reads[dword / unit + k] = value;
			read_at[dword / unit + k] = from;
		}
	}
}

INLINE void note_stores(struct check *c, const struct check_lanes *l, unsigned words, unsigned wave, uint32_t number, uint32_t from)
{
	const struct check_lds cell = {.number = number, .at = from, .wave = (uint8_t)wave, .count = COUNT_LGKM, .mask = 15, .undef = 0};
	for (int i = 0; i < LANES; i++) {
		if (!l->bytes[i])
			continue;
		uint32_t dword = (uint32_t)l->addr[i] / 4;
		uint64_t bits = bits_of(dword, words);
		c->lds_map[dword / 64].written |= bits;
		c->lds_map[dword / 64].undef &= ~bits;
		for (unsigned k = 0; k < words; k++)
			c->lds[dword + k] = cell;
	}
}

INLINE bool plain(struct check *c, const struct check_lanes *l, unsigned words, bool store, unsigned wave, uint32_t number, uint32_t from)
{
	if (!meets_nothing(c, l, words, store))
		return false;
	(store ? note_stores : note_loads)(c, l, words, wave, number, from);
	return true;
}

static struct check_lds_plain *slot_of(struct check *c, const struct sim_wave *w, const struct check_use *u, int part)
{
	return &c->lds_plain[((u->lds_number * 2u + (unsigned)part) * c->nwaves + w->index) % CHECK_LDS_PLAIN];
}

static SIM_LANES_FN bool same_row(const uint32_t *a, const uint32_t *b)
{
	uint32_t other = 0;
	for (int i = 0; i < LANES; i++)
		other |= a[i] ^ b[i];
	return !other;
}

bool lds_known(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, int part)
{
	struct check_wave *cw = &c->wave[w->index];
	const struct check_lds_plain *s = slot_of(c, w, u, part);
	unsigned data = part ? in->vdata2 : in->vdata, result = in->vdst + (unsigned)part * s->dwords;
	struct check_lds_map *map = &c->lds_map[s->first];
	uint64_t found = 0;
	if (!u->lds_number || !s->n || s->from != in->at || s->part != part || s->wave != w->index || sim_exec(w) != ~UINT64_C(0) ||
	    (s->store && check_any(cw->vundef, data, s->dwords)) || !same_row(s->row, w->vgpr[in->vaddr]))
		return false;
	for (unsigned k = 0; k < s->n; k++)
		found |= (map[k].written | map[k].undef | (s->store ? map[k].read : 0)) & s->mask[k];
	if (found)
		return false;
	for (unsigned k = 0; k < s->n; k++)
		*(s->store ? &map[k].written : &map[k].read) |= s->mask[k];
	if (c->lds_noted == CHECK_LDS_NOTES)
		lds_notes(c);
	c->lds_notes[c->lds_noted++] = (struct check_lds_note){(uint32_t)(s - c->lds_plain), cw->issued[COUNT_LGKM] + 1};
	if (!s->store && check_any(cw->vundef, result, s->dwords))
		undef_clear(cw, result, s->dwords, ~UINT64_C(0));
	return true;
}

/* An access that was plain, of all lanes, is known from now on where its dwords lie close enough. */
static void know(struct check *c, const struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, int part, const struct check_lanes *l)
{
	struct check_lds_plain *s = slot_of(c, w, u, part);
	uint64_t lo = l->addr[0], hi = l->addr[0];
	unsigned words = u->bytes / 4u;
	for (int i = 0; i < LANES; i++) {
		lo = l->addr[i] < lo ? l->addr[i] : lo;
		hi = l->addr[i] > hi ? l->addr[i] : hi;
	}
	s->n = 0;
	if (!u->lds_number || hi / 256 - lo / 256 >= CHECK_LDS_WORDS)
		return;
	*s = (struct check_lds_plain){.from = in->at, .step = u->step[part], .part = (uint8_t)part, .wave = (uint8_t)w->index, .dwords = (uint8_t)words,
		.n = (uint8_t)(hi / 256 - lo / 256 + 1), .store = u->store, .first = (uint16_t)(lo / 256)};
	memcpy(s->row, w->vgpr[in->vaddr], sizeof s->row);
	for (int i = 0; i < LANES; i++)
		s->mask[l->addr[i] / 256 - lo / 256] |= bits_of((uint32_t)l->addr[i] / 4, words);
}

void lds_notes(struct check *c)
{
	unsigned n = c->lds_noted;
	struct check_lanes l;
	memset(l.bytes, 1, sizeof l.bytes);
	c->lds_noted = 0;
	for (unsigned k = 0; k < n; k++) {
		const struct check_lds_note *note = &c->lds_notes[k];
		const struct check_lds_plain *s = &c->lds_plain[note->plain];
		for (int i = 0; i < LANES; i++)
			l.addr[i] = s->row[i] + s->step;
		(s->store ? note_stores : note_loads)(c, &l, s->dwords, s->wave, note->number, s->from);
	}
}

bool lds_plain(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, int part, const struct check_lanes *l)
{
	struct check_wave *cw = &c->wave[w->index];
	uint32_t number = cw->issued[COUNT_LGKM] + 1, from = in->at;
	unsigned words = u->bytes / 4u, data = part ? in->vdata2 : in->vdata, result = in->vdst + (unsigned)part * words;
	bool done = false;
	if (u->access != ACCESS_LDS || u->atomic || u->transposed || u->bytes % 4 || (u->store && check_any(cw->vundef, data, words)))
		return false;
	switch (words) {
	case 1: done = u->store ? plain(c, l, 1, true, w->index, number, from) : plain(c, l, 1, false, w->index, number, from); break;
	case 2: done = u->store ? plain(c, l, 2, true, w->index, number, from) : plain(c, l, 2, false, w->index, number, from); break;
	case 4: done = u->store ? plain(c, l, 4, true, w->index, number, from) : plain(c, l, 4, false, w->index, number, from); break;
	default: break;
	}
	if (done && !u->store && check_any(cw->vundef, result, words))
		undef_clear(cw, result, words, sim_exec(w));
	if (done && l->all)
		know(c, w, in, u, part, l);
	return done;
}
