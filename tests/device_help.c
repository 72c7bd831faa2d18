/* device_help.c -- see device_help.h. */
#include "device_help.h"
#include "../sim/sim.h"
#include "../base/num.h"
#include "../compiler/object.h"
#include "device_gpu.h"
#include "ptx_run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 256, POISON = 0xa5 };
static const double LEAST_BOUND = 2e-5;          /* a real GPU's: approximate instructions are within 2^-21 or so of the evaluator's */

void device_open(struct device_run *d, struct ir_run *r, const char *target)
{
	*d = (struct device_run){.r = r, .target = target_by_name(target), .session = object_session_new(), .memory_rate = FAST_MEMORY};
}

void device_close(struct device_run *d)
{
	object_session_free(d->session);
	arena_free(&d->arena);
}

static int64_t leaf(void *ctx, enum hexpr_op op, int64_t imm)
{
	const struct device_run *d = ctx;
	if (op == HX_DEVICE)
		return d->memory_rate;
	if (op == HX_STRIDE)
		return d->r->tensors[imm / 16].stride[imm % 16];
	const struct ir_tensor *t = &d->r->tensors[imm];
	bool unit = t->rank <= 0 || t->stride[t->rank - 1] == 1 || t->extent[t->rank - 1] <= 1;
	if (op == HX_PRESENT)
		return t->data != NULL;
	if (op == HX_FLAT || !t->data)
		return 1;
	if (op == HX_UNIT)
		return unit;
	for (int i = 0; i + 1 < t->rank; i++)
		if (t->stride[i] * (dtype_info(t->dtype)->bits / 8) % 16)
			return 0;
	return unit && (uintptr_t)t->data % 16 == 0;
}

static int64_t host_value(struct device_run *d, const struct hexpr *e)
{
	struct hexpr_env env = {d->r->symbols, d->r->k->nsymbols, leaf, d};
	int64_t v = 0;
	const char *why = "";
	ck_assert_msg(hexpr_eval(e, &env, &v, &why) == 0, "%s", why);
	return v;
}

static void fill_arguments(struct device_run *d, const struct model_launch *l, void *workspace, uint8_t *block)
{
	for (int i = 0; i < l->nkargs; i++) {
		const struct model_karg *k = &l->kargs[i];
		const struct ir_tensor *t = &d->r->tensors[k->a];
		int64_t v = 0;
		float f = (float)d->r->scalars[k->a];
		switch (k->kind) {
		case KA_POINTER: v = (int64_t)(uintptr_t)(d->table[k->a] ? (void *)d->table[k->a] : t->data); break;
		case KA_WORKSPACE: v = (int64_t)(uintptr_t)workspace; break;
		case KA_STRIDE: case KA_STRIDE32: v = t->stride[k->b]; break;
		case KA_SYMBOL: v = d->r->symbols[k->a]; break;
		case KA_FOLD_INNER: v = 1; break;
		case KA_FOLD_STRIDE: v = t->stride[0]; break;      /* inner is 1 */
		case KA_EXPR: v = host_value(d, l->exprs[k->b]); break;
		case KA_SCALAR:
			v = (int64_t)d->r->scalars[k->a];
			if (d->r->k->params[k->a].dtype == DT_F32)
				memcpy(&v, &f, 4);
			break;
		default: ck_abort_msg("argument kind %d", k->kind);
		}
		memcpy(block + k->offset, &v, k->size);
	}
}

size_t device_bytes(const struct ir_tensor *t)
{
	int64_t last = 1;
	for (int i = 0; i < t->rank; i++)
		last += (t->extent[i] - 1) * t->stride[i];
	return ir_tensor_count(t) ? (size_t)dtype_bytes(t->dtype, last) : 0;
}

uint32_t device_lanes(struct device_run *d, const struct model_launch *l)
{
	return (uint32_t)(l->lanes ? host_value(d, l->lanes) : l->block);
}

/* The same by the interpreter of PTX. */
static void launch_ptx(struct device_run *d, const struct device_code *c, const struct model_launch *l, void *workspace, size_t bytes, const char *what)
{
	struct ptx_range memory[2 * MOST_PARAMS + 1];
	_Alignas(16) uint8_t block[1024] = {0};
	struct ptx_launch p = {.text = c->elf, .kernel = l->symbol, .block = device_lanes(d, l), .arguments = block,
	                       .argument_bytes = (size_t)l->kernarg_bytes, .memory = memory, .shared = l->lds, .meets = l->meets, .fetched = d->fetched, .most_fetched = d->most_fetched,
	                       .soon = d->soon, .most_soon = d->most_soon,
	                       .stored = d->stored, .most_stored = d->most_stored};
	fill_arguments(d, l, workspace, block);
	for (int i = 0; i < d->r->k->nparams; i++) {
		const struct ir_tensor *t = &d->r->tensors[i];
		if (!d->r->k->params[i].is_tensor || !t->data || d->r->k->params[i].role == IR_TEMP || !ir_tensor_count(t))
			continue;
		memory[p.nmemory++] = (struct ptx_range){t->data, device_bytes(t), d->r->k->params[i].role != IR_IN};
		if (d->table[i])
			memory[p.nmemory++] = (struct ptx_range){d->table[i], (size_t)t->extent[0] * 12, false};
	}
	if (bytes)
		memory[p.nmemory++] = (struct ptx_range){workspace, bytes, true};
	bool empty = false;
	for (int i = 0; i < 3; i++) {
		p.grid[i] = (uint32_t)host_value(d, l->grid[i]);
		empty = empty || !p.grid[i];
	}
	if (!empty)
		ck_assert_msg(ptx_run(&p, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	d->time = p.time;
	d->nfetched = p.nfetched;
	d->nsoon = p.nsoon;
	d->nstored = 0;
	for (int i = 0; i < p.nstored; i++) {
		const struct ir_tensor *t = &d->r->tensors[d->stored_of];
		uint64_t at = d->stored[i] - (uint64_t)(uintptr_t)t->data;
		if (at < device_bytes(t))
			d->stored[d->nstored++] = at;
	}
	d->kept_loads = p.kept_loads;
	d->kept_stores = p.kept_stores;
	d->other_loads = p.other_loads;
}

/* The table of list p, whose elements are at `data`. */
static void *list_table(struct device_run *d, int p, void *data)
{
	const struct ir_tensor *t = &d->r->tensors[p];
	int64_t k = t->extent[0], n = t->extent[1], first = n * 4 / 7 / 8 * 8;
	uint8_t *table = arena_alloc(&d->arena, (size_t)(k + 1) * 12 + 8);
	for (int64_t i = 0; i < k; i++) {
		uint64_t address = (uint64_t)(uintptr_t)data + (uint64_t)dtype_bytes(t->dtype, i * n);
		int32_t length = (int32_t)(k == 1 ? n : i == 0 ? first : i + 1 == k ? n - first : 0);
		memcpy(table + 8 * i, &address, 8);
		memcpy(table + 8 * k + 4 * i, &length, 4);
	}
	return d->table[p] = table;
}

/* All launches by a GPU: what they use is copied there and back, outputs with what guards them. */
static void run_on_gpu(struct device_run *d, const struct device_code *c, void *workspace, size_t bytes, const char *what)
{
	struct gpu_run *g = gpu_open(c->elf, c->size);
	void *host[MOST_PARAMS];
	for (int i = 0; i < d->r->k->nparams; i++) {
		struct ir_tensor *t = &d->r->tensors[i];
		const struct ir_param *p = &d->r->k->params[i];
		host[i] = t->data;
		if (!p->is_tensor || !t->data || p->role == IR_TEMP || !ir_tensor_count(t))
			continue;
		size_t guard = p->role != IR_IN ? GUARD : 0;
		t->data = (uint8_t *)gpu_memory(g, (uint8_t *)t->data - guard, device_bytes(t) + 2 * guard, guard > 0) + guard;
		if (p->list)
			d->table[i] = gpu_memory(g, list_table(d, i, t->data), (size_t)t->extent[0] * 12, false);
	}
	if (bytes)
		workspace = gpu_memory(g, workspace, bytes, true);
	for (int i = 0; i < c->nlaunches; i++) {
		const struct model_launch *l = &c->launches[i];
		_Alignas(16) uint8_t block[1024] = {0};
		uint32_t grid[3];
		fill_arguments(d, l, workspace, block);
		for (int j = 0; j < 3; j++)
			grid[j] = (uint32_t)host_value(d, l->grid[j]);
		if (grid[0] && grid[1] && grid[2])
			gpu_launch(g, l, grid, device_lanes(d, l), block, what);
	}
	for (int i = 0; i < d->r->k->nparams; i++)
		d->r->tensors[i].data = host[i];
	gpu_close(g, what);
}

static void launch(struct device_run *d, struct sim_object *o, const struct model_launch *l, void *workspace, size_t bytes, const char *what)
{
	struct sim_memory *m = sim_memory_new();
	_Alignas(16) uint8_t block[1024] = {0};
	struct sim_stats stats = {0};
	fill_arguments(d, l, workspace, block);
	for (int p = 0; p < d->r->k->nparams; p++) {
		const struct ir_tensor *t = &d->r->tensors[p];
		if (!d->r->k->params[p].is_tensor || !t->data || d->r->k->params[p].role == IR_TEMP)
			continue;
		if (ir_tensor_count(t))
			sim_memory_add(m, t->data, device_bytes(t), d->r->k->params[p].name, d->r->k->params[p].role != IR_IN);
		if (ir_tensor_count(t) && d->table[p])
			sim_memory_add(m, d->table[p], (size_t)t->extent[0] * 12, d->r->k->params[p].name, false);
	}
	if (bytes)
		sim_memory_add(m, workspace, bytes, "workspace", true);
	sim_memory_add(m, block, sizeof block, "kernarg", false);
	struct sim_launch s = {.object = o, .kernel = sim_object_kernel(o, l->symbol), .memory = m, .block = {device_lanes(d, l), 1, 1},
	                       .kernarg = block, .kernarg_size = (size_t)l->kernarg_bytes, .threads = 1, .checks = true, .stats = &stats};
	ck_assert_ptr_nonnull(s.kernel);
	bool empty = false;
	for (int i = 0; i < 3; i++) {
		s.grid[i] = (uint32_t)host_value(d, l->grid[i]);
		empty = empty || !s.grid[i];
	}
	if (!empty)
		ck_assert_msg(sim_run(&s, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	d->accesses += stats.inst[SIM_VMEM];
	sim_memory_free(m);
}

void device_tables(struct device_run *d, struct ir_tensor *seen)
{
	memcpy(seen, d->r->tensors, (size_t)d->r->k->nparams * sizeof *seen);
	for (int p = 0; p < d->r->k->nparams; p++)
		if (d->r->k->params[p].list)
			seen[p].data = list_table(d, p, d->r->tensors[p].data);
}

/* Memory for output p between guards, holding `from` or poison. */
static uint8_t *guarded(const struct ir_tensor *t, const void *from)
{
	size_t n = device_bytes(t);
	uint8_t *p = aligned_alloc(64, (n + 2 * GUARD + 63) / 64 * 64);
	memset(p, POISON, n + 2 * GUARD);
	if (from)
		memcpy(p + GUARD, from, n);
	return p;
}

static bool both_nan(enum dtype t, uint32_t a, uint32_t b)
{
	return (t == DT_F32 && (a & 0x7fffffff) > 0x7f800000 && (b & 0x7fffffff) > 0x7f800000) ||
	       (t == DT_BF16 && (a & 0x7fff) > 0x7f80 && (b & 0x7fff) > 0x7f80) || (t == DT_F16 && (a & 0x7fff) > 0x7c00 && (b & 0x7fff) > 0x7c00);
}

static void find_turns(struct ir_ins *i, void *found)
{
	*(bool *)found = *(bool *)found || i->op == IR_SIN_TURNS || i->op == IR_COS_TURNS;
}

/* What a real GPU computes to fewer digits, or adds in an order of its own (of integers that changes nothing). */
static void find_approximate(struct ir_ins *i, void *found)
{
	*(bool *)found = *(bool *)found || i->op == IR_RSQRT || i->op == IR_RCP || i->op == IR_EXP2 || i->op == IR_LOG2 || i->op == IR_DOT ||
	                 (i->op == IR_UPDATE && i->kind == RED_SUM);
	find_turns(i, found);
}

static bool has(const struct ir_kernel *k, void (*find)(struct ir_ins *, void *))
{
	bool found = false;
	for (int p = 0; p < k->nphases; p++)
		ir_walk(k->phases[p].body, find, &found);
	return found;
}

static void find_real_product(struct ir_ins *i, void *found)
{
	*(bool *)found = *(bool *)found || (i->op == IR_DOT && i->args[0]->dtype == DT_F32);
}

/* How far a chip's own way may be: sin and cos where the instruction takes radians (turns are multiplied first, and rounded), a few of them
 * added up; products of f32 that are made of shorter numbers. */
static double inexactness(const struct device_run *d, const struct device_code *c)
{
	if (!target_is_nvptx(d->target))
		return 0;
	return has(c->final, find_real_product) || has(c->final, find_turns) ? 0x1p-18 : 0;
}

bool device_near(double bound, enum dtype t, double a, double b)
{
	double ulp = t == DT_BF16 ? 0x1p-7 : t == DT_F16 ? 0x1p-10 : t == DT_E4M3 || t == DT_E4M3FNUZ ? 0x1p-3 : t == DT_E5M2 || t == DT_E5M2FNUZ ? 0x1p-2 : 0;
	if (a == b || (isnan(a) && isnan(b)))
		return true;
	if (dtype_info(t)->cls == 'I')
		return bound > 0 && t == DT_I8 && fabs(a - b) <= 1;
	return bound > 0 && fabs(a - b) <= bound * (1 + fabs(b)) + ulp * fmax(fabs(a), fabs(b)) + (dtype_info(t)->bits == 8 ? 0x1p-9 : 0);
}

/* What a real GPU made of it. */
static void compare_near(struct device_run *d, int p, uint8_t *want, uint8_t *got, const char *what)
{
	struct ir_tensor a = d->r->tensors[p], b = a;
	double bound = fmax(d->bound, LEAST_BOUND);
	a.data = got;
	b.data = want;
	for (int64_t i = 0; i < ir_tensor_count(&a); i++)
		if (!device_near(bound, a.dtype, ir_tensor_get(&a, i), ir_tensor_get(&b, i)))
			ck_abort_msg("%s: %s[%lld] is %.9g, the evaluator has %.9g", what, d->r->k->params[p].name, (long long)i, ir_tensor_get(&a, i), ir_tensor_get(&b, i));
}

/* Bit for bit; NaNs of the wider formats may differ in their payload.  inexact: floats within so much, or a step of a narrow one. */
static void compare(struct device_run *d, int p, const uint8_t *want, const uint8_t *got, double inexact, const char *what)
{
	const struct ir_tensor *t = &d->r->tensors[p];
	size_t n = device_bytes(t), step = dtype_info(t->dtype)->bits < 8 ? 1 : dtype_info(t->dtype)->bits / 8;
	for (size_t i = 0; i < n; i += step)
		if (memcmp(want + i, got + i, step)) {
			uint32_t a = 0, b = 0;
			memcpy(&a, want + i, step < 4 ? step : 4);
			memcpy(&b, got + i, step < 4 ? step : 4);
			if (inexact > 0 && dtype_info(t->dtype)->bits >= 8 && dtype_is_float(t->dtype) && device_near(inexact, t->dtype, num_to_f32(a, t->dtype), num_to_f32(b, t->dtype)))
				continue;
			ck_assert_msg(both_nan(t->dtype, a, b), "%s: %s[%zu] is 0x%x, the evaluator has 0x%x", what, d->r->k->params[p].name,
			              i / step, b, a);
		}
}

static void check_guards(const struct device_run *d, int p, const uint8_t *got, const char *what)
{
	size_t n = device_bytes(&d->r->tensors[p]);
	for (int i = 0; i < GUARD; i++)
		if (got[-1 - i] != POISON || got[n + (size_t)i] != POISON)
			ck_abort_msg("%s: bytes beside %s were written", what, d->r->k->params[p].name);
}

void device_compile(struct device_run *d, const struct variant *v, struct device_code *c, const char *what)
{
	struct variant_code code;
	struct variant built = *v;
	*c = (struct device_code){.v = v};
	if (!gpu_wanted(d->target->name))
		setenv("TDSL_PTXAS", "", 1);             /* PTX as text, for ptx_run */
	int rc = variant_build(&d->arena, d->r->k, &built, d->session, &code, d->err, sizeof d->err);
	if (rc == OBJECT_SPILLS && d->spare)
		return;
	ck_assert_msg(rc == 0, "%s: %s", what, d->err);
	ck_assert_msg(run_passes(&d->arena, d->r->k, &built, NULL, &c->final, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	c->launches = code.made.launches;
	c->nlaunches = code.made.nlaunches;
	c->workspace = code.made.workspace;
	c->condition = code.made.condition;
	c->elf = code.elf;
	c->size = code.size;
	for (int i = 0; i < code.nfacts; i++)
		c->instructions += code.facts[i].instructions;
	for (int i = 0; i < c->nlaunches; i++)           /* what the runtime asks the device for a place by */
		ck_assert_msg(c->launches[i].together == (built.cluster > 0), "%s: launch %d: workgroups start together: %d", what, i, c->launches[i].together);
	for (int i = 0; i < c->nlaunches; i++)
		ck_assert_msg(c->launches[i].meets == built.joined && (!built.joined || c->nlaunches == 1), "%s: launch %d: workgroups wait for each other: %d", what, i, c->launches[i].meets);
}

/* Outputs count as aligned: they are given aligned memory. */
static bool holds(struct device_run *d, const struct hexpr *asked)
{
	bool fresh[MOST_PARAMS] = {false}, yes;
	for (int p = 0; p < d->r->k->nparams; p++)
		if (d->r->k->params[p].is_tensor && d->r->k->params[p].role == IR_OUT && d->r->tensors[p].rank >= 0 && !d->r->tensors[p].data) {
			fresh[p] = true;
			d->r->tensors[p].data = (void *)(uintptr_t)64;
		}
	yes = !asked || host_value(d, asked);
	for (int p = 0; p < d->r->k->nparams; p++)
		if (fresh[p])
			d->r->tensors[p].data = NULL;
	return yes;
}

bool device_applies(struct device_run *d, const struct variant *v) { return holds(d, v->predicate); }

/* A least that no limit of the variant says, or one that follows from others: it is faster from there on, and right before. */
static bool is_of_speed(const struct variant *v, const struct hexpr *e)
{
	bool least = e->op == HX_LE && e->b->op != HX_CONST;
	for (int i = 0; least && i < v->nlimits; i++)
		least = e->b->op != HX_SYM || e->b->imm != v->limits[i].symbol || e->a->op != HX_CONST || e->a->imm > v->limits[i].least;
	return least;
}

static bool is_right(struct device_run *d, const struct variant *v, const struct hexpr *e)
{
	return !e || (e->op == HX_AND ? is_right(d, v, e->a) && is_right(d, v, e->b) : is_of_speed(v, e) || holds(d, e));
}

bool device_computes(struct device_run *d, const struct variant *v) { return is_right(d, v, v->predicate); }
bool device_allows(struct device_run *d, const struct device_code *c) { return holds(d, c->condition); }
bool device_takes(struct device_run *d, const struct device_code *c) { return device_applies(d, c->v) && device_allows(d, c); }

void device_check(struct device_run *d, const struct device_code *c, const char *what, bool keep)
{
	const struct ir_kernel *k = d->r->k;
	uint8_t *want[MOST_PARAMS] = {0}, *got[MOST_PARAMS] = {0}, *before[MOST_PARAMS] = {0};
	struct ir_tensor *t = d->r->tensors;
	struct ir_tensor seen[MOST_PARAMS];
	struct ir_eval e = {c->final, seen, d->r->scalars, d->r->symbols, true};
	for (int p = 0; p < k->nparams; p++)
		if (k->params[p].is_tensor && t[p].rank >= 0 && (k->params[p].role == IR_OUT || (k->params[p].role == IR_INOUT && t[p].data))) {
			before[p] = t[p].data;
			want[p] = guarded(&t[p], k->params[p].role == IR_INOUT ? before[p] : NULL);
			got[p] = guarded(&t[p], k->params[p].role == IR_INOUT ? before[p] : NULL);
			t[p].data = want[p] + GUARD;
		}
	device_tables(d, seen);
	ck_assert_msg(ir_evaluate(&e, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	for (int p = 0; p < k->nparams; p++)
		if (want[p])
			t[p].data = got[p] + GUARD;
	device_tables(d, seen);
	struct sim_object *o = NULL;
	size_t bytes = c->workspace ? (size_t)host_value(d, c->workspace) : 0;
	void *workspace = bytes ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
	if (bytes)
		memset(workspace, POISON, bytes);
	bool ptx = target_is_nvptx(d->target), on_gpu = gpu_wanted(d->target->name);
	if (on_gpu)
		run_on_gpu(d, c, workspace, bytes, what);
	if (!ptx)
		ck_assert_msg(sim_object_load(&o, sim_chip_by_name(d->target->name), c->elf, c->size, d->err, sizeof d->err) == 0, "%s: %s", what, d->err);
	for (int i = 0; !on_gpu && i < c->nlaunches; i++)
		if (ptx)
			launch_ptx(d, c, &c->launches[i], workspace, bytes, what);
		else
			launch(d, o, &c->launches[i], workspace, bytes, what);
	for (int p = 0; p < k->nparams; p++)
		if (want[p]) {
			if (on_gpu && has(c->final, find_approximate))
				compare_near(d, p, want[p] + GUARD, got[p] + GUARD, what);
			else
				compare(d, p, want[p] + GUARD, got[p] + GUARD, inexactness(d, c), what);
			check_guards(d, p, got[p] + GUARD, what);
			t[p].data = before[p];
			if (keep && before[p])
				memcpy(before[p], want[p] + GUARD, device_bytes(&t[p]));
			free(want[p]);
			free(got[p]);
		}
	free(workspace);
	if (o)
		sim_object_free(o);
}

void device_check_all(struct ir_run *r, const char *target, struct dsl_pin *pins, int npins, const char *sizes)
{
	struct device_run d;
	struct dsl_kernel text = {0};
	struct dsl_set set = {.pins = pins, .npins = npins};
	struct dsl_special special = {&set, 1};
	struct variant *v;
	int n, ran = 0;
	device_open(&d, r, target);
	r->k->target = target;
	ck_assert_msg(plan_variants(&d.arena, r->k, &text, &special, d.target, &v, &n, d.err, sizeof d.err) == 0, "%s", d.err);
	for (int i = 0; i < n; i++) {
		struct device_code code;
		const char *what = arena_printf(&d.arena, "%s %s %s, variant %s", r->k->name, target, sizes, v[i].text);
		if (!device_applies(&d, &v[i]))
			continue;
		device_compile(&d, &v[i], &code, what);
		if (device_takes(&d, &code)) {
			device_check(&d, &code, what, false);
			ran++;
		}
		free(code.elf);
	}
	ck_assert_int_gt(ran, 0);
	device_close(&d);
}
