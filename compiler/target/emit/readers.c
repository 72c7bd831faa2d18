/* readers.c -- a tensor that a phase reads and writes: a workgroup's waves have read an element before one of them stores to it.
 * In: a store of a kernel under translation.  Out: barriers around it, where other waves than the one that stores an element read it: those
 * that hold copies, or another part of the tile.  A wave's own accesses stay in order without. */
#include "machine.h"

struct readers { const struct emit *e; const struct ir_ins *store; bool others; };

static void look_at(struct ir_ins *i, void *ctx)
{
	struct readers *r = ctx;
	const struct layout *l = i->layout, *stored = r->store->layout;
	if (i->op != IR_LOAD || i->imm != r->store->imm)
		return;
	r->others = r->others || !l || !stored || !layout_equal(l, stored);
	for (int b = 0; l && b < l->nwave; b++)
		r->others = r->others || layout_basis_is_zero(&l->wave[b]);
}

static bool others_read(const struct emit *e, const struct ir_ins *store)
{
	struct readers r = {e, store, false};
	if (e->waves > 1)
		ir_walk(e->ph->body, look_at, &r);
	return r.others;
}

void readers_before_store(struct emit *e, const struct ir_ins *store)
{
	if (others_read(e, store))
		e->machine->memory_barrier(e);
}

void readers_after_store(struct emit *e, const struct ir_ins *store)
{
	if (e->loop_depth && others_read(e, store))
		e->machine->memory_barrier(e);
}
