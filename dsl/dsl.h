/* dsl.h -- the tile language's front end: text in, tile IR and signatures out, diagnostics beside them.
 *
 *   text -> tokens (lex.re) -> AST (grammar.y, ast.h) -> elaborate*.c: names, axes, dtypes, presence -> struct ir_kernel
 *
 * Elaboration is the checker: library functions are templates (inlined per call), so names, axes and dtypes are checked once
 * per instance, with the source place of every message.  Nothing here prints; messages collect in a struct diag. */
#ifndef TDSL_DSL_H
#define TDSL_DSL_H
#include "../base/model.h"
#include "../compiler/ir.h"
#include "diag.h"

/* What pack lines specialise: which optional tensors are there and which are asked for at run time, all others absent (`with w res amax?`; none without
 * such words), and sizes for these (`N 4096 8192`).  Lines that name the same tensors are one set, with the sizes of all. */
struct dsl_pin { const char *symbol; int64_t value; };
struct dsl_tensor { const char *name; bool asked; };
struct dsl_set { const struct dsl_tensor *tensors; int n; struct dsl_pin *pins; int npins; };
struct dsl_special { struct dsl_set *sets; int nsets; };

struct dsl_set dsl_set_joined(struct arena *, const struct dsl_set *a, const struct dsl_set *b);    /* the tensors of a, the sizes of both, each once */
const struct dsl_special *dsl_special_with(struct arena *, const struct dsl_special *, const struct dsl_set *);    /* another set; of NULL: beside the empty one */

/* One choice of a kernel's dtype parameters.  types[i] belongs to parameter i: a plain type, or native (8: fp8, 9: bf8).
 * special: of the pack lines that name it; NULL = nothing. */
struct dsl_binding { const char *text; /* "T=bf16,Q=fp8" */ enum dtype types[8]; uint8_t native[8]; const struct dsl_special *special; };

struct dsl_knob { const char *name; int value; bool has_value; struct diag_span at; };     /* `i 128`, `pingpong` */
struct dsl_schedule { const char *target; /* "gfx942"; "" = any */ struct dsl_knob *knobs; int nknobs; };

struct dsl_kernel {
	const char *name, *doc;
	struct dsl_binding *all; int nall;                  /* every combination of the declared choices, in order */
	struct dsl_binding *packed; int npacked;            /* those the pack block names (`none`: no one); all of them where no pack block names the kernel */
	struct dsl_schedule *schedules; int nschedules;     /* specific targets first */
	int line;
	bool temps;                                         /* phases keep numbers for later ones, in a workspace */
	void *ast;
};

struct dsl_file { const char *name; struct dsl_kernel *kernels; int nkernels; void *ast; };

/* Parses and checks shapes of declarations.  library: text of lib/ functions, parsed first (its functions are visible); NULL =
 * the library built in.  kernels: NULL-terminated names of those that are wanted, NULL = all; of the others the file keeps the names
 * alone and nothing but their grammar is checked, so that one kernel of a long text costs little.  0 or -1 with messages in diag;
 * never crashes on any bytes. */
int dsl_parse(struct arena *, const char *text, size_t n, const char *file, const char *library, const char *const *kernels,
              struct diag *, struct dsl_file **);
/* Kernel `k` for one binding and target ("" = none: fp8 stays e4m3).  0 or -1 with messages. */
int dsl_elaborate(struct arena *, const struct dsl_file *, const struct dsl_kernel *k, const struct dsl_binding *, const char *target,
                  struct diag *, struct ir_kernel **);
/* The C-level signature: parameters in the order inputs, scalars, outputs; symbols; requires; instances = packed (no variants). */
int dsl_signature(struct arena *, const struct dsl_file *, const struct dsl_kernel *, struct diag *, struct model_kernel *);
/* AST as text, for `dump --stage ast`. */
char *dsl_dump(struct arena *, const struct dsl_file *, const struct dsl_kernel *);
#endif
