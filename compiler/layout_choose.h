/* layout_choose.h -- the layouts a phase uses: for the rows of memory, for accumulators and for the operands of a product. */
#ifndef TDSL_LAYOUT_CHOOSE_H
#define TDSL_LAYOUT_CHOOSE_H
#include "compile.h"
#include "target/mfma.h"

/* Everything the choice depends on. */
struct layout_space { struct arena *arena; const struct ir_phase *ph; const struct variant *v; int waves; };

/* Tiles with more than one position among `axes`. */
ir_axes wide_axes(const struct ir_phase *, ir_axes);
/* Memory order: `vector` consecutive positions along axis `inner` to a lane, then lanes and waves along `inner`, then along the
 * other axes, the last declared first; the rest in registers.  inner < 0: no vector.  run > 1: a lane holds as many consecutive
 * positions along axis `across` as well. */
const struct layout *layout_rows(const struct layout_space *, ir_axes axes, int inner, int vector, int across, int run);
/* Accumulator of a matrix instruction: rows of D along axis `row`, columns along `col`; wave_axis[w] says along which axis wave
 * bit w steps. */
const struct layout *layout_accumulator(const struct layout_space *, const struct mfma *, int row, int col, const int *wave_axis);
/* How an operand's k positions lie: steps of the register bits and of the lane bits that the map leaves to k; 0 = these lanes have the same. */
struct k_shape { int nreg, reg[8], nlane, lane[4]; };
struct k_shape k_shape_plain(const struct mfma *, int bits, int tile);
/* k lies as the rows of an accumulator do (the product of one dot is the operand of the next). */
struct k_shape k_shape_of_accumulator(const struct mfma *acc, const struct mfma *use);
/* positions: of one instruction along the free axis, its rows or cols. */
const struct layout *layout_operand(const struct layout_space *, const struct mfma *, int positions, int free_axis, int k_axis,
                                    const struct k_shape *, const int *wave_axis);
#endif
