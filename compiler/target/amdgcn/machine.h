/* machine.h -- the AMDGPU family: its translator, and what machine.c takes from the folder's other files. */
#ifndef TDSL_AMDGCN_MACHINE_H
#define TDSL_AMDGCN_MACHINE_H
#include "../emit/machine.h"
#include "../emit/memory.h"

/* See translate() in compile.h for the contract. */
int amdgcn_translate(struct arena *, const struct ir_kernel *, const struct variant *, LLVMContextRef, struct translated *, char *err,
                     size_t errlen);

/* convert.c */
LLVMValueRef amdgcn_to_fp8(struct emit *, LLVMValueRef, enum dtype, bool saturate);
LLVMValueRef amdgcn_from_fp8(struct emit *, LLVMValueRef, enum dtype);
LLVMValueRef amdgcn_from_fp4(struct emit *, LLVMValueRef word);
LLVMValueRef amdgcn_from_bf16(struct emit *, LLVMValueRef);
LLVMValueRef amdgcn_round_bf16(struct emit *, LLVMValueRef);
LLVMValueRef amdgcn_cut_bf16(struct emit *, LLVMValueRef);
LLVMValueRef amdgcn_to_f16(struct emit *, LLVMValueRef);
LLVMValueRef amdgcn_to_fp4(struct emit *, LLVMValueRef);
LLVMValueRef amdgcn_to_integer(struct emit *, LLVMValueRef, enum dtype, bool saturate);

/* memory.c */
void amdgcn_access_open(struct emit *, struct access *, LLVMValueRef elements);
LLVMValueRef amdgcn_load(struct emit *, const struct access *, int reg, LLVMTypeRef);
void amdgcn_store(struct emit *, const struct access *, int reg, LLVMValueRef);
void amdgcn_update(struct emit *, const struct access *, int reg, enum ir_reduce, LLVMValueRef);
#endif
