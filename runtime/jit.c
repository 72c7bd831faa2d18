/* jit.c -- tdsl_compile: text -> pack in this process, by the compile library, with a cache on disk in front.
 * The library is found when it is first needed, so that a process that only runs packs never maps LLVM.  The cache key is
 * the XXH3-128 of everything that decides the result: text, file name (in debug lines), targets, kernels, instances, library
 * folder, and the compiler's identity. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "../compiler/libtdslc.h"
#include "cache.h"
#include "kernel.h"

struct compiler {
	void *handle;
	int (*compile)(const char *, size_t, const char *, const struct tdslc_options *, void **, size_t *, char **);
	const char *(*identity)(void);
	void (*free)(void *);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct compiler loaded;
static _Thread_local char *messages;
static pthread_key_t messages_key;
static pthread_once_t messages_once = PTHREAD_ONCE_INIT;

static void messages_key_make(void)
{
	library_pin(); /* its locks and keys outlive a dlclose */
	pthread_key_create(&messages_key, free);
}

/* Keeps a copy of `text` as this thread's messages. */
static void messages_set(const char *text)
{
	pthread_once(&messages_once, messages_key_make);
	free(messages);
	messages = text && *text ? strdup(text) : NULL;
	pthread_setspecific(messages_key, messages);
}

const char *tdsl_compile_messages(void)
{
	return messages ? messages : "";
}

/* Opens the library.  Lock held. */
static int compiler_open(struct compiler *c)
{
	const char *given = getenv("TDSL_COMPILER");
	char folder[3800], beside[4096];
	library_folder(folder, sizeof folder);
	snprintf(beside, sizeof beside, "%slibtdslc.so", folder);
	if (given && *given)
		c->handle = dlopen(given, RTLD_NOW | RTLD_LOCAL);
	else if (!(c->handle = dlopen(beside, RTLD_NOW | RTLD_LOCAL)))
		c->handle = dlopen("libtdslc.so", RTLD_NOW | RTLD_LOCAL);
	if (!c->handle)
		FAIL(TDSL_EUNSUPPORTED, "no compiler: %s%s", given && *given ? "TDSL_COMPILER: " : "", dlerror());
	*(void **)&c->compile = dlsym(c->handle, "tdslc_compile");
	*(void **)&c->identity = dlsym(c->handle, "tdslc_identity");
	*(void **)&c->free = dlsym(c->handle, "tdslc_free");
	if (!c->compile || !c->identity || !c->free) {
		dlclose(c->handle);
		FAIL(TDSL_EUNSUPPORTED, "no compiler: %s has no tdslc_compile", given && *given ? given : beside);
	}
	return 0;
}

static int compiler_get(const struct compiler **out)
{
	const char *jit = getenv("TDSL_JIT");
	if (jit && strcmp(jit, "0") == 0)
		FAIL(TDSL_EUNSUPPORTED, "compiling in process is forbidden by TDSL_JIT=0");
	pthread_mutex_lock(&lock);
	struct compiler c;
	int rc = 0;
	if (!loaded.handle && (rc = compiler_open(&c)) == 0)
		loaded = c;
	pthread_mutex_unlock(&lock);
	*out = &loaded;
	return rc;
}

static void hash_text(XXH3_state_t *h, const char *s)
{
	uint64_t n = s ? strlen(s) : UINT64_MAX; /* lengths keep neighbours apart; NULL differs from "" */
	XXH3_128bits_update(h, &n, sizeof n);
	if (s)
		XXH3_128bits_update(h, s, n);
}

static void hash_list(XXH3_state_t *h, const char *const *list)
{
	hash_text(h, list ? "list" : NULL);
	for (; list && *list; list++)
		hash_text(h, *list);
	hash_text(h, NULL);
}

static int key_make(struct cache_key *key, const struct compiler *c, const char *text, size_t n, const char *file,
                    const struct tdslc_options *o)
{
	XXH3_state_t *h = XXH3_createState();
	if (!h)
		FAIL(TDSL_ENOMEM, "out of memory");
	XXH3_128bits_reset(h);
	hash_text(h, c->identity());
	hash_text(h, file);
	hash_text(h, o->library_path);
	hash_list(h, o->targets);
	hash_list(h, o->kernels);
	hash_list(h, o->instances);
	XXH3_128bits_update(h, text, n);
	XXH128_hash_t d = XXH3_128bits_digest(h);
	XXH3_freeState(h);
	*key = (struct cache_key){d.high64, d.low64};
	return 0;
}

/* First line of the diagnostics that is an error, for tdsl_error(). */
static int compile_fail(const char *file, const char *all)
{
	const char *line = all ? strstr(all, ": error: ") : NULL;
	while (line && line > all && line[-1] != '\n')
		line--;
	if (!line)
		line = all && *all ? all : "the compiler gave no message";
	FAIL(TDSL_ECOMPILE, "%s%.*s", strstr(line, ": error: ") ? "" : file, (int)strcspn(line, "\n"), line);
}

static int compile_now(struct pack_file **out, const struct compiler *c, struct cache_key key, const char *text, size_t n,
                       const char *file, const struct tdslc_options *o)
{
	void *bytes = NULL;
	size_t size = 0;
	char *all = NULL, err[1024];
	int rc = c->compile(text, n, file, o, &bytes, &size, &all);
	messages_set(all);
	if (rc < 0) {
		c->free(all);
		return compile_fail(file, messages);
	}
	c->free(all);
	void *own = malloc(size); /* the compile library's memory goes back to it */
	if (own)
		memcpy(own, bytes, size);
	c->free(bytes);
	if (!own)
		FAIL(TDSL_ENOMEM, "out of memory");
	rc = pack_open_memory(out, own, size, file, err, sizeof err);
	if (rc < 0) {
		free(own);
		return pack_fail(rc, err);
	}
	(*out)->owned = own;
	cache_write(key, own, size);
	return 0;
}

int tdsl_compile(tdsl_pack *pack, const char *text, size_t n, const char *file, const struct tdsl_compile_options *options)
{
	static const struct tdsl_compile_options none;
	const struct tdsl_compile_options *q = options ? options : &none;
	const char *targets[2] = {NULL, NULL};
	const struct compiler *c;
	struct cache_key key;
	struct pack_file *p;
	if (!pack || !text)
		FAIL(TDSL_EINVAL, "tdsl_compile: %s is NULL", pack ? "text" : "pack");
	messages_set(NULL);
	file = file ? file : "text";
	struct tdslc_options o = {TDSLC_ABI, q->targets, q->kernels, q->instances, q->jobs, q->library_path};
	if (!o.targets) {
		tdsl_device d;
		TRY(tdsl_default(&d));
		targets[0] = d->target;
		o.targets = targets;
	}
	TRY(compiler_get(&c));
	TRY(key_make(&key, c, text, n, file, &o));
	p = cache_read(key);
	if (!p)
		TRY(compile_now(&p, c, key, text, n, file, &o));
	return pack_wrap(pack, p);
}
