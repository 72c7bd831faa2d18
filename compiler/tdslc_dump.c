/* tdslc_dump.c -- dump: one kernel at one stage of its compilation, and why it looks so.
 *
 * In: a text, a kernel, an instance, a target, a variant.  Out: text on standard output.  The stages are those of compile_text,
 * called one by one.  What a pass is for is printed from the comment that opens its source, which is built in below (the assembler
 * finds it from the tree's top, where make runs): the explanation and the code cannot drift apart. */
#include "tdslc.h"

#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "object.h"

enum { TEXT = 2000 };

/* The sources that open with a pass's explanation, as text: SOURCE(pass). */
#define SOURCES SOURCE(specialise) SOURCE(schedule) SOURCE(simplify) SOURCE(math) SOURCE(bounds) SOURCE(reduce) SOURCE(stream) SOURCE(layout)
#define SOURCE(pass) \
	__asm__(".pushsection .rodata\npass_source_" #pass ":\n.incbin \"compiler/pass_" #pass ".c\"\n.byte 0\n.popsection\n"); \
	extern const char pass_source_##pass[] __attribute__((visibility("hidden")));
SOURCES
#undef SOURCE

static const struct { const char *pass, *text; } sources[] = {
#define SOURCE(pass) {#pass, pass_source_##pass},
SOURCES
#undef SOURCE
};

static const struct { const char *name, *needs, *keeps; } passes[] = {
#define PASS(name, needs, keeps) {#name, needs, keeps},
#include "pass.def"
#undef PASS
};

struct dump {
	const struct arguments *a;
	const char *file, *stage;
	struct diag diag;
	struct dsl_file *parsed;
	const struct dsl_kernel *kernel;
	const struct dsl_binding *binding;
	const struct target *target;
	struct ir_kernel *generic;
	struct variant *variants; int nvariants;
	struct variant *variant;
};

static int print_messages(struct dump *d)
{
	if (d->diag.n)
		fputs(diag_text(&d->diag), stderr);
	return d->diag.errors ? EXIT_ERROR : EXIT_FINE;
}

/* Errors of passes and translation name their own place. */
static int stage_error(const char *why)
{
	if (!strstr(why, ": error: "))
		return error("%s", why);
	fprintf(stderr, "%s\n", why);
	return EXIT_ERROR;
}

static int choose_kernel(struct dump *d)
{
	const char *name = option(d->a, "--kernel"), *instance = option(d->a, "--instance");
	for (int k = 0; k < d->parsed->nkernels; k++)
		if (strcmp(d->parsed->kernels[k].name, name) == 0)
			d->kernel = &d->parsed->kernels[k];
	if (!d->kernel)
		return error("%s: no kernel \"%s\"", d->file, name);
	for (int i = 0; i < d->kernel->nall && !d->binding; i++)
		if (!instance || strcmp(d->kernel->all[i].text, instance) == 0)
			d->binding = &d->kernel->all[i];
	if (!d->binding)
		return error("%s: kernel %s has no instance \"%s\"", d->file, name, instance ? instance : "");
	return EXIT_FINE;
}

/* As it is built: in smaller tiles where the planned ones do not fit.  What cannot be built is shown as planned. */
static void fit_variant(struct dump *d)
{
	char why[TEXT];
	struct variant_code built;
	struct arena scratch = {0};
	struct object_session *session = object_session_new();
	if (session && variant_build(&scratch, d->generic, d->variant, session, &built, why, sizeof why) == 0)
		free(built.elf);
	object_session_free(session);
	arena_free(&scratch);
}

static int choose_variant(struct dump *d)
{
	char why[TEXT] = "";
	const char *wanted = option(d->a, "--variant");
	const struct dsl_special *special = wanted ? variant_special(d->a->arena, d->binding->special, wanted) : d->binding->special;
	if (!plan_takes_schedule(d->generic, d->kernel, d->target, &d->diag))
		return print_messages(d);
	if (plan_variants(d->a->arena, d->generic, d->kernel, special, d->target, &d->variants, &d->nvariants, why, sizeof why))
		return stage_error(why);
	for (int v = 0; v < d->nvariants && !d->variant; v++)
		if (!wanted || strcmp(d->variants[v].text, wanted) == 0)
			d->variant = &d->variants[v];
	if (d->variant) {
		fit_variant(d);
		return EXIT_FINE;
	}
	error("kernel %s has no variant \"%s\" for %s; it has:", d->kernel->name, wanted, d->target->name);
	for (int v = 0; v < d->nvariants; v++)
		fprintf(stderr, "    %s\n", d->variants[v].text);
	return EXIT_ERROR;
}

/* --- explain */
static void explain_variant(FILE *out, const struct dump *d, const struct variant *v)
{
	fprintf(out, "%s variant %s:", v == d->variant ? "*" : " ", v->text);
	for (int i = 0; i < v->npins; i++)
		fprintf(out, " %s=%lld", d->generic->symbols[v->pins[i].symbol], (long long)v->pins[i].value);
	for (int i = 0; i < v->nmultiples; i++)
		fprintf(out, " %s%%%lld==0", d->generic->symbols[v->multiples[i].symbol], (long long)v->multiples[i].multiple);
	for (int i = 0; i < v->nlimits; i++)
		fprintf(out, " %lld<=%s<=%lld", (long long)v->limits[i].least, d->generic->symbols[v->limits[i].symbol], (long long)v->limits[i].most);
	for (int i = 0; i < v->ntiles; i++)
		if (v->tiles[i].phase > 0)
			fprintf(out, " tile(phase %d, %s)=%d", v->tiles[i].phase + 1, v->tiles[i].axis, v->tiles[i].tile);
		else
			fprintf(out, " tile(%s)=%d", v->tiles[i].axis, v->tiles[i].tile);
	if (v->waves)
		fprintf(out, " waves=%d", v->waves);
	for (int i = 0; i < v->napart; i++)
		fprintf(out, " waves(phase %d)=%d", v->apart[i].phase + 1, v->apart[i].waves);
	if (v->cluster)
		fprintf(out, " cluster=%d", v->cluster);
	if (v->carries)
		fprintf(out, " workgroups=%d", v->carries);
	if (v->beside > 1)
		fprintf(out, " beside=%d%s", v->beside, v->uneven ? " uneven" : "");
	if (v->joined)
		fprintf(out, " joined");
	if (v->rounds)
		fprintf(out, " rounds=%d%s", v->rounds, v->pace ? " paced" : "");
	if (v->next)
		fprintf(out, " next");
	fprintf(out, "%s%s%s\n", !v->aligned ? "" : v->single ? " unaligned" : " aligned", v->flat ? " flat" : "", v->stream ? " stream" : "");
}

/* The comment that opens a pass's source, without its marks; of a pass without a source of its own what the list says. */
static void explain_pass(FILE *out, unsigned pass)
{
	const char *source = NULL;
	for (unsigned i = 0; i < sizeof sources / sizeof *sources; i++)
		if (strcmp(sources[i].pass, passes[pass].name) == 0)
			source = sources[i].text;
	const char *end = source ? strstr(source, "*/") : NULL, *line = source ? strchr(source, '\n') : NULL;
	if (!end)
		fprintf(out, "    Needs:   %s.   Keeps: %s.\n", passes[pass].needs, passes[pass].keeps);
	while (line && end && line < end) {
		line++;
		size_t n = strcspn(line, "\n"), skip = strncmp(line, " * ", 3) == 0 ? 3 : 0;
		if (line + n > end)
			n = (size_t)(end - line);
		if (n > skip)
			fprintf(out, "    %.*s\n", (int)(n - skip), line + skip);
		line = strchr(line, '\n');
	}
}

static int explain(struct dump *d)
{
	char why[TEXT] = "";
	const char *before = ir_print(d->a->arena, d->generic);
	printf("kernel %s%s%s%s for %s\n", d->kernel->name, *d->binding->text ? "[" : "", d->binding->text, *d->binding->text ? "]" : "", d->target->name);
	for (int v = 0; v < d->nvariants; v++)
		explain_variant(stdout, d, &d->variants[v]);
	for (unsigned i = 0; i < sizeof passes / sizeof *passes; i++) {
		struct ir_kernel *k;
		if (run_passes(d->a->arena, d->generic, d->variant, passes[i].name, &k, why, sizeof why))
			return stage_error(why);
		const char *after = ir_print(d->a->arena, k);
		printf("\npass %s%s\n", passes[i].name, strcmp(before, after) ? "" : " (changed nothing here)");
		explain_pass(stdout, i);
		before = after;
	}
	return fflush(stdout) ? error("standard output: cannot write") : EXIT_FINE;
}

/* --- stages */
static int dump_code(struct dump *d, const struct ir_kernel *final)
{
	char why[TEXT] = "";
	struct translated made;
	int code = EXIT_ERROR;
	struct object_session *session = object_session_new();
	if (!session)
		return error("out of memory");
	if (strcmp(d->stage, "llvm") == 0) {
		if (translate(d->a->arena, final, d->variant, object_context(session), &made, why, sizeof why) == 0) {
			char *text = LLVMPrintModuleToString(made.module);
			code = print(text);
			LLVMDisposeMessage(text);
			LLVMDisposeModule(made.module);
		} else {
			code = stage_error(why);
		}
	} else {
		struct variant_code built;
		char *text = NULL;
		if (variant_code(d->a->arena, final, d->variant, session, &built, why, sizeof why) == 0) {
			text = object_disassembly(d->a->arena, d->target, built.elf, built.size, why, sizeof why);
			free(built.elf);
		}
		code = text ? print(text) : stage_error(why);
	}
	object_session_free(session);
	return code;
}

static bool is_pass(const char *name)
{
	for (unsigned i = 0; i < sizeof passes / sizeof *passes; i++)
		if (strcmp(passes[i].name, name) == 0)
			return true;
	return false;
}

static int dump_stage(struct dump *d)
{
	char why[TEXT] = "";
	struct ir_kernel *k;
	bool code = !strcmp(d->stage, "llvm") || !strcmp(d->stage, "asm");
	if (run_passes(d->a->arena, d->generic, d->variant, code ? NULL : d->stage, &k, why, sizeof why))
		return stage_error(why);
	return code ? dump_code(d, k) : print(ir_print(d->a->arena, k));
}

static int dump_kernel(struct dump *d)
{
	bool ast = strcmp(d->stage, "ast") == 0, variant = option(d->a, "--variant") != NULL;
	bool generic = strcmp(d->stage, "ir") == 0 && !option(d->a, "--target") && !option(d->a, "--explain") && !variant;
	int code = choose_kernel(d);
	if (code)
		return code;
	if (ast && !variant)
		return print(dsl_dump(d->a->arena, d->parsed, d->kernel));
	int rc = dsl_elaborate(d->a->arena, d->parsed, d->kernel, d->binding, generic ? "" : d->target->name, &d->diag, &d->generic);
	if (print_messages(d) || rc)
		return EXIT_ERROR;
	if (!generic && (code = choose_variant(d)))
		return code;
	if (option(d->a, "--explain") && (code = explain(d)))
		return code;
	if (ast)
		return print(dsl_dump(d->a->arena, d->parsed, d->kernel));
	if (strcmp(d->stage, "ir") == 0)
		return print(ir_print(d->a->arena, d->generic));
	return *d->stage ? dump_stage(d) : EXIT_FINE;
}

int command_dump(const struct arguments *a)
{
	static const char *const plain[] = {"", "ast", "ir", "llvm", "asm"};
	struct dump d = {.a = a, .file = a->words[0], .stage = option(a, "--stage")};
	const char *target = option(a, "--target"), *library;
	char *text;
	size_t n;
	bool known = false;
	if (!option(a, "--kernel") || (!d.stage && !option(a, "--explain")))
		return usage_error(a, "--kernel K and --stage S are needed");
	d.stage = d.stage ? d.stage : "";
	for (unsigned i = 0; i < sizeof plain / sizeof *plain; i++)
		known |= strcmp(plain[i], d.stage) == 0;
	if (!known && !is_pass(d.stage)) {
		char *names = "";
		for (unsigned i = 0; i < sizeof passes / sizeof *passes; i++)
			names = arena_printf(a->arena, "%s, %s", names, passes[i].name);
		return usage_error(a, "unknown stage %s; known: ast, ir%s, llvm, asm", d.stage, names);
	}
	d.target = target_by_name(target ? target : "gfx942");
	if (!d.target)
		return usage_error(a, "unknown target %s; known: %s", target, target_names());
	int code = read_text(a, d.file, &text, &n, &library);
	if (code)
		return code;
	d.diag = (struct diag){.arena = a->arena, .file = d.file, .source = text, .size = n, .library = library,
	                       .library_size = library ? strlen(library) : 0};
	if (dsl_parse(a->arena, text, n, d.file, library, NULL, &d.diag, &d.parsed) || d.diag.errors) {
		print_messages(&d);
		return EXIT_ERROR;
	}
	return dump_kernel(&d);
}
