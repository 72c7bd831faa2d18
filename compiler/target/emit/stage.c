/* stage.c -- loads by way of group memory.
 * In: a load that pass_loads.c has marked, of a phase without branches.  Out: each lane has its pieces copied to places of its own, without registers,
 * and takes one from there when it is first used.  So what is wanted behind a reduction is on its way with the row, and nothing holds it
 * over the wait.  No lane reads what another had copied: there is no barrier.  Accesses of other sizes come to registers as all do. */
#include "machine.h"
#include "memory.h"

enum { PIECE = 16 };

/* at: of the first piece; the lanes' lie side by side, a lane's next one behind those of all. */
struct staged { int at, width, row; LLVMValueRef lane; };

bool stage_load(struct emit *e, const struct access *a)
{
	struct value *v = &e->values[a->i->id];
	int regs = layout_regs(a->l);
	if (!e->machine->stage || access_bytes(a) != PIECE || a->pairs || a->torn || e->loop_depth)
		return false;
	struct staged *s = arena_alloc(e->arena, sizeof *s);
	*s = (struct staged){.at = (e->lds_small_bytes + PIECE - 1) / PIECE * PIECE, .width = a->width, .row = PIECE * e->waves << emit_lane_bits(e)};
	s->lane = op_times(e, e->tid, PIECE);
	e->lds_small_bytes = s->at + regs / a->width * s->row;
	for (int r = 0; r < regs; r += a->width)
		e->machine->stage(e, a, r, lds_pointer(e, e->lds_small, s->lane, s->at + r / a->width * s->row));
	v->staged = s;
	e->unread = true;
	return true;
}

void stage_take(struct emit *e, const struct ir_ins *i, int reg)
{
	struct value *v = &e->values[i->id];
	const struct staged *s = v->staged;
	int first = reg / s->width * s->width;
	if (v->group[first / v->pack])
		return;
	if (e->unread)
		e->machine->staged(e);
	e->unread = false;
	LLVMValueRef x = LLVMBuildLoad2(e->b, emit_vector(e->i32, PIECE / 4), lds_pointer(e, e->lds_small, s->lane, s->at + first / s->width * s->row), "");
	LLVMSetAlignment(x, PIECE);
	value_loaded(e, i, first, s->width, x);
}
