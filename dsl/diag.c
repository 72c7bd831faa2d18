/* diag.c -- collects messages and prints them with the source line and carets.
 *
 * In: message ids with arguments and places.  Out: text.  A message equal in id and place to an earlier one is dropped (a
 * library function inlined twice reports once), and so is everything after DIAG_MAX errors.  Lines are cut to a window around
 * the place, so that a text of one huge line prints like any other. */
#include "diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct { const char *name, *severity, *format; } info[] = {
#define MSG(id, severity, format) {#id, #severity, format},
#include "messages.def"
#undef MSG
};

const char *diag_name(enum diag_id id) { return (unsigned)id < DIAG_COUNT ? info[id].name : "?"; }

static char *formatted(struct diag *d, const char *fmt, va_list ap)
{
	char text[512];
	int n = vsnprintf(text, sizeof text, fmt, ap);
	return arena_string(d->arena, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

static bool known(const struct diag *d, enum diag_id id, struct diag_span at)
{
	for (int i = 0; i < d->n; i++) {
		const struct diag_message *m = &d->messages[i];
		if (m->id == id && m->at.file == at.file && m->at.line == at.line && m->at.col == at.col)
			return true;
	}
	return false;
}

static void push(struct diag *d, struct diag_message **list, int *n, int *cap, struct diag_message m)
{
	if (*n == *cap)
		*list = arena_grow(d->arena, *list, *n, cap, sizeof **list);
	(*list)[(*n)++] = m;
}

void diag_add(struct diag *d, enum diag_id id, struct diag_span at, ...)
{
	d->reported += info[id].severity[0] == 'e';
	d->dropped = d->full || known(d, id, at);
	if (d->dropped)
		return;
	va_list ap;
	va_start(ap, at);
	char *text = formatted(d, info[id].format, ap);
	va_end(ap);
	push(d, &d->messages, &d->n, &d->cap, (struct diag_message){id, at, text, NULL, 0});
	d->errors += info[id].severity[0] == 'e';
	d->full = d->errors >= DIAG_MAX;
}

void diag_note(struct diag *d, struct diag_span at, const char *fmt, ...)
{
	if (!d->n || d->dropped)
		return;
	struct diag_message *m = &d->messages[d->n - 1];
	va_list ap;
	va_start(ap, fmt);
	char *text = formatted(d, fmt, ap);
	va_end(ap);
	struct diag_message *more = arena_alloc(d->arena, (size_t)(m->nnotes + 1) * sizeof *more);
	if (m->nnotes)
		memcpy(more, m->notes, (size_t)m->nnotes * sizeof *more);
	more[m->nnotes++] = (struct diag_message){m->id, at, text, NULL, 0};
	m->notes = more;
}

/* --- text */

struct out { char *text; size_t n, cap; struct arena *arena; };

static void put(struct out *o, const char *s, size_t n)
{
	if (o->n + n + 1 > o->cap) {
		size_t cap = (o->n + n + 1) * 2;
		char *text = arena_alloc(o->arena, cap);
		if (o->n)
			memcpy(text, o->text, o->n);
		o->text = text;
		o->cap = cap;
	}
	memcpy(o->text + o->n, s, n);
	o->n += n;
	o->text[o->n] = 0;
}

static void put_text(struct out *o, const char *s) { put(o, s, strlen(s)); }

struct line { const char *file, *text; size_t len; int number; };

/* The line of a place, and the file that it lies in. */
static struct line find_line(const struct diag *d, struct diag_span at)
{
	const char *p = at.file ? d->library : d->source, *limit = p ? p + (at.file ? d->library_size : d->size) : NULL;
	struct line l = {at.file ? "library" : d->file ? d->file : "text", "", 0, at.line};
	for (int n = 1; p && p < limit; n++) {
		const char *end = memchr(p, '\n', (size_t)(limit - p));
		if (!end)
			end = limit;
		if (at.file && end - p > 6 && memcmp(p, "#file ", 6) == 0) {
			l.file = arena_string(d->arena, p + 6, (size_t)(end - p - 6));
			l.number = at.line - n;
		}
		if (n == at.line) {
			l.text = p;
			l.len = (size_t)(end - p);
			break;
		}
		p = end + 1;
	}
	return l;
}

enum { WINDOW = 160 };

/* The source line with carets below; unprintable bytes as '?'. */
static void put_source(struct out *o, struct line l, struct diag_span at)
{
	size_t col = at.col > 0 ? (size_t)at.col - 1 : 0, from = 0, to = l.len;
	if (!l.text[0] && !l.len)
		return;
	if (col > l.len)
		col = l.len;
	if (to > WINDOW) {
		from = col > WINDOW / 2 ? col - WINDOW / 2 : 0;
		to = from + WINDOW < l.len ? from + WINDOW : l.len;
	}
	put_text(o, "    ");
	for (size_t i = from; i < to; i++) {
		unsigned char c = (unsigned char)l.text[i];
		char shown = c == '\t' || c >= 0x80 || (c >= 0x20 && c < 0x7f) ? (char)c : '?';
		if (c != '\r')
			put(o, &shown, 1);
	}
	put_text(o, "\n    ");
	for (size_t i = from; i < col; i++)
		if (((unsigned char)l.text[i] & 0xc0) != 0x80)
			put(o, l.text[i] == '\t' ? "\t" : " ", 1);
	size_t carets = at.len > 0 ? (size_t)at.len : 1;
	for (size_t i = col; i < col + carets && (i < to || i == col); i++)
		if (i == col || ((unsigned char)l.text[i] & 0xc0) != 0x80)
			put(o, "^", 1);
	put_text(o, "\n");
}

static void put_message(struct out *o, const struct diag *d, const struct diag_message *m, bool note)
{
	struct line l = find_line(d, m->at);
	char place[64];
	put_text(o, l.file);
	snprintf(place, sizeof place, ":%d:%d: ", l.number, m->at.col);
	put_text(o, place);
	put_text(o, note ? "note" : info[m->id].severity);
	put_text(o, ": ");
	put_text(o, m->text);
	if (!note) {
		put_text(o, " [");
		put_text(o, info[m->id].name);
		put_text(o, "]");
	}
	put_text(o, "\n");
	put_source(o, l, m->at);
	for (int i = 0; i < m->nnotes; i++)
		put_message(o, d, &m->notes[i], true);
}

char *diag_text(const struct diag *d)
{
	struct out o = {.arena = d->arena};
	put(&o, "", 0);
	for (int i = 0; i < d->n; i++)
		put_message(&o, d, &d->messages[i], false);
	if (d->full)
		put_text(&o, "further errors are not shown\n");
	return o.text;
}
