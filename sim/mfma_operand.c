/* mfma_operand.c -- operands of matrix instructions: widened, and kept while matrix instructions follow each other.
 *
 * In: the registers of A or B.  Out: arrays [block][k][row or column] of f32, or i32 for i8.  Their rows are contiguous in
 * registers, so widening is vector code.  exec_mfma.c has the layouts.
 *
 * A tile of a product uses each operand several times in a row.  What was widened is kept, by wave and register, until this
 * host thread executes anything but matrix instructions, LDS instructions and waits, or one of these overwrites it, of which it
 * tells (sim_overwritten): nothing else changes registers. */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "mfma.h"

#ifdef SIM_AVX512
#include <immintrin.h>
#endif
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- widening ---- */

static float table[2][10][256]; /* [fnuz][element] */

/* fp6 is e2m3 with bias 1, bf6 is e3m2 with bias 3: no infinities, no NaN. */
static float small_float(unsigned code, unsigned mbits, int bias)
{
	unsigned e = code >> mbits & ((1u << (5 - mbits)) - 1), m = code & ((1u << mbits) - 1);
	float v = e ? ldexpf((float)(m | 1u << mbits), (int)e - bias - (int)mbits) : ldexpf((float)m, 1 - bias - (int)mbits);
	return code & 0x20 ? -v : v;
}

static void build_tables(void)
{
	for (unsigned c = 0; c < 256; c++) {
		table[0][E_FP8][c] = num_to_f32(c, DT_E4M3);
		table[0][E_BF8][c] = num_to_f32(c, DT_E5M2);
		table[1][E_FP8][c] = num_to_f32(c, DT_E4M3FNUZ);
		table[1][E_BF8][c] = num_to_f32(c, DT_E5M2FNUZ);
		table[0][E_FP6][c] = small_float(c & 63, 3, 1);
		table[0][E_BF6][c] = small_float(c & 63, 2, 3);
		table[0][E_FP4][c] = num_to_f32(c & 15, DT_E2M1);
	}
}

/* tf32 precision: 10 mantissa bits, to nearest even. */
static inline float xf32(uint32_t u)
{
	bool special = (u & 0x7f800000u) == 0x7f800000u;
	return num_float(special ? u : (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu);
}

/* Element j of a lane starts at bit j * bits of its registers. */
static inline uint32_t raw(uint32_t (*v)[LANES], unsigned bit, unsigned bits, unsigned lane)
{
	unsigned reg = bit / 32, shift = bit % 32;
	uint32_t lo = v[reg][lane] >> shift;
	if (shift + bits > 32)
		lo |= v[reg + 1][lane] << (32 - shift);
	return lo;
}

static inline __attribute__((always_inline)) void widen_row(float *out, uint32_t (*v)[LANES], enum mfma_element e, unsigned bit, unsigned lane,
	unsigned m, const float *codes)
{
	const uint32_t *src = v[bit / 32] + lane;
	unsigned shift = bit % 32;
	sim_i32 *iout = (sim_i32 *)out;
	switch (e) {
	case E_F32:
		for (unsigned i = 0; i < m; i++)
			out[i] = num_float(src[i]);
		return;
	case E_XF32:
		for (unsigned i = 0; i < m; i++)
			out[i] = xf32(src[i]);
		return;
	case E_I8:
		for (unsigned i = 0; i < m; i++)
			iout[i] = (int8_t)(src[i] >> shift);
		return;
	case E_FP6: case E_BF6:
		for (unsigned i = 0; i < m; i++)
			out[i] = codes[raw(v, bit, 6, lane + i) & 63];
		return;
	case E_FP4:
		for (unsigned i = 0; i < m; i++)
			out[i] = codes[src[i] >> shift & 15];
		return;
	default:
		for (unsigned i = 0; i < m; i++)
			out[i] = codes[src[i] >> shift & 255];
		return;
	}
}

static inline __attribute__((always_inline)) void widen_as(float *out, uint32_t (*v)[LANES], const struct mfma_shape *s, enum mfma_element e, unsigned m,
	const float *codes)
{
	unsigned bits = mfma_bits(e), groups = s->blocks > 1 ? 1 : LANES / m, per_lane = s->k / groups;
	bool split = s->split && bits == 8;
	unsigned halves = split ? 2 : 1, run = split ? 16 : per_lane; /* k in order: halves, lane groups, elements of a lane */
	for (unsigned b = 0; b < s->blocks; b++)
		for (unsigned half = 0; half < halves; half++)
			for (unsigned group = 0; group < groups; group++)
				for (unsigned j = 0; j < run; j++, out += m)
					widen_row(out, v, e, (j + 16 * half) * bits, m * (s->blocks > 1 ? b : group), m, codes);
}

/* Elements of 16 bits, a register at a time: its lower halves, then its upper ones. */
#define HALVES(LOW, HIGH) do { \
	for (unsigned b = 0; b < parts; b++) \
		for (unsigned r = 0; r < regs; r++, out += 2 * m) \
			for (unsigned i = 0; i < m; i++) { \
				uint32_t x = v[r][m * b + i]; \
				out[i] = LOW; \
				out[m + i] = HIGH; \
			} } while (0)

static inline __attribute__((always_inline)) void widen_halves(float *restrict out, uint32_t (*restrict v)[LANES], const struct mfma_shape *s, bool bf16,
	unsigned m)
{
	unsigned parts = LANES / m, regs = s->k * s->blocks / parts / 2; /* blocks, or groups of k: one of them is 1 */
	if (bf16)
		HALVES(num_float(x << 16), num_float(x & 0xffff0000u));
	else
		HALVES(sim_f16_to_f32(x & 0xffff), sim_f16_to_f32(x >> 16));
}

/* out[block][k][m]; what is usual has loops of its own. */
static SIM_LANES_FN void widen(float *out, uint32_t (*v)[LANES], const struct mfma_shape *s, enum mfma_element e, bool fnuz)
{
	const float *codes = e >= E_FP8 && e <= E_FP4 ? table[e <= E_BF8 ? fnuz : 0][e] : NULL;
	if (e == E_BF16 && s->m == 16)
		widen_halves(out, v, s, true, 16);
	else if (e == E_BF16 && s->m == 32)
		widen_halves(out, v, s, true, 32);
	else if (e == E_F16 || e == E_BF16)
		widen_halves(out, v, s, e == E_BF16, s->m);
	else
		widen_as(out, v, s, e, s->m, codes);
}

enum { LEAST_BF16 = 0x2000, MOST_BF16 = 0x5f00 };
typedef uint16_t sim_w16 __attribute__((may_alias));

/* Whether the products of operand x with any other that passes are exact and finite in f32: for bf16, magnitudes 0 or between
 * 2^-63 and 2^63; for f16 all but infinities and NaN; for what is widened otherwise, 12 bits of mantissa as well. */
static SIM_LANES_FN bool exact16(uint32_t (*v)[LANES], unsigned registers, uint16_t least, uint16_t most)
{
	const sim_w16 *x = (const sim_w16 *)v;
	uint16_t low = 0xffff, high = 0; /* zero, less one, is above all */
	for (unsigned i = 0; i < registers * 2 * LANES; i++) {
		uint16_t mag = x[i] & 0x7fff, less = (uint16_t)(mag - 1);
		low = less < low ? less : low;
		high = mag > high ? mag : high;
	}
	return low >= least - 1 && high <= most;
}

static SIM_LANES_FN bool exact32(const float *x, unsigned n)
{
	uint32_t bad = 0;
	for (unsigned i = 0; i < n; i++) {
		uint32_t mag = num_bits(x[i]) & 0x7fffffffu;
		bad |= (mag != 0) & (mag - 0x20000000u > 0x5f000000u - 0x20000000u);
		bad |= mag & 0xfff;
	}
	return !bad;
}

bool mfma_exact(const float *x, unsigned n) { return exact32(x, n); }

static bool exact(uint32_t (*v)[LANES], unsigned registers, const float *x, const struct mfma_shape *s, enum mfma_element e)
{
	switch (e) {
	case E_BF16: return exact16(v, registers, LEAST_BF16, MOST_BF16);
	case E_F16: return exact16(v, registers, 1, 0x7bff);
	case E_I8: return false;
	default: return exact32(x, (unsigned)s->m * s->k * s->blocks);
	}
}

/* ---- operands that are kept ---- */

struct sim_operands *sim_operands_new(void)
{
	return aligned_alloc(64, (sizeof(struct sim_operands) + 63) & ~(size_t)63);
}

void sim_forget(struct sim_group *g, uint64_t others)
{
	memset(g->kept, 0, sizeof g->kept);
	g->kept_others = others;
	g->kept_from = ~0u;
	g->kept_to = 0;
}

static SIM_LANES_FN void forget_some(uint64_t *kept, uint64_t wave, uint64_t first, uint64_t n)
{
	for (int i = 0; i < KEPT_OPERANDS + KEPT_PATTERNS; i++) {
		uint64_t key = kept[i], reg = key >> 32 & 0xffff, end = reg + (key >> 24 & 0xff);
		kept[i] = (key >> 48 == wave) & (reg < first + n) & (end > first) ? 0 : key;
	}
}

void sim_overwritten_kept(struct sim_wave *w, unsigned first, unsigned n)
{
	forget_some(w->group->kept, w->index, first, n);
}

/* bf16 where one block is 16 wide, widened and judged at once: the usual operand.  Magnitudes from 2^-31 to 2^33 begin with 011 or
 * 100: bit 14 differs from 13, and 13 is as 12.  What has others, zeros among them, is looked at again. */
#ifdef SIM_AVX512
static SIM_AVX512 bool widen_16(float *out, uint32_t (*v)[LANES], unsigned registers)
{
	__m512i all = _mm512_set1_epi32(-1), any = _mm512_setzero_si512();
	for (unsigned lane = 0; lane < LANES; lane += 16)
		for (unsigned r = 0; r < registers; r++, out += 32) {
			__m512i x = _mm512_loadu_si512(&v[r][lane]), next = _mm512_add_epi16(x, x); /* the next lower bit of each */
			_mm512_storeu_si512(out, _mm512_slli_epi32(x, 16));
			_mm512_storeu_si512(out + 16, _mm512_and_si512(x, _mm512_set1_epi32(-0x10000)));
			all = _mm512_ternarylogic_epi32(all, x, next, 0x60); /* all & (x ^ next) */
			any = _mm512_ternarylogic_epi32(any, x, next, 0xf6); /* any | (x ^ next) */
		}
	__m512i usual = _mm512_andnot_si512(_mm512_add_epi16(any, any), all);
	return _mm512_movepi16_mask(_mm512_add_epi16(usual, usual)) == 0xffffffffu || exact16(v, registers, LEAST_BF16, MOST_BF16);
}
#endif

/* blgp of the forms without a format: B's lanes broadcast or rotated in groups. */
static unsigned b_lane(unsigned blgp, unsigned lane)
{
	switch (blgp) {
	case 0: return lane;
	case 1: return lane % 32;
	case 2: return lane % 32 + 32;
	case 3: return (lane + 16) % 64;
	default: return lane % 16 + 16 * (blgp - 4);
	}
}

void mfma_widen(struct mfma_operand *x, struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s, int k)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	enum mfma_element e = k ? s->b : s->a;
	unsigned n = s->registers[k];
#ifdef SIM_AVX512
	if (e == E_BF16 && s->m == 16 && s->blocks == 1 && sim_avx512()) {
		x->exact = widen_16(x->v, &w->vgpr[in->src[k].reg], n);
		return;
	}
#endif
	unsigned blgp = k && !s->split ? in->blgp : 0;
	uint32_t moved[8][LANES], (*v)[LANES] = &w->vgpr[in->src[k].reg];
	if (e > E_I8)
		pthread_once(&once, build_tables);
	for (unsigned r = 0; blgp && r < n && r < 8; r++)
		for (unsigned l = 0; l < LANES; l++)
			moved[r][l] = v[r][b_lane(blgp, l)];
	v = blgp ? moved : v;
	widen(x->v, v, s, e, w->group->launch->object->chip->fp8_fnuz);
	x->exact = exact(v, n, x->v, s, e);
}

void mfma_keep(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s, int k, unsigned slot, uint64_t key)
{
	struct sim_operands *o = w->group->operands;
	mfma_widen(&o->operand[k][slot], w, in, s, k);
	o->exact[k][slot] = o->operand[k][slot].exact;
	sim_keep(w->group, (unsigned)k * MFMA_KEPT + slot, key);
}
