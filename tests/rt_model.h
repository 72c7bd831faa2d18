/* rt_model.h -- packs made by hand for the runtime's tests, without a compiler: three kernels.
 *
 *   rmsnorm_quant(x: T[M, N], w: T[N], eps: f32) -> (y: fp8[M, N], scale: f32[M])   T = bf16 | f16; objects that do not run
 *   scale_add(x: f32[M, N], bias?: f32[N], a: f32, k: i32) -> y: f32[M, N]          y = x * a + k (+ bias): LLVM IR below, runs
 *   partial_sum(x: f32[N]) -> s: f32[1]                                             two launches and a workspace, gfx942 only
 *
 * The IR is compiled by llc-22 and linked by ld.lld-22 in a temporary folder.  A header, so that each test stays one file. */
#ifndef TDSL_RT_MODEL_H
#define TDSL_RT_MODEL_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/model.h"
#include "../base/outfile.h"
#include "../runtime/pack.h"

static const char ir[] =
	"target triple = \"amdgcn-amd-amdhsa\"\n"
	"declare i32 @llvm.amdgcn.workgroup.id.x()\n"
	"declare i32 @llvm.amdgcn.workitem.id.x()\n"
	/* y[m, n] = x[m, n] * a + k (+ bias[n]); one workgroup a row, 64 lanes stride over n */
	"define amdgpu_kernel void @scale_add(ptr addrspace(1) %x, ptr addrspace(1) %bias, ptr addrspace(1) %y, float %a, i32 %k,\n"
	"  i32 %N, i32 %inner, i64 %xf, i64 %x0, i64 %x1, i64 %y0) #0 {\n"
	"entry:\n"
	"  %row = call i32 @llvm.amdgcn.workgroup.id.x()\n"
	"  %lane = call i32 @llvm.amdgcn.workitem.id.x()\n"
	"  %hi = udiv i32 %row, %inner\n  %lo = urem i32 %row, %inner\n"
	"  %hi64 = zext i32 %hi to i64\n  %lo64 = zext i32 %lo to i64\n  %row64 = zext i32 %row to i64\n"
	"  %a1 = mul i64 %hi64, %xf\n  %a2 = mul i64 %lo64, %x0\n  %xrow = add i64 %a1, %a2\n  %yrow = mul i64 %row64, %y0\n"
	"  %kf = sitofp i32 %k to float\n"
	"  %has = icmp ne ptr addrspace(1) %bias, null\n"
	"  %any = icmp ult i32 %lane, %N\n  br i1 %any, label %loop, label %end\n"
	"loop:\n"
	"  %n = phi i32 [ %lane, %entry ], [ %next, %store ]\n"
	"  %n64 = zext i32 %n to i64\n"
	"  %nx = mul i64 %n64, %x1\n  %xi = add i64 %xrow, %nx\n"
	"  %xp = getelementptr float, ptr addrspace(1) %x, i64 %xi\n  %v = load float, ptr addrspace(1) %xp\n"
	"  %p = fmul float %v, %a\n  %q = fadd float %p, %kf\n"
	"  br i1 %has, label %add, label %store\n"
	"add:\n"
	"  %bp = getelementptr float, ptr addrspace(1) %bias, i64 %n64\n  %b = load float, ptr addrspace(1) %bp\n"
	"  %qb = fadd float %q, %b\n  br label %store\n"
	"store:\n"
	"  %r = phi float [ %q, %loop ], [ %qb, %add ]\n"
	"  %yi = add i64 %yrow, %n64\n  %yp = getelementptr float, ptr addrspace(1) %y, i64 %yi\n"
	"  store float %r, ptr addrspace(1) %yp\n"
	"  %next = add i32 %n, 64\n  %more = icmp ult i32 %next, %N\n  br i1 %more, label %loop, label %end\n"
	"end:\n  ret void\n}\n"
	/* ws[b] = sum of x[b*256 .. ], by lane 0; then s[0] = sum of ws */
	"define amdgpu_kernel void @partial(ptr addrspace(1) %x, ptr addrspace(1) %ws, i32 %N) #0 {\n"
	"entry:\n"
	"  %blk = call i32 @llvm.amdgcn.workgroup.id.x()\n  %lane = call i32 @llvm.amdgcn.workitem.id.x()\n"
	"  %z = icmp eq i32 %lane, 0\n  %from = mul i32 %blk, 256\n  %to0 = add i32 %from, 256\n"
	"  %big = icmp ugt i32 %to0, %N\n  %to = select i1 %big, i32 %N, i32 %to0\n  br i1 %z, label %loop, label %end\n"
	"loop:\n"
	"  %i = phi i32 [ %from, %entry ], [ %i1, %loop ]\n  %s = phi float [ 0.0, %entry ], [ %s1, %loop ]\n"
	"  %i64 = zext i32 %i to i64\n  %p = getelementptr float, ptr addrspace(1) %x, i64 %i64\n"
	"  %v = load float, ptr addrspace(1) %p\n  %s1 = fadd float %s, %v\n  %i1 = add i32 %i, 1\n"
	"  %m = icmp ult i32 %i1, %to\n  br i1 %m, label %loop, label %done\n"
	"done:\n  %b64 = zext i32 %blk to i64\n  %wp = getelementptr float, ptr addrspace(1) %ws, i64 %b64\n"
	"  store float %s1, ptr addrspace(1) %wp\n  br label %end\nend:\n  ret void\n}\n"
	"define amdgpu_kernel void @combine(ptr addrspace(1) %ws, ptr addrspace(1) %s, i32 %n) #0 {\n"
	"entry:\n"
	"  %lane = call i32 @llvm.amdgcn.workitem.id.x()\n  %z = icmp eq i32 %lane, 0\n  br i1 %z, label %loop, label %end\n"
	"loop:\n"
	"  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]\n  %a = phi float [ 0.0, %entry ], [ %a1, %loop ]\n"
	"  %i64 = zext i32 %i to i64\n  %p = getelementptr float, ptr addrspace(1) %ws, i64 %i64\n"
	"  %v = load float, ptr addrspace(1) %p\n  %a1 = fadd float %a, %v\n  %i1 = add i32 %i, 1\n"
	"  %m = icmp ult i32 %i1, %n\n  br i1 %m, label %loop, label %done\n"
	"done:\n  store float %a1, ptr addrspace(1) %s\n  br label %end\nend:\n  ret void\n}\n"
	"attributes #0 = { \"amdgpu-flat-work-group-size\"=\"64,64\" \"uniform-work-group-size\"=\"true\" }\n"
	"!llvm.module.flags = !{!0}\n!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 500}\n";

static void must(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "rt_model: %s failed\n", what);
		abort();
	}
}

static void object_real(struct arena *a, struct model_object *o)
{
	char folder[] = "/tmp/rt_modelXXXXXX", path[64], command[512];
	must(mkdtemp(folder) != NULL, "mkdtemp");
	snprintf(path, sizeof path, "%s/k.ll", folder);
	FILE *f = fopen(path, "w");
	must(f && fputs(ir, f) >= 0 && fclose(f) == 0, "writing IR");
	snprintf(command, sizeof command, "llc-22 -mcpu=%s -O2 -filetype=obj %s/k.ll -o %s/k.o && ld.lld-22 -shared %s/k.o -o %s/k.hsaco",
	         o->target, folder, folder, folder, folder);
	must(system(command) == 0, "llc or ld.lld");
	snprintf(path, sizeof path, "%s/k.hsaco", folder);
	must((f = fopen(path, "rb")) != NULL, "opening the object");
	fseek(f, 0, SEEK_END);
	o->size = (uint64_t)ftell(f);
	rewind(f);
	uint8_t *bytes = arena_alloc(a, o->size);
	must(fread(bytes, 1, o->size, f) == o->size && fclose(f) == 0, "reading the object");
	o->bytes = bytes;
	snprintf(command, sizeof command, "rm -r %s", folder);
	must(system(command) == 0, "rm");
}

static const struct hexpr *sym(struct arena *a, int i)
{
	return hexpr_sym(a, i);
}

static const struct hexpr *num(struct arena *a, int64_t v)
{
	return hexpr_const(a, v);
}

static struct model_param param(const char *name, enum model_role role, int rank, const struct hexpr *e0, const struct hexpr *e1)
{
	return (struct model_param){.name = name, .is_tensor = true, .role = role, .rank = rank, .extent = {e0, e1}};
}

static void launch_set(struct arena *a, struct model_launch *l, const char *symbol, const struct hexpr *grid, const struct model_karg *k, int n,
                       int bytes)
{
	*l = (struct model_launch){.symbol = symbol, .block = 64, .grid = {grid, num(a, 1), num(a, 1)}, .kernarg_bytes = bytes, .nkargs = n};
	l->kargs = arena_copy(a, k, (size_t)n * sizeof *k);
	l->vgpr = 12, l->sgpr = 20, l->instructions = 50;
}

/* Variants in order: "N%8=0 aligned flat" without strides inside a row, then "any". */
static void rmsnorm(struct arena *a, struct model_kernel *k)
{
	enum { M, N };
	enum { X, W, EPS, Y, SCALE };
	static struct model_symbol symbols[] = {{"M", X, 0, 1, 0}, {"N", X, 1, 1, 0}};
	struct model_param params[] = {param("x", ROLE_IN, 2, sym(a, M), sym(a, N)), param("w", ROLE_IN, 1, sym(a, N), NULL),
	                               {.name = "eps", .has_default = true, .default_value = 1e-6},
	                               param("y", ROLE_OUT, 2, sym(a, M), sym(a, N)), param("scale", ROLE_OUT, 1, sym(a, M), NULL)};
	struct model_instance instances[2] = {
		{"T=bf16", {DT_BF16, DT_BF16, DT_F32, DT_E4M3, DT_F32}, {0, 0, 0, 8, 0}},
		{"T=f16", {DT_F16, DT_F16, DT_F32, DT_E4M3, DT_F32}, {0, 0, 0, 8, 0}}};
	static const struct model_karg fast[] = {
		{KA_POINTER, X, 0, 8, 0}, {KA_POINTER, W, 0, 8, 8}, {KA_POINTER, Y, 0, 8, 16}, {KA_POINTER, SCALE, 0, 8, 24},
		{KA_STRIDE, X, 0, 8, 32}, {KA_STRIDE, Y, 0, 8, 40}, {KA_STRIDE, SCALE, 0, 8, 48}, {KA_SCALAR, EPS, 0, 4, 56},
		{KA_SYMBOL, N, 0, 4, 60}};
	static const struct model_karg any[] = {
		{KA_POINTER, X, 0, 8, 0}, {KA_POINTER, W, 0, 8, 8}, {KA_POINTER, Y, 0, 8, 16}, {KA_POINTER, SCALE, 0, 8, 24},
		{KA_STRIDE, X, 0, 8, 32}, {KA_STRIDE, X, 1, 8, 40}, {KA_STRIDE, W, 0, 8, 48}, {KA_STRIDE, Y, 0, 8, 56}, {KA_STRIDE, Y, 1, 8, 64},
		{KA_STRIDE, SCALE, 0, 8, 72}, {KA_FOLD_INNER, X, 0, 4, 80}, {KA_SCALAR, EPS, 0, 4, 84}, {KA_FOLD_STRIDE, X, 0, 8, 88},
		{KA_FOLD_STRIDE, Y, 0, 8, 96}, {KA_FOLD_STRIDE, SCALE, 0, 8, 104}, {KA_FOLD_INNER, Y, 0, 4, 112},
		{KA_FOLD_INNER, SCALE, 0, 4, 116}, {KA_SYMBOL, N, 0, 4, 120}};
	k->name = "rmsnorm_quant";
	k->doc = "y = rmsnorm(x) * w as fp8, one scale per row.";
	k->params = arena_copy(a, params, sizeof params), k->nparams = 5;
	k->symbols = symbols, k->nsymbols = 2;
	k->instances = arena_copy(a, instances, sizeof instances), k->ninstances = 2;
	k->variants = arena_alloc(a, 8 * sizeof *k->variants);
	const struct hexpr *even = hexpr_op(a, HX_EQ, hexpr_op(a, HX_REM, sym(a, N), num(a, 8)), num(a, 0));
	const struct hexpr *aligned = hexpr_op(a, HX_AND, hexpr_leaf(a, HX_ALIGNED, X), hexpr_leaf(a, HX_ALIGNED, Y));
	aligned = hexpr_op(a, HX_AND, aligned, hexpr_op(a, HX_AND, hexpr_leaf(a, HX_FLAT, X), hexpr_leaf(a, HX_ALIGNED, W)));
	for (int i = 0; i < 2; i++)
		for (int t = 0; t < 2; t++) {
			struct model_launch *l = arena_alloc(a, 2 * sizeof *l);
			launch_set(a, &l[0], "scale_add", sym(a, M), fast, sizeof fast / sizeof *fast, 64);
			launch_set(a, &l[1], "scale_add", sym(a, M), any, sizeof any / sizeof *any, 124);
			l[1].lanes = hexpr_op(a, HX_MAX, hexpr_op(a, HX_MIN, sym(a, N), num(a, 64)), num(a, 1));
			k->variants[k->nvariants++] = (struct model_variant){i, t ? "gfx950" : "gfx942", hexpr_op(a, HX_AND, even, aligned),
				"N%8=0 aligned", NULL, &l[0], 1, t, "{\"loop\":{\"mfma\":0}}", 0};
			k->variants[k->nvariants++] = (struct model_variant){i, t ? "gfx950" : "gfx942", NULL, "any", NULL, &l[1], 1, t, NULL, 0};
		}
}

static void scale_add(struct arena *a, struct model_kernel *k)
{
	enum { M, N };
	enum { X, BIAS, A, K, Y };
	static struct model_symbol symbols[] = {{"M", X, 0, 1, 0}, {"N", X, 1, 1, 0}};
	static const struct model_karg kargs[] = {
		{KA_POINTER, X, 0, 8, 0}, {KA_POINTER, BIAS, 0, 8, 8}, {KA_POINTER, Y, 0, 8, 16}, {KA_SCALAR, A, 0, 4, 24}, {KA_SCALAR, K, 0, 4, 28},
		{KA_SYMBOL, N, 0, 4, 32}, {KA_FOLD_INNER, X, 0, 4, 36}, {KA_FOLD_STRIDE, X, 0, 8, 40}, {KA_STRIDE, X, 0, 8, 48},
		{KA_STRIDE, X, 1, 8, 56}, {KA_STRIDE, Y, 0, 8, 64}};
	struct model_param params[] = {param("x", ROLE_IN, 2, sym(a, M), sym(a, N)), param("bias", ROLE_IN, 1, sym(a, N), NULL),
	                               {.name = "a"}, {.name = "k", .has_default = true}, param("y", ROLE_OUT, 2, sym(a, M), sym(a, N))};
	struct model_instance instance = {"", {DT_F32, DT_F32, DT_F32, DT_I32, DT_F32}, {0}};
	params[BIAS].optional = true;
	k->name = "scale_add";
	k->doc = "";
	k->params = arena_copy(a, params, sizeof params), k->nparams = 5;
	k->symbols = symbols, k->nsymbols = 2;
	k->instances = arena_copy(a, &instance, sizeof instance), k->ninstances = 1;
	k->requires = arena_alloc(a, sizeof *k->requires), k->nrequires = 1;
	k->requires[0].expr = hexpr_op(a, HX_NE, sym(a, N), num(a, 13));
	k->requires[0].text = "N != 13";
	k->variants = arena_alloc(a, 2 * sizeof *k->variants);
	for (int t = 0; t < 2; t++) {
		struct model_launch *l = arena_alloc(a, sizeof *l);
		launch_set(a, l, "scale_add", sym(a, M), kargs, sizeof kargs / sizeof *kargs, 72);
		k->variants[k->nvariants++] = (struct model_variant){0, t ? "gfx950" : "gfx942", NULL, "any", NULL, l, 1, t, NULL, 0};
	}
}

/* gfx942 only: so that a kernel without code for a device exists. */
static void partial_sum(struct arena *a, struct model_kernel *k)
{
	enum { N };
	enum { X, S };
	static struct model_symbol symbols[] = {{"N", X, 0, 1, 0}};
	static const struct model_karg first[] = {{KA_POINTER, X, 0, 8, 0}, {KA_WORKSPACE, 0, 0, 8, 8}, {KA_SYMBOL, N, 0, 4, 16}};
	static const struct model_karg second[] = {{KA_WORKSPACE, 0, 0, 8, 0}, {KA_POINTER, S, 0, 8, 8}, {KA_EXPR, 0, 0, 4, 16}};
	struct model_param params[] = {param("x", ROLE_IN, 1, sym(a, N), NULL), param("s", ROLE_OUT, 1, num(a, 1), NULL)};
	struct model_instance instance = {"", {DT_F32, DT_F32}, {0}};
	const struct hexpr *parts = hexpr_op(a, HX_CDIV, sym(a, N), num(a, 256));
	const struct hexpr **exprs = arena_alloc(a, sizeof *exprs);
	struct model_launch *l = arena_alloc(a, 2 * sizeof *l);
	exprs[0] = parts;
	launch_set(a, &l[0], "partial", parts, first, 3, 20);
	launch_set(a, &l[1], "combine", num(a, 1), second, 3, 20);
	l[1].exprs = exprs, l[1].nexprs = 1;
	k->name = "partial_sum";
	k->doc = "";
	k->params = arena_copy(a, params, sizeof params), k->nparams = 2;
	k->symbols = symbols, k->nsymbols = 1;
	k->instances = arena_copy(a, &instance, sizeof instance), k->ninstances = 1;
	k->variants = arena_alloc(a, sizeof *k->variants), k->nvariants = 1;
	k->variants[0] = (struct model_variant){0, "gfx942", NULL, "any", hexpr_op(a, HX_MUL, parts, num(a, 4)), l, 2, 0, NULL, 0};
	k->has_workspace = true;
}

/* The pack of all three; code objects from llc and ld.lld where `real`, else arbitrary bytes.  Everything is in the arena. */
static void rt_model(struct arena *a, struct model_pack *m, bool real)
{
	*m = (struct model_pack){.nkernels = 3, .nobjects = 2, .tdsl_version = "0.1.0", .llvm_version = "22.1.8", .options = "", .licence = "MIT",
	                         .source_hash = {1, 2}};
	m->kernels = arena_alloc(a, 3 * sizeof *m->kernels);
	rmsnorm(a, &m->kernels[0]);
	scale_add(a, &m->kernels[1]);
	partial_sum(a, &m->kernels[2]);
	m->kernels[0].variants[0].launches[0].overlaps = true;
	m->kernels[0].variants[1].launches[0].together = true;
	m->objects = arena_alloc(a, 2 * sizeof *m->objects);
	for (int t = 0; t < 2; t++) {
		m->objects[t] = (struct model_object){t ? "gfx950" : "gfx942", (const uint8_t *)ir, sizeof ir};
		if (real)
			object_real(a, &m->objects[t]);
	}
}

/* Its bytes (malloc'ed); aborts on failure. */
static __attribute__((unused)) void *rt_pack(size_t *size, bool real)
{
	struct arena a = {0};
	struct model_pack m;
	char err[512] = "";
	void *bytes;
	rt_model(&a, &m, real);
	if (pack_write(&m, &bytes, size, err, sizeof err) < 0) {
		fprintf(stderr, "rt_model: %s\n", err);
		abort();
	}
	arena_free(&a);
	return bytes;
}
#endif
