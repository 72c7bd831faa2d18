/* layout_choose.c -- builds the layouts of layout_choose.h bit by bit.
 * In: axes with tile sizes, a matrix instruction's shape.  Out: struct layout.  A tile's odd factor and what exceeds the lanes goes
 * into repeats. */
#include "layout_choose.h"

ir_axes wide_axes(const struct ir_phase *ph, ir_axes axes)
{
	ir_axes r = 0;
	for (int a = 0; a < ph->naxes; a++)
		if ((axes & IR_AXIS(a)) && ph->axes[a].tile > 1)
			r |= IR_AXIS(a);
	return r;
}

static struct layout *empty(const struct layout_space *s)
{
	struct layout *l = arena_alloc(s->arena, sizeof *l);
	for (int a = 0; a < LAYOUT_AXES; a++)
		l->block[a] = l->rep[a] = 1;
	while ((1 << l->nlane) < s->v->target->wave)
		l->nlane++;
	while ((1 << l->nwave) < s->waves)
		l->nwave++;
	return l;
}

/* What the block leaves of each tile goes into repeats. */
static const struct layout *finished(const struct layout_space *s, struct layout *l, ir_axes axes)
{
	for (int a = 0; a < s->ph->naxes; a++)
		if (axes & IR_AXIS(a))
			l->rep[a] = (s->ph->axes[a].tile + l->block[a] - 1) / l->block[a];
	return l;
}

static void step(struct layout *l, struct layout_basis *bit, int axis)
{
	bit->step[axis] = l->block[axis];
	l->block[axis] *= 2;
}

/* The axis that numbers the groups of axis a, which stands in front of it; -1 = none. */
static int groups_of(const struct ir_phase *ph, int a)
{
	int64_t by;
	const struct hexpr *groups = a > 0 ? ph->axes[a - 1].extent : NULL;
	bool held = a > 0 && ph->axes[a].kind == AXIS_HELD && hexpr_is_const(ph->axes[a].extent, &by);
	return held && groups && groups->op == HX_CDIV && hexpr_is_const(groups->b, &by) ? a - 1 : -1;
}

/* A row of a fixed size that leaves no wave out, or, where registers that no lane needs cost nothing (target.whole_chunks), whole registers of all;
 * one of which all but the last registers are known to be there; or places whose number is no power of two, which no waves would part. */
static bool fills_waves(const struct layout_space *s, const struct layout *l, const struct ir_axis *ax, int block)
{
	int64_t n;
	int parts = ax->tile / block;
	if (!hexpr_is_const(ax->extent, &n))
		return variant_is_between(s->v) || (parts & (parts - 1));
	return n > ax->tile - (ax->tile >> l->nwave) || (s->v->target->whole_chunks && n % (block << l->nwave) == 0);
}

/* Where the waves part a row that is held, and may not all be there (emit/waves.c), each has a part of it in one piece: what exceeds the lanes goes
 * into registers before the waves step.  Of rows side by side each has its own waves. */
static void step_before_waves(const struct layout_space *s, struct layout *l, const int *order, int n)
{
	int axis = -1, waves = l->nwave - (s->v->beside > 1 ? __builtin_ctz((unsigned)s->v->beside) : 0);
	for (int i = 0; i < n; i++) {
		const struct ir_axis *ax = &s->ph->axes[order[i]];
		bool more = ax->tile % (2 * l->block[order[i]]) == 0;
		if (more && ax->kind == AXIS_GRID && s->v->beside > 1)
			continue;
		if (more && (axis >= 0 || ax->kind != AXIS_HELD))
			return;
		axis = more ? order[i] : axis;
	}
	if (axis < 0 || fills_waves(s, l, &s->ph->axes[axis], l->block[axis]))
		return;
	while (waves > 0 && s->ph->axes[axis].tile % (l->block[axis] << (waves + 1)) == 0)
		step(l, &l->reg[l->nreg++], axis);
}

/* Groups both ways, whose waves wait for each other in any case: behind the groups' axis, of which a workgroup has a tile, rows are held as well. */
static bool is_block(const struct ir_phase *ph, int inner, int groups)
{
	bool rows = false;
	for (int a = 0; a < ph->naxes; a++)
		rows = rows || (a != inner && ph->axes[a].kind == AXIS_HELD);
	return groups >= 0 && ph->axes[groups].kind == AXIS_GRID && rows;
}

/* Which axes waves step along, in turns. */
enum { ROWS, GROUPS, ANY };

const struct layout *layout_rows(const struct layout_space *s, ir_axes axes, int inner, int vector, int across, int run)
{
	struct layout *l = empty(s);
	int order[LAYOUT_AXES], n = 0;
	if (inner >= 0 && (axes & IR_AXIS(inner)))
		order[n++] = inner;
	int groups = groups_of(s->ph, inner), next = s->v->target->lanes_adjacent ? groups : -1;
	if (next >= 0 && (axes & IR_AXIS(next)))             /* the line goes on in the next group */
		order[n++] = next;
	int beside = next >= 0 ? groups_of(s->ph, across) : -1;
	if (beside >= 0 && (axes & IR_AXIS(beside)))         /* groups across to lanes: each then finishes the numbers of one */
		order[n++] = beside;
	for (int a = s->ph->naxes - 1; a >= 0; a--)
		if ((axes & IR_AXIS(a)) && a != inner && a != next && a != beside)
			order[n++] = a;
	for (; inner >= 0 && vector > 1 && s->ph->axes[inner].tile % (2 * l->block[inner]) == 0; vector /= 2)
		step(l, &l->reg[l->nreg++], inner);
	for (; run > 1 && s->ph->axes[across].tile % (2 * l->block[across]) == 0; run /= 2)
		step(l, &l->reg[l->nreg++], across);
	int used = 0, total = l->nlane + l->nwave;
	for (int i = 0; i < n && used < l->nlane; i++)
		while (used < l->nlane && s->ph->axes[order[i]].tile % (2 * l->block[order[i]]) == 0)
			step(l, &l->lane[used++], order[i]);
	if (s->v->waves_vary && used == l->nlane)
		step_before_waves(s, l, order, n);
	bool held = !s->v->abreast && inner >= 0 && s->ph->axes[inner].kind == AXIS_HELD && !is_block(s->ph, inner, groups);
	for (int round = held ? ROWS : ANY; round <= ANY; round++)       /* those of one row wait for each other, and those of one group once more */
		for (int i = 0; i < n && used < total; i++) {
			const struct ir_axis *ax = &s->ph->axes[order[i]];
			bool takes = round == ANY || (round == ROWS && ax->kind == AXIS_GRID) || (round == GROUPS && order[i] == groups);
			for (; takes && used < total && ax->tile % (2 * l->block[order[i]]) == 0; used++)
				step(l, &l->wave[used - l->nlane], order[i]);
		}
	return finished(s, l, axes);
}

static void wave_steps(struct layout *l, const int *wave_axis, ir_axes axes)
{
	for (int w = 0; w < l->nwave; w++)
		if (wave_axis[w] >= 0 && (axes & IR_AXIS(wave_axis[w])))
			step(l, &l->wave[w], wave_axis[w]);
}

static void map_step(struct layout *l, struct layout_basis *bit, struct mfma_bit b, int row, int col)
{
	int axis = b.axis == 'r' ? row : col;
	bit->step[axis] = b.step;
	l->block[axis] *= 2;
}

const struct layout *layout_accumulator(const struct layout_space *s, const struct mfma *m, int row, int col, const int *wave_axis)
{
	struct layout *l = empty(s);
	const struct mfma_map *map = m->map;
	for (int i = 0; i < 2; i++)
		map_step(l, &l->reg[l->nreg++], map->reg[i], row, col);
	for (int i = 0; i < l->nlane; i++)
		map_step(l, &l->lane[i], map->lane[i], row, col);
	wave_steps(l, wave_axis, IR_AXIS(row) | IR_AXIS(col));
	return finished(s, l, IR_AXIS(row) | IR_AXIS(col));
}

struct k_shape k_shape_plain(const struct mfma *m, int bits, int tile)
{
	struct k_shape k = {0};
	int at = 1, run = 128 / bits, lanes = 1 << mfma_k_bits(m);
	if (run < m->elems)
		run = m->elems;
	while (run > m->elems && tile % (run * lanes))
		run /= 2;
	for (; at < run; at *= 2)
		k.reg[k.nreg++] = at;
	for (; lanes > 1; lanes /= 2, at *= 2)
		k.lane[k.nlane++] = at;
	return k;
}

struct k_shape k_shape_of_accumulator(const struct mfma *acc, const struct mfma *use)
{
	struct k_shape k = {0};
	int at = 1;
	for (int i = 0; i < 2; i++)
		if (acc->map->reg[i].axis == 'r') {
			k.reg[k.nreg++] = acc->map->reg[i].step;
			at *= 2;
		}
	for (int i = 0; i < 6; i++)
		if (acc->map->lane[i].axis == 'r') {
			k.lane[k.nlane++] = acc->map->lane[i].step;
			at *= 2;
		}
	for (; at < acc->rows || (1 << k.nreg) < use->elems; at *= 2)
		k.reg[k.nreg++] = at;
	return k;
}

const struct layout *layout_operand(const struct layout_space *s, const struct mfma *m, int positions, int free_axis, int k_axis,
                                    const struct k_shape *k, const int *wave_axis)
{
	struct layout *l = empty(s);
	int nk = 0;
	for (int i = 0; i < k->nreg; i++, l->block[k_axis] *= 2)
		l->reg[l->nreg++].step[k_axis] = k->reg[i];
	for (int i = 0; m->map->operand[i]; i++)
		if (m->map->operand[i] == 'f') {
			step(l, &l->lane[i], free_axis);
		} else {
			l->lane[i].step[k_axis] = k->lane[nk];
			l->block[k_axis] *= k->lane[nk++] ? 2 : 1;
		}
	while (l->block[free_axis] < positions)
		step(l, &l->reg[l->nreg++], free_axis);
	wave_steps(l, wave_axis, IR_AXIS(free_axis));
	return finished(s, l, IR_AXIS(free_axis) | IR_AXIS(k_axis));
}
