/* device.h -- a device is a table of functions and a few facts; the registry knows each by its name.
 *
 * Functions return 0 or a negative TDSL_E* with the text set.  A struct tdsl_device_s is never freed: closing drops its modules
 * and gives the next opening a new serial, so that nothing remembered for the old one can be found again. */
#ifndef TDSL_RT_DEVICE_H
#define TDSL_RT_DEVICE_H
#include <pthread.h>
#include <stdbool.h>

#include "error.h"

struct hip_table;
struct cuda;

/* One block of host memory that a call uses in place on a simulated device. */
struct host_range { uintptr_t base; size_t bytes; const char *name; bool writable; };

/* In: bytes of group memory and of arguments, and threads of a workgroup, as the pack says.  Out: bytes of group memory that are given at launch;
 * members: workgroups of a cluster, 0 = there are no clusters; unplaced: there is no place on this chip where so many of them start together.
 * meets: all workgroups wait for each other; room: so many run at a time, where meets, else 0. */
struct launch_need { uint32_t shared, kernarg_bytes, block, members, room; bool unplaced, meets; };
/* overlaps: it may be started before what runs on the stream is done; its code waits for that.  meets: its workgroups run at a time or not at all.  offsets: of
 * each argument in its block. */
struct launch_shape { uint32_t grid[3], block, shared, members, narguments; bool overlaps, meets; size_t kernarg_bytes; const uint32_t *offsets; };

struct device_ops {
	const char *kind;
	bool survives_fork;             /* its state is this process's memory alone */
	bool counts_lanes;              /* a grid along x has less than 2^32 lanes; else less than 2^31 workgroups */
	/* enter makes the device current and keeps what was (a number, or a context) in *saved; leave restores it.  NULL = nothing to do. */
	int (*enter)(tdsl_device, uintptr_t *saved);
	void (*leave)(tdsl_device, uintptr_t saved);
	/* The following run between enter and leave. */
	int (*module_load)(tdsl_device, void **module, const void *image, size_t size);
	void (*module_unload)(tdsl_device, void *module);
	/* need: what the launch's record says; need->shared becomes the bytes that the launch must add to what the code declares,
	 * need->members and need->unplaced are set where the device has clusters, need->room where workgroups of a launch can wait for each other. */
	int (*function)(tdsl_device, void **function, void *module, const char *symbol, struct launch_need *need);
	int (*launch)(tdsl_device, void *function, const struct launch_shape *, void *native, void *kernarg, const char *what);
	int (*sync)(tdsl_device, void *native);
	int (*alloc)(tdsl_device, void **ptr, size_t bytes);
	int (*free)(tdsl_device, void *ptr);
	int (*copy)(tdsl_device, void *dst, const void *src, size_t bytes, bool to_device);
	/* Simulated devices: make host ranges known for a call, and forget them. */
	int (*host_enter)(tdsl_device, const struct host_range *, int n);
	void (*host_leave)(tdsl_device, const struct host_range *, int n);
	/* Is the stream being captured into a graph?  NULL = this driver cannot. */
	bool (*capturing)(tdsl_device, void *native);
	void (*close)(tdsl_device);
};

struct tdsl_stream_s { tdsl_device device; void *native; };

/* The image lives as long as the module: drivers may refer to it. */
struct device_module { struct device_module *next; uint64_t pack; uint32_t object; void *native, *image; };

struct tdsl_device_s {
	const struct device_ops *ops;
	struct tdsl_device_s *next;
	char name[32], target[32], library[256];
	DLDevice dl;
	bool host_tensors;              /* kDLCPU tensors are accepted */
	bool any_tensors;               /* null: whatever the device says */
	int ordinal;
	int memory_rate;                /* as HX_MEMORY_RATE */
	_Atomic int refs;               /* 0 = closed; -1 = of a parent process, which forked */
	uint64_t serial;
	struct tdsl_stream_s stream;    /* its default stream */
	pthread_mutex_t lock;           /* guards modules */
	struct device_module *modules;
	struct hip_table *hip;
	struct cuda *cuda;
	void *library_handle;
	void *sim;                      /* simulated devices: struct sim_table */
};

/* Fill in a device whose name is set: ops, target, dl, ...; `rest` follows the colon. */
int device_hip_open(tdsl_device, const char *rest);
int device_sim_open(tdsl_device, const char *rest);
int device_null_open(tdsl_device, const char *rest);
int device_cuda_open(tdsl_device, const char *rest);

/* Loads the first library of the list (NULL ends it), one that the process already has before any other; its name goes to d->library.
 * A path given by the environment variable is the only one tried. */
int library_open(tdsl_device, const char *variable, const char *const *names);
/* "3" -> 3; `prefix` is for the message. */
int ordinal_read(int *ordinal, tdsl_device, const char *prefix, const char *rest);

/* 0, or the error of function `where`: the device is NULL, was closed, or is a parent process's. */
int device_open_check(tdsl_device, const char *where);
/* 0, or TDSL_ELAUNCH where the stream (NULL = any device's default one) is being captured: `what` cannot be done then. */
int device_capture_check(tdsl_stream, const char *what);
/* The stream that NULL means.  Fails by the rules of tdsl_open. */
int device_default_stream(tdsl_stream *);
/* Unique numbers for devices, packs and kernels. */
uint64_t serial_next(void);
/* Folder of this library's file with a final '/', or "". */
void library_folder(char *out, size_t size);

/* Keeps this library mapped until the process ends. */
void library_pin(void);

/* The module `object` of pack number `pack` on this device, if it is loaded; device_module_add records one (lock held by the
 * caller over both).  device_forget_pack unloads a pack's modules from every device. */
void *device_module_find(tdsl_device, uint64_t pack, uint32_t object);
int device_module_add(tdsl_device, uint64_t pack, uint32_t object, void *native, void *image); /* takes the image */
void device_forget_pack(uint64_t pack);
#endif
