/* check_use.c -- which registers an instruction reads and writes, and what it does to memory.
 *
 * In: a decoded instruction.  Out: a check_use.  Widths come from the operand letters of inst.def; scalar and memory
 * formats, whose rows have no letters, are told apart by mnemonic.  Asked once for each instruction of a kernel. */
#include "check.h"

#include <stdio.h>

static void add(struct check_regs *list, uint8_t *n, int room, unsigned first, unsigned count)
{
	if (count && *n < room)
		list[(*n)++] = (struct check_regs){(uint16_t)first, (uint8_t)count};
}
#define READ_V(first, count) add(u->read, &u->nread, 6, first, count)
#define WRITE_V(first, count) add(u->write, &u->nwrite, 3, first, count)
#define READ_S(first, count) add(u->sread, &u->nsread, 6, first, count)
#define WRITE_S(first, count) add(u->swrite, &u->nswrite, 3, first, count)

static bool has(const char *name, const char *part) { return strstr(name, part) != NULL; }
static bool starts(const char *name, const char *part) { return strncmp(name, part, strlen(part)) == 0; }

static unsigned width_of(const struct sim_inst *in, int k)
{
	switch (in->src[k].type) {
	case 'l': case 'd': case 'P': case 'c': return 2;
	case 'w': return in->exec == exec_scalef32 ? 16 : 4; /* refined by scale_regs */
	default: return 1;
	}
}

/* Conversions of 16 and 32 values: registers of source k. */
static unsigned scale_regs(const char *name, unsigned n, int k)
{
	if (k > 0)
		return has(name, "2xpk16") && k == 1 ? 16 : 1;
	if (n >= 16) /* from fp6 */
		return 6;
	return has(name, "2xpk16") ? 16 : has(name, "_f32") ? 32 : 16;
}

static void source(struct check_use *u, const struct sim_src *s, unsigned n)
{
	if (s->kind == SRC_VGPR)
		READ_V(s->reg, n);
	else if (s->kind == SRC_SGPR)
		READ_S(s->reg, n > 2 ? 2 : n);
	else if (s->kind == SRC_STATUS && s->reg == 253)
		READ_S(CHECK_SCC, 1);
}

/* Registers of source k of a matrix instruction. */
static int mfma_regs(const struct sim_inst *in, int k)
{
	static const uint8_t f8f6f4[] = {8, 8, 6, 6, 4};
	const char *name = sim_op_name(in->op);
	unsigned m = 0, n = 0, kk = 0;
	if (k == 2)
		return in->exec == exec_smfmac ? 1 : in->n;
	if (has(name, "f8f6f4")) {
		unsigned format = k ? in->blgp : in->cbsz;
		return format < 5 ? f8f6f4[format] : 8;
	}
	const char *shape = name + (starts(name, "v_smfmac") ? 13 : 11); /* after v_mfma_f32_ */
	if (sscanf(shape, "%ux%ux%u", &m, &n, &kk) != 3 || !m)
		return 2;
	const char *type = strrchr(name, '_') + 1;
	unsigned bits = has(type, "f64") ? 64 : has(type, "f32") ? 32 : has(type, "f16") || has(type, "bf16") ? 16 : 8;
	unsigned blocks = has(name, "_2b_") ? 2 : has(name, "_4b_") ? 4 : has(name, "_16b_") ? 16 : 1;
	unsigned total = m * kk * blocks * bits / 32 / LANES;
	if (starts(name, "v_smfmac") && k == 0)
		total /= 2;
	return total ? (int)total : 1;
}

/* Passes of 4 clocks: M*N*K over the unit's rate. */
static uint8_t passes_of(const struct sim_inst *in)
{
	const char *name = sim_op_name(in->op);
	if (has(name, "32x32x4_2b") || has(name, "32x32x1_2b"))
		return 16;
	if (has(name, "4x4x") && !has(name, "f64"))
		return 2;
	if (has(name, "4x4x4_4b_f64"))
		return 4;
	if (has(name, "16x16x4_f64"))
		return 8;
	if (has(name, "f8f6f4")) {
		bool slow = in->cbsz < 2 || in->blgp < 2;
		return (uint8_t)((has(name, "32x32") ? 8 : 4) * (slow ? 2 : 1));
	}
	if (has(name, "16x16x4_f32") || has(name, "16x16x1_4b") || has(name, "16x16x4_4b"))
		return 8;
	if (has(name, "32x32x2_f32"))
		return 16;
	return has(name, "32x32") ? 8 : 4;
}

static void matrix(struct check_use *u, const struct sim_inst *in)
{
	bool sparse = in->exec == exec_smfmac;
	for (int k = 0; k < 3; k++)
		source(u, &in->src[k], (unsigned)mfma_regs(in, k));
	if (in->scaled) {
		source(u, &in->src[3], 1);
		source(u, &in->scale_b, 1);
	}
	if (sparse)
		READ_V(in->vdst, in->n);
	WRITE_V(in->vdst, in->n);
	u->passes = passes_of(in);
}

static bool reads_result(const struct sim_inst *in)
{
	switch (in->op) {
	case OP_v_fmac_f32: case OP_v_fmac_f64: case OP_v_mac_f16: case OP_v_pk_fmac_f16: case OP_v_dot2c_f32_bf16:
	case OP_v_dot2c_f32_f16: case OP_v_dot2c_i32_i16: case OP_v_dot4c_i32_i8: case OP_v_dot8c_i32_i4: return true;
	default: return false;
	}
}

static void vector(struct check_use *u, const struct sim_inst *in)
{
	const char *name = sim_op_name(in->op);
	for (int k = 0; k < in->nsrc; k++)
		source(u, &in->src[k], in->src[k].type == 'w' && in->exec == exec_scalef32 ? scale_regs(name, in->n, k) : width_of(in, k));
	u->trans = starts(name, "v_exp") || starts(name, "v_log") || starts(name, "v_rcp") || starts(name, "v_rsq") ||
	           starts(name, "v_sqrt") || starts(name, "v_sin") || starts(name, "v_cos");
	u->is_dot = in->exec == exec_dot;
	if (in->op == OP_v_div_fmas_f32 || in->op == OP_v_div_fmas_f64)
		READ_S(REG_VCC, 2);
	if (starts(name, "v_cmp")) {
		WRITE_S(in->sdst, 2);
		if (has(name, "cmpx"))
			WRITE_S(REG_EXEC, 2);
		return;
	}
	if (in->op == OP_v_readfirstlane_b32 || in->op == OP_v_readlane_b32) {
		WRITE_S(in->sdst, 1);
		return;
	}
	if (sim_carries(in->op))
		WRITE_S(in->sdst, 2);
	if (reads_result(in))
		READ_V(in->vdst, in->n);
	WRITE_V(in->vdst, in->n);
	if (in->op == OP_v_swap_b32 || in->op == OP_v_permlane16_swap_b32 || in->op == OP_v_permlane32_swap_b32) {
		READ_V(in->vdst, 1);
		WRITE_V(in->src[0].reg, 1);
	}
}

static bool short_second(unsigned op)
{
	switch (op) {
	case OP_s_lshl_b64: case OP_s_lshr_b64: case OP_s_ashr_i64: case OP_s_bfe_u64: case OP_s_bfe_i64: case OP_s_bfm_b64:
	case OP_s_bitcmp0_b64: case OP_s_bitcmp1_b64: return true;
	default: return false;
	}
}

static void scalar(struct check_use *u, const struct sim_inst *in)
{
	const char *name = sim_op_name(in->op);
	bool wide = has(name, "64");
	for (int k = 0; k < in->nsrc; k++) {
		unsigned n = wide && !(k == 1 && short_second(in->op)) ? 2 : 1;
		if (in->op == OP_s_bfm_b64 || in->op == OP_s_bitset0_b64 || in->op == OP_s_bitset1_b64 || in->op == OP_s_bitreplicate_b64_b32)
			n = 1;
		source(u, &in->src[k], n);
	}
	if (in->enc == ENC_SOPC) {
		WRITE_S(CHECK_SCC, 1);
		return;
	}
	bool result32 = !wide || starts(name, "s_bcnt") || starts(name, "s_ff") || starts(name, "s_flbit");
	if (in->enc == ENC_SOPK) {
		if (starts(name, "s_cmpk") || in->op == OP_s_addk_i32 || in->op == OP_s_mulk_i32 || in->op == OP_s_cmovk_i32 || in->op == OP_s_setreg_b32)
			READ_S(in->sdst, 1);
		if (starts(name, "s_cmpk")) {
			WRITE_S(CHECK_SCC, 1);
			return;
		}
		if (starts(name, "s_setreg"))
			return;
	}
	if (in->op == OP_s_setpc_b64)
		return;
	if (starts(name, "s_cselect") || starts(name, "s_cmov") || starts(name, "s_addc") || starts(name, "s_subb_"))
		READ_S(CHECK_SCC, 1);
	if (in->op == OP_s_bitset0_b32 || in->op == OP_s_bitset1_b32 || in->op == OP_s_bitset0_b64 || in->op == OP_s_bitset1_b64)
		READ_S(in->sdst, result32 ? 1 : 2);
	WRITE_S(in->sdst, result32 ? 1 : 2);
	if (has(name, "saveexec") || has(name, "wrexec")) {
		READ_S(REG_EXEC, 2);
		WRITE_S(REG_EXEC, 2);
	}
	bool keeps_scc = has(name, "_mov") || starts(name, "s_cselect") || starts(name, "s_cmov") || starts(name, "s_mul") ||
		starts(name, "s_bfm") || starts(name, "s_pack") || starts(name, "s_brev") || starts(name, "s_ff") || starts(name, "s_flbit") ||
		starts(name, "s_sext") || starts(name, "s_bitset") || starts(name, "s_getpc") || starts(name, "s_swappc") || starts(name, "s_getreg");
	if (!keeps_scc)
		WRITE_S(CHECK_SCC, 1);
}

static void program(struct check_use *u, const struct sim_inst *in)
{
	switch (in->op) {
	case OP_s_cbranch_scc0: case OP_s_cbranch_scc1: READ_S(CHECK_SCC, 1); return;
	case OP_s_cbranch_vccz: case OP_s_cbranch_vccnz: READ_S(REG_VCC, 2); return;
	case OP_s_cbranch_execz: case OP_s_cbranch_execnz: READ_S(REG_EXEC, 2); return;
	default: return;
	}
}

static uint8_t lds_bytes(const char *name)
{
	if (has(name, "b128"))
		return 16;
	if (has(name, "b96"))
		return 12;
	if (has(name, "64") && !has(name, "st64_b32") && !has(name, "st64_rtn_b32"))
		return 8;
	return has(name, "_b8") || has(name, "_u8") || has(name, "_i8") ? 1 : has(name, "_b16") || has(name, "_u16") || has(name, "_i16") ? 2 : 4;
}

static void lds(struct check_use *u, const struct sim_inst *in)
{
	const char *name = sim_op_name(in->op);
	uint32_t off = (uint32_t)in->offset;
	u->access = ACCESS_LDS;
	u->bytes = lds_bytes(name);
	u->parts = 1;
	u->addresses = 1;
	u->step[0] = (uint16_t)off;
	READ_V(in->vaddr, 1);
	unsigned regs = u->bytes <= 4 ? 1 : u->bytes / 4u;
	if (has(name, "swizzle") || has(name, "permute")) {
		u->parts = 0;
		u->load = true;
		u->addresses = has(name, "permute");
		if (has(name, "permute"))
			READ_V(in->vdata, 1);
		WRITE_V(in->vdst, 1);
		return;
	}
	u->load = starts(name, "ds_read") || has(name, "rtn") ;
	u->store = !starts(name, "ds_read");
	u->atomic = u->store && !starts(name, "ds_write");
	u->transposed = has(name, "_tr_");
	if (starts(name, "ds_read2") || starts(name, "ds_write2")) {
		unsigned scale = u->bytes * (has(name, "st64") ? 64u : 1u);
		u->parts = 2;
		u->step[0] = (uint16_t)((off & 0xff) * scale);
		u->step[1] = (uint16_t)((off >> 8) * scale);
	}
	if (u->store)
		READ_V(in->vdata, regs);
	if (u->store && (u->parts == 2 || has(name, "cmpst") || has(name, "mskor")))
		READ_V(in->vdata2, regs);
	if (u->load)
		WRITE_V(in->vdst, regs * u->parts);
}

static uint8_t memory_bytes(const char *name, unsigned n)
{
	if (has(name, "format"))
		return 0; /* typed: as the format says */
	return has(name, "byte") ? 1 : has(name, "short") ? 2 : (uint8_t)(4 * n);
}

static void memory(struct check_use *u, const struct sim_inst *in)
{
	const char *name = sim_op_name(in->op);
	if (in->enc == ENC_SMEM) {
		u->access = ACCESS_SMEM;
		u->load = !has(name, "store") && !has(name, "dcache");
		if (!has(name, "time") && !has(name, "dcache"))
			READ_S(in->saddr, has(name, "buffer") ? 4 : 2);
		if (in->soffset_en && !has(name, "time") && !has(name, "dcache"))
			READ_S(in->soffset, 1);
		WRITE_S(in->sdst, in->n);
		return;
	}
	bool buffer = in->enc == ENC_MUBUF || in->enc == ENC_MTBUF;
	if (in->op == OP_buffer_wbl2 || in->op == OP_buffer_inv) {
		u->access = ACCESS_VMEM;
		return;
	}
	bool dma = in->lds || has(name, "_lds_");
	u->access = dma ? ACCESS_DMA : in->enc == ENC_FLAT ? ACCESS_FLAT : in->enc == ENC_SCRATCH ? ACCESS_SCRATCH : ACCESS_VMEM;
	u->atomic = has(name, "atomic");
	u->store = has(name, "store") || u->atomic;
	u->load = !has(name, "store") && (!u->atomic || in->glc);
	u->bytes = memory_bytes(name, u->atomic ? (has(name, "x2") || has(name, "f64") ? 2 : 1) : in->n);
	unsigned regs = in->n;
	u->addresses = buffer ? (uint8_t)(in->use_vaddr + in->idxen) : in->enc == ENC_SCRATCH ? in->use_vaddr : in->use_saddr ? 1 : 2;
	READ_V(in->vaddr, u->addresses);
	u->addresses = u->nread;
	if (u->store)
		READ_V(in->vdata, regs);
	if (u->load && !dma)
		WRITE_V(in->vdst, u->atomic ? u->bytes / 4u : regs);
	if (buffer) {
		READ_S(in->saddr, 4);
		source(u, &in->src[0], 1);
	} else if (in->use_saddr) {
		READ_S(in->saddr, in->enc == ENC_SCRATCH ? 1 : 2);
	}
	if (dma)
		READ_S(REG_M0, 1);
}

/* Adds a range of registers to the bits from `start` on. */
static void add_bits(struct check_use *u, unsigned start, uint8_t *end, const struct check_regs *r)
{
	for (unsigned reg = r->first; reg < r->first + (unsigned)r->n; reg++) {
		unsigned i = start;
		while (i < *end && u->bits[i].word != reg / 64)
			i++;
		if (i == *end) {
			if (i == CHECK_BITS) {
				u->crowded = true;
				return;
			}
			u->bits[(*end)++].word = (uint16_t)(reg / 64);
		}
		u->bits[i].mask |= UINT64_C(1) << reg % 64;
	}
}

static void bits_of(struct check_use *u)
{
	for (int k = 0; k < u->nread; k++)
		add_bits(u, 0, &u->vread_end, &u->read[k]);
	u->vwrite_end = u->vread_end;
	for (int k = 0; k < u->nwrite; k++)
		add_bits(u, u->vread_end, &u->vwrite_end, &u->write[k]);
	u->sread_end = u->vwrite_end;
	for (int k = 0; k < u->nsread; k++)
		add_bits(u, u->vwrite_end, &u->sread_end, &u->sread[k]);
	u->swrite_end = u->sread_end;
	for (int k = 0; k < u->nswrite; k++)
		add_bits(u, u->sread_end, &u->swrite_end, &u->swrite[k]);
}

void check_use_of(struct check_use *u, const struct sim_inst *in)
{
	memset(u, 0, sizeof *u);
	u->ready = true;
	switch (in->enc) {
	case ENC_SOP1: case ENC_SOP2: case ENC_SOPC: case ENC_SOPK: scalar(u, in); break;
	case ENC_SOPP: program(u, in); break;
	case ENC_DS: lds(u, in); break;
	case ENC_SMEM: case ENC_FLAT: case ENC_GLOBAL: case ENC_SCRATCH: case ENC_MUBUF: case ENC_MTBUF: memory(u, in); break;
	default:
		if (in->exec == exec_mfma || in->exec == exec_smfmac)
			matrix(u, in);
		else
			vector(u, in);
	}
	u->kind = (uint16_t)hazard_kind(in, u);
	bits_of(u);
	u->whole = undef_whole(in);
	u->paces = hazard_paces(u);
	u->f64 = u->passes && hazard_is_f64(in);
	u->xdl = u->passes && hazard_is_xdl(in);
	u->high = u->access && strstr(sim_op_name(in->op), "d16_hi");
}
