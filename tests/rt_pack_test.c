/* rt_pack_test.c -- the bytes of a pack: reproducible, read back as written, and refused with a text when anything is wrong. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "rt_model.h"

static uint8_t *bytes;
static size_t size;
static char err[1024];

static void setup(void)
{
	bytes = rt_pack(&size, false);
	err[0] = 0;
}

static void teardown(void)
{
	free(bytes);
}

/* Opens a copy of exactly n bytes, so that a read past the end is a heap error. */
static int open_copy(const uint8_t *from, size_t n, bool all)
{
	struct pack_file *p = NULL;
	uint8_t *copy = malloc(n ? n : 1);
	memcpy(copy, from, n);
	int rc = pack_open_memory(&p, copy, n, "p", err, sizeof err);
	if (rc == 0 && all)
		rc = pack_verify(p, err, sizeof err);
	pack_close(p);
	free(copy);
	return rc;
}

START_TEST(same_model_same_bytes)
{
	size_t n;
	uint8_t *again = rt_pack(&n, false);
	ck_assert_uint_eq(n, size);
	ck_assert_int_eq(memcmp(again, bytes, n), 0);
	free(again);
}
END_TEST

START_TEST(model_read_back_writes_same_bytes)
{
	struct arena a = {0};
	struct pack_file *p;
	struct model_pack m;
	void *again;
	size_t n;
	ck_assert_int_eq(pack_open_memory(&p, bytes, size, "p", err, sizeof err), 0);
	ck_assert_int_eq(pack_model(p, &a, true, &m, err, sizeof err), 0);
	ck_assert_int_eq(m.nkernels, 3);
	ck_assert(m.kernels[0].variants[0].launches[0].overlaps && !m.kernels[1].variants[0].launches[0].overlaps);
	ck_assert_str_eq(m.kernels[0].params[1].name, "w");
	ck_assert_int_eq(m.kernels[0].instances[1].dtype[0], DT_F16);
	ck_assert_int_eq(m.kernels[0].instances[1].native[3], 8);
	ck_assert_str_eq(m.kernels[0].variants[0].predicate_text, "N%8=0 aligned");
	ck_assert(m.kernels[0].variants[1].predicate == NULL);
	ck_assert_str_eq(m.kernels[1].requires[0].text, "N != 13");
	ck_assert_int_eq(pack_write(&m, &again, &n, err, sizeof err), 0);
	ck_assert_uint_eq(n, size);
	ck_assert_int_eq(memcmp(again, bytes, n), 0);
	free(again);
	pack_close(p);
	arena_free(&a);
}
END_TEST

START_TEST(unaligned_memory_is_read)
{
	uint8_t *odd = malloc(size + 1);
	struct pack_file *p;
	memcpy(odd + 1, bytes, size);
	ck_assert_int_eq(pack_open_memory(&p, odd + 1, size, "p", err, sizeof err), 0);
	ck_assert_int_eq(pack_verify(p, err, sizeof err), 0);
	pack_close(p);
	free(odd);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
	for (size_t n = 0; n < size; n++) {
		err[0] = 0;
		ck_assert_msg(open_copy(bytes, n, true) < 0, "%zu of %zu bytes were accepted", n, size);
		ck_assert_msg(strstr(err, "offset") != NULL, "no offset: %s", err);
	}
	open_copy(bytes, size - 1, true);
	ck_assert_msg(strstr(err, "truncated") != NULL, "%s", err);
}
END_TEST

START_TEST(every_altered_byte_is_refused)
{
	for (size_t i = 0; i < size; i++) {
		uint8_t was = bytes[i];
		bytes[i] ^= (uint8_t)(1u << (i * 7 % 8));
		err[0] = 0;
		ck_assert_msg(open_copy(bytes, size, true) < 0, "byte %zu was altered and accepted", i);
		ck_assert_msg(strstr(err, "offset") != NULL, "no offset: %s", err);
		bytes[i] = was;
	}
}
END_TEST

static void checksums_renew(void)
{
	struct pack_header h;
	memcpy(&h, bytes, sizeof h);
	h.index_hash = XXH3_64bits(bytes + h.index_offset, h.index_bytes);
	h.header_hash = XXH3_64bits(&h, offsetof(struct pack_header, header_hash));
	memcpy(bytes, &h, sizeof h);
}

/* Altered on purpose, checksums made good: refused, or harmless to everything that reads it. */
START_TEST(altered_index_with_good_checksums_does_no_harm)
{
	uint8_t *saved = malloc(size);
	uint64_t seed = 12345;
	int accepted = 0;
	memcpy(saved, bytes, size);
	for (int round = 0; round < 4000; round++) {
		struct pack_header h;
		memcpy(bytes, saved, size);
		memcpy(&h, bytes, sizeof h);
		for (int k = 0; k <= round % 3; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			bytes[h.index_offset + (seed >> 20) % h.index_bytes] = (uint8_t)(seed >> 50);
		}
		checksums_renew();
		struct pack_file *p;
		if (pack_open_memory(&p, bytes, size, "p", err, sizeof err) < 0)
			continue;
		struct arena a = {0};
		struct model_pack m;
		accepted++;
		pack_verify(p, err, sizeof err);
		pack_model(p, &a, false, &m, err, sizeof err);
		arena_free(&a);
		pack_close(p);
	}
	ck_assert_int_gt(accepted, 100);
	free(saved);
}
END_TEST

START_TEST(newer_format_is_refused)
{
	bytes[8] = 9;
	ck_assert_int_eq(open_copy(bytes, size, false), PACK_EVERSION);
	ck_assert_str_eq(err, "p: offset 8: pack format 9; this library reads format 2");
}
END_TEST

START_TEST(foreign_bytes_are_refused)
{
	static const uint8_t elf[256] = "\177ELF";
	ck_assert_int_eq(open_copy(elf, sizeof elf, false), PACK_EFORMAT);
	ck_assert_str_eq(err, "p: offset 0: not a kernel pack (no \"TDSLPACK\" at the start)");
}
END_TEST

START_TEST(trailing_bytes_are_refused)
{
	bytes = realloc(bytes, size + 3);
	memset(bytes + size, 0, 3);
	ck_assert_int_eq(open_copy(bytes, size + 3, false), PACK_EFORMAT);
	ck_assert_msg(strstr(err, "3 bytes follow the end") != NULL, "%s", err);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
	struct pack_file *p;
	ck_assert_int_eq(pack_open(&p, "/no/such.tpack", err, sizeof err), PACK_EIO);
	ck_assert_str_eq(err, "/no/such.tpack: cannot read: No such file or directory");
	ck_assert_int_eq(pack_open(&p, "/tmp", err, sizeof err), PACK_EIO);
	ck_assert_str_eq(err, "/tmp: not a file");
	ck_assert_int_eq(pack_open(&p, "/dev/null", err, sizeof err), PACK_EIO);
}
END_TEST

static int files_in(const char *folder)
{
	char command[128];
	int n = -1;
	snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
	FILE *f = popen(command, "r");
	ck_assert(f && fscanf(f, "%d", &n) == 1);
	pclose(f);
	return n;
}

START_TEST(file_is_written_whole_or_not_at_all)
{
	char folder[] = "/tmp/rt_packXXXXXX", path[64], command[64];
	struct pack_file *p;
	ck_assert(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/a.tpack", folder);
	ck_assert_int_eq(pack_write_file(path, bytes, size, err, sizeof err), 0);
	ck_assert_int_eq(pack_open(&p, path, err, sizeof err), 0);
	pack_close(p);
	/* a full disk: the kernel refuses to let the file grow */
	struct rlimit was, small = {1000, RLIM_INFINITY};
	getrlimit(RLIMIT_FSIZE, &was);
	signal(SIGXFSZ, SIG_IGN);
	small.rlim_max = was.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	int rc = pack_write_file(path, bytes, size, err, sizeof err);
	setrlimit(RLIMIT_FSIZE, &was);
	ck_assert_int_eq(rc, -1);
	ck_assert_msg(strstr(err, "cannot write") && strstr(err, path), "%s", err);
	ck_assert_int_eq(pack_open(&p, path, err, sizeof err), 0); /* the old one is untouched */
	pack_close(p);
	ck_assert_int_eq(files_in(folder), 1);
	ck_assert_int_eq(pack_write_file("/no/such/folder/a.tpack", bytes, size, err, sizeof err), -1);
	ck_assert_msg(strstr(err, "No such file") != NULL, "%s", err);
	snprintf(command, sizeof command, "rm -r %s", folder);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(model_over_a_limit_is_refused)
{
	struct arena a = {0};
	struct model_pack m;
	void *out;
	size_t n;
	rt_model(&a, &m, false);
	m.kernels[0].variants[0].object = 7;
	ck_assert_int_eq(pack_write(&m, &out, &n, err, sizeof err), -1);
	ck_assert_msg(strstr(err, "object 7") != NULL, "%s", err);
	rt_model(&a, &m, false);
	m.kernels[0].variants[0].launches[0].kargs[2].offset = 63;
	ck_assert_int_eq(pack_write(&m, &out, &n, err, sizeof err), -1);
	ck_assert_msg(strstr(err, "kernel argument") != NULL, "%s", err);
	arena_free(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rt_pack");
	TCase *c = tcase_create("bytes");
	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, same_model_same_bytes);
	tcase_add_test(c, model_read_back_writes_same_bytes);
	tcase_add_test(c, unaligned_memory_is_read);
	tcase_add_test(c, every_truncation_is_refused);
	tcase_add_test(c, every_altered_byte_is_refused);
	tcase_add_test(c, altered_index_with_good_checksums_does_no_harm);
	tcase_add_test(c, newer_format_is_refused);
	tcase_add_test(c, foreign_bytes_are_refused);
	tcase_add_test(c, trailing_bytes_are_refused);
	tcase_add_test(c, files_that_cannot_be_read);
	tcase_add_test(c, file_is_written_whole_or_not_at_all);
	tcase_add_test(c, model_over_a_limit_is_refused);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
