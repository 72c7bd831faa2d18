/* follow.h -- whether a variant can serve a bound call, and the grid of its launches. */
#ifndef TDSL_RT_FOLLOW_H
#define TDSL_RT_FOLLOW_H
#include "bind.h"

/* 0, or TDSL_ESTRIDE with the text set: can the variant follow the tensors? */
int variant_follows(const struct bind *, const struct pack_variant *);
/* 0, or TDSL_ELAUNCH with the text set: has the device a place for its clusters, or for all its workgroups at a time?  Loads the code of those that ask. */
int variant_placed(const struct bind *, const struct pack_variant *);
/* 0, or TDSL_ESHAPE with the text set: are grids, arguments and workspace within what a launch takes? */
int variant_fits(const struct bind *, const struct pack_variant *);
/* Bytes of workspace; lanes of a workgroup that has as many as the call needs; an argument that is an expression (KA_EXPR). */
int variant_workspace(const struct bind *, const struct pack_variant *, int64_t *bytes);
int launch_lanes(const struct bind *, const struct pack_launch *, int64_t *lanes);
int launch_argument(const struct bind *, const struct pack_launch *, const struct pack_karg *, int64_t *value);
/* Of a variant whose predicate does not hold: TDSL_ESTRIDE with the text set where that is for strides that are too large and for nothing
 * else, or 0. */
int variant_in_reach(const struct bind *, const struct pack_variant *);
/* Workgroups along x, y and z; *any = false where there is nothing to launch.  0, or TDSL_ESHAPE with the text set. */
int launch_grid(const struct bind *, const struct pack_launch *, uint32_t grid[3], bool *any);
#endif
