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

/* Operands that are kept (sim_group.kept), and whether each is exact. */
enum { MFMA_KEPT = KEPT_OPERANDS / 2 };
struct sim_operands { struct mfma_operand operand[2][MFMA_KEPT]; bool exact[2][MFMA_KEPT]; };
void mfma_keep(struct sim_wave *, const struct sim_inst *, const struct mfma_shape *, int k, unsigned slot, uint64_t key);

/* Both, from registers first[0] and first[1], good until the next instruction of this host thread.  False where nothing is kept
 * (sim_group.operands). */
static inline bool mfma_operands(struct sim_wave *w, const struct sim_inst *in, const uint16_t first[2], const struct mfma_shape *s,
	const struct mfma_operand *x[2], bool *exact)
{
	struct sim_group *g = w->group;
	struct sim_operands *o = g->operands;
	if (!o)
		return false;
	sim_kept_begin(g);
	*exact = true;
	for (int k = 0; k < 2; k++) {
		unsigned slot = first[k] / 2 % MFMA_KEPT;
		uint64_t key = sim_kept_key(w, first[k], s->registers[k], in->op | (uint32_t)(k ? in->blgp : in->cbsz) << 16);
		if (g->kept[k * MFMA_KEPT + slot] != key)
			mfma_keep(w, in, s, k, slot, key);
		*exact &= o->exact[k][slot];
		x[k] = &o->operand[k][slot];
	}
	return true;
}

/* Whether x, `n` numbers of any element, is exact in the sense of mfma_operand. */
bool mfma_exact(const float *x, unsigned n);
#endif
