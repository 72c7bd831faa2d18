/* memory.c -- accesses through buffer descriptors.
 * The uniform part of an address goes into the descriptor's base, constants of registers into the instruction's immediate and the
 * scalar offset.  A lane that is masked off gets an offset beyond the descriptor's range: loads give 0 and stores vanish, without
 * branches.  An absent optional tensor is a descriptor of size 0.  Of rows that a loop loads for products the descriptor's range ends with the last one
 * that is there, in scalar registers: no lane is asked. */
#include "machine.h"

#include "../../pass.h"

enum { OUT_OF_RANGE = (int)0x80000000u };
enum { OF_THE_CHIP = 1 << 4 };     /* a buffer access's sc1: past what one die's caches keep, as LLVM's memory model has it for monotonic loads of an agent */

/* Global accesses take a scalar base, a lane offset and an immediate below 4096. */
static bool is_plain(struct emit *e, const struct access *a)
{
	if (e->has_dot || a->mask || a->loose >= 0 || a->step || a->by || variant_may_lack(e->v, e->k, a->i->imm) || !a->affine || a->fold || !a->l || a->i->op == IR_UPDATE || a->first ||
	    (a->i->op == IR_LOAD && access_bytes(a) < 4))
		return false;
	int regs = layout_regs(a->l);
	for (int d = 0; d < a->t->rank; d++)
		for (int x = 0; x < e->ph->naxes; x++) {
			int64_t most = a->sub[d].coef[x] * index_register(a->l, regs - 1, x) * a->bytes;
			if (a->sub[d].coef[x] < 0 || (most && (e->tensors[a->i->imm].stride[d] || most > 4095 - 16)))
				return false;
		}
	return true;
}

/* One number for the whole workgroup, of a tensor that nobody writes: scalar memory. */
static bool is_scalar(struct emit *e, const struct access *a)
{
	if (a->i->op != IR_LOAD || a->l || a->mask || a->step || a->by || a->bytes != 4 || variant_may_lack(e->v, e->k, a->i->imm) || a->t->role != IR_IN || e->has_dot)
		return false;
	for (int d = 0; d < a->t->rank; d++)
		if (!a->sub[d].ok)
			return false;
	return true;
}

/* The position in dimension d is that of the loop's axis, and below `end`, which is one for the workgroup. */
struct rows { const struct ir_ins *end; int d, axis; };

static bool is_of_rows(struct emit *e, const struct access *a, const struct ir_ins *m, struct rows *r)
{
	*r = (struct rows){.d = -1};
	for (int d = 0; m->op == IR_LT && d < a->t->rank - 1; d++)
		if (m->args[0] == a->i->args[d] && m->args[0]->op == IR_IOTA && m->args[0]->imm == e->loop_axis)
			*r = (struct rows){m->args[1], d, e->loop_axis};
	return r->d >= 0 && !m->args[1]->axes;
}

/* Rows do not meet, a row begins where its dimension does, and nothing else is another for each lane: what lies behind the last row's begin and its
 * stride is of no row that is there. */
static bool lies_in_rows(struct emit *e, const struct access *a, int row)
{
	int last = a->t->rank - 1;
	bool so = a->affine && !a->fold && !a->step && !a->joined && !a->pairs && a->l && a->sub[last].ok && !a->sub[last].nterms && !a->sub[last].constant && !e->tensors[a->i->imm].stride[last];
	for (int d = 0; so && d < a->t->rank; d++)
		for (int x = 0; so && x < e->ph->naxes; x++)
			so = !a->sub[d].coef[x] || (d == last ? e->ph->axes[x].kind == AXIS_HELD : d == row || layout_size(a->l, x) == 1);
	return so;
}

/* Bytes up to the end of the last row that is there; NULL = lanes are asked.  Takes that question out of the mask. */
static LLVMValueRef size_of_rows(struct emit *e, struct access *a)
{
	struct rows r = {.d = -1};
	if (!e->has_dot || !e->v->aligned || !e->loop_body || a->i->op != IR_LOAD || a->t->role != IR_IN || !a->mask || a->on || variant_may_lack(e->v, e->k, a->i->imm))
		return NULL;
	const struct ir_ins *rest = NULL, *m = a->mask;
	bool found = is_of_rows(e, a, m, &r);
	for (int n = 0; !found && m->op == IR_AND && n < 2; n++) {
		found = is_of_rows(e, a, m->args[n], &r);
		rest = m->args[!n];
	}
	if (!found || !lies_in_rows(e, a, r.d))
		return NULL;
	a->mask = rest;
	emit_condition(e, hexpr_op(e->arena, HX_LE, a->t->extent[a->t->rank - 1], hexpr_leaf(e->arena, HX_STRIDE, a->i->imm * 16 + r.d)));
	LLVMValueRef left = LLVMBuildSub(e->b, index_value(e, r.end, NULL, 0), e->axis_base[r.axis], "");
	left = op_whole(e, "llvm.smin", (LLVMValueRef[]){left, emit_int(e, e->ph->axes[r.axis].tile)}, 2);
	left = LLVMBuildAnd(e->b, left, LLVMBuildNot(e->b, LLVMBuildAShr(e->b, left, emit_int(e, 31), ""), ""), "");      /* of smin and smax LLVM makes what lanes have */
	return op_times(e, LLVMBuildMul(e->b, left, LLVMBuildTrunc(e->b, e->tensors[a->i->imm].stride[r.d], e->i32, ""), ""), a->bytes);
}

void amdgcn_access_open(struct emit *e, struct access *a, LLVMValueRef elements)
{
	a->plain = is_plain(e, a) || is_scalar(e, a);
	a->ranged = false;
	if (a->plain) {
		a->base = access_base(e, a, elements);
		return;
	}
	LLVMValueRef size = size_of_rows(e, a), pointer = e->tensors[a->i->imm].pointer;
	a->ranged = size;
	size = size ? size : emit_int(e, 0x7ffffffc);
	if (variant_may_lack(e->v, e->k, a->i->imm)) {
		LLVMBasicBlockRef here = emit_before_loop(e);
		size = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, pointer, LLVMConstNull(e->p1), ""), emit_int(e, 0), size, "");
		emit_continue(e, here);
	}
	LLVMValueRef words = LLVMGetPoison(emit_vector(e->i32, 4)), at = LLVMBuildPtrToInt(e->b, access_base(e, a, elements), e->i64, "");
	if (a->by) {
		at = emit_carried(e, at, a->by);
		emit_continue(e, a->in_loop);
	}
	LLVMValueRef halves = LLVMBuildBitCast(e->b, at, emit_vector(e->i32, 2), "");
	LLVMValueRef word[4] = {vector_part(e, halves, 0, 1), vector_part(e, halves, 1, 1), size, emit_int(e, 0x27000)};
	for (int w = 0; w < 4; w++)
		words = LLVMBuildInsertElement(e->b, words, word[w], emit_int(e, w), "");
	a->base = words;
}

/* NULL is nothing. */
static LLVMValueRef plus(struct emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return a && b ? LLVMBuildAdd(e->b, a, b, "") : a ? a : b;
}

/* Operands of a buffer access at register r: offset by lane, scalar offset. */
static void access_at(struct emit *e, const struct access *a, int r, LLVMValueRef *voffset, LLVMValueRef *soffset)
{
	int64_t constant;
	LLVMValueRef uniform, vector, off = a->lane;
	access_offset(e, a, r, &constant, &uniform, &vector);
	if (vector)
		off = LLVMBuildAdd(e->b, off, vector, "");
	int64_t immediate = constant & 4095;
	if (a->ranged) {                                     /* whether a scalar offset counts for the range is not the same on all chips, by what is written of them */
		off = LLVMBuildAdd(e->b, off, plus(e, uniform, emit_int(e, constant - immediate)), "");
		uniform = NULL;
		constant = immediate;
	}
	*soffset = plus(e, plus(e, uniform, a->step), constant == immediate ? NULL : emit_int(e, constant - immediate));
	*soffset = *soffset ? *soffset : emit_int(e, 0);
	if (e->forgets && !e->has_dot) {
		LLVMValueRef missing = access_missing(e, a, r);
		off = missing ? LLVMBuildOr(e->b, off, LLVMBuildAnd(e->b, missing, emit_int(e, OUT_OF_RANGE), ""), "") : off;
	} else {
		LLVMValueRef on = access_condition(e, a, r);
		off = on ? LLVMBuildSelect(e->b, on, off, emit_int(e, OUT_OF_RANGE), "") : off;
	}
	*voffset = immediate ? LLVMBuildAdd(e->b, off, emit_int(e, immediate), "") : off;    /* behind the mask: one offset for all that it masks */
}

static LLVMValueRef plain_pointer(struct emit *e, const struct access *a, int r)
{
	int64_t constant;
	LLVMValueRef uniform, vector;
	access_offset(e, a, r, &constant, &uniform, &vector);
	LLVMValueRef lane = LLVMBuildZExt(e->b, a->lane, e->i64, ""), at = LLVMConstInt(e->i64, (uint64_t)constant, 0);
	LLVMValueRef p = LLVMBuildGEP2(e->b, e->i8, a->base, &lane, 1, "");
	return constant ? LLVMBuildGEP2(e->b, e->i8, p, &at, 1, "") : p;
}

LLVMValueRef amdgcn_load(struct emit *e, const struct access *a, int r, LLVMTypeRef t)
{
	if (a->plain) {
		LLVMValueRef p = plain_pointer(e, a, r);
		if (!a->l)
			p = LLVMBuildAddrSpaceCast(e->b, p, LLVMPointerTypeInContext(e->ctx, 4), "");
		LLVMValueRef x = LLVMBuildLoad2(e->b, t, p, "");
		LLVMSetAlignment(x, (unsigned)access_bytes(a));
		return x;
	}
	LLVMValueRef args[4] = {a->base, NULL, NULL, emit_int(e, a->i->flags & IR_RELAXED ? OF_THE_CHIP : 0)};
	access_at(e, a, r, &args[1], &args[2]);
	return emit_call(e, "llvm.amdgcn.raw.buffer.load", &t, 1, args, 4);
}

void amdgcn_store(struct emit *e, const struct access *a, int r, LLVMValueRef x)
{
	if (a->plain) {
		LLVMSetAlignment(LLVMBuildStore(e->b, x, plain_pointer(e, a, r)), (unsigned)access_bytes(a));
		return;
	}
	LLVMTypeRef t = LLVMTypeOf(x);
	LLVMValueRef args[5] = {x, a->base, NULL, NULL, emit_int(e, 0)};
	access_at(e, a, r, &args[2], &args[3]);
	emit_call(e, "llvm.amdgcn.raw.buffer.store", &t, 1, args, 5);
}

/* max and min of floats by their bits, which compare as integers do where the sign is clear and the other way round where it is set:
 * x with a clear sign raises the stored word as a signed integer (below any of them lie all words with the sign set); x with the
 * sign set lowers it as an unsigned one.  The one that does not apply to a lane is sent out of range.  -0 is below +0; a NaN is
 * never stored. */
static void update_by_bits(struct emit *e, enum ir_reduce kind, LLVMValueRef x, LLVMValueRef rsrc, LLVMValueRef voff, LLVMValueRef soff)
{
	LLVMTypeRef t = e->i32;
	LLVMValueRef bits = LLVMBuildBitCast(e->b, x, t, ""), away = emit_int(e, OUT_OF_RANGE);
	LLVMValueRef clear = LLVMBuildICmp(e->b, LLVMIntSGE, bits, emit_int(e, 0), "");
	LLVMValueRef at = LLVMBuildSelect(e->b, LLVMBuildFCmp(e->b, LLVMRealORD, x, x, ""), voff, away, "");
	bool max = kind == RED_MAX;
	LLVMValueRef plus[5] = {bits, rsrc, LLVMBuildSelect(e->b, clear, at, away, ""), soff, emit_int(e, 0)};
	LLVMValueRef minus[5] = {bits, rsrc, LLVMBuildSelect(e->b, clear, away, at, ""), soff, emit_int(e, 0)};
	emit_call(e, max ? "llvm.amdgcn.raw.buffer.atomic.smax" : "llvm.amdgcn.raw.buffer.atomic.smin", &t, 1, plus, 5);
	emit_call(e, max ? "llvm.amdgcn.raw.buffer.atomic.umin" : "llvm.amdgcn.raw.buffer.atomic.umax", &t, 1, minus, 5);
}

void amdgcn_update(struct emit *e, const struct access *a, int r, enum ir_reduce kind, LLVMValueRef x)
{
	static const char *const name[] = {[RED_SUM] = "llvm.amdgcn.raw.buffer.atomic.add", [RED_MAX] = "llvm.amdgcn.raw.buffer.atomic.smax",
	                                   [RED_MIN] = "llvm.amdgcn.raw.buffer.atomic.smin"};
	LLVMTypeRef t = LLVMTypeOf(x);
	LLVMValueRef voff, soff;
	access_at(e, a, r, &voff, &soff);
	if (t == e->f32 && kind != RED_SUM) {
		update_by_bits(e, kind, x, a->base, voff, soff);
		return;
	}
	LLVMValueRef args[5] = {x, a->base, voff, soff, emit_int(e, 0)};
	emit_call(e, t == e->f32 ? "llvm.amdgcn.raw.buffer.atomic.fadd" : name[kind], &t, 1, args, 5);
}
