/* ptx_code.h -- PTX as ptx_run.c and ptx_cluster.c run it: a kernel's instructions with flattened operands, made of its text by ptx_text.c. */
#ifndef TDSL_TEST_PTX_CODE_H
#define TDSL_TEST_PTX_CODE_H
#include <stdbool.h>
#include <stdint.h>

#include "../base/arena.h"

enum { OPERANDS = 144, DECLARED = 48 << 10 };    /* DECLARED: bytes of shared memory that a kernel may declare with their size */

#define OPCODES(X) \
	X(abs) X(add) X(and) X(atom) X(bar) X(barrier) X(bfe) X(bra) X(cos) X(cp) X(cvt) X(div) X(ex2) X(exit) X(fence) X(fma) X(griddepcontrol) X(ld) X(lg2) X(mad) \
	X(mapa) X(max) X(mbarrier) X(min) X(mma) X(mov) X(mul) X(neg) X(not) X(or) X(popc) X(prefetch) X(prmt) X(rcp) X(red) X(redux) X(rem) X(ret) X(rsqrt) X(selp) \
	X(setp) X(shf) X(shfl) X(shl) X(shr) X(sin) X(sqrt) X(st) X(sub) X(vote) X(wgmma) X(xor)
#define MODIFIERS(X) \
	X(acq_rel) X(acquire) X(add) X(aligned) X(approx) X(arrive) X(async) X(ca) X(cache_hint) X(cg) X(cluster) X(commit_group) X(complete_tx) X(eq) X(equ) X(evict_last) X(expect_tx) X(ftz) X(ge) X(geu) \
	X(global) X(gpu) X(gt) X(gtu) X(hi) X(idx) X(init) X(le) X(leu) X(lo) X(lt) X(ltu) X(mapped) X(max) X(mbarrier_init) X(nan) X(nc) X(ne) X(neu) X(num) X(pack) \
	X(param) X(parity) X(relaxed) X(release) X(relu) X(rmi) X(rn) X(rni) X(rpi) X(rzi) X(sat) X(satfinite) X(shared) X(try_wait) X(v2) X(v4) X(wait) \
	X(wait_all) X(wait_group) X(warp) X(wide) X(wrap)
#define OP(w) OP_##w,
#define MOD(w) MOD_##w,
enum { OPCODES(OP) OP_UNKNOWN };
enum { MODIFIERS(MOD) MOD_UNKNOWN };
#define is(i, w) ((i)->opcode == OP_##w)
#define BIT(w) (1ull << MOD_##w)
#define has(i, w) ((i)->modifiers >> MOD_##w & 1)              /* shared::cluster is shared and mapped */

/* A type: 'u', 's', 'b', 'f' and bits; 'B' bf16, 'P' predicate, 'e' e4m3 and 'E' e5m2, 't' tf32; x2: pairs. */
struct type { char kind; int16_t bits; bool x2; };
enum where { AT_REGISTER, AT_NUMBER, AT_MEMORY, AT_SINK };
struct operand { uint8_t where; bool negated; int reg; uint64_t value; };
/* Products of four warps: PRODUCT: wgmma.mma_async, of QUAD_ROWS rows and QUAD_DEPTH along k; LOT closes a group of them; SHOW: fence.proxy.async. */
enum quad { NO_QUAD, PRODUCT, REGISTER_FENCE, LOT, WAIT_LOTS, SHOW };
enum { QUAD_WARPS = 4, QUAD_ROWS = 64, QUAD_COLUMNS = 256, QUAD_DEPTH = 16, WORDS_OF_A = 4 };
/* Small, as each thread reads it again: what its running asks for first, in 64 bytes.  op: SHORT of them at least. */
enum { SHORT = 4 };
struct ins {
	uint64_t modifiers;
	struct operand *op;
	int guard, target;                             /* target: of a branch */
	int16_t opcode, nop, ndest, ntypes;            /* ndest: of the first operand, a vector or one */
	bool guard_not, joint;                         /* joint: a warp's or workgroup's */
	uint8_t quad, columns;                         /* what it is to products of four warps; columns: of such a product, in units of 8 */
	struct type type[4];
	const char *text;
};
struct named { const char *name; uint64_t value; };
struct code {
	struct arena arena;
	struct ins *ins; int n, cap;
	struct named *labels, *symbols, *classes; int nlabels, nsymbols, nclasses, cap_labels, cap_symbols, cap_classes;
	struct named *registers; int nregisters, cap_registers;
	int shared, arguments, cluster;                /* cluster: workgroups along x, 0 = the text does not say */
	bool meets;                                    /* it asks where all workgroups of the launch meet */
	int nopen, open_align;                         /* so many symbols, the first ones, are shared memory of no size, at a multiple of this */
	bool quads;                                    /* it has products of four warps */
	char *err; size_t errlen; bool failed;
};

/* Registers that the launch fills, the first of a thread's. */
enum { TID, CTAID, NCTAID = CTAID + 3, RANK = NCTAID + 3, ENVREG1, ENVREG2, TIME, SPECIALS };

/* The kernel's part of the text; false with text in c->err.  c: zeros but for err and errlen; in its arena. */
bool ptx_read(struct code *c, const char *text, const char *kernel);
/* Notes the first error; false. */
bool ptx_refuse(struct code *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
