/* check_hazard.c -- wait states that hardware does not insert by itself: a producer, a consumer, and how many must lie between.
 *
 * In: each instruction and when each register was last written, counted in wait states: one an instruction, n + 1 for
 * s_nop n.  Out: true, or a report of both instructions.  Method: a row of `rules` says which producers (as bits of what
 * an instruction is), through which kind of register, constrain which consumers; the matrix instructions' waits depend on
 * their passes and have a function.  Sources: the CDNA3 and CDNA4 ISA guides, chapter 4.5, and the facts of LLVM's hazard
 * recogniser for these chips, release 22, whose numbers for each chip are those below. */
#include "check.h"

enum {
	IS_VALU = 1, IS_SALU = 2, IS_TRANS = 4, IS_PARTIAL = 8, IS_VMEM = 16, IS_DPP = 32, IS_LANE_SELECT = 64, IS_READLANE = 128,
	IS_DIV_FMAS = 256, IS_M0_USER = 512, IS_PLAIN = 1024, IS_MATRIX = 2048, IS_LANE = 4096,
};
enum through { VECTOR, SCALAR, SELECT, CARRY, EXECUTE, OFFSET }; /* SELECT: the lane-select register; OFFSET: M0 */

static const struct rule { uint16_t producer; enum through through; uint16_t consumer; uint8_t wait; const char *name; } rules[] = {
	{IS_VALU, SCALAR, IS_VMEM, 5, "a vector instruction writes a scalar register that a memory instruction reads"},
	{IS_VALU, SELECT, IS_LANE_SELECT, 4, "a vector instruction writes the lane select"},
	{IS_VALU, CARRY, IS_DIV_FMAS, 4, "a vector instruction writes VCC for v_div_fmas"},
	{IS_VALU, VECTOR, IS_DPP, 2, "DPP reads a register that a vector instruction writes"},
	{IS_VALU, EXECUTE, IS_DPP, 5, "a vector instruction writes EXEC before DPP"},
	{IS_VALU, EXECUTE, IS_LANE, 4, "a vector instruction writes EXEC before an access to one lane"},
	{IS_VALU, EXECUTE, IS_MATRIX, 4, "a vector instruction writes EXEC before a matrix instruction"},
	{IS_VALU, SCALAR, IS_VALU, 2, "a vector instruction writes a scalar register that another reads"},
	{IS_VALU, VECTOR, IS_READLANE, 1, "a lane is read from a register that a vector instruction writes"},
	{IS_VALU, VECTOR, IS_MATRIX, 2, "a matrix instruction reads a register that a vector instruction writes"},
	{IS_TRANS, VECTOR, IS_PLAIN, 1, "the result of a transcendental instruction is read"},
	{IS_PARTIAL, VECTOR, IS_VALU, 1, "a register of which only a part was written is read"},
	{IS_SALU, OFFSET, IS_M0_USER, 1, "a scalar instruction writes M0 before an access that uses it"},
};

unsigned hazard_kind(const struct sim_inst *in, const struct check_use *u)
{
	if (u->access == ACCESS_DMA)
		return IS_VMEM | IS_M0_USER;
	if (u->access == ACCESS_VMEM || u->access == ACCESS_FLAT || u->access == ACCESS_SCRATCH)
		return IS_VMEM;
	if (in->op == OP_ds_read_addtid_b32 || in->op == OP_ds_write_addtid_b32)
		return IS_M0_USER;
	if (in->cls == SIM_SALU)
		return IS_SALU;
	if (u->passes)
		return IS_MATRIX;
	if (in->cls != SIM_VALU)
		return 0;
	unsigned kind = IS_VALU | (u->trans ? IS_TRANS : IS_PLAIN) | (in->dpp ? IS_DPP : 0);
	bool half = in->dtype == 'h' || in->dtype == 's';
	if ((in->sdwa && in->dst_sel != 6) || (half && in->enc == ENC_VOP3 && in->opsel & 8))
		kind |= IS_PARTIAL;
	if (in->op == OP_v_readlane_b32 || in->op == OP_v_writelane_b32)
		kind |= IS_LANE_SELECT | IS_LANE;
	if (in->op == OP_v_readlane_b32 || in->op == OP_v_readfirstlane_b32)
		kind |= IS_READLANE | IS_LANE;
	if (in->op == OP_v_div_fmas_f32 || in->op == OP_v_div_fmas_f64)
		kind |= IS_DIV_FMAS;
	return kind;
}

/* Scalar registers that vector instructions write, and M0. */
bool hazard_paces(const struct check_use *u)
{
	bool m0 = false;
	for (int k = 0; k < u->nswrite; k++)
		m0 = m0 || (u->swrite[k].first <= REG_M0 && u->swrite[k].first + (unsigned)u->swrite[k].n > REG_M0);
	return m0 || (u->nswrite && u->kind & IS_VALU);
}

/* ---- matrix instructions ---- */

bool hazard_is_f64(const struct sim_inst *in) { return strstr(sim_op_name(in->op), "_f64") != NULL; }
bool hazard_is_xdl(const struct sim_inst *in)
{
	const char *name = sim_op_name(in->op);
	size_t n = strlen(name);
	return !hazard_is_f64(in) && (strcmp(name + n - 4, "_f32") != 0 || strstr(name, "xf32"));
}

/* Wait states before a register that f64 matrix instruction `from` writes may be used, as matrix_wait. */
static unsigned double_wait(bool gfx950, const struct sim_inst *from, const struct check_use *fu, const struct sim_inst *in, const struct check_use *u, int k)
{
	bool large = fu->passes > 4;
	if (!u->passes)
		return u->access ? (large ? 18 : 9) : large ? 11 : 6;
	if (k == 2 && from->vdst == in->src[2].reg && from->n == in->n)
		return large ? 0 : 4;
	if (k == 2)
		return u->xdl ? 0 : large ? (gfx950 ? 17 : 9) : 4;
	return !large ? 6 : gfx950 && u->f64 && u->passes > 4 ? 19 : 11;
}

/* Wait states before a register that matrix instruction `from` writes may be read (by source k of a matrix instruction, or
 * k < 0 by anything else) or written by a vector or memory instruction. */
static unsigned matrix_wait(bool gfx950, const struct sim_inst *from, const struct check_use *fu, const struct sim_inst *in, const struct check_use *u, int k)
{
	unsigned passes = fu->passes, more = fu->xdl ? 1 + (gfx950 && passes != 2) : 0;
	if (fu->f64)
		return double_wait(gfx950, from, fu, in, u, k);
	bool sparse = in->exec == exec_smfmac;
	if (u->passes && k == (sparse ? 3 : 2)) { /* accumulation into the same registers is forwarded */
		if (from->vdst == (sparse ? in->vdst : in->src[2].reg) && from->n == in->n)
			return passes == 2 && fu->xdl == u->xdl ? 2 : 0;
		return u->xdl && !fu->xdl ? 0 : passes + more;
	}
	return passes + 2 + more;
}

/* Before a vector instruction overwrites what a matrix instruction reads as its third source. */
static unsigned matrix_read_wait(unsigned passes) { return passes - 1; }

/* ---- checking ---- */

/* How long a producer may matter: matrix instructions and what is read late, everything else. */
/* JUMP: a branch that is taken keeps its wave from issuing for 16 clocks; the compiler puts no wait states across one. */
enum { LONG = 20, SHORT = 5, JUMP = 4 };

static bool report(struct check *c, struct sim_wave *w, const struct sim_inst *in, uint32_t from, unsigned have, unsigned need, const char *what)
{
	char place[192];
	check_place(c, from, place, sizeof place);
	sim_fail(w, in, SIM_ECHECK, -1, "%u wait states after %s, needs %u: %s", have, place, need, what);
	return false;
}

static bool far_enough(struct check *c, struct sim_wave *w, const struct sim_inst *in, unsigned kind, enum through through, uint64_t written,
	uint32_t from)
{
	uint64_t now = c->wave[w->index].time;
	unsigned have = (unsigned)(now - written - 1), producer = c->use[from / 4].kind;
	for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
		const struct rule *r = &rules[i];
		if (r->through == through && r->producer & producer && r->consumer & kind && have < r->wait)
			return report(c, w, in, from, have, r->wait, r->name);
	}
	return true;
}

static inline bool fresh(struct check *c, struct sim_wave *w, const struct sim_inst *in, unsigned kind, enum through through, uint64_t written,
	uint32_t from)
{
	return !written || c->wave[w->index].time - written > SHORT || far_enough(c, w, in, kind, through, written, from);
}

static bool is_gfx950(const struct check *c) { return c->group->code->object->chip->gfx950; }

/* A dot product's result: read by another instruction, or by the same one other than to accumulate; written by another. */
static bool dot_result(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct sim_inst *from, unsigned reg, uint64_t age, bool write)
{
	bool same = in->op == from->op, accumulates = same && (reg == in->vdst || (in->src[2].kind == SRC_VGPR && reg == in->src[2].reg));
	bool source = (in->src[0].kind == SRC_VGPR && in->src[0].reg == reg) || (in->src[1].kind == SRC_VGPR && in->src[1].reg == reg);
	if (age > 3 || (write ? same : accumulates && !source))
		return true;
	return report(c, w, in, from->at, (unsigned)age - 1, 3, write ? "the result of a dot product is overwritten" : "the result of a dot product is read");
}

static bool vector_source(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, unsigned kind, unsigned reg, int k)
{
	const struct check_wave *cw = &c->wave[w->index];
	uint64_t age = cw->time - cw->vtime[reg];
	if (!cw->vtime[reg] || age > LONG)
		return true;
	const struct sim_inst *from = &c->group->code->inst[cw->vfrom[reg] / 4];
	const struct check_use *fu = &c->use[cw->vfrom[reg] / 4];
	if (fu->passes) {
		unsigned need = matrix_wait(is_gfx950(c), from, fu, in, u, u->passes ? k : -1);
		return age > need || report(c, w, in, cw->vfrom[reg], (unsigned)age - 1, need, "the result of a matrix instruction is read");
	}
	if (fu->is_dot && !u->passes && !dot_result(c, w, in, from, reg, age, false))
		return false;
	if (!(kind & (IS_DPP | IS_READLANE | IS_MATRIX)) && !(fu->kind & (IS_TRANS | IS_PARTIAL)))
		return true; /* what the rules through VECTOR are about */
	return !kind || ((kind & IS_DPP) && k > 0) || (fu->is_dot && u->passes) ? true : fresh(c, w, in, kind, VECTOR, cw->vtime[reg], cw->vfrom[reg]);
}

static bool vector_result(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u, unsigned reg)
{
	const struct check_wave *cw = &c->wave[w->index];
	uint64_t age = cw->time - cw->vtime[reg], read = cw->time - cw->ctime[reg];
	if (cw->vtime[reg] && age <= LONG && c->use[cw->vfrom[reg] / 4].passes) {
		const struct sim_inst *from = &c->group->code->inst[cw->vfrom[reg] / 4];
		unsigned need = matrix_wait(is_gfx950(c), from, &c->use[cw->vfrom[reg] / 4], in, u, -1);
		if (age <= need)
			return report(c, w, in, cw->vfrom[reg], (unsigned)age - 1, need, "the result of a matrix instruction is overwritten");
	}
	if (cw->vtime[reg] && c->use[cw->vfrom[reg] / 4].is_dot && !dot_result(c, w, in, &c->group->code->inst[cw->vfrom[reg] / 4], reg, age, true))
		return false;
	if (cw->ctime[reg] && read <= LONG && in->cls == SIM_VALU) {
		const struct check_use *ru = &c->use[cw->cfrom[reg] / 4];
		unsigned need = ru->passes ? matrix_read_wait(ru->passes) : 2;
		if (read <= need)
			return report(c, w, in, cw->cfrom[reg], (unsigned)read - 1, need, ru->passes ? "the third source of a matrix instruction is overwritten" :
				"the data of a store of more than 8 bytes is overwritten");
	}
	return true;
}

static __attribute__((noinline)) bool vector_before(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	for (int k = 0; k < u->nread; k++)
		for (unsigned r = u->read[k].first; r < u->read[k].first + (unsigned)u->read[k].n && r < CHECK_VGPRS; r++)
			if (!vector_source(c, w, in, u, u->kind, r, k))
				return false;
	for (int k = 0; !u->passes && k < u->nwrite; k++)
		for (unsigned r = u->write[k].first; r < u->write[k].first + (unsigned)u->write[k].n && r < CHECK_VGPRS; r++)
			if (!vector_result(c, w, in, u, r))
				return false;
	return true;
}

static __attribute__((noinline)) bool scalar_before(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	const struct check_wave *cw = &c->wave[w->index];
	unsigned kind = u->kind;
	for (int k = 0; k < u->nsread; k++)
		for (unsigned r = u->sread[k].first; r < u->sread[k].first + (unsigned)u->sread[k].n && r < CHECK_SGPRS; r++) {
			bool select = kind & IS_LANE_SELECT && in->src[1].kind == SRC_SGPR && in->src[1].reg == r;
			if (!fresh(c, w, in, kind, SCALAR, cw->stime[r], cw->sfrom[r]) ||
			    (select && !fresh(c, w, in, kind, SELECT, cw->stime[r], cw->sfrom[r])) ||
			    (r == REG_M0 && !fresh(c, w, in, kind, OFFSET, cw->stime[r], cw->sfrom[r])) ||
			    ((r == REG_VCC || r == REG_VCC + 1) && !fresh(c, w, in, kind, CARRY, cw->stime[r], cw->sfrom[r])))
				return false;
		}
	return fresh(c, w, in, kind, EXECUTE, cw->stime[REG_EXEC], cw->sfrom[REG_EXEC]);
}

/* Only DPP, reads of a lane and matrix instructions have to wait for every vector instruction. */
bool hazard_before(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	const struct check_wave *cw = &c->wave[w->index];
	if (!u->kind && !u->access)
		return true;
	bool fused = cw->double_time && cw->time - cw->double_time <= 2 && (in->op == OP_v_fma_f64 || in->op == OP_v_fmac_f64);
	if (fused)
		return report(c, w, in, cw->double_from, (unsigned)(cw->time - cw->double_time - 1), 2, "a fused product of f64 follows a matrix instruction of f64");
	if ((cw->time <= cw->vector_until || u->kind & (IS_DPP | IS_READLANE | IS_MATRIX)) && !vector_before(c, w, in, u))
		return false;
	return cw->time > cw->scalar_until || scalar_before(c, w, in, u);
}

void hazard_after(struct check *c, struct sim_wave *w, const struct sim_inst *in, const struct check_use *u)
{
	struct check_wave *cw = &c->wave[w->index];
	for (int k = 0; k < u->nwrite; k++)
		for (unsigned r = u->write[k].first; r < u->write[k].first + (unsigned)u->write[k].n && r < CHECK_VGPRS; r++) {
			cw->vtime[r] = u->access ? 0 : cw->time; /* of memory's results nothing is asked: waits cover them */
			cw->vfrom[r] = in->at;
		}
	for (int k = 0; k < u->nswrite; k++)
		for (unsigned r = u->swrite[k].first; r < u->swrite[k].first + (unsigned)u->swrite[k].n && r < CHECK_SGPRS; r++) {
			cw->stime[r] = cw->time;
			cw->sfrom[r] = in->at;
		}
	if (u->paces)
		cw->scalar_until = cw->time + SHORT;
	/* read late: a matrix instruction's third source, the data of a wide store whose offset is no register */
	bool wide = u->store && u->access != ACCESS_LDS && u->bytes > 8 && in->src[0].kind != SRC_SGPR;
	if ((u->passes && u->xdl && in->src[2].kind == SRC_VGPR) || wide) {
		unsigned first = wide ? in->vdata : in->src[2].reg, n = wide ? u->bytes / 4u : in->n;
		for (unsigned r = first; r < first + n && r < CHECK_VGPRS; r++) {
			cw->ctime[r] = cw->time;
			cw->cfrom[r] = in->at;
		}
	}
	if (u->f64) {
		cw->double_time = cw->time;
		cw->double_from = in->at;
	}
	if (u->passes || wide)
		cw->vector_until = cw->time + LONG;
	else if ((u->is_dot || u->kind & (IS_TRANS | IS_PARTIAL)) && cw->vector_until < cw->time + SHORT)
		cw->vector_until = cw->time + SHORT;
	bool jumped = in->cls == SIM_BRANCH && w->pc != in->at / 4 + in->len;
	cw->time += in->op == OP_s_nop ? ((unsigned)in->offset & 15) + 1 : jumped ? JUMP : 1;
}
