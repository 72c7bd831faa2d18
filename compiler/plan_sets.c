/* plan_sets.c -- which variants an instance gets on a target.
 *
 * In: an elaborated kernel, its schedule, the sizes and sets of its pack lines.  Out: variants, most specific first; the last one makes no assumption
 * on sizes, strides, alignment or presence.
 *
 * Optional tensors: the sets that the pack lines name, or else the empty one, each get variants of their own, planned (plan.c) on the IR without
 * what is absent, which ask at run time for what a set leaves open; then follow fewer that ask for all. */
#include "pass.h"
#include "plan_tiles.h"

#include <stdio.h>
#include <string.h>

/* A variant asks for those that it is planned for, and against the absent ones, before all else; its text ends with what may be there. */
static void say_set(struct planner *p, const struct ir_kernel *k, struct variant *v)
{
	const struct hexpr *there = NULL;
	const char *names = "";
	for (int i = 0; i < k->nparams && i < 64; i++) {
		const struct hexpr *leaf = hexpr_leaf(p->arena, HX_PRESENT, i);
		bool given = v->given >> i & 1, absent = v->absent >> i & 1;
		if (k->params[i].optional && !absent)
			names = arena_printf(p->arena, "%s%s%s%s", names, *names ? " " : "", k->params[i].name, given ? "" : "?");
		if (given || absent)
			there = plan_both(p, there, given ? leaf : hexpr_op(p->arena, HX_NOT, leaf, NULL));
	}
	v->predicate = plan_both(p, there, v->predicate);
	plan_say(p, v, *names ? arena_printf(p->arena, "with %s", names) : "bare");
}

/* Plans for the tensors that `p` says are there and are not: on the IR without the others. */
static int plan_set(struct planner *p, const struct ir_kernel *k, char *err, size_t errlen)
{
	struct variant of = {.target = p->target, .given = p->given, .absent = p->absent};
	struct pass specialise = {.k = ir_clone(p->arena, k), .v = &of, .err = err, .errlen = errlen};
	char why[400];
	if (pass_specialise(&specialise))
		return -1;
	p->rows = kernel_crosses(&specialise) ? ir_clone(p->arena, specialise.k) : NULL;
	if (pass_across(&specialise) || pass_ungroup(&specialise))
		return -1;
	if (ir_verify(specialise.k, why, sizeof why))   /* a reduction over an axis that only an absent tensor had */
		return 0;
	bool any = false;                               /* without outputs there is nothing to do: the others do it */
	FOR_PHASES(&specialise, ph)
		any |= ir_stores(ph->body);
	if (!any)
		return 0;
	p->k = specialise.k;
	int first = p->out.n;
	facts_look(&p->f, p->k);
	plan_rows(p);
	for (int i = first; i < p->out.n; i++)
		say_set(p, k, &p->out.items[i]);
	return 0;
}

static bool is_planned(const struct planner *p, uint64_t given, uint64_t absent)
{
	for (int v = 0; v < p->out.n; v++)
		if (p->out.items[v].given == given && p->out.items[v].absent == absent)
			return true;
	return false;
}

/* The set that a pack line names. */
static void take_set(struct planner *p, const struct ir_kernel *k, const struct dsl_set *set)
{
	p->given = 0;
	p->absent = ir_optional(k);
	for (int i = 0; i < k->nparams && i < 64; i++)
		for (int t = 0; t < set->n; t++)
			if (strcmp(k->params[i].name, set->tensors[t].name) == 0) {
				p->absent &= ~(UINT64_C(1) << i);
				p->given |= (uint64_t)!set->tensors[t].asked << i;
			}
	p->pins = set->pins;
	p->npins = set->npins;
}

/* Rows that are stored across are left to tiles where the transpose is known to be there (pass_across.c): without that they are stored an element at a
 * time, fifteen times as slowly.  So what no set names has variants for it too, which ask for all else. */
static int plan_across(struct planner *p, const struct ir_kernel *k, char *err, size_t errlen)
{
	struct variant with = {.target = p->target};
	const struct pass across = {.k = ir_clone(p->arena, k), .v = &with, .err = err, .errlen = errlen};
	for (int i = 0; i < k->nparams && i < 64; i++) {
		p->given = with.given = UINT64_C(1) << i;
		p->absent = 0;
		if (k->params[i].optional && !is_planned(p, p->given, 0) && kernel_crosses(&across) && plan_set(p, k, err, errlen))
			return -1;
	}
	return 0;
}

/* Of kernels all of whose outputs are optional, as those that scale by rows and by columns, some are asked for without the others: by variants that ask
 * for whatever else as well this takes 1.1 to 1.6 times as long (docs/performance.md).  So a set that names several matrices to be stored is planned with these
 * open too.  Where packs have room. */
static int plan_some(struct planner *p, const struct ir_kernel *k, const struct dsl_set *set, char *err, size_t errlen)
{
	uint64_t open = 0;
	take_set(p, k, set);
	for (int i = 0; i < k->nparams && i < 64; i++) {
		const struct ir_param *t = &k->params[i];
		if (t->role == IR_OUT && !t->optional)
			return 0;
		open |= t->role == IR_OUT && t->rank > 1 ? p->given & UINT64_C(1) << i : 0;
	}
	p->given &= ~open;
	return p->target->more_variants && open & (open - 1) && !is_planned(p, p->given, p->absent) ? plan_set(p, k, err, errlen) : 0;
}

/* Rows of one tensor, with whatever else: what asks for rows of a second one as well computes with them, there or not, and holds fewer of a row a lane.
 * Without the other matrices that are stored, too; where any of them may be left out, with all, and with the second tensor known to be there as well.  Where
 * packs have room. */
static int plan_lone_rows(struct planner *p, const struct ir_kernel *k, char *err, size_t errlen)
{
	uint64_t loaded = 0, stored = 0;
	bool stores = false;
	for (int i = 0; i < k->nparams && i < 64; i++) {
		const struct ir_param *t = &k->params[i];
		if (t->optional && t->rank > 1)
			*(t->role == IR_OUT ? &stored : &loaded) |= UINT64_C(1) << i;
		stores = stores || (t->role == IR_OUT && !t->optional && t->rank > 1);
	}
	p->given = 0;
	p->absent = loaded | (stores ? stored : 0);
	bool rows = stores ? k->nphases == 1 && p->absent : k->nphases == 2 && loaded;
	if (!p->target->more_variants || !rows || p->absent == ir_optional(k))
		return 0;
	if (plan_set(p, k, err, errlen))
		return -1;
	p->given = loaded;
	p->absent = 0;
	return stores ? 0 : plan_set(p, k, err, errlen);
}

/* Optional tensors that a kernel's phases behind the second store. */
struct stored { const struct ir_kernel *k; uint64_t tensors; };

static void look_for_stored(struct ir_ins *i, void *ctx)
{
	struct stored *s = ctx;
	if (i->op == IR_STORE && i->imm < 64 && s->k->params[i->imm].optional)
		s->tensors |= UINT64_C(1) << i->imm;
}

/* Rows and then their tiles are one launch where a cluster holds them, but not with sums of columns behind them: calls without these have such variants,
 * which ask for all else.  Longer rows gain nothing by it. */
static int plan_without_sums(struct planner *p, const struct ir_kernel *k, char *err, size_t errlen)
{
	struct stored sums = {k, 0};
	struct fused_axes axes;
	for (int i = 2; i < k->nphases; i++)
		ir_walk(k->phases[i].body, look_for_stored, &sums);
	if (!p->target->cluster || !sums.tensors)
		return 0;
	struct variant without = {.target = p->target, .absent = sums.tensors};
	struct pass specialise = {.k = ir_clone(p->arena, k), .v = &without, .err = err, .errlen = errlen};
	int first = p->out.n, n = first;
	p->given = 0;
	p->absent = sums.tensors;
	if (pass_specialise(&specialise) || (kernel_can_fuse(specialise.k, &axes) && plan_set(p, k, err, errlen)))
		return -1;
	for (int i = first; i < p->out.n; i++)
		if (p->out.items[i].cluster)
			p->out.items[n++] = p->out.items[i];
	p->out.n = n;
	return 0;
}

static int plan_sets(struct planner *p, const struct ir_kernel *k, char *err, size_t errlen)
{
	static const struct dsl_set nothing;
	const struct planner all = *p;
	int n = p->special->nsets ? p->special->nsets : 1;
	const struct dsl_set *sets = p->special->nsets ? p->special->sets : &nothing;
	p->sets = true;
	for (int s = 0; ir_optional(k) && s < n; s++) {
		take_set(p, k, &sets[s]);
		if (plan_set(p, k, err, errlen))
			return -1;
	}
	p->unnamed = p->brief = true;
	for (int s = 0; ir_optional(k) && s < n; s++)
		if (plan_some(p, k, &sets[s], err, errlen))
			return -1;
	p->brief = false;
	p->pins = NULL;
	p->npins = 0;
	if (plan_across(p, k, err, errlen))
		return -1;
	p->brief = true;
	if (plan_lone_rows(p, k, err, errlen) || plan_without_sums(p, k, err, errlen))
		return -1;
	p->unnamed = p->brief = false;
	p->sets = p->out.n > 0;                         /* of none of them there was anything to do: all outputs are optional */
	p->given = p->absent = 0;
	p->rows = NULL;
	p->pins = all.pins;
	p->npins = all.npins;
	p->k = k;
	return 0;
}

int plan_variants(struct arena *arena, const struct ir_kernel *k, const struct dsl_kernel *text, const struct dsl_special *special,
                  const struct target *target, struct variant **out, int *n, char *err, size_t errlen)
{
	static const struct dsl_special nothing;
	struct planner p = {.arena = arena, .k = k, .text = text, .special = special ? special : &nothing, .target = target};
	if (k->nsymbols > MODEL_MAX_SYMBOL) {
		snprintf(err, errlen, "%s has %d extent symbols, at most %d are supported", k->name, k->nsymbols, MODEL_MAX_SYMBOL);
		return -1;
	}
	struct dsl_set all = {0};
	for (int s = 0; s < p.special->nsets; s++)
		all = dsl_set_joined(arena, &all, &p.special->sets[s]);
	p.pins = all.pins;
	p.npins = all.npins;
	facts_look(&p.f, p.k);
	if (!p.f.has_dot && plan_sets(&p, k, err, errlen))
		return -1;
	facts_look(&p.f, p.k);
	if (p.f.has_dot)
		plan_products(&p);
	else
		plan_rows(&p);
	*out = p.out.items;
	*n = p.out.n;
	return 0;
}
