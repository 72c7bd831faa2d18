/* pass_rows_test.c -- what passes make of what rows leave beside them: one number that all raise, and their transpose.
 * In: tests/ir/updates.ir and across.ir with edits.  Checked: in which form the passes leave them, where they are to leave them as they are, and that the
 * IR computes what it did, of rows that end within a tile. */
#include "pass_help.h"

#include <check.h>
#include <string.h>

/* --- one number that all raise ------------------------------------------------------------------------------------------------ */

struct raised { int parts, seen, branches, updates; };

static void note_raised(struct ir_ins *i, void *ctx)
{
	struct raised *r = ctx;
	r->parts += i->op == IR_REDUCE && i->flags & IR_PART;
	r->seen += i->op == IR_LOAD && i->flags & IR_RELAXED;
	r->branches += i->op == IR_IF;
	r->updates += i->op == IR_UPDATE && i->flags & IR_MASKED;
}

/* Given or asked for.  One update by the largest of a workgroup's rows, if it raises what the workgroup found; of a single row that alone.  Left as they
 * are: a sum, a place for each row; what is found at a place that is computed is not asked, nor by variants of any shape. */
static const struct { const char *what; struct pass_edit edits[2]; bool given; struct raised left; bool any; } raisings[] = {
	{"the largest", {{0}}, true, {1, 1, 0, 1}, false},
	{"the largest, perhaps", {{0}}, false, {1, 1, 1, 1}, false},
	{"the smallest", {{"update max", "update min"}, {"reduce max anyorder over n %8", "reduce min anyorder over n %7"}}, true, {1, 1, 0, 1}, false},
	{"elements", {{"= %9 if %2", "= %8 if %6"}}, true, {1, 1, 0, 1}, false},
	{"of one row", {{"grid tile 4", "grid tile 1"}}, false, {0, 1, 0, 1}, false},
	{"of any shape", {{0}}, true, {1, 0, 0, 0}, true},
	{"a sum", {{"update max", "update sum"}}, true, {0, 0, 0, 1}, false},
	{"each row's", {{"max top[%10]", "max each[%0]"}}, true, {0, 0, 0, 1}, false},
	{"at a place that is computed", {{"%10 = const 0 : i32", "%10 = sub %1, %1 : i32"}}, true, {1, 0, 0, 0}, false},
};
enum { RAISINGS = sizeof raisings / sizeof *raisings };

START_TEST(one_number_is_updated_once)
{
	struct raised r = {0};
	struct arena a = {0};
	struct ir_run run;
	struct ir_kernel *k;
	struct variant v = {.target = target_by_name("gfx942"), .text = "any", .waves = 1, .aligned = !raisings[_i].any, .given = raisings[_i].given ? 4 : 0};
	double *want[PASS_PARAMS] = {0};
	pass_begin_edited(&a, &run, "updates", raisings[_i].edits, raisings[_i].what, want);
	ck_assert_msg(run_passes(&a, run.k, &v, "parts", &k, run.err, sizeof run.err) == 0, "%s: %s", raisings[_i].what, run.err);
	ir_walk(k->phases[0].body, note_raised, &r);
	ck_assert_msg(memcmp(&r, &raisings[_i].left, sizeof r) == 0, "%s: %d parts, %d seen, %d branches, %d updates under a mask", raisings[_i].what, r.parts, r.seen, r.branches, r.updates);
	pass_end_edited(&a, &run, k, raisings[_i].what, want);
}
END_TEST

/* --- rows stored across as well ------------------------------------------------------------------------------------------------- */

/* Which tensors a call has, and in how large clusters: there rows are those of tiles, and one launch stores both ways.  Else rows and their transpose are
 * stored by two launches, or by one as before, where what is stored across is not known to be wanted, is another value than any row's, or one of a tensor
 * that may be absent, or is stored here and there alone; where there are two of them, or rows are stored twice; where nothing is reduced, so that tiles
 * need no rows.  The largest of all rows is that of rows that are there. */
enum { YT = 4, Z = 8, TOP = 16 };
static const struct { const char *what; struct pass_edit edits[2]; int given, phases, cluster; } crossings[] = {
	{"both", {{0}}, YT, 2, 0},
	{"both, in clusters", {{0}}, YT, 1, 2},
	{"and another, in clusters", {{0}}, YT | Z, 1, 4},
	{"and the largest of all, in clusters", {{0}}, YT | Z | TOP, 1, 2},
	{"and the smallest of all, in clusters", {{"reduce max anyorder over n %21", "reduce min anyorder over n %4"}, {"update max", "update min"}}, YT | TOP, 1, 2},
	{"and the largest of all, of whole rows, in clusters", {{"= %22 if %12", "= %22"}}, YT | TOP, 1, 2},
	{"and another", {{0}}, YT | Z, 2, 0},
	{"and the largest of all", {{0}}, YT | TOP, 2, 0},
	{"not known", {{0}}, 0, 1, 0},
	{"another value", {{"store yt[%1, %0] = %8", "store yt[%1, %0] = %10"}}, YT, 1, 0},
	{"a value of what may be absent", {{"store yt[%1, %0] = %8", "store yt[%1, %0] = %10"}}, YT | Z, 2, 0},
	{"two of them", {{"store z[%0, %1] = %10", "store yt[%1, %0] = %10"}}, YT, 1, 0},
	{"here and there across", {{"store yt[%1, %0] = %8 if %13", "%14 = lt %0, %1 : i1[m, n]\n    %15 = and %13, %14 : i1[m, n]\n    store yt[%1, %0] = %8 if %15"}}, YT, 1, 0},
	{"here and there along", {{"store y[%0, %1] = %8 if %13", "%14 = lt %0, %1 : i1[m, n]\n    %15 = and %13, %14 : i1[m, n]\n    store y[%0, %1] = %8 if %15"}}, YT, 1, 0},
	{"rows are stored twice", {{"store z[%0, %1] = %10", "store y[%0, %1] = %10"}}, YT, 1, 0},
	{"nothing is reduced", {{"%6 = reduce max anyorder over n %5 if %3 : f32[m]", "%6 = cvt %2 : f32"},
		{"%22 = reduce max anyorder over n %21 if %3 : f32[m]", "%22 = cvt %2 : f32"}}, YT, 1, 0},
};
enum { CROSSINGS = sizeof crossings / sizeof *crossings };

/* What is updated by rows may be by parts of them: the largest or the smallest of all in one place, which nobody reads. */
static const struct { const char *what; struct pass_edit edits[2]; bool by_parts; } updates[] = {
	{"the largest", {{0}}, true},
	{"a sum", {{"reduce max anyorder over n %21", "reduce sum anyorder over n %21"}, {"update max", "update sum"}}, false},
	{"the largest of the smallest", {{"reduce max anyorder over n %21", "reduce min anyorder over n %21"}}, false},
	{"what is no row's largest", {{"= %22 if %12", "= %21 if %13"}}, false},
	{"each row's", {{"inout? top: f32[1]", "inout? top: f32[M]"}, {"top[%23]", "top[%0]"}}, false},
	{"what is read as well", {{"update max top[%23] = %22 if %12", "%24 = load top[%23] : f32\n    %25 = cvt %24 : bf16\n    store z[%0, %1] = %25 if %13\n    update max top[%23] = %22 if %12"}}, false},
};
enum { UPDATES = sizeof updates / sizeof *updates };

START_TEST(parts_of_rows_update)
{
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	struct variant v = {.target = target_by_name("sm_90a"), .text = "any", .given = YT | Z | TOP, .cluster = 2};
	pass_open_edited(&a, &r, "across", updates[_i].edits);
	bool fused = run_passes(&a, r.k, &v, "fuse", &k, r.err, sizeof r.err) == 0;
	ck_assert_msg(fused == updates[_i].by_parts && (fused || strstr(r.err, "is no norm of rows")), "%s: %s", updates[_i].what, r.err);
	ir_run_close(&r);
	arena_free(&a);
}
END_TEST

static void note_across(struct ir_ins *i, void *ctx)
{
	*(int *)ctx += i->op == IR_STORE && i->args[0]->axes == IR_AXIS(1);
}

START_TEST(rows_are_turned_by_tiles)
{
	struct arena a = {0};
	struct ir_run r;
	struct ir_kernel *k;
	struct variant v = {.target = target_by_name("gfx942"), .text = "any", .given = (uint64_t)crossings[_i].given, .cluster = crossings[_i].cluster};
	double *want[PASS_PARAMS] = {0};
	int across = 0;
	pass_begin_edited(&a, &r, "across", crossings[_i].edits, crossings[_i].what, want);
	ck_assert_msg(run_passes(&a, r.k, &v, v.cluster ? "fuse" : "across", &k, r.err, sizeof r.err) == 0, "%s: %s", crossings[_i].what, r.err);
	ir_walk(k->phases[0].body, note_across, &across);
	bool as_said = v.cluster ? k->phases[0].axes[2].cluster == v.cluster : (k->nphases == 1) == (across > 0);
	ck_assert_msg(k->nphases == crossings[_i].phases && as_said, "%s: %d launches, %d stores across by the first", crossings[_i].what, k->nphases, across);
	pass_end_edited(&a, &r, k, crossings[_i].what, want);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rows behind passes");
	TCase *t = tcase_create("results");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, one_number_is_updated_once, 0, RAISINGS);
	tcase_add_loop_test(t, parts_of_rows_update, 0, UPDATES);
	tcase_add_loop_test(t, rows_are_turned_by_tiles, 0, CROSSINGS);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
