/* hip_api.h -- the part of HIP's C interface that tdsl uses and that the simulated device offers, declared once.
 *
 * In: nothing.  Out: types, numbers and prototypes with HIP's ABI.  The runtime declares its table of functions from the
 * prototypes (`__typeof__(hipMalloc) *malloc`) and looks the names up with dlsym; the simulated device defines them.
 * Why not HIP's own header: no ROCm is needed to build, and HIP's header describes one major version only, while both
 * layouts of the device properties are needed at run time.  Where <hip/hip_runtime_api.h> was included first, its types
 * are used and the compiler itself compares our prototypes with HIP's: tests/hip_abi_test.c does that, and checks every
 * number below and every field of the properties. */
#ifndef TDSL_HIP_API_H
#define TDSL_HIP_API_H
#include <stddef.h>

#define HIP_EXPORT __attribute__((visibility("default")))

/* X(name, value, text): the text is what hipGetErrorString gives. */
#define HIP_API_ERRORS(X) \
	X(hipSuccess, 0, "no error") \
	X(hipErrorInvalidValue, 1, "invalid argument") \
	X(hipErrorOutOfMemory, 2, "out of memory") \
	X(hipErrorNotInitialized, 3, "initialization error") \
	X(hipErrorInvalidConfiguration, 9, "invalid configuration argument") \
	X(hipErrorInvalidDevicePointer, 17, "invalid device pointer") \
	X(hipErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
	X(hipErrorNoDevice, 100, "no ROCm-capable device is detected") \
	X(hipErrorInvalidDevice, 101, "invalid device ordinal") \
	X(hipErrorInvalidImage, 200, "device kernel image is invalid") \
	X(hipErrorInvalidContext, 201, "invalid device context") \
	X(hipErrorNoBinaryForGpu, 209, "no kernel image is available for execution on the device") \
	X(hipErrorInvalidKernelFile, 218, "invalid kernel file") \
	X(hipErrorFileNotFound, 301, "file not found") \
	X(hipErrorInvalidHandle, 400, "invalid resource handle") \
	X(hipErrorNotFound, 500, "named symbol not found") \
	X(hipErrorNotReady, 600, "device not ready") \
	X(hipErrorIllegalAddress, 700, "an illegal memory access was encountered") \
	X(hipErrorLaunchOutOfResources, 701, "too many resources requested for launch") \
	X(hipErrorLaunchTimeOut, 702, "the launch timed out and was terminated") \
	X(hipErrorHostMemoryAlreadyRegistered, 712, "part or all of the requested memory range is already mapped") \
	X(hipErrorHostMemoryNotRegistered, 713, "pointer does not correspond to a registered memory region") \
	X(hipErrorLaunchFailure, 719, "unspecified launch failure") \
	X(hipErrorNotSupported, 801, "operation not supported") \
	X(hipErrorStreamCaptureUnsupported, 900, "operation not permitted when stream is capturing") \
	X(hipErrorUnknown, 999, "unknown error")

/* The attributes a device answers.  Numbers are the same in HIP 5, 6 and 7; hipDeviceAttributeNumberOfXccs is newer than 5. */
#define HIP_API_ATTRIBUTES(X) \
	X(hipDeviceAttributeEccEnabled, 0) \
	X(hipDeviceAttributeAsyncEngineCount, 2) \
	X(hipDeviceAttributeCanMapHostMemory, 3) \
	X(hipDeviceAttributeClockRate, 5) \
	X(hipDeviceAttributeComputeMode, 6) \
	X(hipDeviceAttributeConcurrentKernels, 8) \
	X(hipDeviceAttributeCooperativeLaunch, 10) \
	X(hipDeviceAttributeIntegrated, 16) \
	X(hipDeviceAttributeKernelExecTimeout, 18) \
	X(hipDeviceAttributeL2CacheSize, 19) \
	X(hipDeviceAttributeComputeCapabilityMajor, 23) \
	X(hipDeviceAttributeManagedMemory, 24) \
	X(hipDeviceAttributeMaxBlocksPerMultiProcessor, 25) \
	X(hipDeviceAttributeMaxBlockDimX, 26) \
	X(hipDeviceAttributeMaxBlockDimY, 27) \
	X(hipDeviceAttributeMaxBlockDimZ, 28) \
	X(hipDeviceAttributeMaxGridDimX, 29) \
	X(hipDeviceAttributeMaxGridDimY, 30) \
	X(hipDeviceAttributeMaxGridDimZ, 31) \
	X(hipDeviceAttributeMaxThreadsPerBlock, 56) \
	X(hipDeviceAttributeMaxThreadsPerMultiProcessor, 57) \
	X(hipDeviceAttributeMaxPitch, 58) \
	X(hipDeviceAttributeMemoryBusWidth, 59) \
	X(hipDeviceAttributeMemoryClockRate, 60) \
	X(hipDeviceAttributeComputeCapabilityMinor, 61) \
	X(hipDeviceAttributeMultiprocessorCount, 63) \
	X(hipDeviceAttributePciBusId, 67) \
	X(hipDeviceAttributePciDeviceId, 68) \
	X(hipDeviceAttributePciDomainID, 69) \
	X(hipDeviceAttributeMaxRegistersPerBlock, 71) \
	X(hipDeviceAttributeMaxRegistersPerMultiprocessor, 72) \
	X(hipDeviceAttributeMaxSharedMemoryPerBlock, 74) \
	X(hipDeviceAttributeSharedMemPerBlockOptin, 75) \
	X(hipDeviceAttributeSharedMemPerMultiprocessor, 76) \
	X(hipDeviceAttributeStreamPrioritiesSupported, 78) \
	X(hipDeviceAttributeTotalConstantMemory, 83) \
	X(hipDeviceAttributeTotalGlobalMem, 84) \
	X(hipDeviceAttributeUnifiedAddressing, 85) \
	X(hipDeviceAttributeWarpSize, 87) \
	X(hipDeviceAttributeMemoryPoolsSupported, 88) \
	X(hipDeviceAttributeClockInstructionRate, 10000) \
	X(hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, 10002) \
	X(hipDeviceAttributeIsLargeBar, 10011) \
	X(hipDeviceAttributeAsicRevision, 10012) \
	X(hipDeviceAttributePhysicalMultiProcessorCount, 10015)
#define HIP_API_ATTRIBUTE_XCCS 10018

#define HIP_API_FUNC_ATTRIBUTES(X) \
	X(HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0) \
	X(HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1) \
	X(HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2) \
	X(HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3) \
	X(HIP_FUNC_ATTRIBUTE_NUM_REGS, 4) \
	X(HIP_FUNC_ATTRIBUTE_PTX_VERSION, 5) \
	X(HIP_FUNC_ATTRIBUTE_BINARY_VERSION, 6) \
	X(HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA, 7) \
	X(HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
	X(HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 9)

#define HIP_API_MEMCPY_KINDS(X) \
	X(hipMemcpyHostToHost, 0) X(hipMemcpyHostToDevice, 1) X(hipMemcpyDeviceToHost, 2) \
	X(hipMemcpyDeviceToDevice, 3) X(hipMemcpyDefault, 4)

#define HIP_API_CAPTURE(X) \
	X(hipStreamCaptureStatusNone, 0) X(hipStreamCaptureStatusActive, 1) X(hipStreamCaptureStatusInvalidated, 2)

#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
#define X(name, value, ...) name = value,
typedef enum hipError_t { HIP_API_ERRORS(X) } hipError_t;
typedef enum hipDeviceAttribute_t { HIP_API_ATTRIBUTES(X) } hipDeviceAttribute_t;
typedef enum hipFunction_attribute { HIP_API_FUNC_ATTRIBUTES(X) } hipFunction_attribute;
typedef enum hipMemcpyKind { HIP_API_MEMCPY_KINDS(X) } hipMemcpyKind;
typedef enum hipStreamCaptureStatus { HIP_API_CAPTURE(X) } hipStreamCaptureStatus;
#undef X
typedef enum hipStreamCaptureMode {
	hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed
} hipStreamCaptureMode;
typedef enum hipJitOption { hipJitOptionMaxRegisters } hipJitOption;
/* HIP 6 and later; HIP 5 counted host 0, device 1, array 2, unified 3, managed 4. */
typedef enum hipMemoryType {
	hipMemoryTypeUnregistered = 0, hipMemoryTypeHost = 1, hipMemoryTypeDevice = 2, hipMemoryTypeManaged = 3,
	hipMemoryTypeArray = 10, hipMemoryTypeUnified = 11
} hipMemoryType;
typedef struct hipPointerAttribute_t {
	enum hipMemoryType type;
	int device;
	void *devicePointer, *hostPointer;
	int isManaged;
	unsigned allocationFlags;
} hipPointerAttribute_t;

typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;

#define hipStreamDefault 0x00
#define hipStreamNonBlocking 0x01
#define hipStreamPerThread ((hipStream_t)2)
#define hipEventDefault 0x0
#define hipEventBlockingSync 0x1
#define hipEventDisableTiming 0x2
#define hipHostMallocDefault 0x0
#define HIP_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x01)
#define HIP_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x02)
#define HIP_LAUNCH_PARAM_END ((void *)0x03)
#endif

/* hipDeviceProp_t as HIP 6 and 7 have it: what hipGetDevicePropertiesR0600 fills. */
struct hip_properties_r0600 {
	char name[256];
	char uuid[16];
	char luid[8];
	unsigned luidDeviceNodeMask;
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize;
	size_t memPitch;
	int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
	size_t totalConstMem;
	int major, minor;
	size_t textureAlignment, texturePitchAlignment;
	int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
	int maxTexture1D, maxTexture1DMipmap, maxTexture1DLinear, maxTexture2D[2], maxTexture2DMipmap[2];
	int maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap;
	int maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
	int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3];
	int maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount;
	int unifiedAddressing, memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor, streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
	int singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
	int canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported, sparseHipArraySupported, hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
	unsigned gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned memoryPoolSupportedHandleTypes;
	int deferredMappingHipArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
	int reserved[63], hipReserved[32];
	char gcnArchName[256];
	size_t maxSharedMemoryPerMultiProcessor;
	int clockInstructionRate;
	unsigned arch; /* 17 one-bit fields */
	unsigned *hdpMemFlushCntl, *hdpRegFlushCntl;
	int cooperativeMultiDeviceUnmatchedFunc, cooperativeMultiDeviceUnmatchedGridDim;
	int cooperativeMultiDeviceUnmatchedBlockDim, cooperativeMultiDeviceUnmatchedSharedMem;
	int isLargeBar, asicRevision;
};

/* hipDeviceProp_t as HIP up to 5 has it: what hipGetDeviceProperties, without a suffix, fills in every version. */
struct hip_properties_r0000 {
	char name[256];
	size_t totalGlobalMem, sharedMemPerBlock;
	int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
	int clockRate, memoryClockRate, memoryBusWidth;
	size_t totalConstMem;
	int major, minor, multiProcessorCount, l2CacheSize, maxThreadsPerMultiProcessor, computeMode, clockInstructionRate;
	unsigned arch; /* 17 one-bit fields */
	int concurrentKernels, pciDomainID, pciBusID, pciDeviceID;
	size_t maxSharedMemoryPerMultiProcessor;
	int isMultiGpuBoard, canMapHostMemory, gcnArch;
	char gcnArchName[256];
	int integrated, cooperativeLaunch, cooperativeMultiDeviceLaunch;
	int maxTexture1DLinear, maxTexture1D, maxTexture2D[2], maxTexture3D[3];
	unsigned *hdpMemFlushCntl, *hdpRegFlushCntl;
	size_t memPitch, textureAlignment, texturePitchAlignment;
	int kernelExecTimeoutEnabled, ECCEnabled, tccDriver;
	int cooperativeMultiDeviceUnmatchedFunc, cooperativeMultiDeviceUnmatchedGridDim;
	int cooperativeMultiDeviceUnmatchedBlockDim, cooperativeMultiDeviceUnmatchedSharedMem;
	int isLargeBar, asicRevision, managedMemory, directManagedMemAccessFromHost, concurrentManagedAccess;
	int pageableMemoryAccess, pageableMemoryAccessUsesHostPageTables;
};
_Static_assert(sizeof(struct hip_properties_r0600) == 1472, "HIP 6's device properties");
_Static_assert(offsetof(struct hip_properties_r0600, gcnArchName) == 1160, "HIP 6's device properties");

HIP_EXPORT hipError_t hipGetDevicePropertiesR0600(struct hip_properties_r0600 *prop, int device);
#ifndef HIP_INCLUDE_HIP_HIP_RUNTIME_API_H
HIP_EXPORT hipError_t hipGetDeviceProperties(struct hip_properties_r0000 *prop, int device);
#endif

HIP_EXPORT hipError_t hipInit(unsigned flags);
HIP_EXPORT hipError_t hipDriverGetVersion(int *version);
HIP_EXPORT hipError_t hipRuntimeGetVersion(int *version);
HIP_EXPORT hipError_t hipGetDeviceCount(int *count);
HIP_EXPORT hipError_t hipGetDevice(int *device);
HIP_EXPORT hipError_t hipSetDevice(int device);
HIP_EXPORT hipError_t hipDeviceGet(hipDevice_t *device, int ordinal);
HIP_EXPORT hipError_t hipDeviceGetName(char *name, int len, hipDevice_t device);
HIP_EXPORT hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device);
HIP_EXPORT hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device);
HIP_EXPORT hipError_t hipDeviceSynchronize(void);
HIP_EXPORT const char *hipGetErrorName(hipError_t error);
HIP_EXPORT const char *hipGetErrorString(hipError_t error);
HIP_EXPORT hipError_t hipGetLastError(void);
HIP_EXPORT hipError_t hipPeekAtLastError(void);

HIP_EXPORT hipError_t hipMalloc(void **ptr, size_t size);
HIP_EXPORT hipError_t hipFree(void *ptr);
HIP_EXPORT hipError_t hipMallocAsync(void **ptr, size_t size, hipStream_t stream);
HIP_EXPORT hipError_t hipFreeAsync(void *ptr, hipStream_t stream);
HIP_EXPORT hipError_t hipHostMalloc(void **ptr, size_t size, unsigned flags);
HIP_EXPORT hipError_t hipHostFree(void *ptr);
HIP_EXPORT hipError_t hipMemGetInfo(size_t *free_bytes, size_t *total);
HIP_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *ptr);
HIP_EXPORT hipError_t hipMemcpy(void *dst, const void *src, size_t size, hipMemcpyKind kind);
HIP_EXPORT hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, hipMemcpyKind kind, hipStream_t stream);
HIP_EXPORT hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void *src, size_t size);
HIP_EXPORT hipError_t hipMemcpyDtoH(void *dst, hipDeviceptr_t src, size_t size);
HIP_EXPORT hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size);
HIP_EXPORT hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void *src, size_t size, hipStream_t stream);
HIP_EXPORT hipError_t hipMemcpyDtoHAsync(void *dst, hipDeviceptr_t src, size_t size, hipStream_t stream);
HIP_EXPORT hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t size, hipStream_t stream);
HIP_EXPORT hipError_t hipMemset(void *dst, int value, size_t size);
HIP_EXPORT hipError_t hipMemsetAsync(void *dst, int value, size_t size, hipStream_t stream);
HIP_EXPORT hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, size_t count);
HIP_EXPORT hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, size_t count);
HIP_EXPORT hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, size_t count);

HIP_EXPORT hipError_t hipStreamCreate(hipStream_t *stream);
HIP_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned flags);
HIP_EXPORT hipError_t hipStreamDestroy(hipStream_t stream);
HIP_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream);
HIP_EXPORT hipError_t hipStreamQuery(hipStream_t stream);
HIP_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags);
HIP_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode);
HIP_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *graph);
HIP_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status);
HIP_EXPORT hipError_t hipEventCreate(hipEvent_t *event);
HIP_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
HIP_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
HIP_EXPORT hipError_t hipEventSynchronize(hipEvent_t event);
HIP_EXPORT hipError_t hipEventQuery(hipEvent_t event);
HIP_EXPORT hipError_t hipEventElapsedTime(float *ms, hipEvent_t start, hipEvent_t stop);
HIP_EXPORT hipError_t hipEventDestroy(hipEvent_t event);

HIP_EXPORT hipError_t hipModuleLoad(hipModule_t *module, const char *path);
HIP_EXPORT hipError_t hipModuleLoadData(hipModule_t *module, const void *image);
HIP_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned count,
                                          hipJitOption *options, void **values);
HIP_EXPORT hipError_t hipModuleUnload(hipModule_t module);
HIP_EXPORT hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name);
HIP_EXPORT hipError_t hipModuleGetGlobal(hipDeviceptr_t *ptr, size_t *bytes, hipModule_t module, const char *name);
HIP_EXPORT hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function);
HIP_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t function, int block_size,
                                                                         size_t dynamic_lds);
HIP_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                            hipStream_t stream, void **params, void **extra);
#endif
