/* sim_variant.h -- one variant of a pack on a simulated device, run directly on sim/ with tensors and arguments made up here.
 *
 * In: a pack's model and a variant.  Out: configurations under which a call would select this variant (shapes from a table,
 * optional tensors present or absent, other scalars, bases that are not aligned), runs of one, and a number made of every
 * output byte.  Tests that alter a variant's code use it: the object's image may be changed between runs. */
#ifndef TDSL_TESTS_SIM_VARIANT_H
#define TDSL_TESTS_SIM_VARIANT_H
#include "../runtime/pack.h"
#include "../sim/exec.h"

enum { VARIANT_GUARD = 256, VARIANT_CONFIGS = 64 };

/* start: what a tensor that is both input and output holds before a run; table: a list's, NULL for a tensor. */
struct variant_tensor { uint8_t *memory, *data, *start, *table; size_t bytes, table_bytes; int rank; int64_t extent[MODEL_MAX_RANK], stride[MODEL_MAX_RANK]; enum dtype dtype; bool out, present; };

/* present: optional tensors that are given, a bit a parameter; other: scalars that select the other way (causal, newest); shift:
 * bases one element off. */
struct variant_config { char sizes[64]; uint32_t present; bool other, shift; };

struct variant_run {
	const struct model_kernel *kernel;
	const struct model_variant *variant;
	struct variant_config config[VARIANT_CONFIGS]; int nconfigs;
	const struct variant_config *now;
	struct variant_tensor tensor[MODEL_MAX_PARAM];
	uint8_t *workspace; size_t workspace_bytes;
	int64_t symbols[MODEL_MAX_SYMBOL];
	const struct model_object *file;
	struct sim_object *object;
	struct sim_stats stats;
	char name[200], err[1200];
};

/* Loads the object.  False with a text in err. */
bool variant_open(struct variant_run *, const struct model_pack *, const struct model_kernel *, const struct model_variant *);
void variant_close(struct variant_run *);
/* Finds the configurations, smallest first, at the first call; how many.  Ends the program where none selects the variant. */
int variant_configs(struct variant_run *);
/* Makes the tensors of configuration `i` (free them by the next one, or by variant_close). */
void variant_config(struct variant_run *, int i);
/* Runs every launch on fresh tensors; 0 or the error of sim_run, its text in err.  limit: instructions of one wave; few: only the
 * first and the last workgroup of each launch, where variant_many says that there are more. */
int variant_go(struct variant_run *, bool checks, uint64_t seed, uint64_t limit, bool few);
bool variant_many(struct variant_run *);
/* A hash of the outputs, of the guards beside them and of the workspace. */
uint64_t variant_outputs(const struct variant_run *);
/* The end of the code that begins at a kernel's entry: the next kernel's or the segment's. */
uint64_t variant_code_end(const struct sim_object *, const struct sim_kernel *);
#endif
