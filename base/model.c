/* model.c -- how a kernel's types and extents are said, and the one fact about targets that both the compiler and the runtime need: which
 * flavour `fp8` and `bf8` are.  In: a model.  Out: names and texts.
 * Sources: CDNA3 ISA guide (gfx942: FNUZ), CDNA4 ISA guide (gfx950: OCP), PTX ISA (sm_90a: OCP). */
#include "model.h"

#include <string.h>

static const struct { const char *target; enum dtype fp8, bf8; } native[] = {
	{"gfx942", DT_E4M3FNUZ, DT_E5M2FNUZ},
	{"gfx950", DT_E4M3, DT_E5M2},
	{"sm_90a", DT_E4M3, DT_E5M2},
};

enum dtype model_native(const char *target, int which)
{
	for (unsigned i = 0; i < sizeof native / sizeof *native; i++)
		if (strcmp(native[i].target, target) == 0)
			return which == 9 ? native[i].bf8 : native[i].fp8;
	return DT_NONE;
}

const char *model_type_name(const struct model_instance *i, int param)
{
	return i->native[param] == 8 ? "fp8" : i->native[param] == 9 ? "bf8" : dtype_info(i->dtype[param])->name;
}

char *model_extents(struct arena *a, const struct model_kernel *k, int param)
{
	const char *symbols[MODEL_MAX_SYMBOL], *tensors[MODEL_MAX_PARAM];
	const struct model_param *p = &k->params[param];
	char *text = arena_printf(a, "%s", "");
	for (int i = 0; i < k->nsymbols; i++)
		symbols[i] = k->symbols[i].name;
	for (int i = 0; i < k->nparams; i++)
		tensors[i] = k->params[i].name;
	for (int d = 0; d < p->rank; d++)
		text = arena_printf(a, "%s%s%s", text, d ? ", " : "", hexpr_shown(a, p->extent[d], symbols, tensors));
	return text;
}
