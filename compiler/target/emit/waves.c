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
struct look { struct emit *e; struct wave_parts parts; ir_axes copied; bool folds; };

int waves_look_at(struct wave_parts *k, const struct layout *l, int bits)
{
	int copies = 0, n = 0, all = __builtin_popcount((unsigned)bits);
	for (int b = 0; b < l->nwave; b++) {
		if (!(bits >> b & 1))
			continue;
		copies += layout_basis_is_zero(&l->wave[b]);
		for (int a = 0; a < LAYOUT_AXES; a++) {
			if (!l->wave[b].step[a])
				continue;
			int each = layout_size(l, a) >> all;
			k->axis = k->each ? k->axis : a;
			k->each = k->each ? k->each : each;
			k->fits = k->fits && a == k->axis && each == k->each && l->rep[a] == 1 && l->wave[b].step[a] == each << n;
		}
		n++;
	}
	k->fits = k->fits && (!copies || copies == n);
	return copies;
}

const struct hexpr *waves_holding(struct emit *e, const struct wave_parts *k, int waves)
{
	if (!k->fits || !k->each || e->ph->axes[k->axis].kind != AXIS_HELD)
		return NULL;
	const struct hexpr *n = hexpr_op(e->arena, HX_CDIV, e->ph->axes[k->axis].extent, hexpr_const(e->arena, k->each));
	n = hexpr_op(e->arena, HX_MIN, n, hexpr_const(e->arena, waves));      /* longer rows are swept */
	n = hexpr_op(e->arena, HX_MAX, n, hexpr_const(e->arena, 1));
	int64_t all;
	return hexpr_is_const(n, &all) && all == waves ? NULL : n;
}

static void look_at_layout(struct look *k, const struct layout *l)
{
	int copies = waves_look_at(&k->parts, l, (1 << l->nwave) - 1);
	for (int a = 0; copies && a < LAYOUT_AXES; a++)
		k->copied |= layout_size(l, a) > 1 ? IR_AXIS(a) : 0;
}

static void look_at(struct ir_ins *i, void *ctx)
{
	struct look *k = ctx;
	k->parts.fits = k->parts.fits && i->op != IR_DOT && i->op != IR_SCAN && i->op != IR_ARGMAX;
	if (i->layout)
		look_at_layout(k, i->layout);
	const struct layout *from = i->op == IR_REDUCE ? i->args[0]->layout : NULL;
	bool crosses = false;
	for (int a = 0; from && from->nwave && a < LAYOUT_AXES; a++)
		crosses = crosses || (from->wave[0].step[a] && (i->over & IR_AXIS(a)));
	if (crosses && i->layout)                      /* results that are dealt out are folded by whoever they are dealt to */
		k->parts.fits = k->parts.fits && layout_equal(i->layout, layout_project(k->e->arena, from, i->over, NULL));
	k->folds = k->folds || crosses;
}

void waves_look(struct emit *e)
{
	struct look k = {e, {0, 0, e->v->waves_vary && !e->cluster && !e->v->joined}, 0, false};
	int64_t fixed;
	ir_walk(e->ph->body, look_at, &k);
	if (k.copied & IR_AXIS(k.parts.axis))              /* what is copied a wave has to have written */
		return;
	e->waves_there = waves_holding(e, &k.parts, e->waves);
	e->waves_told = e->waves_there && k.folds && !hexpr_is_const(e->waves_there, &fixed);
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
