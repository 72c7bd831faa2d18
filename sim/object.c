/* object.c -- loads AMDGPU code objects.
 *
 * In: the bytes of a linked ELF64 file (code object V4, V5 or V6).  Out: a sim_object: the segments laid out and
 * relocated in one block whose host address is the device address, the kernels with their descriptors (".kd", 64 bytes)
 * and their arguments from the NT_AMDGPU_METADATA note, the global variables, and the line table kept for later.
 * The bytes are trusted in nothing: every offset is checked before use, and whatever does not fit is SIM_EOBJECT with a
 * text.  Formats: the ELF specification; LLVM's AMDGPUUsage for e_flags, relocations, the note and the descriptor. */
#include "line.h"
#include "msgpack.h"
#include "sim.h"

#include <elf.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { IMAGE_MAX = 1 << 30, PAGE = 4096, KD_SIZE = 64, SCRATCH_MAX = 128 * 1024, PRELOAD_MAX = 16, WORKGROUP_MAX = 1024 };
enum { ABI_V4 = 2, ABI_V6 = 4, MACH_GFX9_4_GENERIC = 0x5f, NOTE_METADATA = 32 };
enum { XNACK_MASK = 0x300, XNACK_ON = 0x300, SRAMECC_MASK = 0xc00, SRAMECC_OFF = 0x800 };
enum { R_AMDGPU_NONE = 0, R_AMDGPU_ABS64 = 3, R_AMDGPU_RELATIVE64 = 13 };

/* The object with what it owns besides. */
struct owned_object {
	struct sim_object o; /* first: the public pointer is cast back */
	char *note_strings;   /* kernel and argument names */
	char *symbol_strings; /* a copy of the string table */
};
struct loader {
	const uint8_t *bytes;
	size_t size;
	Elf64_Ehdr eh;
	struct owned_object *own;
	struct sim_object *o;
	Elf64_Sym *symbols;
	size_t nsymbols;
	const char *strings;
	size_t strings_size;
	char *pool, *pool_end; /* what is left of note_strings */
	char *err;
	size_t errlen;
};

__attribute__((format(printf, 3, 4)))
static int fail(const struct loader *l, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (l->errlen > 0)
		vsnprintf(l->err, l->errlen, fmt, ap);
	va_end(ap);
	return code;
}
#define BAD(l, ...) fail(l, SIM_EOBJECT, "code object: " __VA_ARGS__)
#define NO_MEMORY(l) fail(l, SIM_ENOMEM, "no memory for the code object")
#define TRY(call) do { int rc_ = (call); if (rc_) return rc_; } while (0)

static bool file_holds(const struct loader *l, uint64_t offset, uint64_t size)
{
	return offset <= l->size && size <= l->size - offset;
}

static const struct sim_segment *segment_at(const struct sim_object *o, uint64_t address, uint64_t size)
{
	for (int i = 0; i < o->nsegments; i++) {
		const struct sim_segment *s = &o->segments[i];
		if (address >= s->offset && address - s->offset <= s->size && size <= s->size - (address - s->offset))
			return s;
	}
	return NULL;
}

static const char *mach_name(unsigned mach, char *buf, size_t len)
{
	static const struct { unsigned mach; const char *name; } known[] = {
		{0x2c, "gfx900"}, {0x2f, "gfx906"}, {0x30, "gfx908"}, {0x3f, "gfx90a"}, {0x40, "gfx940"}, {0x4b, "gfx941"},
		{0x4c, "gfx942"}, {0x4f, "gfx950"}, {0x36, "gfx1030"}, {0x41, "gfx1100"}, {0x48, "gfx1200"}, {0x4e, "gfx1201"},
	};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (known[i].mach == mach)
			return known[i].name;
	snprintf(buf, len, "machine 0x%x", mach);
	return buf;
}

static int header_read(struct loader *l, const struct sim_chip *chip)
{
	char name[32];
	if (l->size < sizeof l->eh)
		return BAD(l, "%zu bytes are too few for an ELF file", l->size);
	memcpy(&l->eh, l->bytes, sizeof l->eh);
	const Elf64_Ehdr *e = &l->eh;
	if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0)
		return BAD(l, "not an ELF file");
	if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_ident[EI_DATA] != ELFDATA2LSB || e->e_ident[EI_VERSION] != EV_CURRENT ||
	    e->e_version != EV_CURRENT)
		return BAD(l, "not a little-endian ELF64 file");
	if (e->e_machine != EM_AMDGPU)
		return BAD(l, "ELF machine %u is not AMDGPU (%d)", e->e_machine, EM_AMDGPU);
	if (e->e_ident[EI_OSABI] != 64)
		return BAD(l, "OS ABI %u is not HSA (64)", e->e_ident[EI_OSABI]);
	if (e->e_ident[EI_ABIVERSION] < ABI_V4 || e->e_ident[EI_ABIVERSION] > ABI_V6)
		return BAD(l, "ABI version %u is not that of code object V4, V5 or V6", e->e_ident[EI_ABIVERSION]);
	if (e->e_type != ET_DYN)
		return BAD(l, "%s", e->e_type == ET_REL ? "not linked (a relocatable file)" : "not a shared object");
	unsigned mach = e->e_flags & 0xff;
	if (mach != (unsigned)chip->elf_mach && mach != MACH_GFX9_4_GENERIC)
		return fail(l, SIM_EARCH, "code object is for %s, device is %s", mach_name(mach, name, sizeof name), chip->name);
	if ((e->e_flags & XNACK_MASK) == XNACK_ON)
		return fail(l, SIM_EARCH, "code object is for %s:xnack+, device is %s:xnack-", chip->name, chip->name);
	if ((e->e_flags & SRAMECC_MASK) == SRAMECC_OFF)
		return fail(l, SIM_EARCH, "code object is for %s:sramecc-, device is %s:sramecc+", chip->name, chip->name);
	return 0;
}

static int segments_load(struct loader *l)
{
	struct sim_object *o = l->o;
	if (l->eh.e_phentsize != sizeof(Elf64_Phdr) || !file_holds(l, l->eh.e_phoff, (uint64_t)l->eh.e_phnum * sizeof(Elf64_Phdr)))
		return BAD(l, "truncated: program headers at %" PRIu64 " lie outside the file (%zu bytes)", l->eh.e_phoff, l->size);
	o->segments = calloc(l->eh.e_phnum + 1u, sizeof *o->segments);
	if (!o->segments)
		return NO_MEMORY(l);
	uint64_t end = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < l->eh.e_phnum; i++) {
			Elf64_Phdr p;
			memcpy(&p, l->bytes + l->eh.e_phoff + (size_t)i * sizeof p, sizeof p);
			if (p.p_type != PT_LOAD)
				continue;
			if (pass == 1) { /* the block exists: everything was checked in the first pass */
				memcpy(o->image + p.p_vaddr, l->bytes + p.p_offset, p.p_filesz);
				continue;
			}
			if (!file_holds(l, p.p_offset, p.p_filesz))
				return BAD(l, "truncated: segment %d at %" PRIu64 " with %" PRIu64 " bytes lies outside the file (%zu bytes)", i,
				           p.p_offset, p.p_filesz, l->size);
			if (p.p_filesz > p.p_memsz || p.p_vaddr < end || p.p_vaddr > IMAGE_MAX || p.p_memsz > IMAGE_MAX - p.p_vaddr)
				return BAD(l, "segment %d has addresses that make no sense", i);
			end = p.p_vaddr + p.p_memsz;
			o->code_size = p.p_flags & PF_X ? p.p_vaddr + p.p_filesz : o->code_size;
			o->segments[o->nsegments++] = (struct sim_segment){p.p_vaddr, p.p_memsz, p.p_flags & PF_W, p.p_flags & PF_X};
		}
		if (pass == 0) {
			if (end == 0)
				return BAD(l, "no loadable segment");
			o->image_size = (end + PAGE - 1) / PAGE * PAGE;
			/* Pages on demand: a damaged size costs nothing before it is found out. */
			void *image = mmap(NULL, o->image_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (image == MAP_FAILED)
				return NO_MEMORY(l);
			o->image = image;
		}
	}
	return 0;
}

/* The header of section `index`; its bytes are inside the file unless it has none. */
static int section_read(const struct loader *l, unsigned index, Elf64_Shdr *s)
{
	memcpy(s, l->bytes + l->eh.e_shoff + (size_t)index * sizeof *s, sizeof *s);
	if (s->sh_type != SHT_NOBITS && !file_holds(l, s->sh_offset, s->sh_size))
		return BAD(l, "truncated: section %u at %" PRIu64 " with %" PRIu64 " bytes lies outside the file (%zu bytes)", index,
		           s->sh_offset, s->sh_size, l->size);
	return 0;
}

static int sections_check(const struct loader *l)
{
	if (l->eh.e_shnum == 0)
		return BAD(l, "no section headers");
	if (l->eh.e_shentsize != sizeof(Elf64_Shdr) || !file_holds(l, l->eh.e_shoff, (uint64_t)l->eh.e_shnum * sizeof(Elf64_Shdr)))
		return BAD(l, "truncated: section headers at %" PRIu64 " lie outside the file (%zu bytes)", l->eh.e_shoff, l->size);
	return 0;
}

/* The dynamic symbol table: what a loader may see.  A file without one (not stripped, not shared) has the full one. */
static int symbols_read(struct loader *l)
{
	Elf64_Shdr table = {0}, s, strings;
	for (unsigned i = 0; i < l->eh.e_shnum; i++) {
		TRY(section_read(l, i, &s));
		if (s.sh_type == SHT_DYNSYM || (s.sh_type == SHT_SYMTAB && table.sh_type == 0))
			table = s;
	}
	if (table.sh_type == 0)
		return BAD(l, "no symbol table");
	if (table.sh_entsize != sizeof(Elf64_Sym) || table.sh_link >= l->eh.e_shnum)
		return BAD(l, "malformed symbol table");
	TRY(section_read(l, table.sh_link, &strings));
	if (strings.sh_type != SHT_STRTAB || strings.sh_size == 0 || l->bytes[strings.sh_offset + strings.sh_size - 1] != 0)
		return BAD(l, "malformed string table of the symbols");
	l->nsymbols = table.sh_size / sizeof(Elf64_Sym);
	l->symbols = malloc(table.sh_size + 1);
	l->strings_size = strings.sh_size;
	l->strings = l->own->symbol_strings = malloc(strings.sh_size);
	if (!l->symbols || !l->strings)
		return NO_MEMORY(l);
	memcpy(l->symbols, l->bytes + table.sh_offset, l->nsymbols * sizeof(Elf64_Sym));
	memcpy(l->own->symbol_strings, l->bytes + strings.sh_offset, strings.sh_size);
	for (size_t i = 0; i < l->nsymbols; i++)
		if (l->symbols[i].st_name >= l->strings_size)
			return BAD(l, "the name of symbol %zu lies outside the string table", i);
	return 0;
}

static const char *symbol_name(const struct loader *l, const Elf64_Sym *s)
{
	return l->strings + s->st_name;
}

static const Elf64_Sym *symbol_find(const struct loader *l, const char *name)
{
	for (size_t i = 0; i < l->nsymbols; i++)
		if (l->symbols[i].st_shndx != SHN_UNDEF && strcmp(symbol_name(l, &l->symbols[i]), name) == 0)
			return &l->symbols[i];
	return NULL;
}

/* Global variables: data objects that are no kernel descriptors. */
static int globals_collect(struct loader *l)
{
	struct sim_object *o = l->o;
	o->symbols = calloc(l->nsymbols + 1, sizeof *o->symbols);
	if (!o->symbols)
		return NO_MEMORY(l);
	for (size_t i = 0; i < l->nsymbols; i++) {
		const Elf64_Sym *s = &l->symbols[i];
		const char *name = symbol_name(l, s);
		size_t n = strlen(name);
		if (s->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(s->st_info) != STT_OBJECT || ELF64_ST_BIND(s->st_info) == STB_LOCAL ||
		    (n > 3 && strcmp(name + n - 3, ".kd") == 0))
			continue;
		if (!segment_at(o, s->st_value, s->st_size))
			return BAD(l, "symbol '%s' lies outside the segments", name);
		o->symbols[o->nsymbols++] = (struct sim_symbol){name, s->st_value, s->st_size};
	}
	return 0;
}

static int relocation_apply(struct loader *l, const Elf64_Rela *r)
{
	uint64_t value = (uintptr_t)l->o->image + (uint64_t)r->r_addend, index = ELF64_R_SYM(r->r_info);
	unsigned type = (unsigned)ELF64_R_TYPE(r->r_info);
	if (type == R_AMDGPU_NONE)
		return 0;
	if (type != R_AMDGPU_ABS64 && type != R_AMDGPU_RELATIVE64)
		return BAD(l, "relocation type %u is not supported", type);
	if (!segment_at(l->o, r->r_offset, 8))
		return BAD(l, "a relocation at 0x%" PRIx64 " lies outside the segments", r->r_offset);
	if (type == R_AMDGPU_ABS64) {
		if (index >= l->nsymbols)
			return BAD(l, "a relocation names symbol %" PRIu64 " of %zu", index, l->nsymbols);
		if (l->symbols[index].st_shndx == SHN_UNDEF)
			return BAD(l, "undefined symbol '%s'", symbol_name(l, &l->symbols[index]));
		value += l->symbols[index].st_value;
	}
	memcpy(l->o->image + r->r_offset, &value, 8);
	return 0;
}

static int relocations_apply(struct loader *l)
{
	Elf64_Shdr s;
	Elf64_Rela r;
	for (unsigned i = 0; i < l->eh.e_shnum; i++) {
		TRY(section_read(l, i, &s));
		if (!(s.sh_flags & SHF_ALLOC) || (s.sh_type != SHT_RELA && s.sh_type != SHT_REL))
			continue;
		if (s.sh_type == SHT_REL || s.sh_entsize != sizeof r)
			return BAD(l, "section %u holds relocations of an unknown form", i);
		for (uint64_t k = 0; k < s.sh_size / sizeof r; k++) {
			memcpy(&r, l->bytes + s.sh_offset + k * sizeof r, sizeof r);
			TRY(relocation_apply(l, &r));
		}
	}
	return 0;
}

/* A copy of a string of the note that lives as long as the object. */
static const char *note_string(struct loader *l, struct msgpack *m)
{
	const char *s;
	uint32_t n = msgpack_string(m, &s);
	if (m->bad || n >= (size_t)(l->pool_end - l->pool) || memchr(s, 0, n)) {
		m->bad = true;
		return "";
	}
	char *copy = l->pool;
	memcpy(copy, s, n);
	copy[n] = 0;
	l->pool += n + 1;
	return copy;
}

static bool key_take(struct msgpack *m, const char *key)
{
	bool is = msgpack_is_string(m, key);
	if (is)
		msgpack_skip(m);
	return is;
}

static uint32_t note_u32(struct msgpack *m)
{
	uint64_t v = msgpack_uint(m);
	if (v > UINT32_MAX)
		m->bad = true;
	return (uint32_t)v;
}

static void arg_parse(struct loader *l, struct msgpack *m, struct sim_arg *a)
{
	*a = (struct sim_arg){0, 0, "", ""};
	for (uint32_t n = msgpack_map(m); n > 0 && !m->bad; n--) {
		if (key_take(m, ".offset"))
			a->offset = note_u32(m);
		else if (key_take(m, ".size"))
			a->size = note_u32(m);
		else if (key_take(m, ".value_kind"))
			a->kind = note_string(l, m);
		else if (key_take(m, ".name"))
			a->name = note_string(l, m);
		else {
			msgpack_skip(m);
			msgpack_skip(m);
		}
	}
}

/* What the note says of one kernel; *symbol is the name of its descriptor. */
static int kernel_parse(struct loader *l, struct msgpack *m, struct sim_kernel *k, const char **symbol, uint32_t *wave)
{
	k->max_workgroup = WORKGROUP_MAX;
	for (uint32_t n = msgpack_map(m); n > 0 && !m->bad; n--) {
		if (key_take(m, ".name"))
			k->name = note_string(l, m);
		else if (key_take(m, ".symbol"))
			*symbol = note_string(l, m);
		else if (key_take(m, ".max_flat_workgroup_size"))
			k->max_workgroup = note_u32(m);
		else if (key_take(m, ".wavefront_size"))
			*wave = note_u32(m);
		else if (key_take(m, ".kernarg_segment_size"))
			k->kernarg_size = note_u32(m);
		else if (!k->args && key_take(m, ".args")) {
			uint32_t count = msgpack_array(m);
			struct sim_arg *args = calloc(count + 1u, sizeof *args);
			if (!args)
				return NO_MEMORY(l);
			k->args = args;
			for (uint32_t i = 0; i < count && !m->bad; i++)
				arg_parse(l, m, &args[k->nargs++]);
		} else {
			msgpack_skip(m);
			msgpack_skip(m);
		}
	}
	if (m->bad)
		return BAD(l, "malformed metadata note");
	if (!k->name || !*symbol || !k->name[0])
		return BAD(l, "the metadata note has a kernel without a name or a symbol");
	return 0;
}

static uint32_t word_at(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Registers from the descriptor: the unified file in granules of 8, AGPRs from accum_offset on; SGPRs in granules of 16. */
static void registers_decode(struct sim_kernel *k, const struct sim_chip *chip)
{
	uint32_t total = ((k->rsrc1 & 0x3f) + 1) * 8;
	k->accum_offset = ((k->rsrc3 & 0x3f) + 1) * 4;
	k->vgprs = total < k->accum_offset ? total : k->accum_offset;
	k->agprs = total - k->vgprs;
	k->sgprs = ((k->rsrc1 >> 6 & 0xf) / 2 + 1) * 16;
	if (k->sgprs > (uint32_t)chip->sgprs)
		k->sgprs = (uint32_t)chip->sgprs;
}

static int descriptor_read(struct loader *l, struct sim_kernel *k, const char *symbol)
{
	const struct sim_chip *chip = l->o->chip;
	const Elf64_Sym *s = symbol_find(l, symbol);
	if (!s)
		return BAD(l, "kernel '%s': no symbol '%s'", k->name, symbol);
	if (!segment_at(l->o, s->st_value, KD_SIZE))
		return BAD(l, "kernel '%s': its descriptor lies outside the segments", k->name);
	const uint8_t *kd = l->o->image + s->st_value;
	uint32_t noted_kernarg = k->kernarg_size;
	k->lds_bytes = word_at(kd);
	k->scratch_bytes = word_at(kd + 4);
	k->kernarg_size = word_at(kd + 8);
	k->entry = s->st_value + (word_at(kd + 16) | (uint64_t)word_at(kd + 20) << 32);
	k->rsrc3 = word_at(kd + 44);
	k->rsrc1 = word_at(kd + 48);
	k->rsrc2 = word_at(kd + 52);
	k->properties = word_at(kd + 56) & 0xffff;
	k->preload_length = word_at(kd + 56) >> 16 & 0x7f;
	k->preload_offset = word_at(kd + 56) >> 23;
	registers_decode(k, chip);

	const struct sim_segment *code = segment_at(l->o, k->entry, 4);
	if (!code || !code->executable || k->entry % 4)
		return BAD(l, "kernel '%s': its entry 0x%" PRIx64 " is not in executable code", k->name, k->entry);
	if (k->kernarg_size != noted_kernarg)
		return BAD(l, "kernel '%s': %u bytes of arguments in the descriptor, %u in the note", k->name, k->kernarg_size, noted_kernarg);
	if (k->lds_bytes > (uint32_t)chip->lds_bytes)
		return BAD(l, "kernel '%s': %u bytes of LDS, %s has %d", k->name, k->lds_bytes, chip->name, chip->lds_bytes);
	if (k->scratch_bytes > SCRATCH_MAX)
		return BAD(l, "kernel '%s': %u bytes of scratch a lane, at most %d", k->name, k->scratch_bytes, SCRATCH_MAX);
	if (k->properties & 0x400)
		return BAD(l, "kernel '%s' wants waves of 32 lanes, %s has 64", k->name, chip->name);
	if (k->preload_length > PRELOAD_MAX || (k->preload_length + k->preload_offset) * 4 > k->kernarg_size)
		return BAD(l, "kernel '%s': preloads dwords %u to %u of %u bytes of arguments", k->name, k->preload_offset,
		           k->preload_offset + k->preload_length, k->kernarg_size);
	return 0;
}

static int kernel_read(struct loader *l, struct msgpack *m, struct sim_kernel *k)
{
	const char *symbol = NULL;
	uint32_t wave = 64;
	TRY(kernel_parse(l, m, k, &symbol, &wave));
	if (wave != 64)
		return BAD(l, "kernel '%s' wants waves of %u lanes, %s has 64", k->name, wave, l->o->chip->name);
	if (k->max_workgroup < 1 || k->max_workgroup > WORKGROUP_MAX)
		return BAD(l, "kernel '%s': a largest workgroup of %u lanes is not in 1..%d", k->name, k->max_workgroup, WORKGROUP_MAX);
	TRY(descriptor_read(l, k, symbol));
	for (int i = 0; i < k->nargs; i++) {
		const struct sim_arg *a = &k->args[i];
		if (!a->kind[0] || (uint64_t)a->offset + a->size > k->kernarg_size)
			return BAD(l, "kernel '%s': argument %d ('%s') lies outside its %u bytes of arguments", k->name, i, a->name,
			           k->kernarg_size);
	}
	for (const struct sim_kernel *other = l->o->kernels; other < k; other++)
		if (strcmp(other->name, k->name) == 0)
			return BAD(l, "two kernels are called '%s'", k->name);
	return 0;
}

static int kernels_read(struct loader *l, const uint8_t *note, size_t size)
{
	struct msgpack m = {note, note + size, false};
	struct sim_object *o = l->o;
	l->own->note_strings = l->pool = malloc(size + 1);
	if (!l->pool)
		return NO_MEMORY(l);
	l->pool_end = l->pool + size + 1;
	for (uint32_t n = msgpack_map(&m); n > 0 && !m.bad; n--) {
		if (o->kernels || !key_take(&m, "amdhsa.kernels")) {
			msgpack_skip(&m);
			msgpack_skip(&m);
			continue;
		}
		uint32_t count = msgpack_array(&m);
		o->kernels = calloc(count + 1u, sizeof *o->kernels);
		if (!o->kernels)
			return NO_MEMORY(l);
		for (uint32_t i = 0; i < count; i++) {
			struct sim_kernel *k = &o->kernels[i];
			o->nkernels++; /* first, so that a half-read kernel is freed too */
			TRY(kernel_read(l, &m, k));
		}
	}
	return m.bad ? BAD(l, "malformed metadata note") : 0;
}

/* Finds the metadata among the notes of the file and reads the kernels. */
static int notes_read(struct loader *l)
{
	for (int i = 0; i < l->eh.e_phnum; i++) {
		Elf64_Phdr p;
		memcpy(&p, l->bytes + l->eh.e_phoff + (size_t)i * sizeof p, sizeof p);
		if (p.p_type != PT_NOTE)
			continue;
		if (!file_holds(l, p.p_offset, p.p_filesz))
			return BAD(l, "truncated: the notes lie outside the file");
		const uint8_t *at = l->bytes + p.p_offset;
		for (uint64_t left = p.p_filesz; left >= sizeof(Elf64_Nhdr);) {
			uint64_t name = word_at(at), desc = word_at(at + 4);
			uint64_t desc_at = sizeof(Elf64_Nhdr) + (name + 3) / 4 * 4, next = desc_at + (desc + 3) / 4 * 4;
			if (desc_at + desc > left)
				return BAD(l, "malformed notes");
			if (word_at(at + 8) == NOTE_METADATA && name == 7 && memcmp(at + sizeof(Elf64_Nhdr), "AMDGPU", 7) == 0)
				return kernels_read(l, at + desc_at, desc);
			if (next >= left)
				break;
			at += next;
			left -= next;
		}
	}
	return BAD(l, "no metadata note (NT_AMDGPU_METADATA)");
}

/* Keeps the line table.  Absence of any of its parts is no error. */
static int lines_keep(struct loader *l)
{
	static const char *const name[3] = {".debug_line", ".debug_line_str", ".debug_str"};
	struct sim_bytes part[3] = {{l->bytes, 0}, {l->bytes, 0}, {l->bytes, 0}};
	Elf64_Shdr names, s;
	if (l->eh.e_shstrndx >= l->eh.e_shnum)
		return BAD(l, "malformed section names");
	TRY(section_read(l, l->eh.e_shstrndx, &names));
	if (names.sh_type != SHT_STRTAB || names.sh_size == 0 || l->bytes[names.sh_offset + names.sh_size - 1] != 0)
		return BAD(l, "malformed section names");
	for (unsigned i = 0; i < l->eh.e_shnum; i++) {
		TRY(section_read(l, i, &s));
		if (s.sh_name >= names.sh_size)
			return BAD(l, "the name of section %u lies outside the names", i);
		if (s.sh_type != SHT_PROGBITS || (s.sh_flags & SHF_COMPRESSED))
			continue;
		for (int k = 0; k < 3; k++)
			if (strcmp((const char *)l->bytes + names.sh_offset + s.sh_name, name[k]) == 0)
				part[k] = (struct sim_bytes){l->bytes + s.sh_offset, s.sh_size};
	}
	if (part[0].size == 0)
		return 0;
	l->o->line_table = sim_lines_new(part[0], part[1], part[2]);
	return l->o->line_table ? 0 : NO_MEMORY(l);
}

static int object_read(struct loader *l, const struct sim_chip *chip)
{
	TRY(header_read(l, chip));
	TRY(segments_load(l));
	TRY(sections_check(l));
	TRY(symbols_read(l));
	TRY(relocations_apply(l));
	TRY(globals_collect(l));
	TRY(notes_read(l));
	return lines_keep(l);
}

int sim_object_load(struct sim_object **out, const struct sim_chip *chip, const void *bytes, size_t size, char *err, size_t errlen)
{
	struct loader l = {.bytes = bytes, .size = size, .err = err, .errlen = errlen};
	*out = NULL;
	l.own = calloc(1, sizeof *l.own);
	if (!l.own)
		return NO_MEMORY(&l);
	l.o = &l.own->o;
	l.o->chip = chip;
	int rc = object_read(&l, chip);
	free(l.symbols);
	if (rc)
		sim_object_free(l.o);
	else
		*out = l.o;
	return rc;
}

void sim_object_free(struct sim_object *o)
{
	if (!o)
		return;
	struct owned_object *own = (struct owned_object *)o;
	for (int i = 0; i < o->nkernels; i++)
		free((void *)o->kernels[i].args);
	sim_lines_free(o->line_table);
	sim_code_free(o);
	free(o->kernels);
	free(o->symbols);
	free(o->segments);
	if (o->image)
		munmap(o->image, o->image_size);
	free(own->note_strings);
	free(own->symbol_strings);
	free(own);
}

const struct sim_kernel *sim_object_kernel(const struct sim_object *o, const char *name)
{
	for (int i = 0; i < o->nkernels; i++)
		if (strcmp(o->kernels[i].name, name) == 0)
			return &o->kernels[i];
	return NULL;
}

int sim_object_map(struct sim_object *o, struct sim_memory *memory)
{
	for (int i = 0; i < o->nsegments; i++) {
		const struct sim_segment *s = &o->segments[i];
		int rc = sim_memory_add(memory, o->image + s->offset, s->size, "code object", s->writable);
		if (rc) {
			while (i-- > 0)
				sim_memory_remove(memory, o->image + o->segments[i].offset);
			return rc;
		}
	}
	return SIM_OK;
}

void sim_object_unmap(struct sim_object *o, struct sim_memory *memory)
{
	for (int i = 0; i < o->nsegments; i++)
		sim_memory_remove(memory, o->image + o->segments[i].offset);
}

void sim_object_line(struct sim_object *o, uint64_t offset, char *buf, size_t len)
{
	sim_lines_find(o->line_table, offset, buf, len);
}
