/* outfile.c -- a file written beside its place under a random name, "PATH.8 hexadecimal digits.tmp", then renamed. */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { ATTEMPTS = 100, MOST_AT_ONCE = 1 << 30 };

/* Process numbers repeat: in containers, after a restart. */
static uint32_t random_number(void)
{
	uint32_t number = 0;
	if (getrandom(&number, sizeof number, 0) != sizeof number)
		number = (uint32_t)getpid() << 16 ^ (uint32_t)clock();
	return number;
}

/* Makes the file beside f->path; where one is there, in its mode if that is wanted. */
static int temp_open(struct outfile *f, unsigned mode, const struct stat *old, unsigned flags)
{
	if (old)
		mode = old->st_mode & 0777;
	for (int i = 0; i < ATTEMPTS; i++) {
		if (asprintf(&f->temp, "%s.%08" PRIx32 ".tmp", f->path, random_number()) < 0) {
			f->temp = NULL;
			return ENOMEM;
		}
		f->fd = openat(f->folder, f->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		int why = f->fd < 0 ? errno : 0;
		if (!why)
			return (flags & OUTFILE_UMASK && !old) || fchmod(f->fd, mode) == 0 ? 0 : errno;
		free(f->temp);
		f->temp = NULL;
		if (why != EEXIST)
			return why;
	}
	return EEXIST;
}

int outfile_open(struct outfile *f, int folder, const char *path, unsigned mode, unsigned flags)
{
	struct stat st;
	*f = (struct outfile){.folder = folder, .fd = -1};
	f->path = flags & OUTFILE_FOLLOW ? realpath(path, NULL) : NULL;
	if (!f->path && !(f->path = strdup(path)))
		return ENOMEM;
	bool old = flags & OUTFILE_DIRECT && fstatat(folder, path, &st, 0) == 0;
	if (!old || S_ISREG(st.st_mode))
		return temp_open(f, mode, old ? &st : NULL, flags);
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	f->fd = openat(folder, path, O_WRONLY | O_CLOEXEC);
	return f->fd < 0 ? errno : 0;
}

int outfile_put(struct outfile *f, const void *bytes, size_t size)
{
	for (const uint8_t *at = bytes; size;) {
		ssize_t n = write(f->fd, at, size < MOST_AT_ONCE ? size : MOST_AT_ONCE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : EIO;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

int outfile_sync(struct outfile *f)
{
	return f->temp && fsync(f->fd) < 0 ? errno : 0;
}

int outfile_close(struct outfile *f)
{
	int fd = f->fd;
	f->fd = -1;
	return fd >= 0 && close(fd) < 0 ? errno : 0;
}

int outfile_rename(struct outfile *f)
{
	if (f->temp && renameat(f->folder, f->temp, f->folder, f->path) < 0)
		return errno;
	free(f->temp);
	f->temp = NULL;
	return 0;
}

void outfile_drop(struct outfile *f)
{
	outfile_close(f);
	if (f->temp)
		unlinkat(f->folder, f->temp, 0);
	free(f->temp);
	free(f->path);
	f->path = f->temp = NULL;
}

int outfile_write(const char *path, const void *bytes, size_t size, char *err, size_t errlen)
{
	struct outfile f;
	int why = outfile_open(&f, AT_FDCWD, path, 0644, OUTFILE_DIRECT);
	why = why ? why : outfile_put(&f, bytes, size);
	why = why ? why : outfile_sync(&f);
	why = why ? why : outfile_close(&f);
	why = why ? why : outfile_rename(&f);
	outfile_drop(&f);
	if (why)
		snprintf(err, errlen, "%s: cannot write %zu bytes: %s", path, size, strerror(why));
	return why ? -1 : 0;
}
