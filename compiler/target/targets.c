/* targets.c -- the chips the compiler knows, one row each, and their matrix instructions.
 * In: a name.  Out: facts.  Sources: CDNA3 and CDNA4 ISA guides; CUDA programming guide's table of compute
 * capabilities (9.0: 227 KB of shared memory for a block); intrinsics as selected by LLVM 22. */
#include "../compile.h"
#include "mfma.h"

#include <string.h>

static const struct mfma gfx942_mfma[] = {
	{DT_BF16, DT_BF16, 16, 16, 16, 4, MFMA_V4I16, "llvm.amdgcn.mfma.f32.16x16x16bf16.1k"},
	{DT_F16, DT_F16, 16, 16, 16, 4, MFMA_V4F16, "llvm.amdgcn.mfma.f32.16x16x16f16"},
	{DT_E4M3FNUZ, DT_E4M3FNUZ, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8"},
	{DT_E4M3FNUZ, DT_E5M2FNUZ, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8"},
	{DT_E5M2FNUZ, DT_E4M3FNUZ, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.fp8"},
	{DT_E5M2FNUZ, DT_E5M2FNUZ, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8"},
	{DT_I8, DT_I8, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.i32.16x16x32.i8"},
	{DT_F32, DT_F32, 16, 16, 4, 1, MFMA_F32, "llvm.amdgcn.mfma.f32.16x16x4f32"},
};

static const struct mfma gfx950_mfma[] = {
	{DT_BF16, DT_BF16, 16, 16, 32, 8, MFMA_V8BF16, "llvm.amdgcn.mfma.f32.16x16x32.bf16"},
	{DT_F16, DT_F16, 16, 16, 32, 8, MFMA_V8F16, "llvm.amdgcn.mfma.f32.16x16x32.f16"},
	{DT_E4M3, DT_E4M3, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8"},
	{DT_E4M3, DT_E5M2, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8"},
	{DT_E5M2, DT_E4M3, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.fp8"},
	{DT_E5M2, DT_E5M2, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8"},
	{DT_I8, DT_I8, 16, 16, 32, 8, MFMA_I64, "llvm.amdgcn.mfma.i32.16x16x32.i8"},
	{DT_F32, DT_F32, 16, 16, 4, 1, MFMA_F32, "llvm.amdgcn.mfma.f32.16x16x4f32"},
};

#define ROWS(t) t, sizeof t / sizeof *t

static const struct target targets[] = {
	{"gfx942", "amdgcn-amd-amdhsa", "gfx942", "", 64, 512, 65536, 1024, true, false, false, ROWS(gfx942_mfma)},
	{"gfx950", "amdgcn-amd-amdhsa", "gfx950", "", 64, 512, 163840, 1024, false, true, true, ROWS(gfx950_mfma)},
	{"sm_90a", "nvptx64-nvidia-cuda", "sm_90a", "+ptx84", 32, 255, 232448, 1024, false, true, false, NULL, 0},
};

const struct target *target_by_name(const char *name)
{
	for (unsigned i = 0; i < sizeof targets / sizeof *targets; i++)
		if (strcmp(targets[i].name, name) == 0)
			return &targets[i];
	return NULL;
}

const char *target_names(void)
{
	return "gfx942, gfx950, sm_90a";
}

bool target_is_nvptx(const struct target *t)
{
	return strncmp(t->triple, "nvptx", 5) == 0;
}

const struct mfma *target_mfma(const struct target *t, enum dtype a, enum dtype b)
{
	for (int i = 0; i < t->nmfma; i++)
		if (t->mfma[i].a == a && t->mfma[i].b == b)
			return &t->mfma[i];
	return NULL;
}
