/* rt_hip_abi_test.c -- compares runtime/hip_abi.h with the real header, at compile time: every signature, every constant.
 * The header is Debian's libamdhip64-dev (HIP 5.2), whose hipDeviceProp_t is the layout that the name without suffix fills for
 * ever; HIP 6's R0600 layout is checked against the simulated device, which implements it, in rt_device_test.c. */
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "../runtime/hip_abi.h"

/* Our type of the function, and the header's, are one type; an enumeration without negative values is `unsigned` here. */
#define X(name, required, args) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&name), unsigned (*) args), #name " is declared otherwise by HIP");
HIP_FUNCTIONS(X)
#undef X
_Static_assert(__builtin_types_compatible_p(__typeof__(&hipGetErrorName), hip_error_text_fn *), "hipGetErrorName");
_Static_assert(__builtin_types_compatible_p(__typeof__(&hipGetErrorString), hip_error_text_fn *), "hipGetErrorString");
_Static_assert(sizeof(hipDeviceProp_t) <= HIP_PROP_BYTES, "hipDeviceProp_t has outgrown its buffer");
_Static_assert(sizeof((hipDeviceProp_t *)0)->gcnArchName == 256, "gcnArchName");
#if HIP_VERSION_MAJOR < 6
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == HIP_PROP_R0000_ARCH, "gcnArchName has moved");
#else
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == HIP_PROP_R0600_ARCH, "gcnArchName has moved");
#endif
_Static_assert(hipSuccess == 0, "success is 0");
_Static_assert((int)hipMemcpyHostToDevice == HIP_COPY_TO_DEVICE && (int)hipMemcpyDeviceToHost == HIP_COPY_TO_HOST, "copy kinds");

START_TEST(constants)
{
	ck_assert_ptr_eq(HIP_EXTRA_POINTER, HIP_LAUNCH_PARAM_BUFFER_POINTER);
	ck_assert_ptr_eq(HIP_EXTRA_SIZE, HIP_LAUNCH_PARAM_BUFFER_SIZE);
	ck_assert_ptr_eq(HIP_EXTRA_END, HIP_LAUNCH_PARAM_END);
}
END_TEST

/* The library that belongs to the header has every name we look up. */
START_TEST(names_are_exported)
{
	void *lib = dlopen("libamdhip64.so", RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(lib != NULL, "%s", dlerror());
#define X(name, required, args) ck_assert_msg(dlsym(lib, #name) != NULL, "no %s", #name);
	HIP_FUNCTIONS(X)
#undef X
	ck_assert(dlsym(lib, "hipGetErrorName") && dlsym(lib, "hipGetErrorString") && dlsym(lib, "hipGetDeviceProperties"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rt_hip_abi");
	TCase *c = tcase_create("header");
	tcase_add_test(c, constants);
	tcase_add_test(c, names_are_exported);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
