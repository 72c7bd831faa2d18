/* ahead.c -- what a later workgroup loads, asked for by this one.
 * In: loads of a tile, variant.ahead.  Out: behind them, the L2 is asked for the tile of the workgroup so many further on in the grid's order,
 * or, where those that follow each other lie side by side, about so many: below this one, so that one number is as far for all.
 * All that is resident waits for memory at the same time: what is in the L2 by then comes in half of it.  Asked for too early it has left
 * the L2 again (docs/performance.md). */
#include "machine.h"
#include "memory.h"

#include "../../pass.h"

enum { LINE = 128, FEW = 2 };                /* bytes that the L2 brings at a time (CUDA's guide to best practices); accesses of a lane */

/* How far away along dimension `dim`, in positions of its axis. */
static void set_distance(struct emit *e, int dim, LLVMValueRef tiles)
{
	e->ahead[e->grid_axis[dim]] = op_times(e, tiles, e->ph->axes[e->grid_axis[dim]].tile);
}

const struct hexpr *ahead_below(struct emit *e, const struct hexpr *columns)
{
	const struct hexpr *one = hexpr_const(e->arena, 1), *row = hexpr_op(e->arena, HX_MAX, columns, one);
	return hexpr_op(e->arena, HX_MAX, hexpr_op(e->arena, HX_DIV, hexpr_const(e->arena, e->v->ahead), row), one);
}

/* The last row of tiles is asked for by nobody: it may end early. */
static void bind_below(struct emit *e)
{
	set_distance(e, 1, e->below);
	LLVMValueRef at = LLVMBuildAdd(e->b, LLVMBuildAdd(e->b, e->machine->workgroup(e, 1), e->below, ""), emit_int(e, 1), "");
	e->ahead_there = LLVMBuildICmp(e->b, LLVMIntULT, at, e->machine->workgroups(e, 1), "");
}

void ahead_bind(struct emit *e, const struct hexpr *const *grid, int dims)
{
	if (dims > 2)
		return;
	e->ahead = arena_alloc(e->arena, sizeof *e->ahead * LAYOUT_AXES);
	if (e->below) {
		bind_below(e);
		return;
	}
	LLVMValueRef x = e->machine->workgroup(e, 0), columns = emit_hexpr(e, grid[0]);
	LLVMValueRef later = LLVMBuildAdd(e->b, x, emit_int(e, e->v->ahead), "");
	if (dims == 1) {
		set_distance(e, 0, emit_int(e, e->v->ahead));
		e->ahead_there = LLVMBuildICmp(e->b, LLVMIntULT, later, columns, "");
		return;
	}
	LLVMValueRef down = LLVMBuildUDiv(e->b, later, columns, ""), at = LLVMBuildSub(e->b, later, LLVMBuildMul(e->b, down, columns, ""), "");
	LLVMValueRef row = LLVMBuildAdd(e->b, e->machine->workgroup(e, 1), down, "");
	set_distance(e, 0, LLVMBuildSub(e->b, at, x, ""));
	set_distance(e, 1, down);
	e->ahead_there = LLVMBuildICmp(e->b, LLVMIntULT, row, emit_hexpr(e, grid[1]), "");
}

/* From what the access loads to what it would load there, i64; NULL = it would be the same. */
static LLVMValueRef bytes_ahead(struct emit *e, const struct access *a)
{
	LLVMValueRef bytes = NULL;
	for (int d = 0; d < a->t->rank; d++)
		for (int x = 0; x < e->ph->naxes; x++) {
			if (!a->sub[d].coef[x] || !e->ahead[x])
				continue;
			LLVMValueRef stride = e->tensors[a->i->imm].stride[d], n = LLVMBuildSExt(e->b, e->ahead[x], e->i64, "");
			n = op_times(e, n, a->sub[d].coef[x] * a->bytes);
			if (stride)
				n = LLVMBuildMul(e->b, n, LLVMBuildZExt(e->b, stride, e->i64, ""), "");
			bytes = bytes ? LLVMBuildAdd(e->b, bytes, n, "") : n;
		}
	return bytes;
}

/* What a bit of a register's or lane's number adds stays within a line. */
static bool is_in_line(const struct emit *e, const struct access *a, const struct layout_basis *b)
{
	int64_t elements = 0;
	for (int x = 0; x < e->ph->naxes; x++)
		for (int d = 0; d < a->t->rank && b->step[x]; d++) {
			if (a->sub[d].coef[x] && (d + 1 < a->t->rank || e->tensors[a->i->imm].stride[d]))
				return false;
			elements += a->sub[d].coef[x] * b->step[x];
		}
	return elements * a->bytes < LINE;
}

/* Where the tile's lines begin, wherever in its rows lines do: what a lane has in several registers lanes have that would ask for the same
 * line; those that none is left for are copies.  Of few registers a lane's own addresses are made anyway. */
static const struct layout *layout_of_lines(const struct emit *e, const struct access *a)
{
	struct layout *l = arena_copy(e->arena, a->l, sizeof *l);
	struct layout_basis apart[2 * LAYOUT_BITS];
	int n = 0, taken = 0;
	l->nreg = (uint8_t)__builtin_ctz((unsigned)a->width);
	for (int b = l->nreg; b < a->l->nreg; b++)
		if (!is_in_line(e, a, &a->l->reg[b]))
			apart[n++] = a->l->reg[b];
	for (int x = 0; x < e->ph->naxes; x++)
		for (; l->rep[x] % 2 == 0 && n < 2 * LAYOUT_BITS; l->rep[x] /= 2, l->block[x] *= 2) {
			apart[n] = (struct layout_basis){{0}};
			apart[n].step[x] = (int16_t)l->block[x];
			n += !is_in_line(e, a, &apart[n]);
		}
	for (int b = 0; b < l->nlane + l->nwave; b++) {
		struct layout_basis *bit = b < l->nlane ? &l->lane[b] : &l->wave[b - l->nlane];
		if (is_in_line(e, a, bit))
			*bit = taken < n ? apart[taken++] : (struct layout_basis){{0}};
	}
	while (taken < n)
		l->reg[l->nreg++] = apart[taken++];
	return l;
}

/* Of the lanes that share a line the one that asks for it. */
static LLVMValueRef is_first_of_line(struct emit *e, const struct access *a)
{
	LLVMValueRef in_line = LLVMBuildAnd(e->b, a->lane, emit_int(e, LINE - access_bytes(a)), "");
	return LLVMBuildICmp(e->b, LLVMIntEQ, in_line, emit_int(e, 0), "");
}

void ahead_ask(struct emit *e, const struct access *a, LLVMValueRef bytes, LLVMValueRef there)
{
	struct access line = *a;
	bool many = layout_regs(a->l) > FEW * a->width;
	if (many)
		access_open(e, &line, a->i, layout_of_lines(e, a));
	LLVMValueRef one = emit_both(e, many ? index_is_first_copy(e, line.l, false) : is_first_of_line(e, a), there);
	for (int r = 0; r < layout_regs(line.l) && !e->failed; r += line.width) {
		LLVMValueRef on = emit_both(e, one, bytes ? NULL : access_condition(e, &line, r));
		e->machine->fetch(e, &line, r, bytes, on ? on : LLVMConstInt(e->i1, 1, 0));
	}
}

/* Nothing where some of a tile may be masked off, for beyond the tensor asking costs more than loading, unless by positions alone: what is
 * beside a row's end is then the next one's. */
void ahead_fetch(struct emit *e, const struct access *a)
{
	bool masked = a->mask && !(e->below && !a->mask->layout);
	if (!e->machine->fetch || !a->affine || !a->l || masked || a->fold || e->loop_depth || a->t->role != IR_IN)
		return;
	LLVMValueRef bytes = bytes_ahead(e, a);
	if (bytes)
		ahead_ask(e, a, bytes, e->ahead_there);
}
