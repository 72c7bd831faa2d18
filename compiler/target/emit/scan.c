/* scan.c -- what the lanes of a wave make together of a word or a condition of each: words of lanes before a lane, sums up to it, how many are on.
 * In: an i32 or an i1 of each lane.  Out: an i32 of each lane.  Exchanges alone: no group memory, no barrier; all lanes of the wave take part. */
#include "machine.h"

LLVMValueRef emit_from_below(struct emit *e, LLVMValueRef x, int d, LLVMValueRef lane, LLVMValueRef none)
{
	LLVMValueRef y = e->machine->lane_gather(e, x, LLVMBuildSub(e->b, lane, emit_int(e, d), ""));
	return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGE, lane, emit_int(e, d), ""), y, none, "");
}

LLVMValueRef emit_sum_up_to(struct emit *e, LLVMValueRef x, LLVMValueRef lane)
{
	for (int d = 1; d < e->v->target->wave; d *= 2)
		x = LLVMBuildAdd(e->b, x, emit_from_below(e, x, d, lane, emit_int(e, 0)), "");
	return x;
}

LLVMValueRef emit_lanes_on(struct emit *e, LLVMValueRef on)
{
	LLVMValueRef bits = e->machine->ballot(e, on);
	LLVMTypeRef type = LLVMTypeOf(bits);
	LLVMValueRef n = emit_call(e, "llvm.ctpop", &type, 1, &bits, 1);
	return type == e->i32 ? n : LLVMBuildTrunc(e->b, n, e->i32, "");
}
