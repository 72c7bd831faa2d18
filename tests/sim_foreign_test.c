/* sim_foreign_test.c -- kernels in OpenCL C, compiled by clang, on the simulated chips and on the host.
 *
 * tests/sim/foreign.cl holds the kernels; clang-22 compiles it for each chip and, as C, for the host; results must be the same
 * bits.  They cover integers, floats, doubles, halves, bytes, scratch, divergent loops, calls, LDS, barriers, atomics and flat
 * addresses, at two levels of optimisation.  Without clang-22 the tests are skipped. */
#include "../sim/sim.h"
#include "sim_build.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 4096 };
static const char *const names[] = {"integers", "wide", "floats", "doubles", "halves", "bytes", "sorted", "states", "calls", "bit_counts",
	"scan", "histogram", "transpose"};
static const struct { const char *chip, *opt; } builds[] = {{"gfx942", "-O2"}, {"gfx950", "-O2"}, {"gfx942", "-O0"}, {"gfx950", "-Os"}};
static char dir[] = "/tmp/tdsl-test-XXXXXX";
static uint32_t in[4 * N], out[N], want[N];
static void *host;

static void command(const char *format, const char *a, const char *b)
{
	const char *tests = getenv("TDSL_TESTS");
	char text[1024];
	snprintf(text, sizeof text, format, a, b, tests ? tests : "tests", dir);
	ck_assert_msg(system(text) == 0, "failed: %s", text);
}

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	command("clang-22 %s %s -x c -DHOST -fPIC -shared -w %s/sim/foreign.cl -o %s/host.so", "-O2 -Xclang -ffloat16-excess-precision=none", "-ffp-contract=off");
	char path[64];
	snprintf(path, sizeof path, "%s/host.so", dir);
	host = dlopen(path, RTLD_NOW);
	ck_assert_msg(host != NULL, "%s", dlerror());
	uint64_t s = 88172645463325252u;
	for (int i = 0; i < 4 * N; i++) {
		s ^= s << 13;
		s ^= s >> 7;
		s ^= s << 17;
		in[i] = (uint32_t)(s >> 16) >> (i % 97 == 0 ? 20 : 0);
	}
}

static void teardown(void)
{
	char text[64];
	dlclose(host);
	snprintf(text, sizeof text, "rm -r %s", dir);
	ck_assert_int_eq(system(text), 0);
}

static void run(struct sim_object *object, struct sim_memory *memory, const char *name, const char *build)
{
	char symbol[64], err[1024] = "";
	snprintf(symbol, sizeof symbol, "k_%s", name);
	const struct sim_kernel *k = sim_object_kernel(object, symbol);
	ck_assert_msg(k != NULL, "no kernel %s", name);
	static const uint32_t grid[3] = {N / 256, 1, 1}, block[3] = {256, 1, 1};
	unsigned char *kernarg = calloc(1, k->kernarg_size + 64u);
	const void *pointers[2] = {in, out};
	uint32_t seed = 0x12345678;
	memcpy(kernarg, pointers, sizeof pointers);
	memcpy(kernarg + sizeof pointers, &seed, sizeof seed);
	sim_kernarg_hidden(k, grid, block, 0, kernarg);
	memset(out, 0, sizeof out);
	memset(want, 0, sizeof want);
	struct sim_launch l = {.object = object, .kernel = k, .memory = memory, .grid = {N / 256, 1, 1}, .block = {256, 1, 1},
		.kernarg = kernarg, .kernarg_size = k->kernarg_size, .seed = 7, .threads = 2};
	ck_assert_msg(sim_run(&l, err, sizeof err) == SIM_OK, "%s: %s", build, err);
	snprintf(symbol, sizeof symbol, "host_%s", name);
	void (*f)(const uint32_t *, uint32_t *, uint32_t) = (void (*)(const uint32_t *, uint32_t *, uint32_t))dlsym(host, symbol);
	ck_assert_ptr_nonnull(f);
	f(in, want, seed);
	for (int i = 0; i < N; i++)
		ck_assert_msg(out[i] == want[i], "%s %s: item %d of %08x %08x %08x %08x gives %08x, on the host %08x", build, name, i, in[4 * i],
			in[4 * i + 1], in[4 * i + 2], in[4 * i + 3], out[i], want[i]);
	free(kernarg);
}

START_TEST(same_as_host)
{
	struct sim_object *object;
	char options[160], path[64], err[512];
	static uint8_t bytes[1 << 20];
	snprintf(options, sizeof options, "-x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=%s -nogpulib -cl-fp32-correctly-rounded-divide-sqrt", builds[_i].chip);
	command("clang-22 %s %s -ffp-contract=off -w %s/sim/foreign.cl -o %s/a.hsaco", options, builds[_i].opt);
	snprintf(path, sizeof path, "%s/a.hsaco", dir);
	FILE *f = fopen(path, "rb");
	ck_assert_ptr_nonnull(f);
	size_t size = fread(bytes, 1, sizeof bytes, f);
	fclose(f);
	ck_assert_msg(sim_object_load(&object, sim_chip_by_name(builds[_i].chip), bytes, size, err, sizeof err) == SIM_OK, "%s", err);
	struct sim_memory *memory = sim_memory_new();
	sim_memory_add(memory, in, sizeof in, "in", false);
	sim_memory_add(memory, out, sizeof out, "out", true);
	sim_object_map(object, memory);
	snprintf(options, sizeof options, "%s %s", builds[_i].chip, builds[_i].opt);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		run(object, memory, names[i], options);
	sim_memory_free(memory);
	sim_object_free(object);
} END_TEST

int main(void)
{
	if (system("command -v clang-22 >/dev/null 2>&1") != 0) {
		puts("skipped: clang-22, which tests/setup.sh installs on Debian, is not there\n100%: Checks: 0, Failures: 0, Errors: 0");
		return 0;
	}
	Suite *s = suite_create("sim_foreign");
	TCase *t = tcase_create("opencl");
	tcase_set_timeout(t, 300);
	tcase_add_unchecked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, same_as_host, 0, sizeof builds / sizeof *builds);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
