/* e2e_lists_test.c -- lists of separate tensors in one launch on both simulated chips, against f64: largest magnitude, norm, scale, Adam
 * over lists of none, of empty, of single, of odd and of long tensors, with aligned and unaligned bases; and what is refused.
 * Every tensor lies in poisoned memory of its own. */
#include "e2e_rows.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 80 };

struct lengths { int k; int64_t n[MOST]; bool shifted; const char *name; };

static const struct lengths lists[] = {
	{0, {0}, false, "no tensors"}, {3, {0}, false, "empty tensors"}, {1, {1}, false, "one element"}, {1, {769}, false, "one tensor of 769"},
	{5, {0, 8, 131072, 0, 4096}, false, "whole vectors"}, {6, {1, 769, 0, 4096, 131072, 5}, false, "mixed"},
	{5, {769, 4096, 0, 1, 2048}, true, "unaligned bases"}, {4, {4096, 8192, 16, 2048}, true, "whole vectors, unaligned bases"},
};
enum { LISTS = sizeof lists / sizeof *lists };

/* More than a wave finds at a time. */
static struct lengths many(void)
{
	struct lengths l = {.k = MOST, .name = "eighty tensors"};
	for (int i = 0; i < MOST; i++)
		l.n[i] = i * 37 % 101 * (i % 7);
	return l;
}

/* One list: its tensors, what is in them, the argument that stands for them. */
struct list { struct lengths of; enum e2e_type type; struct e2e_tensor *t[MOST]; double *v[MOST]; tdsl_list handle; };

static double half_value(enum e2e_type t, uint16_t bits) { return ref_half_value(t == E2E_BF16 ? REF_BF16 : REF_F16, bits); }

static DLDataType element(enum e2e_type t)
{
	return t == E2E_F32 ? (DLDataType){TDSL_DL_FLOAT, 32, 1} : t == E2E_BF16 ? (DLDataType){TDSL_DL_BFLOAT, 16, 1} : (DLDataType){TDSL_DL_FLOAT, 16, 1};
}

static tdsl_device device_of(const struct e2e_chip *chip)
{
	tdsl_device d;
	ck_assert_int_eq(tdsl_open(&d, chip->device), 0);
	return d;
}

/* size 0: an output, nothing in it; negative: magnitudes. */
static void list_make(struct list *l, struct call *c, const struct lengths *of, enum e2e_type type, double size)
{
	const DLTensor *t[MOST];
	*l = (struct list){.of = *of, .type = type};
	for (int k = 0; k < of->k; k++) {
		uint8_t *raw = room(of->n[k], 4);
		l->v[k] = room(of->n[k], sizeof *l->v[k]);
		for (int64_t i = 0; i < of->n[k]; i++) {
			double v = ref_normal(&c->random) * size;
			v = size < 0 ? fabs(v) : v;
			if (type == E2E_F32)
				l->v[k][i] = ((float *)(void *)raw)[i] = (float)v;
			else
				l->v[k][i] = half_value(type, ((uint16_t *)(void *)raw)[i] = ref_half_round(type == E2E_BF16 ? REF_BF16 : REF_F16, v));
		}
		l->t[k] = e2e_tensor(type, 1, &of->n[k], (struct e2e_place){.shift = of->shifted ? 1 + k % 3 : 0}, size ? raw : NULL);
		t[k] = &l->t[k]->t;
		free(raw);
	}
	tdsl_device d = device_of(c->chip);
	ck_assert_msg(tdsl_list_open(&l->handle, d, element(type), t, of->k) == 0, "%s: %s", c->what, tdsl_error());
	tdsl_close(d);
	c->args[c->n++].t = tdsl_list_tensor(l->handle);
}

static void list_free(struct list *l)
{
	tdsl_list_close(l->handle);
	for (int k = 0; k < l->of.k; k++) {
		e2e_free(l->t[k]);
		free(l->v[k]);
	}
}

/* Elements within `relative`, or of 16 bits within the rounding of their type. */
static void list_near(struct list *l, const struct call *c, double *const *want, double relative, double absolute)
{
	for (int k = 0; k < l->of.k; k++) {
		float *got = room(l->of.n[k], sizeof *got);
		e2e_read(l->t[k], got, c->what);
		for (int64_t i = 0; i < l->of.n[k]; i++) {
			double g = l->type == E2E_F32 ? (double)got[i] : half_value(l->type, ((uint16_t *)(void *)got)[i]), near = l->type == E2E_F32 ? relative : 0x1p-8 + relative;
			if (!(fabs(g - want[k][i]) <= near * fabs(want[k][i]) + absolute))
				ck_abort_msg("%s: tensor %d [%ld]: found %.9g, expected %.9g", c->what, k, (long)i, g, want[k][i]);
		}
		free(got);
	}
}

/* --- per tensor: the largest magnitude, the sum of squares */

static void measured(const struct e2e_chip *chip, const struct lengths *of, bool squares)
{
	struct call c;
	struct list x;
	double want[MOST], start[MOST];
	call_begin(&c, chip, squares ? "multi_tensor_l2norm" : "multi_tensor_amax", "%s", of->name);
	list_make(&x, &c, of, e2e_input(), 2);
	for (int k = 0; k < of->k; k++) {
		want[k] = start[k] = k % 3 * 0.25;
		for (int64_t i = 0; i < of->n[k]; i++)
			want[k] = squares ? want[k] + x.v[k][i] * x.v[k][i] : fmax(want[k], fabs(x.v[k][i]));
	}
	call_values(&c, E2E_F32, SHAPE(of->k), start);
	c.tensors[0] = NULL;
	call_go(&c);
	call_near(&c, 1, want, 0x1p-16, 0);
	call_end(&c);
	list_free(&x);
}

static void scaled(const struct e2e_chip *chip, const struct lengths *of, enum e2e_type result)
{
	struct call c;
	struct list x, y;
	double factor[MOST], *want[MOST];
	call_begin(&c, chip, "multi_tensor_scale", "%s", of->name);
	list_make(&x, &c, of, e2e_input(), 2);
	for (int k = 0; k < of->k; k++)
		factor[k] = k % 5 - 1.75;
	call_values(&c, E2E_F32, SHAPE(of->k), factor);
	list_make(&y, &c, of, result, 0);
	for (int k = 0; k < of->k; k++) {
		want[k] = room(of->n[k], sizeof **want);
		for (int64_t i = 0; i < of->n[k]; i++)
			want[k][i] = x.v[k][i] * factor[k];
	}
	call_go(&c);
	list_near(&y, &c, want, 0x1p-22, 0x1p-130);
	call_end(&c);
	for (int k = 0; k < of->k; k++)
		free(want[k]);
	list_free(&x), list_free(&y);
}

static void adam(const struct e2e_chip *chip, const struct lengths *of, enum e2e_type params)
{
	struct call c;
	struct list g, p, m, v;
	struct ref_adam a = {(float)0.01, (float)0.9, (float)0.999, (float)1e-8, (float)0.19, (float)0.002, 0};
	double decay[MOST];
	call_begin(&c, chip, "multi_tensor_adam", "%s", of->name);
	for (int k = 0; k < of->k; k++)
		decay[k] = k % 4 * 0.25;
	list_make(&g, &c, of, e2e_input(), 1);
	call_values(&c, E2E_F32, SHAPE(of->k), decay);
	list_make(&p, &c, of, params, 1), list_make(&m, &c, of, E2E_F32, 1), list_make(&v, &c, of, E2E_F32, -1);
	call_number(&c, a.rate), call_number(&c, a.beta1), call_number(&c, a.beta2), call_number(&c, a.eps);
	call_number(&c, a.correct1), call_number(&c, a.correct2);
	call_go(&c);
	for (int k = 0; k < of->k; k++)
		for (int64_t i = 0; i < of->n[k]; i++) {
			a.decay = decay[k];
			ref_adam(&a, g.v[k][i], &p.v[k][i], &m.v[k][i], &v.v[k][i]);
		}
	list_near(&p, &c, p.v, 0x1p-18, 0x1p-20);
	list_near(&m, &c, m.v, 0x1p-20, 0x1p-20);
	list_near(&v, &c, v.v, 0x1p-20, 0x1p-24);
	call_end(&c);
	list_free(&g), list_free(&p), list_free(&m), list_free(&v);
}

START_TEST(lists_agree)
{
	const struct e2e_chip *chip = &e2e_chips[_i];
	const struct lengths eighty = many();
	for (int l = 0; l <= LISTS; l++) {
		const struct lengths *of = l < LISTS ? &lists[l] : &eighty;
		measured(chip, of, false);
		measured(chip, of, true);
		scaled(chip, of, e2e_input());
		scaled(chip, of, E2E_F32);                     /* not in the pack: compiled for the call */
		adam(chip, of, E2E_BF16);
		adam(chip, of, E2E_F32);
	}
}
END_TEST

/* Whole vectors take the variant with wide accesses, anything else the general one. */
START_TEST(variants_follow_from_the_lists)
{
	static const struct { int list; const char *predicate; } cases[] = {{4, "aligned"}, {5, "any"}, {6, "any"}, {7, "any"}};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tdsl_last last;
		measured(&e2e_chips[_i], &lists[cases[i].list], false);
		ck_assert_int_eq(tdsl_last_call(&last), 0);
		ck_assert_str_eq(last.predicate, cases[i].predicate);
	}
}
END_TEST

/* --- what is refused */

START_TEST(misuse_of_arguments_is_refused)
{
	const struct e2e_chip *chip = &e2e_chips[_i];
	static const struct lengths two = {2, {5, 7}, false, "two"}, other = {2, {6, 6}, false, "others"}, three = {3, {5, 7, 0}, false, "three"};
	const double ones[3] = {1, 1, 1};
	for (int wrong = 0; wrong < 6; wrong++) {
		struct call c;
		struct list x, y, z = {0};
		call_begin(&c, chip, "multi_tensor_scale", "mistake %d", wrong);
		list_make(&x, &c, &two, e2e_input(), 1);
		call_values(&c, E2E_F32, SHAPE(wrong == 2 ? 3 : 2), ones);
		list_make(&y, &c, wrong == 0 ? &other : wrong == 1 ? &three : &two, e2e_input(), 0);
		union tdsl_arg *args = c.args;
		DLTensor broken = *args[0].t;
		if (wrong == 3)                                /* a tensor where a list belongs */
			args[0].t = &x.t[0]->t;
		if (wrong == 4) {                              /* and the other way round */
			list_make(&z, &c, &two, E2E_F32, 1);
			args[1].t = args[--c.n].t;
		}
		if (wrong == 5) {
			broken.data = NULL;
			args[0].t = &broken;
		}
		const struct { int error; const char *words; } want[] = {
			{TDSL_ESHAPE, "argument 'y': its tensors have other lengths than those of 'x'"}, {TDSL_ESHAPE, "argument 'y', dimension 0: extent 3; expected K = 2"},
			{TDSL_ESHAPE, "argument 'factor', dimension 0: extent 3"}, {TDSL_EDTYPE, "argument 'x' is one tensor; expected a list"},
			{TDSL_EDTYPE, "argument 'factor' is a list of tensors"}, {TDSL_EALIGN, "argument 'x': the list's table"}};
		call_refused(&c, want[wrong].error, want[wrong].words);
		call_end(&c);
		list_free(&x), list_free(&y);
		if (z.handle)
			list_free(&z);
	}
}
END_TEST

/* A table that names memory that is not there: the simulated device says whose. */
START_TEST(entries_outside_memory_are_found)
{
	static const struct lengths two = {2, {5, 7}, false, "two"};
	const double zero[2] = {0, 0};
	struct call c;
	struct list x;
	call_begin(&c, &e2e_chips[_i], "multi_tensor_amax", "an entry at NULL");
	list_make(&x, &c, &two, e2e_input(), 1);
	call_values(&c, E2E_F32, SHAPE(2), zero);
	memset(c.args[0].t->data, 0, sizeof(uint64_t));
	call_refused(&c, TDSL_EDEVICE, "argument 'x'");
	call_end(&c);
	list_free(&x);
}
END_TEST

START_TEST(misuse_of_open_is_refused)
{
	int64_t shape[2] = {4, 6}, strides[2] = {8, 1}, negative[1] = {-1}, huge[2] = {1 << 16, 1 << 16};
	static uint16_t data[64];
	tdsl_device d = device_of(&e2e_chips[0]);
	tdsl_list l;
	const DLDataType bf16 = {TDSL_DL_BFLOAT, 16, 1}, fp4 = {TDSL_DL_E2M1FN, 4, 2};
	const DLTensor good = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = bf16, .shape = shape};
	DLTensor bad[7];
	const struct { int error; const char *words; } want[7] = {
		{TDSL_ESTRIDE, "tensor 1 is not contiguous"}, {TDSL_EDTYPE, "tensor 1: DLPack type code 2, 32 bits"}, {TDSL_EALIGN, "tensor 1: address"},
		{TDSL_EINVAL, "tensor 1: data is NULL"}, {TDSL_ESHAPE, "tensor 1, dimension 0: extent -1"}, {TDSL_EDEVICE, "tensor 1 is on DLPack device (10, 0)"},
		{TDSL_ESHAPE, "tensor 1 has 4294967296 elements"}};
	for (int i = 0; i < 7; i++)
		bad[i] = good;
	bad[0].strides = strides;
	bad[1].dtype = (DLDataType){TDSL_DL_FLOAT, 32, 1};
	bad[2].data = (char *)data + 1;
	bad[3].data = NULL;
	bad[4].ndim = 1, bad[4].shape = negative;
	bad[5].device = (DLDevice){kDLROCM, 0};
	bad[6].shape = huge;
	for (int i = 0; i < 7; i++) {
		const DLTensor *t[2] = {&good, &bad[i]};
		int rc = tdsl_list_open(&l, d, bf16, t, 2);
		ck_assert_msg(rc == want[i].error && strstr(tdsl_error(), want[i].words), "case %d: %s: %s", i, tdsl_error_name(rc), tdsl_error());
	}
	const DLTensor *hole[2] = {&good, NULL};
	ck_assert_int_eq(tdsl_list_open(&l, d, bf16, hole, 2), TDSL_EINVAL);
	ck_assert_int_eq(tdsl_list_open(&l, d, bf16, hole, -1), TDSL_EINVAL);
	ck_assert_int_eq(tdsl_list_open(&l, d, bf16, NULL, 1), TDSL_EINVAL);
	ck_assert_int_eq(tdsl_list_open(NULL, d, bf16, hole, 1), TDSL_EINVAL);
	ck_assert_int_eq(tdsl_list_open(&l, d, fp4, hole, 1), TDSL_EDTYPE);
	ck_assert_ptr_null(tdsl_list_tensor(NULL));
	tdsl_list_close(NULL);
	tdsl_close(d);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("end to end: lists of tensors");
	TCase *t = tcase_create("lists");
	tcase_set_timeout(t, 1000);
	tcase_add_loop_test(t, lists_agree, 0, 2);
	tcase_add_loop_test(t, variants_follow_from_the_lists, 0, 2);
	tcase_add_loop_test(t, misuse_of_arguments_is_refused, 0, 2);
	tcase_add_loop_test(t, entries_outside_memory_are_found, 0, 2);
	tcase_add_test(t, misuse_of_open_is_refused);
	suite_add_tcase(suite, t);
	return e2e_main(suite);
}
