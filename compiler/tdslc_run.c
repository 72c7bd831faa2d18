/* tdslc_run.c -- run: one call of a pack's kernel on tensors from a safetensors file.
 *
 * In: a pack, a kernel's name, a device, tensors by parameter name, scalars.  Out: the outputs as a safetensors file.  The call
 * goes through the runtime's public functions only (tdsl.h), as a user's would.  A simulated device works on host memory in
 * place; any other gets copies. */
#include "tdslc.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/tensorfile.h"
#include "../runtime/include/tdsl.h"

enum { TEXT = 1000, PARAMS = 32, RANK = 8 };

/* One tensor argument: its bytes on the host and, where the device has memory of its own, there. */
struct tensor {
	DLTensor dl;
	int64_t shape[RANK];
	enum dtype dtype;
	void *host, *device; int64_t bytes;
	bool allocated;                       /* host is ours */
};

struct run {
	const struct arguments *a;
	tdsl_device device; struct tdsl_device_info info; bool in_place;
	tdsl_stream stream;
	tdsl_pack pack; tdsl_kernel kernel; struct tdsl_kernel_info kernel_info;
	int instance;                         /* --instance's number, -1 = not given */
	struct tdsl_param_info params[PARAMS];
	struct tensorfile *in;
	struct tensor tensors[PARAMS];
	union tdsl_arg args[PARAMS];
	void *workspace; int64_t workspace_bytes;
};

static int runtime_error(void)
{
	return error("%s", tdsl_error());
}

/* --- scalars */
/* The text given as --arg NAME=TEXT, or NULL; only options from number `from` on. */
static const char *given_scalar(const struct arguments *a, int from, const char *name, size_t n)
{
	for (int i = from; i < a->noptions; i++)
		if (!strcmp(a->options[i].name, "--arg") && !strncmp(a->options[i].value, name, n) && a->options[i].value[n] == '=')
			return a->options[i].value + n + 1;
	return NULL;
}

/* Every --arg is NAME=X, no name twice. */
static int check_scalars(const struct arguments *a)
{
	for (int i = 0; i < a->noptions; i++) {
		const char *text = a->options[i].value;
		size_t n = strcspn(text, "=");
		if (strcmp(a->options[i].name, "--arg"))
			continue;
		if (!n || !text[n])
			return usage_error(a, "--arg %s: NAME=X is needed", text);
		const char *again = given_scalar(a, i + 1, text, n);
		if (again)
			return usage_error(a, "--arg %s and --arg %.*s=%s: a scalar is given once", text, (int)n, text, again);
	}
	return EXIT_FINE;
}

/* "1e400" is no number of a double, nor "1e39" one of a float; "inf" is. */
static bool too_large(double value, char letter, bool overflowed)
{
	return isinf(value) ? overflowed : letter == 'f' && isfinite(value) && isinf((float)value);
}

static int read_scalar(struct run *r, int p)
{
	const struct tdsl_param_info *info = &r->params[p];
	const char *text = given_scalar(r->a, 0, info->name, strlen(info->name));
	char letter = r->kernel_info.signature[p], *end;
	bool integer = letter == 'i' || letter == 'l';
	if (!text && !info->has_default)
		return error("kernel %s: scalar %s is needed: --arg %s=X", r->kernel_info.name, info->name, info->name);
	errno = 0;
	if (text && integer)
		r->args[p].i = strtoll(text, &end, 0);
	else if (text)
		r->args[p].f = strtod(text, &end);
	else if (integer)
		r->args[p].i = (int64_t)info->default_value;
	else
		r->args[p].f = info->default_value;
	if (text && !integer && end != text && !*end && too_large(r->args[p].f, letter, errno == ERANGE))
		return error("--arg %s=%s: too large for %s", info->name, text, letter == 'f' ? "f32" : "f64");
	if (text && (end == text || *end || (integer && errno) || (letter == 'i' && r->args[p].i != (int32_t)r->args[p].i)))
		return error("--arg %s=%s: %s is needed", info->name, text, letter == 'i' ? "a 32-bit integer" : integer ? "an integer" : "a number");
	return EXIT_FINE;
}

/* Every --arg and --without must name a parameter, every tensor in the file an input. */
static int check_names(struct run *r)
{
	for (int i = 0; i < r->a->noptions; i++) {
		const struct given *g = &r->a->options[i];
		bool arg = !strcmp(g->name, "--arg"), without = !strcmp(g->name, "--without"), found = !arg && !without;
		for (int p = 0; p < r->kernel_info.nparams; p++) {
			size_t n = strlen(r->params[p].name);
			found |= arg && !r->params[p].is_tensor && !strncmp(g->value, r->params[p].name, n) && g->value[n] == '=';
			found |= without && r->params[p].is_optional && r->params[p].is_output && !strcmp(g->value, r->params[p].name);
		}
		if (!found)
			return error("%s %s: kernel %s has no such %s", g->name, g->value, r->kernel_info.name, arg ? "scalar" : "optional output");
	}
	for (int i = 0; i < tensorfile_count(r->in); i++) {
		const char *name = tensorfile_at(r->in, i)->name;
		bool found = false;
		for (int p = 0; p < r->kernel_info.nparams; p++)
			found |= r->params[p].is_tensor && r->params[p].is_input && !strcmp(name, r->params[p].name);
		if (!found)
			return error("%s: kernel %s has no input \"%s\"", option(r->a, "--in"), r->kernel_info.name, name);
	}
	return EXIT_FINE;
}

/* --- tensors */
static DLDataType dl_type(enum dtype t)
{
	return (DLDataType){dtype_info(t)->dl_code, dtype_info(t)->dl_bits, 1};
}

/* Makes the argument of a tensor whose dtype, shape and host bytes are set. */
static int place_tensor(struct run *r, int p, int rank)
{
	struct tensor *t = &r->tensors[p];
	t->dl = (DLTensor){.data = t->host, .device = r->info.dl, .ndim = rank, .dtype = dl_type(t->dtype), .shape = t->shape};
	if (r->in_place) {
		t->dl.device = (DLDevice){kDLCPU, 0};
	} else {
		if (tdsl_alloc(&t->device, r->device, t->bytes ? t->bytes : 1) < 0 ||
		    (t->bytes && tdsl_upload(r->device, t->device, t->host, t->bytes) < 0))
			return runtime_error();
		t->dl.data = t->device;
	}
	r->args[p].t = &t->dl;
	return EXIT_FINE;
}

/* The types of inputs are those of the instance asked for. */
static int check_type(struct run *r, int p, enum dtype found)
{
	const char *type;
	DLDataType dl;
	if (r->instance < 0)
		return EXIT_FINE;
	if (tdsl_kernel_dtype(&type, &dl, r->kernel, r->instance, p, r->info.target) < 0)
		return runtime_error();
	if (dl.code == dtype_info(found)->dl_code && dl.bits == dtype_info(found)->dl_bits)
		return EXIT_FINE;
	return error("%s: tensor \"%s\" is %s; --instance %s of kernel %s takes %s", option(r->a, "--in"), r->params[p].name, dtype_info(found)->name,
	             option(r->a, "--instance"), r->kernel_info.name, type);
}

static int read_input(struct run *r, int p)
{
	const struct tensorfile_tensor *in = tensorfile_find(r->in, r->params[p].name);
	struct tensor *t = &r->tensors[p];
	if (!in && r->params[p].is_optional)
		return EXIT_FINE;
	if (!in)
		return error("%s: no tensor \"%s\", an input of kernel %s", option(r->a, "--in"), r->params[p].name, r->kernel_info.name);
	if (in->rank > RANK)
		return error("%s: tensor \"%s\" has %d dimensions; at most %d are taken", option(r->a, "--in"), in->name, in->rank, RANK);
	t->dtype = in->dtype;
	t->host = in->data;
	t->bytes = (int64_t)in->bytes;
	if (check_type(r, p, t->dtype))
		return EXIT_ERROR;
	memcpy(t->shape, in->shape, (size_t)in->rank * sizeof *in->shape);
	return place_tensor(r, p, in->rank);
}

static bool unwanted(const struct arguments *a, const char *name)
{
	for (int i = 0; i < a->noptions; i++)
		if (!strcmp(a->options[i].name, "--without") && !strcmp(a->options[i].value, name))
			return true;
	return false;
}

static int find_instance(struct run *r)
{
	const char *name = option(r->a, "--instance");
	struct tdsl_instance_info info;
	r->instance = -1;
	for (int i = 0; name && i < r->kernel_info.ninstances; i++) {
		if (tdsl_kernel_instance(&info, r->kernel, i) < 0)
			return runtime_error();
		if (!strcmp(info.name, name))
			r->instance = i;
	}
	return !name || r->instance >= 0 ? EXIT_FINE : error("kernel %s has no instance \"%s\"; see tdslc list", r->kernel_info.name, name);
}

static int make_output(struct run *r, int p)
{
	const char *type;
	struct tensor *t = &r->tensors[p];
	DLDataType dl;
	int64_t count = 1;
	int rank = tdsl_output(&dl, t->shape, r->kernel, r->stream, r->args, r->kernel_info.nparams, p);
	if (rank < 0)
		return runtime_error();
	if (r->instance >= 0 && tdsl_kernel_dtype(&type, &dl, r->kernel, r->instance, p, r->info.target) < 0)
		return runtime_error();
	t->dtype = dtype_by_dlpack(dl.code, dl.bits);
	for (int d = 0; d < rank; d++)
		if (__builtin_mul_overflow(count, t->shape[d], &count) || count > INT64_MAX / 16)
			return error("output %s: its size overflows", r->params[p].name);
	t->bytes = dtype_bytes(t->dtype, count);
	if (posix_memalign(&t->host, 64, t->bytes ? (size_t)t->bytes : 1))
		return error("output %s: no memory for %lld bytes", r->params[p].name, (long long)t->bytes);
	t->allocated = true;
	memset(t->host, 0, (size_t)t->bytes);
	return place_tensor(r, p, rank);
}

/* --- the call */
static int open_kernel(struct run *r)
{
	if (tdsl_open(&r->device, option(r->a, "--device")) < 0 || tdsl_device_query(&r->info, r->device) < 0 ||
	    tdsl_stream_open(&r->stream, r->device, NULL) < 0 || tdsl_pack_open(&r->pack, r->a->words[0]) < 0 ||
	    tdsl_kernel_find(&r->kernel, r->pack, r->a->words[1]) < 0 || tdsl_kernel_query(&r->kernel_info, r->kernel) < 0)
		return runtime_error();
	r->in_place = strcmp(r->info.kind, "sim") == 0;
	if (r->kernel_info.nparams > PARAMS)
		return error("kernel %s has more than %d parameters", r->kernel_info.name, PARAMS);
	for (int p = 0; p < r->kernel_info.nparams; p++)
		if (tdsl_kernel_param(&r->params[p], r->kernel, p) < 0)
			return runtime_error();
	for (int p = 0; p < r->kernel_info.nparams; p++)
		if (r->kernel_info.signature[p] == 'L')
			return error("kernel %s: %s is a list of tensors, and tdslc run takes none; such kernels are called from C or Python", r->kernel_info.name,
			             r->params[p].name);
	return find_instance(r);
}

static int make_arguments(struct run *r)
{
	char why[TEXT];
	int code = EXIT_FINE;
	if (tensorfile_open(&r->in, option(r->a, "--in"), why, sizeof why) < 0)
		return error("%s", why);
	code = check_names(r);
	for (int p = 0; p < r->kernel_info.nparams && !code; p++)
		code = !r->params[p].is_tensor ? read_scalar(r, p) : r->params[p].is_input ? read_input(r, p) : EXIT_FINE;
	for (int p = 0; p < r->kernel_info.nparams && !code; p++)
		if (r->params[p].is_tensor && !r->params[p].is_input && !unwanted(r->a, r->params[p].name))
			code = make_output(r, p);
	return code;
}

/* The instance that ran is the one asked for. */
static int check_ran(const struct run *r)
{
	const char *asked = option(r->a, "--instance");
	struct tdsl_last last;
	if (!asked)
		return EXIT_FINE;
	if (tdsl_last_call(&last) < 0)
		return runtime_error();
	return strcmp(last.instance, asked) ? error("kernel %s: --instance %s was asked for, these tensors run %s", r->kernel_info.name, asked, last.instance)
	                                    : EXIT_FINE;
}

static int call_kernel(struct run *r)
{
	int n = r->kernel_info.nparams;
	r->workspace_bytes = tdsl_workspace(r->kernel, r->stream, r->args, n);
	if (r->workspace_bytes < 0 || (r->workspace_bytes && tdsl_alloc(&r->workspace, r->device, r->workspace_bytes) < 0) ||
	    tdsl_call(r->kernel, r->stream, r->args, n, r->workspace, r->workspace_bytes) < 0 || tdsl_sync(r->stream) < 0)
		return runtime_error();
	return check_ran(r);
}

static int write_outputs(struct run *r)
{
	char why[TEXT];
	struct tensorfile_tensor out[PARAMS];
	int n = 0;
	for (int p = 0; p < r->kernel_info.nparams; p++) {
		struct tensor *t = &r->tensors[p];
		if (!r->params[p].is_output || !r->args[p].t || !r->params[p].is_tensor)
			continue;
		if (t->device && t->bytes && tdsl_download(r->device, t->host, t->device, t->bytes) < 0)
			return runtime_error();
		out[n++] = (struct tensorfile_tensor){.name = r->params[p].name, .dtype = t->dtype, .rank = t->dl.ndim, .shape = t->shape, .data = t->host};
	}
	return tensorfile_write(option(r->a, "--out"), out, n, why, sizeof why) < 0 ? error("%s", why) : EXIT_FINE;
}

/* --- statistics: functions that only the simulated device's library has (sim/tdsl_sim.h) */
static void *sim_function(const struct run *r, const char *name)
{
	void *library = dlopen(r->info.library, RTLD_NOW | RTLD_NOLOAD);
	void *found = library ? dlsym(library, name) : NULL;
	if (library)
		dlclose(library);           /* the device keeps it open */
	return found;
}

static int stats_start(const struct run *r)
{
	void (*reset)(void);
	*(void **)&reset = sim_function(r, "tdsl_sim_stats_reset");
	if (!reset)
		return error("--stats: %s is no simulated device", r->info.name);
	reset();
	return EXIT_FINE;
}

static int stats_print(const struct run *r)
{
	size_t (*json)(char *, size_t);
	*(void **)&json = sim_function(r, "tdsl_sim_stats_json");
	if (!json)
		return error("--stats: the simulated device is too old");
	size_t n = json(NULL, 0);
	char *text = arena_alloc(r->a->arena, n + 2);
	json(text, n + 1);
	text[n] = '\n';
	return print(text);
}

static void close_run(struct run *r)
{
	for (int p = 0; p < PARAMS; p++) {
		if (r->tensors[p].device)
			tdsl_free(r->device, r->tensors[p].device);
		if (r->tensors[p].allocated)
			free(r->tensors[p].host);
	}
	if (r->workspace)
		tdsl_free(r->device, r->workspace);
	tensorfile_close(r->in);
	tdsl_pack_close(r->pack);
	tdsl_stream_close(r->stream);
	tdsl_close(r->device);
}

int command_run(const struct arguments *a)
{
	struct run r = {.a = a};
	bool stats = option(a, "--stats") != NULL;
	if (!option(a, "--device") || !option(a, "--in") || !option(a, "--out"))
		return usage_error(a, "--device, --in and --out are needed");
	int code = output_check(a, "--out", option(a, "--out"));
	if (!code)
		code = check_scalars(a);
	if (!code)
		code = open_kernel(&r);
	if (!code)
		code = make_arguments(&r);
	if (!code && stats)
		code = stats_start(&r);
	if (!code)
		code = call_kernel(&r);
	if (!code)
		code = write_outputs(&r);
	if (!code && stats)
		code = stats_print(&r);
	close_run(&r);
	return code;
}
