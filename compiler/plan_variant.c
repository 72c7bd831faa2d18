/* plan_variant.c -- what a variant asks of a call, in its predicate and its text, and the tiles it is given.
 * In: choices of plan.c.  Out: struct variant; symbols that are pinned or limited are known to the passes as well.  A call that compiles asks for its
 * variant by the text: the set that this names is planned besides those of the pack lines. */
#include "plan_variant.h"

#include <string.h>

const struct hexpr *plan_both(struct planner *p, const struct hexpr *a, const struct hexpr *b)
{
	return !a ? b : !b ? a : hexpr_op(p->arena, HX_AND, a, b);
}

void plan_say(struct planner *p, struct variant *v, const char *more)
{
	v->text = v->text && v->text[0] ? arena_printf(p->arena, "%s %s", v->text, more) : more;
}

void plan_say_most(struct planner *p, struct variant *v, const struct hexpr *n, int64_t most)
{
	int64_t group = 1;
	if (n->op == HX_CDIV && hexpr_is_const(n->b, &group))
		n = n->a;
	plan_say(p, v, arena_printf(p->arena, "%s<=%lld", hexpr_shown(p->arena, n, p->k->symbols, NULL), (long long)(most * group)));
}

void plan_pin_symbol(struct planner *p, struct variant *v, int symbol, int64_t value)
{
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_EQ, hexpr_sym(p->arena, symbol), hexpr_const(p->arena, value)));
	v->pins[v->npins].symbol = symbol;
	v->pins[v->npins++].value = value;
	plan_say(p, v, arena_printf(p->arena, "%s=%lld", p->k->symbols[symbol], (long long)value));
}

void plan_range(struct planner *p, struct variant *v, int symbol, int64_t least, int64_t most)
{
	const struct hexpr *s = hexpr_sym(p->arena, symbol);
	const char *above = least > 1 ? arena_printf(p->arena, "%lld<", (long long)least - 1) : "";
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, hexpr_const(p->arena, least), s));
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, s, hexpr_const(p->arena, most)));
	v->limits[v->nlimits].symbol = symbol;
	v->limits[v->nlimits].least = least;
	v->limits[v->nlimits++].most = most;
	plan_say(p, v, arena_printf(p->arena, "%s%s<=%lld", above, p->k->symbols[symbol], (long long)most));
}

void plan_rows_from(struct planner *p, struct variant *v, int least, const struct hexpr *rows)
{
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, hexpr_const(p->arena, least), rows));
	plan_say(p, v, arena_printf(p->arena, "rows>=%d", least));
}

void plan_rows_to(struct planner *p, struct variant *v, int most, const struct hexpr *rows)
{
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_LE, rows, hexpr_const(p->arena, most)));
	plan_say(p, v, arena_printf(p->arena, "rows<=%d", most));
}

void plan_rows_by(struct planner *p, struct variant *v, int by, const struct hexpr *rows)
{
	const struct hexpr *rest = hexpr_op(p->arena, HX_REM, rows, hexpr_const(p->arena, by));
	v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_EQ, rest, hexpr_const(p->arena, 0)));
	plan_say(p, v, arena_printf(p->arena, "rows%%%d=0", by));
}

void plan_limit(struct planner *p, struct variant *v, int symbol, int64_t most) { plan_range(p, v, symbol, 1, most); }

/* The value; NULL: it is not. */
static const int64_t *pinned(const struct variant *v, int64_t symbol)
{
	for (int i = 0; i < v->npins; i++)
		if (v->pins[i].symbol == symbol)
			return &v->pins[i].value;
	return NULL;
}

void plan_dense(struct planner *p, struct variant *v)
{
	for (int t = 0; t < p->k->nparams; t++) {
		const struct ir_param *row = &p->k->params[t];
		const struct hexpr *extent = row->is_tensor && row->rank == 2 ? row->extent[1] : NULL;
		const int64_t *n = extent && extent->op == HX_SYM ? pinned(v, extent->imm) : NULL;
		if (!n || row->list || row->role == IR_TEMP || variant_may_lack(v, p->k, t))
			continue;
		v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_EQ, hexpr_leaf(p->arena, HX_STRIDE, t * 16), hexpr_const(p->arena, *n)));
		v->dense |= UINT64_C(1) << t;
	}
	if (v->dense)
		plan_say(p, v, "dense");
}

void plan_aligned(struct planner *p, struct variant *v)
{
	for (int s = 0; s < p->k->nsymbols && s < MODEL_MAX_SYMBOL; s++) {
		int m = p->torn ? p->f.vector[s] : p->f.multiple[s];
		if (p->single || m <= 1 || pinned(v, s) || v->nmultiples == 8)
			continue;
		const struct hexpr *rem = hexpr_op(p->arena, HX_REM, hexpr_sym(p->arena, s), hexpr_const(p->arena, m));
		v->predicate = plan_both(p, v->predicate, hexpr_op(p->arena, HX_EQ, rem, hexpr_const(p->arena, 0)));
		v->multiples[v->nmultiples].symbol = s;
		v->multiples[v->nmultiples++].multiple = m;
		plan_say(p, v, arena_printf(p->arena, "%s%%%d=0", p->k->symbols[s], m));
	}
	for (int t = 0; t < p->k->nparams; t++) {
		const struct ir_param *t0 = &p->k->params[t];
		if (!t0->is_tensor || t0->role == IR_TEMP || v->absent >> t & 1)
			continue;
		if (t0->rank && !p->folds)
			v->predicate = plan_both(p, v->predicate, hexpr_leaf(p->arena, HX_FLAT, t));
		int bytes = dtype_info(t0->dtype)->bits / 8;
		if (t0->list && 16 / bytes > v->list_multiple)
			v->list_multiple = 16 / bytes;
		bool scalar_like = t0->rank <= 1 && t0->role != IR_IN && bytes == 4, groups = t0->rank > 1 && t0->extent[t0->rank - 1]->op == HX_CDIV;
		if (groups)
			v->unit |= UINT64_C(1) << t;
		v->predicate = plan_both(p, v->predicate, hexpr_leaf(p->arena, scalar_like || groups || p->single ? HX_UNIT : HX_ALIGNED, t));
	}
	v->aligned = true;
	v->flat = !p->folds;
	v->single = p->single;
	plan_say(p, v, p->single ? "unaligned" : p->folds && p->target->more_variants ? "aligned folded" : "aligned");
}

bool plan_has_lists(const struct planner *p)
{
	for (int i = 0; i < p->k->nparams; i++)
		if (p->k->params[i].list)
			return true;
	return false;
}

/* What is stored is such rows as emit/translate.c's may_fold has. */
bool plan_can_fold(const struct planner *p)
{
	const struct ir_phase *ph = &p->k->phases[0];
	for (int a = 0; p->k->nphases == 1 && a < ph->naxes; a++)
		for (int i = 0; i < p->k->nparams; i++) {
			const struct ir_axis *ax = &ph->axes[a];
			const struct ir_param *t = &p->k->params[i];
			bool rows = t->is_tensor && !t->list && t->role == IR_OUT && !t->optional && t->rank == 2 && t->extent[0]->op == HX_SYM;
			if (rows && ax->kind == AXIS_GRID && !ax->tiled && !ax->ragged && ax->extent && hexpr_equal(ax->extent, t->extent[0]))
				return true;
		}
	return false;
}

void plan_memory(struct planner *p, struct variant *v, bool fast)
{
	const struct hexpr *rate = hexpr_leaf(p->arena, HX_DEVICE, HX_MEMORY_RATE), *least = hexpr_const(p->arena, p->target->fast_memory);
	v->predicate = plan_both(p, v->predicate, fast ? hexpr_op(p->arena, HX_LE, least, rate) : hexpr_op(p->arena, HX_LT, rate, least));
	v->slow = !fast;
	plan_say(p, v, arena_printf(p->arena, "memory%s%d", fast ? ">=" : "<", p->target->fast_memory));
}

int plan_symbol(const struct planner *p, const char *name)
{
	for (int s = 0; s < p->k->nsymbols; s++)
		if (strcmp(p->k->symbols[s], name) == 0)
			return s;
	return -1;
}

bool plan_lists_odd(const struct planner *p, int symbol, int above, int most)
{
	int multiple = p->f.multiple[symbol];
	for (int i = 0; multiple > 1 && i < p->npins; i++)
		if (plan_symbol(p, p->pins[i].symbol) == symbol && p->pins[i].value > above && p->pins[i].value <= most && p->pins[i].value % multiple)
			return true;
	return false;
}

const struct dsl_special *variant_special(struct arena *arena, const struct dsl_special *special, const char *text)
{
	static const char with[] = " with ", bare[] = " bare";
	ARRAY(struct dsl_tensor) tensors = {0};
	const char *at = strstr(text, with);
	size_t n = strlen(text);
	if (!at && (n < sizeof bare || strcmp(text + n - (sizeof bare - 1), bare)))
		return special;
	for (at = at ? at + sizeof with - 1 : ""; *at; at += n, at += *at == ' ') {
		n = strcspn(at, " ");
		bool asked = n && at[n - 1] == '?';
		ARENA_PUSH(arena, &tensors, (struct dsl_tensor){arena_string(arena, at, n - asked), asked});
	}
	return dsl_special_with(arena, special, &(struct dsl_set){tensors.items, tensors.n, NULL, 0});
}

struct variant plan_variant(const struct planner *p)
{
	return (struct variant){.target = p->target, .text = "", .given = p->given, .absent = p->absent};
}

struct variant *plan_add(struct planner *p)
{
	ARENA_PUSH(p->arena, &p->out, plan_variant(p));
	return &p->out.items[p->out.n - 1];
}

void plan_tile(struct variant *v, int phase, const char *axis, int tile)
{
	for (int i = 0; i < v->ntiles; i++)
		if (v->tiles[i].phase == phase && strcmp(v->tiles[i].axis, axis) == 0)
			return;
	if (v->ntiles < 2 * LAYOUT_AXES) {
		v->tiles[v->ntiles].phase = phase;
		v->tiles[v->ntiles].axis = axis;
		v->tiles[v->ntiles++].tile = tile;
	}
}

/* Of each axis of a grid, but the last that numbers positions of `symbol`, the extent, multiplied: rows may be as many as they are long. */
const struct hexpr *plan_rows_beside(const struct planner *p, int symbol)
{
	const struct ir_phase *ph = &p->k->phases[0];
	const struct hexpr *rows = NULL;
	int columns = -1;
	for (int a = 0; a < ph->naxes; a++) {
		const struct hexpr *n = ph->axes[a].extent;
		const struct hexpr *of = n && n->op == HX_CDIV ? n->a : n;
		columns = of && of->op == HX_SYM && of->imm == symbol ? a : columns;
	}
	for (int a = 0; a < ph->naxes; a++) {
		const struct hexpr *n = ph->axes[a].extent;
		if (ph->axes[a].kind == AXIS_GRID && n && a != columns)
			rows = rows ? hexpr_op(p->arena, HX_MUL, rows, n) : n;
	}
	return rows;
}

void plan_many_rows(struct planner *p, struct variant *v, const struct hexpr *rows)
{
	int shared = p->target->few_rows ? MANY_SHARED : MANY_LINES;
	int least = v->shares ? shared : p->broad ? CROWD_ROWS : p->f.guarded ? MANY_GUARDED : MANY_ROWS;
	plan_rows_from(p, v, least, rows);
	v->many = true;
}
