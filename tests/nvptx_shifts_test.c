/* nvptx_shifts_test.c -- sm_90a: PTX is written as ptxas assembles it rightly (compiler/object_shifts.c).
 *
 * In: texts as LLVM writes them, the first of them the least that ptxas 12.4 to 13.5 gets wrong: the rows of two tensors of 2 bytes lie at s[2] and s[3] times
 * the wave's number, and it multiplies by twice that.  Checked: which shifts are written as funnel shifts, kernel by kernel; that
 * what is left of them is refused by what interprets PTX, and the rest computed by it; texts that are cut off. */
#include "../compiler/object_code.h"
#include "ptx_code.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 4 };

static struct arena arena;

/* A kernel that stores the wave's number to a byte of each of four tensors, (s * wave << by[i]) + (lane << by[i]) behind its start. */
static char *kernel_text(const char *name, const int by[TENSORS])
{
	char *text = arena_printf(&arena, "\n.visible .entry %s(", name);
	for (int i = 0; i < TENSORS; i++)
		text = arena_printf(&arena, "%s%s\n\t.param .u64 p%d,\n\t.param .u32 s%d", text, i ? "," : "", i, i);
	text = arena_printf(&arena, "%s\n)\n.reqntid 64\n{\n\t.reg .b16 \t%%rs<3>;\n\t.reg .b32 \t%%r<60>;\n\t.reg .b64 \t%%rd<60>;\n"
	                    "\tmov.u32 \t%%r0, %%tid.x;\n\tshr.u32 \t%%r1, %%r0, 5;\n\tand.b32 \t%%r2, %%r0, 31;\n\tcvt.u16.u32 \t%%rs1, %%r1;\n", text);
	for (int i = 0; i < TENSORS; i++)
		text = arena_printf(&arena, "%s\tld.param.b64 \t%%rd%d, [p%d];\n\tld.param.b32 \t%%r1%d, [s%d];\n\tmul.lo.s32 \t%%r2%d, %%r1%d, %%r1;\n\tshl.b32 \t%%r3%d, %%r2%d, %d;\n"
		                    "\tshl.b32 \t%%r5%d, %%r2, %d;\n\tadd.s32 \t%%r4%d, %%r3%d, %%r5%d;\n\tcvt.u64.u32 \t%%rd1%d, %%r4%d;\n\tadd.s64 \t%%rd2%d, %%rd%d, %%rd1%d;\n"
		                    "\tst.global.b8 \t[%%rd2%d], %%rs1;\n",
		                    text, i, i, i, i, i, i, i, i, by[i], i, by[i], i, i, i, i, i, i, i, i, i);
	return arena_printf(&arena, "%s\tret;\n\n}\n", text);
}

static char *text_of(const char *first, const char *second)
{
	return arena_printf(&arena, ".version 8.4\n.target sm_90a\n.address_size 64\n%s%s", first, second);
}

static char *as_assembled(const char *text)
{
	size_t n = strlen(text);
	char *out = object_shifts(strdup(text), &n);
	ck_assert_ptr_nonnull(out);
	ck_assert_uint_eq(strlen(out), n);
	char *kept = arena_printf(&arena, "%s", out);
	free(out);
	return kept;
}

static int count(const char *text, const char *what)
{
	int n = 0;
	for (const char *at = text; (at = strstr(at, what)); at++)
		n++;
	return n;
}

static const int several[TENSORS] = {2, 2, 1, 1}, one[TENSORS] = {1, 1, 1, 1}, other[TENSORS] = {2, 2, 2, 2};

START_TEST(products_shifted_by_several_amounts)
{
	char *text = text_of(kernel_text("k", several), ""), *out = as_assembled(text);
	ck_assert_int_eq(count(out, "\tshf.l.wrap.b32 \t%r32, 0, %r22, 1;\n"), 1);
	ck_assert_int_eq(count(out, "\tshf.l.wrap.b32 "), TENSORS);
	ck_assert_int_eq(count(out, "\tshl.b32 "), TENSORS);                      /* the lane's, which is no product */
	ck_assert_int_eq(count(out, "\n"), count(text, "\n"));
}
END_TEST

START_TEST(products_shifted_by_one_amount)
{
	const char *text = text_of(kernel_text("k", one), kernel_text("l", other));
	ck_assert_str_eq(as_assembled(text), text);
}
END_TEST

START_TEST(each_kernel_by_itself)
{
	char *first = kernel_text("k", one), *out = as_assembled(text_of(first, kernel_text("l", several)));
	ck_assert_int_eq(count(out, "\tshf.l.wrap.b32 "), TENSORS);
	ck_assert_ptr_nonnull(strstr(out, first));
}
END_TEST

START_TEST(texts_that_end_anywhere)
{
	const char *text = text_of(kernel_text("k", several), "");
	for (size_t n = 0; n <= strlen(text); n++)
		as_assembled(arena_string(&arena, text, n));
}
END_TEST

START_TEST(interpreted)
{
	char err[300] = "";
	struct code c = {.err = err, .errlen = sizeof err}, d = {.err = err, .errlen = sizeof err};
	char *text = text_of(kernel_text("k", several), "");
	ck_assert(!ptx_read(&c, text, "k"));
	ck_assert_msg(strstr(err, "one amount for another") != NULL, "%s", err);
	ck_assert_msg(ptx_read(&d, as_assembled(text), "k"), "%s", err);
	arena_free(&c.arena);
	arena_free(&d.arena);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("nvptx shifts");
	TCase *t = tcase_create("text");
	tcase_add_test(t, products_shifted_by_several_amounts);
	tcase_add_test(t, products_shifted_by_one_amount);
	tcase_add_test(t, each_kernel_by_itself);
	tcase_add_test(t, texts_that_end_anywhere);
	tcase_add_test(t, interpreted);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	arena_free(&arena);
	return failed > 0;
}
