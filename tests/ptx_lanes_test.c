/* ptx_lanes_test.c -- what the interpreter of PTX makes of the lanes of a warp.
 *
 * In: texts written here.  Checked: lanes that part, go round a loop as often as each wants, leave, and meet again compute what each would by itself;
 * what a lane stores another one reads behind what orders the two, and is refused where nothing does, which a chip need not notice.  Of clusters:
 * nvptx_test.c. */
#include "ptx_run.h"

#include "../base/arena.h"

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

int main(void)
{
	Suite *s = suite_create("lanes of PTX");
	TCase *t = tcase_create("lanes");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, lanes_meet_again, 0, sizeof sound / sizeof *sound);
	tcase_add_loop_test(t, races_are_refused, 0, sizeof racing / sizeof *racing);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
