/* operand.c -- sources of vector instructions as rows of 64 lanes, and results back into registers.
 *
 * In: a decoded source.  Out: a pointer to 64 values with DPP, SDWA, op_sel, sign modifiers and denormal flushing applied.
 * The common case, a plain VGPR, is in exec.h and costs nothing: the pointer is the register row.  Results pass sim_put*, which applies
 * output modifiers and merges under EXEC; with EXEC full and nothing to apply the handler computes in place. */
#pragma GCC optimize("O3,no-math-errno,no-trapping-math")
#include "exec.h"

#include <math.h>
#include <pthread.h>

/* M0: the byte address in 15:0, what is read there in 18:16 (u8, u16, 32 bits, -, i8, i16). */
static uint32_t lds_direct(const struct sim_wave *w)
{
	uint32_t m0 = w->sgpr[REG_M0], at = m0 & 0xffff, kind = m0 >> 16 & 7, v = 0;
	uint32_t size = kind == 2 ? 4 : kind & 1 ? 2 : 1;
	if (at + size <= w->group->lds_size)
		memcpy(&v, w->group->lds + at, size);
	return kind == 4 ? (uint32_t)(int8_t)v : kind == 5 ? (uint32_t)(int16_t)v : v;
}

static uint64_t status(const struct sim_wave *w, unsigned code)
{
	switch (code) {
	case 230: return UINT64_C(0x0002000000000000);  /* flat scratch base: where flat addresses reach scratch */
	case 231: return UINT64_C(0x00020000);
	case 235: return UINT64_C(0x0001000000000000);  /* shared aperture, base and limit */
	case 236: return UINT64_C(0x00010000ffffffff);
	case 237: return UINT64_C(0x0002000000000000);  /* private aperture */
	case 238: return UINT64_C(0x00020000ffffffff);
	case 239: return 0;                             /* pops_exiting_wave_id: no pixel shader */
	case 251: return sim_sgpr64(w, REG_VCC) == 0;
	case 252: return sim_exec(w) == 0;
	case 254: return lds_direct(w);
	default: return w->scc;
	}
}

uint64_t sim_scalar(const struct sim_wave *w, const struct sim_src *s)
{
	switch (s->kind) {
	case SRC_SGPR: return sim_sgpr64(w, s->reg);
	case SRC_CONST: return s->value;
	case SRC_STATUS: return status(w, s->reg);
	default: return 0;
	}
}

/* Source lane of each lane; 255 where the control gives none.  Controls: the DPP_CTRL table of the ISA guide. */
static void dpp_from(unsigned ctrl, uint8_t from[LANES])
{
	for (int i = 0; i < LANES; i++) {
		int row = i & ~15, in_row = i & 15, n = ctrl & 15, f = 255;
		if (ctrl <= 0xff)
			f = (i & ~3) | (ctrl >> (2 * (i & 3)) & 3);
		else if (ctrl > 0x100 && ctrl <= 0x10f)
			f = in_row + n < 16 ? i + n : 255;                 /* row_shl */
		else if (ctrl > 0x110 && ctrl <= 0x11f)
			f = in_row - n >= 0 ? i - n : 255;                 /* row_shr */
		else if (ctrl > 0x120 && ctrl <= 0x12f)
			f = row | ((in_row - n) & 15);                     /* row_ror */
		else if (ctrl == 0x130)
			f = i < 63 ? i + 1 : 255;                          /* wave_shl:1 */
		else if (ctrl == 0x134)
			f = (i + 1) & 63;                                  /* wave_rol:1 */
		else if (ctrl == 0x138)
			f = i > 0 ? i - 1 : 255;                           /* wave_shr:1 */
		else if (ctrl == 0x13c)
			f = (i - 1) & 63;                                  /* wave_ror:1 */
		else if (ctrl == 0x140)
			f = row | (15 - in_row);                           /* row_mirror */
		else if (ctrl == 0x141)
			f = (i & ~7) | (7 - (i & 7));                      /* row_half_mirror */
		else if (ctrl == 0x142)
			f = row ? row - 1 : 255;                           /* row_bcast:15 */
		else if (ctrl == 0x143)
			f = i >= 32 ? 31 : 255;                            /* row_bcast:31 */
		else if (ctrl >= 0x150 && ctrl <= 0x15f)
			f = row | n;                                       /* row_newbcast */
		from[i] = (uint8_t)f;
	}
}

/* The same of all controls, and the lanes that have a source. */
struct dpp { uint8_t from[LANES]; uint64_t lanes; };
static struct dpp dpp_table[512];
static pthread_once_t dpp_once = PTHREAD_ONCE_INIT;

static void dpp_build(void)
{
	for (unsigned ctrl = 0; ctrl < 512; ctrl++) {
		struct dpp *t = &dpp_table[ctrl];
		dpp_from(ctrl, t->from);
		for (int i = 0; i < LANES; i++)
			t->lanes |= (uint64_t)(t->from[i] != 255) << i;
	}
}

/* Lanes that DPP lets a result be written to: rows and banks enabled, and a source lane that exists and is active (a
 * missing one reads 0 under bound_ctrl). */
uint64_t sim_dpp_lanes(const struct sim_wave *w, const struct sim_inst *in, uint8_t from[LANES])
{
	pthread_once(&dpp_once, dpp_build);
	const struct dpp *t = &dpp_table[in->dpp_ctrl & 511];
	uint64_t exec = sim_exec(w), lanes = t->lanes, row = 0, on = 0;
	memcpy(from, t->from, LANES);
	for (int i = 0; exec != ~UINT64_C(0) && i < LANES; i++)
		if (from[i] != 255 && !(exec >> from[i] & 1)) {
			from[i] = 255;
			lanes &= ~(UINT64_C(1) << i);
		}
	for (int i = 0; i < 4; i++)
		row |= in->bank_mask >> i & 1 ? UINT64_C(15) << (4 * i) : 0;
	for (int i = 0; i < 4; i++)
		on |= in->row_mask >> i & 1 ? row << (16 * i) : 0;
	return on & (in->bound_ctrl ? ~UINT64_C(0) : lanes);
}

static uint32_t sdwa_pick(uint32_t v, unsigned sel, bool sext)
{
	if (sel < 4) {
		v = v >> (8 * sel) & 0xff;
		return sext ? (uint32_t)(int8_t)v : v;
	}
	if (sel < 6) {
		v = v >> (16 * (sel - 4)) & 0xffff;
		return sext ? (uint32_t)(int16_t)v : v;
	}
	return v;
}

/* In vectors as wide as those that read it at once, which the host hands over only as they were stored. */
static SIM_LANES_FN void fill(uint32_t v, uint32_t buf[LANES])
{
	for (int i = 0; i < LANES; i++)
		buf[i] = v;
}

static const uint32_t *row_of(struct sim_wave *w, const struct sim_inst *in, unsigned reg)
{
	if (reg >= w->nvgpr) {
		sim_fail(w, in, SIM_EINST, -1, "register v%u is beyond the %u allocated", reg, w->nvgpr);
		return w->vgpr[0];
	}
	return w->vgpr[reg];
}

static SIM_LANES_FN void take_lanes(const uint32_t *row, const uint8_t from[LANES], uint32_t *d)
{
	for (int i = 0; i < LANES; i++)
		d[i] = from[i] == 255 ? 0 : row[from[i] & 63];
}

static SIM_LANES_FN void change_sign(const uint32_t *row, uint32_t keep, uint32_t flip, uint32_t *d)
{
	for (int i = 0; i < LANES; i++)
		d[i] = (row[i] & keep) ^ flip;
}

static SIM_LANES_FN void flush_row(const uint32_t *row, uint32_t exponent, uint32_t sign, uint32_t *d)
{
	for (int i = 0; i < LANES; i++)
		d[i] = row[i] & exponent ? row[i] : row[i] & sign;
}

static const uint32_t *dpp_row(struct sim_wave *w, const struct sim_inst *in, const uint32_t *row, uint32_t buf[LANES])
{
	uint8_t from[LANES];
	sim_dpp_lanes(w, in, from);
	take_lanes(row, from, buf);
	return buf;
}

const uint32_t *sim_src32_slowly(struct sim_wave *w, const struct sim_inst *in, int k, uint32_t buf[LANES])
{
	const struct sim_src *s = &in->src[k];
	const uint32_t *row;
	if (s->kind == SRC_VGPR) {
		row = row_of(w, in, sim_indexed(w, s->reg, k));
		if (in->dpp && k == 0)
			row = dpp_row(w, in, row, buf);
	} else {
		fill((uint32_t)sim_scalar(w, s), buf);
		row = buf;
	}
	if (in->sdwa && k < 2 && (in->src_sel[k] != 6)) {
		for (int i = 0; i < LANES; i++)
			buf[i] = sdwa_pick(row[i], in->src_sel[k], in->src_sext[k]);
		row = buf;
	}
	bool half = s->type == 'h' || s->type == 's';
	if (half && in->opsel >> k & 1) {
		for (int i = 0; i < LANES; i++)
			buf[i] = row[i] >> 16;
		row = buf;
	}
	if (s->abs || s->neg) {
		uint32_t sign = s->type == 'h' ? 0x8000u : 0x80000000u;
		uint32_t keep = s->abs ? ~sign : ~0u, flip = s->neg ? sign : 0;
		change_sign(row, keep, flip, buf);
		row = buf;
	}
	if ((s->type == 'f' && w->flush_in) || (s->type == 'h' && w->flush_in16)) {
		uint32_t exponent = s->type == 'f' ? 0x7f800000u : 0x7c00, sign = s->type == 'f' ? 0x80000000u : 0x8000;
		flush_row(row, exponent, sign, buf);
		row = buf;
	}
	return row;
}

static uint64_t flushed64(uint64_t u)
{
	return u & UINT64_C(0x7ff0000000000000) ? u : u & UINT64_C(1) << 63;
}

const uint64_t *sim_src64(struct sim_wave *w, const struct sim_inst *in, int k, uint64_t buf[LANES])
{
	const struct sim_src *s = &in->src[k];
	if (s->kind == SRC_VGPR) {
		uint32_t blo[LANES], bhi[LANES];
		uint32_t reg = sim_indexed(w, s->reg, k);
		const uint32_t *lo = row_of(w, in, reg), *hi = row_of(w, in, reg + 1);
		if (in->dpp && k == 0) {
			lo = dpp_row(w, in, lo, blo);
			hi = dpp_row(w, in, hi, bhi);
		}
		for (int i = 0; i < LANES; i++)
			buf[i] = lo[i] | (uint64_t)hi[i] << 32;
	} else {
		uint64_t v = sim_scalar(w, s);
		for (int i = 0; i < LANES; i++)
			buf[i] = v;
	}
	if (s->abs || s->neg)
		for (int i = 0; i < LANES; i++)
			buf[i] = (s->abs ? buf[i] & ~(UINT64_C(1) << 63) : buf[i]) ^ (uint64_t)s->neg << 63;
	if (s->type == 'd' && w->flush_in16)
		for (int i = 0; i < LANES; i++)
			buf[i] = flushed64(buf[i]);
	return buf;
}

/* ---- results ---- */

static SIM_LANES_FN void merge(uint32_t *d, const uint32_t *row, uint64_t mask)
{
	uint32_t half[2] = {(uint32_t)mask, (uint32_t)(mask >> 32)};
	for (int h = 0; h < 2; h++)
		for (int i = 0; i < 32; i++)
			d[32 * h + i] = half[h] >> i & 1 ? row[32 * h + i] : d[32 * h + i];
}

void sim_put_row(struct sim_wave *w, uint32_t reg, const uint32_t *row, uint64_t mask)
{
	uint32_t *d = w->vgpr[reg];
	if (mask == ~UINT64_C(0)) {
		memcpy(d, row, sizeof w->vgpr[0]);
		return;
	}
	merge(d, row, mask);
}

void sim_put_mask(struct sim_wave *w, unsigned sgpr, uint64_t mask)
{
	sim_sgpr64_set(w, sgpr, mask);
}

static bool bad_dst(struct sim_wave *w, const struct sim_inst *in, uint32_t reg, unsigned count)
{
	if (reg + count <= w->nvgpr)
		return false;
	sim_fail(w, in, SIM_EINST, -1, "register v%u is beyond the %u allocated", reg + count - 1, w->nvgpr);
	return true;
}

/* Output modifiers act only where IEEE is off and denormal results are flushed; they flush, and make -0 a +0. */
static unsigned output_modifier(const struct sim_wave *w, const struct sim_inst *in)
{
	return w->ieee || !(in->dtype == 'f' ? w->flush_out : w->flush_out16) ? 0 : in->omod;
}

/* Values of the computed row change before they are stored. */
static bool reshaped(const struct sim_wave *w, const struct sim_inst *in)
{
	if (in->sdwa || in->omod)
		return true;
	switch (in->dtype) {
	case 'h': case 's': return true;
	case 'f': return in->clamp || w->flush_out;
	default: return false;
	}
}

static float modify_f32(const struct sim_wave *w, const struct sim_inst *in, float x)
{
	static const float factor[] = {1, 2, 4, 0.5f};
	unsigned omod = output_modifier(w, in);
	if (omod) {
		x *= factor[omod];
		if (fabsf(x) < (in->dtype == 'h' ? 0x1p-14f : 0x1p-126f))
			x = 0;
	}
	if (in->clamp)
		x = x != x ? (w->dx10_clamp ? 0 : x) : x > 1 ? 1 : x > 0 ? x : 0;
	return x;
}

static uint32_t sdwa_merge(const struct sim_inst *in, uint32_t old, uint32_t v)
{
	unsigned sel = in->dst_sel;
	if (sel == 6)
		return v;
	unsigned width = sel < 4 ? 8 : 16, shift = sel < 4 ? 8 * sel : 16 * (sel - 4);
	uint32_t field = ((1u << width) - 1) << shift;
	uint32_t rest = in->dst_unused == 2 ? old & ~field : 0;
	if (in->dst_unused == 1 && v >> (width - 1) & 1) /* sign extension fills the bits above */
		rest = shift + width < 32 ? ~0u << (shift + width) : 0;
	return rest | (v << shift & field);
}

void sim_put32_slowly(struct sim_wave *w, const struct sim_inst *in, const uint32_t *row)
{
	uint32_t buf[LANES];
	uint64_t mask = sim_exec(w);
	uint32_t reg = sim_indexed(w, in->vdst, 3);
	if (bad_dst(w, in, reg, 1))
		return;
	uint32_t *d = w->vgpr[reg];
	if (row == d)
		return;
	if (in->dpp) {
		uint8_t from[LANES];
		mask &= sim_dpp_lanes(w, in, from);
	}
	if (reshaped(w, in)) {
		bool half = in->dtype == 'h' || in->dtype == 's';
		for (int i = 0; i < LANES; i++) {
			uint32_t v = row[i];
			if (in->dtype == 'f') {
				if (w->flush_out && !(v & 0x7f800000u))
					v &= 0x80000000u;
				if (in->omod || in->clamp)
					v = num_bits(modify_f32(w, in, num_float(v)));
			} else if (in->dtype == 'h') {
				if (w->flush_out16 && !(v & 0x7c00))
					v &= 0x8000;
				if (in->omod || in->clamp)
					v = sim_f32_to_f16(modify_f32(w, in, sim_f16_to_f32(v)));
			}
			if (in->sdwa)
				v = sdwa_merge(in, d[i], v);
			else if (half && in->opsel & 8)
				v = v << 16 | (d[i] & 0xffff);
			else if (half)
				v = (v & 0xffff) | (in->keep_high ? d[i] & 0xffff0000u : 0);
			buf[i] = v;
		}
		row = buf;
	}
	sim_put_row(w, reg, row, mask);
}

void sim_put64(struct sim_wave *w, const struct sim_inst *in, const uint64_t *row)
{
	uint32_t lo[LANES], hi[LANES];
	uint64_t mask = sim_exec(w);
	uint32_t reg = sim_indexed(w, in->vdst, 3);
	if (bad_dst(w, in, reg, 2))
		return;
	if (in->dpp) {
		uint8_t from[LANES];
		mask &= sim_dpp_lanes(w, in, from);
	}
	bool flush = in->dtype == 'd' && w->flush_out16;
	for (int i = 0; i < LANES; i++) {
		uint64_t u = flush ? flushed64(row[i]) : row[i];
		lo[i] = (uint32_t)u;
		hi[i] = (uint32_t)(u >> 32);
	}
	if (in->dtype == 'd' && (in->omod || in->clamp)) {
		static const double factor[] = {1, 2, 4, 0.5};
		unsigned omod = output_modifier(w, in);
		for (int i = 0; i < LANES; i++) {
			uint64_t flushed = flush ? flushed64(row[i]) : row[i];
			double x;
			memcpy(&x, &flushed, 8);
			x *= factor[omod];
			if (omod && fabs(x) < 0x1p-1022)
				x = 0;
			if (in->clamp)
				x = x != x ? (w->dx10_clamp ? 0 : x) : x > 1 ? 1 : x > 0 ? x : 0;
			uint64_t u;
			memcpy(&u, &x, 8);
			lo[i] = (uint32_t)u;
			hi[i] = (uint32_t)(u >> 32);
		}
	}
	sim_put_row(w, reg, lo, mask);
	sim_put_row(w, reg + 1, hi, mask);
}
