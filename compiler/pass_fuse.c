/* pass_fuse.c
 * Problem: the norm of each row, then rows in tiles of groups that are scaled both ways: two launches, each of which reads all rows, because
 *          one workgroup does not hold as many whole rows as a group has.
 * Method:  the workgroups of a cluster hold them between them.  What the first phase makes of each row is computed in the second one's
 *          tiles, where its positions are (group, position in it), and is reduced over the whole cluster; the workspace between the two
 *          goes.  Loads that both have are then equal, and pass_clean leaves one.  What each row raises or lowers in memory, as the largest of all,
 *          is updated by each workgroup with what it holds of them: no member waits for another.
 * Needs:   specialised IR.   Keeps: values, up to the order of reductions; that of the reduced axis is the cluster's from here on. */
#include "pass.h"

struct fusion {
	struct ir_kernel *k; struct ir_phase *rows, *tiles;
	int row, column;                       /* the first phase's axes */
	struct axis_split of_row, of_column;
	uint64_t stored;                       /* workspace that the first phase stores, once each */
	bool ok;
};

/* cdiv(extent, by), of numbers as well. */
static bool are_parts(const struct hexpr *parts, const struct hexpr *extent, int64_t by)
{
	int64_t all, n;
	if (hexpr_is_const(extent, &all))
		return hexpr_is_const(parts, &n) && n == (all + by - 1) / by;
	return parts->op == HX_CDIV && hexpr_equal(parts->a, extent) && hexpr_is_const(parts->b, &n) && n == by;
}

bool phase_splits(const struct ir_phase *ph, const struct hexpr *extent, struct axis_split *s)
{
	for (int a = 0; a + 1 < ph->naxes; a++) {
		const struct ir_axis *o = &ph->axes[a], *i = &ph->axes[a + 1];
		if (o->kind != AXIS_GRID || o->ragged || !o->extent || i->kind != AXIS_HELD || !hexpr_is_const(i->extent, &s->by) || !are_parts(o->extent, extent, s->by))
			continue;
		s->outer = a;
		s->inner = a + 1;
		return true;
	}
	return false;
}

bool split_numbers(const struct axis_split *s, const struct ir_phase *ph, const struct ir_ins *at)
{
	struct affine p = affine_of(at);
	bool is = p.ok && !p.nterms && !p.constant;
	for (int a = 0; is && a < ph->naxes; a++)
		is = p.coef[a] == (a == s->outer ? s->by : a == s->inner);
	return is;
}

static bool is_temp(const struct fusion *f, const struct ir_ins *i) { return f->k->params[i->imm].role == IR_TEMP; }

struct reading { const struct fusion *f; int64_t tensor; bool found; };

static void look_for_reading(struct ir_ins *i, void *ctx)
{
	struct reading *r = ctx;
	r->found = r->found || (i->op == IR_LOAD && i->imm == r->tensor);
}

/* What is stored is not read: one workgroup of a cluster may be behind another. */
static bool is_read(const struct fusion *f, int64_t tensor)
{
	struct reading r = {f, tensor, false};
	ir_walk(f->rows->body, look_for_reading, &r);
	ir_walk(f->tiles->body, look_for_reading, &r);
	return r.found;
}

/* Raises or lowers one element, which nothing reads: each member of a cluster may do so by what it has. */
static bool is_extreme(const struct fusion *f, const struct ir_ins *update)
{
	bool one = update->kind == RED_MAX || update->kind == RED_MIN;
	for (int a = 0; a < f->k->params[update->imm].rank; a++)
		one = one && !update->args[a]->axes;
	return one && !is_temp(f, update) && !is_read(f, update->imm);
}

/* By the largest or the smallest of each row. */
static bool is_extreme_of_rows(const struct fusion *f, const struct ir_ins *update)
{
	int rank = f->k->params[update->imm].rank;
	const struct ir_ins *of = update->args[rank];
	bool all = !(update->flags & IR_MASKED) || !(update->args[rank + 1]->axes & ~IR_AXIS(f->row));
	return all && is_extreme(f, update) && of->op == IR_REDUCE && of->kind == update->kind && of->over == IR_AXIS(f->column);
}

static void look_at_rows(struct ir_ins *i, void *ctx)
{
	struct fusion *f = ctx;
	bool temp = i->op == IR_STORE && is_temp(f, i);
	f->ok = f->ok && (ir_is_plain(i) || (i->op == IR_UPDATE && is_extreme_of_rows(f, i))) && !(i->over & ~IR_AXIS(f->column)) &&
	        !(i->op == IR_REDUCE && i->dtype == DT_I64);
	if (temp) {
		f->ok = f->ok && i->imm < 64 && !(f->stored >> i->imm & 1);
		f->stored |= f->ok ? UINT64_C(1) << i->imm : 0;
		f->ok = f->ok && f->k->params[i->imm].rank == 1 && i->args[0]->op == IR_IOTA && i->args[0]->imm == f->row && !(i->args[1]->axes & ~IR_AXIS(f->row));
	} else if (i->op == IR_STORE) {
		f->ok = f->ok && !is_read(f, i->imm);
	}
}

/* The position of a row in the second phase. */
static bool is_row(const struct fusion *f, const struct ir_ins *at) { return split_numbers(&f->of_row, f->tiles, at); }

static void look_at_tiles(struct ir_ins *i, void *ctx)
{
	struct fusion *f = ctx;
	f->ok = f->ok && (ir_is_plain(i) || (i->op == IR_UPDATE && is_extreme(f, i))) && !(i->over & (IR_AXIS(f->of_row.outer) | IR_AXIS(f->of_column.outer)));
	if (i->op == IR_LOAD && is_temp(f, i))
		f->ok = f->ok && i->imm < 64 && (f->stored >> i->imm & 1) && is_row(f, i->args[0]);
	if (i->op == IR_STORE)
		f->ok = f->ok && !is_temp(f, i) && !is_read(f, i->imm);
}

static struct fusion fusion_of(struct ir_kernel *k)
{
	struct fusion f = {.k = k, .row = -1, .column = -1};
	if (k->nphases != 2 || k->phases[0].naxes != 2 || k->phases[1].naxes != 4)
		return f;
	f.rows = &k->phases[0];
	f.tiles = &k->phases[1];
	for (int a = 0; a < 2; a++) {
		const struct ir_axis *ax = &f.rows->axes[a];
		if (ax->kind == AXIS_GRID && !ax->ragged && !ax->tiled)
			f.row = a;
		if (ax->kind == AXIS_HELD && (ax->extent->op == HX_SYM || ax->extent->op == HX_CONST))
			f.column = a;
	}
	f.ok = f.row >= 0 && f.column >= 0 && phase_splits(f.tiles, f.rows->axes[f.row].extent, &f.of_row) && phase_splits(f.tiles, f.rows->axes[f.column].extent, &f.of_column) &&
	       f.of_row.outer != f.of_column.outer;
	if (f.ok)
		ir_walk(f.rows->body, look_at_rows, &f);
	if (f.ok)
		ir_walk(f.tiles->body, look_at_tiles, &f);
	return f;
}

bool kernel_can_fuse(struct ir_kernel *k, struct fused_axes *axes)
{
	struct fusion f = fusion_of(k);
	if (f.ok)
		*axes = (struct fused_axes){f.of_row.outer, f.of_column.outer, f.of_row.by, f.of_column.by};
	return f.ok;
}

static ir_axes axes_in_tiles(const struct fusion *f, ir_axes axes)
{
	ir_axes r = axes & IR_AXIS(f->row) ? IR_AXIS(f->of_row.outer) | IR_AXIS(f->of_row.inner) : 0;
	return axes & IR_AXIS(f->column) ? r | IR_AXIS(f->of_column.outer) | IR_AXIS(f->of_column.inner) : r;
}

/* In front of all that the tiles' phase does. */
static struct ir_ins *position(struct pass *p, struct fusion *f, const struct axis_split *s)
{
	struct ir_builder b = pass_before(p, f->tiles, f->tiles->body->first);
	struct ir_ins *outer = ir_leaf(&b, IR_IOTA, DT_I32, s->outer), *by = ir_int(&b, DT_I32, s->by);
	return ir_bin(&b, IR_ADD, ir_bin(&b, IR_MUL, outer, by), ir_leaf(&b, IR_IOTA, DT_I32, s->inner));
}

/* The update by what a workgroup has of the rows, of those that there are. */
static void update_by_parts(struct pass *p, struct fusion *f, struct ir_ins *before, struct ir_ins *row, struct ir_ins *update)
{
	struct ir_builder b = pass_before(p, f->tiles, before);
	int rank = f->k->params[update->imm].rank;
	const struct ir_ins *whole = update->args[rank];
	struct ir_ins *mask = ir_bin(&b, IR_LT, row, ir_hexpr(&b, f->rows->axes[f->row].extent));
	if (update->flags & IR_MASKED)
		mask = ir_bin(&b, IR_AND, mask, update->args[rank + 1]);
	if (whole->flags & IR_MASKED)
		mask = ir_bin(&b, IR_AND, mask, whole->args[1]);
	struct ir_ins *part = ir_reduce(&b, whole->kind, whole->args[0], whole->over | IR_AXIS(f->of_row.inner), mask);
	part->flags |= IR_PART;
	ir_update(&b, update->kind, (int)update->imm, update->args, part, NULL);
	ir_remove(update);
}

struct handing { struct fusion *f; int64_t temp; struct ir_ins *value; };

static void hand_over(struct ir_ins *i, void *ctx)
{
	struct handing *h = ctx;
	if (i->op == IR_LOAD && i->imm == h->temp) {
		ir_replace(h->f->k, i, h->value);
		ir_remove(i);
	}
}

int pass_fuse(struct pass *p)
{
	if (!p->v->cluster || p->k->nphases == 1)
		return 0;
	struct fusion f = fusion_of(p->k);
	if (!f.ok)
		return pass_fail(p, NULL, "internal: %s is no norm of rows before tiles of groups", p->k->name);
	struct ir_ins *column = position(p, &f, &f.of_column), *row = position(p, &f, &f.of_row), *behind = f.tiles->body->first;
	while (behind != column)
		behind = behind->next;
	behind = behind->next;
	for (struct ir_ins *i = f.rows->body->first, *next; i && i->op != IR_YIELD; i = next) {
		next = i->next;
		if (i->op == IR_IOTA) {
			ir_replace(p->k, i, i->imm == f.row ? row : column);
			ir_remove(i);
			continue;
		}
		i->axes = axes_in_tiles(&f, i->axes);
		i->over = axes_in_tiles(&f, i->over);
		if (i->op == IR_STORE && is_temp(&f, i)) {
			struct handing h = {&f, i->imm, i->args[1]};
			ir_walk(f.tiles->body, hand_over, &h);
			ir_remove(i);
			continue;
		}
		if (i->op == IR_UPDATE)
			update_by_parts(p, &f, behind, row, i);
		else
			ir_move(i, behind);
	}
	ir_walk(f.tiles->body, ir_recompute_axes, NULL);          /* a number stored for each row may be one for all */
	f.tiles->axes[f.of_column.outer].cluster = p->v->cluster;
	p->k->phases = f.tiles;
	p->k->nphases = 1;
	return pass_clean(p);
}
