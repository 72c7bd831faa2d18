/* counted.c -- rows that are there, numbered one behind the other over all groups, and dealt out to as few workgroups as pay.
 * In: a phase whose rows are there up to a count of each group (`each e in E, m in M where m < tokens[e]`), its grid bound (grid.c).  Out: its code
 * in a loop over rows that are there; nothing in it asks whether they are.
 * A batch that serves a model has room in each group for as many rows as all groups may have between them: nearly all of it is empty, and what is
 * not lies unevenly.  Workgroups of a group's own (rounds.c), of which there have to be many for a group that has most of the rows, mostly find
 * none.  So each wave counts: a group a lane, and the lanes' counts summed up to each; a number's row is in the last group that begins with that
 * number or one below.  More groups than lanes are taken a wave of them at a time, and not summed where all their rows come before the wanted one.
 * Of few groups most rows may be there: each has workgroups of its own, in whose numbers all rows count that there is room for. */
#include "../../pass.h"
#include "machine.h"

static LLVMBasicBlockRef block_new(struct emit *e) { return LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""); }

/* What comes with whoever enters a block: the row's number, the wave's first group, how many rows come before the group behind the wave's last, and
 * of each lane's group with which number it begins. */
static void open_block(struct emit *e, struct counted_block *b)
{
	b->block = block_new(e);
	LLVMPositionBuilderAtEnd(e->b, b->block);
	LLVMValueRef *all[] = {&b->number, &b->first, &b->all, &b->begin};
	for (unsigned v = 0; v < sizeof all / sizeof *all; v++)
		*all[v] = LLVMBuildPhi(e->b, e->i32, "");
}

/* From the block that the builder is in. */
static void enter(struct emit *e, const struct counted_block *b, const struct counted_block *with)
{
	LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
	LLVMValueRef phi[] = {b->number, b->first, b->all, b->begin}, x[] = {with->number, with->first, with->all, with->begin};
	for (unsigned v = 0; v < sizeof phi / sizeof *phi; v++)
		LLVMAddIncoming(phi[v], &x[v], &from, 1);
}

static void enter_head(struct emit *e, const struct rounds *r, const struct counted_block *with, LLVMValueRef group, LLVMValueRef row)
{
	LLVMBasicBlockRef from = LLVMGetInsertBlock(e->b);
	enter(e, &r->head, with);
	LLVMAddIncoming(r->at[0], &group, &from, 1);
	LLVMAddIncoming(r->at[1], &row, &from, 1);
}

static void compute(struct emit *e, const struct ir_ins *i)
{
	for (int a = 0; a < i->nargs; a++)
		compute(e, i->args[a]);
	emit_instruction(e, i);
}

/* Rows that are there of a group, which may be another for each lane; or tiles, the last of them perhaps not whole. */
static LLVMValueRef rows_of_group(struct emit *e, const struct rounds *r, LLVMValueRef group)
{
	LLVMValueRef own = e->axis_base[r->group];
	int mark = index_mark(e);
	e->axis_base[r->group] = group;
	compute(e, r->count);
	index_release(e, mark);
	e->axis_base[r->group] = own;
	LLVMValueRef room = emit_hexpr(e, r->tiles), rows = op_between(e, e->values[r->count->id].group[0], op_times(e, room, r->rows));
	return r->rows == 1 ? rows : LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, rows, emit_int(e, r->rows - 1), ""), emit_int(e, r->rows), "");
}

/* The same of a wave of groups from `first` on, a lane each; none of groups beyond the last. */
static LLVMValueRef rows_of_wave(struct emit *e, const struct rounds *r, LLVMValueRef first)
{
	LLVMValueRef groups = emit_hexpr(e, e->ph->axes[r->group].extent), group = LLVMBuildAdd(e->b, first, r->lane, "");
	LLVMValueRef in = LLVMBuildICmp(e->b, LLVMIntULT, group, groups, "");
	LLVMValueRef n = rows_of_group(e, r, LLVMBuildSelect(e->b, in, group, LLVMBuildSub(e->b, groups, emit_int(e, 1), ""), ""));
	return LLVMBuildSelect(e->b, in, n, emit_int(e, 0), "");
}

/* Few groups: their own workgroups, one behind the other in the grid. */
static void begin_own(struct emit *e, const struct rounds *r)
{
	LLVMValueRef room = emit_hexpr(e, r->tiles), limit[2] = {r->lane, emit_hexpr(e, e->ph->axes[r->group].extent)};
	LLVMValueRef group = e->axis_base[r->group], row = e->machine->workgroup(e, r->dim), n = rows_of_group(e, r, group), before = LLVMBuildMul(e->b, group, room, "");
	struct counted_block with = {.number = LLVMBuildAdd(e->b, before, row, ""), .first = emit_int(e, 0), .all = LLVMBuildAdd(e->b, before, n, ""),
	                             .begin = LLVMBuildMul(e->b, op_whole(e, "llvm.umin", limit, 2), room, "")};
	enter_head(e, r, &with, group, row);
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, row, n, ""), r->head.block, r->out);
}

/* A wave of groups: whether the wanted row is one of theirs, and then where each of them begins. */
static void count_wave(struct emit *e, const struct rounds *r, const struct counted_block *wave)
{
	LLVMBasicBlockRef sum = block_new(e);
	struct counted_block with = *wave;
	LLVMPositionBuilderAtEnd(e->b, wave->block);
	LLVMValueRef n = rows_of_wave(e, r, wave->first);
	with.all = LLVMBuildAdd(e->b, wave->all, e->machine->lanes_sum(e, n), "");
	enter(e, &r->behind, &with);
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, with.number, with.all, ""), sum, r->behind.block);
	LLVMPositionBuilderAtEnd(e->b, sum);
	with.begin = LLVMBuildSub(e->b, LLVMBuildAdd(e->b, emit_sum_up_to(e, n, r->lane), wave->all, ""), n, "");
	enter(e, &r->sought, &with);
	LLVMBuildBr(e->b, r->sought.block);
}

/* All rows of the wave's groups come before the wanted one. */
static void leave_wave(struct emit *e, const struct rounds *r, const struct counted_block *wave)
{
	struct counted_block with = r->behind;
	LLVMPositionBuilderAtEnd(e->b, r->behind.block);
	with.first = LLVMBuildAdd(e->b, with.first, emit_int(e, e->v->target->wave), "");
	enter(e, wave, &with);
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, with.first, emit_hexpr(e, e->ph->axes[r->group].extent), ""), wave->block, r->out);
}

/* Group and row of a number.  Groups without rows begin where the next one does, those beyond the last behind all rows. */
static void locate(struct emit *e, const struct rounds *r)
{
	const struct counted_block *s = &r->sought;
	LLVMPositionBuilderAtEnd(e->b, s->block);
	LLVMValueRef at = LLVMBuildSub(e->b, emit_lanes_on(e, LLVMBuildICmp(e->b, LLVMIntULE, s->begin, s->number, "")), emit_int(e, 1), "");
	LLVMValueRef group = LLVMBuildAdd(e->b, s->first, at, ""), row = LLVMBuildSub(e->b, s->number, e->machine->lane_read(e, s->begin, at), "");
	enter_head(e, r, s, group, row);
	LLVMBuildBr(e->b, r->head.block);
}

void counted_begin(struct emit *e, struct rounds *r)
{
	LLVMBasicBlockRef entry = LLVMGetInsertBlock(e->b), own = block_new(e);
	struct counted_block wave;
	LLVMValueRef zero = emit_int(e, 0);
	open_block(e, &wave);
	open_block(e, &r->sought);
	open_block(e, &r->behind);
	open_block(e, &r->head);
	for (int p = 0; p < 2; p++)
		r->at[p] = LLVMBuildPhi(e->b, e->i32, "");
	r->out = block_new(e);
	LLVMPositionBuilderAtEnd(e->b, entry);
	r->lane = LLVMBuildAnd(e->b, e->tid, emit_int(e, e->v->target->wave - 1), "");
	struct counted_block start = {.number = e->machine->workgroup(e, r->dim), .first = zero, .all = zero, .begin = zero};
	enter(e, &wave, &start);
	LLVMBuildCondBr(e->b, grid_is_counted(e), wave.block, own);
	LLVMPositionBuilderAtEnd(e->b, own);
	begin_own(e, r);
	count_wave(e, r, &wave);
	leave_wave(e, r, &wave);
	locate(e, r);
	LLVMPositionBuilderAtEnd(e->b, r->head.block);
	e->axis_base[r->group] = r->at[0];
	e->axis_base[r->axis] = op_times(e, r->at[1], e->ph->axes[r->axis].tile);
}

void counted_end(struct emit *e, const struct rounds *r)
{
	struct counted_block next = r->head;
	next.number = LLVMBuildAdd(e->b, next.number, e->machine->workgroups(e, r->dim), "");
	enter(e, &r->sought, &next);
	enter(e, &r->behind, &next);
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntULT, next.number, next.all, ""), r->sought.block, r->behind.block);
	LLVMPositionBuilderAtEnd(e->b, r->out);
}
