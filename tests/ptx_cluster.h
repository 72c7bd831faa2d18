/* ptx_cluster.h -- a launch as ptx_run.c runs it, and of ptx_cluster.c what workgroups of a cluster do with each other. */
#ifndef TDSL_TEST_PTX_CLUSTER_H
#define TDSL_TEST_PTX_CLUSTER_H
#include "ptx_code.h"
#include "ptx_run.h"

enum { WARP = 32, COUNTERS = 64, COPIES = 64 };

/* reg: the thread's of the first register of its warp, whose threads' lie side by side: they run one after the other, all through the same ones.
 * arrives, waits: at the cluster's barriers so far.  released[n % 4]: of the first n arrives those up to the last that was not relaxed.
 * Of n only the last three are asked for, since nobody's waits are more than two behind another's arrives.  received: of the workgroup's
 * counters those that the thread has waited for.  copies: what cp.async brings, until the thread waits for it. */
struct thread {
	uint64_t *reg; int pc; bool done; uint32_t tid; struct group *group; uint32_t arrives, waits, released[4]; uint64_t received;
	bool at_named;                        /* it leaves a barrier that is for some warps */
	uint32_t seen; bool looked;           /* where workgroups meet, the last time that it looked */
	int ncopies, groups;                  /* groups: so many were closed */
	struct { uint8_t *to, bytes[16]; int group; } copies[COPIES];      /* last, for a thread begins without looking at them */
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
/* A workgroup.  bars: of its own that it has passed. */
struct group { struct thread *threads; uint8_t *shared; struct mark *marks; struct counter *counters; int ncounters; uint32_t bars, at[3]; bool ended; };
/* groups: those that run at a time, of a cluster by rank; members: of a cluster.  meeting: as the driver has it for workgroups that all run at a time, its
 * size and what they count in.  moved: since the round began a barrier was arrived at or passed, bytes were counted, or a warp ended. */
struct machine { struct code *c; struct ptx_launch *l; struct group *groups; int ngroups, members, registers; uint32_t meeting[4]; bool moved; const struct thread *stuck; };

static inline uint64_t cut(uint64_t v, int bits)
{
	return bits >= 64 ? v : v & ((1ull << bits) - 1);
}

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

void ptx_cluster_alloc(struct machine *m, struct group *g);
void ptx_cluster_start(struct machine *m, struct group *g);
/* False with text, as all that follow: the workgroup ends before what others send it has come. */
bool ptx_cluster_end(struct machine *m, const struct group *g);
/* May the thread access the workgroup's words so?  Only in clusters of several. */
bool ptx_cluster_share(struct machine *m, const struct thread *t, const struct ins *i, struct group *g, uint64_t at, int bytes, bool write);
/* Instructions of one thread: mapa, fence, mbarrier but for the wait; st.async.  False without text where the form is not known. */
bool ptx_cluster_step(struct machine *m, struct thread *t, const struct ins *i);
bool ptx_cluster_send(struct machine *m, struct thread *t, const struct ins *i);
/* A warp at a barrier of the cluster or at mbarrier.try_wait. */
enum meeting { GOES_ON, WAITS, FAILS };
enum meeting ptx_cluster_meet(struct machine *m, struct thread *warp, const struct ins *i);
enum meeting ptx_cluster_receive(struct machine *m, struct thread *warp, const struct ins *i);
#endif
