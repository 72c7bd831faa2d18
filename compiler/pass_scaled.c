/* pass_scaled.c
 * Problem: an operand of a product that is so many codes of few bits and a power of two for each 32 of them, scaled(a, sa), is made bf16 before it is multiplied:
 *          an operation for each element, and twice to four times the group memory, where a matrix instruction takes both as they are.
 * Method:  of a dot whose operands are bf16(codes * scale), the scales repeated along what is contracted, the codes and the scales become the operands,
 *          where the chip has the instruction for them and the tile is of whole steps.  An operand without scales has 1.  Codes of e2m1 stay two a byte as
 *          they lie in memory, where both operands are such; else they become what the other operand is.  What stays bf16 is made so without rounding; so are codes
 *          for which the chip has no instruction.
 * Needs:   repeats, tiles.   Keeps: values exactly where bf16 has a * sa. */
#include "pass.h"
#include "target/mfma.h"

#include <string.h>

/* mask: where it is false, the codes count as 0; NULL = they are 0 there, or there is none. */
struct apart { struct ir_ins *codes, *scale, *mask; };

static struct ir_ins *widened(struct ir_ins *i, enum dtype to) { return i->op == IR_CVT && i->dtype == to ? i->args[0] : NULL; }

static struct ir_ins *scale_in(struct ir_ins *i)
{
	struct ir_ins *scale = widened(i->op == IR_REPEAT ? i->args[0] : i, DT_F32);
	return scale && scale->dtype == DT_E8M0 ? scale : NULL;
}

/* codes NULL: it is something else. */
static struct apart taken_apart(struct ir_ins *operand)
{
	double otherwise;
	struct ir_ins *mask = operand->op == IR_SELECT && ir_is_const(operand->args[2], &otherwise) && otherwise == 0 ? operand->args[0] : NULL;
	if (operand->dtype == DT_E2M1)
		return (struct apart){.codes = operand};
	operand = mask ? operand->args[1] : operand;
	struct ir_ins *x = widened(operand, DT_BF16), *codes = x;
	struct apart a = {.mask = mask};
	for (int n = 0; x && x->op == IR_MUL && !a.scale && n < 2; n++) {
		a.scale = scale_in(x->args[n]);
		codes = a.scale ? widened(x->args[!n], DT_F32) : NULL;
	}
	a.codes = codes && dtype_info(codes->dtype)->cls == 'Q' && codes->axes == operand->axes ? codes : NULL;
	return a;
}

void dot_types(const struct target *target, const struct ir_ins *dot, enum dtype of[2])
{
	bool narrow = true;
	for (int n = 0; n < 2; n++) {
		of[n] = (enum dtype)dot->args[n]->dtype;
		narrow = narrow && dtype_info(of[n])->cls == 'Q';
	}
	if (narrow && !target_mfma(target, of[0], of[1], 0))
		of[0] = of[1] = DT_BF16;
}

/* The types that the codes of two operands are multiplied as: of two of e2m1 pairs, of one what the other is, which has all its numbers. */
static void types_of(const struct apart *a, const struct apart *b, enum dtype of[2])
{
	of[0] = (enum dtype)a->codes->dtype;
	of[1] = (enum dtype)b->codes->dtype;
	if (of[0] == DT_E2M1 && of[1] == DT_E2M1)
		of[0] = of[1] = DT_U8;
	for (int n = 0; n < 2; n++)
		of[n] = of[n] == DT_E2M1 ? of[!n] : of[n];
}

bool dot_is_scaled(const struct ir_ins *dot, enum dtype codes[2])
{
	struct apart a = taken_apart(dot->args[0]), b = taken_apart(dot->args[1]);
	bool scaled = a.scale || b.scale || (dot->args[0]->dtype == DT_E2M1 && dot->args[1]->dtype == DT_E2M1);
	if (!a.codes || !b.codes || !scaled)
		return false;
	types_of(&a, &b, codes);
	return true;
}

struct scaled { struct pass *p; struct ir_phase *ph; int pairs[LAYOUT_AXES]; };      /* pairs: of an axis that of its pairs, -1 = none yet */

/* The scales are of all that is contracted, or one for each group of the instruction, or of several. */
static bool fits(const struct ir_phase *ph, const struct apart *a, int k, int group)
{
	if (a->scale && a->scale->axes & IR_AXIS(k))
		return false;
	ir_axes own = a->scale ? a->scale->axes & ~a->codes->axes : 0;
	return !own || (!(own & (own - 1)) && ph->axes[k].tile / ph->axes[__builtin_ctz(own)].tile % group == 0);
}

/* Lies along k in memory, two codes a byte. */
static bool lies_along(const struct pass *p, const struct apart *a, int k)
{
	const struct ir_ins *codes = a->codes;
	const struct ir_param *t = codes->op == IR_LOAD && !a->mask ? &p->k->params[codes->imm] : NULL;
	struct affine last = t && t->rank ? affine_of(codes->args[t->rank - 1]) : (struct affine){.ok = false};
	return last.ok && last.coef[k] == 1;
}

static int axis_of_pairs(struct scaled *c, int k)
{
	const struct ir_axis *of = &c->ph->axes[k];
	if (c->pairs[k] < 0) {
		c->ph->axes[c->ph->naxes] = (struct ir_axis){.name = arena_printf(c->p->k->arena, "%s.p", of->name), .kind = AXIS_HELD, .tile = of->tile / 2,
		                                             .extent = hexpr_const(c->p->k->arena, of->tile / 2), .line = of->line, .col = of->col};
		c->pairs[k] = c->ph->naxes++;
	}
	return c->pairs[k];
}

static struct ir_ins *codes_as(struct scaled *c, struct ir_builder *b, struct ir_ins *codes, enum dtype to, int k)
{
	if (to != DT_U8)
		return ir_cvt(b, codes, to, false);
	int pairs = axis_of_pairs(c, k);
	struct ir_ins *packed = ir_new(b, IR_PACK, DT_U8, (codes->axes & ~IR_AXIS(k)) | IR_AXIS(pairs), 1);
	packed->args[0] = codes;
	packed->over = IR_AXIS(k);
	packed->imm = pairs;
	return packed;
}

/* What stays bf16 has nothing that would be rounded: where that takes instructions it is cut. */
static void cut(struct scaled *c, struct ir_ins *dot)
{
	for (int n = 0; n < 2 && !c->p->v->target->cvt_pk_bf16; n++) {
		struct apart a = taken_apart(dot->args[n]);
		struct ir_ins *narrowed = a.mask ? dot->args[n]->args[1] : dot->args[n];
		narrowed->flags |= a.codes && a.scale ? IR_CUT : 0;
	}
}

/* Codes that the chip has no instruction for are numbers of bf16. */
static void widen(struct scaled *c, struct ir_ins *dot)
{
	enum dtype of[2];
	dot_types(c->p->v->target, dot, of);
	struct ir_builder at = pass_before(c->p, c->ph, dot);
	for (int n = 0; n < 2 && of[n] != dot->args[n]->dtype; n++) {
		dot->args[n] = ir_cvt(&at, ir_cvt(&at, dot->args[n], DT_F32, false), of[n], false);
		dot->args[n]->flags |= c->p->v->target->cvt_pk_bf16 ? 0 : IR_CUT;
	}
}

static void look_at_dot(struct ir_ins *dot, void *ctx)
{
	struct scaled *c = ctx;
	enum dtype of[2];
	if (dot->op != IR_DOT)
		return;
	if (!dot_is_matrix(c->ph, dot) || dot->over & (dot->over - 1) || !dot_is_scaled(dot, of)) {
		cut(c, dot);
		widen(c, dot);
		return;
	}
	int k = __builtin_ctz(dot->over), acc = (dot->flags & IR_ACC) != 0, tile = c->ph->axes[k].tile;
	struct apart side[2] = {taken_apart(dot->args[0]), taken_apart(dot->args[1])};
	bool pairs = of[0] == DT_U8 && c->ph->naxes < LAYOUT_AXES && lies_along(c->p, &side[0], k) && lies_along(c->p, &side[1], k);
	if (of[0] == DT_U8 && !pairs)
		of[0] = of[1] = DT_E4M3;
	int steps = pairs ? tile / 2 : tile;
	const struct mfma *m = target_mfma(c->p->v->target, of[0], of[1], steps);
	int group = m ? m->group * (1 + pairs) : 0;
	if (!group || steps % m->k || !fits(c->ph, &side[0], k, group) || !fits(c->ph, &side[1], k, group)) {
		cut(c, dot);
		widen(c, dot);
		return;
	}
	struct ir_builder at = pass_before(c->p, c->ph, dot);
	struct ir_ins *one = ir_float(&at, DT_E8M0, 1), *args[5] = {NULL, NULL, dot->args[2 * acc]};
	for (int n = 0; n < 2; n++) {
		struct ir_ins *codes = side[n].codes, *zero = ir_float(&at, (enum dtype)codes->dtype, 0);
		args[n] = codes_as(c, &at, side[n].mask ? ir_select(&at, side[n].mask, codes, zero) : codes, of[n], k);
		args[2 + acc + n] = side[n].scale ? side[n].scale : one;
	}
	struct ir_ins *new = ir_new(&at, IR_DOT, (enum dtype)dot->dtype, dot->axes, 4 + acc);
	for (int n = 0; n < 4 + acc; n++)
		new->args[n] = args[n];
	new->over = pairs ? IR_AXIS(c->pairs[k]) : dot->over;
	new->flags = dot->flags | IR_SCALED;
	ir_replace(c->p->k, dot, new);
	ir_remove(dot);
}

int pass_scaled(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct scaled c = {.p = p, .ph = ph};
		memset(c.pairs, -1, sizeof c.pairs);
		ir_walk(ph->body, look_at_dot, &c);
	}
	return 0;
}
