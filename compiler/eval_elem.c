/* eval_elem.c -- elementwise operations of the evaluator: UN, BIN, CMP, BIT, SEL and CVT.
 *
 * In: the tiles of the operands.  Out: the tile of the result.  Each operation is one loop over runs, chosen outside of the
 * loop; what it computes is in eval_op.h. */
#include "eval.h"

#define TRY(call) do { if (call) return -1; } while (0)

/* One run of a result r and operands x, y, z with their steps. */
#define RUN(type_x, type_y, expr) \
	for (int64_t i = 0; i < n; i++) { const type_x a = x[i * sx]; const type_y b = y[i * sy]; (void)b; r[i] = (expr); } break

#define FLOAT_BINARY(op) case op: RUN(float, float, op_float_binary(op, a, b))
#define FLOAT_UNARY(op) case op: RUN(float, float, op_float_unary(op, a))

static void float_run(enum ir_op op, float *r, const float *x, int64_t sx, const float *y, int64_t sy, int64_t n)
{
	switch (op) {
	FLOAT_BINARY(IR_ADD); FLOAT_BINARY(IR_SUB); FLOAT_BINARY(IR_MUL); FLOAT_BINARY(IR_DIV); FLOAT_BINARY(IR_REM);
	FLOAT_BINARY(IR_MIN); FLOAT_BINARY(IR_MAX);
	FLOAT_UNARY(IR_NEG); FLOAT_UNARY(IR_ABS); FLOAT_UNARY(IR_SQRT); FLOAT_UNARY(IR_RSQRT); FLOAT_UNARY(IR_RCP);
	FLOAT_UNARY(IR_EXP2); FLOAT_UNARY(IR_LOG2); FLOAT_UNARY(IR_SIN); FLOAT_UNARY(IR_COS); FLOAT_UNARY(IR_EXP);
	FLOAT_UNARY(IR_SIN_TURNS); FLOAT_UNARY(IR_COS_TURNS);
	FLOAT_UNARY(IR_LOG); FLOAT_UNARY(IR_TANH); FLOAT_UNARY(IR_ERF); FLOAT_UNARY(IR_ERFC); FLOAT_UNARY(IR_NORMCDF); FLOAT_UNARY(IR_FLOOR); FLOAT_UNARY(IR_CEIL);
	FLOAT_UNARY(IR_ROUND);
	default: break;
	}
}

#define INT_BINARY(op) case op: RUN(int64_t, int64_t, op_int_binary(op, t, a, b))
#define INT_UNARY(op) case op: RUN(int64_t, int64_t, op_int_unary(op, t, a))
#define INT_COMPARE(op) case op: RUN(int64_t, int64_t, op_int_compare(op, a, b))

static void int_run(enum ir_op op, enum dtype t, int64_t *r, const int64_t *x, int64_t sx, const int64_t *y, int64_t sy, int64_t n)
{
	switch (op) {
	INT_BINARY(IR_ADD); INT_BINARY(IR_SUB); INT_BINARY(IR_MUL); INT_BINARY(IR_DIV); INT_BINARY(IR_REM); INT_BINARY(IR_MIN);
	INT_BINARY(IR_MAX); INT_BINARY(IR_AND); INT_BINARY(IR_OR); INT_BINARY(IR_XOR); INT_BINARY(IR_SHL); INT_BINARY(IR_SHR);
	INT_BINARY(IR_PHILOX);
	INT_UNARY(IR_NEG); INT_UNARY(IR_ABS); INT_UNARY(IR_NOT);
	INT_COMPARE(IR_LT); INT_COMPARE(IR_LE); INT_COMPARE(IR_EQ); INT_COMPARE(IR_NE);
	default: break;
	}
}

#define FLOAT_COMPARE(op) case op: RUN(float, float, op_float_compare(op, a, b))

static void compare_run(enum ir_op op, int64_t *r, const float *x, int64_t sx, const float *y, int64_t sy, int64_t n)
{
	switch (op) {
	FLOAT_COMPARE(IR_LT); FLOAT_COMPARE(IR_LE); FLOAT_COMPARE(IR_EQ); FLOAT_COMPARE(IR_NE);
	default: break;
	}
}

static void round_run(enum dtype t, float *r, int64_t n)
{
	for (int64_t i = 0; t != DT_F32 && i < n; i++)
		r[i] = op_float_round(t, r[i]);
}

/* Unary and binary operations; a unary one has its operand for both. */
static int eval_plain(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_ins *x = ins->args[0], *y = ins->args[ins->nargs - 1];
	struct walk w;
	for (bool go = walk_start(&w, ev, ins->axes, (ir_axes[]){ins->axes, x->axes, y->axes}, 3); go; go = walk_next(&w)) {
		if (eval_is_float(ins)) {
			float *r = eval_floats(ev, ins) + w.offset[0];
			float_run(ins->op, r, eval_floats(ev, x) + w.offset[1], w.step[1], eval_floats(ev, y) + w.offset[2], w.step[2], w.run);
			round_run(ins->dtype, r, w.run);
		} else if (eval_is_float(x)) {
			compare_run(ins->op, eval_ints(ev, ins) + w.offset[0], eval_floats(ev, x) + w.offset[1], w.step[1], eval_floats(ev, y) + w.offset[2], w.step[2], w.run);
		} else {
			int_run(ins->op, x->dtype, eval_ints(ev, ins) + w.offset[0], eval_ints(ev, x) + w.offset[1], w.step[1], eval_ints(ev, y) + w.offset[2], w.step[2], w.run);
		}
	}
	return 0;
}

static int eval_three(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_ins *x = ins->args[0], *y = ins->args[1], *z = ins->args[2];
	struct walk w;
	for (bool go = walk_start(&w, ev, ins->axes, (ir_axes[]){ins->axes, x->axes, y->axes, z->axes}, 4); go; go = walk_next(&w))
		for (int64_t i = 0; i < w.run; i++) {
			int64_t at = w.offset[0] + i * w.step[0], ix = w.offset[1] + i * w.step[1], iy = w.offset[2] + i * w.step[2], iz = w.offset[3] + i * w.step[3];
			if (ins->op == IR_FMA)
				eval_floats(ev, ins)[at] = op_float_round(ins->dtype, fmaf(eval_floats(ev, x)[ix], eval_floats(ev, y)[iy], eval_floats(ev, z)[iz]));
			else if (eval_is_float(ins))
				eval_floats(ev, ins)[at] = eval_ints(ev, x)[ix] ? eval_floats(ev, y)[iy] : eval_floats(ev, z)[iz];
			else
				eval_ints(ev, ins)[at] = eval_ints(ev, x)[ix] ? eval_ints(ev, y)[iy] : eval_ints(ev, z)[iz];
		}
	return 0;
}

/* --- conversions: the operand has the result's axes, so both are plain arrays */

static float as_float(const struct ir_ins *a, const void *data, int64_t i)
{
	if (eval_is_float(a))
		return ((const float *)data)[i];
	int64_t v = ((const int64_t *)data)[i];
	return op_type_is_code(a->dtype) ? num_to_f32((uint32_t)v, a->dtype) : (float)v;
}

static int eval_cvt(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_ins *a = ins->args[0];
	bool saturate = ins->flags & IR_SATURATE, from_int = op_type_is_int(a->dtype);
	const void *data = ev->tiles[a->id].data;
	int64_t n = eval_count(ev, ins->axes);
	for (int64_t i = 0; i < n; i++) {
		if (from_int && op_type_is_int(ins->dtype)) {
			eval_ints(ev, ins)[i] = op_int_to_int(((const int64_t *)data)[i], ins->dtype, saturate);
			continue;
		}
		float x = ins->flags & IR_CUT ? num_float(num_bits(as_float(a, data, i)) & 0xffff0000u) : as_float(a, data, i);
		if (op_type_is_int(ins->dtype))
			eval_ints(ev, ins)[i] = op_float_to_int(x, ins->dtype, saturate);
		else if (op_type_is_code(ins->dtype))
			eval_ints(ev, ins)[i] = num_from_f32(x, ins->dtype, saturate);
		else if (ins->dtype == DT_F32 && !saturate)
			eval_floats(ev, ins)[i] = x;
		else
			eval_floats(ev, ins)[i] = num_to_f32(num_from_f32(x, ins->dtype, saturate), ins->dtype);
	}
	return 0;
}

static int eval_bitcast(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_ins *a = ins->args[0];
	int64_t n = eval_count(ev, ins->axes);
	for (int64_t i = 0; i < n; i++) {
		uint32_t bits = eval_is_float(a) ? num_from_f32(eval_floats(ev, a)[i], a->dtype, false) : (uint32_t)eval_ints(ev, a)[i];
		if (a->dtype == DT_F32)
			bits = num_bits(eval_floats(ev, a)[i]);
		if (ins->dtype == DT_F32)
			eval_floats(ev, ins)[i] = num_float(bits);
		else if (eval_is_float(ins))
			eval_floats(ev, ins)[i] = num_to_f32(bits, ins->dtype);
		else if (op_type_is_code(ins->dtype))
			eval_ints(ev, ins)[i] = bits & 0xff;
		else
			eval_ints(ev, ins)[i] = op_int_wrap(ins->dtype, bits);
	}
	return 0;
}

/* repeat: each position of the operand's axis for as many of the result's; pack: two of its positions for each. */
static int eval_replaced(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_ins *a = ins->args[0];
	int from = __builtin_ctz(ins->over), to = (int)ins->imm;
	int64_t each = ev->size[to] > ev->size[from] ? ev->size[to] / ev->size[from] : 1, at[LAYOUT_AXES] = {0}, stride[LAYOUT_AXES] = {0}, n = 1;
	for (int x = LAYOUT_AXES - 1; x >= 0; x--)
		if (a->axes & IR_AXIS(x)) {
			stride[x] = n;
			n *= ev->size[x];
		}
	n = eval_count(ev, ins->axes);
	for (int64_t i = 0; i < n; i++) {
		int64_t offset = (ins->op == IR_PACK ? 2 * at[to] : at[to] / each) * stride[from];
		for (int x = 0; x < LAYOUT_AXES; x++)
			offset += at[x] * stride[x];
		if (eval_is_float(ins))
			eval_floats(ev, ins)[i] = eval_floats(ev, a)[offset];
		else
			eval_ints(ev, ins)[i] = ins->op == IR_PACK ? eval_ints(ev, a)[offset] | eval_ints(ev, a)[offset + stride[from]] << 4 : eval_ints(ev, a)[offset];
		for (int x = LAYOUT_AXES - 1; x >= 0; x--)
			if (ins->axes & IR_AXIS(x)) {
				if (++at[x] < ev->size[x])
					break;
				at[x] = 0;
			}
	}
	return 0;
}

int eval_elementwise(struct evaluator *ev, const struct ir_ins *ins)
{
	TRY(eval_room(ev, ins));
	switch (ins->op) {
	case IR_CVT: return eval_cvt(ev, ins);
	case IR_BITCAST: return ins->dtype == DT_I64 ? eval_spread(ev, ins, ins->args[0]) : eval_bitcast(ev, ins);
	case IR_REPEAT: case IR_PACK: return eval_replaced(ev, ins);
	case IR_RELAYOUT: return eval_spread(ev, ins, ins->args[0]);
	case IR_SELECT: case IR_FMA: return eval_three(ev, ins);
	default: return eval_plain(ev, ins);
	}
}
