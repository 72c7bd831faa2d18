/* pass_deal.c
 * Problem: the result of a reduction lies in every lane that holds a part of what was reduced.  Of a tile reduced both ways these are
 *          many lanes, each with the numbers of several rows and columns: what is made of them, scales and their inverses, is made
 *          again and again, 12 instructions a number, a fifth of all.
 * Method:  where waves wait for each other anyway, results are dealt out: each lane gets other ones, in memory order, so that what is
 *          stored of them is stored side by side.  Elementwise operations of results follow them, and what the tile itself needs is
 *          handed back by relayouts that stand side by side, so that they share a round.  Results over a cluster are always dealt out.
 *          Where a wave has all of some results in several of its lanes, and exchanges cost little, these share them without a round.
 * Needs:   layouts.   Keeps: values exactly; the orders of reductions are those of their operands' layouts. */
#include "layout_choose.h"
#include "pass.h"

/* Operations a lane that must be spared: a round of handing back is a barrier and accesses to group memory, about as many of them. */
enum { LEAST_SAVED = 64, DIVISION = 8 };
/* The same where it stays in the wave: an exchange a number. */
enum { LEAST_SHARED = 24 };

struct deal {
	struct pass *p;
	struct ir_phase *ph;
	struct ir_block *block;               /* the phase's, or one of a branch in it that the whole workgroup takes */
	struct layout_space space;
	struct ir_ins *last, *behind;         /* of the round; what stands behind it and its followers */
	const struct layout **to; int nto;    /* by id: how a value is dealt, or what stores it; NULL = it is not */
};

static intptr_t place_of(const struct ir_ins *i) { return (intptr_t)i->note; }

static bool crosses_waves(const struct ir_ins *r)
{
	const struct layout *l = r->args[0]->layout;
	for (int w = 0; l && w < l->nwave; w++)
		for (int a = 0; a < LAYOUT_AXES; a++)
			if (l->wave[w].step[a] && (r->over & IR_AXIS(a)))
				return true;
	return false;
}

/* The axis along which numbers of these axes lie side by side in the tensor that they are stored to; of those that are not stored, any. */
static int line_of(const struct deal *d, ir_axes axes)
{
	int line = -1;
	for (const struct ir_ins *i = d->block->first; i; i = i->next) {
		int rank = i->op == IR_STORE ? d->p->k->params[i->imm].rank : 0;
		if (!rank || wide_axes(d->ph, i->args[rank]->axes) != axes)
			continue;
		struct affine last = affine_of(i->args[rank - 1]);
		for (int a = 0; last.ok && a < d->ph->naxes; a++)
			line = last.coef[a] == 1 && (axes & IR_AXIS(a)) ? a : line;
	}
	return line < 0 && axes ? __builtin_ctz(axes) : line;
}

/* In memory order, one a lane as long as there are lanes; NULL: nothing is gained. */
static const struct layout *dealt(const struct deal *d, const struct ir_ins *r)
{
	ir_axes axes = wide_axes(d->ph, r->axes);
	int inner = line_of(d, axes), threads = d->p->v->target->wave * d->space.waves, vector = 1;
	if (!r->layout || r->dtype == DT_I64)
		return NULL;
	int64_t total = 1;
	for (int a = 0; a < d->ph->naxes; a++)
		total *= axes & IR_AXIS(a) ? d->ph->axes[a].tile : 1;
	while (vector < 4 && total / vector > threads)
		vector *= 2;
	const struct layout *l = inner < 0 ? NULL : layout_rows(&d->space, axes, inner, vector, -1, 1);
	return l && layout_regs(l) < layout_regs(r->layout) ? l : NULL;
}

static bool is_before(const struct deal *d, const struct ir_ins *x) { return place_of(x) <= place_of(d->last); }

static bool takes(const struct deal *d, const struct ir_ins *i) { return i->id < d->nto && d->to[i->id]; }

/* An operation on dealt results alone, and on what is one for all; some of them may lack axes that others have. */
static const struct layout *follows(const struct deal *d, const struct ir_ins *i)
{
	const struct layout *l = NULL;
	if (!ir_is_pure(i) || !i->layout || i->op == IR_LOAD || i->op == IR_REDUCE || i->op == IR_DOT || i->op == IR_SCAN || i->op == IR_ARGMAX ||
	    i->op == IR_RELAYOUT || is_before(d, i))
		return NULL;
	for (int a = 0; a < i->nargs; a++) {
		const struct ir_ins *x = i->args[a];
		const struct layout *of = d->to[x->id];
		if (!of && (x->layout || !(is_before(d, x) || x->op == IR_CONST)))
			return NULL;
		if (of && x->axes == i->axes && l && !layout_equal(l, of))
			return NULL;
		l = of && x->axes == i->axes ? of : l;
	}
	return l;
}

/* A store of dealt values alone is dealt as they are. */
static const struct layout *stored(const struct deal *d, const struct ir_ins *i)
{
	const struct layout *l = NULL;
	if ((i->op != IR_STORE && i->op != IR_UPDATE) || !i->layout)
		return NULL;
	for (int a = 0; a < i->nargs; a++) {
		const struct ir_ins *x = i->args[a];
		if (x->layout && (!d->to[x->id] || !layout_equal(i->layout, x->layout)))
			return NULL;
		l = x->layout ? d->to[x->id] : l;
	}
	return l;
}

/* Follows results through the block; what each lane is spared, in instructions. */
static int find_followers(struct deal *d)
{
	int saved = 0;
	for (struct ir_ins *i = d->last->next; i; i = i->next) {
		const struct layout *l = follows(d, i);
		if (!l)
			l = stored(d, i);
		else
			saved += (layout_regs(i->layout) - layout_regs(l)) * (i->op == IR_DIV ? DIVISION : 1);
		d->to[i->id] = l;
	}
	return saved;
}

/* `x` as it lay, for those of a block and its inner ones that do not take it as it is dealt. */
struct hand { struct deal *d; struct ir_ins *x, *back; };

static void hand_back(struct ir_ins *user, void *ctx)
{
	struct hand *h = ctx;
	bool widens = user->op == IR_RELAYOUT && user->id >= h->d->nto;       /* of a dealt value for dealt ones */
	if (user == h->back || widens || takes(h->d, user) || layout_equal(h->x->layout, h->d->to[h->x->id]))
		return;
	for (int a = 0; a < user->nargs; a++) {
		if (user->args[a] != h->x)
			continue;
		if (!h->back) {
			struct ir_builder b = pass_before(h->d->p, h->d->ph, h->d->behind);
			h->back = ir_new(&b, IR_RELAYOUT, h->x->dtype, h->x->axes, 1);
			h->back->args[0] = h->x;
			h->back->layout = h->x->layout;
		}
		user->args[a] = h->back;
	}
}

/* Behind the round and what has followed so far. */
static void follow(struct deal *d, struct ir_ins *i)
{
	if (i == d->behind)
		d->behind = i->next;
	else
		ir_move(i, d->behind);
}

/* An operand that lacks axes of the others, where these are. */
static void widen(struct deal *d, struct ir_ins *user, int a)
{
	struct ir_ins *x = user->args[a];
	if (!takes(d, x) || x->axes == user->axes)
		return;
	const struct layout *to = layout_project(d->space.arena, d->to[user->id], wide_axes(d->ph, user->axes & ~x->axes), NULL);
	struct ir_ins *r = x->next;
	while (r != user && !(r->op == IR_RELAYOUT && r->args[0] == x && layout_equal(r->layout, to)))
		r = r->next;
	if (r == user) {
		struct ir_builder b = pass_before(d->p, d->ph, user);
		r = ir_new(&b, IR_RELAYOUT, x->dtype, x->axes, 1);
		r->args[0] = x;
		r->layout = to;
	}
	user->args[a] = r;
}

/* Results' followers stand right behind the round, then what is handed back, side by side. */
static void deal_out(struct deal *d, struct ir_ins *first)
{
	struct ir_ins **all = arena_alloc(d->space.arena, sizeof *all * (size_t)d->p->k->next_id);
	int n = 0;
	for (struct ir_ins *i = first; i; i = i->next)
		if (d->to[i->id])
			all[n++] = i;
	for (int x = 0; x < n; x++) {
		if (all[x]->op == IR_REDUCE || !ir_is_pure(all[x]))
			continue;
		for (int a = 0; a < all[x]->nargs; a++)
			if (!is_before(d, all[x]->args[a]) && !all[x]->args[a]->layout) {
				follow(d, all[x]->args[a]);
				all[x]->args[a]->note = d->last->note;   /* a constant, which is there from now on */
			}
		follow(d, all[x]);
		for (int a = 0; a < all[x]->nargs; a++)
			widen(d, all[x], a);
	}
	for (int x = 0; x < n; x++) {
		struct hand h = {d, all[x], NULL};
		if (ir_is_pure(all[x]))
			ir_walk(d->ph->body, hand_back, &h);
	}
	for (int x = 0; x < n; x++)
		all[x]->layout = d->to[all[x]->id];
}

/* Of the round those alone that are reduced over a cluster: of these a lane reads a part of every wave and member.  False: there are none. */
static bool only_crossing(struct deal *d, const struct ir_ins *first)
{
	bool any = false;
	for (const struct ir_ins *i = first; i != d->last->next; i = i->next) {
		if (!ir_crosses_cluster(d->ph, i))
			d->to[i->id] = NULL;
		any = any || d->to[i->id];
	}
	return any;
}

/* All lanes of a wave have the same number, and no other wave has a part of it unless all have. */
static bool is_one(const struct ir_ins *r)
{
	const struct layout *l = r->layout;
	bool one = layout_regs(l) == 1, all = true;
	for (int b = 0; b < l->nlane; b++)
		one = one && layout_basis_is_zero(&l->lane[b]);
	for (int b = 0; b < l->nwave; b++)
		all = all && layout_basis_is_zero(&l->wave[b]);
	return one && (all || !crosses_waves(r));
}

/* How results are shared between the lanes of a wave that all have them, one a lane; what is one number for all stays it. */
static const struct layout *shared(const struct deal *d, const struct ir_ins *r)
{
	const struct layout *from = r->args[0]->layout;
	unsigned lanes = 0;
	if (!r->layout || !from || ir_is_tile_bound(r))
		return NULL;
	if (is_one(r))
		return r->layout;
	for (int b = 0; b < from->nlane; b++)
		for (int a = 0; a < d->ph->naxes; a++)
			lanes |= (unsigned)(from->lane[b].step[a] && (r->over & IR_AXIS(a))) << b;
	const struct layout *l = layout_scattered(d->space.arena, r->layout, lanes);
	return crosses_waves(r) || layout_regs(r->layout) == 1 || layout_regs(l) > 1 || dtype_info(r->dtype)->bits != 32 ? NULL : l;
}

/* Each result is finished by one of the lanes that have a part of it, and what it is made into handed to the others. */
static bool share_round(struct deal *d, const struct ir_ins *first)
{
	bool any = false;
	for (const struct ir_ins *i = first; d->p->v->target->lanes_share && i != d->last->next; i = i->next) {
		d->to[i->id] = shared(d, i);
		any = any || (d->to[i->id] && d->to[i->id] != i->layout);
	}
	return any && find_followers(d) >= LEAST_SHARED;
}

static void deal_round(struct deal *d, struct ir_ins *first)
{
	bool waits = false;
	intptr_t place = 0;
	for (struct ir_ins *i = d->block->first; i; i = i->next)
		i->note = (void *)place++;
	d->nto = d->p->k->next_id;
	d->to = arena_alloc(d->space.arena, sizeof *d->to * (size_t)d->nto);
	for (d->last = first;; d->last = d->last->next) {
		d->to[d->last->id] = ir_is_tile_bound(d->last) ? NULL : dealt(d, d->last);
		waits = waits || crosses_waves(d->last) || ir_crosses_cluster(d->ph, d->last);
		if (pass_ends_round(d->last))
			break;
	}
	d->behind = d->last->next;
	bool pays = waits && find_followers(d) >= LEAST_SAVED;
	if (waits && !pays && only_crossing(d, first)) {
		find_followers(d);
		pays = true;
	}
	if (pays || share_round(d, first))
		deal_out(d, first);
}

static void deal_block(struct deal *d, struct ir_block *b)
{
	for (struct ir_ins *i = b->first; i; i = i->next) {
		if (i->op == IR_IF) {
			deal_block(d, i->body);
			deal_block(d, i->other);
		}
		d->block = b;
		if (i->op == IR_REDUCE && !(i->prev && i->prev->op == IR_REDUCE))
			deal_round(d, i);
	}
}

int pass_deal(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct deal d = {.p = p, .ph = ph, .space = {p->k->arena, ph, p->v, variant_waves(p->v, (int)(ph - p->k->phases))}};
		if (!ir_has(ph->body, IR_DOT))
			deal_block(&d, ph->body);
	}
	return 0;
}
