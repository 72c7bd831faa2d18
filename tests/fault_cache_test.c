/* fault_cache_test.c -- the compile cache under faults: killed writers, refused locks, torn renames, full and foreign disks.
 *
 * This program defines the system calls that the cache makes, so that a fault can be put on any of them: a kill at the n-th, an error
 * from one, a rename that copies byte by byte, a clock that is wrong.  The compiler is a library made for the test: it adds a byte to a
 * file at each compile and returns a pack.  In every case the pack that a caller gets is whole, and compiles are counted. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "../runtime/include/tdsl.h"
#include "rt_model.h"

#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())

/* ---- faults */
enum call { C_OPENAT, C_READ, C_WRITE, C_FSYNC, C_RENAME, C_UNLINK, C_LOCK, C_TIMES };
static struct { int armed, kill_at, calls, fail, error, torn, part; long clock; } fault = {.fail = -1};

/* One call of kind c comes; true with errno set where it is to fail. */
static bool faulty(enum call c)
{
	if (!fault.armed)
		return false;
	if (++fault.calls == fault.kill_at)
		kill(getpid(), SIGKILL);
	errno = fault.error;
	return fault.fail == (int)c;
}

int openat(int at, const char *path, int flags, ...)
{
	va_list ap;
	va_start(ap, flags);
	mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	bool made = flags & O_CREAT;
	return made && faulty(C_OPENAT) ? -1 : (int)syscall(SYS_openat, at, path, flags, mode);
}
ssize_t read(int fd, void *to, size_t n) { return faulty(C_READ) ? -1 : syscall(SYS_read, fd, to, n); }
ssize_t write(int fd, const void *from, size_t n)
{
	if (fd > 2 && faulty(C_WRITE)) {
		if (n <= 100 || fault.part++)
			return -1;
		return syscall(SYS_write, fd, from, n / 2); /* a disk is full in the middle of a write */
	}
	return syscall(SYS_write, fd, from, n);
}
int fsync(int fd) { return faulty(C_FSYNC) ? -1 : (int)syscall(SYS_fsync, fd); }
int unlinkat(int at, const char *path, int flags) { return faulty(C_UNLINK) ? -1 : (int)syscall(SYS_unlinkat, at, path, flags); }
int futimens(int fd, const struct timespec t[2]) { return faulty(C_TIMES) ? -1 : (int)syscall(SYS_utimensat, fd, NULL, t, 0); }
int fcntl(int fd, int command, ...)
{
	va_list ap;
	va_start(ap, command);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	bool lock = command == F_OFD_SETLK || command == F_OFD_SETLKW;
	return lock && faulty(C_LOCK) ? -1 : (int)syscall(SYS_fcntl, fd, command, arg);
}
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, t);
	if (clock == CLOCK_REALTIME)
		t->tv_sec += fault.clock;
	return rc;
}

/* A rename that others see half done, as on some network file systems. */
int renameat(int from_at, const char *from, int to_at, const char *to)
{
	char part[512];
	ssize_t n;
	if (faulty(C_RENAME))
		return -1;
	if (!fault.torn)
		return (int)syscall(SYS_renameat, from_at, from, to_at, to);
	unlinkat(to_at, to, 0);
	int in = (int)syscall(SYS_openat, from_at, from, O_RDONLY), out = (int)syscall(SYS_openat, to_at, to, O_WRONLY | O_CREAT, 0600);
	while ((n = syscall(SYS_read, in, part, sizeof part)) > 0) {
		faulty(C_RENAME);
		usleep(200);
		syscall(SYS_write, out, part, n);
	}
	close(in);
	close(out);
	return unlinkat(from_at, from, 0);
}

/* ---- the compiler and its counts */
static char folder[] = "/tmp/fault_cacheXXXXXX", cache[64], path[512];

static const char library[] =
	"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
	"int tdslc_compile(const char *t, size_t n, const char *f, const void *o, void **p, size_t *s, char **m)\n"
	"{\n"
	"	char path[99]; FILE *c; (void)o; (void)f;\n"
	"	snprintf(path, sizeof path, \"%s/calls\", getenv(\"RT_JIT\")); c = fopen(path, \"a\"); fputc('x', c); fclose(c);\n"
	"	*m = NULL;\n"
	"	if (n >= 3 && !memcmp(t, \"bad\", 3)) { *m = strdup(\"t:1:1: error: bad\"); return -1; }\n"
	"	if (n >= 4 && !memcmp(t, \"slow\", 4)) usleep(50000);\n"
	"	snprintf(path, sizeof path, \"%s/pack\", getenv(\"RT_JIT\")); c = fopen(path, \"rb\");\n"
	"	*p = malloc(1 << 20); *s = fread(*p, 1, 1 << 20, c); fclose(c);\n"
	"	return 0;\n"
	"}\n"
	"const char *tdslc_identity(void) { return \"test 1\"; }\n"
	"void tdslc_free(void *p) { free(p); }\n";

static void run(const char *command)
{
	ck_assert_int_eq(system(command), 0);
}

static void setup(void)
{
	char command[400], err[200];
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
	snprintf(command, sizeof command, "cc -shared -fPIC -O1 -o %s/libtdslc.so %s", folder, path);
	run(command);
	snprintf(cache, sizeof cache, "%s/cache", folder);
	snprintf(path, sizeof path, "%s/libtdslc.so", folder);
	setenv("TDSL_COMPILER", path, 1);
	setenv("TDSL_CACHE_DIR", cache, 1);
	OK(tdsl_open(&d, "null:gfx942"));
}

static void teardown(void)
{
	snprintf(path, sizeof path, "rm -rf %s", folder);
	run(path);
}

static int calls(void)
{
	struct stat st;
	snprintf(path, sizeof path, "%s/calls", folder);
	return stat(path, &st) == 0 ? (int)st.st_size : 0;
}

/* Compiles and looks at every byte of what it got; 0 or -1.  Not ck_assert: children use it. */
static int compile(const char *text)
{
	tdsl_pack p;
	tdsl_kernel k;
	if (tdsl_compile(&p, text, strlen(text), "t.tdsl", NULL))
		return -1;
	int rc = tdsl_pack_verify(p) || tdsl_kernel_find(&k, p, "scale_add") ? -1 : 0;
	tdsl_pack_close(p);
	return rc;
}

/* Compiles in a child with the faults set; its exit status. */
static int child(const char *text)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		fault.armed = 1;
		_exit(compile(text) ? 1 : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

/* Files whose name ends so. */
static int files(const char *end, char last[300])
{
	int n = 0;
	DIR *d = opendir(cache);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strlen(e->d_name) > strlen(end) && !strcmp(e->d_name + strlen(e->d_name) - strlen(end), end)) {
			n++;
			if (last)
				snprintf(last, 300, "%s/%s", cache, e->d_name);
		}
	closedir(d);
	return n;
}

/* ---- the tests */

static void kill_everywhere(int torn)
{
	char text[32];
	int kills = 0, n = 1, finished = 0;
	fault.torn = torn;
	for (; !finished; n++) {
		snprintf(text, sizeof text, "text %d", n);
		fault.kill_at = n;
		int status = child(text);
		finished = WIFEXITED(status);
		ck_assert(finished ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
		kills += !finished;
		fault.kill_at = 0;
		ck_assert_int_eq(child(text), 0);
		ck_assert_int_eq(child(text), 0);
		ck_assert_int_le(calls(), n + kills);
	}
	ck_assert_int_gt(kills, 8);
	child("the last");
	ck_assert_int_eq(files(".tmp", NULL), 0); /* what killed writers left is gone */
}

START_TEST(killed_at_every_step) { kill_everywhere(0); } END_TEST
START_TEST(killed_at_every_step_of_a_torn_rename) { kill_everywhere(1); } END_TEST

/* Starts n children that compile `keys` texts in an order of their own. */
static void start(pid_t *pids, int n, int keys, int rounds)
{
	for (int i = 0; i < n; i++)
		if ((pids[i] = fork()) == 0) {
			char text[32];
			fault.armed = 1;
			for (int r = 0; r < rounds * keys; r++) {
				snprintf(text, sizeof text, "text %d", (r * 7 + i * 3) % keys);
				if (compile(text))
					_exit(1);
			}
			_exit(0);
		}
}

static int wait_all(const pid_t *pids, int n)
{
	int killed = 0;
	for (int i = 0; i < n; i++) {
		int status;
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		killed += WIFSIGNALED(status);
		ck_assert(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
	}
	return killed;
}

START_TEST(sixty_four_processes_compile_once)
{
	pid_t pids[64];
	for (int i = 0; i < 64; i++)
		if ((pids[i] = fork()) == 0)
			_exit(compile("slow") ? 1 : 0);
	ck_assert_int_eq(wait_all(pids, 64), 0);
	ck_assert_int_eq(calls(), 1);
}
END_TEST

static void *thread_compile(void *failed)
{
	if (compile("slow"))
		*(int *)failed = 1;
	return NULL;
}

START_TEST(threads_compile_once)
{
	pthread_t t[16];
	int failed = 0;
	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, thread_compile, &failed), 0);
	for (int i = 0; i < 16; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(failed, 0);
	ck_assert_int_eq(calls(), 1);
	ck_assert_int_eq(compile("bad"), -1); /* not remembered */
	ck_assert_int_eq(compile("bad"), -1);
	ck_assert_int_eq(calls(), 3);
}
END_TEST

START_TEST(random_kills)
{
	enum { N = 8, KEYS = 40 };
	pid_t pids[N];
	int killed = 0;
	srand(7);
	for (int round = 0; round < 12; round++) {
		start(pids, N, KEYS, 1);
		for (int i = 0; i < N / 2; i++) {
			usleep((useconds_t)(rand() % 3000));
			kill(pids[i], SIGKILL);
		}
		killed += wait_all(pids, N);
	}
	ck_assert_int_gt(killed, 0);
	ck_assert_int_le(calls(), KEYS + killed);
	ck_assert_int_eq(files(".jit", NULL), KEYS);
}
END_TEST

START_TEST(locks_refused)
{
	pid_t pids[6];
	static const int errors[] = {ENOLCK, EINVAL, EOPNOTSUPP, EACCES};
	fault.fail = C_LOCK;
	for (unsigned e = 0; e < sizeof errors / sizeof *errors; e++) {
		fault.error = errors[e];
		fault.torn = e == 1; /* no locks and renames that tear */
		start(pids, 6, 5, 3);
		ck_assert_int_eq(wait_all(pids, 6), 0);
	}
	ck_assert_int_eq(files(".jit", NULL), 5);
}
END_TEST

START_TEST(readers_during_eviction)
{
	pid_t pids[6];
	struct stat st;
	char name[300];
	OK(compile("first"));
	ck_assert_int_eq(files(".jit", name), 1);
	ck_assert_int_eq(stat(name, &st), 0);
	char most[32];
	snprintf(most, sizeof most, "%ld", (long)st.st_blocks * 512 * 4);
	setenv("TDSL_CACHE_MAX", most, 1);
	start(pids, 6, 12, 6);
	ck_assert_int_eq(wait_all(pids, 6), 0);
	ck_assert_int_le(files(".jit", NULL), 4);
	setenv("TDSL_CACHE_MAX", "10", 1); /* less than one entry: nothing is written, nothing fails */
	OK(compile("other"));
	OK(compile("other"));
}
END_TEST

START_TEST(least_recently_used_goes_first_whatever_the_clock)
{
	char name[300], most[32], text[16];
	struct stat st;
	OK(compile("text 0"));
	files(".jit", name);
	ck_assert_int_eq(stat(name, &st), 0);
	for (int i = 1; i < 8; i++) {
		fault.clock = i == 4 ? 100000000 : i > 4 ? -100000000 : 0; /* three years ahead, then three years behind */
		snprintf(text, sizeof text, "text %d", i);
		OK(compile(text));
	}
	OK(compile("text 1"));
	ck_assert_int_eq(calls(), 8);
	snprintf(most, sizeof most, "%ld", (long)st.st_blocks * 512 * 4);
	setenv("TDSL_CACHE_MAX", most, 1);
	OK(compile("text 8"));
	ck_assert_int_eq(calls(), 9);
	OK(compile("text 8"));
	OK(compile("text 1"));
	OK(compile("text 7"));
	ck_assert_int_eq(calls(), 9); /* the three used last are there */
	OK(compile("text 0"));
	ck_assert_int_eq(calls(), 10);
}
END_TEST

START_TEST(altered_bytes)
{
	char name[300];
	struct stat st;
	srand(3);
	OK(compile("one"));
	ck_assert_int_eq(files(".jit", name), 1);
	for (int i = 0; i < 300; i++) {
		ck_assert_int_eq(stat(name, &st), 0);
		FILE *f = fopen(name, "r+b");
		long at = rand() % st.st_size;
		fseek(f, at, SEEK_SET);
		int old = fgetc(f);
		fseek(f, at, SEEK_SET);
		fputc(old ^ (1 << rand() % 8), f);
		fclose(f);
		if (i % 3 == 0)
			ck_assert_int_eq(truncate(name, rand() % st.st_size), 0);
		OK(compile("one"));
		ck_assert_int_eq(calls(), 2 + i);
		OK(compile("one"));
		ck_assert_int_eq(calls(), 2 + i);
	}
}
END_TEST

/* Two compiles under a fault: fine, one warning, and the second from memory. */
static void degrades(enum call c, int error, const char *text, const char *says)
{
	pid_t pid = fork();
	int status;
	if (pid == 0) {
		fault.fail = (int)c;
		fault.error = error;
		fault.armed = 1;
		int before = calls(), bad = compile(text) ? 1 : 0;
		bad |= strstr(tdsl_compile_messages(), says) ? 0 : 2;
		bad |= compile(text) || *tdsl_compile_messages() ? 4 : 0;
		bad |= calls() != before + 1 ? 8 : 0;
		if (bad)
			printf("%s: %d: %s\n", says, bad, tdsl_compile_messages());
		fflush(stdout);
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	ck_assert_msg(status == 0, "%s: %d", says, WEXITSTATUS(status));
	ck_assert_int_eq(files(".tmp", NULL), 0);
}

START_TEST(disks_that_fail)
{
	OK(compile("there"));
	degrades(C_WRITE, ENOSPC, "a", "No space left on device");
	degrades(C_WRITE, EDQUOT, "b", "Disk quota exceeded");
	degrades(C_OPENAT, EACCES, "c", "Permission denied");
	degrades(C_OPENAT, EROFS, "d", "Read-only file system");
	degrades(C_FSYNC, EIO, "e", "Input/output error");
	degrades(C_RENAME, ESTALE, "f", "Stale file handle");
	int before = calls();
	fault.fail = C_READ; /* a server that has forgotten the file: compiled again, then there */
	fault.error = ESTALE;
	ck_assert_int_eq(child("there"), 0);
	fault.fail = -1;
	ck_assert_int_eq(child("there"), 0);
	ck_assert_int_eq(calls(), before + 1);
}
END_TEST

/* The right to mount: ours, or that of a namespace of our own, where we are root. */
static bool mount_small(void)
{
	static const char options[] = "size=16k,mode=0700";
	char map[40];
	if (mount("tmpfs", cache, "tmpfs", 0, options) == 0)
		return true;
	snprintf(map, sizeof map, "0 %d 1", (int)getuid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	int fd = open("/proc/self/uid_map", O_WRONLY);
	bool mapped = fd >= 0 && write(fd, map, strlen(map)) == (ssize_t)strlen(map);
	close(fd);
	return mapped && mount("tmpfs", cache, "tmpfs", 0, options) == 0;
}

START_TEST(small_disk)
{
	char text[16];
	mkdir(cache, 0700);
	if (!mount_small()) {
		printf("small_disk: not tested: this user may neither mount nor have a namespace\n");
		return;
	}
	for (int i = 0; i < 12; i++) {
		snprintf(text, sizeof text, "text %d", i);
		OK(compile(text));
		OK(compile(text));
	}
	int tmp = files(".tmp", NULL), kept = files(".jit", NULL), made = calls();
	umount2(cache, MNT_DETACH);
	ck_assert_int_eq(tmp, 0);
	ck_assert_msg(kept > 0 && kept < 12, "%d of 12 entries are there: the disk was not full", kept);
	ck_assert_int_eq(made, 12);
}
END_TEST

/* The system itself ends a write in the middle, for any user: a file may not grow beyond half an entry. */
START_TEST(files_that_may_not_grow)
{
	char name[300];
	struct stat st;
	OK(compile("there"));
	ck_assert_int_eq(files(".jit", name), 1);
	ck_assert_int_eq(stat(name, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit most = {(rlim_t)st.st_size / 2, RLIM_INFINITY};
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
	OK(compile("one"));
	ck_assert_msg(strstr(tdsl_compile_messages(), "File too large") != NULL, "%s", tdsl_compile_messages());
	OK(compile("one"));
	ck_assert_str_eq(tdsl_compile_messages(), "");
	ck_assert_int_eq(calls(), 2);
	ck_assert_int_eq(files(".tmp", NULL), 0);
	ck_assert_int_eq(files(".jit", NULL), 1);
	most.rlim_cur = RLIM_INFINITY;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
	OK(compile("there"));
	ck_assert_int_eq(calls(), 2);
}
END_TEST

START_TEST(things_in_the_way)
{
	char name[300], victim[128], target[400];
	struct stat st;
	OK(compile("one"));
	files(".jit", name);
	snprintf(victim, sizeof victim, "%s/victim", folder);
	FILE *f = fopen(victim, "w");
	fputs("precious", f);
	fclose(f);
	/* a symbolic link for an entry: neither read nor followed by the writer */
	unlink(name);
	ck_assert_int_eq(symlink(victim, name), 0);
	OK(compile("one"));
	ck_assert_int_eq(stat(victim, &st), 0);
	ck_assert_int_eq(st.st_size, 8);
	ck_assert_int_eq(lstat(name, &st), 0);
	ck_assert(S_ISREG(st.st_mode));
	ck_assert_int_eq(calls(), 2);
	/* the format before: a bare pack under the entry's name */
	snprintf(target, sizeof target, "cp %s/pack %s", folder, name);
	run(target);
	OK(compile("one"));
	OK(compile("one"));
	ck_assert_int_eq(calls(), 3);
	/* an entry under another's name */
	OK(compile("two"));
	snprintf(target, sizeof target, "cd %s && set -- *.jit && cp $1 x && cp $2 $1 && cp x $2 && rm x", cache);
	run(target);
	OK(compile("one"));
	OK(compile("two"));
	ck_assert_int_eq(calls(), 6);
	/* a folder under its name: told, kept in memory */
	files(".jit", name);
	unlink(name);
	mkdir(name, 0700);
	OK(compile("one"));
	OK(compile("two"));
	OK(compile("one"));
	OK(compile("two"));
	ck_assert_int_eq(calls(), 7);
}
END_TEST

static void folder_refused(const char *says)
{
	int before = calls();
	OK(compile("one"));
	ck_assert_msg(strstr(tdsl_compile_messages(), says) != NULL, "%s: %s", says, tdsl_compile_messages());
	OK(compile("one"));
	ck_assert_str_eq(tdsl_compile_messages(), "");
	ck_assert_int_eq(calls(), before + 1);
}

START_TEST(folder_that_is_a_link)
{
	char real[128];
	snprintf(real, sizeof real, "%s/real", folder);
	mkdir(real, 0700);
	ck_assert_int_eq(symlink(real, cache), 0);
	folder_refused("a symbolic link");
}
END_TEST

START_TEST(folder_of_another_user)
{
	mkdir(cache, 0700);
	if (chown(cache, 12345, 12345) == 0)
		folder_refused("belongs to another user");
}
END_TEST

START_TEST(folder_that_all_may_write)
{
	mkdir(cache, 0700);
	chmod(cache, 0777);
	folder_refused("may be written by every user");
}
END_TEST

START_TEST(altered_packs_are_refused_or_right)
{
	size_t size;
	char err[400];
	uint8_t *p = rt_pack(&size, false);
	srand(11);
	for (int i = 0; i < 4000; i++) {
		struct pack_file *f;
		size_t at = (size_t)rand() % size;
		uint8_t bit = (uint8_t)(1 << rand() % 8);
		p[at] ^= bit;
		int rc = pack_open_memory(&f, p, size, "p", err, sizeof err);
		if (rc == 0) {
			rc = pack_verify(f, err, sizeof err);
			pack_close(f);
		}
		ck_assert_msg(rc < 0 && strncmp(err, "p: offset ", 10) == 0, "byte %zu: %s", at, err);
		p[at] ^= bit;
	}
	free(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fault_cache");
	TCase *c = tcase_create("faults");
	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, killed_at_every_step);
	tcase_add_test(c, killed_at_every_step_of_a_torn_rename);
	tcase_add_test(c, sixty_four_processes_compile_once);
	tcase_add_test(c, threads_compile_once);
	tcase_add_test(c, random_kills);
	tcase_add_test(c, locks_refused);
	tcase_add_test(c, readers_during_eviction);
	tcase_add_test(c, least_recently_used_goes_first_whatever_the_clock);
	tcase_add_test(c, altered_bytes);
	tcase_add_test(c, disks_that_fail);
	tcase_add_test(c, small_disk);
	tcase_add_test(c, files_that_may_not_grow);
	tcase_add_test(c, things_in_the_way);
	tcase_add_test(c, folder_that_is_a_link);
	tcase_add_test(c, folder_of_another_user);
	tcase_add_test(c, folder_that_all_may_write);
	tcase_add_test(c, altered_packs_are_refused_or_right);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
