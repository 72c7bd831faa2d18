/* sim_build.h -- code objects for tests: LLVM's own tools on the texts in tests/sim.
 * In: the name of a .ll file there, a chip, further options of llc.  Out: the linked object's bytes, to be freed.
 * llc-22 and ld.lld-22 are found on PATH; the environment variable TDSL_TESTS names the tests' folder ("tests"). */
#ifndef TDSL_TESTS_SIM_BUILD_H
#define TDSL_TESTS_SIM_BUILD_H
#include <stddef.h>
#include <stdint.h>

uint8_t *sim_build(const char *name, const char *chip, const char *llc_options, size_t *size);
/* The same from a .ll file anywhere. */
uint8_t *sim_build_file(const char *path, const char *chip, const char *llc_options, size_t *size);
/* The same from assembler text; it may start with lines of tests/sim by `.include "exec.s"`.  Needs llvm-mc-22. */
uint8_t *sim_build_asm(const char *assembly, const char *chip, size_t *size);
#endif
