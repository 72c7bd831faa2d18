/* sim_decode_test.c -- the decoder against LLVM's disassembler, and the list of what is executed.
 *
 * In: a million seeded random instruction words a chip, half of them with every format's opcodes in turn.  Every text that LLVM's disassembler
 * gives for a chip must be decoded by the simulator with the same mnemonic and length, and LLVM must give each mnemonic that inst*.def has for
 * the chip.  Every row of inst*.def is then executed once on a wave with harmless registers: what stops as "not
 * modelled" must be exactly the rows of the family `refused`, and the table in docs/simulator.md must be that of the rows
 * (BLESS=1 rewrites it). */
#include "../sim/exec.h"

#include <check.h>
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static const struct { const char *enc, *name, *family; uint16_t opcode; uint8_t chips; } rows[OP_COUNT] = {
#define I(enc_, opcode_, name_, chips_, family_, operands, n) [OP_##name_] = {#enc_, #name_, #family_, opcode_, chips_},
#include "../sim/inst.def"
#undef I
};

/* ---- the decoder ---- */

static uint64_t state = 88172645463325252u;
static uint32_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

/* The fixed bits and the place of the opcode of every format. */
static const struct format { uint32_t fixed; int low, bits, top; } formats[] = {
	{0x80000000, 23, 6, 30}, {0xb0000000, 23, 5, 28}, {0xbe800000, 8, 8, 23}, {0xbf000000, 16, 7, 23}, {0xbf800000, 16, 7, 23},
	{0xc0000000, 18, 8, 26}, {0x00000000, 25, 6, 31}, {0x7e000000, 9, 8, 25}, {0x7c000000, 17, 8, 25}, {0xd0000000, 16, 10, 26},
	{0xd3800000, 16, 7, 23}, {0xd8000000, 17, 8, 26}, {0xdc000000, 18, 7, 26}, {0xe0000000, 18, 7, 26}, {0xe8000000, 15, 4, 26},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Puts a source's code into the first word of the formats that have one there. */
static void with_source(const struct format *f, uint32_t w[4], uint32_t code)
{
	bool vector = f->top == 31 || f->top == 25;
	if (vector || f->top == 30 || f->top == 23)
		w[0] = (w[0] & (vector ? ~0x1ffu : ~0xffu)) | code;
}

static void words(unsigned n, uint32_t w[4])
{
	for (int i = 0; i < 4; i++)
		w[i] = draw();
	if (n & 1)
		return;
	const struct format *f = &formats[n / 2 % FORMATS];
	uint32_t opcode = n / 2 / FORMATS & ((1u << f->bits) - 1), rest = (1u << f->top) - 1;
	w[0] = f->fixed | (w[0] & rest & ~(((1u << f->bits) - 1) << f->low)) | opcode << f->low;
	if (f->fixed == 0xd3800000 && opcode == 0x2c) /* its second half */
		w[2] = 0xd3ad0000 + (w[2] & 0x100ff);
	uint32_t kept = draw();
	switch (f->bits == 10 && kept >> 16 & 1 ? 9 : draw() % 14) { /* even registers, short forms and zero in the fields that have to be */
	case 0: w[0] &= ~0x00ff0000u | f->fixed | ((1u << f->bits) - 1) << f->low; break;
	case 1: w[1] &= 0x1f1f1f1f; break;
	case 2: w[1] &= 0x007c7c7c; break;
	case 3: w[1] &= 0x00fefefe; break;
	case 4: w[0] &= ~1u; w[1] &= 0xfffdfbfe; break;
	case 5: with_source(f, w, kept & 1 ? 0xf9 : 0xfa); w[1] &= kept & 1 ? 0xb6b6ffff : 0xfff9ffff; break; /* SDWA, DPP */
	case 6: with_source(f, w, 0xff); break; /* a literal */
	case 7: w[1] &= 0x01ffffff; break;
	case 8: case 12: case 13: w[1] &= kept & 32 ? 0 : 0xffu << (kept & 24); break;
	case 9: /* registers that begin wide operands */
		w[0] = (w[0] & ~0xffffu) | 32 * (kept & 3);
		w[1] = ((kept >> 12 & 1 ? 256 : 0) + 32 * (kept >> 2 & 3)) | ((kept >> 13 & 1 ? 256 : 0) + 32 * (kept >> 4 & 3)) << 9 | (kept >> 8 & 1 ? 256 + 32 * (kept >> 6 & 3) : 0) << 18 | (kept >> 9 & 7 ? 0 : 3u << 27);
		break;
	default: /* some bytes, and the place of a scalar address */
		for (int i = 0; i < 4; i++)
			w[1] &= kept >> i & 1 ? ~0u : ~(0xffu << 8 * i);
		w[1] = (w[1] & 0xfefefefe) | (kept & 16 ? 0x007f0000 : 0);
		w[0] &= kept & 32 ? ~0u : ~0xffffu | f->fixed | ((1u << f->bits) - 1) << f->low;
	}
}

/* "v_add_f32_e64" and its like without what names the form. */
static void mnemonic(const char *text, char out[64])
{
	static const char *const forms[] = {"_e32", "_e64_dpp", "_e64", "_sdwa", "_dpp"};
	while (*text == ' ' || *text == '\t')
		text++;
	size_t n = strcspn(text, " \t");
	snprintf(out, 64, "%.*s", (int)n, text);
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		size_t m = strlen(forms[i]), len = strlen(out);
		if (len > m && !strcmp(out + len - m, forms[i])) {
			out[len - m] = 0;
			return;
		}
	}
}

/* LLVM 22 builds the comment on an operand code that names nothing from text that is gone by then, and may read anywhere:
 * such words, which are no instructions, are left when that happens. */
static sigjmp_buf gone;
static void on_fault(int signal)
{
	siglongjmp(gone, signal);
}

static void differential(const char *chip, int bit)
{
	LLVMDisasmContextRef d = LLVMCreateDisasmCPU("amdgcn-amd-amdhsa", chip, NULL, 0, NULL, NULL);
	ck_assert_ptr_nonnull(d);
	struct sigaction fault = {.sa_handler = on_fault};
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGBUS, &fault, NULL);
	static bool seen[OP_COUNT];
	volatile unsigned accepted = 0, wrong = 0, faults = 0, sdwa = 0, dpp = 0;
	memset(seen, 0, sizeof seen);
	unsigned total = 1000000;
	for (volatile unsigned n = 0; n < total; n++) {
		uint32_t w[4];
		char text[256], name[64];
		words(n, w);
		if (sigsetjmp(gone, 1)) {
			faults++;
			continue;
		}
		size_t size = LLVMDisasmInstruction(d, (uint8_t *)w, sizeof w, 0, text, sizeof text);
		if (!size || strstr(text, "/*") || strstr(text, "Warning"))
			continue; /* nothing, or registers that the assembler would not take */
		accepted++;
		sdwa += strstr(text, "_sdwa ") != NULL;
		dpp += strstr(text, "_dpp ") != NULL;
		mnemonic(text, name);
		struct sim_inst in;
		bool ok = sim_decode(&in, w, 4, sim_chip_by_name(chip), 256);
		const char *ours = ok ? sim_op_name(in.op) : "not decoded";
		if (in.scaled)
			ours = in.n == 4 ? "v_mfma_scale_f32_16x16x128_f8f6f4" : "v_mfma_scale_f32_32x32x64_f8f6f4";
		if (ok && !strcmp(ours, name) && in.len * 4u == size) {
			seen[in.op] = true;
			continue;
		}
		if (++wrong <= 20)
			fprintf(stderr, "%s: %08x %08x %08x %08x: LLVM %zu bytes%s; here %u bytes %s\n", chip, w[0], w[1], w[2], w[3], size, text, in.len * 4u, ours);
	}
	LLVMDisasmDispose(d);
	printf("%s: %u of %u random words are instructions, %u with SDWA, %u with DPP; LLVM fell over %u\n", chip, accepted, total, sdwa, dpp, faults);
	ck_assert_uint_eq(wrong, 0);
	for (unsigned op = 1; op < OP_COUNT; op++)
		ck_assert_msg(seen[op] || !(rows[op].chips & bit), "LLVM never met %s, which %s has here", rows[op].name, chip);
}

START_TEST(as_llvm)
{
	LLVMInitializeAMDGPUTargetInfo();
	LLVMInitializeAMDGPUTargetMC();
	LLVMInitializeAMDGPUDisassembler();
	differential(_i ? "gfx950" : "gfx942", 1 << _i);
} END_TEST

/* ---- what is executed ---- */

/* A word of the row that decodes: general registers, no modifiers. */
static bool word_of(unsigned op, const struct sim_chip *chip, struct sim_inst *in)
{
	static const char *const names[] = {"SOP2", "SOPK", "SOP1", "SOPC", "SOPP", "SMEM", "VOP2", "VOP1", "VOPC", "VOP3", "VOP3P", "DS", "FLAT", "MUBUF", "MTBUF"};
	const char *enc = rows[op].enc;
	bool flat = !strcmp(enc, "GLOBAL") || !strcmp(enc, "SCRATCH");
	for (int i = 0; i < FORMATS; i++) {
		if (strcmp(names[i], flat ? "FLAT" : enc))
			continue;
		uint32_t w[4] = {formats[i].fixed | (uint32_t)rows[op].opcode << formats[i].low, 0x04020500, 0, 0};
		if (flat)
			w[0] |= enc[0] == 'S' ? 0x4000 : 0x8000;
		if (!strcmp(enc, "FLAT") || flat)
			w[1] = 0x007f0400;
		else if (!strcmp(enc, "DS") || !strcmp(enc, "MUBUF") || !strcmp(enc, "MTBUF"))
			w[1] = 0x04020400;
		else if (!strncmp(enc, "SMEM", 4))
			w[1] = 0;
		else if (!strcmp(enc, "VOP1") || !strcmp(enc, "VOP2") || !strcmp(enc, "VOPC"))
			w[0] |= 0x100;
		if (!strcmp(enc, "VOP3"))
			w[1] = 0x04020500 | 0x00000100;
		if (!strcmp(enc, "VOP3P"))
			w[1] = (256 + 4) | (256 + 8) << 9 | (uint32_t)(256 + 16) << 18;
		if (!strcmp(rows[op].name, "v_mfma_ld_scale_b32"))
			return false;
		if (sim_decode(in, w, 4, chip, 128))
			return true;
	}
	return false;
}

static void coverage(const char *chip_name, int bit, uint8_t executed[OP_COUNT], unsigned *wrong)
{
	const struct sim_chip *chip = sim_chip_by_name(chip_name);
	static uint32_t image[64], vgpr[320][LANES];
	struct sim_kernel kernel = {.name = "row", .accum_offset = 128, .vgprs = 256};
	struct sim_object object = {.chip = chip, .image = (uint8_t *)image, .image_size = sizeof image, .code_size = sizeof image};
	struct sim_memory *memory = sim_memory_new();
	static uint8_t lds[65536], scratch[64 * 1024], data[4096] __attribute__((aligned(64)));
	sim_memory_add(memory, data, sizeof data, "data", true);
	struct sim_launch launch = {.object = &object, .kernel = &kernel, .memory = memory};
	struct sim_code code = {.object = &object, .kernel = &kernel};
	for (unsigned op = 1; op < OP_COUNT; op++) {
		struct sim_inst in;
		char err[512] = "";
		if (!(rows[op].chips & bit))
			continue;
		if (!strcmp(rows[op].name, "v_mfma_ld_scale_b32")) {
			executed[op] |= (uint8_t)bit; /* half of an instruction, decoded with the other */
			continue;
		}
		ck_assert_msg(word_of(op, chip, &in), "%s: no word of %s decodes", chip_name, rows[op].name);
		struct sim_group g = {.launch = &launch, .code = &code, .lds = lds, .lds_size = sizeof lds, .err = err, .errlen = sizeof err};
		struct sim_wave w = {.vgpr = vgpr, .nvgpr = 256, .group = &g, .scratch = scratch, .scratch_size = 1024, .pc = 8, .index = 0};
		sim_set_mode(&w, 0xf0);
		sim_sgpr64_set(&w, REG_EXEC, ~UINT64_C(0));
		memset(vgpr, 0, sizeof vgpr);
		sim_sgpr64_set(&w, 0, (uint64_t)(uintptr_t)data);
		w.sgpr[2] = sizeof data;
		w.sgpr[3] = 0x00024fac; /* a descriptor: 32 bits, uint, all four components */
		in.exec(&w, &in);
		bool refused = g.error == SIM_EINST && strstr(err, "not modelled");
		bool listed = !strcmp(rows[op].family, "refused") || !strcmp(rows[op].family, "smfmac");
		if (refused != listed)
			fprintf(stderr, "%s: %s\n", chip_name, err[0] ? err : rows[op].name);
		if (!refused)
			executed[op] |= (uint8_t)bit;
		if (refused != listed)
			++*wrong;
	}
	sim_memory_free(memory);
}

static const char table_start[] = "<!-- instructions: written by tests/sim_decode_test.c, BLESS=1 -->\n";
static const char table_end[] = "<!-- end of instructions -->\n";

#define I(name, e) #name,
#define S(name, e, scc) #name,
#define W I
#define Q I
#define F I
#define D I
#define H I
#define N I
#define P I
#define G I
#define E I
#define T S
static const char *const by_formula[] = {
#include "sim_random.def"
};

/* Whether sim_random_test.c compares the instruction with the host: a formula, or a comparison into a mask. */
static bool at_random(const char *name)
{
	for (size_t i = 0; i < sizeof by_formula / sizeof *by_formula; i++)
		if (!strcmp(by_formula[i], name))
			return true;
	return !strncmp(name, "v_cmp_", 6) && strncmp(name, "v_cmp_class", 11) != 0;
}

static void write_table(FILE *f, const uint8_t *executed)
{
	unsigned all[2] = {0}, done[2] = {0}, random = 0;
	for (unsigned op = 1; op < OP_COUNT; op++) {
		random += at_random(rows[op].name);
		for (int c = 0; c < 2; c++) {
			all[c] += rows[op].chips >> c & 1;
			done[c] += rows[op].chips >> c & executed[op] >> c & 1;
		}
	}
	fprintf(f, "gfx942 executes %u of its %u opcodes, gfx950 %u of %u; %u rows are compared with the host on random operands.\n\n",
		done[0], all[0], done[1], all[1], random);
	fputs("| encoding | opcode | mnemonic | gfx942 | gfx950 | random |\n|---|---|---|---|---|---|\n", f);
	for (unsigned op = 1; op < OP_COUNT; op++) {
		fprintf(f, "| %s | 0x%02x | `%s` |", rows[op].enc, rows[op].opcode, rows[op].name);
		for (int c = 0; c < 2; c++)
			fprintf(f, " %s |", !(rows[op].chips >> c & 1) ? "" : executed[op] >> c & 1 ? "executed" : "refused");
		fprintf(f, " %s |\n", at_random(rows[op].name) ? "yes" : "");
	}
}

START_TEST(documented)
{
	static uint8_t executed[OP_COUNT];
	unsigned wrong = 0;
	coverage("gfx942", 1, executed, &wrong);
	coverage("gfx950", 2, executed, &wrong);
	ck_assert_msg(!wrong, "%u rows are not what inst*.def says", wrong);
	char *text = NULL, *doc = NULL;
	size_t size, doc_size = 0;
	FILE *f = open_memstream(&text, &size);
	write_table(f, executed);
	fclose(f);
	f = fopen("docs/simulator.md", "r");
	ck_assert_ptr_nonnull(f);
	ck_assert(getdelim(&doc, &doc_size, 0, f) > 0);
	fclose(f);
	char *start = strstr(doc, table_start), *end = strstr(doc, table_end);
	ck_assert(start && end && start < end);
	start += strlen(table_start);
	bool same = (size_t)(end - start) == size && !memcmp(start, text, size);
	if (!same && getenv("BLESS")) {
		f = fopen("docs/simulator.md", "w");
		ck_assert_ptr_nonnull(f);
		fprintf(f, "%.*s%s%s", (int)(start - doc), doc, text, end);
		fclose(f);
	} else {
		ck_assert_msg(same, "docs/simulator.md: the table of instructions is not that of inst*.def; run this test with BLESS=1");
	}
	free(text);
	free(doc);
} END_TEST

int main(void)
{
	Suite *s = suite_create("sim_decode");
	TCase *t = tcase_create("decode");
	tcase_set_timeout(t, 600);
	tcase_add_loop_test(t, as_llvm, 0, 2);
	tcase_add_test(t, documented);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
