/* cuda_abi.h -- the part of the CUDA driver's binary interface that the runtime calls: one row per function, and a few numbers.
 * Names (with the suffix that the library exports) and signatures are those of cuda.h; tests/rt_cuda_abi_test.c compares them with
 * a real header.  Enumerations are `unsigned`, CUdeviceptr is `unsigned long long`: CUDA 11 to 13 agree on everything used here. */
#ifndef TDSL_CUDA_ABI_H
#define TDSL_CUDA_ABI_H
#include <stddef.h>

struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUlaunchConfig_st;

/* One attribute of a launch, a union of 64 bytes behind its number; what cuLaunchKernelEx and cuOccupancyMaxActiveClusters (CUDA 11.8) are given. */
struct cuda_attribute { unsigned id, pad; int value[16]; };
struct cuda_launch {
	unsigned grid[3], block[3], shared;
	struct CUstream_st *stream;
	struct cuda_attribute *attributes; unsigned nattributes;
};

/* X(name, required, arguments).  cuFuncGetParamInfo came with CUDA 12.4. */
#define CUDA_FUNCTIONS(X) \
	X(cuInit, 1, (unsigned flags)) \
	X(cuDriverGetVersion, 1, (int *version)) \
	X(cuGetErrorName, 1, (unsigned error, const char **text)) \
	X(cuGetErrorString, 1, (unsigned error, const char **text)) \
	X(cuDeviceGetCount, 1, (int *count)) \
	X(cuDeviceGet, 1, (int *device, int ordinal)) \
	X(cuDeviceGetName, 1, (char *name, int size, int device)) \
	X(cuDeviceGetAttribute, 1, (int *value, unsigned attribute, int device)) \
	X(cuDevicePrimaryCtxRetain, 1, (struct CUctx_st **context, int device)) \
	X(cuDevicePrimaryCtxRelease_v2, 1, (int device)) \
	X(cuCtxGetCurrent, 1, (struct CUctx_st **context)) \
	X(cuCtxSetCurrent, 1, (struct CUctx_st *context)) \
	X(cuCtxSynchronize, 1, (void)) \
	X(cuModuleLoadDataEx, 1, (struct CUmod_st **module, const void *image, unsigned n, unsigned *options, void **values)) \
	X(cuModuleUnload, 1, (struct CUmod_st *module)) \
	X(cuModuleGetFunction, 1, (struct CUfunc_st **function, struct CUmod_st *module, const char *name)) \
	X(cuFuncGetAttribute, 1, (int *value, unsigned attribute, struct CUfunc_st *function)) \
	X(cuFuncSetAttribute, 1, (struct CUfunc_st *function, unsigned attribute, int value)) \
	X(cuFuncGetParamInfo, 0, (struct CUfunc_st *function, size_t index, size_t *offset, size_t *size)) \
	X(cuLaunchKernel, 1, (struct CUfunc_st *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
	                      unsigned shared, struct CUstream_st *stream, void **params, void **extra)) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 0, (int *workgroups, struct CUfunc_st *f, int threads, size_t shared)) \
	X(cuOccupancyMaxActiveClusters, 0, (int *clusters, struct CUfunc_st *f, const struct CUlaunchConfig_st *config)) \
	X(cuLaunchKernelEx, 0, (const struct CUlaunchConfig_st *config, struct CUfunc_st *f, void **params, void **extra)) \
	X(cuStreamSynchronize, 1, (struct CUstream_st *stream)) \
	X(cuStreamGetCtx, 0, (struct CUstream_st *stream, struct CUctx_st **context)) \
	X(cuStreamIsCapturing, 1, (struct CUstream_st *stream, unsigned *status)) \
	X(cuThreadExchangeStreamCaptureMode, 1, (unsigned *mode)) \
	X(cuMemAlloc_v2, 1, (unsigned long long *ptr, size_t bytes)) \
	X(cuMemFree_v2, 1, (unsigned long long ptr)) \
	X(cuMemcpyHtoD_v2, 1, (unsigned long long dst, const void *src, size_t bytes)) \
	X(cuMemcpyDtoH_v2, 1, (void *dst, unsigned long long src, size_t bytes))

/* Errors of a kernel that ran, or of the memory that it used: CUDA_ERROR_NAME.  From then on every call of the process that needs the device gives the same. */
#define CUDA_FAULTS(X) \
	X(ECC_UNCORRECTABLE, 214) X(NVLINK_UNCORRECTABLE, 220) X(ILLEGAL_ADDRESS, 700) X(LAUNCH_TIMEOUT, 702) X(ASSERT, 710) X(HARDWARE_STACK_ERROR, 714) \
	X(ILLEGAL_INSTRUCTION, 715) X(MISALIGNED_ADDRESS, 716) X(INVALID_ADDRESS_SPACE, 717) X(INVALID_PC, 718) X(LAUNCH_FAILED, 719)

enum {
	CUDA_INVALID_VALUE = 1, CUDA_OUT_OF_MEMORY = 2, CUDA_NO_DEVICE = 100, CUDA_NO_BINARY_FOR_GPU = 209, CUDA_INVALID_PTX = 218, CUDA_UNSUPPORTED_PTX_VERSION = 222, CUDA_INVALID_HANDLE = 400,
	CUDA_CAPTURE_IMPLICIT = 906,            /* asked of the legacy default stream while another is captured */
	CUDA_ATTRIBUTE_MULTIPROCESSORS = 16, CUDA_ATTRIBUTE_MEMORY_CLOCK = 36, CUDA_ATTRIBUTE_MEMORY_WIDTH = 37, CUDA_ATTRIBUTE_MAJOR = 75, CUDA_ATTRIBUTE_MINOR = 76, CUDA_ATTRIBUTE_MEETS = 95, CUDA_ATTRIBUTE_RESERVED_SHARED = 111,   /* 95: CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH */
	CUDA_FUNC_SHARED_BYTES = 1, CUDA_FUNC_MAX_DYNAMIC_SHARED_BYTES = 8, CUDA_FUNC_CLUSTER_WIDTH = 11, CUDA_FUNC_CLUSTER_ANY = 14, CUDA_CLUSTER_PORTABLE = 8,
	CUDA_JIT_ERROR_LOG = 5, CUDA_JIT_ERROR_LOG_BYTES = 6,
	CUDA_CAPTURE_RELAXED = 2,
	CUDA_LAUNCH_MEETS = 2,                  /* CU_LAUNCH_ATTRIBUTE_COOPERATIVE */
	CUDA_LAUNCH_PLACING = 5,                /* CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE */
	CUDA_PLACING_BALANCED = 2,              /* CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING */
	CUDA_CLUSTER_CROWD = 512, CUDA_FAST_MEMORY = 4000,   /* clusters; GB/s, as device.memory_rate and the compiler's target.fast_memory */
	CUDA_LAUNCH_OVERLAPS = 6,               /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */
	CUDA_SHARED_UNASKED = 48 * 1024         /* group memory that a launch gets without the attribute above (programming guide) */
};
#define CUDA_EXTRA_END ((void *)0)
#define CUDA_EXTRA_POINTER ((void *)1)
#define CUDA_EXTRA_SIZE ((void *)2)

struct cuda_table {
#define X(name, required, args) unsigned (*name) args;
	CUDA_FUNCTIONS(X)
#undef X
};
#endif
