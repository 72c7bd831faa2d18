/* cuda_fake.h -- what tests/cuda_fake.c is and has seen: the library exports one of these as `cuda_fake`.
 * The first part says what the pretended device is and which calls fail; the second counts and keeps what was called. */
#ifndef TDSL_CUDA_FAKE_H
#define TDSL_CUDA_FAKE_H
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

struct cuda_fake {
	int devices, major, minor, version;
	int memory_khz, memory_pins;      /* 0 = not told */
	unsigned init_error, load_error, launch_error;
	unsigned fault; bool faulted;     /* what a launch comes to while it runs, if anything; whether one did: all else then gives that */
	const char *load_log;             /* what a failing load writes into the error log */
	unsigned capture;                 /* status of every stream: 0 none, 1 being captured */
	unsigned capture_error;           /* or what asking gives */
	int shared_declared;              /* bytes of group memory that every function declares */
	int cluster_width;                /* workgroups of a cluster of every function; 0 = none */
	bool no_clusters, no_large_clusters;   /* the driver does not know them; the chip refuses those of more than any chip takes */
	bool no_places; unsigned places_error;   /* there is no place for a cluster; what asking for one gives */
	bool no_meeting; int multiprocessors, room; unsigned room_error;   /* workgroups of a launch cannot wait for each other; each multiprocessor has room for so many */
	size_t arguments_more;            /* bytes of arguments that functions take beyond their own */

	int retained, switches, loads, unloads, launches, early, balanced, met, syncs, allocations;
	unsigned capture_mode, load_mode; /* this process's mode now, and at the last load */
	char image[256];                  /* start of the last image loaded */
	unsigned grid[3], block[3], shared;
	void *stream, *context;           /* of the last launch */
	size_t bytes;                     /* of its arguments */
	int shared_asked, cluster_any;    /* by cuFuncSetAttribute */
};
#endif
