/* lower_test.c -- what ordinary kernels use, lowered: every kernel of tests/lower, every chip, every instance, every variant.
 *
 * In: kernels as text; the comment above each says what to run it with:
 *     sizes: M=3 N=769, M=0 N=1        extents, one run each (twice where there are optional tensors: given, and absent)
 *     below: row R                     an integer tensor holds numbers in 0 .. R-1
 *     chips: sm_90a                    which have room for it (where not said, all)
 *     ragged: first M                  an integer tensor holds bounds of groups within 0 .. M
 *     scale: x 300                     an input holds numbers in -300 .. 300 (2 where nothing is said)
 *     views: 7                         tensors are views: rows apart, axes in another order, every second element, starts anywhere
 *     spares: classes                  classes of sizes that registers do not suffice for may be left out (compile.h's variant_is_spare)
 *     bound: 1e-5                      how far results may be from the evaluated text, relative to 1 + |result| (0 where not said)
 *     refused: text                    no sizes: some variant fails with this message, at a place in the file
 * With LOWER_FILE it is that file's kernels (tests/lower_random.py), whatever the length of their code; with LOWER_MANY code for many rows computes
 * few as well.
 * Checked: the object against the evaluated laid-out IR, bit for bit; that against the evaluated text, within the bound, one
 * step for 8-bit results of bounded kernels; the length of the code. */
#include "device_help.h"
#include "dsl_help.h"
#include "sample.h"

#include <check.h>
#include <math.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/num.h"

static const char *const chips[] = {"gfx942", "gfx950", "sm_90a"};
static const char *const files[] = {"rows", "quant", "act", "index", "loops", "phases", "types", "dots", "mixed", "scans", "scaled", "quads", "refused"};

enum { CHIPS = 3, MOST_CODES = 112, MOST_INSTRUCTIONS = 4000 };

struct bench_case { struct device_run d; struct ir_run r; const char *doc, *name; unsigned views; bool spares; void *whole[MOST_PARAMS]; struct device_code code[MOST_CODES]; int ncodes; };

/* The text behind `key:` in the comment from *at on, to the end of its line; NULL where there is none (more). */
static char *directive(struct arena *a, const char **at, const char *key)
{
	const char *p = *at ? strstr(*at, key) : NULL;
	if (!p)
		return NULL;
	p += strlen(key);
	size_t n = strcspn(p, "\n");
	*at = p + n;
	return arena_printf(a, "%.*s", (int)n, p);
}

static int64_t number_or_symbol(struct bench_case *c, const char *word)
{
	for (int i = 0; i < c->r.k->nsymbols; i++)
		if (strcmp(c->r.k->symbols[i], word) == 0)
			return c->r.symbols[i];
	return atoll(word);
}

static void fill_integers(struct bench_case *c)
{
	char tensor[40], word[40];
	char *text;
	for (const char *at = c->doc; (text = directive(&c->r.arena, &at, "below:"));) {
		ck_assert_int_eq(sscanf(text, "%39s %39s", tensor, word), 2);
		struct ir_tensor *t = ir_run_find(&c->r, tensor);
		int64_t most = number_or_symbol(c, word);
		for (int64_t i = 0; t->data && i < ir_tensor_count(t); i++)
			ir_tensor_set(t, i, most ? (double)((i * 7 + 3) % most) : 0);
	}
	for (const char *at = c->doc; (text = directive(&c->r.arena, &at, "ragged:"));) {
		ck_assert_int_eq(sscanf(text, "%39s %39s", tensor, word), 2);
		struct ir_tensor *t = ir_run_find(&c->r, tensor);
		int64_t most = number_or_symbol(c, word), n = ir_tensor_count(t);
		for (int64_t i = 0; t->data && i < n; i++)     /* an empty group in the middle */
			ir_tensor_set(t, i, (double)(i * most / (n > 1 ? n - 1 : 1) - (i == n / 2 ? most / (n > 1 ? n - 1 : 1) : 0)));
	}
}

static void drop_views(struct bench_case *c)
{
	for (int p = 0; p < c->r.k->nparams; p++)
		if (c->whole[p]) {
			c->r.tensors[p].data = c->whole[p];
			c->whole[p] = NULL;
		}
}

/* The same elements at other places, by a number drawn for each tensor; memory between them is as outputs are before a call. */
static void make_view(struct bench_case *c, int p)
{
	enum { AS_IS, APART, TURNED, STEPPED, SHIFTED, KINDS, ROOM = 64 };
	struct ir_tensor *t = &c->r.tensors[p], whole = *t;
	unsigned drawn = (c->views * 2654435761u + (unsigned)p * 40503u) >> 8, kind = drawn % KINDS, by = 1 + drawn / KINDS % 7, bytes = dtype_info(t->dtype)->bits / 8;
	int64_t n = 1;
	if (!t->data || t->rank < 1 || !bytes || c->r.k->params[p].list || kind == AS_IS)
		return;
	for (int i = t->rank - 1; i >= 0; i--) {
		int d = kind == TURNED ? t->rank - 1 - i : i;
		t->stride[d] = kind == STEPPED ? 2 * n : n;
		n = n * t->extent[d] + (kind == APART ? by : 0);
	}
	uint8_t *room = arena_alloc(&c->r.arena, device_bytes(t) + ROOM);
	memset(room, 0xa5, device_bytes(t) + ROOM);
	t->data = room + (kind == SHIFTED && c->r.k->params[p].role == IR_IN ? by * bytes : 0);
	for (int64_t i = 0; i < ir_tensor_count(t); i++)
		ir_tensor_set(t, i, ir_tensor_get(&whole, i));
	c->whole[p] = whole.data;
}

static void make_tensors(struct bench_case *c, bool absent)
{
	drop_views(c);
	char tensor[40];
	double scale;
	char *text;
	for (int p = 0; p < c->r.k->nparams; p++) {
		const struct ir_param *q = &c->r.k->params[p];
		if (!q->is_tensor || q->role == IR_TEMP)
			continue;
		free(c->r.tensors[p].data);
		ir_run_tensor(&c->r, q->name, dtype_info(q->dtype)->cls == 'I' ? 100 : 2);
		for (const char *at = c->doc; (text = directive(&c->r.arena, &at, "scale:"));)
			if (sscanf(text, "%39s %lf", tensor, &scale) == 2 && strcmp(tensor, q->name) == 0)
				for (int64_t i = 0; i < ir_tensor_count(&c->r.tensors[p]); i++)
					ir_tensor_set(&c->r.tensors[p], i, ir_tensor_get(&c->r.tensors[p], i) * scale / 2);
		if (q->optional && absent) {
			free(c->r.tensors[p].data);
			c->r.tensors[p].data = NULL;
			c->r.tensors[p].rank = q->role == IR_OUT ? -1 : q->rank;
		}
	}
	fill_integers(c);
	for (int p = 0; c->views && p < c->r.k->nparams; p++)
		if (c->r.k->params[p].is_tensor && c->r.k->params[p].role != IR_TEMP)
			make_view(c, p);
}

static bool written(const struct bench_case *c, int p)
{
	const struct ir_param *q = &c->r.k->params[p];
	return q->is_tensor && (q->role == IR_OUT || q->role == IR_INOUT) && c->r.tensors[p].data;
}

/* The evaluated text against the evaluated variants. */
static void run_sizes(struct bench_case *c, const char *what)
{
	struct ir_kernel *k = c->r.k;
	uint8_t *text[MOST_PARAMS] = {0}, *start[MOST_PARAMS] = {0};
	int ran = 0;
	for (int p = 0; p < k->nparams; p++)
		if (written(c, p)) {
			start[p] = malloc(device_bytes(&c->r.tensors[p]) + 1);
			memcpy(start[p], c->r.tensors[p].data, device_bytes(&c->r.tensors[p]));
		}
	struct ir_tensor seen[MOST_PARAMS];
	struct ir_eval e = {.kernel = k, .tensors = seen, .scalars = c->r.scalars, .symbols = c->r.symbols, .check_bounds = true};
	device_tables(&c->d, seen);
	ck_assert_msg(ir_evaluate(&e, c->r.err, sizeof c->r.err) == 0, "%s: %s", what, c->r.err);
	for (int p = 0; p < k->nparams; p++)
		if (start[p]) {
			text[p] = malloc(device_bytes(&c->r.tensors[p]) + 1);
			memcpy(text[p], c->r.tensors[p].data, device_bytes(&c->r.tensors[p]));
		}
	for (int v = 0; v < c->ncodes; v++) {
		struct device_code *code = &c->code[v];
		if (!(getenv("LOWER_MANY") ? device_computes : device_applies)(&c->d, code->v))
			continue;
		char *name = arena_printf(&c->d.arena, "%s, variant %s", what, code->v->text);
		c->d.spare = (c->spares && variant_is_spare(c->code[0].v, c->ncodes, v)) || (v + 1 < c->ncodes && c->code[v + 1].v->instead);
		if (!code->elf)
			device_compile(&c->d, code->v, code, name);
		if (!code->elf || !device_allows(&c->d, code))
			continue;
		ck_assert_msg(code->instructions <= MOST_INSTRUCTIONS || getenv("LOWER_FILE"), "%s: %d instructions", name, code->instructions);
		for (int p = 0; p < k->nparams; p++)
			if (start[p])
				memcpy(c->r.tensors[p].data, start[p], device_bytes(&c->r.tensors[p]));
		device_check(&c->d, code, name, true);
		for (int p = 0; p < k->nparams; p++)
			for (int64_t i = 0; start[p] && i < ir_tensor_count(&c->r.tensors[p]); i++) {
				double got = ir_tensor_get(&c->r.tensors[p], i);
				void *data = c->r.tensors[p].data;
				c->r.tensors[p].data = text[p];
				double want = ir_tensor_get(&c->r.tensors[p], i);
				c->r.tensors[p].data = data;
				if (!device_near(c->d.bound, c->r.tensors[p].dtype, got, want))      /* an assertion that holds writes where it is to a file */
					ck_abort_msg("%s: %s[%lld] is %.9g laid out, the text says %.9g", name, k->params[p].name, (long long)i, got, want);
			}
		ran++;
	}
	ck_assert_msg(ran > 0, "%s: no variant applies", what);
	for (int p = 0; p < k->nparams; p++) {
		free(text[p]);
		free(start[p]);
	}
}

/* Some variant fails with the text, behind the file's name and a line. */
static void check_refusal(struct bench_case *c, const char *text)
{
	bool refused = false;
	for (int i = 0; i < c->ncodes; i++) {
		struct ir_kernel *final;
		struct translated made;
		if (run_passes(&c->d.arena, c->r.k, c->code[i].v, NULL, &final, c->d.err, sizeof c->d.err) == 0 &&
		    translate(&c->d.arena, final, c->code[i].v, object_context(c->d.session), &made, c->d.err, sizeof c->d.err) == 0) {
			LLVMDisposeModule(made.module);
			continue;
		}
		ck_assert_msg(strstr(c->d.err, text) && strstr(c->d.err, "tests/lower/"), "%s: found %s", c->name, c->d.err);
		refused = true;
	}
	ck_assert_msg(refused, "%s is not refused", c->name);
}

static bool has_room(struct arena *a, const struct dsl_kernel *text, const char *chip)
{
	const char *at = text->doc ? text->doc : "", *chips = directive(a, &at, "chips:");
	return !chips || strstr(chips, chip);
}

static void run_instance(struct dsl_file *f, const struct dsl_kernel *text, const struct dsl_binding *b, const char *chip)
{
	struct bench_case *c = calloc(1, sizeof *c);
	struct diag diag = {.arena = &c->r.arena};
	struct variant *v;
	bool optional = false;
	char *line;
	c->r.random = 0x9E3779B97F4A7C15u;
	c->doc = text->doc ? text->doc : "";
	c->name = text->name;
	ck_assert_msg(dsl_elaborate(&c->r.arena, f, text, b, chip, &diag, &c->r.k) == 0, "%s", diag_text(&diag));
	c->r.k->target = chip;
	device_open(&c->d, &c->r, chip);
	ck_assert_msg(plan_takes_schedule(c->r.k, text, c->d.target, &diag), "%s", diag_text(&diag));
	ck_assert_msg(plan_variants(&c->d.arena, c->r.k, text, b->special, c->d.target, &v, &c->ncodes, c->d.err, sizeof c->d.err) == 0, "%s", c->d.err);
	ck_assert_int_le(c->ncodes, MOST_CODES);
	for (int i = 0; i < c->ncodes; i++)
		c->code[i].v = &v[i];
	for (int p = 0; p < c->r.k->nparams; p++) {
		optional = optional || c->r.k->params[p].optional;
		c->r.scalars[p] = c->r.k->params[p].default_value;
	}
	const char *at = c->doc;
	if ((line = directive(&c->r.arena, &at, "bound:")))
		c->d.bound = atof(line);
	at = c->doc;
	if ((line = directive(&c->r.arena, &at, "views:")))
		c->views = (unsigned)atoi(line);
	at = c->doc;
	c->spares = directive(&c->r.arena, &at, "spares:") != NULL;      /* classes that do not fit may be left out */
	at = c->doc;
	if ((line = directive(&c->r.arena, &at, "refused:")))
		check_refusal(c, line + strspn(line, " "));
	at = c->doc;
	ck_assert_msg(line || strstr(at, "sizes:") != NULL, "%s has no sizes", text->name);
	while ((line = directive(&c->r.arena, &at, "sizes:")))
		for (char *save, *one = strtok_r(line, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
			char *what = arena_printf(&c->d.arena, "%s %s %s%s", text->name, b->text, chip, one);
			for (char *more, *word = strtok_r(one, " ", &more); word; word = strtok_r(NULL, " ", &more)) {
				char *value = strchr(word, '=');
				ck_assert_msg(value != NULL, "%s: %s", what, word);
				*value++ = 0;
				ir_run_symbol(&c->r, word, atoll(value));
			}
			for (int absent = 0; absent <= (optional ? 1 : 0); absent++) {
				make_tensors(c, absent);
				run_sizes(c, absent ? arena_printf(&c->d.arena, "%s, options absent", what) : what);
			}
		}
	int most = 0;
	for (int i = 0; i < c->ncodes; i++) {
		most = c->code[i].instructions > most ? c->code[i].instructions : most;
		free(c->code[i].elf);
	}
	if (getenv("LOWER_VERBOSE"))
		printf("%-24s %-16s %s: at most %d instructions\n", text->name, b->text, chip, most);
	device_close(&c->d);
	drop_views(c);
	ir_run_close(&c->r);
	free(c);
}

START_TEST(lowers)
{
	struct arena a = {0};
	struct diag diag = {.arena = &a};
	struct dsl_file *f;
	const char *only = getenv("LOWER_ONLY"), *chip = getenv("LOWER_CHIP");
	if (chip && strcmp(chip, chips[_i % CHIPS]))
		return;
	const char *given = getenv("LOWER_FILE");
	char *path = given ? arena_printf(&a, "%s", given) : arena_printf(&a, "tests/lower/%s.tdsl", files[_i / CHIPS]), *text = ir_help_file(&a, path);
	ck_assert_msg(dsl_parse(&a, text, strlen(text), path, NULL, NULL, &diag, &f) == 0, "%s", diag_text(&diag));
	bool part = sample_of() > 1;                                     /* each on one of the chips, in turn */
	for (int k = 0, turn = 0; k < f->nkernels; k++)
		for (int b = 0; b < f->kernels[k].nall; b++, turn++)
			if ((!only || strcmp(only, f->kernels[k].name) == 0) && (!part || turn % CHIPS == _i % CHIPS) &&
			    has_room(&a, &f->kernels[k], chips[_i % CHIPS]))
				run_instance(f, &f->kernels[k], &f->kernels[k].all[b], chips[_i % CHIPS]);
	arena_free(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lower");
	TCase *t = tcase_create("lower");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, lowers, 0, CHIPS * (getenv("LOWER_FILE") ? 1 : (int)(sizeof files / sizeof *files)));
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
