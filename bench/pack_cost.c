/* pack_cost.c -- `pack_cost KERNELS.tdsl KERNELS.tpack REPEATS`: what packs and compiling in process cost, in milliseconds.
 *
 * In: the text, the pack made from it.  Out: a line of JSON a figure, {name, ms: [..], processor: [..]}, wall
 * clock and processor time of the process, each measured in a process of its own that has done nothing before (fork and exec of this
 * program), so that "cold" is cold but for the page cache.  The pack of 1,000 variants is the given one with its kernels repeated under
 * other names.  Compiles are those of a call that no pack serves, of a text with the row kernel alone: rmsnorm_quant from bf16 to fp8 for
 * gfx942; and of all kernels' text, from f32; the time is the whole call's: loading LLVM where cold, parsing, the variant that serves the
 * call, writing the cache.  The cache's hit is tdsl_compile of all variants of the instance, in a process that does not load LLVM. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../base/model.h"
#include "../base/outfile.h"
#include "../runtime/include/tdsl.h"
#include "../runtime/pack.h"

enum { VARIANTS = 1000, MOST = 64 };

static const char *text_path, *pack_path;
static char folder[] = "/tmp/pack_costXXXXXX", big[64];

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double processor(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double used;                    /* processor time of the last thing measured */

static void must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "pack_cost: %s: %s\n", what, tdsl_error());
		_exit(1);
	}
}

static char *read_text(void)
{
	FILE *f = fopen(text_path, "rb");
	long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
	char *s = n < 0 ? NULL : calloc((size_t)n + 1, 1);
	if (!s || fseek(f, 0, SEEK_SET) || fread(s, 1, (size_t)n, f) != (size_t)n) {
		perror(text_path);
		_exit(1);
	}
	fclose(f);
	return s;
}

/* The given pack's kernels again and again until there are VARIANTS variants. */
static void big_write(void)
{
	struct arena a = {0};
	struct model_pack m;
	struct pack_file *f;
	char err[400] = "";
	void *bytes;
	size_t size;
	int n = 0, variants = 0;
	if (pack_open(&f, pack_path, err, sizeof err) < 0 || pack_model(f, &a, true, &m, err, sizeof err) < 0) {
		fprintf(stderr, "pack_cost: %s\n", err);
		exit(1);
	}
	struct model_kernel *many = arena_alloc(&a, VARIANTS * sizeof *many);
	while (variants < VARIANTS && n < VARIANTS) {
		many[n] = m.kernels[n % m.nkernels];
		many[n].name = arena_printf(&a, "%s_%d", many[n].name, n / m.nkernels);
		variants += many[n++].nvariants;
	}
	m.kernels = many;
	m.nkernels = n;
	if (pack_write(&m, &bytes, &size, err, sizeof err) || outfile_write(big, bytes, size, err, sizeof err)) {
		fprintf(stderr, "pack_cost: %s\n", err);
		exit(1);
	}
	free(bytes);
	pack_close(f);
	arena_free(&a);
}

/* ---- what is measured; each returns milliseconds */

static double open_big(int i)
{
	tdsl_pack p;
	(void)i;
	double start = now(), cpu = processor();
	must(tdsl_pack_open(&p, big), "open");
	used = processor() - cpu;
	return now() - start;
}

/* Calls rmsnorm_quant of a pack with 16 rows of 4096; milliseconds of the call alone, on the device whose driver does nothing. */
static double call(tdsl_pack p, uint8_t code, uint8_t bits)
{
	int64_t x[2] = {16, 4096}, s[1] = {16}, n[1] = {4096};
	DLTensor tx = {(void *)0x10000000, {kDLCPU, 0}, 2, {code, bits, 1}, x, NULL, 0}, tw = {(void *)0x20000000, {kDLCPU, 0}, 1, {code, bits, 1}, n, NULL, 0};
	DLTensor ty = {(void *)0x30000000, {kDLCPU, 0}, 2, {TDSL_DL_E4M3FNUZ, 8, 1}, x, NULL, 0}, ts = {(void *)0x40000000, {kDLCPU, 0}, 1, {TDSL_DL_FLOAT, 32, 1}, s, NULL, 0};
	union tdsl_arg args[] = {{.t = &tx}, {.t = &tw}, {.f = 1e-6}, {.t = &ty}, {.t = &ts}};
	tdsl_kernel k;
	must(tdsl_kernel_find(&k, p, "rmsnorm_quant"), "find");
	double start = now(), cpu = processor();
	must(tdsl_call(k, NULL, args, 5, NULL, 0), "call");
	used = processor() - cpu;
	return now() - start;
}

static void device_open(void)
{
	tdsl_device d;
	must(tdsl_open(&d, "null:gfx942"), "device");
}

static double first_call(int i)
{
	tdsl_pack p;
	(void)i;
	device_open();
	must(tdsl_pack_open(&p, pack_path), "open");
	return call(p, TDSL_DL_BFLOAT, 16);
}

static double compile_once(const char *text, const char *name)
{
	static const char *const targets[] = {"gfx942", NULL}, *const kernels[] = {"rmsnorm_quant", NULL}, *const instances[] = {"T=bf16,Q=fp8", NULL};
	struct tdsl_compile_options o = {.targets = targets, .kernels = kernels, .instances = instances, .jobs = 1};
	tdsl_pack p;
	double start = now(), cpu = processor();
	must(tdsl_compile(&p, text, strlen(text), name, &o), "compile");
	used = processor() - cpu;
	return now() - start;
}

/* The text of the row kernel alone. */
static char *row_text(void)
{
	char *all = read_text(), *start = strstr(all, "kernel rmsnorm_quant"), *end = start ? strstr(start, "\n}\n") : NULL;
	if (!end) {
		fprintf(stderr, "pack_cost: %s has no kernel rmsnorm_quant\n", text_path);
		_exit(1);
	}
	end[3] = 0;
	return start;
}

/* A call of bf16 on a pack that has f16 alone: the variant that it needs is compiled from the pack's text.  An empty cache each time. */
static double jit_call(int i, bool warm)
{
	static const char *const targets[] = {"gfx942", NULL}, *const instances[] = {"T=f16,Q=fp8", NULL};
	struct tdsl_compile_options o = {.targets = targets, .instances = instances, .jobs = 1};
	char *text = row_text(), cache[96];
	tdsl_pack p;
	device_open();
	must(tdsl_compile(&p, text, strlen(text), "row.tdsl", &o), "compile");
	snprintf(cache, sizeof cache, "%s/empty%d%d", folder, warm, i);
	setenv("TDSL_CACHE_DIR", cache, 1);
	if (warm)
		call(p, TDSL_DL_FLOAT, 32);
	return call(p, TDSL_DL_BFLOAT, 16);
}

static double jit_cold(int i)
{
	return jit_call(i, false);
}

static double jit_warm(int i)
{
	return jit_call(i, true);
}

/* In a process that has not loaded the compiler, and does not. */
static double cache_hit(int i)
{
	double ms = compile_once(row_text(), "hit.tdsl");
	(void)i;
	return dlopen("libtdslc.so", RTLD_NOW | RTLD_NOLOAD) ? 1e9 : ms;
}

static double cache_fill(int i)
{
	(void)i;
	return compile_once(row_text(), "hit.tdsl");
}

/* The call of jit_call in a process that comes after one that compiled. */
static double jit_hit(int i)
{
	static const char *const targets[] = {"gfx942", NULL}, *const instances[] = {"T=f16,Q=fp8", NULL};
	struct tdsl_compile_options o = {.targets = targets, .instances = instances, .jobs = 1};
	char *text = row_text(), cache[96];
	tdsl_pack p;
	(void)i;
	device_open();
	must(tdsl_compile(&p, text, strlen(text), "row.tdsl", &o), "compile");
	snprintf(cache, sizeof cache, "%s/empty00", folder);
	setenv("TDSL_CACHE_DIR", cache, 1);
	return call(p, TDSL_DL_BFLOAT, 16);
}

/* A call of f32 on the pack of all kernels, which has none: compiled from the pack's text.  An empty cache each time. */
static double jit_whole(int i)
{
	char cache[96];
	tdsl_pack p;
	device_open();
	snprintf(cache, sizeof cache, "%s/whole%d", folder, i);
	setenv("TDSL_CACHE_DIR", cache, 1);
	must(tdsl_pack_open(&p, pack_path), "open");
	return call(p, TDSL_DL_FLOAT, 32);
}

/* In this order: what later ones find in the cache, earlier ones put there. */
static const struct measured { const char *name; double (*one)(int); bool once; } cases[] = {
	{"open a pack of 1000 variants", open_big, false},
	{"first call from a warm pack, without the driver", first_call, false},
	{"call that compiles a row kernel, cold", jit_cold, false},
	{"call that compiles a row kernel, LLVM loaded", jit_warm, false},
	{"the same call in a later process", jit_hit, false},
	{"call that compiles from the pack of all kernels, cold", jit_whole, false},
	{"compile all its variants into the cache", cache_fill, true},
	{"compile: cache hit", cache_hit, false},
};
enum { CASES = sizeof cases / sizeof *cases };

/* One measurement in a new process, which prints its two times; false where it failed. */
static bool child_run(char **argv, int which, int i, double *ms, double *cpu)
{
	char number[16], repeat[16], line[64] = "";
	int ends[2], status;
	snprintf(number, sizeof number, "%d", which);
	snprintf(repeat, sizeof repeat, "%d", i);
	if (pipe(ends))
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], 1);
		execl("/proc/self/exe", argv[0], argv[1], argv[2], number, repeat, folder, (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	FILE *f = fdopen(ends[0], "r");
	bool read = f && fgets(line, sizeof line, f);
	if (f)
		fclose(f);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status && read && sscanf(line, "%lf %lf", ms, cpu) == 2;
}

static void numbers_print(const char *name, const double *v, int n, const char *end)
{
	printf("\"%s\": [", name);
	for (int i = 0; i < n; i++)
		printf("%s%.4f", i ? ", " : "", v[i]);
	printf("]%s", end);
}

static int measure_all(char **argv, int repeats)
{
	double ms[MOST], cpu[MOST];
	for (int c = 0; c < CASES; c++) {
		int n = cases[c].once ? 1 : repeats;
		for (int i = 0; i < n; i++)
			if (!child_run(argv, c, i, &ms[i], &cpu[i]))
				return 1;
		printf("{\"name\": \"%s\", ", cases[c].name);
		numbers_print("ms", ms, n, ", ");
		numbers_print("processor", cpu, n, "}\n");
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	char command[64], cache[64];
	bool one = argc == 6;                          /* TEXT PACK CASE REPEAT FOLDER: what child_run starts */
	if ((argc != 4 && !one) || atoi(argv[3]) < !one || atoi(argv[3]) > (one ? CASES - 1 : MOST)) {
		fprintf(stderr, "usage: pack_cost KERNELS.tdsl KERNELS.tpack REPEATS\n");
		return 2;
	}
	text_path = argv[1];
	pack_path = argv[2];
	if (one)
		snprintf(folder, sizeof folder, "%s", argv[5]);
	else if (!mkdtemp(folder)) {
		perror(folder);
		return 1;
	}
	snprintf(cache, sizeof cache, "%s/cache", folder);
	snprintf(big, sizeof big, "%s/big.tpack", folder);
	setenv("TDSL_CACHE_DIR", cache, 1);
	if (one) {
		double ms = cases[atoi(argv[3])].one(atoi(argv[4]));
		printf("%.4f %.4f\n", ms, used);
		return 0;
	}
	double unused;
	big_write();
	for (int c = 0; c < CASES; c++)                /* the pack that the compiling calls start from is in the cache before */
		if (cases[c].one == jit_cold && !child_run(argv, c, 99, &unused, &unused))
			return 1;
	int rc = measure_all(argv, atoi(argv[3]));
	snprintf(command, sizeof command, "rm -r %s", folder);
	return system(command) != 0 || rc;
}
