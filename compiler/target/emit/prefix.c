/* prefix.c -- prefix sums along an axis whose positions lie in registers, lanes and waves.
 * In: a scan.  Out: its result, under the layout of its operand, added in the order of docs/ir.md.
 *
 * An element's position is made of digits: register bits, lane bits, wave bits, and the block's repeats.  They are gone through from the least one on.
 * Behind each, the positions below it are blocks of which every lane knows the sum, and each register what comes in front of it in its block: of register
 * digits one block after the other is added; of a lane digit two lanes exchange their sums, and the upper one has the lower one's in front; wave digits
 * side by side take one round of group memory.  What comes in front is added to a lane's own prefix sums once, at the end: a lane of 8 elements adds 8
 * times to make these, and 8 times for all else together. */
#include "machine.h"
#include "reduce.h"

struct prefix {
	struct emit *e;
	const struct ir_ins *i;
	const struct layout *l;
	int axis, regs, *order;               /* registers, those of one line side by side, by position */
	int below;                            /* positions in a block: those of the digits that have been gone through */
	LLVMValueRef *own, *front, *sum;      /* by register: prefix sum of those that the lane began with; what comes in front of them (NULL: nothing); of a block's
	                                       * first register the block's sum */
	struct layout_digit digit[LAYOUT_DIGITS]; int ndigits;
};

static LLVMValueRef added(struct prefix *p, LLVMValueRef a, LLVMValueRef b)
{
	return !a ? b : !b ? a : op_combine(p->e, RED_SUM, p->i->dtype, a, b);
}

static int position(const struct prefix *p, int reg) { return index_register(p->l, reg, p->axis); }

static bool same_line(const struct prefix *p, int a, int b)
{
	for (int x = 0; x < LAYOUT_AXES; x++)
		if (x != p->axis && index_register(p->l, a, x) != index_register(p->l, b, x))
			return false;
	return true;
}

static bool same_block(const struct prefix *p, int a, int b, int positions) { return same_line(p, a, b) && position(p, a) / positions == position(p, b) / positions; }

/* The first of the registers in order, from k on, that is of another block. */
static int block_end(const struct prefix *p, int k, int positions)
{
	int end = k + 1;
	while (end < p->regs && same_block(p, p->order[k], p->order[end], positions))
		end++;
	return end;
}

static void order_registers(struct prefix *p)
{
	for (int r = 0; r < p->regs; r++) {
		int at = r, line = r;
		for (int k = 0; k < r && line == r; k++)       /* the place of its line, if others of that are there */
			line = same_line(p, p->order[k], r) ? k : r;
		while (line < at && (!same_line(p, p->order[at - 1], r) || position(p, p->order[at - 1]) > position(p, r))) {
			p->order[at] = p->order[at - 1];
			at--;
		}
		p->order[at] = r;
	}
}

/* --- steps */

/* What a lane begins with: its elements that follow each other, so many, added to 0. */
static void begin(struct prefix *p, int positions)
{
	for (int k = 0; k < p->regs;) {
		int end = block_end(p, k, positions), first = p->order[k];
		LLVMValueRef sum = LLVMConstNull(LLVMTypeOf(p->own[first]));
		for (; k < end; k++)
			sum = p->own[p->order[k]] = added(p, sum, p->own[p->order[k]]);
		p->sum[first] = sum;
	}
	p->below = positions;
}

/* More comes in front of all registers of the block that begins at order[k]; returns where the next one begins. */
static int push(struct prefix *p, int k, LLVMValueRef more)
{
	int end = block_end(p, k, p->below);
	LLVMValueRef was = NULL, now = NULL;
	for (; k < end; k++) {
		LLVMValueRef *front = &p->front[p->order[k]];
		if (!now || *front != was) {
			was = *front;
			now = added(p, more, was);
		}
		*front = now;
	}
	return end;
}

/* Blocks that follow each other in a lane's registers become one, of so many positions. */
static void join_registers(struct prefix *p, int positions)
{
	for (int k = 0; k < p->regs;) {
		int end = block_end(p, k, positions), first = p->order[k];
		LLVMValueRef before = NULL;
		while (k < end) {
			LLVMValueRef sum = p->sum[p->order[k]];
			k = push(p, k, before);
			before = added(p, before, sum);
		}
		p->sum[first] = before;
	}
	p->below = positions;
}

static LLVMValueRef if_there(struct prefix *p, LLVMValueRef there, LLVMValueRef x)
{
	return LLVMBuildSelect(p->e->b, there, x, LLVMConstNull(LLVMTypeOf(x)), "");
}

static void join_lanes(struct prefix *p, int bit)
{
	struct emit *e = p->e;
	LLVMValueRef own = LLVMBuildAnd(e->b, e->tid, emit_int(e, 1 << bit), ""), upper = LLVMBuildICmp(e->b, LLVMIntNE, own, emit_int(e, 0), "");
	bool lower_equal = true;
	for (int b = 0; b < bit; b++)
		lower_equal = lower_equal && (layout_basis_is_zero(&p->l->lane[b]) || (p->l->lane[b].step[p->axis] && p->l->lane[b].step[p->axis] < p->below));
	for (int k = 0; k < p->regs;) {
		LLVMValueRef *sum = &p->sum[p->order[k]], other = lane_xor(e, *sum, bit, lower_equal);
		*sum = added(p, *sum, other);
		k = push(p, k, if_there(p, upper, other));
	}
	p->below *= 2;
}

/* Wave digits from d on, n of them: each wave writes its blocks' sums, and reads those of all that differ from it in these alone. */
static void join_waves(struct prefix *p, const struct layout_digit *d, int n)
{
	struct emit *e = p->e;
	int lane = emit_lane_bits(e), bits[8 + LAYOUT_WAVES], nbits = n, bytes = p->i->dtype == DT_I64 ? 8 : 4, blocks = 0, at;
	unsigned waves = 0;
	for (int w = 0; w < n; w++) {
		bits[w] = lane + d[w].bit;
		waves |= 1u << d[w].bit;
	}
	for (int b = 0; b < p->l->nlane; b++)              /* what tells other lines and later blocks apart */
		if (!layout_basis_is_zero(&p->l->lane[b]) && !(p->l->lane[b].step[p->axis] && p->l->lane[b].step[p->axis] < p->below))
			bits[nbits++] = b;
	for (int b = 0; b < p->l->nwave; b++)
		if (!(waves >> b & 1))
			bits[nbits++] = lane + b;
	for (int k = 0; k < p->regs; k = block_end(p, k, p->below))
		blocks++;
	int slot = blocks * bytes, base = e->lds_small_bytes;
	LLVMValueRef round = reduce_places(e, slot << nbits), mine = reduce_bits(e, bits, n), others = reduce_bits(e, bits + n, nbits - n);
	LLVMValueRef from = others ? op_times(e, others, slot << n) : emit_int(e, 0);
	from = round ? LLVMBuildAdd(e->b, from, round, "") : from;
	LLVMValueRef to = LLVMBuildAdd(e->b, from, op_times(e, mine, slot), "");
	at = base;
	for (int k = 0; k < p->regs; k = block_end(p, k, p->below), at += bytes)
		LLVMBuildStore(e->b, p->sum[p->order[k]], lds_pointer(e, e->lds_small, to, at));
	lds_barrier(e);
	stage_ask_rest(e);
	at = base;
	for (int k = 0; k < p->regs; at += bytes) {
		LLVMValueRef *sum = &p->sum[p->order[k]], all = NULL, before = NULL;
		for (int w = 0; w < 1 << n; w++) {
			LLVMValueRef x = LLVMBuildLoad2(e->b, LLVMTypeOf(*sum), lds_pointer(e, e->lds_small, from, at + w * slot), "");
			all = added(p, all, x);
			if (w < (1 << n) - 1)
				before = added(p, before, if_there(p, LLVMBuildICmp(e->b, LLVMIntUGT, mine, emit_int(e, w), ""), x));
		}
		*sum = all;
		k = push(p, k, before);
	}
	p->below <<= n;
}

/* --- all */

static void go_through(struct prefix *p)
{
	int first = p->ndigits && p->digit[0].in == LAYOUT_REG ? layout_scan_step(p->digit, p->ndigits, 0) : 0;
	order_registers(p);
	begin(p, 1 << first);
	for (int d = first, n; d < p->ndigits; d += n) {
		n = layout_scan_step(p->digit, p->ndigits, d);
		switch (p->digit[d].in) {
		case LAYOUT_REG: join_registers(p, p->below << n); break;
		case LAYOUT_LANE: join_lanes(p, p->digit[d].bit); break;
		case LAYOUT_WAVE: join_waves(p, &p->digit[d], n); break;
		}
	}
	if (p->l->rep[p->axis] > 1)
		join_registers(p, layout_size(p->l, p->axis));
}

static void read_operand(struct prefix *p)
{
	const struct ir_ins *i = p->i;
	for (int r = 0; r < p->regs; r++) {
		p->own[r] = value_element(p->e, i->args[0], p->l, r);
		if (i->flags & IR_MASKED)
			p->own[r] = if_there(p, value_element(p->e, i->args[1], p->l, r), p->own[r]);
	}
}

void emit_scan(struct emit *e, const struct ir_ins *i)
{
	const struct layout *l = i->layout;
	int regs = l ? layout_regs(l) : 1;
	size_t each = (size_t)regs * sizeof(LLVMValueRef);
	struct prefix p = {.e = e, .i = i, .l = l, .axis = __builtin_ctz(i->over), .regs = regs, .below = 1};
	p.own = arena_alloc(e->arena, each);
	p.front = arena_alloc(e->arena, each);
	p.sum = arena_alloc(e->arena, each);
	p.order = arena_alloc(e->arena, (size_t)regs * sizeof *p.order);
	p.ndigits = l ? layout_digits(l, p.axis, p.digit) : 0;
	if (p.ndigits < 0) {
		emit_fail(e, i, "the positions along %s lie in no order that a scan goes through", e->ph->axes[p.axis].name);
		return;
	}
	read_operand(&p);
	if (l)
		go_through(&p);
	else
		p.own[0] = added(&p, LLVMConstNull(LLVMTypeOf(p.own[0])), p.own[0]);
	value_new(e, i);
	for (int r = 0; r < regs; r++)
		value_set(e, i, r, 1, added(&p, p.front[r], p.own[r]));
}
