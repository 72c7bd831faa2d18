/* list.c -- lists of tensors: many separate tensors as one argument of a call.
 *
 * In: K contiguous tensors of one element type.  Out: a DLTensor that stands for them: its data is a table on the device, K addresses of 8
 * bytes and then K lengths of 4; its shape is (K, the number of elements in all); dtype.lanes = TDSL_LIST tells it from a tensor.  Its
 * strides hold what a call decides by: the largest power of two up to 16 that divides every address and every tensor's bytes, and a
 * number made of the lengths, which lists of equal lengths share.  The call's key has both, so that a remembered call looks no further. */
#define XXH_STATIC_LINKING_ONLY
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "list.h"

struct tdsl_list_s {
	tdsl_device device;
	void *table;                       /* on the device, or host memory for host tensors */
	bool host;
	int64_t shape[2], strides[2];
	DLTensor t;
};

static size_t table_bytes(int64_t n)
{
	return (size_t)n * (sizeof(uint64_t) + sizeof(int32_t));
}

static bool is_compact(const DLTensor *t)
{
	int64_t compact = 1;
	for (int d = t->ndim - 1; d >= 0 && t->strides; d--) {
		if (t->shape[d] > 1 && t->strides[d] != compact)
			return false;
		compact *= t->shape[d];
	}
	return true;
}

static int length_read(const DLTensor *t, int64_t index, int64_t *n)
{
	if (t->ndim < 0 || (t->ndim > 0 && !t->shape))
		FAIL(TDSL_EINVAL, "tdsl_list_open: tensor %" PRId64 ": rank %d%s", index, t->ndim, t->ndim > 0 ? ", shape NULL" : "");
	*n = 1;
	for (int d = 0; d < t->ndim; d++) {
		if (t->shape[d] < 0)
			FAIL(TDSL_ESHAPE, "tdsl_list_open: tensor %" PRId64 ", dimension %d: extent %" PRId64 " is negative", index, d, t->shape[d]);
		if (__builtin_mul_overflow(*n, t->shape[d], n))
			FAIL(TDSL_ESHAPE, "tdsl_list_open: tensor %" PRId64 ": the number of elements overflows", index);
	}
	return 0;
}

/* Checks tensor `index` and writes its entry; *low collects the low bits of addresses and sizes. */
static int entry_write(const struct tdsl_list_s *l, const DLTensor *t, int64_t index, uint64_t *address, int32_t *length, uint64_t *low)
{
	DLDataType want = l->t.dtype;
	int64_t n, size = want.bits / 8;
	if (!t)
		FAIL(TDSL_EINVAL, "tdsl_list_open: tensor %" PRId64 " is NULL", index);
	if (t->dtype.code != want.code || t->dtype.bits != want.bits || t->dtype.lanes != 1)
		FAIL(TDSL_EDTYPE, "tdsl_list_open: tensor %" PRId64 ": DLPack type code %d, %d bits, %d lanes; expected code %d, %d bits, 1 lane", index,
		     t->dtype.code, t->dtype.bits, t->dtype.lanes, want.code, want.bits);
	if (t->device.device_type != l->t.device.device_type || t->device.device_id != l->t.device.device_id)
		FAIL(TDSL_EDEVICE, "tdsl_list_open: tensor %" PRId64 " is on DLPack device (%d, %d); expected (%d, %d)", index, (int)t->device.device_type,
		     t->device.device_id, (int)l->t.device.device_type, l->t.device.device_id);
	TRY(length_read(t, index, &n));
	if (n > MOST_EXTENT)
		FAIL(TDSL_ESHAPE, "tdsl_list_open: tensor %" PRId64 " has %" PRId64 " elements; at most " MOST_EXTENT_TEXT " are taken", index, n);
	uint64_t at = (uint64_t)(uintptr_t)t->data + t->byte_offset;
	if (n && !is_compact(t))
		FAIL(TDSL_ESTRIDE, "tdsl_list_open: tensor %" PRId64 " is not contiguous", index);
	if (n && !t->data)
		FAIL(TDSL_EINVAL, "tdsl_list_open: tensor %" PRId64 ": data is NULL; expected %" PRId64 " bytes", index, n * size);
	if (n && at % (uint64_t)size)
		FAIL(TDSL_EALIGN, "tdsl_list_open: tensor %" PRId64 ": address %p is not a multiple of %" PRId64 ", the size of an element", index,
		     (void *)(uintptr_t)at, size);
	*address = n ? at : 0;
	*length = (int32_t)n;
	*low |= *address | (uint64_t)(n * size);
	return 0;
}

/* Fills `table` and what the list's DLTensor says of it. */
static int table_fill(struct tdsl_list_s *l, const DLTensor *const *tensors, int64_t n, uint8_t *table)
{
	uint64_t *addresses = (void *)table, low = 16;
	int32_t *lengths = (void *)(table + sizeof *addresses * (size_t)n);
	int64_t total = 0;
	for (int64_t i = 0; i < n; i++) {
		TRY(entry_write(l, tensors[i], i, &addresses[i], &lengths[i], &low));
		total += lengths[i];
		if (total > MOST_EXTENT)
			FAIL(TDSL_ESHAPE, "tdsl_list_open: the tensors up to %" PRId64 " have %" PRId64 " elements; at most " MOST_EXTENT_TEXT " are taken", i, total);
	}
	l->shape[0] = n;
	l->shape[1] = total;
	l->strides[0] = (int64_t)(low & -low);
	l->strides[1] = (int64_t)(XXH3_64bits(lengths, sizeof *lengths * (size_t)n) >> 1);
	return 0;
}

static int table_place(struct tdsl_list_s *l, uint8_t *table, size_t bytes)
{
	if (l->host) {
		l->table = table;
		return 0;
	}
	TRY(tdsl_alloc(&l->table, l->device, (int64_t)bytes));
	return tdsl_upload(l->device, l->table, table, (int64_t)bytes);
}

int tdsl_list_open(tdsl_list *out, tdsl_device d, DLDataType dtype, const DLTensor *const *tensors, int64_t n)
{
	enum dtype type = dtype_by_dlpack(dtype.code, dtype.bits);
	if (!out || n < 0 || (n && !tensors))
		FAIL(TDSL_EINVAL, "tdsl_list_open: %s", !out ? "list is NULL" : n < 0 ? "a negative number of tensors" : "tensors is NULL");
	if (type == DT_NONE || dtype.bits < 8 || dtype.lanes != 1)
		FAIL(TDSL_EDTYPE, "tdsl_list_open: DLPack type code %d, %d bits, %d lanes cannot be in a list", dtype.code, dtype.bits, dtype.lanes);
	if (!d)
		TRY(tdsl_default(&d));
	TRY(device_open_check(d, "tdsl_list_open"));
	struct tdsl_list_s *l = calloc(1, sizeof *l);
	uint8_t *table = malloc(table_bytes(n) + 8);
	int rc = l && table ? 0 : error_set(TDSL_ENOMEM, "out of memory");
	if (rc == 0) {
		l->device = d;
		l->host = d->host_tensors && (!n || !tensors[0] || tensors[0]->device.device_type == kDLCPU);
		l->t = (DLTensor){.dtype = {dtype.code, dtype.bits, TDSL_LIST}, .ndim = 2, .shape = l->shape, .strides = l->strides,
		                  .device = l->host ? (DLDevice){kDLCPU, 0} : n && tensors[0] ? tensors[0]->device : d->dl};
		rc = table_fill(l, tensors, n, table);
	}
	if (rc == 0)
		rc = table_place(l, table, table_bytes(n));
	if (rc == 0 && l->host)
		table = NULL;
	free(table);
	if (rc < 0) {
		tdsl_list_close(l);
		return rc;
	}
	l->t.data = l->table;
	*out = l;
	return 0;
}

const DLTensor *tdsl_list_tensor(tdsl_list l)
{
	return l ? &l->t : NULL;
}

void tdsl_list_close(tdsl_list l)
{
	if (!l)
		return;
	if (l->host)
		free(l->table);
	else if (l->table)
		tdsl_free(l->device, l->table);
	free(l);
}

int list_view(struct view *v, const char *kernel, const char *param, const DLTensor *t)
{
	if (t->ndim != 2 || !t->shape || !t->strides || t->shape[0] < 0 || t->shape[1] < 0 || t->strides[0] < 1)
		FAIL(TDSL_EINVAL, "%s: argument '%s': not a list as tdsl_list_open makes it", kernel, param);
	v->list = true;
	v->rank = 2;
	v->address = (uintptr_t)t->data + t->byte_offset;
	for (int d = 0; d < 2; d++) {
		v->extent[d] = t->shape[d];
		v->stride[d] = t->strides[d];
	}
	v->empty = t->shape[0] == 0 || t->shape[1] == 0;
	v->bytes.span = v->bytes.inner = table_bytes(t->shape[0]);
	v->bytes.list = v->bytes.span ? dtype_info(v->dtype)->bits / 8 : 0;
	v->bytes.host = v->host;
	if (v->address % 8 || (v->bytes.span && !t->data))
		FAIL(TDSL_EALIGN, "%s: argument '%s': the list's table at %p; expected a multiple of 8", kernel, param, (void *)v->address);
	return 0;
}

int64_t list_count(uintptr_t table, const struct plan_tensor *t)
{
	return table && t->list ? (int64_t)(t->span / (sizeof(uint64_t) + sizeof(int32_t))) : 0;
}

struct host_range list_range(uintptr_t table, const struct plan_tensor *t, int64_t index)
{
	uint64_t address;
	int32_t length;
	const char *at = (const char *)table;
	memcpy(&address, at + sizeof address * (size_t)index, sizeof address);
	memcpy(&length, at + sizeof address * (size_t)list_count(table, t) + sizeof length * (size_t)index, sizeof length);
	return (struct host_range){.base = (uintptr_t)address, .bytes = (size_t)length * t->list};
}
