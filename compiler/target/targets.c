/* targets.c -- the chips the compiler knows, one row each, and their matrix instructions.
 * In: a name.  Out: facts.  Sources: CDNA3 and CDNA4 ISA guides; CUDA programming guide's table of compute
 * capabilities (9.0: 227 KB of shared memory for a block); intrinsics as selected by LLVM 22; unaligned: Linux's kfd_device_queue_manager_v9.c,
 * which sets SH_MEM_CONFIG's alignment mode so for every process, and LLVM's feature unaligned-access-mode of amdhsa. */
#include "../compile.h"
#include "mfma.h"

#include <string.h>

/* A: lane % 16 is the row, lane / 16 picks k; B alike with columns; D: rows 4 * (lane / 16) + register, column lane % 16. */
static const struct mfma_map mfma_16x16 = {
	.reg = {{'r', 1}, {'r', 2}}, .lane = {{'c', 1}, {'c', 2}, {'c', 4}, {'c', 8}, {'r', 4}, {'r', 8}}, .operand = "ffffkk",
};

static const struct mfma gfx942_mfma[] = {
	{DT_BF16, DT_BF16, 16, 16, 16, 4, 1, MFMA_V4I16, "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", &mfma_16x16, 0},
	{DT_F16, DT_F16, 16, 16, 16, 4, 1, MFMA_V4F16, "llvm.amdgcn.mfma.f32.16x16x16f16", &mfma_16x16, 0},
	{DT_E4M3FNUZ, DT_E4M3FNUZ, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", &mfma_16x16, 0},
	{DT_E4M3FNUZ, DT_E5M2FNUZ, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8", &mfma_16x16, 0},
	{DT_E5M2FNUZ, DT_E4M3FNUZ, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.fp8", &mfma_16x16, 0},
	{DT_E5M2FNUZ, DT_E5M2FNUZ, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8", &mfma_16x16, 0},
	{DT_I8, DT_I8, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.i32.16x16x32.i8", &mfma_16x16, 0},
	{DT_F32, DT_F32, 16, 16, 4, 1, 1, MFMA_F32, "llvm.amdgcn.mfma.f32.16x16x4f32", &mfma_16x16, 0},
};

#define F8F6F4(a, b, k, runs) {DT_##a, DT_##b, 16, 16, k, 16, runs, MFMA_WORDS, "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", &mfma_16x16, k / 4}

static const struct mfma gfx950_mfma[] = {
	F8F6F4(E4M3, E4M3, 128, 2), F8F6F4(E4M3, E5M2, 128, 2), F8F6F4(E5M2, E4M3, 128, 2), F8F6F4(E5M2, E5M2, 128, 2), F8F6F4(U8, U8, 64, 1),
	{DT_I8, DT_I8, 16, 16, 64, 16, 1, MFMA_WORDS, "llvm.amdgcn.mfma.i32.16x16x64.i8", &mfma_16x16, 0},
	{DT_BF16, DT_BF16, 16, 16, 32, 8, 1, MFMA_V8BF16, "llvm.amdgcn.mfma.f32.16x16x32.bf16", &mfma_16x16, 0},
	{DT_F16, DT_F16, 16, 16, 32, 8, 1, MFMA_V8F16, "llvm.amdgcn.mfma.f32.16x16x32.f16", &mfma_16x16, 0},
	{DT_E4M3, DT_E4M3, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", &mfma_16x16, 0},
	{DT_E4M3, DT_E5M2, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8", &mfma_16x16, 0},
	{DT_E5M2, DT_E4M3, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.fp8", &mfma_16x16, 0},
	{DT_E5M2, DT_E5M2, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8", &mfma_16x16, 0},
	{DT_I8, DT_I8, 16, 16, 32, 8, 1, MFMA_I64, "llvm.amdgcn.mfma.i32.16x16x32.i8", &mfma_16x16, 0},
	{DT_F32, DT_F32, 16, 16, 4, 1, 1, MFMA_F32, "llvm.amdgcn.mfma.f32.16x16x4f32", &mfma_16x16, 0},
};

/* The instruction's own columns are the rows here, and its A the operand of the columns: so a product lies as the A of the next one.
 * Own A: lane / 4 is the row, and 8 more in a register; lane % 4 picks k.  Own D: row lane / 4 and 8 more, columns 2 * (lane % 4) and 1 more. */
static const struct mfma_map mma_8x16 = {
	.reg = {{'r', 1}, {'c', 8}}, .lane = {{'r', 2}, {'r', 4}, {'c', 1}, {'c', 2}, {'c', 4}}, .operand = "kkfff",
};

static const struct mfma sm90_mma[] = {
	{DT_BF16, DT_BF16, 8, 16, 16, 4, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k16.row.col.bf16", &mma_8x16, 0},
	{DT_F16, DT_F16, 8, 16, 16, 4, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k16.row.col.f32.f32", &mma_8x16, 0},
	{DT_E4M3, DT_E4M3, 8, 16, 32, 8, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", &mma_8x16, 0},
	{DT_E4M3, DT_E5M2, 8, 16, 32, 8, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k32.row.col.f32.e5m2.e4m3.f32", &mma_8x16, 0},
	{DT_E5M2, DT_E4M3, 8, 16, 32, 8, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e5m2.f32", &mma_8x16, 0},
	{DT_E5M2, DT_E5M2, 8, 16, 32, 8, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k32.row.col.f32.e5m2.e5m2.f32", &mma_8x16, 0},
	{DT_I8, DT_I8, 8, 16, 32, 8, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k32.row.col.s8", &mma_8x16, 0},
	{DT_F32, DT_F32, 8, 16, 8, 2, 1, MFMA_WORDS, "llvm.nvvm.mma.m16n8k8.row.col.tf32", &mma_8x16, 0},
};

/* wgmma: its k are 32 bytes (PTX ISA, "Asynchronous warpgroup level matrix multiply-accumulate instructions"). */
static const struct quad sm90_quads[] = {
	{DT_BF16, DT_BF16, 16, "f32.bf16.bf16"},
	{DT_F16, DT_F16, 16, "f32.f16.f16"},
};

#define ROWS(t) .mfma = t, .nmfma = sizeof t / sizeof *t

static const struct target targets[] = {
	{
		.name = "gfx942", .triple = "amdgcn-amd-amdhsa", .cpu = "gfx942", .features = "",
		.wave = 64, .registers = 131072, .lds_bytes = 65536, .lds_banks = 32, .lds_wide_banks = 32, .lds_fours = {0, 5, 1, 4, 2, 7, 3, 6}, .max_threads = 1024,
		.few_threads = 256, .vectors = 1, .tile_threads = 1024, .turned = {128, 64, 32}, .turned_single = {128, 64, 32}, .multiprocessors = 304, .added_threads = 256, .added_parts = 4,
		.unaligned = true, .reads_ahead = true, .f32_pairs = true, .three_extremes = true, .fp8_fnuz = true, .mode_clamps = true, ROWS(gfx942_mfma),
	},
	{
		.name = "gfx950", .triple = "amdgcn-amd-amdhsa", .cpu = "gfx950", .features = "",
		.wave = 64, .registers = 131072, .lds_bytes = 163840, .lds_banks = 32, .lds_wide_banks = 64, .lds_fours = {0, 3, 5, 6, 1, 2, 4, 7}, .max_threads = 1024,
		.few_threads = 256, .vectors = 1, .tile_threads = 1024, .turned = {128, 64, 32}, .turned_single = {128, 64, 32}, .multiprocessors = 256, .added_threads = 256, .added_parts = 4,
		.unaligned = true, .reads_ahead = true, .f32_pairs = true, .three_extremes = true, .cvt_pk_bf16 = true, .cvt_pk_fp4 = true, .mode_clamps = true, ROWS(gfx950_mfma),
	},
	{
		.name = "sm_90a", .triple = "nvptx64-nvidia-cuda", .cpu = "sm_90a", .features = "+ptx84",
		.wave = 32, .registers = 65536, .lds_bytes = 232448, .lds_banks = 32, .lds_wide_banks = 32, .max_threads = 1024,
		.few_threads = 128, .vectors = 2, .tile_threads = 256, .turned = {256, 64, 32}, .turned_few = {64, 64, 16},
		.turned_single = {32, 256, 32}, .turned_few_single = {32, 64, 16}, .turned_narrow_single = {64, 64, 32}, .ahead_bytes = 6 << 20, .line_ahead_bytes = 4 << 20, .l2_bytes = 50 << 20,
		.early_bytes = 4 << 20, .early_counted = 1 << 20, .gap_workgroups = 8192, .counted_workgroups = 2048, .counted_least = 1056, .resident_threads = 2048, .multiprocessors = 132, .added_threads = 256, .added_parts = 16, .cluster = 16, .line_bytes = 8192, .joins = true, .stored_first = true, .fast_memory = 4000, .sideways = true,
		.few_rows = true, .whole_chunks = true, .more_variants = true, .widens_again = true, .late_weights = true, .staged_bytes = 96 << 10, .ring_bytes = 216 << 10, .late_stores = true, .whole_runs = true, .cvt_pk_bf16 = true,
		.lanes_adjacent = true, .lanes_share = true, .cvt8_clamps = true, ROWS(sm90_mma), .quads = sm90_quads, .nquads = sizeof sm90_quads / sizeof *sm90_quads,
	},
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

const struct mfma *target_mfma(const struct target *t, enum dtype a, enum dtype b, int k)
{
	const struct mfma *shortest = NULL;
	for (int i = 0; i < t->nmfma; i++) {
		const struct mfma *m = &t->mfma[i];
		if (m->a != a || m->b != b)
			continue;
		if (k && k % m->k == 0)
			return m;
		shortest = !shortest || m->k < shortest->k ? m : shortest;
	}
	return shortest;
}

const struct quad *target_quad(const struct target *t, enum dtype a, enum dtype b)
{
	for (int i = 0; i < t->nquads; i++)
		if (t->quads[i].a == a && t->quads[i].b == b)
			return &t->quads[i];
	return NULL;
}

int mfma_k_bits(const struct mfma *m)
{
	int n = 0;
	for (const char *c = m->map->operand; *c; c++)
		n += *c == 'k';
	return n;
}

int mfma_lane_positions(const struct mfma *m)
{
	return 1 << ((int)strlen(m->map->operand) - mfma_k_bits(m));
}
