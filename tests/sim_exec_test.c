/* sim_exec_test.c -- instructions of the simulated device, one at a time, against plain host arithmetic.
 *
 * Every row is an instruction text, the chips that have it, and a function that computes the 32 result dwords of 64 lanes
 * from the 58 input dwords; tests/sim/exec.s wraps the text into a kernel.  All rows of a chip are assembled into one code
 * object.  Expected values are written from the instruction set's description, independently of the simulator. */
#include "../base/num.h"
#include "../sim/sim.h"
#include "sim_build.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 59, OUT = 32, L = 64, BOTH = 3, GFX942 = 1, GFX950 = 2, ROUNDS = 3 }; /* IN: 58 registers, and a row for a second wave */
typedef uint32_t Row[L];
/* x: inputs v8.., as x[register - 8][lane]; y: results v66.., as y[register - 66][lane] */
typedef void expect_fn(const Row *x, Row *y, bool gfx950);

static float f(uint32_t u) { return num_float(u); }
static uint32_t u(float x) { return num_bits(x); }

/* ---- matrix instructions: A in v8.., B in v16.., C in v24.. (32), scales in v56, v57, D in v66.. ---- */

enum kind { K_F32, K_F16, K_BF16, K_I8, K_FP8, K_BF8, K_FP4, K_F6E2M3 };
struct mfma { const char *text; int chips, m, k, blocks; enum kind a, b; bool f8f6f4, scaled; };

#define MFMA(name, chips, m, k, blocks, a, b, ar, br, cr) \
	{name " v[66:66+" #cr "-1], v[8:8+" #ar "-1], v[16:16+" #br "-1], v[24:24+" #cr "-1]", chips, m, k, blocks, a, b, false, false}
#define MFMA1(name, m, k, blocks, cr) {name " v[66:66+" #cr "-1], v8, v16, v[24:24+" #cr "-1]", BOTH, m, k, blocks, K_F32, K_F32, false, false}
#define MFMA1I(name, m, k, blocks, cr) {name " v[66:66+" #cr "-1], v8, v16, v[24:24+" #cr "-1]", BOTH, m, k, blocks, K_I8, K_I8, false, false}

static const struct mfma mfmas[] = {
	MFMA1("v_mfma_f32_32x32x1_2b_f32", 32, 1, 2, 32),
	MFMA1("v_mfma_f32_16x16x1_4b_f32", 16, 1, 4, 16),
	MFMA1("v_mfma_f32_4x4x1_16b_f32", 4, 1, 16, 4),
	MFMA1("v_mfma_f32_32x32x2_f32", 32, 2, 1, 16),
	MFMA1("v_mfma_f32_16x16x4_f32", 16, 4, 1, 4),
	{"v_accvgpr_write_b32 a20, v8\n v_mfma_f32_16x16x4_f32 v[66:69], a20, v16, v[24:27]", BOTH, 16, 4, 1, K_F32, K_F32, false, false},
	{"v_mfma_f32_32x32x2_f32 v[66:81], v8, v16, 1.0", BOTH, 32, 2, 1, K_F32, K_F32, false, false},
	MFMA("v_mfma_f32_32x32x4_2b_f16", BOTH, 32, 4, 2, K_F16, K_F16, 2, 2, 32),
	MFMA("v_mfma_f32_16x16x4_4b_f16", BOTH, 16, 4, 4, K_F16, K_F16, 2, 2, 16),
	MFMA("v_mfma_f32_4x4x4_16b_f16", BOTH, 4, 4, 16, K_F16, K_F16, 2, 2, 4),
	MFMA("v_mfma_f32_32x32x8_f16", BOTH, 32, 8, 1, K_F16, K_F16, 2, 2, 16),
	MFMA("v_mfma_f32_16x16x16_f16", BOTH, 16, 16, 1, K_F16, K_F16, 2, 2, 4),
	MFMA("v_mfma_f32_32x32x8_bf16", BOTH, 32, 8, 1, K_BF16, K_BF16, 2, 2, 16),
	MFMA("v_mfma_f32_16x16x16_bf16", BOTH, 16, 16, 1, K_BF16, K_BF16, 2, 2, 4),
	MFMA("v_mfma_f32_32x32x16_bf16", GFX950, 32, 16, 1, K_BF16, K_BF16, 4, 4, 16),
	MFMA("v_mfma_f32_16x16x32_bf16", GFX950, 16, 32, 1, K_BF16, K_BF16, 4, 4, 4),
	MFMA("v_mfma_f32_32x32x16_f16", GFX950, 32, 16, 1, K_F16, K_F16, 4, 4, 16),
	MFMA("v_mfma_f32_16x16x32_f16", GFX950, 16, 32, 1, K_F16, K_F16, 4, 4, 4),
	MFMA1I("v_mfma_i32_32x32x4_2b_i8", 32, 4, 2, 32),
	MFMA("v_mfma_i32_32x32x16_i8", BOTH, 32, 16, 1, K_I8, K_I8, 2, 2, 16),
	MFMA("v_mfma_i32_16x16x32_i8", BOTH, 16, 32, 1, K_I8, K_I8, 2, 2, 4),
	MFMA("v_mfma_i32_32x32x32_i8", GFX950, 32, 32, 1, K_I8, K_I8, 4, 4, 16),
	MFMA("v_mfma_i32_16x16x64_i8", GFX950, 16, 64, 1, K_I8, K_I8, 4, 4, 4),
	MFMA("v_mfma_f32_32x32x16_fp8_bf8", BOTH, 32, 16, 1, K_FP8, K_BF8, 2, 2, 16),
	MFMA("v_mfma_f32_16x16x32_bf8_fp8", BOTH, 16, 32, 1, K_BF8, K_FP8, 2, 2, 4),
	MFMA("v_mfma_f32_16x16x32_fp8_fp8", BOTH, 16, 32, 1, K_FP8, K_FP8, 2, 2, 4),
	{"v_mfma_f32_16x16x128_f8f6f4 v[66:69], v[8:15], v[16:23], v[24:27] blgp:1", GFX950, 16, 128, 1, K_FP8, K_BF8, true, false},
	{"v_mfma_f32_32x32x64_f8f6f4 v[66:81], v[8:15], v[16:19], v[24:39] blgp:4", GFX950, 32, 64, 1, K_FP8, K_FP4, true, false},
	{"v_mfma_scale_f32_32x32x64_f8f6f4 v[66:81], v[8:15], v[16:23], v[24:39], v56, v57 op_sel:[1,0] op_sel_hi:[0,1]", GFX950, 32, 64, 1, K_FP8, K_FP8, true, true},
	{"v_mfma_scale_f32_16x16x128_f8f6f4 v[66:69], v[8:11], v[16:19], v[24:27], v56, v57 op_sel:[1,0] op_sel_hi:[0,1] cbsz:4 blgp:4", GFX950, 16, 128, 1, K_FP4, K_FP4, true, true},
	{"v_mfma_scale_f32_16x16x128_f8f6f4 v[66:69], v[8:13], v[16:23], v[24:27], v56, v57 op_sel:[1,0] op_sel_hi:[0,1] cbsz:2", GFX950, 16, 128, 1, K_F6E2M3, K_FP8, true, true},
	{"v_accvgpr_write_b32 a0, v24\n v_accvgpr_write_b32 a1, v25\n v_accvgpr_write_b32 a2, v26\n v_accvgpr_write_b32 a3, v27\n"
	 " v_mfma_f32_16x16x16_bf16 a[0:3], v[8:9], v[16:17], a[0:3]\n v_accvgpr_read_b32 v66, a0\n v_accvgpr_read_b32 v67, a1\n"
	 " v_accvgpr_mov_b32 a9, a2\n v_accvgpr_read_b32 v68, a9\n v_accvgpr_read_b32 v69, a3", BOTH, 16, 16, 1, K_BF16, K_BF16, false, false},
	/* an operand's registers change between two instructions that read it: by a move, from LDS whole and in part, by a matrix instruction */
#define OTHER_A "v_mov_b32 v4, v10\n v_mov_b32 v5, v11\n v_mfma_f32_16x16x16_bf16 v[66:69], v[4:5], v[16:17], 0\n "
#define CHANGED_A "\n v_mfma_f32_16x16x16_bf16 v[66:69], v[4:5], v[16:17], v[24:27]", BOTH, 16, 16, 1, K_BF16, K_BF16, false, false
	{OTHER_A "v_mov_b32 v4, v8\n v_mov_b32 v5, v9" CHANGED_A},
	{"v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, v[8:9]\n s_waitcnt lgkmcnt(0)\n " OTHER_A "ds_read_b64 v[4:5], v2\n s_waitcnt lgkmcnt(0)" CHANGED_A},
	{"v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, v[8:9]\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v10, v8\n " OTHER_A "ds_read_b32 v5, v2 offset:4\n s_waitcnt lgkmcnt(0)" CHANGED_A},
	{"v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, v[8:9]\n s_waitcnt lgkmcnt(0)\n " OTHER_A "ds_read2_b32 v[4:5], v2 offset0:0 offset1:1\n s_waitcnt lgkmcnt(0)" CHANGED_A},
	{"v_mov_b32 v32, 0\n v_mov_b32 v33, 0\n v_mov_b32 v40, v8\n v_mov_b32 v41, v9\n v_mov_b32 v42, v8\n v_mov_b32 v43, v9\n " OTHER_A
	 "v_mfma_f32_16x16x16_bf16 v[4:7], v[32:33], v[16:17], v[40:43]" CHANGED_A},
};

static const int kind_bits[] = {32, 16, 16, 8, 8, 8, 4, 6};

/* Element j of a lane. */
static float element(const Row *x, int lane, int j, enum kind k, bool ocp)
{
	int bit = j * kind_bits[k];
	uint64_t two = x[bit / 32][lane] | (uint64_t)x[bit / 32 + 1][lane] << 32;
	uint32_t code = (uint32_t)(two >> bit % 32);
	switch (k) {
	case K_F32: return f(code);
	case K_F16: return num_to_f32(code & 0xffff, DT_F16);
	case K_BF16: return num_to_f32(code & 0xffff, DT_BF16);
	case K_I8: return (int8_t)code;
	case K_FP8: return num_to_f32(code & 0xff, ocp ? DT_E4M3 : DT_E4M3FNUZ);
	case K_BF8: return num_to_f32(code & 0xff, ocp ? DT_E5M2 : DT_E5M2FNUZ);
	case K_FP4: return num_to_f32(code & 15, DT_E2M1);
	default: { /* e2m3: an e4m3 number without its two top exponent bits, bias 1 */
		float v = (code >> 3 & 3 ? 8 + (code & 7) : (code & 7) * 1.0f) * exp2f((float)(code >> 3 & 3 ? code >> 3 & 3 : 1) - 4);
		return code & 32 ? -v : v;
	}
	}
}

/* Where element (row or column i, k) of an operand lies. */
static float operand(const struct mfma *t, const Row *x, int block, int i, int k, enum kind kind, bool ocp)
{
	int groups = t->blocks > 1 ? 1 : 64 / t->m, per = t->k / groups;
	if (t->blocks > 1)
		return element(x, i + t->m * block, k, kind, ocp);
	if (t->f8f6f4 && kind_bits[kind] == 8) {
		int half = k >= t->k / 2, rest = k % (t->k / 2);
		return element(x, i + t->m * (rest / 16), rest % 16 + 16 * half, kind, ocp);
	}
	return element(x, i + t->m * (k / per), k % per, kind, ocp);
}

static void expect_mfma(const struct mfma *t, const Row *x, Row *y, bool ocp)
{
	int regs = t->m == 32 ? 16 : 4;
	for (int b = 0; b < t->blocks; b++)
		for (int i = 0; i < t->m; i++)
			for (int j = 0; j < t->m; j++) {
				int reg = t->m == 32 ? 4 * (i / 8) + i % 4 : i % 4;
				int lane = t->m == 32 ? 32 * (i / 4 % 2) + j : t->m == 16 ? 16 * (i / 4) + j : 4 * b + j;
				reg += t->m == 4 ? 0 : regs * b;
				uint32_t c = strstr(t->text, ", 1.0") ? 0x3f800000 : x[16 + reg][lane];
				float av[128], bv[128];
				int32_t sum = (int32_t)c;
				for (int k = 0; k < t->k; k++) {
					av[k] = operand(t, x, b, i, k, t->a, ocp);
					bv[k] = operand(t, x + 8, b, j, k, t->b, ocp);
					if (t->a == K_I8)
						sum = (int32_t)((uint32_t)sum + (uint32_t)((int)av[k] * (int)bv[k]));
					if (t->scaled) { /* op_sel 1 of A: byte 1; op_sel_hi of B: byte 2 */
						av[k] *= num_to_f32(x[48][i + t->m * (k / 32)] >> 8 & 0xff, DT_E8M0);
						bv[k] *= num_to_f32(x[49][j + t->m * (k / 32)] >> 16 & 0xff, DT_E8M0);
					}
				}
				y[reg][lane] = t->a == K_I8 ? (uint32_t)sum : u(num_dot_f32(f(c), av, bv, t->k));
			}
}

/* ---- the rest, one row each ---- */

#define EXPECT(name) static void name(const Row *x, Row *y, bool gfx950)
#define UNUSED (void)x, (void)gfx950
#define EACH(r, e) for (int l = 0; l < L; l++) y[r][l] = (e)

EXPECT(quad_perm) { UNUSED; EACH(0, x[0][(l & ~3) | (3 - (l & 3))]); }
EXPECT(row_shr) { UNUSED; EACH(0, (l & 15) >= 3 ? x[0][l - 3] : 0); }
EXPECT(row_shr_keep) { UNUSED; EACH(0, (l & 15) >= 3 ? x[0][l - 3] : x[1][l]); }
EXPECT(row_shl) { UNUSED; EACH(0, (l & 15) < 14 ? x[0][l + 2] : 0); }
EXPECT(row_ror) { UNUSED; EACH(0, x[0][(l & ~15) | ((l - 5) & 15)]); }
EXPECT(mirror) { UNUSED; EACH(0, x[0][l ^ 15]); }
EXPECT(half_mirror) { UNUSED; EACH(0, x[0][l ^ 7]); }
EXPECT(bcast15) { UNUSED; EACH(0, l / 16 == 1 || l / 16 == 3 ? x[0][l / 16 * 16 - 1] : x[1][l]); }
EXPECT(bcast31) { UNUSED; EACH(0, l >= 32 ? x[0][31] : x[1][l]); }
EXPECT(newbcast) { UNUSED; EACH(0, x[0][(l & ~15) | 3]); }
EXPECT(bank_masked) { UNUSED; EACH(0, l % 16 / 4 == 1 && l / 16 != 3 ? u(f(x[0][l ^ 1]) + f(x[1][l])) : x[2][l]); }
EXPECT(bpermute) { UNUSED; EACH(0, x[0][(x[1][l] >> 2) & 63]); }
EXPECT(permute) { UNUSED; EACH(0, x[0][l ^ 5]); }
EXPECT(swizzle_xor) { UNUSED; EACH(0, x[0][l ^ 16]); }
EXPECT(swizzle_quad) { UNUSED; EACH(0, x[0][(l & ~3) | 2]); }
EXPECT(swap16) { UNUSED; EACH(0, l & 16 ? x[1][l - 16] : x[0][l]); EACH(1, l & 16 ? x[1][l] : x[0][l + 16]); }
EXPECT(swap32) { UNUSED; EACH(0, l & 32 ? x[1][l - 32] : x[0][l]); EACH(1, l & 32 ? x[1][l] : x[0][l + 32]); }
EXPECT(readlane) { UNUSED; EACH(0, x[0][17]); EACH(1, x[0][0]); EACH(2, l == 9 ? 77 : 0); }
EXPECT(masked) { UNUSED; EACH(0, l & 1 ? 0 : x[0][l] + x[1][l]); }
EXPECT(first_active) { UNUSED; EACH(0, x[0][4]); }
EXPECT(mbcnt) { UNUSED; EACH(0, (uint32_t)l); }
EXPECT(lds_words) { UNUSED; for (int r = 0; r < 4; r++) EACH(r, x[r][l ^ 1]); }
EXPECT(product_overflows) { UNUSED; for (int r = 0; r < 4; r++) EACH(r, 0x7f800000); }
EXPECT(lds_small) { UNUSED; EACH(0, x[0][l] & 0xff); EACH(1, (uint32_t)(int8_t)x[0][l]); EACH(2, x[0][l] & 0xffff); EACH(3, (uint32_t)(int16_t)x[0][l]); EACH(4, (x[1][l] & 0xffff) | x[0][l] << 16); }
EXPECT(lds_pairs) { UNUSED; EACH(0, x[0][l]); EACH(1, x[1][l]); EACH(2, x[1][l]); EACH(3, x[0][l]); }
EXPECT(lds_atomic) { UNUSED; EACH(0, 64); EACH(1, (uint32_t)l); }
EXPECT(tr_b16)
{
	UNUSED;
	for (int l = 0; l < L; l++)
		for (int n = 0; n < 4; n++) { /* result n of lane l: lane (l / 4 % 4) + 4 n of the 16, halfword l % 4 */
			int from = (l & ~15) | (l >> 2 & 3) | n << 2, h = l & 3;
			y[n / 2][l] |= (x[h / 2][from] >> (16 * (h & 1)) & 0xffff) << (16 * (n & 1));
		}
}
EXPECT(tr_b8)
{
	UNUSED;
	for (int l = 0; l < L; l++)
		for (int n = 0; n < 8; n++) {
			int from = (l & ~15) | n << 1 | (l >> 3 & 1), h = l & 7;
			y[n / 4][l] |= (x[h / 4][from] >> (8 * (h & 3)) & 0xff) << (8 * (n & 3));
		}
}
EXPECT(pk_fp8) { UNUSED; enum dtype t = gfx950 ? DT_E4M3 : DT_E4M3FNUZ; EACH(0, (x[2][l] & 0xffff) | num_from_f32(f(x[0][l]), t, false) << 16 | num_from_f32(f(x[1][l]), t, false) << 24); }
EXPECT(pk_fp8_sat) { UNUSED; enum dtype t = gfx950 ? DT_E4M3 : DT_E4M3FNUZ; EACH(0, num_from_f32(f(x[0][l]), t, true) | num_from_f32(f(x[1][l]), t, true) << 8); }
EXPECT(pk_bf8) { UNUSED; enum dtype t = gfx950 ? DT_E5M2 : DT_E5M2FNUZ; EACH(0, num_from_f32(f(x[0][l]), t, false) | num_from_f32(f(x[1][l]), t, false) << 8); }
EXPECT(from_fp8) { UNUSED; enum dtype t = gfx950 ? DT_E4M3 : DT_E4M3FNUZ; EACH(0, u(num_to_f32(x[0][l] >> 16 & 0xff, t))); EACH(1, u(num_to_f32(x[0][l] >> 16 & 0xff, t))); EACH(2, u(num_to_f32(x[0][l] >> 24, t))); }
EXPECT(pk_bf16) { UNUSED; EACH(0, num_from_f32(f(x[0][l]), DT_BF16, false) | num_from_f32(f(x[1][l]), DT_BF16, false) << 16); }
EXPECT(f16_of) { UNUSED; EACH(0, num_from_f32(f(x[0][l]), DT_F16, false)); }
static float scaled(uint32_t v, uint32_t s) { return ldexpf(f(v), 127 - (int)(s >> 23 & 255)); }
EXPECT(scale_fp8) { UNUSED; EACH(0, (x[3][l] & 0xffff) | num_from_f32(scaled(x[0][l], x[2][l]), DT_E4M3, false) << 16 | num_from_f32(scaled(x[1][l], x[2][l]), DT_E4M3, false) << 24); }
EXPECT(scale_fp4) { UNUSED; EACH(0, (x[3][l] & ~0xff00u) | num_from_f32(scaled(x[0][l], x[2][l]), DT_E2M1, false) << 8 | num_from_f32(scaled(x[1][l], x[2][l]), DT_E2M1, false) << 12); }
EXPECT(pk_f32) { UNUSED; EACH(0, u(f(x[0][l]) * f(x[3][l]))); EACH(1, u(f(x[1][l]) * -f(x[3][l]))); }
EXPECT(sdwa) { UNUSED; EACH(0, (x[2][l] & 0xffff) | ((uint32_t)(int8_t)(x[0][l] >> 8) + (x[1][l] >> 16)) << 16); }
EXPECT(med3) { UNUSED; EACH(0, u(fmaxf(fminf(f(x[0][l]), f(x[1][l])), fminf(fmaxf(f(x[0][l]), f(x[1][l])), f(x[2][l]))))); }
EXPECT(perm) { UNUSED; EACH(0, (x[0][l] & 0xff00) >> 8 | (x[1][l] & 0xff) << 8 | (x[0][l] >> 24) << 16 | 0u); }
EXPECT(clamp) { UNUSED; EACH(0, u(fminf(fmaxf(f(x[0][l]) * 2 + 0.0f, 0), 1))); }
EXPECT(minmax) { UNUSED; EACH(0, x[0][l]); EACH(1, 0x7fc00001); EACH(2, x[0][l]); }
EXPECT(carry) { UNUSED; for (int l = 0; l < L; l++) { uint64_t s = (x[0][l] | (uint64_t)x[1][l] << 32) + (x[2][l] | (uint64_t)x[3][l] << 32); y[0][l] = (uint32_t)s; y[1][l] = (uint32_t)(s >> 32); } }
EXPECT(bitop3) { UNUSED; EACH(0, (x[0][l] & x[1][l]) ^ x[2][l]); }
EXPECT(mix) { UNUSED; EACH(0, u(fmaf(num_to_f32(x[0][l] >> 16, DT_F16), f(x[1][l]), -f(x[2][l])))); }
/* a raw buffer of 1000 bytes: lane l reads 16 bytes at 16 l; whole dwords beyond the end give 0 */
EXPECT(buffer) { UNUSED; for (int r = 0; r < 4; r++) EACH(r, 4 * l + r < 250 ? x[(4 * l + r) / 64][(4 * l + r) % 64] : 0); }
EXPECT(buffer_offset) { UNUSED; EACH(0, l + 10 + 30 < 250 ? x[(l + 40) / 64][(l + 40) % 64] : 0); EACH(1, 4 * (l + 200) < 1000 ? x[(l + 200) / 64][(l + 200) % 64] & 0xff : 0); }
EXPECT(to_lds) { UNUSED; EACH(0, x[0][l]); EACH(1, l < 3 ? x[0][l] : 0xa5a5a5a5); }
EXPECT(to_lds4) { UNUSED; for (int r = 0; r < 4; r++) EACH(r, x[(4 * l + r) / 64][(4 * l + r) % 64]); }
EXPECT(d16) { UNUSED; EACH(0, (x[1][l] & 0xffff0000) | (x[0][l] & 0xffff)); EACH(1, (x[1][l] & 0xffff) | x[0][l] << 16); EACH(2, (x[1][l] & 0xffff) | (uint32_t)(uint16_t)(int8_t)x[0][l] << 16); }
EXPECT(scalar)
{
	UNUSED;
	static const uint32_t v[] = {0x00000f00, 0x00000001, 0xffffffff, 0xfffffffe, 3, 28, 0xf0000000, 0x12345678 >> 8 & 0xff, 1, 0xffffffe0, 7, 2};
	for (unsigned r = 0; r < sizeof v / sizeof *v; r++)
		EACH(r, v[r]);
}
EXPECT(branches) { UNUSED; EACH(0, 45); EACH(1, l < 8 ? 1 : 2); }

static uint32_t h(float x) { return num_from_f32(x, DT_F16, false); }
static float hf(uint32_t c) { return num_to_f32(c & 0xffff, DT_F16); }
EXPECT(special) { UNUSED; for (int l = 0; l < L; l++) { float v = f(x[0][l]); y[0][l] = u(num_exp2(v)); y[1][l] = u(num_log2(fabsf(v))); y[2][l] = u(num_rcp(v)); y[3][l] = u(num_rsq(fabsf(v))); y[4][l] = u(num_sqrt_hw(fabsf(v))); y[5][l] = u(num_sin(v)); y[6][l] = u(num_cos(v)); } }
EXPECT(fields) { UNUSED; for (int l = 0; l < L; l++) { uint32_t a = x[8][l], b = x[9][l], c = x[10][l]; y[0][l] = a >> 5 & 0x7ff; y[1][l] = (uint32_t)((int32_t)(a << 16) >> 21); y[2][l] = (a & b) | (~a & c); y[3][l] = (uint32_t)((((uint64_t)a << 32) | b) >> (c & 31)); y[4][l] = (uint32_t)((((uint64_t)a << 32) | b) >> 8 * (c & 3)); y[5][l] = a ^ b ^ c; y[6][l] = (a << 3) + b; y[7][l] = (a & 0xffffff) * (b & 0xffffff) + c; } }
EXPECT(bytes_to_f32) { UNUSED; for (int k = 0; k < 4; k++) EACH(k, u((float)(x[8][l] >> (8 * k) & 255))); }
EXPECT(dots)
{
	UNUSED;
	for (int l = 0; l < L; l++) {
		uint32_t a = x[8][l] & 0xbfffbfff, b = x[9][l] & 0xbfffbfff;
		int32_t s4 = (int32_t)x[10][l];
		uint32_t u4 = x[10][l];
		for (int k = 0; k < 32; k += 8) {
			s4 = (int32_t)((uint32_t)s4 + (uint32_t)((int8_t)(x[8][l] >> k) * (int8_t)(x[9][l] >> k)));
			u4 += (x[8][l] >> k & 255) * (x[9][l] >> k & 255);
		}
		y[0][l] = (uint32_t)s4;
		y[1][l] = u4;
		y[2][l] = u(f(x[0][l]) + hf(a) * hf(b) + hf(a >> 16) * hf(b >> 16));
	}
}
/* low: a.hi * b.lo + c.lo, high: -(a.lo) * b.hi + c.lo; small numbers, so that f64 is exact before the rounding */
EXPECT(pk_f16) { UNUSED; for (int l = 0; l < L; l++) { uint32_t a = x[8][l] & 0xbfffbfff, b = x[9][l] & 0xbfffbfff, c = x[10][l] & 0xbfffbfff; y[0][l] = h((float)((double)hf(a >> 16) * hf(b))) | h(-hf(a) * hf(b >> 16)) << 16; y[1][l] = h(hf(a) + hf(b)) | h(hf(a >> 16) + hf(b >> 16)) << 16; (void)c; } }
EXPECT(rtz) { UNUSED; for (int l = 0; l < L; l++) { y[0][l] = 0; for (int k = 0; k < 2; k++) { float v = f(x[k][l]); uint32_t c = h(v); if (fabsf(hf(c)) > fabsf(v)) c--; y[0][l] |= c << (16 * k); } } }
EXPECT(norm) { UNUSED; for (int l = 0; l < L; l++) { y[0][l] = 0; for (int k = 0; k < 2; k++) { float v = fminf(fmaxf(f(x[k][l]), -1), 1); y[0][l] |= ((uint32_t)(int32_t)rint((double)v * 32767) & 0xffff) << (16 * k); } } }
EXPECT(lds_float_atomic) { UNUSED; float s = 0; for (int l = 0; l < L; l++) { y[1][l] = u(s); s += f(x[0][l]); } EACH(0, u(s)); }
EXPECT(lds_pk_atomic) { UNUSED; EACH(0, h(hf(x[8][l] & 0xbfff) + 1) | h(hf(x[8][l] >> 16 & 0xbfff) + 2) << 16); }
EXPECT(scalar_buffer) { UNUSED; EACH(0, x[0][5]); EACH(1, x[0][6]); EACH(2, 0); EACH(3, x[0][9]); }
EXPECT(cross_f64)
{
	UNUSED;
	for (int r = 0; r < 4; r++)
		for (int l = 0; l < L; l++) { /* row 4 r + l / 16, column l % 16 */
			double acc, a, b;
			uint64_t v = x[16 + 2 * r][l] | (uint64_t)x[17 + 2 * r][l] << 32;
			memcpy(&acc, &v, 8);
			for (int k = 0; k < 4; k++) {
				int ra = 16 * k + 4 * r + l / 16, cb = 16 * k + l % 16;
				v = x[0][ra] | (uint64_t)x[1][ra] << 32;
				memcpy(&a, &v, 8);
				v = x[2][cb] | (uint64_t)x[3][cb] << 32;
				memcpy(&b, &v, 8);
				acc = fma(a, b, acc);
			}
			memcpy(&v, &acc, 8);
			y[2 * r][l] = (uint32_t)v;
			y[2 * r + 1][l] = (uint32_t)(v >> 32);
		}
}
EXPECT(accumulators) { UNUSED; EACH(0, x[0][l]); EACH(1, x[0][l]); EACH(2, x[1][l ^ 1]); EACH(3, l & 1 ? x[2][l] : 0); }
EXPECT(ashr_pk) { UNUSED; for (int l = 0; l < L; l++) { y[0][l] = 0; for (int k = 0; k < 2; k++) { int32_t v = (int32_t)x[8 + k][l] >> 20; v = v < -128 ? -128 : v > 127 ? 127 : v; y[0][l] |= ((uint32_t)v & 255) << (8 * k); } } }
EXPECT(from_fp4) { UNUSED; EACH(0, u(ldexpf(num_to_f32(x[8][l] >> 16 & 15, DT_E2M1), (int)(x[0][l] >> 23 & 255) - 127))); EACH(1, u(ldexpf(num_to_f32(x[8][l] >> 20 & 15, DT_E2M1), (int)(x[0][l] >> 23 & 255) - 127))); }

#include "sim_exec_more.h"

struct row { const char *text; int chips; expect_fn *expect; };
#define LANE16 "v_lshlrev_b32 v2, 4, v0\n "
#define FOURS16 "v_lshrrev_b32 v2, 2, v0\n v_lshlrev_b32 v2, 5, v2\n v_lshl_add_u32 v2, v0, 4, v2\n "
static const struct row rows[] = {
	MORE_ROWS
	{"v_exp_f32 v66, v8\n v_log_f32 v67, |v8|\n v_rcp_f32 v68, v8\n v_rsq_f32 v69, |v8|\n v_sqrt_f32 v70, |v8|\n v_sin_f32 v71, v8\n v_cos_f32 v72, v8", BOTH, special},
	{"v_bfe_u32 v66, v16, 5, 11\n v_bfe_i32 v67, v16, 5, 11\n v_bfi_b32 v68, v16, v17, v18\n v_alignbit_b32 v69, v16, v17, v18\n v_alignbyte_b32 v70, v16, v17, v18\n"
	 " v_xor_b32 v71, v16, v17\n v_xor_b32 v71, v71, v18\n v_lshl_add_u32 v72, v16, 3, v17\n v_mad_u32_u24 v73, v16, v17, v18", BOTH, fields},
	{"v_cvt_f32_ubyte0 v66, v16\n v_cvt_f32_ubyte1 v67, v16\n v_cvt_f32_ubyte2 v68, v16\n v_cvt_f32_ubyte3 v69, v16", BOTH, bytes_to_f32},
	{"v_dot4_i32_i8 v66, v16, v17, v18\n v_dot4_u32_u8 v67, v16, v17, v18\n s_mov_b32 s14, 0xbfffbfff\n v_and_b32 v2, s14, v16\n v_and_b32 v3, s14, v17\n v_dot2_f32_f16 v68, v2, v3, v8", BOTH, dots},
	{"s_mov_b32 s14, 0xbfffbfff\n v_and_b32 v2, s14, v16\n v_and_b32 v3, s14, v17\n v_pk_mul_f16 v66, v2, v3 op_sel:[1,0] op_sel_hi:[0,1] neg_hi:[1,0]\n v_pk_add_f16 v67, v2, v3", BOTH, pk_f16},
	{"v_cvt_pkrtz_f16_f32 v66, v8, v9", BOTH, rtz},
	{"v_cvt_pknorm_i16_f32 v66, v8, v9", BOTH, norm},
	{"v_mov_b32 v2, 64\n v_mov_b32 v3, 0\n ds_write_b32 v2, v3\n s_waitcnt lgkmcnt(0)\n ds_add_rtn_f32 v67, v2, v8\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v66, v2", BOTH, lds_float_atomic},
	{"v_and_b32 v2, 0xbfffbfff, v16\n ds_write_b32 v1, v2\n v_mov_b32 v3, 0x40003c00\n s_waitcnt lgkmcnt(0)\n ds_pk_add_f16 v1, v3\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v66, v1", BOTH, lds_pk_atomic},
	{"s_movk_i32 s14, 12\n s_buffer_load_dwordx2 s[16:17], s[8:11], 20\n s_buffer_load_dword s18, s[8:11], 1000\n s_load_dword s19, s[4:5], s14 offset:24\n s_waitcnt lgkmcnt(0)\n"
	 " v_mov_b32 v66, s16\n v_mov_b32 v67, s17\n v_mov_b32 v68, s18\n v_mov_b32 v69, s19", BOTH, scalar_buffer},
	{"ds_write_b32 v1, v8\n global_load_dword a7, v1, s[4:5]\n v_accvgpr_write_b32 a8, v9\n s_waitcnt vmcnt(0) lgkmcnt(0)\n ds_read_b32 a5, v1\n ds_write_b32 v1, a8 offset:256\n"
	 " v_accvgpr_read_b32 v66, a5\n v_accvgpr_read_b32 v67, a7\n v_xor_b32 v2, 4, v1\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v68, v2 offset:256\n"
	 " s_mov_b32 exec_lo, 0xaaaaaaaa\n s_mov_b32 exec_hi, 0xaaaaaaaa\n global_load_dword v69, v1, s[4:5] offset:512", BOTH, accumulators},
	{"v_mfma_f64_16x16x4_f64 v[66:73], v[8:9], v[10:11], v[24:31]", BOTH, cross_f64},
	{"v_mov_b32 v66, 0\n v_ashr_pk_i8_i32 v66, v16, v17, 20", GFX950, ashr_pk},
	{"v_cvt_scalef32_pk_f32_fp4 v[66:67], v16, v8 op_sel:[0,1,0]", GFX950, from_fp4},
	{"v_mov_b32_dpp v66, v8 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf", BOTH, quad_perm},
	{"v_mov_b32_dpp v66, v8 row_shr:3 row_mask:0xf bank_mask:0xf bound_ctrl:1", BOTH, row_shr},
	{"v_mov_b32 v66, v9\n v_mov_b32_dpp v66, v8 row_shr:3 row_mask:0xf bank_mask:0xf", BOTH, row_shr_keep},
	{"v_mov_b32_dpp v66, v8 row_shl:2 row_mask:0xf bank_mask:0xf bound_ctrl:1", BOTH, row_shl},
	{"v_mov_b32_dpp v66, v8 row_ror:5 row_mask:0xf bank_mask:0xf", BOTH, row_ror},
	{"v_mov_b32_dpp v66, v8 row_mirror row_mask:0xf bank_mask:0xf", BOTH, mirror},
	{"v_mov_b32_dpp v66, v8 row_half_mirror row_mask:0xf bank_mask:0xf", BOTH, half_mirror},
	{"v_mov_b32 v66, v9\n v_mov_b32_dpp v66, v8 row_bcast:15 row_mask:0xa bank_mask:0xf", BOTH, bcast15},
	{"v_mov_b32 v66, v9\n v_mov_b32_dpp v66, v8 row_bcast:31 row_mask:0xc bank_mask:0xf", BOTH, bcast31},
	{"v_mov_b32_dpp v66, v8 row_newbcast:3 row_mask:0xf bank_mask:0xf", BOTH, newbcast},
	{"v_mov_b32 v66, v10\n v_add_f32_dpp v66, v8, v9 quad_perm:[1,0,3,2] row_mask:0x7 bank_mask:0x2", BOTH, bank_masked},
	{"ds_bpermute_b32 v66, v9, v8\n s_waitcnt lgkmcnt(0)", BOTH, bpermute},
	{"v_xor_b32 v2, 20, v1\n ds_permute_b32 v66, v2, v8\n s_waitcnt lgkmcnt(0)", BOTH, permute},
	{"ds_swizzle_b32 v66, v8 offset:swizzle(SWAP,16)", BOTH, swizzle_xor},
	{"ds_swizzle_b32 v66, v8 offset:swizzle(QUAD_PERM,2,2,2,2)", BOTH, swizzle_quad},
	{"v_mov_b32 v66, v8\n v_mov_b32 v67, v9\n v_permlane16_swap_b32 v66, v67", GFX950, swap16},
	{"v_mov_b32 v66, v8\n v_mov_b32 v67, v9\n v_permlane32_swap_b32 v66, v67", GFX950, swap32},
	{"v_readlane_b32 s14, v8, 17\n v_mov_b32 v66, s14\n v_readfirstlane_b32 s14, v8\n v_mov_b32 v67, s14\n s_movk_i32 s14, 77\n v_writelane_b32 v68, s14, 9", BOTH, readlane},
	{"s_mov_b32 exec_lo, 0x55555555\n s_mov_b32 exec_hi, 0x55555555\n v_add_u32 v66, v8, v9", BOTH, masked},
	{"s_mov_b64 exec, 48\n v_readfirstlane_b32 s14, v8\n s_mov_b64 exec, -1\n v_mov_b32 v66, s14", BOTH, first_active},
	{"v_mbcnt_lo_u32_b32 v2, -1, 0\n v_mbcnt_hi_u32_b32 v66, -1, v2", BOTH, mbcnt},
	{LANE16 "ds_write_b128 v2, v[8:11]\n v_xor_b32 v2, 16, v2\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v2", BOTH, lds_words},
	/* the address is one of the results: lane after lane, and not */
	{LANE16 "v_xor_b32 v3, 16, v2\n ds_write_b128 v3, v[8:11]\n v_mov_b32 v66, v2\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v66", BOTH, lds_words},
	{LANE16 "ds_write_b128 v2, v[8:11]\n v_xor_b32 v69, 16, v2\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v69", BOTH, lds_words},
	{LANE16 "ds_write_b128 v2, v[8:11]\n v_xor_b32 v66, 16, v2\n v_mov_b32 v69, v66\n s_waitcnt lgkmcnt(0)\n ds_read_b64 v[66:67], v66\n ds_read_b64 v[68:69], v69 offset:8", BOTH, lds_words},
	/* four lanes and a gap: written and read lane by lane, and the other way; the address is one of the results */
	{FOURS16 "v_xor_b32 v3, 16, v2\n ds_write_b128 v3, v[8:11]\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v2", BOTH, lds_words},
	{FOURS16 "v_xor_b32 v67, 16, v2\n ds_write_b128 v2, v[8:11]\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v67", BOTH, lds_words},
	{FOURS16 "v_mov_b32 v68, v2\n v_xor_b32 v2, 16, v2\n ds_write_b128 v2, v[8:11]\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v68", BOTH, lds_words},
	/* addresses change between two accesses that nothing else separates: by their own load from LDS, by a matrix instruction */
	{LANE16 "v_xor_b32 v3, 16, v2\n ds_write_b128 v2, v[8:11]\n ds_write_b32 v2, v3 offset:1028\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v2\n"
	        " ds_read_b32 v2, v2 offset:1028\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v2", BOTH, lds_words},
	{LANE16 "v_xor_b32 v44, 16, v2\n v_mov_b32 v40, v2\n v_mov_b32 v32, 0\n v_mov_b32 v33, 0\n ds_write_b128 v2, v[8:11]\n s_waitcnt lgkmcnt(0)\n ds_read_b128 v[66:69], v40\n"
	        " v_mfma_f32_16x16x16_bf16 v[40:43], v[32:33], v[32:33], v[44:47]\n ds_read_b128 v[66:69], v40", BOTH, lds_words},
	/* 2^64 * 2^64 - the largest number + 15: the product is infinite before anything is added */
	{"v_mov_b32 v5, 0x3f803f80\n v_mov_b32 v4, 0x3f805f80\n v_cmp_gt_u32 vcc, 16, v0\n v_cndmask_b32 v4, v5, v4, vcc\n v_mov_b32 v66, 0xff7fffff\n v_mov_b32 v67, v66\n v_mov_b32 v68, v66\n"
	 " v_mov_b32 v69, v66\n v_mfma_f32_16x16x16_bf16 v[66:69], v[4:5], v[4:5], v[66:69]", BOTH, product_overflows},
	{LANE16 "ds_write_b96 v2, v[8:10]\n ds_write_b32 v2, v11 offset:12\n v_xor_b32 v2, 16, v2\n s_waitcnt lgkmcnt(0)\n ds_read_b64 v[66:67], v2\n ds_read2_b32 v[68:69], v2 offset0:2 offset1:3", BOTH, lds_words},
	{"ds_write_b32 v1, v8\n v_mov_b32 v70, v9\n s_waitcnt lgkmcnt(0)\n ds_read_u8 v66, v1\n ds_read_i8 v67, v1\n ds_read_u16 v68, v1\n ds_read_i16 v69, v1\n ds_read_u16_d16_hi v70, v1", BOTH, lds_small},
	{"ds_write2st64_b32 v1, v8, v9 offset0:1 offset1:3\n s_waitcnt lgkmcnt(0)\n ds_read2st64_b32 v[66:67], v1 offset0:1 offset1:3\n v_mov_b32 v68, v1\n ds_read2st64_b32 v[68:69], v68 offset0:3 offset1:1", BOTH, lds_pairs},
	{"v_mov_b32 v2, 0\n v_mov_b32 v3, 1\n ds_write_b32 v2, v2\n s_waitcnt lgkmcnt(0)\n ds_add_rtn_u32 v67, v2, v3\n s_waitcnt lgkmcnt(0)\n ds_read_b32 v66, v2", BOTH, lds_atomic},
	{"v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, v[8:9]\n s_waitcnt lgkmcnt(0)\n ds_read_b64_tr_b16 v[66:67], v2", GFX950, tr_b16},
	{"v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, v[8:9]\n s_waitcnt lgkmcnt(0)\n ds_read_b64_tr_b8 v[66:67], v2", GFX950, tr_b8},
	{"v_mov_b32 v66, v10\n v_cvt_pk_fp8_f32 v66, v8, v9 op_sel:[0,0,1]", BOTH, pk_fp8},
	{"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n v_cvt_pk_fp8_f32 v66, v8, v9", BOTH, pk_fp8_sat},
	{"v_cvt_pk_bf8_f32 v66, v8, v9", BOTH, pk_bf8},
	{"v_cvt_f32_fp8_sdwa v66, v8 src0_sel:BYTE_2\n v_cvt_pk_f32_fp8_sdwa v[68:69], v8 src0_sel:WORD_1\n v_mov_b32 v67, v68\n v_mov_b32 v68, v69\n v_mov_b32 v69, 0", BOTH, from_fp8},
	{"v_cvt_pk_bf16_f32 v66, v8, v9", GFX950, pk_bf16},
	{"v_cvt_f16_f32 v66, v8", BOTH, f16_of},
	{"v_mov_b32 v66, v11\n v_cvt_scalef32_pk_fp8_f32 v66, v8, v9, v10 op_sel:[0,0,0,1]", GFX950, scale_fp8},
	{"v_mov_b32 v66, v11\n v_cvt_scalef32_pk_fp4_f32 v66, v8, v9, v10 op_sel:[0,0,1,0]", GFX950, scale_fp4},
	{"v_pk_mul_f32 v[66:67], v[8:9], v[10:11] op_sel:[0,1] op_sel_hi:[1,1] neg_hi:[0,1]", BOTH, pk_f32},
	{"v_mov_b32 v66, v10\n v_add_u32_sdwa v66, sext(v8), v9 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_1 src1_sel:WORD_1", BOTH, sdwa},
	{"v_med3_f32 v66, v8, v9, v10", BOTH, med3},
	{"s_mov_b32 s14, 0x0c070005\n v_perm_b32 v66, v8, v9, s14", BOTH, perm},
	{"v_fma_f32 v66, v8, 2.0, 0 clamp", BOTH, clamp},
	{"v_mov_b32 v2, 0x7fc00000\n v_max_f32 v66, v8, v2\n v_mov_b32 v2, 0x7f800001\n v_max_f32 v67, v8, v2\n v_mov_b32 v2, 0x7fc00000\n v_min_f32 v68, v2, v8", BOTH, minmax},
	{"v_add_co_u32 v66, vcc, v8, v10\n v_addc_co_u32 v67, vcc, v9, v11, vcc", BOTH, carry},
	{"v_lshl_add_u64 v[66:67], v[8:9], 0, v[10:11]", BOTH, carry},
	{"v_bitop3_b32 v66, v8, v9, v10 bitop3:0x6a", GFX950, bitop3},
	{"v_fma_mix_f32 v66, v8, v9, -v10 op_sel:[1,0,0] op_sel_hi:[1,0,0]", BOTH, mix},
	{LANE16 "buffer_load_dwordx4 v[66:69], v2, s[8:11], 0 offen", BOTH, buffer},
	{"s_movk_i32 s14, 120\n buffer_load_dword v66, v1, s[8:11], s14 offen offset:40\n buffer_load_ubyte v67, v1, s[8:11], 0 offen offset:800", BOTH, buffer_offset},
	{"s_mov_b32 m0, 256\n buffer_load_dword v1, s[8:11], 0 offen lds\n s_waitcnt vmcnt(0)\n ds_read_b32 v66, v1 offset:256\n s_mov_b64 exec, 7\n s_mov_b32 m0, 1024\n global_load_lds_dword v1, s[4:5] offset:0\n s_mov_b64 exec, -1\n s_waitcnt vmcnt(0)\n ds_read_b32 v67, v1 offset:1024", BOTH, to_lds},
	{LANE16 "s_mov_b32 m0, 512\n global_load_lds_dwordx4 v2, s[4:5]\n s_waitcnt vmcnt(0)\n ds_read_b128 v[66:69], v2 offset:512", GFX950, to_lds4},
	{"v_mov_b32 v66, v9\n v_mov_b32 v67, v9\n v_mov_b32 v68, v9\n global_load_short_d16 v66, v1, s[4:5]\n global_load_short_d16_hi v67, v1, s[4:5]\n global_load_sbyte_d16_hi v68, v1, s[4:5]", BOTH, d16},
	{"s_bfm_b32 s14, 4, 8\n v_mov_b32 v66, s14\n s_cmp_eq_u32 s14, 0xf00\n s_cselect_b32 s14, 1, 0\n v_mov_b32 v67, s14\n s_mov_b64 s[14:15], -1\n v_mov_b32 v68, s14\n"
	 " s_add_u32 s14, s14, -1\n v_mov_b32 v69, s14\n s_ff1_i32_b32 s14, 8\n v_mov_b32 v70, s14\n s_flbit_i32_b32 s14, 8\n v_mov_b32 v71, s14\n"
	 " s_lshl_b32 s14, 15, 28\n v_mov_b32 v72, s14\n s_mov_b32 s14, 0x12345678\n s_bfe_u32 s14, s14, 0x80008\n v_mov_b32 v73, s14\n"
	 " s_cmp_lt_i32 s14, 0\n s_cselect_b32 s14, 0, 1\n v_mov_b32 v74, s14\n s_movk_i32 s14, 0xffe0\n v_mov_b32 v75, s14\n"
	 " s_bcnt1_i32_b64 s14, 0x7f\n v_mov_b32 v76, s14\n s_mov_b64 s[14:15], exec\n s_and_saveexec_b64 s[16:17], 3\n s_bcnt1_i32_b64 s14, exec\n s_mov_b64 exec, s[16:17]\n v_mov_b32 v77, s14", BOTH, scalar},
	{"s_mov_b32 s14, 9\n s_mov_b32 s15, 0\n .Lloop:\n s_add_u32 s15, s15, s14\n s_sub_u32 s14, s14, 1\n s_cmp_lg_u32 s14, 0\n s_cbranch_scc1 .Lloop\n v_mov_b32 v66, s15\n"
	 " v_cmp_gt_u32 vcc, 8, v0\n v_mov_b32 v67, 2\n s_and_saveexec_b64 s[14:15], vcc\n s_cbranch_execz .Lskip\n v_mov_b32 v67, 1\n .Lskip:\n s_mov_b64 exec, s[14:15]", BOTH, branches},
};

enum { NROWS = sizeof rows / sizeof *rows, NMFMA = sizeof mfmas / sizeof *mfmas };

/* ---- running ---- */

static struct sim_object *object;
static struct sim_memory *memory;
static uint32_t *in, *out;
static char err[1024];

static uint32_t draw(void)
{
	static uint64_t s = 88172645463325252u;
	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	return (uint32_t)(s >> 20);
}

/* v8..v23: numbers below 2 of the type they are read as; C: f32 of the same size; then two rows of scales. */
/* Products of bf16 numbers are all exact in f32 in the last round. */
static void fill_inputs(const struct mfma *matrix, int round)
{
	for (int i = 0; i < IN * L; i++) {
		int reg = i / L;
		uint32_t r = draw();
		if (!matrix)
			in[i] = reg < 8 ? (r & 0x807fffff) | (118 + r % 20) << 23 : r;
		else if (reg < 16 && matrix->a != K_F32)
			in[i] = (r & 0xbfffbfff) | (round == ROUNDS - 1 ? 0x20002000 : 0);
		else if (reg < 48)
			in[i] = (r & 0x807fffff) | (120 + r % 10) << 23;
		else
			in[i] = (115 + r % 20) * 0x00000001u | (115 + (r >> 5) % 20) << 8 | (115 + (r >> 10) % 20) << 16;
	}
	memset(out, 0xee, OUT * L * 4);
}

static void append(char **text, size_t *len, const char *more)
{
	size_t n = strlen(more);
	*text = realloc(*text, *len + n + 1);
	memcpy(*text + *len, more, n + 1);
	*len += n;
}

/* Assembles kernels t0.. of the texts (NULL: none of that number). */
static void assemble(const char *chip, const char *const *texts, int n)
{
	char *text = NULL, line[4096];
	size_t len = 0, size;
	append(&text, &len, ".include \"exec.s\"\n");
	for (int i = 0; i < n; i++)
		if (texts[i]) {
			snprintf(line, sizeof line, "BEGIN t%d\n %s\nEND t%d\n", i, texts[i], i);
			append(&text, &len, line);
		}
	append(&text, &len, ".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels:\n");
	for (int i = 0; i < n; i++)
		if (texts[i]) {
			snprintf(line, sizeof line, "  - .name: t%d\n    .symbol: t%d.kd\n    .kernarg_segment_size: 16\n    .kernarg_segment_align: 8\n"
				"    .group_segment_fixed_size: 16384\n    .private_segment_fixed_size: 64\n    .wavefront_size: 64\n    .sgpr_count: 40\n"
				"    .vgpr_count: 256\n    .max_flat_workgroup_size: 256\n", i, i);
			append(&text, &len, line);
		}
	append(&text, &len, "...\n.end_amdgpu_metadata\n");
	uint8_t *bytes = sim_build_asm(text, chip, &size);
	int rc = sim_object_load(&object, sim_chip_by_name(chip), bytes, size, err, sizeof err);
	ck_assert_msg(rc == SIM_OK, "%s", err);
	free(bytes);
	free(text);
	in = malloc(IN * L * 4);
	out = malloc(OUT * L * 4);
	memory = sim_memory_new();
	sim_memory_add(memory, in, IN * L * 4, "in", false);
	sim_memory_add(memory, out, OUT * L * 4, "out", true);
}

static void discard(void)
{
	sim_object_free(object);
	sim_memory_free(memory);
	free(in);
	free(out);
}

static struct sim_stats stats;

static int run(int i, uint32_t lanes, uint64_t seed)
{
	char name[16];
	const void *args[2] = {in, out};
	snprintf(name, sizeof name, "t%d", i);
	const struct sim_kernel *k = sim_object_kernel(object, name);
	ck_assert_msg(k != NULL, "no kernel %s", name);
	struct sim_launch l = {.object = object, .kernel = k, .memory = memory, .grid = {1, 1, 1}, .block = {lanes, 1, 1},
	                       .kernarg = args, .kernarg_size = sizeof args, .threads = 1, .seed = seed, .stats = &stats};
	memset(&stats, 0, sizeof stats);
	return sim_run(&l, err, sizeof err);
}

static void compare(const char *text, Row *want)
{
	for (int r = 0; r < OUT; r++)
		for (int l = 0; l < L; l++) {
			uint32_t got = out[r * L + l], w = want[r][l];
			bool both_nan = (got & 0x7fffffff) > 0x7f800000 && (w & 0x7fffffff) > 0x7f800000;
			ck_assert_msg(got == w || both_nan, "%s\nv%d lane %d: %08x, expected %08x", text, 66 + r, l, got, w);
		}
}

static void all_rows(const char *chip, int bit)
{
	static Row want[OUT];
	const char *texts[NROWS + NMFMA];
	for (int i = 0; i < NROWS + NMFMA; i++)
		texts[i] = (i < NROWS ? rows[i].chips : mfmas[i - NROWS].chips) & bit ? i < NROWS ? rows[i].text : mfmas[i - NROWS].text : NULL;
	assemble(chip, texts, NROWS + NMFMA);
	for (int i = 0; i < NROWS + NMFMA; i++) {
		const char *text = texts[i];
		for (int round = 0; round < ROUNDS && text; round++) {
			fill_inputs(i < NROWS ? NULL : &mfmas[i - NROWS], round);
			memset(want, 0, sizeof want);
			int rc = run(i, 64, 0);
			ck_assert_msg(rc == SIM_OK, "%s\n%s", text, err);
			if (i < NROWS)
				rows[i].expect((const Row *)in, want, bit == GFX950);
			else
				expect_mfma(&mfmas[i - NROWS], (const Row *)in, want, bit == GFX950);
			compare(text, want);
		}
	}
	discard();
}

START_TEST(instructions_gfx942) { all_rows("gfx942", GFX942); } END_TEST
START_TEST(instructions_gfx950) { all_rows("gfx950", GFX950); } END_TEST

/* Two waves take turns inside long rows of matrix instructions on the same registers; the second has all inputs a row further on, and
 * hands its result to the first. */
START_TEST(matrix_operands_of_two_waves)
{
	static const struct mfma product = {"v_readfirstlane_b32 s14, v0\n .rept 300\n v_mfma_f32_16x16x16_f16 v[66:69], v[8:9], v[16:17], v[24:27]\n .endr\n"
		" s_cmp_eq_u32 s14, 0\n s_cbranch_scc1 1f\n global_store_dword v1, v66, s[6:7] offset:768\n global_store_dword v1, v67, s[6:7] offset:1024\n"
		" global_store_dword v1, v68, s[6:7] offset:1280\n global_store_dword v1, v69, s[6:7] offset:1536\n s_waitcnt vmcnt(0)\n s_barrier\n s_endpgm\n"
		"1:\n s_barrier\n global_load_dword v70, v1, s[6:7] offset:1024\n global_load_dword v71, v1, s[6:7] offset:1280\n"
		" global_load_dword v72, v1, s[6:7] offset:1536\n global_load_dword v73, v1, s[6:7] offset:1792\n s_waitcnt vmcnt(0)", BOTH, 16, 16, 1, K_F16, K_F16, false, false};
	static Row want[OUT];
	assemble("gfx942", &(const char *){product.text}, 1);
	for (uint64_t seed = 0; seed < 8; seed++) {
		fill_inputs(&product, 0);
		memset(want, 0, sizeof want);
		expect_mfma(&product, (const Row *)in, want, false);
		expect_mfma(&product, (const Row *)in + 1, want + 4, false);
		int rc = run(0, 128, seed);
		ck_assert_msg(rc == SIM_OK, "%s", err);
		compare(product.text, want);
	}
	discard();
}
END_TEST

/* Extra bank cycles: groups of lanes that are served together, less one for each distinct word of the fullest bank. */
START_TEST(bank_conflicts)
{
	static const struct { const char *text; unsigned conflicts[2]; } cases[] = {
		{"v_lshlrev_b32 v2, 7, v0\n ds_read_b32 v66, v2", {62, 62}},        /* one bank: 2 groups of 32 */
		{"v_mov_b32 v2, 0\n ds_read_b32 v66, v2", {0, 0}},                  /* one word */
		{LANE16 "ds_read_b128 v[66:69], v2", {0, 0}},
		{"v_lshlrev_b32 v2, 8, v0\n ds_read_b128 v[66:69], v2", {56, 60}},  /* 8 groups of 8; 4 groups of 16 */
		{"v_lshlrev_b32 v2, 7, v0\n ds_read_b64 v[66:67], v2", {60, 30}}, /* 4 groups of 16; 2 of 32 on twice the banks */
		{"v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, v[8:9]", {0, 0}},
		{"v_lshlrev_b32 v2, 3, v0\n ds_write_b32 v2, v8", {2, 2}},          /* every second bank twice */
		{"v_lshlrev_b32 v2, 3, v0\n ds_read2_b32 v[66:67], v2 offset1:1", {4, 4}},
	};
	enum { CASES = sizeof cases / sizeof *cases };
	const char *texts[CASES];
	for (int i = 0; i < CASES; i++)
		texts[i] = cases[i].text;
	assemble(_i ? "gfx950" : "gfx942", texts, CASES);
	for (int i = 0; i < CASES; i++) {
		int rc = run(i, 64, 0);
		ck_assert_msg(rc == SIM_OK, "%s", err);
		ck_assert_msg(stats.lds_conflicts == cases[i].conflicts[_i], "%s: %llu conflicts, expected %u", texts[i],
			(unsigned long long)stats.lds_conflicts, cases[i].conflicts[_i]);
	}
	discard();
}
END_TEST

/* ---- launches ---- */

enum { N = 4096 };
static uint32_t *data;

static void load(const char *file, const char *chip)
{
	size_t size;
	uint8_t *bytes = sim_build(file, chip, "", &size);
	int rc = sim_object_load(&object, sim_chip_by_name(chip), bytes, size, err, sizeof err);
	ck_assert_msg(rc == SIM_OK, "%s", err);
	free(bytes);
	data = calloc(N, 4);
	memory = sim_memory_new();
	sim_memory_add(memory, data, 256 * 4 * 12, "data", true);
	sim_object_map(object, memory);
}

static void unload(void)
{
	sim_object_free(object);
	sim_memory_free(memory);
	free(data);
}

static int launch(const char *name, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint64_t seed)
{
	uint64_t args[64] = {(uint64_t)(uintptr_t)data};
	const struct sim_kernel *k = sim_object_kernel(object, name);
	ck_assert_msg(k != NULL, "no kernel %s", name);
	struct sim_launch l = {.object = object, .kernel = k, .memory = memory, .grid = {gx, gy, gz}, .block = {bx, by, bz},
	                       .kernarg = args, .kernarg_size = sizeof args, .threads = 2, .seed = seed, .stats = &stats};
	memset(&stats, 0, sizeof stats);
	memset(data, 0, N * 4);
	if (strcmp(name, "endless") == 0)
		l.max_inst = 100000;
	if (strcmp(name, "index") == 0)
		for (int i = 0; i < N; i++)
			data[i] = (uint32_t)i;
	if (strcmp(name, "mirror") == 0 || strcmp(name, "index") == 0)
		args[1] = 5;
	sim_kernarg_hidden(k, l.grid, l.block, 0, args);
	return sim_run(&l, err, sizeof err);
}

static void good(int rc)
{
	ck_assert_msg(rc == SIM_OK, "%s", err);
}

static const char *const chips[] = {"gfx942", "gfx950"};

START_TEST(ids)
{
	load("launch", chips[_i]);
	good(launch("ids", 2, 3, 2, 8, 4, 4, 0));
	for (unsigned n = 0; n < 12 * 128; n++) {
		unsigned g = n / 128, t = n % 128;
		ck_assert_uint_eq(data[n], g % 2 | g / 2 % 3 << 4 | g / 6 << 8 | t % 8 << 12 | t / 8 % 4 << 16 | t / 32 << 20);
	}
	ck_assert_uint_eq(stats.waves, 24);
	ck_assert_uint_eq(stats.workgroups, 12);
	ck_assert_uint_eq(stats.global_written, 12 * 128 * 4);
	unload();
}
END_TEST

START_TEST(workgroups)
{
	load("launch", chips[_i]);
	good(launch("count", 7, 1, 1, 256, 1, 1, 0));
	ck_assert_uint_eq(data[0], 7 * 256);
	ck_assert_uint_eq(data[1], 7 * 256 - 1);
	for (uint64_t seed = 0; seed < 4; seed++) {
		good(launch("waves", 1, 1, 1, 256, 1, 1, seed));
		for (unsigned i = 0; i < 256; i++) { /* sums of binomials over the four waves */
			unsigned v[4] = {i, (i + 64) & 255, (i + 128) & 255, (i + 192) & 255};
			ck_assert_uint_eq(data[i], v[0] * 2 + v[1] * 4 + v[2] * 6 + v[3] * 4);
		}
	}
	good(launch("early", 1, 1, 1, 256, 1, 1, 0));
	ck_assert_uint_eq(data[127], 0);
	ck_assert_uint_eq(data[128], 7);
	good(launch("flat", 1, 1, 1, 256, 1, 1, 0));
	for (unsigned i = 0; i < 256; i++)
		ck_assert_uint_eq(data[i], 100 + i);
	good(launch("index", 1, 1, 1, 128, 1, 1, 0));
	for (unsigned i = 0; i < 128; i++)
		for (unsigned e = 0; e < 16; e++) { /* element 5 + 1000 goes to element 12, element i % 16 to element 0 */
			unsigned from = e ? e : i % 16;
			ck_assert_uint_eq(data[16 * i + e], from == 12 ? 16 * i + 5 + 1000 : 16 * i + from);
		}
	good(launch("count", 1, 1, 1, 33, 1, 1, 0)); /* a wave that is not full */
	ck_assert_uint_eq(data[0], 33);
	unload();
	load("vector", chips[_i]);
	good(launch("mirror", 1, 1, 1, 256, 1, 1, 0)); /* preloaded arguments, scratch, LDS */
	for (unsigned i = 0; i < 256; i++)
		ck_assert_uint_eq(data[i], (i ^ 255) + 5);
	unload();
}
END_TEST

START_TEST(failures)
{
	load("launch", chips[_i]);
	sim_memory_remove(memory, data);
	sim_memory_add(memory, data, 1024, "data", true);
	ck_assert_int_eq(launch("beyond", 1, 1, 1, 256, 1, 1, 0), SIM_EFAULT);
	ck_assert_ptr_nonnull(strstr(err, "beyond: global_store_dword"));
	ck_assert_ptr_nonnull(strstr(err, "wave 3 lane 63"));
	ck_assert_ptr_nonnull(strstr(err, "past the end of 'data' (1024 bytes)"));
	ck_assert_int_eq(launch("endless", 1, 1, 1, 64, 1, 1, 0), SIM_EHANG);
	ck_assert_ptr_nonnull(strstr(err, "does not end"));
	ck_assert_int_eq(launch("count", 1, 1, 1, 512, 1, 1, 0), SIM_ELAUNCH);
	uint32_t *code = (uint32_t *)(object->image + sim_object_kernel(object, "count")->entry);
	*code = 0xbf7f0000; /* SOPC opcode 127 */
	ck_assert_int_eq(launch("count", 1, 1, 1, 64, 1, 1, 0), SIM_EINST);
	ck_assert_ptr_nonnull(strstr(err, "bf7f0000"));
	unload();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim_exec");
	TCase *one = tcase_create("instructions");
	tcase_set_timeout(one, 120);
	tcase_add_test(one, instructions_gfx942);
	tcase_add_test(one, instructions_gfx950);
	tcase_add_test(one, matrix_operands_of_two_waves);
	tcase_add_loop_test(one, bank_conflicts, 0, 2);
	suite_add_tcase(s, one);
	TCase *launches = tcase_create("launches");
	tcase_set_timeout(launches, 120);
	tcase_add_loop_test(launches, ids, 0, 2);
	tcase_add_loop_test(launches, workgroups, 0, 2);
	tcase_add_loop_test(launches, failures, 0, 2);
	suite_add_tcase(s, launches);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
