/* swap.c -- tiles whose lanes change places with their registers: what is stored in shorter runs than lanes hold (layout_beside).
 * In: a relayout of words whose layouts differ in register bits and lane bits that have changed places.  Out: an exchange between lanes of a wave for
 * every two registers, of which each lane keeps one and gives the other away.  False: they differ in something else; such tiles go through LDS (lds.c). */
#include "../../pass.h"
#include "machine.h"

#include <string.h>

static bool is_same(const struct layout_basis *a, const struct layout_basis *b) { return memcmp(a, b, sizeof *a) == 0; }

/* By lane bit, the register bit that it has changed places with; -1: none. */
static bool find_places(const struct layout *from, const struct layout *to, int *place)
{
	unsigned moved = 0;
	if (from->nreg != to->nreg || from->nlane != to->nlane || from->nwave != to->nwave || memcmp(from->block, to->block, sizeof from->block) ||
	    memcmp(from->rep, to->rep, sizeof from->rep) || memcmp(from->wave, to->wave, sizeof *from->wave * from->nwave))
		return false;
	for (int b = 0; b < from->nlane; b++) {
		place[b] = -1;
		if (is_same(&from->lane[b], &to->lane[b]))
			continue;
		for (int r = 0; r < from->nreg; r++)
			if (is_same(&from->reg[r], &to->lane[b]) && is_same(&to->reg[r], &from->lane[b]))
				place[b] = r;
		if (place[b] < 0)
			return false;
		moved |= 1u << place[b];
	}
	for (int r = 0; r < from->nreg; r++)
		if (!(moved >> r & 1) && !is_same(&from->reg[r], &to->reg[r]))
			return false;
	return moved;
}

/* Of registers that differ in bit r a lane whose bit b is 0 keeps the lower, and gets the other lane's lower one for the higher. */
static void swap_bits(struct emit *e, LLVMValueRef *x, int regs, int r, int b)
{
	LLVMValueRef high = LLVMBuildICmp(e->b, LLVMIntNE, LLVMBuildAnd(e->b, e->tid, emit_int(e, 1 << b), ""), emit_int(e, 0), "");
	for (int n = 0; n < regs; n++) {
		if (n >> r & 1)
			continue;
		LLVMValueRef *low = &x[n], *other = &x[n | 1 << r];
		LLVMValueRef got = lane_xor(e, LLVMBuildSelect(e->b, high, *low, *other, ""), b, false);
		LLVMValueRef kept = *low;
		*low = LLVMBuildSelect(e->b, high, got, kept, "");
		*other = LLVMBuildSelect(e->b, high, *other, got, "");
	}
}

bool swap_lanes(struct emit *e, const struct ir_ins *i)
{
	const struct ir_ins *v = i->args[0];
	int place[8], regs = layout_regs(i->layout);
	if (!e->v->target->lanes_share || !v->layout || dtype_info(v->dtype)->bits != 32 || !find_places(v->layout, i->layout, place))
		return false;
	LLVMValueRef *x = arena_alloc(e->arena, sizeof *x * (size_t)regs);
	value_new(e, i);
	for (int r = 0; r < regs; r++)
		x[r] = value_element(e, v, v->layout, r);
	for (int b = 0; b < v->layout->nlane; b++)
		if (place[b] >= 0)
			swap_bits(e, x, regs, place[b], b);
	for (int r = 0; r < regs; r++)
		value_set(e, i, r, 1, x[r]);
	return true;
}
