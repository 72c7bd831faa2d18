/* msgpack.h -- a reader for the msgpack bytes of AMDGPU metadata notes: a cursor, no tree, no allocation.
 *
 * Every function takes the next value and moves on.  Anything unexpected or truncated sets `bad`, after which all
 * functions give nothing, so callers may check once at the end. */
#ifndef TDSL_SIM_MSGPACK_H
#define TDSL_SIM_MSGPACK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msgpack { const uint8_t *p, *end; bool bad; };

uint32_t msgpack_map(struct msgpack *);   /* number of key-value pairs that follow */
uint32_t msgpack_array(struct msgpack *); /* number of values that follow */
/* The next value as a string: its length, and its bytes (no NUL) in *s. */
uint32_t msgpack_string(struct msgpack *, const char **s);
uint64_t msgpack_uint(struct msgpack *);
bool msgpack_is_string(const struct msgpack *, const char *text); /* looks at the next value without taking it */
void msgpack_skip(struct msgpack *);                              /* any value */
#endif
