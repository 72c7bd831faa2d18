/* stage.c -- loads by way of group memory.
 * In: loads that pass_loads.c has marked.  Out: each lane has its pieces copied to places of its own, without registers, and takes one from there
 * when it is first used.  So what is wanted behind a reduction is on its way with the row, and nothing holds it over the wait.  In a loop there
 * are places for several rounds: each round asks for what a later one loads, so that this is on its way while those between are computed.
 * Where less is to be on its way at a time, a round asks for half behind its waves' wait for each other (variant.late).
 * No lane reads what another had copied: there is no barrier.  Accesses of other sizes, and of masks, come to registers as all do. */
#include "machine.h"
#include "memory.h"

#include "../../pass.h"

enum { PIECE = 16 };

/* at: of the first piece; the lanes' lie side by side, a lane's next one behind those of all.  lane: of this one, in the places of its round. */
struct staged { int at, width, row; LLVMValueRef lane; };

static bool can_stage(const struct emit *e, const struct access *a)
{
	return e->machine->stage && access_bytes(a) == PIECE && !a->pairs && !a->torn && a->i->dtype != DT_I1;
}

static struct staged *places_for(struct emit *e, const struct access *a)
{
	struct staged *s = arena_alloc(e->arena, sizeof *s);
	*s = (struct staged){.at = (e->lds_small_bytes + PIECE - 1) / PIECE * PIECE, .width = a->width, .row = PIECE * e->waves << emit_lane_bits(e)};
	s->lane = op_times(e, e->tid, PIECE);
	e->lds_small_bytes = s->at + layout_regs(a->l) / a->width * s->row;
	return s;
}

static LLVMValueRef place_of(struct emit *e, const struct staged *s, LLVMValueRef lane, int reg)
{
	return lds_pointer(e, e->lds_small, lane, s->at + reg / s->width * s->row);
}

bool stage_load(struct emit *e, const struct access *a)
{
	struct value *v = &e->values[a->i->id];
	if (!can_stage(e, a) || e->loop_depth)
		return false;
	struct staged *s = places_for(e, a);
	for (int r = 0; r < layout_regs(a->l); r += a->width)
		e->machine->stage(e, a, r, place_of(e, s, s->lane, r));
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
		e->machine->staged(e, 0);
	e->unread = false;
	LLVMValueRef x = LLVMBuildLoad2(e->b, emit_vector(e->i32, PIECE / 4), place_of(e, s, s->lane, first), "");
	LLVMSetAlignment(x, PIECE);
	value_loaded(e, i, first, s->width, x);
}

/* --- rounds of a loop ------------------------------------------------------------------------------------------------------- */

void stage_each(struct emit *e, const struct ir_ins *loop, void (*each)(struct emit *, const struct ir_ins *))
{
	struct as_of was = round_set(e, loop, emit_int(e, 0));
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		if (i->op == IR_LOAD && i->flags & IR_STAGED)
			each(e, i);
	round_set_back(e, loop, &was);
}

/* This lane's place of round `at`, behind the constant part. */
static LLVMValueRef lane_in_round(struct emit *e, const struct stage_ring *ring, LLVMValueRef at)
{
	LLVMValueRef round = LLVMBuildURem(e->b, at, emit_int(e, e->v->rounds), "");
	return LLVMBuildAdd(e->b, op_times(e, e->tid, PIECE), op_times(e, round, ring->bytes), "");
}

/* What round `at` (i32) loads, if there is one: of its loads those from number `k` on below `n`. */
static void ask(struct emit *e, struct stage_ring *ring, LLVMValueRef at, LLVMValueRef end, int k, int n)
{
	LLVMValueRef there = LLVMBuildICmp(e->b, LLVMIntSLT, at, end, ""), lane = lane_in_round(e, ring, at);
	struct as_of was = round_set(e, ring->loop, at);
	for (; k < n; k++) {
		const struct ir_ins *load = ring->loads[k];
		struct access a;
		access_open(e, &a, load, load->layout);
		if (e->ring && ring->growth[k].by)
			growth_take(e, &ring->growth[k], &a);
		for (int r = 0; r < layout_regs(a.l); r += a.width) {
			a.on = NULL;
			a.on = emit_both(e, access_condition(e, &a, r), there);
			e->machine->stage(e, &a, r, place_of(e, e->values[load->id].staged, lane, r));
		}
	}
	if (n == ring->n)
		e->machine->stage_close(e);
	round_set_back(e, ring->loop, &was);
}

/* Loads of a number for the round, as the first round has them: its row is there, or they are masked by that (pass_carry.c).  Where a workgroup has a row
 * or none, they wait for their round. */
static void find_numbers(struct emit *e, struct stage_ring *ring)
{
	int n = 0;
	for (const struct ir_ins *i = ring->loop->body->first; i; i = i->next)
		n += i->op == IR_LOAD;
	ring->numbers = arena_alloc(e->arena, sizeof *ring->numbers * (size_t)n);
	for (const struct ir_ins *i = ring->loop->body->first; ring->n && !e->v->few && i; i = i->next) {
		bool number = i->op == IR_LOAD && !(i->flags & IR_STAGED) && (!(i->flags & IR_MASKED) || e->v->uneven) && e->k->params[i->imm].role == IR_IN && dtype_info(i->dtype)->bits == 32 && (!i->layout || layout_regs(i->layout) == 1);
		if (!number)
			continue;
		emit_load(e, i);
		ring->numbers[ring->nnumbers++] = i;
	}
}

/* Each is loaded a round before it is used: its round does not wait for it. */
static void take_numbers(struct emit *e, struct stage_ring *ring, LLVMValueRef at, LLVMValueRef end)
{
	LLVMValueRef after = LLVMBuildAdd(e->b, at, emit_int(e, 1), ""), last = LLVMBuildSub(e->b, end, emit_int(e, 1), "");
	LLVMValueRef *first = arena_alloc(e->arena, sizeof *first * (size_t)(ring->nnumbers + 1));
	struct as_of was = round_set(e, ring->loop, LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, after, end, ""), after, last, ""));
	for (int k = 0; k < ring->nnumbers; k++) {
		first[k] = e->values[ring->numbers[k]->id].group[0];
		emit_load(e, ring->numbers[k]);
	}
	round_set_back(e, ring->loop, &was);
	for (int k = 0; k < ring->nnumbers; k++) {
		struct value *v = &e->values[ring->numbers[k]->id];
		v->group[0] = emit_from_round(e, first[k], v->group[0]);
		v->early = true;
	}
}

bool stage_enter_loop(struct emit *e, struct stage_ring *ring, const struct ir_ins *loop, LLVMValueRef *end)
{
	*ring = (struct stage_ring){.loop = loop};
	int begin = e->lds_small_bytes = (e->lds_small_bytes + PIECE - 1) / PIECE * PIECE, n = 0;
	for (const struct ir_ins *i = loop->body->first; i; i = i->next)
		n += i->op == IR_LOAD && i->flags & IR_STAGED;
	if (!n || e->ring || e->loop_depth || !e->machine->stage)
		return false;
	struct as_of was = round_set(e, loop, emit_int(e, 0));
	ring->loads = arena_alloc(e->arena, sizeof *ring->loads * (size_t)n);
	for (const struct ir_ins *i = loop->body->first; i; i = i->next) {
		struct access a;
		if (i->op != IR_LOAD || !(i->flags & IR_STAGED))
			continue;
		value_new(e, i);
		access_open(e, &a, i, i->layout);
		if (!can_stage(e, &a))
			continue;
		e->values[i->id].staged = places_for(e, &a);
		ring->loads[ring->n++] = i;
	}
	find_numbers(e, ring);
	round_set_back(e, loop, &was);
	ring->bytes = e->lds_small_bytes - begin;
	e->lds_small_bytes = begin + e->v->rounds * ring->bytes;
	if (!ring->n)
		return false;
	*end = teams_open(e, loop, *end);
	for (int r = 0; r < e->v->rounds - 1; r++)
		ask(e, ring, emit_int(e, r), *end, 0, ring->n);
	ring->growth = arena_alloc(e->arena, sizeof *ring->growth * (size_t)ring->n);
	growth_find(e, loop, ring->loads, ring->n, (const LLVMValueRef[]){emit_int(e, e->v->rounds - 1), emit_int(e, e->v->rounds)}, ring->growth);
	pace_begin(e, ring);
	return true;
}

void stage_ask_rest(struct emit *e)
{
	struct stage_ring *ring = e->ring;
	if (!ring || ring->rest == ring->n)
		return;
	ask(e, ring, ring->asked, ring->end, ring->rest, ring->n);
	ring->rest = ring->n;
}

void stage_begin_round(struct emit *e, struct stage_ring *ring, LLVMValueRef at, LLVMValueRef end)
{
	e->ring = ring;
	teams_enter_loop(e);
	ring->odd = LLVMBuildAnd(e->b, at, emit_int(e, 1), "");
	take_numbers(e, ring, at, end);
	e->machine->staged(e, e->v->rounds - 2);
	pace_wait(e, ring);
	ring->asked = LLVMBuildAdd(e->b, at, emit_int(e, e->v->rounds - 1), "");
	ring->end = end;
	ring->rest = e->v->late ? (ring->n + 1) / 2 : ring->n;
	ask(e, ring, ring->asked, end, 0, ring->rest);
	LLVMValueRef lane = lane_in_round(e, ring, at);
	for (int k = 0; k < ring->n; k++) {
		struct value *v = &e->values[ring->loads[k]->id];
		struct staged *here = arena_alloc(e->arena, sizeof *here);
		*here = *v->staged;
		here->lane = lane;
		v->staged = here;
	}
}

void stage_leave_loop(struct emit *e)
{
	e->machine->staged(e, 0);
	teams_leave_loop(e);
	e->ring = NULL;
}
