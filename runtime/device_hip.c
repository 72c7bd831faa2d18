/* device_hip.c -- `hip:N` by libamdhip64 and `sim:CHIP` by libtdsl_sim: one path, since both export HIP's symbols.
 *
 * Nothing is linked: functions are looked up by name, a libamdhip64 that the process already has (torch brings its own) before
 * any other.  Kernel arguments go in packed form (`extra`), the only form that needs no argument metadata.  A simulated device
 * differs in two things: host tensors are registered for the length of a call, and launches are waited for. */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hip_abi.h"

struct sim_table {
	int (*register_host)(const void *base, size_t bytes, const char *name, int writable);
	int (*unregister_host)(const void *base);
	const char *(*last_report)(void);
	int (*clear_error)(int device);
};

/* Sets the error for a HIP result; a simulated device adds its report. */
static int hip_fail(tdsl_device d, int code, const char *call, unsigned error, const char *what)
{
	const char *name = d->hip->hipGetErrorName ? d->hip->hipGetErrorName(error) : "";
	const char *text = d->hip->hipGetErrorString ? d->hip->hipGetErrorString(error) : "";
	const struct sim_table *sim = d->sim;
	const char *report = sim && sim->last_report ? sim->last_report() : NULL;
	return error_set(code, "%s: %s%s%s: %s (%u%s%s)%s%s", d->name, what ? what : "", what ? ": " : "", call, name ? name : "?", error,
	                 text && *text ? ", " : "", text ? text : "", report && *report ? ": " : "", report ? report : "");
}

#define HIP(d, code, what, call, args) do { \
	unsigned hip_rc_ = (d)->hip->call args; \
	if (hip_rc_) return hip_fail((d), (code), #call, hip_rc_, (what)); } while (0)

/* Of the memory functions: where a kernel failed before, that is what they tell of, and the code is that of the launch. */
#define HIP_MEMORY(d, code, call, args) do { \
	unsigned hip_rc_ = (d)->hip->call args; \
	if (hip_rc_) return hip_fail((d), hip_rc_ >= HIP_FAULT_FIRST && hip_rc_ <= HIP_FAULT_LAST ? TDSL_ELAUNCH : (code), #call, hip_rc_, NULL); } while (0)

static int hip_enter(tdsl_device d, uintptr_t *saved)
{
	int ordinal;
	HIP(d, TDSL_EDEVICE, NULL, hipGetDevice, (&ordinal));
	if (ordinal != d->ordinal)
		HIP(d, TDSL_EDEVICE, NULL, hipSetDevice, (d->ordinal));
	*saved = (uintptr_t)ordinal;
	return 0;
}

static void hip_leave(tdsl_device d, uintptr_t saved)
{
	if ((int)saved != d->ordinal)
		d->hip->hipSetDevice((int)saved);
}

static int hip_module_load(tdsl_device d, void **module, const void *image, size_t size)
{
	(void)size;
	struct ihipModule_t *m = NULL;
	HIP(d, TDSL_ELAUNCH, NULL, hipModuleLoadData, (&m, image));
	*module = m;
	return 0;
}

static void hip_module_unload(tdsl_device d, void *module)
{
	d->hip->hipDeviceSynchronize(); /* its kernels may still run */
	d->hip->hipModuleUnload(module);
}

static int hip_function(tdsl_device d, void **function, void *module, const char *symbol, struct launch_need *need)
{
	struct ihipModuleSymbol_t *f = NULL;
	HIP(d, TDSL_ELAUNCH, symbol, hipModuleGetFunction, (&f, module, symbol));
	*function = f;
	need->shared = 0; /* the code object says it all */
	return 0;
}

static int hip_launch(tdsl_device d, void *function, const struct launch_shape *l, void *native, void *kernarg, const char *what)
{
	size_t bytes = l->kernarg_bytes;
	void *extra[] = {HIP_EXTRA_POINTER, kernarg, HIP_EXTRA_SIZE, &bytes, HIP_EXTRA_END};
	HIP(d, TDSL_ELAUNCH, what, hipModuleLaunchKernel, (function, l->grid[0], l->grid[1], l->grid[2], l->block, 1, 1, l->shared, native, NULL,
	                                                      extra));
	if (d->sim)
		HIP(d, TDSL_ELAUNCH, what, hipStreamSynchronize, (native));
	return 0;
}

static int hip_sync(tdsl_device d, void *native)
{
	HIP(d, TDSL_ELAUNCH, NULL, hipStreamSynchronize, (native));
	return 0;
}

static int hip_alloc(tdsl_device d, void **ptr, size_t bytes)
{
	HIP_MEMORY(d, TDSL_ENOMEM, hipMalloc, (ptr, bytes));
	return 0;
}

static int hip_free(tdsl_device d, void *ptr)
{
	HIP_MEMORY(d, TDSL_EINVAL, hipFree, (ptr));
	return 0;
}

static int hip_copy(tdsl_device d, void *dst, const void *src, size_t bytes, bool to_device)
{
	HIP_MEMORY(d, TDSL_EINVAL, hipMemcpy, (dst, src, bytes, to_device ? HIP_COPY_TO_DEVICE : HIP_COPY_TO_HOST));
	return 0;
}

static int sim_host_enter(tdsl_device d, const struct host_range *r, int n)
{
	const struct sim_table *sim = d->sim;
	for (int i = 0; i < n; i++) {
		if (sim->register_host((const void *)r[i].base, r[i].bytes, r[i].name, r[i].writable) == 0)
			continue;
		error_set(TDSL_EDEVICE, "%s: argument '%s': its memory cannot be registered: %s", d->name, r[i].name,
		          sim->last_report ? sim->last_report() : "refused");
		while (i-- > 0)
			sim->unregister_host((const void *)r[i].base);
		return TDSL_EDEVICE;
	}
	return 0;
}

static void sim_host_leave(tdsl_device d, const struct host_range *r, int n)
{
	const struct sim_table *sim = d->sim;
	for (int i = 0; i < n; i++)
		sim->unregister_host((const void *)r[i].base);
}

static bool hip_capturing(tdsl_device d, void *native)
{
	unsigned status = 0;
	unsigned rc = d->hip->hipStreamIsCapturing ? d->hip->hipStreamIsCapturing(native, &status) : 0;
	return rc == HIP_CAPTURE_IMPLICIT || (rc == 0 && status != 0);
}

static void hip_close(tdsl_device d)
{
	free(d->hip);
	free(d->sim);
	d->hip = NULL;
	d->sim = NULL;
	dlclose(d->library_handle);
}

static const struct device_ops hip_ops = {
	.kind = "hip", .counts_lanes = true, .enter = hip_enter, .leave = hip_leave, .module_load = hip_module_load, .module_unload = hip_module_unload,
	.function = hip_function, .launch = hip_launch, .sync = hip_sync, .alloc = hip_alloc, .free = hip_free, .copy = hip_copy,
	.capturing = hip_capturing, .close = hip_close};

static const struct device_ops sim_ops = {
	.kind = "sim", .counts_lanes = true, .survives_fork = true, .enter = hip_enter, .leave = hip_leave, .module_load = hip_module_load, .module_unload = hip_module_unload,
	.function = hip_function, .launch = hip_launch, .sync = hip_sync, .alloc = hip_alloc, .free = hip_free, .copy = hip_copy,
	.host_enter = sim_host_enter, .host_leave = sim_host_leave, .capturing = hip_capturing, .close = hip_close};

static int table_fill(tdsl_device d)
{
	struct hip_table *t = d->hip = calloc(1, sizeof *t);
	if (!t)
		FAIL(TDSL_ENOMEM, "out of memory");
#define X(fn, required, args) \
	*(void **)&t->fn = dlsym(d->library_handle, #fn); \
	if (required && !t->fn) FAIL(TDSL_EDEVICE, "%s: %s has no %s", d->name, d->library, #fn);
	HIP_FUNCTIONS(X)
#undef X
	*(void **)&t->hipStreamIsCapturing = dlsym(d->library_handle, "hipStreamIsCapturing");
	*(void **)&t->hipGetErrorName = dlsym(d->library_handle, "hipGetErrorName");
	*(void **)&t->hipGetErrorString = dlsym(d->library_handle, "hipGetErrorString");
	*(void **)&t->hipGetDevicePropertiesR0600 = dlsym(d->library_handle, "hipGetDevicePropertiesR0600");
	*(void **)&t->hipGetDeviceProperties = dlsym(d->library_handle, "hipGetDeviceProperties");
	if (!t->hipGetDevicePropertiesR0600 && !t->hipGetDeviceProperties)
		FAIL(TDSL_EDEVICE, "%s: %s has no hipGetDeviceProperties", d->name, d->library);
	return 0;
}

/* "gfx942:sramecc+:xnack-" of device `ordinal` -> "gfx942" in target. */
static int target_read(tdsl_device d, int ordinal, char *target, size_t size)
{
	bool recent = d->hip->hipGetDevicePropertiesR0600 != NULL;
	char *prop = calloc(1, HIP_PROP_BYTES);
	if (!prop)
		FAIL(TDSL_ENOMEM, "out of memory");
	unsigned rc = recent ? d->hip->hipGetDevicePropertiesR0600(prop, ordinal) : d->hip->hipGetDeviceProperties(prop, ordinal);
	const char *arch = prop + (recent ? HIP_PROP_R0600_ARCH : HIP_PROP_R0000_ARCH);
	size_t n = strcspn(arch, ":");
	bool ok = n >= 4 && n < size && memcmp(arch, "gfx", 3) == 0;
	if (ok && !rc) {
		memcpy(target, arch, n);
		target[n] = 0;
	}
	free(prop);
	if (rc)
		return hip_fail(d, TDSL_EDEVICE, "hipGetDeviceProperties", rc, NULL);
	if (!ok)
		FAIL(TDSL_EDEVICE, "%s: %s does not tell the architecture of device %d", d->name, d->library, ordinal);
	return 0;
}

static int device_count(tdsl_device d, int *count)
{
	*count = 0;
	unsigned rc = d->hip->hipGetDeviceCount(count);
	if (rc)
		return hip_fail(d, TDSL_EDEVICE, "hipGetDeviceCount", rc, "no device");
	if (*count <= 0)
		FAIL(TDSL_EDEVICE, "%s: no device: %s finds no GPU", d->name, d->library);
	return 0;
}

static int opened(tdsl_device d, int rc)
{
	if (rc < 0) {
		free(d->hip);
		free(d->sim);
		d->hip = NULL;
		d->sim = NULL;
		if (d->library_handle)
			dlclose(d->library_handle);
		d->library_handle = NULL;
	}
	return rc;
}

static int hip_setup(tdsl_device d, int ordinal)
{
	static const char *const names[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
	                                    "/opt/rocm/lib/libamdhip64.so", NULL};
	int count;
	TRY(library_open(d, "TDSL_HIP_LIBRARY", names));
	TRY(table_fill(d));
	TRY(device_count(d, &count));
	if (ordinal >= count)
		FAIL(TDSL_EDEVICE, "%s: no device %d; there %s %d", d->name, ordinal, count == 1 ? "is" : "are", count);
	TRY(target_read(d, ordinal, d->target, sizeof d->target));
	d->ordinal = ordinal;
	d->dl = (DLDevice){kDLROCM, ordinal};
	d->ops = &hip_ops;
	return 0;
}

int device_hip_open(tdsl_device d, const char *rest)
{
	int ordinal;
	TRY(ordinal_read(&ordinal, d, "hip", rest));
	return opened(d, hip_setup(d, ordinal));
}

static int sim_setup(tdsl_device d, const char *chip)
{
	char folder[3800], beside[4096];
	library_folder(folder, sizeof folder);
	snprintf(beside, sizeof beside, "%slibtdsl_sim.so", folder);
	const char *const names[] = {beside, "libtdsl_sim.so", NULL};
	TRY(library_open(d, "TDSL_SIM_LIBRARY", names));
	TRY(table_fill(d));
	struct sim_table *s = d->sim = calloc(1, sizeof *s);
	if (!s)
		FAIL(TDSL_ENOMEM, "out of memory");
	*(void **)&s->register_host = dlsym(d->library_handle, "tdsl_sim_register_host");
	*(void **)&s->unregister_host = dlsym(d->library_handle, "tdsl_sim_unregister_host");
	*(void **)&s->last_report = dlsym(d->library_handle, "tdsl_sim_last_report");
	*(void **)&s->clear_error = dlsym(d->library_handle, "tdsl_sim_clear_error");
	if (!s->register_host || !s->unregister_host)
		FAIL(TDSL_EDEVICE, "%s: %s has no tdsl_sim_register_host", d->name, d->library);
	int count;
	char seen[128] = "";
	TRY(device_count(d, &count));
	for (int i = 0; i < count; i++) {
		TRY(target_read(d, i, d->target, sizeof d->target));
		if (strcmp(d->target, chip) == 0) {
			d->ordinal = i;
			d->dl = (DLDevice){kDLROCM, i};
			d->host_tensors = true;
			d->ops = &sim_ops;
			if (s->clear_error)
				s->clear_error(i); /* a fault before it was closed: opened again, it is a new device */
			return 0;
		}
		size_t n = strlen(seen);
		snprintf(seen + n, sizeof seen - n, "%s%s", n ? ", " : "", d->target);
	}
	FAIL(TDSL_EDEVICE, "%s: no simulated chip '%s'; there are %s", d->name, chip, seen);
}

int device_sim_open(tdsl_device d, const char *rest)
{
	return opened(d, sim_setup(d, rest));
}
