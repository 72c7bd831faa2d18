/* binding.c -- generated functions: from a kernel's name to its handle, once, and the packs that are looked through for it.
 * The registry only grows; a binding's handle is published with release order and read with acquire. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "fork.h"
#include "kernel.h"

struct entry { struct entry *next; tdsl_pack pack; const void *bytes; char *path; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *added, *embedded, *searched; /* by tdsl_pack_add; by bindings; from TDSL_PACK_PATH */
static bool searched_done;

void binding_fork(enum fork_stage stage)
{
	fork_lock(&lock, stage);
}

/* Opens a pack into a list.  Lock held. */
static int entry_add(struct entry **list, const char *path, const void *bytes, size_t size)
{
	struct entry *e = calloc(1, sizeof *e);
	if (!e)
		FAIL(TDSL_ENOMEM, "out of memory");
	int rc = path ? tdsl_pack_open(&e->pack, path) : tdsl_pack_open_memory(&e->pack, bytes, size);
	if (rc == 0 && path && !(e->path = strdup(path))) {
		tdsl_pack_close(e->pack);
		rc = error_set(TDSL_ENOMEM, "out of memory");
	}
	if (rc < 0) {
		free(e);
		return rc;
	}
	e->bytes = bytes;
	e->next = *list;
	*list = e;
	return 0;
}

int tdsl_pack_add(const char *path)
{
	if (!path)
		FAIL(TDSL_EINVAL, "tdsl_pack_add: path is NULL");
	pthread_mutex_lock(&lock);
	int rc = entry_add(&added, path, NULL, 0);
	pthread_mutex_unlock(&lock);
	return rc;
}

int tdsl_pack_add_memory(const void *bytes, size_t size)
{
	if (!bytes)
		FAIL(TDSL_EINVAL, "tdsl_pack_add_memory: bytes is NULL");
	pthread_mutex_lock(&lock);
	int rc = entry_add(&added, NULL, bytes, size);
	pthread_mutex_unlock(&lock);
	return rc;
}

static int is_pack(const struct dirent *d)
{
	size_t n = strlen(d->d_name);
	return n > 6 && strcmp(d->d_name + n - 6, ".tpack") == 0;
}

/* What the first entry of TDSL_PACK_PATH that cannot be used lacks; rc 0 = all can. */
struct trouble { int rc; char why[1024]; };

/* Adds one file of TDSL_PACK_PATH, unless an earlier search did. */
static void path_add_file(const char *path, struct trouble *t)
{
	const struct entry *e = searched;
	while (e && strcmp(e->path, path) != 0)
		e = e->next;
	int rc = e ? 0 : entry_add(&searched, path, NULL, 0);
	if (rc == 0)
		return;
	log_write(LOG_WARN, "TDSL_PACK_PATH: %s; passed over", tdsl_error());
	if (t->rc == 0) {
		t->rc = rc;
		snprintf(t->why, sizeof t->why, "%s", tdsl_error());
	}
}

/* Adds a file, or the *.tpack files of a folder in order of their names. */
static void path_add(const char *path, struct trouble *t)
{
	struct dirent **names;
	int n = scandir(path, &names, is_pack, alphasort);
	if (n < 0) {
		path_add_file(path, t);
		return;
	}
	for (int i = 0; i < n; i++) {
		char *file = NULL;
		if (asprintf(&file, "%s/%s", path, names[i]->d_name) >= 0)
			path_add_file(file, t);
		free(file);
		free(names[i]);
	}
	free(names);
}

/* Opens what TDSL_PACK_PATH names and is not open yet; an entry that cannot be used is passed over and told by *t.  It is tried again
 * by the next search, so that a file may be put there meanwhile. */
static int path_search(struct trouble *t)
{
	const char *path;
	TRY(env_check());
	TRY(env_text(&path, "TDSL_PACK_PATH"));
	if (searched_done || !path)
		return 0;
	while (*path) {
		size_t n = strcspn(path, ":");
		char *one = n ? strndup(path, n) : NULL;
		if (one)
			path_add(one, t);
		free(one);
		path += n + (path[n] == ':');
	}
	searched_done = t->rc == 0;
	return 0;
}

static tdsl_kernel list_find(const struct entry *e, const char *name)
{
	tdsl_kernel k;
	for (; e; e = e->next)
		if (tdsl_kernel_find(&k, e->pack, name) == 0)
			return k;
	return NULL;
}

/* The kernel of a binding.  Lock held. */
static int kernel_search(tdsl_kernel *out, const struct tdsl_binding *b)
{
	tdsl_kernel k = list_find(added, b->name);
	if (!k && b->pack) {
		const struct entry *e = embedded;
		while (e && e->bytes != b->pack)
			e = e->next;
		if (!e)
			TRY(entry_add(&embedded, NULL, b->pack, b->pack_size));
		for (e = embedded; e->bytes != b->pack;)
			e = e->next;
		tdsl_kernel_find(&k, e->pack, b->name);
	}
	struct trouble trouble = {0};
	if (!k) {
		TRY(path_search(&trouble));
		k = list_find(searched, b->name);
	}
	if (!k && trouble.rc)
		FAIL(trouble.rc, "no pack holds kernel '%s'; TDSL_PACK_PATH: %s", b->name, trouble.why);
	if (!k)
		FAIL(TDSL_ENOTFOUND, "no pack holds kernel '%s'; tdsl_pack_add or TDSL_PACK_PATH names packs", b->name);
	if (strcmp(k->signature, b->signature) != 0)
		FAIL(TDSL_ENOTFOUND, "kernel '%s' of %s has signature \"%s\"; its generated function was made for \"%s\"", b->name,
		     k->pack->file->name, k->signature, b->signature);
	*out = k;
	return 0;
}

static int binding_get(tdsl_kernel *out, struct tdsl_binding *b)
{
	if (!b || !b->name || !b->signature)
		FAIL(TDSL_EINVAL, "a generated function without name or signature");
	pthread_mutex_lock(&lock);
	int rc = kernel_search(out, b);
	if (rc == 0)
		__atomic_store_n(&b->kernel, *out, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return rc;
}

int tdsl_binding_call(struct tdsl_binding *b, tdsl_stream s, const union tdsl_arg *args, int nargs, void *workspace, int64_t workspace_bytes)
{
	tdsl_kernel k = b ? __atomic_load_n(&b->kernel, __ATOMIC_ACQUIRE) : NULL;
	if (!k)
		TRY(binding_get(&k, b));
	return tdsl_call(k, s, args, nargs, workspace, workspace_bytes);
}

int64_t tdsl_binding_workspace(struct tdsl_binding *b, tdsl_stream s, const union tdsl_arg *args, int nargs)
{
	tdsl_kernel k = b ? __atomic_load_n(&b->kernel, __ATOMIC_ACQUIRE) : NULL;
	if (!k)
		TRY(binding_get(&k, b));
	return tdsl_workspace(k, s, args, nargs);
}
