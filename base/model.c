/* model.c -- the one fact about targets that both the compiler and the runtime need: which flavour `fp8` and `bf8` are.
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
