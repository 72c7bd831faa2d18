/* tensorfile_test.c -- the safetensors reader and writer: what goes out comes back, what is malformed is refused with
 * the right words, and nothing is left half written. */
#include "../base/tensorfile.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <dirent.h>

static char dir[64], path[128], err[512];

static void setup(void)
{
	strcpy(dir, "/tmp/tdsl-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/t.safetensors", dir);
}

static void teardown(void)
{
	char text[128];
	snprintf(text, sizeof text, "rm -r %s", dir);
	ck_assert_int_eq(system(text), 0);
}

static int files(void)
{
	int n = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* A file of this header and `data` bytes 0, 1, 2, ...; *n is its size. */
static unsigned char *file_make(const char *header, size_t data, size_t *n)
{
	size_t len = strlen(header);
	*n = 8 + len + data;
	unsigned char *b = calloc(1, *n);
	for (int i = 0; i < 8; i++)
		b[i] = (unsigned char)(len >> 8 * i);
	memcpy(b + 8, header, len);
	for (size_t i = 0; i < data; i++)
		b[8 + len + i] = (unsigned char)i;
	return b;
}

static int parse(struct tensorfile **f, const char *header, size_t data)
{
	size_t n;
	unsigned char *b = file_make(header, data, &n);
	int rc = tensorfile_parse(f, b, n, "t", err, sizeof err);
	free(b);
	return rc;
}

START_TEST(round_trip)
{
	static const int64_t shape[] = {2, 3}, empty[] = {4, 0}, eight[] = {8};
	float f[6] = {1, 2, 3, 4, 5, 6};
	uint8_t codes[8] = {0, 0x7f, 0x80, 0xff, 4, 5, 6, 7};
	int64_t scalar = -5;
	struct tensorfile_tensor t[20] = {
		{.name = "x", .dtype = DT_F32, .rank = 2, .shape = shape, .data = f},
		{.name = "none", .dtype = DT_BF16, .rank = 2, .shape = empty},
		{.name = "s", .dtype = DT_I64, .rank = 0, .data = &scalar},
		{.name = "a \"quoted\"\n\xc3\xa4 name", .dtype = DT_E2M1, .rank = 1, .shape = eight, .data = codes},
	};
	int n = 4;
	for (int d = DT_NONE + 1; d < DT_COUNT; d++)
		if (dtype_info(d)->bits == 8)
			t[n++] = (struct tensorfile_tensor){.name = dtype_info(d)->name, .dtype = d, .rank = 1, .shape = eight, .data = codes};
	ck_assert_msg(tensorfile_write(path, t, n, err, sizeof err) == 0, "%s", err);
	ck_assert_int_eq(files(), 1);
	struct tensorfile *r;
	ck_assert_msg(tensorfile_open(&r, path, err, sizeof err) == 0, "%s", err);
	ck_assert_int_eq(tensorfile_count(r), n);
	for (int i = 0; i < n; i++) {
		const struct tensorfile_tensor *g = tensorfile_find(r, t[i].name);
		ck_assert_ptr_nonnull(g);
		ck_assert_int_eq(g->dtype, t[i].dtype);
		ck_assert_int_eq(g->rank, t[i].rank);
		for (int k = 0; k < g->rank; k++)
			ck_assert_int_eq(g->shape[k], t[i].shape[k]);
		ck_assert_uint_eq((uintptr_t)g->data % 64, 0);
		if (g->bytes)
			ck_assert_mem_eq(g->data, t[i].data, g->bytes);
	}
	ck_assert_uint_eq(tensorfile_find(r, t[3].name)->bytes, 4);
	ck_assert_int_eq(tensorfile_find(r, t[3].name)->count, 8);
	ck_assert_ptr_null(tensorfile_find(r, "y"));
	tensorfile_close(r);
	tensorfile_close(NULL);
}
END_TEST

#define T(name, dtype, shape, offsets) "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

START_TEST(good_headers)
{
	static const struct { const char *header; size_t data; int count; } good[] = {
		{"{}", 0, 0},
		{"{}      ", 0, 0},
		{"{\"__metadata__\":{\"format\":\"pt\"}}", 0, 0},
		{"{" T("a", "I8", "[3]", "[0,3]") "," T("b", "F32", "[1]", "[3,7]") "}", 7, 2},
		{"{" T("b", "F32", "[1]", "[4,8]") "," T("a", "F32", "[]", "[0,4]") "}", 8, 2},
		{"{" T("a", "F4", "[2,3]", "[0,3]") "}", 3, 1},
		{"{" T("a", "F8_E8M0", "[0,9007199254740992]", "[0,0]") "}", 0, 1},
	};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		struct tensorfile *f;
		ck_assert_msg(parse(&f, good[i].header, good[i].data) == 0, "%s: %s", good[i].header, err);
		ck_assert_int_eq(tensorfile_count(f), good[i].count);
		tensorfile_close(f);
	}
}
END_TEST

START_TEST(bad_headers)
{
	static const struct { const char *header; size_t data; const char *text; } bad[] = {
		{"", 0, "t: the header is not a JSON object (trouble at byte 0 of it)"},
		{"[]", 0, "t: the header is not a JSON object (trouble at byte 0 of it)"},
		{" {}", 0, "t: the header is not a JSON object (trouble at byte 0 of it)"},
		{"{} x", 0, "t: the header is not a JSON object (trouble at byte 3 of it)"},
		{"{\"a\":", 0, NULL},
		{"{\"a\":1}", 0, "t: tensor 'a' is not a JSON object"},
		{"{\"__metadata__\":{\"a\":1}}", 0, "t: __metadata__: \"a\" is not a string"},
		{"{\"__metadata__\":[]}", 0, "t: __metadata__ is not a JSON object"},
		{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "t: tensor 'a': \"data_offsets\" is missing"},
		{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, "t: tensor 'a': unknown key \"more\""},
		{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "t: tensor 'a': \"shape\" is given twice"},
		{"{" T("a", "F31", "[1]", "[0,4]") "}", 4, "t: tensor 'a': dtype \"F31\" is not supported"},
		{"{" T("a", "F32", "1", "[0,4]") "}", 4, "t: tensor 'a': \"shape\" is not a list"},
		{"{" T("a", "F32", "[1.5]", "[0,4]") "}", 4, "t: tensor 'a': extent 0 of the shape is not a whole number"},
		{"{" T("a", "F32", "[1,-1]", "[0,4]") "}", 4, "t: tensor 'a': extent 1 of the shape is not a whole number"},
		{"{" T("a", "F32", "[\"1\"]", "[0,4]") "}", 4, "t: tensor 'a': extent 0 of the shape is not a whole number"},
		{"{" T("a", "F32", "[4294967296,4294967296]", "[0,4]") "}", 4, "t: tensor 'a': the shape counts more than 2^53 elements"},
		{"{" T("a", "F32", "[1]", "[0]") "}", 4, "t: tensor 'a': \"data_offsets\" is not a list of two whole numbers"},
		{"{" T("a", "F32", "[1]", "[0,1e300]") "}", 4, "t: tensor 'a': \"data_offsets\" is not a list of two whole numbers"},
		{"{" T("a", "F32", "[1]", "[4,0]") "}", 4, "t: tensor 'a': data_offsets [4, 0] run backwards"},
		{"{" T("a", "F32", "[2]", "[0,4]") "}", 4, "t: tensor 'a': 4 bytes, but F32 and its shape make 8"},
		{"{" T("a", "F4", "[3]", "[0,2]") "}", 2, "t: tensor 'a': 3 elements of F4 end in half a byte"},
		{"{" T("a", "F32", "[1]", "[0,4]") "}", 3, "t: truncated: the tensors take 4 bytes, the file holds 3"},
		{"{" T("a", "F32", "[1]", "[0,4]") "}", 5, "t: 1 bytes follow the last tensor"},
		{"{" T("a", "F32", "[1]", "[4,8]") "}", 8, "t: a hole of 4 bytes before tensor 'a'"},
		{"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[2,6]") "}", 6, "t: tensor 'b' overlaps 'a'"},
		{"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8, "t: two tensors are called 'a'"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct tensorfile *f;
		ck_assert_msg(parse(&f, bad[i].header, bad[i].data) == TENSORFILE_EFORMAT, "accepted: %s", bad[i].header);
		ck_assert_ptr_null(f);
		if (bad[i].text)
			ck_assert_str_eq(err, bad[i].text);
	}
}
END_TEST

START_TEST(bad_lengths)
{
	struct tensorfile *f;
	unsigned char huge[16] = {0, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'}, longer[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
	ck_assert_int_eq(tensorfile_parse(&f, huge, 7, "t", err, sizeof err), TENSORFILE_EFORMAT);
	ck_assert_str_eq(err, "t: 7 bytes are too few for a safetensors file");
	ck_assert_int_eq(tensorfile_parse(&f, huge, sizeof huge, "t", err, sizeof err), TENSORFILE_EFORMAT);
	ck_assert_ptr_nonnull(strstr(err, "over the limit"));
	ck_assert_int_eq(tensorfile_parse(&f, longer, sizeof longer, "t", err, sizeof err), TENSORFILE_EFORMAT);
	ck_assert_str_eq(err, "t: truncated: a header of 3 bytes in a file of 10");
	ck_assert_int_eq(tensorfile_parse(&f, NULL, 0, "t", err, sizeof err), TENSORFILE_EFORMAT);
}
END_TEST

START_TEST(damaged_anywhere)
{
	size_t n;
	unsigned char *b = file_make("{\"__metadata__\":{\"k\":\"v\"}," T("a", "F32", "[1]", "[0,4]") "," T("b", "BF16", "[2,2]", "[4,12]") "}",
	                             12, &n);
	struct tensorfile *f;
	for (size_t cut = 0; cut < n; cut++) {
		unsigned char *copy = malloc(cut ? cut : 1);
		memcpy(copy, b, cut);
		ck_assert_int_eq(tensorfile_parse(&f, copy, cut, "t", err, sizeof err), TENSORFILE_EFORMAT);
		free(copy);
	}
	for (size_t i = 0; i < n; i++)
		for (int bit = 0; bit < 8; bit++) {
			b[i] ^= (unsigned char)(1 << bit);
			if (tensorfile_parse(&f, b, n, "t", err, sizeof err) == 0)
				tensorfile_close(f);
			b[i] ^= (unsigned char)(1 << bit);
		}
	free(b);
}
END_TEST

START_TEST(no_such_file)
{
	struct tensorfile *f;
	ck_assert_int_eq(tensorfile_open(&f, path, err, sizeof err), TENSORFILE_EIO);
	ck_assert_ptr_nonnull(strstr(err, "cannot open: No such file"));
	ck_assert_int_eq(tensorfile_open(&f, dir, err, sizeof err), TENSORFILE_EIO);
	ck_assert_ptr_nonnull(strstr(err, "not a regular file"));
}
END_TEST

START_TEST(write_refuses)
{
	static const int64_t shape[] = {3}, negative[] = {-1};
	char data[16] = {0};
	struct { struct tensorfile_tensor t[2]; int n; const char *text; } bad[] = {
		{{{.name = "a", .dtype = DT_F32, .rank = 1, .shape = negative, .data = data}}, 1, "tensor 'a': bad extent -1"},
		{{{.name = "a", .dtype = DT_F32, .rank = 1, .shape = shape}}, 1, "tensor 'a' has no data"},
		{{{.name = "a", .dtype = DT_E2M1, .rank = 1, .shape = shape, .data = data}}, 1, "3 elements of F4 end in half a byte"},
		{{{.name = "a", .dtype = DT_NONE, .rank = 1, .shape = shape, .data = data}}, 1, "safetensors has no name for ?"},
		{{{.name = "__metadata__", .dtype = DT_I8, .rank = 1, .shape = shape, .data = data}}, 1, "tensor 0 has no usable name"},
		{{{.name = "a", .dtype = DT_I8, .rank = 1, .shape = shape, .data = data},
		  {.name = "a", .dtype = DT_I8, .rank = 1, .shape = shape, .data = data}}, 2, "two tensors are called 'a'"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		ck_assert_int_eq(tensorfile_write(path, bad[i].t, bad[i].n, err, sizeof err), TENSORFILE_EARG);
		ck_assert_msg(strstr(err, bad[i].text) != NULL, "%s", err);
		ck_assert_int_eq(files(), 0);
	}
}
END_TEST

START_TEST(disk_full)
{
	static const int64_t shape[] = {1 << 20};
	struct tensorfile_tensor t = {.name = "a", .dtype = DT_I8, .rank = 1, .shape = shape, .data = calloc(1, 1 << 20)};
	int64_t small[] = {1};
	struct tensorfile_tensor old = {.name = "old", .dtype = DT_I8, .rank = 1, .shape = small, .data = t.data};
	/* a limit on the size of files stands for a full disk: the write fails in its middle */
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit limit = {4096, 4096};
	ck_assert_int_eq(tensorfile_write(path, &old, 1, err, sizeof err), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(tensorfile_write(path, &t, 1, err, sizeof err), TENSORFILE_EIO);
	ck_assert_ptr_nonnull(strstr(err, "cannot write: "));
	ck_assert_int_eq(files(), 1);
	struct tensorfile *f;
	ck_assert_int_eq(tensorfile_open(&f, path, err, sizeof err), 0);
	ck_assert_ptr_nonnull(tensorfile_find(f, "old"));
	tensorfile_close(f);

	/* a device is written to, never replaced */
	struct stat st;
	ck_assert_int_eq(tensorfile_write("/dev/full", &t, 1, err, sizeof err), TENSORFILE_EIO);
	ck_assert_str_eq(err, "/dev/full: cannot write: No space left on device");
	ck_assert(stat("/dev/full", &st) == 0 && S_ISCHR(st.st_mode));
	ck_assert_int_eq(tensorfile_write("/nowhere/at/all", &t, 1, err, sizeof err), TENSORFILE_EIO);
	free(t.data);
}
END_TEST

START_TEST(symbolic_link_stays)
{
	char link[140];
	static const int64_t one[] = {1};
	struct stat st;
	struct tensorfile_tensor t = {.name = "a", .dtype = DT_I8, .rank = 1, .shape = one, .data = link};
	snprintf(link, sizeof link, "%s/link", dir);
	ck_assert_int_eq(tensorfile_write(path, &t, 1, err, sizeof err), 0);
	ck_assert_int_eq(symlink(path, link), 0);
	ck_assert_int_eq(tensorfile_write(link, &t, 1, err, sizeof err), 0);
	ck_assert(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	ck_assert_int_eq(files(), 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tensorfile");
	TCase *c = tcase_create("all");
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, round_trip);
	tcase_add_test(c, good_headers);
	tcase_add_test(c, bad_headers);
	tcase_add_test(c, bad_lengths);
	tcase_add_test(c, damaged_anywhere);
	tcase_add_test(c, no_such_file);
	tcase_add_test(c, write_refuses);
	tcase_add_test(c, disk_full);
	tcase_add_test(c, symbolic_link_stays);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
