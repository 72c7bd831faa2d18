/* lanes.c -- whole dwords of 64 lanes between memory and registers.
 *
 * In: the host address of each lane's access, which was checked, and EXEC.  Out: register rows, or memory.  A register holds
 * one dword of all lanes, memory all dwords of one lane: the data are transposed through a small buffer of whole accesses, so
 * that every access is one copy and the transposition one vector loop; where lanes follow each other in memory, the usual
 * case, memory itself is that buffer. */
#pragma GCC optimize("O3")
#include "memory_ops.h"

SIM_LANES_FN struct sim_span sim_span_of(uint64_t addr[LANES], uint64_t exec, unsigned bytes)
{
	uint64_t first = exec ? addr[__builtin_ctzll(exec)] : 0, lo = ~UINT64_C(0), hi = 0, apart = 0;
	if (exec != ~UINT64_C(0))
		for (int i = 0; i < LANES; i++)
			addr[i] = exec >> i & 1 ? addr[i] : first;
	for (int i = 0; i < LANES; i++) {
		lo = addr[i] < lo ? addr[i] : lo;
		hi = addr[i] > hi ? addr[i] : hi;
		apart |= addr[i] ^ (addr[0] + (uint64_t)i * bytes);
	}
	return (struct sim_span){lo, hi + bytes, !apart};
}

#define UNPACK(n) do { for (int i = 0; i < LANES; i++) for (int k = 0; k < n; k++) reg[k][i] = from[n * i + k]; } while (0)
#define PACK(n) do { for (int i = 0; i < LANES; i++) for (int k = 0; k < n; k++) to[n * i + k] = reg[k][i]; } while (0)

static SIM_LANES_FN void unpack(uint32_t (*restrict reg)[LANES], const sim_w32 *restrict from, unsigned words)
{
	switch (words) {
	case 1: UNPACK(1); return;
	case 2: UNPACK(2); return;
	case 3: UNPACK(3); return;
	default: UNPACK(4);
	}
}

static SIM_LANES_FN void pack(sim_w32 *restrict to, uint32_t (*restrict reg)[LANES], unsigned words)
{
	switch (words) {
	case 1: PACK(1); return;
	case 2: PACK(2); return;
	case 3: PACK(3); return;
	default: PACK(4);
	}
}

#define COPY_EACH(n, to, from) do { _Pragma("GCC unroll 8") for (int i = 0; i < LANES; i++) memcpy(to, from, 4 * n); } while (0)
#define EACH_OF(words, COPY) switch (words) { case 1: COPY(1); return; case 2: COPY(2); return; case 3: COPY(3); return; default: COPY(4); }
#define LANE(i) ((char *)(uintptr_t)addr[i])
#define PLACE(i) ((char *)base + at[i])

static void gather(sim_w32 *to, const uint64_t addr[LANES], unsigned words)
{
#define COPY(n) COPY_EACH(n, to + n * i, LANE(i))
	EACH_OF(words, COPY)
#undef COPY
}

static void gather_from(sim_w32 *to, const uint8_t *base, const uint32_t at[LANES], unsigned words)
{
#define COPY(n) COPY_EACH(n, to + n * i, PLACE(i))
	EACH_OF(words, COPY)
#undef COPY
}

/* In order: of two lanes at one address the later stays. */
static void scatter(const uint64_t addr[LANES], const sim_w32 *from, unsigned words)
{
#define COPY(n) COPY_EACH(n, LANE(i), from + n * i)
	EACH_OF(words, COPY)
#undef COPY
}

static void scatter_to(uint8_t *base, const uint32_t at[LANES], const sim_w32 *from, unsigned words)
{
#define COPY(n) COPY_EACH(n, PLACE(i), from + n * i)
	EACH_OF(words, COPY)
#undef COPY
}

SIM_LANES_FN struct sim_extent sim_extent_of(const uint32_t at[LANES], unsigned bytes)
{
	uint32_t lo = at[0], hi = at[0], apart = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		lo = at[i] < lo ? at[i] : lo;
		hi = at[i] > hi ? at[i] : hi;
		apart |= at[i] ^ (at[0] + i * bytes);
	}
	return (struct sim_extent){lo, hi, !apart};
}

void sim_lanes_load_all(uint32_t (*reg)[LANES], const uint8_t *base, const uint32_t at[LANES], bool dense, unsigned words)
{
	sim_w32 whole[4 * LANES] __attribute__((aligned(64)));
	if (dense && ((uintptr_t)base + at[0]) % 4 == 0) {
		unpack(reg, (const sim_w32 *)PLACE(0), words);
		return;
	}
	gather_from(whole, base, at, words);
	unpack(reg, whole, words);
}

void sim_lanes_store_all(uint32_t (*reg)[LANES], uint8_t *base, const uint32_t at[LANES], bool dense, unsigned words)
{
	sim_w32 whole[4 * LANES] __attribute__((aligned(64)));
	if (dense && ((uintptr_t)base + at[0]) % 4 == 0) {
		pack((sim_w32 *)PLACE(0), reg, words);
		return;
	}
	pack(whole, reg, words);
	scatter_to(base, at, whole, words);
}

void sim_lanes_load(struct sim_wave *w, unsigned reg, const uint64_t addr[LANES], bool dense, unsigned words)
{
	uint64_t exec = sim_exec(w);
	sim_w32 whole[4 * LANES];
	uint32_t rows[4][LANES];
	bool aligned = addr[0] % 4 == 0;
	if (!dense || !aligned)
		gather(whole, addr, words);
	const sim_w32 *from = dense && aligned ? (const sim_w32 *)LANE(0) : whole;
	unpack(exec == ~UINT64_C(0) ? &w->vgpr[reg] : rows, from, words);
	for (unsigned k = 0; exec != ~UINT64_C(0) && k < words; k++)
		sim_put_row(w, reg + k, rows[k], exec);
}

void sim_lanes_store(struct sim_wave *w, unsigned reg, const uint64_t addr[LANES], bool dense, unsigned words)
{
	uint64_t exec = sim_exec(w);
	sim_w32 whole[4 * LANES];
	if (dense && exec == ~UINT64_C(0) && addr[0] % 4 == 0) {
		pack((sim_w32 *)LANE(0), &w->vgpr[reg], words);
		return;
	}
	pack(whole, &w->vgpr[reg], words);
	if (exec == ~UINT64_C(0)) {
		scatter(addr, whole, words);
		return;
	}
	for (uint64_t left = exec; left; left &= left - 1) {
		int i = __builtin_ctzll(left);
		memcpy(LANE(i), whole + words * (unsigned)i, 4 * words);
	}
}
