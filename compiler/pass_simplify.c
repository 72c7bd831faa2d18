/* pass_simplify.c
 * Problem: elaboration emits every guard; in a variant most are always true.
 * Method:  compares proved by affine.h become constants; i1 arithmetic with constants folds; masks that are always true are
 *          dropped; loads without any mask keep their bounds by the variant's predicate.  Rounds of this and pass clean, until
 *          nothing changes.  What follows from another part of a conjunction is left out of it.
 *          Reductions over elements that are zero where masked off need no mask (absent.c).
 * Needs:   tiles.   Keeps: values exactly. */
#include "absent.h"

#include <math.h>
#include <string.h>

struct simplify { struct pass *p; struct ir_phase *ph; bool changed; };

static bool is_true(const struct ir_ins *i)
{
	return i->op == IR_CONST && i->dtype == DT_I1 && i->imm;
}

static bool is_false(const struct ir_ins *i)
{
	return i->op == IR_CONST && i->dtype == DT_I1 && !i->imm;
}

static void make_const(struct ir_ins *i, int64_t v)
{
	i->op = IR_CONST;
	i->imm = v;
	i->num = 0;
	i->nargs = 0;
	i->axes = 0;
	i->flags = 0;
}

static bool is_int(const struct ir_ins *i)
{
	return i->dtype == DT_I32 || i->dtype == DT_I64;
}

static bool is_float(const struct ir_ins *i)
{
	return i->dtype == DT_F32 || i->dtype == DT_F16 || i->dtype == DT_BF16;
}

static bool int_const(const struct ir_ins *i, int64_t *v)
{
	*v = i->imm;
	return i->op == IR_CONST && is_int(i);
}

static bool upper_bound(const struct ir_ins *i)
{
	return (i->op == IR_LT || i->op == IR_LE) && i->args[0]->dtype == DT_I32;
}

/* x < a and x <= b: one compare of x with the smaller bound, where the bounds have fewer axes than the compares.  What is there by what was loaded
 * pass_guard.c first asks by itself. */
static struct ir_ins *one_bound(struct simplify *s, struct ir_ins *i)
{
	struct ir_ins *p = i->args[0], *q = i->args[1];
	if (!upper_bound(p) || !upper_bound(q) || p->args[0] != q->args[0])
		return NULL;
	struct ir_ins *x = p->args[0], *a = p->args[1], *b = q->args[1];
	if (!((a->axes | b->axes) & ~x->axes) || (x->axes & (a->axes | b->axes)))
		return NULL;
	if (s->p->v->gaps && !s->p->v->few && i->block == s->ph->body && (value_is_of_memory(a) || value_is_of_memory(b)))
		return NULL;
	struct ir_builder at = pass_before(s->p, s->ph, i);
	if (p->op == IR_LT)
		a = ir_bin(&at, IR_SUB, a, ir_int(&at, DT_I32, 1));
	if (q->op == IR_LT)
		b = ir_bin(&at, IR_SUB, b, ir_int(&at, DT_I32, 1));
	return ir_bin(&at, IR_LE, x, ir_bin(&at, IR_MIN, a, b));
}

static bool is_minus_zero(const struct ir_ins *i) { return i->op == IR_CONST && i->num == 0 && signbit(i->num); }

/* x + -0 and x * 1 are x. */
static struct ir_ins *neutral(const struct ir_ins *i)
{
	for (int side = 0; side < 2; side++) {
		const struct ir_ins *c = i->args[side];
		if ((i->op == IR_MUL ? c->op == IR_CONST && c->num == 1 : is_minus_zero(c)) && i->args[!side]->axes == i->axes)
			return i->args[!side];
	}
	return NULL;
}

/* c * o + i < S with i a position in a group of c, where c divides S: the group o is there or it is not, o < S / c. */
static struct ir_ins *of_group(struct simplify *s, struct ir_ins *i)
{
	const struct ir_ins *end = i->args[1];
	struct affine f = affine_of(i->args[0]);
	int outer = -1, inner = -1;
	if (i->op != IR_LT || !f.ok || f.constant || f.nterms || (end->op != IR_SYM && end->op != IR_CONST))
		return NULL;
	for (int a = 0; a < s->ph->naxes; a++) {
		int *to = f.coef[a] == 1 && inner < 0 ? &inner : &outer;
		if (f.coef[a] && *to >= 0)
			return NULL;
		*to = f.coef[a] ? a : *to;
	}
	int64_t by = outer < 0 ? 0 : f.coef[outer], multiple = end->op == IR_CONST ? end->imm : known_symbol_multiple(s->p->v, (int)end->imm);
	if (inner < 0 || by < 2 || s->ph->axes[inner].kind != AXIS_HELD || s->ph->axes[inner].tile != by || multiple % by)
		return NULL;
	struct ir_builder at = pass_before(s->p, s->ph, i);
	struct ir_ins *groups = ir_bin(&at, IR_DIV, ir_bin(&at, IR_ADD, i->args[1], ir_int(&at, DT_I32, by - 1)), ir_int(&at, DT_I32, by));
	return ir_bin(&at, IR_LT, ir_leaf(&at, IR_IOTA, DT_I32, outer), groups);
}

/* o < cdiv(S, c) with o a position of a grid whose tiles S / c is made of, or that has one position a tile. */
static bool is_whole_tile(const struct simplify *s, const struct ir_ins *i)
{
	int64_t by;
	if (i->args[0]->op != IR_IOTA)
		return false;
	const struct ir_axis *ax = &s->ph->axes[i->args[0]->imm];
	if (ax->kind != AXIS_GRID || ax->ragged || ax->cluster || !ax->tile || !value_is_extent(i->args[1], ax->extent) || ax->extent->op != HX_CDIV)
		return false;
	return ax->tile == 1 || (ax->extent->a->op == HX_SYM && hexpr_is_const(ax->extent->b, &by) &&
	                         known_symbol_multiple(s->p->v, (int)ax->extent->a->imm) % (by * ax->tile) == 0);
}

/* x / c < cdiv(n, c), of x that is never negative: true wherever x < n. */
static bool is_of_groups(const struct ir_ins *i, struct ir_ins **x, struct ir_ins **n)
{
	int64_t by, of, add;
	if (i->op != IR_LT || i->args[0]->op != IR_DIV || i->args[1]->op != IR_DIV || i->args[1]->args[0]->op != IR_ADD)
		return false;
	const struct ir_ins *group = i->args[0], *groups = i->args[1], *sum = groups->args[0];
	if (!int_const(group->args[1], &by) || !int_const(groups->args[1], &of) || !int_const(sum->args[1], &add) || by < 1 || of != by || add != by - 1)
		return false;
	struct affine f = affine_of(group->args[0]);
	bool counts = f.ok && !f.nterms && f.constant >= 0;
	for (int a = 0; a < LAYOUT_AXES; a++)
		counts = counts && f.coef[a] >= 0;
	*x = group->args[0];
	*n = sum->args[0];
	return counts;
}

/* Whether `i` is true wherever the conditions joined in `where` all are. */
static bool follows(const struct ir_ins *where, const struct ir_ins *i)
{
	struct ir_ins *x, *n;
	if (where->op == IR_AND)
		return follows(where->args[0], i) || follows(where->args[1], i);
	return where == i || (where->op == IR_LT && is_of_groups(i, &x, &n) && where->args[0] == x && where->args[1] == n);
}

/* Folds one instruction; a replacement value or NULL. */
static struct ir_ins *folded(struct simplify *s, struct ir_ins *i)
{
	struct ir_ins *x, *n;
	int64_t a, b;
	switch (i->op) {
	case IR_LT:
	case IR_LE:
		if (is_float(i->args[0]) && i->args[0]->op == IR_CONST && i->args[1]->op == IR_CONST) {
			double x = i->args[0]->num, y = i->args[1]->num;
			make_const(i, i->op == IR_LT ? x < y : x <= y);
			return NULL;
		}
		if (!is_int(i->args[0]))
			return NULL;
		if (int_const(i->args[0], &a) && int_const(i->args[1], &b))
			make_const(i, i->op == IR_LT ? a < b : a <= b);
		else if (known_less(i->args[0], i->args[1], i->op == IR_LE, s->ph, s->p->v) || (i->op == IR_LT && is_whole_tile(s, i)) ||
			 (is_of_groups(i, &x, &n) && known_less(x, n, false, s->ph, s->p->v)))
			make_const(i, 1);
		else
			return of_group(s, i);
		return NULL;
	case IR_EQ:
	case IR_NE:
		if (int_const(i->args[0], &a) && int_const(i->args[1], &b))
			make_const(i, (a == b) == (i->op == IR_EQ));
		return NULL;
	case IR_AND:
		if (i->dtype != DT_I1)
			return NULL;
		if (is_true(i->args[0]))
			return i->args[1];
		if (is_true(i->args[1]))
			return i->args[0];
		if (follows(i->args[0], i->args[1]))
			return i->args[0];
		if (follows(i->args[1], i->args[0]))
			return i->args[1];
		if (is_false(i->args[0]) || is_false(i->args[1])) {
			make_const(i, 0);
			return NULL;
		}
		return one_bound(s, i);
	case IR_OR:
		if (i->dtype != DT_I1)
			return NULL;
		if (is_false(i->args[0]))
			return i->args[1];
		if (is_false(i->args[1]))
			return i->args[0];
		if (is_true(i->args[0]) || is_true(i->args[1]))
			make_const(i, 1);
		return NULL;
	case IR_NOT:
		if (i->dtype == DT_I1 && i->args[0]->op == IR_CONST)
			make_const(i, !i->args[0]->imm);
		return NULL;
	case IR_SELECT:
		if (i->args[1]->op == IR_SELECT && i->args[1]->args[0] == i->args[0]) {
			i->args[1] = i->args[1]->args[1];
			s->changed = true;
		}
		if (is_true(i->args[0]) && i->args[1]->axes == i->axes)
			return i->args[1];
		if (is_false(i->args[0]) && i->args[2]->axes == i->axes)
			return i->args[2];
		return NULL;
	case IR_ADD:
	case IR_MUL:
		if (is_float(i))
			return neutral(i);
		/* fallthrough */
	case IR_SUB:
	case IR_DIV:
	case IR_REM:
	case IR_MIN:
	case IR_MAX:
		if (!is_int(i) || !int_const(i->args[0], &a) || !int_const(i->args[1], &b))
			return NULL;
		make_const(i, i->op == IR_ADD ? a + b : i->op == IR_SUB ? a - b : i->op == IR_MUL ? a * b :
			   i->op == IR_DIV ? (b ? a / b : 0) : i->op == IR_REM ? (b ? a % b : 0) :
			   i->op == IR_MIN ? (a < b ? a : b) : (a > b ? a : b));
		return NULL;
	case IR_FMA:                                         /* a * b + -0, as of a tensor that is not there, is a * b */
		if (is_minus_zero(i->args[2])) {
			i->op = IR_MUL;
			i->nargs = 2;
		}
		return NULL;
	case IR_CVT:
		if (i->args[0]->op == IR_CONST && (is_int(i->args[0]) || is_float(i->args[0])) && i->dtype == DT_F32) {
			double num = is_int(i->args[0]) ? (double)(float)i->args[0]->imm : i->args[0]->num;
			make_const(i, 0);
			i->num = num;
		}
		return NULL;
	default:
		return NULL;
	}
}

static void drop_mask(struct simplify *s, struct ir_ins *i)
{
	if (!(i->flags & IR_MASKED))
		return;
	struct ir_ins *mask = i->args[i->nargs - 1];
	bool drop = is_true(mask);
	if (i->op == IR_REDUCE && !drop) {
		int needed = absent_needed(s->p->v, s->ph, i);
		drop = needed >= 0;
		for (int a = 0; a < i->nargs - 1; a++)
			drop = drop && (int)absent_value(i->args[a], mask) >= needed;
	}
	if (drop) {
		i->flags &= (uint8_t)~IR_MASKED;
		i->nargs--;
		s->changed = true;
	}
}

static void visit(struct ir_ins *i, void *ctx)
{
	struct simplify *s = ctx;
	uint8_t op = i->op;
	struct ir_ins *by = folded(s, i);
	if (by) {
		ir_replace(s->p->k, i, by);
		ir_remove(i);
		s->changed = true;
		return;
	}
	s->changed = s->changed || i->op != op;
	drop_mask(s, i);
}

int pass_simplify(struct pass *p)
{
	bool changed = true;
	for (int round = 0; changed && round < 8; round++) {
		changed = false;
		FOR_PHASES(p, ph) {
			struct simplify s = {p, ph, false};
			ir_walk(ph->body, visit, &s);
			ir_walk(ph->body, ir_recompute_axes, NULL);
			changed = changed || s.changed;
		}
		pass_clean(p);
	}
	return 0;
}
