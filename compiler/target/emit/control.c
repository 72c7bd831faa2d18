/* control.c -- loops and branches of tile IR.
 * In: a `for` or an `if`, whose blocks emit_block writes.  Out: basic blocks; carried and yielded values as phis, one a group of registers.
 * What does not change in a loop is put before it by who knows (emit_before_loop): LLVM's pass for that knows less and keeps more registers. */
#include "emit.h"

void emit_continue(struct emit *e, LLVMBasicBlockRef block)
{
	LLVMValueRef branch = LLVMGetBasicBlockTerminator(block);
	LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(e->b);
	if (branch)
		LLVMPositionBuilderBefore(e->b, branch);
	else
		LLVMPositionBuilderAtEnd(e->b, block);
	LLVMSetCurrentDebugLocation2(e->b, line);             /* positioned before the branch, it would be the branch's */
}

LLVMBasicBlockRef emit_before_loop(struct emit *e)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	if (e->loop_body && !e->has_dot && !e->late)
		emit_continue(e, e->before_loop);
	return here;
}

static LLVMValueRef carry(struct emit *e, LLVMValueRef start, LLVMValueRef by, LLVMValueRef next)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(e->loop_head));
	LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(start), "");
	LLVMAddIncoming(phi, &start, &e->before_loop, 1);
	emit_continue(e, here);
	if (e->ncarried == e->cap_carried)
		e->carried = arena_grow(e->arena, e->carried, e->ncarried, &e->cap_carried, sizeof *e->carried);
	e->carried[e->ncarried].phi = phi;
	e->carried[e->ncarried].by = by;
	e->carried[e->ncarried++].next = next;
	return phi;
}

LLVMValueRef emit_carried(struct emit *e, LLVMValueRef start, LLVMValueRef by) { return carry(e, start, by, NULL); }

LLVMValueRef emit_from_round(struct emit *e, LLVMValueRef start, LLVMValueRef next) { return carry(e, start, NULL, next); }

/* At the end of the loop's body: those from `first` on are the loop's. */
static void close_carried(struct emit *e, int first)
{
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
	while (e->ncarried > first) {
		LLVMValueRef phi = e->carried[--e->ncarried].phi, next = e->carried[e->ncarried].next;
		next = next ? next : LLVMBuildAdd(e->b, phi, e->carried[e->ncarried].by, "");
		LLVMAddIncoming(phi, &next, &latch, 1);
	}
}

static LLVMValueRef scalar(struct emit *e, const struct ir_ins *i)
{
	return e->values[i->id].group[0];
}

static bool runs_at_all(const struct ir_ins *start, const struct ir_ins *end)
{
	return start->op == IR_CONST && end->op == IR_MAX && end->args[1]->op == IR_CONST && end->args[1]->imm > start->imm;
}

/* Tested at the end, behind a test that the loop runs at all: accumulators then stay in their registers (a test at the head keeps
 * two copies of each alive). */
void emit_for(struct emit *e, const struct ir_ins *loop)
{
	const struct ir_block *body = loop->body;
	int axis = (int)loop->imm, n = body->nparams, mark = index_mark(e);
	LLVMValueRef start = scalar(e, loop->args[0]), end = scalar(e, loop->args[1]);
	struct value *initial = arena_alloc(e->arena, sizeof *initial * (size_t)(n + 1));
	for (int p = 0; p < n; p++) {
		struct value *v = value_new(e, body->params[p]);
		initial[p] = *v;
		initial[p].group = arena_alloc(e->arena, sizeof *initial[p].group * (size_t)v->ngroups);
		for (int g = 0; g < v->ngroups; g++)
			initial[p].group[g] = value_vector(e, loop->args[2 + p], body->params[p]->layout, g * v->pack, v->pack);
	}
	struct stage_ring ring;
	bool staged = stage_enter_loop(e, &ring, loop, &end);
	struct quads quads;
	bool by_quads = quads_enter_loop(e, &quads, loop, start, end);
	if (e->failed)
		return;
	struct pipe pipe;
	bool piped = pipe_enter_loop(e, &pipe, loop);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), enter = before;
	LLVMBasicBlockRef in = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), out = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	bool always = !staged && runs_at_all(loop->args[0], loop->args[1]);
	LLVMBasicBlockRef first = piped ? LLVMAppendBasicBlockInContext(e->ctx, e->fn, "") : in;
	if (always)
		LLVMBuildBr(e->b, first);
	else
		LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, start, end, ""), first, out);
	if (piped) {
		LLVMPositionBuilderAtEnd(e->b, first);
		pipe_load_first(e, &pipe, start);
		enter = LLVMGetInsertBlock(e->b);
		LLVMBuildBr(e->b, in);
	}
	LLVMPositionBuilderAtEnd(e->b, in);
	LLVMValueRef pos = LLVMBuildPhi(e->b, e->i32, "");
	LLVMAddIncoming(pos, &start, &enter, 1);
	for (int p = 0; p < n; p++)
		for (int g = 0; g < initial[p].ngroups; g++) {
			LLVMValueRef phi = LLVMBuildPhi(e->b, LLVMTypeOf(initial[p].group[g]), "");
			LLVMAddIncoming(phi, &initial[p].group[g], &enter, 1);
			e->values[body->params[p]->id].group[g] = phi;
		}
	LLVMValueRef outer = e->axis_base[axis], around = e->loop_position;
	const struct ir_block *body_around = e->loop_body;
	LLVMBasicBlockRef before_around = e->before_loop, head_around = e->loop_head;
	LLVMValueRef start_around = e->loop_start;
	int axis_around = e->loop_axis, carried = e->ncarried;
	e->axis_base[axis] = e->loop_position = pos;
	e->loop_axis = axis;
	e->loop_start = start;
	e->loop_body = body;
	e->before_loop = enter;
	e->loop_head = in;
	struct lds_state lds_before = e->lds_now;
	lds_enter_loop(e);
	const struct touched *touched = e->touched;
	readers_enter_loop(e, loop);
	e->loop_depth++;
	if (staged)
		stage_begin_round(e, &ring, pos, end);
	if (piped)
		pipe_begin_round(e, &pipe, pos, end);
	if (by_quads)
		quads_begin_round(e, &quads, pos, end);
	emit_block(e, body);
	if (by_quads)
		quads_end_round(e);
	if (staged)
		stage_ask_rest(e);
	e->loop_depth--;
	if (e->failed)
		return;
	readers_meet(e, touched);
	if (!always)
		lds_meet(e, &lds_before);
	LLVMValueRef next = LLVMBuildAdd(e->b, pos, emit_int(e, e->ph->axes[axis].tile), ""), **last = arena_alloc(e->arena, sizeof *last * (size_t)(n + 1));
	for (int p = 0; p < n; p++) {
		const struct value *v = &e->values[body->params[p]->id];
		last[p] = arena_alloc(e->arena, sizeof **last * (size_t)v->ngroups);
		for (int g = 0; g < v->ngroups; g++)
			last[p][g] = value_vector(e, body->last->args[p], body->params[p]->layout, g * v->pack, v->pack);
	}
	close_carried(e, carried);
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, next, end, ""), in, out);
	LLVMAddIncoming(pos, &next, &latch, 1);
	if (piped)
		pipe_leave_loop(e, &pipe, latch);
	LLVMPositionBuilderAtEnd(e->b, out);
	for (int p = 0; p < n; p++) {
		struct value *v = &e->values[body->params[p]->id];
		for (int g = 0; g < v->ngroups; g++) {
			LLVMAddIncoming(v->group[g], &last[p][g], &latch, 1);
			LLVMValueRef exit = LLVMBuildPhi(e->b, LLVMTypeOf(v->group[g]), "");
			if (!always)
				LLVMAddIncoming(exit, &initial[p].group[g], &before, 1);
			LLVMAddIncoming(exit, &last[p][g], &latch, 1);
			v->group[g] = exit;               /* results; the body is written */
		}
	}
	if (staged)
		stage_leave_loop(e);
	if (by_quads)
		quads_leave_loop(e, &quads);
	index_release(e, mark);
	e->axis_base[axis] = outer;
	e->loop_position = around;
	e->loop_body = body_around;
	e->before_loop = before_around;
	e->loop_head = head_around;
	e->loop_start = start_around;
	e->loop_axis = axis_around;
}

/* --- gaps ------------------------------------------------------------------------------------------------------------------- */

void emit_gap(struct emit *e, LLVMValueRef before, int room)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	if (room <= 0 || e->loop_depth || e->has_dot || e->late)       /* late: what addresses are made of comes behind the gap */
		return;
	if (e->gaps_in != here)
		e->ngaps = 0;
	e->gaps_in = here;
	if (e->ngaps == (int)(sizeof e->gaps / sizeof *e->gaps))
		return;
	e->gaps[e->ngaps].before = before;
	e->gaps[e->ngaps++].room = room;
}

LLVMBasicBlockRef emit_in_gap(struct emit *e, int cost)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	for (int g = 0; e->gaps_in == here && g < e->ngaps; g++)
		if (e->gaps[g].room > 0) {
			LLVMMetadataRef where = LLVMGetCurrentDebugLocation2(e->b);
			LLVMPositionBuilderBefore(e->b, e->gaps[g].before);
			LLVMSetCurrentDebugLocation2(e->b, where);
			e->gaps[g].room -= cost;
			break;
		}
	return here;
}

/* --- branches --------------------------------------------------------------------------------------------------------------- */

void emit_if(struct emit *e, const struct ir_ins *i)
{
	const struct ir_block *side[2] = {i->body, i->other};
	LLVMBasicBlockRef block[2], last[2], join = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	struct value *kept[2];
	int n = i->body->last ? i->body->last->nargs : 0, mark = index_mark(e), partials = e->lds_small_bytes, most = partials;
	const struct ir_ins **result = arena_alloc(e->arena, sizeof *result * (size_t)(n + 1));
	for (const struct ir_ins *r = i->next; r; r = r->next)
		if (r->op == IR_RESULT && r->args[0] == i)
			result[r->imm] = r;
	for (int s = 0; s < 2; s++)
		block[s] = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildCondBr(e->b, i->args[0] == e->known ? LLVMConstInt(e->i1, 1, 0) : scalar(e, i->args[0]), block[0], block[1]);
	struct lds_state before = e->lds_now, first = before;
	const struct touched *touched = e->touched, *touched_first = touched;
	for (int s = 0; s < 2; s++) {
		LLVMPositionBuilderAtEnd(e->b, block[s]);
		e->lds_small_bytes = partials;                /* of one side or the other: they lie in the same places, tiles as well */
		e->lds_now = before;
		e->touched = touched;
		emit_block(e, side[s]);
		most = most > e->lds_small_bytes ? most : e->lds_small_bytes;
		kept[s] = arena_alloc(e->arena, sizeof *kept[s] * (size_t)(n + 1));
		for (int r = 0; r < n && !e->failed; r++) {
			if (!result[r])
				continue;
			struct value *v = value_new(e, result[r]);
			for (int g = 0; g < v->ngroups; g++)
				v->group[g] = value_vector(e, side[s]->last->args[r], result[r]->layout, g * v->pack, v->pack);
			kept[s][r] = *v;
		}
		last[s] = LLVMGetInsertBlock(e->b);
		LLVMBuildBr(e->b, join);
		index_release(e, mark);
		first = s ? first : e->lds_now;
		touched_first = s ? touched_first : e->touched;
	}
	lds_meet(e, &first);
	readers_meet(e, touched_first);
	e->lds_small_bytes = most;
	LLVMPositionBuilderAtEnd(e->b, join);
	for (int r = 0; r < n && !e->failed; r++) {
		if (!result[r])
			continue;
		struct value *v = value_new(e, result[r]);
		for (int g = 0; g < v->ngroups; g++) {
			v->group[g] = LLVMBuildPhi(e->b, LLVMTypeOf(kept[0][r].group[g]), "");
			for (int s = 0; s < 2; s++)
				LLVMAddIncoming(v->group[g], &kept[s][r].group[g], &last[s], 1);
		}
	}
}
