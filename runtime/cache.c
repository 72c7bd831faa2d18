/* cache.c -- a folder of compiled packs: TDSL_CACHE_DIR, $XDG_CACHE_HOME/tdsl or ~/.cache/tdsl.
 *
 *   KEY.jit      an entry: struct entry, then the pack.  32 hexadecimal digits; its checksum covers key and bytes
 *   NAME.tmp     an entry being written, NAME random at its end; locked by its writer, so that one without a lock is left over and removed
 *   lock         one byte range per key, and one for the sweep; its time is the folder's clock
 *
 * Entries are never changed in place: written beside, synced, renamed, the folder synced.  A reader takes a copy and trusts nothing
 * but the checksum, so that torn renames, truncation and eviction under its feet are misses; it removes nothing, since what it
 * saw may have been replaced meanwhile: the next writer renames over it.  Locks are the kernel's (open file descriptions), so
 * they end with their process and need no names; without them nothing gets wrong, only compiled twice.  Ages are compared in the
 * folder's own time, which never goes back.  All names are looked up in an opened folder that belongs to the user. */
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "../base/outfile.h"
#include "env.h"

enum { ENTRY_VERSION = 1, MAX_ENTRY = 1 << 30 };
#define CACHE_MOST ((uint64_t)1 << 30)
#define SWEEP_BYTE ((off_t)1 << 62)

struct entry {
	char magic[8];
	uint32_t version, bytes_before;      /* sizeof(struct entry) */
	struct cache_key key;
	uint64_t size;
	uint64_t hash;                       /* XXH3-64 of the fields before and of the pack */
};

/* ---- trouble, told once */

static atomic_bool told, asked;
static char trouble[1024];

static void trouble_set(const char *fmt, ...)
{
	va_list ap;
	if (atomic_exchange(&told, true))
		return;
	va_start(ap, fmt);
	int n = snprintf(trouble, sizeof trouble, "warning: compile cache: ");
	vsnprintf(trouble + n, sizeof trouble - (size_t)n, fmt, ap);
	va_end(ap);
	log_write(LOG_WARN, "%s; compiled kernels are kept in memory", trouble + 9);
	atomic_store(&asked, true);
}

const char *cache_trouble(void)
{
	return atomic_exchange(&asked, false) ? trouble : NULL;
}

/* ---- the folder */

/* False where there is none. */
static bool folder_name(char *out, size_t size)
{
	const char *set = getenv("TDSL_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n = 0;
	if (set)
		n = snprintf(out, size, "%s", set);
	else if (xdg && *xdg == '/')
		n = snprintf(out, size, "%s/tdsl", xdg);
	else if (home && *home == '/')
		n = snprintf(out, size, "%s/.cache/tdsl", home);
	while (n > 1 && (size_t)n < size && out[n - 1] == '/')
		out[--n] = 0;
	return n > 0 && (size_t)n < size;
}

/* mkdir -p; the last folder is the user's alone. */
static void folder_make(char *path)
{
	for (char *p = path + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			mkdir(path, 0755);
			*p = '/';
		}
	mkdir(path, 0700);
}

/* What is wrong with a file or folder of the cache, or NULL. */
static const char *not_ours(const struct stat *st)
{
	return st->st_uid != geteuid() ? "belongs to another user" : st->st_mode & S_IWOTH ? "may be written by every user" : NULL;
}

int cache_open(struct cache *c)
{
	struct stat st;
	*c = (struct cache){.folder = -1};
	TRY(env_bytes(&c->most, "TDSL_CACHE_MAX", CACHE_MOST));
	if (!folder_name(c->path, sizeof c->path)) {
		const char *set = getenv("TDSL_CACHE_DIR");
		c->off = set && !*set;
		if (!c->off)
			trouble_set("no folder: %s", set ? "the path of TDSL_CACHE_DIR is too long"
			                                 : "TDSL_CACHE_DIR is not set, and neither XDG_CACHE_HOME nor HOME is an absolute path");
		return 0;
	}
	enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
	if ((c->folder = open(c->path, FLAGS)) < 0 && errno == ENOENT) {
		folder_make(c->path);
		c->folder = open(c->path, FLAGS);
	}
	if (c->folder < 0) {
		trouble_set("%s: %s", c->path, errno == ELOOP || errno == ENOTDIR ? "not a folder, or a symbolic link" : strerror(errno));
		return 0;
	}
	const char *why = fstat(c->folder, &st) < 0 ? strerror(errno) : not_ours(&st);
	if (why) {
		trouble_set("%s: %s", c->path, why);
		cache_close(c);
	}
	return 0;
}

void cache_close(struct cache *c)
{
	if (c->folder >= 0)
		close(c->folder);
	c->folder = -1;
}

/* ---- locks and the folder's clock */

static int range_lock(int fd, off_t at, bool wait)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
	int rc;
	while ((rc = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l)) < 0 && errno == EINTR)
		;
	return rc;
}

/* Opens the lock file and takes byte `at`; negative where that cannot be. */
static int lock_take(struct cache *c, off_t at, bool wait)
{
	int fd = c->folder < 0 ? -1 : openat(c->folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0 && range_lock(fd, at, wait) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int cache_lock(struct cache *c, struct cache_key key)
{
	return lock_take(c, (off_t)(key.low >> 2), true);
}

void cache_unlock(int fd)
{
	struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET}; /* said outright: a child forked meanwhile has the description too */
	if (fd < 0)
		return;
	fcntl(fd, F_OFD_SETLK, &l);
	close(fd);
}

static int64_t ns(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Marks an open entry as the one used last: its time is the folder's clock, a microsecond after the last mark or now if that is later. */
static void touch(struct cache *c, int fd, int64_t its_time)
{
	struct stat st;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t last = fstatat(c->folder, "lock", &st, AT_SYMLINK_NOFOLLOW) == 0 ? ns(st.st_mtim) : 0;
	if (its_time && its_time >= last)
		return;
	int64_t t = ns(now) > last ? ns(now) : last + 1000;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = t / 1000000000, .tv_nsec = t % 1000000000}};
	futimens(fd, times);
	utimensat(c->folder, "lock", times, AT_SYMLINK_NOFOLLOW);
}

/* ---- reading and writing files of the folder */

static uint64_t entry_hash(const struct entry *e, const void *bytes)
{
	XXH3_state_t *h = XXH3_createState();
	if (!h)
		return 0;
	XXH3_64bits_reset(h);
	XXH3_64bits_update(h, e, offsetof(struct entry, hash));
	XXH3_64bits_update(h, bytes, e->size);
	uint64_t hash = XXH3_64bits_digest(h);
	XXH3_freeState(h);
	return hash;
}

static struct entry entry_make(struct cache_key key, const void *bytes, size_t size)
{
	struct entry e = {"TDSLJIT", ENTRY_VERSION, sizeof e, key, size, 0};
	e.hash = entry_hash(&e, bytes);
	return e;
}

/* Reads exactly n bytes; false at the end of the file or an error. */
static bool read_all(int fd, void *to, size_t n)
{
	for (uint8_t *at = to; n;) {
		ssize_t got = read(fd, at, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

/* The bytes after the header of an open file that is an entry for `key`, or NULL. */
static void *entry_bytes(int fd, const struct stat *st, struct cache_key key, size_t *size)
{
	struct entry e;
	if (!S_ISREG(st->st_mode) || not_ours(st) || !read_all(fd, &e, sizeof e))
		return NULL;
	if (memcmp(e.magic, "TDSLJIT", 8) || e.version != ENTRY_VERSION || e.bytes_before != sizeof e || e.size > MAX_ENTRY ||
	    e.key.high != key.high || e.key.low != key.low || (uint64_t)st->st_size != sizeof e + e.size)
		return NULL;
	void *bytes = malloc(e.size ? e.size : 1);
	if (bytes && read_all(fd, bytes, e.size) && entry_hash(&e, bytes) == e.hash) {
		*size = e.size;
		return bytes;
	}
	free(bytes);
	return NULL;
}

/* Once for each state of a file: who looks again after it waited for a lock finds the same. */
static void damage_tell(struct cache *c, const char *name, const struct stat *st, bool entry)
{
	static _Atomic uint64_t told;
	uint64_t state = XXH3_64bits_withSeed(name, strlen(name), (uint64_t)st->st_ino ^ (uint64_t)ns(st->st_mtim)) | 1;
	if (atomic_exchange(&told, state) != state)
		log_write(LOG_INFO, "compile cache: %s/%s is damaged, of another format or not ours: %s", c->path, name, entry ? "compiled again" : "passed over");
}

static bool file_read(struct cache *c, const char *name, struct cache_key key, bool used, void **bytes, size_t *size)
{
	struct stat st = {0};
	*bytes = NULL;
	if (c->folder < 0)
		return false;
	int fd = openat(c->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0)
		*bytes = entry_bytes(fd, &st, key, size);
	if (*bytes && used)
		touch(c, fd, ns(st.st_mtim));
	if (!*bytes)
		damage_tell(c, name, &st, used);
	close(fd);
	return *bytes != NULL;
}

/* One attempt: 0, or an errno value. */
static int file_try(struct cache *c, const char *name, const struct entry *e, const void *bytes, bool sync)
{
	struct outfile f;
	int why = outfile_open(&f, c->folder, name, 0600, OUTFILE_UMASK);
	if (!why)
		range_lock(f.fd, 0, false);
	why = why ? why : outfile_put(&f, e, sizeof *e);
	why = why ? why : outfile_put(&f, bytes, e->size);
	if (!why && sync)
		why = outfile_sync(&f);
	if (!why)
		touch(c, f.fd, 0);
	why = why ? why : outfile_rename(&f);
	why = why ? why : outfile_close(&f); /* last, for the lock */
	outfile_drop(&f);
	if (!why && sync)
		fsync(c->folder); /* some file systems cannot: the entry is there all the same */
	return why;
}

static bool file_write(struct cache *c, const char *name, struct cache_key key, const void *bytes, size_t size, bool sync)
{
	if (c->folder < 0)
		return false;
	struct entry e = entry_make(key, bytes, size);
	int why = file_try(c, name, &e, bytes, sync);
	if (why == ENOENT || why == ESTALE) /* a sweep took the file before it was locked; or the server forgot it */
		why = file_try(c, name, &e, bytes, sync);
	if (why)
		trouble_set("%s/%s: cannot be written: %s", c->path, name, strerror(why));
	return !why;
}

static const char *entry_name(struct cache_key key, char out[64])
{
	snprintf(out, 64, "%016" PRIx64 "%016" PRIx64 ".jit", key.high, key.low);
	return out;
}

bool cache_read(struct cache *c, struct cache_key key, void **bytes, size_t *size)
{
	char name[64];
	return file_read(c, entry_name(key, name), key, true, bytes, size);
}

static struct cache_key note_key(const char *name)
{
	return (struct cache_key){0, XXH3_64bits(name, strlen(name))};
}

bool cache_note_read(struct cache *c, const char *name, void **bytes, size_t *size)
{
	return file_read(c, name, note_key(name), false, bytes, size);
}

void cache_note_write(struct cache *c, const char *name, const void *bytes, size_t size)
{
	file_write(c, name, note_key(name), bytes, size, false); /* lost, it is only written again */
}

/* ---- the sweep: what is left over, and what is over the limit */

struct found { char name[64]; int64_t time; uint64_t size; };
struct list { struct found *items; size_t n, cap; uint64_t total; };

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);
	return n > m && n < sizeof ((struct found *)0)->name && strcmp(name + n - m, end) == 0;
}

/* Removes a temporary file that no process is writing.  Where there are no locks an hour decides, in either direction of the clock. */
static void temp_sweep(struct cache *c, const char *name, const struct stat *st)
{
	struct timespec now;
	int fd = openat(c->folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	int rc = range_lock(fd, 0, false);
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t age = now.tv_sec - st->st_mtim.tv_sec;
	if (rc == 0 || (errno != EAGAIN && errno != EACCES && (age > 3600 || age < -3600)))
		unlinkat(c->folder, name, 0);
	close(fd);
}

static void list_add(struct list *l, const char *name, const struct stat *st)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		struct found *more = realloc(l->items, cap * sizeof *more);
		if (!more)
			return;
		l->items = more;
		l->cap = cap;
	}
	struct found *f = &l->items[l->n++];
	snprintf(f->name, sizeof f->name, "%s", name);
	f->time = ns(st->st_mtim);
	f->size = (uint64_t)st->st_blocks * 512 > (uint64_t)st->st_size ? (uint64_t)st->st_blocks * 512 : (uint64_t)st->st_size;
	l->total += f->size;
}

static int by_time(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	return (x->time > y->time) - (x->time < y->time);
}

/* Entries, those of the format before too (KEY.tpack), into the list; left-over files are removed. */
static void folder_scan(struct cache *c, struct list *l)
{
	int fd = openat(c->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a description of its own: its place in the folder */
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct stat st;
	if (!d && fd >= 0)
		close(fd);
	for (struct dirent *e; d && (e = readdir(d));) {
		bool temp = ends_with(e->d_name, ".tmp"), entry = ends_with(e->d_name, ".jit") || (strlen(e->d_name) == 38 && ends_with(e->d_name, ".tpack"));
		if ((!temp && !entry) || fstatat(c->folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (temp)
			temp_sweep(c, e->d_name, &st);
		else
			list_add(l, e->d_name, &st);
	}
	if (d)
		closedir(d);
}

/* One sweep under the lock: over the limit, entries go until an eighth is free, so that not every write sweeps; never the one just
 * written.  False where all that should go stays. */
static bool sweep_once(struct cache *c, const char *kept)
{
	struct list l = {0};
	folder_scan(c, &l);
	bool gone = l.total <= c->most;
	if (l.total > c->most) {
		qsort(l.items, l.n, sizeof *l.items, by_time);
		for (size_t i = 0; i < l.n && l.total > c->most - c->most / 8; i++) {
			if (strcmp(l.items[i].name, kept) == 0 || unlinkat(c->folder, l.items[i].name, 0))
				continue;
			log_write(LOG_DEBUG, "compile cache: %s dropped for TDSL_CACHE_MAX", l.items[i].name);
			l.total -= l.items[i].size;
			gone = true;
		}
	}
	free(l.items);
	return gone;
}

/* Who finds another process sweeping leaves it to that one, which therefore looks again when it has let the lock go: what was written
 * while it swept it has not seen. */
static void sweep(struct cache *c, const char *kept)
{
	bool over = true;
	while (over) {
		struct list l = {0};
		int lock = lock_take(c, SWEEP_BYTE, false);
		if (lock < 0 && (errno == EAGAIN || errno == EACCES))
			return;
		bool gone = sweep_once(c, kept);
		cache_unlock(lock);
		folder_scan(c, &l);
		over = gone && l.total > c->most;
		free(l.items);
	}
}

bool cache_write(struct cache *c, struct cache_key key, const void *bytes, size_t size)
{
	char name[64];
	bool fits = size + sizeof(struct entry) <= c->most;
	if (c->off || (fits && !file_write(c, entry_name(key, name), key, bytes, size, true)))
		return false;
	if (c->folder >= 0)
		sweep(c, fits ? name : ""); /* also of what was kept under another limit */
	return fits;
}
