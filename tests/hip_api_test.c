/* hip_api_test.c -- libtdsl_sim.so as a runtime uses it: opened with dlopen, every function found by its name.
 *
 * TDSL_SIM_LIB names the library (build/libtdsl_sim.so).  Kernels are those of tests/sim/vector.ll.  What a kernel
 * computes is checked elsewhere; here it is that arguments arrive, that errors are the driver's and have a text, and
 * that threads do not disturb each other. */
#include "../sim/hip_api.h"
#include "../sim/sim.h"
#include "../sim/tdsl_sim.h"
#include "sim_build.h"

#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FUNCTIONS(F) \
	F(hipInit) F(hipDriverGetVersion) F(hipRuntimeGetVersion) F(hipGetDeviceCount) F(hipGetDevice) F(hipSetDevice) \
	F(hipDeviceGet) F(hipDeviceGetName) F(hipGetDevicePropertiesR0600) F(hipGetDeviceProperties) F(hipDeviceGetAttribute) \
	F(hipDeviceTotalMem) F(hipMemGetInfo) F(hipMalloc) F(hipFree) F(hipMallocAsync) F(hipFreeAsync) F(hipHostMalloc) \
	F(hipHostFree) F(hipMemcpy) F(hipMemcpyAsync) F(hipMemcpyHtoD) F(hipMemcpyDtoH) F(hipMemcpyDtoD) \
	F(hipMemcpyHtoDAsync) F(hipMemcpyDtoHAsync) F(hipMemcpyDtoDAsync) F(hipMemset) F(hipMemsetAsync) F(hipMemsetD8) \
	F(hipMemsetD16) F(hipMemsetD32) F(hipStreamCreate) F(hipStreamCreateWithFlags) F(hipStreamDestroy) \
	F(hipStreamSynchronize) F(hipStreamQuery) F(hipStreamWaitEvent) F(hipStreamBeginCapture) F(hipStreamEndCapture) \
	F(hipStreamIsCapturing) F(hipDeviceSynchronize) F(hipEventCreate) F(hipEventCreateWithFlags) F(hipEventRecord) \
	F(hipEventSynchronize) F(hipEventQuery) F(hipEventElapsedTime) F(hipEventDestroy) F(hipModuleLoad) \
	F(hipModuleLoadData) F(hipModuleLoadDataEx) F(hipModuleUnload) F(hipModuleGetFunction) F(hipModuleGetGlobal) \
	F(hipFuncGetAttribute) F(hipModuleLaunchKernel) F(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor) \
	F(hipGetErrorName) F(hipGetErrorString) F(hipGetLastError) F(hipPeekAtLastError) F(hipPointerGetAttributes) \
	F(tdsl_sim_last_report) F(tdsl_sim_register_host) F(tdsl_sim_unregister_host) F(tdsl_sim_stats_reset) \
	F(tdsl_sim_stats_get) F(tdsl_sim_stats_json) F(tdsl_sim_set_seed) F(tdsl_sim_set_checks) F(tdsl_sim_clear_error)

static struct {
#define F(name) __typeof__(name) *name;
	FUNCTIONS(F)
#undef F
} hip;

#define OK(call) do { hipError_t e_ = (call); \
	ck_assert_msg(e_ == hipSuccess, "%s: %s: %s", #call, hip.hipGetErrorName(e_), hip.tdsl_sim_last_report()); } while (0)
/* The call fails with this error, and the report contains `text`. */
#define FAILS(error, text, call) do { hipError_t e_ = (call); \
	ck_assert_msg(e_ == (error), "%s: %s", #call, hip.hipGetErrorName(e_)); \
	ck_assert_msg(strstr(hip.tdsl_sim_last_report(), text) != NULL, "%s: %s", #call, hip.tdsl_sim_last_report()); } while (0)

static uint8_t *object[2];
static size_t object_size[2];

static void setup(void)
{
	const char *path = getenv("TDSL_SIM_LIB");
	void *lib = dlopen(path ? path : "build/libtdsl_sim.so", RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(lib != NULL, "%s", dlerror());
#define F(name) *(void **)&hip.name = dlsym(lib, #name); ck_assert_msg(hip.name != NULL, #name);
	FUNCTIONS(F)
#undef F
	object[0] = sim_build("vector", "gfx942", "", &object_size[0]);
	object[1] = sim_build("vector", "gfx950", "", &object_size[1]);
}

static void teardown(void)
{
	free(object[0]);
	free(object[1]);
}

START_TEST(devices)
{
	int n, v;
	char name[64];
	struct hip_properties_r0600 p;
	struct hip_properties_r0000 q;
	OK(hip.hipInit(0));
	OK(hip.hipGetDeviceCount(&n));
	ck_assert_int_eq(n, 2);
	OK(hip.hipRuntimeGetVersion(&v));
	ck_assert_int_eq(v / 10000000, 6);
	static const struct { const char *arch, *product; int cus, lds; } want[2] = {
		{"gfx942:sramecc+:xnack-", "AMD Instinct MI300X", 304, 65536},
		{"gfx950:sramecc+:xnack-", "AMD Instinct MI355X", 256, 163840},
	};
	for (int i = 0; i < 2; i++) {
		OK(hip.hipGetDevicePropertiesR0600(&p, i));
		OK(hip.hipGetDeviceProperties(&q, i));
		ck_assert_str_eq(p.gcnArchName, want[i].arch);
		ck_assert_str_eq(q.gcnArchName, want[i].arch);
		ck_assert_str_eq(p.name, want[i].product);
		ck_assert_int_eq(p.multiProcessorCount, want[i].cus);
		ck_assert_int_eq(q.multiProcessorCount, want[i].cus);
		ck_assert_uint_eq(q.sharedMemPerBlock, (size_t)want[i].lds);
		OK(hip.hipDeviceGetAttribute(&v, hipDeviceAttributeMaxSharedMemoryPerBlock, i));
		ck_assert_int_eq(v, want[i].lds);
		OK(hip.hipDeviceGetAttribute(&v, hipDeviceAttributeWarpSize, i));
		ck_assert_int_eq(v, 64);
		OK(hip.hipDeviceGetName(name, sizeof name, i));
		ck_assert_str_eq(name, want[i].product);
		ck_assert_int_eq(q.gcnArch, i ? 950 : 942);
	}
	FAILS(hipErrorInvalidDevice, "no device 2, there are 2", hip.hipSetDevice(2));
	FAILS(hipErrorInvalidDevice, "no device -1", hip.hipGetDevicePropertiesR0600(&p, -1));
	FAILS(hipErrorInvalidValue, "attribute 12345", hip.hipDeviceGetAttribute(&v, (hipDeviceAttribute_t)12345, 0));
	OK(hip.hipSetDevice(1));
	OK(hip.hipGetDevice(&v));
	ck_assert_int_eq(v, 1);
	ck_assert_str_eq(hip.hipGetErrorName(hipErrorNoBinaryForGpu), "hipErrorNoBinaryForGpu");
	ck_assert_str_eq(hip.hipGetErrorString(hipErrorIllegalAddress), "an illegal memory access was encountered");
	ck_assert_str_eq(hip.hipGetErrorName((hipError_t)77777), "hipErrorUnknown");
}
END_TEST

START_TEST(devices_from_the_environment)
{
	int n;
	struct hip_properties_r0600 p;
	setenv("TDSL_SIM_CHIPS", "gfx950,gfx950,gfx942", 1);
	OK(hip.hipGetDeviceCount(&n));
	ck_assert_int_eq(n, 3);
	OK(hip.hipGetDevicePropertiesR0600(&p, 1));
	ck_assert_str_eq(p.gcnArchName, "gfx950:sramecc+:xnack-");
}
END_TEST

START_TEST(devices_misspelt)
{
	int n;
	void *ptr;
	setenv("TDSL_SIM_CHIPS", "gfx942,gfx90a", 1);
	FAILS(hipErrorNoDevice, "'gfx90a' is not a simulated chip", hip.hipGetDeviceCount(&n));
	ck_assert_int_eq(n, 0);
	FAILS(hipErrorNoDevice, "gfx90a", hip.hipInit(0));
	FAILS(hipErrorNoDevice, "gfx90a", hip.hipMalloc(&ptr, 4));
	FAILS(hipErrorNoDevice, "gfx90a", hip.hipStreamSynchronize(NULL));
}
END_TEST

START_TEST(last_error)
{
	void *ptr;
	ck_assert_int_eq(hip.hipGetLastError(), hipSuccess);
	FAILS(hipErrorInvalidDevice, "", hip.hipSetDevice(9));
	OK(hip.hipMalloc(&ptr, 16));
	ck_assert_int_eq(hip.hipPeekAtLastError(), hipErrorInvalidDevice);
	ck_assert_int_eq(hip.hipGetLastError(), hipErrorInvalidDevice);
	ck_assert_int_eq(hip.hipGetLastError(), hipSuccess);
	OK(hip.hipFree(ptr));
}
END_TEST

START_TEST(memory)
{
	uint8_t back[64], host[64], *d, *e, *h;
	size_t left, total;
	hipPointerAttribute_t a;
	for (int i = 0; i < 64; i++)
		host[i] = (uint8_t)i;
	OK(hip.hipMalloc((void **)&d, 64));
	OK(hip.hipMallocAsync((void **)&e, 64, NULL));
	OK(hip.hipHostMalloc((void **)&h, 64, 0));
	OK(hip.hipMemGetInfo(&left, &total));
	ck_assert_uint_eq(total - left, 128);
	OK(hip.hipMemcpy(d, host, 64, hipMemcpyHostToDevice));
	OK(hip.hipMemcpyDtoD(e, d, 64));
	OK(hip.hipMemcpyAsync(h, e, 64, hipMemcpyDefault, NULL));
	OK(hip.hipMemcpyDtoH(back, h, 64));
	ck_assert_mem_eq(back, host, 64);
	OK(hip.hipMemset(d, 0xab, 3));
	OK(hip.hipMemsetD16(d + 4, 0x1234, 2));
	OK(hip.hipMemsetD32(d + 8, 0x789abcde, 1));
	static const uint8_t want[12] = {0xab, 0xab, 0xab, 3, 0x34, 0x12, 0x34, 0x12, 0xde, 0xbc, 0x9a, 0x78};
	ck_assert_mem_eq(d, want, 12);

	OK(hip.hipPointerGetAttributes(&a, d + 5));
	ck_assert_int_eq(a.type, hipMemoryTypeDevice);
	ck_assert_int_eq(a.device, 0);
	ck_assert_ptr_eq(a.devicePointer, d + 5);
	OK(hip.hipPointerGetAttributes(&a, h));
	ck_assert_int_eq(a.type, hipMemoryTypeHost);
	FAILS(hipErrorInvalidValue, "does not know", hip.hipPointerGetAttributes(&a, host));
	ck_assert_int_eq(a.type, hipMemoryTypeUnregistered);

	FAILS(hipErrorInvalidValue, "past the end of 'hipMalloc' (64 bytes)", hip.hipMemcpy(d, host, 65, hipMemcpyHostToDevice));
	FAILS(hipErrorInvalidValue, "past the end", hip.hipMemcpy(back, d + 60, 8, hipMemcpyDefault));
	FAILS(hipErrorInvalidValue, "source", hip.hipMemcpyDtoH(back, host, 8));
	FAILS(hipErrorInvalidValue, "to NULL", hip.hipMemcpy(NULL, host, 8, hipMemcpyHostToDevice));
	FAILS(hipErrorInvalidMemcpyDirection, "kind 9", hip.hipMemcpy(d, host, 8, (hipMemcpyKind)9));
	FAILS(hipErrorInvalidValue, "", hip.hipMemset(d + 1, 0, 64));
	FAILS(hipErrorInvalidValue, "no live allocation", hip.hipFree(d + 1));
	FAILS(hipErrorInvalidValue, "no live allocation", hip.hipFree(h));
	OK(hip.hipFree(d));
	FAILS(hipErrorInvalidValue, "no live allocation", hip.hipFree(d));
	OK(hip.hipFreeAsync(e, NULL));
	OK(hip.hipHostFree(h));
	OK(hip.hipFree(NULL));
	OK(hip.hipMalloc((void **)&d, 0));
	ck_assert_ptr_null(d);
	OK(hip.hipMemcpy(NULL, NULL, 0, hipMemcpyHostToDevice));
	FAILS(hipErrorOutOfMemory, "do not fit", hip.hipMalloc((void **)&d, (size_t)1 << 60));
	OK(hip.hipMemGetInfo(&left, &total));
	ck_assert_uint_eq(left, total);
}
END_TEST

START_TEST(streams_and_events)
{
	hipStream_t s, t;
	hipEvent_t a, b, untimed;
	hipStreamCaptureStatus status;
	hipGraph_t graph;
	float ms;
	OK(hip.hipStreamCreateWithFlags(&s, hipStreamNonBlocking));
	OK(hip.hipSetDevice(1));
	OK(hip.hipStreamCreate(&t));
	OK(hip.hipEventCreate(&a));
	OK(hip.hipEventCreate(&b));
	OK(hip.hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
	FAILS(hipErrorInvalidHandle, "not recorded", hip.hipEventElapsedTime(&ms, a, b));
	OK(hip.hipEventRecord(a, s));
	usleep(2000);
	OK(hip.hipEventRecord(b, s));
	OK(hip.hipStreamWaitEvent(t, b, 0));
	OK(hip.hipEventSynchronize(b));
	OK(hip.hipEventQuery(b));
	OK(hip.hipEventElapsedTime(&ms, a, b));
	ck_assert(ms >= 2 && ms < 2000);
	FAILS(hipErrorInvalidHandle, "without timing", hip.hipEventElapsedTime(&ms, a, untimed));
	OK(hip.hipStreamSynchronize(s));
	OK(hip.hipStreamQuery(hipStreamPerThread));
	FAILS(hipErrorNotSupported, "does not capture", hip.hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
	FAILS(hipErrorNotSupported, "does not capture", hip.hipStreamEndCapture(s, &graph));
	OK(hip.hipStreamIsCapturing(s, &status));
	ck_assert_int_eq(status, hipStreamCaptureStatusNone);
	OK(hip.hipStreamDestroy(s));
	FAILS(hipErrorInvalidHandle, "not a live stream", hip.hipStreamSynchronize(s));
	FAILS(hipErrorInvalidHandle, "not a live event", hip.hipEventRecord((hipEvent_t)t, t));
	OK(hip.hipStreamDestroy(t));
	OK(hip.hipEventDestroy(a));
	OK(hip.hipEventDestroy(b));
	OK(hip.hipEventDestroy(untimed));
}
END_TEST

static hipFunction_t function_load(int device, const char *name, hipModule_t *module)
{
	hipFunction_t f;
	OK(hip.hipSetDevice(device));
	OK(hip.hipModuleLoadData(module, object[device]));
	OK(hip.hipModuleGetFunction(&f, *module, name));
	return f;
}

START_TEST(launches)
{
	for (int device = 0; device < 2; device++) {
		hipModule_t module;
		hipFunction_t add = function_load(device, "vector_add", &module), mirror;
		int32_t *x, *y, n = 10;
		OK(hip.hipModuleGetFunction(&mirror, module, "mirror"));
		OK(hip.hipMalloc((void **)&x, 1024));
		OK(hip.hipMalloc((void **)&y, 1024));
		for (int i = 0; i < 256; i++)
			x[i] = i;
		void *params[] = {&y, &x, &n};
		hip.tdsl_sim_stats_reset();
		OK(hip.hipModuleLaunchKernel(add, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
		OK(hip.hipDeviceSynchronize());
		for (int i = 0; i < 256; i++)
			ck_assert_int_eq(y[i], i + 10 + 1);
		struct sim_stats stats;
		char json[1024];
		hip.tdsl_sim_stats_get(&stats, sizeof stats);
		ck_assert_uint_eq(stats.waves, 4);
		ck_assert_uint_eq(stats.global_written, 1024);
		ck_assert_uint_eq(hip.tdsl_sim_stats_json(json, sizeof json), strlen(json));
		ck_assert_ptr_nonnull(strstr(json, "\"waves\":4,"));

		struct { int32_t *dst, *src; int32_t n; } packed = {y, x, 20};
		size_t size = sizeof packed;
		void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
		hip.tdsl_sim_set_checks(1); /* three workgroups that write the same */
		FAILS(hipErrorLaunchFailure, "nothing orders the two", hip.hipModuleLaunchKernel(add, 3, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
		hip.tdsl_sim_clear_error(device);
		hip.tdsl_sim_set_checks(0);
		OK(hip.hipModuleLaunchKernel(add, 3, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
		for (int i = 0; i < 256; i++)
			ck_assert_int_eq(y[i], i + 20 + 3);
		hip.tdsl_sim_set_checks(-1);
		setenv("TDSL_SIM_CHECKS", "on", 1);
		FAILS(hipErrorInvalidValue, "TDSL_SIM_CHECKS is \"on\"; expected 0 or 1",
		      hip.hipModuleLaunchKernel(add, 3, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
		setenv("TDSL_SIM_CHECKS", "1", 1);
		FAILS(hipErrorLaunchFailure, "nothing orders the two", hip.hipModuleLaunchKernel(add, 3, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
		hip.tdsl_sim_clear_error(device);
		unsetenv("TDSL_SIM_CHECKS");
		size = 16;
		FAILS(hipErrorInvalidValue, "argument 2 ('n', 4 bytes at 16)",
		      hip.hipModuleLaunchKernel(add, 3, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));

		hip.tdsl_sim_set_seed(7);
		void *two[] = {&y, &n};
		OK(hip.hipModuleLaunchKernel(mirror, 1, 1, 1, 256, 1, 1, 0, NULL, two, NULL));
		hip.tdsl_sim_set_seed(0);
		for (int i = 0; i < 256; i++)
			ck_assert_int_eq(y[i], 255 - i + 10);
		OK(hip.hipFree(x));
		OK(hip.hipFree(y));
		OK(hip.hipModuleUnload(module));
		FAILS(hipErrorInvalidHandle, "not a live function",
		      hip.hipModuleLaunchKernel(add, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	}
}
END_TEST

START_TEST(launch_checks)
{
	hipModule_t module;
	hipFunction_t f = function_load(0, "vector_add", &module), mirror;
	void *params[3] = {&module, &module, &module};
	OK(hip.hipModuleGetFunction(&mirror, module, "mirror"));
#define LAUNCH(f, gx, gy, gz, bx, by, bz, lds) hip.hipModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, NULL, params, NULL)
	FAILS(hipErrorInvalidHandle, "not a live function", LAUNCH(NULL, 1, 1, 1, 1, 1, 1, 0));
	FAILS(hipErrorInvalidHandle, "not a live function", LAUNCH((hipFunction_t)module, 1, 1, 1, 1, 1, 1, 0));
	FAILS(hipErrorInvalidValue, "is empty", LAUNCH(f, 0, 1, 1, 256, 1, 1, 0));
	FAILS(hipErrorInvalidValue, "is empty", LAUNCH(f, 1, 1, 1, 256, 0, 1, 0));
	FAILS(hipErrorInvalidConfiguration, "at most 1024", LAUNCH(f, 1, 1, 1, 2048, 1, 1, 0));
	FAILS(hipErrorInvalidConfiguration, "built for at most 256", LAUNCH(f, 1, 1, 1, 256, 2, 1, 0));
	FAILS(hipErrorInvalidConfiguration, "2^32-1", LAUNCH(f, 1u << 24, 1, 1, 256, 1, 1, 0));
	FAILS(hipErrorInvalidValue, "1024 + 65000 bytes of LDS, gfx942 has 65536", LAUNCH(mirror, 1, 1, 1, 256, 1, 1, 65000));
	FAILS(hipErrorInvalidValue, "argument 0 ('dst', 8 bytes at 0) is not given",
	      hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, NULL, NULL, NULL));
	FAILS(hipErrorInvalidValue, "both forms", hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, NULL, params, params));
	hipStream_t other;
	OK(hip.hipSetDevice(1));
	OK(hip.hipStreamCreate(&other));
	FAILS(hipErrorInvalidHandle, "loaded on device 0 (gfx942), the stream is on device 1 (gfx950)",
	      hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, other, params, NULL));
	OK(hip.hipStreamDestroy(other));
	OK(hip.hipModuleUnload(module));
}
END_TEST

START_TEST(functions)
{
	hipModule_t module;
	hipFunction_t f = function_load(0, "mirror", &module), none;
	int v;
	size_t bytes;
	int32_t *table;
	OK(hip.hipFuncGetAttribute(&v, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
	ck_assert_int_eq(v, 1024);
	OK(hip.hipFuncGetAttribute(&v, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
	ck_assert_int_eq(v, 256);
	OK(hip.hipFuncGetAttribute(&v, HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
	ck_assert_int_eq(v, 65536 - 1024);
	FAILS(hipErrorInvalidValue, "attribute 99", hip.hipFuncGetAttribute(&v, (hipFunction_attribute)99, f));
	OK(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 256, 0));
	ck_assert_int_eq(v, 8);
	OK(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 64, 0));
	ck_assert_int_eq(v, 32);
	OK(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 64, 20000));
	ck_assert_int_eq(v, 3);
	OK(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 512, 0));
	ck_assert_int_eq(v, 0);
	OK(hip.hipModuleGetGlobal((void **)&table, &bytes, module, "table"));
	ck_assert_uint_eq(bytes, 16);
	ck_assert_int_eq(table[2], 3);
	OK(hip.hipMemsetD32(table, 9, 4));
	ck_assert_int_eq(table[3], 9);
	FAILS(hipErrorNotFound, "no global 'tabel'", hip.hipModuleGetGlobal((void **)&table, &bytes, module, "tabel"));
	FAILS(hipErrorNotFound, "no kernel 'mirro'", hip.hipModuleGetFunction(&none, module, "mirro"));
	ck_assert_ptr_null(none);
	OK(hip.hipModuleUnload(module));
	FAILS(hipErrorInvalidHandle, "not a live module", hip.hipModuleUnload(module));
}
END_TEST

START_TEST(images)
{
	hipModule_t m;
	char path[] = "/tmp/tdsl-test-XXXXXX";
	int fd = mkstemp(path);
	ck_assert_int_eq(write(fd, object[0], object_size[0]), (ssize_t)object_size[0]);
	OK(hip.hipModuleLoad(&m, path));
	OK(hip.hipModuleUnload(m));
	OK(hip.hipModuleLoadDataEx(&m, object[0], 0, NULL, NULL));
	OK(hip.hipModuleUnload(m));
	FAILS(hipErrorNoBinaryForGpu, "code object is for gfx950, device is gfx942", hip.hipModuleLoadData(&m, object[1]));
	ck_assert_ptr_null(m);
	ck_assert_int_eq(ftruncate(fd, (off_t)object_size[0] - 100), 0);
	FAILS(hipErrorInvalidImage, "truncated", hip.hipModuleLoad(&m, path));
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	FAILS(hipErrorInvalidImage, "empty", hip.hipModuleLoad(&m, path));
	close(fd);
	unlink(path);
	FAILS(hipErrorFileNotFound, "No such file", hip.hipModuleLoad(&m, path));
	FAILS(hipErrorFileNotFound, "not a regular file", hip.hipModuleLoad(&m, "/tmp"));
	FAILS(hipErrorInvalidImage, "no ELF", hip.hipModuleLoadData(&m, "something that is no code object, and long enough for a header"));
	FAILS(hipErrorInvalidValue, "image is NULL", hip.hipModuleLoadData(&m, NULL));

	/* the end of the image is the end of what is mapped: a truncated one has nothing behind it */
	size_t page = 4096, n = object_size[0] / page * page;
	uint8_t *map = mmap(NULL, n + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_int_eq(mprotect(map + n, page, PROT_NONE), 0);
	memcpy(map, object[0], n);
	FAILS(hipErrorInvalidImage, "", hip.hipModuleLoadData(&m, map));
	memcpy(map + n - 64, object[0], 64);
	FAILS(hipErrorInvalidImage, "", hip.hipModuleLoadData(&m, map + n - 64));
}
END_TEST

START_TEST(offload_bundle)
{
	static const char *const id[3] = {"host-x86_64-unknown-linux--", "hipv4-amdgcn-amd-amdhsa--gfx942", "hipv4-amdgcn-amd-amdhsa--gfx950:sramecc+:xnack-"};
	uint8_t *b = calloc(1, 4096 + object_size[0] + object_size[1]), *p = b;
	uint64_t at[3] = {4096, 4096, 4096 + object_size[0]}, n[3] = {0, object_size[0], object_size[1]}, count = 3;
	hipModule_t m;
	memcpy(p, "__CLANG_OFFLOAD_BUNDLE__", 24);
	memcpy(p + 24, &count, 8);
	p += 32;
	for (int i = 0; i < 3; i++) {
		uint64_t len = strlen(id[i]);
		memcpy(p, &at[i], 8);
		memcpy(p + 8, &n[i], 8);
		memcpy(p + 16, &len, 8);
		memcpy(p + 24, id[i], len);
		p += 24 + len;
		if (i)
			memcpy(b + at[i], object[i - 1], n[i]);
	}
	for (int device = 0; device < 2; device++) {
		OK(hip.hipSetDevice(device));
		OK(hip.hipModuleLoadData(&m, b));
		OK(hip.hipModuleUnload(m));
	}
	count = 2;
	memcpy(b + 24, &count, 8);
	FAILS(hipErrorNoBinaryForGpu, "no code object for gfx950", hip.hipModuleLoadData(&m, b));
	count = 5000;
	memcpy(b + 24, &count, 8);
	FAILS(hipErrorInvalidImage, "malformed offload bundle", hip.hipModuleLoadData(&m, b));
	free(b);
}
END_TEST

/* A kernel that ends at once, with `lds` bytes of LDS and `vgprs` registers; metadata as asked for. */
static uint8_t *object_make(unsigned lds, unsigned vgprs, bool metadata, size_t *size)
{
	char text[2000];
	int n = snprintf(text, sizeof text, " .text\n .globl k\n .p2align 8\n .type k,@function\nk:\n s_endpgm\n .size k, .-k\n .section .rodata,\"a\"\n .p2align 6\n"
		" .amdhsa_kernel k\n .amdhsa_next_free_vgpr %u\n .amdhsa_next_free_sgpr 8\n .amdhsa_accum_offset 4\n .amdhsa_group_segment_fixed_size %u\n"
		" .amdhsa_user_sgpr_kernarg_segment_ptr 1\n .end_amdhsa_kernel\n", vgprs, lds);
	if (metadata)
		snprintf(text + n, sizeof text - (size_t)n, ".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--gfx942\namdhsa.kernels:\n"
			"  - {.name: k, .symbol: k.kd, .kernarg_segment_size: 0, .group_segment_fixed_size: %u, .private_segment_fixed_size: 0, .kernarg_segment_align: 8, "
			".wavefront_size: 64, .sgpr_count: 8, .vgpr_count: %u, .max_flat_workgroup_size: 1024}\n...\n.end_amdgpu_metadata\n", lds, vgprs);
	return sim_build_asm(text, "gfx942", size);
}

START_TEST(objects_beyond_the_chip)
{
	size_t size;
	hipModule_t m;
	hipFunction_t f;
	uint8_t *good = object_make(65536, 512, true, &size), *lds = object_make(65540, 8, true, &size), *bare = object_make(0, 8, false, &size);
	OK(hip.hipModuleLoadData(&m, good));
	OK(hip.hipModuleGetFunction(&f, m, "k"));
	OK(hip.hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
	FAILS(hipErrorInvalidValue, "65536 + 4 bytes of LDS", hip.hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 4, NULL, NULL, NULL));
	FAILS(hipErrorInvalidValue, "65536 + 4294967295 bytes of LDS", hip.hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, ~0u, NULL, NULL, NULL));
	FAILS(hipErrorInvalidConfiguration, "2^32-1 lanes", hip.hipModuleLaunchKernel(f, ~0u, ~0u, ~0u, 1024, 1, 1, 0, NULL, NULL, NULL));
	/* 512 registers leave room for one wave on a SIMD: 8 waves do not fit on the four of a unit */
	int v;
	OK(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 512, 0));
	ck_assert_int_eq(v, 0);
	FAILS(hipErrorLaunchOutOfResources, "512 registers", hip.hipModuleLaunchKernel(f, 1, 1, 1, 512, 1, 1, 0, NULL, NULL, NULL));
	OK(hip.hipModuleUnload(m));
	FAILS(hipErrorInvalidImage, "65540 bytes of LDS, gfx942 has 65536", hip.hipModuleLoadData(&m, lds));
	FAILS(hipErrorInvalidImage, "metadata", hip.hipModuleLoadData(&m, bare));
	ck_assert_ptr_null(m);
	free(good);
	free(lds);
	free(bare);
}
END_TEST

START_TEST(errors_have_names_and_texts)
{
	static const struct { hipError_t e; const char *name, *text; } all[] = {
#define X(name, value, text) {name, #name, text},
		HIP_API_ERRORS(X)
#undef X
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		ck_assert_str_eq(hip.hipGetErrorName(all[i].e), all[i].name);
		ck_assert_str_eq(hip.hipGetErrorString(all[i].e), all[i].text);
	}
	ck_assert_str_eq(hip.hipGetErrorString((hipError_t)-3), "unknown error");
}
END_TEST

/* A result without a place, a name that is missing, a handle of another kind: an error, never a crash. */
START_TEST(missing_arguments)
{
	hipModule_t module;
	hipFunction_t f = function_load(0, "vector_add", &module);
	hipStream_t dead;
	hipEvent_t event;
	char small[4];
	int v;
	void *p, *hole[3] = {&p, NULL, &p}, *odd[] = {(void *)7, NULL, HIP_LAUNCH_PARAM_END};
	OK(hip.hipStreamCreate(&dead));
	OK(hip.hipStreamDestroy(dead));
	OK(hip.hipEventCreate(&event));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipGetDeviceCount(NULL));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipGetDevice(NULL));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipDeviceGet(NULL, 0));
	FAILS(hipErrorInvalidValue, "no room", hip.hipDeviceGetName(small, 0, 0));
	OK(hip.hipDeviceGetName(small, sizeof small, 0));
	ck_assert_str_eq(small, "AMD");
	FAILS(hipErrorInvalidValue, "NULL", hip.hipDeviceGetAttribute(NULL, hipDeviceAttributeWarpSize, 0));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipGetDevicePropertiesR0600(NULL, 0));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipMalloc(NULL, 4));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipHostMalloc(NULL, 4, 0));
	FAILS(hipErrorInvalidHandle, "not a live stream", hip.hipMallocAsync(&p, 4, dead));
	FAILS(hipErrorInvalidHandle, "not a live stream", hip.hipMemsetAsync(&p, 0, 1, dead));
	FAILS(hipErrorInvalidHandle, "not a live stream", hip.hipMemcpyAsync(&p, &v, 1, hipMemcpyDefault, dead));
	FAILS(hipErrorInvalidHandle, "not a live stream", hip.hipEventRecord(event, dead));
	FAILS(hipErrorInvalidHandle, "not a live stream", hip.hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, dead, hole, NULL));
	FAILS(hipErrorInvalidHandle, "not a live stream", hip.hipStreamBeginCapture(dead, hipStreamCaptureModeGlobal));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipStreamCreate(NULL));
	FAILS(hipErrorInvalidValue, "unknown flags", hip.hipStreamCreateWithFlags(&dead, 64));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipStreamIsCapturing(NULL, NULL));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipEventCreate(NULL));
	FAILS(hipErrorInvalidHandle, "not a live event", hip.hipEventQuery(NULL));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipModuleGetFunction(NULL, module, "mirror"));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipModuleGetFunction(&f, module, NULL));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipModuleGetGlobal(&p, NULL, module, NULL));
	FAILS(hipErrorInvalidHandle, "not a live module", hip.hipModuleGetFunction(&f, (hipModule_t)event, "mirror"));
	OK(hip.hipModuleGetFunction(&f, module, "vector_add"));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipFuncGetAttribute(NULL, HIP_FUNC_ATTRIBUTE_NUM_REGS, f));
	FAILS(hipErrorInvalidValue, "NULL", hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(NULL, f, 64, 0));
	FAILS(hipErrorInvalidValue, "block of 0", hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&v, f, 0, 0));
	FAILS(hipErrorInvalidValue, "argument 1 ('src'", hip.hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, hole, NULL));
	FAILS(hipErrorInvalidValue, "malformed extra", hip.hipModuleLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, odd));
	FAILS(hipErrorInvalidValue, "flags must be 0", hip.hipInit(1));
	OK(hip.hipEventDestroy(event));
	OK(hip.hipModuleUnload(module));
}
END_TEST

START_TEST(kernel_faults)
{
	hipModule_t module, more;
	hipFunction_t f = function_load(0, "vector_add", &module);
	int32_t *x, *small, n = 1;
	hipStream_t s;
	OK(hip.hipStreamCreate(&s));
	OK(hip.hipMalloc((void **)&x, 1024));
	OK(hip.hipMalloc((void **)&small, 1000));
	void *params[] = {&small, &x, &n};
	FAILS(hipErrorIllegalAddress, "past the end of 'hipMalloc' (1000 bytes)",
	      hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, s, params, NULL));
	ck_assert_ptr_nonnull(strstr(hip.tdsl_sim_last_report(), "vector.tdsl:7"));
	/* it stays, wherever one asks, in every thread, on this device only */
	FAILS(hipErrorIllegalAddress, "vector.tdsl:7", hip.hipStreamSynchronize(s));
	FAILS(hipErrorIllegalAddress, "vector.tdsl:7", hip.hipMemcpyDtoH(&n, x, 4));
	FAILS(hipErrorIllegalAddress, "vector.tdsl:7", hip.hipMalloc((void **)&x, 4));
	FAILS(hipErrorIllegalAddress, "vector.tdsl:7", hip.hipModuleLoadData(&more, object[0]));
	ck_assert_int_eq(hip.hipGetLastError(), hipErrorIllegalAddress);
	ck_assert_int_eq(hip.hipGetLastError(), hipErrorIllegalAddress);
	OK(hip.hipSetDevice(1));
	OK(hip.hipDeviceSynchronize());
	ck_assert_int_eq(hip.tdsl_sim_clear_error(0), 0);
	OK(hip.hipSetDevice(0));
	ck_assert_int_eq(hip.hipGetLastError(), hipSuccess);
	/* memory of another device is not this one's */
	OK(hip.hipSetDevice(1));
	OK(hip.hipMalloc((void **)&x, 1024));
	OK(hip.hipSetDevice(0));
	OK(hip.hipFree(small));
	OK(hip.hipMalloc((void **)&small, 1024));
	FAILS(hipErrorIllegalAddress, "read of 4 bytes", hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, s, params, NULL));
	ck_assert_int_eq(hip.tdsl_sim_clear_error(7), -1);
	OK(hip.hipFree(x)); /* giving back works in any state */
	OK(hip.hipModuleUnload(module));
}
END_TEST

START_TEST(host_tensors_in_place)
{
	hipModule_t module;
	hipFunction_t f = function_load(0, "vector_add", &module);
	static int32_t buffer[1024];
	int32_t *x = buffer, *y = buffer + 256, n = 1;
	void *params[] = {&y, &x, &n};
	for (int i = 0; i < 256; i++)
		x[i] = i;
	ck_assert_int_eq(hip.tdsl_sim_register_host(x, 1024, "x", 0), 0);
	ck_assert_int_eq(hip.tdsl_sim_register_host(y, 1024, "y", 1), 0);
	ck_assert_int_eq(hip.tdsl_sim_register_host(NULL, 0, "none", 1), 0);
	OK(hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	for (int i = 0; i < 256; i++)
		ck_assert_int_eq(y[i], i + 2);
	/* an input may not be written */
	void *swapped[] = {&x, &y, &n};
	FAILS(hipErrorIllegalAddress, "'x' (1024 bytes, read-only)",
	      hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, NULL, swapped, NULL));
	hip.tdsl_sim_clear_error(0);
	/* a tensor that ends early is found out although its neighbour follows */
	ck_assert_int_eq(hip.tdsl_sim_unregister_host(y), 0);
	ck_assert_int_eq(hip.tdsl_sim_register_host(y, 1020, "y", 1), 0);
	FAILS(hipErrorIllegalAddress, "past the end of 'y' (1020 bytes)",
	      hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	hip.tdsl_sim_clear_error(0);
	/* a view inside a larger, read-only tensor may be written where it is an output */
	ck_assert_int_eq(hip.tdsl_sim_register_host(buffer, sizeof buffer, "all", 0), 0);
	int32_t *view = buffer + 512;
	void *to_view[] = {&view, &x, &n};
	ck_assert_int_eq(hip.tdsl_sim_register_host(view, 1024, "view", 1), 0);
	OK(hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, NULL, to_view, NULL));
	ck_assert_int_eq(view[255], 257);
	ck_assert_int_eq(hip.tdsl_sim_unregister_host(view), 0);
	ck_assert_int_eq(hip.tdsl_sim_unregister_host(x), 0);
	ck_assert_int_eq(hip.tdsl_sim_unregister_host(buffer), 0);
	ck_assert_int_lt(hip.tdsl_sim_unregister_host(buffer), 0);
	ck_assert_ptr_nonnull(strstr(hip.tdsl_sim_last_report(), "no registration starts at"));
	ck_assert_int_eq(hip.tdsl_sim_unregister_host(NULL), 0);
	ck_assert_int_lt(hip.tdsl_sim_register_host(NULL, 4, "z", 0), 0);
}
END_TEST

/* Each thread works on a device of its own choice; two share an input and each other's module of a device. */
static hipFunction_t shared_function[2];
static int32_t shared_input[256];
static void *thread_run(void *arg)
{
	int id = (int)(intptr_t)arg, device = id & 1, bad = 0, v;
	int32_t *y, *x = shared_input, n = id;
	void *params[] = {&y, &x, &n};
	hipStream_t s;
	bad |= hip.hipSetDevice(device) || hip.hipMalloc((void **)&y, 1024) || hip.hipStreamCreate(&s);
	for (int round = 0; round < 20 && !bad; round++) {
		hip.tdsl_sim_stats_reset();
		bad |= hip.tdsl_sim_register_host(x, 1024, "x", 0);
		bad |= hip.hipModuleLaunchKernel(shared_function[device], 1, 1, 1, 256, 1, 1, 0, s, params, NULL) != hipSuccess;
		bad |= hip.tdsl_sim_unregister_host(x);
		struct sim_stats stats;
		hip.tdsl_sim_stats_get(&stats, sizeof stats);
		bad |= stats.waves != 4;
		for (int i = 0; i < 256; i++)
			bad |= y[i] != x[i] + id + 1;
		bad |= hip.hipGetDevice(&v) || v != device;
		hip.hipSetDevice(99);
		bad |= hip.hipGetLastError() != hipErrorInvalidDevice;
	}
	bad |= hip.hipFree(y) || hip.hipStreamDestroy(s);
	return (void *)(intptr_t)bad;
}

/* Each thread makes and gives back everything of its own, while the others do. */
static void *thread_churn(void *arg)
{
	int id = (int)(intptr_t)arg, device = id & 1, bad = 0, n = id;
	for (int round = 0; round < 10 && !bad; round++) {
		int32_t *x, *y, back[256];
		hipModule_t module;
		hipFunction_t f;
		hipStream_t s;
		hipEvent_t e;
		bad |= hip.hipSetDevice(device) || hip.hipStreamCreate(&s) || hip.hipEventCreate(&e) || hip.hipModuleLoadData(&module, object[device]) ||
			hip.hipModuleGetFunction(&f, module, "vector_add") || hip.hipMallocAsync((void **)&x, 1024, s) || hip.hipMalloc((void **)&y, 1024);
		if (bad)
			break;
		void *params[] = {&y, &x, &n};
		bad |= hip.hipMemsetAsync(x, 0, 1024, s) || hip.hipModuleLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, s, params, NULL) || hip.hipEventRecord(e, s) ||
			hip.hipEventSynchronize(e) || hip.hipMemcpyDtoHAsync(back, y, 1024, s) || hip.hipStreamSynchronize(s) || hip.hipDeviceSynchronize();
		for (int i = 0; i < 256; i++)
			bad |= back[i] != id + 1;
		bad |= hip.hipFree(y) || hip.hipFreeAsync(x, s) || hip.hipModuleUnload(module) || hip.hipEventDestroy(e) || hip.hipStreamDestroy(s);
	}
	return (void *)(intptr_t)bad;
}

START_TEST(threads_with_their_own)
{
	pthread_t thread[6];
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, thread_churn, (void *)(intptr_t)i), 0);
	for (int i = 0; i < 6; i++) {
		void *bad;
		pthread_join(thread[i], &bad);
		ck_assert_ptr_null(bad);
	}
}
END_TEST

START_TEST(threads)
{
	pthread_t thread[6];
	hipModule_t module[2];
	for (int i = 0; i < 256; i++)
		shared_input[i] = 3 * i;
	for (int d = 0; d < 2; d++)
		shared_function[d] = function_load(d, "vector_add", &module[d]);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, thread_run, (void *)(intptr_t)i), 0);
	for (int i = 0; i < 6; i++) {
		void *bad;
		pthread_join(thread[i], &bad);
		ck_assert_ptr_null(bad);
	}
	for (int d = 0; d < 2; d++)
		OK(hip.hipModuleUnload(module[d]));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hip_api");
	TCase *c = tcase_create("all");
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, devices);
	tcase_add_test(c, devices_from_the_environment);
	tcase_add_test(c, devices_misspelt);
	tcase_add_test(c, last_error);
	tcase_add_test(c, memory);
	tcase_add_test(c, streams_and_events);
	tcase_add_test(c, launches);
	tcase_add_test(c, launch_checks);
	tcase_add_test(c, functions);
	tcase_add_test(c, images);
	tcase_add_test(c, offload_bundle);
	tcase_add_test(c, kernel_faults);
	tcase_add_test(c, host_tensors_in_place);
	tcase_add_test(c, objects_beyond_the_chip);
	tcase_add_test(c, errors_have_names_and_texts);
	tcase_add_test(c, missing_arguments);
	suite_add_tcase(s, c);
	TCase *t = tcase_create("threads");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 300);
	tcase_add_test(t, threads);
	tcase_add_test(t, threads_with_their_own);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s); /* each test runs in its own process: the list of devices is read once */
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
