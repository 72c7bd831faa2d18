/* sim_arith_test.c -- what LLVM makes of ordinary arithmetic: the same IR compiled for the simulated chips and for the host.
 *
 * Every row is one piece of LLVM IR on random and special operands.  llc turns it into a kernel, whose instructions the
 * simulator executes, and into a host function; the results must be the same bits (any NaN equals any NaN).  This checks
 * whole sequences, such as division, 64-bit multiplication and conversions, against an independent code generator. */
#include "../sim/sim.h"
#include "sim_build.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 2048 };

/* Operands: a b c i32, A B i64, x y z float, X Y double, h g half (of the same bits as a b c, A B, low halves of a b), v w
 * <2 x half>, s t <2 x i16>, p q <2 x float>. */
static const struct { const char *type, *ir; } rows[] = {
	{"i32", "add i32 %a, %b"}, {"i32", "sub i32 %a, %b"}, {"i32", "mul i32 %a, %b"},
	{"i32", "udiv i32 %a, %b1"}, {"i32", "urem i32 %a, %b1"}, {"i32", "sdiv i32 %a, %b1"}, {"i32", "srem i32 %a, %b1"},
	{"i32", "and i32 %a, %b"}, {"i32", "or i32 %a, %b"}, {"i32", "xor i32 %a, %b"},
	{"i32", "shl i32 %a, %n"}, {"i32", "lshr i32 %a, %n"}, {"i32", "ashr i32 %a, %n"},
	{"i64", "add i64 %A, %B"}, {"i64", "sub i64 %A, %B"}, {"i64", "mul i64 %A, %B"},
	{"i64", "udiv i64 %A, %B1"}, {"i64", "srem i64 %A, %B1"}, {"i64", "shl i64 %A, %m"}, {"i64", "lshr i64 %A, %m"}, {"i64", "ashr i64 %A, %m"},
	{"i32", "call i32 @llvm.smin.i32(i32 %a, i32 %b)"}, {"i32", "call i32 @llvm.umax.i32(i32 %a, i32 %b)"},
	{"i64", "call i64 @llvm.smax.i64(i64 %A, i64 %B)"}, {"i32", "call i32 @llvm.ctpop.i32(i32 %a)"}, {"i64", "call i64 @llvm.ctpop.i64(i64 %A)"},
	{"i32", "call i32 @llvm.ctlz.i32(i32 %a, i1 false)"}, {"i32", "call i32 @llvm.cttz.i32(i32 %a, i1 false)"}, {"i64", "call i64 @llvm.ctlz.i64(i64 %A, i1 false)"},
	{"i32", "call i32 @llvm.bitreverse.i32(i32 %a)"}, {"i32", "call i32 @llvm.bswap.i32(i32 %a)"}, {"i64", "call i64 @llvm.bitreverse.i64(i64 %A)"},
	{"i32", "call i32 @llvm.fshl.i32(i32 %a, i32 %b, i32 %c)"}, {"i32", "call i32 @llvm.fshr.i32(i32 %a, i32 %b, i32 %c)"},
	{"i32", "call i32 @llvm.uadd.sat.i32(i32 %a, i32 %b)"}, {"i32", "call i32 @llvm.ssub.sat.i32(i32 %a, i32 %b)"},
	{"<2 x i16>", "add <2 x i16> %s, %t"}, {"<2 x i16>", "mul <2 x i16> %s, %t"}, {"<2 x i16>", "call <2 x i16> @llvm.smax.v2i16(<2 x i16> %s, <2 x i16> %t)"},
	{"<2 x i16>", "call <2 x i16> @llvm.umin.v2i16(<2 x i16> %s, <2 x i16> %t)"}, {"<2 x i16>", "call <2 x i16> @llvm.sadd.sat.v2i16(<2 x i16> %s, <2 x i16> %t)"},
	{"float", "fadd float %x, %y"}, {"float", "fsub float %x, %y"}, {"float", "fmul float %x, %y"}, {"float", "fdiv float %x, %y"},
	{"float", "call float @llvm.fma.f32(float %x, float %y, float %z)"}, {"float", "call float @llvm.sqrt.f32(float %x)"},
	{"float", "call float @llvm.floor.f32(float %x)"}, {"float", "call float @llvm.ceil.f32(float %x)"}, {"float", "call float @llvm.trunc.f32(float %x)"},
	{"float", "call float @llvm.roundeven.f32(float %x)"}, {"float", "call float @llvm.fabs.f32(float %x)"}, {"float", "call float @llvm.copysign.f32(float %x, float %y)"},
	{"float", "fneg float %x"}, {"float", "sitofp i32 %a to float"}, {"float", "uitofp i32 %a to float"}, {"float", "sitofp i64 %A to float"}, {"float", "uitofp i64 %A to float"},
	{"i32", "call i32 @llvm.fptosi.sat.i32.f32(float %x)"}, {"i32", "call i32 @llvm.fptoui.sat.i32.f32(float %x)"}, {"i64", "call i64 @llvm.fptosi.sat.i64.f32(float %x)"},
	{"i1", "fcmp olt float %x, %y"}, {"i1", "fcmp ule float %x, %y"}, {"i1", "fcmp one float %x, %y"}, {"i1", "fcmp ueq float %x, %y"}, {"i1", "fcmp uno float %x, %y"},
	{"i1", "fcmp oge double %X, %Y"}, {"i1", "fcmp ult half %h, %g"}, {"i1", "icmp slt i64 %A, %B"}, {"i1", "icmp ugt i32 %a, %b"},
	{"i1", "call i1 @llvm.is.fpclass.f32(float %x, i32 411)"}, {"i1", "call i1 @llvm.is.fpclass.f64(double %X, i32 612)"},
	{"float", "call float @llvm.ldexp.f32.i32(float %x, i32 %e)"}, {"double", "call double @llvm.ldexp.f64.i32(double %X, i32 %e)"},
	{"double", "fadd double %X, %Y"}, {"double", "fmul double %X, %Y"}, {"double", "fdiv double %X, %Y"}, {"double", "call double @llvm.fma.f64(double %X, double %Y, double %X)"},
	{"double", "call double @llvm.sqrt.f64(double %X)"}, {"double", "call double @llvm.floor.f64(double %X)"}, {"double", "call double @llvm.roundeven.f64(double %X)"},
	{"double", "fpext float %x to double"}, {"float", "fptrunc double %X to float"}, {"double", "sitofp i64 %A to double"}, {"double", "uitofp i32 %a to double"},
	{"i32", "call i32 @llvm.fptosi.sat.i32.f64(double %X)"}, {"i64", "call i64 @llvm.fptoui.sat.i64.f64(double %X)"},
	{"half", "fadd half %h, %g"}, {"half", "fmul half %h, %g"}, {"half", "fdiv half %h, %g"}, {"half", "fptrunc float %x to half"}, {"float", "fpext half %h to float"},
	{"half", "call half @llvm.sqrt.f16(half %h)"}, {"half", "call half @llvm.floor.f16(half %h)"}, {"half", "sitofp i16 %i to half"},
	{"<2 x half>", "fadd <2 x half> %v, %w"}, {"<2 x half>", "fmul <2 x half> %v, %w"},
	{"<2 x float>", "fadd <2 x float> %p, %q"}, {"<2 x float>", "fmul <2 x float> %p, %q"}, {"<2 x float>", "call <2 x float> @llvm.fma.v2f32(<2 x float> %p, <2 x float> %q, <2 x float> %p)"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const char *const operands =
	" %b1 = or i32 %b, 1\n %n = and i32 %b, 31\n %m = and i64 %B, 63\n %B1 = or i64 %B, 1\n %e = srem i32 %c, 300\n %i = trunc i32 %a to i16\n"
	" %x = bitcast i32 %a to float\n %y = bitcast i32 %b to float\n %z = bitcast i32 %c to float\n %X = bitcast i64 %A to double\n %Y = bitcast i64 %B to double\n"
	" %a16 = trunc i32 %a to i16\n %b16 = trunc i32 %b to i16\n %h = bitcast i16 %a16 to half\n %g = bitcast i16 %b16 to half\n"
	" %v = bitcast i32 %a to <2 x half>\n %w = bitcast i32 %b to <2 x half>\n %s = bitcast i32 %a to <2 x i16>\n %t = bitcast i32 %b to <2 x i16>\n"
	" %p = bitcast i64 %A to <2 x float>\n %q = bitcast i64 %B to <2 x float>\n";

static unsigned bits_of(const char *type)
{
	if (type[0] == '<')
		return strcmp(type, "<2 x float>") == 0 ? 64 : 32;
	return strcmp(type, "double") == 0 || strcmp(type, "i64") == 0 ? 64 : strcmp(type, "half") == 0 ? 16 : strcmp(type, "i1") == 0 ? 1 : 32;
}

/* Row i: a function of the operands that gives the result's bits, and for the device a kernel over arrays around it. */
static void write_row(FILE *f, int i, bool device)
{
	unsigned bits = bits_of(rows[i].type);
	fprintf(f, "define i64 @f%d(i32 %%a, i32 %%b, i32 %%c, i64 %%A, i64 %%B) %s {\n%s %%r = %s\n", i, device ? "alwaysinline" : "nounwind", operands, rows[i].ir);
	fprintf(f, " %%k = bitcast %s %%r to i%u\n", rows[i].type, bits);
	fprintf(f, bits == 64 ? " ret i64 %%k\n}\n" : " %%l = zext i%u %%k to i64\n ret i64 %%l\n}\n", bits);
	if (!device)
		return;
	fprintf(f, "define amdgpu_kernel void @k%d(ptr addrspace(1) %%in, ptr addrspace(1) %%out) #0 {\n", i);
	fputs(" %g = call i32 @llvm.amdgcn.workgroup.id.x()\n %t = call i32 @llvm.amdgcn.workitem.id.x()\n %g1 = mul i32 %g, 256\n %i = add i32 %g1, %t\n"
	      " %p = getelementptr [8 x i32], ptr addrspace(1) %in, i32 %i\n %a = load i32, ptr addrspace(1) %p\n"
	      " %pb = getelementptr i32, ptr addrspace(1) %p, i32 1\n %b = load i32, ptr addrspace(1) %pb\n"
	      " %pc = getelementptr i32, ptr addrspace(1) %p, i32 2\n %c = load i32, ptr addrspace(1) %pc\n"
	      " %pA = getelementptr i32, ptr addrspace(1) %p, i32 4\n %A = load i64, ptr addrspace(1) %pA\n"
	      " %pB = getelementptr i32, ptr addrspace(1) %p, i32 6\n %B = load i64, ptr addrspace(1) %pB\n", f);
	fprintf(f, " %%r = call i64 @f%d(i32 %%a, i32 %%b, i32 %%c, i64 %%A, i64 %%B)\n", i);
	fputs(" %o = getelementptr i64, ptr addrspace(1) %out, i32 %i\n store i64 %r, ptr addrspace(1) %o\n ret void\n}\n", f);
}

static void write_file(const char *path, bool device)
{
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(device ? "target triple = \"amdgcn-amd-amdhsa\"\ndeclare i32 @llvm.amdgcn.workgroup.id.x()\ndeclare i32 @llvm.amdgcn.workitem.id.x()\n"
	               "attributes #0 = { \"amdgpu-flat-work-group-size\"=\"256,256\" }\n" : "", f);
	for (int i = 0; i < ROWS; i++)
		write_row(f, i, device);
	fclose(f);
}

static uint32_t draw(void)
{
	static const uint32_t special[] = {0, 0x80000000, 1, 0x80000001, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f800000, 0xbf800000, 0x7f7fffff,
		0x00800000, 0x007fffff, 0x4effffff, 0x4f000000, 0x33800000, 0x7e00, 0x7c003c00, 0xfc00, 0x7bff0001, 0xffffffff, 2, 31, 0x7fffffff, 0x7ff00000};
	static uint64_t s = 88172645463325252u;
	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	uint32_t r = (uint32_t)(s >> 20);
	switch (s & 7) {
	case 0: return special[r % (sizeof special / 4)];
	case 1: case 2: return (r & 0x807fffff) | (100 + r / 8 % 56) << 23;
	case 3: return (r & 0x800fffff) | (1000 + r / 8 % 46) << 20; /* upper half of a moderate double */
	case 4: return r & 0xbfffbfff;                               /* halves of moderate size */
	default: return r;
	}
}

static bool same(const char *type, uint64_t a, uint64_t b)
{
	if (a == b)
		return true;
	if (strcmp(type, "double") == 0)
		return (a & INT64_MAX) > 0x7ff0000000000000 && (b & INT64_MAX) > 0x7ff0000000000000;
	if (strstr(type, "float")) {
		for (int k = 0; k < 64; k += 32) {
			uint32_t x = (uint32_t)(a >> k), y = (uint32_t)(b >> k);
			if (x != y && ((x & 0x7fffffff) <= 0x7f800000 || (y & 0x7fffffff) <= 0x7f800000))
				return false;
		}
		return true;
	}
	if (strstr(type, "half")) {
		for (int k = 0; k < 32; k += 16) {
			uint32_t x = (uint32_t)(a >> k & 0xffff), y = (uint32_t)(b >> k & 0xffff);
			if (x != y && ((x & 0x7fff) <= 0x7c00 || (y & 0x7fff) <= 0x7c00))
				return false;
		}
		return true;
	}
	return false;
}

static char dir[] = "/tmp/tdsl-test-XXXXXX";

static void command(const char *format, const char *arg)
{
	char text[1024];
	snprintf(text, sizeof text, format, dir, arg ? arg : dir, dir, dir);
	ck_assert_msg(system(text) == 0, "failed: %s", text);
}

static void against_host(const char *chip)
{
	typedef uint64_t fn(uint32_t, uint32_t, uint32_t, uint64_t, uint64_t);
	char path[64], name[16], err[1024];
	size_t size;
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/arith.ll", dir);
	write_file(path, true);
	uint8_t *bytes = sim_build_file(path, chip, "", &size);
	snprintf(path, sizeof path, "%s/host.ll", dir);
	write_file(path, false);
	command("llc-22 -O1 -mattr=+fma,+f16c -relocation-model=pic -filetype=obj %s/host.ll -o %s/h.o && cc -shared %s/h.o -o %s/h.so -lm", NULL);
	snprintf(path, sizeof path, "%s/h.so", dir);
	void *host = dlopen(path, RTLD_NOW);
	ck_assert_msg(host != NULL, "%s", dlerror());
	struct sim_object *object;
	int rc = sim_object_load(&object, sim_chip_by_name(chip), bytes, size, err, sizeof err);
	ck_assert_msg(rc == SIM_OK, "%s", err);
	static uint32_t in[N][8];
	static uint64_t out[N];
	struct sim_memory *memory = sim_memory_new();
	sim_memory_add(memory, in, sizeof in, "in", false);
	sim_memory_add(memory, out, sizeof out, "out", true);
	sim_object_map(object, memory);
	for (int i = 0; i < ROWS; i++) {
		uint64_t args[64] = {(uint64_t)(uintptr_t)in, (uint64_t)(uintptr_t)out};
		for (int n = 0; n < N; n++)
			for (int k = 0; k < 8; k++)
				in[n][k] = draw();
		snprintf(name, sizeof name, "k%d", i);
		struct sim_launch l = {.object = object, .kernel = sim_object_kernel(object, name), .memory = memory, .grid = {N / 256, 1, 1},
		                       .block = {256, 1, 1}, .kernarg = args, .kernarg_size = sizeof args};
		sim_kernarg_hidden(l.kernel, l.grid, l.block, 0, args);
		rc = sim_run(&l, err, sizeof err);
		ck_assert_msg(rc == SIM_OK, "%s\n%s", rows[i].ir, err);
		snprintf(name, sizeof name, "f%d", i);
		fn *f;
		*(void **)&f = dlsym(host, name);
		for (int n = 0; n < N; n++) {
			uint64_t A = in[n][4] | (uint64_t)in[n][5] << 32, B = in[n][6] | (uint64_t)in[n][7] << 32;
			if (strstr(rows[i].ir, "srem i64") || strstr(rows[i].ir, "sdiv i32") || strstr(rows[i].ir, "srem i32"))
				if ((in[n][0] == 0x80000000 && in[n][1] == ~0u) || (A == (uint64_t)INT64_MIN && B == ~UINT64_C(0)))
					continue; /* overflow is not defined */
			uint64_t want = f(in[n][0], in[n][1], in[n][2], A, B);
			ck_assert_msg(same(rows[i].type, out[n], want), "%s: a %08x b %08x c %08x A %016llx B %016llx gives %llx, the host %llx", rows[i].ir,
				in[n][0], in[n][1], in[n][2], (unsigned long long)A, (unsigned long long)B, (unsigned long long)out[n], (unsigned long long)want);
		}
	}
	sim_object_free(object);
	sim_memory_free(memory);
	dlclose(host);
	free(bytes);
	command("rm -r %s", NULL);
}

START_TEST(arithmetic_gfx942) { against_host("gfx942"); } END_TEST
START_TEST(arithmetic_gfx950) { against_host("gfx950"); } END_TEST

int main(void)
{
	Suite *s = suite_create("sim_arith");
	TCase *c = tcase_create("arithmetic");
	tcase_set_timeout(c, 180);
	tcase_add_test(c, arithmetic_gfx942);
	tcase_add_test(c, arithmetic_gfx950);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
