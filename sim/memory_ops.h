/* memory_ops.h -- what memory instructions and LDS share: lane addresses, moves of whole rows, atomic operations on one value. */
#ifndef TDSL_SIM_MEMORY_OPS_H
#define TDSL_SIM_MEMORY_OPS_H
#include "exec.h"

bool sim_is_atomic(const struct sim_inst *);
void sim_flat_atomic(struct sim_wave *, const struct sim_inst *);
void sim_buffer_atomic(struct sim_wave *, const struct sim_inst *);

/* Host pointer of one lane's access, or NULL after sim_fail; for buffers also NULL with *inside false when the access is
 * beyond the records and has to be dropped. */
void *sim_flat_lane(struct sim_wave *, const struct sim_inst *, int lane, uint32_t size, bool write);
void *sim_buffer_lane(struct sim_wave *, const struct sim_inst *, int lane, uint32_t size, bool write, bool *inside);
/* Where lane `lane` of a copy to LDS writes, or NULL after sim_fail. */
uint8_t *sim_lds_target(struct sim_wave *, const struct sim_inst *, int lane, uint32_t bytes);

/* The 4 or 8 bytes of a lane in registers from `reg`. */
static inline uint64_t sim_lane_data(const struct sim_wave *w, unsigned reg, int lane, unsigned bytes)
{
	return w->vgpr[reg][lane] | (bytes == 8 ? (uint64_t)w->vgpr[reg + 1][lane] << 32 : 0);
}

/* lanes.c: where the accesses of all active lanes lie, [lo, hi); dense: lane after lane without gaps.  Inactive lanes take
 * the address of the first active one, so that what follows may touch it. */
struct sim_span { uint64_t lo, hi; bool dense; };
struct sim_span sim_span_of(uint64_t addr[LANES], uint64_t exec, unsigned bytes);
/* 1 to 4 dwords a lane under EXEC between registers from `reg` and host addresses that were checked and passed sim_span_of. */
void sim_lanes_load(struct sim_wave *, unsigned reg, const uint64_t addr[LANES], bool dense, unsigned words);
void sim_lanes_store(struct sim_wave *, unsigned reg, const uint64_t addr[LANES], bool dense, unsigned words);
/* The same where all lanes are active and an address is base + at[lane]: lowest and highest of `at`, and the moves.  Lanes may follow
 * each other without gaps: all of them, or each four, 16 bytes a lane. */
enum sim_order { SIM_SCATTERED, SIM_FOURS, SIM_DENSE };
struct sim_extent { uint32_t lo, hi; enum sim_order order; };
struct sim_extent sim_extent_of(const uint32_t at[LANES], unsigned bytes);
void sim_lanes_load_all(uint32_t (*reg)[LANES], const uint8_t *base, const uint32_t at[LANES], enum sim_order, unsigned words);
void sim_lanes_store_all(uint32_t (*reg)[LANES], uint8_t *base, const uint32_t at[LANES], enum sim_order, unsigned words);

/* The operations, named as LDS and memory opcodes share them. */
enum sim_atomic {
	AT_NONE, AT_SWAP, AT_CMPSWAP, AT_ADD, AT_SUB, AT_RSUB, AT_SMIN, AT_UMIN, AT_SMAX, AT_UMAX, AT_AND, AT_OR, AT_XOR,
	AT_INC, AT_DEC, AT_ADD_F32, AT_ADD_F64, AT_MIN_F32, AT_MAX_F32, AT_MIN_F64, AT_MAX_F64, AT_PK_ADD_F16,
	AT_PK_ADD_BF16, AT_MSKOR, AT_CMPSWAP_F32, AT_CMPSWAP_F64, AT_WRAP
};
/* The operation of opcodes 0x00 to 0x0c of an atomic group of scalar and vector memory, which agree. */
enum sim_atomic sim_atomic_plain(unsigned k);
/* New value of a 32-bit (bytes 4) or 64-bit location; `cmp` is the comparison value, or the mask of AT_MSKOR. */
uint64_t sim_atomic_value(enum sim_atomic, unsigned bytes, uint64_t old, uint64_t data, uint64_t cmp);
/* The read-modify-write on memory other host threads may touch.  Returns the old value. */
uint64_t sim_atomic_apply(void *p, enum sim_atomic, unsigned bytes, uint64_t data, uint64_t cmp);
#endif
