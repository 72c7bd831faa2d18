/* core_outputs.c -- the outputs of a Python call: of which types and shapes they are, and how those that were not given are made.
 * In: a call whose tensors are read.  Out: outputs of numpy or of the library whose tensors were given, read as arguments are; workspace.
 * Types and shapes are remembered by the tensors given.  Outputs of a foreign library that together are small share one allocation of that
 * library, each a tensor of its own that keeps the block: an allocation costs such a library more than the rest of the call, and what a kept
 * output can hold on to stays small. */
#include "core.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_MOST = 256 << 10, SHARED_ALIGN = 256, ROOM_ALIGN = 16 };

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

bool call_outputs(struct call *c)
{
	bool any = false;
	for (int i = 0; i < c->k->n; i++)
		any = any || to_make(c, i);
	if (!any)
		return true;
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
		if (!c->api && !call_tensor(c, i))
			return false;
	}
	return true;
}

PyObject *call_results(struct call *c)
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

/* The library keeps what is freed until the stream has used it. */
struct managed *call_room(const struct call *c, int64_t bytes, void **at)
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
