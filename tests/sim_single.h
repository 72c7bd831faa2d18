/* sim_single.h -- one wave that executes one instruction at a time, for tests of single instructions.
 *
 * In: a chip, registers, instruction words.  Out: registers.  The instructions' rows of sim/inst.def are there as a table. */
#ifndef TDSL_TESTS_SIM_SINGLE_H
#define TDSL_TESTS_SIM_SINGLE_H
#include "../sim/exec.h"

struct sim_row { const char *name; uint16_t enc, opcode; uint8_t chips; };
extern const struct sim_row sim_rows[];
extern const int sim_nrows;
/* NULL where there is none of that name. */
const struct sim_row *sim_row_of(const char *name);

struct sim_single {
	uint32_t vgpr[320][LANES];
	struct sim_wave wave;
	struct sim_group group;
	struct sim_launch launch;
	struct sim_kernel kernel;
	struct sim_object object;
	char err[600];
};
/* A wave with all lanes, of a kernel with 256 VGPRs and no AGPRs. */
void sim_single_start(struct sim_single *, const char *chip);
/* Fails the test where the words are another instruction, or one that stops the wave. */
void sim_single_run(struct sim_single *, const char *name, const uint32_t *words, int n);
/* Whether the wave executes the words, or stops at them as not modelled. */
bool sim_single_takes(struct sim_single *, const uint32_t *words, int n);
#endif
