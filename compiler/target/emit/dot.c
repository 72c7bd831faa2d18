/* dot.c -- a product as matrix instructions.
 * In: operands in operand layouts (registers: k first, in runs of `elems` an instruction), the accumulator in its layout.  Out: the
 * result's groups of four rows.  For every step of k, ascending: one instruction for each block of rows and columns; an operand that
 * waits in LDS is read at its first use in the step, or, where nothing else moves it there (target.reads_ahead), a step before. */
#include "machine.h"

/* words: that the operand takes, all its positions together */
static LLVMTypeRef operand_type(struct emit *e, enum mfma_operand o, int words)
{
	switch (o) {
	case MFMA_WORDS: return emit_vector(e->i32, words);
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

static int k_bits(const struct layout *l, int k)
{
	int n = 0;
	while (n < l->nreg && l->reg[n].step[k])
		n++;
	return n;
}

/* One side of a product, and the fragments made of it so far, by their first register. */
struct operand { const struct ir_ins *of; int free, k, positions; LLVMValueRef *fragments; };

enum { READ = 16, MOST_PARTS = 8 };                  /* bytes that a lane reads of group memory at a time; of a lane's positions of one instruction */

/* How many steps' elements are read at a time: those that lie side by side in group memory. */
static int steps_at_once(const struct emit *e, const struct mfma *m, const struct operand *o, int in_block)
{
	const struct layout *l = o->of->layout;
	int bytes = m->elems * dtype_info(o->of->dtype)->bits / 8, n = e->values[o->of->id].waiting ? READ / bytes : 1;
	while (n > 1 && (in_block % (n * m->elems) || n * m->elems > 1 << layout_vector(l, o->k)))
		n /= 2;
	return n;
}

/* The registers along k for every position that a lane holds of an instruction's rows (or columns) from `at` on. */
static LLVMValueRef fragment(struct emit *e, const struct mfma *m, const struct operand *o, int at, int kpos, int in_block)
{
	const struct layout *l = o->of->layout;
	int step = mfma_lane_positions(m), parts = o->positions / step, first = register_at(e, l, o->free, at, o->k, kpos) + in_block;
	LLVMValueRef *known = &o->fragments[first], part[MOST_PARTS], of_step[MOST_PARTS];
	if (*known)
		return *known;
	int n = steps_at_once(e, m, o, in_block), words = parts * m->elems * dtype_info(o->of->dtype)->bits / 32;
	for (int p = 0; p < parts; p++)
		part[p] = value_vector(e, o->of, l, register_at(e, l, o->free, at + p * step, o->k, kpos) + in_block, n * m->elems);
	for (int s = 0; s < n; s++) {
		for (int p = 0; p < parts; p++)
			of_step[p] = vector_part(e, part[p], s * m->elems, m->elems);
		known[s * m->elems] = LLVMBuildBitCast(e->b, vector_join(e, of_step, parts, m->elems), operand_type(e, m->operand, words), "");
	}
	return *known;
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
	LLVMTypeRef at = emit_vector(i->dtype == DT_I32 ? e->i32 : e->f32, 4);
	int regs = layout_regs(i->layout), coord[LAYOUT_AXES], per_block = 1 << k_bits(a->layout, k);
	int steps = per_block * a->layout->rep[k] / m->elems;
	LLVMValueRef *d = arena_alloc(e->arena, sizeof *d * (size_t)regs);
	struct operand rows = {a, fa, k, m->rows, arena_alloc(e->arena, sizeof *d * (size_t)layout_regs(a->layout))};
	struct operand cols = {b, fb, k, m->cols, arena_alloc(e->arena, sizeof *d * (size_t)layout_regs(b->layout))};
	bool reads_ahead = e->v->target->reads_ahead;
	for (int s = reads_ahead ? -1 : 0; s < steps; s++) {
		/* step s: registers s * elems .. of the run along k, which are the lowest register bits and the repeats of k */
		for (int ahead = reads_ahead; ahead >= (s < 0); ahead--) {
			int step = s + ahead, in_block = step * m->elems % per_block, kpos = step * m->elems / per_block * a->layout->block[k];
			for (int r = 0; r < regs && step < steps; r += 4) {
				layout_coord(i->layout, r, 0, 0, coord);
				LLVMValueRef fragment_a = fragment(e, m, &rows, coord[fa], kpos, in_block);
				LLVMValueRef fragment_b = fragment(e, m, &cols, coord[fb], kpos, in_block);
				if (ahead)
					continue;
				if (!s)
					d[r] = acc ? value_vector(e, acc, i->layout, r, 4) : LLVMConstNull(at);
				d[r] = e->machine->product(e, m, fragment_a, fragment_b, d[r]);
			}
		}
		e->machine->keep_order(e);                     /* the reads of later steps stay behind: all at once they would not fit */
	}
	for (int r = 0; r < regs; r += 4)
		value_set(e, i, r, 4, d[r]);
}
