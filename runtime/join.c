/* join.c -- rows one behind the other, as other rows: what a kernel that works element by element is called with.
 * In: a bound call.  Out: the same call with rows of LINE elements, or one row, where its own rows are not whole vectors, or so short that a
 * workgroup would have little of one.
 * A kernel to which rows mean nothing (pack_format.h: PACK_POINTWISE; compiler/pointwise.c) makes the same of [4096, 5001] and of
 * [5001, 4096], if nothing lies between the rows and no tensor of another shape is given; the second takes variants for aligned rows.  Where columns
 * are taken in groups, with tensors of a number a group, rows are of whole groups before and after. */
#include "bind.h"

/* Elements: of rows that are joined to; of the shortest that are not too short (docs/performance.md). */
enum { LINE = 4096, SHORT = 2048, VECTOR_BYTES = 16 };
static const int64_t MOST_BYTES = INT32_MAX - (4 << 20);   /* of a tensor: offsets inside a row are 32-bit */

struct joined { uint32_t rows, columns; int64_t elements, group; bool torn, still_torn; };     /* group: columns of each; 1 = there are none */

static const struct hexpr *extent_of(const struct bind *b, struct arena *a, int param, int dim)
{
	struct pack_code_ref c = b->kernel->params[param].extent[dim];
	return hexpr_decode(a, b->file->code + c.offset, c.size);
}

static bool is_symbol(const struct hexpr *e, uint32_t symbol) { return e && e->op == HX_SYM && e->imm == symbol; }

enum shape { MATRIX, GROUPS, CONSTANT, OTHER };

static enum shape shape_of(const struct bind *b, struct joined *j, int param)
{
	struct arena a = {0};
	const struct view *v = &b->views[param];
	enum shape s = CONSTANT;
	for (int d = 0; d < v->rank; d++) {
		const struct hexpr *n = extent_of(b, &a, param, d);
		s = hexpr_has(n, HX_SYM, j->rows) || hexpr_has(n, HX_SYM, j->columns) ? OTHER : s;
	}
	if (v->rank == 2 && is_symbol(extent_of(b, &a, param, 0), j->rows)) {
		const struct hexpr *n = extent_of(b, &a, param, 1);
		int64_t by = 1;
		bool groups = n && n->op == HX_CDIV && is_symbol(n->a, j->columns) && hexpr_is_const(n->b, &by) && (j->group == 1 || j->group == by);
		s = is_symbol(n, j->columns) ? MATRIX : groups ? GROUPS : s;
		j->group = groups ? by : j->group;
	}
	arena_free(&a);
	return s;
}

/* Every element has its place in one run of memory, that of a matrix begins at a vector. */
static bool is_one_run(const struct view *v, const struct joined *j, enum shape s)
{
	int bits = dtype_info(v->dtype)->bits;
	return !v->list && v->flat && bits >= 8 && (s == GROUPS || v->address % VECTOR_BYTES == 0) && (v->stride[1] == 1 || v->extent[1] == 1) &&
	       (v->stride[0] == v->extent[1] || v->extent[0] == 1) && j->elements <= MOST_BYTES / (bits / 8);
}

void bind_join_rows(struct bind *b)
{
	uint32_t flags = b->kernel->k->flags;
	struct joined j = {flags >> PACK_ROWS_SHIFT & 255, flags >> PACK_COLUMNS_SHIFT & 255, .group = 1};
	if (!(flags & PACK_POINTWISE) || b->symbols[j.rows] <= 1 || b->symbols[j.columns] <= 0)
		return;
	enum shape shape[MODEL_MAX_PARAM];
	j.elements = b->symbols[j.rows] * b->symbols[j.columns];           /* of two below 2^31 */
	for (int p = 0; p < b->kernel->nparams; p++) {
		const struct view *v = &b->views[p];
		enum shape s = shape[p] = v->present ? shape_of(b, &j, p) : CONSTANT;
		if (s == OTHER || (s != CONSTANT && !is_one_run(v, &j, s)))
			return;
		int bytes = s == MATRIX ? dtype_info(v->dtype)->bits / 8 : 0;
		j.torn = j.torn || v->extent[1] * bytes % VECTOR_BYTES;
		j.still_torn = j.still_torn || j.elements * bytes % VECTOR_BYTES;
	}
	bool whole = b->symbols[j.columns] % j.group == 0 && LINE % j.group == 0;
	if (!(j.torn || b->symbols[j.columns] < SHORT) || !whole || (j.still_torn && flags & PACK_WORKSPACE))   /* a general variant has a workspace as long as the row */
		return;
	int64_t columns = j.elements % LINE ? j.elements : LINE, rows = j.elements / columns;
	for (int p = 0; p < b->kernel->nparams; p++) {
		struct view *v = &b->views[p];
		if (shape[p] != MATRIX && shape[p] != GROUPS)
			continue;
		v->extent[0] = rows;
		v->extent[1] = v->stride[0] = shape[p] == GROUPS ? columns / j.group : columns;
		v->stride[1] = 1;
	}
	b->symbols[j.rows] = rows;
	b->symbols[j.columns] = columns;
	b->joined = true;
}
