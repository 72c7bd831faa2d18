/* exec_convert.c -- conversions between number formats, and packing.
 *
 * In: rows.  Out: rows.  Float to integer truncates and saturates, NaN gives 0.  fp8 and bf8 are the chip's own pair:
 * FNUZ on gfx942, OCP on gfx950.  MODE.FP16_OVFL chooses between saturating and not for f16, fp8 and bf8 results: clear,
 * an overflow is infinity where the format has it, else NaN; set, it is the largest finite value.  (The ISA guides say so
 * for f16, where an infinite operand stays infinite; Triton's AMD backend sets the bit for saturating fp8 conversions.
 * Neither says what an infinite operand gives in fp8 with the bit set: here the largest finite value, as num.h saturates;
 * code that has to be safe clamps first.)
 */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "convert.h"
#include "exec.h"
#include "nan.h"

#include <math.h>
#include <pthread.h>

#define F(x) num_float(x)
#define EACH(expr) do { _Pragma("GCC ivdep") for (int i = 0; i < LANES; i++) d[i] = (uint32_t)(expr); } while (0)

/* The chip's own fp8 (or bf8): FNUZ on gfx942, OCP on gfx950. */
static enum dtype native_fp8(const struct sim_wave *w, bool bf8)
{
	bool fnuz = w->group->launch->object->chip->fp8_fnuz;
	return bf8 ? (fnuz ? DT_E5M2FNUZ : DT_E5M2) : fnuz ? DT_E4M3FNUZ : DT_E4M3;
}

static inline uint32_t to_i32(double x)
{
	return (uint32_t)(x != x ? 0 : x <= -2147483648.0 ? INT32_MIN : x >= 2147483647.0 ? INT32_MAX : (int32_t)x);
}

static inline uint32_t to_u32(double x)
{
	return !(x > 0) ? 0 : x >= 4294967295.0 ? ~0u : (uint32_t)x;
}

static inline double limit(double x, double lo, double hi)
{
	return x != x ? 0 : x < lo ? lo : x > hi ? hi : x;
}

static uint32_t f16_ovfl(const struct sim_wave *w, float x)
{
	uint32_t h = sim_nudge_f16(sim_f32_to_f16(x), x, sim_round16(w));
	return w->ovfl && (h & 0x7fff) == 0x7c00 && !isinf(x) ? h - 1 : h;
}

/* Towards zero. */
static uint32_t f16_rtz(float x)
{
	uint32_t h = sim_f32_to_f16(x);
	if (x != x || isinf(x))
		return h;
	return fabsf(sim_f16_to_f32(h)) > fabsf(x) ? h - 1 : h;
}

/* Stochastic rounding: the random bits are added below the last bit kept, then the rest is cut off. */
static uint32_t bf16_sr(float x, uint32_t random)
{
	uint32_t u = num_bits(x);
	if ((u & 0x7f800000u) == 0x7f800000u)
		return x != x ? u >> 16 | 0x40 : u >> 16;
	return (u + (random & 0xffff)) >> 16;
}

/* x with random bits added below the mantissa of a float format of `mbits` bits and smallest exponent `emin`, then cut: a
 * value the format holds exactly, or one beyond its range. */
float sim_stochastic(float x, uint32_t random, int mbits, int emin)
{
	uint32_t u = num_bits(x), sign = u & 0x80000000u, mag = u & 0x7fffffffu;
	if (mag >= 0x7f800000u || mag < 0x00800000u)
		return mag < 0x00800000u ? num_float(sign) : x;
	int e = (int)(mag >> 23) - 127, drop = 23 - mbits + (e < emin ? emin - e : 0);
	uint64_t m = (mag & 0x7fffffu) | 0x800000u;
	if (drop > 32)
		return num_float(sign);
	uint64_t r = drop <= 32 ? (uint64_t)random >> (32 - drop) : random;
	m = (m + r) >> drop << drop;
	float v = ldexpf((float)m, e - 23);
	return sign ? -v : v;
}

uint32_t sim_sr_fp8(float x, uint32_t random, enum dtype t, bool saturate)
{
	bool e4 = t == DT_E4M3 || t == DT_E4M3FNUZ;
	int bias = t == DT_E4M3 ? 7 : t == DT_E4M3FNUZ ? 8 : t == DT_E5M2 ? 15 : 16;
	return num_from_f32(sim_stochastic(x, random, e4 ? 3 : 2, 1 - bias), t, saturate);
}

/* num_from_f32 to the four 8-bit floats as vector code.  A magnitude of at least `least` is rounded to nearest even by adding to its bits,
 * of which `drop` are cut off; a smaller one by adding it to `tiny`, whose last bit is worth the smallest number of the format.  What
 * num_from_f32 makes of the rest, by sign: beyond `top`, infinities, NaN. */
struct fp8 { uint32_t drop, least, tiny, rebias, top, minus_zero, over[2], inf[2], nan[2]; };

static struct fp8 fp8_formats[4][2]; /* saturating: [1] */
static const enum dtype fp8_types[4] = {DT_E4M3, DT_E4M3FNUZ, DT_E5M2, DT_E5M2FNUZ};

static void fp8_make(void)
{
	static const uint32_t bias[4] = {7, 8, 15, 16};
	for (uint32_t i = 0; i < 8; i++) {
		enum dtype t = fp8_types[i / 2];
		bool saturate = i % 2;
		uint32_t mbits = i < 4 ? 3 : 2, least = (128 - bias[i / 2]) << 23;
		struct fp8 *f = &fp8_formats[i / 2][saturate];
		*f = (struct fp8){.drop = 23 - mbits, .least = least, .tiny = least + ((23 - mbits) << 23), .rebias = (127 - bias[i / 2]) << mbits,
			.top = num_from_f32((float)num_max(t), t, true), .minus_zero = num_from_f32(-0.0f, t, saturate)};
		for (uint32_t k = 0; k < 2; k++) {
			uint32_t sign = k << 31;
			f->over[k] = num_from_f32(F(sign | 0x7f7fffffu), t, saturate);
			f->inf[k] = num_from_f32(F(sign | 0x7f800000u), t, saturate);
			f->nan[k] = num_from_f32(F(sign | 0x7fc00000u), t, saturate);
		}
	}
}

static const struct fp8 *fp8_of(enum dtype t, bool saturate)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	unsigned k = 0;
	pthread_once(&once, fp8_make);
	while (fp8_types[k] != t)
		k++;
	return &fp8_formats[k][saturate];
}

static inline __attribute__((always_inline)) uint32_t fp8_code(const struct fp8 *f, uint32_t u)
{
	uint32_t mag = u & 0x7fffffffu, code;
	uint32_t normal = ((mag + (1u << (f->drop - 1)) - 1 + (mag >> f->drop & 1)) >> f->drop) - f->rebias;
	uint32_t tiny = num_bits(F(mag) + F(f->tiny)) - f->tiny;
	bool minus = u >> 31;
	code = mag < f->least ? tiny : normal;
	uint32_t over = minus ? f->over[1] : f->over[0], inf = minus ? f->inf[1] : f->inf[0], nan = minus ? f->nan[1] : f->nan[0];
	uint32_t negative = code ? code | 0x80 : f->minus_zero;
	uint32_t finite = minus ? negative : code;
	finite = code > f->top ? over : finite;
	return mag > 0x7f800000u ? nan : mag == 0x7f800000u ? inf : finite;
}

static SIM_LANES_FN void fp8_codes(const struct fp8 *format, const uint32_t *a, const uint32_t *b, uint32_t *restrict d)
{
	struct fp8 f = *format;
	EACH(fp8_code(&f, a[i]) | fp8_code(&f, b[i]) << 8);
}

static void put_part(struct sim_wave *w, const struct sim_inst *in, const uint32_t *v, unsigned bits, unsigned part)
{
	uint32_t d[LANES], mask = ((1u << bits) - 1) << (bits * part);
	const uint32_t *old = w->vgpr[in->vdst < w->nvgpr ? in->vdst : 0];
	for (int i = 0; i < LANES; i++)
		d[i] = (old[i] & ~mask) | (v[i] << (bits * part) & mask);
	sim_put32(w, in, d);
}

void sim_put_word(struct sim_wave *w, const struct sim_inst *in, const uint32_t *v) { put_part(w, in, v, 16, in->opsel >> 3 & 1); }
void sim_put_byte(struct sim_wave *w, const struct sim_inst *in, const uint32_t *v)
{
	put_part(w, in, v, 8, in->opsel >> 2 & 3);
}

static void from_f64(struct sim_wave *w, const struct sim_inst *in)
{
	uint64_t b64[LANES];
	uint32_t d[LANES];
	const sim_f64 *a = (const sim_f64 *)sim_src64(w, in, 0, b64);
	switch (in->op) {
	case OP_v_cvt_i32_f64: EACH(to_i32(a[i])); break;
	case OP_v_cvt_u32_f64: EACH(to_u32(a[i])); break;
	default: EACH(sim_nudge_f32(num_bits((float)a[i]), a[i], sim_round32(w))); break;
	}
	sim_put32(w, in, d);
}

static void to_f64(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES];
	uint64_t d[LANES];
	const uint32_t *a = sim_src32(w, in, 0, ba);
	for (int i = 0; i < LANES; i++) {
		double v = in->op == OP_v_cvt_f64_i32 ? (double)(int32_t)a[i] : in->op == OP_v_cvt_f64_u32 ? (double)a[i] : (double)F(a[i]);
		memcpy(&d[i], &v, 8);
	}
	sim_put64(w, in, d);
}

static void fp8_pairs(struct sim_wave *w, const struct sim_inst *in, const uint32_t *a)
{
	enum dtype t = native_fp8(w, in->op == OP_v_cvt_pk_f32_bf8);
	uint64_t d[LANES];
	for (int i = 0; i < LANES; i++)
		d[i] = num_bits(num_to_f32(a[i] & 0xff, t)) | (uint64_t)num_bits(num_to_f32(a[i] >> 8 & 0xff, t)) << 32;
	sim_put64(w, in, d);
}

static uint32_t byte_at(uint32_t old, float x, uint32_t which)
{
	unsigned shift = 8 * (which & 3);
	return (old & ~(0xffu << shift)) | (uint32_t)limit(rintf(x), 0, 255) << shift;
}

static uint32_t pack16(double lo, double hi, double scale, bool sign)
{
	double a = rint(limit(lo, sign ? -1 : 0, 1) * scale), b = rint(limit(hi, sign ? -1 : 0, 1) * scale);
	return ((uint32_t)(int32_t)a & 0xffff) | (uint32_t)(int32_t)b << 16;
}

static uint32_t sat8(int32_t v, bool sign)
{
	return (uint32_t)limit(v, sign ? -128 : 0, sign ? 127 : 255) & 0xff;
}

static SIM_LANES_FN bool plain(const struct sim_inst *in, const uint32_t *a, const uint32_t *b, uint32_t *d)
{
	(void)b;
	switch (in->op) {
	case OP_v_cvt_f32_i32: EACH(num_bits((float)(int32_t)a[i])); return true;
	case OP_v_cvt_f32_u32: EACH(num_bits((float)a[i])); return true;
	case OP_v_cvt_u32_f32: EACH(to_u32(F(a[i]))); return true;
	case OP_v_cvt_i32_f32: EACH(to_i32(F(a[i]))); return true;
	case OP_v_cvt_rpi_i32_f32: EACH(to_i32(floor((double)F(a[i]) + 0.5))); return true;
	case OP_v_cvt_flr_i32_f32: EACH(to_i32(floorf(F(a[i])))); return true;
	case OP_v_cvt_off_f32_i4: EACH(num_bits((float)((int32_t)(a[i] << 28) >> 28) * 0.0625f)); return true;
	case OP_v_cvt_f32_f16: EACH(num_bits(nan1(sim_f16_to_f32(a[i]), sim_f16_to_f32(a[i])))); return true;
	case OP_v_cvt_f32_bf16: EACH(num_bits(nan1(F(a[i] << 16), F(a[i] << 16)))); return true;
	case OP_v_cvt_f32_ubyte0: EACH(num_bits((float)(a[i] & 0xff))); return true;
	case OP_v_cvt_f32_ubyte1: EACH(num_bits((float)(a[i] >> 8 & 0xff))); return true;
	case OP_v_cvt_f32_ubyte2: EACH(num_bits((float)(a[i] >> 16 & 0xff))); return true;
	case OP_v_cvt_f32_ubyte3: EACH(num_bits((float)(a[i] >> 24))); return true;
	case OP_v_cvt_f16_u16: EACH(sim_f32_to_f16((float)(a[i] & 0xffff))); return true;
	case OP_v_cvt_f16_i16: EACH(sim_f32_to_f16((float)(int16_t)a[i])); return true;
	case OP_v_cvt_u16_f16: EACH(limit(sim_f16_to_f32(a[i]), 0, 65535)); return true;
	case OP_v_cvt_i16_f16: EACH((int32_t)limit(sim_f16_to_f32(a[i]), -32768, 32767)); return true;
	case OP_v_cvt_pk_bf16_f32: EACH(sim_f32_to_bf16(F(a[i])) | sim_f32_to_bf16(F(b[i])) << 16); return true;
	case OP_v_cvt_pk_u16_u32: EACH((a[i] < 0xffff ? a[i] : 0xffff) | (b[i] < 0xffff ? b[i] : 0xffff) << 16); return true;
	case OP_v_cvt_pk_i16_i32:
		EACH(((uint32_t)(int32_t)limit((int32_t)a[i], -32768, 32767) & 0xffff) | (uint32_t)(int32_t)limit((int32_t)b[i], -32768, 32767) << 16);
		return true;
	case OP_v_pack_b32_f16: EACH((a[i] & 0xffff) | b[i] << 16); return true;
	default: return false;
	}
}

/* Integers that a float does not hold, under the mode's rounding. */
static void round_integers(const struct sim_wave *w, unsigned op, const uint32_t *a, uint32_t *d)
{
	for (int i = 0; i < LANES; i++)
		switch (op) {
		case OP_v_cvt_f32_i32: d[i] = sim_nudge_f32(d[i], (int32_t)a[i], sim_round32(w)); break;
		case OP_v_cvt_f32_u32: d[i] = sim_nudge_f32(d[i], a[i], sim_round32(w)); break;
		case OP_v_cvt_f16_i16: d[i] = sim_nudge_f16(d[i], (int16_t)a[i], sim_round16(w)); break;
		case OP_v_cvt_f16_u16: d[i] = sim_nudge_f16(d[i], (uint16_t)a[i], sim_round16(w)); break;
		default: return;
		}
}

static bool packing(struct sim_wave *w, const struct sim_inst *in, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	bool bf8 = in->op == OP_v_cvt_f32_bf8 || in->op == OP_v_cvt_pk_bf8_f32 || in->op == OP_v_cvt_sr_bf8_f32;
	enum dtype t = native_fp8(w, bf8);
	switch (in->op) {
	case OP_v_cvt_f16_f32: EACH(f16_ovfl(w, F(a[i]))); return true;
	case OP_v_cvt_pk_f16_f32: EACH(f16_ovfl(w, F(a[i])) | f16_ovfl(w, F(b[i])) << 16); return true;
	case OP_v_cvt_pkrtz_f16_f32: EACH(f16_rtz(F(a[i])) | f16_rtz(F(b[i])) << 16); return true;
	case OP_v_cvt_pknorm_i16_f32: EACH(pack16(F(a[i]), F(b[i]), 32767, true)); return true;
	case OP_v_cvt_pknorm_u16_f32: EACH(pack16(F(a[i]), F(b[i]), 65535, false)); return true;
	case OP_v_cvt_pknorm_i16_f16: EACH(pack16(sim_f16_to_f32(a[i]), sim_f16_to_f32(b[i]), 32767, true)); return true;
	case OP_v_cvt_pknorm_u16_f16: EACH(pack16(sim_f16_to_f32(a[i]), sim_f16_to_f32(b[i]), 65535, false)); return true;
	case OP_v_cvt_norm_i16_f16: EACH(pack16(sim_f16_to_f32(a[i]), 0, 32767, true)); return true;
	case OP_v_cvt_norm_u16_f16: EACH(pack16(sim_f16_to_f32(a[i]), 0, 65535, false)); return true;
	case OP_v_cvt_pk_u8_f32: EACH(byte_at(c[i], F(a[i]), b[i])); return true;
	case OP_v_sat_pk_u8_i16: EACH(sat8((int16_t)a[i], false) | sat8((int16_t)(a[i] >> 16), false) << 8); return true;
	case OP_v_cvt_f32_fp8: case OP_v_cvt_f32_bf8: EACH(num_bits(num_to_f32(a[i] & 0xff, t))); return true;
	default: return false;
	}
}

void exec_convert(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES], bc[LANES], bd[LANES];
	if (in->src[0].type == 'd') {
		from_f64(w, in);
		return;
	}
	if (in->dtype == 'd') {
		to_f64(w, in);
		return;
	}
	const uint32_t *a = sim_src32(w, in, 0, ba);
	const uint32_t *b = in->nsrc > 1 ? sim_src32(w, in, 1, bb) : a;
	const uint32_t *c = in->nsrc > 2 ? sim_src32(w, in, 2, bc) : a;
	uint32_t *d = bd;
	bool bf8 = in->op == OP_v_cvt_pk_bf8_f32 || in->op == OP_v_cvt_sr_bf8_f32;
	enum dtype t = native_fp8(w, bf8);
	switch (in->op) {
	case OP_v_cvt_pk_f32_fp8: case OP_v_cvt_pk_f32_bf8: fp8_pairs(w, in, a); return;
	case OP_v_cvt_pk_fp8_f32: case OP_v_cvt_pk_bf8_f32: {
		fp8_codes(fp8_of(t, w->ovfl), a, b, d);
		sim_put_word(w, in, d);
		return;
	}
	case OP_v_cvt_sr_fp8_f32: case OP_v_cvt_sr_bf8_f32:
		EACH(sim_sr_fp8(F(a[i]), b[i], t, w->ovfl));
		sim_put_byte(w, in, d);
		return;
	case OP_v_cvt_pkaccum_u8_f32: { /* a byte of the result register; the rest stays */
		const uint32_t *old = w->vgpr[in->vdst < w->nvgpr ? in->vdst : 0];
		EACH(byte_at(old[i], F(a[i]), b[i]));
		sim_put32(w, in, d);
		return;
	}
	case OP_v_cvt_sr_bf16_f32: EACH(bf16_sr(F(a[i]), b[i])); sim_put_word(w, in, d); return;
	case OP_v_cvt_sr_f16_f32: EACH(f16_ovfl(w, sim_stochastic(F(a[i]), b[i], 10, -14))); sim_put_word(w, in, d); return;
	case OP_v_ashr_pk_i8_i32: case OP_v_ashr_pk_u8_i32: {
		bool sign = in->op == OP_v_ashr_pk_i8_i32;
		EACH(sat8((int32_t)a[i] >> (c[i] & 31), sign) | sat8((int32_t)b[i] >> (c[i] & 31), sign) << 8);
		sim_put_word(w, in, d);
		return;
	}
	default: break;
	}
	bool known = plain(in, a, b, d);
	if (known && (w->mode & 15))
		round_integers(w, in->op, a, d);
	if (known || packing(w, in, a, b, c, d))
		sim_put32(w, in, d);
	else
		sim_unknown(w, in);
}
