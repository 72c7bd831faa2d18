/* object_shifts.c -- PTX whose products are shifted by several amounts, with shifts that ptxas leaves where they are.
 *
 * In: PTX as LLVM writes it, a statement a line.  Out: the same; `shl.b32 d, p, k` of a product p as `shf.l.wrap.b32 d, 0, p, k`, the same number,
 * in kernels where such shifts are by different amounts.
 *
 * ptxas 12.4 to 13.5, and the driver's, make of (x * s) << k + y at -O2 and -O3, where x is multiplied with several s, (x << k) * s + y, and then take
 * for a smaller k the x << k of the larger one.  Of two tensors of 4 bytes and two of 2, whose rows a wave finds by its number and their
 * strides, the latter's rows lay twice as far apart as they do (tests/nvptx_shifts_test.c has the least text).  Products of 64 bits, sums that
 * are shifted, and factors that were shifted before are not touched by it.  A funnel shift with zero it leaves, and makes one instruction
 * of it and the sum.  Kernels with one amount are right as they are, and stay so. */
#include "object_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 96, MOST_AMOUNT = 31, GROWTH = 12 };       /* LINE: bytes of a statement of three registers; GROWTH: that a shift becomes longer */

static const char mul[] = "\n\tmul.lo.s32 ", shl[] = "\n\tshl.b32 ", entry[] = "\n.visible .entry ";
#define BEGINS(w) (w), sizeof (w) - 1

/* A kernel's part of the text; product: by the number of a 32-bit register, that it is the product of two. */
struct kernel { const char *at, *end; bool *product; unsigned nproducts; };
struct shift { unsigned d, of, by; int length; };       /* length: of the statement */

static const char *find(const char *at, const char *end, const char *what, size_t n)
{
	return at < end ? memmem(at, (size_t)(end - at), what, n) : NULL;
}

/* Behind the first byte of the line, which is the end of the one before. */
static const char *statement(const char *at, const char *end, char line[LINE])
{
	size_t n = (size_t)(end - at - 1) < LINE - 1 ? (size_t)(end - at - 1) : LINE - 1;
	memcpy(line, at + 1, n);
	line[n] = 0;
	return line;
}

static bool is_product(const char *at, const char *end, unsigned *d)
{
	char line[LINE];
	unsigned x, s;
	return sscanf(statement(at, end, line), " mul.lo.s32 %%r%u, %%r%u, %%r%u;", d, &x, &s) == 3;
}

static bool is_shift(const struct kernel *k, const char *at, struct shift *s)
{
	char line[LINE];
	s->length = 0;
	sscanf(statement(at, k->end, line), " shl.b32 %%r%u, %%r%u, %u;%n", &s->d, &s->of, &s->by, &s->length);
	return s->length && s->by <= MOST_AMOUNT && s->of < k->nproducts && k->product[s->of];
}

static void mark_products(struct arena *a, struct kernel *k)
{
	unsigned d;
	k->nproducts = 0;
	for (const char *at = k->at; (at = find(at, k->end, BEGINS(mul))); at++)
		k->nproducts = is_product(at, k->end, &d) && d >= k->nproducts ? d + 1 : k->nproducts;
	k->product = arena_alloc(a, k->nproducts + 1);
	for (const char *at = k->at; (at = find(at, k->end, BEGINS(mul))); at++)
		if (is_product(at, k->end, &d))
			k->product[d] = true;
}

static bool is_shifted_by_several(const struct kernel *k)
{
	struct shift s;
	uint32_t amounts = 0;
	for (const char *at = k->at; (at = find(at, k->end, BEGINS(shl))); at++)
		amounts |= is_shift(k, at, &s) ? 1u << s.by : 0;
	return amounts & (amounts - 1);
}

static char *append(char *out, const char *at, const char *end)
{
	memcpy(out, at, (size_t)(end - at));
	return out + (end - at);
}

static char *write_funnels(const struct kernel *k, char *out)
{
	struct shift s;
	const char *from = k->at;
	for (const char *at = k->at; (at = find(at, k->end, BEGINS(shl))); at++) {
		if (!is_shift(k, at, &s))
			continue;
		out = append(out, from, at);
		out += sprintf(out, "\n\tshf.l.wrap.b32 \t%%r%u, 0, %%r%u, %u;", s.d, s.of, s.by);
		from = at + 1 + s.length;
	}
	return append(out, from, k->end);
}

char *object_shifts(char *ptx, size_t *n)
{
	struct arena a = {0};
	size_t shifts = 0;
	const char *end = ptx + *n;
	for (const char *at = ptx; (at = find(at, end, BEGINS(shl))); at++)
		shifts++;
	char *text = malloc(*n + shifts * GROWTH + 1), *out = text;
	for (const char *at = ptx; text && at < end;) {
		const char *next = find(at + 1, end, BEGINS(entry));
		struct kernel k = {.at = at, .end = next ? next : end};
		mark_products(&a, &k);
		out = is_shifted_by_several(&k) ? write_funnels(&k, out) : append(out, k.at, k.end);
		at = k.end;
	}
	if (text) {
		*out = 0;
		*n = (size_t)(out - text);
	}
	arena_free(&a);
	free(ptx);
	return text;
}
