/* elab_parts.c -- whether what is reduced over a tile becomes what the whole axis would give, whatever the size of tiles.
 *
 * In: a value that is stored, added to a tensor or kept as state.  Out: the tiled axes whose tiles it would show.
 *
 * What is reduced over a tile is a part.  Sums of parts are the whole sum and the largest of parts is the largest of all: so `+=` takes what
 * is linear in sums over the tile, `max=` what rises with a largest, `min=` what rises with a smallest.  Anything else that comes from a part --
 * its root, a product of two, a sum of what a part was taken from, a part beside elements of the same axis -- is another number by tiles of
 * another size.
 *
 * Tensors are held to that strictly: tiles are added up in any order, and nothing of one is known in another.  State goes from tile to tile
 * in order and may be made good on the way, as a running softmax does (its sums are of exponentials from a maximum that still moves, and both
 * it and the sums are scaled where it does).  Whether such a text comes out right is not decided here; refused is what cannot: adding what
 * has no sum over the tile in it, or taking the larger of what has no extreme of the tile in it. */
#include <stdlib.h>
#include "elab.h"

/* --- what comes from parts */

enum want { WANT_SUM, WANT_MAX, WANT_MIN, WANTS };
static enum want turned(enum want w) { return w == WANT_SUM ? WANT_SUM : w == WANT_MAX ? WANT_MIN : WANT_MAX; }

enum { PARTS_DEPTH = 4000 };                              /* of operands in each other; what lies deeper is taken to be right */
struct parts {
	struct elab *E;
	ir_axes tiles;                                    /* the axes whose tiles' sizes must not show */
	int depth;
	struct known { ir_axes reduced, bad[WANTS]; bool has_reduced, has_bad[WANTS]; } *known;   /* by id; of what is being looked at: nothing yet */
};

static struct parts parts_of(struct elab *E, ir_axes tiles)
{
	struct parts p = {.E = E, .tiles = tiles, .known = calloc((size_t)E->k->next_id + 1, sizeof *p.known)};
	if (!p.known)
		abort();
	return p;
}

static bool still_runs(const struct ir_ins *loop) { return !loop->body->last || loop->body->last->op != IR_YIELD; }

/* What v is made of: of state, what it begins with and, once its loop is over, what a round makes of it; of a condition's results, both sides. */
struct sources { const struct ir_ins *ins[MODEL_MAX_RANK + 4]; int n; };
static struct sources sources_of(const struct ir_ins *v)
{
	struct sources s = {.n = 0};
	const struct ir_ins *of = v->op == IR_ARG ? v->block->owner : v->op == IR_RESULT ? v->args[0] : NULL;
	for (int i = 0; i < v->nargs && !of; i++)
		s.ins[s.n++] = v->args[i];
	for (int i = 0; of && i < (of->op == IR_FOR ? 2 : 1); i++)
		s.ins[s.n++] = of->args[i];
	if (of && of->op == IR_FOR)
		s.ins[s.n++] = of->args[2 + v->imm];
	for (int i = 0; of && i < 2; i++) {
		const struct ir_block *b = i ? of->other : of->body;
		if (b && b->last && b->last->op == IR_YIELD)
			s.ins[s.n++] = b->last->args[v->imm];
	}
	return s;
}

/* The axes of tiles over which something that v comes from was reduced.  State of a loop that still runs is what its tiles so far have made of it;
 * of one that is over, whose axis a later loop may have again, it is the whole. */
static ir_axes reduced(struct parts *p, const struct ir_ins *v)
{
	struct known *k = &p->known[v->id];
	if (k->has_reduced || p->depth == PARTS_DEPTH)
		return k->reduced;
	k->has_reduced = true;
	p->depth++;
	struct sources from = sources_of(v);
	ir_axes axes = tiles_contracted(p->E, v);
	for (int i = 0; i < from.n; i++)
		axes |= reduced(p, from.ins[i]);
	if (v->op == IR_ARG && still_runs(v->block->owner))
		axes |= IR_AXIS(v->block->owner->imm);
	if (v->op == IR_RESULT && v->args[0]->op == IR_FOR)
		axes &= ~IR_AXIS(v->args[0]->imm);
	p->depth--;
	return k->reduced = axes & p->tiles;
}

/* --- tensors: what is combined by + or by max or min, in order with the parts or against it */

static ir_axes parts_bad(struct parts *, const struct ir_ins *v, enum want);

static bool is_zero(const struct ir_ins *v)
{
	double c;
	return ir_is_const(v, &c) && c == 0;
}

/* One of several that are added up tile by tile: a number that no tile says anything about would be added once for each. */
static ir_axes addend(struct parts *p, const struct ir_ins *v, ir_axes over)
{
	return is_zero(v) ? 0 : tiles_unseen(p->E, v, over) | parts_bad(p, v, WANT_SUM);
}

/* a * b: one of them comes from parts at most. */
static ir_axes product(struct parts *p, const struct ir_ins *a, const struct ir_ins *b, enum want w)
{
	ir_axes of_a = reduced(p, a), of_b = reduced(p, b);
	return of_a && of_b ? of_a | of_b : parts_bad(p, of_a ? a : b, w);
}

static ir_axes reduction(struct parts *p, const struct ir_ins *v, enum want w)
{
	static const int kind[][2] = {[WANT_SUM] = {RED_SUM, RED_SUM}, [WANT_MAX] = {RED_MAX, RED_ANY}, [WANT_MIN] = {RED_MIN, RED_ALL}};
	bool fits = v->op == IR_REDUCE && (v->kind == kind[w][0] || v->kind == kind[w][1]);
	const struct ir_ins *mask = v->flags & IR_MASKED ? v->args[v->nargs - 1] : NULL;
	if (!fits || (mask && reduced(p, mask)))
		return reduced(p, v);
	return v->flags & IR_PRODUCT ? product(p, v->args[0], v->args[1], w) : parts_bad(p, v->args[0], w);
}

/* State of a loop that still runs has the tiles so far in it: an extreme of which comes to the same. */
static ir_axes carried(struct parts *p, const struct ir_ins *v, enum want w)
{
	const struct ir_ins *of = v->op == IR_ARG ? v->block->owner : v->args[0];
	struct sources from = sources_of(v);
	ir_axes bad = v->op == IR_ARG && still_runs(of) && w == WANT_SUM ? IR_AXIS(of->imm) & p->tiles : 0;
	for (int i = 0; i < from.n; i++)
		bad |= i < (of->op == IR_FOR ? 2 : 1) ? reduced(p, from.ins[i]) : parts_bad(p, from.ins[i], w);
	return bad;
}

/* What a sum is made of linearly. */
static ir_axes summed(struct parts *p, const struct ir_ins *v, ir_axes over)
{
	struct ir_ins **a = v->args;
	switch (v->op) {
	case IR_ADD: case IR_SUB: return addend(p, a[0], over) | addend(p, a[1], over);
	case IR_FMA: return (reduced(p, a[0]) | reduced(p, a[1]) ? product(p, a[0], a[1], WANT_SUM) : tiles_unseen(p->E, a[0], over) & tiles_unseen(p->E, a[1], over)) | addend(p, a[2], over);
	case IR_MUL: return product(p, a[0], a[1], WANT_SUM);
	case IR_DIV: return dtype_is_float(v->dtype) ? reduced(p, a[1]) | parts_bad(p, a[0], WANT_SUM) : over;
	case IR_SELECT: return reduced(p, a[0]) | addend(p, a[1], over) | addend(p, a[2], over);
	case IR_CVT: return dtype_is_float(a[0]->dtype) && !dtype_is_float(v->dtype) ? over : parts_bad(p, a[0], WANT_SUM);
	case IR_DOT: return product(p, a[0], a[1], WANT_SUM) | (v->flags & IR_ACC ? addend(p, a[2], over) : 0);
	default: return over;
	}
}

/* What rises where an extreme does, or falls.  The sign of a factor is nothing a text says. */
static ir_axes ordered(struct parts *p, const struct ir_ins *v, enum want w, ir_axes over)
{
	struct ir_ins **a = v->args;
	bool both = v->nargs > 1 && reduced(p, a[0]) && reduced(p, a[1]);
	switch (v->op) {
	case IR_MAX: return both && w == WANT_MIN ? over : parts_bad(p, a[0], w) | parts_bad(p, a[1], w);
	case IR_MIN: return both && w == WANT_MAX ? over : parts_bad(p, a[0], w) | parts_bad(p, a[1], w);
	case IR_OR: return (both && w == WANT_MIN) || v->dtype != DT_I1 ? over : parts_bad(p, a[0], w) | parts_bad(p, a[1], w);
	case IR_AND: return (both && w == WANT_MAX) || v->dtype != DT_I1 ? over : parts_bad(p, a[0], w) | parts_bad(p, a[1], w);
	case IR_ADD: return both ? over : parts_bad(p, a[0], w) | parts_bad(p, a[1], w);
	case IR_SUB: return both ? over : parts_bad(p, a[0], w) | parts_bad(p, a[1], turned(w));
	case IR_LT: case IR_LE: return both ? over : parts_bad(p, a[0], turned(w)) | parts_bad(p, a[1], w);
	case IR_MUL: return product(p, a[0], a[1], w);
	case IR_DIV: return both ? over : parts_bad(p, a[0], w) | parts_bad(p, a[1], turned(w));
	case IR_SELECT: return reduced(p, a[0]) | parts_bad(p, a[1], w) | parts_bad(p, a[2], w);
	case IR_NEG: case IR_NOT: case IR_RCP: case IR_RSQRT: case IR_ERFC: return parts_bad(p, a[0], turned(w));
	case IR_CVT: case IR_SQRT: case IR_EXP: case IR_EXP2: case IR_LOG: case IR_LOG2: case IR_TANH: case IR_ERF: case IR_NORMCDF:
	case IR_FLOOR: case IR_CEIL: case IR_ROUND: return parts_bad(p, a[0], w);
	default: return over;
	}
}

static ir_axes parts_bad(struct parts *p, const struct ir_ins *v, enum want w)
{
	struct known *k = &p->known[v->id];
	if (k->has_bad[w] || p->depth == PARTS_DEPTH)
		return k->bad[w];
	k->has_bad[w] = true;
	p->depth++;
	ir_axes over = reduced(p, v), beside = over & v->axes, bad;
	if (!over || beside)
		bad = beside;
	else if (v->op == IR_ARG || v->op == IR_RESULT)
		bad = carried(p, v, w);
	else if (v->op == IR_REDUCE)
		bad = reduction(p, v, w);
	else
		bad = w == WANT_SUM ? summed(p, v, over) : ordered(p, v, w, over);
	p->depth--;
	return k->bad[w] = bad;
}

ir_axes parts_updated(struct elab *E, const struct ir_ins *v, enum ast_update update, ir_axes subscripts)
{
	static const enum want want[] = {[UPDATE_ADD] = WANT_SUM, [UPDATE_MAX] = WANT_MAX, [UPDATE_MIN] = WANT_MIN};
	ir_axes tiles = tiles_open(E);
	if (!tiles)
		return 0;
	struct parts p = parts_of(E, tiles);
	ir_axes bad = parts_bad(&p, v, want[update]) | (reduced(&p, v) & subscripts);
	free(p.known);
	return bad;
}

/* --- what is stored */

/* What the tiles so far have made of state may be stored where the last tile has the last word. */
ir_axes parts_stored(struct elab *E, const struct ir_ins *v, ir_axes subscripts)
{
	ir_axes loops = tiles_open(E);
	for (int a = 0; a < E->ph->naxes; a++)
		if (E->ph->axes[a].kind != AXIS_LOOP)
			loops &= ~IR_AXIS(a);
	if (!loops)
		return 0;
	struct parts p = parts_of(E, loops);
	ir_axes bad = reduced(&p, v) & (subscripts | v->axes);
	free(p.known);
	return bad;
}

/* --- state */

/* What v is of state that a round of a loop begins with: nothing; what may come out right; or not. */
enum kept { UNASKED, NOTHING, FITS, MISSES };
struct round {
	struct parts p;
	const struct ir_ins *loop;
	enum kept *kept;                                  /* by id */
	int *looked, look;                                /* by id: the last search that came by */
	bool sums, extremes, parts;                       /* what that found */
};

/* What v has in it of the tile, as it is reduced last. */
static void last_reduced(struct round *r, const struct ir_ins *v)
{
	if (r->looked[v->id] == r->look || r->p.depth == PARTS_DEPTH || !reduced(&r->p, v))
		return;
	r->looked[v->id] = r->look;
	r->p.depth++;
	if (tiles_contracted(r->p.E, v) & r->p.tiles) {
		r->sums |= v->op == IR_DOT || (v->op == IR_REDUCE && v->kind == RED_SUM);
		r->extremes |= v->op == IR_REDUCE && v->kind != RED_SUM && v->kind != RED_PROD;
		r->parts = true;
	} else if (v->op == IR_ARG && v->block->owner == r->loop) {
		r->parts = true;
	} else {
		struct sources from = sources_of(v);
		for (int i = 0; i < from.n; i++)
			last_reduced(r, from.ins[i]);
	}
	r->p.depth--;
}

/* v, or its product with `by`, is added to the state or compared with it. */
static enum kept beside(struct round *r, const struct ir_ins *v, const struct ir_ins *by, bool sum)
{
	r->sums = r->extremes = r->parts = false;
	r->look++;
	last_reduced(r, v);
	if (by)
		last_reduced(r, by);
	return r->parts && !(sum ? r->sums : r->extremes) ? MISSES : FITS;
}

static enum kept worse(enum kept a, enum kept b) { return a > b ? a : b; }

static enum kept round_keeps(struct round *, const struct ir_ins *v);

/* a + b, or the larger. */
static enum kept joined(struct round *r, const struct ir_ins *a, const struct ir_ins *b, bool sum)
{
	enum kept of_a = round_keeps(r, a), of_b = round_keeps(r, b);
	if (of_a > NOTHING && of_b == NOTHING)
		return worse(of_a, beside(r, b, NULL, sum));
	if (of_b > NOTHING && of_a == NOTHING)
		return worse(of_b, beside(r, a, NULL, sum));
	return worse(of_a, of_b);
}

/* a b + c */
static enum kept fused(struct round *r, struct ir_ins *const *v)
{
	enum kept product = worse(round_keeps(r, v[0]), round_keeps(r, v[1])), c = round_keeps(r, v[2]);
	if (product > NOTHING && c == NOTHING)
		return worse(product, beside(r, v[2], NULL, true));
	if (c > NOTHING && product == NOTHING)
		return worse(c, beside(r, v[0], v[1], true));
	return worse(product, c);
}

static enum kept round_keeps(struct round *r, const struct ir_ins *v)
{
	if (r->kept[v->id] || r->p.depth == PARTS_DEPTH)
		return r->kept[v->id] ? r->kept[v->id] : NOTHING;
	r->kept[v->id] = NOTHING;
	r->p.depth++;
	enum kept k = NOTHING;
	struct sources from = {.n = 0};
	switch (v->op) {
	case IR_ADD: case IR_SUB: k = joined(r, v->args[0], v->args[1], true); break;
	case IR_MAX: case IR_MIN: k = joined(r, v->args[0], v->args[1], false); break;
	case IR_FMA: k = fused(r, v->args); break;
	case IR_DOT: k = v->flags & IR_ACC ? round_keeps(r, v->args[2]) : NOTHING; break;
	case IR_MUL: case IR_DIV: case IR_SELECT: case IR_CVT: case IR_ARG: case IR_RESULT: from = sources_of(v); break;
	default: break;
	}
	for (int i = 0; i < from.n; i++)
		k = worse(k, round_keeps(r, from.ins[i]));
	r->p.depth--;
	return r->kept[v->id] = k;
}

bool parts_missed(struct elab *E, const struct ir_ins *loop, const struct ir_ins *after, int state)
{
	size_t n = (size_t)E->k->next_id + 1;
	struct round r = {.p = parts_of(E, IR_AXIS(loop->imm)), .loop = loop, .kept = calloc(n, sizeof *r.kept), .looked = calloc(n, sizeof *r.looked)};
	if (!r.kept || !r.looked)
		abort();
	r.kept[loop->body->params[state]->id] = FITS;
	bool missed = round_keeps(&r, after) == MISSES;
	free(r.p.known);
	free(r.kept);
	free(r.looked);
	return missed;
}
