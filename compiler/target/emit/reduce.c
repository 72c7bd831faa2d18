/* reduce.c -- reductions in the fixed order: registers (in `chains` partial results), then lanes by butterfly, then waves.
 * In: reductions that stand side by side.  Out: their results, in every lane.  Exchanges over the machine's low lane bits (a row of
 * lanes) are cheap; what remains (higher lane bits, waves) of all of them goes through LDS in one round with one barrier: each row of
 * lanes writes one partial result, each lane reads the one its own low bits name and finishes the butterfly inside the wave.  Where the lanes of a row hold different results, a wave
 * finishes its lanes first and every lane folds the waves' partial results itself, in the butterfly's order.  Results that are dealt out
 * (pass_deal.c) go through one round of LDS as well: each lane reads the partial results of those that it gets.  Those that lanes of a wave
 * share need none: with each exchange a lane keeps half of its results and gives the others away.  What is reduced over a cluster is left
 * so with one wave, and then crosses workgroups (cluster.c). */
#include "../../pass.h"
#include "machine.h"
#include "reduce.h"

#include <limits.h>
#include <math.h>

enum { FEW = 2, TOGETHER = 4 };

static bool steps(const struct layout_basis *b, ir_axes over)
{
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (b->step[a] && (over & IR_AXIS(a)))
			return true;
	return false;
}

static LLVMValueRef fold(struct emit *e, const struct ir_ins *i, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b)
{
	if (!b)
		return acc ? op_combine(e, i->kind, i->dtype, acc, a) : a;
	if (!acc)
		return LLVMBuildFMul(e->b, a, b, "");
	LLVMValueRef args[3] = {a, b, acc};
	LLVMTypeRef t = LLVMTypeOf(a);
	return emit_call(e, "llvm.fma", &t, 1, args, 3);
}

/* All of these elements are there, or none. */
static bool is_mask_of_all(const struct part *p, const int *reg, int n)
{
	ir_axes axes = p->i->flags & IR_MASKED ? p->i->args[p->i->nargs - 1]->axes : 0;
	for (int k = 1; k < n; k++)
		for (int a = 0; a < LAYOUT_AXES; a++)
			if ((axes & IR_AXIS(a)) && index_register(p->from, reg[k], a) != index_register(p->from, reg[0], a))
				return false;
	return p->i->flags & IR_MASKED;
}

static LLVMValueRef mask_of(struct emit *e, const struct ir_ins *i, const struct layout *l, int reg, int n)
{
	return value_vector(e, i->args[i->nargs - 1], l, reg, n);
}

/* x of `n` elements where the mask m has them, elsewhere what changes nothing. */
static LLVMValueRef present(struct emit *e, const struct ir_ins *i, LLVMValueRef m, int n, LLVMValueRef x)
{
	LLVMValueRef id = op_identity(e, i->kind, i->dtype), parts[16];
	for (int k = 0; k < n; k++)
		parts[k] = id;
	return LLVMBuildSelect(e->b, m, x, vector_join(e, parts, n, 1), "");
}

/* All registers of one result element: rank k goes to chain k mod chains; chains are held in vectors of `pack`. */
static struct chains fold_registers(struct emit *e, const struct part *p, const int *reg, int n)
{
	const struct ir_ins *i = p->i;
	int chains = i->chains ? i->chains : 1, pack = p->from ? e->values[i->args[0]->id].pack : 1;
	if (i->args[0]->axes && !i->args[0]->layout)
		pack = 1;
	if (n < chains)
		chains = 1;
	while (pack > 1 && (chains % pack || n % pack))
		pack /= 2;
	for (int k = 0; pack > 1 && k < n; k++)
		if (k % pack && reg[k] != reg[k - 1] + 1)
			pack = 1;
	struct chains c = {.n = chains, .pack = pack, .reg = reg[0], .whole = is_mask_of_all(p, reg, n)};
	for (int k = 0; k < n; k += pack) {
		LLVMValueRef a = value_vector(e, i->args[0], p->from, reg[k], pack), b = NULL;
		if (i->flags & IR_PRODUCT)
			b = value_vector(e, i->args[1], p->from, reg[k], pack);
		LLVMValueRef *slot = &c.acc[(k / pack) % (chains / pack)];
		if ((i->flags & IR_MASKED) && !c.whole) {
			LLVMValueRef m = mask_of(e, i, p->from, reg[k], pack);
			bool square = i->args[1] == i->args[0];
			if (*slot && LLVMIsNull(m))
				continue;
			a = present(e, i, m, pack, a);
			b = !b ? NULL : square ? a : present(e, i, m, pack, b);   /* 0 times an infinity is not 0 */
		}
		*slot = fold(e, i, *slot, a, b);
	}
	return c;
}

/* Halves their number, in vectors as long as whole vectors meet; false where there is one. */
static bool join_chains(struct emit *e, const struct ir_ins *i, struct chains *c)
{
	if (c->n == 1)
		return false;
	if (c->n == c->pack) {
		LLVMValueRef whole = c->acc[0];
		for (int k = 0; k < c->n; k++)
			c->acc[k] = vector_part(e, whole, k, 1);
		c->pack = 1;
	}
	c->n /= 2;
	for (int v = 0, half = c->n / c->pack; v < half; v++)
		c->acc[v] = op_combine(e, i->kind, i->dtype, c->acc[v], c->acc[v + half]);
	return true;
}

/* All that is made of it is the next value of a state that has begun with a finite number, as the running maximum of a softmax has. */
static bool is_taken_by_state(const struct emit *e, const struct ir_ins *i)
{
	const struct ir_ins *user = i->next;
	while (user && (user->nargs != 2 || (user->args[0] != i && user->args[1] != i)))
		user = user->next;
	if (e->uses[i->id] != 1 || !user || user->op != (i->kind == RED_MAX ? IR_MAX : IR_MIN))
		return false;
	const struct ir_ins *state = user->args[user->args[0] == i], *loop = state->op == IR_ARG ? state->block->owner : NULL;
	const struct ir_ins *start = loop && loop->op == IR_FOR ? loop->args[2 + state->imm] : NULL;
	return start && start->op == IR_CONST && isfinite(start->num) && state->block->last->args[state->imm] == user;
}

/* Of several parts in turns: a sum that has just been made is not added to at once. */
static void join_parts(struct emit *e, struct part *parts, int n)
{
	for (bool more = true; more;) {
		more = false;
		for (int k = 0; k < n; k++)
			for (int r = 0; r < parts[k].regs; r++)
				more = join_chains(e, parts[k].i, &parts[k].chains[r]) || more;
	}
	for (int k = 0; k < n; k++) {
		struct part *p = &parts[k];
		bool begins = ir_begins_beyond(p->i) && !is_taken_by_state(e, p->i);
		for (int r = 0; r < p->regs; r++) {
			const struct chains *c = &p->chains[r];
			LLVMValueRef x = begins ? op_combine(e, p->i->kind, p->i->dtype, c->acc[0], op_identity(e, p->i->kind, p->i->dtype)) : c->acc[0];
			p->x[r] = c->whole ? present(e, p->i, mask_of(e, p->i, p->from, c->reg, 1), 1, x) : x;
			if (p->i->dtype == DT_I1)
				p->x[r] = LLVMBuildZExt(e->b, p->x[r], e->i32, "");
		}
	}
}

bool reduce_is_of_waves(const struct emit *e, const struct ir_ins *i) { return i->op == IR_REDUCE && i->flags & IR_PART && !e->v->cluster; }

static void open_part(struct emit *e, struct part *p, const struct ir_ins *i)
{
	const struct layout *from = i->args[0]->layout;
	*p = (struct part){.i = i};
	for (int a = 0; a < i->nargs && !from; a++)
		from = i->args[a]->layout;
	p->from = from;
	int n = from ? layout_regs(from) : 1;
	int *map = arena_alloc(e->arena, sizeof *map * (size_t)n), *reg = arena_alloc(e->arena, sizeof *reg * (size_t)n);
	p->regs = 1;
	if (from)
		p->regs = layout_regs(p->own = layout_project(e->arena, from, i->over, map));
	p->x = arena_alloc(e->arena, sizeof *p->x * (size_t)p->regs);
	p->chains = arena_alloc(e->arena, sizeof *p->chains * (size_t)p->regs);
	for (int r = 0; r < p->regs; r++) {
		int count = 0;
		for (int k = 0; k < n; k++)
			if (map[k] == r)
				reg[count++] = k;
		p->chains[r] = fold_registers(e, p, reg, count);
		while ((p->regs > FEW || e->has_dot) && join_chains(e, i, &p->chains[r]))
			;
	}
	bool by_lane = i->flags & IR_BY_LANE;
	p->own = by_lane ? i->layout : p->own;
	for (int b = 0; from && b < from->nlane && !by_lane; b++)
		p->lanes |= (unsigned)steps(&from->lane[b], i->over) << b;
	bool alone = by_lane || reduce_is_of_waves(e, i);
	for (int b = 0; from && b < from->nwave && !alone; b++)
		p->waves |= (unsigned)steps(&from->wave[b], i->over) << b;
	int row = e->machine->row_bits;
	bool row_done = true;                      /* after the exchanges all lanes of a row agree */
	for (int b = 0; from && b < row; b++)
		row_done = row_done && ((p->lanes >> b & 1) || layout_basis_is_zero(&from->lane[b]));
	int high = __builtin_popcount(p->lanes >> row) + __builtin_popcount(p->waves);
	bool narrow = i->dtype != DT_I64;          /* a round's slots are dwords */
	p->crosses = ir_crosses_cluster(e->ph, i);
	p->shared = !p->crosses && !p->waves && i->layout && !layout_equal(i->layout, p->own) && layout_equal(i->layout, layout_scattered(e->arena, p->own, p->lanes));
	p->dealt = !p->crosses && !p->shared && i->layout && !layout_equal(i->layout, p->own);
	p->through_lds = !p->crosses && !p->shared && !p->dealt && !alone && narrow && row_done && high <= emit_lane_bits(e) && (p->waves || high == 2);
	p->by_waves = !p->crosses && !p->dealt && p->waves && !p->through_lds;
}

static LLVMValueRef combine(struct emit *e, const struct ir_ins *i, LLVMValueRef a, LLVMValueRef b)
{
	enum dtype t = i->dtype == DT_I1 ? DT_I32 : (enum dtype)i->dtype;
	return op_combine(e, i->kind, t, a, b);
}

LLVMValueRef reduce_parts(struct emit *e, const struct ir_ins *i, LLVMValueRef *part, int n)
{
	for (int step = 1; step < n; step *= 2)
		for (int k = 0; k < n; k += 2 * step)
			part[k] = combine(e, i, part[k], part[k + step]);
	return part[0];
}

/* One step of the exchanges of several parts is what the builder has put behind `last`: an exchange waits for the step before it, the
 * longer the fewer results there are. */
static void note_gap(struct emit *e, LLVMValueRef last, int results)
{
	LLVMValueRef first = last ? LLVMGetNextInstruction(last) : NULL;
	if (first && results)
		emit_gap(e, first, e->machine->exchange_wait + 1 - results);
}

static LLVMValueRef last_instruction(struct emit *e)
{
	return LLVMGetLastInstruction(LLVMGetInsertBlock(e->b));
}

static void exchange(struct emit *e, struct part *p, int bit)
{
	bool lower_equal = true;
	for (int b = 0; p->from && b < bit; b++)
		lower_equal = lower_equal && ((p->lanes >> b & 1) || layout_basis_is_zero(&p->from->lane[b]));
	for (int r = 0; r < p->regs; r++)
		p->x[r] = combine(e, p->i, p->x[r], lane_xor(e, p->x[r], bit, lower_equal));
}

/* Of several results each lane is left with fewer: at each step lanes that differ in a bit share what they have between them, not both of
 * them all. */
static void scatter(struct emit *e, struct part *p)
{
	struct layout *own = arena_copy(e->arena, p->own, sizeof *own);
	for (int b = 0; b < own->nlane; b++) {
		int place = p->lanes >> b & 1 ? layout_take_over(own, b) : -1, n = 0;
		if (p->lanes >> b & 1 && place < 0)
			exchange(e, p, b);
		if (place < 0)
			continue;
		LLVMValueRef bit = LLVMBuildAnd(e->b, e->tid, emit_int(e, 1 << b), ""), high = LLVMBuildICmp(e->b, LLVMIntNE, bit, emit_int(e, 0), "");
		for (int r = 0; r < p->regs; r++) {
			if (r >> place & 1)
				continue;
			LLVMValueRef low = p->x[r], other = p->x[r | 1 << place];
			LLVMValueRef keep = LLVMBuildSelect(e->b, high, other, low, ""), give = LLVMBuildSelect(e->b, high, low, other, "");
			p->x[n++] = combine(e, p->i, keep, lane_xor(e, give, b, false));
		}
		p->regs = n;
	}
	p->own = own;
}

/* Slots of a result register: kept high bits (which row of lanes or wave is another result) above the reduced ones. */
static void high_bits(struct emit *e, const struct part *p, int *reduced, int *nreduced, int *kept, int *nkept)
{
	*nreduced = *nkept = 0;
	for (int b = e->machine->row_bits, lane = emit_lane_bits(e); b < lane + p->from->nwave; b++) {
		bool r = b < lane ? p->lanes >> b & 1 : p->waves >> (b - lane) & 1;
		bool zero = layout_basis_is_zero(b < lane ? &p->from->lane[b] : &p->from->wave[b - lane]);
		if (r)
			reduced[(*nreduced)++] = b;
		else if (!zero)
			kept[(*nkept)++] = b;
	}
}

/* The bits of the workitem id, lowest first, side by side from bit `at` on; NULL for none. */
static LLVMValueRef gathered(struct emit *e, const int *bits, int n, int at)
{
	LLVMValueRef sum = NULL;
	for (int k = 0; k < n;) {
		int run = 1;
		while (k + run < n && bits[k + run] == bits[k] + run)
			run++;
		LLVMBasicBlockRef here = emit_in_gap(e, 1);
		LLVMValueRef x = e->tid;
		if (bits[k] > k + at)
			x = LLVMBuildLShr(e->b, x, emit_int(e, bits[k] - k - at), "");
		else if (bits[k] < k + at)
			x = LLVMBuildShl(e->b, x, emit_int(e, k + at - bits[k]), "");
		emit_in_gap(e, 1);
		x = LLVMBuildAnd(e->b, x, emit_int(e, (int64_t)((1 << run) - 1) << (k + at)), "");
		emit_continue(e, here);
		sum = sum ? LLVMBuildOr(e->b, sum, x, "") : x;
		k += run;
	}
	return sum;
}

LLVMValueRef reduce_bits(struct emit *e, const int *bits, int n) { return gathered(e, bits, n, 0); }

/* Byte offset of the slot that these bits number, the first ones below the others. */
static LLVMValueRef slot_of(struct emit *e, const int *low, int nlow, const int *high, int nhigh, int bytes)
{
	int shift = __builtin_ctz((unsigned)bytes);
	LLVMValueRef l = gathered(e, low, nlow, shift), h = gathered(e, high, nhigh, shift + nlow);
	return op_times(e, l && h ? LLVMBuildOr(e->b, h, l, "") : l ? l : h ? h : emit_int(e, 0), bytes >> shift);
}

int64_t reduce_wave_copies(const struct part *p)
{
	int64_t copies = 0;
	for (int b = 0; b < p->from->nwave; b++)
		copies |= (int64_t)(!(p->waves >> b & 1) && layout_basis_is_zero(&p->from->wave[b])) << (p->from->nlane + b);
	return copies;
}

/* What follows is for those whose bits of these are 0; NULL = for all, there are no such bits. */
LLVMValueRef reduce_begin_first(struct emit *e, int64_t bits)
{
	if (!bits)
		return NULL;
	return emit_if_begin(e, LLVMBuildICmp(e->b, LLVMIntEQ, LLVMBuildAnd(e->b, e->tid, emit_int(e, bits), ""), emit_int(e, 0), ""));
}

LLVMValueRef reduce_waves(struct emit *e)
{
	return e->team_there ? e->team_there : e->waves_there ? waves_number(e) : NULL;
}

/* i1: a wave is there that has written a slot `at` bytes behind the first, of as many bytes a wave. */
static LLVMValueRef slots_there(struct emit *e, LLVMValueRef at, int bytes)
{
	return LLVMBuildICmp(e->b, LLVMIntULT, at, op_times(e, reduce_waves(e), bytes), "");
}

LLVMValueRef reduce_places(struct emit *e, int size)
{
	int whole = (size + 15) / 16 * 16;
	e->lds_small_bytes += e->ring ? 2 * whole : whole;
	if (e->loop_depth && !e->ring)
		lds_barrier(e);
	return e->ring ? op_times(e, e->ring->odd, whole) : NULL;
}

static unsigned kept_set(struct emit *e, const struct part *p)
{
	int reduced[HIGH], nreduced, kept[HIGH], nkept;
	unsigned set = 0;
	high_bits(e, p, reduced, &nreduced, kept, &nkept);
	for (int k = 0; k < nkept; k++)
		set |= 1u << kept[k];
	return set;
}

static bool reduce_alike(const struct emit *e, const struct part *a, const struct part *b)
{
	return a->lanes >> e->machine->row_bits == b->lanes >> e->machine->row_bits && a->waves == b->waves;
}

/* Which of the parts that could share a round with part k, and have had none, has the most slots: in these others hold their results several times. */
static int leader_of(struct emit *e, const struct part *parts, int n, const bool *done, int k)
{
	int leader = k;
	for (int j = k + 1; j < n; j++)
		if (!done[j] && parts[j].through_lds && reduce_alike(e, &parts[j], &parts[k]) &&
		    __builtin_popcount(kept_set(e, &parts[j])) > __builtin_popcount(kept_set(e, &parts[leader])))
			leader = j;
	return leader;
}

static bool has_slots_for(struct emit *e, const struct part *leader, const struct part *p)
{
	return reduce_alike(e, leader, p) && !(kept_set(e, p) & ~kept_set(e, leader));
}

/* One LDS round for parts for which the first one's slots do (has_slots_for); their result registers lie side by side in a slot. */
static void round_through_lds(struct emit *e, struct part *p, int n)
{
	int reduced[HIGH], nreduced, kept[HIGH], nkept, words = 0;
	high_bits(e, &p[0], reduced, &nreduced, kept, &nkept);
	for (int k = 0; k < n; k++) {
		p[k].at = words * 4;
		words += p[k].regs;
	}
	int slot = words * 4, base = e->lds_small_bytes, size = slot << (nreduced + nkept);
	LLVMValueRef round = reduce_places(e, size);
	int mine[HIGH];
	for (int b = 0; b < nreduced; b++)
		mine[b] = b;
	LLVMValueRef to = slot_of(e, reduced, nreduced, kept, nkept, slot), at = slot_of(e, mine, nreduced, kept, nkept, slot);
	LLVMValueRef there = reduce_waves(e) && p[0].waves ? slots_there(e, nkept ? slot_of(e, mine, nreduced, NULL, 0, slot) : at, slot << (nreduced - __builtin_popcount((unsigned)p[0].waves))) : NULL;
	to = round ? LLVMBuildAdd(e->b, to, round, "") : to;
	at = round ? LLVMBuildAdd(e->b, at, round, "") : at;
	LLVMValueRef join = reduce_begin_first(e, reduce_wave_copies(&p[0]));
	for (int j = 0; j < n; j++)                    /* the lanes of a row write one value to one place: cheaper than a branch */
		for (int x = 0; x < p[j].regs; x++)
			LLVMBuildStore(e->b, p[j].x[x], lds_pointer(e, e->lds_small, to, base + p[j].at + 4 * x));
	if (join)
		emit_if_end(e, join);
	lds_barrier(e);
	stage_ask_rest(e);
	for (int j = 0; j < n; j++)
		for (int x = 0; x < p[j].regs; x++)
			p[j].x[x] = LLVMBuildLoad2(e->b, LLVMTypeOf(p[j].x[x]), lds_pointer(e, e->lds_small, at, base + p[j].at + 4 * x), "");
	for (int j = 0; there && j < n; j++)
		for (int x = 0; x < p[j].regs; x++)
			p[j].x[x] = waves_or_nothing(e, p[j].i, there, p[j].x[x]);
	for (int b = 0; b < nreduced; b++) {
		LLVMValueRef last = last_instruction(e);
		for (int j = 0; j < n; j++)
			for (int x = 0; x < p[j].regs; x++)
				p[j].x[x] = combine(e, p[j].i, p[j].x[x], lane_xor(e, p[j].x[x], b, true));
		note_gap(e, last, words);
	}
}

/* How results lie in LDS, in the order of who reads them: bytes a position of each axis, `pad` more behind those of the first one; returns those of all. */
int reduce_result_bytes(const struct emit *e, const struct layout *l, int pad, int64_t *coef)
{
	int bytes = 4;
	for (int bit = 0; bit <= l->nreg + l->nlane + l->nwave; bit++)
		for (int a = 0; a < e->ph->naxes; a++) {
			const struct layout_basis *b = bit < l->nreg ? &l->reg[bit] : bit < l->nreg + l->nlane ? &l->lane[bit - l->nreg] : &l->wave[bit - l->nreg - l->nlane];
			bool rest = bit == l->nreg + l->nlane + l->nwave;
			if (coef[a] || layout_size(l, a) == 1 || (!rest && !b->step[a]))
				continue;
			coef[a] = bytes;
			bytes = bytes * layout_size(l, a) + (bytes == 4 ? pad : 0);
		}
	return bytes;
}

int reduce_register_bytes(const struct emit *e, const struct layout *l, int reg, const int64_t *coef)
{
	int64_t at = 0;
	for (int a = 0; a < e->ph->naxes; a++)
		at += coef[a] ? coef[a] * index_register(l, reg, a) : 0;
	return (int)at;
}

/* Accesses of several begin where 16 bytes do, or 8: what else decides where a lane's results lie goes in steps of as many. */
int reduce_together(const struct emit *e, const struct layout *l, int reg, int regs, const int64_t *coef)
{
	int n = TOGETHER, first = reduce_register_bytes(e, l, reg, coef);
	for (; n > 1; n /= 2) {
		bool beside = reg + n <= regs && first % (4 * n) == 0;
		for (int k = 1; k < n; k++)
			beside = beside && reduce_register_bytes(e, l, reg + k, coef) == first + 4 * k;
		for (int bit = 0; bit < l->nlane + l->nwave; bit++)
			for (int a = 0; a < e->ph->naxes; a++)
				beside = beside && (bit < l->nlane ? &l->lane[bit] : &l->wave[bit - l->nlane])->step[a] * coef[a] % (4 * n) == 0;
		if (beside)
			break;
	}
	return n;
}

/* The bits of the workitem id whose partial results are still apart. */
static int open_bits(const struct emit *e, const struct part *p, int *reduced)
{
	int n = 0, lane = emit_lane_bits(e);
	for (int b = e->machine->dealt_bits; b < lane; b++)
		if (p->lanes >> b & 1)
			reduced[n++] = b;
	for (int b = 0; b < p->from->nwave; b++)
		if (p->waves >> b & 1)
			reduced[n++] = lane + b;
	return n;
}

/* Partial results that are dealt out, in LDS: coef: bytes a position of each axis; those of one lane or wave lie in a plane of their own. */
struct dealing { int64_t coef[LAYOUT_AXES]; int reduced[HIGH + 6], nreduced, plane, base; };

/* In the order of who reads them: 16 bytes `row` times behind those of the first axis, and `behind` times behind a plane. */
static struct dealing dealing_of(const struct emit *e, const struct part *p, int row, int behind)
{
	struct dealing d = {.coef = {0}};
	d.nreduced = open_bits(e, p, d.reduced);
	d.plane = (reduce_result_bytes(e, p->i->layout, row * LDS_PAD, d.coef) + 15) / 16 * 16 + behind * LDS_PAD;
	return d;
}

/* Rounds of group memory in which a wave reads its lanes' results of one part, or writes them, each lane to its own part.  Registers lie a
 * distance apart that is the same in all lanes, so that one access is as long as another. */
static int dealing_rounds(const struct emit *e, const struct dealing *d, const struct layout *l, bool read)
{
	int byte[LDS_MOST_LANES], lanes = e->v->target->wave, rounds = 0, at[LAYOUT_AXES];
	for (int lane = 0; lane < lanes; lane++) {
		layout_coord(l, 0, lane, 0, at);
		byte[lane] = 0;
		for (int a = 0; a < e->ph->naxes; a++)
			byte[lane] += (int)d->coef[a] * at[a];
		for (int b = 0; !read && b < d->nreduced; b++)
			byte[lane] += d->reduced[b] < l->nlane && lane >> d->reduced[b] & 1 ? d->plane << b : 0;
	}
	for (int r = 0, n, last = 0, each = 0; r < layout_regs(l); r += n) {
		n = reduce_together(e, l, r, layout_regs(l), d->coef);
		each = n == last ? each : lds_rounds(e->v->target, byte, 4 * n, read);
		rounds += each;
		last = n;
	}
	return rounds;
}

/* As little room as takes the fewest rounds. */
static struct dealing dealing_spread(const struct emit *e, const struct part *p)
{
	struct dealing best = dealing_of(e, p, 0, 1);
	int least = INT_MAX;
	for (int row = 0; row <= LDS_MOST_PADS; row++)
		for (int behind = 1; behind <= LDS_MOST_PADS; behind++) {
			struct dealing d = dealing_of(e, p, row, behind);
			int rounds = dealing_rounds(e, &d, p->own, false) + (dealing_rounds(e, &d, p->i->layout, true) << d.nreduced);
			if (rounds < least) {
				best = d;
				least = rounds;
			}
		}
	return best;
}

static void write_dealt(struct emit *e, struct part *p, struct dealing *d)
{
	*d = dealing_spread(e, p);
	d->base = e->lds_small_bytes;
	e->lds_small_bytes += d->plane << d->nreduced;
	LLVMValueRef to = index_lanes_here(e, p->own, d->coef), part = gathered(e, d->reduced, d->nreduced, 0);
	to = part ? LLVMBuildAdd(e->b, to, op_times(e, part, d->plane), "") : to;
	int64_t same = reduce_wave_copies(p);                 /* lanes that hold what others hold do not write */
	for (int b = 0; b < p->from->nlane; b++)
		same |= (int64_t)((p->lanes >> b & 1) ? b < e->machine->dealt_bits : layout_basis_is_zero(&p->from->lane[b])) << b;
	LLVMValueRef join = reduce_begin_first(e, same);
	for (int r = 0, n; r < p->regs; r += n) {
		n = reduce_together(e, p->own, r, p->regs, d->coef);
		LLVMValueRef store = LLVMBuildStore(e->b, vector_join(e, p->x + r, n, 1), lds_pointer(e, e->lds_small, to, d->base + reduce_register_bytes(e, p->own, r, d->coef)));
		LLVMSetAlignment(store, 4 * (unsigned)n);
	}
	if (join)
		emit_if_end(e, join);
}

static void read_dealt(struct emit *e, struct part *p, const struct dealing *d)
{
	const struct layout *l = p->i->layout;
	int regs = layout_regs(l), all = 1 << d->nreduced;
	LLVMTypeRef t = LLVMTypeOf(p->x[0]);
	LLVMValueRef at = index_lanes_here(e, l, d->coef), *x = arena_alloc(e->arena, sizeof *x * (size_t)regs);
	LLVMValueRef *part[TOGETHER];
	for (int k = 0; k < TOGETHER; k++)
		part[k] = arena_alloc(e->arena, sizeof **part * (size_t)all);
	for (int r = 0, n; r < regs; r += n) {
		n = reduce_together(e, l, r, regs, d->coef);
		for (int v = 0; v < all; v++) {
			LLVMValueRef loaded = LLVMBuildLoad2(e->b, emit_vector(t, n), lds_pointer(e, e->lds_small, at, d->base + v * d->plane + reduce_register_bytes(e, l, r, d->coef)), "");
			LLVMSetAlignment(loaded, 4 * (unsigned)n);
			for (int k = 0; k < n; k++)
				part[k][v] = vector_part(e, loaded, k, 1);
		}
		for (int k = 0; k < n; k++)
			x[r + k] = reduce_parts(e, p->i, part[k], all);
	}
	p->x = x;
	p->regs = regs;
}

/* One round for all parts that are dealt out. */
static void deal_out(struct emit *e, struct part *parts, int n)
{
	struct dealing d[ROUND];
	for (int k = 0; k < n; k++)
		if (parts[k].dealt)
			write_dealt(e, &parts[k], &d[k]);
	lds_barrier(e);
	for (int k = 0; k < n; k++)
		if (parts[k].dealt)
			read_dealt(e, &parts[k], &d[k]);
}

/* A number that is one for the workgroup may be the bound of a loop: LLVM is told that it is, or it would take the loop's lanes for lanes that part. */
static void close_part(struct emit *e, struct part *p)
{
	bool uniform = !p->i->axes && p->i->dtype == DT_I32 && !(p->i->flags & IR_PART);
	value_new(e, p->i);
	for (int r = 0; r < p->regs; r++) {
		LLVMValueRef x = p->x[r];
		if (p->i->dtype == DT_I1)
			x = LLVMBuildICmp(e->b, LLVMIntNE, x, LLVMConstNull(e->i32), "");
		value_set(e, p->i, r, 1, uniform ? e->machine->uniform(e, x) : x);
	}
}

/* Those that are reduced over a cluster, or the others; returns how many there are. */
static int open_parts(struct emit *e, struct part *parts, const struct ir_ins *const *ins, int n, bool crossing)
{
	int opened = 0;
	for (int k = 0; k < n; k++) {
		if (ir_crosses_cluster(e->ph, ins[k]) != crossing)
			continue;
		index_forget(e);
		open_part(e, &parts[opened++], ins[k]);
	}
	join_parts(e, parts, opened);
	return opened;
}

/* Each wave sends what it has. */
static void send_crossing(struct emit *e, struct part *parts, int n, struct shared_results *s)
{
	for (int k = 0; k < n; k++) {
		struct part *p = &parts[k];
		scatter(e, p);
		s[k] = (struct shared_results){.i = p->i, .own = p->own, .to = p->i->layout, .waves = p->waves, .regs = p->regs, .x = p->x};
	}
	cluster_send(e, s, n);
}

static void receive_crossing(struct emit *e, struct part *parts, int n, struct shared_results *s)
{
	cluster_receive(e, s, n);
	for (int k = 0; k < n; k++) {
		parts[k].x = s[k].x;
		parts[k].regs = s[k].regs;
	}
}

static void emit_tile_bound(struct emit *e, const struct ir_ins *i)
{
	int axis = (int)i->args[0]->imm;
	LLVMValueRef base = e->axis_base[axis] ? e->axis_base[axis] : emit_int(e, 0);
	value_new(e, i)->group[0] = i->kind == RED_MAX ? LLVMBuildAdd(e->b, base, emit_int(e, e->ph->axes[axis].tile - 1), "") : base;
}

/* A round for part k and what shares it, unless it is a round for others that part k could have shared. */
static void share_round(struct emit *e, struct part *parts, int n, bool *done, int k)
{
	struct part *in = arena_alloc(e->arena, ROUND * sizeof *in);
	int leader = leader_of(e, parts, n, done, k), index[ROUND] = {leader}, shared = 1;
	in[0] = parts[leader];
	done[leader] = true;
	for (int j = k; j < n; j++)
		if (!done[j] && parts[j].through_lds && has_slots_for(e, &in[0], &parts[j])) {
			done[j] = true;
			index[shared] = j;
			in[shared++] = parts[j];
		}
	round_through_lds(e, in, shared);
	for (int j = 0; j < shared; j++)
		parts[index[j]] = in[j];
}

const struct ir_ins *emit_reduce(struct emit *e, const struct ir_ins *first)
{
	if (ir_is_tile_bound(first)) {
		emit_tile_bound(e, first);
		return first;
	}
	struct part *parts = arena_alloc(e->arena, ROUND * sizeof *parts);
	struct shared_results *shared = arena_alloc(e->arena, ROUND * sizeof *shared);
	const struct ir_ins *last = first, *together[ROUND];
	int n = 0;
	for (const struct ir_ins *i = first; i && i->op == IR_REDUCE && !ir_is_tile_bound(i) && n < ROUND; i = i->next) {
		bool waits = false;
		for (const struct ir_ins *j = first; j != i; j = j->next)
			for (int a = 0; a < i->nargs; a++)
				waits = waits || i->args[a] == j;
		if (waits)
			break;
		if (i->dtype != DT_F32 && i->dtype != DT_I32 && i->dtype != DT_I64 && i->dtype != DT_I1) {
			emit_fail(e, i, "reductions of %s are not lowered; convert to f32 or i32 first", dtype_info(i->dtype)->name);
			return i;
		}
		together[n++] = last = i;
	}
	int crossing = open_parts(e, parts, together, n, true);          /* on their way while this workgroup does the rest */
	send_crossing(e, parts, crossing, shared);
	open_parts(e, parts + crossing, together, n, false);
	for (int b = 0; b < emit_lane_bits(e); b++) {    /* in turns: a lane's exchange waits for its last one, not for its neighbour's */
		LLVMValueRef before = last_instruction(e);
		int results = 0;
		for (int k = 0; k < n; k++)
			if ((parts[k].lanes >> b & 1) && !parts[k].crosses && !parts[k].shared && (!parts[k].through_lds || b < e->machine->row_bits) && (!parts[k].dealt || b < e->machine->dealt_bits)) {
				exchange(e, &parts[k], b);
				results += parts[k].regs;
			}
		note_gap(e, before, results);
	}
	for (int k = 0; k < n; k++)
		if (parts[k].shared)
			scatter(e, &parts[k]);
	bool deals = false;
	for (int k = 0; k < n; k++)
		deals = deals || parts[k].dealt;
	if (deals)
		deal_out(e, parts, n);
	fold_waves(e, parts, n);
	bool done[ROUND] = {false};
	for (int k = 0; k < n; k++)
		while (parts[k].through_lds && !done[k])
			share_round(e, parts, n, done, k);
	receive_crossing(e, parts, crossing, shared);
	for (int k = 0; k < n && !e->failed; k++)
		close_part(e, &parts[k]);
	return last;
}
