/* follow.c -- whether a variant can serve a bound call: its tensors' strides, and its launches' place on the device.
 * In: a call's arguments, bound, and a variant whose predicate holds or not.  Out: 0, or why it cannot, as the error's text.
 *
 * A variant whose predicate holds may still be unable to follow a tensor (it takes no stride for a dimension that is not compact, or no second
 * stride for two folded groups): it is passed over, so that strides are never ignored; if none is left the error names the tensor.  So is one whose
 * clusters the device has no place for, which its loaded code tells, and one whose grid is more than a launch holds: another's workgroups may be
 * smaller.  A predicate that cannot be evaluated does not hold. */
#include "follow.h"

#include <inttypes.h>

/* ---- strides */

/* True where the launch gets the stride of dimension `dim` of `param`, as an argument of its own or inside an expression. */
static bool stride_given(const struct bind *b, const struct pack_launch *l, int param, int dim)
{
	for (uint32_t i = 0; i < l->kargs.count; i++) {
		const struct pack_karg *a = bind_karg(b, l, i);
		if ((a->kind == KA_STRIDE || a->kind == KA_STRIDE32) && a->a == param && a->b == dim)
			return true;
	}
	bool found = false;
	struct arena arena = {0};
	for (uint32_t i = 0; i < l->exprs.count && !found; i++) {
		struct pack_code_ref c = b->file->exprs[l->exprs.first + i];
		found = hexpr_has(hexpr_decode(&arena, b->file->code + c.offset, c.size), HX_STRIDE, param * 16 + dim);
	}
	arena_free(&arena);
	return found;
}

static bool karg_has(const struct bind *b, const struct pack_launch *l, int kind, int param)
{
	for (uint32_t i = 0; i < l->kargs.count; i++)
		if (bind_karg(b, l, i)->kind == kind && bind_karg(b, l, i)->a == param)
			return true;
	return false;
}

/* 0, or TDSL_ESTRIDE with the text set. */
static int tensor_followed(const struct bind *b, const struct pack_launch *l, int param)
{
	const struct view *v = &b->views[param];
	int64_t compact = 1;
	if (v->empty || !v->present || v->list)
		return 0;
	if (!v->flat && v->fold_inner != bind_fold_inner(b))
		FAIL(TDSL_ESTRIDE, "%s: argument '%s': its leading dimensions fold by %" PRId64 ", those of another argument by %" PRId64
		     "; expected the same shape", b->name, bind_param_name(b, param), v->fold_inner, bind_fold_inner(b));
	if (!v->flat && !karg_has(b, l, KA_FOLD_STRIDE, param))
		FAIL(TDSL_ESTRIDE, "%s: argument '%s': its leading dimensions do not fold into one stride (%" PRId64 " x stride %" PRId64
		     ", then stride %" PRId64 "), which this kernel cannot follow", b->name, bind_param_name(b, param),
		     v->extent[0] / v->fold_inner, v->fold_stride, v->stride[0]);
	for (int d = v->rank - 1; d >= 0; d--) {
		if (v->extent[d] > 1 && v->stride[d] != compact && !stride_given(b, l, param, d))
			FAIL(TDSL_ESTRIDE, "%s: argument '%s', dimension %d: stride %" PRId64 "; this kernel follows stride %" PRId64 " only",
			     b->name, bind_param_name(b, param), d + v->extra, v->stride[d], compact);
		compact *= v->extent[d];
	}
	for (uint32_t i = 0; i < l->kargs.count; i++) {
		const struct pack_karg *a = bind_karg(b, l, i);
		if (a->kind == KA_STRIDE32 && a->a == param && v->extent[a->b] > 1 && v->stride[a->b] > INT32_MAX)
			FAIL(TDSL_ESTRIDE, "%s: argument '%s', dimension %d: stride %" PRId64 " is over 2^31 - 1", b->name, bind_param_name(b, param),
			     a->b + v->extra, v->stride[a->b]);
	}
	return 0;
}

int variant_follows(const struct bind *b, const struct pack_variant *v)
{
	for (uint32_t i = 0; i < v->launches.count; i++) {
		const struct pack_launch *l = bind_launch(b, v, i);
		for (uint32_t j = 0; j < l->kargs.count; j++)
			if (bind_karg(b, l, j)->kind == KA_POINTER)
				TRY(tensor_followed(b, l, bind_karg(b, l, j)->a));
	}
	return 0;
}

/* What a predicate asks of a call that does not hold: anything but strides, or the first stride that is too large, and the most it may be. */
struct reach { const struct bind *bind; bool other, far; int param, dim; int64_t most; };

static bool holds(const struct bind *b, const struct hexpr *e, int64_t *value)
{
	struct hexpr_env env = {b->symbols, (int)b->kernel->k->symbols.count, bind_leaf, (void *)(uintptr_t)b};
	const char *why;
	return hexpr_eval(e, &env, value, &why) == 0 && *value != 0;
}

/* "stride <= most", or "stride * extent <= most", as the compiler writes them (limit_strides): offsets inside a tile have 32 bits. */
static void reach_take(struct reach *r, const struct hexpr *e)
{
	const struct hexpr *left = e->op == HX_LE ? e->a : NULL, *stride = left && left->op == HX_MUL ? left->a : left;
	int64_t most, extent = 1;
	if (!stride || stride->op != HX_STRIDE || !hexpr_is_const(e->b, &most) || (left != stride && (!holds(r->bind, left->b, &extent) || extent < 1))) {
		r->other = true;
		return;
	}
	if (!r->far)
		*r = (struct reach){r->bind, r->other, true, (int)(stride->imm / 16), (int)(stride->imm % 16), most / extent};
}

static void reach_find(struct reach *r, const struct hexpr *e)
{
	int64_t value;
	if (holds(r->bind, e, &value))
		return;
	if (e->op == HX_AND) {
		reach_find(r, e->a);
		reach_find(r, e->b);
	} else {
		reach_take(r, e->op == HX_OR ? e->b : e); /* "extent <= 1 or stride <= most" */
	}
}

int variant_in_reach(const struct bind *b, const struct pack_variant *v)
{
	struct arena a = {0};
	struct reach r = {.bind = b};
	const struct hexpr *e = hexpr_decode(&a, b->file->code + v->predicate.offset, v->predicate.size);
	if (e)
		reach_find(&r, e);
	arena_free(&a);
	if (!r.far || r.other || r.param < 0 || r.param >= b->kernel->nparams || r.dim < 0 || r.dim >= b->views[r.param].rank)
		return 0;
	FAIL(TDSL_ESTRIDE, "%s: argument '%s', dimension %d: stride %" PRId64 " is too large; this kernel follows strides of at most %" PRId64, b->name,
	     bind_param_name(b, r.param), r.dim + b->views[r.param].extra, b->views[r.param].stride[r.dim], r.most);
}

/* ---- places */

int launch_grid(const struct bind *b, const struct pack_launch *l, uint32_t grid[3], bool *any)
{
	*any = true;
	for (int d = 0; d < 3; d++) {
		int64_t n;
		TRY(bind_within(b, l->grid[d], "grid", 0, d == 0 && b->device->ops->counts_lanes ? UINT32_MAX / l->block : INT32_MAX, &n));
		grid[d] = (uint32_t)n;
		*any = *any && n > 0;
	}
	return 0;
}

int launch_lanes(const struct bind *b, const struct pack_launch *l, int64_t *lanes)
{
	return bind_within(b, l->lanes, "workgroup of lanes", 1, l->block, lanes);
}

int launch_argument(const struct bind *b, const struct pack_launch *l, const struct pack_karg *a, int64_t *value)
{
	return bind_within(b, b->file->exprs[l->exprs.first + a->b], "argument", INT32_MIN, INT32_MAX, value);
}

int variant_workspace(const struct bind *b, const struct pack_variant *v, int64_t *bytes)
{
	*bytes = 0;
	return v->workspace.size ? bind_within(b, v->workspace, "workspace", 0, INT64_MAX, bytes) : 0;
}

/* The launch has a place on the device: for its clusters, or for all workgroups of the grid where they wait for each other. */
static int launch_placed(const struct bind *b, const struct pack_variant *v, const struct pack_launch *l)
{
	struct launch_need need;
	void *function;
	uint32_t grid[3];
	bool any;
	TRY(kernel_function(&function, &need, b->kernel, b->device, v->object, l));
	if (need.unplaced)
		FAIL(TDSL_ELAUNCH, "%s: %s has no place where clusters of %u workgroups start together", b->name, b->device->name, need.members);
	if (!(l->flags & PACK_MEETS))
		return 0;
	TRY(launch_grid(b, l, grid, &any));
	uint64_t row = (uint64_t)grid[0] * grid[1], all = row * grid[2];
	if (any && (row > UINT32_MAX || all > need.room))
		FAIL(TDSL_ELAUNCH, "%s: %s has room for %u workgroups at a time; %" PRIu64 " are to wait for each other", b->name, b->device->name, need.room, all);
	return 0;
}

/* Whether all that a plan evaluates for a launch is within bounds (plan.c makes the same of it). */
static int launch_fits(const struct bind *b, const struct pack_launch *l)
{
	uint32_t grid[3];
	int64_t value;
	bool any;
	TRY(launch_grid(b, l, grid, &any));
	for (uint32_t i = 0; any && i < l->kargs.count; i++)
		if (bind_karg(b, l, i)->kind == KA_EXPR)
			TRY(launch_argument(b, l, bind_karg(b, l, i), &value));
	return any && l->lanes.size ? launch_lanes(b, l, &value) : 0;
}

int variant_fits(const struct bind *b, const struct pack_variant *v)
{
	int64_t workspace;
	for (uint32_t i = 0; i < v->launches.count; i++)
		TRY(launch_fits(b, bind_launch(b, v, i)));
	return variant_workspace(b, v, &workspace);
}

int variant_placed(const struct bind *b, const struct pack_variant *v)
{
	for (uint32_t i = 0; i < v->launches.count; i++)
		if (bind_launch(b, v, i)->flags & (PACK_TOGETHER | PACK_MEETS))
			TRY(launch_placed(b, v, bind_launch(b, v, i)));
	return 0;
}
