/* passes.c -- runs the pass list on a copy of a kernel, verifying after each pass, and holds what several passes share.
 * In: generic IR and a variant.  Out: the IR after the pass asked for. */
#include "object.h"
#include "pass.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct { const char *name; int (*run)(struct pass *); } list[] = {
#define PASS(name, needs, keeps) {#name, pass_##name},
#include "pass.def"
#undef PASS
};

static const char *const names[] = {
#define PASS(name, needs, keeps) #name,
#include "pass.def"
#undef PASS
	NULL
};

const char *const *pass_names(void)
{
	return names;
}

int run_passes(struct arena *arena, const struct ir_kernel *generic, const struct variant *v, const char *until,
               struct ir_kernel **out, char *err, size_t errlen)
{
	struct pass p = {.k = ir_clone(arena, generic), .v = v, .err = err, .errlen = errlen};
	for (unsigned i = 0; i < sizeof list / sizeof *list; i++) {
		if (list[i].run(&p))
			return p.lacks_registers ? OBJECT_SPILLS : -1;
		char why[400];
		if (ir_verify(p.k, why, sizeof why)) {
			snprintf(err, errlen, "internal: after pass %s: %s", list[i].name, why);
			return -1;
		}
		if (until && strcmp(until, list[i].name) == 0)
			break;
	}
	*out = p.k;
	return 0;
}

int pass_fail(struct pass *p, const struct ir_ins *at, const char *fmt, ...)
{
	va_list ap;
	int n = at && at->line ? snprintf(p->err, p->errlen, "%s:%d:%d: error: ", p->k->file ? p->k->file : "?", at->line, at->col) : 0;
	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < p->errlen)
		vsnprintf(p->err + n, p->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

bool pass_ends_round(const struct ir_ins *i)
{
	return i->op == IR_REDUCE && !(i->next && i->next->op == IR_REDUCE);
}

struct ir_builder pass_before(struct pass *p, struct ir_phase *ph, struct ir_ins *at)
{
	return (struct ir_builder){p->k, ph, at->block, at, at->line, at->col};
}

bool ir_is_pure(const struct ir_ins *i)
{
	switch (i->op) {
	case IR_STORE: case IR_UPDATE: case IR_FOR: case IR_IF: case IR_YIELD: case IR_ARG: case IR_RESULT:
		return false;
	default:
		return true;
	}
}

bool ir_is_plain(const struct ir_ins *i)
{
	return i->op == IR_STORE || i->op == IR_YIELD || (ir_is_pure(i) && i->op != IR_SCAN && i->op != IR_ARGMAX && i->op != IR_DOT);
}

bool ir_crosses_cluster(const struct ir_phase *ph, const struct ir_ins *reduce)
{
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].cluster && (reduce->over & IR_AXIS(a)) && !(reduce->flags & IR_PART))
			return true;
	return false;
}

bool value_is_of_memory(const struct ir_ins *i)
{
	bool load = i->op == IR_LOAD;
	for (int a = 0; a < i->nargs; a++)
		load = load || value_is_of_memory(i->args[a]);
	return load;
}

bool ir_holds_rows(const struct ir_block *b)
{
	ir_axes along = ~(ir_axes)0;
	for (const struct ir_ins *i = b->first; i; i = i->next)
		along &= i->op == IR_REDUCE ? i->over : ~(ir_axes)0;
	return along;
}

struct search { enum ir_op op; bool found; };

static void look(struct ir_ins *i, void *ctx)
{
	struct search *s = ctx;
	s->found |= i->op == s->op;
}

bool ir_has(struct ir_block *b, enum ir_op op)
{
	struct search s = {op, false};
	ir_walk(b, look, &s);
	return s.found;
}

bool ir_stores(struct ir_block *b) { return ir_has(b, IR_STORE) || ir_has(b, IR_UPDATE); }

/* A folded operand may have lost axes; what is computed from it loses them too. */
void ir_recompute_axes(struct ir_ins *i, void *ctx)
{
	(void)ctx;
	const char *cls = ir_op_info[i->op].cls;
	if (!i->nargs || strcmp(cls, "REG") == 0)
		return;
	ir_axes axes = 0;
	for (int a = 0; a < i->nargs; a++)
		axes |= i->args[a]->axes;
	i->axes = strcmp(cls, "RED") == 0 ? i->axes & axes : i->op == IR_REPEAT || i->op == IR_PACK ? (axes & ~i->over) | IR_AXIS(i->imm) : axes;
}

static void count(struct ir_ins *i, void *uses)
{
	for (int a = 0; a < i->nargs; a++)
		((int *)uses)[i->args[a]->id]++;
}

int *pass_uses(struct arena *arena, const struct ir_kernel *k)
{
	int *uses = arena_alloc(arena, sizeof(int) * (size_t)(k->next_id + 1));
	for (int i = 0; i < k->nphases; i++)
		ir_walk(k->phases[i].body, count, uses);
	return uses;
}

static void look_for_user(struct ir_ins *i, void *ctx)
{
	struct users *u = ctx;
	bool uses = false;
	for (int a = 0; a < i->nargs; a++)
		uses = uses || i->args[a] == u->of;
	if (uses && u->n++ < MOST_USERS)
		u->user[u->n - 1] = i;
}

struct users pass_users(struct ir_phase *ph, const struct ir_ins *of)
{
	struct users u = {.of = of};
	ir_walk(ph->body, look_for_user, &u);
	return u;
}

bool pass_note(struct ir_ins **list, int *n, struct ir_ins *i)
{
	if (*n == MOST_USERS)
		return false;
	list[(*n)++] = i;
	return true;
}

struct ir_ins *tile_extreme(const struct ir_phase *ph, struct ir_builder *b, struct ir_ins *i, enum ir_reduce which)
{
	enum ir_reduce other = which == RED_MAX ? RED_MIN : RED_MAX;
	double by;
	if (i->op == IR_IOTA)
		return ir_reduce(b, which, i, i->axes, NULL);
	if (!axes_of_several(ph, i->axes))
		return i;
	bool scaled = i->op == IR_MUL && ir_is_const(i->args[1], &by) && by >= 0;
	if (i->op != IR_ADD && i->op != IR_SUB && i->op != IR_MIN && i->op != IR_MAX && !scaled)
		return NULL;
	struct ir_ins *x = tile_extreme(ph, b, i->args[0], which), *y = tile_extreme(ph, b, i->args[1], i->op == IR_SUB ? other : which);
	return x && y ? ir_bin(b, i->op, x, y) : NULL;
}
