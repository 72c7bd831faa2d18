/* nvptx_variants_test.c -- which variants sm_90a gets, and what they are made of.
 *
 * In: kernels.tdsl.  Checked: what calls with sets of optional tensors take, run against the evaluated laid-out IR, bit for bit; how many
 * elements a lane, rows and groups a workgroup holds; when the next launch is let in; what variants of many rows and of whole tiles are
 * spared: masks, waiting for one load after another, stores in pieces. */
#include "nvptx_help.h"

#include <check.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count_masks(struct ir_ins *i, void *n) { *(int *)n += i->flags & IR_MASKED ? 1 : 0; }
static void count_branches(struct ir_ins *i, void *n) { *(int *)n += i->op == IR_IF; }

static int count_in(const struct ir_kernel *k, void (*fn)(struct ir_ins *, void *))
{
	int n = 0;
	for (int p = 0; p < k->nphases; p++)
		ir_walk(k->phases[p].body, fn, &n);
	return n;
}

/* What a call with these optional tensors and no others takes, which is to be `variant`: run. */
static struct dsl_pin short_row = {"N", 1024};
static const struct { const char *kernel, *given, *variant; int m, n; struct dsl_pin *pin; } sets[] = {
	{"quantize_rows", "", "N=1024 aligned rows>=1057 bare", 1057, 1024, &short_row},      /* four rows a workgroup, the last of one */
	{"relu_act", "", "N%4096=0 aligned rows>=512 bare", 512, 4096, NULL},
	{"geglu_rows", "", "N=1024 aligned rows>=512 bare", 512, 1024, &short_row},
	{"rmsnorm_quant", "", "N=1024 aligned rows>=512", 512, 1024, &short_row},
	{"add_rmsnorm_quant", "res w res_out", "N=4096 aligned with res w res_out", 3, 4096, NULL},
	{"add_rmsnorm_quant", "res w res_out", "N=14336 aligned with res w res_out", 2, 14336, NULL},
	{"quantize_both_mxfp8", "y scale yt scale_t", "M%32=0 N%32=0 aligned", 512, 512, NULL},
	{"layernorm_quant", "w", "N=16384 aligned with w", 2, 16384, NULL},                 /* widened again */
	{"layernorm_quant", "w", "4096<N<=5120 N%16=0 aligned rows>=512 with w", 512, 4112, NULL},   /* of the last access one lane has any */
	{"layernorm_quant", "w", "6144<N<=7168 N%16=0 aligned rows>=512 with w", 512, 6160, NULL},
	{"layernorm", "w", "8192<N<=10240 N%8=0 aligned rows>=512 with w", 512, 9216, NULL},
	{"layernorm", "w", "14336<N<=16384 N%8=0 aligned rows>=512 with w", 513, 14848, NULL},
	{"layernorm_128", "w b", "12288<N<=14336 N%128=0 aligned rows>=512 with w b", 512, 12416, NULL},
	{"layernorm_128", "w b", "N<=16384 N%128=0 aligned with w b", 2, 12416, NULL},
	{"quantize_both_mxfp8", "y scale yt scale_t", "M%32=0 N%32=0 aligned", 96, 160, NULL},   /* rows of 5 and of 3 scales */
	{"quantize_both_128", "y scale yt scale_t", "M%128=0 N%128=0 aligned", 128, 384, NULL},
	{"quantize_both_128_e8m0", "y scale yt scale_t", "M%128=0 N%128=0 aligned", 384, 1792, NULL},
	{"quantize_mxfp8", "", "N%32=0 aligned bare", 3, 2880, NULL},                       /* 90 */
	{"dequantize_128", "", "N%128=0 aligned", 3, 640, NULL},                            /* 5 that are read */
	{"rmsnorm_both_mxfp8", "w y scale yt scale_t", "N<=8192 M%32=0 N%32=0 aligned with w y scale yt scale_t", 64, 4128, NULL},   /* a launch of 512 threads, one of 128 */
	{"swiglu_both_128", "y scale yt scale_t", "M%128=0 N%128=0 aligned with y scale yt scale_t", 128, 384, NULL},
	{"swiglu_both_128", "y scale yt scale_t", "M%16=0 N%16=0 aligned with y scale yt scale_t", 144, 272, NULL},  /* the last groups are of 16 */
	{"swiglu_both_128", "yt scale_t", "M%128=0 N%128=0 aligned with y? scale? yt? scale_t?", 128, 384, NULL},   /* one way of a set that names both */
	{"layernorm_both_mxfp8", "w b y scale rstd mu", "N<=8192 M%32=0 N%32=0 aligned with w b y? scale? yt? scale_t? rstd mu", 64, 4128, NULL},
	{"cast_transpose", "yt", "M%8=0 N%8=0 aligned with y? yt?", 128, 136, NULL},
	{"quantize_both_128", "y scale yt scale_t", "M%16=0 N%16=0 aligned", 16, 400, NULL},
	{"quantize_128", "", "N%16=0 aligned bare", 3, 2880, NULL},
	{"rmsnorm_128", "w", "N%16=0 aligned with w", 3, 2880, NULL},
	{"rmsnorm_128", "w rstd", "N<=1024 N%16=0 aligned", 3, 400, NULL},                  /* of a set without variants of its own */
	{"rmsnorm_bwd", "w dw", "N<=16384 N%8=0 aligned with w dw", 65, 8200, NULL},        /* 64 rows a partial sum */
	{"rmsnorm_quant", "", "N=1024 aligned rows>=512 memory<4000", 514, 1024, &short_row},   /* a wave each */
	{"layernorm_quant", "w", "N=1024 aligned rows>=512 memory<4000 with w", 513, 1024, &short_row},
	{"layernorm_quant", "w", "N=4096 aligned rows>=512 memory<4000 with w", 512, 4096, NULL},
	{"rmsnorm_mxfp8", "w", "N=8192 aligned rows>=512 memory<4000 with w", 512, 8192, NULL},
	{"rmsnorm_quant", "", "N=14336 aligned memory<4000", 2, 14336, NULL},
	{"relu_act", "", "N%4096=0 aligned rows>=512 memory<4000 bare", 512, 4096, NULL},
	{"layernorm_quant", "w", "N=16384 aligned memory<4000 with w", 2, 16384, NULL},
	{"rmsnorm_quant", "", "N<=4096 N%16=0 aligned", 3, 2880, NULL},
	{"layernorm_quant", "w", "N<=8192 N%16=0 aligned with w", 2, 5376, NULL},
	{"rmsnorm_quant", "", "N<=16384 N%16=0 aligned", 2, 10240, NULL},
};
enum { SETS = sizeof sets / sizeof *sets };

START_TEST(sets_compute)
{
	built_call(sets[_i].kernel, sets[_i].pin, sets[_i].m, sets[_i].n, sets[_i].given, sets[_i].variant);
}
END_TEST

/* A variant for 8,192 rows and more, which are multiples of `step`: not for fewer; run with m of them, for which tensors are given. */
static void crowd_computes(struct built *b, const struct variant *v, int step, int m)
{
	for (int less = 0; less < 2; less++) {
		ir_run_symbol(&b->r, "M", 8192 - step * less);
		ck_assert_msg(device_applies(&b->d, v) == !less, "%s: %s of %d rows", b->r.k->name, v->text, 8192 - step * less);
	}
	ir_run_symbol(&b->r, "M", m);
	built_run(b, v);
}

/* Rows of which there are to be thousands: here three, by the variant that a call with so few does not take. */
START_TEST(crowds_compute)
{
	static const struct { const char *kernel; int waves, rows; } cases[] = {{"rmsnorm", 1, 1}, {"layernorm", 16, 2}};
	static struct dsl_pin pin = {"N", 4096};
	struct built b;
	built_open_for(&b, cases[_i].kernel, "sm_90a", &pin);
	ir_run_symbol(&b.r, "M", 3);
	ir_run_symbol(&b.r, "N", 4096);
	built_give(&b, "w");
	const struct variant *v = &b.v[built_variant(&b, "N=4096 aligned rows>=8192 memory>=4000 with w")];
	const struct ir_phase *ph = &built_passed(&b, (int)(v - b.v), NULL)->phases[0];
	ck_assert_int_eq(v->waves, cases[_i].waves);
	for (int a = 0; a < ph->naxes; a++) {
		bool row = ph->axes[a].kind == AXIS_GRID;
		ck_assert_int_eq(ph->axes[a].tile, row ? cases[_i].rows : 4096);
		for (const struct ir_ins *i = ph->body->first; i; i = i->next)
			for (int w = 0; row && i->layout && w < i->layout->nwave; w++)
				ck_assert_int_eq(i->layout->wave[w].step[a], 0);   /* both in every lane, beside one lot of weights */
	}
	crowd_computes(&b, v, 1, 3);
	built_close(&b);
}
END_TEST

/* Tiles of groups both ways, of one tensor, for a crowd of rows: twice as many lanes, lines twice as long or as long; here few rows, some tiles
 * of which end early.  Of two tensors, and of groups that fill a tile, there are none. */
START_TEST(crowds_of_groups_compute)
{
	static const struct { const char *kernel, *given, *variant; } cases[] = {
		{"quantize_both_mxfp8", "y scale yt scale_t", "M%32=0 N%32=0 aligned rows>=8192 memory>=4000"},
		{"gelu_tanh_both_mxfp8", "y scale yt scale_t", "M%32=0 N%32=0 aligned rows>=8192 memory>=4000 with y scale yt scale_t"},
		{"swiglu_both_mxfp8", NULL, NULL}, {"quantize_both_128", NULL, NULL}, {"cast_transpose", NULL, NULL}};
	struct built b;
	built_open(&b, cases[_i].kernel);
	if (!cases[_i].variant) {
		for (int i = 0; i < b.n; i++)
			ck_assert_msg(!strstr(b.v[i].text, "rows>=8192"), "%s: %s", cases[_i].kernel, b.v[i].text);
		built_close(&b);
		return;
	}
	ir_run_symbol(&b.r, "M", 96);
	ir_run_symbol(&b.r, "N", 160);
	built_give(&b, cases[_i].given);
	const struct variant *v = &b.v[built_variant(&b, cases[_i].variant)];
	ck_assert_int_eq(v->waves, 8);
	crowd_computes(&b, v, 32, 96);
	built_close(&b);
}
END_TEST

/* What a predicate of the text says: a register below so many; -1 = something else. */
static int bound_of(const char *ptx, int predicate, int *of)
{
	char set[32];
	int bound = -1;
	snprintf(set, sizeof set, "setp.lt.u32 \t%%p%d, ", predicate);
	const char *at = strstr(ptx, set);
	if (at && sscanf(at + strlen(set), "%%r%d, %d;", of, &bound) != 2)
		bound = -1;
	return bound;
}

/* The register is what `op` makes: "sub.s32". */
static bool is_made_by(const char *ptx, int of, const char *op)
{
	char made[32];
	snprintf(made, sizeof made, "\t%s \t%%r%d, ", op, of);
	return strstr(ptx, made) != NULL;
}

/* The last 1,056 workgroups let the next launch in: before they wait, or behind it where waves wait for each other, for sums or for a tile that is turned,
 * or members of a cluster; there a predicate asks in front whether the workgroup's place is beyond all of them, which it never is.  Those of few rows are
 * told how many they are, and with which of them that begins. */
START_TEST(the_next_launch_is_let_in)
{
	static const struct { const char *kernel, *variant; bool behind, told; } cases[] = {
		{"rmsnorm_quant", "N=4096 aligned rows>=529", true, false}, {"rmsnorm_quant", "N=4096 aligned", true, true}, {"layernorm_quant", "N=4096 aligned rows>=529 with w", true, false},
		{"quantize_rows", "N=512 aligned rows>=512 bare", false, false},         /* a row a wave */
		{"silu_act", "N%4096=0 aligned rows>=512 bare", false, false}, {"silu_act", "N%8=0 aligned bare", false, true}, {"quantize_128", "N%128=0 aligned bare", false, true},
		{"cast_transpose", "M%8=0 N%8=0 aligned with y yt", true, true}, {"cast_transpose", "M%8=0 N%8=0 aligned rows>=512 with y yt", true, false},
		{"rmsnorm", "N<=512 M%8=0 N%32=0 aligned clusters with w? scale? yt", true, false},    /* whose sums cross no waves */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct dsl_pin short_row = {"N", 512};
		int beyond = -1, last = -1, left = -1, place = -1, from = -1;
		char set[32];
		built_open_for(&b, cases[c].kernel, "sm_90a", strstr(cases[c].variant, "N=512") ? &short_row : NULL);
		const char *ptx = built_ptx(&b, cases[c].variant), *at = strstr(ptx, "griddepcontrol.launch_dependents");
		ck_assert_ptr_nonnull(at);
		while (*at != '@')
			at--;
		if (cases[c].behind) {
			ck_assert_int_eq(sscanf(at, "@%%p%d griddepcontrol.launch_dependents; griddepcontrol.wait; @%%p%d griddepcontrol.launch_dependents;", &beyond, &last), 2);
			snprintf(set, sizeof set, cases[c].told ? "setp.ge.u32 \t%%p%d, " : "setp.le.u32 \t%%p%d, ", beyond);
			ck_assert_ptr_nonnull(at = strstr(ptx, set));
			ck_assert_int_eq(sscanf(at + strlen(set), "%%r%d, %%r%d;", cases[c].told ? &place : &from, cases[c].told ? &from : &place), 2);
			ck_assert_msg(is_made_by(ptx, from, cases[c].told ? "ld.param.b32" : "mul.lo.s32"), "%s %s", cases[c].kernel, cases[c].variant);
			ck_assert_msg(is_made_by(ptx, place, !cases[c].told ? "mad.lo.s32" : strstr(ptx, "%ctaid.y") ? "add.s32" : "mov.u32"), "%s %s", cases[c].kernel, cases[c].variant);
		} else {
			ck_assert_int_eq(sscanf(at, "@%%p%d griddepcontrol.launch_dependents; griddepcontrol.wait;", &last), 1);
		}
		if (cases[c].told) {
			snprintf(set, sizeof set, "setp.ge.s32 \t%%p%d, ", last);
			ck_assert_ptr_nonnull(at = strstr(ptx, set));
			ck_assert_int_eq(sscanf(at + strlen(set), "%%r%d, %%r%d;", &place, &from), 2);
			ck_assert_msg(is_made_by(ptx, place, "mov.u32") && is_made_by(ptx, from, "ld.param.b32") && !strstr(ptx, "nctaid"), "%s", cases[c].variant);
		} else {
			ck_assert_int_eq(bound_of(ptx, last, &left), 1057);
			ck_assert_msg(is_made_by(ptx, left, "sub.s32"), "%s %s", cases[c].kernel, cases[c].variant);
		}
		ck_assert_int_eq(built_times(ptx, "griddepcontrol"), cases[c].behind ? 3 : 2);
		built_close(&b);
	}
}
END_TEST

static int64_t value_of(struct built *b, const struct hexpr *x)
{
	struct hexpr_env env = {.symbols = b->r.symbols, .nsymbols = b->r.k->nsymbols};
	const char *why = "";
	int64_t n = -1;
	ck_assert_msg(hexpr_eval(x, &env, &n, &why) == 0, "%s", why);
	return n;
}

/* By hand from the grid: all workgroups, and of the last dimension so many that 1,056 workgroups follow, or one step of it more than that takes. */
START_TEST(few_rows_are_told_of_their_grid)
{
	static const struct { const char *kernel, *variant; int m, n; } cases[] = {
		{"silu_act", "N%8=0 aligned bare", 1, 8}, {"silu_act", "N%8=0 aligned bare", 511, 4096}, {"silu_act", "N%8=0 aligned bare", 300, 13000}, {"silu_act", "N%8=0 aligned bare", 0, 4096},
		{"rmsnorm_quant", "N=4096 aligned", 1, 4096}, {"rmsnorm_quant", "N=4096 aligned", 511, 4096}, {"quantize_128", "N%128=0 aligned bare", 400, 65536},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct device_code code;
		built_open(&b, cases[c].kernel);
		ir_run_symbol(&b.r, "M", cases[c].m);
		ir_run_symbol(&b.r, "N", cases[c].n);
		device_compile(&b.d, &b.v[built_variant(&b, cases[c].variant)], &code, cases[c].variant);
		const struct model_launch *l = &code.launches[0];
		ck_assert_int_eq(l->nexprs, 2);
		int64_t x = value_of(&b, l->grid[0]), y = value_of(&b, l->grid[1]), from = value_of(&b, l->exprs[1]), step = l->grid[1]->op == HX_CONST ? 1 : x;
		int64_t steps = step == 1 ? x : y, last = (steps - from) * step;
		ck_assert_int_eq(value_of(&b, l->exprs[0]), x * y);
		ck_assert_msg(from >= 0 && from <= steps && (from ? last >= 1056 && last < 1056 + step : last == x * y), "%s %d x %d: %d from %d", cases[c].kernel, cases[c].m, cases[c].n, (int)steps, (int)from);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

/* Many lanes of one access each, or fewer with more. */
START_TEST(lanes_of_a_row)
{
	static struct dsl_pin n = {"N", 4096}, twice = {"N", 8192};
	static const struct { const char *kernel, *variant; int waves; const char *absent; struct dsl_pin *pin; } cases[] = {
		{"add_rmsnorm_quant", "N=4096 aligned with res w res_out", 16, "N=4096 aligned rows>=512 with res w res_out", NULL},   /* two rows */
		{"add_rmsnorm_quant", "N=8192 aligned with res w res_out", 32, NULL, NULL},         /* one is stored before the row is reduced */
		{"add_rmsnorm_quant", "N=7168 aligned with res w res_out", 16, NULL, NULL},
		{"add_rmsnorm_quant", "N=14336 aligned with res w res_out", 16, NULL, NULL},
		{"softmax_bwd", "N=8192 aligned", 16, NULL, &twice},               /* nothing is */
		{"swiglu_rows", "N=4096 aligned bare", 16, "N=4096 aligned rows>=512 bare", NULL},
		{"geglu_rows", "N=4096 aligned rows>=512 bare", 8, NULL, &n},       /* 30 instructions an element */
		{"rmsnorm_quant", "N=4096 aligned rows>=529", 8, NULL, NULL},       /* one row, short */
		{"rmsnorm_quant", "N=8192 aligned rows>=529", 8, NULL, NULL},
		{"layernorm_quant", "N=4096 aligned rows>=529 with w", 4, NULL, NULL},
		{"silu_act", "N%4096=0 aligned rows>=512 bare", 16, NULL, NULL},    /* to bf16 */
		{"gelu_act", "N%4096=0 aligned rows>=512 bare", 8, NULL, NULL},     /* 21 instructions */
		{"dequantize_rows", "N%4096=0 aligned rows>=512", 8, NULL, NULL},   /* of 8 bits */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open_for(&b, cases[c].kernel, "sm_90a", cases[c].pin);
		ck_assert_msg(b.v[built_variant(&b, cases[c].variant)].waves == cases[c].waves, "%s %s: %d waves", cases[c].kernel, cases[c].variant,
		              b.v[built_variant(&b, cases[c].variant)].waves);
		for (int v = 0; cases[c].absent && v < b.n; v++)
			ck_assert_msg(strcmp(b.v[v].text, cases[c].absent), "%s has %s", cases[c].kernel, cases[c].absent);
		built_close(&b);
	}
}
END_TEST

/* Four rows of 1,024 in a workgroup of eight waves, where they are many and nothing else is read; two in four, where little is done with it. */
START_TEST(short_rows_share_a_workgroup)
{
	static const struct { const char *kernel, *variant; int rows; } cases[] = {
		{"quantize_rows", "N=1024 aligned rows>=1057 bare", 4}, {"quantize_rows", "N=1024 aligned bare", 1},
		{"rmsnorm_quant", "N=1024 aligned rows>=512", 2}, {"softmax_rows", "N=1024 aligned rows>=512 bare", 1},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct dsl_pin pin = {"N", 1024};
		built_open_for(&b, cases[c].kernel, "sm_90a", &pin);
		int v = built_variant(&b, cases[c].variant);
		const struct ir_phase *ph = &built_passed(&b, v, NULL)->phases[0];
		int rows = 1;
		for (int a = 0; a < ph->naxes; a++)
			rows *= ph->axes[a].kind == AXIS_GRID ? ph->axes[a].tile : 1;
		ck_assert_msg(rows == cases[c].rows && (rows == 1 || b.v[v].waves == 2 * rows), "%s %s: %d rows, %d waves", cases[c].kernel, cases[c].variant, rows, b.v[v].waves);
		built_close(&b);
	}
}
END_TEST

/* A lane of groups holds 16 codes at least, however long the code for each is: 8 waves of 32 groups. */
START_TEST(groups_of_a_lane)
{
	struct built b;
	built_open(&b, "geglu_128");
	const struct ir_kernel *k = built_passed(&b, built_variant(&b, "N%4096=0 aligned rows>=512 bare"), NULL);
	int groups = 0;
	for (int a = 0; a < k->phases[0].naxes; a++)
		groups += strcmp(k->phases[0].axes[a].name, "n.o") == 0 ? k->phases[0].axes[a].tile : 0;
	ck_assert_int_eq(groups, 32);
	ck_assert_int_eq(b.v[built_variant(&b, "N%4096=0 aligned rows>=512 bare")].waves, 8);
	built_close(&b);
}
END_TEST

/* Of classes of sizes: many rows hold 32 elements a lane up to 1,024 columns, in each of a kernel's sets; with weights up to 4,096 and 8,192, in the set
 * that leaves all but rows open as well, in others but for LayerNorms, which have ranges there; those of a single sum up to 2,048; a gate of long code up to 4,096;
 * it, and LayerNorm with a residual, do where they would be swept otherwise. */
START_TEST(long_rows_fill_their_lanes)
{
	static const struct { const char *kernel; int many, any; } cases[] = {
		{"rmsnorm_quant", 3, 0}, {"layernorm_quant", 4 + 2, 1}, {"rmsnorm_128", 3 + 4, 0}, {"quantize_rows", 2, 0}, {"swiglu_rows", 1, 0}, {"geglu_rows", 2, 1},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		int many = 0, any = 0;
		built_open(&b, cases[c].kernel);
		for (int v = 0; v < b.n; v++) {
			many += b.v[v].full && b.v[v].many && !b.v[v].single;      /* of those that begin anywhere: nvptx_bands_test.c */
			any += b.v[v].full && !b.v[v].many && b.v[v].flat;
		}
		ck_assert_msg(many == cases[c].many && any == cases[c].any, "%s: %d for many rows, %d for any", cases[c].kernel, many, any);
		built_close(&b);
	}
}
END_TEST

/* Rows that may not be there take more of them until they are many; all but variants for few ask for a row once.  Tiles of several rows ask for the
 * first, aligned ones for the last as well. */
START_TEST(many_rows)
{
	struct built b;
	bool some_are_absent = false, tiles = false;
	built_open(&b, nvptx_kernels.names[_i]);
	for (int a = 0; a < b.r.k->phases[0].naxes; a++)
		tiles = tiles || strcmp(b.r.k->phases[0].axes[a].name, "m.o") == 0;
	for (int p = 0; p < b.r.k->nparams; p++)
		some_are_absent = some_are_absent || strcmp(b.r.k->params[p].name, "tokens") == 0;
	for (int v = 0; v < b.n; v++) {
		const char *text = b.v[v].text;
		bool many = strstr(text, some_are_absent ? " rows>=768" : " rows>=512") || (!some_are_absent && (strstr(text, " rows>=8192") || (b.v[v].shares && strstr(text, " rows>=4096")) || (b.v[v].full && strstr(text, " rows>=")))) || (b.v[v].carries && !b.v[v].few && strncmp(text, "M<=", 3)) || (b.v[v].npins && strstr(text, " rows>="));
		int branches = !tiles ? !b.v[v].few : b.v[v].aligned && !b.v[v].single ? 2 : 1;
		if (b.v[v].shares && b.v[v].few)                     /* of several axes (short_test.c) */
			continue;
		ck_assert_msg(b.v[v].many == many, "%s %s", nvptx_kernels.names[_i], text);
		ck_assert_msg(b.v[v].many || !strstr(text, "rows>="), "%s %s", nvptx_kernels.names[_i], text);
		if (some_are_absent)
			ck_assert_msg(count_in(built_passed(&b, v, "guard"), count_branches) - count_in(built_passed(&b, v, "stream"), count_branches) == branches, "%s %s", nvptx_kernels.names[_i], text);
	}
	built_close(&b);
}
END_TEST

START_TEST(rows_are_counted)
{
	static const struct { const char *kernel, *variant; int many; } cases[] = {
		{"swiglu_masked_128", "N%128=0 aligned rows>=768 bare", 768}, {"quantize_128", "N%128=0 aligned rows>=512 bare", 512},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open(&b, cases[c].kernel);
		const struct variant *v = &b.v[built_variant(&b, cases[c].variant)];
		ir_run_symbol(&b.r, "E", 1);
		ir_run_symbol(&b.r, "N", 4096 - 128);
		for (int less = 0; less < 2; less++) {
			ir_run_symbol(&b.r, "M", cases[c].many - less);
			ck_assert_msg(device_applies(&b.d, v) == !less, "%s of %d rows: %s", cases[c].kernel, cases[c].many - less, v->text);
		}
		built_close(&b);
	}
}
END_TEST

START_TEST(whole_tiles_have_no_masks)
{
	struct built b;
	built_open(&b, "quantize_128");
	ck_assert_int_eq(count_in(built_passed(&b, built_variant(&b, "N%4096=0 aligned rows>=512 bare"), NULL), count_masks), 0);
	ck_assert_int_gt(count_in(built_passed(&b, built_variant(&b, "N%128=0 aligned rows>=512 bare"), NULL), count_masks), 0);
	built_close(&b);
}
END_TEST

static int count_fma(LLVMModuleRef m)
{
	int n = 0;
	for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
		for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
			for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
				size_t len = 0;
				const char *name = LLVMIsACallInst(i) ? LLVMGetValueName2(LLVMGetCalledValue(i), &len) : NULL;
				if (len > 8 && strncmp(name, "llvm.fma", 8) == 0)
					n += LLVMGetTypeKind(LLVMTypeOf(i)) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(LLVMTypeOf(i)) : 1;
			}
	return n;
}

/* A row of 7 x 1,024 in a tile of 8,192: each lane squares what the row has of its 64 places. */
START_TEST(absent_elements_are_not_summed)
{
	struct built b;
	struct translated made;
	built_open(&b, "layernorm_quant");
	int v = built_variant(&b, "N=7168 aligned rows>=8192 with w");
	ck_assert_int_eq(translate(&b.d.arena, built_passed(&b, v, NULL), &b.v[v], object_context(b.d.session), &made, b.d.err, sizeof b.d.err), 0);
	ck_assert_int_eq(count_fma(made.module), 7168 / 128);
	LLVMDisposeModule(made.module);
	built_close(&b);
}
END_TEST

/* Rows of many elements a lane are widened from bf16 again behind the reduction: by a shift and a mask that ptxas does not know. */
START_TEST(rows_are_widened_again)
{
	static const struct { const char *kernel, *target, *variant; int conversions, elements; } cases[] = {
		{"layernorm_quant", "sm_90a", "N=16384 aligned with w", 1, 64}, {"layernorm_quant", "sm_90a", "N=8192 aligned rows>=529 with w", 1, 32},
		{"layernorm_quant", "sm_90a", "N=4096 aligned rows>=529 with w", 0, 0},       /* four waves of 32 */
		{"layernorm_quant", "sm_90a", "N=8192 aligned with w", 0, 0},                 /* 16 elements */
		{"layernorm_quant", "sm_90a", "N=7168 aligned rows>=8192 with w", 1, 56}, {"rmsnorm_quant", "sm_90a", "N=16384 aligned", 0, 0},   /* its products are kept */
		{"quantize_both_128", "sm_90a", "M%128=0 N%128=0 aligned", 0, 0},              /* groups both ways */
		{"layernorm_quant", "gfx950", "N=16384 aligned with w", 0, 0},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open_for(&b, cases[c].kernel, cases[c].target, NULL);
		const struct ir_phase *ph = &built_passed(&b, built_variant(&b, cases[c].variant), NULL)->phases[0];
		int n = 0, rounds = 0, last = 0;
		for (const struct ir_ins *i = ph->body->first; i; i = i->next) {
			rounds += i->op == IR_REDUCE;
			if (!(i->flags & IR_AGAIN) || i->op != IR_CVT)
				continue;
			ck_assert_int_gt(rounds, last);
			last = rounds;
			n++;
		}
		ck_assert_msg(n == cases[c].conversions, "%s %s: %d", cases[c].kernel, cases[c].variant, n);
		if (n) {
			const char *ptx = built_ptx(&b, cases[c].variant);
			int masks = 0;
			for (const char *at = ptx; (at = strstr(at, "\tand.b32 %r")); at++)
				masks++;
			ck_assert_int_eq(2 * masks, n * cases[c].elements);
		}
		built_close(&b);
	}
}
END_TEST

/* The question whose answer only the machine knows to be yes always (emit/ask.c); NULL where none is asked. */
static const char *certain(const char *ptx)
{
	char asked[48];
	int of;
	for (const char *at = ptx; (at = strstr(at, "\tmov.u32 %r")); at++) {
		if (sscanf(at, "\tmov.u32 %%r%d, %%nctaid.x;", &of) != 1)
			continue;
		snprintf(asked, sizeof asked, ", %%r%d, 0;\n\t@%%p", of);
		if (strncmp(at + strcspn(at, ","), ", %nctaid.x;", 12) == 0 && strstr(at, asked))
			return at;
	}
	return NULL;
}

/* Loads behind the branch on that, with nothing else between them. */
static int asked_together(const char *question)
{
	const char *branch = strstr(question, "bra \t");
	int n = 0;
	ck_assert_ptr_nonnull(branch);
	size_t label = strcspn(branch + 5, ";");
	for (const char *line = strchr(branch, '\n') + 1; strncmp(line, branch + 5, label); line = strchr(line, '\n') + 1) {
		bool load = strncmp(line, "\tld.global", 10) == 0 || strncmp(line, "\t ld.global.L2", 14) == 0;
		n += load;
		ck_assert_msg(load || !n || strncmp(line, "\t.loc", 5) == 0 || strncmp(line, "\t// ", 4) == 0 || strncmp(line, "$L__tmp", 7) == 0, "between loads: %.*s", (int)strcspn(line, "\n"), line);
	}
	return n;
}

/* loads: of 16 bytes, that a lane makes of a row of bf16 and of each weight. */
static struct dsl_pin in_loop = {"N", 4096};
static const struct { const char *kernel, *variant; int loads; struct dsl_pin *pin; } fronts[] = {
	{"rmsnorm_128", "N=4096 aligned rows>=529 with w", 2 * 4096 * 2 / 16 / 128, NULL},
	{"layernorm_quant", "N=4096 aligned rows>=529 with w", 2 * 4096 * 2 / 16 / 128, NULL},
	{"layernorm_quant", "N=4096 aligned rows>=529 with w b", 3 * 4096 * 2 / 16 / 128, NULL},
	{"rmsnorm_mxfp8", "N=8192 aligned rows>=529 with w", 2 * 8192 * 2 / 16 / 256, NULL},
	{"layernorm_quant", "N=7168 aligned rows>=8192 with w", 0, NULL},    /* 224 bytes a lane: the weights later */
	{"rmsnorm_128", "N=4096 aligned with w", 0, NULL},                  /* 16 bytes a lane */
	{"layernorm_quant", "N=4096 aligned with w b", 0, NULL},
	{"add_rmsnorm_quant", "N=14336 aligned with res w res_out", 0, NULL},   /* two rows */
	{"swiglu", "N%4096=0 aligned rows>=512 bare", 0, NULL},             /* no weights */
	{"quantize_128", "N%4096=0 aligned rows>=512 bare", 0, NULL},
	{"layernorm", "N<=4096 N%8=0 aligned with w b", 0, NULL},           /* under masks */
	{"running_weighted", "N=4096 aligned", 0, &in_loop},                 /* in a loop */
};
enum { FRONTS = sizeof fronts / sizeof *fronts };

START_TEST(loads_are_asked_for_together)
{
	struct built b;
	built_open_for(&b, fronts[_i].kernel, "sm_90a", fronts[_i].pin);
	const char *ptx = built_ptx(&b, fronts[_i].variant), *wait = strstr(ptx, "griddepcontrol.wait"), *load = strstr(ptx, "ld.global");
	ck_assert_msg(!certain(ptx) == !fronts[_i].loads, "%s %s", fronts[_i].kernel, fronts[_i].variant);
	if (fronts[_i].loads) {
		ck_assert_int_eq(asked_together(certain(ptx)), fronts[_i].loads);
		ck_assert_int_eq(built_times(ptx, "ld.global"), fronts[_i].loads);
	}
	ck_assert_ptr_nonnull(load);
	ck_assert_msg(wait && wait < load, "%s %s: a load in front of the wait", fronts[_i].kernel, fronts[_i].variant);
	built_close(&b);
}
END_TEST

/* Many rows of LayerNorm that are longer than the shortest class: one variant each, none for others, and none for fewer rows. */
START_TEST(ranges_meet)
{
	static const struct { int n; const char *variant; } at[] = {
		{1024, NULL}, {1040, "1024<N<=1536"}, {1536, "1024<N<=1536"}, {1552, "1536<N<=2048"}, {2064, "2048<N<=3072"}, {4096, "3072<N<=4096"},
		{4112, "4096<N<=5120"}, {5120, "4096<N<=5120"}, {5136, "5120<N<=6144"}, {6144, "5120<N<=6144"}, {6160, "6144<N<=7168"}, {7184, "7168<N<=8192"},
		{8192, "7168<N<=8192"}, {8208, "8192<N<=10240"}, {10256, "10240<N<=12288"}, {12304, "12288<N<=14336"}, {14352, "14336<N<=16384"}, {16384, "14336<N<=16384"}, {16400, NULL}};
	for (unsigned i = 0; i < sizeof at / sizeof *at; i++)
		for (int m = 511; m <= 512; m++) {
			struct built b;
			int taken = 0;
			built_for(&b, "layernorm_quant", NULL, m, at[i].n, "w");
			for (int v = 0; v < b.n; v++) {
				if (!strchr(b.v[v].text, '<') || b.v[v].text[0] == 'N' || !device_applies(&b.d, &b.v[v]))
					continue;
				ck_assert_msg(at[i].variant && !strncmp(b.v[v].text, at[i].variant, strlen(at[i].variant)), "%d columns: %s", at[i].n, b.v[v].text);
				taken++;
			}
			ck_assert_msg(taken == (m == 512 && at[i].variant), "%d x %d: %d", m, at[i].n, taken);
			built_close(&b);
		}
}
END_TEST

/* Between the classes: of what a lane loads the last access alone is masked, and all are asked for together. */
START_TEST(last_accesses_are_masked)
{
	static const struct { const char *kernel, *variant; int accesses; } cases[] = {
		{"layernorm_quant", "4096<N<=5120 N%16=0 aligned rows>=512 with w", 5}, {"layernorm_quant", "10240<N<=12288 N%16=0 aligned rows>=512 with w", 6},
		{"layernorm", "12288<N<=14336 N%8=0 aligned rows>=512 with w", 7}, {"layernorm_quant", "14336<N<=16384 N%16=0 aligned rows>=512 with w", 8},
	};
	struct built b;
	built_open(&b, cases[_i].kernel);
	const char *ptx = built_ptx(&b, cases[_i].variant);
	int masked = 0, n = 0;
	for (const char *at = ptx; (at = strstr(at, "ld.global")); at++, n++)
		masked += at[-1] == ' ' && at[-2] != ' ' && at[-2] != '\t' && at[-2] != '\n';     /* behind a predicate */
	ck_assert_int_eq(n, 2 * cases[_i].accesses);             /* x and w */
	ck_assert_int_eq(masked, 2);
	ck_assert_ptr_nonnull(certain(ptx));
	built_close(&b);
}
END_TEST

/* Stores of a lane, by what only those of the scales have; y's are of 8 bytes.  Of those that lanes share each stores one, beside its neighbours'. */
START_TEST(scales_are_stored_side_by_side)
{
	static const struct { const char *kernel, *variant; int fours, words, bytes; } cases[] = {
		{"rmsnorm_128", "N=4096 aligned rows>=529 with w", 0, 1, 0},
		{"rmsnorm_mxfp8", "N=4096 aligned rows>=529 with w", 0, 0, 1},
		{"rmsnorm_mxfp8", "N=8192 aligned rows>=529 with w", 0, 0, 1},
		{"rmsnorm_128", "N=7168 aligned rows>=8192 with w", 0, 1, 0}, {"rmsnorm_128", "N=7168 aligned with w", 0, 2, 0},   /* 512 lanes of two accesses, of two groups */
		{"rmsnorm_mxfp8", "N=7168 aligned rows>=8192 with w", 0, 0, 7},
		{"rmsnorm_mxfp8", "N=8192 aligned with w", 0, 0, 2},                  /* 16 waves */
		{"rmsnorm_mxfp8", "N=16384 aligned with w", 0, 0, 8},                 /* 512 groups */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open(&b, cases[c].kernel);
		const char *ptx = built_ptx(&b, cases[c].variant);
		int fours = built_times(ptx, "st.global.v4.b32"), words = built_times(ptx, "st.global.b32"), bytes = built_times(ptx, "st.global.b8");
		ck_assert_msg(fours == cases[c].fours && words == cases[c].words && bytes == cases[c].bytes, "%s %s: %d of 16 bytes, %d of 4, %d of one", cases[c].kernel,
		              cases[c].variant, fours, words, bytes);
		built_close(&b);
	}
}
END_TEST

START_TEST(turned_tiles)
{
	static const struct { const char *target, *variant; int rows, columns, threads; } cases[] = {
		{"sm_90a", "M%8=0 N%8=0 aligned rows>=512 with y yt", 256, 64, 512}, {"sm_90a", "M%8=0 N%8=0 aligned with y yt", 64, 64, 256},   /* many rows, few */
		{"sm_90a", "N<=64 unaligned rows>=512 with y yt", 64, 64, 128},
		{"gfx942", "M%8=0 N%8=0 aligned with y yt", 128, 64, 256},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open_for(&b, "cast_transpose", cases[c].target, NULL);
		int v = built_variant(&b, cases[c].variant);
		const struct ir_phase *ph = &built_passed(&b, v, NULL)->phases[0];
		for (int a = 0; a < ph->naxes; a++)
			ck_assert_msg(ph->axes[a].tile == (strcmp(ph->axes[a].name, "m") == 0 ? cases[c].rows : cases[c].columns), "%s %s: %d of axis %s", cases[c].target, cases[c].variant,
			              ph->axes[a].tile, ph->axes[a].name);
		ck_assert_int_eq(ph->naxes, 2);
		ck_assert_int_eq(b.v[v].waves * b.d.target->wave, cases[c].threads);
		int apart = 0;                                /* many rows, of the set that is named, aligned, not and short besides, and aligned of some of it */
		for (v = 0; v < b.n; v++)
			apart += strstr(b.v[v].text, "rows>=512") != NULL;
		ck_assert_int_eq(apart, strcmp(cases[c].target, "sm_90a") == 0 ? 4 : 0);
		built_close(&b);
	}
}
END_TEST

/* Scales along rows and across are dealt out: no two lanes make the same one.  The line that is read is the longer one. */
START_TEST(scales_are_made_once)
{
	struct built b;
	built_open(&b, "quantize_both_mxfp8");
	int v = built_variant(&b, "M%32=0 N%32=0 aligned"), rows = -1, stores = 0;
	const struct ir_kernel *k = built_passed(&b, v, NULL);
	const struct ir_phase *ph = &k->phases[0];
	for (int a = 0; a < ph->naxes; a++)
		if (strcmp(ph->axes[a].name, "m.o") == 0)
			rows = a;
	ck_assert_int_ge(rows, 0);
	ck_assert_int_eq(ph->axes[rows].tile, 2);
	ck_assert_int_eq(b.v[v].waves, 4);
	for (const struct ir_ins *i = ph->body->first; i; i = i->next) {
		if (i->op != IR_STORE || (strcmp(k->params[i->imm].name, "scale_t") && strcmp(k->params[i->imm].name, "scale")))
			continue;
		for (int bit = 0; bit < i->layout->nlane; bit++)
			ck_assert(!layout_basis_is_zero(&i->layout->lane[bit]));
		for (int bit = 0; bit < i->layout->nwave; bit++)
			ck_assert(!layout_basis_is_zero(&i->layout->wave[bit]));
		ck_assert_int_eq(layout_regs(i->layout), 2);         /* 256 numbers, 128 lanes */
		stores++;
	}
	ck_assert_int_eq(stores, 2);
	built_close(&b);
}
END_TEST

/* Scaled both ways: between two stores of eight codes along the row stand the conversions of eight, no others. */
START_TEST(values_stand_where_they_are_needed)
{
	struct built b;
	built_open(&b, "quantize_both_mxfp8");
	const char *ptx = built_ptx(&b, "M%32=0 N%32=0 aligned");
	int stores = 0, pairs = 0, all = 0;
	for (const char *line = ptx; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		size_t n = strcspn(line, "\n");
		if (memmem(line, n, "e4m3x2", 6)) {
			pairs++;
			all++;
		} else if (memmem(line, n, "st.global.v2", 12)) {
			ck_assert_msg(!stores || pairs == 4, "%d pairs between stores %d and %d", pairs, stores, stores + 1);
			pairs = 0;
			stores++;
		}
	}
	ck_assert_int_eq(stores, 8);
	ck_assert_int_eq(all, 64);                            /* 64 elements, both ways */
	built_close(&b);
}
END_TEST

static void blocks_of(const char *kernel, const char *target, const char *variant, int *blocks, int n)
{
	struct built b;
	struct device_code code;
	built_open_for(&b, kernel, target, NULL);
	device_compile(&b.d, &b.v[built_variant(&b, variant)], &code, variant);
	ck_assert_msg(code.nlaunches == n, "%s %s %s: %d launches", kernel, target, variant, code.nlaunches);
	for (int i = 0; i < n; i++)
		blocks[i] = code.launches[i].block;
	free(code.elf);
	built_close(&b);
}

/* A phase of tiles that are turned has workgroups of its own: those of a kernel without the other phases. */
START_TEST(phases_stand_apart)
{
	static const struct { const char *target, *variant, *alone; int first; } cases[] = {
		{"sm_90a", "N<=8192 M%32=0 N%32=0 aligned with w y scale yt scale_t", "M%32=0 N%32=0 aligned", 512},     /* shorter rows: one phase */
		{"sm_90a", "N<=16384 M%32=0 N%32=0 aligned with w y scale yt scale_t", "M%32=0 N%32=0 aligned", 512},
		{"gfx942", "M%32=0 N%32=0 aligned with w y scale yt scale_t", "M%32=0 N%32=0 aligned", 512},      /* rows are swept */
		{"gfx942", "any", "any", 512},
	};
	int blocks[3], alone;
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		blocks_of("rmsnorm_both_mxfp8", cases[c].target, cases[c].variant, blocks, 2);
		blocks_of("quantize_both_mxfp8", cases[c].target, cases[c].alone, &alone, 1);
		ck_assert_msg(blocks[0] == cases[c].first && blocks[1] == alone && alone < blocks[0], "%s %s: %d and %d threads, alone %d", cases[c].target,
		              cases[c].variant, blocks[0], blocks[1], alone);
	}
	for (int amd = 0; amd < 2; amd++) {                                                         /* rows are held here, swept there */
		struct built b;
		int held = 0;
		built_open_for(&b, "rmsnorm_both_mxfp8", amd ? "gfx942" : "sm_90a", NULL);
		for (int v = 0; v < b.n; v++)
			held += strncmp(b.v[v].text, "N<=", 3) == 0;
		ck_assert_int_eq(held, amd ? 0 : 2 * (5 + 2 + 3) + 2 * (5 + 2) + (4 + 2) + (5 + 2) + 5 + 3);    /* each set, some of each, rows alone, with res; in clusters but the last */
		built_close(&b);
	}
	blocks_of("quantize_current", "sm_90a", "N<=4096 M<=4096 M%4=0 N%16=0 aligned bare", blocks, 3);   /* nothing is turned */
	ck_assert(blocks[0] == blocks[1] && blocks[1] == blocks[2]);
	blocks_of("swiglu_both_128", "sm_90a", "M%128=0 N%128=0 aligned with y scale yt scale_t", blocks, 1);
	ck_assert_int_eq(blocks[0], 512);                                                            /* of two tensors: few loads a lane, asked for together */
	blocks_of("quantize_both_128", "sm_90a", "M%128=0 N%128=0 aligned", blocks, 1);
	ck_assert_int_eq(blocks[0], 256);                                                            /* two of its tiles a multiprocessor */
}
END_TEST

/* What a workgroup stores of each of several rows is kept in the L2 where it is less than a sector: scales of tiles, no codes, nothing of
 * one row. */
START_TEST(parts_of_sectors_are_kept)
{
	static const struct { const char *kernel, *variant; int bytes, words, others; } cases[] = {
		{"quantize_both_mxfp8", "M%32=0 N%32=0 aligned", 0, 0, 14},                 /* a group's lie side by side */
		{"quantize_both_128", "M%128=0 N%128=0 aligned", 0, 0, 14},
		{"both_by_rows_mx", "M%32=0 N%32=0 aligned", 4, 0, 12},                     /* a lane makes two of the rows and two of the columns */
		{"both_by_rows_128", "M%128=0 N%128=0 aligned", 0, 2, 12},
		{"rmsnorm_mxfp8", "N=4096 aligned rows>=529 with w", 0, 0, 5},              /* all of a row */
		{"quantize_mxfp8", "N%32=0 aligned bare", 0, 0, 2},
		{"cast_transpose", "M%8=0 N%8=0 aligned rows>=512 with y yt", 0, 0, 8},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		built_open(&b, cases[c].kernel);
		const char *ptx = built_ptx(&b, cases[c].variant);
		int kept = built_times(ptx, "st.global.L2::cache_hint"), bytes = built_times(ptx, "st.global.L2::cache_hint.u8"), words = built_times(ptx, "st.global.L2::cache_hint.b32");
		int others = built_times(ptx, "st.global.") - kept;
		ck_assert_msg(kept == bytes + words && bytes == cases[c].bytes && words == cases[c].words && others == cases[c].others,
		              "%s %s: %d kept, %d bytes, %d words, %d others", cases[c].kernel, cases[c].variant, kept, bytes, words, others);
		built_close(&b);
	}
}
END_TEST

/* Rows of scales end anywhere, for lanes that share a group store its number one at a time: aligned they must be only where several are stored or
 * read at a time, as rows of 4,096 are. */
START_TEST(rows_of_scales_end_anywhere)
{
	static const struct { const char *kernel, *variant, *tensor; bool asked; } cases[] = {
		{"both_by_rows_mx", "M%32=0 N%32=0 aligned", "s", false}, {"both_by_rows_mx", "M%32=0 N%32=0 aligned", "st", false},
		{"both_by_rows_128", "M%128=0 N%128=0 aligned", "st", false}, {"rmsnorm_mxfp8", "N<=4096 N%32=0 aligned with w", "scale", false},
		{"dequantize_128", "N%128=0 aligned", "scale", false}, {"rmsnorm_128", "N=4096 aligned rows>=529 with w", "scale", false},
		{"swiglu_128", "N=2048 aligned rows>=512 bare", "scale", false}, {"quantize_128", "N%4096=0 aligned rows>=512 bare", "scale", false},
		{"numbers_as_rows", "N=4096 aligned", "s", true}, {"numbers_as_rows", "N=4096 aligned", "t", true},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct device_code code;
		const char *planned, *asked;
		struct dsl_pin pin = {"N", 4096};
		built_open_for(&b, cases[c].kernel, "sm_90a", cases[c].asked ? &pin : NULL);
		built_asks(&b, cases[c].variant, &code, &planned, &asked);
		const char *aligned = arena_printf(&b.d.arena, "aligned(%s)", cases[c].tensor), *unit = arena_printf(&b.d.arena, "unit(%s)", cases[c].tensor);
		ck_assert_msg(strstr(planned, unit) && !strstr(planned, aligned), "%s: %s", cases[c].kernel, planned);
		ck_assert_msg(!strstr(asked, aligned) == !cases[c].asked, "%s: %s", cases[c].kernel, asked);
		free(code.elf);
		built_close(&b);
	}
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, sets_compute, 0, SETS);
	tcase_add_loop_test(t, crowds_compute, 0, 2);
	tcase_add_loop_test(t, crowds_of_groups_compute, 0, 5);
	tcase_add_test(t, the_next_launch_is_let_in);
	tcase_add_test(t, few_rows_are_told_of_their_grid);
	tcase_add_test(t, lanes_of_a_row);
	tcase_add_test(t, short_rows_share_a_workgroup);
	tcase_add_test(t, groups_of_a_lane);
	tcase_add_test(t, long_rows_fill_their_lanes);
	tcase_add_loop_test(t, many_rows, 0, nvptx_kernels.n);
	tcase_add_test(t, rows_are_counted);
	tcase_add_test(t, whole_tiles_have_no_masks);
	tcase_add_test(t, absent_elements_are_not_summed);
	tcase_add_test(t, rows_are_widened_again);
	tcase_add_loop_test(t, loads_are_asked_for_together, 0, FRONTS);
	tcase_add_test(t, ranges_meet);
	tcase_add_loop_test(t, last_accesses_are_masked, 0, 4);
	tcase_add_test(t, scales_are_stored_side_by_side);
	tcase_add_test(t, turned_tiles);
	tcase_add_test(t, values_stand_where_they_are_needed);
	tcase_add_test(t, scales_are_made_once);
	tcase_add_test(t, phases_stand_apart);
	tcase_add_test(t, parts_of_sectors_are_kept);
	tcase_add_test(t, rows_of_scales_end_anywhere);
}

int main(void)
{
	return nvptx_run("nvptx variants", add_tests);
}
