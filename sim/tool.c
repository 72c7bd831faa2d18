/* tool.c -- tdsl-sim: runs one kernel of a code object on a simulated chip, from the command line.
 *
 * In: a code object, a kernel's name, the launch's shape, the arguments in order, tensors from a safetensors file.
 * Out: the tensors after the run, statistics as JSON.  The chip is the one the code object was built for.  Everything
 * is checked before the run starts and outputs are written only after it succeeded: exit 0; 1 with a message where
 * something failed; 2 for a command line that makes no sense. */
#include "../base/tensorfile.h"
#include "sim.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"tdsl-sim FILE.hsaco KERNEL --grid X,Y,Z --block X,Y,Z --arg SPEC... [options]\n"
	"tdsl-sim FILE.hsaco --list\n"
	"  Runs a kernel on the simulated chip that FILE.hsaco was built for. The grid counts workgroups.\n"
	"  SPEC, one for each argument in the kernel's order:\n"
	"    buf:NAME        the tensor NAME of --in; a kernel's changes go to --out\n"
	"    new:NAME:BYTES  a buffer of zeros; goes to --out as U8\n"
	"    i8: i16: i32: i64:5, f32: f64:1e-6    a number;  ptr:0  a null pointer\n"
	"  --in FILE, --out FILE   safetensors\n"
	"  --lds BYTES             dynamic LDS\n"
	"  --seed N                order of waves and workgroups; 0 is round robin\n"
	"  --checks                waits, races, undefined registers, wait states: docs/simulator.md\n"
	"  --stats                 prints what was executed as one JSON object\n"
	"  --list                  prints the kernels and their arguments\n";

enum { ARGS_MAX = 256 };

struct options {
	const char *object, *kernel, *in, *out;
	uint32_t grid[3], block[3], lds;
	uint64_t seed;
	bool stats, checks, list, help, have_grid, have_block;
	const char *arg[ARGS_MAX];
	int nargs;
};
/* A tensor that the kernel may touch and that --out gets. */
struct buffer { struct tensorfile_tensor t; int64_t extent; void *owned; };
struct run {
	struct options opt;
	struct sim_object *object;
	const struct sim_kernel *kernel;
	struct sim_memory *memory;
	struct tensorfile *in;
	struct buffer buffers[ARGS_MAX];
	int nbuffers;
	unsigned char *kernarg;
};

__attribute__((format(printf, 2, 3)))
static int fail(int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("tdsl-sim: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return code;
}
#define TRY(call) do { int rc_ = (call); if (rc_) return rc_; } while (0)

static bool number_parse(const char *s, long long lo, long long hi, long long *out)
{
	char *end;
	errno = 0;
	*out = strtoll(s, &end, 0);
	return *s && !*end && errno == 0 && *out >= lo && *out <= hi;
}

/* "X,Y,Z", "X,Y" or "X"; what is left out is 1. */
static int shape_parse(const char *option, const char *text, uint32_t shape[3])
{
	const char *s = text;
	char *end;
	shape[0] = shape[1] = shape[2] = 1;
	for (int i = 0; i < 3; i++, s = end + 1) {
		long long v = strtoll(s, &end, 10); /* too large gives a value that is out of range as well */
		if (end == s || v < 1 || v > UINT32_MAX)
			break;
		shape[i] = (uint32_t)v;
		if (*end == 0)
			return 0;
		if (*end != ',')
			break;
	}
	return fail(2, "%s: '%s' is not X,Y,Z, each at least 1", option, text);
}

static int options_parse(struct options *o, int argc, char **argv)
{
	long long n;
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
			o->help = true;
			return 0;
		}
		if (strcmp(a, "--stats") == 0)
			o->stats = true;
		else if (strcmp(a, "--checks") == 0)
			o->checks = true;
		else if (strcmp(a, "--list") == 0)
			o->list = true;
		else if (strncmp(a, "--", 2) != 0) {
			if (o->object && o->kernel)
				return fail(2, "'%s' is one name too many", a);
			*(o->object ? &o->kernel : &o->object) = a;
		} else if (!value)
			return fail(2, "%s: unknown, or without its value", a);
		else if (strcmp(a, "--arg") == 0) {
			while (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0) {
				if (o->nargs == ARGS_MAX)
					return fail(2, "more than %d arguments", ARGS_MAX);
				o->arg[o->nargs++] = argv[++i];
			}
		} else {
			i++;
			if (strcmp(a, "--grid") == 0) {
				TRY(shape_parse(a, value, o->grid));
				o->have_grid = true;
			} else if (strcmp(a, "--block") == 0) {
				TRY(shape_parse(a, value, o->block));
				o->have_block = true;
			} else if (strcmp(a, "--in") == 0)
				o->in = value;
			else if (strcmp(a, "--out") == 0)
				o->out = value;
			else if (strcmp(a, "--lds") == 0 && number_parse(value, 0, UINT32_MAX, &n))
				o->lds = (uint32_t)n;
			else if (strcmp(a, "--seed") == 0 && number_parse(value, 0, INT64_MAX, &n))
				o->seed = (uint64_t)n;
			else
				return fail(2, "%s %s is not understood", a, value);
		}
	}
	if (!o->object || (!o->list && (!o->kernel || !o->have_grid || !o->have_block))) {
		fputs(usage, stderr);
		return 2;
	}
	return 0;
}

static int file_read(const char *path, void **bytes, size_t *size)
{
	FILE *f = fopen(path, "rb");
	size_t capacity = 1 << 16, n = 0;
	char *data = malloc(capacity);
	if (!f || !data) {
		int rc = fail(1, "%s: %s", path, strerror(errno));
		free(data);
		if (f)
			fclose(f);
		return rc;
	}
	for (size_t got; (got = fread(data + n, 1, capacity - n, f)) > 0;) {
		n += got;
		char *grown = n == capacity ? realloc(data, capacity *= 2) : data;
		if (!grown) {
			free(data);
			fclose(f);
			return fail(1, "%s: no memory", path);
		}
		data = grown;
	}
	bool bad = ferror(f);
	fclose(f);
	if (bad) {
		free(data);
		return fail(1, "%s: cannot be read", path);
	}
	*bytes = data;
	*size = n;
	return 0;
}

/* Loads the object for the chip it was built for. */
static int object_open(struct run *r)
{
	char err[512] = "";
	void *bytes = NULL;
	size_t size = 0;
	int rc = SIM_EARCH;
	TRY(file_read(r->opt.object, &bytes, &size));
	const struct sim_chip *chip;
	for (int i = 0; rc == SIM_EARCH && (chip = sim_chip_at(i)); i++)
		rc = sim_object_load(&r->object, chip, bytes, size, err, sizeof err);
	free(bytes);
	return rc == SIM_OK ? 0 : fail(1, "%s: %s", r->opt.object, err);
}

static void kernels_print(const struct sim_object *o)
{
	for (int i = 0; i < o->nkernels; i++) {
		const struct sim_kernel *k = &o->kernels[i];
		printf("%s  %s  vgprs %u  agprs %u  sgprs %u  lds %u  scratch %u  block <= %u\n", k->name, o->chip->name, k->vgprs,
		       k->agprs, k->sgprs, k->lds_bytes, k->scratch_bytes, k->max_workgroup);
		for (int a = 0; a < k->nargs; a++)
			if (!sim_arg_hidden(&k->args[a]))
				printf("  %-16s %u bytes at %u  %s\n", k->args[a].name, k->args[a].size, k->args[a].offset, k->args[a].kind);
	}
}

/* The buffer called `name`; added where it is new, from --in or as `bytes` zeros. */
static int buffer_get(struct run *r, const char *name, long long bytes, void **data)
{
	for (int i = 0; i < r->nbuffers; i++)
		if (strcmp(r->buffers[i].t.name, name) == 0) {
			if (bytes >= 0)
				return fail(2, "two buffers are called '%s'", name);
			*data = r->buffers[i].t.data;
			return 0;
		}
	struct buffer *b = &r->buffers[r->nbuffers];
	const struct tensorfile_tensor *t = r->in ? tensorfile_find(r->in, name) : NULL;
	if (bytes >= 0) {
		b->extent = bytes;
		b->owned = aligned_alloc(4096, ((size_t)bytes + 4096) / 4096 * 4096);
		if (!b->owned)
			return fail(1, "new:%s: no memory for %lld bytes", name, bytes);
		memset(b->owned, 0, (size_t)bytes);
		b->t = (struct tensorfile_tensor){.name = name, .dtype = DT_U8, .rank = 1, .shape = &b->extent, .count = bytes,
		                                  .bytes = (size_t)bytes, .data = b->owned};
	} else if (t)
		b->t = *t;
	else
		return r->in ? fail(1, "%s has no tensor '%s'", r->opt.in, name) : fail(2, "buf:%s needs --in", name);
	r->nbuffers++;
	if (sim_memory_add(r->memory, b->t.data, b->t.bytes, b->t.name, true) != SIM_OK)
		return fail(1, "no memory");
	*data = b->t.data;
	return 0;
}

/* The value of one SPEC: `size` bytes at `value`.  Splits new:NAME:BYTES in place, which argv allows. */
static int spec_parse(struct run *r, const char *spec, unsigned char value[8], uint32_t *size)
{
	static const struct { const char *prefix; uint32_t size; long long lo, hi; } integer[] = {
		{"i8:", 1, INT8_MIN, UINT8_MAX}, {"i16:", 2, INT16_MIN, UINT16_MAX},
		{"i32:", 4, INT32_MIN, UINT32_MAX}, {"i64:", 8, INT64_MIN, INT64_MAX}, {"ptr:", 8, 0, 0},
	};
	long long n;
	for (size_t i = 0; i < sizeof integer / sizeof integer[0]; i++) {
		size_t len = strlen(integer[i].prefix);
		if (strncmp(spec, integer[i].prefix, len) != 0)
			continue;
		if (!number_parse(spec + len, integer[i].lo, integer[i].hi, &n))
			return fail(2, "--arg %s: not a number in %lld..%lld", spec, integer[i].lo, integer[i].hi);
		memcpy(value, &n, 8);
		*size = integer[i].size;
		return 0;
	}
	if (strncmp(spec, "f32:", 4) == 0 || strncmp(spec, "f64:", 4) == 0) {
		char *end;
		bool narrow = spec[1] == '3';
		errno = 0;
		float f = narrow ? strtof(spec + 4, &end) : 0;
		double d = narrow ? 0 : strtod(spec + 4, &end);
		if (!spec[4] || *end)
			return fail(2, "--arg %s: not a number", spec);
		if (errno == ERANGE && isinf(narrow ? (double)f : d))
			return fail(2, "--arg %s: too large for %.3s", spec, spec);
		*size = narrow ? 4 : 8;
		memcpy(value, *size == 4 ? (void *)&f : (void *)&d, *size);
		return 0;
	}
	void *data = NULL;
	if (strncmp(spec, "buf:", 4) == 0)
		TRY(buffer_get(r, spec + 4, -1, &data));
	else if (strncmp(spec, "new:", 4) == 0) {
		char *colon = strrchr(spec + 4, ':');
		if (!colon || colon == spec + 4 || !number_parse(colon + 1, 0, (long long)1 << 40, &n))
			return fail(2, "--arg %s: not new:NAME:BYTES", spec);
		*colon = 0;
		TRY(buffer_get(r, spec + 4, n, &data));
	} else
		return fail(2, "--arg %s: unknown form", spec);
	memcpy(value, &data, 8);
	*size = 8;
	return 0;
}

static int args_fill(struct run *r)
{
	const struct sim_kernel *k = r->kernel;
	int given = 0;
	r->kernarg = aligned_alloc(64, ((size_t)k->kernarg_size + 64) / 64 * 64);
	r->memory = sim_memory_new();
	if (!r->kernarg || !r->memory)
		return fail(1, "no memory");
	memset(r->kernarg, 0, ((size_t)k->kernarg_size + 64) / 64 * 64);
	for (int i = 0; i < k->nargs; i++) {
		const struct sim_arg *a = &k->args[i];
		unsigned char value[8] = {0};
		uint32_t size = 0;
		if (sim_arg_hidden(a))
			continue;
		if (given == r->opt.nargs)
			return fail(2, "kernel '%s': no --arg for argument %d ('%s', %u bytes)", k->name, given, a->name, a->size);
		const char *spec = r->opt.arg[given++];
		TRY(spec_parse(r, spec, value, &size));
		if (size != a->size)
			return fail(2, "--arg %s has %u bytes, argument '%s' has %u", spec, size, a->name, a->size);
		memcpy(r->kernarg + a->offset, value, size);
	}
	if (given != r->opt.nargs)
		return fail(2, "kernel '%s' takes %d arguments, %d are given", k->name, given, r->opt.nargs);
	sim_kernarg_hidden(k, r->opt.grid, r->opt.block, r->opt.lds, r->kernarg);
	return 0;
}

static int outputs_write(const struct run *r)
{
	char err[512] = "";
	struct tensorfile_tensor t[ARGS_MAX];
	for (int i = 0; i < r->nbuffers; i++)
		t[i] = r->buffers[i].t;
	return tensorfile_write(r->opt.out, t, r->nbuffers, err, sizeof err) ? fail(1, "%s", err) : 0;
}

static int said(void)
{
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : fail(1, "cannot write to the standard output");
}

static int run_all(struct run *r)
{
	char err[4096] = "", text[1024];
	struct sim_stats stats = {0};
	if (r->opt.help) {
		fputs(usage, stdout);
		return said();
	}
	TRY(object_open(r));
	if (r->opt.list) {
		kernels_print(r->object);
		return said();
	}
	r->kernel = sim_object_kernel(r->object, r->opt.kernel);
	if (!r->kernel)
		return fail(1, "%s has no kernel '%s' (--list shows them)", r->opt.object, r->opt.kernel);
	if (r->opt.in && tensorfile_open(&r->in, r->opt.in, err, sizeof err) != 0)
		return fail(1, "%s", err);
	TRY(args_fill(r));
	if (sim_object_map(r->object, r->memory) != SIM_OK)
		return fail(1, "no memory");
	const struct options *o = &r->opt;
	struct sim_launch launch = {
		.object = r->object, .kernel = r->kernel, .memory = r->memory,
		.grid = {o->grid[0], o->grid[1], o->grid[2]}, .block = {o->block[0], o->block[1], o->block[2]},
		.dynamic_lds = o->lds, .kernarg = r->kernarg, .kernarg_size = r->kernel->kernarg_size,
		.seed = o->seed, .checks = o->checks, .stats = &stats,
	};
	if (sim_run(&launch, err, sizeof err) != SIM_OK)
		return fail(1, "%s", err);
	if (o->out)
		TRY(outputs_write(r));
	if (o->stats) {
		sim_stats_json(&stats, text, sizeof text);
		puts(text);
	}
	return said();
}

int main(int argc, char **argv)
{
	static struct run r; /* large */
	int rc = options_parse(&r.opt, argc, argv);
	if (rc == 0)
		rc = run_all(&r);
	for (int i = 0; i < r.nbuffers; i++)
		free(r.buffers[i].owned);
	free(r.kernarg);
	sim_memory_free(r.memory);
	tensorfile_close(r.in);
	sim_object_free(r.object);
	return rc;
}
