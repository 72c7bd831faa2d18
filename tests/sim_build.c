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

static uint8_t *linked(const char *dir, size_t *size)
{
	char path[64], text[1024];
	snprintf(text, sizeof text, "ld.lld-22 -shared %s/a.o -o %s/a.hsaco", dir, dir);
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

static const char *tests_folder(void)
{
	const char *tests = getenv("TDSL_TESTS");
	return tests ? tests : "tests";
}

uint8_t *sim_build_file(const char *path, const char *chip, const char *llc_options, size_t *size)
{
	char dir[] = "/tmp/tdsl-test-XXXXXX", text[1024];
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(text, sizeof text, "llc-22 -mcpu=%s %s -filetype=obj %s -o %s/a.o", chip, llc_options, path, dir);
	command(text);
	return linked(dir, size);
}

uint8_t *sim_build(const char *name, const char *chip, const char *llc_options, size_t *size)
{
	char path[512];
	snprintf(path, sizeof path, "%s/sim/%s.ll", tests_folder(), name);
	return sim_build_file(path, chip, llc_options, size);
}

uint8_t *sim_build_asm(const char *assembly, const char *chip, size_t *size)
{
	char dir[] = "/tmp/tdsl-test-XXXXXX", text[1024], path[64];
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/a.s", dir);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(assembly, f);
	fclose(f);
	snprintf(text, sizeof text, "llvm-mc-22 -triple=amdgcn-amd-amdhsa -mcpu=%s -filetype=obj -I %s/sim %s/a.s -o %s/a.o", chip,
	         tests_folder(), dir, dir);
	command(text);
	return linked(dir, size);
}
