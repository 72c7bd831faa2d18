/* device_test.c -- every variant's laid-out IR, evaluated, against its code object, executed by the simulated device: bit for bit.
 *
 * In: kernels as IR text (tests/ir), sizes that reach each variant.  The evaluator and the device share base/num and nothing else:
 * what differs between them is the translation, LLVM and the decoder.  Outputs lie between poisoned bytes, which must survive. */
#include "device_help.h"
#include "dsl_help.h"

#include <check.h>
#include <stdio.h>

static const char *const chips[] = {"gfx942", "gfx950", "sm_90a"};

static void rmsnorm(const char *target, int M, int N, struct dsl_pin *pin)
{
	struct ir_run r;
	char sizes[40];
	snprintf(sizes, sizeof sizes, "M=%d N=%d", M, N);
	ir_run_open(&r, "rmsnorm_quant");
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	for (const char *const *t = (const char *const[]){"x", "w", "y", "scale", NULL}; *t; t++)
		ir_run_tensor(&r, *t, 2);
	for (int i = 0; i < 2; i++)
		ir_run_find(&r, i ? "scale" : "y")->data = NULL;
	device_check_all(&r, target, pin, pin ? 1 : 0, sizes);
	ir_run_close(&r);
}

START_TEST(rmsnorm_rows)
{
	static struct dsl_pin pin = {"N", 4096};
	static const int sizes[] = {1, 15, 16, 17, 128, 769, 1024, 2048, 4096, 5120, 8192, 16384, 20000, 20001};
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		rmsnorm(chips[1], sizes[i] <= 512 ? 64 : 2, sizes[i], &pin);     /* this IR's rows are not masked: of short ones whole workgroups */
}
END_TEST

static void gemm(const char *target, int M, int N, int K)
{
	struct ir_run r;
	char sizes[60];
	snprintf(sizes, sizeof sizes, "M=%d N=%d K=%d", M, N, K);
	ir_run_open(&r, "gemm");
	for (int p = 0; p < r.k->phases[0].naxes; p++)
		r.k->phases[0].axes[p].tile = 0;
	ir_run_symbol(&r, "M", M);
	ir_run_symbol(&r, "N", N);
	ir_run_symbol(&r, "K", K);
	for (const char *const *t = (const char *const[]){"a", "b", "c", NULL}; *t; t++)
		ir_run_tensor(&r, *t, 2);
	ir_run_find(&r, "c")->data = NULL;
	device_check_all(&r, target, NULL, 0, sizes);
	ir_run_close(&r);
}

START_TEST(products)
{
	gemm(chips[_i], 128, 128, 64);
	gemm(chips[_i], 130, 200, 72);
	gemm(chips[_i], 33, 17, 75);
}
END_TEST

static void attention(const char *target, int S, int L, int D)
{
	struct ir_run r;
	char sizes[60];
	snprintf(sizes, sizeof sizes, "S=%d L=%d D=%d", S, L, D);
	dsl_run_open(&r, "kernels.tdsl", "attention", "T=bf16");
	for (const char *const *s = (const char *const[]){"B", "H", "G", NULL}; *s; s++)
		ir_run_symbol(&r, *s, **s == 'B' ? 1 : **s == 'H' ? 2 : 1);
	ir_run_symbol(&r, "S", S);
	ir_run_symbol(&r, "L", L);
	ir_run_symbol(&r, "D", D);
	for (const char *const *t = (const char *const[]){"q", "k", "v", "o", NULL}; *t; t++)
		ir_run_tensor(&r, *t, 2);
	ir_run_scalar(&r, "scale", 0.125);
	ir_run_find(&r, "o")->data = NULL;
	device_check_all(&r, target, NULL, 0, sizes);
	ir_run_close(&r);
}

START_TEST(attentions)
{
	attention(chips[_i], 128, 128, 64);
	attention(chips[_i], 40, 100, 128);
	attention(chips[_i], 33, 70, 40);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("device");
	TCase *t = tcase_create("bit for bit");
	tcase_set_timeout(t, 300);
	tcase_add_test(t, rmsnorm_rows);
	tcase_add_loop_test(t, products, 0, 3);
	tcase_add_loop_test(t, attentions, 0, 3);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
