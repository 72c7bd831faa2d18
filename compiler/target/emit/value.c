/* value.c -- reading and writing tile values in whatever grouping an operation wants.
 * In: an instruction, a layout and registers.  Out: LLVM scalars and vectors.  A value is read under the layout of its user: the
 * register map (index.c) says which of its own registers holds the same element. */
#include "machine.h"

#include <string.h>

#include "../../affine.h"

LLVMTypeRef emit_vector(LLVMTypeRef element, int n)
{
	return n == 1 ? element : LLVMVectorType(element, (unsigned)n);
}

int vector_length(LLVMValueRef v)
{
	LLVMTypeRef t = LLVMTypeOf(v);
	return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1;
}

static int value_pack(const struct emit *e, enum dtype t, const struct layout *l)
{
	int most = dtype_info(t)->bits <= 8 && t != DT_I1 ? 4 : dtype_info(t)->bits == 16 ? 2 : t == DT_F32 || t == DT_I32 ? (e->has_dot ? 4 : 2) : 1;
	if (!l)
		return 1;
	if (t == DT_I32 && !e->has_dot)
		most = 1;
	while (most > 1 && (1 << l->nreg) < most && layout_regs(l) % most)
		most /= 2;
	return layout_regs(l) % most ? 1 : most;
}

/* Consecutive codes along the axis in which the tensor's lie side by side, in consecutive registers. */
static int codes_beside(const struct emit *e, const struct ir_ins *load)
{
	const struct affine last = affine_of(load->args[e->k->params[load->imm].rank - 1]);
	for (int x = 0; last.ok && x < e->ph->naxes; x++)
		if (last.coef[x] == 1 && layout_vector(load->layout, x))
			return 1 << layout_vector(load->layout, x);
	return 1;
}

const struct ir_ins *takes_bytes(const struct emit *e, const struct ir_ins *load)
{
	enum { WORD_CODES = 8 };
	const struct ir_ins *u = load->op == IR_LOAD && load->dtype == DT_E2M1 && load->layout && e->uses[load->id] == 1 ? load->next : NULL;
	while (u && !(u->nargs == 1 && u->args[0] == load))
		u = u->next;
	bool converts = u && u->op == IR_CVT && u->dtype == DT_F32 && e->machine->from_fp4 && u->layout == load->layout && codes_beside(e, load) >= WORD_CODES;
	return converts || (u && u->op == IR_PACK) ? u : NULL;
}

struct value *value_new(struct emit *e, const struct ir_ins *i)
{
	struct value *v = &e->values[i->id];
	const struct ir_ins *taken = takes_bytes(e, i);
	v->pack = taken && taken->op == IR_PACK ? value_pack(e, taken->dtype, taken->layout) : value_pack(e, i->dtype, i->layout);
	v->ngroups = i->layout ? layout_regs(i->layout) / v->pack / (taken ? 2 : 1) : 1;
	v->group = arena_alloc(e->arena, sizeof *v->group * (size_t)v->ngroups);
	return v;
}

LLVMValueRef vector_part(struct emit *e, LLVMValueRef v, int from, int n)
{
	int len = vector_length(v);
	if (len == n)
		return v;
	if (n == 1)
		return LLVMBuildExtractElement(e->b, v, emit_int(e, from), "");
	if (n == 2 && from % 2 == 0 && LLVMGetElementType(LLVMTypeOf(v)) == e->i8) {    /* bytes out of a word are put together again, halves are not */
		LLVMValueRef halves = LLVMBuildBitCast(e->b, v, emit_vector(e->i16, len / 2), "");
		return LLVMBuildBitCast(e->b, LLVMBuildExtractElement(e->b, halves, emit_int(e, from / 2), ""), emit_vector(e->i8, 2), "");
	}
	LLVMValueRef mask[32];
	for (int i = 0; i < n; i++)
		mask[i] = emit_int(e, from + i);
	return LLVMBuildShuffleVector(e->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(mask, (unsigned)n), "");
}

/* Dword-sized pieces of narrow types are joined as dwords: byte shuffles are slow to select. */
static LLVMValueRef join_dwords(struct emit *e, LLVMValueRef *parts, int nparts, int each)
{
	LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(parts[0]));
	LLVMValueRef all = LLVMGetPoison(emit_vector(e->i32, nparts));
	for (int i = 0; i < nparts; i++)
		all = LLVMBuildInsertElement(e->b, all, LLVMBuildBitCast(e->b, parts[i], e->i32, ""), emit_int(e, i), "");
	return LLVMBuildBitCast(e->b, all, emit_vector(element, nparts * each), "");
}

static int bits_of(struct emit *e, LLVMTypeRef t)
{
	return t == e->i8 ? 8 : t == e->i16 || t == e->f16 || t == e->bf16 ? 16 : 32;
}

LLVMValueRef vector_join(struct emit *e, LLVMValueRef *parts, int nparts, int each)
{
	if (nparts == 1)
		return parts[0];
	LLVMTypeRef t = LLVMTypeOf(parts[0]);
	LLVMTypeRef element = each > 1 ? LLVMGetElementType(t) : t;
	if (each > 1 && bits_of(e, element) < 32 && bits_of(e, element) * each == 32)
		return join_dwords(e, parts, nparts, each);
	LLVMValueRef all = LLVMGetPoison(emit_vector(element, nparts * each));
	for (int i = 0; i < nparts; i++)
		for (int j = 0; j < each; j++)
			all = LLVMBuildInsertElement(e->b, all, each > 1 ? LLVMBuildExtractElement(e->b, parts[i], emit_int(e, j), "") : parts[i],
			                             emit_int(e, i * each + j), "");
	return all;
}

/* -1: the same value for every register (scalars). */
static int own_register(struct emit *e, const struct ir_ins *i, const struct layout *l, int reg)
{
	if (!i->layout)
		return -1;
	if (i->layout == l || !l)
		return reg;
	return index_map(e, l, i->layout, i->axes)[reg];
}

LLVMValueRef value_element(struct emit *e, const struct ir_ins *i, const struct layout *l, int reg)
{
	if (i->axes && !i->layout)
		return index_value(e, i, l, reg);
	struct value *v = &e->values[i->id];
	int own = own_register(e, i, l, reg);
	if (v->staged)
		stage_take(e, i, own);
	if (v->waiting)
		return lds_read(e, i, own, 1);
	if (own < 0)
		return v->group[0];
	return v->pack == 1 ? v->group[own] : LLVMBuildExtractElement(e->b, v->group[own / v->pack], emit_int(e, own % v->pack), "");
}

/* A dword of four bytes that lie in different dwords.  The first step takes a pair of bytes from each of two, so that the dwords of
 * four rows become those of four columns in eight steps. */
static LLVMValueRef dword_of_bytes(struct emit *e, const struct value *v, const int own[4])
{
	LLVMValueRef half[2];
	for (int h = 0; h < 2; h++) {
		LLVMValueRef word[2];
		int even[2];
		for (int k = 0; k < 2; k++) {
			word[k] = LLVMBuildBitCast(e->b, v->group[own[2 * h + k] / 4], e->i32, "");
			even[k] = own[2 * h + k] % 4 & 2;
		}
		half[h] = e->machine->bytes(e, word[0], word[1], (const int[4]){even[0], 4 + even[1], even[0] + 1, 4 + even[1] + 1});
	}
	int at[4];
	for (int k = 0; k < 4; k++)
		at[k] = (k & 2) * 2 + (k & 1) + 2 * (own[k] & 1);
	return e->machine->bytes(e, half[0], half[1], at);
}

/* Registers reg, reg + step, .. of a value in bytes, four to a group, from wherever they are; NULL where they are no such. */
static LLVMValueRef bytes_gathered(struct emit *e, const struct ir_ins *i, const struct layout *l, int reg, int step, int n)
{
	const struct value *v = &e->values[i->id];
	LLVMValueRef words[16];
	if (!e->machine->bytes || !i->layout || v->pack != 4 || v->waiting || n % 4 || n > 64 || LLVMGetElementType(LLVMTypeOf(v->group[0])) != e->i8)
		return NULL;
	for (int w = 0; w < n / 4; w++) {
		int own[4];
		for (int k = 0; k < 4; k++)
			own[k] = own_register(e, i, l, reg + step * (4 * w + k));
		words[w] = LLVMBuildBitCast(e->b, dword_of_bytes(e, v, own), emit_vector(e->i8, 4), "");
	}
	return vector_join(e, words, n / 4, 4);
}

LLVMValueRef value_vector(struct emit *e, const struct ir_ins *i, const struct layout *l, int reg, int n)
{
	if (n == 1)
		return value_element(e, i, l, reg);
	struct value *v = &e->values[i->id];
	LLVMValueRef parts[64];
	if (i->axes && !i->layout) {
		for (int r = 0; r < n; r++)
			parts[r] = index_value(e, i, l, reg + r);
		return vector_join(e, parts, n, 1);
	}
	int first = own_register(e, i, l, reg);
	if (v->waiting && i->layout == l)
		return lds_read(e, i, reg, n);
	bool run = first >= 0 && v->pack > 1 && first % (n < v->pack ? n : v->pack) == 0;
	bool same = true;
	for (int r = 0; v->staged && r < n; r++)
		stage_take(e, i, own_register(e, i, l, reg + r));
	for (int r = 1; r < n; r++) {
		int own = own_register(e, i, l, reg + r);
		run = run && own == first + r;
		same = same && own == first;
	}
	if (same) {
		LLVMValueRef one = value_element(e, i, l, reg);
		for (int r = 0; r < n; r++)
			parts[r] = one;
		return vector_join(e, parts, n, 1);
	}
	if (run && n <= v->pack)
		return vector_part(e, v->group[first / v->pack], first % v->pack, n);
	if (run && n % v->pack == 0) {
		for (int g = 0; g < n / v->pack; g++)
			parts[g] = v->group[first / v->pack + g];
		return vector_join(e, parts, n / v->pack, v->pack);
	}
	return value_strided(e, i, l, reg, 1, n);
}

LLVMValueRef value_strided(struct emit *e, const struct ir_ins *i, const struct layout *l, int reg, int step, int n)
{
	LLVMValueRef parts[64], gathered = bytes_gathered(e, i, l, reg, step, n);
	if (gathered)
		return gathered;
	for (int r = 0; r < n; r++)
		parts[r] = value_element(e, i, l, reg + r * step);
	return vector_join(e, parts, n, 1);
}

void value_set(struct emit *e, const struct ir_ins *i, int reg, int n, LLVMValueRef x)
{
	struct value *v = &e->values[i->id];
	if (n >= v->pack) {
		for (int g = 0; g < n / v->pack; g++)
			v->group[reg / v->pack + g] = vector_part(e, x, g * v->pack, v->pack);
		return;
	}
	LLVMValueRef *group = &v->group[reg / v->pack];
	if (!*group)
		*group = LLVMGetPoison(emit_vector(emit_type(e, i->dtype), v->pack));
	for (int j = 0; j < n; j++)
		*group = LLVMBuildInsertElement(e->b, *group, n > 1 ? LLVMBuildExtractElement(e->b, x, emit_int(e, j), "") : x,
		                                emit_int(e, reg % v->pack + j), "");
}

/* The operand's register for the position: it lies in the lanes of the result's (layout_of_groups). */
static int repeated_register(struct emit *e, const struct ir_ins *i, int reg)
{
	const struct layout *l = i->args[0]->layout;
	int from = __builtin_ctz(i->over), to = (int)i->imm, want[LAYOUT_AXES], has[LAYOUT_AXES], regs = l ? layout_regs(l) : 0;
	layout_coord(i->layout, reg, 0, 0, want);
	want[from] = want[to] / (e->ph->axes[to].tile / e->ph->axes[from].tile);
	want[to] = 0;
	for (int r = 0; r < regs; r++) {
		layout_coord(l, r, 0, 0, has);
		if (!memcmp(want, has, sizeof has))
			return r;
	}
	if (l)
		emit_fail(e, i, "internal: a number and its positions lie apart");
	return 0;
}

void emit_pack(struct emit *e, const struct ir_ins *i)
{
	const struct ir_ins *a = i->args[0];
	if (takes_bytes(e, a) == i) {
		e->values[i->id] = e->values[a->id];
		return;
	}
	int regs = layout_regs(i->layout), n = regs % 4 ? 1 : 4;
	value_new(e, i);
	for (int r = 0; r < regs; r += n) {
		LLVMValueRef pairs = op_halves_joined(e, value_vector(e, a, a->layout, 2 * r, 2 * n));
		value_set(e, i, r, n, LLVMBuildBitCast(e->b, pairs, emit_vector(e->i8, n), ""));
	}
}

void emit_codes(struct emit *e, const struct ir_ins *i)
{
	const struct value *bytes = &e->values[i->args[0]->id];
	value_new(e, i);
	for (int g = 0; g < bytes->ngroups; g++)
		value_set(e, i, 8 * g, 8, e->machine->from_fp4(e, LLVMBuildBitCast(e->b, bytes->group[g], e->i32, "")));
}

void emit_repeat(struct emit *e, const struct ir_ins *i)
{
	value_new(e, i);
	for (int r = 0; r < (i->layout ? layout_regs(i->layout) : 1); r++)
		value_set(e, i, r, 1, value_element(e, i->args[0], i->args[0]->layout, repeated_register(e, i, r)));
}
