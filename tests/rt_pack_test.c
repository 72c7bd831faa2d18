/* rt_pack_test.c -- the bytes of a pack: reproducible, read back as written, and refused with a text when anything is wrong. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "../compiler/dictionary.h"
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
	ck_assert(!m.kernels[0].variants[0].launches[0].together && m.kernels[0].variants[1].launches[0].together);
	ck_assert(m.kernels[0].variants[0].launches[0].lanes == NULL && m.kernels[0].variants[1].launches[0].lanes->op == HX_MAX);
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

START_TEST(another_format_is_refused)
{
	bytes[8] = 9;
	ck_assert_int_eq(open_copy(bytes, size, false), PACK_EVERSION);
	ck_assert_str_eq(err, "p: offset 8: pack format 9; this library reads format 5");
	bytes[8] = 2; /* and an older one, of which nothing else is looked at */
	ck_assert_int_eq(open_copy(bytes, 100, false), PACK_EVERSION);
	ck_assert_str_eq(err, "p: offset 8: pack format 2; this library reads format 5");
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
	ck_assert_int_eq(outfile_write(path, bytes, size, err, sizeof err), 0);
	ck_assert_int_eq(pack_open(&p, path, err, sizeof err), 0);
	pack_close(p);
	/* a full disk: the kernel refuses to let the file grow */
	struct rlimit was, small = {1000, RLIM_INFINITY};
	getrlimit(RLIMIT_FSIZE, &was);
	signal(SIGXFSZ, SIG_IGN);
	small.rlim_max = was.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	int rc = outfile_write(path, bytes, size, err, sizeof err);
	setrlimit(RLIMIT_FSIZE, &was);
	ck_assert_int_eq(rc, -1);
	ck_assert_msg(strstr(err, "cannot write") && strstr(err, path), "%s", err);
	ck_assert_int_eq(pack_open(&p, path, err, sizeof err), 0); /* the old one is untouched */
	pack_close(p);
	ck_assert_int_eq(files_in(folder), 1);
	/* the mode is what it says; a link is replaced, unless its target is meant; a pipe or a device is written to; a folder is not */
	struct outfile f;
	struct stat st;
	char link[64];
	umask(077);
	ck_assert_int_eq(outfile_write(path, "abc", 3, err, sizeof err), 0);
	ck_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0644 && st.st_size == 3);
	snprintf(link, sizeof link, "%s/link", folder);
	ck_assert_int_eq(symlink("a.tpack", link), 0);
	ck_assert_int_eq(outfile_open(&f, AT_FDCWD, link, 0666, OUTFILE_UMASK | OUTFILE_FOLLOW), 0);
	ck_assert(outfile_put(&f, "abcd", 4) == 0 && outfile_sync(&f) == 0 && outfile_close(&f) == 0 && outfile_rename(&f) == 0);
	outfile_drop(&f);
	ck_assert(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
	ck_assert(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600 && st.st_size == 4);
	ck_assert_int_eq(outfile_write(link, "abcde", 5, err, sizeof err), 0);
	ck_assert(lstat(link, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 5);
	ck_assert_int_eq(outfile_write("/dev/null", "abc", 3, err, sizeof err), 0);
	ck_assert(stat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
	ck_assert_int_eq(outfile_write(folder, "abc", 3, err, sizeof err), -1);
	ck_assert_msg(strstr(err, "Is a directory") != NULL, "%s", err);
	ck_assert_int_eq(outfile_open(&f, AT_FDCWD, path, 0644, 0), 0);
	ck_assert_int_eq(files_in(folder), 3);
	outfile_drop(&f); /* given up: nothing is left */
	ck_assert_int_eq(files_in(folder), 2);
	ck_assert_int_eq(outfile_write("/no/such/folder/a.tpack", bytes, size, err, sizeof err), -1);
	ck_assert_msg(strstr(err, "No such file") != NULL, "%s", err);
	snprintf(command, sizeof command, "rm -r %s", folder);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

/* ---- dictionary and reports */

enum { MANY = 48, OBJECT = 6000 };

static uint32_t random_next(uint32_t *seed)
{
	return *seed = *seed * 1664525 + 1013904223;
}

/* The model with MANY objects instead: stretches out of a common stock, and bytes of their own; a report for each variant. */
static void model_many(struct arena *a, struct model_pack *m, bool alike)
{
	uint32_t seed = 5;
	uint8_t *stock = arena_alloc(a, 40 * 300);
	for (int i = 0; i < 40 * 300; i++)
		stock[i] = (uint8_t)(random_next(&seed) >> 24);
	rt_model(a, m, false);
	m->nobjects = MANY;
	m->objects = arena_alloc(a, MANY * sizeof *m->objects);
	for (int o = 0; o < MANY; o++) {
		uint8_t *b = arena_alloc(a, OBJECT);
		for (int i = 0; i < OBJECT; i++)
			b[i] = (uint8_t)(random_next(&seed) >> 24);
		for (int i = 0; alike && i + 300 <= OBJECT; i += 300 + (int)(random_next(&seed) >> 24))
			memcpy(b + i, stock + (random_next(&seed) >> 16) % 40 * 300, 300);
		m->objects[o] = (struct model_object){o % 2 ? "gfx950" : "gfx942", b, OBJECT};
	}
	for (int k = 0; k < m->nkernels; k++)
		for (int v = 0; v < m->kernels[k].nvariants; v++) {
			m->kernels[k].variants[v].object = (k * 20 + v * 7) % MANY;
			m->kernels[k].variants[v].report_json = v % 2 ? NULL : arena_printf(a, "{\"vgpr\":%d}", k * 10 + v);
		}
}

static void many_write(struct arena *a, struct model_pack *m, uint8_t **out, size_t *n)
{
	void *made;
	model_many(a, m, true);
	ck_assert_int_eq(dictionary_train(a, m, err, sizeof err), 0);
	ck_assert_uint_gt(m->dictionary_size, 0);
	ck_assert_int_eq(pack_write(m, &made, n, err, sizeof err), 0);
	*out = made;
}

static struct pack_file *opened(const uint8_t *from, size_t n)
{
	struct pack_file *p = NULL;
	ck_assert_msg(pack_open_memory(&p, from, n, "p", err, sizeof err) == 0, "%s", err);
	return p;
}

/* Every object as it was; NULL, or what is wrong. */
static const char *objects_wrong(const struct pack_file *p, const struct model_pack *m)
{
	char why[400] = "";
	for (int i = 0; i < m->nobjects; i++) {
		uint8_t *b;
		size_t n;
		if (pack_object_load(p, (uint32_t)i, &b, &n, why, sizeof why) < 0)
			return "an object does not load";
		bool same = n == m->objects[i].size && memcmp(b, m->objects[i].bytes, n) == 0;
		free(b);
		if (!same)
			return "an object differs";
	}
	return NULL;
}

START_TEST(objects_share_a_dictionary)
{
	struct arena a = {0};
	struct model_pack m, read;
	uint8_t *one, *two;
	void *again, *plain;
	size_t n, n2, nplain;
	many_write(&a, &m, &one, &n);
	many_write(&a, &m, &two, &n2);
	ck_assert(n == n2 && memcmp(one, two, n) == 0);
	struct pack_file *p = opened(one, n);
	ck_assert_uint_gt(p->parts[PP_DICTIONARY].bytes, 0);
	ck_assert_msg(!objects_wrong(p, &m), "%s", objects_wrong(p, &m));
	ck_assert_int_eq(pack_verify(p, err, sizeof err), 0);
	ck_assert_int_eq(pack_model(p, &a, true, &read, err, sizeof err), 0);
	ck_assert_int_eq(pack_write(&read, &again, &n2, err, sizeof err), 0);
	ck_assert(n == n2 && memcmp(one, again, n) == 0);
	m.dictionary_size = 0;
	ck_assert_int_eq(pack_write(&m, &plain, &nplain, err, sizeof err), 0);
	ck_assert_msg(n < nplain, "%zu bytes with a dictionary, %zu without", n, nplain);
	pack_close(p);
	free(one), free(two), free(again), free(plain);
	arena_free(&a);
}
END_TEST

START_TEST(objects_with_nothing_in_common)
{
	struct arena a = {0};
	struct model_pack m;
	void *made;
	size_t n;
	model_many(&a, &m, false);
	ck_assert_int_eq(dictionary_train(&a, &m, err, sizeof err), 0);
	ck_assert_int_eq(pack_write(&m, &made, &n, err, sizeof err), 0);
	struct pack_file *p = opened(made, n);
	ck_assert_msg(!objects_wrong(p, &m), "%s", objects_wrong(p, &m));
	pack_close(p);
	free(made);
	m.dictionary_size = 0, m.nobjects = 7;
	ck_assert_int_eq(dictionary_train(&a, &m, err, sizeof err), 0);
	ck_assert_uint_eq(m.dictionary_size, 0);   /* too few */
	arena_free(&a);
}
END_TEST

/* Each part altered: everything opens, what needs the part fails each time and with its name, the rest is there. */
START_TEST(an_altered_part_fails_what_needs_it)
{
	static const char *const said[PP_COUNT] = {"the dictionary of the code objects was altered (checksum)", "the reports were altered (checksum)"};
	struct arena a = {0};
	struct model_pack m;
	uint8_t *b;
	size_t n;
	many_write(&a, &m, &b, &n);
	for (int part = 0; part < PP_COUNT; part++) {
		struct pack_file *p = opened(b, n);
		uint64_t at = p->parts[part].offset + p->parts[part].bytes / 2;
		char want[128];
		snprintf(want, sizeof want, "p: offset %llu: %s", (unsigned long long)p->parts[part].offset, said[part]);
		b[at] ^= 4;
		for (int again = 0; again < 2; again++) {
			const char *json = "untouched";
			uint8_t *object = NULL;
			size_t size = 0;
			int rc = pack_object_load(p, 3, &object, &size, err, sizeof err);
			ck_assert_int_eq(rc, part == PP_DICTIONARY ? PACK_EFORMAT : PACK_OK);
			ck_assert(part == PP_DICTIONARY ? !object && strcmp(err, want) == 0 : object && size == OBJECT);
			free(object);
			rc = pack_report(p, &p->variants[0], &json, err, sizeof err);
			ck_assert_int_eq(rc, part == PP_REPORTS ? PACK_EFORMAT : PACK_OK);
			ck_assert(part == PP_REPORTS ? !json && strcmp(err, want) == 0 : strcmp(json, "{\"vgpr\":0}") == 0);
			ck_assert_int_eq(pack_report(p, &p->variants[1], &json, err, sizeof err), 0);
			ck_assert(json == NULL);               /* a variant without one asks for nothing */
		}
		ck_assert_int_eq(pack_verify(p, err, sizeof err), PACK_EFORMAT);
		ck_assert_str_eq(err, want);
		b[at] ^= 4;
		ck_assert_int_eq(pack_verify(p, err, sizeof err), 0);  /* a failure is not remembered */
		pack_close(p);
	}
	free(b);
	arena_free(&a);
}
END_TEST

START_TEST(altered_and_truncated_at_random)
{
	struct arena a = {0};
	struct model_pack m;
	uint8_t *b;
	size_t n;
	uint32_t seed = 99;
	many_write(&a, &m, &b, &n);
	for (int i = 0; i < 1500; i++) {
		size_t at = (random_next(&seed) >> 4) % n;
		uint8_t bit = (uint8_t)(1 << (random_next(&seed) >> 29));
		b[at] ^= bit;
		ck_assert_msg(open_copy(b, n, true) < 0 && strstr(err, "offset"), "byte %zu: %s", at, err);
		b[at] ^= bit;
		ck_assert_msg(open_copy(b, at, true) < 0 && strstr(err, "offset"), "%zu of %zu bytes: %s", at, n, err);
	}
	ck_assert_int_eq(open_copy(b, n, true), 0);
	free(b);
	arena_free(&a);
}
END_TEST

/* A dictionary, reports and objects altered on purpose, every checksum made good: refused, or wrong bytes, but no harm. */
START_TEST(altered_parts_with_good_checksums_do_no_harm)
{
	struct arena a = {0};
	struct model_pack m;
	uint8_t *b, *saved;
	size_t n;
	uint32_t seed = 3;
	int refused = 0;
	many_write(&a, &m, &b, &n);
	saved = arena_copy(&a, b, n);
	for (int round = 0; round < 1000; round++) {
		struct pack_header h;
		struct pack_file *p = opened(b, n);
		struct pack_part *parts = (struct pack_part *)(void *)(b + ((const uint8_t *)p->parts - p->bytes));
		struct pack_object *objects = (struct pack_object *)(void *)(b + ((const uint8_t *)p->objects - p->bytes));
		for (int k = 0; k < 3; k++) {
			struct pack_part *part = &parts[round % PP_COUNT];
			size_t reach = k ? part->bytes : part->bytes < 200 ? part->bytes : 200; /* the entropy tables are at the start */
			b[part->offset + (random_next(&seed) >> 8) % reach] = (uint8_t)(random_next(&seed) >> 20);
			part->hash = XXH3_64bits(b + part->offset, part->bytes);
		}
		struct pack_object *o = &objects[round % MANY];
		b[o->offset + (random_next(&seed) >> 8) % o->bytes] ^= (uint8_t)(round % 3 ? 0 : random_next(&seed) >> 16);
		o->hash = XXH3_64bits(b + o->offset, o->bytes);
		memcpy(&h, b, sizeof h);
		h.index_hash = XXH3_64bits(b + h.index_offset, h.index_bytes);
		h.header_hash = XXH3_64bits(&h, offsetof(struct pack_header, header_hash));
		memcpy(b, &h, sizeof h);
		pack_close(p);
		p = opened(b, n);
		refused += pack_verify(p, err, sizeof err) < 0;
		pack_close(p);
		memcpy(b, saved, n);
	}
	ck_assert_int_gt(refused, 100);
	free(b);
	arena_free(&a);
}
END_TEST

static struct { const struct pack_file *p; const struct model_pack *m; pthread_barrier_t start; } shared;

static void *load_all(void *unused)
{
	const char *json = NULL;
	char why[200];
	(void)unused;
	pthread_barrier_wait(&shared.start);
	if (pack_report(shared.p, &shared.p->variants[0], &json, why, sizeof why) < 0 || strcmp(json, "{\"vgpr\":0}") != 0)
		return "a report is wrong";
	return (void *)(uintptr_t)objects_wrong(shared.p, shared.m);
}

START_TEST(threads_share_the_parts)
{
	enum { THREADS = 8 };
	struct arena a = {0};
	struct model_pack m;
	uint8_t *b;
	size_t n;
	many_write(&a, &m, &b, &n);
	for (int round = 0; round < 20; round++) {
		pthread_t t[THREADS];
		void *wrong;
		shared.p = opened(b, n), shared.m = &m;
		pthread_barrier_init(&shared.start, NULL, THREADS);
		for (int i = 0; i < THREADS; i++)
			ck_assert_int_eq(pthread_create(&t[i], NULL, load_all, NULL), 0);
		for (int i = 0; i < THREADS; i++) {
			pthread_join(t[i], &wrong);
			ck_assert_msg(!wrong, "%s", (const char *)wrong);
		}
		pthread_barrier_destroy(&shared.start);
		pack_close((struct pack_file *)(uintptr_t)shared.p);
	}
	free(b);
	arena_free(&a);
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
	tcase_add_test(c, another_format_is_refused);
	tcase_add_test(c, foreign_bytes_are_refused);
	tcase_add_test(c, trailing_bytes_are_refused);
	tcase_add_test(c, files_that_cannot_be_read);
	tcase_add_test(c, file_is_written_whole_or_not_at_all);
	tcase_add_test(c, objects_share_a_dictionary);
	tcase_add_test(c, objects_with_nothing_in_common);
	tcase_add_test(c, an_altered_part_fails_what_needs_it);
	tcase_add_test(c, altered_and_truncated_at_random);
	tcase_add_test(c, altered_parts_with_good_checksums_do_no_harm);
	tcase_add_test(c, threads_share_the_parts);
	tcase_add_test(c, model_over_a_limit_is_refused);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
