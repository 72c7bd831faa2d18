/* e2e.c -- devices, guarded tensors and calls for the end-to-end tests.  See e2e.h. */
#include "e2e.h"
#include "sample.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct e2e_chip e2e_chips[2] = {
	{"gfx942", "sim:gfx942", REF_E4M3FNUZ, REF_E5M2FNUZ},
	{"gfx950", "sim:gfx950", REF_E4M3FN, REF_E5M2},
};

static const DLDataType types[] = {
	[E2E_BF16] = {TDSL_DL_BFLOAT, 16, 1}, [E2E_F16] = {TDSL_DL_FLOAT, 16, 1}, [E2E_F32] = {TDSL_DL_FLOAT, 32, 1},
	[E2E_I32] = {TDSL_DL_INT, 32, 1}, [E2E_I8] = {TDSL_DL_INT, 8, 1},
	[E2E_E4M3FN] = {TDSL_DL_E4M3FN, 8, 1}, [E2E_E4M3FNUZ] = {TDSL_DL_E4M3FNUZ, 8, 1},
	[E2E_E8M0] = {TDSL_DL_E8M0FNU, 8, 1}, [E2E_E2M1] = {TDSL_DL_E2M1FN, 4, 2},
	[E2E_E5M2] = {TDSL_DL_E5M2, 8, 1}, [E2E_E5M2FNUZ] = {TDSL_DL_E5M2FNUZ, 8, 1},
	[E2E_U8] = {TDSL_DL_UINT, 8, 1}, [E2E_BOOL] = {TDSL_DL_BOOL, 8, 1},
};

static const enum e2e_type code_types[] = {[REF_E4M3FN] = E2E_E4M3FN, [REF_E4M3FNUZ] = E2E_E4M3FNUZ, [REF_INT8] = E2E_I8, [REF_E2M1] = E2E_E2M1,
	[REF_E5M2] = E2E_E5M2, [REF_E5M2FNUZ] = E2E_E5M2FNUZ};

enum e2e_type e2e_code_type(enum ref_code f) { return code_types[f]; }

enum ref_code e2e_type_code(enum e2e_type t)
{
	int f = 0;
	while (code_types[f] != t)
		ck_assert_int_lt(++f, (int)(sizeof code_types / sizeof *code_types));
	return (enum ref_code)f;
}

enum e2e_type e2e_half_type(enum ref_half t)
{
	return t == REF_BF16 ? E2E_BF16 : E2E_F16;
}

static int64_t count(const struct e2e_tensor *x)
{
	int64_t n = 1;
	for (int i = 0; i < x->t.ndim; i++)
		n *= x->shape[i];
	return n;
}

/* Address of the element number `i` in row-major order. */
static uint8_t *at(const struct e2e_tensor *x, int64_t i)
{
	int64_t offset = 0;
	for (int d = x->t.ndim - 1; d >= 0; d--) {
		offset += i % x->shape[d] * x->strides[d];
		i /= x->shape[d];
	}
	return (uint8_t *)x->t.data + offset * (int64_t)x->size;
}

struct e2e_tensor *e2e_tensor(enum e2e_type type, int rank, const int64_t *shape, struct e2e_place place, const void *dense)
{
	struct e2e_tensor *x = calloc(1, sizeof *x);
	ck_assert_ptr_nonnull(x);
	int64_t step = place.step ? place.step : 1, span = 1;
	int a_byte = types[type].bits < 8 ? 2 : 1;
	place.pitch /= a_byte, place.shift /= a_byte;
	x->size = (size_t)(types[type].bits * types[type].lanes / 8);
	for (int d = rank - 1; d >= 0; d--) {
		x->shape[d] = d == rank - 1 ? shape[d] / a_byte : shape[d];
		x->strides[d] = d == rank - 1 ? step : d == rank - 2 && place.pitch ? place.pitch : x->strides[d + 1] * (x->shape[d + 1] ? x->shape[d + 1] : 1);
	}
	if (place.swapped) {
		x->strides[2] = shape[1] * x->strides[1] / (shape[2] ? shape[2] : 1);
		x->strides[1] = shape[3] * step;
	}
	if (place.turned) {
		x->strides[rank - 1] = shape[rank - 2];
		x->strides[rank - 2] = 1;
	}
	for (int d = 0; d < rank; d++) {
		int from = place.turned && d >= rank - 2 ? 2 * rank - 3 - d : d;
		x->call_shape[d] = x->shape[from];
		x->call_strides[d] = x->strides[from];
	}
	for (int d = 0; d < rank; d++)
		span += x->shape[d] ? (x->shape[d] - 1) * x->strides[d] : 0;
	x->bytes = 2 * E2E_GUARD + (size_t)(span + place.shift) * x->size;
	x->bytes = (x->bytes + 255) / 256 * 256;
	x->memory = aligned_alloc(256, x->bytes);
	x->element = calloc(x->bytes, 1);
	ck_assert(x->memory && x->element);
	memset(x->memory, E2E_POISON, x->bytes);
	x->t = (DLTensor){.data = x->memory + E2E_GUARD + (size_t)place.shift * x->size, .device = {kDLCPU, 0}, .ndim = rank,
	                  .dtype = types[type], .shape = x->call_shape, .strides = x->call_strides};
	x->output = !dense;
	for (int64_t i = 0, n = count(x); i < n; i++) {
		uint8_t *p = at(x, i);
		memset(x->element + (p - x->memory), 1, x->size);
		if (dense)
			memcpy(p, (const uint8_t *)dense + (size_t)i * x->size, x->size);
	}
	return x;
}

void e2e_free(struct e2e_tensor *x)
{
	free(x->memory);
	free(x->element);
	free(x);
}

void e2e_read(struct e2e_tensor *x, void *dense, const char *what)
{
	for (size_t i = 0; i < x->bytes; i++)
		if (!x->element[i] && x->memory[i] != E2E_POISON)
			ck_abort_msg("%s: byte %ld from the output's base was overwritten", what, (long)(x->memory + i - (uint8_t *)x->t.data));
	for (int64_t i = 0, n = count(x); i < n; i++)
		memcpy((uint8_t *)dense + (size_t)i * x->size, at(x, i), x->size);
}

tdsl_kernel e2e_kernel(const struct e2e_chip *chip, const char *name, tdsl_stream *stream)
{
	static struct { const struct e2e_chip *chip; tdsl_stream stream; } open[2];
	static tdsl_pack pack;
	tdsl_device device;
	tdsl_kernel kernel;
	char path[512];
	int slot = open[0].chip && open[0].chip != chip;
	if (!open[slot].chip) {
		ck_assert_msg(tdsl_open(&device, chip->device) == 0, "%s", tdsl_error());
		ck_assert_msg(tdsl_stream_open(&open[slot].stream, device, NULL) == 0, "%s", tdsl_error());
		open[slot].chip = chip;
	}
	if (!pack) {
		const char *b = getenv("B");
		snprintf(path, sizeof path, "%s/kernels.tpack", b ? b : "build");
		ck_assert_msg(tdsl_pack_open(&pack, path) == 0, "%s", tdsl_error());
	}
	ck_assert_msg(tdsl_kernel_find(&kernel, pack, name) == 0, "%s", tdsl_error());
	*stream = open[slot].stream;
	return kernel;
}

bool e2e_shipped(const struct e2e_chip *chip, const char *name)
{
	tdsl_stream stream;
	struct tdsl_kernel_info info;
	ck_assert_int_eq(tdsl_kernel_query(&info, e2e_kernel(chip, name, &stream)), 0);
	return info.nvariants > 0;
}

void e2e_call(const struct e2e_chip *chip, const char *name, const union tdsl_arg *args, int n, const char *what)
{
	tdsl_stream stream;
	tdsl_kernel kernel = e2e_kernel(chip, name, &stream);
	void *workspace = NULL;
	int64_t bytes = tdsl_workspace(kernel, stream, args, n);
	ck_assert_msg(bytes >= 0, "%s: %s", what, tdsl_error());
	if (bytes)
		workspace = aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
	int rc = tdsl_call(kernel, stream, args, n, workspace, bytes);
	ck_assert_msg(rc == 0, "%s: %s: %s", what, tdsl_error_name(rc), tdsl_error());
	ck_assert_msg(tdsl_sync(stream) == 0, "%s: %s", what, tdsl_error());
	free(workspace);
}

bool e2e_takes(const char *kernel)
{
	static int number;
	return sample_takes(number++, sample_phase(kernel));
}

void e2e_refused(const struct e2e_chip *chip, const char *name, const union tdsl_arg *args, int n, int error, const char *words, const char *what)
{
	tdsl_stream stream;
	tdsl_kernel kernel = e2e_kernel(chip, name, &stream);
	int rc = tdsl_call(kernel, stream, args, n, NULL, 0);
	ck_assert_msg(rc == error && strstr(tdsl_error(), words), "%s: found %s: %s; expected %s with \"%s\"", what, tdsl_error_name(rc), tdsl_error(),
	              tdsl_error_name(error), words);
}

void *room(int64_t n, size_t size)
{
	void *p = calloc((size_t)(n ? n : 1), size);
	ck_assert_ptr_nonnull(p);
	return p;
}

int e2e_main(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
