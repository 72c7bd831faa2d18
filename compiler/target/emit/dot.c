/* dot.c -- a product as matrix instructions.
 * In: operands in operand layouts (registers: k first, in runs of `elems` an instruction), the accumulator in its layout.  Out: the
 * result's groups of four rows.  For every step of k, ascending: one instruction for each block of rows and columns; an operand that
 * waits in LDS is read at its first use in the step, or, where nothing else moves it there (target.reads_ahead), a step before. */
#include "machine.h"

#include "../../affine.h"

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

int dot_axis(const struct emit *e, ir_axes axes)
{
	ir_axes wide = axes_of_several(e->ph, axes);
	return wide ? __builtin_ctz(wide) : 0;
}

static int k_bits(const struct layout *l, int k)
{
	int n = 0;
	while (n < l->nreg && l->reg[n].step[k])
		n++;
	return n;
}

/* One side of a product, and the fragments made of it so far, by their first register; scale: of groups along k, by axis `groups` (-1: of all one). */
struct operand { const struct ir_ins *of; int free, k, positions; const struct ir_ins *scale; int groups; LLVMValueRef *fragments; };

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

/* What the instruction takes of an operand from step s on: its runs, one after the other. */
static LLVMValueRef fragments(struct emit *e, const struct mfma *m, const struct operand *o, int at, int s)
{
	const struct layout *l = o->of->layout;
	int per_block = 1 << k_bits(l, o->k);
	LLVMValueRef run[2];
	for (int r = 0; r < m->runs; r++) {
		int first = (s + r) * m->elems;
		run[r] = fragment(e, m, o, at, first / per_block * l->block[o->k], first % per_block);
	}
	return vector_join(e, run, m->runs, m->runs > 1 ? vector_length(run[0]) : 1);
}

/* The scale of the lane's row (or column) and group, of the instruction from position kpos on, in an i32. */
static LLVMValueRef scale_of(struct emit *e, const struct operand *o, int at, int kpos)
{
	const struct layout *l = o->scale->layout;
	int by = o->groups < 0 ? 1 : e->ph->axes[o->k].tile / e->ph->axes[o->groups].tile, row = o->scale->axes & IR_AXIS(o->free) ? at : 0;
	int reg = !l ? 0 : o->groups < 0 ? register_at(e, l, o->free, row, o->k, 0) : register_at(e, l, o->free, row, o->groups, kpos / by);
	LLVMValueRef x = value_element(e, o->scale, l, reg);
	return LLVMBuildZExt(e->b, x, e->i32, "");
}

static struct operand operand_of(struct emit *e, const struct ir_ins *dot, int n, int free, int k, int positions)
{
	const struct ir_ins *of = dot->args[n], *scale = dot->flags & IR_SCALED ? dot->args[dot->nargs - 2 + n] : NULL;
	ir_axes groups = scale ? axes_of_several(e->ph, scale->axes & ~of->axes) : 0;
	size_t room = sizeof(LLVMValueRef) * (size_t)layout_regs(of->layout);
	return (struct operand){of, free, k, positions, scale, groups ? __builtin_ctz(groups) : -1, arena_alloc(e->arena, room)};
}

LLVMValueRef *dot_words(struct emit *e, const struct ir_ins *dot, int arg, int free, int at, const struct mfma *m)
{
	int k = dot_axis(e, dot->over), steps = e->ph->axes[k].tile / m->k;
	struct operand o = operand_of(e, dot, arg, free, k, m->cols);
	LLVMValueRef *words = arena_alloc(e->arena, sizeof *words * (size_t)steps);
	for (int s = 0; s < steps; s++)
		words[s] = fragments(e, m, &o, at, s);
	return words;
}

void emit_dot(struct emit *e, const struct ir_ins *i)
{
	if (quad_dot(e, i))
		return;
	const struct ir_ins *acc = i->flags & IR_ACC ? i->args[2] : NULL;
	int k = dot_axis(e, i->over), free[2] = {dot_axis(e, i->args[0]->axes & ~i->over), dot_axis(e, i->args[1]->axes & ~i->over)};
	int r0 = free[0] < free[1], c0 = !r0;          /* rows of the instruction run along the later axis (pass layout) */
	const struct mfma *m = target_mfma(e->v->target, i->args[r0]->dtype, i->args[c0]->dtype, e->ph->axes[k].tile);
	value_new(e, i);
	LLVMTypeRef at = emit_vector(i->dtype == DT_I32 ? e->i32 : e->f32, 4);
	const struct layout *l = i->args[r0]->layout;
	int regs = layout_regs(i->layout), coord[LAYOUT_AXES], per_block = 1 << k_bits(l, k);
	int steps = per_block * l->rep[k] / m->elems;
	LLVMValueRef *d = arena_alloc(e->arena, sizeof *d * (size_t)regs);
	struct operand rows = operand_of(e, i, r0, free[r0], k, m->rows), cols = operand_of(e, i, c0, free[c0], k, m->cols);
	bool reads_ahead = e->v->target->reads_ahead;
	for (int s = reads_ahead ? -m->runs : 0; s < steps; s += m->runs) {
		/* step s: registers s * elems .. of the run along k, which are the lowest register bits and the repeats of k */
		for (int ahead = reads_ahead; ahead >= (s < 0); ahead--) {
			int step = s + ahead * m->runs, kpos = step * m->elems / per_block * l->block[k];
			for (int r = 0; r < regs && step < steps; r += 4) {
				layout_coord(i->layout, r, 0, 0, coord);
				LLVMValueRef a = fragments(e, m, &rows, coord[rows.free], step), b = fragments(e, m, &cols, coord[cols.free], step);
				if (ahead)
					continue;
				if (!s)
					d[r] = acc ? value_vector(e, acc, i->layout, r, 4) : LLVMConstNull(at);
				d[r] = !rows.scale ? e->machine->product(e, m, a, b, d[r])
				     : e->machine->scaled_product(e, m, a, b, d[r], (const LLVMValueRef[2]){scale_of(e, &rows, coord[rows.free], kpos), scale_of(e, &cols, coord[cols.free], kpos)});
			}
		}
		e->machine->keep_order(e);                     /* the reads of later steps stay behind: all at once they would not fit */
	}
	for (int r = 0; r < regs; r += 4)
		value_set(e, i, r, 4, d[r]);
}
