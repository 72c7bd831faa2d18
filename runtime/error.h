/* error.h -- how the runtime reports: a code returned, a text kept per thread (tdsl_error).  FAIL sets both, TRY passes on. */
#ifndef TDSL_RT_ERROR_H
#define TDSL_RT_ERROR_H
#include "include/tdsl.h"

int error_set(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define FAIL(code, ...) return error_set(code, __VA_ARGS__)
#define TRY(call) do { int try_rc_ = (call); if (try_rc_ < 0) return try_rc_; } while (0)
#endif
