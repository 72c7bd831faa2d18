/* elab_cross.c -- what one workgroup stores and another one accesses: workgroups run in any order, so the element may be old or new.
 *
 * In: the accesses of a phase, each with the conditions around it.  Out: a message where a store and another access of a tensor reach one element
 * from different positions of an `each` index.
 * Method: a witness.  Every extent is the same number, one for which the positions are not too many and the kernel's conditions hold; for each position
 * that its conditions let pass an access is followed to the element.  Subscripts or conditions that are not made of positions and extents alone, as those
 * that are loaded, have no element here, and of them nothing is said.  Subscripts that both accesses have alike, along axes that the others do not have,
 * are left out: they meet where these axes have equal positions. */
#include <stdlib.h>
#include "elab.h"

/* Of a phase in all, however many accesses it has: values looked at, and what a pair of accesses counts beside. */
enum { STEPS = 1 << 23, PAIR_STEPS = 64 };
enum { POSITIONS = 1 << 14, LEAST = 64, LARGEST = 1 << 14, CONSTANTS_DEEP = 6 };

struct reached { int64_t element, workgroup; };

struct witness {
	struct elab *E;
	const struct elab_access *store, *other;
	bool told[MODEL_MAX_RANK];            /* dimensions whose subscripts are looked at */
	ir_axes axes;                         /* whose positions are gone through */
	int64_t extent;                       /* that every symbol has */
	int64_t size[LAYOUT_AXES], at[LAYOUT_AXES];
	int64_t *steps;                       /* that are left */
};

/* --- values at a position: false where it is not known */

static bool value_at(struct witness *w, const struct ir_ins *i, int64_t *value)
{
	int64_t v[3] = {0};
	if (--*w->steps < 0 || i->nargs > 3 || (i->dtype != DT_I32 && i->dtype != DT_I1))
		return false;
	for (int a = 0; a < i->nargs; a++)
		if (i->op >= IR_CVT || !value_at(w, i->args[a], &v[a]))
			return false;
	bool divides = v[1] != 0;
	switch (i->op) {
	case IR_CONST: *value = i->imm; break;
	case IR_SYM: *value = w->extent; break;
	case IR_IOTA: *value = w->at[i->imm]; return w->axes & IR_AXIS(i->imm);
	case IR_LIMIT: *value = w->size[i->imm]; return w->axes & IR_AXIS(i->imm);
	case IR_NEG: *value = -v[0]; break;
	case IR_NOT: *value = !v[0]; return i->dtype == DT_I1;
	case IR_ADD: *value = v[0] + v[1]; break;
	case IR_SUB: *value = v[0] - v[1]; break;
	case IR_MUL: *value = v[0] * v[1]; break;
	case IR_DIV: *value = divides ? v[0] / v[1] : 0; break;
	case IR_REM: *value = divides ? v[0] % v[1] : 0; break;
	case IR_MIN: *value = v[0] < v[1] ? v[0] : v[1]; break;
	case IR_MAX: *value = v[0] > v[1] ? v[0] : v[1]; break;
	case IR_AND: *value = v[0] & v[1]; break;
	case IR_OR: *value = v[0] | v[1]; break;
	case IR_LT: *value = v[0] < v[1]; break;
	case IR_LE: *value = v[0] <= v[1]; break;
	case IR_EQ: *value = v[0] == v[1]; break;
	case IR_NE: *value = v[0] != v[1]; break;
	case IR_SELECT: *value = v[0] ? v[1] : v[2]; break;
	default: return false;
	}
	return *value >= INT32_MIN && *value <= INT32_MAX;
}

/* Whatever a condition asks of a tensor is so. */
static int64_t fact_is_so(void *unused, enum hexpr_op op, int64_t imm)
{
	(void)unused, (void)op, (void)imm;
	return 1;
}

static bool extent_at(const struct witness *w, const struct hexpr *e, int64_t *value)
{
	int64_t symbols[MODEL_MAX_SYMBOL];
	const char *why;
	for (int s = 0; s < MODEL_MAX_SYMBOL; s++)
		symbols[s] = w->extent;
	return hexpr_eval(e, &(struct hexpr_env){symbols, w->E->k->nsymbols, fact_is_so, NULL}, value, &why) == 0;
}

/* The element that the access reaches from where the positions are now; false where it reaches none, or none that is known. */
static bool element_at(struct witness *w, const struct elab_access *a, int64_t *element)
{
	const struct ir_param *t = &w->E->k->params[a->tensor];
	*element = 0;
	for (int c = 0; c < a->nconds; c++) {
		int64_t holds;
		if (a->conds[c]->axes & w->axes && !(value_at(w, a->conds[c], &holds) && holds))
			return false;
	}
	for (int d = 0; d < t->rank; d++) {
		int64_t at, extent;
		if (!w->told[d])
			continue;
		if (!value_at(w, a->subs[d], &at) || !extent_at(w, t->extent[d], &extent) || at < 0 || at >= extent)
			return false;
		*element = *element * extent + at;
	}
	return true;
}

/* --- positions */

/* The number of the axes' positions where symbols have this extent; 0 = they are too many, or an axis has no such number. */
static int64_t count_positions(struct witness *w, int64_t extent)
{
	int64_t n = 1;
	w->extent = extent;
	for (int a = 0; a < w->E->ph->naxes; a++) {
		const struct ir_axis *ax = &w->E->ph->axes[a];
		const struct hexpr *most = ax->ragged ? ax->ragged_total : ax->extent;
		if (!(w->axes & IR_AXIS(a)))
			continue;
		if (!most || !extent_at(w, most, &w->size[a]) || w->size[a] < 1 || w->size[a] > POSITIONS)
			return 0;
		for (int r = 0; r < w->E->ph->naxes; r++)      /* all rows in one group are rows enough */
			if (w->E->ph->axes[r].ragged && w->E->ph->axes[r].ragged_group == a)
				w->size[a] = 1;
		n *= w->size[a];
		if (n > POSITIONS)
			return 0;
	}
	return n;
}

static bool call_is_possible(const struct witness *w)
{
	const struct model_kernel *m = w->E->model;
	int64_t holds;
	for (int i = 0; i < m->nrequires; i++)
		if (!extent_at(w, m->requires[i].expr, &holds) || !holds)
			return false;
	return true;
}

static int64_t largest_constant(const struct ir_ins *i, int depth)
{
	int64_t most = i->op == IR_CONST && i->imm > -LARGEST && i->imm < LARGEST ? llabs(i->imm) : 0;
	for (int a = 0; a < i->nargs && depth < CONSTANTS_DEEP; a++) {
		int64_t in = largest_constant(i->args[a], depth + 1);
		most = in > most ? in : most;
	}
	return most;
}

/* Whether calls have this extent and the positions are not too many, whose number is *n. */
static bool can_look_at(struct witness *w, int64_t extent, int64_t *n)
{
	*n = count_positions(w, extent);
	return *n && call_is_possible(w);
}

/* Extents and positions to look at; 0 = there are none.  A few times the numbers of the subscripts, or what is next to that: powers of two and three times
 * these, since conditions ask for multiples of such. */
static int64_t choose_positions(struct witness *w)
{
	int64_t n = 0, most = 0, first = LEAST;
	for (int d = 0; d < w->E->k->params[w->store->tensor].rank; d++) {
		int64_t a = largest_constant(w->store->subs[d], 0), b = largest_constant(w->other->subs[d], 0);
		most = a > most ? a : most;
		most = b > most ? b : most;
	}
	while (first < 4 * most && first < LARGEST)
		first *= 2;
	for (int64_t e = first; e <= LARGEST; e = e & (e - 1) ? e / 3 * 4 : e / 2 * 3)
		if (can_look_at(w, e, &n))
			return n;
	for (int64_t e = first; e > 1; e = e & (e - 1) ? e / 3 * 2 : e / 4 * 3)
		if (can_look_at(w, e, &n))
			return n;
	return 0;
}

/* Puts the axes at position `number` of all; gives the number of the workgroup, were every tile one position. */
static int64_t go_to(struct witness *w, int64_t number)
{
	int64_t workgroup = 0;
	for (int a = 0; a < w->E->ph->naxes; a++) {
		if (!(w->axes & IR_AXIS(a)))
			continue;
		w->at[a] = number % w->size[a];
		number /= w->size[a];
		if (w->E->ph->axes[a].kind == AXIS_GRID)
			workgroup = workgroup * w->size[a] + w->at[a];
	}
	return workgroup;
}

static int by_element(const void *a, const void *b)
{
	const struct reached *x = a, *y = b;
	int64_t d = x->element != y->element ? x->element - y->element : x->workgroup - y->workgroup;
	return (d > 0) - (d < 0);
}

/* Of what is reached, in order, the first of the element, or where it would be. */
static int64_t find_element(const struct reached *all, int64_t n, int64_t element)
{
	int64_t lo = 0, hi = n;
	while (lo < hi) {
		int64_t mid = (lo + hi) / 2;
		if (all[mid].element < element)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* A workgroup that stores the element and is not this one; -1 = there is none. */
static int64_t other_workgroup(const struct reached *all, int64_t n, struct reached r)
{
	for (int64_t i = find_element(all, n, r.element); i < n && all[i].element == r.element; i++)
		if (all[i].workgroup != r.workgroup)
			return all[i].workgroup;
	return -1;
}

/* The axis along which two workgroups differ, by their numbers, and the position that each of them has on it. */
struct crossing { int axis; int64_t stores, accesses; };

static struct crossing crossing_of(const struct witness *w, int64_t stores, int64_t accesses)
{
	struct crossing c = {-1, 0, 0};
	for (int a = w->E->ph->naxes - 1; a >= 0; a--) {
		if (!(w->axes & IR_AXIS(a)) || w->E->ph->axes[a].kind != AXIS_GRID)
			continue;
		if (stores % w->size[a] != accesses % w->size[a])
			c = (struct crossing){a, stores % w->size[a], accesses % w->size[a]};
		stores /= w->size[a];
		accesses /= w->size[a];
	}
	return c;
}

static struct crossing look(struct witness *w, int64_t n, struct reached *all)
{
	int64_t stored = 0;
	for (int64_t p = 0; p < n; p++) {
		all[stored].workgroup = go_to(w, p);
		stored += element_at(w, w->store, &all[stored].element);
	}
	qsort(all, (size_t)stored, sizeof *all, by_element);
	for (int64_t p = 0; p < n && stored; p++) {
		struct reached r = {0, go_to(w, p)};
		int64_t stores = element_at(w, w->other, &r.element) ? other_workgroup(all, stored, r) : -1;
		if (stores >= 0)
			return crossing_of(w, stores, r.workgroup);
	}
	return (struct crossing){-1, 0, 0};
}

/* --- accesses */

static ir_axes axes_of_conditions(const struct elab_access *a, ir_axes axes)
{
	ir_axes all = axes;
	for (int c = 0; c < a->nconds; c++)
		all |= a->conds[c]->axes & axes ? a->conds[c]->axes : 0;
	return all;
}

/* Which subscripts and axes matter: those that differ, and what shares an axis with them.  False where none differ. */
static bool choose_axes(struct witness *w)
{
	ir_axes before;
	int rank = w->E->k->params[w->store->tensor].rank;
	bool differ = false;
	for (int d = 0; d < rank; d++) {
		const struct ir_ins *a = w->store->subs[d], *b = w->other->subs[d];
		struct lin x = lin_of(a), y = lin_of(b), between = lin_add(x, -1, &y);
		w->told[d] = !ins_same(a, b) && (between.bad || between.n || between.c);
		differ = differ || w->told[d];
	}
	do {
		before = w->axes;
		for (int d = 0; d < rank; d++) {
			ir_axes axes = w->store->subs[d]->axes | w->other->subs[d]->axes;
			w->told[d] = w->told[d] || axes & w->axes;
			w->axes |= w->told[d] ? axes : 0;
		}
		w->axes = axes_of_conditions(w->store, w->axes) | axes_of_conditions(w->other, w->axes);
	} while (w->axes != before);
	return differ;
}

static void look_at_pair(struct elab *E, const struct elab_access *store, const struct elab_access *other, int64_t *steps)
{
	struct witness w = {.E = E, .store = store, .other = other, .steps = steps};
	*steps -= PAIR_STEPS;
	int64_t n = choose_axes(&w) ? choose_positions(&w) : 0;
	struct reached *all = n ? malloc((size_t)n * sizeof *all + sizeof *all) : NULL;
	if (!n)
		return;
	if (!all)
		abort();
	struct crossing c = look(&w, n, all);
	free(all);
	if (c.axis < 0)
		return;
	const char *tensor = E->k->params[store->tensor].name, *axis = elab_axis_name(E, IR_AXIS(c.axis));
	struct frame *frame = E->frame;
	E->frame = other->frame;
	ELAB_ERROR(E, E_CROSSES, other->at, tensor, axis);
	E->frame = frame;
	diag_note(E->d, store->at, "stored here: with extents of %lld, at number %lld of %s what number %lld accesses", (long long)w.extent, (long long)c.stores,
	          axis, (long long)c.accesses);
}

/* The chain of calls that lasts as long as the kernel does. */
static struct frame *frames_kept(struct elab *E, const struct frame *f)
{
	struct frame *kept = f ? arena_copy(E->ar, f, sizeof *f) : NULL;
	if (kept)
		kept->up = frames_kept(E, f->up);
	return kept;
}

void cross_note(struct elab *E, int tensor, struct ir_ins *const *subs, bool stores, struct diag_span at)
{
	struct elab_access a = {.tensor = tensor, .stores = stores, .at = at, .nconds = E->nguards};
	if (E->k->params[tensor].role == IR_IN)
		return;
	a.frame = frames_kept(E, E->frame);
	a.subs = arena_copy(E->ar, subs, (size_t)E->k->params[tensor].rank * sizeof *subs);
	a.conds = arena_alloc(E->ar, (size_t)E->nguards * sizeof *a.conds + 1);
	for (int g = 0; g < E->nguards; g++)
		a.conds[g] = E->guards[g].cond;
	ARENA_PUSH(E->ar, &E->accesses, a);
}

void cross_look(struct elab *E)
{
	int64_t steps = STEPS;
	for (int s = 0; s < E->accesses.n; s++)
		for (int o = 0; o < E->accesses.n && E->accesses.items[s].stores && steps > 0; o++) {
			const struct elab_access *store = &E->accesses.items[s], *other = &E->accesses.items[o];
			if (o != s && other->tensor == store->tensor && !(other->stores && o < s))
				look_at_pair(E, store, other, &steps);
		}
	E->accesses.n = 0;
}
