/* affine.c -- sums over axes and scalars, and the few proofs that need them.
 * In: index expressions of tile IR.  Out: struct affine, divisors, "always less".  Rules are the ones below and no more: a guard
 * that is not proved stays in the kernel and costs a compare. */
#include "affine.h"

#include <string.h>

static struct affine fail(void)
{
	return (struct affine){.ok = false};
}

static bool add_term(struct affine *r, const struct ir_ins *of, int symbol, int64_t coef)
{
	for (int i = 0; i < r->nterms; i++)
		if (r->term[i].of == of && r->term[i].symbol == symbol) {
			r->term[i].coef += coef;
			if (r->term[i].coef == 0)
				r->term[i] = r->term[--r->nterms];
			return true;
		}
	if (coef == 0)
		return true;
	if (r->nterms == AFFINE_TERMS)
		return false;
	r->term[r->nterms].of = of;
	r->term[r->nterms].symbol = symbol;
	r->term[r->nterms++].coef = coef;
	return true;
}

static struct affine combine(struct affine a, struct affine b, int64_t scale)
{
	if (!a.ok || !b.ok)
		return fail();
	for (int i = 0; i < LAYOUT_AXES; i++)
		a.coef[i] += scale * b.coef[i];
	for (int i = 0; i < b.nterms; i++)
		if (!add_term(&a, b.term[i].of, b.term[i].symbol, scale * b.term[i].coef))
			return fail();
	a.constant += scale * b.constant;
	return a;
}

struct affine affine_sub(struct affine a, struct affine b)
{
	return combine(a, b, -1);
}

static struct affine constant(int64_t v)
{
	return (struct affine){.ok = true, .constant = v};
}

static bool is_constant(const struct affine *a)
{
	if (!a->ok || a->nterms)
		return false;
	for (int i = 0; i < LAYOUT_AXES; i++)
		if (a->coef[i])
			return false;
	return true;
}

static struct affine scaled(struct affine a, int64_t by)
{
	return combine(constant(0), a, by);
}

static struct affine product(struct affine a, struct affine b)
{
	if (is_constant(&a))
		return scaled(b, a.constant);
	if (is_constant(&b))
		return scaled(a, b.constant);
	return fail();
}

struct affine affine_of(const struct ir_ins *v)
{
	struct affine r = constant(0), s;
	switch (v->op) {
	case IR_CONST:
		return constant(v->imm);
	case IR_IOTA:
		r.coef[v->imm] = 1;
		return r;
	case IR_SYM:
		add_term(&r, NULL, (int)v->imm, 1);
		return r;
	case IR_ADD:
		r = combine(affine_of(v->args[0]), affine_of(v->args[1]), 1);
		break;
	case IR_SUB:
		r = combine(affine_of(v->args[0]), affine_of(v->args[1]), -1);
		break;
	case IR_MUL:
		r = affine_of(v->args[0]);
		s = affine_of(v->args[1]);
		r = product(r, s);
		break;
	case IR_NEG:
		r = scaled(affine_of(v->args[0]), -1);
		break;
	case IR_CVT:
		if (v->args[0]->dtype == DT_I32 || v->args[0]->dtype == DT_I64)
			r = affine_of(v->args[0]);
		else
			r = fail();
		break;
	default:
		r = fail();
	}
	if (r.ok || v->axes)
		return r;
	r = constant(0);
	add_term(&r, v, -1, 1);
	return r;
}

/* A host expression: sums, differences, products by constants over symbols; not ok otherwise. */
static struct affine affine_hexpr(const struct hexpr *e)
{
	struct affine r = constant(0);
	switch (e->op) {
	case HX_CONST:
		return constant(e->imm);
	case HX_SYM:
		add_term(&r, NULL, (int)e->imm, 1);
		return r;
	case HX_ADD:
		return combine(affine_hexpr(e->a), affine_hexpr(e->b), 1);
	case HX_SUB:
		return combine(affine_hexpr(e->a), affine_hexpr(e->b), -1);
	case HX_MUL:
		return product(affine_hexpr(e->a), affine_hexpr(e->b));
	default:
		return fail();
	}
}

bool value_counts_up(const struct ir_ins *i)
{
	if (i->op != IR_ARG || !i->block->owner || i->block->owner->op != IR_FOR)
		return false;
	const struct ir_ins *start = i->block->owner->args[2 + i->imm], *next = i->block->last->args[i->imm];
	return start->op == IR_CONST && start->imm >= 0 && next->op == IR_ADD && next->args[0] == i && next->args[1]->op == IR_CONST &&
	       next->args[1]->imm >= 0;
}

bool affine_never_negative(const struct affine *f)
{
	if (!f->ok || f->constant < 0)
		return false;
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (f->coef[a] < 0)
			return false;
	for (int t = 0; t < f->nterms; t++)
		if ((f->term[t].of && !value_counts_up(f->term[t].of)) || f->term[t].coef < 0)
			return false;
	return true;
}

int64_t known_symbol_multiple(const struct variant *v, int symbol)
{
	for (int i = 0; v && i < v->nmultiples; i++)
		if (v->multiples[i].symbol == symbol)
			return v->multiples[i].multiple;
	return 1;
}

static int64_t low_bit(int64_t x)
{
	return x ? (x & -x) : (int64_t)1 << 30;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t known_divisor(const struct ir_ins *v, const struct ir_phase *ph, const struct variant *var)
{
	switch (v->op) {
	case IR_CONST:
		return low_bit(v->imm);
	case IR_SYM:
		return low_bit(known_symbol_multiple(var, (int)v->imm));
	case IR_ADD:
	case IR_SUB:
		return least(known_divisor(v->args[0], ph, var), known_divisor(v->args[1], ph, var));
	case IR_MUL:
		return least(known_divisor(v->args[0], ph, var) * known_divisor(v->args[1], ph, var), (int64_t)1 << 30);
	case IR_LIMIT:
		return ph->axes[v->imm].of_list && var && var->list_multiple ? var->list_multiple : 1;
	case IR_CVT:
		return v->args[0]->dtype == DT_I32 ? known_divisor(v->args[0], ph, var) : 1;
	case IR_MIN:
	case IR_MAX:
		return least(known_divisor(v->args[0], ph, var), known_divisor(v->args[1], ph, var));
	case IR_ARG: {
		/* A counter: starts at a multiple, grows by a multiple. */
		struct ir_ins *loop = v->block->owner, *last = v->block->last;
		if (!loop || loop->op != IR_FOR || !last || last->op != IR_YIELD)
			return 1;
		struct ir_ins *start = loop->args[2 + v->imm], *next = last->args[v->imm];
		if (next->op != IR_ADD || (next->args[0] != v && next->args[1] != v))
			return 1;
		struct ir_ins *step = next->args[next->args[0] == v];
		return least(known_divisor(start, ph, var), known_divisor(step, ph, var));
	}
	default:
		return 1;
	}
}

/* True where the tiles of `axis` never reach beyond its extent. */
static bool axis_exact(const struct ir_phase *ph, int axis, const struct variant *var)
{
	const struct ir_axis *a = &ph->axes[axis];
	int64_t n;
	if (a->ragged || !a->extent || !a->tile)
		return false;
	if (a->cluster)
		return hexpr_is_const(a->extent, &n) && n == (int64_t)a->tile * a->cluster;
	if (a->tile == 1 && a->kind == AXIS_GRID)
		return true;
	if (hexpr_is_const(a->extent, &n))
		return a->kind == AXIS_HELD ? n == a->tile : n % a->tile == 0;
	if (a->kind == AXIS_GRID && a->extent->op == HX_SYM)
		return known_symbol_multiple(var, (int)a->extent->imm) % a->tile == 0;
	return false;
}

/* Replaces coef * (extent - 1) for an axis; cdiv(S, c) with c | S known becomes S / c. */
static struct affine axis_most(const struct hexpr *extent, int64_t coef, const struct variant *var)
{
	int64_t c;
	if (extent->op == HX_CDIV && extent->a->op == HX_SYM && hexpr_is_const(extent->b, &c) && coef % c == 0 &&
	    known_symbol_multiple(var, (int)extent->a->imm) % c == 0) {
		struct affine r = constant(-coef);
		add_term(&r, NULL, (int)extent->a->imm, coef / c);
		return r;
	}
	return combine(scaled(affine_hexpr(extent), coef), constant(coef), -1);
}

static bool is_integer(const struct ir_ins *i, int64_t n) { return i->op == IR_CONST && i->imm == n; }

bool value_is_extent(const struct ir_ins *v, const struct hexpr *extent)
{
	int64_t n;
	if (!extent)
		return false;
	if (hexpr_is_const(extent, &n))
		return is_integer(v, n);
	if (extent->op == HX_SYM)
		return v->op == IR_SYM && v->imm == extent->imm;
	const struct ir_ins *sum = v->op == IR_DIV ? v->args[0] : NULL;
	return extent->op == HX_CDIV && hexpr_is_const(extent->b, &n) && sum && is_integer(v->args[1], n) && sum->op == IR_ADD && is_integer(sum->args[1], n - 1) &&
	       value_is_extent(sum->args[0], extent->a);
}

/* What an extent is at most; false where the variant's numbers do not say. */
static bool extent_has_most(const struct hexpr *extent, const struct variant *var, int64_t *n)
{
	bool known = hexpr_is_const(extent, n);
	for (int i = 0; var && !known && extent->op == HX_SYM && i < var->nlimits; i++)
		if (var->limits[i].symbol == extent->imm) {
			*n = var->limits[i].most;
			known = true;
		}
	return known;
}

bool axis_fits(const struct ir_axis *a, const struct variant *var)
{
	int64_t n;
	return a->kind == AXIS_HELD && a->tile && extent_has_most(a->extent, var, &n) && n <= a->tile;
}

/* What the parts of a condition say that the extent is at most. */
static int64_t most_by_condition(const struct hexpr *c, const struct hexpr *extent)
{
	int64_t n;
	if (c && c->op == HX_AND) {
		int64_t a = most_by_condition(c->a, extent), b = most_by_condition(c->b, extent);
		return a < b ? a : b;
	}
	return c && c->op == HX_LE && hexpr_equal(c->a, extent) && hexpr_is_const(c->b, &n) ? n : INT64_MAX;
}

bool axis_is_beyond(const struct ir_axis *a, const struct variant *var)
{
	int64_t most, by = 1, whole;
	if (a->kind != AXIS_HELD || !a->tile || !var)
		return false;
	if (extent_has_most(a->extent, var, &most))
		return most > a->tile;
	most = most_by_condition(var->predicate, a->extent);
	if (a->extent->op == HX_CDIV && hexpr_is_const(a->extent->b, &by) && by > 0) {
		if (!extent_has_most(a->extent->a, var, &whole))
			whole = most_by_condition(var->predicate, a->extent->a);
		most = whole != INT64_MAX && (whole + by - 1) / by < most ? (whole + by - 1) / by : most;
	}
	return most > a->tile;
}

ir_axes axes_of_several(const struct ir_phase *ph, ir_axes axes)
{
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		if (!(ax->tile > 1 || (!ax->tile && (ax->tiled || ax->kind == AXIS_HELD))))
			axes &= ~IR_AXIS(a);
	}
	return axes;
}

bool dot_is_matrix(const struct ir_phase *ph, const struct ir_ins *dot)
{
	ir_axes k = axes_of_several(ph, dot->over), a = axes_of_several(ph, dot->args[0]->axes & ~dot->over), b = axes_of_several(ph, dot->args[1]->axes & ~dot->over);
	bool one_each = k && !(k & (k - 1)) && a && !(a & (a - 1)) && b && !(b & (b - 1));
	return one_each && a != b && (dot->args[0]->axes & k) && (dot->args[1]->axes & k);
}

struct independence { const struct ir_kernel *k; int axis; bool ok; };

static void check_independence(struct ir_ins *i, void *ctx)
{
	struct independence *d = ctx;
	bool along = false;
	for (int a = 0; a < i->nargs; a++)
		along = along || (i->args[a]->axes & IR_AXIS(d->axis));
	if (i->over & IR_AXIS(d->axis))
		d->ok = false;
	if (i->op == IR_UPDATE && !along)                /* would happen once a chunk */
		d->ok = false;
	if (i->op == IR_LOAD && d->k->params[i->imm].role != IR_IN && d->k->params[i->imm].role != IR_TEMP)
		d->ok = false;
}

bool axis_is_independent(const struct ir_kernel *k, const struct ir_phase *ph, int axis)
{
	struct independence d = {k, axis, true};
	ir_walk(ph->body, check_independence, &d);
	return d.ok;
}

static const struct ir_ins *loop_of_axis(const struct ir_ins *near, int axis)
{
	for (const struct ir_block *b = near->block; b; b = b->owner ? b->owner->block : NULL)
		if (b->owner && b->owner->op == IR_FOR && b->owner->imm == axis)
			return b->owner;
	return NULL;
}

bool known_less(const struct ir_ins *a, const struct ir_ins *b, bool or_equal, const struct ir_phase *ph, const struct variant *var)
{
	struct affine d = affine_sub(affine_of(a), affine_of(b));
	if (!d.ok)
		return false;
	for (int i = 0; i < ph->naxes; i++) {
		int64_t c = d.coef[i];
		if (!c)
			continue;
		const struct ir_axis *ax = &ph->axes[i];
		struct affine most;
		if (c < 0) {
			if (ax->kind == AXIS_LOOP) {
				const struct ir_ins *f = loop_of_axis(a->axes & IR_AXIS(i) ? a : b, i);
				if (!f)
					return false;
				most = scaled(affine_of(f->args[0]), c);
			} else {
				most = constant(0);
			}
		} else if (ax->kind == AXIS_LOOP) {
			const struct ir_ins *f = loop_of_axis(a->axes & IR_AXIS(i) ? a : b, i);
			struct affine span = f ? affine_sub(affine_of(f->args[1]), affine_of(f->args[0])) : fail();
			bool exact = ax->tile == 1;
			if (span.ok && ax->tile > 1) {
				exact = span.constant % ax->tile == 0;
				for (int t = 0; t < span.nterms; t++)
					exact = exact && !span.term[t].of &&
						(span.term[t].coef * known_symbol_multiple(var, span.term[t].symbol)) % ax->tile == 0;
			}
			if (!exact)
				return false;
			most = scaled(combine(affine_of(f->args[1]), constant(1), -1), c);
		} else if (axis_exact(ph, i, var)) {
			most = axis_most(ax->extent, c, var);
		} else if (ax->kind == AXIS_HELD && axis_fits(ax, var)) {
			most = constant(c * (ax->tile - 1));
		} else {
			return false;
		}
		d.coef[i] = 0;
		d = combine(d, most, 1);
		if (!d.ok)
			return false;
	}
	for (int i = 0; i < d.nterms; i++)          /* symbols are not negative */
		if (d.term[i].of || d.term[i].coef > 0)
			return false;
	return or_equal ? d.constant <= 0 : d.constant < 0;
}
