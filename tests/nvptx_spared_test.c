/* nvptx_spared_test.c -- what tiles and rows are spared: bytes taken out of words, masks of single elements, parts of memory's lines, workgroups
 * of a row, turns at group memory.
 *
 * In: kernels.tdsl.  Checked: that what is turned is narrowed in the order of its lines, that a lane masks what it has folded and not each of
 * its elements, that an access takes whole lines where rows fill their places, and that short rows of a wave each share a workgroup, whose last waves may have none: run against the evaluated laid-out
 * IR, bit for bit. */
#include "nvptx_help.h"
#include "../compiler/target/emit/emit.h"

#include <check.h>
#include <string.h>

/* The axis along which the registers of a lane run first. */
static const char *first_axis(const struct ir_phase *ph, const struct layout *l)
{
	for (int a = 0; l && a < ph->naxes; a++)
		if (layout_vector(l, a))
			return ph->axes[a].name;
	return "none";
}

/* Codes for both stores stand in words, those along rows and those across: no instruction takes bytes out of them. */
START_TEST(turned_words_are_narrowed_in_place)
{
	static const struct { const char *kernel, *target, *variant; } cases[] = {
		{"quantize_both_mxfp8", "sm_90a", "M%32=0 N%32=0 aligned"}, {"quantize_both_128", "sm_90a", "M%128=0 N%128=0 aligned"},
		{"swiglu_both_128", "sm_90a", "M%128=0 N%128=0 aligned with y scale yt scale_t"},
		{"rmsnorm_both_mxfp8", "sm_90a", "N<=4096 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t"},
		{"quantize_both_128", "gfx942", "M%128=0 N%128=0 aligned"}, {"swiglu_both_128", "gfx950", "M%128=0 N%128=0 aligned with y scale yt scale_t"},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		int turned = 0, along = 0;
		built_open_for(&b, cases[c].kernel, cases[c].target, NULL);
		const struct ir_kernel *k = built_passed(&b, built_variant(&b, cases[c].variant), NULL);
		const struct ir_phase *ph = &k->phases[0];
		for (const struct ir_ins *i = ph->body->first; i; i = i->next) {
			const struct ir_ins *code = i->op == IR_STORE ? i->args[k->params[i->imm].rank] : NULL;
			if (code && strcmp(k->params[i->imm].name, "yt") == 0) {
				ck_assert(code->op == IR_RELAYOUT && code->args[0]->op == IR_CVT);
				turned += strcmp(first_axis(ph, code->args[0]->layout), "m") == 0;
			}
			if (code && strcmp(k->params[i->imm].name, "y") == 0)
				along += strcmp(first_axis(ph, code->layout), "n") == 0;
		}
		ck_assert_msg(turned == 1 && along == 1, "%s %s: %d turned, %d along", cases[c].kernel, cases[c].target, turned, along);
		if (strcmp(cases[c].target, "sm_90a") == 0)
			ck_assert_msg(built_times(built_ptx(&b, cases[c].variant), "prmt.b32") == built_times(built_ptx(&b, cases[c].variant), ", 0, 0x7701U;"), "%s", cases[c].kernel);      /* but of a workitem's number */
		built_close(&b);
	}
}
END_TEST

/* By hand: lanes `step` bytes apart, a word of 4 bytes of each of 32 banks a round, or of as many as are said. */
START_TEST(banks_give_a_word_a_round)
{
	static const struct { int step, bytes, lanes, rounds, banks; } cases[] = {
		{4, 4, 32, 1, 32}, {0, 4, 32, 1, 32}, {8, 4, 32, 2, 32}, {32, 4, 32, 8, 32}, {128, 4, 32, 32, 32}, {132, 4, 32, 1, 32}, {1, 1, 32, 1, 32}, {4, 4, 64, 2, 32},
		{8, 8, 32, 2, 32}, {16, 8, 32, 4, 32}, {16, 16, 32, 4, 32}, {32, 16, 32, 8, 32}, {128, 16, 32, 32, 32}, {144, 16, 32, 4, 32}, {16, 16, 64, 8, 32}, {16, 16, 64, 4, 64}, {256, 16, 64, 64, 64}, {8, 8, 64, 2, 64},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		int byte[64];
		struct target t = {.wave = cases[c].lanes, .lds_banks = cases[c].banks, .lds_wide_banks = cases[c].banks};
		for (int lane = 0; lane < cases[c].lanes; lane++)
			byte[lane] = lane * cases[c].step;
		ck_assert_msg(lds_rounds(&t, byte, cases[c].bytes, true) == cases[c].rounds, "%d lanes of %d bytes, %d apart", cases[c].lanes, cases[c].bytes, cases[c].step);
	}
}
END_TEST

/* By hand: 16 lanes each have a row, the next 16 the 16 bytes beside.  Rows of 144 bytes meet no other in the order of the lanes; in the chips' own for reads
 * lane 23 meets lane 0 (gfx942), 4 lanes meet others (gfx950); those of 160 bytes do where they are written. */
START_TEST(lanes_are_read_in_the_chips_order)
{
	static const struct { const char *target; int row, read, written; } cases[] = {
		{"gfx942", 144, 16, 8}, {"gfx942", 160, 8, 16}, {"gfx950", 144, 8, 8}, {"gfx950", 160, 4, 16},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		int byte[64];
		for (int lane = 0; lane < 64; lane++)
			byte[lane] = lane % 16 * cases[c].row + lane / 16 * 16;
		const struct target *t = target_by_name(cases[c].target);
		ck_assert_int_eq(lds_rounds(t, byte, 16, true), cases[c].read);
		ck_assert_int_eq(lds_rounds(t, byte, 16, false), cases[c].written);
	}
}
END_TEST

/* A weighted row and its bias are one rounding; of a bias that is not there nothing is added. */
START_TEST(no_bias_is_no_sum)
{
	static const struct { const char *variant; int sums; } cases[] = {{"N<=4096 N%32=0 aligned with w b", 1}, {"N<=4096 N%32=0 aligned with w", 0}};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		int sums = 0;
		built_open(&b, "layernorm_mxfp8");
		const struct ir_kernel *k = built_passed(&b, built_variant(&b, cases[c].variant), NULL);
		for (const struct ir_ins *i = k->phases[0].body->first; i; i = i->next)
			sums += i->op == IR_FMA;
		ck_assert_msg(sums == cases[c].sums, "%s: %d sums of one rounding", cases[c].variant, sums);
		built_close(&b);
	}
}
END_TEST

/* Of the same values one store is turned: they are narrowed once, for both. */
START_TEST(what_is_stored_twice_is_narrowed_once)
{
	struct built b;
	int narrowed = 0;
	built_open(&b, "cast_transpose");
	const struct ir_kernel *k = built_passed(&b, built_variant(&b, "M%8=0 N%8=0 aligned with y yt"), NULL);
	for (const struct ir_ins *i = k->phases[0].body->first; i; i = i->next)
		if (i->op == IR_CVT && dtype_info(i->dtype)->bits < 32) {
			ck_assert_str_eq(first_axis(&k->phases[0], i->layout), "n");
			narrowed++;
		}
	ck_assert_int_eq(narrowed, 1);
	built_close(&b);
}
END_TEST

/* A lane's 64 elements lie in eight rows of one group: eight masks for each reduction that has any, and one for what it loads. */
START_TEST(a_lane_masks_what_it_has_folded)
{
	struct built b;
	built_open(&b, "layernorm_both_mxfp8");
	const char *ptx = built_ptx(&b, "N<=4096 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t");
	ck_assert_msg(built_times(ptx, "selp.f32") < 64, "%d", built_times(ptx, "selp.f32"));
	built_close(&b);
}
END_TEST

/* Sums of products: of many results a lane adds up each at once, of one in four parts, and in pairs where the chip has instructions for them. */
START_TEST(products_are_summed_at_once)
{
	static const struct { const char *kernel, *target, *variant; int chains; } cases[] = {
		{"rmsnorm_both_mxfp8", "sm_90a", "N<=4096 M%32=0 N%32=0 aligned clusters with w y scale yt scale_t", 1},
		{"rmsnorm_quant", "sm_90a", "N=4096 aligned", 4}, {"rmsnorm_quant", "gfx942", "N=4096 aligned", 4},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		int sums = 0;
		built_open_for(&b, cases[c].kernel, cases[c].target, NULL);
		const struct ir_kernel *k = built_passed(&b, built_variant(&b, cases[c].variant), NULL);
		for (const struct ir_ins *i = k->phases[0].body->first; i; i = i->next)
			if (i->op == IR_REDUCE && (i->flags & IR_PRODUCT)) {
				ck_assert_msg(i->chains == cases[c].chains, "%s %s: %d", cases[c].kernel, cases[c].target, i->chains);
				sums++;
			}
		ck_assert_int_eq(sums, 1);
		built_close(&b);
	}
}
END_TEST

enum { ALONE = 4 };
static const struct { const char *kernel, *given; int m; } alone[ALONE] = {{"rmsnorm_mxfp8", "w", 513}, {"rmsnorm_128", "w", 514}, {"layernorm_quant", "w", 515}, {"layernorm_mxfp8", "w", 512}};

/* Four rows a workgroup, each with a wave of its own: of the last workgroup one, two, three and all. */
START_TEST(rows_of_a_wave_each_compute)
{
	struct dsl_pin pin = {"N", 1024};
	built_call(alone[_i].kernel, &pin, alone[_i].m, 1024, alone[_i].given, "N=1024 aligned rows>=512 with w");
}
END_TEST

/* Waves without a row leave, so that nothing of the others is masked, and they wait for nobody. */
START_TEST(rows_of_a_wave_each_share_a_workgroup)
{
	struct dsl_pin pin = {"N", 1024};
	struct built b;
	built_open_for(&b, alone[_i].kernel, "sm_90a", &pin);
	int v = built_variant(&b, "N=1024 aligned rows>=512 with w"), few = built_variant(&b, "N=1024 aligned with w");
	ck_assert(b.v[v].alone && !b.v[few].alone);
	ck_assert_int_eq(b.v[v].waves, 4);
	built_give(&b, alone[_i].given);
	const char *ptx = built_ptx(&b, b.v[v].text);
	ck_assert_int_eq(built_times(ptx, "exit;"), 1);
	ck_assert_int_eq(built_times(ptx, "bar.sync"), 0);
	ck_assert_int_eq(built_times(ptx, "ld.global.L2::cache_hint") + built_times(ptx, "ld.global.v4"), 8);
	ck_assert_int_eq(built_times(ptx, "; @%p"), 0);                  /* a load that may be masked off has zeros in front */
	built_close(&b);
}
END_TEST

/* Of rows that fill their places each access of a wave takes 512 bytes side by side, whole lines of memory; of those of a class of sizes a lane
 * holds groups of 64 bytes side by side. */
START_TEST(groups_lie_lane_by_lane)
{
	struct dsl_pin pin = {"N", 1024};
	static const struct { const char *kernel, *variant; bool fill; } cases[] = {
		{"rmsnorm_mxfp8", "N=1024 aligned rows>=512 with w", true}, {"layernorm_mxfp8", "N=1024 aligned rows>=512 with w", true},
		{"rmsnorm_mxfp8", "N<=4096 N%32=0 aligned with w", false},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open_for(&b, cases[c].kernel, "sm_90a", cases[c].fill ? &pin : NULL);
		built_give(&b, "w");
		const char *ptx = built_ptx(&b, cases[c].variant);
		ck_assert_msg((built_times(ptx, "+512]") > 0) == cases[c].fill, "%s %s: accesses 512 bytes apart", cases[c].kernel, cases[c].variant);
		ck_assert_msg((built_times(ptx, "+64]") > 0) == !cases[c].fill, "%s %s: accesses a group apart", cases[c].kernel, cases[c].variant);
		built_close(&b);
	}
}
END_TEST

/* Of few rows a workgroup has one or a part of one: a lane's place in it is a number, with the product of row and stride added to it, and the sum to
 * the tensor's address; a lane's own part, as of several rows, would be a third. */
START_TEST(few_rows_are_addressed_once)
{
	static const char *const kernels[] = {"relu_bwd", "silu_act", "qgeglu_bwd"}, variant[] = "N%8=0 aligned bare";
	for (unsigned c = 0; c < sizeof kernels / sizeof *kernels; c++) {
		struct built b;
		int accesses = 0;
		built_open(&b, kernels[c]);
		const struct ir_phase *ph = &built_passed(&b, built_variant(&b, variant), NULL)->phases[0];
		for (const struct ir_ins *i = ph->body->first; i; i = i->next)
			accesses += i->op == IR_LOAD || i->op == IR_STORE;
		int sums = built_times(built_ptx(&b, variant), "add.s64");
		ck_assert_msg(accesses > 1 && sums == 2 * accesses, "%s: %d accesses, %d sums", kernels[c], accesses, sums);
		for (int a = 0; a < ph->naxes; a++)
			ck_assert(strcmp(ph->axes[a].name, "m") || ph->axes[a].tile == 1);
		built_close(&b);
	}
}
END_TEST

/* Rows and strides of x, y and scale are multiplied; where a lane's place is a number of its own, so is that of its weights with their bytes.  Rows that
 * wait twice keep to bytes. */
START_TEST(rows_that_wait_twice_are_not)
{
	static struct dsl_pin pin = {"N", 4096};
	static const struct { const char *kernel; int products; } cases[] = {{"rmsnorm_128", 4}, {"layernorm_128", 3}};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open_for(&b, cases[c].kernel, "sm_90a", &pin);
		const char *variant = c ? "N=4096 aligned with w b" : "N=4096 aligned with w";
		ck_assert_int_eq(built_times(built_ptx(&b, variant), "mul.wide.u32"), cases[c].products);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, few_rows_are_addressed_once);
	tcase_add_test(t, rows_that_wait_twice_are_not);
	tcase_add_test(t, groups_lie_lane_by_lane);
	tcase_add_test(t, turned_words_are_narrowed_in_place);
	tcase_add_test(t, banks_give_a_word_a_round);
	tcase_add_test(t, lanes_are_read_in_the_chips_order);
	tcase_add_test(t, no_bias_is_no_sum);
	tcase_add_test(t, what_is_stored_twice_is_narrowed_once);
	tcase_add_test(t, a_lane_masks_what_it_has_folded);
	tcase_add_test(t, products_are_summed_at_once);
	tcase_add_loop_test(t, rows_of_a_wave_each_compute, 0, ALONE);
	tcase_add_loop_test(t, rows_of_a_wave_each_share_a_workgroup, 0, ALONE);
}

int main(void)
{
	return nvptx_run("nvptx spared", add_tests);
}
