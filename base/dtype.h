/* dtype.h -- element types: the enum and the facts of each, read from dtype.def.
 * Used by the compiler, the runtime and the simulator; no allocation, no state. */
#ifndef TDSL_DTYPE_H
#define TDSL_DTYPE_H
#include <stdbool.h>
#include <stdint.h>

enum dtype {
	DT_NONE,
#define X(id, name, bits, cls, code, dlbits, st) DT_##id,
#include "dtype.def"
#undef X
	DT_COUNT
};

struct dtype_info {
	const char *name;        /* "bf16" */
	const char *safetensors; /* "BF16", or "" */
	uint8_t bits;            /* storage bits of one element */
	char cls;                /* 'I', 'B', 'F' or 'Q', see dtype.def */
	uint8_t dl_code, dl_bits;
};

/* Facts of `t`; DT_NONE and values out of range give a row named "?". Never NULL. */
const struct dtype_info *dtype_info(enum dtype t);
/* The type called `name` (n bytes, need not end in NUL), or DT_NONE. `fp8`/`bf8` are not types here:
 * they mean a target's native pair and are resolved by the compiler. */
enum dtype dtype_by_name(const char *name, unsigned n);
enum dtype dtype_by_safetensors(const char *name, unsigned n);
enum dtype dtype_by_dlpack(unsigned code, unsigned bits);
static inline bool dtype_is_float(enum dtype t) { char c = dtype_info(t)->cls; return c == 'F' || c == 'Q'; }
/* Bytes that `count` elements of `t` occupy (rounded up for e2m1). */
static inline int64_t dtype_bytes(enum dtype t, int64_t count) { return (count * dtype_info(t)->bits + 7) / 8; }
#endif
