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

enum { CHECK_SCC = 132, CHECK_SGPRS = 136, CHECK_VGPRS = 512 + 64, CHECK_RING = 128, CHECK_WAVES = 16 };

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
	uint16_t step[2]; uint8_t parts;        /* LDS: byte offsets of the one or two accesses */
	bool trans, is_dot;                     /* check_hazard.c */
	uint8_t passes;                         /* matrix instructions: of 4 clocks */
};
void check_use_of(struct check_use *, const struct sim_inst *, const struct sim_chip *);
int check_mfma_regs(const struct sim_inst *, int k); /* registers of source k of a matrix instruction */

/* Memory operations complete in the order of their counter: a register is in flight while the number of the operation
 * that writes it is above the number known to be done. */
enum { COUNT_VM, COUNT_LGKM, COUNT_SMEM, COUNTS };
struct check_wave {
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
};

/* Who touched four bytes of LDS last.  Numbers are those of check_wave's operations. */
struct check_lds { uint32_t number, at; uint8_t wave, count, mask, undef; };

struct check {
	struct sim_group *group;
	struct check_use *use;
	struct check_wave *wave; uint32_t nwaves;
	struct check_lds *lds; uint32_t *lds_read, *lds_read_at; /* of each dword: nwaves operation numbers, one instruction */
	struct check_global *global;            /* shared by the launch's threads */
	uint32_t workgroup;                     /* running number + 1 */
	struct check_page *page; uint64_t page_key; /* used last */
};

/* NULL without memory. */
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

/* check_hazard.c */
bool hazard_before(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *);
void hazard_after(struct check *, struct sim_wave *, const struct sim_inst *, const struct check_use *);
/* check_memory.c: the addresses of an access; lanes that touch no memory have 0 bytes.  from: the caller's, 0 or the first byte
 * asked for; piece: where not 0 the lanes are those of this many bytes only, and the access goes on after them. */
struct check_lanes { uint64_t addr[LANES]; uint8_t bytes[LANES], from, piece; };
void check_lds_lanes(const struct sim_wave *, const struct sim_inst *, const struct check_use *, int part, struct check_lanes *);
void check_memory_lanes(const struct sim_wave *, const struct sim_inst *, const struct check_use *, struct check_lanes *);
/* Of flat addresses, those in LDS as offsets and those in memory; false where none is in LDS. */
bool check_flat_lanes(struct sim_wave *, const struct check_lanes *all, struct check_lanes *lds, struct check_lanes *memory);
/* check_undef.c */
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
