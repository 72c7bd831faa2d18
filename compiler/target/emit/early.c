/* early.c -- what a workgroup loads first, asked for before it waits for the launch in front.
 * In: a phase whose code waits (machine.wait_for_launch), its grid bound.  Out: of the first workgroups, in front of the wait, the L2 is asked
 * for the rows that they load behind it.  Whatever the launch in front still writes there, the L2 is where it is written: a hint changes no
 * value.  The memory has little to do meanwhile, since what is left of that launch only stores, and nothing comes before the wait is over:
 * a microsecond of each launch.  Of more than the first, the memory would be kept from what the launch in front still loads; a launch of few
 * workgroups waits for other things (docs/performance.md).  Rows that may not be there are asked for whether they are or not: their place in
 * the tensor is.  Where they are counted over many groups (counted.c), and nobody knows yet whose is which, those that come first in each group, which are
 * there most often: whoever takes them.  Of workgroups that take many rows one after the other, the first of each. */
#include "../../pass.h"
#include "machine.h"
#include "memory.h"

#include <string.h>

struct early { struct emit *e; bool *there; int64_t bytes; };     /* there: by id, what can be computed before the wait */

static bool are_there(const struct early *y, const struct ir_ins *i)
{
	for (int a = 0; a < i->nargs; a++)
		if (!y->there[i->args[a]->id])
			return false;
	return true;
}

/* Bytes of rows that nothing writes in this launch, known to be there; 0 = it is not asked for them. */
static int64_t asked_bytes(const struct early *y, const struct ir_ins *i)
{
	int64_t bytes = access_rows(y->e, i);
	if (!bytes || y->e->k->params[i->imm].list || !are_there(y, i))
		return 0;
	return variant_may_lack(y->e->v, y->e->k, i->imm) ? 0 : bytes;
}

/* Positions, and numbers made of arguments: computed here, and again behind the wait, which LLVM finds to be the same. */
static bool open_front(struct early *y, const struct ir_ins *i)
{
	bool made = ir_is_pure(i) && !i->layout && i->op != IR_LOAD && i->op != IR_ARG && i->op != IR_RESULT && i->op != IR_REDUCE && are_there(y, i);
	y->there[i->id] = made;
	if (made && !i->axes)
		emit_instruction(y->e, i);
	return made;
}

/* The workgroup, which asks for so many bytes, is one of the first of many, in the order in which they begin; of rows that may not be there also of
 * few, for whose loads the answer is waited for. */
static LLVMValueRef is_first(struct emit *e, int64_t bytes)
{
	const struct target *t = e->v->target;
	LLVMValueRef most = emit_int(e, t->early_bytes / bytes), counted = grid_is_counted(e);
	most = counted ? LLVMBuildSelect(e->b, counted, emit_int(e, t->early_counted / bytes), most, "") : most;
	LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntULT, grid_workgroup(e), most, "");
	return e->v->gaps ? first : LLVMBuildAnd(e->b, first, LLVMBuildICmp(e->b, LLVMIntUGT, grid_workgroups(e), most, ""), "");
}

static void ask(struct emit *e, const struct ir_ins *load)
{
	struct access a;
	if (variant_may_lack(e->v, e->k, load->imm))
		return;
	access_open(e, &a, load, load->layout);
	if (e->failed || !a.affine || a.loose >= 0)
		return;
	LLVMValueRef one = ahead_lane(e, &a);
	for (int r = 0; r < layout_regs(a.l); r += a.width)
		e->machine->fetch(e, &a, r, NULL, emit_both(e, one, access_condition(e, &a, r)));
}

/* The loop by whose rounds rows come by way of group memory (stage.c); NULL = there is none. */
static const struct ir_ins *loop_of_rows(const struct ir_block *b)
{
	for (const struct ir_ins *loop = b->first; loop; loop = loop->next)
		for (const struct ir_ins *i = loop->op == IR_FOR ? loop->body->first : NULL; i; i = i->next)
			if (i->op == IR_LOAD && i->flags & IR_STAGED)
				return loop;
	return NULL;
}

/* Made of positions and arguments, not of what is loaded or carried. */
static bool is_placed(const struct ir_ins *i)
{
	bool placed = ir_is_pure(i) && i->op != IR_LOAD && i->op != IR_ARG && i->op != IR_RESULT;
	for (int a = 0; placed && a < i->nargs; a++)
		placed = is_placed(i->args[a]);
	return placed;
}

/* Bytes that a round's rows have, if all that the round takes from in front of the loop is there; 0 = something is not. */
static int64_t round_bytes(const struct early *y, const struct ir_ins *loop)
{
	int64_t bytes = 0;
	for (const struct ir_ins *i = loop->body->first; i; i = i->next) {
		bool row = i->op == IR_LOAD && i->flags & IR_STAGED;
		for (int a = 0; a < i->nargs; a++) {
			const struct ir_ins *x = i->args[a];
			if ((x->block != loop->body && !x->axes && !y->there[x->id]) || (row && !is_placed(x)))
				return 0;
		}
		if (row && y->e->k->params[i->imm].list)
			return 0;
		bytes += row && !variant_may_lack(y->e->v, y->e->k, i->imm) ? access_rows(y->e, i) : 0;
	}
	return bytes;
}

/* The rows of the first round, of workgroups that have one; as many as the chip holds begin at a time. */
static void ask_for_round(struct early *y, const struct ir_block *b, const struct ir_ins *loop)
{
	struct emit *e = y->e;
	for (const struct ir_ins *i = b->first; i != loop && !e->failed; i = i->next) {
		y->there[i->id] = !i->layout && is_placed(i);
		if (y->there[i->id] && !i->axes)
			emit_instruction(e, i);
	}
	y->bytes = e->failed || !y->there[loop->args[1]->id] ? 0 : round_bytes(y, loop);
	if (!y->bytes)
		return;
	LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntULT, grid_workgroup(e), emit_int(e, e->v->target->early_bytes / y->bytes), "");
	LLVMValueRef runs = LLVMBuildICmp(e->b, LLVMIntSGT, e->values[loop->args[1]->id].group[0], emit_int(e, 0), "");
	LLVMValueRef join = emit_if_begin(e, LLVMBuildAnd(e->b, first, runs, ""));
	stage_each(e, loop, ask);
	emit_if_end(e, join);
}

/* Where lines that are read are kept, by policy or, of many, by asking ahead: of others what came early is at times gone again, but of slow memory.
 * Rows that may not be there wait twice, for the answer and for themselves.  Workgroups that take many rows gain by it though nothing keeps their
 * first (docs/performance.md). */
bool early_is_worth(const struct emit *e)
{
	bool kept = e->v->stored_first != STORED_AS_READ || e->v->gaps || loop_of_rows(e->ph->body);
	return e->v->target->early_bytes && e->machine->wait_for_launch && e->v->aligned && !e->v->few && !e->has_dot && (kept || e->v->slow);
}

/* The block whose loads come first: of rows that may not be there the one behind the question whether they are (pass_guard.c), which is asked of
 * memory and so behind the wait.  NULL = there is no such question. */
static const struct ir_block *first_block(struct early *y, const struct ir_block *b)
{
	const struct ir_ins *i = b->first;
	if (!y->e->v->gaps)
		return b;
	for (; i && ir_is_pure(i) && !y->e->failed; i = i->next)
		open_front(y, i);
	return i && i->op == IR_IF ? i->body : NULL;
}

static void ask_early(struct emit *e, const struct ir_block *phase)
{
	struct early y = {e, arena_alloc(e->arena, (size_t)e->k->next_id + 1), 0};
	const struct ir_ins *loop = loop_of_rows(phase);
	if (loop) {
		ask_for_round(&y, phase, loop);
		return;
	}
	const struct ir_block *b = first_block(&y, phase);
	const struct ir_ins *end = b ? b->first : NULL;
	for (; end && !e->failed && (end->op == IR_LOAD || open_front(&y, end)); end = end->next)
		y.bytes += asked_bytes(&y, end);
	if (!y.bytes || e->failed)
		return;
	LLVMValueRef join = emit_if_begin(e, is_first(e, y.bytes));
	for (const struct ir_ins *i = b->first; i != end; i = i->next)
		if (asked_bytes(&y, i))
			ask(e, i);
	emit_if_end(e, join);
}

/* Where rows are counted: workgroups are numbered over all groups' first rows, then their second ones.  There are no more workgroups than places. */
static void bind_likely(struct emit *e, const struct rounds *r)
{
	LLVMValueRef counted = grid_is_counted(e), number = e->machine->workgroup(e, r->dim), groups = emit_hexpr(e, e->ph->axes[r->group].extent);
	LLVMValueRef row = op_times(e, LLVMBuildUDiv(e->b, number, groups, ""), e->ph->axes[r->axis].tile);
	e->axis_base[r->group] = LLVMBuildSelect(e->b, counted, LLVMBuildURem(e->b, number, groups, ""), e->axis_base[r->group], "");
	e->axis_base[r->axis] = LLVMBuildSelect(e->b, counted, row, e->axis_base[r->axis], "");
}

void early_fetch(struct emit *e, const struct ir_block *phase)
{
	struct rounds r = {.axis = -1};
	int mark = index_mark(e);
	LLVMValueRef *own = e->axis_base, likely[LAYOUT_AXES];
	if (grid_rounds(e, &r) && r.count) {
		memcpy(likely, own, sizeof likely);
		e->axis_base = likely;
		bind_likely(e, &r);
	}
	ask_early(e, phase);
	index_release(e, mark);
	e->axis_base = own;
}
