/* exec_lds.c -- DS instructions: LDS loads, stores and atomics, and the lane permutations that share the encoding.
 *
 * In: byte addresses of 64 lanes.  Out: registers and the workgroup's LDS; bytes and bank conflicts are counted.  Every
 * access must lie inside the workgroup's allocation.  Bank conflicts follow the phases measured on hardware: an
 * instruction is served in groups of lanes, each group costs one clock plus one for every further distinct word that
 * its fullest bank has to deliver. */
#include "exec.h"
#include "memory_ops.h"

#include <stdlib.h>

/* ---- bank conflicts ---- */

struct phases { uint8_t banks, lanes; const uint8_t *order; }; /* order: 64 lanes in groups of `lanes`; NULL: as they come */

static const uint8_t order_b128[LANES] = { /* gfx950 ds_read_b128 */
	0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27, 4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31,
	32, 33, 34, 35, 44, 45, 46, 47, 52, 53, 54, 55, 56, 57, 58, 59, 36, 37, 38, 39, 40, 41, 42, 43, 48, 49, 50, 51, 60, 61, 62, 63};
static const uint8_t order_b96[LANES] = { /* ds_read_b96; gfx942 ds_read_b128 (rocm.blogs.amd.com, Avoiding LDS bank conflicts, July 2025) */
	0, 1, 2, 3, 20, 21, 22, 23, 4, 5, 6, 7, 16, 17, 18, 19, 8, 9, 10, 11, 28, 29, 30, 31, 12, 13, 14, 15, 24, 25, 26, 27,
	32, 33, 34, 35, 52, 53, 54, 55, 36, 37, 38, 39, 48, 49, 50, 51, 40, 41, 42, 43, 60, 61, 62, 63, 44, 45, 46, 47, 56, 57, 58, 59};

static struct phases phases_of(const struct sim_wave *w, unsigned bytes, bool write)
{
	bool wide = w->group->launch->object->chip->gfx950 && !write;
	switch (bytes) {
	case 16: return wide ? (struct phases){64, 16, order_b128} : (struct phases){32, 8, write ? NULL : order_b96};
	case 12: return (struct phases){32, 8, write ? NULL : order_b96};
	case 8: return wide ? (struct phases){64, 32, NULL} : (struct phases){32, 16, NULL};
	default: return (struct phases){32, 32, NULL};
	}
}

/* Whether the lanes of a group that fall on the same slot want the same word, so that nothing has to wait. */
static bool one_word_a_slot(const uint32_t addr[LANES], const uint8_t *order, int first, unsigned lanes, unsigned shift, unsigned slots)
{
	uint32_t last[64], other = 0;
	for (unsigned k = 0; k < lanes; k++) {
		unsigned lane = order ? order[k] : (unsigned)first + k;
		last[addr[lane] >> shift & (slots - 1)] = addr[lane];
	}
	for (unsigned k = 0; k < lanes; k++) {
		unsigned lane = order ? order[k] : (unsigned)first + k;
		other |= (last[addr[lane] >> shift & (slots - 1)] ^ addr[lane]) >> shift;
	}
	return !other;
}

static uint64_t count_conflicts(struct sim_wave *w, const uint32_t addr[LANES], unsigned bytes, bool write)
{
	struct phases p = phases_of(w, bytes, write);
	uint64_t exec = sim_exec(w), extra = 0;
	uint32_t any = 0;
	for (int i = 0; i < LANES; i++)
		any |= addr[i];
	/* aligned accesses of a power of two fall on whole groups of banks: look at the groups instead of the words */
	unsigned unit = bytes >= 4 && !(bytes & (bytes - 1)) && !(any & (bytes - 1)) ? bytes : 4;
	unsigned shift = (unsigned)__builtin_ctz(unit), parts = bytes > unit ? bytes / unit : 1, slots = p.banks * 4u / unit;
	for (int first = 0; first < LANES; first += p.lanes) {
		uint32_t seen[64][8];
		if (parts == 1 && exec == ~UINT64_C(0) && one_word_a_slot(addr, p.order ? p.order + first : NULL, first, p.lanes, shift, slots))
			continue;
		uint8_t count[64];
		uint64_t used = 0; /* slots that have a count */
		unsigned most = 1;
		for (int k = 0; k < p.lanes; k++) {
			int lane = p.order ? p.order[first + k] : first + k;
			if (!(exec >> lane & 1))
				continue;
			for (unsigned part = 0; part < parts; part++) {
				uint32_t word = (addr[lane] >> shift) + part;
				unsigned s = word & (slots - 1), j = 0;
				if (!(used >> s & 1)) {
					used |= UINT64_C(1) << s;
					seen[s][0] = word;
					count[s] = 1;
					continue;
				}
				unsigned n = count[s];
				while (j < n && j < 8 && seen[s][j] != word)
					j++;
				if (j < n && j < 8)
					continue;
				if (n < 8)
					seen[s][n] = word;
				count[s]++;
				if (n + 1 > most)
					most = n + 1;
			}
		}
		extra += most - 1;
	}
	return extra;
}

/* ---- access ---- */

static uint8_t *lds_at(struct sim_wave *w, const struct sim_inst *in, int lane, uint32_t addr, uint32_t bytes)
{
	if ((uint64_t)addr + bytes <= w->group->lds_size)
		return w->group->lds + addr;
	sim_fail(w, in, SIM_EFAULT, lane, "LDS access of %u bytes at %u, the workgroup has %u", bytes, addr, w->group->lds_size);
	return NULL;
}

static void addresses(const struct sim_wave *w, const struct sim_inst *in, uint32_t offset, uint32_t addr[LANES])
{
	for (int i = 0; i < LANES; i++)
		addr[i] = w->vgpr[in->vaddr][i] + offset;
}

static void account_bytes(struct sim_wave *w, unsigned bytes, bool write)
{
	*(write ? &w->group->stats.lds_written : &w->group->stats.lds_read) += (uint64_t)bytes * sim_lanes_active(w);
}

/* What an access costs, and how far its lanes reach below and above the first. */
struct reach { uint64_t extra; uint32_t below, above; enum sim_order order; };
/* A kernel accesses LDS in few patterns: what each costs is remembered with the distances from the first lane and that lane's
 * place in 16 bytes, for whole units only turn the banks. */
struct pattern {
	_Alignas(64) uint32_t distance[LANES];
	uint64_t exec;
	uint32_t key, place;
	struct reach reach;
};
enum { PATTERNS = 1 << 6 };
/* found: those of the last accesses by the register of their addresses (sim_group.kept). */
struct sim_patterns { struct pattern pattern[PATTERNS]; struct reach found[KEPT_PATTERNS]; };

struct sim_patterns *sim_patterns_new(void)
{
	struct sim_patterns *p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63);
	return p ? memset(p, 0, sizeof *p) : NULL;
}

static SIM_LANES_FN bool same_distances(const uint32_t addr[LANES], uint32_t distance[LANES])
{
	uint32_t other = 0, first = addr[0];
	for (int i = 0; i < LANES; i++)
		other |= (addr[i] - first) ^ distance[i];
	for (int i = 0; i < LANES && other; i++)
		distance[i] = addr[i] - first;
	return !other;
}

static struct reach reach_of(struct sim_wave *w, const uint32_t row[LANES], uint32_t offset, unsigned bytes, bool write)
{
	uint32_t at[LANES];
	for (int i = 0; i < LANES; i++)
		at[i] = row[i] + offset;
	struct sim_extent e = sim_extent_of(at, bytes);
	return (struct reach){count_conflicts(w, at, bytes, write), at[0] - e.lo, e.hi - at[0], e.order};
}

static uint32_t key_of(unsigned bytes, bool write) { return 1 + bytes * 2 + write; }

/* Of the lanes' addresses row[lane] + offset. */
static struct reach pattern_of(struct sim_wave *w, const uint32_t row[LANES], uint32_t offset, unsigned bytes, bool write)
{
	uint32_t place = (row[0] + offset) & 15, key = key_of(bytes, write);
	uint32_t hash = (place + 16 * key + (row[1] - row[0]) * 3 + (row[21] - row[0]) * 5 + (row[38] - row[0]) * 7) * 0x9e3779b1u;
	if (!w->group->patterns)
		return reach_of(w, row, offset, bytes, write);
	struct pattern *p = &w->group->patterns->pattern[hash >> 26];
	bool same = same_distances(row, p->distance);
	if (!same || p->exec != sim_exec(w) || p->key != key || p->place != place) {
		p->exec = sim_exec(w);
		p->key = key;
		p->place = place;
		p->reach = reach_of(w, row, offset, bytes, write);
	}
	return p->reach;
}

/* The same of the addresses in a register. */
static struct reach found_of(struct sim_wave *w, unsigned reg, uint32_t offset, unsigned bytes, bool write)
{
	struct sim_group *g = w->group;
	uint32_t place = offset & 15;
	uint64_t key = sim_kept_key(w, reg, 1, place << 8 | key_of(bytes, write));
	unsigned slot = (reg ^ place / 4) % KEPT_PATTERNS;
	if (!g->patterns)
		return reach_of(w, w->vgpr[reg], offset, bytes, write);
	sim_kept_begin(g);
	if (g->kept[KEPT_OPERANDS + slot] != key) {
		g->patterns->found[slot] = pattern_of(w, w->vgpr[reg], offset, bytes, write);
		sim_keep(g, KEPT_OPERANDS + slot, key);
	}
	return g->patterns->found[slot];
}

static void account(struct sim_wave *w, const uint32_t addr[LANES], unsigned bytes, bool write)
{
	w->group->stats.lds_conflicts += pattern_of(w, addr, 0, bytes, write).extra;
	account_bytes(w, bytes, write);
}

static SIM_LANES_FN void host_addresses(const uint32_t at[LANES], uint64_t base, uint64_t addr[LANES])
{
	for (int i = 0; i < LANES; i++)
		addr[i] = base + at[i];
}

/* n dwords a lane between LDS and registers from `reg`, at row[lane] + offset. */
static void move_words(struct sim_wave *w, const struct sim_inst *in, const uint32_t row[LANES], const struct reach *r, uint32_t offset, unsigned reg,
	unsigned n, bool write)
{
	uint64_t exec = sim_exec(w), base = (uint64_t)(uintptr_t)w->group->lds;
	if (exec == ~UINT64_C(0) && row[0] >= r->below && (uint64_t)row[0] + offset + r->above + 4 * n <= w->group->lds_size) {
		if (write)
			sim_lanes_store_all(&w->vgpr[reg], w->group->lds + offset, row, r->order, n);
		else
			sim_lanes_load_all(&w->vgpr[reg], w->group->lds + offset, row, r->order, n);
	} else {
		uint32_t at[LANES];
		uint64_t addr[LANES];
		for (int i = 0; i < LANES; i++)
			at[i] = row[i] + offset;
		host_addresses(at, base, addr);
		struct sim_span span = sim_span_of(addr, exec, 4 * n);
		if (span.hi > base + w->group->lds_size)
			for (uint64_t left = exec; left; left &= left - 1)
				if (!lds_at(w, in, __builtin_ctzll(left), at[__builtin_ctzll(left)], 4 * n))
					return;
		(write ? sim_lanes_store : sim_lanes_load)(w, reg, addr, span.dense, n);
	}
	w->group->stats.lds_conflicts += r->extra;
	account_bytes(w, 4 * n, write);
}

static void words(struct sim_wave *w, const struct sim_inst *in, uint32_t offset, unsigned reg, unsigned n, bool write)
{
	if (!sim_exec(w))
		return;
	struct reach r = found_of(w, in->vaddr, offset, 4 * n, write);
	move_words(w, in, w->vgpr[in->vaddr], &r, offset, reg, n, write);
}

/* Two reads; the address register may be one of the first results. */
static void read_twice(struct sim_wave *w, const struct sim_inst *in, unsigned n, uint32_t offset0, uint32_t offset1)
{
	uint32_t copy[LANES], *row = w->vgpr[in->vaddr];
	if (!sim_exec(w))
		return;
	struct reach first = found_of(w, in->vaddr, offset0, 4 * n, false), second = found_of(w, in->vaddr, offset1, 4 * n, false);
	if (in->vaddr >= in->vdst && in->vaddr < in->vdst + n)
		row = memcpy(copy, row, sizeof copy);
	move_words(w, in, row, &first, offset0, in->vdst, n, false);
	if (w->state == WAVE_RUN)
		move_words(w, in, row, &second, offset1, in->vdst + n, n, false);
}

static void read_small(struct sim_wave *w, const struct sim_inst *in, unsigned bytes, bool sign, bool d16, bool high)
{
	uint32_t addr[LANES];
	uint64_t exec = sim_exec(w);
	addresses(w, in, (uint32_t)in->offset, addr);
	for (int i = 0; i < LANES; i++) {
		if (!(exec >> i & 1))
			continue;
		const uint8_t *p = lds_at(w, in, i, addr[i], bytes);
		uint32_t v = 0, *d = &w->vgpr[in->vdst][i];
		if (!p)
			return;
		memcpy(&v, p, bytes);
		if (sign)
			v = bytes == 1 ? (uint32_t)(int8_t)v : (uint32_t)(int16_t)v;
		*d = !d16 ? v : high ? v << 16 | (*d & 0xffff) : (v & 0xffff) | (*d & 0xffff0000u);
	}
	account(w, addr, bytes, false);
}

static void write_small(struct sim_wave *w, const struct sim_inst *in, unsigned bytes, bool high)
{
	uint32_t addr[LANES];
	uint64_t exec = sim_exec(w);
	addresses(w, in, (uint32_t)in->offset, addr);
	for (int i = 0; i < LANES; i++) {
		if (!(exec >> i & 1))
			continue;
		uint8_t *p = lds_at(w, in, i, addr[i], bytes);
		uint32_t v = w->vgpr[in->vdata][i] >> (high ? 16 : 0);
		if (!p)
			return;
		memcpy(p, &v, bytes);
	}
	account(w, addr, bytes, true);
}

/* gfx950 transpose reads: 16 lanes each fetch 64 (96) bits; seen as rows of 16 elements in lane order, lane l of the
 * group receives column l. */
static void read_transposed(struct sim_wave *w, const struct sim_inst *in, unsigned bits, unsigned bytes)
{
	uint32_t addr[LANES], out[3][LANES] = {{0}};
	uint8_t data[LANES][16] = {{0}};
	unsigned elements = bytes * 8 / bits; /* of one lane, which is also the number of rows */
	unsigned lanes_a_row = 16 / elements;
	addresses(w, in, (uint32_t)in->offset, addr);
	if (sim_exec(w) != ~UINT64_C(0)) {
		sim_fail(w, in, SIM_EINST, -1, "a transpose read needs all lanes active");
		return;
	}
	for (int i = 0; i < LANES; i++) {
		const uint8_t *p = lds_at(w, in, i, addr[i], bytes);
		if (!p)
			return;
		memcpy(data[i], p, bytes);
	}
	for (int i = 0; i < LANES; i++) {
		unsigned base = (unsigned)i & ~15u, col = (unsigned)i & 15;
		for (unsigned row = 0; row < elements; row++) {
			const uint8_t *from = data[base + row * lanes_a_row + col / elements];
			for (unsigned b = 0; b < bits; b++) {
				unsigned src = col % elements * bits + b, dst = row * bits + b;
				out[dst / 32][i] |= (uint32_t)(from[src / 8] >> (src % 8) & 1) << (dst % 32);
			}
		}
	}
	for (unsigned k = 0; k < bytes / 4; k++)
		memcpy(w->vgpr[in->vdst + k], out[k], sizeof out[k]);
	account(w, addr, bytes, false);
}

/* ---- lanes ---- */

static void permute(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t out[LANES] = {0};
	uint64_t exec = sim_exec(w);
	const uint32_t *addr = w->vgpr[in->vaddr], *data = w->vgpr[in->vdata];
	for (int i = 0; i < LANES; i++) {
		unsigned j = (addr[i] + (uint32_t)in->offset) >> 2 & 63;
		if (in->op == OP_ds_bpermute_b32)
			out[i] = exec >> j & 1 ? data[j] : 0;
		else if (exec >> i & 1)
			out[j] = data[i];
	}
	sim_put_row(w, in->vdst, out, exec);
}

static void swizzle(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t out[LANES], spec = (uint32_t)in->offset;
	uint64_t exec = sim_exec(w);
	const uint32_t *data = w->vgpr[in->vaddr];
	for (unsigned i = 0; i < LANES; i++) {
		unsigned j;
		if (spec >> 14 == 3) { /* rotate inside 32 lanes by bits 9:5, direction in bit 10, masked by bits 4:0 */
			unsigned n = spec >> 5 & 31, mask = spec & 31, k = spec >> 10 & 1 ? i - n : i + n;
			j = (i & ~31u) | (i & mask) | (k & 31 & ~mask);
		} else if (spec >> 15) {
			j = (i & ~3u) | (spec >> (2 * (i & 3)) & 3);
		} else {
			j = (i & 32) | ((((i & 31) & (spec & 31)) | (spec >> 5 & 31)) ^ (spec >> 10 & 31));
		}
		out[i] = exec >> j & 1 ? data[j] : 0;
	}
	sim_put_row(w, in->vdst, out, exec);
}

/* ---- atomics ---- */

static enum sim_atomic atomic_of(const struct sim_inst *in, unsigned *bytes, bool *returns, bool *second)
{
	static const uint8_t low[] = {AT_ADD, AT_SUB, AT_RSUB, AT_INC, AT_DEC, AT_SMIN, AT_SMAX, AT_UMIN, AT_UMAX, AT_AND, AT_OR,
		AT_XOR, AT_MSKOR, AT_SWAP, 0, 0, AT_CMPSWAP, AT_CMPSWAP_F32, AT_MIN_F32, AT_MAX_F32, 0, AT_ADD_F32, 0, AT_PK_ADD_F16, AT_PK_ADD_BF16};
	unsigned opcode = in->word[0] >> 17 & 0xff, k = opcode & 0x1f;
	*second = false;
	*returns = opcode >> 5 & 1;
	*bytes = opcode & 0x40 ? 8 : 4;
	if (opcode == 0x34) {
		*second = true;
		return AT_WRAP;
	}
	if (opcode == 0xb7 || opcode == 0xb8) {
		*returns = true;
		*bytes = 4;
		return opcode == 0xb7 ? AT_PK_ADD_F16 : AT_PK_ADD_BF16;
	}
	if (opcode == 0x5c || opcode == 0x7c)
		return AT_ADD_F64;
	if (opcode >= 0x80 || k >= sizeof low || (k == 0x0d && !*returns))
		return AT_NONE;
	enum sim_atomic op = low[k];
	if (*bytes == 8 && k >= 0x15)
		return AT_NONE;
	if (*bytes == 8)
		op = op == AT_MIN_F32 ? AT_MIN_F64 : op == AT_MAX_F32 ? AT_MAX_F64 : op == AT_CMPSWAP_F32 ? AT_CMPSWAP_F64 : op;
	*second = op == AT_MSKOR || op == AT_CMPSWAP || op == AT_CMPSWAP_F32 || op == AT_CMPSWAP_F64;
	return op;
}

static void atomic(struct sim_wave *w, const struct sim_inst *in)
{
	unsigned bytes;
	bool returns, second;
	enum sim_atomic op = atomic_of(in, &bytes, &returns, &second);
	uint32_t addr[LANES];
	uint64_t exec = sim_exec(w);
	if (op == AT_NONE) {
		sim_unknown(w, in);
		return;
	}
	addresses(w, in, (uint32_t)in->offset, addr);
	for (int i = 0; i < LANES; i++) {
		if (!(exec >> i & 1))
			continue;
		uint8_t *p = lds_at(w, in, i, addr[i], bytes);
		uint64_t old = 0, v;
		if (!p)
			return;
		memcpy(&old, p, bytes);
		/* compare-and-swap has the comparison value first, the new one second */
		uint64_t a = sim_lane_data(w, in->vdata, i, bytes), b = second ? sim_lane_data(w, in->vdata2, i, bytes) : 0;
		v = second && op != AT_MSKOR && op != AT_WRAP ? sim_atomic_value(op, bytes, old, b, a) : sim_atomic_value(op, bytes, old, a, b);
		memcpy(p, &v, bytes);
		if (returns) {
			w->vgpr[in->vdst][i] = (uint32_t)old;
			if (bytes == 8)
				w->vgpr[in->vdst + 1][i] = (uint32_t)(old >> 32);
		}
	}
	account(w, addr, bytes, true);
}

/* ---- the rest ---- */

/* A dword a lane, at M0[15:0] + offset + 4 * lane. */
static void by_lane(struct sim_wave *w, const struct sim_inst *in, bool write)
{
	uint32_t addr[LANES];
	uint64_t exec = sim_exec(w);
	for (int i = 0; i < LANES; i++) {
		uint8_t *p;
		addr[i] = (w->sgpr[REG_M0] & 0xffff) + (uint32_t)in->offset + 4 * (uint32_t)i;
		if (!(exec >> i & 1))
			continue;
		if (!(p = lds_at(w, in, i, addr[i], 4)))
			return;
		if (write)
			memcpy(p, &w->vgpr[in->vdata][i], 4);
		else
			memcpy(&w->vgpr[in->vdst][i], p, 4);
	}
	account(w, addr, 4, write);
}

/* Adds (subtracts) the number of active lanes at M0[31:16] + offset; every lane gets the value before. */
static void append(struct sim_wave *w, const struct sim_inst *in, bool consume)
{
	uint32_t old, next, row[LANES], count = (uint32_t)__builtin_popcountll(sim_exec(w));
	uint8_t *p = lds_at(w, in, -1, (w->sgpr[REG_M0] >> 16) + (uint32_t)in->offset, 4);
	if (!p || in->vdst >= w->nvgpr)
		return;
	memcpy(&old, p, 4);
	next = consume ? old - count : old + count;
	memcpy(p, &next, 4);
	for (int i = 0; i < LANES; i++)
		row[i] = old;
	sim_put_row(w, in->vdst, row, sim_exec(w));
}

/* Two exchanges a lane; lanes in order, each with its first before its second. */
static void exchange2(struct sim_wave *w, const struct sim_inst *in, unsigned bytes, unsigned scale)
{
	uint32_t addr[2][LANES];
	uint64_t exec = sim_exec(w);
	addresses(w, in, ((uint32_t)in->offset & 0xff) * scale, addr[0]);
	addresses(w, in, ((uint32_t)in->offset >> 8) * scale, addr[1]);
	for (int i = 0; i < LANES; i++) {
		uint64_t data[2] = {sim_lane_data(w, in->vdata, i, bytes), sim_lane_data(w, in->vdata2, i, bytes)};
		for (unsigned k = 0; exec >> i & 1 && k < 2; k++) {
			uint8_t *p = lds_at(w, in, i, addr[k][i], bytes);
			if (!p)
				return;
			for (unsigned r = 0; r < bytes / 4; r++)
				memcpy(&w->vgpr[in->vdst + k * bytes / 4 + r][i], p + 4 * r, 4);
			memcpy(p, &data[k], bytes);
		}
	}
	account(w, addr[0], bytes, true);
	account(w, addr[1], bytes, true);
}

/* Two dwords a lane, each written where bit 31 of its data says so, without that bit. */
static void exchange_if(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t addr[LANES];
	uint64_t exec = sim_exec(w);
	addresses(w, in, (uint32_t)in->offset, addr);
	for (int i = 0; i < LANES; i++) {
		uint8_t *p = exec >> i & 1 ? lds_at(w, in, i, addr[i], 8) : NULL;
		uint32_t data[2] = {w->vgpr[in->vdata][i], w->vgpr[in->vdata + 1][i]};
		if (exec >> i & 1 && !p)
			return;
		for (unsigned k = 0; p && k < 2; k++) {
			uint32_t v = data[k] & 0x7fffffffu;
			memcpy(&w->vgpr[in->vdst + k][i], p + 4 * k, 4);
			if (data[k] >> 31)
				memcpy(p + 4 * k, &v, 4);
		}
	}
	account(w, addr, 8, true);
}

static void access(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t off = (uint32_t)in->offset, off0 = off & 0xff, off1 = off >> 8;
	switch (in->op) {
	case OP_ds_read_b32: words(w, in, off, in->vdst, 1, false); return;
	case OP_ds_read_b64: words(w, in, off, in->vdst, 2, false); return;
	case OP_ds_read_b96: words(w, in, off, in->vdst, 3, false); return;
	case OP_ds_read_b128: words(w, in, off, in->vdst, 4, false); return;
	case OP_ds_write_b32: words(w, in, off, in->vdata, 1, true); return;
	case OP_ds_write_b64: words(w, in, off, in->vdata, 2, true); return;
	case OP_ds_write_b96: words(w, in, off, in->vdata, 3, true); return;
	case OP_ds_write_b128: words(w, in, off, in->vdata, 4, true); return;
	case OP_ds_read2_b32: case OP_ds_read2st64_b32: case OP_ds_read2_b64: case OP_ds_read2st64_b64: {
		unsigned n = in->op == OP_ds_read2_b64 || in->op == OP_ds_read2st64_b64 ? 2 : 1;
		unsigned scale = 4 * n * (in->op == OP_ds_read2st64_b32 || in->op == OP_ds_read2st64_b64 ? 64 : 1);
		read_twice(w, in, n, off0 * scale, off1 * scale);
		return;
	}
	case OP_ds_write2_b32: case OP_ds_write2st64_b32: case OP_ds_write2_b64: case OP_ds_write2st64_b64: {
		unsigned n = in->op == OP_ds_write2_b64 || in->op == OP_ds_write2st64_b64 ? 2 : 1;
		unsigned scale = 4 * n * (in->op == OP_ds_write2st64_b32 || in->op == OP_ds_write2st64_b64 ? 64 : 1);
		words(w, in, off0 * scale, in->vdata, n, true);
		if (w->state == WAVE_RUN)
			words(w, in, off1 * scale, in->vdata2, n, true);
		return;
	}
	case OP_ds_write_b8: write_small(w, in, 1, false); return;
	case OP_ds_write_b16: write_small(w, in, 2, false); return;
	case OP_ds_write_b8_d16_hi: write_small(w, in, 1, true); return;
	case OP_ds_write_b16_d16_hi: write_small(w, in, 2, true); return;
	case OP_ds_read_i8: read_small(w, in, 1, true, false, false); return;
	case OP_ds_read_u8: read_small(w, in, 1, false, false, false); return;
	case OP_ds_read_i16: read_small(w, in, 2, true, false, false); return;
	case OP_ds_read_u16: read_small(w, in, 2, false, false, false); return;
	case OP_ds_read_u8_d16: read_small(w, in, 1, false, true, false); return;
	case OP_ds_read_u8_d16_hi: read_small(w, in, 1, false, true, true); return;
	case OP_ds_read_i8_d16: read_small(w, in, 1, true, true, false); return;
	case OP_ds_read_i8_d16_hi: read_small(w, in, 1, true, true, true); return;
	case OP_ds_read_u16_d16: read_small(w, in, 2, false, true, false); return;
	case OP_ds_read_u16_d16_hi: read_small(w, in, 2, false, true, true); return;
	case OP_ds_read_b64_tr_b4: read_transposed(w, in, 4, 8); return;
	case OP_ds_read_b96_tr_b6: read_transposed(w, in, 6, 12); return;
	case OP_ds_read_b64_tr_b8: read_transposed(w, in, 8, 8); return;
	case OP_ds_read_b64_tr_b16: read_transposed(w, in, 16, 8); return;
	case OP_ds_read_addtid_b32: by_lane(w, in, false); return;
	case OP_ds_write_addtid_b32: by_lane(w, in, true); return;
	case OP_ds_append: append(w, in, false); return;
	case OP_ds_consume: append(w, in, true); return;
	case OP_ds_wrxchg2_rtn_b32: exchange2(w, in, 4, 4); return;
	case OP_ds_wrxchg2st64_rtn_b32: exchange2(w, in, 4, 4 * 64); return;
	case OP_ds_wrxchg2_rtn_b64: exchange2(w, in, 8, 8); return;
	case OP_ds_wrxchg2st64_rtn_b64: exchange2(w, in, 8, 8 * 64); return;
	case OP_ds_condxchg32_rtn_b64: exchange_if(w, in); return;
	case OP_ds_swizzle_b32: swizzle(w, in); return;
	case OP_ds_permute_b32: case OP_ds_bpermute_b32: permute(w, in); return;
	default: atomic(w, in);
	}
}

void exec_ds(struct sim_wave *w, const struct sim_inst *in)
{
	/* the spare rows behind the last register (core.c) cover operands an opcode does not use */
	if (in->vaddr >= w->nvgpr || in->vdata + 4u > w->nvgpr + 32 || in->vdata2 + 4u > w->nvgpr + 32 || in->vdst + 4u > w->nvgpr + 32) {
		sim_fail(w, in, SIM_EINST, -1, "a register is beyond the %u allocated", w->nvgpr);
		return;
	}
	access(w, in);
	sim_overwritten(w, in->vdst, 4);
}
