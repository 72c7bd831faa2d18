/* sim_exec_more.h -- further rows of sim_exec_test.c: modes of rounding and denormals, typed and swizzled buffers, scalar
 * memory, rarer LDS instructions, six-bit floats, forks and skips.  Included there once, after its helpers.
 *
 * Rounding is checked against the host's own rounding modes, which the simulator does not use; six-bit floats against a
 * search for the nearest of all codes. */
#include <fenv.h>

static uint64_t pair_of(const Row *x, int r, int l) { return x[r][l] | (uint64_t)x[r + 1][l] << 32; }
static double df(uint64_t v) { double d; memcpy(&d, &v, 8); return d; }
static void put_f64(Row *y, int r, int l, double d) { uint64_t v; memcpy(&v, &d, 8); y[r][l] = (uint32_t)v; y[r + 1][l] = (uint32_t)(v >> 32); }

/* The neighbour of the exact value that a mode asks for, among halves. */
static uint32_t half_toward(double exact, int mode)
{
	uint32_t c = h((float)exact);
	bool low = (double)hf(c) < exact, high = (double)hf(c) > exact, neg = exact < 0;
	bool up = mode == FE_UPWARD || (mode == FE_TOWARDZERO && neg);
	return low && up ? c + (neg ? -1u : 1) : high && !up ? c + (neg ? 1 : -1u) : c;
}

static void rounded(const Row *x, Row *y, int mode)
{
	fesetround(mode);
	for (int l = 0; l < L; l++) {
		volatile float a = f(x[0][l]), b = f(x[1][l]), c = f(x[2][l]), r;
		volatile double d = df(pair_of(x, 0, l)), e = df(pair_of(x, 2, l)), g = df(pair_of(x, 4, l)), q;
		volatile int32_t i = (int32_t)x[8][l];
		r = a + b, y[0][l] = u(r);
		r = a * b, y[1][l] = u(r);
		r = fmaf(a, b, c), y[2][l] = u(r);
		r = (float)i, y[3][l] = u(r);
		q = d + e, put_f64(y, 4, l, q);
		q = d * e, put_f64(y, 6, l, q);
		q = fma(d, e, g), put_f64(y, 8, l, q);
		r = (float)d, y[10][l] = u(r);
		r = a - a, y[12][l] = u(r);
		r = a * b, y[13][l] = u(r);
		r = c * c, y[14][l] = u(r);
	}
	fesetround(FE_TONEAREST);
	for (int l = 0; l < L; l++)
		y[11][l] = half_toward(f(x[0][l]), mode);
}
EXPECT(round_up) { UNUSED; rounded(x, y, FE_UPWARD); }
EXPECT(round_down) { UNUSED; rounded(x, y, FE_DOWNWARD); }
EXPECT(round_zero) { UNUSED; rounded(x, y, FE_TOWARDZERO); }
EXPECT(half_up)
{
	UNUSED;
	for (int l = 0; l < L; l++) {
		uint32_t a = x[8][l] & 0xbfffbfff, b = x[9][l] & 0xbfffbfff;
		y[0][l] = half_toward((double)hf(a) + hf(b), FE_UPWARD);
		y[1][l] = half_toward((double)hf(a) * hf(b), FE_UPWARD) | half_toward((double)hf(a >> 16) * hf(b >> 16), FE_UPWARD) << 16;
	}
}
/* Inputs and results flushed, f32 and f64 each by its own field. */
EXPECT(flush) { UNUSED; EACH(0, x[8][l] & 0x80000000); EACH(1, x[0][l] & 0x80000000); EACH(2, 0); EACH(3, x[8][l] & 0x80000000); EACH(4, 0x00000001); EACH(5, 0x00080000); EACH(6, x[0][l]); }
EXPECT(sad_clamped) { UNUSED; EACH(0, ~0u); EACH(1, ~0u); }
EXPECT(qsad)
{
	UNUSED;
	for (int l = 0; l < L; l++) {
		uint64_t a = pair_of(x, 8, l), c = pair_of(x, 12, l), r = 0;
		for (int k = 0; k < 4; k++) {
			uint32_t s = (uint32_t)(c >> 16 * k) & 0xffff, m = x[12 + k][l];
			for (int n = 0; n < 4; n++) {
				int p = (int)(a >> 8 * (k + n) & 255), q = (int)(x[10][l] >> 8 * n & 255);
				s += (uint32_t)abs(p - q);
				m += q ? (uint32_t)abs(p - q) : 0;
			}
			r |= (uint64_t)(s & 0xffff) << 16 * k;
			y[2 + k][l] = m;
		}
		y[0][l] = (uint32_t)r;
		y[1][l] = (uint32_t)(r >> 32);
	}
}
/* A direction is the major axis' half of cubema, and sc and tc are the other two coordinates. */
EXPECT(cube_map)
{
	UNUSED;
	for (int l = 0; l < L; l++) {
		float v[3] = {f(x[0][l]), f(x[1][l]), f(x[2][l])};
		int axis = fabsf(v[2]) >= fabsf(v[0]) && fabsf(v[2]) >= fabsf(v[1]) ? 2 : fabsf(v[1]) >= fabsf(v[0]) ? 1 : 0;
		bool neg = v[axis] < 0;
		float s[3] = {neg ? v[2] : -v[2], v[0], neg ? -v[0] : v[0]}, t[3] = {-v[1], neg ? -v[2] : v[2], -v[1]};
		y[0][l] = u((float)(2 * axis + neg));
		y[1][l] = u(s[axis]);
		y[2][l] = u(t[axis]);
		y[3][l] = u(2 * v[axis]);
	}
}
/* Three pieces of 2/pi add up to it. */
EXPECT(two_over_pi) { UNUSED; EACH(0, 0x6dc9c882); EACH(1, 0x3fe45f30); EACH(2, 1); }
EXPECT(typed) { UNUSED; for (int k = 0; k < 4; k++) { EACH(k, u((float)((x[0][l] >> 8 * k & 255) / 255.0))); EACH(4 + k, (uint32_t)(int8_t)(x[0][l] >> 8 * k)); } EACH(8, u(hf(x[0][l]))); EACH(9, u(hf(x[0][l] >> 16))); EACH(10, 0); EACH(11, u(1)); }
EXPECT(typed_half) { UNUSED; EACH(0, h((float)((x[0][l] & 255) / 255.0)) | h((float)((x[0][l] >> 8 & 255) / 255.0)) << 16); EACH(1, h((float)((x[0][l] >> 16 & 255) / 255.0)) | h((float)((x[0][l] >> 24) / 255.0)) << 16); }
EXPECT(typed_store) { UNUSED; EACH(0, x[8][l]); }
/* 64 records of 16 bytes, eight interleaved in elements of 4 */
EXPECT(swizzled) { UNUSED; for (int k = 0; k < 2; k++) for (int l = 0; l < 40; l++) { int at = l / 8 * 32 + (k + 1) * 8 + l % 8; y[k][l] = x[at / 64][at % 64]; } }
EXPECT(scalar_memory) { UNUSED; EACH(0, 41); EACH(1, 41); EACH(2, 43); EACH(3, 43); EACH(4, 7); EACH(5, 8); }
EXPECT(lds_rare)
{
	UNUSED;
	EACH(0, x[0][l]);          /* addtid */
	EACH(1, 1000);             /* append */
	EACH(2, 1064);             /* consume */
	EACH(3, 1000);
	EACH(4, x[0][l]);          /* wrxchg2: old values, then the new */
	EACH(5, x[1][l]);
	EACH(6, x[2][l]);
	EACH(7, x[3][l]);
	EACH(8, 10);               /* wrap: 10 >= 4 */
	EACH(9, 6);
	EACH(10, x[8][l]);         /* condxchg32 */
	EACH(11, x[9][l]);
	EACH(12, x[10][l] >> 31 ? x[10][l] & 0x7fffffff : x[8][l]);
	EACH(13, x[11][l] >> 31 ? x[11][l] & 0x7fffffff : x[9][l]);
}
EXPECT(scratch_to_lds) { UNUSED; EACH(0, x[0][l]); EACH(1, x[1][l]); }
EXPECT(relative_scalars) { UNUSED; EACH(0, 22); EACH(1, 33); }
EXPECT(skipped) { UNUSED; EACH(0, 0); EACH(1, 5); }
/* The lanes below 8 run 1 first, then the others 2 and go on; then all add 10. */
EXPECT(forked) { UNUSED; EACH(0, l < 8 ? 11 : 12); EACH(1, 56); }
EXPECT(byte_accumulated) { UNUSED; EACH(0, (x[8][l] & ~0xff00u) | 200u << 8); }

static float six_value(uint32_t c, int mbits, int bias)
{
	int e = (int)(c >> mbits) & ((1 << (5 - mbits)) - 1), m = (int)c & ((1 << mbits) - 1);
	return (c & 32 ? -1 : 1) * ldexpf((float)(e ? m + (1 << mbits) : m), (e ? e : 1) - bias - mbits);
}
static uint32_t six_nearest(double v, int mbits, int bias)
{
	uint32_t best = 0;
	for (uint32_t c = 1; c < 32; c++) {
		double d = fabs(fabs(v) - six_value(c, mbits, bias)), was = fabs(fabs(v) - six_value(best, mbits, bias));
		if (d < was || (d == was && !(c & 1)))
			best = c;
	}
	return best | (signbit(v) ? 32 : 0);
}
static void put_six(Row *y, int l, int k, uint32_t c)
{
	for (int b = 0; b < 6; b++)
		y[(6 * k + b) / 32][l] |= (c >> b & 1) << (6 * k + b) % 32;
}
EXPECT(six_from_f16)
{
	UNUSED;
	for (int l = 0; l < L; l++)
		for (int k = 0; k < 32; k++)
			put_six(y, l, k, six_nearest(ldexp(hf((x[8 + k / 2][l] & 0xbfffbfff) >> 16 * (k & 1)), 2), 3, 1));
}
EXPECT(six_in_turns)
{
	UNUSED;
	for (int l = 0; l < L; l++)
		for (int k = 0; k < 32; k++)
			put_six(y, l, k, six_nearest(ldexp(f(k & 1 ? u((float)(x[k / 2 % 8][l] >> 24)) : x[k / 2 % 8][l]), 3), 2, 3));
}
EXPECT(six_to_f32)
{
	UNUSED;
	for (int l = 0; l < L; l++)
		for (int k = 0; k < 32; k++) {
			uint64_t two = x[8 + 6 * k / 32][l] | (uint64_t)x[9 + 6 * k / 32][l] << 32;
			y[k][l] = u(ldexpf(six_value(two >> 6 * k % 32 & 63, 3, 1), 4));
		}
}

#define MODES(n) "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), " n "\n v_add_f32 v66, v8, v9\n v_mul_f32 v67, v8, v9\n v_fma_f32 v68, v8, v9, v10\n v_cvt_f32_i32 v69, v16\n" \
	" v_add_f64 v[70:71], v[8:9], v[10:11]\n v_mul_f64 v[72:73], v[8:9], v[10:11]\n v_fma_f64 v[74:75], v[8:9], v[10:11], v[12:13]\n v_cvt_f32_f64 v76, v[8:9]\n v_cvt_f16_f32 v77, v8\n" \
	" v_sub_f32 v78, v8, v8\n v_mov_b32 v2, v8\n v_mov_b32 v3, v10\n v_mov_b32 v4, v9\n v_mov_b32 v5, v10\n v_pk_mul_f32 v[2:3], v[2:3], v[4:5]\n v_mov_b32 v79, v2\n v_mov_b32 v80, v3"
#define SIX(n) "v_and_b32 v[16+" #n "], s14, v[16+" #n "]\n "
#define TURN(n) "v_mov_b32 v[24+" #n "], v[8+" #n "]\n v_mov_b32 v[32+" #n "], v[8+" #n "]\n v_cvt_f32_ubyte3 v[40+" #n "], v[8+" #n "]\n v_cvt_f32_ubyte3 v[48+" #n "], v[8+" #n "]\n "
#define MORE_ROWS \
	{MODES("5"), BOTH, round_up}, \
	{MODES("10"), BOTH, round_down}, \
	{MODES("15"), BOTH, round_zero}, \
	{"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 4\n s_mov_b32 s14, 0xbfffbfff\n v_and_b32 v2, s14, v16\n v_and_b32 v3, s14, v17\n v_add_f16 v66, v2, v3\n v_pk_mul_f16 v67, v2, v3", BOTH, half_up}, \
	{"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 4), 0\n s_mov_b32 s14, 0x80000000\n v_and_b32 v2, s14, v16\n v_or_b32 v2, 1, v2\n v_mul_f32 v66, 1.0, v2\n v_mul_f32 v67, 0x00800000, v8\n v_mul_f32 v67, 0x38000000, v67\n" \
	" v_mov_b32 v4, 1\n v_mov_b32 v5, 0x80000\n v_and_or_b32 v5, v16, s14, v5\n v_mul_f64 v[68:69], v[4:5], 1.0\n" \
	" s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 3\n v_mov_b32 v5, 0x80000\n v_add_f64 v[70:71], v[4:5], 0\n v_mul_f32 v72, 1.0, v8", BOTH, flush}, \
	{"v_sad_u8 v66, 0, -1, -2 clamp\n v_mad_u32_u16 v67, -1, -1, -1 clamp", BOTH, sad_clamped}, \
	{"v_mov_b32 v2, v18\n v_qsad_pk_u16_u8 v[66:67], v[16:17], v2, v[20:21]\n v_mqsad_u32_u8 v[68:71], v[16:17], v2, v[20:23]", BOTH, qsad}, \
	{"v_cubeid_f32 v66, v8, v9, v10\n v_cubesc_f32 v67, v8, v9, v10\n v_cubetc_f32 v68, v8, v9, v10\n v_cubema_f32 v69, v8, v9, v10", BOTH, cube_map}, \
	{"v_mov_b32 v2, 0\n v_mov_b32 v3, 1.0\n v_mov_b32 v6, 1\n v_trig_preop_f64 v[66:67], v[2:3], 0\n v_trig_preop_f64 v[4:5], v[2:3], v6\n v_cmp_lt_f64 vcc, 0, v[4:5]\n v_cndmask_b32 v68, 0, 1, vcc", BOTH, two_over_pi}, \
	{"s_mov_b32 s11, 0x27fac\n tbuffer_load_format_xyzw v[66:69], v1, s[8:11], 0 format:[BUF_DATA_FORMAT_8_8_8_8] offen\n" \
	 " tbuffer_load_format_xyzw v[70:73], v1, s[8:11], 0 format:[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_SINT] offen\n s_mov_b32 s10, 256\n s_mov_b32 s11, 0x2ffac\n buffer_load_format_xyzw v[74:77], v1, s[8:11], 0 offen", BOTH, typed}, \
	{"s_mov_b32 s11, 0x27fac\n tbuffer_load_format_d16_xyzw v[66:67], v1, s[8:11], 0 format:[BUF_DATA_FORMAT_8_8_8_8] offen", BOTH, typed_half}, \
	{"s_mov_b64 s[8:9], s[6:7]\n s_mov_b32 s11, 0x27fac\n v_and_b32 v2, 0xff, v16\n v_bfe_u32 v3, v16, 8, 8\n v_bfe_u32 v4, v16, 16, 8\n v_lshrrev_b32 v5, 24, v16\n" \
	 " tbuffer_store_format_xyzw v[2:5], v1, s[8:11], 0 format:[BUF_DATA_FORMAT_8_8_8_8,BUF_NUM_FORMAT_UINT] offen\n s_waitcnt vmcnt(0)\n global_load_dword v66, v1, s[6:7]", BOTH, typed_store}, \
	{"s_or_b32 s9, s9, 0x80100000\n s_mov_b32 s10, 40\n s_mov_b32 s11, 0x080000\n v_mov_b32 v2, v0\n v_mov_b32 v3, 4\n buffer_load_dwordx2 v[66:67], v[2:3], s[8:11], 0 idxen offen", BOTH, swizzled}, \
	{"s_mov_b32 s14, 41\n s_store_dword s14, s[6:7], 4\n s_load_dword s15, s[6:7], 4\n s_mov_b32 s16, 2\n s_atomic_add s16, s[6:7], 4 glc\n s_load_dword s17, s[6:7], 4\n s_mov_b64 s[8:9], s[6:7]\n" \
	 " s_mov_b32 s18, 7\n s_mov_b32 s19, 8\n s_buffer_store_dwordx2 s[18:19], s[8:11], 996\n s_scratch_load_dword s20, s[6:7], 0\n s_buffer_store_dwordx2 s[18:19], s[8:11], 8\n s_load_dwordx2 s[20:21], s[6:7], 8\n s_waitcnt lgkmcnt(0)\n" \
	 " v_mov_b32 v66, s15\n v_mov_b32 v67, s16\n v_mov_b32 v68, s17\n v_mov_b32 v69, s17\n v_mov_b32 v70, s20\n v_mov_b32 v71, s21", BOTH, scalar_memory}, \
	{"s_mov_b32 m0, 64\n ds_write_addtid_b32 v8 offset:16\n ds_read_addtid_b32 v66 offset:16\n v_mov_b32 v2, 1000\n v_mov_b32 v3, 8196\n ds_write_b32 v3, v2\n s_mov_b32 m0, 0x20000000\n ds_append v67 offset:4\n ds_consume v68 offset:4\n ds_read_b32 v69, v3\n" \
	 " ds_write2st64_b32 v1, v8, v9 offset0:4 offset1:5\n ds_wrxchg2st64_rtn_b32 v[70:71], v1, v10, v11 offset0:4 offset1:5\n ds_read2st64_b32 v[72:73], v1 offset0:4 offset1:5\n" \
	 " v_mov_b32 v2, 10\n v_mov_b32 v3, 4\n ds_write_b32 v1, v2\n ds_wrap_rtn_b32 v74, v1, v3, v3\n ds_read_b32 v75, v1\n" \
	 " v_lshlrev_b32 v2, 3, v0\n ds_write_b64 v2, v[16:17]\n ds_condxchg32_rtn_b64 v[76:77], v2, v[18:19]\n ds_read_b64 v[78:79], v2", BOTH, lds_rare}, \
	{"scratch_store_dword off, v8, off offset:4\n scratch_store_dword off, v9, off offset:8\n s_mov_b32 m0, 252\n s_waitcnt vmcnt(0)\n scratch_load_lds_dword off, off offset:4\n s_mov_b32 m0, 1016\n scratch_load_lds_dword off, off offset:8\n s_waitcnt vmcnt(0)\n" \
	 " ds_read_b32 v66, v1 offset:256\n ds_read_b32 v67, v1 offset:1024", BOTH, scratch_to_lds}, \
	{"s_mov_b32 s14, 11\n s_mov_b32 s15, 22\n s_mov_b32 m0, 1\n s_movrels_b32 s16, s14\n v_mov_b32 v66, s16\n s_mov_b32 s17, 33\n s_movreld_b32 s18, s17\n v_mov_b32 v67, s19", BOTH, relative_scalars}, \
	{"s_mov_b32 s14, 1\n s_setvskip s14, 0\n v_mov_b32 v66, 7\n s_mov_b32 s15, 5\n v_mov_b32 v67, 9\n s_setvskip s14, 1\n v_mov_b32 v67, s15", BOTH, skipped}, \
	{"v_mov_b32 v66, 0\n s_getpc_b64 s[32:33]\n .Lhere: s_add_u32 s32, s32, .Lpass-.Lhere\n s_addc_u32 s33, s33, 0\n s_mov_b32 s16, 0\n" \
	 " v_cmp_gt_u32 vcc, 8, v0\n s_cbranch_g_fork vcc, s[32:33]\n v_mov_b32 v66, 2\n s_branch .Ljoin\n .Lpass: v_mov_b32 v66, 1\n .Ljoin: s_cbranch_join s16\n s_bcnt1_i32_b64 s14, exec\n s_mov_b64 exec, -1\n v_add_u32 v66, 10, v66\n v_mov_b32 v67, s14", BOTH, forked}, \
	{"v_mov_b32 v66, v16\n v_mov_b32 v2, 0x43480000\n v_cvt_pkaccum_u8_f32 v66, v2, 1", BOTH, byte_accumulated}, \
	{"s_mov_b32 s14, 0xbfffbfff\n " SIX(0) SIX(1) SIX(2) SIX(3) SIX(4) SIX(5) SIX(6) SIX(7) SIX(8) SIX(9) SIX(10) SIX(11) SIX(12) SIX(13) SIX(14) SIX(15) \
	 "v_mov_b32 v2, 0.25\n v_cvt_scalef32_pk32_fp6_f16 v[66:71], v[16:31], v2", GFX950, six_from_f16}, \
	{TURN(0) TURN(1) TURN(2) TURN(3) TURN(4) TURN(5) TURN(6) TURN(7) "v_mov_b32 v2, 0x3e000000\n v_cvt_scalef32_2xpk16_bf6_f32 v[66:71], v[24:39], v[40:55], v2", GFX950, six_in_turns}, \
	{"v_mov_b32 v2, 0x41800000\n v_cvt_scalef32_pk32_f32_fp6 v[66:97], v[16:21], v2", GFX950, six_to_f32},
