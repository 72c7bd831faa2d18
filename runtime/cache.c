/* cache.c -- a folder of packs named by 32 hexadecimal digits: TDSL_CACHE_DIR, $XDG_CACHE_HOME/tdsl or ~/.cache/tdsl.
 * A pack carries its own checksums, so an entry needs nothing around it.  Entries are written to a temporary name and renamed:
 * several processes may share a folder. */
#include "cache.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* False where there is no cache. */
static bool folder_get(char *out, size_t size)
{
	const char *set = getenv("TDSL_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n = 0;
	if (set)
		n = snprintf(out, size, "%s", set);
	else if (xdg && *xdg)
		n = snprintf(out, size, "%s/tdsl", xdg);
	else if (home && *home)
		n = snprintf(out, size, "%s/.cache/tdsl", home);
	return n > 0 && (size_t)n < size;
}

static bool entry_path(struct cache_key key, char *out, size_t size)
{
	char folder[PATH_MAX];
	if (!folder_get(folder, sizeof folder))
		return false;
	return snprintf(out, size, "%s/%016" PRIx64 "%016" PRIx64 ".tpack", folder, key.high, key.low) < (int)size;
}

struct pack_file *cache_read(struct cache_key key)
{
	char path[PATH_MAX + 64], err[256];
	struct pack_file *p;
	if (!entry_path(key, path, sizeof path))
		return NULL;
	int rc = pack_open(&p, path, err, sizeof err);
	if (rc == PACK_OK && pack_verify(p, err, sizeof err) == 0)
		return p;
	if (rc == PACK_OK)
		pack_close(p);
	if (rc != PACK_EIO && rc != PACK_ENOMEM)
		unlink(path);
	return NULL;
}

/* mkdir -p */
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

void cache_write(struct cache_key key, const void *bytes, size_t size)
{
	char folder[PATH_MAX], path[PATH_MAX + 64], err[256];
	if (!folder_get(folder, sizeof folder) || !entry_path(key, path, sizeof path))
		return;
	folder_make(folder);
	pack_write_file(path, bytes, size, err, sizeof err);
}
