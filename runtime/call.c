/* call.c -- tdsl_call: the path of every kernel call.
 *
 * Method: everything that decides a call except addresses and scalars (types, shapes, strides, devices, the largest power of two
 * up to 16 that divides each address) is written as words into a key; a plan made for an equal key by the same thread is run again
 * with pointers and scalars patched.  Plans live in a table per thread, two slots for each hash: no locks, no sharing, nothing to
 * reclaim across threads.  NULL data, overlap and workspace depend on addresses and are checked at every call. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "list.h"

enum { MEMO_SLOTS = 2048, KEY_NDIM = 12 };

struct memo { struct plan *slots[MEMO_SLOTS]; };

static _Thread_local struct memo *thread_memo;
static _Thread_local struct plan_last last_call;
static pthread_key_t memo_key;
static pthread_once_t memo_once = PTHREAD_ONCE_INIT;

static void memo_free(void *at)
{
	struct memo *m = at;
	for (int i = 0; i < MEMO_SLOTS; i++)
		free(m->slots[i]);
	free(m);
	thread_memo = NULL;
}

/* Threads call memo_free when they end: the library stays mapped once one has a memo. */
static void memo_key_make(void)
{
	library_pin();
	pthread_key_create(&memo_key, memo_free);
}

static struct memo *memo_get(void)
{
	if (!thread_memo) {
		pthread_once(&memo_once, memo_key_make);
		thread_memo = calloc(1, sizeof *thread_memo);
		if (thread_memo && pthread_setspecific(memo_key, thread_memo) != 0) {
			free(thread_memo);
			thread_memo = NULL;
		}
	}
	return thread_memo;
}

/* ---- keys */

static inline uint64_t address_class(uintptr_t address)
{
	return (uint64_t)__builtin_ctzll(address | 16); /* 0..4 */
}

/* Appends the words of one tensor; NULL where it cannot be a key (malformed or huge: the slow path decides). */
static inline uint64_t *key_tensor(uint64_t *w, const uint64_t *end, const DLTensor *t)
{
	uint32_t n = (uint32_t)t->ndim;
	if (n > KEY_NDIM || (n && !t->shape) || t->dtype.lanes > 255 || (uint32_t)t->device.device_id > 0xffff ||
	    (uint32_t)t->device.device_type > 255 || end - w < 1 + 2 * KEY_NDIM)
		return NULL;
	*w++ = t->dtype.code | (uint64_t)t->dtype.bits << 8 | (uint64_t)t->dtype.lanes << 16 | (uint64_t)n << 24 |
	       (uint64_t)(uint32_t)t->device.device_type << 32 | (uint64_t)(uint32_t)t->device.device_id << 40 |
	       address_class((uintptr_t)t->data + t->byte_offset) << 56 | (uint64_t)(t->strides != NULL) << 60 | 1ull << 63;
	for (uint32_t i = 0; i < n; i++)
		*w++ = (uint64_t)t->shape[i];
	if (t->strides)
		for (uint32_t i = 0; i < n; i++)
			*w++ = (uint64_t)t->strides[i];
	return w;
}

/* Words of the key, 0 where there is none. */
static uint32_t key_make(uint64_t key[KEY_WORDS], tdsl_kernel k, tdsl_device d, const union tdsl_arg *args)
{
	uint64_t *w = key;
	*w++ = k->serial;
	*w++ = d->serial;
	for (uint32_t left = k->tensors; left; left &= left - 1) {
		const DLTensor *t = args[__builtin_ctz(left)].t;
		if (!t)
			*w++ = 0;
		else if (!(w = key_tensor(w, key + KEY_WORDS - MODEL_MAX_PARAM, t)))
			return 0;
	}
	return (uint32_t)(w - key);
}

static inline uint64_t key_hash(const uint64_t *key, uint32_t n)
{
	uint64_t a = 0x9e3779b97f4a7c15u ^ n, b = 0xc2b2ae3d27d4eb4fu;
	uint32_t i = 0;
	for (; i + 2 <= n; i += 2) {
		a = (a ^ key[i]) * 0x9fb21c651e98df25u;
		b = (b ^ key[i + 1]) * 0xd6e8feb86659fd93u;
		a ^= a >> 29;
		b ^= b >> 31;
	}
	if (i < n)
		a = (a ^ key[i]) * 0x9fb21c651e98df25u;
	a ^= b * 0x165667b19e3779f9u;
	return a ^ a >> 32;
}

static inline bool plan_is(const struct plan *p, uint64_t hash, const uint64_t *key, uint32_t n)
{
	return p && p->hash == hash && p->key_words == n && memcmp(p->key, key, n * sizeof *key) == 0;
}

/* This thread's plan for a key, or NULL. */
static inline const struct plan *memo_find(uint64_t hash, const uint64_t *key, uint32_t n)
{
	const struct memo *m = thread_memo;
	if (!m || !n)
		return NULL;
	const struct plan *p = m->slots[hash % MEMO_SLOTS];
	if (plan_is(p, hash, key, n))
		return p;
	p = m->slots[hash % MEMO_SLOTS ^ 1];
	return plan_is(p, hash, key, n) ? p : NULL;
}

/* Puts a plan into its slot; the one that was there moves to the neighbour, whose own goes. */
static void memo_put(struct memo *m, struct plan *p)
{
	struct plan **first = &m->slots[p->hash % MEMO_SLOTS], **second = &m->slots[p->hash % MEMO_SLOTS ^ 1];
	if (*first) {
		free(*second);
		*second = *first;
	}
	*first = p;
}

/* ---- running a plan */

static const char *kernel_name(tdsl_kernel k)
{
	return pack_string(k->pack->file, k->k->name);
}

static const char *param_name(tdsl_kernel k, int param)
{
	return pack_string(k->pack->file, k->params[param].name);
}

/* Addresses of the tensors, 0 for absent ones; NULL data of non-empty tensors is an error. */
static int addresses_get(uintptr_t address[MODEL_MAX_PARAM], const struct plan *p, tdsl_kernel k, const union tdsl_arg *args)
{
	for (uint32_t left = k->tensors; left; left &= left - 1) {
		int i = __builtin_ctz(left);
		const DLTensor *t = args[i].t;
		address[i] = t && t->data ? (uintptr_t)t->data + t->byte_offset : 0;
		if (!address[i] && p->tensors[i].span)
			FAIL(TDSL_EINVAL, "%s: argument '%s': data is NULL; expected %" PRIu64 " bytes", kernel_name(k), param_name(k, i),
			     p->tensors[i].span);
		if (p->tensors[i].span > UINTPTR_MAX - address[i])
			FAIL(TDSL_ESHAPE, "%s: argument '%s': %" PRIu64 " bytes at %p overflow the address space", kernel_name(k),
			     param_name(k, i), p->tensors[i].span, (void *)address[i]);
	}
	return 0;
}

/* Outputs against every other tensor. */
static int overlap_check(const uintptr_t address[MODEL_MAX_PARAM], const struct plan *p, tdsl_kernel k)
{
	for (uint32_t outs = k->outputs; outs; outs &= outs - 1) {
		int o = __builtin_ctz(outs);
		uintptr_t low = address[o], high = low + p->tensors[o].span;
		for (uint32_t left = k->tensors & ~(k->outputs & ((2u << o) - 1)); left; left &= left - 1) {
			int i = __builtin_ctz(left);
			if (low < address[i] + p->tensors[i].span && address[i] < high &&
			    !bytes_disjoint(low, &p->tensors[o], address[i], &p->tensors[i]))
				FAIL(TDSL_EOVERLAP, "%s: output '%s' overlaps argument '%s' in memory", kernel_name(k), param_name(k, o),
				     param_name(k, i));
		}
	}
	return 0;
}

static int workspace_check(const uintptr_t address[MODEL_MAX_PARAM], const struct plan *p, tdsl_kernel k, uintptr_t base, int64_t bytes)
{
	if (!base || bytes < 0 || (uint64_t)bytes < p->workspace)
		FAIL(TDSL_EWORKSPACE, "%s: workspace of %" PRId64 " bytes%s; expected %" PRIu64, kernel_name(k), bytes,
		     base ? "" : " at NULL", p->workspace);
	if (base % 16)
		FAIL(TDSL_EWORKSPACE, "%s: workspace at %p; expected a multiple of 16", kernel_name(k), (void *)base);
	for (uint32_t left = k->tensors; left; left &= left - 1) {
		int i = __builtin_ctz(left);
		struct plan_tensor whole = {.span = p->workspace, .inner = p->workspace};
		if (!bytes_disjoint(base, &whole, address[i], &p->tensors[i]))
			FAIL(TDSL_EOVERLAP, "%s: the workspace overlaps argument '%s' in memory", kernel_name(k), param_name(k, i));
	}
	return 0;
}

static __attribute__((cold, noinline)) int scalar_fail(tdsl_kernel k, int i, double value)
{
	FAIL(TDSL_EINVAL, "%s: argument '%s' is %.9g; expected an f32, at %s %.9g", kernel_name(k), param_name(k, i), value, value < 0 ? "least" : "most",
	     copysign((double)FLT_MAX, value));
}

/* A finite number that rounds to no finite f32: one compare of its bits without the sign. */
static inline bool beyond_f32(double value)
{
	const uint64_t first = 0x47effffff0000000ull << 1, infinite = 0x7ff0000000000000ull << 1; /* first: halfway from FLT_MAX to 2^128 */
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	return (bits << 1) - first < infinite - first;
}

/* Scalars that are passed in 32 bits must fit: an integer as it is, a number as one that is finite where it is. */
static inline int scalars_check(const struct plan *p, tdsl_kernel k, const union tdsl_arg *args)
{
	for (uint32_t left = p->single; left; left &= left - 1) {
		int i = __builtin_ctz(left);
		if (beyond_f32(args[i].f))
			return scalar_fail(k, i, args[i].f);
	}
	for (uint32_t left = p->narrow; left; left &= left - 1) {
		int i = __builtin_ctz(left);
		if (args[i].i != (int32_t)args[i].i)
			FAIL(TDSL_EINVAL, "%s: argument '%s' is %" PRId64 "; expected an i32", kernel_name(k), param_name(k, i), args[i].i);
	}
	return 0;
}

static inline void block_patch(uint8_t *block, const struct plan *p, const struct plan_launch *l,
                               const uintptr_t address[MODEL_MAX_PARAM], const union tdsl_arg *args, const void *workspace)
{
	memcpy(block, p->kernargs + l->kernarg, l->shape.kernarg_bytes);
	for (uint32_t i = 0; i < l->npatch; i++) {
		const struct plan_patch q = p->patches[l->patch + i];
		uint8_t *at = block + q.offset;
		switch ((enum patch_kind)q.kind) {
		case PATCH_POINTER: memcpy(at, &address[q.param], 8); break;
		case PATCH_F32: memcpy(at, &(float){(float)args[q.param].f}, 4); break;
		case PATCH_F64: memcpy(at, &args[q.param].f, 8); break;
		case PATCH_I64: memcpy(at, &args[q.param].i, 8); break;
		case PATCH_I32: memcpy(at, &args[q.param].i, 4); break; /* little endian */
		case PATCH_WORKSPACE: memcpy(at, &workspace, 8); break;
		}
	}
}

static int launches_run(const struct plan *p, tdsl_stream s, const uintptr_t address[MODEL_MAX_PARAM],
                        const union tdsl_arg *args, void *workspace)
{
	tdsl_device d = s->device;
	_Alignas(16) uint8_t block[PACK_MAX_KERNARG];
	for (uint32_t i = 0; i < p->nlaunches; i++) {
		const struct plan_launch *l = &p->launches[i];
		block_patch(block, p, l, address, args, workspace);
		TRY(d->ops->launch(d, l->function, &l->shape, s->native, block, l->symbol));
	}
	return 0;
}

/* Simulated devices: the call's host memory is known to the device while it runs. */
static int host_run(const struct plan *p, tdsl_kernel k, tdsl_stream s, const uintptr_t address[MODEL_MAX_PARAM],
                    const union tdsl_arg *args, void *workspace)
{
	struct host_range few[MODEL_MAX_PARAM + 1], *ranges = few;
	int64_t most = k->nparams + 1;
	int n = 0;
	for (int i = 0; i < k->nparams; i++)
		most += p->tensors[i].host ? list_count(address[i], &p->tensors[i]) : 0;
	if (most > k->nparams + 1 && !(ranges = malloc((size_t)most * sizeof *ranges)))
		FAIL(TDSL_ENOMEM, "out of memory");
	for (int i = 0; i < k->nparams; i++) {
		const struct plan_tensor *t = &p->tensors[i];
		bool output = k->outputs >> i & 1;
		if (!t->host || !t->span)
			continue;
		ranges[n++] = (struct host_range){address[i], t->span, param_name(k, i), output && !t->list};
		for (int64_t e = 0; e < list_count(address[i], t); e++) {
			struct host_range r = list_range(address[i], t, e);
			if (r.bytes)
				ranges[n++] = (struct host_range){r.base, r.bytes, param_name(k, i), output};
		}
	}
	if (p->workspace)
		ranges[n++] = (struct host_range){(uintptr_t)workspace, p->workspace, "workspace", true};
	int rc = s->device->ops->host_enter(s->device, ranges, n);
	if (rc == 0) {
		rc = launches_run(p, s, address, args, workspace);
		s->device->ops->host_leave(s->device, ranges, n);
	}
	if (ranges != few)
		free(ranges);
	return rc;
}

static int plan_run(const struct plan *p, tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, void *workspace, int64_t workspace_bytes)
{
	const struct device_ops *ops = s->device->ops;
	uintptr_t address[MODEL_MAX_PARAM], saved = 0;
	int rc;
	TRY(addresses_get(address, p, k, args));
	TRY(overlap_check(address, p, k));
	TRY(scalars_check(p, k, args));
	if (p->workspace)
		TRY(workspace_check(address, p, k, (uintptr_t)workspace, workspace_bytes));
	if (p->nlaunches == 0)
		return 0;
	if (ops->enter)
		TRY(ops->enter(s->device, &saved));
	if (ops->host_enter)
		rc = host_run(p, k, s, address, args, workspace);
	else
		rc = launches_run(p, s, address, args, workspace);
	if (ops->leave)
		ops->leave(s->device, saved);
	return rc;
}

/* ---- entries */

static int call_check(tdsl_kernel k, tdsl_stream *s, const union tdsl_arg *args, int nargs)
{
	if (!k)
		FAIL(TDSL_EINVAL, "the kernel is NULL");
	if (nargs != k->nparams || (nargs && !args))
		FAIL(TDSL_EINVAL, "%s: %d arguments%s; expected %d", kernel_name(k), nargs, args ? "" : " at NULL", k->nparams);
	if (!*s)
		TRY(device_default_stream(s));
	if (__atomic_load_n(&(*s)->device->refs, __ATOMIC_RELAXED) <= 0)
		return device_open_check((*s)->device, kernel_name(k));
	return 0;
}

static int call_slow(tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, void *workspace, int64_t workspace_bytes,
                     const uint64_t *key, uint32_t n, uint64_t hash)
{
	struct plan *p;
	TRY(plan_make(&p, k, s, args, key, n));
	struct plan_last last = p->last;
	_Atomic uint64_t *last_calls = p->calls;
	p->hash = hash;
	int rc = plan_run(p, k, s, args, workspace, workspace_bytes);
	p->last.is.remembered = 1;
	struct memo *m = n ? memo_get() : NULL;
	if (m)
		memo_put(m, p);
	else
		free(p);
	if (rc == 0) {
		last_call = last;
		atomic_fetch_add_explicit(last_calls, 1, memory_order_relaxed);
	}
	return rc;
}

int tdsl_call(tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, int nargs, void *workspace, int64_t workspace_bytes)
{
	uint64_t key[KEY_WORDS];
	TRY(call_check(k, &s, args, nargs));
	uint32_t n = key_make(key, k, s->device, args);
	uint64_t hash = key_hash(key, n);
	const struct plan *p = memo_find(hash, key, n);
	if (!p)
		return call_slow(k, s, args, workspace, workspace_bytes, key, n, hash);
	TRY(plan_run(p, k, s, args, workspace, workspace_bytes));
	last_call = p->last;
	atomic_fetch_add_explicit(p->calls, 1, memory_order_relaxed);
	return 0;
}

/* False where a tensor's place is not known yet. */
static bool addresses_given(tdsl_kernel k, const union tdsl_arg *args)
{
	for (uint32_t left = k->tensors; left; left &= left - 1) {
		const DLTensor *t = args[__builtin_ctz(left)].t;
		if (t && !t->data)
			return false;
	}
	return true;
}

int64_t tdsl_workspace(tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, int nargs)
{
	uint64_t key[KEY_WORDS];
	TRY(call_check(k, &s, args, nargs));
	uint32_t n = key_make(key, k, s->device, args);
	const struct plan *p = memo_find(key_hash(key, n), key, n);
	return p && addresses_given(k, args) ? (int64_t)p->workspace : plan_workspace(k, s, args);
}

int tdsl_output(DLDataType *dtype, int64_t shape[8], tdsl_kernel k, tdsl_stream s, const union tdsl_arg *args, int nargs, int param)
{
	TRY(kernel_check(k, "tdsl_output"));
	TRY(call_check(k, &s, args, nargs));
	if (!dtype || !shape || param < 0 || param >= nargs || !(k->tensors >> param & 1))
		FAIL(TDSL_EINVAL, "%s: tdsl_output: parameter %d is not a tensor, or nowhere to write", kernel_name(k), param);
	return plan_output(dtype, shape, k, s, args, param);
}

int tdsl_last_call(struct tdsl_last *out)
{
	if (!out || !last_call.is.kernel)
		FAIL(TDSL_EINVAL, "tdsl_last_call: %s", out ? "this thread has called nothing" : "out is NULL");
	if (!pack_is_open(last_call.pack))
		FAIL(TDSL_EINVAL, "tdsl_last_call: the pack of the kernel that this thread called last was closed");
	*out = last_call.is;
	return 0;
}
