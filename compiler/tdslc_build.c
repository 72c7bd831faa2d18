/* tdslc_build.c -- the subcommands that compile, and no more: build, check.
 * In: a text and choices.  Out: files written whole or not at all; diagnostics on standard error as the compiler made them. */
#include "tdslc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../runtime/pack.h"
#include "dictionary.h"
#include "file.h"
#include "report.h"

enum { TEXT = 1000 };

/* --- compile_ms of a pack, kept beside it, since packs themselves are reproducible: one line per variant after a line that names
 * the pack's source */
static char *times_text(struct arena *a, const struct model_pack *p)
{
	char *text = arena_printf(a, "%016llx%016llx\n", (unsigned long long)p->source_hash[1], (unsigned long long)p->source_hash[0]);
	for (int k = 0; k < p->nkernels; k++)
		for (int v = 0; v < p->kernels[k].nvariants; v++)
			text = arena_printf(a, "%s%.3f\n", text, p->kernels[k].variants[v].compile_ms);
	return text;
}

const double *times_read(struct arena *a, const char *pack_path, const struct model_pack *p)
{
	char why[TEXT], source[40];
	size_t size;
	int total = 0, n = 0;
	for (int k = 0; k < p->nkernels; k++)
		total += p->kernels[k].nvariants;
	char *text = file_read(arena_printf(a, "%s.times", pack_path), &size, why, sizeof why);
	snprintf(source, sizeof source, "%016llx%016llx\n", (unsigned long long)p->source_hash[1], (unsigned long long)p->source_hash[0]);
	double *times = arena_alloc(a, (size_t)total * sizeof *times + 1);
	char *at = text && strncmp(text, source, 33) == 0 ? text + 33 : NULL;
	while (at && *at && n < total) {
		char *end;
		times[n] = strtod(at, &end);
		if (end == at || *end != '\n')
			break;
		n++;
		at = end + 1;
	}
	bool whole = at && !*at && n == total;
	free(text);
	return whole ? times : NULL;
}

/* --- build */
/* What the command line says about the pack itself. */
static void describe(const struct arguments *a, struct model_pack *p)
{
	if (option(a, "--licence"))
		p->licence = option(a, "--licence");
	if (option(a, "--no-source"))
		p->source = p->source_name = "";
}

static int write_results(const struct arguments *a, struct compile_result *r)
{
	const char *out = option(a, "-o"), *header = option(a, "--header"), *binding = option(a, "--binding");
	char why[TEXT];
	void *bytes;
	size_t size;
	if (pack_write(&r->pack, &bytes, &size, why, sizeof why))
		return error("%s", why);
	const char *times = times_text(a->arena, &r->pack);
	struct file_out files[4] = {{out, bytes, size}};
	int n = 1;
	if (strncmp(out, "/dev/", 5))
		files[n++] = (struct file_out){arena_printf(a->arena, "%s.times", out), times, strlen(times)};
	if (header) {
		const char *text = binding_header(a->arena, &r->pack, header);
		files[n++] = (struct file_out){header, text, strlen(text)};
	}
	if (binding) {
		const char *text = binding_source(a->arena, &r->pack, header);
		files[n++] = (struct file_out){binding, text, strlen(text)};
	}
	int rc = files_write(files, n, why, sizeof why);
	free(bytes);
	return rc ? error("%s", why) : EXIT_FINE;
}

/* The library, and its header: H.h of --header, else beside the library under its name. */
static int write_library(const struct arguments *a, struct compile_result *r)
{
	const char *out = option(a, "-o"), *header = option(a, "--header"), *slash = strrchr(out, '/');
	char why[TEXT];
	void *pack, *elf;
	size_t pack_size, size, n = strlen(out);
	if (pack_write(&r->pack, &pack, &pack_size, why, sizeof why))
		return error("%s", why);
	if (!header)
		header = arena_printf(a->arena, "%.*s.h", (int)(n > 3 && !strcmp(out + n - 3, ".so") ? n - 3 : n), out);
	int rc = output_check(a, "the header", header);
	if (rc != EXIT_FINE) {
		free(pack);
		return rc;
	}
	rc = host_library(a->arena, &r->pack, pack, pack_size, slash ? slash + 1 : out, &elf, &size, why, sizeof why);
	free(pack);
	if (rc)
		return error("%s", why);
	const char *text = binding_header(a->arena, &r->pack, header);
	struct file_out files[] = {{out, elf, size}, {header, text, strlen(text)}};
	rc = files_write(files, 2, why, sizeof why);
	free(elf);
	return rc ? error("%s", why) : EXIT_FINE;
}

/* No result takes the place of what is read, or of another result. */
static int outputs_check(const struct arguments *a)
{
	static const char *const names[] = {"-o", "--header", "--binding"};
	enum { N = sizeof names / sizeof *names };
	const char *times = arena_printf(a->arena, "%s.times", option(a, "-o"));
	int code = output_check(a, "-o: the compile times in", times);
	for (int i = 0; i < N && code == EXIT_FINE; i++) {
		const char *path = option(a, names[i]);
		code = output_check(a, names[i], path);
		for (int j = 0; j < i && path && code == EXIT_FINE; j++)
			if (option(a, names[j]) && (!strcmp(path, option(a, names[j])) || file_is(path, option(a, names[j]))))
				code = usage_error(a, "%s %s: %s names the same file", names[i], path, names[j]);
	}
	return code;
}

int command_build(const struct arguments *a)
{
	const char *emit = option(a, "--emit");
	char why[TEXT];
	struct compile_result r;
	if (emit && strcmp(emit, "so"))
		return usage_error(a, "--emit %s: only \"so\" is known", emit);
	if (!option(a, "-o"))
		return usage_error(a, "-o OUT.tpack is needed");
	if (emit && option(a, "--binding"))
		return usage_error(a, "--emit so has the functions inside: no --binding");
	if (option(a, "--binding") && !option(a, "--header"))
		return usage_error(a, "--binding includes the header: --header H.h is needed too");
	int code = outputs_check(a);
	if (code != EXIT_FINE)
		return code;
	code = compile_file(a, NULL, false, false, &r);
	describe(a, &r.pack);
	if (code == EXIT_FINE && dictionary_train(&r.arena, &r.pack, why, sizeof why))
		code = error("%s", why);
	if (code == EXIT_FINE)
		code = emit ? write_library(a, &r) : write_results(a, &r);
	compile_result_free(&r);
	return code;
}

int command_check(const struct arguments *a)
{
	struct compile_result r;
	int code = compile_file(a, NULL, true, true, &r);
	compile_result_free(&r);
	return code;
}
