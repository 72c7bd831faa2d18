/* linear.c -- linear forms over index positions and symbols, and a small prover.
 *
 * In: i32 instructions, guards in scope.  Out: whether a form is never negative.  An access whose subscripts are proved in
 * bounds needs no mask of its own.  Method: a goal whose coefficients are not negative, over atoms that are not negative, holds;
 * otherwise an atom that spoils it is eliminated with a fact (guard, division, minimum) that mentions it with the same sign,
 * to a small depth.  A quotient x / d is bounded exactly: q <= A is x <= d*A + d - 1.  Index arithmetic is taken not to overflow. */
#include <stdlib.h>
#include "elab.h"

enum { DEPTH = 6, BUDGET = 400 };

static bool ins_pure(const struct ir_ins *a)
{
	return a->op <= IR_SELECT || a->op == IR_CVT || a->op == IR_BITCAST;
}

static bool same(const struct ir_ins *a, const struct ir_ins *b, int depth)
{
	if (a == b)
		return true;
	if (depth > 8 || !ins_pure(a) || a->op != b->op || a->dtype != b->dtype || a->imm != b->imm || a->nargs != b->nargs)
		return false;
	if (a->op == IR_CONST && a->num != b->num)
		return false;
	for (int i = 0; i < a->nargs; i++)
		if (!same(a->args[i], b->args[i], depth + 1))
			return false;
	return true;
}

bool ins_same(const struct ir_ins *a, const struct ir_ins *b) { return same(a, b, 0); }

static void add_term(struct lin *f, const struct ir_ins *atom, int64_t k)
{
	for (int i = 0; i < f->n; i++) {
		if (!ins_same(f->t[i].atom, atom))
			continue;
		f->t[i].k += k;
		if (!f->t[i].k)
			f->t[i] = f->t[--f->n];
		return;
	}
	if (!k)
		return;
	if (f->n == LIN_TERMS) {
		f->bad = true;
		return;
	}
	f->t[f->n].atom = atom;
	f->t[f->n++].k = k;
}

struct lin lin_add(struct lin a, int64_t k, const struct lin *b)
{
	int64_t kc;
	a.bad |= b->bad || llabs(k) > INT32_MAX || __builtin_mul_overflow(k, b->c, &kc) || __builtin_add_overflow(a.c, kc, &a.c);
	for (int i = 0; i < b->n && !a.bad; i++) {
		int64_t term;
		a.bad |= __builtin_mul_overflow(k, b->t[i].k, &term) || llabs(term) > INT64_MAX / 4;
		if (!a.bad)
			add_term(&a, b->t[i].atom, term);
	}
	return a;
}

static struct lin form_of(const struct ir_ins *a, int depth)
{
	struct lin f = {0};
	if (a->op == IR_CONST) {
		f.c = a->imm;
		return f;
	}
	if (depth < 12 && (a->op == IR_ADD || a->op == IR_SUB)) {
		struct lin y = form_of(a->args[1], depth + 1);
		return lin_add(form_of(a->args[0], depth + 1), a->op == IR_ADD ? 1 : -1, &y);
	}
	if (depth < 12 && a->op == IR_NEG) {
		struct lin x = form_of(a->args[0], depth + 1);
		return lin_add(f, -1, &x);
	}
	if (depth < 12 && a->op == IR_MUL) {
		struct lin x = form_of(a->args[0], depth + 1), y = form_of(a->args[1], depth + 1);
		if (!y.n && !y.bad)
			return lin_add(f, y.c, &x);
		if (!x.n && !x.bad)
			return lin_add(f, x.c, &y);
	}
	add_term(&f, a, 1);
	return f;
}

struct lin lin_of(const struct ir_ins *a)
{
	struct lin f = {.bad = true};
	return a->dtype == DT_I32 || a->dtype == DT_I64 ? form_of(a, 0) : f;
}

int64_t lin_coefficient(const struct lin *f, const struct ir_ins *atom)
{
	for (int i = 0; i < f->n; i++)
		if (ins_same(f->t[i].atom, atom))
			return f->t[i].k;
	return 0;
}

int lin_facts(const struct ir_ins *cond, struct lin out[2])
{
	bool lt = cond->op == IR_LT;
	if ((!lt && cond->op != IR_LE && cond->op != IR_EQ) || cond->args[0]->dtype != DT_I32)
		return 0;
	struct lin a = lin_of(cond->args[0]), b = lin_of(cond->args[1]);
	out[0] = lin_add(b, -1, &a);
	out[0].c -= lt;
	if (cond->op == IR_EQ)
		out[1] = lin_add(a, -1, &b);
	return out[0].bad ? 0 : cond->op == IR_EQ ? 2 : 1;
}

static bool ins_nonnegative(const struct elab *E, const struct ir_ins *a, int depth)
{
	if (depth > 8)
		return false;
	switch (a->op) {
	case IR_CONST: return a->imm >= 0;
	case IR_SYM: case IR_LIMIT: return true;
	case IR_IOTA: return E->nonnegative >> a->imm & 1;
	case IR_REDUCE: return (a->kind == RED_MAX || a->kind == RED_MIN) && a->args[0]->op == IR_IOTA && ins_nonnegative(E, a->args[0], depth + 1);
	case IR_MAX: return ins_nonnegative(E, a->args[0], depth + 1) || ins_nonnegative(E, a->args[1], depth + 1);
	case IR_REM: return ins_nonnegative(E, a->args[0], depth + 1);
	case IR_ADD: case IR_MUL: case IR_DIV: case IR_MIN:
		return ins_nonnegative(E, a->args[0], depth + 1) && ins_nonnegative(E, a->args[1], depth + 1);
	default: return false;
	}
}

struct proof { struct elab *E; const bool *used; int budget; };

static bool prove(struct proof *p, const struct lin *goal, int depth);

/* goal - (k/f) * fact, cleared of fractions, where both mention `atom` with the same sign. */
static bool eliminate(struct proof *p, const struct lin *goal, const struct ir_ins *atom, int64_t k, const struct lin *fact, int depth)
{
	int64_t f = lin_coefficient(fact, atom);
	if (fact->bad || !f || (f > 0) != (k > 0))
		return false;
	struct lin zero = {0}, scaled = lin_add(zero, llabs(f), goal), rest = lin_add(scaled, -llabs(k), fact);
	return !rest.bad && prove(p, &rest, depth + 1);
}

static bool divides(const struct elab *E, const struct ir_ins *num, const struct ir_ins *den)
{
	for (int i = 0; i < E->nexact; i++)
		if (ins_same(E->exact[i].num, num) && ins_same(E->exact[i].den, den))
			return true;
	return false;
}

/* Facts of a quotient q = x / d, d > 0 a constant. */
static bool by_quotient(struct proof *p, const struct lin *goal, const struct ir_ins *q, int64_t k, int depth)
{
	struct lin zero = {0}, x = lin_of(q->args[0]), den = lin_of(q->args[1]), self = {.n = 1, .t = {{q, 1}}};
	if (x.bad || !ins_nonnegative(p->E, q->args[0], 0))
		return false;
	if (!den.n && den.c > 0) {
		int64_t d = den.c;
		if (k == -1) {        /* A - q >= 0 exactly when d*A + d - 1 - x >= 0 */
			struct lin a = lin_add(*goal, 1, &self), g = lin_add(lin_add(zero, d, &a), -1, &x);
			g.c += d - 1;
			return !g.bad && prove(p, &g, depth + 1);
		}
		struct lin fact = lin_add(lin_add(zero, d, &self), -1, &x);    /* d*q - x + d - 1 >= 0 */
		fact.c += divides(p->E, q->args[0], q->args[1]) ? 0 : d - 1;
		return eliminate(p, goal, q, k, &fact, depth);
	}
	/* x / (X / Y) < Y follows from x < X where Y divides X. */
	const struct ir_ins *part = q->args[1];
	if (k != -1 || part->op != IR_DIV || !divides(p->E, part->args[0], part->args[1]))
		return false;
	struct lin a = lin_add(*goal, 1, &self), y = lin_of(part->args[1]), less = lin_add(a, -1, &y);
	if (less.bad || less.n || less.c < -1)
		return false;
	struct lin g = lin_add(lin_of(part->args[0]), -1, &x);
	g.c -= 1;
	return !g.bad && prove(p, &g, depth + 1);
}

/* x * (X / Y), Y dividing X: x <= Y - 1 gives x * (X / Y) <= X - X / Y. */
static bool by_product(struct proof *p, const struct lin *goal, const struct ir_ins *product, int64_t k, int depth)
{
	for (int i = 0; i < 2; i++) {
		const struct ir_ins *x = product->args[i], *part = product->args[!i];
		if (part->op != IR_DIV || !divides(p->E, part->args[0], part->args[1]))
			continue;
		struct lin at = lin_of(x), below = lin_add(lin_of(part->args[1]), -1, &at);
		below.c -= 1;
		struct lin self = {.n = 1, .t = {{product, 1}}}, r = lin_of(part), fact = lin_add(lin_add(lin_of(part->args[0]), -1, &r), -1, &self);
		if (prove(p, &below, depth + 1) && eliminate(p, goal, product, k, &fact, depth))
			return true;
	}
	return false;
}

static bool by_atom(struct proof *p, const struct lin *goal, const struct ir_ins *atom, int64_t k, int depth)
{
	struct lin self = {.n = 1, .t = {{atom, 1}}};
	if (atom->op == IR_DIV)
		return by_quotient(p, goal, atom, k, depth);
	if (atom->op == IR_MUL && k < 0)
		return by_product(p, goal, atom, k, depth);
	if ((atom->op == IR_MIN && k < 0) || (atom->op == IR_MAX && k > 0)) {
		for (int i = 0; i < 2; i++) {
			struct lin x = lin_of(atom->args[i]), fact = k < 0 ? lin_add(x, -1, &self) : lin_add(self, -1, &x);
			if (eliminate(p, goal, atom, k, &fact, depth))
				return true;
		}
	}
	if (atom->op == IR_REM && k < 0 && ins_nonnegative(p->E, atom->args[0], 0)) {
		struct lin den = lin_of(atom->args[1]), x = lin_of(atom->args[0]);
		struct lin below = lin_add(den, -1, &self), under = lin_add(x, -1, &self);
		below.c -= 1;
		if (!den.n && den.c > 0 && eliminate(p, goal, atom, k, &below, depth))
			return true;
		return eliminate(p, goal, atom, k, &under, depth);
	}
	if (k > 0 && ins_nonnegative(p->E, atom, 0)) {
		struct lin rest = lin_add(*goal, -k, &self);
		return prove(p, &rest, depth + 1);
	}
	return false;
}

static bool prove(struct proof *p, const struct lin *goal, int depth)
{
	const struct ir_ins *atom = NULL;
	int64_t k = 0;
	if (goal->bad || depth > DEPTH || --p->budget < 0)
		return false;
	for (int i = 0; i < goal->n && !atom; i++)
		if (goal->t[i].k < 0 || !ins_nonnegative(p->E, goal->t[i].atom, 0)) {
			atom = goal->t[i].atom;
			k = goal->t[i].k;
		}
	if (!atom && goal->c >= 0)
		return true;
	if (!atom) {              /* only the constant is short: some term must make up for it */
		for (int i = 0; i < goal->n; i++)
			for (int j = 0; j < p->E->nfacts; j++)
				if (eliminate(p, goal, goal->t[i].atom, goal->t[i].k, &p->E->facts[j], depth))
					return true;
		for (int i = 0; i < goal->n; i++)
			if (goal->t[i].atom->op == IR_DIV && by_quotient(p, goal, goal->t[i].atom, goal->t[i].k, depth))
				return true;
		return false;
	}
	for (int i = 0; i < p->E->nguards; i++)
		for (int j = 0; p->used[i] && j < p->E->guards[i].nfacts; j++)
			if (eliminate(p, goal, atom, k, &p->E->guards[i].fact[j], depth))
				return true;
	for (int i = 0; i < p->E->nfacts; i++)
		if (eliminate(p, goal, atom, k, &p->E->facts[i], depth))
			return true;
	return by_atom(p, goal, atom, k, depth);
}

bool lin_prove(struct elab *E, const struct lin *form, const bool *used)
{
	struct proof p = {E, used, BUDGET};
	return prove(&p, form, 0);
}
