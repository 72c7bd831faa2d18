/* dsl_help.h -- for tests of the front end: texts, messages, and kernels elaborated from text and ready to evaluate. */
#ifndef TDSL_TEST_DSL_HELP_H
#define TDSL_TEST_DSL_HELP_H
#include "../dsl/dsl.h"
#include "ir_help.h"

/* Parses a text and elaborates every kernel for every choice of types, then takes its signature; messages in d.  0 if there are
 * no errors.  What elaborates must verify.  ir: where not NULL, the printed IR of each kernel's first choice. */
int dsl_help_all(struct arena *, const char *text, size_t n, const char *file, struct diag *d, char **ir);
/* A kernel of a file, for one instance ("" = the first), verified, ready for ir_run_*. */
void dsl_run_open(struct ir_run *, const char *path, const char *kernel, const char *instance);
#endif
