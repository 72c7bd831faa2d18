/* device_cuda.c -- `cuda:N` by libcuda.so.1, NVIDIA's driver.
 *
 * In: a device number; cubin or PTX images from packs; streams of the process (torch's CUstream, NULL = the legacy default one).
 * Out: the functions of struct device_ops.  Nothing is linked: functions are looked up by name, a driver library that the process
 * already has before any other.  The context is the device's primary one, which torch and the CUDA runtime use as well, so that
 * memory, streams, events and graphs are shared with them.  Arguments go as one packed block, as on AMD devices.  The call path
 * neither waits nor allocates: a call can be captured into a graph; loading a module is allowed during a capture of this thread. */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"

/* reserved: group memory the driver keeps; multiprocessors: of which a launch's workgroups may wait for each other, 0 = of none */
struct cuda { struct cuda_table t; struct CUctx_st *context; int device, version, reserved, multiprocessors; };

/* Which code a chip runs.  sm_90a is of compute capability 9.0 alone: neither its cubin nor its PTX runs on another. */
static const struct { int major, minor; const char *target; } chips[] = {{9, 0, "sm_90a"}};

static bool is_fault(unsigned error)
{
#define X(name, number) case number:
	switch (error) {
	CUDA_FAULTS(X)
		return true;
	}
#undef X
	return false;
}

static int cuda_fail(tdsl_device d, int code, const char *call, unsigned error, const char *what)
{
	const char *name = NULL, *text = NULL;
	d->cuda->t.cuGetErrorName(error, &name);
	d->cuda->t.cuGetErrorString(error, &text);
	return error_set(code, "%s: %s%s%s: %s (%u%s%s)%s", d->name, what ? what : "", what ? ": " : "", call, name ? name : "?", error,
	                 text ? ", " : "", text ? text : "", is_fault(error) ? ": of a kernel that was launched before; this process cannot use the device any more" : "");
}

#define CUDA(d, code, what, call, args) do { \
	unsigned cuda_rc_ = (d)->cuda->t.call args; \
	if (cuda_rc_) return cuda_fail((d), (code), #call, cuda_rc_, (what)); } while (0)

/* Of the memory functions: `code` where they refuse what is asked of them; where a kernel failed before, or the driver did, the code is that of a launch. */
#define CUDA_MEMORY(d, code, call, args) do { \
	unsigned cuda_rc_ = (d)->cuda->t.call args; \
	if (cuda_rc_) return cuda_fail((d), cuda_rc_ <= CUDA_OUT_OF_MEMORY ? (code) : TDSL_ELAUNCH, #call, cuda_rc_, NULL); } while (0)

static int cuda_enter(tdsl_device d, uintptr_t *saved)
{
	struct CUctx_st *now;
	CUDA(d, TDSL_EDEVICE, NULL, cuCtxGetCurrent, (&now));
	if (now != d->cuda->context)
		CUDA(d, TDSL_EDEVICE, NULL, cuCtxSetCurrent, (d->cuda->context));
	*saved = (uintptr_t)now;
	return 0;
}

static void cuda_leave(tdsl_device d, uintptr_t saved)
{
	if (saved != (uintptr_t)d->cuda->context)
		d->cuda->t.cuCtxSetCurrent((struct CUctx_st *)saved);
}

/* ---- modules */

/* Sets the error for an image that the driver refused.  `ptx`: its text, NULL for a cubin. */
static int load_fail(tdsl_device d, unsigned error, const char *ptx, const char *log)
{
	const char *at = ptx ? strstr(ptx, ".version ") : NULL;
	const char *target = ptx ? strstr(ptx, ".target ") : NULL;
	int major = d->cuda->version / 1000, minor = d->cuda->version % 1000 / 10;
	if (error == CUDA_UNSUPPORTED_PTX_VERSION && at)
		FAIL(TDSL_ELAUNCH, "%s: the pack's PTX is of version %.*s, newer than the driver, which is of CUDA %d.%d, can read; a newer "
		     "driver, or a pack built where ptxas is installed, is needed", d->name, (int)strcspn(at + 9, "\r\n"), at + 9, major, minor);
	if (error == CUDA_NO_BINARY_FOR_GPU)
		FAIL(TDSL_ELAUNCH, "%s: the pack's %s is not for this device (%s), or newer than the driver, which is of CUDA %d.%d",
		     d->name, ptx ? "PTX" : "cubin", d->target, major, minor);
	cuda_fail(d, TDSL_ELAUNCH, "cuModuleLoadDataEx", error, NULL);
	char why[512];
	snprintf(why, sizeof why, "%s", tdsl_error());
	FAIL(TDSL_ELAUNCH, "%s; %s%.*s%s%.400s", why, ptx ? "PTX for " : "a cubin", target ? (int)strcspn(target + 8, "\r\n") : 0,
	     target ? target + 8 : "", *log ? ": " : "", log);
}

static int image_load(tdsl_device d, struct CUmod_st **module, const void *image, const char *ptx)
{
	char log[2048] = "";
	unsigned options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
	void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
	unsigned mode = CUDA_CAPTURE_RELAXED;
	CUDA(d, TDSL_ELAUNCH, NULL, cuThreadExchangeStreamCaptureMode, (&mode));
	unsigned rc = d->cuda->t.cuModuleLoadDataEx(module, image, 2, options, values);
	d->cuda->t.cuThreadExchangeStreamCaptureMode(&mode);
	return rc ? load_fail(d, rc, ptx, log) : 0;
}

/* PTX is text that must end in NUL; a cubin is ELF. */
static int cuda_module_load(tdsl_device d, void **module, const void *image, size_t size)
{
	struct CUmod_st *m = NULL;
	if (size >= 4 && memcmp(image, "\177ELF", 4) == 0) {
		TRY(image_load(d, &m, image, NULL));
	} else {
		char *text = malloc(size + 1);
		if (!text)
			FAIL(TDSL_ENOMEM, "out of memory");
		memcpy(text, image, size);
		text[size] = 0;
		int rc = image_load(d, &m, text, text);
		free(text); /* the driver has translated it */
		TRY(rc);
	}
	*module = m;
	return 0;
}

static void cuda_module_unload(tdsl_device d, void *module)
{
	d->cuda->t.cuCtxSynchronize(); /* its kernels may still run */
	d->cuda->t.cuModuleUnload(module);
}

/* Bytes of arguments that the function reads, where the driver can tell. */
static size_t arguments_bytes(tdsl_device d, struct CUfunc_st *f, size_t otherwise)
{
	size_t end = 0, offset, size;
	if (!d->cuda->t.cuFuncGetParamInfo)
		return otherwise;
	for (size_t i = 0; d->cuda->t.cuFuncGetParamInfo(f, i, &offset, &size) == 0; i++)
		end = offset + size;
	return end;
}

/* Up to 8 workgroups of a cluster a whole chip starts together; for more the function must say that it is for one that does.  A part of a chip, or
 * one that has fewer multiprocessors side by side, may have no place for as many. */
static int clusters_ask(tdsl_device d, struct CUfunc_st *f, const char *symbol, struct launch_need *need)
{
	int members = 0, places = 1;
	if (d->cuda->t.cuFuncGetAttribute(&members, CUDA_FUNC_CLUSTER_WIDTH, f) != 0)
		members = 0;
	need->members = (uint32_t)members;
	if (members > CUDA_CLUSTER_PORTABLE)
		CUDA(d, TDSL_ELAUNCH, symbol, cuFuncSetAttribute, (f, CUDA_FUNC_CLUSTER_ANY, 1));
	struct cuda_launch one = {{need->members, 1, 1}, {need->block, 1, 1}, need->shared, NULL, NULL, 0};
	if (members && d->cuda->t.cuOccupancyMaxActiveClusters)
		CUDA(d, TDSL_ELAUNCH, symbol, cuOccupancyMaxActiveClusters, (&places, f, (const struct CUlaunchConfig_st *)(const void *)&one));
	need->unplaced = places < 1;
	return 0;
}

/* How many workgroups run at a time, if they wait for each other. */
static int room_ask(tdsl_device d, struct CUfunc_st *f, const char *symbol, struct launch_need *need)
{
	int each = 0;
	if (need->meets && d->cuda->multiprocessors)
		CUDA(d, TDSL_ELAUNCH, symbol, cuOccupancyMaxActiveBlocksPerMultiprocessor, (&each, f, (int)need->block, need->shared));
	need->room = (uint32_t)(each * d->cuda->multiprocessors);
	return 0;
}

static int cuda_function(tdsl_device d, void **function, void *module, const char *symbol, struct launch_need *need)
{
	struct CUfunc_st *f = NULL;
	int declared = 0;
	CUDA(d, TDSL_ELAUNCH, symbol, cuModuleGetFunction, (&f, module, symbol));
	CUDA(d, TDSL_ELAUNCH, symbol, cuFuncGetAttribute, (&declared, CUDA_FUNC_SHARED_BYTES, f));
	size_t bytes = arguments_bytes(d, f, need->kernarg_bytes);
	if (bytes != need->kernarg_bytes)
		FAIL(TDSL_EPACK, "%s: %s: the function takes %zu bytes of arguments; the pack says %u", d->name, symbol, bytes,
		     (unsigned)need->kernarg_bytes);
	/* Up to 48 KB the code declares by itself; beyond, what it does not declare is given at launch.  What it declares may hold the
	 * driver's part as well. */
	uint32_t all = need->shared;
	int own = declared > d->cuda->reserved ? declared - d->cuda->reserved : 0;
	need->shared = all > CUDA_SHARED_UNASKED && all > (uint32_t)own ? all - (uint32_t)own : 0;
	if (need->shared)
		CUDA(d, TDSL_ELAUNCH, symbol, cuFuncSetAttribute, (f, CUDA_FUNC_MAX_DYNAMIC_SHARED_BYTES, (int)need->shared));
	TRY(clusters_ask(d, f, symbol, need));
	TRY(room_ask(d, f, symbol, need));
	*function = f;
	return 0;
}

/* Of so many clusters two members may share a multiprocessor where others are free: more clusters run at a time.  Of fewer each is faster spread,
 * and slow memory is what all wait for (docs/performance.md, 2026-11-26). */
static bool is_crowd(const struct tdsl_device_s *d, const struct launch_shape *l)
{
	return l->members && d->memory_rate >= CUDA_FAST_MEMORY && (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] >= (uint64_t)l->members * CUDA_CLUSTER_CROWD;
}

/* What the driver calls an invalid handle is most often a stream of another GPU. */
static int launch_fail(tdsl_device d, const char *call, unsigned error, void *native, const char *what)
{
	struct CUctx_st *of = d->cuda->context;
	if (error == CUDA_INVALID_HANDLE && native && d->cuda->t.cuStreamGetCtx && d->cuda->t.cuStreamGetCtx(native, &of) == 0 && of != d->cuda->context)
		FAIL(TDSL_ELAUNCH, "%s: %s: the stream is another device's; expected one of %s, or none", d->name, what, d->name);
	return cuda_fail(d, TDSL_ELAUNCH, call, error, what);
}

enum { MOST_ARGUMENTS = 512 };     /* as many as the compiler gives a launch at most */

/* A launch whose workgroups wait for each other is captured into a graph only if it has its arguments one by one. */
static int cuda_launch(tdsl_device d, void *function, const struct launch_shape *l, void *native, void *kernarg, const char *what)
{
	size_t bytes = l->kernarg_bytes;
	void *extra[] = {CUDA_EXTRA_POINTER, kernarg, CUDA_EXTRA_SIZE, &bytes, CUDA_EXTRA_END}, *params[MOST_ARGUMENTS];
	if ((l->overlaps || l->meets) && d->cuda->t.cuLaunchKernelEx) {
		struct cuda_attribute how[3];
		struct cuda_launch launch = {{l->grid[0], l->grid[1], l->grid[2]}, {l->block, 1, 1}, l->shared, native, how, 0};
		if (l->overlaps)
			how[launch.nattributes++] = (struct cuda_attribute){.id = CUDA_LAUNCH_OVERLAPS, .value = {1}};
		if (is_crowd(d, l))
			how[launch.nattributes++] = (struct cuda_attribute){.id = CUDA_LAUNCH_PLACING, .value = {CUDA_PLACING_BALANCED}};
		if (l->meets)
			how[launch.nattributes++] = (struct cuda_attribute){.id = CUDA_LAUNCH_MEETS, .value = {1}};
		if (l->meets && l->narguments > MOST_ARGUMENTS)
			FAIL(TDSL_EPACK, "%s: %s: %u arguments; expected %d at most", d->name, what, l->narguments, MOST_ARGUMENTS);
		for (uint32_t i = 0; l->meets && i < l->narguments; i++)
			params[i] = (uint8_t *)kernarg + l->offsets[i];
		unsigned rc = d->cuda->t.cuLaunchKernelEx((const struct CUlaunchConfig_st *)(const void *)&launch, function, l->meets ? params : NULL, l->meets ? NULL : extra);
		return rc ? launch_fail(d, "cuLaunchKernelEx", rc, native, what) : 0;
	}
	unsigned rc = d->cuda->t.cuLaunchKernel(function, l->grid[0], l->grid[1], l->grid[2], l->block, 1, 1, l->shared, native, NULL, extra);
	return rc ? launch_fail(d, "cuLaunchKernel", rc, native, what) : 0;
}

/* ---- streams and memory */

static int cuda_sync(tdsl_device d, void *native)
{
	CUDA(d, TDSL_ELAUNCH, NULL, cuStreamSynchronize, (native));
	return 0;
}

static bool cuda_capturing(tdsl_device d, void *native)
{
	unsigned status = 0, rc = d->cuda->t.cuStreamIsCapturing(native, &status);
	return rc == CUDA_CAPTURE_IMPLICIT || (rc == 0 && status != 0);
}

static int cuda_alloc(tdsl_device d, void **ptr, size_t bytes)
{
	unsigned long long at = 0;
	CUDA_MEMORY(d, TDSL_ENOMEM, cuMemAlloc_v2, (&at, bytes));
	*ptr = (void *)(uintptr_t)at;
	return 0;
}

static int cuda_free(tdsl_device d, void *ptr)
{
	CUDA_MEMORY(d, TDSL_EINVAL, cuMemFree_v2, ((uintptr_t)ptr));
	return 0;
}

static int cuda_copy(tdsl_device d, void *dst, const void *src, size_t bytes, bool to_device)
{
	if (to_device) {
		CUDA_MEMORY(d, TDSL_EINVAL, cuMemcpyHtoD_v2, ((uintptr_t)dst, src, bytes));
		CUDA(d, TDSL_ELAUNCH, NULL, cuStreamSynchronize, (NULL)); /* pageable memory may be on its way still */
	} else {
		CUDA_MEMORY(d, TDSL_EINVAL, cuMemcpyDtoH_v2, (dst, (uintptr_t)src, bytes));
	}
	return 0;
}

/* ---- opening */

/* Also what is left of an opening that failed. */
static void cuda_close(tdsl_device d)
{
	if (d->cuda && d->cuda->context)
		d->cuda->t.cuDevicePrimaryCtxRelease_v2(d->cuda->device);
	free(d->cuda);
	d->cuda = NULL;
	if (d->library_handle)
		dlclose(d->library_handle);
	d->library_handle = NULL;
}

static const struct device_ops cuda_ops = {
	.kind = "cuda", .enter = cuda_enter, .leave = cuda_leave, .module_load = cuda_module_load, .module_unload = cuda_module_unload,
	.function = cuda_function, .launch = cuda_launch, .sync = cuda_sync, .alloc = cuda_alloc, .free = cuda_free, .copy = cuda_copy,
	.capturing = cuda_capturing, .close = cuda_close};

static int table_fill(tdsl_device d)
{
	struct cuda_table *t = &d->cuda->t;
#define X(fn, required, args) \
	*(void **)&t->fn = dlsym(d->library_handle, #fn); \
	if (required && !t->fn) FAIL(TDSL_EDEVICE, "%s: %s has no %s", d->name, d->library, #fn);
	CUDA_FUNCTIONS(X)
#undef X
	return 0;
}

static int target_read(tdsl_device d)
{
	int major = 0, minor = 0;
	char name[128] = "";
	CUDA(d, TDSL_EDEVICE, NULL, cuDeviceGetAttribute, (&major, CUDA_ATTRIBUTE_MAJOR, d->cuda->device));
	CUDA(d, TDSL_EDEVICE, NULL, cuDeviceGetAttribute, (&minor, CUDA_ATTRIBUTE_MINOR, d->cuda->device));
	for (unsigned i = 0; i < sizeof chips / sizeof *chips; i++)
		if (chips[i].major == major && chips[i].minor == minor) {
			snprintf(d->target, sizeof d->target, "%s", chips[i].target);
			return 0;
		}
	CUDA(d, TDSL_EDEVICE, NULL, cuDeviceGetName, (name, sizeof name, d->cuda->device));
	FAIL(TDSL_EDEVICE, "%s: %s has compute capability %d.%d; expected 9.0 (sm_90a)", d->name, name, major, minor);
}

/* 0 = a launch's workgroups cannot wait for each other. */
static int multiprocessors(tdsl_device d)
{
	int n = 0, meets = 0;
	bool told = d->cuda->t.cuDeviceGetAttribute(&meets, CUDA_ATTRIBUTE_MEETS, d->cuda->device) == 0 &&
	            d->cuda->t.cuDeviceGetAttribute(&n, CUDA_ATTRIBUTE_MULTIPROCESSORS, d->cuda->device) == 0;
	return told && meets && d->cuda->t.cuLaunchKernelEx && d->cuda->t.cuOccupancyMaxActiveBlocksPerMultiprocessor ? n : 0;
}

/* Two transfers a clock (kHz) on each of the pins; a driver that does not tell leaves 0. */
static int memory_rate(tdsl_device d)
{
	int khz = 0, pins = 0;
	bool told = d->cuda->t.cuDeviceGetAttribute(&khz, CUDA_ATTRIBUTE_MEMORY_CLOCK, d->cuda->device) == 0 &&
	            d->cuda->t.cuDeviceGetAttribute(&pins, CUDA_ATTRIBUTE_MEMORY_WIDTH, d->cuda->device) == 0;
	return told ? (int)(2LL * khz * pins / 8 / 1000000) : 0;
}

static int cuda_setup(tdsl_device d, int ordinal)
{
	static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
	int count = 0;
	TRY(library_open(d, "TDSL_CUDA_LIBRARY", names));
	if (!(d->cuda = calloc(1, sizeof *d->cuda)))
		FAIL(TDSL_ENOMEM, "out of memory");
	TRY(table_fill(d));
	CUDA(d, TDSL_EDEVICE, "no device", cuInit, (0));
	CUDA(d, TDSL_EDEVICE, NULL, cuDriverGetVersion, (&d->cuda->version));
	CUDA(d, TDSL_EDEVICE, NULL, cuDeviceGetCount, (&count));
	if (ordinal >= count)
		FAIL(TDSL_EDEVICE, "%s: no device %d; there %s %d", d->name, ordinal, count == 1 ? "is" : "are", count);
	CUDA(d, TDSL_EDEVICE, NULL, cuDeviceGet, (&d->cuda->device, ordinal));
	TRY(target_read(d));
	CUDA(d, TDSL_EDEVICE, NULL, cuDeviceGetAttribute, (&d->cuda->reserved, CUDA_ATTRIBUTE_RESERVED_SHARED, d->cuda->device));
	CUDA(d, TDSL_EDEVICE, NULL, cuDevicePrimaryCtxRetain, (&d->cuda->context, d->cuda->device));
	d->memory_rate = memory_rate(d);
	d->cuda->multiprocessors = multiprocessors(d);
	d->ordinal = ordinal;
	d->dl = (DLDevice){kDLCUDA, ordinal};
	d->ops = &cuda_ops;
	return 0;
}

int device_cuda_open(tdsl_device d, const char *rest)
{
	int ordinal;
	TRY(ordinal_read(&ordinal, d, "cuda", rest));
	int rc = cuda_setup(d, ordinal);
	if (rc < 0)
		cuda_close(d);
	return rc;
}
