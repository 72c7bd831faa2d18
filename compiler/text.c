/* text.c -- tile IR as text.  In: a kernel.  Out: its text in the caller's arena; text_parse.c reads it back, and
 * print(parse(print(k))) == print(k).  One instruction a line:
 *     %7 = load x[%1, %2] if %6 : bf16[m, n] {reg n:1 | lane n:2} @12:7
 * Everything that cannot be derived is written: types, axes, layouts, flags, source places.  Instructions without a value have
 * no number in the text; a store's and an update's axes are their operands' and are left out. */
#include "ir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const reduce_names[] = {"sum", "prod", "max", "min", "any", "all"};
static const char *const role_names[] = {"in", "out", "inout", "temp"};
static const char *const kind_names[] = {"grid", "held", "loop"};

/* Names of the phase's axes (LAYOUT_AXES entries) as the text has them: unique, a repeated name gets its axis number ("k'5"). */
static const char *const *axis_names(struct arena *ar, const struct ir_phase *ph)
{
	const char **names = arena_alloc(ar, LAYOUT_AXES * sizeof *names);
	for (int a = 0; a < LAYOUT_AXES; a++) {
		names[a] = a < ph->naxes ? ph->axes[a].name : arena_printf(ar, "'%d", a);
		for (int i = 0; i < a && a < ph->naxes; i++)
			if (strcmp(names[i], names[a]) == 0)
				names[a] = arena_printf(ar, "%s'%d", ph->axes[a].name, a);
	}
	return names;
}

/* --- printer */

struct printer { struct arena *ar; ARRAY(char) out; const struct ir_kernel *k; const char *const *axes; const char **tensors; };

static void put(struct printer *pr, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct printer *pr, const char *fmt, ...)
{
	char text[512];
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(text, sizeof text, fmt, ap);
	char *s = text;
	if (n >= (int)sizeof text) {
		s = arena_alloc(pr->ar, (size_t)n + 1);
		vsnprintf(s, (size_t)n + 1, fmt, again);
	}
	va_end(ap);
	va_end(again);
	for (int i = 0; i < n; i++)
		ARENA_PUSH(pr->ar, &pr->out, s[i]);
}

static char *put_end(struct printer *pr)
{
	ARENA_PUSH(pr->ar, &pr->out, '\0');
	return pr->out.items;
}

/* Shortest decimal that reads back as the same number; single = as the same f32. */
static void put_number(struct printer *pr, double v, bool single)
{
	char s[40];
	if (v != v || isinf(v)) {
		put(pr, "%s", v != v ? "nan" : v > 0 ? "inf" : "-inf");
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		snprintf(s, sizeof s, "%.*g", digits, v);
		if (single ? (float)strtod(s, NULL) == (float)v : strtod(s, NULL) == v)
			break;
	}
	put(pr, "%s", s);
}

static void put_axes(struct printer *pr, ir_axes set, const char *open, const char *close)
{
	const char *sep = open;
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (set & IR_AXIS(a)) {
			put(pr, "%s%s", sep, pr->axes[a]);
			sep = ", ";
		}
	if (set)
		put(pr, "%s", close);
}

static void put_place(struct printer *pr, int line, int col)
{
	if (line)
		put(pr, col ? " @%d:%d" : " @%d", line, col);
}

static void put_values(struct printer *pr, struct ir_ins *const *v, int n)
{
	for (int i = 0; i < n; i++)
		put(pr, "%s%%%d", i ? ", " : "", v[i]->id);
}

static void put_type(struct printer *pr, const struct ir_ins *ins)
{
	put(pr, "%s", dtype_info(ins->dtype)->name);
	put_axes(pr, ins->axes, "[", "]");
}

/* Operands of reduce, dot, argmax and scan. */
static void put_contraction(struct printer *pr, const struct ir_ins *ins)
{
	int masked = (ins->flags & IR_MASKED) != 0, acc = (ins->flags & IR_ACC) != 0;
	if (ins->op == IR_REDUCE)
		put(pr, " %s", reduce_names[ins->kind]);
	if (ins->op == IR_REDUCE && ins->flags & IR_PART)
		put(pr, " part");
	if (ins->op == IR_REDUCE && ins->flags & IR_BY_LANE)
		put(pr, " by lane %s", pr->axes[ins->imm]);
	if (ins->flags & IR_ANYORDER)
		put(pr, " anyorder");
	if (ins->chains)
		put(pr, " chains %d", ins->chains);
	put_axes(pr, ins->over, " over ", "");
	put(pr, " ");
	if (ins->flags & IR_PRODUCT)
		put(pr, "%%%d * %%%d", ins->args[0]->id, ins->args[1]->id);
	else
		put_values(pr, ins->args, ins->op == IR_DOT ? 2 : ins->nargs - masked);
	if (acc)
		put(pr, " + %%%d", ins->args[2]->id);
	if (ins->op == IR_DOT && ins->flags & IR_SCALED) {
		put(pr, " scaled ");
		put_values(pr, ins->args + 2 + acc, 2);
	}
	if (masked)
		put(pr, " if %%%d", ins->args[ins->nargs - 1]->id);
}

static void put_access(struct printer *pr, const struct ir_ins *ins)
{
	int rank = pr->k->params[ins->imm].rank, masked = (ins->flags & IR_MASKED) != 0;
	put(pr, " %s%s%s[", ins->op == IR_UPDATE ? reduce_names[ins->kind] : "", ins->op == IR_UPDATE ? " " : "", pr->tensors[ins->imm]);
	put_values(pr, ins->args, rank);
	put(pr, "]");
	if (ins->op != IR_LOAD)
		put(pr, " = %%%d", ins->args[rank]->id);
	if (masked)
		put(pr, " if %%%d", ins->args[ins->nargs - 1]->id);
	if (ins->op == IR_LOAD && ins->flags & IR_RELAXED)
		put(pr, " relaxed");
	if (ins->flags & IR_STAGED)
		put(pr, " staged");
}

static void put_loop(struct printer *pr, const struct ir_ins *ins)
{
	put(pr, " %s from %%%d to %%%d", pr->axes[ins->imm], ins->args[0]->id, ins->args[1]->id);
	for (int i = 0; i < ins->body->nparams; i++) {
		const struct ir_ins *arg = ins->body->params[i];
		put(pr, "%s%%%d: ", i ? ", " : " with ", arg->id);
		put_type(pr, arg);
		if (arg->layout)
			put(pr, " {%s}", layout_text(pr->ar, arg->layout, pr->axes));
		put(pr, " = %%%d", ins->args[2 + i]->id);
	}
}

static void put_operands(struct printer *pr, const struct ir_ins *ins)
{
	switch (ins->op) {
	case IR_CONST:
		put(pr, " ");
		if (dtype_is_float(ins->dtype))
			put_number(pr, ins->num, true);
		else
			put(pr, "%lld", (long long)ins->imm);
		break;
	case IR_SYM: put(pr, " %s", pr->k->symbols[ins->imm]); break;
	case IR_PARAM: case IR_HAS: put(pr, " %s", pr->tensors[ins->imm]); break;
	case IR_IOTA: case IR_LIMIT: put(pr, " %s", pr->axes[ins->imm]); break;
	case IR_LOAD: case IR_STORE: case IR_UPDATE: put_access(pr, ins); break;
	case IR_REDUCE: case IR_DOT: case IR_ARGMAX: case IR_SCAN: put_contraction(pr, ins); break;
	case IR_FOR: put_loop(pr, ins); break;
	case IR_REPEAT: case IR_PACK: put(pr, " %s along %s %%%d", pr->axes[__builtin_ctz(ins->over)], pr->axes[ins->imm], ins->args[0]->id); break;
	case IR_RESULT: put(pr, " %d of %%%d", (int)ins->imm, ins->args[0]->id); break;
	default:
		put(pr, "%s%s", ins->flags & IR_AGAIN ? " again" : ins->flags & IR_SATURATE ? " sat" : ins->op == IR_CVT && ins->flags & IR_CUT ? " cut" : ins->flags & IR_NORMAL ? " normal" : "", ins->nargs ? " " : "");
		put_values(pr, ins->args, ins->nargs);
	}
}

static void put_ins(struct printer *pr, const struct ir_ins *ins)
{
	if (ins->dtype != DT_NONE || ins->body)
		put(pr, "%%%d = ", ins->id);
	put(pr, "%s", ir_op_info[ins->op].text);
	put_operands(pr, ins);
	if (ins->dtype != DT_NONE) {
		put(pr, " : ");
		put_type(pr, ins);
	}
	if (ins->layout)
		put(pr, " {%s}", layout_text(pr->ar, ins->layout, pr->axes));
	put_place(pr, ins->line, ins->col);
}

static void put_block(struct printer *pr, const struct ir_block *block, int depth)
{
	for (const struct ir_ins *ins = block->first; ins; ins = ins->next) {
		put(pr, "%*s", depth * 2, "");
		put_ins(pr, ins);
		if (ins->body) {
			put(pr, " {\n");
			put_block(pr, ins->body, depth + 1);
			put(pr, "%*s}", depth * 2, "");
		}
		if (ins->other) {
			put(pr, " else {\n");
			put_block(pr, ins->other, depth + 1);
			put(pr, "%*s}", depth * 2, "");
		}
		put(pr, "\n");
	}
}

static void put_hexpr(struct printer *pr, const struct hexpr *e)
{
	put(pr, "%s", hexpr_text(pr->ar, e, pr->k->symbols, pr->tensors));
}

static void put_axis(struct printer *pr, const struct ir_axis *x, const char *name)
{
	put(pr, "    axis %s %s", name, kind_names[x->kind]);
	if (x->tiled)
		put(pr, " tiled");
	if (x->tile)
		put(pr, " tile %d", x->tile);
	if (x->cluster)
		put(pr, " cluster %d", x->cluster);
	if (x->ragged)
		put(pr, " ragged %s[%s]", pr->tensors[x->ragged_tensor], pr->axes[x->ragged_group]);
	if (x->extent || x->ragged_total) {
		put(pr, " : ");
		put_hexpr(pr, x->ragged ? x->ragged_total : x->extent);
	}
	put_place(pr, x->line, x->col);
	put(pr, "\n");
}

static void put_param(struct printer *pr, const struct ir_param *p)
{
	put(pr, "  %s%s %s: %s%s", p->is_tensor ? role_names[p->role] : "scalar", p->optional ? "?" : "", p->name, p->list ? "list " : "",
	    dtype_info(p->dtype)->name);
	if (p->is_tensor) {
		put(pr, "[");
		for (int i = 0; i < p->rank; i++) {
			put(pr, "%s", i ? ", " : "");
			put_hexpr(pr, p->extent[i]);
		}
		put(pr, "]");
	}
	if (p->has_default) {
		put(pr, " = ");
		put_number(pr, p->default_value, false);
	}
	put_place(pr, p->line, p->col);
	put(pr, "\n");
}

static struct printer printer_new(struct arena *ar, const struct ir_kernel *k)
{
	struct printer pr = {.ar = ar, .k = k};
	pr.tensors = arena_alloc(ar, (size_t)(k->nparams + 1) * sizeof *pr.tensors);
	for (int i = 0; i < k->nparams; i++)
		pr.tensors[i] = k->params[i].name;
	return pr;
}

char *ir_print(struct arena *ar, const struct ir_kernel *k)
{
	struct printer pr = printer_new(ar, k);
	put(&pr, "kernel %s", k->name);
	if (k->instance && *k->instance)
		put(&pr, " \"%s\"", k->instance);
	if (k->target)
		put(&pr, " target %s", k->target);
	if (k->file)
		put(&pr, " file \"%s\"", k->file);
	put(&pr, " {\n");
	for (int i = 0; i < k->nsymbols; i++)
		put(&pr, "  symbol %s\n", k->symbols[i]);
	for (int i = 0; i < k->nparams; i++)
		put_param(&pr, &k->params[i]);
	for (int i = 0; i < k->nmultiples; i++) {
		const struct ir_multiple *m = &k->multiples[i];
		put(&pr, "  multiple %s %lld%s%s\n", k->symbols[m->symbol], (long long)m->multiple, m->tensor >= 0 ? " of " : "",
		    m->tensor >= 0 ? k->params[m->tensor].name : "");
	}
	for (int i = 0; i < k->nphases; i++) {
		const struct ir_phase *ph = &k->phases[i];
		pr.axes = axis_names(ar, ph);
		put(&pr, "  phase");
		put_place(&pr, ph->line, 0);
		put(&pr, " {\n");
		for (int a = 0; a < ph->naxes; a++)
			put_axis(&pr, &ph->axes[a], pr.axes[a]);
		put_block(&pr, ph->body, 2);
		put(&pr, "  }\n");
	}
	put(&pr, "}\n");
	return put_end(&pr);
}
