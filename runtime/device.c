/* device.c -- names to devices, the process's default device, streams, memory and loaded modules.
 * In: "hip:0", "cuda:0", "sim:gfx942", "null:gfx950".  Out: handles whose functions come from device_hip.c, device_cuda.c or
 * device_null.c.
 * One registry behind one lock; the default is an atomic pointer, since every call with a NULL stream reads it. */
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "fork.h"

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static tdsl_device registry;
static _Atomic(tdsl_device) default_device;

uint64_t serial_next(void)
{
	static _Atomic uint64_t last;
	return atomic_fetch_add(&last, 1) + 1;
}

void library_folder(char *out, size_t size)
{
	Dl_info info;
	out[0] = 0;
	if (!dladdr((void *)(uintptr_t)&library_folder, &info) || !info.dli_fname)
		return;
	const char *slash = strrchr(info.dli_fname, '/');
	size_t n = slash ? (size_t)(slash - info.dli_fname) + 1 : 0;
	if (n < size) {
		memcpy(out, info.dli_fname, n);
		out[n] = 0;
	}
}

void library_pin(void)
{
	Dl_info info;
	if (dladdr((void *)(uintptr_t)&library_folder, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE); /* fails harmlessly where linked into a program */
}

/* Drivers start threads and keep state: once loaded they stay. */
enum { LIBRARY_FLAGS = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

int library_open(tdsl_device d, const char *variable, const char *const *names)
{
	const char *given = getenv(variable);
	if (given && *given) {
		snprintf(d->library, sizeof d->library, "%s", given);
		if (!(d->library_handle = dlopen(given, LIBRARY_FLAGS)))
			FAIL(TDSL_EDEVICE, "%s: %s: %s", d->name, variable, dlerror());
		return 0;
	}
	for (int pass = 0; pass < 2; pass++) /* first what the process has loaded already */
		for (int i = 0; names[i]; i++)
			if ((d->library_handle = dlopen(names[i], LIBRARY_FLAGS | (pass ? 0 : RTLD_NOLOAD)))) {
				snprintf(d->library, sizeof d->library, "%s", names[i]);
				return 0;
			}
	FAIL(TDSL_EDEVICE, "%s: no device: the driver library %s cannot be loaded: %s", d->name, names[0], dlerror());
}

int ordinal_read(int *ordinal, tdsl_device d, const char *prefix, const char *rest)
{
	char *end;
	errno = 0;
	long n = strtol(rest, &end, 10);
	if (*rest < '0' || *rest > '9' || *end || errno || n > 4095)
		FAIL(TDSL_EDEVICE, "%s: expected %s:N with N a device number", d->name, prefix);
	*ordinal = (int)n;
	return 0;
}

static int device_init(tdsl_device d)
{
	static const struct { const char *prefix; int (*open)(tdsl_device, const char *); } kinds[] = {
		{"hip:", device_hip_open}, {"sim:", device_sim_open}, {"cuda:", device_cuda_open}, {"null:", device_null_open}};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		size_t n = strlen(kinds[i].prefix);
		if (strncmp(d->name, kinds[i].prefix, n) == 0)
			return kinds[i].open(d, d->name + n);
	}
	FAIL(TDSL_EDEVICE, "'%s' is not a device; expected " DEVICE_NAMES, d->name);
}

/* The registry and the devices of simulated and null drivers go on in a forked child; drivers of GPUs do not. */
void device_fork(enum fork_stage stage)
{
	if (stage != FORK_CHILD)
		return;
	registry_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	for (tdsl_device d = registry; d; d = d->next) {
		tdsl_device self = d;
		d->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
		if (d->ops->survives_fork)
			continue;
		atomic_store(&d->refs, -1);
		atomic_compare_exchange_strong(&default_device, &self, NULL);
	}
}

static int fork_fail(const char *where, tdsl_device lost)
{
	FAIL(TDSL_EDEVICE, "%s: %s was opened before this process was forked, and a GPU's driver does not work in a forked child; "
	     "open it in the child only, or start the child by exec or spawn", where, lost->name);
}

/* A driver that the parent process started is not started again: `name`'s, where it is of that kind. */
static int fork_check(const char *name)
{
	for (tdsl_device d = registry; d; d = d->next)
		if (atomic_load(&d->refs) < 0 && strncmp(d->name, name, strcspn(d->name, ":") + 1) == 0)
			return fork_fail(name, d);
	return 0;
}

/* Finds or opens `name` and counts a reference.  Registry lock held. */
static int device_get(tdsl_device *out, const char *name)
{
	tdsl_device d = registry;
	fork_watch();
	TRY(fork_check(name));
	while (d && strcmp(d->name, name) != 0)
		d = d->next;
	if (!d) {
		if (strlen(name) >= sizeof d->name)
			FAIL(TDSL_EDEVICE, "'%.40s...' is not a device; expected " DEVICE_NAMES, name);
		if (!(d = calloc(1, sizeof *d)))
			FAIL(TDSL_ENOMEM, "out of memory");
		strcpy(d->name, name);
		pthread_mutex_init(&d->lock, NULL);
		d->stream.device = d;
		int rc = device_init(d);
		if (rc < 0) {
			free(d);
			return rc;
		}
		d->next = registry;
		registry = d;
		d->serial = serial_next();
	} else if (atomic_load(&d->refs) == 0) {
		TRY(device_init(d));
		d->serial = serial_next();
	}
	atomic_fetch_add(&d->refs, 1);
	*out = d;
	return 0;
}

int tdsl_open(tdsl_device *dev, const char *name)
{
	if (!dev || !name)
		FAIL(TDSL_EINVAL, "tdsl_open: %s is NULL", dev ? "name" : "dev");
	TRY(env_check());
	pthread_mutex_lock(&registry_lock);
	int rc = device_get(dev, name);
	tdsl_device none = NULL;
	if (rc == 0)
		atomic_compare_exchange_strong(&default_device, &none, *dev);
	pthread_mutex_unlock(&registry_lock);
	return rc;
}

/* Unloads the modules of one pack, or of all (pack 0). */
static void modules_drop(tdsl_device d, uint64_t pack)
{
	uintptr_t saved = 0;
	bool entered = false;
	pthread_mutex_lock(&d->lock);
	for (struct device_module **at = &d->modules; *at;) {
		struct device_module *m = *at;
		if (pack && m->pack != pack) {
			at = &m->next;
			continue;
		}
		if (!entered && d->ops->enter)
			d->ops->enter(d, &saved);
		entered = true;
		d->ops->module_unload(d, m->native);
		*at = m->next;
		free(m->image);
		free(m);
	}
	if (entered && d->ops->leave)
		d->ops->leave(d, saved);
	pthread_mutex_unlock(&d->lock);
}

void tdsl_close(tdsl_device d)
{
	if (!d)
		return;
	pthread_mutex_lock(&registry_lock);
	if (atomic_load(&d->refs) > 0 && atomic_fetch_sub(&d->refs, 1) == 1) {
		tdsl_device self = d;
		atomic_compare_exchange_strong(&default_device, &self, NULL);
		modules_drop(d, 0);
		d->ops->close(d);
	}
	pthread_mutex_unlock(&registry_lock);
}

void device_forget_pack(uint64_t pack)
{
	pthread_mutex_lock(&registry_lock);
	for (tdsl_device d = registry; d; d = d->next)
		if (atomic_load(&d->refs) > 0)
			modules_drop(d, pack);
	pthread_mutex_unlock(&registry_lock);
}

void *device_module_find(tdsl_device d, uint64_t pack, uint32_t object)
{
	for (struct device_module *m = d->modules; m; m = m->next)
		if (m->pack == pack && m->object == object)
			return m->native;
	return NULL;
}

int device_module_add(tdsl_device d, uint64_t pack, uint32_t object, void *native, void *image)
{
	struct device_module *m = malloc(sizeof *m);
	if (!m)
		FAIL(TDSL_ENOMEM, "out of memory");
	*m = (struct device_module){d->modules, pack, object, native, image};
	d->modules = m;
	return 0;
}

int device_open_check(tdsl_device d, const char *where)
{
	if (!d)
		FAIL(TDSL_EINVAL, "%s: the device is NULL", where);
	if (atomic_load(&d->refs) < 0)
		return fork_fail(where, d);
	if (atomic_load(&d->refs) == 0)
		FAIL(TDSL_EDEVICE, "%s: device %s is closed", where, d->name);
	return 0;
}

int tdsl_set_default(tdsl_device d)
{
	TRY(device_open_check(d, "tdsl_set_default"));
	atomic_store(&default_device, d);
	return 0;
}

/* The first GPU of either kind; *why says what each lacked. */
static int gpu_open(tdsl_device *d, char *why, size_t size)
{
	static const char *const gpus[] = {"hip:0", "cuda:0"};
	for (unsigned i = 0; i < sizeof gpus / sizeof *gpus; i++) {
		if (device_get(d, gpus[i]) == 0)
			return 0;
		size_t n = strlen(why);
		snprintf(why + n, size - n, "%s%s", n ? "; " : "", tdsl_error());
	}
	return TDSL_EDEVICE;
}

/* Opens what the environment names, or the first GPU. */
static int default_open(tdsl_device *out)
{
	TRY(env_check());
	pthread_mutex_lock(&registry_lock);
	tdsl_device d = atomic_load(&default_device);
	const char *name = getenv("TDSL_DEVICE");
	bool named = name && *name;
	char why[1024] = "";
	const struct tdsl_device_s *other = registry;
	while (other && atomic_load(&other->refs) <= 0)
		other = other->next;
	int rc = d ? 0 : named ? device_get(&d, name) : gpu_open(&d, why, sizeof why);
	if (rc == 0) {
		atomic_store(&default_device, d);
		*out = d;
	}
	pthread_mutex_unlock(&registry_lock);
	if (rc < 0 && named)
		FAIL(rc, "TDSL_DEVICE: %s", tdsl_error());
	if (rc < 0 && other)
		FAIL(TDSL_EDEVICE, "the default device is closed, TDSL_DEVICE is not set, and there is no GPU (%s); tdsl_set_default makes another "
		     "the default, such as %s, which is open", why, other->name);
	if (rc < 0)
		FAIL(TDSL_EDEVICE, "no device was opened, TDSL_DEVICE is not set, and there is no GPU (%s); "
		     "tdsl_open or TDSL_DEVICE=sim:gfx942 selects a simulated one", why);
	return 0;
}

int tdsl_default(tdsl_device *dev)
{
	if (!dev)
		FAIL(TDSL_EINVAL, "tdsl_default: dev is NULL");
	tdsl_device d = atomic_load_explicit(&default_device, memory_order_acquire);
	if (!d)
		return default_open(dev);
	*dev = d;
	return 0;
}

int device_default_stream(tdsl_stream *out)
{
	tdsl_device d;
	TRY(tdsl_default(&d));
	*out = &d->stream;
	return 0;
}

int tdsl_stream_open(tdsl_stream *stream, tdsl_device d, void *native)
{
	if (!stream)
		FAIL(TDSL_EINVAL, "tdsl_stream_open: stream is NULL");
	TRY(device_open_check(d, "tdsl_stream_open"));
	tdsl_stream s = malloc(sizeof *s);
	if (!s)
		FAIL(TDSL_ENOMEM, "out of memory");
	*s = (struct tdsl_stream_s){d, native};
	*stream = s;
	return 0;
}

void tdsl_stream_close(tdsl_stream s)
{
	if (s && s != &s->device->stream)
		free(s);
}

/* Runs `call` with the device current. */
#define ON_DEVICE(d, call) do { \
	uintptr_t on_saved_ = 0; int on_rc_ = 0; \
	if ((d)->ops->enter) TRY((d)->ops->enter((d), &on_saved_)); \
	on_rc_ = (call); \
	if ((d)->ops->leave) (d)->ops->leave((d), on_saved_); \
	return on_rc_; } while (0)

int tdsl_sync(tdsl_stream s)
{
	if (!s)
		TRY(device_default_stream(&s));
	TRY(device_open_check(s->device, "tdsl_sync"));
	ON_DEVICE(s->device, s->device->ops->sync(s->device, s->native));
}

int tdsl_device_query(struct tdsl_device_info *info, tdsl_device d)
{
	if (!info)
		FAIL(TDSL_EINVAL, "tdsl_device_query: info is NULL");
	TRY(device_open_check(d, "tdsl_device_query"));
	*info = (struct tdsl_device_info){d->name, d->ops->kind, d->target, d->library, d->dl};
	return 0;
}

static bool capturing(tdsl_device d, void *native)
{
	uintptr_t saved = 0;
	if (atomic_load(&d->refs) <= 0 || !d->ops->capturing || (d->ops->enter && d->ops->enter(d, &saved) < 0))
		return false;
	bool yes = d->ops->capturing(d, native);
	if (d->ops->leave)
		d->ops->leave(d, saved);
	return yes;
}

int device_capture_check(tdsl_stream s, const char *what)
{
	tdsl_device found = NULL;
	if (s && capturing(s->device, s->native))
		found = s->device;
	pthread_mutex_lock(&registry_lock);
	for (tdsl_device d = registry; d && !s && !found; d = d->next)
		if (capturing(d, NULL))
			found = d;
	pthread_mutex_unlock(&registry_lock);
	if (found)
		FAIL(TDSL_ELAUNCH, "%s: a stream of %s is being captured into a graph, nothing can be compiled meanwhile; "
		     "tdsl_warm_up or a call before the capture compiles ahead", what, found->name);
	return 0;
}

/* Common part of the memory functions: a NULL device is the default one. */
static int memory_device(tdsl_device *d, const char *where, int64_t bytes)
{
	if (bytes < 0)
		FAIL(TDSL_EINVAL, "%s: bytes is %lld; expected 0 or more", where, (long long)bytes);
	if (!*d)
		TRY(tdsl_default(d));
	return device_open_check(*d, where);
}

int tdsl_alloc(void **ptr, tdsl_device d, int64_t bytes)
{
	if (!ptr)
		FAIL(TDSL_EINVAL, "tdsl_alloc: ptr is NULL");
	TRY(memory_device(&d, "tdsl_alloc", bytes));
	ON_DEVICE(d, d->ops->alloc(d, ptr, bytes ? (size_t)bytes : 1));
}

int tdsl_free(tdsl_device d, void *ptr)
{
	if (!ptr)
		return 0;
	TRY(memory_device(&d, "tdsl_free", 0));
	ON_DEVICE(d, d->ops->free(d, ptr));
}

static int memory_copy(tdsl_device d, const char *where, void *dst, const void *src, int64_t bytes, bool to_device)
{
	TRY(memory_device(&d, where, bytes));
	if (bytes == 0)
		return 0;
	if (!dst || !src)
		FAIL(TDSL_EINVAL, "%s: the %s is NULL", where, dst ? "source" : "destination");
	ON_DEVICE(d, d->ops->copy(d, dst, src, (size_t)bytes, to_device));
}

int tdsl_upload(tdsl_device d, void *device_dst, const void *host_src, int64_t bytes)
{
	return memory_copy(d, "tdsl_upload", device_dst, host_src, bytes, true);
}

int tdsl_download(tdsl_device d, void *host_dst, const void *device_src, int64_t bytes)
{
	return memory_copy(d, "tdsl_download", host_dst, device_src, bytes, false);
}
