/* sample.h -- what part of a large grid runs: TEST_SAMPLE=N, set by `make san`, takes its first case and then one in N.
 *
 * In: the number of a case and a phase by which grids differ, such as sample_phase(the kernel's name), so that together they reach every
 * size.  Out: whether it runs.  Without the variable everything does. */
#ifndef TDSL_TEST_SAMPLE_H
#define TDSL_TEST_SAMPLE_H
#include <stdbool.h>
#include <stdlib.h>

/* N; 1 where all is to run. */
static inline int sample_of(void)
{
	const char *text = getenv("TEST_SAMPLE");
	int n = text ? atoi(text) : 1;
	return n > 0 ? n : 1;
}

static inline int sample_phase(const char *name)
{
	unsigned h = 2166136261u;
	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return (int)(h >> 8);
}

static inline bool sample_takes(int number, int phase)
{
	return number == 0 || number % sample_of() == phase % sample_of();
}
#endif
