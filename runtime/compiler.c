/* compiler.c -- the compile library: found and loaded when first needed, so that a process that only runs packs, or finds what it
 * needs in the cache, never maps LLVM.
 *
 * Cache keys hold the library's identity (its build and LLVM's version), which only the library itself can tell.  So that a hit
 * does not cost loading it, a note in the cache keeps the identity beside the device, inode, size and times of libtdslc, which has
 * LLVM inside; a note that no longer fits is ignored.  Its name follows from the library's path. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "env.h"
#include "fork.h"
#include "jit.h"

enum { PATH = 4096, IDENTITY = 160 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct compiler loaded;

void compiler_fork(enum fork_stage stage)
{
	fork_lock(&lock, stage);
}

/* ---- loading */

/* The path that is tried first: TDSL_COMPILER, else beside this library. */
static int path_first(char out[PATH], bool *given)
{
	const char *set;
	char folder[PATH - 32];
	TRY(env_text(&set, "TDSL_COMPILER"));
	library_folder(folder, sizeof folder);
	*given = set != NULL;
	if (set)
		snprintf(out, PATH, "%s", set);
	else
		snprintf(out, PATH, "%slibtdslc.so", folder);
	return 0;
}

/* Opens the library.  Lock held. */
static int compiler_open(struct compiler *c)
{
	char path[PATH];
	bool given;
	*c = (struct compiler){0};
	TRY(path_first(path, &given));
	c->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!c->handle && !given)
		c->handle = dlopen("libtdslc.so", RTLD_NOW | RTLD_LOCAL);
	if (!c->handle)
		FAIL(TDSL_EUNSUPPORTED, "no compiler: %s%s", given ? "TDSL_COMPILER: " : "", dlerror());
	*(void **)&c->compile = dlsym(c->handle, "tdslc_compile");
	*(void **)&c->instance = dlsym(c->handle, "tdslc_instance");
	*(void **)&c->identity = dlsym(c->handle, "tdslc_identity");
	*(void **)&c->free = dlsym(c->handle, "tdslc_free");
	if (!c->compile || !c->identity || !c->free) {
		dlclose(c->handle);
		FAIL(TDSL_EUNSUPPORTED, "no compiler: %s has no tdslc_compile", path);
	}
	return 0;
}

int compiler_allowed(void)
{
	bool jit;
	TRY(env_flag(&jit, "TDSL_JIT", true));
	if (!jit)
		FAIL(TDSL_EUNSUPPORTED, "compiling in process is forbidden by TDSL_JIT=0");
	return 0;
}

int compiler_get(const struct compiler **out)
{
	struct compiler c;
	int rc = 0;
	TRY(compiler_allowed());
	pthread_mutex_lock(&lock);
	if (!loaded.handle && (rc = compiler_open(&c)) == 0)
		loaded = c;
	pthread_mutex_unlock(&lock);
	*out = &loaded;
	return rc;
}

/* ---- identity */

struct stamp { uint64_t device, inode, size; int64_t changed, written; };
struct note { struct stamp library; char identity[IDENTITY]; };

static bool stamp_get(struct stamp *s, const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return false;
	*s = (struct stamp){st.st_dev, st.st_ino, (uint64_t)st.st_size, (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec,
	                    (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
	return true;
}

static void note_name(char out[64], const char *path)
{
	snprintf(out, 64, "compiler-%016" PRIx64 ".id", XXH3_64bits(path, strlen(path)));
}

static bool note_fits(const struct note *n, const char *path)
{
	struct stamp library;
	return memchr(n->identity, 0, IDENTITY) && stamp_get(&library, path) && memcmp(&library, &n->library, sizeof library) == 0;
}

static bool identity_noted(char *out, size_t size, struct cache *c, const char *path)
{
	char name[64];
	void *bytes;
	size_t n;
	note_name(name, path);
	if (!cache_note_read(c, name, &bytes, &n))
		return false;
	bool fits = n == sizeof(struct note) && note_fits(bytes, path);
	if (fits)
		snprintf(out, size, "%s", ((const struct note *)bytes)->identity);
	free(bytes);
	return fits;
}

static void identity_note(const char *identity, struct cache *c, const char *path)
{
	char name[64];
	struct note n = {0};
	note_name(name, path);
	if (strlen(identity) < IDENTITY && stamp_get(&n.library, path)) {
		strcpy(n.identity, identity);
		cache_note_write(c, name, &n, sizeof n);
	}
}

int compiler_identity(char *out, size_t size, struct cache *c)
{
	const struct compiler *compiler;
	char path[PATH];
	bool given;
	TRY(compiler_allowed());
	TRY(path_first(path, &given));
	pthread_mutex_lock(&lock);
	bool there = loaded.handle != NULL;
	pthread_mutex_unlock(&lock);
	bool notes = c->folder >= 0 && strchr(path, '/');
	bool looked = !there && notes;
	if (looked && identity_noted(out, size, c, path))
		return 0;
	TRY(compiler_get(&compiler));
	snprintf(out, size, "%s", compiler->identity());
	static atomic_bool noted;
	if (notes && !atomic_exchange(&noted, true) && (looked || !identity_noted((char[IDENTITY]){0}, IDENTITY, c, path)))
		identity_note(out, c, path);
	return 0;
}
