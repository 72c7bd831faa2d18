/* kernel.h -- a kernel as the call path sees it, and the two halves of that path.
 *
 * bind.c does everything a call's shapes decide: checks, symbols, instance, variant, kernel arguments; its result is a plan.
 * call.c keeps plans per thread, keyed by everything that bind.c looked at except addresses and scalars, and runs them. */
#ifndef TDSL_RT_KERNEL_H
#define TDSL_RT_KERNEL_H
#include "device.h"
#include "pack.h"

struct tdsl_kernel_s {
	uint64_t serial;
	tdsl_pack pack;
	const struct pack_kernel *k;
	const struct pack_param *params;   /* k->params.count of them */
	int nparams;
	bool extents_only;                 /* compiled to be asked for its outputs' extents (jit.c): its instances have no code */
	uint32_t tensors, outputs;         /* bit masks over parameters; outputs: out and inout */
	char signature[MODEL_MAX_PARAM + 4];
	const char **extents;              /* kernel_extents; NULL until one is asked for */
	_Atomic uint64_t *calls;           /* of each variant, and of calls that had nothing to do */
	_Atomic uint64_t told;             /* digest of the value of TDSL_DISABLE whose unknown variants were told */
};

struct tdsl_pack_s {
	tdsl_pack next;                    /* of the open ones */
	struct pack_file *file;
	uint64_t serial;
	struct tdsl_kernel_s *kernels;
	const char **targets; int ntargets;
	pthread_mutex_t lock;              /* held while the arena grows */
	struct arena arena;                /* texts of extents */
};

/* What is patched into a launch's argument block at each call. */
enum patch_kind { PATCH_POINTER, PATCH_F32, PATCH_F64, PATCH_I32, PATCH_I64, PATCH_WORKSPACE };
struct plan_patch { uint8_t kind, param; uint16_t offset; };

struct plan_launch {
	void *function;
	const char *symbol;
	struct launch_shape shape;
	uint32_t kernarg;                  /* where its block lies in the plan's */
	uint32_t patch, npatch;
};

/* Bytes of one tensor, for overlap: it lies in [address, address + span); where outer strides exist, in `inner` bytes of every
 * `period` (0 = contiguous).  list: not 0 for a list's table: bytes of one of its tensors' elements. */
struct plan_tensor { uint64_t span; uint64_t inner, period; bool host; uint8_t list; };

/* What a call leaves for tdsl_last_call; `pack` is the serial of the one that its texts lie in. */
struct plan_last { struct tdsl_last is; uint64_t pack; };

enum { KEY_WORDS = 256 };

struct plan {
	uint64_t hash; uint32_t key_words;
	uint64_t workspace;
	uint32_t nlaunches;
	uint32_t narrow, single;           /* masks of the scalars passed as i32, as f32 */
	struct plan_last last;
	_Atomic uint64_t *calls;
	struct plan_tensor *tensors;       /* one for each parameter */
	struct plan_launch *launches;
	struct plan_patch *patches;
	uint8_t *kernargs;
	uint32_t *offsets;                 /* of arguments in their launch's block */
	uint64_t *key;                     /* all six inside the plan's own block */
};

/* Checks arguments against the kernel and the device and builds the plan for them (free() it).  `key` is stored in it. */
int plan_make(struct plan **, tdsl_kernel, tdsl_stream, const union tdsl_arg *args, const uint64_t *key, uint32_t key_words);
/* Bytes of workspace that these arguments need; data pointers may be NULL. */
int64_t plan_workspace(tdsl_kernel, tdsl_stream, const union tdsl_arg *args);
/* As tdsl_output. */
int plan_output(DLDataType *, int64_t shape[8], tdsl_kernel, tdsl_stream, const union tdsl_arg *args, int param);

/* Opens nothing: wraps a reader's pack (taken over, also on failure) with its kernels. */
int pack_wrap(tdsl_pack *, struct pack_file *);
/* 0, or TDSL_EINVAL of function `where` for a handle that is NULL or whose pack was closed.  Not for the path of every call: they take a lock. */
int pack_check(tdsl_pack, const char *where);
int kernel_check(tdsl_kernel, const char *where);
/* Is the pack of this number open? */
bool pack_is_open(uint64_t serial);
/* Has an open pack a kernel of this name (n letters)? */
bool packs_have(const char *name, size_t n);
/* "M, N": the extents of a tensor parameter; lives as long as the pack. */
const char *kernel_extents(tdsl_kernel, int param);
/* Sets the error for a reader's status. */
int pack_fail(int status, const char *text);

/* The device function of a launch, its code object loaded if it was not; *need: what each launch must give (device.h). */
int kernel_function(void **function, struct launch_need *need, tdsl_kernel, tdsl_device, uint32_t object, const struct pack_launch *);
#endif
