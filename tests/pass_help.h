/* pass_help.h -- for tests of passes: what a kernel computes, before and behind, and kernels of tests/ir with a few words changed. */
#ifndef TDSL_PASS_HELP_H
#define TDSL_PASS_HELP_H
#include "../compiler/compile.h"
#include "ir_help.h"

enum { PASS_PARAMS = 16 };                         /* of a kernel at most */
struct pass_edit { const char *from, *to; };       /* the first `from` of a text; two of them, or fewer and a NULL */

/* All outputs; they hold 0xa5 before, what is updated zeros.  what: for the message if it fails. */
void pass_evaluate(struct ir_run *, const struct ir_kernel *, const char *what);
void pass_keep(struct ir_run *, double **want);    /* the values of outputs and of what is updated; pass_forget frees them */
void pass_forget(double **want);
void pass_compare(struct ir_run *, double *const *want, double bound, const char *what);     /* within the bound, codes within a step of theirs */
void pass_open_edited(struct arena *, struct ir_run *, const char *name, const struct pass_edit *);      /* tests/ir/NAME.ir */
/* Calls note for each instruction of the first phase of tests/ir/NAME.ir, or of the text itself, behind the pass `until` (NULL: all). */
void pass_look_after(const char *name, const struct variant *, const char *until, void (*note)(struct ir_ins *, void *), void *ctx);
/* The same for gfx942, of rows that a tile does not hold whole (7 x 13), and what it computes; pass_end_edited: that `k` computes the same, and frees all. */
void pass_begin_edited(struct arena *, struct ir_run *, const char *name, const struct pass_edit *, const char *what, double **want);
void pass_end_edited(struct arena *, struct ir_run *, const struct ir_kernel *k, const char *what, double **want);
#endif
