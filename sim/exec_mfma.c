/* exec_mfma.c -- matrix instructions.
 *
 * In: A, B and C in registers.  Out: D.  Method: A and B are widened into arrays [block][k][row or column], whose rows are
 * contiguous in registers, so widening is vector code; each row of D, contiguous in half or a quarter of a register, is
 * then accumulated over k in ascending order with columns innermost (num_dot_f32's order and rounding, one row at a
 * time).  EXEC does not matter.
 *
 * Layouts (AMD's matrix instruction calculator, CDNA3 and CDNA4 ISA guides).  M = N = 4, 16 or 32.  With one block, lane
 * l holds of A row l % M, of B column l % M, and k = kpl * (l / M) + j in its element j, kpl elements a lane; with several
 * blocks the lanes l / M are the blocks.  fp8 operands of the f8f6f4 forms hold k = 16 * (l / M) + j in bytes 0-15 and
 * K/2 more in bytes 16-31; fp6 and fp4 are contiguous.  D: 32 wide: register r holds row 8*(r/4) + 4*(l/32) + r%4; 16
 * wide: row 4*(l/16) + r; 4 wide: row r; f64: row 4*r + l/16.  Scales: lane l holds the scale of row l % M for k from
 * 32 * (l / M) on, in the byte chosen by op_sel. */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "convert.h"
#include "exec.h"

#include <math.h>
#include <pthread.h>

enum element { E_F32, E_XF32, E_F16, E_BF16, E_I8, E_FP8, E_BF8, E_FP6, E_BF6, E_FP4, E_F64 };
static const uint8_t bits_of[] = {32, 32, 16, 16, 8, 8, 8, 6, 6, 4, 64};

struct shape { uint8_t m, k, blocks, a, b; bool split; }; /* split: the fp8 layout of f8f6f4 */

static bool shape_of(const struct sim_inst *in, struct shape *s)
{
#define SHAPE(M, K, B, A_, B_) *s = (struct shape){M, K, B, A_, B_, false}; return true
	switch (in->op) {
	case OP_v_mfma_f32_32x32x1_2b_f32: SHAPE(32, 1, 2, E_F32, E_F32);
	case OP_v_mfma_f32_16x16x1_4b_f32: SHAPE(16, 1, 4, E_F32, E_F32);
	case OP_v_mfma_f32_4x4x1_16b_f32: SHAPE(4, 1, 16, E_F32, E_F32);
	case OP_v_mfma_f32_32x32x2_f32: SHAPE(32, 2, 1, E_F32, E_F32);
	case OP_v_mfma_f32_16x16x4_f32: SHAPE(16, 4, 1, E_F32, E_F32);
	case OP_v_mfma_f32_16x16x8_xf32: SHAPE(16, 8, 1, E_XF32, E_XF32);
	case OP_v_mfma_f32_32x32x4_xf32: SHAPE(32, 4, 1, E_XF32, E_XF32);
	case OP_v_mfma_f32_32x32x4_2b_f16: SHAPE(32, 4, 2, E_F16, E_F16);
	case OP_v_mfma_f32_16x16x4_4b_f16: SHAPE(16, 4, 4, E_F16, E_F16);
	case OP_v_mfma_f32_4x4x4_16b_f16: SHAPE(4, 4, 16, E_F16, E_F16);
	case OP_v_mfma_f32_32x32x8_f16: SHAPE(32, 8, 1, E_F16, E_F16);
	case OP_v_mfma_f32_16x16x16_f16: SHAPE(16, 16, 1, E_F16, E_F16);
	case OP_v_mfma_f32_32x32x16_f16: SHAPE(32, 16, 1, E_F16, E_F16);
	case OP_v_mfma_f32_16x16x32_f16: SHAPE(16, 32, 1, E_F16, E_F16);
	case OP_v_mfma_f32_32x32x4_2b_bf16: SHAPE(32, 4, 2, E_BF16, E_BF16);
	case OP_v_mfma_f32_16x16x4_4b_bf16: SHAPE(16, 4, 4, E_BF16, E_BF16);
	case OP_v_mfma_f32_4x4x4_16b_bf16: SHAPE(4, 4, 16, E_BF16, E_BF16);
	case OP_v_mfma_f32_32x32x8_bf16: SHAPE(32, 8, 1, E_BF16, E_BF16);
	case OP_v_mfma_f32_16x16x16_bf16: SHAPE(16, 16, 1, E_BF16, E_BF16);
	case OP_v_mfma_f32_32x32x16_bf16: SHAPE(32, 16, 1, E_BF16, E_BF16);
	case OP_v_mfma_f32_16x16x32_bf16: SHAPE(16, 32, 1, E_BF16, E_BF16);
	case OP_v_mfma_i32_32x32x4_2b_i8: SHAPE(32, 4, 2, E_I8, E_I8);
	case OP_v_mfma_i32_16x16x4_4b_i8: SHAPE(16, 4, 4, E_I8, E_I8);
	case OP_v_mfma_i32_4x4x4_16b_i8: SHAPE(4, 4, 16, E_I8, E_I8);
	case OP_v_mfma_i32_32x32x16_i8: SHAPE(32, 16, 1, E_I8, E_I8);
	case OP_v_mfma_i32_16x16x32_i8: SHAPE(16, 32, 1, E_I8, E_I8);
	case OP_v_mfma_i32_32x32x32_i8: SHAPE(32, 32, 1, E_I8, E_I8);
	case OP_v_mfma_i32_16x16x64_i8: SHAPE(16, 64, 1, E_I8, E_I8);
	case OP_v_mfma_f32_16x16x32_bf8_bf8: SHAPE(16, 32, 1, E_BF8, E_BF8);
	case OP_v_mfma_f32_16x16x32_bf8_fp8: SHAPE(16, 32, 1, E_BF8, E_FP8);
	case OP_v_mfma_f32_16x16x32_fp8_bf8: SHAPE(16, 32, 1, E_FP8, E_BF8);
	case OP_v_mfma_f32_16x16x32_fp8_fp8: SHAPE(16, 32, 1, E_FP8, E_FP8);
	case OP_v_mfma_f32_32x32x16_bf8_bf8: SHAPE(32, 16, 1, E_BF8, E_BF8);
	case OP_v_mfma_f32_32x32x16_bf8_fp8: SHAPE(32, 16, 1, E_BF8, E_FP8);
	case OP_v_mfma_f32_32x32x16_fp8_bf8: SHAPE(32, 16, 1, E_FP8, E_BF8);
	case OP_v_mfma_f32_32x32x16_fp8_fp8: SHAPE(32, 16, 1, E_FP8, E_FP8);
	case OP_v_mfma_f64_16x16x4_f64: SHAPE(16, 4, 1, E_F64, E_F64);
	case OP_v_mfma_f64_4x4x4_4b_f64: SHAPE(4, 4, 4, E_F64, E_F64);
	case OP_v_mfma_f32_16x16x128_f8f6f4: case OP_v_mfma_f32_32x32x64_f8f6f4: {
		static const uint8_t format[] = {E_FP8, E_BF8, E_FP6, E_BF6, E_FP4};
		bool wide = in->op == OP_v_mfma_f32_32x32x64_f8f6f4;
		if (in->cbsz > 4 || in->blgp > 4)
			return false;
		*s = (struct shape){wide ? 32 : 16, wide ? 64 : 128, 1, format[in->cbsz], format[in->blgp], true};
		return true;
	}
	default: return false;
	}
#undef SHAPE
}

/* ---- widening ---- */

static float table[2][10][256]; /* [fnuz][element] */
static pthread_once_t once = PTHREAD_ONCE_INIT;

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

static inline __attribute__((always_inline)) void widen_row(float *out, uint32_t (*v)[LANES], enum element e, unsigned bit, unsigned lane,
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
	case E_BF16:
		for (unsigned i = 0; i < m; i++)
			out[i] = num_float(src[i] >> shift << 16);
		return;
	case E_F16:
		for (unsigned i = 0; i < m; i++)
			out[i] = sim_f16_to_f32(src[i] >> shift);
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

static inline __attribute__((always_inline)) void widen_as(float *out, uint32_t (*v)[LANES], const struct shape *s, enum element e, unsigned m,
	const float *codes)
{
	unsigned bits = bits_of[e], groups = s->blocks > 1 ? 1 : LANES / m, per_lane = s->k / groups;
	bool split = s->split && bits == 8;
	unsigned halves = split ? 2 : 1, run = split ? 16 : per_lane; /* k in order: halves, lane groups, elements of a lane */
	for (unsigned b = 0; b < s->blocks; b++)
		for (unsigned half = 0; half < halves; half++)
			for (unsigned group = 0; group < groups; group++)
				for (unsigned j = 0; j < run; j++, out += m)
					widen_row(out, v, e, (j + 16 * half) * bits, m * (s->blocks > 1 ? b : group), m, codes);
}

/* out[block][k][m]; what is usual has loops of its own. */
static SIM_LANES_FN void widen(float *out, uint32_t (*v)[LANES], const struct shape *s, enum element e, bool fnuz)
{
	const float *codes = e >= E_FP8 && e <= E_FP4 ? table[e <= E_BF8 ? fnuz : 0][e] : NULL;
	if (e == E_BF16 && s->m == 16)
		widen_as(out, v, s, E_BF16, 16, codes);
	else if (e == E_BF16 && s->m == 32)
		widen_as(out, v, s, E_BF16, 32, codes);
	else if (e == E_F16 && s->m == 16)
		widen_as(out, v, s, E_F16, 16, codes);
	else if (e == E_F16 && s->m == 32)
		widen_as(out, v, s, E_F16, 32, codes);
	else
		widen_as(out, v, s, e, s->m, codes);
}

/* ---- accumulation ---- */

/* Row i of block b of a 32-bit result: where its columns start. */
static uint32_t *row_at(uint32_t (*v)[LANES], unsigned m, unsigned block, unsigned i)
{
	if (m == 32)
		return &v[16 * block + 4 * (i / 8) + i % 4][32 * (i / 4 % 2)];
	if (m == 16)
		return &v[4 * block + i % 4][16 * (i / 4)];
	return &v[i][4 * block];
}

/* Four rows of a block (of the eight there is room for) at once, in columns of 16 as two vectors (of 4 where the block is 4 wide): eight sums that do not wait
 * for each other.  Rows of C and D start at c[r] and d[r]; a is A from the first row on. */
struct rows { uint32_t *d[8]; const uint32_t *c[8]; };
typedef float vec8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float vec4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t wide8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint32_t wide4 __attribute__((vector_size(16), aligned(4), may_alias));

#define AT(V, p, n) (*(V *)((p) + (n)))
#define COLUMNS_16(V, T, n) do { \
	V s0 = AT(const V, rows->c[0], n), s1 = AT(const V, rows->c[1], n), s2 = AT(const V, rows->c[2], n), s3 = AT(const V, rows->c[3], n); \
	V t0 = AT(const V, rows->c[0], n + 8), t1 = AT(const V, rows->c[1], n + 8), t2 = AT(const V, rows->c[2], n + 8), t3 = AT(const V, rows->c[3], n + 8); \
	for (unsigned k = 0; k < kn; k++) { \
		const T *x = a + k * m; \
		V y = AT(const V, b + k * m, n), z = AT(const V, b + k * m, n + 8); \
		s0 += x[0] * y, s1 += x[1] * y, s2 += x[2] * y, s3 += x[3] * y; \
		t0 += x[0] * z, t1 += x[1] * z, t2 += x[2] * z, t3 += x[3] * z; \
	} \
	AT(V, rows->d[0], n) = s0, AT(V, rows->d[1], n) = s1, AT(V, rows->d[2], n) = s2, AT(V, rows->d[3], n) = s3; \
	AT(V, rows->d[0], n + 8) = t0, AT(V, rows->d[1], n + 8) = t1, AT(V, rows->d[2], n + 8) = t2, AT(V, rows->d[3], n + 8) = t3; } while (0)
#define COLUMNS_4(V, T) do { \
	V s[4]; \
	for (unsigned r = 0; r < 4; r++) s[r] = AT(const V, rows->c[r], 0); \
	for (unsigned k = 0; k < kn; k++) \
		for (unsigned r = 0; r < 4; r++) s[r] += a[k * 4 + r] * AT(const V, b, k * 4); \
	for (unsigned r = 0; r < 4; r++) AT(V, rows->d[r], 0) = s[r]; } while (0)
#define ACCUMULATE(V8, V4, T) do { if (m == 4) COLUMNS_4(V4, T); else for (unsigned n = 0; n < m; n += 16) COLUMNS_16(V8, T, n); } while (0)

static SIM_LANES_FN void rows_f32(const struct rows *rows, const sim_f32 *a, const sim_f32 *b, unsigned kn, unsigned m)
{
	ACCUMULATE(vec8, vec4, sim_f32);
}

#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
/* The same result for operands whose products f32 holds: multiply and add in one instruction where the host has it. */
static SIM_LANES_FN void rows_f32_exact(const struct rows *rows, const sim_f32 *a, const sim_f32 *b, unsigned kn, unsigned m)
{
	ACCUMULATE(vec8, vec4, sim_f32);
}

/* Eight rows of 16 columns, a vector of AVX-512 each: left to four rows of two vectors, hosts that have it do half of what they can. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));
#define EIGHT _Pragma("GCC unroll 8") for (unsigned r = 0; r < 8; r++)

static __attribute__((target("arch=x86-64-v4"))) void eight_rows_f32_exact(const struct rows *rows, const sim_f32 *a, const sim_f32 *b,
	unsigned kn, unsigned m)
{
	for (unsigned n = 0; n < m; n += 16) {
		vec16 s[8];
		EIGHT s[r] = AT(const vec16, rows->c[r], n);
		for (unsigned k = 0; k < kn; k++)
			EIGHT s[r] += a[k * m + r] * AT(const vec16, b + k * m, n);
		EIGHT AT(vec16, rows->d[r], n) = s[r];
	}
}

static bool takes_eight(unsigned m)
{
	return m >= 16 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("fma");
}
#else
#define eight_rows_f32_exact rows_f32_exact
static bool takes_eight(unsigned m) { return m > 32; } /* never */
#endif
#pragma GCC pop_options

static SIM_LANES_FN void rows_i32(const struct rows *rows, const sim_w32 *a, const sim_w32 *b, unsigned kn, unsigned m)
{
	ACCUMULATE(wide8, wide4, sim_w32);
}

typedef uint16_t sim_w16 __attribute__((may_alias));

/* Whether the products of operand x with any other that passes are exact and finite in f32: for bf16, magnitudes 0 or between
 * 2^-63 and 2^63; for f16 all but infinities and NaN; for what is widened otherwise, 12 bits of mantissa as well. */
static SIM_LANES_FN bool exact16(const sim_w16 *x, unsigned n, uint16_t least, uint16_t most)
{
	uint16_t bad = 0;
	for (unsigned i = 0; i < n; i++) {
		uint16_t mag = x[i] & 0x7fff;
		bad |= (uint16_t)((mag != 0) & ((uint16_t)(mag - least) > (uint16_t)(most - least)));
	}
	return !bad;
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

static bool exact(uint32_t (*v)[LANES], const float *x, const struct shape *s, enum element e)
{
	unsigned n = (unsigned)s->m * s->k * s->blocks; /* of 16 bits: whole registers */
	if (e == E_BF16)
		return exact16((const sim_w16 *)v[0], n, 0x2000, 0x5f00);
	return e == E_F16 ? exact16((const sim_w16 *)v[0], n, 1, 0x7bff) : exact32(x, n);
}

/* ---- scales ---- */

static void scale_codes(struct sim_wave *w, const struct sim_inst *in, const struct sim_src *src, unsigned sel, uint8_t out[LANES])
{
	for (int i = 0; i < LANES; i++) {
		uint32_t v = src->kind == SRC_VGPR ? w->vgpr[src->reg][i] : (uint32_t)sim_scalar(w, src);
		out[i] = (uint8_t)(v >> (8 * sel));
	}
	(void)in;
}

/* Multiplies x[k][m] by its scales where that is exact in f32; false where a scale is too far from 1. */
static bool scale_in_place(float *x, const struct shape *s, const uint8_t code[LANES])
{
	for (int i = 0; i < LANES; i++)
		if (code[i] < 127 - 40 || code[i] > 127 + 40)
			return false;
	for (unsigned k = 0; k < s->k; k++)
		for (unsigned m = 0; m < s->m; m++)
			x[k * s->m + m] *= num_float((uint32_t)code[m + s->m * (k / 32)] << 23);
	return true;
}

/* The general case: each product in f64, exact, rounded to f32 once. */
static void scaled_slowly(uint32_t (*d)[LANES], float *acc, const struct shape *s, const float *a, const float *b,
	const uint8_t ca[LANES], const uint8_t cb[LANES])
{
	for (unsigned i = 0; i < s->m; i++) {
		for (unsigned n = 0; n < s->m; n++)
			for (unsigned k = 0; k < s->k; k++) {
				unsigned ea = ca[i + s->m * (k / 32)], eb = cb[n + s->m * (k / 32)];
				double p = (double)a[k * s->m + i] * b[k * s->m + n];
				p = ea == 255 || eb == 255 ? NAN : ldexp(p, (int)(ea + eb) - 254);
				acc[i * s->m + n] += (float)p;
			}
		memcpy(row_at(d, s->m, 0, i), &acc[i * s->m], s->m * 4u);
	}
}

/* ---- f64 ---- */

static double pair(uint32_t (*v)[LANES], unsigned reg, unsigned lane)
{
	uint64_t u = v[reg][lane] | (uint64_t)v[reg + 1][lane] << 32;
	double d;
	memcpy(&d, &u, 8);
	return d;
}

/* blgp negates A, B and C.  16x16x4: one row in four of each lane group; 4x4x4: blocks in lanes 4 to 15 of each group. */
static void mfma_f64(struct sim_wave *w, const struct sim_inst *in, const struct shape *s)
{
	uint32_t (*A)[LANES] = &w->vgpr[in->src[0].reg], (*B)[LANES] = &w->vgpr[in->src[1].reg], (*D)[LANES] = &w->vgpr[in->vdst];
	uint64_t out[4][LANES];
	unsigned regs = s->m == 16 ? 4 : 1;
	double constant;
	memcpy(&constant, &in->src[2].value, 8);
	for (unsigned r = 0; r < regs; r++)
		for (unsigned l = 0; l < LANES; l++) {
			unsigned col = s->m == 16 ? l % 16 : l % 4, block = s->m == 16 ? 0 : l / 4 % 4;
			unsigned row = s->m == 16 ? 4 * r + l / 16 : l / 16;
			double acc = in->src[2].kind == SRC_CONST ? constant : pair(&w->vgpr[in->src[2].reg], 2 * r, l);
			acc = in->blgp & 4 ? -acc : acc;
			for (unsigned k = 0; k < 4; k++) {
				unsigned base = s->m == 16 ? 16 * k : 16 * k + 4 * block;
				double x = pair(A, 0, base + row), y = pair(B, 0, base + col);
				acc = fma(in->blgp & 1 ? -x : x, in->blgp & 2 ? -y : y, acc);
			}
			memcpy(&out[r][l], &acc, 8);
		}
	for (unsigned r = 0; r < regs; r++)
		for (unsigned l = 0; l < LANES; l++) {
			D[2 * r][l] = (uint32_t)out[r][l];
			D[2 * r + 1][l] = (uint32_t)(out[r][l] >> 32);
		}
}

/* ---- the instruction ---- */

/* blgp of the older forms: B's lanes broadcast or rotated in groups. */
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

static bool registers_exist(struct sim_wave *w, const struct sim_inst *in, const struct shape *s)
{
	unsigned groups = s->blocks > 1 ? 1 : LANES / s->m;
	unsigned ra = s->k / groups * bits_of[s->a] / 32, rb = s->k / groups * bits_of[s->b] / 32;
	if (s->a == E_F64)
		ra = rb = 2;
	bool c_ok = in->src[2].kind != SRC_VGPR || in->src[2].reg + (uint32_t)in->n <= w->nvgpr;
	if (in->src[0].reg + ra <= w->nvgpr && in->src[1].reg + rb <= w->nvgpr && c_ok && in->vdst + (uint32_t)in->n <= w->nvgpr)
		return true;
	sim_fail(w, in, SIM_EINST, -1, "a register is beyond the %u allocated", w->nvgpr);
	return false;
}

void exec_mfma(struct sim_wave *w, const struct sim_inst *in)
{
	struct shape s;
	float a[32 * 128], b[32 * 128];
	uint32_t splat[32];
	uint8_t ca[LANES], cb[LANES];
	bool fnuz = w->group->launch->object->chip->fp8_fnuz;
	if (!shape_of(in, &s) || in->src[0].kind != SRC_VGPR || in->src[1].kind != SRC_VGPR ||
	    (in->src[2].kind != SRC_VGPR && in->src[2].kind != SRC_CONST) || (in->scaled && !s.split) ||
	    (!s.split && s.a != E_F64 && in->cbsz > 4)) {
		sim_unknown(w, in);
		return;
	}
	if (!registers_exist(w, in, &s))
		return;
	w->group->stats.mfma_flops += UINT64_C(2) * s.m * s.m * s.k * s.blocks;
	if (s.a == E_F64) {
		mfma_f64(w, in, &s);
		return;
	}
	pthread_once(&once, build_tables);
	widen(a, &w->vgpr[in->src[0].reg], &s, s.a, fnuz);
	if (!s.split && in->blgp) {
		uint32_t moved[8][LANES];
		unsigned regs = s.k / (s.blocks > 1 ? 1u : LANES / s.m) * bits_of[s.b] / 32;
		for (unsigned r = 0; r < regs && r < 8; r++)
			for (unsigned l = 0; l < LANES; l++)
				moved[r][l] = w->vgpr[in->src[1].reg + r][b_lane(in->blgp, l)];
		widen(b, moved, &s, s.b, fnuz);
	} else {
		widen(b, &w->vgpr[in->src[1].reg], &s, s.b, fnuz);
	}
	bool constant = in->src[2].kind == SRC_CONST;
	for (int i = 0; i < 32; i++)
		splat[i] = (uint32_t)in->src[2].value;
	uint32_t (*C)[LANES] = constant ? NULL : &w->vgpr[in->src[2].reg], (*D)[LANES] = &w->vgpr[in->vdst];
	uint32_t before[32][LANES]; /* C is read whole before D is written; they may overlap in part */
	if (!constant && in->src[2].reg != in->vdst && in->src[2].reg < in->vdst + (unsigned)in->n && in->vdst < in->src[2].reg + (unsigned)in->n) {
		memcpy(before, C, sizeof *before * (unsigned)in->n);
		C = before;
	}
	if (in->scaled) {
		scale_codes(w, in, &in->src[3], in->scale_sel[0], ca);
		scale_codes(w, in, &in->scale_b, in->scale_sel[1], cb);
		float keep[32 * 128];
		memcpy(keep, a, sizeof(float) * s.m * s.k);
		if (!scale_in_place(a, &s, ca) || !scale_in_place(b, &s, cb)) {
			float acc[32 * 32];
			for (unsigned i = 0; i < s.m; i++)
				memcpy(&acc[i * s.m], constant ? splat : row_at(C, s.m, 0, i), s.m * 4u);
			scaled_slowly(D, acc, &s, keep, b, ca, cb);
			return;
		}
	}
	bool fused = s.a != E_I8 && exact(&w->vgpr[in->src[0].reg], a, &s, s.a) && exact(&w->vgpr[in->src[1].reg], b, &s, s.b);
	unsigned step = fused && takes_eight(s.m) ? 8 : 4;
	for (unsigned block = 0; block < s.blocks; block++) {
		unsigned from = block; /* cbsz: blocks in groups of 2^cbsz share A's block abid */
		if (!s.split && in->cbsz)
			from = (block & ~((1u << in->cbsz) - 1)) | (in->abid & ((1u << in->cbsz) - 1));
		const float *x = a + from * s.k * s.m, *y = b + block * s.k * s.m;
		for (unsigned i = 0; i < s.m; i += step) {
			struct rows rows;
			for (unsigned r = 0; r < step; r++) {
				rows.d[r] = row_at(D, s.m, block, i + r);
				rows.c[r] = constant ? splat : row_at(C, s.m, block, i + r);
			}
			if (s.a == E_I8)
				rows_i32(&rows, (const sim_w32 *)x + i, (const sim_w32 *)y, s.k, s.m);
			else
				(step == 8 ? eight_rows_f32_exact : fused ? rows_f32_exact : rows_f32)(&rows, x + i, y, s.k, s.m);
		}
	}
}

void exec_smfmac(struct sim_wave *w, const struct sim_inst *in)
{
	sim_unknown(w, in);
}
