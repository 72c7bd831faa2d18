/* exec_scalef32.c -- gfx950's conversions with a power-of-two scale: v_cvt_scalef32_*.
 *
 * In: values and a scale, an f32 of which only the exponent counts.  Out: narrow floats of value / scale, or wide ones of
 * code * scale.  Narrowing does not saturate where the format has a NaN or infinity to overflow to; fp4 has neither.
 * fp6 (e2m3) and bf6 (e3m2) come 32 at a time in six registers; the form with two sources of 16 takes them in turns.
 * Stochastic rounding uses the one random number for every element.
 * op_sel bit 3 (bits 3 and 2 for bytes) names the part of the result register, bit 0 (bits 1 and 0) that of the source. */
#include "convert.h"
#include "exec.h"

#include <math.h>

static int scale_exponent(uint32_t u) { return (int)(u >> 23 & 255) - 127; }

static float half_to_f32(uint32_t h, bool bf16) { return bf16 ? num_float(h << 16) : sim_f16_to_f32(h & 0xffff); }
static uint32_t half_from_f32(float x, bool bf16) { return bf16 ? sim_f32_to_bf16(x) : sim_f32_to_f16(x); }

static uint32_t down(float x, uint32_t scale, enum dtype t)
{
	return num_from_f32(ldexpf(x, -scale_exponent(scale)), t, false);
}

static float up(uint32_t code, uint32_t scale, enum dtype t)
{
	return ldexpf(num_to_f32(code, t), scale_exponent(scale));
}

/* Two f32, or the two halves of one register, to fp8, bf8 or fp4. */
static void narrow(struct sim_wave *w, const struct sim_inst *in, enum dtype t, char from)
{
	uint32_t buf[3][LANES], d[LANES];
	const uint32_t *a = sim_src32(w, in, 0, buf[0]), *b = sim_src32(w, in, 1, buf[1]);
	const uint32_t *c = in->nsrc > 2 ? sim_src32(w, in, 2, buf[2]) : b;
	unsigned bits = t == DT_E2M1 ? 4 : 8;
	for (int i = 0; i < LANES; i++) {
		uint32_t scale = from == 'f' ? c[i] : b[i];
		float x = from == 'f' ? num_float(a[i]) : half_to_f32(a[i] & 0xffff, from == 'b');
		float y = from == 'f' ? num_float(b[i]) : half_to_f32(a[i] >> 16, from == 'b');
		d[i] = down(x, scale, t) | down(y, scale, t) << bits;
	}
	if (bits == 4)
		sim_put_byte(w, in, d);
	else
		sim_put_word(w, in, d);
}

static void narrow_random(struct sim_wave *w, const struct sim_inst *in, enum dtype t, char from)
{
	uint32_t buf[3][LANES], d[LANES];
	const uint32_t *a = sim_src32(w, in, 0, buf[0]), *b = sim_src32(w, in, 1, buf[1]), *c = sim_src32(w, in, 2, buf[2]);
	for (int i = 0; i < LANES; i++) {
		float x = from == 'f' ? num_float(a[i]) : half_to_f32(a[i] & 0xffff, from == 'b');
		d[i] = sim_sr_fp8(ldexpf(x, -scale_exponent(c[i])), b[i], t, false);
	}
	sim_put_byte(w, in, d);
}

/* Codes of one source register to two (or one) wider values. */
static void widen(struct sim_wave *w, const struct sim_inst *in, enum dtype t, char to, int count)
{
	uint32_t buf[2][LANES], d[LANES];
	uint64_t d64[LANES];
	struct sim_inst plain = *in; /* op_sel names a part of the source, not of the result */
	const uint32_t *a = sim_src32(w, in, 0, buf[0]), *s = sim_src32(w, in, 1, buf[1]);
	unsigned bits = t == DT_E2M1 ? 4 : 8;
	unsigned shift = count == 1 || bits == 4 ? 8 * (in->opsel & 3) : 16 * (in->opsel & 1);
	for (int i = 0; i < LANES; i++) {
		uint32_t code = a[i] >> shift, mask = (1u << bits) - 1;
		float lo = up(code & mask, s[i], t), hi = up(code >> bits & mask, s[i], t);
		if (to == 'f')
			d64[i] = num_bits(lo) | (uint64_t)num_bits(hi) << 32;
		else
			d64[i] = half_from_f32(lo, to == 'b') | half_from_f32(hi, to == 'b') << 16;
		d[i] = (uint32_t)d64[i];
	}
	plain.opsel = in->opsel & 8;
	if (count == 2 && to == 'f')
		sim_put64(w, &plain, d64);
	else if (count == 1 && to != 'f')
		sim_put_word(w, &plain, d);
	else
		sim_put32(w, &plain, d);
}

/* ---- 32 elements of six bits ---- */

struct six { int mbits, bias; };
static const struct six fp6 = {3, 1}, bf6 = {2, 3};

/* To nearest even; beyond the largest value, and for NaN, the largest. */
static uint32_t six_from_f32(float x, struct six f)
{
	uint32_t sign = num_bits(x) >> 31 << 5, code;
	float a = fabsf(x);
	int e = 1 - f.bias;
	if (!(a < 32))
		return sign | 31;
	if (a != 0 && ilogbf(a) > e)
		e = ilogbf(a);
	code = (uint32_t)((e + f.bias) << f.mbits) + (uint32_t)rintf(ldexpf(a, f.mbits - e)) - (1u << f.mbits);
	return sign | (code < 31 ? code : 31);
}

static float six_to_f32(uint32_t code, struct six f)
{
	uint32_t e = code >> f.mbits & ((1u << (5 - f.mbits)) - 1), m = code & ((1u << f.mbits) - 1);
	float v = e ? ldexpf((float)(m | 1u << f.mbits), (int)e - f.bias - f.mbits) : ldexpf((float)m, 1 - f.bias - f.mbits);
	return code >> 5 & 1 ? -v : v;
}

static bool registers(struct sim_wave *w, const struct sim_inst *in, const struct sim_src *s, unsigned count)
{
	if (s->kind == SRC_VGPR && s->reg + count <= w->nvgpr && in->vdst + (unsigned)in->n <= w->nvgpr)
		return true;
	sim_fail(w, in, SIM_EINST, -1, "a register is beyond the %u allocated", w->nvgpr);
	return false;
}

static float element_of(const struct sim_wave *w, const struct sim_inst *in, unsigned k, int lane, char from, bool two)
{
	if (from == 'f')
		return num_float(w->vgpr[two ? in->src[k & 1].reg + k / 2 : in->src[0].reg + k][lane]);
	return half_to_f32(w->vgpr[in->src[0].reg + k / 2][lane] >> (16 * (k & 1)) & 0xffff, from == 'b');
}

/* 32 values to six bits each.  Sources: values (two of 16 registers with `two`), then random bits if any, then the scale. */
static void narrow_six(struct sim_wave *w, const struct sim_inst *in, struct six f, char from, bool two, bool random)
{
	uint32_t buf[2][LANES], d[6][LANES] = {{0}};
	unsigned count = two ? 16 : from == 'f' ? 32 : 16;
	if (!registers(w, in, &in->src[0], count) || (two && !registers(w, in, &in->src[1], count)))
		return;
	const uint32_t *seed = random ? sim_src32(w, in, 1, buf[0]) : NULL, *scale = sim_src32(w, in, in->nsrc - 1, buf[1]);
	for (int i = 0; i < LANES; i++)
		for (unsigned k = 0; k < 32; k++) {
			float x = ldexpf(element_of(w, in, k, i, from, two), -scale_exponent(scale[i]));
			uint64_t code = six_from_f32(random ? sim_stochastic(x, seed[i], f.mbits, 1 - f.bias) : x, f);
			code <<= 6 * k % 32;
			d[6 * k / 32][i] |= (uint32_t)code;
			if (code >> 32)
				d[6 * k / 32 + 1][i] |= (uint32_t)(code >> 32);
		}
	for (unsigned r = 0; r < 6; r++)
		sim_put_row(w, in->vdst + r, d[r], sim_exec(w));
}

static void widen_six(struct sim_wave *w, const struct sim_inst *in, struct six f, char to)
{
	uint32_t buf[LANES], d[32][LANES] = {{0}};
	if (!registers(w, in, &in->src[0], 6))
		return;
	const uint32_t *scale = sim_src32(w, in, 1, buf);
	for (int i = 0; i < LANES; i++)
		for (unsigned k = 0; k < 32; k++) {
			unsigned r = 6 * k / 32;
			uint64_t two = w->vgpr[in->src[0].reg + r][i] | (r < 5 ? (uint64_t)w->vgpr[in->src[0].reg + r + 1][i] << 32 : 0);
			float x = ldexpf(six_to_f32(two >> 6 * k % 32 & 63, f), scale_exponent(scale[i]));
			if (to == 'f')
				d[k][i] = num_bits(x);
			else
				d[k / 2][i] |= half_from_f32(x, to == 'b') << (16 * (k & 1));
		}
	for (unsigned r = 0; r < in->n; r++)
		sim_put_row(w, in->vdst + r, d[r], sim_exec(w));
}

/* Two values to fp4 with random bits. */
static void narrow_random_fp4(struct sim_wave *w, const struct sim_inst *in, char from)
{
	uint32_t buf[3][LANES], d[LANES];
	uint64_t b64[LANES];
	const uint64_t *pair = from == 'f' ? sim_src64(w, in, 0, b64) : NULL;
	const uint32_t *a = pair ? NULL : sim_src32(w, in, 0, buf[0]);
	const uint32_t *seed = sim_src32(w, in, 1, buf[1]), *scale = sim_src32(w, in, 2, buf[2]);
	for (int i = 0; i < LANES; i++) {
		float x[2];
		for (int k = 0; k < 2; k++) {
			x[k] = pair ? num_float((uint32_t)(pair[i] >> (32 * k))) : half_to_f32(a[i] >> (16 * k) & 0xffff, from == 'b');
			x[k] = sim_stochastic(ldexpf(x[k], -scale_exponent(scale[i])), seed[i], 1, 0);
		}
		d[i] = num_from_f32(x[0], DT_E2M1, true) | num_from_f32(x[1], DT_E2M1, true) << 4;
	}
	sim_put_byte(w, in, d);
}

void exec_scalef32(struct sim_wave *w, const struct sim_inst *in)
{
	switch (in->op) {
	case OP_v_cvt_scalef32_pk_fp8_f32: narrow(w, in, DT_E4M3, 'f'); return;
	case OP_v_cvt_scalef32_pk_bf8_f32: narrow(w, in, DT_E5M2, 'f'); return;
	case OP_v_cvt_scalef32_pk_fp4_f32: narrow(w, in, DT_E2M1, 'f'); return;
	case OP_v_cvt_scalef32_pk_fp8_f16: narrow(w, in, DT_E4M3, 'h'); return;
	case OP_v_cvt_scalef32_pk_bf8_f16: narrow(w, in, DT_E5M2, 'h'); return;
	case OP_v_cvt_scalef32_pk_fp4_f16: narrow(w, in, DT_E2M1, 'h'); return;
	case OP_v_cvt_scalef32_pk_fp8_bf16: narrow(w, in, DT_E4M3, 'b'); return;
	case OP_v_cvt_scalef32_pk_bf8_bf16: narrow(w, in, DT_E5M2, 'b'); return;
	case OP_v_cvt_scalef32_pk_fp4_bf16: narrow(w, in, DT_E2M1, 'b'); return;
	case OP_v_cvt_scalef32_sr_fp8_f32: narrow_random(w, in, DT_E4M3, 'f'); return;
	case OP_v_cvt_scalef32_sr_bf8_f32: narrow_random(w, in, DT_E5M2, 'f'); return;
	case OP_v_cvt_scalef32_sr_fp8_f16: narrow_random(w, in, DT_E4M3, 'h'); return;
	case OP_v_cvt_scalef32_sr_bf8_f16: narrow_random(w, in, DT_E5M2, 'h'); return;
	case OP_v_cvt_scalef32_sr_fp8_bf16: narrow_random(w, in, DT_E4M3, 'b'); return;
	case OP_v_cvt_scalef32_sr_bf8_bf16: narrow_random(w, in, DT_E5M2, 'b'); return;
	case OP_v_cvt_scalef32_pk_f32_fp8: widen(w, in, DT_E4M3, 'f', 2); return;
	case OP_v_cvt_scalef32_pk_f32_bf8: widen(w, in, DT_E5M2, 'f', 2); return;
	case OP_v_cvt_scalef32_pk_f32_fp4: widen(w, in, DT_E2M1, 'f', 2); return;
	case OP_v_cvt_scalef32_f32_fp8: widen(w, in, DT_E4M3, 'f', 1); return;
	case OP_v_cvt_scalef32_f32_bf8: widen(w, in, DT_E5M2, 'f', 1); return;
	case OP_v_cvt_scalef32_f16_fp8: widen(w, in, DT_E4M3, 'h', 1); return;
	case OP_v_cvt_scalef32_f16_bf8: widen(w, in, DT_E5M2, 'h', 1); return;
	case OP_v_cvt_scalef32_pk_f16_fp8: widen(w, in, DT_E4M3, 'h', 2); return;
	case OP_v_cvt_scalef32_pk_f16_bf8: widen(w, in, DT_E5M2, 'h', 2); return;
	case OP_v_cvt_scalef32_pk_f16_fp4: widen(w, in, DT_E2M1, 'h', 2); return;
	case OP_v_cvt_scalef32_pk_bf16_fp8: widen(w, in, DT_E4M3, 'b', 2); return;
	case OP_v_cvt_scalef32_pk_bf16_bf8: widen(w, in, DT_E5M2, 'b', 2); return;
	case OP_v_cvt_scalef32_pk_bf16_fp4: widen(w, in, DT_E2M1, 'b', 2); return;
	case OP_v_cvt_scalef32_2xpk16_fp6_f32: narrow_six(w, in, fp6, 'f', true, false); return;
	case OP_v_cvt_scalef32_2xpk16_bf6_f32: narrow_six(w, in, bf6, 'f', true, false); return;
	case OP_v_cvt_scalef32_pk32_fp6_f16: narrow_six(w, in, fp6, 'h', false, false); return;
	case OP_v_cvt_scalef32_pk32_bf6_f16: narrow_six(w, in, bf6, 'h', false, false); return;
	case OP_v_cvt_scalef32_pk32_fp6_bf16: narrow_six(w, in, fp6, 'b', false, false); return;
	case OP_v_cvt_scalef32_pk32_bf6_bf16: narrow_six(w, in, bf6, 'b', false, false); return;
	case OP_v_cvt_scalef32_sr_pk32_fp6_f32: narrow_six(w, in, fp6, 'f', false, true); return;
	case OP_v_cvt_scalef32_sr_pk32_bf6_f32: narrow_six(w, in, bf6, 'f', false, true); return;
	case OP_v_cvt_scalef32_sr_pk32_fp6_f16: narrow_six(w, in, fp6, 'h', false, true); return;
	case OP_v_cvt_scalef32_sr_pk32_bf6_f16: narrow_six(w, in, bf6, 'h', false, true); return;
	case OP_v_cvt_scalef32_sr_pk32_fp6_bf16: narrow_six(w, in, fp6, 'b', false, true); return;
	case OP_v_cvt_scalef32_sr_pk32_bf6_bf16: narrow_six(w, in, bf6, 'b', false, true); return;
	case OP_v_cvt_scalef32_pk32_f32_fp6: widen_six(w, in, fp6, 'f'); return;
	case OP_v_cvt_scalef32_pk32_f32_bf6: widen_six(w, in, bf6, 'f'); return;
	case OP_v_cvt_scalef32_pk32_f16_fp6: widen_six(w, in, fp6, 'h'); return;
	case OP_v_cvt_scalef32_pk32_f16_bf6: widen_six(w, in, bf6, 'h'); return;
	case OP_v_cvt_scalef32_pk32_bf16_fp6: widen_six(w, in, fp6, 'b'); return;
	case OP_v_cvt_scalef32_pk32_bf16_bf6: widen_six(w, in, bf6, 'b'); return;
	case OP_v_cvt_scalef32_sr_pk_fp4_f32: narrow_random_fp4(w, in, 'f'); return;
	case OP_v_cvt_scalef32_sr_pk_fp4_f16: narrow_random_fp4(w, in, 'h'); return;
	case OP_v_cvt_scalef32_sr_pk_fp4_bf16: narrow_random_fp4(w, in, 'b'); return;
	default: sim_unknown(w, in);
	}
}
