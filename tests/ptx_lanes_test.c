/* ptx_lanes_test.c -- what the interpreter of PTX makes of the lanes of a warp.
 *
 * In: texts written here.  Checked: lanes that part, go round a loop as often as each wants, leave, and meet again compute what each would by itself;
 * what a lane stores another one reads behind what orders the two, and is refused where nothing does, which a chip need not notice.  Products of four
 * warps are what loops over integers make of the same operands, whose tiles are laid out here by another formula than the interpreter's, and are refused where
 * something touches what they use before they are done, or where nothing has shown them what they read.  Of clusters: nvptx_test.c. */
#include "ptx_run.h"

#include "../base/arena.h"
#include "../base/num.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 64, SHARED = 1024 };
#define SYNC "\tbar.warp.sync \t0xffffffff;\n"
#define NEIGHBOUR "\tld.shared.b32 \t%r10, [%rd5];\n"
#define STORE "\tst.shared.b32 \t[%rd4], %r2;\n"
#define FROM_NEIGHBOUR "\tshfl.sync.bfly.b32 \t%r10, %r10, 1, 31, -1;\n"
#define COPY "\tcp.async.cg.shared.global \t[%rd7], [%rd8], 16, 16;\n"
#define COPIED "\tcp.async.wait_all;\n"

/* %r2: the thread's number; %rd4 and %rd5: the thread's word of p and its neighbour's, %rd6 of the result; %rd7, %rd9, %rd8: 16 bytes each, of p, the
 * neighbour's, and of what is only read.  %p1: odd threads. */
static const char text[] = ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 p[];\n.visible .entry k(\n\t.param .u64 .ptr .global .align 4 k_param_0,\n"
	"\t.param .u64 .ptr .global .align 4 k_param_1\n)\n.reqntid 64\n{\n\t.reg .pred \t%p<8>;\n\t.reg .b32 \t%r<30>;\n\t.reg .b64 \t%rd<20>;\n"
	"\tld.param.b64 \t%rd1, [k_param_0];\n\tld.param.b64 \t%rd2, [k_param_1];\n\tmov.u32 \t%r2, %tid.x;\n\txor.b32 \t%r3, %r2, 1;\n\tmov.b64 \t%rd3, p;\n"
	"\tmul.wide.u32 \t%rd10, %r2, 4;\n\tmul.wide.u32 \t%rd11, %r3, 4;\n\tadd.s64 \t%rd4, %rd3, %rd10;\n\tadd.s64 \t%rd5, %rd3, %rd11;\n\tadd.s64 \t%rd6, %rd1, %rd10;\n"
	"\tmul.wide.u32 \t%rd10, %r2, 16;\n\tmul.wide.u32 \t%rd11, %r3, 16;\n\tadd.s64 \t%rd7, %rd3, %rd10;\n\tadd.s64 \t%rd9, %rd3, %rd11;\n\tadd.s64 \t%rd8, %rd2, %rd10;\n"
	"\tand.b32 \t%r4, %r2, 1;\n\tsetp.eq.b32 \t%p1, %r4, 1;\n\tmov.b32 \t%r10, 0;\n%s\tst.global.b32 \t[%rd6], %r10;\n\tret;\n}\n";

static int run(const char *body, uint32_t *out, char *err, size_t errlen)
{
	static uint32_t in[LANES * 4];
	struct arena arena = {0};
	for (uint32_t i = 0; i < LANES * 4; i++)
		in[i] = 100 + i;
	uint64_t arguments[2] = {(uint64_t)(uintptr_t)out, (uint64_t)(uintptr_t)in};
	struct ptx_range memory[2] = {{(uint8_t *)out, LANES * sizeof *out, true}, {(uint8_t *)in, sizeof in, false}};
	const char *at = strstr(text, "%s");
	struct ptx_launch l = {.text = arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, body, at + 2), .kernel = "k", .grid = {1, 1, 1}, .block = LANES, .arguments = arguments,
	                       .argument_bytes = sizeof arguments, .memory = memory, .nmemory = 2, .shared = SHARED};
	memset(out, 0, LANES * sizeof *out);
	int failed = ptx_run(&l, err, errlen);
	arena_free(&arena);
	return failed;
}

static uint32_t neighbour(uint32_t t) { return t ^ 1; }
static uint32_t seven(uint32_t t) { (void)t; return 7; }
static uint32_t rounds(uint32_t t) { return (t ^ 1) % 5 + 1; }
static uint32_t sides(uint32_t t) { return (t ^ 1) * (t & 1 ? 5 : 3) + 1; }
static uint32_t left(uint32_t t) { return t % 32 < 16 ? 0 : t + 1; }
static uint32_t copied(uint32_t t) { return 100 + 4 * t; }
static uint32_t copied_beside(uint32_t t) { return 100 + 4 * (t ^ 1); }
static uint32_t nested(uint32_t t) { return t & 1 ? t % 4 + 10 : t % 8 < 4 ? 20 : 30; }

static const struct { const char *body; uint32_t (*want)(uint32_t thread); } sound[] = {
	{STORE SYNC NEIGHBOUR, neighbour}, {STORE "\tbar.sync \t0;\n" NEIGHBOUR, neighbour},
	/* several lanes store one value, and each reads what it has stored itself */
	{"\tst.shared.b32 \t[p], 7;\n" SYNC "\tld.shared.b32 \t%r10, [p];\n", seven}, {"\tst.shared.b32 \t[%rd4], 7;\n\tld.shared.b32 \t%r10, [%rd4];\n", seven},
	/* one to five rounds of a loop */
	{"\trem.u32 \t%r11, %r2, 5;\n$more:\n\tadd.s32 \t%r10, %r10, 1;\n\tsetp.le.u32 \t%p2, %r10, %r11;\n\t@%p2 bra \t$more;\n" FROM_NEIGHBOUR, rounds},
	/* two ways, the further one first in the text; then one */
	{"\t@%p1 bra \t$odd;\n\tmul.lo.s32 \t%r10, %r2, 5;\n\tbra \t$both;\n$odd:\n\tmul.lo.s32 \t%r10, %r2, 3;\n$both:\n\tadd.s32 \t%r10, %r10, 1;\n" FROM_NEIGHBOUR, sides},
	{"\tbra \t$start;\n$odd:\n\tmul.lo.s32 \t%r10, %r2, 3;\n\tbra \t$both;\n$start:\n\t@%p1 bra \t$odd;\n\tmul.lo.s32 \t%r10, %r2, 5;\n$both:\n\tadd.s32 \t%r10, %r10, 1;\n" FROM_NEIGHBOUR,
	 sides},
	{"\tand.b32 \t%r11, %r2, 3;\n\tand.b32 \t%r12, %r2, 7;\n\tsetp.lt.u32 \t%p2, %r12, 4;\n\t@%p1 bra \t$odd;\n\tmov.b32 \t%r10, 30;\n\t@!%p2 bra \t$both;\n\tmov.b32 \t%r10, 20;\n\tbra \t$both;\n"
	 "$odd:\n\tadd.s32 \t%r10, %r11, 10;\n$both:\n", nested},
	/* half of each warp leaves */
	{"\tand.b32 \t%r11, %r2, 31;\n\tsetp.lt.u32 \t%p2, %r11, 16;\n\t@%p2 ret;\n\tadd.s32 \t%r10, %r2, 1;\n", left},
	{"\tand.b32 \t%r11, %r2, 31;\n\tsetp.lt.u32 \t%p2, %r11, 16;\n\t@%p2 bra \t$end;\n\tadd.s32 \t%r10, %r2, 1;\n\tst.global.b32 \t[%rd6], %r10;\n\tbra \t$end;\n$end:\n\tret;\n", left},
	/* what a thread has asked for itself is there when it has waited, what others have when all have met then */
	{COPY COPIED "\tld.shared.b32 \t%r10, [%rd7];\n", copied}, {COPY COPIED SYNC "\tld.shared.b32 \t%r10, [%rd9];\n", copied_beside},
	{"\tld.shared.b32 \t%r10, [%rd5];\n" SYNC STORE SYNC NEIGHBOUR, neighbour},
};

START_TEST(lanes_meet_again)
{
	uint32_t out[LANES];
	char err[300] = "";
	ck_assert_msg(run(sound[_i].body, out, err, sizeof err) == 0, "%s", err);
	for (uint32_t t = 0; t < LANES; t++)
		ck_assert_msg(out[t] == sound[_i].want(t), "thread %u has %u, not %u", t, out[t], sound[_i].want(t));
}
END_TEST

#define OTHER(thread, ins, did) "workgroup 0 thread " #thread ": " ins ": nothing orders this after another of the warp's threads has " did " there"
#define LOADS "ld.shared.b32 \t%r10, [%rd5]"

static const struct { const char *body, *err; } racing[] = {
	{STORE NEIGHBOUR, OTHER(0, LOADS, "stored")},
	/* an exchange of registers orders no memory (PTX ISA, memory consistency model) */
	{STORE FROM_NEIGHBOUR NEIGHBOUR, OTHER(0, LOADS, "stored")},
	/* each of the lanes that take one way first, then the others */
	{"\t@%p1 bra \t$on;\n" STORE "$on:\n\t@!%p1 bra \t$end;\n" NEIGHBOUR "$end:\n", OTHER(1, LOADS, "stored")},
	{NEIGHBOUR STORE, OTHER(0, "st.shared.b32 \t[%rd4], %r2", "loaded")},
	{"\tst.shared.b32 \t[p], %r2;\n", OTHER(1, "st.shared.b32 \t[p], %r2", "stored something else")},
	{"\tst.shared.b8 \t[%rd4], %r2;\n\tld.shared.b16 \t%r10, [%rd5];\n", OTHER(0, "ld.shared.b16 \t%r10, [%rd5]", "stored")},
	{COPY COPIED "\tld.shared.b32 \t%r10, [%rd9];\n", OTHER(0, "ld.shared.b32 \t%r10, [%rd9]", "stored")},
	{COPY SYNC COPIED "\tld.shared.b32 \t%r10, [%rd9];\n", OTHER(0, "ld.shared.b32 \t%r10, [%rd9]", "stored")},
	{"\tst.global.b32 \t[%rd6], %r2;\n\tld.global.b32 \t%r10, [%rd1+124];\n", OTHER(0, "ld.global.b32 \t%r10, [%rd1+124]", "stored")},
	{"\t@%p1 bar.warp.sync \t0xffffffff;\n", "@%p1 bar.warp.sync \t0xffffffff: a warp's instruction under a predicate"},
	{"\t@%p1 bra \t$on;\n" SYNC "$on:\n", "thread 0: bar.warp.sync \t0xffffffff: the warp's threads are not all here"},
	{"$again:\n\tbra \t$again;\n", "bra \t$again: a thread does not come to an end"},
};

START_TEST(races_are_refused)
{
	uint32_t out[LANES];
	char err[300] = "";
	ck_assert_int_eq(run(racing[_i].body, out, err, sizeof err), -1);
	ck_assert_str_eq(err, racing[_i].err);
}
END_TEST

/* --- products of four warps ------------------------------------------------------------------------------------------------- */

enum { ROWS = 64, DEPTH = 64, STEP = 16, STEPS = DEPTH / STEP, TILE_ROW = 128, EIGHT_ROWS = 8 * TILE_ROW, BLOCK = 64, MOST_COLUMNS = 136 };
enum { TILE = ROWS * TILE_ROW, IMAGE = TILE + (MOST_COLUMNS + BLOCK - 1) / BLOCK * TILE, WARPGROUP = 128, MOST_SUMS = MOST_COLUMNS / 2 };
#define SWIZZLED (1ull << 62)

/* A product of 64 x n, of as many steps as `steps` says, STEPS where it says nothing.  across: A, B; a letter of `does` is a statement (statement_of);
 * begins, bits: added to A's descriptor; signs: of B, 0 = 1. */
struct product { const char *does; int n; bool across[2], words, half, drops; int steps, signs; uint64_t begins, bits; const char *err; };

static int element_of(int operand, int row, int k) { return (row * (operand ? 5 : 3) + k * (operand ? 2 : 7) + row * k) % 7 - 3; }

/* In rows of 128 bytes piece c of row r is the one numbered c ^ (r & 7). */
static int place_of(bool across, int row, int k)
{
	int r = across ? row / BLOCK * DEPTH + k : row, along = across ? row % BLOCK : k;
	return r * TILE_ROW + ((along / 8) ^ (r & 7)) * 16 + along % 8 * 2;
}

static void fill(const struct product *p, uint8_t *image, uint32_t *words)
{
	enum dtype t = p->half ? DT_F16 : DT_BF16;
	for (int o = 0; o < 2; o++)
		for (int row = 0; row < (o ? p->n : ROWS); row++)
			for (int k = 0; k < DEPTH; k++) {
				uint16_t bits = (uint16_t)num_from_f32((float)element_of(o, row, k), t, false);
				memcpy(image + o * TILE + place_of(p->across[o], row, k), &bits, sizeof bits);
			}
	for (int i = 0; i < WARPGROUP * STEPS * 4; i++) {
		int thread = i / (STEPS * 4), step = i / 4 % STEPS, word = i % 4;
		int row = thread / 32 * 16 + thread % 32 / 4 + word % 2 * 8, k = step * STEP + word / 2 * 8 + thread % 4 * 2;
		words[i] = num_from_f32((float)element_of(0, row, k), t, false) | num_from_f32((float)element_of(0, row, k + 1), t, false) << 16;
	}
}

static char *list(struct arena *a, const char *text, const char *name, int n, int at)
{
	char *s = arena_printf(a, "%s{", text);
	for (int k = 0; k < n; k++)
		s = arena_printf(a, "%s%s%s%d", s, k ? "," : "", name, at + k);
	return arena_printf(a, "%s}", s);
}

/* %d: the sums, from one of them on; %a: words of A; %rd10 and %rd11: descriptors. */
static char *products(struct arena *a, const struct product *p, int first)
{
	char *s = arena_printf(a, "%s", "");
	for (int k = 0; k < (p->steps ? p->steps : STEPS); k++) {
		int by[2];
		for (int o = 0; o < 2; o++)
			by[o] = k * (p->across[o] ? STEP * TILE_ROW : 2 * STEP) / 16;
		s = arena_printf(a, "%s\tadd.s64 \t%%rd12, %%rd10, %d;\n\tadd.s64 \t%%rd13, %%rd11, %d;\n", s, by[0], by[1]);
		s = arena_printf(a, "%s\twgmma.mma_async.sync.aligned.m64n%dk16.f32.%s ", s, p->n, p->half ? "f16.f16" : "bf16.bf16");
		s = list(a, s, "%d", p->n / 2, first);
		s = p->words ? list(a, arena_printf(a, "%s, ", s), "%a", 4, 4 * k) : arena_printf(a, "%s, %%rd12", s);
		s = arena_printf(a, "%s, %%rd13, %%p2, 1, %d", s, p->signs ? p->signs : 1);
		s = arena_printf(a, "%s%s, %d;\n", s, p->words ? "" : p->across[0] ? ", 1" : ", 0", p->across[1]);
	}
	return s;
}

static const char *statement_of(struct arena *a, const struct product *p, char letter)
{
	static const struct { char letter; const char *text; } known[] = {
		{'v', "\tfence.proxy.async.shared::cta;\n"}, {'b', "\tbar.sync \t0;\n"}, {'c', "\tcp.async.wait_all;\n"},
		{'F', "\twgmma.fence.sync.aligned;\n"}, {'L', "\twgmma.commit_group.sync.aligned;\n"},
		{'W', "\twgmma.wait_group.sync.aligned 0;\n"}, {'1', "\twgmma.wait_group.sync.aligned 1;\n"}, {'g', "\t@%p1 wgmma.fence.sync.aligned;\n"},
		/* a sum, a word of A, are read and written */
		{'s', "\tmov.b32 \t%r9, %d3;\n"}, {'S', "\tmov.b32 \t%d3, 0;\n"}, {'a', "\tmov.b32 \t%r9, %a3;\n"}, {'A', "\tmov.b32 \t%a3, 0;\n"},
		/* all threads store what is there already; so does one */
		{'o', "\tld.global.b32 \t%r9, [%rd5];\n\tst.shared.b32 \t[%rd4], %r9;\n"},
		{'O', "\tld.global.b32 \t%r9, [%rd2+8192];\n\t@%p1 st.shared.b32 \t[%rd3+8192], %r9;\n"},
		/* each lane has, each warp has, another descriptor */
		{'l', "\tadd.s64 \t%rd10, %rd10, %rd9;\n"}, {'w', "\tshr.u64 \t%rd8, %rd9, 5;\n\tadd.s64 \t%rd10, %rd10, %rd8;\n"},
	};
	char *s = arena_printf(a, "%s", "");
	if (letter == 'P' || letter == 'Q')
		return products(a, p, letter == 'P' ? 0 : 4);
	for (int at = 0; letter == 'C' && at < IMAGE; at += 16 * WARPGROUP)
		s = arena_printf(a, "%s\tcp.async.cg.shared.global \t[%%rd4+%d], [%%rd5+%d], 16, 16;\n", s, at, at);
	for (int at = 0; letter == 'T' && at < IMAGE; at += 16 * WARPGROUP)
		s = arena_printf(a, "%s\tld.global.v4.b32 \t{%%r4, %%r5, %%r6, %%r7}, [%%rd5+%d];\n"
			"\tst.shared.v4.b32 \t[%%rd4+%d], {%%r4, %%r5, %%r6, %%r7};\n", s, at, at);
	for (int r = 0; letter == 'D' && r < p->n / 2; r++)
		s = arena_printf(a, "%s\tst.global.b32 \t[%%rd6+%d], %%d%d;\n", s, 4 * r, r);
	for (unsigned n = 0; n < sizeof known / sizeof *known; n++)
		if (known[n].letter == letter)
			return known[n].text;
	return s;
}

/* %rd1 to %rd3: the result, the tiles, their place; %rd4 to %rd7: the thread's pieces there, of the tiles, its result, its words; %p1: thread 0. */
static char *kernel_of(struct arena *a, const struct product *p)
{
	char *s = arena_printf(a, ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 p[];\n.visible .entry k(\n"
		"\t.param .u64 .ptr .global .align 4 k_param_0,\n\t.param .u64 .ptr .global .align 4 k_param_1,\n\t.param .u64 .ptr .global .align 4 k_param_2\n)\n{\n"
		"\t.reg .pred \t%%p<8>;\n\t.reg .b32 \t%%r<30>;\n\t.reg .b64 \t%%rd<20>;\n\t.reg .b32 \t%%d<128>;\n\t.reg .b32 \t%%a<16>;\n"
		"\t.shared .align 4 .b8 q[4];\n\tld.param.b64 \t%%rd1, [k_param_0];\n\tld.param.b64 \t%%rd2, [k_param_1];\n\tld.param.b64 \t%%rd7, [k_param_2];\n"
		"\tmov.u32 \t%%r2, %%tid.x;\n\tsetp.eq.b32 \t%%p1, %%r2, 0;\n\tcvt.u64.u32 \t%%rd9, %%r2;\n\tmov.b64 \t%%rd3, p;\n"
		"\tmul.wide.u32 \t%%rd8, %%r2, 16;\n\tadd.s64 \t%%rd4, %%rd3, %%rd8;\n\tadd.s64 \t%%rd5, %%rd2, %%rd8;\n"
		"\tmul.wide.u32 \t%%rd8, %%r2, %d;\n\tadd.s64 \t%%rd6, %%rd1, %%rd8;\n\tmul.wide.u32 \t%%rd8, %%r2, %d;\n\tadd.s64 \t%%rd7, %%rd7, %%rd8;\n"
		"\tmov.pred \t%%p2, %d;\n", MOST_SUMS * 4, STEPS * 16, p->drops ? 0 : -1);
	uint64_t form = SWIZZLED | (uint64_t)(TILE / 16) << 16 | (uint64_t)(EIGHT_ROWS / 16) << 32;
	s = arena_printf(a, "%s\tshr.u64 \t%%rd8, %%rd3, 4;\n\tadd.s64 \t%%rd10, %%rd8, %lld;\n\tadd.s64 \t%%rd11, %%rd8, %lld;\n", s,
		(long long)(form + p->begins / 16 + p->bits), (long long)(form + TILE / 16));
	for (int r = 0; r < p->n / 2; r++)
		s = arena_printf(a, "%s\tmov.b32 \t%%d%d, %u;\n", s, r, num_bits((float)r));
	for (int w = 0; w < STEPS * 4; w++)
		s = arena_printf(a, "%s\tld.global.b32 \t%%a%d, [%%rd7+%d];\n", s, w, 4 * w);
	for (const char *letter = p->does; *letter; letter++)
		s = arena_printf(a, "%s%s", s, statement_of(a, p, *letter));
	return arena_printf(a, "%s\tret;\n}\n", s);
}

static int run_product(const struct product *p, uint32_t block, uint32_t *out, char *err, size_t errlen)
{
	static uint8_t image[IMAGE];
	static uint32_t words[WARPGROUP * STEPS * 4];
	struct arena arena = {0};
	fill(p, image, words);
	uint64_t arguments[3] = {(uint64_t)(uintptr_t)out, (uint64_t)(uintptr_t)image, (uint64_t)(uintptr_t)words};
	struct ptx_range memory[3] = {{(uint8_t *)out, WARPGROUP * MOST_SUMS * sizeof *out, true}, {image, sizeof image, false},
	                              {(uint8_t *)words, sizeof words, false}};
	struct ptx_launch l = {.text = kernel_of(&arena, p), .kernel = "k", .grid = {1, 1, 1}, .block = block, .arguments = arguments,
	                       .argument_bytes = sizeof arguments, .memory = memory, .nmemory = 3, .shared = EIGHT_ROWS + IMAGE};
	int failed = ptx_run(&l, err, errlen);
	arena_free(&arena);
	return failed;
}

static const struct product right[] = {
	{.does = "CcvbFPLWD", .n = 24}, {.does = "TvbFPLWD", .n = 8, .half = true}, {.does = "TvbFPLWD", .n = 136}, {.does = "TvbFPLWD", .n = 16, .steps = 3},
	{.does = "TvbFPLWD", .n = 16, .drops = true, .steps = 1},
	{.does = "TvbFPLWD", .n = 136, .across = {false, true}}, {.does = "TvbFPLWD", .n = 40, .across = {true, false}, .half = true},
	{.does = "TvbFPLWD", .n = 72, .across = {true, true}},
	{.does = "TvbFPLWD", .n = 16, .words = true}, {.does = "TvbFPLWD", .n = 72, .words = true, .half = true, .across = {false, true}},
	/* words that products under way have are read; what products have read is stored again behind a barrier */
	{.does = "TvbFPLaWD", .n = 16, .words = true}, {.does = "TvbFPLWboD", .n = 16}, {.does = "TvbFPLWbODvb", .n = 16}, {.does = "TvbbFPLWbODvb", .n = 16},
	/* the first of two lots has been waited for, the other one has not */
	{.does = "TvbFPLQL1sDW", .n = 8},
};

START_TEST(products_are_right)
{
	static uint32_t out[WARPGROUP * MOST_SUMS];
	char err[300] = "";
	const struct product *p = &right[_i];
	ck_assert_msg(run_product(p, WARPGROUP, out, err, sizeof err) == 0, "%s", err);
	for (int row = 0; row < ROWS; row++)
		for (int col = 0; col < p->n; col++) {
			int thread = row / 16 * 32 + row % 8 * 4 + col % 8 / 2, r = col / 8 * 4 + row % 16 / 8 * 2 + col % 2;
			double want = p->drops ? 0 : r, has = num_float(out[thread * MOST_SUMS + r]);
			for (int k = 0; k < (p->steps ? p->steps * STEP : DEPTH); k++)
				want += (double)element_of(0, row, k) * element_of(1, col, k);
			ck_assert_msg(has == want, "row %d column %d: %g, not %g", row, col, has, want);
		}
}
END_TEST

/* Twice the products, in two lots, on one list of sums. */
START_TEST(products_go_on)
{
	static uint32_t once[WARPGROUP * MOST_SUMS], twice[WARPGROUP * MOST_SUMS];
	char err[300] = "";
	ck_assert_msg(run_product(&(struct product){.does = "TvbFPLWD", .n = 16}, WARPGROUP, once, err, sizeof err) == 0, "%s", err);
	ck_assert_msg(run_product(&(struct product){.does = "TvbFPLPL1WD", .n = 16}, WARPGROUP, twice, err, sizeof err) == 0, "%s", err);
	for (int t = 0; t < WARPGROUP; t++)
		for (int r = 0; r < 8; r++) {
			float first = num_float(once[t * MOST_SUMS + r]), second = num_float(twice[t * MOST_SUMS + r]);
			ck_assert_msg(second == 2 * first - (float)r, "thread %d sum %d: %g, then %g", t, r, (double)first, (double)second);
		}
}
END_TEST

#define NAME "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"
#define BEGINS(thread) "workgroup 0 thread " #thread ": " NAME ": "
#define SUM_READ "workgroup 0 thread 96: mov.b32 \t%r9, %d3: operand 2 is a register of products under way"
#define UNFENCED "no wgmma.fence since something else accessed its registers"
#define OVER "workgroup 0 thread 0: @%p1 st.shared.b32 \t[%rd3+8192], %r9: "
#define STRANGE "a descriptor of something else than rows of 128 bytes, swizzled by 128, with no offset of the base"

static const struct product wrong[] = {
	/* accessed before the wait, before that of its lot, in no lot, and never waited for */
	{"TvbFPLsWD", .n = 16, .err = SUM_READ},
	{"TvbFPLSWD", .n = 16, .err = "workgroup 0 thread 96: mov.b32 \t%d3, 0: operand 1 is a register of products under way"},
	{"TvbFPLAWD", .n = 16, .words = true, .err = "workgroup 0 thread 96: mov.b32 \t%a3, 0: operand 1 is a register of products under way"},
	{"TvbFPLPL1sW", .n = 16, .err = SUM_READ},
	{"TvbFPWs", .n = 16, .err = SUM_READ},
	{"TvbFPLQLsW", .n = 8, .err = SUM_READ}, {"TvbFPW", .n = 16, .err = "thread 96: ends, and has not waited for its products"},
	{"TvbFPL", .n = 16, .err = "thread 96: ends, and has not waited for its products"},
	/* other lists of sums that have some of them */
	{"TvbFPQLWD", .n = 16, .err = BEGINS(96) "another product that has one of its registers is under way"},
	/* registers without a fence */
	{"TvbPLW", .n = 16, .err = BEGINS(96) UNFENCED},
	{"TvbFSPLW", .n = 16, .err = BEGINS(96) UNFENCED},
	{"TvbFAPLW", .n = 16, .words = true, .err = BEGINS(96) UNFENCED},
	{"TvbFPLWsPLW", .n = 16, .err = BEGINS(96) UNFENCED},
	/* memory without a fence, with one before it was stored, without a barrier, with one before the fence; on its way */
	{"TbFPLW", .n = 16, .err = BEGINS(96) "shared address 7168: thread 0 has stored there, with no fence.proxy.async since"},
	{"vTbFPLW", .n = 16, .err = BEGINS(96) "shared address 7168: thread 0 has stored there, with no fence.proxy.async since"},
	{"TvFPLW", .n = 16, .err = BEGINS(0) "shared address 1024: thread 0 has stored there, and fenced that behind the last barrier"},
	{"TbvFPLW", .n = 16, .err = BEGINS(96) "shared address 7168: thread 0 has stored there, with no fence.proxy.async since"},
	{"CvbFPLWc", .n = 16, .err = BEGINS(96) "shared address 7168: thread 0 has not waited for what it copies there"},
	{"CcbFPLW", .n = 16, .err = BEGINS(96) "shared address 7168: thread 0 has stored there, with no fence.proxy.async since"},
	/* stored while it is read, and by a warp that does not know that others have read it */
	{"TvbFPLOWD", .n = 16, .err = OVER "products that read this are under way"},
	{"TvbFPLWOD", .n = 16, .err = OVER "no barrier orders this after another warp's products that have read it"},
	{"TvbFPLbOWD", .n = 16, .err = OVER "products that read this are under way"},
	/* descriptors */
	{"TvbFPLWD", .n = 16, .begins = 512, .err = BEGINS(96) "eight rows do not begin at a multiple of 1024"},
	{"TvbFPLWD", .n = 16, .bits = 32ull << 32, .err = BEGINS(96) "eight rows do not begin at a multiple of 1024"},
	{"TvbFPLWD", .n = 16, .begins = 16, .err = BEGINS(96) "reaches over the end of a row of 128 bytes"},
	{"TvbFPLWD", .n = 16, .across = {true, false}, .begins = 32, .err = BEGINS(96) "reaches over the end of a row of 128 bytes"},
	{"TvbFPLWD", .n = 16, .bits = 1ull << 49, .err = BEGINS(96) STRANGE},
	{"TvbFPLWD", .n = 16, .bits = 1ull << 62, .err = BEGINS(96) STRANGE},
	{"TvbFPLWD", .n = 16, .begins = 1 << 16, .err = "thread 96: " NAME ": shared address 72704, there are 33792 bytes"},
	/* lanes, warps that do not go together */
	{"TvblFPLWD", .n = 16, .err = BEGINS(96) "lanes have different descriptors"},
	{"TvbwFPLWD", .n = 16, .steps = 1, .err = "workgroup 0: warps 0 and 1 do not do the same products"},
	{"Tvbg", .n = 16, .err = "@%p1 wgmma.fence.sync.aligned: a warp's instruction under a predicate"},
	/* forms */
	{"TvbFPLWD", .n = 20, .err = "wgmma.mma_async.sync.aligned.m64n20k16.f32.bf16.bf16 "
	 "{%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7,%d8,%d9}, %rd12, %rd13, %p2, 1, 1, 0, 0: not known"},
	{"TvbFPLWD", .n = 16, .signs = -1, .err = NAME ": not in this form"},
};

START_TEST(products_are_refused)
{
	static uint32_t out[WARPGROUP * MOST_SUMS];
	char err[300] = "";
	ck_assert_int_eq(run_product(&wrong[_i], WARPGROUP, out, err, sizeof err), -1);
	ck_assert_str_eq(err, wrong[_i].err);
}
END_TEST

START_TEST(products_are_of_four_warps)
{
	static uint32_t out[WARPGROUP * MOST_SUMS];
	char err[300] = "";
	ck_assert_int_eq(run_product(&right[0], WARPGROUP / 2, out, err, sizeof err), -1);
	ck_assert_str_eq(err, "k: products of four warps in a workgroup with other warps");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lanes of PTX");
	TCase *t = tcase_create("lanes");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, lanes_meet_again, 0, sizeof sound / sizeof *sound);
	tcase_add_loop_test(t, races_are_refused, 0, sizeof racing / sizeof *racing);
	tcase_add_loop_test(t, products_are_right, 0, sizeof right / sizeof *right);
	tcase_add_test(t, products_go_on);
	tcase_add_loop_test(t, products_are_refused, 0, sizeof wrong / sizeof *wrong);
	tcase_add_test(t, products_are_of_four_warps);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
