/* pass_layout.c
 * Problem: every tile must live somewhere: which register, lane and wave holds which element.
 * Method:  per phase each set of axes has one home layout.  Without products: one layout of memory order per group of axes
 *          that occur together, and its projections.  With products: accumulator layouts for results, projections of
 *          them for what is computed beside; operands and what only feeds them (loads) lie in memory order, with as much of k to a
 *          lane as is written at once, and are moved by relayout, or, loaded once for all rounds, as the product wants them; a product's
 *          result that feeds the next product lends it the order of k.  Values made of positions alone have no layout: they are
 *          computed where they are used.  A value used under another layout goes through relayout.
 *          Orders of reductions and dots are fixed by the layouts from here on.
 * Needs:   tiles chosen.   Keeps: values exactly; fixes the order of reductions and dots. */
#include "layout_choose.h"
#include "pass.h"

#include <string.h>

enum { HOMES = 64, MOST_REGISTERS = 1024, ACCESS = 128, WORD = 32, WORDS_ACROSS = 64 };   /* bits */
/* Positions that follow each other in a lane, at most; how many times those of an access they have to be (docs/performance.md: 4 times on an H200 2 to 4 %
 * slower, 2 times 28 %); bytes of group memory beside two tiles, at least. */
enum { SCAN_RUN = 16, SCAN_LESS = 8, SCAN_BESIDE = 8192 };

struct home { ir_axes axes; const struct layout *layout; };
struct product { const struct ir_ins *dot; const struct mfma *mfma; int row, col, k; bool swapped; };

struct assign {
	struct pass *p;
	struct ir_phase *ph;
	struct layout_space space;
	int wave_axis[8];
	struct home homes[HOMES]; int nhomes;
	struct product products[16]; int nproducts;
	bool *feeds;              /* by id: only feeds products, and comes from loads and positions */
	const int *uses;          /* by id, before this pass */
	bool failed;
};

/* Computed from positions and scalars alone: no home, evaluated at each use.  A comparison of positions with what is one number for the
 * workgroup is a mask like any other, wherever that number comes from. */
static bool is_index(const struct ir_phase *ph, const struct ir_ins *i)
{
	bool compares = i->op >= IR_LT && i->op <= IR_NE && wide_axes(ph, i->axes);
	if (!i->axes)
		return true;
	switch (i->op) {
	case IR_LOAD: case IR_REDUCE: case IR_DOT: case IR_ARG: case IR_RESULT: case IR_ARGMAX: case IR_SCAN: case IR_RELAYOUT:
		return false;
	default:
		for (int a = 0; a < i->nargs; a++)
			if (!is_index(ph, i->args[a]) && !(compares && !wide_axes(ph, i->args[a]->axes)))
				return false;
		return true;
	}
}

/* --- the axis along which memory is contiguous ------------------------------------------------------------------------ */

/* How many accesses run along each axis, and how many of them of tensors with a place in the whole tile, not of numbers for a part of it; of their
 * elements the narrowest and the widest, and the widest with a place in the whole tile. */
struct contiguity { struct assign *s; ir_axes axes; int votes[LAYOUT_AXES], whole[LAYOUT_AXES], least[LAYOUT_AXES], most[LAYOUT_AXES], tile[LAYOUT_AXES]; };

static void vote(struct ir_ins *i, void *ctx)
{
	struct contiguity *c = ctx;
	if (i->op != IR_LOAD && i->op != IR_STORE)
		return;
	const struct ir_param *t = &c->s->p->k->params[i->imm];
	if (!t->rank)
		return;
	if (c->s->p->v->carries && !i->block->owner)      /* once for all rows of a workgroup */
		return;
	struct affine f = affine_of(i->args[t->rank - 1]);
	for (int a = 0; f.ok && a < c->s->ph->naxes; a++)
		if (f.coef[a] == 1 && (c->axes & IR_AXIS(a)) && c->s->ph->axes[a].tile > 1) {
			int bits = dtype_info(t->dtype)->bits;
			c->votes[a]++;
			if (!c->least[a] || bits < c->least[a])
				c->least[a] = bits;
			if (bits > c->most[a])
				c->most[a] = bits;
			if (c->axes & ~i->axes)
				continue;
			c->whole[a]++;
			if (bits > c->tile[a])
				c->tile[a] = bits;
		}
}

static int product_of_tiles(const struct ir_phase *ph, ir_axes axes)
{
	enum { MOST = 1 << 28 };
	int64_t n = 1;
	for (int a = 0; a < ph->naxes; a++)
		if (axes & IR_AXIS(a))
			n = n * ph->axes[a].tile < MOST ? n * ph->axes[a].tile : MOST;
	return (int)n;
}

/* --- tensors stored across the others' rows --------------------------------------------------------------------------------- */

/* Of group memory that a tile is turned in; less of a line is not worth it; what a lane writes there at a time.  In clusters, whose multiprocessors
 * wait for group memory rather than for the GPU's, twice as much: lanes that write 8 bytes to lines 16 apart share banks by two, of 4 bytes by four. */
enum { TURNED_BYTES = 32 << 10, SECTOR_BITS = 256, ACROSS_BITS = 32, NARROW_WAVES = 8, NARROW_GROUPS = 256 };

/* The axis along which a store runs, and the bits of its elements; -1 = none. */
static int line_of(struct assign *s, struct ir_ins *i, ir_axes axes, int *bits)
{
	struct contiguity c = {.s = s, .axes = axes};
	vote(i, &c);
	for (int a = 0; a < s->ph->naxes; a++)
		if (c.votes[a]) {
			*bits = c.least[a];
			return a;
		}
	return -1;
}

/* Turned in group memory, so that lanes which lie side by side store bytes that do. */
static bool is_turned(struct assign *s, struct ir_ins *i, ir_axes axes, int inner, int *line, int *bits)
{
	if (i->op != IR_STORE || inner < 0 || s->nproducts || !(s->p->v->aligned || variant_in_runs(s->p->v)))
		return false;
	if (!(i->axes & IR_AXIS(inner)))                     /* a number for each group, say */
		return false;
	*line = line_of(s, i, axes, bits);
	bool worth = *line >= 0 && (*bits < 8 || s->ph->axes[*line].tile * *bits >= SECTOR_BITS);   /* two of half a byte are one store's */
	return worth && *line != inner && *bits <= 32 && product_of_tiles(s->ph, axes) <= TURNED_BYTES / (*bits / 8 ? *bits / 8 : 1);
}

struct turned { struct assign *s; ir_axes axes; int inner, line, run; bool turns; };

static void find_turned(struct ir_ins *i, void *ctx)
{
	struct turned *t = ctx;
	int line, bits;
	if (is_turned(t->s, i, t->axes, t->inner, &line, &bits)) {
		t->line = line;
		int run = (t->s->p->v->cluster ? 2 : 1) * ACROSS_BITS / bits;
		t->run = t->run > run ? t->run : run;
		t->turns = true;
	}
}

/* Of a fixed size, or of sizes of which the least is known, which its places are chosen for. */
static bool fills_places(const struct variant *v, const struct hexpr *n)
{
	int64_t whole;
	return variant_is_between(v) || hexpr_is_const(n, &whole);
}

/* Rows of a class of sizes end somewhere within their places.  Where numbers of groups are stored, a lane holds so many groups side by side as
 * make a word of them, or 16 bytes: empty places are then those of whole waves, not the last ones of each, which is faster.  Not in long
 * rows and many waves, where narrow numbers would part a wave's lanes while much is asked for at once.  Rows that fill their places, and lines, lie
 * lane by lane: each access is then of whole lines of memory, and the lanes of a group share its number (docs/performance.md). */
static void find_numbers(struct ir_ins *i, void *ctx)
{
	struct turned *t = ctx;
	int bits = 0, line = i->op == IR_STORE && !(i->axes & IR_AXIS(t->inner)) ? line_of(t->s, i, t->axes, &bits) : -1;
	const struct ir_axis *ax = line < 0 ? NULL : &t->s->ph->axes[line];
	bool wide = bits >= 32, few = t->s->space.waves <= NARROW_WAVES && ax && ax->tile <= NARROW_GROUPS;
	if (!ax || ax->kind != AXIS_HELD || fills_places(t->s->p->v, ax->extent) || !(wide || few) || ax->tile * bits < SECTOR_BITS)
		return;
	t->line = line;
	t->run = wide ? 128 / bits : 32 / bits;
}

/* The axis across the inner one of which a lane holds several positions, how many. */
static struct turned across(struct assign *s, ir_axes axes, int inner)
{
	struct turned t = {s, axes, inner, -1, 1, false};
	ir_walk(s->ph->body, find_turned, &t);
	if (t.line < 0 && inner >= 0 && !s->nproducts && s->p->v->aligned && !s->p->v->single && s->p->v->target->lanes_adjacent)
		ir_walk(s->ph->body, find_numbers, &t);
	return t;
}

/* Whether lanes lie along axis a rather than b: tensors with a place in the whole tile count first, for numbers of rows are little to read however many
 * there are of them. */
static bool is_before(const struct contiguity *c, int a, int b)
{
	return c->whole[a] != c->whole[b] ? c->whole[a] > c->whole[b] : c->votes[a] >= c->votes[b];
}

/* bits: of the element whose 16 bytes a lane holds side by side: the narrowest, so that all accesses are of 16 bytes; or the widest where
 * lanes must lie side by side as well; or where tiles are turned, since lanes then hold several rows as well, the widest of these tiles. */
static int contiguous_axis(struct assign *s, ir_axes axes, int *bits)
{
	struct contiguity c = {.s = s, .axes = axes};
	int best = -1;
	ir_walk(s->ph->body, vote, &c);
	for (int a = 0; a < s->ph->naxes; a++)
		if (c.votes[a] && (best < 0 || is_before(&c, a, best)))
			best = a;
	struct turned t = across(s, axes, best);
	bool tile = best >= 0 && t.turns && c.tile[best];
	*bits = best < 0 ? 32 : tile ? c.tile[best] : t.line >= 0 || s->p->v->target->lanes_adjacent ? c.most[best] : c.least[best];
	return best;
}

/* Lanes hold a word or two across the rows as well where something is turned. */
static const struct layout *memory_layout(struct assign *s, ir_axes axes, int inner, int bits)
{
	int vector = inner < 0 || !variant_in_runs(s->p->v) ? 1 : 128 / bits;
	int threads = s->p->v->target->wave * s->space.waves, total = product_of_tiles(s->ph, axes);
	while (vector > 1 && total / vector < threads)
		vector /= 2;
	struct turned t = across(s, axes, inner);
	while (t.run > 1 && total / vector / t.run < threads)
		t.run /= 2;
	return layout_rows(&s->space, axes, inner, vector, t.line, t.run);
}

/* --- homes ------------------------------------------------------------------------------------------------------------ */

static void add_home(struct assign *s, ir_axes axes, const struct layout *l)
{
	for (int i = 0; i < s->nhomes; i++)
		if (s->homes[i].axes == axes)
			return;
	if (s->nhomes < HOMES)
		s->homes[s->nhomes++] = (struct home){axes, l};
}

static const struct layout *projected(struct assign *s, const struct layout *l, ir_axes without)
{
	return without ? layout_project(s->space.arena, l, without, NULL) : l;
}

static const struct layout *home(struct assign *s, ir_axes all)
{
	ir_axes axes = wide_axes(s->ph, all);
	for (int i = 0; i < s->nhomes; i++)
		if (s->homes[i].axes == axes)
			return s->homes[i].layout;
	const struct layout *l = NULL;
	for (int i = 0; i < s->nhomes && !l; i++)
		if ((s->homes[i].axes & axes) == axes)
			l = projected(s, s->homes[i].layout, s->homes[i].axes & ~axes);
	if (!l) {
		int bits, inner = contiguous_axis(s, axes, &bits);
		l = memory_layout(s, axes, inner, bits);
	}
	add_home(s, axes, l);
	return l;
}

struct groups { struct assign *s; ir_axes joined[LAYOUT_AXES]; };

static void join(struct ir_ins *i, void *ctx)
{
	struct groups *g = ctx;
	ir_axes all = wide_axes(g->s->ph, i->axes | i->over);
	if (is_index(g->s->ph, i) && i->op != IR_STORE && i->op != IR_UPDATE)
		return;
	if (i->op == IR_STORE || i->op == IR_UPDATE)
		for (int a = 0; a < i->nargs; a++)
			all |= wide_axes(g->s->ph, i->args[a]->axes);
	for (int a = 0; a < g->s->ph->naxes; a++)
		if (all & IR_AXIS(a))
			g->joined[a] |= all;
}

static void row_homes(struct assign *s)
{
	struct groups g = {.s = s};
	ir_walk(s->ph->body, join, &g);
	for (int round = 0; round < s->ph->naxes; round++)
		for (int a = 0; a < s->ph->naxes; a++)
			for (int b = 0; b < s->ph->naxes; b++)
				if (g.joined[a] & IR_AXIS(b))
					g.joined[a] |= g.joined[b];
	for (int a = 0; a < s->ph->naxes; a++)
		if (g.joined[a]) {
			int bits, inner = contiguous_axis(s, g.joined[a], &bits);
			add_home(s, g.joined[a], memory_layout(s, g.joined[a], inner, bits));
		}
}

/* --- products --------------------------------------------------------------------------------------------------------- */

static int only_axis(ir_axes axes)
{
	return axes && !(axes & (axes - 1)) ? __builtin_ctz(axes) : -1;
}

static void find_product(struct ir_ins *i, void *ctx)
{
	struct assign *s = ctx;
	if (i->op != IR_DOT || s->failed)
		return;
	const struct ir_ins *a = i->args[0], *b = i->args[1];
	int k = only_axis(wide_axes(s->ph, i->over));
	int fa = only_axis(wide_axes(s->ph, a->axes & ~i->over)), fb = only_axis(wide_axes(s->ph, b->axes & ~i->over));
	if (k < 0 || fa < 0 || fb < 0 || fa == fb || s->nproducts == 16) {
		pass_fail(s->p, i, "this dot has no matrix form: each operand needs one tiled axis of its own and one shared");
		s->failed = true;
		return;
	}
	bool swapped = fa < fb;               /* rows of the instruction run along the later axis */
	if (swapped) {
		const struct ir_ins *t = a;
		a = b;
		b = t;
		int f = fa;
		fa = fb;
		fb = f;
	}
	const struct mfma *m = target_mfma(s->p->v->target, a->dtype, b->dtype, s->ph->axes[k].tile);
	if (!m) {
		pass_fail(s->p, i, "%s has no matrix instruction for %s x %s", s->p->v->target->name, dtype_info(a->dtype)->name,
		          dtype_info(b->dtype)->name);
		s->failed = true;
		return;
	}
	s->products[s->nproducts++] = (struct product){i, m, fa, fb, k, swapped};
}

static int most_left(const struct assign *s, const int *left)
{
	int best = -1;
	for (int a = 0; a < s->ph->naxes; a++)
		if (left[a] > 1 && left[a] % 2 == 0 && (best < 0 || left[a] > left[best]))
			best = a;
	return best;
}

/* Waves step along the grid axes of the results, the one with most rows left first; where those are used up, along held ones. */
static void choose_waves(struct assign *s)
{
	int left[LAYOUT_AXES] = {0}, held[LAYOUT_AXES] = {0};
	for (int i = 0; i < s->nproducts; i++) {
		const struct product *d = &s->products[i];
		int *row = s->ph->axes[d->row].kind == AXIS_GRID ? left : s->ph->axes[d->row].kind == AXIS_HELD ? held : NULL;
		if (row)
			row[d->row] = s->ph->axes[d->row].tile / d->mfma->rows;
		int *col = s->ph->axes[d->col].kind == AXIS_GRID ? left : s->ph->axes[d->col].kind == AXIS_HELD ? held : NULL;
		if (col)
			col[d->col] = s->ph->axes[d->col].tile / d->mfma->cols;
	}
	for (int w = 0; (1 << w) < s->space.waves; w++) {
		int *from = left, best = most_left(s, left), col = s->products[0].col;
		if (s->p->v->quads && left[col] > 1)         /* four waves stand side by side, and the next four beside them */
			best = col;
		if (best < 0)
			best = most_left(s, from = held);
		s->wave_axis[w] = best;
		if (best >= 0)
			from[best] /= 2;
	}
}

static const struct product *product_of(struct assign *s, const struct ir_ins *dot)
{
	for (int i = 0; i < s->nproducts; i++)
		if (s->products[i].dot == dot)
			return &s->products[i];
	return NULL;
}

/* The product whose result has the rows along `axis` and the columns along `col`: k of another product lies as they do. */
static const struct product *maker(struct assign *s, int axis, int col)
{
	for (int i = 0; i < s->nproducts; i++)
		if (s->products[i].row == axis && s->products[i].col == col)
			return &s->products[i];
	return NULL;
}

/* --- what only feeds products ------------------------------------------------------------------------------------------- */

struct feeding { struct assign *s; bool changed; };

static void not_feeding(struct ir_ins *i, void *ctx)
{
	struct feeding *f = ctx;
	bool *feeds = f->s->feeds;
	bool itself = i->op == IR_LOAD;
	switch (i->op) {
	case IR_ARG: case IR_RESULT: case IR_REDUCE: case IR_DOT: case IR_FOR: case IR_IF: case IR_YIELD: case IR_STORE: case IR_UPDATE:
	case IR_ARGMAX: case IR_SCAN:
		break;
	default:
		itself = itself || !is_index(f->s->ph, i);
		for (int a = 0; i->op != IR_LOAD && a < i->nargs; a++)
			itself = itself && (is_index(f->s->ph, i->args[a]) || feeds[i->args[a]->id]);
	}
	if (!itself && feeds[i->id]) {
		feeds[i->id] = false;
		f->changed = true;
	}
	if (i->op == IR_DOT)
		return;
	for (int a = 0; a < i->nargs; a++)
		if (feeds[i->args[a]->id] && !feeds[i->id] && i->args[a]->axes) {
			feeds[i->args[a]->id] = false;
			f->changed = true;
		}
}

static void find_feeding(struct assign *s)
{
	s->feeds = arena_alloc(s->space.arena, sizeof(bool) * (size_t)(s->p->k->next_id + 1));
	memset(s->feeds, s->nproducts > 0, (size_t)s->p->k->next_id);
	for (struct feeding f = {s, true}; f.changed;) {
		f.changed = false;
		ir_walk(s->ph->body, not_feeding, &f);
	}
}

static bool is_made_of(const struct assign *s, const struct ir_ins *x, const struct ir_ins *load)
{
	bool made = x == load, fed = x->op != IR_RELAYOUT && s->feeds[x->id];         /* relayouts are this pass's own */
	for (int a = 0; !made && fed && x->op != IR_LOAD && a < x->nargs; a++)
		made = is_made_of(s, x->args[a], load);
	return made;
}

/* The axis along which the product that a load feeds contracts it. */
static int contracted_axis(const struct assign *s, const struct ir_ins *load)
{
	for (int i = 0; i < s->nproducts; i++)
		for (int a = 0; a < 2; a++)
			if (is_made_of(s, s->products[i].dot->args[a], load))
				return s->products[i].k;
	return -1;
}

/* Memory order for an operand whose rows lie across k: a lane holds several rows as well, as many as make 8 bytes along k, so that these are written to group
 * memory at once; element by element 16 lanes would write to one bank. */
static const struct layout *rows_across(struct assign *s, ir_axes axes, int inner, int k, int bits)
{
	int held = product_of_tiles(s->ph, axes) / (s->p->v->target->wave * s->space.waves), vector = WORDS_ACROSS / bits, run = vector;
	while (run > 1 && vector * run > held)
		run /= 2;
	while (2 * vector * run <= held && 2 * vector * bits <= ACCESS)
		vector *= 2;
	return run > 1 ? layout_rows(&s->space, axes, inner, vector, k, run) : NULL;
}

/* What only feeds products lies as memory does. */
static const struct layout *layout_of_fed(struct assign *s, struct ir_ins *load, ir_axes axes)
{
	struct contiguity c = {.s = s, .axes = axes};
	int bits = dtype_info((enum dtype)load->dtype)->bits, inner = -1, k = contracted_axis(s, load);
	vote(load, &c);
	for (int a = 0; a < s->ph->naxes; a++)
		inner = c.votes[a] ? a : inner;
	axes = wide_axes(s->ph, axes);
	bool across = !s->p->v->quads && inner >= 0 && k >= 0 && k != inner && axes & IR_AXIS(k) && s->p->v->aligned && !s->p->v->single && bits <= 16 && bits >= 8;
	const struct layout *l = across ? rows_across(s, axes, inner, k, bits) : NULL;
	return l ? l : memory_layout(s, axes, inner, bits);
}

/* The axis along which a lane's registers run first, or lanes where each accesses one element. */
static int vector_axis(struct assign *s, const struct layout *l)
{
	for (int a = 0; a < s->ph->naxes; a++)
		if (s->p->v->single ? layout_lane_bit(l, a) == 0 : layout_vector(l, a) > 0)
			return a;
	return -1;
}

/* --- assignment --------------------------------------------------------------------------------------------------------- */

/* A position-only value that a reduction needs in registers. */
static struct ir_ins *materialised(struct assign *s, struct ir_ins *v, const struct layout *l)
{
	if (v->layout || !v->axes)
		return v;
	struct ir_builder b = pass_before(s->p, s->ph, v->next);
	struct ir_ins *r = ir_new(&b, IR_RELAYOUT, v->dtype, v->axes, 1);
	r->args[0] = v;
	r->layout = l;
	return r;
}

/* `v` under another layout.  The move stands right behind the value, outside inner loops that only use it, and is shared. */
static struct ir_ins *moved(struct assign *s, struct ir_ins *v, const struct layout *to)
{
	if (!v->layout || layout_equal(v->layout, to))
		return v;
	struct ir_ins *next = v->op == IR_ARG ? v->block->first : v->next;
	for (struct ir_ins *r = next; r && r->op == IR_RELAYOUT; r = r->next)
		if (r->args[0] == v && layout_equal(r->layout, to))
			return r;
	struct ir_builder b = pass_before(s->p, s->ph, next);
	struct ir_ins *r = ir_new(&b, IR_RELAYOUT, v->dtype, v->axes, 1);
	r->args[0] = v;
	r->layout = to;
	return r;
}

/* The same for all positions of axes that `v` has lost, because what varied with them is an absent tensor: whoever reduces over these
 * counts them. */
static struct ir_ins *spread(struct assign *s, struct ir_ins *user, struct ir_ins *v, ir_axes axes, const struct layout *l)
{
	struct ir_builder b = pass_before(s->p, s->ph, user);
	struct ir_ins *r = ir_new(&b, IR_RELAYOUT, v->dtype, axes, 1);
	r->args[0] = v;
	r->layout = l;
	return r;
}

static int registers_reduced(const struct layout *l, ir_axes over, struct arena *arena)
{
	const struct layout *rest = layout_project(arena, l, over, NULL);
	return layout_regs(l) / layout_regs(rest);
}

/* Beside products, where vector instructions are what is short, and one takes two further elements. */
static bool is_taken_by_threes(const struct assign *s, const struct ir_ins *i)
{
	return s->nproducts && s->p->v->target->three_extremes && i->dtype == DT_F32 && (i->kind == RED_MAX || i->kind == RED_MIN);
}

/* A product is fused with the sum that it is added to.  Where a lane makes many sums, a step of one does not wait for the step before, and
 * further chains would only have to be joined; but where two chains are one operation's, they are worth that. */
static bool is_summed_at_once(const struct assign *s, const struct ir_ins *i)
{
	enum { MANY = 4 };
	return (i->flags & IR_PRODUCT) && !s->p->v->target->f32_pairs && i->layout && layout_regs(i->layout) >= MANY;
}

/* Loaded for this operand alone: as it is, or its sign flipped under a condition that is one for all (pass_score.c); NULL = it is made otherwise. */
static struct ir_ins *only_load(const struct assign *s, struct ir_ins *v)
{
	bool flipped = v->op == IR_SELECT && !v->args[0]->axes && v->args[1]->op == IR_NEG && v->args[1]->args[0] == v->args[2];
	struct ir_ins *load = flipped ? v->args[2] : v;
	bool alone = s->uses[v->id] == 1 && (!flipped || (s->uses[v->args[1]->id] == 1 && s->uses[load->id] == 2));
	return alone && load->op == IR_LOAD && load->layout && s->feeds[load->id] ? load : NULL;
}

/* An operand as the product wants it.  What is loaded once, in front of the loop of the product that alone uses it, is loaded so where its rows run
 * along k: lanes then access 16 bytes of each of several rows, which is slower than memory's order but takes no group memory, of which there is
 * less than a tile of many rows would take. */
static struct ir_ins *operand(struct assign *s, const struct ir_ins *dot, struct ir_ins *v, int k, const struct layout *l)
{
	struct ir_ins *load = v->block != dot->block && s->p->v->aligned ? only_load(s, v) : NULL;
	struct contiguity c = {.s = s, .axes = v->axes};
	if (load)
		vote(load, &c);
	if (!load || !c.votes[k] || layout_vector(l, k) < layout_vector(v->layout, k))
		return moved(s, v, l);
	if (load != v)
		v->args[1]->layout = l;
	v->layout = load->layout = l;
	return v;
}

/* The scales of an operand as the instruction takes them: lanes that share a row are its groups in turn. */
static void place_scale(struct assign *s, const struct product *d, const struct ir_ins *of, struct ir_ins **scale, int positions, int free)
{
	ir_axes own = wide_axes(s->ph, (*scale)->axes & ~of->axes);
	int groups = own ? __builtin_ctz(own) : d->k, by = own ? s->ph->axes[d->k].tile / s->ph->axes[groups].tile : s->ph->axes[d->k].tile;
	struct k_shape k = {0};
	for (int at = d->mfma->group; k.nlane < mfma_k_bits(d->mfma); at *= 2)
		k.lane[k.nlane++] = own ? at / by : 0;
	const struct layout *l = layout_operand(&s->space, d->mfma, positions, free, groups, &k, s->wave_axis);
	*scale = moved(s, *scale, projected(s, l, (IR_AXIS(groups) | IR_AXIS(free)) & ~(*scale)->axes));
}

static void place_dot(struct assign *s, struct ir_ins *i)
{
	const struct product *d = product_of(s, i);
	int r = d->swapped ? 1 : 0, c = !r;
	const struct product *from_c = s->feeds[i->args[c]->id] || i->flags & IR_SCALED ? NULL : maker(s, d->k, d->col);   /* groups that have scales lie as the instruction has them */
	struct k_shape k = from_c || s->p->v->quads ? k_shape_of_accumulator(from_c ? from_c->mfma : d->mfma, d->mfma)
	                          : k_shape_plain(d->mfma, dtype_info(i->args[r]->dtype)->bits, s->ph->axes[d->k].tile);
	i->args[r] = operand(s, i, i->args[r], d->k, layout_operand(&s->space, d->mfma, d->mfma->rows, d->row, d->k, &k, s->wave_axis));
	i->args[c] = operand(s, i, i->args[c], d->k, layout_operand(&s->space, d->mfma, d->mfma->cols, d->col, d->k, &k, s->wave_axis));
	i->layout = home(s, i->axes);
	if (i->flags & IR_ACC)
		i->args[2] = moved(s, i->args[2], i->layout);
	for (int n = 0; i->flags & IR_SCALED && n < 2; n++)
		place_scale(s, d, i->args[n], &i->args[i->nargs - 2 + n], n == r ? d->mfma->rows : d->mfma->cols, n == r ? d->row : d->col);
	i->chains = (uint8_t)d->mfma->elems;
	i->flags &= (uint8_t)~IR_ANYORDER;
}

static void place_block(struct assign *s, struct ir_block *b);

/* What is narrowed only to be turned is narrowed in the order in which it is stored: its words then hold elements of a line. */
static void narrow_along(struct assign *s, struct ir_ins *v, int line)
{
	struct layout *l = v->op == IR_CVT && v->layout && v->args[0]->layout && s->uses[v->id] == 1 ? layout_run_first(s->space.arena, v->layout, line) : NULL;
	if (!l || dtype_info(v->dtype)->bits >= 32)
		return;
	v->args[0] = moved(s, v->args[0], l);
	v->layout = l;
}

/* The layout of a store: where two elements share a byte a lane must reach both, itself or in another lane of its wave. */
static const struct layout *layout_of_store(struct assign *s, const struct ir_ins *i, ir_axes axes)
{
	const struct layout *l = home(s, axes);
	const struct ir_param *t = &s->p->k->params[i->imm];
	struct affine last = i->op == IR_STORE && t->rank && dtype_info(t->dtype)->bits < 8 ? affine_of(i->args[t->rank - 1]) : (struct affine){.ok = false};
	for (int a = 0; last.ok && l && a < s->ph->naxes; a++)
		if (last.coef[a] == 1 && layout_size(l, a) > 1 && !layout_vector(l, a) && layout_lane_bit(l, a) < 0)
			return memory_layout(s, wide_axes(s->ph, axes), a, dtype_info(t->dtype)->bits);
	return l;
}

/* The sums of columns that rows carry, of which a lane has more than an access is of, for they are wider than what is loaded: each store would be of halves
 * of sectors.  Those of pieces of rows are fewer, and this gained nothing. */
static const struct layout *in_accesses(struct assign *s, const struct ir_ins *store, const struct layout *l)
{
	const struct variant *v = s->p->v;
	const struct ir_param *t = &s->p->k->params[store->imm];
	int axis = l ? vector_axis(s, l) : -1;
	bool sums = v->carries && !v->pieces && !store->block->owner && axis >= 0 && v->aligned && dtype_info(t->dtype)->bits == WORD && store->args[t->rank]->layout;
	struct affine last = sums && v->target->lanes_adjacent ? affine_of(store->args[t->rank - 1]) : (struct affine){.ok = false};
	const struct layout *beside = last.ok && last.coef[axis] == 1 ? layout_beside(s->space.arena, l, axis, ACCESS / WORD) : NULL;
	return beside ? beside : l;
}

/* For a scan: the positions of a lane follow each other, which it adds by itself, where those of lanes did: an exchange a digit of the lane's for each
 * register was more than to turn the tile twice.  Where two such tiles and more are too much for group memory it stays. */
static const struct layout *in_runs(struct assign *s, const struct ir_ins *scan, const struct layout *l, ir_axes axes, int axis)
{
	int bits = 0, whole = s->ph->axes[axis].tile, run;
	int64_t bytes = dtype_info(scan->dtype)->bits / 8;
	for (int a = 0; a < s->ph->naxes; a++)
		bytes *= layout_size(l, a);
	for (int b = 0; b < l->nlane + l->nwave; b++)
		bits += (b < l->nlane ? &l->lane[b] : &l->wave[b - l->nlane])->step[axis] != 0;
	run = (whole & -whole) >> bits;
	run = run > SCAN_RUN ? SCAN_RUN : run;
	if (run < SCAN_LESS << layout_vector(l, axis) || 2 * bytes + SCAN_BESIDE > s->p->v->target->lds_bytes)
		return l;
	const struct layout *runs = layout_rows(&s->space, axes, axis, run, -1, 1);
	return layout_regs(runs) == layout_regs(l) ? runs : l;
}

/* What it is made of, and nothing else, is loaded as it is used. */
static struct ir_ins *settled(struct assign *s, struct ir_ins *v, const struct layout *l)
{
	if (!v->layout || layout_equal(v->layout, l))
		return v;
	if (s->uses[v->id] != 1 || (v->op != IR_LOAD && v->op != IR_CVT))
		return moved(s, v, l);
	v->layout = l;
	if (v->op == IR_CVT)
		v->args[0] = settled(s, v->args[0], l);
	return v;
}

/* A number of many positions lies where these do. */
static void place_repeat(struct assign *s, struct ir_ins *r, const struct layout *l)
{
	int from = __builtin_ctz(r->over), to = (int)r->imm;
	r->layout = l;
	r->args[0] = settled(s, r->args[0], layout_of_groups(s->space.arena, l, to, from, s->ph->axes[to].tile / s->ph->axes[from].tile));
}

/* Codes that become one byte lie in one lane, side by side. */
static void place_pack(struct assign *s, struct ir_ins *pack)
{
	int k = __builtin_ctz(pack->over);
	if (!layout_vector(pack->args[0]->layout, k))
		pack->args[0] = moved(s, pack->args[0], layout_rows(&s->space, wide_axes(s->ph, pack->args[0]->axes), k, 2, -1, 1));
	pack->layout = layout_of_groups(s->space.arena, pack->args[0]->layout, k, (int)pack->imm, 2);
}

static void place(struct assign *s, struct ir_ins *i)
{
	ir_axes space = i->axes;
	switch (i->op) {
	case IR_FOR:
		for (int n = 0; n < i->body->nparams; n++) {
			struct ir_ins *arg = i->body->params[n], *first = i->args[2 + n];
			arg->layout = arg->axes ? home(s, arg->axes) : NULL;
			if (arg->layout)                           /* what the state begins with may vary with fewer axes than it has */
				i->args[2 + n] = moved(s, first, projected(s, arg->layout, wide_axes(s->ph, arg->axes & ~first->axes)));
		}
		place_block(s, i->body);
		return;
	case IR_IF:
		place_block(s, i->body);
		place_block(s, i->other);
		return;
	case IR_YIELD:
		for (int a = 0; a < i->nargs; a++)
			if (i->args[a]->axes)
				i->args[a] = moved(s, i->args[a], home(s, i->args[a]->axes));
		return;
	case IR_DOT:
		place_dot(s, i);
		return;
	case IR_PACK:
		place_pack(s, i);
		return;
	case IR_REPEAT:                                    /* where it is used */
		return;
	case IR_REDUCE: case IR_ARGMAX: {
		ir_axes all = i->over;
		if (ir_is_tile_bound(i))
			return;
		for (int a = 0; a < i->nargs; a++)
			all |= i->args[a]->axes;
		const struct layout *l = i->args[0]->axes == all && i->args[0]->layout ? i->args[0]->layout : home(s, all);
		for (int a = 0; a < i->nargs; a++)
			i->args[a] = moved(s, i->args[a], projected(s, l, wide_axes(s->ph, all & ~i->args[a]->axes)));
		i->args[0] = l && (!i->args[0]->axes || wide_axes(s->ph, all & ~i->args[0]->axes)) ? spread(s, i, i->args[0], all, l)
		           : materialised(s, i->args[0], projected(s, l, wide_axes(s->ph, all & ~i->args[0]->axes)));
		i->layout = projected(s, l, wide_axes(s->ph, i->over));
		int n = registers_reduced(l, wide_axes(s->ph, i->over), s->space.arena);
		if (i->op == IR_REDUCE)
			i->chains = is_summed_at_once(s, i) || is_taken_by_threes(s, i) ? 1 : n % 4 == 0 && n > 4 ? 4 : n % 2 == 0 && n ? 2 : 1;
		i->flags &= (uint8_t)~IR_ANYORDER;
		return;
	}
	case IR_STORE: case IR_UPDATE:
		for (int a = 0; a < i->nargs; a++)
			space |= i->args[a]->axes;
		break;
	default:
		if (is_index(s->ph, i))
			return;
	}
	const struct layout *l = layout_of_store(s, i, space);
	int line, line_bits;
	if (l && is_turned(s, i, wide_axes(s->ph, space), vector_axis(s, l), &line, &line_bits)) {
		int vector = s->p->v->single ? 1 : 128 / line_bits;
		l = layout_rows(&s->space, wide_axes(s->ph, space), line, vector, -1, 1);
		narrow_along(s, i->args[s->p->k->params[i->imm].rank], line);
	}
	if (i->op == IR_STORE)
		l = in_accesses(s, i, l);
	if (i->op == IR_SCAN && l)
		l = in_runs(s, i, l, wide_axes(s->ph, space), __builtin_ctz(i->over));
	if (s->feeds[i->id]) {
		if (i->op == IR_LOAD) {
			l = layout_of_fed(s, i, space);
		} else {
			for (int a = 0; a < i->nargs; a++)
				if (i->args[a]->layout && wide_axes(s->ph, i->args[a]->axes) == wide_axes(s->ph, space))
					l = i->args[a]->layout;
		}
	}
	for (int a = 0; a < i->nargs; a++) {
		bool repeats = i->args[a]->op == IR_REPEAT && !i->args[a]->layout;
		const struct layout *part = repeats || i->args[a]->layout ? projected(s, l, wide_axes(s->ph, space & ~i->args[a]->axes)) : NULL;
		if (repeats && part)
			place_repeat(s, i->args[a], part);
		if (i->args[a]->layout)
			i->args[a] = moved(s, i->args[a], part);
	}
	i->layout = l;
}

static void place_block(struct assign *s, struct ir_block *b)
{
	for (struct ir_ins *i = b->first, *next; i; i = next) {
		next = i->next;
		if (i->op == IR_RESULT)
			i->layout = i->axes ? home(s, i->axes) : NULL;
		else if (i->op != IR_RELAYOUT)
			place(s, i);
	}
}

/* A tile beyond any register file would only make the steps behind this one slow before they refuse it. */
static void check_size(struct ir_ins *i, void *ctx)
{
	struct assign *s = ctx;
	if (!s->failed && i->layout && layout_regs(i->layout) > MOST_REGISTERS) {
		pass_lacks_registers(s->p, i, "a tile takes %d registers of each lane, at most %d are possible%s", layout_regs(i->layout), MOST_REGISTERS,
		          s->p->v->scheduled ? ": choose smaller tiles in the schedule" : "");
		s->failed = true;
	}
}

int pass_layout(struct pass *p)
{
	const int *uses = pass_uses(p->k->arena, p->k);
	FOR_PHASES(p, ph) {
		struct assign s = {.p = p, .ph = ph, .space = {p->k->arena, ph, p->v, variant_waves(p->v, (int)(ph - p->k->phases))}, .uses = uses};
		memset(s.wave_axis, -1, sizeof s.wave_axis);
		ir_walk(ph->body, find_product, &s);
		if (s.failed)
			return -1;
		find_feeding(&s);
		if (s.nproducts) {
			choose_waves(&s);
			for (int i = 0; i < s.nproducts; i++) {
				const struct product *d = &s.products[i];
				add_home(&s, IR_AXIS(d->row) | IR_AXIS(d->col),
				         layout_accumulator(&s.space, d->mfma, d->row, d->col, s.wave_axis));
			}
		} else {
			row_homes(&s);
		}
		place_block(&s, ph->body);
		ir_walk(ph->body, check_size, &s);
		if (s.failed)
			return -1;
	}
	return 0;
}
