/* compile_cost.c -- `compile_cost KERNELS.tdsl REPEATS KERNEL INSTANCE ...`: warm compile times, one thread.
 *
 * In: the text, how often to repeat, pairs of a kernel and one of its instances ("" = the only one).  Out: a line of JSON a pair and
 * target, {kernel, instance, target, variants, ms: [..]}, each a time per variant; the first, cold round is left out. */
#include <stdio.h>
#include <stdlib.h>
#include "../runtime/include/tdsl.h"
#include "compile_ms.h"

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
