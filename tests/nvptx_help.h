/* nvptx_help.h -- see nvptx_help.c. */
#ifndef TDSL_TEST_NVPTX_HELP_H
#define TDSL_TEST_NVPTX_HELP_H
#include <check.h>

#include "../dsl/dsl.h"
#include "device_help.h"

enum { NVPTX_KERNELS = 128 };

/* Of kernels.tdsl those that the pack holds, by name. */
struct nvptx_kernels { struct dsl_file *file; const char *names[NVPTX_KERNELS]; int n; };
extern struct nvptx_kernels nvptx_kernels;
/* main's: the kernels are read before `add`, for the number of tests depends on them; 0, or 1 where a test fails. */
int nvptx_run(const char *suite, void (*add)(TCase *));

/* A kernel and its variants; launches: of the variant built last. */
struct built { struct device_run d; struct ir_run r; struct variant *v; int n, launches; };
void built_open(struct built *, const char *kernel);          /* for sm_90a, as the pack's first line says */
/* pin: instead of those of the pack's first line; also of a kernel that kernels.tdsl has not, in tests/lower. */
void built_open_for(struct built *, const char *kernel, const char *target, struct dsl_pin *pin);
/* The same for one call of M x N on sm_90a (pin: or NULL), of the optional tensors given those of these names alone. */
void built_for(struct built *, const char *kernel, struct dsl_pin *pin, int m, int n, const char *given);
void built_close(struct built *);
bool have_assembler(const char *what);                                  /* of NVIDIA; else a line that says `what` is skipped */
int built_object(struct built *, int variant, void **bytes, size_t *);  /* 0, or -1 with text in d.err; free(*bytes) */
int built_variant(const struct built *, const char *text);              /* its number; fails the test where there is none */
struct ir_kernel *built_passed(struct built *, int variant, const char *pass);
/* Compiled; free(c->elf).  planned, asked: what its predicate and its translation ask of a call, as text, "" = nothing. */
void built_asks(struct built *, const char *variant, struct device_code *c, const char **planned, const char **asked);
const char *built_ptx(struct built *, const char *variant);             /* in the kernel's arena */
void built_run(struct built *, const struct variant *);                 /* compared with the evaluated laid-out IR bit for bit, whatever a call would take */
void built_give(struct built *, const char *given);                     /* of the optional tensors those of these names alone */
/* What a call with what is given takes, which is to be `variant`: run, and compared with the evaluated laid-out IR bit for bit. */
void built_compute(struct built *, const char *variant);
/* All of it for one call, on sm_90a: opened (pin: or NULL), given M and N and these optional tensors, computed by `variant`, closed. */
void built_call(const char *kernel, struct dsl_pin *pin, int m, int n, const char *given, const char *variant);
int built_times(const char *text, const char *word);                    /* how often the word occurs */
#endif
