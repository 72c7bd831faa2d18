/* object_test.c -- LLVM IR text -> code object -> facts, on both chips; what the gate refuses; altered objects;
 * variants that do not fit, and lines of a text that ask for some. */
#include <check.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <stdlib.h>
#include <string.h>
#include "../compiler/compile.h"
#include "../compiler/object.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#define LEAKS_BEGIN() __lsan_disable()
#define LEAKS_END() __lsan_enable()
#else
#define LEAKS_BEGIN() (void)0
#define LEAKS_END() (void)0
#endif

static const struct target chips[2] = {
	{.name = "gfx942", .triple = "amdgcn-amd-amdhsa", .cpu = "gfx942"}, {.name = "gfx950", .triple = "amdgcn-amd-amdhsa", .cpu = "gfx950"}};

/* One wave's accumulator over a loop: 7 instructions, one of them a 32x32x8 matrix product. */
static const char matrix_loop[] =
	"define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %c, i32 %n) #0 {\n"
	"entry:\n %t = call i32 @llvm.amdgcn.workitem.id.x()\n %p = getelementptr <4 x i16>, ptr addrspace(1) %a, i32 %t\n br label %loop\n"
	"loop:\n %i = phi i32 [ 0, %entry ], [ %i1, %loop ]\n %acc = phi <16 x float> [ zeroinitializer, %entry ], [ %acc1, %loop ]\n"
	" %q = getelementptr <4 x i16>, ptr addrspace(1) %p, i32 %i\n %v = load <4 x i16>, ptr addrspace(1) %q\n"
	" %acc1 = call <16 x float> @llvm.amdgcn.mfma.f32.32x32x8bf16.1k(<4 x i16> %v, <4 x i16> %v, <16 x float> %acc, i32 0, i32 0, i32 0)\n"
	" call void @llvm.amdgcn.s.barrier()\n"
	" %i1 = add i32 %i, 1\n %more = icmp slt i32 %i1, %n\n br i1 %more, label %loop, label %exit\n"
	"exit:\n %d = getelementptr <16 x float>, ptr addrspace(1) %c, i32 %t\n store <16 x float> %acc1, ptr addrspace(1) %d\n ret void\n}\n"
	"declare i32 @llvm.amdgcn.workitem.id.x()\ndeclare void @llvm.amdgcn.s.barrier()\n"
	"declare <16 x float> @llvm.amdgcn.mfma.f32.32x32x8bf16.1k(<4 x i16>, <4 x i16>, <16 x float>, i32 immarg, i32 immarg, i32 immarg)\n"
	"attributes #0 = { \"amdgpu-flat-work-group-size\"=\"512,512\" \"amdgpu-agpr-alloc\"=\"0\" }\n";

static const char scaled_conversion[] =
	"define amdgpu_kernel void @k(ptr addrspace(1) %p, float %a, float %b) {\n"
	" %r = call i32 @llvm.amdgcn.cvt.scalef32.pk.fp4.f32(i32 0, float %a, float %b, float 1.0, i32 0)\n"
	" store i32 %r, ptr addrspace(1) %p\n ret void\n}\n"
	"declare i32 @llvm.amdgcn.cvt.scalef32.pk.fp4.f32(i32, float, float, float, i32 immarg)\n";

static const char function_call[] =
	"define amdgpu_kernel void @k(ptr addrspace(1) %p) {\n call void @f(ptr addrspace(1) %p)\n ret void\n}\n"
	"define internal void @f(ptr addrspace(1) %p) noinline {\n store volatile i32 1, ptr addrspace(1) %p\n ret void\n}\n";

static const char absent_intrinsic[] =
	"define amdgpu_kernel void @k() {\n call void @llvm.amdgcn.asyncmark()\n ret void\n}\ndeclare void @llvm.amdgcn.asyncmark()\n";

static const char spilling[] =
	"define amdgpu_kernel void @k(ptr addrspace(1) %p) \"amdgpu-num-vgpr\"=\"16\" \"amdgpu-agpr-alloc\"=\"0\" {\n"
	" %t = call i32 @llvm.amdgcn.workitem.id.x()\n %q = getelementptr <32 x float>, ptr addrspace(1) %p, i32 %t\n"
	" %v = load volatile <32 x float>, ptr addrspace(1) %q\n call void @llvm.amdgcn.s.barrier()\n"
	" store volatile <32 x float> %v, ptr addrspace(1) %q\n ret void\n}\n"
	"declare i32 @llvm.amdgcn.workitem.id.x()\ndeclare void @llvm.amdgcn.s.barrier()\n";

/* 16 bytes a lane directly to LDS: gfx950 only, on gfx942 LLVM ends with a fatal error. */
static const char wide_lds_load[] =
	"define amdgpu_kernel void @k(ptr addrspace(8) %r) {\n"
	" call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %r, ptr addrspace(3) @l, i32 16, i32 0, i32 0, i32 0, i32 0)\n ret void\n}\n"
	"@l = internal addrspace(3) global [1024 x i32] poison\n"
	"declare void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8), ptr addrspace(3), i32, i32, i32, i32, i32)\n";

static const char preloaded[] =
	"define amdgpu_kernel void @k(ptr addrspace(1) inreg %p, i32 inreg %x) \"amdgpu-flat-work-group-size\"=\"64,64\" {\n"
	" store i32 %x, ptr addrspace(1) %p\n ret void\n}\n";

static const char two_kernels[] =
	"define amdgpu_kernel void @first(ptr addrspace(1) %p) {\n store i32 1, ptr addrspace(1) %p\n ret void\n}\n"
	"define amdgpu_kernel void @second(ptr addrspace(1) %p) {\n store i64 1, ptr addrspace(1) %p\n ret void\n}\n";

static const char with_line[] =
	"define amdgpu_kernel void @k(ptr addrspace(1) %p) !dbg !4 {\n store i32 1, ptr addrspace(1) %p, !dbg !6\n ret void, !dbg !6\n}\n"
	"!llvm.dbg.cu = !{!0}\n!llvm.module.flags = !{!3}\n"
	"!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly)\n"
	"!1 = !DIFile(filename: \"kernels.tdsl\", directory: \".\")\n!2 = !DISubroutineType(types: !5)\n"
	"!3 = !{i32 2, !\"Debug Info Version\", i32 3}\n"
	"!4 = distinct !DISubprogram(name: \"k\", scope: !1, file: !1, line: 40, type: !2, unit: !0, spFlags: DISPFlagDefinition)\n"
	"!5 = !{}\n!6 = !DILocation(line: 42, column: 1, scope: !4)\n";

struct built { void *elf; size_t size; char err[1000]; };

static LLVMModuleRef parse(LLVMContextRef context, const char *text)
{
	char *why = NULL;
	LLVMModuleRef module = NULL;
	LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test");
	ck_assert_msg(!LLVMParseIRInContext(context, buffer, &module, &why), "%s", why ? why : "");
	return module;
}

static int build(struct object_session *s, const struct target *t, const char *text, struct built *b)
{
	b->elf = NULL;
	b->err[0] = 0;
	return object_build(s, t, parse(object_context(s), text), false, &b->elf, &b->size, b->err, sizeof b->err);
}

static int facts_of(struct arena *a, const struct target *t, const char *text, bool gate, struct object_facts **f, int *n, struct built *b)
{
	struct object_session *s = object_session_new();
	int rc = build(s, t, text, b);
	if (rc == 0)
		rc = object_facts(a, t, b->elf, b->size, gate, f, n, b->err, sizeof b->err);
	object_session_free(s);
	free(b->elf);
	return rc;
}

START_TEST(matrix_loop_is_found_and_counted)
{
	struct arena a = {0};
	struct built b;
	struct object_facts *f;
	int n;
	ck_assert_msg(facts_of(&a, &chips[_i], matrix_loop, true, &f, &n, &b) == 0, "%s", b.err);
	ck_assert_int_eq(n, 1);
	ck_assert_str_eq(f->symbol, "k");
	ck_assert_int_eq(f->loop.mfma, 1);
	ck_assert_int_eq(f->mfma, 1);
	ck_assert_int_eq(f->barriers, 1);
	ck_assert_int_eq(f->loop.acc_moves, 0);
	ck_assert_int_eq(f->loop.vmcnt0, 1);
	ck_assert_int_eq(f->loop.bank_conflicts, 0);
	ck_assert_int_ge(f->loop.instructions, 6);
	ck_assert_int_eq(f->scratch + f->spills + f->agpr, 0);
	ck_assert_int_eq(f->waves_per_simd, 8);
	ck_assert_int_gt(f->instructions, f->loop.instructions);
	/* 8 waves are two on a SIMD, each product takes 32 clocks; on gfx950 this shape runs at half of its full rate. */
	ck_assert_double_eq(f->loop.clocks, 64);
	ck_assert_double_eq(f->loop.matrix_share, _i == 0 ? 1.0 : 0.5);
	arena_free(&a);
}
END_TEST

START_TEST(classes_add_up_to_the_instructions)
{
	struct arena a = {0};
	struct built b;
	struct object_facts *f;
	int n;
	ck_assert_msg(facts_of(&a, &chips[_i], matrix_loop, true, &f, &n, &b) == 0, "%s", b.err);
	int sum = f->valu + f->salu + f->mfma + f->lds_ops + f->vmem + f->smem + f->waits + f->barriers;
	ck_assert_int_le(sum, f->instructions);
	ck_assert_int_ge(sum, f->instructions - 8);     /* the rest: s_nop between dependent instructions */
	arena_free(&a);
}
END_TEST

static void refused(const struct target *t, const char *text, int error, const char *part, const char *other)
{
	struct arena a = {0};
	struct built b;
	struct object_facts *f;
	int n;
	ck_assert_int_eq(facts_of(&a, t, text, true, &f, &n, &b), error);
	ck_assert_msg(strstr(b.err, part) && strstr(b.err, other), "%s", b.err);
	arena_free(&a);
}

START_TEST(gate_refuses_a_word_the_chip_does_not_decode)
{
	struct arena a = {0};
	struct built b;
	struct object_facts *f;
	int n;
	refused(&chips[0], scaled_conversion, -1, ".long 0xd23d", "at 0x");
	ck_assert_msg(facts_of(&a, &chips[1], scaled_conversion, true, &f, &n, &b) == 0, "%s", b.err);
	arena_free(&a);
}
END_TEST

START_TEST(gate_refuses_a_call)
{
	refused(&chips[_i], function_call, -1, "s_swappc_b64", "at 0x");
}
END_TEST

START_TEST(an_absent_intrinsic_is_named)
{
	refused(&chips[_i], absent_intrinsic, -1, "undefined symbol", "llvm.amdgcn.asyncmark");
}
END_TEST

START_TEST(gate_refuses_a_spill)
{
	struct arena a = {0};
	struct built b;
	struct object_facts *f;
	int n;
	refused(&chips[_i], spilling, OBJECT_SPILLS, "scratch_store", "spilled registers");
	ck_assert_int_eq(facts_of(&a, &chips[_i], spilling, false, &f, &n, &b), 0);
	ck_assert_int_gt(f->spills, 0);
	ck_assert_int_gt(f->scratch, 0);
	arena_free(&a);
}
END_TEST

START_TEST(a_fatal_error_of_llvm_is_an_error_and_the_session_lives_on)
{
	struct built b;
	LEAKS_BEGIN();
	struct object_session *s = object_session_new();
	ck_assert_int_eq(build(s, &chips[0], wide_lds_load, &b), -1);
	ck_assert_msg(strncmp(b.err, "LLVM: ", 6) == 0 && strlen(b.err) > 10, "%s", b.err);
	ck_assert_msg(build(s, &chips[0], matrix_loop, &b) == 0, "%s", b.err);
	free(b.elf);
	ck_assert_msg(build(s, &chips[1], wide_lds_load, &b) == 0, "%s", b.err);
	free(b.elf);
	object_session_free(s);
	LEAKS_END();
}
END_TEST

START_TEST(padding_is_not_counted)
{
	struct arena a = {0};
	struct built b;
	struct object_facts *f;
	int n;
	ck_assert_msg(facts_of(&a, &chips[_i], preloaded, true, &f, &n, &b) == 0, "%s", b.err);
	ck_assert_int_gt(f->padding, 40);
	ck_assert_int_lt(f->instructions, 16);
	arena_free(&a);
}
END_TEST

START_TEST(bytes_do_not_depend_on_what_the_session_built_before)
{
	struct built alone, later, again;
	struct object_session *fresh = object_session_new(), *used = object_session_new();
	ck_assert_int_eq(build(fresh, &chips[_i], matrix_loop, &alone), 0);
	ck_assert_int_eq(build(used, &chips[_i], two_kernels, &later), 0);
	free(later.elf);
	ck_assert_int_eq(build(used, &chips[!_i], preloaded, &later), 0);
	free(later.elf);
	ck_assert_int_eq(build(used, &chips[_i], matrix_loop, &later), 0);
	ck_assert_int_eq(build(used, &chips[_i], matrix_loop, &again), 0);
	ck_assert_uint_eq(alone.size, later.size);
	ck_assert_uint_eq(alone.size, again.size);
	ck_assert_mem_eq(alone.elf, later.elf, alone.size);
	ck_assert_mem_eq(alone.elf, again.elf, alone.size);
	free(alone.elf);
	free(later.elf);
	free(again.elf);
	object_session_free(fresh);
	object_session_free(used);
}
END_TEST

START_TEST(every_kernel_of_an_object_has_facts)
{
	struct arena a = {0};
	struct built b;
	struct object_facts *f;
	int n;
	ck_assert_msg(facts_of(&a, &chips[_i], two_kernels, true, &f, &n, &b) == 0, "%s", b.err);
	ck_assert_int_eq(n, 2);
	ck_assert_str_eq(f[0].symbol, "first");
	ck_assert_str_eq(f[1].symbol, "second");
	ck_assert_int_eq(f[0].vmem, 1);
	ck_assert_int_ge(f[0].kernarg_bytes, 8);
	ck_assert_int_eq(f[0].loop.instructions, 0);
	arena_free(&a);
}
END_TEST

START_TEST(disassembly_names_lines_and_branch_targets)
{
	struct arena a = {0};
	struct built b;
	char err[200] = "";
	struct object_session *s = object_session_new();
	ck_assert_msg(build(s, &chips[_i], with_line, &b) == 0, "%s", b.err);
	const char *text = object_disassembly(&a, &chips[_i], b.elf, b.size, err, sizeof err);
	ck_assert_msg(text && strstr(text, "k:\n") && strstr(text, "; line 42") && strstr(text, "global_store_dword"), "%s", text ? text : err);
	free(b.elf);
	ck_assert_int_eq(build(s, &chips[_i], matrix_loop, &b), 0);
	text = object_disassembly(&a, &chips[_i], b.elf, b.size, err, sizeof err);
	ck_assert_msg(text && strstr(text, "s_cbranch_scc1 L_") && strstr(text, "\nL_"), "%s", text ? text : err);
	free(b.elf);
	object_session_free(s);
	arena_free(&a);
}
END_TEST

START_TEST(assembly_is_text_of_the_chip)
{
	char *text, err[200];
	struct object_session *s = object_session_new();
	ck_assert_int_eq(object_assembly(s, &chips[_i], parse(object_context(s), matrix_loop), false, &text, err, sizeof err), 0);
	ck_assert(strstr(text, "v_mfma_f32_32x32x8_bf16") && strstr(text, ".amdhsa_code_object_version 5") && strstr(text, chips[_i].name));
	free(text);
	object_session_free(s);
}
END_TEST

/* Any prefix and any changed byte of an object: an error or facts, never a crash. */
START_TEST(altered_objects_are_refused_or_read)
{
	struct built b;
	char err[300];
	struct object_facts *f;
	int n;
	struct object_session *s = object_session_new();
	ck_assert_int_eq(build(s, &chips[0], two_kernels, &b), 0);
	for (size_t size = 0; size < b.size; size += size < 1200 ? 3 : 97) {
		struct arena a = {0};
		void *part = malloc(size ? size : 1);
		memcpy(part, b.elf, size);
		int rc = object_facts(&a, &chips[0], part, size, true, &f, &n, err, sizeof err);
		ck_assert(rc == -1 || size > b.size / 2);   /* the last section headers are not needed */
		free(part);
		arena_free(&a);
	}
	for (size_t at = 0; at < b.size; at += 5) {
		struct arena a = {0};
		uint8_t *bytes = b.elf, old = bytes[at];
		bytes[at] ^= 0x81;
		object_facts(&a, &chips[0], b.elf, b.size, true, &f, &n, err, sizeof err);
		bytes[at] = old;
		arena_free(&a);
	}
	free(b.elf);
	object_session_free(s);
}
END_TEST

/* One whose registers do not suffice is missed where nothing else takes its calls, and where somebody wrote its tiles. */
START_TEST(a_variant_is_spare_where_another_takes_its_calls)
{
	struct arena a = {0};
	const struct hexpr *few = hexpr_op(&a, HX_LE, hexpr_leaf(&a, HX_SYM, 0), hexpr_const(&a, 4096));
	struct variant v[4] = {{.predicate = few, .given = 1, .npins = 1, .pins = {{0, 8192}}}, {.predicate = few, .ntiles = 1}, {.predicate = few, .ntiles = 1}, {.ntiles = 0}};
	for (int i = 1; i < 4; i++) {
		v[i].limits[0].most = 4096;
		v[i].nlimits = 1;
	}
	v[1].tiles[0].axis = v[2].tiles[0].axis = "n";
	v[1].tiles[0].tile = 2048;
	v[2].tiles[0].tile = 4096;
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(variant_is_spare(v, 4, i), i < 3);
	v[3].predicate = few;                            /* the last takes some calls: the same for fewer columns is left */
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(variant_is_spare(v, 4, i), i == 2);
	v[0].pins[0].value = 768;                        /* and a class holds what one of a size is for */
	ck_assert(variant_is_spare(v, 4, 0));
	v[1].given = v[2].given = v[3].given = 2;        /* but with another tensor */
	ck_assert(!variant_is_spare(v, 4, 0));
	v[3] = v[1];                                     /* the last is no other than those before it */
	v[3].tiles[0].tile = 8192;
	ck_assert(variant_is_spare(v, 4, 3));
	v[3].tiles[0].tile = 1024;                       /* nor where it holds more columns in smaller tiles */
	ck_assert(!variant_is_spare(v, 4, 3));
	v[3].limits[0].most = 8192;
	ck_assert(variant_is_spare(v, 4, 3));
	v[3].predicate = NULL;
	ck_assert(!variant_is_spare(v, 4, 3));
	v[0].scheduled = true;
	ck_assert(!variant_is_spare(v, 4, 0));
	arena_free(&a);
}
END_TEST

/* What a text's lines ask for and cannot have: a size whose variant registers do not hold is left out with a warning, for a class takes its calls; a schedule
 * is refused where it stands, also where nothing is built, but not if some chip can have it. */
static const struct { const char *lines; bool check; int rc; const char *says; } asked[] = {
	{"pack { k: M 6 }", false, 0, "x.tdsl:1:1: warning: kernel k for gfx942: variant M=6 N%4=0 aligned is left out: axis n is too long to be held in registers here"},
	{"schedule g { any: waves 3 }", true, -1, "x.tdsl:17:19: error: waves 3 cannot take the products of g on gfx942; expected a power of two up to 16"},
	{"schedule g { gfx950: m 8 }", true, -1, "x.tdsl:17:22: error: m 8 cannot be the tile of the dot in line 13 on gfx950; expected a multiple of 16"},
	{"schedule g { any: waves 32 }", true, 0, NULL},
	{"schedule g { any: waves 32 }", false, -1, "x.tdsl:17:19: error: waves 32 cannot take the products of g on gfx942"},
};

START_TEST(what_lines_ask_for_is_built_or_named)
{
	static const char kernels[] =
		"kernel k(x: f32[M, N]) -> y: f32[M]\n{\n    each m in M {\n        n = 0..N\n        s: f32 = 1\n"
		"        for t in 3 { s = s * 0.5 + sum(x[m, n] * s over n) }\n        y[m] = s\n    }\n}\n"
		"kernel g(a: bf16[M, K], b: bf16[N, K]) -> c: f32[M, N]\n{\n    each m in M tiled, n in N tiled {\n"
		"        k = 0..K; c[m, n] = dot(a[m, k], b[n, k] over k)\n    }\n}\n\n";
	static const char *const chip[] = {"gfx942", NULL};
	struct arena a = {0};
	struct compile_options o = {.targets = chip, .jobs = 1, .check = asked[_i].check};
	struct compile_result r;
	char *text = arena_printf(&a, "%s%s\n", kernels, asked[_i].lines);
	int rc = compile_text(text, strlen(text), "x.tdsl", &o, &r);
	const char *said = r.messages ? r.messages : "";
	ck_assert_msg(rc == asked[_i].rc, "%s: %s", asked[_i].lines, said);
	ck_assert_msg(asked[_i].says ? strstr(said, asked[_i].says) != NULL : !*said, "%s: found %s", asked[_i].lines, said);
	compile_result_free(&r);
	arena_free(&a);
}
END_TEST

/* The largest sizes that a pack line can name are planned as others are; a row of the last kernel has more elements than 64 bits count. */
START_TEST(huge_sizes_are_planned)
{
	static const char text[] =
		"kernel lines(h: bf16[M, 2*N]) -> y: bf16[M, N]\n{\n    each m in M, n in N tiled { y[m, n] = bf16(f32(h[m, n]) * f32(h[m, N + n])) }\n}\n"
		"kernel rows(x: bf16[M, N], w: bf16[M, N]) -> y: bf16[M, N]\n{\n    each m in M {\n        n = 0..N\n        u = f32(x[m, n])\n"
		"        y[m, n] = bf16((f32(w[m, n]) - sum(f32(w[m, n]) * u over n)) * u)\n    }\n}\n"
		"kernel held(x: f32[M, 4]) -> y: f32[M]\n{\n    each m in M {\n        a = 0..65536; b = 0..65536; c = 0..65536; d = 0..65536\n"
		"        y[m] = sum(x[m, (a + b + c + d) % 4] over a, b, c, d)\n    }\n}\n"
		"pack {\n    lines: N 2147483647 1073741825, M 2147483647\n    rows: N 2147483647 1073741825, M 2147483647\n}\n";
	const char *chip[] = {_i ? "sm_90a" : "gfx942", NULL};
	static const char *const kernels[] = {"lines", "rows", NULL}, *const held[] = {"held", NULL}, *const any[] = {"any", NULL};
	struct compile_options o = {.targets = chip, .jobs = 1, .kernels = kernels, .variants = any};
	struct compile_result r;
	ck_assert_msg(compile_text(text, strlen(text), "x.tdsl", &o, &r) == 0, "%s", r.messages);
	ck_assert(!r.messages);
	compile_result_free(&r);
	o.kernels = held;
	ck_assert_int_eq(compile_text(text, strlen(text), "x.tdsl", &o, &r), -1);
	ck_assert_msg(strstr(r.messages, "of each lane, at most 1024 are possible") != NULL, "%s", r.messages);
	compile_result_free(&r);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("object");
	TCase *c = tcase_create("object");
	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, matrix_loop_is_found_and_counted, 0, 2);
	tcase_add_loop_test(c, classes_add_up_to_the_instructions, 0, 2);
	tcase_add_test(c, gate_refuses_a_word_the_chip_does_not_decode);
	tcase_add_loop_test(c, gate_refuses_a_call, 0, 2);
	tcase_add_loop_test(c, an_absent_intrinsic_is_named, 0, 2);
	tcase_add_loop_test(c, gate_refuses_a_spill, 0, 2);
	tcase_add_test(c, a_fatal_error_of_llvm_is_an_error_and_the_session_lives_on);
	tcase_add_loop_test(c, padding_is_not_counted, 0, 2);
	tcase_add_loop_test(c, bytes_do_not_depend_on_what_the_session_built_before, 0, 2);
	tcase_add_loop_test(c, every_kernel_of_an_object_has_facts, 0, 2);
	tcase_add_loop_test(c, disassembly_names_lines_and_branch_targets, 0, 2);
	tcase_add_loop_test(c, assembly_is_text_of_the_chip, 0, 2);
	tcase_add_test(c, altered_objects_are_refused_or_read);
	tcase_add_test(c, a_variant_is_spare_where_another_takes_its_calls);
	tcase_add_loop_test(c, what_lines_ask_for_is_built_or_named, 0, sizeof asked / sizeof *asked);
	tcase_add_loop_test(c, huge_sizes_are_planned, 0, 2);
	suite_add_tcase(suite, c);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_NORMAL);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
