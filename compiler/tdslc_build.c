/* tdslc_build.c -- the subcommands that compile: build, check, tune.
 * In: a text and choices.  Out: files written whole or not at all; diagnostics on standard error as the compiler made them. */
#include "tdslc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../runtime/pack.h"
#include "file.h"
#include "report.h"

enum { TEXT = 1000 };

int read_text(const struct arguments *a, const char *path, char **text, size_t *n, const char **library)
{
	char why[TEXT];
	const char *folder = option(a, "--library");
	char *bytes = file_read(path, n, why, sizeof why), *lib = NULL;
	if (bytes && folder && !(lib = library_read(folder, why, sizeof why))) {
		free(bytes);
		bytes = NULL;
	}
	if (!bytes)
		return error("%s", why);
	*text = arena_string(a->arena, bytes, *n);
	*library = lib ? arena_string(a->arena, lib, strlen(lib)) : NULL;
	free(bytes);
	free(lib);
	return EXIT_FINE;
}

static int read_jobs(const struct arguments *a, int *jobs)
{
	const char *text = option(a, "-j");
	char *end = "";
	long n = text ? strtol(text, &end, 10) : 0;
	if (text && (*end || end == text || n < 1 || n > 1024))
		return usage_error(a, "-j %s: a number of threads from 1 to 1024 is needed", text);
	*jobs = (int)n;
	return EXIT_FINE;
}

/* Compiles FILE with the options given; messages are printed.  r is the caller's to free in every case. */
static int compile(const struct arguments *a, bool check, bool keep_going, struct compile_result *r)
{
	char *text;
	size_t n;
	struct compile_options o = {.targets = option_list(a, "--target", true), .kernels = option_list(a, "--kernel", false),
	                            .instances = option_list(a, "--instance", false), .check = check, .keep_going = keep_going};
	memset(r, 0, sizeof *r);
	int code = read_jobs(a, &o.jobs);
	for (int t = 0; code == EXIT_FINE && o.targets && o.targets[t]; t++)
		if (!target_by_name(o.targets[t]))
			code = usage_error(a, "unknown target %s; known: gfx942, gfx950", o.targets[t]);
	if (code == EXIT_FINE)
		code = read_text(a, a->words[0], &text, &n, &o.library);
	if (code != EXIT_FINE)
		return code;
	int rc = compile_text(text, n, a->words[0], &o, r);
	if (r->messages)
		fputs(r->messages, stderr);
	return rc ? EXIT_ERROR : EXIT_FINE;
}

/* --- compile times: one line per variant after a line that names the pack's source */
char *times_text(struct arena *a, const struct model_pack *p)
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

int command_build(const struct arguments *a)
{
	const char *emit = option(a, "--emit");
	struct compile_result r;
	if (emit && strcmp(emit, "so"))
		return usage_error(a, "--emit %s: only \"so\" is known", emit);
	if (emit)
		return error("build --emit so: not built yet; --binding with a C compiler gives the same functions");
	if (!option(a, "-o"))
		return usage_error(a, "-o OUT.tpack is needed");
	if (option(a, "--binding") && !option(a, "--header"))
		return usage_error(a, "--binding includes the header: --header H.h is needed too");
	int code = compile(a, false, false, &r);
	if (code == EXIT_FINE)
		code = write_results(a, &r);
	compile_result_free(&r);
	return code;
}

int command_check(const struct arguments *a)
{
	struct compile_result r;
	int code = compile(a, true, true, &r);
	compile_result_free(&r);
	return code;
}

/* --- tune */
static double share_of(const struct model_variant *v)
{
	const char *p = v->report_json ? strstr(v->report_json, "\"matrix_share\":") : NULL;
	return p ? strtod(p + 15, NULL) : 0;
}

/* One line for each instance and target: its variant with the largest matrix share, or the one with the fewest instructions. */
static char *best_lines(struct arena *a, const struct model_pack *p)
{
	char *text = arena_printf(a, "%s", "\n");
	for (int k = 0; k < p->nkernels; k++) {
		const struct model_kernel *m = &p->kernels[k];
		for (int v = 0; v < m->nvariants;) {
			int best = v, end = v;
			while (end < m->nvariants && m->variants[end].instance == m->variants[v].instance && !strcmp(m->variants[end].target, m->variants[v].target)) {
				double gain = share_of(&m->variants[end]) - share_of(&m->variants[best]);
				if (gain > 0 || (gain == 0 && m->variants[end].launches[0].instructions < m->variants[best].launches[0].instructions))
					best = end;
				end++;
			}
			text = arena_printf(a, "%sbest %s[%s] %s: %s\n", text, m->name, m->instances[m->variants[v].instance].name, m->variants[v].target,
			                    m->variants[best].predicate_text);
			v = end;
		}
	}
	return text;
}

int command_tune(const struct arguments *a)
{
	struct compile_result r;
	int code = compile(a, false, true, &r);
	ARRAY(double) times = {0};
	for (int k = 0; code == EXIT_FINE && k < r.pack.nkernels; k++)
		for (int v = 0; v < r.pack.kernels[k].nvariants; v++)
			ARENA_PUSH(a->arena, &times, r.pack.kernels[k].variants[v].compile_ms);
	if (code == EXIT_FINE)
		code = print(report_table(a->arena, &r.pack, times.items));
	if (code == EXIT_FINE)
		code = print(best_lines(a->arena, &r.pack));
	compile_result_free(&r);
	return code;
}
