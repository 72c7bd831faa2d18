/* object_facts.c -- what a kernel is made of, read from its own bytes, and the gate that refuses what must not ship.
 *
 * In: a linked code object.  Out: struct object_facts per kernel, in the order of the metadata.  LLVM compiles an intrinsic
 * that a chip lacks to an undecodable word, and an unknown one to a call, both without a message: the gate reads every word. */
#include "object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compile.h"
#include "object_code.h"
#include "llvm_shim.h"

/* Scalars that no scalar register holds may lie in lanes of a vector register: a move each time, and no memory.  A frame may be left of places that
 * LLVM no longer uses: whether memory is used is seen by instructions. */
static bool lanes_suffice(const struct object_kernel *k, enum object_gate gate)
{
	return gate == OBJECT_MAY_SPILL && k->spills == k->scalar_spills;
}

/* The first instruction that the gate refuses, and why; -1 where there is none. */
static int refused(const struct object_listing *l, const struct object_kernel *k, enum object_gate gate, const char **why)
{
	bool spills = k->spills && !lanes_suffice(k, gate);
	for (int i = 0; i < l->n; i++) {
		const struct object_ins *ins = &l->ins[i];
		*why = ins->unit == UNIT_ILLEGAL ? "a word that this chip does not decode"
		     : object_is(ins, "s_swappc_b64") ? "a call"
		     : object_is(ins, "scratch_") ? "scratch memory"
		     : spills && (object_is(ins, "v_writelane_b32") || object_is(ins, "v_accvgpr_write_b32")) ? "a register spill" : NULL;
		if (*why)
			return i;
	}
	return -1;
}

static int gate_check(struct arena *a, struct object_listing *l, const struct object_kernel *k, const struct target *t, enum object_gate gate, char *err,
                      size_t errlen)
{
	const char *why;
	int at = refused(l, k, gate, &why);
	if (at >= 0) {
		object_spell(a, t, k, l, at, at);
		snprintf(err, errlen, "%s for %s: %s at 0x%llx: %s (%d spilled registers, %d bytes of scratch)", k->symbol, t->name, why,
		         (unsigned long long)l->ins[at].address, l->ins[at].text, k->spills, k->scratch);
	} else if ((k->scratch || k->spills) && !lanes_suffice(k, gate)) {
		snprintf(err, errlen, "%s for %s: %d spilled registers, %d bytes of scratch", k->symbol, t->name, k->spills, k->scratch);
	} else {
		return 0;
	}
	return k->scratch || k->spills ? OBJECT_SPILLS : -1;
}

static void count_instructions(const struct object_listing *l, struct object_facts *f)
{
	for (int i = 0; i < l->n; i++) {
		if (l->ins[i].padding) {
			f->padding++;
			continue;
		}
		f->instructions++;
		switch ((enum object_unit)l->ins[i].unit) {
		case UNIT_VALU: case UNIT_TRANS: case UNIT_PACKED: f->valu++; break;
		case UNIT_MFMA: f->mfma++; break;
		case UNIT_LDS: f->lds_ops++; break;
		case UNIT_VMEM: f->vmem++; break;
		case UNIT_SMEM: f->smem++; break;
		case UNIT_SALU: f->salu++; break;
		case UNIT_WAIT: f->waits++; break;
		case UNIT_BARRIER: f->barriers++; break;
		case UNIT_NOP: case UNIT_ILLEGAL: break;
		}
	}
}

static void measure_loop(struct arena *a, struct object_listing *l, const struct object_kernel *k, const struct target *t, struct object_loop *loop)
{
	int first, last;
	bool lds = false;
	if (!object_hot_loop(l, &first, &last))
		return;
	object_spell(a, t, k, l, first, last);
	for (int i = first; i <= last; i++) {
		const struct object_ins *ins = &l->ins[i];
		loop->instructions++;
		loop->mfma += ins->unit == UNIT_MFMA;
		loop->acc_moves += object_is(ins, "v_accvgpr_");
		loop->vmcnt0 += ins->unit == UNIT_WAIT && strstr(ins->text, "vmcnt(0)") != NULL;
		lds |= ins->unit == UNIT_LDS;
	}
	loop->bank_conflicts = lds ? OBJECT_UNKNOWN : 0;
	int waves = (k->threads + 255) / 256;
	object_loop_clocks(l, first, last, t->name, waves > 1 ? waves : 1, &loop->clocks, &loop->matrix_share);
}

static int waves_fitting(int registers)
{
	int granules = (registers + 7) / 8 * 8, waves = granules ? 512 / granules : 8;
	return waves < 8 ? waves : 8;
}

int object_facts(struct arena *a, const struct target *t, const void *elf, size_t size, enum object_gate gate,
                 struct object_facts **facts, int *n, char *err, size_t errlen)
{
	struct object_kernel *kernels;
	if (target_is_nvptx(t))
		return object_cubin_facts(a, t, elf, size, gate, facts, n, err, errlen);
	if (object_read(a, elf, size, &kernels, n, err, errlen))
		return -1;
	*facts = arena_alloc(a, (size_t)(*n + 1) * sizeof **facts);
	for (int i = 0; i < *n; i++) {
		const struct object_kernel *k = &kernels[i];
		struct object_facts *f = &(*facts)[i];
		struct object_listing listing = object_decode(a, t, k);
		int refused = gate ? gate_check(a, &listing, k, t, gate, err, errlen) : 0;
		if (refused)
			return refused;
		f->symbol = k->symbol;
		f->vgpr = k->vgpr;
		f->agpr = k->agpr;
		f->sgpr = k->sgpr;
		f->lds = k->lds;
		f->scratch = k->scratch;
		f->spills = k->spills;
		f->kernarg_bytes = k->kernarg_bytes;
		f->waves_per_simd = waves_fitting(k->vgpr);
		count_instructions(&listing, f);
		measure_loop(a, &listing, k, t, &f->loop);
	}
	return 0;
}

/* Line of the text that the code at `address` comes from; 0 = not known. */
static int line_at(const struct shim_line *rows, int n, uint64_t address)
{
	int line = 0;
	for (int i = 0; i < n && rows[i].address <= address; i++)
		line = rows[i].line;
	return line;
}

static bool is_target(const struct object_listing *l, uint64_t address)
{
	for (int i = 0; i < l->n; i++)
		if (l->ins[i].target == address)
			return true;
	return false;
}

char *object_disassembly(struct arena *a, const struct target *t, const void *elf, size_t size, char *err, size_t errlen)
{
	struct object_kernel *kernels;
	struct shim_line *rows;
	int n, nrows, last = 0;
	char *text = NULL;
	size_t len = 0;
	if (target_is_nvptx(t)) {
		if (size > 4 && memcmp(elf, "\177ELF", 4) && !((const char *)elf)[size - 1])
			return arena_string(a, elf, size - 1);
		snprintf(err, errlen, "a cubin is listed by NVIDIA's nvdisasm; without ptxas (TDSL_PTXAS=\"\") PTX is shown");
		return NULL;
	}
	if (object_read(a, elf, size, &kernels, &n, err, errlen))
		return NULL;
	FILE *out = open_memstream(&text, &len);
	if (!out) {
		snprintf(err, errlen, "out of memory");
		return NULL;
	}
	shim_lines(elf, size, &rows, &nrows);
	for (int i = 0; i < n; i++) {
		struct object_listing l = object_decode(a, t, &kernels[i]);
		object_spell(a, t, &kernels[i], &l, 0, l.n - 1);
		fprintf(out, "%s%s:\n", i ? "\n" : "", kernels[i].symbol);
		for (int j = 0; j < l.n; j++) {
			const struct object_ins *ins = &l.ins[j];
			int line = line_at(rows, nrows, ins->address);
			if (ins->padding)
				continue;
			if (is_target(&l, ins->address))
				fprintf(out, "L_%llx:\n", (unsigned long long)ins->address);
			if (line && line != last)
				fprintf(out, "\t; line %d\n", line);
			last = line ? line : last;
			if (ins->target)
				fprintf(out, "%8llx\t%.*s L_%llx\n", (unsigned long long)ins->address, (int)strcspn(ins->text, " "), ins->text,
				        (unsigned long long)ins->target);
			else
				fprintf(out, "%8llx\t%s\n", (unsigned long long)ins->address, ins->text);
		}
	}
	free(rows);
	fclose(out);
	char *copy = arena_string(a, text, len);
	free(text);
	return copy;
}
