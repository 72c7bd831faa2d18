/* rt_model.h -- packs made by hand for the runtime's tests: two kernels, without a compiler.
 *
 *   rmsnorm_quant(x: T[M, N], w: T[N], eps: f32) -> (y: fp8[M, N], scale: f32[M])   T = bf16 | f16; objects that do not run
 *   scale_add(x: f32[M, N], bias?: f32[N], a: f32, k: i32) -> y: f32[M, N]          y = x * a + k (+ bias): LLVM IR below, runs
 *   partial_sum(x: f32[N]) -> s: f32[1]                                             two launches and a workspace, runs */
#ifndef TDSL_RT_MODEL_H
#define TDSL_RT_MODEL_H
#include "../base/model.h"
#include "../runtime/pack.h"

/* The pack of all three; code objects from llc and ld.lld where `real`, else arbitrary bytes.  Everything is in the arena. */
void rt_model(struct arena *, struct model_pack *, bool real);
/* Its bytes (malloc'ed); aborts the test on failure. */
void *rt_pack(size_t *size, bool real);
#endif
