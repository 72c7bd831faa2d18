/* mfma.h -- matrix instructions as data: one row each.  Layouts: gfx9.md's shapes, checked against AMD's Matrix Instruction
 * Calculator for CDNA3 and the CDNA4 ISA guide.  An instruction computes D[rows x cols] += A[rows x k] B[k x cols] in one wave:
 * A: lane % rows is the row, lane / rows picks the next `elems` consecutive k; B alike with columns; D: register groups of 4
 * consecutive rows: row = 4 * (lane / cols) + r % 4 + (8 or 16) * (r / 4), column lane % cols. */
#ifndef TDSL_MFMA_H
#define TDSL_MFMA_H
#include "../../base/dtype.h"

enum mfma_operand { MFMA_V4I16, MFMA_V8BF16, MFMA_V4F16, MFMA_V8F16, MFMA_I64, MFMA_F32 };
struct mfma {
	enum dtype a, b;            /* operand element types */
	int rows, cols, k;
	int elems;                  /* k-consecutive elements a lane holds of one operand */
	enum mfma_operand operand;  /* LLVM type of an operand */
	const char *intrinsic;
};

struct target;
/* The matrix instruction for operands of these types, or NULL. */
const struct mfma *target_mfma(const struct target *, enum dtype a, enum dtype b);
#endif
