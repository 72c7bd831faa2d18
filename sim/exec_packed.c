/* exec_packed.c -- VOP3P: pairs of f16, 16-bit integers and f32, mixed-precision multiply-add, dot products.
 *
 * In: rows of packed values; op_sel picks the half of each source for the low result, op_sel_hi for the high one; neg_lo and
 * neg_hi negate per half.  Out: a row, or two for f32 pairs. */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "exec.h"
#include "nan.h"

#include <math.h>

#define EACH(expr) do { for (int i = 0; i < LANES; i++) d[i] = (uint32_t)(expr); } while (0)

uint32_t sim_f16_fma(uint32_t a, uint32_t b, uint32_t c);

/* 16 bits of each lane of source k as the given half of the result sees them. */
static void half_of(const struct sim_inst *in, int k, bool high, bool flush, const uint32_t *row, uint32_t out[LANES])
{
	unsigned sel = high ? in->opsel_hi >> k & 1 : in->opsel >> k & 1;
	uint32_t flip = (high ? in->neg_hi : in->neg_lo) >> k & 1 && in->src[k].type == 'p' ? 0x8000 : 0;
	for (int i = 0; i < LANES; i++)
		out[i] = ((sel ? row[i] >> 16 : row[i]) & 0xffff) ^ flip;
	for (int i = 0; i < LANES && flush && in->src[k].type == 'p'; i++)
		out[i] = out[i] & 0x7c00 ? out[i] : out[i] & 0x8000;
}

static inline int32_t clamp16(int32_t v, bool sign)
{
	int32_t lo = sign ? -32768 : 0, hi = sign ? 32767 : 65535;
	return v < lo ? lo : v > hi ? hi : v;
}

#define W(x) sim_f16_to_f32(x)
#define S(x) ((int32_t)(int16_t)(x))
#define U(x) ((int32_t)(x))

static bool half_op(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c, bool ieee, uint32_t *d)
{
	bool k = in->clamp;
	switch (in->op) {
	case OP_v_pk_mad_i16: EACH(k ? clamp16(S(a[i]) * S(b[i]) + S(c[i]), true) : S(a[i]) * S(b[i]) + S(c[i])); return true;
	case OP_v_pk_mad_u16:
		EACH(k ? ((uint64_t)a[i] * b[i] + c[i] > 0xffff ? 0xffff : a[i] * b[i] + c[i]) : a[i] * b[i] + c[i]); return true;
	case OP_v_pk_mul_lo_u16: EACH(a[i] * b[i]); return true;
	case OP_v_pk_add_i16: EACH(k ? clamp16(S(a[i]) + S(b[i]), true) : S(a[i]) + S(b[i])); return true;
	case OP_v_pk_sub_i16: EACH(k ? clamp16(S(a[i]) - S(b[i]), true) : S(a[i]) - S(b[i])); return true;
	case OP_v_pk_add_u16: EACH(k ? clamp16(U(a[i]) + U(b[i]), false) : U(a[i]) + U(b[i])); return true;
	case OP_v_pk_sub_u16: EACH(k ? clamp16(U(a[i]) - U(b[i]), false) : U(a[i]) - U(b[i])); return true;
	case OP_v_pk_lshlrev_b16: EACH(b[i] << (a[i] & 15)); return true;
	case OP_v_pk_lshrrev_b16: EACH(b[i] >> (a[i] & 15)); return true;
	case OP_v_pk_ashrrev_i16: EACH(S(b[i]) >> (a[i] & 15)); return true;
	case OP_v_pk_max_i16: EACH(S(a[i]) > S(b[i]) ? a[i] : b[i]); return true;
	case OP_v_pk_min_i16: EACH(S(a[i]) < S(b[i]) ? a[i] : b[i]); return true;
	case OP_v_pk_max_u16: EACH(a[i] > b[i] ? a[i] : b[i]); return true;
	case OP_v_pk_min_u16: EACH(a[i] < b[i] ? a[i] : b[i]); return true;
	case OP_v_pk_fma_f16: case OP_v_pk_fmac_f16: EACH(sim_f16_fma(a[i], b[i], c[i])); return true;
	case OP_v_pk_add_f16: EACH(sim_f32_to_f16(nan2(W(a[i]) + W(b[i]), W(a[i]), W(b[i])))); return true;
	case OP_v_pk_mul_f16: EACH(sim_f32_to_f16(nan2(W(a[i]) * W(b[i]), W(a[i]), W(b[i])))); return true;
	case OP_v_pk_min_f16: EACH(sim_f32_to_f16(num_float(min_f32(num_bits(W(a[i])), num_bits(W(b[i])), ieee)))); return true;
	case OP_v_pk_max_f16: EACH(sim_f32_to_f16(num_float(max_f32(num_bits(W(a[i])), num_bits(W(b[i])), ieee)))); return true;
	case OP_v_pk_minimum3_f16:
		EACH(sim_f32_to_f16(num_float(minimum_f32(minimum_f32(num_bits(W(a[i])), num_bits(W(b[i]))), num_bits(W(c[i]))))));
		return true;
	case OP_v_pk_maximum3_f16:
		EACH(sim_f32_to_f16(num_float(maximum_f32(maximum_f32(num_bits(W(a[i])), num_bits(W(b[i]))), num_bits(W(c[i]))))));
		return true;
	default: return false;
	}
}

static inline float clamp01(const struct sim_wave *w, float x)
{
	return x != x ? (w->dx10_clamp ? 0 : x) : x > 1 ? 1 : x > 0 ? x : 0;
}

static SIM_LANES_FN void pair_f32(unsigned op, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	switch (op) {
	case OP_v_pk_add_f32:
		for (int i = 0; i < LANES; i++)
			d[i] = num_bits(nan2(num_float(a[i]) + num_float(b[i]), num_float(a[i]), num_float(b[i])));
		return;
	case OP_v_pk_mul_f32:
		for (int i = 0; i < LANES; i++)
			d[i] = num_bits(nan2(num_float(a[i]) * num_float(b[i]), num_float(a[i]), num_float(b[i])));
		return;
	default:
		for (int i = 0; i < LANES; i++) {
			float x = num_float(a[i]), y = num_float(b[i]), z = num_float(c[i]), r = __builtin_fmaf(x, y, z);
			d[i] = num_bits(r != r && x == x && y == y && z == z ? num_float(0x7fc00000u) : r);
		}
	}
}

static SIM_LANES_FN void pair_row(const uint32_t *row, uint32_t flip, bool flush, uint32_t *d)
{
	uint32_t all = flush ? 0 : 0x7f800000u; /* without flushing every value passes as a number with an exponent */
	for (int i = 0; i < LANES; i++)
		d[i] = ((row[i] | all) & 0x7f800000u ? row[i] : row[i] & 0x80000000u) ^ flip;
}

static SIM_LANES_FN void pair_fill(uint32_t v, uint32_t *d)
{
	for (int i = 0; i < LANES; i++)
		d[i] = v;
}

/* f32 pairs: half h of source k is one of its two registers, or of an SGPR pair; constants have no upper half. */
static const uint32_t *pair_source(struct sim_wave *w, const struct sim_inst *in, int k, bool high, uint32_t buf[LANES])
{
	const struct sim_src *s = &in->src[k];
	unsigned sel = high ? in->opsel_hi >> k & 1 : in->opsel >> k & 1;
	uint32_t flip = (high ? in->neg_hi : in->neg_lo) >> k & 1 ? 0x80000000u : 0;
	const uint32_t *row = NULL;
	uint32_t v = 0;
	if (s->kind == SRC_VGPR && s->reg + 1u < w->nvgpr)
		row = w->vgpr[s->reg + sel];
	else if (s->kind == SRC_VGPR)
		sim_fail(w, in, SIM_EINST, -1, "register v%u is beyond the %u allocated", s->reg + 1, w->nvgpr);
	else
		v = (uint32_t)(sim_scalar(w, s) >> (32 * sel));
	if (row && !flip && !w->flush_in)
		return row;
	if (row)
		pair_row(row, flip, w->flush_in, buf);
	else
		pair_fill((w->flush_in && !(v & 0x7f800000u) ? v & 0x80000000u : v) ^ flip, buf);
	return buf;
}

static void pairs(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t buf[3][LANES], d[2][LANES];
	uint64_t exec = sim_exec(w);
	if (in->vdst + 2u > w->nvgpr) {
		sim_fail(w, in, SIM_EINST, -1, "register v%u is beyond the %u allocated", in->vdst + 1u, w->nvgpr);
		return;
	}
	for (int h = 0; h < 2; h++) {
		if (in->op == OP_v_pk_mov_b32) { /* low from the first source, high from the second, both by op_sel */
			uint64_t v = in->src[h].kind == SRC_VGPR ? 0 : sim_scalar(w, &in->src[h]);
			unsigned sel = in->opsel >> h & 1;
			for (int i = 0; i < LANES; i++)
				d[h][i] = in->src[h].kind == SRC_VGPR ? w->vgpr[in->src[h].reg + sel][i] : (uint32_t)(v >> (32 * sel));
			continue;
		}
		const uint32_t *a = pair_source(w, in, 0, h, buf[0]), *b = pair_source(w, in, 1, h, buf[1]);
		const uint32_t *c = in->nsrc > 2 ? pair_source(w, in, 2, h, buf[2]) : a;
		if (w->state != WAVE_RUN)
			return;
		pair_f32(in->op, a, b, c, d[h]);
		if (sim_round32(w))
			sim_round_f32(sim_round32(w), in->op, a, b, c, d[h]);
		if (in->clamp || w->flush_out)
			for (int i = 0; i < LANES; i++) {
				uint32_t x = d[h][i];
				if (w->flush_out && !(x & 0x7f800000u))
					x &= 0x80000000u;
				d[h][i] = in->clamp ? num_bits(clamp01(w, num_float(x))) : x;
			}
	}
	sim_put_row(w, in->vdst, d[0], exec);
	sim_put_row(w, in->vdst + 1u, d[1], exec);
}

void exec_packed(struct sim_wave *w, const struct sim_inst *in0)
{
	uint32_t buf[3][LANES], x[3][LANES], d[2][LANES], out[LANES];
	struct sim_inst local;
	const struct sim_inst *in = in0;
	if (in->dtype == 'P') {
		pairs(w, in);
		return;
	}
	if (in->op == OP_v_pk_fmac_f16) { /* VOP2: both halves straight, the result register is the addend */
		local = *in;
		local.opsel = 0;
		local.opsel_hi = 7;
		local.nsrc = 3;
		local.src[2] = (struct sim_src){.kind = SRC_VGPR, .type = 'p', .reg = in->vdst};
		in = &local;
	}
	const uint32_t *row[3] = {NULL, NULL, NULL};
	for (int k = 0; k < in->nsrc; k++)
		row[k] = sim_src32(w, in, k, buf[k]);
	for (int h = 0; h < 2; h++) {
		for (int k = 0; k < 3; k++)
			if (row[k])
				half_of(in, k, h, w->flush_in16, row[k], x[k]);
			else
				memset(x[k], 0, sizeof x[k]);
		if (!half_op(in, x[0], x[1], x[2], w->ieee, d[h])) {
			sim_unknown(w, in);
			return;
		}
		bool is_float = in->src[0].type == 'p';
		sim_round_f16(sim_round16(w), in->op, x[0], x[1], x[2], d[h]);
		for (int i = 0; i < LANES && is_float; i++) {
			bool inf_in = (x[0][i] & 0x7fff) == 0x7c00 || (x[1][i] & 0x7fff) == 0x7c00 || (x[2][i] & 0x7fff) == 0x7c00;
			if (w->ovfl && (d[h][i] & 0x7fff) == 0x7c00 && !inf_in)
				d[h][i]--;
			if (w->flush_out16 && !(d[h][i] & 0x7c00))
				d[h][i] &= 0x8000;
			if (in->clamp)
				d[h][i] = sim_f32_to_f16(clamp01(w, W(d[h][i])));
		}
	}
	for (int i = 0; i < LANES; i++)
		out[i] = (d[0][i] & 0xffff) | d[1][i] << 16;
	sim_put32(w, in, out);
}

void exec_mix(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t buf[3][LANES], d[LANES];
	float x[3][LANES];
	for (int k = 0; k < 3; k++) {
		const uint32_t *row = sim_src32(w, in, k, buf[k]);
		bool half = in->opsel_hi >> k & 1, high = in->opsel >> k & 1;
		for (int i = 0; i < LANES; i++) {
			float v = half ? W(high ? row[i] >> 16 : row[i]) : num_float(row[i]);
			uint32_t u = num_bits(v);
			bool tiny = half ? fabsf(v) < 0x1p-14f : !(u & 0x7f800000u);
			if (tiny && (half ? w->flush_in16 : w->flush_in))
				u &= 0x80000000u;
			if (in->neg_hi >> k & 1) /* absolute value */
				u &= 0x7fffffffu;
			x[k][i] = num_float(u ^ (uint32_t)(in->neg_lo >> k & 1) << 31);
		}
	}
	const uint32_t *old = w->vgpr[in->vdst < w->nvgpr ? in->vdst : 0];
	for (int i = 0; i < LANES; i++) {
		float r = __builtin_fmaf(x[0][i], x[1][i], x[2][i]);
		double exact = sum_to_odd((double)x[0][i] * x[1][i], x[2][i]);
		r = num_float(sim_nudge_f32(num_bits(r), exact, sim_round32(w)));
		if (w->flush_out && !(num_bits(r) & 0x7f800000u))
			r = num_float(num_bits(r) & 0x80000000u);
		if (in->clamp)
			r = clamp01(w, r);
		uint32_t h = sim_nudge_f16(sim_f32_to_f16(r), r, sim_round16(w));
		if (w->flush_out16 && !(h & 0x7c00))
			h &= 0x8000;
		if (in->op == OP_v_fma_mix_f32)
			d[i] = num_bits(r);
		else if (in->op == OP_v_fma_mixlo_f16)
			d[i] = (old[i] & 0xffff0000u) | h;
		else
			d[i] = (old[i] & 0xffff) | h << 16;
	}
	sim_put32(w, in, d);
}

/* Integer fields of `bits` bits. */
static int64_t dot_int(uint32_t a, uint32_t b, unsigned bits, bool sign)
{
	int64_t sum = 0;
	for (unsigned at = 0; at < 32; at += bits) {
		int64_t x = a >> at & ((1u << bits) - 1), y = b >> at & ((1u << bits) - 1);
		if (sign) {
			x -= x >> (bits - 1) << bits;
			y -= y >> (bits - 1) << bits;
		}
		sum += x * y;
	}
	return sum;
}

static uint32_t finish_int(int64_t v, bool clamp, bool sign)
{
	int64_t lo = sign ? INT32_MIN : 0, hi = sign ? INT32_MAX : (int64_t)UINT32_MAX;
	return (uint32_t)(clamp ? (v < lo ? lo : v > hi ? hi : v) : v);
}

void exec_dot(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t buf[3][LANES], d[LANES];
	const uint32_t *a = sim_src32(w, in, 0, buf[0]), *b = sim_src32(w, in, 1, buf[1]);
	bool vop2 = in->nsrc == 2; /* the accumulating forms */
	const uint32_t *c = vop2 ? w->vgpr[in->vdst < w->nvgpr ? in->vdst : 0] : sim_src32(w, in, 2, buf[2]);
	for (int i = 0; i < LANES; i++) {
		switch (in->op) {
		case OP_v_dot2_f32_f16: case OP_v_dot2c_f32_f16: case OP_v_dot2_f32_bf16: case OP_v_dot2c_f32_bf16: {
			bool bf16 = in->op == OP_v_dot2_f32_bf16 || in->op == OP_v_dot2c_f32_bf16;
			float x[2], y[2];
			for (int h = 0; h < 2; h++) {
				uint32_t ua = (a[i] >> (16 * h) & 0xffff) ^ (uint32_t)((h ? in->neg_hi : in->neg_lo) & 1) << 15;
				uint32_t ub = (b[i] >> (16 * h) & 0xffff) ^ (uint32_t)((h ? in->neg_hi : in->neg_lo) >> 1 & 1) << 15;
				x[h] = bf16 ? num_float(ua << 16) : W(ua);
				y[h] = bf16 ? num_float(ub << 16) : W(ub);
			}
			float r = num_dot_f32(num_float(c[i]), x, y, 2);
			d[i] = num_bits(in->clamp ? clamp01(w, r) : r);
			break;
		}
		case OP_v_dot2_i32_i16: case OP_v_dot2c_i32_i16: d[i] = finish_int(dot_int(a[i], b[i], 16, true) + (int32_t)c[i], in->clamp, true); break;
		case OP_v_dot2_u32_u16: d[i] = finish_int(dot_int(a[i], b[i], 16, false) + c[i], in->clamp, false); break;
		case OP_v_dot4_i32_i8: case OP_v_dot4c_i32_i8: d[i] = finish_int(dot_int(a[i], b[i], 8, true) + (int32_t)c[i], in->clamp, true); break;
		case OP_v_dot4_u32_u8: d[i] = finish_int(dot_int(a[i], b[i], 8, false) + c[i], in->clamp, false); break;
		case OP_v_dot8_i32_i4: case OP_v_dot8c_i32_i4: d[i] = finish_int(dot_int(a[i], b[i], 4, true) + (int32_t)c[i], in->clamp, true); break;
		case OP_v_dot8_u32_u4: d[i] = finish_int(dot_int(a[i], b[i], 4, false) + c[i], in->clamp, false); break;
		default: sim_unknown(w, in); return;
		}
	}
	sim_put32(w, in, d);
}
