/* ir_test.c -- tile IR as a data structure: text both ways, the verifier, building with folding, editing, docs/ir.md's table. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir_help.h"

static struct arena arena;
static char err[500];
static void setup(void) { memset(&arena, 0, sizeof arena); }
static void teardown(void) { arena_free(&arena); }

static struct ir_kernel *parse(const char *text)
{
	struct ir_kernel *k = ir_parse(&arena, text, err, sizeof err);
	ck_assert_msg(k != NULL, "%s", err);
	return k;
}

/* --- text */

/* The golden files are in printed form after their leading comment. */
static void check_golden(const char *path)
{
	const char *text = ir_help_file(&arena, path), *start = text;
	while (*start == '#')
		start = strchr(start, '\n') + 1;
	struct ir_kernel *k = parse(text);
	const char *printed = ir_print(&arena, k);
	ir_help_bless(path, arena_printf(&arena, "%.*s%s", (int)(start - text), text, printed));
	if (!ir_help_blessing())
		ck_assert_str_eq(printed, start);
	ck_assert_str_eq(ir_print(&arena, parse(printed)), printed);
	ck_assert_str_eq(ir_print(&arena, ir_clone(&arena, k)), printed);
	ck_assert_msg(ir_verify(k, err, sizeof err) == 0, "%s: %s", path, err);
	ck_assert_msg(ir_verify(ir_clone(&arena, k), err, sizeof err) == 0, "%s: %s", path, err);
}

START_TEST(golden_kernels_print_as_they_were_read)
{
	DIR *dir = opendir("tests/ir");
	int n = 0;
	ck_assert_ptr_nonnull(dir);
	for (struct dirent *e; (e = readdir(dir)); n++)
		if (strstr(e->d_name, ".ir"))
			check_golden(arena_printf(&arena, "tests/ir/%s", e->d_name));
	closedir(dir);
	ck_assert_int_gt(n, 8);
}
END_TEST

START_TEST(numbers_print_exactly)
{
	static const float values[] = {0.1f, 0x1p-149f, 3.4028235e38f, -0.0f, 1.0f / 3, 16777217, 1e10f, INFINITY, -INFINITY};
	for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
		struct ir_kernel *k = parse("kernel k { phase { %0 = const 1 : f32 yield } }");
		k->phases[0].body->first->num = values[i];
		const char *text = ir_print(&arena, k);
		float back = (float)parse(text)->phases[0].body->first->num;
		ck_assert_msg(memcmp(&back, &values[i], 4) == 0, "%s", text);
	}
}
END_TEST

/* Axes of one name stay apart: the second gets its number. */
START_TEST(repeated_axis_names_print_apart)
{
	struct ir_kernel *k = parse("kernel k { symbol N phase { axis k loop tile 4\n axis j loop tile 8\n %0 = const 0 : i32 %1 = sym N : i32 "
		"%2 = for k from %0 to %1 { %3 = iota k : i32[k] yield } %4 = for j from %0 to %1 { %5 = iota j : i32[j] yield } yield } }");
	k->phases[0].axes[1].name = "k";
	const char *text = ir_print(&arena, k);
	ck_assert_ptr_nonnull(strstr(text, "for k'1 from"));
	ck_assert_str_eq(ir_print(&arena, parse(text)), text);
}
END_TEST

START_TEST(every_prefix_of_a_kernel_is_refused)
{
	char *text = ir_help_file(&arena, "tests/ir/gemm.ir");
	for (size_t n = strlen(text) - 2; n > 0; n--) {
		text[n] = 0;
		ck_assert_ptr_null(ir_parse(&arena, text, err, sizeof err));
		ck_assert(strncmp(err, "line ", 5) == 0);
	}
}
END_TEST

START_TEST(altered_text_does_no_harm)
{
	const char *text = ir_help_file(&arena, "tests/ir/attention.ir");
	size_t n = strlen(text);
	unsigned state = 3;
	for (int i = 0; i < 4000; i++) {
		struct arena own = {0};
		char *t = arena_string(&own, text, n);
		for (int hits = 0; hits < 3; hits++) {
			state = state * 1103515245u + 12345u;
			t[(state >> 8) % n] = "%0,[]{}:=@ax1 \n"[(state >> 4) % 15];
		}
		struct ir_kernel *k = ir_parse(&own, t, err, sizeof err);
		if (k && ir_verify(k, err, sizeof err) == 0)
			ck_assert_ptr_nonnull(ir_parse(&own, ir_print(&own, k), err, sizeof err));
		arena_free(&own);
	}
}
END_TEST

START_TEST(parse_errors_name_line_and_cause)
{
	static const char *const bad[][2] = {
		{"", "line 1: expected 'kernel' before ''"},
		{"kernel k {\n  phase {\n    %0 = frob : f32\n", "line 3: expected an operation before 'frob : f32\n'"},
		{"kernel k { phase {\n%0 = add %1, %1 : f32\n", "line 2: %1 is used before it is defined"},
		{"kernel k { phase { %0 = const 1 : f32\n%0 = const 1 : f32 }", "line 2: %0 is defined twice"},
		{"kernel k { phase { %0 = const 1 : f31 }", "line 1: expected an element type before 'f31 }'"},
		{"kernel k { in x: f32[N]", "line 1: 'N' is not a host expression"},
		{"kernel k { in x: f32[1] phase { %0 = const 0 : i32 %1 = load x[%0, %0] : f32 yield } }", "line 1: 'x' is not a tensor of rank 2"},
		{"kernel k { phase { %0 = const 1 : f32 %1 = add %0 : f32", "line 1: add has 1 operands, expected 2"},
		{"kernel k { symbol N multiple M 4", "line 1: 'M' is no symbol"},
		{"kernel k { phase { %0 = const 1 : f32 %1 = reduce sum by row", "line 1: expected 'lane' before 'row'"},
		{"kernel k { phase { store", "line 1: expected a parameter before ''"},
		{"kernel k { phase { const 1 : f32 } }", "line 1: const needs a number for its value"},
		{"kernel k { phase { %0 = yield } }", "line 1: yield has no value"},
		{"kernel k { phase { axis m grid : 1\n%0 = iota m : i32[m] {reg q:1} } }", "line 2: 'reg q:1' is not a layout"},
		{"kernel k { } x", "line 1: expected the end before 'x'"},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		ck_assert_ptr_null(ir_parse(&arena, bad[i][0], err, sizeof err));
		ck_assert_str_eq(err, bad[i][1]);
	}
}
END_TEST

/* --- verifier */

#define HEAD "kernel k { symbol N in x: f32[N] in h: f16[N] in s8: e8m0[N] in u: u8[N] in? o: f32[N] in first: i32[N] scalar s: f32 out y: f32[N] phase { axis m grid : N\n axis n held : N\n axis k loop tile 4\n axis j loop tile 4\n axis l held tile 2 : 2\n" \
	"%0 = iota m : i32[m] %1 = iota n : i32[n] %2 = const 0 : i32 %3 = sym N : i32 %4 = const 1 : f32 %5 = load x[%1] : f32[n] %6 = load h[%1] : f16[n] %7 = lt %1, %3 : i1[n] "
#define TAIL " yield } }"

static const struct { const char *body, *cause; } faults[] = {
	{"%9 = add %4, %6 : f32[n]", "%9 add: operands are f32 and f16"},
	{"%9 = add %4, %5 : f32", "%9 add: the axes are not the union of the operands'"},
	{"%9 = add %4, %5 : f16[n]", "%9 add: the result is f16, expected f32"},
	{"%9 = and %4, %5 : f32[n]", "%9 and: not an operation on f32"},
	{"%9 = sqrt %3 : i32", "%9 sqrt: not an operation on i32"},
	{"%9 = add %7, %7 : i1[n]", "%9 add: not an operation on i1"},
	{"%9 = lt %1, %3 : i32[n]", "%9 lt: the result is i32, expected i1"},
	{"%9 = select %1, %4, %4 : f32[n]", "%9 select: not an operation on f32"},
	{"%9 = fma %1, %1, %1 : i32[n]", "%9 fma: not an operation on i32"},
	{"%9 = cvt %4 : i1", "%9 cvt: a conversion to i1 is a comparison"},
	{"%9 = bitcast %6 : i32[n]", "%9 bitcast: f16 and i32 differ in width"},
	{"%9 = relayout %5 : f16[n]", "%9 relayout: a relayout keeps the type"},
	{"%9 = philox %4, %4 : i32", "%9 philox: not an operation on f32"},
	{"%9 = const 300 : i8", "%9 const: 300 does not fit i8"},
	{"%9 = const 1 : f64", "%9 const: f64 is no type for it"},
	{"%9 = const 1 : i32 %8 = cvt again %9 : f32", "%8 cvt: again is bf16 or f16 to f32"},
	{"%9 = const 1 : bf16 %8 = cvt again %9 : f16", "%8 cvt: again is bf16 or f16 to f32"},
	{"%9 = iota n : f32[n]", "%9 iota: not an axis, or not i32"},
	{"%9 = iota n : i32[m]", "%9 iota: the axes are not those of the leaf"},
	{"%9 = iota k : i32[k]", "%9 iota: a loop axis outside its for"},
	{"%9 = limit n : i32", "%9 limit: axis 'n' is not ragged"},
	{"%9 = param s : i32", "%9 param: the parameter is f32"},
	{"%9 = has x : i1", "%9 has: not an optional tensor, or not i1"},
	{"%9 = load x[%4] : f32", "%9 load: subscript 0 is f32, expected i32"},
	{"%9 = load x[%1] : f16[n]", "%9 load: 'x' holds f32"},
	{"%9 = load x[%1] if %1 : f32[n]", "%9 load: the mask is not i1"},
	{"%9 = load x[%2] if %7 : f32", "%9 load: the axes are not the union of the operands'"},
	{"store x[%1] = %4", "store: 'x' is an input"},
	{"store y[%1] = %6", "store: a f16 value for 'y' of f32"},
	{"store y[%0] = %5", "store: the value has an axis that no subscript has"},
	{"update any y[%0] = %4", "update: no such update of f32"},
	{"%9 = reduce sum over n %5 : f32[n]", "%9 reduce: the axes are not what is left of the operands'"},
	{"%9 = reduce any over n %5 : f32", "%9 reduce: no such reduction of f32"},
	{"%9 = reduce sum over n %5 * %6 : f32", "%9 reduce: a fused product is a sum of f32"},
	{"%9 = reduce sum chains 3 over n %5 : f32", "%9 reduce: chains are no power of two"},
	{"%9 = reduce sum part over n %5 : f32", "%9 reduce: a part of a sum is no sum"},
	{"%9 = reduce max part over n %5 : f32 %10 = neg %9 : f32", "%10 neg: operand 0 is of each workgroup"},
	{"%9 = reduce max part over n %5 : f32 update min y[%2] = %9", "update: operand 1 is of each workgroup"},
	{"%9 = reduce sum by lane n over n %5 : f32[n]", "%9 reduce: lanes are numbered by a held axis of their own"},
	{"%9 = reduce sum by lane m over n %5 : f32[m]", "%9 reduce: lanes are numbered by a held axis of their own"},
	{"%9 = reduce sum by lane l over n %5 : f32[l]", "%9 reduce: lanes are those of a layout, and hold f32"},
	{"%9 = load x[%1] relaxed : f32[n]", "%9 load: 'x' is nothing of 4 bytes that is updated"},
	{"%9 = reduce sum over k %5 : f32[n]", "%9 reduce: axis 2 does not exist here"},
	{"%9 = dot over n %1, %5 : f32", "%9 dot: no dot of i32 and f32"},
	{"%9 = dot over n %5, %5 : f16", "%9 dot: the result is f16"},
	{"%9 = dot over n %5, %5 + %5 : f32", "%9 dot: the accumulator has a contracted axis"},
	{"%9 = dot over n %5, %5 scaled %4, %4 : f32", "%9 dot: a scale is no e8m0, or has axes of its own"},
	{"%8 = load s8[%1] : e8m0[n] %9 = dot over n %5, %5 scaled %8, %8 : f32", "%9 dot: a scale is no e8m0, or has axes of its own"},
	{"%8 = load s8[%0] : e8m0[m] %9 = dot over n %5, %5 scaled %8, %8 : f32", "%9 dot: 0 scales of 0 positions"},
	{"%8 = load u[%1] : u8[n] %9 = dot over n %8, %8 : i32", "%9 dot: no dot of u8 and u8"},
	{"%9 = repeat n along m %5 : f32[m]", "%9 repeat: 0 positions are not so many times 0"},
	{"%9 = repeat m along n %5 : f32[n]", "%9 repeat: the axes are not the operand's with one in the place of another"},
	{"%9 = for k from %2 to %3 { %10 = iota k : i32[k] %11 = repeat k along j %10 : f32[j] yield }", "%11 repeat: a loop axis outside its for"},
	{"%9 = pack n along m %5 : u8[m]", "%9 pack: 0 codes of f32 are not 0 pairs"},
	{"%9 = argmax over n %5 : f32", "%9 argmax: the result is f32"},
	{"%9 = if %7 { yield } else { yield }", "%9 if: the condition is not an i1 without axes"},
	{"%8 = has o : i1 %9 = if %8 { yield %4 } else { yield }", "%9 if: its blocks yield 1 and 0 values"},
	{"%8 = has o : i1 %9 = if %8 { yield %4 } else { yield %2 }", "%9 if: its blocks yield different types for value 0"},
	{"%8 = has o : i1 %9 = if %8 { %10 = neg %4 : f32 yield } else { yield } %11 = neg %10 : f32", "%11 neg: operand 0 is not defined here"},
	{"%8 = has o : i1 %9 = if %8 { } else { yield }", "%9 if: a block does not end in yield"},
	{"%8 = has o : i1 %9 = if %8 { yield %6 } else { yield %6 } %10 = result 1 of %9 : f16[n]", "%10 result: there is no value 1"},
	{"%8 = has o : i1 %9 = if %8 { yield %6 } else { yield %6 } %10 = result 0 of %9 : f16", "%10 result: an axis of the value is missing"},
	{"%8 = has o : i1 %9 = if %8 { yield %6 } else { yield %6 } %10 = neg %9 : f32", "%10 neg: operand 0 has no value"},
	{"%9 = result 0 of %4 : f32", "%9 result: operand 0 has no value"},
	{"%9 = for n from %2 to %3 { yield }", "%9 for: not a loop axis"},
	{"%9 = for k from %2 to %1 { yield }", "%9 for: start and end are not i32 without axes"},
	{"%9 = for k from %2 to %3 { %10 = for k from %2 to %3 { yield } yield }", "%10 for: axis 'k' is already looped over"},
	{"%9 = for k from %2 to %3 with %10: f32 = %5 { yield %10 }", "%9 for: initial value 0 does not fit its ARG"},
	{"%9 = for k from %2 to %3 with %10: f32 = %4 { yield }", "%9 for: its body yields 0 of 1 carried values"},
	{"%9 = for k from %2 to %3 with %10: f32 = %4 { yield %5 }", "yield: value 0 does not fit its ARG"},
	{"%9 = for k from %2 to %3 with %10: f32[j] = %4 { yield %10 }", "a loop axis outside its for"},
	{"%9 = for k from %2 to %3 with %10: f32 = %4 { yield %10 } %11 = result 0 of %9 : f32[n]", "%11 result: the axes are not those of the carried value"},
	{"%9 = for k from %2 to %3 { yield } %10 = iota k : i32[k]", "%10 iota: a loop axis outside its for"},
	{"%9 = for k from %2 to %3 { %10 = iota k : i32[k] {reg k:1} yield }", "%10 iota: the layout holds 2 positions of axis 2, the tile has 4"},
	{"%9 = for k from %2 to %3 { %10 = iota k : i32[k] {reg k:2} yield }", "%10 iota: the layout does not cover its block once"},
	{"yield", "yield: not the last of its block"},
};

START_TEST(faults_are_found)
{
	for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++) {
		struct ir_kernel *k = parse(arena_printf(&arena, "%s%s%s", HEAD, faults[i].body, TAIL));
		ck_assert_msg(ir_verify(k, err, sizeof err) == -1, "accepted: %s", faults[i].body);
		ck_assert_msg(strstr(err, faults[i].cause) != NULL, "'%s' for %s", err, faults[i].body);
	}
	ck_assert_msg(ir_verify(parse(HEAD TAIL), err, sizeof err) == 0, "%s", err);
}
END_TEST

START_TEST(faults_of_axes_are_found)
{
	static const char *const bad[][2] = {
		{"axis m grid", "axis 'm' has no extent, or is a loop with one"},
		{"axis k loop : N", "axis 'k' has no extent, or is a loop with one"},
		{"axis e held : N\n axis m grid ragged first[e] : N", "the group of axis 'm' is no grid axis"},
		{"axis e grid tile 2 : N\n axis m grid ragged first[e] : N", "the group of axis 'm' has a tile of several"},
		{"axis e grid : N\n axis m held ragged first[e] : N", "ragged axis 'm' is no grid axis or has no total"},
		{"axis n held tile 2 cluster 2 : N", "axis 'n' is no grid axis, or its cluster is no power of two up to 16"},
		{"axis n grid tile 2 cluster 3 : N", "axis 'n' is no grid axis, or its cluster is no power of two up to 16"},
		{"axis e grid : N\n axis m grid cluster 2 ragged first[e] : N", "ragged axis 'm' has a cluster"},
		{"axis e grid : N\n axis m grid ragged x[e] : N", "the bounds of axis 'm' are no list and no i32 tensor of rank 1"},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		ck_assert_int_eq(ir_verify(parse(arena_printf(&arena, "kernel k { symbol N in first: i32[N] in x: f32[N] phase { %s\n yield } }", bad[i][0])), err, sizeof err), -1);
		ck_assert_str_eq(err, bad[i][1]);
	}
}
END_TEST

START_TEST(faults_of_lists_are_found)
{
	static const char *const bad[][2] = {
		{"in? x: list f32[K, N] phase {\n yield", "list 'x' is no plain parameter"},
		{"in x: list f32[N] phase {\n yield", "list 'x' is no plain parameter"}, {"in x: list e2m1[K, N] phase {\n yield", "list 'x' is no plain parameter"},
		{"in x: list f32[K, N] phase { axis k grid : K\n axis i grid ragged x[k] : K\n yield", "axis 'i' does not go over the whole list 'x'"},
		{"in x: list f32[K, N] phase { axis k grid : N\n axis i grid ragged x[k] : N\n yield", "axis 'i' does not go over the whole list 'x'"},
		{"in x: list f32[K, N] phase { axis k grid : K\n axis n grid : N\n %0 = iota k : i32[k]\n %1 = iota n : i32[n]\n %2 = load x[%0, %1] : f32[k, n]\n yield",
		 "list 'x' is not subscripted by one of its ranges"},
		{"in x: list f32[K, N] phase { axis k grid : K\n axis i grid ragged x[k] : N\n %0 = iota k : i32[k]\n %1 = iota i : i32[i]\n %2 = load x[%1, %0] : f32[k, i]\n yield",
		 "list 'x' is not subscripted by one of its ranges"},
	};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		ck_assert_int_eq(ir_verify(parse(arena_printf(&arena, "kernel k { symbol K symbol N %s } }", bad[i][0])), err, sizeof err), -1);
		ck_assert_msg(strstr(err, bad[i][1]) != NULL, "'%s' for %s", err, bad[i][0]);
	}
	ck_assert_int_eq(ir_verify(parse("kernel k { symbol K symbol N in x: list f32[K, N] phase {\n yield } }"), err, sizeof err), 0);
}
END_TEST

/* --- building */

struct fixture { struct ir_kernel k; struct ir_param params[2]; const char *symbols[1]; struct ir_phase phase; struct ir_block body; struct ir_builder b; };

static struct ir_builder *builder(struct fixture *f)
{
	static const struct ir_axis axis = {.name = "n", .kind = AXIS_HELD};
	memset(f, 0, sizeof *f);
	f->k = (struct ir_kernel){.name = "k", .instance = "", .arena = &arena, .params = f->params, .nparams = 2, .symbols = f->symbols, .nsymbols = 1, .phases = &f->phase, .nphases = 1};
	f->symbols[0] = "N";
	for (int i = 0; i < 2; i++)
		f->params[i] = (struct ir_param){.name = i ? "y" : "x", .is_tensor = true, .role = i ? IR_OUT : IR_IN, .dtype = DT_F32, .rank = 1, .extent = {hexpr_sym(&arena, 0)}};
	f->phase = (struct ir_phase){.naxes = 1, .body = &f->body};
	f->phase.axes[0] = axis;
	f->phase.axes[0].extent = hexpr_sym(&arena, 0);
	f->b = (struct ir_builder){.k = &f->k, .ph = &f->phase, .block = &f->body};
	return &f->b;
}

static void is_const(const struct ir_ins *ins, double want)
{
	double v;
	ck_assert(ir_is_const(ins, &v));
	ck_assert_double_eq(v, want);
}

START_TEST(constants_fold)
{
	struct fixture f;
	struct ir_builder *b = builder(&f);
	struct ir_ins *i7 = ir_int(b, DT_I32, 7), *i2 = ir_int(b, DT_I32, -2), *i0 = ir_int(b, DT_I32, 0), *yes = ir_int(b, DT_I1, 1), *no = ir_int(b, DT_I1, 0);
	is_const(ir_bin(b, IR_ADD, i7, i2), 5);
	is_const(ir_bin(b, IR_DIV, i7, i2), -3);
	is_const(ir_bin(b, IR_REM, i7, i2), 1);
	is_const(ir_bin(b, IR_DIV, i7, i0), 0);
	is_const(ir_bin(b, IR_MUL, ir_int(b, DT_I32, 65536), ir_int(b, DT_I32, 65537)), 65536);
	is_const(ir_bin(b, IR_SHR, i2, ir_int(b, DT_I32, 33)), -1);
	is_const(ir_bin(b, IR_LT, i2, i7), 1);
	is_const(ir_un(b, IR_NOT, yes), 0);
	is_const(ir_cvt(b, ir_int(b, DT_I32, 300), DT_I8, true), 127);
	is_const(ir_cvt(b, ir_int(b, DT_I32, 300), DT_I8, false), 44);
	is_const(ir_cvt(b, ir_float(b, DT_F32, 1000), DT_E4M3, true), 448);
	is_const(ir_float(b, DT_BF16, 1.001), 1);
	is_const(ir_bin(b, IR_DIV, ir_float(b, DT_F32, 1), ir_float(b, DT_F32, 3)), 1.0f / 3);
	struct ir_ins *n = ir_leaf(b, IR_IOTA, DT_I32, 0), *m = ir_bin(b, IR_LT, n, i7);
	ck_assert_ptr_eq(ir_bin(b, IR_ADD, n, i0), n);
	ck_assert_ptr_eq(ir_bin(b, IR_MUL, ir_int(b, DT_I32, 1), n), n);
	ck_assert_ptr_eq(ir_bin(b, IR_DIV, n, ir_int(b, DT_I32, 1)), n);
	ck_assert_ptr_eq(ir_bin(b, IR_AND, m, yes), m);
	ck_assert_ptr_eq(ir_bin(b, IR_AND, no, m), no);
	ck_assert_ptr_eq(ir_bin(b, IR_OR, m, no), m);
	ck_assert_ptr_eq(ir_bin(b, IR_AND, m, m), m);
	ck_assert_ptr_eq(ir_select(b, yes, n, i7), n);
	ck_assert_ptr_eq(ir_cvt(b, n, DT_I32, true), n);
	ck_assert_ptr_eq(ir_un(b, IR_NOT, ir_un(b, IR_NOT, m)), m);
}
END_TEST

/* What could change a NaN or the sign of a zero stays. */
START_TEST(floats_fold_only_exactly)
{
	struct fixture f;
	struct ir_builder *b = builder(&f);
	struct ir_ins *n = ir_leaf(b, IR_IOTA, DT_I32, 0), *x = ir_load(b, 0, &n, NULL), *zero = ir_float(b, DT_F32, 0), *one = ir_float(b, DT_F32, 1), *inf = ir_float(b, DT_F32, INFINITY);
	ck_assert_int_eq(ir_bin(b, IR_ADD, x, zero)->op, IR_ADD);
	ck_assert_int_eq(ir_bin(b, IR_SUB, x, zero)->op, IR_SUB);
	ck_assert_int_eq(ir_bin(b, IR_MUL, x, zero)->op, IR_MUL);
	ck_assert_int_eq(ir_bin(b, IR_SUB, inf, inf)->op, IR_SUB);
	ck_assert_int_eq(ir_bin(b, IR_SUB, x, x)->op, IR_SUB);
	ck_assert_ptr_eq(ir_bin(b, IR_MUL, x, one), x);
	ck_assert_ptr_eq(ir_bin(b, IR_DIV, x, one), x);
	ck_assert_int_eq(x->axes, IR_AXIS(0));
}
END_TEST

static void drop(struct ir_ins *ins, void *ctx)
{
	int *removed = ctx;
	if (ins->op == IR_ABS) {
		ir_remove(ins);
		++*removed;
	}
}

START_TEST(editing)
{
	struct fixture f;
	struct ir_builder *b = builder(&f);
	struct ir_ins *n = ir_leaf(b, IR_IOTA, DT_I32, 0), *x = ir_load(b, 0, &n, NULL), *a = ir_un(b, IR_ABS, x);
	struct ir_ins *store = ir_store(b, 1, &n, a, NULL);
	ir_yield(b, NULL, 0);
	struct ir_builder before = f.b;
	before.before = a;
	ir_replace(&f.k, a, ir_un(&before, IR_NEG, x));
	int removed = 0;
	ir_walk(&f.body, drop, &removed);
	ck_assert_int_eq(removed, 1);
	ck_assert_int_eq(store->args[1]->op, IR_NEG);
	ck_assert_ptr_eq(store->prev, store->args[1]);
	ck_assert_msg(ir_verify(&f.k, err, sizeof err) == 0, "%s", err);
}
END_TEST

/* Loops and branches built through the interface pass the verifier and run. */
START_TEST(regions_are_built)
{
	struct fixture f;
	struct ir_builder *b = builder(&f), in;
	f.phase.naxes = 2;
	f.phase.axes[1] = (struct ir_axis){.name = "k", .kind = AXIS_LOOP, .tile = 2};
	f.phase.axes[0].extent = hexpr_const(&arena, 1);
	struct ir_ins *zero = ir_float(b, DT_F32, 0), *size = ir_leaf(b, IR_SYM, DT_I32, 0), *loop = ir_for(b, 1, ir_int(b, DT_I32, 0), size, &zero, 1);
	in = f.b;
	in.block = loop->body;
	struct ir_ins *k = ir_leaf(&in, IR_IOTA, DT_I32, 1), *mask = ir_bin(&in, IR_LT, k, size), *x = ir_load(&in, 0, &k, mask);
	struct ir_ins *sum = ir_bin(&in, IR_ADD, loop->body->params[0], ir_reduce(&in, RED_SUM, x, IR_AXIS(1), mask));
	ir_yield(&in, &sum, 1);
	struct ir_ins *total = ir_result(b, loop, 0), *branch = ir_if(b, ir_bin(b, IR_LT, total, zero)), *negated;
	in.block = branch->body;
	negated = ir_un(&in, IR_NEG, total);
	ir_yield(&in, &negated, 1);
	in.block = branch->other;
	ir_yield(&in, &total, 1);
	struct ir_ins *n = ir_leaf(b, IR_IOTA, DT_I32, 0);
	ir_store(b, 1, &n, ir_result(b, branch, 0), NULL);
	ir_yield(b, NULL, 0);
	ck_assert_msg(ir_verify(&f.k, err, sizeof err) == 0, "%s", err);
	float data[5] = {1, 2, -4, -8, 0.5f}, out = 0;
	struct ir_tensor tensors[] = {{data, DT_F32, 1, {5}, {1}}, {&out, DT_F32, 1, {1}, {1}}};
	struct ir_eval e = {.kernel = &f.k, .tensors = tensors, .scalars = (double[2]){0}, .symbols = (int64_t[]){5}, .check_bounds = true};
	ck_assert_msg(ir_evaluate(&e, err, sizeof err) == 0, "%s", err);
	ck_assert_float_eq(out, 8.5f);
	const char *text = ir_print(&arena, &f.k);
	ck_assert_str_eq(ir_print(&arena, parse(text)), text);
}
END_TEST

START_TEST(host_expressions_become_scalars)
{
	static const struct { const char *text; int n, want; } cases[] = {
		{"cdiv(N, 128) * 2", 300, 6}, {"N % 8 == 0 and not (N == 0)", 16, 1}, {"max(N - 5, -N)", 2, -2}, {"exact(N, 2)", 8, 4}, {"N or 0", 0, 0}, {"(N < 4) + 1", 3, 2},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fixture f;
		struct ir_builder *b = builder(&f);
		const char *at;
		f.params[1].dtype = DT_I32;
		f.params[1].extent[0] = hexpr_const(&arena, 1);
		struct ir_ins *v = ir_hexpr(b, hexpr_parse(&arena, cases[i].text, f.symbols, 1, NULL, 0, &at)), *zero = ir_int(b, DT_I32, 0);
		ck_assert_int_eq(v->dtype, DT_I32);
		ir_store(b, 1, &zero, v, NULL);
		ir_yield(b, NULL, 0);
		int32_t out = -99;
		struct ir_tensor tensors[] = {{&out, DT_F32, 1, {1}, {1}}, {&out, DT_I32, 1, {1}, {1}}};
		struct ir_eval e = {.kernel = &f.k, .tensors = tensors, .scalars = (double[2]){0}, .symbols = (int64_t[]){cases[i].n}, .check_bounds = true};
		ck_assert_msg(ir_evaluate(&e, err, sizeof err) == 0, "%s", err);
		ck_assert_int_eq(out, cases[i].want);
	}
	struct fixture f;
	is_const(ir_hexpr(builder(&f), hexpr_const(&arena, 5)), 5);
	ck_assert_ptr_null(ir_hexpr(&f.b, hexpr_leaf(&arena, HX_ALIGNED, 0)));
}
END_TEST

/* --- docs */

START_TEST(operations_are_documented)
{
	static const char begin[] = "<!-- operations: written by make bless from compiler/op.def -->\n", end[] = "<!-- end of operations -->";
	const char *doc = ir_help_file(&arena, "docs/ir.md"), *from = strstr(doc, begin), *to = strstr(doc, end);
	ck_assert(from && to);
	from += sizeof begin - 1;
	char *table = arena_printf(&arena, "| text | class | meaning |\n|---|---|---|\n");
	for (int op = 0; op < IR_NOP; op++) {
		char *meaning = arena_string(&arena, "", 0);
		for (const char *p = ir_op_info[op].meaning; *p; p++)
			meaning = arena_printf(&arena, "%s%s%c", meaning, *p == '|' ? "\\" : "", *p);
		table = arena_printf(&arena, "%s| `%s` | %s | %s |\n", table, ir_op_info[op].text, ir_op_info[op].cls, meaning);
	}
	ir_help_bless("docs/ir.md", arena_printf(&arena, "%.*s%s%s", (int)(from - doc), doc, table, to));
	if (!ir_help_blessing())
		ck_assert_msg(strlen(table) == (size_t)(to - from) && memcmp(table, from, strlen(table)) == 0, "docs/ir.md differs from op.def: make bless");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ir");
	TCase *c = tcase_create("ir");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, golden_kernels_print_as_they_were_read);
	tcase_add_test(c, numbers_print_exactly);
	tcase_add_test(c, repeated_axis_names_print_apart);
	tcase_add_test(c, every_prefix_of_a_kernel_is_refused);
	tcase_add_test(c, altered_text_does_no_harm);
	tcase_add_test(c, parse_errors_name_line_and_cause);
	tcase_add_test(c, faults_are_found);
	tcase_add_test(c, faults_of_axes_are_found);
	tcase_add_test(c, faults_of_lists_are_found);
	tcase_add_test(c, constants_fold);
	tcase_add_test(c, floats_fold_only_exactly);
	tcase_add_test(c, editing);
	tcase_add_test(c, regions_are_built);
	tcase_add_test(c, host_expressions_become_scalars);
	tcase_add_test(c, operations_are_documented);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
