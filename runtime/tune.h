/* tune.h -- tables of tuned choices: written by `tdslc tune`, read by dispatch where TDSL_TUNE names one.
 *
 *   tdsl tune 1
 *   KERNEL <tab> INSTANCE <tab> TARGET <tab> WHERE <tab> VARIANT <tab> SHARE
 *
 * WHERE: "*" or sizes, "N=4096,M=1".  VARIANT: the text of its predicate.  SHARE: measured or modelled, of the hardware's peak: more than
 * 0 and at most 1; a table with anything else is refused, since what was measured above the peak was not measured. */
#ifndef TDSL_RT_TUNE_H
#define TDSL_RT_TUNE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tune_entry { const char *kernel, *instance, *target, *where, *variant; double share; };
struct tune_table { struct tune_entry *entries; int n; char *text; };
/* Reads a table from text (n bytes).  0, or -1 with "LINE: why". */
int tune_parse(struct tune_table *, const char *text, size_t n, char *err, size_t errlen);
void tune_free(struct tune_table *);

/* Value of a size by its name; false where the kernel has none of this name. */
typedef bool tune_size(void *ctx, const char *name, size_t length, int64_t *value);
/* The variant that the table of TDSL_TUNE gives a call, in `variant`: 1, 0 where it says nothing, or a negative code. */
int tune_find(char *variant, size_t size, const char *kernel, const char *instance, const char *target, tune_size *, void *ctx);
#endif
