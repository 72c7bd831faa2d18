/* lanes.c -- whole dwords of 64 lanes between memory and registers.
 *
 * In: the host address of each lane's access, which was checked, and EXEC.  Out: register rows, or memory.  A register holds
 * one dword of all lanes, memory all dwords of one lane: the data are transposed through a small buffer of whole accesses, so
 * that every access is one copy and the transposition one vector loop; where lanes follow each other in memory, the usual
 * case, memory itself is that buffer. */
#pragma GCC optimize("O3")
#include "memory_ops.h"

#ifdef SIM_AVX512
#include <immintrin.h>

bool sim_has_avx512;

static __attribute__((constructor)) void avx512_look(void)
{
	sim_has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
	                 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}
#endif

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

static SIM_LANES_FN struct sim_extent extent(const uint32_t at[LANES], unsigned bytes)
{
	uint32_t lo = at[0], hi = at[0], apart = 0;
	for (uint32_t i = 0; i < LANES; i++) {
		lo = at[i] < lo ? at[i] : lo;
		hi = at[i] > hi ? at[i] : hi;
		apart |= at[i] ^ (at[0] + i * bytes);
	}
	return (struct sim_extent){lo, hi, apart ? SIM_SCATTERED : SIM_DENSE};
}

/* ---- AVX-512: 16 lanes at a time, transposed in registers ---- */

#ifdef SIM_AVX512
#define WIDE static inline SIM_AVX512 __attribute__((always_inline))

/* From vectors of which the j-th holds four dwords of the lanes j, 4 + j, 8 + j and 12 + j to rows of 16 lanes, and back. */
WIDE void turn(__m512i v[4])
{
	__m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
	__m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
	v[0] = _mm512_unpacklo_epi64(a, c), v[1] = _mm512_unpackhi_epi64(a, c);
	v[2] = _mm512_unpacklo_epi64(b, d), v[3] = _mm512_unpackhi_epi64(b, d);
}

#define EACH_4 _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++)

static SIM_AVX512 struct sim_extent extent_wide(const uint32_t at[LANES], unsigned bytes)
{
	const __m512i number = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), width = _mm512_set1_epi32((int)bytes);
	const __m512i in_all = _mm512_mullo_epi32(number, width), in_four = _mm512_and_si512(in_all, _mm512_set1_epi32(48));
	__m512i v[4], apart = _mm512_setzero_si512(), broken = apart;
	EACH_4 {
		v[j] = _mm512_loadu_si512(&at[16 * j]);
		__m512i all = _mm512_add_epi32(in_all, _mm512_set1_epi32((int)(at[0] + 16u * (unsigned)j * bytes)));
		__m512i four = _mm512_add_epi32(in_four, _mm512_shuffle_epi32(v[j], _MM_PERM_AAAA));
		apart = _mm512_or_si512(apart, _mm512_xor_si512(v[j], all));
		broken = _mm512_or_si512(broken, _mm512_xor_si512(v[j], four));
	}
	__m512i lo = _mm512_min_epu32(_mm512_min_epu32(v[0], v[1]), _mm512_min_epu32(v[2], v[3]));
	__m512i hi = _mm512_max_epu32(_mm512_max_epu32(v[0], v[1]), _mm512_max_epu32(v[2], v[3]));
	enum sim_order order = !_mm512_test_epi32_mask(apart, apart) ? SIM_DENSE :
		bytes == 16 && !_mm512_test_epi32_mask(broken, broken) ? SIM_FOURS : SIM_SCATTERED;
	return (struct sim_extent){_mm512_reduce_min_epu32(lo), _mm512_reduce_max_epu32(hi), order};
}

/* The row `at` may be one of those that are loaded: of it nothing is read that was overwritten. */
WIDE void load_4(uint32_t (*reg)[LANES], const uint8_t *base, const uint32_t at[LANES])
{
	for (int n = 0; n < LANES; n += 16) {
		__m512i v[4];
		EACH_4 {
			v[j] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)PLACE(n + j)));
			v[j] = _mm512_inserti32x4(v[j], _mm_loadu_si128((const __m128i *)PLACE(n + 4 + j)), 1);
			v[j] = _mm512_inserti32x4(v[j], _mm_loadu_si128((const __m128i *)PLACE(n + 8 + j)), 2);
			v[j] = _mm512_inserti32x4(v[j], _mm_loadu_si128((const __m128i *)PLACE(n + 12 + j)), 3);
		}
		turn(v);
		EACH_4 _mm512_storeu_si512(&reg[j][n], v[j]);
	}
}

/* The same from four lanes at a time: first dwords 0 and 1, or 2 and 3, of 8 lanes, then one dword of 16. */
WIDE void load_fours(uint32_t (*reg)[LANES], const uint8_t *base, const uint32_t at[LANES], bool dense)
{
	const __m512i low = _mm512_set_epi32(29, 25, 21, 17, 13, 9, 5, 1, 28, 24, 20, 16, 12, 8, 4, 0), high = _mm512_add_epi32(low, _mm512_set1_epi32(2));
	const char *first = PLACE(0);
	for (int n = 0; n < LANES; n += 16) {
		__m512i v[4], half[4];
		EACH_4 v[j] = _mm512_loadu_si512(dense ? first + 16 * (n + 4 * j) : PLACE(n + 4 * j));
		EACH_4 half[j] = _mm512_permutex2var_epi32(v[j & 2], j & 1 ? high : low, v[(j & 2) + 1]);
		EACH_4 v[j] = j & 1 ? _mm512_shuffle_i64x2(half[j / 2], half[2 + j / 2], 0xee) : _mm512_shuffle_i64x2(half[j / 2], half[2 + j / 2], 0x44);
		EACH_4 _mm512_storeu_si512(&reg[j][n], v[j]);
	}
}

WIDE void load_2(uint32_t (*reg)[LANES], const uint8_t *base, const uint32_t at[LANES])
{
	const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0), odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
	for (int n = 0; n < LANES; n += 16) {
		__m512i lo = _mm512_i64gather_epi64(_mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)&at[n])), base, 1);
		__m512i hi = _mm512_i64gather_epi64(_mm512_cvtepu32_epi64(_mm256_loadu_si256((const __m256i *)&at[n + 8])), base, 1);
		_mm512_storeu_si512(&reg[0][n], _mm512_permutex2var_epi32(lo, even, hi));
		_mm512_storeu_si512(&reg[1][n], _mm512_permutex2var_epi32(lo, odd, hi));
	}
}

WIDE void store_4(uint32_t (*reg)[LANES], uint8_t *base, const uint32_t at[LANES])
{
	for (int n = 0; n < LANES; n += 16) {
		__m512i v[4];
		EACH_4 v[j] = _mm512_loadu_si512(&reg[j][n]);
		turn(v);
		EACH_4 _mm_storeu_si128((__m128i *)PLACE(n + j), _mm512_castsi512_si128(v[j])); /* in order, as in scatter */
		EACH_4 _mm_storeu_si128((__m128i *)PLACE(n + 4 + j), _mm512_extracti32x4_epi32(v[j], 1));
		EACH_4 _mm_storeu_si128((__m128i *)PLACE(n + 8 + j), _mm512_extracti32x4_epi32(v[j], 2));
		EACH_4 _mm_storeu_si128((__m128i *)PLACE(n + 12 + j), _mm512_extracti32x4_epi32(v[j], 3));
	}
}

/* load_fours backwards. */
WIDE void store_fours(uint32_t (*reg)[LANES], uint8_t *base, const uint32_t at[LANES], bool dense)
{
	const __m512i low = _mm512_set_epi32(27, 19, 11, 3, 26, 18, 10, 2, 25, 17, 9, 1, 24, 16, 8, 0), high = _mm512_add_epi32(low, _mm512_set1_epi32(4));
	char *first = PLACE(0);
	for (int n = 0; n < LANES; n += 16) {
		__m512i v[4], half[4];
		EACH_4 v[j] = _mm512_loadu_si512(&reg[j][n]);
		EACH_4 half[j] = j & 2 ? _mm512_shuffle_i64x2(v[2 * (j & 1)], v[2 * (j & 1) + 1], 0xee) : _mm512_shuffle_i64x2(v[2 * (j & 1)], v[2 * (j & 1) + 1], 0x44);
		EACH_4 v[j] = _mm512_permutex2var_epi32(half[j & 2], j & 1 ? high : low, half[(j & 2) + 1]);
		EACH_4 _mm512_storeu_si512(dense ? first + 16 * (n + 4 * j) : PLACE(n + 4 * j), v[j]);
	}
}

/* False where the plain way is as good. */
static SIM_AVX512 bool load_wide(uint32_t (*reg)[LANES], const uint8_t *base, const uint32_t at[LANES], enum sim_order order, unsigned words)
{
	if (words == 4 && order == SIM_DENSE)
		load_fours(reg, base, at, true);
	else if (words == 4 && order == SIM_FOURS)
		load_fours(reg, base, at, false);
	else if (words == 4)
		load_4(reg, base, at);
	else if (words == 2 && order != SIM_DENSE)
		load_2(reg, base, at);
	else
		return false;
	return true;
}

static SIM_AVX512 bool store_wide(uint32_t (*reg)[LANES], uint8_t *base, const uint32_t at[LANES], enum sim_order order, unsigned words)
{
	if (words != 4)
		return false;
	if (order == SIM_DENSE)
		store_fours(reg, base, at, true);
	else if (order == SIM_FOURS)
		store_fours(reg, base, at, false);
	else
		store_4(reg, base, at);
	return true;
}
#endif

struct sim_extent sim_extent_of(const uint32_t at[LANES], unsigned bytes)
{
#ifdef SIM_AVX512
	if (sim_avx512())
		return extent_wide(at, bytes);
#endif
	return extent(at, bytes);
}

void sim_lanes_load_all(uint32_t (*reg)[LANES], const uint8_t *base, const uint32_t at[LANES], enum sim_order order, unsigned words)
{
#ifdef SIM_AVX512
	if (sim_avx512() && load_wide(reg, base, at, order, words))
		return;
#endif
	sim_w32 whole[4 * LANES] __attribute__((aligned(64)));
	if (order == SIM_DENSE && ((uintptr_t)base + at[0]) % 4 == 0) {
		unpack(reg, (const sim_w32 *)PLACE(0), words);
		return;
	}
	gather_from(whole, base, at, words);
	unpack(reg, whole, words);
}

void sim_lanes_store_all(uint32_t (*reg)[LANES], uint8_t *base, const uint32_t at[LANES], enum sim_order order, unsigned words)
{
#ifdef SIM_AVX512
	if (sim_avx512() && store_wide(reg, base, at, order, words))
		return;
#endif
	sim_w32 whole[4 * LANES] __attribute__((aligned(64)));
	if (order == SIM_DENSE && ((uintptr_t)base + at[0]) % 4 == 0) {
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
