/* pass_score.c
 * Problem: a running softmax multiplies each score by a scale, dot(q, k) * scale, for its maximum; the exponent then multiplies it once more, by log2 e.
 * Method:  a factor above 0 changes nothing about which score is the largest: the maximum is that of the products as they come, and is multiplied once a
 *          row.  What is left in front of the exponent is one factor with the exponent's own (pass_math.c).  The scale's sign goes to the operand of the
 *          product that the loop does not change, whose bits are flipped in front of it.  A scale of 0 counts as 2^-149, so that a score of -infinity,
 *          which is not seen, stays one.
 * Needs:   seen softmax.   Keeps: values exactly; where the scale is 0 within 2^-21, finite products taken for granted; where it is a NaN, rows that see
 *          nothing are NaNs as all others are. */
#include "pass.h"

#include <math.h>

struct score {
	struct pass *p;
	struct ir_phase *ph;
	struct ir_ins *loop, *product, *scaled, *scale;    /* scaled = product * scale, product a dot */
	bool *varies;                                      /* by id: what stands in the loop and may be another in each round */
	int fixed;                                         /* the product's operand that is the same in all rounds */
	struct ir_ins *top[MOST_USERS]; int ntops;         /* maxima of scores */
	struct ir_ins *less[MOST_USERS]; int nless;        /* score - what a row has, of which exp is made */
};

static bool is_of_loop(const struct ir_ins *i, const struct ir_ins *loop)
{
	for (const struct ir_block *b = i->block; b; b = b->owner ? b->owner->block : NULL)
		if (b == loop->body)
			return true;
	return false;
}

static void note_varying(struct ir_ins *i, void *ctx)
{
	struct score *s = ctx;
	bool stays = !ir_is_pure(i) || (i->op == IR_LOAD && s->p->k->params[i->imm].role != IR_IN) || (i->axes | i->over) & IR_AXIS(s->loop->imm);
	for (int a = 0; a < i->nargs && !stays; a++)
		stays = i->args[a]->op == IR_ARG || s->varies[i->args[a]->id];
	s->varies[i->id] = stays;
}

/* It may stand in the loop, but is the same in all rounds. */
static bool is_same(const struct score *s, const struct ir_ins *i) { return i->op != IR_ARG && !s->varies[i->id]; }

static void take_out(const struct score *s, struct ir_ins *i)
{
	if (!is_of_loop(i, s->loop))
		return;
	for (int a = 0; a < i->nargs; a++)
		take_out(s, i->args[a]);
	ir_move(i, s->loop);
}

static bool is_nothing(const struct ir_ins *i) { return i->op == IR_CONST && i->num == -INFINITY; }

static bool only_exponents(struct score *s, const struct ir_ins *less)
{
	struct users u = pass_users(s->ph, less);
	bool ok = u.n <= MOST_USERS;
	for (int n = 0; ok && n < u.n; n++)
		ok = u.user[n]->op == IR_EXP;
	return ok;
}

/* The branch yields the score, or the score where it is seen. */
static bool yields(const struct ir_block *b, const struct ir_ins *score, int64_t at)
{
	const struct ir_ins *y = b->last->args[at];
	return y == score || (y->op == IR_SELECT && y->args[1] == score && is_nothing(y->args[2]));
}

/* Every use of a score is in a maximum or in exp(score - what its row has). */
static bool collect(struct score *s, struct ir_ins *score)
{
	struct users u = pass_users(s->ph, score);
	ir_axes j = IR_AXIS(s->loop->imm);
	bool ok = u.n <= MOST_USERS;
	for (int n = 0; ok && n < u.n; n++) {
		struct ir_ins *i = u.user[n];
		if (i->op == IR_REDUCE && i->kind == RED_MAX && i->over == j && i->args[0] == score) {
			ok = pass_note(s->top, &s->ntops, i);
		} else if (i->op == IR_SUB && i->args[0] == score && !(i->args[1]->axes & j)) {
			ok = pass_note(s->less, &s->nless, i) && only_exponents(s, i);
		} else if (i->op == IR_SELECT && i->args[1] == score && is_nothing(i->args[2])) {
			ok = collect(s, i);
		} else if (i->op == IR_YIELD && i->block->owner->op == IR_IF) {
			struct ir_ins *choice = i->block->owner;
			for (int a = 0; ok && a < i->nargs; a++)
				ok = i->args[a] != score || (yields(choice->body, s->scaled, a) && yields(choice->other, s->scaled, a));
			for (struct ir_ins *r = choice->next; ok && i->block == choice->body && r; r = r->next)
				if (r->op == IR_RESULT && r->args[0] == choice && yields(choice->body, s->scaled, r->imm))
					ok = collect(s, r);
		} else {
			ok = false;
		}
	}
	return ok;
}

/* The product of the operand with the scale's sign takes the scaled one's place; maxima and differences multiply by what is left of the scale. */
static void factor_out(struct score *s)
{
	struct ir_ins *operand = s->product->args[s->fixed];
	take_out(s, operand);
	take_out(s, s->scale);
	struct ir_builder b = pass_before(s->p, s->ph, s->loop);
	struct ir_ins *zero = ir_float(&b, DT_F32, 0), *size = ir_un(&b, IR_ABS, s->scale);
	struct ir_ins *by = ir_select(&b, ir_bin(&b, IR_EQ, size, zero), ir_float(&b, DT_F32, 0x1p-149), size);
	s->product->args[s->fixed] = ir_select(&b, ir_bin(&b, IR_LT, s->scale, zero), ir_un(&b, IR_NEG, operand), operand);
	for (int n = 0; n < s->nless; n++) {
		b = pass_before(s->p, s->ph, s->less[n]);
		s->less[n]->args[0] = ir_bin(&b, IR_MUL, s->less[n]->args[0], by);
	}
	for (int n = 0; n < s->ntops; n++) {
		b = pass_before(s->p, s->ph, s->top[n]->next);
		struct ir_ins *top = ir_bin(&b, IR_MUL, s->top[n], by);
		ir_replace(s->p->k, s->top[n], top);
		top->args[0] = s->top[n];
	}
	ir_replace(s->p->k, s->scaled, s->product);
}

static bool is_sixteen_bits(const struct ir_ins *i)
{
	const struct ir_ins *load = i->op == IR_SELECT ? i->args[1] : i;
	return load->op == IR_LOAD && (i->dtype == DT_BF16 || i->dtype == DT_F16);
}

/* The scale, and the operand that has its sign, are the same in all rounds. */
static bool can_factor_out(struct score *s)
{
	ir_walk(s->loop->body, note_varying, s);
	s->fixed = !is_same(s, s->product->args[0]);
	const struct ir_ins *operand = s->product->args[s->fixed];
	bool own = !(s->scale->axes & (~operand->axes | s->product->over)) && pass_users(s->ph, s->product).n == 1;
	return own && is_same(s, s->scale) && is_same(s, operand) && is_sixteen_bits(operand) && collect(s, s->scaled) && s->ntops && s->nless;
}

static void look_at(struct ir_ins *i, void *ctx)
{
	struct score s = *(const struct score *)ctx;
	struct arena scratch = {0};
	s.loop = i->block->owner;
	if (i->op != IR_MUL || i->dtype != DT_F32 || !s.loop || s.loop->op != IR_FOR)
		return;
	int side = i->args[0]->op != IR_DOT;
	s.scaled = i;
	s.product = i->args[side];
	s.scale = i->args[!side];
	if (s.product->op != IR_DOT || s.product->flags & (IR_ACC | IR_SCALED) || s.product->block != i->block || s.product->axes != i->axes)
		return;
	s.varies = arena_alloc(&scratch, sizeof *s.varies * (size_t)s.p->k->next_id);
	if (can_factor_out(&s))
		factor_out(&s);
	arena_free(&scratch);
}

int pass_score(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct score s = {.p = p, .ph = ph};
		ir_walk(ph->body, look_at, &s);
	}
	return 0;
}
