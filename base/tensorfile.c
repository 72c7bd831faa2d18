/* tensorfile.c -- the safetensors reader and writer declared in tensorfile.h.
 *
 * A file is: 8 bytes, little endian, the header's length; the header, a JSON object of name -> {dtype, shape,
 * data_offsets}; the tensors' bytes.  The reader checks the header against the format's own rules (offsets in the data
 * area, no overlap, no hole, no name twice, sizes that follow from dtype and shape) before it trusts a number of it;
 * then it copies each tensor to an aligned place of one block.  JSON is read and written by cJSON, whose numbers are
 * doubles: integers up to 2^53 are exact and larger ones are refused. */
#include "tensorfile.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "outfile.h"

enum { ALIGN = 64, HEADER_MAX = 100 * 1000 * 1000 };
static const double INTEGER_MAX = 9007199254740992.0; /* 2^53 */

struct entry { /* one tensor of the header; begin and end are offsets in the data area */
	struct tensorfile_tensor t;
	uint64_t begin, end;
};
struct tensorfile {
	cJSON *header; /* owns the names */
	struct entry *entries;
	int count;
	int64_t *shapes;
	unsigned char *block;
};
/* Where the bytes come from: a descriptor, or memory. */
struct source {
	const char *name;
	const unsigned char *bytes;
	int fd;
	uint64_t size;
	char *err;
	size_t errlen;
};

__attribute__((format(printf, 4, 5)))
static int fail(char *err, size_t errlen, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (errlen > 0)
		vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return code;
}
#define FAIL(s, code, fmt, ...) fail((s)->err, (s)->errlen, code, "%s: " fmt, (s)->name, __VA_ARGS__)

static int source_read(const struct source *s, void *dst, uint64_t offset, uint64_t size)
{
	if (s->bytes) {
		memcpy(dst, s->bytes + offset, size);
		return 0;
	}
	for (uint64_t done = 0; done < size;) {
		ssize_t n = pread(s->fd, (char *)dst + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return FAIL(s, TENSORFILE_EIO, "cannot read: %s", strerror(errno));
		if (n == 0)
			return FAIL(s, TENSORFILE_EIO, "ended at byte %llu while being read", (unsigned long long)(offset + done));
		done += (uint64_t)n;
	}
	return 0;
}

/* A JSON number that is an integer in [0, 2^53]. */
static bool json_integer(const cJSON *j, uint64_t *out)
{
	if (!cJSON_IsNumber(j) || !(j->valuedouble >= 0 && j->valuedouble <= INTEGER_MAX))
		return false;
	*out = (uint64_t)j->valuedouble;
	return (double)*out == j->valuedouble;
}

static int entry_shape(const struct source *s, struct entry *e, const cJSON *shape, int64_t *extents)
{
	const char *name = e->t.name;
	const cJSON *d;
	if (!cJSON_IsArray(shape))
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': \"shape\" is not a list", name);
	if (cJSON_GetArraySize(shape) > TENSORFILE_MAX_RANK)
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': rank %d, at most %d is supported", name,
		            cJSON_GetArraySize(shape), TENSORFILE_MAX_RANK);
	e->t.shape = extents;
	e->t.count = 1;
	cJSON_ArrayForEach(d, shape) {
		uint64_t extent;
		if (!json_integer(d, &extent))
			return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': extent %d of the shape is not a whole number", name, e->t.rank);
		extents[e->t.rank++] = (int64_t)extent;
		if (__builtin_mul_overflow(e->t.count, (int64_t)extent, &e->t.count) || e->t.count > (int64_t)INTEGER_MAX)
			return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': the shape counts more than 2^53 elements", name);
	}
	return 0;
}

/* Checks one member of the header by itself: types, names, and that the bytes are as many as dtype and shape say. */
static int entry_parse(const struct source *s, struct entry *e, const cJSON *j, int64_t *extents)
{
	const char *name = e->t.name = j->string;
	static const char *const keys[] = {"dtype", "shape", "data_offsets"};
	const cJSON *member[3] = {0}, *m;
	if (!cJSON_IsObject(j))
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s' is not a JSON object", name);
	cJSON_ArrayForEach(m, j) {
		int k = 0;
		while (k < 3 && strcmp(m->string, keys[k]) != 0)
			k++;
		if (k == 3)
			return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': unknown key \"%s\"", name, m->string);
		if (member[k])
			return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': \"%s\" is given twice", name, keys[k]);
		member[k] = m;
	}
	for (int k = 0; k < 3; k++)
		if (!member[k])
			return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': \"%s\" is missing", name, keys[k]);

	const char *dtype = cJSON_GetStringValue(member[0]);
	if (!dtype)
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': \"dtype\" is not a string", name);
	e->t.dtype = dtype_by_safetensors(dtype, (unsigned)strlen(dtype));
	if (e->t.dtype == DT_NONE)
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': dtype \"%s\" is not supported", name, dtype);
	int rc = entry_shape(s, e, member[1], extents);
	if (rc)
		return rc;

	const cJSON *offsets = member[2];
	if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
	    !json_integer(cJSON_GetArrayItem(offsets, 0), &e->begin) || !json_integer(cJSON_GetArrayItem(offsets, 1), &e->end))
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': \"data_offsets\" is not a list of two whole numbers", name);
	if (e->begin > e->end)
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': data_offsets [%llu, %llu] run backwards", name,
		            (unsigned long long)e->begin, (unsigned long long)e->end);
	if (dtype_info(e->t.dtype)->bits == 4 && e->t.count % 2)
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': %lld elements of F4 end in half a byte", name, (long long)e->t.count);
	uint64_t need = (uint64_t)dtype_bytes(e->t.dtype, e->t.count);
	if (e->end - e->begin != need)
		return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s': %llu bytes, but %s and its shape make %llu", name,
		            (unsigned long long)(e->end - e->begin), dtype, (unsigned long long)need);
	e->t.bytes = need;
	return 0;
}

static int entry_order(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}
static int entry_order_name(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return strcmp(x->t.name, y->t.name);
}

/* Checks the members of the header against each other and against the size of the data area. */
static int entries_check(const struct source *s, struct tensorfile *f, uint64_t data_size)
{
	uint64_t at = 0;
	if (f->count)
		qsort(f->entries, (size_t)f->count, sizeof *f->entries, entry_order_name);
	for (int i = 1; i < f->count; i++)
		if (strcmp(f->entries[i - 1].t.name, f->entries[i].t.name) == 0)
			return FAIL(s, TENSORFILE_EFORMAT, "two tensors are called '%s'", f->entries[i].t.name);
	if (f->count)
		qsort(f->entries, (size_t)f->count, sizeof *f->entries, entry_order);
	for (int i = 0; i < f->count; i++) {
		const struct entry *e = &f->entries[i];
		if (e->begin < at)
			return FAIL(s, TENSORFILE_EFORMAT, "tensor '%s' overlaps '%s'", e->t.name, f->entries[i - 1].t.name);
		if (e->begin > at)
			return FAIL(s, TENSORFILE_EFORMAT, "a hole of %llu bytes before tensor '%s'",
			            (unsigned long long)(e->begin - at), e->t.name);
		at = e->end;
	}
	if (at > data_size)
		return FAIL(s, TENSORFILE_EFORMAT, "truncated: the tensors take %llu bytes, the file holds %llu",
		            (unsigned long long)at, (unsigned long long)data_size);
	if (at < data_size)
		return FAIL(s, TENSORFILE_EFORMAT, "%llu bytes follow the last tensor", (unsigned long long)(data_size - at));
	return 0;
}

static int header_entries(const struct source *s, struct tensorfile *f)
{
	const cJSON *j;
	int members = cJSON_GetArraySize(f->header), axes = 0;
	bool metadata = false;
	cJSON_ArrayForEach(j, f->header) {
		const cJSON *shape = cJSON_GetObjectItemCaseSensitive(j, "shape");
		int rank = cJSON_IsArray(shape) ? cJSON_GetArraySize(shape) : 0;
		axes += rank < TENSORFILE_MAX_RANK ? rank : TENSORFILE_MAX_RANK;
	}
	f->entries = calloc((size_t)members + 1, sizeof *f->entries);
	f->shapes = calloc((size_t)axes + 1, sizeof *f->shapes);
	if (!f->entries || !f->shapes)
		return FAIL(s, TENSORFILE_ENOMEM, "no memory for %d tensors", members);
	int64_t *extents = f->shapes;
	cJSON_ArrayForEach(j, f->header) {
		if (strcmp(j->string, "__metadata__") == 0) {
			const cJSON *m;
			if (!cJSON_IsObject(j) || metadata)
				return FAIL(s, TENSORFILE_EFORMAT, "__metadata__ is %s", metadata ? "given twice" : "not a JSON object");
			cJSON_ArrayForEach(m, j)
				if (!cJSON_IsString(m))
					return FAIL(s, TENSORFILE_EFORMAT, "__metadata__: \"%s\" is not a string", m->string);
			metadata = true;
			continue;
		}
		struct entry *e = &f->entries[f->count];
		int rc = entry_parse(s, e, j, extents);
		if (rc)
			return rc;
		f->count++;
		extents += e->t.rank;
	}
	return 0;
}

/* Copies every tensor to its aligned place. */
static int data_read(const struct source *s, struct tensorfile *f, uint64_t data_start)
{
	size_t total = ALIGN;
	for (int i = 0; i < f->count; i++)
		if (__builtin_add_overflow(total, (f->entries[i].t.bytes + ALIGN - 1) / ALIGN * ALIGN, &total))
			return FAIL(s, TENSORFILE_ENOMEM, "no memory for %s", "the tensors");
	f->block = aligned_alloc(ALIGN, total);
	if (!f->block)
		return FAIL(s, TENSORFILE_ENOMEM, "no memory for %zu bytes of tensors", total);
	unsigned char *at = f->block;
	for (int i = 0; i < f->count; i++) {
		struct entry *e = &f->entries[i];
		int rc = e->t.bytes ? source_read(s, at, data_start + e->begin, e->t.bytes) : 0;
		if (rc)
			return rc;
		e->t.data = at;
		at += (e->t.bytes + ALIGN - 1) / ALIGN * ALIGN;
	}
	return 0;
}

static int header_read(const struct source *s, struct tensorfile *f, uint64_t *data_start)
{
	unsigned char len8[8];
	uint64_t len = 0;
	if (s->size < 8)
		return FAIL(s, TENSORFILE_EFORMAT, "%llu bytes are too few for a safetensors file", (unsigned long long)s->size);
	int rc = source_read(s, len8, 0, 8);
	if (rc)
		return rc;
	for (int i = 7; i >= 0; i--)
		len = len << 8 | len8[i];
	if (len > HEADER_MAX)
		return FAIL(s, TENSORFILE_EFORMAT, "header of %llu bytes is over the limit of %d (is this a safetensors file?)",
		            (unsigned long long)len, HEADER_MAX);
	if (len > s->size - 8)
		return FAIL(s, TENSORFILE_EFORMAT, "truncated: a header of %llu bytes in a file of %llu", (unsigned long long)len,
		            (unsigned long long)s->size);
	char *text = malloc(len + 1);
	if (!text)
		return FAIL(s, TENSORFILE_ENOMEM, "no memory for a header of %llu bytes", (unsigned long long)len);
	rc = source_read(s, text, 8, len);
	if (rc) {
		free(text);
		return rc;
	}
	text[len] = 0;
	/* cJSON skips what it takes for white space before a value; the format wants '{' first. */
	const char *end = text;
	if (len > 0 && text[0] == '{')
		f->header = cJSON_ParseWithLengthOpts(text, len, &end, 0);
	size_t stop = (size_t)(end - text);
	while (f->header && stop < len && text[stop] == ' ')
		stop++;
	bool whole = f->header && cJSON_IsObject(f->header) && stop == len;
	free(text);
	if (!whole)
		return FAIL(s, TENSORFILE_EFORMAT, "the header is not a JSON object (trouble at byte %zu of it)", stop);
	*data_start = 8 + len;
	return 0;
}

static int tensorfile_load(struct tensorfile **out, const struct source *s)
{
	struct tensorfile *f = calloc(1, sizeof *f);
	uint64_t data_start = 0;
	*out = NULL;
	if (!f)
		return FAIL(s, TENSORFILE_ENOMEM, "%s", "no memory");
	int rc = header_read(s, f, &data_start);
	if (!rc)
		rc = header_entries(s, f);
	if (!rc)
		rc = entries_check(s, f, s->size - data_start);
	if (!rc)
		rc = data_read(s, f, data_start);
	if (rc)
		tensorfile_close(f);
	else
		*out = f;
	return rc;
}

int tensorfile_parse(struct tensorfile **out, const void *bytes, size_t size, const char *name, char *err, size_t errlen)
{
	struct source s = {name, bytes ? bytes : (const void *)"", -1, bytes ? size : 0, err, errlen};
	return tensorfile_load(out, &s);
}

int tensorfile_open(struct tensorfile **out, const char *path, char *err, size_t errlen)
{
	struct source s = {path, NULL, open(path, O_RDONLY | O_CLOEXEC), 0, err, errlen};
	struct stat st;
	int rc;
	*out = NULL;
	if (s.fd < 0)
		return FAIL(&s, TENSORFILE_EIO, "cannot open: %s", strerror(errno));
	if (fstat(s.fd, &st) != 0)
		rc = FAIL(&s, TENSORFILE_EIO, "cannot stat: %s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = FAIL(&s, TENSORFILE_EIO, "%s", "not a regular file");
	else {
		s.size = (uint64_t)st.st_size;
		rc = tensorfile_load(out, &s);
	}
	close(s.fd);
	return rc;
}

void tensorfile_close(struct tensorfile *f)
{
	if (!f)
		return;
	cJSON_Delete(f->header);
	free(f->entries);
	free(f->shapes);
	free(f->block);
	free(f);
}

int tensorfile_count(const struct tensorfile *f)
{
	return f->count;
}

struct tensorfile_tensor *tensorfile_at(const struct tensorfile *f, int index)
{
	return &f->entries[index].t;
}

struct tensorfile_tensor *tensorfile_find(const struct tensorfile *f, const char *name)
{
	for (int i = 0; i < f->count; i++)
		if (strcmp(f->entries[i].t.name, name) == 0)
			return &f->entries[i].t;
	return NULL;
}

/* The header of `tensors` as JSON text, or NULL without memory; sizes[i] gets the bytes of each. */
static char *header_text(const struct tensorfile_tensor *tensors, int n, const size_t *sizes)
{
	cJSON *root = cJSON_CreateObject();
	size_t at = 0;
	bool ok = root != NULL;
	for (int i = 0; ok && i < n; i++) {
		cJSON *j = cJSON_AddObjectToObject(root, tensors[i].name);
		cJSON *shape, *offsets;
		ok = j && cJSON_AddStringToObject(j, "dtype", dtype_info(tensors[i].dtype)->safetensors) &&
		     (shape = cJSON_AddArrayToObject(j, "shape")) && (offsets = cJSON_AddArrayToObject(j, "data_offsets"));
		for (int k = 0; ok && k < tensors[i].rank; k++)
			ok = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)tensors[i].shape[k]));
		ok = ok && cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)at)) &&
		     cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(at + sizes[i])));
		at += sizes[i];
	}
	char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
	cJSON_Delete(root);
	return text;
}

/* Checks what is to be written and computes sizes. */
static int tensors_check(const struct source *s, const struct tensorfile_tensor *tensors, int n, size_t *sizes)
{
	for (int i = 0; i < n; i++) {
		const struct tensorfile_tensor *t = &tensors[i];
		int64_t count = 1;
		if (!t->name || strcmp(t->name, "__metadata__") == 0)
			return FAIL(s, TENSORFILE_EARG, "tensor %d has no usable name", i);
		for (int k = 0; k < i; k++)
			if (strcmp(tensors[k].name, t->name) == 0)
				return FAIL(s, TENSORFILE_EARG, "two tensors are called '%s'", t->name);
		if (!dtype_info(t->dtype)->safetensors[0])
			return FAIL(s, TENSORFILE_EARG, "tensor '%s': safetensors has no name for %s", t->name, dtype_info(t->dtype)->name);
		if (t->rank < 0 || t->rank > TENSORFILE_MAX_RANK)
			return FAIL(s, TENSORFILE_EARG, "tensor '%s': rank %d", t->name, t->rank);
		for (int k = 0; k < t->rank; k++)
			if (t->shape[k] < 0 || __builtin_mul_overflow(count, t->shape[k], &count) || count > (int64_t)INTEGER_MAX / 8)
				return FAIL(s, TENSORFILE_EARG, "tensor '%s': bad extent %lld", t->name, (long long)t->shape[k]);
		if (dtype_info(t->dtype)->bits == 4 && count % 2)
			return FAIL(s, TENSORFILE_EARG, "tensor '%s': %lld elements of F4 end in half a byte", t->name, (long long)count);
		sizes[i] = (size_t)dtype_bytes(t->dtype, count);
		if (sizes[i] && !t->data)
			return FAIL(s, TENSORFILE_EARG, "tensor '%s' has no data", t->name);
	}
	return 0;
}

static int contents_write(struct outfile *f, const char *header, const struct tensorfile_tensor *tensors, int n, const size_t *sizes)
{
	size_t len = strlen(header), padded = (len + 7) / 8 * 8;
	unsigned char len8[8];
	for (int i = 0; i < 8; i++)
		len8[i] = (unsigned char)((uint64_t)padded >> 8 * i);
	int why = outfile_put(f, len8, 8);
	why = why ? why : outfile_put(f, header, len);
	why = why ? why : outfile_put(f, "       ", padded - len);
	for (int i = 0; !why && i < n; i++)
		why = outfile_put(f, tensors[i].data, sizes[i]);
	return why;
}

static int file_write(const struct source *s, const char *header, const struct tensorfile_tensor *tensors, int n, const size_t *sizes)
{
	struct outfile f;
	int why = outfile_open(&f, AT_FDCWD, s->name, 0666, OUTFILE_UMASK | OUTFILE_FOLLOW | OUTFILE_DIRECT);
	why = why ? why : contents_write(&f, header, tensors, n, sizes);
	why = why ? why : outfile_sync(&f);
	why = why ? why : outfile_close(&f);
	why = why ? why : outfile_rename(&f);
	outfile_drop(&f);
	return why ? FAIL(s, TENSORFILE_EIO, "cannot write: %s", strerror(why)) : 0;
}

int tensorfile_write(const char *path, const struct tensorfile_tensor *tensors, int n, char *err, size_t errlen)
{
	struct source s = {path, NULL, -1, 0, err, errlen};
	size_t *sizes = calloc((size_t)n + 1, sizeof *sizes);
	if (!sizes)
		return FAIL(&s, TENSORFILE_ENOMEM, "%s", "no memory");
	int rc = tensors_check(&s, tensors, n, sizes);
	char *header = rc ? NULL : header_text(tensors, n, sizes);
	if (!rc && !header)
		rc = FAIL(&s, TENSORFILE_ENOMEM, "%s", "no memory for the header");
	if (!rc)
		rc = file_write(&s, header, tensors, n, sizes);
	cJSON_free(header);
	free(sizes);
	return rc;
}
