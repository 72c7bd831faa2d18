/* core.c -- the warm path of a Python call: tdsl._core, a module of Python's stable interface (abi3, Python 3.9 and later).
 *
 * In: positional and named arguments that are numpy arrays, numbers, open devices, or tensors of a library that offers DLPack's exchange
 * functions (torch 2.10 and later).  Out: the kernel's outputs, allocated here or as given; workspace too where tensors lie on a GPU.  Whatever
 * is unusual (copies to a GPU, workspace on the host, DLPack capsules, any mistake of the caller) goes to the method _slow of the Python class,
 * which knows every case and has the texts of the errors; the warm path is a shorter way to the same tdsl_call.
 *
 * Why C: ctypes alone takes longer for four tensors than the 2 us that a call may cost.  Why by hand: numpy's array structure and
 * the places of its functions are part of its binary interface since 1.x, so that neither numpy's headers nor a build tool are
 * needed.  libtdsl_rt.so is not linked: Python has loaded it and hands over the addresses of its functions. */
#include "core.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

enum { MAX_NAMED = MAX_PARAM + 2, MAX_PLACE = 32, MAX_DTYPE = 64, MAX_STREAM = 64, FOREIGN = 8 };

/* Of Python's headers for 3.12 and later. */
#define HAVE_VECTORCALL (1u << 11)
#define VECTOR_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))

/* ---- state of the module */

struct runtime rt;
PyTypeObject *array_type;
numpy_new *array_new;
static PyObject *raise_error;          /* Python's function that raises tdsl.Error for a code */
static struct dtype dtypes[MAX_DTYPE];
static int ndtypes;
static struct { DLDevice device; void *native; tdsl_stream stream; } streams[MAX_STREAM];
static int nstreams;
static struct place { PyObject *name, *object; tdsl_device device; tdsl_stream stream; bool host; } places[MAX_PLACE];
static int nplaces;
static struct { tdsl_device device; bool host; } known; /* the default device last seen */
struct foreign { PyTypeObject *type; const struct exchange *api; PyObject *is_negated; }; /* is_negated: the type's is_neg, NULL = it has none */
static struct foreign foreign[FOREIGN]; /* tensor types last seen */
static unsigned nforeign;

/* What a call was given, borrowed: by position, by name. */
struct given { PyObject *const *args; Py_ssize_t n, nnamed; PyObject *const *name, *const *value; };

/* ---- arguments */

static const struct dtype *dtype_of(const PyObject *descr)
{
	for (int i = 0; i < ndtypes; i++)
		if (dtypes[i].descr == descr)
			return &dtypes[i];
	return NULL;
}

const struct dtype *dtype_named(DLDataType dl)
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

/* What an object's type has: api NULL where no exchange functions. */
static const struct foreign *foreign_of(PyObject *value)
{
	PyTypeObject *type = Py_TYPE(value);
	for (int i = 0; i < FOREIGN; i++)
		if (foreign[i].type == type)
			return &foreign[i];
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
	struct foreign *slot = &foreign[nforeign++ % FOREIGN], before = *slot;
	Py_INCREF((PyObject *)type); /* stays: its address must not be another type's later */
	*slot = (struct foreign){type, api, PyObject_GetAttrString((PyObject *)type, "is_neg")};
	PyErr_Clear();
	Py_XDECREF((PyObject *)before.type);
	Py_XDECREF(before.is_negated);
	return slot;
}

/* Whether memory holds the negated numbers, as torch has it of the imaginary part of a conjugate, which its exchange functions do not say.  To ask takes
 * longer than all else about a tensor, so only those are asked whose strides a part of complex numbers can have: all of them even. */
static bool is_negated(const struct foreign *f, PyObject *value, const DLTensor *t)
{
	bool even = f->is_negated && (t->strides || !t->ndim);
	for (int j = 0; even && j < t->ndim; j++)
		even = t->strides[j] % 2 == 0;
	PyObject *answer = even ? PyObject_CallFunctionObjArgs(f->is_negated, value, NULL) : NULL;
	bool negated = even && answer != Py_False;
	Py_XDECREF(answer);
	PyErr_Clear();
	return negated;
}

bool call_tensor(struct call *c, int i)
{
	PyObject *value = c->values[i];
	if (Py_TYPE(value) == array_type) {
		if (!array_read(c, i, (const struct ndarray *)value))
			return false;
	} else {
		const struct foreign *f = foreign_of(value);
		const struct exchange *api = f->api;
		if (!api || (c->api && c->api != api))
			return false;
		if (api->read(value, &c->t[i]) != 0) {
			PyErr_Clear();
			return false;
		}
		if (is_negated(f, value, &c->t[i]))
			return false;
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
	if (whole) {                                   /* PyLong_AsLongLong alone takes floats before Python 3.10 */
		PyObject *n = PyNumber_Index(value);
		c->args[i].i = n ? PyLong_AsLongLong(n) : 0;
		Py_XDECREF(n);
	} else {
		c->args[i].f = PyFloat_AsDouble(value);
	}
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
static bool call_bind(struct call *c, const struct given *g)
{
	const struct kernel *k = c->k;
	PyObject *out = NULL;
	if (g->n > k->ntakes)
		return false;
	for (Py_ssize_t i = 0; i < g->n; i++)
		c->values[k->takes[i]] = g->args[i];
	for (Py_ssize_t a = 0; a < g->nnamed; a++) {
		PyObject *name = g->name[a], *value = g->value[a];
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
		if (!p->tensor ? !scalar_read(c, i) : c->values[i] ? !call_tensor(c, i) : p->input && !p->optional)
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

/* ---- the type */

static PyObject *slow(PyObject *self, PyObject *args, PyObject *named)
{
	PyObject *method = PyObject_GetAttrString(self, "_slow");
	PyObject *result = method ? PyObject_Call(method, args, named) : NULL;
	Py_XDECREF(method);
	return result;
}

/* False: the call is not plain, or failed on the warm path: the longer way. */
static bool kernel_run(PyObject *self, const struct given *g, PyObject **result)
{
	struct call c;
	c.k = (struct kernel *)self;
	if (!array_type)
		return false;
	memset(c.values, 0, (size_t)c.k->n * sizeof *c.values);
	memset(c.args, 0, (size_t)c.k->n * sizeof *c.args);
	c.made = 0;
	c.arrays = false;
	c.api = NULL;
	c.place = NULL;
	c.stream = NULL;
	bool done = false;
	if (call_bind(&c, g) && call_place(&c) && call_outputs(&c)) {
		struct managed *kept = NULL;
		void *at = NULL;
		int64_t room;
		int rc = 0;
		Py_BEGIN_ALLOW_THREADS
		room = c.k->workspace ? rt.workspace(c.k->k, c.stream, c.args, c.k->n) : 0;
		if (!room)
			rc = rt.call(c.k->k, c.stream, c.args, c.k->n, NULL, 0);
		Py_END_ALLOW_THREADS
		if (room > 0 && (kept = call_room(&c, room, &at))) {
			Py_BEGIN_ALLOW_THREADS
			rc = rt.call(c.k->k, c.stream, c.args, c.k->n, at, room);
			Py_END_ALLOW_THREADS
			kept->deleter(kept);
		}
		done = !room || kept;
		if (done && rc < 0)
			*result = PyObject_CallFunction(raise_error, "i", rc);
		else if (done)
			*result = call_results(&c);
	}
	for (int i = 0; i < c.k->n && c.made; i++)
		if (c.made >> i & 1)
			Py_DECREF(c.values[i]);
	if (!done)
		PyErr_Clear();
	return done;
}

/* Of Python before 3.12, and of callers that have a tuple and a dictionary. */
static PyObject *kernel_call(PyObject *self, PyObject *args, PyObject *named)
{
	PyObject *at[MAX_PARAM], *name[MAX_NAMED], *value[MAX_NAMED], *result = NULL;
	struct given g = {.args = at, .n = PyTuple_Size(args), .name = name, .value = value};
	bool fits = g.n <= MAX_PARAM && (!named || PyDict_Size(named) <= MAX_NAMED);
	for (Py_ssize_t i = 0; fits && i < g.n; i++)
		at[i] = PyTuple_GetItem(args, i);
	for (Py_ssize_t place = 0; fits && named && PyDict_Next(named, &place, &name[g.nnamed], &value[g.nnamed]);)
		g.nnamed++;
	return fits && kernel_run(self, &g, &result) ? result : slow(self, args, named);
}

/* As kernel_call, without a tuple and a dictionary: `names` are of the last arguments. */
static PyObject *kernel_vector(PyObject *self, PyObject *const *args, size_t flags, PyObject *names)
{
	Py_ssize_t n = (Py_ssize_t)(flags & ~VECTOR_OFFSET);
	PyObject *name[MAX_NAMED], *result = NULL;
	struct given g = {.args = args, .n = n, .nnamed = names ? PyTuple_Size(names) : 0, .name = name, .value = args + n};
	for (Py_ssize_t i = 0; i < g.nnamed && i < MAX_NAMED; i++)
		name[i] = PyTuple_GetItem(names, i);
	if (g.nnamed <= MAX_NAMED && kernel_run(self, &g, &result))
		return result;
	PyObject *tuple = PyTuple_New(n), *named = PyDict_New();
	for (Py_ssize_t i = 0; tuple && i < n; i++) {
		Py_INCREF(args[i]);
		PyTuple_SetItem(tuple, i, args[i]);
	}
	bool fine = tuple && named;
	for (Py_ssize_t i = 0; fine && i < g.nnamed; i++)
		fine = PyDict_SetItem(named, PyTuple_GetItem(names, i), g.value[i]) == 0;
	if (fine)
		result = slow(self, tuple, named);
	Py_XDECREF(tuple);
	Py_XDECREF(named);
	return result;
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
	k->vector = kernel_vector;
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
static PyMemberDef kernel_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(struct kernel, vector), READONLY, NULL}, {0}};
/* The last but one is for Python 3.12 and later alone. */
static PyType_Slot kernel_slots[] = {
	{Py_tp_call, (void *)kernel_call}, {Py_tp_dealloc, (void *)kernel_free}, {Py_tp_methods, kernel_methods}, {Py_tp_members, kernel_members}, {0, NULL}};
enum { MEMBERS = 3 };
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

/* Calls without a tuple and a dictionary: classes made in Python, as the kernels' is, inherit them from 3.12 on, which has them in its stable
 * interface as well. */
static bool has_vectors(void)
{
	char *end;
	long major = strtol(Py_GetVersion(), &end, 10), minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
	return major > 3 || (major == 3 && minor >= 12);
}

PyMODINIT_FUNC PyInit__core(void)
{
	if (has_vectors())
		kernel_spec.flags |= HAVE_VECTORCALL;
	else
		kernel_slots[MEMBERS] = (PyType_Slot){0, NULL};
	PyObject *module = PyModule_Create(&core_module);
	PyObject *type = module ? PyType_FromSpec(&kernel_spec) : NULL;
	if (!type || PyModule_AddObject(module, "Kernel", type) < 0) {
		Py_XDECREF(type);
		Py_XDECREF(module);
		return NULL;
	}
	return module;
}
