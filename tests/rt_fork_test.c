/* rt_fork_test.c -- what goes on in a forked child: packs, lists, simulated devices and compiling do, also when other threads of the
 * parent are in the middle of it; the devices of real drivers are refused.  libtdslc.so and libtdsl_sim.so lie in the folder above
 * this program. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "../runtime/include/tdsl.h"
#include "rt_library.h"
#include "rt_model.h"

/* Children of several threads inherit locks of AddressSanitizer's allocator that nobody frees (GCC 12 has no handler for forks). */
#ifdef __SANITIZE_ADDRESS__
enum { THREADS_MAY_FORK = 0 };
#else
enum { THREADS_MAY_FORK = 1 };
#endif

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())
/* In a child: its status tells the line. */
#define MUST(condition) do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, tdsl_error()); _exit(1); } } while (0)

static const char program[] =
	"kernel scaled(x: f32[M, N], w: f32[N]) -> y: f32[M, N]\n{\n    each m in M {\n        n = 0..N\n        y[m, n] = x[m, n] * w[n]\n    }\n}\n";
static uint8_t *bytes;
static size_t size;
static tdsl_pack pack;
static tdsl_kernel add;
static float x[64], y[64];
static int64_t shape[] = {1, 64};

static void setup(void)
{
	bytes = rt_pack(&size, true);
	OK(tdsl_pack_open_memory(&pack, bytes, size));
	OK(tdsl_kernel_find(&add, pack, "scale_add"));
	for (int i = 0; i < 64; i++)
		x[i] = (float)i;
	setenv("TDSL_CACHE_DIR", "", 1);
}

static void teardown(void)
{
	tdsl_pack_close(pack);
	free(bytes);
}

static DLTensor tensor(void *data, DLDevice device)
{
	return (DLTensor){data, device, 2, {TDSL_DL_FLOAT, 32, 1}, shape, NULL, 0};
}

static int call(tdsl_stream s, const DLTensor *tx, const DLTensor *ty)
{
	const union tdsl_arg args[] = {{.t = tx}, {.t = NULL}, {.f = 2}, {.i = 3}, {.t = ty}};
	return tdsl_call(add, s, args, 5, NULL, 0);
}

/* Waits for a child that must end well. */
static void child_wait(pid_t pid)
{
	int status;
	pid_t got;
	while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	ck_assert_int_eq(got, pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended by %s %d", WIFEXITED(status) ? "status" : "signal",
	              WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static bool lost(int rc)
{
	return rc == TDSL_EDEVICE && strstr(tdsl_error(), "was opened before this process was forked");
}

START_TEST(devices_of_drivers_are_refused)
{
	tdsl_device d, other;
	tdsl_stream s;
	tdsl_list list;
	struct tdsl_device_info info;
	void *px, *py;
	setenv("TDSL_HIP_LIBRARY", getenv("TDSL_SIM_LIBRARY"), 1);
	setenv("TDSL_DEVICE", "hip:0", 1);
	OK(tdsl_open(&d, "hip:0"));
	OK(tdsl_stream_open(&s, d, NULL));
	OK(tdsl_device_query(&info, d));
	OK(tdsl_alloc(&px, d, sizeof x));
	OK(tdsl_alloc(&py, d, sizeof y));
	DLTensor tx = tensor(px, info.dl), ty = tensor(py, info.dl);
	const DLTensor *tensors[] = {&tx};
	OK(tdsl_list_open(&list, d, tx.dtype, tensors, 1));
	OK(call(s, &tx, &ty));
	pid_t pid = fork();
	if (pid == 0) {
		MUST(lost(call(s, &tx, &ty)));
		MUST(lost(call(NULL, &tx, &ty)));
		MUST(lost(tdsl_alloc(&px, d, 64)));
		MUST(lost(tdsl_upload(d, px, x, 64)));
		MUST(lost(tdsl_sync(s)));
		MUST(lost(tdsl_kernel_load(add, s)));
		MUST(lost(tdsl_open(&other, "hip:0")));
		MUST(lost(tdsl_open(&other, "hip:1")));
		MUST(lost(tdsl_default(&other)));
		MUST(lost(tdsl_list_open(&list, d, tx.dtype, tensors, 1)));
		tdsl_list_close(list);
		tdsl_stream_close(s);
		tdsl_close(d);
		MUST(tdsl_open(&other, "null:gfx942") == 0 && call(NULL, &tx, &ty) == 0); /* any tensors; now the default */
		tdsl_pack_close(pack);
		_exit(0);
	}
	child_wait(pid);
	OK(call(s, &tx, &ty)); /* the parent goes on */
	tdsl_list_close(list);
	tdsl_stream_close(s);
	tdsl_close(d);
}
END_TEST

START_TEST(packs_lists_and_simulated_devices_go_on)
{
	tdsl_device d;
	tdsl_list list;
	DLTensor tx = tensor(x, (DLDevice){kDLCPU, 0}), ty = tensor(y, (DLDevice){kDLCPU, 0});
	const DLTensor *tensors[] = {&tx};
	OK(tdsl_open(&d, "sim:gfx942"));
	OK(tdsl_list_open(&list, d, tx.dtype, tensors, 1));
	OK(call(NULL, &tx, &ty));
	memset(y, 0, sizeof y);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(30);
		MUST(call(NULL, &tx, &ty) == 0);
		for (int i = 0; i < 64; i++)
			MUST(y[i] == x[i] * 2 + 3);
		MUST(tdsl_list_tensor(list)->shape[1] == 64);
		tdsl_list_close(list);
		tdsl_close(d);
		tdsl_pack_close(pack);
		_exit(0);
	}
	child_wait(pid);
	ck_assert(y[1] == 0);
	tdsl_list_close(list);
	tdsl_close(d);
}
END_TEST

static atomic_bool stop;
static atomic_int compiled;

/* Takes every lock that is held for short spans, over and over. */
static void *lock_thread(void *arg)
{
	while (!stop) {
		tdsl_pack p;
		tdsl_kernel k;
		struct tdsl_param_info info;
		if (tdsl_pack_open_memory(&p, bytes, size) < 0 || tdsl_kernel_find(&k, p, "scale_add") < 0 || tdsl_kernel_param(&info, k, 0) < 0 ||
		    tdsl_kernel_param(&info, add, 0) < 0)
			return arg;
		tdsl_pack_close(p);
	}
	return NULL;
}

START_TEST(locks_of_other_threads_are_free)
{
	pthread_t threads[4];
	void *failed;
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, lock_thread, &stop), 0);
	for (int i = 0; i < 400; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			tdsl_pack p;
			struct tdsl_param_info info;
			tdsl_device d;
			alarm(20);
			MUST(tdsl_kernel_param(&info, add, 0) == 0);
			MUST(tdsl_pack_open_memory(&p, bytes, size) == 0);
			MUST(tdsl_open(&d, "null:gfx942") == 0);
			tdsl_pack_close(p);
			tdsl_close(d);
			_exit(0);
		}
		child_wait(pid);
	}
	stop = true;
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
}
END_TEST

static int compile(void)
{
	static const char *const targets[] = {"gfx942", NULL};
	tdsl_pack p;
	int rc = tdsl_compile(&p, program, strlen(program), "t.tdsl", &(struct tdsl_compile_options){.targets = targets, .jobs = 2});
	if (rc == 0)
		tdsl_pack_close(p);
	return rc;
}

static void *compile_thread(void *arg)
{
	while (!stop) {
		if (compile() < 0) {
			fprintf(stderr, "%s\n", tdsl_error());
			return arg;
		}
		compiled++;
	}
	return NULL;
}

/* Children that compile, and children that only sit there: neither keeps the parent's compiles from ending. */
START_TEST(compiling_goes_on_in_both)
{
	enum { SITTING = 30 };
	pthread_t threads[2];
	pid_t sitting[SITTING];
	void *failed;
	OK(compile());
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, compile_thread, &stop), 0);
	for (int i = 0; i < SITTING; i++) {
		if ((sitting[i] = fork()) == 0) {
			pause();
			_exit(0);
		}
		if (i % 5 == 0) {
			pid_t pid = fork();
			if (pid == 0) {
				alarm(60);
				MUST(compile() == 0);
				_exit(0);
			}
			child_wait(pid);
		}
		usleep(3000);
	}
	int before = compiled;
	for (int i = 0; i < 300 && compiled < before + 6; i++)
		usleep(100000);
	bool going = compiled >= before + 6;
	for (int i = 0; i < SITTING; i++) {
		kill(sitting[i], SIGKILL);
		waitpid(sitting[i], NULL, 0);
	}
	stop = true;
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert_msg(going, "the parent's compiles wait for its children");
}
END_TEST

int main(int argc, char **argv)
{
	Suite *s = suite_create("rt_fork");
	TCase *c = tcase_create("fork");
	if (argc > 0) {
		library_set("TDSL_SIM_LIBRARY", "libtdsl_sim.so", argv[0]);
		library_set("TDSL_COMPILER", "libtdslc.so", argv[0]);
	}
	tcase_set_timeout(c, 300);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, devices_of_drivers_are_refused);
	tcase_add_test(c, packs_lists_and_simulated_devices_go_on);
	if (THREADS_MAY_FORK) {
		tcase_add_test(c, locks_of_other_threads_are_free);
		tcase_add_test(c, compiling_goes_on_in_both);
	}
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
