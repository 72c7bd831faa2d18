/* tdsl_sim.h -- what libtdsl_sim.so offers beside HIP's functions: reports, host tensors in place, statistics.
 *
 * The library is found with dlopen like libamdhip64; these names are looked up with dlsym and are absent from a real
 * driver.  Which devices exist comes from the environment variable TDSL_SIM_CHIPS, read once: "gfx942,gfx950" where it
 * is unset (device 0 is gfx942, device 1 is gfx950).  State of a thread: current device, last error and its report,
 * statistics, seed.  Everything may be called from any thread. */
#ifndef TDSL_SIM_API_H
#define TDSL_SIM_API_H
#include <stddef.h>
#include <stdint.h>

#define TDSL_SIM_EXPORT __attribute__((visibility("default")))

/* Text of the calling thread's last failed call; never NULL.  For a kernel fault it names kernel, instruction, address,
 * the allocation nearest to it, wave, lane and source line.  Valid until the thread's next failing call. */
TDSL_SIM_EXPORT const char *tdsl_sim_last_report(void);

/* Makes [base, base+bytes) of ordinary host memory accessible to every simulated device until it is unregistered, with
 * exact bounds: an access must lie within one registration.  `name` is for reports.  Registrations may repeat and
 * overlap; each is counted.  0, or a negative number with a report.  A NULL base with 0 bytes is accepted. */
TDSL_SIM_EXPORT int tdsl_sim_register_host(const void *base, size_t bytes, const char *name, int writable);
/* Takes back one registration that starts at `base`.  Where several live ones start there, what remains covers at least
 * what the others asked for. */
TDSL_SIM_EXPORT int tdsl_sim_unregister_host(const void *base);

/* Statistics of the calling thread's launches since the last reset, as one JSON object (`tdsl-sim --stats` prints the
 * same).  Returns the length of the text, which is cut to len-1 characters. */
TDSL_SIM_EXPORT void tdsl_sim_stats_reset(void);
TDSL_SIM_EXPORT size_t tdsl_sim_stats_json(char *buf, size_t len);
/* The same numbers as `struct sim_stats` of sim.h; `size` is sizeof of the caller's struct, for versions to differ. */
TDSL_SIM_EXPORT void tdsl_sim_stats_get(void *stats, size_t size);

/* Orders the waves and workgroups of the calling thread's launches; 0, the start value, is round robin, in order. */
TDSL_SIM_EXPORT void tdsl_sim_set_seed(uint64_t seed);

/* Turns every check of docs/simulator.md on (1) or off (0) for the calling thread's launches.  -1, the start value: as
 * the environment variable TDSL_SIM_CHECKS says (0 or 1), and where it is unset, on when a seed is set.  Bounds of memory
 * are checked always. */
TDSL_SIM_EXPORT void tdsl_sim_set_checks(int on);

/* A kernel fault leaves its device failing every later call, as a real one does.  This makes `device` usable again;
 * memory and modules are kept.  0, or -1 where there is no such device. */
TDSL_SIM_EXPORT int tdsl_sim_clear_error(int device);
#endif
