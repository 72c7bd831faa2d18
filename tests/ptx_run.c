/* ptx_run.c -- an interpreter of the PTX that the compiler emits (PTX ISA 8.4), for ptx_run.h.
 * Method: ptx_text.c makes a list of instructions of the kernel's text; each thread runs alone until it meets an instruction
 * of its warp (shfl, vote, redux, mma) or of its workgroup (bar); when all of them have come it is done for all at once.  The workgroups of
 * a cluster take turns: each runs up to barriers that others have yet to come to, or to bytes that they have yet to send.  What they do
 * with each other's memory is ptx_cluster.c's.  A kernel without clusters has clusters of one; one whose workgroups all meet runs all of them so, and a
 * warp that looks whether they have come waits where it finds what it has seen before. */
#include "ptx_run.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../base/num.h"
#include "ptx_cluster.h"

enum { SPIN = 50 * 1000 * 1000, MOST_MEETING = 2048 };

/* --- values ----------------------------------------------------------------------------------------------------------------- */

static int64_t sign(uint64_t v, int bits)
{
	return bits >= 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static float least(float a, float b) { return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b; }

static enum dtype narrow(struct type t) { return t.kind == 'e' ? DT_E4M3 : t.kind == 'E' ? DT_E5M2 : t.kind == 'B' ? DT_BF16 : DT_F16; }

/* --- arithmetic ------------------------------------------------------------------------------------------------------------- */

static bool real_op(const struct ins *i, const uint64_t *v, uint64_t *out)
{
	float a = num_float((uint32_t)v[0]), b = num_float((uint32_t)v[1]), c = num_float((uint32_t)v[2]), r;
	bool approx = has(i, approx);
	if (approx && !has(i, ftz))
		return false;
	if (is(i, add)) r = a + b;
	else if (is(i, sub)) r = a - b;
	else if (is(i, mul)) r = a * b;
	else if (is(i, fma)) r = fmaf(a, b, c);
	else if (is(i, div)) r = a / b;
	else if (is(i, min) && !has(i, nan)) r = least(a, b);
	else if (is(i, max) && !has(i, nan)) r = -least(-a, -b);
	else if (is(i, neg)) r = -a;
	else if (is(i, abs)) r = fabsf(a);
	else if (is(i, sqrt) && !approx) r = sqrtf(a);
	else if (is(i, rcp)) r = approx ? num_rcp(a) : 1 / a;
	else if (is(i, rsqrt) && approx) r = num_rsq(a);
	else if (is(i, ex2) && approx) r = num_exp2(a);
	else if (is(i, lg2) && approx) r = num_log2(a);
	else if (is(i, sin) && approx) r = flush((float)sin(a));
	else if (is(i, cos) && approx) r = (float)cos(a);
	else return false;
	*out = num_bits(r);
	return i->modifiers >> MOD_UNKNOWN == 0 && !has(i, relu) && !has(i, sat);
}

static uint64_t bit_field(uint64_t v, uint64_t at, uint64_t n, bool is_signed, int bits)
{
	at &= 255;
	n &= 255;
	uint64_t x = at >= (unsigned)bits ? 0 : cut(cut(v, bits) >> at, n > (unsigned)bits ? bits : (int)n);
	return is_signed && n && n < (unsigned)bits ? (uint64_t)sign(x, (int)n) : x;
}

static uint64_t permute(uint64_t a, uint64_t b, uint64_t pick)
{
	uint64_t both = cut(b, 32) << 32 | cut(a, 32), r = 0;
	for (int i = 0; i < 4; i++) {
		uint64_t k = pick >> (4 * i), byte = both >> (8 * (k & 7)) & 255;
		r |= (k & 8 ? (byte & 128 ? 255ull : 0) : byte) << (8 * i);
	}
	return r;
}

static bool integer_op(const struct ins *i, struct type t, const uint64_t *v, uint64_t *out)
{
	bool s = t.kind == 's';
	int n = t.bits;
	uint64_t a = cut(v[0], n), b = cut(v[1], n), c = v[2];
	int64_t sa = sign(v[0], n), sb = sign(v[1], n);
	if (is(i, add)) *out = a + b;
	else if (is(i, sub)) *out = a - b;
	else if (is(i, mul) && has(i, wide)) *out = s ? (uint64_t)(sa * sb) : a * b;
	else if (is(i, mul) && has(i, hi)) *out = s ? (uint64_t)(((__int128)sa * sb) >> n) : (uint64_t)(((unsigned __int128)a * b) >> n);
	else if (is(i, mul) && has(i, lo)) *out = a * b;
	else if (is(i, mad) && has(i, lo)) *out = a * b + c;
	else if (is(i, div)) *out = !b ? ~0ull : s ? (uint64_t)(sb == -1 ? -sa : sa / sb) : a / b;
	else if (is(i, rem)) *out = !b ? a : s ? (uint64_t)(sb == -1 ? 0 : sa % sb) : a % b;
	else if (is(i, min)) *out = s ? (uint64_t)(sa < sb ? sa : sb) : a < b ? a : b;
	else if (is(i, max)) *out = s ? (uint64_t)(sa > sb ? sa : sb) : a > b ? a : b;
	else if (is(i, neg)) *out = 0 - a;
	else if (is(i, abs)) *out = (uint64_t)(sa < 0 ? -sa : sa);
	else if (is(i, not)) *out = t.kind == 'P' ? !a : ~a;
	else if (is(i, and)) *out = a & b;
	else if (is(i, or)) *out = a | b;
	else if (is(i, xor)) *out = a ^ b;
	else if (is(i, shl)) *out = cut(v[1], 32) >= (unsigned)n ? 0 : a << cut(v[1], 32);
	else if (is(i, shr)) {
		uint64_t by = cut(v[1], 32) >= (unsigned)n ? (unsigned)n - 1 : cut(v[1], 32);
		*out = s ? (uint64_t)(sa >> by) : cut(v[1], 32) >= (unsigned)n ? 0 : a >> by;
	} else if (is(i, bfe) && (n == 32 || !s)) *out = bit_field(v[0], v[1], v[2], s, n);
	else if (is(i, popc)) *out = (uint64_t)__builtin_popcountll(a);
	else if (is(i, prmt)) *out = permute(v[0], v[1], v[2]);
	else return false;
	if (has(i, relu) && sign(*out, n) < 0)
		*out = 0;
	return i->modifiers >> MOD_UNKNOWN == 0 && (!has(i, relu) || (s && (is(i, min) || is(i, max)))) && !has(i, sat);
}

static bool compare(const struct ins *i, const uint64_t *v, uint64_t *out)
{
	struct type t = i->type[0];
	if (t.kind == 'f') {
		float a = num_float((uint32_t)v[0]), b = num_float((uint32_t)v[1]);
		bool nan = isnan(a) || isnan(b);
		bool or_nan = has(i, equ) || has(i, neu) || has(i, ltu) || has(i, leu) || has(i, gtu) || has(i, geu);
		bool holds = has(i, eq) || has(i, equ) ? a == b : has(i, ne) || has(i, neu) ? a != b : has(i, lt) || has(i, ltu) ? a < b
		           : has(i, le) || has(i, leu) ? a <= b : has(i, gt) || has(i, gtu) ? a > b : has(i, ge) || has(i, geu) ? a >= b : true;
		*out = nan ? or_nan || has(i, nan) : holds && !has(i, nan);
		return t.bits == 32 && i->modifiers >> MOD_UNKNOWN == 0;
	}
	int64_t a = t.kind == 's' ? sign(v[0], t.bits) : (int64_t)cut(v[0], t.bits), b = t.kind == 's' ? sign(v[1], t.bits) : (int64_t)cut(v[1], t.bits);
	*out = has(i, eq) ? a == b : has(i, ne) ? a != b : has(i, lt) ? a < b : has(i, le) ? a <= b : has(i, gt) ? a > b : a >= b;
	return i->modifiers >> MOD_UNKNOWN == 0 && !(t.bits == 64 && t.kind == 'u');
}

static uint64_t to_integer(float x, struct type t, double (*round)(double))
{
	double most = ldexp(1, t.bits - (t.kind == 's')) - 1, low = t.kind == 's' ? -ldexp(1, t.bits - 1) : 0, r = round(x);
	return isnan(x) ? 0 : (uint64_t)(int64_t)(r > most ? most : r < low ? low : r);
}

static bool convert(const struct ins *i, const uint64_t *v, uint64_t *out)
{
	struct type to = i->type[0], from = i->type[1];
	bool real_to = strchr("fBeE", to.kind), real_from = strchr("fBeE", from.kind), pair = to.x2 && from.bits == 32;
	if (has(i, pack)) {
		int64_t lo = to.kind == 's' ? -128 : 0, hi = to.kind == 's' ? 127 : 255, a = sign(v[0], 32), b = sign(v[1], 32);
		a = a < lo ? lo : a > hi ? hi : a;
		b = b < lo ? lo : b > hi ? hi : b;
		*out = cut(v[2], 16) << 16 | cut((uint64_t)a, 8) << 8 | cut((uint64_t)b, 8);
		return to.bits == 8 && from.bits == 32 && has(i, sat);
	}
	if (pair) {                                        /* the first operand goes above the second */
		bool clamps = has(i, satfinite);
		uint32_t part[2];
		for (int h = 0; h < 2; h++) {
			float x = num_float((uint32_t)v[h]);
			part[h] = clamps && isnan(x) && to.bits == 8 ? 0x7f : num_from_f32(x, narrow(to), clamps);
		}
		*out = (uint64_t)part[0] << to.bits | part[1];
		return has(i, rn) && (to.bits == 16) != clamps;
	}
	if (from.x2) {                                     /* e4m3x2, e5m2x2 to f16x2 */
		*out = 0;
		for (int h = 0; h < 2; h++)
			*out |= (uint64_t)num_from_f32(num_to_f32(v[0] >> (8 * h) & 255, narrow(from)), DT_F16, false) << (16 * h);
		return to.x2 && to.bits == 16;
	}
	if (!real_to && !real_from) {
		*out = from.kind == 's' ? (uint64_t)sign(v[0], from.bits) : cut(v[0], from.bits);
		if (to.kind == 's' && to.bits < 32)
			*out = (uint64_t)sign(*out, to.bits);
		return !has(i, sat);
	}
	float x = real_from ? (from.bits == 32 ? num_float((uint32_t)v[0]) : num_to_f32(cut(v[0], 16), narrow(from)))
	        : from.kind == 's' ? (float)sign(v[0], from.bits) : (float)cut(v[0], from.bits);
	if (!real_to) {
		*out = to_integer(x, to, has(i, rni) ? rint : has(i, rzi) ? trunc : has(i, rmi) ? floor : ceil);
		return !has(i, ftz);
	}
	if (to.bits == 16)
		*out = num_from_f32(x, narrow(to), false);
	else
		*out = num_bits(has(i, rni) ? rintf(x) : has(i, rmi) ? floorf(x) : has(i, rpi) ? ceilf(x) : has(i, rzi) ? truncf(x) : x);
	return !has(i, ftz);
}

static bool move(struct thread *t, const struct ins *i)
{
	int bits = i->type[0].bits, n = i->nop - i->ndest;
	if (i->ndest > 1) {
		uint64_t v = get(t, &i->op[i->ndest]);
		for (int d = 0; d < i->ndest; d++)
			set(t, &i->op[d], v >> (d * bits / i->ndest), bits / i->ndest);
		return n == 1;
	}
	uint64_t v = 0;
	for (int s = 0; s < n; s++)
		v |= cut(get(t, &i->op[1 + s]), n > 1 ? bits / n : bits) << (s * bits / n);
	set(t, &i->op[0], v, bits);
	return n > 0;
}

/* --- memory ----------------------------------------------------------------------------------------------------------------- */

/* A mapped address: the workgroup's rank and one above 32 bits that are its own shared address. */
static uint8_t *reach_shared(struct machine *m, const struct thread *t, const struct ins *i, uint64_t at, int bytes, bool write)
{
	struct group *g = t->group;
	uint64_t size = (uint64_t)m->l->shared, rank = at >> 32;
	if (has(i, mapped) && rank && rank <= (uint64_t)m->members) {
		g = &m->groups[rank - 1];
		at = cut(at, 32);
	}
	if (at > size || size - at < (unsigned)bytes) {
		ptx_refuse(m->c, "thread %u: %s: shared address %llu, there are %d bytes", t->tid, i->text, (unsigned long long)at, m->l->shared);
		return NULL;
	}
	return m->members == 1 || ptx_cluster_share(m, t, i, g, at, bytes, write) ? g->shared + at : NULL;
}

static uint8_t *reach_global(struct machine *m, const struct thread *t, const struct ins *i, uint64_t at, int bytes, bool write)
{
	for (int r = 0; has(i, global) && r < m->l->nmemory; r++) {
		const struct ptx_range *g = &m->l->memory[r];
		uint64_t base = (uint64_t)(uintptr_t)g->base;
		if (at >= base && at + (unsigned)bytes <= base + g->bytes && (!write || g->writable) && !(has(i, nc) && g->writable))
			return (uint8_t *)(uintptr_t)at;
	}
	uint64_t meeting = (uint64_t)(uintptr_t)&m->meeting[1];
	if (m->l->meets && at == meeting && bytes == 4 && (is(i, atom) || has(i, acquire)))
		return (uint8_t *)&m->meeting[1];
	ptx_refuse(m->c, "workgroup %u thread %u: %s: %d bytes at 0x%llx are not this kernel's", t->group->at[0], t->tid, i->text, bytes, (unsigned long long)at);
	return NULL;
}

static uint64_t address(const struct thread *t, const struct operand *o) { return (o->reg >= 0 ? *reg_of(t, o->reg) : 0) + o->value; }

static uint8_t *reach(struct machine *m, const struct thread *t, const struct ins *i, const struct operand *o, int bytes, bool write)
{
	uint64_t at = address(t, o);
	if (at % (unsigned)bytes) {
		ptx_refuse(m->c, "thread %u: %s: address 0x%llx is not a multiple of %d", t->tid, i->text, (unsigned long long)at, bytes);
		return NULL;
	}
	if (has(i, param))
		return at + (unsigned)bytes <= m->l->argument_bytes ? (uint8_t *)m->l->arguments + at : NULL;
	if (has(i, shared))
		return reach_shared(m, t, i, at, bytes, write);
	return reach_global(m, t, i, at, bytes, write);
}

/* The L2's policies as CUTLASS writes them (CacheHintSm90): lines that leave last, and lines as all others. */
#define EVICT_LAST 0x14f0000000000000ull
#define EVICT_NORMAL 0x1000000000000000ull

static bool take_policy(struct machine *m, uint64_t policy, bool load)
{
	int *count = policy == EVICT_LAST ? load ? &m->l->kept_loads : &m->l->kept_stores : policy == EVICT_NORMAL && load ? &m->l->other_loads : NULL;
	return count && ++*count;
}

static bool load_store(struct machine *m, struct thread *t, const struct ins *i)
{
	bool load = is(i, ld), hint = has(i, cache_hint);
	int count = has(i, v2) ? 2 : has(i, v4) ? 4 : 1, each = i->type[0].bits / 8;
	if (i->nop != count + 1 + hint || (hint && !take_policy(m, get(t, &i->op[count + 1]), load)))
		return false;
	uint8_t *p = reach(m, t, i, &i->op[load ? count : 0], each * count, !load);
	if (p && !load && has(i, global) && m->l->nstored < m->l->most_stored)
		m->l->stored[m->l->nstored++] = (uint64_t)(uintptr_t)p;
	for (int k = 0; p && k < count; k++) {
		uint64_t v = 0;
		if (load) {
			memcpy(&v, p + k * each, (size_t)each);
			set(t, &i->op[k], i->type[0].kind == 's' ? (uint64_t)sign(v, each * 8) : v, 64);
		} else {
			v = get(t, &i->op[1 + k]);
			memcpy(p + k * each, &v, (size_t)each);
		}
	}
	return p;
}

/* What lies beyond the memory costs a chip more than it saves. */
static bool fetch(struct machine *m, struct thread *t, const struct ins *i)
{
	uint8_t *p = i->nop == 1 ? reach(m, t, i, &i->op[0], 1, false) : NULL;
	struct ptx_launch *l = m->l;
	if (p && has(i, evict_last) && l->nfetched < l->most_fetched)
		l->fetched[l->nfetched++] = (uint64_t)(uintptr_t)p;
	if (p && !has(i, evict_last) && l->nsoon < l->most_soon)
		l->soon[l->nsoon++] = (uint64_t)(uintptr_t)p;
	return p;
}

/* Those of the groups before `end` are there. */
static void end_copies(struct thread *t, int end)
{
	int left = 0;
	for (int k = 0; k < t->ncopies; k++)
		if (t->copies[k].group < end)
			memcpy(t->copies[k].to, t->copies[k].bytes, sizeof t->copies[k].bytes);
		else
			t->copies[left++] = t->copies[k];
	t->ncopies = left;
}

/* 16 bytes, or as many zeros, that are there when the thread has waited, and nothing of use before. */
static bool copy(struct machine *m, struct thread *t, const struct ins *i)
{
	if (i->modifiers == (BIT(async) | BIT(wait_all)) && !i->nop) {
		end_copies(t, t->groups + 1);
		return true;
	}
	if (i->modifiers == (BIT(async) | BIT(wait_group)) && i->nop == 1) {
		end_copies(t, t->groups - (int)get(t, &i->op[0]));
		return true;
	}
	if (i->modifiers == (BIT(async) | BIT(commit_group)) && !i->nop) {
		t->groups++;
		return true;
	}
	uint64_t cached = i->modifiers & (BIT(ca) | BIT(cg));
	if (i->modifiers != (BIT(async) | cached | BIT(shared) | BIT(global)) || !cached || i->nop != 4 || get(t, &i->op[2]) != 16 || t->ncopies == COPIES)
		return false;
	uint64_t bytes = cut(get(t, &i->op[3]), 32), at = address(t, &i->op[1]);
	uint8_t *p = reach(m, t, i, &i->op[0], 16, true), *q = p && bytes ? reach_global(m, t, i, at, 16, false) : p;
	if (!q || at % 16 || (bytes && bytes != 16))
		return false;
	t->copies[t->ncopies].to = p;
	t->copies[t->ncopies].group = t->groups;
	memset(t->copies[t->ncopies].bytes, 0, 16);
	memcpy(t->copies[t->ncopies++].bytes, q, bytes);
	memset(p, 0xA5, 16);
	return true;
}

static bool reduce_at(struct machine *m, struct thread *t, const struct ins *i)
{
	struct type type = i->type[0];
	uint8_t *p = has(i, mapped) ? NULL : reach(m, t, i, &i->op[0], type.bits / 8, true);
	uint32_t old, x = (uint32_t)get(t, &i->op[1]);
	if (!p || type.bits != 32)
		return false;
	memcpy(&old, p, 4);
	if (type.kind == 'f' && has(i, add))
		old = num_bits(num_float(old) + num_float(x));
	else if (has(i, add))
		old += x;
	else if (type.kind == 's')
		old = (has(i, max) ? (int32_t)x > (int32_t)old : (int32_t)x < (int32_t)old) ? x : old;
	else
		old = (has(i, max) ? x > old : x < old) ? x : old;
	memcpy(p, &old, 4);
	return true;
}

/* Counted by all: what was there before, and what is stored before it is seen by whoever sees it. */
static bool count(struct machine *m, struct thread *t, const struct ins *i)
{
	bool known = i->modifiers == (BIT(add) | BIT(acq_rel) | BIT(gpu) | BIT(global)) && i->nop == 3 && i->ntypes == 1 && i->type[0].bits == 32;
	uint8_t *p = known ? reach(m, t, i, &i->op[1], 4, true) : NULL;
	uint32_t old, next;
	if (!p)
		return false;
	memcpy(&old, p, 4);
	next = old + (uint32_t)get(t, &i->op[2]);
	memcpy(p, &next, 4);
	set(t, &i->op[0], old, 32);
	m->moved = true;
	return true;
}

/* --- a warp's instructions -------------------------------------------------------------------------------------------------- */

static void shuffle(struct thread *warp, const struct ins *i)
{
	uint64_t v[WARP];
	bool idx = has(i, idx);
	for (int n = 0; n < WARP; n++)
		v[n] = get(&warp[n], &i->op[1]);
	for (int n = 0; n < WARP; n++) {
		uint64_t by = get(&warp[n], &i->op[2]) & 31;
		set(&warp[n], &i->op[0], v[idx ? by : (unsigned)n ^ by], 32);
	}
}

static void vote(struct thread *warp, const struct ins *i)
{
	uint64_t all = 0;
	for (int n = 0; n < WARP; n++)
		all |= (get(&warp[n], &i->op[1]) & 1) << n;
	for (int n = 0; n < WARP; n++)
		set(&warp[n], &i->op[0], all, 32);
}

static bool sum(struct code *c, struct thread *warp, const struct ins *i)
{
	uint64_t all = 0;
	if (!has(i, add))
		return ptx_refuse(c, "%s: not a sum", i->text);
	for (int n = 0; n < WARP; n++)
		all += get(&warp[n], &i->op[1]);
	for (int n = 0; n < WARP; n++)
		set(&warp[n], &i->op[0], all, 32);
	return true;
}

static float element(const struct thread *t, const struct operand *o, struct type type, int e)
{
	int per = 32 / type.bits;
	uint64_t bits = cut(get(t, &o[e / per]) >> (e % per * type.bits), type.bits);
	return type.kind == 's' ? (float)sign(bits, 8) : type.bits == 32 ? num_float((uint32_t)bits) : num_to_f32((uint32_t)bits, narrow(type));
}

/* D (16 x 8) = A B + C.  A lane's words of A: row lane / 4, then 8 below, of the first half of k, then of the second; of B: column
 * lane / 4.  Of k a lane has lane % 4.  Order: the four lanes of a row one after the other, each its words in order. */
static bool multiply(struct code *c, struct thread *warp, const struct ins *i)
{
	struct type ta = i->ntypes == 4 ? i->type[1] : i->type[0], tb = i->ntypes == 4 ? i->type[2] : ta;
	int words = i->nop - 8, na = words == 6 ? 4 : 0, per = 32 / ta.bits;
	bool whole = ta.kind == 's';
	uint64_t d[WARP][4];
	if (!na || i->ndest != 4)
		return ptx_refuse(c, "%s: not a product of 16 x 8", i->text);
	if (ta.kind == 'f' && ta.bits == 32)
		return ptx_refuse(c, "%s: not a type of its operands", i->text);
	for (int n = 0; n < WARP; n++)
		for (int r = 0; r < 4; r++) {
			uint64_t acc = get(&warp[n], &i->op[4 + words + r]);
			float f = num_float((uint32_t)acc);
			int row = n / 4 + r / 2 * 8, col = n % 4 * 2 + r % 2;
			for (int lane = 0; lane < 4; lane++)
				for (int e = 0; e < 2 * per; e++) {
					const struct thread *a = &warp[row % 8 * 4 + lane], *b = &warp[col * 4 + lane];
					const struct operand *wa = &i->op[4 + row / 8 + 2 * (e / per)], *wb = &i->op[4 + na + e / per];
					float x = element(a, wa, ta, e % per), y = element(b, wb, tb, e % per);
					if (whole)
						acc += (uint64_t)(int64_t)(x * y);
					else
						f = num_dot_f32(f, &x, &y, 1);
				}
			d[n][r] = whole ? cut(acc, 32) : num_bits(f);
		}
	for (int n = 0; n < WARP; n++)
		for (int r = 0; r < 4; r++)
			set(&warp[n], &i->op[r], d[n][r], 32);
	return true;
}

/* --- running ---------------------------------------------------------------------------------------------------------------- */

static bool step(struct machine *m, struct thread *t, const struct ins *i)
{
	struct type type = i->type[0];
	uint64_t v[3] = {0}, out = 0;
	bool known;
	if (is(i, mov))
		return move(t, i);
	if (is(i, ld) || is(i, st))
		return has(i, async) ? ptx_cluster_send(m, t, i) : load_store(m, t, i);
	if (is(i, red))
		return reduce_at(m, t, i);
	if (is(i, atom))
		return count(m, t, i);
	if (is(i, prefetch))
		return fetch(m, t, i);
	if (is(i, cp))
		return copy(m, t, i);
	if (is(i, mapa) || is(i, fence) || is(i, mbarrier))
		return ptx_cluster_step(m, t, i);
	for (int a = 1; a < i->nop && a < 4; a++)
		v[a - 1] = get(t, &i->op[a]);
	if (is(i, selp)) {
		set(t, &i->op[0], v[2] & 1 ? v[0] : v[1], type.bits);
		return true;
	}
	if (is(i, setp)) {
		known = compare(i, v, &out);
		set(t, &i->op[0], out, 1);
		return known && i->ntypes == 1;
	}
	if (is(i, cvt)) {
		known = convert(i, v, &out);
		set(t, &i->op[0], out, type.x2 || has(i, pack) ? (has(i, pack) ? 32 : 2 * type.bits) : type.bits < 32 && type.kind == 's' ? 32 : type.bits);
		return known;
	}
	if (type.kind == 'f' && type.bits == 32)
		known = real_op(i, v, &out);
	else
		known = type.kind != 'f' && type.kind != 'B' && integer_op(i, type, v, &out);
	set(t, &i->op[0], out, has(i, wide) ? 2 * type.bits : is(i, popc) ? 32 : type.bits);
	return known;
}

/* Whether all workgroups have come. */
static bool looks(const struct ins *i) { return is(i, ld) && has(i, acquire); }

static bool is_joint(const struct ins *i)
{
	return is(i, shfl) || is(i, vote) || is(i, redux) || is(i, mma) || is(i, bar) || is(i, barrier) || (is(i, mbarrier) && has(i, try_wait)) || looks(i);
}

static bool is_on(const struct thread *t, const struct ins *i) { return i->guard < 0 || (*reg_of(t, i->guard) != 0) != i->guard_not; }

/* Up to the next joint instruction or the end. */
static bool run_alone(struct machine *m, struct thread *t)
{
	for (int spent = 0; !t->done && t->pc < m->c->n; spent++) {
		const struct ins *i = &m->c->ins[t->pc];
		bool on = is_on(t, i);
		if (i->joint)
			return i->guard < 0 || looks(i) || ptx_refuse(m->c, "%s: a warp's instruction under a predicate", i->text);
		t->pc++;
		if (!on)
			continue;
		if (is(i, ret) || is(i, exit)) {
			if (t->ncopies)
				return ptx_refuse(m->c, "thread %u: ends, and has not waited for what cp.async brings", t->tid);
			t->done = true;
		} else if (is(i, bra))
			t->pc = i->target;
		else if (!is(i, griddepcontrol) && !step(m, t, i))  /* one launch runs at a time */
			return ptx_refuse(m->c, "%s: not known, or not in this form", i->text);
		if (spent > SPIN)
			return ptx_refuse(m->c, "%s: a thread does not come to an end", i->text);
	}
	t->done = true;
	return true;
}

/* A warp looks: it waits where none of its threads sees anything new. */
static enum meeting look(struct machine *m, struct thread *warp, const struct ins *i)
{
	bool any = false, waits = false;
	for (int n = 0; n < WARP; n++) {
		struct thread *t = &warp[n];
		if (!is_on(t, i))
			continue;
		if (!step(m, t, i))
			return FAILS;
		uint32_t now = (uint32_t)get(t, &i->op[0]);
		waits = t->looked && t->seen == now;
		any = any || !waits;
		t->looked = true;
		t->seen = now;
	}
	m->moved = m->moved || any;
	return waits && !any ? WAITS : GOES_ON;
}

enum state { ENDED, AT_BAR, AT_CLUSTER, REFUSED };

/* All threads of a warp to the same barrier or the end; again where it has not left the barrier. */
static enum state run_warp(struct machine *m, struct thread *warp)
{
	for (;;) {
		for (int n = 0; n < WARP; n++)
			if (!run_alone(m, &warp[n]))
				return REFUSED;
		for (int n = 1; n < WARP; n++)
			if (warp[n].done != warp[0].done || (!warp[0].done && warp[n].pc != warp[0].pc)) {
				ptx_refuse(m->c, "thread %u: %s: the warp's threads are not all here", warp[0].tid, warp[0].done ? "end" : m->c->ins[warp[0].pc].text);
				return REFUSED;
			}
		if (warp[0].done) {
			m->moved = true;
			return ENDED;
		}
		const struct ins *i = &m->c->ins[warp[0].pc];
		if (is(i, bar) && !has(i, warp))
			return AT_BAR;
		if (is(i, barrier) || is(i, mbarrier) || looks(i)) {
			enum meeting met = is(i, barrier) ? ptx_cluster_meet(m, warp, i) : looks(i) ? look(m, warp, i) : ptx_cluster_receive(m, warp, i);
			if (met == WAITS)
				m->stuck = warp;
			if (met != GOES_ON)
				return met == WAITS ? AT_CLUSTER : REFUSED;
		} else if (is(i, shfl))
			shuffle(warp, i);
		else if (is(i, vote))
			vote(warp, i);
		else if ((is(i, redux) && !sum(m->c, warp, i)) || (is(i, mma) && !multiply(m->c, warp, i)))
			return REFUSED;
		for (int n = 0; n < WARP; n++)
			warp[n].pc++;
	}
}

static void start(struct machine *m, struct group *g)
{
	uint32_t rank = (uint32_t)(g - m->groups);
	uint64_t meeting = (uint64_t)(uintptr_t)m->meeting;
	memset(g->threads[0].reg, 0xA5, (size_t)m->registers * m->l->block * sizeof *g->threads[0].reg);
	for (uint32_t n = 0; n < m->l->block; n++) {
		struct thread *t = &g->threads[n];
		uint64_t *reg = t->reg;
		memset(t, 0, offsetof(struct thread, copies));
		t->reg = reg;
		t->tid = n;
		t->group = g;
		*reg_of(t, TID) = n;
		*reg_of(t, RANK) = rank;
		for (int d = 0; d < 3; d++)
			*reg_of(t, CTAID + d) = g->at[d], *reg_of(t, NCTAID + d) = m->l->grid[d];
		*reg_of(t, ENVREG1) = meeting >> 32;
		*reg_of(t, ENVREG2) = cut(meeting, 32);
	}
	memset(g->shared, 0xA5, (size_t)m->l->shared + 1);
	if (m->members > 1)
		ptx_cluster_start(m, g);
	g->ended = false;
}

/* The barrier for some warps, with a number, that the warp is at; NULL = it is at none. */
static const struct ins *named(const struct machine *m, const struct thread *warp)
{
	const struct ins *i = warp->done ? NULL : &m->c->ins[warp->pc];
	return i && is(i, bar) && !has(i, warp) && i->nop == 2 ? i : NULL;
}

/* Warps that are all at a barrier of theirs leave it; false = there are none. */
static bool leave_named(struct machine *m, struct group *g)
{
	bool left = false;
	for (uint32_t w = 0; w < m->l->block; w += WARP) {
		const struct ins *i = named(m, &g->threads[w]);
		uint64_t number = i ? get(&g->threads[w], &i->op[0]) : 0;
		uint32_t here = 0;
		for (uint32_t v = 0; i && v < m->l->block; v += WARP)
			here += named(m, &g->threads[v]) == i && get(&g->threads[v], &i->op[0]) == number ? WARP : 0;
		if (!i || !number || number > 15 || here != get(&g->threads[w], &i->op[1]))
			continue;
		for (uint32_t v = 0; v < m->l->block; v += WARP)
			for (uint32_t t = v; named(m, &g->threads[v]) == i && get(&g->threads[v], &i->op[0]) == number && t < v + WARP; t++)
				g->threads[t].at_named = true;
		for (uint32_t t = 0; t < m->l->block; t++) {
			g->threads[t].pc += g->threads[t].at_named;
			g->threads[t].at_named = false;
		}
		left = true;
	}
	m->moved = m->moved || left;
	return left;
}

/* A workgroup's warps, each to the next barrier that is not met yet; then past the workgroup's own if all have come. */
static bool run_block(struct machine *m, struct group *g, int round)
{
	uint32_t warps = m->l->block / WARP, count[REFUSED] = {0};
	for (uint32_t w = 0; w < warps; w++) {                  /* forwards and backwards: an order that a barrier must make good for */
		struct thread *warp = &g->threads[(round % 2 ? warps - 1 - w : w) * WARP];
		enum state state = warp->done ? ENDED : run_warp(m, warp);
		if (state == REFUSED)
			return false;
		count[state]++;
	}
	g->ended = count[ENDED] == warps;
	if (g->ended)
		return m->members == 1 || ptx_cluster_end(m, g);
	if (count[AT_CLUSTER])                                  /* they may come yet */
		return true;
	if (leave_named(m, g))
		return true;
	if (count[AT_BAR] != warps)
		return ptx_refuse(m->c, "%u of %u warps wait at a barrier", count[AT_BAR], warps);
	for (uint32_t t = 1; t < m->l->block; t++)
		if (g->threads[t].pc != g->threads[0].pc)
			return ptx_refuse(m->c, "warps wait at different barriers");
	for (uint32_t t = 0; t < m->l->block; t++)
		g->threads[t].pc++;
	g->bars++;
	m->moved = true;
	return true;
}

/* The cluster whose first workgroup is here; or all workgroups. */
static bool run_cluster(struct machine *m, uint32_t x, uint32_t y, uint32_t z)
{
	const uint32_t *grid = m->l->grid;
	for (int g = 0; g < m->ngroups; g++) {
		uint32_t n = x + (uint32_t)g;
		memcpy(m->groups[g].at, (uint32_t[]){n % grid[0], y + n / grid[0] % grid[1], z + n / grid[0] / grid[1]}, sizeof m->groups[g].at);
		start(m, &m->groups[g]);
	}
	for (int round = 0, ended = 0; ended < m->ngroups; round++) {
		ended = 0;
		m->moved = false;
		for (int n = 0; n < m->ngroups; n++) {
			struct group *g = &m->groups[round % 2 ? m->ngroups - 1 - n : n];
			if (!g->ended && !run_block(m, g, round))
				return false;
			ended += g->ended;
		}
		if (ended < m->ngroups && !m->moved) {
			const struct ins *i = &m->c->ins[m->stuck->pc];
			return ptx_refuse(m->c, "workgroup %u thread %u: %s: %s", m->stuck->group->at[0], m->stuck->tid, i->text,
			                  is(i, mbarrier) ? "its phase never ends" : "others never arrive");
		}
	}
	return true;
}

static void make_groups(struct machine *m)
{
	struct arena *a = &m->c->arena;
	m->groups = arena_alloc(a, (size_t)m->ngroups * sizeof *m->groups);
	for (struct group *g = m->groups; g < m->groups + m->ngroups; g++) {
		g->threads = arena_alloc(a, m->l->block * sizeof *g->threads);
		g->shared = arena_alloc(a, (size_t)m->l->shared + 64);
		uint64_t *reg = arena_alloc(a, (size_t)m->registers * m->l->block * sizeof *reg);
		for (uint32_t t = 0; t < m->l->block; t++)
			g->threads[t].reg = reg + (size_t)m->registers * (t / WARP * WARP) + t % WARP;
		if (m->members > 1)
			ptx_cluster_alloc(m, g);
	}
}

int ptx_run(struct ptx_launch *l, char *err, size_t errlen)
{
	struct code c = {.err = err, .errlen = errlen};
	struct machine m = {.c = &c, .l = l};
	bool fine = ptx_read(&c, l->text, l->kernel);
	for (int i = 0; fine && i < c.n; i++)
		c.ins[i].joint = is_joint(&c.ins[i]);
	if (fine && l->block % WARP)
		fine = ptx_refuse(&c, "%s: workgroups have another shape than the compiler's", l->kernel);
	if (fine && (size_t)c.arguments != l->argument_bytes)
		fine = ptx_refuse(&c, "%s: %d bytes of arguments in the text, %zu are given", l->kernel, c.arguments, l->argument_bytes);
	if (fine && c.shared > l->shared)
		fine = ptx_refuse(&c, "%s: %d bytes of shared memory in the text, %d are given", l->kernel, c.shared, l->shared);
	m.members = m.ngroups = c.cluster ? c.cluster : 1;
	if (fine && c.meets != l->meets)
		fine = ptx_refuse(&c, "%s: its workgroups %s", l->kernel, l->meets ? "do not wait for each other" : "wait for each other, and may not run at a time");
	if (fine && c.meets && c.cluster)
		fine = ptx_refuse(&c, "%s: workgroups of clusters that all wait for each other are not known here", l->kernel);
	uint64_t all = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	if (fine && c.meets && all > MOST_MEETING)
		fine = ptx_refuse(&c, "%s: %llu workgroups wait for each other; expected %d at most", l->kernel, (unsigned long long)all, MOST_MEETING);
	if (fine && c.meets)
		m.ngroups = (int)all;
	m.meeting[0] = sizeof m.meeting;
	m.registers = c.nclasses ? (int)(c.classes[c.nclasses - 1].value + c.registers[c.nclasses - 1].value) : SPECIALS;
	if (fine && l->grid[0] % (uint32_t)m.members)
		fine = ptx_refuse(&c, "%s: a grid of %u workgroups along x is not one of clusters of %d", l->kernel, l->grid[0], m.ngroups);
	if (fine)
		make_groups(&m);
	for (uint32_t z = 0; z < l->grid[2]; z++)
		for (uint32_t y = 0; y < l->grid[1]; y++)
			for (uint32_t x = 0; fine && x < l->grid[0] && (!c.meets || (!x && !y && !z)); x += (uint32_t)m.members)
				fine = run_cluster(&m, x, y, z);
	arena_free(&c.arena);
	return fine ? 0 : -1;
}
