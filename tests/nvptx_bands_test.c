/* nvptx_bands_test.c -- by how many rows there are, which variant of a fixed length of rows a call takes, and of a class of lengths.
 *
 * In: kernels.tdsl with one pin, or with its own.  Checked: where each band begins and ends, by hand from the chip's numbers - an H200's 132
 * multiprocessors have 2,048 threads each, and a launch asks for 4 MB early - how many waves share a row there, that the last band has no end, and, run
 * against the evaluated laid-out IR bit for bit, what each computes. */
#include "nvptx_help.h"

#include <check.h>
#include <string.h>

/* A row of 5,120 to 8,192 in bf16 takes 512 lanes, four such workgroups a multiprocessor: 528 rows; their tiles are of 16 KB: 256 rows asked for.  One of
 * 4,096 has an access in each of 512 lanes: 528 as well; of 2,048, in 256 lanes, and of 1,024, in 128, 1,056, for there are to be eight workgroups at
 * most; one of 512, in 64, is too short.  One of 14,336 or 16,384 has 32 elements in each of 512, whose registers leave room for half: 264. */
struct bands_of { const char *kernel, *given; int n; struct { int from, waves; const char *variant; } bands[6]; };
static const struct bands_of cases[] = {
	{"rmsnorm_quant", "", 5120, {{1, 16, "N=5120 aligned"}, {257, 16, "N=5120 aligned rows>=257"}, {529, 8, "N=5120 aligned rows>=529"},
		{8192, 4, "N=5120 aligned rows>=8192"}}},
	{"rmsnorm_mxfp8", "w", 8192, {{1, 16, "N=8192 aligned with w"}, {257, 16, "N=8192 aligned rows>=257 with w"}, {529, 8, "N=8192 aligned rows>=529 with w"}}},
	{"rmsnorm_128", "w", 7168, {{1, 16, "N=7168 aligned with w"}, {257, 16, "N=7168 aligned rows>=257 with w"}, {529, 8, "N=7168 aligned rows>=529 with w"},
		{8192, 4, "N=7168 aligned rows>=8192 with w"}}},
	/* what waits twice is not asked for early */
	{"layernorm_quant", "w", 7168, {{1, 16, "N=7168 aligned with w"}, {529, 8, "N=7168 aligned rows>=529 with w"}, {8192, 4, "N=7168 aligned rows>=8192 with w"}}},
	{"rmsnorm_quant", "", 16384, {{1, 8, "N=16384 aligned"}, {65, 16, "N=16384 aligned rows>=65 rows<=264"}, {265, 8, "N=16384 aligned"}}},
	{"layernorm_mxfp8", "w", 14336, {{1, 8, "N=14336 aligned with w"}, {65, 16, "N=14336 aligned rows>=65 rows<=264 with w"}, {265, 8, "N=14336 aligned with w"}}},
	/* the same lanes for many */
	{"quantize_rows", "", 8192, {{1, 16, "N=8192 aligned bare"}, {257, 16, "N=8192 aligned rows>=257 bare"}}},
	{"quantize_rows", "", 1024, {{1, 4, "N=1024 aligned bare"}, {1057, 8, "N=1024 aligned rows>=1057 bare"}}},      /* four rows of two */
	{"quantize_rows", "", 512, {{1, 2, "N=512 aligned bare"}, {512, 8, "N=512 aligned rows>=512 bare"}}},
	{"layernorm_quant", "w", 12288, {{1, 8, "N=12288 aligned with w"}}},                /* not the longest */
	{"quantize_rows", "", 2048, {{1, 8, "N=2048 aligned bare"}, {1057, 8, "N=2048 aligned rows>=1057 bare"}}},      /* two rows of four */
	{"rmsnorm_quant", "", 4096, {{1, 16, "N=4096 aligned"}, {529, 8, "N=4096 aligned rows>=529"}}},
	{"rmsnorm_quant", "", 2048, {{1, 8, "N=2048 aligned"}, {512, 4, "N=2048 aligned rows>=512"}}},                  /* two reductions */
	{"rmsnorm_quant", "", 1024, {{1, 4, "N=1024 aligned"}, {512, 4, "N=1024 aligned rows>=512"},   /* two rows of two */
		{4096, 8, "N=1024 aligned rows>=4096"}}},                     /* eight of one */
	{"layernorm", "w", 4096, {{1, 16, "N=4096 aligned with w"}, {529, 4, "N=4096 aligned rows>=529 with w"},
		{8192, 16, "N=4096 aligned rows>=8192 memory>=4000 with w"}}},
	/* no power of two: 32 elements a lane, and 64 of very many; sooner where a wave is left, four rows of which make a workgroup, and waits for little */
	{"rmsnorm", "w", 1536, {{1, 8, "N=1536 aligned with w"}, {1057, 2, "N=1536 aligned rows>=1057 with w"}, {1536, 4, "N=1536 aligned rows>=1536 with w"}}},
	{"rmsnorm_mxfp8", "w", 1536, {{1, 8, "N=1536 aligned with w"}, {512, 2, "N=1536 aligned rows>=512 with w"}, {1536, 4, "N=1536 aligned rows>=1536 with w"}}},
	{"layernorm_quant", "w b", 1536, {{1, 8, "N=1536 aligned with w b"}, {512, 2, "N=1536 aligned rows>=512 with w b"},
		{8192, 4, "N=1536 aligned rows>=8192 with w b"}}},
	{"rmsnorm_quant", "", 2560, {{1, 16, "N=2560 aligned"}, {512, 4, "N=2560 aligned rows>=512"}}},      /* light: 16, and 32 */
	{"rmsnorm_128", "w", 2560, {{1, 16, "N=2560 aligned with w"}, {512, 4, "N=2560 aligned rows>=512 with w"}, {8192, 2, "N=2560 aligned rows>=8192 with w"}}},
	{"layernorm", "w b", 2560, {{1, 16, "N=2560 aligned with w b"}, {512, 4, "N=2560 aligned rows>=512 with w b"}}},
	/* two tensors of rows: as many lanes for all */
	{"add_rmsnorm_quant", "res w res_out", 4096, {{1, 16, "N=4096 aligned with res w res_out"}}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Of many rows lanes hold 32 elements for 16; up to 1,024 columns a row is then a wave's, four of which make a workgroup, or eight without weights; up to
 * 2,048, where a single reduction is waited for, two rows do. */
static const struct bands_of classes[] = {
	{"rmsnorm_quant", "", 768, {{1, 2, "N<=1024 N%16=0 aligned"}, {3072, 4, "N<=1024 N%16=0 aligned rows>=3072"}}},
	{"quantize_rows", "", 768, {{1, 2, "N<=1024 N%16=0 aligned bare"}, {3072, 8, "N<=1024 N%16=0 aligned rows>=3072 bare"}}},     /* four rows of two */
	{"swiglu_rows", "", 768, {{1, 4, "N<=1024 N%16=0 aligned bare"}, {3072, 4, "N<=1024 N%16=0 aligned rows>=3072 bare"}}},       /* two of two, of two tensors */
	{"swiglu_rows", "", 2560, {{1, 16, "N<=4096 N%16=0 aligned bare"}}},
	{"swiglu_rows", "", 6144, {{1, 16, "N<=8192 N%16=0 aligned bare"}}},
	{"add_rmsnorm_quant", "res w res_out", 768, {{1, 4, "N<=1024 N%16=0 aligned with res w res_out"}, {3072, 4, "N<=1024 N%16=0 aligned rows>=3072 with res w res_out"}}},
	{"add_rmsnorm_quant", "res w res_out", 2560, {{1, 8, "N<=4096 N%16=0 aligned with res w res_out"}}},
	{"softmax_bwd", "", 768, {{1, 2, "N<=1024 N%8=0 aligned"}, {3072, 4, "N<=1024 N%8=0 aligned rows>=3072"}}},     /* not quantised: not spread */
	{"rmsnorm", "w", 1536, {{1, 4, "N<=2048 N%8=0 aligned with w"}, {2048, 4, "N<=2048 N%8=0 aligned rows>=2048 with w"}}},        /* two of two */
	{"quantize_rows", "", 1536, {{1, 4, "N<=2048 N%16=0 aligned bare"}, {2048, 8, "N<=2048 N%16=0 aligned rows>=2048 bare"}}},
	{"rmsnorm_quant", "", 1536, {{1, 4, "N<=2048 N%16=0 aligned"}}},    /* two reductions */
	{"rmsnorm", "w", 3072, {{1, 8, "N<=4096 N%8=0 aligned with w"}, {640, 4, "N<=4096 N%8=0 aligned rows>=640 with w"}}},
	{"layernorm", "w", 3072, {{1, 8, "N<=4096 N%8=0 aligned with w"}, {2048, 4, "N<=4096 N%8=0 aligned rows>=2048 with w"}}},
	{"layernorm", "w", 3080, {{1, 8, "N<=4096 N%8=0 aligned with w"}, {512, 4, "3072<N<=4096 N%8=0 aligned rows>=512 with w"}}},
	{"layernorm_quant", "w", 1536, {{1, 4, "N<=2048 N%16=0 aligned with w"}, {512, 2, "1024<N<=1536 N%16=0 aligned rows>=512 with w"}}},
	{"layernorm_quant", "w", 7184, {{1, 16, "N<=8192 N%16=0 aligned with w"}, {512, 8, "7168<N<=8192 N%16=0 aligned rows>=512 with w"}}},
	{"layernorm_mxfp8", "w", 5120, {{1, 16, "N<=8192 N%32=0 aligned with w"}, {512, 4, "4096<N<=5120 N%32=0 aligned rows>=512 with w"}}},
	{"layernorm_128", "w b", 4736, {{1, 16, "N<=8192 N%128=0 aligned with w b"}, {640, 8, "N<=8192 N%128=0 aligned rows>=640 with w b"}}},
	{"rmsnorm_128", "w", 6144, {{1, 16, "N<=8192 N%128=0 aligned with w"}, {640, 8, "N<=8192 N%128=0 aligned rows>=640 with w"}}},
	{"rmsnorm_mxfp8", "w", 6144, {{1, 16, "N<=8192 N%32=0 aligned with w"}, {2048, 8, "N<=8192 N%32=0 aligned rows>=2048 with w"}}},
	{"quantize_rows", "", 6144, {{1, 16, "N<=8192 N%16=0 aligned bare"}}},
	/* that begin anywhere: of 3,072, 5,120 and 6,144, but in small groups; of 4,096 what is quantised; of 8,192 with a bias, or without weights */
	{"rmsnorm_quant", "", 99, {{1, 4, "N<=128 unaligned"}, {4096, 4, "N<=128 unaligned rows>=4096"}}},
	{"rmsnorm_quant", "", 1001, {{1, 2, "N<=1024 unaligned"}}},
	{"rmsnorm", "w", 3001, {{1, 8, "N<=3072 unaligned with w"}, {2048, 4, "N<=3072 unaligned rows>=2048 with w"}}},
	{"swiglu_rows", "", 3001, {{1, 8, "N<=3072 unaligned bare"}, {2048, 4, "N<=3072 unaligned rows>=2048 bare"}}},
	{"rmsnorm_mxfp8", "w", 3001, {{1, 8, "N<=3072 unaligned with w"}}},
	{"rmsnorm_128", "w", 5001, {{1, 16, "N<=5120 unaligned with w"}, {2048, 8, "N<=5120 unaligned rows>=2048 with w"}}},
	{"rmsnorm", "w", 4001, {{1, 8, "N<=4096 unaligned with w"}}},
	{"rmsnorm_mxfp8", "w", 4001, {{1, 8, "N<=4096 unaligned with w"}, {2048, 4, "N<=4096 unaligned rows>=2048 with w"}}},
	{"quantize_rows", "", 4001, {{1, 8, "N<=4096 unaligned bare"}, {2048, 4, "N<=4096 unaligned rows>=2048 bare"}}},
	{"swiglu_rows", "", 4001, {{1, 8, "N<=4096 unaligned bare"}}},
	{"layernorm", "w b", 7001, {{1, 16, "N<=8192 unaligned with w b"}, {2048, 8, "N<=8192 unaligned rows>=2048 with w b"}}},
	{"rmsnorm_quant", "", 7001, {{1, 16, "N<=8192 unaligned"}}},
	/* gradients with sums of columns where rows begin anywhere, which workgroups take one after the other; gates and tiles of such short rows */
	{"rmsnorm_bwd", "w dw", 60, {{1, 8, "N<=64 unaligned with w dw"}}}, {"layernorm_bwd", "w dw db", 513, {{1, 2, "N<=1024 unaligned with w dw db"},
		{2048, 4, "N<=1024 N>512 unaligned rows>=2048 with w dw db"}}},
	{"layernorm_bwd", "w dw db", 2047, {{1, 4, "N<=2048 unaligned with w dw db"}, {2048, 8, "N<=2048 N>1024 unaligned rows>=2048 with w dw db"}}},
	{"rmsnorm_bwd", "w dw", 3001, {{1, 8, "N<=3072 unaligned with w dw"}, {1024, 16, "N<=3072 N>2048 unaligned rows>=1024 with w dw"}}},
	{"rmsnorm_bwd", "w dw", 6001, {{1, 16, "N<=6144 unaligned with w dw"}, {128, 32, "N<=6144 N>5120 unaligned rows>=128 with w dw"}}},
	{"rmsnorm_bwd", "w dw", 8193, {{1, 16, "N<=10240 unaligned with w dw"}}}, {"silu_bwd", "db", 513, {{1, 4, "unaligned"}}}, {"swiglu_bwd", "b db", 5001, {{1, 2, "unaligned"}}},
	{"silu_bwd", "db", 65, {{1, 8, "N<=128 unaligned"}}}, {"silu_bwd", "db", 56, {{1, 4, "M<=16 N%8=0 aligned"}, {17, 4, "M<=64 N%8=0 aligned"}, {65, 4, "M<=256 N%8=0 aligned"},
		{257, 8, "N%8=0 aligned"}, {65536, 4, "N<=64 N%8=0 aligned rows>=65536"}}},
	/* of three tensors pieces that are half full or more, of two those that are nearly full; several rows of one to a workgroup */
	{"swiglu_bwd", "db", 264, {{1, 4, "M<=16 N%8=0 aligned"}, {17, 4, "M<=64 N%8=0 aligned"}, {65, 4, "M<=256 N%8=0 aligned"}, {257, 8, "N%8=0 aligned"},
		{16384, 4, "N<=512 N%8=0 aligned rows>=16384"}}},
	{"swiglu_bwd", "b db", 768, {{1, 4, "M<=16 N%8=0 aligned"}, {17, 4, "M<=64 N%8=0 aligned"}, {65, 4, "M<=256 N%8=0 aligned"}, {257, 8, "N%8=0 aligned"},
		{8192, 4, "N<=1024 N%8=0 aligned pieces>=8192"}}},
	{"swiglu_bwd", "db", 1032, {{1, 4, "M<=16 N%8=0 aligned"}, {17, 4, "M<=64 N%8=0 aligned"}, {65, 4, "M<=256 N%8=0 aligned"}, {257, 8, "N%8=0 aligned"},
		{4096, 4, "N%8=0 aligned pieces>=8192"}}},
	{"silu_bwd", "db", 768, {{1, 4, "M<=16 N%8=0 aligned"}, {17, 4, "M<=64 N%8=0 aligned"}, {65, 4, "M<=256 N%8=0 aligned"}, {257, 8, "N%8=0 aligned"}}},
	{"swiglu", "", 60, {{1, 4, "unaligned bare"}, {4096, 4, "N<=64 unaligned rows>=4096 bare"}}}, {"geglu", "", 257, {{1, 4, "unaligned bare"}}},
	{"swiglu_bwd", "", 250, {{1, 4, "unaligned bare"}, {4096, 4, "N<=256 unaligned rows>=4096 bare"}}},
	{"swiglu", "", 128, {{1, 4, "N%8=0 aligned bare"}, {512, 4, "N%8=0 aligned rows>=512 bare"}, {4096, 4, "N<=128 N%8=0 aligned rows>=4096 bare"}}},
	{"cast_transpose", "y yt", 60, {{1, 4, "unaligned with y yt"}, {512, 4, "N<=64 unaligned rows>=512 with y yt"}}},
	{"cast_transpose", "y yt", 65, {{1, 4, "unaligned with y yt"}, {512, 8, "unaligned rows>=512 with y yt"}}},
};
enum { CLASSES = sizeof classes / sizeof *classes };

static const struct variant *taken(struct built *b)
{
	for (int v = 0; v < b->n; v++)
		if (device_applies(&b->d, &b->v[v]))
			return &b->v[v];
	ck_abort_msg("%s: no variant", b->r.k->name);
	return NULL;
}

/* More rows than any band asks for. */
enum { ENDLESS = 1 << 20 };

static void check_bands(const struct bands_of *of, struct dsl_pin *pin)
{
	struct built b;
	int last = 0;
	built_for(&b, of->kernel, pin, 1, of->n, of->given);
	for (int i = 0; i < 6 && of->bands[i].variant; i++) {
		int from = of->bands[i].from;
		ir_run_symbol(&b.r, "M", from);
		ck_assert_str_eq(taken(&b)->text, of->bands[i].variant);
		ck_assert_int_eq(taken(&b)->waves, of->bands[i].waves);
		if (i) {
			ir_run_symbol(&b.r, "M", from - 1);
			ck_assert_str_eq(taken(&b)->text, of->bands[i - 1].variant);
		}
		last = i;
	}
	ir_run_symbol(&b.r, "M", ENDLESS);
	ck_assert_str_eq(taken(&b)->text, of->bands[last].variant);
	built_close(&b);
}

START_TEST(bands_begin_and_end)
{
	struct dsl_pin pin = {"N", cases[_i].n};
	check_bands(&cases[_i], &pin);
}
END_TEST

START_TEST(classes_have_bands)
{
	check_bands(&classes[_i], NULL);
}
END_TEST

/* Chips without these numbers have one variant of each length. */
START_TEST(other_chips_have_none)
{
	struct dsl_pin pin = {"N", 5120};
	struct built b;
	built_open_for(&b, "rmsnorm_quant", "gfx942", &pin);
	built_variant(&b, "N=5120 aligned");
	for (int v = 0; v < b.n; v++)
		ck_assert_msg(!strstr(b.v[v].text, "rows"), "%s", b.v[v].text);
	built_close(&b);
}
END_TEST

/* What only few rows do not do: of more than 256 the first 256 are asked for. */
START_TEST(rows_between_ask_early)
{
	struct dsl_pin pin = {"N", 5120};
	struct built b;
	built_open_for(&b, "rmsnorm_mxfp8", "sm_90a", &pin);
	built_give(&b, "w");
	ck_assert_int_gt(built_times(built_ptx(&b, "N=5120 aligned rows>=257 with w"), "prefetch.global.L2"), 0);
	ck_assert_int_eq(built_times(built_ptx(&b, "N=5120 aligned with w"), "prefetch.global.L2"), 0);
	built_close(&b);
}
END_TEST

/* Each by as few rows as it takes; the last workgroup of the wave each has one of eight. */
static const struct { const char *kernel, *given; int m, n; const char *variant; } calls[] = {
	{"rmsnorm_quant", "", 257, 5120, "N=5120 aligned rows>=257"}, {"rmsnorm_128", "w", 257, 5120, "N=5120 aligned rows>=257 with w"},
	{"layernorm_mxfp8", "w", 529, 5120, "N=5120 aligned rows>=529 with w"}, {"layernorm_quant", "w", 65, 14336, "N=14336 aligned rows>=65 rows<=264 with w"},
	{"rmsnorm_128", "w", 65, 16384, "N=16384 aligned rows>=65 rows<=264 with w"}, {"rmsnorm_quant", "", 4097, 1024, "N=1024 aligned rows>=4096"},
	{"rmsnorm_128", "w", 3, 2048, "N=2048 aligned with w"},
};
enum { CALLS = sizeof calls / sizeof *calls };

START_TEST(bands_compute)
{
	struct dsl_pin pin = {"N", calls[_i].n};
	built_call(calls[_i].kernel, &pin, calls[_i].m, calls[_i].n, calls[_i].given, calls[_i].variant);
}
END_TEST

/* Thousands of rows are more than the interpreter has time for: here a few, by their variant, the last workgroup of which has one. */
static const struct { const char *kernel, *given; int pin, m, n; const char *variant; } very_many[] = {
	{"rmsnorm_quant", "", 7168, 3, 7168, "N=7168 aligned rows>=8192"}, {"layernorm_mxfp8", "w", 7168, 3, 7168, "N=7168 aligned rows>=8192 with w"},
	{"rmsnorm_quant", "", 0, 5, 528, "N<=1024 N%16=0 aligned rows>=3072"}, {"rmsnorm_128", "w", 0, 5, 1024, "N<=1024 N%128=0 aligned rows>=3072 with w"},
	{"layernorm", "w b", 0, 5, 776, "N<=1024 N%8=0 aligned rows>=3072 with w b"}, {"quantize_rows", "", 0, 5, 1024, "N<=1024 N%16=0 aligned rows>=3072 bare"},
	{"swiglu_rows", "", 0, 3, 560, "N<=1024 N%16=0 aligned rows>=3072 bare"}, {"rmsnorm", "w", 0, 3, 1032, "N<=2048 N%8=0 aligned rows>=2048 with w"},
	{"layernorm_quant", "w", 0, 3, 1040, "1024<N<=1536 N%16=0 aligned rows>=512 with w"}, {"layernorm_128", "w b", 0, 2, 3200, "3072<N<=4096 N%128=0 aligned rows>=512 with w b"},
	{"layernorm", "w", 0, 2, 7176, "7168<N<=8192 N%8=0 aligned rows>=512 with w"}, {"rmsnorm_mxfp8", "w", 1280, 5, 1280, "N=1280 aligned rows>=1536 with w"},
	{"layernorm_quant", "w b", 1536, 5, 1536, "N=1536 aligned rows>=8192 with w b"}, {"layernorm", "w b", 2560, 2, 2560, "N=2560 aligned rows>=512 with w b"},
	{"layernorm_128", "w b", 0, 2, 3001, "N<=3072 unaligned rows>=2048 with w b"}, {"swiglu_rows", "", 0, 2, 6001, "N<=6144 unaligned rows>=2048 bare"},
	{"quantize_rows", "", 0, 3, 1040, "N<=2048 N%16=0 aligned rows>=2048 bare"}, {"rmsnorm", "w", 0, 3, 2056, "N<=4096 N%8=0 aligned rows>=640 with w"},
	{"swiglu", "", 0, 19, 61, "N<=64 unaligned rows>=4096 bare"}, {"geglu_bwd", "", 0, 5, 129, "N<=256 unaligned rows>=4096 bare"},
	{"swiglu_clamped", "", 0, 37, 40, "N<=64 N%8=0 aligned rows>=4096 bare"}, {"cast_transpose", "y yt", 0, 131, 33, "N<=64 unaligned rows>=512 with y yt"},
};
enum { VERY_MANY = sizeof very_many / sizeof *very_many };

START_TEST(very_many_compute)
{
	struct dsl_pin pin = {"N", very_many[_i].pin};
	struct built b;
	built_for(&b, very_many[_i].kernel, pin.value ? &pin : NULL, very_many[_i].m, very_many[_i].n, very_many[_i].given);
	built_run(&b, &b.v[built_variant(&b, very_many[_i].variant)]);
	built_close(&b);
}
END_TEST

/* Rows of several matrices do not join: those that are held in one wave. */
START_TEST(rows_of_matrices_compute)
{
	struct built b;
	built_open_for(&b, "softmax_rows", "sm_90a", NULL);
	ir_run_symbol(&b.r, "B", 2);
	ir_run_symbol(&b.r, "S", 2);
	ir_run_symbol(&b.r, "N", 776);
	built_give(&b, "");
	int v = built_variant(&b, "N<=1024 N%8=0 aligned rows>=3072 bare");
	ck_assert_int_eq(b.v[v].waves, 1);
	built_run(&b, &b.v[v]);
	built_close(&b);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, bands_begin_and_end, 0, CASES);
	tcase_add_loop_test(t, classes_have_bands, 0, CLASSES);
	tcase_add_test(t, other_chips_have_none);
	tcase_add_test(t, rows_between_ask_early);
	tcase_add_loop_test(t, bands_compute, 0, CALLS);
	tcase_add_loop_test(t, very_many_compute, 0, VERY_MANY);
	tcase_add_test(t, rows_of_matrices_compute);
}

int main(void)
{
	return nvptx_run("nvptx bands", add_tests);
}
