/* memory.c -- accesses through plain global addresses.
 * Where nothing can be masked off an access is an LLVM load or store.  Elsewhere it is PTX under a predicate, since LLVM would make a
 * branch of each: a lane that is off loads 0 and stores nothing.  Inputs, which nothing writes during the kernel, are read by ld.global
 * all the same: ptxas moves ld.global.nc up past the wait for the launch before.  An absent optional tensor's pointer is null, which is one more thing that an access asks. */
#include "machine.h"

#include <stdio.h>

/* Bytes that the L2 reads and writes at a time (CUDA's guide to best practices). */
enum { SECTOR = 32 };

/* Policies of the L2 as numbers: of lines that it gives up when it has no others, and as it likes.  createpolicy makes the same of
 * evict_last and evict_normal, in six instructions for one (CUTLASS, cute/arch/copy_sm90_desc.hpp, CacheHintSm90). */
#define LAST_TO_LEAVE 0x14f0000000000000ull
#define AS_IT_LIKES 0x1000000000000000ull
/* Of what the L2 holds, the part from which on a call's rows are kept. */
enum { PART_OF_L2 = 8 };

struct reading { const struct emit *e; int64_t bytes; };

static void add_rows(struct ir_ins *i, void *ctx)
{
	struct reading *r = ctx;
	r->bytes += access_rows(r->e, i);
}

/* Of rows that are read and not read again: lines that are stored are to leave the L2 before those that have been read.  They go to memory the sooner,
 * more of them side by side, and memory is faster for it; and lines that are read then take the place of others like them, where else what is in the
 * L2 has to be written first.  Calls of a few lines are better off with what they find there, and so is who comes next (docs/performance.md).
 * Of rows that may not be there nobody knows how many are read.  NULL = not rows, or the variant has it otherwise. */
static LLVMValueRef rows_policy(struct emit *e, const struct access *a)
{
	struct reading r = {e, 0};
	if (e->v->stored_first == STORED_AS_READ || e->v->gaps || !access_rows(e, a->i))
		return NULL;
	ir_walk(e->ph->body, add_rows, &r);
	int64_t l2 = e->v->target->l2_bytes, least = (l2 / PART_OF_L2 + r.bytes - 1) / r.bytes, most = (l2 + r.bytes - 1) / r.bytes;
	LLVMValueRef n = grid_workgroups(e), last = LLVMBuildICmp(e->b, LLVMIntUGE, n, emit_int(e, least), "");
	if (e->v->stored_first == STORED_FIRST_OF_FEW)
		last = LLVMBuildAnd(e->b, last, LLVMBuildICmp(e->b, LLVMIntULT, n, emit_int(e, most), ""), "");
	return LLVMBuildSelect(e->b, last, LLVMConstInt(e->i64, LAST_TO_LEAVE, 0), LLVMConstInt(e->i64, AS_IT_LIKES, 0), "");
}

/* Where parts of sectors are stored, here and there, the L2 is to keep each until other workgroups have stored the rest: i64, NULL = it is
 * as the L2 likes. */
static LLVMValueRef policy_of(struct emit *e, const struct access *a)
{
	bool part = a->row_bytes && a->row_bytes < SECTOR;
	return part ? LLVMConstInt(e->i64, LAST_TO_LEAVE, 0) : rows_policy(e, a);
}

void nvptx_access_open(struct emit *e, struct access *a, LLVMValueRef elements)
{
	LLVMValueRef base = access_base(e, a, elements);
	a->plain = !a->mask && !variant_may_lack(e->v, e->k, a->i->imm);
	a->policy = policy_of(e, a);
	a->all = base;
	if (!a->joined && (!LLVMIsConstant(a->lane) || LLVMConstIntGetZExtValue(a->lane))) {
		LLVMValueRef lane = LLVMBuildZExt(e->b, a->lane, e->i64, "");
		base = LLVMBuildGEP2(e->b, e->i8, base, &lane, 1, "");
	}
	a->base = base;
}

/* Address of register r without its constant part. */
static LLVMValueRef pointer_at(struct emit *e, const struct access *a, int r, int64_t *constant)
{
	LLVMValueRef part[2], p = a->base;
	access_offset(e, a, r, constant, &part[0], &part[1]);
	for (int i = 0; i < 2; i++)
		if (part[i]) {
			LLVMValueRef wide = LLVMBuildZExt(e->b, part[i], e->i64, "");
			p = LLVMBuildGEP2(e->b, e->i8, p, &wide, 1, "");
		}
	return p;
}

static LLVMValueRef whole_pointer(struct emit *e, const struct access *a, int r)
{
	int64_t constant;
	LLVMValueRef p = pointer_at(e, a, r, &constant), at = LLVMConstInt(e->i64, (uint64_t)constant, 0);
	return constant ? LLVMBuildGEP2(e->b, e->i8, p, &at, 1, "") : p;
}

static bool is_known(LLVMValueRef on, bool value)
{
	return on && LLVMIsAConstantInt(on) && LLVMConstIntGetZExtValue(on) == value;
}

/* i1, NULL = always. */
static LLVMValueRef condition(struct emit *e, const struct access *a, int r)
{
	LLVMValueRef on = access_condition(e, a, r);
	on = is_known(on, true) ? NULL : on;
	if (!variant_may_lack(e->v, e->k, a->i->imm) || is_known(on, false))
		return on;
	LLVMValueRef there = LLVMBuildICmp(e->b, LLVMIntNE, e->tensors[a->i->imm].pointer, LLVMConstNull(e->p1), "");
	return on ? LLVMBuildAnd(e->b, on, there, "") : there;
}

/* How PTX writes a piece of so many bytes. */
static const struct piece { int bytes, words; const char *type, *zero, *out, *in, *list; } pieces[] = {
	{1, 1, "u8", "mov.b16 $0, 0;", "=&h", "h", "$0"},
	{2, 1, "b16", "mov.b16 $0, 0;", "=&h", "h", "$0"},
	{4, 1, "b32", "mov.b32 $0, 0;", "=&r", "r", "$0"},
	{8, 2, "v2.b32", "mov.b32 $0, 0; mov.b32 $1, 0;", "=&r,=&r", "r,r", "{$0, $1}"},
	{16, 4, "v4.b32", "mov.b32 $0, 0; mov.b32 $1, 0; mov.b32 $2, 0; mov.b32 $3, 0;", "=&r,=&r,=&r,=&r", "r,r,r,r", "{$0, $1, $2, $3}"},
};

static const struct piece *piece_of(const struct access *a)
{
	const struct piece *p = pieces;
	while (p->bytes != access_bytes(a))
		p++;
	return p;
}

/* Nothing in the kernel writes it. */
static bool is_input(const struct access *a)
{
	return a->t->role == IR_IN;
}

/* What an access says beside its address: its policy and when it is made, as operands from args[*n] on; their numbers count from `first`. */
struct said { char when[8], kept[8]; };

static struct said say(const struct access *a, LLVMValueRef on, LLVMValueRef *args, int *n, int first)
{
	struct said s = {"", ""};
	if (a->policy) {
		snprintf(s.kept, sizeof s.kept, ", $%d", first + *n);
		args[(*n)++] = a->policy;
	}
	if (on) {
		snprintf(s.when, sizeof s.when, "@$%d ", first + *n);
		args[(*n)++] = on;
	}
	return s;
}

static LLVMValueRef load_plain(struct emit *e, const struct access *a, int r, LLVMTypeRef t)
{
	LLVMValueRef x = LLVMBuildLoad2(e->b, t, whole_pointer(e, a, r), "");
	LLVMSetAlignment(x, (unsigned)access_bytes(a));
	return x;
}

LLVMValueRef nvptx_load(struct emit *e, const struct access *a, int r, LLVMTypeRef t)
{
	LLVMValueRef on = condition(e, a, r);
	if (is_known(on, false))
		return LLVMConstNull(t);
	bool relaxed = a->i->flags & IR_RELAXED;
	if (!on && !a->policy && !relaxed)
		return load_plain(e, a, r, t);
	const struct piece *p = piece_of(a);
	int64_t constant;
	char text[256], form[64];
	LLVMValueRef args[4] = {pointer_at(e, a, r, &constant), LLVMConstInt(e->i64, (uint64_t)constant, 0)};
	int n = 2;
	bool fixed = is_input(a);
	LLVMTypeRef word = p->bytes < 4 ? e->i16 : e->i32, words[4] = {word, word, word, word};
	struct said said = say(a, on, args, &n, p->words);
	snprintf(text, sizeof text, "%s %sld%s.global%s.%s %s, [$%d+$%d]%s;", on ? p->zero : "", said.when, relaxed ? ".relaxed.gpu" : "", a->policy ? ".L2::cache_hint" : "", p->type, p->list,
	         p->words, p->words + 1, said.kept);
	snprintf(form, sizeof form, "%s,l,n%s%s%s", p->out, a->policy ? ",l" : "", on ? ",b" : "", fixed ? "" : ",~{memory}");
	LLVMTypeRef result = p->words == 1 ? word : LLVMStructTypeInContext(e->ctx, words, (unsigned)p->words, 0);
	LLVMValueRef x = nvptx_text(e, text, form, result, args, n, !fixed), part[4];
	if (p->bytes == 1)
		return LLVMBuildTrunc(e->b, x, e->i8, "");
	if (p->words == 1)
		return x;
	for (int i = 0; i < p->words; i++)
		part[i] = LLVMBuildExtractValue(e->b, x, (unsigned)i, "");
	return vector_join(e, part, p->words, 1);
}

void nvptx_stage(struct emit *e, const struct access *a, int r, LLVMValueRef lds)
{
	int64_t constant;
	LLVMValueRef on = condition(e, a, r), from = pointer_at(e, a, r, &constant);
	LLVMValueRef bytes = on ? LLVMBuildSelect(e->b, on, emit_int(e, 16), emit_int(e, 0), "") : emit_int(e, 16);   /* the rest of 16 become 0 */
	LLVMValueRef args[4] = {lds, from, LLVMConstInt(e->i64, (uint64_t)constant, 0), bytes};
	const char *text = e->v->quads || access_rows(e, a->i) ? "cp.async.cg.shared.global [$0], [$1+$2], 16, $3;" : "cp.async.ca.shared.global [$0], [$1+$2], 16, $3;";
	nvptx_text(e, text, "l,l,n,r,~{memory}", LLVMVoidTypeInContext(e->ctx), args, 4, true);
}

void nvptx_stage_close(struct emit *e)
{
	nvptx_text(e, "cp.async.commit_group;", "~{memory}", LLVMVoidTypeInContext(e->ctx), NULL, 0, true);
}

void nvptx_staged(struct emit *e, int lots)
{
	char text[64];
	snprintf(text, sizeof text, lots ? "cp.async.wait_group %d;" : "cp.async.wait_all;", lots);
	nvptx_text(e, text, "~{memory}", LLVMVoidTypeInContext(e->ctx), NULL, 0, true);
}

void nvptx_fetch(struct emit *e, const struct access *a, int r, LLVMValueRef bytes, LLVMValueRef on)
{
	int64_t constant;
	LLVMValueRef args[3] = {pointer_at(e, a, r, &constant), LLVMConstInt(e->i64, (uint64_t)constant, 0), on};
	const char *text = bytes ? "@$2 prefetch.global.L2::evict_last [$0+$1];" : "@$2 prefetch.global.L2 [$0+$1];";
	if (bytes)
		args[0] = LLVMBuildGEP2(e->b, e->i8, args[0], &bytes, 1, "");
	nvptx_text(e, text, "l,n,b,~{memory}", LLVMVoidTypeInContext(e->ctx), args, 3, true);
}

void nvptx_store(struct emit *e, const struct access *a, int r, LLVMValueRef x)
{
	const struct piece *p = piece_of(a);
	LLVMValueRef on = condition(e, a, r), args[8];
	if (is_known(on, false))
		return;
	if (!on && !a->policy) {
		LLVMSetAlignment(LLVMBuildStore(e->b, x, whole_pointer(e, a, r)), (unsigned)access_bytes(a));
		return;
	}
	int64_t constant;
	char text[128], form[64];
	int n = 0;
	for (; n < p->words; n++)
		args[n] = p->words > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, n), "") : p->bytes == 1 ? LLVMBuildZExt(e->b, x, e->i16, "") : x;
	args[n++] = pointer_at(e, a, r, &constant);
	args[n++] = LLVMConstInt(e->i64, (uint64_t)constant, 0);
	struct said said = say(a, on, args, &n, 0);
	snprintf(text, sizeof text, "%sst.global%s.%s [$%d+$%d], %s%s;", said.when, a->policy ? ".L2::cache_hint" : "", p->type, p->words, p->words + 1, p->list, said.kept);
	snprintf(form, sizeof form, "%s,l,n%s%s,~{memory}", p->in, a->policy ? ",l" : "", on ? ",b" : "");
	nvptx_text(e, text, form, LLVMVoidTypeInContext(e->ctx), args, n, true);
}

static void reduce_at(struct emit *e, const char *op, LLVMValueRef p, LLVMValueRef x, LLVMValueRef on)
{
	char text[64];
	LLVMValueRef args[3] = {p, x, on};
	snprintf(text, sizeof text, "@$2 red.global.%s [$0], $1;", op);
	nvptx_text(e, text, LLVMTypeOf(x) == e->f32 ? "l,f,b,~{memory}" : "l,r,b,~{memory}", LLVMVoidTypeInContext(e->ctx), args, 3, true);
}

/* max and min of floats by their bits, as the AMDGPU family does it: x with a clear sign as a signed integer, x with the sign set the
 * other way round as an unsigned one; a NaN is never stored. */
static void update_by_bits(struct emit *e, bool max, LLVMValueRef p, LLVMValueRef x, LLVMValueRef on)
{
	LLVMValueRef bits = LLVMBuildBitCast(e->b, x, e->i32, ""), clear = LLVMBuildICmp(e->b, LLVMIntSGE, bits, emit_int(e, 0), "");
	on = LLVMBuildAnd(e->b, on, LLVMBuildFCmp(e->b, LLVMRealORD, x, x, ""), "");
	reduce_at(e, max ? "max.s32" : "min.s32", p, bits, LLVMBuildAnd(e->b, on, clear, ""));
	reduce_at(e, max ? "min.u32" : "max.u32", p, bits, LLVMBuildAnd(e->b, on, LLVMBuildNot(e->b, clear, ""), ""));
}

void nvptx_update(struct emit *e, const struct access *a, int r, enum ir_reduce kind, LLVMValueRef x)
{
	static const char *const of_i32[] = {[RED_SUM] = "add.u32", [RED_MAX] = "max.s32", [RED_MIN] = "min.s32"};
	LLVMValueRef p = whole_pointer(e, a, r), on = condition(e, a, r);
	on = on ? on : LLVMConstInt(e->i1, 1, 0);
	if (LLVMTypeOf(x) == e->f32 && kind != RED_SUM)
		update_by_bits(e, kind == RED_MAX, p, x, on);
	else
		reduce_at(e, LLVMTypeOf(x) == e->f32 ? "add.f32" : of_i32[kind], p, x, on);
}
