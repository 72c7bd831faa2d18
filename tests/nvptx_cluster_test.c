/* nvptx_cluster_test.c -- kernels whose rows the workgroups of a cluster hold whole between them, on sm_90a: as tiles of two phases in one, and rows longer
 * than a workgroup holds.
 * In: kernels.tdsl.  Checked: which variants there are and who has none; what their PTX asks of the chip; that they compute what the laid-out IR
 * does, bit for bit, with members that have nothing and with groups that end early; what lanes of a wave share. */
#include "nvptx_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(clusters_compute)
{
	static const struct { const char *kernel, *given, *variant; int m, n; } cases[] = {
		{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N<=512 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", 64, 96},       /* the second member has nothing */
		{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N<=1024 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", 32, 1024},
		{"layernorm_both_mxfp8", "w b y scale yt scale_t", "N<=2048 M%32=0 N%32=0 aligned clusters with w b y scale yt scale_t", 32, 1056},
		{"layernorm_both_mxfp8", "w y scale yt scale_t", "N<=4096 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", 32, 2080},
		{"rmsnorm_both_mxfp8", "w yt scale_t", "N<=512 M%32=0 N%32=0 aligned clusters with w y? scale? yt? scale_t?", 64, 288},
		{"layernorm_both_mxfp8", "w b y scale", "N<=1024 M%32=0 N%32=0 aligned clusters with w b y? scale? yt? scale_t?", 32, 640},
		{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N<=8192 N>6144 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", 32, 6176},      /* lanes of 128 elements */
		{"rmsnorm_both_mxfp8", "res w y scale yt scale_t res_out rstd", "N<=8192 N>6144 M%32=0 N%32=0 aligned clusters with res w? amax? y? scale? yt? scale_t? res_out? rstd?", 32, 7168},
		{"rows_then_wide_tiles", "", "N<=4096 N>3072 M%64=0 N%32=0 aligned clusters", 64, 3104},
		{"rmsnorm", "w amax yt rstd", "N<=512 M%32=0 N%32=0 aligned clusters with w? scale? amax? yt res_out? rstd?", 64, 288},       /* in one place, by each member */
		{"layernorm", "b yt", "N<=1024 M%8=0 N%32=0 aligned clusters with w? b? scale? yt", 40, 640},
		{"layernorm_both_128", "w b y scale yt scale_t", "N<=512 M%128=0 N%128=0 aligned clusters with w? b? y? scale? yt? scale_t? res_out? rstd? mu?", 128, 384},
		{"layernorm_both_128", "res w y scale res_out", "N<=256 M%128=0 N%128=0 aligned clusters with res w? b? y? scale? yt? scale_t? res_out? rstd? mu?", 128, 256},
		{"rmsnorm_both_mxfp4", "w amax y scale yt scale_t", "N<=512 M%32=0 N%32=0 aligned clusters with w? amax? y? scale? yt? scale_t? res_out? rstd?", 64, 288},       /* the largest, by each member of its tiles */
		{"rmsnorm_bwd_both_mxfp8", "w dx scale dxt scale_t amax", "N<=512 M%32=0 N%32=0 aligned clusters with w? mu? dres? amax? dx? scale? dxt? scale_t?", 32, 512},
		{"rmsnorm_bwd_both_mxfp8", "w dx scale dxt scale_t dw", "N<=1024 M%32=0 N%32=0 aligned", 64, 288},           /* sums of columns: launches of their own */
		{"softmax_bwd_both_128", "amax dx scale", "N<=1024 M%128=0 N%128=0 aligned clusters", 128, 640},
		{"rows_then_blocks", "", "N<=2048 M%128=0 N%128=0 aligned clusters", 128, 1152}, {"rows_then_blocks", "", "N<=256 M%128=0 N%128=0 aligned clusters", 256, 128},
		{"rows_then_long_blocks", "", "N<=512 M%128=0 N%128=0 aligned clusters", 128, 512},
	};
	built_call(cases[_i].kernel, NULL, cases[_i].m, cases[_i].n, cases[_i].given, cases[_i].variant);
}
END_TEST

/* Members with all of their part, with some of it, and with nothing; of columns that are no power of two; pairs, for as many rows as these are for. */
static const struct { const char *kernel, *given, *variant; int m, n; } longer[] = {
	{"rmsnorm_quant", "", "N<=20480 N%16=0 aligned clusters", 2, 16400}, {"rmsnorm_quant", "", "N<=32768 N%16=0 aligned clusters", 1, 32768},
	{"rmsnorm_quant", "", "N<=40960 N%16=0 aligned clusters", 1, 40000}, {"rmsnorm_quant", "", "N<=131072 N%16=0 aligned clusters", 1, 131072},
	{"layernorm_quant", "w", "N<=28672 N%16=0 aligned clusters with w", 2, 24592}, {"layernorm_quant", "w", "N<=20480 N%16=0 aligned clusters with w", 1, 20480},
	{"add_rmsnorm_quant", "res w res_out", "N<=24576 N%16=0 aligned clusters with res w res_out", 1, 16400},
	{"add_rmsnorm_quant", "res w res_out", "N<=131072 N%16=0 aligned clusters with res w res_out", 1, 65552},
	{"rmsnorm_128", "w", "N<=40960 N%128=0 aligned clusters with w", 1, 33024}, {"softmax_bwd", "", "N<=24576 N%8=0 aligned clusters", 3, 20488},
	{"quantize_rows", "", "N<=163840 N%16=0 aligned clusters bare", 1, 131088}, {"quantize_rows", "", "N<=262144 N%16=0 aligned clusters bare", 1, 262144},
	{"quantize_rows", "", "N%16=0 aligned bare", 1, 262160}, {"quantize_rows", "", "N<=14336 N>12288 rows>=512 N%16=0 aligned clusters bare", 512, 12304},
	{"layernorm_128", "w b", "N<=20480 N%128=0 aligned clusters with w b", 1, 16512}, {"layernorm_128", "w b", "N<=65536 N%128=0 aligned clusters with w b", 1, 57472},
	{"layernorm", "w b", "N<=24576 N%8=0 aligned clusters with w b", 2, 20488}, {"rmsnorm", "w", "N<=32768 N%8=0 aligned clusters with w", 1, 28680},
	{"layernorm_bwd", "w", "N<=10240 N>8192 rows>=512 N%8=0 aligned clusters with w", 512, 8200},
};
enum { LONG = sizeof longer / sizeof *longer };

START_TEST(long_rows_compute)
{
	built_call(longer[_i].kernel, NULL, longer[_i].m, longer[_i].n, longer[_i].given, longer[_i].variant);
}
END_TEST

/* One result, of which all lanes load a part or two and exchange them: not each lane all 64 parts. */
START_TEST(parts_are_folded_by_lanes)
{
	struct built b;
	built_open(&b, "rmsnorm_quant");
	const char *ptx = built_ptx(&b, "N<=131072 N%16=0 aligned clusters");
	ck_assert_int_eq(built_times(ptx, "mbarrier.try_wait"), 1);
	ck_assert_int_eq(built_times(ptx, "ld.shared"), 2 * 2);     /* sums of squares, and the largest, in one round */
	built_close(&b);
}
END_TEST

/* Weights that are wanted behind a sum come by way of group memory, asked for with the row; nobody waits for them before its members' sums have come, and
 * each lane takes what it asked for.  Not what is wanted before, nor of tiles that are reduced across as well, nor more than there is room for. */
START_TEST(weights_are_staged)
{
	static const struct { const char *kernel, *variant; int staged, loaded; } cases[] = {
		{"layernorm_128", "N<=20480 N%128=0 aligned clusters with w b", 2 * 5, 5}, {"rmsnorm", "N<=32768 N%8=0 aligned clusters with w", 8, 8},
		{"rmsnorm_quant", "N<=20480 N%16=0 aligned clusters", 0, 2 * 5},
		{"layernorm_both_mxfp8", "N<=2048 M%32=0 N%32=0 aligned clusters with w b y scale yt scale_t", 0, 0},
		{"many_weights", "N<=32768 N%4=0 aligned clusters", 0, 0},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open_for(&b, cases[c].kernel, "sm_90a", NULL);
		const char *ptx = built_ptx(&b, cases[c].variant), *wait = strstr(ptx, "cp.async.wait_all"), *sums = strstr(ptx, "mbarrier.try_wait");
		ck_assert_msg(built_times(ptx, "cp.async.ca.shared.global") == cases[c].staged, "%s: %d staged", cases[c].kernel, built_times(ptx, "cp.async.ca.shared.global"));
		ck_assert_msg(built_times(ptx, "cp.async.wait_all") == (cases[c].staged > 0), "%s", cases[c].kernel);
		ck_assert_msg(!cases[c].loaded || built_times(ptx, "ld.global") == cases[c].loaded, "%s: %d loaded", cases[c].kernel, built_times(ptx, "ld.global"));
		ck_assert_msg(!wait || (sums < wait && !strstr(wait, "ld.global")), "%s", cases[c].kernel);
		built_close(&b);
	}
}
END_TEST

enum { NORMS = 3, DENSE = 10 };
static const struct { const char *kernel, *given, *variant; int m, n; } dense[DENSE] = {
	{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N=512 M%32=0 aligned dense clusters with w y scale yt scale_t", 64, 512},
	{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N=4096 M%32=0 aligned dense clusters with w y scale yt scale_t", 32, 4096},
	{"layernorm_both_mxfp8", "w b y scale yt scale_t", "N=1024 M%32=0 aligned dense clusters with w b y scale yt scale_t", 64, 1024},
	{"rows_then_tiles", "", "N=512 M%32=0 aligned dense clusters", 96, 512}, {"rows_then_wide_tiles", "", "N=1024 M%64=0 aligned dense clusters", 64, 1024},
	{"rows_then_small_tiles", "", "N=1024 M%16=0 aligned dense clusters", 48, 1024}, {"rows_then_columns_of_tiles", "", "N=512 M%32=0 aligned dense clusters", 64, 512},
	{"rows_of_products", "", "N=1024 M%32=0 aligned dense clusters", 32, 1024},
	{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N=8192 M%32=0 aligned dense clusters with w y scale yt scale_t", 32, 8192},
	{"layernorm_both_mxfp8", "w y scale yt scale_t", "N=8192 M%32=0 aligned dense clusters with w y scale yt scale_t", 32, 8192},
};

START_TEST(rows_behind_each_other_compute)
{
	struct dsl_pin pin = {"N", dense[_i].n};
	built_call(dense[_i].kernel, &pin, dense[_i].m, dense[_i].n, dense[_i].given, dense[_i].variant);
}
END_TEST

/* A call with aligned tensors, of the optional ones those in `given`, whose rows are `row` elements apart, 16 more in tensor `padded`. */
struct rows { int64_t row; int padded; uint64_t given; };

static int64_t leaf_of_rows(void *ctx, enum hexpr_op op, int64_t imm)
{
	const struct rows *r = ctx;
	return op == HX_STRIDE ? r->row + (imm / 16 == r->padded ? 16 : 0) : op == HX_PRESENT ? (int64_t)(r->given >> imm & 1) : 1;
}

static bool takes(const struct built *b, int variant, int64_t m, int64_t n, int padded)
{
	int64_t symbols[MODEL_MAX_SYMBOL] = {0}, value = 0;
	struct rows rows = {n, padded, b->v[variant].given};
	const char *why;
	for (int s = 0; s < b->r.k->nsymbols; s++)
		symbols[s] = strcmp(b->r.k->symbols[s], "M") == 0 ? m : n;
	struct hexpr_env env = {symbols, b->r.k->nsymbols, leaf_of_rows, &rows};
	return hexpr_eval(b->v[variant].predicate, &env, &value, &why) == 0 && value;
}

/* A pinned number of columns that the members hold exactly: no masks, and no strides but those of what is stored across.  A call whose rows do not
 * lie one behind the other takes the class, unless it is those. */
START_TEST(rows_behind_each_other_have_no_strides)
{
	struct dsl_pin pin = {"N", dense[_i].n};
	struct built b;
	struct device_code code;
	built_open_for(&b, dense[_i].kernel, "sm_90a", &pin);
	int v = built_variant(&b, dense[_i].variant);
	ck_assert(takes(&b, v, 64, dense[_i].n, -1) && !takes(&b, v, 64, dense[_i].n - 32, -1) && !takes(&b, v, 65, dense[_i].n, -1));
	for (int t = 0; t < b.r.k->nparams; t++) {
		const char *name = b.r.k->params[t].name;
		bool dense_one = strcmp(name, "x") == 0 || strcmp(name, "y") == 0 || strcmp(name, "scale_t") == 0;
		ck_assert_msg(takes(&b, v, 64, dense[_i].n, t) == !dense_one, "%s padded", name);
	}
	device_compile(&b.d, &b.v[v], &code, dense[_i].variant);
	int strides = 0;
	for (int i = 0; i < code.launches[0].nkargs; i++)
		strides += code.launches[0].kargs[i].kind == KA_STRIDE32;
	ck_assert_int_eq(strides, 2);
	const struct ir_kernel *k = built_passed(&b, v, NULL);
	for (const struct ir_ins *i = k->phases[0].body->first; i; i = i->next)
		ck_assert(!(i->flags & IR_MASKED));
	char most[128];
	snprintf(most, sizeof most, "N<=%d M%%32=0 N%%32=0 aligned clusters with %s", dense[_i].n, dense[_i].given);
	ck_assert_int_lt(v, built_variant(&b, most));
	ck_assert(takes(&b, built_variant(&b, most), 64, dense[_i].n, 0));
	free(code.elf);
	built_close(&b);
}
END_TEST

/* Of other pinned columns some places would be empty. */
START_TEST(other_columns_are_not_pinned)
{
	struct dsl_pin pin = {"N", 3072};
	struct built b;
	built_open_for(&b, "rmsnorm_both_mxfp8", "sm_90a", &pin);
	for (int v = 0; v < b.n; v++)
		ck_assert_msg(!b.v[v].cluster || !b.v[v].npins, "%s", b.v[v].text);
	built_close(&b);
}
END_TEST

/* One launch without workspace, of as many workgroups beside each other as a cluster has; a counter for each time that they wait. */
START_TEST(members_are_asked_for)
{
	static const struct { const char *kernel, *variant, *cluster; int members, rounds; } cases[] = {
		{"rmsnorm_both_mxfp8", "N<=512 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", ".reqnctapercluster 2, 1, 1", 2, 1},
		{"rmsnorm_both_mxfp8", "N<=4096 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", ".reqnctapercluster 16, 1, 1", 16, 1},
		{"layernorm_both_mxfp8", "N<=2048 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", ".reqnctapercluster 8, 1, 1", 8, 2},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct device_code code;
		int64_t x = 0;
		const char *why;
		built_open(&b, cases[c].kernel);
		const char *ptx = built_ptx(&b, cases[c].variant);
		ck_assert_msg(built_times(ptx, cases[c].cluster) == 1, "%s", cases[c].variant);
		ck_assert_int_eq(built_times(ptx, "mbarrier.init"), cases[c].rounds);
		ck_assert_int_eq(built_times(ptx, "mbarrier.arrive.expect_tx"), cases[c].rounds);
		ck_assert_int_eq(built_times(ptx, "mbarrier.try_wait"), cases[c].rounds);
		ck_assert_int_eq(built_times(ptx, "barrier.cluster.arrive"), 1);
		ck_assert_int_eq(built_times(ptx, "barrier.cluster.wait"), 1);
		ck_assert(strstr(ptx, "barrier.cluster.arrive") < strstr(ptx, "ld.global") && strstr(ptx, "barrier.cluster.wait") < strstr(ptx, "st.async"));
		device_compile(&b.d, &b.v[built_variant(&b, cases[c].variant)], &code, cases[c].variant);
		struct hexpr_env env = {.symbols = b.r.symbols, .nsymbols = b.r.k->nsymbols};
		ck_assert(code.nlaunches == 1 && !code.workspace);
		ck_assert(hexpr_eval(code.launches[0].grid[0], &env, &x, &why) == 0 && x == cases[c].members);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

/* Sums are on their way while a workgroup computes what does not need them: here the weighted row's maxima, whose parts lie side by side for the lanes
 * that write them in accesses of several. */
START_TEST(sums_are_sent_first)
{
	static const char *const variants[] = {"N<=512 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", "N<=4096 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t"};
	for (unsigned c = 0; c < sizeof variants / sizeof *variants; c++) {
		struct built b;
		built_open(&b, "rmsnorm_both_mxfp8");
		const char *ptx = built_ptx(&b, variants[c]), *sent = strstr(ptx, "st.async"), *waited = strstr(ptx, "barrier.cluster.wait"), *end = waited ? strchr(waited, '@') : NULL;
		ck_assert_msg(sent && end, "%s", variants[c]);
		ck_assert_msg(waited < sent && sent < strstr(ptx, "max.f32"), "%s", variants[c]);
		ck_assert_msg(strncmp(end + 1, "%p", 2) == 0 && end < sent && strstr(end, "mbarrier.arrive.expect_tx") < strchr(end, '\n'), "%s: a branch before what is sent", variants[c]);
		ck_assert_msg(!built_times(ptx, "st.shared.b32") && built_times(ptx, "st.shared.v4.b32") >= 4, "%s", variants[c]);
		built_close(&b);
	}
}
END_TEST

/* Of phases that can be one, and of rows that are reduced whole, on chips that have clusters; the others are two launches, or swept. */
START_TEST(who_has_clusters)
{
	static const struct { const char *kernel, *target; int n; } cases[] = {
		{"rmsnorm_both_mxfp8", "sm_90a", 4 * 6 + 5}, {"layernorm_both_mxfp8", "sm_90a", 4 * 8}, {"rmsnorm_both_mxfp8", "gfx942", 0}, {"rmsnorm_both_mxfp8", "gfx950", 0},
		{"layernorm_both_128", "sm_90a", 2 * 3}, {"rows_then_blocks", "sm_90a", 4}, {"rows_then_long_blocks", "sm_90a", 2}, {"rows_then_blocks", "gfx950", 0},
		{"rows_then_tiles", "sm_90a", 4}, {"rows_then_wide_tiles", "sm_90a", 4 + 1},
		{"rows_then_small_tiles", "sm_90a", 4 + 1}, {"rows_then_columns_of_tiles", "sm_90a", 4 + 1}, {"rows_of_products", "sm_90a", 4},
		{"rows_then_rows_apart", "sm_90a", 0}, {"rows_then_tiles_of_24", "sm_90a", 0}, {"rows_kept_twice", "sm_90a", 0},
		{"rows_then_other_rows", "sm_90a", 0},                   /* what is kept of a row is asked for by another */
		{"rows_then_tiles_in_place", "sm_90a", 0},               /* what is read is stored */
		{"quantize_current", "sm_90a", 0}, {"quantize_both_mxfp8", "sm_90a", 0},
		{"rmsnorm_bwd", "sm_90a", 12}, {"rmsnorm_quant", "sm_90a", 14}, {"rmsnorm_quant", "gfx942", 0}, {"softmax_rows", "sm_90a", 14}, {"layernorm_bwd", "sm_90a", 14},
		{"swiglu_masked_rows", "sm_90a", 0},                     /* whose rows may not be there */
		{"quantize_128", "sm_90a", 0},                           /* of whose rows nothing whole is made */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		int n = 0;
		built_open_for(&b, cases[c].kernel, cases[c].target, NULL);
		for (int v = 0; v < b.n; v++)
			n += b.v[v].cluster > 0;
		ck_assert_msg(n == cases[c].n, "%s %s: %d", cases[c].kernel, cases[c].target, n);
		built_close(&b);
	}
}
END_TEST

/* Of the numbers that lanes of a wave all have a part of each makes one: its scale once, then an exchange a number.  Of few all lanes
 * make all. */
START_TEST(lanes_share)
{
	static const struct { const char *kernel, *variant; int asked; const char *scale; } cases[] = {
		{"rmsnorm_mxfp8", "N=4096 aligned rows>=529 with w", 4, "st.global.b8"}, {"rmsnorm_128", "N=4096 aligned rows>=529 with w", 4, "st.global.b32"},
		{"quantize_mxfp8", "N%4096=0 aligned rows>=512 bare", 0, NULL},   /* a lane has one */
		{"swiglu_128", "N=2048 aligned rows>=512 bare", 0, NULL},         /* two: what is spared is less than what is asked */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open(&b, cases[c].kernel);
		const char *ptx = built_ptx(&b, cases[c].variant);
		ck_assert_msg(built_times(ptx, "shfl.sync.idx") == cases[c].asked, "%s: %d asked", cases[c].kernel, built_times(ptx, "shfl.sync.idx"));
		ck_assert_msg(!cases[c].scale || built_times(ptx, cases[c].scale) == 1, "%s: %d stored", cases[c].kernel, cases[c].scale ? built_times(ptx, cases[c].scale) : 0);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, clusters_compute, 0, 20);
	tcase_add_loop_test(t, long_rows_compute, 0, LONG);
	tcase_add_test(t, parts_are_folded_by_lanes);
	tcase_add_test(t, weights_are_staged);
	tcase_add_loop_test(t, rows_behind_each_other_compute, 0, DENSE);
	tcase_add_loop_test(t, rows_behind_each_other_have_no_strides, 0, NORMS);
	tcase_add_test(t, other_columns_are_not_pinned);
	tcase_add_test(t, members_are_asked_for);
	tcase_add_test(t, sums_are_sent_first);
	tcase_add_test(t, who_has_clusters);
	tcase_add_test(t, lanes_share);
}

int main(void)
{
	return nvptx_run("nvptx clusters", add_tests);
}
