/* plan_sets.c -- which variants an instance gets on a target.
 *
 * In: an elaborated kernel, its schedule, the sizes and sets of its pack lines.  Out: variants, most specific first; the last one makes no assumption
 * on sizes, strides, alignment or presence.
 *
 * Optional tensors: the sets that the pack lines name, or else the empty one, each get variants of their own, planned (plan.c) on the IR without
 * what is absent; then follow fewer that ask at run time. */
#include "pass.h"
#include "plan_tiles.h"

#include <stdio.h>
#include <string.h>

/* Plans for the tensors that `p` says are there and are not: on the IR without the others. */
static int plan_set(struct planner *p, const struct ir_kernel *k, char *err, size_t errlen)
{
	struct variant of = {.target = p->target, .given = p->given, .absent = p->absent};
	struct pass specialise = {ir_clone(p->arena, k), &of, err, errlen};
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
	const struct hexpr *there = NULL;
	const char *names = "";
	for (int i = 0; i < k->nparams; i++) {
		const struct hexpr *leaf = hexpr_leaf(p->arena, HX_PRESENT, i);
		if (p->given >> i & 1)
			names = arena_printf(p->arena, "%s%s%s", names, *names ? " " : "", k->params[i].name);
		if ((p->given | p->absent) >> i & 1)
			there = plan_both(p, there, p->given >> i & 1 ? leaf : hexpr_op(p->arena, HX_NOT, leaf, NULL));
	}
	for (int i = first; i < p->out.n; i++) {
		struct variant *v = &p->out.items[i];
		v->predicate = plan_both(p, there, v->predicate);
		plan_say(p, v, *names ? arena_printf(p->arena, "with %s", names) : "bare");
	}
	return 0;
}

static int plan_sets(struct planner *p, const struct ir_kernel *k, char *err, size_t errlen)
{
	static const struct dsl_set nothing;
	const struct planner all = *p;
	int n = p->special->nsets ? p->special->nsets : 1;
	const struct dsl_set *sets = p->special->nsets ? p->special->sets : &nothing;
	uint64_t optional = 0;
	for (int i = 0; i < k->nparams && i < 64; i++)
		optional |= (uint64_t)k->params[i].optional << i;
	for (int s = 0; optional && s < n; s++) {
		p->given = 0;
		for (int i = 0; i < k->nparams && i < 64; i++)
			for (int g = 0; g < sets[s].n; g++)
				p->given |= (uint64_t)(strcmp(k->params[i].name, sets[s].names[g]) == 0) << i;
		p->absent = optional & ~p->given;
		p->pins = sets[s].pins;
		p->npins = sets[s].npins;
		p->sets = true;
		if (plan_set(p, k, err, errlen))
			return -1;
	}
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
