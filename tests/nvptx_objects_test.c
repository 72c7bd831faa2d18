/* nvptx_objects_test.c -- objects of the kernels that ship, for sm_90a: that ptxas takes their PTX, what is read back of it.
 *
 * In: kernels.tdsl.  Checked: variants assembled within the gate's limits (where there is no ptxas this is skipped, and says so); no load in front of
 * the wait for the launch before; which caps on registers are tried; facts of PTX and cubin; bad objects and a bad assembler refused with text; one pack with gfx942 and sm_90a, the
 * same each time.  Nearly all of the time is the assembler's. */
#include "../compiler/object_code.h"
#include "../compiler/file.h"
#include "dsl_help.h"
#include "nvptx_help.h"
#include "../compiler/pass.h"
#include "sample.h"

#include <check.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena arena;

/* Most of the time is the assembler's: of each kernel the first variant and one in ten of the others, all with E2E_FULL. */
START_TEST(assembles)
{
	struct built b;
	int every = getenv("E2E_FULL") ? 1 : 10 * sample_of();
	if (!have_assembler(nvptx_kernels.names[_i]))
		return;
	built_open(&b, nvptx_kernels.names[_i]);
	for (int v = 0; v < b.n; v++) {
		void *bytes;
		size_t size;
		struct object_facts *facts;
		int n;
		if (v && (v + sample_phase(nvptx_kernels.names[_i])) % every)
			continue;
		ck_assert_msg(built_object(&b, v, &bytes, &size) == 0, "%s %s: %s", nvptx_kernels.names[_i], b.v[v].text, b.d.err);
		ck_assert_msg(object_facts(&b.d.arena, b.d.target, bytes, size, true, &facts, &n, b.d.err, sizeof b.d.err) == 0, "%s %s: %s", nvptx_kernels.names[_i],
		              b.v[v].text, b.d.err);
		ck_assert_int_eq(n, b.launches);
		for (int i = 0; i < n; i++) {
			ck_assert_int_gt(facts[i].vgpr, 0);
			int phase = n > 1 ? atoi(strrchr(facts[i].symbol, '_') + 1) : 0;          /* in an order of the assembler's */
			ck_assert_msg(facts[i].vgpr * variant_waves(&b.v[v], phase) * 32 <= 65536, "%s %s: %d registers", nvptx_kernels.names[_i], b.v[v].text, facts[i].vgpr);
			ck_assert_msg(facts[i].vmem > 0 || facts[i].instructions < 8, "%s %s", nvptx_kernels.names[_i], b.v[v].text);
		}
		free(bytes);
	}
	built_close(&b);
}
END_TEST

/* What the gate says of a kernel that reads its argument and then does what is written, in PTX (freed). */
static int gate_of(struct built *b, enum object_gate gate, char *written, struct object_facts **f)
{
	char *text = NULL;
	void *bytes;
	size_t size;
	int n;
	ck_assert_int_gt(asprintf(&text, ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n.reqntid 32\n{\n\t.reg .b32 %%r<3>;\n"
	                          "\t.reg .b64 %%rd<5>;\n\tld.param.b64 %%rd1, [p];\n%s\tret;\n}\n", written), 0);
	free(written);
	ck_assert_msg(object_assemble(b->d.target, text, strlen(text), &bytes, &size, b->d.err, sizeof b->d.err) == 0, "%s", b->d.err);
	int rc = object_facts(&b->d.arena, b->d.target, bytes, size, gate, f, &n, b->d.err, sizeof b->d.err);
	free(bytes);
	return rc;
}

/* A load, and the wait for the launch before: in this order, or the other. */
static const char *load_and_wait(bool early)
{
	return early ? "\tld.global.b32 %r1, [%rd1];\n\tgriddepcontrol.wait;\n" : "\tgriddepcontrol.wait;\n\tld.global.b32 %r1, [%rd1];\n";
}

/* A stack of 256 bytes passes, of more only where nothing smaller fits; with it the rest of the gate holds. */
START_TEST(what_lies_on_the_stack)
{
	static const struct { int bytes; bool early; enum object_gate gate; int rc; } cases[] = {
		{256, false, OBJECT_GATED, 0}, {272, false, OBJECT_GATED, OBJECT_SPILLS}, {272, false, OBJECT_MAY_SPILL, 0}, {4096, false, OBJECT_MAY_SPILL, 0},
		{4096, false, OBJECT_AS_IT_IS, 0}, {272, true, OBJECT_MAY_SPILL, -1}};
	struct built b;
	if (!have_assembler("what_lies_on_the_stack"))
		return;
	built_open(&b, "rmsnorm_quant");
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		char *written = NULL;
		struct object_facts *f;
		ck_assert_int_gt(asprintf(&written, "\t.local .align 16 .b8 words[%d];\n%s\tmov.u64 %%rd2, words;\n\tmul.wide.u32 %%rd3, %%r1, 4;\n"
		                          "\tadd.u64 %%rd4, %%rd2, %%rd3;\n\tst.local.b32 [%%rd4], %%r1;\n\tld.local.b32 %%r2, [%%rd2];\n\tst.global.b32 [%%rd1+4], %%r2;\n",
		                          cases[c].bytes, load_and_wait(cases[c].early)), 0);
		ck_assert_int_eq(gate_of(&b, cases[c].gate, written, &f), cases[c].rc);
		if (cases[c].rc == 0)
			ck_assert_int_eq(f->scratch, cases[c].bytes);
	}
	built_close(&b);
}
END_TEST

/* The wait for the launch before, and a load that may not rise above it: the right order is taken, the other refused. */
START_TEST(waits_first)
{
	struct built b;
	if (!have_assembler("waits_first"))
		return;
	built_open(&b, "rmsnorm_quant");
	for (int early = 0; early < 2; early++) {
		char *written = NULL;
		struct object_facts *f;
		ck_assert_int_gt(asprintf(&written, "%s\tst.global.b32 [%%rd1+4], %%r1;\n", load_and_wait(early)), 0);
		ck_assert_int_eq(gate_of(&b, OBJECT_GATED, written, &f), early ? -1 : 0);
		if (early)
			ck_assert_str_eq(b.d.err, "k for sm_90a: loads in front of the wait for the launch before: 1");
	}
	built_close(&b);
}
END_TEST

/* A workgroup of 1,024 lanes that each hold 80 words: ptxas keeps some in memory, and no cap gives it more registers than there are for so many. */
START_TEST(large_workgroups_start)
{
	enum { WORDS = 80 };
	struct built b;
	char text[16384];
	size_t at, size;
	void *bytes;
	struct object_facts *f;
	int n;
	if (!have_assembler("large_workgroups_start"))
		return;
	built_open(&b, "rmsnorm_quant");
	at = (size_t)snprintf(text, sizeof text, ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n.reqntid 1024\n{\n"
	                      "\t.reg .b32 %%r<%d>;\n\t.reg .b64 %%rd<2>;\n\tld.param.b64 %%rd1, [p];\n\tgriddepcontrol.wait;\n", WORDS + 1);
	for (int i = 0; i < WORDS; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "\tld.volatile.global.b32 %%r%d, [%%rd1+%d];\n", i, 4 * i);
	for (int i = 0; i < WORDS; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "\tst.volatile.global.b32 [%%rd1+%d], %%r%d;\n", 4 * i, WORDS - 1 - i);
	snprintf(text + at, sizeof text - at, "\tret;\n}\n");
	char *ptx = strdup(text);
	ck_assert_msg(object_assemble(b.d.target, ptx, strlen(ptx), &bytes, &size, b.d.err, sizeof b.d.err) == 0, "%s", b.d.err);
	ck_assert_msg(object_facts(&b.d.arena, b.d.target, bytes, size, true, &f, &n, b.d.err, sizeof b.d.err) == 0, "%s", b.d.err);
	ck_assert_int_gt(f->scratch, 0);
	ck_assert_int_le(f->vgpr * 1024, 65536);
	free(bytes);
	built_close(&b);
}
END_TEST

/* An assembler that takes 64 registers, or as many as it is told, and leaves how many those are.  A kernel of 128 lanes and one of 256 behind it: told
 * the fewest that are worth it; of eight workgroups a multiprocessor those that leave room for one of the other kernel, of ten there are none. */
START_TEST(caps_leave_room_for_the_kernel_behind)
{
	static const char script[] = "#!/bin/sh\ncap=$(sed -n 's/^.maxnreg //p' kernel.ptx | head -n 1)\necho \"Used ${cap:-64} registers\"\nprintf %s \"${cap:-own}\" >kernel.cubin\n";
	static const struct { const char *says, *cap; } cases[] = {{"", "48"}, {".minnctapersm 8\n", "48"}, {".minnctapersm 9\n", "own"}};
	char assembler[] = "/tmp/tdsl-assembler-XXXXXX", *text = NULL;
	struct built b;
	void *bytes;
	size_t size;
	int fd = mkstemp(assembler);
	ck_assert(fd >= 0 && write(fd, script, sizeof script - 1) == (ssize_t)sizeof script - 1 && fchmod(fd, 0700) == 0 && close(fd) == 0);
	built_open(&b, "rmsnorm_quant");
	setenv("TDSL_PTXAS", assembler, 1);
	ck_assert_int_gt(asprintf(&text, ".version 8.4\n.target sm_90a\n.entry k()\n.maxntid 128\n%s{\n}\n.entry l()\n.reqntid 256\n{\n}\n", cases[_i].says), 0);
	ck_assert_msg(object_assemble(b.d.target, text, strlen(text), &bytes, &size, b.d.err, sizeof b.d.err) == 0, "%s", b.d.err);
	ck_assert_msg(size == strlen(cases[_i].cap) && !memcmp(bytes, cases[_i].cap, size), "%.*s for %s", (int)size, (char *)bytes, cases[_i].cap);
	free(bytes);
	unlink(assembler);
	built_close(&b);
}
END_TEST

/* Of a product of four warps a round has so many as there are steps of 16 in its tile's 64, as PTX and as a cubin; none takes a stack. */
START_TEST(products_of_four_warps)
{
	struct built b;
	int found = 0;
	built_open(&b, "grouped_gemm");
	for (int v = 0; v < b.n; v++) {
		struct object_facts *f;
		void *bytes;
		size_t size;
		int n;
		if (!b.v[v].quads || pass_planned_tile(&b.v[v], 0, "k") != 64)
			continue;
		found++;
		for (int cubin = 0; cubin < 2; cubin++) {
			if (cubin && !have_assembler("products of four warps"))
				break;
			if (!cubin)
				setenv("TDSL_PTXAS", "", 1);
			ck_assert_msg(built_object(&b, v, &bytes, &size) == 0, "%s: %s", b.v[v].text, b.d.err);
			ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, bytes, size, true, &f, &n, b.d.err, sizeof b.d.err), 0);
			ck_assert_msg(f[0].mfma == 4, "%s, %s: %d products", b.v[v].text, cubin ? "a cubin" : "PTX", f[0].mfma);
			free(bytes);
		}
	}
	ck_assert_int_eq(found, 2);
	built_close(&b);
}
END_TEST

/* The same kernel as PTX and as a cubin: the same kernel, arguments, barriers and shared memory. */
START_TEST(facts)
{
	enum { FOUR_WARPS = 2 };                               /* N=4096; rows of 1,024 are a single warp's */
	struct built b;
	void *ptx, *cubin;
	size_t ptx_size, cubin_size;
	struct object_facts *of_ptx, *of_cubin;
	int n, m;
	setenv("TDSL_PTXAS", "", 1);
	built_open(&b, "rmsnorm_quant");
	ck_assert_int_eq(built_object(&b, FOUR_WARPS, &ptx, &ptx_size), 0);
	ck_assert_uint_eq(strlen(ptx) + 1, ptx_size);
	ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, ptx, ptx_size, true, &of_ptx, &n, b.d.err, sizeof b.d.err), 0);
	ck_assert_int_eq(n, 1);
	ck_assert_str_eq(of_ptx[0].symbol, "rmsnorm_quant");
	ck_assert_int_eq(of_ptx[0].barriers, 1);
	ck_assert_int_eq(of_ptx[0].lds, 8 * b.v[FOUR_WARPS].waves);     /* a sum and a maximum of every warp */
	ck_assert_ptr_nonnull(object_disassembly(&b.d.arena, b.d.target, ptx, ptx_size, b.d.err, sizeof b.d.err));
	if (have_assembler("facts")) {
		ck_assert_msg(built_object(&b, FOUR_WARPS, &cubin, &cubin_size) == 0, "%s", b.d.err);
		ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, cubin, cubin_size, true, &of_cubin, &m, b.d.err, sizeof b.d.err), 0);
		ck_assert_int_eq(m, 1);
		ck_assert_str_eq(of_cubin[0].symbol, "rmsnorm_quant");
		ck_assert_int_eq(of_cubin[0].kernarg_bytes, of_ptx[0].kernarg_bytes);
		ck_assert_int_eq(of_cubin[0].lds, of_ptx[0].lds);
		ck_assert_int_eq(of_cubin[0].barriers, 1);
		ck_assert_int_eq(of_cubin[0].scratch, 0);
		ck_assert_ptr_null(object_disassembly(&b.d.arena, b.d.target, cubin, cubin_size, b.d.err, sizeof b.d.err));
		ck_assert_ptr_nonnull(strstr(b.d.err, "nvdisasm"));
		for (size_t cut = 0; cut < cubin_size; cut += 1 + cut / 7) {     /* never a crash, whatever is missing */
			uint8_t *part = malloc(cut + 1);
			memcpy(part, cubin, cut);
			ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, part, cut, true, &of_cubin, &m, b.d.err, sizeof b.d.err), -1);
			free(part);
		}
		free(cubin);
	}
	free(ptx);
	built_close(&b);
}
END_TEST

START_TEST(refusals)
{
	struct built b;
	void *bytes;
	size_t size;
	struct object_facts *f;
	int n;
	static const char no_kernel[] = ".version 8.4\n.target sm_90a\n";
	built_open(&b, "rmsnorm_quant");
	setenv("TDSL_PTXAS", "/nonexistent/ptxas", 1);
	ck_assert_int_eq(built_object(&b, 0, &bytes, &size), -1);
	ck_assert_str_eq(b.d.err, "/nonexistent/ptxas: No such file or directory");
	setenv("TDSL_PTXAS", "/bin/false", 1);
	ck_assert_int_eq(built_object(&b, 0, &bytes, &size), -1);
	ck_assert_str_eq(b.d.err, "ptxas: failed without a message");
	ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, no_kernel, sizeof no_kernel, true, &f, &n, b.d.err, sizeof b.d.err), -1);
	ck_assert_str_eq(b.d.err, "the PTX has no kernel");
	ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, no_kernel, 7, true, &f, &n, b.d.err, sizeof b.d.err), -1);
	ck_assert_str_eq(b.d.err, "neither a cubin nor PTX: 7 bytes without an end");
	if (have_assembler("refusals")) {
		char *text = strdup(".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n\tnot.an.instruction;\n}\n");
		ck_assert_int_eq(object_assemble(b.d.target, text, strlen(text), &bytes, &size, b.d.err, sizeof b.d.err), -1);
		ck_assert_ptr_nonnull(strstr(b.d.err, "ptxas: "));
		ck_assert_ptr_nonnull(strstr(b.d.err, "line 6"));
	}
	built_close(&b);
}
END_TEST

START_TEST(packs)
{
	static const char *const targets[] = {"gfx942", "sm_90a", NULL}, *const kernels[] = {"rmsnorm_quant", NULL};
	struct compile_options o = {.targets = targets, .kernels = kernels, .jobs = 1};
	struct compile_result r[2];
	int found[2] = {0};
	char *text = ir_help_file(&arena, "kernels.tdsl");
	if (_i)
		setenv("TDSL_PTXAS", "", 1);
	else if (!have_assembler("packs"))
		return;
	for (int i = 0; i < 2; i++) {
		o.jobs = i + 1;
		ck_assert_msg(compile_text(text, strlen(text), "kernels.tdsl", &o, &r[i]) == 0, "%s", r[i].messages);
	}
	ck_assert_int_eq(r[0].pack.nobjects, r[1].pack.nobjects);
	for (int i = 0; i < r[0].pack.nobjects; i++) {
		const struct model_object *a = &r[0].pack.objects[i], *b = &r[1].pack.objects[i];
		ck_assert_str_eq(a->target, b->target);
		ck_assert_uint_eq(a->size, b->size);
		ck_assert_msg(memcmp(a->bytes, b->bytes, a->size) == 0, "object %d is not the same twice", i);
		bool elf = memcmp(a->bytes, "\177ELF", 4) == 0, nv = strcmp(a->target, "sm_90a") == 0;
		ck_assert_int_eq(elf, !nv || !_i);
		found[nv]++;
	}
	ck_assert_int_gt(found[0], 0);
	ck_assert_int_gt(found[1], 0);
	const struct model_kernel *k = &r[0].pack.kernels[0];
	for (int v = 0; v < k->nvariants; v++) {
		const struct model_launch *l = &k->variants[v].launches[0];
		const struct model_karg *last = &l->kargs[l->nkargs - 1];
		if (strcmp(k->variants[v].target, "sm_90a"))
			continue;
		ck_assert_int_eq(l->kernarg_bytes, last->offset + last->size);
		ck_assert_int_eq(l->block % 32, 0);
	}
	for (int i = 0; i < 2; i++)
		compile_result_free(&r[i]);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, assembles, 0, nvptx_kernels.n);
	tcase_add_test(t, large_workgroups_start);
	tcase_add_loop_test(t, caps_leave_room_for_the_kernel_behind, 0, 3);
	tcase_add_test(t, facts);
	tcase_add_test(t, products_of_four_warps);
	tcase_add_test(t, what_lies_on_the_stack);
	tcase_add_test(t, waits_first);
	tcase_add_test(t, refusals);
	tcase_add_loop_test(t, packs, 0, 2);
}

int main(void)
{
	int failed = nvptx_run("nvptx objects", add_tests);
	arena_free(&arena);
	return failed;
}
