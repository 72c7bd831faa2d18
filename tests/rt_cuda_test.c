/* rt_cuda_test.c -- `cuda:N` on a pretended driver (tests/cuda_fake.c): what the runtime passes to the driver, and each way in which
 * a device or a module cannot be had.  The pack is that of rt_model.h for gfx950 and sm_90a, whose image is a line of PTX.
 * The library is libcuda_fake.so beside this program. */
#include <check.h>
#include <dlfcn.h>

#include "../runtime/cuda_abi.h"
#include "../runtime/device.h"
#include "cuda_fake.h"
#include "rt_model.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())
#define HAS(text) ck_assert_msg(strstr(tdsl_error(), text) != NULL, "\"%s\" has no \"%s\"", tdsl_error(), text)

static const char ptx[] = ".version 8.7\n.target sm_90a\n.address_size 64\n";
static char library[4200];
static struct cuda_fake *fake;
static uint8_t *bytes;
static tdsl_pack pack;
static tdsl_kernel add, sum;
static tdsl_device device;
static DLDevice gpu;

/* Which variant scale_add has in front of the one that takes everything: none, one for memory of 4,000 GB/s and more, one in clusters for 4 rows
 * and less; or that one alone. */
enum first { FIRST_NONE, FIRST_BY_MEMORY, FIRST_BY_LANES, FIRST_TOGETHER, ONLY_TOGETHER, FIRST_MEETS, ONLY_MEETS };

/* shared: what the pack says of scale_add's group memory. */
static void pack_make_for(int shared, enum first first, const void *image, size_t image_size)
{
	struct arena a = {0};
	struct model_pack m;
	char err[512] = "";
	void *made;
	size_t size;
	rt_model(&a, &m, false);
	for (int v = 0; first && v < (first == ONLY_TOGETHER || first == ONLY_MEETS ? 1 : 2); v++) {
		m.kernels[1].variants[v].target = "sm_90a";
		m.kernels[1].variants[v].object = 0;
	}
	if (first == FIRST_BY_MEMORY) {
		m.kernels[1].variants[0].predicate = hexpr_op(&a, HX_LE, hexpr_const(&a, 4000), hexpr_leaf(&a, HX_DEVICE, HX_MEMORY_RATE));
		m.kernels[1].variants[0].predicate_text = "memory>=4000";
	} else if (first == FIRST_BY_LANES) {
		m.kernels[1].variants[0].launches[0].lanes = hexpr_op(&a, HX_MUL, hexpr_sym(&a, 0), hexpr_const(&a, 16));
	} else if (first) {
		m.kernels[1].variants[0].predicate = hexpr_op(&a, HX_LE, hexpr_sym(&a, 0), hexpr_const(&a, 4));
		m.kernels[1].variants[0].predicate_text = "M<=4 clusters";
		m.kernels[1].variants[0].launches[0].together = first == FIRST_TOGETHER || first == ONLY_TOGETHER;
		m.kernels[1].variants[0].launches[0].meets = first == FIRST_MEETS || first == ONLY_MEETS;
		m.kernels[1].variants[1].workspace = hexpr_const(&a, 64);
		m.kernels[1].has_workspace = true;
	}
	for (int k = 0; k < m.nkernels; k++)
		for (int v = 0; v < m.kernels[k].nvariants; v++)
			if (strcmp(m.kernels[k].variants[v].target, "gfx942") == 0)
				m.kernels[k].variants[v].target = "sm_90a";
	m.kernels[1].variants[0].launches[0].lds = shared;
	m.kernels[1].variants[0].launches[0].overlaps = true;
	m.objects[0] = (struct model_object){"sm_90a", image, image_size};
	ck_assert_msg(pack_write(&m, &made, &size, err, sizeof err) == 0, "%s", err);
	arena_free(&a);
	bytes = made;
	OK(tdsl_pack_open_memory(&pack, bytes, size));
	OK(tdsl_kernel_find(&add, pack, "scale_add"));
	OK(tdsl_kernel_find(&sum, pack, "partial_sum"));
}

static void pack_make(int shared, const void *image, size_t image_size)
{
	pack_make_for(shared, FIRST_NONE, image, image_size);
}

static void fake_find(void)
{
	setenv("TDSL_CUDA_LIBRARY", library, 1);
	void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(lib != NULL, "%s", dlerror());
	fake = dlsym(lib, "cuda_fake");
	ck_assert_ptr_nonnull(fake);
}

static void setup(void)
{
	struct tdsl_device_info info;
	fake_find();
	OK(tdsl_open(&device, "cuda:1"));
	OK(tdsl_device_query(&info, device));
	gpu = info.dl;
	pack_make(0, ptx, sizeof ptx - 1);
}

static void teardown(void)
{
	tdsl_pack_close(pack);
	tdsl_close(device);
	free(bytes);
}

static DLTensor tensor(void *data, int rank, int64_t *shape)
{
	return (DLTensor){data, gpu, rank, {TDSL_DL_FLOAT, 32, 1}, shape, NULL, 0};
}

static int run_add_rows(tdsl_stream s, float *x, float *bias, float *y, int64_t rows)
{
	int64_t shape[] = {rows, 50}, n[] = {50};
	DLTensor tx = tensor(x, 2, shape), tb = tensor(bias, 1, n), ty = tensor(y, 2, shape);
	const union tdsl_arg args[] = {{.t = &tx}, {.t = bias ? &tb : NULL}, {.f = 2}, {.i = 3}, {.t = &ty}};
	return tdsl_call(add, s, args, 5, NULL, 0);
}

static int run_add(tdsl_stream s, float *x, float *bias, float *y) { return run_add_rows(s, x, bias, y, 3); }

START_TEST(a_call_reaches_the_driver)
{
	struct tdsl_device_info info;
	struct tdsl_last last;
	float x[150], bias[50], y[150];
	void *px, *pb, *py;
	for (int i = 0; i < 150; i++)
		x[i] = (float)i, bias[i % 50] = (float)-(i % 50);
	OK(tdsl_device_query(&info, device));
	ck_assert_str_eq(info.kind, "cuda");
	ck_assert_str_eq(info.target, "sm_90a");
	ck_assert_int_eq(info.dl.device_type, kDLCUDA);
	ck_assert_int_eq(info.dl.device_id, 1);
	OK(tdsl_alloc(&px, device, sizeof x));
	OK(tdsl_alloc(&pb, device, sizeof bias));
	OK(tdsl_alloc(&py, device, sizeof y));
	OK(tdsl_upload(device, px, x, sizeof x));
	OK(tdsl_upload(device, pb, bias, sizeof bias));
	OK(run_add(NULL, px, pb, py));
	OK(tdsl_sync(NULL));
	OK(tdsl_download(device, y, py, sizeof y));
	for (int i = 0; i < 150; i++)
		ck_assert_msg(y[i] == x[i] * 2 + 3 + bias[i % 50], "y[%d] = %g", i, (double)y[i]);
	OK(tdsl_last_call(&last));
	ck_assert_str_eq(last.target, "sm_90a"); /* of the two in the pack */
	ck_assert_str_eq(fake->image, ptx);
	ck_assert_uint_eq(fake->grid[0], 3);
	ck_assert(fake->grid[1] == 1 && fake->grid[2] == 1 && fake->block[0] == 64 && fake->block[1] == 1 && fake->block[2] == 1);
	ck_assert_uint_eq(fake->shared, 0);
	ck_assert_uint_eq(fake->bytes, 72);
	ck_assert_ptr_null(fake->stream);
	OK(tdsl_free(device, px));
	OK(tdsl_free(device, pb));
	OK(tdsl_free(device, py));
	ck_assert_int_eq(tdsl_alloc(&px, device, (int64_t)1 << 41), TDSL_ENOMEM);
}
END_TEST

/* Chips of one target differ in their memory: an H100's, an H200's, one just below and one of which the driver does not tell. */
START_TEST(memory_chooses_a_variant)
{
	static const struct { int khz, pins; const char *variant; } chips[] = {
		{2619000, 5120, "any"}, {3201000, 6144, "memory>=4000"}, {2604166, 6144, "any"}, {2604167, 6144, "memory>=4000"}, {0, 0, "any"}};
	float x[150] = {0}, y[150];
	struct tdsl_last last;
	tdsl_pack_close(pack);
	tdsl_close(device);
	free(bytes);
	fake->memory_khz = chips[_i].khz;
	fake->memory_pins = chips[_i].pins;
	OK(tdsl_open(&device, "cuda:1"));
	pack_make_for(0, FIRST_BY_MEMORY, ptx, sizeof ptx - 1);
	OK(run_add(NULL, x, NULL, y));
	OK(tdsl_last_call(&last));
	ck_assert_str_eq(last.predicate, chips[_i].variant);
}
END_TEST

/* 16 a row, of 64 at most: more rows are the next variant's, which has 64 whatever the call. */
START_TEST(a_launch_has_the_lanes_that_it_says)
{
	float x[250] = {0}, y[250];
	tdsl_pack_close(pack);
	free(bytes);
	pack_make_for(0, FIRST_BY_LANES, ptx, sizeof ptx - 1);
	for (int rows = 1; rows <= 5; rows++) {
		struct tdsl_last last;
		OK(run_add_rows(NULL, x, NULL, y, rows));
		OK(tdsl_last_call(&last));
		ck_assert_uint_eq(fake->block[0], rows <= 4 ? (unsigned)(16 * rows) : 64);
		ck_assert_int_eq(last.variant, rows > 4);
	}
}
END_TEST

/* torch hands over its stream; a warm call is one launch on it, and nothing that a capture forbids. */
START_TEST(the_call_path_neither_waits_nor_allocates)
{
	float x[150] = {0}, y[150];
	tdsl_stream s;
	void *native = &s;
	OK(tdsl_stream_open(&s, device, native));
	fake->capture = 1; /* the first call of a shape too: the module is loaded in a mode that the capture allows */
	for (int i = 0; i < 3; i++) {
		struct cuda_fake before = *fake;
		OK(run_add(s, x, NULL, y));
		ck_assert_ptr_eq(fake->stream, native);
		ck_assert_int_eq(fake->launches, before.launches + 1);
		ck_assert_int_eq(fake->early, before.early + 1);
		ck_assert_int_eq(fake->loads, before.loads + (i == 0));
		ck_assert_int_eq(fake->syncs, before.syncs);
		ck_assert_int_eq(fake->allocations, before.allocations);
	}
	ck_assert_uint_eq(fake->load_mode, CUDA_CAPTURE_RELAXED);
	ck_assert_uint_eq(fake->capture_mode, 0); /* as it was */
	tdsl_stream_close(s);
}
END_TEST

/* Compiling is refused while a stream is captured, also where the driver will not say because the legacy stream was asked. */
START_TEST(nothing_is_compiled_during_a_capture)
{
	tdsl_stream s;
	OK(tdsl_stream_open(&s, device, NULL));
	OK(device_capture_check(s, "k"));
	OK(device_capture_check(NULL, "k"));
	for (int i = 0; i < 2; i++) {
		fake->capture = i == 0;
		fake->capture_error = i ? CUDA_CAPTURE_IMPLICIT : 0;
		ck_assert_int_eq(device_capture_check(i ? NULL : s, "k"), TDSL_ELAUNCH);
		HAS("k: a stream of cuda:1 is being captured into a graph");
	}
	tdsl_stream_close(s);
}
END_TEST

START_TEST(the_caller_keeps_its_context)
{
	void *lib = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
	unsigned (*get)(void **) = (unsigned (*)(void **))(uintptr_t)dlsym(lib, "cuCtxGetCurrent");
	unsigned (*set)(void *) = (unsigned (*)(void *))(uintptr_t)dlsym(lib, "cuCtxSetCurrent");
	float x[150] = {0}, y[150];
	int other;
	void *now = &now;
	OK(run_add(NULL, x, NULL, y));
	get(&now);
	ck_assert_ptr_null(now);
	set(&other);
	OK(run_add(NULL, x, NULL, y));
	get(&now);
	ck_assert_ptr_eq(now, &other);
	ck_assert_ptr_ne(fake->context, &other);
	set(fake->context); /* torch's, once it has used the device: the primary one */
	int switches = fake->switches;
	OK(run_add(NULL, x, NULL, y));
	ck_assert_int_eq(fake->switches, switches);
	dlclose(lib);
}
END_TEST

START_TEST(phases_and_workspace)
{
	float x[1000], s = 0, want = 0;
	_Alignas(16) float workspace[4];
	int64_t n[] = {1000}, one[] = {1};
	for (int i = 0; i < 1000; i++)
		want += x[i] = (float)(i % 7);
	DLTensor tx = tensor(x, 1, n), ts = tensor(&s, 1, one);
	const union tdsl_arg args[] = {{.t = &tx}, {.t = &ts}};
	ck_assert_int_eq(tdsl_workspace(sum, NULL, args, 2), 16);
	OK(tdsl_call(sum, NULL, args, 2, workspace, sizeof workspace));
	ck_assert_msg(s == want, "%g, expected %g", (double)s, (double)want);
	ck_assert_int_eq(fake->early, 0);                /* code that does not wait by itself is not started early */
	ck_assert_int_eq(tdsl_call(sum, NULL, args, 2, NULL, 0), TDSL_EWORKSPACE);
}
END_TEST

/* Over 48 KB, what the code does not declare is asked for and given at launch; 1024 bytes of what it declares are the driver's. */
START_TEST(group_memory)
{
	static const struct { int pack, declared; unsigned given; int asked; } rows[] = {
		{0, 0, 0, 0}, {64, 1088, 0, 0}, {1088, 64, 0, 0}, {49152, 49152, 0, 0}, {49156, 0, 49156, 49156}, {200000, 2024, 199000, 199000}};
	float x[150] = {0}, y[150];
	tdsl_pack_close(pack);
	free(bytes);
	pack_make(rows[_i].pack, ptx, sizeof ptx);
	fake->shared_declared = rows[_i].declared;
	OK(run_add(NULL, x, NULL, y));
	ck_assert_uint_eq(fake->shared, rows[_i].given);
	ck_assert_int_eq(fake->shared_asked, rows[_i].asked);
}
END_TEST

/* CUDA counts workgroups where AMD's dispatches count lanes. */
START_TEST(many_workgroups)
{
	enum { ROWS = 1 << 27 };                         /* of 64 lanes each */
	float *x = (float *)(1ull << 44), *y = (float *)(1ull << 45);
	fake->launch_error = 1;                          /* nothing is computed */
	ck_assert_int_eq(run_add_rows(NULL, x, NULL, y, ROWS), TDSL_ELAUNCH);
	ck_assert_uint_eq(fake->grid[0], ROWS);
	ck_assert_uint_eq(fake->block[0], 64);
}
END_TEST

/* Of clusters of more workgroups than any chip starts together the function says so; a driver that knows none has no such function. */
START_TEST(clusters)
{
	static const struct { int width; bool unknown; int any; } rows[] = {{0, false, 0}, {8, false, 0}, {16, false, 1}, {16, true, 0}};
	float x[150] = {0}, y[150];
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		tdsl_pack_close(pack);
		free(bytes);
		pack_make(0, ptx, sizeof ptx);
		fake->cluster_width = rows[i].width;
		fake->no_clusters = rows[i].unknown;
		fake->cluster_any = 0;
		OK(run_add(NULL, x, NULL, y));
		ck_assert_int_eq(fake->cluster_any, rows[i].any);
	}
	tdsl_pack_close(pack);
	free(bytes);
	pack_make(0, ptx, sizeof ptx);
	fake->no_clusters = false;
	fake->no_large_clusters = true;
	ck_assert_int_eq(run_add(NULL, x, NULL, y), TDSL_ELAUNCH);
	ck_assert_msg(strstr(tdsl_error(), "cuFuncSetAttribute") != NULL, "%s", tdsl_error());
	fake->no_large_clusters = false;
	fake->cluster_width = 0;
}
END_TEST

/* True: by that variant.  NULL = by none, which must be said. */
static bool served(int rc, const char *variant, const char *text)
{
	struct tdsl_last last;
	if (!variant) {
		ck_assert_int_eq(rc, TDSL_ELAUNCH);
		HAS(text);
		return false;
	}
	OK(rc);
	OK(tdsl_last_call(&last));
	ck_assert_str_eq(last.predicate, variant);
	return true;
}

/* What has no place on the device is passed over, as a variant that cannot follow a tensor is, also where workspace is asked for, which here the
 * other variant alone needs; where nothing else is left the error says so. */
START_TEST(clusters_without_a_place)
{
	static const struct { enum first first; int rows; bool no_places; unsigned error; const char *variant; int workspace; const char *text; } calls[] = {
		{FIRST_TOGETHER, 3, false, 0, "M<=4 clusters", 0, NULL}, {FIRST_TOGETHER, 3, true, 0, "any", 64, NULL}, {FIRST_TOGETHER, 5, true, 0, "any", 64, NULL},
		{ONLY_TOGETHER, 3, false, 0, "M<=4 clusters", 0, NULL},
		{ONLY_TOGETHER, 3, true, 0, NULL, 0, "scale_add: cuda:1 has no place where clusters of 16 workgroups start together"},
		{ONLY_TOGETHER, 3, false, 1, NULL, 0, "cuOccupancyMaxActiveClusters"}};
	_Alignas(16) static uint8_t workspace[64];
	float x[250] = {0}, y[250];
	fake->cluster_width = 16;
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
		tdsl_pack_close(pack);
		free(bytes);
		pack_make_for(0, calls[i].first, ptx, sizeof ptx - 1);
		fake->no_places = calls[i].no_places;
		fake->places_error = calls[i].error;
		int64_t shape[] = {calls[i].rows, 50};
		DLTensor tx = tensor(x, 2, shape), ty = tensor(y, 2, shape);
		const union tdsl_arg args[] = {{.t = &tx}, {.t = NULL}, {.f = 2}, {.i = 3}, {.t = &ty}};
		int64_t room = tdsl_workspace(add, NULL, args, 5);
		ck_assert_int_eq(room, calls[i].variant ? calls[i].workspace : TDSL_ELAUNCH);
		int rc = tdsl_call(add, NULL, args, 5, workspace, sizeof workspace), before = fake->launches;
		if (!served(rc, calls[i].variant, calls[i].text))
			continue;
		OK(tdsl_call(add, NULL, args, 5, workspace, sizeof workspace)); /* remembered */
		ck_assert_int_eq(fake->launches, before + 1);
	}
	fake->no_places = false;
	fake->places_error = 0;
	fake->cluster_width = 0;
}
END_TEST

/* Workgroups that wait for each other are launched so that all run at a time, by arguments one by one; where there is no room for as many, or nobody can
 * wait for others, another variant is taken, and where there is none the error says so. */
START_TEST(workgroups_that_meet)
{
	static const struct { enum first first; int rows, room; bool none; unsigned error; const char *variant; int workspace; const char *text; } calls[] = {
		{FIRST_MEETS, 4, 2, false, 0, "M<=4 clusters", 0, NULL}, {FIRST_MEETS, 3, 1, false, 0, "any", 64, NULL}, {FIRST_MEETS, 2, 1, false, 0, "M<=4 clusters", 0, NULL},
		{FIRST_MEETS, 2, 4, true, 0, "any", 64, NULL}, {FIRST_MEETS, 2, 0, false, 0, "any", 64, NULL},
		{ONLY_MEETS, 3, 1, false, 0, NULL, 0, "scale_add: cuda:1 has room for 2 workgroups at a time; 3 are to wait for each other"},
		{ONLY_MEETS, 3, 4, false, 1, NULL, 0, "cuOccupancyMaxActiveBlocksPerMultiprocessor"}};
	_Alignas(16) static uint8_t workspace[64];
	float x[250], y[250];
	fake->multiprocessors = 2;
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
		tdsl_pack_close(pack);
		tdsl_close(device);
		free(bytes);
		fake->room = calls[i].room;
		fake->no_meeting = calls[i].none;
		fake->room_error = calls[i].error;
		OK(tdsl_open(&device, "cuda:1"));
		pack_make_for(0, calls[i].first, ptx, sizeof ptx - 1);
		int64_t shape[] = {calls[i].rows, 50};
		DLTensor tx = tensor(x, 2, shape), ty = tensor(y, 2, shape);
		const union tdsl_arg args[] = {{.t = &tx}, {.t = NULL}, {.f = 2}, {.i = 3}, {.t = &ty}};
		for (int j = 0; j < 250; j++)
			x[j] = (float)j;
		ck_assert_int_eq(tdsl_workspace(add, NULL, args, 5), calls[i].variant ? calls[i].workspace : TDSL_ELAUNCH);
		fake->met = 0;
		int rc = tdsl_call(add, NULL, args, 5, workspace, sizeof workspace);
		if (!served(rc, calls[i].variant, calls[i].text))
			continue;
		ck_assert_int_eq(fake->met, !calls[i].workspace);
		ck_assert_float_eq(y[50 * calls[i].rows - 1], (float)(50 * calls[i].rows - 1) * 2 + 3);
	}
	fake->no_meeting = false;
	fake->room_error = 0;
}
END_TEST

/* A workgroup a row: of 512 clusters on the members are placed where there is room; of fewer, without clusters and where memory is slow, as the
 * driver does. */
START_TEST(many_clusters_are_balanced)
{
	static const struct { int width, rows; bool slow; int balanced; } rows[] = {
		{0, 8192, false, 0}, {2, 1023, false, 0}, {2, 1024, false, 1}, {16, 8191, false, 0}, {16, 8192, false, 1}, {16, 8192, true, 0}};
	float *x = calloc(8192 * 50, sizeof *x), *y = calloc(8192 * 50, sizeof *y);
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		tdsl_pack_close(pack);
		tdsl_close(device);
		free(bytes);
		fake->memory_khz = rows[i].slow ? 2604166 : 2604167;
		fake->memory_pins = 6144;
		OK(tdsl_open(&device, "cuda:1"));
		pack_make(0, ptx, sizeof ptx);
		fake->cluster_width = rows[i].width;
		fake->early = fake->balanced = 0;
		OK(run_add_rows(NULL, x, NULL, y, rows[i].rows));
		ck_assert_uint_eq(fake->grid[0], (unsigned)rows[i].rows);
		ck_assert_int_eq(fake->early, 1);
		ck_assert_int_eq(fake->balanced, rows[i].balanced);
	}
	fake->cluster_width = 0;
	free(x);
	free(y);
}
END_TEST

START_TEST(tensors_of_other_devices)
{
	float x[150] = {0}, y[150];
	static const struct { DLDevice place; bool taken; } rows[] = {
		{{kDLCUDA, 1}, true}, {{kDLCUDAHost, 0}, true}, {{kDLCUDAManaged, 0}, true}, {{kDLCUDA, 0}, false}, {{kDLROCM, 1}, false},
		{{kDLROCMHost, 0}, false}, {{kDLCPU, 0}, false}};
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		gpu = rows[i].place;
		ck_assert_int_eq(run_add(NULL, x, NULL, y), rows[i].taken ? 0 : TDSL_EDEVICE);
	}
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'x' is on DLPack device (1, 0); cuda:1 takes (2, 1)");
}
END_TEST

START_TEST(closing_unloads_and_releases)
{
	float x[150] = {0}, y[150];
	OK(run_add(NULL, x, NULL, y));
	ck_assert_int_eq(fake->retained, 1);
	tdsl_close(device);
	ck_assert_int_eq(fake->unloads, 1);
	ck_assert_int_eq(fake->retained, 0);
	OK(tdsl_open(&device, "cuda:1"));
	OK(run_add(NULL, x, NULL, y));
	ck_assert_int_eq(fake->loads, 2);
}
END_TEST

/* ---- what the driver refuses */

START_TEST(modules_that_are_refused)
{
	static const struct { unsigned error; const char *log; int code; const char *text; } rows[] = {
		{CUDA_UNSUPPORTED_PTX_VERSION, NULL, TDSL_ELAUNCH, "cuda:1: the pack's PTX is of version 8.7, newer than the driver, which is of CUDA 12.4, can "
		 "read; a newer driver, or a pack built where ptxas is installed, is needed"},
		{CUDA_NO_BINARY_FOR_GPU, NULL, TDSL_ELAUNCH, "cuda:1: the pack's PTX is not for this device (sm_90a), or newer than the driver, which is of CUDA 12.4"},
		{CUDA_INVALID_PTX, "line 9; syntax error", TDSL_ELAUNCH, "cuda:1: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218, as asked); PTX for sm_90a: line 9; "
		 "syntax error"}};
	float x[150] = {0}, y[150];
	tdsl_close(device);
	fake->version = 12040;
	OK(tdsl_open(&device, "cuda:1"));
	fake->load_error = rows[_i].error;
	fake->load_log = rows[_i].log;
	ck_assert_int_eq(run_add(NULL, x, NULL, y), rows[_i].code);
	ck_assert_str_eq(tdsl_error(), rows[_i].text);
	fake->load_error = 0; /* nothing of it stays */
	OK(run_add(NULL, x, NULL, y));
}
END_TEST

START_TEST(a_cubin_is_passed_as_it_is)
{
	static const char cubin[] = "\177ELF and so on";
	float x[150] = {0}, y[150];
	tdsl_pack_close(pack);
	free(bytes);
	pack_make(0, cubin, sizeof cubin);
	fake->load_error = CUDA_NO_BINARY_FOR_GPU;
	ck_assert_int_eq(run_add(NULL, x, NULL, y), TDSL_ELAUNCH);
	HAS("the pack's cubin is not for this device (sm_90a)");
	fake->load_error = 0;
	OK(run_add(NULL, x, NULL, y));
	ck_assert_str_eq(fake->image, cubin);
}
END_TEST

START_TEST(launches_that_are_refused)
{
	float x[150] = {0}, y[150];
	fake->launch_error = 701;                        /* too many resources: nothing ran, and other launches may */
	ck_assert_int_eq(run_add(NULL, x, NULL, y), TDSL_ELAUNCH);
	ck_assert_str_eq(tdsl_error(), "cuda:1: scale_add: cuLaunchKernelEx: CUDA_ERROR_OF_THE_TEST (701, as asked)");
	fake->launch_error = 0;
	OK(run_add(NULL, x, NULL, y));
}
END_TEST

#define X(name, number) {number, #name},
static const struct { unsigned error; const char *name; } faults[] = {CUDA_FAULTS(X)};
#undef X

static void faulted(int i, int rc, const char *call)
{
	char text[200];
	snprintf(text, sizeof text, "%s: CUDA_ERROR_%s (%u, as asked): of a kernel that was launched before; this process cannot use the device any more", call,
	         faults[i].name, faults[i].error);
	ck_assert_msg(rc == TDSL_ELAUNCH, "%s: %s: %s", call, tdsl_error_name(rc), tdsl_error());
	HAS(text);
}

/* A kernel that fails while it runs: the launch is well, whatever comes behind it tells, and nothing of it is taken for a mistake of the call. */
START_TEST(kernels_that_fail_while_they_run)
{
	float x[150] = {0}, y[150];
	void *p, *q;
	OK(tdsl_alloc(&p, device, sizeof x));
	fake->fault = faults[_i].error;
	OK(run_add(NULL, x, NULL, y));
	faulted(_i, tdsl_sync(NULL), "cuda:1: cuStreamSynchronize");
	faulted(_i, run_add(NULL, x, NULL, y), "cuda:1: scale_add: cuLaunchKernelEx");
	faulted(_i, tdsl_alloc(&q, device, sizeof x), "cuda:1: cuMemAlloc_v2");
	faulted(_i, tdsl_upload(device, p, x, sizeof x), "cuda:1: cuMemcpyHtoD_v2");
	faulted(_i, tdsl_download(device, x, p, sizeof x), "cuda:1: cuMemcpyDtoH_v2");
	faulted(_i, tdsl_free(device, p), "cuda:1: cuMemFree_v2");
	tdsl_pack_close(pack);
	free(bytes);
	pack_make(0, ptx, sizeof ptx - 1);
	faulted(_i, run_add(NULL, x, NULL, y), "cuda:1: cuModuleLoadDataEx");      /* of code that was not loaded yet */
	fake->faulted = false;
	fake->fault = 0;
	OK(tdsl_free(device, p));
}
END_TEST

/* The first launch tells which context is the device's. */
START_TEST(a_stream_of_another_device)
{
	float x[150] = {0}, y[150];
	int elsewhere;
	tdsl_stream other, own;
	OK(run_add(NULL, x, NULL, y));
	OK(tdsl_stream_open(&other, device, &elsewhere));
	OK(tdsl_stream_open(&own, device, fake->context));
	fake->launch_error = CUDA_INVALID_HANDLE;
	ck_assert_int_eq(run_add(other, x, NULL, y), TDSL_ELAUNCH);
	ck_assert_str_eq(tdsl_error(), "cuda:1: scale_add: the stream is another device's; expected one of cuda:1, or none");
	ck_assert_int_eq(run_add(own, x, NULL, y), TDSL_ELAUNCH);
	ck_assert_str_eq(tdsl_error(), "cuda:1: scale_add: cuLaunchKernelEx: CUDA_ERROR_OF_THE_TEST (400, as asked)");
	ck_assert_int_eq(run_add(NULL, x, NULL, y), TDSL_ELAUNCH);
	HAS("cuLaunchKernelEx: CUDA_ERROR_OF_THE_TEST (400, as asked)");
	tdsl_stream_close(other);
	tdsl_stream_close(own);
}
END_TEST

START_TEST(arguments_that_do_not_match_the_code)
{
	float x[150] = {0}, y[150];
	fake->arguments_more = 8;
	ck_assert_int_eq(run_add(NULL, x, NULL, y), TDSL_EPACK);
	ck_assert_str_eq(tdsl_error(), "cuda:1: scale_add: the function takes 80 bytes of arguments; the pack says 72");
	ck_assert_int_eq(fake->launches, 0);
}
END_TEST

/* ---- devices that are not there */

static void refused(const char *name, const char *text)
{
	tdsl_device d;
	int rc = tdsl_open(&d, name);
	ck_assert_msg(rc == TDSL_EDEVICE, "%s: %s: %s", name, tdsl_error_name(rc), tdsl_error());
	HAS(text);
}

START_TEST(drivers_and_devices_that_are_not_there)
{
	tdsl_device d;
	fake_find();
	refused("cuda:", "cuda:: expected cuda:N with N a device number");
	refused("cuda:x", "cuda:x: expected cuda:N");
	refused("cuda:2", "cuda:2: no device 2; there are 2");
	fake->devices = 1;
	refused("cuda:1", "cuda:1: no device 1; there is 1");
	fake->major = 8;
	refused("cuda:0", "cuda:0: Pretended GPU has compute capability 8.0; expected 9.0 (sm_90a)");
	fake->major = 10;
	refused("cuda:0", "cuda:0: Pretended GPU has compute capability 10.0; expected 9.0 (sm_90a)");
	fake->init_error = CUDA_NO_DEVICE;
	refused("cuda:0", "cuda:0: no device: cuInit: CUDA_ERROR_NO_DEVICE (100, as asked)");
	setenv("TDSL_CUDA_LIBRARY", "/no/such/libcuda.so.1", 1);
	refused("cuda:0", "cuda:0: TDSL_CUDA_LIBRARY: /no/such/libcuda.so.1: cannot open shared object file");
	setenv("TDSL_CUDA_LIBRARY", "libm.so.6", 1);
	refused("cuda:0", "cuda:0: libm.so.6 has no cuInit");
	ck_assert_int_eq(fake->retained, 0);
	unsetenv("TDSL_CUDA_LIBRARY"); /* the machine's own driver, if it has one */
	if (tdsl_open(&d, "cuda:0") == 0)
		tdsl_close(d);
	else
		ck_assert_msg(strstr(tdsl_error(), "cuda:0: ") == tdsl_error(), "%s", tdsl_error());
}
END_TEST

/* With no device open and none named, the first GPU there is: here no AMD one. */
START_TEST(the_default_device_is_the_gpu_there_is)
{
	struct tdsl_device_info info;
	tdsl_device d;
	unsetenv("TDSL_DEVICE");
	setenv("TDSL_HIP_LIBRARY", "/no/such/libamdhip64.so", 1);
	fake_find();
	fake->init_error = CUDA_NO_DEVICE;
	ck_assert_int_eq(tdsl_default(&d), TDSL_EDEVICE);
	HAS("there is no GPU (hip:0: TDSL_HIP_LIBRARY: /no/such/libamdhip64.so");
	HAS("; cuda:0: no device: cuInit");
	fake->init_error = 0;
	OK(tdsl_default(&d));
	OK(tdsl_device_query(&info, d));
	ck_assert_str_eq(info.name, "cuda:0");
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("rt_cuda");
	TCase *c = tcase_create("driver"), *none = tcase_create("none");
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	snprintf(library, sizeof library, "%.*slibcuda_fake.so", slash ? (int)(slash - argv[0]) + 1 : 0, argv[0]);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_call_reaches_the_driver);
	tcase_add_loop_test(c, memory_chooses_a_variant, 0, 5);
	tcase_add_test(c, a_launch_has_the_lanes_that_it_says);
	tcase_add_test(c, the_call_path_neither_waits_nor_allocates);
	tcase_add_test(c, nothing_is_compiled_during_a_capture);
	tcase_add_test(c, the_caller_keeps_its_context);
	tcase_add_test(c, phases_and_workspace);
	tcase_add_loop_test(c, group_memory, 0, 6);
	tcase_add_test(c, many_workgroups);
	tcase_add_test(c, clusters);
	tcase_add_test(c, clusters_without_a_place);
	tcase_add_test(c, workgroups_that_meet);
	tcase_add_test(c, many_clusters_are_balanced);
	tcase_add_test(c, tensors_of_other_devices);
	tcase_add_test(c, closing_unloads_and_releases);
	tcase_add_loop_test(c, modules_that_are_refused, 0, 3);
	tcase_add_test(c, a_cubin_is_passed_as_it_is);
	tcase_add_test(c, launches_that_are_refused);
	tcase_add_loop_test(c, kernels_that_fail_while_they_run, 0, sizeof faults / sizeof *faults);
	tcase_add_test(c, a_stream_of_another_device);
	tcase_add_test(c, arguments_that_do_not_match_the_code);
	tcase_add_test(none, drivers_and_devices_that_are_not_there);
	tcase_add_test(none, the_default_device_is_the_gpu_there_is);
	suite_add_tcase(s, c);
	suite_add_tcase(s, none);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
