/* object_ptx.c -- PTX to a cubin by NVIDIA's assembler, where it is at hand, and what a PTX text says of its kernels.
 *
 * In: PTX as LLVM writes it.  Out: the object that a pack holds: a cubin (an ELF), or, on a machine without ptxas, the text itself with
 * the NUL that ends it, which the driver assembles when it is loaded.  ptxas is $TDSL_PTXAS ("" = none), or the first of $PATH,
 * $CUDA_HOME/bin, /usr/local/cuda/bin.  It runs in a directory of its own, so that the cubin holds no name that differs from run to run. */
#include "object_code.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "compile.h"
#include "file.h"

enum { PATH_TEXT = 512, SAID = 1200, SMALL = 128 };

static bool runnable(const char *dir, size_t n, char out[PATH_TEXT])
{
	struct stat st;
	int len = snprintf(out, PATH_TEXT, "%.*s/ptxas", (int)n, dir);
	return n && len < PATH_TEXT && stat(out, &st) == 0 && S_ISREG(st.st_mode) && access(out, X_OK) == 0;
}

/* True with its name where there is an assembler. */
static bool find_ptxas(char out[PATH_TEXT])
{
	const char *given = getenv("TDSL_PTXAS"), *home = getenv("CUDA_HOME"), *path = getenv("PATH");
	char bin[PATH_TEXT - 8];
	if (given) {
		snprintf(out, PATH_TEXT, "%s", given);
		return *given;
	}
	for (size_t n; path && *path; path += n + (path[n] == ':')) {
		n = strcspn(path, ":");
		if (runnable(path, n, out))
			return true;
	}
	snprintf(bin, sizeof bin, "%s/bin", home ? home : "");
	return (home && runnable(bin, strlen(bin), out)) || runnable("/usr/local/cuda/bin", strlen("/usr/local/cuda/bin"), out);
}

bool object_has_assembler(void)
{
	char ptxas[PATH_TEXT];
	return find_ptxas(ptxas);
}

/* Runs argv in `dir`, its output into the file "said" there; exit status, or -1. */
static int run_in(const char *dir, char *const *argv)
{
	posix_spawn_file_actions_t files;
	pid_t child;
	int status = 0, rc;
	extern char **environ;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addchdir_np(&files, dir);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, 1, "said", O_WRONLY | O_CREAT | O_TRUNC, 0600);
	posix_spawn_file_actions_adddup2(&files, 1, 2);
	rc = posix_spawn(&child, argv[0], &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (rc) {
		errno = rc;
		return -1;
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static char *name_in(char out[PATH_TEXT], const char *dir, const char *name)
{
	snprintf(out, PATH_TEXT, "%s/%s", dir, name);
	return out;
}

/* What the assembler said, on one line. */
static void said(const char *dir, char *err, size_t errlen)
{
	char name[PATH_TEXT], text[SAID] = "";
	FILE *f = fopen(name_in(name, dir, "said"), "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
	if (f)
		fclose(f);
	while (n && text[n - 1] == '\n')
		text[--n] = 0;
	for (size_t i = 0; i < n; i++)
		if (text[i] == '\n')
			text[i] = ' ';
	snprintf(err, errlen, "ptxas: %s", n ? text : "failed without a message");
}

/* The next line that says a kernel's size of workgroups, or its most; behind it the number.  NULL = there is none. */
static const char *next_size(const char *at, const char *end)
{
	const char *fixed = memmem(at, (size_t)(end - at), "\n.reqntid ", 10), *most = memmem(at, (size_t)(end - at), "\n.maxntid ", 10);
	return !most || (fixed && fixed < most) ? fixed : most;
}

static int size_said(const char *line) { return atoi(line + 10); }

/* The text with a cap on registers behind each kernel's size of workgroups; 0 = none. */
static bool write_ptx(const char *name, const char *ptx, size_t n, int most)
{
	FILE *f = fopen(name, "w");
	const char *end = ptx + n, *at = ptx;
	for (const char *size; f && most && (size = next_size(at, end)); at = size + 1) {
		fwrite(at, 1, (size_t)(size + 1 - at), f);
		fprintf(f, ".maxnreg %d\n", most);
	}
	bool written = f && fwrite(at, 1, (size_t)(end - at), f) == (size_t)(end - at);
	return !(f && fclose(f)) && written;
}

/* The most registers that a kernel takes, of what the assembler said; `spills`: one of them keeps some in memory. */
static int registers_said(const char *dir, bool *spills)
{
	char name[PATH_TEXT], line[SAID];
	int most = 0, bytes, n;
	FILE *f = fopen(name_in(name, dir, "said"), "r");
	*spills = false;
	while (f && fgets(line, sizeof line, f)) {
		const char *used = strstr(line, "Used ");
		if (used && sscanf(used, "Used %d registers", &n) == 1)
			most = n > most ? n : most;
		else if (strstr(line, "bytes stack frame") && sscanf(line, " %d", &bytes) == 1)
			*spills = *spills || bytes > 0;
	}
	if (f)
		fclose(f);
	return most;
}

static int run_ptxas(const char *ptxas, const char *dir, const struct target *t, const char *ptx, size_t n, int most, char *err, size_t errlen)
{
	char name[PATH_TEXT], arch[64];
	char *argv[] = {(char *)ptxas, arch, "-O3", "-v", "-lineinfo", "kernel.ptx", "-o", "kernel.cubin", NULL};
	snprintf(arch, sizeof arch, "-arch=%s", t->cpu);
	if (!write_ptx(name_in(name, dir, "kernel.ptx"), ptx, n, most)) {
		snprintf(err, errlen, "%s: %s", name, strerror(errno));
		return -1;
	}
	int status = run_in(dir, argv);
	if (status < 0) {
		snprintf(err, errlen, "%s: %s", ptxas, strerror(errno));
		return -1;
	}
	if (status) {
		said(dir, err, errlen);
		return -1;
	}
	return 0;
}

/* Of the largest workgroup of the text's kernels; small: one of them has small ones. */
static int most_threads(const char *ptx, size_t n, bool *small)
{
	int most = 1;
	*small = false;
	for (const char *at = ptx; (at = next_size(at, ptx + n)); at++) {
		most = size_said(at) > most ? size_said(at) : most;
		*small = *small || size_said(at) == SMALL;
	}
	return most;
}

/* Lanes of a multiprocessor's workgroups, where the text says how many of these it is to have; 0 = it does not. */
static int counted_lanes(const char *ptx, size_t n)
{
	static const char says[] = "\n.minnctapersm ";
	const char *at = memmem(ptx, n, says, sizeof says - 1), *size = NULL;
	for (const char *s = ptx; at && (s = next_size(s, at)); s++)
		size = s;
	return size ? size_said(size) * atoi(at + sizeof says - 1) : 0;
}

/* ptxas takes registers as if there were no other workgroup: a few less, and a multiprocessor holds more of them.  The least cap under
 * which nothing goes to memory is taken: a word that does costs more than a workgroup brings.  Kernels of many registers hide latency by
 * themselves: 96 are five workgroups of 128 threads, 168 three, 128 two of 256.  Where its own choice keeps words in memory it is told as many, with which
 * it often does without, and gets more, if a workgroup still finds that many: the cap goes before its size. */
static bool is_worth_trying(int cap, int own, bool spills, bool small)
{
	enum { MANY = 104, FIVE = 96, LESS = 120, TWO = 128, THREE = 168 };
	if (spills)
		return cap >= own;
	return cap < own && own - cap <= cap / 2 && (cap != THREE || small) && (own > MANY ? cap >= (small ? FIVE : own > TWO ? LESS : TWO) : cap != FIVE);
}

static int assemble(const char *ptxas, const char *dir, const struct target *t, const char *ptx, size_t n, void **out, size_t *size, char *err,
                    size_t errlen)
{
	static const int caps[] = {32, 40, 48, 56, 64, 72, 80, 96, 120, 128, 168};
	char name[PATH_TEXT], *image;
	bool spills, own_spills, small, settled = false, tried = false;
	if (run_ptxas(ptxas, dir, t, ptx, n, 0, err, errlen))
		return -1;
	int own = registers_said(dir, &own_spills), threads = most_threads(ptx, n, &small), counted = counted_lanes(ptx, n);
	for (unsigned c = 0; c < sizeof caps / sizeof *caps && !settled; c++) {
		/* beside workgroups of which there are no more a cap is worth one of the kernel behind */
		if (caps[c] * (counted + threads) > t->registers || !is_worth_trying(caps[c], own, own_spills, small))
			continue;
		tried = true;
		if (run_ptxas(ptxas, dir, t, ptx, n, caps[c], err, errlen))     /* products of four warps need what they need */
			continue;
		registers_said(dir, &spills);
		settled = !spills;
	}
	if (tried && !settled && run_ptxas(ptxas, dir, t, ptx, n, 0, err, errlen))
		return -1;
	*out = image = file_read(name_in(name, dir, "kernel.cubin"), size, err, errlen);
	return image ? 0 : -1;
}

int object_assemble(const struct target *t, char *ptx, size_t n, void **out, size_t *size, char *err, size_t errlen)
{
	static const char *const parts[] = {"kernel.ptx", "kernel.cubin", "said"};
	char ptxas[PATH_TEXT], dir[PATH_TEXT], name[PATH_TEXT];
	if (!find_ptxas(ptxas)) {
		*out = ptx;
		*size = n + 1;
		return 0;
	}
	snprintf(dir, sizeof dir, "%.400s/tdsl-ptxas-XXXXXX", temporary_folder());
	if (!mkdtemp(dir)) {
		snprintf(err, errlen, "%s: %s", dir, strerror(errno));
		free(ptx);
		return -1;
	}
	int rc = assemble(ptxas, dir, t, ptx, n, out, size, err, errlen);
	for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
		unlink(name_in(name, dir, parts[i]));
	rmdir(dir);
	free(ptx);
	return rc;
}
