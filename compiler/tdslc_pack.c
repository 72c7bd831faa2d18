/* tdslc_pack.c -- the subcommands that read a pack: list, report, verify, extract. */
#include "tdslc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../runtime/pack.h"
#include "file.h"
#include "report.h"

enum { TEXT = 1000 };

/* Opens OUT.tpack and reads its model; NULL after a message. */
static struct pack_file *open_model(const struct arguments *a, bool with_objects, struct model_pack *model)
{
	char why[TEXT];
	struct pack_file *file;
	if (pack_open(&file, a->words[0], why, sizeof why) < 0) {
		error("%s", why);
		return NULL;
	}
	if (pack_model(file, a->arena, with_objects, model, why, sizeof why) < 0) {
		error("%s", why);
		pack_close(file);
		return NULL;
	}
	return file;
}

int command_list(const struct arguments *a)
{
	struct model_pack model;
	struct pack_file *file = open_model(a, true, &model);
	if (!file)
		return EXIT_ERROR;
	int code = print(option(a, "--json") ? list_json(a->arena, &model) : list_table(a->arena, &model));
	pack_close(file);
	return code;
}

int command_report(const struct arguments *a)
{
	struct model_pack model;
	struct pack_file *file = open_model(a, false, &model);
	if (!file)
		return EXIT_ERROR;
	const double *times = times_read(a->arena, a->words[0], &model);
	int code = print(option(a, "--json") ? report_json(a->arena, &model, times) : report_table(a->arena, &model, times));
	pack_close(file);
	return code;
}

int command_verify(const struct arguments *a)
{
	char why[TEXT];
	struct pack_file *file;
	if (pack_open(&file, a->words[0], why, sizeof why) < 0)
		return error("%s", why);
	int code = pack_verify(file, why, sizeof why) < 0 ? error("%s", why)
	         : print(arena_printf(a->arena, "%s: %u kernels, %u variants, %u code objects: every byte as written\n", a->words[0], file->nkernels,
	                              file->nvariants, file->nobjects));
	pack_close(file);
	return code;
}

/* Names one of a kernel's instances, or the only one; -1 after a message. */
static int find_instance(const struct model_kernel *k, const char *name)
{
	for (int i = 0; i < k->ninstances; i++)
		if (name ? strcmp(k->instances[i].name, name) == 0 : k->ninstances == 1)
			return i;
	if (name)
		error("kernel %s has no instance \"%s\"; see tdslc list", k->name, name);
	else
		error("kernel %s has %d instances: name one with --instance", k->name, k->ninstances);
	return -1;
}

static const struct model_variant *find_variant(const struct arguments *a, const struct model_pack *p, const char *kernel)
{
	const char *target = option(a, "--target"), *variant = option(a, "--variant");
	const struct model_kernel *k = p->kernels;
	while (k < p->kernels + p->nkernels && strcmp(k->name, kernel))
		k++;
	if (k == p->kernels + p->nkernels) {
		error("%s: no kernel \"%s\"; see tdslc list", a->words[0], kernel);
		return NULL;
	}
	int instance = find_instance(k, option(a, "--instance"));
	for (int v = 0; instance >= 0 && v < k->nvariants; v++)
		if (k->variants[v].instance == instance && !strcmp(k->variants[v].target, target) &&
		    (!variant || !strcmp(k->variants[v].predicate_text, variant)))
			return &k->variants[v];
	if (instance >= 0)
		error("%s: kernel %s has no variant%s%s for %s; see tdslc list", a->words[0], kernel, variant ? " " : "", variant ? variant : "", target);
	return NULL;
}

int command_extract(const struct arguments *a)
{
	char why[TEXT];
	struct model_pack model;
	if (!option(a, "--kernel") || !option(a, "--target") || !option(a, "-o"))
		return usage_error(a, "--kernel, --target and -o are needed");
	int code = output_check(a, "-o", option(a, "-o"));
	if (code != EXIT_FINE)
		return code;
	struct pack_file *file = open_model(a, true, &model);
	if (!file)
		return EXIT_ERROR;
	const struct model_variant *v = find_variant(a, &model, option(a, "--kernel"));
	code = v ? EXIT_FINE : EXIT_ERROR;
	if (v && files_write(&(struct file_out){option(a, "-o"), model.objects[v->object].bytes, model.objects[v->object].size}, 1, why, sizeof why))
		code = error("%s", why);
	pack_close(file);
	return code;
}
