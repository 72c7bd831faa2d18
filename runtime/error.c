/* error.c -- the thread's last error text.  In: a code and a format.  Out: the code, so that `return error_set(...)` reads well.
 * A fixed buffer per thread: reporting an error must not fail, and needs no clean-up when the thread ends. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char text[2048];

int error_set(int code, const char *fmt, ...)
{
	char fresh[sizeof text]; /* arguments may point into the old text */
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(fresh, sizeof fresh, fmt, ap);
	va_end(ap);
	snprintf(text, sizeof text, "%s", fresh);
	return code;
}

const char *tdsl_error(void)
{
	return text;
}

const char *tdsl_error_name(int code)
{
	static const char *const names[] = {
		"TDSL_OK", "TDSL_EINVAL", "TDSL_EDTYPE", "TDSL_ESHAPE", "TDSL_ESTRIDE", "TDSL_EALIGN", "TDSL_EOVERLAP", "TDSL_EDEVICE",
		"TDSL_ENOTFOUND", "TDSL_ETARGET", "TDSL_EPACK", "TDSL_EVERSION", "TDSL_EIO", "TDSL_ENOMEM", "TDSL_EWORKSPACE",
		"TDSL_ELAUNCH", "TDSL_ECOMPILE", "TDSL_EUNSUPPORTED"};
	int n = sizeof names / sizeof *names;
	return code <= 0 && code > -n ? names[-code] : "TDSL_E?";
}
