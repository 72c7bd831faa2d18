/* pass_scaled.c
 * Problem: an operand of a product that is so many codes of few bits and a power of two for each 32 of them, scaled(a, sa), is made bf16 before it is multiplied:
 *          an operation for each element, and twice to four times the group memory, where a matrix instruction takes both as they are.
 * Method:  of a dot whose operands are bf16(codes * scale), the scales repeated along what is contracted, the codes and the scales become the operands,
 *          where the chip has the instruction for them and the tile is of whole steps.  An operand without scales has 1.
 * Needs:   repeats, tiles.   Keeps: values exactly where bf16 has a * sa. */
#include "pass.h"
#include "target/mfma.h"

struct apart { struct ir_ins *codes, *scale; };

static struct ir_ins *widened(struct ir_ins *i, enum dtype to) { return i->op == IR_CVT && i->dtype == to ? i->args[0] : NULL; }

static struct ir_ins *scale_in(struct ir_ins *i)
{
	struct ir_ins *scale = widened(i->op == IR_REPEAT ? i->args[0] : i, DT_F32);
	return scale && scale->dtype == DT_E8M0 ? scale : NULL;
}

/* codes NULL: it is something else. */
static struct apart taken_apart(struct ir_ins *operand)
{
	struct ir_ins *x = widened(operand, DT_BF16), *codes = x;
	struct apart a = {0};
	for (int n = 0; x && x->op == IR_MUL && !a.scale && n < 2; n++) {
		a.scale = scale_in(x->args[n]);
		codes = a.scale ? widened(x->args[!n], DT_F32) : NULL;
	}
	a.codes = codes && dtype_info(codes->dtype)->cls == 'Q' && codes->axes == operand->axes ? codes : NULL;
	return a;
}

bool dot_is_scaled(const struct ir_ins *dot, enum dtype codes[2])
{
	struct apart a = taken_apart(dot->args[0]), b = taken_apart(dot->args[1]);
	if (!a.codes || !b.codes || !(a.scale || b.scale))
		return false;
	codes[0] = (enum dtype)a.codes->dtype;
	codes[1] = (enum dtype)b.codes->dtype;
	return true;
}

/* The scales are of all that is contracted, or one for each group of the instruction, or of several. */
static bool fits(const struct ir_phase *ph, const struct apart *a, int k)
{
	if (a->scale && a->scale->axes & IR_AXIS(k))
		return false;
	ir_axes own = a->scale ? a->scale->axes & ~a->codes->axes : 0;
	int groups = own ? __builtin_ctz(own) : k, by = ph->axes[k].tile / ph->axes[groups].tile;
	return !own || by % MFMA_GROUP == 0;
}

struct chip { struct pass *p; struct ir_phase *ph; };

static void look_at_dot(struct ir_ins *dot, void *ctx)
{
	struct chip *c = ctx;
	if (dot->op != IR_DOT || !dot_is_matrix(c->ph, dot))
		return;
	int k = __builtin_ctz(dot->over), acc = (dot->flags & IR_ACC) != 0;
	enum dtype codes[2];
	if (dot->over != IR_AXIS(k) || !dot_is_scaled(dot, codes))
		return;
	struct apart a = taken_apart(dot->args[0]), b = taken_apart(dot->args[1]);
	if (!fits(c->ph, &a, k) || !fits(c->ph, &b, k))
		return;
	const struct mfma *m = target_mfma(c->p->v->target, codes[0], codes[1], c->ph->axes[k].tile);
	if (!m || !m->scales || c->ph->axes[k].tile % m->k)
		return;
	struct ir_builder at = pass_before(c->p, c->ph, dot);
	struct ir_ins *one = ir_float(&at, DT_E8M0, 1), *new = ir_new(&at, IR_DOT, (enum dtype)dot->dtype, dot->axes, 4 + acc);
	struct ir_ins *args[5] = {a.codes, b.codes, dot->args[2 * acc]};
	args[2 + acc] = a.scale ? a.scale : one;
	args[3 + acc] = b.scale ? b.scale : one;
	for (int n = 0; n < 4 + acc; n++)
		new->args[n] = args[n];
	new->over = dot->over;
	new->flags = dot->flags | IR_SCALED;
	ir_replace(c->p->k, dot, new);
	ir_remove(dot);
}

int pass_scaled(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct chip c = {p, ph};
		ir_walk(ph->body, look_at_dot, &c);
	}
	return 0;
}
