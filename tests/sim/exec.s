; Kernels of one instruction (or a few) each, for sim_exec_test.c, which appends `BEGIN name`, instructions,
; `END name`, and the metadata.  Arguments: in, out.  A wave of 64 lanes loads 58 dwords a lane into v8..v65 (dword d of lane l from
; in[64 * d + l]), runs the instructions, and stores v[66..97] to out in the same order.  s[4:5] points to `in`, s[6:7] to
; `out`, s[8:11] is a raw buffer descriptor of 1000 bytes at `in`, v0 is the lane, v1 is 4 * lane.
.macro BEGIN name
	.text
	.globl \name
	.p2align 8
	.type \name,@function
\name:
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_waitcnt lgkmcnt(0)
	s_mov_b64 s[12:13], s[4:5]
	s_mov_b64 s[8:9], s[4:5]
	s_and_b32 s9, s9, 0xffff
	s_movk_i32 s10, 1000
	s_mov_b32 s11, 0x27000
	.set r, 8
	.rept 58
	global_load_dword v[r], v1, s[12:13]
	s_add_u32 s12, s12, 256
	s_addc_u32 s13, s13, 0
	.set r, r+1
	.endr
	.rept 32
	v_mov_b32_e32 v[r], 0
	.set r, r+1
	.endr
	s_waitcnt vmcnt(0)
	.endm

.macro END name
	s_mov_b64 exec, -1
	s_mov_b64 s[12:13], s[6:7]
	s_waitcnt lgkmcnt(0)
	.set r, 66
	.rept 32
	global_store_dword v1, v[r], s[12:13]
	s_add_u32 s12, s12, 256
	s_addc_u32 s13, s13, 0
	.set r, r+1
	.endr
	s_endpgm
	.size \name, .-\name
	.section .rodata,"a"
	.p2align 6
	.amdhsa_kernel \name
		.amdhsa_kernarg_size 16
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 256
		.amdhsa_next_free_sgpr 40
		.amdhsa_accum_offset 128
		.amdhsa_group_segment_fixed_size 16384
		.amdhsa_private_segment_fixed_size 64
		.amdhsa_float_denorm_mode_32 3
	.end_amdhsa_kernel
.endm
