/* tdsl.h -- the runtime: kernel packs, devices, streams, calls.  This header is the manual, simple things first.
 *
 *     tdsl_device dev;                                     #include "kernels.h"      (made by tdslc --header)
 *     tdsl_open(&dev, "hip:0");                            "sim:gfx942" runs without a GPU
 *     tdsl_pack_add("kernels.tpack");
 *     if (rmsnorm_quant(NULL, &x, &w, 1e-6f, &y, &scale))  NULL stream = the default device
 *             fprintf(stderr, "%s\n", tdsl_error());
 *
 * Returns: 0 (or a count, where said) on success; a negative TDSL_E* otherwise, with the text in tdsl_error(): which argument
 * or place, what was found, what was expected.  Out-parameters come first and are written on success only.  Every close and
 * free accepts NULL.  Strings and structures returned belong to the library and live as long as the object they describe.
 *
 * Threads: every function may be called from any thread.  Closing something that another thread is using is the caller's
 * mistake.  Using something after it was closed is refused: a device by every function (TDSL_EDEVICE), also through a stream on it; a
 * pack and its kernels (TDSL_EINVAL) by all but tdsl_call, tdsl_workspace and the bindings, which do not check, to be fast.  The library
 * prints nothing unless TDSL_LOG asks for it, never exits, and leaves the caller's current HIP device or CUDA context as it was.
 * Fork: a child goes on with packs, kernels, bindings, compiling, and simulated and null devices with their lists, whatever other
 * threads of the parent were doing, except calls on a simulated device: fork between those.  A fork waits until no kernel is being
 * compiled (less than a second).  Devices of drivers (hip, cuda) do not survive it: the child's functions refuse those that the
 * parent opened, and others of that driver (TDSL_EDEVICE).  If the parent opened none of a driver, the child may open its own.
 * docs/environment.md lists the environment variables; a value outside that table is an error (TDSL_EINVAL). */
#ifndef TDSL_H
#define TDSL_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TDSL_VERSION "0.1.0"
#define TDSL_API __attribute__((visibility("default")))

/* ---- tensors: DLPack's DLTensor ------------------------------------------------------------------------------------------
 * Declared here unless <dlpack/dlpack.h> was included before.  `shape` and `strides` count elements (of e2m1 too); strides
 * NULL = compact, row major.  Strides are honoured, nothing is copied.  Type codes are those of DLPack 1.1. */
#if !defined(DLPACK_DLPACK_H_) && !defined(DLPACK_VERSION)
#define DLPACK_DLPACK_H_
typedef enum {
	kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLROCM = 10, kDLROCMHost = 11, kDLCUDAManaged = 13
} DLDeviceType;
typedef struct { DLDeviceType device_type; int32_t device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
	void *data;
	DLDevice device;
	int32_t ndim;
	DLDataType dtype;
	int64_t *shape;
	int64_t *strides;
	uint64_t byte_offset;
} DLTensor;
#endif
enum {
	TDSL_DL_INT = 0, TDSL_DL_UINT = 1, TDSL_DL_FLOAT = 2, TDSL_DL_BFLOAT = 4, TDSL_DL_BOOL = 6, TDSL_DL_E4M3FN = 10,
	TDSL_DL_E4M3FNUZ = 11, TDSL_DL_E5M2 = 12, TDSL_DL_E5M2FNUZ = 13, TDSL_DL_E8M0FNU = 14, TDSL_DL_E2M1FN = 17
};

/* ---- errors -------------------------------------------------------------------------------------------------------------- */
enum {
	TDSL_OK = 0,
	TDSL_EINVAL = -1,      /* an argument that makes no sense: NULL, a negative size, a wrong argument count */
	TDSL_EDTYPE = -2,      /* no instance of the kernel takes this element type, or this combination */
	TDSL_ESHAPE = -3,      /* rank or extent; negative or overflowing size; a `require` line that does not hold */
	TDSL_ESTRIDE = -4,     /* strides that the kernel cannot follow */
	TDSL_EALIGN = -5,      /* a base address that is not a multiple of the element's size */
	TDSL_EOVERLAP = -6,    /* an output shares memory with another argument, or with itself */
	TDSL_EDEVICE = -7,     /* no such device, none open, or a tensor that lives elsewhere */
	TDSL_ENOTFOUND = -8,   /* no kernel of this name */
	TDSL_ETARGET = -9,     /* the pack holds no code for this device */
	TDSL_EPACK = -10,      /* not a pack, or truncated or altered; the text has the offset */
	TDSL_EVERSION = -11,   /* a pack of another format */
	TDSL_EIO = -12,        /* a file could not be read or written */
	TDSL_ENOMEM = -13,
	TDSL_EWORKSPACE = -14, /* workspace missing, too small or misaligned */
	TDSL_ELAUNCH = -15,    /* the driver, or the simulated device, refused or failed; outputs may be written in part.  Also of memory functions, after a kernel failed */
	TDSL_ECOMPILE = -16,   /* the text has errors; tdsl_error() has the first, tdsl_compile's messages all */
	TDSL_EUNSUPPORTED = -17 /* not built in, e.g. no compiler beside the runtime */
};
/* Text of this thread's last negative return; "" if there was none. */
TDSL_API const char *tdsl_error(void);
/* "TDSL_ESHAPE"; "TDSL_E?" for other values. */
TDSL_API const char *tdsl_error_name(int code);

/* ---- devices and streams -------------------------------------------------------------------------------------------------
 *   hip:N         AMD GPU number N, by libamdhip64 (HIP 5, 6 or 7; one already in the process is used)
 *   cuda:N        NVIDIA GPU number N of compute capability 9.0, by libcuda.so.1 (one already in the process is used); the context is
 *                 the primary one, so that memory, streams, events and graphs are shared with torch and the CUDA runtime
 *   sim:gfx942    simulated MI300X; sim:gfx950: MI355X.  Host tensors (kDLCPU) are used in place; calls are synchronous
 *   null:gfx942   does nothing (and null:gfx950, null:sm_90a): for measuring host cost.  Memory functions work on host memory
 * Where ROCm's own emulator stands in for the driver library, hip:N runs on it unchanged.  TDSL_HIP_LIBRARY, TDSL_CUDA_LIBRARY
 * and TDSL_SIM_LIBRARY name the libraries outright.  A fault leaves a device failing until it is closed and opened again (a real one: for good).
 * Opening a device again gives the same handle; each open needs its close.  The first device opened by tdsl_open is the
 * process's default (what a NULL stream means) until it is closed or tdsl_set_default names another.  With none open a NULL
 * stream opens TDSL_DEVICE; without that variable hip:0, else cuda:0; and fails if there is no GPU: never a silent simulator. */
typedef struct tdsl_device_s *tdsl_device;
typedef struct tdsl_stream_s *tdsl_stream;

TDSL_API int tdsl_open(tdsl_device *dev, const char *name);
TDSL_API void tdsl_close(tdsl_device);
TDSL_API int tdsl_set_default(tdsl_device);
/* The default device, opened by the rules above; not to be closed. */
TDSL_API int tdsl_default(tdsl_device *dev);

/* A stream says where a call runs: a device and the driver's stream on it (hipStream_t, CUstream; NULL = its default stream). */
TDSL_API int tdsl_stream_open(tdsl_stream *stream, tdsl_device, void *native);
TDSL_API void tdsl_stream_close(tdsl_stream);
/* Waits for the stream's work; errors of earlier launches show here. */
TDSL_API int tdsl_sync(tdsl_stream);

struct tdsl_device_info {
	const char *name;    /* "hip:0" */
	const char *kind;    /* "hip", "cuda", "sim", "null" */
	const char *target;  /* "gfx942", "sm_90a" */
	const char *library; /* the driver loaded, e.g. "libamdhip64.so.6"; "" for null */
	DLDevice dl;         /* what tensors in this device's memory carry */
};
TDSL_API int tdsl_device_query(struct tdsl_device_info *info, tdsl_device);

/* Device memory; dev NULL = the default device.  Copies are complete on return. */
TDSL_API int tdsl_alloc(void **ptr, tdsl_device dev, int64_t bytes);
TDSL_API int tdsl_free(tdsl_device dev, void *ptr);
TDSL_API int tdsl_upload(tdsl_device dev, void *device_dst, const void *host_src, int64_t bytes);
TDSL_API int tdsl_download(tdsl_device dev, void *host_dst, const void *device_src, int64_t bytes);

/* ---- lists of tensors ----------------------------------------------------------------------------------------------------
 * A parameter `x: list T[K, N]` takes K separate tensors of any lengths, N elements in all, as one argument.  A list is opened once
 * and passed to any number of calls, in any order of streams: the tensor that stands for it has a table of their addresses on the device.
 * The tensors are contiguous, of one type, on one device, and outlive the list.  Lists that a kernel declares with the same extents
 * have tensors of the same lengths, one by one.  Calls do not compare the memory of a list's tensors with that of other arguments.
 * n = 0 is a list of no tensors; an entry without elements may have NULL data. */
enum { TDSL_LIST = 255 };                    /* dtype.lanes of a list's tensor */
typedef struct tdsl_list_s *tdsl_list;
/* dev NULL = the default device.  The table is uploaded before this returns. */
TDSL_API int tdsl_list_open(tdsl_list *list, tdsl_device dev, DLDataType dtype, const DLTensor *const *tensors, int64_t n);
/* What a call takes for it; lives as long as the list. */
TDSL_API const DLTensor *tdsl_list_tensor(tdsl_list);
TDSL_API void tdsl_list_close(tdsl_list);

/* ---- packs and kernels --------------------------------------------------------------------------------------------------- */
typedef struct tdsl_pack_s *tdsl_pack;
typedef struct tdsl_kernel_s *tdsl_kernel;

TDSL_API int tdsl_pack_open(tdsl_pack *pack, const char *path);
/* The bytes are not copied and must outlive the pack. */
TDSL_API int tdsl_pack_open_memory(tdsl_pack *pack, const void *bytes, size_t size);
/* Its kernels end with it, and their code leaves every device: graphs into which calls of them were captured have its address, and may not run any
 * more. */
TDSL_API void tdsl_pack_close(tdsl_pack);
/* Unpacks dictionary, reports and every code object and checks them (opening checks everything else). */
TDSL_API int tdsl_pack_verify(tdsl_pack);
TDSL_API int tdsl_kernel_find(tdsl_kernel *kernel, tdsl_pack, const char *name);

/* One argument.  Tensors are read during the call only. */
union tdsl_arg { const DLTensor *t; double f; int64_t i; };

/* Calls a kernel: args in the order of its signature (inputs, scalars, outputs); tensors in .t (NULL = absent, if optional),
 * f32 scalars in .f (a finite number that f32 cannot hold is TDSL_EINVAL), i32 and i64 scalars in .i.  Extents are at most 2^31 - 65537, so that the
 * positions of a loop's last chunk have 32 bits, and a grid is what the device takes (TDSL_ESHAPE).  The instance follows from the tensors' types, the variant from shapes,
 * strides and alignment.  A tensor with more dimensions than its formal folds the leading ones into the formal's first: x[M, N]
 * takes [B, S, N].  If the leading dimensions do not fold into one stride, two are supported for
 * rank-1 and rank-2 tensors whose first extent is taken row by row (`each m in M`) in every phase that uses them, in kernels without dot.
 * Rows that are `tiled` or `by` a number, transposed outputs and tensors of rank 3 have one stride (docs/support.md lists kernel by kernel);
 * all tensors that are given with two have the same [B, S].  Other strides are TDSL_ESTRIDE, and so are those too large for a kernel's 32-bit
 * offsets inside a tile.  Outputs may not share bytes with any other argument; interleaved views of one buffer whose bytes are disjoint are
 * accepted if their strides have a common period, and refused otherwise.
 * Nothing is written unless every check passed.  Workspace: NULL, 0 where the kernel needs none. */
TDSL_API int tdsl_call(tdsl_kernel, tdsl_stream, const union tdsl_arg *args, int nargs, void *workspace, int64_t workspace_bytes);
/* Bytes of workspace that this call needs (data pointers may be NULL), or a negative code: the call's own where it would be refused. */
TDSL_API int64_t tdsl_workspace(tdsl_kernel, tdsl_stream, const union tdsl_arg *args, int nargs);
/* Loads all of the kernel's code for the stream's device now, e.g. before a graph is captured. */
TDSL_API int tdsl_kernel_load(tdsl_kernel, tdsl_stream);

/* ---- generated functions --------------------------------------------------------------------------------------------------
 * A generated binding keeps one static tdsl_binding per kernel:
 *     static struct tdsl_binding b = { "rmsnorm_quant", "TTfTT", pack_bytes, sizeof pack_bytes, NULL };
 * signature: one letter per argument: T tensor, ? optional tensor, L list of tensors, f f32, d f64, i i32, l i64; a final W = takes workspace.
 * The kernel is looked up at its first call: in the packs added by tdsl_pack_add (latest first), then in the embedded bytes
 * (NULL = none), then in the files of TDSL_PACK_PATH (files and folders of *.tpack, separated by ':').
 * A kernel of the same name with another signature is an error. */
struct tdsl_binding { const char *name, *signature; const void *pack; size_t pack_size; tdsl_kernel kernel; };
TDSL_API int tdsl_binding_call(struct tdsl_binding *, tdsl_stream, const union tdsl_arg *args, int nargs,
                               void *workspace, int64_t workspace_bytes);
TDSL_API int64_t tdsl_binding_workspace(struct tdsl_binding *, tdsl_stream, const union tdsl_arg *args, int nargs);
/* Adds a pack for bindings, process-wide and for good. */
TDSL_API int tdsl_pack_add(const char *path);
TDSL_API int tdsl_pack_add_memory(const void *bytes, size_t size);

/* ---- compiling in process --------------------------------------------------------------------------------------------------
 * Needs libtdslc.so: beside libtdsl_rt.so, or named by TDSL_COMPILER, or on the loader's path; TDSL_JIT=0 forbids it.
 * Results are kept in TDSL_CACHE_DIR, else $XDG_CACHE_HOME/tdsl, else ~/.cache/tdsl; TDSL_CACHE_DIR="" turns the cache off.  However many
 * threads and processes ask for the same at once, one compiles.  Where the folder cannot be used, or there is none, results stay in memory and one warning
 * is told, by tdsl_compile_messages and TDSL_LOG=warn.  While a stream is captured into a graph compiling is refused. */
struct tdsl_compile_options {
	const char *const *targets;   /* NULL-terminated; NULL = the default device's target */
	const char *const *kernels;   /* NULL-terminated names; NULL = all */
	const char *const *instances; /* NULL-terminated "T=bf16,Q=fp8"; NULL = those of the pack block */
	int jobs;                     /* threads, at most 1024; 0 = TDSL_JOBS, else as many as processors and memory allow */
	const char *library_path;     /* folder of the language's library; NULL = the one built in */
};
/* Compiles `text` (n bytes; `file` names it in messages).  options may be NULL; targets that do not exist, a library_path that is no folder and jobs
 * out of range are TDSL_EINVAL. */
TDSL_API int tdsl_compile(tdsl_pack *pack, const char *text, size_t n, const char *file, const struct tdsl_compile_options *options);
/* All diagnostics of this thread's last compile (by tdsl_compile, the warm-up list or a call), warnings too; "" if none, if it came
 * from the cache or if it failed before the compiler ran. */
TDSL_API const char *tdsl_compile_messages(void);

/* A call whose element types no variant of the pack takes is served by compiling the text that the pack carries, once; TDSL_JIT=0
 * refuses it by name.  A call that the pack can serve never compiles; if a more specific variant is already compiled, it uses that.
 * The warm-up list compiles such kernels ahead, in parallel: */
struct tdsl_warm {
	tdsl_pack pack;                           /* whose text; or NULL and: */
	const char *text; size_t n; const char *file;
	const char *kernel, *instance;            /* instance NULL = the instances in the pack block; a kernel with several possible instances must be listed there */
	const char *target;                       /* NULL = the default device's */
	/* The optional tensors that calls will bring, "w res_out": code specialised for exactly those is made beside what the pack block names; "" = none
	 * of them; NULL = as the pack block has it.  Calls otherwise served by pack code that tests for each optional tensor use this code too. */
	const char *given;
};
/* Returns how many are ready (n), or the error of the first that failed; the others are compiled all the same. */
TDSL_API int tdsl_warm_up(const struct tdsl_warm *items, int n, int jobs);
/* The text that a pack carries, "" for none. */
TDSL_API const char *tdsl_pack_source(tdsl_pack);

/* ---- what is in a pack ------------------------------------------------------------------------------------------------------ */
struct tdsl_pack_info { int nkernels, ntargets; const char *const *targets; const char *tdsl_version, *llvm_version, *options, *licence; };
struct tdsl_kernel_info { const char *name, *doc, *signature; int nparams, ninstances, nvariants, has_workspace; };
struct tdsl_param_info {
	const char *name;
	int is_tensor, is_input, is_output, is_optional; /* inout: both */
	int rank;                                        /* tensors */
	const char *extents;                             /* "M, N": text of the formal extents */
	int has_default; double default_value;           /* scalars */
};
struct tdsl_instance_info { const char *name; };
struct tdsl_variant_info { int instance; const char *target, *predicate; int nlaunches; const char *report_json; };

TDSL_API int tdsl_pack_query(struct tdsl_pack_info *, tdsl_pack);
TDSL_API int tdsl_pack_kernel(tdsl_kernel *kernel, tdsl_pack, int index);
TDSL_API int tdsl_kernel_query(struct tdsl_kernel_info *, tdsl_kernel);
TDSL_API int tdsl_kernel_param(struct tdsl_param_info *, tdsl_kernel, int index);
TDSL_API int tdsl_kernel_instance(struct tdsl_instance_info *, tdsl_kernel, int index);
/* Element type of a parameter in an instance ("bf16"; "fp8", "bf8" where the target decides: then *dl is that of `target`); TDSL_EINVAL for a target that does not exist. */
TDSL_API int tdsl_kernel_dtype(const char **name, DLDataType *dl, tdsl_kernel, int instance, int param, const char *target);
/* The pack's reports are unpacked for the first of these; TDSL_EPACK where they were altered. */
TDSL_API int tdsl_kernel_variant(struct tdsl_variant_info *, tdsl_kernel, int index);
/* The element type and extents that tensor parameter `param` must have beside the arguments given (outputs may be NULL: the
 * first instance that the inputs allow decides).  Returns the rank. */
TDSL_API int tdsl_output(DLDataType *dtype, int64_t shape[8], tdsl_kernel, tdsl_stream, const union tdsl_arg *args, int nargs, int param);

/* What this thread's last successful tdsl_call ran: for tests and tools.  TDSL_EINVAL where there was none, or its pack was closed. */
struct tdsl_last { const char *kernel, *instance, *predicate, *target; int variant, launches, remembered; };
TDSL_API int tdsl_last_call(struct tdsl_last *);
/* Successful calls that ran this variant, by all threads since the pack was opened. */
TDSL_API int tdsl_kernel_calls(uint64_t *calls, tdsl_kernel, int variant);
/* Process-wide.  plans: choices of a variant made (a shape's first call on a thread); jit_kernels: calls that needed a kernel compiled. */
struct tdsl_counters { uint64_t plans, compiles, cache_hits, cache_misses, jit_kernels; };
TDSL_API int tdsl_counters(struct tdsl_counters *);
/* Which variant this call would run and why not the others, a line each; NULL with tdsl_error() set where the call is refused.  The
 * text is this thread's until it asks again.  TDSL_LOG=info tells of every choice as it is made, TDSL_LOG=debug gives these lines. */
TDSL_API const char *tdsl_explain(tdsl_kernel, tdsl_stream, const union tdsl_arg *args, int nargs);

#ifdef __cplusplus
}
#endif
#endif
