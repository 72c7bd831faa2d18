/* rt_cuda_abi_test.c -- compares runtime/cuda_abi.h with the real header, at compile time: every signature, every number.
 * Where cuda.h is not installed nothing can be compared: the test says so and passes. */
#include <stdio.h>

#if __has_include(<cuda.h>)
#include <cuda.h>

#include "../runtime/cuda_abi.h"

/* Our type of the function, and the header's, are one type; an enumeration without negative values is `unsigned` here. */
#define X(name, required, args) \
	_Static_assert(!required || __builtin_types_compatible_p(__typeof__(&name), unsigned (*) args), #name " is declared otherwise by CUDA");
#if CUDA_VERSION < 12040
CUresult cuFuncGetParamInfo(CUfunction, size_t, size_t *, size_t *);
#endif
CUDA_FUNCTIONS(X)
#undef X
_Static_assert(__builtin_types_compatible_p(__typeof__(&cuFuncGetParamInfo), unsigned (*)(struct CUfunc_st *, size_t, size_t *, size_t *)), "parameters");

#define SAME(ours, theirs) _Static_assert((unsigned)(ours) == (unsigned)(theirs), #theirs);
SAME(0, CUDA_SUCCESS)
SAME(CUDA_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE)
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
SAME(CUDA_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU)
SAME(CUDA_INVALID_PTX, CUDA_ERROR_INVALID_PTX)
SAME(CUDA_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
SAME(CUDA_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
#define X(name, number) SAME(number, CUDA_ERROR_##name)
CUDA_FAULTS(X)
#undef X
SAME(CUDA_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE)
SAME(CUDA_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
SAME(0, CU_STREAM_CAPTURE_STATUS_NONE)
SAME(CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED)
SAME(CUDA_ATTRIBUTE_MEMORY_CLOCK, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)
SAME(CUDA_ATTRIBUTE_MEMORY_WIDTH, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
SAME(CUDA_ATTRIBUTE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME(CUDA_ATTRIBUTE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME(CUDA_ATTRIBUTE_RESERVED_SHARED, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)
SAME(CUDA_FUNC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
SAME(CUDA_FUNC_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH)
SAME(CUDA_FUNC_CLUSTER_ANY, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED)
SAME(CUDA_FUNC_MAX_DYNAMIC_SHARED_BYTES, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
SAME(CUDA_LAUNCH_OVERLAPS, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
SAME(CUDA_LAUNCH_PLACING, CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE)
SAME(CUDA_PLACING_BALANCED, CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING)
SAME(sizeof(struct cuda_attribute), sizeof(CUlaunchAttribute))
SAME(offsetof(struct cuda_attribute, value), offsetof(CUlaunchAttribute, value))
SAME(sizeof(struct cuda_launch), sizeof(CUlaunchConfig))
SAME(offsetof(struct cuda_launch, block), offsetof(CUlaunchConfig, blockDimX))
SAME(offsetof(struct cuda_launch, shared), offsetof(CUlaunchConfig, sharedMemBytes))
SAME(offsetof(struct cuda_launch, stream), offsetof(CUlaunchConfig, hStream))
SAME(offsetof(struct cuda_launch, attributes), offsetof(CUlaunchConfig, attrs))
SAME(offsetof(struct cuda_launch, nattributes), offsetof(CUlaunchConfig, numAttrs))
SAME(CUDA_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER)
SAME(CUDA_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)

int main(void)
{
	int same = CUDA_EXTRA_END == CU_LAUNCH_PARAM_END && CUDA_EXTRA_POINTER == CU_LAUNCH_PARAM_BUFFER_POINTER &&
	           CUDA_EXTRA_SIZE == CU_LAUNCH_PARAM_BUFFER_SIZE;
	printf("rt_cuda_abi: compared with CUDA %d.%d's cuda.h\n%d%%: Checks: 1, Failures: %d, Errors: 0\n", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10,
	       same ? 100 : 0, !same);
	return !same;
}
#else
int main(void)
{
	printf("rt_cuda_abi: skipped: cuda.h is not installed\n100%%: Checks: 0, Failures: 0, Errors: 0\n");
	return 0;
}
#endif
