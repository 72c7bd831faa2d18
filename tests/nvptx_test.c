/* nvptx_test.c -- the kernels that ship, for sm_90a: what their PTX computes, that ptxas takes it, what is read back of it.
 *
 * In: kernels.tdsl.  Checked: every kernel's PTX, run by ptx_run, against the evaluated laid-out IR, bit for bit; every variant
 * assembled within the gate's limits, with 16-byte accesses where the plan says aligned (where there is no ptxas this is skipped, and says
 * so); no load in front of the wait for the launch before; facts of PTX and cubin; bad objects and a bad assembler refused with text; one pack with gfx942 and sm_90a, the same each time;
 * what calls with sets of optional tensors take, run; what variants of many rows and of whole tiles are spared: masks, waiting for one load
 * after another, stores in pieces; when the next launch is let in. */
#include "../compiler/object_code.h"
#include "../compiler/file.h"
#include "device_help.h"
#include "dsl_help.h"
#include "sample.h"

#include <check.h>
#include <llvm-c/Core.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 128 };

static struct arena arena;
static struct dsl_file *file;
static const char *names[KERNELS];
static int nnames;

/* Before the tests run: their number depends on it. */
static bool load(void)
{
	struct diag d = {.arena = &arena};
	char err[200];
	size_t n;
	char *text = file_read("kernels.tdsl", &n, err, sizeof err);
	if (!text || dsl_parse(&arena, text, n, "kernels.tdsl", NULL, NULL, &d, &file)) {
		fprintf(stderr, "kernels.tdsl: %s\n", text ? diag_text(&d) : err);
		return false;
	}
	for (int i = 0; i < file->nkernels && nnames < KERNELS; i++)
		if (file->kernels[i].npacked)
			names[nnames++] = file->kernels[i].name;
	return true;
}

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
	run(names[_i], even);
	run(names[_i], odd);
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

struct built { struct device_run d; struct ir_run r; struct variant *v; int n, launches; };

/* pin: also of a kernel that kernels.tdsl has not, in tests/lower; NULL = what the pack's lines say. */
static void open_for(struct built *b, const char *kernel, const char *target, struct dsl_pin *pin)
{
	const struct dsl_special pinned = {.pins = pin, .npins = 1}, *special = pin ? &pinned : NULL;
	struct dsl_kernel text = {0};
	for (int i = 0; i < file->nkernels; i++)
		if (strcmp(file->kernels[i].name, kernel) == 0)
			text = file->kernels[i];
	if (!pin && text.nall)
		special = text.all[0].special;
	dsl_run_open(&b->r, text.name ? "kernels.tdsl" : "tests/lower/loops.tdsl", kernel, "");
	device_open(&b->d, &b->r, target);
	b->r.k->target = target;
	ck_assert_msg(plan_variants(&b->d.arena, b->r.k, &text, special, b->d.target, &b->v, &b->n, b->d.err, sizeof b->d.err) == 0, "%s", b->d.err);
}

static void open_kernel(struct built *b, const char *kernel)
{
	open_for(b, kernel, "sm_90a", NULL);
}

static void close_kernel(struct built *b)
{
	device_close(&b->d);
	ir_run_close(&b->r);
}

/* 0, or -1 with text; free(*bytes). */
static int build(struct built *b, int variant, void **bytes, size_t *size)
{
	struct ir_kernel *final;
	struct translated made;
	char *err = b->d.err;
	size_t len = sizeof b->d.err;
	ck_assert_msg(run_passes(&b->d.arena, b->r.k, &b->v[variant], NULL, &final, err, len) == 0, "%s", err);
	ck_assert_msg(translate(&b->d.arena, final, &b->v[variant], object_context(b->d.session), &made, err, len) == 0, "%s", err);
	b->launches = made.nlaunches;
	return object_build(b->d.session, b->d.target, made.module, made.ordered, bytes, size, err, len);
}

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
	if (!have_assembler(names[_i]))
		return;
	open_kernel(&b, names[_i]);
	for (int v = 0; v < b.n; v++) {
		void *bytes;
		size_t size;
		struct object_facts *facts;
		int n;
		if (v && (v + sample_phase(names[_i])) % every)
			continue;
		ck_assert_msg(build(&b, v, &bytes, &size) == 0, "%s %s: %s", names[_i], b.v[v].text, b.d.err);
		ck_assert_msg(object_facts(&b.d.arena, b.d.target, bytes, size, true, &facts, &n, b.d.err, sizeof b.d.err) == 0, "%s %s: %s", names[_i],
		              b.v[v].text, b.d.err);
		ck_assert_int_eq(n, b.launches);
		for (int i = 0; i < n; i++) {
			ck_assert_int_gt(facts[i].vgpr, 0);
			ck_assert_int_le(facts[i].vgpr * b.v[v].waves * 32, 65536);
			ck_assert_msg(facts[i].vmem > 0 || facts[i].instructions < 8, "%s %s", names[_i], b.v[v].text);
		}
		free(bytes);
	}
	close_kernel(&b);
}
END_TEST

/* The wait for the launch before, and a load that may not rise above it: the right order is taken, the other refused. */
START_TEST(waits_first)
{
	static const char load[] = "\tld.global.b32 %r1, [%rd1];\n", wait[] = "\tgriddepcontrol.wait;\n";
	struct built b;
	if (!have_assembler("waits_first"))
		return;
	open_kernel(&b, "rmsnorm_quant");
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
	close_kernel(&b);
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
	open_kernel(&b, "rmsnorm_quant");
	ck_assert_int_eq(build(&b, FOUR_WARPS, &ptx, &ptx_size), 0);
	ck_assert_uint_eq(strlen(ptx) + 1, ptx_size);
	ck_assert_int_eq(object_facts(&b.d.arena, b.d.target, ptx, ptx_size, true, &of_ptx, &n, b.d.err, sizeof b.d.err), 0);
	ck_assert_int_eq(n, 1);
	ck_assert_str_eq(of_ptx[0].symbol, "rmsnorm_quant");
	ck_assert_int_eq(of_ptx[0].barriers, 1);
	ck_assert_int_eq(of_ptx[0].lds, 8 * b.v[FOUR_WARPS].waves);     /* a sum and a maximum of every warp */
	ck_assert_ptr_nonnull(object_disassembly(&b.d.arena, b.d.target, ptx, ptx_size, b.d.err, sizeof b.d.err));
	if (have_assembler("facts")) {
		ck_assert_msg(build(&b, FOUR_WARPS, &cubin, &cubin_size) == 0, "%s", b.d.err);
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
	close_kernel(&b);
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
	open_kernel(&b, "rmsnorm_quant");
	setenv("TDSL_PTXAS", "/nonexistent/ptxas", 1);
	ck_assert_int_eq(build(&b, 0, &bytes, &size), -1);
	ck_assert_str_eq(b.d.err, "/nonexistent/ptxas: No such file or directory");
	setenv("TDSL_PTXAS", "/bin/false", 1);
	ck_assert_int_eq(build(&b, 0, &bytes, &size), -1);
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
	close_kernel(&b);
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

/* --- variants ---------------------------------------------------------------------------------------------------------------- */

static int variant_of(const struct built *b, const char *text)
{
	int v = 0;
	while (v < b->n && strcmp(b->v[v].text, text))
		v++;
	ck_assert_msg(v < b->n, "%s has no variant %s", b->r.k->name, text);
	return v;
}

static struct ir_kernel *passed(struct built *b, int variant, const char *pass)
{
	struct ir_kernel *k;
	ck_assert_msg(run_passes(&b->d.arena, b->r.k, &b->v[variant], pass, &k, b->d.err, sizeof b->d.err) == 0, "%s: %s", b->v[variant].text, b->d.err);
	return k;
}

/* In the arena. */
static const char *ptx_of(struct built *b, const char *variant)
{
	void *bytes;
	size_t n;
	setenv("TDSL_PTXAS", "", 1);
	ck_assert_msg(build(b, variant_of(b, variant), &bytes, &n) == 0, "%s", b->d.err);
	const char *text = arena_printf(&b->d.arena, "%s", (char *)bytes);
	free(bytes);
	return text;
}

static int times(const char *text, const char *word)
{
	int n = 0;
	while ((text = strstr(text, word))) {
		text += strlen(word);
		n++;
	}
	return n;
}

static void count_masks(struct ir_ins *i, void *n) { *(int *)n += i->flags & IR_MASKED ? 1 : 0; }
static void count_branches(struct ir_ins *i, void *n) { *(int *)n += i->op == IR_IF; }

static int count_in(const struct ir_kernel *k, void (*fn)(struct ir_ins *, void *))
{
	int n = 0;
	for (int p = 0; p < k->nphases; p++)
		ir_walk(k->phases[p].body, fn, &n);
	return n;
}

static bool is_named(const char *names, const char *name)
{
	const char *at = strstr(names, name);
	size_t n = strlen(name);
	return at && (at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n]);
}

/* What a call with these optional tensors and no others takes, which is to be `variant`: run. */
START_TEST(sets_compute)
{
	static struct dsl_pin short_row = {"N", 1024};
	static const struct { const char *kernel, *given, *variant; int m, n; struct dsl_pin *pin; } cases[] = {
		{"quantize_rows", "", "N=1024 aligned rows>=512 bare", 513, 1024, &short_row},      /* four rows a workgroup, the last of one */
		{"relu_act", "", "N%4096=0 aligned rows>=512 bare", 512, 4096, NULL},
		{"geglu_rows", "", "N=1024 aligned rows>=512 bare", 512, 1024, &short_row},
		{"rmsnorm_quant", "", "N=1024 aligned rows>=512", 512, 1024, &short_row},
		{"add_rmsnorm_quant", "res w res_out", "N=4096 aligned with res w res_out", 3, 4096, NULL},
		{"add_rmsnorm_quant", "res w res_out", "N=14336 aligned with res w res_out", 2, 14336, NULL},
		{"quantize_both_mxfp8", "y scale yt scale_t", "M%32=0 N%32=0 aligned", 512, 512, NULL},
	};
	struct built b;
	struct device_code code;
	int v = 0;
	open_for(&b, cases[_i].kernel, "sm_90a", cases[_i].pin);
	ir_run_symbol(&b.r, "M", cases[_i].m);
	ir_run_symbol(&b.r, "N", cases[_i].n);
	for (int p = 0; p < b.r.k->nparams; p++) {
		const struct ir_param *q = &b.r.k->params[p];
		if (q->is_tensor && (!q->optional || is_named(cases[_i].given, q->name)))
			ir_run_tensor(&b.r, q->name, 2);
		else
			b.r.tensors[p].rank = -1;
		if (q->role == IR_OUT) {
			free(b.r.tensors[p].data);
			b.r.tensors[p].data = NULL;
		}
	}
	while (v < b.n && !device_applies(&b.d, &b.v[v]))
		v++;
	ck_assert_msg(v < b.n && strcmp(b.v[v].text, cases[_i].variant) == 0, "%s: %s", cases[_i].kernel, v < b.n ? b.v[v].text : "no variant applies");
	device_compile(&b.d, &b.v[v], &code, cases[_i].variant);
	device_check(&b.d, &code, cases[_i].variant, false);
	free(code.elf);
	close_kernel(&b);
}
END_TEST

/* What a predicate of the text says: a register below so many; -1 = something else. */
static int bound_of(const char *ptx, int predicate, int *of)
{
	char set[32];
	int bound = -1;
	snprintf(set, sizeof set, "setp.lt.u32 \t%%p%d, ", predicate);
	const char *at = strstr(ptx, set);
	if (at && sscanf(at + strlen(set), "%%r%d, %d;", of, &bound) != 2)
		bound = -1;
	return bound;
}

/* The register is what `op` makes: "sub.s32". */
static bool is_made_by(const char *ptx, int of, const char *op)
{
	char made[32];
	snprintf(made, sizeof made, "\t%s \t%%r%d, ", op, of);
	return strstr(ptx, made) != NULL;
}

/* The last 1,056 workgroups let the next launch in: before they wait, or behind it where a row's waves wait for each other, except in grids of
 * 64 workgroups at most. */
START_TEST(the_next_launch_is_let_in)
{
	static const struct { const char *kernel, *variant; bool behind; } cases[] = {
		{"rmsnorm_quant", "N=4096 aligned rows>=512", true}, {"rmsnorm_quant", "N=4096 aligned", true}, {"layernorm_quant", "N=4096 aligned rows>=512 with w", true},
		{"quantize_rows", "N=512 aligned rows>=512 bare", false},         /* a row a wave */
		{"silu_act", "N%4096=0 aligned rows>=512 bare", false}, {"quantize_128", "N%128=0 aligned bare", false},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct dsl_pin short_row = {"N", 512};
		int few = -1, last = -1, all = -1, left = -1;
		open_for(&b, cases[c].kernel, "sm_90a", strstr(cases[c].variant, "N=512") ? &short_row : NULL);
		const char *ptx = ptx_of(&b, cases[c].variant), *at = strstr(ptx, "griddepcontrol.launch_dependents");
		ck_assert_ptr_nonnull(at);
		while (*at != '@')
			at--;
		if (cases[c].behind) {
			ck_assert_int_eq(sscanf(at, "@%%p%d griddepcontrol.launch_dependents; griddepcontrol.wait; @%%p%d griddepcontrol.launch_dependents;", &few, &last), 2);
			ck_assert_int_eq(bound_of(ptx, few, &all), 65);
			ck_assert_msg(is_made_by(ptx, all, "mul.lo.s32"), "%s %s", cases[c].kernel, cases[c].variant);
		} else {
			ck_assert_int_eq(sscanf(at, "@%%p%d griddepcontrol.launch_dependents; griddepcontrol.wait;", &last), 1);
		}
		ck_assert_int_eq(bound_of(ptx, last, &left), 1057);
		ck_assert_msg(is_made_by(ptx, left, "sub.s32"), "%s %s", cases[c].kernel, cases[c].variant);
		ck_assert_int_eq(times(ptx, "griddepcontrol"), cases[c].behind ? 3 : 2);
		close_kernel(&b);
	}
}
END_TEST

/* Many lanes of one access each, or fewer with more. */
START_TEST(lanes_of_a_row)
{
	static struct dsl_pin n = {"N", 4096};
	static const struct { const char *kernel, *variant; int waves; const char *absent; struct dsl_pin *pin; } cases[] = {
		{"add_rmsnorm_quant", "N=4096 aligned with res w res_out", 16, "N=4096 aligned rows>=512 with res w res_out", NULL},   /* two rows */
		{"add_rmsnorm_quant", "N=14336 aligned with res w res_out", 16, NULL, NULL},
		{"swiglu_rows", "N=4096 aligned bare", 16, "N=4096 aligned rows>=512 bare", NULL},
		{"geglu_rows", "N=4096 aligned rows>=512 bare", 8, NULL, &n},       /* 30 instructions an element */
		{"rmsnorm_quant", "N=4096 aligned rows>=512", 8, NULL, NULL},       /* one row, short */
		{"rmsnorm_quant", "N=8192 aligned rows>=512", 8, NULL, NULL},
		{"layernorm_quant", "N=4096 aligned rows>=512 with w", 4, NULL, NULL},
		{"silu_act", "N%4096=0 aligned rows>=512 bare", 16, NULL, NULL},    /* to bf16 */
		{"gelu_act", "N%4096=0 aligned rows>=512 bare", 8, NULL, NULL},     /* 21 instructions */
		{"dequantize_rows", "N%4096=0 aligned rows>=512", 8, NULL, NULL},   /* of 8 bits */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		open_for(&b, cases[c].kernel, "sm_90a", cases[c].pin);
		ck_assert_msg(b.v[variant_of(&b, cases[c].variant)].waves == cases[c].waves, "%s %s: %d waves", cases[c].kernel, cases[c].variant,
		              b.v[variant_of(&b, cases[c].variant)].waves);
		for (int v = 0; cases[c].absent && v < b.n; v++)
			ck_assert_msg(strcmp(b.v[v].text, cases[c].absent), "%s has %s", cases[c].kernel, cases[c].absent);
		close_kernel(&b);
	}
}
END_TEST

/* Four rows of 1,024 in a workgroup of eight waves, where they are many and nothing else is read; two in four, where little is done with it. */
START_TEST(short_rows_share_a_workgroup)
{
	static const struct { const char *kernel, *variant; int rows; } cases[] = {
		{"quantize_rows", "N=1024 aligned rows>=512 bare", 4}, {"quantize_rows", "N=1024 aligned bare", 1},
		{"rmsnorm_quant", "N=1024 aligned rows>=512", 2}, {"softmax_rows", "N=1024 aligned rows>=512 bare", 1},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		struct dsl_pin pin = {"N", 1024};
		open_for(&b, cases[c].kernel, "sm_90a", &pin);
		int v = variant_of(&b, cases[c].variant);
		const struct ir_phase *ph = &passed(&b, v, NULL)->phases[0];
		int rows = 1;
		for (int a = 0; a < ph->naxes; a++)
			rows *= ph->axes[a].kind == AXIS_GRID ? ph->axes[a].tile : 1;
		ck_assert_msg(rows == cases[c].rows && (rows == 1 || b.v[v].waves == 2 * rows), "%s %s: %d rows, %d waves", cases[c].kernel, cases[c].variant, rows, b.v[v].waves);
		close_kernel(&b);
	}
}
END_TEST

/* A lane of groups holds 16 codes at least, however long the code for each is: 8 waves of 32 groups. */
START_TEST(groups_of_a_lane)
{
	struct built b;
	open_kernel(&b, "geglu_128");
	const struct ir_kernel *k = passed(&b, variant_of(&b, "N%4096=0 aligned rows>=512 bare"), NULL);
	int groups = 0;
	for (int a = 0; a < k->phases[0].naxes; a++)
		groups += strcmp(k->phases[0].axes[a].name, "n.o") == 0 ? k->phases[0].axes[a].tile : 0;
	ck_assert_int_eq(groups, 32);
	ck_assert_int_eq(b.v[variant_of(&b, "N%4096=0 aligned rows>=512 bare")].waves, 8);
	close_kernel(&b);
}
END_TEST

/* Rows that may not be there take more of them until they are many; those alone ask for a row once. */
START_TEST(many_rows)
{
	struct built b;
	bool some_are_absent = false;
	open_kernel(&b, names[_i]);
	for (int p = 0; p < b.r.k->nparams; p++)
		some_are_absent = some_are_absent || strcmp(b.r.k->params[p].name, "tokens") == 0;
	for (int v = 0; v < b.n; v++) {
		const char *text = b.v[v].text;
		ck_assert_msg(b.v[v].many == (strstr(text, some_are_absent ? " rows>=2048" : " rows>=512") != NULL), "%s %s", names[_i], text);
		ck_assert_msg(b.v[v].many || !strstr(text, "rows>="), "%s %s", names[_i], text);
		if (some_are_absent)
			ck_assert_msg(count_in(passed(&b, v, "guard"), count_branches) - count_in(passed(&b, v, "stream"), count_branches) == b.v[v].many, "%s %s", names[_i], text);
	}
	close_kernel(&b);
}
END_TEST

START_TEST(rows_are_counted)
{
	static const struct { const char *kernel, *variant; int many; } cases[] = {
		{"swiglu_masked_128", "N%128=0 aligned rows>=2048 bare", 2048}, {"quantize_128", "N%128=0 aligned rows>=512 bare", 512},
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		open_kernel(&b, cases[c].kernel);
		const struct variant *v = &b.v[variant_of(&b, cases[c].variant)];
		ir_run_symbol(&b.r, "E", 1);
		ir_run_symbol(&b.r, "N", 4096 - 128);
		for (int less = 0; less < 2; less++) {
			ir_run_symbol(&b.r, "M", cases[c].many - less);
			ck_assert_msg(device_applies(&b.d, v) == !less, "%s of %d rows: %s", cases[c].kernel, cases[c].many - less, v->text);
		}
		close_kernel(&b);
	}
}
END_TEST

START_TEST(whole_tiles_have_no_masks)
{
	struct built b;
	open_kernel(&b, "quantize_128");
	ck_assert_int_eq(count_in(passed(&b, variant_of(&b, "N%4096=0 aligned rows>=512 bare"), NULL), count_masks), 0);
	ck_assert_int_gt(count_in(passed(&b, variant_of(&b, "N%128=0 aligned rows>=512 bare"), NULL), count_masks), 0);
	close_kernel(&b);
}
END_TEST

static int count_fma(LLVMModuleRef m)
{
	int n = 0;
	for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
		for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
			for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i)) {
				size_t len = 0;
				const char *name = LLVMIsACallInst(i) ? LLVMGetValueName2(LLVMGetCalledValue(i), &len) : NULL;
				if (len > 8 && strncmp(name, "llvm.fma", 8) == 0)
					n += LLVMGetTypeKind(LLVMTypeOf(i)) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(LLVMTypeOf(i)) : 1;
			}
	return n;
}

/* A row of 7 x 1,024 in a tile of 8,192: each lane squares what the row has of its 64 places. */
START_TEST(absent_elements_are_not_summed)
{
	struct built b;
	struct translated made;
	open_kernel(&b, "layernorm_quant");
	int v = variant_of(&b, "N=7168 aligned rows>=512 with w");
	ck_assert_int_eq(translate(&b.d.arena, passed(&b, v, NULL), &b.v[v], object_context(b.d.session), &made, b.d.err, sizeof b.d.err), 0);
	ck_assert_int_eq(count_fma(made.module), 7168 / 128);
	LLVMDisposeModule(made.module);
	close_kernel(&b);
}
END_TEST

/* The question whose answer only the machine knows to be yes always (emit/ask.c); NULL where none is asked. */
static const char *certain(const char *ptx)
{
	const char *at = strstr(ptx, "// begin inline asm\n\tmov.u32 %");
	return at && strncmp(at + strcspn(at, ","), ", %nctaid.x;", 12) == 0 ? at : NULL;
}

/* Loads behind the branch on that, with nothing else between them. */
static int asked_together(const char *question)
{
	const char *branch = strstr(question, "bra \t");
	int n = 0;
	ck_assert_ptr_nonnull(branch);
	size_t label = strcspn(branch + 5, ";");
	for (const char *line = strchr(branch, '\n') + 1; strncmp(line, branch + 5, label); line = strchr(line, '\n') + 1) {
		bool load = strncmp(line, "\tld.global", 10) == 0;
		n += load;
		ck_assert_msg(load || !n || strncmp(line, "\t.loc", 5) == 0 || strncmp(line, "$L__tmp", 7) == 0, "between loads: %.*s", (int)strcspn(line, "\n"), line);
	}
	return n;
}

/* loads: of 16 bytes, that a lane makes of a row of bf16 and of each weight. */
static struct dsl_pin in_loop = {"N", 4096};
static const struct { const char *kernel, *variant; int loads; struct dsl_pin *pin; } fronts[] = {
	{"rmsnorm_128", "N=4096 aligned rows>=512 with w", 2 * 4096 * 2 / 16 / 128, NULL},
	{"layernorm_quant", "N=4096 aligned rows>=512 with w", 2 * 4096 * 2 / 16 / 128, NULL},
	{"layernorm_quant", "N=4096 aligned rows>=512 with w b", 3 * 4096 * 2 / 16 / 128, NULL},
	{"rmsnorm_mxfp8", "N=8192 aligned rows>=512 with w", 2 * 8192 * 2 / 16 / 256, NULL},
	{"layernorm_quant", "N=7168 aligned rows>=512 with w", 0, NULL},    /* 224 bytes a lane: the weights later */
	{"rmsnorm_128", "N=4096 aligned with w", 0, NULL},                  /* 16 bytes a lane */
	{"layernorm_quant", "N=4096 aligned with w b", 0, NULL},
	{"add_rmsnorm_quant", "N=14336 aligned with res w res_out", 0, NULL},   /* two rows */
	{"swiglu", "N%4096=0 aligned rows>=512 bare", 0, NULL},             /* no weights */
	{"quantize_128", "N%4096=0 aligned rows>=512 bare", 0, NULL},
	{"layernorm", "N<=4096 N%8=0 aligned with w b", 0, NULL},           /* under masks */
	{"running_weighted", "N=4096 aligned", 0, &in_loop},                 /* in a loop */
};
enum { FRONTS = sizeof fronts / sizeof *fronts };

START_TEST(loads_are_asked_for_together)
{
	struct built b;
	open_for(&b, fronts[_i].kernel, "sm_90a", fronts[_i].pin);
	const char *ptx = ptx_of(&b, fronts[_i].variant), *wait = strstr(ptx, "griddepcontrol.wait"), *load = strstr(ptx, "ld.global"), *branch = strstr(ptx, "$L__BB");
	ck_assert_msg(!certain(ptx) == !fronts[_i].loads, "%s %s", fronts[_i].kernel, fronts[_i].variant);
	if (fronts[_i].loads) {
		ck_assert_int_eq(asked_together(certain(ptx)), fronts[_i].loads);
		ck_assert_int_eq(times(ptx, "ld.global"), fronts[_i].loads);
	}
	ck_assert_ptr_nonnull(load);
	ck_assert_msg(wait && wait < load && (!branch || wait < branch), "%s %s: a load in front of the wait", fronts[_i].kernel, fronts[_i].variant);
	close_kernel(&b);
}
END_TEST

/* Stores of a lane, by what only those of the scales have; y's are of 8 bytes. */
START_TEST(scales_are_stored_side_by_side)
{
	static const struct { const char *kernel, *variant; int fours, words, bytes; } cases[] = {
		{"rmsnorm_128", "N=4096 aligned rows>=512 with w", 1, 0, 0},
		{"rmsnorm_mxfp8", "N=4096 aligned rows>=512 with w", 0, 1, 0},
		{"rmsnorm_mxfp8", "N=8192 aligned rows>=512 with w", 0, 1, 0},
		{"rmsnorm_128", "N=7168 aligned with w", 0, 7, 0},
		{"rmsnorm_mxfp8", "N=7168 aligned rows>=512 with w", 0, 0, 7},
		{"rmsnorm_mxfp8", "N=8192 aligned with w", 0, 0, 2},                  /* 16 waves */
		{"rmsnorm_mxfp8", "N=16384 aligned with w", 0, 0, 8},                 /* 512 groups */
	};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		open_kernel(&b, cases[c].kernel);
		const char *ptx = ptx_of(&b, cases[c].variant);
		int fours = times(ptx, "st.global.v4.b32"), words = times(ptx, "st.global.b32"), bytes = times(ptx, "st.global.b8");
		ck_assert_msg(fours == cases[c].fours && words == cases[c].words && bytes == cases[c].bytes, "%s %s: %d of 16 bytes, %d of 4, %d of one", cases[c].kernel,
		              cases[c].variant, fours, words, bytes);
		close_kernel(&b);
	}
}
END_TEST

START_TEST(turned_tiles)
{
	static const struct { const char *target; int rows, columns, threads; } cases[] = {{"sm_90a", 64, 256, 512}, {"gfx942", 128, 64, 256}};
	for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct built b;
		open_for(&b, "cast_transpose", cases[c].target, NULL);
		int v = variant_of(&b, "M%8=0 N%8=0 aligned with y yt");
		const struct ir_phase *ph = &passed(&b, v, NULL)->phases[0];
		for (int a = 0; a < ph->naxes; a++)
			ck_assert_msg(ph->axes[a].tile == (strcmp(ph->axes[a].name, "m") == 0 ? cases[c].rows : cases[c].columns), "%s: %d of axis %s", cases[c].target,
			              ph->axes[a].tile, ph->axes[a].name);
		ck_assert_int_eq(ph->naxes, 2);
		ck_assert_int_eq(b.v[v].waves * b.d.target->wave, cases[c].threads);
		close_kernel(&b);
	}
}
END_TEST

/* The scales across: of four groups of rows in the lanes of one wave, which are bytes side by side in memory. */
START_TEST(scales_across)
{
	struct built b;
	open_kernel(&b, "quantize_both_mxfp8");
	int v = variant_of(&b, "M%32=0 N%32=0 aligned"), rows = -1, stores = 0;
	const struct ir_kernel *k = passed(&b, v, NULL);
	const struct ir_phase *ph = &k->phases[0];
	for (int a = 0; a < ph->naxes; a++)
		if (strcmp(ph->axes[a].name, "m.o") == 0)
			rows = a;
	ck_assert_int_ge(rows, 0);
	ck_assert_int_eq(ph->axes[rows].tile, 4);
	ck_assert_int_eq(b.v[v].waves, 4);
	for (const struct ir_ins *i = ph->body->first; i; i = i->next) {
		if (i->op != IR_STORE || strcmp(k->params[i->imm].name, "scale_t"))
			continue;
		int lanes = 1;
		for (int bit = 0; bit < i->layout->nlane; bit++)
			lanes *= i->layout->lane[bit].step[rows] ? 2 : 1;
		ck_assert_int_eq(lanes, 4);
		stores++;
	}
	ck_assert_int_eq(stores, 1);
	close_kernel(&b);
}
END_TEST

int main(void)
{
	if (!load())
		return 1;
	Suite *s = suite_create("nvptx");
	TCase *t = tcase_create("nvptx");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, computes, 0, nnames);
	tcase_add_loop_test(t, long_rows, 0, 4);
	tcase_add_test(t, many_row_variants);
	tcase_add_test(t, products);
	tcase_add_loop_test(t, assembles, 0, nnames);
	tcase_add_test(t, facts);
	tcase_add_test(t, waits_first);
	tcase_add_test(t, refusals);
	tcase_add_loop_test(t, packs, 0, 2);
	suite_add_tcase(s, t);
	t = tcase_create("variants");
	tcase_set_timeout(t, 300);
	tcase_add_loop_test(t, sets_compute, 0, 7);
	tcase_add_test(t, the_next_launch_is_let_in);
	tcase_add_test(t, lanes_of_a_row);
	tcase_add_test(t, short_rows_share_a_workgroup);
	tcase_add_test(t, groups_of_a_lane);
	tcase_add_loop_test(t, many_rows, 0, nnames);
	tcase_add_test(t, rows_are_counted);
	tcase_add_test(t, whole_tiles_have_no_masks);
	tcase_add_test(t, absent_elements_are_not_summed);
	tcase_add_loop_test(t, loads_are_asked_for_together, 0, FRONTS);
	tcase_add_test(t, scales_are_stored_side_by_side);
	tcase_add_test(t, turned_tiles);
	tcase_add_test(t, scales_across);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	arena_free(&arena);
	return failed != 0;
}
