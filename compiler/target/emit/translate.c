/* translate.c -- one device function per phase, or one for all of them: arguments, control flow, debug lines.
 * In: a kernel after the last pass.  Out: an LLVM module and the launches that a pack records.  Arguments are what the function uses
 * and no more, each at a multiple of its own size (4 or 8 bytes) behind the one before: the same block of bytes on every family. */
#include "../../llvm_shim.h"
#include "../../object.h"
#include "../../pass.h"
#include "machine.h"

#include <llvm-c/DebugInfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

LLVMValueRef emit_fail(struct emit *e, const struct ir_ins *at, const char *fmt, ...)
{
	if (!e->failed) {
		va_list ap;
		int n = at && at->line ? snprintf(e->err, e->errlen, "%s:%d:%d: error: ", e->k->file ? e->k->file : "?", at->line, at->col) : 0;
		va_start(ap, fmt);
		if (n >= 0 && (size_t)n < e->errlen)
			vsnprintf(e->err + n, e->errlen - (size_t)n, fmt, ap);
		va_end(ap);
	}
	e->failed = true;
	return LLVMGetPoison(e->i32);
}

int emit_lane_bits(const struct emit *e)
{
	return __builtin_ctz((unsigned)e->v->target->wave);
}

LLVMValueRef emit_int(struct emit *e, int64_t v)
{
	return LLVMConstInt(e->i32, (uint64_t)v, 1);
}

LLVMTypeRef emit_type(struct emit *e, enum dtype t)
{
	switch (t) {
	case DT_I1: return e->i1;
	case DT_I32: return e->i32;
	case DT_I64: return e->i64;
	case DT_F32: return e->f32;
	case DT_F16: return e->f16;
	case DT_BF16: return e->bf16;
	default: return e->i8;
	}
}

/* Its declaration, which LLVM looks for by its whole name; NULL = there is none. */
static LLVMValueRef intrinsic(struct emit *e, const char *name, LLVMTypeRef *overload, int noverload)
{
	LLVMTypeRef first = noverload ? overload[0] : NULL, second = noverload > 1 ? overload[1] : NULL;
	for (int i = 0; i < e->nintrinsics; i++) {
		const struct intrinsic *k = &e->intrinsics[i];
		if (k->overload[0] == first && k->overload[1] == second && !strcmp(k->name, name))
			return k->fn;
	}
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	if (!id)
		return NULL;
	LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->mod, id, overload, (size_t)noverload);
	if (e->nintrinsics == e->cap_intrinsics)
		e->intrinsics = arena_grow(e->arena, e->intrinsics, e->nintrinsics, &e->cap_intrinsics, sizeof *e->intrinsics);
	e->intrinsics[e->nintrinsics++] = (struct intrinsic){name, {first, second}, fn};
	return fn;
}

LLVMValueRef emit_call(struct emit *e, const char *name, LLVMTypeRef *overload, int noverload, LLVMValueRef *args, int nargs)
{
	LLVMValueRef fn = intrinsic(e, name, overload, noverload);
	if (!fn)
		return emit_fail(e, NULL, "internal: LLVM has no intrinsic %s", name);
	LLVMTypeRef type = LLVMGlobalGetValueType(fn);
	return LLVMBuildCall2(e->b, type, fn, args, (unsigned)nargs, "");
}

static bool implied(const struct hexpr *known, const struct hexpr *e)
{
	return hexpr_equal(known, e) || (known->op == HX_AND && (implied(known->a, e) || implied(known->b, e)));
}

void emit_condition(struct emit *e, const struct hexpr *asked)
{
	if (!e->condition || !implied(e->condition, asked))
		e->condition = e->condition ? hexpr_op(e->arena, HX_AND, e->condition, asked) : asked;
}

/* --- blocks ----------------------------------------------------------------------------------------------------------------- */

static void set_line(struct emit *e, const struct ir_ins *i)
{
	if (i->line)
		LLVMSetCurrentDebugLocation2(e->b, LLVMDIBuilderCreateDebugLocation(e->ctx, (unsigned)i->line, (unsigned)i->col, e->scope, NULL));
}

static void emit_leaf(struct emit *e, const struct ir_ins *i)
{
	struct value *v = value_new(e, i);
	switch (i->op) {
	case IR_SYM: v->group[0] = e->symbols[i->imm]; break;
	case IR_PARAM: v->group[0] = e->scalars[i->imm]; break;
	case IR_LIMIT: v->group[0] = e->axis_limit[i->imm]; break;
	case IR_HAS:
		v->group[0] = LLVMBuildICmp(e->b, LLVMIntNE, arguments_pointer(e, (int)i->imm), LLVMConstNull(e->p1), "");
		break;
	default: v->group[0] = op_build(e, i, NULL);
	}
}

const struct ir_ins *emit_instruction(struct emit *e, const struct ir_ins *i)
{
	set_line(e, i);
	index_forget(e);
	lds_fetch(e, i);
	switch (i->op) {
	case IR_CONST: case IR_SYM: case IR_PARAM: case IR_HAS: case IR_LIMIT: emit_leaf(e, i); break;
	case IR_LOAD: emit_load(e, i); break;
	case IR_STORE: emit_store(e, i); break;
	case IR_UPDATE: emit_update(e, i); break;
	case IR_REDUCE: return emit_reduce(e, i);
	case IR_DOT: emit_dot(e, i); break;
	case IR_SCAN: emit_scan(e, i); break;
	case IR_RELAYOUT: emit_relayout(e, i); break;
	case IR_REPEAT: emit_repeat(e, i); break;
	case IR_PACK: emit_pack(e, i); break;
	case IR_FOR: emit_for(e, i); break;
	case IR_IF: emit_if(e, i); break;
	case IR_RESULT:
		if (i->args[0]->op == IR_FOR)
			e->values[i->id] = e->values[i->args[0]->body->params[i->imm]->id];
		break;
	case IR_YIELD: break;
	default:
		if (i->op == IR_CVT && takes_bytes(e, i->args[0]) == i)
			emit_codes(e, i);
		else if ((!i->axes || i->layout) && !is_late_comparison(e, i))
			emit_elementwise(e, i);
	}
	return i;
}

void emit_block(struct emit *e, const struct ir_block *b)
{
	int outer = e->scope_mark;
	e->scope_mark = index_mark(e);
	for (const struct ir_ins *i = emit_front(e, b); i && !e->failed; i = i->next) {
		i = emit_instruction(e, i);
		pipe_behind(e, i);
	}
	e->scope_mark = outer;
}

/* --- a function -------------------------------------------------------------------------------------------------------------- */

/* Bytes of group memory that are reached by an immediate of an access of two words. */
enum { FAR = 1024 };

struct use { const struct ir_kernel *k; bool *tensor, *scalar, *symbol; };

static void find_use(struct ir_ins *i, void *ctx)
{
	struct use *u = ctx;
	if (i->op == IR_LOAD || i->op == IR_STORE || i->op == IR_UPDATE || i->op == IR_HAS)
		u->tensor[i->imm] = true;
	if (i->op == IR_PARAM)
		u->scalar[i->imm] = true;
	if (i->op == IR_SYM)
		u->symbol[i->imm] = true;
}

static void symbols_in(const struct hexpr *x, bool *symbol)
{
	if (!x)
		return;
	if (x->op == HX_SYM)
		symbol[x->imm] = true;
	symbols_in(x->a, symbol);
	symbols_in(x->b, symbol);
}

struct arguments { struct model_karg *list; int n; LLVMTypeRef *types; int bytes; const struct hexpr *told[TOLD]; };

static void add_argument(struct emit *e, struct arguments *a, enum model_karg_kind kind, int x, int y, LLVMTypeRef t)
{
	int size = t == e->p1 || t == e->i64 ? 8 : 4;
	a->bytes = (a->bytes + size - 1) / size * size;
	a->list[a->n] = (struct model_karg){(uint8_t)kind, (uint8_t)x, (uint8_t)y, (uint8_t)size, (uint16_t)a->bytes};
	a->types[a->n++] = t;
	a->bytes += size;
}

/* Tensors of rows (their first extent is that of an untiled grid axis) may be given as views of three dimensions whose first two do
 * not fold into one stride. */
static bool may_fold(const struct emit *e, const struct ir_param *t)
{
	if (e->v->flat || t->list || t->role == IR_TEMP || t->rank < 1 || t->rank > 2 || e->has_dot || t->extent[0]->op != HX_SYM)
		return false;
	for (int a = 0; a < e->ph->naxes; a++) {
		const struct ir_axis *ax = &e->ph->axes[a];
		if (ax->kind == AXIS_GRID && !ax->tiled && !ax->ragged && ax->extent && hexpr_equal(ax->extent, t->extent[0]))
			return true;
	}
	return false;
}

/* The argument block: for each tensor used its pointer, strides (the innermost is 1 in aligned variants), fold; scalars; symbols; what the
 * launch says of itself. */
static void choose_arguments(struct emit *e, struct arguments *a, const struct use *u)
{
	a->list = arena_alloc(e->arena, 512 * sizeof *a->list);
	a->types = arena_alloc(e->arena, 512 * sizeof *a->types);
	int folds = -1;                                    /* the last tensor whose rows have two strides; how they are divided is one for all */
	for (int i = 0; i < e->k->nparams; i++) {
		const struct ir_param *t = &e->k->params[i];
		if (!t->is_tensor || !u->tensor[i])
			continue;
		add_argument(e, a, t->role == IR_TEMP ? KA_WORKSPACE : KA_POINTER, i, 0, e->p1);
		if (t->list)
			continue;
		for (int d = 0; d < t->rank && t->role != IR_TEMP; d++)
			if ((d < t->rank - 1 || !e->v->aligned) && !(e->v->dense >> i & 1))
				add_argument(e, a, e->v->aligned ? KA_STRIDE32 : KA_STRIDE, i, d, e->v->aligned ? e->i32 : e->i64);
		if (may_fold(e, t)) {
			add_argument(e, a, KA_FOLD_STRIDE, i, 0, e->i64);
			folds = i;
		}
	}
	if (folds >= 0)
		add_argument(e, a, KA_FOLD_INNER, folds, 0, e->i32);
	for (int i = 0; i < e->k->nparams; i++)
		if (!e->k->params[i].is_tensor && u->scalar[i])
			add_argument(e, a, KA_SCALAR, i, 0, emit_type(e, e->k->params[i].dtype));
	for (int i = 0; i < e->k->nsymbols; i++)
		if (u->symbol[i])
			add_argument(e, a, KA_SYMBOL, i, 0, e->i32);
	grid_told(e, a->told);
	a->told[TOLD_WAVES] = e->waves_told ? e->waves_there : NULL;
	a->told[TOLD_PACE] = e->ph == e->k->phases ? e->v->pace : NULL;
	for (int i = 0, n = 0; i < TOLD; i++)
		if (a->told[i])
			add_argument(e, a, KA_EXPR, i, n++, e->i32);
}

static bool is_pointer(const struct model_karg *k) { return k->kind == KA_WORKSPACE || k->kind == KA_POINTER; }

/* Arguments that are no addresses, and strides that are no arguments. */
static void bind_numbers(struct emit *e, const struct arguments *a)
{
	int64_t row = 0;
	uint64_t shortened = nans_scalars(e, e->ph);
	for (int i = 0; i < e->k->nparams; i++)
		if (e->v->dense >> i & 1) {
			if (!hexpr_is_const(e->k->params[i].extent[1], &row))
				emit_fail(e, NULL, "internal: rows of '%s' lie one behind the other, how many elements is not known", e->k->params[i].name);
			e->tensors[i].stride[0] = emit_int(e, row);
		}
	for (int n = 0; n < a->n; n++) {
		const struct model_karg *k = &a->list[n];
		LLVMValueRef p = LLVMGetParam(e->fn, (unsigned)n);
		switch (k->kind) {
		case KA_WORKSPACE: case KA_POINTER: break;
		case KA_STRIDE: case KA_STRIDE32: e->tensors[k->a].stride[k->b] = p; break;
		case KA_FOLD_INNER: e->fold_inner = p; break;
		case KA_FOLD_STRIDE: e->tensors[k->a].fold_stride = p; break;
		case KA_SCALAR: e->scalars[k->a] = k->a < 64 && shortened >> k->a & 1 ? nan_shortened(e, p) : p; break;
		case KA_EXPR: e->told[k->a] = p; break;
		default: e->symbols[k->a] = p;
		}
	}
}

/* Addresses as they are given. */
static void bind_pointers(struct emit *e, const struct arguments *a)
{
	for (int n = 0; n < a->n; n++)
		if (is_pointer(&a->list[n]))
			e->tensors[a->list[n].a].pointer = LLVMGetParam(e->fn, (unsigned)n);
}

/* The wait for the launch before; addresses that are good behind it. */
static void wait_for_launch(struct emit *e, const struct arguments *a)
{
	if (!e->machine->wait_for_launch)
		return;
	LLVMValueRef *pointers = arena_alloc(e->arena, sizeof *pointers * (size_t)(a->n + 1));
	int npointers = 0;
	for (int n = 0; n < a->n; n++)
		if (is_pointer(&a->list[n]))
			pointers[npointers++] = LLVMGetParam(e->fn, (unsigned)n);
	e->machine->wait_for_launch(e, pointers, npointers);
	for (int n = 0, next = 0; n < a->n; n++)
		if (is_pointer(&a->list[n]))
			e->tensors[a->list[n].a].pointer = pointers[next++];
}

void arguments_bind(struct emit *e, int tensor)
{
	if (!e->late || e->k->params[tensor].list || e->k->params[tensor].role == IR_TEMP)
		return;
	LLVMValueRef block = e->machine->argument_block(e);
	for (int n = 0; n < e->narguments; n++) {
		const struct model_karg *k = &e->arguments[n];
		if (k->a != tensor || (k->kind != KA_POINTER && k->kind != KA_STRIDE && k->kind != KA_STRIDE32 && k->kind != KA_FOLD_STRIDE))
			continue;
		LLVMValueRef at = emit_int(e, k->offset);
		LLVMValueRef x = LLVMBuildLoad2(e->b, LLVMTypeOf(LLVMGetParam(e->fn, (unsigned)n)), LLVMBuildInBoundsGEP2(e->b, e->i8, block, &at, 1, ""), "");
		if (k->kind == KA_POINTER)
			e->tensors[tensor].pointer = x;
		else if (k->kind == KA_FOLD_STRIDE)
			e->tensors[tensor].fold_stride = x;
		else
			e->tensors[tensor].stride[k->b] = x;
	}
}

LLVMValueRef arguments_pointer(const struct emit *e, int tensor)
{
	for (int n = 0; e->late && n < e->narguments; n++)
		if (e->arguments[n].kind == KA_POINTER && e->arguments[n].a == tensor)
			return LLVMGetParam(e->fn, (unsigned)n);
	return e->tensors[tensor].pointer;
}

/* a / b rounded up, b > 0.  Where a may be below 0: rounded toward zero, and one more where a rest is above 0. */
static LLVMValueRef rounded_up(struct emit *e, LLVMValueRef a, LLVMValueRef b, bool natural)
{
	if (natural)
		return LLVMBuildUDiv(e->b, LLVMBuildAdd(e->b, a, LLVMBuildSub(e->b, b, emit_int(e, 1), ""), ""), b, "");
	LLVMValueRef more = LLVMBuildICmp(e->b, LLVMIntSGT, LLVMBuildSRem(e->b, a, b, ""), emit_int(e, 0), "");
	return LLVMBuildAdd(e->b, LLVMBuildSDiv(e->b, a, b, ""), LLVMBuildZExt(e->b, more, e->i32, ""), "");
}

LLVMValueRef emit_hexpr(struct emit *e, const struct hexpr *x)
{
	LLVMValueRef a = x->a ? emit_hexpr(e, x->a) : NULL, b = x->b ? emit_hexpr(e, x->b) : NULL;
	bool natural = x->a && x->b && hexpr_nonnegative(x->a) && hexpr_nonnegative(x->b);
	switch (x->op) {
	case HX_CONST: return emit_int(e, x->imm);
	case HX_SYM: return e->symbols[x->imm];
	case HX_ADD: return LLVMBuildAdd(e->b, a, b, "");
	case HX_SUB: return LLVMBuildSub(e->b, a, b, "");
	case HX_MUL: return LLVMBuildMul(e->b, a, b, "");
	case HX_NEG: return LLVMBuildNeg(e->b, a, "");
	case HX_DIV: case HX_EXACT: return natural ? LLVMBuildUDiv(e->b, a, b, "") : LLVMBuildSDiv(e->b, a, b, "");
	case HX_REM: return natural ? LLVMBuildURem(e->b, a, b, "") : LLVMBuildSRem(e->b, a, b, "");
	case HX_MIN: return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, a, b, ""), a, b, "");
	case HX_MAX: return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSGT, a, b, ""), a, b, "");
	case HX_CDIV: return rounded_up(e, a, b, natural);
	default: return emit_fail(e, NULL, "internal: host expression in device code");
	}
}

/* Workspace tensors lie one behind the other, each rounded to 256 bytes: offsets and strides from their extents. */
static const struct hexpr *temp_bytes(struct emit *e, const struct ir_param *t)
{
	const struct hexpr *n = hexpr_const(e->arena, dtype_info(t->dtype)->bits / 8);
	for (int d = 0; d < t->rank; d++)
		n = hexpr_op(e->arena, HX_MUL, n, t->extent[d]);
	const struct hexpr *unit = hexpr_const(e->arena, 256);
	return hexpr_op(e->arena, HX_MUL, hexpr_op(e->arena, HX_CDIV, n, unit), unit);
}

static void bind_temps(struct emit *e)
{
	const struct hexpr *at = hexpr_const(e->arena, 0);
	for (int i = 0; i < e->k->nparams; i++) {
		const struct ir_param *t = &e->k->params[i];
		if (t->role != IR_TEMP)
			continue;
		if (e->tensors[i].pointer) {
			LLVMValueRef off = LLVMBuildZExt(e->b, emit_hexpr(e, at), e->i64, "");
			e->tensors[i].pointer = LLVMBuildGEP2(e->b, e->i8, e->tensors[i].pointer, &off, 1, "");
			LLVMValueRef stride = LLVMConstInt(e->i64, 1, 0);
			for (int d = t->rank - 1; d >= 0; d--) {
				e->tensors[i].stride[d] = d == t->rank - 1 ? NULL : stride;
				stride = LLVMBuildMul(e->b, stride, LLVMBuildZExt(e->b, emit_hexpr(e, t->extent[d]), e->i64, ""), "");
			}
		}
		at = hexpr_op(e->arena, HX_ADD, at, temp_bytes(e, t));
	}
}

static void open_debug(struct emit *e, LLVMDIBuilderRef di, LLVMMetadataRef file, const char *name, int line)
{
	LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(di, file, NULL, 0, LLVMDIFlagZero);
	e->scope = LLVMDIBuilderCreateFunction(di, file, name, strlen(name), name, strlen(name), file, (unsigned)line, type, 0, 1,
	                                       (unsigned)line, LLVMDIFlagZero, 1);
	LLVMSetSubprogram(e->fn, e->scope);
	LLVMSetCurrentDebugLocation2(e->b, LLVMDIBuilderCreateDebugLocation(e->ctx, (unsigned)line, 1, e->scope, NULL));
}

/* Of the phase's tile: each has a mask of its own where extents are not multiples of what lanes hold. */
static int64_t elements_of_lane(const struct emit *e)
{
	int64_t n = 1;
	for (int a = 0; a < e->ph->naxes; a++)
		n *= e->ph->axes[a].kind == AXIS_LOOP ? 1 : e->ph->axes[a].tile;
	return n / (e->v->target->wave * e->waves);
}

/* More masks than scalar registers hold beside what each tensor takes of them. */
static bool has_many_masks(const struct emit *e)
{
	int tensors = 0;
	for (int i = 0; i < e->k->nparams; i++)
		tensors += e->k->params[i].is_tensor;
	return elements_of_lane(e) >= (tensors > MANY_TENSORS ? MANY_MASKS / 2 : MANY_MASKS);
}

static void start_function(struct emit *e, const char *name, const struct arguments *a)
{
	LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->ctx), a->types, (unsigned)a->n, 0);
	LLVMSetCurrentDebugLocation2(e->b, NULL);                        /* of the phase before */
	e->fn = LLVMAddFunction(e->mod, name, type);
	e->machine->kernel(e);
	unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
	LLVMAddAttributeAtIndex(e->fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->ctx, nounwind, 0));
	LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(e->ctx, e->fn, ""), body = LLVMAppendBasicBlockInContext(e->ctx, e->fn, "");
	LLVMPositionBuilderAtEnd(e->b, entry);
	e->tid = e->machine->thread(e);
	e->entry_end = LLVMBuildBr(e->b, body);
	LLVMPositionBuilderAtEnd(e->b, body);
	e->lds = LLVMAddGlobalInAddressSpace(e->mod, LLVMArrayType2(e->i8, 0), "", 3);
	e->lds_small = LLVMAddGlobalInAddressSpace(e->mod, LLVMArrayType2(e->i8, 0), "", 3);
}

/* The entry block's instructions come first in the one behind it: LLVM selects block by block.  Kernels that LLVM orders keep theirs. */
static void join_entry(struct emit *e)
{
	LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(e->fn), body = LLVMGetNextBasicBlock(entry);
	if (e->has_dot)
		return;
	LLVMPositionBuilderBefore(e->b, LLVMGetFirstInstruction(body));
	for (LLVMValueRef i = LLVMGetFirstInstruction(entry); i != e->entry_end; i = LLVMGetFirstInstruction(entry)) {
		LLVMInstructionRemoveFromParent(i);
		LLVMInsertIntoBuilder(e->b, i);
	}
	LLVMDeleteBasicBlock(entry);
}

/* bytes: 0 = the launch says how many.  A function has one such global, for all of them lie at the same place. */
static LLVMValueRef lds_global(struct emit *e, const char *name, const char *what, int bytes)
{
	LLVMTypeRef t = LLVMArrayType2(e->i8, (uint64_t)bytes);
	LLVMValueRef g = LLVMAddGlobalInAddressSpace(e->mod, t, arena_printf(e->arena, "%s%c%s", name, e->machine->separator, what), 3);
	if (bytes) {
		LLVMSetInitializer(g, LLVMGetPoison(t));
		LLVMSetLinkage(g, LLVMInternalLinkage);
	}
	LLVMSetAlignment(g, e->lds_align ? (unsigned)e->lds_align : 16);
	return g;
}

static void replace_global(LLVMValueRef placeholder, LLVMValueRef with)
{
	if (with)
		LLVMReplaceAllUsesWith(placeholder, with);
	LLVMDeleteGlobal(placeholder);
}

/* The placeholders become globals of the sizes that turned out to be needed, or, where that is more than may be declared, parts of one that has none:
 * bytes of group memory together, `least` of them at least. */
static int finish_lds(struct emit *e, const char *name, int least)
{
	int tiles = (e->lds_bytes + 15) / 16 * 16, parts = e->lds_small_bytes > least - tiles ? e->lds_small_bytes : least - tiles;
	if (e->lds_bytes + parts <= e->machine->static_lds) {
		replace_global(e->lds, tiles ? lds_global(e, name, "tiles", e->lds_bytes) : NULL);
		replace_global(e->lds_small, parts ? lds_global(e, name, "partials", parts) : NULL);
	} else {
		LLVMValueRef all = lds_global(e, name, "tiles", 0), behind = emit_int(e, tiles);
		replace_global(e->lds, all);
		replace_global(e->lds_small, LLVMConstInBoundsGEP2(e->i8, all, &behind, 1));
	}
	return tiles + parts;
}

/* A tile of groups, turned: each element is wanted in units of two scales.  Of what is swept, loops are scheduled well enough. */
static bool is_scaled_both_ways(const struct emit *e)
{
	bool groups = false;
	for (int a = 0; a < e->ph->naxes; a++)
		groups = groups || e->ph->axes[a].kind == AXIS_HELD;
	return e->turned && groups && !e->has_dot && !ir_has(e->ph->body, IR_FOR);
}

static bool is_ragged(const struct ir_phase *ph)
{
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].ragged)
			return true;
	return false;
}

/* What the phase's code is given: tensors, scalars, symbols; behind another phase the extents of its axes as well (joined.c). */
static void find_uses(struct emit *e, struct use *u, const struct ir_phase *ph)
{
	bool behind = ph != e->ph;
	ir_walk(ph->body, find_use, u);
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].ragged) {
			u->tensor[ph->axes[a].ragged_tensor] = true;
			symbols_in(ph->axes[a].ragged_total, u->symbol);
			symbols_in(ph->axes[ph->axes[a].ragged_group].extent, u->symbol);
		}
	for (int a = 0; (behind || grid_needs_extents(e)) && a < ph->naxes; a++)
		symbols_in(ph->axes[a].extent, u->symbol);
}

/* A function of `n` phases, one behind the other. */
static int emit_phases(struct emit *e, LLVMDIBuilderRef di, LLVMMetadataRef file, const struct ir_phase *ph, int n, const char *name, struct model_launch *out)
{
	const struct ir_kernel *k = e->k;
	struct use u = {k, arena_alloc(e->arena, (size_t)k->nparams + 1), arena_alloc(e->arena, (size_t)k->nparams + 1),
	                arena_alloc(e->arena, (size_t)k->nsymbols + 1)};
	struct arguments args = {0};
	e->ph = ph;
	e->cluster = cluster_size(ph);
	for (int p = 0; p < n; p++)
		find_uses(e, &u, &ph[p]);
	bool temps = false;
	for (int i = 0; i < k->nparams; i++)
		temps = temps || (k->params[i].role == IR_TEMP && u.tensor[i]);
	for (int i = 0; temps && i < k->nparams; i++)
		for (int d = 0; k->params[i].role == IR_TEMP && d < k->params[i].rank; d++)
			symbols_in(k->params[i].extent[d], u.symbol);
	e->has_dot = ir_has(ph->body, IR_DOT);
	waves_look(e);
	e->forgets = e->has_dot || (!e->v->aligned && has_many_masks(e));
	choose_arguments(e, &args, &u);
	start_function(e, name, &args);
	e->clamps_by_mode = pass_clamps_by_mode(ph, e->v->target);
	if (e->clamps_by_mode)
		e->machine->clamp_by_mode(e);
	open_debug(e, di, file, name, ph->line > 0 ? ph->line : 1);
	cluster_begin(e);
	bind_numbers(e, &args);
	grid_leave(e);
	bind_pointers(e, &args);
	const struct hexpr **grid = arena_alloc(e->arena, 3 * sizeof *grid);
	bool early = early_is_worth(e) && !is_ragged(ph);         /* a ragged range is read first */
	if (early) {
		grid_bind(e, grid);
		early_fetch(e, ph->body);
	}
	wait_for_launch(e, &args);
	bind_temps(e);
	e->arguments = args.list;
	e->narguments = args.n;
	e->late = e->v->late_arguments && e->machine->argument_block && !e->has_dot;
	e->forgets = e->forgets || e->late;
	if (!early)
		grid_bind(e, grid);
	grid_leave_rows(e);
	for (int a = 0; a < ph->naxes; a++)
		if (ph->axes[a].ragged) {
			ragged_find_tile(e, a);
			ragged_open_lists(e, a, u.tensor);
		}
	struct rounds rounds;
	rounds_begin(e, &rounds);
	emit_block(e, ph->body);
	if (e->failed)
		return -1;
	rounds_end(e, &rounds);
	for (int p = 1; p < n; p++)
		joined_phase(e, &ph[p]);
	if (e->failed)
		return -1;
	LLVMBuildRetVoid(e->b);
	join_entry(e);
	if (e->machine->keeps_order && is_scaled_both_ways(e))
		emit_order(e);
	int lds = finish_lds(e, name, variant_least_lds(e->v, (int)(ph - e->k->phases)));
	if (lds > e->v->target->lds_bytes) {
		emit_fail(e, NULL, "%s needs %d bytes of LDS, %s has %d", name, lds, e->v->target->name, e->v->target->lds_bytes);
		return OBJECT_SPILLS;
	}
	int unit = e->machine->argument_unit;
	const struct hexpr **exprs = arena_alloc(e->arena, sizeof *exprs * TOLD);
	int nexprs = 0;
	for (int i = 0; i < TOLD; i++)
		if (args.told[i])
			exprs[nexprs++] = args.told[i];
	const struct hexpr *lanes;
	int block = waves_lanes(e, &lanes);
	*out = (struct model_launch){.symbol = name, .block = block, .lanes = lanes, .grid = {grid[0], grid[1], grid[2]}, .kargs = args.list, .overlaps = e->machine->wait_for_launch != NULL,
	                             .together = e->cluster != 0, .meets = n > 1, .nkargs = args.n, .kernarg_bytes = (args.bytes + unit - 1) / unit * unit, .exprs = exprs, .nexprs = nexprs,
	                             .lds = lds};
	return 0;
}

struct temps { const struct ir_kernel *k; bool used; };

static void find_temp(struct ir_ins *i, void *ctx)
{
	struct temps *t = ctx;
	t->used = t->used || ((i->op == IR_LOAD || i->op == IR_STORE || i->op == IR_UPDATE) && t->k->params[i->imm].role == IR_TEMP);
}

/* Of phases that have become one nothing is left of it. */
static bool uses_workspace(const struct ir_kernel *k)
{
	struct temps t = {k, false};
	for (int p = 0; p < k->nphases; p++)
		ir_walk(k->phases[p].body, find_temp, &t);
	return t.used;
}

static struct emit fresh(const struct emit *base)
{
	struct emit e = *base;
	const struct ir_kernel *k = e.k;
	e.values = arena_alloc(e.arena, sizeof *e.values * (size_t)(k->next_id + 1));
	e.tensors = arena_alloc(e.arena, sizeof *e.tensors * (size_t)(k->nparams + 1));
	e.scalars = arena_alloc(e.arena, sizeof *e.scalars * (size_t)(k->nparams + 1));
	e.symbols = arena_alloc(e.arena, sizeof *e.symbols * (size_t)(k->nsymbols + 1));
	e.axis_base = arena_alloc(e.arena, sizeof *e.axis_base * LAYOUT_AXES);
	e.axis_limit = arena_alloc(e.arena, sizeof *e.axis_limit * LAYOUT_AXES);
	e.newest = arena_alloc(e.arena, sizeof *e.newest * (size_t)(k->next_id + 1));
	e.uses = pass_uses(e.arena, k);
	memset(e.newest, 0xff, sizeof *e.newest * (size_t)(k->next_id + 1));
	return e;
}

static int emit_module(const struct machine *machine, struct arena *arena, const struct ir_kernel *k, const struct variant *v, LLVMContextRef ctx,
                       bool tight, struct translated *out, char *err, size_t errlen)
{
	struct emit base = {.machine = machine, .arena = arena, .k = k, .v = v, .err = err, .errlen = errlen, .ctx = ctx, .tight = tight};
	base.mod = LLVMModuleCreateWithNameInContext(k->name, ctx);
	base.b = LLVMCreateBuilderInContext(ctx);
	LLVMSetTarget(base.mod, v->target->triple);
	base.i1 = LLVMInt1TypeInContext(ctx);
	base.i8 = LLVMInt8TypeInContext(ctx);
	base.i16 = LLVMInt16TypeInContext(ctx);
	base.i32 = LLVMInt32TypeInContext(ctx);
	base.i64 = LLVMInt64TypeInContext(ctx);
	base.f32 = LLVMFloatTypeInContext(ctx);
	base.f16 = LLVMHalfTypeInContext(ctx);
	base.bf16 = LLVMBFloatTypeInContext(ctx);
	base.p1 = LLVMPointerTypeInContext(ctx, 1);
	LLVMDIBuilderRef di = LLVMCreateDIBuilder(base.mod);
	const char *name = k->file ? k->file : "kernel.tdsl", *slash = strrchr(name, '/');
	name = slash ? slash + 1 : name; /* an object does not depend on the folder that its text lies in */
	LLVMMetadataRef file = LLVMDIBuilderCreateFile(di, name, strlen(name), "", 0);
	shim_line_unit(di, file, "tdslc", machine->line_directives);
	LLVMMetadataRef version = LLVMValueAsMetadata(LLVMConstInt(base.i32, LLVMDebugMetadataVersion(), 0));
	LLVMAddModuleFlag(base.mod, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18, version);
	struct model_launch *all = arena_alloc(arena, sizeof *all * (size_t)k->nphases);
	int status = 0;
	*out = (struct translated){.ordered = true};
	int nlaunches = v->joined ? 1 : k->nphases;
	for (int p = 0; p < nlaunches && !status; p++) {
		struct emit e = fresh(&base);
		e.waves = variant_waves(v, p);
		const char *symbol = nlaunches == 1 ? k->name : arena_printf(arena, "%s%c%d", k->name, machine->separator, p);
		status = emit_phases(&e, di, file, &k->phases[p], k->nphases / nlaunches, symbol, &all[p]);
		base.condition = e.condition;
		out->ordered = out->ordered && !e.has_dot;
		out->tiles = out->tiles || e.lds_bytes || e.lds_small_bytes > FAR;
	}
	LLVMDIBuilderFinalize(di);
	LLVMDisposeDIBuilder(di);
	LLVMDisposeBuilder(base.b);
	if (status) {
		LLVMDisposeModule(base.mod);
		return status;
	}
	const struct hexpr *bytes = hexpr_const(arena, 0);
	for (int i = 0; uses_workspace(k) && i < k->nparams; i++)
		if (k->params[i].role == IR_TEMP) {
			bytes = hexpr_op(arena, HX_ADD, bytes, temp_bytes(&base, &k->params[i]));
			out->workspace = bytes;
		}
	out->condition = base.condition;
	out->module = base.mod;
	out->launches = all;
	out->nlaunches = nlaunches;
	return 0;
}

/* Padding that spares conflicts is left out where the tiles do not fit group memory with it. */
int emit_kernel(const struct machine *machine, struct arena *arena, const struct ir_kernel *k, const struct variant *v, LLVMContextRef ctx,
                struct translated *out, char *err, size_t errlen)
{
	int rc = emit_module(machine, arena, k, v, ctx, false, out, err, errlen);
	return rc == OBJECT_SPILLS ? emit_module(machine, arena, k, v, ctx, true, out, err, errlen) : rc;
}
