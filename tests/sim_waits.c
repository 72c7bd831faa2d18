/* sim_waits.c -- see sim_waits.h. */
#include "sim_waits.h"
#include "../sim/check.h"
#include "sim_variant.h"

#include <stdio.h>
#include <stdlib.h>

enum { FAR = 255, MOST = 254 };                           /* no operation; that many or more */

/* What may be outstanding before an instruction.  smem: scalar registers, whose loads return in any order. */
struct state { bool reached; uint8_t vm_out, lds_out, smem_out, vm[CHECK_VGPRS], lds[CHECK_VGPRS], smem[CHECK_SGPRS]; };

struct flow {
	const struct sim_object *object;
	const struct sim_kernel *kernel;
	uint64_t start, deleted;
	int n;                                                /* dwords from start */
	struct sim_inst *inst;
	struct check_use *use;
	struct state *before;
	uint8_t *queued;
	int *queue, nqueue;
	const uint8_t *jumps;
	bool copies;                                          /* from memory to LDS */
	bool unknown;                                         /* a jump to where a register says */
};

static void higher(uint8_t *a, uint8_t b, bool *changed)
{
	if (b > *a) {
		*a = b;
		*changed = true;
	}
}

static void lower(uint8_t *a, const uint8_t *b, int n, bool *changed)
{
	for (int i = 0; i < n; i++)
		if (b[i] < a[i]) {
			a[i] = b[i];
			*changed = true;
		}
}

static void arrive(struct flow *f, int64_t to, const struct state *s)
{
	if (to < 0 || to >= f->n) {
		f->unknown = true;
		return;
	}
	struct state *t = &f->before[to];
	bool changed = !t->reached;
	if (!t->reached) {
		*t = *s;
	} else {
		higher(&t->vm_out, s->vm_out, &changed);
		higher(&t->lds_out, s->lds_out, &changed);
		higher(&t->smem_out, s->smem_out, &changed);
		lower(t->vm, s->vm, CHECK_VGPRS, &changed);
		lower(t->lds, s->lds, CHECK_VGPRS, &changed);
		lower(t->smem, s->smem, CHECK_SGPRS, &changed);
	}
	if (changed && !f->queued[to]) {
		f->queued[to] = 1;
		f->queue[f->nqueue++] = (int)to;
	}
}

static void issue(uint8_t *out, uint8_t *age, int n)
{
	*out = *out < MOST ? *out + 1 : MOST;
	for (int i = 0; i < n; i++)
		if (age[i] < MOST)
			age[i]++;
}

static void write_registers(const struct check_use *u, uint8_t *age, uint8_t value)
{
	for (int k = 0; k < u->nwrite; k++)
		memset(age + u->write[k].first, value, u->write[k].n);
}

static void transfer(struct state *s, const struct sim_inst *in, const struct check_use *u, bool deleted)
{
	bool vm = u->access == ACCESS_VMEM || u->access == ACCESS_DMA || u->access == ACCESS_FLAT || u->access == ACCESS_SCRATCH;
	bool lds = u->access == ACCESS_LDS || u->access == ACCESS_FLAT;
	if (in->op == OP_s_waitcnt && !deleted) {
		uint32_t imm = (uint32_t)in->offset & 0xffff;
		uint8_t v = (uint8_t)((imm & 15) | (imm >> 10 & 0x30)), l = imm >> 8 & 15;
		s->vm_out = v < 63 && s->vm_out > v ? v : s->vm_out;
		s->lds_out = l < 15 && s->lds_out > l ? l : s->lds_out;
		if (l == 0) {
			s->smem_out = 0;
			memset(s->smem, FAR, sizeof s->smem);
		}
		return;
	}
	if (vm)
		issue(&s->vm_out, s->vm, CHECK_VGPRS);
	if (lds)
		issue(&s->lds_out, s->lds, CHECK_VGPRS);
	write_registers(u, s->vm, vm ? 0 : FAR);
	write_registers(u, s->lds, lds ? 0 : FAR);
	if (u->access == ACCESS_SMEM)
		s->smem_out = 1;
	for (int k = 0; k < u->nswrite; k++)
		memset(s->smem + u->swrite[k].first, u->access == ACCESS_SMEM ? 0 : FAR, u->swrite[k].n);
}

static void leave(struct flow *f, int at, const struct state *s)
{
	const struct sim_inst *in = &f->inst[at];
	const char *name = sim_op_name(in->op);
	int64_t next = at + in->len, to = next + in->offset;
	if (in->op == OP_s_endpgm)
		return;
	if (in->op == OP_s_setpc_b64 || in->op == OP_s_swappc_b64 || in->op == OP_s_call_b64)
		f->unknown = true;
	else if (in->op == OP_s_branch)
		arrive(f, to, s);
	else {
		bool never = in->op == OP_s_cbranch_execz && f->jumps && f->jumps[f->start / 4 + (unsigned)at] == JUMP_NOT_TAKEN;
		if (strncmp(name, "s_cbranch", 9) == 0 && !never)
			arrive(f, to, s);
		arrive(f, next, s);
	}
}

/* The states before every instruction; false where the code cannot be followed. */
static bool follow(struct flow *f, uint64_t deleted)
{
	struct state first = {.reached = true};
	f->deleted = deleted;
	f->unknown = false;
	memset(first.vm, FAR, sizeof first.vm);
	memset(first.lds, FAR, sizeof first.lds);
	memset(first.smem, FAR, sizeof first.smem);
	memset(f->before, 0, sizeof *f->before * (size_t)f->n);
	f->nqueue = 0;
	arrive(f, 0, &first);
	while (f->nqueue && !f->unknown) {
		int at = f->queue[--f->nqueue];
		struct sim_inst *in = &f->inst[at];
		uint64_t place = f->start + 4u * (unsigned)at;
		f->queued[at] = 0;
		if (!in->len) {
			const uint32_t *words = (const uint32_t *)(const void *)(f->object->image + place);
			if (!sim_decode(in, words, f->n - at < 4 ? f->n - at : 4, f->object->chip, f->kernel->accum_offset))
				return false;
			check_use_of(&f->use[at], in);
			f->copies |= f->use[at].access == ACCESS_DMA;
		}
		struct state s = f->before[at];
		transfer(&s, in, &f->use[at], place == deleted);
		leave(f, at, &s);
	}
	return !f->unknown;
}

/* Of counts that ended at MOST nothing is known. */
static bool may_be_out(uint8_t age, uint8_t out) { return age < out || (age == MOST && out == MOST); }

static bool in_flight(const struct state *s, unsigned reg) { return may_be_out(s->vm[reg], s->vm_out) || may_be_out(s->lds[reg], s->lds_out); }

static bool touches(const struct check_regs *list, int n, const struct state *with, const struct state *without)
{
	for (int k = 0; k < n; k++)
		for (unsigned r = list[k].first; r < list[k].first + (unsigned)list[k].n; r++)
			if (in_flight(without, r) && !in_flight(with, r))
				return true;
	return false;
}

static bool touches_scalar(const struct check_regs *list, int n, const struct state *with, const struct state *without)
{
	for (int k = 0; k < n; k++)
		for (unsigned r = list[k].first; r < list[k].first + (unsigned)list[k].n; r++)
			if (without->smem[r] != FAR && with->smem[r] == FAR)
				return true;
	return false;
}

static bool orders_memory(const struct flow *f, const struct sim_inst *in, const struct check_use *u)
{
	return in->op == OP_s_barrier || in->op == OP_buffer_wbl2 || in->op == OP_buffer_inv || (u->atomic && u->access != ACCESS_LDS) ||
	       strncmp(sim_op_name(in->op), "s_sendmsg", 9) == 0 || (f->copies && (u->access == ACCESS_LDS || u->access == ACCESS_DMA));
}

static bool same_effect(const struct flow *f, const struct state *with, const struct state *without)
{
	for (int i = 0; i < f->n; i++) {
		const struct check_use *u = &f->use[i];
		const struct state *a = &with[i], *b = &without[i];
		if (!b->reached || f->start + 4u * (unsigned)i == f->deleted)
			continue;
		if (touches(u->read, u->nread, a, b) || touches(u->write, u->nwrite, a, b) || touches_scalar(u->sread, u->nsread, a, b) ||
		    touches_scalar(u->swrite, u->nswrite, a, b))
			return false;
		if (orders_memory(f, &f->inst[i], u) && (a->vm_out != b->vm_out || a->lds_out != b->lds_out || b->vm_out == MOST || b->lds_out == MOST))
			return false;
	}
	return true;
}

bool sim_wait_redundant(const struct sim_object *o, const struct sim_kernel *k, uint64_t at, const uint8_t *jumps, char *why, size_t len)
{
	uint64_t start = k->entry + (k->preload_length ? 256 : 0), end = variant_code_end(o, k);
	struct flow f = {.object = o, .kernel = k, .start = start, .jumps = jumps, .n = (int)((end - start) / 4)};
	size_t n = (size_t)f.n;
	f.inst = calloc(n, sizeof *f.inst);
	f.use = calloc(n, sizeof *f.use);
	f.queue = calloc(n, sizeof *f.queue);
	f.queued = calloc(n, 1);
	struct state *with = calloc(n, sizeof *with), *without = calloc(n, sizeof *without);
	bool proven = false;
	f.before = with;
	if (at >= start && at < end && follow(&f, UINT64_MAX)) {
		f.before = without;
		proven = follow(&f, at) && same_effect(&f, with, without);
	}
	if (proven) {
		const struct state *s = &with[(at - start) / 4];
		uint32_t imm = (uint32_t)f.inst[(at - start) / 4].offset & 0xffff, vm = (imm & 15) | (imm >> 10 & 0x30), lds = imm >> 8 & 15;
		bool idle = (vm == 63 || s->vm_out <= vm) && (lds == 15 || (s->lds_out <= lds && !s->smem_out));
		snprintf(why, len, "%s", !s->reached ? "no path reaches it" : idle ? "nothing is outstanding there that it waits for" :
			"what it waits for is not used before a later wait that covers it");
	}
	free(f.inst), free(f.use), free(f.queue), free(f.queued), free(with), free(without);
	return proven;
}
