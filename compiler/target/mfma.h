/* mfma.h -- matrix instructions as data: one row each.  Layouts: gfx9.md's shapes, checked against AMD's Matrix Instruction Calculator
 * for CDNA3 and the CDNA4 ISA guide; PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours.  An instruction computes
 * D[rows x cols] += A[rows x k] B[k x cols] in one wave.  Of an operand a lane holds `runs` times `elems` consecutive registers along k for each of
 * its positions along rows (or cols); which k these are is up to the layout, as long as both operands agree, and, where groups along k have
 * scales, these.  The map says which bits of lane and register are which positions. */
#ifndef TDSL_MFMA_H
#define TDSL_MFMA_H
#include "../../base/dtype.h"

/* What one bit of a number adds to the position: `step` along rows ('r') or columns ('c'). */
struct mfma_bit { char axis; unsigned char step; };
struct mfma_map {
	struct mfma_bit reg[2], lane[6];      /* D: four registers a lane; lane bits past the wave's are 0 */
	const char *operand;                  /* by lane bit: 'f' steps along rows (or cols), from 1 on; 'k' along k.  The rest is in registers */
};

/* MFMA_WORDS: as many dwords as there are. */
enum mfma_operand { MFMA_V4I16, MFMA_V8BF16, MFMA_V4F16, MFMA_V8F16, MFMA_I64, MFMA_F32, MFMA_WORDS };
struct mfma {
	enum dtype a, b;            /* operand element types */
	int rows, cols, k;          /* k: of pairs where operands are pairs of e2m1 (DT_U8, pass_scaled.c) */
	int elems, runs;            /* k-consecutive elements a lane holds of one operand and position; how many such runs, the lanes' all together apart */
	enum mfma_operand operand;  /* LLVM type of an operand */
	const char *intrinsic;
	const struct mfma_map *map;
	int group;                  /* along k, which has a scale (e8m0): one lane's, of those that the map gives k in their order; 0 = it takes none */
};

/* A product of four waves that stand side by side: D[64 x n] += A[64 x k] B[k x n], n a multiple of 8 up to 256.  Both operands lie in group memory,
 * along k in rows of QUAD_ROW bytes whose pieces of 16 bytes change places by the row's number (emit/quad.c); what a lane holds of D is what it
 * holds of products of its wave alone, whose columns are the rows of A. */
struct quad { enum dtype a, b; int k; const char *types; };
enum { QUAD_ROWS = 64, QUAD_MOST = 256, QUAD_ROW = 128, QUAD_TURN = 8, QUAD_WAVES = 4, QUAD_SLOTS = 4, QUAD_MOST_SLOTS = 6 };   /* slots: places for rounds of operands */

struct target;
/* The instruction of four waves whose operands have these types, or NULL. */
const struct quad *target_quad(const struct target *, enum dtype a, enum dtype b);
/* The matrix instruction for operands of these types, or NULL: the best of those that contract `k` positions in whole steps; 0 = the one whose steps
 * are the shortest. */
const struct mfma *target_mfma(const struct target *, enum dtype a, enum dtype b, int k);
/* Bits of a lane's number that step along k, and positions along rows or cols that lanes alone reach. */
int mfma_k_bits(const struct mfma *);
int mfma_lane_positions(const struct mfma *);
#endif
