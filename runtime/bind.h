/* bind.h -- a call's arguments bound to a kernel: views, instance, symbols, and host expressions evaluated over them. */
#ifndef TDSL_RT_BIND_H
#define TDSL_RT_BIND_H
#include "view.h"

struct bind {
	tdsl_kernel kernel;
	tdsl_device device;
	const struct pack_file *file;
	const char *name;                       /* of the kernel, for messages */
	struct view views[MODEL_MAX_PARAM];
	int64_t symbols[MODEL_MAX_SYMBOL];
	uint32_t instance;
	bool nothing;                           /* every output is empty: nothing to compute */
	int assume_aligned;                     /* a query without data pointers: what HX_ALIGNED says; -1 = look */
	bool joined;                            /* by bind_join_rows: symbols and views are of other rows than the call's */
};

/* Checks all arguments.  `lenient`: a query, outputs and data may be missing. */
int bind_make(struct bind *, tdsl_kernel, tdsl_device, const union tdsl_arg *args, bool lenient);
/* join.c: for the choice of a variant and its launches.  Results do not depend on it. */
void bind_join_rows(struct bind *);
/* Tensors and symbols alone, where the kernel has no instance for the call: false where they do not fit together. */
bool bind_sizes(struct bind *, tdsl_kernel, tdsl_device, const union tdsl_arg *args);
/* What expressions ask of tensors and the device; ctx: the bind. */
int64_t bind_leaf(void *ctx, enum hexpr_op op, int64_t imm);
/* Value of expression `c`; 0 or -1 with *why. */
int bind_eval(const struct bind *, struct pack_code_ref c, int64_t *value, const char **why);
/* The same within bounds; 0, or TDSL_ESHAPE with a text that says what it is of. */
int bind_within(const struct bind *, struct pack_code_ref c, const char *what, int64_t low, int64_t high, int64_t *value);
/* Rows are divided once for all tensors: the inner extent of those that do not fold into one stride, which must agree; else 1. */
int64_t bind_fold_inner(const struct bind *);
/* Element type that the instance gives parameter `param` on the device. */
enum dtype bind_type(const struct bind *, uint32_t instance, int param);
/* Text of an expression with the kernel's names, in a buffer. */
void bind_text(const struct bind *, struct pack_code_ref c, char *out, size_t size);

static inline const struct pack_launch *bind_launch(const struct bind *b, const struct pack_variant *v, uint32_t i)
{
	return &b->file->launches[v->launches.first + i];
}

static inline const struct pack_karg *bind_karg(const struct bind *b, const struct pack_launch *l, uint32_t i)
{
	return &b->file->kargs[l->kargs.first + i];
}

static inline const char *bind_param_name(const struct bind *b, int param)
{
	return pack_string(b->file, b->kernel->params[param].name);
}
#endif
