/* translate.c -- hands a kernel to its target's translator: the triple decides.  A new target is a folder and a row here. */
#include "amdgcn/machine.h"
#include "nvptx/machine.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *arch;
	int (*run)(struct arena *, const struct ir_kernel *, const struct variant *, LLVMContextRef, struct translated *, char *, size_t);
} translators[] = {
	{"amdgcn-", amdgcn_translate},
	{"nvptx64-", nvptx_translate},
};

int translate(struct arena *arena, const struct ir_kernel *final, const struct variant *v, LLVMContextRef context, struct translated *out,
              char *err, size_t errlen)
{
	for (unsigned i = 0; i < sizeof translators / sizeof *translators; i++)
		if (strncmp(v->target->triple, translators[i].arch, strlen(translators[i].arch)) == 0)
			return translators[i].run(arena, final, v, context, out, err, errlen);
	snprintf(err, errlen, "no translator for %s", v->target->triple);
	return -1;
}
