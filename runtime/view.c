/* view.c -- DLTensor -> struct view: the checks that concern one argument alone.
 *
 * Folding: of a tensor with more dimensions than its formal, dimensions 0..extra become the formal's first.  Those of extent 1
 * drop out, neighbours with matching strides merge, and at most two groups may remain: one is a plain stride, two are described
 * by fold_inner and fold_stride.  Overlap: addresses of a view are a run of bytes that recurs at multiples of its outer strides'
 * greatest common divisor; two views whose runs differ modulo that period are disjoint although their ranges interleave. */
#include "list.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_NDIM = 16 };

/* DLPack's binary interface, whoever declared it. */
_Static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4 && sizeof(DLTensor) == 48, "DLPack");
_Static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
               offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32 && offsetof(DLTensor, byte_offset) == 40, "DLPack");

/* The argument as given, with strides filled in and in elements of dtype (e2m1 in pairs taken apart). */
struct dims { int n; int64_t extent[MAX_NDIM], stride[MAX_NDIM]; };

struct where { const char *kernel, *param; };

#define ARG_FAIL(w, code, fmt, ...) FAIL(code, "%s: argument '%s'" fmt, (w)->kernel, (w)->param, __VA_ARGS__)

static int device_check(const struct where *w, tdsl_device d, const DLTensor *t, bool *host)
{
	int type = (int)t->device.device_type, id = t->device.device_id, own = (int)d->dl.device_type;
	*host = d->host_tensors && type == kDLCPU;
	if (*host || d->any_tensors || (type == own && id == d->ordinal))
		return 0;
	/* host memory that the driver made visible to its devices */
	if (own == kDLCUDA ? type == kDLCUDAHost || type == kDLCUDAManaged : type == kDLROCMHost)
		return 0;
	ARG_FAIL(w, TDSL_EDEVICE, " is on DLPack device (%d, %d); %s takes (%d, %d)%s", type, id, d->name, own, d->ordinal,
	         d->host_tensors ? " and host tensors (1, 0)" : "");
}

static int dtype_read(const struct where *w, const DLTensor *t, bool list, enum dtype *dtype, int *lanes)
{
	*dtype = dtype_by_dlpack(t->dtype.code, t->dtype.bits);
	*lanes = t->dtype.lanes;
	bool packed = *dtype == DT_E2M1 && *lanes == 2;
	if (list && *lanes != TDSL_LIST)
		ARG_FAIL(w, TDSL_EDTYPE, " is one tensor; expected a list of tensors, made by %s", "tdsl_list_open");
	if (!list && *lanes == TDSL_LIST)
		ARG_FAIL(w, TDSL_EDTYPE, " is a list of tensors; expected %s tensor", "one");
	if (*dtype == DT_NONE || (!list && *lanes != 1 && !packed))
		ARG_FAIL(w, TDSL_EDTYPE, ": DLPack type code %d, %d bits, %d lanes is no element type of any kernel", t->dtype.code,
		         t->dtype.bits, *lanes);
	return 0;
}

static int dims_read(const struct where *w, const DLTensor *t, int lanes, struct dims *d)
{
	if (t->ndim < 0 || t->ndim > MAX_NDIM)
		ARG_FAIL(w, TDSL_ESHAPE, ": rank %d; at most %d dimensions are taken", t->ndim, MAX_NDIM);
	if (t->ndim > 0 && !t->shape)
		ARG_FAIL(w, TDSL_EINVAL, ": shape is NULL, rank %d", t->ndim);
	d->n = t->ndim;
	int64_t compact = 1;
	for (int i = d->n - 1; i >= 0; i--) {
		int64_t e = t->shape[i], s = t->strides ? t->strides[i] : compact;
		if (e < 0)
			ARG_FAIL(w, TDSL_ESHAPE, ", dimension %d: extent %" PRId64 " is negative", i, e);
		if (s < 0 && e > 1)
			ARG_FAIL(w, TDSL_ESTRIDE, ", dimension %d: stride %" PRId64 "; negative strides are not supported", i, s);
		if (lanes == 2 && (i == d->n - 1 ? __builtin_mul_overflow(e, 2, &e) : t->strides && __builtin_mul_overflow(s, 2, &s)))
			ARG_FAIL(w, TDSL_ESHAPE, ", dimension %d: the size overflows", i);
		if (__builtin_mul_overflow(compact, e > 1 ? e : 1, &compact))
			ARG_FAIL(w, TDSL_ESHAPE, ", dimension %d: extent %" PRId64 ": the number of elements overflows", i, e);
		d->extent[i] = e;
		d->stride[i] = s;
	}
	return 0;
}

/* Sub-byte elements: whole bytes only, innermost contiguous, where there is any. */
static int nibbles_check(const struct where *w, const struct dims *d)
{
	bool any = true;
	for (int i = 0; i < d->n; i++)
		any = any && d->extent[i];
	for (int i = 0; i < d->n; i++) {
		if (i == d->n - 1 && d->extent[i] % 2)
			ARG_FAIL(w, TDSL_ESHAPE, ", dimension %d: extent %" PRId64 "; e2m1 needs an even innermost extent", i, d->extent[i]);
		if (any && d->extent[i] > 1 && (i == d->n - 1 ? d->stride[i] != 1 : d->stride[i] % 2 != 0))
			ARG_FAIL(w, TDSL_ESTRIDE, ", dimension %d: stride %" PRId64 "; e2m1 needs %s", i, d->stride[i],
			         i == d->n - 1 ? "stride 1 innermost" : "even strides");
	}
	return 0;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

/* Span, inner run and period in bytes. */
static int bytes_find(const struct where *w, const struct dims *d, int bits, uintptr_t address, struct plan_tensor *out)
{
	uint64_t last = 0, run = 1, period = 0;
	unsigned used = 0;
	*out = (struct plan_tensor){0};
	for (int i = 0; i < d->n; i++) {
		uint64_t part;
		if (d->extent[i] == 0)
			return 0;
		if (__builtin_mul_overflow((uint64_t)d->extent[i] - 1, (uint64_t)(d->extent[i] > 1 ? d->stride[i] : 0), &part) ||
		    __builtin_add_overflow(last, part, &last) || last > (uint64_t)1 << 58)
			ARG_FAIL(w, TDSL_ESHAPE, ", dimension %d: extent %" PRId64 " with stride %" PRId64 " overflows the address space", i,
			         d->extent[i], d->stride[i]);
	}
	out->span = (last * (unsigned)bits + (unsigned)bits + 7) / 8;
	if (address + out->span < address)
		ARG_FAIL(w, TDSL_ESHAPE, ": %" PRIu64 " bytes at %p overflow the address space", out->span, (void *)address);
	for (int i = d->n - 1; i >= 0;) {
		if (d->extent[i] > 1 && !(used >> i & 1) && (uint64_t)d->stride[i] == run) {
			used |= 1u << i;
			run *= (uint64_t)d->extent[i];
			i = d->n - 1;
		} else {
			i--;
		}
	}
	for (int i = 0; i < d->n; i++)
		if (d->extent[i] > 1 && !(used >> i & 1))
			period = gcd((uint64_t)d->stride[i], period);
	out->inner = (run * (unsigned)bits + 7) / 8;
	out->period = period * (unsigned)bits / 8;
	if (out->period < out->inner) {
		out->inner = out->span;
		out->period = 0;
	}
	return 0;
}

/* True where two elements may share an address: sorted by stride, each must step over all before it. */
static bool overlaps_itself(const struct dims *d)
{
	int64_t reach = 1;
	unsigned used = 0;
	for (;;) {
		int next = -1;
		for (int i = 0; i < d->n; i++)
			if (d->extent[i] > 1 && !(used >> i & 1) && (next < 0 || d->stride[i] < d->stride[next]))
				next = i;
		if (next < 0)
			return false;
		if (d->stride[next] < reach)
			return true;
		used |= 1u << next;
		reach += (d->extent[next] - 1) * d->stride[next];
	}
}

/* Folds dimensions 0..extra into one or two groups. */
static int fold(const struct where *w, const struct dims *d, int extra, struct view *v)
{
	struct { int64_t extent, stride; } group[MAX_NDIM];
	int n = 0;
	int64_t total = 1;
	for (int i = 0; i <= extra; i++) {
		total *= d->extent[i]; /* no overflow: the product of all was checked */
		if (d->extent[i] == 1)
			continue;
		int64_t reach;
		if (n && !__builtin_mul_overflow(d->extent[i], d->stride[i], &reach) && group[n - 1].stride == reach) {
			group[n - 1].extent *= d->extent[i];
			group[n - 1].stride = d->stride[i];
		} else {
			group[n].extent = d->extent[i];
			group[n++].stride = d->stride[i];
		}
	}
	v->extent[0] = total;
	v->stride[0] = n ? group[n - 1].stride : 0;
	if (total == 0 || n < 2)
		return 0;
	if (n > 2)
		ARG_FAIL(w, TDSL_ESTRIDE, ": its %d leading dimensions have strides that fold into no fewer than %d; at most 2 are supported",
		         extra + 1, n);
	v->flat = false;
	v->fold_inner = group[1].extent;
	v->fold_stride = group[0].stride;
	return 0;
}

static int formal_set(const struct where *w, tdsl_kernel k, int index, const struct dims *d, struct view *v)
{
	int rank = k->params[index].rank;
	int extra = d->n - rank;
	bool ones = true;
	for (int i = 0; i < d->n; i++)
		ones = ones && d->extent[i] == 1;
	if (extra < 0 || (rank == 0 && !ones))
		ARG_FAIL(w, TDSL_ESHAPE, ": rank %d; expected %s[%s]: rank %d%s", d->n, w->param, kernel_extents(k, index), rank,
		         rank ? " or more (leading dimensions fold)" : "");
	v->rank = rank;
	v->extra = extra;
	v->flat = true;
	v->fold_inner = 1;
	v->fold_stride = 0;
	for (int i = 0; i < rank; i++) {
		v->extent[i] = d->extent[i + extra];
		v->stride[i] = d->stride[i + extra];
	}
	if (rank > 0 && extra > 0)
		TRY(fold(w, d, extra, v));
	for (int i = rank - 1; i >= 0; i--) /* a stride that is never taken says what a compact tensor's would */
		if (v->extent[i] <= 1 && (i == rank - 1 ||
		    __builtin_mul_overflow(v->stride[i + 1], v->extent[i + 1] > 1 ? v->extent[i + 1] : 1, &v->stride[i])))
			v->stride[i] = 1;
	if (v->flat && rank > 0)
		v->fold_stride = v->stride[0]; /* row / 1 * fold_stride + row % 1 * stride: one formula for both */
	return 0;
}

int view_make(struct view *v, tdsl_kernel k, tdsl_device device, int index, const DLTensor *t, bool lenient)
{
	const struct pack_param *p = &k->params[index];
	const struct where where = {pack_string(k->pack->file, k->k->name), pack_string(k->pack->file, p->name)}, *w = &where;
	struct dims d = {0};
	int lanes;

	*v = (struct view){.rank = p->rank, .flat = true, .fold_inner = 1};
	if (!t) {
		if ((p->flags & PACK_PARAM_OPTIONAL) || (lenient && p->role != ROLE_IN))
			return 0;
		FAIL(TDSL_EINVAL, "%s: argument '%s' is NULL; expected a tensor %s[%s]", w->kernel, w->param, w->param, kernel_extents(k, index));
	}
	v->present = true;
	TRY(device_check(w, device, t, &v->host));
	TRY(dtype_read(w, t, p->flags & PACK_PARAM_LIST, &v->dtype, &lanes));
	if (p->flags & PACK_PARAM_LIST)
		return list_view(v, w->kernel, w->param, t);
	TRY(dims_read(w, t, lanes, &d));
	if (v->dtype == DT_E2M1)
		TRY(nibbles_check(w, &d));
	TRY(formal_set(w, k, index, &d, v));

	v->address = (uintptr_t)t->data + t->byte_offset;
	int bits = dtype_info(v->dtype)->bits;
	TRY(bytes_find(w, &d, bits, v->address, &v->bytes));
	v->bytes.host = v->host;
	v->empty = v->bytes.span == 0;
	if (!v->empty && !t->data && !lenient)
		ARG_FAIL(w, TDSL_EINVAL, ": data is NULL; expected %" PRIu64 " bytes", v->bytes.span);
	if (!v->empty && t->data && bits > 8 && v->address % ((unsigned)bits / 8))
		ARG_FAIL(w, TDSL_EALIGN, ": address %p is not a multiple of %d, the size of %s", (void *)v->address, bits / 8,
		         dtype_info(v->dtype)->name);
	if (!v->empty && p->role != ROLE_IN && overlaps_itself(&d))
		ARG_FAIL(w, TDSL_EOVERLAP, ": its strides let elements share memory; an output's may not%s", "");
	return 0;
}

bool bytes_disjoint(uintptr_t a, const struct plan_tensor *ta, uintptr_t b, const struct plan_tensor *tb)
{
	if (ta->span == 0 || tb->span == 0 || a + ta->span <= b || b + tb->span <= a)
		return true;
	uint64_t period = gcd(ta->period, tb->period);
	if (period == 0)
		return false;
	uint64_t apart = b >= a ? (b - a) % period : (period - (a - b) % period) % period;
	return apart >= ta->inner && apart + tb->inner <= period;
}
