/* tdslc_tune.c -- tune: which variant of a kernel is the best on the device present, as a table that dispatch reads (runtime/tune.h).
 *
 * In: a text; a device, else the GPU that is there, else the chips' models.  Out: what each candidate is made of, the best of each
 * instance and size, the table.  How a candidate is judged:
 *
 *   a real device      the time of its launches, the shortest of a few rounds
 *   sim:CHIP           the bytes and instructions that the simulated device counts, over the chip's rates in cost.def
 *   no device, and the kernel has matrix work: the modelled clocks of its hot loop (object_cost.c), at any size
 *
 * Each candidate is called through the runtime's public functions, in a thread of its own, since threads keep their choices, with a
 * table of its own in TDSL_TUNE; whether it ran is asked afterwards.  A share of the peak above 1 was not measured: it is rejected.
 * Tensors are filled with small numbers; integer tensors, which say where things lie, come from --in. */
#include "tdslc.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "../base/tensorfile.h"
#include "../runtime/include/tdsl.h"
#include "../runtime/pack.h"
#include "file.h"
#include "report.h"

enum { TEXT = 1000, ROUNDS = 5, CALLS = 20, SIM_BATCH = 64, BATCH = 8192, COLUMNS = 4096, FILL = 0x3c };

static const struct { const char *name; double gigabytes, megahertz, cus; } rates[] = {
#define MEMORY(name, ...) {#name, __VA_ARGS__},
#include "cost.def"
};

/* The candidates of an instance on a target, and what they are called with. */
struct group {
	const struct arguments *a;
	const char *device;
	const char *pack;                     /* file */
	const struct model_kernel *k;
	int first, n;                         /* variants */
	struct tensorfile *in;
	int64_t symbols[MODEL_MAX_SYMBOL];
	bool fixed[MODEL_MAX_SYMBOL];         /* named in the table */
	double bytes;                         /* of all tensors, once */
};

/* One candidate's run. */
struct trial {
	const struct group *g;
	const char *variant;
	DLTensor tensors[MODEL_MAX_PARAM];
	int64_t shapes[MODEL_MAX_PARAM][MODEL_MAX_RANK];
	void *host[MODEL_MAX_PARAM], *memory[MODEL_MAX_PARAM];
	union tdsl_arg args[MODEL_MAX_PARAM];
	bool ran, left_out;                   /* left_out: it needs tensors that were not given */
	double seconds, instructions;         /* instructions: simulated device only */
	char why[TEXT];                       /* "" = fine */
};

static const char *instance_name(const struct group *g)
{
	return g->k->instances[g->k->variants[g->first].instance].name;
}

static enum dtype type_of(const struct group *g, int param)
{
	const struct model_variant *v = &g->k->variants[g->first];
	const struct model_instance *i = &g->k->instances[v->instance];
	return i->native[param] ? model_native(v->target, i->native[param]) : i->dtype[param];
}

/* ---- sizes */

/* The value given as --size NAME=X, or 0. */
static int64_t size_given(const struct arguments *a, const char *name)
{
	size_t n = strlen(name);
	for (int i = 0; i < a->noptions; i++)
		if (!strcmp(a->options[i].name, "--size") && !strncmp(a->options[i].value, name, n) && a->options[i].value[n] == '=')
			return strtoll(a->options[i].value + n + 1, NULL, 10);
	return 0;
}

/* The value that a predicate's text pins a symbol to ("N=4096 aligned"), or 0. */
static int64_t size_pinned(const char *text, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = text; at; at = strchr(at, ' '), at += at != NULL)
		if (!strncmp(at, name, n) && at[n] == '=' && at[n + 1] != '=')
			return strtoll(at + n + 1, NULL, 10);
	return 0;
}

static int sizes_check(const struct arguments *a)
{
	for (int i = 0; i < a->noptions; i++) {
		const char *equal = strchr(a->options[i].value, '=');
		char *end;
		if (strcmp(a->options[i].name, "--size"))
			continue;
		long long value = equal ? strtoll(equal + 1, &end, 10) : 0;
		if (!equal || equal == a->options[i].value || *end || value < 1 || value > INT32_MAX)
			return usage_error(a, "--size %s: NAME=NUMBER is needed", a->options[i].value);
	}
	return EXIT_FINE;
}

/* Sizes for a call: those given, those of the tensors in --in, `pin` for what the variant `v` pins, else many rows of 4096 columns. */
static void sizes_set(struct group *g, int v, bool model)
{
	for (int s = 0; s < g->k->nsymbols; s++) {
		const struct model_symbol *symbol = &g->k->symbols[s];
		const struct tensorfile_tensor *in = g->in ? tensorfile_find(g->in, g->k->params[symbol->tensor].name) : NULL;
		int64_t given = size_given(g->a, symbol->name), pinned = size_pinned(g->k->variants[v].predicate_text, symbol->name);
		if (in && symbol->dim < in->rank)
			given = (in->shape[symbol->dim] - symbol->add) / symbol->mul;
		g->fixed[s] = given || pinned;
		g->symbols[s] = given ? given : pinned ? pinned : symbol->dim == 0 && g->k->params[symbol->tensor].rank > 1 ? (model ? SIM_BATCH : BATCH) : COLUMNS;
	}
}

static const char *where_text(struct arena *a, const struct group *g)
{
	const char *text = "";
	for (int s = 0; s < g->k->nsymbols; s++)
		if (g->fixed[s])
			text = arena_printf(a, "%s%s%s=%" PRId64, text, *text ? "," : "", g->k->symbols[s].name, g->symbols[s]);
	return *text ? text : "*";
}

/* ---- one trial */

static bool trial_fails(struct trial *t, const char *what)
{
	snprintf(t->why, sizeof t->why, "%s%s%s", what, *what ? ": " : "", tdsl_error());
	return false;
}

/* Makes tensor p: from --in, or of its extents. */
static bool tensor_make(struct trial *t, tdsl_device d, const struct tdsl_device_info *info, int p)
{
	const struct group *g = t->g;
	const struct model_param *q = &g->k->params[p];
	const struct tensorfile_tensor *in = g->in && q->role != ROLE_OUT ? tensorfile_find(g->in, q->name) : NULL;
	const struct hexpr_env env = {g->symbols, g->k->nsymbols, NULL, NULL};
	const struct dtype_info *type = dtype_info(type_of(g, p));
	const char *why = "";
	int64_t count = 1, bytes;
	for (int i = 0; i < q->rank; i++) {
		if (hexpr_eval(q->extent[i], &env, &t->shapes[p][i], &why) < 0 || t->shapes[p][i] < 0 ||
		    __builtin_mul_overflow(count, t->shapes[p][i], &count) || count > INT64_MAX / 64) {
			snprintf(t->why, sizeof t->why, "%s: no such size: %s", q->name, why);
			return false;
		}
	}
	bytes = in ? (int64_t)in->bytes : dtype_bytes(type_of(g, p), count);
	if (!in && q->role != ROLE_OUT && !strchr("fbe", type->name[0])) {
		snprintf(t->why, sizeof t->why, "%s holds integers: --in FILE with it is needed; left out", q->name);
		t->left_out = true;
		return false;
	}
	if (in) /* the call checks it */
		memcpy(t->shapes[p], in->shape, (size_t)(in->rank < MODEL_MAX_RANK ? in->rank : MODEL_MAX_RANK) * sizeof *in->shape);
	t->tensors[p] = (DLTensor){.device = info->dl, .ndim = in ? in->rank : q->rank, .shape = t->shapes[p],
	                           .dtype = {in ? dtype_info(in->dtype)->dl_code : type->dl_code, in ? dtype_info(in->dtype)->dl_bits : type->dl_bits, 1}};
	if (posix_memalign(&t->host[p], 64, (size_t)bytes + 1)) {
		snprintf(t->why, sizeof t->why, "no memory for %" PRId64 " bytes", bytes);
		return false;
	}
	memset(t->host[p], FILL, (size_t)bytes);
	if (in)
		memcpy(t->host[p], in->data, (size_t)bytes);
	if (!strcmp(info->kind, "sim") || !strcmp(info->kind, "null")) {
		t->tensors[p].device = (DLDevice){kDLCPU, 0};
		t->tensors[p].data = t->host[p];
	} else if (tdsl_alloc(&t->memory[p], d, bytes + 1) < 0 || (bytes && tdsl_upload(d, t->memory[p], t->host[p], bytes) < 0)) {
		return trial_fails(t, q->name);
	} else {
		t->tensors[p].data = t->memory[p];
	}
	t->args[p].t = &t->tensors[p];
	return true;
}

/* Optional tensors are absent, but where they are in --in, or the only outputs. */
static bool wanted(const struct group *g, int p)
{
	const struct model_param *q = &g->k->params[p];
	bool only = q->role != ROLE_IN;
	for (int i = 0; i < g->k->nparams; i++)
		only = only && !(g->k->params[i].is_tensor && g->k->params[i].role != ROLE_IN && !g->k->params[i].optional);
	return q->is_tensor && (!q->optional || only || (g->in && tensorfile_find(g->in, q->name)));
}

static bool arguments_make(struct trial *t, tdsl_device d, const struct tdsl_device_info *info)
{
	const struct model_kernel *k = t->g->k;
	for (int p = 0; p < k->nparams; p++) {
		const struct model_param *q = &k->params[p];
		double value = q->has_default ? q->default_value : 1;
		if (!q->is_tensor && type_of(t->g, p) != DT_F32)
			t->args[p].i = (int64_t)value;
		else if (!q->is_tensor)
			t->args[p].f = value;
		else if (wanted(t->g, p) && !tensor_make(t, d, info, p))
			return false;
	}
	return true;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double counted(const char *json, const char *key)
{
	const char *at = strstr(json, key);
	return at ? strtod(at + strlen(key), NULL) : 0;
}

/* The time that the chip's rates allow what the simulated device counted. */
static bool trial_model(struct trial *t, const struct tdsl_device_info *info, const char *target)
{
	static const char *const keys[] = {"\"valu\":", "\"salu\":", "\"mfma\":", "\"lds\":", "\"vmem\":", "\"smem\":", "\"branch\":", "\"other\":"};
	void *library = dlopen(info->library, RTLD_NOW | RTLD_NOLOAD);
	size_t (*json)(char *, size_t);
	char text[4096];
	*(void **)&json = library ? dlsym(library, "tdsl_sim_stats_json") : NULL;
	if (library)
		dlclose(library);
	unsigned i = 0;
	while (i < sizeof rates / sizeof *rates && strcmp(rates[i].name, target))
		i++;
	if (!json || i == sizeof rates / sizeof *rates || json(text, sizeof text) >= sizeof text)
		return trial_fails(t, "no statistics of the simulated device");
	double memory = (counted(text, "\"global_read\":") + counted(text, "\"global_written\":")) / (rates[i].gigabytes * 1e9);
	double valu = counted(text, "\"valu\":") / (rates[i].cus * rates[i].megahertz * 1e6); /* 4 clocks a wave, 4 SIMDs a CU */
	t->seconds = memory > valu ? memory : valu;
	t->instructions = 0;
	for (unsigned k = 0; k < sizeof keys / sizeof *keys; k++)
		t->instructions += counted(text, keys[k]);
	return true;
}

static bool calls_run(struct trial *t, tdsl_kernel k, tdsl_stream s, int calls, void *workspace, int64_t bytes)
{
	for (int i = 0; i < calls; i++)
		if (tdsl_call(k, s, t->args, t->g->k->nparams, workspace, bytes) < 0)
			return trial_fails(t, "");
	return tdsl_sync(s) < 0 ? trial_fails(t, "") : true;
}

static bool trial_measure(struct trial *t, tdsl_device d, const struct tdsl_device_info *info, tdsl_kernel k, tdsl_stream s)
{
	bool sim = strcmp(info->kind, "sim") == 0;
	struct tdsl_last last;
	void *workspace = NULL;
	int64_t bytes = tdsl_workspace(k, s, t->args, t->g->k->nparams);
	if (bytes < 0 || (bytes && tdsl_alloc(&workspace, d, bytes) < 0))
		return trial_fails(t, "");
	bool fine = calls_run(t, k, s, 1, workspace, bytes) && (tdsl_last_call(&last) == 0 || trial_fails(t, ""));
	t->ran = fine && strcmp(last.predicate, t->variant) == 0;
	if (t->ran && sim)
		fine = trial_model(t, info, info->target);
	for (int r = 0; t->ran && !sim && fine && r < ROUNDS; r++) {
		double start = now();
		fine = calls_run(t, k, s, CALLS, workspace, bytes);
		double each = (now() - start) / CALLS;
		t->seconds = r == 0 || each < t->seconds ? each : t->seconds;
	}
	if (workspace)
		tdsl_free(d, workspace);
	return fine;
}

static void *trial_thread(void *argument)
{
	struct trial *t = argument;
	tdsl_device d;
	tdsl_stream s = NULL;
	tdsl_pack pack = NULL;
	tdsl_kernel k;
	struct tdsl_device_info info;
	if (tdsl_open(&d, t->g->device) < 0 || tdsl_device_query(&info, d) < 0 || tdsl_stream_open(&s, d, NULL) < 0 ||
	    tdsl_pack_open(&pack, t->g->pack) < 0 || tdsl_kernel_find(&k, pack, t->g->k->name) < 0)
		trial_fails(t, "");
	else if (arguments_make(t, d, &info))
		trial_measure(t, d, &info, k, s);
	for (int p = 0; p < MODEL_MAX_PARAM; p++) {
		if (t->memory[p])
			tdsl_free(d, t->memory[p]);
		free(t->host[p]);
	}
	if (s)
		tdsl_stream_close(s);
	if (pack)
		tdsl_pack_close(pack);
	return NULL;
}

/* Runs a candidate in a thread of its own, by a table that names it alone. */
static void trial_run(struct trial *t)
{
	const struct group *g = t->g;
	char path[PATH_MAX];
	pthread_t thread;
	const char *text = arena_printf(g->a->arena, "tdsl tune 1\n%s\t%s\t%s\t*\t%s\t1\n", g->k->name, instance_name(g), g->k->variants[g->first].target, t->variant);
	if (file_temporary(path, sizeof path, text, strlen(text), t->why, sizeof t->why))
		return;
	setenv("TDSL_TUNE", path, 1);
	if (pthread_create(&thread, NULL, trial_thread, t) == 0)
		pthread_join(thread, NULL);
	else
		snprintf(t->why, sizeof t->why, "no thread");
	unsetenv("TDSL_TUNE");
	unlink(path);
}

/* ---- choices */

/* How many were chosen, how many of them are in the table; how many sets of candidates were passed over, each told with why. */
struct choices { struct arena *a; char *lines, *table; int chosen, listed, left_out, rejected, failed; };

/* A choice for both; above the peak it is told and left out. */
static void choice_add(struct choices *c, const struct group *g, const char *where, const char *variant, double share, const char *how)
{
	const char *target = g->k->variants[g->first].target;
	if (share > 1) {
		error("tune: %s[%s] %s %s: %s: share %.3f is above the hardware's peak: rejected", g->k->name, instance_name(g), target, where, variant, share);
		c->rejected++;
		return;
	}
	c->chosen++;
	c->lines = arena_printf(c->a, "%sbest %s[%s] %s %s: %s%s\n", c->lines, g->k->name, instance_name(g), target, where, variant, how);
	c->listed += share > 0;
	if (share > 0)
		c->table = arena_printf(c->a, "%s%s\t%s\t%s\t%s\t%s\t%.4f\n", c->table, g->k->name, instance_name(g), target, where, variant, share);
}

static double share_of(const struct model_variant *v)
{
	const char *p = v->report_json ? strstr(v->report_json, "\"matrix_share\":") : NULL;
	return p ? strtod(p + 15, NULL) : 0;
}

/* By the modelled loop: the largest matrix share, or the fewest instructions.  False where no candidate has matrix work. */
static bool choose_by_loop(struct choices *c, const struct group *g)
{
	const struct model_variant *v = &g->k->variants[g->first];
	int best = 0;
	for (int i = 1; i < g->n; i++) {
		double gain = share_of(&v[i]) - share_of(&v[best]);
		if (gain > 0 || (gain == 0 && v[i].launches[0].instructions < v[best].launches[0].instructions))
			best = i;
	}
	if (share_of(&v[best]) > 0)
		choice_add(c, g, "*", v[best].predicate_text, share_of(&v[best]), ", by its loop");
	return share_of(&v[best]) > 0;
}

static double tensor_bytes(const struct trial *t)
{
	double sum = 0;
	for (int p = 0; p < t->g->k->nparams; p++) {
		double bytes = t->host[p] ? t->tensors[p].dtype.bits / 8.0 : 0;
		for (int i = 0; i < t->tensors[p].ndim && bytes > 0; i++)
			bytes *= (double)t->shapes[p][i];
		sum += bytes * (t->g->k->params[p].role == ROLE_INOUT ? 2 : 1);
	}
	return sum;
}

static double peak_of(const char *target)
{
	for (unsigned i = 0; i < sizeof rates / sizeof *rates; i++)
		if (!strcmp(rates[i].name, target))
			return rates[i].gigabytes * 1e9;
	return 0;
}

/* By calling every candidate at the group's sizes. */
static void choose_by_runs(struct choices *c, const struct group *g)
{
	const char *target = g->k->variants[g->first].target, *where = where_text(c->a, g), *best = NULL, *how = "";
	double seconds = 0, instructions = 0, share = 0;
	for (int i = 0; i < g->n; i++) {
		struct trial *t = arena_alloc(c->a, sizeof *t);
		*t = (struct trial){.g = g, .variant = g->k->variants[g->first + i].predicate_text};
		trial_run(t);
		if (*t->why) {
			error("tune: %s[%s] %s %s: %s: %s", g->k->name, instance_name(g), target, where, t->variant, t->why);
			c->failed += !t->left_out;
			c->left_out += t->left_out;
			return;
		}
		if (!t->ran || (best && (t->seconds > seconds || (t->seconds == seconds && t->instructions >= instructions))))
			continue;
		best = t->variant;
		seconds = t->seconds;
		instructions = t->instructions;
		share = peak_of(target) > 0 ? tensor_bytes(t) / (seconds * peak_of(target)) : 0;
		how = arena_printf(c->a, ", %.2f us%s", seconds * 1e6, instructions > 0 ? " modelled" : "");
	}
	if (!best) {
		error("tune: %s[%s] %s %s: no candidate takes such tensors; left out", g->k->name, instance_name(g), target, where);
		c->left_out++;
	}
	if (best && !(peak_of(target) > 0))
		error("tune: %s: no peak of %s is known: not in the table", g->k->name, target);
	if (best)
		choice_add(c, g, where, best, share, how);
}

/* An instance of other types than the tensors in --in have is passed over. */
static bool types_fit(struct choices *c, const struct group *g)
{
	for (int p = 0; g->in && p < g->k->nparams; p++) {
		const struct model_param *q = &g->k->params[p];
		const struct tensorfile_tensor *in = q->is_tensor && q->role != ROLE_OUT ? tensorfile_find(g->in, q->name) : NULL;
		if (!in || in->dtype == type_of(g, p))
			continue;
		error("tune: %s[%s] %s: %s is %s in %s; expected %s; left out", g->k->name, instance_name(g), g->k->variants[g->first].target, q->name,
		      dtype_info(in->dtype)->name, option(g->a, "--in"), dtype_info(type_of(g, p))->name);
		c->left_out++;
		return false;
	}
	return true;
}

/* Every size that matters: what --size and --in say, and each set of sizes that a candidate is pinned to. */
static void group_tune(struct choices *c, struct group *g, bool model)
{
	const char *done = "|";
	if (!types_fit(c, g))
		return;
	for (int v = 0; v < g->n; v++) {
		sizes_set(g, g->first + v, model);
		const char *where = arena_printf(c->a, "|%s|", where_text(c->a, g));
		if (strstr(done, where) || (*where_text(c->a, g) == '*' && strlen(done) > 1))
			continue;
		done = arena_printf(c->a, "%s%s", done, where);
		choose_by_runs(c, g);
	}
}

/* Every --size names a size of some kernel. */
static int sizes_known(const struct arguments *a, const struct model_pack *p)
{
	for (int i = 0; i < a->noptions; i++) {
		const char *value = a->options[i].value;
		bool found = strcmp(a->options[i].name, "--size") != 0;
		for (int k = 0; k < p->nkernels; k++)
			for (int s = 0; s < p->kernels[k].nsymbols; s++) {
				size_t n = strlen(p->kernels[k].symbols[s].name);
				found = found || (!strncmp(value, p->kernels[k].symbols[s].name, n) && value[n] == '=');
			}
		if (!found)
			return error("--size %s: no kernel here has this size", value);
	}
	return EXIT_FINE;
}

/* --in has an input of some kernel. */
static int inputs_known(const struct arguments *a, const struct model_pack *p, const struct tensorfile *in)
{
	const char *expected = "", *found = tensorfile_count(in) ? tensorfile_at(in, 0)->name : NULL;
	for (int k = 0; k < p->nkernels; k++)
		for (int q = 0; q < p->kernels[k].nparams; q++) {
			const struct model_param *param = &p->kernels[k].params[q];
			if (!param->is_tensor || param->role == ROLE_OUT)
				continue;
			if (tensorfile_find(in, param->name))
				return EXIT_FINE;
			if (k == 0)
				expected = arena_printf(a->arena, "%s%s%s", expected, *expected ? ", " : "", param->name);
		}
	return error("%s: found %s%s%s; expected inputs of %s%s%s%s", option(a, "--in"), found ? "tensor \"" : "no tensors", found ? found : "",
	             found ? "\"" : "", p->nkernels == 1 ? "kernel " : "one of the kernels", p->nkernels == 1 ? p->kernels[0].name : "",
	             p->nkernels == 1 ? ": " : "", p->nkernels == 1 ? expected : "");
}

/* The device to measure on: as given, as the environment says, the GPU that is there; NULL: by the models. */
static const char *device_find(const struct arguments *a)
{
	const char *set = getenv("TDSL_DEVICE");
	tdsl_device d;
	if (option(a, "--device"))
		return option(a, "--device");
	if (set && *set)
		return set;
	return tdsl_open(&d, "hip:0") == 0 ? "hip:0" : tdsl_open(&d, "cuda:0") == 0 ? "cuda:0" : NULL;
}

/* The device to measure on and whose code it runs; both NULL: by the models. */
struct measured { const char *device, *target; };

/* --target, where it is given, has the device's. */
static int device_ask(const struct arguments *a, struct measured *on)
{
	struct tdsl_device_info info;
	tdsl_device d;
	const char *const *targets = option_list(a, "--target", true);
	*on = (struct measured){device_find(a), NULL};
	if (on->device && (tdsl_open(&d, on->device) < 0 || tdsl_device_query(&info, d) < 0)) {
		bool named = strstr(tdsl_error(), "TDSL_DEVICE"), set = on->device == getenv("TDSL_DEVICE");
		return error("%s%s", named ? "" : option(a, "--device") ? "--device: " : set ? "TDSL_DEVICE: " : "", tdsl_error());
	}
	on->target = on->device ? info.target : NULL;
	while (on->target && targets && *targets && strcmp(*targets, on->target))
		targets++;
	return on->target && targets && !*targets ? error("tune: %s runs code for %s, which --target leaves out", on->device, on->target) : EXIT_FINE;
}

static int tune(struct choices *c, const struct arguments *a, const struct measured *on, const struct model_pack *p, const char *pack, struct tensorfile *in)
{
	if (sizes_known(a, p) || (in && inputs_known(a, p, in)))
		return EXIT_ERROR;
	for (int k = 0; k < p->nkernels; k++) {
		const struct model_kernel *m = &p->kernels[k];
		for (int v = 0, end; v < m->nvariants; v = end) {
			for (end = v + 1; end < m->nvariants && m->variants[end].instance == m->variants[v].instance && !strcmp(m->variants[end].target, m->variants[v].target);)
				end++;
			struct group g = {.a = a, .pack = pack, .k = m, .first = v, .n = end - v, .in = in};
			g.device = on->device ? on->device : arena_printf(c->a, "sim:%s", m->variants[v].target);
			if (on->target && strcmp(on->target, m->variants[v].target))
				continue;
			c->chosen += g.n == 1;
			if (g.n == 1)
				c->lines = arena_printf(c->a, "%sbest %s[%s] %s *: %s, the only one\n", c->lines, m->name, instance_name(&g), m->variants[v].target, m->variants[v].predicate_text);
			else if (on->device || !choose_by_loop(c, &g))
				group_tune(c, &g, !strncmp(g.device, "sim:", 4));
		}
	}
	if (!c->chosen)
		return error("tune: nothing is tuned: %d left out, %d rejected, %d failed, as said above", c->left_out, c->rejected, c->failed);
	return c->failed ? EXIT_ERROR : EXIT_FINE;
}

/* The candidates as a pack in a file, for the runtime to open. */
static int tune_pack(struct choices *c, const struct arguments *a, const struct measured *on, const struct compile_result *r)
{
	char path[PATH_MAX], why[TEXT];
	struct tensorfile *in = NULL;
	void *bytes = NULL;
	size_t size;
	if (option(a, "--in") && tensorfile_open(&in, option(a, "--in"), why, sizeof why) < 0)
		return error("%s", why);
	bool there = !pack_write(&r->pack, &bytes, &size, why, sizeof why) && !file_temporary(path, sizeof path, bytes, size, why, sizeof why);
	int code = there ? tune(c, a, on, &r->pack, path, in) : error("%s", why);
	free(bytes);
	if (in)
		tensorfile_close(in);
	if (there)
		unlink(path);
	return code;
}

int command_tune(const struct arguments *a)
{
	const char *out = option(a, "-o");
	struct choices c = {.a = a->arena, .lines = arena_printf(a->arena, "\n"), .table = arena_printf(a->arena, "tdsl tune 1\n")};
	struct compile_result r = {0};
	char why[TEXT];
	ARRAY(double) times = {0};
	struct measured on;
	int code = sizes_check(a);
	if (code == EXIT_FINE)
		code = output_check(a, "-o", out);
	if (code == EXIT_FINE)
		code = device_ask(a, &on);
	if (code == EXIT_FINE)
		code = compile_file(a, on.target, false, true, &r);
	for (int k = 0; code == EXIT_FINE && k < r.pack.nkernels; k++)
		for (int v = 0; v < r.pack.kernels[k].nvariants; v++)
			ARENA_PUSH(a->arena, &times, r.pack.kernels[k].variants[v].compile_ms);
	if (code == EXIT_FINE)
		code = print(report_table(a->arena, &r.pack, times.items));
	if (code == EXIT_FINE)
		code = tune_pack(&c, a, &on, &r);
	if (r.pack.nkernels && print(c.lines) != EXIT_FINE)
		code = EXIT_ERROR;
	if ((code == EXIT_FINE || (c.failed && c.listed)) && out && files_write(&(struct file_out){out, c.table, strlen(c.table)}, 1, why, sizeof why))
		code = error("%s", why);
	compile_result_free(&r);
	return code;
}
