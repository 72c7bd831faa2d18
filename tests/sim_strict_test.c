/* sim_strict_test.c -- what each check of the simulated device must report, and what it must let pass.
 *
 * In: a few lines of assembler a case, run by a workgroup of two waves (or two workgroups) under every check.  Out: a part
 * of the report, or none.  At the start of each: s[4:5] points to `in` (read only), s[6:7] to `out`, s8 is the workgroup, v1
 * is 4 * lane of the workgroup, v2 is the wave, v3 = 0. */
#include "../sim/sim.h"
#include "sim_build.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 65536, ON_GFX950 = 16 };

/* Lane 0 counts workgroups behind the data; all but the second of two jump to 1. */
#define COUNT "v_mov_b32 v6, 1\n v_cmp_eq_u32 vcc, 0, v1\n s_and_saveexec_b64 s[22:23], vcc\n global_atomic_add v5, v3, v6, s[6:7] offset:2048 sc0\n" \
	"s_waitcnt vmcnt(0)\n s_mov_b64 exec, s[22:23]\n v_readfirstlane_b32 s21, v5\n s_bitcmp1_b32 s21, 0\n s_cbranch_scc0 1f\n"

#define ZEROS "v_mov_b64 v[10:11], 0\n v_mov_b64 v[12:13], 0\n s_nop 4\n"
#define XDL "v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], v[12:13], 0\n"
#define BLOCKS(c) "v_mfma_f64_4x4x4_4b_f64 v[20:21], v[10:11], v[12:13], " c "\n"
#define DOUBLE(d, a) "v_mfma_f64_16x16x4_f64 " d ", " a ", v[12:13], 0\n"
/* s[12:15]: 4096 records or bytes of `out`. */
#define BUFFER(word1, word3) "v_mov_b64 v[4:5], 0\n s_mov_b32 s12, s6\n s_and_b32 s13, s7, 0xffff\n s_or_b32 s13, s13, " word1 "\n s_movk_i32 s14, 0x1000\n s_mov_b32 s15, " word3 "\n"

/* Four times over the same LDS; `wait` and `barrier` come after the loads, UNTIL_2 stands for something the third time goes without. */
#define UNTIL_2(what) "s_cmp_eq_u32 s20, 2\n s_cbranch_scc1 2f\n " what "\n 2:\n"
#define LOOP(data, wait, barrier) "s_mov_b32 s20, 0\n v_xor_b32 v5, 0x100, v1\n v_mov_b32 v6, v1\n 1:\n " data "ds_write_b32 v1, v6\n s_waitcnt lgkmcnt(0)\n s_barrier\n" \
	"ds_read_b32 v4, v5\n" wait barrier "s_add_u32 s20, s20, 1\n s_cmp_lt_u32 s20, 4\n s_cbranch_scc1 1b\n s_waitcnt lgkmcnt(0)\n global_store_dword v1, v4, s[6:7]"
#define WAIT "s_waitcnt lgkmcnt(0)\n"

/* workgroups: one or two; ON_GFX950 more where the case is for that chip, the others run on gfx942. */
static const struct { const char *name, *code, *report; int workgroups; } cases[] = {
	{"a load that was waited for", "global_load_dword v4, v1, s[4:5]\n s_waitcnt vmcnt(0)\n global_store_dword v1, v4, s[6:7]", NULL, 1},
	{"a load in flight is read", "global_load_dword v4, v1, s[4:5]\n v_add_u32 v5, v4, v1", "reads v4, which global_load_dword", 1},
	{"a wait that is too weak", "global_load_dword v4, v1, s[4:5]\n global_load_dword v5, v1, s[4:5]\n s_waitcnt vmcnt(1)\n v_mov_b32 v6, v5",
		"needs s_waitcnt vmcnt(0)", 1},
	{"a wait that is just enough", "global_load_dword v4, v1, s[4:5]\n global_load_dword v5, v1, s[4:5]\n s_waitcnt vmcnt(1)\n v_mov_b32 v6, v4", NULL, 1},
	{"a load in flight is overwritten", "global_load_dword v4, v1, s[4:5]\n v_mov_b32 v4, 0", "overwrites v4", 1},
	{"scalar loads return in any order", "s_load_dword s20, s[4:5], 0x0\n s_load_dword s21, s[4:5], 0x4\n s_waitcnt lgkmcnt(1)\n s_mov_b32 s22, s20",
		"reads s20, which s_load_dword", 1},
	{"stores count", "global_load_dword v4, v1, s[4:5]\n global_store_dword v1, v1, s[6:7]\n s_waitcnt vmcnt(1)\n v_mov_b32 v5, v4", NULL, 1},
	{"an LDS load in flight", "ds_write_b32 v1, v1\n ds_read_b32 v4, v1\n v_mov_b32 v5, v4", "reads v4, which ds_read_b32", 1},
	{"undefined data is stored", "v_add_u32 v5, v9, v1\n global_store_dword v1, v5, s[6:7]", "the data stored depends on", 1},
	{"undefined values that go nowhere", "v_add_u32 v5, v9, v1\n v_mov_b32 v6, v5\n v_mov_b32 v5, 0\n global_store_dword v1, v5, s[6:7]", NULL, 1},
	{"an undefined half that is masked out", "v_mov_b32 v9, 1\n v_and_b32 v5, 0xffff, v9\n v_lshlrev_b32 v6, 16, v10\n v_lshl_or_b32 v6, v10, 16, v5\n"
		"v_and_b32 v6, 0xffff, v6\n global_store_dword v1, v6, s[6:7]", NULL, 1},
	{"a product is added to a number whose upper half is undefined", "v_mov_b32 v10, v1\n v_mad_u64_u32 v[12:13], s[20:21], v1, v2, v[10:11]\n"
		"v_lshl_add_u64 v[14:15], v[12:13], 2, v[12:13]\n v_lshlrev_b64 v[14:15], 3, v[14:15]\n global_store_dword v1, v14, s[6:7]", NULL, 1},
	{".. and the upper half of the sum stored", "v_mov_b32 v10, v1\n v_mad_u64_u32 v[12:13], s[20:21], v1, v2, v[10:11]\n global_store_dword v1, v13, s[6:7]",
		"the data stored", 1},
	{"a product is added to an undefined number", "v_mov_b32 v11, v1\n v_mad_u64_u32 v[12:13], s[20:21], v1, v2, v[10:11]\n global_store_dword v1, v12, s[6:7]",
		"the data stored", 1},
	{"the carry of such a sum", "v_mov_b32 v10, v1\n v_mad_u64_u32 v[12:13], vcc, v1, v2, v[10:11]\n s_cbranch_vccz 1f\n 1:", "the branch depends on", 1},
	{"the upper half of a shifted number is undefined", "v_mov_b32 v10, v1\n v_lshlrev_b64 v[12:13], 3, v[10:11]\n global_store_dword v1, v13, s[6:7]", "the data stored", 1},
	{"the lower half of a number is shifted out", "v_mov_b32 v11, v1\n v_lshrrev_b64 v[12:13], 32, v[10:11]\n v_ashrrev_i64 v[14:15], 33, v[10:11]\n"
		"global_store_dword v1, v12, s[6:7]\n global_store_dword v1, v13, s[6:7]\n global_store_dword v1, v14, s[6:7]\n global_store_dword v1, v15, s[6:7]", NULL, 1},
	{".. but not all of it", "v_mov_b32 v11, v1\n v_lshrrev_b64 v[12:13], 31, v[10:11]\n global_store_dword v1, v12, s[6:7]", "the data stored", 1},
	{"the upper half of a double behind a constant is undefined", "v_mov_b32 v10, v1\n v_mul_f64 v[12:13], 0.5, v[10:11]\n global_store_dword v1, v12, s[6:7]", "the data stored", 1},
	{"the upper half of a scalar double is undefined", "s_mov_b32 s20, s8\n v_add_f64 v[12:13], 0.5, s[20:21]\n global_store_dword v1, v12, s[6:7]", "the data stored", 1},
	{"a shift by an undefined number", "v_lshlrev_b32 v5, s30, v1\n global_store_dword v1, v5, s[6:7]", "the data stored", 1},
	{"the undefined half of a scalar is shifted out", "s_mov_b32 s20, s8\n s_lshl_b64 s[22:23], s[20:21], 32\n s_cmp_eq_u32 s23, 0\n s_cbranch_scc1 1f\n"
		"s_mov_b32 s25, s8\n s_lshr_b64 s[22:23], s[24:25], 32\n s_cmp_eq_u32 s22, s23\n s_cbranch_scc1 1f\n 1:", NULL, 1},
	{".. but not all of it in scalars", "s_mov_b32 s25, s8\n s_ashr_i64 s[22:23], s[24:25], 31\n s_cmp_eq_u32 s22, 0\n s_cbranch_scc1 1f\n 1:", "the branch depends on", 1},
	{"an undefined address", "v_mov_b32 v5, v9\n global_store_dword v5, v1, s[6:7]", "the address depends on", 1},
	{"an undefined branch", "s_cmp_eq_u32 s30, 0\n s_cbranch_scc1 1f\n 1:", "the branch depends on", 1},
	{"undefined EXEC", "v_cmp_lt_u32 vcc, v9, v1\n s_and_saveexec_b64 s[20:21], vcc", "EXEC depends on", 1},
	{"LDS that was never written", "ds_read_b32 v4, v1\n s_waitcnt lgkmcnt(0)\n global_store_dword v1, v4, s[6:7]", "never written", 1},
	{"a barrier between the waves", "ds_write_b32 v1, v1\n s_waitcnt lgkmcnt(0)\n s_barrier\n v_xor_b32 v5, 0x100, v1\n ds_read_b32 v4, v5\n"
		"s_waitcnt lgkmcnt(0)\n global_store_dword v1, v4, s[6:7]", NULL, 1},
	{"no barrier", "ds_write_b32 v1, v1\n s_waitcnt lgkmcnt(0)\n v_xor_b32 v5, 0x100, v1\n ds_read_b32 v4, v5\n s_waitcnt lgkmcnt(0)",
		"with no s_waitcnt and s_barrier between", 1},
	{"a write still in flight at the barrier", "ds_write_b32 v1, v1\n s_barrier\n v_xor_b32 v5, 0x100, v1\n ds_read_b32 v4, v5\n s_waitcnt lgkmcnt(0)",
		"by ds_write_b32", 1},
	{"a read still in flight at the barrier", "ds_write_b32 v1, v1\n s_waitcnt lgkmcnt(0)\n s_barrier\n ds_read_b32 v4, v1\n s_barrier\n"
		"v_xor_b32 v5, 0x100, v1\n ds_write_b32 v5, v1\n s_waitcnt lgkmcnt(0)", "by ds_read_b32", 1},
	{"the same LDS again and again", LOOP("", WAIT, "s_barrier\n"), NULL, 1},
	{".. once without the barrier after the loads", LOOP("", WAIT, UNTIL_2("s_barrier")), "with no s_waitcnt and s_barrier between", 1},
	{".. once with loads still in flight at it", LOOP("", UNTIL_2("s_waitcnt lgkmcnt(0)"), "s_barrier\n"), "by ds_read_b32", 1},
	{".. once with a byte written beside the loads", LOOP("", WAIT "s_cmp_lg_u32 s20, 2\n s_cbranch_scc1 2f\n ds_write_b8 v1, v1 offset:1\n 2:\n" WAIT, "s_barrier\n"),
		"with no s_waitcnt and s_barrier between", 1},
	{".. the last time with undefined data", LOOP("s_cmp_lg_u32 s20, 3\n s_cbranch_scc1 2f\n v_mov_b32 v6, v9\n 2:\n", WAIT, "s_barrier\n"), "the data stored", 1},
	{"LDS behind its end", "v_mov_b32 v4, 0x1000\n ds_write_b32 v4, v1", "LDS access of 4 bytes at 4096, the workgroup has 4096", 1},
	{".. by half of a pair", "v_mov_b32 v4, 0xffc\n ds_write_b32 v4, v1\n ds_read_b64 v[6:7], v4", "LDS access of 8 bytes at 4092, the workgroup has 4096", 1},
	{".. through a flat address", "v_mov_b32 v4, 0x1000\n v_mov_b32 v5, 0x10000\n flat_store_dword v[4:5], v1", "LDS access of 4 bytes at 4096, the workgroup has 4096", 1},
	{"scratch that the kernel does not have", "scratch_store_dword off, v1, off offset:4", "scratch access of 4 bytes at 4, a lane has 0", 1},
	{"memory behind its end", "global_load_dword v4, v1, s[4:5] offset:4092\n s_mov_b64 s[12:13], s[4:5]\n s_add_u32 s12, s12, 0x10000\n s_addc_u32 s13, s13, 0\n"
		"s_nop 4\n global_load_dword v4, v1, s[12:13]\n s_waitcnt vmcnt(0)", "past the end of 'in' (65536 bytes)", 1},
	{"two waves write one byte each", "v_mov_b32 v4, v2\n ds_write_b8 v4, v1\n s_waitcnt lgkmcnt(0)", NULL, 1},
	{"two waves write the same dword", "ds_write_b32 v3, v3\n s_waitcnt lgkmcnt(0)", "writes LDS bytes 0..3", 1},
	{"a barrier that one wave skips", "v_readfirstlane_b32 s20, v2\n s_cmp_eq_u32 s20, 0\n s_cbranch_scc1 1f\n s_barrier\n 1:", "has ended without reaching it", 1},
	{"a kernel without end", "1:\n s_branch 1b", "the wave does not end", 1},
	{"a copy to LDS in flight", "s_mov_b32 m0, 0\n s_mov_b64 s[12:13], s[4:5]\n s_and_b32 s13, s13, 0xffff\n s_mov_b32 s14, 0x1000\n s_mov_b32 s15, 0x27000\n"
		"v_readfirstlane_b32 s20, v2\n s_lshl_b32 s20, s20, 8\n s_mov_b32 m0, s20\n s_nop 0\n buffer_load_dword v1, s[12:15], 0 offen lds\n ds_read_b32 v4, v1",
		"an s_waitcnt is missing", 1},
	{"two workgroups write one dword", "global_store_dword v3, v3, s[6:7]", "nothing orders the two", 2},
	{"two waves write one dword", "global_store_dword v3, v3, s[6:7]", "nothing orders the two", 1},
	{"two workgroups add to one dword", "global_atomic_add v3, v1, s[6:7]", NULL, 2},
	{".. and read it past their caches", "global_atomic_add v3, v1, s[6:7]\n global_load_dword v5, v3, s[6:7] sc1\n s_waitcnt vmcnt(0)", NULL, 2},
	{".. or from them", "global_atomic_add v3, v1, s[6:7]\n global_load_dword v5, v3, s[6:7]\n s_waitcnt vmcnt(0)", "nothing orders the two", 2},
	{".. or two at once", "global_atomic_add v3, v1, s[6:7]\n global_load_dwordx2 v[4:5], v3, s[6:7] sc1\n s_waitcnt vmcnt(0)", "nothing orders the two", 2},
	{"two workgroups write what they read past their caches", "global_load_dword v5, v3, s[6:7] sc1\n s_waitcnt vmcnt(0)\n global_store_dword v3, v3, s[6:7]", "nothing orders the two", 2},
	{"one workgroup reads what another writes", "s_lshl_b32 s20, s8, 9\n v_add_u32 v4, s20, v1\n global_store_dword v4, v1, s[6:7]\n s_waitcnt vmcnt(0)\n"
		"v_xor_b32 v4, 0x200, v4\n global_load_dword v5, v4, s[6:7]\n s_waitcnt vmcnt(0)", "nothing orders the two", 2},
	{"the last of two workgroups reads, released and acquired", "s_lshl_b32 s20, s8, 9\n v_add_u32 v4, s20, v1\n global_store_dword v4, v1, s[6:7]\n"
		"s_waitcnt vmcnt(0)\n buffer_wbl2 sc1\n s_waitcnt vmcnt(0)\n" COUNT "buffer_inv sc1\n v_xor_b32 v4, 0x200, v4\n"
		"global_load_dword v5, v4, s[6:7]\n s_waitcnt vmcnt(0)\n 1:", NULL, 2},
	{"the same with its cache kept", "s_lshl_b32 s20, s8, 9\n v_add_u32 v4, s20, v1\n global_store_dword v4, v1, s[6:7]\n"
		"s_waitcnt vmcnt(0)\n buffer_wbl2 sc1\n s_waitcnt vmcnt(0)\n" COUNT "v_xor_b32 v4, 0x200, v4\n"
		"global_load_dword v5, v4, s[6:7]\n s_waitcnt vmcnt(0)\n 1:", "nothing orders the two", 2},
	{"a mask too soon", "v_cmp_lt_u32 vcc, v1, v2\n v_cndmask_b32 v4, v1, v2, vcc", "needs 2", 1},
	{"a mask in time", "v_cmp_lt_u32 vcc, v1, v2\n s_nop 1\n v_cndmask_b32 v4, v1, v2, vcc", NULL, 1},
	{"DPP too soon", "v_mov_b32 v4, v1\n v_mov_b32_dpp v5, v4 row_shr:1 row_mask:0xf bank_mask:0xf", "DPP reads", 1},
	{"a scalar register for memory too soon", "v_readfirstlane_b32 s6, v3\n s_nop 3\n global_store_dword v1, v1, s[6:7]", "needs 5", 1},
	{"a lane select too soon", "v_readfirstlane_b32 s20, v2\n s_nop 2\n v_readlane_b32 s21, v1, s20", "needs 4", 1},
	{"a matrix result too soon", "v_mov_b64 v[10:11], 0\n v_mov_b64 v[12:13], 0\n s_nop 4\n v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], v[12:13], 0\n s_nop 5\n"
		"v_mov_b32 v4, v20", "the result of a matrix instruction is read", 1},
	{"a matrix result in time", "v_mov_b64 v[10:11], 0\n v_mov_b64 v[12:13], 0\n s_nop 4\n v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], v[12:13], 0\n s_nop 6\n"
		"v_mov_b32 v4, v20", NULL, 1},
	{"M0 too soon", "s_mov_b64 s[12:13], s[4:5]\n s_and_b32 s13, s13, 0xffff\n s_mov_b32 s14, 0x1000\n s_mov_b32 s15, 0x27000\n s_mov_b32 m0, 0\n"
		"buffer_load_dword v1, s[12:15], 0 offen lds", "writes M0", 1},
	{"one row of a matrix is undefined", "v_mov_b64 v[10:11], 0\n v_mov_b64 v[12:13], 0\n v_cmp_ne_u32 vcc, 20, v1\n s_mov_b64 s[30:31], exec\n s_nop 4\n"
		"v_mov_b32 v10, v14\n v_cndmask_b32 v10, v10, v12, vcc\n s_nop 4\n v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], v[12:13], 0\n s_nop 10\n"
		"global_store_dword v1, v20, s[6:7]\n v_cmp_gt_u32 vcc, 64, v1\n s_and_saveexec_b64 s[30:31], vcc\n global_store_dword v1, v21, s[6:7]", NULL, 1},
	{"a matrix instruction reads a vector result too soon", ZEROS "v_mov_b32 v10, 0\n s_nop 0\n" XDL, "a matrix instruction reads", 1},
	{"... in time", ZEROS "v_mov_b32 v10, 0\n s_nop 1\n" XDL, NULL, 1},
	{"a matrix result in time on gfx942 ..", ZEROS XDL "s_nop 6\n v_mov_b32 v4, v20", NULL, 1},
	{".. is too soon on gfx950", ZEROS XDL "s_nop 6\n v_mov_b32 v4, v20", "needs 8", 1 + ON_GFX950},
	{".. and in time one later", ZEROS XDL "s_nop 7\n v_mov_b32 v4, v20", NULL, 1 + ON_GFX950},
	{"f64 blocks accumulate too soon", ZEROS BLOCKS("0") "s_nop 2\n" BLOCKS("v[20:21]"), "needs 4", 1},
	{"f64 blocks accumulate in time", ZEROS BLOCKS("0") "s_nop 3\n" BLOCKS("v[20:21]"), NULL, 1},
	{"an f64 matrix is multiplied too soon", ZEROS DOUBLE("v[20:27]", "v[10:11]") "s_nop 9\n" DOUBLE("v[28:35]", "v[20:21]"), "needs 11", 1},
	{"an f64 matrix is multiplied in time ..", ZEROS DOUBLE("v[20:27]", "v[10:11]") "s_nop 10\n" DOUBLE("v[28:35]", "v[20:21]"), NULL, 1},
	{".. but not on gfx950", ZEROS DOUBLE("v[20:27]", "v[10:11]") "s_nop 10\n" DOUBLE("v[28:35]", "v[20:21]"), "needs 19", 1 + ON_GFX950},
	{"a fused product of f64 behind a matrix", ZEROS BLOCKS("0") "v_fma_f64 v[30:31], v[10:11], v[10:11], v[12:13]", "needs 2", 1},
	{"a dot product is read too soon", "v_dot2_u32_u16 v4, v1, v1, v1\n s_nop 1\n v_mov_b32 v5, v4", "needs 3", 1},
	{"a dot product accumulates at once", "v_dot2_u32_u16 v4, v1, v1, v1\n v_dot2_u32_u16 v4, v1, v1, v4", NULL, 1},
	{"a store on its way at the barrier", "global_store_dword v1, v1, s[6:7]\n s_barrier\n v_xor_b32 v5, 0x100, v1\n global_load_dword v4, v5, s[6:7]\n s_waitcnt vmcnt(0)",
		"was not complete", 1},
	{"a store that is complete at the barrier", "global_store_dword v1, v1, s[6:7]\n s_waitcnt vmcnt(0)\n s_barrier\n v_xor_b32 v5, 0x100, v1\n"
		"global_load_dword v4, v5, s[6:7]\n s_waitcnt vmcnt(0)", NULL, 1},
	{"two workgroups update half of a dword each", "s_lshl_b32 s20, s8, 1\n v_mov_b32 v4, s20\n global_load_ushort v5, v4, s[6:7]\n s_waitcnt vmcnt(0)\n"
		"global_store_short v4, v5, s[6:7]", NULL, 2},
	{"one of them reads both halves", "s_lshl_b32 s20, s8, 1\n v_mov_b32 v4, s20\n global_load_ushort v5, v3, s[6:7]\n global_load_ushort v6, v3, s[6:7] offset:2\n"
		"s_waitcnt vmcnt(0)\n global_store_short v4, v5, s[6:7]", "nothing orders the two", 2},
	{"LDS through flat addresses", "v_mov_b32 v4, v1\n v_mov_b32 v5, 0x10000\n flat_store_dword v[4:5], v1\n s_waitcnt vmcnt(0) lgkmcnt(0)\n v_xor_b32 v6, 0x100, v1\n"
		"ds_read_b32 v7, v6\n s_waitcnt lgkmcnt(0)", "flat_store_dword", 1},
	{"memory through flat addresses", "v_mov_b32 v4, s6\n v_mov_b32 v5, s7\n flat_store_dword v[4:5], v3", "nothing orders the two", 1},
	{"a swizzled buffer", BUFFER("0x80100000", "0x00027000") "buffer_store_dwordx2 v[4:5], v3, s[12:15], 0 idxen", "nothing orders the two", 1},
	{"a typed buffer", BUFFER("0", "0x00027000") "tbuffer_store_format_xy v[4:5], v3, s[12:15], 0 format:[BUF_DATA_FORMAT_16_16,BUF_NUM_FORMAT_UINT] offen",
		"nothing orders the two", 1},
	{"... and is stored", "v_mov_b64 v[10:11], 0\n v_mov_b64 v[12:13], 0\n v_mov_b32 v10, v14\n s_nop 4\n"
		"v_mfma_f32_16x16x16_f16 v[20:23], v[10:11], v[12:13], 0\n s_nop 10\n global_store_dword v1, v21, s[6:7]", "the data stored", 1},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct sim_object *objects[2];
static struct sim_memory *memory;
static uint8_t *in, *out;
static char err[1200];

static const char head[] =
	".macro BEGIN name\n .text\n .globl \\name\n .p2align 8\n .type \\name,@function\n\\name:\n s_load_dwordx4 s[4:7], s[0:1], 0x0\n"
	" s_mov_b32 s8, s2\n v_lshlrev_b32 v1, 2, v0\n v_lshrrev_b32 v2, 6, v0\n v_mov_b32 v3, 0\n s_waitcnt lgkmcnt(0)\n.endm\n"
	".macro END name\n s_endpgm\n .size \\name, .-\\name\n .section .rodata,\"a\"\n .p2align 6\n .amdhsa_kernel \\name\n .amdhsa_kernarg_size 16\n"
	" .amdhsa_user_sgpr_kernarg_segment_ptr 1\n .amdhsa_next_free_vgpr 64\n .amdhsa_next_free_sgpr 40\n .amdhsa_accum_offset 64\n"
	" .amdhsa_group_segment_fixed_size 4096\n .end_amdhsa_kernel\n.endm\n";

static void build_for(int chip)
{
	static const char *const names[] = {"gfx942", "gfx950"};
	size_t room = 1 << 17, n = 0, size;
	char *text = malloc(room);
	n += (size_t)snprintf(text + n, room - n, "%s", head);
	for (int i = 0; i < CASES; i++)
		n += (size_t)snprintf(text + n, room - n, "BEGIN t%d\n %s\nEND t%d\n", i, (cases[i].workgroups >= ON_GFX950) == chip ? cases[i].code : "", i);
	n += (size_t)snprintf(text + n, room - n, ".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.target: amdgcn-amd-amdhsa--%s\namdhsa.kernels:\n", names[chip]);
	for (int i = 0; i < CASES; i++)
		n += (size_t)snprintf(text + n, room - n,
			"  - {.name: t%d, .symbol: t%d.kd, .kernarg_segment_size: 16, .group_segment_fixed_size: 4096, .private_segment_fixed_size: 0, "
			".kernarg_segment_align: 8, .wavefront_size: 64, .sgpr_count: 46, .vgpr_count: 64, .max_flat_workgroup_size: 1024, "
			".args: [{.size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}, "
			"{.size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}]}\n", i, i);
	snprintf(text + n, room - n, "...\n.end_amdgpu_metadata\n");
	uint8_t *bytes = sim_build_asm(text, names[chip], &size);
	ck_assert_msg(sim_object_load(&objects[chip], sim_chip_by_name(names[chip]), bytes, size, err, sizeof err) == SIM_OK, "%s", err);
	free(bytes);
	free(text);
}

static void build(void)
{
	build_for(0);
	build_for(1);
	in = calloc(1, BYTES);
	out = calloc(1, BYTES);
	memory = sim_memory_new();
	sim_memory_add(memory, in, BYTES, "in", false);
	sim_memory_add(memory, out, BYTES, "out", true);
}

static void discard(void)
{
	sim_object_free(objects[0]);
	sim_object_free(objects[1]);
	sim_memory_free(memory);
	free(in);
	free(out);
}

static int run(int i, bool checks, uint64_t seed)
{
	char name[16];
	const void *args[8] = {in, out};
	snprintf(name, sizeof name, "t%d", i);
	struct sim_object *object = objects[cases[i].workgroups >= ON_GFX950];
	struct sim_launch l = {.object = object, .kernel = sim_object_kernel(object, name), .memory = memory, .grid = {(uint32_t)cases[i].workgroups % ON_GFX950, 1, 1},
		.block = {cases[i].workgroups == 2 ? 64 : 128, 1, 1}, .kernarg = args, .kernarg_size = sizeof args, .threads = 1, .seed = seed,
		.checks = checks, .max_inst = 10000};
	return sim_run(&l, err, sizeof err);
}

START_TEST(reports)
{
	for (uint64_t seed = 0; seed < 4; seed++) {
		err[0] = 0;
		int rc = run(_i, true, seed);
		if (!cases[_i].report)
			ck_assert_msg(rc == SIM_OK, "%s, seed %d: %s", cases[_i].name, (int)seed, err);
		else
			ck_assert_msg(rc != SIM_OK && strstr(err, cases[_i].report), "%s, seed %d: %d '%s'", cases[_i].name, (int)seed, rc, err);
	}
}
END_TEST

START_TEST(a_seed_repeats_its_run)
{
	char first[sizeof err];
	for (int i = 0; i < CASES; i++)
		for (uint64_t seed = 1; seed < 6; seed++) {
			err[0] = 0;
			int rc = run(i, true, seed);
			memcpy(first, err, sizeof err);
			err[0] = 0;
			ck_assert_int_eq(run(i, true, seed), rc);
			ck_assert_str_eq(err, first);
		}
}
END_TEST

START_TEST(without_checks_only_bounds_and_hangs_are_reported)
{
	for (int i = 0; i < CASES; i++) {
		bool hang = cases[i].report && strstr(cases[i].report, "does not end");
		bool bounds = cases[i].report && (strstr(cases[i].report, " has ") || strstr(cases[i].report, "past the end")) && !strstr(cases[i].report, "has ended");
		bool fault = bounds || (cases[i].report && (strstr(cases[i].report, "address") || strstr(cases[i].report, "needs 5"))); /* they lie outside every allocation */
		ck_assert_msg((run(i, false, 0) == SIM_OK) == !(hang || fault), "%s: %s", cases[i].name, err);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("strictness");
	TCase *c = tcase_create("checks");
	tcase_set_timeout(c, 60);
	tcase_add_unchecked_fixture(c, build, discard);
	tcase_add_loop_test(c, reports, 0, CASES);
	tcase_add_test(c, a_seed_repeats_its_run);
	tcase_add_test(c, without_checks_only_bounds_and_hangs_are_reported);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
