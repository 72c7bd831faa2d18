/* machine.h -- the NVPTX family: its translator, and what machine.c takes from the folder's other files.
 *
 * The launch's contract with the runtime: the argument block of emit/translate.c is the kernel's parameter space, byte for byte, so
 * that it can be handed to cuLaunchKernel whole (CU_LAUNCH_PARAM_BUFFER_POINTER) with exactly kernarg_bytes; `lds` counts all shared
 * memory of a workgroup: what the object declares itself, and, where that is less, what the launch must give as dynamic shared
 * memory.  y and z of a grid end at 65,535 (CUDA's guide, compute capabilities): axes have them where a predicate can ask that they are
 * short, or rows with as many z as it takes (emit/grid.c). */
#ifndef TDSL_NVPTX_MACHINE_H
#define TDSL_NVPTX_MACHINE_H
#include "../emit/machine.h"
#include "../emit/memory.h"

/* See translate() in compile.h for the contract. */
int nvptx_translate(struct arena *, const struct ir_kernel *, const struct variant *, LLVMContextRef, struct translated *, char *err,
                    size_t errlen);

/* convert.c */
LLVMValueRef nvptx_to_fp8(struct emit *, LLVMValueRef, enum dtype, bool saturate);
LLVMValueRef nvptx_from_fp8(struct emit *, LLVMValueRef, enum dtype);
LLVMValueRef nvptx_from_fp4(struct emit *, LLVMValueRef word);
LLVMValueRef nvptx_from_bf16(struct emit *, LLVMValueRef);
LLVMValueRef nvptx_widened_again(struct emit *, LLVMValueRef);
LLVMValueRef nvptx_to_integer(struct emit *, LLVMValueRef, enum dtype, bool saturate);

/* memory.c */
void nvptx_access_open(struct emit *, struct access *, LLVMValueRef elements);
LLVMValueRef nvptx_load(struct emit *, const struct access *, int reg, LLVMTypeRef);
void nvptx_stage(struct emit *, const struct access *, int reg, LLVMValueRef lds);
void nvptx_stage_close(struct emit *);
void nvptx_staged(struct emit *, int lots);
void nvptx_fetch(struct emit *, const struct access *, int reg, LLVMValueRef bytes, LLVMValueRef on);
void nvptx_store(struct emit *, const struct access *, int reg, LLVMValueRef);
void nvptx_update(struct emit *, const struct access *, int reg, enum ir_reduce, LLVMValueRef);

/* quad.c */
void nvptx_quad_product(struct emit *, const struct quad *, const struct quad_operand *a, const struct quad_operand *b, int steps, LLVMValueRef *acc, int vectors);
void nvptx_quads_wait(struct emit *, int lots, LLVMValueRef *acc, int vectors);
void nvptx_quads_see(struct emit *);

/* machine.c */
LLVMValueRef nvptx_text(struct emit *, const char *text, const char *constraints, LLVMTypeRef result, LLVMValueRef *args, int nargs,
                        bool effect);   /* one instruction as text; effect: it does more than give a result */
#endif
