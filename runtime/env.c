/* env.c -- the table of environment variables, their checks, and the log.
 * In: the process's environment, read where a value is needed and never kept, so that a program may change it between calls.
 * Out: values, or an error that names variable, value and what was expected: a misspelt value must not pass for the default. */
#include "env.h"

#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { TEXT, FLAG, BYTES, NUMBER, LEVEL, ABSOLUTE, DEVICE, DISABLED };
static const char *const levels[] = {"off", "warn", "info", "debug"};
enum { NLEVELS = sizeof levels / sizeof *levels };

/* docs/environment.md has a row for each; tests/lists_test.sh compares them. */
static const struct row { const char *name; enum kind kind; } table[] = {
	{"TDSL_DEVICE", DEVICE}, {"TDSL_PACK_PATH", TEXT}, {"TDSL_CACHE_DIR", ABSOLUTE}, {"TDSL_CACHE_MAX", BYTES}, {"TDSL_JIT", FLAG},
	{"TDSL_REBUILD", FLAG}, {"TDSL_JOBS", NUMBER}, {"TDSL_TUNE", TEXT}, {"TDSL_DISABLE", DISABLED}, {"TDSL_BATCH_INVARIANT", FLAG},
	{"TDSL_LOG", LEVEL}, {"TDSL_COMPILER", TEXT}, {"TDSL_HIP_LIBRARY", TEXT}, {"TDSL_CUDA_LIBRARY", TEXT}, {"TDSL_SIM_LIBRARY", TEXT}};

/* The value, NULL where it is not set. */
static const char *get(const char *name)
{
	const char *v = getenv(name);
	return v && *v ? v : NULL;
}

/* "64", "64K", "64M", "64G", "64T"; false for anything else, or 2^63 and more. */
static bool bytes_parse(const char *text, uint64_t *value)
{
	static const char suffixes[] = "KMGT";
	char *end;
	errno = 0;
	unsigned long long n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno)
		return false;
	const char *s = *end ? strchr(suffixes, *end) : NULL;
	int shift = s ? 10 * (int)(s - suffixes + 1) : 0;
	if ((*end && !s) || (*end && end[1]) || n > (uint64_t)INT64_MAX >> shift)
		return false;
	*value = (uint64_t)n << shift;
	return true;
}

static bool number_parse(const char *text, int *value)
{
	char *end;
	long n = strtol(text, &end, 10);
	*value = (int)n;
	return *text >= '0' && *text <= '9' && !*end && n >= 1 && n <= ENV_MOST_JOBS;
}

static int level_parse(const char *text)
{
	for (int i = 0; i < NLEVELS; i++)
		if (strcmp(text, levels[i]) == 0)
			return i;
	return -1;
}

/* The form alone: whether there is such a device its driver knows. */
static bool device_parse(const char *text)
{
	static const char *const names[] = {"sim:gfx942", "sim:gfx950", "null:gfx942", "null:gfx950", "null:sm_90a"};
	size_t n = strncmp(text, "hip:", 4) == 0 ? 4 : strncmp(text, "cuda:", 5) == 0 ? 5 : 0;
	bool fits = n && text[n] && strlen(text + n) == strspn(text + n, "0123456789");
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		fits = fits || strcmp(text, names[i]) == 0;
	return fits;
}

bool disabled_next(const char **at, struct disabled *d)
{
	*at += strspn(*at, ";");
	size_t n = strcspn(*at, ";");
	const char *slash = memchr(*at, '/', n);
	*d = (struct disabled){*at, slash ? slash + 1 : NULL, slash ? (size_t)(slash - *at) : n, slash ? n - (size_t)(slash - *at) - 1 : 0};
	*at += n;
	return n != 0;
}

static bool disabled_parse(const char *text)
{
	bool fits = true;
	for (struct disabled d; disabled_next(&text, &d);)
		fits = fits && d.kernel_length && (!d.variant || d.variant_length);
	return fits;
}

static int row_check(const struct row *r)
{
	const char *v = get(r->name), *expected = NULL;
	uint64_t bytes;
	int number;
	if (!v)
		return 0;
	switch (r->kind) {
	case TEXT: break;
	case FLAG: expected = strcmp(v, "0") && strcmp(v, "1") ? "0 or 1" : NULL; break;
	case BYTES: expected = bytes_parse(v, &bytes) ? NULL : "a number of bytes such as 500000, 512K, 64M or 2G"; break;
	case NUMBER: expected = number_parse(v, &number) ? NULL : "a number from 1 to 1024"; break;
	case LEVEL: expected = level_parse(v) >= 0 ? NULL : "off, warn, info or debug"; break;
	case DEVICE: expected = device_parse(v) ? NULL : DEVICE_NAMES; break;
	case DISABLED: expected = disabled_parse(v) ? NULL : "kernel or kernel/variant, separated by ';'"; break;
	case ABSOLUTE: expected = *v == '/' ? NULL : "an absolute path, or \"\" for no cache"; break;
	}
	if (expected)
		FAIL(TDSL_EINVAL, "%s is \"%.200s\"; expected %s", r->name, v, expected);
	return 0;
}

int env_check(void)
{
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		TRY(row_check(&table[i]));
	return 0;
}

static int check(const char *name)
{
	for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
		if (strcmp(table[i].name, name) == 0)
			return row_check(&table[i]);
	FAIL(TDSL_EINVAL, "%s is not in the table of environment variables", name);
}

int env_text(const char **value, const char *name)
{
	TRY(check(name));
	*value = get(name);
	return 0;
}

int env_flag(bool *value, const char *name, bool unset)
{
	TRY(check(name));
	const char *v = get(name);
	*value = v ? *v == '1' : unset;
	return 0;
}

int env_bytes(uint64_t *value, const char *name, uint64_t unset)
{
	TRY(check(name));
	const char *v = get(name);
	*value = unset;
	if (v)
		bytes_parse(v, value);
	return 0;
}

int env_number(int *value, const char *name, int unset)
{
	TRY(check(name));
	const char *v = get(name);
	*value = unset;
	if (v)
		number_parse(v, value);
	return 0;
}

/* ---- threads */

/* The number after `key` in a file of /proc or /sys (key "" = at its start), or -1. */
static long long file_number(const char *path, const char *key)
{
	char line[256];
	long long n = -1;
	FILE *f = fopen(path, "re");
	while (f && n < 0 && fgets(line, sizeof line, f))
		if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%lld", &n) != 1)
			n = -1;
	if (f)
		fclose(f);
	return n;
}

/* Megabytes that the process may still take: what the machine has free, or its control group if that is less. */
static long long memory_free(void)
{
	long long kb = file_number("/proc/meminfo", "MemAvailable:"), most = file_number("/sys/fs/cgroup/memory.max", "");
	long long used = file_number("/sys/fs/cgroup/memory.current", ""), mb = kb < 0 ? 1 << 20 : kb >> 10;
	if (most >= 0 && used >= 0 && (most - used) >> 20 < mb)
		mb = (most - used) >> 20;
	return mb;
}

int env_jobs(int *jobs, int asked)
{
	cpu_set_t set;
	TRY(env_number(jobs, "TDSL_JOBS", 0));
	if (asked > 0)
		*jobs = asked;
	if (*jobs)
		return 0;
	long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
	long long fit = memory_free() / 256;
	n = fit < n ? (long)fit : n;
	*jobs = n < 1 ? 1 : n > ENV_MOST_JOBS ? ENV_MOST_JOBS : (int)n;
	return 0;
}

/* ---- the log */

bool log_on(enum log_level level)
{
	const char *v = get("TDSL_LOG");
	return v && level_parse(v) >= (int)level;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	char line[2048];
	va_list ap;
	if (!log_on(level))
		return;
	int n = snprintf(line, sizeof line, "tdsl: %s: ", levels[level]);
	va_start(ap, fmt);
	int m = vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
	va_end(ap);
	n = m < 0 ? n : m < (int)sizeof line - n - 1 ? n + m : (int)sizeof line - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0) /* one write a line: processes share the stream */
		return;
}
