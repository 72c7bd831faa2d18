/* line.c -- reads DWARF 4 and 5 line tables.
 *
 * In: the bytes of .debug_line and its string sections.  Out: rows (address, file, line) sorted by address.  A line
 * table is a program for a small state machine (DWARF 5, section 6.2); it is run once, when a report first needs a
 * line.  The bytes are trusted in nothing: every read is checked, a unit that makes no sense is left out, and a report
 * is then only without its line. */
#include "line.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1 << 22, FILES_MAX = 1 << 16 };
enum { DW_LNCT_path = 1 };
enum { DW_FORM_data2 = 0x05, DW_FORM_data4, DW_FORM_data8, DW_FORM_string, DW_FORM_block, DW_FORM_data1 = 0x0b,
       DW_FORM_strp = 0x0e, DW_FORM_udata, DW_FORM_data16 = 0x1e, DW_FORM_line_strp };

struct row { uint64_t address; const char *file; uint32_t line, order; bool end; };
struct sim_lines {
	pthread_mutex_t lock;
	bool decoded;
	struct sim_bytes line, line_str, str;
	struct row *rows;
	size_t count, capacity;
	uint8_t copy[];
};
struct cursor { const uint8_t *p, *end; bool bad; };
/* What a unit's header says. */
struct unit {
	unsigned version, offset_size, min_inst, line_range, opcode_base;
	int line_base;
	const uint8_t *opcode_lengths;
	const char **files; /* by file number */
	size_t nfiles;
	struct cursor program;
};

static uint64_t get(struct cursor *c, unsigned n)
{
	uint64_t v = 0;
	if (c->bad || (size_t)(c->end - c->p) < n) {
		c->bad = true;
		return 0;
	}
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)c->p[i] << 8 * i;
	c->p += n;
	return v;
}
static void skip(struct cursor *c, uint64_t n)
{
	if (c->bad || (uint64_t)(c->end - c->p) < n)
		c->bad = true;
	else
		c->p += n;
}
static uint64_t get_uleb(struct cursor *c)
{
	uint64_t v = 0, byte;
	unsigned shift = 0;
	do {
		byte = get(c, 1);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !c->bad);
	return v;
}
static int64_t get_sleb(struct cursor *c)
{
	uint64_t v = 0, byte;
	unsigned shift = 0;
	do {
		byte = get(c, 1);
		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !c->bad);
	if (shift < 64 && (byte & 0x40))
		v |= ~0ull << shift;
	return (int64_t)v;
}
static const char *get_string(struct cursor *c)
{
	const uint8_t *nul = c->bad ? NULL : memchr(c->p, 0, (size_t)(c->end - c->p));
	if (!nul) {
		c->bad = true;
		return "";
	}
	const char *s = (const char *)c->p;
	c->p = nul + 1;
	return s;
}
static const char *string_at(struct sim_bytes section, uint64_t offset)
{
	if (offset >= section.size || !memchr(section.p + offset, 0, section.size - offset))
		return "";
	return (const char *)section.p + offset;
}

/* Takes one attribute of a version 5 directory or file entry; a string where the form has one, else "". */
static const char *get_form(struct sim_lines *t, const struct unit *u, struct cursor *c, uint64_t form)
{
	switch (form) {
	case DW_FORM_string: return get_string(c);
	case DW_FORM_line_strp: return string_at(t->line_str, get(c, u->offset_size));
	case DW_FORM_strp: return string_at(t->str, get(c, u->offset_size));
	case DW_FORM_data1: skip(c, 1); break;
	case DW_FORM_data2: skip(c, 2); break;
	case DW_FORM_data4: skip(c, 4); break;
	case DW_FORM_data8: skip(c, 8); break;
	case DW_FORM_data16: skip(c, 16); break;
	case DW_FORM_udata: get_uleb(c); break;
	case DW_FORM_block: skip(c, get_uleb(c)); break;
	default: c->bad = true;
	}
	return "";
}

static void file_add(struct unit *u, const char *name, struct cursor *c)
{
	if ((u->nfiles & (u->nfiles - 1)) == 0) {
		const char **grown = realloc(u->files, (u->nfiles ? 2 * u->nfiles : 1) * sizeof *grown);
		if (!grown || u->nfiles >= FILES_MAX) {
			u->files = grown ? grown : u->files;
			c->bad = true;
			return;
		}
		u->files = grown;
	}
	u->files[u->nfiles++] = name;
}

/* One entry table of version 5: formats, then entries of that many attributes.  Directories are read over. */
static void entries_v5(struct sim_lines *t, struct unit *u, struct cursor *c, bool files)
{
	struct { uint64_t content, form; } format[256];
	unsigned nformat = (unsigned)get(c, 1);
	for (unsigned i = 0; i < nformat; i++) {
		format[i].content = get_uleb(c);
		format[i].form = get_uleb(c);
	}
	uint64_t count = get_uleb(c);
	if (nformat == 0 && count > 0)
		c->bad = true;
	for (uint64_t i = 0; i < count && !c->bad; i++) {
		const char *path = "";
		for (unsigned k = 0; k < nformat && !c->bad; k++) {
			const char *s = get_form(t, u, c, format[k].form);
			if (format[k].content == DW_LNCT_path)
				path = s;
		}
		if (files)
			file_add(u, path, c);
	}
}
static void entries_v4(struct unit *u, struct cursor *c)
{
	while (get_string(c)[0] && !c->bad)
		; /* directories */
	file_add(u, "", c); /* files count from 1 */
	for (const char *name; !c->bad && (name = get_string(c))[0];) {
		get_uleb(c);
		get_uleb(c);
		get_uleb(c);
		file_add(u, name, c);
	}
}

/* Reads the header of the unit in `c` (without its length); false where it cannot be understood. */
static bool unit_header(struct sim_lines *t, struct unit *u, struct cursor *c)
{
	u->version = (unsigned)get(c, 2);
	if (u->version != 4 && u->version != 5)
		return false;
	if (u->version == 5)
		skip(c, 2); /* address size, segment selector size */
	uint64_t header_length = get(c, u->offset_size);
	u->program = *c;
	skip(&u->program, header_length);
	u->min_inst = (unsigned)get(c, 1);
	skip(c, 2); /* operations per instruction, default is_stmt */
	u->line_base = (int8_t)get(c, 1);
	u->line_range = (unsigned)get(c, 1);
	u->opcode_base = (unsigned)get(c, 1);
	u->opcode_lengths = c->p;
	if (u->opcode_base == 0 || u->line_range == 0)
		return false;
	skip(c, u->opcode_base - 1);
	if (u->version == 5) {
		entries_v5(t, u, c, false);
		entries_v5(t, u, c, true);
	} else
		entries_v4(u, c);
	return !c->bad && !u->program.bad;
}

static bool row_add(struct sim_lines *t, const struct unit *u, uint64_t address, uint64_t file, uint64_t line, bool end)
{
	if (t->count == t->capacity) {
		size_t capacity = t->capacity ? 2 * t->capacity : 256;
		struct row *grown = capacity > ROWS_MAX ? NULL : realloc(t->rows, capacity * sizeof *grown);
		if (!grown)
			return false;
		t->rows = grown;
		t->capacity = capacity;
	}
	const char *name = file < u->nfiles ? u->files[file] : "";
	t->rows[t->count] = (struct row){address, name, (uint32_t)line, (uint32_t)t->count, end};
	t->count++;
	return true;
}

/* Runs the line number program of one unit. */
static void unit_run(struct sim_lines *t, struct unit *u)
{
	struct cursor *c = &u->program;
	uint64_t address = 0, file = 1, line = 1;
	const unsigned const_add = (255 - u->opcode_base) / u->line_range * u->min_inst;
	bool room = true;
	while (c->p < c->end && !c->bad && room) {
		unsigned op = (unsigned)get(c, 1);
		if (op >= u->opcode_base) { /* a special opcode moves both and makes a row */
			address += (op - u->opcode_base) / u->line_range * u->min_inst;
			line += (uint64_t)(u->line_base + (int)((op - u->opcode_base) % u->line_range));
			room = row_add(t, u, address, file, line, false);
			continue;
		}
		switch (op) {
		case 0: { /* an extended opcode: length, code, operands */
			uint64_t n = get_uleb(c);
			struct cursor x = *c;
			skip(c, n);
			if (c->bad || n == 0)
				break;
			x.end = c->p;
			switch (get(&x, 1)) {
			case 1: /* end_sequence */
				room = row_add(t, u, address, file, line, true);
				address = 0;
				file = line = 1;
				break;
			case 2: address = get(&x, n == 9 ? 8 : 4); break;
			}
			break;
		}
		case 1: room = row_add(t, u, address, file, line, false); break;
		case 2: address += get_uleb(c) * u->min_inst; break;
		case 3: line += (uint64_t)get_sleb(c); break;
		case 4: file = get_uleb(c); break;
		case 8: address += const_add; break;
		case 9: address += get(c, 2); break;
		default: /* operands as many as the header says; column, block and prologue marks among them */
			for (unsigned i = u->opcode_lengths[op - 1]; i > 0; i--)
				get_uleb(c);
		}
	}
}

static int row_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->end != y->end) /* a sequence that starts where another ends comes after it */
		return x->end ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static void lines_decode(struct sim_lines *t)
{
	struct cursor c = {t->line.p, t->line.p + t->line.size, false};
	while (c.p < c.end && !c.bad) {
		struct unit u = {.offset_size = 4};
		uint64_t length = get(&c, 4);
		if (length == 0xffffffff) {
			u.offset_size = 8;
			length = get(&c, 8);
		}
		struct cursor in = c;
		skip(&c, length);
		in.end = c.p;
		if (!c.bad && unit_header(t, &u, &in)) {
			u.program.end = in.end;
			unit_run(t, &u);
		}
		free(u.files);
	}
	if (t->count)
		qsort(t->rows, t->count, sizeof *t->rows, row_order);
}

struct sim_lines *sim_lines_new(struct sim_bytes line, struct sim_bytes line_str, struct sim_bytes str)
{
	struct sim_lines *t = malloc(sizeof *t + line.size + line_str.size + str.size);
	if (!t)
		return NULL;
	memset(t, 0, sizeof *t);
	uint8_t *at = t->copy;
	struct { struct sim_bytes from, *to; } part[] = {{line, &t->line}, {line_str, &t->line_str}, {str, &t->str}};
	for (int i = 0; i < 3; i++) {
		if (part[i].from.size)
			memcpy(at, part[i].from.p, part[i].from.size);
		*part[i].to = (struct sim_bytes){at, part[i].from.size};
		at += part[i].from.size;
	}
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void sim_lines_free(struct sim_lines *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	free(t->rows);
	free(t);
}

void sim_lines_find(struct sim_lines *t, uint64_t address, char *buf, size_t len)
{
	if (len == 0)
		return;
	buf[0] = 0;
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	if (!t->decoded) {
		lines_decode(t);
		t->decoded = true;
	}
	size_t lo = 0, hi = t->count; /* the last row at or before the address */
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (t->rows[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo > 0 && !t->rows[lo - 1].end && t->rows[lo - 1].line > 0)
		snprintf(buf, len, "%s:%u", t->rows[lo - 1].file, t->rows[lo - 1].line);
	pthread_mutex_unlock(&t->lock);
}
