/* memory.c -- loads, stores and updates of tensors through buffer descriptors.
 * Method: an address = a uniform 64-bit part (into the descriptor's base) + a lane's 32-bit offset + constants of registers (into the
 * instruction's immediate and the scalar offset).  A lane that is masked off gets an offset beyond the descriptor's range: loads
 * give 0 and stores vanish, without branches.  An absent optional tensor is a descriptor of size 0.
 * Accesses are as wide as the layout's run along the contiguous axis allows where the variant says aligned and the mask is known to
 * be the same for the run. */
#include "../../layout_choose.h"
#include "emit.h"

#include <stdlib.h>

enum { OUT_OF_RANGE = (int)0x80000000u };

struct access {
	const struct ir_ins *i;
	const struct ir_param *t;
	const struct layout *l;
	const struct ir_ins *mask;              /* or NULL */
	struct affine sub[6];
	bool affine;                            /* every subscript is, or is a scalar */
	bool scalar[6];                         /* not affine, but the same for the whole workgroup */
	bool fold;                              /* leading dimensions may be folded: the first subscript is divided */
	int width;                              /* elements an instruction */
	int bytes;                              /* of one element */
	bool plain;                             /* no mask, always there, small offsets: global access without a descriptor */
	LLVMValueRef rsrc, lane, first;         /* descriptor (or pointer) of the tile; lane's offset in bytes; i1: first copy (stores) or NULL */
};

static bool unit_stride(const struct access *a, struct emit *e)
{
	(void)a;
	return e->v->aligned;
}

/* --- how wide ---------------------------------------------------------------------------------------------------------- */

static int64_t affine_divisor(struct emit *e, const struct affine *f, int except)
{
	int64_t d = f->constant ? (f->constant & -f->constant) : 1 << 30;
	for (int a = 0; a < e->ph->naxes; a++)
		if (f->coef[a] && a != except) {
			/* the axis's base is a multiple of its tile for grid axes, of 1 otherwise; positions step by 1 */
			int64_t c = f->coef[a] & -f->coef[a];
			d = c < d ? c : d;
		}
	for (int t = 0; t < f->nterms; t++) {
		int64_t c = f->term[t].coef & -f->term[t].coef;
		c *= f->term[t].of ? known_divisor(f->term[t].of, e->ph, e->v) : known_symbol_multiple(e->v, f->term[t].symbol);
		c &= -c;
		d = c < d ? c : d;
	}
	return d;
}

/* Base of the axis's tile is a multiple of w. */
static bool base_divides(struct emit *e, int axis, int w)
{
	const struct ir_axis *ax = &e->ph->axes[axis];
	if (ax->ragged)
		return false;
	return ax->kind == AXIS_HELD || ax->tile % w == 0;
}

static bool mask_uniform(struct emit *e, const struct ir_ins *m, int axis, int w)
{
	if (!(m->axes & IR_AXIS(axis)))
		return true;
	switch (m->op) {
	case IR_AND: case IR_OR:
		return mask_uniform(e, m->args[0], axis, w) && mask_uniform(e, m->args[1], axis, w);
	case IR_NOT:
		return mask_uniform(e, m->args[0], axis, w);
	case IR_LT: {
		/* p + rest < 0 with p a run of w positions from a multiple of w: the same for the run if w divides the rest */
		struct affine d = affine_sub(affine_of(m->args[0]), affine_of(m->args[1]));
		return d.ok && d.coef[axis] == 1 && base_divides(e, axis, w) && affine_divisor(e, &d, axis) % w == 0;
	}
	case IR_LE: {
		/* bound <= p: the same for the run if w divides both */
		struct affine d = affine_sub(affine_of(m->args[0]), affine_of(m->args[1]));
		return d.ok && d.coef[axis] == -1 && base_divides(e, axis, w) && affine_divisor(e, &d, axis) % w == 0;
	}
	default:
		return false;
	}
}

static int width_of(struct emit *e, const struct access *a)
{
	int last = a->t->rank - 1, axis = -1;
	if (!a->affine || !a->l || last < 0 || !unit_stride(a, e))
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
	for (; w > 1; w /= 2)
		if (base_divides(e, axis, w) && affine_divisor(e, &a->sub[last], axis) % w == 0 &&
		    (!a->mask || mask_uniform(e, a->mask, axis, w)))
			break;
	return w;
}

/* --- address parts -------------------------------------------------------------------------------------------------------- */

/* Positions and extents are not negative; differences may be. */
static bool never_negative(const struct affine *f)
{
	if (!f->ok || f->constant < 0)
		return false;
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (f->coef[a] < 0)
			return false;
	for (int t = 0; t < f->nterms; t++)
		if (f->term[t].of || f->term[t].coef < 0)
			return false;
	return true;
}

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
			x = LLVMBuildMul(e->b, x, emit_int(e, f->term[t].coef), "");
		sum = sum ? LLVMBuildAdd(e->b, sum, x, "") : x;
	}
	for (int a = 0; a < e->ph->naxes; a++) {
		if (!f->coef[a] || !e->axis_base[a])
			continue;
		LLVMValueRef x = e->axis_base[a];
		if (f->coef[a] != 1)
			x = LLVMBuildMul(e->b, x, emit_int(e, f->coef[a]), "");
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

static LLVMValueRef add64(struct emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return a ? LLVMBuildAdd(e->b, a, b, "") : b;
}

/* Element offset of subscript value s (i32) along dimension d, i64; dimension 0 may be a fold of two. */
static LLVMValueRef offset_along(struct emit *e, const struct access *a, int d, LLVMValueRef s)
{
	if (d || !a->fold)
		return LLVMBuildMul(e->b, wide(e, s, never_negative(&a->sub[d]) && !a->scalar[d]), wide(e, stride_of(e, a, d), true), "");
	LLVMValueRef inner = e->fold_inner;
	LLVMValueRef q = LLVMBuildUDiv(e->b, s, inner, ""), r = LLVMBuildURem(e->b, s, inner, "");
	LLVMValueRef x = LLVMBuildMul(e->b, wide(e, q, true), e->tensors[a->i->imm].fold_stride, "");
	return LLVMBuildAdd(e->b, x, LLVMBuildMul(e->b, wide(e, r, true), wide(e, stride_of(e, a, 0), true), ""), "");
}

static LLVMValueRef descriptor(struct emit *e, const struct access *a, LLVMValueRef elements)
{
	LLVMValueRef base = e->tensors[a->i->imm].pointer;
	if (a->plain && elements) {
		LLVMValueRef bytes = a->bytes == 1 ? elements : LLVMBuildMul(e->b, elements, LLVMConstInt(e->i64, (unsigned)a->bytes, 0), "");
		return LLVMBuildGEP2(e->b, e->i8, base, &bytes, 1, "");
	}
	if (a->plain)
		return base;
	LLVMValueRef size = LLVMConstInt(e->i64, 0x7ffffffc, 0);
	if (a->t->optional)
		size = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntEQ, base, LLVMConstNull(e->p1), ""), LLVMConstInt(e->i64, 0, 0), size, "");
	if (elements) {
		LLVMValueRef bytes = a->bytes == 1 ? elements : LLVMBuildMul(e->b, elements, LLVMConstInt(e->i64, (unsigned)a->bytes, 0), "");
		base = LLVMBuildGEP2(e->b, e->i8, base, &bytes, 1, "");
	}
	LLVMTypeRef over[2] = {e->p8, e->p1};
	LLVMValueRef args[4] = {base, LLVMConstInt(e->i16, 0, 0), size, emit_int(e, 0x27000)};
	return emit_call(e, "llvm.amdgcn.make.buffer.rsrc", over, 2, args, 4);
}

/* A dimension is uniform (its whole subscript goes into the base) or varies by lane and register. */
static void address_parts(struct emit *e, struct access *a)
{
	LLVMValueRef base = NULL, lane = NULL;
	for (int d = 0; d < a->t->rank; d++) {
		const struct ir_ins *s = a->i->args[d];
		if (!a->sub[d].ok)
			continue;                          /* per register: offset_of_register */
		bool varies = lane_varies(e, a, d);
		LLVMValueRef u = a->scalar[d] ? index_value(e, s, NULL, 0) : uniform_part(e, &a->sub[d]);
		if (a->fold && d == 0 && varies)
			continue;                          /* division by register */
		if (u)
			base = add64(e, base, offset_along(e, a, d, u));
		for (int x = 0; varies && x < e->ph->naxes; x++) {
			if (!a->sub[d].coef[x] || layout_size(a->l, x) == 1)
				continue;
			LLVMValueRef p = index_lane(e, a->l, x);
			if (LLVMIsConstant(p))
				continue;
			LLVMValueRef scale = narrow(e, stride_of(e, a, d));
			int64_t c = a->sub[d].coef[x] * a->bytes;
			scale = c == 1 ? scale : LLVMBuildMul(e->b, scale, emit_int(e, c), "");
			p = LLVMBuildMul(e->b, p, scale, "");
			lane = lane ? LLVMBuildAdd(e->b, lane, p, "") : p;
		}
	}
	a->rsrc = descriptor(e, a, base);
	a->lane = lane ? lane : emit_int(e, 0);
}

/* Byte offset of register r beside the lane part: *constant known now, *uniform a scalar (or NULL), *vector per lane (or NULL). */
static void offset_of_register(struct emit *e, const struct access *a, int r, int64_t *constant, LLVMValueRef *uniform, LLVMValueRef *vector)
{
	*constant = 0;
	*uniform = *vector = NULL;
	for (int d = 0; d < a->t->rank; d++) {
		bool whole = !a->sub[d].ok || (a->fold && d == 0 && lane_varies(e, a, d));
		if (whole) {
			LLVMValueRef s = index_value(e, a->i->args[d], a->l, r);
			LLVMValueRef off = LLVMBuildTrunc(e->b, offset_along(e, a, d, s), e->i32, "");
			off = LLVMBuildMul(e->b, off, emit_int(e, a->bytes), "");
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
		LLVMValueRef u = narrow(e, stride_of(e, a, d));
		u = LLVMBuildMul(e->b, u, emit_int(e, pos * a->bytes), "");
		*uniform = *uniform ? LLVMBuildAdd(e->b, *uniform, u, "") : u;
	}
	if (*uniform && a->width == 1) {               /* many single elements: their offsets would fill the scalar registers */
		*vector = *vector ? LLVMBuildAdd(e->b, *vector, *uniform, "") : *uniform;
		*uniform = NULL;
	}
}

/* Global accesses take a scalar base, a lane offset and an immediate below 4096. */
static bool is_plain(struct emit *e, const struct access *a)
{
	if (e->has_dot || a->mask || a->t->optional || !a->affine || a->fold || a->width * a->bytes < 4 || !a->l || a->i->op == IR_UPDATE ||
	    index_has_copies(e, a->l))
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

static bool implied(const struct hexpr *known, const struct hexpr *e)
{
	return hexpr_equal(known, e) || (known->op == HX_AND && (implied(known->a, e) || implied(known->b, e)));
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
		if (!e->condition || !implied(e->condition, fits))
			e->condition = e->condition ? hexpr_op(ar, HX_AND, e->condition, fits) : fits;
	}
}

static void access_open(struct emit *e, struct access *a, const struct ir_ins *i, const struct layout *l)
{
	a->i = i;
	a->t = &e->k->params[i->imm];
	a->l = l;
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
	if (dtype_info(a->t->dtype)->bits < 8) {
		emit_fail(e, i, "tensors of %s are not lowered yet", dtype_info(a->t->dtype)->name);
		return;
	}
	a->width = width_of(e, a);
	a->plain = is_plain(e, a);
	limit_strides(e, a);
	address_parts(e, a);
	a->first = i->op == IR_LOAD ? NULL : index_is_first_copy(e, l);
}

/* Operands of a buffer access at register r: offset by lane, scalar offset. */
static void access_at(struct emit *e, const struct access *a, int r, LLVMValueRef *voffset, LLVMValueRef *soffset)
{
	int64_t constant;
	LLVMValueRef uniform, vector, off = a->lane, on = a->first;
	offset_of_register(e, a, r, &constant, &uniform, &vector);
	if (vector)
		off = LLVMBuildAdd(e->b, off, vector, "");
	int64_t immediate = constant & 4095;
	*soffset = emit_int(e, constant - immediate);
	if (uniform)
		*soffset = LLVMBuildAdd(e->b, uniform, *soffset, "");
	if (immediate)
		off = LLVMBuildAdd(e->b, off, emit_int(e, immediate), "");
	if (a->mask) {
		LLVMValueRef m = index_value(e, a->mask, a->l, r);
		on = on ? LLVMBuildAnd(e->b, on, m, "") : m;
	}
	*voffset = on ? LLVMBuildSelect(e->b, on, off, emit_int(e, OUT_OF_RANGE), "") : off;
}

static LLVMValueRef plain_pointer(struct emit *e, const struct access *a, int r)
{
	int64_t constant;
	LLVMValueRef uniform, vector;
	offset_of_register(e, a, r, &constant, &uniform, &vector);
	LLVMValueRef lane = LLVMBuildZExt(e->b, a->lane, e->i64, ""), at = LLVMConstInt(e->i64, (uint64_t)constant, 0);
	LLVMValueRef p = LLVMBuildGEP2(e->b, e->i8, a->rsrc, &lane, 1, "");
	return constant ? LLVMBuildGEP2(e->b, e->i8, p, &at, 1, "") : p;
}

static LLVMTypeRef memory_type(struct emit *e, int bytes)
{
	return bytes == 1 ? e->i8 : bytes == 2 ? e->i16 : emit_vector(e->i32, bytes / 4);
}

void emit_load(struct emit *e, const struct ir_ins *i)
{
	struct access a;
	struct value *v = value_new(e, i);
	access_open(e, &a, i, i->layout);
	if (e->failed)
		return;
	int regs = i->layout ? layout_regs(i->layout) : 1;
	for (int r = 0; r < regs; r += a.width) {
		LLVMTypeRef t = memory_type(e, a.width * a.bytes);
		LLVMValueRef args[4] = {a.rsrc, NULL, NULL, emit_int(e, 0)}, x;
		if (a.plain) {
			x = LLVMBuildLoad2(e->b, t, plain_pointer(e, &a, r), "");
			LLVMSetAlignment(x, (unsigned)(a.width * a.bytes));
		} else {
			access_at(e, &a, r, &args[1], &args[2]);
			x = emit_call(e, "llvm.amdgcn.raw.ptr.buffer.load", &t, 1, args, 4);
		}
		if (!i->layout && a.bytes == 4) {
			LLVMTypeRef ti = e->i32;
			x = emit_call(e, "llvm.amdgcn.readfirstlane", &ti, 1, &x, 1);
		}
		if (i->dtype == DT_I1)
			x = LLVMBuildICmp(e->b, LLVMIntNE, x, LLVMConstNull(e->i8), "");
		else
			x = LLVMBuildBitCast(e->b, x, emit_vector(emit_type(e, i->dtype), a.width), "");
		value_set(e, i, r, a.width, x);
	}
	(void)v;
}


void emit_store(struct emit *e, const struct ir_ins *i)
{
	struct access a;
	access_open(e, &a, i, i->layout);
	if (e->failed)
		return;
	const struct ir_ins *value = i->args[a.t->rank];
	int regs = a.l ? layout_regs(a.l) : 1;
	for (int r = 0; r < regs; r += a.width) {
		LLVMValueRef args[5] = {NULL, a.rsrc, NULL, NULL, emit_int(e, 0)};
		LLVMValueRef x = value_vector(e, value, a.l, r, a.width);
		if (value->dtype == DT_I1)
			x = LLVMBuildZExt(e->b, x, emit_vector(e->i8, a.width), "");
		LLVMTypeRef t = memory_type(e, a.width * a.bytes);
		args[0] = LLVMBuildBitCast(e->b, x, t, "");
		if (a.plain) {
			x = LLVMBuildStore(e->b, args[0], plain_pointer(e, &a, r));
			LLVMSetAlignment(x, (unsigned)(a.width * a.bytes));
			continue;
		}
		access_at(e, &a, r, &args[2], &args[3]);
		emit_call(e, "llvm.amdgcn.raw.ptr.buffer.store", &t, 1, args, 5);
	}
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
	emit_call(e, max ? "llvm.amdgcn.raw.ptr.buffer.atomic.smax" : "llvm.amdgcn.raw.ptr.buffer.atomic.smin", &t, 1, plus, 5);
	emit_call(e, max ? "llvm.amdgcn.raw.ptr.buffer.atomic.umin" : "llvm.amdgcn.raw.ptr.buffer.atomic.umax", &t, 1, minus, 5);
}

/* Atomic updates, one element each. */
void emit_update(struct emit *e, const struct ir_ins *i)
{
	static const char *const name[] = {[RED_SUM] = "llvm.amdgcn.raw.ptr.buffer.atomic.add", [RED_MAX] = "llvm.amdgcn.raw.ptr.buffer.atomic.smax",
	                                   [RED_MIN] = "llvm.amdgcn.raw.ptr.buffer.atomic.smin"};
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
	int regs = a.l ? layout_regs(a.l) : 1;
	for (int r = 0; r < regs; r++) {
		LLVMValueRef x = value_element(e, value, a.l, r), voff, soff;
		LLVMTypeRef t = LLVMTypeOf(x);
		access_at(e, &a, r, &voff, &soff);
		if (f && i->kind != RED_SUM) {
			update_by_bits(e, (enum ir_reduce)i->kind, x, a.rsrc, voff, soff);
			continue;
		}
		LLVMValueRef args[5] = {x, a.rsrc, voff, soff, emit_int(e, 0)};
		emit_call(e, f ? "llvm.amdgcn.raw.ptr.buffer.atomic.fadd" : name[i->kind], &t, 1, args, 5);
	}
}
