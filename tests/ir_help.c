/* ir_help.c -- see ir_help.h.  Reads and writes elements by itself, so that the evaluator's own accesses are tested too. */
#include "ir_help.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/num.h"

bool ir_help_blessing(void) { return getenv("BLESS") != NULL; }

char *ir_help_file(struct arena *ar, const char *path)
{
	FILE *f = fopen(path, "rb");
	ck_assert_msg(f != NULL, "cannot read %s", path);
	fseek(f, 0, SEEK_END);
	long n = ftell(f);
	rewind(f);
	char *text = arena_alloc(ar, (size_t)n + 1);
	ck_assert_uint_eq(fread(text, 1, (size_t)n, f), (size_t)n);
	fclose(f);
	return text;
}

void ir_help_bless(const char *path, const char *text)
{
	FILE *f = ir_help_blessing() ? fopen(path, "wb") : NULL;
	if (!f)
		return;
	fputs(text, f);
	fclose(f);
}

void ir_run_open(struct ir_run *r, const char *name)
{
	memset(r, 0, sizeof *r);
	r->random = 0x9E3779B97F4A7C15u;
	const char *text = strchr(name, '{') ? name : ir_help_file(&r->arena, arena_printf(&r->arena, "tests/ir/%s.ir", name));
	r->k = ir_parse(&r->arena, text, r->err, sizeof r->err);
	ck_assert_msg(r->k != NULL, "%s: %s", name, r->err);
	ck_assert_msg(ir_verify(r->k, r->err, sizeof r->err) == 0, "%s: %s", name, r->err);
	for (int i = 0; i < r->k->nparams; i++)
		r->scalars[i] = r->k->params[i].default_value;
}

void ir_run_close(struct ir_run *r)
{
	for (int i = 0; i < r->k->nparams; i++)
		free(r->tensors[i].data);
	arena_free(&r->arena);
}

static int param_of(struct ir_run *r, const char *name)
{
	int i = 0;
	while (i < r->k->nparams && strcmp(r->k->params[i].name, name) != 0)
		i++;
	ck_assert_msg(i < r->k->nparams, "no parameter %s", name);
	return i;
}

void ir_run_symbol(struct ir_run *r, const char *name, int64_t value)
{
	for (int i = 0; i < r->k->nsymbols; i++)
		if (strcmp(r->k->symbols[i], name) == 0)
			r->symbols[i] = value;
}

void ir_run_scalar(struct ir_run *r, const char *name, double value) { r->scalars[param_of(r, name)] = value; }

void ir_run_tile(struct ir_run *r, const char *axis, int tile)
{
	for (int p = 0; p < r->k->nphases; p++)
		for (int a = 0; a < r->k->phases[p].naxes; a++)
			if (strcmp(r->k->phases[p].axes[a].name, axis) == 0)
				r->k->phases[p].axes[a].tile = tile;
}

/* -1 .. 1 */
static double random_of(struct ir_run *r)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return (double)(int64_t)r->random * 0x1p-63;
}

struct ir_tensor *ir_run_find(struct ir_run *r, const char *name) { return &r->tensors[param_of(r, name)]; }

struct ir_tensor *ir_run_tensor(struct ir_run *r, const char *name, double scale)
{
	int p = param_of(r, name);
	struct ir_tensor *t = &r->tensors[p];
	struct hexpr_env env = {.symbols = r->symbols, .nsymbols = r->k->nsymbols};
	const char *why;
	int64_t n = 1;
	t->dtype = r->k->params[p].dtype;
	t->rank = r->k->params[p].rank;
	for (int d = t->rank - 1; d >= 0; d--) {
		ck_assert_int_eq(hexpr_eval(r->k->params[p].extent[d], &env, &t->extent[d], &why), 0);
		t->stride[d] = n;
		n *= t->extent[d];
	}
	t->data = malloc((size_t)dtype_bytes(t->dtype, n) + 1);
	memset(t->data, 0xa5, (size_t)dtype_bytes(t->dtype, n) + 1);
	for (int64_t i = 0; i < n && r->k->params[p].role != IR_OUT; i++)
		ir_tensor_set(t, i, random_of(r) * scale);
	return t;
}

int ir_run_go(struct ir_run *r)
{
	struct ir_eval e = {.kernel = r->k, .tensors = r->tensors, .scalars = r->scalars, .symbols = r->symbols, .check_bounds = true};
	return ir_evaluate(&e, r->err, sizeof r->err);
}

int64_t ir_tensor_count(const struct ir_tensor *t)
{
	int64_t n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= t->extent[d];
	return n;
}

static int64_t place(const struct ir_tensor *t, int64_t flat)
{
	int64_t at = 0;
	for (int d = t->rank - 1; d >= 0; d--) {
		at += flat % t->extent[d] * t->stride[d];
		flat /= t->extent[d];
	}
	return at;
}

double ir_tensor_get(const struct ir_tensor *t, int64_t flat)
{
	int64_t i = place(t, flat);
	switch (t->dtype) {
	case DT_F32: return ((const float *)t->data)[i];
	case DT_I32: return ((const int32_t *)t->data)[i];
	case DT_I64: return (double)((const int64_t *)t->data)[i];
	case DT_I8: return ((const int8_t *)t->data)[i];
	case DT_U8: case DT_I1: return ((const uint8_t *)t->data)[i];
	case DT_F16: case DT_BF16: return num_to_f32(((const uint16_t *)t->data)[i], t->dtype);
	case DT_E2M1: return num_to_f32(((const uint8_t *)t->data)[i / 2] >> i % 2 * 4 & 15, t->dtype);
	default: return num_to_f32(((const uint8_t *)t->data)[i], t->dtype);
	}
}

void ir_tensor_set(const struct ir_tensor *t, int64_t flat, double v)
{
	int64_t i = place(t, flat);
	uint8_t *byte = t->data;
	switch (t->dtype) {
	case DT_F32: ((float *)t->data)[i] = (float)v; break;
	case DT_I32: ((int32_t *)t->data)[i] = (int32_t)v; break;
	case DT_I64: ((int64_t *)t->data)[i] = (int64_t)v; break;
	case DT_I8: ((int8_t *)t->data)[i] = (int8_t)v; break;
	case DT_U8: case DT_I1: byte[i] = (uint8_t)v; break;
	case DT_F16: case DT_BF16: ((uint16_t *)t->data)[i] = (uint16_t)num_from_f32((float)v, t->dtype, false); break;
	case DT_E2M1: byte[i / 2] = (uint8_t)((byte[i / 2] & (i % 2 ? 15 : 240)) | num_from_f32((float)v, t->dtype, true) << i % 2 * 4); break;
	default: byte[i] = (uint8_t)num_from_f32((float)v, t->dtype, true);
	}
}
