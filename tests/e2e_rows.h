/* e2e_rows.h -- calls of row kernels, argument by argument, and the comparison of each output with f64.
 *
 * In: values as doubles, rounded to a tensor's type here (the rounded ones are what the references get).  Out: checks that fail with the
 * call's description.  Arguments are added in the order of the kernel's signature; call_end frees everything. */
#ifndef E2E_ROWS_H
#define E2E_ROWS_H
#include "e2e.h"
#include "ref/rows.h"

enum { CALL_ARGS = 24 };
struct call {
	const struct e2e_chip *chip;
	const char *kernel;
	char what[400];
	struct ref_random random;
	union tdsl_arg args[CALL_ARGS];
	struct e2e_tensor *tensors[CALL_ARGS];
	enum e2e_type types[CALL_ARGS];
	double *values[CALL_ARGS];            /* of inputs: as the kernel sees them */
	int64_t count[CALL_ARGS];
	int n;
	bool rounds_within;                   /* the kernel's text rounds to 16 bits before its result is */
};

/* rank and shape as (rank, (int64_t[]){..}); place as for e2e_tensor. */
struct shape { int rank; int64_t n[4]; struct e2e_place place; };
#define SHAPE(...) (struct shape){(int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), {__VA_ARGS__}, {0}}
#define TURNED(...) (struct shape){(int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), {__VA_ARGS__}, {.turned = true}}   /* to the call, the last two */
struct shape rows_of(int64_t batch, int64_t m, int64_t columns, struct e2e_place); /* batch 0: of two dimensions */

/* Zeroes, and v [rows, n] with its dimensions changed over; free them. */
double *doubles(int64_t n);
double *transposed(const double *v, int64_t rows, int64_t n);

void call_begin(struct call *, const struct e2e_chip *, const char *kernel, const char *more, ...) __attribute__((format(printf, 4, 5)));
/* Random numbers of this size.  The rounded values. */
double *call_in(struct call *, enum e2e_type, struct shape, double size);
/* These numbers; also for inout tensors. */
double *call_values(struct call *, enum e2e_type, struct shape, const double *);
void call_absent(struct call *);
void call_number(struct call *, double);
void call_integer(struct call *, int64_t);
/* The position of an output: for the comparisons below. */
int call_out(struct call *, enum e2e_type, struct shape);
/* The same, or an absent one: -1. */
int call_maybe(struct call *, bool there, enum e2e_type, struct shape);
void call_go(struct call *);
/* The call is refused with this error, in a message that holds `words`. */
void call_refused(struct call *, int error, const char *words);
void call_end(struct call *);

/* The elements of an output, e2m1's codes one a byte; free it. */
void *call_result(struct call *, int arg);
/* Comparisons with the whole tensor number `arg`.  16 bits: within an ulp as ref.h says; f32: within `relative` plus `absolute`. */
void call_plain(struct call *, int arg, const double *want, int64_t columns);
/* Floats, each within its bound. */
void call_within(struct call *, int arg, const double *want, const double *bounds);
void call_near(struct call *, int arg, const double *want, double relative, double absolute);
void call_codes(struct call *, int arg, const double *want);
/* Codes of some number within `absolute` of the wanted one. */
void call_codes_within(struct call *, int arg, const double *want, double absolute);
void call_scales(struct call *, int arg, const double *want);
/* Scales that are powers of two, before they and codes are compared: of a group whose largest number is so near to where the next one begins
 * that f32 may fall on either side, what was found is wanted, and y [rows, n] in units of it. */
void call_settle(struct call *, int arg, enum ref_code, double *y, double *scale, int64_t rows, int64_t n, int64_t group);
/* Whatever the type: codes, 16 bits or f32 to 2^-20. */
void call_any(struct call *, int arg, const double *want, int64_t columns);

bool e2e_full(void);
/* The type of inputs and plain outputs: bf16, or what E2E_IN says (f16, f32). */
enum e2e_type e2e_input(void);
#endif
