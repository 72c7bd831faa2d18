/* absent.c
 * In:     a value of the tile IR, a mask.
 * Out:    what the value is in elements for which the mask is false, and what it has to be there for a reduction to do without the mask.
 * Method: loads read +0 where masked off, and zeros go through arithmetic as IEEE 754 has it.  A product is zero if both factors are: one
 *         alone could meet an infinity. */
#include "absent.h"

#include <math.h>

static enum absent less(enum absent a, enum absent b) { return a < b ? a : b; }
static enum absent more(enum absent a, enum absent b) { return a > b ? a : b; }

static bool implies(const struct ir_ins *m, const struct ir_ins *mask)
{
	return m == mask || (m->op == IR_AND && (m->args[0] == mask || m->args[1] == mask));
}

static enum absent of_constant(const struct ir_ins *i)
{
	return !dtype_is_float(i->dtype) || i->num != 0 ? ANYTHING : signbit(i->num) ? ANY_ZERO : PLUS_ZERO;
}

enum absent absent_value(const struct ir_ins *i, const struct ir_ins *mask)
{
	enum absent of[3] = {ANYTHING, ANYTHING, ANYTHING}, least = PLUS_ZERO;
	switch (i->op) {
	case IR_LOAD:
		return i->dtype != DT_E8M0 && i->flags & IR_MASKED && implies(i->args[i->nargs - 1], mask) ? PLUS_ZERO : ANYTHING;   /* whose code 0 is 2^-127 */
	case IR_CONST:
		return of_constant(i);
	case IR_SELECT:
		if (i->args[0] == mask)
			return absent_value(i->args[2], mask);
		return less(absent_value(i->args[1], mask), absent_value(i->args[2], mask));
	case IR_CVT: case IR_NEG: case IR_ABS: case IR_MUL: case IR_ADD: case IR_SUB: case IR_MAX: case IR_MIN: case IR_FMA:
		break;
	default:
		return ANYTHING;
	}
	for (int a = 0; a < i->nargs; a++)
		least = less(least, of[a] = absent_value(i->args[a], mask));
	if (least == ANYTHING)
		return ANYTHING;
	switch (i->op) {
	case IR_NEG: return ANY_ZERO;
	case IR_ABS: return PLUS_ZERO;
	case IR_ADD: case IR_MAX: return more(of[0], of[1]);
	case IR_FMA: return more(less(of[0], of[1]), of[2]);
	case IR_SUB: return of[0];
	default: return least;
	}
}

bool absent_is_outside(const struct ir_phase *ph, const struct ir_ins *mask)
{
	return mask->op == IR_LT && mask->args[0]->op == IR_IOTA && value_is_extent(mask->args[1], ph->axes[mask->args[0]->imm].extent);
}

/* Some position of `over` is always present: held axes of extent >= 1 under a lone end-of-axis guard, and axes that are swept, whose
 * loop runs for chunks that begin before the end. */
static bool never_empty(const struct variant *v, const struct ir_phase *ph, const struct ir_ins *mask, ir_axes over)
{
	if (mask->op != IR_LT || mask->args[0]->op != IR_IOTA || !(over & IR_AXIS(mask->args[0]->imm)))
		return false;
	const struct ir_axis *ax = &ph->axes[mask->args[0]->imm];
	if (v->stream && ax->kind == AXIS_HELD && !ax->tile)
		return true;
	if (mask->args[1]->op == IR_CONST)
		return mask->args[1]->imm > 0;
	for (int i = 0; mask->args[1]->op == IR_SYM && i < v->nlimits; i++)
		if (v->limits[i].symbol == mask->args[1]->imm)
			return true;   /* limits say 1 <= symbol <= most */
	return false;
}

int absent_needed(const struct variant *v, const struct ir_phase *ph, const struct ir_ins *reduce)
{
	const struct ir_ins *mask = reduce->args[reduce->nargs - 1];
	if (!(mask->axes & reduce->over) && absent_is_outside(ph, mask))
		return ANYTHING;                             /* so is the result */
	if (reduce->kind == RED_SUM)
		return PLUS_ZERO;
	return reduce->kind == RED_MAX && reduce->args[0]->op == IR_ABS && never_empty(v, ph, mask, reduce->over) ? ANY_ZERO : -1;
}
