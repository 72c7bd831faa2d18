/* rt_handles_test.c -- handles whose object is gone: closed devices and closed packs are refused by name by every function that
 * takes them, and what the last call said is not told from memory that was freed. */
#include <check.h>

#include "../runtime/include/tdsl.h"
#include "rt_library.h"
#include "rt_model.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())
#define REFUSED(call, code, says) do { \
	ck_assert_msg((call) == (code), "%s: %s", #call, tdsl_error()); \
	ck_assert_msg(strstr(tdsl_error(), says) != NULL, "%s: %s", #call, tdsl_error()); } while (0)

static uint8_t *bytes;
static size_t size;
static tdsl_pack pack;
static tdsl_kernel add;
static float x[64], y[64];
static int64_t shape[] = {1, 64};
static DLTensor tx = {x, {kDLCPU, 0}, 2, {TDSL_DL_FLOAT, 32, 1}, shape, NULL, 0}, ty = {y, {kDLCPU, 0}, 2, {TDSL_DL_FLOAT, 32, 1}, shape, NULL, 0};
static const union tdsl_arg args[] = {{.t = &tx}, {.t = NULL}, {.f = 2}, {.i = 3}, {.t = &ty}};

static void setup(void)
{
	bytes = rt_pack(&size, true);
	OK(tdsl_pack_open_memory(&pack, bytes, size));
	OK(tdsl_kernel_find(&add, pack, "scale_add"));
}

static void teardown(void)
{
	free(bytes);
}

static const char *const devices[] = {"sim:gfx942", "null:gfx942"};

START_TEST(closed_devices_are_refused)
{
	tdsl_device d, same;
	tdsl_stream s;
	tdsl_list list = NULL, open;
	struct tdsl_device_info info;
	const DLTensor *tensors[] = {&tx};
	DLDataType dtype;
	int64_t extents[8];
	void *memory, *more;
	OK(tdsl_open(&d, devices[_i]));
	OK(tdsl_stream_open(&s, d, NULL));
	OK(tdsl_list_open(&open, d, tx.dtype, tensors, 1));
	OK(tdsl_alloc(&memory, d, 64));
	OK(tdsl_call(add, s, args, 5, NULL, 0));
	tdsl_close(d);
	REFUSED(tdsl_call(add, s, args, 5, NULL, 0), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_workspace(add, s, args, 5), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_output(&dtype, extents, add, s, args, 5, 4), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_kernel_load(add, s), TDSL_EDEVICE, "tdsl_kernel_load: device ");
	REFUSED(tdsl_explain(add, s, args, 5) ? 0 : TDSL_EDEVICE, TDSL_EDEVICE, "tdsl_explain: device ");
	REFUSED(tdsl_sync(s), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_stream_open(&s, d, NULL), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_set_default(d), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_device_query(&info, d), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_alloc(&more, d, 64), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_upload(d, memory, x, 64), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_download(d, x, memory, 64), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_free(d, memory), TDSL_EDEVICE, "is closed");
	REFUSED(tdsl_list_open(&list, d, tx.dtype, tensors, 1), TDSL_EDEVICE, "tdsl_list_open: device ");
	ck_assert_ptr_null(list);
	tdsl_close(d); /* once too often: nothing */
	OK(tdsl_open(&same, devices[_i]));
	ck_assert_ptr_eq(same, d);
	OK(tdsl_call(add, s, args, 5, NULL, 0)); /* the device is there again, and its modules are loaded anew */
	tdsl_list_close(open);
	tdsl_stream_close(s);
	tdsl_close(d);
	tdsl_pack_close(pack);
}
END_TEST

START_TEST(closed_packs_are_refused)
{
	struct tdsl_last last;
	struct tdsl_pack_info info;
	struct tdsl_kernel_info kernel;
	struct tdsl_param_info param;
	struct tdsl_instance_info instance;
	struct tdsl_variant_info variant;
	tdsl_kernel k;
	tdsl_device d;
	DLDataType dtype;
	const char *name;
	uint64_t calls;
	OK(tdsl_open(&d, "null:gfx942"));
	OK(tdsl_call(add, NULL, args, 5, NULL, 0));
	OK(tdsl_last_call(&last));
	ck_assert_str_eq(last.kernel, "scale_add");
	tdsl_pack_close(pack);
	REFUSED(tdsl_last_call(&last), TDSL_EINVAL, "tdsl_last_call: the pack of the kernel that this thread called last was closed");
	REFUSED(tdsl_explain(add, NULL, args, 5) ? 0 : TDSL_EINVAL, TDSL_EINVAL, "tdsl_explain: the kernel's pack is closed");
	REFUSED(tdsl_kernel_load(add, NULL), TDSL_EINVAL, "tdsl_kernel_load: the kernel's pack is closed");
	REFUSED(tdsl_kernel_query(&kernel, add), TDSL_EINVAL, "closed");
	REFUSED(tdsl_kernel_param(&param, add, 0), TDSL_EINVAL, "closed");
	REFUSED(tdsl_kernel_instance(&instance, add, 0), TDSL_EINVAL, "closed");
	REFUSED(tdsl_kernel_dtype(&name, &dtype, add, 0, 0, NULL), TDSL_EINVAL, "closed");
	REFUSED(tdsl_kernel_variant(&variant, add, 0), TDSL_EINVAL, "closed");
	REFUSED(tdsl_kernel_calls(&calls, add, 0), TDSL_EINVAL, "closed");
	REFUSED(tdsl_kernel_find(&k, pack, "scale_add"), TDSL_EINVAL, "tdsl_kernel_find: the pack is closed");
	REFUSED(tdsl_pack_kernel(&k, pack, 0), TDSL_EINVAL, "closed");
	REFUSED(tdsl_pack_query(&info, pack), TDSL_EINVAL, "closed");
	REFUSED(tdsl_pack_verify(pack), TDSL_EINVAL, "closed");
	REFUSED(tdsl_warm_up(&(struct tdsl_warm){.pack = pack, .kernel = "scale_add", .target = "gfx942"}, 1, 1), TDSL_EINVAL, "the pack is closed");
	ck_assert_str_eq(tdsl_pack_source(pack), "");
	tdsl_pack_close(pack); /* once too often: nothing */
	tdsl_close(d);
}
END_TEST

int main(int argc, char **argv)
{
	if (argc > 0)
		library_set("TDSL_SIM_LIBRARY", "libtdsl_sim.so", argv[0]);
	Suite *s = suite_create("rt_handles");
	TCase *c = tcase_create("closed");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, closed_devices_are_refused, 0, 2);
	tcase_add_test(c, closed_packs_are_refused);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
