/* ask.c -- the loads in front of a block, asked for together.
 * In: a block in pass_loads.c's order.  Out: what stands in front of it, its loads in a block of LLVM's of their own.
 * ptxas computes with what the first load brings before it asks for the second, where that saves registers: the second then waits for
 * the first one's memory.  Behind a branch that only the machine knows to be taken always it keeps them together; it makes predicates
 * of it, so that no instruction is added but the comparison.  For one row tensor and its weights, one of which is near: two of the
 * memory's are as fast apart; and for tiles that are turned or dealt out, of one tensor or two, whose workgroups wait for their slowest wave,
 * in clusters for each other (docs/performance.md).  Not in loops, which it would write out twice. */
#include "../../pass.h"
#include "machine.h"
#include "memory.h"

/* Bytes of a lane: one access waits for none, and so little code has little time to lose; of a tile's lanes that make eight, ptxas keeps them
 * together by itself. */
enum { ONE_ACCESS = 16, FEW_ACCESSES = 64 };

/* Can stand before a block's computation: see pass_loads.c. */
static bool is_front(const struct emit *e, const struct ir_ins *i)
{
	if (i->op == IR_LOAD)
		return e->k->params[i->imm].role == IR_IN;
	return ir_is_pure(i) && !i->layout && i->op != IR_REDUCE && i->op != IR_SCAN && i->op != IR_ARGMAX && i->op != IR_RESULT && i->op != IR_ARG;
}

/* One of the loads of the block from `first` on, directly or through what is computed. */
static bool follows_load(const struct ir_ins *i, const struct ir_ins *first)
{
	if (i->op == IR_LOAD)
		for (const struct ir_ins *l = first; l; l = l->next)
			if (l == i)
				return true;
	for (int a = 0; a < i->nargs; a++)
		if (follows_load(i->args[a], first))
			return true;
	return false;
}

/* rows: loads of the workgroup's own rows; shared: of what all have in common, weights; bytes: of a lane, the most that one of them brings. */
struct front { const struct ir_ins *first, *last; int rows, shared, bytes; };

static void note_load(const struct emit *e, struct front *f, const struct ir_ins *i)
{
	bool row = false;
	for (int a = 0; a < e->ph->naxes; a++)
		row = row || ((i->axes & IR_AXIS(a)) && e->ph->axes[a].kind == AXIS_GRID);
	int bytes = i->layout ? layout_regs(i->layout) * dtype_info((enum dtype)i->dtype)->bits / 8 : 0;
	f->first = f->first ? f->first : i;
	f->last = i;
	f->rows += row;
	f->shared += !row && bytes;
	f->bytes = bytes > f->bytes ? bytes : f->bytes;
}

/* Comes to registers; known to be there, or not to, but for a row's last access: what else is masked is kept where it stands by its predicate, but in tiles, all of
 * whose loads have the same. */
static bool is_plain(const struct emit *e, const struct ir_ins *load)
{
	bool of_tile = ir_has(e->ph->body, IR_RELAYOUT) && !load->args[load->nargs - 1]->layout;
	return !(load->flags & IR_STAGED) && (!(load->flags & IR_MASKED) || e->v->npins || variant_is_between(e->v) || of_tile) && !variant_may_lack(e->v, e->k, load->imm);
}

/* The loads that wait for none of each other, the last of these where there are several groups. */
static struct front front_of(const struct emit *e, const struct ir_block *b)
{
	struct front f = {0};
	for (const struct ir_ins *i = b->first; i && is_front(e, i); i = i->next) {
		bool waits = false;
		for (int a = 0; f.first && a < i->nargs; a++)
			waits = waits || follows_load(i->args[a], f.first);
		if (waits)
			f = (struct front){0};
		if (i->op != IR_LOAD)
			continue;
		if (!is_plain(e, i))
			return (struct front){0};
		note_load(e, &f, i);
	}
	return f;
}

LLVMBasicBlockRef emit_before_asked(struct emit *e)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	LLVMPositionBuilderAtEnd(e->b, e->before_asked);
	return here;
}

void emit_asked(struct emit *e, const struct access *a, int r, LLVMValueRef x)
{
	if (e->nasked == e->cap_asked)
		e->asked = arena_grow(e->arena, e->asked, e->nasked, &e->cap_asked, sizeof *e->asked);
	e->asked[e->nasked].a = arena_alloc(e->arena, sizeof *a);
	*e->asked[e->nasked].a = *a;
	e->asked[e->nasked].r = r;
	e->asked[e->nasked++].x = x;
}

/* Each value as the block behind the loads sees it. */
static void close_front(struct emit *e, LLVMBasicBlockRef loads)
{
	LLVMBasicBlockRef before = e->before_asked, end = LLVMGetInsertBlock(e->b), behind = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildBr(e->b, behind);
	LLVMPositionBuilderAtEnd(e->b, before);
	LLVMBasicBlockRef without = e->repeats ? LLVMAppendBasicBlockInContext(e->ctx, e->fn, "") : before;
	LLVMBuildCondBr(e->b, e->machine->certain(e), loads, e->repeats ? without : behind);
	if (e->repeats) {                                /* else each would have to keep what it was the time before */
		LLVMPositionBuilderAtEnd(e->b, without);
		e->machine->keep_order(e);
		LLVMBuildBr(e->b, behind);
	}
	LLVMPositionBuilderAtEnd(e->b, behind);
	e->before_asked = NULL;
	for (int n = 0; n < e->nasked; n++) {
		LLVMTypeRef t = LLVMTypeOf(e->asked[n].x);
		LLVMValueRef none = e->repeats ? LLVMConstNull(t) : LLVMGetUndef(t), phi = LLVMBuildPhi(e->b, t, "");
		LLVMAddIncoming(phi, &e->asked[n].x, &end, 1);
		LLVMAddIncoming(phi, &none, &without, 1);
		e->asked[n].x = phi;
	}
	for (int n = 0; n < e->nasked; n++)
		emit_loaded(e, e->asked[n].a, e->asked[n].r, e->asked[n].x);
	for (int n = 0; e->ahead && n < e->nasked; n++)
		if (n + 1 == e->nasked || e->asked[n + 1].a->i != e->asked[n].a->i)
			ahead_fetch(e, e->asked[n].a);
	e->nasked = 0;
}

const struct ir_ins *emit_front(struct emit *e, const struct ir_block *b)
{
	struct front f = {0};
	bool asked = false;
	if (e->machine->certain && !e->has_dot && !e->loop_depth && e->v->aligned)
		f = front_of(e, b);
	bool tiles = f.rows && !e->v->single && !e->v->few && (f.bytes <= FEW_ACCESSES || e->cluster) && ir_has(e->ph->body, IR_RELAYOUT);
	if (f.bytes <= ONE_ACCESS || (!tiles && (f.rows != 1 || !f.shared)))
		return b->first;
	for (const struct ir_ins *i = b->first; i != f.last && !e->failed; i = i->next) {
		asked = asked || i == f.first;
		if (!(asked && i->op == IR_LOAD))
			emit_instruction(e, i);
	}
	int mark = index_mark(e);
	LLVMBasicBlockRef loads = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	e->before_asked = LLVMGetInsertBlock(e->b);
	LLVMPositionBuilderAtEnd(e->b, loads);
	for (const struct ir_ins *i = f.first; i != f.last->next && !e->failed; i = i->next)
		if (i->op == IR_LOAD)
			emit_instruction(e, i);
	index_release(e, mark);
	if (!e->failed)
		close_front(e, loads);
	return f.last->next;
}
