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
	struct compile_options options = {.targets = o->targets, .kernels = o->kernels, .instances = o->instances, .jobs = o->jobs, .library = library};
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
