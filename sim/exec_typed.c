/* exec_typed.c -- typed buffers: tbuffer_*, and buffer_load and buffer_store_format_*.
 *
 * In: one element of a buffer, whose format the instruction names (tbuffer) or the descriptor does.  Out: its components in
 * registers, 32 bits each or 16 bits packed two in one (d16), or the other way.  Data and number formats: the tables of the
 * CDNA3 ISA guide's buffer resource; "10_11_11" counts from the top bit down.  Loads pass the descriptor's dst_sel; what is
 * out of range or of no format reads 0 and is not written.  Components that a store does not have are written as 0. */
#include "exec.h"
#include "memory_ops.h"

#include <math.h>

enum { UNORM, SNORM, USCALED, SSCALED, UINT, SINT, FLOAT = 7 };

/* Bits of each component, from the lowest. */
static const uint8_t formats[16][4] = {
	{0}, {8}, {16}, {8, 8}, {32}, {16, 16}, {11, 11, 10}, {10, 11, 11}, {2, 10, 10, 10}, {10, 10, 10, 2}, {8, 8, 8, 8}, {32, 32},
	{16, 16, 16, 16}, {32, 32, 32}, {32, 32, 32, 32}, {0}};

/* The unsigned floats of 10 and 11 bits: 5 exponent bits, biased by 15. */
static float small_to_f32(uint32_t v, unsigned bits)
{
	return sim_f16_to_f32(v << (15 - bits));
}

static uint32_t small_from_f32(float x, unsigned bits)
{
	uint32_t h = x < 0 ? 0 : sim_f32_to_f16(x);
	return h >> (15 - bits) & ((1u << bits) - 1); /* cut off, as the guides leave open */
}

/* A component as 32 bits: a float, or an integer for UINT and SINT. */
static uint32_t widen(uint32_t v, unsigned bits, unsigned kind)
{
	uint32_t top = bits == 32 ? ~0u : (1u << bits) - 1;
	int32_t s = (int32_t)(v << (32 - bits)) >> (32 - bits);
	switch (kind) {
	case UNORM: return num_bits((float)((double)v / top));
	case SNORM: return num_bits((float)fmax((double)s / (top >> 1), -1));
	case USCALED: return num_bits((float)v);
	case SSCALED: return num_bits((float)s);
	case SINT: return (uint32_t)s;
	case FLOAT: return bits == 32 ? v : num_bits(bits == 16 ? sim_f16_to_f32(v) : small_to_f32(v, bits));
	default: return v;
	}
}

static uint32_t limited(double x, double lo, double hi)
{
	return (uint32_t)(int64_t)rint(x != x ? 0 : x < lo ? lo : x > hi ? hi : x);
}

static uint32_t narrow(uint32_t v, unsigned bits, unsigned kind)
{
	uint32_t top = bits == 32 ? ~0u : (1u << bits) - 1;
	double x = num_float(v), half = top >> 1;
	switch (kind) {
	case UNORM: return limited(x * top, 0, top);
	case SNORM: return limited(x * half, -half, half) & top;
	case USCALED: return limited(x, 0, top);
	case SSCALED: return limited(x, -half - 1, half) & top;
	case UINT: return v < top ? v : top;
	case SINT: return limited((int32_t)v, -half - 1, half) & top;
	case FLOAT: return bits == 32 ? v : bits == 16 ? sim_f32_to_f16(num_float(v)) : small_from_f32(num_float(v), bits);
	default: return v & top;
	}
}

struct access { const uint8_t *bits; unsigned kind, bytes, components; bool d16, high, integer; };

static void element_load(const struct access *a, const uint8_t *from, uint32_t select, uint32_t out[4])
{
	uint32_t rgba[4] = {0, 0, 0, a->integer ? 1 : num_bits(1)}, one = rgba[3];
	unsigned at = 0;
	for (unsigned k = 0; k < 4 && a->bits[k]; at += a->bits[k++]) {
		uint64_t v = 0;
		unsigned first = at / 8, last = (at + a->bits[k] + 7) / 8;
		memcpy(&v, from + first, last - first);
		v = v >> at % 8 & ((UINT64_C(1) << a->bits[k]) - 1);
		rgba[k] = widen((uint32_t)v, a->bits[k], a->kind);
	}
	for (unsigned k = 0; k < 4; k++) {
		unsigned s = select >> (3 * k) & 7;
		out[k] = s >= 4 ? rgba[s - 4] : s == 1 ? one : 0;
	}
}

static void element_store(const struct access *a, uint8_t *to, const uint32_t in[4])
{
	uint8_t bytes[20] = {0};
	unsigned at = 0;
	for (unsigned k = 0; k < 4 && a->bits[k]; at += a->bits[k++]) {
		uint64_t v;
		memcpy(&v, bytes + at / 8, 8);
		v |= (uint64_t)narrow(in[k], a->bits[k], a->kind) << at % 8;
		memcpy(bytes + at / 8, &v, 8);
	}
	memcpy(to, bytes, a->bytes);
}

static uint32_t to_half(uint32_t v, bool integer) { return integer ? v & 0xffff : sim_f32_to_f16(num_float(v)); }
static uint32_t from_half(uint32_t h, const struct access *a)
{
	return !a->integer ? num_bits(sim_f16_to_f32(h & 0xffff)) : a->kind == SINT ? (uint32_t)(int16_t)h : h & 0xffff;
}

/* Component k of lane i lies in register k, or in half k % 2 of register k / 2; d16_hi_x in the upper half. */
static void component_put(struct sim_wave *w, const struct sim_inst *in, const struct access *a, unsigned k, int i, uint32_t v)
{
	unsigned half = a->high ? 1 : k & 1;
	uint32_t *d = &w->vgpr[in->vdata + (a->d16 ? k / 2 : k)][i], h = to_half(v, a->integer);
	*d = !a->d16 ? v : half ? (*d & 0xffff) | h << 16 : (*d & 0xffff0000u) | h;
}

static uint32_t component_get(const struct sim_wave *w, const struct sim_inst *in, const struct access *a, unsigned k, int i)
{
	uint32_t v = w->vgpr[in->vdata + (a->d16 ? k / 2 : k)][i];
	return !a->d16 ? v : from_half(a->high || k & 1 ? v >> 16 : v, a);
}

void exec_mtbuf(struct sim_wave *w, const struct sim_inst *in)
{
	unsigned opcode = in->enc == ENC_MTBUF ? in->word[0] >> 15 & 15 : in->word[0] >> 18 & 0x7f;
	uint32_t word3 = w->sgpr[in->saddr + 3], format = in->word[0] >> 19;
	unsigned data = in->enc == ENC_MTBUF ? format & 15 : word3 >> 15 & 15, kind = in->enc == ENC_MTBUF ? format >> 4 & 7 : word3 >> 12 & 7;
	bool high = in->op == OP_buffer_load_format_d16_hi_x || in->op == OP_buffer_store_format_d16_hi_x;
	bool store = high ? in->op == OP_buffer_store_format_d16_hi_x : opcode >> 2 & 1;
	struct access a = {.bits = formats[data], .kind = kind, .components = high ? 1 : (opcode & 3) + 1, .d16 = opcode >= 8, .high = high,
		.integer = kind == UINT || kind == SINT};
	for (unsigned k = 0; k < 4; k++)
		a.bytes += a.bits[k];
	a.bytes /= 8;
	unsigned regs = a.d16 ? (a.components + 1) / 2 : a.components;
	uint64_t exec = sim_exec(w), moved = 0;
	if (in->lds && store) {
		sim_unknown(w, in);
		return;
	}
	if ((!in->lds && in->vdata + regs > w->nvgpr) || in->vaddr + (in->use_vaddr && in->idxen ? 2u : 1u) > w->nvgpr) {
		sim_fail(w, in, SIM_EINST, -1, "a register is beyond the %u allocated", w->nvgpr);
		return;
	}
	for (int i = 0; i < LANES; i++) {
		uint32_t c[4] = {0};
		bool inside = false;
		void *p = NULL;
		if (!(exec >> i & 1))
			continue;
		if (a.bytes && !(p = sim_buffer_lane(w, in, i, a.bytes, store, &inside)) && inside)
			return;
		moved += p ? a.bytes : 0;
		for (unsigned k = 0; store && k < a.components; k++)
			c[k] = component_get(w, in, &a, k, i);
		if (p && store)
			element_store(&a, p, c);
		else if (p)
			element_load(&a, p, word3 & 0xfff, c);
		if (in->lds) {
			uint8_t *d = sim_lds_target(w, in, i, 4);
			if (!d)
				return;
			memcpy(d, c, 4);
		}
		for (unsigned k = 0; !store && !in->lds && k < a.components; k++)
			component_put(w, in, &a, k, i, c[k]);
	}
	*(store ? &w->group->stats.global_written : &w->group->stats.global_read) += moved;
}
