/* hip_abi.h -- the part of HIP's binary interface that the runtime calls: one row per function, and two facts of a structure.
 * Names and signatures are those of hip_runtime_api.h; tests/rt_hip_abi_test.c compares them with a real header.  Enumerations are
 * `unsigned`, structures are passed as void *: HIP 5, 6 and 7 agree on everything used here. */
#ifndef TDSL_HIP_ABI_H
#define TDSL_HIP_ABI_H
#include <stddef.h>

struct ihipModule_t;
struct ihipModuleSymbol_t;
struct ihipStream_t;

/* X(name, required, arguments) */
#define HIP_FUNCTIONS(X) \
	X(hipGetDeviceCount, 1, (int *count)) \
	X(hipGetDevice, 1, (int *ordinal)) \
	X(hipSetDevice, 1, (int ordinal)) \
	X(hipModuleLoadData, 1, (struct ihipModule_t **module, const void *image)) \
	X(hipModuleUnload, 1, (struct ihipModule_t *module)) \
	X(hipModuleGetFunction, 1, (struct ihipModuleSymbol_t **function, struct ihipModule_t *module, const char *name)) \
	X(hipModuleLaunchKernel, 1, (struct ihipModuleSymbol_t *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
	                             unsigned bz, unsigned shared, struct ihipStream_t *stream, void **params, void **extra)) \
	X(hipMalloc, 1, (void **ptr, size_t bytes)) \
	X(hipFree, 1, (void *ptr)) \
	X(hipMemcpy, 1, (void *dst, const void *src, size_t bytes, unsigned kind)) \
	X(hipStreamSynchronize, 1, (struct ihipStream_t *stream)) \
	X(hipDeviceSynchronize, 1, (void))

/* Looked up apart: their types differ from header to header. */
typedef const char *hip_error_text_fn(unsigned error);         /* hipGetErrorName, hipGetErrorString */
typedef unsigned hip_capturing_fn(void *stream, unsigned *status);  /* hipStreamIsCapturing; not in every version */
typedef unsigned hip_properties_fn(void *prop, int ordinal);   /* hipGetDevicePropertiesR0600, hipGetDeviceProperties */

enum {
	HIP_PROP_BYTES = 8192,          /* more than any version's hipDeviceProp_t */
	HIP_PROP_R0600_ARCH = 1160,     /* offset of gcnArchName[256] in hipDeviceProp_tR0600 (HIP 6 and 7) */
	HIP_PROP_R0000_ARCH = 396,      /* the same in HIP 5's, which the name without suffix always fills */
	HIP_COPY_TO_DEVICE = 1, HIP_COPY_TO_HOST = 2,
	HIP_FAULT_FIRST = 700, HIP_FAULT_LAST = 719,   /* hipErrorIllegalAddress .. hipErrorLaunchFailure: of a kernel that ran */
	HIP_CAPTURE_IMPLICIT = 906      /* asked of the default stream while another is captured */
};
#define HIP_EXTRA_POINTER ((void *)1)
#define HIP_EXTRA_SIZE ((void *)2)
#define HIP_EXTRA_END ((void *)3)

struct hip_table {
#define X(name, required, args) unsigned (*name) args;
	HIP_FUNCTIONS(X)
#undef X
	hip_error_text_fn *hipGetErrorName, *hipGetErrorString;
	hip_capturing_fn *hipStreamIsCapturing;
	hip_properties_fn *hipGetDevicePropertiesR0600, *hipGetDeviceProperties;
};
#endif
