/* run.c -- runs of elements that an instruction can access only where the call has them side by side and none is masked off.
 * In: a loose access.  Out: for each run one access as wide as it, made by the lanes whose runs are whole; then, behind a branch that waves
 * without others skip, the elements of the others one by one.
 * Rows whose lengths are multiples of nothing end in a part of one lane's run, and so do columns of a tile whose last rows are not there; where a
 * call's elements lie apart, no run is whole. */
#include "machine.h"
#include "memory.h"

#include "../../pass.h"

/* Where a position is there, so is every one before it. */
static bool ends(const struct ir_ins *m, int axis)
{
	if (!(m->axes & IR_AXIS(axis)))
		return true;
	if (m->op == IR_AND)
		return ends(m->args[0], axis) && ends(m->args[1], axis);
	if (m->op != IR_LT)
		return false;
	if (!(m->args[1]->axes & IR_AXIS(axis))) {       /* whatever it is, a number that was loaded too */
		struct affine p = affine_of(m->args[0]);
		return p.ok && p.coef[axis] >= 0;
	}
	struct affine d = affine_sub(affine_of(m->args[0]), affine_of(m->args[1]));
	return d.ok && d.coef[axis] >= 0;
}

bool run_can_be_loose(const struct access *a, int axis)
{
	return a->i->op != IR_UPDATE && !a->pairs && (!a->mask || ends(a->mask, axis));
}

/* i1: the call has the tensor's elements side by side, or has no such tensor, of which nothing is accessed; NULL = always. */
static LLVMValueRef are_beside(struct emit *e, const struct access *a)
{
	LLVMValueRef stride = e->tensors[a->i->imm].stride[a->t->rank - 1], pointer = e->tensors[a->i->imm].pointer;
	if (!stride)
		return NULL;
	LLVMValueRef one = LLVMBuildICmp(e->b, LLVMIntEQ, stride, LLVMConstInt(LLVMTypeOf(stride), 1, 0), "");
	if (!variant_may_lack(e->v, e->k, a->i->imm))
		return one;
	return LLVMBuildOr(e->b, one, LLVMBuildICmp(e->b, LLVMIntEQ, pointer, LLVMConstNull(e->p1), ""), "");
}

/* One run, by lane (i1): whole, or not whole, but some of it may be there; NULL = runs are whole in any case. */
struct run { LLVMValueRef whole, some; };

static struct run run_of(struct emit *e, const struct access *a, int r)
{
	LLVMValueRef beside = are_beside(e, a);
	if (!beside && !(a->mask && a->mask->axes & IR_AXIS(a->loose)))
		return (struct run){NULL, NULL};
	LLVMValueRef first = emit_both(e, a->first, a->mask ? index_value(e, a->mask, a->l, r) : NULL);
	LLVMValueRef last = emit_both(e, a->first, a->mask ? index_value(e, a->mask, a->l, r + a->width - 1) : NULL);
	LLVMValueRef whole = emit_both(e, last, beside);
	return (struct run){whole, emit_both(e, LLVMBuildNot(e->b, whole, ""), first)};
}

/* Opens the block in which single elements are accessed; returns the one behind it, where all waves go. */
static LLVMBasicBlockRef open_rest(struct emit *e, const struct run *runs, int n)
{
	LLVMValueRef some = runs[0].some;
	for (int k = 1; k < n; k++)
		some = LLVMBuildOr(e->b, some, runs[k].some, "");
	LLVMValueRef lanes = e->machine->ballot(e, some);
	LLVMBasicBlockRef rest = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), join = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildCondBr(e->b, LLVMBuildICmp(e->b, LLVMIntNE, lanes, LLVMConstNull(LLVMTypeOf(lanes)), ""), rest, join);
	LLVMPositionBuilderAtEnd(e->b, rest);
	return join;
}

/* An element of a run that is not whole: how it is accessed, and as which register's. */
struct single { struct access how; int reg; };

/* Element k of the run at register r; *at: its lane part, which goes on to the next element's where these lie apart in the call.  Where they never do
 * each is where its register says. */
static struct single single(struct emit *e, const struct access *a, const struct run *run, int r, int k, LLVMValueRef *at)
{
	struct single one = {*a, r + k};
	LLVMValueRef stride = e->tensors[a->i->imm].stride[a->t->rank - 1];
	one.how.width = 1;
	one.how.on = emit_both(e, run->some, a->mask ? index_value(e, a->mask, a->l, r + k) : NULL);
	if (!stride)
		return one;
	one.reg = r;
	one.how.lane = *at;
	*at = LLVMBuildAdd(e->b, *at, op_times(e, LLVMBuildTrunc(e->b, stride, e->i32, ""), a->bytes), "");
	return one;
}

static int runs_of(const struct access *a) { return layout_regs(a->l) / a->width; }

void run_load(struct emit *e, struct access *a)
{
	int n = runs_of(a);
	struct run *runs = arena_alloc(e->arena, sizeof *runs * (size_t)n);
	LLVMValueRef *x = arena_alloc(e->arena, sizeof *x * (size_t)n), *y = arena_alloc(e->arena, sizeof *y * (size_t)n);
	LLVMTypeRef whole = access_type(e, a);
	for (int k = 0; k < n; k++) {
		runs[k] = run_of(e, a, k * a->width);
		a->on = runs[k].whole;
		x[k] = e->machine->load(e, a, k * a->width, whole);
	}
	if (runs[0].whole) {
		int mark = index_mark(e);
		LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), join = open_rest(e, runs, n);
		for (int k = 0; k < n; k++) {
			LLVMValueRef at = a->lane, element = NULL;
			y[k] = NULL;
			for (int w = 0; w < a->width; w++) {
				struct single one = single(e, a, &runs[k], k * a->width, w, &at);
				element = e->machine->load(e, &one.how, one.reg, access_type(e, &one.how));
				y[k] = y[k] ? y[k] : LLVMGetPoison(emit_vector(LLVMTypeOf(element), a->width));
				y[k] = LLVMBuildInsertElement(e->b, y[k], element, emit_int(e, w), "");
			}
			y[k] = LLVMBuildSelect(e->b, runs[k].some, LLVMBuildBitCast(e->b, y[k], whole, ""), x[k], "");
		}
		LLVMBasicBlockRef rest = LLVMGetInsertBlock(e->b);
		LLVMBuildBr(e->b, join);
		LLVMPositionBuilderAtEnd(e->b, join);
		index_release(e, mark);
		for (int k = 0; k < n; k++) {
			LLVMValueRef phi = LLVMBuildPhi(e->b, whole, "");
			LLVMAddIncoming(phi, &x[k], &before, 1);
			LLVMAddIncoming(phi, &y[k], &rest, 1);
			x[k] = phi;
		}
	}
	for (int k = 0; k < n; k++)
		emit_loaded(e, a, k * a->width, x[k]);
}

void run_store(struct emit *e, struct access *a, const struct ir_ins *value)
{
	int n = runs_of(a);
	struct run *runs = arena_alloc(e->arena, sizeof *runs * (size_t)n);
	LLVMValueRef *x = arena_alloc(e->arena, sizeof *x * (size_t)n);
	for (int k = 0; k < n; k++) {
		runs[k] = run_of(e, a, k * a->width);
		a->on = runs[k].whole;
		x[k] = store_word(e, a, value, k * a->width);
		e->machine->store(e, a, k * a->width, LLVMBuildBitCast(e->b, x[k], access_type(e, a), ""));
	}
	if (!runs[0].whole)
		return;
	int mark = index_mark(e);
	LLVMBasicBlockRef join = open_rest(e, runs, n);
	for (int k = 0; k < n; k++) {
		LLVMValueRef at = a->lane;
		for (int w = 0; w < a->width; w++) {
			struct single one = single(e, a, &runs[k], k * a->width, w, &at);
			e->machine->store(e, &one.how, one.reg, LLVMBuildBitCast(e->b, vector_part(e, x[k], w, 1), access_type(e, &one.how), ""));
		}
	}
	LLVMBuildBr(e->b, join);
	LLVMPositionBuilderAtEnd(e->b, join);
	index_release(e, mark);
}
