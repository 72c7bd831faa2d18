/* exec_move.c -- moves: between lanes, between scalar and vector registers, AGPRs, selections.
 *
 * In: a wave.  Out: its registers.  v_readlane, v_readfirstlane and v_writelane look past EXEC as in hardware. */
#pragma GCC optimize("O3")
#include "exec.h"

static uint32_t *row(struct sim_wave *w, const struct sim_inst *in, unsigned reg)
{
	if (reg < w->nvgpr)
		return w->vgpr[reg];
	sim_fail(w, in, SIM_EINST, -1, "register v%u is beyond the %u allocated", reg, w->nvgpr);
	return w->vgpr[0];
}

static SIM_LANES_FN void select_lanes(uint64_t mask, const uint32_t *a, const uint32_t *b, uint32_t *d)
{
	uint32_t m[2] = {(uint32_t)mask, (uint32_t)(mask >> 32)};
	for (int h = 0; h < 2; h++)
#pragma GCC ivdep
		for (int i = 0; i < 32; i++)
			d[32 * h + i] = m[h] >> i & 1 ? b[32 * h + i] : a[32 * h + i];
}

/* Swaps the upper `width` lanes of each 2 * width of the first register with the lower ones of the second. */
static void swap_rows(struct sim_wave *w, const struct sim_inst *in, int width)
{
	uint32_t *a = row(w, in, in->vdst), *b = row(w, in, in->src[0].reg);
	uint64_t exec = sim_exec(w);
	for (int base = 0; base < LANES; base += 2 * width)
		for (int i = 0; i < width; i++) {
			int hi = base + width + i, lo = base + i;
			uint32_t x = a[hi], y = b[lo];
			if (exec >> hi & 1)
				a[hi] = y;
			if (exec >> lo & 1)
				b[lo] = x;
		}
}

static int first_lane(uint64_t exec)
{
	return exec ? __builtin_ctzll(exec) : 0;
}

void exec_move(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES], bd[LANES];
	uint64_t b64[LANES];
	uint32_t *d;
	switch (in->op) {
	case OP_v_nop: case OP_v_clrexcp: return;
	case OP_v_mov_b32: case OP_v_accvgpr_mov_b32: case OP_v_accvgpr_read_b32: case OP_v_accvgpr_write_b32:
		sim_put32(w, in, sim_src32(w, in, 0, ba));
		return;
	case OP_v_mov_b64: sim_put64(w, in, sim_src64(w, in, 0, b64)); return;
	case OP_v_cndmask_b32: {
		const uint32_t *a = sim_src32(w, in, 0, ba), *b = sim_src32(w, in, 1, bb);
		d = sim_dst32(w, in, bd);
		select_lanes(sim_scalar(w, &in->src[2]), a, b, d);
		sim_put32(w, in, d);
		return;
	}
	case OP_v_readfirstlane_b32:
		if (in->sdst < 128)
			w->sgpr[in->sdst] = sim_src32(w, in, 0, ba)[first_lane(sim_exec(w))];
		return;
	case OP_v_readlane_b32:
		if (in->sdst < 128)
			w->sgpr[in->sdst] = sim_src32(w, in, 0, ba)[sim_scalar(w, &in->src[1]) & 63];
		return;
	case OP_v_writelane_b32:
		row(w, in, in->vdst)[sim_scalar(w, &in->src[1]) & 63] = (uint32_t)sim_scalar(w, &in->src[0]);
		return;
	case OP_v_swap_b32: {
		uint32_t *a = row(w, in, in->vdst), *b = row(w, in, in->src[0].reg);
		uint64_t exec = sim_exec(w);
		for (int i = 0; i < LANES; i++)
			if (exec >> i & 1) {
				uint32_t t = a[i];
				a[i] = b[i];
				b[i] = t;
			}
		return;
	}
	case OP_v_permlane16_swap_b32: swap_rows(w, in, 16); return;
	case OP_v_permlane32_swap_b32: swap_rows(w, in, 32); return;
	case OP_v_prng_b32: {
		const uint32_t *a = sim_src32(w, in, 0, ba);
		d = sim_dst32(w, in, bd);
		for (int i = 0; i < LANES; i++)
			d[i] = a[i] << 1 ^ (a[i] >> 31 ? 197 : 0);
		sim_put32(w, in, d);
		return;
	}
	default: sim_unknown(w, in);
	}
}
