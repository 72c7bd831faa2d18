/* pass_repeat.c
 * Problem: a number that a group of positions shares, sa[m, k/32] beside tiles of k, is loaded and converted once for each of them.
 * Method:  what such a load gives has an axis of the tile's groups in the place of the positions', is converted so, and is repeated along the positions
 *          where it meets something else.  The axis is held, for a loop's own is its positions': the first group of a tile is that of its first position.
 *          Positions behind the end of their axis have 0, as from the load, but where the number is of e8m0: nothing that is made of those counts.
 * Needs:   tiles, in phases of products.   Keeps: values exactly where elements are present. */
#include "pass.h"

#include <string.h>

/* `by` positions of the axis, a power of two, have a number in common; bounded: a mask says that their group is within the tensor; ends: where the axis ends. */
struct groups { struct pass *p; struct ir_phase *ph; int axis; int64_t by; bool bounded, ends; struct ir_ins *position; };
/* The axes of groups so far. */
struct made { struct pass *p; struct ir_phase *ph; int n; struct { int axis, groups; } of[LAYOUT_AXES]; };

/* A position of the axis, or so many behind a number that does not vary with it. */
static bool is_position(const struct ir_ins *i, int axis, struct ir_ins **base)
{
	int n = i->op == IR_ADD && i->args[0]->op != IR_IOTA;
	const struct ir_ins *at = i->op == IR_ADD ? i->args[n] : i;
	*base = i->op == IR_ADD ? i->args[!n] : NULL;
	return at->op == IR_IOTA && at->imm == axis && !(*base && (*base)->axes & IR_AXIS(axis));
}

static bool is_quotient(const struct ir_ins *i, int axis)
{
	struct ir_ins *base;
	return i->op == IR_DIV && i->args[1]->op == IR_CONST && is_position(i->args[0], axis, &base);
}

static bool is_end(const struct ir_ins *i, int axis)
{
	struct ir_ins *base;
	return i->op == IR_LT && !(i->args[1]->axes & IR_AXIS(axis)) && is_position(i->args[0], axis, &base);
}

/* Of the axis the expression takes the groups' numbers alone. */
static bool is_of_groups(struct groups *g, const struct ir_ins *i)
{
	if (!(i->axes & IR_AXIS(g->axis)))
		return true;
	if (is_quotient(i, g->axis)) {
		int64_t by = i->args[1]->imm;
		struct ir_ins *base;
		is_position(i->args[0], g->axis, &base);
		bool fits = by > 1 && !(by & (by - 1)) && g->ph->axes[g->axis].tile % by == 0 && (!g->by || g->by == by);
		fits = fits && !(base && known_divisor(base, g->ph, g->p->v) % by);
		g->by = by;
		return fits;
	}
	const char *cls = ir_op_info[i->op].cls;
	if (strcmp(cls, "BIN") && strcmp(cls, "BIT") && strcmp(cls, "CMP"))
		return false;
	for (int a = 0; a < i->nargs; a++)
		if (!is_of_groups(g, i->args[a]))
			return false;
	return true;
}

/* A mask of such terms and of ends of the axis, all of which hold where it does. */
static bool mask_is_of_groups(struct groups *g, const struct ir_ins *mask)
{
	if (mask->op == IR_AND)
		return mask_is_of_groups(g, mask->args[0]) && mask_is_of_groups(g, mask->args[1]);
	bool ends = is_end(mask, g->axis);
	g->ends = g->ends || ends;
	g->bounded = g->bounded || (mask->op == IR_LT && is_quotient(mask->args[0], g->axis));
	return ends || is_of_groups(g, mask);
}

/* The expression for groups. */
static struct ir_ins *for_groups(struct groups *g, struct ir_builder *b, struct ir_ins *i)
{
	if (!(i->axes & IR_AXIS(g->axis)))
		return i;
	if (is_quotient(i, g->axis)) {
		struct ir_ins *base = NULL;
		is_position(i->args[0], g->axis, &base);
		return base ? ir_bin(b, IR_ADD, ir_bin(b, IR_DIV, base, ir_int(b, DT_I32, g->by)), g->position) : g->position;
	}
	struct ir_ins **args = arena_alloc(g->p->k->arena, sizeof *args * (size_t)i->nargs);
	for (int a = 0; a < i->nargs; a++)
		args[a] = for_groups(g, b, i->args[a]);
	struct ir_ins *out = ir_copy(b, i, args);
	ir_recompute_axes(out, NULL);
	return out;
}

/* A group whose first position is there is; NULL = true: of one within the tensor that is not asked. */
static struct ir_ins *mask_for_groups(struct groups *g, struct ir_builder *b, struct ir_ins *mask)
{
	if (mask->op == IR_AND) {
		struct ir_ins *x = mask_for_groups(g, b, mask->args[0]), *y = mask_for_groups(g, b, mask->args[1]);
		return x && y ? ir_bin(b, IR_AND, x, y) : x ? x : y;
	}
	if (!is_end(mask, g->axis))
		return for_groups(g, b, mask);
	if (g->bounded)
		return NULL;
	struct ir_ins *base = NULL, *first = ir_bin(b, IR_MUL, g->position, ir_int(b, DT_I32, g->by));
	is_position(mask->args[0], g->axis, &base);
	return ir_bin(b, IR_LT, base ? ir_bin(b, IR_ADD, base, first) : first, mask->args[1]);
}

/* Its tiles begin with a group, and their positions are known by the axis alone. */
static bool has_groups(const struct ir_axis *ax, const struct ir_ins *loop)
{
	bool begins = ax->kind != AXIS_LOOP || (loop && loop->args[0]->op == IR_CONST && loop->args[0]->imm == 0);
	return ax->tile > 1 && !ax->ragged && !ax->cluster && begins;
}

static const struct ir_ins *loop_over(const struct ir_ins *i, int axis)
{
	const struct ir_ins *at = i->block->owner;
	while (at && !(at->op == IR_FOR && at->imm == axis))
		at = at->block->owner;
	return at;
}

static bool all_elementwise(const struct users *u)
{
	bool all = u->n <= MOST_USERS;
	for (int n = 0; all && n < u->n; n++) {
		const char *cls = ir_op_info[u->user[n]->op].cls;
		all = u->user[n]->op == IR_CVT || u->user[n]->op == IR_SELECT || !strcmp(cls, "BIN") || !strcmp(cls, "UN") || !strcmp(cls, "CMP");
	}
	return all;
}

static int groups_axis(struct made *m, const struct groups *g)
{
	const struct ir_axis *of = &g->ph->axes[g->axis];
	struct arena *arena = g->p->k->arena;
	int n = of->tile / (int)g->by;
	for (int i = 0; i < m->n; i++)
		if (m->of[i].axis == g->axis && g->ph->axes[m->of[i].groups].tile == n)
			return m->of[i].groups;
	g->ph->axes[g->ph->naxes] = (struct ir_axis){.name = arena_printf(arena, "%s.g", of->name), .kind = AXIS_HELD, .tile = n, .extent = hexpr_const(arena, n),
	                                             .line = of->line, .col = of->col};
	m->of[m->n].axis = g->axis;
	return m->of[m->n++].groups = g->ph->naxes++;
}

/* What is made of the number alone, by conversions; its users. */
static struct ir_ins *converted(struct ir_phase *ph, struct ir_ins *number, struct users *u)
{
	*u = pass_users(ph, number);
	while (u->n == 1 && u->user[0]->op == IR_CVT) {
		number = u->user[0];
		*u = pass_users(ph, number);
	}
	return number;
}

static struct ir_ins *converted_so(struct ir_builder *b, struct ir_ins *whole, const struct ir_ins *load, struct ir_ins *number)
{
	if (whole == load)
		return number;
	return ir_cvt(b, converted_so(b, whole->args[0], load, number), (enum dtype)whole->dtype, whole->flags & IR_SATURATE);
}

/* What is converted alone is once as well.  Behind an end of the axis the load gave 0, which a dot may count on: but of e8m0, whose code 0 is none. */
static void repeat(struct groups *g, struct ir_ins *load, int axis, struct ir_ins *number)
{
	struct users u;
	struct ir_ins *whole = converted(g->ph, load, &u);
	struct ir_builder b = pass_before(g->p, g->ph, whole);
	enum dtype t = (enum dtype)whole->dtype;
	number = converted_so(&b, whole, load, number);
	struct ir_ins *r = ir_new(&b, IR_REPEAT, t, (number->axes & ~IR_AXIS(axis)) | IR_AXIS(g->axis), 1);
	r->args[0] = number;
	r->imm = g->axis;
	r->over = IR_AXIS(axis);
	if (g->ends && load->dtype != DT_E8M0)
		r = ir_select(&b, load->args[load->nargs - 1], r, dtype_is_float(t) ? ir_float(&b, t, 0) : ir_int(&b, t, 0));
	ir_replace(g->p->k, whole, r);                 /* what has no use is taken out later (pass_clean) */
}

static void by_groups(struct made *m, struct groups *g, struct ir_ins *load)
{
	int axis = groups_axis(m, g), rank = g->p->k->params[load->imm].rank;
	struct ir_builder b = pass_before(g->p, g->ph, load);
	struct ir_ins *subs[6], *mask = load->flags & IR_MASKED ? load->args[rank] : NULL;
	struct ir_ins *first = ir_reduce(&b, RED_MIN, ir_leaf(&b, IR_IOTA, DT_I32, g->axis), IR_AXIS(g->axis), NULL);
	struct ir_ins *number = ir_leaf(&b, IR_IOTA, DT_I32, axis);
	bool from_0 = g->ph->axes[g->axis].kind == AXIS_HELD;
	g->position = from_0 ? number : ir_bin(&b, IR_ADD, ir_bin(&b, IR_SHR, first, ir_int(&b, DT_I32, __builtin_ctzll((uint64_t)g->by))), number);
	for (int s = 0; s < rank; s++)
		subs[s] = for_groups(g, &b, load->args[s]);
	mask = mask ? mask_for_groups(g, &b, mask) : NULL;
	repeat(g, load, axis, ir_load(&b, (int)load->imm, subs, mask));
}

static void look_at_load(struct ir_ins *i, void *ctx)
{
	struct made *m = ctx;
	if (i->op != IR_LOAD || i->flags & IR_RELAXED || m->p->k->params[i->imm].list || m->p->k->params[i->imm].role != IR_IN)
		return;
	for (int a = 0; a < LAYOUT_AXES && m->ph->naxes < LAYOUT_AXES; a++) {
		struct groups of = {.p = m->p, .ph = m->ph, .axis = a};
		bool takes = i->axes & IR_AXIS(a) && has_groups(&m->ph->axes[a], loop_over(i, a));
		for (int s = 0; takes && s < m->p->k->params[i->imm].rank; s++)
			takes = is_of_groups(&of, i->args[s]);
		takes = takes && of.by && (!(i->flags & IR_MASKED) || mask_is_of_groups(&of, i->args[i->nargs - 1]));
		if (!takes)
			continue;
		struct users own = pass_users(m->ph, i), u;
		converted(m->ph, i, &u);
		if (!all_elementwise(&u) || !all_elementwise(&own))
			return;
		by_groups(m, &of, i);
		return;
	}
}

int pass_repeat(struct pass *p)
{
	FOR_PHASES(p, ph) {
		struct made m = {.p = p, .ph = ph};
		if (ir_has(ph->body, IR_DOT))
			ir_walk(ph->body, look_at_load, &m);
	}
	return 0;
}
