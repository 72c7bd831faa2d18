/* exec_scalef32.c -- gfx950's conversions with a power-of-two scale: v_cvt_scalef32_*.
 *
 * In: values and a scale, an f32 of which only the exponent counts.  Out: narrow floats of value / scale, or wide ones of
 * code * scale.  Narrowing does not saturate where the format has a NaN or infinity to overflow to; fp4 has neither.
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
	default: sim_unknown(w, in);
	}
}
