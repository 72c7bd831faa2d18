/* fork.h -- what happens to the library's state when the process forks: each part with locks or devices has a function for it. */
#ifndef TDSL_RT_FORK_H
#define TDSL_RT_FORK_H
#include <pthread.h>

enum fork_stage { FORK_BEFORE, FORK_PARENT, FORK_CHILD };

/* Has every later fork watched.  Called by what creates state. */
void fork_watch(void);
/* Locks before a fork, unlocks after it. */
void fork_lock(pthread_mutex_t *, enum fork_stage);

void binding_fork(enum fork_stage);
void compiler_fork(enum fork_stage);
void device_fork(enum fork_stage);
void once_fork(enum fork_stage);
void packs_fork(enum fork_stage);
void tune_fork(enum fork_stage);
#endif
