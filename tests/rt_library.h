/* rt_library.h -- where a test of the runtime finds the libraries that the runtime loads by an environment variable: the build folder, one above the
 * test's program.  A header, so that each test stays one file. */
#ifndef TDSL_RT_LIBRARY_H
#define TDSL_RT_LIBRARY_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where `variable` is not set: ../`name` from the program `argv0`; left unset where there is no such file. */
static void library_set(const char *variable, const char *name, const char *argv0)
{
	char path[4200];
	const char *slash = strrchr(argv0, '/');
	snprintf(path, sizeof path, "%.*s../%s", slash ? (int)(slash - argv0) + 1 : 0, argv0, name);
	char *real = realpath(path, NULL);
	if (real)
		setenv(variable, real, 0);
	free(real);
}

#endif
