/* waves_test.c -- variants of whose waves a launch has those that its rows need (compiler/target/emit/waves.c).
 *
 * In: kernels of kernels.tdsl.  Checked: how many lanes a launch says it has, by hand from what a wave holds; that with them
 * the simulated device, and the interpreter of PTX, compute what the evaluated laid-out IR does, bit for bit; which kernels' waves are all there. */
#include "nvptx_help.h"

#include <stdlib.h>
#include <string.h>

struct need { const char *kernel, *given, *variant; int pin, n; uint32_t lanes; };

static void check_need(const struct need *c, const char *target)
{
	struct dsl_pin pin = {"N", c->pin};
	struct built b;
	struct device_code code;
	built_open_for(&b, c->kernel, target, c->pin ? &pin : NULL);
	ir_run_symbol(&b.r, "M", strstr(c->given, "dw") ? 64 : 3);
	ir_run_symbol(&b.r, "N", c->n);
	if (strncmp(c->kernel, "softmax", 7) == 0) {
		ir_run_symbol(&b.r, "B", 1);
		ir_run_symbol(&b.r, "S", 3);
	}
	built_give(&b, c->given);
	device_compile(&b.d, &b.v[built_variant(&b, c->variant)], &code, c->variant);
	ck_assert(strstr(c->variant, "rows>=") || device_takes(&b.d, &code));   /* few rows are computed as many are */
	ck_assert_uint_eq(device_lanes(&b.d, &code.launches[0]), c->lanes);
	ck_assert_msg(!code.launches[0].lanes == (c->variant[1] == '='), "%s: whether the call decides", c->variant);
	device_check(&b.d, &code, c->variant, false);
	free(code.elf);
	built_close(&b);
}

/* A wave holds 2,048 columns of the classes and of a fixed size that is reduced, 32 elements a lane; 512 of a sweep, 8 elements a lane, whose rows
 * are as long as one likes. */
static const struct need waves[] = {
	{"rmsnorm_quant", "", "N<=16384 N%16=0 aligned", 4096, 16, 64}, {"rmsnorm_quant", "", "N<=16384 N%16=0 aligned", 4096, 2048, 64},
	{"rmsnorm_quant", "", "N<=16384 N%16=0 aligned", 4096, 2064, 128}, {"rmsnorm_quant", "", "N<=16384 N%16=0 aligned", 4096, 6144, 192},
	{"rmsnorm_quant", "", "N<=16384 N%16=0 aligned", 4096, 16384, 512},
	{"rmsnorm_quant", "", "any", 4096, 0, 64}, {"rmsnorm_quant", "", "any", 4096, 1, 64}, {"rmsnorm_quant", "", "any", 4096, 512, 64},
	{"rmsnorm_quant", "", "any", 4096, 513, 128}, {"rmsnorm_quant", "", "any", 4096, 4096, 512}, {"rmsnorm_quant", "", "any", 4096, 9001, 512},
	{"rmsnorm_quant", "", "N=5120 aligned", 5120, 5120, 192}, {"rmsnorm_quant", "", "N=14336 aligned", 14336, 14336, 448},
	{"rmsnorm_quant", "", "N=4096 aligned", 4096, 4096, 128}, {"rmsnorm_quant", "", "N=7168 aligned", 7168, 7168, 256},
	{"rmsnorm_128", "w", "N<=32768 N%128=0 aligned with w", 4096, 2048, 64}, {"rmsnorm_128", "w", "N<=32768 N%128=0 aligned with w", 4096, 4224, 192},
	{"rmsnorm_128", "w", "N=2048 aligned with w", 2048, 2048, 64}, {"rmsnorm_128", "w", "N=4096 aligned with w", 4096, 4096, 128},
	{"layernorm_128", "w b", "N=2048 aligned with w b", 2048, 2048, 64}, {"rmsnorm_mxfp8", "w", "N=4096 aligned with w", 4096, 4096, 128},
	{"softmax_rows", "", "N<=16384 N%8=0 aligned bare", 0, 2048, 64}, {"softmax_rows", "", "N<=16384 N%8=0 aligned bare", 0, 2056, 128},
	{"rmsnorm_bwd", "w dw", "N<=16384 N%8=0 aligned with w dw", 0, 3080, 128},
};
enum { WAVES = sizeof waves / sizeof *waves };

START_TEST(a_launch_has_the_waves_that_its_rows_need)
{
	check_need(&waves[_i / 2], _i % 2 ? "gfx950" : "gfx942");
}
END_TEST

/* A warp holds 512 columns of the classes, 16 elements a lane in two pieces; 1,024 of the largest, for lanes need registers, and of those for many
 * rows, 32 elements a lane; 1,024 of a gate's, 16 elements of each half. */
static const struct need warps[] = {
	{"rmsnorm_quant", "", "N<=4096 N%16=0 aligned", 4096, 16, 32}, {"rmsnorm_quant", "", "N<=4096 N%16=0 aligned", 4096, 512, 32},
	{"rmsnorm_quant", "", "N<=4096 N%16=0 aligned", 4096, 528, 64}, {"rmsnorm_quant", "", "N<=4096 N%16=0 aligned", 4096, 4096, 256},
	{"rmsnorm_128", "w", "N<=4096 N%128=0 aligned with w", 8192, 640, 64}, {"softmax_rows", "", "N<=16384 N%8=0 aligned bare", 0, 10248, 352},
	{"rmsnorm_128", "w", "N<=16384 N%128=0 aligned with w", 4096, 8320, 288}, {"rmsnorm_quant", "", "N<=8192 N%16=0 aligned rows>=640", 4096, 5136, 192},
	{"rmsnorm_quant", "", "N<=4096 N%16=0 aligned rows>=2048", 2048, 2048, 64}, {"geglu_rows", "", "N<=16384 N%16=0 aligned bare", 4096, 8208, 288},
};

START_TEST(warps_likewise)
{
	check_need(&warps[_i], "sm_90a");
}
END_TEST

/* Waves that lie along rows of tiles, or share a product; on sm_90a those of rows that begin anywhere and of the general variants. */
START_TEST(others_have_all_waves)
{
	static const struct { const char *kernel, *target, *variant; } who[] = {
		{"add", "gfx942", "any"}, {"cast_transpose", "gfx950", "any"}, {"quantize_both_mxfp8", "gfx942", "any"}, {"grouped_gemm", "gfx950", "any"},
		{"rmsnorm_quant", "sm_90a", "any"}, {"rmsnorm_quant", "sm_90a", "N<=4096 unaligned"},
	};
	for (unsigned c = 0; c < sizeof who / sizeof *who; c++) {
		struct built b;
		struct device_code code;
		built_open_for(&b, who[c].kernel, who[c].target, NULL);
		device_compile(&b.d, &b.v[built_variant(&b, who[c].variant)], &code, who[c].variant);
		for (int l = 0; l < code.nlaunches; l++)
			ck_assert_msg(!code.launches[l].lanes, "%s %s %s", who[c].kernel, who[c].target, who[c].variant);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, a_launch_has_the_waves_that_its_rows_need, 0, 2 * WAVES);
	tcase_add_loop_test(t, warps_likewise, 0, sizeof warps / sizeof *warps);
	tcase_add_test(t, others_have_all_waves);
}

int main(void)
{
	return nvptx_run("waves", add);
}
