/* pass_guard.c
 * Problem: `each m in M where m < tokens[e]` masks every access of a row.  A workgroup whose one row is not there computes all the
 *          same, and one whose row is there asks at every access.
 * Method:  a condition on what a tensor holds that is one for the workgroup and part of the mask of everything that a phase stores is
 *          asked once: what it is not made of moves into an `if`, in which it is true.  Phases with products keep their order
 *          (pass_loads.c).  Variants for few rows (targets.c: few_rows) keep their masks: behind the
 *          branch nothing is computed while the condition is on its way, and little is saved (docs/performance.md).
 * Needs:   tiles.   Keeps: values exactly. */
#include "pass.h"

enum { MOST = 8 };

struct guard {
	struct pass *p;
	const struct ir_phase *ph;
	struct ir_ins *part[MOST]; int nparts;      /* conditions that every effect so far asks */
	bool any;                                   /* there was an effect */
	bool *made;                                 /* by id: the conditions and what they are made of */
};

/* Whether mask is a conjunction that holds c. */
static bool asks(const struct ir_ins *mask, const struct ir_ins *c)
{
	return mask == c || (mask->op == IR_AND && mask->dtype == DT_I1 && (asks(mask->args[0], c) || asks(mask->args[1], c)));
}

static bool holds_load(const struct ir_ins *i)
{
	bool load = i->op == IR_LOAD;
	for (int a = 0; a < i->nargs; a++)
		load = load || holds_load(i->args[a]);
	return load;
}

static void collect(struct guard *g, struct ir_ins *mask)
{
	if (mask->op == IR_AND && mask->dtype == DT_I1) {
		collect(g, mask->args[0]);
		collect(g, mask->args[1]);
	} else if (!axes_of_several(g->ph, mask->axes) && mask->block == g->ph->body && g->nparts < MOST && holds_load(mask)) {
		g->part[g->nparts++] = mask;
	}
}

static void look_at_effect(struct ir_ins *i, void *ctx)
{
	struct guard *g = ctx;
	if (i->op != IR_STORE && i->op != IR_UPDATE)
		return;
	struct ir_ins *mask = i->flags & IR_MASKED ? i->args[i->nargs - 1] : NULL;
	if (!g->any && mask)
		collect(g, mask);
	int kept = 0;
	for (int c = 0; c < g->nparts; c++)
		if (mask && asks(mask, g->part[c]))
			g->part[kept++] = g->part[c];
	g->nparts = kept;
	g->any = true;
}

static struct guard guard_of(struct pass *p, const struct ir_phase *ph)
{
	struct guard g = {.p = p, .ph = ph};
	if (!ir_has(ph->body, IR_DOT))
		ir_walk(ph->body, look_at_effect, &g);
	return g;
}

bool phase_is_guarded(const struct ir_phase *ph)
{
	return guard_of(NULL, ph).nparts;
}

/* False where it is made of what may change while the phase runs. */
static bool note_made(struct guard *g, const struct ir_ins *i)
{
	bool fixed = ir_is_pure(i) && !(i->op == IR_LOAD && g->p->k->params[i->imm].role != IR_IN);
	g->made[i->id] = true;
	for (int a = 0; fixed && a < i->nargs; a++)
		fixed = g->made[i->args[a]->id] || note_made(g, i->args[a]);
	return fixed;
}

static struct ir_ins *conjunction(struct guard *g, struct ir_builder *b)
{
	struct ir_ins *all = g->part[0];
	for (int c = 1; c < g->nparts; c++)
		if (g->part[c] != all)
			all = ir_bin(b, IR_AND, all, g->part[c]);
	return all->axes ? ir_reduce(b, RED_ANY, all, all->axes, NULL) : all;
}

/* In the block the conditions hold. */
static void assume(struct guard *g, struct ir_phase *ph, struct ir_block *b)
{
	struct ir_builder at = {g->p->k, ph, b, b->first, b->first->line, b->first->col};
	struct ir_ins *holds = ir_int(&at, DT_I1, 1);
	for (struct ir_ins *i = holds->next; i; i = i->next) {
		for (int a = 0; a < i->nargs; a++)
			for (int c = 0; c < g->nparts; c++)
				i->args[a] = i->args[a] == g->part[c] ? holds : i->args[a];
		if (i->body)
			assume(g, ph, i->body);
		if (i->other)
			assume(g, ph, i->other);
	}
}

static bool wrap(struct guard *g, struct ir_phase *ph)
{
	struct ir_block *body = ph->body;
	struct ir_builder at = pass_before(g->p, ph, body->last);
	for (int c = 0; c < g->nparts; c++)
		if (!note_made(g, g->part[c]))
			return false;
	struct ir_ins *last = body->last->prev, *guard = ir_if(&at, conjunction(g, &at));
	for (struct ir_ins *i = body->first, *next, *end = last->next; i != end; i = next) {
		next = i->next;
		if (g->made[i->id])
			continue;
		ir_remove(i);
		ir_append(guard->body, i);
	}
	for (int s = 0; s < 2; s++) {
		struct ir_builder in = {g->p->k, ph, s ? guard->other : guard->body, NULL, ph->line, 0};
		ir_yield(&in, NULL, 0);
	}
	assume(g, ph, guard->body);
	return true;
}

int pass_guard(struct pass *p)
{
	bool wrapped = false;
	if (p->v->few)
		return 0;
	FOR_PHASES(p, ph) {
		struct guard g = guard_of(p, ph);
		g.made = arena_alloc(p->k->arena, sizeof *g.made * (size_t)(p->k->next_id + 1));
		wrapped |= g.nparts && wrap(&g, ph);
	}
	return wrapped ? pass_simplify(p) : 0;
}
