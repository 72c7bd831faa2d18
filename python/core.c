/* core.c -- the warm path of a Python call: tdsl._core, a module of Python's stable interface (abi3, Python 3.9 and later).
 *
 * In: positional and named arguments that are numpy arrays, numbers, open devices, or tensors of a library that offers DLPack's exchange
 * functions (torch 2.10 and later).  Out: the kernel's outputs, allocated here or as given; workspace too where tensors lie on a GPU.  Whatever
 * is unusual (copies to a GPU, workspace on the host, DLPack capsules, any mistake of the caller) goes to the method _slow of the Python class,
 * which knows every case and has the texts of the errors; the warm path is a shorter way to the same tdsl_call.
 *
 * Outputs of a foreign library that together are small share one allocation of that library, each a tensor of its own that keeps the
 * block: an allocation costs such a library more than the rest of the call, and what a kept output can hold on to stays small.
 *
 * Why C: ctypes alone takes longer for four tensors than the 2 us that a call may cost.  Why by hand: numpy's array structure and
 * the places of its functions are part of its binary interface since 1.x, so that neither numpy's headers nor a build tool are
 * needed.  libtdsl_rt.so is not linked: Python has loaded it and hands over the addresses of its functions. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/include/tdsl.h"

enum { SHARED_MOST = 256 << 10, SHARED_ALIGN = 256, ROOM_ALIGN = 16 };
enum { MAX_PLACE = 32, MAX_PARAM = 32, MAX_RANK = 8, MAX_NDIM = 12, MAX_KEY = 96, SPECS = 512, MAX_DTYPE = 64, MAX_STREAM = 64, FOREIGN = 8 };

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

static struct {
	int (*call)(tdsl_kernel, tdsl_stream, const union tdsl_arg *, int, void *, int64_t);
	int (*output)(DLDataType *, int64_t *, tdsl_kernel, tdsl_stream, const union tdsl_arg *, int, int);
	int (*device)(tdsl_device *);
	int (*query)(struct tdsl_device_info *, tdsl_device);
	int64_t (*workspace)(tdsl_kernel, tdsl_stream, const union tdsl_arg *, int);
} rt;
static PyObject *raise_error;          /* Python's function that raises tdsl.Error for a code */
static PyTypeObject *array_type;       /* numpy.ndarray; NULL: this numpy is not known, nothing is warm */
static numpy_new *array_new;
static struct dtype { PyObject *descr; DLDataType dl; int size; } dtypes[MAX_DTYPE];
static int ndtypes;
static struct { DLDevice device; void *native; tdsl_stream stream; } streams[MAX_STREAM];
static int nstreams;
static struct place { PyObject *name, *object; tdsl_device device; tdsl_stream stream; bool host; } places[MAX_PLACE];
static int nplaces;
static struct { tdsl_device device; bool host; } known; /* the default device last seen */
static struct { PyTypeObject *type; const struct exchange *api; } foreign[FOREIGN]; /* tensor types last seen */
static unsigned nforeign;

struct param { PyObject *name; bool tensor, input, output, optional, has_default; char letter; double value; };

/* The outputs that inputs of these types and shapes have. */
struct spec {
	uint32_t words;
	uint64_t key[MAX_KEY];
	struct { const struct dtype *dtype; DLDataType dl; int rank; int64_t shape[MAX_RANK]; } out[MAX_PARAM];
};

struct kernel {
	PyObject_HEAD
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

/* ---- arguments */

static const struct dtype *dtype_of(const PyObject *descr)
{
	for (int i = 0; i < ndtypes; i++)
		if (dtypes[i].descr == descr)
			return &dtypes[i];
	return NULL;
}

static const struct dtype *dtype_named(DLDataType dl)
{
	for (int i = 0; i < ndtypes; i++)
		if (dtypes[i].dl.code == dl.code && dtypes[i].dl.bits == dl.bits && dl.lanes == 1)
			return &dtypes[i];
	return NULL;
}

static bool array_read(struct call *c, int i, const struct ndarray *a)
{
	const struct dtype *d = dtype_of(a->descr);
	DLTensor *t = &c->t[i];
	if (!d || a->nd > MAX_NDIM || (c->k->p[i].output && !(a->flags & ARRAY_WRITEABLE)))
		return false;
	c->arrays = true;
	*t = (DLTensor){.data = a->data, .device = {kDLCPU, 0}, .ndim = a->nd, .dtype = d->dl, .shape = (int64_t *)a->dims};
	if (a->flags & ARRAY_C)
		return true;
	t->strides = c->strides[i];
	for (int j = 0; j < a->nd; j++) {
		if (a->strides[j] % d->size)
			return false;
		c->strides[i][j] = a->strides[j] / d->size;
	}
	return true;
}

/* The exchange functions of an object's type; NULL where it has none. */
static const struct exchange *exchange_of(PyObject *value)
{
	PyTypeObject *type = Py_TYPE(value);
	for (int i = 0; i < FOREIGN; i++)
		if (foreign[i].type == type)
			return foreign[i].api;
	const struct exchange *api = NULL;
	PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
	if (capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
		api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
	PyErr_Clear();
	Py_XDECREF(capsule);
	while (api && api->major > 1)
		api = api->previous;
	if (api && !(api->allocate && api->to_object && api->read && api->stream))
		api = NULL;
	unsigned slot = nforeign++ % FOREIGN;
	PyTypeObject *before = foreign[slot].type;
	Py_INCREF((PyObject *)type); /* stays: its address must not be another type's later */
	foreign[slot].type = type;
	foreign[slot].api = api;
	Py_XDECREF((PyObject *)before);
	return api;
}

static bool tensor_read(struct call *c, int i)
{
	PyObject *value = c->values[i];
	if (Py_TYPE(value) == array_type) {
		if (!array_read(c, i, (const struct ndarray *)value))
			return false;
	} else {
		const struct exchange *api = exchange_of(value);
		if (!api || (c->api && c->api != api))
			return false;
		if (api->read(value, &c->t[i]) != 0) {
			PyErr_Clear();
			return false;
		}
		if (!c->api)
			c->lies = c->t[i].device;
		c->api = api;
	}
	c->args[i].t = &c->t[i];
	return true;
}

static bool scalar_read(struct call *c, int i)
{
	const struct param *p = &c->k->p[i];
	bool whole = p->letter == 'i' || p->letter == 'l';
	PyObject *value = c->values[i];
	if (!value) {
		if (whole)
			c->args[i].i = (int64_t)p->value;
		else
			c->args[i].f = p->value;
		return p->has_default;
	}
	if (whole)
		c->args[i].i = PyLong_AsLongLong(value);
	else
		c->args[i].f = PyFloat_AsDouble(value);
	if (PyErr_Occurred()) {
		PyErr_Clear();
		return false;
	}
	return true;
}

static int param_named(const struct kernel *k, PyObject *name)
{
	for (int i = 0; i < k->n; i++)
		if (k->p[i].name == name)
			return i;
	for (int i = 0; i < k->n; i++)
		if (PyUnicode_Compare(k->p[i].name, name) == 0)
			return i;
	return -1;
}

/* device=: a Device, or the name of one that is open. */
static bool place_named(struct call *c, PyObject *value)
{
	for (int i = 0; i < nplaces && !c->place; i++)
		if (places[i].object == value || (PyUnicode_Check(value) && PyUnicode_Compare(places[i].name, value) == 0))
			c->place = &places[i];
	return c->place != NULL;
}

/* out=: one tensor, or a tuple of them in the order of the outputs. */
static bool out_spread(struct call *c, PyObject *out)
{
	bool tuple = PyTuple_Check(out);
	Py_ssize_t n = tuple ? PyTuple_Size(out) : 1, at = 0;
	if (PyList_Check(out))
		return false;
	for (int i = 0; i < c->k->n && at < n; i++) {
		const struct param *p = &c->k->p[i];
		if (!p->tensor || !p->output || p->input)
			continue;
		PyObject *value = tuple ? PyTuple_GetItem(out, at) : out;
		at++;
		if (value == Py_None)
			continue;
		if (c->values[i])
			return false;
		c->values[i] = value;
	}
	return at == n;
}

/* The arguments of every call that are no parameters of this kernel. */
static bool control(struct call *c, PyObject *name, PyObject *value, PyObject **out)
{
	if (value == Py_None)
		return false;
	if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
		*out = value; /* spread when all names are known */
		return true;
	}
	return PyUnicode_CompareWithASCIIString(name, "device") == 0 && place_named(c, value);
}

/* Values by parameter; false for anything that is not plain. */
static bool call_bind(struct call *c, PyObject *args, PyObject *named)
{
	const struct kernel *k = c->k;
	Py_ssize_t n = PyTuple_Size(args), at = 0;
	PyObject *name, *value, *out = NULL;
	if (n > k->ntakes)
		return false;
	for (Py_ssize_t i = 0; i < n; i++)
		c->values[k->takes[i]] = PyTuple_GetItem(args, i);
	while (named && PyDict_Next(named, &at, &name, &value)) {
		int i = param_named(k, name);
		if (i < 0 ? !control(c, name, value, &out) : c->values[i] != NULL)
			return false;
		if (i >= 0)
			c->values[i] = value == Py_None ? NULL : value;
	}
	if (out && !out_spread(c, out))
		return false;
	for (int i = 0; i < k->n; i++) {
		const struct param *p = &k->p[i];
		if (c->values[i] == Py_None)
			c->values[i] = NULL;
		if (!p->tensor ? !scalar_read(c, i) : c->values[i] ? !tensor_read(c, i) : p->input && !p->optional)
			return false;
	}
	return true;
}

/* Where the call runs: the stream of a foreign tensor's library, or the default device if it works on host memory. */
static bool call_place(struct call *c)
{
	void *native = NULL;
	if (c->place && c->place->host) {
		c->device = c->place->device;
		c->stream = c->place->stream;
		return !c->api || c->lies.device_type == kDLCPU;
	}
	if (c->place)
		return false;
	if (rt.device(&c->device) < 0)
		return false;
	if (c->device != known.device) {
		struct tdsl_device_info info;
		if (rt.query(&info, c->device) < 0)
			return false;
		known.device = c->device;
		known.host = strcmp(info.kind, "sim") == 0 || strcmp(info.kind, "null") == 0;
	}
	if (!c->api || c->lies.device_type == kDLCPU)
		return known.host;
	if (c->arrays)
		return false; /* to be copied there */
	if (c->api->stream(c->lies.device_type, c->lies.device_id, &native) != 0) {
		PyErr_Clear();
		return false;
	}
	for (int i = 0; i < nstreams; i++)
		if (streams[i].native == native && streams[i].device.device_id == c->lies.device_id && streams[i].device.device_type == c->lies.device_type) {
			c->stream = streams[i].stream;
			return true;
		}
	return false; /* the slow path opens it */
}

/* ---- outputs */

static struct spec *spec_make(struct call *c, const uint64_t *key, uint32_t words)
{
	struct spec *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	memcpy(s->key, key, words * sizeof *key);
	s->words = words;
	for (int i = 0; i < c->k->n; i++) {
		const struct param *p = &c->k->p[i];
		if (!p->tensor || !p->output || p->input)
			continue;
		if (!c->values[i] && !p->optional) {
			s->out[i].rank = rt.output(&s->out[i].dl, s->out[i].shape, c->k->k, c->stream, c->args, c->k->n, i);
			s->out[i].dtype = dtype_named(s->out[i].dl);
		}
		if (s->out[i].rank < 0 || (!c->values[i] && !p->optional && !c->api && !s->out[i].dtype)) {
			free(s);
			return NULL;
		}
	}
	return s;
}

/* The outputs' types and shapes, remembered by the tensors given; NULL for the slow path. */
static const struct spec *spec_get(struct call *c)
{
	uint64_t key[MAX_KEY], hash = 0x9e3779b97f4a7c15u;
	uint32_t n = 0;
	key[n++] = (uint64_t)(uintptr_t)c->device;
	key[n++] = (uint64_t)(uintptr_t)c->stream;
	key[n++] = c->api != NULL;
	for (int i = 0; i < c->k->n; i++) {
		const DLTensor *t = c->args[i].t;
		if (!c->k->p[i].tensor)
			continue;
		if (!c->values[i]) {
			key[n++] = 0;
			continue;
		}
		if (t->ndim > MAX_NDIM || n + 2 + MAX_NDIM + MAX_PARAM > MAX_KEY)
			return NULL;
		key[n++] = 1ull << 63 | t->dtype.code | (uint64_t)t->dtype.bits << 8 | (uint64_t)t->dtype.lanes << 16 | (uint64_t)t->ndim << 32;
		for (int j = 0; j < t->ndim; j++)
			key[n++] = (uint64_t)t->shape[j];
	}
	for (uint32_t i = 0; i < n; i++)
		hash = (hash ^ key[i] ^ hash >> 29) * 0x9fb21c651e98df25u;
	hash ^= hash >> 32;
	struct spec **slot = &c->k->specs[hash % SPECS], **other = &c->k->specs[hash % SPECS ^ 1];
	if (*slot && (*slot)->words == n && memcmp((*slot)->key, key, n * sizeof *key) == 0)
		return *slot;
	if (*other && (*other)->words == n && memcmp((*other)->key, key, n * sizeof *key) == 0)
		return *other;
	struct spec *s = spec_make(c, key, n);
	if (s) {
		free(*other);
		*other = *slot;
		*slot = s;
	}
	return s;
}

static void ignore_error(void *context, const char *kind, const char *message)
{
	(void)context, (void)kind, (void)message;
}

/* Allocates output i by the exchange functions.  What was allocated is known: the object is not read again. */
static bool foreign_make(struct call *c, const struct spec *s, int i)
{
	DLTensor *t = &c->t[i];
	struct managed *m = NULL;
	void *object = NULL;
	memcpy(c->shapes[i], s->out[i].shape, sizeof c->shapes[i]);
	*t = (DLTensor){.device = c->lies, .ndim = s->out[i].rank, .dtype = s->out[i].dl, .shape = c->shapes[i]};
	if (c->api->allocate(t, &m, NULL, ignore_error) != 0)
		return false;
	t->data = m->t.data;
	t->byte_offset = m->t.byte_offset;
	if (m->t.strides) {
		memcpy(c->strides[i], m->t.strides, (size_t)t->ndim * sizeof **c->strides);
		t->strides = c->strides[i];
	}
	if (c->api->to_object(m, &object) != 0) /* as in part_make */
		return false;
	c->values[i] = object;
	c->args[i].t = t;
	return true;
}

/* ---- several outputs in one allocation */

/* A block that its tensors keep: freed with the last of them, on whatever thread that is. */
struct block { struct managed *memory; atomic_int tensors; };
struct part { struct managed m; struct block *block; int64_t shape[MAX_RANK], strides[MAX_RANK]; };

static void block_leave(struct block *b)
{
	if (atomic_fetch_sub(&b->tensors, 1) != 1)
		return;
	b->memory->deleter(b->memory);
	free(b);
}

static void part_delete(struct managed *m)
{
	struct part *p = (struct part *)m;
	block_leave(p->block);
	free(p);
}

static bool to_make(const struct call *c, int i)
{
	const struct param *p = &c->k->p[i];
	return p->tensor && p->output && !p->input && !p->optional && !c->values[i];
}

/* Bytes of output i; 0 where it has none or is not made of whole bytes. */
static size_t output_bytes(const struct spec *s, int i)
{
	size_t n = s->out[i].dl.bits % 8 || s->out[i].dl.lanes != 1 ? 0 : s->out[i].dl.bits / 8;
	for (int j = 0; j < s->out[i].rank && n <= SHARED_MOST; j++)
		n *= (size_t)s->out[i].shape[j];
	return n;
}

/* Output i at an offset of the block, as the library's tensor. */
static bool part_make(struct call *c, const struct spec *s, int i, struct block *b, size_t offset)
{
	struct part *p = malloc(sizeof *p);
	void *object = NULL;
	int64_t stride = 1;
	if (!p)
		return false;
	memcpy(p->shape, s->out[i].shape, sizeof p->shape);
	memcpy(c->shapes[i], s->out[i].shape, sizeof c->shapes[i]);
	for (int j = s->out[i].rank - 1; j >= 0; j--) {
		p->strides[j] = stride;
		stride *= p->shape[j];
	}
	c->t[i] = (DLTensor){.data = (char *)b->memory->t.data + b->memory->t.byte_offset + offset, .device = b->memory->t.device,
	                     .ndim = s->out[i].rank, .dtype = s->out[i].dl, .shape = c->shapes[i]};
	p->block = b;
	p->m = (struct managed){.major = 1, .deleter = part_delete, .t = c->t[i]};
	p->m.t.shape = p->shape;
	p->m.t.strides = p->strides;
	atomic_fetch_add(&b->tensors, 1);
	if (c->api->to_object(&p->m, &object) != 0) /* takes it; whose it is after a failure DLPack leaves open: kept */
		return false;
	c->values[i] = object;
	c->args[i].t = &c->t[i];
	c->made |= 1u << i;
	return true;
}

/* All outputs from one allocation, if there are several and they are small.  0: not so; negative: failed. */
static int shared_make(struct call *c, const struct spec *s)
{
	size_t total = 0;
	int n = 0;
	bool fine = true;
	for (int i = 0; i < c->k->n; i++)
		if (to_make(c, i)) {
			size_t bytes = output_bytes(s, i);
			if (!bytes || bytes > SHARED_MOST)
				return 0;
			total += (bytes + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
			n++;
		}
	if (n < 2 || total > SHARED_MOST)
		return 0;
	int64_t size = (int64_t)total + SHARED_ALIGN;
	DLTensor like = {.device = c->lies, .ndim = 1, .dtype = {TDSL_DL_UINT, 8, 1}, .shape = &size};
	struct block *b = malloc(sizeof *b);
	if (!b || c->api->allocate(&like, &b->memory, NULL, ignore_error) != 0) {
		free(b);
		return -1;
	}
	atomic_init(&b->tensors, 1); /* ours, until all parts are made */
	size_t offset = -((uintptr_t)b->memory->t.data + b->memory->t.byte_offset) % SHARED_ALIGN;
	for (int i = 0; i < c->k->n && fine; i++)
		if (to_make(c, i)) {
			fine = part_make(c, s, i, b, offset);
			offset += (output_bytes(s, i) + SHARED_ALIGN - 1) / SHARED_ALIGN * SHARED_ALIGN;
		}
	block_leave(b);
	return fine ? 1 : -1;
}

static bool outputs_make(struct call *c)
{
	const struct spec *s = spec_get(c);
	int shared = s && c->api ? shared_make(c, s) : 0;
	if (!s || shared < 0)
		return false;
	for (int i = 0; i < c->k->n && !shared; i++) {
		if (!to_make(c, i))
			continue;
		if (!c->api) {
			Py_INCREF(s->out[i].dtype->descr); /* array_new takes it */
			c->values[i] = array_new(array_type, s->out[i].dtype->descr, s->out[i].rank, (const Py_ssize_t *)s->out[i].shape, NULL, NULL, 0, NULL);
		} else if (!foreign_make(c, s, i)) {
			return false;
		}
		if (!c->values[i])
			return false;
		c->made |= 1u << i;
		if (!c->api && !tensor_read(c, i))
			return false;
	}
	return true;
}

/* One output, or a tuple of all that are there. */
static PyObject *results(struct call *c)
{
	int n = 0;
	int at[MAX_PARAM];
	for (int i = 0; i < c->k->n; i++)
		if (c->k->p[i].tensor && c->k->p[i].output && c->values[i])
			at[n++] = i;
	PyObject *tuple = n == 1 ? NULL : PyTuple_New(n);
	for (int i = 0; i < n; i++) {
		PyObject *value = c->values[at[i]];
		if (!(c->made >> at[i] & 1))
			Py_INCREF(value);
		c->made &= ~(1u << at[i]);
		if (!tuple && n == 1)
			return value;
		PyTuple_SetItem(tuple, i, value);
	}
	return tuple;
}

/* ---- workspace */

/* Of the library whose tensors lie on a GPU, which keeps what is freed until the stream has used it.  NULL: the call goes the longer way. */
static struct managed *room_make(const struct call *c, int64_t bytes, void **at)
{
	int64_t size = bytes + ROOM_ALIGN;
	DLTensor like = {.device = c->lies, .ndim = 1, .dtype = {TDSL_DL_UINT, 8, 1}, .shape = &size};
	struct managed *m = NULL;
	if (!c->api || c->lies.device_type == kDLCPU || c->api->allocate(&like, &m, NULL, ignore_error) != 0)
		return NULL;
	char *start = (char *)m->t.data + m->t.byte_offset;
	*at = start + -(uintptr_t)start % ROOM_ALIGN;
	return m;
}

/* ---- the type */

static PyObject *slow(PyObject *self, PyObject *args, PyObject *named)
{
	PyObject *method = PyObject_GetAttrString(self, "_slow");
	PyObject *result = method ? PyObject_Call(method, args, named) : NULL;
	Py_XDECREF(method);
	return result;
}

static PyObject *kernel_call(PyObject *self, PyObject *args, PyObject *named)
{
	struct call c;
	c.k = (struct kernel *)self;
	if (!array_type)
		return slow(self, args, named);
	memset(c.values, 0, sizeof c.values);
	memset(c.args, 0, (size_t)c.k->n * sizeof *c.args);
	c.made = 0;
	c.arrays = false;
	c.api = NULL;
	c.place = NULL;
	c.stream = NULL;
	PyObject *result = NULL;
	bool done = false;
	if (call_bind(&c, args, named) && call_place(&c) && outputs_make(&c)) {
		struct managed *kept = NULL;
		void *at = NULL;
		int64_t room;
		int rc = 0;
		Py_BEGIN_ALLOW_THREADS
		room = c.k->workspace ? rt.workspace(c.k->k, c.stream, c.args, c.k->n) : 0;
		if (!room)
			rc = rt.call(c.k->k, c.stream, c.args, c.k->n, NULL, 0);
		Py_END_ALLOW_THREADS
		if (room > 0 && (kept = room_make(&c, room, &at))) {
			Py_BEGIN_ALLOW_THREADS
			rc = rt.call(c.k->k, c.stream, c.args, c.k->n, at, room);
			Py_END_ALLOW_THREADS
			kept->deleter(kept);
		}
		done = !room || kept;
		if (done && rc < 0)
			result = PyObject_CallFunction(raise_error, "i", rc);
		else if (done)
			result = results(&c);
	}
	for (int i = 0; i < c.k->n && c.made; i++)
		if (c.made >> i & 1)
			Py_DECREF(c.values[i]);
	if (done)
		return result;
	PyErr_Clear();
	return slow(self, args, named);
}

/* _setup(handle, [(name, letter, is_input, is_output, is_optional, default or None)], has workspace) */
static PyObject *kernel_setup(PyObject *self, PyObject *args)
{
	struct kernel *k = (struct kernel *)self;
	unsigned long long handle;
	PyObject *list;
	int workspace;
	if (!PyArg_ParseTuple(args, "KOp", &handle, &list, &workspace))
		return NULL;
	Py_ssize_t n = PyList_Size(list);
	if (n < 0 || n > MAX_PARAM || k->n)
		return PyErr_Format(PyExc_ValueError, "_setup: a list of at most %d parameters, once", MAX_PARAM);
	for (int i = 0; i < (int)n; i++) {
		struct param *p = &k->p[i];
		int letter, input, output, optional;
		PyObject *name, *value;
		if (!PyArg_ParseTuple(PyList_GetItem(list, i), "UCpppO", &name, &letter, &input, &output, &optional, &value))
			return NULL;
		Py_INCREF(name);
		PyUnicode_InternInPlace(&name);
		*p = (struct param){name, letter == 'T' || letter == '?', input, output, optional, value != Py_None, (char)letter, 0};
		k->n = i + 1;
		if (p->has_default && (p->value = PyFloat_AsDouble(value)) == -1.0 && PyErr_Occurred())
			return NULL;
		if (!p->tensor || input)
			k->takes[k->ntakes++] = (uint8_t)i;
	}
	k->k = (tdsl_kernel)(uintptr_t)handle;
	k->workspace = workspace;
	Py_RETURN_NONE;
}

static void kernel_free(PyObject *self)
{
	struct kernel *k = (struct kernel *)self;
	PyTypeObject *type = Py_TYPE(self);
	for (int i = 0; i < k->n; i++)
		Py_XDECREF(k->p[i].name);
	for (int i = 0; i < SPECS; i++)
		free(k->specs[i]);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF((PyObject *)type);
}

static PyMethodDef kernel_methods[] = {{"_setup", kernel_setup, METH_VARARGS, "Handle, parameters, whether variants may need a workspace."}, {0}};
static PyType_Slot kernel_slots[] = {{Py_tp_call, (void *)kernel_call}, {Py_tp_dealloc, (void *)kernel_free}, {Py_tp_methods, kernel_methods}, {0, NULL}};
static PyType_Spec kernel_spec = {"tdsl._core.Kernel", sizeof(struct kernel), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, kernel_slots};

/* ---- the module */

/* bind(call, output, default, query, workspace, raise_error, numpy's table of functions): addresses as integers */
static PyObject *core_bind(PyObject *module, PyObject *args)
{
	unsigned long long call, output, device, query, workspace;
	PyObject *raise, *capsule;
	(void)module;
	if (!PyArg_ParseTuple(args, "KKKKKOO", &call, &output, &device, &query, &workspace, &raise, &capsule))
		return NULL;
	memcpy(&rt.call, &call, sizeof call);
	memcpy(&rt.output, &output, sizeof output);
	memcpy(&rt.device, &device, sizeof device);
	memcpy(&rt.query, &query, sizeof query);
	memcpy(&rt.workspace, &workspace, sizeof workspace);
	Py_INCREF(raise);
	Py_XDECREF(raise_error);
	raise_error = raise;
	void **table = PyCapsule_GetPointer(capsule, NULL);
	if (!table)
		return NULL;
	unsigned (*version)(void);
	memcpy(&version, &table[NUMPY_VERSION], sizeof version);
	if (version() == 0x01000009 || version() == 0x02000000) {
		array_type = table[NUMPY_ARRAY];
		memcpy(&array_new, &table[NUMPY_NEW], sizeof array_new);
	}
	return PyBool_FromLong(array_type != NULL);
}

/* dtype(descr, code, bits): a numpy type that kernels know; kept for good */
static PyObject *core_dtype(PyObject *module, PyObject *args)
{
	PyObject *descr;
	int code, bits;
	(void)module;
	if (!PyArg_ParseTuple(args, "Oii", &descr, &code, &bits))
		return NULL;
	if (ndtypes < MAX_DTYPE && !dtype_of(descr)) {
		Py_INCREF(descr);
		dtypes[ndtypes++] = (struct dtype){descr, {(uint8_t)code, (uint8_t)bits, 1}, (bits + 7) / 8};
	}
	Py_RETURN_NONE;
}

/* stream(device_type, device_id, native, handle): a stream that the slow path has opened; never closed */
static PyObject *core_stream(PyObject *module, PyObject *args)
{
	int type, id;
	unsigned long long native, handle;
	(void)module;
	if (!PyArg_ParseTuple(args, "iiKK", &type, &id, &native, &handle))
		return NULL;
	if (nstreams < MAX_STREAM) {
		streams[nstreams].device = (DLDevice){(DLDeviceType)type, id};
		streams[nstreams].native = (void *)(uintptr_t)native;
		streams[nstreams++].stream = (tdsl_stream)(uintptr_t)handle;
	}
	Py_RETURN_NONE;
}

/* place(name, Device, its handle, its stream's, whether it works on host memory): an open device; never closed */
static PyObject *core_place(PyObject *module, PyObject *args)
{
	PyObject *name, *object;
	unsigned long long device, stream;
	int host;
	(void)module;
	if (!PyArg_ParseTuple(args, "UOKKp", &name, &object, &device, &stream, &host))
		return NULL;
	if (nplaces < MAX_PLACE) {
		Py_INCREF(name);
		Py_INCREF(object);
		places[nplaces++] = (struct place){name, object, (tdsl_device)(uintptr_t)device, (tdsl_stream)(uintptr_t)stream, host};
	}
	Py_RETURN_NONE;
}

static PyMethodDef core_methods[] = {
	{"place", core_place, METH_VARARGS, "Makes an open device known."},
	{"bind", core_bind, METH_VARARGS, "Hands over the runtime's functions and numpy's."},
	{"dtype", core_dtype, METH_VARARGS, "Makes a numpy type known."},
	{"stream", core_stream, METH_VARARGS, "Makes an open stream known."}, {0}};
static struct PyModuleDef core_module = {PyModuleDef_HEAD_INIT, "tdsl._core", "The warm path of tdsl's calls.", -1, core_methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void)
{
	PyObject *module = PyModule_Create(&core_module);
	PyObject *type = module ? PyType_FromSpec(&kernel_spec) : NULL;
	if (!type || PyModule_AddObject(module, "Kernel", type) < 0) {
		Py_XDECREF(type);
		Py_XDECREF(module);
		return NULL;
	}
	return module;
}
