/* exec_round.c -- the rounding modes other than nearest even, without touching the host's.
 *
 * In: results that the families computed to nearest even, and their operands.  Out: the same rows, corrected.  The exact
 * result is formed once more in a type wide enough that its rounding "to odd" (an inexact value gets its last bit set)
 * lies on the true side of every number of the narrow format: f64 for f32 and f16, binary128 for f64.  A nearest result
 * on the wrong side of it for the mode moves by one unit in the last place.  NaN results stay as they are. */
#include "exec.h"
#include "nan.h"

#include <math.h>

enum { NEAREST, UP, DOWN, ZERO };
enum sum { NONE, ADD, SUB, SUBREV, MUL, FMA, MAD };

static enum sum sum_of(unsigned op)
{
	switch (op) {
	case OP_v_add_f32: case OP_v_add_f16: case OP_v_add_f64: case OP_v_pk_add_f16: case OP_v_pk_add_f32: return ADD;
	case OP_v_sub_f32: case OP_v_sub_f16: return SUB;
	case OP_v_subrev_f32: case OP_v_subrev_f16: return SUBREV;
	case OP_v_mul_f32: case OP_v_mul_legacy_f32: case OP_v_mul_f16: case OP_v_mul_f64: case OP_v_pk_mul_f16: case OP_v_pk_mul_f32:
		return MUL;
	case OP_v_fma_f32: case OP_v_fmac_f32: case OP_v_fmamk_f32: case OP_v_fmaak_f32: case OP_v_fma_f16: case OP_v_fma_legacy_f16:
	case OP_v_fma_f64: case OP_v_fmac_f64: case OP_v_pk_fma_f16: case OP_v_pk_fmac_f16: case OP_v_pk_fma_f32: case OP_v_fma_mix_f32:
	case OP_v_fma_mixlo_f16: case OP_v_fma_mixhi_f16:
		return FMA;
	case OP_v_mad_f16: case OP_v_mad_legacy_f16: case OP_v_madmk_f16: case OP_v_madak_f16: case OP_v_mac_f16: return MAD;
	default: return NONE;
	}
}

/* Whether the magnitude has to be the larger of the two neighbours. */
static bool away(bool negative, unsigned mode)
{
	return mode == UP ? !negative : mode == DOWN ? negative : false;
}

uint32_t sim_nudge_f32(uint32_t u, double exact, unsigned mode)
{
	double r = num_float(u);
	if (mode == NEAREST || r == exact || r != r || exact != exact)
		return u;
	bool larger = fabs(r) > fabs(exact), want = away(signbit(exact), mode);
	return larger == want ? u : want ? u + 1 : u - 1;
}

uint32_t sim_nudge_f16(uint32_t h, double exact, unsigned mode)
{
	double r = sim_f16_to_f32(h);
	if (mode == NEAREST || r == exact || r != r || exact != exact)
		return h;
	bool larger = fabs(r) > fabs(exact), want = away(signbit(exact), mode);
	return larger == want ? h : want ? h + 1 : h - 1;
}

/* p + c exact to odd; *minus where an exact zero is -0 in the mode. */
static double sum(double p, double c, unsigned mode, bool *minus)
{
	double s = sum_to_odd(p, c);
	*minus = mode == DOWN && s == 0 && (signbit(p) || signbit(c));
	return s;
}

static double exact_of(enum sum kind, double a, double b, double c, unsigned mode, bool *minus)
{
	*minus = false;
	switch (kind) {
	case ADD: return sum(a, b, mode, minus);
	case SUB: return sum(a, -b, mode, minus);
	case SUBREV: return sum(b, -a, mode, minus);
	case MUL: return a * b;
	default: return sum(a * b, c, mode, minus);
	}
}

void sim_round_f32(unsigned mode, unsigned op, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	enum sum kind = sum_of(op);
	if (kind == NONE || mode == NEAREST)
		return;
	for (int i = 0; i < LANES; i++) {
		bool minus, legacy = op == OP_v_mul_legacy_f32 && (num_float(a[i]) == 0 || num_float(b[i]) == 0);
		double s = exact_of(kind, num_float(a[i]), num_float(b[i]), num_float(c[i]), mode, &minus);
		d[i] = legacy ? d[i] : minus ? 0x80000000u : sim_nudge_f32(d[i], s, mode);
	}
}

void sim_round_f16(unsigned mode, unsigned op, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d)
{
	enum sum kind = sum_of(op);
	if (kind == NONE || mode == NEAREST)
		return;
	for (int i = 0; i < LANES; i++) {
		float x = sim_f16_to_f32(a[i]), y = sim_f16_to_f32(b[i]), z = sim_f16_to_f32(c[i]);
		bool minus;
		double s;
		if (kind == MAD) { /* the product is rounded too, which may change the nearest sum */
			float p = sim_f16_to_f32(sim_nudge_f16(sim_f32_to_f16(x * y), (double)x * y, mode));
			s = sum(p, z, mode, &minus);
			d[i] = s != s ? d[i] : sim_f32_to_f16(p + z);
		} else {
			s = exact_of(kind, x, y, z, mode, &minus);
		}
		d[i] = minus ? 0x8000 : sim_nudge_f16(d[i], s, mode);
	}
}

typedef __float128 quad;

static bool quad_minus(quad x)
{
	unsigned __int128 u;
	memcpy(&u, &x, 16);
	return (bool)(u >> 127);
}

static quad quad_to_odd(quad p, quad c)
{
	quad s = p + c, t = s - p, err = (p - (s - t)) + (c - t);
	unsigned __int128 u;
	memcpy(&u, &s, 16);
	if (err != 0 && err == err && s - s == 0 && !(u & 1)) {
		if ((err > 0) == (s > 0))
			u++;
		else
			u--;
		memcpy(&s, &u, 16);
	}
	return s;
}

void sim_round_f64(unsigned mode, unsigned op, const double *a, const double *b, const double *c, uint64_t *d)
{
	enum sum kind = sum_of(op);
	if (kind == NONE || mode == NEAREST)
		return;
	for (int i = 0; i < LANES; i++) {
		quad p = kind == ADD ? (quad)a[i] : (quad)a[i] * b[i], q = kind == ADD ? b[i] : c[i];
		quad s = kind == MUL ? p : quad_to_odd(p, q);
		double r;
		memcpy(&r, &d[i], 8);
		if (r != r || s != s)
			continue;
		if (s == 0 && kind != MUL) {
			if (mode == DOWN && (quad_minus(p) || quad_minus(q)))
				d[i] = UINT64_C(1) << 63;
			continue;
		}
		if (r == s)
			continue;
		quad mr = r < 0 ? -(quad)r : r, ms = s < 0 ? -s : s;
		bool larger = mr > ms, want = away(quad_minus(s), mode);
		d[i] += larger == want ? 0 : want ? 1 : UINT64_MAX;
	}
}
