/* object.h -- LLVM module -> linked code object, and the facts read back from its bytes.
 *
 * A session owns an LLVM context and target machines for one thread.  Linking runs in process (lld), one link at a time.
 * Every object is disassembled for its own CPU before it is handed on: an undecodable word, a call (s_swappc), scratch or a
 * spill is an error.  LLVM emits illegal encodings without complaint, so this is a gate and not a test. */
#ifndef TDSL_OBJECT_H
#define TDSL_OBJECT_H
#include <llvm-c/Types.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include "../base/arena.h"
#include "llvm_shim.h"

struct target;
struct object_session;
struct object_session *object_session_new(void);
void object_session_free(struct object_session *);
/* Work with LLVM and the linker stands between the two, in every thread that others may be beside: a fork of the process waits until
 * nobody is at it, so that the child finds no lock held and has no end of a linker's pipe.  Not nested. */
void object_work_enter(void);
void object_work_leave(void);
/* A session from the process's idle ones, or a new one; returned when done with.  Thread safe; outside object_work_enter. */
struct object_session *object_session_borrow(void);
void object_session_return(struct object_session *);
LLVMContextRef object_context(struct object_session *);

/* Compiles (code generation at -O2, no IR pipeline) and links.  The module is consumed.  order: as
 * shim_emit's.  *elf is malloc'ed.  err holds LLVM's own
 * diagnostics.  */
int object_build(struct object_session *, const struct target *, LLVMModuleRef, enum shim_order, void **elf, size_t *size, char *err, size_t errlen);
/* Assembly text of the module (consumed), malloc'ed. */
int object_assembly(struct object_session *, const struct target *, LLVMModuleRef, enum shim_order, char **text, char *err, size_t errlen);

/* bank_conflicts: the object alone does not tell lanes' LDS addresses; OBJECT_UNKNOWN until the layouts' checker fills it in. */
enum { OBJECT_UNKNOWN = -1 };
struct object_loop { int instructions, mfma, acc_moves, vmcnt0, bank_conflicts; double clocks, matrix_share; }; /* the hot loop: innermost body with most MFMA, else most VALU; 0s if none */
struct object_facts {
	const char *symbol;
	int vgpr, agpr, sgpr, lds, scratch, spills, waves_per_simd, kernarg_bytes;   /* vgpr: AGPRs included, as LLVM counts them */
	int instructions, barriers, valu, salu, mfma, lds_ops, vmem, smem, waits;
	int early_loads;                      /* from global memory in front of the wait for the launch before (cubins) */
	int padding;                          /* s_nop / s_code_end padding, not counted above */
	struct object_loop loop;
};
/* What is refused: nothing; what the comment above lists (instruction and address are named); that, but for words that a GPU keeps on a
 * stack which is there without being asked for, NVIDIA's, and scalars in lanes of vector registers, AMD's. */
enum object_gate { OBJECT_AS_IT_IS, OBJECT_GATED, OBJECT_MAY_SPILL };
/* Facts of every kernel in an object.  0, -1, or OBJECT_SPILLS where registers did not suffice: scratch or spills; text in both. */
enum { OBJECT_SPILLS = 1 };
int object_facts(struct arena *, const struct target *, const void *elf, size_t size, enum object_gate gate,
                 struct object_facts **facts, int *n, char *err, size_t errlen);
/* Disassembly with addresses and .tdsl lines, in the arena: for dump --stage asm of a finished object and for docs. */
char *object_disassembly(struct arena *, const struct target *, const void *elf, size_t size, char *err, size_t errlen);
#endif
