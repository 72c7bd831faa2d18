/* check.h -- the checks of a launch: what core.c calls around each instruction, and what the check_*.c files share.
 *
 * Way of the data: check_use.c says once for each instruction which registers it reads and writes and what it does to
 * memory; check.c keeps the checks of one host thread and, before each instruction, asks in turn whether a register is
 * still in flight (check.c), undefined (check_undef.c) or too fresh without wait states (check_hazard.c); race.c and
 * check_memory.c follow who touched which byte of LDS and of global memory.  Nothing here changes what a kernel
 * computes: results are in registers at once, the checks only know when hardware would have them. */
#ifndef TDSL_SIM_CHECK_H
#define TDSL_SIM_CHECK_H
#include "exec.h"

enum { CHECK_SCC = 132, CHECK_SGPRS = 136, CHECK_VGPRS = 512 + 64, CHECK_RING = 128, CHECK_BITS = 12 };

struct check_regs { uint16_t first; uint8_t n; };

/* What an instruction does to memory. */
enum check_access { ACCESS_NONE, ACCESS_LDS, ACCESS_VMEM, ACCESS_DMA, ACCESS_FLAT, ACCESS_SCRATCH, ACCESS_SMEM };

struct check_use {
	bool ready;
	uint8_t nread, nwrite, nsread, nswrite;
	struct check_regs read[6], write[3], sread[6], swrite[3]; /* vector and scalar registers */
	uint8_t access, bytes;                  /* bytes of one lane's access; LDS: of each of its one or two */
	bool load, store, atomic, transposed;   /* an atomic that returns is a load as well */
	uint8_t addresses;                      /* registers of the address, read[0 ..] */
	uint16_t lds_number;                    /* LDS: running number among the kernel's accesses, from 1 on */
	uint16_t step[2]; uint8_t parts;        /* LDS: byte offsets of the one or two accesses */
	bool trans, is_dot;                     /* check_hazard.c */
	uint8_t passes;                         /* matrix instructions: of 4 clocks */
	uint16_t kind;                          /* bits of check_hazard.c */
	bool paces;                             /* writes a scalar register that another instruction may have to wait for */
	bool f64, xdl;                          /* matrix instructions: which unit */
	bool high;                              /* memory: the upper half of the data register */
	bool whole;                             /* a vector result is written in all its bits and active lanes */
	/* the same registers as bits of words of the maps of check_wave: vector ones read, then written, then scalar ones */
	struct { uint64_t mask; uint16_t word; } bits[CHECK_BITS];
	bool crowded;                           /* there are more */
	uint8_t vread_end, vwrite_end, sread_end, swrite_end;
};
void check_use_of(struct check_use *, const struct sim_inst *);

/* Memory operations complete in the order of their counter: a register is in flight while the number of the operation
 * that writes it is above the number known to be done. */
enum { COUNT_VM, COUNT_LGKM, COUNT_SMEM, COUNTS };
/* A bit a register, and a spare word so that a range may be looked up in two. */
enum { CHECK_VMAP = CHECK_VGPRS / 64 + 2, CHECK_SMAP = CHECK_SGPRS / 64 + 2 };
struct check_wave {
	/* registers that are in flight, or may be, and that are undefined in part: an instruction that touches none of them
	 * passes without a closer look */
	uint64_t vflight[CHECK_VMAP], sflight[CHECK_SMAP], vundef[CHECK_VMAP], sundefined[CHECK_SMAP];
	uint32_t issued[COUNTS], done[COUNTS];
	uint32_t visible[COUNTS];               /* done when the wave reached its last barrier */
	uint32_t at[COUNTS][CHECK_RING];        /* instruction of each operation */
	uint32_t vm[CHECK_VGPRS], lgkm[CHECK_VGPRS], smem[CHECK_SGPRS];
	uint32_t epoch;                         /* barriers passed */
	/* check_undef.c: lanes of the lower and upper half of each vector register, bits of each scalar one */
	uint64_t undef[CHECK_VGPRS][2];
	uint32_t sundef[CHECK_SGPRS];
	/* check_hazard.c: the time in wait states, and when and by what each register was written */
	uint64_t time, double_time;             /* double_time: of the last matrix instruction of f64 */
	uint32_t double_from;
	uint64_t vtime[CHECK_VGPRS], stime[CHECK_SGPRS], ctime[CHECK_VGPRS];
	uint32_t vfrom[CHECK_VGPRS], sfrom[CHECK_SGPRS], cfrom[CHECK_VGPRS];
	uint64_t vector_until, scalar_until;    /* the time to which what was executed may ask for wait states */
};

/* Who touched four bytes of LDS last.  Numbers are those of check_wave's operations. */
struct check_lds { uint32_t number, at; uint8_t wave, count, mask, undef; };

/* The same of 64 dwords in a bit each, for the usual access to ask: touched since all waves were last known to be in order. */
struct check_lds_map { uint64_t written, read, undef; };

/* An access of all lanes to LDS that was plain (check_lds.c), to be known again: the instruction, the addresses before their offset, and
 * the dwords in the words of lds_map from `first` on; and its notes that are put off. */
enum { CHECK_LDS_PLAIN = 1024, CHECK_LDS_WORDS = 40, CHECK_LDS_NOTES = 1024 };
struct check_lds_plain { uint32_t from, step; uint8_t part, wave, dwords, n; bool store; uint16_t first; uint32_t row[LANES]; uint64_t mask[CHECK_LDS_WORDS]; };
struct check_lds_note { uint32_t plain, number; };

struct check {
	struct sim_group *group;
	uint64_t code;                          /* sim_code.number */
	struct check_use *use;
	struct check_wave *wave; uint32_t nwaves;
	struct check_lds *lds; uint32_t *lds_read, *lds_read_at; /* operation numbers, wave by wave of all dwords; one instruction a dword */
	uint32_t *quad_read, *quad_read_at;     /* the same of four dwords that were read together */
	struct check_lds_map *lds_map; size_t lds_dwords;
	struct check_lds_plain *lds_plain; struct check_lds_note *lds_notes; unsigned lds_noted;
	uint16_t lds_numbered;                  /* accesses to LDS among the kernel's instructions so far */
	bool dma;                               /* this workgroup copies from memory to LDS */
	struct check_global *global;            /* shared by the launch's threads */
	uint32_t workgroup;                     /* running number + 1 */
	struct check_page *page; uint64_t page_key; /* used last */
	struct { uint64_t lo, hi; } constant[4]; unsigned constant_next; /* memory that no kernel may write, found last */
};

/* NULL without memory.  What is freed is kept for the next launch of the same kernel; of such there are at most CHECK_SPARE. */
enum { CHECK_SPARE = 4 };
struct check *check_new(struct sim_group *, uint32_t nwaves, struct check_global *);
void check_free(struct check *);
void check_start_group(struct check *, struct sim_wave *waves, uint64_t number);
/* A barrier opens for all waves. */
void check_barrier(struct check *);
/* Before and after an instruction is executed; before returns false after it has reported. */
bool check_before(struct check *, struct sim_wave *, const struct sim_inst *);
void check_after(struct check *, struct sim_wave *, const struct sim_inst *);
/* ".. mnemonic at 0x.. file:line" of another instruction, for reports. */
const char *check_place(const struct check *, uint32_t at, char *buf, size_t len);

/* The addresses of an access; lanes that touch no memory have 0 bytes.  all: every lane has as many, none is out of bounds. */
struct check_lanes { uint64_t addr[LANES]; uint8_t bytes[LANES], from, piece; bool all; };

static inline bool check_any(const uint64_t *map, unsigned first, unsigned n)
{
	unsigned i = first / 64, shift = first % 64;
	uint64_t bits = map[i] >> shift | (shift ? map[i + 1] << (64 - shift) : 0);
	return bits & (n < 64 ? (UINT64_C(1) << n) - 1 : ~UINT64_C(0));
}
static inline void check_mark(uint64_t *map, unsigned at, bool on)
{
	map[at / 64] = (map[at / 64] & ~(UINT64_C(1) << at % 64)) | (uint64_t)on << at % 64;
}
static inline void check_mark_undef(struct check *c, unsigned dword)
{
	check_mark(&c->lds_map[dword / 64].undef, dword % 64, c->lds[dword].undef != 0);
}

/* check_lds.c: does all that race_lds and undef_lds do for an access of whole aligned dwords that meets nothing of note; false,
 * and nothing done, for any other. */
bool lds_plain(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *, int part, const struct check_lanes *);
/* The same for an access that was plain before, without its addresses.  What it notes of each dword is put off until lds_notes, which
 * has to be called before anything else looks at it, or for good with lds_forget. */
bool lds_known(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *, int part);
void lds_notes(struct check *);
static inline void lds_forget(struct check *c) { c->lds_noted = 0; }

/* check_hazard.c: the first four are asked once for each instruction of a kernel */
unsigned hazard_kind(const struct sim_inst *, const struct check_use *);
bool hazard_paces(const struct check_use *);
bool hazard_is_f64(const struct sim_inst *);
bool hazard_is_xdl(const struct sim_inst *);
bool hazard_before(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *);
void hazard_after(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *);
/* check_memory.c.  A wide access to a swizzled buffer comes apart: `from` is the caller's, the first byte asked for; where `piece` is not
 * 0 the lanes are those of this many bytes only, and the access goes on after them. */
void check_lds_lanes(const struct sim_wave *, const struct sim_inst *, const struct check_use *, int part, struct check_lanes *);
void check_memory_lanes(const struct sim_wave *, const struct sim_inst *, const struct check_use *, struct check_lanes *);
/* Of flat addresses, those in LDS as offsets and those in memory; false where none is in LDS. */
bool check_flat_lanes(struct sim_wave *, const struct check_lanes *all, struct check_lanes *lds, struct check_lanes *memory);
/* check_undef.c: undef_clear for lanes of registers that are loaded, undef_written for all that an instruction writes whose
 * sources are defined. */
void undef_clear(struct check_wave *, unsigned reg, unsigned count, uint64_t lanes);
bool undef_written(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *);
bool undef_whole(const struct sim_inst *);
void undef_start(struct check_wave *, const struct sim_wave *);
bool undef_before(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *);
void undef_lds(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *, int part, const struct check_lanes *);
bool undef_global(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *, const struct check_lanes *);
/* race.c */
bool race_lds(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *, const struct check_lanes *);
bool race_global(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *, const struct check_lanes *);
struct check_global *check_global_new(void);
void check_global_free(struct check_global *);
#endif
