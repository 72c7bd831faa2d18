/* plan_tiles.h -- what lanes and workgroups of a variant hold.  Between plan.c, which decides which variants there are, and plan_tiles.c. */
#ifndef TDSL_PLAN_TILES_H
#define TDSL_PLAN_TILES_H
#include "plan_variant.h"

/* Positions: the side of a tile along two axes; elements of a lane that accesses them one by one; the most lanes of a row. */
enum { SIDE = 64, ONE_BY_ONE = 4, ROW_LANES = 1024 };
/* Instructions of all elements of a lane of rows whose sizes are not fixed, about, at most. */
enum { LANE_ROW_CODE = 400 };
/* Columns: of a row that a wave can have; of one, in 16 bits, that as many lanes as have registers access once; from which on slow memory wants more. */
enum { WAVE_ROW = 1024, ACCESS_ROW = 4096, MEDIUM_ROW = 7168 };
enum { ROW_CODE = 14 };                /* instructions of one element, about: up to which a lane holds 16 elements of a short row with weights */
enum { LIGHT_CODE = 15 };              /* instructions of one element, about: up to which a lane of a long line makes one access, where all are as wide */

bool plan_only_groups(const struct planner *);                                        /* every phase has groups of a fixed size and nothing beside them */
bool plan_is_several(const struct planner *);                                         /* rows of several tensors, asked for at once */
bool plan_is_spread(const struct planner *, const struct variant *);                  /* of whose rows a lane holds 16 elements */
int plan_access(const struct planner *);                                              /* elements of one access to a row */
bool plan_waits_twice(const struct planner *);                                        /* what is narrowed waits for two reductions */
bool plan_is_wide(const struct variant *);                                            /* lanes hold runs of elements, or are planned as if they did */
int plan_lane_elements(const struct planner *, const struct variant *);               /* that a lane holds at most */
int64_t plan_row_most(const struct planner *, const struct variant *);                /* elements of a row that is held */
int plan_most_threads(const struct planner *);                                        /* of a workgroup whose lanes have registers enough */
int plan_row_waves(const struct planner *, const struct variant *, int64_t elements); /* for a row of so many */
int plan_few_waves(const struct planner *, const struct variant *);                   /* of a workgroup whose tiles are as small as one likes */
/* Of the `each` elements of a lane: those side by side in it; of groups, those that fill its accesses. */
int plan_vector(const struct planner *, const struct variant *, int each);
int plan_filled(const struct planner *, const struct variant *, int each);
int plan_one_by_one(const struct planner *);                                          /* elements of a lane that accesses them so */
int64_t plan_axis_by(const struct ir_axis *);                                         /* positions that an axis of groups stands for each */
int plan_groups_within(int positions, int group);
int64_t plan_unit(const struct planner *);                                            /* positions that one of an open axis stands for: of groups, in each */
int64_t plan_open_most(const struct planner *, const struct ir_axis *, int64_t most); /* of an open axis, where the variant holds so many units of each */
bool plan_sums_columns(const struct planner *, const struct variant *, const struct ir_phase *);   /* groups of rows, in long pieces of these */
bool plan_adds_parts(const struct variant *, const struct ir_phase *);                /* columns, of parts that a loop adds up */
int plan_line_symbol(const struct planner *);                                         /* whose positions stand side by side in every phase; -1 = none */
int plan_line(const struct planner *, const struct variant *);                        /* elements of the target's long lines; 0 = rows are not known to be made of such */
/* Tiles of a phase.  most: of an open axis, in plan_unit's, 0 = as many as there is room for.  each: elements a lane is to hold at most. */
void plan_phase_tiles(struct planner *, struct variant *, int phase, int64_t most, int each);
#endif
