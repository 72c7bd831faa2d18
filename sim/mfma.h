/* mfma.h -- what exec_mfma.c and mfma_operand.c share: the shape of a matrix instruction, and its operands widened. */
#ifndef TDSL_SIM_MFMA_H
#define TDSL_SIM_MFMA_H
#include "exec.h"

enum mfma_element { E_F32, E_XF32, E_F16, E_BF16, E_I8, E_FP8, E_BF8, E_FP6, E_BF6, E_FP4, E_F64 };

#define MFMA_BITS(e) ((e) <= E_XF32 ? 32 : (e) <= E_BF16 ? 16 : (e) <= E_BF8 ? 8 : (e) <= E_BF6 ? 6 : (e) == E_FP4 ? 4 : 64)
static inline uint8_t mfma_bits(enum mfma_element e) { return MFMA_BITS(e); }

/* M = N, K, blocks, elements of A and B; split: the fp8 layout of f8f6f4; registers of A and B. */
struct mfma_shape { uint8_t m, k, blocks, a, b; bool split; uint8_t registers[2]; };

/* A or B widened to f32 (i8: to i32): v[block][k][row or column].  exact: the products with any other operand that is exact
 * are exact and finite in f32.  Of such a size that those in use do not meet in the host's cache. */
struct mfma_operand { _Alignas(64) float v[32 * 128]; bool exact; uint8_t apart[1000]; };

/* Operand k (0: A, 1: B) of an instruction. */
void mfma_widen(struct mfma_operand *, struct sim_wave *, const struct sim_inst *, const struct mfma_shape *, int k);

/* Operands that are kept from one instruction to the next (mfma_operand.c). */
enum { MFMA_KEPT = 8 };
struct sim_operands {
	struct mfma_operand operand[2][MFMA_KEPT];
	/* key: 0, or instruction, format, register and wave; the registers it was widened from */
	struct mfma_kept { uint64_t key; uint32_t first, end, wave; bool exact; } kept[2][MFMA_KEPT];
	uint64_t others;                 /* as mfma_others, when these were made */
};
void mfma_forget(struct sim_group *, uint64_t others);
void mfma_keep(struct sim_wave *, const struct sim_inst *, const struct mfma_shape *, int k, unsigned slot, uint64_t key);

/* Instructions executed by this host thread that may have changed a register otherwise than sim_overwritten tells. */
static inline uint64_t mfma_others(const struct sim_stats *s)
{
	return s->inst[SIM_VALU] + s->inst[SIM_SALU] + s->inst[SIM_VMEM] + s->inst[SIM_SMEM] + s->inst[SIM_BARRIER] + s->inst[SIM_BRANCH] +
	       s->inst[SIM_OTHER];
}

/* Both, from registers first[0] and first[1], good until the next instruction of this host thread.  Matrix instructions tell what they overwrite afterwards
 * (sim_overwritten).  False where nothing is kept (sim_group.operands). */
static inline bool mfma_operands(struct sim_wave *w, const struct sim_inst *in, const uint16_t first[2], const struct mfma_shape *s,
	const struct mfma_operand *x[2], bool *exact)
{
	struct sim_operands *o = w->group->operands;
	if (!o)
		return false;
	uint64_t others = mfma_others(&w->group->stats);
	if (o->others != others)
		mfma_forget(w->group, others);
	*exact = true;
	for (int k = 0; k < 2; k++) {
		unsigned reg = first[k], slot = reg / 2 % MFMA_KEPT;
		uint64_t key = in->op | (uint64_t)(k ? in->blgp : in->cbsz) << 16 | (uint64_t)reg << 32 | (uint64_t)w->index << 48;
		if (o->kept[k][slot].key != key)
			mfma_keep(w, in, s, k, slot, key);
		*exact &= o->kept[k][slot].exact;
		x[k] = &o->operand[k][slot];
	}
	return true;
}

/* Whether x, `n` numbers of any element, is exact in the sense of mfma_operand. */
bool mfma_exact(const float *x, unsigned n);
#endif
