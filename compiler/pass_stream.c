/* pass_stream.c
 * Problem: a held axis (n = 0..N) may be longer than the registers of a workgroup.
 * Method:  its tile becomes a chunk, and the block is rewritten into sweeps: loops over chunks, one per level of reductions over
 *          the axis.  A sweep loads what it needs again, keeps partial results elementwise in registers, and the reduction across
 *          lanes happens once after it.  Sweeps = reduction depth + 1.  A position in a chunk is iota + a carried offset.
 *          An axis over which nothing is reduced needs no sweep: its chunks become workgroups of their own.
 *          Accesses of a tensor that is written keep their order.  A row that is read and stored is stored in the last sweep, behind
 *          that chunk's loads, so that each sweep reads it as it was: where all its accesses are at the same places, stores last.
 * Needs:   tiles; no for or if around reductions over the axis.   Keeps: values up to the order of reductions. */
#include "pass.h"

#include <float.h>
#include <string.h>

struct stream {
	struct pass *p;
	const struct ir_kernel *k;
	struct ir_phase *ph;
	int axis;                  /* the held axis */
	int ids;                   /* ids before the rewrite */
	int *level;                /* by id */
	struct ir_ins **map;       /* old id -> clone in the present sweep */
	struct ir_ins **so_far;    /* of a scan, by old id: what the chunks before this one come to, in the present sweep */
	struct ir_ins **outer;     /* old id -> value outside the sweeps */
	struct ir_ins **old;       /* the instructions before the rewrite, in their order */
	int count;
	bool *in_place;            /* by parameter: read and stored, along the axis */
};

static bool along(const struct stream *s, const struct ir_ins *i)
{
	return (i->axes & IR_AXIS(s->axis)) != 0;
}

static bool reduces(const struct stream *s, const struct ir_ins *i)
{
	return i->op == IR_REDUCE && (i->over & IR_AXIS(s->axis));
}

static bool effect_along(const struct stream *s, const struct ir_ins *i)
{
	if (i->op != IR_STORE && i->op != IR_UPDATE)
		return false;
	for (int a = 0; a < i->nargs; a++)
		if (along(s, i->args[a]))
			return true;
	return false;
}

static bool is_access(const struct ir_ins *i) { return i->op == IR_LOAD || i->op == IR_STORE || i->op == IR_UPDATE; }

static bool is_along(const struct stream *s, const struct ir_ins *access) { return along(s, access) || effect_along(s, access); }

struct touching { int64_t tensor; bool loads, stores; };

static void look_at_tensor(struct ir_ins *i, void *ctx)
{
	struct touching *t = ctx;
	t->loads = t->loads || (i->op == IR_LOAD && i->imm == t->tensor);
	t->stores = t->stores || ((i->op == IR_STORE || i->op == IR_UPDATE) && i->imm == t->tensor);
}

static bool is_read_and_stored(const struct ir_phase *ph, int tensor)
{
	struct touching t = {tensor, false, false};
	ir_walk(ph->body, look_at_tensor, &t);
	return t.loads && t.stores;
}

/* Both are at the same place, which no other chunk has. */
static bool at_one_place(const struct stream *s, const struct ir_ins *a, const struct ir_ins *b)
{
	bool own = false;
	for (int d = 0; d < s->k->params[a->imm].rank; d++) {
		struct affine f = affine_of(a->args[d]), between = affine_sub(f, affine_of(b->args[d]));
		bool same = a->args[d] == b->args[d] || (between.ok && !between.nterms && !between.constant), alone = f.ok && f.coef[s->axis];
		for (int x = 0; x < LAYOUT_AXES; x++) {
			same = same && (a->args[d] == b->args[d] || !between.coef[x]);
			alone = alone && (x == s->axis || !f.coef[x]);
		}
		if (!same)
			return false;
		own = own || alone;
	}
	return own;
}

/* A row of the tensor can be read and stored in chunks; i: the first access, those behind it have to be as it. */
static bool is_in_place(const struct stream *s, const struct ir_ins *first)
{
	bool stored = false, ok = true;
	for (const struct ir_ins *i = first; i && ok; i = i->next) {
		if (!is_access(i) || i->imm != first->imm)
			continue;
		ok = is_along(s, i) && i->op != IR_UPDATE && at_one_place(s, first, i) && !(stored && i->op == IR_LOAD);
		stored = stored || i->op == IR_STORE;
	}
	return ok;
}

/* Fills in_place; returns the access of a row that cannot be, NULL = there is none. */
static const struct ir_ins *find_in_place(struct stream *s)
{
	const struct ir_kernel *k = s->k;
	s->in_place = arena_alloc(k->arena, sizeof *s->in_place * (size_t)(k->nparams + 1));
	for (int t = 0; t < k->nparams; t++) {
		const struct ir_ins *first = NULL, *row = NULL;
		if (!k->params[t].is_tensor || !is_read_and_stored(s->ph, t))
			continue;
		for (const struct ir_ins *i = s->ph->body->first; i; i = i->next) {
			bool of_it = is_access(i) && i->imm == t;
			first = of_it && !first ? i : first;
			row = of_it && is_along(s, i) && (!row || i->op == IR_STORE) ? i : row;
		}
		s->in_place[t] = row != NULL;
		if (row && !is_in_place(s, first))
			return row;
	}
	return NULL;
}

bool phase_can_sweep_in_place(const struct ir_kernel *k, struct ir_phase *ph, int axis)
{
	struct stream s = {.k = k, .ph = ph, .axis = axis};
	return !find_in_place(&s);
}

static bool scans(const struct stream *s, const struct ir_ins *i)
{
	return i->op == IR_SCAN && (i->over & IR_AXIS(s->axis));
}

/* The scans that a sink of a sweep needs of it, each once; `met` by id. */
static int find_scans(const struct stream *s, struct ir_ins *i, bool is_sink, bool *met, struct ir_ins **found, int n)
{
	if (met[i->id] || (!along(s, i) && !is_sink))
		return n;
	met[i->id] = true;
	for (int a = 0; a < i->nargs; a++)
		n = find_scans(s, i->args[a], false, met, found, n);
	if (scans(s, i))
		found[n++] = i;
	return n;
}

/* The value of `i` in the present sweep. */
static struct ir_ins *swept(struct stream *s, struct ir_builder *b, struct ir_ins *i, struct ir_ins *offset)
{
	if (!along(s, i) && !effect_along(s, i))
		return s->outer[i->id];
	if (s->map[i->id])
		return s->map[i->id];
	struct ir_ins *r;
	b->line = i->line;
	b->col = i->col;
	if (i->op == IR_IOTA) {
		r = ir_bin(b, IR_ADD, ir_leaf(b, IR_IOTA, DT_I32, s->axis), offset);
	} else {
		struct ir_ins **args = arena_alloc(s->p->k->arena, sizeof *args * (size_t)(i->nargs + 1));
		for (int a = 0; a < i->nargs; a++)
			args[a] = swept(s, b, i->args[a], offset);
		r = ir_copy(b, i, args);
	}
	if (scans(s, i))
		r = ir_bin(b, IR_ADD, s->so_far[i->id], r);
	return s->map[i->id] = r;
}

/* What the chunks come to behind this one. */
static struct ir_ins *scanned(struct stream *s, struct ir_builder *b, struct ir_ins *scan, struct ir_ins *offset)
{
	swept(s, b, scan, offset);
	struct ir_ins *a = swept(s, b, scan->args[0], offset), *mask = scan->flags & IR_MASKED ? swept(s, b, scan->args[1], offset) : NULL;
	b->line = scan->line;
	b->col = scan->col;
	return ir_bin(b, IR_ADD, s->so_far[scan->id], ir_reduce(b, RED_SUM, a, scan->over, mask));
}

static struct ir_ins *identity(struct ir_builder *b, const struct ir_ins *r)
{
	if (!dtype_is_float(r->dtype))
		return ir_int(b, r->dtype, ir_int_identity(r->kind, r->dtype));
	return ir_float(b, r->dtype, r->kind == RED_PROD ? 1 : r->kind == RED_MAX ? -FLT_MAX : r->kind == RED_MIN ? FLT_MAX : 0);
}

static enum ir_op combiner(enum ir_reduce kind)
{
	static const enum ir_op op[] = {[RED_SUM] = IR_ADD, [RED_PROD] = IR_MUL, [RED_MAX] = IR_MAX, [RED_MIN] = IR_MIN,
	                                [RED_ANY] = IR_OR, [RED_ALL] = IR_AND};
	return op[kind];
}

/* Whether a round of the loop beyond the axis's end does nothing but bring zeros to reductions without a mask (pass_simplify.c). */
static bool harmless(const struct ir_block *body)
{
	for (const struct ir_ins *i = body->first; i; i = i->next)
		if ((i->op == IR_LOAD || i->op == IR_STORE || i->op == IR_UPDATE) && !(i->flags & IR_MASKED))
			return false;
	return true;
}

/* A loop that runs at least once needs no second way around it, with initial values of its own. */
static bool runs_once_at_least(struct stream *s, struct ir_ins *loop)
{
	struct ir_builder before = pass_before(s->p, s->ph, loop);
	bool may = loop->args[1]->op != IR_CONST && harmless(loop->body);
	if (may)
		loop->args[1] = ir_bin(&before, IR_MAX, loop->args[1], ir_int(&before, DT_I32, 1));
	return may;
}

static void sweep(struct stream *s, struct ir_builder *b, struct ir_ins **sinks, int nsinks, int chunk_axis, bool last)
{
	struct ir_kernel *k = s->p->k;
	int T = s->ph->axes[s->axis].tile;
	struct ir_ins **scan = arena_alloc(k->arena, sizeof *scan * (size_t)(s->count + 1));
	bool *met = arena_alloc(k->arena, (size_t)s->ids);
	int n = 0, nscans = 0;
	for (int i = 0; i < nsinks; i++)
		nscans = find_scans(s, sinks[i], true, met, scan, nscans);
	struct ir_ins **init = arena_alloc(k->arena, sizeof *init * (size_t)(nsinks + nscans + 1));
	struct ir_ins **reduce = arena_alloc(k->arena, sizeof *reduce * (size_t)(nsinks + 1));
	init[0] = ir_int(b, DT_I32, 0);
	for (int i = 0; i < nsinks; i++)
		if (reduces(s, sinks[i])) {
			reduce[++n] = sinks[i];
			init[n] = identity(b, sinks[i]);
		}
	for (int i = 0; i < nscans; i++)
		init[n + 1 + i] = dtype_is_float(scan[i]->dtype) ? ir_float(b, scan[i]->dtype, 0) : ir_int(b, scan[i]->dtype, 0);
	b->line = sinks[0]->line;
	b->col = sinks[0]->col;
	struct ir_ins *loop = ir_for(b, chunk_axis, ir_int(b, DT_I32, 0), ir_hexpr(b, s->ph->axes[s->axis].extent), init, n + 1 + nscans);
	for (int i = 1; i <= n; i++)
		loop->body->params[i]->axes = reduce[i]->axes | reduce[i]->over;
	for (int i = 0; i < nscans; i++) {
		s->so_far[scan[i]->id] = loop->body->params[n + 1 + i];
		s->so_far[scan[i]->id]->axes = scan[i]->axes & ~scan[i]->over;
	}
	struct ir_builder in = {k, s->ph, loop->body, NULL, 0, 0};
	struct ir_ins *offset = loop->body->params[0];
	struct ir_ins **next = arena_alloc(k->arena, sizeof *next * (size_t)(n + 1 + nscans));
	memset(s->map, 0, sizeof *s->map * (size_t)s->ids);
	for (int i = 0; last && i < s->count; i++)         /* what is stored in this sweep is read in front of that */
		if (s->old[i]->op == IR_LOAD && s->in_place[s->old[i]->imm])
			swept(s, &in, s->old[i], offset);
	n = 0;
	for (int i = 0; i < nsinks; i++) {
		struct ir_ins *r = sinks[i];
		if (!reduces(s, r)) {
			swept(s, &in, r, offset);
			continue;
		}
		struct ir_ins *acc = loop->body->params[++n], *a = swept(s, &in, r->args[0], offset);
		struct ir_ins *f = r->flags & IR_PRODUCT ? swept(s, &in, r->args[1], offset) : NULL;
		struct ir_ins *mask = r->flags & IR_MASKED ? swept(s, &in, r->args[r->nargs - 1], offset) : NULL;
		struct ir_ins *more;
		in.line = r->line;
		in.col = r->col;
		if (mask && !f)
			a = ir_select(&in, mask, a, identity(&in, r));
		more = f ? ir_fma(&in, a, f, acc) : ir_bin(&in, combiner(r->kind), acc, a);
		if (mask && f)
			more = ir_select(&in, mask, more, acc);
		next[n] = more;
	}
	next[0] = ir_bin(&in, IR_ADD, offset, ir_int(&in, DT_I32, T));
	for (int i = 0; i < nscans; i++)
		next[n + 1 + i] = scanned(s, &in, scan[i], offset);
	ir_yield(&in, next, n + 1 + nscans);
	struct ir_ins **part = arena_alloc(k->arena, sizeof *part * (size_t)(n + 1)), *extent = loop->args[1];
	bool once = runs_once_at_least(s, loop);
	for (int i = 1; i <= n; i++)
		part[i] = ir_result(b, loop, i);
	for (int i = 1; i <= n; i++) {                     /* side by side: they share a round of exchanges */
		b->line = reduce[i]->line;
		b->col = reduce[i]->col;
		s->outer[reduce[i]->id] = ir_reduce(b, reduce[i]->kind, part[i], reduce[i]->over, NULL);
	}
	for (int i = 1; once && i <= n; i++)               /* of nothing: the identity, not the zeros of a round beyond the end */
		if (!(reduce[i]->flags & (IR_MASKED | IR_PRODUCT)) && reduce[i]->kind != RED_SUM)
			s->outer[reduce[i]->id] = ir_select(b, ir_bin(b, IR_LT, ir_int(b, DT_I32, 0), extent), s->outer[reduce[i]->id], identity(b, reduce[i]));
}

/* any and all as maximum and minimum of 0 and 1: a sweep carries them in a vector register an element, not in a pair of scalar ones. */
static void count_conditions(struct pass *p, struct ir_phase *ph, int axis)
{
	for (struct ir_ins *i = ph->body->first, *next; i; i = next) {
		next = i->next;
		if (i->op != IR_REDUCE || i->dtype != DT_I1 || !(i->over & IR_AXIS(axis)))
			continue;
		struct ir_builder b = pass_before(p, ph, i);
		struct ir_ins *mask = i->flags & IR_MASKED ? i->args[i->nargs - 1] : NULL;
		struct ir_ins *r = ir_reduce(&b, i->kind == RED_ANY ? RED_MAX : RED_MIN, ir_cvt(&b, i->args[0], DT_I32, false), i->over, mask);
		r = ir_bin(&b, IR_LT, ir_int(&b, DT_I32, 0), r);
		ir_replace(p->k, i, r);
		ir_remove(i);
	}
}

/* first_sweep: axes from this one on are those of sweeps. */
static int stream_axis(struct pass *p, struct ir_phase *ph, int axis, int first_sweep)
{
	struct ir_kernel *k = p->k;
	int old_ids = k->next_id, most = 0, count = 0;
	struct stream s = {.p = p, .k = k, .ph = ph, .axis = axis, .ids = old_ids};
	int *memory = arena_alloc(k->arena, sizeof *memory * (size_t)(k->nparams + 1));
	s.level = arena_alloc(k->arena, sizeof(int) * (size_t)old_ids);
	s.map = arena_alloc(k->arena, sizeof *s.map * (size_t)old_ids);
	s.outer = arena_alloc(k->arena, sizeof *s.outer * (size_t)old_ids);
	s.so_far = arena_alloc(k->arena, sizeof *s.so_far * (size_t)old_ids);
	for (struct ir_ins *i = ph->body->first; i; i = i->next, count++) {
		if (i->op == IR_FOR && i->imm >= first_sweep)
			return pass_lacks_registers(p, i, "axis %s and another axis that is reduced over are too long to be held in registers together",
			                 ph->axes[axis].name);
		if (i->op == IR_FOR || i->op == IR_IF || i->op == IR_ARGMAX || i->op == IR_DOT)
			return pass_lacks_registers(p, i, "axis %s is too long to be held in registers here, and a row is not streamed through '%s'",
			                 ph->axes[axis].name, ir_op_info[i->op].text);
		bool ordered = is_access(i) && k->params[i->imm].role != IR_IN;
		int l = ordered ? memory[i->imm] : 0;
		for (int a = 0; a < i->nargs; a++)
			l = s.level[i->args[a]->id] > l ? s.level[i->args[a]->id] : l;
		if (reduces(&s, i))
			l++;
		s.level[i->id] = l;
		most = l > most ? l : most;
		if (ordered)
			memory[i->imm] = l;
	}
	const struct ir_ins *row = find_in_place(&s);
	if (row)
		return pass_lacks_registers(p, row, "row %s, which is read and stored, is too long to stay in registers", k->params[row->imm].name);
	for (struct ir_ins *i = ph->body->first; i; i = i->next)
		if (i->op == IR_STORE && s.in_place[i->imm])
			s.level[i->id] = most;
	if (ph->naxes == LAYOUT_AXES)
		return pass_fail(p, NULL, "too many axes");
	int chunk_axis = ph->naxes++;
	ph->axes[chunk_axis] = (struct ir_axis){.name = arena_printf(k->arena, "%s.c", ph->axes[axis].name), .kind = AXIS_LOOP,
	                                        .tile = ph->axes[axis].tile};
	struct ir_ins **old = s.old = arena_alloc(k->arena, sizeof *old * (size_t)(count + 1));
	struct ir_ins **sinks = arena_alloc(k->arena, sizeof *sinks * (size_t)(count + 1));
	count = 0;
	for (struct ir_ins *i = ph->body->first; i; i = i->next)
		old[count++] = i;
	s.count = count;
	ph->body->first = ph->body->last = NULL;
	struct ir_builder b = {k, ph, ph->body, NULL, 0, 0};
	/* The sweep of level l: reductions that wait for l - 1 others (their own level counts them), stores at l. */
	for (int l = 0; l <= most + 1; l++) {
		int nsinks = 0;
		for (int i = 0; i < count; i++) {
			struct ir_ins *v = old[i];
			if (s.level[v->id] == l + 1 && reduces(&s, v))
				sinks[nsinks++] = v;
			else if (s.level[v->id] == l && effect_along(&s, v))
				sinks[nsinks++] = v;
			else if (s.level[v->id] == l && !along(&s, v) && !reduces(&s, v) && v->op != IR_YIELD && !s.outer[v->id]) {
				struct ir_ins **args = arena_alloc(k->arena, sizeof *args * (size_t)(v->nargs + 1));
				for (int a = 0; a < v->nargs; a++)
					args[a] = s.outer[v->args[a]->id];
				s.outer[v->id] = ir_copy(&b, v, args);
			}
		}
		if (nsinks)
			sweep(&s, &b, sinks, nsinks, chunk_axis, l == most);
	}
	ir_yield(&b, NULL, 0);
	return 0;
}

/* Of the workspace; what else is read and stored makes no axis independent. */
static bool reads_what_it_stores(const struct ir_kernel *k, const struct ir_phase *ph)
{
	bool reads = false;
	for (int t = 0; t < k->nparams; t++)
		reads = reads || (k->params[t].role == IR_TEMP && is_read_and_stored(ph, t));
	return reads;
}

int pass_stream(struct pass *p)
{
	if (!p->v->stream)
		return 0;
	FOR_PHASES(p, ph) {
		int n = ph->naxes;
		for (int a = 0; a < n; a++) {
			struct ir_axis *ax = &ph->axes[a];
			if (ax->kind != AXIS_HELD || axis_fits(ax, p->v))
				continue;
			ax->tile = ax->tile ? ax->tile : pass_planned_tile(p->v, (int)(ph - p->k->phases), ax->name);
			if (axis_is_independent(p->k, ph, a) && !reads_what_it_stores(p->k, ph)) {
				ax->kind = AXIS_GRID;
				continue;
			}
			count_conditions(p, ph, a);
			if (stream_axis(p, ph, a, n))
				return -1;
		}
	}
	return 0;
}
