/* memory.c -- loads, stores and updates of tensors: how wide, from where, under which mask.
 * Method: an address = a uniform 64-bit part + a lane's 32-bit offset + constants of registers; the machine makes an instruction of
 * them (machine.h).  Of few rows the first two may be one number of each lane (is_joined).  Accesses are as wide as the layout's run along the contiguous axis allows where the variant says aligned and the mask is known to
 * be the same for the run; where neither is known, but the chip accesses runs that begin anywhere, they are loose (run.c), and so are stores of
 * rows that may not be there, across which a mask ends within a run. */
#include "memory.h"

#include "../../layout_choose.h"
#include "../../pass.h"
#include "machine.h"

#include <stdlib.h>

enum { STEP_BEYOND = 1 << 20 };                            /* bytes that a sweep may reach beyond a row's end */

/* --- how wide ---------------------------------------------------------------------------------------------------------- */

static int width_of(struct emit *e, struct access *a)
{
	int last = a->t->rank - 1, axis = -1;
	a->loose = -1;
	if (!a->affine || !a->l || last < 0 || !variant_in_runs(e->v))
		return 1;
	for (int x = 0; x < e->ph->naxes; x++)
		if (a->sub[last].coef[x] == 1 && layout_vector(a->l, x) > 0)
			axis = x;
	if (axis < 0)
		return 1;
	for (int d = 0; d < last; d++)
		if (a->sub[d].coef[axis])
			return 1;
	int w = 1 << layout_vector(a->l, axis);
	while (w * a->bytes > 16)
		w /= 2;
	if (!e->v->aligned) {
		a->loose = run_can_be_loose(a, axis) ? axis : -1;
		return a->loose >= 0 ? w : 1;
	}
	while (w > 1 && (!index_base_divides(e, axis, w) || index_divisor(e, &a->sub[last], axis, a->i->imm) % w))
		w /= 2;
	bool parts = a->mask && w > 1 && !index_mask_is_run(e, a->mask, axis, w, a->i->imm);
	if (parts && a->i->op == IR_STORE && e->v->target->whole_runs && e->v->gaps && run_can_be_loose(a, axis))
		a->loose = axis;
	while (parts && a->loose < 0 && w > 1 && !index_mask_is_run(e, a->mask, axis, w, a->i->imm))
		w /= 2;
	if (w > 1 && e->v->unit >> a->i->imm & 1)
		emit_condition(e, hexpr_leaf(e->arena, HX_ALIGNED, a->i->imm));
	return w;
}

/* --- address parts -------------------------------------------------------------------------------------------------------- */

static LLVMValueRef wide(struct emit *e, LLVMValueRef v, bool positive)
{
	return LLVMTypeOf(v) == e->i64 ? v : positive ? LLVMBuildZExt(e->b, v, e->i64, "") : LLVMBuildSExt(e->b, v, e->i64, "");
}

static LLVMValueRef narrow(struct emit *e, LLVMValueRef v)
{
	return LLVMTypeOf(v) == e->i32 ? v : LLVMBuildTrunc(e->b, v, e->i32, "");
}

static LLVMValueRef stride_of(struct emit *e, const struct access *a, int d)
{
	LLVMValueRef s = e->tensors[a->i->imm].stride[d];
	return s ? s : LLVMConstInt(e->i64, 1, 0);
}

/* Uniform part of subscript d: constants, scalars and tile bases. */
static LLVMValueRef uniform_part(struct emit *e, const struct affine *f)
{
	LLVMValueRef sum = f->constant ? emit_int(e, f->constant) : NULL;
	for (int t = 0; t < f->nterms; t++) {
		LLVMValueRef x = f->term[t].of ? e->values[f->term[t].of->id].group[0] : e->symbols[f->term[t].symbol];
		if (LLVMTypeOf(x) == e->i64)
			x = LLVMBuildTrunc(e->b, x, e->i32, "");
		if (f->term[t].coef != 1)
			x = op_times(e, x, f->term[t].coef);
		sum = sum ? LLVMBuildAdd(e->b, sum, x, "") : x;
	}
	for (int a = 0; a < e->ph->naxes; a++) {
		if (!f->coef[a] || !e->axis_base[a])
			continue;
		LLVMValueRef x = e->axis_base[a];
		if (f->coef[a] != 1)
			x = op_times(e, x, f->coef[a]);
		sum = sum ? LLVMBuildAdd(e->b, sum, x, "") : x;
	}
	return sum;
}

static bool lane_varies(struct emit *e, const struct access *a, int d)
{
	for (int x = 0; x < e->ph->naxes; x++)
		if (a->sub[d].coef[x] && a->l && layout_size(a->l, x) > 1)
			return true;
	return false;
}

static LLVMValueRef plus(struct emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return a ? LLVMBuildAdd(e->b, a, b, "") : b;
}

/* Row s of a folded tensor as (row / inner, row % inner).  The workgroup's row is the same for every tensor: once, where it is known. */
static void split_row(struct emit *e, LLVMValueRef s, LLVMValueRef *q, LLVMValueRef *r)
{
	if (e->folded.row == s) {
		*q = e->folded.q;
		*r = e->folded.r;
		return;
	}
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	bool once = LLVMIsACallInst(s) != NULL;
	LLVMValueRef behind = once ? LLVMGetNextInstruction(s) : NULL;
	if (behind)
		LLVMPositionBuilderBefore(e->b, behind);
	*q = LLVMBuildUDiv(e->b, s, e->fold_inner, "");
	*r = LLVMBuildSub(e->b, s, LLVMBuildMul(e->b, *q, e->fold_inner, ""), "");
	emit_continue(e, here);
	if (once) {
		e->folded.row = s;
		e->folded.q = *q;
		e->folded.r = *r;
	}
}

/* Element offset of subscript value s (i32) along dimension d, i64; dimension 0 may be a fold of two. */
static LLVMValueRef offset_along(struct emit *e, const struct access *a, int d, LLVMValueRef s)
{
	if (d || !a->fold) {
		LLVMValueRef stride = e->tensors[a->i->imm].stride[d];
		s = wide(e, s, affine_never_negative(&a->sub[d]) && !a->scalar[d]);
		return stride ? LLVMBuildMul(e->b, s, wide(e, stride, true), "") : s;
	}
	LLVMValueRef q, r;
	split_row(e, s, &q, &r);
	LLVMValueRef x = LLVMBuildMul(e->b, wide(e, q, true), e->tensors[a->i->imm].fold_stride, "");
	return LLVMBuildAdd(e->b, x, LLVMBuildMul(e->b, wide(e, r, true), wide(e, stride_of(e, a, 0), true), ""), "");
}

LLVMValueRef access_base(struct emit *e, const struct access *a, LLVMValueRef elements)
{
	LLVMValueRef base = e->tensors[a->i->imm].pointer;
	if (!elements)
		return base;
	if (a->pairs)
		elements = LLVMBuildLShr(e->b, elements, LLVMConstInt(e->i64, 1, 0), "");
	LLVMValueRef bytes = op_times(e, elements, a->bytes);
	return LLVMBuildGEP2(e->b, e->i8, base, &bytes, 1, "");
}

/* Takes what grows from round to round out of f: never negative, as an unsigned offset has to be. */
static struct affine carried_taken(struct affine *f)
{
	struct affine carried = {.ok = true};
	int n = 0;
	for (int t = 0; t < f->nterms; t++) {
		if (f->term[t].of && f->term[t].coef > 0 && value_counts_up(f->term[t].of))
			carried.term[carried.nterms++] = f->term[t];
		else
			f->term[n++] = f->term[t];
	}
	f->nterms = n;
	return carried;
}

/* Where the machine adds it for nothing, the part of a contiguous dimension that changes from round to round stays out of the base,
 * which is then made once before the loop.  The dimension's bytes have to fit 31 bits. */
static void step_of(struct emit *e, struct access *a, int d, struct affine *f)
{
	if (!e->machine->scalar_offsets || e->has_dot || e->tensors[a->i->imm].stride[d] || a->pairs)
		return;
	struct affine carried = carried_taken(f);
	LLVMValueRef u = carried.nterms ? uniform_part(e, &carried) : NULL;
	if (!u)
		return;
	a->step = op_times(e, u, a->bytes);
	emit_condition(e, hexpr_op(e->arena, HX_LE, a->t->extent[d], hexpr_const(e->arena, (INT32_MAX - STEP_BEYOND) / a->bytes)));
}

/* The same in every round of the loop around it. */
static bool constant_in_loop(const struct emit *e, const struct affine *f)
{
	for (int t = 0; t < f->nterms; t++)
		for (const struct ir_block *b = f->term[t].of ? f->term[t].of->block : NULL; b; b = b->owner ? b->owner->block : NULL)
			if (b == e->loop_body)
				return false;
	for (int x = 0; x < e->ph->naxes; x++)
		if (f->coef[x] && e->ph->axes[x].kind == AXIS_LOOP)
			return false;
	return true;
}

/* What is added to f from each round of the loop around the access to the next; false where it changes in another way. */
static bool growth_of(const struct emit *e, const struct affine *f, int64_t *by)
{
	*by = f->coef[e->loop_axis] * e->ph->axes[e->loop_axis].tile;
	for (int t = 0; t < f->nterms; t++) {
		const struct ir_ins *of = f->term[t].of;
		struct affine alone = {.ok = true, .nterms = 1, .term = {f->term[t]}};
		if (constant_in_loop(e, &alone))
			continue;
		if (of->block != e->loop_body || !value_counts_up(of) || of->block->owner->args[2 + of->imm]->imm)
			return false;
		*by += f->term[t].coef * of->block->last->args[of->imm]->args[1]->imm;
	}
	return true;
}

/* Without what has grown before the first round: nothing. */
static struct affine at_start(const struct emit *e, const struct affine *f)
{
	struct affine start = *f;
	start.nterms = 0;
	for (int t = 0; t < f->nterms; t++)
		if (!f->term[t].of || f->term[t].of->block != e->loop_body)
			start.term[start.nterms++] = f->term[t];
	return start;
}

/* The base of an access whose subscripts grow by the same from round to round: made once, before the loop, and carried around it. */
static LLVMValueRef carried_base(struct emit *e, struct access *a, struct affine *f, const bool *uniform)
{
	LLVMValueRef base = NULL, pos = e->axis_base[e->loop_axis];
	e->axis_base[e->loop_axis] = e->loop_start;
	for (int d = 0; d < a->t->rank; d++) {
		int64_t by = 0;
		if (!uniform[d])
			continue;
		if (!a->scalar[d])
			growth_of(e, &f[d], &by);
		struct affine start = at_start(e, &f[d]);
		LLVMValueRef u = a->scalar[d] ? index_value(e, a->i->args[d], NULL, 0) : uniform_part(e, &start);
		if (u)
			base = plus(e, base, offset_along(e, a, d, u));
		if (by)
			a->by = plus(e, a->by, op_times(e, wide(e, stride_of(e, a, d), true), by * a->bytes));
	}
	e->axis_base[e->loop_axis] = pos;
	return base;
}

/* Something changes from round to round, and all that does grows by the same. */
static bool is_carried(struct emit *e, const struct access *a, const struct affine *f, const bool *uniform, const bool *constant)
{
	bool grows = false;
	int64_t by;
	if (!e->machine->scalar_offsets || e->has_dot || !e->loop_body || a->pairs)
		return false;
	for (int d = 0; d < a->t->rank; d++) {
		if (!uniform[d] || constant[d])
			continue;
		if (a->scalar[d] || (a->fold && d == 0) || !growth_of(e, &f[d], &by))
			return false;
		grows = grows || by;
	}
	return grows;
}

/* Lane part of the dimensions that vary by lane and register, in bytes. */
static LLVMValueRef lane_of(struct emit *e, const struct access *a)
{
	LLVMValueRef lane = NULL;
	for (int d = 0; d < a->t->rank; d++) {
		if (!a->sub[d].ok || (a->fold && d == 0) || (a->t->list && d == 0) || !lane_varies(e, a, d))
			continue;
		LLVMValueRef stride = e->tensors[a->i->imm].stride[d];
		int64_t coef[LAYOUT_AXES] = {0};
		for (int x = 0; x < e->ph->naxes; x++)
			coef[x] = a->sub[d].coef[x] * (stride ? 1 : a->bytes);
		LLVMValueRef p = index_lanes(e, a->l, coef);
		if (LLVMIsConstant(p))
			continue;
		if (stride)
			p = LLVMBuildMul(e->b, p, op_times(e, narrow(e, stride), a->bytes), "");
		lane = lane ? LLVMBuildAdd(e->b, lane, p, "") : p;
	}
	if (lane && a->pairs)
		lane = LLVMBuildLShr(e->b, lane, emit_int(e, 1), "");
	return lane ? lane : emit_int(e, 0);
}

/* Made of the grid's and the call's numbers alone, which are there when the block begins. */
static bool known_early(const struct emit *e, const struct access *a, const struct affine *f)
{
	bool early = !e->loop_depth && !a->fold;
	for (int d = 0; d < a->t->rank; d++)
		for (int t = 0; t < f[d].nterms; t++)
			early = early && !f[d].term[t].of;
	for (int d = 0; d < a->t->rank; d++)
		early = early && !a->scalar[d] && f[d].ok;
	return early;
}

static void count_round(struct ir_ins *i, void *ctx)
{
	*(int *)ctx += pass_ends_round(i);
}

/* A lane's position and the workgroup's are one number, which the stride is multiplied with once: four instructions an access fewer, for which few
 * rows wait before anything is loaded.  Of many rows ptxas has no register for it at times, and rows that wait twice lose by it: weights are
 * then asked for later still (docs/performance.md). */
static bool is_joined(const struct emit *e, const struct access *a)
{
	int rounds = 0;
	if (!e->machine->joins || !e->v->few || !e->v->aligned || !a->affine || a->loose >= 0 || a->fold || a->t->list || a->pairs || e->loop_depth)
		return false;
	ir_walk(e->ph->body, count_round, &rounds);
	return rounds < 2;
}

/* A dimension is uniform (its whole subscript goes into the base) or varies by lane and register.  What is the same in every round of
 * the loop around the access is computed before it. */
static void address_parts(struct emit *e, struct access *a)
{
	struct affine f[6];
	bool uniform[6], constant[6], all = true;
	a->step = a->by = NULL;
	for (int d = 0; d < a->t->rank; d++) {
		f[d] = a->sub[d];
		/* else by register (access_offset); the pointer is that of the list's tensor already */
		uniform[d] = f[d].ok && !(a->fold && d == 0 && lane_varies(e, a, d)) && !(a->t->list && d == 0);
		if (uniform[d] && lane_varies(e, a, d))
			step_of(e, a, d, &f[d]);
		constant[d] = !a->scalar[d] && constant_in_loop(e, &f[d]);
		all = all && (constant[d] || !uniform[d]);
	}
	LLVMBasicBlockRef here = e->before_asked && !e->loop_body ? emit_before_asked(e) : emit_before_loop(e);
	a->lane = lane_of(e, a);
	a->joined = is_joined(e, a);
	a->in_loop = here;
	if (!e->late && is_carried(e, a, f, uniform, constant)) {
		e->machine->access_open(e, a, carried_base(e, a, f, uniform));
		emit_continue(e, here);
		return;
	}
	LLVMValueRef base = NULL;
	bool early = known_early(e, a, f);
	for (int part = 0; part < 2; part++) {
		for (int d = 0; d < a->t->rank; d++) {
			if (!uniform[d] || constant[d] != (part == 0))
				continue;
			if (early)
				emit_in_gap(e, 2);
			LLVMValueRef u = a->scalar[d] ? index_value(e, a->i->args[d], NULL, 0) : uniform_part(e, &f[d]);
			if (a->joined && lane_varies(e, a, d))
				u = plus(e, u, index_lanes(e, a->l, f[d].coef));
			if (u)
				base = plus(e, base, offset_along(e, a, d, u));
		}
		if (part == 0 && !all)
			emit_continue(e, here);
	}
	if (early)
		emit_in_gap(e, 2);
	e->machine->access_open(e, a, base);
	emit_continue(e, here);
}

void access_offset(struct emit *e, const struct access *a, int r, int64_t *constant, LLVMValueRef *uniform, LLVMValueRef *vector)
{
	*constant = 0;
	*uniform = *vector = NULL;
	for (int d = 0; d < a->t->rank; d++) {
		bool whole = !a->sub[d].ok || (a->fold && d == 0 && lane_varies(e, a, d));
		if (whole) {
			LLVMValueRef s = index_value(e, a->i->args[d], a->l, r);
			LLVMValueRef off = LLVMBuildTrunc(e->b, offset_along(e, a, d, s), e->i32, "");
			off = op_times(e, off, a->bytes);
			*vector = *vector ? LLVMBuildAdd(e->b, *vector, off, "") : off;
			continue;
		}
		int64_t pos = 0;
		for (int x = 0; a->l && x < e->ph->naxes; x++)
			if (a->sub[d].coef[x])
				pos += a->sub[d].coef[x] * index_register(a->l, r, x);
		if (!pos)
			continue;
		if (!e->tensors[a->i->imm].stride[d]) {
			*constant += pos * a->bytes;
			continue;
		}
		LLVMBasicBlockRef here = emit_before_loop(e);
		LLVMValueRef u = op_times(e, narrow(e, stride_of(e, a, d)), pos * a->bytes);
		emit_continue(e, here);
		*uniform = *uniform ? LLVMBuildAdd(e->b, *uniform, u, "") : u;
	}
	if (a->pairs) {                                /* each even by itself: open_pairs */
		*constant /= 2;
		*uniform = *uniform ? LLVMBuildLShr(e->b, *uniform, emit_int(e, 1), "") : NULL;
		*vector = *vector ? LLVMBuildLShr(e->b, *vector, emit_int(e, 1), "") : NULL;
	}
	if (*uniform && a->width == 1) {               /* many single elements: their offsets would fill the scalar registers */
		*vector = *vector ? LLVMBuildAdd(e->b, *vector, *uniform, "") : *uniform;
		*uniform = NULL;
	}
}

/* Offsets inside a tile are 32-bit: a stride of dimension d may be at most (2^31 - 1) / (span * bytes), unless the dimension has one
 * position; where the subscript is computed by lane, span is the tensor's extent. */
static void limit_strides(struct emit *e, const struct access *a)
{
	struct arena *ar = e->arena;
	for (int d = 0; d < a->t->rank; d++) {
		bool computed = !a->sub[d].ok || (a->fold && d == 0 && lane_varies(e, a, d));
		int64_t span = 0;
		for (int x = 0; !computed && a->l && x < e->ph->naxes; x++)
			span += llabs(a->sub[d].coef[x]) * (layout_size(a->l, x) - 1);
		if (!e->tensors[a->i->imm].stride[d] || a->t->role == IR_TEMP || (!computed && !span))
			continue;
		const struct hexpr *stride = hexpr_leaf(ar, HX_STRIDE, a->i->imm * 16 + d), *fits;
		if (computed)
			fits = hexpr_op(ar, HX_LE, hexpr_op(ar, HX_MUL, stride, a->t->extent[d]), hexpr_const(ar, INT32_MAX / a->bytes));
		else
			fits = hexpr_op(ar, HX_LE, stride, hexpr_const(ar, INT32_MAX / (span * a->bytes)));
		fits = hexpr_op(ar, HX_OR, hexpr_op(ar, HX_LE, a->t->extent[d], hexpr_const(ar, 1)), fits);
		emit_condition(e, fits);
	}
}

/* Pairs along one axis, either in adjacent registers, which width_of then finds or which a pair of registers makes, or in two lanes. */
static void open_pairs(struct emit *e, struct access *a)
{
	int last = a->t->rank - 1, axis = -1;
	for (int x = 0; a->l && last >= 0 && x < e->ph->naxes; x++)
		if (a->sub[last].ok && a->sub[last].coef[x] == 1 && layout_size(a->l, x) > 1)
			axis = x;
	bool fits = axis >= 0 && a->affine && a->t->role != IR_TEMP && a->i->op != IR_UPDATE && index_base_divides(e, axis, 2) &&
	            index_divisor(e, &a->sub[last], axis, a->i->imm) % 2 == 0;
	a->torn = fits && a->mask && !index_mask_is_run(e, a->mask, axis, 2, a->i->imm);
	for (int d = 0; fits && d < last; d++)
		fits = !a->sub[d].coef[axis];
	bool in_registers = fits && layout_vector(a->l, axis) > 0;
	if (fits && !in_registers) {
		a->pair_bit = layout_lane_bit(a->l, axis);
		fits = a->pair_bit >= 0;
	}
	if (!fits) {
		emit_fail(e, a->i, "this access of %s is not lowered yet: pairs of elements must be even positions of one axis and their neighbours", dtype_info(a->t->dtype)->name);
		return;
	}
	a->pair_axis = axis;
	a->width = in_registers && a->width < 2 ? 2 : a->width;
}

/* i1: this lane's position along the axis of pairs is odd. */
static LLVMValueRef is_odd(struct emit *e, const struct access *a)
{
	return LLVMBuildTrunc(e->b, index_lane(e, a->l, a->pair_axis), e->i1, "");
}

static int64_t row_bytes_of(struct emit *e, const struct access *a)
{
	int last = a->t->rank - 1;
	bool several = false;
	int64_t n = 1;
	if (a->i->op != IR_STORE || !a->affine || !a->l || e->loop_depth)
		return 0;
	for (int d = 0; d < last; d++)
		several = several || lane_varies(e, a, d);
	for (int x = 0; several && x < e->ph->naxes; x++)
		n += llabs(a->sub[last].coef[x]) * (layout_size(a->l, x) - 1);
	return several ? a->pairs ? (n + 1) / 2 : n * a->bytes : 0;
}

LLVMValueRef emit_both(struct emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return a && b ? LLVMBuildAnd(e->b, a, b, "") : a ? a : b;
}

/* An update by what each wave has. */
static bool is_by_waves(const struct emit *e, const struct ir_ins *i) { return i->op == IR_UPDATE && reduce_is_of_waves(e, i->args[e->k->params[i->imm].rank]); }

void access_open(struct emit *e, struct access *a, const struct ir_ins *i, const struct layout *l)
{
	a->i = i;
	a->torn = false;
	a->on = a->all = a->first = NULL;
	a->t = &e->k->params[i->imm];
	a->l = l;
	arguments_bind(e, (int)i->imm);
	a->mask = i->flags & IR_MASKED ? i->args[i->nargs - 1] : NULL;
	a->bytes = dtype_info(a->t->dtype)->bits / 8;
	a->affine = true;
	a->fold = e->tensors[i->imm].fold_stride != NULL;
	for (int d = 0; d < a->t->rank; d++) {
		a->sub[d] = affine_of(i->args[d]);
		a->scalar[d] = !a->sub[d].ok && !wide_axes(e->ph, i->args[d]->axes);
		if (a->scalar[d])
			a->sub[d] = (struct affine){.ok = true};
		for (int x = 0; l && x < e->ph->naxes; x++)     /* offsets are unsigned: what counts down is computed by register */
			if (a->sub[d].coef[x] < 0 && layout_size(l, x) > 1)
				a->sub[d] = (struct affine){.ok = false};
		a->affine = a->affine && a->sub[d].ok;
	}
	a->pairs = dtype_info(a->t->dtype)->bits < 8;
	a->bytes = a->pairs ? 1 : a->bytes;
	a->width = width_of(e, a);
	a->row_bytes = row_bytes_of(e, a);
	if (a->pairs)
		open_pairs(e, a);
	if (e->failed)
		return;
	limit_strides(e, a);
	if (i->op != IR_LOAD)
		a->first = is_by_waves(e, i) ? index_is_first_lane(e) : index_is_first_copy(e, l, i->op == IR_STORE && !a->pairs);
	if (i->op == IR_STORE)
		a->first = emit_both(e, a->first, store_is_first(e, a));
	address_parts(e, a);
	if (a->pairs && a->width == 1 && i->op == IR_STORE) {       /* of two lanes the even one stores */
		LLVMValueRef even = LLVMBuildNot(e->b, is_odd(e, a), "");
		a->first = emit_both(e, a->first, even);
	}
}

LLVMValueRef access_condition(struct emit *e, const struct access *a, int r)
{
	if (a->on)
		return a->on;
	return emit_both(e, a->first, a->mask ? index_value(e, a->mask, a->l, r) : NULL);
}

/* Positions, extents, and sums of them: differences of two do not overflow. */
static bool counts(const struct ir_ins *i)
{
	struct affine f = affine_of(i);
	return i->dtype == DT_I32 && affine_never_negative(&f);
}

/* An i32 whose highest bit is set where the mask is false. */
static LLVMValueRef missing_sign(struct emit *e, const struct ir_ins *m, const struct layout *l, int r)
{
	if (m->op == IR_AND)
		return LLVMBuildOr(e->b, missing_sign(e, m->args[0], l, r), missing_sign(e, m->args[1], l, r), "");
	if ((m->op == IR_LT || m->op == IR_LE) && counts(m->args[0]) && counts(m->args[1])) {
		LLVMValueRef end = index_value(e, m->args[1], l, r);
		if (m->op == IR_LT)
			end = LLVMBuildSub(e->b, end, emit_int(e, 1), "");
		return LLVMBuildSub(e->b, end, index_value(e, m->args[0], l, r), "");
	}
	if ((m->op == IR_LT || m->op == IR_LE) && counts(m->args[0]) && m->args[1]->dtype == DT_I32 && !wide_axes(e->ph, m->args[1]->axes)) {
		LLVMTypeRef t = e->i32;                    /* any number, perhaps negative: kept from wrapping */
		LLVMValueRef end[2] = {index_value(e, m->args[1], l, r), emit_int(e, m->op == IR_LT)}, at[2];
		at[0] = emit_call(e, "llvm.ssub.sat", &t, 1, end, 2);
		at[1] = index_value(e, m->args[0], l, r);
		return emit_call(e, "llvm.ssub.sat", &t, 1, at, 2);
	}
	return LLVMBuildSelect(e->b, index_value(e, m, l, r), emit_int(e, 0), emit_int(e, INT32_MIN), "");
}

LLVMValueRef access_missing(struct emit *e, const struct access *a, int r)
{
	if (a->on)
		return LLVMBuildSelect(e->b, a->on, emit_int(e, 0), emit_int(e, INT32_MIN), "");
	LLVMValueRef sign = a->mask ? missing_sign(e, a->mask, a->l, r) : NULL;
	if (a->first) {
		LLVMValueRef other = LLVMBuildSelect(e->b, a->first, emit_int(e, 0), emit_int(e, INT32_MIN), "");
		sign = sign ? LLVMBuildOr(e->b, sign, other, "") : other;
	}
	return sign;
}

/* Codes, one a byte, in adjacent registers or in two lanes -> two a byte, the even position in the low half. */
static LLVMValueRef pairs_packed(struct emit *e, const struct access *a, LLVMValueRef x)
{
	if (a->width > 1)
		return op_halves_joined(e, x);
	LLVMValueRef code = LLVMBuildZExt(e->b, x, e->i32, ""), other = e->machine->lane_xor(e, code, a->pair_bit, false);
	return LLVMBuildTrunc(e->b, LLVMBuildOr(e->b, code, LLVMBuildShl(e->b, other, emit_int(e, 4), ""), ""), e->i8, "");
}

/* The reverse: what was loaded -> codes, one a byte. */
static LLVMValueRef pairs_taken_apart(struct emit *e, const struct access *a, LLVMValueRef x)
{
	if (a->width > 1)
		return op_halves_apart(e, x, a->width);
	LLVMValueRef high = LLVMBuildLShr(e->b, x, LLVMConstInt(e->i8, 4, 0), "");
	return LLVMBuildAnd(e->b, LLVMBuildSelect(e->b, is_odd(e, a), high, x, ""), LLVMConstInt(e->i8, 15, 0), "");
}

/* Whether the elements of register r's pair are there, by the mask; the access is made where one is. */
static void open_torn(struct emit *e, struct access *a, int r, LLVMValueRef half[2])
{
	half[0] = index_value(e, a->mask, a->l, r);
	if (a->width > 1) {
		half[1] = index_value(e, a->mask, a->l, r + 1);
	} else {                                       /* the lane of the even position looks at the odd one's, and the other way round */
		LLVMValueRef other = e->machine->lane_xor(e, LLVMBuildZExt(e->b, half[0], e->i32, ""), a->pair_bit, false);
		half[1] = LLVMBuildICmp(e->b, LLVMIntNE, other, emit_int(e, 0), "");
	}
	a->on = LLVMBuildOr(e->b, half[0], half[1], "");
	a->on = emit_both(e, a->on, a->first);
}

/* The bits of a byte whose half is there. */
static LLVMValueRef torn_bits(struct emit *e, LLVMValueRef half[2])
{
	LLVMValueRef bits[2];
	for (int h = 0; h < 2; h++)
		bits[h] = LLVMBuildSelect(e->b, half[h], LLVMConstInt(e->i8, h ? 240 : 15, 0), LLVMConstNull(e->i8), "");
	return LLVMBuildOr(e->b, bits[0], bits[1], "");
}

/* What was loaded for one of its halves perhaps: the other reads 0.  A lane that holds one half alone asks for that. */
static LLVMValueRef torn_loaded(struct emit *e, const struct access *a, LLVMValueRef x, LLVMValueRef half[2])
{
	return a->width > 1 ? LLVMBuildAnd(e->b, x, torn_bits(e, half), "") : LLVMBuildSelect(e->b, half[0], x, LLVMConstNull(e->i8), "");
}

/* What a byte becomes of which perhaps one half is stored: nobody else writes to the other. */
static LLVMValueRef torn_joined(struct emit *e, const struct access *a, int r, LLVMValueRef x, LLVMValueRef half[2])
{
	LLVMValueRef old = e->machine->load(e, a, r, e->i8), stored = torn_bits(e, half);
	return LLVMBuildOr(e->b, LLVMBuildAnd(e->b, x, stored, ""), LLVMBuildAnd(e->b, old, LLVMBuildNot(e->b, stored, ""), ""), "");
}

int64_t access_rows(const struct emit *e, const struct ir_ins *i)
{
	const struct ir_param *t = i->op == IR_LOAD && i->layout ? &e->k->params[i->imm] : NULL;
	int64_t bits = t && t->role == IR_IN && t->rank >= 2 ? dtype_info((enum dtype)i->dtype)->bits : 0;
	for (int x = 0; x < e->ph->naxes && bits; x++)
		bits *= layout_size(i->layout, x);
	return (bits + 7) / 8;
}

LLVMTypeRef access_type(struct emit *e, const struct access *a)
{
	int bytes = access_bytes(a);
	return bytes == 1 ? e->i8 : bytes == 2 ? e->i16 : emit_vector(e->i32, bytes / 4);
}

/* Registers from words: groups of one word each are taken out of them as such, which LLVM selects in fewer steps than parts of vectors. */
void value_loaded(struct emit *e, const struct ir_ins *i, int reg, int n, LLVMValueRef x)
{
	struct value *v = &e->values[i->id];
	LLVMTypeRef group = emit_vector(emit_type(e, i->dtype), v->pack);
	int words = vector_length(x);
	if (words == 1 || v->pack * words != n || LLVMGetElementType(LLVMTypeOf(x)) != e->i32) {
		value_set(e, i, reg, n, LLVMBuildBitCast(e->b, x, emit_vector(emit_type(e, i->dtype), n), ""));
		return;
	}
	for (int g = 0; g < words; g++)
		v->group[reg / v->pack + g] = LLVMBuildBitCast(e->b, vector_part(e, x, g, 1), group, "");
}

void emit_loaded(struct emit *e, const struct access *a, int r, LLVMValueRef x)
{
	const struct ir_ins *i = a->i;
	if (takes_bytes(e, i)) {                        /* as they are */
		value_loaded(e, i, r / 2, a->width / 2, x);
		return;
	}
	if (a->pairs)
		x = pairs_taken_apart(e, a, x);
	if (!i->layout && a->bytes == 4)
		x = e->machine->uniform(e, x);
	if (i->dtype == DT_I1) {
		LLVMTypeRef bytes = emit_vector(e->i8, a->width);
		x = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildBitCast(e->b, x, bytes, ""), LLVMConstNull(bytes), "");
	}
	value_loaded(e, i, r, a->width, x);
}

void emit_load(struct emit *e, const struct ir_ins *i)
{
	struct access a;
	if (e->values[i->id].early || (e->ring && e->values[i->id].staged) || quads_bring(e, i))     /* in a round before */
		return;
	value_new(e, i);
	access_open(e, &a, i, i->layout);
	if (e->failed)
		return;
	readers_before(e, i);
	if (a.loose >= 0) {
		run_load(e, &a);
		return;
	}
	if (i->flags & IR_STAGED && stage_load(e, &a))
		return;
	int regs = i->layout ? layout_regs(i->layout) : 1;
	for (int r = 0; r < regs; r += a.width) {
		LLVMTypeRef t = access_type(e, &a);
		LLVMValueRef half[2];
		if (a.torn)
			open_torn(e, &a, r, half);
		LLVMValueRef x = e->machine->load(e, &a, r, t);
		x = a.torn ? torn_loaded(e, &a, x, half) : x;
		(e->before_asked ? emit_asked : emit_loaded)(e, &a, r, x);
	}
	if (e->ahead && !e->before_asked)              /* behind its own, which are what it waits for */
		ahead_fetch(e, &a);
}

LLVMValueRef store_word(struct emit *e, const struct access *a, const struct ir_ins *value, int r)
{
	LLVMValueRef x = value_vector(e, value, a->l, r, a->width);
	return value->dtype == DT_I1 ? LLVMBuildZExt(e->b, x, emit_vector(e->i8, a->width), "") : x;
}

static void store_words(struct emit *e, struct access *a, const struct ir_ins *value)
{
	int regs = a->l ? layout_regs(a->l) : 1;
	for (int r = 0; r < regs; r += a->width) {
		LLVMValueRef x = store_word(e, a, value, r);
		if (a->pairs)
			x = pairs_packed(e, a, x);
		LLVMValueRef half[2];
		if (a->torn) {
			open_torn(e, a, r, half);
			x = torn_joined(e, a, r, x, half);
		}
		e->machine->store(e, a, r, LLVMBuildBitCast(e->b, x, access_type(e, a), ""));
	}
}

void emit_store(struct emit *e, const struct ir_ins *i)
{
	struct access a;
	access_open(e, &a, i, i->layout);
	if (e->failed)
		return;
	const struct ir_ins *value = i->args[a.t->rank];
	readers_before(e, i);
	if (a.loose >= 0)
		run_store(e, &a, value);
	else
		store_words(e, &a, value);
}

/* Atomic updates, one element each. */
void emit_update(struct emit *e, const struct ir_ins *i)
{
	struct access a;
	access_open(e, &a, i, i->layout);
	if (e->failed)
		return;
	const struct ir_ins *value = i->args[a.t->rank];
	bool f = value->dtype == DT_F32;
	if ((i->kind != RED_SUM && i->kind != RED_MAX && i->kind != RED_MIN) || (!f && value->dtype != DT_I32)) {
		emit_fail(e, i, "this update of %s is not lowered yet; +=, max= and min= of f32 and i32 are", dtype_info(value->dtype)->name);
		return;
	}
	readers_before(e, i);
	int regs = a.l ? layout_regs(a.l) : 1;
	for (int r = 0; r < regs; r++)
		e->machine->update(e, &a, r, (enum ir_reduce)i->kind, value_element(e, value, a.l, r));
}
