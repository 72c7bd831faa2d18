/* sim.h -- the inside of the simulated device: chips, memory, code objects, one launch.
 *
 * Way of the data: object.c reads an ELF code object into a sim_object (kernels with their descriptors and metadata);
 * memory.c knows every allocation; a sim_launch names a kernel, its grid and arguments; core.c deals workgroups to host
 * threads and steps their waves; decode.c turns words into sim_inst by table; exec_*.c execute one family each.
 * hip.c wraps all of it in HIP's symbols.  Device addresses are host addresses, so host tensors can be used in place.
 * Errors: 0 or a negative SIM_E*, with the text in the buffer given. */
#ifndef TDSL_SIM_H
#define TDSL_SIM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_OK = 0, SIM_EOBJECT = -1, SIM_ELAUNCH = -2, SIM_EFAULT = -3, SIM_EINST = -4, SIM_EHANG = -5, SIM_ENOMEM = -6,
       SIM_EARCH = -7 /* a sound code object, but for another chip */,
       SIM_ECHECK = -8 /* a report of the checks (sim_launch.checks) */ };

/* Facts of one chip; rows in chip.c. */
struct sim_chip {
	const char *name;     /* "gfx942" */
	const char *product;  /* "AMD Instinct MI300X" */
	int elf_mach;         /* e_flags EF_AMDGPU_MACH */
	int cus, simds_per_cu, xcds;
	int lds_bytes, lds_granule, vgprs, sgprs;
	int clock_khz;
	bool fp8_fnuz;        /* native fp8 is FNUZ (gfx942), else OCP */
	bool gfx950;          /* has the gfx950 additions to the instruction set (decoder row filter) */
	uint64_t memory_bytes;
	int memory_clock_khz, memory_bus_bits, l2_bytes; /* l2_bytes: of one XCD */
};
const struct sim_chip *sim_chip_by_name(const char *name);
const struct sim_chip *sim_chip_at(int index); /* NULL past the last */

/* Allocations: [base, base+size) with a name for reports.  Thread safe.  sim_memory_find returns false where no
 * allocation holds all of [addr, addr+size).  Allocations may overlap and repeat (tensors that are views of one buffer):
 * an access is good where one of them holds it.  sim_memory_remove takes one that starts at `base`; where several do,
 * what remains covers at least what the others asked for.  A size of 0 is an allocation that holds nothing. */
struct sim_memory;
struct sim_memory *sim_memory_new(void);
void sim_memory_free(struct sim_memory *);
int sim_memory_add(struct sim_memory *, const void *base, size_t size, const char *name, bool writable);
int sim_memory_remove(struct sim_memory *, const void *base);
bool sim_memory_find(struct sim_memory *, uint64_t addr, size_t size, bool write);
/* The allocation [*lo, *hi) that holds the byte at `addr`, for callers that keep the last ranges they used; where several
 * do, a writable one first, then the one reaching furthest.  False where none does.  What lies outside the range given
 * may still be good by another allocation: sim_memory_find decides. */
bool sim_memory_range(struct sim_memory *, uint64_t addr, uint64_t *lo, uint64_t *hi, bool *writable);
/* Whether an allocation that kernels may write reaches into [lo, hi). */
bool sim_memory_written(struct sim_memory *, uint64_t lo, uint64_t hi);
/* Text for a report: the nearest allocation and the distance, e.g. "2 bytes past the end of 'x' (8192 bytes)". */
void sim_memory_describe(struct sim_memory *, uint64_t addr, size_t size, char *buf, size_t len);

/* One kernel of a code object, from its descriptor (.kd) and the NT_AMDGPU_METADATA note. */
struct sim_arg { uint32_t offset, size; const char *kind; const char *name; };
struct sim_kernel {
	const char *name;
	uint64_t entry;               /* offset of the first instruction inside sim_object.image */
	uint32_t kernarg_size, lds_bytes, scratch_bytes;
	uint32_t vgprs, agprs, sgprs; /* allocated: v0..v(vgprs-1), a0..a(agprs-1), s0..s(sgprs-1) */
	uint32_t accum_offset;        /* a0 is register accum_offset of the unified file, so vgprs = accum_offset where agprs > 0 */
	uint32_t rsrc1, rsrc2, rsrc3, properties; /* descriptor words as they stand */
	uint32_t preload_length, preload_offset;  /* kernarg preload, dwords */
	uint32_t max_workgroup;
	const struct sim_arg *args; int nargs;
};
struct sim_object {
	const struct sim_chip *chip;
	uint8_t *image; size_t image_size;  /* segments laid out as loaded, relocated */
	size_t code_size;                   /* up to the end of what the file holds of the last executable segment */
	struct sim_kernel *kernels; int nkernels;
	struct sim_symbol { const char *name; uint64_t offset, size; } *symbols; int nsymbols; /* data objects (globals) */
	void *line_table;                   /* DWARF lines, decoded on first use */
	struct sim_code *code;              /* decoded instructions; sim_object_free passes the object to sim_code_free */
	struct sim_segment { uint64_t offset, size; bool writable, executable; } *segments; int nsegments; /* by offset */
};
/* Reads `size` bytes of an ELF code object for `chip`.  Checks everything; text in err. */
int sim_object_load(struct sim_object **out, const struct sim_chip *chip, const void *bytes, size_t size, char *err, size_t errlen);
void sim_object_free(struct sim_object *);
void sim_code_free(struct sim_object *);
const struct sim_kernel *sim_object_kernel(const struct sim_object *, const char *name);
/* Adds the segments of the image to `memory`, as "code object" with each segment's own right to be written; and back. */
int sim_object_map(struct sim_object *, struct sim_memory *memory);
void sim_object_unmap(struct sim_object *, struct sim_memory *memory);
/* "file.tdsl:12" of the instruction at `offset` in the image, or "" */
void sim_object_line(struct sim_object *, uint64_t offset, char *buf, size_t len);

enum sim_class { SIM_VALU, SIM_SALU, SIM_MFMA, SIM_LDS, SIM_VMEM, SIM_SMEM, SIM_WAIT, SIM_BARRIER, SIM_BRANCH, SIM_OTHER, SIM_NCLASS };
struct sim_stats {
	uint64_t inst[SIM_NCLASS];       /* wave-instructions executed */
	uint64_t waves, workgroups;
	uint64_t mfma_flops;             /* 2*M*N*K (x blocks) of every matrix instruction */
	uint64_t global_read, global_written; /* bytes, active lanes only */
	uint64_t lds_read, lds_written, lds_conflicts; /* conflicts: extra bank cycles by the chip's phases */
};

/* One JSON object on one line: {"valu":..,"salu":..,...,"instructions":total,"waves":..,...}.  The text is cut to len-1
 * characters; returns its whole length, as snprintf does. */
size_t sim_stats_json(const struct sim_stats *, char *buf, size_t len);

struct sim_launch {
	struct sim_object *object;
	const struct sim_kernel *kernel;
	struct sim_memory *memory;
	uint32_t grid[3];      /* workgroups */
	uint32_t block[3];     /* lanes */
	uint32_t dynamic_lds;
	const void *kernarg; size_t kernarg_size;
	uint64_t seed;         /* orders waves and workgroups; 0 = round robin, in order */
	uint64_t max_inst;     /* per wave; 0 = a large default; beyond it SIM_EHANG */
	int threads;           /* host threads; 0 = all cores */
	uint32_t few;          /* how many workgroups run: the first ones and the last; 0 = all */
	bool checks;           /* every check of docs/simulator.md; bounds are always checked */
	struct sim_stats *stats; /* may be NULL; added to */
};
/* Whether the driver fills in this argument itself ("hidden_block_count_x", ...). */
bool sim_arg_hidden(const struct sim_arg *);
/* Fills the hidden arguments of `kernarg` (kernel->kernarg_size bytes) for a launch; unknown kinds are set to 0. */
void sim_kernarg_hidden(const struct sim_kernel *, const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_lds,
                        void *kernarg);
/* Runs a launch to its end.  On error err names kernel, instruction text, address, wave and lane, and the .tdsl line. */
int sim_run(const struct sim_launch *, char *err, size_t errlen);
#endif
