/* pass_again.c
 * Problem: what a row becomes in f32 takes twice the registers that it had as loaded, and is held over the wait for other waves.
 * Method:  on targets that ask for it (targets.c: widens_again) bf16 or f16 that is used as f32 on both sides of a reduction is widened again behind
 *          it, by a conversion marked `again`: two instructions a pair, or three, which the assembler cannot know to make what it has had before.
 *          Of a LayerNorm of 16,384 columns 120 registers become 80, and three workgroups fit for two (docs/performance.md).  Where lanes
 *          hold so little that other registers decide, it is left: a workgroup of few waves waits for few.
 * Needs:   layouts.   Keeps: values exactly. */
#include "pass.h"

/* Elements of a lane from which on they are widened again: in workgroups of few waves, in others. */
enum { FEW_WAVES = 4, LEAST_BY_FEW = 64, LEAST = 32 };

static bool is_widened(const struct ir_ins *i, int waves)
{
	return i->op == IR_CVT && i->dtype == DT_F32 && !i->flags && i->layout && i->args[0]->op == IR_LOAD && dtype_info(i->args[0]->dtype)->bits == 16 &&
	       layout_regs(i->layout) >= (waves > FEW_WAVES ? LEAST : LEAST_BY_FEW);
}

static intptr_t round_of(const struct ir_ins *i) { return (intptr_t)i->note; }

/* Those in front of an instruction. */
static void count_rounds(struct ir_block *b)
{
	intptr_t rounds = 0;
	for (struct ir_ins *i = b->first; i; i = i->next) {
		i->note = (void *)rounds;
		rounds += pass_ends_round(i);
	}
}

/* Once for the uses of each round behind the first one that has some, in front of the first of them. */
static void widen_again(struct pass *p, struct ir_phase *ph, struct ir_ins *widened)
{
	struct ir_ins *latest = widened;
	bool used = false;
	for (struct ir_ins *i = widened->next; i; i = i->next)
		for (int a = 0; a < i->nargs; a++) {
			if (i->args[a] != widened)
				continue;
			if (!used)
				widened->note = i->note;
			used = true;
			if (round_of(i) == round_of(widened))
				continue;
			if (round_of(latest) < round_of(i)) {
				struct ir_builder at = pass_before(p, ph, i);
				latest = ir_cvt(&at, widened->args[0], DT_F32, false);
				latest->flags = IR_AGAIN;
				latest->layout = widened->layout;
				latest->note = i->note;
			}
			i->args[a] = latest;
		}
}

int pass_again(struct pass *p)
{
	FOR_PHASES(p, ph) {
		/* Of tiles that are reduced across as well each element is wanted at its time, but in clusters, which wait for other workgroups between. */
		if (!p->v->target->widens_again || ir_has(ph->body, IR_DOT) || (!p->v->cluster && !ir_holds_rows(ph->body)))
			continue;
		int waves = variant_waves(p->v, (int)(ph - p->k->phases));
		count_rounds(ph->body);
		for (struct ir_ins *i = ph->body->first; i; i = i->next)
			if (is_widened(i, waves))
				widen_again(p, ph, i);
	}
	return 0;
}
