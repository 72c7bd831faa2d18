/* exec_branch.c -- SOPP: branches, barriers, waits, and the ends of waves.
 *
 * In: one wave.  Out: its program counter or state.  Memory is coherent and in order here, so waits only count. */
#include "exec.h"

static void branch(struct sim_wave *w, const struct sim_inst *in, bool take)
{
	if (!take)
		return;
	int64_t to = (int64_t)w->pc + in->offset;
	if (to < 0 || (uint64_t)to >= w->group->code->object->code_size / 4)
		sim_fail(w, in, SIM_EFAULT, -1, "branch outside the code object");
	else
		w->pc = (uint32_t)to;
}

void exec_refused(struct sim_wave *w, const struct sim_inst *in)
{
	sim_unknown(w, in);
}

void exec_sopp(struct sim_wave *w, const struct sim_inst *in)
{
	switch (in->op) {
	case OP_s_branch: branch(w, in, true); return;
	case OP_s_cbranch_scc0: branch(w, in, !w->scc); return;
	case OP_s_cbranch_scc1: branch(w, in, w->scc); return;
	case OP_s_cbranch_vccz: branch(w, in, sim_sgpr64(w, REG_VCC) == 0); return;
	case OP_s_cbranch_vccnz: branch(w, in, sim_sgpr64(w, REG_VCC) != 0); return;
	case OP_s_cbranch_execz: branch(w, in, sim_exec(w) == 0); return;
	case OP_s_cbranch_execnz: branch(w, in, sim_exec(w) != 0); return;
	case OP_s_cbranch_cdbgsys: case OP_s_cbranch_cdbguser: case OP_s_cbranch_cdbgsys_or_user:
	case OP_s_cbranch_cdbgsys_and_user: return; /* no debugger is attached */
	case OP_s_barrier: w->state = WAVE_BARRIER; return;
	case OP_s_endpgm: case OP_s_endpgm_saved: case OP_s_endpgm_ordered_ps_done: w->state = WAVE_END; return;
	case OP_s_setkill: /* a killed wave ends */
		if (in->offset & 1)
			w->state = WAVE_END;
		return;
	case OP_s_sendmsg: return; /* to the host's driver, or of graphics: nobody listens */
	case OP_s_sendmsghalt: sim_fail(w, in, SIM_EHANG, -1, "the wave halts"); return;
	case OP_s_sethalt:
		if (in->offset & 1)
			sim_fail(w, in, SIM_EHANG, -1, "the wave halts");
		return;
	case OP_s_nop: case OP_s_waitcnt: case OP_s_sleep: case OP_s_setprio: case OP_s_icache_inv: case OP_s_wakeup:
	case OP_s_incperflevel: case OP_s_decperflevel: case OP_s_ttracedata: return;
	case OP_s_set_gpr_idx_off: w->index_mode = 0; return;
	case OP_s_set_gpr_idx_mode:
		w->index_mode = in->offset & 15;
		w->sgpr[REG_M0] = (w->sgpr[REG_M0] & 0xffff0fffu) | (uint32_t)w->index_mode << 12;
		return;
	case OP_s_trap: sim_fail(w, in, SIM_EFAULT, -1, "s_trap %d", in->offset); return;
	default: sim_unknown(w, in);
	}
}
