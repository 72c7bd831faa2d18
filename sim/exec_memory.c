/* exec_memory.c -- scalar loads, flat, global, scratch and buffer memory: addresses, checks, loads, stores, copies to LDS.
 *
 * In: addresses of up to 64 lanes.  Out: registers, memory, LDS.  Device addresses are host addresses; every access is
 * looked up among the launch's allocations (sim_access, which remembers the last ones).  A buffer access beyond
 * num_records never reaches memory: raw buffers drop it dword by dword, as the hardware does with stride 0.
 * Atomics are in exec_atomic.c. */
#include "exec.h"
#include "memory_ops.h"

void exec_smem(struct sim_wave *w, const struct sim_inst *in)
{
	uint64_t base = sim_sgpr64(w, in->saddr);
	int64_t offset = in->offset + (in->soffset_en ? (int64_t)w->sgpr[in->soffset] : 0);
	uint32_t n = in->n;
	switch (in->op) {
	case OP_s_load_dword: case OP_s_load_dwordx2: case OP_s_load_dwordx4: case OP_s_load_dwordx8: case OP_s_load_dwordx16: {
		const void *p = sim_access(w, in, -1, (base + (uint64_t)offset) & ~UINT64_C(3), n * 4, false);
		if (p && in->sdst + n <= 132)
			memcpy(&w->sgpr[in->sdst], p, n * 4);
		return;
	}
	case OP_s_buffer_load_dword: case OP_s_buffer_load_dwordx2: case OP_s_buffer_load_dwordx4:
	case OP_s_buffer_load_dwordx8: case OP_s_buffer_load_dwordx16: {
		uint64_t addr = base & 0xffffffffffff;
		uint32_t stride = w->sgpr[in->saddr + 1] >> 16 & 0x3fff;
		uint64_t size = (uint64_t)w->sgpr[in->saddr + 2] * (stride ? stride : 1);
		for (uint32_t k = 0; k < n && in->sdst + k < 132; k++) {
			uint64_t at = ((uint64_t)offset & ~UINT64_C(3)) + 4 * k;
			const void *p = NULL;
			if (at + 4 <= size && !(p = sim_access(w, in, -1, addr + at, 4, false)))
				return;
			if (p)
				memcpy(&w->sgpr[in->sdst + k], p, 4);
			else
				w->sgpr[in->sdst + k] = 0;
		}
		return;
	}
	case OP_s_memtime: case OP_s_memrealtime: sim_sgpr64_set(w, in->sdst, w->group->clock); return;
	case OP_s_dcache_inv: case OP_s_dcache_wb: case OP_s_dcache_inv_vol: case OP_s_dcache_wb_vol: return;
	default: sim_unknown(w, in);
	}
}

/* What an opcode moves: bytes, sign, half of the register. */
struct move { uint8_t bytes; bool store, sign, high, d16, lds; };

/* Opcode numbers of the three flat formats and of MUBUF agree from 0x10 to 0x25; `k` counts from 0x10. */
static bool move_of(unsigned k, unsigned n, struct move *m)
{
	*m = (struct move){0};
	switch (k) {
	case 0: m->bytes = 1; return true;                                   /* ubyte */
	case 1: m->bytes = 1; m->sign = true; return true;
	case 2: m->bytes = 2; return true;
	case 3: m->bytes = 2; m->sign = true; return true;
	case 4: case 5: case 6: case 7: m->bytes = (uint8_t)(4 * n); return true;
	case 8: m->bytes = 1; m->store = true; return true;
	case 9: m->bytes = 1; m->store = m->high = true; return true;
	case 10: m->bytes = 2; m->store = true; return true;
	case 11: m->bytes = 2; m->store = m->high = true; return true;
	case 12: case 13: case 14: case 15: m->bytes = (uint8_t)(4 * n); m->store = true; return true;
	case 16: case 17: m->bytes = 1; m->d16 = true; m->high = k & 1; return true;
	case 18: case 19: m->bytes = 1; m->d16 = m->sign = true; m->high = k & 1; return true;
	case 20: case 21: m->bytes = 2; m->d16 = true; m->high = k & 1; return true;
	default: return false;
	}
}

/* A sub-dword value as it lands in the register. */
static uint32_t extend(const struct move *m, const void *p, uint32_t old)
{
	uint32_t v = 0;
	memcpy(&v, p, m->bytes);
	if (m->sign)
		v = m->bytes == 1 ? (uint32_t)(int8_t)v : (uint32_t)(int16_t)v;
	if (!m->d16)
		return v;
	return m->high ? v << 16 | (old & 0xffff) : (v & 0xffff) | (old & 0xffff0000u);
}

static bool rows_exist(struct sim_wave *w, const struct sim_inst *in, unsigned reg, unsigned count)
{
	if (reg + count <= w->nvgpr)
		return true;
	sim_fail(w, in, SIM_EINST, -1, "register v%u is beyond the %u allocated", reg + count - 1, w->nvgpr);
	return false;
}

/* Byte address in LDS that lane `lane` of a copy to LDS writes: M0 + offset + lane * size; the offset counts on both
 * sides of the copy. */
static uint8_t *lds_target(struct sim_wave *w, const struct sim_inst *in, int lane, uint32_t bytes)
{
	uint32_t at = (w->sgpr[REG_M0] & 0x3ffff) + (uint32_t)in->offset + (uint32_t)lane * (bytes < 4 ? 4 : bytes);
	if ((uint64_t)at + bytes > w->group->lds_size) {
		sim_fail(w, in, SIM_EFAULT, lane, "LDS write of %u bytes at %u, the workgroup has %u", bytes, at, w->group->lds_size);
		return NULL;
	}
	return w->group->lds + at;
}

static void to_lds(struct sim_wave *w, const struct sim_inst *in, int lane, const struct move *m, const void *p)
{
	uint32_t bytes = m->bytes < 4 ? 4 : m->bytes, v = m->bytes < 4 && p ? extend(m, p, 0) : 0;
	uint8_t *d = lds_target(w, in, lane, bytes);
	if (!d)
		return;
	if (!p)
		memset(d, 0, bytes);
	else if (m->bytes < 4)
		memcpy(d, &v, 4);
	else
		memcpy(d, p, bytes);
	w->group->stats.lds_written += bytes;
}

/* One lane of a plain load or store at host address p. */
static void move_lane(struct sim_wave *w, const struct sim_inst *in, const struct move *m, int lane, void *p)
{
	if (m->store) {
		if (m->bytes < 4) {
			uint32_t v = w->vgpr[in->vdata][lane] >> (m->high ? 16 : 0);
			memcpy(p, &v, m->bytes);
		} else {
			for (unsigned k = 0; k < m->bytes / 4u; k++)
				memcpy((char *)p + 4 * k, &w->vgpr[in->vdata + k][lane], 4);
		}
	} else if (m->bytes < 4) {
		w->vgpr[in->vdst][lane] = extend(m, p, w->vgpr[in->vdst][lane]);
	} else {
		for (unsigned k = 0; k < m->bytes / 4u; k++)
			memcpy(&w->vgpr[in->vdst + k][lane], (char *)p + 4 * k, 4);
	}
}

/* All lanes of a plain load or store; whole dwords go register by register. */
static void move_lanes(struct sim_wave *w, const struct sim_inst *in, const struct move *m, uint64_t exec, void *const p[LANES])
{
	unsigned n = m->bytes / 4u;
	if (m->bytes < 4) {
		for (int i = 0; i < LANES; i++)
			if (exec >> i & 1)
				move_lane(w, in, m, i, p[i]);
		return;
	}
	uint32_t *reg = w->vgpr[m->store ? in->vdata : in->vdst];
	for (unsigned k = 0; k < n; k++, reg += LANES)
		for (int i = 0; i < LANES; i++) {
			if (!(exec >> i & 1))
				continue;
			if (m->store)
				memcpy((char *)p[i] + 4 * k, &reg[i], 4);
			else
				memcpy(&reg[i], (char *)p[i] + 4 * k, 4);
		}
}

/* Host pointer of a flat address: LDS and scratch through their apertures, else memory. */
static void *flat_pointer(struct sim_wave *w, const struct sim_inst *in, int lane, uint64_t addr, uint32_t size, bool write)
{
	uint32_t low = (uint32_t)addr;
	if (addr >> 32 == 0x00010000) {
		if ((uint64_t)low + size <= w->group->lds_size)
			return w->group->lds + low;
		sim_fail(w, in, SIM_EFAULT, lane, "LDS access of %u bytes at %u, the workgroup has %u", size, low, w->group->lds_size);
		return NULL;
	}
	if (addr >> 32 == 0x00020000)
		return sim_scratch(w, in, lane, low, size);
	return sim_access(w, in, lane, addr, size, write);
}

void *sim_scratch(struct sim_wave *w, const struct sim_inst *in, int lane, uint64_t at, uint32_t size)
{
	if (at + size <= w->scratch_size)
		return w->scratch + (size_t)lane * w->scratch_size + at;
	sim_fail(w, in, SIM_EFAULT, lane, "scratch access of %u bytes at %llu, a lane has %u", size, (unsigned long long)at, w->scratch_size);
	return NULL;
}

static uint64_t flat_address(const struct sim_wave *w, const struct sim_inst *in, int lane)
{
	uint64_t addr;
	if (in->use_saddr)
		addr = sim_sgpr64(w, in->saddr) + w->vgpr[in->vaddr][lane];
	else
		addr = w->vgpr[in->vaddr][lane] | (uint64_t)w->vgpr[in->vaddr + 1][lane] << 32;
	return addr + (uint64_t)(int64_t)in->offset;
}

void *sim_flat_lane(struct sim_wave *w, const struct sim_inst *in, int lane, uint32_t size, bool write)
{
	if (in->enc == ENC_SCRATCH) {
		uint32_t at = (in->use_vaddr ? w->vgpr[in->vaddr][lane] : 0) + (in->use_saddr ? w->sgpr[in->saddr] : 0) + (uint32_t)in->offset;
		return sim_scratch(w, in, lane, at, size);
	}
	uint64_t addr = flat_address(w, in, lane);
	return in->enc == ENC_FLAT ? flat_pointer(w, in, lane, addr, size, write) : sim_access(w, in, lane, addr, size, write);
}

/* Pointers of all active lanes.  Global accesses usually lie in one allocation: their lowest and highest byte are looked
 * up once; if that fails each lane is looked at. */
static bool flat_pointers(struct sim_wave *w, const struct sim_inst *in, const struct move *m, uint64_t exec, void *p[LANES])
{
	if (in->enc == ENC_GLOBAL) {
		uint64_t lo = ~UINT64_C(0), hi = 0;
		for (int i = 0; i < LANES; i++) {
			uint64_t addr = flat_address(w, in, i);
			bool on = exec >> i & 1;
			p[i] = (void *)(uintptr_t)addr;
			lo = on && addr < lo ? addr : lo;
			hi = on && addr > hi ? addr : hi;
		}
		if (exec == 0 || sim_same_range(w, lo, hi + m->bytes, m->store))
			return true;
	}
	for (int i = 0; i < LANES; i++)
		if (exec >> i & 1 && !(p[i] = sim_flat_lane(w, in, i, m->bytes, m->store)))
			return false;
	return true;
}

static bool lds_copy_of(unsigned op, struct move *m)
{
	*m = (struct move){.lds = true};
	switch (op) {
	case OP_global_load_lds_ubyte: m->bytes = 1; return true;
	case OP_global_load_lds_sbyte: m->bytes = 1; m->sign = true; return true;
	case OP_global_load_lds_ushort: m->bytes = 2; return true;
	case OP_global_load_lds_sshort: m->bytes = 2; m->sign = true; return true;
	case OP_global_load_lds_dword: m->bytes = 4; return true;
	case OP_global_load_lds_dwordx3: m->bytes = 12; return true;
	case OP_global_load_lds_dwordx4: m->bytes = 16; return true;
	default: return false;
	}
}

void exec_flat(struct sim_wave *w, const struct sim_inst *in)
{
	unsigned opcode = in->word[0] >> 18 & 0x7f;
	uint64_t exec = sim_exec(w);
	struct move m;
	if (sim_is_atomic(in)) {
		sim_flat_atomic(w, in);
		return;
	}
	if (!lds_copy_of(in->op, &m) && (opcode < 0x10 || !move_of(opcode - 0x10, in->n, &m))) {
		sim_unknown(w, in);
		return;
	}
	unsigned regs = m.bytes < 4 ? 1 : m.bytes / 4u;
	if (!m.lds && !rows_exist(w, in, m.store ? in->vdata : in->vdst, regs))
		return;
	if (!rows_exist(w, in, in->vaddr, in->enc == ENC_SCRATCH || in->use_saddr ? 1 : 2))
		return;
	void *p[LANES];
	if (!flat_pointers(w, in, &m, exec, p))
		return;
	if (m.lds) {
		for (int i = 0; i < LANES && w->state == WAVE_RUN; i++)
			if (exec >> i & 1)
				to_lds(w, in, i, &m, p[i]);
	} else {
		move_lanes(w, in, &m, exec, p);
	}
	if (in->enc != ENC_SCRATCH)
		*(m.store ? &w->group->stats.global_written : &w->group->stats.global_read) += m.bytes * (uint64_t)__builtin_popcountll(exec);
}

/* ---- buffers ---- */

struct buffer { uint64_t base, records; uint32_t stride, soffset; bool swizzle, add_tid; };

static bool buffer_of(struct sim_wave *w, const struct sim_inst *in, struct buffer *b)
{
	const uint32_t *s = &w->sgpr[in->saddr];
	b->base = (s[0] | (uint64_t)s[1] << 32) & 0xffffffffffff;
	b->stride = s[1] >> 16 & 0x3fff;
	b->swizzle = s[1] >> 31;
	b->records = s[2];
	b->add_tid = s[3] >> 23 & 1;
	b->soffset = (uint32_t)sim_scalar(w, &in->src[0]);
	if (b->swizzle || b->add_tid) {
		sim_fail(w, in, SIM_EINST, -1, "swizzled buffer descriptors are not modelled");
		return false;
	}
	return true;
}

/* Offset of a lane's access before the base, and whether byte range [*at, +size) of it lies inside the records. */
static bool buffer_lane(const struct sim_wave *w, const struct sim_inst *in, const struct buffer *b, int lane, uint64_t *at, uint32_t size)
{
	uint32_t index = in->idxen ? w->vgpr[in->vaddr][lane] : 0;
	uint32_t voff = in->use_vaddr ? w->vgpr[in->vaddr + (in->idxen ? 1 : 0)][lane] : 0;
	uint64_t offset = (uint64_t)voff + (uint32_t)in->offset;
	if (b->stride) { /* structured: the index is checked, and the offset against the stride */
		*at = (uint64_t)index * b->stride + offset + b->soffset;
		return index < b->records && offset + size <= b->stride;
	}
	*at = offset + b->soffset;
	return *at + size <= b->records;
}

void *sim_buffer_lane(struct sim_wave *w, const struct sim_inst *in, int lane, uint32_t size, bool write, bool *inside)
{
	struct buffer b;
	uint64_t at;
	*inside = false;
	if (!buffer_of(w, in, &b) || !buffer_lane(w, in, &b, lane, &at, size))
		return NULL;
	*inside = true;
	return sim_access(w, in, lane, b.base + at, size, write);
}

/* The usual case: every active lane is inside the records and in one allocation. */
static bool buffer_all_inside(struct sim_wave *w, const struct sim_inst *in, const struct move *m, const struct buffer *b, uint64_t exec)
{
	uint64_t lo = ~UINT64_C(0), hi = 0, at;
	void *p[LANES];
	for (int i = 0; i < LANES; i++) {
		if (!(exec >> i & 1))
			continue;
		if (!buffer_lane(w, in, b, i, &at, m->bytes))
			return false;
		p[i] = (void *)(uintptr_t)(b->base + at);
		lo = at < lo ? at : lo;
		hi = at > hi ? at : hi;
	}
	if (exec == 0)
		return true;
	if (!sim_same_range(w, b->base + lo, b->base + hi + m->bytes, m->store))
		return false;
	move_lanes(w, in, m, exec, p);
	*(m->store ? &w->group->stats.global_written : &w->group->stats.global_read) += m->bytes * (uint64_t)__builtin_popcountll(exec);
	return true;
}

static void buffer_move(struct sim_wave *w, const struct sim_inst *in, const struct move *m)
{
	static const uint8_t zero[16];
	uint64_t exec = sim_exec(w), moved = 0;
	struct buffer b;
	if (!buffer_of(w, in, &b))
		return;
	if (!m->lds && buffer_all_inside(w, in, m, &b, exec))
		return;
	for (int i = 0; i < LANES && w->state == WAVE_RUN; i++) {
		if (!(exec >> i & 1))
			continue;
		uint64_t at;
		uint8_t bytes[16];
		void *p;
		if (buffer_lane(w, in, &b, i, &at, m->bytes)) {
			if (!(p = sim_access(w, in, i, b.base + at, m->bytes, m->store)))
				return;
			moved += m->bytes;
			if (m->lds)
				to_lds(w, in, i, m, p);
			else
				move_lane(w, in, m, i, p);
			continue;
		}
		/* out of range: dword by dword for raw buffers, the whole access otherwise */
		memcpy(bytes, zero, sizeof bytes);
		if (!b.stride && m->bytes > 4)
			for (unsigned k = 0; k < m->bytes / 4u && at + 4 * k + 4 <= b.records; k++) {
				if (!(p = sim_access(w, in, i, b.base + at + 4 * k, 4, m->store)))
					return;
				moved += 4;
				if (m->store)
					memcpy(p, &w->vgpr[in->vdata + k][i], 4);
				else
					memcpy(bytes + 4 * k, p, 4);
			}
		if (m->lds)
			to_lds(w, in, i, m, bytes);
		else if (!m->store)
			move_lane(w, in, m, i, bytes);
	}
	*(m->store ? &w->group->stats.global_written : &w->group->stats.global_read) += moved;
}

void exec_mubuf(struct sim_wave *w, const struct sim_inst *in)
{
	unsigned opcode = in->word[0] >> 18 & 0x7f;
	struct move m;
	if (in->op == OP_buffer_wbl2 || in->op == OP_buffer_inv)
		return;
	if (sim_is_atomic(in)) {
		sim_buffer_atomic(w, in);
		return;
	}
	if (opcode < 0x10 || !move_of(opcode - 0x10, in->n, &m) || (in->lds && m.store)) {
		sim_unknown(w, in);
		return;
	}
	m.lds = in->lds;
	unsigned regs = m.bytes < 4 ? 1 : m.bytes / 4u;
	if ((m.lds || rows_exist(w, in, in->vdata, regs)) && rows_exist(w, in, in->vaddr, in->use_vaddr && in->idxen ? 2 : 1))
		buffer_move(w, in, &m);
}

void exec_mtbuf(struct sim_wave *w, const struct sim_inst *in)
{
	sim_unknown(w, in);
}
