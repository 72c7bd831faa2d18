/* check_undef.c -- registers and LDS bytes that were never written, followed until their value matters.
 *
 * In: each instruction before it is executed.  Out: true, or a report.  Compilers move and even compute with undefined
 * values whose result is thrown away, so reading one is no error: the mark travels with the value, for each lane and half
 * of a vector register, each bit of a scalar one and each byte of LDS, and is reported where it decides something: a
 * store's data or address, EXEC, a branch.  Instructions that pick halves or bits apart are followed exactly enough for
 * packed 16-bit data (moves, logic, shifts, permutations, packing); all others mark the whole result of a lane.  A matrix
 * instruction marks the rows and columns that its marked operands feed. */
#include "check.h"

struct mark { uint64_t lo, hi; }; /* lanes */

void undef_start(struct check_wave *cw, const struct sim_wave *w)
{
	const struct sim_kernel *k = w->group->launch->kernel;
	memset(cw->undef, 0xff, sizeof cw->undef);
	memset(cw->undef[0], 0, sizeof cw->undef[0]);
	memset(cw->sundef, 0xff, sizeof cw->sundef);
	unsigned user = (k->rsrc2 >> 1 & 31) + (k->rsrc2 >> 7 & 1) + (k->rsrc2 >> 8 & 1) + (k->rsrc2 >> 9 & 1) + (k->rsrc2 >> 10 & 1);
	memset(cw->sundef, 0, user * sizeof cw->sundef[0]);
	cw->sundef[REG_EXEC] = cw->sundef[REG_EXEC + 1] = 0;
	memset(cw->vundef, 0xff, sizeof cw->vundef);
	check_mark(cw->vundef, 0, false);
	for (unsigned r = 0; r < CHECK_SGPRS; r++)
		check_mark(cw->sundefined, r, cw->sundef[r] != 0);
}

static void put_scalar(struct check_wave *cw, unsigned reg, uint32_t mark)
{
	cw->sundef[reg] = mark;
	check_mark(cw->sundefined, reg, mark != 0);
}

static bool report(struct sim_wave *w, const struct sim_inst *in, int lane, const char *what)
{
	sim_fail(w, in, SIM_ECHECK, lane, "%s depends on a register or LDS byte that was never written", what);
	return false;
}

static uint64_t scalar_mark(const struct check_wave *cw, const struct sim_src *s)
{
	if (s->kind == SRC_SGPR)
		return cw->sundef[s->reg] | (uint64_t)cw->sundef[s->reg + 1] << 32;
	if (s->kind == SRC_STATUS && s->reg == 253)
		return cw->sundef[CHECK_SCC] ? 1 : 0;
	return 0;
}

/* ---- scalar instructions ---- */

static uint64_t and_mark(uint64_t a, uint64_t ua, uint64_t b, uint64_t ub) { return (ua & ub) | (ua & b) | (ub & a); }

static bool scalar_before(struct check_wave *cw, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	uint64_t a = sim_scalar(w, &in->src[0]), b = sim_scalar(w, &in->src[1]), ua = scalar_mark(cw, &in->src[0]), ub = scalar_mark(cw, &in->src[1]);
	uint64_t result = 0, mark, exec = sim_exec(w);
	uint64_t width = u->nswrite && u->swrite[0].n == 2 ? ~UINT64_C(0) : 0xffffffff;
	bool any = false, known = false;
	for (int k = 0; k < u->nsread; k++)
		for (unsigned r = u->sread[k].first; r < u->sread[k].first + (unsigned)u->sread[k].n; r++)
			any = any || cw->sundef[r];
	mark = any ? ~UINT64_C(0) : 0;
	bool takes_exec = false;
	switch (in->op) {
	case OP_s_mov_b32: case OP_s_mov_b64: case OP_s_not_b32: case OP_s_not_b64: mark = ua; break;
	case OP_s_and_b32: case OP_s_and_b64: mark = and_mark(a, ua, b, ub); result = a & b; known = true; break;
	case OP_s_andn2_b32: case OP_s_andn2_b64: mark = and_mark(a, ua, ~b, ub); result = a & ~b; known = true; break;
	case OP_s_or_b32: case OP_s_or_b64: mark = and_mark(~a, ua, ~b, ub); result = a | b; known = true; break;
	case OP_s_orn2_b32: case OP_s_orn2_b64: mark = and_mark(~a, ua, b, ub); result = a | ~b; known = true; break;
	case OP_s_xor_b32: case OP_s_xor_b64: mark = ua | ub; break;
	case OP_s_lshl_b64: mark = ub ? mark : ua << (b & 63); break;
	case OP_s_lshr_b64: mark = ub ? mark : ua >> (b & 63); break;
	case OP_s_ashr_i64: mark = ub ? mark : (uint64_t)((int64_t)ua >> (b & 63)); break;
	case OP_s_cselect_b32: case OP_s_cselect_b64: mark = cw->sundef[CHECK_SCC] ? ua | ub | (a ^ b) : w->scc ? ua : ub; break;
	case OP_s_and_saveexec_b64: mark = and_mark(a, ua, exec, 0); takes_exec = true; break;
	case OP_s_andn2_saveexec_b64: mark = and_mark(a, ua, ~exec, 0); takes_exec = true; break;
	case OP_s_andn1_saveexec_b64: mark = and_mark(~a, ua, exec, 0); takes_exec = true; break;
	case OP_s_or_saveexec_b64: mark = and_mark(~a, ua, ~exec, 0); takes_exec = true; break;
	default: takes_exec = u->nswrite > 1 && u->swrite[1].first == REG_EXEC; break;
	}
	mark &= width;
	if (takes_exec && mark)
		return report(w, in, -1, "EXEC");
	for (int k = 0; k < u->nswrite; k++) {
		unsigned r = u->swrite[k].first;
		if (r == CHECK_SCC) {
			put_scalar(cw, r, known && result & width & ~mark ? 0 : mark != 0);
			continue;
		}
		if (r + u->swrite[k].n > REG_EXEC && r < REG_EXEC + 2 && mark)
			return report(w, in, -1, "EXEC");
		put_scalar(cw, r, takes_exec ? 0 : (uint32_t)mark);
		if (u->swrite[k].n == 2)
			put_scalar(cw, r + 1, takes_exec ? 0 : (uint32_t)(mark >> 32));
	}
	return true;
}

static bool branch_before(const struct check_wave *cw, struct sim_wave *w, const struct sim_inst *in)
{
	if ((in->op == OP_s_cbranch_scc0 || in->op == OP_s_cbranch_scc1) && cw->sundef[CHECK_SCC])
		return report(w, in, -1, "the branch");
	if (in->op != OP_s_cbranch_vccz && in->op != OP_s_cbranch_vccnz)
		return true;
	uint64_t mark = cw->sundef[REG_VCC] | (uint64_t)cw->sundef[REG_VCC + 1] << 32;
	return !mark || sim_sgpr64(w, REG_VCC) & ~mark ? true : report(w, in, -1, "the branch");
}

/* ---- vector sources ---- */

static uint64_t moved(uint64_t mark, const uint8_t from[LANES])
{
	uint64_t r = 0;
	for (int i = 0; mark && i < LANES; i++)
		if (from[i] != 255)
			r |= (mark >> from[i] & 1) << i;
	return r;
}

static struct mark whole(struct mark m) { return (struct mark){m.lo | m.hi, m.lo | m.hi}; }
static struct mark both(struct mark a, struct mark b) { return (struct mark){a.lo | b.lo, a.hi | b.hi}; }

/* The 32 bits of source k as the instruction sees them: word `n` of a wide source. */
static struct mark source_mark(const struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in, int k, unsigned n)
{
	const struct sim_src *s = &in->src[k];
	struct mark m = {0, 0};
	if (s->kind == SRC_SGPR) {
		uint32_t v = cw->sundef[s->reg + n];
		m = (struct mark){v & 0xffff ? ~UINT64_C(0) : 0, v >> 16 ? ~UINT64_C(0) : 0};
	} else if (s->kind == SRC_VGPR && s->reg + n < CHECK_VGPRS) {
		m = (struct mark){cw->undef[s->reg + n][0], cw->undef[s->reg + n][1]};
		if (in->dpp && k == 0 && (m.lo | m.hi)) {
			uint8_t from[LANES];
			sim_dpp_lanes(w, in, from);
			m = (struct mark){moved(m.lo, from), moved(m.hi, from)};
		}
	}
	if (in->sdwa && k < 2 && in->src_sel[k] != 6) {
		uint64_t part = in->src_sel[k] == 5 || in->src_sel[k] == 2 || in->src_sel[k] == 3 ? m.hi : m.lo;
		m = (struct mark){part, in->src_sext[k] ? part : 0};
	}
	if (s->type == 'h' || s->type == 's')
		m = (struct mark){in->opsel >> k & 1 ? m.hi : m.lo, 0};
	return m;
}

/* A source that is the same known number in every lane. */
static bool constant(const struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in, int k, uint32_t *value)
{
	*value = (uint32_t)sim_scalar(w, &in->src[k]);
	return in->src[k].kind == SRC_CONST || (in->src[k].kind == SRC_SGPR && !(uint32_t)scalar_mark(cw, &in->src[k]));
}

static struct mark masked(struct mark m, uint32_t mask) { return (struct mark){mask & 0xffff ? m.lo : 0, mask >> 16 ? m.hi : 0}; }
static struct mark shifted_left(struct mark m, unsigned n) { return n >= 16 ? (struct mark){0, m.lo} : n ? (struct mark){m.lo, m.lo | m.hi} : m; }
static struct mark shifted_right(struct mark m, unsigned n) { return n >= 16 ? (struct mark){m.hi, 0} : n ? (struct mark){m.lo | m.hi, m.hi} : m; }

/* Bytes picked from src0 (4-7) and src1 (0-3). */
static struct mark permuted(struct mark a, struct mark b, uint32_t selector)
{
	struct mark m = {0, 0};
	for (int i = 0; i < 4; i++) {
		unsigned s = selector >> (8 * i) & 0xff;
		uint64_t part = s > 11 ? 0 : s == 8 || s == 9 ? (s == 8 ? b.lo : b.hi) : s > 9 ? (s == 10 ? a.lo : a.hi) : s < 4 ? (s < 2 ? b.lo : b.hi) : s < 6 ? a.lo : a.hi;
		*(i < 2 ? &m.lo : &m.hi) |= part;
	}
	return m;
}

/* Instructions that keep halves apart; false for all others. */
static bool by_halves(const struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in, struct mark *out)
{
	struct mark a = source_mark(cw, w, in, 0, 0), b = in->nsrc > 1 ? source_mark(cw, w, in, 1, 0) : (struct mark){0, 0};
	struct mark c = in->nsrc > 2 ? source_mark(cw, w, in, 2, 0) : (struct mark){0, 0};
	uint32_t v;
	switch (in->op) {
	case OP_v_mov_b32: case OP_v_accvgpr_read_b32: case OP_v_accvgpr_write_b32: case OP_v_accvgpr_mov_b32: case OP_v_not_b32: *out = a; return true;
	case OP_v_cndmask_b32: {
		uint64_t pick = sim_scalar(w, &in->src[2]), unsure = scalar_mark(cw, &in->src[2]);
		*out = (struct mark){(pick & b.lo) | (~pick & a.lo) | unsure, (pick & b.hi) | (~pick & a.hi) | unsure};
		return true;
	}
	case OP_v_and_b32:
		*out = constant(cw, w, in, 0, &v) ? masked(b, v) : constant(cw, w, in, 1, &v) ? masked(a, v) : both(a, b);
		*out = constant(cw, w, in, 0, &v) ? both(*out, a) : constant(cw, w, in, 1, &v) ? both(*out, b) : *out;
		return true;
	case OP_v_or_b32: case OP_v_xor_b32: case OP_v_xnor_b32: *out = both(a, b); return true;
	case OP_v_or3_b32: *out = both(both(a, b), c); return true;
	case OP_v_lshlrev_b32: if (!constant(cw, w, in, 0, &v)) return false; *out = shifted_left(b, v & 31); return true;
	case OP_v_lshrrev_b32: if (!constant(cw, w, in, 0, &v)) return false; *out = shifted_right(b, v & 31); return true;
	case OP_v_lshl_or_b32: if (!constant(cw, w, in, 1, &v)) return false; *out = both(shifted_left(a, v & 31), c); return true;
	case OP_v_and_or_b32:
		if (constant(cw, w, in, 1, &v))
			*out = both(masked(a, v), c);
		else if (constant(cw, w, in, 0, &v))
			*out = both(masked(b, v), c);
		else
			return false;
		return true;
	case OP_v_bfi_b32: if (!constant(cw, w, in, 0, &v)) return false; *out = both(masked(b, v), masked(c, ~v)); return true;
	case OP_v_alignbit_b32:
		if (!constant(cw, w, in, 2, &v) || (v & 31) != 16)
			return false;
		*out = (struct mark){b.hi, a.lo};
		return true;
	case OP_v_perm_b32: if (!constant(cw, w, in, 2, &v)) return false; *out = permuted(a, b, v); return true;
	case OP_v_bfe_u32: case OP_v_bfe_i32: {
		uint32_t width;
		if (!constant(cw, w, in, 1, &v) || !constant(cw, w, in, 2, &width) || (v & 31) + (width & 31) > 32)
			return false;
		uint32_t field = (uint32_t)(((UINT64_C(1) << (width & 31)) - 1) << (v & 31));
		*out = whole(masked(a, field));
		return true;
	}
	case OP_v_pack_b32_f16: *out = (struct mark){a.lo, b.lo}; return true;
	case OP_v_cvt_pk_bf16_f32: case OP_v_cvt_pk_f16_f32: case OP_v_cvt_pkrtz_f16_f32: case OP_v_cvt_pk_i16_i32: case OP_v_cvt_pk_u16_u32:
		*out = (struct mark){a.lo | a.hi, b.lo | b.hi};
		return true;
	case OP_v_cvt_f32_ubyte0: case OP_v_cvt_f32_ubyte1: case OP_v_cvt_f32_fp8: case OP_v_cvt_f32_bf8: case OP_v_cvt_pk_f32_fp8: case OP_v_cvt_pk_f32_bf8:
		*out = whole((struct mark){in->opsel & 1 && !in->sdwa ? a.hi : a.lo, 0});
		return true;
	case OP_v_cvt_f32_ubyte2: case OP_v_cvt_f32_ubyte3: *out = whole((struct mark){0, a.hi}); return true;
	default: break;
	}
	if (in->nsrc == 0 || (in->src[0].type != 'p' && in->src[0].type != 'q'))
		return false;
	*out = (struct mark){0, 0};
	for (int k = 0; k < in->nsrc; k++) {
		struct mark m = k == 0 ? a : k == 1 ? b : c;
		out->lo |= in->opsel >> k & 1 ? m.hi : m.lo;
		out->hi |= in->opsel_hi >> k & 1 ? m.hi : m.lo;
	}
	return true;
}

/* Integers of two registers: the lower one of the result does not depend on the upper ones of the sources.  Compilers leave these undefined
 * where only the lower half is used.  False for all other instructions. */
static bool by_dwords(const struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in, struct mark out[2])
{
	struct mark low = {0, 0}, high = {0, 0};
	uint32_t n;
	for (int k = 0; k < in->nsrc; k++) {
		low = both(low, source_mark(cw, w, in, k, 0));
		high = in->src[k].type == 'l' ? both(high, source_mark(cw, w, in, k, 1)) : high;
	}
	low = whole(low);
	high = whole(high);
	switch (in->op) {
	case OP_v_mad_u64_u32: case OP_v_mad_i64_i32: case OP_v_lshl_add_u64: case OP_v_lshlrev_b64:
		out[0] = low;
		out[1] = both(low, high);
		return true;
	case OP_v_lshrrev_b64: case OP_v_ashrrev_i64:
		if (!constant(cw, w, in, 0, &n))
			return false;
		out[0] = (n & 63) < 32 ? both(low, high) : high;
		out[1] = high;
		return true;
	default: return false;
	}
}

/* ---- vector results ---- */

enum { LOW = 1, HIGH = 2 };

/* Halves of the result register that the instruction writes; *clears: halves it sets to known bits beside. */
static unsigned halves_written(const struct sim_inst *in, unsigned *clears)
{
	const char *name = sim_op_name(in->op);
	*clears = 0;
	if (in->sdwa && in->dst_sel != 6) {
		unsigned written = in->dst_sel == 5 || in->dst_sel == 2 || in->dst_sel == 3 ? HIGH : LOW;
		*clears = in->dst_unused == 2 ? 0 : 3 & ~written;
		return written;
	}
	if (in->op == OP_v_fma_mixlo_f16)
		return LOW;
	if (in->op == OP_v_fma_mixhi_f16)
		return HIGH;
	if (in->dtype == 'h' || in->dtype == 's') {
		if (in->opsel & 8)
			return HIGH;
		*clears = in->keep_high ? 0 : HIGH;
		return LOW;
	}
	bool narrow = strncmp(name, "v_cvt_", 6) == 0 && (strstr(name, "pk_fp8_") || strstr(name, "pk_bf8_") || strstr(name, "pk_fp4_") ||
		strstr(name, "sr_fp8_") || strstr(name, "sr_bf8_") || in->op == OP_v_cvt_sr_f16_f32 || in->op == OP_v_cvt_sr_bf16_f32);
	return narrow && in->n == 1 ? (in->opsel & 8 ? HIGH : LOW) : LOW | HIGH;
}

static void put(struct check_wave *cw, unsigned reg, struct mark m, uint64_t mask, unsigned halves)
{
	if (reg >= CHECK_VGPRS)
		return;
	if (halves & LOW)
		cw->undef[reg][0] = (cw->undef[reg][0] & ~mask) | (m.lo & mask);
	if (halves & HIGH)
		cw->undef[reg][1] = (cw->undef[reg][1] & ~mask) | (m.hi & mask);
	check_mark(cw->vundef, reg, cw->undef[reg][0] | cw->undef[reg][1]);
}

void undef_clear(struct check_wave *cw, unsigned reg, unsigned count, uint64_t lanes)
{
	for (unsigned r = reg; r < reg + count; r++)
		put(cw, r, (struct mark){0, 0}, lanes, LOW | HIGH);
}

bool undef_whole(const struct sim_inst *in)
{
	unsigned clears;
	return !in->dpp && in->op != OP_v_writelane_b32 && halves_written(in, &clears) == (LOW | HIGH);
}

bool undef_written(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	struct check_wave *cw = &c->wave[w->index];
	if (in->cls == SIM_VALU && !u->whole)
		return undef_before(c, w, in, u);
	for (int k = 0; k < u->nwrite && !(u->access == ACCESS_LDS && u->parts); k++)
		undef_clear(cw, u->write[k].first, u->write[k].n, u->passes ? ~UINT64_C(0) : sim_exec(w));
	for (int k = 0; k < u->nswrite; k++)
		for (unsigned r = u->swrite[k].first; r < u->swrite[k].first + (unsigned)u->swrite[k].n && r < CHECK_SGPRS; r++)
			put_scalar(cw, r, 0);
	return true;
}

static struct mark all_sources(const struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	struct mark m = {0, 0};
	for (int k = 0; k < in->nsrc && k < 4; k++) {
		if (in->src[k].type == 'c') {
			m.lo |= scalar_mark(cw, &in->src[k]);
			continue;
		}
		bool wide = in->src[k].type == 'l' || in->src[k].type == 'd' || in->src[k].type == 'w';
		unsigned words = wide ? 2 : 1;
		for (int r = 0; r < u->nread && wide && in->src[k].kind == SRC_VGPR; r++)
			words = u->read[r].first == in->src[k].reg ? u->read[r].n : words;
		for (unsigned n = 0; n < words; n++)
			m = both(m, source_mark(cw, w, in, k, n));
	}
	for (int k = 0; k < u->nread; k++) /* an accumulator */
		if (u->read[k].first == in->vdst && k >= in->nsrc)
			for (unsigned r = in->vdst; r < in->vdst + (unsigned)u->read[k].n; r++)
				m = both(m, (struct mark){cw->undef[r][0], in->dtype == 'h' ? 0 : cw->undef[r][1]});
	if (in->op == OP_v_div_fmas_f32 || in->op == OP_v_div_fmas_f64)
		m.lo |= cw->sundef[REG_VCC] | (uint64_t)cw->sundef[REG_VCC + 1] << 32;
	return whole(m);
}

static void lane_access(struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in)
{
	unsigned lane = (unsigned)sim_scalar(w, &in->src[1]) & 63;
	if (in->op == OP_v_writelane_b32) {
		uint32_t v = (uint32_t)scalar_mark(cw, &in->src[0]);
		put(cw, in->vdst, (struct mark){v & 0xffff ? ~UINT64_C(0) : 0, v >> 16 ? ~UINT64_C(0) : 0}, UINT64_C(1) << lane, LOW | HIGH);
		return;
	}
	if (in->op == OP_v_readfirstlane_b32)
		lane = sim_exec(w) ? (unsigned)__builtin_ctzll(sim_exec(w)) : 0;
	if (in->sdst >= 128)
		return;
	struct mark m = in->src[0].kind == SRC_VGPR ? (struct mark){cw->undef[in->src[0].reg][0], cw->undef[in->src[0].reg][1]} : (struct mark){0, 0};
	put_scalar(cw, in->sdst, (m.lo >> lane & 1 ? 0xffffu : 0) | (m.hi >> lane & 1 ? 0xffff0000u : 0));
}

/* v_swap_b32 and v_permlane*_swap_b32. */
static void swap(struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in)
{
	unsigned width = in->op == OP_v_swap_b32 ? 0 : in->op == OP_v_permlane16_swap_b32 ? 16 : 32;
	uint64_t exec = sim_exec(w), upper = width == 16 ? UINT64_C(0xffff0000ffff0000) : UINT64_C(0xffffffff00000000);
	for (int h = 0; h < 2; h++) {
		uint64_t *a = &cw->undef[in->vdst][h], *b = &cw->undef[in->src[0].reg][h], x = *a, y = *b;
		uint64_t to_a = width ? y << width : y, to_b = width ? x >> width : x, ma = width ? exec & upper : exec, mb = width ? exec & ~upper : exec;
		*a = (x & ~ma) | (to_a & ma);
		*b = (y & ~mb) | (to_b & mb);
	}
	const unsigned both[2] = {in->vdst, in->src[0].reg};
	for (int k = 0; k < 2; k++)
		check_mark(cw->vundef, both[k], cw->undef[both[k]][0] | cw->undef[both[k]][1]);
}

static bool vector_before(struct check_wave *cw, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	uint64_t mask = sim_exec(w);
	struct mark m, word[2];
	unsigned clears, halves;
	switch (in->op) {
	case OP_v_readlane_b32: case OP_v_readfirstlane_b32: case OP_v_writelane_b32: lane_access(cw, w, in); return true;
	case OP_v_swap_b32: case OP_v_permlane16_swap_b32: case OP_v_permlane32_swap_b32: swap(cw, w, in); return true;
	case OP_v_mov_b64:
		for (unsigned n = 0; n < 2; n++)
			put(cw, in->vdst + n, source_mark(cw, w, in, 0, n), mask, LOW | HIGH);
		return true;
	default: break;
	}
	if (in->nsrc && in->src[0].type == 'P') { /* pairs of f32 */
		struct mark out[2] = {{0, 0}, {0, 0}};
		for (int k = 0; k < in->nsrc; k++) {
			out[0] = both(out[0], source_mark(cw, w, in, k, in->opsel >> k & 1));
			out[1] = both(out[1], source_mark(cw, w, in, k, in->op == OP_v_pk_mov_b32 && k == 1 ? in->opsel >> 1 & 1 : in->opsel_hi >> k & 1));
		}
		for (unsigned n = 0; n < 2; n++)
			put(cw, in->vdst + n, whole(out[n]), mask, LOW | HIGH);
		return true;
	}
	bool apart = by_dwords(cw, w, in, word);
	if (apart)
		m = both(word[0], word[1]);
	else if (!by_halves(cw, w, in, &m))
		m = all_sources(cw, w, in, u);
	for (int k = 0; k < u->nswrite; k++) { /* lane masks */
		uint64_t lanes = (m.lo | m.hi) & mask;
		if (u->swrite[k].first == REG_EXEC && lanes)
			return report(w, in, __builtin_ctzll(lanes), "EXEC");
		put_scalar(cw, u->swrite[k].first, (uint32_t)lanes);
		put_scalar(cw, u->swrite[k].first + 1u, (uint32_t)(lanes >> 32));
	}
	if (!u->nwrite)
		return true;
	if (in->dpp) {
		uint8_t from[LANES];
		mask &= sim_dpp_lanes(w, in, from);
	}
	halves = halves_written(in, &clears);
	if (halves != (LOW | HIGH))
		m = (struct mark){m.lo | m.hi, m.lo | m.hi};
	for (unsigned r = in->vdst; r < in->vdst + (unsigned)in->n; r++) {
		put(cw, r, apart ? word[r - in->vdst] : m, mask, halves);
		put(cw, r, (struct mark){0, 0}, mask, clears);
	}
	return true;
}

/* Lanes of A are rows of D and lanes of B its columns, both modulo the tile's width. */
static void matrix_before(struct check_wave *cw, const struct sim_inst *in, const struct check_use *u)
{
	const char *name = sim_op_name(in->op);
	unsigned m = strstr(name, "_32x32") ? 32 : strstr(name, "_16x16") ? 16 : 4;
	uint64_t a = 0, b = 0, block = m == 32 ? 0xffffffff : m == 16 ? 0xffff : 0xf;
	for (int k = 0; k < 2 && k < u->nread; k++)
		for (unsigned r = u->read[k].first; r < u->read[k].first + (unsigned)u->read[k].n && r < CHECK_VGPRS; r++)
			*(k ? &b : &a) |= cw->undef[r][0] | cw->undef[r][1];
	for (unsigned s = 32; s >= m; s /= 2) {
		a |= a >> s | a << s;
		b |= b >> s | b << s;
	}
	bool acc = in->src[2].kind == SRC_VGPR && in->exec == exec_mfma;
	uint64_t next[32];
	for (unsigned r = 0; r < in->n && r < 32; r++) {
		unsigned from = acc ? in->src[2].reg + r : in->vdst + r;
		next[r] = (acc || in->exec == exec_smfmac) && from < CHECK_VGPRS ? cw->undef[from][0] | cw->undef[from][1] : 0;
		next[r] |= b;
		for (unsigned lane = 0; (a & block) && lane < LANES; lane += m < 16 ? 1 : m) {
			unsigned row = m == 32 ? 8 * (r % 16 / 4) + 4 * (lane / 32) + r % 4 : m == 16 ? 4 * (lane / 16) + r % 4 : r % 4;
			if (a >> row & 1)
				next[r] |= (m < 16 ? 1 : block) << lane;
		}
	}
	for (unsigned r = 0; r < in->n && r < 32; r++)
		put(cw, in->vdst + r, (struct mark){next[r], next[r]}, ~UINT64_C(0), LOW | HIGH);
}

/* ---- memory ---- */

static bool address_known(const struct check_wave *cw, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	uint64_t exec = sim_exec(w), mark = 0;
	if (u->access == ACCESS_LDS ? u->addresses : u->addresses && u->nread)
		for (unsigned r = u->read[0].first; r < u->read[0].first + (unsigned)u->read[0].n; r++)
			mark |= cw->undef[r][0] | cw->undef[r][1];
	if (mark & exec)
		return report(w, in, __builtin_ctzll(mark & exec), "the address");
	for (int k = 0; exec && k < u->nsread; k++)
		for (unsigned r = u->sread[k].first; r < u->sread[k].first + (unsigned)u->sread[k].n; r++)
			if (cw->sundef[r])
				return report(w, in, -1, "the address");
	return true;
}

static void between_lanes(struct check_wave *cw, const struct sim_wave *w, const struct sim_inst *in)
{
	uint64_t exec = sim_exec(w);
	unsigned data = in->op == OP_ds_swizzle_b32 ? in->vaddr : in->vdata;
	struct mark m = {cw->undef[data][0], cw->undef[data][1]}, out = m;
	if (in->op == OP_ds_bpermute_b32) {
		uint8_t from[LANES];
		for (int i = 0; i < LANES; i++) {
			unsigned j = (w->vgpr[in->vaddr][i] + (uint32_t)in->offset) >> 2 & 63;
			from[i] = exec >> j & 1 ? (uint8_t)j : 255;
		}
		out = (struct mark){moved(m.lo, from), moved(m.hi, from)};
	} else if ((m.lo | m.hi) & exec) {
		out = (struct mark){~UINT64_C(0), ~UINT64_C(0)};
	} else {
		out = (struct mark){0, 0};
	}
	put(cw, in->vdst, out, exec, LOW | HIGH);
}

bool undef_before(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	struct check_wave *cw = &c->wave[w->index];
	if (u->passes) {
		matrix_before(cw, in, u);
		return true;
	}
	if (in->cls == SIM_VALU)
		return vector_before(cw, w, in, u);
	if (in->enc == ENC_SOPP)
		return branch_before(cw, w, in);
	if (u->access == ACCESS_NONE)
		return scalar_before(cw, w, in, u);
	if (!address_known(cw, w, in, u))
		return false;
	if (u->access == ACCESS_LDS && u->parts == 0)
		between_lanes(cw, w, in);
	for (int k = 0; u->access != ACCESS_LDS && k < u->nwrite; k++)
		undef_clear(cw, u->write[k].first, u->write[k].n, sim_exec(w));
	for (int k = 0; k < u->nswrite; k++)
		for (unsigned r = u->swrite[k].first; r < u->swrite[k].first + (unsigned)u->swrite[k].n && r < CHECK_SGPRS; r++)
			put_scalar(cw, r, 0);
	return true;
}

/* LDS: marks go into the bytes with stored data and come back with loaded ones. */
void undef_lds(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, int part, const struct check_lanes *l)
{
	struct check_wave *cw = &c->wave[w->index];
	unsigned regs = u->bytes <= 4 ? 1 : u->bytes / 4u, data = part ? in->vdata2 : in->vdata, result = in->vdst + part * regs;
	bool high = in->op == OP_ds_write_b8_d16_hi || in->op == OP_ds_write_b16_d16_hi;
	struct mark got[4] = {{0, 0}};
	for (int i = 0; i < LANES; i++)
		for (unsigned n = 0; l->bytes[i] && n < (u->access == ACCESS_DMA ? (l->bytes[i] + 3u) / 4 : regs); n++) {
			uint32_t at = (uint32_t)l->addr[i] + 4 * n;
			struct check_lds *d = &c->lds[at / 4];
			unsigned size = u->bytes < 4 && u->access != ACCESS_DMA ? u->bytes : 4, bytes = ((1u << size) - 1) << (at & 3);
			if (u->store || u->access == ACCESS_DMA) {
				unsigned lo = u->access == ACCESS_DMA || u->atomic ? 0 : cw->undef[data + n][high] >> i & 1;
				unsigned hi = u->access == ACCESS_DMA || u->atomic ? 0 : size < 4 ? lo : cw->undef[data + n][1] >> i & 1;
				unsigned marks = ((lo ? 3u : 0) | (hi ? 12u : 0)) << (at & 3) & bytes;
				d->undef = (uint8_t)((d->undef & ~bytes) | marks);
				check_mark_undef(c, at / 4);
				if (bytes >> 4) {
					c->lds[at / 4 + 1].undef &= (uint8_t)~(bytes >> 4);
					check_mark_undef(c, at / 4 + 1);
				}
			} else {
				unsigned marks = (d->undef & bytes) >> (at & 3);
				got[n].lo |= (uint64_t)((marks & 3) != 0) << i;
				got[n].hi |= (uint64_t)((size < 4 ? marks & 3 : marks & 12) != 0) << i;
			}
		}
	if (u->transposed) /* any byte of a group of 16 lanes may be any lane's */
		for (unsigned n = 0; n < regs; n++)
			for (int g = 0; g < 4; g++) {
				uint64_t group = UINT64_C(0xffff) << (16 * g), any = 0;
				for (unsigned k = 0; k < regs; k++)
					any |= (got[k].lo | got[k].hi) & group;
				got[n].lo |= any ? group : 0;
				got[n].hi |= any ? group : 0;
			}
	if (u->load)
		for (unsigned n = 0; n < regs; n++)
			put(cw, result + n, u->store ? (struct mark){0, 0} : got[n], sim_exec(w), LOW | HIGH);
}

/* Data that leaves the workgroup. */
bool undef_global(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, const struct check_lanes *l)
{
	const struct check_wave *cw = &c->wave[w->index];
	bool high = u->high;
	uint64_t any = 0;
	if (!u->store)
		return true;
	unsigned regs = u->bytes <= 4 ? 1 : u->bytes / 4u;
	for (unsigned n = 0; n < regs; n++)
		any |= u->bytes < 4 ? cw->undef[in->vdata][high] : cw->undef[in->vdata + n][0] | cw->undef[in->vdata + n][1];
	for (int i = 0; any && i < LANES; i++)
		for (unsigned n = 0; any >> i & 1 && n < (l->bytes[i] + 3u) / 4; n++)
			if (u->bytes < 4 ? true : (cw->undef[in->vdata + n][0] | cw->undef[in->vdata + n][1]) >> i & 1)
				return report(w, in, i, "the data stored");
	return true;
}
