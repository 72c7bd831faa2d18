/* report.h -- what a pack holds, as texts: the tables and JSON of `tdslc list` and `tdslc report`, and the generated binding.
 * Every function returns text in the arena; nothing here prints or fails. */
#ifndef TDSL_REPORT_H
#define TDSL_REPORT_H
#include "../base/arena.h"
#include "../base/model.h"
#include "object.h"

/* A variant's JSON object as a pack keeps it (model_variant.report_json): resources, loop, counts; registers, LDS and scratch
 * are the largest of its launches, counts their sums, the loop that of the launch with the most matrix work.  ordered: its code stands in
 * the order of its tile IR (variant_code.c). */
char *report_variant_json(struct arena *, const struct model_launch *launches, int nlaunches, const struct object_facts *facts,
                          int nfacts, size_t object_bytes, bool ordered);
/* `tdslc report`: one row per variant.  compile_ms: one number per variant in the pack's order, negative = not known; NULL = none. */
char *report_table(struct arena *, const struct model_pack *, const double *compile_ms);
char *report_json(struct arena *, const struct model_pack *, const double *compile_ms);
/* `tdslc list`. */
char *list_table(struct arena *, const struct model_pack *);
char *list_json(struct arena *, const struct model_pack *);
/* C header with one function per kernel, and the source that calls the runtime (binding.c).  header_name: what the source
 * includes, and where the include guard's name comes from. */
char *binding_header(struct arena *, const struct model_pack *, const char *header_name);
/* The signature of a kernel in tdsl.h's letters. */
char *binding_signature(struct arena *, const struct model_kernel *);
/* Both and the pack as one shared library for this machine (host_so.c): *elf is malloc'ed.  0, or -1 with text. */
int host_library(struct arena *, const struct model_pack *, const void *pack, size_t pack_size, const char *soname, void **elf, size_t *size,
                 char *err, size_t errlen);
char *binding_source(struct arena *, const struct model_pack *, const char *header_name);
#endif
