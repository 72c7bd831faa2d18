/* fold.c -- partial results of waves that lanes fold for themselves.
 * In: reductions that lanes of a wave have finished, whose rows of lanes hold different results.  Out: the results, in the order of a butterfly over waves,
 * in every lane that has a use for them.  One round of LDS for all of them that stand side by side: a barrier, not one each.
 * Where results are only stored, waves with copies do not read: of 16 waves that add up parts of 64 columns, two sums of 16 numbers for each of a lane's four
 * columns, one reads those 128 numbers a lane and the others none, a microsecond of an H200's call. */
#include "../../pass.h"
#include "reduce.h"

enum { READ_TOGETHER = 64, WORTH_A_BRANCH = 16, WIDE = 4 };

/* The bits of the workitem id whose lanes or waves hold different results. */
static int kept_bits(const struct part *p, int *kept)
{
	int n = 0;
	for (int b = 0; b < p->from->nlane; b++)
		if (!(p->lanes >> b & 1) && !layout_basis_is_zero(&p->from->lane[b]))
			kept[n++] = b;
	for (int b = 0; b < p->from->nwave; b++)
		if (!(p->waves >> b & 1) && !layout_basis_is_zero(&p->from->wave[b]))
			kept[n++] = p->from->nlane + b;
	return n;
}

/* Sums of rows that lie beside each other: of a lane's words as many lie side by side as one access takes, in which lanes then follow each other. */
static bool is_wide(const struct emit *e, const struct part *p) { return e->v->beside > 1 && p->i->dtype == DT_F32 && p->regs % WIDE == 0; }

static void store_wide(struct emit *e, LLVMValueRef *x, LLVMValueRef place)
{
	LLVMSetAlignment(LLVMBuildStore(e->b, vector_join(e, x, WIDE, 1), place), 4 * WIDE);
}

static LLVMValueRef load_wide(struct emit *e, LLVMValueRef place)
{
	LLVMValueRef x = LLVMBuildLoad2(e->b, emit_vector(e->f32, WIDE), place, "");
	LLVMSetAlignment(x, 4 * WIDE);
	return x;
}

/* Partial results of a wave lie side by side, one a result lane and register, `slot` bytes a lane; the waves of a result `plane` bytes apart.
 * word: bytes of one; wide: several lie side by side.  at: this lane's, behind the first byte of all, `base`. */
struct folding { int kept[HIGH + 6], reduced[HIGH], nkept, nreduced, word, plane, slot, base; bool wide; LLVMValueRef at; };

static struct folding folding_of(const struct emit *e, const struct part *p, int base)
{
	struct folding f = {.word = p->i->dtype == DT_I64 ? 8 : 4, .wide = is_wide(e, p), .base = base};
	f.slot = f.word * (f.wide ? WIDE : p->regs);
	f.nkept = kept_bits(p, f.kept);
	f.plane = f.word * p->regs << f.nkept;
	for (int b = 0; b < p->from->nwave; b++)
		if (p->waves >> b & 1)
			f.reduced[f.nreduced++] = p->from->nlane + b;
	return f;
}

/* Where this lane's register x of wave v lies behind `at`; of words that lie side by side, the first. */
static int folding_place(const struct folding *f, int x, int v)
{
	return f->base + v * f->plane + (f->wide ? (f->slot << f->nkept) * (x / WIDE) : f->word * x);
}

static void write_waves(struct emit *e, const struct part *p, struct folding *f, LLVMValueRef round)
{
	LLVMValueRef k = reduce_bits(e, f->kept, f->nkept), w = reduce_bits(e, f->reduced, f->nreduced);      /* numbers that tiles in LDS have a use for, too */
	f->at = k ? op_times(e, k, f->slot) : emit_int(e, 0);
	f->at = round ? LLVMBuildAdd(e->b, f->at, round, "") : f->at;
	LLVMValueRef to = LLVMBuildAdd(e->b, f->at, op_times(e, w, f->plane), "");
	int64_t same = reduce_wave_copies(p);                 /* lanes that hold what others hold do not write */
	for (int b = 0; b < p->from->nlane; b++)
		same |= (int64_t)((p->lanes >> b & 1) || layout_basis_is_zero(&p->from->lane[b])) << b;
	LLVMValueRef join = reduce_begin_first(e, same);
	for (int x = 0; x < p->regs; x += f->wide ? WIDE : 1) {
		LLVMValueRef place = lds_pointer(e, e->lds_small, to, folding_place(f, x, 0));
		if (f->wide)
			store_wide(e, p->x + x, place);
		else
			LLVMBuildStore(e->b, p->x[x], place);
	}
	if (join)
		emit_if_end(e, join);
}

/* many: all the partial results that the round reads would not fit the registers at once. */
static void read_waves(struct emit *e, struct part *p, const struct folding *f, bool many)
{
	int n = 1 << f->nreduced;
	LLVMValueRef four[1 << HIGH] = {NULL}, there = reduce_waves(e);
	for (int x = 0; x < p->regs; x++) {
		LLVMValueRef part[1 << HIGH], pointer;
		for (int v = 0; v < n; v++) {
			pointer = lds_pointer(e, e->lds_small, f->at, folding_place(f, x, v));
			four[v] = f->wide && x % WIDE == 0 ? load_wide(e, pointer) : four[v];
			part[v] = f->wide ? vector_part(e, four[v], x % WIDE, 1) : LLVMBuildLoad2(e->b, LLVMTypeOf(p->x[x]), pointer, "");
			if (there && v)
				part[v] = waves_or_nothing(e, p->i, LLVMBuildICmp(e->b, LLVMIntUGT, there, emit_int(e, v), ""), part[v]);
		}
		LLVMValueRef whole = reduce_parts(e, p->i, part, n);
		p->x[x] = many && f->word == 4 ? e->machine->settled(e, whole) : whole;
	}
}

struct taking { const struct ir_ins *result; bool *of; bool stores; };     /* of: by number, what is made of the result */

static void look_at_taker(struct ir_ins *i, void *ctx)
{
	struct taking *t = ctx;
	bool takes = false, elsewhere = i->op == IR_LOAD || i->op == IR_REDUCE || i->op == IR_RELAYOUT || i->op == IR_YIELD || !ir_is_plain(i);
	for (int a = 0; a < i->nargs; a++)
		takes = takes || t->of[i->args[a]->id];
	if (!takes)
		return;
	t->of[i->id] = true;
	t->stores = t->stores && !elsewhere && i->layout && layout_equal(i->layout, t->result->layout);
}

/* Nothing but stores, and what they are computed from element by element, takes it: then waves that hold a copy of it do not need it. */
static bool is_only_stored(struct emit *e, const struct ir_ins *i)
{
	struct taking t = {i, arena_alloc(e->arena, (size_t)e->k->next_id + 1), i->layout != NULL};
	t.of[i->id] = true;
	ir_walk(e->ph->body, look_at_taker, &t);
	return t.stores;
}

/* The bits of the workitem id whose waves need not fold what others fold too. */
static int64_t idle_waves(struct emit *e, const struct part *p, const struct folding *f)
{
	int64_t bits = 0;
	if (p->regs << f->nreduced < WORTH_A_BRANCH || !is_only_stored(e, p->i))
		return 0;
	for (int b = 0; b < p->i->layout->nwave; b++)
		bits |= (int64_t)layout_basis_is_zero(&p->i->layout->wave[b]) << (p->i->layout->nlane + b);
	return bits;
}

/* Parts of which the same waves are idle, in those that are not. */
static void read_in_some(struct emit *e, struct part *parts, const struct folding *f, int n, int64_t idle, bool many)
{
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
	LLVMValueRef join = reduce_begin_first(e, idle);
	for (int k = 0; k < n; k++)
		read_waves(e, &parts[k], &f[k], many);
	LLVMBasicBlockRef folded = LLVMGetInsertBlock(e->b);
	if (join)
		emit_if_end(e, join);
	for (int k = 0; join && k < n; k++)
		for (int x = 0; x < parts[k].regs; x++) {
			LLVMValueRef *at = &parts[k].x[x], phi = LLVMBuildPhi(e->b, LLVMTypeOf(*at), ""), nothing = LLVMGetPoison(LLVMTypeOf(*at));
			LLVMAddIncoming(phi, at, &folded, 1);
			LLVMAddIncoming(phi, &nothing, &before, 1);
			*at = phi;
		}
}

void fold_waves(struct emit *e, struct part *all, int nall)
{
	struct part parts[ROUND];
	struct folding f[ROUND];
	int64_t idle[ROUND];
	int n = 0, base = e->lds_small_bytes, end = base, reads = 0;
	for (int k = 0; k < nall; k++) {
		if (!all[k].by_waves)
			continue;
		parts[n] = all[k];
		f[n] = folding_of(e, &all[k], end);
		idle[n] = idle_waves(e, &all[k], &f[n]);
		end += ((f[n].plane << f[n].nreduced) + 15) / 16 * 16;
		reads += all[k].regs << f[n].nreduced;
		n++;
	}
	if (!n)
		return;
	LLVMValueRef round = reduce_places(e, end - base);
	for (int k = 0; k < n; k++)
		write_waves(e, &parts[k], &f[k], round);
	lds_barrier(e);
	stage_ask_rest(e);
	for (int k = 0, run; k < n; k += run) {
		for (run = 1; k + run < n && idle[k + run] == idle[k]; run++)
			;
		read_in_some(e, parts + k, f + k, run, idle[k], reads > READ_TOGETHER);
	}
}
