/* nvptx_test.c -- the kernels that ship, for sm_90a: what their PTX computes.
 *
 * In: kernels.tdsl.  Checked: every kernel's PTX, run by ptx_run, against the evaluated laid-out IR, bit for bit; what ptx_run computes of a
 * cluster's exchange, by stores and by counted ones, and which it refuses.  What variants are chosen: nvptx_variants_test.c; what ptxas makes of
 * them: nvptx_objects_test.c. */
#include "../compiler/object_code.h"
#include "../compiler/file.h"
#include "dsl_help.h"
#include "nvptx_help.h"
#include "ptx_run.h"
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

/* Lanes hold what lies side by side in the tensors that the tile is of, however many numbers of its rows are read beside them. */
START_TEST(numbers_of_rows_turn_no_tile)
{
	static const char *const kernel = "tiles_of_many_numbers", *const variant = "M%32=0 N%32=0 aligned";
	struct built b;
	built_open_for(&b, kernel, "sm_90a", NULL);
	const char *ptx = built_ptx(&b, variant);
	ck_assert_int_eq(built_times(ptx, "cache_hint.b16"), 0);
	ck_assert_int_eq(built_times(ptx, "st.global.v4.b32"), 1);
	built_close(&b);
	built_call(kernel, NULL, 64, 256, "", variant);
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

/* --- clusters --------------------------------------------------------------------------------------------------------------- */

#define CLUSTER(dims) ".explicitcluster\n.reqnctapercluster " dims "\n"
#define ARRIVE "\tbarrier.cluster.arrive.aligned;\n"
#define RELAXED "\tbarrier.cluster.arrive.relaxed.aligned;\n"
#define WAIT "\tbarrier.cluster.wait.aligned;\n"
#define READ "\tld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p];\n"
#define WARP_SYNC "\tbar.warp.sync \t0xffffffff;\n"
#define SEND "\tst.shared::cluster.b32 \t[%rd5], %r4;\n"
#define MAP "\tmapa.shared::cluster.u64 \t%rd5, %rd4, %r5;\n"

enum { CLUSTER_WARPS = 2, CLUSTER_OUT = 8, CLUSTER_SHARED = 1024 };

/* Each workgroup has 4 words at p, of which the rank's is %rd4; %r4 is its number, from 1 up over the grid.  The first lanes' %r5 are the
 * ranks 0 to 3, the others' their own; %p1: those first ones, %p2: the workgroup of rank 0, %p3: that of rank 3, %p4: the second warp,
 * %p5: the first thread, %p6: the second warp's first. */
struct exchange { const char *dims, *start, *send, *meet, *read; };

static const struct exchange sound = {CLUSTER("4, 1, 1"), RELAXED WAIT, MAP SEND, ARRIVE WAIT, READ};

/* What e does not say is as in base. */
static char *exchange_text(const struct exchange *e, const struct exchange *base)
{
	return arena_printf(&arena, ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 p[];\n.visible .entry k(\n"
	                    "\t.param .u64 .ptr .global .align 4 k_param_0\n)\n.reqntid 64\n%s{\n"
	                    "\t.reg .pred \t%%p<8>;\n\t.reg .b32 \t%%r<30>;\n\t.reg .b64 \t%%rd<10>;\n"
	                    "\tld.param.b64 \t%%rd1, [k_param_0];\n\tmov.u32 \t%%r1, %%cluster_ctarank;\n\tmov.u32 \t%%r2, %%tid.x;\n\tmov.u32 \t%%r3, %%ctaid.x;\n"
	                    "\tmul.wide.u32 \t%%rd2, %%r1, 4;\n\tmov.b64 \t%%rd3, p;\n\tadd.s64 \t%%rd4, %%rd3, %%rd2;\n\tadd.s32 \t%%r4, %%r3, 1;\n"
	                    "\tsetp.lt.u32 \t%%p1, %%r2, 4;\n\tselp.b32 \t%%r5, %%r2, %%r1, %%p1;\n\tsetp.eq.b32 \t%%p2, %%r1, 0;\n"
	                    "\tsetp.eq.b32 \t%%p3, %%r1, 3;\n\tsetp.gt.u32 \t%%p4, %%r2, 31;\n"
	                    "\tsetp.eq.b32 \t%%p5, %%r2, 0;\n\tsetp.eq.b32 \t%%p6, %%r2, 32;\n%s%s%s%s"
	                    "\tadd.s32 \t%%r14, %%r10, %%r11;\n\tadd.s32 \t%%r15, %%r12, %%r13;\n\tadd.s32 \t%%r16, %%r14, %%r15;\n"
	                    "\tmul.wide.u32 \t%%rd6, %%r3, 4;\n\tadd.s64 \t%%rd7, %%rd1, %%rd6;\n\tst.global.b32 \t[%%rd7], %%r16;\n$end:\n\tret;\n}\n",
	                    e->dims ? e->dims : base->dims, e->start ? e->start : base->start, e->send ? e->send : base->send, e->meet ? e->meet : base->meet,
	                    e->read ? e->read : base->read);
}

static int exchange_run(const struct exchange *e, const struct exchange *base, uint32_t grid, uint32_t *out, char *err, size_t errlen)
{
	uint64_t at = (uint64_t)(uintptr_t)out;
	struct ptx_range memory = {(uint8_t *)out, CLUSTER_OUT * sizeof *out, true};
	struct ptx_launch l = {.text = exchange_text(e, base), .kernel = "k", .grid = {grid, 1, 1}, .block = 32 * CLUSTER_WARPS, .arguments = &at, .argument_bytes = 8,
	                       .memory = &memory, .nmemory = 1, .shared = CLUSTER_SHARED};
	memset(out, 0, CLUSTER_OUT * sizeof *out);
	return ptx_run(&l, err, errlen);
}

/* Everyone's number to everyone, in each form that may say so. */
static const struct exchange exchanges[] = {
	{.send = MAP SEND},
	{.send = MAP "\t@%p1 st.shared::cluster.b32 \t[%rd5+0], %r4;\n"},
	{.send = "\tmapa.shared::cluster.u64 \t%rd5, %rd4, 0;\n" SEND "\tmapa.shared::cluster.u64 \t%rd5, %rd4, 1;\n" SEND
	         "\tmapa.shared::cluster.u64 \t%rd5, %rd4, 2;\n" SEND "\tmapa.shared::cluster.u64 \t%rd5, %rd4, 3;\n" SEND},
	{.send = MAP "\tadd.s64 \t%rd5, %rd5, 16;\n\tst.shared::cluster.b32 \t[%rd5+-16], %r4;\n"},
	/* kept in the own memory, and read from the others' */
	{.send = "\tst.shared.b32 \t[%rd4], %r4;\n",
	 .read = "\tmapa.shared::cluster.u64 \t%rd5, p, 0;\n\tld.shared::cluster.b32 \t%r10, [%rd5];\n"
	         "\tmapa.shared::cluster.u64 \t%rd5, p, 1;\n\tld.shared::cluster.b32 \t%r11, [%rd5+4];\n"
	         "\tmapa.shared::cluster.u64 \t%rd5, p, 2;\n\tld.shared::cluster.v2.b32 \t{%r12, %r14}, [%rd5+8];\n"
	         "\tmapa.shared::cluster.u64 \t%rd5, p, 3;\n\tld.shared::cluster.v4.b32 \t{%r14, %r15, %r16, %r13}, [%rd5];\n" ARRIVE WAIT},
	/* rank 0's number with zeros where the others' then go */
	{.send = MAP "\t@%p2 st.shared::cluster.v2.b32 \t[%rd5], {%r4, 0};\n" ARRIVE WAIT "\t@!%p2 st.shared::cluster.b32 \t[%rd5], %r4;\n"},
	{.send = MAP "\t@%p2 st.shared::cluster.v4.b32 \t[%rd5], {%r4, 0, 0, 0};\n" ARRIVE WAIT "\t@!%p2 st.shared::cluster.b32 \t[%rd5], %r4;\n"},
	/* the workgroup's own barrier between an arrive and its wait; a later arrive that is not relaxed makes good for one that is */
	{.meet = ARRIVE "\tbar.sync \t0;\n" WAIT},
	{.meet = RELAXED WAIT ARRIVE WAIT RELAXED WAIT},
	/* the second warp has its end in front of the second barrier */
	{.meet = "\t@%p4 bra \t$end;\n" ARRIVE WAIT},
	/* words that are read before anyone stores them; a warp that has stored and arrived ends, and others go on over barriers; the first one ends */
	{.start = "\tld.shared.v4.b32 \t{%r14, %r15, %r16, %r17}, [p];\n" ARRIVE WAIT},
	{.send = "\t@!%p4 bra \t$first;\n\tand.b32 \t%r5, %r2, 3;\n" MAP SEND ARRIVE "\tbra \t$end;\n$first:\n", .meet = ARRIVE WAIT ARRIVE WAIT ARRIVE WAIT},
	{.meet = ARRIVE "\t@!%p4 bra \t$end;\n" WAIT},
};

/* ptxas takes the texts, if there is one. */
static void exchange_check(const char *what, int form, const struct exchange *e, const struct exchange *base)
{
	uint32_t out[CLUSTER_OUT];
	char err[300] = "";
	struct built b;
	ck_assert_msg(exchange_run(e, base, CLUSTER_OUT, out, err, sizeof err) == 0, "%s, form %d: %s", what, form, err);
	for (uint32_t g = 0; g < CLUSTER_OUT; g++)
		ck_assert_msg(out[g] == (g < 4 ? 1 + 2 + 3 + 4 : 5 + 6 + 7 + 8), "%s, form %d: workgroup %u has %u", what, form, g, out[g]);
	if (!have_assembler(what))
		return;
	char *text = strdup(exchange_text(e, base));
	void *bytes;
	size_t size;
	built_open(&b, "rmsnorm_quant");
	ck_assert_msg(object_assemble(b.d.target, text, strlen(text), &bytes, &size, b.d.err, sizeof b.d.err) == 0, "%s, form %d: %s", what, form, b.d.err);
	free(bytes);
	built_close(&b);
}

START_TEST(clusters)
{
	exchange_check("clusters", _i, &exchanges[_i], &sound);
}
END_TEST

struct refusal { struct exchange e; uint32_t grid; const char *err; };

static const struct refusal cluster_refusals[] = {
	/* before the first barrier, and behind the end */
	{{.start = ""}, 8, "workgroup 0 thread 1: st.shared::cluster.b32 \t[%rd5], %r4: before the first barrier workgroup 1 may not have started"},
	{{.start = RELAXED, .meet = WAIT ARRIVE WAIT}, 8,
	 "workgroup 0 thread 1: st.shared::cluster.b32 \t[%rd5], %r4: before the first barrier workgroup 1 may not have started"},
	{{.start = "", .send = MAP "\tld.shared::cluster.b32 \t%r6, [%rd5];\n"}, 8,
	 "workgroup 0 thread 1: ld.shared::cluster.b32 \t%r6, [%rd5]: before the first barrier workgroup 1 may not have started"},
	{{.send = "\t@%p3 bra \t$end;\n" MAP SEND}, 8, "workgroup 2 thread 3: st.shared::cluster.b32 \t[%rd5], %r4: workgroup 3 has ended"},
	{{.send = "\t@%p3 bra \t$end;\n" MAP "\tld.shared::cluster.b32 \t%r6, [%rd5];\n"}, 8,
	 "workgroup 2 thread 3: ld.shared::cluster.b32 \t%r6, [%rd5]: workgroup 3 has ended"},
	{{.send = "\t@%p2 bra \t$end;\n" MAP SEND}, 8,
	 "workgroup 0: ends, and no barrier orders this after workgroup 1 thread 0: st.shared::cluster.b32 \t[%rd5], %r4"},
	/* what no barrier orders */
	{{.meet = WARP_SYNC}, 8,
	 "workgroup 2 thread 32: ld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p]: no barrier orders this after workgroup 3 thread 2: st.shared::cluster.b32 \t[%rd5], %r4"},
	{{.meet = RELAXED WAIT}, 8,
	 "workgroup 0 thread 0: ld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p]: no barrier orders this after workgroup 1 thread 0: st.shared::cluster.b32 \t[%rd5], %r4"},
	{{.send = "", .meet = ARRIVE MAP SEND WAIT}, 8,
	 "workgroup 0 thread 0: ld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p]: no barrier orders this after workgroup 1 thread 0: st.shared::cluster.b32 \t[%rd5], %r4"},
	{{.meet = ARRIVE WARP_SYNC, .read = READ WAIT}, 8,
	 "workgroup 2 thread 32: ld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p]: no barrier orders this after workgroup 3 thread 2: st.shared::cluster.b32 \t[%rd5], %r4"},
	{{.meet = "\tbar.sync \t0;\n"}, 8,
	 "workgroup 0 thread 0: ld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p]: no barrier orders this after workgroup 1 thread 0: st.shared::cluster.b32 \t[%rd5], %r4"},
	{{.send = "\tst.shared.b32 \t[%rd4], %r4;\n", .meet = WARP_SYNC "\tmapa.shared::cluster.u64 \t%rd5, p, 3;\n\tld.shared::cluster.b32 \t%r6, [%rd5+12];\n" ARRIVE WAIT}, 8,
	 "workgroup 2 thread 32: ld.shared::cluster.b32 \t%r6, [%rd5+12]: no barrier orders this after workgroup 3 thread 31: st.shared.b32 \t[%rd4], %r4"},
	/* barriers */
	{{.meet = ARRIVE ARRIVE WAIT}, 8, "workgroup 3 thread 32: barrier.cluster.arrive.aligned: arrives twice without a wait"},
	{{.start = RELAXED ARRIVE WAIT}, 8, "workgroup 0 thread 0: barrier.cluster.arrive.aligned: arrives twice without a wait"},
	{{.start = WAIT}, 8, "workgroup 0 thread 0: barrier.cluster.wait.aligned: waits without an arrive"},
	{{.meet = ARRIVE WAIT WAIT}, 8, "workgroup 0 thread 0: barrier.cluster.wait.aligned: waits without an arrive"},
	{{.start = "\t@%p1 barrier.cluster.arrive.aligned;\n" WAIT}, 8, "@%p1 barrier.cluster.arrive.aligned: a warp's instruction under a predicate"},
	{{.start = "\t@%p1 bra \t$end;\n" ARRIVE WAIT}, 8, "thread 0: end: the warp's threads are not all here"},
	{{.start = "\tbarrier.cluster.arrive;\n" WAIT}, 8, "barrier.cluster.arrive: not known, or not in this form"},
	{{.start = ARRIVE "\tbarrier.cluster.wait.relaxed.aligned;\n"}, 8, "barrier.cluster.wait.relaxed.aligned: not known, or not in this form"},
	{{.start = "\t@%p4 bra \t$own;\n" ARRIVE WAIT "$own:\n\tbar.sync \t0;\n"}, 8,
	 "workgroup 0 thread 0: barrier.cluster.wait.aligned: others never arrive"},
	/* addresses */
	{{.send = "\tmapa.shared::cluster.u64 \t%rd5, %rd4, 4;\n" SEND}, 8, "workgroup 3 thread 32: mapa.shared::cluster.u64 \t%rd5, %rd4, 4: rank 4, the cluster has 4"},
	{{.send = MAP "\tmapa.shared::cluster.u64 \t%rd5, %rd5, 0;\n" SEND}, 8,
	 "workgroup 3 thread 32: mapa.shared::cluster.u64 \t%rd5, %rd5, 0: 0x40000000c is not an address of the own workgroup"},
	{{.send = MAP "\tst.shared.b32 \t[%rd5], %r4;\n"}, 8, "thread 32: st.shared.b32 \t[%rd5], %r4: shared address 17179869196, there are 1024 bytes"},
	{{.send = MAP "\tst.shared::cluster.b32 \t[%rd5+1012], %r4;\n"}, 8, "thread 32: st.shared::cluster.b32 \t[%rd5+1012], %r4: shared address 1024, there are 1024 bytes"},
	{{.send = MAP "\tst.shared::cluster.b32 \t[%rd5+2], %r4;\n"}, 8, "thread 32: st.shared::cluster.b32 \t[%rd5+2], %r4: address 0x40000000e is not a multiple of 4"},
	{{.send = MAP "\tred.shared::cluster.add.u32 \t[%rd5], %r4;\n"}, 8, "red.shared::cluster.add.u32 \t[%rd5], %r4: not known, or not in this form"},
	/* shapes; one workgroup where the text does not say */
	{{.dims = "", .send = "\tmapa.shared::cluster.u64 \t%rd5, %rd4, 1;\n"}, 8,
	 "workgroup 0 thread 32: mapa.shared::cluster.u64 \t%rd5, %rd4, 1: rank 1, the cluster has 1"},
	{{.dims = NULL}, 6, "k: a grid of 6 workgroups along x is not one of clusters of 4"},
	{{.dims = CLUSTER("2, 2, 1")}, 8, ".reqnctapercluster 2, 2, 1: not a cluster of 1 to 16 workgroups along x"},
	{{.dims = CLUSTER("2, 1, 2")}, 8, ".reqnctapercluster 2, 1, 2: not a cluster of 1 to 16 workgroups along x"},
	{{.dims = CLUSTER("0, 1, 1")}, 8, ".reqnctapercluster 0, 1, 1: not a cluster of 1 to 16 workgroups along x"},
	{{.dims = CLUSTER("17, 1, 1")}, 17, ".reqnctapercluster 17, 1, 1: not a cluster of 1 to 16 workgroups along x"},
};

static void refusal_check(const struct refusal *r, const struct exchange *base)
{
	uint32_t out[CLUSTER_OUT];
	char err[300] = "";
	ck_assert_int_eq(exchange_run(&r->e, base, r->grid, out, err, sizeof err), -1);
	ck_assert_str_eq(err, r->err);
}

START_TEST(cluster_refused)
{
	refusal_check(&cluster_refusals[_i], &sound);
}
END_TEST

/* --- counted stores --------------------------------------------------------------------------------------------------------- */

#define INIT(at, count) "mbarrier.init.shared::cta.b64 [%rd3+" at "], " count
#define FENCE "\t@%p5 fence.mbarrier_init.release.cluster;\n"
#define INITS "\t@%p5 " INIT("64", "1") ";\n\t@%p5 " INIT("72", "1") ";\n"
#define EXPECT(at, bytes) "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%rd3+" at "], " bytes
#define ONCE(at, bytes) "\t@%p5 " EXPECT(at, bytes) ";\n"
#define TRY(at) "mbarrier.try_wait.parity.shared::cta.b64 %p7, [%rd3+" at "], 0"
#define RECEIVE(at) "$" at ":\n\t" TRY(at) ";\n\t@!%p7 bra \t$" at ";\n"
#define COUNT "st.async.shared::cluster.mbarrier::complete_tx::bytes."
#define MAPS MAP "\tadd.s64 \t%rd8, %rd3, 64;\n\tmapa.shared::cluster.u64 \t%rd8, %rd8, %r5;\n"
#define ONE COUNT "b32 [%rd5], %r4, [%rd8]"
#define TWO COUNT "v2.b32 [%rd5], {%r20, %r21}, [%rd8]"
#define FOUR COUNT "v4.b32 [%rd5], {%r20, %r21, %r22, %r23}, [%rd8]"
#define IF_FIRST(send) "\t@%p1 " send ";\n"
#define OWN_SYNC "\tbar.sync \t0;\n"

/* Words that, multiplied by 1, 2 and on, make %r4; places of 8 and of 16 bytes; their sum, from four words on. */
#define PAIR "\tsub.s32 \t%r20, %r4, 6;\n\tmov.b32 \t%r21, 3;\n\tadd.s64 \t%rd4, %rd4, %rd2;\n" MAPS
#define QUAD "\tsub.s32 \t%r20, %r4, 20;\n\tmov.b32 \t%r21, 1;\n\tmov.b32 \t%r22, 2;\n\tmov.b32 \t%r23, 3;\n" \
	"\tmul.wide.u32 \t%rd2, %r1, 16;\n\tadd.s64 \t%rd4, %rd3, %rd2;\n" MAPS
#define NONE "\tmov.b32 \t%r10, 0;\n\tmov.b32 \t%r11, 0;\n\tmov.b32 \t%r12, 0;\n\tmov.b32 \t%r13, 0;\n"
#define LOAD(at) "\tld.shared.v4.b32 \t{%r14, %r15, %r16, %r17}, [p+" at "];\n"
#define PAIRS(at) LOAD(at) "\tmad.lo.s32 \t%r14, %r15, 2, %r14;\n\tmad.lo.s32 \t%r16, %r17, 2, %r16;\n\tadd.s32 \t%r10, %r10, %r14;\n\tadd.s32 \t%r11, %r11, %r16;\n"
#define QUADS(at) LOAD(at) "\tmad.lo.s32 \t%r14, %r15, 2, %r14;\n\tmad.lo.s32 \t%r14, %r16, 3, %r14;\n\tmad.lo.s32 \t%r14, %r17, 4, %r14;\n\tadd.s32 \t%r10, %r10, %r14;\n"

/* Two mbarriers of each workgroup, from byte 64 on; %rd8 is where the first is mapped. */
static const struct exchange counting = {CLUSTER("4, 1, 1"), INITS FENCE RELAXED WAIT, MAPS IF_FIRST(ONE), ONCE("64", "16") RECEIVE("64"), READ};

/* The first warp does it and waits for the second one, which waits for what it does. */
#define CROSSED(it) "\t@%p4 bra \t$second;\n" it RECEIVE("72") "\tbra \t$crossed;\n$second:\n" RECEIVE("64") "\t@%p6 " EXPECT("72", "0") ";\n$crossed:\n"

static const struct exchange counted[] = {
	{.send = NULL},
	{.send = PAIR IF_FIRST(TWO), .meet = ONCE("64", "32") RECEIVE("64"), .read = NONE PAIRS("0") PAIRS("16")},
	{.send = QUAD IF_FIRST(FOUR), .meet = ONCE("64", "64") RECEIVE("64"), .read = NONE QUADS("0") QUADS("16") QUADS("32") QUADS("48")},
	/* the arrival first; bytes in a register; a branch forward out of the wait */
	{.send = "\tmov.b32 \t%r20, 16;\n" ONCE("64", "%r20") MAPS IF_FIRST(ONE), .meet = "$again:\n\t" TRY("64") ";\n\t@%p7 bra \t$on;\n\tbra \t$again;\n$on:\n"},
	/* two rounds: everyone sends on what the next one sent; the second warp waits for both at the end */
	{.meet = ONCE("72", "16") ONCE("64", "16") "\t@%p4 bra \t$72;\n" RECEIVE("64")
	         "\tadd.s32 \t%r20, %r1, 1;\n\tand.b32 \t%r20, %r20, 3;\n\tmul.wide.u32 \t%rd9, %r20, 4;\n\tadd.s64 \t%rd9, %rd3, %rd9;\n"
	         "\tld.shared.b32 \t%r21, [%rd9];\n\t@%p1 " COUNT "b32 [%rd5+80], %r21, [%rd8+8];\n" RECEIVE("72") "\tmov.b64 \t%rd9, p;\n",
	 .read = "\tld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p+80];\n"},
	/* one warp waits, the other is behind the workgroup's barrier; lanes that wait for different ones */
	{.meet = ONCE("64", "16") "\t@%p4 bra \t$own;\n" RECEIVE("64") "$own:\n" OWN_SYNC},
	{.meet = ONCE("64", "16") "\t@%p4 bra \t$own;\n" RECEIVE("64") "$own:\n" OWN_SYNC "\t@%p4 bra \t$on;\n$twice:\n\t" TRY("64") ";\n\t@!%p7 bra \t$twice;\n$on:\n"
	         ARRIVE WAIT},
	{.meet = ONCE("64", "16") ONCE("72", "0") RECEIVE("64") RECEIVE("72") "\tsetp.ne.b32 \t%p7, %r1, %r1;\n\t" TRY("72") ";\n\t@!%p7 bra \t$end;\n"},
	{.meet = ONCE("64", "16") ONCE("72", "0") "\tselp.b64 \t%rd9, 0, 8, %p1;\n\tadd.s64 \t%rd9, %rd3, %rd9;\n"
	         "$mixed:\n\tmbarrier.try_wait.parity.shared::cta.b64 %p7, [%rd9+64], 0;\n\t@!%p7 bra \t$mixed;\n" OWN_SYNC},
	/* initialised for threads of the own workgroup, who need no fence, and then for the others */
	{.start = INITS OWN_SYNC "\t@%p6 " EXPECT("64", "16") ";\n" FENCE ARRIVE WAIT, .meet = RECEIVE("64")},
	{.start = INITS FENCE RELAXED WAIT FENCE},
	/* what one warp does is all that moves until another one's wait is asked again, with the warps in either order */
	{.start = INITS FENCE OWN_SYNC CROSSED("\t@%p5 " EXPECT("64", "0") ";\n") RELAXED WAIT, .send = MAP SEND, .meet = ARRIVE WAIT},
	{.start = INITS FENCE OWN_SYNC OWN_SYNC CROSSED("\t@%p5 " EXPECT("64", "0") ";\n") RELAXED WAIT, .send = MAP SEND, .meet = ARRIVE WAIT},
	{.send = MAPS ONCE("64", "16") OWN_SYNC CROSSED(IF_FIRST(ONE)), .meet = OWN_SYNC},
	{.send = MAPS ONCE("64", "16") OWN_SYNC OWN_SYNC CROSSED(IF_FIRST(ONE)), .meet = OWN_SYNC},
	/* words received may be stored again, and others then read them; a warp ends that initialised and arrived, and others go on */
	{.meet = ONCE("64", "16") RECEIVE("64") OWN_SYNC READ OWN_SYNC "\tst.shared.b32 \t[p+12], %r13;\n" ARRIVE WAIT
	         "\tmapa.shared::cluster.u64 \t%rd5, p, 1;\n\tld.shared::cluster.b32 \t%r13, [%rd5+12];\n" ARRIVE WAIT, .read = ""},
	{.send = "\t@!%p4 bra \t$end;\n\tand.b32 \t%r5, %r2, 31;\n\tsetp.lt.u32 \t%p1, %r5, 4;\n\tselp.b32 \t%r5, %r5, %r1, %p1;\n" MAPS IF_FIRST(ONE),
	 .meet = "\t@%p6 " EXPECT("64", "16") ";\n" RECEIVE("64")},
};

START_TEST(counters)
{
	exchange_check("counters", _i, &counted[_i], &counting);
}
END_TEST

#define AT(group, thread, ins, why) "workgroup " #group " thread " #thread ": " ins ": " why
#define FIRST_SENT(group, thread, why) AT(group, thread, "@%p1 " ONE, why)
#define EARLY(group, thread, ins, of, by) AT(group, thread, ins, "has not waited for workgroup " #of " thread " #by ": @%p1 " ONE)
#define LOADED "ld.shared.v4.b32 \t{%r10, %r11, %r12, %r13}, [p]"
#define UNKNOWN ": not known, or not in this form"
#define UNORDERED "no barrier orders this after the mbarrier was initialised"
#define BEGUN(how) {.start = how, .meet = "", .read = ""}
#define SENDING(send_) "\t@%p1 " send_ ";\n"
#define SOME_TRY "mbarrier.try_wait.parity.shared::cta.b64 %p7, [%rd9+64], 0"
/* Of the first lanes at one, of the others at another. */
#define MIXED(first, others) "\tselp.b64 \t%rd9, " first ", " others ", %p1;\n\tadd.s64 \t%rd9, %rd3, %rd9;\n$mixed:\n\t" SOME_TRY ";\n\t@!%p7 bra \t$mixed;\n"

static const struct refusal counter_refusals[] = {
	/* an mbarrier serves once */
	{BEGUN("\t@%p5 " INIT("64", "2") ";\n" FENCE RELAXED WAIT), 8, AT(0, 0, "@%p5 " INIT("64", "2"), "a count of 2, only 1 is known")},
	{BEGUN(INITS "\t@%p6 " INIT("64", "1") ";\n" FENCE RELAXED WAIT), 8, AT(0, 32, "@%p6 " INIT("64", "1"), "initialised twice")},
	{BEGUN("\tmov.b64 \t%rd9, p;\n\tadd.s64 \t%rd8, %rd9, 520;\n$more:\n\t@%p5 mbarrier.init.shared::cta.b64 [%rd9], 1;\n\tadd.s64 \t%rd9, %rd9, 8;\n"
	       "\tsetp.lt.s64 \t%p7, %rd9, %rd8;\n\t@%p7 bra \t$more;\n"), 8, AT(0, 0, "@%p5 mbarrier.init.shared::cta.b64 [%rd9], 1", "more than 64 mbarriers")},
	{{.meet = ONCE("64", "16") ONCE("64", "16") RECEIVE("64")}, 8, AT(3, 0, "@%p5 " EXPECT("64", "16"), "arrives twice")},
	{{.meet = "\tmbarrier.try_wait.parity.shared::cta.b64 %p7, [%rd3+64], 1;\n"}, 8,
	 AT(3, 32, "mbarrier.try_wait.parity.shared::cta.b64 %p7, [%rd3+64], 1", "phase 1, there is only 0")},
	{{.meet = ARRIVE WAIT ONCE("64", "12") RECEIVE("64")}, 8, AT(0, 0, "@%p5 " EXPECT("64", "12"), "16 bytes have come")},
	{{.send = ONCE("64", "12") MAPS IF_FIRST(ONE), .meet = RECEIVE("64")}, 8, FIRST_SENT(0, 0, "its mbarrier is complete")},
	{{.send = ONCE("64", "28") PAIR IF_FIRST(TWO), .meet = RECEIVE("64")}, 8, AT(0, 0, "@%p1 " TWO, "its mbarrier expects 28 bytes and then has 32")},
	{{.send = ONCE("64", "0") MAPS IF_FIRST(ONE), .meet = RECEIVE("64")}, 8, FIRST_SENT(3, 3, "its mbarrier is complete")},
	{{.start = INITS FENCE "\t@%p5 st.shared.b32 \t[p+64], 0;\n" RELAXED WAIT}, 8, AT(0, 0, "@%p5 st.shared.b32 \t[p+64], 0", "a word of an mbarrier")},
	{{.meet = ONCE("64", "16") RECEIVE("64") "\tld.shared.b32 \t%r14, [p+76];\n"}, 8, AT(0, 0, "ld.shared.b32 \t%r14, [p+76]", "a word of an mbarrier")},
	{{.send = MAPS "\tst.shared::cluster.b32 \t[%rd8+4], %r4;\n"}, 8, AT(3, 32, "st.shared::cluster.b32 \t[%rd8+4], %r4", "a word of an mbarrier")},
	/* waits that never end */
	{{.meet = ONCE("64", "20") RECEIVE("64")}, 8, AT(3, 32, TRY("64"), "its phase never ends")},
	{{.meet = RECEIVE("64")}, 8, AT(3, 32, TRY("64"), "its phase never ends")},
	{{.meet = ONCE("64", "16") "\t@%p3 bra \t$on;\n" RECEIVE("72") "$on:\n" RECEIVE("64")}, 8, AT(0, 0, TRY("72"), "its phase never ends")},
	{{.meet = ONCE("64", "16") MIXED("8", "0")}, 8, AT(0, 0, SOME_TRY, "its phase never ends")},
	{{.meet = ONCE("64", "16") "\t@%p4 bra \t$end;\n" MIXED("0", "8")}, 8, AT(3, 0, SOME_TRY, "its phase never ends")},
	{{.meet = ONCE("64", "20") "\t@%p4 bra \t$64;\n" ARRIVE WAIT RECEIVE("64")}, 8, AT(3, 32, TRY("64"), "its phase never ends")},
	{{.meet = ONCE("64", "20") "\t@%p4 bra \t$own;\n" RECEIVE("64") "$own:\n" OWN_SYNC}, 8, AT(3, 0, TRY("64"), "its phase never ends")},
	{{.meet = ONCE("64", "16") "\t@%p1 bra \t$on;\n" RECEIVE("64") "$on:\n", .read = ""}, 8, "thread 0: end: the warp's threads are not all here"},
	{{.meet = ONCE("64", "16") "\t@%p1 " TRY("64") ";\n"}, 8, "@%p1 " TRY("64") ": a warp's instruction under a predicate"},
	/* initialised, for all who use it */
	{BEGUN(FENCE RELAXED WAIT), 8, FIRST_SENT(3, 0, "workgroup 0 has no mbarrier at 64")},
	{{.start = "\tsetp.gt.u32 \t%p7, %r3, 3;\n\t@%p7 bra \t$on;\n" INITS "$on:\n" FENCE RELAXED WAIT}, 8,
	 AT(7, 32, TRY("64"), "workgroup 7 has no mbarrier at 64")},
	{BEGUN(INITS RELAXED WAIT), 8, FIRST_SENT(3, 0, UNORDERED)},
	{BEGUN(FENCE INITS RELAXED WAIT), 8, FIRST_SENT(3, 0, UNORDERED)},
	{BEGUN(INITS "\t@%p6 fence.mbarrier_init.release.cluster;\n" RELAXED WAIT), 8, FIRST_SENT(3, 0, UNORDERED)},
	{BEGUN(INITS RELAXED FENCE WAIT), 8, FIRST_SENT(3, 0, UNORDERED)},
	{BEGUN(RELAXED WAIT INITS OWN_SYNC FENCE FENCE), 8, FIRST_SENT(0, 0, UNORDERED)},
	{{.start = RELAXED WAIT INITS FENCE "\t@!%p4 bra \t$end;\n" ARRIVE WAIT, .send = "\tand.b32 \t%r5, %r2, 3;\n" MAPS "\t" ONE ";\n"}, 8,
	 AT(0, 32, ONE, UNORDERED)},
	{BEGUN(INITS "\t@%p6 " EXPECT("64", "16") ";\n" FENCE RELAXED WAIT), 8, AT(0, 32, "@%p6 " EXPECT("64", "16"), UNORDERED)},
	{BEGUN(OWN_SYNC OWN_SYNC INITS "\t@%p6 " EXPECT("64", "16") ";\n" FENCE RELAXED WAIT), 8, AT(0, 32, "@%p6 " EXPECT("64", "16"), UNORDERED)},
	{BEGUN(INITS ONCE("64", "0") RECEIVE("64") FENCE RELAXED WAIT), 8, AT(0, 1, TRY("64"), UNORDERED)},
	/* workgroups that may not have begun, or have ended */
	{{.start = INITS FENCE RELAXED "\tmov.b32 \t%r5, 1;\n", .meet = WAIT}, 8, FIRST_SENT(0, 0, "before the first barrier workgroup 1 may not have started")},
	{{.send = "\t@%p3 bra \t$end;\n" MAPS IF_FIRST(ONE)}, 8, FIRST_SENT(2, 3, "workgroup 3 has ended")},
	{{.meet = ONCE("64", "16") "\t@%p3 bra \t$end;\n" RECEIVE("64")}, 8,
	 "workgroup 3: ends, and no thread has waited for workgroup 3 thread 3: @%p1 " ONE},
	/* early reads and stores */
	{{.meet = ONCE("64", "16") ARRIVE WAIT}, 8, EARLY(0, 0, LOADED, 0, 0)},
	{{.meet = ONCE("64", "16") OWN_SYNC}, 8, EARLY(0, 0, LOADED, 0, 0)},
	{{.meet = ONCE("64", "16") ONCE("72", "0") RECEIVE("72")}, 8, EARLY(3, 0, LOADED, 3, 3)},
	{{.meet = ONCE("64", "16") OWN_SYNC "\t@%p4 bra \t$on;\n" RECEIVE("64") "$on:\n"}, 8, EARLY(0, 32, LOADED, 0, 0)},
	{{.meet = ONCE("64", "16") "\t@%p4 bra \t$on;\n" RECEIVE("64") "$on:\n" ARRIVE WAIT}, 8, EARLY(3, 32, LOADED, 0, 3)},
	{{.meet = ONCE("64", "16") ONCE("72", "0") MIXED("0", "8")}, 8, EARLY(0, 4, LOADED, 0, 0)},
	{{.meet = ONCE("64", "16") RECEIVE("64") ARRIVE WAIT "\tld.shared::cluster.b32 \t%r14, [%rd5];\n" ARRIVE WAIT}, 8,
	 EARLY(3, 0, "ld.shared::cluster.b32 \t%r14, [%rd5]", 3, 0)},
	{{.meet = ONCE("64", "16") ARRIVE WAIT "\t@%p5 st.shared.b32 \t[p], 0;\n" RECEIVE("64")}, 8, EARLY(0, 0, "@%p5 st.shared.b32 \t[p], 0", 0, 0)},
	/* a place serves once */
	{{.start = INITS FENCE LOAD("0") RELAXED WAIT}, 8, FIRST_SENT(3, 0, "shared address 12 was read before")},
	{{.start = INITS FENCE "\tst.shared.b32 \t[p+12], 0;\n" RELAXED WAIT}, 8, FIRST_SENT(3, 0, "shared address 12 was written before")},
	{{.send = MAPS IF_FIRST(ONE) IF_FIRST(ONE)}, 8, FIRST_SENT(3, 0, "shared address 12 was written before")},
	{{.send = MAPS SENDING(COUNT "b32 [%rd8], %r4, [%rd8]")}, 8, AT(3, 0, "@%p1 " COUNT "b32 [%rd8], %r4, [%rd8]", "shared address 64 was written before")},
	{{.meet = ONCE("64", "16") RECEIVE("64") "\t@%p5 " COUNT "b32 [%rd5], %r4, [%rd8+8];\n"}, 8,
	 AT(0, 0, "@%p5 " COUNT "b32 [%rd5], %r4, [%rd8+8]", "shared address 0 was written before")},
	/* addresses */
	{{.send = MAPS SENDING(COUNT "b32 [%rd4], %r4, [%rd8]")}, 8, AT(3, 0, "@%p1 " COUNT "b32 [%rd4], %r4, [%rd8]", "0xc is not a mapped address")},
	{{.send = MAPS SENDING(COUNT "b32 [%rd5], %r4, [%rd3+64]")}, 8, AT(3, 0, "@%p1 " COUNT "b32 [%rd5], %r4, [%rd3+64]", "0x40 is not a mapped address")},
	{{.send = MAPS "\tadd.s64 \t%rd5, %rd5, 0x500000000;\n" IF_FIRST(ONE)}, 8, FIRST_SENT(3, 0, "0x60000000c is not a mapped address")},
	{{.send = MAPS "\tmapa.shared::cluster.u64 \t%rd5, p, 0;\n\tmapa.shared::cluster.u64 \t%rd8, %rd3, 1;\n" SENDING(COUNT "b32 [%rd5], %r4, [%rd8+64]")}, 8,
	 AT(3, 0, "@%p1 " COUNT "b32 [%rd5], %r4, [%rd8+64]", "stores in workgroup 0 and counts in workgroup 1")},
	{{.send = MAPS SENDING(COUNT "b32 [%rd5], %r4, [%rd8+16]")}, 8, AT(3, 0, "@%p1 " COUNT "b32 [%rd5], %r4, [%rd8+16]", "workgroup 0 has no mbarrier at 80")},
	{{.send = MAPS SENDING(COUNT "b32 [%rd5], %r4, [%rd8+4]")}, 8,
	 AT(3, 0, "@%p1 " COUNT "b32 [%rd5], %r4, [%rd8+4]", "address 0x100000044 is not a multiple of 8")},
	{{.send = MAPS SENDING(COUNT "b32 [%rd5+2], %r4, [%rd8]")}, 8,
	 AT(3, 0, "@%p1 " COUNT "b32 [%rd5+2], %r4, [%rd8]", "address 0x10000000e is not a multiple of 4")},
	{{.send = PAIR SENDING(COUNT "v2.b32 [%rd5+4], {%r20, %r21}, [%rd8]")}, 8,
	 AT(3, 0, "@%p1 " COUNT "v2.b32 [%rd5+4], {%r20, %r21}, [%rd8]", "address 0x10000001c is not a multiple of 8")},
	{{.send = QUAD SENDING(COUNT "v4.b32 [%rd5+8], {%r20, %r21, %r22, %r23}, [%rd8]")}, 8,
	 AT(3, 0, "@%p1 " COUNT "v4.b32 [%rd5+8], {%r20, %r21, %r22, %r23}, [%rd8]", "address 0x100000038 is not a multiple of 16")},
	{{.send = MAPS SENDING(COUNT "b32 [%rd5+1012], %r4, [%rd8]")}, 8,
	 AT(3, 0, "@%p1 " COUNT "b32 [%rd5+1012], %r4, [%rd8]", "shared address 1024, there are 1024 bytes")},
	{BEGUN("\t@%p5 " INIT("1024", "1") ";\n"), 8, AT(0, 0, "@%p5 " INIT("1024", "1"), "shared address 1024, there are 1024 bytes")},
	{BEGUN("\t@%p5 " INIT("68", "1") ";\n"), 8, AT(0, 0, "@%p5 " INIT("68", "1"), "address 0x44 is not a multiple of 8")},
	{{.meet = "\t@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%rd8], 16;\n", .read = ""}, 8,
	 AT(3, 0, "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%rd8], 16", "0x100000040 is not an address of the own workgroup")},
	{{.meet = ONCE("80", "16"), .read = ""}, 8, AT(3, 0, "@%p5 " EXPECT("80", "16"), "workgroup 3 has no mbarrier at 80")},
	{{.meet = ONCE("64", "16") RECEIVE("80")}, 8, AT(3, 32, TRY("80"), "workgroup 3 has no mbarrier at 80")},
	/* forms; no cluster */
	{{.send = MAPS SENDING(COUNT "u32 [%rd5], %r4, [%rd8]")}, 8, "@%p1 " COUNT "u32 [%rd5], %r4, [%rd8]" UNKNOWN},
	{{.send = MAPS SENDING(COUNT "b64 [%rd5], %rd9, [%rd8]")}, 8, "@%p1 " COUNT "b64 [%rd5], %rd9, [%rd8]" UNKNOWN},
	{{.send = MAPS SENDING(COUNT "b32.b32 [%rd5], %r4, [%rd8]")}, 8, "@%p1 " COUNT "b32.b32 [%rd5], %r4, [%rd8]" UNKNOWN},
	{{.send = MAPS SENDING("st.async.shared::cluster.b32 [%rd5], %r4, [%rd8]")}, 8, "@%p1 st.async.shared::cluster.b32 [%rd5], %r4, [%rd8]" UNKNOWN},
	{{.send = MAPS SENDING(COUNT "v2.b32 [%rd5], {%r4, %r4, %r4}, [%rd8]")}, 8, "@%p1 " COUNT "v2.b32 [%rd5], {%r4, %r4, %r4}, [%rd8]" UNKNOWN},
	{BEGUN("\t@%p5 mbarrier.init.b64 [%rd3+64], 1;\n"), 8, "@%p5 mbarrier.init.b64 [%rd3+64], 1" UNKNOWN},
	{BEGUN(INITS "\tfence.mbarrier_init.cluster;\n" RELAXED WAIT), 8, "fence.mbarrier_init.cluster" UNKNOWN},
	{{.meet = "\t@%p5 mbarrier.arrive.shared::cta.b64 _, [%rd3+64], 16;\n", .read = ""}, 8, "@%p5 mbarrier.arrive.shared::cta.b64 _, [%rd3+64], 16" UNKNOWN},
	{{.meet = "\t@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%rd3+64], 16;\n", .read = ""}, 8,
	 "@%p5 mbarrier.arrive.expect_tx.shared::cta.b64 %rd9, [%rd3+64], 16" UNKNOWN},
	{{.meet = "\tmbarrier.try_wait.shared::cta.b64 %p7, [%rd3+64], 0;\n"}, 8, "mbarrier.try_wait.shared::cta.b64 %p7, [%rd3+64], 0" UNKNOWN},
	{{.dims = ""}, 8, "@%p5 " INIT("64", "1") ": not in a cluster"},
	{{.dims = "", .start = "", .send = "", .meet = RECEIVE("64")}, 8, TRY("64") ": not in a cluster"},
};

START_TEST(counters_refused)
{
	refusal_check(&counter_refusals[_i], &counting);
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_loop_test(t, clusters, 0, sizeof exchanges / sizeof *exchanges);
	tcase_add_loop_test(t, cluster_refused, 0, sizeof cluster_refusals / sizeof *cluster_refusals);
	tcase_add_loop_test(t, counters, 0, sizeof counted / sizeof *counted);
	tcase_add_loop_test(t, counters_refused, 0, sizeof counter_refusals / sizeof *counter_refusals);
	tcase_add_loop_test(t, computes, 0, nvptx_kernels.n);
	tcase_add_loop_test(t, long_rows, 0, 4);
	tcase_add_test(t, many_row_variants);
	tcase_add_test(t, numbers_of_rows_turn_no_tile);
	tcase_add_test(t, products);
}

int main(void)
{
	int failed = nvptx_run("nvptx", add_tests);
	arena_free(&arena);
	return failed;
}
