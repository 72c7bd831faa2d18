/* object_elf.c -- reads an AMDGPU code object: kernels, their resources and where their code lies.
 *
 * In: the bytes of a linked ELF.  Out: struct object_kernel.  Resources stand in the note NT_AMDGPU_METADATA as MessagePack
 * (LLVM's AMDGPUUsage, "Code Object V5 Metadata"); code is found by the symbol table.  Reading it here costs 200 lines and
 * no library, and every offset is checked, since the runtime's users may hand us any file. */
#include "object_code.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

/* --- MessagePack: a cursor that moves over one value at a time; `bad` once something does not fit */
struct pack_cursor { const uint8_t *at, *end; bool bad; };

enum pack_kind { PACK_MAP, PACK_ARRAY, PACK_STRING, PACK_INT, PACK_OTHER };
struct pack_value { enum pack_kind kind; uint64_t number; const char *string; };

static uint64_t pack_bytes(struct pack_cursor *c, unsigned n)
{
	uint64_t v = 0;
	if ((size_t)(c->end - c->at) < n) {
		c->bad = true;
		return 0;
	}
	while (n--)
		v = v << 8 | *c->at++;
	return v;
}

static void pack_string(struct pack_cursor *c, struct pack_value *v, enum pack_kind kind)
{
	v->kind = kind;
	v->string = (const char *)c->at;
	if ((uint64_t)(c->end - c->at) < v->number)
		c->bad = true;
	else
		c->at += v->number;
}

/* The next value.  Of maps and arrays only the head: number = their length. */
static struct pack_value pack_next(struct pack_cursor *c)
{
	struct pack_value v = {PACK_OTHER, 0, ""};
	unsigned tag = (unsigned)pack_bytes(c, 1);
	if (c->bad)
		return v;
	if (tag < 0x80 || tag >= 0xe0) {
		v.kind = PACK_INT;
		v.number = (uint64_t)(int64_t)(int8_t)tag;
	} else if (tag < 0xa0) {
		v.kind = tag < 0x90 ? PACK_MAP : PACK_ARRAY;
		v.number = tag & 15;
	} else if (tag < 0xc0) {
		v.number = tag & 31;
		pack_string(c, &v, PACK_STRING);
	} else if (tag >= 0xc4 && tag <= 0xc6) {           /* bin */
		v.number = pack_bytes(c, 1u << (tag - 0xc4));
		pack_string(c, &v, PACK_OTHER);
	} else if (tag == 0xca || tag == 0xcb) {           /* floats */
		pack_bytes(c, tag == 0xca ? 4 : 8);
	} else if (tag >= 0xcc && tag <= 0xd3) {           /* unsigned, signed */
		unsigned n = 1u << ((tag - 0xcc) & 3);
		uint64_t raw = pack_bytes(c, n);
		v.kind = PACK_INT;
		v.number = tag < 0xd0 ? raw : (uint64_t)((int64_t)(raw << (64 - 8 * n)) >> (64 - 8 * n));
	} else if (tag >= 0xd9 && tag <= 0xdb) {
		v.number = pack_bytes(c, 1u << (tag - 0xd9));
		pack_string(c, &v, PACK_STRING);
	} else if (tag >= 0xdc && tag <= 0xdf) {
		v.kind = tag < 0xde ? PACK_ARRAY : PACK_MAP;
		v.number = pack_bytes(c, tag & 1 ? 4 : 2);
	} else if (tag != 0xc0 && tag != 0xc2 && tag != 0xc3) {
		c->bad = true;                             /* extension types do not occur */
	}
	return v;
}

static void pack_skip(struct pack_cursor *c, int depth)
{
	struct pack_value v = pack_next(c);
	uint64_t inside = v.kind == PACK_MAP ? 2 * v.number : v.kind == PACK_ARRAY ? v.number : 0;
	if (depth > 16)
		c->bad = true;
	for (; inside && !c->bad; inside--)
		pack_skip(c, depth + 1);
}

static bool string_is(const struct pack_value *v, const char *name)
{
	return v->kind == PACK_STRING && v->number == strlen(name) && memcmp(v->string, name, v->number) == 0;
}

/* --- ELF */
struct image { const uint8_t *bytes; size_t size; Elf64_Ehdr head; };

static bool image_part(const struct image *im, uint64_t offset, uint64_t size)
{
	return offset <= im->size && size <= im->size - offset;
}

static bool image_section(const struct image *im, unsigned i, Elf64_Shdr *s)
{
	uint64_t at = im->head.e_shoff + (uint64_t)i * sizeof *s;
	if (i >= im->head.e_shnum || !image_part(im, at, sizeof *s))
		return false;
	memcpy(s, im->bytes + at, sizeof *s);
	return s->sh_type == SHT_NOBITS || image_part(im, s->sh_offset, s->sh_size);
}

/* Finds a function symbol and its bytes. */
static bool image_code(const struct image *im, const char *name, struct object_kernel *k)
{
	size_t len = strlen(name);
	Elf64_Shdr table, names, text;
	for (unsigned i = 0; i < im->head.e_shnum; i++) {
		if (!image_section(im, i, &table) || (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) ||
		    !image_section(im, table.sh_link, &names))
			continue;
		for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
			Elf64_Sym s;
			memcpy(&s, im->bytes + table.sh_offset + at, sizeof s);
			if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || s.st_name >= names.sh_size || names.sh_size - s.st_name <= len ||
			    memcmp(im->bytes + names.sh_offset + s.st_name, name, len + 1) != 0 || !image_section(im, s.st_shndx, &text) ||
			    text.sh_type != SHT_PROGBITS || s.st_value < text.sh_addr || s.st_value - text.sh_addr > text.sh_size ||
			    s.st_size > text.sh_size - (s.st_value - text.sh_addr))
				continue;
			k->code = im->bytes + text.sh_offset + (s.st_value - text.sh_addr);
			k->size = s.st_size;
			k->address = s.st_value;
			return true;
		}
	}
	return false;
}

/* One map of amdhsa.kernels. */
static void kernel_metadata(struct arena *a, struct pack_cursor *c, struct object_kernel *k)
{
	static const struct { const char *key; size_t field; } fields[] = {
		{".vgpr_count", offsetof(struct object_kernel, vgpr)}, {".agpr_count", offsetof(struct object_kernel, agpr)},
		{".sgpr_count", offsetof(struct object_kernel, sgpr)}, {".group_segment_fixed_size", offsetof(struct object_kernel, lds)},
		{".private_segment_fixed_size", offsetof(struct object_kernel, scratch)},
		{".vgpr_spill_count", offsetof(struct object_kernel, spills)}, {".sgpr_spill_count", offsetof(struct object_kernel, scalar_spills)},
		{".kernarg_segment_size", offsetof(struct object_kernel, kernarg_bytes)},
		{".max_flat_workgroup_size", offsetof(struct object_kernel, threads)},
	};
	struct pack_value map = pack_next(c);
	if (map.kind != PACK_MAP)
		c->bad = true;
	for (uint64_t i = 0; i < map.number && !c->bad; i++) {
		struct pack_value key = pack_next(c);
		unsigned f = 0;
		while (f < sizeof fields / sizeof *fields && !string_is(&key, fields[f].key))
			f++;
		if (string_is(&key, ".symbol")) {
			struct pack_value v = pack_next(c);
			if (v.kind != PACK_STRING || v.number < 3)
				c->bad = true;
			else
				k->symbol = arena_string(a, v.string, v.number - 3);   /* "NAME.kd" */
		} else if (f < sizeof fields / sizeof *fields) {
			struct pack_value v = pack_next(c);
			*(int *)((char *)k + fields[f].field) += (int)v.number;
		} else {
			pack_skip(c, 0);
		}
	}
	k->spills += k->scalar_spills;
	if (!k->symbol)
		c->bad = true;
}

/* The note's MessagePack: {"amdhsa.kernels": [..], ..} */
static bool kernels_metadata(struct arena *a, struct pack_cursor c, struct object_kernel **kernels, int *n)
{
	struct pack_value root = pack_next(&c);
	for (uint64_t i = 0; root.kind == PACK_MAP && i < root.number && !c.bad; i++) {
		struct pack_value key = pack_next(&c);
		if (!string_is(&key, "amdhsa.kernels")) {
			pack_skip(&c, 0);
			continue;
		}
		struct pack_value list = pack_next(&c);
		if (list.kind != PACK_ARRAY || list.number > (size_t)(c.end - c.at))
			return false;
		*kernels = arena_alloc(a, list.number * sizeof **kernels);
		for (*n = 0; (uint64_t)*n < list.number && !c.bad; ++*n)
			kernel_metadata(a, &c, &(*kernels)[*n]);
	}
	return root.kind == PACK_MAP && !c.bad;
}

static bool note_find(const struct image *im, struct pack_cursor *c)
{
	Elf64_Shdr s;
	for (unsigned i = 0; i < im->head.e_shnum; i++) {
		if (!image_section(im, i, &s) || s.sh_type != SHT_NOTE)
			continue;
		for (uint64_t at = 0; s.sh_size - at >= sizeof(Elf64_Nhdr);) {
			Elf64_Nhdr h;
			const uint8_t *p = im->bytes + s.sh_offset + at;
			memcpy(&h, p, sizeof h);
			uint64_t name = sizeof h, desc = name + ((h.n_namesz + 3ull) & ~3ull), next = desc + ((h.n_descsz + 3ull) & ~3ull);
			if (next > s.sh_size - at)
				break;
			if (h.n_type == 32 && h.n_namesz == 7 && memcmp(p + name, "AMDGPU", 7) == 0) {
				*c = (struct pack_cursor){p + desc, p + desc + h.n_descsz, false};
				return true;
			}
			at += next;
		}
	}
	return false;
}

int object_read(struct arena *a, const void *elf, size_t size, struct object_kernel **kernels, int *n, char *err, size_t errlen)
{
	struct image im = {.bytes = elf, .size = size};
	struct pack_cursor note;
	*kernels = NULL;
	*n = 0;
	if (size < sizeof im.head || (memcpy(&im.head, elf, sizeof im.head), memcmp(im.head.e_ident, ELFMAG, SELFMAG)) ||
	    im.head.e_machine != EM_AMDGPU || im.head.e_shentsize != sizeof(Elf64_Shdr)) {
		snprintf(err, errlen, "not an AMDGPU code object");
		return -1;
	}
	if (!note_find(&im, &note) || !kernels_metadata(a, note, kernels, n)) {
		snprintf(err, errlen, "code object without readable AMDGPU metadata");
		return -1;
	}
	for (int i = 0; i < *n; i++)
		if (!image_code(&im, (*kernels)[i].symbol, &(*kernels)[i])) {
			snprintf(err, errlen, "code object has no code for kernel %s", (*kernels)[i].symbol);
			return -1;
		}
	return 0;
}
