/* quad.c -- wgmma: products of four warps, whose operands lie in shared memory (PTX ISA, "Asynchronous warpgroup level matrix instructions").
 * In: where the operands lie, the sums so far.  Out: PTX under way; a descriptor names rows of 128 bytes, swizzled by 128 (there, "Matrix descriptor").
 * The sums' registers must not be touched while products are under way: whoever reads them waits first, and gets them from the wait. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

/* Of a descriptor, in units of 16 bytes: what blocks of a row, and what eight rows are apart; the kind of swizzle. */
#define SWIZZLE_128 (1ull << 62)
enum { UNIT_BITS = 4, BLOCKS_AT = 16, ROWS_AT = 32, ELEMENTS = 4, MOST = QUAD_MOST / 2, MOST_STEPS = 16, MOST_MORE = 1 + 5 * MOST_STEPS, TEXT = 16384 };

static LLVMValueRef descriptor(struct emit *e, const struct quad_operand *o)
{
	uint64_t apart = (uint64_t)(o->blocks >> UNIT_BITS) << BLOCKS_AT | (uint64_t)(o->apart >> UNIT_BITS) << ROWS_AT;
	LLVMValueRef at = LLVMBuildLShr(e->b, LLVMBuildPtrToInt(e->b, o->place, e->i64, ""), LLVMConstInt(e->i64, UNIT_BITS, 0), "");
	return LLVMBuildOr(e->b, at, LLVMConstInt(e->i64, SWIZZLE_128 | apart, 0), "");
}

/* Of step s, from the operand's. */
static LLVMValueRef step_from(struct emit *e, const struct quad_operand *o, LLVMValueRef descriptor, int s)
{
	int at = (s / o->steps * o->blocks + s % o->steps * o->step) >> UNIT_BITS;
	return at ? LLVMBuildAdd(e->b, descriptor, LLVMConstInt(e->i64, (uint64_t)at, 0), "") : descriptor;
}

static void put(char *text, int *at, const char *format, int number) { *at += snprintf(text + *at, TEXT - (size_t)*at, format, number); }

/* Names of n registers from the first on. */
static void put_list(char *text, int *at, int n)
{
	for (int k = 0; k < n; k++)
		put(text, at, k ? ",$%d" : "$%d", k);
}

/* Text whose results are n f32 and whose first n operands are what they were, under `acc`; args: room for these, in front of those that `more` is the form of. */
static void run(struct emit *e, const char *text, LLVMValueRef *acc, int vectors, LLVMValueRef *args, const char *more, int nmore)
{
	LLVMTypeRef types[MOST + MOST_MORE], results[MOST];
	char form[TEXT];
	int n = vectors * ELEMENTS, at = 0;
	for (int k = 0; k < n; k++)
		put(form, &at, "=f,", 0);
	for (int k = 0; k < n; k++) {
		put(form, &at, "%d,", k);
		args[k] = LLVMBuildExtractElement(e->b, acc[k / ELEMENTS], emit_int(e, k % ELEMENTS), "");
		results[k] = e->f32;
	}
	snprintf(form + at, sizeof form - (size_t)at, "%s~{memory}", more);
	for (int k = 0; k < n + nmore; k++)
		types[k] = LLVMTypeOf(args[k]);
	LLVMTypeRef t = LLVMFunctionType(LLVMStructTypeInContext(e->ctx, results, (unsigned)n, 0), types, (unsigned)(n + nmore), 0);
	LLVMValueRef f = LLVMGetInlineAsm(t, text, strlen(text), form, strlen(form), true, 0, LLVMInlineAsmDialectATT, 0), x = LLVMBuildCall2(e->b, t, f, args, (unsigned)(n + nmore), "");
	for (int v = 0; v < vectors; v++) {
		LLVMValueRef d = LLVMGetPoison(emit_vector(e->f32, ELEMENTS));
		for (int k = 0; k < ELEMENTS; k++)
			d = LLVMBuildInsertElement(e->b, d, LLVMBuildExtractValue(e->b, x, (unsigned)(v * ELEMENTS + k), ""), emit_int(e, k), "");
		acc[v] = d;
	}
}

/* The operands of one step: words of row lane / 4 and those of the row 8 below, which it takes by turns, or a descriptor; and the other descriptor. */
static void add_step(struct emit *e, const struct quad_operand *a, const struct quad_operand *b, const LLVMValueRef descriptors[2], int s, LLVMValueRef *args, int *n)
{
	static const int turn[4] = {0, 2, 1, 3};
	for (int w = 0; a->words && w < 4; w++)
		args[(*n)++] = LLVMBuildExtractElement(e->b, a->words[s], emit_int(e, turn[w]), "");
	if (!a->words)
		args[(*n)++] = step_from(e, a, descriptors[0], s);
	args[(*n)++] = step_from(e, b, descriptors[1], s);
}

/* Steps `from` to `to`. */
static void multiply(struct emit *e, const struct quad *m, const struct quad_operand *a, const struct quad_operand *b, int from, int to, LLVMValueRef *acc, int vectors)
{
	LLVMValueRef args[MOST + MOST_MORE], descriptors[2] = {a->words ? NULL : descriptor(e, a), descriptor(e, b)};
	char text[TEXT], form[4 * MOST_MORE] = "b,";
	int n = vectors * ELEMENTS, at = 0, more = n + 1, formed = 2;
	args[n] = LLVMConstInt(e->i1, 1, 0);                 /* the sums so far count */
	put(text, &at, "wgmma.fence.sync.aligned; ", 0);
	for (int s = from; s < to; s++) {
		int w = n + more;
		add_step(e, a, b, descriptors, s, args, &more);
		at += snprintf(text + at, TEXT - (size_t)at, "wgmma.mma_async.sync.aligned.m%dn%dk%d.%s {", QUAD_ROWS, vectors * 8, m->k, m->types);
		put_list(text, &at, n);
		if (a->words)
			at += snprintf(text + at, TEXT - (size_t)at, "}, {$%d,$%d,$%d,$%d}, $%d, $%d, 1, 1, %d; ", w, w + 1, w + 2, w + 3, w + 4, 2 * n, b->across);
		else
			at += snprintf(text + at, TEXT - (size_t)at, "}, $%d, $%d, $%d, 1, 1, %d, %d; ", w, w + 1, 2 * n, a->across, b->across);
		formed += snprintf(form + formed, sizeof form - (size_t)formed, a->words ? "r,r,r,r,l," : "l,l,");
	}
	put(text, &at, "wgmma.commit_group.sync.aligned;", 0);
	run(e, text, acc, vectors, args, form, more - n);
}

void nvptx_quad_product(struct emit *e, const struct quad *m, const struct quad_operand *a, const struct quad_operand *b, int steps, LLVMValueRef *acc, int vectors)
{
	for (int s = 0; s < steps; s += MOST_STEPS)
		multiply(e, m, a, b, s, s + MOST_STEPS < steps ? s + MOST_STEPS : steps, acc, vectors);
}

void nvptx_quads_wait(struct emit *e, int lots, LLVMValueRef *acc, int vectors)
{
	LLVMValueRef args[MOST];
	char text[64];
	snprintf(text, sizeof text, "wgmma.wait_group.sync.aligned %d;", lots);
	if (!vectors)
		nvptx_text(e, text, "~{memory}", LLVMVoidTypeInContext(e->ctx), NULL, 0, true);
	for (int v = 0; v < vectors; v += MOST / ELEMENTS)
		run(e, text, acc + v, vectors - v < MOST / ELEMENTS ? vectors - v : MOST / ELEMENTS, args, "", 0);
}

/* What lanes have copied and written, for what reads group memory by another way (there, "Async proxy"). */
void nvptx_quads_see(struct emit *e)
{
	nvptx_text(e, "fence.proxy.async.shared::cta;", "~{memory}", LLVMVoidTypeInContext(e->ctx), NULL, 0, true);
}
