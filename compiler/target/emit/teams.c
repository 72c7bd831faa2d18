/* teams.c -- waves of a workgroup that wait for each other and for no others.
 * In: a loop in which a workgroup takes several rows side by side (variant.beside), of whose loads those of later rounds are on their way (stage.c).
 * Out: what its barriers are for: the waves that have a row between them, a team, or all.
 * Rows of one workgroup leave one row of sums where those of several leave several, and with teams none waits for another's row
 * (docs/performance.md). */
#include "../../pass.h"
#include "machine.h"

enum { WAVE_BITS = 8 };

/* across: wave bits along which rows are reduced; apart: along which results differ or nothing does, of each reduction that crosses waves. */
struct look { int across, apart; bool any, ok; };

static void look_at(struct ir_ins *i, void *ctx)
{
	struct look *k = ctx;
	const struct layout *l = i->op == IR_REDUCE ? i->args[0]->layout : NULL;
	int across = 0, apart = 0;
	k->ok = k->ok && i->op != IR_RELAYOUT && i->op != IR_SCAN && i->op != IR_ARGMAX && i->op != IR_DOT && i->op != IR_UPDATE;
	for (int b = 0; l && b < l->nwave; b++) {
		bool reduced = false;
		for (int a = 0; a < LAYOUT_AXES; a++)
			reduced = reduced || (l->wave[b].step[a] && (i->over & IR_AXIS(a)));
		across |= reduced << b;
		apart |= (!reduced && !layout_basis_is_zero(&l->wave[b])) << b;
	}
	if (!across)
		return;
	k->ok = k->ok && (!k->any || (k->across == across && k->apart == apart)) && (across | apart) == (1 << l->nwave) - 1;
	k->across = across;
	k->apart = apart;
	k->any = true;
}

/* The workitem's team, from 0 on. */
static LLVMValueRef team_number(struct emit *e, int apart)
{
	int bits[WAVE_BITS], n = 0;
	for (int b = 0; apart >> b; b++)
		if (apart >> b & 1)
			bits[n++] = emit_lane_bits(e) + b;
	return reduce_bits(e, bits, n);
}

void teams_enter_loop(struct emit *e, const struct ir_ins *loop)
{
	struct look k = {.ok = true};
	if (e->v->beside <= 1)
		return;
	ir_walk(loop->body, look_at, &k);
	int teams = 1 << __builtin_popcount((unsigned)k.apart);
	if (!k.ok || !k.any || teams == 1 || teams >= e->machine->barriers)       /* number 0 is everybody's */
		return;
	e->team = LLVMBuildAdd(e->b, team_number(e, k.apart), emit_int(e, 1), "");
	e->team_waves = e->waves / teams;
}

void teams_leave_loop(struct emit *e) { e->team = NULL; }
