/* e2e_rows.c -- see e2e_rows.h. */
#include "e2e_rows.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool e2e_full(void) { return getenv("E2E_FULL") != NULL; }

enum e2e_type e2e_input(void)
{
	const char *t = getenv("E2E_IN");
	return !t || !*t ? E2E_BF16 : strcmp(t, "f16") == 0 ? E2E_F16 : E2E_F32;
}

struct shape rows_of(int64_t batch, int64_t m, int64_t columns, struct e2e_place place)
{
	return batch ? (struct shape){3, {batch, m, columns}, place} : (struct shape){2, {m, columns}, place};
}

double *doubles(int64_t n) { return room(n, sizeof(double)); }

double *transposed(const double *v, int64_t rows, int64_t n)
{
	double *t = doubles(rows * n);
	for (int64_t i = 0; i < rows * n; i++)
		t[i % n * rows + i / n] = v[i];
	return t;
}

void call_begin(struct call *c, const struct e2e_chip *chip, const char *kernel, const char *more, ...)
{
	va_list list;
	*c = (struct call){.chip = chip, .kernel = kernel, .random = {77}};
	int n = snprintf(c->what, sizeof c->what, "%s on %s, ", kernel, chip->name);
	va_start(list, more);
	vsnprintf(c->what + n, sizeof c->what - (size_t)n, more, list);
	va_end(list);
}

static int64_t count(struct shape s)
{
	int64_t n = 1;
	for (int i = 0; i < s.rank; i++)
		n *= s.n[i];
	return n;
}

/* --- numbers as bytes of a type, and back */

static double narrow(enum e2e_type t, double v, void *raw, int64_t at)
{
	switch (t) {
	case E2E_BF16: case E2E_F16: {
		enum ref_half h = t == E2E_BF16 ? REF_BF16 : REF_F16;
		((uint16_t *)raw)[at] = ref_half_round(h, v);
		return ref_half_value(h, ((uint16_t *)raw)[at]);
	}
	case E2E_F32: return ((float *)raw)[at] = (float)v;
	case E2E_I32: return ((int32_t *)raw)[at] = (int32_t)v;
	case E2E_E8M0: {
		uint8_t code = (uint8_t)(ilogb(v) + 127);
		((uint8_t *)raw)[at] = code;
		return ldexp(1, code - 127);
	}
	case E2E_E2M1: {
		uint8_t code = ref_code_round(REF_E2M1, v);
		((uint8_t *)raw)[at / 2] |= (uint8_t)(code << at % 2 * 4);
		return ref_code_value(REF_E2M1, code);
	}
	default:
		((uint8_t *)raw)[at] = ref_code_round(e2e_type_code(t), v);
		return ref_code_value(e2e_type_code(t), ((uint8_t *)raw)[at]);
	}
}

static int add(struct call *c, enum e2e_type t, struct shape s, const void *dense)
{
	ck_assert_int_lt(c->n, CALL_ARGS);
	int at = c->n++;
	c->tensors[at] = e2e_tensor(t, s.rank, s.n, s.place, dense);
	c->types[at] = t;
	c->count[at] = count(s);
	c->args[at].t = &c->tensors[at]->t;
	return at;
}

double *call_values(struct call *c, enum e2e_type t, struct shape s, const double *v)
{
	int64_t n = count(s);
	void *raw = room(n, 4);
	double *kept = room(n, sizeof *kept);
	for (int64_t i = 0; i < n; i++)
		kept[i] = narrow(t, v[i], raw, i);
	c->values[add(c, t, s, raw)] = kept;
	free(raw);
	return kept;
}

double *call_in(struct call *c, enum e2e_type t, struct shape s, double size)
{
	int64_t n = count(s);
	double *v = room(n, sizeof *v);
	for (int64_t i = 0; i < n; i++)
		v[i] = ref_normal(&c->random) * size;
	double *kept = call_values(c, t, s, v);
	free(v);
	return kept;
}

void call_absent(struct call *c) { c->n++; }
void call_number(struct call *c, double v) { c->args[c->n++].f = v; }
void call_integer(struct call *c, int64_t v) { c->args[c->n++].i = v; }
int call_out(struct call *c, enum e2e_type t, struct shape s) { return add(c, t, s, NULL); }
int call_maybe(struct call *c, bool there, enum e2e_type t, struct shape s)
{
	if (there)
		return call_out(c, t, s);
	call_absent(c);
	return -1;
}

void call_go(struct call *c) { e2e_call(c->chip, c->kernel, c->args, c->n, c->what); }

void call_refused(struct call *c, int error, const char *words) { e2e_refused(c->chip, c->kernel, c->args, c->n, error, words, c->what); }

void call_end(struct call *c)
{
	for (int i = 0; i < c->n; i++) {
		if (c->tensors[i])
			e2e_free(c->tensors[i]);
		free(c->values[i]);
	}
}

/* --- comparisons.  An assertion that holds writes where it is to a file: too slow for each element. */

void *call_result(struct call *c, int arg)
{
	uint8_t *raw = room(c->count[arg], 4);
	e2e_read(c->tensors[arg], raw, c->what);
	for (int64_t i = c->count[arg] - 1; i >= 0 && c->types[arg] == E2E_E2M1; i--)
		raw[i] = raw[i / 2] >> i % 2 * 4 & 15;
	return raw;
}

void call_plain(struct call *c, int arg, const double *want, int64_t columns)
{
	char why[128];
	enum ref_half h = c->types[arg] == E2E_BF16 ? REF_BF16 : REF_F16;
	uint16_t *got = call_result(c, arg);
	struct ref_diff d = ref_diff_half(h, got, want, columns ? c->count[arg] / columns : 0, columns);
	ck_assert_msg(ref_agree_plain(&d, c->rounds_within ? 2 : 1, why, sizeof why), "%s: argument %d [%ld]: %s (found %g, expected %g)", c->what, arg, (long)d.worst, why,
	              ref_half_value(h, got[d.worst]), want[d.worst]);
	free(got);
}

void call_within(struct call *c, int arg, const double *want, const double *bounds)
{
	float *got = call_result(c, arg);
	for (int64_t i = 0; i < c->count[arg]; i++) {
		double g = c->types[arg] == E2E_F32 ? (double)got[i] : ref_half_value(c->types[arg] == E2E_BF16 ? REF_BF16 : REF_F16, ((uint16_t *)got)[i]);
		if (!(fabs(g - want[i]) <= bounds[i] || (isnan(g) && isnan(want[i])) || g == want[i]))
			ck_abort_msg("%s: argument %d [%ld]: found %.9g, expected %.9g", c->what, arg, (long)i, g, want[i]);
	}
	free(got);
}

void call_near(struct call *c, int arg, const double *want, double relative, double absolute)
{
	double *bounds = room(c->count[arg], sizeof *bounds);
	for (int64_t i = 0; i < c->count[arg]; i++)
		bounds[i] = relative * fabs(want[i]) + absolute;
	call_within(c, arg, want, bounds);
	free(bounds);
}

void call_codes(struct call *c, int arg, const double *want)
{
	char why[128];
	enum ref_code f = e2e_type_code(c->types[arg]);
	uint8_t *got = call_result(c, arg);
	struct ref_diff d = ref_diff_codes(f, got, want, c->count[arg]);
	ck_assert_msg(ref_agree_codes(&d, why, sizeof why), "%s: argument %d [%ld]: %s (found %g, expected %g)", c->what, arg, (long)d.worst, why,
	              ref_code_value(f, got[d.worst]), want[d.worst]);
	free(got);
}

void call_codes_within(struct call *c, int arg, const double *want, double absolute)
{
	enum ref_code f = e2e_type_code(c->types[arg]);
	uint8_t *got = call_result(c, arg);
	for (int64_t i = 0; i < c->count[arg]; i++) {
		double a = absolute + 0x1p-20 * fabs(want[i]);
		int32_t lo = ref_code_step(f, ref_code_round(f, want[i] - a)), hi = ref_code_step(f, ref_code_round(f, want[i] + a)), g = ref_code_step(f, got[i]);
		if (g < lo || g > hi)
			ck_abort_msg("%s: argument %d [%ld]: found %g, expected %g", c->what, arg, (long)i, ref_code_value(f, got[i]), want[i]);
	}
	free(got);
}

void call_scales(struct call *c, int arg, const double *want)
{
	char why[128];
	void *got = call_result(c, arg);
	if (c->types[arg] == E2E_F32) {
		struct ref_diff d = ref_diff_f32(got, want, c->count[arg]);
		ck_assert_msg(ref_agree_scale(&d, why, sizeof why), "%s: scale %ld: %s (found %.9g, expected %.9g)", c->what, (long)d.worst, why,
		              (double)((float *)got)[d.worst], want[d.worst]);
	}
	for (int64_t i = 0; i < c->count[arg] && c->types[arg] == E2E_E8M0; i++)
		if (((uint8_t *)got)[i] != ilogb(want[i]) + 127)
			ck_abort_msg("%s: scale %ld: found 2^%d, expected %g", c->what, (long)i, ((uint8_t *)got)[i] - 127, want[i]);
	free(got);
}

void call_settle(struct call *c, int arg, enum ref_code code, double *y, double *scale, int64_t rows, int64_t n, int64_t group)
{
	int64_t groups = (n + group - 1) / group;
	uint8_t *got = c->types[arg] == E2E_E8M0 ? call_result(c, arg) : NULL;
	for (int64_t i = 0; got && i < rows * groups; i++) {
		int64_t first = i / groups * n + i % groups * group, most = n - i % groups * group, count = group < most ? group : most;
		double top = ref_amax(y + first, count) / ref_code_max(code);    /* above a half, up to 1 */
		int by = got[i] - 127 - ilogb(scale[i]);
		if (!(by == -1 ? top > 0 && top <= 0.5 + 0x1p-20 : by == 1 && top >= 1 - 0x1p-20))
			continue;
		scale[i] = ldexp(scale[i], by);
		for (int64_t j = 0; j < count; j++)
			y[first + j] = ldexp(y[first + j], -by);
	}
	free(got);
}

void call_any(struct call *c, int arg, const double *want, int64_t columns)
{
	if (c->types[arg] == E2E_BF16 || c->types[arg] == E2E_F16)
		call_plain(c, arg, want, columns);
	else if (c->types[arg] == E2E_F32)
		call_near(c, arg, want, 0x1p-20, 0x1p-20);
	else
		call_codes(c, arg, want);
}
