/* eval_reduce.c -- reductions, dots, argmax and scan of the evaluator, in the order that the IR fixes.
 *
 * In: operand tiles, and the layout of an operand where the order is fixed.  Out: the result's tile.
 * An order is a list of positions along the reduced axes, sorted waves, then lanes, then registers; without a layout there is one
 * wave, one lane, and the registers are the positions in ascending order.  Folding that list: within a lane the registers go
 * to `chains` partial accumulators in turn, these combine by halves, lanes combine in a butterfly from the lowest bit, waves
 * likewise.  A scan goes through the digits of positions.  docs/ir.md is the description that code generation follows too.  A reduction's order depends on the sizes of the axes alone,
 * so that a workgroup takes it from the one before. */
#include "eval.h"

#include <stdlib.h>
#include <string.h>

#define TRY(call) do { if (call) return -1; } while (0)

enum { MOST_CHAINS = 256, MOST_LANES = 256 };

/* --- positions along the reduced axes */

struct order {
	int64_t regs, lanes, waves, count;    /* count = their product */
	int (*at)[LAYOUT_AXES];               /* count coordinates */
	bool fixed;                           /* by a layout: masked-off elements take part as identities */
};

static int order_room(struct evaluator *ev, const struct ir_ins *ins, struct order *o)
{
	o->count = o->regs * o->lanes * o->waves;
	o->at = calloc((size_t)o->count + 1, sizeof *o->at);
	return o->at ? 0 : eval_fail(ev, ins, "no memory");
}

static int ascending_order(struct evaluator *ev, const struct ir_ins *ins, struct order *o)
{
	*o = (struct order){.regs = eval_count(ev, ins->over), .lanes = 1, .waves = 1};
	TRY(order_room(ev, ins, o));
	for (int64_t i = 0; i < o->count; i++) {
		int64_t rest = i;
		for (int a = LAYOUT_AXES - 1; a >= 0; a--)
			if (ins->over & IR_AXIS(a)) {
				o->at[i][a] = (int)(rest % ev->size[a]);
				rest /= ev->size[a];
			}
	}
	return 0;
}

struct bits { struct layout_basis v[LAYOUT_BITS]; int n; };

/* The bits that step along the axes in `over`; false where one steps along others as well. */
static bool reduced_bits(const struct layout_basis *all, int n, ir_axes over, struct bits *out)
{
	out->n = 0;
	for (int i = 0; i < n; i++) {
		bool reduced = false, kept = false;
		for (int a = 0; a < LAYOUT_AXES; a++) {
			reduced = reduced || (all[i].step[a] && over & IR_AXIS(a));
			kept = kept || (all[i].step[a] && !(over & IR_AXIS(a)));
		}
		if (reduced && kept)
			return false;
		if (reduced)
			out->v[out->n++] = all[i];
	}
	return true;
}

static void step(int at[LAYOUT_AXES], const struct bits *b, int64_t number)
{
	for (int i = 0; i < b->n; i++)
		for (int a = 0; a < LAYOUT_AXES; a++)
			at[a] ^= number >> i & 1 ? b->v[i].step[a] : 0;
}

static int64_t members_of(const struct evaluator *ev, int axis) { return ev->ph->axes[axis].cluster ? ev->ph->axes[axis].cluster : 1; }

/* Positions that bits number, and how far behind these a repetition of the layout, or a member's tile, lies. */
struct place { int bits[LAYOUT_AXES], behind[LAYOUT_AXES]; };

static void repeat(const struct evaluator *ev, const struct ir_ins *ins, const struct layout *l, int64_t number, int64_t member, int behind[LAYOUT_AXES])
{
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (ins->over & IR_AXIS(a)) {
			behind[a] = (int)(number % l->rep[a]) * l->block[a] + (int)(member % members_of(ev, a)) * layout_size(l, a);
			number /= l->rep[a];
			member /= members_of(ev, a);
		}
}

/* In the order of a workgroup's registers, lanes and waves, then of the workgroups of its cluster: each has its tile behind the one before. */
static int layout_order(struct evaluator *ev, const struct ir_ins *ins, const struct layout *l, struct order *o)
{
	struct bits reg, lane, wave;
	int64_t repeats = 1, members = 1;
	if (!reduced_bits(l->reg, l->nreg, ins->over, &reg) || !reduced_bits(l->lane, l->nlane, ins->over, &lane) ||
	    !reduced_bits(l->wave, l->nwave, ins->over, &wave))
		return eval_fail(ev, ins, "a bit of the layout steps along reduced and kept axes at once");
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (ins->over & IR_AXIS(a)) {
			repeats *= l->rep[a];
			members *= members_of(ev, a);
			if (layout_size(l, a) * members_of(ev, a) != ev->size[a])
				return eval_fail(ev, ins, "the layout holds %d positions of axis '%s', the tile has %lld", layout_size(l, a), ev->ph->axes[a].name, (long long)ev->size[a]);
		}
	*o = (struct order){.regs = repeats << reg.n, .lanes = 1 << lane.n, .waves = members << wave.n, .fixed = true};
	if (o->regs * o->lanes * o->waves != eval_count(ev, ins->over))
		return eval_fail(ev, ins, "the layout does not cover the reduced axes once");
	TRY(order_room(ev, ins, o));
	struct place *in_lane = calloc((size_t)o->regs, sizeof *in_lane);
	if (!in_lane)
		return eval_fail(ev, ins, "no memory");
	for (int64_t r = 0; r < o->regs; r++) {
		step(in_lane[r].bits, &reg, r);
		repeat(ev, ins, l, r >> reg.n, 0, in_lane[r].behind);
	}
	for (int64_t i = 0; i < o->count; i += o->regs) {
		struct place first = {{0}, {0}};
		int64_t w = i / o->regs / o->lanes;
		step(first.bits, &lane, i / o->regs % o->lanes);
		step(first.bits, &wave, w);
		repeat(ev, ins, l, 0, w >> wave.n, first.behind);
		for (int64_t r = 0; r < o->regs; r++)
			for (int a = 0; a < LAYOUT_AXES; a++)
				o->at[i + r][a] = (first.bits[a] ^ in_lane[r].bits[a]) + first.behind[a] + in_lane[r].behind[a];
	}
	free(in_lane);
	return 0;
}

/* The layout that fixes a reduction's order: of the first operand that holds every reduced axis and has one. */
static const struct layout *ordering_layout(const struct ir_ins *ins)
{
	for (int i = 0; i < ins->nargs && !(ins->flags & IR_ANYORDER); i++)
		if (ins->args[i]->layout && !(ins->over & ~ins->args[i]->axes))
			return ins->args[i]->layout;
	return NULL;
}

/* Offset of every position of the order in the array of a value with these axes. */
static int64_t *offsets(struct evaluator *ev, const struct order *o, ir_axes axes)
{
	int64_t *out = calloc((size_t)o->count + 1, sizeof *out), weight = 1;
	for (int a = LAYOUT_AXES - 1; a >= 0 && out; a--)
		if (axes & IR_AXIS(a)) {
			for (int64_t i = 0; i < o->count; i++)
				out[i] += o->at[i][a] * weight;
			weight *= ev->size[a];
		}
	return out;
}

/* --- folding */

static float float_identity(enum ir_reduce kind, enum dtype t)
{
	return kind == RED_SUM ? 0 : kind == RED_PROD ? 1 : (float)(kind == RED_MAX ? -num_max(t) : num_max(t));
}

static float float_fold(enum ir_reduce kind, enum dtype t, float acc, float x)
{
	switch (kind) {
	case RED_SUM: return op_float_round(t, acc + x);
	case RED_PROD: return op_float_round(t, acc * x);
	case RED_MAX: return op_float_max(acc, x);
	default: return op_float_min(acc, x);
	}
}

static int64_t int_identity(enum ir_reduce kind, enum dtype t)
{
	int64_t most = t == DT_I64 ? INT64_MAX : t == DT_I32 ? INT32_MAX : t == DT_I8 ? 127 : 255, least = t == DT_U8 ? 0 : -most - 1;
	return kind == RED_MAX ? least : kind == RED_MIN ? most : kind == RED_PROD || kind == RED_ALL;
}

static int64_t int_fold(enum ir_reduce kind, enum dtype t, int64_t acc, int64_t x)
{
	static const uint8_t op[] = {[RED_SUM] = IR_ADD, [RED_PROD] = IR_MUL, [RED_MAX] = IR_MAX, [RED_MIN] = IR_MIN, [RED_ANY] = IR_OR, [RED_ALL] = IR_AND};
	return op_int_binary(op[kind], t, acc, x);
}

/* What a reduction keeps while sizes stay: the order, and the offsets of its positions in the result, a, b and the mask. */
enum { OF_RESULT, OF_A, OF_B, OF_MASK, OFFSETS };
struct fold {
	int64_t size[LAYOUT_AXES];
	struct order order;
	int64_t *offset[OFFSETS];
};

/* One reduction at work: for a, b and the mask their arrays and the place of the present output. */
struct folder {
	const struct ir_ins *ins;
	const struct fold *kept;
	int chains;
	const float *a, *b;
	const int64_t *ints, *mask;
	int64_t at[OFFSETS];
};

static int64_t place_of(const struct folder *f, int operand, int64_t i) { return f->at[operand] + f->kept->offset[operand][i]; }
static bool is_present(const struct folder *f, int64_t i) { return !f->mask || f->mask[place_of(f, OF_MASK, i)]; }

/* Takes position i into acc; the first of a chain becomes acc. */
static float take(const struct folder *f, int64_t i, bool first, float acc)
{
	enum ir_reduce kind = f->ins->kind;
	enum dtype t = f->ins->dtype;
	bool present = is_present(f, i);
	if (f->b) {
		float x = present ? f->a[place_of(f, OF_A, i)] : 0, y = present ? f->b[place_of(f, OF_B, i)] : 0;
		return first ? x * y : fmaf(x, y, acc);
	}
	float x = present ? f->a[place_of(f, OF_A, i)] : float_identity(kind, t);
	return first ? x : float_fold(kind, t, acc, x);
}

/* The registers of one lane, whose positions start at i. */
static float fold_registers(const struct folder *f, int64_t i)
{
	float chain[MOST_CHAINS];
	for (int64_t r = 0; r < f->kept->order.regs; r++) {
		float *c = &chain[r & (f->chains - 1)];
		*c = r < f->chains ? take(f, i + r, true, 0) : take(f, i + r, false, *c);
	}
	for (int half = f->chains / 2; half; half /= 2)
		for (int c = 0; c < half; c++)
			chain[c] = float_fold(f->ins->kind, f->ins->dtype, chain[c], chain[c + half]);
	return chain[0];
}

static float fold_lanes(const struct folder *f, int64_t i)
{
	float lane[MOST_LANES];
	for (int64_t l = 0; l < f->kept->order.lanes; l++)
		lane[l] = fold_registers(f, i + l * f->kept->order.regs);
	for (int64_t bit = 1; bit < f->kept->order.lanes; bit *= 2)
		for (int64_t l = 0; l < f->kept->order.lanes; l += 2 * bit)
			lane[l] = float_fold(f->ins->kind, f->ins->dtype, lane[l], lane[l + bit]);
	return lane[0];
}

static float fold_fixed(const struct folder *f)
{
	int64_t stride = f->kept->order.regs * f->kept->order.lanes;
	float wave[MOST_LANES];
	for (int64_t w = 0; w < f->kept->order.waves; w++)
		wave[w] = fold_lanes(f, w * stride);
	for (int64_t bit = 1; bit < f->kept->order.waves; bit *= 2)
		for (int64_t w = 0; w < f->kept->order.waves; w += 2 * bit)
			wave[w] = float_fold(f->ins->kind, f->ins->dtype, wave[w], wave[w + bit]);
	return wave[0];
}

/* Ascending; absent elements are left out. */
static float fold_ascending(const struct folder *f)
{
	float acc = float_identity(f->ins->kind, f->ins->dtype);
	bool first = true;
	for (int64_t i = 0; i < f->kept->order.count; i++)
		if (is_present(f, i)) {
			acc = take(f, i, first, acc);
			first = false;
		}
	return acc;
}

static float fold_floats(const struct folder *f)
{
	float x = f->kept->order.fixed ? fold_fixed(f) : fold_ascending(f);
	enum ir_reduce kind = f->ins->kind;
	enum dtype t = f->ins->dtype;
	return ir_begins_beyond(f->ins) ? float_fold(kind, t, float_identity(kind, t), x) : x;
}

static int64_t fold_ints(const struct folder *f)
{
	int64_t acc = int_identity(f->ins->kind, f->ins->dtype);
	for (int64_t i = 0; i < f->kept->order.count; i++)
		if (is_present(f, i))
			acc = int_fold(f->ins->kind, f->ins->dtype, acc, f->ints[place_of(f, OF_A, i)]);
	return acc;
}

/* Position of the largest, the first of equals; a NaN is never the largest; -1 where there is none. */
static int64_t fold_argmax(const struct folder *f, int axis, int64_t base)
{
	int64_t best = -1;
	for (int64_t i = 0; i < f->kept->order.count; i++) {
		if (!is_present(f, i))
			continue;
		int64_t at = place_of(f, OF_A, i), top = best < 0 ? at : place_of(f, OF_A, best);
		bool better = f->a ? f->a[at] > f->a[top] || (best < 0 && f->a[at] == f->a[at]) : best < 0 || f->ints[at] > f->ints[top];
		best = better ? i : best;
	}
	return best < 0 ? -1 : base + f->kept->order.at[best][axis];
}

/* Blocks of `below` positions, whose sums stand at their first ones, become blocks of `positions`: what comes in front of each of them in its new block is
 * added to what came in front before. */
static void join_blocks(enum dtype t, float *front, float *sum, int64_t count, int64_t below, int64_t positions)
{
	for (int64_t whole = 0; whole < count; whole += positions) {
		float before = sum[whole];
		for (int64_t block = whole + below; block < whole + positions; block += below) {
			for (int64_t i = block; i < block + below; i++)
				front[i] = float_fold(RED_SUM, t, before, front[i]);
			before = float_fold(RED_SUM, t, before, sum[block]);
		}
		sum[whole] = before;
	}
}

/* In the order of the layout's digits (docs/ir.md); own: the elements, and then their prefix sums. */
static int scan_digits(struct evaluator *ev, const struct ir_ins *ins, int axis, int64_t count, float *own, float *front, float *sum)
{
	const struct layout *l = ins->layout;
	struct layout_digit digit[LAYOUT_DIGITS];
	int n = layout_digits(l, axis, digit), first = n > 0 && digit[0].in == LAYOUT_REG ? layout_scan_step(digit, n, 0) : 0;
	if (n < 0 || layout_size(l, axis) != count)
		return eval_fail(ev, ins, "the positions along '%s' lie in no order that a scan goes through", ev->ph->axes[axis].name);
	int64_t below = 1 << first;
	for (int64_t i = 0; i < count; i++) {
		own[i] = float_fold(RED_SUM, (enum dtype)ins->dtype, i % below ? own[i - 1] : 0, own[i]);
		sum[i / below * below] = own[i];
		front[i] = 0;
	}
	for (int d = first, step; d < n; d += step) {
		step = layout_scan_step(digit, n, d);
		join_blocks((enum dtype)ins->dtype, front, sum, count, below, below << step);
		below <<= step;
	}
	if (count > below)
		join_blocks((enum dtype)ins->dtype, front, sum, count, below, count);
	for (int64_t i = 0; i < count; i++)
		own[i] = float_fold(RED_SUM, (enum dtype)ins->dtype, front[i], own[i]);
	return 0;
}

/* Inclusive prefix sums, written to the result. */
static int fold_scan(struct evaluator *ev, const struct folder *f, int axis)
{
	enum dtype t = (enum dtype)f->ins->dtype;
	int64_t whole = 0, count = f->kept->order.count;
	for (int64_t i = 0; i < count && !f->a; i++) {
		whole = int_fold(RED_SUM, t, whole, is_present(f, i) ? f->ints[place_of(f, OF_A, i)] : 0);
		eval_ints(ev, f->ins)[place_of(f, OF_RESULT, i)] = whole;
	}
	float *own = f->a ? calloc((size_t)count * 3 + 1, sizeof *own) : NULL;
	int rc = f->a && !own ? eval_fail(ev, f->ins, "no memory") : 0;
	for (int64_t i = 0; i < count && own; i++)
		own[i] = is_present(f, i) ? f->a[place_of(f, OF_A, i)] : 0;
	if (own && f->ins->layout)
		rc = scan_digits(ev, f->ins, axis, count, own, own + count, own + 2 * count);
	for (int64_t i = 0; i < count && own && !f->ins->layout; i++)
		own[i] = float_fold(RED_SUM, t, i ? own[i - 1] : 0, own[i]);
	for (int64_t i = 0; i < count && own; i++)
		eval_floats(ev, f->ins)[place_of(f, OF_RESULT, i)] = own[i];
	free(own);
	return rc;
}

static int64_t weight_of(const struct evaluator *ev, ir_axes axes, int axis)
{
	int64_t weight = 1;
	for (int a = LAYOUT_AXES - 1; a > axis; a--)
		weight *= axes & IR_AXIS(a) ? ev->size[a] : 1;
	return weight;
}

/* What each lane holds, lane by lane. */
static int fold_by_lane(struct evaluator *ev, const struct folder *f)
{
	const struct order *o = &f->kept->order;
	if (!o->fixed || o->lanes * o->waves != ev->size[f->ins->imm])
		return eval_fail(ev, f->ins, "axis '%s' has %lld positions for %lld lanes", ev->ph->axes[f->ins->imm].name, (long long)ev->size[f->ins->imm], (long long)(o->lanes * o->waves));
	int64_t apart = weight_of(ev, f->ins->axes, (int)f->ins->imm);
	for (int64_t lane = 0; lane < o->lanes * o->waves; lane++)
		eval_floats(ev, f->ins)[f->at[OF_RESULT] + lane * apart] = fold_registers(f, lane * o->regs);
	return 0;
}

static int fold_all(struct evaluator *ev, struct folder *f, const struct ir_ins *const operands[OFFSETS])
{
	const struct ir_ins *ins = f->ins;
	struct walk w;
	ir_axes axes[OFFSETS];
	for (int op = 0; op < OFFSETS; op++)
		axes[op] = operands[op]->axes;
	f->a = eval_is_float(operands[OF_A]) ? eval_floats(ev, operands[OF_A]) : NULL;
	f->b = ins->flags & IR_PRODUCT ? eval_floats(ev, operands[OF_B]) : NULL;
	f->ints = f->a ? NULL : eval_ints(ev, operands[OF_A]);
	f->mask = ins->flags & IR_MASKED ? eval_ints(ev, operands[OF_MASK]) : NULL;
	int axis = __builtin_ctz(ins->over);
	bool by_lane = ins->op == IR_REDUCE && ins->flags & IR_BY_LANE;
	ir_axes kept = ins->axes & ~ins->over & ~(by_lane ? IR_AXIS(ins->imm) : 0);
	for (bool go = walk_start(&w, ev, kept, axes, OFFSETS); go; go = walk_next(&w))
		for (int64_t i = 0; i < w.run; i++) {
			for (int op = 0; op < OFFSETS; op++)
				f->at[op] = w.offset[op] + i * w.step[op];
			int64_t to = f->at[OF_RESULT];
			if (ins->op == IR_SCAN)
				TRY(fold_scan(ev, f, axis));
			else if (by_lane)
				TRY(fold_by_lane(ev, f));
			else if (ins->op == IR_ARGMAX)
				eval_ints(ev, ins)[to] = fold_argmax(f, axis, ev->base[axis]);
			else if (f->ints)
				eval_ints(ev, ins)[to] = fold_ints(f);
			else
				eval_floats(ev, ins)[to] = fold_floats(f);
		}
	return 0;
}

void eval_fold_free(struct fold *f)
{
	for (int op = 0; f && op < OFFSETS; op++)
		free(f->offset[op]);
	if (f)
		free(f->order.at);
	free(f);
}

/* The instruction's order and offsets at the present sizes; NULL with an error in ev. */
static const struct fold *fold_get(struct evaluator *ev, const struct ir_ins *ins, const struct ir_ins *const operands[OFFSETS])
{
	const struct layout *l = ins->op == IR_REDUCE ? ordering_layout(ins) : NULL;
	struct fold **f = &ev->tiles[ins->id].fold;
	if (*f && memcmp((*f)->size, ev->size, sizeof ev->size) == 0)
		return *f;
	eval_fold_free(*f);
	*f = calloc(1, sizeof **f);
	if (!*f) {
		eval_fail(ev, ins, "no memory");
		return NULL;
	}
	memcpy((*f)->size, ev->size, sizeof ev->size);
	bool fine = (l ? layout_order(ev, ins, l, &(*f)->order) : ascending_order(ev, ins, &(*f)->order)) == 0;
	for (int op = 0; op < OFFSETS && fine; op++)
		if (!((*f)->offset[op] = offsets(ev, &(*f)->order, operands[op]->axes)))
			fine = eval_fail(ev, ins, "no memory") == 0;
	return fine ? *f : NULL;
}

static int fold_reduce(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_ins *a = ins->args[0];
	const struct ir_ins *const operands[OFFSETS] = {
		[OF_RESULT] = ins, [OF_A] = a, [OF_B] = ins->flags & IR_PRODUCT ? ins->args[1] : a, [OF_MASK] = ins->flags & IR_MASKED ? ins->args[ins->nargs - 1] : a};
	struct folder f = {.ins = ins, .kept = fold_get(ev, ins, operands), .chains = ins->chains ? ins->chains : 1};
	if (!f.kept)
		return -1;
	while (f.chains > f.kept->order.regs && f.chains > 1)
		f.chains /= 2;
	return fold_all(ev, &f, operands);
}

/* --- dot: operands are packed as floats [k in order][kept axes], so that the inner loop runs along memory */

static int dot_order(struct evaluator *ev, const struct ir_ins *ins, struct order *o)
{
	const struct ir_ins *a = ins->args[0];
	int axis = __builtin_ctz(ins->over);
	TRY(ascending_order(ev, ins, o));
	if (ins->flags & IR_ANYORDER || !a->layout || ins->over != IR_AXIS(axis) || !(a->axes & ins->over))
		return 0;
	if (layout_size(a->layout, axis) != ev->size[axis])
		return eval_fail(ev, ins, "the layout holds %d positions of axis '%s', the tile has %lld", layout_size(a->layout, axis), ev->ph->axes[axis].name, (long long)ev->size[axis]);
	int *order = calloc((size_t)o->count + 1, sizeof *order);
	int n = order ? layout_k_order(a->layout, axis, ins->chains, order) : -1;
	for (int64_t i = 0; i < o->count && n == o->count; i++)
		o->at[i][axis] = order[i];
	free(order);
	return n == o->count ? 0 : eval_fail(ev, ins, "the layout gives no order along axis '%s'", ev->ph->axes[axis].name);
}

/* NULL with an error in ev where memory is short. */
static float *dot_pack(struct evaluator *ev, const struct ir_ins *ins, const struct ir_ins *x, const struct order *o)
{
	ir_axes kept = x->axes & ~ins->over;
	int64_t *offset = offsets(ev, o, x->axes), n = eval_count(ev, kept);
	float *out = malloc((size_t)(n * o->count) * sizeof *out + 1);
	struct walk w;
	for (int64_t k = 0; k < o->count && out && offset; k++)
		for (bool go = walk_start(&w, ev, kept, (ir_axes[]){kept, x->axes}, 2); go; go = walk_next(&w))
			for (int64_t i = 0; i < w.run; i++) {
				int64_t to = k * n + w.offset[0] + i * w.step[0], from = offset[k] + w.offset[1] + i * w.step[1];
				if (eval_is_float(x))
					out[to] = eval_floats(ev, x)[from];
				else
					out[to] = op_type_is_code(x->dtype) ? num_to_f32((uint32_t)eval_ints(ev, x)[from], x->dtype) : (float)eval_ints(ev, x)[from];
			}
	if (!out || !offset) {
		eval_fail(ev, ins, "no memory");
		free(out);
		out = NULL;
	}
	free(offset);
	return out;
}

/* r += x * y along a run, the product rounded and then the sum: num_dot_f32, one k at a time. */
static void dot_run(float *r, const float *x, int64_t sx, const float *y, int64_t sy, int64_t n)
{
	if (sx == 0 && sy == 1)
		for (int64_t i = 0; i < n; i++)
			r[i] += x[0] * y[i];
	else if (sx == 1 && sy == 0)
		for (int64_t i = 0; i < n; i++)
			r[i] += x[i] * y[0];
	else
		for (int64_t i = 0; i < n; i++)
			r[i] += x[i * sx] * y[i * sy];
}

static void dot_run_ints(int64_t *r, const float *x, int64_t sx, const float *y, int64_t sy, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		r[i] = (int32_t)(r[i] + (int64_t)x[i * sx] * (int64_t)y[i * sy]);
}

static int dot_all(struct evaluator *ev, const struct ir_ins *ins, const float *x, const float *y, int64_t count)
{
	ir_axes kept_x = ins->args[0]->axes & ~ins->over, kept_y = ins->args[1]->axes & ~ins->over;
	int64_t nx = eval_count(ev, kept_x), ny = eval_count(ev, kept_y), n = eval_count(ev, ins->axes);
	struct walk w;
	if (ins->flags & IR_ACC)
		TRY(eval_spread(ev, ins, ins->args[2]));
	else
		for (int64_t i = 0; i < n; i++) {
			if (eval_is_float(ins))
				eval_floats(ev, ins)[i] = 0;
			else
				eval_ints(ev, ins)[i] = 0;
		}
	for (bool go = walk_start(&w, ev, ins->axes, (ir_axes[]){ins->axes, kept_x, kept_y}, 3); go; go = walk_next(&w))
		for (int64_t k = 0; k < count; k++) {
			const float *px = x + k * nx + w.offset[1], *py = y + k * ny + w.offset[2];
			if (eval_is_float(ins))
				dot_run(eval_floats(ev, ins) + w.offset[0], px, w.step[1], py, w.step[2], w.run);
			else
				dot_run_ints(eval_ints(ev, ins) + w.offset[0], px, w.step[1], py, w.step[2], w.run);
		}
	return 0;
}

/* Elements packed by dot_pack, `each` for a position, times their scales: exact but where f32 ends. */
static void dot_scale(struct evaluator *ev, const struct ir_ins *ins, const struct ir_ins *x, const struct ir_ins *scale, const struct order *o, int each, float *packed)
{
	ir_axes kept = x->axes & ~ins->over, own = scale->axes & ~x->axes;
	int k = __builtin_ctz(ins->over), groups = own ? __builtin_ctz(own) : k;
	int64_t n = eval_count(ev, kept), along = 0, stride = 1;
	for (int a = LAYOUT_AXES - 1; a >= 0; a--)
		if (scale->axes & IR_AXIS(a)) {
			along = a == groups ? stride : along;
			stride *= ev->size[a];
		}
	struct walk w;
	for (int64_t j = 0; j < each * o->count; j++) {
		int64_t from = o->at[j / each][k] / (ev->size[k] / ev->size[groups]) * along;
		for (bool go = walk_start(&w, ev, kept, (ir_axes[]){kept, scale->axes}, 2); go; go = walk_next(&w))
			for (int64_t i = 0; i < w.run; i++)
				packed[j * n + w.offset[0] + i * w.step[0]] *= num_to_f32((uint32_t)eval_ints(ev, scale)[from + w.offset[1] + i * w.step[1]], DT_E8M0);
	}
}

/* Of pairs, by dot_pack, each element; NULL with an error in ev where memory is short. */
static float *dot_unpack(struct evaluator *ev, const struct ir_ins *ins, const struct ir_ins *x, const struct order *o, float *pairs)
{
	int64_t n = eval_count(ev, x->axes & ~ins->over);
	float *out = malloc((size_t)(2 * n * o->count) * sizeof *out + 1);
	for (int64_t k = 0; out && k < o->count; k++)
		for (int64_t i = 0; i < n; i++) {
			uint32_t pair = (uint32_t)pairs[k * n + i];
			out[2 * k * n + i] = num_to_f32(pair & 15, DT_E2M1);
			out[(2 * k + 1) * n + i] = num_to_f32(pair >> 4, DT_E2M1);
		}
	free(pairs);
	if (!out)
		eval_fail(ev, ins, "no memory");
	return out;
}

static float *dot_operand(struct evaluator *ev, const struct ir_ins *ins, int n, const struct order *o, int each)
{
	const struct ir_ins *x = ins->args[n];
	float *packed = dot_pack(ev, ins, x, o);
	if (packed && each > 1)
		packed = dot_unpack(ev, ins, x, o, packed);
	if (packed && ins->flags & IR_SCALED)
		dot_scale(ev, ins, x, ins->args[ins->nargs - 2 + n], o, each, packed);
	return packed;
}

static int eval_dot(struct evaluator *ev, const struct ir_ins *ins)
{
	struct order o = {0};
	int status = dot_order(ev, ins, &o), each = ins->flags & IR_SCALED && ins->args[0]->dtype == DT_U8 ? 2 : 1;
	float *x = status ? NULL : dot_operand(ev, ins, 0, &o, each), *y = x ? dot_operand(ev, ins, 1, &o, each) : NULL;
	status = y ? dot_all(ev, ins, x, y, each * o.count) : -1;
	free(x);
	free(y);
	free(o.at);
	return status;
}

int eval_reduce(struct evaluator *ev, const struct ir_ins *ins)
{
	TRY(eval_room(ev, ins));
	return ins->op == IR_DOT ? eval_dot(ev, ins) : fold_reduce(ev, ins);
}
