/* mfma.h -- what exec_mfma.c and mfma_operand.c share: the shape of a matrix instruction, and its operands widened. */
#ifndef TDSL_SIM_MFMA_H
#define TDSL_SIM_MFMA_H
#include "exec.h"

enum mfma_element { E_F32, E_XF32, E_F16, E_BF16, E_I8, E_FP8, E_BF8, E_FP6, E_BF6, E_FP4, E_F64 };

static inline uint8_t mfma_bits(enum mfma_element e)
{
	return e <= E_XF32 ? 32 : e <= E_BF16 ? 16 : e <= E_BF8 ? 8 : e <= E_BF6 ? 6 : e == E_FP4 ? 4 : 64;
}

/* M = N, K, blocks, elements of A and B; split: the fp8 layout of f8f6f4; registers of A and B. */
struct mfma_shape { uint8_t m, k, blocks, a, b; bool split; uint8_t registers[2]; };

/* A or B widened to f32 (i8: to i32): v[block][k][row or column].  exact: the products with any other operand that is exact
 * are exact and finite in f32. */
struct mfma_operand { float v[32 * 128]; bool exact; };

/* Operand k (0: A, 1: B) of an instruction. */
void mfma_widen(struct mfma_operand *, struct sim_wave *, const struct sim_inst *, const struct mfma_shape *, int k);
/* Both, kept from one instruction to the next; good until the next one of this host thread.  Matrix instructions tell what they overwrite
 * afterwards (sim_overwritten).  False where nothing is kept (sim_group.operands). */
bool mfma_operands(struct sim_wave *, const struct sim_inst *, const struct mfma_shape *, const struct mfma_operand *x[2]);
/* Whether x, `n` numbers of any element, is exact in the sense of mfma_operand. */
bool mfma_exact(const float *x, unsigned n);
#endif
