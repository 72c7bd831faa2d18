/* plan_products.c -- the variants of kernels with dots.
 * In: an elaborated kernel, its schedule and pinned sizes.  Out: variants: the schedule's tiles for aligned tensors, for each pinned size, then
 * without alignment; held axes (head dimensions) by classes, with the less rows the more they hold of each.  Phases of rows beside the
 * products are planned as a kernel of rows alone, swept. */
#include "pass.h"
#include "plan_tiles.h"
#include "target/mfma.h"

#include <stdio.h>
#include <string.h>

/* Of four SIMDs each has two waves: one's arithmetic goes on beside the other's matrix instructions. */
enum { WAVES = 8, MANY_THREADS = 512, NARROW = 32 };
enum { ANY_TILE = 1 << 20 };                       /* which every instruction contracts in whole steps */
enum { LEAST_CLASS = 64, LANE_WORDS = 512 };      /* positions of the least class of held axes; words that a lane has at most */

static const struct dsl_schedule *schedule_for(const struct dsl_kernel *text, const struct target *target)
{
	for (int i = 0; i < text->nschedules; i++)
		if (strcmp(text->schedules[i].target, target->name) == 0)
			return &text->schedules[i];
	for (int i = 0; i < text->nschedules; i++)
		if (!text->schedules[i].target[0])
			return &text->schedules[i];
	return NULL;
}

/* What the matrix instructions of a phase take along each axis at a time, at most; 1 = none runs along it. */
struct sides { const struct target *target; const struct ir_phase *ph; int of[LAYOUT_AXES], line, axes[3]; bool any; };     /* axes: of the last product */

static void raise_side(struct sides *s, ir_axes axis, int side)
{
	int *of = &s->of[__builtin_ctz(axis)];
	*of = side > *of ? side : *of;
}

static void look_at_sides(struct ir_ins *i, void *ctx)
{
	struct sides *s = ctx;
	if (i->op != IR_DOT || !dot_is_matrix(s->ph, i))
		return;
	ir_axes k = axes_of_several(s->ph, i->over), a = axes_of_several(s->ph, i->args[0]->axes & ~i->over), b = axes_of_several(s->ph, i->args[1]->axes & ~i->over);
	bool swapped = a < b;                            /* rows of the instruction run along the later axis (pass_layout.c) */
	enum dtype of[2];
	dot_types(s->target, i, of);
	const struct mfma *m = target_mfma(s->target, of[swapped], of[!swapped], 0);
	if (!m)
		return;
	raise_side(s, swapped ? b : a, m->rows);
	raise_side(s, swapped ? a : b, m->cols);
	raise_side(s, k, m->k);
	s->axes[0] = __builtin_ctz(a);
	s->axes[1] = __builtin_ctz(b);
	s->axes[2] = __builtin_ctz(k);
	s->line = s->any ? s->line : i->line;
	s->any = true;
}

static struct sides sides_of(const struct ir_phase *ph, const struct target *target)
{
	struct sides s = {.target = target, .ph = ph};
	for (int a = 0; a < LAYOUT_AXES; a++)
		s.of[a] = 1;
	ir_walk(ph->body, look_at_sides, &s);
	return s;
}

/* What a target cannot have: of a tile, how many positions it must be a multiple of, for a product in which line; of waves neither. */
struct misfit { const struct dsl_schedule *line; const struct dsl_knob *knob; const struct target *target; int side, product; };

/* Loops whose tile is below what an instruction takes get that (matrix_tiles). */
static bool is_whole(const struct ir_axis *ax, int tile, int side)
{
	return tile % side == 0 || (ax->kind == AXIS_LOOP && tile < side);
}

static int most_waves(const struct target *target) { return target->max_threads / target->wave; }

static bool knob_fits(const struct ir_phase *ph, const struct sides *sides, struct misfit *m)
{
	int value = m->knob->value;
	if (strcmp(m->knob->name, "waves") == 0 && (value & (value - 1) || value > most_waves(m->target)))
		return false;
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		if (!ax->tiled || strcmp(m->knob->name, ax->name) || is_whole(ax, value, sides->of[a]))
			continue;
		m->side = sides->of[a];
		m->product = sides->line;
		return false;
	}
	return true;
}

/* What the schedule says for the target first that it cannot have; knob NULL = nothing. */
static struct misfit find_misfit(const struct ir_kernel *k, const struct dsl_kernel *text, const struct target *target)
{
	struct misfit m = {.line = schedule_for(text, target), .target = target};
	for (int i = 0; i < k->nphases; i++) {
		struct sides sides = sides_of(&k->phases[i], target);
		for (int n = 0; m.line && sides.any && n < m.line->nknobs; n++) {
			m.knob = &m.line->knobs[n];
			if (!knob_fits(&k->phases[i], &sides, &m))
				return m;
		}
	}
	m.knob = NULL;
	return m;
}

static bool refuse(const struct misfit *m, const struct dsl_kernel *text, struct diag *d)
{
	const struct dsl_knob *knob = m->knob;
	if (m->side)
		diag_add(d, DIAG_E_KNOB_TILE, knob->at, knob->name, knob->value, m->product, m->target->name, m->side);
	else
		diag_add(d, DIAG_E_KNOB_WAVES, knob->at, knob->value, text->name, m->target->name, most_waves(m->target), m->target->max_threads);
	return false;
}

bool plan_takes_schedule(const struct ir_kernel *k, const struct dsl_kernel *text, const struct target *target, struct diag *d)
{
	struct misfit m = find_misfit(k, text, target);
	return !m.knob || refuse(&m, text, d);
}

bool plan_takes_schedule_somewhere(const struct ir_kernel *k, const struct dsl_kernel *text, struct diag *d)
{
	struct misfit all = {0};
	bool taken = false;
	for (const char *at = target_names(); *at; at += strcspn(at, ", "), at += strspn(at, ", ")) {
		char name[32];
		snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ", "), at);
		struct misfit m = find_misfit(k, text, target_by_name(name));
		bool own = m.line && m.line->target[0];
		if (own && m.knob)
			return refuse(&m, text, d);
		all = all.knob ? all : m;
		taken = taken || (!own && !m.knob);
	}
	return taken || !all.knob || refuse(&all, text, d);
}

/* Phases of rows beside those of products, which are planned as a kernel of their own; the rest is held whole. */
struct beside { bool apart[PHASES_APART + 1], held[MODEL_MAX_SYMBOL], any_held; int n; };

static bool is_apart(const struct beside *b, int phase) { return phase <= PHASES_APART && b->apart[phase]; }

static bool is_open(const struct ir_phase *ph)
{
	for (int a = 0; a < ph->naxes; a++)
		if (phase_is_open(NULL, &ph->axes[a]))
			return true;
	return false;
}

static void find_beside(const struct planner *p, struct beside *b)
{
	for (int i = 0; i < p->k->nphases; i++) {
		const struct ir_phase *ph = &p->k->phases[i];
		if (i <= PHASES_APART && b->n < PHASES_APART && !phase_has_product(ph) && plan_can_sweep(p, i)) {
			b->apart[i] = true;
			b->n++;
			continue;
		}
		for (int a = 0; a < ph->naxes; a++) {
			const struct hexpr *n = ph->axes[a].extent;
			if (phase_is_open(NULL, &ph->axes[a]) && n->op == HX_CDIV)
				n = n->a;
			bool open = phase_is_open(NULL, &ph->axes[a]), symbol = open && n->op == HX_SYM && n->imm < MODEL_MAX_SYMBOL;
			b->any_held = b->any_held || open;
			if (symbol)
				b->held[n->imm] = true;
		}
	}
}

static void plan_beside(struct planner *p, struct variant *v, const struct beside *b)
{
	for (int i = 0; i < p->k->nphases; i++)
		if (is_apart(b, i)) {
			plan_apart(p, v, i, is_open(&p->k->phases[i]));
			v->stream = v->stream || is_open(&p->k->phases[i]);
		}
}

/* A held axis whose extent neither the text nor the variant's pins fix. */
static bool is_held_open(struct planner *p, const struct variant *v, const struct ir_axis *ax)
{
	int64_t n;
	const struct hexpr *extent = ax->extent;
	if (!phase_is_open(v, ax))
		return false;
	for (int i = 0; i < v->npins; i++)
		extent = hexpr_subst(p->arena, extent, v->pins[i].symbol, hexpr_const(p->arena, v->pins[i].value));
	return !hexpr_is_const(extent, &n);
}

static bool any_held_open(struct planner *p, const struct variant *v, const struct beside *b)
{
	for (int i = 0; i < p->k->nphases; i++)
		for (int a = 0; a < p->k->phases[i].naxes; a++)
			if (!is_apart(b, i) && is_held_open(p, v, &p->k->phases[i].axes[a]))
				return true;
	return false;
}

/* Of an axis of a class for so many positions. */
static int held_tile(const struct ir_axis *ax, int most)
{
	int groups = ax->extent->op == HX_CDIV ? plan_groups_within(most, (int)plan_axis_by(ax)) : most;
	return groups ? groups : 1;                      /* of groups that are longer than the class one that ends early */
}

/* So many positions of a symbol are held where a class is for `most`: of groups that are no power of two whole ones, a power of two of them. */
static int held_most(struct planner *p, const struct variant *v, const struct beside *b, int symbol, int most)
{
	int64_t held = most;
	for (int i = 0; i < p->k->nphases; i++)
		for (int a = 0; a < p->k->phases[i].naxes && !is_apart(b, i); a++) {
			const struct ir_axis *ax = &p->k->phases[i].axes[a];
			bool groups = is_held_open(p, v, ax) && ax->extent->op == HX_CDIV && ax->extent->a->op == HX_SYM && ax->extent->a->imm == symbol;
			int64_t positions = groups ? held_tile(ax, most) * plan_axis_by(ax) : held;
			held = positions < held ? positions : held;
		}
	return (int)held;
}

/* Held axes hold at most so many positions, by the predicate: symbols, and extents that are none, as of n = 1..N. */
static void limit_held(struct planner *p, struct variant *v, const struct beside *b, int most)
{
	for (int s = 0; s < p->k->nsymbols && s < MODEL_MAX_SYMBOL; s++) {
		bool pinned = false;
		for (int i = 0; i < v->npins; i++)
			pinned = pinned || v->pins[i].symbol == s;
		if (b->held[s] && !pinned)
			plan_limit(p, v, s, held_most(p, v, b, s, most));
	}
	for (int i = 0; i < p->k->nphases; i++)
		for (int a = 0; a < p->k->phases[i].naxes; a++) {
			const struct ir_axis *ax = &p->k->phases[i].axes[a];
			if (is_apart(b, i) || !is_held_open(p, v, ax) || ax->extent->op == HX_SYM || (ax->extent->op == HX_CDIV && ax->extent->a->op == HX_SYM))
				continue;
			v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, ax->extent, hexpr_const(p->arena, held_tile(ax, most))));
			plan_say_most(p, v, ax->extent, held_tile(ax, most));
		}
}

/* Those of a size that is known have at least what an instruction takes. */
static void hold(struct planner *p, struct variant *v, const struct beside *b, int most)
{
	for (int i = 0; i < p->k->nphases; i++) {
		struct sides sides = sides_of(&p->k->phases[i], p->target);
		for (int a = 0; a < p->k->phases[i].naxes && !is_apart(b, i); a++) {
			const struct ir_axis *ax = &p->k->phases[i].axes[a];
			int64_t n;
			if (is_held_open(p, v, ax))
				plan_tile(v, i, ax->name, held_tile(ax, most));
			else if (ax->kind == AXIS_HELD && !ax->tile && phase_extent(v, ax->extent, &n) && n > 0 && n < sides.of[a])
				plan_tile(v, i, ax->name, sides.of[a]);
		}
	}
}

int phase_product_side(const struct ir_phase *ph, const struct target *target, int axis) { return sides_of(ph, target).of[axis]; }

struct contracted { const struct target *target; bool widest; int most; };

static void look_at_dot(struct ir_ins *i, void *ctx)
{
	struct contracted *c = ctx;
	enum dtype of[2], codes[2];
	if (i->op != IR_DOT)
		return;
	dot_types(c->target, i, of);
	const struct mfma *m = target_mfma(c->target, of[0], of[1], c->widest ? ANY_TILE : 0);
	const struct mfma *scaled = m && c->widest && dot_is_scaled(i, codes) ? target_mfma(c->target, codes[0], codes[1], ANY_TILE) : NULL;
	m = scaled && scaled->group ? scaled : m;
	int k = m ? m->k * (1 + (m->a == DT_U8)) : 1;
	c->most = k > c->most ? k : c->most;
}

/* What the matrix instructions of all products contract at a time, at most; the shortest there are of their types, or the best. */
static int most_contracted(const struct planner *p, bool widest)
{
	struct contracted c = {p->target, widest, 1};
	for (int i = 0; i < p->k->nphases; i++)
		ir_walk(p->k->phases[i].body, look_at_dot, &c);
	return c.most;
}

static int whole_sides(int tile, int side) { return tile < side ? side : tile - tile % side; }

/* Of few rows a product waits for memory: small tiles, so that there are many, long ones of what is contracted, so that rounds are few.  most: rows of
 * a group, where there are groups, for which one is taken; 0 = of none.  area: also where the result has no more positions for each multiprocessor, so that larger
 * tiles would leave many without one (docs/performance.md); 0 = no matter how many. */
struct few { int most, rows, columns, contracted, waves, area; };
static const struct few few_classes[] = {{16, 16, 64, 256, 4, 0}, {32, 32, 64, 128, 4, 0}, {64, 64, 64, 128, 4, 64 * 128}};
/* Where four waves multiply together: one tile a multiprocessor, as large as there are. */
static const struct few few_quads[] = {{16, 16, 64, 256, 4, 0}, {32, 32, 64, 128, 4, 0}, {0, 64, 64, 128, 4, 64 * 64}, {64, 64, 128, 128, 4, 64 * 128}, {0, 128, 128, 64, 8, 128 * 128}};
enum { HEADS_CLASS = 256 };
enum { FEW_CLASSES = sizeof few_classes / sizeof *few_classes, FEW_QUADS = sizeof few_quads / sizeof *few_quads, LARGE = 128 };

/* Of a phase's two axes of tiles that of rows, which results are not contiguous along, and the other; -1 = it has not two. */
struct tiles { int rows, columns; };

static struct tiles tiles_of(const struct planner *p, const struct ir_phase *ph)
{
	struct tiles t = {-1, -1};
	int n = 0, grid[2] = {-1, -1};
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].kind == AXIS_GRID && ph->axes[a].tiled && n++ < 2)
			grid[n - 1] = a;
	const struct ir_ins *store = ph->body->last;
	while (store && store->op != IR_STORE)
		store = store->prev;
	const struct ir_param *to = store ? &p->k->params[store->imm] : NULL;
	struct affine last = to && to->rank ? affine_of(store->args[to->rank - 1]) : (struct affine){.ok = false};
	for (int i = 0; n == 2 && last.ok && i < 2; i++)
		if (last.coef[grid[i]] == 1 && !ph->axes[grid[i]].ragged)
			t = (struct tiles){grid[!i], grid[i]};
	return t;
}

/* Whether four waves may multiply together (target/mfma.h).  Each product stands in a loop, which is in no other, over one of its axes.  The operand along the
 * later axis is what the loop loads, as it is and side by side along one of its axes, or made of that element by element; the other may be in
 * registers.  both: of all products neither is, and what they contract is the loop. */
struct quad_search { const struct planner *p; const struct ir_phase *ph; const struct ir_ins *loop; int products; bool fit, both; };

static int one_axis(ir_axes axes) { return axes && !(axes & (axes - 1)) ? __builtin_ctz(axes) : -1; }

/* A product's operands, that along the earlier axis, whose rows are the instruction's own, first; -1 = no axis, or several. */
struct quad_axes { const struct ir_ins *of[2]; int axis[2], k; };

static struct quad_axes quad_axes_of(const struct ir_phase *ph, const struct ir_ins *dot)
{
	int free[2];
	for (int n = 0; n < 2; n++)
		free[n] = one_axis(axes_of_several(ph, dot->args[n]->axes & ~dot->over));
	int a = free[0] < free[1] ? 0 : 1;
	return (struct quad_axes){{dot->args[a], dot->args[!a]}, {free[a], free[!a]}, one_axis(axes_of_several(ph, dot->over))};
}

static bool is_loop(const struct quad_search *s, int axis) { return s->loop->imm == axis; }

/* Comes to group memory by itself. */
static bool is_brought(const struct quad_search *s, const struct ir_ins *x, int k, int free)
{
	const struct ir_param *t = x->op == IR_LOAD ? &s->p->k->params[x->imm] : NULL;
	if (!t || t->role != IR_IN || t->list || !(is_loop(s, k) || is_loop(s, free)))
		return false;
	struct affine last = affine_of(x->args[t->rank - 1]);
	return last.ok && (last.coef[k] == 1 || last.coef[free] == 1);
}

static bool is_made(const struct quad_search *s, const struct ir_ins *x)
{
	if (x->op == IR_LOAD)
		return s->p->k->params[x->imm].role == IR_IN && !s->p->k->params[x->imm].list;
	bool made = ir_is_pure(x) && !x->over && x->op != IR_ARG && x->op != IR_RELAYOUT;
	for (int a = 0; a < x->nargs && made; a++)
		made = !x->args[a]->axes || is_made(s, x->args[a]);
	return made;
}

static bool is_of_round(const struct quad_search *s, const struct ir_ins *x, int k, int free)
{
	return is_brought(s, x, k, free) || (x->op != IR_LOAD && is_loop(s, k) && is_made(s, x));
}

static void look_for_quad(struct ir_ins *i, void *ctx)
{
	struct quad_search *s = ctx;
	if (i->op != IR_DOT)
		return;
	struct quad_axes x = quad_axes_of(s->ph, i);
	s->products++;
	s->loop = i->block->owner;
	s->fit = s->fit && s->loop && s->loop->op == IR_FOR && !s->loop->block->owner && x.k >= 0 && x.axis[0] >= 0 && x.axis[1] >= 0 && dot_is_matrix(s->ph, i);
	if (!s->fit)
		return;
	s->fit = target_quad(s->p->target, x.of[0]->dtype, x.of[1]->dtype) && is_of_round(s, x.of[1], x.k, x.axis[1]);
	s->both = s->both && is_loop(s, x.k) && is_of_round(s, x.of[0], x.k, x.axis[0]);
}

static struct quad_search quads_of(const struct planner *p)
{
	struct quad_search s = {p, &p->k->phases[0], NULL, 0, p->k->nphases == 1 && p->target->nquads, true};
	if (s.fit)
		ir_walk(s.ph->body, look_for_quad, &s);
	s.fit = s.fit && s.products;
	return s;
}

/* bytes: of a round's operands in group memory, of the loop that has most of them. */
enum { MOST_OPERANDS = 16 };
struct quad_fit { struct quad_search *s; const struct variant *v; const struct ir_ins *operand[MOST_OPERANDS]; int n; int64_t of_loop, bytes; bool fit; };

static int64_t quad_positions(const struct quad_fit *f, int axis)
{
	const struct ir_axis *ax = &f->s->ph->axes[axis];
	int64_t n = pass_planned_tile(f->v, 0, ax->name);
	return n || (phase_extent(f->v, ax->extent, &n) && n > 0) ? n : 1;
}

static bool loads_the_same(const struct quad_fit *f, const struct ir_ins *a, const struct ir_ins *b)
{
	bool same = a->op == IR_LOAD && b->op == IR_LOAD && a->imm == b->imm;
	for (int d = 0; same && d < f->s->p->k->params[a->imm].rank; d++)
		same = a->args[d] == b->args[d];
	return a == b || same;
}

/* An operand in group memory, in whole rows; one that is made lies along k. */
static void fit_operand(struct quad_fit *f, const struct ir_ins *x, int k, int free)
{
	bool across = x->op == IR_LOAD && affine_of(x->args[f->s->p->k->params[x->imm].rank - 1]).coef[k] != 1;
	int inner = across ? free : k, rows = across ? k : free;
	int64_t row = quad_positions(f, inner) * dtype_info(x->dtype)->bits / 8;
	for (int n = 0; n < f->n; n++)
		if (loads_the_same(f, f->operand[n], x))
			return;
	f->fit = f->fit && row % QUAD_ROW == 0 && quad_positions(f, rows) % QUAD_TURN == 0 && f->n < MOST_OPERANDS;
	if (f->fit)
		f->operand[f->n++] = x;
	f->of_loop += row * quad_positions(f, rows);
	f->bytes = f->of_loop > f->bytes ? f->of_loop : f->bytes;
}

static void fit_quad(struct ir_ins *i, void *ctx)
{
	struct quad_fit *f = ctx;
	if (i->op != IR_DOT)
		return;
	struct quad_axes x = quad_axes_of(f->s->ph, i);
	if (f->s->loop != i->block->owner)
		f->of_loop = 0;
	f->s->loop = i->block->owner;
	f->fit = f->fit && quad_positions(f, x.axis[0]) % (QUAD_ROWS / QUAD_WAVES * f->v->waves) == 0 && quad_positions(f, x.axis[1]) <= QUAD_MOST;
	fit_operand(f, x.of[1], x.k, x.axis[1]);
	if (is_of_round(f->s, x.of[0], x.k, x.axis[0]))
		fit_operand(f, x.of[0], x.k, x.axis[0]);
}

/* The variant's tiles are such as four waves multiply. */
static bool quads_fit(struct planner *p, const struct variant *v)
{
	struct quad_search s = quads_of(p);
	struct quad_fit f = {.s = &s, .v = v, .fit = s.fit && v->waves % QUAD_WAVES == 0};
	if (f.fit)
		ir_walk(s.ph->body, fit_quad, &f);
	return f.fit && f.bytes * (s.both ? QUAD_SLOTS : QUAD_SLOTS / 2) <= p->target->lds_bytes;
}

/* As many of what is contracted as group memory has in a row; of the results two times four waves' rows by as many columns as an instruction has. */
static int quad_tile(const struct sides *sides, int axis, bool loop)
{
	int later = sides->axes[0] > sides->axes[1] ? sides->axes[0] : sides->axes[1];
	return loop ? QUAD_ROW / 2 : axis == later ? QUAD_MOST : 2 * QUAD_ROWS;
}

static int few_tile(const struct few *f, const struct tiles *t, int axis, bool loop) { return loop ? f->contracted : axis == t->rows ? f->rows : f->columns; }

/* Of products in turn, whose rows four waves keep in registers: where these take few, more workgroups that do not wait for each other are worth more than
 * tiles that are read once for twice as many rows. */
static int quad_rows(int64_t held) { return held && held <= LEAST_CLASS ? QUAD_ROWS : 2 * QUAD_ROWS; }

/* held: positions of held axes, 0 = none; shrink: divide grid tiles, for variants that hold more registers a row, and loops'; few: of few rows, or NULL */
static void matrix_tiles(struct planner *p, struct variant *v, const struct beside *b, int64_t held, int shrink, const struct few *few)
{
	const struct dsl_schedule *s = schedule_for(p->text, p->target);
	s = few ? NULL : s;
	struct quad_search quads = quads_of(p);
	bool large = v->quads && !few && quads.both && quads.products == 1;
	int rows = v->quads && !large ? quad_rows(held) : LARGE;
	v->waves = few ? few->waves : v->quads ? rows * QUAD_WAVES / QUAD_ROWS : WAVES;
	v->scheduled = s && v->aligned;
	for (int i = 0; s && i < s->nknobs; i++) {
		if (!s->knobs[i].has_value)
			continue;
		if (strcmp(s->knobs[i].name, "waves") == 0)
			v->waves = s->knobs[i].value;
	}
	int least = most_contracted(p, v->aligned), most = v->quads ? QUAD_MOST : variant_in_runs(v) ? 128 : 64;    /* of a side of tiles that are not aligned: each run, or element, has its own mask */
	if (!v->aligned && !variant_in_runs(v))      /* long rows element by element: more lanes, fewer elements each */
		v->waves = shrink > 1 ? waves_of(p, MANY_THREADS) : WAVES;
	for (int i = 0; i < p->k->nphases; i++) {
		struct sides sides = sides_of(&p->k->phases[i], p->target);
		struct tiles tiles = tiles_of(p, &p->k->phases[i]);
		for (int a = 0; a < p->k->phases[i].naxes; a++) {
			const struct ir_axis *ax = &p->k->phases[i].axes[a];
			bool loop = ax->kind != AXIS_GRID;
			int tile = few ? few_tile(few, &tiles, a, loop) : large ? quad_tile(&sides, a, loop) : loop ? 64 : rows;
			if (!ax->tiled || is_apart(b, i))
				continue;
			for (int n = 0; s && n < s->nknobs; n++)
				if (s->knobs[n].has_value && strcmp(s->knobs[n].name, ax->name) == 0)
					tile = s->knobs[n].value;
			int fits = ax->kind == AXIS_GRID ? most : NARROW;
			if (!v->aligned && tile > fits)
				tile = fits;
			tile = whole_sides(v->quads && !loop ? tile : tile / shrink, sides.of[a]);      /* four waves' rows are as many as they are */
			if (ax->kind == AXIS_LOOP && tile < least)
				tile = least;
			plan_tile(v, i, ax->name, tile);
		}
	}
}

/* Held axes that hold more than this have less of others. */
static int shrink_for(int64_t most) { return most > 256 ? 4 : most > 128 ? 2 : 1; }

/* Words of a lane that the sums of a product and its operands take where all its axes are held: nothing else can be made smaller. */
static int64_t held_words(const struct planner *p, const struct variant *v)
{
	int64_t most = 0;
	for (int i = 0; i < p->k->nphases; i++) {
		struct sides s = sides_of(&p->k->phases[i], p->target);
		int64_t n[3];
		bool known = s.any;
		for (int j = 0; j < 3 && known; j++) {
			const struct ir_axis *ax = &p->k->phases[i].axes[s.axes[j]];
			n[j] = pass_planned_tile(v, i, ax->name);
			known = ax->kind == AXIS_HELD && (n[j] || phase_extent(v, ax->extent, &n[j]));
		}
		int64_t lanes = p->target->wave * v->waves, words = known ? (n[0] * n[1] + (n[0] + n[1]) * n[2]) / lanes : 0;
		most = words > most ? words : most;
	}
	return most;
}

/* Of loops as large tiles as group memory has places for; false: of none. */
static bool plan_quads(struct planner *p, struct variant *v, const struct beside *b, int64_t held, int most)
{
	const struct variant bare = *v;
	bool fit = false;
	for (int shrink = 1; shrink <= shrink_for(held) && !fit; shrink *= 2) {
		*v = bare;
		matrix_tiles(p, v, b, held, shrink, NULL);
		hold(p, v, b, most);
		fit = quads_fit(p, v);
	}
	return fit;
}

/* An aligned variant, or one of any tensors; pin: of a size, NULL = of any; most: positions of held axes whose size it leaves open, 0 = there are none.  Not
 * where no lane has room for it. */
static void plan_product(struct planner *p, const struct beside *b, const struct dsl_pin *pin, int most, bool is_aligned)
{
	struct variant v = plan_variant(p);
	int64_t held = most;
	if (pin) {
		int s = plan_symbol(p, pin->symbol);
		plan_pin_symbol(p, &v, s, pin->value);
		held = b->held[s] && pin->value > held ? pin->value : held;
	}
	if (most)
		limit_held(p, &v, b, most);
	if (is_aligned)
		plan_aligned(p, &v);
	else
		v.single = most;                         /* rows so short that most runs of a wave stand beside one that is not whole */
	struct variant by_quads = v;
	by_quads.quads = is_aligned && quads_of(p).fit;
	if (by_quads.quads && plan_quads(p, &by_quads, b, held, most)) {
		v = by_quads;
	} else {
		matrix_tiles(p, &v, b, held, shrink_for(held), NULL);
		hold(p, &v, b, most);
	}
	v.piped = is_aligned;
	plan_beside(p, &v, b);
	if (!v.text[0])
		v.text = "any";
	if (most <= LEAST_CLASS || held_words(p, &v) <= LANE_WORDS)
		*plan_add(p) = v;
}

/* Of fewer positions than heads share keys: a tile of these heads, so that keys come once; a round loads as many elements of them whatever a head has. */
static void plan_heads(struct planner *p, const struct beside *b, const struct dsl_pin *pin, int most)
{
	enum { ROWS = 16, HEADS_WAVES = 4, ROUND = 64 * 128 };
	struct shared_heads h;
	struct variant v = plan_variant(p);
	int64_t held = most > LEAST_CLASS ? most : LEAST_CLASS;
	if (!kernel_shares_heads(p->k, &h))
		return;
	const struct ir_axis *positions = &p->k->phases[0].axes[h.row];
	if (pin) {
		int s = plan_symbol(p, pin->symbol);
		plan_pin_symbol(p, &v, s, pin->value);
		held = b->held[s] && pin->value > held ? pin->value : held;
	}
	int round = HEADS_CLASS / 2;
	while (round * held > ROUND && round > most_contracted(p, true))
		round /= 2;
	if (held > HEADS_CLASS)
		return;
	if (most)
		limit_held(p, &v, b, most);
	v.predicate = plan_both(p, v.predicate, hexpr_op(p->arena, HX_LT, positions->extent, h.each));
	plan_say(p, &v, "heads");
	plan_aligned(p, &v);
	v.heads = true;
	v.waves = HEADS_WAVES;
	plan_tile(&v, 0, h.name, ROWS);
	plan_tile(&v, 0, positions->name, 1);
	for (int a = 0; a < p->k->phases[0].naxes; a++)
		if (p->k->phases[0].axes[a].tiled && a != h.row)
			plan_tile(&v, 0, p->k->phases[0].axes[a].name, round);
	hold(p, &v, b, most);
	v.piped = true;
	*plan_add(p) = v;
}

/* Aligned, of few rows, or few in each group. */
static void plan_few(struct planner *p, const struct beside *b, const struct few *few)
{
	const struct ir_phase *ph = &p->k->phases[0];
	struct tiles t = tiles_of(p, ph);
	const struct ir_axis *rows = t.rows < 0 ? NULL : &ph->axes[t.rows], *columns = t.rows < 0 ? NULL : &ph->axes[t.columns];
	const struct hexpr *n = rows ? rows->ragged ? rows->ragged_total : rows->extent : NULL, *groups = rows && rows->ragged ? ph->axes[rows->ragged_group].extent : NULL;
	if (p->k->nphases > 1 || !n || n->op != HX_SYM || rows->of_list || columns->extent->op != HX_SYM)
		return;
	struct variant v = plan_variant(p);
	const struct hexpr *most = hexpr_const(p->arena, few->most);
	most = groups ? hexpr_op(p->arena, HX_MUL, most, groups) : most;
	const struct hexpr *is = few->most ? hexpr_op(p->arena, HX_LE, n, most) : NULL;
	if (few->area) {
		const struct hexpr *size = hexpr_op(p->arena, HX_MUL, n, columns->extent);
		const struct hexpr *small = hexpr_op(p->arena, HX_LE, size, hexpr_const(p->arena, (int64_t)few->area * p->target->multiprocessors));
		is = is ? hexpr_op(p->arena, HX_OR, is, small) : small;
	}
	v.predicate = plan_both(p, v.predicate, is);
	const char *rows_text = few->most ? arena_printf(p->arena, "%s<=%d%s", p->k->symbols[n->imm], few->most, groups ? " each" : "") : "";
	const char *area_text = few->area ? few->area == few->rows * few->columns ? arena_printf(p->arena, "few by %d x %d", few->rows, few->columns) : "few" : "";
	plan_say(p, &v, arena_printf(p->arena, "%s%s%s", rows_text, *rows_text && *area_text ? " or " : "", area_text));
	plan_aligned(p, &v);
	v.quads = quads_of(p).fit;
	matrix_tiles(p, &v, b, 0, 1, few);
	hold(p, &v, b, 0);
	v.quads = v.quads && quads_fit(p, &v);
	v.piped = true;
	*plan_add(p) = v;
}

void plan_products(struct planner *p)
{
	static const int classes[] = {LEAST_CLASS, 128, 256, 512};
	enum { CLASSES = sizeof classes / sizeof *classes };
	struct beside b = {0};
	find_beside(p, &b);
	for (int i = 0; i < p->npins; i++) {
		int s = plan_symbol(p, p->pins[i].symbol);
		if (s < 0 || (p->f.multiple[s] && p->pins[i].value % p->f.multiple[s]))
			continue;
		struct variant pinned = {.pins = {{s, p->pins[i].value}}, .npins = 1};
		bool open = any_held_open(p, &pinned, &b);
		for (int c = 0; c < (open ? CLASSES : 1); c++) {
			plan_heads(p, &b, &p->pins[i], open ? classes[c] : 0);
			plan_product(p, &b, &p->pins[i], open ? classes[c] : 0, true);
		}
	}
	bool quads = quads_of(p).both && quads_of(p).fit;
	for (int f = 0; f < (quads ? FEW_QUADS : FEW_CLASSES) && !b.any_held && !b.n; f++)
		plan_few(p, &b, quads ? &few_quads[f] : &few_classes[f]);
	for (int a = 1; a >= 0; a--)
		for (int c = 0; c < (b.any_held ? CLASSES : 1); c++)
			if (!b.any_held || a || classes[c] <= 256) {    /* else its masks and offsets do not fit the registers */
				if (a)
					plan_heads(p, &b, NULL, b.any_held ? classes[c] : 0);
				plan_product(p, &b, NULL, b.any_held ? classes[c] : 0, a);
			}
}
