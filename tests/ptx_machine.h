/* ptx_machine.h -- a launch as ptx_run.c runs it: workgroups, threads and their registers, and what the instructions of a warp do to them: those that
 * compute are ptx_lanes.c's, those of memory ptx_memory.c's. */
#ifndef TDSL_TEST_PTX_MACHINE_H
#define TDSL_TEST_PTX_MACHINE_H
#include "ptx_code.h"
#include "ptx_run.h"

enum { WARP = 32, COUNTERS = 64, COPIES = 64, PRODUCTS = 128, PIECE = 16 };

typedef uint32_t lanes;                          /* of a warp, a bit each */
#define ALL_LANES 0xffffffffu

/* What cp.async brings, until the thread waits for it. */
struct copied { uint8_t *to, bytes[16]; int group; };
/* A or B of a product of four warps, in shared memory.  apart: from eight rows (along k, where rows lie across) to the next eight; blocks: from 64
 * elements that lie across to the next 64; in bytes. */
struct side { uint64_t at, apart, blocks; bool across; };
/* One that is under way.  adds: to what D was. */
struct product { const struct ins *i; struct side side[2]; bool adds; uint32_t lot; };
/* Those of a warp, in their order.  lots: so many were closed.  Of a register: how many have it in D, and as a word of A, and whether something else has
 * accessed it since the last fence of registers.  did: of all that the warp has done with products, for those it does them with. */
struct products { struct product *product; int n; uint32_t lots; uint8_t *sums, *words; bool *touched; uint64_t did; };
/* reg: the thread's of the first register of its warp, whose threads' lie side by side.
 * arrives, waits: at the cluster's barriers so far.  released[n % 4]: of the first n arrives those up to the last that was not relaxed.
 * Of n only the last three are asked for, since nobody's waits are more than two behind another's arrives.  received: of the workgroup's
 * counters those that the thread has waited for.
 * products: of its warp, NULL = the kernel has none.  fences: for them, of memory, that it has done; shown: when the workgroup last passed a barrier. */
struct thread {
	uint64_t *reg; int pc; bool done; uint32_t tid; struct group *group; uint32_t arrives, waits, released[4]; uint64_t received;
	bool at_named;                        /* it leaves a barrier that is for some warps */
	uint32_t seen; bool looked;           /* where workgroups meet, the last time that it looked */
	int ncopies, groups;                  /* groups: so many were closed */
	struct copied *copies;
	struct products *products; uint32_t fences, shown;
};
/* An mbarrier, initialised by a thread when its workgroup had passed bars barriers of its own.  fence: how many of the cluster's barriers
 * that thread had arrived at when it let others know.  received: some thread has waited for it, when received_bars were passed. */
struct counter {
	const struct thread *by; uint64_t at; uint32_t bars, fence; bool fenced;
	bool arrived, received; uint32_t received_bars; uint64_t bytes, expected;
};
/* A word of shared memory: the thread that stored it last, by what, after how many arrives. */
enum content { PLAIN, COUNTER, COUNTED };
struct mark { const struct thread *by; const struct ins *ins; const struct counter *counter; uint32_t arrives; bool read; enum content content; };
/* A byte of shared memory as products may read it: the thread that stored it last, from 1 on, 0 = none, after how many of its fences. */
struct stored { uint32_t fences; uint16_t by; };
/* PIECE bytes of it.  under_way: products that read it; done: warps whose products have read it when the workgroup had passed `bars` barriers; shown: what is
 * there is known to be there for products. */
struct piece { uint32_t bars, done; uint16_t under_way; bool shown; };
/* A workgroup.  bars: of its own that it has passed.  pieces, stored: NULL = the kernel has no products of four warps. */
struct group {
	struct thread *threads; uint8_t *shared; struct piece *pieces; struct stored *stored;
	struct mark *marks; struct counter *counters; int ncounters; uint32_t bars, at[3]; bool ended;
};
/* A byte of shared memory: which lane of the warp that runs has stored and loaded it last since what `when` counts. */
struct touch { uint32_t when; int8_t stored, loaded; };
struct written { uint64_t at; int bytes; uint32_t tid; };
/* groups: those that run at a time, of a cluster by rank; members: of a cluster.  meeting: as the driver has it for workgroups that all run at a time, its
 * size and what they count in.  moved: since the round began a barrier was arrived at or passed, bytes were counted, or a warp ended.
 * when, touches, written: what the running warp's lanes have done since something last ordered them (ptx_memory_order). */
struct machine {
	struct code *c; struct ptx_launch *l; struct group *groups; int ngroups, members, registers; uint32_t meeting[4]; bool moved; const struct thread *stuck;
	uint32_t when; struct touch *touches; struct written *written; int nwritten, cap_written;
};

static inline uint64_t cut(uint64_t v, int bits)
{
	return bits >= 64 ? v : v & ((1ull << bits) - 1);
}

static inline int64_t sign(uint64_t v, int bits)
{
	return bits >= 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* Of a warp's first thread: those of all its lanes, side by side. */
static inline uint64_t *reg_of(const struct thread *t, int number) { return &t->reg[number * WARP]; }

static inline uint64_t get(const struct thread *t, const struct operand *o)
{
	uint64_t v = o->where == AT_REGISTER ? *reg_of(t, o->reg) : o->value;
	return o->negated ? !v : v;
}

static inline void set(struct thread *t, const struct operand *o, uint64_t v, int bits)
{
	if (o->where == AT_REGISTER)
		*reg_of(t, o->reg) = cut(v, bits);
}

/* Of an instruction with a guard those lanes that do it. */
lanes ptx_lanes_guarded(const struct thread *warp, const struct ins *i);
/* What is made of registers and numbers, for the lanes `on`; false = not known, or not in this form. */
bool ptx_lanes_compute(struct thread *warp, const struct ins *i, lanes on);
/* shfl, vote, redux, mma: of all lanes.  False with text. */
bool ptx_lanes_exchange(struct code *c, struct thread *warp, const struct ins *i);
/* wgmma: of a warp, whose part it is.  False with text. */
bool ptx_lanes_quad(struct machine *m, struct thread *warp, const struct ins *i);
/* Any other instruction of a warp that has `products`: it leaves alone what those under way have.  False with text. */
bool ptx_lanes_apart(struct code *c, const struct thread *warp, const struct ins *i);

/* ld, st, red, atom, prefetch, cp. */
bool ptx_memory_is(const struct ins *i);
/* One thread's; false with text, or without where the form is not known. */
bool ptx_memory_access(struct machine *m, struct thread *t, const struct ins *i);
/* A piece of shared memory that a product of the warp reads from now on; false with text, as it is not there for it.  And when it has read it. */
bool ptx_memory_lend(struct machine *m, const struct thread *warp, const struct ins *i, uint64_t at);
void ptx_memory_return(const struct thread *warp, uint64_t at);
/* What the warp's lanes have stored is there for the others; or another warp runs. */
void ptx_memory_order(struct machine *m);
#endif
