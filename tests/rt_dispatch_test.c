/* rt_dispatch_test.c -- what tdsl_call decides, on `null:gfx942`: which variant, which grid and arguments, and every refusal with
 * its text.  The kernels are those of rt_model.h; nothing runs. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <xxhash.h>

#include "../runtime/include/tdsl.h"
#include "rt_model.h"

static tdsl_device dev;
static tdsl_pack pack;
static tdsl_kernel norm, add, sum;
static uint8_t *bytes;

/* One call of rmsnorm_quant: 3 rows of 64, all compact, correct.  Tests spoil parts of it. */
struct call { int64_t x[4], xs[4], w[1], ws[1], y[4], ys[4], s[4], ss[4]; DLTensor tx, tw, ty, ts; };
enum { XBASE = 0x10000000, WBASE = 0x20000000, YBASE = 0x30000000, SBASE = 0x40000000 };

static DLTensor tensor(uintptr_t base, uint8_t code, uint8_t bits, int rank, int64_t *shape, int64_t *strides)
{
	return (DLTensor){(void *)base, {kDLCPU, 0}, rank, {code, bits, 1}, shape, strides, 0};
}

static struct call *good(void)
{
	static struct call c;
	c = (struct call){.x = {3, 64}, .xs = {64, 1}, .w = {64}, .ws = {1}, .y = {3, 64}, .ys = {64, 1}, .s = {3}, .ss = {1}};
	c.tx = tensor(XBASE, TDSL_DL_BFLOAT, 16, 2, c.x, c.xs);
	c.tw = tensor(WBASE, TDSL_DL_BFLOAT, 16, 1, c.w, c.ws);
	c.ty = tensor(YBASE, TDSL_DL_E4M3FNUZ, 8, 2, c.y, c.ys);
	c.ts = tensor(SBASE, TDSL_DL_FLOAT, 32, 1, c.s, c.ss);
	return &c;
}

static int run(struct call *c)
{
	const union tdsl_arg args[] = {{.t = &c->tx}, {.t = &c->tw}, {.f = 1e-6}, {.t = &c->ty}, {.t = &c->ts}};
	return tdsl_call(norm, NULL, args, 5, NULL, 0);
}

/* Twice: the refusal must not depend on what is remembered. */
#define REFUSED(c, code, text) do { \
	for (int twice = 0; twice < 2; twice++) { \
		int rc_ = run(c); \
		ck_assert_msg(rc_ == (code), "%s, expected %s: %s", tdsl_error_name(rc_), #code, tdsl_error()); \
		ck_assert_str_eq(tdsl_error(), text); \
	} } while (0)
#define OK(call) ck_assert_msg((call) == 0, "%s", tdsl_error())

/* Another error's text, so that what follows sets its own. */
static void error_clear(void)
{
	tdsl_kernel k;
	ck_assert_int_eq(tdsl_kernel_find(&k, pack, "gelu"), TDSL_ENOTFOUND);
}

static const char *variant(void)
{
	struct tdsl_last last;
	OK(tdsl_last_call(&last));
	return last.predicate;
}

static int remembered(void)
{
	struct tdsl_last last;
	OK(tdsl_last_call(&last));
	return last.remembered;
}

static void setup(void)
{
	size_t size;
	bytes = rt_pack(&size, false);
	OK(tdsl_open(&dev, "null:gfx942"));
	OK(tdsl_pack_open_memory(&pack, bytes, size));
	OK(tdsl_kernel_find(&norm, pack, "rmsnorm_quant"));
	OK(tdsl_kernel_find(&add, pack, "scale_add"));
	OK(tdsl_kernel_find(&sum, pack, "partial_sum"));
}

static void teardown(void)
{
	tdsl_pack_close(pack);
	tdsl_close(dev);
	free(bytes);
}

/* ---- which variant */

START_TEST(first_variant_whose_predicate_holds)
{
	struct call *c = good();
	OK(run(c));
	ck_assert_str_eq(variant(), "N%8=0 aligned");
	c->tx.data = (void *)(XBASE + 2);
	OK(run(c));
	ck_assert_str_eq(variant(), "any");
	c = good();
	c->x[1] = c->w[0] = c->y[1] = 63;
	c->xs[0] = c->ys[0] = 64;
	OK(run(c));
	ck_assert_str_eq(variant(), "any");
	c = good();
	c->xs[0] = 68; /* rows of 136 bytes */
	OK(run(c));
	ck_assert_str_eq(variant(), "any");
	c = good();
	c->tx.strides = c->tw.strides = c->ty.strides = c->ts.strides = NULL;
	OK(run(c));
	ck_assert_str_eq(variant(), "N%8=0 aligned");
}
END_TEST

START_TEST(variant_that_cannot_follow_strides_is_passed_over)
{
	struct call *c = good();
	c->ws[0] = 2; /* the first variant takes no stride of w; aligned(w) already fails */
	OK(run(c));
	ck_assert_str_eq(variant(), "any");
	c = good();
	c->ss[0] = 5;
	OK(run(c));
	ck_assert_str_eq(variant(), "N%8=0 aligned"); /* it takes scale's stride */
}
END_TEST

START_TEST(calls_are_remembered_by_all_that_matters)
{
	struct call *c = good();
	OK(run(c));
	ck_assert_int_eq(remembered(), 0);
	c->tx.data = (void *)(XBASE + 4096);
	OK(run(c));
	ck_assert_int_eq(remembered(), 1);
	c->xs[0] = 128;
	OK(run(c));
	ck_assert_int_eq(remembered(), 0);
	c->tx.dtype = c->tw.dtype = (DLDataType){TDSL_DL_FLOAT, 16, 1};
	OK(run(c));
	ck_assert_int_eq(remembered(), 0);
	struct tdsl_last last;
	OK(tdsl_last_call(&last));
	ck_assert_str_eq(last.instance, "T=f16");
	ck_assert_str_eq(last.kernel, "rmsnorm_quant");
	ck_assert_str_eq(last.target, "gfx942");
}
END_TEST

START_TEST(many_shapes_do_not_disturb_each_other)
{
	struct call *c = good();
	for (int round = 0; round < 2; round++)
		for (int m = 1; m < 6000; m++) {
			c->x[0] = c->y[0] = c->s[0] = m;
			OK(run(c));
		}
}
END_TEST

/* The first variant's workgroups have 1,024 lanes: a dispatch of 2^32 lanes has place for 2^22 - 1 of them. */
static void wide_pack(tdsl_pack *p, tdsl_kernel *k, void **its)
{
	struct arena a = {0};
	struct model_pack m;
	size_t size;
	char err[200];
	rt_model(&a, &m, false);
	for (int v = 0; v < m.kernels[0].nvariants; v += 2)
		m.kernels[0].variants[v].launches[0].block = 1024;
	ck_assert_int_eq(pack_write(&m, its, &size, err, sizeof err), 0);
	arena_free(&a);
	OK(tdsl_pack_open_memory(p, *its, size));
	OK(tdsl_kernel_find(k, *p, "rmsnorm_quant"));
}

START_TEST(variant_whose_grid_does_not_fit_is_passed_over)
{
	tdsl_pack p;
	tdsl_kernel k;
	void *its;
	struct call *c = good();
	const union tdsl_arg args[] = {{.t = &c->tx}, {.t = &c->tw}, {.f = 1e-6}, {.t = &c->ty}, {.t = &c->ts}};
	static const char text[] = "rmsnorm_quant: grid M = 4194304; expected 0 to 4194303";
	wide_pack(&p, &k, &its);
	c->x[1] = c->y[1] = c->w[0] = c->xs[0] = c->ys[0] = 16;
	c->tw.data = (void *)0x900000000;
	c->ty.data = (void *)0xa00000000;
	c->ts.data = (void *)0xb00000000;
	c->x[0] = c->y[0] = c->s[0] = (1 << 22) - 1;
	OK(tdsl_call(k, NULL, args, 5, NULL, 0));
	ck_assert_str_eq(variant(), "N%8=0 aligned");
	c->x[0] = c->y[0] = c->s[0] = 1 << 22;
	ck_assert_ptr_nonnull(strstr(tdsl_explain(k, NULL, args, 5), text)); /* and why */
	OK(tdsl_call(k, NULL, args, 5, NULL, 0));
	ck_assert_str_eq(variant(), "any");
	setenv("TDSL_BATCH_INVARIANT", "1", 1); /* results may not depend on how many rows there are */
	ck_assert_ptr_null(tdsl_explain(k, NULL, args, 5));
	ck_assert_str_eq(tdsl_error(), text);
	unsetenv("TDSL_BATCH_INVARIANT");
	tdsl_pack_close(p);
	free(its);
}
END_TEST

START_TEST(queries_of_a_call_that_is_refused)
{
	struct call *c = good();
	const union tdsl_arg args[] = {{.t = &c->tx}, {.t = &c->tw}, {.f = 1e-6}, {.t = &c->ty}, {.t = &c->ts}};
	static const char text[] = "rmsnorm_quant: grid M = 134217728; expected 0 to 67108863";
	ck_assert_ptr_nonnull(strstr(tdsl_explain(norm, NULL, args, 5), "any                      not needed"));
	ck_assert_int_eq(tdsl_workspace(norm, NULL, args, 5), 0);
	c->x[0] = c->y[0] = c->s[0] = 1 << 27;
	REFUSED(c, TDSL_ESHAPE, text);
	ck_assert_ptr_null(tdsl_explain(norm, NULL, args, 5));
	ck_assert_str_eq(tdsl_error(), text);
	for (int known = 1; known >= 0; known--) {
		error_clear();
		ck_assert_int_eq(tdsl_workspace(norm, NULL, args, 5), TDSL_ESHAPE);
		ck_assert_str_eq(tdsl_error(), text);
		c->tx.data = NULL;
	}
}
END_TEST

/* ---- folding */

START_TEST(leading_dimensions_fold)
{
	struct call *c = good();
	c->tx = tensor(XBASE, TDSL_DL_BFLOAT, 16, 3, (int64_t[]){2, 5, 64}, (int64_t[]){320, 64, 1}); /* compact */
	c->ty = tensor(YBASE, TDSL_DL_E4M3FNUZ, 8, 3, (int64_t[]){2, 5, 64}, NULL);
	c->ts = tensor(SBASE, TDSL_DL_FLOAT, 32, 2, (int64_t[]){2, 5}, NULL);
	OK(run(c));
	ck_assert_str_eq(variant(), "N%8=0 aligned");
	c->tx.strides = (int64_t[]){1024, 64, 1}; /* two groups */
	OK(run(c));
	ck_assert_str_eq(variant(), "any");
	c->tx.strides = (int64_t[]){64, 128, 1}; /* outer steps less than inner: [5, 2] transposed */
	OK(run(c));
	c->ts = tensor(SBASE, TDSL_DL_FLOAT, 32, 3, (int64_t[]){2, 5, 1}, NULL);
	OK(run(c));
	c->ts = tensor(SBASE, TDSL_DL_FLOAT, 32, 1, (int64_t[]){10}, NULL);
	OK(run(c));
	c->tx = tensor(XBASE, TDSL_DL_BFLOAT, 16, 4, (int64_t[]){2, 1, 5, 64}, (int64_t[]){1024, 7, 64, 1}); /* extent 1 drops out */
	OK(run(c));
	c->tx = tensor(XBASE, TDSL_DL_BFLOAT, 16, 4, (int64_t[]){2, 5, 1, 64}, (int64_t[]){1024, 64, 9, 1});
	OK(run(c));
}
END_TEST

START_TEST(three_groups_are_refused_by_name)
{
	struct call *c = good();
	c->tx = tensor(XBASE, TDSL_DL_BFLOAT, 16, 4, (int64_t[]){2, 3, 5, 64}, (int64_t[]){10000, 1000, 64, 1});
	REFUSED(c, TDSL_ESTRIDE, "rmsnorm_quant: argument 'x': its 3 leading dimensions have strides that fold into no fewer than 3; "
	        "at most 2 are supported");
}
END_TEST

START_TEST(folded_extent_is_checked)
{
	struct call *c = good();
	c->ty = tensor(YBASE, TDSL_DL_E4M3FNUZ, 8, 3, (int64_t[]){2, 2, 64}, NULL);
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'y', dimensions 0..1 (folded): extent 4; expected M = 3 (M = 3, N = 64)");
}
END_TEST

/* ---- refusals */

START_TEST(wrong_type)
{
	struct call *c = good();
	c->tx.dtype = (DLDataType){TDSL_DL_FLOAT, 32, 1};
	REFUSED(c, TDSL_EDTYPE, "rmsnorm_quant: argument 'x' is f32; expected bf16, f16 (on gfx942)");
	c = good();
	c->ty.dtype.code = TDSL_DL_E4M3FN; /* gfx950's, not this target's */
	REFUSED(c, TDSL_EDTYPE, "rmsnorm_quant: argument 'y' is e4m3; expected e4m3fnuz (on gfx942)");
	c = good();
	c->tw.dtype = (DLDataType){TDSL_DL_FLOAT, 16, 1};
	REFUSED(c, TDSL_EDTYPE, "rmsnorm_quant: no instance takes the element types x bf16, w f16, y e4m3fnuz, scale f32; "
	        "there are: T=bf16; T=f16");
	c = good();
	c->tx.dtype.lanes = 4;
	REFUSED(c, TDSL_EDTYPE, "rmsnorm_quant: argument 'x': DLPack type code 4, 16 bits, 4 lanes is no element type of any kernel");
}
END_TEST

START_TEST(wrong_rank)
{
	struct call *c = good();
	c->tx.ndim = 1;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x': rank 1; expected x[M, N]: rank 2 or more (leading dimensions fold)");
	c = good();
	c->tx.ndim = -1;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x': rank -1; at most 16 dimensions are taken");
	c = good();
	c->tx.ndim = 1000;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x': rank 1000; at most 16 dimensions are taken");
	c = good();
	c->tx.shape = NULL;
	REFUSED(c, TDSL_EINVAL, "rmsnorm_quant: argument 'x': shape is NULL, rank 2");
}
END_TEST

START_TEST(wrong_extent)
{
	struct call *c = good();
	c->w[0] = 63;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'w', dimension 0: extent 63; expected N = 64 (M = 3, N = 64)");
	c = good();
	c->y[0] = 4;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'y', dimension 0: extent 4; expected M = 3 (M = 3, N = 64)");
	c = good();
	c->x[1] = -64;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x', dimension 1: extent -64 is negative");
}
END_TEST

START_TEST(sizes_that_overflow)
{
	struct call *c = good();
	c->x[0] = INT64_MAX;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x', dimension 0: extent 9223372036854775807: the number of elements overflows");
	c = good();
	c->xs[0] = INT64_MAX / 2;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x', dimension 0: extent 3 with stride 4611686018427387903 overflows the address space");
	c = good();
	c->x[0] = c->y[0] = c->s[0] = 1ll << 31;
	c->x[1] = c->y[1] = c->w[0] = 8;
	c->xs[0] = c->ys[0] = 8;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x', dimension 0: M = 2147483648 is over 2^31 - 65537");
	c = good();
	c->x[0] = c->y[0] = c->s[0] = 1;
	c->tw.data = (void *)(1ull << 40);
	c->ty.data = (void *)(1ull << 41);
	c->ts.data = (void *)(1ull << 42);
	c->x[1] = c->y[1] = c->w[0] = c->xs[0] = c->ys[0] = INT32_MAX - 65536; /* the most: the positions of its last chunk are below 2^31 */
	OK(run(c));
	c->x[1]++, c->y[1]++, c->w[0]++, c->xs[0]++, c->ys[0]++;
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: argument 'x', dimension 1: N = 2147418112 is over 2^31 - 65537");
	c = good();
	c->tx.data = (void *)(UINTPTR_MAX - 15);
	ck_assert_int_eq(run(c), TDSL_ESHAPE);
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "argument 'x': 384 bytes at 0xfffffffffffffff0 overflow the address space"));
	c = good();
	c->x[0] = c->y[0] = c->s[0] = 1 << 27; /* 2^27 workgroups of 64 lanes: more than a dispatch holds */
	REFUSED(c, TDSL_ESHAPE, "rmsnorm_quant: grid M = 134217728; expected 0 to 67108863");
}
END_TEST

START_TEST(null_pointers)
{
	struct call *c = good();
	c->tx.data = NULL;
	REFUSED(c, TDSL_EINVAL, "rmsnorm_quant: argument 'x': data is NULL; expected 384 bytes");
	c = good();
	OK(run(c));
	c->ts.data = NULL; /* known from the call before */
	REFUSED(c, TDSL_EINVAL, "rmsnorm_quant: argument 'scale': data is NULL; expected 12 bytes");
	union tdsl_arg args[5] = {{.t = NULL}};
	ck_assert_int_eq(tdsl_call(norm, NULL, args, 5, NULL, 0), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "rmsnorm_quant: argument 'x' is NULL; expected a tensor x[M, N]");
	ck_assert_int_eq(tdsl_call(norm, NULL, args, 4, NULL, 0), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "rmsnorm_quant: 4 arguments; expected 5");
	ck_assert_int_eq(tdsl_call(NULL, NULL, args, 4, NULL, 0), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "the kernel is NULL");
}
END_TEST

START_TEST(misaligned_addresses)
{
	struct call *c = good();
	c->ts.data = (void *)(SBASE + 2);
	REFUSED(c, TDSL_EALIGN, "rmsnorm_quant: argument 'scale': address 0x40000002 is not a multiple of 4, the size of f32");
	c = good();
	c->tx.byte_offset = 1;
	REFUSED(c, TDSL_EALIGN, "rmsnorm_quant: argument 'x': address 0x10000001 is not a multiple of 2, the size of bf16");
	c = good();
	c->ty.byte_offset = 1; /* one-byte elements may lie anywhere */
	OK(run(c));
}
END_TEST

START_TEST(strides_that_cannot_be_followed)
{
	struct call *c = good();
	c->xs[0] = -64;
	REFUSED(c, TDSL_ESTRIDE, "rmsnorm_quant: argument 'x', dimension 0: stride -64; negative strides are not supported");
	c = good();
	c->ys[0] = 0;
	REFUSED(c, TDSL_EOVERLAP, "rmsnorm_quant: argument 'y': its strides let elements share memory; an output's may not");
	c = good();
	c->xs[0] = 0; /* an input may be broadcast */
	OK(run(c));
}
END_TEST

START_TEST(outputs_that_overlap)
{
	struct call *c = good();
	c->ty.data = (void *)(XBASE + 383);
	REFUSED(c, TDSL_EOVERLAP, "rmsnorm_quant: output 'y' overlaps argument 'x' in memory");
	c->ty.data = (void *)(XBASE + 384);
	OK(run(c));
	c->ts.data = (void *)(XBASE + 384 + 188);
	REFUSED(c, TDSL_EOVERLAP, "rmsnorm_quant: output 'y' overlaps argument 'scale' in memory");
	c = good();
	c->tw.data = c->tx.data; /* inputs may share */
	OK(run(c));
}
END_TEST

/* Rows of 256 bytes: x in bytes 0..127 of each, y in 128..191, scale in 192..195. */
START_TEST(interleaved_views_do_not_overlap)
{
	struct call *c = good();
	c->xs[0] = 128;
	c->ty.data = (void *)(XBASE + 128);
	c->ys[0] = 256;
	c->ts.data = (void *)(XBASE + 192);
	c->ss[0] = 64;
	OK(run(c));
	c->ty.data = (void *)(XBASE + 127);
	REFUSED(c, TDSL_EOVERLAP, "rmsnorm_quant: output 'y' overlaps argument 'x' in memory");
	c->ty.data = (void *)(XBASE + 129);
	REFUSED(c, TDSL_EOVERLAP, "rmsnorm_quant: output 'y' overlaps argument 'scale' in memory");
}
END_TEST

/* ---- other kernels */

static int run_add(DLTensor *x, DLTensor *bias, int64_t k, DLTensor *y)
{
	const union tdsl_arg args[] = {{.t = x}, {.t = bias}, {.f = 2}, {.i = k}, {.t = y}};
	return tdsl_call(add, NULL, args, 5, NULL, 0);
}

START_TEST(optional_and_empty_tensors)
{
	int64_t shape[] = {4, 8}, none[] = {0, 8}, thin[] = {4, 0}, n[] = {8};
	DLTensor x = tensor(XBASE, 2, 32, 2, shape, NULL), y = tensor(YBASE, 2, 32, 2, shape, NULL), b = tensor(WBASE, 2, 32, 1, n, NULL);
	struct tdsl_last last;
	OK(run_add(&x, &b, 0, &y));
	OK(run_add(&x, NULL, 0, &y));
	x.shape = y.shape = none;
	x.data = y.data = NULL;
	OK(run_add(&x, &b, 0, &y));
	OK(tdsl_last_call(&last));
	ck_assert_int_eq(last.launches, 0);
	x.shape = y.shape = thin;
	n[0] = 0;
	OK(run_add(&x, &b, 0, &y));
	n[0] = 3;
	ck_assert_int_eq(run_add(&x, &b, 0, &y), TDSL_ESHAPE);
}
END_TEST

START_TEST(require_lines)
{
	int64_t shape[] = {4, 13};
	DLTensor x = tensor(XBASE, 2, 32, 2, shape, NULL), y = tensor(YBASE, 2, 32, 2, shape, NULL);
	ck_assert_int_eq(run_add(&x, NULL, 0, &y), TDSL_ESHAPE);
	ck_assert_str_eq(tdsl_error(), "scale_add: require N != 13 does not hold: M = 4, N = 13");
}
END_TEST

START_TEST(integer_scalars_must_fit)
{
	int64_t shape[] = {4, 8};
	DLTensor x = tensor(XBASE, 2, 32, 2, shape, NULL), y = tensor(YBASE, 2, 32, 2, shape, NULL);
	OK(run_add(&x, NULL, INT32_MIN, &y));
	ck_assert_int_eq(run_add(&x, NULL, 1ll << 31, &y), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'k' is 2147483648; expected an i32");
}
END_TEST

START_TEST(numbers_must_fit_f32)
{
	int64_t shape[] = {4, 8};
	DLTensor x = tensor(XBASE, 2, 32, 2, shape, NULL), y = tensor(YBASE, 2, 32, 2, shape, NULL);
	union tdsl_arg args[] = {{.t = &x}, {.t = NULL}, {.f = 2}, {.i = 0}, {.t = &y}};
	const double fine[] = {0x1.fffffep127, -0x1.fffffep127, 0x1.fffffe8p127 /* rounds to the largest */, 1e-300, INFINITY, -INFINITY, NAN};
	for (unsigned i = 0; i < sizeof fine / sizeof *fine; i++) {
		args[2].f = fine[i];
		OK(tdsl_call(add, NULL, args, 5, NULL, 0));
	}
	args[2].f = 1e300;
	ck_assert_int_eq(tdsl_call(add, NULL, args, 5, NULL, 0), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'a' is 1e+300; expected an f32, at most 3.40282347e+38");
	args[2].f = -0x1.ffffffp127; /* halfway to 2^128 */
	ck_assert_int_eq(tdsl_call(add, NULL, args, 5, NULL, 0), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'a' is -3.40282357e+38; expected an f32, at least -3.40282347e+38");
}
END_TEST

START_TEST(strides_that_no_variant_takes)
{
	int64_t shape[] = {4, 8}, strides[] = {16, 2}, n[] = {8}, two[] = {2};
	DLTensor x = tensor(XBASE, 2, 32, 2, shape, strides), y = tensor(YBASE, 2, 32, 2, shape, NULL), b = tensor(WBASE, 2, 32, 1, n, NULL);
	OK(run_add(&x, &b, 0, &y)); /* x's are passed */
	y.strides = strides;
	ck_assert_int_eq(run_add(&x, &b, 0, &y), TDSL_ESTRIDE);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'y', dimension 1: stride 2; this kernel follows stride 1 only");
	y.strides = NULL;
	b.strides = two;
	ck_assert_int_eq(run_add(&x, &b, 0, &y), TDSL_ESTRIDE);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'bias', dimension 0: stride 2; this kernel follows stride 1 only");
	y = tensor(YBASE, 2, 32, 3, (int64_t[]){2, 2, 8}, (int64_t[]){64, 8, 1});
	b.strides = NULL;
	ck_assert_int_eq(run_add(&x, &b, 0, &y), TDSL_ESTRIDE);
	ck_assert_str_eq(tdsl_error(), "scale_add: argument 'y': its leading dimensions do not fold into one stride (2 x stride 64, then "
	                 "stride 8), which this kernel cannot follow");
}
END_TEST

START_TEST(workspace)
{
	int64_t n[] = {1000}, one[] = {1};
	DLTensor x = tensor(XBASE, 2, 32, 1, n, NULL), s = tensor(SBASE, 2, 32, 1, one, NULL);
	const union tdsl_arg args[] = {{.t = &x}, {.t = &s}};
	ck_assert_int_eq(tdsl_workspace(sum, NULL, args, 2), 16);
	OK(tdsl_call(sum, NULL, args, 2, (void *)WBASE, 16));
	struct tdsl_last last;
	OK(tdsl_last_call(&last));
	ck_assert_int_eq(last.launches, 2);
	ck_assert_int_eq(tdsl_call(sum, NULL, args, 2, NULL, 16), TDSL_EWORKSPACE);
	ck_assert_str_eq(tdsl_error(), "partial_sum: workspace of 16 bytes at NULL; expected 16");
	ck_assert_int_eq(tdsl_call(sum, NULL, args, 2, (void *)WBASE, 15), TDSL_EWORKSPACE);
	ck_assert_str_eq(tdsl_error(), "partial_sum: workspace of 15 bytes; expected 16");
	ck_assert_int_eq(tdsl_call(sum, NULL, args, 2, (void *)(WBASE + 8), 16), TDSL_EWORKSPACE);
	ck_assert_int_eq(tdsl_call(sum, NULL, args, 2, (void *)XBASE, 16), TDSL_EOVERLAP);
	ck_assert_str_eq(tdsl_error(), "partial_sum: the workspace overlaps argument 'x' in memory");
	x.data = s.data = NULL; /* a question may be asked before there is memory */
	ck_assert_int_eq(tdsl_workspace(sum, NULL, args, 2), 16);
	const union tdsl_arg inputs[] = {{.t = &x}, {.t = NULL}};
	ck_assert_int_eq(tdsl_workspace(sum, NULL, inputs, 2), 16);
}
END_TEST

START_TEST(output_type_and_shape)
{
	struct call *c = good();
	const union tdsl_arg args[] = {{.t = &c->tx}, {.t = &c->tw}, {.f = 1e-6}, {.t = NULL}, {.t = NULL}};
	DLDataType t;
	int64_t shape[8];
	ck_assert_int_eq(tdsl_output(&t, shape, norm, NULL, args, 5, 3), 2);
	ck_assert_int_eq(t.code, TDSL_DL_E4M3FNUZ);
	ck_assert_int_eq(shape[0], 3);
	ck_assert_int_eq(shape[1], 64);
	ck_assert_int_eq(tdsl_output(&t, shape, norm, NULL, args, 5, 4), 1);
	ck_assert_int_eq(t.bits, 32);
	ck_assert_int_eq(tdsl_output(&t, shape, norm, NULL, args, 5, 2), TDSL_EINVAL);
}
END_TEST

/* ---- targets, packs, names */

START_TEST(fp8_is_the_targets_own)
{
	tdsl_device other;
	tdsl_stream s;
	OK(tdsl_open(&other, "null:gfx950"));
	OK(tdsl_stream_open(&s, other, NULL));
	struct call *c = good();
	c->ty.dtype.code = TDSL_DL_E4M3FN;
	const union tdsl_arg args[] = {{.t = &c->tx}, {.t = &c->tw}, {.f = 1e-6}, {.t = &c->ty}, {.t = &c->ts}};
	OK(tdsl_call(norm, s, args, 5, NULL, 0));
	c->ty.dtype.code = TDSL_DL_E4M3FNUZ;
	ck_assert_int_eq(tdsl_call(norm, s, args, 5, NULL, 0), TDSL_EDTYPE);
	ck_assert_int_eq(tdsl_call(norm, NULL, args, 5, NULL, 0), 0); /* the default device is still gfx942 */
	tdsl_stream_close(s);
	tdsl_close(other);
}
END_TEST

START_TEST(kernel_without_code_for_the_device)
{
	tdsl_device other;
	tdsl_stream s;
	int64_t n[] = {1000}, one[] = {1};
	DLTensor x = tensor(XBASE, 2, 32, 1, n, NULL), y = tensor(SBASE, 2, 32, 1, one, NULL);
	const union tdsl_arg args[] = {{.t = &x}, {.t = &y}};
	OK(tdsl_open(&other, "null:gfx950"));
	OK(tdsl_stream_open(&s, other, NULL));
	ck_assert_int_eq(tdsl_call(sum, s, args, 2, NULL, 0), TDSL_ETARGET);
	ck_assert_str_eq(tdsl_error(), "partial_sum: pack in memory has no code for gfx950 (device null:gfx950); the pack's targets: gfx942, gfx950");
	ck_assert_int_eq(tdsl_kernel_load(sum, s), TDSL_ETARGET);
	OK(tdsl_kernel_load(sum, NULL));
	tdsl_close(other);
	ck_assert_int_eq(tdsl_call(sum, s, args, 2, NULL, 0), TDSL_EDEVICE);
	ck_assert_str_eq(tdsl_error(), "partial_sum: device null:gfx950 is closed");
	tdsl_stream_close(s);
}
END_TEST

START_TEST(unknown_kernel)
{
	tdsl_kernel k;
	ck_assert_int_eq(tdsl_kernel_find(&k, pack, "gelu"), TDSL_ENOTFOUND);
	ck_assert_str_eq(tdsl_error(), "pack in memory has no kernel 'gelu' (it has 3 kernels)");
}
END_TEST

START_TEST(what_is_in_a_pack)
{
	struct tdsl_pack_info p;
	struct tdsl_kernel_info k;
	struct tdsl_param_info q;
	struct tdsl_variant_info v;
	struct tdsl_instance_info n;
	const char *name;
	DLDataType dl;
	OK(tdsl_pack_query(&p, pack));
	ck_assert_int_eq(p.nkernels, 3);
	ck_assert_int_eq(p.ntargets, 2);
	ck_assert_str_eq(p.targets[1], "gfx950");
	OK(tdsl_kernel_query(&k, norm));
	ck_assert_str_eq(k.signature, "TTfTT");
	ck_assert_int_eq(k.nvariants, 8);
	OK(tdsl_kernel_query(&k, add));
	ck_assert_str_eq(k.signature, "T?fiT");
	OK(tdsl_kernel_query(&k, sum));
	ck_assert_str_eq(k.signature, "TTW");
	OK(tdsl_kernel_param(&q, norm, 3));
	ck_assert_str_eq(q.extents, "M, N");
	ck_assert(q.is_output && !q.is_input && q.is_tensor);
	OK(tdsl_kernel_param(&q, norm, 2));
	ck_assert(!q.is_tensor && q.has_default && q.default_value == 1e-6);
	OK(tdsl_kernel_variant(&v, norm, 0));
	ck_assert_str_eq(v.predicate, "N%8=0 aligned");
	OK(tdsl_kernel_instance(&n, norm, 1));
	ck_assert_str_eq(n.name, "T=f16");
	OK(tdsl_kernel_dtype(&name, &dl, norm, 0, 3, "gfx942"));
	ck_assert_str_eq(name, "fp8");
	ck_assert_int_eq(dl.code, TDSL_DL_E4M3FNUZ);
	ck_assert_int_eq(tdsl_kernel_param(&q, norm, 5), TDSL_EINVAL);
	ck_assert_str_eq(tdsl_error(), "tdsl_kernel_param: index 5; expected 0 to 4");
}
END_TEST

/* A pack altered on purpose, its checksums made good: whatever opens can be asked and called without harm. */
START_TEST(altered_packs_do_no_harm)
{
	size_t size;
	uint8_t *p = rt_pack(&size, false), *saved = malloc(size);
	uint64_t seed = 99;
	int called = 0;
	memcpy(saved, p, size);
	for (int round = 0; round < 3000; round++) {
		struct pack_header h;
		struct call *c = good();
		const union tdsl_arg args[] = {{.t = &c->tx}, {.t = &c->tw}, {.f = 1e-6}, {.t = &c->ty}, {.t = &c->ts}};
		tdsl_pack altered;
		tdsl_kernel k;
		struct tdsl_param_info q;
		memcpy(p, saved, size);
		memcpy(&h, p, sizeof h);
		for (int i = 0; i <= round % 2; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			p[h.index_offset + (seed >> 20) % h.index_bytes] = (uint8_t)(seed >> 50);
		}
		h.index_hash = XXH3_64bits(p + h.index_offset, h.index_bytes);
		h.header_hash = XXH3_64bits(&h, offsetof(struct pack_header, header_hash));
		memcpy(p, &h, sizeof h);
		if (tdsl_pack_open_memory(&altered, p, size) < 0)
			continue;
		for (int i = 0; tdsl_pack_kernel(&k, altered, i) == 0; i++) {
			struct tdsl_kernel_info info;
			OK(tdsl_kernel_query(&info, k));
			for (int j = 0; j < info.nparams; j++)
				OK(tdsl_kernel_param(&q, k, j));
			called += tdsl_call(k, NULL, args, 5, (void *)WBASE, 64) == 0;
			tdsl_workspace(k, NULL, args, 5);
		}
		tdsl_pack_close(altered);
	}
	ck_assert_int_gt(called, 100);
	free(saved);
	free(p);
}
END_TEST

/* ---- bindings and threads */

static struct tdsl_binding binding = {"rmsnorm_quant", "TTfTT", NULL, 0, NULL};

static void *thread(void *arg)
{
	struct call c = *(const struct call *)arg; /* every thread's own copy of the arrays */
	c.tx.shape = c.x, c.tx.strides = c.xs, c.tw.shape = c.w, c.tw.strides = c.ws;
	c.ty.shape = c.y, c.ty.strides = c.ys, c.ts.shape = c.s, c.ts.strides = c.ss;
	const union tdsl_arg args[] = {{.t = &c.tx}, {.t = &c.tw}, {.f = 1e-6}, {.t = &c.ty}, {.t = &c.ts}};
	for (int i = 0; i < 2000; i++) {
		c.x[0] = c.y[0] = c.s[0] = 1 + i % 37;
		if (tdsl_binding_call(&binding, NULL, args, 5, NULL, 0) != 0)
			return arg;
	}
	return NULL;
}

START_TEST(bindings_find_their_kernel_from_any_thread)
{
	struct tdsl_binding other = {"nowhere", "T", NULL, 0, NULL}, wrong = {"rmsnorm_quant", "TTTT", NULL, 0, NULL};
	pthread_t t[8];
	size_t size;
	void *mine = rt_pack(&size, false), *failed;
	const struct call *one = good();
	binding.pack = mine;
	binding.pack_size = size;
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, thread, (void *)(uintptr_t)one), 0);
	for (int i = 0; i < 8; i++) {
		pthread_join(t[i], &failed);
		ck_assert_ptr_null(failed);
	}
	ck_assert_int_eq(tdsl_binding_call(&other, NULL, NULL, 0, NULL, 0), TDSL_ENOTFOUND);
	ck_assert_str_eq(tdsl_error(), "no pack holds kernel 'nowhere'; tdsl_pack_add or TDSL_PACK_PATH names packs");
	wrong.pack = mine;
	wrong.pack_size = size;
	ck_assert_int_eq(tdsl_binding_call(&wrong, NULL, NULL, 0, NULL, 0), TDSL_ENOTFOUND);
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "has signature \"TTfTT\"; its generated function was made for \"TTTT\""));
}
END_TEST

START_TEST(bindings_search_the_pack_path)
{
	char folder[] = "/tmp/rt_pathXXXXXX", path[64], text[256];
	struct tdsl_binding b = {"scale_add", "T?fiT", NULL, 0, NULL}, other = {"nowhere", "T", NULL, 0, NULL};
	size_t size;
	void *p = rt_pack(&size, false);
	ck_assert(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/k.tpack", folder);
	ck_assert_int_eq(outfile_write(path, p, size, text, sizeof text), 0);
	free(p);
	setenv("TDSL_PACK_PATH", "/no/such/place", 1);
	int64_t shape[] = {4, 8};
	DLTensor x = tensor(XBASE, 2, 32, 2, shape, NULL), y = tensor(YBASE, 2, 32, 2, shape, NULL);
	const union tdsl_arg args[] = {{.t = &x}, {.t = NULL}, {.f = 2}, {.i = 0}, {.t = &y}};
	ck_assert_int_eq(tdsl_binding_call(&b, NULL, args, 5, NULL, 0), TDSL_EIO);
	ck_assert_str_eq(tdsl_error(), "no pack holds kernel 'scale_add'; TDSL_PACK_PATH: /no/such/place: cannot read: No such file or directory");
	setenv("TDSL_PACK_PATH", "/etc/passwd:/no/such/place", 1);
	ck_assert_int_eq(tdsl_binding_call(&b, NULL, args, 5, NULL, 0), TDSL_EPACK);
	ck_assert_ptr_nonnull(strstr(tdsl_error(), "TDSL_PACK_PATH: /etc/passwd: offset 0: "));
	snprintf(text, sizeof text, "/no/such/place::/etc/passwd:%s:/etc", folder); /* the entries that cannot be used hide no other */
	setenv("TDSL_PACK_PATH", text, 1);
	OK(tdsl_binding_call(&b, NULL, args, 5, NULL, 0));
	ck_assert_int_eq(tdsl_binding_call(&other, NULL, NULL, 0, NULL, 0), TDSL_EIO);
	ck_assert_str_eq(tdsl_error(), "no pack holds kernel 'nowhere'; TDSL_PACK_PATH: /no/such/place: cannot read: No such file or directory");
	snprintf(text, sizeof text, "rm -r %s", folder);
	ck_assert_int_eq(system(text), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rt_dispatch");
	TCase *c = tcase_create("null");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, first_variant_whose_predicate_holds);
	tcase_add_test(c, variant_that_cannot_follow_strides_is_passed_over);
	tcase_add_test(c, calls_are_remembered_by_all_that_matters);
	tcase_add_test(c, many_shapes_do_not_disturb_each_other);
	tcase_add_test(c, variant_whose_grid_does_not_fit_is_passed_over);
	tcase_add_test(c, queries_of_a_call_that_is_refused);
	tcase_add_test(c, leading_dimensions_fold);
	tcase_add_test(c, three_groups_are_refused_by_name);
	tcase_add_test(c, folded_extent_is_checked);
	tcase_add_test(c, wrong_type);
	tcase_add_test(c, wrong_rank);
	tcase_add_test(c, wrong_extent);
	tcase_add_test(c, sizes_that_overflow);
	tcase_add_test(c, null_pointers);
	tcase_add_test(c, misaligned_addresses);
	tcase_add_test(c, strides_that_cannot_be_followed);
	tcase_add_test(c, outputs_that_overlap);
	tcase_add_test(c, interleaved_views_do_not_overlap);
	tcase_add_test(c, optional_and_empty_tensors);
	tcase_add_test(c, require_lines);
	tcase_add_test(c, integer_scalars_must_fit);
	tcase_add_test(c, numbers_must_fit_f32);
	tcase_add_test(c, strides_that_no_variant_takes);
	tcase_add_test(c, workspace);
	tcase_add_test(c, output_type_and_shape);
	tcase_add_test(c, fp8_is_the_targets_own);
	tcase_add_test(c, kernel_without_code_for_the_device);
	tcase_add_test(c, unknown_kernel);
	tcase_add_test(c, what_is_in_a_pack);
	tcase_add_test(c, altered_packs_do_no_harm);
	tcase_add_test(c, bindings_find_their_kernel_from_any_thread);
	tcase_add_test(c, bindings_search_the_pack_path);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
