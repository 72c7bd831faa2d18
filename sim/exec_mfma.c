/* exec_mfma.c -- matrix instructions.
 *
 * In: A, B and C in registers.  Out: D.  Method: A and B are widened into arrays [block][k][row or column]
 * (mfma_operand.c); each row of D, contiguous in half or a quarter of a register, is then accumulated over k in ascending
 * order with columns innermost (num_dot_f32's order and rounding, several rows at a time).  EXEC does not matter.
 *
 * Layouts (AMD's matrix instruction calculator, CDNA3 and CDNA4 ISA guides).  M = N = 4, 16 or 32.  With one block, lane
 * l holds of A row l % M, of B column l % M, and k = kpl * (l / M) + j in its element j, kpl elements a lane; with several
 * blocks the lanes l / M are the blocks.  fp8 operands of the f8f6f4 forms hold k = 16 * (l / M) + j in bytes 0-15 and
 * K/2 more in bytes 16-31; fp6 and fp4 are contiguous.  D: 32 wide: register r holds row 8*(r/4) + 4*(l/32) + r%4; 16
 * wide: row 4*(l/16) + r; 4 wide: row r; f64: row 4*r + l/16.  Scales: lane l holds the scale of row l % M for k from
 * 32 * (l / M) on, in the byte chosen by op_sel. */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "convert.h"
#include "mfma.h"

#include <math.h>

#define REGS(M, K, B, E) ((M) * (K) * (B) * MFMA_BITS(E) / (32 * LANES))
#define SHAPE(M, K, B, A_, B_) {M, K, B, A_, B_, false, {REGS(M, K, B, A_), REGS(M, K, B, B_)}}
static const struct mfma_shape shapes[OP_COUNT] = {
	[OP_v_mfma_f32_32x32x1_2b_f32] = SHAPE(32, 1, 2, E_F32, E_F32),
	[OP_v_mfma_f32_16x16x1_4b_f32] = SHAPE(16, 1, 4, E_F32, E_F32),
	[OP_v_mfma_f32_4x4x1_16b_f32] = SHAPE(4, 1, 16, E_F32, E_F32),
	[OP_v_mfma_f32_32x32x2_f32] = SHAPE(32, 2, 1, E_F32, E_F32),
	[OP_v_mfma_f32_16x16x4_f32] = SHAPE(16, 4, 1, E_F32, E_F32),
	[OP_v_mfma_f32_16x16x8_xf32] = SHAPE(16, 8, 1, E_XF32, E_XF32),
	[OP_v_mfma_f32_32x32x4_xf32] = SHAPE(32, 4, 1, E_XF32, E_XF32),
	[OP_v_mfma_f32_32x32x4_2b_f16] = SHAPE(32, 4, 2, E_F16, E_F16),
	[OP_v_mfma_f32_16x16x4_4b_f16] = SHAPE(16, 4, 4, E_F16, E_F16),
	[OP_v_mfma_f32_4x4x4_16b_f16] = SHAPE(4, 4, 16, E_F16, E_F16),
	[OP_v_mfma_f32_32x32x8_f16] = SHAPE(32, 8, 1, E_F16, E_F16),
	[OP_v_mfma_f32_16x16x16_f16] = SHAPE(16, 16, 1, E_F16, E_F16),
	[OP_v_mfma_f32_32x32x16_f16] = SHAPE(32, 16, 1, E_F16, E_F16),
	[OP_v_mfma_f32_16x16x32_f16] = SHAPE(16, 32, 1, E_F16, E_F16),
	[OP_v_mfma_f32_32x32x4_2b_bf16] = SHAPE(32, 4, 2, E_BF16, E_BF16),
	[OP_v_mfma_f32_16x16x4_4b_bf16] = SHAPE(16, 4, 4, E_BF16, E_BF16),
	[OP_v_mfma_f32_4x4x4_16b_bf16] = SHAPE(4, 4, 16, E_BF16, E_BF16),
	[OP_v_mfma_f32_32x32x8_bf16] = SHAPE(32, 8, 1, E_BF16, E_BF16),
	[OP_v_mfma_f32_16x16x16_bf16] = SHAPE(16, 16, 1, E_BF16, E_BF16),
	[OP_v_mfma_f32_32x32x16_bf16] = SHAPE(32, 16, 1, E_BF16, E_BF16),
	[OP_v_mfma_f32_16x16x32_bf16] = SHAPE(16, 32, 1, E_BF16, E_BF16),
	[OP_v_mfma_i32_32x32x4_2b_i8] = SHAPE(32, 4, 2, E_I8, E_I8),
	[OP_v_mfma_i32_16x16x4_4b_i8] = SHAPE(16, 4, 4, E_I8, E_I8),
	[OP_v_mfma_i32_4x4x4_16b_i8] = SHAPE(4, 4, 16, E_I8, E_I8),
	[OP_v_mfma_i32_32x32x16_i8] = SHAPE(32, 16, 1, E_I8, E_I8),
	[OP_v_mfma_i32_16x16x32_i8] = SHAPE(16, 32, 1, E_I8, E_I8),
	[OP_v_mfma_i32_32x32x32_i8] = SHAPE(32, 32, 1, E_I8, E_I8),
	[OP_v_mfma_i32_16x16x64_i8] = SHAPE(16, 64, 1, E_I8, E_I8),
	[OP_v_mfma_f32_16x16x32_bf8_bf8] = SHAPE(16, 32, 1, E_BF8, E_BF8),
	[OP_v_mfma_f32_16x16x32_bf8_fp8] = SHAPE(16, 32, 1, E_BF8, E_FP8),
	[OP_v_mfma_f32_16x16x32_fp8_bf8] = SHAPE(16, 32, 1, E_FP8, E_BF8),
	[OP_v_mfma_f32_16x16x32_fp8_fp8] = SHAPE(16, 32, 1, E_FP8, E_FP8),
	[OP_v_mfma_f32_32x32x16_bf8_bf8] = SHAPE(32, 16, 1, E_BF8, E_BF8),
	[OP_v_mfma_f32_32x32x16_bf8_fp8] = SHAPE(32, 16, 1, E_BF8, E_FP8),
	[OP_v_mfma_f32_32x32x16_fp8_bf8] = SHAPE(32, 16, 1, E_FP8, E_BF8),
	[OP_v_mfma_f32_32x32x16_fp8_fp8] = SHAPE(32, 16, 1, E_FP8, E_FP8),
	[OP_v_mfma_f64_16x16x4_f64] = SHAPE(16, 4, 1, E_F64, E_F64),
	[OP_v_mfma_f64_4x4x4_4b_f64] = SHAPE(4, 4, 4, E_F64, E_F64),
};
#undef SHAPE
#undef REGS

/* NULL where there is none.  The forms with formats have 2048 elements of either operand, 32 a lane; theirs is made in `own`. */
static inline const struct mfma_shape *shape_of(const struct sim_inst *in, struct mfma_shape *own)
{
	static const uint8_t format[] = {E_FP8, E_BF8, E_FP6, E_BF6, E_FP4};
	bool wide = in->op == OP_v_mfma_f32_32x32x64_f8f6f4;
	if (!wide && in->op != OP_v_mfma_f32_16x16x128_f8f6f4)
		return shapes[in->op].m ? &shapes[in->op] : NULL;
	if (in->cbsz > 4 || in->blgp > 4)
		return NULL;
	*own = (struct mfma_shape){wide ? 32 : 16, wide ? 64 : 128, 1, format[in->cbsz], format[in->blgp], true, {0, 0}};
	own->registers[0] = mfma_bits(own->a);
	own->registers[1] = mfma_bits(own->b);
	return own;
}

/* ---- accumulation ---- */

/* Row i of block b of a 32-bit result: where its columns start. */
static inline __attribute__((always_inline)) uint32_t *row_at(uint32_t (*v)[LANES], unsigned m, unsigned block, unsigned i)
{
	if (m == 32)
		return &v[16 * block + 4 * (i / 8) + i % 4][32 * (i / 4 % 2)];
	if (m == 16)
		return &v[4 * block + i % 4][16 * (i / 4)];
	return &v[i][4 * block];
}

/* Four rows of a block at once, in columns of 16 as two vectors (of 4 where the block is 4 wide): eight sums that do not wait
 * for each other.  Rows of C and D start at c[r] and d[r]; a is A from the first row on. */
struct rows { uint32_t *d[4]; const uint32_t *c[4]; };
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

/* A block of 16 or 32, 16 rows of 16 columns at a time, a vector of AVX-512 each: so many sums that none waits for the one
 * before, and two loads for 32 products.  c NULL: every row of C is `splat`. */
#ifdef SIM_AVX512
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));
#define SIXTEEN _Pragma("GCC unroll 16") for (unsigned r = 0; r < 16; r++)

static inline SIM_AVX512 __attribute__((always_inline)) void tiles_of(uint32_t (*d)[LANES], uint32_t (*c)[LANES], const uint32_t *splat,
	const float *a, const float *b, unsigned kn, unsigned m)
{
	for (unsigned i = 0; i < m; i += 16)
		for (unsigned n = 0; n < m; n += 16) {
			vec16 s[16];
			SIXTEEN s[r] = AT(const vec16, c ? row_at(c, m, 0, i + r) : splat, c ? n : 0);
			for (unsigned k = 0; k < kn; k++) {
				vec16 y = AT(const vec16, b + k * m, n);
				SIXTEEN s[r] += a[k * m + i + r] * y;
			}
			SIXTEEN AT(vec16, row_at(d, m, 0, i + r), n) = s[r];
		}
}

static SIM_AVX512 void tiles_f32_exact(uint32_t (*d)[LANES], uint32_t (*c)[LANES], const uint32_t *splat, const float *a, const float *b,
	unsigned kn, unsigned m)
{
	if (m == 16)
		tiles_of(d, c, splat, a, b, kn, 16);
	else
		tiles_of(d, c, splat, a, b, kn, 32);
}

/* The same for one block of 16 with C in registers; kn is a multiple of 4. */
static SIM_AVX512 void tile_16(uint32_t (*d)[LANES], uint32_t (*c)[LANES], const float *a, const float *b, unsigned kn)
{
	vec16 s[16];
	SIXTEEN s[r] = AT(const vec16, row_at(c, 16, 0, r), 0);
	for (const float *end = b + 16 * kn; b < end; a += 64, b += 64)
		_Pragma("GCC unroll 4") for (unsigned k = 0; k < 4; k++) {
			vec16 y = AT(const vec16, b, 16 * k);
			SIXTEEN s[r] += a[16 * k + r] * y;
		}
	SIXTEEN AT(vec16, row_at(d, 16, 0, r), 0) = s[r];
}
#endif
#pragma GCC pop_options

static SIM_LANES_FN void rows_i32(const struct rows *rows, const sim_w32 *a, const sim_w32 *b, unsigned kn, unsigned m)
{
	ACCUMULATE(wide8, wide4, sim_w32);
}

/* ---- scales ---- */

static void scale_codes(struct sim_wave *w, const struct sim_src *src, unsigned sel, uint8_t out[LANES])
{
	for (int i = 0; i < LANES; i++) {
		uint32_t v = src->kind == SRC_VGPR ? w->vgpr[src->reg][i] : (uint32_t)sim_scalar(w, src);
		out[i] = (uint8_t)(v >> (8 * sel));
	}
}

/* Multiplies x[k][m] by its scales where that is exact in f32; false where a scale is too far from 1. */
static bool scale_in_place(float *x, const struct mfma_shape *s, const uint8_t code[LANES])
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
static void scaled_slowly(uint32_t (*d)[LANES], float *acc, const struct mfma_shape *s, const float *a, const float *b,
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
static void mfma_f64(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s)
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

static bool registers_exist(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s)
{
	bool c_ok = in->src[2].kind != SRC_VGPR || in->src[2].reg + (uint32_t)in->n <= w->nvgpr;
	if (in->src[0].reg + (uint32_t)s->registers[0] <= w->nvgpr && in->src[1].reg + (uint32_t)s->registers[1] <= w->nvgpr && c_ok &&
	    in->vdst + (uint32_t)in->n <= w->nvgpr)
		return true;
	sim_fail(w, in, SIM_EINST, -1, "a register is beyond the %u allocated", w->nvgpr);
	return false;
}

/* D = A * B + C of one block, from widened operands; C NULL: `constant` everywhere. */
static void block_of(uint32_t (*D)[LANES], uint32_t (*C)[LANES], uint32_t constant, const struct mfma_shape *s, unsigned block, const float *a,
	const float *b, bool fused)
{
	uint32_t splat[32];
	if (!C)
		for (int i = 0; i < 32; i++)
			splat[i] = constant;
#ifdef SIM_AVX512
	if (fused && s->m >= 16 && sim_avx512()) {
		unsigned first = block * s->m * s->m / LANES;
		tiles_f32_exact(D + first, C ? C + first : NULL, splat, a, b, s->k, s->m);
		return;
	}
#endif
	for (unsigned i = 0; i < s->m; i += 4) {
		struct rows rows;
		for (unsigned r = 0; r < 4; r++) {
			rows.d[r] = row_at(D, s->m, block, i + r);
			rows.c[r] = C ? row_at(C, s->m, block, i + r) : splat;
		}
		if (s->a == E_I8)
			rows_i32(&rows, (const sim_w32 *)a + i, (const sim_w32 *)b, s->k, s->m);
		else
			(fused ? rows_f32_exact : rows_f32)(&rows, a + i, b, s->k, s->m);
	}
}

static __attribute__((noinline)) void scaled(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s, uint32_t (*D)[LANES],
	uint32_t (*C)[LANES], const struct mfma_operand *x, const struct mfma_operand *y)
{
	uint8_t ca[LANES], cb[LANES];
	float a[32 * 128], b[32 * 128];
	unsigned n = (unsigned)s->m * s->k;
	scale_codes(w, &in->src[3], in->scale_sel[0], ca);
	scale_codes(w, &in->scale_b, in->scale_sel[1], cb);
	memcpy(a, x->v, n * sizeof *a);
	memcpy(b, y->v, n * sizeof *b);
	if (scale_in_place(a, s, ca) && scale_in_place(b, s, cb)) {
		block_of(D, C, (uint32_t)in->src[2].value, s, 0, a, b, mfma_exact(a, n) && mfma_exact(b, n));
		return;
	}
	float acc[32 * 32];
	for (unsigned i = 0; i < s->m * (unsigned)s->m; i++)
		acc[i] = num_float(C ? row_at(C, s->m, 0, i / s->m)[i % s->m] : (uint32_t)in->src[2].value);
	scaled_slowly(D, acc, s, x->v, y->v, ca, cb);
}

static void multiply(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s, uint32_t (*C)[LANES], const struct mfma_operand *x,
	const struct mfma_operand *y)
{
	uint32_t (*D)[LANES] = &w->vgpr[in->vdst];
	sim_overwritten(w, in->vdst, in->n);
	if (in->scaled) {
		scaled(w, in, s, D, C, x, y);
		return;
	}
	for (unsigned block = 0; block < s->blocks; block++) {
		unsigned from = block; /* cbsz: blocks in groups of 2^cbsz share A's block abid */
		if (!s->split)
			from = (block & ~((1u << in->cbsz) - 1)) | in->abid;
		block_of(D, C, (uint32_t)in->src[2].value, s, block, x->v + from * s->k * s->m, y->v + block * s->k * s->m, x->exact && y->exact);
	}
}

static __attribute__((noinline)) void product_unkept(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s, uint32_t (*C)[LANES])
{
	struct mfma_operand x[2];
	mfma_widen(&x[0], w, in, s, 0);
	mfma_widen(&x[1], w, in, s, 1);
	multiply(w, in, s, C, &x[0], &x[1]);
}

static void product(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s, uint32_t (*C)[LANES])
{
	const struct mfma_operand *x[2];
	uint16_t reg[2] = {in->src[0].reg, in->src[1].reg};
	bool exact;
	if (mfma_operands(w, in, reg, s, x, &exact))
		multiply(w, in, s, C, x[0], x[1]);
	else
		product_unkept(w, in, s, C);
}

/* Of a C that shares some of D's registers, but not as they are, a copy is read. */
static __attribute__((noinline)) void apart(struct sim_wave *w, const struct sim_inst *in, const struct mfma_shape *s)
{
	uint32_t before[32][LANES];
	memcpy(before, &w->vgpr[in->src[2].reg], sizeof *before * (unsigned)in->n);
	product(w, in, s, before);
}

/* cbsz and abid where there are blocks to choose from, but for f64; blgp there, for f32 and f64.  In f8f6f4 cbsz and blgp are
 * formats, and abid says whether there are scales. */
static inline bool takes_modifiers(const struct sim_inst *in, const struct mfma_shape *s)
{
	bool broadcasts = s->blocks > 1 && s->a != E_F64, permutes = s->blocks > 1 || s->a == E_F32 || s->a == E_F64;
	if (s->split)
		return in->abid == in->scaled;
	if (broadcasts ? 1u << in->cbsz > s->blocks || in->abid >= 1u << in->cbsz : in->cbsz || in->abid)
		return false;
	return permutes || !in->blgp;
}

static bool overlaps(unsigned a, unsigned b, unsigned n) { return a != b && a < b + n && b < a + n; }

static __attribute__((noinline)) void matrix(struct sim_wave *w, const struct sim_inst *in)
{
	struct mfma_shape own;
	const struct mfma_shape *s = shape_of(in, &own);
	const struct sim_src *c = &in->src[2];
	if (!s || in->src[0].kind != SRC_VGPR || in->src[1].kind != SRC_VGPR || (c->kind != SRC_VGPR && c->kind != SRC_CONST) ||
	    (in->scaled && !s->split) || !takes_modifiers(in, s)) {
		sim_unknown(w, in);
		return;
	}
	if (!registers_exist(w, in, s))
		return;
	w->group->stats.mfma_flops += UINT64_C(2) * s->m * s->m * s->k * s->blocks;
	if (s->a == E_F64) {
		mfma_f64(w, in, s);
		sim_overwritten(w, in->vdst, in->n);
	} else if (c->kind == SRC_VGPR && overlaps(c->reg, in->vdst, in->n)) {
		apart(w, in, s);
	} else {
		product(w, in, s, c->kind == SRC_VGPR ? &w->vgpr[c->reg] : NULL);
	}
}

/* ---- the usual case: one block of 16 added to registers, without modifiers, in f32 ---- */

#ifdef SIM_AVX512
#define USUAL sim_avx512()
#else
#define USUAL false
#endif
static unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }

void sim_mfma_decoded(struct sim_inst *in)
{
	const struct mfma_shape *s = &shapes[in->op];
	const struct sim_src *x = in->src;
	in->usual = USUAL && s->m == 16 && s->blocks == 1 && s->a != E_I8 && s->a != E_F64 && !(in->cbsz | in->abid | in->blgp | in->scaled) && x[0].kind == SRC_VGPR &&
	            x[1].kind == SRC_VGPR && x[2].kind == SRC_VGPR && !overlaps(x[2].reg, in->vdst, in->n);
	for (int k = 0; k < 3; k++)
		in->operand[k] = x[k].reg;
	in->top = (uint16_t)larger(larger(x[0].reg + s->registers[0], x[1].reg + s->registers[1]), larger(x[2].reg, in->vdst) + in->n);
}

#ifdef SIM_AVX512
/* The next instruction that is executed, where it is a matrix instruction of the usual kind, and else NULL. */
static inline const struct sim_inst *usual_next(const struct sim_inst *in)
{
	const struct sim_inst *next = in + in->len;
	return __atomic_load_n(&next->exec, __ATOMIC_ACQUIRE) == exec_mfma && next->usual ? next : NULL;
}

/* Products follow each other: those that come next are taken along, which leaves the host few instructions between them. */
static inline const struct sim_inst *usual(struct sim_wave *w, const struct sim_inst *in)
{
	struct sim_group *g = w->group;
	while (in && in->usual && in->top <= w->nvgpr) {
		const struct mfma_shape *s = &shapes[in->op];
		const struct mfma_operand *x[2];
		const struct sim_inst *next = usual_next(in);
		bool exact;
		if (next)
			__builtin_prefetch(next + next->len);
		sim_ahead_fetch(&g->ahead, 4);
		if (!mfma_operands(w, in, in->operand, s, x, &exact) || !exact)
			return in;
		g->stats.mfma_flops += UINT64_C(2) * 16 * 16 * s->k;
		sim_overwritten(w, in->vdst, in->n);
		tile_16(&w->vgpr[in->vdst], &w->vgpr[in->operand[2]], x[0]->v, x[1]->v, s->k);
		if (!next || w->executed >= w->until)
			return NULL;
		g->stats.inst[SIM_MFMA]++;
		w->executed++;
		w->pc += next->len;
		in = next;
	}
	return in;
}
#endif

void exec_mfma(struct sim_wave *w, const struct sim_inst *in)
{
#ifdef SIM_AVX512
	in = usual(w, in);
#endif
	if (in)
		matrix(w, in);
}

void exec_smfmac(struct sim_wave *w, const struct sim_inst *in)
{
	sim_unknown(w, in);
}
