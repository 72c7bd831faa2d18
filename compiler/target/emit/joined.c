/* joined.c -- phases of one launch, one behind the other.
 * In: a launch whose workgroups all run at a time, and a phase behind its first.  Out: that phase's code, behind a wait for all workgroups, in a loop
 * over the workgroups that it would have as a launch of its own, of which each of the launch takes every so-manieth.
 * A launch costs the chip what a wait for all workgroups does, and a profile, a graph and a call another entry (docs/performance.md). */
#include "../../pass.h"
#include "machine.h"

#include <string.h>

/* Nothing that is known of the phase before holds of this one's axes; group memory is nobody's. */
static void open_phase(struct emit *e, const struct ir_phase *ph)
{
	e->ph = ph;
	memset(e->axis_base, 0, sizeof *e->axis_base * LAYOUT_AXES);
	e->rows_there = NULL;
	e->known = NULL;
	e->ahead = NULL;
	e->repeats = true;
	e->lds_now = (struct lds_state){0};
	e->touched = NULL;
}

void joined_phase(struct emit *e, const struct ir_phase *ph)
{
	const struct hexpr *grid[3];
	int mark = index_mark(e), parts = e->lds_small_bytes, tiles = e->lds_bytes;
	e->machine->workgroups_meet(e);
	e->turn = NULL;
	LLVMValueRef first = grid_workgroup(e), step = grid_workgroups(e);
	open_phase(e, ph);
	e->lds_small_bytes = e->lds_bytes = 0;               /* they lie where the phase before had its own */
	e->turns = emit_hexpr(e, grid_tiles(e));
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), loop = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), out = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, first, e->turns, ""), loop, out);
	LLVMPositionBuilderAtEnd(e->b, loop);
	e->turn = LLVMBuildPhi(e->b, e->i32, "");
	LLVMAddIncoming(e->turn, &first, &before, 1);
	grid_bind(e, grid);
	emit_block(e, ph->body);
	if (e->failed)
		return;
	if (e->lds_bytes || e->lds_small_bytes)              /* the next turn writes what other waves may still read */
		lds_barrier(e);
	LLVMValueRef next = LLVMBuildAdd(e->b, e->turn, step, "");
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, next, e->turns, ""), loop, out);
	LLVMAddIncoming(e->turn, &next, &latch, 1);
	LLVMPositionBuilderAtEnd(e->b, out);
	e->lds_small_bytes = e->lds_small_bytes > parts ? e->lds_small_bytes : parts;
	e->lds_bytes = e->lds_bytes > tiles ? e->lds_bytes : tiles;
	index_release(e, mark);
}
