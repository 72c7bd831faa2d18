/* fork.c -- a forked child goes on with what its parent had: packs, what was compiled, simulated and null devices.
 *
 * A child has one thread.  A lock that another thread of the parent held would stay locked in it for good, over a state half changed:
 * so the thread that forks takes the library's locks first, each of them held for short spans only, and both processes let them go.
 * Devices are different: their locks are held over calls of drivers, which may fork themselves; the child makes them anew, and
 * gives up the devices of real drivers, whose state is not the child's (device.c).  The compile library waits likewise until no
 * kernel is being compiled (compiler/driver.c). */
#include "fork.h"

#include <stddef.h>

#include "device.h"

/* In the order in which threads take them. */
static void (*const parts[])(enum fork_stage) = {tune_fork, compiler_fork, binding_fork, once_fork, packs_fork, device_fork};
enum { NPARTS = sizeof parts / sizeof *parts };

static void before(void)
{
	for (int i = 0; i < NPARTS; i++)
		parts[i](FORK_BEFORE);
}

static void in_parent(void)
{
	for (int i = NPARTS - 1; i >= 0; i--)
		parts[i](FORK_PARENT);
}

static void in_child(void)
{
	for (int i = NPARTS - 1; i >= 0; i--)
		parts[i](FORK_CHILD);
}

static void watch(void)
{
	library_pin(); /* the handlers outlive a dlclose */
	pthread_atfork(before, in_parent, in_child);
}

void fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch);
}

void fork_lock(pthread_mutex_t *lock, enum fork_stage stage)
{
	if (stage == FORK_BEFORE)
		pthread_mutex_lock(lock);
	else
		pthread_mutex_unlock(lock);
}
