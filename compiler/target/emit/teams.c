/* teams.c -- waves of a workgroup that wait for each other and for no others.
 * In: a loop in which a workgroup takes rows one after the other, or several side by side (variant.beside), of whose loads those of later rounds are on
 * their way (stage.c).  Out: what its barriers are for: the waves that have a row between them, a team; of these those that hold something of it.
 * Rows of one workgroup leave one row of sums where those of several leave several, and with teams none waits for another's row.  Rows shorter than
 * those of their class leave nothing to the last waves of a team, which are needed behind the loop and have no rounds in it (docs/performance.md). */
#include "../../pass.h"
#include "machine.h"

enum { WAVE_BITS = 8 };

/* across: wave bits along which rows are reduced; apart: along which results differ or nothing does, of each reduction that crosses waves.
 * parts: what those that are reduced have of a row. */
struct look { int across, apart; bool any, ok; struct wave_parts parts; };

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

static void look_at_parts(struct ir_ins *i, void *ctx)
{
	struct look *k = ctx;
	if (i->layout)
		waves_look_at(&k->parts, i->layout, k->across);
}

/* The number that these bits of the workitem's wave make. */
static LLVMValueRef number_of(struct emit *e, int bits)
{
	int at[WAVE_BITS], n = 0;
	for (int b = 0; bits >> b; b++)
		if (bits >> b & 1)
			at[n++] = emit_lane_bits(e) + b;
	return reduce_bits(e, at, n);
}

/* How many waves of a team hold something; NULL = all, or it does not show. */
static LLVMValueRef waves_of_team(struct emit *e, const struct ir_ins *loop, struct look *k)
{
	k->parts.fits = !e->waves_there;                 /* else those that hold nothing are not there at all */
	ir_walk(loop->body, look_at_parts, k);
	const struct hexpr *n = waves_holding(e, &k->parts, 1 << __builtin_popcount((unsigned)k->across));
	return n ? emit_hexpr(e, n) : NULL;
}

LLVMValueRef teams_open(struct emit *e, const struct ir_ins *loop, LLVMValueRef end)
{
	struct look k = {.ok = true};
	e->team_there = NULL;
	e->team_waves = 0;
	ir_walk(loop->body, look_at, &k);
	int teams = 1 << __builtin_popcount((unsigned)k.apart);
	if (!k.ok || !k.any || teams >= e->machine->barriers)       /* number 0 is everybody's */
		return end;
	e->team_there = waves_of_team(e, loop, &k);
	if (!e->team_there && teams == 1)
		return end;
	e->team_waves = e->waves / teams;
	e->team_number = LLVMBuildAdd(e->b, k.apart ? number_of(e, k.apart) : emit_int(e, 0), emit_int(e, 1), "");
	if (!e->team_there)
		return end;
	LLVMValueRef holds = LLVMBuildICmp(e->b, LLVMIntULT, number_of(e, k.across), e->team_there, "");
	return LLVMBuildSelect(e->b, holds, end, emit_int(e, 0), "");
}

void teams_enter_loop(struct emit *e) { e->team = e->team_waves ? e->team_number : NULL; }

void teams_leave_loop(struct emit *e)
{
	e->team = e->team_there = NULL;
}
