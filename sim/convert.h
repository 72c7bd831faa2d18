/* convert.h -- what exec_convert.c and exec_scalef32.c share: stochastic rounding, results that are part of a register. */
#ifndef TDSL_SIM_CONVERT_H
#define TDSL_SIM_CONVERT_H
#include "exec.h"

uint32_t sim_sr_fp8(float x, uint32_t random, enum dtype, bool saturate);
/* x with random bits added below the last of `mbits` mantissa bits (smallest exponent emin), then cut. */
float sim_stochastic(float x, uint32_t random, int mbits, int emin);
/* Stores 16 bits (8 bits) into the part of the result register that op_sel names; the rest keeps its value. */
void sim_put_word(struct sim_wave *, const struct sim_inst *, const uint32_t *v);
void sim_put_byte(struct sim_wave *, const struct sim_inst *, const uint32_t *v);
#endif
