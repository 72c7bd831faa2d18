/* rt_device_test.c -- devices that run: the simulated chips execute the kernels of rt_model.h, and every way in which a device
 * cannot be had gives its text.  libtdsl_sim.so is taken from TDSL_SIM_LIBRARY, else from the folder above this program. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>

#include "../runtime/include/tdsl.h"
#include "rt_library.h"
#include "rt_model.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())

static uint8_t *bytes;
static size_t size;
static tdsl_pack pack;
static tdsl_kernel add, sum;

static void pack_make(void)
{
	bytes = rt_pack(&size, true);
	OK(tdsl_pack_open_memory(&pack, bytes, size));
	OK(tdsl_kernel_find(&add, pack, "scale_add"));
	OK(tdsl_kernel_find(&sum, pack, "partial_sum"));
}

static void pack_drop(void)
{
	tdsl_pack_close(pack);
	free(bytes);
}

static DLTensor tensor(void *data, DLDevice device, int rank, int64_t *shape, int64_t *strides)
{
	return (DLTensor){data, device, rank, {TDSL_DL_FLOAT, 32, 1}, shape, strides, 0};
}

static const DLDevice host = {kDLCPU, 0};
static const char *const chips[] = {"sim:gfx942", "sim:gfx950"};

static int run_add(tdsl_stream s, const DLTensor *x, const DLTensor *bias, const DLTensor *y)
{
	const union tdsl_arg args[] = {{.t = x}, {.t = bias}, {.f = 2}, {.i = 3}, {.t = y}};
	return tdsl_call(add, s, args, 5, NULL, 0);
}

/* y[b, s, n] of x with strides, from the definition. */
static void expect(const float *y, const float *x, const int64_t *shape, const int64_t *strides, const float *bias)
{
	for (int64_t b = 0; b < shape[0]; b++)
		for (int64_t s = 0; s < shape[1]; s++)
			for (int64_t n = 0; n < shape[2]; n++) {
				float want = x[b * strides[0] + s * strides[1] + n * strides[2]] * 2 + 3 + (bias ? bias[n] : 0);
				ck_assert_msg(y[(b * shape[1] + s) * shape[2] + n] == want, "y[%d, %d, %d] = %g, expected %g", (int)b, (int)s, (int)n,
				              (double)y[(b * shape[1] + s) * shape[2] + n], (double)want);
			}
}

START_TEST(host_tensors_in_place)
{
	tdsl_device d;
	tdsl_stream s;
	float x[4096], y[1024 + 2], bias[100];
	for (int i = 0; i < 4096; i++)
		x[i] = (float)(i % 97) / 4;
	for (int i = 0; i < 100; i++)
		bias[i] = (float)-i;
	OK(tdsl_open(&d, chips[_i]));
	OK(tdsl_stream_open(&s, d, NULL));
	int64_t shape[] = {2, 5, 100}, flat[] = {500, 100, 1}, view[] = {1024, 128, 1}, every[] = {1100, 202, 2}, n[] = {100};
	int64_t *const strides[] = {flat, view, every};
	DLTensor tb = tensor(bias, host, 1, n, NULL), ty = tensor(y + 1, host, 3, shape, NULL);
	for (int k = 0; k < 3; k++)
		for (int with = 0; with < 2; with++) {
			DLTensor tx = tensor(x, host, 3, shape, strides[k]);
			for (int i = 0; i < 1026; i++)
				y[i] = NAN;
			OK(run_add(s, &tx, with ? &tb : NULL, &ty));
			expect(y + 1, x, shape, strides[k], with ? bias : NULL);
			ck_assert(isnan(y[0]) && isnan(y[1001])); /* nothing beside the output */
		}
	tdsl_stream_close(s);
	tdsl_close(d);
}
END_TEST

START_TEST(device_memory)
{
	tdsl_device d;
	struct tdsl_device_info info;
	void *px, *py;
	float x[256], y[256];
	int64_t shape[] = {1, 4, 64}, strides[] = {256, 64, 1};
	for (int i = 0; i < 256; i++)
		x[i] = (float)i;
	OK(tdsl_open(&d, chips[_i]));
	OK(tdsl_device_query(&info, d));
	ck_assert_str_eq(info.kind, "sim");
	ck_assert_str_eq(info.target, chips[_i] + 4);
	ck_assert_int_eq(info.dl.device_type, kDLROCM);
	OK(tdsl_alloc(&px, d, sizeof x));
	OK(tdsl_alloc(&py, d, sizeof y));
	OK(tdsl_upload(d, px, x, sizeof x));
	DLTensor tx = tensor(px, info.dl, 3, shape, NULL), ty = tensor(py, info.dl, 3, shape, NULL);
	OK(run_add(NULL, &tx, NULL, &ty)); /* the first device opened is the default */
	OK(tdsl_sync(NULL));
	OK(tdsl_download(d, y, py, sizeof y));
	expect(y, x, shape, strides, NULL);
	OK(tdsl_free(d, px));
	OK(tdsl_free(d, py));
	ck_assert_int_eq(tdsl_alloc(&px, d, -1), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "tdsl_alloc: bytes is -1; expected 0 or more");
	tdsl_close(d);
}
END_TEST

START_TEST(phases_and_workspace)
{
	tdsl_device d;
	float x[1000], s = 0, ws[8];
	int64_t n[] = {1000}, one[] = {1};
	double want = 0;
	for (int i = 0; i < 1000; i++)
		want += x[i] = (float)(i % 7);
	OK(tdsl_open(&d, "sim:gfx942"));
	DLTensor tx = tensor(x, host, 1, n, NULL), ts = tensor(&s, host, 1, one, NULL);
	const union tdsl_arg args[] = {{.t = &tx}, {.t = &ts}};
	int64_t need = tdsl_workspace(sum, NULL, args, 2);
	ck_assert_int_eq(need, 16);
	OK(tdsl_call(sum, NULL, args, 2, (void *)(((uintptr_t)ws + 15) & ~(uintptr_t)15), 16));
	ck_assert_msg(s == want, "%g, expected %g", (double)s, want);
	void *mine;                       /* the device's own memory does as well */
	s = 0;
	OK(tdsl_alloc(&mine, d, need));
	OK(tdsl_call(sum, NULL, args, 2, mine, need));
	ck_assert_msg(s == want, "%g, expected %g", (double)s, want);
	OK(tdsl_free(d, mine));
	tdsl_close(d);
}
END_TEST

START_TEST(tensor_of_another_device)
{
	tdsl_device d;
	float x[64], y[64];
	int64_t shape[] = {1, 64};
	OK(tdsl_open(&d, "sim:gfx942"));
	DLTensor tx = tensor(x, (DLDevice){kDLROCM, 1}, 2, shape, NULL), ty = tensor(y, host, 2, shape, NULL);
	ck_assert_int_eq(run_add(NULL, &tx, NULL, &ty), TDSL_EDEVICE);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'x' is on DLPack device (10, 1); sim:gfx942 takes (10, 0) and host tensors (1, 0)");
	tx.device = (DLDevice){kDLCUDA, 0};
	ck_assert_int_eq(run_add(NULL, &tx, NULL, &ty), TDSL_EDEVICE);
	tdsl_close(d);
}
END_TEST

START_TEST(pack_of_another_architecture)
{
	tdsl_device d;
	float x[4] = {0}, s = 7;
	int64_t n[] = {4}, one[] = {1};
	OK(tdsl_open(&d, "sim:gfx950"));
	DLTensor tx = tensor(x, host, 1, n, NULL), ts = tensor(&s, host, 1, one, NULL);
	const union tdsl_arg args[] = {{.t = &tx}, {.t = &ts}};
	ck_assert_int_eq(tdsl_call(sum, NULL, args, 2, NULL, 0), TDSL_ETARGET);
	ck_assert_str_eq(tdsl_error(), "partial_sum: pack in memory has no code for gfx950 (device sim:gfx950); the pack's targets: gfx942, gfx950");
	ck_assert(s == 7);
	tdsl_close(d);
}
END_TEST

/* rmsnorm_quant's launch runs a device function that takes its arguments otherwise: it reads where nothing is. */
START_TEST(fault_on_the_device_is_reported)
{
	tdsl_device d;
	tdsl_kernel norm;
	uint16_t x[65] = {0}, w[64] = {0};
	uint8_t y[64];
	float scale[1];
	int64_t shape[] = {1, 64}, n[] = {64}, m[] = {1};
	OK(tdsl_open(&d, "sim:gfx942"));
	OK(tdsl_kernel_find(&norm, pack, "rmsnorm_quant"));
	DLTensor tx = tensor(x + 1, host, 2, shape, NULL), tw = tensor(w, host, 1, n, NULL), ty = tensor(y, host, 2, shape, NULL),
	         ts = tensor(scale, host, 1, m, NULL);
	tx.dtype = tw.dtype = (DLDataType){TDSL_DL_BFLOAT, 16, 1};
	ty.dtype = (DLDataType){TDSL_DL_E4M3FNUZ, 8, 1};
	const union tdsl_arg args[] = {{.t = &tx}, {.t = &tw}, {.f = 1e-6}, {.t = &ty}, {.t = &ts}};
	ck_assert_int_eq(tdsl_call(norm, NULL, args, 5, NULL, 0), TDSL_ELAUNCH);
	ck_assert_msg(strstr(tdsl_error(), "sim:gfx942: scale_add: hip") == tdsl_error(), "%s", tdsl_error());
	ck_assert_msg(strstr(tdsl_error(), "'x'") != NULL, "no argument is named: %s", tdsl_error());
	void *memory;
	ck_assert_int_eq(tdsl_alloc(&memory, d, 64), TDSL_ELAUNCH); /* there is memory, but not on a device that failed */
	ck_assert_msg(strstr(tdsl_error(), "sim:gfx942: hipMalloc: ") == tdsl_error(), "%s", tdsl_error());
	tdsl_close(d);
	float a[64] = {1}, b[64]; /* opened again it works */
	DLTensor ta = tensor(a, host, 2, shape, NULL), tb = tensor(b, host, 2, shape, NULL);
	OK(tdsl_open(&d, "sim:gfx942"));
	OK(run_add(NULL, &ta, NULL, &tb));
	tdsl_close(d);
}
END_TEST

/* ---- several devices and threads */

struct job { tdsl_stream stream; int from; int rc; };

static void *thread(void *arg)
{
	struct job *j = arg;
	float x[640], y[640];
	for (int i = 0; i < 640; i++)
		x[i] = (float)(i + j->from);
	for (int round = 0; round < 5 && j->rc == 0; round++) {
		int64_t shape[] = {2, 5, 64}, rows[] = {2 * 5, 64};
		DLTensor tx = tensor(x, host, 3, shape, NULL), ty = tensor(y, host, 2, rows, NULL);
		j->rc = run_add(j->stream, &tx, NULL, &ty);
		for (int i = 0; i < 640 && j->rc == 0; i++)
			if (y[i] != x[i] * 2 + 3)
				j->rc = 1;
	}
	return NULL;
}

START_TEST(two_devices_from_six_threads)
{
	tdsl_device d[2];
	struct job jobs[6];
	pthread_t t[6];
	for (int i = 0; i < 2; i++)
		OK(tdsl_open(&d[i], chips[i]));
	for (int i = 0; i < 6; i++) {
		jobs[i] = (struct job){.from = i};
		OK(tdsl_stream_open(&jobs[i].stream, d[i % 2], NULL));
		ck_assert_int_eq(pthread_create(&t[i], NULL, thread, &jobs[i]), 0);
	}
	for (int i = 0; i < 6; i++) {
		pthread_join(t[i], NULL);
		ck_assert_int_eq(jobs[i].rc, 0);
		tdsl_stream_close(jobs[i].stream);
	}
	tdsl_close(d[0]);
	tdsl_close(d[1]);
}
END_TEST

/* The thread's current HIP device stays what it was. */
START_TEST(current_device_is_restored)
{
	tdsl_device d;
	struct tdsl_device_info info;
	int now = -1;
	float x[64] = {0}, y[64];
	int64_t shape[] = {1, 64};
	OK(tdsl_open(&d, "sim:gfx950"));
	OK(tdsl_device_query(&info, d));
	void *lib = dlopen(info.library, RTLD_NOW | RTLD_NOLOAD);
	ck_assert_ptr_nonnull(lib);
	unsigned (*get)(int *) = (unsigned (*)(int *))(uintptr_t)dlsym(lib, "hipGetDevice");
	unsigned (*set)(int) = (unsigned (*)(int))(uintptr_t)dlsym(lib, "hipSetDevice");
	set(0);
	DLTensor tx = tensor(x, host, 2, shape, NULL), ty = tensor(y, host, 2, shape, NULL);
	OK(run_add(NULL, &tx, NULL, &ty));
	get(&now);
	ck_assert_int_eq(now, 0);
	dlclose(lib);
	tdsl_close(d);
}
END_TEST

START_TEST(reopened_device_and_pack_run_again)
{
	float x[64] = {1}, y[64];
	int64_t shape[] = {1, 64};
	DLTensor tx = tensor(x, host, 2, shape, NULL), ty = tensor(y, host, 2, shape, NULL);
	for (int round = 0; round < 4; round++) {
		tdsl_device d;
		OK(tdsl_open(&d, "sim:gfx942"));
		OK(run_add(NULL, &tx, NULL, &ty));
		ck_assert(y[0] == 5);
		if (round & 1) {
			tdsl_pack_close(pack);
			OK(tdsl_pack_open_memory(&pack, bytes, size));
			OK(tdsl_kernel_find(&add, pack, "scale_add"));
		}
		tdsl_close(d);
	}
}
END_TEST

/* ---- devices that are not there */

static void refused(const char *name, int code, const char *text)
{
	tdsl_device d;
	int rc = tdsl_open(&d, name);
	ck_assert_msg(rc == code, "%s: %s: %s", name, tdsl_error_name(rc), tdsl_error());
	ck_assert_msg(strstr(tdsl_error(), text) != NULL, "%s: \"%s\" has no \"%s\"", name, tdsl_error(), text);
}

START_TEST(names_that_are_no_devices)
{
	refused("", TDSL_EDEVICE, "'' is not a device; expected hip:N, cuda:N, sim:gfx942, sim:gfx950, null:gfx942, null:gfx950 or null:sm_90a");
	refused("gpu", TDSL_EDEVICE, "'gpu' is not a device");
	refused("hip:", TDSL_EDEVICE, "hip:: expected hip:N with N a device number");
	refused("hip:-1", TDSL_EDEVICE, "expected hip:N");
	refused("hip:0x", TDSL_EDEVICE, "expected hip:N");
	refused("cuda:-1", TDSL_EDEVICE, "cuda:-1: expected cuda:N with N a device number");
	refused("sim:gfx90a", TDSL_EDEVICE, "sim:gfx90a: no simulated chip 'gfx90a'; there are gfx942, gfx950");
	refused("null:gfx1100", TDSL_EDEVICE, "null:gfx1100: unknown target 'gfx1100'; expected gfx942, gfx950 or sm_90a");
	refused("sim:gfx942aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", TDSL_EDEVICE, "is not a device");
}
END_TEST

/* The vendor's own library, where it is installed, and no GPU; a machine with one opens it. */
START_TEST(no_gpu_is_a_clear_error)
{
	tdsl_device d;
	int rc = tdsl_open(&d, "hip:0");
	if (rc == 0) {
		tdsl_close(d);
		return;
	}
	ck_assert_int_eq(rc, TDSL_EDEVICE);
	ck_assert_msg(strstr(tdsl_error(), "hip:0: no device") == tdsl_error(), "%s", tdsl_error());
	unsetenv("TDSL_DEVICE");
	float x[64];
	int64_t shape[] = {1, 64};
	DLTensor tx = tensor(x, host, 2, shape, NULL);
	ck_assert_int_eq(run_add(NULL, &tx, NULL, &tx), TDSL_EDEVICE); /* never a silent simulator */
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "no device was opened, TDSL_DEVICE is not set, and there is no GPU"));
	ck_assert_int_eq(tdsl_default(&d), TDSL_EDEVICE);
	tdsl_device first, other;
	OK(tdsl_open(&first, "null:gfx942"));
	OK(tdsl_open(&other, "null:gfx950"));
	tdsl_close(first);
	ck_assert_int_eq(run_add(NULL, &tx, NULL, &tx), TDSL_EDEVICE);
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "the default device is closed, TDSL_DEVICE is not set, and there is no GPU"));
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "; tdsl_set_default makes another the default, such as null:gfx950, which is open"));
	tdsl_close(other);
	setenv("TDSL_DEVICE", "hip:4000", 1);
	ck_assert_int_eq(tdsl_default(&d), TDSL_EDEVICE);
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "TDSL_DEVICE: hip:4000: no device"));
	setenv("TDSL_DEVICE", "sim:none", 1);
	ck_assert_int_eq(tdsl_default(&d), TDSL_EINVAL);
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "TDSL_DEVICE is \"sim:none\"; expected hip:N"));
	setenv("TDSL_DEVICE", "sim:gfx950", 1);
	OK(tdsl_default(&d));
	struct tdsl_device_info info;
	OK(tdsl_device_query(&info, d));
	ck_assert_str_eq(info.name, "sim:gfx950");
}
END_TEST

START_TEST(driver_that_cannot_be_loaded)
{
	setenv("TDSL_HIP_LIBRARY", "/no/such/libamdhip64.so", 1);
	refused("hip:0", TDSL_EDEVICE, "hip:0: TDSL_HIP_LIBRARY: /no/such/libamdhip64.so: cannot open shared object file");
	setenv("TDSL_HIP_LIBRARY", "libm.so.6", 1);
	refused("hip:0", TDSL_EDEVICE, "hip:0: libm.so.6 has no hipGetDeviceCount");
	setenv("TDSL_SIM_LIBRARY", "libm.so.6", 1);
	refused("sim:gfx942", TDSL_EDEVICE, "sim:gfx942: libm.so.6 has no hipGetDeviceCount");
}
END_TEST

/* hip:N on the simulated library: the path that a real driver takes, host tensors refused. */
START_TEST(hip_path_on_the_simulated_driver)
{
	tdsl_device d;
	struct tdsl_device_info info;
	float x[128], y[128];
	void *px, *py;
	int64_t shape[] = {2, 64};
	ck_assert_msg(getenv("TDSL_SIM_LIBRARY") != NULL, "TDSL_SIM_LIBRARY is not set and ../libtdsl_sim.so is not there");
	setenv("TDSL_HIP_LIBRARY", getenv("TDSL_SIM_LIBRARY"), 1);
	refused("hip:7", TDSL_EDEVICE, "hip:7: no device 7; there are 2");
	OK(tdsl_open(&d, "hip:1"));
	OK(tdsl_device_query(&info, d));
	ck_assert_str_eq(info.target, "gfx950");
	for (int i = 0; i < 128; i++)
		x[i] = (float)i;
	DLTensor tx = tensor(x, host, 2, shape, NULL), ty = tensor(y, host, 2, shape, NULL);
	ck_assert_int_eq(run_add(NULL, &tx, NULL, &ty), TDSL_EDEVICE);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'x' is on DLPack device (1, 0); hip:1 takes (10, 1)");
	OK(tdsl_alloc(&px, d, sizeof x));
	OK(tdsl_alloc(&py, d, sizeof y));
	OK(tdsl_upload(d, px, x, sizeof x));
	tx = tensor(px, info.dl, 2, shape, NULL);
	ty = tensor(py, info.dl, 2, shape, NULL);
	OK(run_add(NULL, &tx, NULL, &ty));
	OK(tdsl_sync(NULL));
	OK(tdsl_download(d, y, py, sizeof y));
	for (int i = 0; i < 128; i++)
		ck_assert(y[i] == x[i] * 2 + 3);
	tdsl_close(d);
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("rt_device");
	TCase *c = tcase_create("sim");
	if (argc > 0)
		library_set("TDSL_SIM_LIBRARY", "libtdsl_sim.so", argv[0]);
	unsetenv("TDSL_DEVICE");
	tcase_set_timeout(c, 120);
	tcase_add_unchecked_fixture(c, pack_make, pack_drop);
	tcase_add_loop_test(c, host_tensors_in_place, 0, 2);
	tcase_add_loop_test(c, device_memory, 0, 2);
	tcase_add_test(c, phases_and_workspace);
	tcase_add_test(c, tensor_of_another_device);
	tcase_add_test(c, pack_of_another_architecture);
	tcase_add_test(c, fault_on_the_device_is_reported);
	tcase_add_test(c, two_devices_from_six_threads);
	tcase_add_test(c, current_device_is_restored);
	tcase_add_test(c, reopened_device_and_pack_run_again);
	tcase_add_test(c, names_that_are_no_devices);
	tcase_add_test(c, no_gpu_is_a_clear_error);
	tcase_add_test(c, driver_that_cannot_be_loaded);
	tcase_add_test(c, hip_path_on_the_simulated_driver);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
