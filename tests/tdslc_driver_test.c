/* tdslc_driver_test.c -- compile_text: the same pack and messages for any number of threads, choices of kernels, instances and
 * targets, errors once each; what the reports and the generated C say of the result. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../compiler/compile.h"
#include "../compiler/report.h"
#include "../runtime/pack.h"
#include "ir_help.h"

static const char *const all_targets[] = {"gfx942", "gfx950", "sm_90a", NULL};

static const char text[] =
	"# y = a * x\nkernel twice[T: bf16|f16|f32](x: T[N], a: f32 = 2) -> y: T[N]\n{\n    each n in N tiled {\n        y[n] = T(f32(x[n]) * a)\n    }\n}\n"
	"kernel rowsum(x: f32[M, N], res?: f32[M]) -> y: f32[M]\n{\n    each m in M {\n        n = 0..N\n        y[m] = sum(x[m, n] over n)\n    }\n}\n";
static const char broken[] =
	"kernel first[T: bf16|f16](x: T[N]) -> y: T[N]\n{\n    each n in N { y[n] = z[n] }\n}\n"
	"kernel second(x: f32[M, N]) -> y: f32[M]\n{\n    each m in M {\n        n = 0..N\n        y[m] = x[m, n]\n    }\n}\n";

static int compile(const char *source, struct compile_options o, struct compile_result *r)
{
	return compile_text(source, strlen(source), "test.tdsl", &o, r);
}

static int times(const char *hay, const char *needle)
{
	int n = 0;
	for (const char *p = hay; p && (p = strstr(p, needle)); p++)
		n++;
	return n;
}

START_TEST(any_number_of_threads_gives_the_same_bytes)
{
	void *bytes[3];
	size_t size[3];
	const int jobs[3] = {1, 2, 7};
	char err[300] = "";
	for (int i = 0; i < 3; i++) {
		struct compile_result r;
		ck_assert_msg(compile(text, (struct compile_options){.jobs = jobs[i]}, &r) == 0, "%s", r.messages);
		ck_assert_int_eq(pack_write(&r.pack, &bytes[i], &size[i], err, sizeof err), 0);
		compile_result_free(&r);
		ck_assert_uint_eq(size[i], size[0]);
		ck_assert_mem_eq(bytes[i], bytes[0], size[0]);
	}
	for (int i = 0; i < 3; i++)
		free(bytes[i]);
}
END_TEST

/* An awkward call: nothing aligned, no unit strides, no flat views; strides of 100,000 elements. */
static int64_t awkward(void *ctx, enum hexpr_op op, int64_t imm)
{
	(void)ctx;
	(void)imm;
	return op == HX_STRIDE ? 100000 : op == HX_PRESENT;
}

static bool always_applies(const struct hexpr *predicate)
{
	static const int64_t sizes[MODEL_MAX_SYMBOL] = {7, 7, 7, 7, 7, 7, 7, 7};
	struct hexpr_env env = {sizes, MODEL_MAX_SYMBOL, awkward, NULL};
	int64_t holds = 1;
	const char *why;
	return !predicate || (hexpr_eval(predicate, &env, &holds, &why) == 0 && holds);
}

START_TEST(every_instance_has_variants_for_every_target_and_the_last_always_applies)
{
	struct compile_result r;
	ck_assert_msg(compile(text, (struct compile_options){0}, &r) == 0, "%s", r.messages);
	ck_assert_int_eq(r.pack.nkernels, 2);
	const struct model_kernel *k = &r.pack.kernels[0];
	ck_assert_str_eq(k->name, "twice");
	ck_assert_int_eq(k->ninstances, 3);
	for (int i = 0; i < k->ninstances; i++)
		for (int t = 0; t < 2; t++) {
			const struct model_variant *last = NULL;
			for (int v = 0; v < k->nvariants; v++)
				if (k->variants[v].instance == i && !strcmp(k->variants[v].target, t ? "gfx950" : "gfx942"))
					last = &k->variants[v];
			ck_assert_ptr_nonnull(last);
			ck_assert(always_applies(last->predicate));
			ck_assert_str_eq(last->predicate_text, "any");
			ck_assert_double_gt(last->compile_ms, 0);
			ck_assert_int_gt(last->launches[0].vgpr, 0);
			ck_assert_str_eq(r.pack.objects[last->object].target, last->target);
		}
	compile_result_free(&r);
}
END_TEST

START_TEST(choices_narrow_the_pack)
{
	const char *targets[] = {"gfx950", NULL}, *kernels[] = {"twice", NULL}, *instances[] = {"T=f16", NULL};
	struct compile_result r;
	ck_assert_msg(compile(text, (struct compile_options){.targets = targets, .kernels = kernels, .instances = instances}, &r) == 0, "%s", r.messages);
	ck_assert_int_eq(r.pack.nkernels, 1);
	ck_assert_int_eq(r.pack.kernels[0].ninstances, 1);
	ck_assert_str_eq(r.pack.kernels[0].instances[0].name, "T=f16");
	for (int v = 0; v < r.pack.kernels[0].nvariants; v++)
		ck_assert_str_eq(r.pack.kernels[0].variants[v].target, "gfx950");
	compile_result_free(&r);
}
END_TEST

START_TEST(unknown_names_are_errors_that_say_what_there_is)
{
	const char *targets[] = {"gfx90a", NULL}, *kernels[] = {"thrice", NULL}, *instances[] = {"T=i8", NULL};
	struct compile_result r;
	ck_assert_int_eq(compile(text, (struct compile_options){.targets = targets}, &r), -1);
	ck_assert_msg(strstr(r.messages, "\"gfx90a\"") && strstr(r.messages, "gfx942"), "%s", r.messages);
	compile_result_free(&r);
	ck_assert_int_eq(compile(text, (struct compile_options){.kernels = kernels}, &r), -1);
	ck_assert_msg(strstr(r.messages, "\"thrice\"; the file has twice, rowsum"), "%s", r.messages);
	compile_result_free(&r);
	ck_assert_int_eq(compile(text, (struct compile_options){.instances = instances}, &r), -1);
	ck_assert_msg(strstr(r.messages, "\"T=i8\"; the file has T=bf16, T=f16, T=f32\n"), "%s", r.messages);
	compile_result_free(&r);
}
END_TEST

START_TEST(errors_of_all_kernels_are_reported_once_each)
{
	for (int check = 0; check < 2; check++)
		for (int jobs = 1; jobs < 4; jobs++) {
			struct compile_result r;
			ck_assert_int_eq(compile(broken, (struct compile_options){.jobs = jobs, .check = check}, &r), -1);
			ck_assert_int_eq(times(r.messages, "test.tdsl:3:"), 1);
			ck_assert_int_eq(times(r.messages, "test.tdsl:9:"), 1);
			compile_result_free(&r);
		}
}
END_TEST

START_TEST(check_builds_nothing)
{
	struct compile_result r;
	ck_assert_msg(compile(text, (struct compile_options){.check = true}, &r) == 0, "%s", r.messages);
	ck_assert_int_eq(r.pack.nobjects, 0);
	compile_result_free(&r);
}
END_TEST

START_TEST(any_bytes_are_read_without_a_crash)
{
	char bytes[sizeof text];
	for (size_t at = 0; at < sizeof text - 1; at += 3) {
		struct compile_result r;
		memcpy(bytes, text, sizeof text);
		bytes[at] = (char)(at * 37);
		compile_text(bytes, sizeof text - 1, "test.tdsl", &(struct compile_options){.check = true, .jobs = 1}, &r);
		compile_result_free(&r);
		compile_text(text, at, "test.tdsl", &(struct compile_options){.check = true, .jobs = 1}, &r);
		compile_result_free(&r);
	}
}
END_TEST

START_TEST(reports_have_a_row_per_variant)
{
	struct arena a = {0};
	struct compile_result r;
	int variants = 0;
	ck_assert_msg(compile(text, (struct compile_options){0}, &r) == 0, "%s", r.messages);
	for (int k = 0; k < r.pack.nkernels; k++)
		variants += r.pack.kernels[k].nvariants;
	const char *json = report_json(&a, &r.pack, NULL), *table = report_table(&a, &r.pack, NULL);
	static const char *const keys[] = {"kernel", "instance", "target", "variant", "vgpr", "agpr", "sgpr", "lds", "scratch", "spills",
		"waves_per_simd", "object_bytes", "ordered", "barriers", "compile_ms", "loop", "mfma", "acc_moves", "vmcnt0", "bank_conflicts", "clocks", "matrix_share"};
	for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
		char quoted[40];
		snprintf(quoted, sizeof quoted, "\"%s\":", keys[i]);
		ck_assert_int_ge(times(json, quoted), variants);
	}
	ck_assert_int_eq(times(table, "\n"), variants + 1);
	ck_assert_ptr_nonnull(strstr(list_json(&a, &r.pack), "\"name\":\"T=f16\""));
	arena_free(&a);
	compile_result_free(&r);
}
END_TEST

/* Every block of tdsl in the manual is a whole file, and builds for every target. */
START_TEST(manual_builds)
{
	struct arena a = {0};
	const char *open = "\n```tdsl\n", *close = "\n```\n", *manual = ir_help_file(&a, "docs/language.md");
	int n = 0;
	for (const char *at = strstr(manual, open); at; at = strstr(at, open), n++) {
		struct compile_result r;
		const char *end = strstr(at += strlen(open), close);
		ck_assert_ptr_nonnull(end);
		ck_assert_msg(compile_text(at, (size_t)(end + 1 - at), "docs/language.md", &(struct compile_options){.targets = all_targets}, &r) == 0, "%s", r.messages);
		compile_result_free(&r);
	}
	ck_assert_int_ge(n, 8);
	arena_free(&a);
}
END_TEST

/* Rows are taken by 64 for the sake of s alone: without it any number of rows is whole, sums over another axis or not. */
START_TEST(rows_are_apart_where_their_sums_are_absent)
{
	static const char grouped[] = "kernel g(x: f32[M, N], b: f32[M, N]) -> (y: f32[M, N], r: f32[M, cdiv(N, 32)], s?: f32[cdiv(M, 64), N])\n"
		"{\n    each m in M by 64, n in N by 32 {\n        j = 0..16\n        t = sum(x[m, n] * f32(j) over j)\n        y[m, n] = t\n"
		"        r[m, n/32] = sum(b[m, n] over n)\n        s[m/64, n] = max(t over m)\n    }\n}\npack { g: with }\n";
	struct compile_result r;
	int rows_whole = 0;
	ck_assert_msg(compile(grouped, (struct compile_options){0}, &r) == 0, "%s", r.messages);
	for (int v = 0; v < r.pack.kernels[0].nvariants; v++)
		rows_whole += strcmp(r.pack.kernels[0].variants[v].predicate_text, "N%32=0 aligned bare") == 0;
	ck_assert_int_eq(rows_whole, 2);
	compile_result_free(&r);
}
END_TEST

/* The epilogue of product_join holds more than the planned tiles leave room for: smaller ones are built.  A schedule's own are kept. */
START_TEST(tiles_that_do_not_fit_are_made_smaller)
{
	static const char schedule[] = "schedule product_join {\n    any: m 256, n 256, waves 4\n}\n";
	struct arena a = {0};
	struct compile_result r;
	const char *user = ir_help_file(&a, "tests/e2e_user.tdsl");
	ck_assert_msg(compile(user, (struct compile_options){.targets = all_targets}, &r) == 0, "%s", r.messages);
	compile_result_free(&r);
	ck_assert_int_ne(compile(arena_printf(&a, "%s%s", user, schedule), (struct compile_options){0}, &r), 0);
	ck_assert_msg(strstr(r.messages, "aligned: product_join needs 73728 bytes of LDS, gfx942 has 65536"), "%s", r.messages);
	compile_result_free(&r);
	arena_free(&a);
}
END_TEST

START_TEST(generated_functions_take_inputs_scalars_outputs)
{
	struct arena a = {0};
	struct compile_result r;
	ck_assert_msg(compile(text, (struct compile_options){0}, &r) == 0, "%s", r.messages);
	const char *h = binding_header(&a, &r.pack, "out/my-kernels.h"), *c = binding_source(&a, &r.pack, "out/my-kernels.h");
	ck_assert_msg(strstr(h, "#ifndef TDSL_GENERATED_MY_KERNELS_H") && strstr(h, "extern \"C\"") && strstr(h, "y = a * x"), "%s", h);
	ck_assert_ptr_nonnull(strstr(h, "int twice(tdsl_stream stream, const DLTensor *x, float a, DLTensor *y);"));
	ck_assert_ptr_nonnull(strstr(h, "int rowsum(tdsl_stream stream, const DLTensor *x, const DLTensor *res, DLTensor *y);"));
	ck_assert_ptr_nonnull(strstr(h, "may be NULL"));
	ck_assert_msg(strstr(c, "#include \"my-kernels.h\"") && strstr(c, "{\"twice\", \"TfT\", NULL, 0, NULL}") && strstr(c, "\"T?T\""), "%s", c);
	arena_free(&a);
	compile_result_free(&r);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("tdslc_driver");
	TCase *c = tcase_create("driver");
	tcase_set_timeout(c, 600);
	tcase_add_test(c, any_number_of_threads_gives_the_same_bytes);
	tcase_add_test(c, every_instance_has_variants_for_every_target_and_the_last_always_applies);
	tcase_add_test(c, choices_narrow_the_pack);
	tcase_add_test(c, unknown_names_are_errors_that_say_what_there_is);
	tcase_add_test(c, errors_of_all_kernels_are_reported_once_each);
	tcase_add_test(c, check_builds_nothing);
	tcase_add_test(c, any_bytes_are_read_without_a_crash);
	tcase_add_test(c, reports_have_a_row_per_variant);
	tcase_add_test(c, manual_builds);
	tcase_add_test(c, rows_are_apart_where_their_sums_are_absent);
	tcase_add_test(c, tiles_that_do_not_fit_are_made_smaller);
	tcase_add_test(c, generated_functions_take_inputs_scalars_outputs);
	suite_add_tcase(suite, c);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
