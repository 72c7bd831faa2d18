/* object_code.c -- machine code to instructions, and the loop that matters among them.
 *
 * In: a kernel's bytes.  Out: one struct object_ins per instruction, read by LLVM's disassembler for the very chip, since a
 * word that this chip does not know is a defect that only its own tables show.  Classes follow the mnemonics, which are LLVM's
 * public interface; its instruction flags are not. */
#include "object_code.h"

#include <string.h>
#include "compile.h"
#include "llvm_shim.h"

bool object_is(const struct object_ins *i, const char *prefix)
{
	const char *text = i->text;
	while (*prefix && *prefix == *text) {
		prefix++;
		text++;
	}
	return !*prefix;
}

static const struct { const char *prefix; enum object_unit unit; } units[] = {
	{"v_mfma_", UNIT_MFMA}, {"v_smfmac_", UNIT_MFMA},
	{"v_exp_", UNIT_TRANS}, {"v_log_", UNIT_TRANS}, {"v_rcp_", UNIT_TRANS}, {"v_rsq_", UNIT_TRANS}, {"v_sqrt_", UNIT_TRANS},
	{"v_sin_", UNIT_TRANS}, {"v_cos_", UNIT_TRANS},
	{"v_pk_fma_f32", UNIT_PACKED}, {"v_pk_mul_f32", UNIT_PACKED}, {"v_pk_add_f32", UNIT_PACKED}, {"v_pk_mov_b32", UNIT_PACKED},
	{"v_", UNIT_VALU},
	{"ds_", UNIT_LDS},
	{"global_", UNIT_VMEM}, {"buffer_", UNIT_VMEM}, {"tbuffer_", UNIT_VMEM}, {"flat_", UNIT_VMEM}, {"scratch_", UNIT_VMEM},
	{"s_waitcnt", UNIT_WAIT}, {"s_barrier", UNIT_BARRIER}, {"s_nop", UNIT_NOP}, {"s_code_end", UNIT_NOP},
	{"s_load_", UNIT_SMEM}, {"s_buffer_", UNIT_SMEM}, {"s_scratch_", UNIT_SMEM}, {"s_store_", UNIT_SMEM}, {"s_atomic_", UNIT_SMEM},
	{"s_dcache_", UNIT_SMEM}, {"s_memtime", UNIT_SMEM}, {"s_memrealtime", UNIT_SMEM},
	{"s_", UNIT_SALU},
};

static enum object_unit unit_of(const struct object_ins *ins)
{
	for (unsigned i = 0; i < sizeof units / sizeof *units; i++)
		if (object_is(ins, units[i].prefix))
			return units[i].unit;
	return UNIT_ILLEGAL;
}

/* Ends a straight run of instructions: what follows is reached by a branch only. */
static bool is_last_of_run(const struct object_ins *i)
{
	return object_is(i, "s_endpgm") || object_is(i, "s_branch") || object_is(i, "s_setpc_b64");
}

static int at_address(const struct object_listing *l, uint64_t address)
{
	int low = 0, high = l->n;
	while (low < high) {
		int mid = (low + high) / 2;
		if (l->ins[mid].address < address)
			low = mid + 1;
		else
			high = mid;
	}
	return low < l->n && l->ins[low].address == address ? low : -1;
}

static void mark_padding(struct arena *a, struct object_listing *l)
{
	bool *entered = arena_alloc(a, (size_t)l->n + 1);
	for (int i = 0; i < l->n; i++) {
		int to = l->ins[i].target ? at_address(l, l->ins[i].target) : -1;
		if (to >= 0)
			entered[to] = true;
	}
	bool reached = true;
	for (int i = 0; i < l->n; i++) {
		reached |= entered[i];
		l->ins[i].padding = !reached && l->ins[i].unit == UNIT_NOP;
		if (is_last_of_run(&l->ins[i]))
			reached = false;
	}
}

struct object_listing object_decode(struct arena *a, const struct target *t, const struct object_kernel *k)
{
	struct object_listing l = {arena_alloc(a, (k->size / 4 + 1) * sizeof *l.ins), 0};
	struct shim_reader *reader = shim_reader_of(t->triple, t->cpu);
	for (size_t at = 0; at + 4 <= k->size;) {
		struct object_ins *i = &l.ins[l.n++];
		uint32_t word;
		memcpy(&word, k->code + at, 4);
		i->address = k->address + at;
		i->bytes = (uint8_t)(reader ? shim_read(reader, k->code + at, k->size - at, &i->text) : 0);
		i->unit = i->bytes ? unit_of(i) : UNIT_ILLEGAL;
		if (i->unit == UNIT_ILLEGAL) {
			i->bytes = 4;
			i->text = arena_printf(a, ".long 0x%08x", word);
		}
		if (object_is(i, "s_branch") || object_is(i, "s_cbranch_"))
			i->target = i->address + 4 + (uint64_t)((int64_t)(int16_t)word * 4);
		at += i->bytes;
	}
	mark_padding(a, &l);
	return l;
}

void object_spell(struct arena *a, const struct target *t, const struct object_kernel *k, struct object_listing *l, int first, int last)
{
	struct shim_reader *reader = shim_reader_of(t->triple, t->cpu);
	char text[256];
	for (int i = first; i <= last && reader; i++) {
		size_t at = l->ins[i].address - k->address;
		if (l->ins[i].unit != UNIT_ILLEGAL && shim_spell(reader, k->code + at, k->size - at, l->ins[i].address, text, sizeof text))
			l->ins[i].text = arena_string(a, text, strlen(text));
	}
}

static int count(const struct object_listing *l, int first, int last, enum object_unit u)
{
	int n = 0;
	for (int i = first; i <= last; i++)
		n += l->ins[i].unit == u;
	return n;
}

bool object_hot_loop(const struct object_listing *l, int *first, int *last)
{
	int best_mfma = -1, best_valu = -1, inner_first = -1;
	/* In order of their ends; a loop that contains the first instruction of one seen before it is not innermost. */
	for (int i = 0; i < l->n; i++) {
		if (!l->ins[i].target || l->ins[i].target > l->ins[i].address)
			continue;
		int head = at_address(l, l->ins[i].target);
		if (head < 0 || head <= inner_first)
			continue;
		inner_first = head;
		int mfma = count(l, head, i, UNIT_MFMA);
		int valu = count(l, head, i, UNIT_VALU) + count(l, head, i, UNIT_TRANS) + count(l, head, i, UNIT_PACKED);
		if (mfma > best_mfma || (mfma == best_mfma && valu > best_valu)) {
			best_mfma = mfma;
			best_valu = valu;
			*first = head;
			*last = i;
		}
	}
	return best_mfma >= 0;
}
