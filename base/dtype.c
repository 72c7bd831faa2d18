/* dtype.c -- look-ups over dtype.def.  In: names and codes.  Out: enum dtype and its row.
 * Linear searches: the table has under twenty rows and look-ups happen when files are read, not per call. */
#include "dtype.h"

#include <string.h>

static const struct dtype_info info[DT_COUNT] = {
	[DT_NONE] = {"?", "", 0, '?', 255, 0},
#define X(id, name, bits, cls, code, dlbits, st) [DT_##id] = {name, st, bits, #cls[0], code, dlbits},
#include "dtype.def"
#undef X
};

const struct dtype_info *dtype_info(enum dtype t)
{
	return &info[(unsigned)t < DT_COUNT ? t : DT_NONE];
}

static bool name_is(const char *row, const char *name, unsigned n)
{
	return n > 0 && strlen(row) == n && memcmp(row, name, n) == 0;
}

enum dtype dtype_by_name(const char *name, unsigned n)
{
	for (int t = DT_NONE + 1; t < DT_COUNT; t++)
		if (name_is(info[t].name, name, n))
			return t;
	return DT_NONE;
}

enum dtype dtype_by_safetensors(const char *name, unsigned n)
{
	for (int t = DT_NONE + 1; t < DT_COUNT; t++)
		if (name_is(info[t].safetensors, name, n))
			return t;
	return DT_NONE;
}

enum dtype dtype_by_dlpack(unsigned code, unsigned bits)
{
	for (int t = DT_NONE + 1; t < DT_COUNT; t++)
		if (info[t].dl_code == code && info[t].dl_bits == bits)
			return t;
	return DT_NONE;
}
