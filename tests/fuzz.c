/* fuzz.c -- `fuzz TARGET SECONDS LAST SEED...`: feeds the seed files to the readers that must take any bytes, then altered ones for
 * seconds of this process's own time.
 *
 * In: the target's name (dsl, pack, tensorfile, object, launch, hip, sim for the last three), seed files, and LAST, the file that always holds the present input, so that
 * the input of a crash is at hand.  Out: one line with the number of inputs and of those that were accepted.  Built with sanitizers
 * (`make fuzz`); a failure is their report.  The sequence of inputs is the same in every run: its random numbers are
 * seeded, by FUZZ_SEED where that is set, else by 1. */
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
#include "../sim/exec.h"
#include "../sim/hip_api.h"
#include "../sim/tdsl_sim.h"
#include "ref/ref.h"

enum { MOST = 1 << 20 };

static bool feed_dsl(const uint8_t *bytes, size_t size)
{
	struct arena a = {0};
	struct diag d = {.arena = &a, .file = "fuzz.tdsl", .source = (const char *)bytes, .size = size};
	struct dsl_file *file;
	bool ok = dsl_parse(&a, (const char *)bytes, size, "fuzz.tdsl", NULL, NULL, &d, &file) == 0;
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

/* A launch: this, `words` instructions, a code object.  The object is run as it is, then with the instructions written over
 * its first kernel's; last every instruction is executed alone, on a wave of its own on both chips.  Nothing may reach beyond
 * the memory that the launch knows. */
struct launch_head { uint32_t grid[3], block[3], lds, seed, words; uint64_t args[4]; };

static uint8_t data[4096] __attribute__((aligned(64)));

static void run_launch(struct sim_object *o, const struct launch_head *h, struct sim_memory *memory)
{
	char err[512];
	for (int k = 0; k < o->nkernels && k < 2; k++) {
		const struct sim_kernel *kernel = &o->kernels[k];
		if (kernel->kernarg_size > 4096 || kernel->scratch_bytes > 4096)
			continue;
		uint64_t *kernarg = calloc(1, kernel->kernarg_size + 64u);
		for (uint32_t i = 0; kernarg && i < kernel->kernarg_size / 8; i++)
			kernarg[i] = i & 1 ? h->args[i / 2 % 4] : (uint64_t)(uintptr_t)data;
		struct sim_launch l = {.object = o, .kernel = kernel, .memory = memory, .dynamic_lds = h->lds & 0x1ffff, .kernarg = kernarg,
			.kernarg_size = kernel->kernarg_size, .seed = h->seed, .max_inst = 5000, .threads = 1, .checks = h->lds >> 20 & 1};
		for (int i = 0; i < 3; i++) {
			l.grid[i] = h->grid[i] & 1;
			l.block[i] = h->block[i] & (i ? 3 : 0x7f);
		}
		sim_run(&l, err, sizeof err);
		free(kernarg);
	}
}

static void run_words(const uint32_t *words, uint32_t n, const char *chip, const struct launch_head *h, struct sim_memory *memory)
{
	static uint32_t image[64], vgpr[320][LANES];
	static uint8_t lds[512 + 64], scratch[64 * 16];
	char err[512];
	struct sim_kernel kernel = {.name = "words", .accum_offset = 128, .vgprs = 256};
	struct sim_object object = {.chip = sim_chip_by_name(chip), .image = (uint8_t *)image, .image_size = sizeof image, .code_size = sizeof image};
	struct sim_launch launch = {.object = &object, .kernel = &kernel, .memory = memory};
	struct sim_code code = {.object = &object, .kernel = &kernel};
	struct sim_wave w = {.vgpr = vgpr, .nvgpr = 256, .scratch = scratch, .scratch_size = 16};
	for (uint32_t i = 0; i < n; i++) {
		struct sim_inst in;
		struct sim_group g = {.launch = &launch, .code = &code, .lds = lds, .lds_size = 512, .err = err, .errlen = sizeof err};
		if (!sim_decode(&in, words + i, n - i < 4 ? (int)(n - i) : 4, object.chip, kernel.accum_offset))
			continue;
		w.group = &g;
		w.state = WAVE_RUN;
		w.pc = 8;
		w.scratch = scratch;
		for (int r = 0; r < 40; r++) /* addresses that are good as pairs, and small offsets */
			w.sgpr[r] = r % 4 == 2 ? 1024 : r & 1 ? (uint32_t)((uint64_t)(uintptr_t)data >> 32) : (uint32_t)(uintptr_t)data;
		w.sgpr[REG_M0] = h->lds;
		sim_sgpr64_set(&w, REG_EXEC, h->args[0]);
		for (int l = 0; l < LANES; l++)
			vgpr[2][l] = vgpr[3][l] = (uint32_t)l * 4;
		in.exec(&w, &in);
		i += in.len - 1u;
	}
}

static bool feed_launch(const uint8_t *bytes, size_t size)
{
	struct launch_head h;
	struct sim_object *o;
	char err[256];
	bool ok = false;
	if (size < sizeof h)
		return false;
	memcpy(&h, bytes, sizeof h);
	bytes += sizeof h;
	size -= sizeof h;
	uint32_t n = h.words & 0xfff;
	if (n > size / 4)
		n = (uint32_t)(size / 4);
	uint32_t *words = malloc(n * 4u + 4);
	struct sim_memory *memory = sim_memory_new();
	if (!words || !memory || sim_memory_add(memory, data, sizeof data, "data", true))
		abort();
	memcpy(words, bytes, n * 4u);
	for (int c = 0; c < 2; c++) {
		const struct sim_chip *chip = sim_chip_at(c);
		run_words(words, n, chip->name, &h, memory);
		if (sim_object_load(&o, chip, bytes + n * 4u, size - n * 4u, err, sizeof err))
			continue;
		ok = true;
		run_launch(o, &h, memory);
		sim_object_free(o);
		if (sim_object_load(&o, chip, bytes + n * 4u, size - n * 4u, err, sizeof err))
			continue;
		if (o->nkernels && o->kernels[0].entry + n * 4u <= o->image_size) {
			memcpy(o->image + o->kernels[0].entry, words, n * 4u);
			run_launch(o, &h, memory);
		}
		sim_object_free(o);
	}
	sim_memory_free(memory);
	free(words);
	return ok;
}

/* Where the object begins in a launch's bytes, which are a head at least. */
static size_t object_at(const uint8_t *bytes, size_t size)
{
	struct launch_head h;
	memcpy(&h, bytes, sizeof h);
	size_t words = (h.words & 0xfff) * 4u;
	return sizeof h + (words < size - sizeof h ? words : 0);
}

/* The same object through HIP's functions: loaded as a module, each kernel asked about and launched with the head's numbers as
 * they stand, with parameters in both forms.  Only single waves are let through to run. */
static bool feed_hip(const uint8_t *bytes, size_t size)
{
	const uint8_t *start = bytes;
	struct launch_head h;
	hipModule_t module;
	if (size < sizeof h)
		return false;
	memcpy(&h, bytes, sizeof h);
	bytes += object_at(bytes, size);
	size -= (size_t)(bytes - start);
	hipSetDevice((int)(h.seed & 1));
	tdsl_sim_clear_error((int)(h.seed & 1));
	if (hipModuleLoadData(&module, bytes) != hipSuccess)
		return false;
	struct sim_object *o;
	char err[256];
	if (sim_object_load(&o, sim_chip_at((int)(h.seed & 1)), bytes, size, err, sizeof err) == 0) {
		for (int k = 0; k < o->nkernels && k < 2; k++) {
			hipFunction_t f;
			uint64_t values[64] = {h.args[0], h.args[1], h.args[2], h.args[3]};
			void *params[512];
			size_t bytes_given = h.args[1] & 0xff;
			void *extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, values, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes_given, HIP_LAUNCH_PARAM_END};
			int value;
			for (int i = 0; i < 512; i++)
				params[i] = values;
			if (hipModuleGetFunction(&f, module, o->kernels[k].name) != hipSuccess)
				continue;
			for (int a = 0; a < 12; a++)
				hipFuncGetAttribute(&value, (hipFunction_attribute)a, f);
			hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&value, f, (int)h.block[0], h.lds);
			bool small = o->kernels[k].nargs < 8 && o->kernels[k].kernarg_size <= 64;
			for (int i = 0; i < o->kernels[k].nargs; i++)
				small &= o->kernels[k].args[i].size <= sizeof values;
			uint32_t lanes = h.block[0] * h.block[1] * h.block[2];
			bool runs = (uint64_t)h.grid[0] * h.grid[1] * h.grid[2] <= 1 && lanes <= 64;
			if (small && (runs || !h.grid[0] || h.block[0] > 1024))
				hipModuleLaunchKernel(f, h.grid[0], h.grid[1], h.grid[2], h.block[0], h.block[1], h.block[2], h.lds, NULL, h.seed & 2 ? params : NULL, h.seed & 4 ? extra : NULL);
		}
		sim_object_free(o);
	}
	hipModuleUnload(module);
	return true;
}

/* All that a code object and a launch can meet. */
static bool feed_sim(const uint8_t *bytes, size_t size)
{
	bool loaded = size >= sizeof(struct launch_head) && feed_object(bytes + object_at(bytes, size), size - object_at(bytes, size));
	bool ran = feed_launch(bytes, size), called = feed_hip(bytes, size);
	return loaded || ran || called;
}

static const struct { const char *name; bool (*feed)(const uint8_t *, size_t); } targets[] = {
	{"dsl", feed_dsl}, {"pack", feed_pack}, {"tensorfile", feed_tensorfile}, {"object", feed_object}, {"launch", feed_launch}, {"hip", feed_hip},
	{"sim", feed_sim},
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
	switch (below(r, 8)) {
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
	case 6:                                               /* a run of random bytes: instructions of every encoding */
		for (n *= 4; n > 0 && at < size; n--)
			buf[at++] = (uint8_t)below(r, 256);
		return size;
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
		fprintf(stderr, "usage: fuzz dsl|pack|tensorfile|object|launch|hip|sim SECONDS LAST SEED...\n");
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
	struct ref_random r = {getenv("FUZZ_SEED") ? strtoull(getenv("FUZZ_SEED"), NULL, 10) : 1};
	long inputs = 0, accepted = 0;
	for (double end = atof(argv[2]); inputs < nseeds || (double)clock() / CLOCKS_PER_SEC < end; inputs++) {
		const struct seed *s = &seeds[inputs < nseeds ? (size_t)inputs : below(&r, (size_t)nseeds)];
		size_t size = s->size;
		memcpy(last, s->bytes, size);
		for (size_t k = inputs < nseeds ? 0 : below(&r, 8); k-- > 0; )
			size = alter(&r, last, size, &seeds[below(&r, (size_t)nseeds)]);
		uint8_t *exact = malloc(size + 1);                /* its own block, so that reading beyond it shows */
		if (!exact)
			return 2;
		memcpy(exact, last, size);
		exact[size] = 0;                                  /* the lexer's sentinel */
		accepted += feed(exact, size);
		free(exact);
	}
	printf("fuzz %s: %ld inputs, %ld accepted, %.0f s\n", argv[1], inputs, accepted, (double)clock() / CLOCKS_PER_SEC);
	for (int i = 0; i < nseeds; i++)
		free(seeds[i].bytes);
	free(seeds);
	close(fd);
	return 0;
}
