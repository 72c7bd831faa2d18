/* core.h -- what the files of tdsl._core share: what other libraries fixed, a kernel, a call.  Private to python/. */
#ifndef TDSL_PYTHON_CORE_H
#define TDSL_PYTHON_CORE_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <stdbool.h>

#include "../runtime/include/tdsl.h"

#pragma GCC visibility push(hidden)
enum { MAX_PARAM = 32, MAX_RANK = 8, MAX_NDIM = 12, MAX_KEY = 96, SPECS = 512 };

/* ---- what other libraries fixed */

/* PyArrayObject of numpy's binary interface. */
struct ndarray {
	PyObject_HEAD
	char *data;
	int nd;
	Py_ssize_t *dims, *strides;
	PyObject *base, *descr;
	int flags;
};
enum { ARRAY_C = 1, ARRAY_WRITEABLE = 0x400 };
enum { NUMPY_VERSION = 0, NUMPY_ARRAY = 2, NUMPY_NEW = 94 };
typedef PyObject *numpy_new(PyTypeObject *, PyObject *descr, int nd, Py_ssize_t const *dims, Py_ssize_t const *strides, void *data,
                            int flags, PyObject *obj);

/* DLPack 1.x. */
struct managed { uint32_t major, minor; void *context; void (*deleter)(struct managed *); uint64_t flags; DLTensor t; };
struct exchange {
	uint32_t major, minor;
	struct exchange *previous;
	int (*allocate)(DLTensor *prototype, struct managed **out, void *context, void (*error)(void *, const char *, const char *));
	int (*from_object)(void *object, struct managed **out);
	int (*to_object)(struct managed *, void **object);
	int (*read)(void *object, DLTensor *out);
	int (*stream)(DLDeviceType, int32_t id, void **out);
};

/* ---- state of the module */

struct runtime {
	int (*call)(tdsl_kernel, tdsl_stream, const union tdsl_arg *, int, void *, int64_t);
	int (*output)(DLDataType *, int64_t *, tdsl_kernel, tdsl_stream, const union tdsl_arg *, int, int);
	int (*device)(tdsl_device *);
	int (*query)(struct tdsl_device_info *, tdsl_device);
	int64_t (*workspace)(tdsl_kernel, tdsl_stream, const union tdsl_arg *, int);
};
struct dtype { PyObject *descr; DLDataType dl; int size; };
extern struct runtime rt;
extern PyTypeObject *array_type;              /* numpy.ndarray; NULL: this numpy is not known, nothing is warm */
extern numpy_new *array_new;

struct param { PyObject *name; bool tensor, input, output, optional, has_default; char letter; double value; };

/* The outputs that inputs of these types and shapes have. */
struct spec {
	uint32_t words;
	uint64_t key[MAX_KEY];
	struct { const struct dtype *dtype; DLDataType dl; int rank; int64_t shape[MAX_RANK]; } out[MAX_PARAM];
};

struct kernel {
	PyObject_HEAD
	PyObject *(*vector)(PyObject *self, PyObject *const *args, size_t flags, PyObject *names);
	tdsl_kernel k;
	int n, ntakes;
	uint8_t takes[MAX_PARAM];
	struct param p[MAX_PARAM];
	struct spec *specs[SPECS];
	bool workspace;                        /* some variants need one */
};

/* One call: what was given, and what the runtime sees of it. */
struct call {
	struct kernel *k;
	PyObject *values[MAX_PARAM];           /* borrowed; outputs made here: owned */
	DLTensor t[MAX_PARAM];
	int64_t strides[MAX_PARAM][MAX_NDIM];
	int64_t shapes[MAX_PARAM][MAX_RANK];   /* of outputs made here */
	union tdsl_arg args[MAX_PARAM];
	uint32_t made;                         /* outputs that this call owns */
	bool arrays;                           /* some are numpy's */
	const struct exchange *api;            /* of the first foreign tensor */
	DLDevice lies;                         /* and where it is */
	const struct place *place;             /* device=, else NULL */
	tdsl_device device;
	tdsl_stream stream;
};

bool call_tensor(struct call *, int i);                /* reads what was given for parameter i; false: the longer way */
const struct dtype *dtype_named(DLDataType);           /* numpy's type that kernels know; NULL */
bool call_outputs(struct call *);                      /* makes those that were not given; false: the longer way */
/* Workspace of the library whose tensors lie on a GPU, to be freed by its deleter; *at: aligned.  NULL: the longer way. */
struct managed *call_room(const struct call *, int64_t bytes, void **at);
PyObject *call_results(struct call *);                 /* one output, or a tuple of all that are there */
#pragma GCC visibility pop
#endif
