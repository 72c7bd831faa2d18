/* nvptx_unaligned_test.c -- sm_90a's variants for rows that begin anywhere: sizes that are multiples of nothing.
 *
 * In: kernels.tdsl.  Checked: what calls of such sizes take, run against the evaluated laid-out IR, bit for bit; that lanes which lie side by
 * side access elements which do, one each, also of lines that are turned; which calls fall behind these variants to the general one. */
#include "../compiler/affine.h"
#include "nvptx_help.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *kernel, *given, *variant; int m, n; } odd[] = {
	{"rmsnorm_quant", "", "N<=512 unaligned", 3, 401}, {"rmsnorm_quant", "", "N<=1024 unaligned", 3, 601},
	{"rmsnorm_quant", "", "N<=5120 unaligned", 2, 5001},                                /* a tile of 10 x 512 */
	{"rmsnorm_quant", "", "N<=6144 unaligned", 2, 5121},
	{"layernorm_quant", "w", "N<=3072 unaligned with w", 3, 2051},
	{"softmax_rows", "", "unaligned bare", 2, 16401},                                   /* swept */
	{"add_rmsnorm_quant", "res w res_out", "N<=64 unaligned with res w res_out", 3, 1},
	{"rmsnorm_128", "w rstd", "N<=1024 unaligned", 3, 401},                             /* of a set without variants of its own */
	{"quantize_128", "", "unaligned bare", 3, 1001},                                    /* the last group is of 105 */
	{"dequantize_128", "", "unaligned", 3, 301},
	{"swiglu_bwd", "", "unaligned bare", 5, 1001},
	{"rmsnorm_bwd", "w dw", "N<=1024 unaligned with w dw", 65, 563},
	{"cast_transpose", "y yt", "unaligned with y yt", 70, 301},                         /* turned */
	{"cast_transpose", "y yt", "unaligned rows>=512 with y yt", 517, 65}, {"cast_transpose", "y yt", "N<=64 unaligned rows>=512 with y yt", 517, 33},
	{"quantize_both_mxfp8", "y scale yt scale_t", "unaligned", 67, 133},
	{"quantize_both_128", "y scale yt scale_t", "unaligned", 131, 259},
	{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N<=1024 unaligned with w y scale yt scale_t", 67, 401},
};
enum { ODD = sizeof odd / sizeof *odd };

START_TEST(odd_sizes_compute)
{
	built_call(odd[_i].kernel, NULL, odd[_i].m, odd[_i].n, odd[_i].given, odd[_i].variant);
}
END_TEST

/* Of every kernel: the lane's lowest bit is a step along what is contiguous, and no access is of several elements. */
START_TEST(lanes_lie_side_by_side)
{
	struct built b;
	bool any = false;
	built_open(&b, nvptx_kernels.names[_i]);
	for (int v = 0; v < b.n; v++) {
		if (!b.v[v].single)
			continue;
		const struct ir_kernel *k = built_passed(&b, v, NULL);
		any = true;
		for (int p = 0; p < k->nphases; p++)
			for (const struct ir_ins *i = k->phases[p].body->first; i; i = i->next) {
				const struct ir_param *t = i->op == IR_LOAD || i->op == IR_STORE ? &k->params[i->imm] : NULL;
				bool row = t && t->rank == 2 && t->extent[1]->op != HX_CDIV;
				for (int a = 0; row && i->op == IR_STORE && a < k->phases[p].naxes; a++)         /* not of numbers of groups */
					row = k->phases[p].axes[a].kind != AXIS_HELD || (i->axes & IR_AXIS(a));
				struct affine last = row ? affine_of(i->args[t->rank - 1]) : (struct affine){.ok = false};
				for (int a = 0; last.ok && i->layout && a < k->phases[p].naxes; a++)
					ck_assert_msg(last.coef[a] != 1 || layout_size(i->layout, a) < 32 || layout_lane_bit(i->layout, a) == 0, "%s %s: %s", nvptx_kernels.names[_i],
					              b.v[v].text, t->name);
			}
		const char *ptx = built_ptx(&b, b.v[v].text), *at = ptx;
		while ((at = strstr(at, ".global")) != NULL) {
			ck_assert_msg(strncmp(at, ".global.v", 9) && strncmp(at, ".global.L2::cache_hint.v", 24), "%s %s: %.60s", nvptx_kernels.names[_i], b.v[v].text, at);
			at++;
		}
	}
	ck_assert_msg(any || strncmp(nvptx_kernels.names[_i], "rmsnorm", 7), "%s", nvptx_kernels.names[_i]);
	built_close(&b);
}
END_TEST

/* Elements of a lane in the last phase: few of what is not reduced, of bytes with which little is done more; of turned tiles half as many
 * lanes as where words are stored. */
START_TEST(lanes_hold_few)
{
	static const struct { const char *kernel, *variant; int waves, each; } cases[] = {
		{"add", "unaligned", 4, 4}, {"dequantize_rows", "unaligned", 4, 8}, {"swiglu", "unaligned bare", 4, 4}, {"swiglu", "N<=128 unaligned rows>=4096 bare", 4, 8}, {"swiglu_bwd", "N<=128 unaligned rows>=4096 bare", 4, 4},
		{"cast_transpose", "unaligned rows>=512 with y yt", 8, 32}, {"cast_transpose", "N<=64 unaligned rows>=512 with y yt", 4, 32}, {"cast_transpose", "unaligned with y yt", 4, 16},
		{"quantize_both_mxfp8", "unaligned", 4, 32}, {"quantize_both_128", "unaligned", 16, 32},
		{"rmsnorm_both_mxfp8", "unaligned with w y scale yt scale_t", 4, 32}, {"layernorm_both_mxfp8", "unaligned with w y scale yt scale_t", 4, 32},
		{"rmsnorm_quant", "N<=5120 unaligned", 16, 10}, {"rmsnorm_quant", "N<=6144 unaligned", 16, 12}, {"rmsnorm_128", "N<=8192 unaligned", 16, 16},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open(&b, cases[c].kernel);
		int v = built_variant(&b, cases[c].variant), n = 1;
		const struct ir_kernel *k = built_passed(&b, v, NULL);
		const struct ir_phase *ph = &k->phases[k->nphases - 1];
		for (int a = 0; a < ph->naxes; a++)
			n *= ph->axes[a].kind == AXIS_LOOP ? 1 : ph->axes[a].tile;
		int waves = variant_waves(&b.v[v], k->nphases - 1);
		ck_assert_msg(waves == cases[c].waves && n == cases[c].each * waves * 32, "%s %s: %d elements, %d waves", cases[c].kernel, cases[c].variant, n, waves);
		built_close(&b);
	}
}
END_TEST

static bool is_between(const char *text)
{
	static const char *const classes[] = {"N<=3072 ", "N<=5120 ", "N<=6144 ", "N<=10240 ", "N<=12288 "};
	bool found = false;
	for (unsigned c = 0; c < sizeof classes / sizeof *classes; c++)
		found = found || strncmp(text, classes[c], strlen(classes[c])) == 0;
	return found;
}

/* The AMD chips' packs have no room for them, but for sizes that a text lists (short_test.c). */
START_TEST(other_chips_have_none)
{
	struct built b;
	built_open_for(&b, nvptx_kernels.names[_i], "gfx942", NULL);
	for (int v = 0; v < b.n; v++)
		ck_assert_msg(!(b.v[v].aligned && b.v[v].single) && !is_between(b.v[v].text), "%s %s", nvptx_kernels.names[_i], b.v[v].text);
	built_close(&b);
}
END_TEST

/* Classes between the powers of two are sm_90a's; of rows that begin anywhere, where a set or nothing else is planned for.  The four
 * shortest, of groups of 128 three, have one more for many rows, and so have those of 3,072 to 6,144, that of 4,096 of one tensor. */
START_TEST(classes_of_sizes)
{
	static const struct { const char *kernel; int unaligned, between; } cases[] = {
		{"rmsnorm_quant", 11 + 4 * 2 + 4, 5 + 3}, {"rmsnorm_128", 2 * (11 + 3 * 2) + 4 + 3 + 6, 2 * (5 + 3)}, {"multi_tensor_amax", 0, 0},      /* lists have their own rule for tensors that begin anywhere */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		int unaligned = 0, between = 0;
		built_open(&b, cases[c].kernel);
		for (int v = 0; v < b.n; v++) {
			unaligned += b.v[v].aligned && b.v[v].single;
			between += b.v[v].single && is_between(b.v[v].text);
		}
		ck_assert_msg(unaligned == cases[c].unaligned && between == cases[c].between, "%s: %d, %d", cases[c].kernel, unaligned, between);
		built_close(&b);
	}
}
END_TEST

/* Aligned rows of each class of sizes, also where sizes are pinned: rows of 6,144 took 16,384 places where every second class had to do.  The AMD
 * chips' packs have no room for more than short rows and all others, whose waves vary, or fewer where registers do not suffice for as many. */
START_TEST(pinned_sizes_leave_the_classes_whole)
{
	static const struct { const char *kernel, *target, *given; int places[9]; } cases[] = {
		{"rmsnorm_quant", "sm_90a", "N%16=0 aligned", {1024, 2048, 4096, 8192, 16384}}, {"swiglu_rows", "sm_90a", "N%16=0 aligned bare", {1024, 2048, 4096, 8192, 16384}},
		{"rmsnorm_quant", "gfx942", "N%16=0 aligned", {1024, 32768, 16384}},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		bool pinned = false;
		int found = 0, places = 0;
		built_open_for(&b, cases[c].kernel, cases[c].target, NULL);
		for (int v = 0; v < b.n; v++) {
			const char *rest = b.v[v].text + strcspn(b.v[v].text, " ");
			pinned = pinned || strncmp(b.v[v].text, "N=2048 ", 7) == 0;
			if (sscanf(b.v[v].text, "N<=%d ", &places) != 1 || strcmp(rest + 1, cases[c].given) || b.v[v].shares)
				continue;
			ck_assert_msg(places == cases[c].places[found], "%s %s: %s", cases[c].kernel, cases[c].target, b.v[v].text);
			found++;
		}
		ck_assert_msg(pinned && !cases[c].places[found], "%s %s: %d classes", cases[c].kernel, cases[c].target, found);
		built_close(&b);
	}
}
END_TEST

/* Rows with gaps between their elements; those that begin anywhere are no such. */
START_TEST(strides_inside_rows_take_the_general_one)
{
	struct built b;
	built_for(&b, "rmsnorm_quant", NULL, 3, 401, "");
	const struct variant *v = &b.v[built_variant(&b, "N<=1024 unaligned")];
	struct ir_tensor *x = &b.r.tensors[0];
	ck_assert(device_applies(&b.d, v));
	x->stride[0] = 407;
	ck_assert(device_applies(&b.d, v));
	x->data = (char *)x->data + 2;
	ck_assert(device_applies(&b.d, v));
	x->data = (char *)x->data - 2;
	x->stride[1] = 2;
	ck_assert(!device_applies(&b.d, v));
	x->stride[1] = 1;
	ir_run_symbol(&b.r, "N", 1025);
	ck_assert(!device_applies(&b.d, v));
	built_close(&b);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, odd_sizes_compute, 0, ODD);
	tcase_add_loop_test(t, lanes_lie_side_by_side, 0, nvptx_kernels.n);
	tcase_add_test(t, lanes_hold_few);
	tcase_add_loop_test(t, other_chips_have_none, 0, nvptx_kernels.n);
	tcase_add_test(t, classes_of_sizes);
	tcase_add_test(t, pinned_sizes_leave_the_classes_whole);
	tcase_add_test(t, strides_inside_rows_take_the_general_one);
}

int main(void)
{
	return nvptx_run("nvptx unaligned", add_tests);
}
