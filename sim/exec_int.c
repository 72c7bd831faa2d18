/* exec_int.c -- integer vector arithmetic of 16, 32 and 64 bits, shifts, bit fields, carries.
 *
 * In: rows of 64 lanes.  Out: a row, and lane masks for carries.  Every case is one loop over the lanes without
 * branches, which the compiler turns into vector code.  16-bit sources arrive with op_sel applied, upper half undefined. */
#pragma GCC optimize("O3")
#include "exec.h"

#define EACH(expr) do { _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++) d[i] = (uint32_t)(expr); } while (0)
#define S(x) ((int32_t)(x))
#define H(x) ((uint32_t)(uint16_t)(x))
#define SH(x) ((int32_t)(int16_t)(x))
#define U24(x) ((x) & 0xffffffu)
#define S24(x) ((int32_t)((x) << 8) >> 8)

static inline uint32_t bfe_u(uint32_t v, uint32_t offset, uint32_t width)
{
	offset &= 31;
	width &= 31;
	return v >> offset & ((1u << width) - 1);
}

static inline uint32_t bfe_i(uint32_t v, uint32_t offset, uint32_t width)
{
	offset &= 31;
	width &= 31;
	if (width == 0)
		return 0;
	if (offset + width >= 32)
		return (uint32_t)(S(v) >> offset);
	return (uint32_t)(S(v << (32 - offset - width)) >> (32 - width));
}

static inline uint32_t perm_byte(uint64_t data, uint32_t sel)
{
	if (sel > 12)
		return 0xff;
	if (sel == 12)
		return 0;
	if (sel >= 8) /* sign of byte 1, 3, 5, 7 */
		return data >> (16 * (sel - 8) + 15) & 1 ? 0xff : 0;
	return data >> (8 * sel) & 0xff;
}

static inline uint32_t perm(uint32_t a, uint32_t b, uint32_t s)
{
	uint64_t data = (uint64_t)a << 32 | b;
	uint32_t r = 0;
	for (int k = 0; k < 4; k++)
		r |= perm_byte(data, s >> (8 * k) & 0xff) << (8 * k);
	return r;
}

/* Which of four shader engines a rectangle of 32 x 32 tiles touches: bits 1:0 of its coordinates x0 y0 x1 y1, from the top,
 * which wrap; the engine of tile (x, y) is {x[0] ^ y[1], y[0] ^ x[1]}. */
static uint32_t engines(uint32_t box)
{
	uint32_t x0 = box >> 6 & 3, y0 = box >> 4 & 3, x1 = box >> 2 & 3, y1 = box & 3, r = 0;
	for (uint32_t x = x0; x <= x0 + ((x1 - x0) & 3); x++)
		for (uint32_t y = y0; y <= y0 + ((y1 - y0) & 3); y++)
			r |= 1u << (((x ^ y >> 1) & 1) << 1 | ((y ^ x >> 1) & 1));
	return r;
}

static inline uint32_t sad_u8(uint32_t a, uint32_t b, uint32_t c, bool masked)
{
	for (int k = 0; k < 4; k++) {
		int x = a >> (8 * k) & 0xff, y = b >> (8 * k) & 0xff;
		if (!masked || y)
			c += (uint32_t)(x > y ? x - y : y - x);
	}
	return c;
}

static inline uint32_t distance(uint32_t x, uint32_t y) { return x > y ? x - y : y - x; }
static inline uint32_t sad_u16(uint32_t a, uint32_t b) { return distance(a & 0xffff, b & 0xffff) + distance(a >> 16, b >> 16); }
static inline uint32_t add_sat(uint32_t a, uint32_t b) { return a + b < a ? ~0u : a + b; }

static inline uint32_t lerp(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t r = 0;
	for (int k = 0; k < 32; k += 8)
		r |= (((a >> k & 0xff) + (b >> k & 0xff) + (c >> k & 1)) >> 1 & 0xff) << k;
	return r;
}

static inline uint32_t reverse(uint32_t v)
{
	v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
	v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
	v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
	return __builtin_bswap32(v);
}

static inline uint32_t min_u(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t max_u(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline int32_t min_i(int32_t a, int32_t b) { return a < b ? a : b; }
static inline int32_t max_i(int32_t a, int32_t b) { return a > b ? a : b; }
static inline uint32_t med_u(uint32_t a, uint32_t b, uint32_t c) { return max_u(min_u(a, b), min_u(max_u(a, b), c)); }
static inline int32_t med_i(int32_t a, int32_t b, int32_t c) { return max_i(min_i(a, b), min_i(max_i(a, b), c)); }
static inline int32_t sat(int64_t v, int64_t lo, int64_t hi) { return (int32_t)(v < lo ? lo : v > hi ? hi : v); }

static inline uint32_t bitop3(uint32_t a, uint32_t b, uint32_t c, unsigned table)
{
	uint32_t r = 0;
	for (int k = 0; k < 8; k++)
		if (table >> k & 1)
			r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
	return r;
}

static uint64_t carry_in(struct sim_wave *w, const struct sim_inst *in)
{
	return sim_scalar(w, &in->src[2]);
}

/* Additions and subtractions with carry masks.  The mask of inactive lanes is 0. */
static void carry_op(struct sim_wave *w, const struct sim_inst *in, const uint32_t *a, const uint32_t *b)
{
	uint32_t d[LANES];
	uint64_t out = 0, cin = 0;
	bool sub = true;
	switch (in->op) {
	case OP_v_addc_co_u32: cin = carry_in(w, in); sub = false; break;
	case OP_v_add_co_u32: sub = false; break;
	case OP_v_subb_co_u32: cin = carry_in(w, in); break;
	case OP_v_subbrev_co_u32: cin = carry_in(w, in); /* fall through */
	case OP_v_subrev_co_u32: { const uint32_t *t = a; a = b; b = t; break; }
	default: break;
	}
	for (int i = 0; i < LANES; i++) {
		uint64_t c = cin >> i & 1;
		uint64_t r = sub ? (uint64_t)a[i] - b[i] - c : (uint64_t)a[i] + b[i] + c;
		uint64_t o = r >> 32 & 1;
		d[i] = in->clamp && o ? (sub ? 0 : ~0u) : (uint32_t)r;
		out |= o << i;
	}
	sim_put32(w, in, d);
	sim_put_mask(w, in->sdst, out & sim_exec(w));
}

/* Four sums of absolute differences at byte offsets 0 to 3 into four registers. */
static void mqsad(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t bb[LANES], d[4][LANES], splat[LANES];
	uint64_t b64[LANES];
	const uint64_t *a = sim_src64(w, in, 0, b64);
	const uint32_t *b = sim_src32(w, in, 1, bb);
	const struct sim_src *s = &in->src[2];
	bool registers = s->kind == SRC_VGPR;
	if (in->vdst + 4u > w->nvgpr || (registers && s->reg + 4u > w->nvgpr)) {
		sim_fail(w, in, SIM_EINST, -1, "a register is beyond the %u allocated", w->nvgpr);
		return;
	}
	for (int k = 0; k < 4; k++) {
		uint32_t scalar = s->kind == SRC_SGPR && s->reg + k < REG_EXEC ? w->sgpr[s->reg + k] : (uint32_t)sim_scalar(w, s);
		for (int i = 0; i < LANES; i++)
			splat[i] = scalar;
		const uint32_t *c = registers ? w->vgpr[s->reg + k] : splat;
		for (int i = 0; i < LANES; i++) {
			uint64_t sum = (uint64_t)sad_u8((uint32_t)(a[i] >> (8 * k)), b[i], 0, true) + c[i];
			d[k][i] = in->clamp && sum >> 32 ? ~0u : (uint32_t)sum;
		}
	}
	for (int k = 0; k < 4; k++)
		sim_put_row(w, in->vdst + (uint32_t)k, d[k], sim_exec(w));
}

static void int64_op(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES];
	uint64_t b64[LANES], c64[LANES], d[LANES];
	switch (in->op) {
	case OP_v_mad_u64_u32: case OP_v_mad_i64_i32: {
		const uint32_t *a = sim_src32(w, in, 0, ba), *b = sim_src32(w, in, 1, bb);
		const uint64_t *c = sim_src64(w, in, 2, c64);
		uint64_t out = 0;
		bool sign = in->op == OP_v_mad_i64_i32;
		for (int i = 0; i < LANES; i++) {
			uint64_t p = sign ? (uint64_t)((int64_t)S(a[i]) * S(b[i])) : (uint64_t)a[i] * b[i];
			d[i] = p + c[i];
			bool over = sign ? (~(p ^ c[i]) & (p ^ d[i])) >> 63 : d[i] < p;
			out |= (uint64_t)over << i;
			if (in->clamp && over)
				d[i] = !sign ? ~UINT64_C(0) : p >> 63 ? UINT64_C(1) << 63 : INT64_MAX;
		}
		sim_put64(w, in, d);
		sim_put_mask(w, in->sdst, out & sim_exec(w));
		return;
	}
	case OP_v_lshl_add_u64: {
		const uint64_t *a = sim_src64(w, in, 0, b64), *c = sim_src64(w, in, 2, c64);
		const uint32_t *b = sim_src32(w, in, 1, bb);
		for (int i = 0; i < LANES; i++)
			d[i] = (a[i] << (b[i] & 7)) + c[i];
		break;
	}
	case OP_v_lshlrev_b64: case OP_v_lshrrev_b64: case OP_v_ashrrev_i64: {
		const uint32_t *a = sim_src32(w, in, 0, ba);
		const uint64_t *b = sim_src64(w, in, 1, b64);
		for (int i = 0; i < LANES; i++) {
			unsigned n = a[i] & 63;
			d[i] = in->op == OP_v_lshlrev_b64 ? b[i] << n : in->op == OP_v_lshrrev_b64 ? b[i] >> n : (uint64_t)((int64_t)b[i] >> n);
		}
		break;
	}
	case OP_v_qsad_pk_u16_u8: case OP_v_mqsad_pk_u16_u8: {
		const uint64_t *a = sim_src64(w, in, 0, b64), *c = sim_src64(w, in, 2, c64);
		const uint32_t *b = sim_src32(w, in, 1, bb);
		for (int i = 0; i < LANES; i++) {
			d[i] = 0;
			for (int k = 0; k < 4; k++) {
				uint32_t s = sad_u8((uint32_t)(a[i] >> (8 * k)), b[i], (uint32_t)(c[i] >> (16 * k)) & 0xffff, in->op == OP_v_mqsad_pk_u16_u8);
				d[i] |= (uint64_t)(in->clamp && s > 0xffff ? 0xffff : s & 0xffff) << (16 * k);
			}
		}
		break;
	}
	case OP_v_mqsad_u32_u8: mqsad(w, in); return;
	default: sim_unknown(w, in); return;
	}
	sim_put64(w, in, d);
}

/* Opcodes whose clamp bit saturates the integer result.  Returns false when the opcode has no such form. */
static bool clamped(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	switch (in->op) {
	case OP_v_add_u32: EACH(a[i] + b[i] < a[i] ? ~0u : a[i] + b[i]); return true;
	case OP_v_sub_u32: EACH(a[i] < b[i] ? 0 : a[i] - b[i]); return true;
	case OP_v_subrev_u32: EACH(b[i] < a[i] ? 0 : b[i] - a[i]); return true;
	case OP_v_add_i32: EACH(sat((int64_t)S(a[i]) + S(b[i]), INT32_MIN, INT32_MAX)); return true;
	case OP_v_sub_i32: EACH(sat((int64_t)S(a[i]) - S(b[i]), INT32_MIN, INT32_MAX)); return true;
	case OP_v_add_u16: EACH(min_u(H(a[i]) + H(b[i]), 0xffff)); return true;
	case OP_v_sub_u16: EACH(max_i((int32_t)H(a[i]) - (int32_t)H(b[i]), 0)); return true;
	case OP_v_subrev_u16: EACH(max_i((int32_t)H(b[i]) - (int32_t)H(a[i]), 0)); return true;
	case OP_v_add_i16: EACH(sat(SH(a[i]) + SH(b[i]), -32768, 32767)); return true;
	case OP_v_sub_i16: EACH(sat(SH(a[i]) - SH(b[i]), -32768, 32767)); return true;
	case OP_v_mad_u16: EACH(min_u(H(a[i]) * H(b[i]) + H(c[i]), 0xffff)); return true;
	case OP_v_mad_i16: EACH(sat((int64_t)SH(a[i]) * SH(b[i]) + SH(c[i]), -32768, 32767)); return true;
	case OP_v_mad_u32_u24: EACH((uint64_t)U24(a[i]) * U24(b[i]) + c[i] > ~0u ? ~0u : U24(a[i]) * U24(b[i]) + c[i]); return true;
	case OP_v_mad_i32_i24: EACH(sat((int64_t)S24(a[i]) * S24(b[i]) + S(c[i]), INT32_MIN, INT32_MAX)); return true;
	case OP_v_mad_legacy_u16: EACH(min_u(H(a[i]) * H(b[i]) + H(c[i]), 0xffff)); return true;
	case OP_v_mad_legacy_i16: EACH(sat((int64_t)SH(a[i]) * SH(b[i]) + SH(c[i]), -32768, 32767)); return true;
	case OP_v_mad_u32_u16: EACH((uint64_t)H(a[i]) * H(b[i]) + c[i] > ~0u ? ~0u : H(a[i]) * H(b[i]) + c[i]); return true;
	case OP_v_mad_i32_i16: EACH(sat((int64_t)SH(a[i]) * SH(b[i]) + S(c[i]), INT32_MIN, INT32_MAX)); return true;
	case OP_v_sad_u8: EACH(add_sat(sad_u8(a[i], b[i], 0, false), c[i])); return true;
	case OP_v_msad_u8: EACH(add_sat(sad_u8(a[i], b[i], 0, true), c[i])); return true;
	case OP_v_sad_hi_u8: EACH(add_sat(sad_u8(a[i], b[i], 0, false) << 16, c[i])); return true;
	case OP_v_sad_u16: EACH(add_sat(sad_u16(a[i], b[i]), c[i])); return true;
	case OP_v_sad_u32: EACH(add_sat(max_u(a[i], b[i]) - min_u(a[i], b[i]), c[i])); return true;
	default: return false;
	}
}

static SIM_LANES_FN bool op16(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	switch (in->op) {
	case OP_v_add_u16: case OP_v_add_i16: EACH(a[i] + b[i]); return true;
	case OP_v_sub_u16: case OP_v_sub_i16: EACH(a[i] - b[i]); return true;
	case OP_v_subrev_u16: EACH(b[i] - a[i]); return true;
	case OP_v_mul_lo_u16: EACH(H(a[i]) * H(b[i])); return true;
	case OP_v_lshlrev_b16: EACH(H(b[i]) << (a[i] & 15)); return true;
	case OP_v_lshrrev_b16: EACH(H(b[i]) >> (a[i] & 15)); return true;
	case OP_v_ashrrev_i16: EACH(SH(b[i]) >> (a[i] & 15)); return true;
	case OP_v_max_u16: EACH(max_u(H(a[i]), H(b[i]))); return true;
	case OP_v_min_u16: EACH(min_u(H(a[i]), H(b[i]))); return true;
	case OP_v_max_i16: EACH(max_i(SH(a[i]), SH(b[i]))); return true;
	case OP_v_min_i16: EACH(min_i(SH(a[i]), SH(b[i]))); return true;
	case OP_v_min3_i16: EACH(min_i(min_i(SH(a[i]), SH(b[i])), SH(c[i]))); return true;
	case OP_v_min3_u16: EACH(min_u(min_u(H(a[i]), H(b[i])), H(c[i]))); return true;
	case OP_v_max3_i16: EACH(max_i(max_i(SH(a[i]), SH(b[i])), SH(c[i]))); return true;
	case OP_v_max3_u16: EACH(max_u(max_u(H(a[i]), H(b[i])), H(c[i]))); return true;
	case OP_v_med3_i16: EACH(med_i(SH(a[i]), SH(b[i]), SH(c[i]))); return true;
	case OP_v_med3_u16: EACH(med_u(H(a[i]), H(b[i]), H(c[i]))); return true;
	case OP_v_mad_u16: case OP_v_mad_i16: case OP_v_mad_legacy_u16: case OP_v_mad_legacy_i16:
		EACH(H(a[i]) * H(b[i]) + c[i]); return true;
	case OP_v_mad_u32_u16: EACH(H(a[i]) * H(b[i]) + c[i]); return true;
	case OP_v_mad_i32_i16: EACH(SH(a[i]) * SH(b[i]) + S(c[i])); return true;
	case OP_v_bitop3_b16: EACH(bitop3(a[i], b[i], c[i], in->bitop)); return true;
	default: return false;
	}
}

static SIM_LANES_FN bool op32(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	switch (in->op) {
	case OP_v_add_u32: case OP_v_add_i32: EACH(a[i] + b[i]); return true;
	case OP_v_sub_u32: case OP_v_sub_i32: EACH(a[i] - b[i]); return true;
	case OP_v_subrev_u32: EACH(b[i] - a[i]); return true;
	case OP_v_mul_i32_i24: EACH((uint32_t)S24(a[i]) * (uint32_t)S24(b[i])); return true;
	case OP_v_mul_hi_i32_i24: EACH((uint64_t)((int64_t)S24(a[i]) * S24(b[i])) >> 32); return true;
	case OP_v_mul_u32_u24: EACH(U24(a[i]) * U24(b[i])); return true;
	case OP_v_mul_hi_u32_u24: EACH((uint64_t)U24(a[i]) * U24(b[i]) >> 32); return true;
	case OP_v_mul_lo_u32: EACH(a[i] * b[i]); return true;
	case OP_v_mul_hi_u32: EACH((uint64_t)a[i] * b[i] >> 32); return true;
	case OP_v_mul_hi_i32: EACH((uint64_t)((int64_t)S(a[i]) * S(b[i])) >> 32); return true;
	case OP_v_mad_i32_i24: EACH((uint32_t)S24(a[i]) * (uint32_t)S24(b[i]) + c[i]); return true;
	case OP_v_mad_u32_u24: EACH(U24(a[i]) * U24(b[i]) + c[i]); return true;
	case OP_v_min_i32: EACH(min_i(S(a[i]), S(b[i]))); return true;
	case OP_v_max_i32: EACH(max_i(S(a[i]), S(b[i]))); return true;
	case OP_v_min_u32: EACH(min_u(a[i], b[i])); return true;
	case OP_v_max_u32: EACH(max_u(a[i], b[i])); return true;
	case OP_v_min3_i32: EACH(min_i(min_i(S(a[i]), S(b[i])), S(c[i]))); return true;
	case OP_v_min3_u32: EACH(min_u(min_u(a[i], b[i]), c[i])); return true;
	case OP_v_max3_i32: EACH(max_i(max_i(S(a[i]), S(b[i])), S(c[i]))); return true;
	case OP_v_max3_u32: EACH(max_u(max_u(a[i], b[i]), c[i])); return true;
	case OP_v_screen_partition_4se_b32: EACH(engines(a[i])); return true;
	case OP_v_med3_i32: EACH(med_i(S(a[i]), S(b[i]), S(c[i]))); return true;
	case OP_v_med3_u32: EACH(med_u(a[i], b[i], c[i])); return true;
	case OP_v_lshrrev_b32: EACH(b[i] >> (a[i] & 31)); return true;
	case OP_v_ashrrev_i32: EACH(S(b[i]) >> (a[i] & 31)); return true;
	case OP_v_lshlrev_b32: EACH(b[i] << (a[i] & 31)); return true;
	case OP_v_and_b32: EACH(a[i] & b[i]); return true;
	case OP_v_or_b32: EACH(a[i] | b[i]); return true;
	case OP_v_xor_b32: EACH(a[i] ^ b[i]); return true;
	case OP_v_xnor_b32: EACH(~(a[i] ^ b[i])); return true;
	case OP_v_not_b32: EACH(~a[i]); return true;
	case OP_v_bfrev_b32: EACH(reverse(a[i])); return true;
	case OP_v_bfm_b32: EACH(((1u << (a[i] & 31)) - 1) << (b[i] & 31)); return true;
	case OP_v_bfe_u32: EACH(bfe_u(a[i], b[i], c[i])); return true;
	case OP_v_bfe_i32: EACH(bfe_i(a[i], b[i], c[i])); return true;
	case OP_v_bfi_b32: EACH((a[i] & b[i]) | (~a[i] & c[i])); return true;
	case OP_v_alignbit_b32: EACH(((uint64_t)a[i] << 32 | b[i]) >> (c[i] & 31)); return true;
	case OP_v_alignbyte_b32: EACH(((uint64_t)a[i] << 32 | b[i]) >> (8 * (c[i] & 3))); return true;
	case OP_v_perm_b32: EACH(perm(a[i], b[i], c[i])); return true;
	case OP_v_xad_u32: EACH((a[i] ^ b[i]) + c[i]); return true;
	case OP_v_lshl_add_u32: EACH((a[i] << (b[i] & 31)) + c[i]); return true;
	case OP_v_add_lshl_u32: EACH((a[i] + b[i]) << (c[i] & 31)); return true;
	case OP_v_add3_u32: EACH(a[i] + b[i] + c[i]); return true;
	case OP_v_lshl_or_b32: EACH(a[i] << (b[i] & 31) | c[i]); return true;
	case OP_v_and_or_b32: EACH((a[i] & b[i]) | c[i]); return true;
	case OP_v_or3_b32: EACH(a[i] | b[i] | c[i]); return true;
	case OP_v_bitop3_b32: EACH(bitop3(a[i], b[i], c[i], in->bitop)); return true;
	case OP_v_lerp_u8: EACH(lerp(a[i], b[i], c[i])); return true;
	case OP_v_sad_u8: EACH(sad_u8(a[i], b[i], c[i], false)); return true;
	case OP_v_sad_hi_u8: EACH((sad_u8(a[i], b[i], 0, false) << 16) + c[i]); return true;
	case OP_v_msad_u8: EACH(sad_u8(a[i], b[i], c[i], true)); return true;
	case OP_v_sad_u16:
		EACH(sad_u16(a[i], b[i]) + c[i]);
		return true;
	case OP_v_sad_u32: EACH((a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]) + c[i]); return true;
	case OP_v_ffbh_u32: EACH(a[i] ? __builtin_clz(a[i]) : -1); return true;
	case OP_v_ffbl_b32: EACH(a[i] ? __builtin_ctz(a[i]) : -1); return true;
	case OP_v_ffbh_i32: EACH(a[i] == 0 || a[i] == ~0u ? -1 : __builtin_clz(S(a[i]) < 0 ? ~a[i] : a[i])); return true;
	case OP_v_bcnt_u32_b32: EACH((uint32_t)__builtin_popcount(a[i]) + b[i]); return true;
	case OP_v_mbcnt_lo_u32_b32:
		EACH((uint32_t)__builtin_popcount(a[i] & (i < 32 ? (1u << (i & 31)) - 1 : ~0u)) + b[i]); return true;
	case OP_v_mbcnt_hi_u32_b32:
		EACH((uint32_t)__builtin_popcount(a[i] & (i < 32 ? 0 : (1u << (i & 31)) - 1)) + b[i]); return true;
	default: return false;
	}
}

void exec_int(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES], bc[LANES], bd[LANES];
	if (in->dtype == 'l' || in->dtype == 'w') {
		int64_op(w, in);
		return;
	}
	const uint32_t *a = sim_src32(w, in, 0, ba);
	const uint32_t *b = in->nsrc > 1 ? sim_src32(w, in, 1, bb) : a;
	if (in->op >= OP_v_add_co_u32 && in->op <= OP_v_subbrev_co_u32) {
		carry_op(w, in, a, b);
		return;
	}
	const uint32_t *c = in->nsrc > 2 ? sim_src32(w, in, 2, bc) : a;
	uint32_t *d = sim_dst32(w, in, bd);
	bool half = in->dtype == 's' || (in->nsrc > 0 && in->src[0].type == 's');
	bool known = !in->omod && (in->clamp ? clamped(in, a, b, c, d) : half ? op16(in, a, b, c, d) : op32(in, a, b, c, d));
	if (!known)
		sim_unknown(w, in);
	else
		sim_put32(w, in, d);
}
