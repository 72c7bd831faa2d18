/* driver.c -- the whole way from a text to a pack's model, on several threads.
 *
 *   dsl_parse                                    one AST, read by all threads
 *     -> for each kernel, instance, target       an item: its own arena and diagnostics
 *          dsl_elaborate, plan_variants          first round; any error ends the compilation here
 *     -> for each variant                        second round, of all items together, one with those that may stand in for it: its own arena;
 *          variant_build:                        a thread keeps one LLVM session for all that it builds
 *            run_passes -> variant_code
 *     -> struct model_pack                       in the order of the text, whatever the threads did
 *
 * In: text and choices.  Out: a model that owns all its memory, and the messages of all items as one text. */
#include "compile.h"

#include <llvm-c/Core.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>
#include "../runtime/include/tdsl.h"
#include "object.h"
#include "plan_variant.h"
#include "report.h"

enum { ERROR_TEXT = 2000, MAX_ERRORS = 20, MAX_JOBS = 256 };

/* One kernel, instance and target, and what became of it. */
struct item {
	const struct dsl_kernel *text;
	const struct dsl_binding *binding;
	const struct target *target;
	int kernel, instance;                 /* numbers in the pack */
	struct arena arena;
	struct diag diag;
	struct ir_kernel *generic;
	bool pointwise; int rows, columns;    /* model_kernel's */
	struct variant *variants; int nvariants;
	struct attempt *attempts;             /* one for each of them */
	struct model_variant *built;          /* what came of them, nvariants from then on; object: not numbered yet */
	struct model_object *objects;
	ARRAY(const char *) left_out;         /* variants that do not fit and are spare, each with why */
	const char *error;                    /* of passes, translation or object; NULL = none */
};

/* What building a variant came to: the object's code, or why there is none.  built: it was needed. */
struct attempt { bool built; int rc; const char *why; struct model_variant made; struct model_object object; };

/* A variant of an item and those behind it that are built if it does not fit: what one thread builds in turn. */
struct unit { struct item *item; int first, n; struct arena arena; };

struct compilation {
	const struct compile_options *options;
	const struct dsl_file *file;
	struct item *items; int nitems;
	struct unit *units; int nunits;
	atomic_int next, lowest_failed, done;  /* done: variants, of the second round's total */
	int total;
	int n; bool (*work)(struct compilation *, int, struct object_session **);    /* the round's: how many items or units; builds one, false where that failed */
};

/* --- threads */
static void *worker(void *compilation)
{
	struct compilation *c = compilation;
	struct object_session *session = NULL;
	for (;;) {
		int i = atomic_fetch_add(&c->next, 1);
		if (i >= c->n)
			break;
		/* What comes before the first failure is always finished, so that the messages are the same for any number of threads. */
		if (!c->options->keep_going && i > atomic_load(&c->lowest_failed))
			continue;
		bool failed = !c->work(c, i, &session);
		int lowest = atomic_load(&c->lowest_failed);
		while (failed && i < lowest && !atomic_compare_exchange_weak(&c->lowest_failed, &lowest, i))
			;
	}
	object_session_return(session);
	return NULL;
}

static void for_all(struct compilation *c, int n, bool (*work)(struct compilation *, int, struct object_session **))
{
	long jobs = c->options->jobs > 0 ? c->options->jobs : sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[MAX_JOBS];
	int started = 0;
	c->n = n;
	c->work = work;
	atomic_store(&c->next, 0);
	atomic_store(&c->lowest_failed, n);
	while (started < jobs - 1 && started < n - 1 && started < MAX_JOBS && !pthread_create(&threads[started], NULL, worker, c))
		started++;
	worker(c);
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

static bool listed(const char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return !list;
}

/* --- first round: the front end */

static int find_optional(const struct ir_kernel *k, const char *name)
{
	for (int i = 0; i < k->nparams; i++)
		if (k->params[i].optional && strcmp(k->params[i].name, name) == 0)
			return i;
	return -1;
}

static const char *optional_names(struct arena *a, const struct ir_kernel *k)
{
	const char *names = "";
	for (int i = 0; i < k->nparams; i++)
		if (k->params[i].optional)
			names = arena_printf(a, "%s%s%s", names, *names ? ", " : "", k->params[i].name);
	return *names ? arena_printf(a, "some of %s", names) : "none";
}

/* Variants for exactly the tensors of `given` besides those of the pack lines.  Sets the item's error where one of them is no optional tensor; *mask: which
 * they are. */
static const struct dsl_special *special_given(struct item *it, const char *given, uint64_t *mask)
{
	ARRAY(struct dsl_tensor) tensors = {0};
	for (size_t n; *(given += strspn(given, " ")); given += n) {
		n = strcspn(given, " ");
		const char *name = arena_string(&it->arena, given, n);
		int param = find_optional(it->generic, name);
		uint64_t bit = param >= 0 ? UINT64_C(1) << param : 0;
		if (*mask & bit)
			continue;
		*mask |= bit;
		if (param < 0)
			it->error = arena_printf(&it->arena, "found '%s' among the tensors that calls will bring; expected %s", name, optional_names(&it->arena, it->generic));
		ARENA_PUSH(&it->arena, &tensors, (struct dsl_tensor){name, false});
	}
	return dsl_special_with(&it->arena, it->binding->special, &(struct dsl_set){tensors.items, tensors.n, NULL, 0});
}

/* Of the set, not of what asks for a tensor. */
static bool is_for(const struct item *it, const struct variant *v, uint64_t given)
{
	uint64_t optional = ir_optional(it->generic);
	return optional && v->given == given && v->absent == (optional & ~given);
}

static bool elaborate_item(struct compilation *c, int i, struct object_session **session)
{
	struct item *it = &c->items[i];
	char why[ERROR_TEXT] = "";
	(void)session;
	if (dsl_elaborate(&it->arena, c->file, it->text, it->binding, it->target ? it->target->name : "", &it->diag, &it->generic) ||
	    it->diag.errors)
		return true;
	bool check = c->options->check, takes = check ? plan_takes_schedule_somewhere(it->generic, it->text, &it->diag)
	                                              : plan_takes_schedule(it->generic, it->text, it->target, &it->diag);
	if (check || !takes)
		return true;
	uint64_t given = 0;
	const struct dsl_special *special = c->options->given ? special_given(it, c->options->given, &given) : it->binding->special;
	if (it->error)
		return false;
	for (const char *const *v = c->options->variants; v && *v; v++)
		special = variant_special(&it->arena, special, *v);
	if (plan_variants(&it->arena, it->generic, it->text, special, it->target, &it->variants, &it->nvariants, why, sizeof why))
		it->error = arena_printf(&it->arena, "%s", why);
	it->pointwise = kernel_is_pointwise(&it->arena, it->generic, it->target, &it->rows, &it->columns);
	int kept = 0;
	for (int v = 0; v < it->nvariants; v++)
		if (listed(c->options->variants, it->variants[v].text) && !(c->options->given_alone && !is_for(it, &it->variants[v], given)))
			it->variants[kept++] = it->variants[v];
	it->nvariants = kept;
	return !it->error;
}

/* --- second round: one object per variant */
static const struct hexpr *copy_expr(struct arena *a, const struct hexpr *e)
{
	if (!e)
		return NULL;
	struct hexpr *n = arena_copy(a, e, sizeof *e);
	n->a = copy_expr(a, e->a);
	n->b = copy_expr(a, e->b);
	return n;
}

static char *copy_text(struct arena *a, const char *s)
{
	return s ? arena_string(a, s, strlen(s)) : NULL;
}

static struct model_launch *copy_launches(struct arena *a, const struct model_launch *from, int n)
{
	struct model_launch *to = arena_copy(a, from, (size_t)n * sizeof *to);
	for (int i = 0; i < n; i++) {
		const struct hexpr **exprs = arena_alloc(a, (size_t)to[i].nexprs * sizeof *exprs + 1);
		to[i].symbol = copy_text(a, from[i].symbol);
		to[i].kargs = arena_copy(a, from[i].kargs, (size_t)from[i].nkargs * sizeof *from[i].kargs);
		to[i].lanes = copy_expr(a, from[i].lanes);
		for (int d = 0; d < 3; d++)
			to[i].grid[d] = copy_expr(a, from[i].grid[d]);
		for (int e = 0; e < to[i].nexprs; e++)
			exprs[e] = copy_expr(a, from[i].exprs[e]);
		to[i].exprs = exprs;
	}
	return to;
}

static struct model_variant copy_variant(struct arena *a, const struct model_variant *v)
{
	struct model_variant n = *v;
	n.predicate = copy_expr(a, v->predicate);
	n.predicate_text = copy_text(a, v->predicate_text);
	n.workspace = copy_expr(a, v->workspace);
	n.launches = copy_launches(a, v->launches, v->nlaunches);
	n.report_json = copy_text(a, v->report_json);
	return n;
}

/* Bytes of the argument block that the kernel's own arguments take. */
static int argument_bytes(const struct model_launch *l)
{
	int end = 0;
	for (int i = 0; i < l->nkargs; i++)
		if (l->kargs[i].offset + l->kargs[i].size > end)
			end = l->kargs[i].offset + l->kargs[i].size;
	return end;
}

/* Enters what the object says into the launches, and into the facts what it does not know; -1 where the two do not fit together. */
static int enter_facts(struct model_launch *launches, int nlaunches, struct object_facts *facts, int nfacts, char *err, size_t errlen)
{
	for (int i = 0; i < nlaunches; i++) {
		struct model_launch *l = &launches[i];
		struct object_facts *f = facts;
		while (f < facts + nfacts && strcmp(f->symbol, l->symbol))
			f++;
		if (f == facts + nfacts) {
			snprintf(err, errlen, "internal: launch %s has no kernel in its object", l->symbol);
			return -1;
		}
		if (f->kernarg_bytes < argument_bytes(l)) {
			snprintf(err, errlen, "internal: launch %s passes %d bytes of arguments, its object takes %d", l->symbol, argument_bytes(l),
			         f->kernarg_bytes);
			return -1;
		}
		l->vgpr = f->vgpr;
		l->agpr = f->agpr;
		l->sgpr = f->sgpr;
		l->lds = f->lds = f->lds > l->lds ? f->lds : l->lds;      /* an object does not know what the launch gives */
		l->scratch = f->scratch;
		l->spills = f->spills;
		l->instructions = f->instructions;
		l->barriers = f->barriers;
	}
	return 0;
}

/* Number v of the item; `kept` is where the result lives.  As variant_build(). */
static int build_variant(struct arena *scratch, struct arena *kept, struct item *it, int v, struct object_session *session, char *err, size_t errlen)
{
	struct variant *choice = &it->variants[v];
	struct model_variant made = {.instance = it->instance, .target = it->target->name, .predicate = choice->predicate, .predicate_text = choice->text};
	struct variant_code code;
	int rc = variant_build(scratch, it->generic, choice, session, &code, err, errlen);
	if (rc)
		return rc;
	made.launches = code.made.launches;
	made.nlaunches = code.made.nlaunches;
	made.workspace = code.made.workspace;
	if (code.made.condition)
		made.predicate = made.predicate ? hexpr_op(scratch, HX_AND, made.predicate, code.made.condition) : code.made.condition;
	rc = enter_facts(made.launches, made.nlaunches, code.facts, code.nfacts, err, errlen);
	if (rc == 0) {
		made.report_json = report_variant_json(scratch, made.launches, made.nlaunches, code.facts, code.nfacts, code.size, code.made.ordered);
		it->attempts[v].made = copy_variant(kept, &made);
		it->attempts[v].object = (struct model_object){it->target->name, arena_copy(kept, code.elf, code.size), code.size};
	}
	free(code.elf);
	return rc;
}

static double thread_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* False where a variant failed otherwise than by not fitting, which may be one too many (variant_is_spare). */
static bool build_unit(struct compilation *c, int number, struct object_session **session)
{
	struct unit *u = &c->units[number];
	struct item *it = u->item;
	bool fits = false, fine = true;
	if (!*session)
		*session = object_session_borrow();
	for (int v = u->first; v < u->first + u->n && fine; v++) {
		struct attempt *t = &it->attempts[v];
		struct arena scratch = {0};
		char why[ERROR_TEXT] = "out of memory";
		double start = thread_ms();
		t->built = !it->variants[v].instead || !fits;
		object_work_enter();
		t->rc = !t->built ? 0 : *session ? build_variant(&scratch, &u->arena, it, v, *session, why, sizeof why) : -1;
		object_work_leave();
		fits = it->variants[v].instead ? fits : t->rc == 0;
		fine = !t->rc || t->rc == OBJECT_SPILLS;
		t->why = t->rc ? arena_printf(&u->arena, "%s", why) : NULL;
		t->made.compile_ms = thread_ms() - start;
		arena_free(&scratch);
		int done = atomic_fetch_add(&c->done, 1) + 1;
		if (c->options->progress)
			c->options->progress(c->options->progress_data, done, c->total, it->text->name);
	}
	return fine;
}

static void choose_units(struct compilation *c, struct arena *a)
{
	c->units = arena_alloc(a, (size_t)c->total * sizeof *c->units + 1);
	for (int i = 0; i < c->nitems; i++) {
		struct item *it = &c->items[i];
		it->attempts = arena_alloc(a, (size_t)it->nvariants * sizeof *it->attempts + 1);
		for (int v = 0; v < it->nvariants; v++)
			if (v && it->variants[v].instead)
				c->units[c->nunits - 1].n++;
			else
				c->units[c->nunits++] = (struct unit){.item = it, .first = v, .n = 1};
	}
}

/* A pass's own text without its place, which a warning has already. */
static const char *without_place(const char *why)
{
	static const char error[] = ": error: ";
	const char *at = strstr(why, error);
	return at ? at + sizeof error - 1 : why;
}

/* What of its variants the item has: in their order, up to the first that failed.  planned: the variants as they were before any was built; which of
 * them are spare is told by those in front as they were built, and those behind as they were planned. */
static void collect_item(struct item *it, struct variant *planned)
{
	it->built = arena_alloc(&it->arena, (size_t)it->nvariants * sizeof *it->built + 1);
	it->objects = arena_alloc(&it->arena, (size_t)it->nvariants * sizeof *it->objects + 1);
	int built = 0;
	for (int v = 0; v < it->nvariants && !it->error; v++) {
		const struct attempt *t = &it->attempts[v];
		bool spare = t->rc == OBJECT_SPILLS && variant_is_spare(planned, it->nvariants, v), replaced = v + 1 < it->nvariants && it->variants[v + 1].instead;
		if (spare && !replaced)
			ARENA_PUSH(&it->arena, &it->left_out, arena_printf(&it->arena, "variant %s is left out: %s", it->variants[v].text, without_place(t->why)));
		else if (t->rc && !spare)
			it->error = arena_printf(&it->arena, "variant %s: %s", it->variants[v].text, t->why);
		else if (t->built && !t->rc) {
			it->built[built] = t->made;
			it->objects[built++] = t->object;
		}
		planned[v] = it->variants[v];
	}
	it->nvariants = built;
}

/* The second round: all variants of all items by all threads. */
static void build_variants(struct compilation *c, struct arena *a)
{
	struct variant **planned = arena_alloc(a, (size_t)c->nitems * sizeof *planned + 1);
	for (int i = 0; i < c->nitems; i++)
		planned[i] = arena_copy(a, c->items[i].variants, (size_t)c->items[i].nvariants * sizeof **planned);
	choose_units(c, a);
	for_all(c, c->nunits, build_unit);
	for (int i = 0; i < c->nitems; i++)
		collect_item(&c->items[i], planned[i]);
}

/* --- messages */
static bool same_message(const struct diag_message *a, const struct diag_message *b)
{
	return a->id == b->id && memcmp(&a->at, &b->at, sizeof a->at) == 0 && strcmp(a->text, b->text) == 0;
}

/* The messages of `from` that `into` has not: instances of one kernel repeat each other's. */
static void merge_messages(struct diag *into, const struct diag *from)
{
	for (int i = 0; i < from->n; i++) {
		int known = 0;
		while (known < into->n && !same_message(&into->messages[known], &from->messages[i]))
			known++;
		if (known < into->n)
			continue;
		if (into->n == into->cap)
			into->messages = arena_grow(into->arena, into->messages, into->n, &into->cap, sizeof *into->messages);
		into->messages[into->n++] = from->messages[i];
	}
	into->errors = into->errors || from->errors;
}

static void print_kernel(FILE *out, const char *file, const struct item *it, const char *what, const char *text)
{
	fprintf(out, "%s:%d:1: %s: kernel %s%s%s%s for %s: %s\n", file, it->text->line, what, it->text->name, *it->binding->text ? "[" : "",
	        it->binding->text, *it->binding->text ? "]" : "", it->target ? it->target->name : "any target", text);
}

/* A pass's own text names its place; other errors get the kernel's. */
static void print_error(FILE *out, const char *file, const struct item *it)
{
	if (strstr(it->error, ": error: ")) {
		const char *place = strncmp(it->error, "variant ", 8) == 0 ? strstr(it->error, ": ") + 2 : it->error;
		fprintf(out, "%s\n", place);
		return;
	}
	print_kernel(out, file, it, "error", it->error);
}

/* --- what to build */
/* Of names not printed yet (the others are NULL), the first that begins most like `wanted`; NULL = there is none. */
static const char *nearest(const char *wanted, const char *const *names, int n)
{
	const char *best = NULL;
	int most = -1;
	for (int i = 0; i < n; i++) {
		int shared = 0;
		while (names[i] && names[i][shared] && names[i][shared] == wanted[shared])
			shared++;
		if (names[i] && shared > most) {
			best = names[i];
			most = shared;
		}
	}
	return best;
}

/* Prints a few names, those that begin most like the one that is not there; takes what it prints from the list. */
static void print_near(FILE *out, const char *wanted, const char **names, int n)
{
	enum { NEAR = 12 };
	const char *name;
	for (int printed = 0; (name = nearest(wanted, names, n)) != NULL; printed++) {
		fprintf(out, "%s %s", printed ? "," : "", printed < NEAR ? name : "..");
		if (printed == NEAR)
			break;
		for (int i = 0; i < n; i++)
			if (names[i] && strcmp(names[i], name) == 0)   /* instances of several kernels are named alike */
				names[i] = NULL;
	}
	fputc('\n', out);
}

/* Every name of `wanted` must be one that the file has, of kernels or of instances; 0, or -1 with a line in `out`. */
static int check_names(struct arena *a, FILE *out, const char *file, const struct dsl_file *f, const char *const *wanted, bool instances)
{
	struct { const char **items; int n, cap; } names = {0};
	bool nameless = false;
	for (int k = 0; k < f->nkernels; k++) {
		if (!instances)
			ARENA_PUSH(a, &names, f->kernels[k].name);
		for (int i = 0; instances && i < f->kernels[k].nall; i++)
			if (f->kernels[k].all[i].text[0])
				ARENA_PUSH(a, &names, f->kernels[k].all[i].text);
			else
				nameless = true;                    /* a kernel without choices has one instance, of no name */
	}
	for (; wanted && *wanted; wanted++) {
		bool found = nameless && !**wanted;
		for (int i = 0; i < names.n; i++)
			found |= strcmp(names.items[i], *wanted) == 0;
		if (found)
			continue;
		fprintf(out, "%s: error: no %s \"%s\"; the file has", file, instances ? "instance" : "kernel", *wanted);
		print_near(out, *wanted, names.items, names.n);
		return -1;
	}
	return 0;
}

/* The bindings of a kernel that are to be built. */
static struct dsl_binding *choose_bindings(struct arena *a, const struct dsl_kernel *k, const struct compile_options *o, int *n)
{
	bool every = o->instances || o->check;
	const struct dsl_binding *from = every ? k->all : k->packed;
	int nfrom = every ? k->nall : k->npacked;
	struct dsl_binding *chosen = arena_alloc(a, (size_t)nfrom * sizeof *chosen + 1);
	*n = 0;
	for (int i = 0; i < nfrom; i++)
		if (listed(o->instances, from[i].text))
			chosen[(*n)++] = from[i];
	return chosen;
}

static int choose_targets(FILE *out, const char *const *names, const struct target **targets, int most)
{
	static const char *const both[] = {"gfx942", "gfx950", NULL};
	int n = 0;
	for (names = names ? names : both; *names && n < most; names++) {
		const struct target *t = target_by_name(*names);
		for (int i = 0; i < n; i++)
			if (t == targets[i])
				goto next;
		if (!t) {
			fprintf(out, "error: unknown target \"%s\"; known: %s\n", *names, target_names());
			return -1;
		}
		targets[n++] = t;
	next:;
	}
	return n;
}

/* Kernels with their signatures into the pack, and the items to work on.  A kernel that the pack block leaves out is there with all its
 * choices and no variant: a call compiles what it needs.  Whether one may need a workspace is the text's to say, for the pack may hold no variant that does. */
static int choose_items(struct compilation *c, struct compile_result *r, struct diag *diag, const struct target **targets, int ntargets)
{
	const struct dsl_file *f = c->file;
	ARRAY(struct item) items = {0};
	r->pack.kernels = arena_alloc(&r->arena, (size_t)f->nkernels * sizeof *r->pack.kernels + 1);
	for (int k = 0; k < f->nkernels; k++) {
		struct dsl_kernel *chosen = arena_copy(&r->arena, &f->kernels[k], sizeof *chosen);
		if (!listed(c->options->kernels, chosen->name))
			continue;
		chosen->packed = choose_bindings(&r->arena, &f->kernels[k], c->options, &chosen->npacked);
		bool left_out = !chosen->npacked && !c->options->instances;          /* `none` in the pack block */
		if (left_out)
			chosen->packed = chosen->all, chosen->npacked = chosen->nall;
		else if (!chosen->npacked)
			continue;
		if (dsl_signature(&r->arena, f, chosen, diag, &r->pack.kernels[r->pack.nkernels]))
			continue;
		r->pack.kernels[r->pack.nkernels].has_workspace = chosen->temps;
		for (int i = 0; i < chosen->npacked && !left_out; i++)
			for (int t = 0; t < ntargets; t++)
				ARENA_PUSH(&r->arena, &items, (struct item){.text = chosen, .binding = &chosen->packed[i], .target = targets[t],
				           .kernel = r->pack.nkernels, .instance = i});
		r->pack.nkernels++;
	}
	c->items = items.items;
	c->nitems = items.n;
	for (int i = 0; i < items.n; i++) {
		c->items[i].diag = *diag;
		c->items[i].diag.arena = &c->items[i].arena;
		c->items[i].diag.messages = NULL;
		c->items[i].diag.n = c->items[i].diag.cap = c->items[i].diag.errors = 0;
	}
	return diag->errors ? -1 : 0;
}

/* --- the result */
static void assemble(struct compilation *c, struct compile_result *r)
{
	struct model_pack *p = &r->pack;
	int total = 0;
	for (int i = 0; i < c->nitems; i++)
		total += c->items[i].nvariants;
	p->objects = arena_alloc(&r->arena, (size_t)total * sizeof *p->objects + 1);
	for (int i = 0; i < c->nitems;) {
		struct model_kernel *k = &p->kernels[c->items[i].kernel];
		int end = i, n = 0;
		while (end < c->nitems && c->items[end].kernel == c->items[i].kernel)
			n += c->items[end++].nvariants;
		k->variants = arena_alloc(&r->arena, (size_t)n * sizeof *k->variants + 1);
		k->pointwise = c->items[i].pointwise;
		k->rows = c->items[i].rows;
		k->columns = c->items[i].columns;
		for (int o = i; o < end; o++)                        /* of all its instances, on all targets */
			k->pointwise = k->pointwise && c->items[o].pointwise && c->items[o].rows == k->rows && c->items[o].columns == k->columns;
		for (; i < end; i++)
			for (int v = 0; v < c->items[i].nvariants; v++) {
				const struct model_object *o = &c->items[i].objects[v];
				struct model_variant *m = &k->variants[k->nvariants++];
				*m = copy_variant(&r->arena, &c->items[i].built[v]);
				m->object = p->nobjects;
				p->objects[p->nobjects++] = (struct model_object){o->target, arena_copy(&r->arena, o->bytes, o->size), o->size};
			}
	}
}

static void describe(struct compile_result *r, const char *text, size_t n, const char *file, const struct compile_options *o, const struct target **targets, int ntargets)
{
	unsigned major, minor, patch;
	XXH3_state_t *state = XXH3_createState();
	LLVMGetVersion(&major, &minor, &patch);
	r->pack.tdsl_version = TDSL_VERSION;
	r->pack.llvm_version = arena_printf(&r->arena, "%u.%u.%u", major, minor, patch);
	r->pack.licence = "MIT";
	char *list = "";
	for (int t = 0; t < ntargets; t++)
		list = arena_printf(&r->arena, "%s%s%s", list, t ? "," : "", targets[t]->name);
	r->pack.options = arena_printf(&r->arena, "--target %s", list);
	const char *flavours = "";
	for (int t = 0; t < ntargets; t++)
		flavours = arena_printf(&r->arena, "%s%s%s: %s %s", flavours, t ? "; " : "", targets[t]->name,
		                        dtype_info(model_native(targets[t]->name, 8))->name, dtype_info(model_native(targets[t]->name, 9))->name);
	r->pack.fp8 = flavours;
	const char *slash = strrchr(file, '/');
	r->pack.source = o->library ? "" : arena_string(&r->arena, text, n);
	r->pack.source_name = arena_printf(&r->arena, "%s", slash ? slash + 1 : file);
	if (!state)
		return;
	XXH3_128bits_reset(state);
	XXH3_128bits_update(state, text, n);
	if (o->library)
		XXH3_128bits_update(state, o->library, strlen(o->library));
	XXH128_hash_t h = XXH3_128bits_digest(state);
	XXH3_freeState(state);
	r->pack.source_hash[0] = h.low64;
	r->pack.source_hash[1] = h.high64;
}

/* Runs both rounds; 0, or -1 with errors in diag or in the items. */
static int build_items(struct compilation *c, struct arena *a, struct diag *diag)
{
	int failed = 0;
	for_all(c, c->nitems, elaborate_item);
	for (int i = 0; i < c->nitems; i++) {
		merge_messages(diag, &c->items[i].diag);
		failed |= c->items[i].error != NULL;
		c->total += c->items[i].nvariants;
	}
	if (diag->errors || (failed && !c->options->keep_going))
		return -1;
	if (c->options->check)
		return failed ? -1 : 0;
	build_variants(c, a);
	for (int i = 0; i < c->nitems; i++)
		failed |= c->items[i].error != NULL;
	return failed ? -1 : 0;
}

static void print_left_out(FILE *out, const char *file, const struct compilation *c)
{
	for (int i = 0; i < c->nitems; i++)
		for (int n = 0; n < c->items[i].left_out.n; n++)
			print_kernel(out, file, &c->items[i], "warning", c->items[i].left_out.items[n]);
}

static void print_errors(FILE *out, const char *file, const struct compilation *c)
{
	int shown = 0;
	for (int i = 0; i < c->nitems && shown < MAX_ERRORS; i++)
		if (c->items[i].error) {
			print_error(out, file, &c->items[i]);
			shown++;
			if (!c->options->keep_going)
				break;
		}
}

int compile_text(const char *text, size_t n, const char *file, const struct compile_options *o, struct compile_result *r)
{
	struct compilation c = {.options = o};
	const struct target *targets[8] = {NULL};
	struct dsl_file *parsed = NULL;
	char *messages = NULL;
	size_t len = 0;
	memset(r, 0, sizeof *r);
	struct diag diag = {.arena = &r->arena, .file = file, .source = text, .size = n, .library = o->library,
	                    .library_size = o->library ? strlen(o->library) : 0};
	FILE *out = open_memstream(&messages, &len);
	if (!out) {
		r->messages = "error: out of memory";
		return -1;
	}
	int ntargets = o->check ? 1 : choose_targets(out, o->targets, targets, 8);
	int rc = ntargets < 0 || dsl_parse(&r->arena, text, n, file, o->library, o->kernels, &diag, &parsed) || diag.errors ? -1 : 0;
	c.file = parsed;
	if (rc == 0)
		rc = check_names(&r->arena, out, file, parsed, o->kernels, false) || check_names(&r->arena, out, file, parsed, o->instances, true) ||
		     choose_items(&c, r, &diag, targets, ntargets) ? -1 : 0;
	if (rc == 0)
		rc = build_items(&c, &r->arena, &diag);
	if (diag.n)
		fputs(diag_text(&diag), out);
	print_left_out(out, file, &c);
	print_errors(out, file, &c);
	if (rc == 0 && !o->check) {
		assemble(&c, r);
		describe(r, text, n, file, o, targets, ntargets);
	}
	fclose(out);
	r->messages = len ? arena_string(&r->arena, messages, len) : NULL;
	free(messages);
	for (int i = 0; i < c.nunits; i++)
		arena_free(&c.units[i].arena);
	for (int i = 0; i < c.nitems; i++)
		arena_free(&c.items[i].arena);
	return rc;
}

void compile_result_free(struct compile_result *r)
{
	if (r)
		arena_free(&r->arena);
}
