/* short_test.c -- variants in which rows of few columns share the lanes of a wave (compiler/plan_short.c).
 *
 * In: kernels of kernels.tdsl.  Checked: that on the simulated devices, and by the interpreter of PTX, they compute what the evaluated laid-out IR
 * does, bit for bit, for rows that fill their places and rows that do not, or begin anywhere, as many as a workgroup takes and not; how many of a
 * wave's lanes a row has, by hand from its bytes; which kernels have such variants; how waves divide rows in groups among them. */
#include "nvptx_help.h"

#include <stdlib.h>
#include <string.h>

/* lanes: of a row that are beside each other, each of which accesses 16 bytes; on the AMD chips, of what is stored in 8 bits, 16 elements.  0: three of
 * four places of 128 are taken, and lanes hold pieces that divide them. */
struct row { const char *kernel, *target, *given, *variant; int pin, n, lanes; };

static const struct row rows[] = {
	{"rmsnorm_quant", "gfx942", "", "N<=256 N%16=0 aligned", 0, 256, 16}, {"rmsnorm_quant", "gfx950", "", "N<=256 N%16=0 aligned", 0, 48, 16},
	{"rmsnorm_quant", "gfx942", "", "N=128 aligned", 128, 128, 8}, {"rmsnorm_quant", "gfx950", "", "N=96 aligned", 96, 96, 0},
	{"rmsnorm_quant", "gfx950", "", "N=512 aligned", 512, 512, 32}, {"rmsnorm_quant", "sm_90a", "", "N=128 aligned rows>=4096", 128, 128, 16},
	{"rmsnorm_quant", "sm_90a", "", "N<=64 N%16=0 aligned rows>=4096", 4096, 64, 8}, {"rmsnorm_quant", "sm_90a", "", "N<=64 N%16=0 aligned", 4096, 16, 8},
	{"rmsnorm_quant", "sm_90a", "", "N<=512 N%16=0 aligned rows>=4096", 4096, 304, 32}, {"rmsnorm_quant", "sm_90a", "", "N<=128 N%16=0 aligned", 4096, 112, 16},
	{"rmsnorm_128", "sm_90a", "w", "N<=256 N%128=0 aligned rows>=4096 with w", 4096, 256, 16}, {"rmsnorm_128", "sm_90a", "w", "N<=512 N%128=0 aligned with w", 4096, 384, 16},
	{"rmsnorm_mxfp8", "sm_90a", "w", "N<=64 N%32=0 aligned with w", 4096, 64, 4},       /* of a group */
	{"layernorm_quant", "gfx942", "w b", "N<=256 N%16=0 aligned with w b", 0, 208, 16}, {"layernorm_quant", "sm_90a", "w b", "N<=256 N%16=0 aligned rows>=4096 with w b", 4096, 208, 32},
	{"add_rmsnorm_quant", "gfx950", "res w res_out", "N<=256 N%16=0 aligned with res w res_out", 0, 80, 16},
	{"swiglu_rows", "gfx942", "", "N<=256 N%16=0 aligned bare", 0, 240, 16}, {"swiglu_rows", "sm_90a", "", "N<=256 N%16=0 aligned bare", 4096, 240, 32},
	{"softmax_rows", "gfx942", "", "N<=256 N%8=0 aligned S>=16 bare", 0, 136, 32}, {"softmax_rows", "sm_90a", "", "N<=128 N%8=0 aligned rows>=4096 S>=16 bare", 0, 72, 16},
	{"softmax_bwd", "gfx950", "", "N<=256 N%8=0 aligned", 0, 200, 32}, {"rmsnorm_bwd", "gfx942", "w", "N<=256 N%8=0 aligned with w", 0, 256, 32},
	{"rmsnorm_bwd", "gfx942", "w dw", "N<=256 N%8=0 aligned with w dw", 0, 128, 32}, {"layernorm_bwd", "gfx950", "w dw db", "N<=256 N%8=0 aligned with w dw db", 0, 72, 32},
	{"swiglu_128", "sm_90a", "", "N<=512 N%128=0 aligned rows>=4096 bare", 0, 384, 16}, {"swiglu_mxfp8", "sm_90a", "", "N<=128 N%32=0 aligned rows>=4096 bare", 0, 96, 4},
	{"swiglu_128", "gfx942", "", "N<=512 N%128=0 aligned rows>=2048 bare", 512, 384, 8}, {"swiglu_128", "gfx950", "", "N<=1024 N%128=0 aligned rows>=2048 bare", 768, 896, 8},
	{"swiglu_mxfp8", "gfx942", "", "N<=128 N%32=0 aligned rows>=2048 bare", 100, 96, 2}, {"swiglu_128", "gfx942", "", "N%2048=0 aligned bare", 14336, 4096, 8},
	{"dequantize_rows", "sm_90a", "", "N<=256 N%16=0 aligned rows>=4096", 0, 240, 32},
	{"layernorm_bwd", "sm_90a", "w", "N<=64 N%8=0 aligned rows>=4096 with w", 0, 40, 8},
	{"swiglu", "gfx942", "", "N<=64 N%8=0 aligned rows>=2048 bare", 64, 64, 8}, {"geglu", "gfx950", "", "N<=128 N%8=0 aligned rows>=2048 bare", 120, 104, 16},
	{"swiglu_bwd", "gfx942", "", "N<=256 N%8=0 aligned rows>=2048 bare", 256, 248, 32}, {"swiglu_bwd", "sm_90a", "", "N<=128 N%8=0 aligned rows>=4096 bare", 0, 128, 16},
	/* that begin anywhere: lanes side by side, an element each */
	{"rmsnorm_quant", "sm_90a", "", "N<=64 unaligned rows>=4096", 4096, 61, 32}, {"layernorm_quant", "sm_90a", "w b", "N<=128 unaligned with w b", 4096, 101, 32},
	{"rmsnorm_bwd", "sm_90a", "w", "N<=256 unaligned rows>=4096 with w", 4096, 201, 32}, {"swiglu_rows", "sm_90a", "", "N<=512 unaligned bare", 4096, 333, 32},
	{"rmsnorm_128", "sm_90a", "w", "N<=512 unaligned rows>=4096 with w", 4096, 500, 32}, {"layernorm_128", "sm_90a", "w b", "N<=128 unaligned with w b", 4096, 99, 32},
	{"rmsnorm_mxfp8", "sm_90a", "w", "N<=64 unaligned rows>=4096 with w", 4096, 50, 32}, {"softmax_rows", "sm_90a", "", "N<=128 unaligned rows>=4096 S>=8 bare", 0, 99, 32},
	{"rmsnorm_quant", "gfx942", "", "N<=256 unaligned", 250, 250, 64}, {"layernorm", "gfx950", "w b", "N<=256 unaligned with w b", 61, 61, 64},
	{"add_rmsnorm_quant", "gfx942", "res w res_out", "N<=256 unaligned with res w res_out", 255, 255, 64}, {"swiglu_rows", "gfx950", "", "N<=256 unaligned bare", 99, 99, 64},
	{"softmax_rows", "gfx950", "", "N<=256 unaligned S>=16 bare", 60, 60, 64}, {"softmax_bwd", "gfx942", "", "N<=256 unaligned", 1, 1, 64},
	{"rmsnorm_bwd", "gfx950", "w dw", "N<=256 unaligned with w dw", 129, 129, 64}, {"layernorm_bwd", "gfx942", "w dw db", "N<=256 unaligned with w dw db", 100, 100, 64},
	{"swiglu_128", "sm_90a", "", "N<=256 unaligned rows>=4096 bare", 0, 250, 32}, {"dequantize_rows", "sm_90a", "", "N<=128 unaligned rows>=4096", 0, 99, 32},
};
static const int counts[] = {1, 19, 64};
enum { ROWS = sizeof rows / sizeof *rows, COUNTS = sizeof counts / sizeof *counts };

struct lanes { int most; };

/* Of the widest value of the phase: lanes beside each other along its last axis. */
static void count_lanes(struct ir_ins *i, void *ctx)
{
	struct lanes *l = ctx;
	int along = 0, last = LAYOUT_AXES - 1;
	if (!i->layout || i->op != IR_LOAD)
		return;
	while (last > 0 && layout_size(i->layout, last) == 1)
		last--;
	for (int b = 0; b < i->layout->nlane; b++)
		along += i->layout->lane[b].step[last] != 0;
	l->most = 1 << along > l->most ? 1 << along : l->most;
}

static void count_masked(struct ir_ins *i, void *ctx)
{
	int *n = ctx;
	*n += i->op == IR_LOAD && (i->flags & IR_MASKED);
}

START_TEST(rows_share_lanes)
{
	const struct row *r = &rows[_i / COUNTS];
	struct dsl_pin pin = {"N", r->pin};
	struct built b;
	struct device_code code;
	struct lanes lanes = {0};
	int m = counts[_i % COUNTS];
	bool softmax = strncmp(r->kernel, "softmax_", 8) == 0;
	built_open_for(&b, r->kernel, r->target, r->pin ? &pin : NULL);
	ir_run_symbol(&b.r, "M", m);
	ir_run_symbol(&b.r, "N", r->n);
	if (softmax) {
		ir_run_symbol(&b.r, "B", 2);
		ir_run_symbol(&b.r, "S", m);
	}
	built_give(&b, r->given);
	int v = built_variant(&b, r->variant);
	const struct ir_kernel *k = built_passed(&b, v, NULL);
	ir_walk(k->phases[0].body, count_lanes, &lanes);
	ck_assert_int_eq(r->lanes ? lanes.most : 0, r->lanes);
	device_compile(&b.d, &b.v[v], &code, r->variant);
	ck_assert(!code.launches[0].lanes);                  /* all waves are there, whatever the rows are */
	device_check(&b.d, &code, r->variant, false);
	free(code.elf);
	built_close(&b);
}
END_TEST

/* Where packs have room those of every class, few, many, and of two strides where rows may have two; for the sets that are named also where rows begin
 * anywhere, few and many.  Else of the one that most short rows are in, not of groups; where rows begin anywhere, if the text lists such a size
 * (odd_sizes_are_listed).  Not of rows that may not be there, of tiles that are turned, or where every tensor is asked for besides sets of them. */
START_TEST(who_has_short_rows)
{
	static const struct { const char *kernel, *target; int n; } who[] = {
		{"rmsnorm_quant", "sm_90a", 12 + 8}, {"rmsnorm_quant", "gfx942", 1}, {"layernorm_quant", "sm_90a", 4 * 12 + 3 * 8}, {"layernorm_quant", "gfx950", 3}, {"softmax_rows", "sm_90a", 8 + 8},
		{"softmax_rows", "gfx942", 1}, {"rmsnorm_128", "sm_90a", 3 * 3 * 3 + 2 * 3 * 2}, {"rmsnorm_128", "gfx942", 0}, {"swiglu_masked_rows", "gfx942", 0}, {"quantize_both_mxfp8", "sm_90a", 0},
		{"swiglu_128", "sm_90a", 4 + 2}, {"swiglu_128", "gfx950", 0}, {"swiglu_masked_128", "gfx942", 0}, {"dequantize_rows", "sm_90a", 4 + 2}, {"quantize_128", "sm_90a", 0},   /* the runtime joins them */
		{"cast_transpose", "gfx942", 0}, {"multi_tensor_amax", "sm_90a", 0}, {"add", "sm_90a", 0}, {"rmsnorm_bwd", "gfx942", 2}, {"layernorm_bwd", "gfx950", 2},
	};
	for (unsigned c = 0; c < sizeof who / sizeof *who; c++) {
		struct dsl_pin far = {"N", 8192};
		struct built b;
		int n = 0;
		built_open_for(&b, who[c].kernel, who[c].target, &far);
		for (int v = 0; v < b.n; v++)
			n += b.v[v].shares;
		ck_assert_msg(n == who[c].n, "%s %s: %d", who[c].kernel, who[c].target, n);
		built_close(&b);
	}
}
END_TEST

/* On the AMD chips, whose packs have no room for more, rows that begin anywhere have variants for what the text lists alone: each size the class that
 * holds it.  A size that aligned variants take asks for none. */
START_TEST(odd_sizes_are_listed)
{
	static const struct { const char *kernel, *given; int size; const char *variant; } who[] = {
		{"rmsnorm_quant", "", 60, "N<=256 unaligned"}, {"rmsnorm_quant", "", 1000, "N<=1024 unaligned"}, {"layernorm", "w b", 2001, "N<=2048 unaligned with w b"},
		{"softmax_rows", "", 60, "N<=256 unaligned S>=16 bare"}, {"rmsnorm_bwd", "w", 4001, "N<=4096 unaligned with w"}, {"swiglu_rows", "", 513, "N<=1024 unaligned bare"},
		{"rmsnorm_128", "w", 1000, "N<=1024 unaligned with w"}, {"rmsnorm_128", "w", 1024, NULL}, {"rmsnorm_quant", "", 1008, NULL},
		{"layernorm", "w b", 1000, NULL}, {"rmsnorm_quant", "", 20001, NULL}, {"rmsnorm_both_mxfp8", "w y scale yt scale_t", 1001, NULL},
	};
	for (unsigned c = 0; c < sizeof who / sizeof *who; c++) {
		struct dsl_pin pin = {"N", who[c].size};
		struct built b;
		built_open_for(&b, who[c].kernel, c % 2 ? "gfx942" : "gfx950", &pin);
		built_give(&b, who[c].given);
		for (int v = 0; !who[c].variant && v < b.n; v++)
			ck_assert_msg(!b.v[v].single, "%s %d: %s", who[c].kernel, who[c].size, b.v[v].text);
		if (who[c].variant)
			built_variant(&b, who[c].variant);
		built_close(&b);
	}
}
END_TEST

/* Of tiles a size that is listed and short has its class, for few rows what all sizes have: a tile of its own would be one of 512 columns. */
START_TEST(short_tiles_are_not_pinned)
{
	static const struct { const char *kernel, *target; int size; bool pinned; } who[] = {
		{"swiglu", "gfx942", 64, false}, {"swiglu_bwd", "gfx950", 256, false}, {"geglu", "gfx942", 264, true}, {"swiglu", "sm_90a", 128, false}, {"swiglu_bwd", "sm_90a", 136, true},
		{"swiglu_rows", "gfx942", 64, true},
	};
	for (unsigned c = 0; c < sizeof who / sizeof *who; c++) {
		struct dsl_pin pin = {"N", who[c].size};
		struct built b;
		bool pinned = false;
		built_open_for(&b, who[c].kernel, who[c].target, &pin);
		for (int v = 0; v < b.n; v++)
			pinned = pinned || strncmp(b.v[v].text, "N=", 2) == 0;
		ck_assert_msg(pinned == who[c].pinned, "%s %s %d", who[c].kernel, who[c].target, who[c].size);
		built_close(&b);
	}
}
END_TEST

/* Calls of such sizes take them. */
START_TEST(listed_sizes_compute)
{
	static const struct { const char *kernel, *target, *given, *variant; int n; } who[] = {
		{"rmsnorm_quant", "gfx942", "", "N<=1024 unaligned", 1000}, {"layernorm", "gfx950", "w b", "N<=2048 unaligned with w b", 2001},
		{"swiglu_rows", "gfx950", "", "N<=1024 unaligned bare", 513}, {"rmsnorm_bwd", "gfx942", "w", "N<=5120 unaligned with w", 4099},
		{"rmsnorm_128", "gfx942", "w", "N<=1024 unaligned with w", 1000}, {"layernorm_mxfp8", "gfx950", "w b", "N<=3072 unaligned with w b", 2200},
	};
	struct dsl_pin pin = {"N", who[_i].n};
	struct built b;
	built_open_for(&b, who[_i].kernel, who[_i].target, &pin);
	ir_run_symbol(&b.r, "M", 3);
	ir_run_symbol(&b.r, "N", who[_i].n);
	built_give(&b, who[_i].given);
	built_compute(&b, who[_i].variant);
	built_close(&b);
}
END_TEST

/* The axis that all waves step along in what the phase loads; "none" if they differ. */
struct stepping { const struct ir_phase *ph; const char *axis; };

static void find_steps(struct ir_ins *i, void *ctx)
{
	struct stepping *s = ctx;
	for (int w = 0; i->op == IR_LOAD && i->layout && w < i->layout->nwave; w++)
		for (int a = 0; a < s->ph->naxes; a++)
			if (i->layout->wave[w].step[a])
				s->axis = !s->axis || !strcmp(s->axis, s->ph->axes[a].name) ? s->ph->axes[a].name : "none";
}

/* Those of a row wait for each other, and those of a group once more: waves step along rows first, then along groups, so that a group lies in one. */
START_TEST(waves_hold_groups_whole)
{
	static const struct { const char *kernel, *target, *given, *variant, *axis; } who[] = {
		{"rmsnorm_128_e8m0", "sm_90a", "w", "N<=1024 N%128=0 aligned rows>=3072 with w", "m"},     /* four rows, four waves */
		{"rmsnorm_mxfp8", "sm_90a", "w", "N<=512 N%32=0 aligned rows>=4096 with w", "m"}, {"rmsnorm_128", "sm_90a", "w", "N<=512 unaligned rows>=4096 with w", "m"},
		{"rmsnorm_128", "sm_90a", "w", "N<=4096 unaligned with w", "n.o"},                         /* eight waves, 32 groups */
		{"layernorm_128", "sm_90a", "w b", "N<=3072 unaligned rows>=2048 with w b", "n.o"},        /* four of 24 */
		{"swiglu_128", "sm_90a", "", "unaligned bare", "n.o"}, {"quantize_128", "sm_90a", "", "any", "n.o"},
		{"rmsnorm_quant", "sm_90a", "", "N<=4096 unaligned", "n"},
	};
	for (unsigned c = 0; c < sizeof who / sizeof *who; c++) {
		struct built b;
		built_open_for(&b, who[c].kernel, who[c].target, NULL);
		built_give(&b, who[c].given);
		struct stepping s = {&built_passed(&b, built_variant(&b, who[c].variant), NULL)->phases[0], NULL};
		ir_walk(s.ph->body, find_steps, &s);
		ck_assert_msg(s.axis && !strcmp(s.axis, who[c].axis), "%s %s: %s", who[c].kernel, who[c].variant, s.axis);
		built_close(&b);
	}
}
END_TEST

/* On the AMD chips a listed size of groups side by side is that of all lines up to it, or of those that workgroups fill, whose columns are not masked;
 * of rows that are reduced, of groups too, it is itself. */
START_TEST(sizes_of_lines_are_classes)
{
	static const struct { const char *kernel, *given; int size; const char *variant, *other; } who[] = {
		{"swiglu_128", "", 512, "N<=512 N%128=0 aligned rows>=2048 bare", "N=512"}, {"swiglu_128", "", 2048, "N%2048=0 aligned bare", "N=2048"},
		{"geglu_128", "", 5120, "N%2048=0 aligned bare", "N=5120"},
		{"rmsnorm_128", "w", 2048, "N=2048 aligned with w", "N%2048"}, {"swiglu_rows", "", 1024, "N=1024 aligned bare", "N%2048"},
	};
	for (unsigned c = 0; c < sizeof who / sizeof *who; c++)
		for (int chip = 0; chip < 2; chip++) {
			struct dsl_pin pin = {"N", who[c].size};
			struct built b;
			built_open_for(&b, who[c].kernel, chip ? "gfx950" : "gfx942", &pin);
			built_give(&b, who[c].given);
			const struct ir_kernel *k = built_passed(&b, built_variant(&b, who[c].variant), NULL);
			for (int v = 0; v < b.n; v++)
				ck_assert_msg(!strstr(b.v[v].text, who[c].other), "%s: %s", who[c].kernel, b.v[v].text);
			int masked = 0;
			ir_walk(k->phases[0].body, count_masked, &masked);
			ck_assert_msg(!masked == !strstr(who[c].variant, "N<="), "%s %s: %d", who[c].kernel, who[c].variant, masked);
			built_close(&b);
		}
}
END_TEST

static void add(TCase *t)
{
	tcase_add_loop_test(t, rows_share_lanes, 0, ROWS * COUNTS);
	tcase_add_test(t, who_has_short_rows);
	tcase_add_test(t, short_tiles_are_not_pinned);
	tcase_add_test(t, odd_sizes_are_listed);
	tcase_add_loop_test(t, listed_sizes_compute, 0, 6);
	tcase_add_test(t, waves_hold_groups_whole);
	tcase_add_test(t, sizes_of_lines_are_classes);
}

int main(void)
{
	return nvptx_run("short", add);
}
