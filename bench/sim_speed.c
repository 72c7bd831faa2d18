/* sim_speed.c -- `sim_speed PACK [TEXT...]`: wave-instructions a second that the simulated devices execute.
 *
 * In: the pack; every TEXT has to be part of a case's "name chip on|off".  Out: one JSON object a line for each case, chip and state of the checks:
 * instructions executed, and of every repetition the seconds of wall clock and of processor time (of all threads), with the number of
 * threads and the load average of the machine.  Kernels run as their users run them, as C functions of the binding on host tensors in
 * place; reading the pack, making the inputs and the first call of each are outside the times, and no file is read inside them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../sim/sim.h"
#include "../sim/tdsl_sim.h"
#include "kernels.h"
#include "tdsl.h"

enum { REPEATS = 9 };

struct inputs { DLTensor x, w, y, scale, a, b, first, c; };

static const struct chip { const char *device, *target; uint8_t fp8; } chips[] = {
	{"sim:gfx942", "gfx942", TDSL_DL_E4M3FNUZ},
	{"sim:gfx950", "gfx950", TDSL_DL_E4M3FN},
};

/* rows: of rmsnorm_quant; edge: of a square matrix product; one of the two. */
static const struct speed_case { const char *name; int64_t rows, edge; bool checks; } cases[] = {
	{"rmsnorm_quant 4096 x 4096", 4096, 0, false}, {"rmsnorm_quant 4096 x 4096", 4096, 0, true},
	{"grouped_gemm 512^3", 0, 512, false},         {"grouped_gemm 512^3", 0, 512, true},
	{"grouped_gemm 2048^3", 0, 2048, false},
};

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const char *what)
{
	fprintf(stderr, "sim_speed: %s\n", what);
	return 1;
}

/* A tensor of its own memory; NULL data where there is none. */
static DLTensor tensor(uint8_t code, uint8_t bits, int rank, const int64_t shape[])
{
	int64_t n = 1;
	int64_t *kept = malloc((size_t)rank * sizeof *kept);
	for (int i = 0; kept && i < rank; i++)
		n *= kept[i] = shape[i];
	return (DLTensor){kept ? calloc((size_t)n, bits / 8) : NULL, {kDLCPU, 0}, rank, {code, bits, 1}, kept, NULL, 0};
}

/* bf16 numbers between 0.5 and 2 of both signs. */
static DLTensor filled(int rank, const int64_t shape[])
{
	DLTensor t = tensor(TDSL_DL_BFLOAT, 16, rank, shape);
	int64_t n = t.data ? 1 : 0;
	for (int i = 0; n && i < rank; i++)
		n *= shape[i];
	uint32_t state = 1;
	for (int64_t i = 0; i < n; i++) {
		state = state * 1664525u + 1013904223u;
		((uint16_t *)t.data)[i] = (uint16_t)(0x3f00u | (state >> 24) | (state & 0x800000u) >> 8);
	}
	return t;
}

static bool inputs_make(struct inputs *in, const struct speed_case *s, const struct chip *chip)
{
	*in = (struct inputs){0};
	if (s->rows) {
		int64_t shape[] = {s->rows, 4096};
		in->x = filled(2, shape), in->w = filled(1, shape + 1), in->y = tensor(chip->fp8, 8, 2, shape), in->scale = tensor(TDSL_DL_FLOAT, 32, 1, shape);
		return in->x.data && in->w.data && in->y.data && in->scale.data;
	}
	int64_t shape[] = {1, s->edge, s->edge}, two = 2;
	in->a = filled(2, shape + 1), in->b = filled(3, shape), in->first = tensor(TDSL_DL_INT, 32, 1, &two), in->c = tensor(TDSL_DL_BFLOAT, 16, 2, shape + 1);
	if (!in->a.data || !in->b.data || !in->first.data || !in->c.data)
		return false;
	((int32_t *)in->first.data)[1] = (int32_t)s->edge;
	return true;
}

static void inputs_free(struct inputs *in)
{
	DLTensor *all[] = {&in->x, &in->w, &in->y, &in->scale, &in->a, &in->b, &in->first, &in->c};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]->data), free(all[i]->shape);
}

static int call(const struct speed_case *s, struct inputs *in)
{
	return s->rows ? rmsnorm_quant(NULL, &in->x, &in->w, 1e-6f, &in->y, &in->scale) : grouped_gemm(NULL, &in->a, &in->b, &in->first, &in->c);
}

static void list_print(const char *name, const double *v, int n)
{
	printf("\"%s\":[", name);
	for (int i = 0; i < n; i++)
		printf("%s%.6f", i ? "," : "", v[i]);
	printf("],");
}

static int measure(const struct speed_case *s, const struct chip *chip, void *sim)
{
	void (*reset)(void) = (void (*)(void))dlsym(sim, "tdsl_sim_stats_reset");
	void (*get)(void *, size_t) = (void (*)(void *, size_t))dlsym(sim, "tdsl_sim_stats_get");
	void (*checks)(int) = (void (*)(int))dlsym(sim, "tdsl_sim_set_checks");
	double wall[REPEATS], processor[REPEATS], load = 0;
	struct sim_stats stats = {0};
	struct inputs in;
	uint64_t executed = 0;
	if (!reset || !get || !checks)
		return fail("the simulated device offers no statistics");
	if (!inputs_make(&in, s, chip))
		return inputs_free(&in), fail("no memory");
	checks(s->checks);
	bool good = !call(s, &in);                    /* decodes, and finds its pages */
	for (int i = 0; good && i < REPEATS; i++) {
		double w = seconds(CLOCK_MONOTONIC), p = seconds(CLOCK_PROCESS_CPUTIME_ID);
		reset();
		good = !call(s, &in);
		wall[i] = seconds(CLOCK_MONOTONIC) - w;
		processor[i] = seconds(CLOCK_PROCESS_CPUTIME_ID) - p;
	}
	inputs_free(&in);
	if (!good)
		return fail(tdsl_error());
	get(&stats, sizeof stats);
	for (int i = 0; i < SIM_NCLASS; i++)
		executed += stats.inst[i];
	if (getloadavg(&load, 1) != 1)
		load = -1;
	printf("{\"name\":\"%s\",\"target\":\"%s\",\"checks\":%d,\"instructions\":%llu,", s->name, chip->target, s->checks, (unsigned long long)executed);
	list_print("seconds", wall, REPEATS);
	list_print("processor", processor, REPEATS);
	printf("\"threads\":%ld,\"load\":%.2f}\n", sysconf(_SC_NPROCESSORS_ONLN), load);
	return fflush(stdout) ? fail("standard output") : 0;
}

static bool wanted(const struct speed_case *s, const struct chip *chip, int argc, char **argv)
{
	char label[80];
	snprintf(label, sizeof label, "%s %s %s", s->name, chip->target, s->checks ? "on" : "off");
	for (int i = 2; i < argc; i++)
		if (!strstr(label, argv[i]))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return fail("which pack?");
	if (tdsl_pack_add(argv[1]))
		return fail(tdsl_error());
	for (size_t c = 0; c < sizeof chips / sizeof *chips; c++) {
		tdsl_device device;
		if (tdsl_open(&device, chips[c].device))
			return fail(tdsl_error());
		tdsl_set_default(device);
		void *sim = dlopen("libtdsl_sim.so", RTLD_NOW | RTLD_NOLOAD);
		if (!sim)
			return fail("the simulated device is not loaded");
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
			if (wanted(&cases[i], &chips[c], argc, argv) && measure(&cases[i], &chips[c], sim))
				return 1;
	}
	return 0;
}
