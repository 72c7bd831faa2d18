/* check_memory.c -- the addresses that an access touches, for the checks.
 *
 * In: a wave before the instruction.  Out: address and size of each lane's access; 0 bytes for lanes that are inactive or
 * that a buffer descriptor keeps out.  The rules are those of exec_lds.c and exec_memory.c, stated again without side
 * effects; bounds are left to those.  A wide access to a swizzled buffer comes apart into dwords: its lanes are asked for once
 * for each. */
#pragma GCC optimize("O3")
#include "check.h"

enum { LDS_APERTURE = 0x00010000, SCRATCH_APERTURE = 0x00020000 }; /* upper halves of flat addresses */

/* base + offset[i] + step * i; returns the highest. */
static SIM_LANES_FN uint64_t addresses(const uint32_t *offset, uint64_t base, uint32_t step, uint64_t addr[LANES])
{
	uint64_t top = 0;
	for (int i = 0; i < LANES; i++) {
		addr[i] = base + (offset ? offset[i] : 0) + (uint64_t)i * step;
		top = addr[i] > top ? addr[i] : top;
	}
	return top;
}

/* All lanes are active and end at or below `end`. */
static bool all_of(struct check_lanes *l, const struct sim_wave *w, uint64_t top, unsigned bytes, uint64_t end)
{
	l->all = sim_exec(w) == ~UINT64_C(0) && top + bytes <= end;
	if (l->all)
		memset(l->bytes, (int)bytes, sizeof l->bytes);
	return l->all;
}

static SIM_LANES_FN uint64_t lds_addresses(const uint32_t *offset, uint32_t step, uint64_t addr[LANES])
{
	uint32_t top = 0;
	for (int i = 0; i < LANES; i++) {
		uint32_t at = offset[i] + step;
		addr[i] = at;
		top = at > top ? at : top;
	}
	return top;
}

void check_lds_lanes(const struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, int part, struct check_lanes *l)
{
	uint64_t exec = sim_exec(w), top;
	bool dma = u->access == ACCESS_DMA;
	uint8_t bytes = dma && u->bytes < 4 ? 4 : u->bytes;
	if (dma)
		top = addresses(NULL, (w->sgpr[REG_M0] & 0x3ffff) + (uint32_t)in->offset, bytes, l->addr);
	else
		top = lds_addresses(w->vgpr[in->vaddr], u->step[part], l->addr);
	if (all_of(l, w, top, bytes, w->group->lds_size))
		return;
	for (uint32_t i = 0; i < LANES; i++)
		l->bytes[i] = exec >> i & 1 && l->addr[i] + bytes <= w->group->lds_size ? bytes : 0;
}

/* Bits of one element of each data format, as exec_typed.c has them component by component. */
static unsigned format_bytes(unsigned data)
{
	static const uint8_t bytes[16] = {0, 1, 2, 2, 4, 4, 4, 4, 4, 4, 4, 8, 8, 12, 16, 0};
	return bytes[data & 15];
}

static uint8_t access_bytes(const struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	if (u->bytes)
		return u->bytes;
	return (uint8_t)format_bytes(in->enc == ENC_MTBUF ? in->word[0] >> 19 & 15 : w->sgpr[in->saddr + 3] >> 15 & 15);
}

static void buffer_lanes(const struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, struct check_lanes *l)
{
	const uint32_t *s = &w->sgpr[in->saddr];
	uint64_t exec = sim_exec(w), base = (s[0] | (uint64_t)s[1] << 32) & 0xffffffffffff, records = s[2];
	uint32_t stride = s[1] >> 16 & 0x3fff, soffset = (uint32_t)sim_scalar(w, &in->src[0]);
	uint32_t element = 2u << (s[3] >> 19 & 3), interleaved = 8u << (s[3] >> 21 & 3);
	bool add_tid = s[3] >> 23 & 1, swizzle;
	uint8_t wanted = access_bytes(w, in, u);
	stride |= add_tid ? (s[3] >> 15 & 15) << 14 : 0;
	swizzle = s[1] >> 31 && stride;
	l->piece = swizzle && wanted > 4 ? 4 : 0;
	l->all = false;
	if (!stride && wanted && in->use_vaddr && !in->idxen) {
		uint64_t top = addresses(w->vgpr[in->vaddr], base + (uint32_t)in->offset + soffset, 0, l->addr);
		if (all_of(l, w, top, wanted, base + records))
			return;
	}
	for (int i = 0; i < LANES; i++) {
		uint32_t index = (in->idxen ? w->vgpr[in->vaddr][i] : 0) + (add_tid ? (uint32_t)i : 0);
		uint64_t offset = (uint64_t)(in->use_vaddr ? w->vgpr[in->vaddr + (in->idxen ? 1 : 0)][i] : 0) + (uint32_t)in->offset + l->from;
		uint64_t at = offset + soffset + (uint64_t)index * stride;
		uint8_t bytes = l->piece ? l->piece : wanted;
		if (swizzle) { /* records lie interleaved, element by element */
			uint64_t block = (uint64_t)(index / interleaved) * stride + offset / element * element;
			at = block * interleaved + (uint64_t)(index % interleaved) * element + offset % element + soffset;
		}
		if (stride && (index >= records || offset + bytes > stride))
			bytes = 0;
		else if (!stride && at + bytes > records)
			bytes = at >= records || bytes <= 4 || !u->bytes ? 0 : (uint8_t)((records - at) & ~UINT64_C(3));
		l->addr[i] = base + at;
		l->bytes[i] = exec >> i & 1 ? bytes : 0;
	}
}

bool check_flat_lanes(struct sim_wave *w, const struct check_lanes *all, struct check_lanes *lds, struct check_lanes *memory)
{
	bool any = false;
	*lds = *memory = *all;
	lds->all = memory->all = false;
	for (int i = 0; i < LANES; i++) {
		uint32_t top = (uint32_t)(all->addr[i] >> 32);
		bool in_lds = top == LDS_APERTURE && (all->addr[i] & 0xffffffff) + all->bytes[i] <= w->group->lds_size;
		lds->addr[i] = all->addr[i] & 0xffffffff;
		lds->bytes[i] = in_lds ? all->bytes[i] : 0;
		memory->bytes[i] = top == LDS_APERTURE || top == SCRATCH_APERTURE ? 0 : all->bytes[i];
		any |= lds->bytes[i] != 0;
	}
	return any;
}

void check_memory_lanes(const struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, struct check_lanes *l)
{
	uint64_t exec = sim_exec(w);
	l->piece = 0;
	if (in->enc == ENC_MUBUF || in->enc == ENC_MTBUF) {
		buffer_lanes(w, in, u, l);
		return;
	}
	uint64_t base = (in->use_saddr ? sim_sgpr64(w, in->saddr) : 0) + (uint64_t)(int64_t)in->offset;
	if (in->use_saddr) {
		addresses(w->vgpr[in->vaddr], base, 0, l->addr);
	} else {
		for (int i = 0; i < LANES; i++)
			l->addr[i] = base + (w->vgpr[in->vaddr][i] | (uint64_t)w->vgpr[in->vaddr + 1][i] << 32);
	}
	if (!all_of(l, w, 0, u->bytes, u->bytes))
		for (int i = 0; i < LANES; i++)
			l->bytes[i] = exec >> i & 1 ? u->bytes : 0;
}
