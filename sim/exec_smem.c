/* exec_smem.c -- scalar memory: loads, stores, atomics, the clock and the caches.
 *
 * In: an address in scalar registers, or a buffer descriptor.  Out: scalar registers, memory.  One access a wave, checked like
 * a vector access; buffer accesses beyond num_records read 0 and write nothing.  Offsets of s_scratch_* in a register count
 * 64 bytes.  Caches are always coherent here, so that the instructions that write back, drop or probe do nothing. */
#include "exec.h"
#include "memory_ops.h"

struct place { uint64_t addr, size; bool buffer; }; /* size: bytes behind addr that a buffer has */

static struct place place_of(const struct sim_wave *w, const struct sim_inst *in, bool buffer, unsigned scale)
{
	uint64_t base = sim_sgpr64(w, in->saddr);
	uint64_t offset = (uint64_t)(int64_t)in->offset + (in->soffset_en ? (uint64_t)w->sgpr[in->soffset] * scale : 0);
	struct place p = {(base + offset) & ~UINT64_C(3), UINT64_MAX, buffer};
	if (buffer) {
		uint32_t stride = w->sgpr[in->saddr + 1] >> 16 & 0x3fff;
		uint64_t size = (uint64_t)w->sgpr[in->saddr + 2] * (stride ? stride : 1);
		offset &= ~UINT64_C(3);
		p.addr = (base & 0xffffffffffff) + offset;
		p.size = offset < size ? size - offset : 0;
	}
	return p;
}

static void load(struct sim_wave *w, const struct sim_inst *in, struct place at)
{
	uint32_t n = in->n;
	if (in->sdst + n > 132)
		return;
	if (!at.buffer) {
		const void *p = sim_access(w, in, -1, at.addr, n * 4, false);
		if (p)
			memcpy(&w->sgpr[in->sdst], p, n * 4);
		return;
	}
	for (uint32_t k = 0; k < n; k++) {
		const void *p = NULL;
		if (4 * (k + 1) <= at.size && !(p = sim_access(w, in, -1, at.addr + 4 * k, 4, false)))
			return;
		if (p)
			memcpy(&w->sgpr[in->sdst + k], p, 4);
		else
			w->sgpr[in->sdst + k] = 0;
	}
}

static void store(struct sim_wave *w, const struct sim_inst *in, struct place at)
{
	for (uint32_t k = 0; k < in->n && 4 * (k + 1) <= at.size && in->sdst + k < 132; k++) {
		void *p = sim_access(w, in, -1, at.addr + 4 * k, 4, true);
		if (!p)
			return;
		memcpy(p, &w->sgpr[in->sdst + k], 4);
	}
}

/* The data are the registers of the result; compare-and-swap has the comparison value behind the new one. */
static void atomic(struct sim_wave *w, const struct sim_inst *in, unsigned opcode)
{
	enum sim_atomic op = sim_atomic_plain(opcode & 0x1f);
	unsigned bytes = opcode & 0x20 ? 8 : 4, regs = bytes / 4;
	struct place at = place_of(w, in, opcode < 0x80, 1);
	uint64_t data = sim_sgpr64(w, in->sdst), old = 0, cmp = in->sdst + regs < 130 ? sim_sgpr64(w, in->sdst + regs) : 0;
	if (op == AT_NONE) {
		sim_unknown(w, in);
		return;
	}
	if (at.size >= bytes) {
		void *p = sim_access(w, in, -1, at.addr, bytes, true);
		if (!p)
			return;
		if (at.addr % bytes) {
			sim_fail(w, in, SIM_EFAULT, -1, "atomic access to 0x%llx, not aligned to %u bytes", (unsigned long long)at.addr, bytes);
			return;
		}
		old = sim_atomic_apply(p, op, bytes, bytes == 4 ? (uint32_t)data : data, bytes == 4 ? (uint32_t)cmp : cmp);
	}
	if (!in->glc)
		return;
	w->sgpr[in->sdst] = (uint32_t)old;
	if (bytes == 8)
		w->sgpr[in->sdst + 1] = (uint32_t)(old >> 32);
}

void exec_smem(struct sim_wave *w, const struct sim_inst *in)
{
	unsigned opcode = in->word[0] >> 18 & 0xff;
	switch (in->op) {
	case OP_s_load_dword: case OP_s_load_dwordx2: case OP_s_load_dwordx4: case OP_s_load_dwordx8: case OP_s_load_dwordx16:
		load(w, in, place_of(w, in, false, 1)); return;
	case OP_s_scratch_load_dword: case OP_s_scratch_load_dwordx2: case OP_s_scratch_load_dwordx4:
		load(w, in, place_of(w, in, false, 64)); return;
	case OP_s_buffer_load_dword: case OP_s_buffer_load_dwordx2: case OP_s_buffer_load_dwordx4:
	case OP_s_buffer_load_dwordx8: case OP_s_buffer_load_dwordx16:
		load(w, in, place_of(w, in, true, 1)); return;
	case OP_s_store_dword: case OP_s_store_dwordx2: case OP_s_store_dwordx4: store(w, in, place_of(w, in, false, 1)); return;
	case OP_s_scratch_store_dword: case OP_s_scratch_store_dwordx2: case OP_s_scratch_store_dwordx4:
		store(w, in, place_of(w, in, false, 64)); return;
	case OP_s_buffer_store_dword: case OP_s_buffer_store_dwordx2: case OP_s_buffer_store_dwordx4:
		store(w, in, place_of(w, in, true, 1)); return;
	case OP_s_memtime: case OP_s_memrealtime: sim_sgpr64_set(w, in->sdst, w->group->clock); return;
	case OP_s_dcache_inv: case OP_s_dcache_wb: case OP_s_dcache_inv_vol: case OP_s_dcache_wb_vol: case OP_s_dcache_discard:
	case OP_s_dcache_discard_x2: case OP_s_atc_probe: case OP_s_atc_probe_buffer: return;
	default: atomic(w, in, opcode);
	}
}
