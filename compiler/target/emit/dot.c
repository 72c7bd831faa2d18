/* dot.c -- a product as matrix instructions.
 * In: operands in operand layouts (registers: k first, in runs of `elems` an instruction), the accumulator in its layout.  Out: the
 * result's groups of four rows.  For every step of k, ascending: one instruction for each block of rows and columns; an operand that
 * waits in LDS is read at its first use in the step. */
#include "machine.h"

static LLVMTypeRef operand_type(struct emit *e, enum mfma_operand o)
{
	switch (o) {
	case MFMA_V4I16: return emit_vector(e->i16, 4);
	case MFMA_V8BF16: return emit_vector(e->bf16, 8);
	case MFMA_V4F16: return emit_vector(e->f16, 4);
	case MFMA_V8F16: return emit_vector(e->f16, 8);
	case MFMA_I64: return e->i64;
	default: return e->f32;
	}
}

/* The register of `l` that lane 0 has at the position (axis x = at, axis y = to). */
static int register_at(struct emit *e, const struct layout *l, int x, int at, int y, int to)
{
	int regs = layout_regs(l), coord[LAYOUT_AXES];
	for (int r = 0; r < regs; r++) {
		layout_coord(l, r, 0, 0, coord);
		if (coord[x] == at && coord[y] == to)
			return r;
	}
	emit_fail(e, NULL, "internal: no register holds an operand of a matrix instruction");
	return 0;
}

static int wide_axis(struct emit *e, ir_axes axes)
{
	for (int a = 0; a < e->ph->naxes; a++)
		if ((axes & IR_AXIS(a)) && e->ph->axes[a].tile > 1)
			return a;
	return 0;
}

void emit_dot(struct emit *e, const struct ir_ins *i)
{
	const struct ir_ins *a = i->args[0], *b = i->args[1], *acc = i->flags & IR_ACC ? i->args[2] : NULL;
	int k = wide_axis(e, i->over), fa = wide_axis(e, a->axes & ~i->over), fb = wide_axis(e, b->axes & ~i->over);
	if (fa < fb) {                                 /* rows of the instruction run along the later axis (pass layout) */
		const struct ir_ins *t = a;
		a = b;
		b = t;
		int f = fa;
		fa = fb;
		fb = f;
	}
	const struct mfma *m = target_mfma(e->v->target, a->dtype, b->dtype);
	value_new(e, i);
	LLVMTypeRef ot = operand_type(e, m->operand), at = emit_vector(i->dtype == DT_I32 ? e->i32 : e->f32, 4);
	int regs = layout_regs(i->layout), coord[LAYOUT_AXES];
	int steps = layout_regs(a->layout) / a->layout->rep[fa] / m->elems, per_block = 1 << a->layout->nreg;
	LLVMValueRef *d = arena_alloc(e->arena, sizeof *d * (size_t)regs);
	LLVMValueRef *fragment_a = arena_alloc(e->arena, sizeof *d * (size_t)layout_regs(a->layout));
	LLVMValueRef *fragment_b = arena_alloc(e->arena, sizeof *d * (size_t)layout_regs(b->layout));
	for (int s = 0; s < steps; s++) {
		/* step s: registers s * elems .. of the run along k, which are the lowest register bits and the repeats of k */
		int in_block = s * m->elems % per_block, kpos = s * m->elems / per_block * a->layout->block[k];
		for (int r = 0; r < regs; r += 4) {
			layout_coord(i->layout, r, 0, 0, coord);
			int ra = register_at(e, a->layout, fa, coord[fa], k, kpos) + in_block;
			int rb = register_at(e, b->layout, fb, coord[fb], k, kpos) + in_block;
			if (!fragment_a[ra])
				fragment_a[ra] = LLVMBuildBitCast(e->b, value_vector(e, a, a->layout, ra, m->elems), ot, "");
			if (!fragment_b[rb])
				fragment_b[rb] = LLVMBuildBitCast(e->b, value_vector(e, b, b->layout, rb, m->elems), ot, "");
			if (!s)
				d[r] = acc ? value_vector(e, acc, i->layout, r, 4) : LLVMConstNull(at);
			d[r] = e->machine->product(e, m, fragment_a[ra], fragment_b[rb], d[r]);
		}
		e->machine->keep_order(e);                     /* the reads of later steps stay behind: all at once they would not fit */
	}
	for (int r = 0; r < regs; r += 4)
		value_set(e, i, r, 4, d[r]);
}
