/* pace.c -- rounds that ask memory for no more than it gives.
 * In: a loop whose rounds bring rows by way of group memory (stage.c), in a launch that says how long a round is to take (variant.pace).  Out: a round
 * asks for a later one's rows no sooner than so many rounds would have ended since the loop began, had each taken that time; who is late catches up.
 * Memory that is asked for more than it gives does not give more: the wait is shared out unevenly between multiprocessors, rows that lie side by side are
 * then read at different times, and a fifteenth of what it can do is lost.  Asked for a little less it serves all alike (docs/performance.md). */
#include "machine.h"

/* Times are of 1/PARTS ns, as variant.pace. */
static LLVMValueRef now(struct emit *e)
{
	return LLVMBuildMul(e->b, e->machine->time(e), LLVMConstInt(e->i64, PACE_PARTS, 0), "");
}

void pace_begin(struct emit *e, struct stage_ring *ring)
{
	if (e->told[TOLD_PACE])
		ring->began = now(e);
}

void pace_wait(struct emit *e, const struct stage_ring *ring)
{
	if (!ring->began)
		return;
	LLVMValueRef due = emit_carried(e, ring->began, LLVMBuildZExt(e->b, e->told[TOLD_PACE], e->i64, ""));
	LLVMBasicBlockRef again = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), next = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildBr(e->b, again);
	LLVMPositionBuilderAtEnd(e->b, again);
	LLVMValueRef early = e->machine->ballot(e, LLVMBuildICmp(e->b, LLVMIntULT, now(e), due, ""));
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, early, LLVMConstNull(LLVMTypeOf(early)), ""), next, again);
	LLVMPositionBuilderAtEnd(e->b, next);
}
