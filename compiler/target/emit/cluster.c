/* cluster.c -- what crosses the workgroups of a cluster, its members.
 * In: what the waves of a workgroup have of results, as their lanes hold it.  Out: results of all members, in each of them.
 * Every wave sends what it has to all members, to a place of its own in the group memory of each; there the bytes that arrive are counted.
 * Who needs results waits for as many as come in all, then folds the parts of those that are its own in the butterfly's order, waves
 * first, then members.  Nobody waits for what others have read: a place and a counter serve once, which phases with clusters allow, for
 * they have no loops.  Nothing is sent before all members are known to have begun. */
#include "../../pass.h"
#include "machine.h"

enum { COUNTER = 8 };

struct crossings { const struct emit *e; int n; };

static void count_crossing(struct ir_ins *i, void *ctx)
{
	struct crossings *c = ctx;
	c->n += i->op == IR_REDUCE && ir_crosses_cluster(c->e->ph, i);
}

int cluster_size(const struct ir_phase *ph)
{
	int n = 0;
	for (int a = 0; a < ph->naxes; a++)
		n = ph->axes[a].cluster ? ph->axes[a].cluster : n;
	return n;
}

void cluster_begin(struct emit *e)
{
	struct crossings c = {e, 0};
	if (!e->cluster)
		return;
	ir_walk(e->ph->body, count_crossing, &c);            /* at most a round each */
	e->cluster_counters = e->lds_small_bytes;
	e->lds_small_bytes += (c.n * COUNTER + 15) / 16 * 16;
	e->machine->members_begin(e, lds_pointer(e, e->lds_small, NULL, e->cluster_counters), c.n);
}

/* The bits of the workitem id that name neither a result nor a part of one: `named` of them, the lowest, number members; the others are
 * to be 0. */
struct senders { int named[LAYOUT_WAVES], n; int64_t zero; };

static struct senders senders_of(const struct emit *e, const struct shared_results *s)
{
	struct senders w = {.n = 0};
	for (int b = 0; b < s->own->nlane + s->own->nwave; b++) {
		bool wave = b >= s->own->nlane;
		if (!layout_basis_is_zero(wave ? &s->own->wave[b - s->own->nlane] : &s->own->lane[b]) || (wave && s->waves >> (b - s->own->nlane) & 1))
			continue;
		if (1 << w.n < e->cluster)
			w.named[w.n++] = b;
		else
			w.zero |= (int64_t)1 << b;
	}
	return w;
}

/* Where the parts of results lie: coef of positions, from `base` on, one part `plane` bytes behind the other.  What lanes of a wave send to a
 * member lies side by side so: sent here and there it takes LayerNorm of clusters a quarter more time (docs/performance.md). */
struct places { int64_t coef[LAYOUT_AXES]; int base, plane, waves; };

static void send(struct emit *e, const struct shared_results *s, const struct places *p, LLVMValueRef counter)
{
	struct senders w = senders_of(e, s);
	int wave[LAYOUT_WAVES], nwave = 0;
	for (int b = 0; b < s->own->nwave; b++)
		if (s->waves >> b & 1)
			wave[nwave++] = s->own->nlane + b;
	LLVMValueRef named = reduce_bits(e, w.named, w.n), part = reduce_bits(e, wave, nwave), join = reduce_begin_first(e, w.zero);
	LLVMValueRef member = op_times(e, e->machine->member(e), p->waves);
	part = op_times(e, part ? LLVMBuildAdd(e->b, member, part, "") : member, p->plane);
	LLVMValueRef own = lds_pointer(e, e->lds_small, LLVMBuildAdd(e->b, index_lanes_here(e, s->own, p->coef), part, ""), p->base);
	for (int m = 0; m < e->cluster >> w.n; m++) {
		LLVMValueRef to = named ? LLVMBuildOr(e->b, named, emit_int(e, m << w.n), "") : emit_int(e, m << w.n);
		LLVMValueRef there = e->machine->member_place(e, own, to), counted = e->machine->member_place(e, counter, to);
		for (int r = 0, n; r < s->regs; r += n) {
			n = reduce_together(e, s->own, r, s->regs, p->coef);
			e->machine->member_send(e, lds_pointer(e, there, NULL, reduce_register_bytes(e, s->own, r, p->coef)), s->x + r, n, counted);
		}
	}
	if (join)
		emit_if_end(e, join);
}

/* One result that all lanes want. */
static bool is_single(const struct layout *to)
{
	bool single = layout_regs(to) == 1;
	for (int b = 0; b < to->nlane; b++)
		single = single && layout_basis_is_zero(&to->lane[b]);
	for (int b = 0; b < to->nwave; b++)
		single = single && layout_basis_is_zero(&to->wave[b]);
	return single;
}

/* Its parts lane by lane, and a butterfly of the wave: few loads where each lane would load them all. */
static LLVMValueRef fold_by_lanes(struct emit *e, const struct shared_results *s, const struct places *p, int parts)
{
	int wave = parts < e->v->target->wave ? parts : e->v->target->wave;
	LLVMValueRef at = op_times(e, LLVMBuildAnd(e->b, e->tid, emit_int(e, wave - 1), ""), p->plane), *x = arena_alloc(e->arena, sizeof *x * (size_t)(parts / wave));
	for (int k = 0; k < parts / wave; k++) {
		x[k] = LLVMBuildLoad2(e->b, LLVMTypeOf(s->x[0]), lds_pointer(e, e->lds_small, at, p->base + k * wave * p->plane), "");
		for (int bit = 0; 1 << bit < wave; bit++) {
			LLVMValueRef both[2] = {x[k], lane_xor(e, x[k], bit, true)};
			x[k] = reduce_parts(e, s->i, both, 2);
		}
	}
	return reduce_parts(e, s->i, x, parts / wave);
}

/* alone: no other results come with them, whose registers would be held meanwhile. */
static void fold(struct emit *e, struct shared_results *s, const struct places *p, bool alone)
{
	if (is_single(s->to) && (alone || p->waves * e->cluster >= e->v->target->wave)) {
		LLVMValueRef whole = fold_by_lanes(e, s, p, p->waves * e->cluster);
		s->x = arena_alloc(e->arena, sizeof *s->x);
		s->x[0] = whole;
		s->regs = 1;
		return;
	}
	LLVMValueRef at = index_lanes_here(e, s->to, p->coef), *x = arena_alloc(e->arena, sizeof *x * (size_t)layout_regs(s->to));
	int parts = p->waves * e->cluster;
	for (int r = 0; r < layout_regs(s->to); r++) {
		LLVMValueRef *part = arena_alloc(e->arena, sizeof *part * (size_t)parts);
		for (int k = 0; k < parts; k++)
			part[k] = LLVMBuildLoad2(e->b, LLVMTypeOf(s->x[0]), lds_pointer(e, e->lds_small, at, p->base + k * p->plane + reduce_register_bytes(e, s->to, r, p->coef)), "");
		x[r] = reduce_parts(e, s->i, part, parts);
	}
	s->x = x;
	s->regs = layout_regs(s->to);
}

void cluster_send(struct emit *e, struct shared_results *s, int n)
{
	int bytes = 0;
	if (!n)
		return;
	LLVMValueRef counter = lds_pointer(e, e->lds_small, NULL, e->cluster_counters + COUNTER * e->cluster_rounds);
	if (!e->cluster_rounds++)
		e->machine->members_ready(e);
	for (int k = 0; k < n; k++) {
		struct places *p = s[k].places = arena_alloc(e->arena, sizeof *p);
		int size = reduce_result_bytes(e, s[k].to, 0, p->coef);
		p->waves = 1 << __builtin_popcount(s[k].waves);
		p->plane = (size + 15) / 16 * 16;
		p->base = e->lds_small_bytes;
		e->lds_small_bytes += p->plane * p->waves * e->cluster;
		bytes += size * p->waves * e->cluster;
	}
	e->machine->members_expect(e, counter, bytes);
	for (int k = 0; k < n; k++)
		send(e, &s[k], s[k].places, counter);
	s[0].counter = counter;
}

void cluster_receive(struct emit *e, struct shared_results *s, int n)
{
	if (n)
		e->machine->members_receive(e, s[0].counter);
	for (int k = 0; k < n; k++)
		fold(e, &s[k], s[k].places, n == 1);
}
