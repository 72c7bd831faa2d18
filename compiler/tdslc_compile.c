/* tdslc_compile.c -- what subcommands that read a text share: FILE and its library read, compiled for the targets asked for.
 * In: the command line.  Out: a text, or a result with its messages on standard error; a result's place that is read itself is refused. */
#include "tdslc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../runtime/env.h"
#include "binding.h"
#include "file.h"

enum { TEXT = 1000 };

int read_text(const struct arguments *a, const char *path, char **text, size_t *n, const char **library)
{
	char why[TEXT];
	const char *folder = option(a, "--library");
	char *bytes = file_read_text(path, 0, n, why, sizeof why), *lib = NULL;
	if (bytes && folder && !(lib = library_read(folder, why, sizeof why))) {
		free(bytes);
		bytes = NULL;
	}
	if (!bytes && strstr(why, ": error: ")) { /* names its place as the compiler's messages do */
		fprintf(stderr, "%s\n", why);
		return EXIT_ERROR;
	}
	if (!bytes)
		return error("%s", why);
	*text = arena_string(a->arena, bytes, *n);
	*library = lib ? arena_string(a->arena, lib, strlen(lib)) : NULL;
	free(bytes);
	free(lib);
	return EXIT_FINE;
}

int output_check(const struct arguments *a, const char *what, const char *path)
{
	const char *folder = option(a, "--library"), *in = option(a, "--in");
	if (!path)
		return EXIT_FINE;
	char *library = folder ? library_has(folder, path) : NULL;
	const char *read = library ? arena_string(a->arena, library, strlen(library)) : file_is(path, a->words[0]) ? a->words[0]
	                   : in && file_is(path, in) ? in : NULL;
	free(library);
	if (read)
		return usage_error(a, "%s %s would overwrite %s, which is read; another file is needed", what, path, read);
	return EXIT_FINE;
}

static int read_jobs(const struct arguments *a, int *jobs)
{
	const char *text = option(a, "-j");
	char *end = "";
	long n = text ? strtol(text, &end, 10) : 0;
	if (text && (*end || end == text || n < 1 || n > 1024))
		return usage_error(a, "-j %s: a number of threads from 1 to 1024 is needed", text);
	return env_jobs(jobs, (int)n) < 0 ? error("%s", tdsl_error()) : EXIT_FINE;
}

static bool is_asked_for(const char *const *kernels, const char *name)
{
	const char *const *k = kernels;
	while (k && *k && strcmp(*k, name))
		k++;
	return !k || *k;
}

/* What is made for another kernel and has this one's name, NULL = nothing. */
static const char *name_of_another(const struct arguments *a, const struct dsl_file *f, const char *name, const char *const *kernels)
{
	for (int i = 0; i < f->nkernels; i++) {
		const struct dsl_kernel *o = &f->kernels[i];
		size_t n = strlen(o->name);
		if (!is_asked_for(kernels, o->name) || strncmp(name, o->name, n))
			continue;
		if (o->temps && !strcmp(name + n, "_workspace"))
			return arena_printf(a->arena, "of the function for the workspace of kernel '%s', line %d", o->name, o->line);
		if (option(a, "--binding") && !strcmp(name + n, "_binding"))
			return arena_printf(a->arena, "of the record in the binding of kernel '%s', line %d", o->name, o->line);
	}
	return NULL;
}

/* Kernels that C functions are asked for have names that functions can have.  What the text says wrong is told when it is compiled. */
static int names_check(const struct arguments *a, const char *text, size_t n, const char *library, const char *const *kernels)
{
	const char *asking = option(a, "--emit") ? "--emit so" : option(a, "--header") ? "--header" : NULL;
	struct diag diag = {.arena = a->arena, .file = a->words[0], .source = text, .size = n};
	struct dsl_file *file;
	int code = EXIT_FINE;
	if (!asking || dsl_parse(a->arena, text, n, a->words[0], library, NULL, &diag, &file) || diag.errors)
		return EXIT_FINE;
	for (int i = 0; i < file->nkernels; i++) {
		const struct dsl_kernel *k = &file->kernels[i];
		const char *taken = binding_name_taken(k->name);
		taken = taken ? taken : name_of_another(a, file, k->name, kernels);
		if (!taken || !is_asked_for(kernels, k->name))
			continue;
		fprintf(stderr, "%s:%d: error: kernel '%s' with %s: the name is %s; expected one that a C function can have\n", a->words[0], k->line, k->name,
		        asking, taken);
		code = EXIT_ERROR;
	}
	return code;
}

int compile_file(const struct arguments *a, const char *target, bool check, bool keep_going, struct compile_result *r)
{
	char *text;
	size_t n;
	const char *const *asked = option_list(a, "--target", true), *own[] = {target, NULL};
	struct compile_options o = {.targets = asked || !target ? asked : own, .kernels = option_list(a, "--kernel", false),
	                            .instances = option_list(a, "--instance", false), .check = check, .keep_going = keep_going};
	memset(r, 0, sizeof *r);
	int code = read_jobs(a, &o.jobs);
	for (int t = 0; code == EXIT_FINE && o.targets && o.targets[t]; t++)
		if (!target_by_name(o.targets[t]))
			code = usage_error(a, "unknown target %s; known: %s", o.targets[t], target_names());
	if (code == EXIT_FINE)
		code = read_text(a, a->words[0], &text, &n, &o.library);
	if (code == EXIT_FINE)
		code = names_check(a, text, n, o.library, o.kernels);
	if (code != EXIT_FINE)
		return code;
	struct progress progress;
	progress_start(&progress);
	o.progress = progress_step;
	o.progress_data = &progress;
	int rc = compile_text(text, n, a->words[0], &o, r);
	progress_end(&progress);
	if (r->messages)
		fputs(r->messages, stderr);
	return rc ? EXIT_ERROR : EXIT_FINE;
}
