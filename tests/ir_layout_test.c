/* ir_layout_test.c -- layout algebra against brute force: every register, lane and wave is visited. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../compiler/layout.h"

static const char *const names[LAYOUT_AXES] = {"m", "n", "k", "n.o", "a4", "a5", "a6", "a7", "a8", "a9", "a10", "a11", "a12", "a13", "a14", "a15"};
static struct arena arena;
static void setup(void) { memset(&arena, 0, sizeof arena); }
static void teardown(void) { arena_free(&arena); }

static const struct layout *parse(const char *text)
{
	const char *at = NULL;
	const struct layout *l = layout_parse(&arena, text, names, LAYOUT_AXES, &at);
	ck_assert_msg(l != NULL, "'%s' fails at '%s'", text, at);
	return l;
}

static const char *const samples[] = {
	"", "reg n:1 n:2 n:4 | lane n:8 n:16 n:32 n:64 n:128 n:256 | wave n:512 n:1024 | rep n:2",
	"reg n:1 m:1 | lane n:2 n:4 m:2 0 | wave 0 | rep m:3 n:2",             /* 96-like repeats, copies */
	"reg k:1 k:2 | lane m:1 m:2 m:4 m:8 k:4 k:8 | rep m:2 k:3",            /* the operand of a matrix instruction */
	"reg m:1+n:1 n:2 | lane m:1 m:2+n:4 n:4",                              /* exclusive or of two axes */
	"lane m:1 m:2 | wave n:1 | rep n:5",
	"reg n.o:1 n:1 n:2 m:1 | lane n:4 | rep m:2 n.o:2",
};
enum { SAMPLES = sizeof samples / sizeof *samples };

START_TEST(text_is_kept)
{
	for (int i = 0; i < SAMPLES; i++)
		ck_assert_str_eq(layout_text(&arena, parse(samples[i]), names), samples[i]);
	ck_assert_str_eq(layout_text(&arena, parse("reg n:1 | block n:8"), names), "reg n:1 | block n:8");
	ck_assert(!layout_covers(parse("reg n:1 | block n:8")));
}
END_TEST

START_TEST(bad_text_is_refused)
{
	static const char *const bad[] = {"reg q:1", "reg n", "reg n:0", "reg n:70000", "regs n:1", "reg n:1 |", "reg n:1 | what n:2", "n:1", "lane n:1 n:2 n:4 n:8 n:16 n:32 n:64 n:128 n:256", "reg n:1+", "rep n:-2"};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		const char *at = NULL;
		ck_assert_msg(layout_parse(&arena, bad[i], names, LAYOUT_AXES, &at) == NULL, "'%s' is accepted", bad[i]);
	}
}
END_TEST

/* Flat position of a coordinate inside the tile; -1 outside. */
static int flat(const struct layout *l, const int c[LAYOUT_AXES])
{
	int at = 0;
	for (int a = 0; a < LAYOUT_AXES; a++) {
		if (c[a] < 0 || c[a] >= layout_size(l, a))
			return -1;
		at = at * layout_size(l, a) + c[a];
	}
	return at;
}

START_TEST(covering_layouts_hold_each_element_equally_often)
{
	for (int i = 0; i < SAMPLES; i++) {
		const struct layout *l = parse(samples[i]);
		int total = 1, held = layout_regs(l) << l->nlane << l->nwave, c[LAYOUT_AXES];
		for (int a = 0; a < LAYOUT_AXES; a++)
			total *= layout_size(l, a);
		int *seen = calloc((size_t)total, sizeof *seen);
		for (int r = 0; r < layout_regs(l); r++)
			for (int t = 0; t < 1 << l->nlane; t++)
				for (int w = 0; w < 1 << l->nwave; w++) {
					layout_coord(l, r, t, w, c);
					if (flat(l, c) < 0)
						ck_abort_msg("%s: register %d is outside", samples[i], r);
					seen[flat(l, c)]++;
				}
		ck_assert_msg(layout_covers(l), "%s", samples[i]);
		for (int e = 0; e < total; e++)
			if (seen[e] != held / total)
				ck_abort_msg("%s: element %d is held %d times", samples[i], e, seen[e]);
		free(seen);
	}
	ck_assert(!layout_covers(parse("reg n:1 n:1")));
	ck_assert(!layout_covers(parse("reg n:1 n:2 n:2+n:1")));
	ck_assert(!layout_covers(parse("reg n:2")));
}
END_TEST

START_TEST(projection_drops_axes_and_merges_registers)
{
	for (int i = 0; i < SAMPLES; i++)
		for (uint32_t without = 0; without < 16; without++) {
			const struct layout *l = parse(samples[i]);
			int *map = calloc((size_t)layout_regs(l), sizeof *map), c[LAYOUT_AXES], d[LAYOUT_AXES];
			struct layout *p = layout_project(&arena, l, without, map);
			ck_assert_int_eq(p->nlane, l->nlane);
			for (int r = 0; r < layout_regs(l); r++)
				for (int t = 0; t < 1 << l->nlane; t++)
					for (int w = 0; w < 1 << l->nwave; w++) {
						layout_coord(l, r, t, w, c);
						layout_coord(p, map[r], t, w, d);
						bool same = map[r] < layout_regs(p);
						for (int a = 0; a < LAYOUT_AXES; a++)
							same = same && d[a] == (without >> a & 1 ? 0 : c[a]);
						if (!same)
							ck_abort_msg("%s without %#x: register %d", samples[i], without, r);
					}
			if (!strchr(samples[i], '+'))
				ck_assert(layout_covers(p));
			ck_assert(without || layout_equal(p, l));
			free(map);
		}
}
END_TEST

START_TEST(vector_runs)
{
	ck_assert_int_eq(layout_vector(parse(samples[1]), 1), 3);
	ck_assert_int_eq(layout_vector(parse(samples[1]), 0), 0);
	ck_assert_int_eq(layout_vector(parse(samples[3]), 2), 2);
	ck_assert_int_eq(layout_vector(parse("reg n:1 m:1 n:2"), 1), 1);
	ck_assert_int_eq(layout_vector(parse("reg n:2 n:1"), 1), 0);
	ck_assert_int_eq(layout_vector(parse("reg n:1 n:2 | lane n:4+n:2"), 1), 1);
}
END_TEST

/* The same elements in the same lanes, those along the axis side by side as far as their steps go up from one; else nothing. */
START_TEST(runs_come_first)
{
	static const struct { const char *from, *to; int axis; } cases[] = {
		{"reg n:1 n:2 n:4 m:1 m:2 | lane m:4", "reg m:1 m:2 n:1 n:2 n:4 | lane m:4", 0},
		{"reg n:1 m:2 n:2 m:1 | wave m:4 | rep m:2", "reg m:1 m:2 n:1 n:2 | wave m:4 | rep m:2", 0},
		{"reg n:1 m:1 n:2 m:4 | lane m:2", "reg m:1 n:1 n:2 m:4 | lane m:2", 0},
		{"reg n:1 n:2 m:1", NULL, 1}, {"reg n:1 n:2 | lane m:1", NULL, 0}, {"reg n:1 m:2 | lane m:1", NULL, 0}, {"reg n:1 m:1+n:2", NULL, 0}, {"", NULL, 0},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct layout *l = layout_run_first(&arena, parse(cases[i].from), cases[i].axis);
		ck_assert_msg(!l == !cases[i].to, "%s", cases[i].from);
		if (l)
			ck_assert_str_eq(layout_text(&arena, l, names), cases[i].to);
	}
}
END_TEST

/* What lies behind a run of two or four in a lane goes to the lanes that came last along the axis; nothing where none are, or no lane holds more. */
START_TEST(lanes_lie_beside_each_other)
{
	static const struct { const char *from, *to; int run; } cases[] = {
		{"reg n:1 n:2 n:4 | lane n:8 n:16 n:32", "reg n:1 n:2 n:32 | lane n:8 n:16 n:4", 4},
		{"reg n:1 n:2 n:4 n:8 m:1 | lane n:16 n:32 n:64 | wave n:128", "reg n:1 n:2 n:64 n:32 m:1 | lane n:16 n:8 n:4 | wave n:128", 4},
		{"reg n:1 n:2 n:4 n:64 | lane n:8 n:16 m:1 | wave n:32", "reg n:1 n:16 n:8 n:64 | lane n:4 n:2 m:1 | wave n:32", 2},
		{"reg n:1 n:2 | lane n:4 n:8", NULL, 4}, {"reg n:1 n:2 n:4 | lane m:1 m:2 | wave n:8", NULL, 4}, {"reg n:1 n:2 n:4 n:8 | lane n:16", NULL, 4},
		{"reg m:1 n:1 | lane n:2", NULL, 1},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct layout *l = layout_beside(&arena, parse(cases[i].from), 1, cases[i].run);
		ck_assert_msg(!l == !cases[i].to, "%s", cases[i].from);
		if (!l)
			continue;
		ck_assert_str_eq(layout_text(&arena, l, names), cases[i].to);
		ck_assert(layout_covers(l));
	}
}
END_TEST

START_TEST(k_order_is_register_run_then_lanes_then_the_rest)
{
	int order[64];
	const struct layout *mfma = parse(samples[3]);
	ck_assert_int_eq(layout_k_order(mfma, 2, 4, order), 48);
	for (int i = 0; i < 48; i++)
		ck_assert_int_eq(order[i], i);
	/* accumulators fed back as operands, lanes step by 4, a further register bit by 16: an instruction that takes 4 of a lane goes
	 * up in order; one that takes 8 has 0..3 and 16..19 of lane group 0 first */
	const struct layout *fed = parse("reg k:1 k:2 k:16 | lane k:4 k:8");
	ck_assert_int_eq(layout_k_order(fed, 2, 4, order), 32);
	for (int i = 0; i < 32; i++)
		ck_assert_int_eq(order[i], i);
	ck_assert_int_eq(layout_k_order(fed, 2, 8, order), 32);
	for (int i = 0; i < 32; i++)
		ck_assert_int_eq(order[i], i % 4 + i / 4 % 2 * 16 + i / 8 * 4);
	static const int crossed[8] = {0, 4, 2, 6, 1, 5, 3, 7};   /* lane bits in their order, then the register */
	ck_assert_int_eq(layout_k_order(parse("reg m:1 | lane k:4 k:2 | rep m:2 k:2"), 2, 1, order), -1);
	ck_assert_int_eq(layout_k_order(parse("lane k:4 k:2 k:1"), 2, 1, order), 8);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(order[i], crossed[i]);
	ck_assert_int_eq(layout_k_order(parse("reg k:1 | wave k:2"), 2, 1, order), -1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ir_layout");
	TCase *c = tcase_create("layouts");
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, text_is_kept);
	tcase_add_test(c, bad_text_is_refused);
	tcase_add_test(c, covering_layouts_hold_each_element_equally_often);
	tcase_add_test(c, projection_drops_axes_and_merges_registers);
	tcase_add_test(c, vector_runs);
	tcase_add_test(c, runs_come_first);
	tcase_add_test(c, lanes_lie_beside_each_other);
	tcase_add_test(c, k_order_is_register_run_then_lanes_then_the_rest);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
