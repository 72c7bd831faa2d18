/* e2e.h -- what the end-to-end tests share: devices, guarded tensors, calls.
 *
 * In: a kernel's name, dense host arrays, and how each tensor is to lie in memory (strides, an unaligned base).  Out: dense results,
 * and a failed check if the kernel touched a byte that is not an element of an output.  Every tensor lies in poisoned memory
 * with poison on both sides and between its rows; the simulated device itself reports accesses beyond a tensor's extent. */
#ifndef E2E_H
#define E2E_H
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include "../runtime/include/tdsl.h"
#include "ref/ref.h"

enum { E2E_GUARD = 256, E2E_POISON = 0xa5 };

struct e2e_chip { const char *name, *device; enum ref_code fp8, bf8; };
extern const struct e2e_chip e2e_chips[2];

enum e2e_type { E2E_BF16, E2E_F16, E2E_F32, E2E_I32, E2E_I8, E2E_E4M3FN, E2E_E4M3FNUZ, E2E_E8M0, E2E_E2M1, E2E_E5M2, E2E_E5M2FNUZ, E2E_U8, E2E_BOOL };
enum e2e_type e2e_code_type(enum ref_code);
enum ref_code e2e_type_code(enum e2e_type);            /* of such a type */
enum e2e_type e2e_half_type(enum ref_half);

/* How a tensor lies: the rows' pitch and the innermost step in elements (0 = compact), elements between an aligned address and
 * the base; swapped: of four dimensions the middle two lie in the other order in memory; turned: the call has the last two in the other
 * order, compact. */
struct e2e_place { int64_t pitch, step, shift; bool swapped, turned; };

struct e2e_tensor {
	DLTensor t;
	int64_t shape[8], strides[8];                        /* of the dense array */
	int64_t call_shape[8], call_strides[8];
	uint8_t *memory, *element;   /* the whole allocation; 1 for bytes that belong to an element */
	size_t bytes, size;          /* of the allocation; of one element */
	bool output;
};

/* A tensor of `rank` dimensions; `dense` (may be NULL: stays poison) is copied in.  E2E_E2M1: shape and place count elements, the
 * bytes hold two each, and so do the struct's own fields.  Free with e2e_free. */
struct e2e_tensor *e2e_tensor(enum e2e_type, int rank, const int64_t *shape, struct e2e_place, const void *dense);
void e2e_free(struct e2e_tensor *);
/* Elements in order into `dense`; checks that no other byte changed. */
void e2e_read(struct e2e_tensor *, void *dense, const char *what);

/* Opens the device and the pack ($B/kernels.tpack) and makes the device the default; once a process and device. */
tdsl_kernel e2e_kernel(const struct e2e_chip *, const char *name, tdsl_stream *stream);
/* Whether the pack holds code of it; else a call compiles it. */
bool e2e_shipped(const struct e2e_chip *, const char *name);
/* Calls and requires success: a list of tensors and scalars as union tdsl_arg. */
void e2e_call(const struct e2e_chip *, const char *name, const union tdsl_arg *args, int n, const char *what);
/* Calls and requires this error, in a message that holds `words`. */
void e2e_refused(const struct e2e_chip *, const char *name, const union tdsl_arg *args, int n, int error, const char *words, const char *what);

/* Whether the next case of this kernel runs: all, or those of sample.h, counted in each test by itself. */
bool e2e_takes(const char *kernel);

/* Zeroes; never NULL.  free() them. */
void *room(int64_t n, size_t size);

/* Runs the suite made by `suite` as a program: totals on stdout, 0 if all passed. */
int e2e_main(Suite *);
#endif
