/* eval.c -- the evaluator of tile IR: runs a kernel on host tensors, workgroup by workgroup, without LLVM.
 *
 * In: a verified kernel, tensors, scalars and symbols.  Out: the tensors written, or -1 and a text that names the instruction.
 * It is the oracle of the compiler, so it is written for plainness: every value of a workgroup is a whole dense tile, every
 * instruction one loop over it.  This file holds the order of things: phases, the grid (ragged groups included), blocks, for
 * and if; the arithmetic is in eval_elem.c, eval_mem.c and eval_reduce.c. */
#include "eval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t tile_limit = (int64_t)1 << 31;

int eval_fail(struct evaluator *ev, const struct ir_ins *ins, const char *fmt, ...)
{
	int n = 0;
	va_list ap;
	if (ins)
		n = snprintf(ev->err, ev->errlen, "line %d: %%%d %s: ", ins->line, ins->id, ir_op_info[ins->op].text);
	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < ev->errlen)
		vsnprintf(ev->err + n, ev->errlen - (size_t)n, fmt, ap);
	va_end(ap);
	return -1;
}

#define TRY(call) do { if (call) return -1; } while (0)

/* --- tiles */

int64_t eval_count(const struct evaluator *ev, ir_axes axes)
{
	int64_t n = 1;
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (axes & IR_AXIS(a)) {
			if (ev->size[a] > 0 && n > tile_limit / ev->size[a])
				return tile_limit + 1;
			n *= ev->size[a];
		}
	return n;
}

int eval_room(struct evaluator *ev, const struct ir_ins *ins)
{
	struct tile *t = &ev->tiles[ins->id];
	int64_t n = eval_count(ev, ins->axes);
	if (n > tile_limit)
		return eval_fail(ev, ins, "a tile of more than 2^31 elements");
	size_t bytes = (size_t)n * (eval_is_float(ins) ? sizeof(float) : sizeof(int64_t));
	if (bytes <= t->bytes && t->data)
		return 0;
	free(t->data);
	t->bytes = bytes;
	t->data = malloc(bytes + 1);
	return t->data ? 0 : eval_fail(ev, ins, "no memory for a tile of %lld elements", (long long)n);
}

bool walk_start(struct walk *w, const struct evaluator *ev, ir_axes axes, const ir_axes *operands, int n)
{
	int64_t weight[WALK_OPERANDS];
	w->operands = n;
	w->dims = 0;
	for (int i = 0; i < n; i++) {
		weight[i] = 1;
		w->offset[i] = 0;
	}
	/* from the fastest axis to the slowest; neighbours that no operand tells apart become one dimension */
	for (int a = LAYOUT_AXES - 1; a >= 0; a--) {
		if (!(axes & IR_AXIS(a))) {
			for (int i = 0; i < n; i++)
				weight[i] *= operands[i] & IR_AXIS(a) ? ev->size[a] : 1;
			continue;
		}
		if (ev->size[a] <= 0)
			return false;
		int d = w->dims;
		bool merge = d > 0;
		for (int i = 0; i < n; i++) {
			bool has = operands[i] & IR_AXIS(a);
			w->stride[i][d] = has ? weight[i] : 0;
			weight[i] *= has ? ev->size[a] : 1;
			merge = merge && w->stride[i][d] == w->stride[i][d - 1] * w->size[d - 1];
		}
		w->size[d] = ev->size[a];
		w->at[d] = 0;
		if (merge)
			w->size[d - 1] *= ev->size[a];
		else
			w->dims++;
	}
	w->run = w->dims ? w->size[0] : 1;
	for (int i = 0; i < n; i++)
		w->step[i] = w->dims ? w->stride[i][0] : 0;
	return true;
}

bool walk_next(struct walk *w)
{
	for (int d = 1; d < w->dims; d++) {
		bool wrap = ++w->at[d] == w->size[d];
		for (int i = 0; i < w->operands; i++)
			w->offset[i] += wrap ? -(w->size[d] - 1) * w->stride[i][d] : w->stride[i][d];
		if (!wrap)
			return true;
		w->at[d] = 0;
	}
	return false;
}

int eval_spread(struct evaluator *ev, const struct ir_ins *to, const struct ir_ins *from)
{
	struct walk w;
	TRY(eval_room(ev, to));
	for (bool go = walk_start(&w, ev, to->axes, (ir_axes[]){to->axes, from->axes}, 2); go; go = walk_next(&w))
		for (int64_t i = 0; i < w.run; i++) {
			int64_t x = w.offset[0] + i * w.step[0], y = w.offset[1] + i * w.step[1];
			if (eval_is_float(to))
				eval_floats(ev, to)[x] = eval_floats(ev, from)[y];
			else
				eval_ints(ev, to)[x] = eval_ints(ev, from)[y];
		}
	return 0;
}

/* --- instructions and blocks */

static int eval_block(struct evaluator *ev, const struct ir_block *b);

static int eval_leaf(struct evaluator *ev, const struct ir_ins *ins)
{
	TRY(eval_room(ev, ins));
	if (ins->op == IR_IOTA) {
		for (int64_t i = 0; i < ev->size[ins->imm]; i++)
			eval_ints(ev, ins)[i] = (int32_t)(ev->base[ins->imm] + i);
		return 0;
	}
	if (eval_is_float(ins)) {
		*eval_floats(ev, ins) = op_float_round(ins->dtype, (float)(ins->op == IR_CONST ? ins->num : ev->in->scalars[ins->imm]));
		return 0;
	}
	int64_t *v = eval_ints(ev, ins);
	switch (ins->op) {
	case IR_CONST: *v = op_type_is_code(ins->dtype) ? (int64_t)num_from_f32((float)ins->num, ins->dtype, false) : ins->imm; break;
	case IR_SYM: *v = (int32_t)ev->in->symbols[ins->imm]; break;
	case IR_PARAM: *v = op_int_wrap(ins->dtype, (int64_t)ev->in->scalars[ins->imm]); break;
	case IR_HAS: *v = ev->tensors[ins->imm].data != NULL; break;
	default: *v = (int32_t)ev->limit[ins->imm]; break;
	}
	return 0;
}

static bool is_param_of(const struct ir_ins *a, const struct ir_block *b) { return a->op == IR_ARG && a->block == b; }

/* The values yielded become the ARGs, all at once: those that are ARGs of the same loop are set aside first. */
static int carry(struct evaluator *ev, const struct ir_block *body, const struct ir_ins *yield)
{
	void **aside = calloc((size_t)yield->nargs + 1, sizeof *aside);
	int status = aside ? 0 : eval_fail(ev, yield, "no memory");
	for (int i = 0; i < yield->nargs && !status; i++) {
		const struct ir_ins *from = yield->args[i];
		const struct tile *t = &ev->tiles[from->id];
		if (!is_param_of(from, body) || from == body->params[i])
			continue;
		aside[i] = malloc(t->bytes + 1);
		if (aside[i])
			memcpy(aside[i], t->data, t->bytes);
		else
			status = eval_fail(ev, yield, "no memory");
	}
	for (int i = 0; i < yield->nargs && !status; i++)
		if (!is_param_of(yield->args[i], body))
			status = eval_spread(ev, body->params[i], yield->args[i]);
	for (int i = 0; i < yield->nargs && !status; i++)
		if (aside[i]) {
			/* the ARG yielded lends its saved array while it is spread from there */
			struct tile *t = &ev->tiles[yield->args[i]->id];
			void *own = t->data;
			t->data = aside[i];
			status = eval_spread(ev, body->params[i], yield->args[i]);
			t->data = own;
		}
	for (int i = 0; aside && i < yield->nargs; i++)
		free(aside[i]);
	free(aside);
	return status;
}

static int eval_for(struct evaluator *ev, const struct ir_ins *ins)
{
	int axis = (int)ins->imm, tile = ev->ph->axes[axis].tile;
	int64_t start = *eval_ints(ev, ins->args[0]), end = *eval_ints(ev, ins->args[1]);
	for (int i = 0; i < ins->body->nparams; i++)
		TRY(eval_spread(ev, ins->body->params[i], ins->args[2 + i]));
	int64_t step = tile ? tile : end - start;
	for (int64_t at = start; at < end; at += step) {
		ev->base[axis] = at;
		ev->size[axis] = step;
		TRY(eval_block(ev, ins->body));
		TRY(carry(ev, ins->body, ins->body->last));
	}
	ev->size[axis] = 0;
	return 0;
}

static int eval_if(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_block *taken = *eval_ints(ev, ins->args[0]) ? ins->body : ins->other;
	ev->tiles[ins->id].yield = taken->last;
	return eval_block(ev, taken);
}

static int eval_result(struct evaluator *ev, const struct ir_ins *ins)
{
	const struct ir_ins *of = ins->args[0];
	return eval_spread(ev, ins, of->op == IR_FOR ? of->body->params[ins->imm] : ev->tiles[of->id].yield->args[ins->imm]);
}

static int eval_ins(struct evaluator *ev, const struct ir_ins *ins)
{
	switch (ins->op) {
	case IR_CONST: case IR_SYM: case IR_PARAM: case IR_HAS: case IR_IOTA: case IR_LIMIT: return eval_leaf(ev, ins);
	case IR_LOAD: case IR_STORE: case IR_UPDATE: return eval_access(ev, ins);
	case IR_REDUCE: case IR_DOT: case IR_ARGMAX: case IR_SCAN: return eval_reduce(ev, ins);
	case IR_FOR: return eval_for(ev, ins);
	case IR_IF: return eval_if(ev, ins);
	case IR_RESULT: return eval_result(ev, ins);
	case IR_YIELD: return 0;
	default: return eval_elementwise(ev, ins);
	}
}

static int eval_block(struct evaluator *ev, const struct ir_block *b)
{
	for (const struct ir_ins *ins = b->first; ins; ins = ins->next)
		TRY(eval_ins(ev, ins));
	return 0;
}

/* --- the grid */

int64_t eval_list_length(const struct ir_tensor *list, int64_t i)
{
	int32_t n;
	memcpy(&n, (const char *)list->data + 8 * list->extent[0] + 4 * i, sizeof n);
	return n;
}

void *eval_list_entry(const struct ir_tensor *list, int64_t i)
{
	uint64_t address;
	memcpy(&address, (const char *)list->data + 8 * i, sizeof address);
	return (void *)(uintptr_t)address;
}

/* Element i of a ragged axis's bounds, clamped to 0..total. */
static int64_t bound_at(struct evaluator *ev, const struct ir_axis *x, int64_t i, int64_t total)
{
	const struct ir_tensor *t = &ev->tensors[x->ragged_tensor];
	int64_t v = ((const int32_t *)t->data)[i * t->stride[0]];
	return v < 0 ? 0 : v > total ? total : v;
}

/* The range of a ragged axis in the present group: bounds count as the largest up to them, which makes them non-decreasing. */
static int ragged_range(struct evaluator *ev, const struct ir_axis *x, int64_t total, int64_t *first, int64_t *end)
{
	const struct ir_tensor *t = &ev->tensors[x->ragged_tensor];
	int64_t group = ev->base[x->ragged_group];
	if (x->of_list) {
		int64_t n = eval_list_length(t, group);
		*first = 0;
		*end = n < 0 ? 0 : n > total ? total : n;
		return 0;
	}
	if (!t->data || group + 1 >= t->extent[0] || ev->size[x->ragged_group] != 1)
		return eval_fail(ev, NULL, "axis '%s': group %lld has no bounds in '%s'", x->name, (long long)group, ev->k->params[x->ragged_tensor].name);
	*first = 0;
	for (int64_t i = 0; i <= group; i++) {
		int64_t v = bound_at(ev, x, i, total);
		*first = v > *first ? v : *first;
	}
	*end = bound_at(ev, x, group + 1, total);
	*end = *end > *first ? *end : *first;
	return 0;
}

/* Runs the body for every tile of the grid axes from `which` on; ragged axes come after all others. */
static int eval_grid(struct evaluator *ev, const int *order, int n)
{
	if (!n)
		return eval_block(ev, ev->ph->body);
	int a = *order;
	const struct ir_axis *x = &ev->ph->axes[a];
	int64_t first = 0, end = ev->extent[a];
	if (x->ragged)
		TRY(ragged_range(ev, x, ev->extent[a], &first, &end));
	ev->limit[a] = end;
	ev->size[a] = x->tile ? x->tile : 1;
	for (int64_t at = first; at < end; at += ev->size[a]) {
		ev->base[a] = at;
		TRY(eval_grid(ev, order + 1, n - 1));
	}
	return 0;
}

static int eval_phase(struct evaluator *ev)
{
	int order[LAYOUT_AXES], n = 0;
	const char *why;
	struct hexpr_env env = {.symbols = ev->in->symbols, .nsymbols = ev->k->nsymbols};
	for (int a = 0; a < ev->ph->naxes; a++) {
		const struct ir_axis *x = &ev->ph->axes[a];
		const struct hexpr *extent = x->ragged ? x->ragged_total : x->extent;
		ev->size[a] = ev->base[a] = 0;
		if (extent && hexpr_eval(extent, &env, &ev->extent[a], &why))
			return eval_fail(ev, NULL, "extent of axis '%s': %s", x->name, why);
		if (x->kind == AXIS_HELD || x->cluster)
			ev->size[a] = x->tile ? (int64_t)x->tile * (x->cluster ? x->cluster : 1) : ev->extent[a];
	}
	for (int ragged = 0; ragged < 2; ragged++)
		for (int a = 0; a < ev->ph->naxes; a++)
			if (ev->ph->axes[a].kind == AXIS_GRID && !ev->ph->axes[a].cluster && ev->ph->axes[a].ragged == ragged)
				order[n++] = a;
	return eval_grid(ev, order, n);
}

/* --- the kernel */

static int check_tensor(struct evaluator *ev, const struct ir_param *p, const struct ir_tensor *t)
{
	if (t->data ? t->rank != p->rank || t->dtype != p->dtype : !p->optional)
		return eval_fail(ev, NULL, "tensor '%s' is absent or not %s of rank %d", p->name, dtype_info(p->dtype)->name, p->rank);
	return 0;
}

/* Workspace, dense, filled with ones: a NaN for floats, so that a read before a write shows. */
static int make_workspace(struct evaluator *ev, const struct ir_param *p, struct ir_tensor *t)
{
	struct hexpr_env env = {.symbols = ev->in->symbols, .nsymbols = ev->k->nsymbols};
	const char *why;
	int64_t n = 1;
	*t = (struct ir_tensor){.dtype = p->dtype, .rank = p->rank};
	for (int d = p->rank - 1; d >= 0; d--) {
		if (hexpr_eval(p->extent[d], &env, &t->extent[d], &why))
			return eval_fail(ev, NULL, "extent of '%s': %s", p->name, why);
		if (t->extent[d] < 0 || (t->extent[d] > 0 && n > tile_limit / t->extent[d]))
			return eval_fail(ev, NULL, "'%s' has more than 2^31 elements", p->name);
		t->stride[d] = n;
		n *= t->extent[d];
	}
	size_t bytes = (size_t)dtype_bytes(p->dtype, n);
	t->data = malloc(bytes + 1);
	if (!t->data)
		return eval_fail(ev, NULL, "no memory for '%s'", p->name);
	memset(t->data, 0xff, bytes);
	return 0;
}

static int eval_kernel(struct evaluator *ev)
{
	for (int i = 0; i < ev->k->nparams; i++) {
		const struct ir_param *p = &ev->k->params[i];
		if (p->is_tensor)
			TRY(p->role == IR_TEMP ? make_workspace(ev, p, &ev->tensors[i]) : check_tensor(ev, p, &ev->tensors[i]));
	}
	for (int i = 0; i < ev->k->nphases; i++) {
		ev->ph = &ev->k->phases[i];
		TRY(eval_phase(ev));
	}
	return 0;
}

int ir_evaluate(const struct ir_eval *in, char *err, size_t errlen)
{
	const struct ir_kernel *k = in->kernel;
	struct evaluator ev = {.in = in, .k = k, .err = err, .errlen = errlen};
	ev.tensors = calloc((size_t)k->nparams + 1, sizeof *ev.tensors);
	ev.tiles = calloc((size_t)k->next_id + 1, sizeof *ev.tiles);
	int status = ev.tensors && ev.tiles ? 0 : eval_fail(&ev, NULL, "no memory");
	if (!status) {
		for (int i = 0; i < k->nparams; i++)
			if (k->params[i].role != IR_TEMP)
				ev.tensors[i] = in->tensors[i];
		status = eval_kernel(&ev);
	}
	for (int i = 0; ev.tensors && i < k->nparams; i++)
		if (k->params[i].is_tensor && k->params[i].role == IR_TEMP)
			free(ev.tensors[i].data);
	for (int i = 0; ev.tiles && i < k->next_id; i++) {
		free(ev.tiles[i].data);
		eval_fold_free(ev.tiles[i].fold);
	}
	free(ev.tensors);
	free(ev.tiles);
	return status;
}
