/* hip.c -- HIP's functions on devices and errors, over simulated chips.
 *
 * In: the environment variable TDSL_SIM_CHIPS, once.  Out: the process's list of devices, each thread's current device
 * and last error.  The list is the only state of the process; it never changes after initialisation, and what changes
 * inside a device has its own lock.  A kernel's fault stays on its device, as HIP's does, until tdsl_sim_clear_error. */
#include "hip_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 60400000 }; /* HIP 6.4.0: major * 10000000 + minor * 100000 + patch */

static struct {
	pthread_once_t once;
	struct hip_device devices[HIP_DEVICES_MAX];
	int count;
	struct sim_memory *handles;
	char trouble[256]; /* why there are no devices */
} process = {.once = PTHREAD_ONCE_INIT};

static _Thread_local struct hip_thread self = {.checks = -1};

struct hip_thread *hip_self(void)
{
	return &self;
}

hipError_t hip_fail(hipError_t code, const char *fmt, ...)
{
	char text[HIP_REPORT_MAX]; /* the arguments may point into the old report */
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	memcpy(self.report, text, sizeof text);
	self.last = code;
	return code;
}

static void process_init(void)
{
	const char *list = getenv("TDSL_SIM_CHIPS"), *p = list ? list : "gfx942,gfx950";
	process.handles = sim_memory_new();
	while (*p) {
		char name[32];
		size_t n = strcspn(p, ",");
		snprintf(name, sizeof name, "%.*s", (int)n, p);
		p += n + (p[n] == ',');
		const struct sim_chip *chip = sim_chip_by_name(name);
		if (!chip || process.count == HIP_DEVICES_MAX) {
			if (chip)
				snprintf(process.trouble, sizeof process.trouble, "TDSL_SIM_CHIPS lists more than %d chips", HIP_DEVICES_MAX);
			else
				snprintf(process.trouble, sizeof process.trouble,
				         "TDSL_SIM_CHIPS: '%s' is not a simulated chip (gfx942, gfx950)", name);
			process.count = 0;
			return;
		}
		struct hip_device *d = &process.devices[process.count];
		*d = (struct hip_device){.chip = chip, .ordinal = process.count, .memory = sim_memory_new()};
		if (!d->memory || !process.handles || pthread_mutex_init(&d->lock, NULL) != 0) {
			snprintf(process.trouble, sizeof process.trouble, "no memory for the simulated devices");
			process.count = 0;
			return;
		}
		process.count++;
	}
	if (process.count == 0)
		snprintf(process.trouble, sizeof process.trouble, "TDSL_SIM_CHIPS lists no chip");
}

int hip_device_count(void)
{
	pthread_once(&process.once, process_init);
	if (process.count == 0)
		hip_fail(hipErrorNoDevice, "%s", process.trouble);
	return process.count;
}

struct hip_device *hip_device(int ordinal)
{
	int count = hip_device_count();
	if (count == 0)
		return NULL;
	if (ordinal < 0 || ordinal >= count) {
		hip_fail(hipErrorInvalidDevice, "there is no device %d, there are %d", ordinal, count);
		return NULL;
	}
	return &process.devices[ordinal];
}

struct hip_device *hip_current(void)
{
	return hip_device(self.device);
}

hipError_t hip_device_sound(struct hip_device *d)
{
	char report[HIP_REPORT_MAX];
	pthread_mutex_lock(&d->lock);
	hipError_t fault = d->fault;
	if (fault != hipSuccess)
		memcpy(report, d->fault_report, sizeof report);
	pthread_mutex_unlock(&d->lock);
	return fault == hipSuccess ? hipSuccess : hip_fail(fault, "%s", report);
}

hipError_t hip_device_fault(struct hip_device *d, hipError_t code, const char *report)
{
	pthread_mutex_lock(&d->lock);
	if (d->fault == hipSuccess) {
		d->fault = code;
		snprintf(d->fault_report, sizeof d->fault_report, "%s", report);
	}
	pthread_mutex_unlock(&d->lock);
	return hip_fail(code, "%s", report);
}

hipError_t hip_handle_add(struct hip_handle *h)
{
	if (sim_memory_add(process.handles, h, sizeof *h, "handle", false) != SIM_OK)
		return hip_fail(hipErrorOutOfMemory, "no memory for a handle");
	return hipSuccess;
}

void hip_handle_remove(struct hip_handle *h)
{
	sim_memory_remove(process.handles, h);
}

void *hip_handle_check(const void *handle, enum hip_kind kind)
{
	static const char *const name[] = {"", "stream", "event", "module", "function"};
	uint64_t lo, hi;
	bool writable;
	if (hip_device_count() == 0)
		return NULL;
	if (!handle || !sim_memory_range(process.handles, (uintptr_t)handle, &lo, &hi, &writable) || lo != (uintptr_t)handle ||
	    ((const struct hip_handle *)handle)->kind != kind) {
		hip_fail(hipErrorInvalidHandle, "%p is not a live %s", handle, name[kind]);
		return NULL;
	}
	return (void *)handle;
}

hipError_t hipInit(unsigned flags)
{
	if (flags != 0)
		return hip_fail(hipErrorInvalidValue, "hipInit: flags must be 0");
	return hip_device_count() ? hipSuccess : self.last;
}

static hipError_t version_get(int *version)
{
	if (!version)
		return hip_fail(hipErrorInvalidValue, "version is NULL");
	*version = VERSION;
	return hipSuccess;
}
hipError_t hipDriverGetVersion(int *version) { return version_get(version); }
hipError_t hipRuntimeGetVersion(int *version) { return version_get(version); }

hipError_t hipGetDeviceCount(int *count)
{
	if (!count)
		return hip_fail(hipErrorInvalidValue, "count is NULL");
	*count = hip_device_count();
	return *count ? hipSuccess : self.last;
}

hipError_t hipGetDevice(int *device)
{
	if (!device)
		return hip_fail(hipErrorInvalidValue, "device is NULL");
	if (!hip_current())
		return self.last;
	*device = self.device;
	return hipSuccess;
}

hipError_t hipSetDevice(int device)
{
	if (!hip_device(device))
		return self.last;
	self.device = device;
	return hipSuccess;
}

hipError_t hipDeviceGet(hipDevice_t *device, int ordinal)
{
	if (!device)
		return hip_fail(hipErrorInvalidValue, "device is NULL");
	if (!hip_device(ordinal))
		return self.last;
	*device = ordinal;
	return hipSuccess;
}

hipError_t hipDeviceGetName(char *name, int len, hipDevice_t device)
{
	struct hip_device *d = hip_device(device);
	if (!d)
		return self.last;
	if (!name || len <= 0)
		return hip_fail(hipErrorInvalidValue, "no room for the name");
	snprintf(name, (size_t)len, "%s", d->chip->product);
	return hipSuccess;
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
	struct hip_device *d = hip_device(device);
	if (!d)
		return self.last;
	if (!bytes)
		return hip_fail(hipErrorInvalidValue, "bytes is NULL");
	*bytes = d->chip->memory_bytes;
	return hipSuccess;
}

hipError_t hipDeviceSynchronize(void)
{
	struct hip_device *d = hip_current();
	return d ? hip_device_sound(d) : self.last;
}

static hipError_t last_error(void)
{
	struct hip_device *d = hip_current();
	if (d)
		hip_device_sound(d); /* a fault becomes the last error */
	return self.last;
}

hipError_t hipPeekAtLastError(void)
{
	return last_error();
}

hipError_t hipGetLastError(void)
{
	hipError_t e = last_error();
	self.last = hipSuccess;
	return e;
}

const char *hipGetErrorName(hipError_t error)
{
	switch (error) {
#define X(name, value, text) case name: return #name;
	HIP_API_ERRORS(X)
#undef X
	}
	return "hipErrorUnknown";
}

const char *hipGetErrorString(hipError_t error)
{
	switch (error) {
#define X(name, value, text) case name: return text;
	HIP_API_ERRORS(X)
#undef X
	}
	return "unknown error";
}

const char *tdsl_sim_last_report(void)
{
	return self.report;
}

int tdsl_sim_clear_error(int device)
{
	struct hip_device *d = hip_device(device);
	if (!d)
		return -1;
	pthread_mutex_lock(&d->lock);
	d->fault = hipSuccess;
	pthread_mutex_unlock(&d->lock);
	self.last = hipSuccess;
	return 0;
}

void tdsl_sim_set_seed(uint64_t seed)
{
	self.seed = seed;
}

void tdsl_sim_set_checks(int on)
{
	self.checks = on < 0 ? -1 : on > 0;
}

void tdsl_sim_stats_reset(void)
{
	self.stats = (struct sim_stats){0};
}

void tdsl_sim_stats_get(void *stats, size_t size)
{
	memcpy(stats, &self.stats, size < sizeof self.stats ? size : sizeof self.stats);
}

size_t tdsl_sim_stats_json(char *buf, size_t len)
{
	return sim_stats_json(&self.stats, buf, len);
}
