/* sim_build.c -- see sim_build.h.  Fails the running test with a message where a tool fails. */
#include "sim_build.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void command(const char *text)
{
	ck_assert_msg(system(text) == 0, "failed: %s", text);
}

uint8_t *sim_build(const char *name, const char *chip, const char *llc_options, size_t *size)
{
	char dir[] = "/tmp/tdsl-test-XXXXXX", text[1024], path[64];
	const char *tests = getenv("TDSL_TESTS");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(text, sizeof text, "llc-22 -mcpu=%s %s -filetype=obj %s/sim/%s.ll -o %s/a.o && ld.lld-22 -shared %s/a.o -o %s/a.hsaco",
	         chip, llc_options, tests ? tests : "tests", name, dir, dir, dir);
	command(text);
	snprintf(path, sizeof path, "%s/a.hsaco", dir);
	FILE *f = fopen(path, "rb");
	ck_assert_ptr_nonnull(f);
	fseek(f, 0, SEEK_END);
	*size = (size_t)ftell(f);
	rewind(f);
	uint8_t *bytes = malloc(*size);
	ck_assert_uint_eq(fread(bytes, 1, *size, f), *size);
	fclose(f);
	snprintf(text, sizeof text, "rm -r %s", dir);
	command(text);
	return bytes;
}
