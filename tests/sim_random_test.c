/* sim_random_test.c -- single instructions on random and special operands against formulas in the host's arithmetic.
 *
 * In: tests/sim_random.def; comparisons need no row, their mnemonics say what they compare.  Each instruction is encoded in its
 * long form (VOP3, VOP3P, SOP), decoded and executed on 64 lanes, with random modifiers (neg, abs, clamp, omod, op_sel), rounding
 * modes and denormal modes; every lane's result must have the formula's bits, but that any NaN equals any NaN.  The host computes
 * with its own rounding modes; f16 is rounded here, once, from 113 bits.  docs/simulator.md lists what is covered (BLESS=1). */
#include "sim_single.h"

#include <check.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 96, FULL_ROUNDS = 6000, MASK_IN = 10, MASK_OUT = 12, SCALAR_A = 20, SCALAR_B = 22, SCALAR_D = 24, RESULT = 8 };
typedef __float128 exact;

/* ---- what the formulas use ---- */

static double as_double(uint64_t u) { double d; memcpy(&d, &u, 8); return d; }
static float as_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static uint64_t double_bits(double d) { uint64_t u; memcpy(&u, &d, 8); return u; }
static uint32_t float_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static int64_t i24(uint32_t v) { return (int32_t)(v << 8) >> 8; }
static uint32_t u24(uint32_t v) { return v & 0xffffff; }
static int min_i(int64_t a, int64_t b) { return (int)(a < b ? a : b); }
static int max_i(int64_t a, int64_t b) { return (int)(a > b ? a : b); }
static uint32_t sat_u(int64_t v) { return v < 0 ? 0 : v > 0xffffffffll ? 0xffffffffu : (uint32_t)v; }
static uint32_t sat_i(int64_t v) { return v < INT32_MIN ? 0x80000000u : v > INT32_MAX ? 0x7fffffffu : (uint32_t)v; }
static int sat16_u(int64_t v) { return v < 0 ? 0 : v > 0xffff ? 0xffff : (int)v; }
static int sat16_i(int64_t v) { return v < INT16_MIN ? INT16_MIN : v > INT16_MAX ? INT16_MAX : (int)v; }
static uint32_t sat_byte(int v) { return v < 0 ? 0 : v > 255 ? 255 : (uint32_t)v; }
static uint32_t apart(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }
static int clamped(int32_t e) { return e < -5000 ? -5000 : e > 5000 ? 5000 : e; }
static float scaled(float x, int32_t e) { return scalbnf(x, clamped(e)); }

static uint32_t reversed(uint32_t v)
{
	uint32_t r = 0;
	for (int i = 0; i < 32; i++)
		r |= (v >> i & 1) << (31 - i);
	return r;
}

static uint32_t bytes_apart(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;
	for (int i = 0; i < 32; i += 8)
		sum += apart(a >> i & 255, b >> i & 255);
	return sum;
}

/* The shader engines {x[5] ^ y[6], y[5] ^ x[6]} of the pixels (x, y) of a box in tiles of 32, by the guide of the first GFX9 chips. */
static uint32_t engines_of(uint32_t select)
{
	int x0 = (int)(select >> 6 & 3) * 32, y0 = (int)(select >> 4 & 3) * 32, x1 = (int)(select >> 2 & 3) * 32, y1 = (int)(select & 3) * 32;
	uint32_t mask = 0;
	x1 += x1 < x0 ? 128 : 0;
	y1 += y1 < y0 ? 128 : 0;
	for (int x = x0; x < x1 + 32; x++)
		for (int y = y0; y < y1 + 32; y++)
			mask |= 1u << (2 * ((x >> 5 ^ y >> 6) & 1) + ((y >> 5 ^ x >> 6) & 1));
	return mask;
}

static uint32_t lerp(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t r = 0;
	for (int i = 0; i < 32; i += 8)
		r |= ((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) >> 1 << i;
	return r;
}

/* Selectors 0-7: bytes of b then a; 8-11: the signs of bytes 1 3 5 7; 12: 0; above: 0xff. */
static uint32_t permuted(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t r = 0;
	for (int i = 0; i < 4; i++) {
		uint32_t s = c >> 8 * i & 255, odd = s < 12 ? 2 * (s & 3) + 1 : 0, v;
		if (s < 8)
			v = (s < 4 ? b : a) >> 8 * (s & 3);
		else if (s < 12)
			v = (odd < 4 ? b : a) >> (8 * (odd & 3) + 7) & 1 ? 255 : 0;
		else
			v = s == 12 ? 0 : 255;
		r |= (v & 255) << 8 * i;
	}
	return r;
}

static int64_t dot(uint32_t a, uint32_t b, int bits, bool is_signed)
{
	int64_t sum = 0, half = 1ll << (bits - 1), mask = 2 * half - 1;
	for (int i = 0; i < 32; i += bits) {
		int64_t p = a >> i & mask, q = b >> i & mask;
		sum += is_signed ? (p - (p & half) * 2) * (q - (q & half) * 2) : p * q;
	}
	return sum;
}

/* The guides' minimum and maximum: a number before a NaN, -0 below +0. */
static double least(double x, double y) { return isnan(x) ? y : isnan(y) ? x : x < y || (x == y && signbit(x)) ? x : y; }
static double most(double x, double y) { return isnan(x) ? y : isnan(y) ? x : x > y || (x == y && !signbit(x)) ? x : y; }
static double middle(double x, double y, double z)
{
	double top = most(most(x, y), z);
	if (isnan(x) || isnan(y) || isnan(z))
		return least(least(x, y), z);
	return top == x ? most(y, z) : top == y ? most(x, z) : most(x, y);
}

/* A function that is exact whatever the rounding mode, as the host's library gives it to nearest. */
static double calm(double (*of)(double), double x)
{
	int mode = fegetround();
	fesetround(FE_TONEAREST);
	x = of(x);
	fesetround(mode);
	return x;
}

/* Above every number below 1: what the fractions of numbers just below 0 round to; a NaN stays, as LLVM's use of it shows. */
static double fraction(double x, double top)
{
	double f = x - calm(floor, x);
	return isnan(x) ? x : least(f, top);
}

static uint32_t to_int(double x, double low, double high) { return isnan(x) ? 0 : x < low ? (uint32_t)(int64_t)low : x > high ? (uint32_t)(int64_t)high : (uint32_t)(int64_t)x; }
static uint32_t exponent_of(double x)
{
	int e = 0;
	if (isfinite(x))
		frexp(x, &e);
	return (uint32_t)e;
}

static double half_value(uint16_t h)
{
	int e = h >> 10 & 31, m = h & 1023;
	double v = e == 31 ? m ? (double)NAN : (double)INFINITY : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
	return h >> 15 ? -v : v;
}

/* One rounding by MODE's code: 0 nearest even, 1 up, 2 down, 3 to zero. */
static uint16_t half_rounded(exact x, unsigned mode)
{
	uint16_t sign = x < 0 || (x == 0 && signbit((double)x)) ? 0x8000 : 0;
	if (x != x)
		return 0x7e00;
	exact m = sign ? -x : x, unit = (exact)0x1p-24;
	bool up = mode == 1 ? !sign : mode == 2 && sign;
	if (m > (exact)0x1p40)
		return sign | (uint16_t)(isinf((double)m) || mode == 0 || up ? 0x7c00 : 0x7bff);
	while (m >= unit * 2048)
		unit *= 2;
	uint64_t whole = (uint64_t)(m / unit);
	exact rest = m / unit - whole;
	whole += mode == 0 ? rest > (exact)0.5 || (rest == (exact)0.5 && whole & 1) : up && rest > 0;
	double v = (double)(whole * unit);
	if (v >= 65520 || (v > 65504 && (mode == 0 || up)))
		return sign | (uint16_t)(mode == 0 || up ? 0x7c00 : 0x7bff);
	if (v > 65504)
		return sign | 0x7bff;
	int e = 0;
	double f = frexp(v, &e);
	return sign | (uint16_t)(v < 0x1p-14 ? (unsigned)(v * 0x1p24) : (unsigned)(e + 14) << 10 | ((unsigned)(f * 2048) & 1023));
}

/* ---- the formulas as functions ---- */

/* bits: the operands after modifiers, as wide as their types.  round: of f16. */
struct given { uint64_t bits[3]; bool cy, sat; unsigned round; int lane; };
struct formula { const char *name, *text; char form; uint64_t (*of)(const struct given *, bool *out); };

#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define BODY uint64_t bits_a = g->bits[0], bits_b = g->bits[1], wide = 0; bool cy = g->cy, sat = g->sat, s = g->cy; int lane = g->lane, exponent = 0; (void)sat; bool out = false;
#define I(name, e) static uint64_t of_##name(const struct given *g, bool *outp) { BODY uint32_t a = (uint32_t)g->bits[0], b = (uint32_t)g->bits[1], c = (uint32_t)g->bits[2]; \
	int32_t A = (int32_t)a, B = (int32_t)b, C = (int32_t)c; uint32_t r = (e); *outp = out; return r; }
#define W(name, e) static uint64_t of_##name(const struct given *g, bool *outp) { BODY int a = (uint16_t)g->bits[0], b = (uint16_t)g->bits[1], c = (uint16_t)g->bits[2], \
	A = (int16_t)a, B = (int16_t)b, C = (int16_t)c; return (uint16_t)(e); }
#define Q(name, e) static uint64_t of_##name(const struct given *g, bool *outp) { BODY uint64_t a = g->bits[0], b = g->bits[1], c = g->bits[2]; \
	int64_t B = (int64_t)b, C = (int64_t)c; uint64_t r = (e); *outp = out; return r; }
#define F(name, e) static uint64_t of_##name(const struct given *g, bool *outp) { BODY float x = as_float((uint32_t)g->bits[0]), y = as_float((uint32_t)g->bits[1]), \
	z = as_float((uint32_t)g->bits[2]); return float_bits((float)(e)); }
#define D(name, e) static uint64_t of_##name(const struct given *g, bool *outp) { BODY double x = as_double(g->bits[0]), y = as_double(g->bits[1]), z = as_double(g->bits[2]); \
	return double_bits(e); }
#define H(name, e) static uint64_t of_##name(const struct given *g, bool *outp) { BODY exact x = half_value((uint16_t)g->bits[0]), y = half_value((uint16_t)g->bits[1]), \
	z = half_value((uint16_t)g->bits[2]); return half_rounded(e, g->round); }
#define N(name, e) static uint64_t of_##name(const struct given *g, bool *outp) { BODY float x = as_float((uint32_t)g->bits[0]); double dx = as_double(g->bits[0]), \
	hx = half_value((uint16_t)g->bits[0]); return (e); }
#define P W
#define G H
#define E F
#define S(name, e, scc) static uint64_t of_##name(const struct given *g, bool *outp) { BODY uint32_t a = (uint32_t)g->bits[0], b = (uint32_t)g->bits[1]; \
	int32_t A = (int32_t)a, B = (int32_t)b; uint32_t d = (e); *outp = (scc); return d; }
#define T(name, e, scc) static uint64_t of_##name(const struct given *g, bool *outp) { BODY uint64_t a = g->bits[0], b = g->bits[1]; uint64_t d = (e); *outp = (scc); return d; }
#include "sim_random.def"
#undef I
#undef W
#undef Q
#undef F
#undef D
#undef H
#undef N
#undef P
#undef G
#undef E
#undef S
#undef T
#define I(name, e) {#name, #e, 'I', of_##name},
#define W(name, e) {#name, #e, 'W', of_##name},
#define Q(name, e) {#name, #e, 'Q', of_##name},
#define F(name, e) {#name, #e, 'F', of_##name},
#define D(name, e) {#name, #e, 'D', of_##name},
#define H(name, e) {#name, #e, 'H', of_##name},
#define N(name, e) {#name, #e, 'N', of_##name},
#define P(name, e) {#name, #e, 'P', of_##name},
#define G(name, e) {#name, #e, 'G', of_##name},
#define E(name, e) {#name, #e, 'E', of_##name},
#define S(name, e, scc) {#name, #e, 'S', of_##name},
#define T(name, e, scc) {#name, #e, 'T', of_##name},
static const struct formula formulas[] = {
#include "sim_random.def"
};
enum { FORMULAS = sizeof formulas / sizeof *formulas };
#undef I
#undef S

/* ---- operands ---- */

static uint64_t state = 88172645463325252u;
static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1du;
}

static uint64_t operand(char type)
{
	static const uint32_t f[] = {0, 0x80000000, 1, 0x80000001, 0x7fffff, 0x800000, 0x3f800000, 0xbf800000, 0x3f7fffff, 0x40000000, 0x4b000000, 0x4f000000, 0x7f7fffff, 0x7f800000,
		0xff800000, 0x7fc00000, 0x3f000000, 0xbf000000, 0x477fe000, 0x33800000, 0x387fc000};
	static const uint64_t d[] = {0, UINT64_C(1) << 63, 1, 0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000, 0xbfe0000000000000, 0x41dfffffffc00000, 0x7fefffffffffffff,
		0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x47efffffe0000000, 0x3810000000000000, 0x36a0000000000000};
	static const uint16_t h[] = {0, 0x8000, 1, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x3800, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x4000, 0x6400, 0x8001};
	static const uint32_t i[] = {0, 1, 2, 31, 32, 63, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0x800000, 0xffffff};
	uint64_t r = draw(), k = draw() >> 8;
	bool special = draw() % 4 == 0;
	switch (type) {
	case 'f': case 'P': /* near 1 half of the time, so that sums cancel */
		return special ? f[k % (sizeof f / sizeof *f)] : k & 1 ? r & 0xffffffff : (r & 0x80ffffff) | 0x3f000000;
	case 'd': return special ? d[k % (sizeof d / sizeof *d)] : k & 1 ? r : (r & 0x801fffffffffffff) | 0x3fe0000000000000;
	case 'h': return (special ? h[k % (sizeof h / sizeof *h)] : k & 1 ? r & 0xffff : (r & 0x87ff) | 0x3800) | (r >> 16 << 16 & 0xffff0000);
	case 'l': return special ? i[k % (sizeof i / sizeof *i)] : k & 1 ? r : r % 70;
	default: return special ? i[k % (sizeof i / sizeof *i)] : k & 1 ? r & 0xffffffff : k & 2 ? r % 70 : r & 0xffff;
	}
}

static bool not_a_number(uint64_t bits, char type)
{
	return type == 'f' ? (bits & 0x7fffffff) > 0x7f800000 : type == 'd' ? (bits & ~(UINT64_C(1) << 63)) > UINT64_C(0x7ff0000000000000) :
	       type == 'h' ? (bits & 0x7fff) > 0x7c00 : false;
}

static bool signalling(uint64_t bits, char type)
{
	uint64_t quiet = type == 'f' ? 1u << 22 : type == 'd' ? UINT64_C(1) << 51 : 1u << 9;
	return not_a_number(bits, type) && !(bits & quiet);
}

static uint64_t flushed(uint64_t bits, char type, bool flush)
{
	uint64_t exponent = type == 'f' ? 0x7f800000 : type == 'd' ? UINT64_C(0x7ff0000000000000) : 0x7c00, sign = type == 'f' ? 1u << 31 : type == 'd' ? UINT64_C(1) << 63 : 0x8000;
	return (type != 'f' && type != 'd' && type != 'h') || !flush || bits & exponent ? bits : bits & sign;
}

/* ---- a wave of one instruction ---- */

static struct sim_single one;

struct modes { unsigned round32, round16; bool keep32, keep16, ieee; };
static const int host_round[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

static struct modes draw_modes(bool nearest)
{
	uint64_t r = draw() >> 10;
	struct modes m = {r & 8 && !nearest ? r & 3 : 0, r & 16 && !nearest ? r >> 5 & 3 : 0, r >> 7 & 1, r >> 8 & 1, r >> 9 & 1};
	sim_set_mode(&one.wave, m.round32 | m.round16 << 2 | (m.keep32 ? 3u << 4 : 0) | (m.keep16 ? 3u << 6 : 0) | 1u << 8 | (uint32_t)m.ieee << 9);
	return m;
}

/* The long form of a row: vector sources v0 v2 v4, results v8 and a mask in s[12:13], carries from s[10:11]. */
struct form { uint32_t word[2]; uint8_t abs, neg, opsel, opsel_hi, neg_hi; bool clamp; unsigned omod; };

/* Output modifiers are drawn only with rounding to nearest: the guides do not say how they overflow in other modes. */
static struct form draw_form(uint16_t enc, unsigned opcode, const struct formula *f, const struct modes *m, bool carries, bool mask)
{
	struct form o = {.clamp = false};
	uint64_t r = draw() >> 12;
	bool floats = f && strchr("FDHN", f->form) && !strstr(f->name, "cvt_f32_ubyte") && !strstr(f->name, "cvt_off"), halves = f && strchr("WH", f->form);
	uint32_t op = enc == ENC_VOP2 ? 0x100 + opcode : enc == ENC_VOP1 ? 0x140 + opcode : opcode;
	if (floats || !f) {
		o.abs = r & 8 ? r & 7 : 0;
		o.neg = r & 64 ? r >> 4 & 7 : 0;
	}
	if (f && strchr("FDH", f->form)) {
		o.clamp = (r >> 8 & 7) == 0;
		o.omod = (r >> 11 & 7) < 4 && !m->round32 && !m->round16 ? r >> 11 & 3 : 0;
	} else if (f && strstr(f->text, "sat ?")) {
		o.clamp = r >> 8 & 1;
	}
	if (enc == ENC_VOP3P) {
		bool half = f->form == 'G' || f->form == 'P', pairs = f->form == 'E';
		o.opsel = half || pairs ? r >> 14 & 7 : 0;
		o.opsel_hi = half || pairs ? r >> 17 & 7 : 7;
		o.neg = f->form == 'G' || pairs ? r >> 20 & 7 : 0;
		o.neg_hi = f->form == 'G' || pairs ? r >> 23 & 7 : 0;
		o.clamp = f->form == 'G' ? (r >> 26 & 7) == 0 : o.clamp;
		o.word[0] = 0xd3800000u | opcode << 16 | (uint32_t)o.clamp << 15 | (o.opsel_hi >> 2 & 1u) << 14 | (uint32_t)o.opsel << 11 | (uint32_t)o.neg_hi << 8 | RESULT;
		o.word[1] = (uint32_t)o.neg << 29 | (o.opsel_hi & 3u) << 27 | 260u << 18 | 258u << 9 | 256u;
		return o;
	}
	if (halves && enc == ENC_VOP3)
		o.opsel = r >> 14 & 15;
	o.word[0] = 0xd0000000u | op << 16 | (uint32_t)o.clamp << 15 | (uint32_t)o.opsel << 11 | (uint32_t)o.abs << 8 | (mask ? MASK_OUT : RESULT);
	if (carries) {
		o.abs = 0;
		o.word[0] = 0xd0000000u | op << 16 | (uint32_t)o.clamp << 15 | MASK_OUT << 8 | RESULT;
	}
	bool mask_in = f && strstr(f->text, "cy") != NULL;
	o.word[1] = (uint32_t)o.neg << 29 | o.omod << 27 | (mask_in ? MASK_IN : 260u) << 18 | 258u << 9 | 256u;
	return o;
}

static uint64_t lane_bits(unsigned reg, int lane, char type)
{
	bool wide = type == 'd' || type == 'l' || type == 'P';
	return one.vgpr[reg][lane] | (wide ? (uint64_t)one.vgpr[reg + 1][lane] << 32 : 0);
}

/* A source after op_sel, abs, neg and denormals. */
static uint64_t source(const struct form *o, const struct modes *m, int k, int lane, char type)
{
	uint64_t v = lane_bits((unsigned)(2 * k), lane, type), sign = type == 'f' ? 1u << 31 : type == 'd' ? UINT64_C(1) << 63 : 0x8000;
	if (type == 'h' || type == 's')
		v = (o->opsel >> k & 1 ? v >> 16 : v) & 0xffff;
	if (type == 'f' || type == 'd' || type == 'h')
		v = (o->abs >> k & 1 ? v & ~sign : v) ^ (o->neg >> k & 1 ? sign : 0);
	return flushed(v, type, type == 'f' ? !m->keep32 : !m->keep16);
}

/* Denormals, omod and clamp of a result.  LLVM on omod (SIFoldOperands): hardware ignores it under IEEE and where denormal results
 * are kept, and it does not keep the sign of zeros; the guides: it makes -0 a +0. */
static uint64_t finished(const struct form *o, const struct modes *m, uint64_t v, char type)
{
	static const double factor[] = {1, 2, 4, 0.5};
	unsigned omod = m->ieee || (type == 'f' ? m->keep32 : m->keep16) ? 0 : o->omod;
	v = flushed(v, type, type == 'f' ? !m->keep32 : !m->keep16);
	if (!omod && !o->clamp)
		return v;
	double x = type == 'f' ? as_float((uint32_t)v) : type == 'd' ? as_double(v) : half_value((uint16_t)v);
	if (omod) {
		x *= factor[omod];
		v = type == 'f' ? float_bits((float)x) : type == 'd' ? double_bits(x) : half_rounded(x, 0);
		v = flushed(v, type, true);
		v = flushed(v & ~(type == 'f' ? UINT64_C(1) << 31 : type == 'd' ? UINT64_C(1) << 63 : 0x8000), type, true) ? v : 0;
		x = type == 'f' ? as_float((uint32_t)v) : type == 'd' ? as_double(v) : half_value((uint16_t)v);
	}
	if (o->clamp) {
		x = isnan(x) || x < 0 || x == 0 ? 0 : x > 1 ? 1 : x;
		v = type == 'f' ? float_bits((float)x) : type == 'd' ? double_bits(x) : half_rounded(x, 0);
	}
	return v;
}

static void fill(const struct sim_inst *in)
{
	for (int k = 0; k < 3; k++)
		for (int l = 0; l < LANES; l++) {
			char type = k < in->nsrc ? (char)in->src[k].type : 'i';
			uint64_t v = operand(type == 'p' ? 'h' : type);
			if (type == 'p')
				v = (v & 0xffff) | (operand('h') & 0xffff) << 16;
			one.vgpr[2 * k][l] = (uint32_t)v;
			one.vgpr[2 * k + 1][l] = type == 'P' ? (uint32_t)operand('f') : (uint32_t)(v >> 32);
		}
	sim_sgpr64_set(&one.wave, MASK_IN, draw());
}

static const char *failed[64];
static int nfailed;

/* One line for an instruction. */
static bool failed_before(const char *name)
{
	for (int i = 0; i < nfailed; i++)
		if (!strcmp(failed[i], name))
			return true;
	if (nfailed < 64)
		failed[nfailed++] = name;
	return false;
}

static void report(const char *name, const struct form *o, const struct modes *m, const struct given *g, uint64_t got, uint64_t want)
{
	if (failed_before(name))
		return;
	printf("%s (%08x %08x) rounding %u %u, denormals %d %d, lane %d: %llx %llx %llx carry %d gives %llx, not %llx\n", name, o->word[0], o->word[1], m->round32, m->round16,
		m->keep32, m->keep16, g->lane, (unsigned long long)g->bits[0], (unsigned long long)g->bits[1], (unsigned long long)g->bits[2], g->cy, (unsigned long long)got,
		(unsigned long long)want);
	fflush(stdout);
}

/* ---- families ---- */

static char result_type(const struct formula *f) { return f->form == 'F' ? 'f' : f->form == 'D' ? 'd' : f->form == 'H' ? 'h' : f->form == 'Q' ? 'l' : 'i'; }

/* Signalling NaNs under IEEE make minima, maxima and medians quiet NaNs, whatever the other operand. */
static bool nearest_only(const struct formula *f) { return strstr(f->text, "fraction") || strstr(f->name, "ldexp"); }
static bool quiet_only(const struct formula *f) { return strstr(f->text, "least") || strstr(f->text, "most") || strstr(f->text, "middle"); }

static void vector_rounds(const struct formula *f, uint16_t enc, unsigned opcode, int rounds)
{
	bool carries = strstr(f->text, "out =") != NULL;
	for (int round = 0; round < rounds; round++) {
		struct modes m = draw_modes(nearest_only(f));
		struct form o = draw_form(enc, opcode, f, &m, carries, false);
		struct sim_inst in;
		if (!sim_decode(&in, o.word, 2, one.object.chip, 256))
			ck_abort_msg("%s: %08x %08x is no instruction of %s", f->name, o.word[0], o.word[1], one.object.chip->name);
		for (int k = 0; k < in.nsrc && k < 3; k++)        /* integers have neither neg nor abs */
			if (!strchr("fdh", in.src[k].type) && !carries) {
				o.neg &= (uint8_t)~(1 << k);
				o.abs &= (uint8_t)~(1 << k);
				o.word[0] &= ~(1u << (8 + k));
				o.word[1] &= ~(1u << (29 + k));
			}
		fill(&in);
		uint64_t cy = sim_sgpr64(&one.wave, MASK_IN);
		sim_single_run(&one, f->name, o.word, 2);
		fesetround(host_round[f->form == 'F' ? m.round32 : m.round16]);
		for (int l = 0; l < LANES; l++) {
			struct given g = {.cy = cy >> l & 1, .sat = o.clamp, .round = m.round16, .lane = l};
			bool out = false, skip = false;
			for (int k = 0; k < in.nsrc && k < 3; k++) {
				g.bits[k] = source(&o, &m, k, l, (char)in.src[k].type);
				skip |= quiet_only(f) && signalling(g.bits[k], (char)in.src[k].type);
			}
			uint64_t want = f->of(&g, &out), got = lane_bits(RESULT, l, result_type(f));
			char type = result_type(f);
			if (type == 'f' || type == 'd' || type == 'h')
				want = finished(&o, &m, want, type);
			if (f->form == 'W' || f->form == 'H' || in.dtype == 's') {
				got = (o.opsel & 8 ? got >> 16 : got) & 0xffff;
				want &= 0xffff;
			}
			if (!skip && got != want && !(not_a_number(got, type) && not_a_number(want, type)))
				report(f->name, &o, &m, &g, got, want);
			if (carries && out != (sim_sgpr64(&one.wave, MASK_OUT) >> l & 1))
				report(f->name, &o, &m, &g, !out, out);
		}
		fesetround(FE_TONEAREST);
	}
}

/* One half, or one of two f32, of a packed source. */
static uint64_t packed_source(const struct form *o, const struct modes *m, int k, int lane, int half, char form)
{
	unsigned pick = (half ? o->opsel_hi : o->opsel) >> k & 1, neg = (half ? o->neg_hi : o->neg) >> k & 1;
	if (form == 'E')
		return flushed(one.vgpr[2 * k + (int)pick][lane] ^ (neg ? 1u << 31 : 0), 'f', !m->keep32);
	uint64_t v = one.vgpr[2 * k][lane] >> (16 * pick) & 0xffff;
	return form == 'G' ? flushed(v ^ (neg ? 0x8000 : 0), 'h', !m->keep16) : v;
}

static void packed_rounds(const struct formula *f, unsigned opcode, int rounds)
{
	char type = f->form == 'E' ? 'f' : f->form == 'G' ? 'h' : 's';
	for (int round = 0; round < rounds; round++) {
		struct modes m = draw_modes(false);
		struct form o = draw_form(ENC_VOP3P, opcode, f, &m, false, false);
		struct sim_inst in;
		ck_assert(sim_decode(&in, o.word, 2, one.object.chip, 256));
		fill(&in);
		sim_single_run(&one, f->name, o.word, 2);
		fesetround(host_round[f->form == 'E' ? m.round32 : m.round16]);
		for (int l = 0; l < 2 * LANES; l++) {
			struct given g = {.sat = o.clamp, .round = m.round16, .lane = l / 2};
			bool out = false, skip = false;
			for (int k = 0; k < in.nsrc; k++) {
				g.bits[k] = packed_source(&o, &m, k, l / 2, l & 1, f->form);
				skip |= quiet_only(f) && signalling(g.bits[k], type);
			}
			uint64_t want = f->of(&g, &out), got = type == 'f' ? one.vgpr[RESULT + (l & 1)][l / 2] : one.vgpr[RESULT][l / 2] >> (16 * (l & 1)) & 0xffff;
			want = type == 's' ? want & 0xffff : finished(&o, &m, want, type);
			if (!skip && got != want && !(not_a_number(got, type) && not_a_number(want, type)))
				report(f->name, &o, &m, &g, got, want);
		}
		fesetround(FE_TONEAREST);
	}
}

static void scalar_rounds(const struct formula *f, uint16_t enc, unsigned opcode, int rounds)
{
	struct form o = {.clamp = false};
	struct modes m = {0};
	o.word[0] = enc == ENC_SOP2 ? 0x80000000u | opcode << 23 | SCALAR_D << 16 | SCALAR_B << 8 | SCALAR_A : enc == ENC_SOP1 ? 0xbe800000u | SCALAR_D << 16 | opcode << 8 | SCALAR_A :
		0xbf000000u | opcode << 16 | SCALAR_B << 8 | SCALAR_A;
	for (int round = 0; round < rounds * 8; round++) {
		struct given g = {.bits = {operand(f->form == 'T' ? 'l' : 'i'), operand(f->form == 'T' ? 'l' : 'i')}, .cy = draw() >> 9 & 1};
		bool scc;
		sim_sgpr64_set(&one.wave, SCALAR_A, g.bits[0]);
		sim_sgpr64_set(&one.wave, SCALAR_B, g.bits[1]);
		sim_sgpr64_set(&one.wave, SCALAR_D, 0);
		one.wave.scc = g.cy;
		uint64_t want = f->of(&g, &scc);
		sim_single_run(&one, f->name, o.word, 1);
		if (sim_sgpr64(&one.wave, SCALAR_D) != want)
			report(f->name, &o, &m, &g, sim_sgpr64(&one.wave, SCALAR_D), want);
		if (one.wave.scc != scc)
			report(f->name, &o, &m, &g, one.wave.scc, scc);
	}
}

/* ---- comparisons: "v_cmp_COND_TYPE" ---- */

/* Whether the row can be tested, and the type's letter, its number being signed. */
static bool comparison(const char *name, char cond[8], char *type, bool *is_signed)
{
	char kind;
	int width;
	if (sscanf(name, "v_cmp_%7[a-z]_%c%d", cond, &kind, &width) != 3 || !strcmp(cond, "class"))
		return false;
	*is_signed = kind == 'i';
	*type = kind == 'f' ? width == 16 ? 'h' : width == 32 ? 'f' : 'd' : width == 16 ? 's' : width == 32 ? 'i' : 'l';
	return true;
}

static bool compared(const char *cond, uint64_t a, uint64_t b, char type, bool is_signed)
{
	double x = 0, y = 0;
	bool less, same, unordered = false;
	if (type == 'f' || type == 'd' || type == 'h') {
		x = type == 'f' ? as_float((uint32_t)a) : type == 'd' ? as_double(a) : half_value((uint16_t)a);
		y = type == 'f' ? as_float((uint32_t)b) : type == 'd' ? as_double(b) : half_value((uint16_t)b);
		unordered = isnan(x) || isnan(y);
		less = x < y;
		same = x == y;
	} else {
		int shift = type == 's' ? 48 : type == 'i' ? 32 : 0;
		less = is_signed ? (int64_t)(a << shift) < (int64_t)(b << shift) : a << shift < b << shift;
		same = a << shift == b << shift;
	}
	bool more = !less && !same && !unordered, not = cond[0] == 'n' && strcmp(cond, "ne") != 0;
	const char *c = not ? cond + 1 : cond;
	bool r = !strcmp(c, "t") || !strcmp(c, "tru") ? true : !strcmp(c, "lt") ? less : !strcmp(c, "eq") ? same : !strcmp(c, "le") ? less || same : !strcmp(c, "gt") ? more :
		!strcmp(c, "lg") || !strcmp(c, "ne") ? less || more : !strcmp(c, "ge") ? more || same : !strcmp(c, "o") ? !unordered : !strcmp(c, "u") ? unordered : false;
	return not ? !r : r;
}

static void comparison_rounds(const char *name, unsigned opcode, int rounds)
{
	char cond[8], type;
	bool is_signed;
	if (!comparison(name, cond, &type, &is_signed))
		return;
	bool floats = type == 'f' || type == 'd' || type == 'h';
	for (int round = 0; round < rounds; round++) {
		struct modes m = draw_modes(false);
		struct form o = draw_form(ENC_VOPC, opcode, floats ? NULL : formulas, &m, false, true);
		struct sim_inst in;
		ck_assert_msg(sim_decode(&in, o.word, 2, one.object.chip, 256), "%s", name);
		fill(&in);
		for (int l = 0; l < LANES; l += 3)                /* equal operands */
			for (int k = 0; k < 2; k++)
				one.vgpr[2 + k][l] = one.vgpr[k][l];
		sim_single_run(&one, name, o.word, 2);
		for (int l = 0; l < LANES; l++) {
			struct given g = {.bits = {source(&o, &m, 0, l, type), source(&o, &m, 1, l, type)}, .lane = l};
			bool want = compared(cond, g.bits[0], g.bits[1], type, is_signed), got = sim_sgpr64(&one.wave, MASK_OUT) >> l & 1;
			if (got != want)
				report(name, &o, &m, &g, got, want);
		}
	}
}

/* ---- the tests ---- */

static const struct formula *formula_of(const char *name)
{
	for (int i = 0; i < FORMULAS; i++)
		if (!strcmp(formulas[i].name, name))
			return &formulas[i];
	return NULL;
}

static const char *const chips[] = {"gfx942", "gfx950"};

START_TEST(instructions_agree)
{
	int rounds = getenv("E2E_FULL") ? FULL_ROUNDS : ROUNDS;
	bool seen[FORMULAS] = {false};
	sim_single_start(&one, chips[_i]);
	for (int i = 0; i < sim_nrows; i++) {
		const struct formula *f = formula_of(sim_rows[i].name);
		if (!(sim_rows[i].chips >> _i & 1))
			continue;
		if (sim_rows[i].enc == ENC_VOPC)
			comparison_rounds(sim_rows[i].name, sim_rows[i].opcode, rounds);
		if (!f)
			continue;
		seen[f - formulas] = true;
		if (strchr("ST", f->form))
			scalar_rounds(f, sim_rows[i].enc, sim_rows[i].opcode, rounds);
		else if (strchr("PGE", f->form))
			packed_rounds(f, sim_rows[i].opcode, rounds);
		else
			vector_rounds(f, sim_rows[i].enc, sim_rows[i].opcode, rounds);
	}
	ck_assert_int_eq(nfailed, 0);
	for (int i = 0; i < FORMULAS; i++)
		ck_assert_msg(seen[i], "no instruction of %s is called %s", chips[_i], formulas[i].name);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("random");
	TCase *c = tcase_create("random");
	tcase_set_timeout(c, 1200);
	tcase_add_loop_test(c, instructions_agree, 0, 2);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
