/* model.h -- what a kernel pack says, as plain structures: written by the compiler, stored by the pack writer, read by the
 * runtime.  The pack's bytes are described in docs/pack.md; this header is the meaning.
 *
 *   pack -> kernels -> instances (one choice of dtypes each)
 *                   -> variants (instance x target, most specific first; the last one asks at most for strides that 32-bit offsets
 *                      inside a tile can follow)
 *                        -> launches (phases, in order) -> a device symbol, a grid, the argument block */
#ifndef TDSL_MODEL_H
#define TDSL_MODEL_H
#include "dtype.h"
#include "hexpr.h"

enum { MODEL_MAX_RANK = 6, MODEL_MAX_PARAM = 32, MODEL_MAX_SYMBOL = 32 };

/* A named extent.  It is solved from dimension `dim` of tensor parameter `tensor`: extent = mul * symbol + add (inputs are
 * preferred over outputs, plain occurrences over scaled ones).  Every extent is then checked against its expression. */
struct model_symbol { const char *name; int tensor, dim; int64_t mul, add; };

enum model_role { ROLE_IN, ROLE_OUT, ROLE_INOUT };

struct model_param {
	const char *name;
	bool is_tensor;
	enum model_role role;
	bool optional;                       /* tensors only: NULL allowed */
	bool list;                           /* K tensors of N elements in all, extents K, N: the pointer is that of tdsl_list_open's table */
	int rank;                            /* tensors */
	const struct hexpr *extent[MODEL_MAX_RANK];
	bool has_default; double default_value; /* scalars */
};

/* One choice of the dtype parameters.  dtype[p] is the element type of tensor p or the type of scalar p (f32, i32, i64).
 * `fp8` is resolved per target: dtype holds DT_E4M3 and fp8_native[p] says that a variant's target decides its flavour. */
struct model_instance {
	const char *name;                    /* "T=bf16,Q=fp8"; "" for a kernel without dtype parameters */
	enum dtype dtype[MODEL_MAX_PARAM];
	uint8_t native[MODEL_MAX_PARAM];     /* 0 exact; 8: `fp8`, 9: `bf8` = the target's native e4m3 / e5m2 */
};

/* The kernel-argument block: entries in order of offset, little endian. */
enum model_karg_kind {
	KA_POINTER,       /* a = parameter; 8 bytes; 0 if absent */
	KA_STRIDE,        /* a = parameter, b = dim; i64 elements */
	KA_STRIDE32,      /* the same as i32 (the variant's predicate or the runtime's range check makes it fit) */
	KA_SYMBOL,        /* a = symbol; i32 */
	KA_SCALAR,        /* a = parameter; 4 or 8 bytes as its type */
	KA_FOLD_INNER,    /* i32: rows = outer * inner + r for tensors whose two leading dimensions do not fold into one stride; one for all
	                   * tensors of a call; 1 where all are flat */
	KA_FOLD_STRIDE,   /* a = parameter; i64: stride of the outer of the two, in elements (flat: inner * stride); KA_STRIDE dim 0 is the other's */
	KA_WORKSPACE,     /* 8 bytes: the workspace's base */
	KA_EXPR,          /* i32 value of a host expression: index b of the launch's exprs; a = which number it is to the compiler */
};
struct model_karg { uint8_t kind, a, b, size; uint16_t offset; };

struct model_launch {
	const char *symbol;                  /* device function */
	int block;                           /* lanes in a workgroup (1-D), at most */
	const struct hexpr *lanes;           /* as many of them as a call needs; NULL = all */
	bool overlaps;                       /* the code itself waits until what was launched before it is done: it may be started earlier */
	bool together;                       /* workgroups of a cluster start together: a device may have no place for so many of them */
	bool meets;                          /* all workgroups wait for each other: they run at a time, or not at all where a device has no room for so many */
	const struct hexpr *grid[3];         /* workgroups; any 0 = nothing to launch */
	struct model_karg *kargs; int nkargs;
	int kernarg_bytes;
	const struct hexpr *const *exprs; int nexprs;
	/* read from the object */
	int vgpr, agpr, sgpr, lds, scratch, spills, instructions, barriers;
};

struct model_variant {
	int instance;                        /* index in its kernel */
	const char *target;                  /* "gfx942" */
	const struct hexpr *predicate;       /* NULL = always */
	const char *predicate_text;          /* "N=4096 aligned", "any" */
	const struct hexpr *workspace;       /* bytes; NULL = none */
	struct model_launch *launches; int nlaunches;
	int object;                          /* index of its code object in the pack */
	const char *report_json;             /* the rest of `tdslc report` for this variant: a JSON object, or NULL */
	double compile_ms;                   /* not stored in a pack (packs are reproducible); 0 when read back */
};

struct model_kernel {
	const char *name, *doc;              /* doc: the comment lines above the kernel, without '#' */
	struct model_param *params; int nparams;   /* inputs, scalars, outputs: the order of the C function */
	struct model_symbol *symbols; int nsymbols;
	struct model_require { const struct hexpr *expr; const char *text; } *requires; int nrequires;
	struct model_instance *instances; int ninstances;
	struct model_variant *variants; int nvariants;
	bool has_workspace;                  /* a variant, of the pack or compiled at a call, may need one: the C function takes it */
	bool pointwise; int rows, columns;   /* symbols: tensors [rows, columns] may be given as others of as many elements (runtime/join.c) */
};

struct model_object { const char *target; const uint8_t *bytes; uint64_t size; };

struct model_pack {
	struct model_kernel *kernels; int nkernels;
	struct model_object *objects; int nobjects;
	const char *tdsl_version, *llvm_version, *options, *licence;
	const char *fp8;                     /* what `fp8` and `bf8` are on each target: "gfx942: e4m3fnuz e5m2fnuz" */
	const char *source, *source_name;    /* the text that it was made from, and the last part of its name; "" = not carried */
	uint64_t source_hash[2];             /* XXH3 128 of the canonical text */
	const uint8_t *dictionary; size_t dictionary_size;   /* zstd's, which the objects are compressed with; size 0 = none */
	int compression;                     /* zstd level for the objects; 0 = the writer's own, for packs that are kept */
};

/* Native 8-bit float of a target, e.g. ("gfx942", 8) -> DT_E4M3FNUZ; DT_NONE for an unknown target. */
enum dtype model_native(const char *target, int native);
/* "bf16", or "fp8", "bf8" where the target decides. */
const char *model_type_name(const struct model_instance *, int param);
/* Formal extents of a tensor parameter, in the arena: "M, N". */
char *model_extents(struct arena *, const struct model_kernel *, int param);
#endif
