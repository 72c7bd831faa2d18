/* rt_jit_test.c -- tdsl_compile with a compile library made for the test: it counts its calls in a file and returns a pack that
 * lies in another.  What is tested is the runtime's part: finding the library, keys, the cache, errors. */
#include <check.h>
#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../runtime/include/tdsl.h"
#include "rt_model.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())

static char folder[] = "/tmp/rt_jitXXXXXX", cache[64], compiler[64];

static const char library[] =
	"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
	"int tdslc_compile(const char *t, size_t n, const char *f, const void *o, void **p, size_t *s, char **m)\n"
	"{\n"
	"	char path[99]; FILE *c, *k; (void)o;\n"
	"	snprintf(path, sizeof path, \"%s/calls\", getenv(\"RT_JIT\")); c = fopen(path, \"a\"); fputc('x', c); fclose(c);\n"
	"	*m = NULL;\n"
	"	if (n >= 3 && !memcmp(t, \"bad\", 3)) { *m = malloc(200);\n"
	"		snprintf(*m, 200, \"%s:1:2: warning: odd\\n%s:3:4: error: found bad; expected good\\nbad\\n^\\n\", f, f); return -1; }\n"
	"	if (n >= 4 && !memcmp(t, \"none\", 4)) { *m = strdup(\"error: found nothing\\n\"); return -1; }\n"
	"	snprintf(path, sizeof path, \"%s/pack\", getenv(\"RT_JIT\")); k = fopen(path, \"rb\");\n"
	"	*p = malloc(1 << 20); *s = fread(*p, 1, 1 << 20, k); fclose(k);\n"
	"	if (n >= 4 && !memcmp(t, \"junk\", 4)) *s /= 2;\n"
	"	return 0;\n"
	"}\n"
	"const char *tdslc_identity(void) { const char *i = getenv(\"RT_IDENTITY\"); return i ? i : \"test 1\"; }\n"
	"void tdslc_free(void *p) { free(p); }\n";

static void setup(void)
{
	char path[128], command[400], err[200];
	size_t size;
	tdsl_device d;
	ck_assert(mkdtemp(folder) != NULL);
	setenv("RT_JIT", folder, 1);
	void *p = rt_pack(&size, false);
	snprintf(path, sizeof path, "%s/pack", folder);
	ck_assert_int_eq(outfile_write(path, p, size, err, sizeof err), 0);
	free(p);
	snprintf(path, sizeof path, "%s/c.c", folder);
	FILE *f = fopen(path, "w");
	ck_assert(f && fputs(library, f) >= 0 && fclose(f) == 0);
	snprintf(compiler, sizeof compiler, "%s/libtdslc.so", folder);
	snprintf(command, sizeof command, "cc -shared -fPIC -O1 -o %s %s", compiler, path);
	ck_assert_int_eq(system(command), 0);
	snprintf(cache, sizeof cache, "%s/deep/cache", folder);
	setenv("TDSL_CACHE_DIR", cache, 1);
	setenv("TDSL_COMPILER", compiler, 1);
	OK(tdsl_open(&d, "null:gfx942"));
}

static void teardown(void)
{
	char command[128];
	snprintf(command, sizeof command, "rm -r %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static int calls(void)
{
	char path[128];
	struct stat st;
	snprintf(path, sizeof path, "%s/calls", folder);
	return stat(path, &st) == 0 ? (int)st.st_size : 0;
}

/* Compiles, uses and closes. */
static void compile(const char *text, const struct tdsl_compile_options *o)
{
	tdsl_pack p;
	tdsl_kernel k;
	OK(tdsl_compile(&p, text, strlen(text), "t.tdsl", o));
	OK(tdsl_kernel_find(&k, p, "scale_add"));
	OK(tdsl_pack_verify(p));
	tdsl_pack_close(p);
}

START_TEST(second_compile_comes_from_the_cache)
{
	static const char *const targets[] = {"gfx950", NULL}, *const kernels[] = {"a", NULL}, *const both[] = {"a", "b", NULL};
	compile("one", NULL);
	ck_assert_int_eq(calls(), 1);
	compile("one", NULL);
	ck_assert_int_eq(calls(), 1);
	compile("two", NULL);
	compile("one", &(struct tdsl_compile_options){.targets = targets});
	compile("one", &(struct tdsl_compile_options){.kernels = kernels});
	compile("one", &(struct tdsl_compile_options){.kernels = both});
	compile("one", &(struct tdsl_compile_options){.instances = kernels});
	compile("one", &(struct tdsl_compile_options){.library_path = "/lib"});
	ck_assert_int_eq(calls(), 7);
	setenv("RT_IDENTITY", "test 2", 1); /* another compiler */
	compile("one", NULL);
	ck_assert_int_eq(calls(), 8);
	compile("one", &(struct tdsl_compile_options){.jobs = 3}); /* decides nothing */
	ck_assert_int_eq(calls(), 8);
	setenv("TDSL_CACHE_DIR", "", 1);
	compile("one", NULL);
	compile("one", NULL);
	ck_assert_int_eq(calls(), 10);
}
END_TEST

/* Puts `n` bytes at `offset` into every entry of the cache, or cuts it there (n = 0). */
static void entries_spoil(long offset, int n)
{
	DIR *d = opendir(cache);
	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));) {
		char path[400];
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", cache, e->d_name);
		if (n == 0) {
			ck_assert_int_eq(truncate(path, offset), 0);
			continue;
		}
		FILE *f = fopen(path, "r+b");
		fseek(f, offset, offset < 0 ? SEEK_END : SEEK_SET);
		for (int i = 0; i < n; i++)
			fputc(0x55, f);
		fclose(f);
	}
	closedir(d);
}

START_TEST(damaged_entries_are_rebuilt)
{
	compile("one", NULL);
	entries_spoil(200, 4);
	compile("one", NULL);
	ck_assert_int_eq(calls(), 2);
	entries_spoil(-40, 4); /* inside a code object */
	compile("one", NULL);
	ck_assert_int_eq(calls(), 3);
	entries_spoil(100, 0);
	compile("one", NULL);
	ck_assert_int_eq(calls(), 4);
	entries_spoil(0, 0);
	compile("one", NULL);
	ck_assert_int_eq(calls(), 5);
	compile("one", NULL);
	ck_assert_int_eq(calls(), 5);
}
END_TEST

START_TEST(cache_that_cannot_be_written_is_no_error)
{
	setenv("TDSL_CACHE_DIR", "/dev/null/cache", 1);
	compile("one", NULL);
	ck_assert_ptr_nonnull(strstr(tdsl_compile_messages(), "warning: compile cache: /dev/null/cache: "));
	compile("one", NULL); /* from memory, without a second warning */
	ck_assert_str_eq(tdsl_compile_messages(), "");
	ck_assert_int_eq(calls(), 1);
}
END_TEST

START_TEST(no_folder_for_the_cache)
{
	unsetenv("TDSL_CACHE_DIR");
	unsetenv("XDG_CACHE_HOME");
	if (_i)
		setenv("HOME", "relative", 1);
	else
		unsetenv("HOME");
	compile("one", NULL);
	ck_assert_str_eq(tdsl_compile_messages(), "warning: compile cache: no folder: TDSL_CACHE_DIR is not set, and neither XDG_CACHE_HOME nor HOME is "
	                 "an absolute path\n");
	compile("one", NULL); /* from memory, without a second warning */
	ck_assert_str_eq(tdsl_compile_messages(), "");
	ck_assert_int_eq(calls(), 1);
}
END_TEST

static int entries(void)
{
	int n = 0;
	DIR *d = opendir(cache);
	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));)
		n += strstr(e->d_name, ".jit") != NULL;
	closedir(d);
	return n;
}

START_TEST(cache_of_no_bytes_keeps_nothing)
{
	compile("one", NULL);
	ck_assert_int_eq(entries(), 1);
	setenv("TDSL_CACHE_MAX", "0", 1);
	compile("two", NULL);
	ck_assert_int_eq(entries(), 0);
	compile("two", NULL); /* in memory it is */
	ck_assert_int_eq(calls(), 2);
}
END_TEST

START_TEST(values_outside_the_table)
{
	static const char *const rows[][3] = {
		{"TDSL_CACHE_DIR", "relative", "TDSL_CACHE_DIR is \"relative\"; expected an absolute path, or \"\" for no cache"},
		{"TDSL_CACHE_MAX", "10 MB", "TDSL_CACHE_MAX is \"10 MB\"; expected a number of bytes such as 500000, 512K, 64M or 2G"},
		{"TDSL_CACHE_MAX", "99999999999G", NULL}, {"TDSL_CACHE_MAX", "-1", NULL},
		{"TDSL_JIT", "no", "TDSL_JIT is \"no\"; expected 0 or 1"}, {"TDSL_JIT", "2", NULL}, {"TDSL_REBUILD", "yes", NULL},
		{"TDSL_BATCH_INVARIANT", "true", NULL}, {"TDSL_JOBS", "0", "TDSL_JOBS is \"0\"; expected a number from 1 to 1024"}, {"TDSL_JOBS", "4x", NULL},
		{"TDSL_DEVICE", "foo", "TDSL_DEVICE is \"foo\"; expected hip:N, cuda:N, sim:gfx942, sim:gfx950, null:gfx942, null:gfx950 or null:sm_90a"},
		{"TDSL_DEVICE", "hip:", NULL}, {"TDSL_DEVICE", "hip:-1", NULL}, {"TDSL_DEVICE", "cuda:0x", NULL}, {"TDSL_DEVICE", "sim:gfx999", NULL},
		{"TDSL_DISABLE", "a;b/", "TDSL_DISABLE is \"a;b/\"; expected kernel or kernel/variant, separated by ';'"}, {"TDSL_DISABLE", "/any", NULL},
		{"TDSL_LOG", "all", "TDSL_LOG is \"all\"; expected off, warn, info or debug"}};
	for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
		tdsl_pack p;
		tdsl_device d;
		char *before = getenv(rows[i][0]) ? strdup(getenv(rows[i][0])) : NULL;
		setenv(rows[i][0], rows[i][1], 1);
		ck_assert_int_eq(tdsl_compile(&p, "one", 3, "t.tdsl", NULL), TDSL_EINVAL);
		ck_assert_ptr_nonnull(strstr(tdsl_error(), rows[i][0]));
		if (rows[i][2])
			ck_assert_str_eq(tdsl_error(), rows[i][2]);
		ck_assert_int_eq(tdsl_open(&d, "null:gfx950"), TDSL_EINVAL);
		if (before)
			setenv(rows[i][0], before, 1);
		else
			unsetenv(rows[i][0]);
		free(before);
	}
	compile("one", NULL);
	setenv("TDSL_REBUILD", "1", 1);
	compile("one", NULL);
	ck_assert_int_eq(calls(), 2);
	unsetenv("TDSL_REBUILD");
	compile("one  \n\n", NULL); /* the same text */
	ck_assert_int_eq(calls(), 2);
}
END_TEST

/* ---- what is told on standard error */

static FILE *log_file;
static int log_saved;

static void log_begin(const char *level)
{
	log_file = tmpfile();
	ck_assert_ptr_nonnull(log_file);
	setenv("TDSL_LOG", level, 1);
	log_saved = dup(2);
	dup2(fileno(log_file), 2);
}

static const char *log_end(void)
{
	static char text[4096];
	dup2(log_saved, 2);
	close(log_saved);
	unsetenv("TDSL_LOG");
	rewind(log_file);
	text[fread(text, 1, sizeof text - 1, log_file)] = 0;
	fclose(log_file);
	return text;
}

/* A call of scale_add on a fresh shape. */
static int call(tdsl_kernel k)
{
	static int64_t shape[] = {4, 8};
	DLTensor x = {(void *)0x10000000, {kDLCPU, 0}, 2, {TDSL_DL_FLOAT, 32, 1}, shape, NULL, 0}, y = x;
	const union tdsl_arg args[] = {{.t = &x}, {.t = NULL}, {.f = 2}, {.i = 0}, {.t = &y}};
	y.data = (void *)0x20000000;
	shape[0]++;
	return tdsl_call(k, NULL, args, 5, NULL, 0);
}

static const char *call_told(tdsl_kernel k, const char *disable)
{
	setenv("TDSL_DISABLE", disable, 1);
	log_begin("warn");
	int rc = call(k);
	const char *told = log_end();
	OK(rc);
	return told;
}

START_TEST(disabled_entries_that_nothing_answers_to_are_told_once)
{
	size_t size;
	tdsl_pack p;
	tdsl_kernel k;
	void *bytes = rt_pack(&size, false);
	OK(tdsl_pack_open_memory(&p, bytes, size));
	OK(tdsl_kernel_find(&k, p, "scale_add"));
	ck_assert_str_eq(call_told(k, "rmsnorm_quant/N%8=0 aligned;rmsnorm_quant;partial_sum/any"), "");
	ck_assert_str_eq(call_told(k, "scale_add/N=4096"),
	                 "tdsl: warn: TDSL_DISABLE names 'scale_add/N=4096'; no variant of the kernel has that text (tdslc list)\n");
	ck_assert_str_eq(call_told(k, "scale_add/N=4096"), "");
	ck_assert_str_eq(call_told(k, "Scale_add;;partial_sum/Any;nosuch/any"), /* partial_sum's is told when that is called */
	                 "tdsl: warn: TDSL_DISABLE names 'Scale_add'; no open pack has a kernel of that name\n"
	                 "tdsl: warn: TDSL_DISABLE names 'nosuch'; no open pack has a kernel of that name\n");
	setenv("TDSL_DISABLE", "scale_add/", 1);
	ck_assert_int_eq(call(k), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "TDSL_DISABLE is \"scale_add/\"; expected kernel or kernel/variant, separated by ';'");
	setenv("TDSL_DISABLE", "scale_add/any", 1);
	ck_assert_int_eq(call(k), TDSL_ETARGET);
	tdsl_pack_close(p);
	free(bytes);
}
END_TEST

static int count(const char *text, const char *what)
{
	int n = 0;
	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* The note that says what the compiler is, and an entry: of each it is told once what becomes of it, however often it is looked at. */
START_TEST(damage_is_told_once)
{
	int status;
	pid_t child = fork(); /* this process is to have looked at nothing yet */
	if (child == 0) {
		compile("one", NULL);
		_exit(0);
	}
	ck_assert(waitpid(child, &status, 0) == child && status == 0);
	entries_spoil(60, 4);
	log_begin("info");
	compile("one", NULL);
	const char *told = log_end();
	ck_assert_msg(count(told, ".id is damaged, of another format or not ours: passed over\n") == 1 &&
	              count(told, ".jit is damaged, of another format or not ours: compiled again\n") == 1 && count(told, "damaged") == 2, "%s", told);
}
END_TEST

START_TEST(errors_of_the_text)
{
	tdsl_pack p = NULL;
	ck_assert_int_eq(tdsl_compile(&p, "bad", 3, "t.tdsl", NULL), TDSL_ECOMPILE);
	ck_assert_str_eq(tdsl_error(), "t.tdsl:3:4: error: found bad; expected good");
	ck_assert_ptr_nonnull(strstr(tdsl_compile_messages(), "warning: odd"));
	ck_assert_ptr_null(p);
	ck_assert_int_eq(tdsl_compile(&p, "none", 4, "t.tdsl", NULL), TDSL_ECOMPILE); /* a message without a place */
	ck_assert_str_eq(tdsl_error(), "t.tdsl: error: found nothing");
	ck_assert_int_eq(tdsl_compile(&p, "junk", 4, "t.tdsl", NULL), TDSL_EPACK); /* a compiler that writes half a pack */
	compile("one", NULL);
	ck_assert_str_eq(tdsl_compile_messages(), "");
	ck_assert_int_eq(tdsl_compile(&p, NULL, 0, NULL, NULL), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "tdsl_compile: text is NULL");
}
END_TEST

static int compile_rc(const struct tdsl_compile_options *o)
{
	tdsl_pack p;
	return tdsl_compile(&p, "one", 3, "t.tdsl", o);
}

static int warm_rc(const char *kernel, const char *target, int jobs)
{
	return tdsl_warm_up(&(struct tdsl_warm){.text = "one", .n = 3, .file = "t.tdsl", .kernel = kernel, .target = target}, 1, jobs);
}

#define REFUSED(call, says) do { ck_assert_int_eq((call), TDSL_EINVAL); ck_assert_str_eq(tdsl_error(), says); } while (0)

START_TEST(arguments_that_make_no_sense)
{
	static const char *const targets[] = {"gfx942", "gfx999", NULL};
	const char *name;
	DLDataType dl;
	tdsl_pack p;
	tdsl_kernel k;
	REFUSED(compile_rc(&(struct tdsl_compile_options){.targets = targets}), "tdsl_compile: unknown target 'gfx999'; expected gfx942, gfx950 or sm_90a");
	REFUSED(compile_rc(&(struct tdsl_compile_options){.library_path = "/no/such"}), "tdsl_compile: library_path: /no/such: No such file or directory");
	REFUSED(compile_rc(&(struct tdsl_compile_options){.library_path = "/dev/null"}), "tdsl_compile: library_path: /dev/null: not a folder");
	REFUSED(compile_rc(&(struct tdsl_compile_options){.jobs = -1}), "tdsl_compile: jobs is -1; expected 0 to 1024");
	REFUSED(compile_rc(&(struct tdsl_compile_options){.jobs = 1025}), "tdsl_compile: jobs is 1025; expected 0 to 1024");
	OK(compile_rc(&(struct tdsl_compile_options){.jobs = 1024}));
	REFUSED(warm_rc("scale_add", "gfx942", -3), "tdsl_warm_up: jobs is -3; expected 0 to 1024");
	REFUSED(warm_rc("scale_add", "gfx942", 100000), "tdsl_warm_up: jobs is 100000; expected 0 to 1024");
	REFUSED(warm_rc("scale_add", "gfx9", 1), "tdsl_warm_up: item 0 of 1: scale_add: unknown target 'gfx9'; expected gfx942, gfx950 or sm_90a");
	REFUSED(warm_rc(NULL, "gfx942", 1), "tdsl_warm_up: item 0 of 1: kernel is NULL");
	OK(tdsl_compile(&p, "one", 3, "t.tdsl", NULL));
	OK(tdsl_kernel_find(&k, p, "rmsnorm_quant"));
	REFUSED(tdsl_kernel_dtype(&name, &dl, k, 0, 3, "gfx999"), "tdsl_kernel_dtype: unknown target 'gfx999'; expected gfx942, gfx950 or sm_90a");
	OK(tdsl_kernel_dtype(&name, &dl, k, 0, 3, NULL));
	tdsl_pack_close(p);
	REFUSED(tdsl_warm_up(&(struct tdsl_warm){.pack = p, .kernel = "scale_add", .target = "gfx942"}, 1, 1),
	        "tdsl_warm_up: item 0 of 1: scale_add: the pack is closed");
}
END_TEST

/* What fails before the compiler runs has no messages, whatever the compile before it told. */
START_TEST(messages_are_of_the_last_compile)
{
	tdsl_pack p;
	ck_assert_int_eq(tdsl_compile(&p, "bad", 3, "t.tdsl", NULL), TDSL_ECOMPILE);
	ck_assert_int_eq(tdsl_compile(&p, NULL, 0, NULL, NULL), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_compile_messages(), "");
	ck_assert_int_eq(tdsl_compile(&p, "bad", 3, "t.tdsl", NULL), TDSL_ECOMPILE);
	setenv("TDSL_JIT", "0", 1);
	ck_assert_int_eq(tdsl_compile(&p, "one", 3, "t.tdsl", NULL), TDSL_EUNSUPPORTED);
	ck_assert_str_eq(tdsl_compile_messages(), "");
	unsetenv("TDSL_JIT");
	ck_assert_int_eq(tdsl_compile(&p, "bad", 3, "t.tdsl", NULL), TDSL_ECOMPILE);
	setenv("TDSL_JOBS", "none", 1);
	ck_assert_int_eq(tdsl_compile(&p, "one", 3, "t.tdsl", NULL), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_compile_messages(), "");
	unsetenv("TDSL_JOBS");
	ck_assert_int_eq(tdsl_warm_up(&(struct tdsl_warm){.text = "bad", .n = 3, .file = "t.tdsl", .kernel = "a", .target = "gfx942"}, 1, 1), TDSL_ECOMPILE);
	ck_assert_int_eq(tdsl_warm_up(&(struct tdsl_warm){.text = "one", .n = 3, .file = "t.tdsl"}, 1, 1), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_compile_messages(), "");
}
END_TEST

START_TEST(no_compiler)
{
	tdsl_pack p;
	setenv("TDSL_COMPILER", "/no/such/libtdslc.so", 1);
	ck_assert_int_eq(tdsl_compile(&p, "one", 3, "t.tdsl", NULL), TDSL_EUNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "no compiler: TDSL_COMPILER: /no/such/libtdslc.so"));
	setenv("TDSL_COMPILER", "libm.so.6", 1);
	ck_assert_int_eq(tdsl_compile(&p, "one", 3, "t.tdsl", NULL), TDSL_EUNSUPPORTED);
	ck_assert_str_eq(tdsl_error(), "no compiler: libm.so.6 has no tdslc_compile");
	setenv("TDSL_COMPILER", compiler, 1);
	setenv("TDSL_JIT", "0", 1);
	ck_assert_int_eq(tdsl_compile(&p, "one", 3, "t.tdsl", NULL), TDSL_EUNSUPPORTED);
	ck_assert_str_eq(tdsl_error(), "compiling in process is forbidden by TDSL_JIT=0");
	setenv("TDSL_JIT", "1", 1);
	compile("one", NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rt_jit");
	TCase *c = tcase_create("jit");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, second_compile_comes_from_the_cache);
	tcase_add_test(c, damaged_entries_are_rebuilt);
	tcase_add_test(c, cache_that_cannot_be_written_is_no_error);
	tcase_add_loop_test(c, no_folder_for_the_cache, 0, 2);
	tcase_add_test(c, cache_of_no_bytes_keeps_nothing);
	tcase_add_test(c, values_outside_the_table);
	tcase_add_test(c, disabled_entries_that_nothing_answers_to_are_told_once);
	tcase_add_test(c, damage_is_told_once);
	tcase_add_test(c, errors_of_the_text);
	tcase_add_test(c, arguments_that_make_no_sense);
	tcase_add_test(c, messages_are_of_the_last_compile);
	tcase_add_test(c, no_compiler);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
