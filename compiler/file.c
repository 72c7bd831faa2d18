/* file.c -- reads texts and library folders, writes results.  In: paths.  Out: bytes, or a text that names the path and the
 * system's reason.  A result appears under its name only once it is complete and on the disk. */
#include "file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/outfile.h"

static char *fail(const char *path, char *err, size_t errlen)
{
	snprintf(err, errlen, "%s: %s", path, strerror(errno));
	return NULL;
}

/* All of a file, or a little more than `most` bytes. */
static char *read_all(int fd, size_t most, size_t *size)
{
	size_t cap = 1 << 16, n = 0;
	char *bytes = malloc(cap);
	while (bytes) {
		ssize_t got = read(fd, bytes + n, cap - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		n += got > 0 ? (size_t)got : 0;
		if (got <= 0 || n > most) {
			if (got >= 0) {
				bytes[n] = 0;
				*size = n;
				return bytes;
			}
			break;
		}
		if (cap - n < 2) {
			char *more = realloc(bytes, cap *= 2);
			if (!more)
				break;
			bytes = more;
		}
	}
	free(bytes);
	return NULL;
}

static char *read_most(const char *path, size_t most, size_t *size, char *err, size_t errlen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(path, err, errlen);
	char *bytes = read_all(fd, most, size);
	if (!bytes)
		fail(path, err, errlen);
	close(fd);
	return bytes;
}

char *file_read(const char *path, size_t *size, char *err, size_t errlen)
{
	return read_most(path, SIZE_MAX, size, err, errlen);
}

char *file_read_text(const char *path, size_t more, size_t *size, char *err, size_t errlen)
{
	char *text = read_most(path, TEXT_MOST - more, size, err, errlen);
	if (!text || *size <= TEXT_MOST - more)
		return text;
	snprintf(err, errlen, "%s:1:1: error: the %s more than %d bytes; at most %d are read [E_HUGE]", path,
	         more ? "library up to here has" : "text has", TEXT_MOST, TEXT_MOST);
	free(text);
	return NULL;
}

int files_write(const struct file_out *files, int n, char *err, size_t errlen)
{
	enum { MOST = 8 };
	struct outfile out[MOST];
	int opened = 0, why = n > MOST ? E2BIG : 0, last = 0;
	for (int i = 0; i < n && !why; i++) {
		struct outfile *f = &out[opened++];
		last = i;
		why = outfile_open(f, AT_FDCWD, files[i].path, 0666, OUTFILE_UMASK | OUTFILE_DIRECT);
		why = why ? why : outfile_put(f, files[i].bytes, files[i].size);
		why = why ? why : outfile_sync(f);
		why = why ? why : outfile_close(f);
	}
	for (int i = 0; i < n && !why; i++) {
		last = i;
		why = outfile_rename(&out[i]);
	}
	if (why)
		snprintf(err, errlen, "%s: %s", files[last].path, strerror(why));
	while (opened)
		outfile_drop(&out[--opened]);
	return why ? -1 : 0;
}

const char *temporary_folder(void)
{
	const char *named = getenv("TMPDIR");
	return named && *named ? named : "/tmp";
}

int file_temporary(char *path, size_t length, const void *bytes, size_t size, char *err, size_t errlen)
{
	if ((size_t)snprintf(path, length, "%s/tdsl-XXXXXX", temporary_folder()) >= length) {
		snprintf(err, errlen, "TMPDIR: a name of at most %zu bytes is expected", length - sizeof "/tdsl-XXXXXX");
		return -1;
	}
	int fd = mkstemp(path);
	if (fd < 0) {
		fail(path, err, errlen);
		return -1;
	}
	close(fd);
	int rc = files_write(&(struct file_out){path, bytes, size}, 1, err, errlen);
	if (rc)
		unlink(path);
	return rc;
}

bool file_is(const char *path, const char *other)
{
	struct stat a, b;
	return stat(path, &a) == 0 && stat(other, &b) == 0 && S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int is_library(const struct dirent *e)
{
	size_t n = strlen(e->d_name);
	return n > 5 && strcmp(e->d_name + n - 5, ".tdsl") == 0;
}

char *library_has(const char *folder, const char *path)
{
	struct dirent **names;
	char *found = NULL;
	int n = scandir(folder, &names, is_library, alphasort);
	for (int i = 0; i < n; i++) {
		char *file = NULL;
		if (asprintf(&file, "%s/%s", folder, names[i]->d_name) < 0)
			file = NULL;
		if (file && !found && file_is(path, file))
			found = file;
		else
			free(file);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return found;
}

char *library_read(const char *folder, char *err, size_t errlen)
{
	struct dirent **names;
	char *text = NULL;
	size_t len, total = 0;
	int n = scandir(folder, &names, is_library, alphasort), rc = n < 0 ? -1 : 0;
	if (rc)
		return fail(folder, err, errlen);
	FILE *out = open_memstream(&text, &len);
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];
		size_t size = 0;
		snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
		char *part = rc == 0 && out ? file_read_text(path, total, &size, err, errlen) : NULL;
		if (part)
			total += fwrite(part, 1, size, out);
		else
			rc = -1;
		free(part);
		free(names[i]);
	}
	free(names);
	if (!out || fclose(out) || n == 0) {
		snprintf(err, errlen, "%s: %s", folder, n == 0 ? "no *.tdsl files" : "out of memory");
		rc = -1;
	}
	if (rc) {
		free(text);
		return NULL;
	}
	return text;
}
