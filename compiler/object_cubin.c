/* object_cubin.c -- what a kernel for NVIDIA's chips is made of, read from its cubin or its PTX, and the gate that refuses what must
 * not ship.
 *
 * In: an object of a pack.  Out: struct object_facts per kernel.  Of a cubin: an ELF of machine 190 whose code lies in .text.NAME, 16
 * bytes an instruction (NVIDIA, "CUDA Binary Utilities"); registers and stack frames stand in .nv.info, parameters in .nv.info.NAME,
 * as records {format, attribute, size, bytes}, where only format 4 has bytes behind its head.  Instructions are told apart by the low 9
 * bits of their first word, as nvdisasm -hex shows them.  Of a workgroup's shared
 * memory the first 1024 bytes are the system's (CUDA programming guide, compute capability 9.x) and not counted.  Local memory (a stack
 * frame, LDL, STL) is where spills go: a few words are cached and cheap, more is refused.  So is a load from global memory in front of
 * the wait for the launch before (ACQBULK): what it reads may not be written yet.  Of PTX
 * only what its text says: registers are not known before it is assembled. */
#include "object.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include "compile.h"
#include "object_code.h"

enum { GLOBAL_LOAD = 0x181, WAIT_FOR_LAUNCH = 0x02e };      /* LDG, ACQBULK: low 9 bits */
enum { ELF_CUDA = 190, INS_BYTES = 16, FORMAT_SIZED = 4, STACK_ALLOWED = 256, SHARED_RESERVED = 1024 };
enum { ATTR_FRAME = 0x11, ATTR_REGISTERS = 0x2f, ATTR_PARAMETER_BYTES = 0x19 };

/* --- cubin ------------------------------------------------------------------------------------------------------------------ */

struct image {
	const uint8_t *bytes; size_t size;
	const Elf64_Shdr *section; int nsections;
	const char *names; size_t names_size;
};

static bool inside(const struct image *m, uint64_t at, uint64_t size)
{
	return at <= m->size && size <= m->size - at;
}

static int image_open(struct image *m, const void *bytes, size_t size, char *err, size_t errlen)
{
	const Elf64_Ehdr *h = bytes;
	*m = (struct image){.bytes = bytes, .size = size};
	bool fits = size >= sizeof *h && memcmp(bytes, ELFMAG, SELFMAG) == 0 && h->e_machine == ELF_CUDA && h->e_shentsize == sizeof *m->section &&
	            h->e_shoff % 8 == 0 && inside(m, h->e_shoff, (uint64_t)h->e_shnum * sizeof *m->section) && h->e_shstrndx < h->e_shnum;
	if (fits) {
		m->section = (const void *)(m->bytes + h->e_shoff);
		m->nsections = h->e_shnum;
		const Elf64_Shdr *names = &m->section[h->e_shstrndx];
		fits = inside(m, names->sh_offset, names->sh_size) && names->sh_size && !m->bytes[names->sh_offset + names->sh_size - 1];
		m->names = (const char *)m->bytes + names->sh_offset;
		m->names_size = names->sh_size;
	}
	for (int i = 0; fits && i < m->nsections; i++)
		fits = m->section[i].sh_name < m->names_size &&
		       (m->section[i].sh_type == SHT_NOBITS || inside(m, m->section[i].sh_offset, m->section[i].sh_size));
	if (!fits)
		snprintf(err, errlen, "not a cubin: the ELF's headers do not fit its %zu bytes", size);
	return fits ? 0 : -1;
}

static const char *section_name(const struct image *m, int i)
{
	return m->names + m->section[i].sh_name;
}

static const Elf64_Shdr *section_of(const struct image *m, const char *prefix, const char *rest)
{
	size_t n = strlen(prefix);
	for (int i = 0; i < m->nsections; i++)
		if (strncmp(section_name(m, i), prefix, n) == 0 && strcmp(section_name(m, i) + n, rest) == 0)
			return &m->section[i];
	return NULL;
}

/* Value of an attribute in an info section; of those that name a symbol, the one for `symbol` (-1: none is named).  -1 = absent. */
static int64_t info_value(const struct image *m, const Elf64_Shdr *s, int attribute, int64_t symbol)
{
	for (uint64_t at = 0; s && at + 4 <= s->sh_size;) {
		const uint8_t *p = m->bytes + s->sh_offset + at;
		uint16_t size;
		uint32_t word[2] = {0};
		memcpy(&size, p + 2, sizeof size);
		bool sized = p[0] == FORMAT_SIZED;
		if (sized && at + 4 + size > s->sh_size)
			return -1;
		if (sized)
			memcpy(word, p + 4, size < sizeof word ? size : sizeof word);
		if (p[1] == attribute && symbol < 0)
			return size;
		if (p[1] == attribute && sized && word[0] == symbol)
			return word[1];
		at += 4 + (sized ? size : 0u);
	}
	return -1;
}

static int64_t symbol_number(const struct image *m, const char *name)
{
	for (int i = 0; i < m->nsections; i++) {
		const Elf64_Shdr *s = &m->section[i];
		if (s->sh_type != SHT_SYMTAB || s->sh_link >= (unsigned)m->nsections || s->sh_offset % 8)
			continue;
		const Elf64_Shdr *names = &m->section[s->sh_link];
		const Elf64_Sym *symbol = (const void *)(m->bytes + s->sh_offset);
		for (uint64_t n = 0; n < s->sh_size / sizeof *symbol; n++)
			if (symbol[n].st_name < names->sh_size && ELF64_ST_TYPE(symbol[n].st_info) == STT_FUNC &&
			    strcmp((const char *)m->bytes + names->sh_offset + symbol[n].st_name, name) == 0)
				return (int64_t)n;
	}
	return -2;
}

/* Low 9 bits of an instruction's first word. */
static const struct { uint16_t code; uint8_t unit; bool local; } opcodes[] = {
	{GLOBAL_LOAD, UNIT_VMEM, false}, {0x186, UNIT_VMEM, false}, {0x1ae, UNIT_VMEM, false},   /* LDG, STG, LDGSTS */
	{0x18e, UNIT_VMEM, false}, {0x1a6, UNIT_VMEM, false},                            /* REDG, REDG of f32 */
	{0x1a8, UNIT_VMEM, false}, {0x1a3, UNIT_VMEM, false},                            /* ATOMG */
	{0x183, UNIT_VMEM, true}, {0x187, UNIT_VMEM, true},                              /* LDL, STL */
	{0x184, UNIT_LDS, false}, {0x188, UNIT_LDS, false}, {0x189, UNIT_LDS, false},     /* LDS, STS, SHFL */
	{0x03c, UNIT_MFMA, false}, {0x037, UNIT_MFMA, false}, {0x1f0, UNIT_MFMA, false},  /* HMMA, IMMA, HGMMA */
	{0x182, UNIT_SMEM, false}, {0x0b9, UNIT_SMEM, false},                            /* LDC, ULDC */
	{0x11d, UNIT_BARRIER, false},                                                   /* BAR */
	{0x118, UNIT_NOP, false},                                                       /* NOP */
	{0x147, UNIT_SALU, false}, {0x14d, UNIT_SALU, false},                            /* BRA, EXIT */
};

static void count_code(const struct image *m, const Elf64_Shdr *code, struct object_facts *f, uint64_t *first_local)
{
	int loads = 0;
	for (uint64_t at = 0; at + INS_BYTES <= code->sh_size; at += INS_BYTES) {
		uint16_t word;
		unsigned unit = UNIT_VALU;
		memcpy(&word, m->bytes + code->sh_offset + at, sizeof word);
		for (unsigned i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
			if (opcodes[i].code == (word & 0x1ff)) {
				unit = opcodes[i].unit;
				if (opcodes[i].local && !f->spills++)
					*first_local = at;
			}
		loads += (word & 0x1ff) == GLOBAL_LOAD;
		if ((word & 0x1ff) == WAIT_FOR_LAUNCH)
			f->early_loads = loads;
		f->instructions += unit != UNIT_NOP;
		switch (unit) {
		case UNIT_VMEM: f->vmem++; break;
		case UNIT_LDS: f->lds_ops++; break;
		case UNIT_MFMA: f->mfma++; break;
		case UNIT_SMEM: f->smem++; break;
		case UNIT_BARRIER: f->barriers++; break;
		case UNIT_SALU: f->salu++; break;
		case UNIT_NOP: f->padding++; break;
		default: f->valu++;
		}
	}
}

/* Warps that a quarter of a multiprocessor (16384 registers, 16 warps) holds. */
static int warps_fitting(int registers)
{
	int a_warp = (registers + 7) / 8 * 8 * 32, n = a_warp ? 16384 / a_warp : 16;
	return n < 16 ? n : 16;
}

static int cubin_facts(struct arena *a, const struct target *t, const void *bytes, size_t size, enum object_gate gate, struct object_facts **facts,
                       int *n, char *err, size_t errlen)
{
	struct image m;
	if (image_open(&m, bytes, size, err, errlen))
		return -1;
	*facts = arena_alloc(a, (size_t)m.nsections * sizeof **facts);
	*n = 0;
	for (int i = 0; i < m.nsections; i++) {
		const char *name = section_name(&m, i);
		uint64_t where = 0;
		if (strncmp(name, ".text.", 6))
			continue;
		struct object_facts *f = &(*facts)[(*n)++];
		f->symbol = name = arena_string(a, name + 6, strlen(name + 6));
		const Elf64_Shdr *shared = section_of(&m, ".nv.shared.", name), *info = section_of(&m, ".nv.info", "");
		int64_t symbol = symbol_number(&m, name), registers = info_value(&m, info, ATTR_REGISTERS, symbol);
		int64_t frame = info_value(&m, info, ATTR_FRAME, symbol), arguments = info_value(&m, section_of(&m, ".nv.info.", name), ATTR_PARAMETER_BYTES, -1);
		if (registers < 0 || frame < 0) {
			snprintf(err, errlen, "%s for %s: the cubin does not say its registers and stack frame", name, t->name);
			return -1;
		}
		f->vgpr = (int)registers;
		f->scratch = (int)frame;
		f->lds = shared && shared->sh_size > SHARED_RESERVED ? (int)shared->sh_size - SHARED_RESERVED : 0;
		f->kernarg_bytes = arguments < 0 ? 0 : (int)arguments;
		f->waves_per_simd = warps_fitting(f->vgpr);
		count_code(&m, &m.section[i], f, &where);
		if (gate == OBJECT_GATED && f->scratch > STACK_ALLOWED) {
			snprintf(err, errlen, "%s for %s: %d registers and %d bytes of stack, more than %d (first used at 0x%llx)", name, t->name,
			         f->vgpr, f->scratch, STACK_ALLOWED, (unsigned long long)where);
			return OBJECT_SPILLS;
		}
		if (gate && f->early_loads) {
			snprintf(err, errlen, "%s for %s: loads in front of the wait for the launch before: %d", name, t->name, f->early_loads);
			return -1;
		}
	}
	return 0;
}

/* --- PTX -------------------------------------------------------------------------------------------------------------------- */

/* ".param .u64 .ptr .global .align 1 k_param_0,": lies at a multiple of its size; where it ends. */
static int after_parameter(const char *line, int at)
{
	int bytes = strncmp(line + strcspn(line, " ") + 3, "64", 2) == 0 ? 8 : 4;
	return (at + bytes - 1) / bytes * bytes + bytes;
}

/* Products of four warps, of which a line has those of all steps. */
static int products_in(const char *line)
{
	static const char product[] = "wgmma.mma_async.";
	const char *end = line + strcspn(line, "\n");
	int n = 0;
	for (const char *p = line; (p = memmem(p, (size_t)(end - p), product, sizeof product - 1)); p++)
		n++;
	return n;
}

static void ptx_line(const char *line, struct object_facts *f)
{
	static const struct { const char *prefix; unsigned unit; } units[] = {
		{"ld.global", UNIT_VMEM}, {"st.global", UNIT_VMEM}, {"red.", UNIT_VMEM}, {"atom.", UNIT_VMEM},
		{"ld.shared", UNIT_LDS}, {"st.shared", UNIT_LDS}, {"shfl.", UNIT_LDS}, {"mma.", UNIT_MFMA}, {"ld.param", UNIT_SMEM},
		{"bar", UNIT_BARRIER}, {"bra", UNIT_SALU}, {"ret", UNIT_SALU},
	};
	unsigned unit = UNIT_VALU;
	if (*line == '@') {
		line += strcspn(line, " \t");
		line += strspn(line, " \t");
	}
	for (unsigned i = 0; i < sizeof units / sizeof *units; i++)
		if (strncmp(line, units[i].prefix, strlen(units[i].prefix)) == 0)
			unit = units[i].unit;
	f->instructions++;
	f->vmem += unit == UNIT_VMEM;
	f->lds_ops += unit == UNIT_LDS;
	f->mfma += (unit == UNIT_MFMA) + products_in(line);
	f->smem += unit == UNIT_SMEM;
	f->barriers += unit == UNIT_BARRIER;
	f->salu += unit == UNIT_SALU;
	f->valu += unit == UNIT_VALU;
}

static int ptx_facts(struct arena *a, const char *text, size_t size, struct object_facts **facts, int *n, char *err, size_t errlen)
{
	static const char entry[] = ".visible .entry ", shared[] = ".shared ";
	struct object_facts *f = NULL;
	int count = 0;
	if (!size || text[size - 1]) {
		snprintf(err, errlen, "neither a cubin nor PTX: %zu bytes without an end", size);
		return -1;
	}
	for (const char *p = text; (p = strstr(p, entry)); p++)
		count++;
	*facts = arena_alloc(a, (size_t)(count + 1) * sizeof **facts);
	*n = 0;
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *word = line + strspn(line, " \t"), *bracket;
		size_t len = strcspn(word, "\n");
		if (strncmp(word, entry, sizeof entry - 1) == 0) {
			word += sizeof entry - 1;
			f = &(*facts)[(*n)++];
			*f = (struct object_facts){.symbol = arena_string(a, word, strcspn(word, "(\n"))};
		} else if (f && strncmp(word, ".param ", 7) == 0) {
			f->kernarg_bytes = after_parameter(word, f->kernarg_bytes);
		} else if (f && strncmp(word, shared, sizeof shared - 1) == 0) {
			int bytes = 0;
			bracket = memchr(word, '[', len);
			if (bracket && sscanf(bracket, "[%d]", &bytes) == 1)
				f->lds += bytes;
		} else if (f && len && word[len - 1] == ';' && *word != '.' && *word != '/') {
			ptx_line(word, f);
		}
	}
	if (!count)
		snprintf(err, errlen, "the PTX has no kernel");
	return count ? 0 : -1;
}

int object_cubin_facts(struct arena *a, const struct target *t, const void *bytes, size_t size, enum object_gate gate, struct object_facts **facts, int *n,
                       char *err, size_t errlen)
{
	if (size >= SELFMAG && memcmp(bytes, ELFMAG, SELFMAG) == 0)
		return cubin_facts(a, t, bytes, size, gate, facts, n, err, errlen);
	return ptx_facts(a, bytes, size, facts, n, err, errlen);
}
