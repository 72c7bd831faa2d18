/* exec_atomic.c -- atomic operations on global, scratch and buffer memory, and their arithmetic.
 *
 * In: an operation, operands, a location.  Out: the location changed, the old value.  Memory atomics are loops of
 * compare-and-exchange on the host's memory, since workgroups run on several host threads; LDS (exec_lds.c) uses the
 * arithmetic alone, one host thread runs a whole workgroup. */
#include "exec.h"
#include "memory_ops.h"
#include "nan.h"

static uint64_t pk_add(uint32_t a, uint32_t b, bool bf16)
{
	uint32_t r = 0;
	for (int k = 0; k < 32; k += 16) {
		uint32_t x = a >> k & 0xffff, y = b >> k & 0xffff;
		uint32_t s = bf16 ? sim_f32_to_bf16(num_float(x << 16) + num_float(y << 16))
		                  : sim_f32_to_f16(sim_f16_to_f32(x) + sim_f16_to_f32(y));
		r |= s << k;
	}
	return r;
}

static double as_f64(uint64_t u)
{
	double d;
	memcpy(&d, &u, 8);
	return d;
}

static uint64_t of_f64(double d)
{
	uint64_t u;
	memcpy(&u, &d, 8);
	return u;
}

uint64_t sim_atomic_value(enum sim_atomic op, unsigned bytes, uint64_t old, uint64_t data, uint64_t cmp)
{
	bool wide = bytes == 8;
	int64_t so = wide ? (int64_t)old : (int32_t)old, sd = wide ? (int64_t)data : (int32_t)data;
	switch (op) {
	case AT_SWAP: return data;
	case AT_CMPSWAP: return old == cmp ? data : old;
	case AT_ADD: return old + data;
	case AT_SUB: return old - data;
	case AT_RSUB: return data - old;
	case AT_SMIN: return so < sd ? old : data;
	case AT_SMAX: return so > sd ? old : data;
	case AT_UMIN: return old < data ? old : data;
	case AT_UMAX: return old > data ? old : data;
	case AT_AND: return old & data;
	case AT_OR: return old | data;
	case AT_XOR: return old ^ data;
	case AT_INC: return old >= data ? 0 : old + 1;
	case AT_DEC: return old == 0 || old > data ? data : old - 1;
	case AT_MSKOR: return (old & ~data) | cmp;
	case AT_ADD_F32: return num_bits(num_float((uint32_t)old) + num_float((uint32_t)data));
	case AT_MIN_F32: return min_f32((uint32_t)old, (uint32_t)data, false);
	case AT_MAX_F32: return max_f32((uint32_t)old, (uint32_t)data, false);
	case AT_CMPSWAP_F32: return num_float((uint32_t)old) == num_float((uint32_t)cmp) ? data : old;
	case AT_CMPSWAP_F64: return as_f64(old) == as_f64(cmp) ? data : old;
	case AT_ADD_F64: return of_f64(as_f64(old) + as_f64(data));
	case AT_MIN_F64: return as_f64(data) < as_f64(old) || as_f64(old) != as_f64(old) ? data : old;
	case AT_MAX_F64: return as_f64(data) > as_f64(old) || as_f64(old) != as_f64(old) ? data : old;
	case AT_PK_ADD_F16: return pk_add((uint32_t)old, (uint32_t)data, false);
	case AT_PK_ADD_BF16: return pk_add((uint32_t)old, (uint32_t)data, true);
	case AT_WRAP: return old >= data ? old - data : old + cmp;
	case AT_NONE: break;
	}
	return old;
}

uint64_t sim_atomic_apply(void *p, enum sim_atomic op, unsigned bytes, uint64_t data, uint64_t cmp)
{
	if (bytes == 8) {
		sim_u64 *q = p;
		uint64_t old = __atomic_load_n(q, __ATOMIC_SEQ_CST);
		while (!__atomic_compare_exchange_n(q, &old, sim_atomic_value(op, 8, old, data, cmp), true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			;
		return old;
	}
	typedef uint32_t u32 __attribute__((may_alias));
	u32 *q = p;
	uint32_t old = __atomic_load_n(q, __ATOMIC_SEQ_CST);
	while (!__atomic_compare_exchange_n(q, &old, (uint32_t)sim_atomic_value(op, 4, old, data, cmp), true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	return old;
}

static const uint8_t plain[] = {AT_SWAP, AT_CMPSWAP, AT_ADD, AT_SUB, AT_SMIN, AT_UMIN, AT_SMAX, AT_UMAX, AT_AND, AT_OR,
	AT_XOR, AT_INC, AT_DEC, AT_ADD_F32, AT_PK_ADD_F16, AT_ADD_F64, AT_MIN_F64, AT_MAX_F64, AT_PK_ADD_BF16};

enum sim_atomic sim_atomic_plain(unsigned k)
{
	return k < 13 ? plain[k] : AT_NONE;
}

/* Opcode numbers of all formats agree: 0x40 to 0x52 on 32 bits (with the f64 ones among them), 0x60 to 0x6c on 64. */
static enum sim_atomic kind(const struct sim_inst *in, unsigned *bytes)
{
	unsigned op = in->word[0] >> 18 & 0x7f;
	if (op >= 0x40 && op < 0x40 + sizeof plain) {
		*bytes = op >= 0x4f && op <= 0x51 ? 8 : 4;
		return plain[op - 0x40];
	}
	if (op >= 0x60 && op <= 0x6c) {
		*bytes = 8;
		return plain[op - 0x60];
	}
	return AT_NONE;
}

bool sim_is_atomic(const struct sim_inst *in)
{
	unsigned bytes;
	return kind(in, &bytes) != AT_NONE;
}

static void atomic(struct sim_wave *w, const struct sim_inst *in, bool buffer)
{
	unsigned bytes = 4;
	enum sim_atomic op = kind(in, &bytes);
	unsigned regs = bytes / 4, data = in->vdata;
	bool swap = op == AT_CMPSWAP;
	uint64_t exec = sim_exec(w), done = 0;
	unsigned address = buffer ? (unsigned)in->use_vaddr + in->idxen : in->use_saddr || in->enc == ENC_SCRATCH ? 1 : 2;
	if (data + regs * (swap ? 2 : 1) > w->nvgpr || (in->glc && in->vdst + regs > w->nvgpr) || in->vaddr + address > w->nvgpr) {
		sim_fail(w, in, SIM_EINST, -1, "a register is beyond the %u allocated", w->nvgpr);
		return;
	}
	for (int i = 0; i < LANES; i++) {
		if (!(exec >> i & 1))
			continue;
		bool inside = true;
		void *p = buffer ? sim_buffer_lane(w, in, i, bytes, true, &inside) : sim_flat_lane(w, in, i, bytes, true);
		uint64_t old = 0;
		if (p && (uintptr_t)p % bytes) {
			sim_fail(w, in, SIM_EFAULT, i, "atomic access to 0x%llx, not aligned to %u bytes", (unsigned long long)(uintptr_t)p, bytes);
			return;
		}
		if (p)
			old = sim_atomic_apply(p, op, bytes, sim_lane_data(w, data, i, bytes), swap ? sim_lane_data(w, data + regs, i, bytes) : 0);
		else if (inside || w->state != WAVE_RUN)
			return;
		done += bytes;
		if (in->glc) {
			w->vgpr[in->vdst][i] = (uint32_t)old;
			if (bytes == 8)
				w->vgpr[in->vdst + 1][i] = (uint32_t)(old >> 32);
		}
	}
	w->group->stats.global_read += done;
	w->group->stats.global_written += done;
}

void sim_flat_atomic(struct sim_wave *w, const struct sim_inst *in)
{
	atomic(w, in, false);
}

void sim_buffer_atomic(struct sim_wave *w, const struct sim_inst *in)
{
	atomic(w, in, true);
}
