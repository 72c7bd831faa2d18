/* env.h -- the environment variables of the runtime: one table (env.c, docs/environment.md), and the log that one of them turns on.
 * A variable that is set to the empty string counts as not set, except TDSL_CACHE_DIR. */
#ifndef TDSL_RT_ENV_H
#define TDSL_RT_ENV_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#define DEVICE_NAMES "hip:N, cuda:N, sim:gfx942, sim:gfx950, null:gfx942, null:gfx950 or null:sm_90a"

/* 0, or TDSL_EINVAL naming the variable, its value and what was expected.  Called wherever a process enters the library. */
int env_check(void);
/* One variable, checked: text (NULL = not set), 0 or 1, bytes ("512K", "2G"), a number of 1 to 1024. */
int env_text(const char **value, const char *name);
int env_flag(bool *value, const char *name, bool unset);
int env_bytes(uint64_t *value, const char *name, uint64_t unset);
int env_number(int *value, const char *name, int unset);
enum { ENV_MOST_JOBS = 1024 };
/* Threads for compiling: `asked`, else TDSL_JOBS, else one per processor that the process may use and 256 MB of free memory. */
int env_jobs(int *jobs, int asked);

/* An entry of TDSL_DISABLE, inside its text: a kernel, or with variant not NULL one of its variants. */
struct disabled { const char *kernel, *variant; size_t kernel_length, variant_length; };
/* The entry at *at, which goes on behind it; false at the end. */
bool disabled_next(const char **at, struct disabled *);

/* The log on standard error, off unless TDSL_LOG names a level. */
enum log_level { LOG_OFF, LOG_WARN, LOG_INFO, LOG_DEBUG };
bool log_on(enum log_level);
void log_write(enum log_level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
