/* cuda_fake.c -- a CUDA driver that is none: a shared library with the driver's names for the tests of runtime/device_cuda.c.
 *
 * In: the calls of the runtime.  Out: `cuda_fake` (cuda_fake.h) records them and says what should fail.  Device memory is the host's;
 * a launch of one of the three functions of rt_model.h is carried out in C from the packed arguments, at the offsets that PTX gives
 * to parameters of these types, so that wrong arguments give wrong results.  A context is current per thread, as in the driver. */
#include <stdlib.h>
#include <string.h>

#include "../runtime/cuda_abi.h"
#include "cuda_fake.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct cuda_fake cuda_fake = {.devices = 2, .major = 9, .minor = 0, .version = 13000};
#define F cuda_fake

struct CUctx_st { int device; };
struct CUmod_st { int loaded; };
struct CUfunc_st { const char *name; size_t bytes; void (*run)(const uint8_t *); };
static struct CUctx_st primary[2] = {{0}, {1}};
static _Thread_local struct CUctx_st *current;

static void *pointer(const uint8_t *at)
{
	void *p;
	memcpy(&p, at, sizeof p);
	return p;
}

static int32_t i32(const uint8_t *at)
{
	int32_t v;
	memcpy(&v, at, sizeof v);
	return v;
}

static int64_t i64(const uint8_t *at)
{
	int64_t v;
	memcpy(&v, at, sizeof v);
	return v;
}

static void scale_add(const uint8_t *p)
{
	const float *x = pointer(p), *bias = pointer(p + 8);
	float *y = pointer(p + 16), a;
	memcpy(&a, p + 24, sizeof a);
	int32_t k = i32(p + 28), n = i32(p + 32), inner = i32(p + 36);
	for (int64_t row = 0; row < F.grid[0]; row++)
		for (int32_t i = 0; i < n; i++)
			y[row * i64(p + 64) + i] = x[row / inner * i64(p + 40) + row % inner * i64(p + 48) + i * i64(p + 56)] * a + (float)k + (bias ? bias[i] : 0);
}

static void partial(const uint8_t *p)
{
	const float *x = pointer(p);
	float *ws = pointer(p + 8);
	for (int32_t b = 0; b < (int32_t)F.grid[0]; b++) {
		ws[b] = 0;
		for (int32_t i = b * 256; i < b * 256 + 256 && i < i32(p + 16); i++)
			ws[b] += x[i];
	}
}

static void combine(const uint8_t *p)
{
	const float *ws = pointer(p);
	float *s = pointer(p + 8);
	*s = 0;
	for (int32_t i = 0; i < i32(p + 16); i++)
		*s += ws[i];
}

static struct CUfunc_st functions[] = {{"scale_add", 72, scale_add}, {"partial", 20, partial}, {"combine", 20, combine}};

/* Of the kernels that ran before. */
static unsigned fault(void) { return F.faulted ? F.fault : 0; }

EXPORT unsigned cuInit(unsigned flags)
{
	return flags ? CUDA_INVALID_VALUE : F.init_error;
}

EXPORT unsigned cuDriverGetVersion(int *version)
{
	*version = F.version;
	return 0;
}

EXPORT unsigned cuGetErrorName(unsigned error, const char **text)
{
#define X(name, number) if (error == number) { *text = "CUDA_ERROR_" #name; return 0; }
	CUDA_FAULTS(X)
#undef X
	*text = error == CUDA_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : error == CUDA_INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : "CUDA_ERROR_OF_THE_TEST";
	return 0;
}

EXPORT unsigned cuGetErrorString(unsigned error, const char **text)
{
	(void)error;
	*text = "as asked";
	return 0;
}

EXPORT unsigned cuDeviceGetCount(int *count)
{
	*count = F.devices;
	return 0;
}

EXPORT unsigned cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal >= 0 && ordinal < F.devices ? 0 : 101;
}

EXPORT unsigned cuDeviceGetName(char *name, int size, int device)
{
	(void)device;
	strncpy(name, "Pretended GPU", (size_t)size);
	return 0;
}

EXPORT unsigned cuDeviceGetAttribute(int *value, unsigned attribute, int device)
{
	(void)device;
	switch (attribute) {
	case CUDA_ATTRIBUTE_MAJOR: *value = F.major; return 0;
	case CUDA_ATTRIBUTE_MINOR: *value = F.minor; return 0;
	case CUDA_ATTRIBUTE_MEMORY_CLOCK: *value = F.memory_khz; return F.memory_khz ? 0 : CUDA_INVALID_VALUE;
	case CUDA_ATTRIBUTE_MEMORY_WIDTH: *value = F.memory_pins; return F.memory_pins ? 0 : CUDA_INVALID_VALUE;
	case CUDA_ATTRIBUTE_RESERVED_SHARED: *value = 1024; return 0;
	case CUDA_ATTRIBUTE_MEETS: *value = !F.no_meeting; return 0;
	case CUDA_ATTRIBUTE_MULTIPROCESSORS: *value = F.multiprocessors; return 0;
	}
	return CUDA_INVALID_VALUE;
}

EXPORT unsigned cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
	F.retained++;
	*context = &primary[device];
	return 0;
}

EXPORT unsigned cuDevicePrimaryCtxRelease_v2(int device)
{
	(void)device;
	F.retained--;
	return 0;
}

EXPORT unsigned cuCtxGetCurrent(struct CUctx_st **context)
{
	*context = current;
	return 0;
}

EXPORT unsigned cuCtxSetCurrent(struct CUctx_st *context)
{
	F.switches++;
	current = context;
	return 0;
}

EXPORT unsigned cuCtxSynchronize(void)
{
	F.syncs++;
	return fault();
}

EXPORT unsigned cuThreadExchangeStreamCaptureMode(unsigned *mode)
{
	unsigned was = F.capture_mode;
	F.capture_mode = *mode;
	*mode = was;
	return 0;
}

EXPORT unsigned cuModuleLoadDataEx(struct CUmod_st **module, const void *image, unsigned n, unsigned *options, void **values)
{
	if (!current)
		return 201;
	F.loads++;
	F.load_mode = F.capture_mode;
	strncpy(F.image, image, sizeof F.image - 1);
	for (unsigned i = 0; i < n && F.load_error && F.load_log; i++)
		if (options[i] == CUDA_JIT_ERROR_LOG)
			strcpy(values[i], F.load_log);
	if (F.load_error || fault())
		return F.load_error ? F.load_error : fault();
	*module = calloc(1, sizeof **module);
	return *module ? 0 : 2;
}

EXPORT unsigned cuModuleUnload(struct CUmod_st *module)
{
	F.unloads++;
	free(module);
	return 0;
}

EXPORT unsigned cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
	for (unsigned i = 0; module && i < sizeof functions / sizeof *functions; i++)
		if (strcmp(functions[i].name, name) == 0) {
			*function = &functions[i];
			return 0;
		}
	return 500;
}

EXPORT unsigned cuFuncGetAttribute(int *value, unsigned attribute, struct CUfunc_st *function)
{
	(void)function;
	if (attribute == CUDA_FUNC_CLUSTER_WIDTH && !F.no_clusters) {
		*value = F.cluster_width;
		return 0;
	}
	*value = F.shared_declared;
	return attribute == CUDA_FUNC_SHARED_BYTES ? 0 : CUDA_INVALID_VALUE;
}

EXPORT unsigned cuFuncSetAttribute(struct CUfunc_st *function, unsigned attribute, int value)
{
	(void)function;
	if (attribute == CUDA_FUNC_CLUSTER_ANY) {
		F.cluster_any = value;
		return F.no_large_clusters ? CUDA_INVALID_VALUE : 0;
	}
	F.shared_asked = value;
	return attribute == CUDA_FUNC_MAX_DYNAMIC_SHARED_BYTES ? 0 : CUDA_INVALID_VALUE;
}

/* As if all arguments were one. */
EXPORT unsigned cuFuncGetParamInfo(struct CUfunc_st *function, size_t index, size_t *offset, size_t *size)
{
	*offset = 0;
	*size = function->bytes + F.arguments_more;
	return index ? CUDA_INVALID_VALUE : 0;
}

EXPORT unsigned cuLaunchKernel(struct CUfunc_st *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, struct CUstream_st *stream, void **params, void **extra)
{
	const uint8_t *block = NULL;
	F.bytes = 0;
	if (params && !extra) {                          /* one by one, the first at the block's begin */
		block = params[0];
		F.bytes = f->bytes;
	}
	for (int i = 0; extra && extra[i] != CUDA_EXTRA_END; i += 2)
		if (extra[i] == CUDA_EXTRA_POINTER)
			block = extra[i + 1];
		else if (extra[i] == CUDA_EXTRA_SIZE)
			F.bytes = *(size_t *)extra[i + 1];
		else
			return CUDA_INVALID_VALUE;
	if ((params && extra) || !block || !current || F.bytes != f->bytes)
		return CUDA_INVALID_VALUE;
	if (fault())
		return fault();
	F.launches++;
	F.grid[0] = gx, F.grid[1] = gy, F.grid[2] = gz;
	F.block[0] = bx, F.block[1] = by, F.block[2] = bz;
	F.shared = shared;
	F.stream = stream;
	F.context = current;
	F.faulted = F.fault != 0;
	if (!F.launch_error && !F.fault)
		f->run(block);
	return F.launch_error;
}

EXPORT unsigned cuLaunchKernelEx(const struct CUlaunchConfig_st *config, struct CUfunc_st *f, void **params, void **extra)
{
	const struct cuda_launch *l = (const void *)config;
	for (unsigned i = 0; i < l->nattributes; i++) {
		const struct cuda_attribute *a = &l->attributes[i];
		if (a->id == CUDA_LAUNCH_OVERLAPS && a->value[0] == 1)
			F.early++;
		else if (a->id == CUDA_LAUNCH_PLACING && a->value[0] == CUDA_PLACING_BALANCED && F.cluster_width)
			F.balanced++;
		else if (a->id == CUDA_LAUNCH_MEETS && a->value[0] == 1 && params)
			F.met++;
		else
			return CUDA_INVALID_VALUE;
	}
	return cuLaunchKernel(f, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared, l->stream, params, extra);
}

/* Of the one cluster that is asked for. */
EXPORT unsigned cuOccupancyMaxActiveClusters(int *clusters, struct CUfunc_st *f, const struct CUlaunchConfig_st *config)
{
	const struct cuda_launch *l = (const void *)config;
	if (!current || !f || l->nattributes || (int)l->grid[0] != F.cluster_width || l->grid[1] != 1 || l->grid[2] != 1 || l->block[0] != 64)
		return CUDA_INVALID_VALUE;
	*clusters = F.no_places ? 0 : 3;
	return F.places_error;
}

EXPORT unsigned cuOccupancyMaxActiveBlocksPerMultiprocessor(int *workgroups, struct CUfunc_st *f, int threads, size_t shared)
{
	if (!current || !f || threads != 64 || shared)
		return CUDA_INVALID_VALUE;
	*workgroups = F.room;
	return F.room_error;
}

EXPORT unsigned cuStreamSynchronize(struct CUstream_st *stream)
{
	(void)stream;
	F.syncs++;
	return fault();
}

/* A stream's context is the one that it points to. */
EXPORT unsigned cuStreamGetCtx(struct CUstream_st *stream, struct CUctx_st **context)
{
	*context = (struct CUctx_st *)(void *)stream;
	return 0;
}

EXPORT unsigned cuStreamIsCapturing(struct CUstream_st *stream, unsigned *status)
{
	(void)stream;
	*status = F.capture;
	return F.capture_error;
}

EXPORT unsigned cuMemAlloc_v2(unsigned long long *ptr, size_t bytes)
{
	void *p = !fault() && current && bytes < (size_t)1 << 40 ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;
	F.allocations++;
	*ptr = (uintptr_t)p;
	return p ? 0 : fault() ? fault() : CUDA_OUT_OF_MEMORY;
}

EXPORT unsigned cuMemFree_v2(unsigned long long ptr)
{
	if (fault())
		return fault();
	free((void *)(uintptr_t)ptr);
	return 0;
}

EXPORT unsigned cuMemcpyHtoD_v2(unsigned long long dst, const void *src, size_t bytes)
{
	if (fault())
		return fault();
	memcpy((void *)(uintptr_t)dst, src, bytes);
	return 0;
}

EXPORT unsigned cuMemcpyDtoH_v2(void *dst, unsigned long long src, size_t bytes)
{
	if (fault())
		return fault();
	memcpy(dst, (const void *)(uintptr_t)src, bytes);
	return 0;
}
