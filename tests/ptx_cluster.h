/* ptx_cluster.h -- what workgroups of a cluster do with each other: ptx_cluster.c, for ptx_run.c and ptx_memory.c. */
#ifndef TDSL_TEST_PTX_CLUSTER_H
#define TDSL_TEST_PTX_CLUSTER_H
#include "ptx_machine.h"

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
