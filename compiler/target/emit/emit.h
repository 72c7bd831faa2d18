/* emit.h -- laid-out tile IR to LLVM IR: the state of one kernel function and the parts that write it.  What differs between families
 * of chips lies behind `machine` (machine.h); nothing here or in the files below names a chip.
 *
 * A tile value is an array of LLVM values, one per group of `pack` consecutive registers of its layout: f32 pairs (packed VALU
 * forms) or fours (accumulators), 16-bit pairs and 8-bit fours (dwords), else single elements.  Values made of positions alone have
 * no array: they are computed per register where they are used (index.c) and remembered for the scope.
 *
 *   translate.c   function, arguments, control flow          index.c       positions, register maps, addresses' parts
 *   grid.c        which workgroup does what
 *   value.c       reading values in any grouping             elementwise.c arithmetic and conversions
 *   memory.c      loads, stores, updates: what, not how      reduce.c      reductions across registers, lanes, waves
 *   lds.c         moves through LDS                          dot.c         matrix instructions
 *   convert.c     conversions, the narrow ones in software    control.c     loops and branches
 *   banks.c       what lanes cost each other in LDS
 *   ask.c         loads in front of a block, together         run.c         runs of which some elements may be missing
 *   growth.c      addresses from round to round
 *   stage.c       loads by way of group memory                pipe.c        operands, a round before
 *   ahead.c       a later workgroup's loads, for the L2      order.c       the order of what is computed
 *   early.c       the first loads, before the wait           pace.c        no more than memory gives
 *   quad.c        products of four waves
 *   teams.c       waves that wait for each other alone
 *   joined.c      phases of one launch                       ragged.c      groups whose bounds lie in memory
 *   rounds.c      rows that may not be there, one after the other        waves.c       waves that would hold nothing
 *   counted.c     and those that are, counted             scan.c        what a wave makes of all lanes' words
 *   prefix.c      prefix sums along an axis */
#ifndef TDSL_EMIT_H
#define TDSL_EMIT_H
#include <llvm-c/Core.h>
#include "../../affine.h"
#include "../mfma.h"

/* A tile in LDS: element strides along axes, rows along `inner`; `pad` bytes more behind every 2^shift positions of axis `padded` (-1: what
 * padding there is lies in the strides); small: it lies among the partial results of reductions, in a place that nothing else has. */
struct lds_tile { int inner, stride[LAYOUT_AXES], bytes, size, at, padded, shift, pad; bool small; };
struct lds_region { int at, size; bool dirty; };      /* dirty: other waves may still read it */
enum { LDS_REGIONS = 32 };
/* What lds.c knows at a place of the code; met: the waves have waited for each other since the innermost loop's round began. */
struct lds_state { struct lds_region regions[LDS_REGIONS]; int nregions, top; bool written, met; };

/* group: registers; or, with waiting set, the tile lies in LDS and registers are loaded where they are used; with staged set, each is there once it has
 * been used (stage.c); early: loaded in a round before. */
struct value { LLVMValueRef *group; int ngroups, pack; const struct lds_tile *waiting; LLVMValueRef waiting_lane; const struct staged *staged; bool early; };

enum { MANY_MASKS = 16, MANY_TENSORS = 8 };  /* of a lane: more would fill the scalar registers; half as many where there are more tensors */
/* What a launch says of itself: so many rows of tiles below lies what is asked for ahead (else it lies elsewhere); workgroups; with which of them along
 * the grid's last dimension those begin that let the next launch in; waves of a workgroup; how long a round of its loop takes (variant.pace). */
enum told { TOLD_BELOW, TOLD_WORKGROUPS, TOLD_LAST, TOLD_WAVES, TOLD_PACE, TOLD };
struct machine;
struct access;
struct remembered { const struct ir_ins *of; const struct layout *layout; int reg; LLVMValueRef v; int older; };

struct emit {
	struct arena *arena;
	const struct ir_kernel *k;
	const struct ir_phase *ph;
	const struct variant *v;
	int waves;                               /* in a workgroup of the phase, at most */
	const struct hexpr *waves_there;         /* as many of them are started, 1 or more (waves.c); NULL = all */
	bool waves_told;                         /* the launch says how many: for whoever folds what waves have of a reduction */
	const struct machine *machine;
	char *err; size_t errlen; bool failed;
	LLVMContextRef ctx; LLVMModuleRef mod; LLVMBuilderRef b;
	LLVMValueRef fn;
	LLVMTypeRef i1, i8, i16, i32, i64, f32, f16, bf16, p1;
	LLVMValueRef entry_end;                  /* instruction in the entry block before which lane arithmetic goes */
	LLVMValueRef again[3];                   /* what machine.widened_again works with, once it is asked for */
	struct stage_ring *ring;                 /* of the loop around, whose loads were asked for in rounds before; NULL = there is none */
	struct quads *quads;                     /* of the loop around, whose products are those of four waves; NULL = there is none */
	bool quads_unseen;                       /* operands of theirs have been written to group memory since the waves waited for each other */
	struct pipe *pipe;                       /* of the loop around, whose operands were asked for a round before; NULL = there is none */
	LLVMValueRef team; int team_waves;       /* of the barriers in hand the number, i32, and how many waves they are for (teams.c); NULL = all of the workgroup */
	LLVMValueRef team_there, team_number;    /* how many of them hold something, i32, NULL = all; what .team is in the loop that is about to begin */
	bool unread;                             /* something staged is on its way (stage.c) */
	bool turned;                             /* a tile was turned in group memory */
	LLVMValueRef tid;                        /* workitem id, i32 */
	LLVMValueRef *axis_base;                 /* by axis: uniform i32 position of the tile */
	LLVMValueRef *axis_limit;                /* by axis: end of the ragged range */
	LLVMValueRef turn, turns;                /* i32, of a phase behind another of its launch: which workgroup's work this is, of how many; NULL = the grid says */
	int grid_axis[3];                        /* by dimension of a grid whose axes have one each */
	const struct ir_axis *rows_there;        /* whose positions are below its extent, for waves whose row is not have left (grid.c); NULL = perhaps none */
	LLVMValueRef ahead, ahead_there;         /* ahead.c: i32, positions of the second axis of the grid to the later tile, and i1, there is one; NULL = none is asked for */
	LLVMValueRef told[TOLD];                 /* i32; NULL = the launch does not say */
	struct value *values;                    /* by instruction id */
	const int *uses;                         /* of each, by id */
	struct { LLVMValueRef pointer, stride[6], fold_stride, absent[2]; } *tensors;  /* by parameter; absent: optional_load's */
	LLVMValueRef *scalars, *symbols;         /* by parameter, by symbol */
	struct { LLVMValueRef row, q, r; } folded; /* the workgroup's row, divided */
	const struct model_karg *arguments; int narguments; bool late;   /* late: tensors' are loaded where they are used (arguments_bind) */
	LLVMValueRef fold_inner;                 /* rows are (row / inner, row % inner) of tensors with a fold_stride */
	LLVMValueRef lds, lds_small;             /* placeholder globals: tiles; partial results of reductions */
	int lds_bytes, lds_small_bytes;          /* needed */
	int lds_align;                           /* of tiles, where that is more than what accesses ask for; 0 = it is not */
	bool tight;                              /* with more padding than there has to be they were more than there are */
	struct lds_state lds_now;                /* top: handed out inside the present outermost loop; written: tiles since the last barrier, reads must wait */
	const struct touched *touched;           /* what readers.c knows at a place of the code */
	int cluster, cluster_counters, cluster_rounds;   /* cluster.c: members, 0 = none; where their counters lie; how many have been used */
	int loop_depth; LLVMValueRef loop_position;  /* of the innermost loop, NULL outside */
	const struct ir_block *loop_body; LLVMBasicBlockRef before_loop;  /* the same loop's; before_loop ends in the branch to it */
	LLVMBasicBlockRef before_asked;          /* ask.c: while loads are asked for together; ends where they begin */
	struct { struct access *a; int r; LLVMValueRef x; } *asked; int nasked, cap_asked;
	int loop_axis; LLVMValueRef loop_start; LLVMBasicBlockRef loop_head;
	struct { LLVMValueRef phi, by, next; } *carried; int ncarried, cap_carried;   /* emit_carried, emit_from_round: next, or phi + by */
	struct remembered *memory; int nmemory, cap_memory; int *newest;  /* index.c's memo; newest by id, -1 none */
	struct { const struct layout *from, *to; int *map; } *maps; int nmaps, cap_maps;
	struct { const struct layout *l; int64_t coef[LAYOUT_AXES]; LLVMValueRef v; } *lanes; int nlanes, cap_lanes;
	struct { LLVMValueRef lane, copy; } *copies; int ncopies, cap_copies; int scope_mark;  /* index_forget */
	bool repeats;                            /* rounds.c: the phase's code stands in a loop over rows */
	const struct ir_ins *known;              /* counted.c: a condition that holds wherever the phase's code runs; NULL = none */
	const struct hexpr *condition;           /* what the variant asks besides its predicate: strides whose offsets fit 32 bits, short grids; NULL = nothing */
	struct intrinsic { const char *name; LLVMTypeRef overload[2]; LLVMValueRef fn; } *intrinsics; int nintrinsics, cap_intrinsics;  /* declared */
	struct { LLVMValueRef before; int room; } gaps[16]; int ngaps; LLVMBasicBlockRef gaps_in;  /* emit_gap */
	bool clamps_by_mode;                     /* conversions to the chip's 8-bit floats saturate without being asked (pass_clamps_by_mode) */
	bool has_dot, forgets;                   /* forgets: index values are computed anew for each instruction (index_forget) */
	LLVMMetadataRef scope;                   /* DISubprogram */
};

/* compile.h's translate(), with a family's table. */
int emit_kernel(const struct machine *, struct arena *, const struct ir_kernel *, const struct variant *, LLVMContextRef, struct translated *,
                char *err, size_t errlen);

void emit_condition(struct emit *, const struct hexpr *);            /* the variant's predicate asks that as well */
int emit_lane_bits(const struct emit *);                             /* log2 of the lanes of a wave */
LLVMValueRef emit_fail(struct emit *, const struct ir_ins *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
LLVMValueRef emit_int(struct emit *, int64_t);                       /* i32 constant */
LLVMValueRef emit_call(struct emit *, const char *intrinsic, LLVMTypeRef *overload, int noverload, LLVMValueRef *args, int nargs);
LLVMTypeRef emit_type(struct emit *, enum dtype);                    /* of one element in registers */
LLVMTypeRef emit_vector(LLVMTypeRef element, int n);                 /* the element itself for n = 1 */

/* Of a tensor that is accessed next: pointer and strides, as loaded once or, where that fills the scalar registers, now. */
void arguments_bind(struct emit *, int tensor);
LLVMValueRef arguments_pointer(const struct emit *, int tensor);     /* as loaded once */
LLVMValueRef emit_both(struct emit *, LLVMValueRef a, LLVMValueRef b); /* i1; NULL = always */
LLVMValueRef emit_hexpr(struct emit *, const struct hexpr *);        /* i32, of symbols that the function is given */

void emit_block(struct emit *, const struct ir_block *);
const struct ir_ins *emit_instruction(struct emit *, const struct ir_ins *);    /* returns the last that it handled: reductions side by side are one round */

/* growth.c: i64: where a load lies for all lanes in the first of two rounds, and by how much that grows from each to the next; by: NULL = it is made anew in each. */
struct growth { LLVMValueRef at, by; };
void growth_find(struct emit *, const struct ir_ins *loop, const struct ir_ins *const *loads, int n, const LLVMValueRef round[2], struct growth *);
void growth_take(struct emit *, const struct growth *, struct access *);       /* in the loop: the access, opened, is this round's */

/* stage.c, memory.c */
/* bytes: of a round's places; odd: i32, 0 and 1 in turns; growth: of each load, from the first round on that is asked for in the loop.  asked:
 * the round that this one asks for, which there is if it is below end; rest: the first of the loads that it has not asked for yet, n = none.  began: when the loop did (pace.c), NULL = no matter. */
struct stage_ring { const struct ir_ins *loop, **loads, **numbers; int n, nnumbers, bytes, rest; struct growth *growth; LLVMValueRef odd, asked, end, began; };
void stage_each(struct emit *, const struct ir_ins *loop, void (*each)(struct emit *, const struct ir_ins *load));   /* of the loop's first round each load that comes by its ring */
bool stage_enter_loop(struct emit *, struct stage_ring *, const struct ir_ins *loop, LLVMValueRef *end);  /* asks for its first rounds; end: becomes this wave's; false = nothing of it is staged */
void stage_begin_round(struct emit *, struct stage_ring *, LLVMValueRef at, LLVMValueRef end);
void stage_ask_rest(struct emit *);                                              /* what a round asks for behind its waves' wait for each other, or at its end; once */
void stage_leave_loop(struct emit *);
void stage_take(struct emit *, const struct ir_ins *, int reg);                 /* of what is staged, register reg is there now */
void value_loaded(struct emit *, const struct ir_ins *, int reg, int n, LLVMValueRef words);   /* from reg on n registers, as they lie in memory */

/* as_of.c: a loop's body as it is in another round; scalar: by id, of its body, whose values were these */
struct as_of { struct value *values; const bool *scalar; LLVMValueRef base; int mark; };
struct as_of round_set(struct emit *, const struct ir_ins *loop, LLVMValueRef at);
void round_set_back(struct emit *, const struct ir_ins *loop, const struct as_of *was);

/* pipe.c: group: what it brings, of the first round and then of the next one; last: the body's last instruction that uses it. */
struct piped { const struct ir_ins *load, *last; LLVMValueRef *group; };
struct pipe { const struct ir_ins *loop; struct piped *piped; int n; LLVMValueRef at, end; struct pipe *around; };
bool pipe_enter_loop(struct emit *, struct pipe *, const struct ir_ins *loop);   /* whether there is something */
void pipe_load_first(struct emit *, struct pipe *, LLVMValueRef start);          /* where the loop is known to run */
void pipe_begin_round(struct emit *, struct pipe *, LLVMValueRef at, LLVMValueRef end);
void pipe_behind(struct emit *, const struct ir_ins *);                          /* of the body, which has been written */
void pipe_leave_loop(struct emit *, struct pipe *, LLVMBasicBlockRef latch);

/* quad.c: arg, axis: of the side whose rows are the instruction's own, and the other; rows, inner: the tile's axes, elements side by side along the latter; at:
 * its place in a round's; load: what brings it, NULL = lanes write it, in each round or, fixed, once; then it lies behind the rounds' places. */
enum { QUAD_TILES = 8 };
struct quad_sides { int arg[2], axis[2]; };
struct quad_tile { const struct ir_ins *load, *operand; int rows, inner, at; bool fixed; };
/* bytes: of a round's places, of which there are `slots`; fixed: of those behind them; ahead: so many rounds are asked for; under_way: a round's products are while the
 * next one is begun; grows: growth is known; slot: where the present round has its place. */
struct quads {
	const struct ir_ins *loop;
	struct quad_tile tiles[QUAD_TILES];
	int n, bytes, fixed, all, slots, ahead;
	bool under_way, grows;
	struct growth growth[QUAD_TILES];
	LLVMValueRef start, slot, ask_at, end;
};
/* An operand in registers, words: of each step four, as products of one wave take them; or in group memory, where it is contracted along its rows' pieces, or across
 * them; all in bytes: apart: from eight rows to the next eight; blocks: from a row's first QUAD_ROW bytes to the next; step: from one step to the next, of which
 * `steps` are in a block. */
struct quad_operand { LLVMValueRef *words, place; bool across; int apart, blocks, step, steps; };
bool quads_enter_loop(struct emit *, struct quads *, const struct ir_ins *loop, LLVMValueRef start, LLVMValueRef end);   /* whether there are any */
void quads_begin_round(struct emit *, struct quads *, LLVMValueRef at, LLVMValueRef end);
void quads_end_round(struct emit *);
void quads_leave_loop(struct emit *, const struct quads *);           /* behind it, results are there */
bool quads_bring(const struct emit *, const struct ir_ins *);         /* of a load: it needs no code, what it loads comes to group memory by itself */
bool quads_move(struct emit *, const struct ir_ins *relayout);        /* false: it moves no operand of theirs */
bool quad_dot(struct emit *, const struct ir_ins *);                  /* false: it is none */

/* pace.c */
void pace_begin(struct emit *, struct stage_ring *);                            /* in front of the loop */
void pace_wait(struct emit *, const struct stage_ring *);                       /* until it is time to ask for a round's rows */

/* ask.c */
const struct ir_ins *emit_front(struct emit *, const struct ir_block *);       /* what a block asks for first; returns what comes behind */
LLVMBasicBlockRef emit_before_asked(struct emit *);                            /* the builder in front of the loads that are asked for together; returns where it was */

/* rounds.c, counted.c: rows that may not be there */
struct counted_block { LLVMBasicBlockRef block; LLVMValueRef number, first, all, begin; };
struct rounds {
	int axis, dim;                           /* of rows, or tiles of `rows` each, of which there are `tiles` */
	int64_t rows;
	const struct hexpr *tiles;
	const struct ir_ins *count;              /* of rows that are there, for each position of axis `group`; NULL = they are not counted */
	int group;
	LLVMBasicBlockRef loop, out;
	LLVMValueRef row;                        /* of what is not counted; the rest: of what is */
	struct counted_block sought, head, behind;
	LLVMValueRef lane, at[2];
};

/* grid.c */
bool grid_needs_extents(const struct emit *);                                  /* the function asks for the extents of the phase's axes */
void grid_told(struct emit *, const struct hexpr *told[TOLD]);                  /* what emit.told is, for the launch to pass; NULL = nothing */
void grid_leave(struct emit *);                                                /* workgroups beyond the last do nothing; numbers are bound */
void grid_bind(struct emit *, const struct hexpr *grid[3]);
const struct hexpr *grid_tiles(const struct emit *);                           /* workgroups of the phase, all dimensions together */
bool grid_rounds(struct emit *, struct rounds *);                              /* what is known of rows that a workgroup takes in rounds; false = it takes none so */
LLVMValueRef grid_is_counted(struct emit *);                                   /* rows are counted over all groups in this launch (counted.c); NULL = in none */
void grid_leave_rows(struct emit *);                                           /* nor do waves whose row is beyond the last; axes are bound */
LLVMValueRef grid_workgroups(struct emit *);                                   /* along x and y together.  This and the next two: where the machine's grid_short is not 0 */
LLVMValueRef grid_is_last(struct emit *);                                      /* i1: this is one of the machine's last_workgroups, or of a few more */
LLVMValueRef grid_is_beyond(struct emit *);                                    /* i1, never true: this one's number is as large as that of all; no compiler knows */
LLVMValueRef grid_workgroup(struct emit *);                                    /* this one's number, in the order in which they begin */

LLVMValueRef grid_row(struct emit *);                                          /* where what lies side by side has x: this one's row of tiles, i32, */
LLVMValueRef grid_rows(struct emit *);                                         /* and how many there are */

/* ahead.c */
void ahead_bind(struct emit *);                                                /* the grid is bound, TOLD_BELOW told */
const struct hexpr *ahead_below(struct emit *, const struct hexpr *columns, const struct hexpr *rows);     /* rows of tiles to the one that is asked for */

/* rounds.c, counted.c: around the phase's code */
void rounds_begin(struct emit *, struct rounds *);
void rounds_end(struct emit *, const struct rounds *);
void counted_begin(struct emit *, struct rounds *);
void counted_end(struct emit *, const struct rounds *);
const struct ir_ins *rounds_count(const struct ir_phase *, int rows, int *group);   /* of how many each group has; NULL = rows are there or not one by one */

/* teams.c */
LLVMValueRef teams_open(struct emit *, const struct ir_ins *loop, LLVMValueRef end);  /* in front of a loop; its end for this wave */
void teams_enter_loop(struct emit *);
void teams_leave_loop(struct emit *);

/* joined.c */
void joined_phase(struct emit *, const struct ir_phase *);                     /* behind the launch's phases before it */

/* ragged.c */
void ragged_find_tile(struct emit *, int axis);                                /* the workgroup's, whose number the axis's base is; behind the last one it is done */
void ragged_open_lists(struct emit *, int axis, const bool *used);             /* used: by parameter */

/* early.c */
bool early_is_worth(const struct emit *);
void early_fetch(struct emit *, const struct ir_block *);                      /* in front of the wait for the launch before */

/* waves.c */
/* fits: bits of the wave's number step along one axis, as parts of it one behind the other, each of so many positions, or not at all. */
struct wave_parts { int axis, each; bool fits; };
int waves_look_at(struct wave_parts *, const struct layout *, int bits);   /* whether one more layout does; returns along how many of these bits it has copies */
const struct hexpr *waves_holding(struct emit *, const struct wave_parts *, int waves);   /* as many of so many hold something of a row; NULL = all, or it does not show */
void waves_look(struct emit *);                        /* which waves are there: emit.waves_there, .waves_told */
LLVMValueRef waves_number(struct emit *);              /* of those that are there, i32 */
int waves_lanes(struct emit *, const struct hexpr **lanes); /* of a workgroup at most; how many a launch has, NULL = as many */
/* x where `there` (i1), a part of a reduction that is there; else what changes nothing. */
LLVMValueRef waves_or_nothing(struct emit *, const struct ir_ins *reduction, LLVMValueRef there, LLVMValueRef x);

/* order.c */
void emit_order(struct emit *);                        /* of all blocks of the function */

/* scan.c: of all lanes of a wave */
LLVMValueRef emit_from_below(struct emit *, LLVMValueRef x, int d, LLVMValueRef lane, LLVMValueRef none);   /* lane - d's; of the first d lanes `none` */
LLVMValueRef emit_sum_up_to(struct emit *, LLVMValueRef x, LLVMValueRef lane);  /* of this lane and those before it */
LLVMValueRef emit_lanes_on(struct emit *, LLVMValueRef i1);                     /* how many lanes' are true */

/* control.c */
void emit_for(struct emit *, const struct ir_ins *);
void emit_if(struct emit *, const struct ir_ins *);
void emit_continue(struct emit *, LLVMBasicBlockRef);                /* the builder at the block's end, before its branch if it has one */
/* What is `start` in the innermost loop's first round and grows by `by` from each to the next, both known before it. */
LLVMValueRef emit_carried(struct emit *, LLVMValueRef start, LLVMValueRef by);
LLVMValueRef emit_from_round(struct emit *, LLVMValueRef start, LLVMValueRef next);   /* what was `next` in the round before, in the first one `start` */
LLVMBasicBlockRef emit_before_loop(struct emit *);                   /* the builder before the innermost loop, of row kernels; returns where it was */

/* The machine would wait in front of `before` for as many instructions as `room`; gaps of one block are remembered. */
void emit_gap(struct emit *, LLVMValueRef before, int room);
/* The builder in the block's first gap with room, of which `cost` is taken, else where it is: for what needs nothing that was made since
 * the block began.  Returns the block; emit_continue goes on. */
LLVMBasicBlockRef emit_in_gap(struct emit *, int cost);

/* index.c */
/* Sum of coef[axis] * the lane's and wave's part of the position, i32. */
LLVMValueRef index_lanes(struct emit *, const struct layout *, const int64_t *coef);
LLVMValueRef index_lanes_here(struct emit *, const struct layout *, const int64_t *coef);   /* computed where it is used, not kept from the start on */
LLVMValueRef index_lane(struct emit *, const struct layout *, int axis);  /* lane's and wave's part of the position, i32 */
int index_register(const struct layout *, int reg, int axis);             /* register's part */
const int *index_map(struct emit *, const struct layout *from, const struct layout *to, ir_axes axes); /* register of `from` -> register of `to` */
LLVMValueRef index_value(struct emit *, const struct ir_ins *, const struct layout *, int reg);  /* a position-only value at a register */
/* A power of two that divides f but for the axis `except`, whose multiples count as 1; tensor: the parameter that is accessed, -1: none. */
int64_t index_divisor(struct emit *, const struct affine *f, int except, int tensor);
bool index_base_divides(struct emit *, int axis, int w);                  /* the base of the axis's tile is a multiple of w */
/* A condition is the same for every run of w positions along the axis that starts at a multiple of w. */
bool index_mask_is_run(struct emit *, const struct ir_ins *, int axis, int w, int tensor);
int index_mark(const struct emit *);                                      /* scopes of the memo */
void index_release(struct emit *, int mark);
void index_forget(struct emit *);          /* where e->forgets, before an instruction: its index values are computed anew, not kept */
/* i1: this lane is the one that stores; NULL = always.  lanes_may: lanes of a wave may store the same to one place at once. */
LLVMValueRef index_is_first_copy(struct emit *, const struct layout *, bool lanes_may);
LLVMValueRef index_is_first_lane(struct emit *);                                  /* of a wave */

/* value.c */
struct value *value_new(struct emit *, const struct ir_ins *);            /* room for the groups of its layout */
LLVMValueRef value_element(struct emit *, const struct ir_ins *, const struct layout *, int reg);
LLVMValueRef value_vector(struct emit *, const struct ir_ins *, const struct layout *, int reg, int n); /* registers reg .. reg+n-1 */
LLVMValueRef value_strided(struct emit *, const struct ir_ins *, const struct layout *, int reg, int step, int n); /* registers reg, reg+step, .. */
void value_set(struct emit *, const struct ir_ins *, int reg, int n, LLVMValueRef vector);  /* n a multiple or a part of pack */
LLVMValueRef vector_part(struct emit *, LLVMValueRef v, int from, int n);
LLVMValueRef vector_join(struct emit *, LLVMValueRef *parts, int nparts, int each);         /* nparts vectors of `each` elements */
int vector_length(LLVMValueRef);

/* elementwise.c */
LLVMValueRef op_build(struct emit *, const struct ir_ins *, LLVMValueRef *args);   /* operands of one width, scalar or vector */
void emit_elementwise(struct emit *, const struct ir_ins *);
/* A comparison for one select behind it in its block: made there, element by element, or its masks would fill the scalar registers until then. */
bool is_late_comparison(const struct emit *, const struct ir_ins *);
LLVMTypeRef op_type_like(struct emit *, enum dtype, LLVMValueRef like);                  /* as many elements */
LLVMValueRef op_times(struct emit *, LLVMValueRef integer, int64_t constant); /* a shift by powers of two: LLVM makes a multiplication of the 24-bit kind otherwise */
LLVMValueRef op_splat(struct emit *, LLVMValueRef one, int n);
LLVMValueRef op_whole(struct emit *, const char *intrinsic, LLVMValueRef *args, int nargs);     /* overloaded by the first's type */
LLVMValueRef op_between(struct emit *, LLVMValueRef i32, LLVMValueRef most);     /* at least 0 and at most that, signed */
LLVMValueRef op_combine(struct emit *, enum ir_reduce, enum dtype, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef op_identity(struct emit *, enum ir_reduce, enum dtype);

/* convert.c */
LLVMValueRef op_clamped(struct emit *, LLVMValueRef f32, enum dtype range);     /* into the finite range of a type; NaN stays */
/* <n x i8> of 4-bit codes (n 2 or a multiple of 4) -> two a byte, the first in the low half: i8 or <n/4 x i16>; and back from as many bits. */
LLVMValueRef op_halves_joined(struct emit *, LLVMValueRef codes);
LLVMValueRef op_halves_apart(struct emit *, LLVMValueRef, int n);
LLVMValueRef op_convert(struct emit *, LLVMValueRef, enum dtype from, enum dtype to, bool saturate);

/* nans.c: NaNs whose lower half is zeros, which may be rounded to bf16 as numbers are */
bool nans_are_short(const struct emit *, const struct ir_ins *cvt);              /* it is such a rounding, on a chip without one of its own */
uint64_t nans_scalars(const struct emit *, const struct ir_phase *);             /* a call's scalars that some rest on: nan_shortened ones are bound */
LLVMValueRef nan_shortened(struct emit *, LLVMValueRef f32_scalar);

/* memory.c (memory.h: the parts of an access) */
void emit_load(struct emit *, const struct ir_ins *);
void emit_store(struct emit *, const struct ir_ins *);
void emit_update(struct emit *, const struct ir_ins *);

/* lds.c */
LLVMValueRef lds_pointer(struct emit *, LLVMValueRef base, LLVMValueRef byte, int constant);
enum { LDS_PAD = 16, LDS_MOST_PADS = 3, LDS_MOST_LANES = 64, LDS_MOST_BANKS = 64 };     /* bytes: accesses of 16 stay aligned; pads that are tried in one place */
/* banks.c: rounds of group memory, for an access of so many bytes a lane of a wave, each from its `byte` on */
int lds_rounds(const struct target *, const int *byte, int bytes, bool read);
void lds_barrier(struct emit *);                                     /* LDS accesses before it are seen by all waves behind it */
void lds_enter_loop(struct emit *);                                  /* everything read in the loop may still be read by others */
void lds_meet(struct emit *, const struct lds_state *);              /* two ways of the code meet, at whose ends this was known, and what is now */
LLVMValueRef lds_read(struct emit *, const struct ir_ins *, int reg, int n); /* registers of a value that waits in LDS */
void emit_relayout(struct emit *, const struct ir_ins *);
bool relayout_stays(const struct emit *, const struct ir_ins *);      /* each lane has what it is to have */
void emit_repeat(struct emit *, const struct ir_ins *);
void emit_pack(struct emit *, const struct ir_ins *);
void emit_codes(struct emit *, const struct ir_ins *cvt);             /* of such a load */
/* What alone uses a load of e2m1 and takes its bytes as they are, two codes each: pack, or a conversion; NULL = they are taken apart. */
const struct ir_ins *takes_bytes(const struct emit *, const struct ir_ins *load);
bool swap_lanes(struct emit *, const struct ir_ins *);              /* a relayout by exchanges of registers with lanes; false: it is none */
void lds_fetch(struct emit *, const struct ir_ins *user);            /* small tiles that wait in LDS for it, the first that uses them */
LLVMValueRef lane_xor(struct emit *, LLVMValueRef v, int bit, bool lower_equal); /* value of lane ^ (1 << bit); lower_equal: lanes that differ in lower bits hold the same */
LLVMValueRef emit_if_begin(struct emit *, LLVMValueRef cond);        /* returns the join block as a value */
void emit_if_end(struct emit *, LLVMValueRef join);

/* readers.c */
struct touched;                                                      /* accesses since the last barrier of tensors that are written */
void readers_before(struct emit *, const struct ir_ins *access);     /* it waits for those of other lanes that reach what it reaches */
void readers_enter_loop(struct emit *, const struct ir_ins *loop);   /* what its rounds access may be of the round before */
void readers_meet(struct emit *, const struct touched *other);       /* two ways of the code meet */

/* reduce.c: emits `first` and the reductions that stand right behind it in one round; returns the last one handled */
const struct ir_ins *emit_reduce(struct emit *, const struct ir_ins *first);

/* Bytes of results in group memory, those of lanes that follow each other side by side; coef: of a position of each axis.  Of a register's. */
int reduce_result_bytes(const struct emit *, const struct layout *, int pad, int64_t *coef);
int reduce_register_bytes(const struct emit *, const struct layout *, int reg, const int64_t *coef);
int reduce_together(const struct emit *, const struct layout *, int reg, int regs, const int64_t *coef);     /* 1, 2 or 4: registers from reg on whose places are side by side */
LLVMValueRef reduce_bits(struct emit *, const int *bits, int n);      /* of the workitem id, lowest first, side by side; NULL for none */
/* What follows is for those whose bits of the workitem id are 0; NULL = for all, there are no such bits.  emit_if_end ends it. */
LLVMValueRef reduce_begin_first(struct emit *, int64_t bits);
LLVMValueRef reduce_parts(struct emit *, const struct ir_ins *reduce, LLVMValueRef *part, int n);   /* partial results by butterfly; overwritten */
bool reduce_is_of_waves(const struct emit *, const struct ir_ins *);                                /* an IR_PART that each wave has for itself */

/* cluster.c */
/* Of a reduction over a cluster what a wave has, in registers under `own`; waves: bits of the wave's number that are still to be reduced.
 * to: the layout of the results. */
struct shared_results {
	const struct ir_ins *i; const struct layout *own, *to; unsigned waves; int regs; LLVMValueRef *x;
	struct places *places; LLVMValueRef counter;                      /* set by cluster_send */
};
int cluster_size(const struct ir_phase *);                            /* members; 0 = each workgroup is by itself */
void cluster_begin(struct emit *);                                    /* at the start of a function: says that this workgroup is there */
void cluster_send(struct emit *, struct shared_results *, int n);     /* of one round, to all members */
void cluster_receive(struct emit *, struct shared_results *, int n);  /* of all members, in place, when it has come */

/* prefix.c */
void emit_scan(struct emit *, const struct ir_ins *);

/* dot.c */
int dot_axis(const struct emit *, ir_axes);                          /* the one of several positions among them, 0 = none */
void emit_dot(struct emit *, const struct ir_ins *);
/* Words of a dot's operand whose rows are positions of axis `free`, from `at` on: a vector for each step of the wave's own instruction. */
LLVMValueRef *dot_words(struct emit *, const struct ir_ins *dot, int arg, int free, int at, const struct mfma *);
#endif
