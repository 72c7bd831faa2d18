/* pass_seen.c
 * Problem: a running softmax asks three times of each element whether it is seen: for the maximum, for the sum, and as an operand of the next
 *          product; masks of three places at once are more than scalar registers hold, and each is compared anew.
 * Method:  the scores themselves are -infinity where they are not seen, once.  The running maximum, which begins with a finite number, is one
 *          or +infinity for good, so that such a term is exp(-infinity) = +0 by itself: sums and products need no mask.  Scores and terms that
 *          anything else uses keep their masks.  Of most tiles all is seen: where the last position and the first one say so, by masks that
 *          compare what grows with positions, a workgroup asks no element.
 * Needs:   simplified IR: equal masks are one.   Keeps: values exactly. */
#include "pass.h"

#include <math.h>

struct seen {
	struct ir_phase *ph;
	struct ir_ins *top, *score, *mask, *running;       /* running = max(what the loop carries, top); top: that of the scores seen */
	struct ir_ins *less[MOST_USERS]; int nless;        /* score - running */
	struct ir_ins *sum[MOST_USERS]; int nsums;         /* of terms seen */
	struct ir_ins *select[MOST_USERS]; int nselects;   /* terms where seen, 0 elsewhere */
};

/* max(carried, top), which the loop yields in carried's place, and carried begins with a number. */
static bool is_running(const struct ir_ins *i, const struct ir_ins *top)
{
	const struct ir_block *b = i->block;
	double first;
	if (i->op != IR_MAX || b != top->block || !b->owner || b->owner->op != IR_FOR)
		return false;
	const struct ir_ins *carried = i->args[i->args[0] == top];
	for (int p = 0; p < b->nparams; p++)
		if (b->params[p] == carried)
			return b->last->args[p] == i && ir_is_const(b->owner->args[2 + p], &first) && isfinite(first);
	return false;
}

/* Every use of a term, or of a term narrowed, is one of what is seen. */
static bool collect_uses(struct seen *s, const struct ir_ins *term)
{
	struct users u = pass_users(s->ph, term);
	bool ok = u.n <= MOST_USERS;
	for (int n = 0; ok && n < u.n; n++) {
		struct ir_ins *i = u.user[n];
		double other;
		if (i->op == IR_REDUCE && i->kind == RED_SUM && i->nargs == 2 && i->args[0] == term && i->args[1] == s->mask && (i->flags & IR_MASKED))
			ok = pass_note(s->sum, &s->nsums, i);
		else if (i->op == IR_SELECT && i->args[0] == s->mask && i->args[1] == term)
			ok = ir_is_const(i->args[2], &other) && other == 0 && !signbit(other) && pass_note(s->select, &s->nselects, i);
		else
			ok = i->op == IR_CVT && dtype_is_float((enum dtype)i->dtype) && i->dtype != DT_E8M0 && collect_uses(s, i);      /* which has no 0 */
	}
	return ok;
}

/* Every use of the scores is in their maximum or in exp(score - running). */
static bool collect(struct seen *s)
{
	struct users u = pass_users(s->ph, s->score);
	bool ok = u.n <= MOST_USERS;
	for (int n = 0; ok && n < u.n; n++) {
		struct ir_ins *i = u.user[n];
		if (i == s->top)
			continue;
		ok = i->op == IR_SUB && i->args[0] == s->score && i->args[1] == s->running && pass_note(s->less, &s->nless, i);
		struct users terms = pass_users(s->ph, i);
		ok = ok && terms.n <= MOST_USERS;
		for (int t = 0; ok && t < terms.n; t++)
			ok = terms.user[t]->op == IR_EXP && collect_uses(s, terms.user[t]);
	}
	return ok && s->nless;
}

static void unmask(struct ir_ins *reduce)
{
	reduce->flags &= (uint8_t)~IR_MASKED;
	reduce->nargs--;
}

/* i1: all of the workgroup's tile is seen; NULL = not known. */
static struct ir_ins *all_seen(struct ir_phase *ph, struct ir_builder *b, struct ir_ins *mask)
{
	struct ir_ins *x = NULL, *y = NULL;
	if (mask->op == IR_AND && mask->dtype == DT_I1) {
		x = all_seen(ph, b, mask->args[0]);
		y = x ? all_seen(ph, b, mask->args[1]) : NULL;
		return y ? ir_bin(b, IR_AND, x, y) : NULL;
	}
	if ((mask->op == IR_LT || mask->op == IR_LE) && mask->args[0]->dtype == DT_I32) {
		x = tile_extreme(ph, b, mask->args[0], RED_MAX);
		y = x ? tile_extreme(ph, b, mask->args[1], RED_MIN) : NULL;
	}
	return y ? ir_bin(b, mask->op, x, y) : NULL;
}

/* The scores where they are seen, -infinity elsewhere. */
static struct ir_ins *seen_scores(struct pass *p, const struct seen *s)
{
	struct ir_builder b = pass_before(p, s->ph, s->top);
	struct ir_ins *all = all_seen(s->ph, &b, s->mask), *nothing = ir_float(&b, DT_F32, -INFINITY);
	if (!all)
		return ir_select(&b, s->mask, s->score, nothing);
	if (all->axes)
		all = ir_reduce(&b, RED_ANY, all, all->axes, NULL);
	struct ir_ins *choice = ir_if(&b, all);
	struct ir_builder whole = {p->k, s->ph, choice->body, NULL, b.line, b.col}, part = {p->k, s->ph, choice->other, NULL, b.line, b.col};
	struct ir_ins *masked = ir_select(&part, s->mask, s->score, nothing);
	ir_yield(&whole, (struct ir_ins *[]){s->score}, 1);
	ir_yield(&part, &masked, 1);
	return ir_result(&b, choice, 0);
}

static void see_once(struct pass *p, struct seen *s)
{
	struct ir_ins *seen = seen_scores(p, s);
	s->top->args[0] = seen;
	unmask(s->top);
	for (int i = 0; i < s->nless; i++)
		s->less[i]->args[0] = seen;
	for (int i = 0; i < s->nsums; i++)
		unmask(s->sum[i]);
	for (int i = 0; i < s->nselects; i++)
		ir_replace(p->k, s->select[i], s->select[i]->args[1]);
}

struct look { struct pass *p; struct ir_phase *ph; };

static void look_at(struct ir_ins *i, void *ctx)
{
	const struct look *l = ctx;
	if (i->op != IR_REDUCE || i->kind != RED_MAX || i->dtype != DT_F32 || i->nargs != 2 || !(i->flags & IR_MASKED))
		return;
	struct users u = pass_users(l->ph, i);
	if (u.n != 1 || !is_running(u.user[0], i))
		return;
	struct seen s = {.ph = l->ph, .top = i, .score = i->args[0], .mask = i->args[1], .running = u.user[0]};
	if (collect(&s))
		see_once(l->p, &s);
}

int pass_seen(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct look l = {p, ph};
		ir_walk(ph->body, look_at, &l);
	}
	return 0;
}
