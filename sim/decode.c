/* decode.c -- words to struct sim_inst, by the rows of inst.def; and the cache of decoded code.
 *
 * In: up to four words and the chip.  Out: the instruction with operands resolved: registers as indices into the unified
 * file, constants as values of the operand's type, modifiers as fields.  One function per word format; the opcode tables
 * are arrays indexed by opcode, filled from inst.def at compile time.  A kernel's code is decoded slot by slot when a wave
 * first reaches it: padding and data between functions are never looked at, and nothing is decoded twice. */
#include "exec.h"

#include <pthread.h>
#include <stdlib.h>

static const uint16_t by_opcode[ENC_COUNT][1024] = {
#define I(enc, opcode, name, chips, family, operands, n) [ENC_##enc][opcode] = OP_##name,
#include "inst.def"
#undef I
};

static const struct row {
	const char *name, *operands;
	void (*exec)(struct sim_wave *, const struct sim_inst *);
	uint8_t chips, n;
} rows[OP_COUNT] = {
#define I(enc, opcode, name, chips, family, operands, n) [OP_##name] = {#name, operands, exec_##family, chips, n},
#include "inst.def"
#undef I
};

const char *sim_op_name(unsigned op)
{
	return op > OP_NONE && op < OP_COUNT ? rows[op].name : "?";
}

struct words {
	const uint32_t *w;
	int n, used;          /* used: dwords of the format itself, a literal follows them */
	bool literal;
	uint32_t accum;
};

static uint32_t bits(uint32_t w, int hi, int lo)
{
	return w >> lo & (uint32_t)((UINT64_C(1) << (hi - lo + 1)) - 1);
}

/* The inline constants 240..248 in the three widths; 248 is 1/(2 pi). */
static uint64_t inline_float(unsigned code, char type)
{
	static const uint32_t f32[] = {0x3f000000, 0xbf000000, 0x3f800000, 0xbf800000, 0x40000000, 0xc0000000, 0x40800000, 0xc0800000, 0x3e22f983};
	static const uint16_t f16[] = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118};
	static const uint64_t f64[] = {0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000, 0xbff0000000000000,
		0x4000000000000000, 0xc000000000000000, 0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};
	switch (type) {
	case 'h': case 'p': return f16[code - 240];
	case 'd': case 'l': return f64[code - 240];
	default: return f32[code - 240];
	}
}

/* A source code of 9 bits (8 for scalar formats). */
static bool source(struct words *s, struct sim_src *src, unsigned code, char type)
{
	src->type = (uint8_t)type;
	if (code >= 256) {
		src->kind = SRC_VGPR;
		src->reg = (uint16_t)(code - 256);
	} else if (code < 128) {
		src->kind = SRC_SGPR;
		src->reg = (uint16_t)code;
	} else if (code <= 208) {
		src->kind = SRC_CONST;
		int v = code <= 192 ? (int)code - 128 : 192 - (int)code;
		src->value = (uint64_t)(int64_t)v;
	} else if (code >= 240 && code <= 248) {
		src->kind = SRC_CONST;
		src->value = inline_float(code, type);
	} else if (code == 255) {
		if (s->used >= s->n)
			return false;
		src->kind = SRC_CONST;
		src->value = s->w[s->used];
		if (type == 'd')
			src->value <<= 32;
		s->literal = true;
	} else if (code == 230 || code == 231 || (code >= 235 && code <= 239) || (code >= 251 && code <= 254)) {
		src->kind = SRC_STATUS;
		src->reg = (uint16_t)code;
	} else {
		return false;
	}
	return true;
}

static void sources_of(struct sim_inst *in, const char **letters)
{
	const char *colon = strchr(rows[in->op].operands, ':');
	in->dtype = colon ? (uint8_t)rows[in->op].operands[0] : 0;
	*letters = colon ? colon + 1 : "";
	in->nsrc = (uint8_t)strlen(*letters);
}

/* A 16-bit result of VOP1 and VOP2 clears the upper half, but for the multiply-adds; newer VOP3 opcodes keep it. */
static bool keeps_high(const struct sim_inst *in, bool vop3_only)
{
	switch (in->op) {
	case OP_v_mac_f16: case OP_v_madmk_f16: case OP_v_madak_f16: return true;
	case OP_v_mad_legacy_f16: case OP_v_mad_legacy_u16: case OP_v_mad_legacy_i16: case OP_v_fma_legacy_f16:
	case OP_v_div_fixup_legacy_f16: return false;
	default: return vop3_only;
	}
}

bool sim_carries(unsigned op)
{
	switch (op) {
	case OP_v_add_co_u32: case OP_v_sub_co_u32: case OP_v_subrev_co_u32: case OP_v_addc_co_u32: case OP_v_subb_co_u32:
	case OP_v_subbrev_co_u32: case OP_v_div_scale_f32: case OP_v_div_scale_f64: case OP_v_mad_u64_u32:
	case OP_v_mad_i64_i32: return true;
	default: return false;
	}
}

static bool sdwa_word(struct sim_inst *in, struct words *s, const char *letters)
{
	if (s->n < 2)
		return false;
	uint32_t w = s->w[1];
	in->sdwa = true;
	for (int k = 0; k < 2; k++) {
		uint32_t b = k ? w >> 24 : w >> 16;
		in->src_sel[k] = b & 7;
		in->src_sext[k] = b >> 3 & 1;
		in->src[k].neg = b >> 4 & 1;
		in->src[k].abs = b >> 5 & 1;
		if (in->src_sel[k] > 6)
			return false;
	}
	if (!source(s, &in->src[0], (w & 0xff) + (w >> 23 & 1 ? 0 : 256), letters[0]))
		return false;
	if (in->nsrc > 1 && w >> 31 && !source(s, &in->src[1], in->src[1].reg, letters[1]))
		return false;
	s->used = 2;
	if (in->enc == ENC_VOPC) {
		if (bits(w, 15, 15))
			in->sdst = (uint8_t)bits(w, 14, 8);
		in->dst_sel = 6;
	} else {
		in->dst_sel = (uint8_t)bits(w, 10, 8);
		in->dst_unused = (uint8_t)bits(w, 12, 11);
		in->clamp = (uint8_t)bits(w, 13, 13);
		in->omod = (uint8_t)bits(w, 15, 14);
		if (in->dst_sel > 6)
			return false;
	}
	return true;
}

/* quad_perm, row_shl, row_shr, row_ror by 1..15, the wave shifts, mirrors, broadcasts, row_newbcast. */
static bool dpp_known(unsigned ctrl)
{
	if (ctrl >= 0x101 && ctrl <= 0x12f)
		return ctrl & 15;
	return ctrl <= 0xff || ctrl == 0x130 || ctrl == 0x134 || ctrl == 0x138 || ctrl == 0x13c || (ctrl >= 0x140 && ctrl <= 0x143) ||
	       (ctrl >= 0x150 && ctrl <= 0x15f);
}

static bool dpp_word(struct sim_inst *in, struct words *s, const char *letters)
{
	if (s->n < 2)
		return false;
	uint32_t w = s->w[1];
	in->dpp = true;
	s->used = 2;
	in->dpp_ctrl = (uint16_t)bits(w, 16, 8);
	in->bound_ctrl = (uint8_t)bits(w, 19, 19);
	in->src[0].neg = (uint8_t)bits(w, 20, 20);
	in->src[0].abs = (uint8_t)bits(w, 21, 21);
	in->src[1].neg = (uint8_t)bits(w, 22, 22);
	in->src[1].abs = (uint8_t)bits(w, 23, 23);
	in->bank_mask = (uint8_t)bits(w, 27, 24);
	in->row_mask = (uint8_t)bits(w, 31, 28);
	return dpp_known(in->dpp_ctrl) && source(s, &in->src[0], 256 + (w & 0xff), letters[0]);
}

/* VOP1, VOP2, VOPC: 32 bits, or 64 with SDWA, DPP or a literal. */
static bool vop(struct sim_inst *in, struct words *s)
{
	const char *letters;
	uint32_t w = s->w[0];
	s->used = 1;
	sources_of(in, &letters);
	in->keep_high = keeps_high(in, false);
	in->vdst = (uint16_t)bits(w, 24, 17);
	in->sdst = REG_VCC;
	if (in->op == OP_v_readfirstlane_b32)
		in->sdst = (uint8_t)in->vdst;
	unsigned code = w & 0x1ff;
	if (in->op == OP_v_fmamk_f32 || in->op == OP_v_fmaak_f32 || in->op == OP_v_madmk_f16 || in->op == OP_v_madak_f16) {
		bool mk = in->op == OP_v_fmamk_f32 || in->op == OP_v_madmk_f16;
		return source(s, &in->src[0], code, letters[0]) && source(s, &in->src[mk ? 2 : 1], 256 + bits(w, 16, 9), letters[0]) &&
		       source(s, &in->src[mk ? 1 : 2], 255, letters[0]);
	}
	if (in->nsrc > 1 && !source(s, &in->src[1], in->enc == ENC_VOP1 ? 256 : 256 + bits(w, 16, 9), letters[1]))
		return false;
	if (in->nsrc > 2 && !source(s, &in->src[2], REG_VCC, letters[2]))
		return false;
	if (in->op == OP_v_accvgpr_mov_b32) {
		in->vdst = (uint16_t)(in->vdst + s->accum);
		return source(s, &in->src[0], code >= 256 ? code + s->accum : code, 'i');
	}
	if (code == 249)
		return sdwa_word(in, s, letters);
	if (code == 250)
		return dpp_word(in, s, letters);
	return in->nsrc == 0 || source(s, &in->src[0], code, letters[0]);
}

static bool vop3(struct sim_inst *in, struct words *s, unsigned opcode)
{
	const char *letters;
	uint32_t w = s->w[0], w1 = s->w[1];
	s->used = 2;
	sources_of(in, &letters);
	in->keep_high = keeps_high(in, opcode >= 0x1c0);
	in->vdst = (uint16_t)bits(w, 7, 0);
	in->sdst = (uint8_t)bits(w, 7, 0);
	in->clamp = (uint8_t)bits(w, 15, 15);
	in->omod = (uint8_t)bits(w1, 28, 27);
	for (int k = 0; k < in->nsrc && k < 3; k++) {
		if (!source(s, &in->src[k], bits(w1, 9 * k + 8, 9 * k), letters[k]))
			return false;
		in->src[k].neg = w1 >> (29 + k) & 1;
	}
	if (sim_carries(in->op)) {
		in->sdst = (uint8_t)bits(w, 14, 8);
	} else if (in->op == OP_v_bitop3_b32 || in->op == OP_v_bitop3_b16) {
		in->bitop = (uint8_t)(in->omod << 6 | bits(w, 10, 8) << 3 | w1 >> 29);
		in->omod = 0;
		in->src[0].neg = in->src[1].neg = in->src[2].neg = 0;
		in->opsel = (uint8_t)bits(w, 14, 11);
	} else {
		in->opsel = (uint8_t)bits(w, 14, 11);
		for (int k = 0; k < in->nsrc && k < 3; k++)
			in->src[k].abs = w >> (8 + k) & 1;
	}
	return true;
}

static bool is_mai(unsigned op)
{
	return rows[op].exec == exec_mfma || rows[op].exec == exec_smfmac;
}

static bool mai(struct sim_inst *in, struct words *s)
{
	uint32_t w = s->w[0], w1 = s->w[1];
	in->cls = SIM_MFMA;
	in->nsrc = 3;
	bool acc_cd = bits(w, 15, 15);
	in->vdst = (uint16_t)(bits(w, 7, 0) + (acc_cd ? s->accum : 0));
	in->cbsz = (uint8_t)bits(w, 10, 8);
	in->abid = (uint8_t)bits(w, 14, 11);
	in->blgp = (uint8_t)bits(w1, 31, 29);
	for (int k = 0; k < 3; k++) {
		bool acc = k == 2 ? acc_cd : bits(w1, 27 + k, 27 + k);
		if (!source(s, &in->src[k], bits(w1, 9 * k + 8, 9 * k), strstr(rows[in->op].name, "f64_") ? 'd' : 'f'))
			return false;
		if (in->src[k].kind == SRC_VGPR)
			in->src[k].reg = (uint16_t)(in->src[k].reg + (acc && rows[in->op].exec == exec_mfma ? s->accum : 0));
	}
	if (rows[in->op].exec == exec_smfmac) /* the third source is the index register; never an AGPR */
		for (int k = 0; k < 2; k++)
			if (bits(w1, 27 + k, 27 + k))
				in->src[k].reg = (uint16_t)(in->src[k].reg + s->accum);
	return true;
}

/* v_mfma_ld_scale_b32: the first half of a scaled matrix instruction of 16 bytes; without the second no kernel can run it. */
static bool scales(struct sim_inst *in, struct words *s)
{
	uint32_t w = s->w[0], w1 = s->w[1];
	in->cls = SIM_MFMA;
	in->scale_sel[0] = (uint8_t)(bits(w, 11, 11) | bits(w1, 27, 27) << 1);
	in->scale_sel[1] = (uint8_t)(bits(w, 12, 12) | bits(w1, 28, 28) << 1);
	return source(s, &in->src[3], bits(w1, 8, 0), 'i') && source(s, &in->scale_b, bits(w1, 17, 9), 'i');
}

/* The second half has the lowest bit of abid set. */
static bool scaled_follows(const struct words *s)
{
	if (s->n < 4 || s->w[2] >> 23 != 0x1a7 || !bits(s->w[2], 11, 11))
		return false;
	unsigned op = by_opcode[ENC_VOP3P][bits(s->w[2], 22, 16)];
	return op == OP_v_mfma_f32_16x16x128_f8f6f4 || op == OP_v_mfma_f32_32x32x64_f8f6f4;
}

static bool scaled_mai(struct sim_inst *in, struct words *s)
{
	struct words rest = {s->w + 2, s->n - 2, 2, false, s->accum};
	in->op = by_opcode[ENC_VOP3P][bits(s->w[2], 22, 16)];
	in->exec = rows[in->op].exec;
	in->n = rows[in->op].n;
	in->scaled = true;
	s->used = 4;
	return mai(in, &rest);
}

static bool vop3p(struct sim_inst *in, struct words *s)
{
	const char *letters;
	s->used = 2;
	if (is_mai(in->op) && in->op != OP_v_mfma_ld_scale_b32)
		return mai(in, s);
	if (in->op == OP_v_mfma_ld_scale_b32)
		return scales(in, s) && (!scaled_follows(s) || scaled_mai(in, s));
	uint32_t w = s->w[0], w1 = s->w[1];
	sources_of(in, &letters);
	in->vdst = (uint16_t)bits(w, 7, 0);
	in->clamp = (uint8_t)bits(w, 15, 15);
	in->opsel = (uint8_t)bits(w, 13, 11);
	in->opsel_hi = (uint8_t)(bits(w1, 28, 27) | bits(w, 14, 14) << 2);
	in->neg_hi = (uint8_t)bits(w, 10, 8);
	in->neg_lo = (uint8_t)bits(w1, 31, 29);
	for (int k = 0; k < in->nsrc; k++)
		if (!source(s, &in->src[k], bits(w1, 9 * k + 8, 9 * k), letters[k]))
			return false;
	if (in->op == OP_v_accvgpr_read_b32)
		in->src[0].reg = (uint16_t)(in->src[0].reg + s->accum);
	if (in->op == OP_v_accvgpr_write_b32)
		in->vdst = (uint16_t)(in->vdst + s->accum);
	if (in->op == OP_v_accvgpr_read_b32 || in->op == OP_v_accvgpr_write_b32)
		in->opsel = in->opsel_hi = in->neg_hi = in->neg_lo = 0;
	return true;
}

static bool sop(struct sim_inst *in, struct words *s)
{
	uint32_t w = s->w[0];
	char type = strstr(rows[in->op].name, "64") ? 'l' : 'i';
	s->used = 1;
	in->cls = SIM_SALU;
	in->sdst = (uint8_t)bits(w, 22, 16);
	in->offset = (int16_t)w;
	switch (in->enc) {
	case ENC_SOP2:
		in->nsrc = 2;
		return source(s, &in->src[0], w & 0xff, type) && source(s, &in->src[1], bits(w, 15, 8), type);
	case ENC_SOPC:
		in->nsrc = 2;
		if (in->op == OP_s_set_gpr_idx_on)
			return source(s, &in->src[0], w & 0xff, type);
		return source(s, &in->src[0], w & 0xff, type) && source(s, &in->src[1], bits(w, 15, 8), type);
	case ENC_SOP1:
		in->nsrc = 1;
		if (in->op == OP_s_getpc_b64)
			return true;
		if (in->op == OP_s_setpc_b64 || in->op == OP_s_swappc_b64)
			in->cls = SIM_BRANCH;
		return source(s, &in->src[0], w & 0xff, type);
	case ENC_SOPK:
		if (in->op == OP_s_call_b64)
			in->cls = SIM_BRANCH;
		if (in->op == OP_s_setreg_imm32_b32)
			return source(s, &in->src[0], 255, 'i');
		return true;
	default: /* SOPP */
		if (in->op == OP_s_waitcnt)
			in->cls = SIM_WAIT;
		else if (in->op == OP_s_barrier)
			in->cls = SIM_BARRIER;
		else if (strncmp(rows[in->op].name, "s_cbranch", 9) == 0 || in->op == OP_s_branch)
			in->cls = SIM_BRANCH;
		else
			in->cls = SIM_OTHER;
		return true;
	}
}

static bool memory(struct sim_inst *in, struct words *s)
{
	uint32_t w = s->w[0], w1 = s->w[1];
	uint32_t acc = bits(w1, 23, 23) ? s->accum : 0;
	s->used = 2;
	in->cls = SIM_VMEM;
	switch (in->enc) {
	case ENC_SMEM:
		in->cls = SIM_SMEM;
		in->sdst = (uint8_t)bits(w, 12, 6);
		in->saddr = (uint8_t)(bits(w, 5, 0) * 2);
		in->glc = bits(w, 16, 16);
		in->soffset_en = bits(w, 14, 14) || !bits(w, 17, 17);
		in->soffset = (uint8_t)(bits(w, 14, 14) ? bits(w1, 31, 25) : bits(w1, 6, 0));
		in->offset = bits(w, 17, 17) ? (int32_t)(w1 << 11) >> 11 : 0;
		return true;
	case ENC_DS:
		in->cls = SIM_LDS;
		acc = bits(w, 25, 25) ? s->accum : 0;
		in->offset = (int32_t)bits(w, 15, 0);
		in->vaddr = (uint16_t)bits(w1, 7, 0);
		in->vdata = (uint16_t)(bits(w1, 15, 8) + acc);
		in->vdata2 = (uint16_t)(bits(w1, 23, 16) + acc);
		in->vdst = (uint16_t)(bits(w1, 31, 24) + acc);
		if (bits(w, 16, 16)) /* GDS does not exist on these chips */
			in->exec = exec_refused;
		return true;
	case ENC_FLAT: case ENC_GLOBAL: case ENC_SCRATCH:
		in->offset = in->enc == ENC_FLAT ? (int32_t)bits(w, 11, 0) : (int32_t)(w << 19) >> 19;
		in->glc = bits(w, 16, 16);
		in->sc1 = bits(w, 25, 25);
		in->vaddr = (uint16_t)bits(w1, 7, 0);
		in->vdata = (uint16_t)(bits(w1, 15, 8) + acc);
		in->vdst = (uint16_t)(bits(w1, 31, 24) + acc);
		in->saddr = (uint8_t)bits(w1, 22, 16);
		in->use_saddr = in->enc != ENC_FLAT && in->saddr != 0x7f;
		in->use_vaddr = in->enc != ENC_SCRATCH || bits(w, 13, 13);
		return true;
	default: /* MUBUF, MTBUF */
		in->offset = (int32_t)bits(w, 11, 0);
		in->use_vaddr = bits(w, 12, 12);
		in->idxen = bits(w, 13, 13);
		in->glc = bits(w, 14, 14);
		in->sc1 = bits(w, 15, 15);
		in->lds = in->enc == ENC_MUBUF && bits(w, 16, 16);
		in->vaddr = (uint16_t)bits(w1, 7, 0);
		in->vdata = in->vdst = (uint16_t)(bits(w1, 15, 8) + acc);
		in->saddr = (uint8_t)(bits(w1, 20, 16) * 4);
		return in->op == OP_buffer_wbl2 || in->op == OP_buffer_inv || source(s, &in->src[0], bits(w1, 31, 24), 'i');
	}
}

/* The format and the opcode inside it.  VOP3 opcodes of VOPC, VOP2 and VOP1 are found in those tables. */
static bool format(uint32_t w, enum sim_enc *enc, unsigned *opcode)
{
	if (!(w >> 31)) {
		*enc = w >> 25 == 0x3e ? ENC_VOPC : w >> 25 == 0x3f ? ENC_VOP1 : ENC_VOP2;
		*opcode = *enc == ENC_VOPC ? bits(w, 24, 17) : *enc == ENC_VOP1 ? bits(w, 16, 9) : bits(w, 30, 25);
		return true;
	}
	if (w >> 30 == 2) {
		if (w >> 23 >= 0x17d) {
			*enc = w >> 23 == 0x17d ? ENC_SOP1 : w >> 23 == 0x17e ? ENC_SOPC : ENC_SOPP;
			*opcode = *enc == ENC_SOP1 ? bits(w, 15, 8) : bits(w, 22, 16);
		} else if (w >> 28 == 0xb) {
			*enc = ENC_SOPK;
			*opcode = bits(w, 27, 23);
		} else {
			*enc = ENC_SOP2;
			*opcode = bits(w, 29, 23);
		}
		return true;
	}
	switch (w >> 26) {
	case 0x30: *enc = ENC_SMEM; *opcode = bits(w, 25, 18); return true;
	case 0x34:
		*enc = w >> 23 == 0x1a7 ? ENC_VOP3P : ENC_VOP3;
		*opcode = *enc == ENC_VOP3P ? bits(w, 22, 16) : bits(w, 25, 16);
		return true;
	case 0x36: *enc = ENC_DS; *opcode = bits(w, 24, 17); return true;
	case 0x37:
		if (bits(w, 15, 14) == 3)
			return false;
		*enc = bits(w, 15, 14) == 0 ? ENC_FLAT : bits(w, 15, 14) == 1 ? ENC_SCRATCH : ENC_GLOBAL;
		*opcode = bits(w, 24, 18);
		return true;
	case 0x38: *enc = ENC_MUBUF; *opcode = bits(w, 24, 18); return true;
	case 0x3a: *enc = ENC_MTBUF; *opcode = bits(w, 18, 15); return true;
	default: return false;
	}
}

/* Operands that need no look at the modifiers. */
static void plain_operands(struct sim_inst *in)
{
	for (int k = 0; k < 4; k++) {
		struct sim_src *s = &in->src[k];
		bool half = s->type == 'h' || s->type == 's';
		bool part = (in->sdwa && k < 2 && in->src_sel[k] != 6) || (half && in->opsel >> k & 1);
		s->plain = s->kind == SRC_VGPR && !s->neg && !s->abs && !part && !(in->dpp && k == 0);
		s->flush = s->type == 'f' ? FLUSH_F32 : s->type == 'h' ? FLUSH_F16 : 0;
	}
	bool half = in->dtype == 'h' || in->dtype == 's';
	in->plain_dst = !in->sdwa && !in->dpp && !in->omod && !half && !(in->dtype == 'f' && in->clamp);
}

bool sim_decode(struct sim_inst *in, const uint32_t *words, int nwords, const struct sim_chip *chip, uint32_t accum_offset)
{
	enum sim_enc enc;
	unsigned opcode;
	memset(in, 0, sizeof *in);
	memcpy(in->word, words, sizeof words[0] * (size_t)(nwords < 4 ? nwords : 4));
	in->len = 1;
	if (nwords < 1 || !format(words[0], &enc, &opcode))
		return false;
	bool wide = enc >= ENC_VOP3 || enc == ENC_SMEM;
	if (wide && nwords < 2)
		return false;
	if (enc == ENC_VOP3 && opcode < 0x1c0)
		in->op = opcode < 0x100 ? by_opcode[ENC_VOPC][opcode] : opcode < 0x140 ? by_opcode[ENC_VOP2][opcode - 0x100]
		                                                                      : by_opcode[ENC_VOP1][opcode - 0x140];
	else
		in->op = by_opcode[enc][opcode];
	if (in->op == OP_NONE)
		return false;
	const struct row *row = &rows[in->op];
	in->enc = (uint8_t)enc;
	in->exec = row->exec;
	in->n = row->n;
	in->cls = SIM_VALU;
	if (!(row->chips & (chip->gfx950 ? 2 : 1)))
		return false;
	struct words s = {words, nwords < 4 ? nwords : 4, 1, false, accum_offset};
	bool ok;
	switch (enc) {
	case ENC_VOP1: case ENC_VOP2: case ENC_VOPC: ok = vop(in, &s); break;
	case ENC_VOP3: ok = vop3(in, &s, opcode); break;
	case ENC_VOP3P: ok = vop3p(in, &s); break;
	case ENC_SOP1: case ENC_SOP2: case ENC_SOPC: case ENC_SOPK: case ENC_SOPP: ok = sop(in, &s); break;
	default: ok = memory(in, &s); break;
	}
	plain_operands(in);
	if (in->exec == exec_mfma)
		sim_mfma_decoded(in);
	in->len = (uint8_t)(s.used + (s.literal ? 1 : 0));
	return ok && in->len <= nwords;
}

/* ---- the cache ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock; `exec` is stored last, so that another thread sees either none or the whole instruction. */
void sim_decode_slot(struct sim_wave *w, const struct sim_inst *slot)
{
	struct sim_code *code = w->group->code;
	size_t at = (size_t)(slot - code->inst), total = code->object->code_size / 4;
	struct sim_inst in;
	uint32_t words[4] = {0};
	int n = total - at < 4 ? (int)(total - at) : 4;
	memcpy(words, code->object->image + at * 4, (size_t)n * 4);
	bool ok = sim_decode(&in, words, n, code->object->chip, code->kernel->accum_offset);
	in.at = (uint32_t)(at * 4);
	if (!ok) {
		sim_fail(w, &in, SIM_EINST, -1, "words %08x %08x are no instruction of %s", words[0], words[1], code->object->chip->name);
		return;
	}
	pthread_mutex_lock(&lock);
	struct sim_inst *dst = &code->inst[at];
	if (!dst->exec) {
		memcpy((char *)dst + sizeof in.exec, (char *)&in + sizeof in.exec, sizeof in - sizeof in.exec);
		__atomic_store_n(&dst->exec, in.exec, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
}

struct sim_code *sim_code_get(struct sim_object *object, const struct sim_kernel *kernel)
{
	pthread_mutex_lock(&lock);
	struct sim_code *c = object->code;
	while (c && c->kernel != kernel)
		c = c->next;
	if (!c) {
		size_t n = object->code_size / 4;
		c = calloc(1, sizeof *c);
		if (c && !(c->room = calloc(n + 2, sizeof *c->inst))) {
			free(c);
			c = NULL;
		}
		if (c) {
			static uint64_t made; /* under the lock */
			c->inst = (struct sim_inst *)(((uintptr_t)c->room + sizeof *c->inst) & ~(uintptr_t)63);
			c->number = ++made;
			c->object = object;
			c->kernel = kernel;
			c->next = object->code;
			object->code = c;
		}
	}
	pthread_mutex_unlock(&lock);
	return c;
}

void sim_code_free(struct sim_object *object)
{
	for (struct sim_code *c = object->code, *next; c; c = next) {
		next = c->next;
		free(c->room);
		free(c);
	}
	object->code = NULL;
}
