/* bind.c -- arguments -> instance and symbols, every check that concerns them together.
 *
 * Order of the checks: each argument alone (view.c), element types (which give the instance), symbols solved from the
 * dimensions that the compiler named, then every extent against its expression, then the `require` lines.  A symbol that is
 * solved from an absent tensor is taken from any other plain occurrence; with none it is 0, and nothing present depends on it. */
#include "bind.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *param_name(const struct bind *b, int param)
{
	return pack_string(b->file, b->kernel->params[param].name);
}

static const struct pack_symbol *symbol_at(const struct bind *b, uint32_t i)
{
	return &b->file->symbols[b->kernel->k->symbols.first + i];
}

/* ---- expressions */

static bool view_aligned(const struct view *v)
{
	int bits = dtype_info(v->dtype)->bits;
	if (v->list)
		return v->stride[0] >= 16;
	if (v->address % 16 || (v->rank && v->stride[v->rank - 1] != 1 && v->extent[v->rank - 1] > 1))
		return false;
	for (int i = 0; i < v->rank - 1; i++)
		if (v->extent[i] > 1 && v->stride[i] % 128 * bits % 128)
			return false;
	return v->flat || v->fold_stride % 128 * bits % 128 == 0;
}

int64_t bind_leaf(void *ctx, enum hexpr_op op, int64_t imm)
{
	const struct bind *b = ctx;
	if (op == HX_DEVICE)
		return imm == HX_MEMORY_RATE ? b->device->memory_rate : 0;
	int64_t tensor = op == HX_STRIDE ? imm / 16 : imm, dim = imm % 16;
	if (tensor < 0 || tensor >= b->kernel->nparams)
		return 0;
	const struct view *v = &b->views[tensor];
	switch (op) {
	case HX_PRESENT: return v->present;
	case HX_ALIGNED: return !v->present || (b->assume_aligned >= 0 ? b->assume_aligned : view_aligned(v));
	case HX_UNIT: return !v->present || v->list || v->rank == 0 || v->extent[v->rank - 1] <= 1 || v->stride[v->rank - 1] == 1;
	case HX_FLAT: return !v->present || v->flat;
	case HX_STRIDE: return v->present && dim >= 0 && dim < v->rank ? v->stride[dim] : 0;
	default: return 0;
	}
}

int bind_eval(const struct bind *b, struct pack_code_ref c, int64_t *value, const char **why)
{
	struct hexpr_env env = {b->symbols, (int)b->kernel->k->symbols.count, bind_leaf, (void *)(uintptr_t)b};
	return hexpr_code_eval(b->file->code + c.offset, c.size, &env, value, why);
}

void bind_text(const struct bind *b, struct pack_code_ref c, char *out, size_t size)
{
	struct arena a = {0};
	const char *symbols[MODEL_MAX_SYMBOL], *tensors[MODEL_MAX_PARAM];
	for (uint32_t i = 0; i < b->kernel->k->symbols.count; i++)
		symbols[i] = pack_string(b->file, symbol_at(b, i)->name);
	for (int i = 0; i < b->kernel->nparams; i++)
		tensors[i] = param_name(b, i);
	const struct hexpr *e = hexpr_decode(&a, b->file->code + c.offset, c.size);
	snprintf(out, size, "%s", e ? hexpr_shown(&a, e, symbols, tensors) : "?");
	arena_free(&a);
}

/* "N = 4096, M = 3" of the symbols in a text, for messages. */
static void symbols_text(const struct bind *b, char *out, size_t size)
{
	out[0] = 0;
	for (uint32_t i = 0; i < b->kernel->k->symbols.count; i++) {
		size_t n = strlen(out);
		snprintf(out + n, size - n, "%s%s = %" PRId64, n ? ", " : "", pack_string(b->file, symbol_at(b, i)->name), b->symbols[i]);
	}
}

/* ---- the instance */

enum dtype bind_type(const struct bind *b, uint32_t instance, int param)
{
	const struct pack_instance *n = &b->file->instances[b->kernel->k->instances.first + instance];
	const struct pack_type *t = &b->file->types[n->types + (uint32_t)param];
	return t->native ? model_native(b->device->target, t->native) : dtype_by_dlpack(t->code, t->bits);
}

static bool instance_fits(const struct bind *b, uint32_t instance)
{
	for (int p = 0; p < b->kernel->nparams; p++)
		if (b->views[p].present && bind_type(b, instance, p) != b->views[p].dtype)
			return false;
	return true;
}

/* True where the kernel has a variant of this instance (or any: -1) for the device, or needs none. */
static bool target_has(const struct bind *b, int64_t instance)
{
	const struct pack_range r = b->kernel->k->variants;
	if (b->kernel->extents_only)
		return true;
	for (uint32_t i = 0; i < r.count; i++) {
		const struct pack_variant *v = &b->file->variants[r.first + i];
		if ((instance < 0 || v->instance == instance) && strcmp(pack_string(b->file, v->target), b->device->target) == 0)
			return true;
	}
	return false;
}

static int target_fail(const struct bind *b)
{
	char list[256] = "";
	for (int i = 0; i < b->kernel->pack->ntargets; i++) {
		size_t n = strlen(list);
		snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", b->kernel->pack->targets[i]);
	}
	FAIL(TDSL_ETARGET, "%s: %s has no code for %s (device %s); the pack's targets: %s", b->name, b->file->name, b->device->target,
	     b->device->name, *list ? list : "none");
}

/* Names an argument whose type no instance takes, or else the combination. */
static int instance_fail(const struct bind *b)
{
	const uint32_t n = b->kernel->k->instances.count;
	char list[512];
	for (int p = 0; p < b->kernel->nparams; p++) {
		bool taken = !b->views[p].present, seen[DT_COUNT] = {false};
		list[0] = 0;
		for (uint32_t i = 0; i < n; i++) {
			enum dtype t = bind_type(b, i, p);
			size_t at = strlen(list);
			taken = taken || t == b->views[p].dtype;
			if (!seen[t])
				snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", dtype_info(t)->name);
			seen[t] = true;
		}
		if (!taken)
			FAIL(TDSL_EDTYPE, "%s: argument '%s' is %s; expected %s (on %s)", b->name, param_name(b, p),
			     dtype_info(b->views[p].dtype)->name, list, b->device->target);
	}
	list[0] = 0;
	for (uint32_t i = 0; i < n; i++) {
		size_t at = strlen(list);
		snprintf(list + at, sizeof list - at, "%s%s", at ? "; " : "",
		         pack_string(b->file, b->file->instances[b->kernel->k->instances.first + i].name));
	}
	char have[512] = "";
	for (int p = 0; p < b->kernel->nparams; p++) {
		size_t at = strlen(have);
		if (b->views[p].present)
			snprintf(have + at, sizeof have - at, "%s%s %s", at ? ", " : "", param_name(b, p), dtype_info(b->views[p].dtype)->name);
	}
	FAIL(TDSL_EDTYPE, "%s: no instance takes the element types %s; there are: %s", b->name, have, list);
}

static int instance_select(struct bind *b)
{
	bool fits = false;
	if (!target_has(b, -1))
		return target_fail(b);
	for (uint32_t i = 0; i < b->kernel->k->instances.count; i++) {
		if (!instance_fits(b, i))
			continue;
		fits = true;
		if (target_has(b, i)) {
			b->instance = i;
			return 0;
		}
	}
	return fits ? target_fail(b) : instance_fail(b);
}

/* ---- symbols and extents */

static int symbol_from(const struct bind *b, const struct pack_symbol *s, int tensor, int dim, int64_t mul, int64_t add, int64_t *value)
{
	const struct view *v = &b->views[tensor];
	int64_t e = v->extent[dim];
	const char *name = pack_string(b->file, s->name);
	if (e < add || (e - add) % mul)
		FAIL(TDSL_ESHAPE, "%s: argument '%s', dimension %d: extent %" PRId64 "; expected %s[%s] with a whole %s", b->name,
		     param_name(b, tensor), dim + v->extra, e, param_name(b, tensor), kernel_extents(b->kernel, tensor), name);
	*value = (e - add) / mul;
	if (*value > MOST_EXTENT)
		FAIL(TDSL_ESHAPE, "%s: argument '%s', dimension %d: %s = %" PRId64 " is over " MOST_EXTENT_TEXT, b->name, param_name(b, tensor),
		     dim + v->extra, name, *value);
	return 0;
}

/* A present tensor's dimension that is exactly symbol `index`, for a symbol whose own tensor is absent. */
static bool symbol_elsewhere(const struct bind *b, uint32_t index, int *tensor, int *dim)
{
	for (*tensor = 0; *tensor < b->kernel->nparams; ++*tensor)
		for (*dim = 0; b->views[*tensor].present && *dim < b->views[*tensor].rank; ++*dim) {
			struct arena a = {0};
			struct pack_code_ref c = b->kernel->params[*tensor].extent[*dim];
			const struct hexpr *e = hexpr_decode(&a, b->file->code + c.offset, c.size);
			bool plain = e && e->op == HX_SYM && e->imm == (int64_t)index;
			arena_free(&a);
			if (plain)
				return true;
		}
	return false;
}

static int symbols_solve(struct bind *b)
{
	for (uint32_t i = 0; i < b->kernel->k->symbols.count; i++) {
		const struct pack_symbol *s = symbol_at(b, i);
		int tensor, dim;
		b->symbols[i] = 0;
		if (b->views[s->tensor].present)
			TRY(symbol_from(b, s, s->tensor, s->dim, s->mul, s->add, &b->symbols[i]));
		else if (symbol_elsewhere(b, i, &tensor, &dim))
			TRY(symbol_from(b, s, tensor, dim, 1, 0, &b->symbols[i]));
	}
	return 0;
}

static int extents_check(const struct bind *b)
{
	for (int p = 0; p < b->kernel->nparams; p++) {
		const struct view *v = &b->views[p];
		for (int d = 0; v->present && d < v->rank; d++) {
			struct pack_code_ref c = b->kernel->params[p].extent[d];
			const char *why;
			int64_t want;
			char text[200], values[400], place[48];
			if (v->extent[d] > MOST_EXTENT) /* "2 * N" of an N that is not */
				FAIL(TDSL_ESHAPE, "%s: argument '%s', dimension %d: extent %" PRId64 " is over " MOST_EXTENT_TEXT, b->name,
				     param_name(b, p), d + v->extra, v->extent[d]);
			int rc = bind_eval(b, c, &want, &why);
			if (rc == 0 && want == v->extent[d])
				continue;
			bind_text(b, c, text, sizeof text);
			symbols_text(b, values, sizeof values);
			if (d == 0 && v->extra)
				snprintf(place, sizeof place, "s 0..%d (folded)", v->extra);
			else
				snprintf(place, sizeof place, " %d", d + v->extra);
			if (rc < 0)
				FAIL(TDSL_ESHAPE, "%s: argument '%s', dimension%s: extent %" PRId64 "; expected %s, but: %s (%s)", b->name,
				     param_name(b, p), place, v->extent[d], text, why, values);
			FAIL(TDSL_ESHAPE, "%s: argument '%s', dimension%s: extent %" PRId64 "; expected %s = %" PRId64 " (%s)", b->name,
			     param_name(b, p), place, v->extent[d], text, want, values);
		}
	}
	return 0;
}

/* Extents that are the same in the text, of a list's second dimension: the number of elements in all. */
static bool extents_same(const struct bind *b, int p, int q)
{
	for (int d = 0; d < 2; d++) {
		struct pack_code_ref x = b->kernel->params[p].extent[d], y = b->kernel->params[q].extent[d];
		if (x.size != y.size || memcmp(b->file->code + x.offset, b->file->code + y.offset, x.size))
			return false;
	}
	return true;
}

/* Lists that the kernel goes through together have tensors of the same lengths. */
static int lists_check(const struct bind *b)
{
	for (int p = 0; p < b->kernel->nparams; p++)
		for (int q = p + 1; b->views[p].list && q < b->kernel->nparams; q++)
			if (b->views[q].list && b->views[q].stride[1] != b->views[p].stride[1] && extents_same(b, p, q))
				FAIL(TDSL_ESHAPE, "%s: argument '%s': its tensors have other lengths than those of '%s'; expected the same, one by one", b->name,
				     param_name(b, q), param_name(b, p));
	return 0;
}

static int requires_check(const struct bind *b)
{
	const struct pack_range r = b->kernel->k->requires;
	for (uint32_t i = 0; i < r.count; i++) {
		const struct pack_require *q = &b->file->requires[r.first + i];
		const char *why = NULL;
		int64_t value;
		char values[400];
		int rc = bind_eval(b, q->expr, &value, &why);
		if ((rc == 0 && value) || (rc < 0 && b->nothing))
			continue;
		symbols_text(b, values, sizeof values);
		FAIL(TDSL_ESHAPE, "%s: require %s does not hold%s%s: %s", b->name, pack_string(b->file, q->text), rc < 0 ? ": " : "",
		     rc < 0 ? why : "", values);
	}
	return 0;
}

int bind_make(struct bind *b, tdsl_kernel k, tdsl_device device, const union tdsl_arg *args, bool lenient)
{
	*b = (struct bind){.kernel = k, .device = device, .file = k->pack->file, .assume_aligned = -1};
	b->name = pack_string(b->file, k->k->name);
	b->nothing = k->outputs != 0;
	for (int p = 0; p < k->nparams; p++) {
		if (!(k->tensors >> p & 1))
			continue;
		TRY(view_make(&b->views[p], k, device, p, args[p].t, lenient));
		if ((k->outputs >> p & 1) && (b->views[p].present ? !b->views[p].empty : lenient))
			b->nothing = false;
	}
	TRY(instance_select(b));
	TRY(symbols_solve(b));
	TRY(extents_check(b));
	TRY(lists_check(b));
	return requires_check(b);
}

bool bind_sizes(struct bind *b, tdsl_kernel k, tdsl_device device, const union tdsl_arg *args)
{
	*b = (struct bind){.kernel = k, .device = device, .file = k->pack->file, .assume_aligned = -1};
	b->name = pack_string(b->file, k->k->name);
	for (int p = 0; p < k->nparams; p++)
		if ((k->tensors >> p & 1) && view_make(&b->views[p], k, device, p, args[p].t, true) < 0)
			return false;
	return symbols_solve(b) == 0;
}

int bind_within(const struct bind *b, struct pack_code_ref c, const char *what, int64_t low, int64_t high, int64_t *value)
{
	const char *why = NULL;
	char text[200];
	int rc = bind_eval(b, c, value, &why);
	if (rc == 0 && *value >= low && *value <= high)
		return 0;
	bind_text(b, c, text, sizeof text);
	if (rc < 0)
		FAIL(TDSL_ESHAPE, "%s: %s %s: %s", b->name, what, text, why);
	FAIL(TDSL_ESHAPE, "%s: %s %s = %" PRId64 "; expected %" PRId64 " to %" PRId64, b->name, what, text, *value, low, high);
}

int64_t bind_fold_inner(const struct bind *b)
{
	for (int p = 0; p < b->kernel->nparams; p++)
		if (b->views[p].present && !b->views[p].empty && !b->views[p].flat)
			return b->views[p].fold_inner;
	return 1;
}
