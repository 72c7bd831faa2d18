/* waves.c -- waves that would hold nothing are not started.
 * In: a phase with layouts.  Out: how many waves a launch of it has, and neutral results for those that it does not have.
 *
 * A variant serves rows of many lengths, and its waves are a power of two.  Where they stand outermost along one axis that is held, each has as
 * many positions side by side, and a row that ends early leaves nothing to the last ones: what they would compute is masked off, but for their
 * part of reductions.  So a launch has the waves that the row needs, and whoever folds the waves' partial results takes what changes nothing
 * for the others.  1,536 columns in lanes that hold 4,096 take two waves of four. */
#include "../../pass.h"
#include "machine.h"

/* copied: axes of what all waves hold alike. */
struct look { struct emit *e; int axis, each; ir_axes copied; bool fits, folds; };

/* The wave's bits step along one axis, as parts of it one behind the other, or not at all. */
static void look_at_layout(struct look *k, const struct layout *l)
{
	int copies = 0;
	for (int b = 0; b < l->nwave; b++) {
		const struct layout_basis *step = &l->wave[b];
		if (layout_basis_is_zero(step)) {
			copies++;
			continue;
		}
		for (int a = 0; a < LAYOUT_AXES; a++)
			if (step->step[a]) {
				int each = layout_size(l, a) >> l->nwave;
				k->axis = k->axis < 0 ? a : k->axis;
				k->each = k->each ? k->each : each;
				k->fits = k->fits && a == k->axis && each == k->each && l->rep[a] == 1 && step->step[a] == each << b;
			}
	}
	k->fits = k->fits && (!copies || copies == l->nwave);
	for (int a = 0; copies && a < LAYOUT_AXES; a++)
		k->copied |= layout_size(l, a) > 1 ? IR_AXIS(a) : 0;
}

static void look_at(struct ir_ins *i, void *ctx)
{
	struct look *k = ctx;
	k->fits = k->fits && i->op != IR_DOT && i->op != IR_SCAN && i->op != IR_ARGMAX;
	if (i->layout)
		look_at_layout(k, i->layout);
	const struct layout *from = i->op == IR_REDUCE ? i->args[0]->layout : NULL;
	bool crosses = false;
	for (int a = 0; from && from->nwave && a < LAYOUT_AXES; a++)
		crosses = crosses || (from->wave[0].step[a] && (i->over & IR_AXIS(a)));
	if (crosses && i->layout)                      /* results that are dealt out are folded by whoever they are dealt to */
		k->fits = k->fits && layout_equal(i->layout, layout_project(k->e->arena, from, i->over, NULL));
	k->folds = k->folds || crosses;
}

void waves_look(struct emit *e)
{
	struct look k = {e, -1, 0, 0, e->v->waves_vary && !e->cluster && !e->v->joined, false};
	ir_walk(e->ph->body, look_at, &k);
	if (!k.fits || k.axis < 0 || (k.copied & IR_AXIS(k.axis)) || e->ph->axes[k.axis].kind != AXIS_HELD)   /* what is copied a wave has to have written */
		return;
	const struct hexpr *n = hexpr_op(e->arena, HX_CDIV, e->ph->axes[k.axis].extent, hexpr_const(e->arena, k.each));
	int64_t there;
	n = hexpr_op(e->arena, HX_MIN, n, hexpr_const(e->arena, e->waves));      /* longer rows are swept */
	n = hexpr_op(e->arena, HX_MAX, n, hexpr_const(e->arena, 1));
	bool fixed = hexpr_is_const(n, &there);
	if (fixed && there == e->waves)
		return;
	e->waves_there = n;
	e->waves_told = k.folds && !fixed;
}

LLVMValueRef waves_number(struct emit *e)
{
	return e->told[TOLD_WAVES] ? e->told[TOLD_WAVES] : emit_hexpr(e, e->waves_there);
}

int waves_lanes(struct emit *e, const struct hexpr **lanes)
{
	int wave = e->v->target->wave;
	int64_t n = wave * e->waves;
	*lanes = e->waves_there ? hexpr_op(e->arena, HX_MUL, e->waves_there, hexpr_const(e->arena, wave)) : NULL;
	if (*lanes && hexpr_is_const(*lanes, &n))
		*lanes = NULL;
	return (int)n;
}

LLVMValueRef waves_or_nothing(struct emit *e, const struct ir_ins *reduction, LLVMValueRef there, LLVMValueRef x)
{
	enum dtype t = reduction->dtype == DT_I1 ? DT_I32 : (enum dtype)reduction->dtype;
	return LLVMBuildSelect(e->b, there, x, op_identity(e, reduction->kind, t), "");
}
