/* readers.c -- what a lane stores and another loads or stores as well: they wait for each other in between, since statements are done in order, each whole.
 * In: loads, stores and updates of tensors that a phase writes, in their order, loops and branches entered and left.  Out: a barrier in front of one of
 * them where an element of it may be another lane's in one since the last barrier.
 * Method: nothing is waited for where the two never meet, because their subscripts reach different elements, nor where each element is the same
 * lane's in both: of equal layouts, where subscripts that are the same say which position an element has.  Subscripts are sums (affine.h); one with
 * what changes from round to round of a loop says so if its steps are known and reach beyond all else in it.  What is not known is waited for. */
#include "../../affine.h"
#include "../../pass.h"
#include "machine.h"

#include <stdlib.h>

/* An access since the last barrier; loop: of a round before this one of it, NULL = of this round. */
struct touched { const struct ir_ins *i, *loop; const struct touched *next; };

struct meeting { const struct emit *e; const struct ir_ins *a, *b, *loop; };

/* Of a value that grows from round to round of its loop: where it begins, by how much it grows, or by how much at least; axis: whose tile's start it is. */
enum { COUNTER = -1, AT_LEAST = -2 };                      /* no tile's start */
struct steps { int64_t from, by; int axis; };

/* What a subscript adds up, beside what is the same for both: any multiple of `by` (endless), or of the numbers up to `most` one times `by`. */
struct part { int64_t by, most; bool endless; };

/* --- loops --------------------------------------------------------------------------------------------------------------- */

static bool is_inside(const struct ir_ins *i, const struct ir_ins *loop)
{
	for (const struct ir_block *b = i->block; b; b = b->owner ? b->owner->block : NULL)
		if (b == loop->body)
			return true;
	return false;
}

static const struct ir_ins *loop_of(const struct ir_ins *i, int axis)
{
	const struct ir_ins *in = i->block->owner;
	while (in && !(in->op == IR_FOR && in->imm == axis))
		in = in->block->owner;
	return in;
}

/* Tiles of the axis begin at multiples of it around the access, whichever loop it is in. */
static bool is_aligned(const struct emit *e, const struct ir_ins *i, int axis)
{
	const struct ir_ins *loop = loop_of(i, axis);
	int tile = e->ph->axes[axis].tile;
	return tile == 1 || (loop && loop->args[0]->op == IR_CONST && loop->args[0]->imm % tile == 0);
}

/* What a value is at least, if that is above 0; else 0. */
static int64_t least_of(const struct ir_ins *i)
{
	if (i->op == IR_CONST)
		return i->imm > 0 ? i->imm : 0;
	if (i->op != IR_MAX && i->op != IR_MUL)
		return 0;
	int64_t a = least_of(i->args[0]), b = least_of(i->args[1]);
	return i->op == IR_MUL ? a * b : a > b ? a : b;
}

static bool is_outside_loops(const struct ir_ins *i)
{
	const struct ir_ins *in = i->block->owner;
	while (in && in->op != IR_FOR)
		in = in->block->owner;
	return !in;
}

static bool has_steps(const struct emit *e, const struct ir_ins *i, struct steps *s)
{
	int axis = ir_is_tile_bound(i) ? (int)i->args[0]->imm : -1;
	if (i->op == IR_MUL && has_steps(e, i->args[0], s) && is_outside_loops(i->args[1])) {      /* as many as one for all rounds */
		*s = (struct steps){0, s->by * least_of(i->args[1]), AT_LEAST};
		return s->by > 0;
	}
	if (axis >= 0 && e->ph->axes[axis].kind == AXIS_LOOP && (i->kind == RED_MIN || e->ph->axes[axis].tile == 1) && is_aligned(e, i, axis)) {
		*s = (struct steps){0, e->ph->axes[axis].tile, axis};
		return true;
	}
	if (!value_counts_up(i))
		return false;
	*s = (struct steps){i->block->owner->args[2 + i->imm]->imm, i->block->last->args[i->imm]->args[1]->imm, COUNTER};
	return s->by > 0;
}

/* The same number wherever the two accesses are, if both name it. */
static bool is_fixed(const struct meeting *m, const struct ir_ins *of)
{
	struct steps s;
	return !of || (!has_steps(m->e, of, &s) && !(m->loop && is_inside(of, m->loop)));
}

/* --- the same lane --------------------------------------------------------------------------------------------------------- */

static bool is_term_of(const struct meeting *m, const struct affine *f, const struct ir_ins *of, int symbol, int64_t coef)
{
	struct steps s, o;
	bool grows = of && has_steps(m->e, of, &s);
	for (int t = 0; t < f->nterms; t++) {
		const struct ir_ins *other = f->term[t].of;
		bool alike = grows && other && has_steps(m->e, other, &o) && s.axis != AT_LEAST && s.from == o.from && s.by == o.by && s.axis == o.axis;
		if (f->term[t].coef == coef && (alike || (other == of && (of || f->term[t].symbol == symbol))))
			return true;
	}
	return false;
}

static bool are_alike(const struct meeting *m, const struct affine *a, const struct affine *b)
{
	bool alike = a->ok && b->ok && a->constant == b->constant && a->nterms == b->nterms;
	for (int x = 0; alike && x < m->e->ph->naxes; x++)
		alike = a->coef[x] == b->coef[x];
	for (int t = 0; alike && t < a->nterms; t++)
		alike = is_term_of(m, b, a->term[t].of, a->term[t].symbol, a->term[t].coef);
	return alike;
}

static int by_step(const void *a, const void *b)
{
	int64_t x = ((const struct part *)a)->by, y = ((const struct part *)b)->by;
	return (x > y) - (x < y);
}

/* An element's subscript says each position in it: no step is reached by what is below it. */
static bool tells(const struct meeting *m, const struct affine *f, const struct layout *l)
{
	struct part part[LAYOUT_AXES + AFFINE_TERMS];
	struct steps s;
	int n = 0;
	int64_t reach = 0;
	for (int x = 0; x < m->e->ph->naxes; x++) {
		bool loop = m->e->ph->axes[x].kind == AXIS_LOOP;
		if (f->coef[x] && (loop || layout_size(l, x) > 1))
			part[n++] = (struct part){llabs(f->coef[x]), layout_size(l, x) - 1, loop};
	}
	for (int t = 0; t < f->nterms; t++) {
		if (is_fixed(m, f->term[t].of))
			continue;
		if (!has_steps(m->e, f->term[t].of, &s))
			return false;
		part[n++] = (struct part){llabs(f->term[t].coef) * s.by, 0, true};
	}
	qsort(part, (size_t)n, sizeof *part, by_step);
	for (int k = 0; k < n; k++) {
		if (part[k].by <= reach || (part[k].endless && k < n - 1))
			return false;
		reach += part[k].by * part[k].most;
	}
	return true;
}

/* Whichever position along the axis a lane has, the element says it, and which lane that is. */
static bool is_told(const struct meeting *m, int axis)
{
	const struct ir_ins *a = m->a, *b = m->b;
	if (m->e->ph->axes[axis].kind == AXIS_LOOP && !(is_aligned(m->e, a, axis) && is_aligned(m->e, b, axis)))
		return false;
	for (int d = 0; d < m->e->k->params[a->imm].rank; d++) {
		struct affine f = affine_of(a->args[d]), g = affine_of(b->args[d]);
		if (f.ok && f.coef[axis] && are_alike(m, &f, &g) && tells(m, &f, a->layout))
			return true;
	}
	return false;
}

/* Of waves; of lanes as well, which do the same at once, but what one of them does first the others need not have done. */
static bool have_copies(const struct layout *l, bool lanes)
{
	bool copies = false;
	for (int b = 0; b < l->nwave; b++)
		copies = copies || layout_basis_is_zero(&l->wave[b]);
	for (int b = 0; lanes && b < l->nlane; b++)
		copies = copies || layout_basis_is_zero(&l->lane[b]);
	return copies;
}

/* One number a workgroup, of one wave, which has loaded it by the time that a lane stores it. */
static bool is_same_number(const struct meeting *m)
{
	bool alike = m->e->waves == 1 && m->a->op == IR_LOAD && !m->loop;
	for (int d = 0; alike && d < m->e->k->params[m->a->imm].rank; d++) {
		struct affine f = affine_of(m->a->args[d]), g = affine_of(m->b->args[d]);
		alike = are_alike(m, &f, &g);
		for (int t = 0; alike && t < f.nterms; t++)
			alike = is_fixed(m, f.term[t].of);
	}
	return alike;
}

static bool is_same_lane(const struct meeting *m)
{
	const struct ir_ins *a = m->a, *b = m->b;
	bool stores = a->op == IR_STORE && b->op == IR_STORE, lanes = a->op != IR_LOAD || b->op != IR_STORE;
	if (!a->layout || !b->layout)
		return !a->layout && !b->layout && (stores || is_same_number(m));
	bool same = layout_equal(a->layout, b->layout) && (stores || !have_copies(a->layout, lanes));
	for (int x = 0; same && x < m->e->ph->naxes; x++)
		same = layout_size(a->layout, x) == 1 || is_told(m, x);
	return same;
}

/* --- different elements ---------------------------------------------------------------------------------------------------- */

/* Takes `times` the last position of an axis from f: of the extent, if that is a number or a symbol, or of a held tile. */
static void take_last(struct affine *f, const struct ir_axis *ax, int64_t times)
{
	struct affine last = {.ok = true};
	int64_t n = ax->tile;
	if (!hexpr_is_const(ax->extent, &n) && ax->extent->op == HX_SYM) {
		last.term[last.nterms].of = NULL;
		last.term[last.nterms].symbol = (int)ax->extent->imm;
		last.term[last.nterms++].coef = times;
		n = 0;
	}
	last.constant = (n - 1) * times;
	*f = affine_sub(*f, last);
}

/* Subscript a of one access is below b of the other, whatever positions the two have: along axes of the grid in the workgroup's tile, or anywhere. */
static bool is_below(const struct meeting *m, const struct affine *a, const struct affine *b, bool anywhere)
{
	struct affine d = affine_sub(*b, *a);
	for (int x = 0; d.ok && x < m->e->ph->naxes; x++) {
		const struct ir_axis *ax = &m->e->ph->axes[x];
		d.coef[x] = 0;
		if (!a->coef[x] && !b->coef[x])
			continue;
		bool has_end = ax->extent && (ax->kind == AXIS_HELD || (ax->kind == AXIS_GRID && (ax->extent->op == HX_SYM || ax->extent->op == HX_CONST)));
		if (has_end && (ax->kind == AXIS_HELD || anywhere)) {
			take_last(&d, ax, (a->coef[x] > 0 ? a->coef[x] : 0) + (b->coef[x] < 0 ? -b->coef[x] : 0));
			continue;
		}
		if (ax->kind != AXIS_GRID || a->coef[x] != b->coef[x])
			return false;
		d.constant -= llabs(a->coef[x]) * (ax->tile - 1);      /* both from the workgroup's first on */
	}
	for (int t = 0; d.ok && t < d.nterms; t++)
		if (d.term[t].of || d.term[t].coef < 0)
			return false;
	return d.ok && d.constant > 0;
}

static bool are_apart(const struct meeting *m, const struct affine *a, const struct affine *b)
{
	return is_below(m, a, b, false) || is_below(m, b, a, false) || is_below(m, a, b, true) || is_below(m, b, a, true);
}

static bool are_fixed(const struct meeting *m, const struct affine *f)
{
	bool fixed = f->ok;
	for (int t = 0; fixed && t < f->nterms; t++)
		fixed = is_fixed(m, f->term[t].of);
	return fixed;
}

static bool never_meet(const struct meeting *m)
{
	for (int d = 0; d < m->e->k->params[m->a->imm].rank; d++) {
		struct affine f = affine_of(m->a->args[d]), g = affine_of(m->b->args[d]);
		if (are_fixed(m, &f) && are_fixed(m, &g) && are_apart(m, &f, &g))
			return true;
	}
	return false;
}

/* --- barriers -------------------------------------------------------------------------------------------------------------- */

static bool must_wait(const struct emit *e, const struct touched *t, const struct ir_ins *i)
{
	struct meeting m = {e, t->i, i, t->loop};
	bool loads = t->i->op == IR_LOAD && i->op == IR_LOAD, adds = t->i->op == IR_UPDATE && i->op == IR_UPDATE && t->i->kind == i->kind;
	return t->i->imm == i->imm && !loads && !adds && !never_meet(&m) && !is_same_lane(&m);
}

/* Of a tensor that is written; what others update meanwhile is loaded as it was at any time. */
static bool counts(const struct emit *e, const struct ir_ins *i)
{
	bool access = i->op == IR_LOAD || i->op == IR_STORE || i->op == IR_UPDATE;
	return access && e->k->params[i->imm].role != IR_IN && !(i->op == IR_LOAD && i->flags & IR_RELAXED);
}

static void note(struct emit *e, const struct ir_ins *i, const struct ir_ins *loop)
{
	for (const struct touched *t = e->touched; t; t = t->next)
		if (t->i == i && t->loop == loop)
			return;
	struct touched *t = arena_alloc(e->arena, sizeof *t);
	*t = (struct touched){i, loop, e->touched};
	e->touched = t;
}

void readers_before(struct emit *e, const struct ir_ins *i)
{
	if (!counts(e, i))
		return;
	for (const struct touched *t = e->touched; t; t = t->next)
		if (must_wait(e, t, i)) {
			e->machine->memory_barrier(e);
			e->touched = NULL;
			break;
		}
	note(e, i, NULL);
}

struct entering { struct emit *e; const struct ir_ins *loop; };

static void note_of_loop(struct ir_ins *i, void *ctx)
{
	struct entering *in = ctx;
	if (counts(in->e, i))
		note(in->e, i, in->loop);
}

void readers_enter_loop(struct emit *e, const struct ir_ins *loop)
{
	struct entering in = {e, loop};
	ir_walk(loop->body, note_of_loop, &in);
}

void readers_meet(struct emit *e, const struct touched *other)
{
	for (; other; other = other->next)
		note(e, other->i, other->loop);
}
