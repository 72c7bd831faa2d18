/* exec_scalar.c -- scalar arithmetic: SOP2, SOP1, SOPK, SOPC.
 *
 * In: one wave and an instruction; sources are 64-bit values of which 32-bit opcodes use the lower half.  Out: scalar
 * registers and SCC.  One switch a format: scalar work is short, the dispatch through the family pointer is enough. */
#include "exec.h"

static void put(struct sim_wave *w, const struct sim_inst *in, uint32_t v)
{
	if (in->sdst < 128)
		w->sgpr[in->sdst] = v;
}

static void put64(struct sim_wave *w, const struct sim_inst *in, uint64_t v)
{
	sim_sgpr64_set(w, in->sdst, v);
}

/* Result with SCC = result is not zero. */
static void put_nz(struct sim_wave *w, const struct sim_inst *in, uint32_t v)
{
	put(w, in, v);
	w->scc = v != 0;
}

static void put64_nz(struct sim_wave *w, const struct sim_inst *in, uint64_t v)
{
	put64(w, in, v);
	w->scc = v != 0;
}

static uint64_t field(unsigned width, unsigned offset)
{
	return (width >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << width) - 1) << offset;
}

static void bfe(struct sim_wave *w, const struct sim_inst *in, uint64_t a, uint32_t spec, unsigned bits, bool sign)
{
	unsigned offset = spec & (bits - 1), width = spec >> 16 & 0x7f;
	uint64_t v = 0;
	if (width) {
		if (offset + width > bits)
			width = bits - offset;
		v = a >> offset & field(width, 0);
		if (sign && v >> (width - 1) & 1)
			v |= ~field(width, 0);
	}
	if (bits == 32)
		put_nz(w, in, (uint32_t)v);
	else
		put64_nz(w, in, v);
}

static void privileged(struct sim_wave *w, const struct sim_inst *in)
{
	sim_fail(w, in, SIM_EINST, -1, "only a trap handler may execute this");
}

static void fork_lanes(struct sim_wave *, const struct sim_inst *, uint64_t mask, uint64_t target);

void exec_sop2(struct sim_wave *w, const struct sim_inst *in)
{
	uint64_t A = sim_scalar(w, &in->src[0]), B = sim_scalar(w, &in->src[1]);
	uint32_t a = (uint32_t)A, b = (uint32_t)B, r;
	int32_t sa = (int32_t)a, sb = (int32_t)b;
	uint64_t wide;
	switch (in->op) {
	case OP_s_add_u32: r = a + b; w->scc = r < a; put(w, in, r); return;
	case OP_s_sub_u32: w->scc = b > a; put(w, in, a - b); return;
	case OP_s_add_i32: r = a + b; w->scc = (~(a ^ b) & (a ^ r)) >> 31; put(w, in, r); return;
	case OP_s_sub_i32: r = a - b; w->scc = ((a ^ b) & (a ^ r)) >> 31; put(w, in, r); return;
	case OP_s_addc_u32: wide = (uint64_t)a + b + w->scc; w->scc = wide >> 32 & 1; put(w, in, (uint32_t)wide); return;
	case OP_s_subb_u32: wide = (uint64_t)a - b - w->scc; w->scc = wide >> 63; put(w, in, (uint32_t)wide); return;
	case OP_s_min_i32: w->scc = sa < sb; put(w, in, sa < sb ? a : b); return;
	case OP_s_min_u32: w->scc = a < b; put(w, in, a < b ? a : b); return;
	case OP_s_max_i32: w->scc = sa > sb; put(w, in, sa > sb ? a : b); return;
	case OP_s_max_u32: w->scc = a > b; put(w, in, a > b ? a : b); return;
	case OP_s_cselect_b32: put(w, in, w->scc ? a : b); return;
	case OP_s_cselect_b64: put64(w, in, w->scc ? A : B); return;
	case OP_s_and_b32: put_nz(w, in, a & b); return;
	case OP_s_and_b64: put64_nz(w, in, A & B); return;
	case OP_s_or_b32: put_nz(w, in, a | b); return;
	case OP_s_or_b64: put64_nz(w, in, A | B); return;
	case OP_s_xor_b32: put_nz(w, in, a ^ b); return;
	case OP_s_xor_b64: put64_nz(w, in, A ^ B); return;
	case OP_s_andn2_b32: put_nz(w, in, a & ~b); return;
	case OP_s_andn2_b64: put64_nz(w, in, A & ~B); return;
	case OP_s_orn2_b32: put_nz(w, in, a | ~b); return;
	case OP_s_orn2_b64: put64_nz(w, in, A | ~B); return;
	case OP_s_nand_b32: put_nz(w, in, ~(a & b)); return;
	case OP_s_nand_b64: put64_nz(w, in, ~(A & B)); return;
	case OP_s_nor_b32: put_nz(w, in, ~(a | b)); return;
	case OP_s_nor_b64: put64_nz(w, in, ~(A | B)); return;
	case OP_s_xnor_b32: put_nz(w, in, ~(a ^ b)); return;
	case OP_s_xnor_b64: put64_nz(w, in, ~(A ^ B)); return;
	case OP_s_lshl_b32: put_nz(w, in, a << (b & 31)); return;
	case OP_s_lshl_b64: put64_nz(w, in, A << (b & 63)); return;
	case OP_s_lshr_b32: put_nz(w, in, a >> (b & 31)); return;
	case OP_s_lshr_b64: put64_nz(w, in, A >> (b & 63)); return;
	case OP_s_ashr_i32: put_nz(w, in, (uint32_t)(sa >> (b & 31))); return;
	case OP_s_ashr_i64: put64_nz(w, in, (uint64_t)((int64_t)A >> (b & 63))); return;
	case OP_s_bfm_b32: put(w, in, (uint32_t)field(a & 31, b & 31)); return;
	case OP_s_bfm_b64: put64(w, in, field(a & 63, b & 63)); return;
	case OP_s_mul_i32: put(w, in, a * b); return;
	case OP_s_mul_hi_u32: put(w, in, (uint32_t)((uint64_t)a * b >> 32)); return;
	case OP_s_mul_hi_i32: put(w, in, (uint32_t)((uint64_t)((int64_t)sa * sb) >> 32)); return;
	case OP_s_bfe_u32: bfe(w, in, a, b, 32, false); return;
	case OP_s_bfe_i32: bfe(w, in, a, b, 32, true); return;
	case OP_s_bfe_u64: bfe(w, in, A, b, 64, false); return;
	case OP_s_bfe_i64: bfe(w, in, A, b, 64, true); return;
	case OP_s_absdiff_i32: put_nz(w, in, (a - b) >> 31 ? b - a : a - b); return; /* the sign is that of the 32-bit difference */
	case OP_s_lshl1_add_u32: case OP_s_lshl2_add_u32: case OP_s_lshl3_add_u32: case OP_s_lshl4_add_u32:
		wide = ((uint64_t)a << (in->op - OP_s_lshl1_add_u32 + 1)) + b;
		w->scc = wide >> 32 != 0;
		put(w, in, (uint32_t)wide);
		return;
	case OP_s_pack_ll_b32_b16: put(w, in, (a & 0xffff) | b << 16); return;
	case OP_s_pack_lh_b32_b16: put(w, in, (a & 0xffff) | (b & 0xffff0000u)); return;
	case OP_s_pack_hh_b32_b16: put(w, in, a >> 16 | (b & 0xffff0000u)); return;
	case OP_s_cbranch_g_fork: fork_lanes(w, in, A, B); return;
	case OP_s_rfe_restore_b64: privileged(w, in); return;
	default: sim_unknown(w, in);
	}
}

static void saveexec(struct sim_wave *w, const struct sim_inst *in, uint64_t next)
{
	put64(w, in, sim_exec(w));
	sim_sgpr64_set(w, REG_EXEC, next);
	w->scc = next != 0;
}

static void wrexec(struct sim_wave *w, const struct sim_inst *in, uint64_t next)
{
	sim_sgpr64_set(w, REG_EXEC, next);
	put64(w, in, next);
	w->scc = next != 0;
}

static uint64_t reverse(uint64_t v, int bits)
{
	uint64_t r = 0;
	for (int i = 0; i < bits; i++)
		r |= (v >> i & 1) << (bits - 1 - i);
	return r;
}

/* Bits from the top that equal the sign bit; -1 when all do. */
static uint32_t sign_bits(int64_t v, int bits)
{
	uint64_t u = (uint64_t)(v < 0 ? ~v : v);
	return u == 0 ? ~0u : (uint32_t)(__builtin_clzll(u) - (64 - bits));
}

/* One bit of each group of four: all of them when any is set (wqm), or packed (quadmask). */
static uint64_t quads(uint64_t v, int bits, bool pack)
{
	uint64_t r = 0;
	for (int i = 0; i < bits / 4; i++)
		if (v >> (4 * i) & 15)
			r |= pack ? UINT64_C(1) << i : UINT64_C(15) << (4 * i);
	return r;
}

static uint64_t doubled_bits(uint32_t v)
{
	uint64_t r = 0;
	for (int i = 0; i < 32; i++)
		r |= (uint64_t)(v >> i & 1 ? 3 : 0) << (2 * i);
	return r;
}

/* Addresses of instructions are host addresses of the image. */
static uint64_t pc_address(const struct sim_wave *w)
{
	return (uint64_t)(uintptr_t)w->group->code->object->image + (uint64_t)w->pc * 4;
}

static void jump(struct sim_wave *w, const struct sim_inst *in, uint64_t addr)
{
	const struct sim_object *o = w->group->code->object;
	uint64_t at = addr - (uint64_t)(uintptr_t)o->image;
	if (at >= o->code_size || at & 3) {
		sim_fail(w, in, SIM_EFAULT, -1, "jump to 0x%llx, outside the code", (unsigned long long)addr);
		return;
	}
	w->pc = (uint32_t)(at / 4);
}

/* ---- forks: the wave runs the smaller part of its lanes first, what is left waits in SGPRs at 4 * CSP (MODE 31:29) ---- */

static unsigned fork_depth(const struct sim_wave *w) { return w->mode >> 29; }
static void fork_depth_set(struct sim_wave *w, unsigned n) { w->mode = (w->mode & ~(7u << 29)) | (n & 7) << 29; }

static void fork_lanes(struct sim_wave *w, const struct sim_inst *in, uint64_t mask, uint64_t target)
{
	uint64_t exec = sim_exec(w), pass = mask & exec, fail = ~mask & exec, next = pc_address(w);
	if (pass == exec) {
		jump(w, in, target);
		return;
	}
	if (fail == exec)
		return;
	bool pass_waits = __builtin_popcountll(fail) < __builtin_popcountll(pass);
	unsigned depth = fork_depth(w);
	sim_sgpr64_set(w, 4 * depth, pass_waits ? pass : fail);
	sim_sgpr64_set(w, 4 * depth + 2, pass_waits ? target : next);
	fork_depth_set(w, depth + 1);
	sim_sgpr64_set(w, REG_EXEC, pass_waits ? fail : pass);
	if (!pass_waits)
		jump(w, in, target);
}

static void join_lanes(struct sim_wave *w, const struct sim_inst *in, uint32_t depth)
{
	unsigned now = fork_depth(w);
	if (now == depth)
		return;
	fork_depth_set(w, now - 1);
	now = (now - 1) & 7;
	sim_sgpr64_set(w, REG_EXEC, sim_sgpr64(w, 4 * now));
	jump(w, in, sim_sgpr64(w, 4 * now + 2));
}

/* Scalar register numbers moved by M0; what lies beyond the registers is an error. */
static bool relative(struct sim_wave *w, const struct sim_inst *in, unsigned reg, unsigned count, unsigned *at)
{
	uint64_t place = (uint64_t)reg + w->sgpr[REG_M0];
	*at = (unsigned)place;
	if (place + count <= REG_VCC)
		return true;
	sim_fail(w, in, SIM_EINST, -1, "register s%llu is none", (unsigned long long)place);
	return false;
}

void exec_sop1(struct sim_wave *w, const struct sim_inst *in)
{
	uint64_t A = sim_scalar(w, &in->src[0]), e = sim_exec(w);
	uint32_t a = (uint32_t)A;
	unsigned at;
	switch (in->op) {
	case OP_s_mov_b32: put(w, in, a); return;
	case OP_s_mov_b64: put64(w, in, A); return;
	case OP_s_cmov_b32: if (w->scc) put(w, in, a); return;
	case OP_s_cmov_b64: if (w->scc) put64(w, in, A); return;
	case OP_s_not_b32: put_nz(w, in, ~a); return;
	case OP_s_not_b64: put64_nz(w, in, ~A); return;
	case OP_s_wqm_b32: put_nz(w, in, (uint32_t)quads(a, 32, false)); return;
	case OP_s_wqm_b64: put64_nz(w, in, quads(A, 64, false)); return;
	case OP_s_quadmask_b32: put_nz(w, in, (uint32_t)quads(a, 32, true)); return;
	case OP_s_quadmask_b64: put64_nz(w, in, quads(A, 64, true)); return;
	case OP_s_brev_b32: put(w, in, (uint32_t)reverse(a, 32)); return;
	case OP_s_brev_b64: put64(w, in, reverse(A, 64)); return;
	case OP_s_bcnt0_i32_b32: put_nz(w, in, 32 - (uint32_t)__builtin_popcount(a)); return;
	case OP_s_bcnt0_i32_b64: put_nz(w, in, 64 - (uint32_t)__builtin_popcountll(A)); return;
	case OP_s_bcnt1_i32_b32: put_nz(w, in, (uint32_t)__builtin_popcount(a)); return;
	case OP_s_bcnt1_i32_b64: put_nz(w, in, (uint32_t)__builtin_popcountll(A)); return;
	case OP_s_ff0_i32_b32: put(w, in, ~a ? (uint32_t)__builtin_ctz(~a) : ~0u); return;
	case OP_s_ff0_i32_b64: put(w, in, ~A ? (uint32_t)__builtin_ctzll(~A) : ~0u); return;
	case OP_s_ff1_i32_b32: put(w, in, a ? (uint32_t)__builtin_ctz(a) : ~0u); return;
	case OP_s_ff1_i32_b64: put(w, in, A ? (uint32_t)__builtin_ctzll(A) : ~0u); return;
	case OP_s_flbit_i32_b32: put(w, in, a ? (uint32_t)__builtin_clz(a) : ~0u); return;
	case OP_s_flbit_i32_b64: put(w, in, A ? (uint32_t)__builtin_clzll(A) : ~0u); return;
	case OP_s_flbit_i32: put(w, in, sign_bits((int32_t)a, 32)); return;
	case OP_s_flbit_i32_i64: put(w, in, sign_bits((int64_t)A, 64)); return;
	case OP_s_sext_i32_i8: put(w, in, (uint32_t)(int8_t)a); return;
	case OP_s_sext_i32_i16: put(w, in, (uint32_t)(int16_t)a); return;
	case OP_s_bitset0_b32: put(w, in, w->sgpr[in->sdst] & ~(1u << (a & 31))); return;
	case OP_s_bitset1_b32: put(w, in, w->sgpr[in->sdst] | 1u << (a & 31)); return;
	case OP_s_bitset0_b64: put64(w, in, sim_sgpr64(w, in->sdst) & ~(UINT64_C(1) << (a & 63))); return;
	case OP_s_bitset1_b64: put64(w, in, sim_sgpr64(w, in->sdst) | UINT64_C(1) << (a & 63)); return;
	case OP_s_getpc_b64: put64(w, in, pc_address(w)); return;
	case OP_s_setpc_b64: jump(w, in, A); return;
	case OP_s_swappc_b64: put64(w, in, pc_address(w)); jump(w, in, A); return;
	case OP_s_and_saveexec_b64: saveexec(w, in, A & e); return;
	case OP_s_or_saveexec_b64: saveexec(w, in, A | e); return;
	case OP_s_xor_saveexec_b64: saveexec(w, in, A ^ e); return;
	case OP_s_andn2_saveexec_b64: saveexec(w, in, A & ~e); return;
	case OP_s_orn2_saveexec_b64: saveexec(w, in, A | ~e); return;
	case OP_s_nand_saveexec_b64: saveexec(w, in, ~(A & e)); return;
	case OP_s_nor_saveexec_b64: saveexec(w, in, ~(A | e)); return;
	case OP_s_xnor_saveexec_b64: saveexec(w, in, ~(A ^ e)); return;
	case OP_s_andn1_saveexec_b64: saveexec(w, in, ~A & e); return;
	case OP_s_orn1_saveexec_b64: saveexec(w, in, ~A | e); return;
	case OP_s_andn1_wrexec_b64: wrexec(w, in, ~A & e); return;
	case OP_s_andn2_wrexec_b64: wrexec(w, in, A & ~e); return;
	case OP_s_abs_i32: put_nz(w, in, (int32_t)a < 0 ? 0u - a : a); return;
	case OP_s_set_gpr_idx_idx: w->sgpr[REG_M0] = (w->sgpr[REG_M0] & ~0xffu) | (a & 0xff); return;
	case OP_s_bitreplicate_b64_b32: put64(w, in, doubled_bits(a)); return;
	case OP_s_movrels_b32: if (relative(w, in, in->src[0].reg, 1, &at)) put(w, in, w->sgpr[at]); return;
	case OP_s_movrels_b64: if (relative(w, in, in->src[0].reg, 2, &at)) put64(w, in, sim_sgpr64(w, at)); return;
	case OP_s_movreld_b32: if (relative(w, in, in->sdst, 1, &at)) w->sgpr[at] = a; return;
	case OP_s_movreld_b64: if (relative(w, in, in->sdst, 2, &at)) sim_sgpr64_set(w, at, A); return;
	case OP_s_cbranch_join: join_lanes(w, in, a); return;
	case OP_s_rfe_b64: privileged(w, in); return;
	default: sim_unknown(w, in);
	}
}

/* While VSKIP is set vector instructions are passed over: the wave is stepped here until it is cleared or the wave stops. */
static void vskip(struct sim_wave *w, const struct sim_inst *in, bool on)
{
	const struct sim_object *o = w->group->code->object;
	bool nested = w->mode >> 28 & 1;
	w->mode = (w->mode & ~(1u << 28)) | (uint32_t)on << 28;
	while (on && !nested && w->state == WAVE_RUN && w->mode >> 28 & 1) {
		struct sim_inst next;
		size_t left = o->code_size / 4 - w->pc;
		uint32_t words[4] = {0}, at = w->pc;
		memcpy(words, o->image + 4 * (size_t)at, (left < 4 ? left : 4) * 4);
		if (left == 0 || !sim_decode(&next, words, left < 4 ? (int)left : 4, o->chip, w->group->code->kernel->accum_offset)) {
			sim_fail(w, in, SIM_EINST, -1, "under VSKIP the wave reached words that are no instruction");
			return;
		}
		next.at = 4 * at;
		w->pc += next.len;
		if (next.cls == SIM_BARRIER)
			sim_fail(w, &next, SIM_EINST, -1, "a barrier under VSKIP is not possible here");
		else if (next.enc <= ENC_SMEM)
			next.exec(w, &next);
	}
}

void exec_sopc(struct sim_wave *w, const struct sim_inst *in)
{
	uint64_t A = sim_scalar(w, &in->src[0]), B = sim_scalar(w, &in->src[1]);
	uint32_t a = (uint32_t)A, b = (uint32_t)B;
	int32_t sa = (int32_t)a, sb = (int32_t)b;
	switch (in->op) {
	case OP_s_cmp_eq_i32: case OP_s_cmp_eq_u32: w->scc = a == b; return;
	case OP_s_cmp_lg_i32: case OP_s_cmp_lg_u32: w->scc = a != b; return;
	case OP_s_cmp_gt_i32: w->scc = sa > sb; return;
	case OP_s_cmp_ge_i32: w->scc = sa >= sb; return;
	case OP_s_cmp_lt_i32: w->scc = sa < sb; return;
	case OP_s_cmp_le_i32: w->scc = sa <= sb; return;
	case OP_s_cmp_gt_u32: w->scc = a > b; return;
	case OP_s_cmp_ge_u32: w->scc = a >= b; return;
	case OP_s_cmp_lt_u32: w->scc = a < b; return;
	case OP_s_cmp_le_u32: w->scc = a <= b; return;
	case OP_s_cmp_eq_u64: w->scc = A == B; return;
	case OP_s_cmp_lg_u64: w->scc = A != B; return;
	case OP_s_bitcmp0_b32: w->scc = !(a >> (b & 31) & 1); return;
	case OP_s_bitcmp1_b32: w->scc = a >> (b & 31) & 1; return;
	case OP_s_bitcmp0_b64: w->scc = !(A >> (b & 63) & 1); return;
	case OP_s_bitcmp1_b64: w->scc = A >> (b & 63) & 1; return;
	case OP_s_set_gpr_idx_on: /* the second operand's field is the mode itself */
		w->index_mode = in->word[0] >> 8 & 15;
		w->sgpr[REG_M0] = (w->sgpr[REG_M0] & 0xffff0f00u) | (a & 0xff) | (uint32_t)w->index_mode << 12;
		return;
	case OP_s_setvskip: vskip(w, in, a >> (b & 31) & 1); return;
	default: sim_unknown(w, in);
	}
}

/* Hardware registers of s_getreg and s_setreg: MODE and TRAPSTS can be written, the rest reads as facts of the wave. */
static uint32_t hwreg(const struct sim_wave *w, unsigned id)
{
	switch (id) {
	case 1: return w->mode;
	case 3: return w->trapsts;
	case 4: return w->index & 15; /* HW_ID: the wave slot */
	default: return 0;
	}
}

static void setreg(struct sim_wave *w, const struct sim_inst *in, uint32_t v)
{
	unsigned spec = (uint16_t)in->offset, id = spec & 63, offset = spec >> 6 & 31, width = (spec >> 11 & 31) + 1;
	uint32_t mask = (uint32_t)field(width, offset);
	if (id == 1) {
		uint32_t mode = (w->mode & ~mask) | (v << offset & mask);
		sim_set_mode(w, mode);
	} else if (id == 3) {
		w->trapsts = (w->trapsts & ~mask) | (v << offset & mask);
	} else {
		sim_fail(w, in, SIM_EINST, -1, "hardware register %u cannot be written", id);
	}
}

void exec_sopk(struct sim_wave *w, const struct sim_inst *in)
{
	int32_t k = in->offset, d = in->sdst < 128 ? (int32_t)w->sgpr[in->sdst] : 0;
	uint32_t u = (uint32_t)d, uk = (uint16_t)k;
	int32_t r;
	switch (in->op) {
	case OP_s_movk_i32: put(w, in, (uint32_t)k); return;
	case OP_s_cmovk_i32: if (w->scc) put(w, in, (uint32_t)k); return;
	case OP_s_cmpk_eq_i32: w->scc = d == k; return;
	case OP_s_cmpk_lg_i32: w->scc = d != k; return;
	case OP_s_cmpk_gt_i32: w->scc = d > k; return;
	case OP_s_cmpk_ge_i32: w->scc = d >= k; return;
	case OP_s_cmpk_lt_i32: w->scc = d < k; return;
	case OP_s_cmpk_le_i32: w->scc = d <= k; return;
	case OP_s_cmpk_eq_u32: w->scc = u == uk; return;
	case OP_s_cmpk_lg_u32: w->scc = u != uk; return;
	case OP_s_cmpk_gt_u32: w->scc = u > uk; return;
	case OP_s_cmpk_ge_u32: w->scc = u >= uk; return;
	case OP_s_cmpk_lt_u32: w->scc = u < uk; return;
	case OP_s_cmpk_le_u32: w->scc = u <= uk; return;
	case OP_s_addk_i32: w->scc = __builtin_add_overflow(d, k, &r); put(w, in, u + (uint32_t)k); return;
	case OP_s_mulk_i32: put(w, in, u * (uint32_t)k); return;
	case OP_s_getreg_b32: {
		unsigned spec = (uint16_t)k;
		put(w, in, (uint32_t)(hwreg(w, spec & 63) >> (spec >> 6 & 31) & field((spec >> 11 & 31) + 1, 0)));
		return;
	}
	case OP_s_setreg_b32: setreg(w, in, u); return;
	case OP_s_setreg_imm32_b32: setreg(w, in, (uint32_t)in->src[0].value); return;
	case OP_s_cbranch_i_fork:
		fork_lanes(w, in, sim_sgpr64(w, in->sdst), pc_address(w) + (uint64_t)((int64_t)k * 4));
		return;
	case OP_s_call_b64:
		put64(w, in, pc_address(w));
		jump(w, in, pc_address(w) + (uint64_t)((int64_t)k * 4));
		return;
	default: sim_unknown(w, in);
	}
}
