/* hip_abi_test.c -- our declarations of HIP's interface against HIP's own header: compiled, never run.
 *
 * Needs <hip/hip_runtime_api.h> (Debian: libamdhip64-dev, HIP 5.2) and -D__HIP_PLATFORM_AMD__.  That header comes
 * first, so hip_api.h uses its types and only repeats the prototypes: the compiler refuses any that differ.  Numbers
 * and the older layout of the device properties are compared here; HIP 6's layout, which this header does not have, is
 * held by static assertions in hip_api.h. */
#include <hip/hip_runtime_api.h>

#include "../sim/hip_api.h"

#define X(name, value, ...) _Static_assert(name == value, #name);
HIP_API_ERRORS(X)
HIP_API_ATTRIBUTES(X)
HIP_API_FUNC_ATTRIBUTES(X)
HIP_API_MEMCPY_KINDS(X)
HIP_API_CAPTURE(X)
#undef X

_Static_assert(sizeof(struct hip_properties_r0000) == sizeof(hipDeviceProp_t), "size of the older properties");
#define F(field) _Static_assert(offsetof(struct hip_properties_r0000, field) == offsetof(hipDeviceProp_t, field) && \
	sizeof(((struct hip_properties_r0000 *)0)->field) == sizeof(((hipDeviceProp_t *)0)->field), #field);
F(name) F(totalGlobalMem) F(sharedMemPerBlock) F(regsPerBlock) F(warpSize) F(maxThreadsPerBlock) F(maxThreadsDim)
F(maxGridSize) F(clockRate) F(memoryClockRate) F(memoryBusWidth) F(totalConstMem) F(major) F(minor)
F(multiProcessorCount) F(l2CacheSize) F(maxThreadsPerMultiProcessor) F(computeMode) F(clockInstructionRate) F(arch)
F(concurrentKernels) F(pciDomainID) F(pciBusID) F(pciDeviceID) F(maxSharedMemoryPerMultiProcessor) F(isMultiGpuBoard)
F(canMapHostMemory) F(gcnArch) F(gcnArchName) F(integrated) F(cooperativeLaunch) F(cooperativeMultiDeviceLaunch)
F(maxTexture1DLinear) F(maxTexture1D) F(maxTexture2D) F(maxTexture3D) F(hdpMemFlushCntl) F(hdpRegFlushCntl) F(memPitch)
F(textureAlignment) F(texturePitchAlignment) F(kernelExecTimeoutEnabled) F(ECCEnabled) F(tccDriver)
F(cooperativeMultiDeviceUnmatchedFunc) F(cooperativeMultiDeviceUnmatchedGridDim)
F(cooperativeMultiDeviceUnmatchedBlockDim) F(cooperativeMultiDeviceUnmatchedSharedMem) F(isLargeBar) F(asicRevision)
F(managedMemory) F(directManagedMemAccessFromHost) F(concurrentManagedAccess) F(pageableMemoryAccess)
F(pageableMemoryAccessUsesHostPageTables)
#undef F

/* The layout of pointer attributes is HIP's; the first member's name and numbers changed with HIP 6. */
_Static_assert(sizeof(hipPointerAttribute_t) == 32 && offsetof(hipPointerAttribute_t, hostPointer) == 16 &&
               offsetof(hipPointerAttribute_t, allocationFlags) == 28, "pointer attributes");
