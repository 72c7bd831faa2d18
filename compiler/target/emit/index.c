/* index.c -- positions: what each lane, wave and register contributes, and values computed from positions alone.
 * In: layouts, index instructions.  Out: i32 (and i1, f32) values per register.  Lane parts are computed once, in the entry block;
 * index values are computed at the first use in a scope and remembered until the scope ends. */
#include "machine.h"

#include <string.h>

/* What bit number `bit` of the workitem id adds to the sum. */
static int64_t weight(const struct layout *l, const int64_t *coef, int bit)
{
	const struct layout_basis *b = bit < l->nlane ? &l->lane[bit] : &l->wave[bit - l->nlane];
	int64_t sum = 0;
	for (int a = 0; a < LAYOUT_AXES; a++)
		sum += coef[a] * b->step[a];
	return sum;
}

/* The lanes' bits are a number and the waves' go on above it, but for a gap: the number of lane and wave with the gap put in.  NULL = not so. */
static LLVMValueRef with_gap(struct emit *e, const struct layout *l, const int64_t *coef)
{
	int64_t w = weight(l, coef, 0), gap = weight(l, coef, l->nlane);
	int shift = 0;
	while (w > 0 && gap > w << (l->nlane + shift))
		shift++;
	if (w <= 0 || (w & (w - 1)) || !shift)
		return NULL;
	for (int bit = 1; bit < l->nlane + l->nwave; bit++)
		if (weight(l, coef, bit) != w << (bit + (bit < l->nlane ? 0 : shift)))
			return NULL;
	int64_t bits = ((1LL << l->nwave) - 1) << l->nlane;
	LLVMValueRef waves = LLVMBuildAnd(e->b, e->tid, emit_int(e, bits), "");
	return op_times(e, LLVMBuildAdd(e->b, e->tid, LLVMBuildMul(e->b, waves, emit_int(e, (1LL << shift) - 1), ""), ""), w);
}

/* Bits of the workitem id whose weights double from one to the next are one term: ((tid >> from) & mask) * weight. */
LLVMValueRef index_lanes_here(struct emit *e, const struct layout *l, const int64_t *coef)
{
	int total = l->nlane + l->nwave;
	LLVMValueRef sum = l->nwave ? with_gap(e, l, coef) : NULL;
	if (sum)
		return sum;
	int64_t set = 0;                                   /* bits that may be set in the sum, while every weight is a bit of its own */
	for (int bit = 0, n; bit < total; bit += n) {
		int64_t w = weight(l, coef, bit);
		for (n = 1; w && bit + n < total && weight(l, coef, bit + n) == w << n;)
			n++;
		if (!w)
			continue;
		LLVMValueRef part = e->tid;
		if (bit)
			part = LLVMBuildLShr(e->b, part, emit_int(e, bit), "");
		if (bit + n < total)
			part = LLVMBuildAnd(e->b, part, emit_int(e, (1 << n) - 1), "");
		part = op_times(e, part, w);
		int64_t mine = w > 0 && (w & (w - 1)) == 0 ? (w << n) - w : -1;
		sum = !sum ? part : set & mine ? LLVMBuildAdd(e->b, sum, part, "") : LLVMBuildOr(e->b, sum, part, "");
		set |= mine;
	}
	return sum ? sum : emit_int(e, 0);
}

LLVMValueRef index_lanes(struct emit *e, const struct layout *l, const int64_t *coef)
{
	for (int i = 0; i < e->nlanes; i++)
		if (e->lanes[i].l == l && !memcmp(e->lanes[i].coef, coef, sizeof e->lanes[i].coef))
			return e->lanes[i].v;
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	LLVMMetadataRef where = LLVMGetCurrentDebugLocation2(e->b);
	LLVMPositionBuilderBefore(e->b, e->entry_end);
	LLVMSetCurrentDebugLocation2(e->b, where);
	LLVMValueRef sum = index_lanes_here(e, l, coef);
	emit_continue(e, here);
	LLVMSetCurrentDebugLocation2(e->b, where);
	if (e->nlanes == e->cap_lanes)
		e->lanes = arena_grow(e->arena, e->lanes, e->nlanes, &e->cap_lanes, sizeof *e->lanes);
	e->lanes[e->nlanes].l = l;
	memcpy(e->lanes[e->nlanes].coef, coef, sizeof e->lanes[e->nlanes].coef);
	return e->lanes[e->nlanes++].v = sum;
}

LLVMValueRef index_lane(struct emit *e, const struct layout *l, int axis)
{
	int64_t coef[LAYOUT_AXES] = {0};
	coef[axis] = 1;
	return index_lanes(e, l, coef);
}

int index_register(const struct layout *l, int reg, int axis)
{
	int coord[LAYOUT_AXES];
	layout_coord(l, reg, 0, 0, coord);
	return coord[axis];
}

const int *index_map(struct emit *e, const struct layout *from, const struct layout *to, ir_axes axes)
{
	for (int i = 0; i < e->nmaps; i++)
		if (e->maps[i].from == from && e->maps[i].to == to)
			return e->maps[i].map;
	int n = layout_regs(from), m = layout_regs(to), a[LAYOUT_AXES], (*b)[LAYOUT_AXES] = arena_alloc(e->arena, sizeof *b * (size_t)m);
	int *map = arena_alloc(e->arena, sizeof *map * (size_t)n);
	for (int r = 0; r < m; r++)
		layout_coord(to, r, 0, 0, b[r]);
	for (int r = 0; r < n; r++) {
		layout_coord(from, r, 0, 0, a);
		map[r] = -1;
		for (int t = 0; t < m && map[r] < 0; t++) {
			bool same = true;
			for (int x = 0; x < e->ph->naxes && same; x++)
				same = !(axes & IR_AXIS(x)) || a[x] == b[t][x];
			if (same)
				map[r] = t;
		}
		if (map[r] < 0) {
			emit_fail(e, NULL, "internal: layouts of a value and its user disagree");
			map[r] = 0;
		}
	}
	if (e->nmaps == e->cap_maps)
		e->maps = arena_grow(e->arena, e->maps, e->nmaps, &e->cap_maps, sizeof *e->maps);
	e->maps[e->nmaps].from = from;
	e->maps[e->nmaps].to = to;
	e->maps[e->nmaps++].map = map;
	return map;
}

int index_mark(const struct emit *e)
{
	return e->nmemory;
}

void index_release(struct emit *e, int mark)
{
	while (e->nmemory > mark) {
		struct remembered *r = &e->memory[--e->nmemory];
		e->newest[r->of->id] = r->older;
	}
}

/* The masks of a 128 x 64 tile are 32 pairs of scalar registers: kept from one use to the next they spill.  So each instruction of
 * a kernel with such tiles computes its masks again, from a copy of the lane's position that LLVM cannot see through (machine.h's
 * hidden_copy, no instruction), or it would merge them. */
void index_forget(struct emit *e)
{
	if (!e->forgets)
		return;
	index_release(e, e->scope_mark);
	e->ncopies = 0;
}

static LLVMValueRef lane_copy(struct emit *e, LLVMValueRef lane)
{
	if (!e->forgets || LLVMIsConstant(lane))
		return lane;
	for (int i = 0; i < e->ncopies; i++)
		if (e->copies[i].lane == lane)
			return e->copies[i].copy;
	LLVMValueRef copy = e->machine->hidden_copy(e, lane, e->loop_position);   /* the loop's position: or the copy would move out of the loop */
	if (e->ncopies == e->cap_copies)
		e->copies = arena_grow(e->arena, e->copies, e->ncopies, &e->cap_copies, sizeof *e->copies);
	e->copies[e->ncopies].lane = lane;
	return e->copies[e->ncopies++].copy = copy;
}

/* --- runs of positions ---------------------------------------------------------------------------------------------------- */

/* What is known of a symbol, of any tensor or of this one; the innermost extent of a tensor whose elements lie in pairs is even. */
static int64_t symbol_divisor(struct emit *e, int tensor, int symbol)
{
	int64_t known = known_symbol_multiple(e->v, symbol);
	for (int m = 0; m < e->k->nmultiples; m++)
		if (e->k->multiples[m].symbol == symbol && (e->k->multiples[m].tensor < 0 || e->k->multiples[m].tensor == tensor) &&
		    e->k->multiples[m].multiple > known)
			known = e->k->multiples[m].multiple;
	const struct ir_param *t = tensor < 0 ? NULL : &e->k->params[tensor];
	const struct hexpr *inner = t && dtype_info(t->dtype)->bits < 8 ? t->extent[t->rank - 1] : NULL;
	return inner && inner->op == HX_SYM && inner->imm == symbol && known % 2 ? 2 * known : known;
}

int64_t index_divisor(struct emit *e, const struct affine *f, int except, int tensor)
{
	int64_t d = f->constant ? (f->constant & -f->constant) : 1 << 30;
	for (int x = 0; x < e->ph->naxes; x++)
		if (f->coef[x] && x != except) {
			/* the axis's base is a multiple of its tile for grid axes, of 1 otherwise; positions step by 1 */
			int64_t c = f->coef[x] & -f->coef[x];
			d = c < d ? c : d;
		}
	for (int t = 0; t < f->nterms; t++) {
		int64_t c = f->term[t].coef & -f->term[t].coef;
		c *= f->term[t].of ? known_divisor(f->term[t].of, e->ph, e->v) : symbol_divisor(e, tensor, f->term[t].symbol);
		c &= -c;
		d = c < d ? c : d;
	}
	return d;
}

struct starts { const struct emit *e; int axis, w; bool divides; };

static void look_at_start(struct ir_ins *i, void *ctx)
{
	struct starts *s = ctx;
	if (i->op == IR_FOR && i->imm == s->axis)
		s->divides = s->divides && known_divisor(i->args[0], s->e->ph, s->e->v) % s->w == 0;
}

bool index_base_divides(struct emit *e, int axis, int w)
{
	struct starts s = {e, axis, w, true};
	const struct ir_axis *ax = &e->ph->axes[axis];
	if (ax->ragged && !ax->of_list)
		return false;
	if (ax->kind == AXIS_LOOP)
		ir_walk(e->ph->body, look_at_start, &s);
	return ax->kind == AXIS_HELD || (ax->tile % w == 0 && s.divides);
}

bool index_mask_is_run(struct emit *e, const struct ir_ins *m, int axis, int w, int tensor)
{
	if (!(m->axes & IR_AXIS(axis)))
		return true;
	switch (m->op) {
	case IR_AND: case IR_OR:
		return index_mask_is_run(e, m->args[0], axis, w, tensor) && index_mask_is_run(e, m->args[1], axis, w, tensor);
	case IR_NOT:
		return index_mask_is_run(e, m->args[0], axis, w, tensor);
	case IR_LT: {
		/* p + rest < 0 with p a run of w positions from a multiple of w: the same for the run if w divides the rest */
		struct affine d = affine_sub(affine_of(m->args[0]), affine_of(m->args[1]));
		return d.ok && d.coef[axis] == 1 && index_base_divides(e, axis, w) && index_divisor(e, &d, axis, tensor) % w == 0;
	}
	case IR_LE: {
		/* bound <= p: the same for the run if w divides both */
		struct affine d = affine_sub(affine_of(m->args[0]), affine_of(m->args[1]));
		return d.ok && d.coef[axis] == -1 && index_base_divides(e, axis, w) && index_divisor(e, &d, axis, tensor) % w == 0;
	}
	default:
		return false;
	}
}

/* The first of the registers behind `reg` and before it that hold the same of a condition. */
static int run_start(struct emit *e, const struct ir_ins *condition, const struct layout *l, int reg)
{
	for (int x = 0; l && x < e->ph->naxes; x++) {
		int w = 1 << layout_vector(l, x);
		while (w > 1 && !index_mask_is_run(e, condition, x, w, -1))
			w /= 2;
		if (w > 1)
			return reg & ~(w - 1);
	}
	return reg;
}

/* --- values of positions -------------------------------------------------------------------------------------------------- */

static LLVMValueRef position(struct emit *e, int axis, const struct layout *l, int reg)
{
	LLVMValueRef v = e->axis_base[axis];
	if (!l || layout_size(l, axis) == 1)
		return v ? v : emit_int(e, 0);
	LLVMValueRef lane = lane_copy(e, index_lane(e, l, axis));
	int constant = index_register(l, reg, axis);
	if (!LLVMIsConstant(lane) || !v)
		v = v ? LLVMBuildAdd(e->b, v, lane, "") : lane;
	return constant ? LLVMBuildAdd(e->b, v, emit_int(e, constant), "") : v;
}

/* What a number is at least, -1 where nobody knows. */
static int64_t known_least(const struct emit *e, const struct ir_ins *i)
{
	for (int n = 0; i->op == IR_SYM && n < e->v->nlimits; n++)
		if (e->v->limits[n].symbol == i->imm)
			return e->v->limits[n].least;
	return i->op == IR_CONST ? i->imm : -1;
}

/* Whether all lanes' positions in a register lie below a number (1), or none does (0); -1 where lanes differ, or nobody knows: rows whose chunks are
 * whole are within, or are not there, and so are those of waves that hold nothing else, where no others are started. */
static int known_below(const struct emit *e, const struct ir_ins *i, const struct layout *l, int reg)
{
	if (i->op != IR_LT || !l || known_least(e, i->args[1]) < 0)
		return -1;
	struct affine at = affine_of(i->args[0]);
	int64_t first = at.constant, span = 0, end = known_least(e, i->args[1]), last = 0, waves = (int64_t)1 << l->nwave;
	if (!at.ok || at.nterms)
		return -1;
	for (int a = 0; a < e->ph->naxes; a++) {
		if (at.coef[a] < 0 || (at.coef[a] && e->axis_base[a]))
			return -1;
		first += at.coef[a] * index_register(l, reg, a);
	}
	if (e->waves_there)
		hexpr_is_const(e->waves_there, &waves);
	for (int64_t w = 0; w < waves; w++) {
		int64_t from = 0;
		for (int bit = 0; bit < l->nwave; bit++)
			from += w >> bit & 1 ? weight(l, at.coef, l->nlane + bit) : 0;
		last = from > last ? from : last;
	}
	for (int bit = 0; bit < l->nlane; bit++)
		span += weight(l, at.coef, bit);
	return first + span + last < end ? 1 : first >= end && i->args[1]->op == IR_CONST ? 0 : -1;
}

/* The row of a wave that has not left. */
static bool is_row_there(const struct emit *e, const struct ir_ins *i)
{
	const struct hexpr *rows = e->rows_there ? e->rows_there->extent : NULL;
	return rows && i->op == IR_LT && i->args[0]->op == IR_IOTA && &e->ph->axes[i->args[0]->imm] == e->rows_there && i->args[1]->op == IR_SYM && rows->op == HX_SYM &&
	       rows->imm == i->args[1]->imm;
}

LLVMValueRef index_value(struct emit *e, const struct ir_ins *i, const struct layout *l, int reg)
{
	if (!i->axes || i->layout)
		return value_element(e, i, l, reg);
	int known = is_row_there(e, i) ? 1 : known_below(e, i, l, reg);
	if (known >= 0)
		return LLVMConstInt(e->i1, (unsigned)known, 0);
	for (int m = e->newest[i->id]; m >= 0; m = e->memory[m].older)
		if (e->memory[m].layout == l && e->memory[m].reg == reg)
			return e->memory[m].v;
	LLVMValueRef args[8], v;
	int first = i->dtype == DT_I1 ? run_start(e, i, l, reg) : reg;
	if (i->op == IR_IOTA) {
		v = position(e, (int)i->imm, l, reg);
	} else if (first != reg) {
		v = index_value(e, i, l, first);
	} else {
		for (int a = 0; a < i->nargs; a++)
			args[a] = index_value(e, i->args[a], l, reg);
		v = op_build(e, i, args);
	}
	if (e->nmemory == e->cap_memory)
		e->memory = arena_grow(e->arena, e->memory, e->nmemory, &e->cap_memory, sizeof *e->memory);
	e->memory[e->nmemory] = (struct remembered){i, l, reg, v, e->newest[i->id]};
	e->newest[i->id] = e->nmemory++;
	return v;
}

/* Bits of the workitem id that step along no axis. */
static int64_t copy_bits(struct emit *e, const struct layout *l)
{
	int64_t copies = 0;
	if (!l)
		return e->v->target->max_threads - 1;
	for (int bit = 0; bit < l->nlane + l->nwave; bit++) {
		const struct layout_basis *b = bit < l->nlane ? &l->lane[bit] : &l->wave[bit - l->nlane];
		bool zero = true;
		for (int a = 0; a < e->ph->naxes; a++)
			zero = zero && !b->step[a];
		copies |= (int64_t)zero << bit;
	}
	return copies;
}

static LLVMValueRef bits_are_clear(struct emit *e, int64_t bits)
{
	LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
	if (!e->has_dot)                                   /* masks are few: known long before it is asked for */
		LLVMPositionBuilderBefore(e->b, e->entry_end);
	LLVMValueRef first = LLVMBuildICmp(e->b, LLVMIntEQ, LLVMBuildAnd(e->b, e->tid, emit_int(e, bits), ""), emit_int(e, 0), "");
	emit_continue(e, here);
	return first;
}

LLVMValueRef index_is_first_copy(struct emit *e, const struct layout *l, bool lanes_may)
{
	int64_t copies = copy_bits(e, l);
	return !copies || (lanes_may && l && !(copies >> l->nlane)) ? NULL : bits_are_clear(e, copies);
}

LLVMValueRef index_is_first_lane(struct emit *e) { return bits_are_clear(e, e->v->target->wave - 1); }
