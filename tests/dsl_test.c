/* dsl_test.c -- the front end's texts: messages, printed IR, signatures, and what hostile bytes do.
 *
 * tests/dsl/NAME.tdsl elaborates to NAME.ir (rows.ast is its tree); tests/dsl/errors/NAME.tdsl gives exactly the messages in NAME.err, and a file
 * named after a message's id gives that message.  With BLESS set the golden files are written. */
#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsl_help.h"

/* --- golden files */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Names without ".tdsl" in a folder, sorted. */
static int names_in(struct arena *ar, const char *folder, char **names, int most)
{
	DIR *dir = opendir(folder);
	int n = 0;
	ck_assert_msg(dir != NULL, "no folder %s", folder);
	for (struct dirent *e; (e = readdir(dir)) && n < most;) {
		size_t len = strlen(e->d_name);
		if (len > 5 && strcmp(e->d_name + len - 5, ".tdsl") == 0)
			names[n++] = arena_string(ar, e->d_name, len - 5);
	}
	closedir(dir);
	qsort(names, (size_t)n, sizeof *names, by_name);
	return n;
}

static void compare(struct arena *ar, const char *path, const char *found)
{
	ir_help_bless(path, found);
	const char *want = ir_help_file(ar, path);
	size_t same = 0, line = 1;
	while (want[same] && want[same] == found[same])
		line += want[same++] == '\n';
	ck_assert_msg(want[same] == found[same], "%s:%zu differs from what was found:\n%.300s", path, line, found + same);
}

START_TEST(golden_ir)
{
	struct arena ar = {0};
	char *names[64];
	int n = names_in(&ar, "tests/dsl", names, 64);
	for (int i = 0; i < n; i++) {
		struct diag d;
		char *path = arena_printf(&ar, "tests/dsl/%s.tdsl", names[i]), *text = ir_help_file(&ar, path), *ir;
		ck_assert_msg(dsl_help_all(&ar, text, strlen(text), path, &d, &ir) == 0, "%s", diag_text(&d));
		compare(&ar, arena_printf(&ar, "tests/dsl/%s.ir", names[i]), ir);
	}
	arena_free(&ar);
}
END_TEST

START_TEST(golden_tree)
{
	struct arena ar = {0};
	struct diag d = {.arena = &ar};
	struct dsl_file *f;
	char *text = ir_help_file(&ar, "tests/dsl/rows.tdsl"), *dump = "";
	ck_assert_int_eq(dsl_parse(&ar, text, strlen(text), "rows.tdsl", NULL, NULL, &d, &f), 0);
	for (int i = 0; i < f->nkernels; i++)
		dump = arena_printf(&ar, "%s%s", dump, dsl_dump(&ar, f, &f->kernels[i]));
	compare(&ar, "tests/dsl/rows.ast", dump);
	arena_free(&ar);
}
END_TEST

START_TEST(messages)
{
	struct arena ar = {0};
	char *names[256];
	bool seen[DIAG_COUNT] = {[DIAG_E_HUGE] = true, [DIAG_E_DEEP] = true, [DIAG_E_GUARDS] = true, [DIAG_E_TOO_LARGE] = true,
		[DIAG_E_DECLARATIONS] = true};   /* tested below */
	int n = names_in(&ar, "tests/dsl/errors", names, 256);
	for (int i = 0; i < n; i++) {
		struct diag d;
		char *path = arena_printf(&ar, "tests/dsl/errors/%s.tdsl", names[i]), *text = ir_help_file(&ar, path);
		ck_assert_msg(dsl_help_all(&ar, text, strlen(text), path, &d, NULL) < 0, "%s has no error", path);
		bool own = names[i][0] != 'E' || names[i][1] != '_';
		for (int m = 0; m < d.n; m++) {
			seen[d.messages[m].id] = true;
			own |= strcmp(diag_name(d.messages[m].id), names[i]) == 0;
		}
		ck_assert_msg(own, "%s does not give its message", path);
		compare(&ar, arena_printf(&ar, "tests/dsl/errors/%s.err", names[i]), diag_text(&d));
	}
	for (int id = 0; id < DIAG_COUNT; id++)
		ck_assert_msg(seen[id], "no test gives %s", diag_name((enum diag_id)id));
	arena_free(&ar);
}
END_TEST

/* docs/messages.md: every message, as the table has it. */
START_TEST(messages_listed)
{
	static const struct { const char *id, *kind, *text; } all[] = {
#define MSG(id, severity, format) {#id, #severity, format},
#include "../dsl/messages.def"
#undef MSG
	};
	struct arena ar = {0};
	char *text = "# Messages of the front end\n\nWritten from dsl/messages.def by the tests (`make bless`). `%s` and `%d` stand for what was found; "
		"tests/dsl/errors/ has a text for each,\nnamed after its id, and what is printed for it.\n\n| id | | text |\n|---|---|---|\n";
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		char line[400];
		size_t n = 0;
		for (const char *s = all[i].text; *s && n < sizeof line - 2; s++) {
			if (*s == '|')
				line[n++] = '\\';
			if (s[0] == '%' && s[1] == '%')
				s++;
			line[n++] = *s;
		}
		line[n] = 0;
		text = arena_printf(&ar, "%s| %s | %s | %s |\n", text, all[i].id, all[i].kind, line);
	}
	compare(&ar, "docs/messages.md", text);
	arena_free(&ar);
}
END_TEST

/* --- what kernels.tdsl declares */

START_TEST(shipped)
{
	struct arena ar = {0};
	struct diag d = {.arena = &ar};
	struct dsl_file *f;
	const char *text = ir_help_file(&ar, "kernels.tdsl");
	ck_assert_msg(dsl_parse(&ar, text, strlen(text), "kernels.tdsl", NULL, NULL, &d, &f) == 0, "%s", diag_text(&d));
	ck_assert_int_ge(f->nkernels, 70);
	const struct dsl_kernel *k = &f->kernels[0];
	ck_assert_str_eq(k->name, "rmsnorm_quant");
	ck_assert_str_eq(k->doc, "y = rmsnorm(x) * w in 8 bits, one scale per row.");
	ck_assert_int_eq(k->nall, 6);
	ck_assert_int_eq(k->npacked, 4);
	ck_assert_str_eq(k->packed[0].text, "T=bf16,Q=fp8");
	ck_assert_int_eq(k->packed[0].types[0], DT_BF16);
	ck_assert_int_eq(k->packed[0].native[1], 8);
	ck_assert_int_eq(k->packed[0].special->sets[0].npins, 7);
	ck_assert_str_eq(k->packed[0].special->sets[0].pins[1].symbol, "N");
	ck_assert_int_eq(k->packed[0].special->sets[0].pins[1].value, 4096);
	struct model_kernel m;
	ck_assert_int_eq(dsl_signature(&ar, f, k, &d, &m), 0);
	static const char *const order[] = {"x", "w", "eps", "y", "scale"};
	ck_assert_int_eq(m.nparams, 5);
	for (int i = 0; i < 5; i++)
		ck_assert_str_eq(m.params[i].name, order[i]);
	ck_assert(m.params[2].has_default && m.params[2].default_value == 1e-6);
	ck_assert_int_eq(m.ninstances, 4);
	ck_assert_int_eq(m.instances[1].dtype[3], DT_I8);
	ck_assert_int_eq(m.instances[0].native[3], 8);
	const struct dsl_kernel *gated = NULL;
	for (int i = 0; i < f->nkernels; i++)
		if (strcmp(f->kernels[i].name, "swiglu_128") == 0)
			gated = &f->kernels[i];
	ck_assert_ptr_nonnull(gated);
	ck_assert_str_eq(gated->doc, "y = F(gate) * up, quantised by QUANTIZE in groups of G columns.");   /* the template's */
	ck_assert_int_eq(gated->npacked, 1);
	ck_assert_str_eq(gated->packed[0].text, "T=bf16,Q=fp8,S=f32");
	ck_assert_int_eq(dsl_signature(&ar, f, gated, &d, &m), 0);
	for (int i = 0; i < f->nkernels; i++)
		if (strcmp(f->kernels[i].name, "sreglu_128") == 0)
			ck_assert(f->kernels[i].nall == 3 && f->kernels[i].npacked == 0);   /* none for the template, and no line of its own */
	ck_assert_int_eq(m.symbols[1].tensor, 0);              /* N: from the input, h[M, 2*N], although the output y has it plain */
	ck_assert_int_eq(m.symbols[1].mul, 2);
	arena_free(&ar);
}
END_TEST

/* Sizes are of their line's sets; lines that name the same tensors are one set, in whatever order they name them.  What may be there or not is another
 * set than what is there. */
START_TEST(lines_add_up)
{
	struct arena ar = {0};
	struct diag d = {.arena = &ar};
	struct dsl_file *f;
	static const char text[] =
		"kernel k[T: bf16|f16](x: T[M, N], w?: T[N], b?: T[N]) -> y: T[M, N]\n{\n    each m in M, n in N { y[m, n] = x[m, n] + w[n] + b[n] }\n}\n"
		"pack {\n    k: T bf16, N 64 128, with w\n    k: T f16\n    k: T bf16, with b w, with\n    k: T bf16, N 64, with w b\n    k: T bf16 f16, N 256 128, with w\n    k: T bf16, with w b?\n    k: T bf16, N 512, with b? w\n}\n";
	ck_assert_msg(dsl_parse(&ar, text, strlen(text), "t", NULL, NULL, &d, &f) == 0, "%s", diag_text(&d));
	ck_assert_int_eq(f->kernels[0].npacked, 2);
	const struct dsl_special *bf16 = f->kernels[0].packed[0].special, *f16 = f->kernels[0].packed[1].special;
	ck_assert_int_eq(bf16->nsets, 4);
	static const struct { struct dsl_tensor tensors[2]; int n, sizes[3], nsizes; } want[] = {{{{"w", false}}, 1, {64, 128, 256}, 3},
		{{{"b", false}, {"w", false}}, 2, {64}, 1}, {{{0}}, 0, {0}, 0}, {{{"w", false}, {"b", true}}, 2, {512}, 1}};
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(bf16->sets[i].n, want[i].n);
		for (int k = 0; k < want[i].n; k++)
			ck_assert(!strcmp(bf16->sets[i].tensors[k].name, want[i].tensors[k].name) && bf16->sets[i].tensors[k].asked == want[i].tensors[k].asked);
		ck_assert_int_eq(bf16->sets[i].npins, want[i].nsizes);
		for (int k = 0; k < want[i].nsizes; k++)
			ck_assert_int_eq(bf16->sets[i].pins[k].value, want[i].sizes[k]);
	}
	ck_assert_int_eq(f16->nsets, 2);
	ck_assert(f16->sets[0].n == 0 && f16->sets[0].npins == 0 && f16->sets[1].n == 1 && f16->sets[1].npins == 2);
	arena_free(&ar);
}
END_TEST

/* One kernel of the text: what is said of it is the same, of the others the names are there, and only their grammar is checked. */
START_TEST(one_wanted)
{
	struct arena ar = {0};
	struct diag d = {.arena = &ar};
	struct dsl_file *all, *one;
	const char *text = ir_help_file(&ar, "kernels.tdsl"), *name = "swiglu_both_mxfp8";
	ck_assert_int_eq(dsl_parse(&ar, text, strlen(text), "kernels.tdsl", NULL, NULL, &d, &all), 0);
	ck_assert_int_eq(dsl_parse(&ar, text, strlen(text), "kernels.tdsl", NULL, (const char *const[]){name, NULL}, &d, &one), 0);
	ck_assert_int_eq(one->nkernels, all->nkernels);
	for (int i = 0; i < all->nkernels; i++) {
		const struct dsl_kernel *a = &all->kernels[i], *b = &one->kernels[i];
		bool wanted = strcmp(a->name, name) == 0;
		ck_assert_str_eq(a->name, b->name);
		ck_assert_int_eq(b->nall, wanted ? a->nall : 0);
		ck_assert_int_eq(b->npacked, wanted ? a->npacked : 0);
		if (wanted)
			ck_assert_str_eq(dsl_dump(&ar, all, a), dsl_dump(&ar, one, b));
	}
	const char *good = "kernel good(x: f32[M]) -> y: f32[M]\n{\n    each m in M { y[m] = x[m] }\n}\n";
	const char *typo = arena_printf(&ar, "%skernel bad(x: nothing[M]) -> y: f32[M]\n{\n    each m in M { y[m] = x[m] }\n}\n", good);
	const char *torn = arena_printf(&ar, "%skernel bad(x: f32[M]) -> y: f32[M]\n{\n    each m in\n}\n", good);
	ck_assert_int_eq(dsl_parse(&ar, typo, strlen(typo), "t", NULL, (const char *const[]){"good", NULL}, &d, &one), 0);
	ck_assert_int_lt(dsl_parse(&ar, typo, strlen(typo), "t", NULL, (const char *const[]){"bad", NULL}, &d, &one), 0);
	ck_assert_int_lt(dsl_parse(&ar, typo, strlen(typo), "t", NULL, NULL, &d, &one), 0);
	ck_assert_int_lt(dsl_parse(&ar, torn, strlen(torn), "t", NULL, (const char *const[]){"good", NULL}, &d, &one), 0);
	arena_free(&ar);
}
END_TEST

START_TEST(symbols_are_solved)
{
	struct arena ar = {0};
	struct diag d = {.arena = &ar};
	struct dsl_file *f;
	struct model_kernel m;
	const char *text = "kernel k(h: f32[M, 2*N + 3], first: i32[E + 1], o?: f32[P], q: f32[E - 1]) -> y: f32[E]\n    require N % 4 == 0, has(o) or M > 2\n"
		"{\n    each e in E { y[e] = 0 }\n}\n";
	ck_assert_msg(dsl_parse(&ar, text, strlen(text), "t", NULL, NULL, &d, &f) == 0, "%s", diag_text(&d));
	ck_assert_int_eq(dsl_signature(&ar, f, &f->kernels[0], &d, &m), 0);
	static const struct model_symbol want[] = {{"M", 0, 0, 1, 0}, {"N", 0, 1, 2, 3}, {"E", 1, 0, 1, 1}, {"P", 2, 0, 1, 0}};
	ck_assert_int_eq(m.nsymbols, 4);
	for (int i = 0; i < 4; i++) {
		ck_assert_str_eq(m.symbols[i].name, want[i].name);
		ck_assert_int_eq(m.symbols[i].tensor, want[i].tensor);
		ck_assert_int_eq(m.symbols[i].dim, want[i].dim);
		ck_assert_int_eq(m.symbols[i].mul, want[i].mul);
		ck_assert_int_eq(m.symbols[i].add, want[i].add);
	}
	ck_assert_int_eq(m.nrequires, 2);
	ck_assert_str_eq(m.requires[0].text, "N % 4 == 0");
	text = "kernel k(x: e2m1[M, 2*N + 4]) -> y: e2m1[M, N]\n{\n    each m in M { y[m, 0] = x[m, 0] }\n}\n";
	ck_assert_msg(dsl_parse(&ar, text, strlen(text), "t", NULL, NULL, &d, &f) == 0, "%s", diag_text(&d));
	ck_assert_int_eq(dsl_signature(&ar, f, &f->kernels[0], &d, &m), 0);
	ck_assert_int_eq(m.nrequires, 2);                      /* two elements share a byte */
	ck_assert_str_eq(m.requires[1].text, "N % 2 == 0");
	text = "kernel k(x: f32[M, N], q: e2m1[M, N / 3]) -> y: f32[M]\n{\n    each m in M { y[m] = x[m, 0] + f32(q[m, 0]) }\n}\n";
	ck_assert_msg(dsl_parse(&ar, text, strlen(text), "t", NULL, NULL, &d, &f) == 0, "%s", diag_text(&d));
	ck_assert_int_eq(dsl_signature(&ar, f, &f->kernels[0], &d, &m), 0);
	ck_assert_str_eq(m.requires[0].text, "N / 3 % 2 == 0");      /* as the text writes it */
	ck_assert_str_eq(model_extents(&ar, &m, 1), "M, N / 3");
	arena_free(&ar);
}
END_TEST


/* --- what texts compute */

/* cdiv in the body, in extents, folded and not: the least integer that is not below a / b, and 0 where b is 0. */
START_TEST(quotients_rounded_up)
{
	static const int a[] = {7, -7, 6, -6, 1, -1, 0, 7, -7, 7, 7, -7, 2147483647, 0}, b[] = {3, 3, 3, 3, 5, 5, 5, -3, -3, 0, 7, 1, 2, 0};
	static const int want[] = {3, -2, 2, -2, 1, 0, 0, -2, 3, 0, 1, -7, 1073741824, 0};
	enum { M = sizeof want / sizeof *want };
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/rounding.tdsl", "rounded", "");
	ir_run_symbol(&r, "M", M);
	struct ir_tensor *ta = ir_run_tensor(&r, "a", 1), *tb = ir_run_tensor(&r, "b", 1), *far = ir_run_tensor(&r, "far", 1);
	static const char *const out[] = {"q", "third", "group", "wide", "fixed", "held"};
	for (int i = 0; i < 6; i++)
		ir_run_tensor(&r, out[i], 0);
	ir_run_tensor(&r, "part", 0);
	for (int i = 0; i < M; i++) {
		ir_tensor_set(ta, i, a[i]);
		ir_tensor_set(tb, i, b[i]);
		ir_tensor_set(far, i, (double)(((int64_t)1 << 40) * (i % 2 ? -1 : 1)));
	}
	ck_assert_msg(ir_run_go(&r) == 0, "%s", r.err);
	for (int i = 0; i < M; i++) {
		ck_assert_int_eq((int)ir_tensor_get(ir_run_find(&r, "q"), i), want[i]);
		ck_assert_int_eq((int)ir_tensor_get(ir_run_find(&r, "third"), i), (int)ceil(a[i] / 3.0));
		ck_assert_int_eq((int)ir_tensor_get(ir_run_find(&r, "group"), i), (i + 3) / 4);
		ck_assert_int_eq((int64_t)ir_tensor_get(ir_run_find(&r, "wide"), i), i % 2 ? -(((int64_t)1 << 40) / 3) : ((int64_t)1 << 40) / 3 + 1);
		ck_assert_int_eq((int)ir_tensor_get(ir_run_find(&r, "fixed"), i), -2 + 100 * -2);
		ck_assert(ir_tensor_get(ir_run_find(&r, "held"), i) == 1);      /* as many positions as the host counts */
	}
	ir_run_close(&r);
}
END_TEST

/* 7 / 2 is 3.5 where it meets a float, and 3 where it meets an integer or nothing. */
START_TEST(numbers_take_types)
{
	static const struct { const char *name; double want; } out[] = {{"half", 10 * 3.5 + 2.5 - 5 + 3.5 + 0.5 - 0.5}, {"narrow", 3.5}, {"eighth", 3.5},
		{"whole", 33}, {"long", 13}, {"named", 7}};
	struct ir_run r;
	dsl_run_open(&r, "tests/dsl/numbers.tdsl", "numbers", "");
	ir_run_symbol(&r, "M", 1);
	static const char *const in[] = {"x", "i", "far"};
	for (int i = 0; i < 3; i++)
		ir_tensor_set(ir_run_tensor(&r, in[i], 0), 0, 10);
	for (size_t i = 0; i < sizeof out / sizeof *out; i++)
		ir_run_tensor(&r, out[i].name, 0);
	ck_assert_msg(ir_run_go(&r) == 0, "%s", r.err);
	for (size_t i = 0; i < sizeof out / sizeof *out; i++)
		ck_assert_msg(ir_tensor_get(ir_run_find(&r, out[i].name), 0) == out[i].want, "%s: %g", out[i].name, ir_tensor_get(ir_run_find(&r, out[i].name), 0));
	ir_run_close(&r);
}
END_TEST

/* --- hostile texts: an error or a kernel, never a crash or a hang */

static void feed(const char *text, size_t n)
{
	struct arena ar = {0};
	struct diag d;
	if (dsl_help_all(&ar, text, n, "hostile", &d, NULL) < 0)
		ck_assert_uint_gt(strlen(diag_text(&d)), 10);
	ck_assert_int_le(d.errors, DIAG_MAX);
	arena_free(&ar);
}

/* The text gives this message. */
static void expect(const char *text, size_t n, enum diag_id id)
{
	struct arena ar = {0};
	struct diag d;
	bool found = false;
	ck_assert(dsl_help_all(&ar, text, n, "hostile", &d, NULL) < 0);
	for (int i = 0; i < d.n; i++)
		found |= d.messages[i].id == id;
	ck_assert_msg(found, "expected %s, found %.300s", diag_name(id), diag_text(&d));
	arena_free(&ar);
}

static const char *const before = "kernel k(x: f32[M]) -> y: f32[M]\n{\n    each m in M {\n        y[m] = ", *const after = "\n    }\n}\n";

/* `before`, then `unit` n times, `middle`, `unit2` n times, `after`. */
static char *repeated(const char *unit, const char *middle, const char *unit2, size_t n, size_t *size)
{
	size_t a = strlen(unit), b = strlen(unit2);
	char *text = malloc(strlen(before) + strlen(after) + strlen(middle) + n * (a + b) + 1), *at = stpcpy(text, before);
	for (size_t i = 0; i < n; i++, at += a)
		memcpy(at, unit, a);
	at = stpcpy(at, middle);
	for (size_t i = 0; i < n; i++, at += b)
		memcpy(at, unit2, b);
	*size = (size_t)(stpcpy(at, after) - text);
	return text;
}

START_TEST(truncated)
{
	static const char *const paths[] = {"tests/dsl/templates.tdsl", "tests/dsl/attention.tdsl", "kernels.tdsl"};
	struct arena ar = {0};
	for (int i = 0; i < 3; i++) {                  /* the shipped text is long: only some places in it */
		const char *text = ir_help_file(&ar, paths[i]);
		for (size_t n = 0, size = strlen(text); n < size; n += i == 2 ? 397 : 1)
			feed(text, n);
	}
	arena_free(&ar);
}
END_TEST

START_TEST(altered)
{
	struct arena ar = {0};
	char *original = ir_help_file(&ar, "tests/dsl/templates.tdsl");
	original = arena_printf(&ar, "%s%s", original, ir_help_file(&ar, "tests/dsl/attention.tdsl"));
	size_t size = strlen(original);
	char *text = malloc(size);
	unsigned seed = 12345;
	for (int round = 0; round < 1500; round++) {
		memcpy(text, original, size);
		for (int i = 0; i <= round % 4; i++) {
			seed = seed * 1664525 + 1013904223;
			size_t at = seed / 7 % size, from = (seed >> 3) % size;
			text[at] = round % 3 ? text[from] : (char)(seed >> 24);
		}
		feed(text, size);
	}
	free(text);
	arena_free(&ar);
}
END_TEST

START_TEST(random_bytes)
{
	unsigned seed = 99;
	char text[2000];
	for (int round = 0; round < 300; round++) {
		for (size_t i = 0; i < sizeof text; i++) {
			seed = seed * 1664525 + 1013904223;
			text[i] = round % 2 ? (char)(seed >> 24) : " \n(){}[]=+*,:.<>kfx0"[seed >> 24 & 15];
		}
		feed(text, sizeof text);
	}
	feed("", 0);
	feed("\0", 1);
	feed("\0\0kernel\0", 9);
	feed("kernel k(x: f32[M]) -> y: f32[M]\n{\0}\n", 38);
}
END_TEST

/* The text has no error. */
static void accept(const char *text, size_t n)
{
	struct arena ar = {0};
	struct diag d;
	ck_assert_msg(dsl_help_all(&ar, text, n, "long", &d, NULL) == 0, "%.300s", diag_text(&d));
	arena_free(&ar);
}

START_TEST(nested)
{
	static const char *const unit[][3] = {{"(", "1", ")"}, {"", "1", " + 1"}, {"1 + (", "1", ")"}, {"-", "1", ""}, {"abs(", "1", ")"}, {"x[", "m", "]"}, {"1 + ", "1", ""},
		{"1\nif m == 1 {\n", "", "}\n"}, {"[", "", ""}, {"{", "", "}"}, {"1\nfor i in 3 {", "", "}"}};
	for (unsigned i = 0; i < sizeof unit / sizeof *unit; i++) {
		size_t size;
		char *text = repeated(unit[i][0], unit[i][1], unit[i][2], 100000, &size);
		if (i < 3)
			expect(text, size, DIAG_E_DEEP);
		else
			feed(text, size);
		free(text);
	}
}
END_TEST

/* A chain is no nesting: hundreds of operands, of any operators, inside of nesting and out.  Trees that lean right are. */
START_TEST(long_chains)
{
	static const struct { const char *unit, *middle, *unit2; size_t n; bool good; } all[] = {
		{"", "x[m]", " + x[m] * 2 - 1", 1000, true}, {"", "x[m]", " + 1", 3990, true}, {"", "x[m]", " + 1", 4000, false}, {"(", "x[m]", " + 1)", 400, true},
		{"x[m] + (", "1", ")", 190, true}, {"x[m] + (", "1", ")", 210, false}, {"(", "x[m]", ")", 400, true}, {"(", "x[m]", ")", 5000, false},
		{"abs(", "x[m]", " + 1 + 2 + 3 + 4 + 5)", 95, true}, {"abs(", "x[m]", ")", 210, false}};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		size_t size;
		char *text = repeated(all[i].unit, all[i].middle, all[i].unit2, all[i].n, &size);
		if (all[i].good)
			accept(text, size);
		else
			expect(text, size, DIAG_E_DEEP);
		free(text);
	}
	struct arena ar = {0};
	char *sum = "M", *deep = "M", *both = "x[0] > 0";
	for (int i = 0; i < 300; i++) {
		sum = arena_printf(&ar, "%s + M", sum);
		both = arena_printf(&ar, "%s and x[0] > %d", both, i);
	}
	for (int i = 0; i < 40; i++)
		deep = arena_printf(&ar, "M + (%s)", deep);
	static const char *const form = "kernel t[G: int](x: f32[M], z: f32[%s]) -> y: f32[M]\n    require %s > 2\n{\n    each m in M {\n        y[m] = select(%s, 1.0, 2.0) + z[%s]\n    }\n}\nkernel k = t[G: 3]\n";
	char *text = arena_printf(&ar, form, sum, sum, both, sum);
	accept(text, strlen(text));
	text = arena_printf(&ar, form, "3", deep, both, sum);
	expect(text, strlen(text), DIAG_E_EXTENT_LARGE);
	arena_free(&ar);
}
END_TEST

START_TEST(huge)
{
	size_t size = 10 << 20;
	char *text = malloc(size);
	memset(text, 'x', size);
	expect(text, size, DIAG_E_HUGE);
	feed(text, 4 << 20);
	memset(text, '\n', 4 << 20);
	feed(text, 4 << 20);
	for (size_t i = 0; i + 10 <= 2 << 20; i += 10)
		memcpy(text + i, "fn f()=1;\n", 10);
	expect(text, (2 << 20) / 10 * 10, DIAG_E_DECLARATIONS);
	free(text);
	text = repeated("x[m] + y\n x = y[m] * 2 ", "", "", 40000, &size);
	feed(text, size);
	free(text);
}
END_TEST

/* Functions that call the next one twice: 2^30 bodies if nothing stopped it. */
START_TEST(explosive)
{
	struct arena ar = {0};
	char *text = "fn g0(x) = x * 1.5\n";
	for (int i = 1; i <= 22; i++)
		text = arena_printf(&ar, "%sfn g%d(x) = g%d(x) + g%d(x * 3)\n", text, i, i - 1, i - 1);
	text = arena_printf(&ar, "%s%sg22(x[m])%s", text, before, after);
	expect(text, strlen(text), DIAG_E_TOO_LARGE);
	arena_free(&ar);
}
END_TEST

START_TEST(many_conditions)
{
	struct arena ar = {0};
	char *text = arena_printf(&ar, "%s1\n        for t in M where t != 0", before);
	for (int i = 1; i < 70; i++)
		text = arena_printf(&ar, "%s and t != %d", text, i);
	text = arena_printf(&ar, "%s { y[m] = 2 }%s", text, after);
	expect(text, strlen(text), DIAG_E_GUARDS);
	arena_free(&ar);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {golden_ir, golden_tree, messages, messages_listed, shipped, one_wanted, lines_add_up, symbols_are_solved, quotients_rounded_up, numbers_take_types,
		truncated, altered, random_bytes, nested, long_chains, huge, explosive, many_conditions};
	Suite *s = suite_create("dsl");
	TCase *c = tcase_create("texts");
	tcase_set_timeout(c, 120);
	for (unsigned i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
