/* foreign.cl -- kernels in OpenCL C that nothing of tdsl had a hand in, for sim_foreign_test.c.
 *
 * clang compiles this file twice: as OpenCL C for a chip, and as C for the host with HOST defined.  Elementwise kernels are one
 * function both share; for kernels whose work items cooperate the host has a plain loop.  N elements, groups of 256. */
#ifdef HOST
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef uint32_t uint;
typedef uint64_t ulong;
typedef int64_t slong;
typedef uint8_t uchar;
typedef uint16_t ushort;
typedef _Float16 half;
#define global
#define EXPORT __attribute__((visibility("default")))
#else
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef long slong;
#define memcpy __builtin_memcpy
#define ITEM (__builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x())
#define LOCAL __builtin_amdgcn_workitem_id_x()
#define BARRIER __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
#define GROUP kernel __attribute__((reqd_work_group_size(256, 1, 1)))
#endif
#define N 4096

struct item { uint a, b, c, d; };

static uint bits(float x) { uint u; memcpy(&u, &x, 4); return u; }
static float number(uint u) { float x; memcpy(&x, &u, 4); return x; }
static ulong bits64(double x) { ulong u; memcpy(&u, &x, 8); return u; }
/* Of moderate size. */
static float moderate(uint u) { return number((u & 0x807fffff) | (100 + (u >> 23) % 56) << 23); }
static double moderate64(uint u, uint v)
{
	ulong w = ((ulong)((u & 0x800fffff) | (900 + (u >> 20) % 250) << 20)) << 32 | v;
	double x;
	memcpy(&x, &w, 8);
	return x;
}

static uint integers(struct item t)
{
	uint r = t.a * t.b + t.c / (t.d | 1) + t.c % (t.b | 1);
	r ^= r << (t.d & 31) | r >> (-t.d & 31);
	int s = (int)t.a / ((int)(t.b >> 20) + 1) - (int)t.c % ((int)(t.d >> 24) + 3);
	return r + (uint)s * 0x9e3779b1u + (t.a > t.b ? t.a : t.b) - ((int)t.c < (int)t.d ? t.c : t.d);
}

static uint wide(struct item t)
{
	ulong x = (ulong)t.a << 32 | t.b, y = (ulong)t.c << 20 | t.d;
	ulong r = x * y + x / (y | 1) + x % (y | 1) + (x >> (t.d & 63)) + (ulong)((slong)x >> (t.c & 63));
	slong s = (slong)x / ((slong)y | 1) + (slong)((ulong)t.a * t.c);
	r ^= (ulong)s;
	return (uint)r ^ (uint)(r >> 32);
}

static uint floats(struct item t)
{
	float a = moderate(t.a), b = moderate(t.b), c = moderate(t.c);
	float r = a * b + c, q = a / b, s = __builtin_sqrtf(__builtin_fabsf(c)), f = __builtin_fmaf(a, b, c);
	uint u = bits(r) + bits(q) * 3 + bits(s) * 5 + bits(f) * 7;
	float k = __builtin_floorf(a * 8) + __builtin_truncf(b * 4) + (float)(int)(t.d >> 8) - (float)t.c;
	u += bits(k) * 11 + (uint)(int)(number((t.d & 0x807fffff) | 150 << 23));
	return u + bits(c < a ? __builtin_fminf(a, b) : __builtin_fmaxf(b, c)) * 13;
}

static uint doubles(struct item t)
{
	double a = moderate64(t.a, t.b), b = moderate64(t.c, t.d), c = moderate64(t.b, t.c);
	ulong u = bits64(a * b + c) + bits64(a / b) * 3 + bits64(__builtin_sqrt(c < 0 ? -c : c)) * 5 + bits64(__builtin_fma(a, b, c)) * 7;
	u += bits64((double)(slong)((ulong)t.a << 32 | t.b)) * 11 + bits64((double)(float)b) + bits64(__builtin_floor(a) + t.c);
	return (uint)u ^ (uint)(u >> 32);
}

static uint halves(struct item t)
{
	half a = (half)(moderate(t.a) * 0x1p-20f), b = (half)((float)(t.b & 1023) - 512), c = (half)(float)(t.c >> 26);
	half r = a * b + c, s = b / (c + (half)1), d = a < b ? c : b;
	ushort u, v, w;
	memcpy(&u, &r, 2);
	memcpy(&v, &s, 2);
	memcpy(&w, &d, 2);
	return u + v * 65537u + w * 257u + bits((float)r);
}

static uint bytes(struct item t)
{
	uchar b[16];
	uint sum = 0;
	memcpy(b, &t, 16);
	for (int i = 0; i < 16; i++) {
		int v = b[i] + (signed char)b[(i + 5) & 15];
		sum = sum * 31 + (uint)(v < 0 ? 0 : v > 255 ? 255 : v);
	}
	short s[2];
	memcpy(s, b + 3, 4);
	return sum + (uint)(s[0] * s[1]);
}

/* A private array with indices that depend on the data: scratch. */
static uint sorted(struct item t)
{
	uint v[24], r = 0;
	for (int i = 0; i < 24; i++)
		v[i] = (t.a * (uint)(i + 1) ^ t.b >> (i & 15)) + t.c;
	for (int i = 1; i < 24; i++) {
		uint x = v[i];
		int k = i;
		for (; k > 0 && v[k - 1] > x; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
	for (int i = 0; i < 24; i++)
		r = r * 33 + v[(i * 7 + (int)(t.d & 7)) % 24];
	return r;
}

/* Loops whose lengths differ from item to item, and a switch. */
static uint states(struct item t)
{
	uint n = (t.a & 0xffff) + 1, state = 0, r = t.b;
	for (uint i = 0; n != 1 && i < 200; i++) {
		n = n & 1 ? 3 * n + 1 : n / 2;
		switch (state) {
		case 0: r += n; state = r & 3; break;
		case 1: r ^= n << 3; state = n % 5; break;
		case 2: r = r * 5 + 1; state = 4; continue;
		case 3: if (r & 8) return r + i; state = 0; break;
		case 4: r -= i; state = 1; break;
		default: r = ~r; state = 2;
		}
	}
	return r;
}

static __attribute__((noinline)) uint gcd(uint a, uint b)
{
	while (b) {
		uint t = a % b;
		a = b;
		b = t;
	}
	return a;
}
static __attribute__((noinline)) ulong power(ulong x, uint n, uint m)
{
	ulong r = 1;
	for (x %= m; n; n >>= 1, x = x * x % m)
		if (n & 1)
			r = r * x % m;
	return r;
}
static uint calls(struct item t)
{
	return gcd(t.a, t.b) + (uint)power(t.c, t.d & 0xff, (t.a >> 8) | 1) * gcd(t.c & 0xff, 60);
}

static uint bit_counts(struct item t)
{
	ulong x = (ulong)t.a << 32 | t.b;
	uint r = (uint)__builtin_popcount(t.a) + (uint)__builtin_popcountl(x) * 3 + (uint)__builtin_clz(t.b | 1) * 5 + (uint)__builtin_ctzl(x | 1ul << 63) * 7;
	r += __builtin_bitreverse32(t.c) + __builtin_bswap32(t.d) + (uint)__builtin_bitreverse64(x) + (t.c >> (t.d & 15) & 0x3f) * 11;
	return r + (uint)((int)(t.d << 7) >> 21);
}

#define EACH_KERNEL(X) X(integers) X(wide) X(floats) X(doubles) X(halves) X(bytes) X(sorted) X(states) X(calls) X(bit_counts)
#ifdef HOST
#define X(name) EXPORT void host_##name(const struct item *in, uint *out, uint seed) { (void)seed; for (uint i = 0; i < N; i++) out[i] = name(in[i]); }
#else
#define X(name) GROUP void k_##name(global const struct item *in, global uint *out, uint seed) { out[ITEM] = name(in[ITEM]); }
#endif
EACH_KERNEL(X)

/* An inclusive scan of each group, reversed, by LDS and barriers. */
#ifdef HOST
EXPORT void host_scan(const struct item *in, uint *out, uint seed)
{
	for (uint g = 0; g < N; g += 256) {
		uint sum = seed;
		for (uint i = 0; i < 256; i++)
			out[g + 255 - i] = sum += in[g + i].a;
	}
}
#else
GROUP void k_scan(global const struct item *in, global uint *out, uint seed)
{
	local uint v[2][256];
	uint at = LOCAL, from = 0;
	v[0][at] = in[ITEM].a + (at ? 0 : seed);
	for (uint step = 1; step < 256; step *= 2, from ^= 1) {
		BARRIER;
		v[from ^ 1][at] = v[from][at] + (at >= step ? v[from][at - step] : 0);
	}
	BARRIER;
	out[ITEM] = v[from][255 - at];
}
#endif

/* A histogram of all items, first in LDS, then in memory; maxima and 64-bit sums beside it. */
#ifdef HOST
EXPORT void host_histogram(const struct item *in, uint *out, uint seed)
{
	(void)seed;
	for (uint i = 0; i < N; i++) {
		slong s;
		out[in[i].a & 63]++;
		out[64] = in[i].b > out[64] ? in[i].b : out[64];
		memcpy(&s, out + 66, 8);
		s += in[i].c;
		memcpy(out + 66, &s, 8);
		out[68] ^= in[i].d;
		out[69] |= in[i].d & in[i].c & in[i].b;
	}
}
#else
GROUP void k_histogram(global const struct item *in, global uint *out, uint seed)
{
	local uint count[64];
	struct item t = in[ITEM];
	if (LOCAL < 64)
		count[LOCAL] = 0;
	BARRIER;
	__scoped_atomic_fetch_add(&count[t.a & 63], 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_WRKGRP);
	BARRIER;
	if (LOCAL < 64)
		__scoped_atomic_fetch_add(&out[LOCAL], count[LOCAL], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
	__scoped_atomic_fetch_max(&out[64], t.b, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
	__scoped_atomic_fetch_add((global ulong *)(out + 66), (ulong)t.c, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
	__scoped_atomic_fetch_xor(&out[68], t.d, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
	__scoped_atomic_fetch_or(&out[69], t.d & t.c & t.b, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
#endif

/* 16 x 16 tiles of a 64 x 64 matrix, transposed through padded LDS; and one address that is LDS or memory by the data. */
#ifdef HOST
EXPORT void host_transpose(const struct item *in, uint *out, uint seed)
{
	for (uint i = 0; i < 64; i++)
		for (uint j = 0; j < 64; j++)
			out[64 * j + i] = in[64 * i + j].a ^ (in[64 * i + j].b & 1 ? in[64 * i + j].c : seed);
}
#else
static __attribute__((noinline)) uint read(const uint *p) { return *(const volatile uint *)p; }
GROUP void k_transpose(global const struct item *in, global uint *out, uint seed)
{
	local uint tile[16][17], other;
	uint g = __builtin_amdgcn_workgroup_id_x(), x = LOCAL & 15, y = LOCAL / 16, row = g / 4 * 16, col = g % 4 * 16;
	global const struct item *t = in + 64 * (row + y) + col + x;
	if (LOCAL == 0)
		other = seed;
	BARRIER;
	tile[y][x] = t->a ^ read(t->b & 1 ? (const uint *)&t->c : (const uint *)&other);
	BARRIER;
	out[64 * (col + y) + row + x] = tile[x][y];
}
#endif
