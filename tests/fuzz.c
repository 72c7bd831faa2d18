/* fuzz.c -- `fuzz TARGET SECONDS LAST SEED...`: feeds altered files to the readers that must take any bytes.
 *
 * In: the target's name (dsl, pack, tensorfile, object), seed files, and LAST, the file that always holds the present input, so that
 * the input of a crash is at hand.  Out: one line with the number of inputs and of those that were accepted.  Built with sanitizers
 * (`make fuzz`); a failure is their report.  The sequence is the same in every run: its random numbers are seeded. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "../base/tensorfile.h"
#include "../dsl/dsl.h"
#include "../runtime/pack.h"
#include "../sim/sim.h"
#include "ref/ref.h"

enum { MOST = 1 << 20 };

static bool feed_dsl(const uint8_t *bytes, size_t size)
{
	struct arena a = {0};
	struct diag d = {.arena = &a, .file = "fuzz.tdsl", .source = (const char *)bytes, .size = size};
	struct dsl_file *file;
	bool ok = dsl_parse(&a, (const char *)bytes, size, "fuzz.tdsl", NULL, &d, &file) == 0;
	for (int k = 0; ok && k < file->nkernels; k++) {
		const struct dsl_kernel *kernel = &file->kernels[k];
		for (int i = 0; i < kernel->nall && i < 2; i++) {
			struct ir_kernel *ir;
			char err[256];
			if (dsl_elaborate(&a, file, kernel, &kernel->all[i], i ? "gfx950" : "gfx942", &d, &ir) == 0 && ir_verify(ir, err, sizeof err)) {
				fprintf(stderr, "fuzz: elaboration gave IR that is not well formed: %s\n", err);
				abort();
			}
		}
	}
	diag_text(&d);
	arena_free(&a);
	return ok;
}

static bool feed_pack(const uint8_t *bytes, size_t size)
{
	struct pack_file *p;
	struct arena a = {0};
	struct model_pack model;
	char err[256];
	if (pack_open_memory(&p, bytes, size, "fuzz", err, sizeof err))
		return false;
	pack_model(p, &a, true, &model, err, sizeof err);
	arena_free(&a);
	pack_close(p);
	return true;
}

static bool feed_tensorfile(const uint8_t *bytes, size_t size)
{
	struct tensorfile *f;
	char err[256];
	if (tensorfile_parse(&f, bytes, size, "fuzz", err, sizeof err))
		return false;
	tensorfile_close(f);
	return true;
}

static bool feed_object(const uint8_t *bytes, size_t size)
{
	struct sim_object *o;
	char err[256];
	if (sim_object_load(&o, sim_chip_by_name("gfx942"), bytes, size, err, sizeof err))
		return false;
	sim_object_line(o, 0, err, sizeof err);
	sim_object_free(o);
	return true;
}

static const struct { const char *name; bool (*feed)(const uint8_t *, size_t); } targets[] = {
	{"dsl", feed_dsl}, {"pack", feed_pack}, {"tensorfile", feed_tensorfile}, {"object", feed_object},
};

struct seed { uint8_t *bytes; size_t size; };

static struct seed read_seed(const char *path)
{
	struct seed s = {malloc(MOST), 0};
	FILE *f = fopen(path, "rb");
	if (!f || !s.bytes) {
		perror(path);
		exit(2);
	}
	s.size = fread(s.bytes, 1, MOST / 2, f);
	fclose(f);
	return s;
}

static size_t below(struct ref_random *r, size_t n)
{
	return n ? (size_t)(ref_uniform(r) * (double)n) : 0;
}

/* One alteration of `buf`, which has room for MOST bytes; returns its new size. */
static size_t alter(struct ref_random *r, uint8_t *buf, size_t size, const struct seed *other)
{
	static const uint32_t values[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff};
	size_t at = below(r, size), n = 1 + below(r, 16), from;
	switch (below(r, 7)) {
	case 0:                                               /* a bit */
		if (size)
			buf[at] ^= (uint8_t)(1 << below(r, 8));
		return size;
	case 1:                                               /* a byte */
		if (size)
			buf[at] = (uint8_t)below(r, 256);
		return size;
	case 2:                                               /* a number */
		if (size >= 4)
			memcpy(buf + below(r, size - 3), &values[below(r, sizeof values / sizeof *values)], 4);
		return size;
	case 3:                                               /* cut out */
		n = n < size - at ? n : size - at;
		memmove(buf + at, buf + at + n, size - at - n);
		return size - n;
	case 4:                                               /* cut off */
		return below(r, 8) ? size : at;
	case 5:                                               /* doubled */
		n = n * 4 < size - at ? n * 4 : size - at;
		if (size + n > MOST)
			return size;
		memmove(buf + at + n, buf + at, size - at);
		return size + n;
	default:                                              /* a piece of another seed */
		from = below(r, other->size);
		n = n * 4 < other->size - from ? n * 4 : other->size - from;
		n = n < MOST - at ? n : MOST - at;
		memcpy(buf + at, other->bytes + from, n);
		return at + n > size ? at + n : size;
	}
}

int main(int argc, char **argv)
{
	bool (*feed)(const uint8_t *, size_t) = NULL;
	for (size_t i = 0; argc > 4 && i < sizeof targets / sizeof *targets; i++)
		if (!strcmp(argv[1], targets[i].name))
			feed = targets[i].feed;
	if (!feed) {
		fprintf(stderr, "usage: fuzz dsl|pack|tensorfile|object SECONDS LAST SEED...\n");
		return 2;
	}
	int nseeds = argc - 4, fd = open(argv[3], O_RDWR | O_CREAT | O_TRUNC, 0644);
	struct seed *seeds = calloc((size_t)nseeds, sizeof *seeds);
	uint8_t *last = fd < 0 || ftruncate(fd, MOST) ? MAP_FAILED : mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (last == MAP_FAILED || !seeds) {
		perror(argv[3]);
		return 2;
	}
	for (int i = 0; i < nseeds; i++)
		seeds[i] = read_seed(argv[4 + i]);
	struct ref_random r = {1};
	long inputs = 0, accepted = 0;
	for (time_t end = time(NULL) + atoi(argv[2]); time(NULL) < end; inputs++) {
		const struct seed *s = &seeds[below(&r, (size_t)nseeds)];
		size_t size = s->size;
		memcpy(last, s->bytes, size);
		for (size_t k = below(&r, 8); k-- > 0; )
			size = alter(&r, last, size, &seeds[below(&r, (size_t)nseeds)]);
		uint8_t *exact = malloc(size + 1);                /* its own block, so that reading beyond it shows */
		if (!exact)
			return 2;
		memcpy(exact, last, size);
		exact[size] = 0;                                  /* the lexer's sentinel */
		accepted += feed(exact, size);
		free(exact);
	}
	printf("fuzz %s: %ld inputs, %ld accepted\n", argv[1], inputs, accepted);
	for (int i = 0; i < nseeds; i++)
		free(seeds[i].bytes);
	free(seeds);
	close(fd);
	return 0;
}
