/* eval_mem.c -- load, store and update of the evaluator.
 *
 * In: tiles of subscripts, values and masks.  Out: a tile, or changed tensors.  Every element finds its own place through the
 * tensor's strides, so views, gathers and transposed writes need nothing special.  e2m1 tensors hold two elements a byte,
 * the lower nibble first, and strides count elements. */
#include "eval.h"

#include <stdio.h>
#include <string.h>

#define TRY(call) do { if (call) return -1; } while (0)

/* --- one element of memory */

static uint32_t code_read(const struct ir_tensor *t, int64_t at)
{
	const uint8_t *bytes = t->data;
	uint16_t half;
	switch (dtype_info(t->dtype)->bits) {
	case 4: return bytes[at >> 1] >> (at & 1) * 4 & 15;
	case 16: memcpy(&half, bytes + at * 2, 2); return half;
	default: return bytes[at];
	}
}

static void code_write(const struct ir_tensor *t, int64_t at, uint32_t code)
{
	uint8_t *bytes = t->data;
	uint16_t half = (uint16_t)code;
	switch (dtype_info(t->dtype)->bits) {
	case 4:
		bytes[at >> 1] = (uint8_t)((bytes[at >> 1] & (at & 1 ? 15 : 240)) | (code & 15) << (at & 1) * 4);
		break;
	case 16: memcpy(bytes + at * 2, &half, 2); break;
	default: bytes[at] = (uint8_t)code;
	}
}

static float float_read(const struct ir_tensor *t, int64_t at)
{
	float x;
	if (t->dtype != DT_F32)
		return num_to_f32(code_read(t, at), t->dtype);
	memcpy(&x, (const char *)t->data + at * 4, 4);
	return x;
}

static void float_write(const struct ir_tensor *t, int64_t at, float x)
{
	if (t->dtype == DT_F32)
		memcpy((char *)t->data + at * 4, &x, 4);
	else
		code_write(t, at, num_from_f32(x, t->dtype, false));
}

static int64_t int_read(const struct ir_tensor *t, int64_t at)
{
	int32_t word;
	int64_t wide;
	switch (t->dtype) {
	case DT_I32: memcpy(&word, (const char *)t->data + at * 4, 4); return word;
	case DT_I64: memcpy(&wide, (const char *)t->data + at * 8, 8); return wide;
	case DT_I1: return code_read(t, at) != 0;
	case DT_I8: return (int8_t)code_read(t, at);
	default: return code_read(t, at);
	}
}

static void int_write(const struct ir_tensor *t, int64_t at, int64_t v)
{
	int32_t word = (int32_t)v;
	switch (t->dtype) {
	case DT_I32: memcpy((char *)t->data + at * 4, &word, 4); break;
	case DT_I64: memcpy((char *)t->data + at * 8, &v, 8); break;
	default: code_write(t, at, (uint32_t)v);
	}
}

static float float_update(enum ir_reduce kind, float old, float x)
{
	return kind == RED_SUM ? old + x : kind == RED_PROD ? old * x : kind == RED_MAX ? op_float_max(old, x) : op_float_min(old, x);
}

static int64_t int_update(enum ir_reduce kind, enum dtype t, int64_t old, int64_t v)
{
	return op_int_binary(kind == RED_SUM ? IR_ADD : kind == RED_PROD ? IR_MUL : kind == RED_MAX ? IR_MAX : IR_MIN, t, old, v);
}

/* --- the walk.  Operands of it: the instruction's, in their order, and then the instruction itself. */

struct access {
	const struct ir_ins *ins, *value, *mask;
	const struct ir_tensor *tensor;
	struct ir_tensor entry;                /* of a list: the tensor that the present element is in */
	bool list;
	const int64_t *sub[6];
	const char *name;
	int rank, value_arg, mask_arg;
};

static int out_of_bounds(struct evaluator *ev, const struct access *x, const int64_t sub[6])
{
	char text[300];
	int n = snprintf(text, sizeof text, "%s[", x->name);
	for (int d = 0; d < x->rank && n < (int)sizeof text; d++)
		n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", d ? ", " : "", (long long)sub[d]);
	if (n < (int)sizeof text)
		n += snprintf(text + n, sizeof text - (size_t)n, "] is outside %s[", x->name);
	for (int d = 0; d < x->rank && n < (int)sizeof text; d++)
		n += snprintf(text + n, sizeof text - (size_t)n, "%s%lld", d ? ", " : "", (long long)x->tensor->extent[d]);
	return eval_fail(ev, x->ins, "%s]", text);
}

/* Of a list: the tensor that the first subscript names, with the list's rank. */
static void entry_open(struct access *x, const struct ir_tensor *list, int64_t k)
{
	x->entry = *list;
	x->tensor = &x->entry;
	if (k < 0 || k >= list->extent[0])
		return;
	x->entry.data = eval_list_entry(list, k);
	x->entry.extent[1] = eval_list_length(list, k);
	x->entry.stride[0] = 0;
	x->entry.stride[1] = 1;
}

/* Place of element i of the run in memory: 1 and *at, 0 where nothing is there to access, -1 on an error. */
static int element(struct evaluator *ev, struct access *x, const struct walk *w, int64_t i, int64_t *at)
{
	int64_t sub[6];
	bool inside = true;
	if (x->mask && !eval_ints(ev, x->mask)[w->offset[x->mask_arg] + i * w->step[x->mask_arg]])
		return 0;
	if (x->list)
		entry_open(x, &ev->tensors[x->ins->imm], x->sub[0][w->offset[0] + i * w->step[0]]);
	*at = 0;
	for (int d = 0; d < x->rank; d++) {
		sub[d] = x->sub[d][w->offset[d] + i * w->step[d]];
		inside = inside && sub[d] >= 0 && sub[d] < x->tensor->extent[d];
		*at += sub[d] * x->tensor->stride[d];
	}
	if (!x->tensor->data && !x->list)     /* an absent optional tensor: reads 0, keeps nothing */
		return 0;
	if (inside)
		return 1;
	return ev->in->check_bounds ? out_of_bounds(ev, x, sub) : 0;
}

static void load_element(struct evaluator *ev, const struct access *x, int64_t to, int there, int64_t at)
{
	if (eval_is_float(x->ins))
		eval_floats(ev, x->ins)[to] = there ? float_read(x->tensor, at) : 0;
	else
		eval_ints(ev, x->ins)[to] = there ? int_read(x->tensor, at) : 0;
}

static void write_element(struct evaluator *ev, const struct access *x, int64_t from, int64_t at)
{
	bool update = x->ins->op == IR_UPDATE;
	if (eval_is_float(x->value)) {
		float v = eval_floats(ev, x->value)[from];
		float_write(x->tensor, at, update ? float_update(x->ins->kind, float_read(x->tensor, at), v) : v);
	} else {
		int64_t v = eval_ints(ev, x->value)[from];
		int_write(x->tensor, at, update ? int_update(x->ins->kind, x->tensor->dtype, int_read(x->tensor, at), v) : v);
	}
}

int eval_access(struct evaluator *ev, const struct ir_ins *ins)
{
	bool load = ins->op == IR_LOAD, masked = ins->flags & IR_MASKED;
	struct access x = {.ins = ins, .tensor = &ev->tensors[ins->imm], .name = ev->k->params[ins->imm].name, .rank = ev->k->params[ins->imm].rank,
	                   .list = ev->k->params[ins->imm].list};
	ir_axes operands[WALK_OPERANDS];
	struct walk w;
	int n = ins->nargs;
	for (int i = 0; i < n; i++)
		operands[i] = ins->args[i]->axes;
	operands[n] = ins->axes;
	for (int d = 0; d < x.rank; d++)
		x.sub[d] = eval_ints(ev, ins->args[d]);
	x.value_arg = x.rank;
	x.value = load ? NULL : ins->args[x.rank];
	x.mask_arg = n - 1;
	x.mask = masked ? ins->args[n - 1] : NULL;
	if (load)
		TRY(eval_room(ev, ins));
	for (bool go = walk_start(&w, ev, ins->axes, operands, n + 1); go; go = walk_next(&w))
		for (int64_t i = 0; i < w.run; i++) {
			int64_t at;
			int there = element(ev, &x, &w, i, &at);
			if (there < 0)
				return -1;
			if (load)
				load_element(ev, &x, w.offset[n] + i * w.step[n], there, at);
			else if (there)
				write_element(ev, &x, w.offset[x.value_arg] + i * w.step[x.value_arg], at);
		}
	return 0;
}
