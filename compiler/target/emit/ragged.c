/* ragged.c -- tiles of groups of rows whose bounds lie in memory, and lists of tensors that take their place.
 * In: a phase with a ragged axis, the number of a workgroup's tile.  Out: group, first row and end of the tile's rows (axis_base, axis_limit); of lists
 * the pointers of the group's tensors.  The bounds are read by all lanes of a wave at once, a group each. */
#include "machine.h"

static LLVMValueRef load_bound(struct emit *e, int tensor, LLVMValueRef index)
{
	LLVMValueRef off = LLVMBuildSExt(e->b, index, e->i64, "");
	LLVMValueRef stride = e->tensors[tensor].stride[0];
	if (stride)
		off = LLVMBuildMul(e->b, off, LLVMTypeOf(stride) == e->i32 ? LLVMBuildZExt(e->b, stride, e->i64, "") : stride, "");
	LLVMValueRef p = LLVMBuildGEP2(e->b, e->i32, e->tensors[tensor].pointer, &off, 1, "");
	LLVMValueRef x = LLVMBuildLoad2(e->b, e->i32, p, "");
	LLVMSetAlignment(x, 4);
	return x;
}

/* Where entry `index` of a list's table, behind `before` bytes, lies. */
static LLVMValueRef list_entry(struct emit *e, int list, LLVMValueRef before, LLVMValueRef index, int bytes)
{
	LLVMValueRef off = LLVMBuildMul(e->b, LLVMBuildSExt(e->b, index, e->i64, ""), LLVMConstInt(e->i64, (uint64_t)bytes, 0), "");
	off = before ? LLVMBuildAdd(e->b, off, before, "") : off;
	return LLVMBuildGEP2(e->b, e->i8, e->tensors[list].pointer, &off, 1, "");
}

/* The lengths of a list's tensors lie behind their addresses. */
static LLVMValueRef list_length(struct emit *e, int list, LLVMValueRef index)
{
	LLVMValueRef groups = LLVMBuildSExt(e->b, emit_hexpr(e, e->k->params[list].extent[0]), e->i64, "");
	LLVMValueRef p = list_entry(e, list, LLVMBuildMul(e->b, groups, LLVMConstInt(e->i64, 8, 0), ""), index, 4);
	LLVMValueRef x = LLVMBuildLoad2(e->b, e->i32, p, "");
	LLVMSetAlignment(x, 4);
	return x;
}

/* From here on the pointers of the lists that this axis goes over are those of the group's tensors. */
void ragged_open_lists(struct emit *e, int axis, const bool *used)
{
	const struct ir_axis *ax = &e->ph->axes[axis];
	const struct ir_param *of = &e->k->params[ax->ragged_tensor];
	for (int t = 0; ax->of_list && t < e->k->nparams; t++) {
		const struct ir_param *p = &e->k->params[t];
		if (!p->list || !used[t] || !hexpr_equal(p->extent[0], of->extent[0]) || !hexpr_equal(p->extent[1], of->extent[1]))
			continue;
		LLVMValueRef at = list_entry(e, t, NULL, e->axis_base[ax->ragged_group], 8), whole = NULL;
		for (int half = 1; half >= 0; half--) {
			LLVMValueRef off = LLVMConstInt(e->i64, (uint64_t)half * 4, 0);
			LLVMValueRef word = LLVMBuildLoad2(e->b, e->i32, LLVMBuildGEP2(e->b, e->i8, at, &off, 1, ""), "");
			LLVMSetAlignment(word, half ? 4 : 8);
			word = LLVMBuildZExt(e->b, e->machine->uniform(e, word), e->i64, "");
			whole = whole ? LLVMBuildOr(e->b, LLVMBuildShl(e->b, whole, LLVMConstInt(e->i64, 32, 0), ""), word, "") : word;
		}
		e->tensors[t].pointer = LLVMBuildIntToPtr(e->b, whole, e->p1, "");
	}
}

/* Finds (group, first row) of this row tile: a wave of groups at a time, one a lane; bounds made non-decreasing by a running maximum,
 * tiles counted by a prefix sum over the wave.  Of a list each group begins at 0.  A tile behind the last group ends the function. */
void ragged_find_tile(struct emit *e, int axis)
{
	const struct ir_axis *ax = &e->ph->axes[axis];
	LLVMValueRef groups = emit_hexpr(e, e->ph->axes[ax->ragged_group].extent), total = emit_hexpr(e, ax->ragged_total);
	LLVMValueRef want = ax->tile == 1 ? e->axis_base[axis] : LLVMBuildUDiv(e->b, e->axis_base[axis], emit_int(e, ax->tile), "");
	int wave = e->v->target->wave;
	LLVMValueRef lane = LLVMBuildAnd(e->b, e->tid, emit_int(e, wave - 1), ""), zero = emit_int(e, 0);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), head = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""),
		body = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), next = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""),
		none = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), found = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildBr(e->b, head);
	LLVMPositionBuilderAtEnd(e->b, head);
	LLVMValueRef first = LLVMBuildPhi(e->b, e->i32, ""), done = LLVMBuildPhi(e->b, e->i32, ""), low = LLVMBuildPhi(e->b, e->i32, "");
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, first, groups, ""), body, none);
	LLVMPositionBuilderAtEnd(e->b, none);
	LLVMBuildRetVoid(e->b);
	LLVMPositionBuilderAtEnd(e->b, body);
	LLVMTypeRef t = e->i32;
	LLVMValueRef g = LLVMBuildAdd(e->b, first, lane, ""), in = LLVMBuildICmp(e->b, LLVMIntSLT, g, groups, "");
	LLVMValueRef last = LLVMBuildSub(e->b, groups, emit_int(e, 1), "");
	LLVMValueRef safe = LLVMBuildSelect(e->b, in, g, last, "");
	bool list = ax->of_list;
	LLVMValueRef lo = list ? zero : op_between(e, load_bound(e, ax->ragged_tensor, safe), total);
	LLVMValueRef hi = list ? list_length(e, ax->ragged_tensor, safe) : load_bound(e, ax->ragged_tensor, LLVMBuildAdd(e->b, safe, emit_int(e, 1), ""));
	hi = op_between(e, hi, total);
	for (int d = 1; d < wave && !list; d *= 2) {
		LLVMValueRef a[2] = {lo, emit_from_below(e, lo, d, lane, zero)};
		lo = emit_call(e, "llvm.smax", &t, 1, a, 2);
	}
	if (!list) {
		LLVMValueRef two[2] = {lo, low};
		lo = emit_call(e, "llvm.smax", &t, 1, two, 2);
		two[0] = hi;
		two[1] = lo;
		hi = emit_call(e, "llvm.smax", &t, 1, two, 2);
	}
	LLVMValueRef n = LLVMBuildSub(e->b, hi, lo, "");
	n = LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, n, emit_int(e, ax->tile - 1), ""), emit_int(e, ax->tile), "");
	n = LLVMBuildSelect(e->b, in, n, zero, "");
	LLVMValueRef upto = LLVMBuildAdd(e->b, emit_sum_up_to(e, n, lane), done, "");
	LLVMValueRef mine = LLVMBuildICmp(e->b, LLVMIntSLT, want, upto, "");
	LLVMValueRef ballot = e->machine->ballot(e, mine);
	LLVMTypeRef bits = LLVMTypeOf(ballot);
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, ballot, LLVMConstNull(bits), ""), found, next);
	LLVMPositionBuilderAtEnd(e->b, next);
	LLVMValueRef first2 = LLVMBuildAdd(e->b, first, emit_int(e, wave), ""), done2 = e->machine->lane_read(e, upto, emit_int(e, wave - 1)), low2 = e->machine->lane_read(e, hi, emit_int(e, wave - 1));
	LLVMBuildBr(e->b, head);
	LLVMAddIncoming(first, (LLVMValueRef[]){zero, first2}, (LLVMBasicBlockRef[]){before, next}, 2);
	LLVMAddIncoming(done, (LLVMValueRef[]){zero, done2}, (LLVMBasicBlockRef[]){before, next}, 2);
	LLVMAddIncoming(low, (LLVMValueRef[]){zero, low2}, (LLVMBasicBlockRef[]){before, next}, 2);
	LLVMPositionBuilderAtEnd(e->b, found);
	LLVMValueRef ct[2] = {ballot, LLVMConstInt(e->i1, 1, 0)};
	LLVMValueRef at = emit_call(e, "llvm.cttz", &bits, 1, ct, 2);
	at = bits == e->i32 ? at : LLVMBuildTrunc(e->b, at, e->i32, "");
	LLVMValueRef tiles = e->machine->lane_read(e, n, at), end = e->machine->lane_read(e, upto, at), start = e->machine->lane_read(e, lo, at);
	LLVMValueRef inside = LLVMBuildSub(e->b, want, LLVMBuildSub(e->b, end, tiles, ""), "");
	e->axis_base[ax->ragged_group] = LLVMBuildAdd(e->b, first, at, "");
	e->axis_base[axis] = LLVMBuildAdd(e->b, start, op_times(e, inside, ax->tile), "");
	e->axis_limit[axis] = e->machine->lane_read(e, hi, at);
}
