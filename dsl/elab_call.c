/* elab_call.c -- calls: casts, builtin functions (builtin.def), functions of the text and of lib/.
 *
 * In: a call.  Out: its value.  A function is a template: its body is elaborated in a scope of its own with the arguments bound
 * to its parameters, once per call; messages inside it carry the chain of calls.  After `over`, names of indices are axes and
 * whatever follows is an ordinary argument: quantize(u over n, Q). */
#include <string.h>
#include "elab.h"

static const struct value none;

enum builtin_kind { FLOAT, NUMBER, PAIR, BITS, REDUCE, MEAN, ALONG, DOT, SCALED, SELECT, FMA, FILL, CDIV, HAS, BITCAST };
static const struct builtin { const char *name; enum builtin_kind kind; int op, nargs; const char *signature; } builtins[] = {
#define BUILTIN(name, kind, op, nargs, signature) {#name, kind, (int)op, nargs, signature},
#include "builtin.def"
#undef BUILTIN
};

static const struct builtin *builtin_named(const char *name)
{
	for (unsigned i = 0; i < sizeof builtins / sizeof *builtins; i++)
		if (strcmp(builtins[i].name, name) == 0)
			return &builtins[i];
	return NULL;
}

const char *builtin_hint(struct arena *ar, const struct ast_file *f, const char *name)
{
	struct near x = {.name = name};
	for (int i = f->fns.n - 1; i >= 0; i--)
		near_offer(&x, f->fns.items[i]->name.text);
	for (unsigned i = 0; i < sizeof builtins / sizeof *builtins; i++)
		near_offer(&x, builtins[i].name);
	return near_hint(ar, &x);
}

bool builtin_exists(const char *name) { return builtin_named(name) != NULL; }

/* --- over */

/* The axes that `n`, or `n by 128`, after `over` stands for: an index (of a group: its inside), or the axes given to a function. */
struct axes { ir_axes axes; bool held; struct index *index; const struct entry *name; };

static bool is_axes(struct elab *E, const struct ast_expr *e)
{
	struct entry *n = e->kind == AST_NAME ? scope_find(E, e->name) : NULL;
	bool failed = n && n->kind == ENTRY_VALUE && !n->value.ins;
	return e->kind == AST_BY || failed || (n && (n->kind == ENTRY_INDEX || n->kind == ENTRY_AXES));
}

/* False after a message. */
static bool axes_of(struct elab *E, const struct ast_expr *e, struct axes *out)
{
	const struct ast_expr *name = e->kind == AST_BY ? e->a : e;
	struct entry *n = name->kind == AST_NAME ? scope_find(E, name->name) : NULL;
	if (n && n->kind == ENTRY_VALUE && !n->value.ins)
		return false;                             /* an index that failed: reported there */
	if (!n && name->kind == AST_NAME && type_named(name->name).dtype == DT_NONE) {
		ELAB_ERROR(E, E_UNKNOWN_NAME, name->at, name->name, scope_hint(E, name->name));
		return false;
	}
	if (!n || (n->kind != ENTRY_INDEX && n->kind != ENTRY_AXES)) {
		ELAB_ERROR(E, E_OVER_NAME, name->at);
		return false;
	}
	*out = (struct axes){n->axes, n->held, n->index, n};
	if (n->kind == ENTRY_INDEX)
		*out = (struct axes){n->index->over, n->index->held, n->index, n};
	if (e->kind == AST_BY) {
		int64_t size = group_size(E, e->b);
		if (!size)
			return false;
		if (n->kind != ENTRY_INDEX || !n->index->inside) {
			ELAB_ERROR(E, E_SPLIT, e->at);
			return false;
		}
		if (size != n->index->group) {
			ELAB_ERROR(E, E_SPLIT_SIZE, e->b->at, name->name, (int)n->index->group);
			return false;
		}
		*out = (struct axes){n->index->inside->over, true, n->index->inside, n};
	}
	if (out->axes)
		return true;
	ELAB_ERROR(E, E_OVER_SINGLE, e->at, name->name);
	diag_note(E->d, n->at, "%s comes from here", name->name);
	return false;
}

static ir_axes over_axes(struct elab *E, const struct ast_exprs *over, bool *held)
{
	ir_axes axes = 0;
	*held = true;
	for (int i = 0; i < over->n; i++) {
		struct axes a;
		if (!axes_of(E, over->items[i], &a))
			return 0;
		axes |= a.axes;
		*held &= a.held;
	}
	return axes;
}

/* a, along `axes` as well, which it does not vary with: chosen where a position is not negative, as all are.  The other choice
 * is another number, or the two would be one. */
static struct ir_ins *spread(struct elab *E, struct ir_ins *a, ir_axes axes)
{
	struct ir_ins *always = NULL, *zero = elab_number(E, (enum dtype)a->dtype, 0);
	for (ir_axes left = axes; left; left &= left - 1)
		always = and_of(E, always, ir_bin(&E->b, IR_LE, ir_int(&E->b, DT_I32, 0), ir_leaf(&E->b, IR_IOTA, DT_I32, __builtin_ctz(left))));
	return ir_select(&E->b, always, a, ins_same(a, zero) ? elab_number(E, (enum dtype)a->dtype, 1) : zero);
}

/* The value is there along `over`, which by its text it varies with; false after a message. */
static bool has_axes(struct elab *E, struct value *v, ir_axes over, struct diag_span at)
{
	if (!v->ins)
		return false;
	ir_axes missing = over & ~v->ins->axes, unnamed = missing & ~(v->extra | v->folded);
	if (unnamed)
		ELAB_ERROR(E, E_OVER_MISSING, at, elab_axis_name(E, unnamed));
	else if (missing)
		v->ins = spread(E, v->ins, missing);
	return !unnamed;
}

/* What is left of v, reduced over axes. */
static struct value over_done(struct ir_ins *ins, struct value v, ir_axes over)
{
	return (struct value){.ins = ins, .extra = v.extra & ~over, .folded = v.folded & ~over};
}

/* --- reductions */

static bool of_type(struct elab *E, struct value *v, const char *what, bool i1, bool floats, bool ints, struct diag_span at)
{
	*v = value_fixed(E, *v, at);
	if (!v->ins)
		return false;
	enum dtype t = (enum dtype)v->ins->dtype;
	if ((i1 && t == DT_I1) || (floats && t == DT_F32) || (ints && (t == DT_I32 || t == DT_I64)))
		return true;
	ELAB_ERROR(E, E_ARGUMENT_TYPE, at, what, dtype_info(t)->name, i1 ? "a condition" : floats && ints ? "f32 or an integer" : floats ? "f32" : "i32 or i64");
	return false;
}

static struct value reduced(struct elab *E, const struct ast_expr *e, enum ir_reduce kind)
{
	bool held, logical = kind == RED_ANY || kind == RED_ALL;
	ir_axes over = over_axes(E, &e->over, &held);
	struct value v = elab_expr(E, e->args.items[0]);
	guard_set used;
	elab_at(E, e->at);
	if (!over || !of_type(E, &v, e->name, logical, !logical, !logical, e->args.items[0]->at) || !has_axes(E, &v, over, e->args.items[0]->at))
		return none;
	guards_for_reduction(E, over, used);
	return over_done(ir_reduce(&E->b, kind, v.ins, over, guards_and(E, used)), v, over);
}

/* How many elements of `over` are present: from the guards' counts where there is one a held axis, else counted. */
static struct ir_ins *present_count(struct elab *E, ir_axes over, const guard_set used)
{
	struct ir_ins *count = NULL, *mask = guards_and(E, used);
	ir_axes counted = 0;
	bool plain = true;
	for (int i = 0; i < E->nguards; i++) {
		const struct guard *g = &E->guards[i];
		if (!used[i])
			continue;
		ir_axes own = g->axes & over;
		struct ir_ins *passing = own & (own - 1) ? g->whole : g->count;
		plain &= passing && !(own & counted);
		counted |= own;
		if (plain)
			count = count ? ir_bin(&E->b, IR_MUL, count, passing) : passing;
	}
	if (plain && counted == over)
		return count;
	return ir_reduce(&E->b, RED_SUM, ir_cvt(&E->b, mask, DT_I32, false), over & mask->axes, NULL);
}

/* sum / count, 0 where nothing is present */
static struct value mean(struct elab *E, const struct ast_expr *e)
{
	bool held;
	ir_axes over = over_axes(E, &e->over, &held);
	struct value v = elab_expr(E, e->args.items[0]);
	guard_set used;
	elab_at(E, e->at);
	if (!over || !of_type(E, &v, "mean", false, true, false, e->args.items[0]->at) || !has_axes(E, &v, over, e->args.items[0]->at))
		return none;
	if (!held) {
		ELAB_ERROR(E, E_NEEDS_WHOLE, e->at, "mean", elab_axis_name(E, over));
		return none;
	}
	guards_for_reduction(E, over, used);
	struct ir_ins *sum = ir_reduce(&E->b, RED_SUM, v.ins, over, guards_and(E, used));
	struct ir_ins *count = ir_bin(&E->b, IR_MAX, present_count(E, over, used), ir_int(&E->b, DT_I32, 1));
	return over_done(ir_bin(&E->b, IR_DIV, sum, ir_cvt(&E->b, count, DT_F32, false)), v, over);
}

/* argmax, scan: along one held axis. */
static struct value along(struct elab *E, const struct ast_expr *e, enum ir_op op)
{
	bool held;
	ir_axes over = over_axes(E, &e->over, &held);
	struct value v = elab_expr(E, e->args.items[0]);
	guard_set used;
	elab_at(E, e->at);
	if (!over || !of_type(E, &v, e->name, false, true, true, e->args.items[0]->at) || !has_axes(E, &v, over, e->args.items[0]->at))
		return none;
	if (!held) {
		ELAB_ERROR(E, E_NEEDS_WHOLE, e->at, e->name, elab_axis_name(E, over));
		return none;
	}
	if (over & (over - 1)) {
		ELAB_ERROR(E, E_ALONG_GROUPS, e->at, e->name, elab_axis_name(E, over));
		return none;
	}
	guards_for_reduction(E, over, used);
	struct ir_ins *mask = guards_and(E, used);
	ir_axes axes = v.ins->axes | (mask ? mask->axes : 0);
	struct ir_ins *out = ir_new(&E->b, op, op == IR_ARGMAX ? DT_I32 : (enum dtype)v.ins->dtype, op == IR_ARGMAX ? axes & ~over : axes, mask ? 2 : 1);
	out->over = over;
	out->flags = mask ? IR_MASKED : 0;
	out->args[0] = v.ins;
	if (mask)
		out->args[1] = mask;
	struct axes a;
	const struct index *x = axes_of(E, e->over.items[0], &a) ? a.index : NULL;
	if (op == IR_ARGMAX && x && x->first) {       /* a position of the index, not of the axis */
		struct ir_ins *empty = ir_bin(&E->b, IR_LT, out, ir_int(&E->b, DT_I32, 0));
		out = ir_select(&E->b, empty, out, ir_bin(&E->b, IR_ADD, out, x->first));
	}
	return over_done(out, v, over);
}

/* --- dot */

static bool is_scaled(const struct ast_expr *e) { return e->kind == AST_CALL && strcmp(e->name, "scaled") == 0; }

static bool is_narrow(enum dtype t) { return dtype_info(t)->cls == 'Q' && t != DT_I8 && t != DT_E8M0; }

/* scaled(a, s): what a stands for, a * s, as bf16, which has every such product: four bits and a power of two (docs/language.md). */
static struct value scaled_operand(struct elab *E, const struct ast_expr *e)
{
	if (e->args.n != 2 || e->has_over) {
		ELAB_ERROR(E, E_SIGNATURE, e->at, e->name, builtin_named("scaled")->signature);
		return none;
	}
	struct value v[2];
	for (int i = 0; i < 2; i++)
		v[i] = value_fixed(E, elab_expr(E, e->args.items[i]), e->args.items[i]->at);
	elab_at(E, e->at);
	for (int i = 0; i < 2; i++) {
		enum dtype t = v[i].ins ? (enum dtype)v[i].ins->dtype : DT_NONE;
		if (!v[i].ins)
			return none;
		if (i ? t == DT_E8M0 : is_narrow(t))
			continue;
		ELAB_ERROR(E, E_ARGUMENT_TYPE, e->args.items[i]->at, i ? "scale" : e->name, dtype_info(t)->name, i ? "e8m0" : "an 8-bit float or e2m1");
		return none;
	}
	struct ir_ins *product = ir_bin(&E->b, IR_MUL, ir_cvt(&E->b, v[0].ins, DT_F32, false), ir_cvt(&E->b, v[1].ins, DT_F32, false));
	return value_made(ir_cvt(&E->b, product, DT_BF16, false), 2, v);
}

/* Beside a scaled operand another is bf16 too. */
static struct value operand(struct elab *E, const struct ast_expr *e, const struct ast_expr *other)
{
	if (is_scaled(e))
		return scaled_operand(E, e);
	struct value v = elab_expr(E, e);
	elab_at(E, e->at);
	if (v.ins && is_scaled(other) && is_narrow((enum dtype)v.ins->dtype))
		v.ins = ir_cvt(&E->b, v.ins, DT_BF16, false);
	return v;
}

static bool dot_operand(struct elab *E, struct value *v, struct diag_span at)
{
	*v = value_fixed(E, *v, at);
	if (!v->ins)
		return false;
	enum dtype t = (enum dtype)v->ins->dtype;
	if (t == DT_I8 || (dtype_is_float(t) && t != DT_F64 && t != DT_E8M0))
		return true;
	ELAB_ERROR(E, E_ARGUMENT_TYPE, at, "dot", dtype_info(t)->name, "a float type or i8");
	return false;
}

/* A guard that neither operand covers (its group's index is in neither) goes to the first: the product then has its axes. */
static struct ir_ins *mask_rest(struct elab *E, struct ir_ins *a, const struct ir_ins *b, ir_axes over)
{
	guard_set used;
	guards_for_reduction(E, over, used);
	for (int i = 0; i < E->nguards; i++) {
		ir_axes axes = E->guards[i].axes;
		used[i] = used[i] && axes & ~(a->axes | E->implicit_axes) && axes & ~(b->axes | E->implicit_axes);
	}
	struct ir_ins *mask = guards_and(E, used);
	return mask ? ir_select(&E->b, mask, a, elab_number(E, (enum dtype)a->dtype, 0)) : a;
}

static struct value dot(struct elab *E, const struct ast_expr *e)
{
	bool held;
	const struct ast_expr *x = e->args.items[0], *y = e->args.items[1];
	ir_axes over = over_axes(E, &e->over, &held);
	struct value a = operand(E, x, y), b = operand(E, y, x);
	elab_at(E, e->at);
	if (!over || !dot_operand(E, &a, x->at) || !dot_operand(E, &b, y->at) || !has_axes(E, &a, over, x->at) || !has_axes(E, &b, over, y->at))
		return none;
	enum dtype ta = (enum dtype)a.ins->dtype, tb = (enum dtype)b.ins->dtype;
	bool both8 = dtype_info(ta)->cls == 'Q' && dtype_info(tb)->cls == 'Q' && dtype_info(ta)->bits == dtype_info(tb)->bits;
	if (ta != tb && !both8) {
		ELAB_ERROR(E, E_TYPES_DIFFER, e->at, "dot", dtype_info(ta)->name, dtype_info(tb)->name);
		return none;
	}
	struct ir_ins *l = elab_present(E, a.ins, over), *r = elab_present(E, b.ins, over);
	l = mask_rest(E, l, r, over);
	struct value both = value_made(ir_dot(&E->b, l, r, over, NULL), 2, (struct value[]){a, b});
	return over_done(both.ins, both, over);
}

/* --- the others */

static struct value select_value(struct elab *E, const struct ast_expr *e)
{
	struct value c = elab_expr(E, e->args.items[0]), a = elab_expr(E, e->args.items[1]), b = elab_expr(E, e->args.items[2]);
	elab_at(E, e->at);
	if (!c.ins || !value_pair(E, &a, &b, e->at, "select"))
		return none;
	if (c.ins->dtype != DT_I1) {
		ELAB_ERROR(E, E_NOT_CONDITION, e->args.items[0]->at, elab_type_name(c.ins));
		return none;
	}
	a = value_fixed(E, a, e->at);
	b = value_fixed(E, b, e->at);
	if (!a.ins || !b.ins)
		return none;
	return value_made(ir_select(&E->b, c.ins, a.ins, b.ins), 3, (struct value[]){c, a, b});
}

static struct value fma_value(struct elab *E, const struct ast_expr *e)
{
	struct value v[3];
	for (int i = 0; i < 3; i++) {
		v[i] = elab_expr(E, e->args.items[i]);
		if (v[i].ins && !value_as(E, &v[i], DT_F32, e->args.items[i]->at))
			ELAB_ERROR(E, E_ARGUMENT_TYPE, e->args.items[i]->at, "fma", elab_type_name(v[i].ins), "f32");
		if (!v[i].ins || v[i].ins->dtype != DT_F32)
			return none;
	}
	elab_at(E, e->at);
	return value_made(ir_fma(&E->b, v[0].ins, v[1].ins, v[2].ins), 3, v);
}

/* Adds axes for the text: an assignment may not do so silently. */
static struct value fill(struct elab *E, const struct ast_expr *e)
{
	bool held;
	ir_axes over = over_axes(E, &e->over, &held);
	struct value v = value_fixed(E, elab_expr(E, e->args.items[0]), e->at);
	if (!over || !v.ins)
		return none;
	v.extra |= over;
	return v;
}

/* Known not to be negative wherever it is computed, present or not. */
static bool never_negative(struct elab *E, const struct ir_ins *a)
{
	guard_set nothing = {false};
	struct lin f = lin_of(a);
	return lin_prove(E, &f, nothing);
}

static struct value cdiv_value(struct elab *E, const struct ast_expr *e)
{
	struct value a = elab_expr(E, e->args.items[0]), b = elab_expr(E, e->args.items[1]);
	elab_at(E, e->at);
	if (!value_pair(E, &a, &b, e->at, "cdiv") || !of_type(E, &a, "cdiv", false, false, true, e->args.items[0]->at) ||
	    !of_type(E, &b, "cdiv", false, false, true, e->args.items[1]->at))
		return none;
	bool nonnegative = never_negative(E, a.ins) && never_negative(E, b.ins);
	if (!nonnegative || a.ins->dtype != DT_I32 || b.ins->op != IR_CONST)
		return value_made(ir_cdiv(&E->b, a.ins, b.ins, nonnegative), 2, (struct value[]){a, b});
	/* As an operator of the text, which finds the groups of an index in it. */
	struct value up = value_made(ir_bin(&E->b, IR_ADD, a.ins, ir_int(&E->b, DT_I32, b.ins->imm - 1)), 1, &a);
	return value_binary(E, IR_DIV, up, value_made(ir_int(&E->b, DT_I32, b.ins->imm), 1, &b), e->at, "cdiv");
}

static struct value has(struct elab *E, const struct ast_expr *e)
{
	const struct ast_expr *t = e->args.items[0];
	struct entry *n = t->kind == AST_NAME ? scope_find(E, t->name) : NULL;
	if (!n || n->kind != ENTRY_TENSOR || !E->k->params[n->number].optional) {
		ELAB_ERROR(E, E_HAS, t->at);
		return none;
	}
	return (struct value){.ins = elab_leaf(E, IR_HAS, DT_I1, n->number)};
}

/* Two integers of one type, which is a number's partner's. */
static struct value of_bits(struct elab *E, const struct ast_expr *e, const struct builtin *f, struct value a, struct value b)
{
	struct value *v[] = {&a, &b};
	for (int numbers = 0; numbers < 2; numbers++) {
		if (numbers && !value_pair(E, &a, &b, e->at, f->name))
			return none;
		for (int i = 0; i < 2; i++)
			if ((numbers || !v[i]->literal) && !of_type(E, v[i], f->name, false, false, true, e->args.items[i]->at))
				return none;
	}
	return value_made(ir_bin(&E->b, (enum ir_op)f->op, a.ins, b.ins), 2, (struct value[]){a, b});
}

static struct value elementwise(struct elab *E, const struct ast_expr *e, const struct builtin *f)
{
	struct value a = elab_expr(E, e->args.items[0]);
	if (f->nargs == 2) {
		struct value b = elab_expr(E, e->args.items[1]);
		elab_at(E, e->at);
		return f->kind == PAIR ? value_binary(E, (enum ir_op)f->op, a, b, e->at, f->name) : of_bits(E, e, f, a, b);
	}
	elab_at(E, e->at);
	if (f->kind == FLOAT && a.literal && !value_as(E, &a, DT_F32, e->at))
		return none;
	if (!of_type(E, &a, f->name, false, true, f->kind == NUMBER, e->args.items[0]->at))
		return none;
	return value_made(ir_un(&E->b, (enum ir_op)f->op, a.ins), 1, &a);
}

static struct value bitcast(struct elab *E, const struct ast_expr *e, enum dtype to)
{
	struct value a = value_fixed(E, elab_expr(E, e->args.items[0]), e->at);
	enum dtype from = to == DT_I32 ? DT_F32 : DT_I32;
	elab_at(E, e->at);
	if (!a.ins)
		return none;
	if (a.ins->dtype != from) {
		ELAB_ERROR(E, E_ARGUMENT_TYPE, e->at, e->name, elab_type_name(a.ins), dtype_info(from)->name);
		return none;
	}
	a.ins = ir_bitcast(&E->b, a.ins, to);
	return a;
}

static struct value call_builtin(struct elab *E, const struct ast_expr *e, const struct builtin *f)
{
	bool reduces = f->kind == REDUCE || f->kind == MEAN || f->kind == ALONG || f->kind == DOT || f->kind == FILL;
	bool over_pair = f->kind == PAIR && e->has_over;
	if (e->has_over != (reduces || over_pair) || e->args.n != (over_pair ? 1 : f->nargs)) {
		ELAB_ERROR(E, E_SIGNATURE, e->at, f->name, f->signature);
		return none;
	}
	if (over_pair)
		return reduced(E, e, f->op == IR_MAX ? RED_MAX : RED_MIN);
	switch (f->kind) {
	case FLOAT: case NUMBER: case PAIR: case BITS: return elementwise(E, e, f);
	case REDUCE: return reduced(E, e, (enum ir_reduce)f->op);
	case MEAN: return mean(E, e);
	case ALONG: return along(E, e, (enum ir_op)f->op);
	case DOT: return dot(E, e);
	case SELECT: return select_value(E, e);
	case FMA: return fma_value(E, e);
	case FILL: return fill(E, e);
	case CDIV: return cdiv_value(E, e);
	case HAS: return has(E, e);
	case BITCAST: return bitcast(E, e, (enum dtype)f->op);
	case SCALED: ELAB_ERROR(E, E_SCALED, e->at); return none;
	}
	return none;
}

/* --- casts */

static struct value cast(struct elab *E, const struct ast_expr *e, struct type t)
{
	if (e->args.n != 1 || e->has_over) {
		ELAB_ERROR(E, E_SIGNATURE, e->at, e->name, "a cast of one value");
		return none;
	}
	struct value v = elab_expr(E, e->args.items[0]);
	elab_at(E, e->at);
	if (!v.ins || t.dtype == DT_NONE)
		return none;
	if (v.literal && value_as(E, &v, t.dtype, e->at))
		return v;
	if (v.literal && dtype_is_float(t.dtype) && !value_as(E, &v, DT_F32, e->at))
		return none;
	v = value_fixed(E, v, e->at);
	if (!v.ins)
		return none;
	bool narrow = dtype_info(t.dtype)->cls == 'Q' || t.dtype == DT_I8 || t.dtype == DT_U8;
	if (t.dtype == DT_I1) {
		ELAB_ERROR(E, E_CAST, e->at, elab_type_name(v.ins), "i1");
		return none;
	}
	return value_made(ir_cvt(&E->b, v.ins, t.dtype, narrow), 1, &v);
}

/* --- functions: inlined */

static const struct ast_fn *fn_named(const struct elab *E, const char *name)
{
	/* Library text sees the library first, the kernel's text its own functions first. */
	int own = E->frame ? E->frame->file : 0;
	const struct ast_fn *found = NULL;
	for (int i = 0; i < E->ast->fns.n; i++) {
		const struct ast_fn *f = E->ast->fns.items[i];
		if (strcmp(f->name.text, name) == 0 && (!found || f->name.at.file == own))
			found = f;
	}
	return found;
}

struct argument {
	const struct ast_fnparam *param;
	struct value value;
	struct entry *entry;                  /* a tensor */
	struct index *index;                  /* axes that are one index */
	ir_axes axes;
	bool held;
	struct type type;
};

/* `quantize(u over n, Q = fp8)`: how it is called. */
static const char *fn_heading(struct elab *E, const struct ast_fn *f)
{
	char *text = arena_printf(E->ar, "%s(", f->name.text);
	bool over = false;
	for (int i = 0; i < f->params.n; i++) {
		const struct ast_fnparam *p = &f->params.items[i];
		const char *between = p->is_axis && !over ? (i ? " over " : "over ") : i ? ", " : "";
		over |= p->is_axis;
		text = arena_printf(E->ar, "%s%s%s%s%s", text, between, p->name.text, p->value ? " = " : "", p->value ? p->value->name : "");
	}
	return arena_printf(E->ar, "%s)", text);
}

/* Binds the call's arguments, evaluated in the caller's scope, to the parameters. */
static bool arguments(struct elab *E, const struct ast_expr *e, const struct ast_fn *f, struct argument *out)
{
	int positional = 0, next_axis = 0, naxes = 0, taken = 0, nparams = 0;
	for (int i = 0; i < f->params.n; i++)
		nparams += f->params.items[i].is_axis;
	while (naxes < e->over.n && is_axes(E, e->over.items[naxes]))
		naxes++;
	struct axes none_such;
	if (naxes < nparams && naxes < e->over.n && !axes_of(E, e->over.items[naxes], &none_such))
		return false;                             /* what stands where an index should is what is wrong */
	bool good = nparams <= naxes && (nparams || !naxes) && f->params.n <= 16;
	for (int i = 0; i < f->params.n && good; i++) {
		struct argument *a = &out[i];
		*a = (struct argument){.param = &f->params.items[i], .held = true};
		if (a->param->is_axis) {              /* the last axis parameter takes the axes that are left */
			int take = ++next_axis == nparams ? naxes - taken : 1;
			for (; take > 0; take--, taken++) {
				struct axes x;
				if (!axes_of(E, e->over.items[taken], &x))
					return false;
				a->axes |= x.axes;
				a->held &= x.held;
				a->index = x.index;
			}
			a->index = a->axes & (a->axes - 1) ? NULL : a->index;     /* several axes have no one first position */
			continue;
		}
		const struct ast_expr *given = positional < e->args.n ? e->args.items[positional] :
			positional - e->args.n < e->over.n - naxes ? e->over.items[naxes + positional - e->args.n] : NULL;
		positional += given != NULL;
		if (!given && !a->param->value) {
			good = false;
		} else if (a->param->is_type) {
			const struct ast_expr *type = given ? given : a->param->value;
			if (type->kind != AST_NAME) {
				ELAB_ERROR(E, E_TYPE_ARGUMENT, type->at, a->param->name.text);
				return false;
			}
			a->type = elab_type(E, type->name, type->at);
			if (a->type.dtype == DT_NONE)
				return false;
		} else if (given->kind == AST_NAME && scope_find(E, given->name) && scope_find(E, given->name)->kind == ENTRY_TENSOR) {
			a->entry = scope_find(E, given->name);
		} else {
			a->value = elab_expr(E, given);
		}
	}
	if (good && positional == e->args.n + e->over.n - naxes)
		return true;
	ELAB_ERROR(E, E_ARGUMENTS, e->at, fn_heading(E, f));
	diag_note(E->d, f->name.at, "%s comes from here", f->name.text);
	return false;
}

static void bind_arguments(struct elab *E, const struct ast_fn *f, const struct argument *args)
{
	for (int i = 0; i < f->params.n; i++) {
		const struct argument *a = &args[i];
		enum entry_kind kind = a->param->is_axis ? ENTRY_AXES : a->param->is_type ? ENTRY_TYPE : a->entry ? ENTRY_TENSOR : ENTRY_VALUE;
		struct entry *n = scope_add(E, kind, a->param->name.text, a->param->name.at);
		n->value = a->value;
		n->axes = a->axes;
		n->index = a->index;
		n->held = a->held;
		n->type = a->type;
		n->number = a->entry ? a->entry->number : 0;
	}
}

static void results(struct elab *E, const struct ast_fn *f, struct value *out)
{
	if (f->expr) {
		out[0] = elab_expr(E, f->expr);
		return;
	}
	elab_block(E, &f->body);
	for (int i = 0; i < f->results.n; i++) {
		const struct ast_name *r = &f->results.items[i];
		struct entry *n = scope_find(E, r->text);
		if (n && (n->kind == ENTRY_VALUE || n->kind == ENTRY_STATE))
			out[i] = n->value;
		else
			ELAB_ERROR(E, E_RESULT_UNSET, r->at, r->text, f->name.text);
	}
}

static int call_fn(struct elab *E, const struct ast_expr *e, const struct ast_fn *f, struct value *out, int n)
{
	struct argument args[16];
	int have = f->expr ? 1 : f->results.n;
	if (have != n) {
		ELAB_ERROR(E, E_RESULTS, e->at, n, have);
		diag_note(E->d, f->name.at, "%s comes from here", f->name.text);
		return -1;
	}
	if (!arguments(E, e, f, args))
		return -1;
	if (E->calls == MAX_CALLS) {
		ELAB_ERROR(E, E_RECURSION, e->at, f->name.text);
		return -1;
	}
	struct scope scope = scope_open(E);
	struct frame frame = {e->at, f->name.text, f->name.at.file, E->frame};
	E->top = NULL;
	E->frame = &frame;
	E->calls++;
	bind_arguments(E, f, args);
	results(E, f, out);
	E->calls--;
	E->frame = frame.up;
	scope_close(E, scope);
	elab_at(E, e->at);
	return 0;
}

/* --- */

int elab_call_many(struct elab *E, const struct ast_expr *e, struct value *out, int n)
{
	const struct ast_fn *f = fn_named(E, e->name);
	if (f)
		return call_fn(E, e, f, out, n);
	if (builtin_named(e->name))
		ELAB_ERROR(E, E_RESULTS, e->at, n, 1);
	else
		ELAB_ERROR(E, E_UNKNOWN_FUNCTION, e->name_at, e->name, builtin_hint(E->ar, E->ast, e->name));
	return -1;
}

struct value elab_call(struct elab *E, const struct ast_expr *e)
{
	struct entry *n = scope_find(E, e->name);
	const struct builtin *f = builtin_named(e->name);
	struct value v = none;
	if ((n && n->kind == ENTRY_TYPE) || type_named(e->name).dtype != DT_NONE)
		return cast(E, e, elab_type(E, e->name, e->name_at));
	if (f)
		return call_builtin(E, e, f);
	return elab_call_many(E, e, &v, 1) == 0 ? v : none;
}
