/* jit.c -- text -> pack in this process: tdsl_compile, the warm-up list, and kernels compiled for calls that no pack serves.
 *
 *   key -> the cache's entry?             a copy, checked
 *       -> held by another thread or process: wait for it, look again
 *       -> the compile library, then cached on disk; in memory where the disk does not take it
 *
 * The key is the XXH3-128 of everything that decides the result: compiler and LLVM (compiler.c), the text without blanks at the ends of
 * its lines, file name (in debug lines), targets, kernels, instances, library folder.  A failed compile is not remembered. */
#include "jit.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "env.h"
#include "bind.h"
#include "fork.h"
#include "trace.h"

/* What to compile; or only to look for in the cache. */
struct request { const char *text; size_t n; const char *file; struct tdslc_options options; bool cached_only; };

static _Thread_local char *messages;
static pthread_key_t messages_key;
static pthread_once_t messages_once = PTHREAD_ONCE_INIT;

static void messages_key_make(void)
{
	library_pin(); /* its locks and keys outlive a dlclose */
	pthread_key_create(&messages_key, free);
}

/* Keeps `text` and `more` as this thread's messages. */
static void messages_set(const char *text, const char *more)
{
	char *fresh = NULL;
	pthread_once(&messages_once, messages_key_make);
	if (((text && *text) || (more && *more)) && asprintf(&fresh, "%s%s", text ? text : "", more ? more : "") < 0)
		fresh = NULL;
	free(messages);
	messages = fresh;
	pthread_setspecific(messages_key, messages);
}

const char *tdsl_compile_messages(void)
{
	return messages ? messages : "";
}

/* ---- keys */

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

/* The text as far as it decides anything: no blanks or carriage returns at the ends of lines, no empty lines at its end. */
static void hash_canonical(XXH3_state_t *h, const char *text, size_t n)
{
	size_t empty = 0;
	for (size_t at = 0; at < n;) {
		const char *end = memchr(text + at, '\n', n - at);
		size_t line = end ? (size_t)(end - text) - at : n - at, kept = line;
		while (kept && strchr(" \t\r", text[at + kept - 1]) && text[at + kept - 1])
			kept--;
		for (; kept && empty; empty--)
			XXH3_128bits_update(h, "\n", 1);
		if (kept) {
			XXH3_128bits_update(h, text + at, kept);
			XXH3_128bits_update(h, "\n", 1);
		} else {
			empty++;
		}
		at += line + 1;
	}
}

static int key_make(struct cache_key *key, const char *identity, const struct request *r)
{
	XXH3_state_t *h = XXH3_createState();
	if (!h)
		FAIL(TDSL_ENOMEM, "out of memory");
	XXH3_128bits_reset(h);
	hash_text(h, identity);
	hash_text(h, r->file);
	hash_text(h, r->options.library_path);
	hash_list(h, r->options.targets);
	hash_list(h, r->options.kernels);
	hash_list(h, r->options.instances);
	hash_list(h, r->options.variants);
	hash_text(h, r->options.given);
	hash_text(h, r->options.given_alone ? "alone" : NULL);
	hash_canonical(h, r->text, r->n);
	XXH128_hash_t d = XXH3_128bits_digest(h);
	XXH3_freeState(h);
	*key = (struct cache_key){d.high64, d.low64};
	return 0;
}

/* ---- one compile */

/* First line of the diagnostics that is an error, for tdsl_error(). */
static int compile_fail(const char *file, const char *all)
{
	const char *line = all ? strstr(all, ": error: ") : NULL;
	while (line && line > all && line[-1] != '\n')
		line--;
	if (!line)
		line = all && *all ? all : "the compiler gave no message";
	bool placed = strstr(line, ": error: ");
	FAIL(TDSL_ECOMPILE, "%s%s%.*s", placed ? "" : file, placed ? "" : ": ", (int)strcspn(line, "\n"), line);
}

/* *bytes: the library's, to be given back to it. */
static int library_compile(const struct compiler *c, const struct request *r, void **bytes, size_t *size)
{
	char *all = NULL;
	struct tdslc_options o = r->options;
	TRY(env_jobs(&o.jobs, o.jobs));
	TRY(device_capture_check(NULL, "compiling"));
	trace_count(TRACE_COMPILES);
	int rc = c->compile(r->text, r->n, r->file, &o, bytes, size, &all);
	messages_set(all, NULL);
	c->free(all);
	log_write(LOG_INFO, "compiled %s%s%s: %s", r->file, o.kernels && o.kernels[0] ? ", kernel " : "", o.kernels && o.kernels[0] ? o.kernels[0] : "",
	          rc < 0 ? "failed" : "fine");
	return rc < 0 ? compile_fail(r->file, messages) : 0;
}

/* Opens a pack from bytes, which become its own or are freed. */
static int owned_open(struct pack_file **out, void *bytes, size_t size, const char *name)
{
	char err[1024];
	int rc = pack_open_memory(out, bytes, size, name, err, sizeof err);
	if (rc < 0) {
		free(bytes);
		return pack_fail(rc, err);
	}
	(*out)->owned = bytes;
	return 0;
}

static int compile_now(struct pack_file **out, struct cache *cache, struct cache_key key, const struct request *r)
{
	const struct compiler *c;
	void *bytes = NULL;
	size_t size = 0;
	TRY(compiler_get(&c));
	TRY(library_compile(c, r, &bytes, &size));
	void *own = malloc(size ? size : 1);
	if (own)
		memcpy(own, bytes, size);
	c->free(bytes);
	if (!own)
		FAIL(TDSL_ENOMEM, "out of memory");
	TRY(owned_open(out, own, size, r->file));
	if (!cache->off && !cache_write(cache, key, own, size))
		once_put(key, own, size);
	return 0;
}

static bool cached(struct pack_file **out, struct cache *cache, struct cache_key key, const struct request *r)
{
	void *bytes;
	size_t size;
	if (!cache_read(cache, key, &bytes, &size) && !once_get(key, &bytes, &size))
		return false;
	if (owned_open(out, bytes, size, r->file) < 0)
		return false;
	trace_count(TRACE_CACHE_HITS);
	return true;
}

/* Compiles under the locks of the key, unless somebody else did meanwhile. */
static int compile_locked(struct pack_file **out, struct cache *cache, struct cache_key key, const struct request *r, bool rebuild)
{
	int rc = 0;
	once_enter(key);
	if (rebuild || !cached(out, cache, key, r)) {
		int lock = cache_lock(cache, key);
		if (rebuild || !cached(out, cache, key, r)) {
			trace_count(TRACE_CACHE_MISSES);
			rc = compile_now(out, cache, key, r);
		}
		cache_unlock(lock);
	}
	once_leave(key);
	return rc;
}

static int request_serve(struct pack_file **out, struct cache *cache, const struct request *r)
{
	struct cache_key key;
	char identity[256];
	bool rebuild;
	TRY(env_flag(&rebuild, "TDSL_REBUILD", false));
	if (cache->off && !r->cached_only)
		return compile_now(out, cache, (struct cache_key){0}, r);
	TRY(compiler_identity(identity, sizeof identity, cache));
	TRY(key_make(&key, identity, r));
	if (r->cached_only)
		return !rebuild && cached(out, cache, key, r) ? 0 : TDSL_ENOTFOUND;
	return !rebuild && cached(out, cache, key, r) ? 0 : compile_locked(out, cache, key, r, rebuild);
}

static int request_run(struct pack_file **out, const struct request *r)
{
	struct cache cache;
	fork_watch();
	messages_set(NULL, NULL); /* before anything can fail: what another compile told is not this one's */
	TRY(env_check());
	TRY(compiler_allowed());
	TRY(cache_open(&cache));
	int rc = request_serve(out, &cache, r);
	cache_close(&cache);
	const char *trouble = cache_trouble();
	if (trouble) {
		char *before = messages ? strdup(messages) : NULL;
		char line[1100];
		snprintf(line, sizeof line, "%s\n", trouble);
		messages_set(before, line);
		free(before);
	}
	return rc;
}

/* ---- what the caller asks for, before anything is looked up */

static int jobs_check(const char *where, int jobs)
{
	if (jobs < 0 || jobs > ENV_MOST_JOBS)
		FAIL(TDSL_EINVAL, "%s: jobs is %d; expected 0 to %d", where, jobs, ENV_MOST_JOBS);
	return 0;
}

static int target_check(const char *where, const char *target)
{
	if (model_native(target, 8) == DT_NONE)
		FAIL(TDSL_EINVAL, "%s: unknown target '%s'; expected gfx942, gfx950 or sm_90a", where, target);
	return 0;
}

static int options_check(const struct tdsl_compile_options *o)
{
	struct stat st;
	TRY(jobs_check("tdsl_compile", o->jobs));
	for (const char *const *t = o->targets; t && *t; t++)
		TRY(target_check("tdsl_compile", *t));
	int rc = o->library_path ? stat(o->library_path, &st) : 0;
	if (rc < 0 || (o->library_path && !S_ISDIR(st.st_mode)))
		FAIL(TDSL_EINVAL, "tdsl_compile: library_path: %s: %s", o->library_path, rc < 0 ? strerror(errno) : "not a folder");
	return 0;
}

int tdsl_compile(tdsl_pack *pack, const char *text, size_t n, const char *file, const struct tdsl_compile_options *options)
{
	static const struct tdsl_compile_options none;
	const struct tdsl_compile_options *q = options ? options : &none;
	const char *targets[2] = {NULL, NULL};
	struct pack_file *p;
	messages_set(NULL, NULL);
	if (!pack || !text)
		FAIL(TDSL_EINVAL, "tdsl_compile: %s is NULL", pack ? "text" : "pack");
	TRY(options_check(q));
	struct request r = {text, n, file ? file : "text", {TDSLC_ABI, q->targets, q->kernels, q->instances, q->jobs, q->library_path, NULL, NULL, 0}, false};
	if (!q->targets) {
		tdsl_device d;
		TRY(tdsl_default(&d));
		targets[0] = d->target;
		r.options.targets = targets;
	}
	TRY(request_run(&p, &r));
	return pack_wrap(pack, p);
}

/* ---- kernels kept for calls: by the hash of their text; never dropped */

struct kept { struct kept *next; tdsl_pack pack; char *kernel, *instance, *target, *variant, *given; bool alone; }; /* as struct part has them */
static _Atomic(struct kept *) kept;

static bool same_source(tdsl_pack a, tdsl_pack b)
{
	return memcmp(a->file->meta->source_hash, b->file->meta->source_hash, sizeof a->file->meta->source_hash) == 0;
}

/* The workspace's letter aside: not every variant needs one. */
static bool same_arguments(tdsl_kernel a, tdsl_kernel b)
{
	return a->nparams == b->nparams && memcmp(a->signature, b->signature, (size_t)a->nparams) == 0;
}

tdsl_kernel jit_next(tdsl_kernel k, tdsl_kernel after)
{
	const char *name = pack_string(k->pack->file, k->k->name);
	struct kept *at = atomic_load_explicit(&kept, memory_order_acquire);
	for (; at && after; at = at->next)
		if (at->pack == after->pack) {
			at = at->next;
			break;
		}
	for (; at; at = at->next) {
		tdsl_kernel found = at->pack->file->nkernels ? &at->pack->kernels[0] : NULL; /* one kernel each */
		if (found && strcmp(at->kernel, name) == 0 && same_source(at->pack, k->pack) && same_arguments(found, k))
			return found;
	}
	return NULL;
}

/* What one compile of a kernel has; NULL = all.  A variant that no plan has leaves the instance alone.  given: as tdsl_warm has it;
 * alone: what the pack that calls go to has not. */
#define NO_VARIANT "none"
struct part { const char *kernel, *instance, *target, *variant, *given; bool alone; };

static char *copy_or_none(const char *s) { return s ? strdup(s) : NULL; }
static bool same_or_none(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static int keep(tdsl_pack pack, const struct part *p)
{
	struct kept *e = malloc(sizeof *e), *first = atomic_load(&kept);
	if (!e)
		FAIL(TDSL_ENOMEM, "out of memory");
	*e = (struct kept){NULL, pack, strdup(p->kernel), copy_or_none(p->instance), strdup(p->target), copy_or_none(p->variant), copy_or_none(p->given),
	                   p->alone};
	for (uint32_t k = 0; k < pack->file->nkernels; k++)
		pack->kernels[k].extents_only = p->variant && strcmp(p->variant, NO_VARIANT) == 0;
	do
		e->next = first;
	while (!atomic_compare_exchange_weak(&kept, &first, e));
	return 0;
}

static struct kept *kept_find(const uint64_t source[2], const struct part *p)
{
	struct kept *at = atomic_load_explicit(&kept, memory_order_acquire);
	while (at && (strcmp(at->kernel, p->kernel) || strcmp(at->target, p->target) || !same_or_none(at->instance, p->instance) ||
	              !same_or_none(at->variant, p->variant) || !same_or_none(at->given, p->given) || at->alone != p->alone || memcmp(at->pack->file->meta->source_hash, source, 2 * sizeof *source)))
		at = at->next;
	return at;
}

/* That of `part` of this text, or NULL. */
static struct kept *kept_of(const char *text, size_t n, const struct part *p)
{
	XXH128_hash_t h = XXH3_128bits(text, n);
	return kept_find((uint64_t[]){h.low64, h.high64}, p);
}

/* Compiles one kernel and keeps it for calls. */
static int kernel_keep(const char *text, size_t n, const char *file, const struct part *p, int jobs, bool cached_only)
{
	const char *kernels[2] = {p->kernel}, *instances[2] = {p->instance}, *targets[2] = {p->target}, *variants[2] = {p->variant};
	struct request r = {text, n, file, {.abi = TDSLC_ABI, .targets = targets, .kernels = kernels, .instances = p->instance ? instances : NULL,
	                                    .jobs = jobs, .variants = p->variant ? variants : NULL, .given = p->given, .given_alone = p->alone}, cached_only};
	struct pack_file *f;
	tdsl_pack pack;
	if (kept_of(text, n, p))
		return 0;
	TRY(request_run(&f, &r));
	TRY(pack_wrap(&pack, f));
	return keep(pack, p);
}

static int64_t ask_leaf(void *ctx, int op, int64_t imm)
{
	return bind_leaf(ctx, (enum hexpr_op)op, imm);
}

/* The instance that takes the call's types and the variant that it would get ("" = not known); TDSL_EDTYPE where the text has none. */
static int part_find(char instance[256], char variant[256], const char *text, size_t n, const char *file, tdsl_kernel k, tdsl_device d,
                     const union tdsl_arg *args)
{
	uint8_t types[MODEL_MAX_PARAM][2];
	struct bind sizes;
	const struct compiler *c;
	char *name = NULL, *which = NULL, *why = NULL;
	for (int i = 0; i < k->nparams; i++) {
		const DLTensor *t = k->tensors >> i & 1 ? args[i].t : NULL;
		types[i][0] = t ? t->dtype.code : 255;
		types[i][1] = t ? t->dtype.bits : 0;
	}
	TRY(compiler_get(&c));
	if (!c->instance)
		FAIL(TDSL_EUNSUPPORTED, "the compile library is older than the runtime");
	struct tdslc_types q = {.abi = TDSLC_ABI, .kernel = pack_string(k->pack->file, k->k->name), .target = d->target, .nparams = k->nparams, .types = types};
	if (bind_sizes(&sizes, k, d, args)) {
		q.nsymbols = (int)k->k->symbols.count;
		q.symbols = sizes.symbols;
		q.leaf = ask_leaf;
		q.ctx = &sizes;
	}
	int rc = c->instance(text, n, file, &q, &name, &which, &why);
	snprintf(instance, 256, "%s", name ? name : "");
	snprintf(variant, 256, "%s", which ? which : "");
	if (rc < 0)
		error_set(TDSL_EDTYPE, "%s", why ? why : "no instance");
	c->free(name);
	c->free(which);
	c->free(why);
	return rc < 0 ? TDSL_EDTYPE : 0;
}

/* ---- what calls of some types needed before: a note in the cache, a line "instance <tab> variant" each */

static void parts_name(char out[64], tdsl_kernel k, tdsl_device d, const union tdsl_arg *args)
{
	uint8_t types[MODEL_MAX_PARAM][2];
	const uint64_t *source = k->pack->file->meta->source_hash;
	const char *kernel = pack_string(k->pack->file, k->k->name);
	for (int i = 0; i < k->nparams; i++) {
		const DLTensor *t = k->tensors >> i & 1 ? args[i].t : NULL;
		types[i][0] = t ? t->dtype.code : 255;
		types[i][1] = t ? t->dtype.bits : 0;
	}
	uint64_t h = XXH3_64bits_withSeed(kernel, strlen(kernel), source[0] ^ source[1]);
	h = XXH3_64bits_withSeed(d->target, strlen(d->target), h);
	h = XXH3_64bits_withSeed(types, (size_t)k->nparams * sizeof *types, h);
	snprintf(out, 64, "call-%016llx.id", (unsigned long long)h);
}

static void parts_note(tdsl_kernel k, tdsl_device d, const union tdsl_arg *args, const struct part *p)
{
	struct cache cache;
	char name[64], line[600], *all = NULL;
	void *before = NULL;
	size_t n = 0;
	if (cache_open(&cache) < 0 || cache.folder < 0)
		return;
	parts_name(name, k, d, args);
	snprintf(line, sizeof line, "%s\t%s\n", p->instance ? p->instance : "", p->variant ? p->variant : "");
	if (!cache_note_read(&cache, name, &before, &n) || n > 8192)
		n = 0;
	if (!(n && memmem(before, n, line, strlen(line))) && asprintf(&all, "%.*s%s", (int)n, n ? (char *)before : "", line) >= 0) {
		cache_note_write(&cache, name, all, strlen(all));
		free(all);
	}
	free(before);
	cache_close(&cache);
}

bool jit_recall(tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args)
{
	const struct pack_file *f = k->pack->file;
	const char *text = pack_string(f, f->meta->source), *file = pack_string(f, f->meta->source_name);
	struct cache cache;
	char name[64];
	void *note = NULL;
	size_t n = 0;
	bool any = false;
	if (!*text || compiler_allowed() < 0 || device_capture_check(s, "loading") < 0 || cache_open(&cache) < 0)
		return false;
	parts_name(name, k, s->device, args);
	bool there = cache.folder >= 0 && cache_note_read(&cache, name, &note, &n);
	cache_close(&cache);
	char *all = there ? strndup(note, n) : NULL;
	free(note);
	for (char *line = all, *next; line && *line; line = next) {
		next = line + strcspn(line, "\n");
		next += *next ? (*next = 0, 1) : 0;
		char *tab = strchr(line, '\t');
		if (!tab)
			continue;
		*tab = 0;
		struct part p = {pack_string(f, k->k->name), line, s->device->target, tab[1] ? tab + 1 : NULL, NULL, false};
		if (!kept_find(f->meta->source_hash, &p) && kernel_keep(text, strlen(text), file, &p, 0, true) == 0)
			any = true;
	}
	free(all);
	if (any)
		trace_count(TRACE_JIT_KERNELS);
	return any;
}

int jit_kernel(tdsl_kernel *out, tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, enum jit_extent extent)
{
	const struct pack_file *f = k->pack->file;
	const char *text = pack_string(f, f->meta->source), *file = pack_string(f, f->meta->source_name);
	char instance[256], variant[256];
	size_t n = strlen(text);
	if (!n)
		FAIL(TDSL_ENOTFOUND, "%s carries no source text", f->name);
	if (!heading_allows(text, k, s->device->target, args))
		FAIL(TDSL_EDTYPE, "the text has no such instance");
	TRY(compiler_allowed());
	TRY(device_capture_check(s, pack_string(f, k->k->name)));
	TRY(part_find(instance, variant, text, n, file, k, s->device, args));
	struct part p = {pack_string(f, k->k->name), instance, s->device->target, extent == JIT_SIGNATURE ? NO_VARIANT : *variant && extent == JIT_VARIANT ? variant : NULL, NULL, false};
	TRY(kernel_keep(text, n, file, &p, 0, false));
	parts_note(k, s->device, args, &p);
	struct kept *at = kept_find(f->meta->source_hash, &p);
	if (!at || at->pack->file->nkernels != 1 || !same_arguments(&at->pack->kernels[0], k))
		FAIL(TDSL_ECOMPILE, "%s: the kernel compiled from the pack's text has another signature", p.kernel);
	*out = &at->pack->kernels[0];
	if (extent != JIT_SIGNATURE)
		trace_count(TRACE_JIT_KERNELS);
	return 0;
}

/* ---- the warm-up list */

struct warming {
	const struct tdsl_warm *items; int n, each;   /* threads of one item's compile */
	atomic_int next, ready;
	pthread_mutex_t lock;
	int failed, rc; char why[1024];       /* of the first item in the list that failed */
};

/* Whether a pack has code for calls of the part's kernel: that for what asks for each tensor too. */
static bool pack_serves(tdsl_pack pack, const struct part *p)
{
	const struct pack_file *f = pack->file;
	for (uint32_t k = 0; k < f->nkernels; k++)
		for (uint32_t i = 0; i < f->kernels[k].variants.count && strcmp(pack_string(f, f->kernels[k].name), p->kernel) == 0; i++) {
			const struct pack_variant *v = &f->variants[f->kernels[k].variants.first + i];
			const char *instance = pack_string(f, f->instances[f->kernels[k].instances.first + v->instance].name);
			if (strcmp(pack_string(f, v->target), p->target) == 0 && (!p->instance || strcmp(instance, p->instance) == 0))
				return true;
		}
	return false;
}

/* Compiles what an item names.  A kernel that the pack block leaves out has no instances but those that an item names: all of them are too many. */
static int warm_kernel(const char *text, size_t n, const char *file, struct part p, int jobs)
{
	TRY(kernel_keep(text, n, file, &p, jobs, false));
	struct kept *at = kept_of(text, n, &p);
	const struct pack_file *f = at ? at->pack->file : NULL;
	if (p.instance || p.alone || !f || f->nkernels != 1 || f->kernels[0].variants.count)
		return 0;
	const struct pack_range of = f->kernels[0].instances;
	p.instance = pack_string(f, f->instances[of.first].name);
	if (of.count > 1)
		FAIL(TDSL_EINVAL, "%s: found no instance, where the pack block leaves the kernel out; expected one, such as %s", p.kernel, p.instance);
	return kernel_keep(text, n, file, &p, jobs, false);
}

static int warm_one(const struct tdsl_warm *w, int jobs)
{
	const char *text = w->text, *file = w->file, *target = w->target;
	size_t n = w->n;
	tdsl_device d;
	messages_set(NULL, NULL);
	if (!w->kernel || (!w->text && !w->pack))
		FAIL(TDSL_EINVAL, "%s", w->kernel ? "found neither pack nor text; expected one of them" : "kernel is NULL");
	if (!text) {
		TRY(pack_check(w->pack, w->kernel));
		const struct pack_file *f = w->pack->file;
		text = pack_string(f, f->meta->source);
		file = pack_string(f, f->meta->source_name);
		n = strlen(text);
		if (!n)
			FAIL(TDSL_ENOTFOUND, "%s carries no source text", f->name);
	}
	if (!target) {
		TRY(tdsl_default(&d));
		target = d->target;
	}
	TRY(target_check(w->kernel, target));
	struct part p = {w->kernel, w->instance, target, NULL, w->given, false};
	p.alone = w->given && w->pack && pack_serves(w->pack, &p);
	return warm_kernel(text, n, file ? file : "text", p, jobs);
}

static void *warm_thread(void *arg)
{
	struct warming *w = arg;
	for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n;) {
		int rc = warm_one(&w->items[i], w->each);
		pthread_mutex_lock(&w->lock);
		w->ready += rc == 0;
		if (rc < 0 && (w->failed < 0 || i < w->failed)) {
			w->failed = i;
			w->rc = rc;
			snprintf(w->why, sizeof w->why, "%s", tdsl_error());
		}
		pthread_mutex_unlock(&w->lock);
	}
	return NULL;
}

int tdsl_warm_up(const struct tdsl_warm *items, int n, int jobs)
{
	pthread_t threads[64];
	int started = 0;
	struct warming w = {.items = items, .n = n, .failed = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
	if (n < 0 || (n && !items))
		FAIL(TDSL_EINVAL, "tdsl_warm_up: %d items%s", n, items ? "" : " at NULL");
	TRY(jobs_check("tdsl_warm_up", jobs));
	TRY(env_check());
	TRY(env_jobs(&jobs, jobs));
	w.each = n ? (jobs + n - 1) / n : 1;
	while (started < jobs - 1 && started < n - 1 && started < 64 && pthread_create(&threads[started], NULL, warm_thread, &w) == 0)
		started++;
	warm_thread(&w);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	if (w.failed >= 0)
		FAIL(w.rc, "tdsl_warm_up: item %d of %d: %s", w.failed, n, w.why);
	return w.ready;
}
