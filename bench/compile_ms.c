/* compile_ms.c -- times tdsl_compile.  In: text, kernel, instance, target.  Out: milliseconds a variant. */
#include "compile_ms.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "../runtime/include/tdsl.h"

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

double compile_ms(const char *text, const char *kernel, const char *instance, const char *target, int *nvariants)
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

char *read_text(const char *path)
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
