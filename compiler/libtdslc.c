/* libtdslc.c -- the compiler behind one function (libtdslc.h): options and text in, pack bytes and messages out.
 * Calls share nothing, so that a runtime may compile from several threads at once. */
#include "libtdslc.h"

#include <link.h>
#include <llvm-c/Core.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../runtime/include/tdsl.h"
#include "../runtime/pack.h"
#include "compile.h"
#include "file.h"

int tdslc_compile(const char *text, size_t n, const char *file, const struct tdslc_options *o,
                  void **pack, size_t *pack_size, char **messages)
{
	char err[1000] = "";
	struct compile_result result;
	*messages = NULL;
	if (!text || !o || o->abi != TDSLC_ABI) {
		*messages = strdup(o && text ? "error: the runtime and the compiler are of different versions" : "error: no text or no options");
		return -1;
	}
	char *library = o->library_path ? library_read(o->library_path, err, sizeof err) : NULL;
	if (o->library_path && !library) {
		if (asprintf(messages, "error: %s", err) < 0)
			*messages = NULL;
		return -1;
	}
	struct compile_options options = {.targets = o->targets, .kernels = o->kernels, .instances = o->instances, .jobs = o->jobs, .library = library, .variants = o->variants, .given = o->given, .given_alone = o->given_alone};
	int rc = compile_text(text, n, file ? file : "text", &options, &result);
	if (result.messages)
		*messages = strdup(result.messages);
	result.pack.compression = 1;                 /* this pack goes to a cache: time counts more than bytes */
	if (rc == 0 && pack_write(&result.pack, pack, pack_size, err, sizeof err)) {
		rc = -1;
		free(*messages);
		if (asprintf(messages, "error: %s", err) < 0)
			*messages = NULL;
	}
	compile_result_free(&result);
	free(library);
	return rc;
}

/* --- the instance for a call's element types */
static bool types_fit(const struct model_kernel *k, const struct tdslc_types *q)
{
	for (int p = 0; p < k->nparams; p++) {
		uint8_t native = k->instances[0].native[p];
		const struct dtype_info *t = dtype_info(native ? model_native(q->target, native) : k->instances[0].dtype[p]);
		if (k->params[p].is_tensor && q->types[p][0] != 255 && (q->types[p][0] != t->dl_code || q->types[p][1] != t->dl_bits))
			return false;
	}
	return true;
}

/* Tries the kernel's bindings one by one. */
static const struct dsl_binding *find_instance(struct arena *a, const struct dsl_file *f, const struct tdslc_types *q, struct diag *diag, const struct dsl_kernel **kernel)
{
	for (int i = 0; i < f->nkernels; i++)
		for (int b = 0; strcmp(f->kernels[i].name, q->kernel) == 0 && b < f->kernels[i].nall; b++) {
			struct dsl_kernel one = f->kernels[i];
			struct model_kernel k = {0};
			one.packed = &one.all[b];
			one.npacked = 1;
			if (dsl_signature(a, f, &one, diag, &k) == 0 && k.ninstances == 1 && k.nparams == q->nparams && types_fit(&k, q)) {
				*kernel = &f->kernels[i];
				return &f->kernels[i].all[b];
			}
		}
	return NULL;
}

static int64_t ask_leaf(void *ctx, enum hexpr_op op, int64_t imm)
{
	const struct tdslc_types *q = ctx;
	return q->leaf(q->ctx, op, imm);
}

/* The optional tensors that a call has. */
static struct dsl_set given_of(struct arena *a, const struct ir_kernel *k, const struct tdslc_types *q)
{
	ARRAY(struct dsl_tensor) tensors = {0};
	for (int i = 0; i < k->nparams; i++)
		if (k->params[i].optional && q->leaf(q->ctx, HX_PRESENT, i))
			ARENA_PUSH(a, &tensors, (struct dsl_tensor){k->params[i].name, false});
	return (struct dsl_set){tensors.items, tensors.n, NULL, 0};
}

/* The variant that the call would get, of those for what it has; "" where that cannot be told. */
static const char *find_variant(struct arena *a, const struct dsl_file *f, const struct dsl_kernel *k, const struct dsl_binding *b,
                                const struct tdslc_types *q, struct diag *diag)
{
	const struct target *target = target_by_name(q->target);
	struct hexpr_env env = {q->symbols, q->nsymbols, ask_leaf, (void *)(uintptr_t)q};
	struct ir_kernel *generic;
	struct variant *variants;
	char err[400];
	int n;
	if (!q->symbols || !q->leaf || !target || dsl_elaborate(a, f, k, b, q->target, diag, &generic) || diag->errors || generic->nsymbols != q->nsymbols)
		return "";
	const struct dsl_set given = given_of(a, generic, q);
	if (!plan_takes_schedule(generic, k, target, diag))
		return "";
	if (plan_variants(a, generic, k, dsl_special_with(a, b->special, &given), target, &variants, &n, err, sizeof err))
		return "";
	for (int i = 0; i < n; i++) {
		const char *why;
		int64_t holds = 1;
		if (!variants[i].predicate || (hexpr_eval(variants[i].predicate, &env, &holds, &why) == 0 && holds))
			return variants[i].text;
	}
	return "";
}

int tdslc_instance(const char *text, size_t n, const char *file, const struct tdslc_types *q, char **instance, char **variant, char **messages)
{
	struct arena a = {0};
	struct diag diag = {.arena = &a, .file = file ? file : "text", .source = text, .size = n};
	struct dsl_file *f = NULL;
	const struct dsl_binding *found = NULL;
	const struct dsl_kernel *kernel = NULL;
	*instance = *variant = *messages = NULL;
	if (q->abi == TDSLC_ABI && dsl_parse(&a, text, n, diag.file, NULL, (const char *const[]){q->kernel, NULL}, &diag, &f) == 0 && !diag.errors)
		found = find_instance(&a, f, q, &diag, &kernel);
	if (found) {
		*instance = strdup(found->text);
		*variant = strdup(find_variant(&a, f, kernel, found, q, &diag));
	} else {
		*messages = strdup(diag.n ? diag_text(&diag) : "no instance of the kernel takes these element types");
	}
	arena_free(&a);
	return found ? 0 : -1;
}

/* --- identity: the linker's build id of the file that this code is in, so that a rebuilt compiler is another one */
static char identity[128];
static pthread_once_t identity_once = PTHREAD_ONCE_INIT;

static int find_build_id(struct dl_phdr_info *info, size_t size, void *text)
{
	const ElfW(Addr) here = (ElfW(Addr))(uintptr_t)tdslc_identity;
	bool inside = false;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		inside |= p->p_type == PT_LOAD && here >= info->dlpi_addr + p->p_vaddr && here < info->dlpi_addr + p->p_vaddr + p->p_memsz;
	}
	for (int i = 0; inside && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint8_t *at = (const uint8_t *)(info->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;
		while (p->p_type == PT_NOTE && (size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *h = (const void *)at;
			const uint8_t *desc = at + sizeof *h + ((h->n_namesz + 3u) & ~3u);
			if (h->n_type == NT_GNU_BUILD_ID && h->n_namesz == 4 && !memcmp(h + 1, "GNU", 4)) {
				for (unsigned b = 0; b < h->n_descsz && b < 20; b++)
					sprintf((char *)text + 2 * b, "%02x", desc[b]);
				return 1;
			}
			at = desc + ((h->n_descsz + 3u) & ~3u);
		}
	}
	return inside;
}

static void make_identity(void)
{
	unsigned major, minor, patch;
	char build[48] = "unknown";
	LLVMGetVersion(&major, &minor, &patch);
	dl_iterate_phdr(find_build_id, build);
	snprintf(identity, sizeof identity, "tdslc %s LLVM %u.%u.%u build %s", TDSL_VERSION, major, minor, patch, build);
}

const char *tdslc_identity(void)
{
	pthread_once(&identity_once, make_identity);
	return identity;
}

void tdslc_free(void *p)
{
	free(p);
}
