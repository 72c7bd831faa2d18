/* hip_memory.c -- HIP's functions on memory, and host tensors registered in place.
 *
 * In: sizes, pointers.  Out: host memory that also is device memory: a device address is a host address.  Each
 * allocation is preceded by a page that holds its block header, which no registered range covers, so a kernel that runs
 * off an allocation's start is caught.  Device memory is in its own device's registry only, host memory in every
 * device's.  New memory holds 0xff bytes (NaN in every float format, -1 as an index), so that what a kernel makes of
 * memory it should have written first is the same at every run.  Copies check the device sides against the registries
 * as a driver does. */
#include "hip_inside.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, POISON_MAX = 64 << 20 };

struct block { /* at the start of the page before the data */
	size_t size;
	int device;
	bool host;
	unsigned flags;
};

static pthread_once_t owned_once = PTHREAD_ONCE_INIT;
static struct sim_memory *owned; /* every live block's data, whatever its device */

static void owned_init(void)
{
	owned = sim_memory_new();
}

/* The block whose data holds `ptr`, and where that data starts; NULL where it is none of ours. */
static struct block *block_at(const void *ptr, char **data)
{
	uint64_t lo, hi;
	bool writable;
	pthread_once(&owned_once, owned_init);
	if (!owned || !sim_memory_range(owned, (uintptr_t)ptr, &lo, &hi, &writable))
		return NULL;
	*data = (char *)(uintptr_t)lo;
	return (struct block *)(*data - PAGE);
}

/* Adds a range to one device's registry, or to all (device NULL); all or none. */
static int range_add(struct hip_device *only, const void *base, size_t size, const char *name, bool writable)
{
	int count = hip_device_count();
	for (int i = 0; i < count; i++) {
		struct hip_device *d = hip_device(i);
		int rc = only && d != only ? SIM_OK : sim_memory_add(d->memory, base, size, name, writable);
		if (rc == SIM_OK)
			continue;
		while (i-- > 0)
			if (!only || hip_device(i) == only)
				sim_memory_remove(hip_device(i)->memory, base);
		return rc;
	}
	return SIM_OK;
}

static int range_remove(struct hip_device *only, const void *base)
{
	int count = hip_device_count(), rc = SIM_OK;
	for (int i = 0; i < count; i++)
		if ((!only || hip_device(i) == only) && sim_memory_remove(hip_device(i)->memory, base) != SIM_OK)
			rc = SIM_EFAULT;
	return rc;
}

static hipError_t block_allocate(void **ptr, size_t size, struct hip_device *d, bool host, unsigned flags)
{
	if (!ptr)
		return hip_fail(hipErrorInvalidValue, "the pointer's place is NULL");
	*ptr = NULL;
	HIP_TRY(hip_device_sound(d));
	if (size == 0)
		return hipSuccess;
	pthread_once(&owned_once, owned_init);
	if (size > d->chip->memory_bytes - (host ? 0 : d->used))
		return hip_fail(hipErrorOutOfMemory, "%zu bytes do not fit: %s has %llu, %llu in use", size, d->chip->name,
		                (unsigned long long)d->chip->memory_bytes, (unsigned long long)d->used);
	char *raw = aligned_alloc(PAGE, PAGE + (size + PAGE - 1) / PAGE * PAGE);
	if (!raw || !owned) {
		free(raw);
		return hip_fail(hipErrorOutOfMemory, "the host has no %zu bytes", size);
	}
	char *data = raw + PAGE;
	memset(data, 0xff, size < POISON_MAX ? size : POISON_MAX);
	*(struct block *)raw = (struct block){size, d->ordinal, host, flags};
	if (sim_memory_add(owned, data, size, "owned", true) != SIM_OK) {
		free(raw);
		return hip_fail(hipErrorOutOfMemory, "no memory to note an allocation");
	}
	if (range_add(host ? NULL : d, data, size, host ? "hipHostMalloc" : "hipMalloc", true) != SIM_OK) {
		sim_memory_remove(owned, data);
		free(raw);
		return hip_fail(hipErrorOutOfMemory, "no memory to note an allocation");
	}
	if (!host)
		d->used += size;
	*ptr = data;
	return hipSuccess;
}

static hipError_t block_free(void *ptr, bool host)
{
	char *data;
	if (!ptr)
		return hipSuccess;
	struct block *b = block_at(ptr, &data);
	if (!b || data != ptr || b->host != host)
		return hip_fail(hipErrorInvalidValue, "%p is no live allocation of %s", ptr, host ? "hipHostMalloc" : "hipMalloc");
	struct hip_device *d = hip_device(b->device);
	sim_memory_remove(owned, data);
	range_remove(host ? NULL : d, data);
	if (!host)
		d->used -= b->size;
	free(b);
	return hipSuccess;
}

hipError_t hipMalloc(void **ptr, size_t size)
{
	struct hip_device *d = hip_current();
	return d ? block_allocate(ptr, size, d, false, 0) : hip_self()->last;
}

hipError_t hipMallocAsync(void **ptr, size_t size, hipStream_t stream)
{
	struct hip_device *d = hip_stream_device(stream);
	return d ? block_allocate(ptr, size, d, false, 0) : hip_self()->last;
}

hipError_t hipHostMalloc(void **ptr, size_t size, unsigned flags)
{
	struct hip_device *d = hip_current();
	return d ? block_allocate(ptr, size, d, true, flags) : hip_self()->last;
}

hipError_t hipFree(void *ptr)
{
	return block_free(ptr, false);
}

hipError_t hipFreeAsync(void *ptr, hipStream_t stream)
{
	return hip_stream_device(stream) ? block_free(ptr, false) : hip_self()->last;
}

hipError_t hipHostFree(void *ptr)
{
	return block_free(ptr, true);
}

hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total)
{
	struct hip_device *d = hip_current();
	if (!d)
		return hip_self()->last;
	if (!free_bytes || !total)
		return hip_fail(hipErrorInvalidValue, "a result's place is NULL");
	*total = d->chip->memory_bytes;
	*free_bytes = d->chip->memory_bytes - d->used;
	return hipSuccess;
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr)
{
	char *data;
	uint64_t lo, hi;
	bool writable;
	if (!attributes)
		return hip_fail(hipErrorInvalidValue, "attributes is NULL");
	*attributes = (hipPointerAttribute_t){.type = hipMemoryTypeUnregistered, .device = -1};
	struct hip_device *d = hip_current();
	if (!d)
		return hip_self()->last;
	const struct block *b = block_at(ptr, &data);
	if (b) {
		attributes->type = b->host ? hipMemoryTypeHost : hipMemoryTypeDevice;
		attributes->device = b->device;
		attributes->devicePointer = (void *)ptr;
		attributes->hostPointer = b->host ? (void *)ptr : NULL;
		attributes->allocationFlags = b->flags;
		return hipSuccess;
	}
	if (!sim_memory_range(d->memory, (uintptr_t)ptr, &lo, &hi, &writable))
		return hip_fail(hipErrorInvalidValue, "%p is memory that HIP does not know", ptr);
	attributes->type = hipMemoryTypeHost; /* registered in place */
	attributes->device = d->ordinal;
	attributes->devicePointer = attributes->hostPointer = (void *)ptr;
	return hipSuccess;
}

/* Whether some device may access all of the range; noted as an error otherwise. */
static hipError_t range_check(const void *ptr, size_t size, bool write, const char *what)
{
	char where[256];
	int count = hip_device_count();
	for (int i = 0; i < count; i++)
		if (sim_memory_find(hip_device(i)->memory, (uintptr_t)ptr, size, write))
			return hipSuccess;
	if (count == 0)
		return hip_self()->last;
	sim_memory_describe(hip_current()->memory, (uintptr_t)ptr, size, where, sizeof where);
	return hip_fail(hipErrorInvalidValue, "%s of %zu bytes at %p is not %s device memory: %s", what, size, ptr,
	                write ? "writable" : "readable", where);
}

/* Whether `ptr` points into a block of device memory. */
static bool pointer_is_device(const void *ptr)
{
	char *data;
	const struct block *b = block_at(ptr, &data);
	return b && !b->host;
}

static hipError_t copy(struct hip_device *d, void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
	if (!d)
		return hip_self()->last;
	HIP_TRY(hip_device_sound(d));
	if ((unsigned)kind > hipMemcpyDefault)
		return hip_fail(hipErrorInvalidMemcpyDirection, "copy kind %d is not known", (int)kind);
	if (size == 0)
		return hipSuccess;
	if (!dst || !src)
		return hip_fail(hipErrorInvalidValue, "a copy %s NULL", dst ? "from" : "to");
	if (kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice || pointer_is_device(dst))
		HIP_TRY(range_check(dst, size, true, "the destination"));
	if (kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice || pointer_is_device(src))
		HIP_TRY(range_check(src, size, false, "the source"));
	memmove(dst, src, size);
	return hipSuccess;
}

hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind)
{
	return copy(hip_current(), dst, src, size, kind);
}
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream)
{
	return copy(hip_stream_device(stream), dst, src, size, kind);
}
hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size)
{
	return copy(hip_current(), dst, src, size, hipMemcpyHostToDevice);
}
hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size)
{
	return copy(hip_current(), dst, src, size, hipMemcpyDeviceToHost);
}
hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size)
{
	return copy(hip_current(), dst, src, size, hipMemcpyDeviceToDevice);
}
hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void *src, size_t size, hipStream_t stream)
{
	return copy(hip_stream_device(stream), dst, src, size, hipMemcpyHostToDevice);
}
hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size, hipStream_t stream)
{
	return copy(hip_stream_device(stream), dst, src, size, hipMemcpyDeviceToHost);
}
hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size, hipStream_t stream)
{
	return copy(hip_stream_device(stream), dst, src, size, hipMemcpyDeviceToDevice);
}

/* Sets `count` elements of `width` bytes. */
static hipError_t fill(struct hip_device *d, void *dst, uint32_t value, size_t count, size_t width)
{
	size_t size;
	if (!d)
		return hip_self()->last;
	HIP_TRY(hip_device_sound(d));
	if (__builtin_mul_overflow(count, width, &size))
		return hip_fail(hipErrorInvalidValue, "%zu elements are too many", count);
	if (size == 0)
		return hipSuccess;
	HIP_TRY(range_check(dst, size, true, "the destination"));
	if (width == 1)
		memset(dst, (int)(value & 0xff), size);
	else
		for (size_t i = 0; i < count; i++)
			memcpy((char *)dst + i * width, &value, width);
	return hipSuccess;
}

hipError_t hipMemset(void *dst, int value, size_t size)
{
	return fill(hip_current(), dst, (uint32_t)value, size, 1);
}
hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream)
{
	return fill(hip_stream_device(stream), dst, (uint32_t)value, size, 1);
}
hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count)
{
	return fill(hip_current(), dst, value, count, 1);
}
hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count)
{
	return fill(hip_current(), dst, value, count, 2);
}
hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count)
{
	return fill(hip_current(), dst, (uint32_t)value, count, 4);
}

int tdsl_sim_register_host(const void *base, size_t bytes, const char *name, int writable)
{
	if (hip_device_count() == 0)
		return SIM_ELAUNCH;
	if (!base && bytes > 0) {
		hip_fail(hipErrorInvalidValue, "'%s': %zu bytes at NULL", name ? name : "", bytes);
		return SIM_EFAULT;
	}
	int rc = range_add(NULL, base, bytes, name, writable != 0);
	if (rc != SIM_OK)
		hip_fail(hipErrorOutOfMemory, "'%s': cannot register %zu bytes at %p", name ? name : "", bytes, base);
	return rc;
}

int tdsl_sim_unregister_host(const void *base)
{
	if (hip_device_count() == 0)
		return SIM_ELAUNCH;
	int rc = range_remove(NULL, base);
	if (rc != SIM_OK)
		hip_fail(hipErrorHostMemoryNotRegistered, "no registration starts at %p", base);
	return rc;
}
