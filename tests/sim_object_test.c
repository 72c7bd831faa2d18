/* sim_object_test.c -- the code-object loader, the line table, the memory registry, hidden arguments.
 * Objects come from llc and lld (sim_build.h); damaged ones are made from them byte by byte. */
#include "../sim/sim.h"
#include "sim_build.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *bytes;
static size_t size;
static char err[512];

static struct sim_object *load(const char *chip)
{
	struct sim_object *o;
	int rc = sim_object_load(&o, sim_chip_by_name(chip), bytes, size, err, sizeof err);
	ck_assert_msg(rc == SIM_OK, "%d %s", rc, err);
	return o;
}

static void build_v5(void) { bytes = sim_build("vector", "gfx942", "", &size); }
static void bytes_free(void) { free(bytes); }

static const struct sim_arg *arg(const struct sim_kernel *k, const char *kind)
{
	for (int i = 0; i < k->nargs; i++)
		if (strcmp(k->args[i].kind, kind) == 0)
			return &k->args[i];
	ck_abort_msg("no argument of kind %s", kind);
	return NULL;
}

START_TEST(kernels_and_arguments)
{
	static const char *const chip[] = {"gfx942", "gfx950"}, *const option[] = {"", "--amdhsa-code-object-version=6"};
	for (int i = 0; i < 4; i++) {
		free(bytes);
		bytes = sim_build("vector", chip[i & 1], option[i >> 1], &size);
		struct sim_object *o = load(chip[i & 1]);
		ck_assert_int_eq(o->nkernels, 3);
		const struct sim_kernel *k = sim_object_kernel(o, "vector_add"), *m = sim_object_kernel(o, "mirror");
		ck_assert_ptr_nonnull(k);
		ck_assert_ptr_nonnull(m);
		ck_assert_ptr_null(sim_object_kernel(o, "vector_ad"));
		ck_assert_str_eq(k->args[0].name, "dst");
		ck_assert_str_eq(k->args[0].kind, "global_buffer");
		ck_assert_uint_eq(k->args[2].offset, 16);
		ck_assert_uint_eq(k->args[2].size, 4);
		ck_assert_uint_eq(arg(k, "hidden_block_count_x")->offset, 24);
		ck_assert_uint_eq(k->lds_bytes, 0);
		ck_assert_uint_eq(k->max_workgroup, 256);
		ck_assert_uint_eq(m->lds_bytes, 1024);
		ck_assert_uint_eq(m->scratch_bytes, 0);
		ck_assert_uint_gt(sim_object_kernel(o, "private")->scratch_bytes, 63);
		ck_assert_uint_eq(m->preload_length, 3);
		ck_assert_uint_eq(k->vgprs + k->agprs, 8);
		ck_assert_uint_eq(o->image[k->entry + 3], 0xc0); /* s_load_dwordx4 */
		ck_assert_uint_eq((uintptr_t)o->image % 4096, 0);
		sim_object_free(o);
	}
}
END_TEST

START_TEST(globals_and_relocations)
{
	struct sim_object *o = load("gfx942");
	uint64_t table = 0, pointer = 0, value;
	ck_assert_int_eq(o->nsymbols, 2);
	for (int i = 0; i < 2; i++)
		*(strcmp(o->symbols[i].name, "table") == 0 ? &table : &pointer) = o->symbols[i].offset;
	ck_assert_int_eq(o->image[table + 8], 3);
	memcpy(&value, o->image + pointer, 8);
	ck_assert_uint_eq(value, (uintptr_t)o->image + table);

	struct sim_memory *m = sim_memory_new();
	ck_assert_int_eq(sim_object_map(o, m), SIM_OK);
	ck_assert(sim_memory_find(m, (uintptr_t)o->image + table, 16, true));
	ck_assert(sim_memory_find(m, (uintptr_t)o->image + o->kernels[0].entry, 4, false));
	ck_assert(!sim_memory_find(m, (uintptr_t)o->image + o->kernels[0].entry, 4, true));
	sim_object_unmap(o, m);
	ck_assert(!sim_memory_find(m, (uintptr_t)o->image + table, 16, false));
	sim_memory_free(m);
	sim_object_free(o);
}
END_TEST

START_TEST(lines)
{
	static const char *const option[] = {"-dwarf-version=5", "-dwarf-version=4"};
	for (int i = 0; i < 2; i++) {
		char line[64];
		free(bytes);
		bytes = sim_build("vector", "gfx942", option[i], &size);
		struct sim_object *o = load("gfx942");
		const struct sim_kernel *k = sim_object_kernel(o, "vector_add");
		sim_object_line(o, k->entry, line, sizeof line);
		ck_assert_str_eq(line, "vector.tdsl:5");
		sim_object_line(o, k->entry + 0x3c, line, sizeof line);
		ck_assert_str_eq(line, "vector.tdsl:7");
		sim_object_line(o, k->entry + 0x44, line, sizeof line);
		ck_assert_str_eq(line, "vector.tdsl:8");
		sim_object_line(o, k->entry + 0x48, line, sizeof line);
		ck_assert_str_eq(line, "");
		sim_object_line(o, k->entry, line, 4);
		ck_assert_str_eq(line, "vec");
		sim_object_free(o);
	}
}
END_TEST

START_TEST(another_chip)
{
	struct sim_object *o;
	ck_assert_int_eq(sim_object_load(&o, sim_chip_by_name("gfx950"), bytes, size, err, sizeof err), SIM_EARCH);
	ck_assert_str_eq(err, "code object is for gfx942, device is gfx950");
	ck_assert_ptr_null(o);
	uint32_t flags;
	memcpy(&flags, bytes + offsetof(Elf64_Ehdr, e_flags), 4);
	flags |= 0x300;
	memcpy(bytes + offsetof(Elf64_Ehdr, e_flags), &flags, 4);
	ck_assert_int_eq(sim_object_load(&o, sim_chip_by_name("gfx942"), bytes, size, err, sizeof err), SIM_EARCH);
	ck_assert_str_eq(err, "code object is for gfx942:xnack+, device is gfx942:xnack-");
}
END_TEST

/* Loads a damaged copy that is exactly as long as it says, so that a sanitizer sees any byte read beyond it. */
static int damaged(const uint8_t *from, size_t n)
{
	struct sim_object *o;
	uint8_t *copy = malloc(n + 1);
	memcpy(copy, from, n);
	copy = realloc(copy, n ? n : 1);
	err[0] = 0;
	int rc = sim_object_load(&o, sim_chip_by_name("gfx942"), copy, n, err, sizeof err);
	if (rc != SIM_OK) {
		ck_assert_msg(err[0] != 0, "no text for %d", rc);
	} else {
		char line[64];
		sim_object_line(o, o->nkernels ? o->kernels[0].entry : 0, line, sizeof line);
	}
	sim_object_free(o);
	free(copy);
	return rc;
}

START_TEST(truncated_anywhere)
{
	for (size_t n = 0; n < size; n++)
		ck_assert_int_eq(damaged(bytes, n), SIM_EOBJECT);
}
END_TEST

START_TEST(flipped_bytes)
{
	static const uint8_t flip[] = {0x01, 0x80, 0xff};
	for (size_t i = 0; i < size; i++)
		for (size_t k = 0; k < sizeof flip; k++) {
			bytes[i] ^= flip[k];
			int rc = damaged(bytes, size);
			ck_assert_msg(rc == SIM_OK || rc == SIM_EOBJECT || rc == SIM_EARCH, "byte %zu: %d", i, rc);
			bytes[i] ^= flip[k];
		}
}
END_TEST

static long resident_pages(void)
{
	long all, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%ld %ld", &all, &resident), 2);
	fclose(f);
	return resident;
}

/* Half a gigabyte of data that the file does not hold costs nothing until it is used, nor does code that is not reached. */
START_TEST(large_segments)
{
	static const uint32_t kinds[] = {PF_W, PF_X};
	static uint32_t data[256];
	Elf64_Ehdr e;
	memcpy(&e, bytes, sizeof e);
	for (int i = 0; i < 2; i++) {
		uint8_t *copy = malloc(size);
		size_t last = 0;
		Elf64_Phdr p;
		memcpy(copy, bytes, size);
		for (size_t at = e.e_phoff; at < e.e_phoff + e.e_phnum * sizeof p; at += sizeof p) {
			memcpy(&p, copy + at, sizeof p);
			last = p.p_type == PT_LOAD ? at : last;
		}
		memcpy(&p, copy + last, sizeof p);
		p.p_memsz = 1 << 29;
		p.p_flags = PF_R | kinds[i];
		memcpy(copy + last, &p, sizeof p);
		long before = resident_pages();
		struct sim_object *o;
		ck_assert_msg(sim_object_load(&o, sim_chip_by_name("gfx942"), copy, size, err, sizeof err) == SIM_OK, "%s", err);
		struct sim_memory *memory = sim_memory_new();
		sim_memory_add(memory, data, sizeof data, "data", true);
		const struct sim_kernel *k = sim_object_kernel(o, "mirror");
		uint64_t args[64] = {(uint64_t)(uintptr_t)data, 5};
		struct sim_launch l = {.object = o, .kernel = k, .memory = memory, .grid = {1, 1, 1}, .block = {256, 1, 1}, .kernarg = args,
			.kernarg_size = sizeof args, .threads = 1, .checks = true};
		sim_kernarg_hidden(k, l.grid, l.block, 0, args);
		int rc = sim_run(&l, err, sizeof err);
		ck_assert_msg(rc == SIM_OK, "%s", err);
		ck_assert_uint_eq(data[0], 255 + 5);
		ck_assert_int_lt((resident_pages() - before) * 4096, 64 << 20);
		sim_memory_free(memory);
		sim_object_free(o);
		free(copy);
	}
}
END_TEST

START_TEST(foreign_files)
{
	struct { size_t at; uint8_t value; const char *text; } change[] = {
		{0, 0, "code object: not an ELF file"},
		{EI_CLASS, ELFCLASS32, "code object: not a little-endian ELF64 file"},
		{EI_OSABI, 0, "code object: OS ABI 0 is not HSA (64)"},
		{EI_ABIVERSION, 1, "code object: ABI version 1 is not that of code object V4, V5 or V6"},
		{offsetof(Elf64_Ehdr, e_type), ET_REL, "code object: not linked (a relocatable file)"},
		{offsetof(Elf64_Ehdr, e_machine), EM_X86_64, "code object: ELF machine 62 is not AMDGPU (224)"},
	};
	for (size_t i = 0; i < sizeof change / sizeof change[0]; i++) {
		uint8_t was = bytes[change[i].at];
		bytes[change[i].at] = change[i].value;
		ck_assert_int_eq(damaged(bytes, size), SIM_EOBJECT);
		ck_assert_str_eq(err, change[i].text);
		bytes[change[i].at] = was;
	}
}
END_TEST

START_TEST(hidden_arguments)
{
	static const uint32_t grid[3] = {5, 6, 7}, block[3] = {64, 2, 1};
	struct sim_object *o = load("gfx942");
	const struct sim_kernel *k = sim_object_kernel(o, "vector_add");
	uint8_t *kernarg = malloc(k->kernarg_size);
	uint32_t v;
	uint16_t h;
	memset(kernarg, 0xee, k->kernarg_size);
	sim_kernarg_hidden(k, grid, block, 0, kernarg);
	ck_assert_uint_eq(kernarg[0], 0xee); /* explicit ones are left alone */
	memcpy(&v, kernarg + arg(k, "hidden_block_count_y")->offset, 4);
	ck_assert_uint_eq(v, 6);
	memcpy(&h, kernarg + arg(k, "hidden_group_size_x")->offset, 2);
	ck_assert_uint_eq(h, 64);
	memcpy(&h, kernarg + arg(k, "hidden_remainder_x")->offset, 2);
	ck_assert_uint_eq(h, 0);
	memcpy(&h, kernarg + arg(k, "hidden_grid_dims")->offset, 2);
	ck_assert_uint_eq(h, 3);
	free(kernarg);
	sim_object_free(o);
}
END_TEST

static char space[4096];
static uint64_t at(size_t i) { return (uintptr_t)(space + i); }

START_TEST(memory_bounds)
{
	struct sim_memory *m = sim_memory_new();
	char text[256];
	uint64_t lo, hi;
	bool writable;
	ck_assert_int_eq(sim_memory_add(m, space + 100, 100, "x", true), SIM_OK);
	ck_assert_int_eq(sim_memory_add(m, space + 200, 100, "y", false), SIM_OK);
	ck_assert(sim_memory_find(m, at(100), 100, true));
	ck_assert(!sim_memory_find(m, at(100), 101, false)); /* neighbours do not join */
	ck_assert(!sim_memory_find(m, at(99), 2, false));
	ck_assert(sim_memory_find(m, at(299), 1, false));
	ck_assert(!sim_memory_find(m, at(299), 1, true));
	ck_assert(!sim_memory_find(m, UINT64_MAX - 1, 8, false));
	ck_assert(sim_memory_range(m, at(199), &lo, &hi, &writable) && lo == at(100) && hi == at(200) && writable);
	ck_assert(!sim_memory_range(m, at(300), &lo, &hi, &writable));
	sim_memory_describe(m, at(302), 4, text, sizeof text);
	ck_assert_str_eq(text, "2 bytes past the end of 'y' (100 bytes)");
	sim_memory_describe(m, at(298), 4, text, sizeof text);
	ck_assert_str_eq(text, "the last 2 of 4 bytes lie past the end of 'y' (100 bytes)");
	sim_memory_describe(m, at(90), 4, text, sizeof text);
	ck_assert_str_eq(text, "10 bytes before the start of 'x' (100 bytes)");
	sim_memory_describe(m, at(250), 4, text, sizeof text);
	ck_assert_str_eq(text, "byte 50 of 'y' (100 bytes, read-only)");
	sim_memory_describe(m, 16, 4, text, sizeof text);
	ck_assert_str_eq(text, "no allocation is near 0x10");
	ck_assert_int_eq(sim_memory_remove(m, space + 101), SIM_EFAULT);
	ck_assert_int_eq(sim_memory_remove(m, space + 100), SIM_OK);
	ck_assert(!sim_memory_find(m, at(100), 1, false));
	sim_memory_free(m);
}
END_TEST

START_TEST(memory_overlaps)
{
	struct sim_memory *m = sim_memory_new();
	sim_memory_add(m, space, 4000, "whole", false);
	sim_memory_add(m, space + 1000, 100, "view", true);
	sim_memory_add(m, space + 1000, 50, "part", true);
	sim_memory_add(m, space + 2000, 0, "empty", true);
	ck_assert(sim_memory_find(m, at(3000), 1000, false)); /* reaches over the later, shorter ones */
	ck_assert(!sim_memory_find(m, at(3000), 4, true));
	ck_assert(sim_memory_find(m, at(1060), 40, true));
	ck_assert(!sim_memory_find(m, at(1060), 41, true));
	ck_assert_int_eq(sim_memory_remove(m, space + 1000), SIM_OK); /* either view: the other's needs stay met */
	ck_assert(sim_memory_find(m, at(1060), 40, true));
	ck_assert_int_eq(sim_memory_remove(m, space + 1000), SIM_OK);
	ck_assert(!sim_memory_find(m, at(1000), 4, true));
	ck_assert_int_eq(sim_memory_remove(m, space + 1000), SIM_EFAULT);
	ck_assert(sim_memory_find(m, at(1000), 4, false));
	ck_assert_int_eq(sim_memory_remove(m, space), SIM_OK);
	ck_assert(!sim_memory_find(m, at(1000), 4, false));
	sim_memory_free(m);
}
END_TEST

START_TEST(statistics_text)
{
	struct sim_stats s = {.inst = {[SIM_VALU] = 3, [SIM_MFMA] = 4}, .waves = 2, .lds_conflicts = 9};
	char text[1024], cut[8];
	size_t n = sim_stats_json(&s, text, sizeof text);
	ck_assert_uint_eq(n, strlen(text));
	ck_assert_str_eq(text, "{\"valu\":3,\"salu\":0,\"mfma\":4,\"lds\":0,\"vmem\":0,\"smem\":0,\"wait\":0,\"barrier\":0,\"branch\":0,"
	                 "\"other\":0,\"instructions\":7,\"waves\":2,\"workgroups\":0,\"mfma_flops\":0,\"global_read\":0,"
	                 "\"global_written\":0,\"lds_read\":0,\"lds_written\":0,\"lds_conflicts\":9}");
	ck_assert_uint_eq(sim_stats_json(&s, cut, sizeof cut), n);
	ck_assert_str_eq(cut, "{\"valu\"");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sim_object");
	TCase *objects = tcase_create("objects"), *memory = tcase_create("memory");
	tcase_add_checked_fixture(objects, build_v5, bytes_free);
	tcase_set_timeout(objects, 120);
	tcase_add_test(objects, kernels_and_arguments);
	tcase_add_test(objects, globals_and_relocations);
	tcase_add_test(objects, lines);
	tcase_add_test(objects, another_chip);
	tcase_add_test(objects, truncated_anywhere);
	tcase_add_test(objects, flipped_bytes);
	tcase_add_test(objects, large_segments);
	tcase_add_test(objects, foreign_files);
	tcase_add_test(objects, hidden_arguments);
	tcase_add_test(memory, memory_bounds);
	tcase_add_test(memory, memory_overlaps);
	tcase_add_test(memory, statistics_text);
	suite_add_tcase(s, objects);
	suite_add_tcase(s, memory);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
