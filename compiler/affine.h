/* affine.h -- index arithmetic as sums: coefficient per axis + coefficients of scalar values + a constant.
 *
 * Passes use it to prove guards, the translator to split an address into its uniform, lane and register parts.
 * Everything is exact integer arithmetic on the assumption that index expressions do not overflow i32, which the runtime
 * checks for extents. */
#ifndef TDSL_AFFINE_H
#define TDSL_AFFINE_H
#include "compile.h"

enum { AFFINE_TERMS = 12 };
struct affine {
	bool ok;                              /* false: not of this form; the other fields mean nothing */
	int64_t coef[LAYOUT_AXES];            /* of iota(axis) */
	struct { const struct ir_ins *of; int symbol; int64_t coef; } term[AFFINE_TERMS]; /* scalars: a value, or symbol >= 0 when of is NULL */
	int nterms;
	int64_t constant;
};

struct affine affine_of(const struct ir_ins *);
struct affine affine_sub(struct affine a, struct affine b);
/* Positions, extents and counters of loops are not negative, nor are their sums; differences may be. */
bool affine_never_negative(const struct affine *);
/* A value that a loop carries, which starts at no less than 0 and grows. */
bool value_counts_up(const struct ir_ins *);

/* What holds in a variant: pins, multiples and limits of symbols.  Largest power of two known to divide a scalar value,
 * or every value an index tile takes when `axis_free` axes vary (their iota counted as multiples of 1). */
int64_t known_divisor(const struct ir_ins *, const struct ir_phase *, const struct variant *);
int64_t known_symbol_multiple(const struct variant *, int symbol);

/* True if a < b (or a <= b) holds for every element that the workgroup's tiles hold, by the extents of axes in `ph`
 * and the variant's facts.  Conservative. */
bool known_less(const struct ir_ins *a, const struct ir_ins *b, bool or_equal, const struct ir_phase *ph, const struct variant *);
/* Those of the axes whose tiles will hold several positions: tiled, held, or with such a tile. */
ir_axes axes_of_several(const struct ir_phase *, ir_axes);
/* True for a dot that is a matrix product: one axis with a tile of several positions contracted, and one more in each operand.
 * Decided before tiles are chosen. */
bool dot_is_matrix(const struct ir_phase *, const struct ir_ins *dot);
/* Every position of the axis is computed by itself: nothing is reduced over it, and what is stored elsewhere may be stored often. */
bool axis_is_independent(const struct ir_kernel *, const struct ir_phase *, int axis);
/* The value is the extent as elaboration writes it: a number, a symbol, or cdiv of a symbol by a number.  Of none nothing is. */
bool value_is_extent(const struct ir_ins *, const struct hexpr *extent);
/* True where a held axis's whole extent fits its tile (so that it need not be streamed). */
bool axis_fits(const struct ir_axis *, const struct variant *);
/* True where a variant lets it have more positions than its tile: by its numbers, or because nothing that it asks for says how many. */
bool axis_is_beyond(const struct ir_axis *, const struct variant *);
#endif
