/* hip_module.c -- HIP's modules, functions and launches.
 *
 * In: code objects, names, launch shapes, arguments.  Out: runs of sim_run.  A launch is checked as a driver checks it,
 * its kernarg segment is assembled from the metadata (explicit arguments in either of HIP's two forms, hidden ones by
 * kernarg.c), and it is executed to its end before the call returns; a fault of the kernel is returned at once and
 * stays with the device. */
#include "hip_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LANES = 64, WAVES_PER_SIMD = 8, WORKGROUP_MAX = 1024, KERNARG_ALIGN = 64 };

struct ihipModuleSymbol_t {
	struct hip_handle handle;
	struct ihipModule_t *module;
	const struct sim_kernel *kernel;
};
struct ihipModule_t {
	struct hip_handle handle;
	struct sim_object *object;
	struct ihipModuleSymbol_t *functions; /* one per kernel */
};

static void module_free(struct ihipModule_t *m)
{
	if (!m)
		return;
	for (int i = 0; m->object && m->functions && i < m->object->nkernels; i++)
		if (m->functions[i].kernel)
			hip_handle_remove(&m->functions[i].handle);
	free(m->functions);
	sim_object_free(m->object);
	free(m);
}

static hipError_t object_error(int rc, const char *text)
{
	return hip_fail(rc == SIM_EARCH ? hipErrorNoBinaryForGpu : rc == SIM_ENOMEM ? hipErrorOutOfMemory : hipErrorInvalidImage,
	                "%s", text);
}

/* Makes a module of the code object's bytes. */
static hipError_t module_make(hipModule_t *out, struct hip_device *d, const void *bytes, size_t size)
{
	char err[HIP_REPORT_MAX] = "";
	struct ihipModule_t *m = calloc(1, sizeof *m);
	if (!m)
		return hip_fail(hipErrorOutOfMemory, "no memory for a module");
	m->handle = (struct hip_handle){HIP_MODULE, d};
	int rc = sim_object_load(&m->object, d->chip, bytes, size, err, sizeof err);
	if (rc != SIM_OK) {
		module_free(m);
		return object_error(rc, err);
	}
	hipError_t e = hipSuccess;
	m->functions = calloc((size_t)m->object->nkernels + 1, sizeof *m->functions);
	if (!m->functions)
		e = hip_fail(hipErrorOutOfMemory, "no memory for a module");
	for (int i = 0; e == hipSuccess && i < m->object->nkernels; i++) {
		m->functions[i].handle = (struct hip_handle){HIP_FUNCTION, d};
		m->functions[i].module = m;
		e = hip_handle_add(&m->functions[i].handle);
		if (e == hipSuccess)
			m->functions[i].kernel = &m->object->kernels[i];
	}
	if (e == hipSuccess && sim_object_map(m->object, d->memory) != SIM_OK)
		e = hip_fail(hipErrorOutOfMemory, "no memory for a module");
	else if (e == hipSuccess && (e = hip_handle_add(&m->handle)) != hipSuccess)
		sim_object_unmap(m->object, d->memory);
	if (e != hipSuccess)
		module_free(m);
	else
		*out = m;
	return e;
}

static hipError_t module_load(hipModule_t *out, const void *image, size_t size)
{
	struct hip_device *d = hip_current();
	void *bytes;
	size_t length;
	if (!out)
		return hip_fail(hipErrorInvalidValue, "module is NULL");
	*out = NULL;
	if (!d)
		return hip_self()->last;
	HIP_TRY(hip_device_sound(d));
	HIP_TRY(hip_image_copy(image, size, d->chip, &bytes, &length));
	hipError_t e = module_make(out, d, bytes, length);
	free(bytes);
	return e;
}

hipError_t hipModuleLoadData(hipModule_t *module, const void *image)
{
	return module_load(module, image, 0);
}

hipError_t hipModuleLoadDataEx(hipModule_t *module, const void *image, unsigned count, hipJitOption *options, void **values)
{
	(void)count, (void)options, (void)values; /* options steer a compiler; a code object needs none */
	return module_load(module, image, 0);
}

hipError_t hipModuleLoad(hipModule_t *module, const char *path)
{
	struct stat st;
	if (!module || !path)
		return hip_fail(hipErrorInvalidValue, "%s is NULL", module ? "path" : "module");
	*module = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		hip_fail(hipErrorFileNotFound, "%s: %s", path, fd < 0 ? strerror(errno) : "not a regular file");
		if (fd >= 0)
			close(fd);
		return hipErrorFileNotFound;
	}
	size_t size = (size_t)st.st_size, done = 0;
	char *bytes = malloc(size + 1);
	ssize_t n = 0;
	while (bytes && done < size && (n = pread(fd, bytes + done, size - done, (off_t)done)) > 0)
		done += (size_t)n;
	close(fd);
	hipError_t e;
	if (!bytes)
		e = hip_fail(hipErrorOutOfMemory, "%s: no memory for %zu bytes", path, size);
	else if (done < size || size == 0)
		e = hip_fail(hipErrorInvalidImage, "%s: %s", path, size == 0 ? "empty" : "cannot be read to its end");
	else
		e = module_load(module, bytes, size);
	free(bytes);
	return e;
}

hipError_t hipModuleUnload(hipModule_t module)
{
	struct ihipModule_t *m = hip_handle_check(module, HIP_MODULE);
	if (!m)
		return hip_self()->last;
	hip_handle_remove(&m->handle);
	sim_object_unmap(m->object, m->handle.device->memory);
	module_free(m);
	return hipSuccess;
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t module, const char *name)
{
	if (!function || !name)
		return hip_fail(hipErrorInvalidValue, "%s is NULL", function ? "name" : "function");
	*function = NULL;
	struct ihipModule_t *m = hip_handle_check(module, HIP_MODULE);
	if (!m)
		return hip_self()->last;
	const struct sim_kernel *k = sim_object_kernel(m->object, name);
	if (!k)
		return hip_fail(hipErrorNotFound, "the module has no kernel '%s'", name);
	*function = &m->functions[k - m->object->kernels];
	return hipSuccess;
}

hipError_t hipModuleGetGlobal(hipDeviceptr_t *ptr, size_t *bytes, hipModule_t module, const char *name)
{
	struct ihipModule_t *m = hip_handle_check(module, HIP_MODULE);
	if (!m)
		return hip_self()->last;
	if (!name)
		return hip_fail(hipErrorInvalidValue, "name is NULL");
	for (int i = 0; i < m->object->nsymbols; i++) {
		const struct sim_symbol *s = &m->object->symbols[i];
		if (strcmp(s->name, name) != 0)
			continue;
		if (ptr)
			*ptr = m->object->image + s->offset;
		if (bytes)
			*bytes = s->size;
		return hipSuccess;
	}
	return hip_fail(hipErrorNotFound, "the module has no global '%s'", name);
}

hipError_t hipFuncGetAttribute(int *value, hipFunction_attribute attribute, hipFunction_t function)
{
	struct ihipModuleSymbol_t *f = hip_handle_check(function, HIP_FUNCTION);
	if (!f)
		return hip_self()->last;
	if (!value)
		return hip_fail(hipErrorInvalidValue, "value is NULL");
	const struct sim_chip *chip = f->handle.device->chip;
	const struct sim_kernel *k = f->kernel;
	int version = 10 * (chip->name[3] - '0') + (chip->name[4] - '0');
	switch ((int)attribute) {
	case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)k->max_workgroup; break;
	case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)k->lds_bytes; break;
	case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = (int)k->scratch_bytes; break;
	case HIP_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)(k->vgprs + k->agprs); break;
	case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
	case HIP_FUNC_ATTRIBUTE_BINARY_VERSION: *value = version; break;
	case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
	case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
	case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = 0; break;
	case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = chip->lds_bytes - (int)k->lds_bytes; break;
	default: return hip_fail(hipErrorInvalidValue, "function attribute %d is not known", (int)attribute);
	}
	return hipSuccess;
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, hipFunction_t function, int block_size,
                                                              size_t dynamic_lds)
{
	struct ihipModuleSymbol_t *f = hip_handle_check(function, HIP_FUNCTION);
	if (!f)
		return hip_self()->last;
	if (!blocks || block_size <= 0)
		return hip_fail(hipErrorInvalidValue, blocks ? "a block of %d lanes" : "blocks is NULL (block of %d lanes)", block_size);
	const struct sim_chip *chip = f->handle.device->chip;
	const struct sim_kernel *k = f->kernel;
	*blocks = 0;
	if ((uint32_t)block_size > k->max_workgroup)
		return hipSuccess;
	int waves = chip->vgprs / (int)(k->vgprs + k->agprs), per_block = (block_size + LANES - 1) / LANES;
	int by_registers = (waves < WAVES_PER_SIMD ? waves : WAVES_PER_SIMD) * chip->simds_per_cu / per_block;
	size_t granule = (size_t)chip->lds_granule, lds = (k->lds_bytes + dynamic_lds + granule - 1) / granule * granule;
	size_t by_lds = dynamic_lds > (size_t)chip->lds_bytes ? 0 : lds ? (size_t)chip->lds_bytes / lds : (size_t)by_registers;
	*blocks = by_lds < (size_t)by_registers ? (int)by_lds : by_registers;
	return hipSuccess;
}

static hipError_t launch_check(const struct ihipModuleSymbol_t *f, const uint32_t grid[3], const uint32_t block[3],
                               unsigned dynamic_lds)
{
	const struct sim_chip *chip = f->handle.device->chip;
	const struct sim_kernel *k = f->kernel;
	uint64_t lanes = 1;
	for (int i = 0; i < 3; i++) {
		if (grid[i] == 0 || block[i] == 0)
			return hip_fail(hipErrorInvalidValue, "kernel '%s': grid (%u,%u,%u) of blocks (%u,%u,%u) is empty", k->name, grid[0],
			                grid[1], grid[2], block[0], block[1], block[2]);
		if (block[i] > WORKGROUP_MAX)
			return hip_fail(hipErrorInvalidConfiguration, "kernel '%s': block (%u,%u,%u), at most %d lanes", k->name, block[0],
			                block[1], block[2], WORKGROUP_MAX);
		if ((uint64_t)grid[i] * block[i] > UINT32_MAX)
			return hip_fail(hipErrorInvalidConfiguration, "kernel '%s': %u blocks of %u lanes on axis %c are over 2^32-1 lanes",
			                k->name, grid[i], block[i], "xyz"[i]);
		lanes *= block[i];
	}
	if (lanes > k->max_workgroup)
		return hip_fail(hipErrorInvalidConfiguration, "kernel '%s': blocks of %llu lanes, it was built for at most %u", k->name,
		                (unsigned long long)lanes, k->max_workgroup);
	unsigned registers = k->vgprs + k->agprs, waves = registers ? (unsigned)chip->vgprs / registers : WAVES_PER_SIMD;
	if ((lanes + LANES - 1) / LANES > (uint64_t)(waves < WAVES_PER_SIMD ? waves : WAVES_PER_SIMD) * (unsigned)chip->simds_per_cu)
		return hip_fail(hipErrorLaunchOutOfResources, "kernel '%s': blocks of %llu lanes with %u registers each do not fit on a compute unit", k->name,
		                (unsigned long long)lanes, registers);
	if (dynamic_lds > (unsigned)chip->lds_bytes - k->lds_bytes)
		return hip_fail(hipErrorInvalidValue, "kernel '%s': %u + %u bytes of LDS, %s has %d", k->name, k->lds_bytes, dynamic_lds,
		                chip->name, chip->lds_bytes);
	return hipSuccess;
}

/* Reads HIP's `extra` list: pairs of a tag and a value, up to the end tag. */
static hipError_t extra_read(const struct sim_kernel *k, void **extra, const void **buffer, size_t *size)
{
	*buffer = NULL;
	*size = 0;
	for (int i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER)
			*buffer = extra[i + 1];
		else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1])
			*size = *(const size_t *)extra[i + 1];
		else
			return hip_fail(hipErrorInvalidValue, "kernel '%s': malformed extra list", k->name);
	}
	return hipSuccess;
}

static hipError_t kernarg_fill(const struct sim_kernel *k, void **params, void **extra, char *kernarg)
{
	const void *buffer = NULL;
	size_t size = 0;
	if (params && extra)
		return hip_fail(hipErrorInvalidValue, "kernel '%s': arguments are given in both forms", k->name);
	if (extra)
		HIP_TRY(extra_read(k, extra, &buffer, &size));
	for (int i = 0, n = 0; i < k->nargs; i++) {
		const struct sim_arg *a = &k->args[i];
		if (sim_arg_hidden(a))
			continue;
		const void *from = NULL;
		if (params)
			from = params[n];
		else if (buffer && (uint64_t)a->offset + a->size <= size)
			from = (const char *)buffer + a->offset;
		if (!from)
			return hip_fail(hipErrorInvalidValue, "kernel '%s': argument %d ('%s', %u bytes at %u) is not given", k->name, n, a->name,
			                a->size, a->offset);
		memcpy(kernarg + a->offset, from, a->size);
		n++;
	}
	return hipSuccess;
}

/* The segment as the driver allocates it: whole cache lines, which wide scalar loads at its end may read. */
static size_t kernarg_room(const struct sim_kernel *k)
{
	return ((size_t)k->kernarg_size + KERNARG_ALIGN) / KERNARG_ALIGN * KERNARG_ALIGN;
}

/* tdsl_sim_set_checks, else TDSL_SIM_CHECKS, else whether a seed asks for an order. */
static hipError_t checks_wanted(bool *wanted)
{
	const char *env = getenv("TDSL_SIM_CHECKS");
	int own = hip_self()->checks;
	if (own < 0 && env && *env && strcmp(env, "0") && strcmp(env, "1"))
		return hip_fail(hipErrorInvalidValue, "TDSL_SIM_CHECKS is \"%.200s\"; expected 0 or 1", env);
	*wanted = own >= 0 ? own : env && *env ? *env == '1' : hip_self()->seed != 0;
	return hipSuccess;
}

static hipError_t launch_run(struct ihipModuleSymbol_t *f, const uint32_t grid[3], const uint32_t block[3],
                             unsigned dynamic_lds, const void *kernarg)
{
	char err[HIP_REPORT_MAX] = "";
	struct hip_device *d = f->handle.device;
	bool checks;
	hipError_t wrong = checks_wanted(&checks);
	if (wrong)
		return wrong;
	struct sim_launch launch = {
		.object = f->module->object, .kernel = f->kernel, .memory = d->memory,
		.grid = {grid[0], grid[1], grid[2]}, .block = {block[0], block[1], block[2]}, .dynamic_lds = dynamic_lds,
		.kernarg = kernarg, .kernarg_size = kernarg_room(f->kernel),
		.seed = hip_self()->seed, .checks = checks, .stats = &hip_self()->stats,
	};
	int rc = sim_run(&launch, err, sizeof err);
	switch (rc) {
	case SIM_OK: return hipSuccess;
	case SIM_EFAULT: return hip_device_fault(d, hipErrorIllegalAddress, err);
	case SIM_EHANG: return hip_device_fault(d, hipErrorLaunchTimeOut, err);
	case SIM_ELAUNCH: return hip_fail(hipErrorInvalidConfiguration, "%s", err);
	case SIM_ENOMEM: return hip_fail(hipErrorOutOfMemory, "%s", err);
	default: return hip_device_fault(d, hipErrorLaunchFailure, err);
	}
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned dynamic_lds,
                                 hipStream_t stream, void **params, void **extra)
{
	struct ihipModuleSymbol_t *f = hip_handle_check(function, HIP_FUNCTION);
	struct hip_device *d = f ? hip_stream_device(stream) : NULL;
	const uint32_t grid[3] = {grid_x, grid_y, grid_z}, block[3] = {block_x, block_y, block_z};
	if (!d)
		return hip_self()->last;
	HIP_TRY(hip_device_sound(d));
	if (d != f->handle.device)
		return hip_fail(hipErrorInvalidHandle, "kernel '%s' was loaded on device %d (%s), the stream is on device %d (%s)",
		                f->kernel->name, f->handle.device->ordinal, f->handle.device->chip->name, d->ordinal, d->chip->name);
	HIP_TRY(launch_check(f, grid, block, dynamic_lds));
	size_t room = kernarg_room(f->kernel);
	char *kernarg = aligned_alloc(KERNARG_ALIGN, room);
	if (!kernarg)
		return hip_fail(hipErrorOutOfMemory, "no memory for %u bytes of arguments", f->kernel->kernarg_size);
	memset(kernarg, 0, room);
	hipError_t e = kernarg_fill(f->kernel, params, extra, kernarg);
	if (e == hipSuccess) {
		sim_kernarg_hidden(f->kernel, grid, block, dynamic_lds, kernarg);
		e = launch_run(f, grid, block, dynamic_lds, kernarg);
	}
	free(kernarg);
	return e;
}
