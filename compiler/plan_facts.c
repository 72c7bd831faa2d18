/* plan_facts.c -- what a kernel asks of its variants: vector widths, held axes, how long the code for an element is; and what its phases
 * hold under one.
 * In: tile IR without layouts.  Out: struct facts and struct shape, by which plan.c chooses tiles and waves. */
#include "affine.h"
#include "plan_facts.h"
#include "target/mfma.h"

enum { BESIDE = 256, LEAST_RUN = 8 };            /* positions of an axis that are few: a lane of a few waves has one at most; that a tiled loop has a multiple of */

static void note_multiple(struct facts *f, const struct hexpr *extent, int width)
{
	int64_t c;
	if (!extent)
		return;
	if (extent->op == HX_SYM && f->vector[extent->imm] < width)
		f->vector[extent->imm] = width;
	if (extent->op == HX_CDIV && hexpr_is_const(extent->b, &c) && extent->a->op == HX_SYM) {
		width = (int)c > width ? (int)c : width;
		extent = extent->a;
	}
	if (extent->op == HX_SYM && f->multiple[extent->imm] < width)
		f->multiple[extent->imm] = width;
}

/* Reductions one behind the other that lead to an instruction. */
static intptr_t note_rounds(struct ir_ins *i)
{
	intptr_t n = 0;
	for (int a = 0; a < i->nargs; a++)
		n = (intptr_t)i->args[a]->note > n ? (intptr_t)i->args[a]->note : n;
	n += i->op == IR_REDUCE || i->op == IR_SCAN;
	i->note = (void *)n;
	return n;
}

/* A store of one number for each group across axis a, of positions in a group, along which it runs: scale[n/128, m], where n is reduced over. */
static bool is_of_groups(const struct ir_phase *ph, const struct ir_ins *i, int a)
{
	bool position = ph->axes[a].kind == AXIS_HELD && ph->axes[a].extent && ph->axes[a].extent->op == HX_CONST;
	for (int o = 0; i->op == IR_STORE && position && o < ph->naxes; o++)
		if (ph->axes[o].kind == AXIS_HELD && !(i->axes & IR_AXIS(o)))
			return true;
	return false;
}

/* The axes along which accesses of a phase are contiguous, of those that a workgroup may hold more than one position of; axes that
 * number groups are left out, and numbers of groups. */
struct lines { const struct ir_kernel *k; const struct ir_phase *ph; bool read; ir_axes axes; };      /* read: of loads alone */

static void note_line(struct ir_ins *i, void *ctx)
{
	struct lines *l = ctx;
	const struct ir_param *t = i->op == IR_LOAD || (i->op == IR_STORE && !l->read) ? &l->k->params[i->imm] : NULL;
	struct affine s = t && t->rank > 1 ? affine_of(i->args[t->rank - 1]) : (struct affine){0};
	for (int a = 0; s.ok && a < l->ph->naxes; a++) {
		const struct ir_axis *ax = &l->ph->axes[a];
		if (s.coef[a] == 1 && (ax->tiled || ax->kind != AXIS_GRID) && !(ax->extent && ax->extent->op == HX_CDIV) && !is_of_groups(l->ph, i, a))
			l->axes |= IR_AXIS(a);
	}
}

/* How many elements an access of 16 bytes along a loop has, at most. */
struct along_loop { const struct facts *f; int axis, run; };

static void look_along_loop(struct ir_ins *i, void *ctx)
{
	struct along_loop *c = ctx;
	const struct ir_param *t = i->op == IR_LOAD ? &c->f->k->params[i->imm] : NULL;
	struct affine s = t && t->rank ? affine_of(i->args[t->rank - 1]) : (struct affine){0};
	int run = s.ok && s.coef[c->axis] == 1 ? 128 / dtype_info(t->dtype)->bits : 0;
	c->run = run > c->run ? run : c->run;
}

static void note_access(struct ir_ins *i, void *ctx)
{
	struct facts *f = ctx;
	int rounds = (int)note_rounds(i);
	f->rounds = rounds > f->rounds ? rounds : f->rounds;
	f->has_dot = f->has_dot || (i->op == IR_DOT && dot_is_matrix(f->ph, i));
	if (i->op == IR_FOR) {
		struct along_loop c = {f, (int)i->imm, LEAST_RUN};
		if (f->ph->axes[i->imm].tiled && i->args[1]->op == IR_SYM) {
			ir_walk(i->body, look_along_loop, &c);
			f->multiple[i->args[1]->imm] = f->multiple[i->args[1]->imm] < c.run ? c.run : f->multiple[i->args[1]->imm];
		}
	}
	for (int a = 0; (i->op == IR_REDUCE || i->op == IR_SCAN) && a < f->ph->naxes; a++)
		f->reduces = f->reduces || ((i->over & IR_AXIS(a)) && f->ph->axes[a].kind == AXIS_HELD && !f->ph->axes[a].tile && f->ph->axes[a].extent->op != HX_CONST);
	if (i->op != IR_LOAD && i->op != IR_STORE)
		return;
	const struct ir_param *t = &f->k->params[i->imm];
	if (!t->rank)
		return;
	struct affine s = affine_of(i->args[t->rank - 1]);
	bool row = i->op == IR_LOAD && t->rank > 1 && t->role != IR_OUT;
	int wide = dtype_info(t->dtype)->bits / 8;
	f->rows += row;
	f->read = row && wide > f->read ? wide : f->read;
	f->early = f->early || (i->op == IR_STORE && t->rank > 1 && !rounds);
	f->weights += i->op == IR_LOAD && t->rank == 1;
	f->long_weights += i->op == IR_LOAD && t->rank == 1 && i->args[0]->axes && f->ph->axes[__builtin_ctz(i->args[0]->axes)].kind == AXIS_HELD;
	bool elements = false;
	for (int a = 0; s.ok && a < f->ph->naxes; a++) {
		const struct ir_axis *ax = &f->ph->axes[a];
		if (s.coef[a] != 1 || (ax->kind == AXIS_GRID && !ax->tiled && !ax->tile) || (t->rank == 1 && f->lines && !(f->lines & IR_AXIS(a))))
			continue;
		elements = true;
		int bytes = dtype_info(t->dtype)->bits / 8, width = 16 / (bytes ? bytes : 1);
		bool numbers = is_of_groups(f->ph, i, a);
		if (!numbers && bytes < f->narrowest)
			f->narrowest = bytes;
		if (!numbers && bytes > f->widest)
			f->widest = bytes;
		if (!numbers && i->op == IR_STORE && bytes < f->stored)
			f->stored = bytes;
		note_multiple(f, ax->extent, width);
		for (int o = 0; o < f->ph->naxes; o++) {                /* of a position in a group, with the group's number beside it */
			const struct hexpr *groups = f->ph->axes[o].extent;
			if (o != a && s.coef[o] > 1 && groups && groups->op == HX_CDIV)
				note_multiple(f, groups->a, width);
		}
	}
	f->numbers += row && !elements;
}

/* Instructions that an operation becomes for one element, about. */
static int cost_of(const struct ir_ins *i)
{
	bool real = dtype_is_float((enum dtype)i->dtype);
	switch (i->op) {
	case IR_ERF: case IR_TANH: return 20;
	case IR_ERFC: case IR_NORMCDF: return 14;
	case IR_DIV: case IR_REM: return i->args[1]->op == IR_CONST ? 4 : real ? 10 : 24;
	case IR_SIN: case IR_COS: case IR_SQRT: return 6;
	case IR_PHILOX: return 80;
	case IR_CVT: return dtype_info((enum dtype)i->dtype)->cls == 'Q' ? 4 : 1;
	default: return 1;
	}
}

/* Of what is computed for each element: per group of 128, say, costs nothing beside, and positions and masks fold into addresses. */
struct cost { const struct ir_phase *ph; int widest, sum; };

static void add_cost(struct ir_ins *i, void *ctx)
{
	struct cost *c = ctx;
	int width = __builtin_popcount(axes_of_several(c->ph, i->axes));
	if (width > c->widest)
		*c = (struct cost){c->ph, width, 0};
	if (width && width == c->widest && i->dtype != DT_I1 && !(i->dtype == DT_I32 && affine_of(i).ok))
		c->sum += cost_of(i);
}

void facts_look(struct facts *f, const struct ir_kernel *k)
{
	*f = (struct facts){.k = k, .narrowest = 16, .stored = 16};
	for (int i = 0; i < k->nphases; i++) {
		f->ph = &k->phases[i];
		struct cost cost = {f->ph, 0, 0};
		struct lines read = {k, f->ph, true, 0};
		ir_walk(f->ph->body, note_line, &read);
		f->lines = read.axes;
		ir_walk(f->ph->body, note_access, f);
		ir_walk(f->ph->body, add_cost, &cost);
		f->cost = cost.sum > f->cost ? cost.sum : f->cost;
		f->guarded = f->guarded || phase_is_guarded(k, f->ph);
		for (int a = 0; a < f->ph->naxes; a++) {
			const struct ir_axis *ax = &f->ph->axes[a];
			if (ax->kind == AXIS_HELD && !ax->tile && ax->extent && ax->extent->op == HX_SYM)
				f->held[ax->extent->imm] = true;
			if (ax->kind == AXIS_GRID && ax->extent && ax->extent->op == HX_CDIV && phase_reduced_group(f->ph, a) < 0)
				note_multiple(f, ax->extent, 1);
		}
	}
	if (!f->widest)
		f->widest = 4;
}

bool phase_is_lines(const struct ir_kernel *k, const struct ir_phase *ph)
{
	struct lines l = {k, ph, false, 0};
	int last = -1;
	ir_walk(ph->body, note_line, &l);
	for (int a = 0; a < ph->naxes; a++)
		last = ph->axes[a].tiled && !ph->axes[a].tile ? a : last;
	return last >= 0 && l.axes == IR_AXIS(last);
}

bool phase_is_turning(const struct ir_kernel *k, const struct ir_phase *ph)
{
	struct lines l = {k, ph, false, 0};
	ir_walk(ph->body, note_line, &l);
	return l.axes & (l.axes - 1);
}

struct product_search { const struct ir_phase *ph; bool found; };

static void look_for_product(struct ir_ins *i, void *ctx)
{
	struct product_search *s = ctx;
	s->found = s->found || (i->op == IR_DOT && dot_is_matrix(s->ph, i));
}

bool phase_has_product(const struct ir_phase *ph)
{
	struct product_search s = {ph, false};
	ir_walk(ph->body, look_for_product, &s);
	return s.found;
}

struct sums_search { const struct ir_phase *ph; int axis; };

static void look_for_sums(struct ir_ins *i, void *ctx)
{
	struct sums_search *s = ctx;
	s->axis = i->op == IR_FOR && s->ph->axes[i->imm].tiled && loop_is_of_sums(i) ? (int)i->imm : s->axis;
}

int phase_summed_axis(const struct ir_phase *ph)
{
	struct sums_search s = {ph, -1};
	ir_walk(ph->body, look_for_sums, &s);
	return s.axis;
}

int variant_waves(const struct variant *v, int phase)
{
	for (int i = 0; i < v->napart; i++)
		if (v->apart[i].phase == phase)
			return v->apart[i].waves;
	return v->waves;
}

int variant_beside(const struct variant *v) { return v->beside ? v->beside : 1; }

int variant_each(const struct variant *v)
{
	return v->carries ? (v->carries + v->target->multiprocessors - 1) / v->target->multiprocessors : 0;
}

int variant_least_lds(const struct variant *v, int phase)
{
	bool carries = !phase && v->pieces && v->many, behind = phase && v->carries && v->npins && !v->joined;
	bool adds = behind && v->target->wave * variant_waves(v, phase) > v->target->added_threads;
	int each = carries ? variant_each(v) : adds;
	return each ? v->target->lds_bytes / (each + 1) + 16 : 0;              /* one more would not find room */
}

bool variant_in_runs(const struct variant *v)
{
	return !v->single && (v->aligned || v->target->unaligned);
}

int64_t power_above(int64_t n)
{
	int64_t r = 1;
	while (r < n && r < HELD_MUCH)
		r *= 2;
	return r;
}

bool phase_extent(const struct variant *v, const struct hexpr *extent, int64_t *n)
{
	int64_t by = 1;
	if (hexpr_is_const(extent, n))
		return true;
	if (extent->op == HX_CDIV && hexpr_is_const(extent->b, &by))
		extent = extent->a;
	for (int i = 0; v && extent->op == HX_SYM && i < v->npins; i++)
		if (v->pins[i].symbol == extent->imm) {
			*n = (v->pins[i].value + by - 1) / by;
			return true;
		}
	return false;
}

bool phase_is_open(const struct variant *v, const struct ir_axis *ax)
{
	int64_t n;
	return ax->kind == AXIS_HELD && !ax->tile && !phase_extent(v, ax->extent, &n);
}

struct meeting { ir_axes axis, others; bool met; };

static void look_for_meeting(struct ir_ins *i, void *ctx)
{
	struct meeting *m = ctx;
	ir_axes all = i->axes | i->over;
	for (int a = 0; a < i->nargs && i->op != IR_FOR && i->op != IR_YIELD; a++)       /* of which each is by itself */
		all |= i->args[a]->axes;
	m->met = m->met || (all & m->axis && all & m->others);
}

/* A few positions of a held axis that no value has beside those of another one, which has more, as the few largest of a row: they take no part of what a
 * lane holds. */
static bool stands_beside(const struct variant *v, const struct ir_phase *ph, int axis, int64_t n)
{
	struct meeting m = {.axis = IR_AXIS(axis)};
	bool longer = false;
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		int64_t of = ax->tile;
		if (ax->kind != AXIS_HELD || a == axis)
			continue;
		m.others |= IR_AXIS(a);
		longer = longer || (!ax->tile && !phase_extent(v, ax->extent, &of)) || of > n;
	}
	if (longer && n > 1 && n <= BESIDE)
		ir_walk(ph->body, look_for_meeting, &m);
	return longer && n > 1 && n <= BESIDE && !m.met;
}

struct shape phase_shape(const struct variant *v, const struct ir_phase *ph)
{
	struct shape s = {1, 0, 0};
	for (int a = 0; a < ph->naxes; a++) {
		const struct ir_axis *ax = &ph->axes[a];
		int64_t n = 1;
		s.open += phase_is_open(v, ax);
		s.tiled += ax->tiled && !ax->tile && !(ax->kind == AXIS_LOOP && a == phase_summed_axis(ph));
		if (ax->kind == AXIS_HELD && ax->tile)
			n = ax->tile;
		else if (ax->kind == AXIS_HELD && !phase_extent(v, ax->extent, &n))
			n = 1;
		if (!stands_beside(v, ph, a, n))
			s.fixed = s.fixed > HELD_MUCH / power_above(n) ? HELD_MUCH : s.fixed * power_above(n);
	}
	return s;
}

bool variant_is_ragged(const struct variant *v)
{
	for (int i = 0; i < v->npins; i++)
		if (v->pins[i].value & (v->pins[i].value - 1))
			return true;
	return false;
}

bool variant_may_lack(const struct variant *v, const struct ir_kernel *k, int64_t tensor) { return k->params[tensor].optional && !(v->given >> tensor & 1); }

bool variant_is_between(const struct variant *v)
{
	for (int i = 0; i < v->nlimits; i++)
		if (v->limits[i].least > 1)
			return true;
	return false;
}

bool variant_is_at_least(const struct variant *v, int64_t n)
{
	for (int i = 0; i < v->npins; i++)
		if (v->pins[i].value >= n)
			return true;
	return false;
}
