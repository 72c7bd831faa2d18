/* layout.h -- where each element of a tile lives: a GF(2)-linear map inside a block, integer repeats outside it.
 *
 * A layout maps (register r, lane l, wave w) to coordinates along the axes of one tile.  Inside a block each bit of r, l
 * and w contributes by exclusive or a vector of coordinates (its basis); the block is then repeated rep[a] times along each axis
 * by further registers.  So the tile's size along axis a is block[a] * rep[a]: 96 = 32 * 3 needs no padding to a power of two.
 * Axes are the phase's axis numbers.  A lane or wave bit with a zero basis holds copies (broadcast).
 * Register number = block register + 2^nreg * repeat number, the repeats counted mixed-radix, lowest axis fastest. */
#ifndef TDSL_LAYOUT_H
#define TDSL_LAYOUT_H
#include <stdbool.h>
#include <stdint.h>
#include "../base/arena.h"

enum { LAYOUT_AXES = 16, LAYOUT_BITS = 24, LAYOUT_WAVES = 8 };

/* One input bit's contribution: `step` along `axis` (a power of two for plain layouts).  General GF(2) rows have several. */
struct layout_basis { int32_t step[LAYOUT_AXES]; };

struct layout {
	uint8_t nreg, nlane, nwave;           /* input bits: registers inside the block, lanes, waves */
	struct layout_basis reg[LAYOUT_BITS], lane[8], wave[LAYOUT_WAVES];
	int block[LAYOUT_AXES];               /* size of the block along each axis; 1 where the axis is absent */
	int rep[LAYOUT_AXES];                 /* repeats along each axis; 1 where absent */
};

/* Coordinates of (reg, lane, wave); reg < layout_regs(). */
void layout_coord(const struct layout *, int reg, int lane, int wave, int coord[LAYOUT_AXES]);
int layout_regs(const struct layout *);              /* registers a lane holds, repeats included; INT32_MAX = so many or more */
static inline int layout_size(const struct layout *l, int axis) { return l->block[axis] * l->rep[axis]; }
bool layout_equal(const struct layout *, const struct layout *);
bool layout_basis_is_zero(const struct layout_basis *);
/* The layout of a value that lacks the axes in `without` (bit set): their steps are dropped; registers that differ only there
 * are merged, lanes and waves become copies.  map, when not NULL, gets for every register of `l` its register in the result. */
struct layout *layout_project(struct arena *, const struct layout *l, uint32_t without, int *map);
/* Of what each lane of a tile with layout `l` has by itself when `over` is reduced: axis `lanes` numbers those that hold different positions of it, the
 * lane's bits first, lowest first, then the wave's; block[lanes] = how many.  NULL: a bit steps along other axes as well. */
struct layout *layout_by_lane(struct arena *, const struct layout *l, uint32_t over, int lanes);
/* The layout of numbers that `by` positions along `axis`, a power of two, have in common, along axis `groups`, where their positions have layout `l`. */
struct layout *layout_of_groups(struct arena *, const struct layout *l, int axis, int groups, int by);
/* A bit of the lane's number, which told apart copies, takes over one of the register's number, of which a lane then has half as many: the
 * place of that bit; -1: none can be taken over. */
int layout_take_over(struct layout *, int lane_bit);
/* So, one after the other, as many of the lane's bits in `lanes` as there are registers for. */
struct layout *layout_scattered(struct arena *, const struct layout *, unsigned lanes);
/* True if every (block coordinate) is reached: each axis's block is covered exactly once by non-broadcast bits (a bijection
 * up to copies). */
bool layout_covers(const struct layout *);
/* Of lanes that hold more than `run` (a power of two) consecutive positions along `axis`: lanes that hold so many, beside those of others.  The register
 * bits behind a run and the last lane bits along the axis change places.  NULL: no lane holds more, or too few lanes are along the axis. */
struct layout *layout_beside(struct arena *, const struct layout *, int axis, int run);
/* Log2 of the run of consecutive positions along `axis` that consecutive registers of a lane hold (vector width). */
int layout_vector(const struct layout *, int axis);
/* The same elements in the same lanes, those along `axis` in consecutive registers; NULL: they are, or a lane holds one. */
struct layout *layout_run_first(struct arena *, const struct layout *, int axis);
/* The bit of the lane's number that steps by one position along `axis` and along no other; -1: none does. */
int layout_lane_bit(const struct layout *, int axis);
/* The coordinates along axis k in the order in which a dot whose first operand has layout `a` accumulates them: ascending by
 * (s, g, e), where e counts the `elems` positions that one instruction takes from a lane's lowest registers along k, g the lane bits
 * that step along k in their written order, and s the remaining registers.  Returns how many, all of the axis; -1 where waves share k or the axis is
 * not covered.  order has room for layout_size(a, k). */
int layout_k_order(const struct layout *a, int k, int elems, int *order);
/* The digits of a position along `axis` in a block, of two values each, from the least one on: the bit of the register's, lane's or wave's number that tells it.
 * Returns how many, -1 where some bit steps otherwise. */
enum layout_place { LAYOUT_REG, LAYOUT_LANE, LAYOUT_WAVE };
enum { LAYOUT_DIGITS = 32 };
struct layout_digit { uint8_t in, bit; };
int layout_digits(const struct layout *, int axis, struct layout_digit digit[LAYOUT_DIGITS]);
/* Of n digits how many, from number d on, a scan takes in one step: those of registers or of waves that follow each other, of lanes one. */
int layout_scan_step(const struct layout_digit *, int n, int d);
/* "reg n:1 n:2 n:4 | lane n:8 .. | wave n:512 n:1024 | rep n:2": one word a bit, `0` for a broadcast, `m:1+n:2` where a bit
 * steps along several axes.  A block is as large as its steps reach; a section `block n:8` says otherwise. */
char *layout_text(struct arena *, const struct layout *, const char *const *axis_names);
const struct layout *layout_parse(struct arena *, const char *text, const char *const *axis_names, int naxes, const char **err_at);
#endif
