/* exec_compare.c -- v_cmp and v_cmpx of all types, v_cmp_class.
 *
 * In: two rows.  Out: a lane mask, 0 for inactive lanes, in VCC or an SGPR pair; v_cmpx writes EXEC too.  The opcode's low
 * bits are the relation: 1 less, 2 equal, 4 greater; float opcodes from 8 on are the complements of 15 - opcode. */
#pragma GCC optimize("O3,no-trapping-math")
#include "exec.h"
#include "nan.h"

#define RELATE(type, A, B) do { \
	for (int i = 0; i < LANES; i++) { \
		type x = (A), y = (B); \
		flag[i] = ((x < y ? lt : 0) | (x == y ? eq : 0) | (x > y ? gt : 0)); \
	} } while (0)

static SIM_LANES_FN uint64_t pack(const uint32_t flag[LANES])
{
	uint32_t half[2] = {0, 0}; /* in words of the flags' width: vector code */
	for (int h = 0; h < 2; h++)
		for (uint32_t i = 0; i < 32; i++)
			half[h] |= (uint32_t)(flag[32 * h + (int)i] != 0) << i;
	return half[0] | (uint64_t)half[1] << 32;
}

static SIM_LANES_FN void relate32(const uint32_t *a, const uint32_t *b, char type, unsigned cond, uint32_t flag[LANES])
{
	uint32_t lt = cond & 1, eq = cond >> 1 & 1, gt = cond >> 2 & 1;
	switch (type) {
	case 'f': RELATE(float, num_float(a[i]), num_float(b[i])); break;
	case 'h': RELATE(float, sim_f16_to_f32(a[i]), sim_f16_to_f32(b[i])); break;
	case 'i': RELATE(int32_t, (int32_t)a[i], (int32_t)b[i]); break;
	case 'u': RELATE(uint32_t, a[i], b[i]); break;
	case 's': RELATE(int32_t, (int16_t)a[i], (int16_t)b[i]); break;
	default: RELATE(uint32_t, a[i] & 0xffff, b[i] & 0xffff); break;
	}
}

static void relate64(const uint64_t *a, const uint64_t *b, char type, unsigned cond, uint32_t flag[LANES])
{
	uint32_t lt = cond & 1, eq = cond >> 1 & 1, gt = cond >> 2 & 1;
	const sim_f64 *x64 = (const sim_f64 *)a, *y64 = (const sim_f64 *)b;
	switch (type) {
	case 'd': RELATE(double, x64[i], y64[i]); break;
	case 'l': RELATE(int64_t, (int64_t)a[i], (int64_t)b[i]); break;
	default: RELATE(uint64_t, a[i], b[i]); break;
	}
}

/* Bits: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf. */
static bool class_of(uint64_t u, unsigned ebits, unsigned mbits, uint32_t mask)
{
	uint64_t exp = u >> mbits & ((1u << ebits) - 1), man = u & ((UINT64_C(1) << mbits) - 1);
	bool neg = u >> (ebits + mbits) & 1;
	int bit;
	if (exp == (1u << ebits) - 1)
		bit = man ? (man >> (mbits - 1) ? 1 : 0) : neg ? 2 : 9;
	else if (exp)
		bit = neg ? 3 : 8;
	else
		bit = man ? (neg ? 4 : 7) : (neg ? 5 : 6);
	return mask >> bit & 1;
}

static void finish(struct sim_wave *w, const struct sim_inst *in, uint64_t mask, bool to_exec)
{
	mask &= sim_exec(w);
	sim_put_mask(w, in->sdst, mask);
	if (to_exec)
		sim_put_mask(w, REG_EXEC, mask);
}

static void classify(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES], flag[LANES];
	uint64_t b64[LANES];
	const uint32_t *mask = sim_src32(w, in, 1, bb);
	char t = (char)in->src[0].type;
	if (t == 'd') {
		const uint64_t *a = sim_src64(w, in, 0, b64);
		for (int i = 0; i < LANES; i++)
			flag[i] = class_of(a[i], 11, 52, mask[i]);
	} else {
		const uint32_t *a = sim_src32(w, in, 0, ba);
		for (int i = 0; i < LANES; i++)
			flag[i] = t == 'f' ? class_of(a[i], 8, 23, mask[i]) : class_of(a[i] & 0xffff, 5, 10, mask[i]);
	}
	bool x = in->op == OP_v_cmpx_class_f32 || in->op == OP_v_cmpx_class_f64 || in->op == OP_v_cmpx_class_f16;
	finish(w, in, pack(flag), x);
}

void exec_cmp(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t ba[LANES], bb[LANES], flag[LANES];
	uint64_t a64[LANES], b64[LANES];
	if (in->op < OP_v_cmp_f_f16) {
		classify(w, in);
		return;
	}
	bool is_float = in->op < OP_v_cmp_f_i16;
	unsigned n = (unsigned)in->op - (is_float ? OP_v_cmp_f_f16 : OP_v_cmp_f_i16);
	unsigned size = n >> 5, cond = n & 15;
	bool x = n >> 4 & 1, negate = is_float && cond >= 8, is_unsigned = !is_float && cond >= 8;
	cond = negate ? 15 - cond : cond & 7;
	if (size == 2)
		relate64(sim_src64(w, in, 0, a64), sim_src64(w, in, 1, b64), is_float ? 'd' : is_unsigned ? 'U' : 'l', cond, flag);
	else
		relate32(sim_src32(w, in, 0, ba), sim_src32(w, in, 1, bb),
			is_float ? (size ? 'f' : 'h') : size ? (is_unsigned ? 'u' : 'i') : is_unsigned ? 'S' : 's', cond, flag);
	uint64_t mask = pack(flag);
	finish(w, in, negate ? ~mask : mask, x);
}
