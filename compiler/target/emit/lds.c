/* lds.c -- what crosses lanes and waves: exchanges inside a wave, LDS addresses, barriers, moves between layouts.
 * In: values under one layout.  Out: the same elements under another; where each wave has what its lanes need and exchanges cost little, by
 * asking those that have it, else through LDS.  A tile in LDS is written once, read after a
 * barrier, and its place reused behind another. */
#include "machine.h"

#include <limits.h>

enum { SMALL_TILE = 2048 };

LLVMValueRef lds_pointer(struct emit *e, LLVMValueRef base, LLVMValueRef byte, int constant)
{
	LLVMValueRef p = base, at = constant ? emit_int(e, constant) : NULL;
	if (byte)
		p = LLVMBuildGEP2(e->b, e->i8, p, &byte, 1, "");
	return at ? LLVMBuildGEP2(e->b, e->i8, p, &at, 1, "") : p;
}

void lds_barrier(struct emit *e)
{
	e->machine->barrier(e);
	e->lds_now.written = false;
	e->lds_now.met = true;
	for (int r = 0; r < e->lds_now.nregions; r++)
		e->lds_now.regions[r].dirty = false;
}

void lds_meet(struct emit *e, const struct lds_state *other)
{
	struct lds_state *now = &e->lds_now;
	for (int r = 0; r < other->nregions; r++) {
		bool known = false;
		for (int k = 0; k < now->nregions; k++)
			if (now->regions[k].at == other->regions[r].at && now->regions[k].size == other->regions[r].size) {
				now->regions[k].dirty = now->regions[k].dirty || other->regions[r].dirty;
				known = true;
			}
		if (!known && now->nregions < LDS_REGIONS)
			now->regions[now->nregions++] = other->regions[r];
	}
	now->top = now->top > other->top ? now->top : other->top;
	now->written = now->written || other->written;
	now->met = now->met && other->met;
}

void lds_enter_loop(struct emit *e)
{
	if (!e->loop_depth)
		e->lds_now.top = 0;
	e->lds_now.met = false;
	for (int r = 0; r < e->lds_now.nregions; r++)
		e->lds_now.regions[r].dirty = true;
}

LLVMValueRef emit_if_begin(struct emit *e, LLVMValueRef cond)
{
	LLVMBasicBlockRef then = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), join = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMBuildCondBr(e->b, cond, then, join);
	LLVMPositionBuilderAtEnd(e->b, then);
	return LLVMBasicBlockAsValue(join);
}

void emit_if_end(struct emit *e, LLVMValueRef join)
{
	LLVMBuildBr(e->b, LLVMValueAsBasicBlock(join));
	LLVMPositionBuilderAtEnd(e->b, LLVMValueAsBasicBlock(join));
}

LLVMValueRef lane_xor(struct emit *e, LLVMValueRef v, int bit, bool lower_equal)
{
	LLVMTypeRef t = LLVMTypeOf(v);
	if (t == e->i64) {                               /* by halves */
		LLVMTypeRef two = emit_vector(e->i32, 2);
		LLVMValueRef halves = LLVMBuildBitCast(e->b, v, two, ""), out = LLVMGetPoison(two);
		for (int h = 0; h < 2; h++) {
			LLVMValueRef x = lane_xor(e, LLVMBuildExtractElement(e->b, halves, emit_int(e, h), ""), bit, lower_equal);
			out = LLVMBuildInsertElement(e->b, out, x, emit_int(e, h), "");
		}
		return LLVMBuildBitCast(e->b, out, t, "");
	}
	return LLVMBuildBitCast(e->b, e->machine->lane_xor(e, v, bit, lower_equal), t, "");
}

/* --- moves ------------------------------------------------------------------------------------------------------------------ */

/* Of what varies with `axes` alone. */
static bool same_lanes(const struct emit *e, const struct layout *a, const struct layout *b, ir_axes axes)
{
	for (int bit = 0; bit < a->nlane + a->nwave; bit++)
		for (int x = 0; x < e->ph->naxes; x++) {
			if (!(axes & IR_AXIS(x)))
				continue;
			int sa = bit < a->nlane ? a->lane[bit].step[x] : a->wave[bit - a->nlane].step[x];
			int sb = bit < b->nlane ? b->lane[bit].step[x] : b->wave[bit - b->nlane].step[x];
			if (sa != sb)
				return false;
		}
	return true;
}

static void rename_registers(struct emit *e, const struct ir_ins *i)
{
	int regs = layout_regs(i->layout), pack = e->values[i->id].pack;
	for (int r = 0; r < regs; r += pack)
		value_set(e, i, r, pack, value_vector(e, i->args[0], i->layout, r, pack));
}

/* Which registers of a lane are consecutive along an axis: those whose numbers differ in `bits` bits from bit `from` on. */
struct run { int from, bits; };

static struct run run_along(const struct layout *l, int axis, int bytes)
{
	struct run r = {0, axis < 0 ? 0 : layout_vector(l, axis)};
	int others = 0, reach = 1;
	for (int b = 0; axis >= 0 && !r.bits && b < l->nreg; b++)
		if (l->reg[b].step[axis] == 1)
			for (r.from = b; r.from + r.bits < l->nreg && l->reg[r.from + r.bits].step[axis] == reach; reach *= 2)
				r.bits++;
	for (int b = 0; r.bits && b < l->nlane + l->nwave; b++)
		others |= b < l->nlane ? l->lane[b].step[axis] : l->wave[b - l->nlane].step[axis];
	while (r.bits && (bytes << r.bits > 16 || (others & ((1 << r.bits) - 1))))
		r.bits--;
	return r;
}

static int run_of(const struct layout *l, const struct lds_tile *t)
{
	int run = t->inner >= 0 ? 1 << layout_vector(l, t->inner) : 1;
	while (run * t->bytes > 16)
		run /= 2;
	return run;
}

/* pad: bytes of one; more: how many of them behind the last row, or, of lots, wherever their axis takes a step; in_lots: of as many rows as a lane of
 * the writer holds, where it writes words of several. */
struct padding { int pad, more; bool in_lots; };

static int rows_of_lot(const struct layout *from, int axis, int inner, int bytes)
{
	return axis != inner && run_along(from, inner, bytes).bits ? run_along(from, axis, 0).bits : 0;
}

/* Rows along `inner`, with padding behind each, or behind each lot of them, so that rows start in different banks. */
static struct lds_tile tile_padded(struct emit *e, const struct layout *from, const struct layout *l, int inner, int bytes, const struct padding *p)
{
	struct lds_tile t = {.inner = inner, .bytes = bytes, .padded = -1, .pad = p->pad};
	int at = 1;
	for (int x = 0; x < e->ph->naxes && p->in_lots; x++)
		if (rows_of_lot(from, x, inner, bytes)) {
			t.padded = x;
			t.shift = rows_of_lot(from, x, inner, bytes);
		}
	for (int round = 0; round < 2; round++)
		for (int x = 0; x < e->ph->naxes; x++) {
			if ((x == inner) != (round == 0) || layout_size(l, x) == 1)
				continue;
			at += x == t.padded ? p->more * p->pad / bytes : 0;
			t.stride[x] = at;
			at *= layout_size(l, x);
			if (x == inner && t.padded < 0)
				at += (1 + p->more) * p->pad / bytes;
			if (x == t.padded)
				at += (layout_size(l, x) >> t.shift) * p->pad / bytes;
		}
	t.size = (at * bytes + 15) / 16 * 16;
	return t;
}

/* Where an element of the first wave lies in it. */
static int tile_byte(const struct emit *e, const struct layout *l, const struct lds_tile *t, int reg, int lane)
{
	int at[LAYOUT_AXES], sum = 0;
	layout_coord(l, reg, lane, 0, at);
	for (int x = 0; x < e->ph->naxes; x++)
		sum += at[x] * t->stride[x] * t->bytes;
	return t->padded < 0 ? sum : sum + (at[t->padded] >> t->shift) * t->pad;
}

/* Rounds of group memory that all accesses of so many elements at a time take. */
static int rounds_of(const struct emit *e, const struct layout *l, const struct lds_tile *t, int run, bool read)
{
	int byte[LDS_MOST_LANES], lanes = e->v->target->wave, bytes = run * t->bytes;
	for (int lane = 0; lane < lanes; lane++)
		byte[lane] = tile_byte(e, l, t, 0, lane);
	return layout_regs(l) / run * lds_rounds(e->v->target, byte, bytes, read);
}

/* With as little padding as takes the fewest rounds, of tiles that are turned, or read by products, again and again.  Accesses of at most 8 bytes leave
 * every other pair of banks unused where all padding is of 16: then it may be of 8. */
static struct lds_tile *tile_of(struct emit *e, const struct layout *from, const struct layout *l, int inner, int bytes, bool again)
{
	struct lds_tile *t = arena_alloc(e->arena, sizeof *t);
	int write = 1 << run_along(from, inner, bytes).bits, least = INT_MAX, ways = 0;
	bool lots = false;
	for (int x = 0; x < e->ph->naxes; x++)
		lots = lots || rows_of_lot(from, x, inner, bytes);
	*t = tile_padded(e, from, l, inner, bytes, &(struct padding){LDS_PAD, 0, lots});
	int read = run_of(l, t);
	struct { int pad; bool in_lots; } way[3];
	way[ways].pad = LDS_PAD;
	way[ways].in_lots = lots;
	ways += lots || (again && !e->tight);
	for (int in_lots = 1; in_lots >= 0 && lots && (write > read ? write : read) * bytes <= LDS_PAD / 2; in_lots--) {
		way[ways].pad = LDS_PAD / 2;
		way[ways++].in_lots = in_lots;
	}
	for (int w = 0; w < ways; w++)
		for (int more = 0; more <= LDS_MOST_PADS; more++) {
			struct lds_tile other = tile_padded(e, from, l, inner, bytes, &(struct padding){way[w].pad, more, way[w].in_lots});
			int rounds = rounds_of(e, from, &other, write, false) + rounds_of(e, l, &other, read, true);
			if (rounds < least) {
				*t = other;
				least = rounds;
			}
		}
	e->turned = e->turned || lots;
	return t;
}

static LLVMValueRef lane_address(struct emit *e, const struct layout *l, const struct lds_tile *t)
{
	int64_t coef[LAYOUT_AXES] = {0};
	for (int x = 0; x < e->ph->naxes; x++)
		coef[x] = (int64_t)t->stride[x] * t->bytes;
	LLVMValueRef sum = t->small ? index_lanes_here(e, l, coef) : index_lanes(e, l, coef);
	if (t->padded >= 0 && t->stride[t->padded]) { /* its low bits and those of registers are different ones: no carry */
		LLVMValueRef lots = LLVMBuildLShr(e->b, index_lane(e, l, t->padded), emit_int(e, t->shift), "");
		sum = LLVMBuildAdd(e->b, sum, op_times(e, lots, t->pad), "");
	}
	return LLVMIsConstant(sum) ? NULL : sum;
}

/* Places the tile: outside loops all at the start (nothing lives across), inside a loop one behind the other.  Waits until nobody
 * reads what lies there. */
static void place_tile(struct emit *e, struct lds_tile *t)
{
	bool dirty = e->loop_depth > 0 && !e->lds_now.met;
	t->at = e->loop_depth ? e->lds_now.top : 0;
	for (int r = 0; r < e->lds_now.nregions; r++) {
		struct lds_region *g = &e->lds_now.regions[r];
		bool meets = g->at < t->at + t->size && t->at < g->at + g->size;
		if (meets && g->at == t->at && g->size == t->size)
			dirty = g->dirty;
		else if (meets)
			dirty = dirty || g->dirty;
	}
	if (dirty)
		lds_barrier(e);
	if (e->lds_now.nregions < LDS_REGIONS)
		e->lds_now.regions[e->lds_now.nregions++] = (struct lds_region){t->at, t->size, false};
	if (e->loop_depth)
		e->lds_now.top += t->size;
	if (t->at + t->size > e->lds_bytes)
		e->lds_bytes = t->at + t->size;
}

static void mark_read(struct emit *e, const struct lds_tile *t)
{
	for (int r = 0; r < e->lds_now.nregions; r++)
		if (e->lds_now.regions[r].at < t->at + t->size && t->at < e->lds_now.regions[r].at + e->lds_now.regions[r].size)
			e->lds_now.regions[r].dirty = true;
}

static LLVMValueRef tile_base(const struct emit *e, const struct lds_tile *t) { return t->small ? e->lds_small : e->lds; }

LLVMValueRef lds_read(struct emit *e, const struct ir_ins *i, int reg, int n)
{
	const struct value *v = &e->values[i->id];
	const struct lds_tile *t = v->waiting;
	LLVMTypeRef element = i->dtype == DT_I1 ? e->i8 : emit_type(e, i->dtype);
	LLVMValueRef parts[64];
	int run = run_of(i->layout, t);
	run = run > n ? n : run;
	if (e->lds_now.written)
		lds_barrier(e);
	for (int r = 0; r < n; r += run) {
		LLVMValueRef x = LLVMBuildLoad2(e->b, emit_vector(element, run),
		                                lds_pointer(e, tile_base(e, t), v->waiting_lane, t->at + tile_byte(e, i->layout, t, reg + r, 0)), "");
		LLVMSetAlignment(x, (unsigned)(run * t->bytes));
		parts[r / run] = i->dtype == DT_I1 ? LLVMBuildTrunc(e->b, x, emit_vector(e->i1, run), "") : x;
	}
	if (!t->small)
		mark_read(e, t);
	return vector_join(e, parts, n / run, run);
}

/* Its users are products of the same block: they read what they need when they need it. */
static bool only_products_use(const struct ir_ins *i)
{
	bool dot = false;
	for (const struct ir_ins *u = i->next; u; u = u->next)
		for (int a = 0; a < u->nargs; a++) {
			if (u->args[a] != i)
				continue;
			if (u->op != IR_DOT)
				return false;
			dot = true;
		}
	return dot;
}

static int inner_axis(struct emit *e, const struct layout *to)
{
	int inner = -1, best = 0;
	for (int x = 0; x < e->ph->naxes; x++)
		if (layout_vector(to, x) > best) {
			best = layout_vector(to, x);
			inner = x;
		}
	for (int x = 0; inner < 0 && x < e->ph->naxes; x++)
		if (layout_lane_bit(to, x) == 0)
			inner = x;
	for (int x = 0; inner < 0 && x < e->ph->naxes; x++)
		if (layout_size(to, x) > 1)
			inner = x;
	return inner;
}

static void write_tile(struct emit *e, const struct ir_ins *v, const struct lds_tile *t)
{
	const struct layout *from = v->layout;
	LLVMValueRef once = index_is_first_copy(e, from, false), join = NULL, at = lane_address(e, from, t);
	struct run along = run_along(from, t->inner, t->bytes);
	int run = 1 << along.bits, regs = layout_regs(from);
	if (once)
		join = emit_if_begin(e, once);
	for (int r = 0; r < regs; r++) {
		if (r >> along.from & (run - 1))
			continue;
		LLVMValueRef x = along.from && run > 1 ? value_strided(e, v, from, r, 1 << along.from, run) : value_vector(e, v, from, r, run);
		if (v->dtype == DT_I1)
			x = LLVMBuildZExt(e->b, x, emit_vector(e->i8, run), "");
		x = LLVMBuildStore(e->b, x, lds_pointer(e, tile_base(e, t), at, t->at + tile_byte(e, from, t, r, 0)));
		LLVMSetAlignment(x, (unsigned)(run * t->bytes));
	}
	if (once)
		emit_if_end(e, join);
	e->lds_now.written = true;
}

static struct lds_tile *tile_for(struct emit *e, const struct ir_ins *i)
{
	int bytes = i->dtype == DT_I1 || dtype_info(i->dtype)->bits < 8 ? 1 : dtype_info(i->dtype)->bits / 8;
	return tile_of(e, i->args[0]->layout, i->layout, inner_axis(e, i->layout), bytes, only_products_use(i));
}

/* What goes through LDS, at once. */
static void write_waiting(struct emit *e, const struct ir_ins *i, struct lds_tile *t)
{
	struct value *out = value_new(e, i);
	write_tile(e, i->args[0], t);
	out->waiting = t;
	out->waiting_lane = lane_address(e, i->layout, t);
}

static void read_waiting(struct emit *e, const struct ir_ins *i)
{
	struct value *out = &e->values[i->id];
	int regs = layout_regs(i->layout), run = run_of(i->layout, out->waiting);
	if (run < out->pack)
		run = out->pack;
	for (int r = 0; r < regs; r += run)
		value_set(e, i, r, run, lds_read(e, i, r, run));
	out->waiting = NULL;
}

bool relayout_stays(const struct emit *e, const struct ir_ins *i)
{
	const struct ir_ins *v = i->args[0];
	return !v->layout || same_lanes(e, v->layout, i->layout, v->axes);
}

/* Small tiles that stand side by side share a round, each in a place of its own; they are read where they are first used. */
static void write_small(struct emit *e, const struct ir_ins *i, struct lds_tile *t)
{
	t->small = true;
	t->at = e->lds_small_bytes;
	e->lds_small_bytes += t->size;
	write_waiting(e, i, t);
}

static void fetch_operands(struct emit *e, const struct ir_ins *user)
{
	for (int a = 0; a < user->nargs; a++) {
		const struct lds_tile *t = user->args[a]->layout ? e->values[user->args[a]->id].waiting : NULL;
		if (t && t->small)
			read_waiting(e, user->args[a]);
	}
}

static void fetch_inside(struct ir_ins *user, void *emit) { fetch_operands(emit, user); }

void lds_fetch(struct emit *e, const struct ir_ins *user)
{
	fetch_operands(e, user);
	if (user->body)                                /* in front of it, where all that follows sees it */
		ir_walk(user->body, fetch_inside, e);
	if (user->other)
		ir_walk(user->other, fetch_inside, e);
}

/* --- inside a wave ----------------------------------------------------------------------------------------------------------- */

/* By bit of the number of the lane to ask: the bit of the workitem id that it is; -1: a register's decides, or nothing does. */
struct asking { int from[8]; };

static bool steps_as(const struct layout_basis *a, const struct layout_basis *b, const struct emit *e, ir_axes axes)
{
	for (int x = 0; x < e->ph->naxes; x++)
		if ((axes & IR_AXIS(x)) && a->step[x] != b->step[x])
			return false;
	return true;
}

/* Each wave has what its lanes need, one a lane. */
static bool can_ask(struct emit *e, const struct ir_ins *i, struct asking *q)
{
	const struct ir_ins *v = i->args[0];
	const struct layout *from = v->layout, *to = i->layout;
	if (!e->v->target->lanes_share || !from || layout_regs(from) != 1 || dtype_info(v->dtype)->bits != 32)
		return false;
	for (int w = 0; w < from->nwave; w++)
		if (!layout_basis_is_zero(&from->wave[w]) && !steps_as(&from->wave[w], &to->wave[w], e, v->axes))
			return false;
	for (int b = 0; b < from->nlane; b++) {
		q->from[b] = -1;
		for (int t = 0; t < to->nlane + to->nwave && !layout_basis_is_zero(&from->lane[b]); t++)
			if (steps_as(&from->lane[b], t < to->nlane ? &to->lane[t] : &to->wave[t - to->nlane], e, v->axes))
				q->from[b] = t;
	}
	return true;
}

/* Side by side at their places, the bits that stand as they do in the workitem id at once. */
static LLVMValueRef asked_lane(struct emit *e, const struct asking *q, int n)
{
	LLVMValueRef sum = NULL;
	for (int b = 0, run; b < n; b += run) {
		for (run = 1; q->from[b] >= 0 && b + run < n && q->from[b + run] == q->from[b] + run;)
			run++;
		if (q->from[b] < 0)
			continue;
		LLVMValueRef x = LLVMBuildAnd(e->b, q->from[b] ? LLVMBuildLShr(e->b, e->tid, emit_int(e, q->from[b]), "") : e->tid, emit_int(e, (1 << run) - 1), "");
		x = op_times(e, x, 1 << b);
		sum = sum ? LLVMBuildOr(e->b, sum, x, "") : x;
	}
	return sum ? sum : emit_int(e, 0);
}

static void ask_lanes(struct emit *e, const struct ir_ins *i, const struct asking *q)
{
	const struct layout *from = i->args[0]->layout;
	value_new(e, i);
	LLVMValueRef lane = asked_lane(e, q, from->nlane), word = value_element(e, i->args[0], from, 0);
	LLVMTypeRef t = LLVMTypeOf(word);
	for (int r = 0; r < layout_regs(i->layout); r++) {
		int more = 0;
		for (int b = 0; b < from->nlane; b++)
			for (int x = 0; x < e->ph->naxes && q->from[b] < 0; x++)
				more |= (from->lane[b].step[x] & index_register(i->layout, r, x)) ? 1 << b : 0;
		LLVMValueRef of = more ? LLVMBuildOr(e->b, lane, emit_int(e, more), "") : lane;
		value_set(e, i, r, 1, LLVMBuildBitCast(e->b, e->machine->lane_gather(e, LLVMBuildBitCast(e->b, word, e->i32, ""), of), t, ""));
	}
}

void emit_relayout(struct emit *e, const struct ir_ins *i)
{
	if (quads_move(e, i))
		return;
	if (relayout_stays(e, i)) {
		value_new(e, i);
		rename_registers(e, i);
		return;
	}
	struct asking q;
	if (swap_lanes(e, i))
		return;
	if (can_ask(e, i, &q)) {
		ask_lanes(e, i, &q);
		return;
	}
	struct lds_tile *t = tile_for(e, i);
	if (!e->loop_depth && t->size <= SMALL_TILE) {
		write_small(e, i, t);
		return;
	}
	place_tile(e, t);
	write_waiting(e, i, t);
	if (!(e->loop_depth && only_products_use(i)))
		read_waiting(e, i);
}
