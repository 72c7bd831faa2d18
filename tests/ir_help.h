/* ir_help.h -- for tests of tile IR: kernels from tests/ir, tensors made to their parameters' shapes, values by flat index. */
#ifndef TDSL_TEST_IR_HELP_H
#define TDSL_TEST_IR_HELP_H
#include "../compiler/ir.h"

enum { MOST_PARAMS = 64 };                              /* those of a text and its workspaces */

struct ir_run {
	struct arena arena;
	struct ir_kernel *k;
	struct ir_tensor tensors[MOST_PARAMS];
	double scalars[MOST_PARAMS];
	int64_t symbols[MOST_PARAMS];
	uint64_t random;
	char err[500];
};

char *ir_help_file(struct arena *, const char *path);            /* its text; fails the test where it cannot be read */
void ir_help_bless(const char *path, const char *text);          /* writes a golden file where BLESS is set */
bool ir_help_blessing(void);
/* Parses and verifies tests/ir/NAME.ir or, where the name holds a brace, the text itself. */
void ir_run_open(struct ir_run *, const char *name_or_text);
void ir_run_close(struct ir_run *);
void ir_run_symbol(struct ir_run *, const char *name, int64_t value);
void ir_run_scalar(struct ir_run *, const char *name, double value);
void ir_run_tile(struct ir_run *, const char *axis, int tile);   /* in every phase */
/* A dense tensor for the parameter, its extents from the symbols; inputs are filled with numbers in -scale .. scale. */
struct ir_tensor *ir_run_tensor(struct ir_run *, const char *name, double scale);
int ir_run_go(struct ir_run *);                                  /* ir_evaluate with bounds checked; text in err */
struct ir_tensor *ir_run_find(struct ir_run *, const char *name);

int64_t ir_tensor_count(const struct ir_tensor *);
double ir_tensor_get(const struct ir_tensor *, int64_t flat);    /* row-major position; follows the strides */
void ir_tensor_set(const struct ir_tensor *, int64_t flat, double value);
#endif
