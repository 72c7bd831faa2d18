/* device_null.c -- `null:TARGET`: launches do nothing, memory is the host's.  For measuring what a call costs on the host, and
 * for testing dispatch without code objects that run.  Tensors on any device are accepted: nothing looks at their bytes. */
#include <stdlib.h>
#include <string.h>

#include "../base/model.h"
#include "device.h"

static int null_module_load(tdsl_device d, void **module, const void *image, size_t size)
{
	(void)image, (void)size;
	*module = d;
	return 0;
}

static void null_module_unload(tdsl_device d, void *module)
{
	(void)d, (void)module;
}

static int null_function(tdsl_device d, void **function, void *module, const char *symbol, struct launch_need *need)
{
	(void)module, (void)symbol;
	need->shared = 0;
	*function = d;
	return 0;
}

static int null_launch(tdsl_device d, void *function, const struct launch_shape *l, void *native, void *kernarg, const char *what)
{
	(void)d, (void)function, (void)l, (void)native, (void)what;
	__asm__ volatile("" : : "r"(kernarg) : "memory"); /* the argument block is made as for a driver */
	return 0;
}

static int null_sync(tdsl_device d, void *native)
{
	(void)d, (void)native;
	return 0;
}

static int null_alloc(tdsl_device d, void **ptr, size_t bytes)
{
	void *p = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
	if (!p)
		FAIL(TDSL_ENOMEM, "%s: no memory for %zu bytes", d->name, bytes);
	*ptr = p;
	return 0;
}

static int null_free(tdsl_device d, void *ptr)
{
	(void)d;
	free(ptr);
	return 0;
}

static int null_copy(tdsl_device d, void *dst, const void *src, size_t bytes, bool to_device)
{
	(void)d, (void)to_device;
	memmove(dst, src, bytes);
	return 0;
}

static void null_close(tdsl_device d)
{
	(void)d;
}

static const struct device_ops null_ops = {
	.kind = "null", .counts_lanes = true, .survives_fork = true, .module_load = null_module_load, .module_unload = null_module_unload, .function = null_function,
	.launch = null_launch, .sync = null_sync, .alloc = null_alloc, .free = null_free, .copy = null_copy, .close = null_close};

int device_null_open(tdsl_device d, const char *rest)
{
	if (model_native(rest, 8) == DT_NONE || strlen(rest) >= sizeof d->target)
		FAIL(TDSL_EDEVICE, "%s: unknown target '%s'; expected gfx942, gfx950 or sm_90a", d->name, rest);
	strcpy(d->target, rest);
	d->ops = &null_ops;
	d->dl = (DLDevice){kDLCPU, 0};
	d->host_tensors = d->any_tensors = true;
	return 0;
}
