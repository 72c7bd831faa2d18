/* exec_memory.c -- flat, global, scratch and buffer memory: addresses, checks, loads, stores, copies to LDS.
 *
 * In: addresses of up to 64 lanes.  Out: registers, memory, LDS.  Device addresses are host addresses; every access is
 * looked up among the launch's allocations (sim_access, which remembers the last ones).  A buffer access beyond
 * num_records never reaches memory: raw buffers drop it dword by dword, as the hardware does with stride 0.
 * Scalar memory is in exec_smem.c, atomics in exec_atomic.c, typed buffers in exec_typed.c. */
#include "exec.h"
#include "memory_ops.h"

enum { FURTHEST = 1 << 22 }; /* bytes from one load of an instruction to the wave's next, as far as is foreseen */

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
uint8_t *sim_lds_target(struct sim_wave *w, const struct sim_inst *in, int lane, uint32_t bytes)
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
	uint8_t *d = sim_lds_target(w, in, lane, bytes);
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

/* All active lanes of a plain load or store at addresses that were checked. */
static void move_lanes(struct sim_wave *w, const struct sim_inst *in, const struct move *m, const uint64_t addr[LANES], bool dense)
{
	if (m->bytes < 4) {
		for (uint64_t left = sim_exec(w); left; left &= left - 1)
			move_lane(w, in, m, __builtin_ctzll(left), (void *)(uintptr_t)addr[__builtin_ctzll(left)]);
		return;
	}
	if (m->store)
		sim_lanes_store(w, in->vdata, addr, dense, m->bytes / 4u);
	else
		sim_lanes_load(w, in->vdst, addr, dense, m->bytes / 4u);
}

static void *scratch_pointer(struct sim_wave *w, const struct sim_inst *in, int lane, uint64_t at, uint32_t size)
{
	if (at + size <= w->scratch_size)
		return w->scratch + (size_t)lane * w->scratch_size + at;
	sim_fail(w, in, SIM_EFAULT, lane, "scratch access of %u bytes at %llu, a lane has %u", size, (unsigned long long)at, w->scratch_size);
	return NULL;
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
		return scratch_pointer(w, in, lane, low, size);
	return sim_access(w, in, lane, addr, size, write);
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
		return scratch_pointer(w, in, lane, at, size);
	}
	uint64_t addr = flat_address(w, in, lane);
	return in->enc == ENC_FLAT ? flat_pointer(w, in, lane, addr, size, write) : sim_access(w, in, lane, addr, size, write);
}

/* Addresses of a global access: a scalar base with 32-bit offsets, or 64 bits a lane. */
static SIM_LANES_FN void global_addresses(const struct sim_wave *w, const struct sim_inst *in, uint64_t addr[LANES])
{
	uint64_t base = (uint64_t)(int64_t)in->offset + (in->use_saddr ? sim_sgpr64(w, in->saddr) : 0);
	const uint32_t *lo = w->vgpr[in->vaddr], *hi = w->vgpr[in->vaddr + 1];
	if (in->use_saddr)
		for (int i = 0; i < LANES; i++)
			addr[i] = base + lo[i];
	else
		for (int i = 0; i < LANES; i++)
			addr[i] = base + (lo[i] | (uint64_t)hi[i] << 32);
}

/* Host addresses of all active lanes.  Global accesses usually lie in one allocation: their lowest and highest byte are
 * looked up once; if that fails each lane is looked at. */
static bool flat_addresses(struct sim_wave *w, const struct sim_inst *in, const struct move *m, uint64_t addr[LANES], bool *dense)
{
	uint64_t exec = sim_exec(w);
	*dense = false;
	if (in->enc == ENC_GLOBAL) {
		global_addresses(w, in, addr);
		struct sim_span span = sim_span_of(addr, exec, m->bytes);
		*dense = span.dense;
		if (sim_same_range(w, span.lo, span.hi, m->store))
			return true;
	}
	for (uint64_t left = exec; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		void *p = sim_flat_lane(w, in, i, m->bytes, m->store);
		if (!p)
			return false;
		addr[i] = (uint64_t)(uintptr_t)p;
	}
	sim_span_of(addr, exec, m->bytes);
	return true;
}

static bool lds_copy_of(unsigned op, struct move *m)
{
	*m = (struct move){.lds = true};
	switch (op) {
	case OP_global_load_lds_ubyte: case OP_scratch_load_lds_ubyte: m->bytes = 1; return true;
	case OP_global_load_lds_sbyte: case OP_scratch_load_lds_sbyte: m->bytes = 1; m->sign = true; return true;
	case OP_global_load_lds_ushort: case OP_scratch_load_lds_ushort: m->bytes = 2; return true;
	case OP_global_load_lds_sshort: case OP_scratch_load_lds_sshort: m->bytes = 2; m->sign = true; return true;
	case OP_global_load_lds_dword: case OP_scratch_load_lds_dword: m->bytes = 4; return true;
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
	uint64_t addr[LANES];
	bool dense;
	if (!exec || !flat_addresses(w, in, &m, addr, &dense))
		return;
	if (m.lds) {
		for (int i = 0; i < LANES && w->state == WAVE_RUN; i++)
			if (exec >> i & 1)
				to_lds(w, in, i, &m, (void *)(uintptr_t)addr[i]);
	} else {
		move_lanes(w, in, &m, addr, dense);
	}
	if (in->enc != ENC_SCRATCH)
		*(m.store ? &w->group->stats.global_written : &w->group->stats.global_read) += m.bytes * sim_lanes_active(w);
}

/* ---- buffers ---- */

struct buffer { uint64_t base, records; uint32_t stride, soffset, index_stride, element; bool swizzle, add_tid; };

static void buffer_of(struct sim_wave *w, const struct sim_inst *in, struct buffer *b)
{
	const uint32_t *s = &w->sgpr[in->saddr];
	b->base = (s[0] | (uint64_t)s[1] << 32) & 0xffffffffffff;
	b->stride = s[1] >> 16 & 0x3fff;
	b->records = s[2];
	b->element = 2u << (s[3] >> 19 & 3);
	b->index_stride = 8u << (s[3] >> 21 & 3);
	b->add_tid = s[3] >> 23 & 1;
	if (b->add_tid) /* the data format's bits are the stride's upper ones then */
		b->stride |= (s[3] >> 15 & 15) << 14;
	b->swizzle = s[1] >> 31 && b->stride;
	b->soffset = (uint32_t)sim_scalar(w, &in->src[0]);
}

/* Offset from the base of byte `from` of a lane's access, and whether `size` bytes there lie inside the records. */
static bool buffer_lane(const struct sim_wave *w, const struct sim_inst *in, const struct buffer *b, int lane, unsigned from, uint64_t *at,
	uint32_t size)
{
	uint32_t index = (in->idxen ? w->vgpr[in->vaddr][lane] : 0) + (b->add_tid ? (uint32_t)lane : 0);
	uint32_t voff = in->use_vaddr ? w->vgpr[in->vaddr + (in->idxen ? 1 : 0)][lane] : 0;
	uint64_t offset = (uint64_t)voff + (uint32_t)in->offset + from;
	if (b->swizzle) { /* index_stride records lie interleaved, element by element */
		uint64_t block = (uint64_t)(index / b->index_stride) * b->stride + offset / b->element * b->element;
		*at = block * b->index_stride + (uint64_t)(index % b->index_stride) * b->element + offset % b->element + b->soffset;
		return index < b->records && offset + size <= b->stride;
	}
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
	buffer_of(w, in, &b);
	if (!buffer_lane(w, in, &b, lane, 0, &at, size))
		return NULL;
	*inside = true;
	return sim_access(w, in, lane, b.base + at, size, write);
}

static SIM_LANES_FN void raw_addresses(const uint32_t *offset, uint64_t base, uint64_t addr[LANES])
{
	for (int i = 0; i < LANES; i++)
		addr[i] = base + offset[i];
}

/* Addresses where every active lane is inside the records; false where one is not. */
static bool buffer_addresses(struct sim_wave *w, const struct sim_inst *in, const struct move *m, const struct buffer *b, uint64_t addr[LANES],
	struct sim_span *span)
{
	uint64_t exec = sim_exec(w), base = b->base + (uint32_t)in->offset + b->soffset;
	if (!b->stride && in->use_vaddr && !in->idxen) {
		raw_addresses(w->vgpr[in->vaddr], base, addr);
		*span = sim_span_of(addr, exec, m->bytes);
		return span->hi - b->base <= b->records;
	}
	for (int i = 0; i < LANES; i++) {
		bool inside = buffer_lane(w, in, b, i, 0, &addr[i], m->bytes);
		if (!inside && exec >> i & 1)
			return false;
		addr[i] += b->base;
	}
	*span = sim_span_of(addr, exec, m->bytes);
	return true;
}

/* A load in a loop goes on as it went: what the wave will read there next is fetched ahead by the last of every four lanes: where
 * the first one is, the load before has mostly been.  The rows of a tile are pages apart, and the host foresees nothing across pages.
 * It waits for few lines at a time: where there are matrix instructions, these fetch them (sim_ahead). */
static inline void foresee(struct sim_wave *w, const struct sim_inst *in, uint64_t base, const uint32_t at[LANES])
{
	struct sim_ahead *a = &w->group->ahead;
	unsigned slot = in->at / 8 % 32;
	uint64_t first = base + at[0], step = first - w->loaded[slot];
	w->loaded[slot] = first;
	if (!step || step + FURTHEST >= 2 * FURTHEST)
		return;
	if (a->to - a->from + LANES / 4 > AHEAD)
		sim_ahead_fetch(a, LANES / 4);
	for (int i = 3; i < LANES; i += 4)
		a->line[a->to++ % AHEAD] = base + step + at[i];
	if (!w->group->stats.inst[SIM_MFMA])
		sim_ahead_fetch(a, LANES / 4);
}

/* All lanes of a raw buffer, at one base, inside the records and in one allocation. */
static bool buffer_raw(struct sim_wave *w, const struct sim_inst *in, const struct move *m, const struct buffer *b)
{
	const uint32_t *at = w->vgpr[in->vaddr];
	uint64_t from = (uint64_t)(uint32_t)in->offset + b->soffset;
	if (b->stride || !in->use_vaddr || in->idxen || m->bytes < 4 || sim_exec(w) != ~UINT64_C(0))
		return false;
	struct sim_extent e = sim_extent_of(at, m->bytes);
	if (from + e.hi + m->bytes > b->records || !sim_same_range(w, b->base + from + e.lo, b->base + from + e.hi + m->bytes, m->store))
		return false;
	uint8_t *base = (uint8_t *)(uintptr_t)(b->base + from);
	if (m->store) {
		sim_lanes_store_all(&w->vgpr[in->vdata], base, at, e.order, m->bytes / 4u);
	} else {
		foresee(w, in, b->base + from, at);
		sim_lanes_load_all(&w->vgpr[in->vdst], base, at, e.order, m->bytes / 4u);
	}
	return true;
}

/* The usual case: every active lane is inside the records and in one allocation. */
static bool buffer_all_inside(struct sim_wave *w, const struct sim_inst *in, const struct move *m, const struct buffer *b)
{
	uint64_t addr[LANES];
	struct sim_span span;
	if (!buffer_raw(w, in, m, b)) {
		if (!buffer_addresses(w, in, m, b, addr, &span) || !sim_same_range(w, span.lo, span.hi, m->store))
			return false;
		move_lanes(w, in, m, addr, span.dense);
	}
	*(m->store ? &w->group->stats.global_written : &w->group->stats.global_read) += m->bytes * sim_lanes_active(w);
	return true;
}

/* Lane by lane.  What is out of range is dropped dword by dword in raw buffers, whole in others; swizzled accesses go
 * dword by dword as well, since an element may end inside them. */
static void buffer_move(struct sim_wave *w, const struct sim_inst *in, const struct move *m)
{
	uint64_t exec = sim_exec(w), moved = 0, at;
	struct buffer b;
	buffer_of(w, in, &b);
	if (!exec || (!m->lds && !b.swizzle && buffer_all_inside(w, in, m, &b)))
		return;
	for (int i = 0; i < LANES && w->state == WAVE_RUN; i++) {
		uint8_t bytes[16] = {0};
		bool wide = m->bytes > 4, split = b.swizzle && wide, whole = !split && buffer_lane(w, in, &b, i, 0, &at, m->bytes);
		unsigned piece = whole ? m->bytes : split || (!b.stride && wide) ? 4 : 0;
		if (!(exec >> i & 1))
			continue;
		for (unsigned from = 0; piece && from < m->bytes; from += piece) {
			void *p;
			if (!buffer_lane(w, in, &b, i, from, &at, piece))
				continue;
			if (!(p = sim_access(w, in, i, b.base + at, piece, m->store)))
				return;
			moved += piece;
			if (!m->store)
				memcpy(bytes + from, p, piece);
			else if (wide)
				for (unsigned k = 0; k < piece / 4; k++)
					memcpy((char *)p + 4 * k, &w->vgpr[in->vdata + from / 4 + k][i], 4);
			else
				move_lane(w, in, m, i, p);
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
	if (opcode < 0x10 || in->op == OP_buffer_load_format_d16_hi_x || in->op == OP_buffer_store_format_d16_hi_x) {
		exec_mtbuf(w, in);
		return;
	}
	if (!move_of(opcode - 0x10, in->n, &m) || (in->lds && m.store)) {
		sim_unknown(w, in);
		return;
	}
	m.lds = in->lds;
	unsigned regs = m.bytes < 4 ? 1 : m.bytes / 4u;
	if ((m.lds || rows_exist(w, in, in->vdata, regs)) && rows_exist(w, in, in->vaddr, in->use_vaddr && in->idxen ? 2 : 1))
		buffer_move(w, in, &m);
}
