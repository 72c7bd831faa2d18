/* hip_properties.c -- what a simulated device says about itself.
 *
 * In: a row of chip.c.  Out: both layouts of HIP's device properties, and the attributes, which are read from the newer
 * layout so that no number is written twice.  Values are those a ROCm driver gives for the chip; texture and surface
 * limits are 0, as the chips have no texture units. */
#include "hip_inside.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { WAVES_PER_SIMD = 8, LANES = 64, WALL_CLOCK_KHZ = 100000 };

static void properties_fill(const struct hip_device *d, struct hip_properties_r0600 *p)
{
	const struct sim_chip *c = d->chip;
	*p = (struct hip_properties_r0600){
		.totalGlobalMem = c->memory_bytes, .sharedMemPerBlock = (size_t)c->lds_bytes,
		.regsPerBlock = c->vgprs * LANES * c->simds_per_cu, .warpSize = LANES,
		.memPitch = INT_MAX, .maxThreadsPerBlock = 1024, .maxThreadsDim = {1024, 1024, 1024},
		.maxGridSize = {INT_MAX, 65536, 65536}, .clockRate = c->clock_khz, .totalConstMem = INT_MAX,
		.major = c->name[3] - '0', .minor = c->name[4] - '0',
		.textureAlignment = 256, .texturePitchAlignment = 256,
		.deviceOverlap = 1, .multiProcessorCount = c->cus, .canMapHostMemory = 1,
		.concurrentKernels = 1, .ECCEnabled = 1, .pciBusID = d->ordinal + 1, .asyncEngineCount = 1, .unifiedAddressing = 1,
		.memoryClockRate = c->memory_clock_khz, .memoryBusWidth = c->memory_bus_bits, .l2CacheSize = c->l2_bytes,
		.maxThreadsPerMultiProcessor = WAVES_PER_SIMD * c->simds_per_cu * LANES, .streamPrioritiesSupported = 0,
		.globalL1CacheSupported = 1, .sharedMemPerMultiprocessor = (size_t)c->lds_bytes,
		.regsPerMultiprocessor = c->vgprs * LANES * c->simds_per_cu,
		.sharedMemPerBlockOptin = (size_t)c->lds_bytes, .maxBlocksPerMultiProcessor = WAVES_PER_SIMD * c->simds_per_cu,
		.hostRegisterSupported = 1, .memoryPoolsSupported = 1,
		.maxSharedMemoryPerMultiProcessor = (size_t)c->lds_bytes, .clockInstructionRate = WALL_CLOCK_KHZ,
		.arch = 0x1ffff & ~(1u << 11 | 1u << 14 | 1u << 16), /* no funnel shift, surfaces, dynamic parallelism */
		.isLargeBar = 1,
	};
	snprintf(p->name, sizeof p->name, "%s", c->product);
	snprintf(p->uuid, sizeof p->uuid, "sim-%s-%d", c->name, d->ordinal);
	snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s:sramecc+:xnack-", c->name);
}

hipError_t hipGetDevicePropertiesR0600(struct hip_properties_r0600 *prop, int device)
{
	struct hip_device *d = hip_device(device);
	if (!d)
		return hip_self()->last;
	if (!prop)
		return hip_fail(hipErrorInvalidValue, "prop is NULL");
	properties_fill(d, prop);
	return hipSuccess;
}

hipError_t hipGetDeviceProperties(struct hip_properties_r0000 *prop, int device)
{
	struct hip_device *d = hip_device(device);
	struct hip_properties_r0600 p;
	if (!d)
		return hip_self()->last;
	if (!prop)
		return hip_fail(hipErrorInvalidValue, "prop is NULL");
	properties_fill(d, &p);
	*prop = (struct hip_properties_r0000){
		.totalGlobalMem = p.totalGlobalMem, .sharedMemPerBlock = p.sharedMemPerBlock, .regsPerBlock = p.regsPerBlock,
		.warpSize = p.warpSize, .maxThreadsPerBlock = p.maxThreadsPerBlock, .clockRate = p.clockRate,
		.memoryClockRate = p.memoryClockRate, .memoryBusWidth = p.memoryBusWidth, .totalConstMem = p.totalConstMem,
		.major = p.major, .minor = p.minor, .multiProcessorCount = p.multiProcessorCount, .l2CacheSize = p.l2CacheSize,
		.maxThreadsPerMultiProcessor = p.maxThreadsPerMultiProcessor, .clockInstructionRate = p.clockInstructionRate,
		.arch = p.arch, .concurrentKernels = p.concurrentKernels, .pciBusID = p.pciBusID,
		.maxSharedMemoryPerMultiProcessor = p.maxSharedMemoryPerMultiProcessor, .canMapHostMemory = p.canMapHostMemory,
		.gcnArch = 900 + 10 * p.minor + (d->chip->name[5] - '0'),
		.memPitch = p.memPitch, .textureAlignment = p.textureAlignment, .texturePitchAlignment = p.texturePitchAlignment,
		.ECCEnabled = p.ECCEnabled, .isLargeBar = p.isLargeBar,
	};
	memcpy(prop->maxThreadsDim, p.maxThreadsDim, sizeof p.maxThreadsDim);
	memcpy(prop->maxGridSize, p.maxGridSize, sizeof p.maxGridSize);
	memcpy(prop->name, p.name, sizeof p.name);
	memcpy(prop->gcnArchName, p.gcnArchName, sizeof p.gcnArchName);
	return hipSuccess;
}

static int int_of(size_t v)
{
	return v > INT_MAX ? INT_MAX : (int)v;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
	struct hip_device *d = hip_device(device);
	struct hip_properties_r0600 p;
	if (!d)
		return hip_self()->last;
	if (!value)
		return hip_fail(hipErrorInvalidValue, "value is NULL");
	properties_fill(d, &p);
	switch ((int)attribute) {
	case hipDeviceAttributeEccEnabled: *value = p.ECCEnabled; break;
	case hipDeviceAttributeAsyncEngineCount: *value = p.asyncEngineCount; break;
	case hipDeviceAttributeCanMapHostMemory: *value = p.canMapHostMemory; break;
	case hipDeviceAttributeClockRate: *value = p.clockRate; break;
	case hipDeviceAttributeComputeMode: *value = p.computeMode; break;
	case hipDeviceAttributeConcurrentKernels: *value = p.concurrentKernels; break;
	case hipDeviceAttributeCooperativeLaunch: *value = p.cooperativeLaunch; break;
	case hipDeviceAttributeIntegrated: *value = p.integrated; break;
	case hipDeviceAttributeKernelExecTimeout: *value = p.kernelExecTimeoutEnabled; break;
	case hipDeviceAttributeL2CacheSize: *value = p.l2CacheSize; break;
	case hipDeviceAttributeComputeCapabilityMajor: *value = p.major; break;
	case hipDeviceAttributeComputeCapabilityMinor: *value = p.minor; break;
	case hipDeviceAttributeManagedMemory: *value = p.managedMemory; break;
	case hipDeviceAttributeMaxBlocksPerMultiProcessor: *value = p.maxBlocksPerMultiProcessor; break;
	case hipDeviceAttributeMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
	case hipDeviceAttributeMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
	case hipDeviceAttributeMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
	case hipDeviceAttributeMaxGridDimX: *value = p.maxGridSize[0]; break;
	case hipDeviceAttributeMaxGridDimY: *value = p.maxGridSize[1]; break;
	case hipDeviceAttributeMaxGridDimZ: *value = p.maxGridSize[2]; break;
	case hipDeviceAttributeMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
	case hipDeviceAttributeMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
	case hipDeviceAttributeMaxPitch: *value = int_of(p.memPitch); break;
	case hipDeviceAttributeMemoryBusWidth: *value = p.memoryBusWidth; break;
	case hipDeviceAttributeMemoryClockRate: *value = p.memoryClockRate; break;
	case hipDeviceAttributePhysicalMultiProcessorCount:
	case hipDeviceAttributeMultiprocessorCount: *value = p.multiProcessorCount; break;
	case hipDeviceAttributePciBusId: *value = p.pciBusID; break;
	case hipDeviceAttributePciDeviceId: *value = p.pciDeviceID; break;
	case hipDeviceAttributePciDomainID: *value = p.pciDomainID; break;
	case hipDeviceAttributeMaxRegistersPerBlock: *value = p.regsPerBlock; break;
	case hipDeviceAttributeMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
	case hipDeviceAttributeMaxSharedMemoryPerBlock: *value = int_of(p.sharedMemPerBlock); break;
	case hipDeviceAttributeSharedMemPerBlockOptin: *value = int_of(p.sharedMemPerBlockOptin); break;
	case hipDeviceAttributeSharedMemPerMultiprocessor:
	case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *value = int_of(p.sharedMemPerMultiprocessor); break;
	case hipDeviceAttributeStreamPrioritiesSupported: *value = p.streamPrioritiesSupported; break;
	case hipDeviceAttributeTotalConstantMemory: *value = int_of(p.totalConstMem); break;
	case hipDeviceAttributeTotalGlobalMem: *value = int_of(p.totalGlobalMem); break;
	case hipDeviceAttributeUnifiedAddressing: *value = p.unifiedAddressing; break;
	case hipDeviceAttributeWarpSize: *value = p.warpSize; break;
	case hipDeviceAttributeMemoryPoolsSupported: *value = p.memoryPoolsSupported; break;
	case hipDeviceAttributeClockInstructionRate: *value = p.clockInstructionRate; break;
	case hipDeviceAttributeIsLargeBar: *value = p.isLargeBar; break;
	case hipDeviceAttributeAsicRevision: *value = p.asicRevision; break;
	case HIP_API_ATTRIBUTE_XCCS: *value = d->chip->xcds; break;
	default: return hip_fail(hipErrorInvalidValue, "device attribute %d is not known", (int)attribute);
	}
	return hipSuccess;
}
