/* libtdslc.h -- the compiler as a library: text in, pack bytes out.  The runtime finds it by dlopen("libtdslc.so") for JIT.
 * Thread safe: calls share LLVM's one-time start, one lock around the linker and a few idle compile sessions. */
#ifndef TDSL_LIBTDSLC_H
#define TDSL_LIBTDSLC_H
#include <stddef.h>
#include <stdint.h>

#define TDSLC_ABI 3
#define TDSLC_API __attribute__((visibility("default")))

struct tdslc_options {
	uint32_t abi;                    /* TDSLC_ABI */
	const char *const *targets;      /* NULL-terminated: "gfx942", "gfx950", "sm_90a" */
	const char *const *kernels;      /* NULL-terminated names, or NULL = all */
	const char *const *instances;    /* NULL-terminated "T=bf16,Q=fp8", or NULL = those of the pack block (all, where it names none) */
	int jobs;                        /* threads; 0 = one per core */
	const char *library_path;        /* folder of lib/ *.tdsl; NULL = the library built in */
	/* NULL-terminated texts of predicates, "N=4096 aligned with w": those alone, of the sets of tensors that they name as well as of the pack
	 * lines'; or NULL = all */
	const char *const *variants;
	const char *given;               /* names of optional tensors, "w res": variants for exactly these besides; or NULL */
	int given_alone;                 /* 1: no others */
};

/* Compiles `text` (n bytes; `file` names it in messages).  0 and *pack (malloc'ed) or a negative code and *messages
 * (malloc'ed diagnostics text, one per line with carets; also set for warnings on success, else NULL). */
TDSLC_API int tdslc_compile(const char *text, size_t n, const char *file, const struct tdslc_options *,
                  void **pack, size_t *pack_size, char **messages);
/* A call: DLPack code and bits of each parameter of the kernel (code 255 where it is not known), values of its symbols in their order
 * (NULL = not known), and what host expressions ask of its tensors (op: enum hexpr_op). */
struct tdslc_types {
	uint32_t abi;
	const char *kernel, *target;
	int nparams; const uint8_t (*types)[2];
	int nsymbols; const int64_t *symbols;
	int64_t (*leaf)(void *ctx, int op, int64_t imm); void *ctx;
};
/* The name of the first instance of the text's kernel that takes these types, and of its first variant whose predicate holds, of those for exactly
 * the optional tensors that the call has as well, whatever the pack lines say ("" where symbols are not known): 0, *instance and *variant, or -1 and *messages (all malloc'ed). */
TDSLC_API int tdslc_instance(const char *text, size_t n, const char *file, const struct tdslc_types *, char **instance, char **variant, char **messages);
/* Text that identifies the compiler build and LLVM, for cache keys. */
TDSLC_API const char *tdslc_identity(void);
TDSLC_API void tdslc_free(void *);
#endif
