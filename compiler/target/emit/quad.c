/* quad.c -- products of four waves together, and their operands' way through group memory, rounds of a loop ahead.
 * In: a loop with products, whose plan says so (variant.quads).  Out: what a round loads for them is asked for rounds before, by copies that go past the
 * registers, to one of several places in turn; a round waits for its own, then all waves for each other, and the products read them there.  Operands
 * that are made by lanes are written there, in the round, or once in front of the loop.
 * Sums that go from round to round and nowhere else are under way while the next round is begun: a round then ends when those of the round before are done,
 * and a place is written again only when all waves have come past that; there are as many places as group memory has, up to six, so that what comes from far
 * away is asked for in time.  Where a round waits for its own products, the next one's place is free
 * when all waves have met.
 * Places have the instruction's form: blocks of rows of QUAD_ROW bytes, in which piece c of row r is the one numbered c ^ (r & 7): so the eight rows that
 * are read at a time lie in different banks. */
#include "machine.h"
#include "memory.h"

#include "../../affine.h"
#include "../../pass.h"

enum { PIECE = 16, TURN = QUAD_TURN, PLACE = TURN * QUAD_ROW, PIECES = QUAD_ROW / PIECE };

static const struct quad *quad_of(const struct emit *e, const struct ir_ins *dot, struct quad_sides *s)
{
	int free[2] = {dot_axis(e, dot->args[0]->axes & ~dot->over), dot_axis(e, dot->args[1]->axes & ~dot->over)};
	int a = free[0] < free[1] ? 0 : 1;               /* the instruction's own rows run along the earlier axis (pass_layout.c) */
	*s = (struct quad_sides){.arg = {a, !a}, .axis = {free[a], free[!a]}};
	return e->v->quads ? target_quad(e->v->target, dot->args[a]->dtype, dot->args[!a]->dtype) : NULL;
}

/* What a round of the loop loads for it, and nothing else does, in whole pieces; NULL = it does not come so. */
static const struct ir_ins *brought(struct emit *e, const struct ir_ins *loop, const struct ir_ins *operand)
{
	const struct ir_ins *load = operand->op == IR_RELAYOUT && operand->block == loop->body ? operand->args[0] : NULL;
	struct access a;
	if (!load || load->op != IR_LOAD || load->block != loop->body || e->k->params[load->imm].role != IR_IN || e->uses[load->id] != 1)
		return NULL;
	access_open(e, &a, load, load->layout);
	return access_bytes(&a) == PIECE && a.loose < 0 && !a.torn ? load : NULL;
}

static void add_tile(struct emit *e, struct quads *q, const struct ir_ins *dot, const struct ir_ins *operand, int free)
{
	if (operand->op != IR_RELAYOUT) {
		emit_fail(e, dot, "internal: an operand of four waves that moves nowhere");
		return;
	}
	const struct ir_ins *load = brought(e, q->loop, operand);
	const struct ir_param *t = load ? &e->k->params[load->imm] : NULL;
	const struct layout *from = operand->args[0]->layout;
	int k = dot_axis(e, dot->over);
	struct affine last = t ? affine_of(load->args[t->rank - 1]) : (struct affine){.ok = false};
	bool across = t ? last.ok && last.coef[free] == 1 : layout_vector(from, free) > layout_vector(from, k), fixed = operand->block != q->loop->body;
	struct quad_tile tile = {load, operand, across ? k : free, across ? free : k, fixed ? q->fixed : q->bytes, fixed};
	int row = e->ph->axes[tile.inner].tile * dtype_info(operand->dtype)->bits / 8, rows = e->ph->axes[tile.rows].tile;
	if (row % QUAD_ROW || rows % TURN || q->n == QUAD_TILES) {
		emit_fail(e, dot, "internal: this product's operands do not lie in group memory as four waves read them");
		return;
	}
	q->tiles[q->n++] = tile;
	*(fixed ? &q->fixed : &q->bytes) += rows * row;
}

static const struct quad_tile *tile_of(const struct quads *q, const struct ir_ins *operand)
{
	for (int t = 0; t < q->n; t++)
		if (q->tiles[t].operand == operand)
			return &q->tiles[t];
	return NULL;
}

/* Each round's is another, whatever is moved in front of the loop. */
static bool is_of_round(const struct ir_ins *i, const struct ir_block *body)
{
	bool other = i->op == IR_ARG || i->op == IR_LOAD || i->op == IR_IOTA || i->op == IR_DOT;
	for (int a = 0; !other && a < i->nargs; a++)
		other = i->args[a]->block == body && is_of_round(i->args[a], body);
	return other && i->block == body;
}

/* Of the instruction's own rows each wave has its own, in registers, made in this round: ptxas, 12.9 and 13.0, takes such registers for free behind the
 * product, also where the next round reads them again. */
static bool is_in_registers(const struct emit *e, const struct ir_ins *dot, const struct ir_ins *operand)
{
	return is_of_round(operand, dot->block) && (operand->op != IR_RELAYOUT || relayout_stays(e, operand));
}

/* Handed to what only carries it to the next round, where the product goes on from it.  Rows in registers are written again there: it waits then. */
static bool goes_on(const struct emit *e, const struct ir_ins *dot)
{
	struct quad_sides s;
	const struct ir_ins *yield = dot->block->last;
	bool carried = quad_of(e, dot, &s) && !is_in_registers(e, dot, dot->args[s.arg[0]]) && dot->flags & IR_ACC && dot->args[2]->op == IR_ARG && e->uses[dot->id] == 1 && yield->op == IR_YIELD;
	for (int a = 0; carried && a < yield->nargs; a++)
		if (yield->args[a] == dot)
			return dot->args[2] == dot->block->params[a] && e->uses[dot->args[2]->id] == 1;
	return false;
}

/* Which of a product's operands are read from group memory: all but what waves have in registers. */
static void find_tiles(struct emit *e, struct quads *q)
{
	for (const struct ir_ins *i = q->loop->body->first; i; i = i->next) {
		struct quad_sides s;
		if (i->op != IR_DOT || !quad_of(e, i, &s))
			continue;
		for (int side = 0; side < 2 && !e->failed; side++) {
			const struct ir_ins *operand = i->args[s.arg[side]];
			if ((side || !is_in_registers(e, i, operand)) && !tile_of(q, operand))
				add_tile(e, q, i, operand, s.axis[side]);
		}
		q->under_way = q->under_way || goes_on(e, i);
	}
}

/* Where round `at` has its place, i32. */
static LLVMValueRef slot_of(struct emit *e, const struct quads *q, LLVMValueRef at)
{
	LLVMValueRef round = LLVMBuildUDiv(e->b, LLVMBuildSub(e->b, at, q->start, ""), emit_int(e, e->ph->axes[q->loop->imm].tile), "");
	return op_times(e, LLVMBuildURem(e->b, round, emit_int(e, q->slots), ""), q->bytes);
}

/* Of the lane's register `reg`, in the tile's place. */
static LLVMValueRef place_of(struct emit *e, const struct quad_tile *t, const struct layout *l, LLVMValueRef slot, int reg, int bytes)
{
	int block = e->ph->axes[t->rows].tile * QUAD_ROW, more = index_register(l, reg, t->rows), along = index_register(l, reg, t->inner) * bytes;
	LLVMValueRef row = index_lane(e, l, t->rows), byte = op_times(e, index_lane(e, l, t->inner), bytes);
	LLVMValueRef piece = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, byte, emit_int(e, __builtin_ctz(PIECE)), ""), emit_int(e, PIECES - 1), "");
	LLVMValueRef turned = LLVMBuildXor(e->b, piece, LLVMBuildAnd(e->b, row, emit_int(e, TURN - 1), ""), "");
	turned = op_times(e, LLVMBuildXor(e->b, turned, emit_int(e, along / PIECE % PIECES ^ (more & (TURN - 1))), ""), PIECE);
	LLVMValueRef lane = LLVMBuildAdd(e->b, slot, LLVMBuildAdd(e->b, op_times(e, row, QUAD_ROW), turned, ""), "");
	if (e->ph->axes[t->inner].tile * bytes > QUAD_ROW)
		lane = LLVMBuildAdd(e->b, lane, op_times(e, LLVMBuildLShr(e->b, byte, emit_int(e, __builtin_ctz(QUAD_ROW)), ""), block), "");
	if (bytes << layout_vector(l, t->inner) < PIECE)
		lane = LLVMBuildAdd(e->b, lane, LLVMBuildAnd(e->b, byte, emit_int(e, PIECE - 1), ""), "");
	return lds_pointer(e, e->lds, lane, t->at + more * QUAD_ROW + along / QUAD_ROW * block + along % PIECE);
}

/* An operand that lanes have in registers. */
static void write_tile(struct emit *e, const struct quad_tile *t, LLVMValueRef slot)
{
	const struct ir_ins *v = t->operand->args[0];
	const struct layout *l = v->layout;
	int bytes = dtype_info(v->dtype)->bits / 8, run = 1 << layout_vector(l, t->inner);
	LLVMValueRef once = index_is_first_copy(e, l, false), join = once ? emit_if_begin(e, once) : NULL;
	while (run * bytes > PIECE)
		run /= 2;
	for (int r = 0; r < layout_regs(l); r += run)
		LLVMSetAlignment(LLVMBuildStore(e->b, value_vector(e, v, l, r, run), place_of(e, t, l, slot, r, bytes)), (unsigned)(run * bytes));
	if (once)
		emit_if_end(e, join);
	e->quads_unseen = true;
}

/* What the round at `at` multiplies, if there is one. */
static void ask(struct emit *e, struct quads *q, LLVMValueRef at, LLVMValueRef end)
{
	LLVMValueRef there = LLVMBuildICmp(e->b, LLVMIntSLT, at, end, ""), slot = slot_of(e, q, at);
	struct as_of was = round_set(e, q->loop, at);
	for (int t = 0; t < q->n && !e->failed; t++) {
		const struct ir_ins *load = q->tiles[t].load;
		struct access a;
		if (!load)
			continue;
		index_forget(e);
		access_open(e, &a, load, load->layout);
		if (q->grows && q->growth[t].by)
			growth_take(e, &q->growth[t], &a);
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

/* From the first round on that is asked for in the loop. */
static void find_growth(struct emit *e, struct quads *q)
{
	int tile = e->ph->axes[q->loop->imm].tile;
	LLVMValueRef round[2];
	for (int r = 0; r < 2; r++)
		round[r] = LLVMBuildAdd(e->b, q->start, emit_int(e, (q->ahead + r) * tile), "");
	for (int t = 0; t < q->n; t++)
		if (q->tiles[t].load)
			growth_find(e, q->loop, &q->tiles[t].load, 1, round, &q->growth[t]);
	q->grows = true;
}

/* Of sums under way: as many as there is room for, where no other tile of the loop needs it. */
static int places_of(const struct emit *e, const struct quads *q)
{
	int room = (e->v->target->lds_bytes - q->fixed) / q->bytes;
	for (const struct ir_ins *i = q->loop->body->first; i; i = i->next)
		room = i->op == IR_RELAYOUT && !tile_of(q, i) ? QUAD_SLOTS : room;
	return room < QUAD_SLOTS ? QUAD_SLOTS : room < QUAD_MOST_SLOTS ? room : QUAD_MOST_SLOTS;
}

bool quads_enter_loop(struct emit *e, struct quads *q, const struct ir_ins *loop, LLVMValueRef start, LLVMValueRef end)
{
	*q = (struct quads){.loop = loop, .start = start};
	if (!e->v->quads || e->quads)
		return false;
	struct as_of was = round_set(e, loop, start);
	find_tiles(e, q);
	round_set_back(e, loop, &was);
	if (!q->n || e->failed)
		return false;
	if (e->loop_depth || q->bytes % PLACE || q->fixed % PLACE) {
		emit_fail(e, loop, "internal: no places in group memory for this loop's products");
		return false;
	}
	if (e->lds_bytes)                                /* others may still read what lies there */
		lds_barrier(e);
	q->slots = q->under_way ? places_of(e, q) : QUAD_SLOTS / 2;
	q->ahead = q->under_way ? q->slots - 2 : q->slots - 1;
	q->all = q->slots * q->bytes + q->fixed;
	e->lds_bytes = e->lds_bytes > q->all ? e->lds_bytes : q->all;
	e->lds_align = PLACE;
	for (int t = 0; t < q->n; t++)
		if (q->tiles[t].fixed) {                     /* behind the rounds' places */
			q->tiles[t].at += q->slots * q->bytes;
			write_tile(e, &q->tiles[t], emit_int(e, 0));
		}
	for (int r = 0; r < q->ahead; r++)
		ask(e, q, LLVMBuildAdd(e->b, start, emit_int(e, r * e->ph->axes[loop->imm].tile), ""), end);
	find_growth(e, q);
	e->quads = q;
	return true;
}

void quads_begin_round(struct emit *e, struct quads *q, LLVMValueRef at, LLVMValueRef end)
{
	e->lds_now.top = q->all;
	q->slot = slot_of(e, q, at);
	e->machine->staged(e, q->ahead - 1);
	e->machine->quads_see(e);
	lds_barrier(e);
	e->quads_unseen = false;
	q->ask_at = LLVMBuildAdd(e->b, at, emit_int(e, q->ahead * e->ph->axes[q->loop->imm].tile), "");
	q->end = end;
	if (!q->under_way)
		ask(e, q, q->ask_at, q->end);
}

void quads_end_round(struct emit *e)
{
	struct quads *q = e->quads;
	if (q->under_way) {
		ask(e, q, q->ask_at, q->end);
		e->machine->quads_wait(e, 1, NULL, 0);
	}
	e->quads = NULL;
}

struct readers { const struct emit *e; const struct ir_ins *of; int quads, all; };

static void look_at_reader(struct ir_ins *i, void *ctx)
{
	struct readers *r = ctx;
	struct quad_sides s;
	for (int a = 0; a < i->nargs; a++) {
		if (i->args[a] != r->of)
			continue;
		r->all++;
		r->quads += i->op == IR_DOT && a < 2 && quad_of(r->e, i, &s) && (a == s.arg[1] || !is_in_registers(r->e, i, r->of));
	}
}

bool quads_bring(const struct emit *e, const struct ir_ins *load)
{
	bool brings = false;
	for (int t = 0; e->quads && t < e->quads->n; t++)
		brings = brings || e->quads->tiles[t].load == load;
	return brings;
}

/* Nobody but products reads it, from group memory. */
static bool is_operand(const struct emit *e, const struct ir_ins *relayout)
{
	struct readers r = {e, relayout, 0, 0};
	if (e->v->quads)
		ir_walk(e->ph->body, look_at_reader, &r);
	return r.quads && r.quads == r.all;
}

bool quads_move(struct emit *e, const struct ir_ins *relayout)
{
	if (!is_operand(e, relayout))
		return false;
	const struct quad_tile *t = e->quads ? tile_of(e->quads, relayout) : NULL;
	if (t && !t->load)
		write_tile(e, t, e->quads->slot);
	return true;
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

/* The operand in this round, from the position of its free axis on, which of what lies across begins a block; `step` positions of what is contracted a step. */
static struct quad_operand operand_from(struct emit *e, const struct quad_tile *t, int free, LLVMValueRef position, int apart, const struct quad *m)
{
	int block = e->ph->axes[t->rows].tile * QUAD_ROW, bytes = dtype_info(m->a)->bits / 8, step = m->k * bytes;
	bool across = t->inner == free;
	LLVMValueRef from = across ? op_times(e, LLVMBuildUDiv(e->b, position, emit_int(e, QUAD_ROW / bytes), ""), block) : op_times(e, position, QUAD_ROW);
	LLVMValueRef at = LLVMBuildAdd(e->b, t->fixed ? emit_int(e, 0) : e->quads->slot, from, "");
	struct quad_operand o = {.place = lds_pointer(e, e->lds, at, t->at), .across = across, .apart = across ? PLACE : apart * QUAD_ROW, .blocks = block};
	o.step = across ? m->k * QUAD_ROW : step;
	o.steps = across ? e->ph->axes[t->rows].tile / m->k : QUAD_ROW / step;
	return o;
}

bool quad_dot(struct emit *e, const struct ir_ins *i)
{
	struct quad_sides s;
	const struct quad *m = e->quads ? quad_of(e, i, &s) : NULL;
	if (!m)
		return false;
	const struct layout *l = i->layout;
	int row = s.axis[0], col = s.axis[1], blocks = l->rep[row], n = l->rep[col], steps = e->ph->axes[dot_axis(e, i->over)].tile / m->k;
	const struct mfma *own = target_mfma(e->v->target, m->b, m->a, e->ph->axes[dot_axis(e, i->over)].tile);
	const struct quad_tile *a = tile_of(e->quads, i->args[s.arg[0]]), *b = tile_of(e->quads, i->args[s.arg[1]]);
	LLVMValueRef *d = arena_alloc(e->arena, sizeof *d * (size_t)n), first = a ? quad_position(e, l, row) : NULL, beside = quad_position(e, l, col);
	if (n * 8 > QUAD_MOST || l->block[row] % QUAD_ROWS || own->k != m->k || (b->inner == col && l->block[col] != 8)) {
		emit_fail(e, i, "internal: four waves have no product of %d x %d", l->block[row], n * 8);
		return true;
	}
	struct quad_operand of_b = operand_from(e, b, col, beside, l->block[col], m), of_a = {0};
	value_new(e, i);
	if (e->quads_unseen) {                           /* written since the round began */
		e->machine->quads_see(e);
		lds_barrier(e);
		e->quads_unseen = false;
	}
	for (int at = 0; at < blocks && !e->failed; at++) {
		int position = at * l->block[row];
		if (a)
			of_a = operand_from(e, a, row, LLVMBuildAdd(e->b, first, emit_int(e, position), ""), TURN, m);
		else
			of_a.words = dot_words(e, i, s.arg[0], row, position, own);
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
		if (dot->op == IR_DOT && dot->block == q->loop->body && goes_on(e, dot))
			e->machine->quads_wait(e, 0, v->group, v->ngroups);
	}
	e->machine->staged(e, 0);
	lds_barrier(e);
}
