/* nvptx_test.c -- the kernels that ship, for sm_90a: what their PTX computes, that ptxas takes it, what is read back of it.
 *
 * In: kernels.tdsl.  Checked: every kernel's PTX, run by ptx_run, against the evaluated laid-out IR, bit for bit; every variant
 * assembled within the gate's limits, with 16-byte accesses where the plan says aligned (where there is no ptxas this is skipped, and says
 * so); no load in front of the wait for the launch before; facts of PTX and cubin; bad objects and a bad assembler refused with text; one
 * pack with gfx942 and sm_90a, the same each time.  What variants are chosen: nvptx_variants_test.c. */
#include "../compiler/object_code.h"
#include "../compiler/file.h"
#include "dsl_help.h"
#include "nvptx_help.h"
#include "sample.h"

#include <check.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct arena arena;

struct size { const char *symbol; int64_t value; };

/* Sizes by the symbol's name; what is not given is small. */
static int64_t size_of(const struct size *sizes, const char *symbol)
{
	static const struct size small[] = {{"B", 1}, {"H", 2}, {"G", 1}, {"S", 20}, {"L", 40}, {"D", 64}, {"K", 72}, {"E", 3}, {NULL, 0}};
	for (; sizes->symbol; sizes++)
		if (strcmp(sizes->symbol, symbol) == 0)
			return sizes->value;
	for (const struct size *s = small; s->symbol; s++)
		if (strcmp(s->symbol, symbol) == 0)
			return s->value;
	return 4;
}

static void run_pinned(const char *kernel, const struct size *sizes, struct dsl_pin *pin)
{
	struct ir_run r;
	char *what = arena_printf(&arena, "%s", kernel);
	dsl_run_open(&r, "kernels.tdsl", kernel, "");
	bool pairs = false;                              /* rows of elements that lie two in a byte are of even length */
	for (int p = 0; p < r.k->nparams; p++)
		pairs = pairs || (r.k->params[p].is_tensor && dtype_info(r.k->params[p].dtype)->bits == 4);
	for (int i = 0; i < r.k->nsymbols; i++) {
		int64_t n = size_of(sizes, r.k->symbols[i]);
		ir_run_symbol(&r, r.k->symbols[i], pairs ? (n + 1) / 2 * 2 : n);
		what = arena_printf(&arena, "%s %s=%lld", what, r.k->symbols[i], (long long)r.symbols[i]);
	}
	for (int p = 0; p < r.k->nparams; p++) {
		const struct ir_param *q = &r.k->params[p];
		if (!q->is_tensor)
			continue;
		struct ir_tensor *t = ir_run_tensor(&r, q->name, 2);
		for (int64_t i = 0; q->role == IR_IN && q->dtype == DT_I32 && i < ir_tensor_count(t); i++)
			ir_tensor_set(t, i, (double)(i * 3 % 8));     /* counts and bounds of groups */
		if (q->role == IR_OUT)
			ir_run_find(&r, q->name)->data = NULL;
	}
	device_check_all(&r, "sm_90a", pin, pin ? 1 : 0, what);
	ir_run_close(&r);
}

static void run(const char *kernel, const struct size *sizes)
{
	run_pinned(kernel, sizes, NULL);
}

START_TEST(computes)
{
	static const struct size even[] = {{"M", 4}, {"N", 512}, {NULL, 0}}, odd[] = {{"M", 3}, {"N", 269}, {NULL, 0}};
	run(nvptx_kernels.names[_i], even);
	run(nvptx_kernels.names[_i], odd);
}
END_TEST

START_TEST(long_rows)
{
	static const char *const kernels[] = {"rmsnorm_quant", "layernorm", "swiglu_quant", "softmax_rows"};
	static const int sizes[] = {2048, 5120, 16384, 20000};
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		run(kernels[_i], (struct size[]){{"M", 1}, {"B", 1}, {"S", 1}, {"N", sizes[i]}, {NULL, 0}});
}
END_TEST

/* Loads asked for together; a row that is asked for once, which most of them then are not. */
START_TEST(many_row_variants)
{
	struct dsl_pin pin = {"N", 16384};
	run_pinned("rmsnorm_quant", (struct size[]){{"M", 2}, {"N", 16384}, {NULL, 0}}, &pin);
	run("swiglu_masked_128", (struct size[]){{"E", 2}, {"M", 1024}, {"N", 512}, {NULL, 0}});
}
END_TEST

START_TEST(products)
{
	static const int heads[] = {64, 72, 128, 192, 256, 512};
	for (unsigned i = 0; i < sizeof heads / sizeof *heads; i++)
		run("attention", (struct size[]){{"D", heads[i]}, {NULL, 0}});
	run("grouped_gemm", (struct size[]){{"M", 7}, {"N", 136}, {"K", 200}, {NULL, 0}});
	run("grouped_gemm", (struct size[]){{"M", 7}, {"N", 129}, {"K", 75}, {NULL, 0}});
}
END_TEST

/* --- objects ---------------------------------------------------------------------------------------------------------------- */

static bool have_assembler(const char *what)
{
	unsetenv("TDSL_PTXAS");
	if (!object_has_assembler())
		printf("%s: skipped: no ptxas in PATH, CUDA_HOME/bin or /usr/local/cuda/bin\n", what);
	return object_has_assembler();
}

/* Most of the time is the assembler's: of each kernel the first variant and one in three of the others, all with E2E_FULL. */
START_TEST(assembles)
{
	struct built b;
	int every = getenv("E2E_FULL") ? 1 : 3 * sample_of();
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
			ck_assert_int_le(facts[i].vgpr * b.v[v].waves * 32, 65536);
			ck_assert_msg(facts[i].vmem > 0 || facts[i].instructions < 8, "%s %s", nvptx_kernels.names[_i], b.v[v].text);
		}
		free(bytes);
	}
	built_close(&b);
}
END_TEST

/* The wait for the launch before, and a load that may not rise above it: the right order is taken, the other refused. */
START_TEST(waits_first)
{
	static const char load[] = "\tld.global.b32 %r1, [%rd1];\n", wait[] = "\tgriddepcontrol.wait;\n";
	struct built b;
	if (!have_assembler("waits_first"))
		return;
	built_open(&b, "rmsnorm_quant");
	for (int early = 0; early < 2; early++) {
		char *text = NULL;
		void *bytes;
		size_t size;
		struct object_facts *f;
		int n;
		ck_assert_int_gt(asprintf(&text, ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p)\n.reqntid 32\n{\n"
		                          "\t.reg .b32 %%r<2>;\n\t.reg .b64 %%rd<2>;\n\tld.param.b64 %%rd1, [p];\n%s%s"
		                          "\tst.global.b32 [%%rd1+4], %%r1;\n\tret;\n}\n", early ? load : wait, early ? wait : load), 0);
		ck_assert_msg(object_assemble(b.d.target, text, strlen(text), &bytes, &size, b.d.err, sizeof b.d.err) == 0, "%s", b.d.err);
		ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, bytes, size, true, &f, &n, b.d.err, sizeof b.d.err), early ? -1 : 0);
		if (early)
			ck_assert_str_eq(b.d.err, "k for sm_90a: loads in front of the wait for the launch before: 1");
		free(bytes);
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
	tcase_add_loop_test(t, computes, 0, nvptx_kernels.n);
	tcase_add_loop_test(t, long_rows, 0, 4);
	tcase_add_test(t, many_row_variants);
	tcase_add_test(t, products);
	tcase_add_loop_test(t, assembles, 0, nvptx_kernels.n);
	tcase_add_test(t, large_workgroups_start);
	tcase_add_test(t, facts);
	tcase_add_test(t, waits_first);
	tcase_add_test(t, refusals);
	tcase_add_loop_test(t, packs, 0, 2);
}

int main(void)
{
	int failed = nvptx_run("nvptx", add_tests);
	arena_free(&arena);
	return failed;
}
