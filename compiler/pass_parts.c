/* pass_parts.c
 * Problem: one number is raised to the largest of each row, or of each group of a row, as amax is: an atomic update of one place for each of them,
 *          which memory makes one after the other, a few a clock, however many workgroups ask.
 * Method:  a wave that holds several of them updates once, by the largest of those that it holds (IR_PART); waves do not wait for each other.  Where
 *          the tensor may be absent this is asked first.  And what does not raise the number that a workgroup finds when it begins is not sent: the
 *          number only grows, and after a few workgroups nearly nothing raises it.
 * Needs:   tiles.   Keeps: values exactly: the largest of parts is the largest, whatever their order. */
#include "layout_choose.h"
#include "pass.h"

struct parts { struct pass *p; struct ir_phase *ph; };

/* A body for what is done where the tensor is there. */
static struct ir_builder where_given(struct pass *p, struct ir_phase *ph, struct ir_ins *at)
{
	struct ir_builder b = pass_before(p, ph, at);
	struct ir_ins *given = ir_if(&b, ir_leaf(&b, IR_HAS, DT_I1, at->imm));
	struct ir_builder other = {p->k, ph, given->other, NULL, at->line, at->col}, body = {p->k, ph, given->body, NULL, at->line, at->col};
	ir_yield(&other, NULL, 0);
	body.before = ir_yield(&body, NULL, 0);
	return body;
}

/* The number as it is where the block begins, with what is loaded there: in front of the reduction that makes the value light kernels would wait for it.
 * NULL = its place is not known there, or it is none that is loaded at once. */
static struct ir_ins *seen_first(struct parts *s, const struct ir_ins *update)
{
	const struct ir_param *t = &s->p->k->params[update->imm];
	struct ir_ins *subs[LAYOUT_AXES];
	if (t->role != IR_INOUT || t->list || dtype_info(t->dtype)->bits != 32)
		return NULL;
	struct ir_builder b = pass_before(s->p, s->ph, update->block->first);
	for (int a = 0; a < t->rank; a++) {
		if (update->args[a]->op != IR_CONST)
			return NULL;
		subs[a] = ir_int(&b, update->args[a]->dtype, update->args[a]->imm);
	}
	struct ir_ins *seen = ir_load(&b, (int)update->imm, subs, NULL);
	seen->flags |= IR_RELAXED;
	return seen;
}

/* Whether it is raised, or lowered; a NaN may be the number, and equal ones may be two zeros. */
static struct ir_ins *changes(struct ir_builder *b, const struct ir_ins *update, struct ir_ins *seen, struct ir_ins *value)
{
	struct ir_ins *less = update->kind == RED_MAX ? ir_bin(b, IR_LT, value, seen) : ir_bin(b, IR_LT, seen, value);
	return ir_bin(b, IR_EQ, less, ir_int(b, DT_I1, 0));
}

static void update_once(struct ir_ins *i, void *ctx)
{
	struct parts *s = ctx;
	const struct ir_param *t = &s->p->k->params[i->imm];
	if (i->op != IR_UPDATE || (i->kind != RED_MAX && i->kind != RED_MIN))
		return;
	struct ir_ins *value = i->args[t->rank], *mask = i->flags & IR_MASKED ? i->args[t->rank + 1] : NULL;
	ir_axes many = wide_axes(s->ph, value->axes), places = 0;
	for (int a = 0; a < t->rank; a++)
		places |= i->args[a]->axes;
	if (wide_axes(s->ph, places) || (mask && wide_axes(s->ph, mask->axes) & ~many))
		return;
	/* Not of parts that pass_fuse.c made, of which there are few, for every register there holds a row's; nor in variants of any shape, whose scalar
	 * registers are full: with one load more in front they spill, and are built again in other forms (variant_fit.c, docs/performance.md). */
	bool parted = value->op == IR_REDUCE && value->flags & IR_PART, any = !s->p->v->aligned && !s->p->v->single;
	struct ir_ins *seen = parted || any ? NULL : seen_first(s, i);
	if (!many && !seen)
		return;
	bool asked = many && variant_may_lack(s->p->v, s->p->k, i->imm);
	struct ir_builder b = asked ? where_given(s->p, s->ph, i) : pass_before(s->p, s->ph, i);
	if (many) {
		value = ir_reduce(&b, i->kind, value, many, mask);
		value->flags |= IR_PART;
		mask = NULL;
	}
	if (seen) {
		struct ir_ins *changed = changes(&b, i, seen, value);
		mask = mask ? ir_bin(&b, IR_AND, mask, changed) : changed;
	}
	ir_update(&b, i->kind, (int)i->imm, i->args, value, mask);
	ir_remove(i);
}

int pass_parts(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct parts s = {p, ph};
		ir_walk(ph->body, update_once, &s);
	}
	return 0;
}
