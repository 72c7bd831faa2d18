/* llvm_shim.h -- what the LLVM C API lacks, behind plain C: codegen with our options, a reused pass pipeline, lld in process.
 *
 *   LLVMModuleRef -> shim_emit -> object bytes (or assembly text) -> shim_link -> code object bytes
 *
 * A machine belongs to one thread at a time; shim_link may be called from any thread (lld allows one link at a time, so a lock
 * inside serialises them).  Nothing here prints or exits: LLVM's fatal errors come back as -1 with their text. */
#ifndef TDSL_LLVM_SHIM_H
#define TDSL_LLVM_SHIM_H
#include <llvm-c/Types.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shim_machine;

/* A target machine for one chip (features: LLVM's, "" = the chip's own), made with: fused multiply-add only where the IR says so (FPOpFusion::Strict), codegen
 * level 2 ("default").  NULL with text where LLVM does not know the triple. */
struct shim_machine *shim_machine_new(const char *triple, const char *cpu, const char *features, char *err, size_t errlen);
void shim_machine_free(struct shim_machine *);

/* SHIM_KEPT: the instructions stand in an order worth keeping, and no two are equal (pass_loads.c, pass_clean.c): LLVM neither schedules
 * before register allocation nor looks for equal ones as often.  SHIM_KEPT_PLAIN: nor do equal ones come up on the way, as addresses
 * of tiles in group memory do: it does not look for them once they are machine instructions.  SHIM_RESCHEDULED: that order
 * holds more than there are registers, but addresses are as cheap. */
enum shim_order { SHIM_OWN, SHIM_KEPT, SHIM_KEPT_PLAIN, SHIM_RESCHEDULED, SHIM_ORDERS };

/* Generates code for the module (consumed in every case).  *bytes is malloc'ed, and ends in a NUL not counted in *size.
 * 0, or -1 with text.  Errors that LLVM reports as diagnostics go to the context's handler, and -1 is not returned for them:
 * the caller looks at what its handler collected.
 * order: says what LLVM need not do.
 * *broken is set where LLVM gave up half-way (a fatal error): its context and this machine must not be used or freed any
 * more; they are leaked, which is the price of not exiting. */
int shim_emit(struct shim_machine *, LLVMModuleRef, bool assembly, enum shim_order, char **bytes, size_t *size, bool *broken, char *err, size_t errlen);

/* Links one relocatable object to a shared object, as `ld.lld -shared --no-undefined` does.  *elf is malloc'ed. */
int shim_link(const void *object, size_t object_size, void **elf, size_t *elf_size, char *err, size_t errlen);

/* Links objects and shared libraries to a shared one, as `ld.lld -shared OPTIONS INPUTS` does; options: NULL-terminated. */
struct shim_input { const void *bytes; size_t size; };
int shim_link_inputs(const struct shim_input *, int n, const char *const *options, void **elf, size_t *elf_size, char *err, size_t errlen);

/* A compile unit of which only lines are asked.  directives: in the assembly text, not as sections beside it (PTX for optimised code). */
LLVMMetadataRef shim_line_unit(LLVMDIBuilderRef, LLVMMetadataRef file, const char *producer, bool directives);

/* The calling thread's reader of one chip's machine code, kept until the thread ends; NULL where LLVM does not know the chip. */
struct shim_reader;
struct shim_reader *shim_reader_of(const char *triple, const char *cpu);
/* Reads one instruction: its bytes, 0 where there is none; *mnemonic (static) starts with its name. */
int shim_read(struct shim_reader *, const void *code, size_t size, const char **mnemonic);
/* The same instruction's text, without blanks around it, NUL-terminated; 0 where there is none. */
int shim_spell(struct shim_reader *, const void *code, size_t size, unsigned long long address, char *text, size_t length);

/* Rows of the object's line table: code from `address` on comes from `line` of the text.  malloc'ed, by address; none is no error. */
struct shim_line { unsigned long long address; int line; };
int shim_lines(const void *elf, size_t elf_size, struct shim_line **rows, int *n);

#ifdef __cplusplus
}
#endif
#endif
