/* sim_tool_test.c -- tdsl-sim from its command line: results in safetensors, statistics, and every refusal with its
 * exit code and words.  TDSL_SIM_TOOL names the program (build/tdsl-sim). */
#include "../base/tensorfile.h"
#include "sim_build.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64], output[65536], err[256];

/* Runs the tool in the test's folder; its two outputs come together. */
static int tool(const char *args)
{
	char command[2048], full[512];
	const char *path = getenv("TDSL_SIM_TOOL");
	ck_assert_ptr_nonnull(realpath(path ? path : "build/tdsl-sim", full));
	snprintf(command, sizeof command, "cd %s && %s %s 2>&1", dir, full, args);
	FILE *p = popen(command, "r");
	ck_assert_ptr_nonnull(p);
	output[fread(output, 1, sizeof output - 1, p)] = 0;
	int status = pclose(p);
	ck_assert_msg(WIFEXITED(status), "%s: ended by signal %d", args, WTERMSIG(status));
	return WEXITSTATUS(status);
}

static const char *in_dir(const char *name)
{
	static char path[128];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static void setup(void)
{
	static const int64_t shape[] = {256};
	int32_t x[256];
	size_t size;
	strcpy(dir, "/tmp/tdsl-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	uint8_t *object = sim_build("vector", "gfx950", "", &size);
	FILE *f = fopen(in_dir("k.hsaco"), "wb");
	ck_assert_uint_eq(fwrite(object, 1, size, f), size);
	fclose(f);
	free(object);
	for (int i = 0; i < 256; i++)
		x[i] = i;
	struct tensorfile_tensor t = {.name = "x", .dtype = DT_I32, .rank = 1, .shape = shape, .data = x};
	ck_assert_int_eq(tensorfile_write(in_dir("in.st"), &t, 1, err, sizeof err), 0);
}

static void teardown(void)
{
	char text[128];
	snprintf(text, sizeof text, "rm -r %s", dir);
	ck_assert_int_eq(system(text), 0);
}

START_TEST(runs)
{
	struct tensorfile *f;
	int rc = tool("k.hsaco vector_add --grid 2 --block 256,1,1 --arg new:y:1024 buf:x --arg i32:-5 --in in.st --out out.st --stats --seed 3");
	ck_assert_msg(rc == 0, "%s", output);
	ck_assert_ptr_nonnull(strstr(output, "\"waves\":8,\"workgroups\":2,"));
	ck_assert_msg(tensorfile_open(&f, in_dir("out.st"), err, sizeof err) == 0, "%s", err);
	ck_assert_int_eq(tensorfile_count(f), 2);
	ck_assert_int_eq(tensorfile_find(f, "x")->dtype, DT_I32);
	ck_assert_int_eq(tensorfile_find(f, "y")->dtype, DT_U8);
	const int32_t *y = tensorfile_find(f, "y")->data;
	for (int i = 0; i < 256; i++)
		ck_assert_int_eq(y[i], i - 5 + 2);
	tensorfile_close(f);
	ck_assert_int_eq(tool("k.hsaco vector_add --grid 1 --block 256 --arg buf:x buf:x i32:7 --in in.st --out in.st"), 0);
	ck_assert_str_eq(output, "");
	ck_assert_int_eq(tensorfile_open(&f, in_dir("in.st"), err, sizeof err), 0);
	ck_assert_int_eq(((int32_t *)tensorfile_find(f, "x")->data)[255], 255 + 8);
	tensorfile_close(f);
	ck_assert_int_eq(tool("k.hsaco --list"), 0);
	ck_assert_ptr_nonnull(strstr(output, "vector_add  gfx950"));
}
END_TEST

START_TEST(refusals)
{
	static const struct { int code; const char *args, *text; } bad[] = {
		{2, "", "tdsl-sim FILE.hsaco"},
		{2, "k.hsaco vector_add --block 256", "tdsl-sim FILE.hsaco"},
		{2, "k.hsaco vector_add more", "'more' is one name too many"},
		{2, "k.hsaco vector_add --grid 1,2,3,4 --block 1", "--grid: '1,2,3,4' is not X,Y,Z"},
		{2, "k.hsaco vector_add --grid 1, --block 1", "--grid: '1,' is not X,Y,Z"},
		{2, "k.hsaco vector_add --grid 99999999999999999999 --block 1", "is not X,Y,Z"},
		{2, "k.hsaco vector_add --grid 4294967296 --block 1", "is not X,Y,Z"},
		{2, "k.hsaco vector_add --grid -1 --block 1", "--grid: '-1' is not X,Y,Z"},
		{2, "k.hsaco vector_add --seed x", "--seed x is not understood"},
		{2, "k.hsaco vector_add --nonsense 1", "--nonsense 1 is not understood"},
		{2, "k.hsaco vector_add --grid", "--grid: unknown, or without its value"},
		{1, "none.hsaco --list", "none.hsaco: No such file"},
		{1, "in.st --list", "in.st: code object: not an ELF file"},
		{1, "k.hsaco vector_ad --grid 1 --block 1", "has no kernel 'vector_ad'"},
		{1, "k.hsaco vector_add --grid 1 --block 1 --in none.st", "none.st: cannot open"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg buf:x", "buf:x needs --in"},
		{1, "k.hsaco vector_add --grid 1 --block 1 --in in.st --arg buf:z", "in.st has no tensor 'z'"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:0 ptr:0", "no --arg for argument 2 ('n', 4 bytes)"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:0 ptr:0 i32:1 i32:2", "takes 3 arguments, 4 are given"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:0 ptr:0 i64:1", "--arg i64:1 has 8 bytes, argument 'n' has 4"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:0 ptr:0 i32:99999999999", "not a number in"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:0 ptr:0 f32:1x", "not a number"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:0 ptr:0 f32:1e39", "--arg f32:1e39: too large for f32"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:0 ptr:0 f64:1e400", "--arg f64:1e400: too large for f64"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg ptr:1", "--arg ptr:1: not a number in 0..0"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg what", "--arg what: unknown form"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg new:y", "not new:NAME:BYTES"},
		{2, "k.hsaco vector_add --grid 1 --block 1 --arg new:y:4 new:y:4", "two buffers are called 'y'"},
		{1, "k.hsaco vector_add --grid 1 --block 2048 --arg ptr:0 ptr:0 i32:0", "vector_add"},
		{2, "k.hsaco vector_add --grid 1,0 --block 64", "--grid: '1,0' is not X,Y,Z, each at least 1"},
		{1, "k.hsaco vector_add --grid 1 --block 64 --arg new:y:255 buf:x i32:0 --in in.st --out o.st", "past the end of 'y' (255 bytes)"},
		{1, "k.hsaco vector_add --grid 1 --block 64 --arg ptr:0 buf:x i32:0 --in in.st --out o.st", "vector.tdsl:7"},
		{1, "k.hsaco vector_add --grid 1 --block 64 --arg new:y:256 buf:x i32:0 --in in.st --out /dev/full", "No space left on device"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		int rc = tool(bad[i].args);
		ck_assert_msg(rc == bad[i].code && strstr(output, bad[i].text), "%s: exit %d, %s", bad[i].args, rc, output);
		ck_assert(access(in_dir("o.st"), F_OK) != 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim_tool");
	TCase *c = tcase_create("all");
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, runs);
	tcase_add_test(c, refusals);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
