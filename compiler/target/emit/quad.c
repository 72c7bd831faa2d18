/* quad.c -- products of four waves together, and their operands' way through group memory, rounds of a loop ahead.
 * In: a loop over what products contract, whose plan says so (variant.quads).  Out: what a round loads for them is asked for AHEAD rounds before, by
 * copies that go past the registers, to one of SLOTS places in turn; a round waits for its own, then all waves for each other, and the products read them
 * there.  They are on their way while the next round is asked for and begun: a round ends when those of the round before are done, and so a place is
 * written again only when all waves have come past that.
 * Places have the instruction's form: rows of QUAD_ROW bytes along k, in which piece c of row r is the one numbered c ^ (r & 7): so the eight rows that
 * are read at a time lie in different banks. */
#include "machine.h"
#include "memory.h"

#include "../../affine.h"
#include "../../pass.h"

enum { SLOTS = 4, AHEAD = SLOTS - 2, PIECE = 16, TURN = 8, PLACE = TURN * QUAD_ROW };

static const struct quad *quad_of(const struct emit *e, const struct ir_ins *dot, struct quad_sides *s)
{
	int free[2] = {-1, -1};
	for (int n = 0; n < 2; n++)
		for (int a = 0; a < e->ph->naxes; a++)
			if ((dot->args[n]->axes & ~dot->over & IR_AXIS(a)) && e->ph->axes[a].tile > 1)
				free[n] = a;
	int a = free[0] < free[1] ? 0 : 1;               /* the instruction's own rows run along the earlier axis (pass_layout.c) */
	*s = (struct quad_sides){.arg = {a, !a}, .axis = {free[a], free[!a]}};
	return e->v->quads ? target_quad(e->v->target, dot->args[a]->dtype, dot->args[!a]->dtype) : NULL;
}

static bool is_brought(const struct emit *e, const struct ir_ins *loop, const struct ir_ins *operand)
{
	const struct ir_ins *load = operand->op == IR_RELAYOUT ? operand->args[0] : NULL;
	return load && operand->block == loop->body && load->op == IR_LOAD && load->block == loop->body && e->k->params[load->imm].role == IR_IN;
}

static void add_tile(struct emit *e, struct quads *q, const struct ir_ins *dot, int side, const struct quad_sides *s)
{
	const struct ir_ins *operand = dot->args[s->arg[side]];
	for (int t = 0; t < q->n; t++)
		if (q->tiles[t].operand == operand)
			return;
	int k = __builtin_ctz(axes_of_several(e->ph, dot->over)), row = e->ph->axes[k].tile * dtype_info(operand->dtype)->bits / 8;
	if (!is_brought(e, q->loop, operand) || row != QUAD_ROW || q->n == QUAD_TILES) {
		emit_fail(e, dot, "internal: this product's operands cannot come to group memory by themselves");
		return;
	}
	q->tiles[q->n++] = (struct quad_tile){operand->args[0], operand, s->axis[side], k, q->bytes};
	q->bytes += e->ph->axes[s->axis[side]].tile * QUAD_ROW;
}

static void find_tiles(struct emit *e, struct quads *q)
{
	for (const struct ir_ins *i = q->loop->body->first; i; i = i->next) {
		struct quad_sides s;
		if (i->op != IR_DOT || !quad_of(e, i, &s))
			continue;
		for (int side = 0; side < 2; side++)
			add_tile(e, q, i, side, &s);
	}
}

/* Where round `at` has its place, i32. */
static LLVMValueRef slot_of(struct emit *e, const struct quads *q, LLVMValueRef at)
{
	LLVMValueRef round = LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, at, q->start, ""), emit_int(e, e->ph->axes[q->loop->imm].tile), "");
	return op_times(e, LLVMBuildURem(e->b, round, emit_int(e, SLOTS), ""), q->bytes);
}

/* Of the lane's register `reg`, in the tile's place. */
static LLVMValueRef place_of(struct emit *e, const struct quad_tile *t, const struct layout *l, LLVMValueRef slot, int reg, int bytes)
{
	LLVMValueRef row = index_lane(e, l, t->free), piece = LLVMBuildLShr(e->b, op_times(e, index_lane(e, l, t->k), bytes), emit_int(e, 4), "");
	int more = index_register(l, reg, t->free), along = index_register(l, reg, t->k) * bytes;
	LLVMValueRef turned = LLVMBuildXor(e->b, piece, LLVMBuildAnd(e->b, row, emit_int(e, TURN - 1), ""), "");
	turned = op_times(e, LLVMBuildXor(e->b, turned, emit_int(e, along / PIECE ^ (more & (TURN - 1))), ""), PIECE);
	LLVMValueRef lane = LLVMBuildAdd(e->b, slot, LLVMBuildAdd(e->b, op_times(e, row, QUAD_ROW), turned, ""), "");
	return lds_pointer(e, e->lds, lane, t->at + more * QUAD_ROW + along % PIECE);
}

/* What the round at `at` multiplies, if there is one. */
static void ask(struct emit *e, struct quads *q, LLVMValueRef at, LLVMValueRef end)
{
	LLVMValueRef there = LLVMBuildICmp(e->b, LLVMIntSLT, at, end, ""), slot = slot_of(e, q, at);
	struct as_of was = round_set(e, q->loop, at);
	for (int t = 0; t < q->n && !e->failed; t++) {
		const struct ir_ins *load = q->tiles[t].load;
		struct access a;
		index_forget(e);
		access_open(e, &a, load, load->layout);
		if (!e->failed && access_bytes(&a) != PIECE) {
			emit_fail(e, load, "internal: operands of products do not come in pieces of 16 bytes");
			break;
		}
		for (int r = 0; r < layout_regs(a.l); r += a.width) {
			a.on = NULL;
			a.on = emit_both(e, access_condition(e, &a, r), there);
			e->machine->stage(e, &a, r, place_of(e, &q->tiles[t], a.l, slot, r, a.bytes));
		}
	}
	e->machine->stage_close(e);
	index_forget(e);
	round_set_back(e, q->loop, &was);
}

bool quads_enter_loop(struct emit *e, struct quads *q, const struct ir_ins *loop, LLVMValueRef start, LLVMValueRef end)
{
	*q = (struct quads){.loop = loop, .start = start};
	if (!e->v->quads || e->quads)
		return false;
	find_tiles(e, q);
	if (!q->n || e->failed)
		return false;
	if (e->loop_depth || e->lds_bytes || q->bytes % PLACE) {
		emit_fail(e, loop, "internal: no places in group memory for this loop's products");
		return false;
	}
	e->lds_bytes = SLOTS * q->bytes;
	e->lds_align = PLACE;
	for (int r = 0; r < AHEAD; r++)
		ask(e, q, LLVMBuildAdd(e->b, start, emit_int(e, r * e->ph->axes[loop->imm].tile), ""), end);
	return true;
}

void quads_begin_round(struct emit *e, struct quads *q, LLVMValueRef at, LLVMValueRef end)
{
	e->quads = q;
	e->lds_now.top = e->lds_bytes;
	q->slot = slot_of(e, q, at);
	e->machine->staged(e, AHEAD - 1);
	e->machine->quads_see(e);
	lds_barrier(e);
	q->ask_at = LLVMBuildAdd(e->b, at, emit_int(e, AHEAD * e->ph->axes[q->loop->imm].tile), "");
	q->end = end;
}

void quads_end_round(struct emit *e)
{
	struct quads *q = e->quads;
	ask(e, q, q->ask_at, q->end);
	e->machine->quads_wait(e, 1, NULL, 0);
	e->quads = NULL;
}

bool quads_bring(const struct emit *e, const struct ir_ins *i)
{
	for (int t = 0; e->quads && t < e->quads->n; t++)
		if (e->quads->tiles[t].load == i || e->quads->tiles[t].operand == i)
			return true;
	return false;
}

/* Of the waves' bits behind the first four waves what steps along the axis, in positions, the same for all four. */
static LLVMValueRef quad_position(struct emit *e, const struct layout *l, int axis)
{
	LLVMValueRef at = emit_int(e, 0);
	int lanes = emit_lane_bits(e);
	for (int w = 0; w < l->nwave; w++) {
		LLVMValueRef bit = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, e->tid, emit_int(e, lanes + w), ""), emit_int(e, 1), "");
		if (1 << w >= QUAD_WAVES && l->wave[w].step[axis])
			at = LLVMBuildAdd(e->b, at, op_times(e, bit, l->wave[w].step[axis]), "");
	}
	return LLVMIsConstant(at) ? at : e->machine->lane_read(e, at, emit_int(e, 0));
}

static const struct quad_tile *tile_of(const struct quads *q, const struct ir_ins *operand)
{
	const struct quad_tile *t = q->tiles;
	while (t->operand != operand)
		t++;
	return t;
}

/* The operand's place in this round, from the position on, in bytes of group memory. */
static LLVMValueRef place_from(struct emit *e, const struct quad_tile *t, LLVMValueRef position)
{
	LLVMValueRef at = LLVMBuildAdd(e->b, e->quads->slot, op_times(e, position, QUAD_ROW), "");
	return lds_pointer(e, e->lds, at, t->at);
}

/* Handed to what only carries it to the next round, where the product goes on from it. */
static bool goes_on(const struct emit *e, const struct ir_ins *dot)
{
	const struct ir_ins *yield = dot->block->last;
	bool carried = dot->flags & IR_ACC && dot->args[2]->op == IR_ARG && e->uses[dot->id] == 1 && yield->op == IR_YIELD;
	for (int a = 0; carried && a < yield->nargs; a++)
		if (yield->args[a] == dot)
			return dot->args[2] == dot->block->params[a] && e->uses[dot->args[2]->id] == 1;
	return false;
}

bool quad_dot(struct emit *e, const struct ir_ins *i)
{
	struct quad_sides s;
	const struct quad *m = e->quads ? quad_of(e, i, &s) : NULL;
	if (!m)
		return false;
	const struct layout *l = i->layout;
	int row = s.axis[0], col = s.axis[1], blocks = l->rep[row], n = l->rep[col], steps = QUAD_ROW * 8 / dtype_info(m->a)->bits / m->k;
	const struct quad_tile *a = tile_of(e->quads, i->args[s.arg[0]]), *b = tile_of(e->quads, i->args[s.arg[1]]);
	LLVMValueRef *d = arena_alloc(e->arena, sizeof *d * (size_t)n), first = quad_position(e, l, row);
	struct quad_operand of_b = {place_from(e, b, quad_position(e, l, col)), l->block[col] * QUAD_ROW};
	if (n * 8 > QUAD_MOST || l->block[row] % QUAD_ROWS) {
		emit_fail(e, i, "internal: four waves have no product of %d x %d", l->block[row], n * 8);
		return true;
	}
	value_new(e, i);
	for (int at = 0; at < blocks && !e->failed; at++) {
		struct quad_operand of_a = {place_from(e, a, LLVMBuildAdd(e->b, first, emit_int(e, at * l->block[row]), "")), PLACE};
		for (int c = 0; c < n; c++)
			d[c] = i->flags & IR_ACC ? value_vector(e, i->args[2], l, 4 * (at + blocks * c), 4) : LLVMConstNull(emit_vector(e->f32, 4));
		e->machine->quad_product(e, m, &of_a, &of_b, steps, d, n);
		for (int c = 0; c < n; c++)
			value_set(e, i, 4 * (at + blocks * c), 4, d[c]);
	}
	if (!goes_on(e, i))
		e->machine->quads_wait(e, 0, e->values[i->id].group, e->values[i->id].ngroups);
	return true;
}

void quads_leave_loop(struct emit *e, const struct quads *q)
{
	const struct ir_ins *yield = q->loop->body->last;
	for (int p = 0; p < q->loop->body->nparams; p++) {
		const struct ir_ins *dot = yield->args[p];
		struct value *v = &e->values[q->loop->body->params[p]->id];
		struct quad_sides s;
		if (dot->op == IR_DOT && dot->block == q->loop->body && quad_of(e, dot, &s) && goes_on(e, dot))
			e->machine->quads_wait(e, 0, v->group, v->ngroups);
	}
	e->machine->staged(e, 0);
	lds_barrier(e);
}
