/* object_code.h -- a code object taken apart: inside interface between the object_*.c files.
 *
 *   ELF bytes -> object_read (object_elf.c): kernels with their metadata and code bytes
 *             -> object_decode (object_code.c): instructions with unit, branch target, padding mark
 *             -> object_hot_loop (object_code.c), object_loop_clocks (object_cost.c) */
#ifndef TDSL_OBJECT_CODE_H
#define TDSL_OBJECT_CODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../base/arena.h"
#include "object.h"

/* A kernel of the object: what its metadata says, and its code. */
struct object_kernel {
	const char *symbol;
	int vgpr, agpr, sgpr, lds, scratch, spills, scalar_spills, kernarg_bytes, threads;   /* spills: of all registers */
	const uint8_t *code; size_t size; uint64_t address;
};
/* Kernels in order of the metadata.  Checks every offset against `size`.  0, or -1 with text. */
int object_read(struct arena *, const void *elf, size_t size, struct object_kernel **kernels, int *n, char *err, size_t errlen);

enum object_unit {
	UNIT_VALU, UNIT_TRANS, UNIT_PACKED, UNIT_MFMA, UNIT_LDS, UNIT_VMEM, UNIT_SMEM, UNIT_SALU, UNIT_WAIT, UNIT_BARRIER, UNIT_NOP,
	UNIT_ILLEGAL
};
struct object_ins {
	const char *text;                     /* its name, and perhaps more; spelt: "v_add_f32_e32 v0, v1, v2"; of an ILLEGAL one the word in hex */
	uint64_t address;
	uint64_t target;                      /* of a branch; else 0 */
	uint8_t bytes, unit;
	bool padding;                         /* cannot be reached and does nothing */
};
struct object_listing { struct object_ins *ins; int n; };
/* Never fails: words that the chip's disassembler does not know become UNIT_ILLEGAL instructions of 4 bytes. */
struct object_listing object_decode(struct arena *, const struct target *, const struct object_kernel *);
/* Spells instructions first..last out.  Printing operands takes longer than reading all the rest, and few texts are looked at. */
void object_spell(struct arena *, const struct target *, const struct object_kernel *, struct object_listing *, int first, int last);
/* True where the text starts with the mnemonic prefix. */
bool object_is(const struct object_ins *, const char *prefix);

/* First and last instruction of the hot loop: of the innermost backward-branch bodies the one with the most MFMA, with none
 * the one with the most VALU instructions.  False where there is no loop. */
bool object_hot_loop(const struct object_listing *, int *first, int *last);

/* Modelled clocks that a SIMD needs for one pass of the loop by its `waves` waves, and the matrix share (object_cost.c). */
void object_loop_clocks(const struct object_listing *, int first, int last, const char *chip, int waves, double *clocks, double *share);

/* --- sm_90a ------------------------------------------------------------------------------------------------------------------- */
/* object_shifts.c: PTX (malloc'ed, consumed; *n bytes and a NUL) as ptxas assembles it rightly, malloc'ed; NULL where there is no memory for it. */
char *object_shifts(char *ptx, size_t *n);
/* object_ptx.c: PTX (malloc'ed, consumed; n bytes and a NUL) to the object that a pack holds, malloc'ed: a cubin, or the text with its NUL
 * where there is no ptxas.  0, or -1 with what ptxas said. */
int object_assemble(const struct target *, char *ptx, size_t n, void **out, size_t *size, char *err, size_t errlen);
bool object_has_assembler(void);
/* object_cubin.c: object_facts() of either. */
int object_cubin_facts(struct arena *, const struct target *, const void *bytes, size_t size, enum object_gate gate, struct object_facts **, int *n,
                       char *err, size_t errlen);
#endif
