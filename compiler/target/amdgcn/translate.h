/* translate.h -- the AMDGPU target's one export: see translate() in compile.h for the contract. */
#ifndef TDSL_AMDGCN_TRANSLATE_H
#define TDSL_AMDGCN_TRANSLATE_H
#include "../../compile.h"
int amdgcn_translate(struct arena *, const struct ir_kernel *, const struct variant *, LLVMContextRef, struct translated *, char *err,
                     size_t errlen);
#endif
