/* pass_next.c
 * Problem: a workgroup that takes many rows one after the other (pass_carry.c) waits for each row's loads in its own round, where no ring of group
 *          memory brings rows meanwhile.
 * Method:  a round loads what the next one's reductions wait for, or all of it where nothing is reduced; the loop carries it, in registers.  What is used
 *          behind the reductions alone has them to come in.  Behind the last row the last one is asked for again, which nothing uses.  Masks and
 *          positions that do not vary from round to round move in front of the loop, whose first row is loaded there.
 * Needs:   IR that pass_carry has left, cleaned.   Keeps: values exactly. */
#include "pass.h"

#include <string.h>

enum { MOST_LOADS = 8 };

static void move_out(struct ir_ins *loop, struct ir_ins *i)
{
	if (i->block != loop->body || i->op == IR_ARG)
		return;
	for (int a = 0; a < i->nargs; a++)
		move_out(loop, i->args[a]);
	ir_move(i, loop);
}

/* Where a round's row is, first + round * by; NULL = the load is not of one. */
static const struct ir_ins *row_of(const struct pass *p, const struct ir_ins *loop, const struct ir_ins *i)
{
	bool row = i->op == IR_LOAD && p->k->params[i->imm].role == IR_IN && !p->k->params[i->imm].list && i->args[0]->op == IR_ADD;
	return row && i->args[0]->block == loop->body && i->args[0]->args[1]->op == IR_MUL ? i->args[0] : NULL;
}

/* Whether a reduction of the loop's body is made of it; NULL: whether there is one. */
static bool is_reduced(const struct pass *p, const struct ir_ins *loop, const struct ir_ins *load)
{
	bool *made = arena_alloc(p->k->arena, (size_t)p->k->next_id * sizeof *made + 1), found = false;
	for (const struct ir_ins *i = loop->body->first; i && !found; i = i->next) {
		bool reduces = i->op == IR_REDUCE && !ir_is_tile_bound(i) && (i->args[0]->axes & i->over);
		made[i->id] = i == load || !load;
		for (int a = 0; a < i->nargs; a++)
			made[i->id] = made[i->id] || made[i->args[a]->id];
		found = reduces && made[i->id] && i->dtype == DT_F32;
	}
	return found;
}

/* The same load of another row. */
static struct ir_ins *load_of(struct ir_builder *b, const struct pass *p, const struct ir_ins *load, struct ir_ins *row)
{
	int rank = p->k->params[load->imm].rank;
	struct ir_ins *subs[6];
	memcpy(subs, load->args, (size_t)rank * sizeof *subs);
	subs[0] = row;
	return ir_load(b, (int)load->imm, subs, load->flags & IR_MASKED ? load->args[load->nargs - 1] : NULL);
}

/* A list of pointers with as many more behind it. */
static struct ir_ins **longer(struct pass *p, struct ir_ins **list, int n, struct ir_ins *const *more, int nmore)
{
	struct ir_ins **all = arena_alloc(p->k->arena, (size_t)(n + nmore) * sizeof *all);
	memcpy(all, list, (size_t)n * sizeof *all);
	memcpy(all + n, more, (size_t)nmore * sizeof *all);
	return all;
}

static void load_next(struct pass *p, struct ir_phase *ph, struct ir_ins *loop, const struct hexpr *rows)
{
	struct ir_ins *load[MOST_LOADS], *begin[MOST_LOADS], *arg[MOST_LOADS], *next[MOST_LOADS], *yield = loop->body->last;
	int n = loop->body->nparams, loads = 0;
	bool reduces = is_reduced(p, loop, NULL);
	for (struct ir_ins *i = loop->body->first; i; i = i->next)
		if (loads < MOST_LOADS && row_of(p, loop, i) && (!reduces || is_reduced(p, loop, i)))
			load[loads++] = i;
	for (int k = 0; k < loads; k++) {
		for (int a = 1; a < load[k]->nargs; a++)
			move_out(loop, load[k]->args[a]);
		struct ir_builder out = pass_before(p, ph, loop), in = pass_before(p, ph, load[k]);
		struct ir_ins *row = load[k]->args[0], *last = ir_bin(&out, IR_SUB, ir_hexpr(&out, rows), ir_int(&out, DT_I32, 1));
		begin[k] = load_of(&out, p, load[k], ir_bin(&out, IR_MIN, row->args[0], last));
		next[k] = load_of(&in, p, load[k], ir_bin(&in, IR_MIN, ir_bin(&in, IR_ADD, row, row->args[1]->args[1]), last));
		arg[k] = arena_alloc(p->k->arena, sizeof *arg[k]);
		*arg[k] = (struct ir_ins){.op = IR_ARG, .dtype = load[k]->dtype, .axes = load[k]->axes, .imm = n + k, .block = loop->body, .id = p->k->next_id++, .line = loop->line};
	}
	loop->args = longer(p, loop->args, 2 + n, begin, loads);
	loop->body->params = longer(p, loop->body->params, n, arg, loads);
	yield->args = longer(p, yield->args, n, next, loads);
	loop->nargs += loads;
	yield->nargs = loop->body->nparams = n + loads;
	for (int k = 0; k < loads; k++) {
		ir_replace(p->k, load[k], arg[k]);
		ir_remove(load[k]);
	}
}

/* Rows that the loop's loads are of. */
static const struct hexpr *rows_of(const struct pass *p, const struct ir_ins *loop)
{
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		if (row_of(p, loop, i))
			return p->k->params[i->imm].extent[0];
	return NULL;
}

int pass_next(struct pass *p)
{
	struct ir_phase *ph = &p->k->phases[0];
	if (!p->v->next)
		return 0;
	for (struct ir_ins *loop = ph->body->first; loop; loop = loop->next) {
		const struct hexpr *rows = loop->op == IR_FOR ? rows_of(p, loop) : NULL;
		if (rows)
			load_next(p, ph, loop, rows);
	}
	return pass_clean(p);
}
