/* quad.c -- wgmma: products of four warps, whose operands lie in shared memory (PTX ISA, "Asynchronous warpgroup level matrix instructions").
 * In: where the operands lie, the sums so far.  Out: PTX under way; a descriptor names rows of 128 bytes, swizzled by 128 (there, "Matrix descriptor").
 * The sums' registers must not be touched while products are under way: whoever reads them waits first, and gets them from the wait. */
#include "machine.h"

#include <stdio.h>
#include <string.h>

/* Of a descriptor, in 16 bytes: what matrices along k are apart, which rows that hold all of k do without; the kind of swizzle. */
#define DESCRIPTOR (1ull << 62 | 1ull << 16)
enum { UNIT_BITS = 4, ROWS_APART_AT = 32, STEP = 32, ELEMENTS = 4, MOST = QUAD_MOST / 2, TEXT = 4096 };

static LLVMValueRef descriptor(struct emit *e, const struct quad_operand *o)
{
	LLVMValueRef at = LLVMBuildLShr(e->b, LLVMBuildPtrToInt(e->b, o->place, e->i64, ""), LLVMConstInt(e->i64, UNIT_BITS, 0), "");
	return LLVMBuildOr(e->b, at, LLVMConstInt(e->i64, DESCRIPTOR | (uint64_t)(o->apart >> UNIT_BITS) << ROWS_APART_AT, 0), "");
}

static void put(char *text, int *at, const char *format, int number) { *at += snprintf(text + *at, TEXT - (size_t)*at, format, number); }

/* Names of n registers from the first on. */
static void put_list(char *text, int *at, int n)
{
	for (int k = 0; k < n; k++)
		put(text, at, k ? ",$%d" : "$%d", k);
}

/* Text whose results are n f32 and whose first n operands are what they were, under `acc`; args: room for these, in front of the `more` that stand behind. */
static void run(struct emit *e, const char *text, LLVMValueRef *acc, int vectors, LLVMValueRef *args, const char *more, int nmore)
{
	LLVMTypeRef types[MOST + 2], results[MOST];
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

void nvptx_quad_product(struct emit *e, const struct quad *m, const struct quad_operand *a, const struct quad_operand *b, int steps, LLVMValueRef *acc, int vectors)
{
	LLVMValueRef args[MOST + 2];
	char text[TEXT];
	int n = vectors * ELEMENTS, at = 0;
	args[n] = descriptor(e, a);
	args[n + 1] = descriptor(e, b);
	put(text, &at, "{ .reg .b64 a, b; .reg .pred on; setp.ne.b32 on, 1, 0; wgmma.fence.sync.aligned; ", 0);
	for (int s = 0; s < steps; s++) {
		at += snprintf(text + at, TEXT - (size_t)at, "add.s64 a, $%d, %d; add.s64 b, $%d, %d; ", 2 * n, s * STEP >> UNIT_BITS, 2 * n + 1, s * STEP >> UNIT_BITS);
		at += snprintf(text + at, TEXT - (size_t)at, "wgmma.mma_async.sync.aligned.m%dn%dk%d.%s {", QUAD_ROWS, vectors * 8, m->k, m->types);
		put_list(text, &at, n);
		put(text, &at, "}, a, b, on, 1, 1, 0, 0; ", 0);
	}
	put(text, &at, "wgmma.commit_group.sync.aligned; }", 0);
	run(e, text, acc, vectors, args, "l,l,", 2);
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
