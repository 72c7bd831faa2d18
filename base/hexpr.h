/* hexpr.h -- host expressions: integers that the host knows at a call (extents, grids, `require`, predicates, workspace).
 *
 * In the compiler they are immutable trees in an arena; in a pack they are postfix bytes, so that the runtime needs no
 * allocation to evaluate one.  All arithmetic is i64; overflow, division by zero and an unknown symbol are errors. */
#ifndef TDSL_HEXPR_H
#define TDSL_HEXPR_H
#include <stdbool.h>
#include <stdint.h>
#include "arena.h"

enum hexpr_op {
	/* leaves: imm = a constant, a symbol's index, a tensor's parameter index; STRIDE: imm = tensor * 16 + dim */
	HX_CONST, HX_SYM,
	HX_ALIGNED,  /* 1 if the tensor is absent, or: base and every stride but the innermost are multiples of 16 bytes, innermost stride 1 */
	HX_UNIT,     /* 1 if absent or innermost stride 1 (extent <= 1 counts as 1) */
	HX_FLAT,     /* 1 if absent or the extra leading dimensions fold into one stride */
	HX_PRESENT,  /* 1 if the optional tensor was given */
	HX_STRIDE,   /* a stride in elements */
	/* binary: a op b; DIV and REM truncate as C, CDIV rounds up (b > 0); EXACT divides and is an error unless it divides */
	HX_ADD, HX_SUB, HX_MUL, HX_DIV, HX_REM, HX_CDIV, HX_EXACT, HX_MIN, HX_MAX,
	HX_LT, HX_LE, HX_EQ, HX_NE, HX_AND, HX_OR,
	/* unary */
	HX_NOT, HX_NEG,
	/* one more leaf, behind the others since packs hold these numbers: a fact about the device of the call, imm = enum hexpr_fact */
	HX_DEVICE,
	HX_COUNT
};

/* What a call knows of its device beside its target, for chips of one target differ in it; 0 = it is not known. */
enum hexpr_fact {
	HX_MEMORY_RATE, /* GB/s that the pins of its memory move, by their clock and number */
	HX_FACTS
};

struct hexpr { enum hexpr_op op; int64_t imm; const struct hexpr *a, *b; };

bool hexpr_op_is_leaf(enum hexpr_op);
const struct hexpr *hexpr_const(struct arena *, int64_t);
const struct hexpr *hexpr_sym(struct arena *, int symbol);
const struct hexpr *hexpr_leaf(struct arena *, enum hexpr_op, int64_t imm);
/* Folds constants and units (x+0, x*1, x*0, x/1, cdiv(x,1), and with constants). */
const struct hexpr *hexpr_op(struct arena *, enum hexpr_op, const struct hexpr *a, const struct hexpr *b);
bool hexpr_equal(const struct hexpr *, const struct hexpr *);
/* True and the value where the expression is a constant. */
bool hexpr_is_const(const struct hexpr *, int64_t *value);
/* True where no symbols (all >= 0) can make the expression negative; false where that does not show. */
bool hexpr_nonnegative(const struct hexpr *);
/* True where a leaf `op` with this imm (HX_SYM: symbol; HX_STRIDE ..) occurs in the expression; of NULL nothing does. */
bool hexpr_has(const struct hexpr *, enum hexpr_op, int64_t imm);
/* Copy with symbol `symbol` replaced by `by`. */
const struct hexpr *hexpr_subst(struct arena *, const struct hexpr *, int symbol, const struct hexpr *by);

/* What leaves mean at one call.  leaf() is asked for ALIGNED, UNIT, FLAT, PRESENT, STRIDE and DEVICE; may be NULL. */
struct hexpr_env { const int64_t *symbols; int nsymbols; int64_t (*leaf)(void *ctx, enum hexpr_op, int64_t imm); void *ctx; };
/* 0, or -1 with *why = a constant text ("division by zero"). */
int hexpr_eval(const struct hexpr *, const struct hexpr_env *, int64_t *value, const char **why);

/* For people, as the language has it: an exact quotient is a / b, which would read back as one that rounds. */
char *hexpr_shown(struct arena *, const struct hexpr *, const char *const *symbols, const char *const *tensors);
/* Text with symbol and tensor names: "cdiv(N, 128) * 2", "aligned(x)", "device(memory_rate)".  Fully parenthesised only where needed.
 * hexpr_parse reads it back (names looked up in the same tables); NULL with *err_at where it cannot. */
char *hexpr_text(struct arena *, const struct hexpr *, const char *const *symbols, const char *const *tensors);
const struct hexpr *hexpr_parse(struct arena *, const char *text, const char *const *symbols, int nsymbols,
                                const char *const *tensors, int ntensors, const char **err_at);

/* Postfix bytes: op u8; leaves add their imm as zigzag LEB128. */
int hexpr_encode(struct arena *, const struct hexpr *, const uint8_t **code, uint32_t *size);
/* Evaluates postfix bytes without allocation; checks everything (stack depth <= 32, truncation, unknown ops): they may come
 * from an altered file.  Returns as hexpr_eval. */
int hexpr_code_eval(const uint8_t *code, uint32_t size, const struct hexpr_env *, int64_t *value, const char **why);
const struct hexpr *hexpr_decode(struct arena *, const uint8_t *code, uint32_t size); /* NULL if malformed */
#endif
