/* ptx_lanes.c -- what a warp's instructions make of registers, all lanes at a time, for ptx_run.c.
 * In: an instruction, the warp's registers, the lanes that do it.  Out: registers.  An operation is chosen once, then a loop over the lanes, whose
 * registers lie side by side, does it.  What all lanes do together (shfl, vote, redux, mma) is here too.
 * So are products of four warps (wgmma; PTX ISA, "Asynchronous warpgroup level matrix instructions"), of which a warp does its own rows.  A chip does them
 * some time between where they begin and where the warp waits for them; here they are done where it waits, the latest.  Until then nothing else may read or
 * write the sums, nor write words of A that are in registers, and other products may only go on with the same list of sums; what accesses such registers
 * before has a fence of registers behind it. */
#include "ptx_machine.h"

#include <math.h>
#include <string.h>
#include "../base/num.h"

static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static float least(float a, float b) { return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b; }

static enum dtype narrow(struct type t) { return t.kind == 'e' ? DT_E4M3 : t.kind == 'E' ? DT_E5M2 : t.kind == 'B' ? DT_BF16 : DT_F16; }

/* What the lanes have of an operand: registers, or room filled with it. */
static const uint64_t *values(const struct thread *warp, const struct operand *o, uint64_t *room)
{
	const uint64_t *reg = o->where == AT_REGISTER ? reg_of(warp, o->reg) : NULL;
	if (reg && !o->negated)
		return reg;
	for (int n = 0; n < WARP; n++)
		room[n] = o->negated ? !(reg ? reg[n] : o->value) : o->value;
	return room;
}

static void give(struct thread *warp, const struct operand *o, const uint64_t *v, int bits, lanes on)
{
	if (o->where != AT_REGISTER)
		return;
	uint64_t *reg = reg_of(warp, o->reg), mask = cut(~0ull, bits);
	if (on == ALL_LANES) {
		for (int n = 0; n < WARP; n++)
			reg[n] = v[n] & mask;
		return;
	}
	for (int n = 0; n < WARP; n++)
		reg[n] = on >> n & 1 ? v[n] & mask : reg[n];
}

lanes ptx_lanes_guarded(const struct thread *warp, const struct ins *i)
{
	lanes on = 0;
	if (i->guard < 0)
		return ALL_LANES;
	const uint64_t *p = reg_of(warp, i->guard);
	for (int n = 0; n < WARP; n++)
		on |= (lanes)((p[n] != 0) != i->guard_not) << n;
	return on;
}

/* --- arithmetic ------------------------------------------------------------------------------------------------------------- */

#define EACH for (int n = 0; n < WARP; n++)
#define REAL1(x) EACH { float a = num_float((uint32_t)v[0][n]); r[n] = num_bits(x); }
#define REAL2(x) EACH { float a = num_float((uint32_t)v[0][n]), b = num_float((uint32_t)v[1][n]); r[n] = num_bits(x); }
#define REAL3(x) EACH { float a = num_float((uint32_t)v[0][n]), b = num_float((uint32_t)v[1][n]), c = num_float((uint32_t)v[2][n]); r[n] = num_bits(x); }

static bool real_op(const struct ins *i, const uint64_t *const *v, uint64_t *restrict r)
{
	bool approx = has(i, approx);
	if (approx && !has(i, ftz))
		return false;
	if (is(i, add)) REAL2(a + b)
	else if (is(i, sub)) REAL2(a - b)
	else if (is(i, mul)) REAL2(a * b)
	else if (is(i, fma)) REAL3(fmaf(a, b, c))
	else if (is(i, div)) REAL2(a / b)
	else if (is(i, min) && !has(i, nan)) REAL2(least(a, b))
	else if (is(i, max) && !has(i, nan)) REAL2(-least(-a, -b))
	else if (is(i, neg)) REAL1(-a)
	else if (is(i, abs)) REAL1(fabsf(a))
	else if (is(i, sqrt) && !approx) REAL1(sqrtf(a))
	else if (is(i, rcp)) REAL1(approx ? num_rcp(a) : 1 / a)
	else if (is(i, rsqrt) && approx) REAL1(num_rsq(a))
	else if (is(i, ex2) && approx) REAL1(num_exp2(a))
	else if (is(i, lg2) && approx) REAL1(num_log2(a))
	else if (is(i, sin) && approx) REAL1(flush((float)sin(a)))
	else if (is(i, cos) && approx) REAL1((float)cos(a))
	else return false;
	return i->modifiers >> MOD_UNKNOWN == 0 && !has(i, relu) && !has(i, sat);
}

static uint64_t bit_field(uint64_t v, uint64_t at, uint64_t n, bool is_signed, int bits)
{
	at &= 255;
	n &= 255;
	uint64_t x = at >= (unsigned)bits ? 0 : cut(cut(v, bits) >> at, n > (unsigned)bits ? bits : (int)n);
	return is_signed && n && n < (unsigned)bits ? (uint64_t)sign(x, (int)n) : x;
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t pick)
{
	uint64_t both = cut(b, 32) << 32 | cut(a, 32), r = 0;
	for (int i = 0; i < 4; i++) {
		uint64_t k = pick >> (4 * i), byte = both >> (8 * (k & 7)) & 255;
		r |= (k & 8 ? (byte & 128 ? 255ull : 0) : byte) << (8 * i);
	}
	return r;
}

#define BITS(x) EACH { uint64_t a = v[0][n] & mask, b = v[1][n] & mask; r[n] = (x); }
#define SIGNED(x) EACH { int64_t a = (int64_t)(v[0][n] << unused) >> unused, b = (int64_t)(v[1][n] << unused) >> unused; r[n] = (uint64_t)(x); }
#define WHOLE(x) { if (s) SIGNED(x) else BITS(x) }

static bool integer_op(const struct ins *i, struct type t, const uint64_t *const *v, uint64_t *restrict r)
{
	bool s = t.kind == 's';
	int w = t.bits, unused = 64 - w;
	uint64_t mask = cut(~0ull, w);
	if (is(i, add)) BITS(a + b)
	else if (is(i, sub)) BITS(a - b)
	else if (is(i, mul) && has(i, wide)) WHOLE(a * b)
	else if (is(i, mul) && has(i, hi) && s) SIGNED(((__int128)a * b) >> w)
	else if (is(i, mul) && has(i, hi)) BITS((uint64_t)(((unsigned __int128)a * b) >> w))
	else if (is(i, mul) && has(i, lo)) BITS(a * b)
	else if (is(i, mad) && has(i, lo)) BITS(a * b + v[2][n])
	else if (is(i, div) && s) SIGNED(!b ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b)
	else if (is(i, div)) BITS(!b ? ~0ull : a / b)
	else if (is(i, rem) && s) SIGNED(!b ? a : b == -1 ? 0 : a % b)
	else if (is(i, rem)) BITS(!b ? a : a % b)
	else if (is(i, min)) WHOLE(a < b ? a : b)
	else if (is(i, max)) WHOLE(a > b ? a : b)
	else if (is(i, neg)) EACH r[n] = 0 - (v[0][n] & mask);
	else if (is(i, abs)) EACH { int64_t a = sign(v[0][n], w); r[n] = a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }
	else if (is(i, not)) EACH r[n] = t.kind == 'P' ? !(v[0][n] & mask) : ~(v[0][n] & mask);
	else if (is(i, and)) BITS(a & b)
	else if (is(i, or)) BITS(a | b)
	else if (is(i, xor)) BITS(a ^ b)
	else if (is(i, shl)) EACH { uint32_t by = (uint32_t)v[1][n]; r[n] = by >= (unsigned)w ? 0 : (v[0][n] & mask) << by; }
	else if (is(i, shf) && w == 32) EACH { uint32_t by = (uint32_t)v[2][n] & 31; r[n] = (v[1][n] << 32 | (v[0][n] & mask)) << by >> 32; }
	else if (is(i, shr) && s) EACH { uint32_t by = (uint32_t)v[1][n]; r[n] = (uint64_t)(sign(v[0][n], w) >> (by >= (unsigned)w ? (unsigned)w - 1 : by)); }
	else if (is(i, shr)) EACH { uint32_t by = (uint32_t)v[1][n]; r[n] = by >= (unsigned)w ? 0 : (v[0][n] & mask) >> by; }
	else if (is(i, bfe) && (w == 32 || !s)) EACH r[n] = bit_field(v[0][n], v[1][n], v[2][n], s, w);
	else if (is(i, popc)) EACH r[n] = (uint64_t)__builtin_popcountll(v[0][n] & mask);
	else if (is(i, prmt)) EACH r[n] = permute(v[0][n], v[1][n], v[2][n]);
	else return false;
	if (has(i, relu))
		EACH r[n] = sign(r[n], w) < 0 ? 0 : r[n];
	return i->modifiers >> MOD_UNKNOWN == 0 && (!has(i, relu) || (s && (is(i, min) || is(i, max)))) && !has(i, sat);
}

#define REALS(x) EACH { float a = num_float((uint32_t)v[0][n]), b = num_float((uint32_t)v[1][n]); r[n] = isnan(a) || isnan(b) ? or_nan : (x); }

static bool compare_reals(const struct ins *i, const uint64_t *const *v, uint64_t *restrict r)
{
	bool or_nan = has(i, nan) || has(i, equ) || has(i, neu) || has(i, ltu) || has(i, leu) || has(i, gtu) || has(i, geu);
	if (has(i, eq) || has(i, equ)) REALS(a == b)
	else if (has(i, ne) || has(i, neu)) REALS(a != b)
	else if (has(i, lt) || has(i, ltu)) REALS(a < b)
	else if (has(i, le) || has(i, leu)) REALS(a <= b)
	else if (has(i, gt) || has(i, gtu)) REALS(a > b)
	else if (has(i, ge) || has(i, geu)) REALS(a >= b)
	else REALS(!has(i, nan))
	return i->type[0].bits == 32 && i->modifiers >> MOD_UNKNOWN == 0;
}

static bool compare(const struct ins *i, const uint64_t *const *v, uint64_t *restrict r)
{
	struct type t = i->type[0];
	bool s = t.kind == 's';
	int unused = 64 - t.bits;
	uint64_t mask = cut(~0ull, t.bits);
	if (t.kind == 'f')
		return compare_reals(i, v, r);
	if (has(i, eq)) WHOLE(a == b)
	else if (has(i, ne)) WHOLE(a != b)
	else if (has(i, lt)) WHOLE(a < b)
	else if (has(i, le)) WHOLE(a <= b)
	else if (has(i, gt)) WHOLE(a > b)
	else WHOLE(a >= b)
	return i->modifiers >> MOD_UNKNOWN == 0;
}

static uint64_t to_integer(float x, struct type t, double (*round)(double))
{
	double most = ldexp(1, t.bits - (t.kind == 's')) - 1, low = t.kind == 's' ? -ldexp(1, t.bits - 1) : 0, r = round(x);
	return isnan(x) ? 0 : (uint64_t)(int64_t)(r > most ? most : r < low ? low : r);
}

static bool is_real(struct type t) { return t.kind == 'f' || t.kind == 'B' || t.kind == 'e' || t.kind == 'E'; }

/* One lane's. */
static bool convert(const struct ins *i, const uint64_t *v, uint64_t *out)
{
	struct type to = i->type[0], from = i->type[1];
	bool real_to = is_real(to), real_from = is_real(from), pair = to.x2 && from.bits == 32;
	if (has(i, pack)) {
		int64_t lo = to.kind == 's' ? -128 : 0, hi = to.kind == 's' ? 127 : 255, a = sign(v[0], 32), b = sign(v[1], 32);
		a = a < lo ? lo : a > hi ? hi : a;
		b = b < lo ? lo : b > hi ? hi : b;
		*out = cut(v[2], 16) << 16 | cut((uint64_t)a, 8) << 8 | cut((uint64_t)b, 8);
		return to.bits == 8 && from.bits == 32 && has(i, sat);
	}
	if (pair) {                                        /* the first operand goes above the second */
		bool clamps = has(i, satfinite);
		uint32_t part[2];
		for (int h = 0; h < 2; h++) {
			float x = num_float((uint32_t)v[h]);
			part[h] = clamps && isnan(x) && to.bits == 8 ? 0x7f : num_from_f32(x, narrow(to), clamps);
		}
		*out = (uint64_t)part[0] << to.bits | part[1];
		return has(i, rn) && (to.bits == 16) != clamps;
	}
	if (from.x2) {                                     /* e4m3x2, e5m2x2 to f16x2 */
		*out = 0;
		for (int h = 0; h < 2; h++)
			*out |= (uint64_t)num_from_f32(num_to_f32(v[0] >> (8 * h) & 255, narrow(from)), DT_F16, false) << (16 * h);
		return to.x2 && to.bits == 16;
	}
	if (!real_to && !real_from) {
		*out = from.kind == 's' ? (uint64_t)sign(v[0], from.bits) : cut(v[0], from.bits);
		if (to.kind == 's' && to.bits < 32)
			*out = (uint64_t)sign(*out, to.bits);
		return !has(i, sat);
	}
	float x = real_from ? (from.bits == 32 ? num_float((uint32_t)v[0]) : num_to_f32(cut(v[0], 16), narrow(from)))
	        : from.kind == 's' ? (float)sign(v[0], from.bits) : (float)cut(v[0], from.bits);
	if (!real_to) {
		*out = to_integer(x, to, has(i, rni) ? rint : has(i, rzi) ? trunc : has(i, rmi) ? floor : ceil);
		return !has(i, ftz);
	}
	if (to.bits == 16)
		*out = num_from_f32(x, narrow(to), false);
	else
		*out = num_bits(has(i, rni) ? rintf(x) : has(i, rmi) ? floorf(x) : has(i, rpi) ? ceilf(x) : has(i, rzi) ? truncf(x) : x);
	return !has(i, ftz);
}

static bool move(struct thread *warp, const struct ins *i, lanes on)
{
	uint64_t room[WARP], r[WARP] = {0};
	int bits = i->type[0].bits, n = i->nop - i->ndest;
	if (i->ndest > 1) {
		const uint64_t *v = values(warp, &i->op[i->ndest], room);
		uint64_t whole[WARP];
		memcpy(whole, v, sizeof whole);
		for (int d = 0; d < i->ndest; d++) {
			for (int k = 0; k < WARP; k++)
				r[k] = whole[k] >> (d * bits / i->ndest);
			give(warp, &i->op[d], r, bits / i->ndest, on);
		}
		return n == 1;
	}
	uint64_t mask = cut(~0ull, n > 1 ? bits / n : bits);
	for (int s = 0; s < n; s++) {
		const uint64_t *v = values(warp, &i->op[1 + s], room);
		for (int k = 0; k < WARP; k++)
			r[k] |= (v[k] & mask) << (s * bits / n);
	}
	give(warp, &i->op[0], r, bits, on);
	return n > 0;
}

/* Of 16 bits, or a pair of them. */
static bool narrow_op(const struct ins *i, struct type t, const uint64_t *const *v, uint64_t *restrict r)
{
	uint64_t signs = t.x2 ? 0x80008000 : 0x8000;
	if (!is(i, neg) || t.bits != 16 || i->modifiers)
		return false;
	EACH r[n] = v[0][n] ^ signs;
	return true;
}

bool ptx_lanes_compute(struct thread *warp, const struct ins *i, lanes on)
{
	static const uint64_t nothing[WARP];
	struct type type = i->type[0];
	uint64_t room[3][WARP], r[WARP];
	const uint64_t *v[3] = {nothing, nothing, nothing};
	int bits = type.bits;
	bool known = true;
	if (is(i, mov))
		return move(warp, i, on);
	for (int a = 1; a < i->nop && a < 4; a++)
		v[a - 1] = values(warp, &i->op[a], room[a - 1]);
	if (is(i, selp)) {
		EACH r[n] = v[2][n] & 1 ? v[0][n] : v[1][n];
	} else if (is(i, setp)) {
		known = compare(i, v, r) && i->ntypes == 1;
		bits = 1;
	} else if (is(i, cvt)) {
		EACH known = convert(i, (uint64_t[3]){v[0][n], v[1][n], v[2][n]}, &r[n]) && known;
		bits = has(i, pack) ? 32 : type.x2 ? 2 * type.bits : type.bits < 32 && type.kind == 's' ? 32 : type.bits;
	} else if (type.kind == 'f' && type.bits == 32) {
		known = real_op(i, v, r);
	} else if (type.kind == 'f' || type.kind == 'B') {
		known = narrow_op(i, type, v, r);
		bits = type.x2 ? 32 : 16;
	} else {
		known = integer_op(i, type, v, r);
		bits = has(i, wide) ? 2 * type.bits : is(i, popc) ? 32 : type.bits;
	}
	if (known)
		give(warp, &i->op[0], r, bits, on);
	return known;
}

/* --- of all lanes together -------------------------------------------------------------------------------------------------- */

static void shuffle(struct thread *warp, const struct ins *i)
{
	uint64_t v[WARP];
	bool idx = has(i, idx);
	for (int n = 0; n < WARP; n++)
		v[n] = get(&warp[n], &i->op[1]);
	for (int n = 0; n < WARP; n++) {
		uint64_t by = get(&warp[n], &i->op[2]) & 31;
		set(&warp[n], &i->op[0], v[idx ? by : (unsigned)n ^ by], 32);
	}
}

static void vote(struct thread *warp, const struct ins *i)
{
	uint64_t all = 0;
	for (int n = 0; n < WARP; n++)
		all |= (get(&warp[n], &i->op[1]) & 1) << n;
	for (int n = 0; n < WARP; n++)
		set(&warp[n], &i->op[0], all, 32);
}

static bool sum(struct code *c, struct thread *warp, const struct ins *i)
{
	uint64_t all = 0;
	if (!has(i, add))
		return ptx_refuse(c, "%s: not a sum", i->text);
	for (int n = 0; n < WARP; n++)
		all += get(&warp[n], &i->op[1]);
	for (int n = 0; n < WARP; n++)
		set(&warp[n], &i->op[0], all, 32);
	return true;
}

static float element(const struct thread *t, const struct operand *o, struct type type, int e)
{
	int per = 32 / type.bits;
	uint64_t bits = cut(get(t, &o[e / per]) >> (e % per * type.bits), type.bits);
	bits &= type.kind == 't' ? 0xffffe000 : bits;
	return type.kind == 's' ? (float)sign(bits, 8) : type.bits == 32 ? num_float((uint32_t)bits) : num_to_f32((uint32_t)bits, narrow(type));
}

/* D (16 x 8) = A B + C.  A lane's words of A: row lane / 4, then 8 below, of the first half of k, then of the second; of B: column
 * lane / 4.  Of k a lane has lane % 4.  Order: the four lanes of a row one after the other, each its words in order. */
static bool multiply(struct code *c, struct thread *warp, const struct ins *i)
{
	struct type ta = i->ntypes == 4 ? i->type[1] : i->type[0], tb = i->ntypes == 4 ? i->type[2] : ta;
	int words = i->nop - 8, na = words == 6 ? 4 : 0, per = 32 / ta.bits;
	bool whole = ta.kind == 's';
	uint64_t d[WARP][4];
	if (!na || i->ndest != 4)
		return ptx_refuse(c, "%s: not a product of 16 x 8", i->text);
	if (ta.kind == 'f' && ta.bits == 32)
		return ptx_refuse(c, "%s: not a type of its operands", i->text);
	for (int n = 0; n < WARP; n++)
		for (int r = 0; r < 4; r++) {
			uint64_t acc = get(&warp[n], &i->op[4 + words + r]);
			float f = num_float((uint32_t)acc);
			int row = n / 4 + r / 2 * 8, col = n % 4 * 2 + r % 2;
			for (int lane = 0; lane < 4; lane++)
				for (int e = 0; e < 2 * per; e++) {
					const struct thread *a = &warp[row % 8 * 4 + lane], *b = &warp[col * 4 + lane];
					const struct operand *wa = &i->op[4 + row / 8 + 2 * (e / per)], *wb = &i->op[4 + na + e / per];
					float x = element(a, wa, ta, e % per), y = element(b, wb, tb, e % per);
					if (whole)
						acc += (uint64_t)(int64_t)(x * y);
					else
						f = num_dot_f32(f, &x, &y, 1);
				}
			d[n][r] = whole ? cut(acc, 32) : num_bits(f);
		}
	for (int n = 0; n < WARP; n++)
		for (int r = 0; r < 4; r++)
			set(&warp[n], &i->op[r], d[n][r], 32);
	return true;
}

bool ptx_lanes_exchange(struct code *c, struct thread *warp, const struct ins *i)
{
	if (is(i, redux) || is(i, mma))
		return is(i, redux) ? sum(c, warp, i) : multiply(c, warp, i);
	if (is(i, shfl))
		shuffle(warp, i);
	else
		vote(warp, i);
	return true;
}

/* --- of four warps ---------------------------------------------------------------------------------------------------------- */

enum { OWN_ROWS = QUAD_ROWS / QUAD_WARPS, ROW_BYTES = 128, TURN = 8, PER_PIECE = PIECE / 2, ACROSS = ROW_BYTES / 2 };
/* Of a descriptor, in units of PIECE bytes: where the first row is, blocks, eight rows; and the only swizzle that is known here, of rows of 128 bytes. */
enum { BLOCKS_AT = 16, APART_AT = 32 };
#define UNITS 0x3fffull
#define SWIZZLE_128 (1ull << 62)

static bool refuse_quad(struct code *c, const struct thread *warp, const struct ins *i, const char *why)
{
	return ptx_refuse(c, "workgroup %u thread %u: %.*s: %s", warp->group->at[0], warp->tid, (int)strcspn(i->text, " "), i->text, why);
}

static int sums_of(const struct ins *i) { return 4 * i->columns; }

static int words_of(const struct ins *i) { return i->nop == sums_of(i) + WORDS_OF_A + 5 ? WORDS_OF_A : 0; }

/* Eight rows begin where bits of an address that turn them are 0; a step along k stays in its row. */
static bool read_descriptor(struct code *c, const struct thread *warp, const struct ins *i, const struct operand *o, bool across, struct side *s)
{
	uint64_t d = get(warp, o);
	for (int n = 1; n < WARP; n++)
		if (get(&warp[n], o) != d)
			return refuse_quad(c, warp, i, "lanes have different descriptors");
	if ((d & ~(UNITS | UNITS << BLOCKS_AT | UNITS << APART_AT)) != SWIZZLE_128)
		return refuse_quad(c, warp, i, "a descriptor of something else than rows of 128 bytes, swizzled by 128, with no offset of the base");
	*s = (struct side){(d & UNITS) * PIECE, (d >> APART_AT & UNITS) * PIECE, (d >> BLOCKS_AT & UNITS) * PIECE, across};
	if (s->at / ROW_BYTES % TURN || s->apart % (TURN * ROW_BYTES) || (across && s->blocks % (TURN * ROW_BYTES)))
		return refuse_quad(c, warp, i, "eight rows do not begin at a multiple of 1024");
	if (s->at % ROW_BYTES > (across ? 0 : ROW_BYTES - 2 * QUAD_DEPTH))
		return refuse_quad(c, warp, i, "reaches over the end of a row of 128 bytes");
	return true;
}

/* Of the operand from row `first` on the piece number p: where it lies, and its first element; the others follow along k, or across. */
static uint64_t piece_of(const struct side *s, int first, int p, int *row, int *k)
{
	*row = first + (s->across ? p / QUAD_DEPTH * PER_PIECE : p / 2);
	*k = s->across ? p % QUAD_DEPTH : p % 2 * PER_PIECE;
	uint64_t r = (uint64_t)*row, at = s->at + (uint64_t)(*k / TURN) * s->apart + (uint64_t)(*k % TURN) * ROW_BYTES + r / ACROSS * s->blocks + r % ACROSS * 2;
	if (!s->across)
		at = s->at + r / TURN * s->apart + r % TURN * ROW_BYTES + (uint64_t)*k * 2;
	return at ^ (at / ROW_BYTES % TURN) * PIECE;
}

/* A product's pieces: of A the warp's own rows, unless they are words, and B. */
struct pieces { const struct side *side; int first, n; };

static void pieces_of(const struct thread *warp, const struct product *p, struct pieces out[2])
{
	out[0] = (struct pieces){&p->side[0], (int)(warp->tid / WARP % QUAD_WARPS) * OWN_ROWS, words_of(p->i) ? 0 : 2 * OWN_ROWS};
	out[1] = (struct pieces){&p->side[1], 0, 2 * p->i->columns * 8};
}

/* Elements along k are added up lane by lane, each lane's two words in order. */
static int turn_of(int k) { return k % 8 / 2 * 4 + k / 8 * 2 + k % 2; }

static void read_pieces(const struct thread *warp, const struct pieces *of, enum dtype t, float (*out)[QUAD_DEPTH])
{
	for (int p = 0, row, k; p < of->n; p++) {
		uint64_t at = piece_of(of->side, of->first, p, &row, &k);
		uint16_t bits[PER_PIECE];
		memcpy(bits, warp->group->shared + at, PIECE);
		for (int e = 0; e < PER_PIECE; e++)
			out[row - of->first + (of->side->across ? e : 0)][turn_of(k + (of->side->across ? 0 : e))] = num_to_f32(bits[e], t);
		ptx_memory_return(warp, at);
	}
}

/* Of D a lane has in its register 4 j + r row lane / 4, 8 further for the upper two, and column 8 j + lane % 4 * 2 + r % 2; its words of A are as mma's. */
static void finish(struct thread *warp, const struct product *p)
{
	float a[OWN_ROWS][QUAD_DEPTH], b[QUAD_COLUMNS][QUAD_DEPTH];
	const struct ins *i = p->i;
	struct products *all = warp->products;
	struct pieces of[2];
	int n = sums_of(i), words = words_of(i);
	pieces_of(warp, p, of);
	read_pieces(warp, &of[0], narrow(i->type[0]), a);
	read_pieces(warp, &of[1], narrow(i->type[0]), b);
	for (int row = 0; words && row < OWN_ROWS; row++)
		for (int k = 0; k < QUAD_DEPTH; k++)
			a[row][turn_of(k)] = element(&warp[row % 8 * 4 + k % 8 / 2], &i->op[n + row / 8 + k / 8 * 2], i->type[0], k % 2);
	for (int r = 0; r < n; r++) {
		uint64_t *d = reg_of(warp, i->op[r].reg);
		for (int lane = 0; lane < WARP; lane++) {
			int row = lane / 4 + r % 4 / 2 * 8, col = r / 4 * 8 + lane % 4 * 2 + r % 2;
			d[lane] = num_bits(num_dot_f32(p->adds ? num_float((uint32_t)d[lane]) : 0, a[row], b[col], QUAD_DEPTH));
		}
		all->sums[i->op[r].reg]--;
	}
	for (int w = 0; w < words; w++)
		all->words[i->op[n + w].reg]--;
}

/* All but those of the last lots, and what no lot holds. */
static void wait_lots(struct thread *warp, uint32_t last)
{
	struct products *all = warp->products;
	int done = 0;
	while (done < all->n && all->product[done].lot + last < all->lots)
		finish(warp, &all->product[done++]);
	all->n -= done;
	memmove(all->product, all->product + done, (size_t)all->n * sizeof *all->product);
}

static bool same_sums(const struct ins *a, const struct ins *b)
{
	bool same = a->columns == b->columns;
	for (int n = 0; same && a != b && n < sums_of(a); n++)
		same = a->op[n].reg == b->op[n].reg;
	return same;
}

/* Registers of a product that begins: a list of sums is that of others under way, or has nothing of theirs. */
static bool take_registers(struct code *c, const struct thread *warp, const struct ins *i)
{
	struct products *all = warp->products;
	int n = sums_of(i), words = words_of(i), like = all->n;
	bool fenced = true, apart = true, summed = false;
	for (int r = 0; r < n + words; r++) {
		int reg = i->op[r].reg;
		fenced = fenced && !all->touched[reg];
		apart = apart && !(r < n ? all->words : all->sums)[reg];
		summed = summed || (r < n && all->sums[reg]);
	}
	if (!fenced)
		return refuse_quad(c, warp, i, "no wgmma.fence since something else accessed its registers");
	while (summed && like && !same_sums(i, all->product[like - 1].i))
		like--;
	if (!apart || (summed && !like))
		return refuse_quad(c, warp, i, "another product that has one of its registers is under way");
	for (int r = 0; r < n + words; r++)
		(r < n ? all->sums : all->words)[i->op[r].reg]++;
	return true;
}

static bool begin(struct machine *m, struct thread *warp, const struct ins *i)
{
	struct products *all = warp->products;
	int words = words_of(i), next = sums_of(i) + (words ? words : 1), row, k;
	const struct operand *across = &i->op[i->nop - (words ? 1 : 2)], *adds = &i->op[next + 1];
	struct product p = {.i = i, .adds = get(warp, adds) & 1, .lot = all->lots};
	struct pieces of[2];
	if (all->n == PRODUCTS)
		return refuse_quad(m->c, warp, i, "too many products are under way");
	for (int n = 1; n < WARP; n++)
		if ((get(&warp[n], adds) & 1) != p.adds)
			return refuse_quad(m->c, warp, i, "lanes do not agree whether it adds");
	if (!words && !read_descriptor(m->c, warp, i, &i->op[next - 1], across[0].value, &p.side[0]))
		return false;
	if (!read_descriptor(m->c, warp, i, &i->op[next], across[!words].value, &p.side[1]) || !take_registers(m->c, warp, i))
		return false;
	pieces_of(warp, &p, of);
	for (int s = 0; s < 2; s++)
		for (int n = 0; n < of[s].n; n++)
			if (!ptx_memory_lend(m, warp, i, piece_of(of[s].side, of[s].first, n, &row, &k)))
				return false;
	all->product[all->n++] = p;
	all->did = all->did * 31 + get(warp, &i->op[next]) * 7 + (words ? 0 : get(warp, &i->op[next - 1])) * 3 + p.adds;
	return true;
}

bool ptx_lanes_quad(struct machine *m, struct thread *warp, const struct ins *i)
{
	struct products *all = warp->products;
	all->did = all->did * 31 + (uint64_t)(i - m->c->ins) + 1;
	if (i->quad == REGISTER_FENCE)
		memset(all->touched, 0, (size_t)m->registers * sizeof *all->touched);
	else if (i->quad == LOT)
		all->lots++;
	else if (i->quad == WAIT_LOTS)
		wait_lots(warp, (uint32_t)i->op[0].value);
	return i->quad != PRODUCT || begin(m, warp, i);
}

/* What an instruction writes stands in front of all others, and is no address. */
bool ptx_lanes_apart(struct code *c, const struct thread *warp, const struct ins *i)
{
	struct products *all = warp->products;
	for (int n = 0; n < i->nop; n++) {
		const struct operand *o = &i->op[n];
		if (o->where != AT_REGISTER && (o->where != AT_MEMORY || o->reg < 0))
			continue;
		all->touched[o->reg] = true;
		if (all->sums[o->reg] || (all->words[o->reg] && n < i->ndest && o->where == AT_REGISTER))
			return ptx_refuse(c, "workgroup %u thread %u: %s: operand %d is a register of products under way", warp->group->at[0], warp->tid, i->text, n + 1);
	}
	return true;
}
