/* compile_cost.c -- `compile_cost KERNELS.tdsl REPEATS KERNEL INSTANCE ...`: warm compile times, one thread.
 *
 * In: the text, how often to repeat, pairs of a kernel and one of its instances ("" = the only one).  Out: a line of JSON a pair and
 * target, {kernel, instance, target, variants, ms: [..]}, each a time per variant; the first, cold round is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../runtime/include/tdsl.h"

/* Processor time of the process: other work on the machine does not count, and with one job it is the time taken. */
static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Compiles one instance ("" = the only one) for one target: milliseconds a variant, or negative with tdsl_error() set. */
static double compile_ms(const char *text, const char *kernel, const char *instance, const char *target, int *nvariants)
{
	const char *targets[] = {target, NULL}, *names[] = {kernel, NULL}, *instances[] = {instance, NULL};
	struct tdsl_compile_options options = {.targets = targets, .kernels = names, .instances = *instance ? instances : NULL, .jobs = 1};
	struct tdsl_kernel_info info;
	tdsl_pack pack;
	tdsl_kernel k;
	double start = now_ms();
	if (tdsl_compile(&pack, text, strlen(text), "kernels.tdsl", &options))
		return -1;
	double took = now_ms() - start;
	if (tdsl_pack_kernel(&k, pack, 0) || tdsl_kernel_query(&info, k)) {
		tdsl_pack_close(pack);
		return -1;
	}
	*nvariants = info.nvariants;
	tdsl_pack_close(pack);
	return *nvariants ? took / *nvariants : took;
}

static char *read_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	long n = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
	char *s = n < 0 ? NULL : calloc((size_t)n + 1, 1);
	if (s)
		rewind(f);
	if (!s || fread(s, 1, (size_t)n, f) != (size_t)n) {
		perror(path);
		exit(1);
	}
	fclose(f);
	return s;
}

int main(int argc, char **argv)
{
	static const char *const targets[] = {"gfx942", "gfx950"};
	if (argc < 5 || argc % 2 == 0) {
		fprintf(stderr, "usage: compile_cost KERNELS.tdsl REPEATS KERNEL INSTANCE ...\n");
		return 2;
	}
	setenv("TDSL_CACHE_DIR", "", 1);
	char *text = read_text(argv[1]);
	int repeats = atoi(argv[2]);
	for (int a = 3; a < argc; a += 2)
		for (int t = 0; t < 2; t++) {
			int variants = 0;
			double ms = compile_ms(text, argv[a], argv[a + 1], targets[t], &variants);
			printf("{\"kernel\": \"%s\", \"instance\": \"%s\", \"target\": \"%s\", \"variants\": %d, \"ms\": [", argv[a], argv[a + 1], targets[t], variants);
			for (int i = 0; i < repeats && ms >= 0; i++) {
				ms = compile_ms(text, argv[a], argv[a + 1], targets[t], &variants);
				printf("%s%.3f", i ? ", " : "", ms);
			}
			printf("]}\n");
			if (ms < 0) {
				fprintf(stderr, "compile_cost: %s for %s: %s\n", argv[a], targets[t], tdsl_error());
				return 1;
			}
		}
	free(text);
	return 0;
}
