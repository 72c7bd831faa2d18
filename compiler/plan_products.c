/* plan_products.c -- the variants of kernels with dots.
 * In: an elaborated kernel, its schedule and pinned sizes.  Out: variants: the schedule's tiles for aligned tensors, for each pinned size, then
 * without alignment; held axes (head dimensions) by classes, with the less rows the more they hold of each. */
#include "pass.h"
#include "plan_variant.h"
#include "target/mfma.h"

#include <string.h>

enum { FEW_THREADS = 256, NARROW = 32 };

static const struct dsl_schedule *schedule_for(const struct planner *p)
{
	for (int i = 0; i < p->text->nschedules; i++)
		if (strcmp(p->text->schedules[i].target, p->target->name) == 0)
			return &p->text->schedules[i];
	for (int i = 0; i < p->text->nschedules; i++)
		if (!p->text->schedules[i].target[0])
			return &p->text->schedules[i];
	return NULL;
}

static bool has_held(const struct planner *p)
{
	for (int s = 0; s < p->k->nsymbols && s < MODEL_MAX_SYMBOL; s++)
		if (p->f.held[s])
			return true;
	return false;
}

static void hold(struct planner *p, struct variant *v, int64_t most)
{
	for (int i = 0; i < p->k->nphases; i++)
		for (int a = 0; a < p->k->phases[i].naxes; a++)
			if (phase_is_open(v, &p->k->phases[i].axes[a]))
				plan_tile(v, i, p->k->phases[i].axes[a].name, (int)most);
}

struct contracted { const struct target *target; int most; };

static void look_at_dot(struct ir_ins *i, void *ctx)
{
	struct contracted *c = ctx;
	const struct mfma *m = i->op == IR_DOT ? target_mfma(c->target, i->args[0]->dtype, i->args[1]->dtype) : NULL;
	c->most = m && m->k > c->most ? m->k : c->most;
}

/* What the matrix instructions of all products contract at a time, at most. */
static int most_contracted(const struct planner *p)
{
	struct contracted c = {p->target, 1};
	for (int i = 0; i < p->k->nphases; i++)
		ir_walk(p->k->phases[i].body, look_at_dot, &c);
	return c.most;
}

/* shrink: divide grid tiles and waves, for variants that hold more registers a row */
static void matrix_tiles(struct planner *p, struct variant *v, int shrink)
{
	const struct dsl_schedule *s = schedule_for(p);
	v->waves = waves_of(p, FEW_THREADS);
	v->scheduled = s && v->aligned;
	for (int i = 0; s && i < s->nknobs; i++) {
		if (!s->knobs[i].has_value)
			continue;
		if (strcmp(s->knobs[i].name, "waves") == 0)
			v->waves = s->knobs[i].value;
	}
	int least = most_contracted(p), most = variant_in_runs(v) ? 128 : 64;    /* of a side of tiles that are not aligned: each run, or element, has its own mask */
	if (!v->aligned && !variant_in_runs(v))      /* long rows element by element: more lanes, fewer elements each */
		v->waves = waves_of(p, shrink > 1 ? 2 * FEW_THREADS : FEW_THREADS);
	for (int i = 0; i < p->k->nphases; i++)
		for (int a = 0; a < p->k->phases[i].naxes; a++) {
			const struct ir_axis *ax = &p->k->phases[i].axes[a];
			int tile = ax->kind == AXIS_GRID ? 128 : 64;
			if (!ax->tiled)
				continue;
			for (int n = 0; s && n < s->nknobs; n++)
				if (s->knobs[n].has_value && strcmp(s->knobs[n].name, ax->name) == 0)
					tile = s->knobs[n].value;
			int fits = ax->kind == AXIS_GRID ? most : NARROW;
			if (!v->aligned && tile > fits)
				tile = fits;
			tile /= shrink;
			if (ax->kind == AXIS_LOOP && tile < least)
				tile = least;
			plan_tile(v, i, ax->name, tile);
		}
}

void plan_products(struct planner *p)
{
	static const int classes[] = {64, 128, 256, 512};
	bool held = has_held(p);
	for (int i = 0; i < p->special->npins; i++) {
		int s = plan_symbol(p, p->special->pins[i].symbol);
		if (s < 0 || (p->f.multiple[s] && p->special->pins[i].value % p->f.multiple[s]))
			continue;
		struct variant *v = plan_add(p);
		plan_pin_symbol(p, v, s, p->special->pins[i].value);
		plan_aligned(p, v);
		matrix_tiles(p, v, p->f.held[s] && p->special->pins[i].value > 256 ? 4 : p->f.held[s] && p->special->pins[i].value > 128 ? 2 : 1);
	}
	for (int a = 1; a >= 0; a--)
		for (unsigned c = 0; c < (held ? sizeof classes / sizeof *classes : 1); c++) {
			if (held && !a && classes[c] > 256)      /* its masks and offsets do not fit the registers */
				continue;
			struct variant *v = plan_add(p);
			for (int s = 0; held && s < p->k->nsymbols && s < MODEL_MAX_SYMBOL; s++)
				if (p->f.held[s])
					plan_limit(p, v, s, classes[c]);
			if (a)
				plan_aligned(p, v);
			else
				v->single = held;                /* rows so short that most runs of a wave stand beside one that is not whole */
			matrix_tiles(p, v, held && classes[c] > 256 ? 4 : held && classes[c] > 128 ? 2 : 1);
			if (held)
				hold(p, v, classes[c]);
			if (!v->text[0])
				v->text = "any";
		}
}
