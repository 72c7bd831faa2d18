/* pass_loads.c
 * Problem: a load stands where the text first uses it; written down so, the second tensor is asked for when the first has arrived.
 *          And what is computed from it early is held over the wait for other waves; so is what is stored last.
 * Method:  in every block the loads of tensors that the kernel never writes, and what their subscripts and masks are made of, move to
 *          the front, in their order, as long as what they bring fits beside what is computed.  That is all the order a row kernel
 *          needs: LLVM schedules it neither before nor after register allocation (llvm_shim.h).  What is first used behind a reduction
 *          then moves behind it, where that keeps fewer registers; on targets that ask for it (targets.c: late_weights), of workgroups of
 *          few waves, whose loads are many, weights do too, and of rows that a cluster holds they come by way of group memory.  A store in
 *          front of which another tile is turned moves to where its value is made.  Kernels with products keep their order: there a load's
 *          place is chosen with the products'.
 * Needs:   layouts.   Keeps: values exactly. */
#include "pass.h"

/* Of loads in flight, a lane: half the registers of eight waves a SIMD; of workgroups of few waves, beyond which what is not used yet
 * is loaded later: registers for one workgroup more bring more than the load costs (docs/performance.md). */
enum { MOST_BYTES = 256, FEW_WAVES = 4, MOST_AHEAD = 192, MANY_ELEMENTS = 64, ROUND_ELEMENTS = 16 };

struct loads { struct pass *p; const struct ir_phase *ph; bool *early; };

/* The number of a loop's round: the one position that its axis has in it. */
static bool is_round(const struct ir_phase *ph, const struct ir_ins *i)
{
	const struct ir_ins *at = i->op == IR_REDUCE ? i->args[0] : NULL;
	return at && at->op == IR_IOTA && ph->axes[at->imm].kind == AXIS_LOOP && ph->axes[at->imm].tile == 1;
}

static bool is_subscript_op(const struct ir_ins *i)
{
	return ir_is_pure(i) && i->op != IR_REDUCE && i->op != IR_DOT && i->op != IR_SCAN && i->op != IR_ARGMAX && i->op != IR_RELAYOUT;
}

/* Whether `i` can be computed at the front of the block. */
static bool can_rise(const struct loads *l, const struct ir_block *b, const struct ir_ins *i)
{
	if (i->block != b || i->op == IR_ARG || l->early[i->id])
		return true;
	bool round = l->p->v->pieces && !l->p->v->rounds && is_round(l->ph, i);   /* what is staged is asked for rounds before as it is */
	if ((!is_subscript_op(i) && !round) || (i->op == IR_LOAD && l->p->k->params[i->imm].role != IR_IN))
		return false;
	for (int a = 0; a < i->nargs; a++)
		if (!can_rise(l, b, i->args[a]))
			return false;
	return true;
}

static void mark(struct loads *l, const struct ir_block *b, const struct ir_ins *i)
{
	if (i->block != b || i->op == IR_ARG || l->early[i->id])
		return;
	l->early[i->id] = true;
	for (int a = 0; a < i->nargs; a++)
		mark(l, b, i->args[a]);
}

static int load_bytes(const struct ir_ins *i)
{
	return i->layout ? layout_regs(i->layout) * dtype_info(i->dtype)->bits / 8 : 0;
}

static void raise_loads(struct loads *l, struct ir_block *b)
{
	int bytes = 0;
	for (struct ir_ins *i = b->first; i; i = i->next) {
		if (i->body)
			raise_loads(l, i->body);
		if (i->other)
			raise_loads(l, i->other);
		if (i->op != IR_LOAD || l->early[i->id] || !can_rise(l, b, i) || bytes + load_bytes(i) > MOST_BYTES)
			continue;
		bytes += load_bytes(i);
		mark(l, b, i);
	}
	struct ir_ins *front = b->first;                       /* of what stays behind */
	for (struct ir_ins *i = b->first, *next; i; i = next) {
		next = i->next;
		if (i == front && l->early[i->id])
			front = next;
		else if (l->early[i->id])
			ir_move(i, front);
	}
}

/* Where a value is first used: the instruction of the block itself, and its place. */
struct use { struct ir_ins *by; int place; };
struct sinking { struct use *first; struct ir_ins *by; int place; };

static void note_use(struct ir_ins *i, void *ctx)
{
	struct sinking *s = ctx;
	for (int a = 0; a < i->nargs; a++) {
		struct use *u = &s->first[i->args[a]->id];
		if (!u->by || s->place <= u->place)
			*u = (struct use){s->by, s->place};
	}
}

static void note_uses(struct sinking *s, struct ir_ins *i, int place)
{
	s->by = i;
	s->place = place;
	note_use(i, s);
	if (i->body)
		ir_walk(i->body, note_use, s);
	if (i->other)
		ir_walk(i->other, note_use, s);
}

/* Members that hold a row between them wait for each other: weights that they want behind that come by way of group memory, where they take no
 * registers.  Of tiles that are reduced across as well they gain nothing (docs/performance.md); on: as many as the phase has find room. */
struct staging { const struct pass *p; const struct ir_phase *ph; const int *uses; bool on; };

/* Of rows each workgroup has its own: a position of the grid that no cluster shares decides which. */
static bool is_weight(const struct staging *s, const struct ir_ins *load)
{
	bool row = false;
	for (int a = 0; a < s->ph->naxes; a++)
		row = row || ((load->axes & IR_AXIS(a)) && s->ph->axes[a].kind == AXIS_GRID && !s->ph->axes[a].cluster);
	return load->op == IR_LOAD && load->layout && !row && !load->block->owner && s->p->k->params[load->imm].role == IR_IN;
}

static struct staging staging_of(const struct pass *p, struct ir_phase *ph)
{
	struct staging s = {p, ph, pass_uses(p->k->arena, p->k), false};
	int bytes = 0, lanes = variant_waves(p->v, (int)(ph - p->k->phases)) * p->v->target->wave;
	for (const struct ir_ins *i = ph->body->first; i; i = i->next)
		bytes += is_weight(&s, i) ? load_bytes(i) : 0;
	s.on = bytes * lanes <= p->v->target->staged_bytes && p->v->cluster && p->v->aligned && !p->v->single && ir_holds_rows(ph->body);
	return s;
}

/* Bytes of a lane that are held for an operand until it is asked for: none where it is computed then, of what is staged; what was loaded, where it is
 * computed of that for one user. */
static int held_bytes(const struct staging *s, const struct ir_ins *i)
{
	int bytes = 0;
	if (!i->axes || !i->layout || (s->on && is_weight(s, i)))
		return 0;
	if (!s->on || !is_subscript_op(i) || i->op == IR_LOAD || s->uses[i->id] != 1)
		return load_bytes(i);
	for (int a = 0; a < i->nargs; a++)
		bytes += held_bytes(s, i->args[a]);
	return bytes;
}

/* What is kept instead of the result takes no more registers; loads: the block's bring more than a lane should hold ahead. */
static bool is_cheaper_later(const struct staging *s, const struct ir_ins *i, bool loads)
{
	const struct ir_ins *kept = NULL;
	if (i->op == IR_LOAD && i->layout)
		return loads && s->p->k->params[i->imm].role == IR_IN;   /* of others a store may stand between */
	if (!is_subscript_op(i) || i->op == IR_LOAD || (i->axes && !i->layout))
		return false;
	for (int a = 0; a < i->nargs; a++) {
		bool held = held_bytes(s, i->args[a]) > 0;
		if (held && kept && kept != i->args[a])
			return false;
		kept = held ? i->args[a] : kept;
	}
	return !kept || held_bytes(s, kept) <= load_bytes(i);
}

/* What is first used behind a reduction is computed there: over the wait for other waves fewer registers are held. */
static void sink(const struct staging *stage, struct ir_block *b, int waves)
{
	const struct pass *p = stage->p;
	int n = 0, reductions = 0, bytes = 0;
	for (struct ir_ins *i = b->first; i; i = i->next, n++) {
		bytes += i->op == IR_LOAD ? load_bytes(i) : 0;
		if (i->op == IR_IF)
			sink(stage, i->body, waves);
	}
	struct sinking s = {arena_alloc(p->k->arena, sizeof *s.first * (size_t)(p->k->next_id + 1)), NULL, 0};
	struct { struct ir_ins *front; int before; } *at = arena_alloc(p->k->arena, sizeof *at * (size_t)(n + 1)); /* what stands there first; rounds of reductions */
	bool weights = p->v->target->late_weights && bytes > MOST_AHEAD && waves <= FEW_WAVES;
	int place = 0;
	for (struct ir_ins *i = b->first; i; i = i->next, place++) {
		at[place].front = i;
		at[place].before = reductions;
		reductions += pass_ends_round(i);
	}
	for (struct ir_ins *i = b->last, *prev; i; i = prev) {
		struct use u = s.first[i->id];
		prev = i->prev;
		place--;
		bool behind = u.by && at[u.place].before > at[place].before, staged = behind && stage->on && is_weight(stage, i);
		bool late = behind && !staged && is_cheaper_later(stage, i, weights);
		i->flags |= staged ? IR_STAGED : 0;
		if (late) {
			ir_move(i, at[u.place].front);
			at[u.place].front = i;
		}
		note_uses(&s, i, late ? u.place : place);
	}
}

/* Nothing between is read, for it may lie where the store goes, nor written to the same tensor; something is turned there. */
static bool is_worth_raising(const struct ir_ins *store, const struct ir_ins *front)
{
	bool turns = false;
	for (const struct ir_ins *i = front; i != store; i = i->next) {
		if (i->body || i->op == IR_LOAD || ((i->op == IR_STORE || i->op == IR_UPDATE) && i->imm == store->imm))
			return false;
		turns = turns || i->op == IR_RELAYOUT;
	}
	return turns;
}

/* On some targets a store holds more registers for being early where elements are stored one by one, or where it is asked whether the
 * tensor is there and a lane has few elements, at most `elements` (docs/performance.md). */
static bool is_dear_early(const struct pass *p, const struct ir_ins *store, int elements)
{
	bool asked = variant_may_lack(p->v, p->k, store->imm);
	return p->v->target->late_stores && (p->v->single || (asked && elements < MANY_ELEMENTS));
}

/* What is stored as it was computed is not held while another tile is turned: it is stored in front of that.  Not where loads fill the
 * registers anyway. */
static void raise_stores(struct pass *p, struct ir_block *b)
{
	int bytes = 0, elements = 0;
	for (struct ir_ins *i = b->first; i; i = i->next) {
		int n = i->op == IR_STORE && i->layout ? layout_regs(i->layout) : 0;
		bytes += i->op == IR_LOAD ? load_bytes(i) : 0;
		elements = n > elements ? n : elements;
	}
	for (struct ir_ins *i = b->first, *next; i; i = next) {
		struct ir_ins *front = b->first;
		next = i->next;
		if (i->op != IR_STORE || bytes > MOST_AHEAD || is_dear_early(p, i, elements))
			continue;
		for (struct ir_ins *x = b->first; x != i; x = x->next)
			for (int a = 0; a < i->nargs; a++)
				front = i->args[a] == x ? x->next : front;
		if (is_worth_raising(i, front))
			ir_move(i, front);
	}
}

/* Of what a round computes (by id) whether it is made of positions alone, not of what it loads or the loop carries; of a load, whether where it
 * lies is. */
static const bool *of_positions(const struct pass *p, const struct ir_phase *ph, const struct ir_block *round)
{
	bool *is = arena_alloc(p->k->arena, sizeof *is * (size_t)(p->k->next_id + 1));
	for (const struct ir_ins *i = round->first; i; i = i->next) {
		is[i->id] = i->op == IR_LOAD || is_round(ph, i) || is_subscript_op(i);
		for (int a = 0; is[i->id] && a < i->nargs; a++) {
			const struct ir_ins *x = i->args[a];
			is[i->id] = x->op != IR_ARG && (x->block != round || (x->op != IR_LOAD && is[x->id]));
		}
	}
	return is;
}

/* Rows that a workgroup takes one after the other come by way of group memory, each asked for as many rows before as the variant says, where it has
 * room; lanes that hold much of a row have no registers for the addresses. */
static void stage_rounds(struct pass *p, struct ir_phase *ph)
{
	int lanes = variant_waves(p->v, (int)(ph - p->k->phases)) * p->v->target->wave;
	for (struct ir_ins *loop = p->v->rounds ? ph->body->first : NULL; loop; loop = loop->next) {
		int bytes = 0, most = 0;
		if (loop->op != IR_FOR || ph->axes[loop->imm].tile != 1 || loop->args[0]->op != IR_CONST || loop->args[0]->imm)
			continue;
		const bool *early = of_positions(p, ph, loop->body);
		for (const struct ir_ins *i = loop->body->first; i; i = i->next) {
			int regs = i->op == IR_LOAD && i->layout ? layout_regs(i->layout) : 0;
			bytes += i->op == IR_LOAD ? load_bytes(i) : 0;
			most = regs > most ? regs : most;
		}
		bool room = most <= ROUND_ELEMENTS && bytes * lanes * p->v->rounds <= p->v->target->ring_bytes / variant_each(p->v);
		for (struct ir_ins *i = loop->body->first; i && room; i = i->next)
			i->flags |= i->op == IR_LOAD && early[i->id] && i->layout && p->k->params[i->imm].role == IR_IN && p->k->params[i->imm].rank > 1 ? IR_STAGED : 0;
	}
}

int pass_loads(struct pass *p)
{
	struct loads l = {.p = p, .early = arena_alloc(p->k->arena, sizeof(bool) * (size_t)(p->k->next_id + 1))};
	FOR_PHASES(p, ph)
		if (ir_has(ph->body, IR_DOT))
			return 0;
	FOR_PHASES(p, ph) {
		l.ph = ph;
		raise_loads(&l, ph->body);
		raise_stores(p, ph->body);
		stage_rounds(p, ph);
		struct staging s = staging_of(p, ph);
		sink(&s, ph->body, variant_waves(p->v, (int)(ph - p->k->phases)));
	}
	return 0;
}
