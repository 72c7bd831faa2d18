/* exec.h -- what decode.c, core.c and the exec_*.c families share: the decoded instruction, the wave, operand access.
 *
 * A wave holds its scalar registers as one array indexed by the operand code itself (VCC at 106, M0 at 124, EXEC at 126)
 * and its vector registers as rows of 64 lanes, AGPRs behind the VGPRs at accum_offset as in hardware.  A handler asks for
 * its sources as rows of 64 values (modifiers, DPP, SDWA and constants already applied), computes all lanes in a simple
 * loop that the compiler vectorises, and hands the row back to be stored under EXEC. */
#ifndef TDSL_SIM_EXEC_H
#define TDSL_SIM_EXEC_H
#include "../base/num.h"
#include "sim.h"

#include <string.h>

enum sim_enc {
	ENC_SOP2, ENC_SOP1, ENC_SOPK, ENC_SOPC, ENC_SOPP, ENC_SMEM, ENC_VOP2, ENC_VOP1, ENC_VOPC, ENC_VOP3, ENC_VOP3P,
	ENC_DS, ENC_FLAT, ENC_GLOBAL, ENC_SCRATCH, ENC_MUBUF, ENC_MTBUF, ENC_COUNT
};

enum sim_op {
	OP_NONE,
#define I(enc, opcode, name, chips, family, operands, n) OP_##name,
#include "inst.def"
#undef I
	OP_COUNT
};

enum { SRC_NONE, SRC_VGPR, SRC_SGPR, SRC_CONST, SRC_STATUS }; /* STATUS: vccz, execz, scc, apertures by reg */
enum { FLUSH_F32 = 1, FLUSH_F16 = 2 };
enum { KEPT_OPERANDS = 16, KEPT_PATTERNS = 8 };
enum { LANES = 64, REG_VCC = 106, REG_M0 = 124, REG_EXEC = 126 };

struct sim_src {
	uint8_t kind, type;  /* type: letter of inst.def */
	uint8_t neg, abs;
	uint16_t reg;
	bool plain;          /* a VGPR as it stands: no modifier, no part, no other lanes */
	uint8_t flush;       /* denormals are flushed where sim_wave.flushing has this bit */
	uint64_t value;      /* of SRC_CONST, as wide as the type */
};

struct sim_wave;
/* In the order of how often it is read: a line of the host's cache for the instruction itself, one for its sources, the rest. */
struct sim_inst {
	_Alignas(64) void (*exec)(struct sim_wave *, const struct sim_inst *);
	uint16_t op;
	uint8_t enc, len;              /* len: dwords */
	uint8_t cls, nsrc, n, dtype;   /* dtype: result letter */
	uint16_t vdst;                 /* first register of the result, in the unified file */
	uint8_t sdst;                  /* scalar result, or lane mask written by a vector instruction */
	uint8_t clamp, omod;
	bool keep_high, dpp, sdwa;     /* keep_high: a 16-bit result leaves the other half alone */
	bool plain_dst;                /* a 32-bit result is stored as computed */
	/* matrix */
	uint8_t cbsz, abid, blgp, bitop;
	bool scaled;                   /* scale A in src[3], scale B in scale_b; scale_sel: the byte of each */
	bool usual;                    /* sim_mfma_decoded: nothing is to be looked at but the registers: A, B and C, `top` in all */
	uint16_t top, operand[3];
	/* memory */
	uint8_t saddr, soffset;
	uint16_t vaddr, vdata, vdata2; /* registers in the unified file */
	bool use_vaddr, use_saddr, idxen, glc, sc1, lds, soffset_en;
	int32_t offset;                /* also simm16 of SOPK and SOPP */
	uint32_t at;                   /* of the first word in the image */
	_Alignas(64) struct sim_src src[4];
	uint8_t opsel, opsel_hi, neg_lo, neg_hi;
	uint32_t word[4];
	struct sim_src scale_b;
	uint8_t scale_sel[2];
	uint16_t dpp_ctrl;
	uint8_t row_mask, bank_mask, bound_ctrl;
	uint8_t dst_sel, dst_unused, src_sel[2], src_sext[2];
};

/* Lines of memory that loops will load next, as exec_memory.c foresees them: fetched while matrix instructions multiply. */
enum { AHEAD = 1024 };
struct sim_ahead { uint64_t line[AHEAD]; uint32_t from, to; };
static inline void sim_ahead_fetch(struct sim_ahead *a, unsigned n)
{
	for (; n && a->from != a->to; n--)
		__builtin_prefetch((const void *)(uintptr_t)a->line[a->from++ % AHEAD], 0, 3);
}

enum sim_state { WAVE_RUN, WAVE_BARRIER, WAVE_END, WAVE_FAIL };

struct sim_group {
	const struct sim_launch *launch;
	struct sim_code *code;
	uint8_t *lds; uint32_t lds_size;
	int error;
	char *err; size_t errlen;
	struct sim_stats stats;
	uint64_t clock;                /* what s_memtime reads: instructions executed by this host thread */
	struct { uint64_t lo, hi; bool writable; } range[6]; /* 4 allocations found last, arguments, packet */
	unsigned range_next;
	struct sim_patterns *patterns; /* exec_lds.c; may be NULL */
	struct sim_operands *operands; /* mfma.h; may be NULL */
	uint64_t kept[KEPT_OPERANDS + KEPT_PATTERNS]; /* keys of what is made from registers (sim_kept_key), or 0: operands, patterns */
	uint64_t kept_others;          /* what else had been executed, when these were made (sim_kept_begin) */
	uint32_t kept_from, kept_to;   /* of all registers that these were made from */
	struct sim_ahead ahead;
};

struct sim_wave {
	uint32_t sgpr[132];              /* 4 to spare: a pair may start at the last code */
	uint32_t (*vgpr)[LANES];
	uint32_t nvgpr;                /* rows that exist */
	uint32_t pc;                   /* dword index into the image */
	uint32_t scc, mode;
	bool flush_in, flush_out, flush_in16, flush_out16; /* denormals of f32, of f16 and f64 */
	uint8_t flushing;              /* FLUSH_F32 and FLUSH_F16: flush_in, flush_in16 */
	bool ieee, dx10_clamp, ovfl;
	uint8_t index_mode;            /* s_set_gpr_idx: 1, 2, 4 the sources', 8 the result's VGPR numbers move by M0[7:0] */
	uint8_t state;
	uint32_t index;                /* in the workgroup */
	uint32_t trapsts;
	uint64_t executed, until;      /* instructions, and how many the turn goes on to; an instruction may take the next ones along (exec_mfma) */
	uint8_t *scratch; uint32_t scratch_size; /* of one lane; lane after lane */
	uint64_t loaded[32];           /* where loads of memory last began, by instruction (exec_memory.c) */
	struct sim_group *group;
};

/* decode.c */
struct sim_code {
	struct sim_code *next;
	uint64_t number;               /* no other of this process has it, now or later */
	const struct sim_object *object;
	const struct sim_kernel *kernel;
	void *room;                    /* that of inst */
	struct sim_inst *inst;         /* one slot per dword of the code, decoded when first reached: until then exec is NULL and the memory untouched */
};
/* Decodes a slot, where no other thread has; the wave then runs it. */
void sim_decode_slot(struct sim_wave *, const struct sim_inst *slot);
struct sim_code *sim_code_get(struct sim_object *, const struct sim_kernel *);
/* Decodes at most 4 words.  Returns false when they are no instruction of the chip. */
bool sim_decode(struct sim_inst *, const uint32_t *words, int nwords, const struct sim_chip *, uint32_t accum_offset);
const char *sim_op_name(unsigned op);
bool sim_carries(unsigned op);               /* a carry, or another mask of lanes, is its second result */

/* exec_mfma.c: fills in `usual`, `top` and `operand` of a matrix instruction. */
void sim_mfma_decoded(struct sim_inst *);

/* core.c: marks the wave failed and keeps the first text of the workgroup; lane < 0 = none. */
void sim_fail(struct sim_wave *, const struct sim_inst *, int code, int lane, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
void sim_unknown(struct sim_wave *, const struct sim_inst *);
/* Host pointer to device memory, or NULL after sim_fail. */
void *sim_access(struct sim_wave *, const struct sim_inst *, int lane, uint64_t addr, uint32_t size, bool write);
/* True when [lo, hi) lies in one allocation (writable for writes); remembers the allocation. */
bool sim_same_range(struct sim_wave *, uint64_t lo, uint64_t hi, bool write);
void sim_set_mode(struct sim_wave *, uint32_t mode);
/* What a host thread keeps, to be freed; NULL without memory, which only costs time.  exec_lds.c: costs of access patterns;
 * mfma_operand.c: operands of matrix instructions. */
struct sim_patterns *sim_patterns_new(void);
struct sim_operands *sim_operands_new(void);
/* What is made from registers is kept, by wave and register, until this host thread executes anything but matrix instructions, LDS
 * instructions and waits, or one of these overwrites it, of which it tells when it has found its own: nothing else changes registers.
 * In a key of what was made: the wave, the first of `n` registers, and 24 bits of how. */
static inline uint64_t sim_kept_key(const struct sim_wave *w, uint32_t first, uint32_t n, uint32_t how)
{
	return (uint64_t)w->index << 48 | (uint64_t)first << 32 | n << 24 | how;
}
void sim_forget(struct sim_group *, uint64_t others);
/* Before a key is looked for, */
static inline void sim_kept_begin(struct sim_group *g)
{
	const uint64_t *n = g->stats.inst;
	uint64_t others = n[SIM_VALU] + n[SIM_SALU] + n[SIM_VMEM] + n[SIM_SMEM] + n[SIM_BARRIER] + n[SIM_BRANCH] + n[SIM_OTHER];
	if (g->kept_others != others)
		sim_forget(g, others);
}
/* and when it was not there. */
static inline void sim_keep(struct sim_group *g, unsigned slot, uint64_t key)
{
	uint32_t first = key >> 32 & 0xffff, end = first + (key >> 24 & 0xff);
	g->kept[slot] = key;
	g->kept_from = first < g->kept_from ? first : g->kept_from;
	g->kept_to = end > g->kept_to ? end : g->kept_to;
}
/* Registers [first, first + n) of the wave are overwritten. */
void sim_overwritten_kept(struct sim_wave *, unsigned first, unsigned n);
static inline void sim_overwritten(struct sim_wave *w, unsigned first, unsigned n)
{
	if (first < w->group->kept_to && first + n > w->group->kept_from)
		sim_overwritten_kept(w, first, n);
}

/* VGPR number of source k (3: the result) with the relative index applied. */
static inline uint32_t sim_indexed(const struct sim_wave *w, uint32_t reg, int k)
{
	return w->index_mode >> k & 1 ? reg + (w->sgpr[REG_M0] & 0xff) : reg;
}

/* operand.c: sources as rows of 64 lanes.  The result points at `buf` or at the register itself. */
const uint32_t *sim_src32_slowly(struct sim_wave *, const struct sim_inst *, int k, uint32_t buf[LANES]);
static inline const uint32_t *sim_src32(struct sim_wave *w, const struct sim_inst *in, int k, uint32_t buf[LANES])
{
	const struct sim_src *s = &in->src[k];
	bool plain = s->plain && !w->index_mode && !(s->flush & w->flushing) && s->reg < w->nvgpr;
	return plain ? w->vgpr[s->reg] : sim_src32_slowly(w, in, k, buf);
}
const uint64_t *sim_src64(struct sim_wave *, const struct sim_inst *, int k, uint64_t buf[LANES]);
uint64_t sim_scalar(const struct sim_wave *, const struct sim_src *); /* 64 bits of an SGPR pair, constant, status */
/* Where to compute a 32-bit result: the register row when nothing has to be merged, else buf.  Then sim_put stores it. */
static inline uint32_t *sim_dst32(struct sim_wave *w, const struct sim_inst *in, uint32_t buf[LANES])
{
	bool plain = in->plain_dst && !w->index_mode && !(in->dtype == 'f' && w->flush_out) && in->vdst < w->nvgpr;
	return plain && (w->sgpr[REG_EXEC] & w->sgpr[REG_EXEC + 1]) == ~0u ? w->vgpr[in->vdst] : buf;
}
void sim_put32_slowly(struct sim_wave *, const struct sim_inst *, const uint32_t *row);
static inline void sim_put32(struct sim_wave *w, const struct sim_inst *in, const uint32_t *row)
{
	if (row != w->vgpr[in->vdst] || w->index_mode)
		sim_put32_slowly(w, in, row);
}
void sim_put64(struct sim_wave *, const struct sim_inst *, const uint64_t *row);
void sim_put_row(struct sim_wave *, uint32_t reg, const uint32_t *row, uint64_t mask);
void sim_put_mask(struct sim_wave *, unsigned sgpr, uint64_t mask); /* lane mask to an SGPR pair */
/* Lanes that a DPP control can reach, and the source lane of each (255: none). */
uint64_t sim_dpp_lanes(const struct sim_wave *, const struct sim_inst *, uint8_t from[LANES]);

/* exec_round.c: results computed to nearest even, corrected for the rounding that MODE asks for.  `op` decides how a, b
 * and c (the addend of accumulating forms) make the exact result; opcodes that do not round are left alone. */
static inline unsigned sim_round32(const struct sim_wave *w) { return w->mode & 3; }
static inline unsigned sim_round16(const struct sim_wave *w) { return w->mode >> 2 & 3; } /* also of f64 */
void sim_round_f32(unsigned mode, unsigned op, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d);
void sim_round_f16(unsigned mode, unsigned op, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d);
void sim_round_f64(unsigned mode, unsigned op, const double *a, const double *b, const double *c, uint64_t *d);
/* The same for one conversion of an exact value. */
uint32_t sim_nudge_f32(uint32_t nearest, double exact, unsigned mode);
uint32_t sim_nudge_f16(uint32_t nearest, double exact, unsigned mode);

typedef float sim_f32 __attribute__((may_alias));
typedef double sim_f64 __attribute__((may_alias));
typedef int32_t sim_i32 __attribute__((may_alias));
typedef uint64_t sim_u64 __attribute__((may_alias));
typedef uint32_t sim_w32 __attribute__((may_alias));

static inline uint64_t sim_sgpr64(const struct sim_wave *w, unsigned r)
{
	if (r > 130)
		return 0;
	return w->sgpr[r] | (uint64_t)w->sgpr[r + 1] << 32;
}
static inline void sim_sgpr64_set(struct sim_wave *w, unsigned r, uint64_t v)
{
	if (r > 130) /* a code that names no scalar register */
		return;
	w->sgpr[r] = (uint32_t)v;
	w->sgpr[r + 1] = (uint32_t)(v >> 32);
}
static inline uint64_t sim_exec(const struct sim_wave *w) { return sim_sgpr64(w, REG_EXEC); }
static inline uint64_t sim_lanes_active(const struct sim_wave *w)
{
	return sim_exec(w) == ~UINT64_C(0) ? LANES : (uint64_t)__builtin_popcountll(sim_exec(w));
}

/* f16 <-> f32 without branches, so that loops over them vectorise; the same results as num_to_f32 and num_from_f32. */
static inline float sim_f16_to_f32(uint32_t h)
{
	uint32_t mag = (h & 0x7fff) << 13, sign = (h & 0x8000) << 16;
	uint32_t fin = num_bits(num_float(mag) * num_float(0x77800000u)); /* 2^112 */
	return num_float(sign | (mag >= 0x0f800000u ? mag | 0x7f800000u : fin));
}
static inline uint32_t sim_f32_to_f16(float x)
{
	uint32_t u = num_bits(x), mag = u & 0x7fffffffu, sign = u >> 16 & 0x8000;
	uint32_t normal = (mag - 0x38000000u + 0xfff + (mag >> 13 & 1)) >> 13;
	uint32_t tiny = num_bits(num_float(mag) + 0.5f) - 0x3f000000u;
	uint32_t r = mag < 0x38800000u ? tiny : normal;
	r = r > 0x7c00u || mag >= 0x47800000u ? 0x7c00u : r;
	r = mag > 0x7f800000u ? 0x7e00u | (mag >> 13 & 0x3ff) : r;
	return sign | r;
}
static inline uint32_t sim_f32_to_bf16(float x)
{
	uint32_t u = num_bits(x);
	uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
	return (u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40 : r;
}

/* Compiled for plain x86-64, for AVX2 with FMA and for AVX-512, chosen when the program starts. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SIM_LANES_FN __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SIM_LANES_FN
#endif
/* What only AVX-512 does well has functions of its own, asked for by sim_avx512, beside the plain ones. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SIM_AVX512 __attribute__((target("arch=x86-64-v4,prefer-vector-width=512")))
extern bool sim_has_avx512; /* lanes.c */
static inline bool sim_avx512(void) { return sim_has_avx512; }
#endif

#define SIM_FAMILY(name) void exec_##name(struct sim_wave *, const struct sim_inst *)
SIM_FAMILY(sop1); SIM_FAMILY(sop2); SIM_FAMILY(sopk); SIM_FAMILY(sopc); SIM_FAMILY(sopp); SIM_FAMILY(smem);
SIM_FAMILY(int); SIM_FAMILY(f32); SIM_FAMILY(f16); SIM_FAMILY(f64); SIM_FAMILY(cmp); SIM_FAMILY(move); SIM_FAMILY(convert);
SIM_FAMILY(scalef32); SIM_FAMILY(packed); SIM_FAMILY(mix); SIM_FAMILY(dot); SIM_FAMILY(mfma); SIM_FAMILY(smfmac);
SIM_FAMILY(ds); SIM_FAMILY(flat); SIM_FAMILY(mubuf); SIM_FAMILY(mtbuf); SIM_FAMILY(refused);
#endif
