/* layout.c -- the algebra of layouts: coordinates, projection, cover, vector runs, accumulation order, text.
 *
 * In: layouts, plain structures without pointers.  Out: coordinates, new layouts in the caller's arena, texts.
 * A basis is seen as one row of 256 bits over GF(2) (16 per axis), so that independence is Gaussian elimination and nothing
 * here knows which bits of a layout are plain and which are swizzled. */
#include "layout.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void add_basis(const struct layout_basis *b, int coord[LAYOUT_AXES])
{
	for (int a = 0; a < LAYOUT_AXES; a++)
		coord[a] ^= b->step[a];
}

void layout_coord(const struct layout *l, int reg, int lane, int wave, int coord[LAYOUT_AXES])
{
	int repeat = reg >> l->nreg;
	memset(coord, 0, LAYOUT_AXES * sizeof *coord);
	for (int i = 0; i < l->nreg; i++)
		if (reg >> i & 1)
			add_basis(&l->reg[i], coord);
	for (int i = 0; i < l->nlane; i++)
		if (lane >> i & 1)
			add_basis(&l->lane[i], coord);
	for (int i = 0; i < l->nwave; i++)
		if (wave >> i & 1)
			add_basis(&l->wave[i], coord);
	for (int a = 0; a < LAYOUT_AXES; a++) {
		coord[a] += repeat % l->rep[a] * l->block[a];
		repeat /= l->rep[a];
	}
}

int layout_regs(const struct layout *l)
{
	int64_t n = 1 << l->nreg;
	for (int a = 0; a < LAYOUT_AXES; a++)
		n = n * l->rep[a] < INT32_MAX ? n * l->rep[a] : INT32_MAX;       /* more than there are, if not how many */
	return (int)n;
}

static bool basis_equal(const struct layout_basis *x, const struct layout_basis *y, int n)
{
	return memcmp(x, y, (size_t)n * sizeof *x) == 0;
}

bool layout_equal(const struct layout *x, const struct layout *y)
{
	if (x == y)
		return true;
	if (!x || !y || x->nreg != y->nreg || x->nlane != y->nlane || x->nwave != y->nwave)
		return false;
	return basis_equal(x->reg, y->reg, x->nreg) && basis_equal(x->lane, y->lane, x->nlane) && basis_equal(x->wave, y->wave, x->nwave) &&
	       memcmp(x->block, y->block, sizeof x->block) == 0 && memcmp(x->rep, y->rep, sizeof x->rep) == 0;
}

/* --- independence over GF(2) */

struct row { struct layout_basis v; uint32_t made_of; };   /* v = exclusive or of the accepted vectors in made_of */
struct span { struct row rows[LAYOUT_BITS + 16]; int n, accepted; };

bool layout_basis_is_zero(const struct layout_basis *b)
{
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (b->step[a])
			return false;
	return true;
}

/* Highest set bit of a row, as axis * 16 + bit; the row is not zero. */
static int leading(const struct layout_basis *b)
{
	int a = LAYOUT_AXES - 1;
	while (!b->step[a])
		a--;
	return a * 16 + 31 - __builtin_clz((unsigned)(uint16_t)b->step[a]);
}

/* What is left of v after taking out the span's rows; *made_of gets the accepted vectors taken. */
static struct layout_basis reduce(const struct span *s, struct layout_basis v, uint32_t *made_of)
{
	*made_of = 0;
	for (int i = 0; i < s->n; i++) {
		int lead = leading(&s->rows[i].v);
		if (!(v.step[lead / 16] >> lead % 16 & 1))
			continue;
		for (int a = 0; a < LAYOUT_AXES; a++)
			v.step[a] ^= s->rows[i].v.step[a];
		*made_of ^= s->rows[i].made_of;
	}
	return v;
}

/* Adds v if it is independent of the span; otherwise false, and *made_of says which accepted vectors make it. */
static bool span_accept(struct span *s, struct layout_basis v, uint32_t *made_of)
{
	v = reduce(s, v, made_of);
	if (layout_basis_is_zero(&v))
		return false;
	*made_of ^= (uint32_t)1 << s->accepted++;
	/* rows are in order of acceptance: each was reduced by those before it, which is enough for reduce() */
	s->rows[s->n++] = (struct row){v, *made_of};
	return true;
}

static struct layout_basis without_axes(struct layout_basis v, uint32_t without)
{
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (without >> a & 1)
			v.step[a] = 0;
	return v;
}

struct layout *layout_project(struct arena *ar, const struct layout *l, uint32_t without, int *map)
{
	struct layout *out = arena_copy(ar, l, sizeof *l);
	struct span span = {.n = 0};
	uint32_t made_of[LAYOUT_BITS] = {0};    /* of each old register bit: the new register bits it equals */
	memset(out->reg, 0, sizeof out->reg);
	for (int i = 0; i < l->nreg; i++) {
		struct layout_basis v = without_axes(l->reg[i], without);
		int place = span.accepted;
		if (span_accept(&span, v, &made_of[i])) {
			out->reg[place] = v;
			made_of[i] = (uint32_t)1 << place;
		}
	}
	out->nreg = (uint8_t)span.accepted;
	for (int i = 0; i < l->nlane; i++)
		out->lane[i] = without_axes(l->lane[i], without);
	for (int i = 0; i < l->nwave; i++)
		out->wave[i] = without_axes(l->wave[i], without);
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (without >> a & 1)
			out->block[a] = out->rep[a] = 1;
	for (int r = 0; map && r < layout_regs(l); r++) {
		int repeat = r >> l->nreg, weight = 1 << out->nreg, to = 0;
		for (int i = 0; i < l->nreg; i++)
			if (r >> i & 1)
				to ^= (int)made_of[i];
		for (int a = 0; a < LAYOUT_AXES; a++) {
			to += repeat % l->rep[a] % out->rep[a] * weight;
			weight *= out->rep[a];
			repeat /= l->rep[a];
		}
		map[r] = to;
	}
	return out;
}

static int number_bits(struct layout_basis *to, const struct layout_basis *from, int n, uint32_t over, int lanes, int size)
{
	for (int i = 0; i < n; i++) {
		struct layout_basis rest = without_axes(from[i], over);
		bool reduced = memcmp(&rest, &from[i], sizeof rest) != 0;
		if (reduced && !layout_basis_is_zero(&rest))
			return 0;
		to[i].step[lanes] = reduced ? size : 0;
		size *= reduced ? 2 : 1;
	}
	return size;
}

struct layout *layout_by_lane(struct arena *ar, const struct layout *l, uint32_t over, int lanes)
{
	struct layout *out = layout_project(ar, l, over, NULL);
	int size = number_bits(out->lane, l->lane, l->nlane, over, lanes, 1);
	size = size ? number_bits(out->wave, l->wave, l->nwave, over, lanes, size) : 0;
	out->block[lanes] = size;
	return size ? out : NULL;
}

struct layout *layout_of_groups(struct arena *ar, const struct layout *l, int axis, int groups, int by)
{
	struct layout x = *l;
	for (int i = 0; i < x.nreg; i++)
		x.reg[i].step[groups] = x.reg[i].step[axis] / by;
	for (int i = 0; i < x.nlane; i++)
		x.lane[i].step[groups] = x.lane[i].step[axis] / by;
	for (int i = 0; i < x.nwave; i++)
		x.wave[i].step[groups] = x.wave[i].step[axis] / by;
	x.block[groups] = l->block[axis] < by ? 1 : l->block[axis] / by;
	x.rep[groups] = layout_size(l, axis) / by / x.block[groups];
	return layout_project(ar, &x, (uint32_t)1 << axis, NULL);
}

int layout_take_over(struct layout *l, int lane_bit)
{
	for (int a = 0; a < LAYOUT_AXES; a++) {
		if (l->rep[a] == 1)
			continue;
		if (l->rep[a] % 2)
			return -1;
		l->lane[lane_bit] = (struct layout_basis){0};
		l->lane[lane_bit].step[a] = l->block[a];
		l->block[a] *= 2;
		l->rep[a] /= 2;
		return l->nreg;
	}
	if (!l->nreg)
		return -1;
	l->lane[lane_bit] = l->reg[--l->nreg];
	l->reg[l->nreg] = (struct layout_basis){0};
	return l->nreg;
}

struct layout *layout_scattered(struct arena *ar, const struct layout *l, unsigned lanes)
{
	struct layout *out = arena_copy(ar, l, sizeof *l);
	for (int b = 0; b < out->nlane; b++)
		if (lanes >> b & 1 && layout_take_over(out, b) < 0)
			break;
	return out;
}

static bool accept_all(struct span *s, const struct layout *l, const struct layout_basis *bits, int n)
{
	uint32_t made_of;
	for (int i = 0; i < n; i++) {
		if (layout_basis_is_zero(&bits[i]))
			continue;
		for (int a = 0; a < LAYOUT_AXES; a++)
			if (bits[i].step[a] < 0 || bits[i].step[a] >= l->block[a])
				return false;
		if (s->n == LAYOUT_BITS + 16 || s->accepted >= 32 || !span_accept(s, bits[i], &made_of))
			return false;
	}
	return true;
}

bool layout_covers(const struct layout *l)
{
	struct span s = {.n = 0};
	int need = 0;
	for (int a = 0; a < LAYOUT_AXES; a++) {
		if (l->block[a] < 1 || l->rep[a] < 1 || (l->block[a] & (l->block[a] - 1)))
			return false;
		need += __builtin_ctz((unsigned)l->block[a]);
	}
	return accept_all(&s, l, l->reg, l->nreg) && accept_all(&s, l, l->lane, l->nlane) && accept_all(&s, l, l->wave, l->nwave) && s.n == need;
}

/* --- runs and order */

static bool steps_only(const struct layout_basis *b, int axis, int step)
{
	struct layout_basis want = {{0}};
	want.step[axis] = step;
	return memcmp(b, &want, sizeof want) == 0;
}

int layout_vector(const struct layout *l, int axis)
{
	int run = 0, others = 0;
	while (run < l->nreg && run < 14 && steps_only(&l->reg[run], axis, 1 << run))
		run++;
	for (int i = 0; i < l->nlane; i++)
		others |= l->lane[i].step[axis];
	for (int i = 0; i < l->nwave; i++)
		others |= l->wave[i].step[axis];
	for (int i = run; i < l->nreg; i++)
		others |= l->reg[i].step[axis];
	while (run && (others & ((1 << run) - 1)))
		run--;
	return run;
}

struct layout *layout_run_first(struct arena *arena, const struct layout *l, int axis)
{
	struct layout *r = arena_alloc(arena, sizeof *r);
	*r = *l;
	for (int n = 0, b; n < r->nreg; n++) {
		for (b = n; b < r->nreg && !steps_only(&r->reg[b], axis, 1 << n); b++)
			;
		if (b == r->nreg)
			break;
		struct layout_basis found = r->reg[b];
		memmove(&r->reg[n + 1], &r->reg[n], sizeof found * (size_t)(b - n));
		r->reg[n] = found;
	}
	return layout_equal(r, l) ? NULL : r;
}

struct layout *layout_beside(struct arena *arena, const struct layout *l, int axis, int run)
{
	struct layout *out = arena_copy(arena, l, sizeof *out);
	int n = layout_vector(l, axis), b = l->nlane, r = __builtin_ctz((unsigned)run);
	if (r >= n)
		return NULL;
	for (; r < n; r++) {
		for (b--; b >= 0 && !(l->lane[b].step[axis] && steps_only(&l->lane[b], axis, l->lane[b].step[axis])); b--)
			;
		if (b < 0)
			return NULL;
		out->reg[r] = l->lane[b];
		out->lane[b] = l->reg[r];
	}
	return out;
}

int layout_lane_bit(const struct layout *l, int axis)
{
	for (int i = 0; i < l->nlane; i++)
		if (steps_only(&l->lane[i], axis, 1))
			return i;
	return -1;
}

/* False where it is no digit of its own. */
static bool note_digit(const struct layout_basis *b, int axis, enum layout_place in, int bit, struct layout_digit *digit, unsigned *there)
{
	int step = b->step[axis];
	if (!step)
		return true;
	if (step < 0 || step & (step - 1) || !steps_only(b, axis, step) || *there & (unsigned)step)
		return false;
	digit[__builtin_ctz((unsigned)step)] = (struct layout_digit){(uint8_t)in, (uint8_t)bit};
	*there |= (unsigned)step;
	return true;
}

int layout_digits(const struct layout *l, int axis, struct layout_digit digit[LAYOUT_DIGITS])
{
	unsigned there = 0;
	bool plain = true;
	for (int b = 0; b < l->nreg; b++)
		plain = plain && note_digit(&l->reg[b], axis, LAYOUT_REG, b, digit, &there);
	for (int b = 0; b < l->nlane; b++)
		plain = plain && note_digit(&l->lane[b], axis, LAYOUT_LANE, b, digit, &there);
	for (int b = 0; b < l->nwave; b++)
		plain = plain && note_digit(&l->wave[b], axis, LAYOUT_WAVE, b, digit, &there);
	return plain && (unsigned)l->block[axis] == there + 1 ? __builtin_popcount(there) : -1;
}

int layout_scan_step(const struct layout_digit *digit, int n, int d)
{
	int end = d + 1;
	while (end < n && digit[d].in != LAYOUT_LANE && digit[end].in == digit[d].in)
		end++;
	return end - d;
}

int layout_k_order(const struct layout *l, int k, int elems, int *order)
{
	int place[LAYOUT_BITS + 8], nbits = 0, run = 0;
	for (int i = 0; i < l->nwave; i++)
		if (l->wave[i].step[k])
			return -1;
	/* steps along k from the fastest position of the order to the slowest: e, then g, then s */
	bool in_run[LAYOUT_BITS] = {false};
	for (int r = 0; r < l->nreg && 1 << run < elems; r++)
		if (l->reg[r].step[k]) {
			in_run[r] = true;
			place[nbits++] = l->reg[r].step[k];
			run++;
		}
	for (int i = 0; i < l->nlane; i++)
		if (l->lane[i].step[k])
			place[nbits++] = l->lane[i].step[k];
	for (int r = 0; r < l->nreg; r++)
		if (!in_run[r] && l->reg[r].step[k])
			place[nbits++] = l->reg[r].step[k];
	if (nbits > 24 || 1 << nbits != l->block[k])
		return -1;
	int n = 0;
	for (int repeat = 0; repeat < l->rep[k]; repeat++)
		for (int i = 0; i < 1 << nbits; i++) {
			int at = 0;
			for (int bit = 0; bit < nbits; bit++)
				if (i >> bit & 1)
					at ^= place[bit];
			order[n++] = repeat * l->block[k] + at;
		}
	return n;
}

/* --- text */

/* The block that the steps reach along an axis: the smallest power of two above all of them. */
static int reached(const struct layout *l, int axis)
{
	unsigned all = 0;
	for (int i = 0; i < l->nreg; i++)
		all |= (unsigned)l->reg[i].step[axis];
	for (int i = 0; i < l->nlane; i++)
		all |= (unsigned)l->lane[i].step[axis];
	for (int i = 0; i < l->nwave; i++)
		all |= (unsigned)l->wave[i].step[axis];
	return all ? 2 << (31 - __builtin_clz(all)) : 1;
}

static char *text_basis(struct arena *ar, char *s, const struct layout_basis *b, const char *const *names)
{
	const char *sep = " ";
	for (int a = 0; a < LAYOUT_AXES; a++)
		if (b->step[a]) {
			s = arena_printf(ar, "%s%s%s:%d", s, sep, names[a], b->step[a]);
			sep = "+";
		}
	return *sep == ' ' ? arena_printf(ar, "%s 0", s) : s;
}

static char *text_bits(struct arena *ar, char *s, const char *section, const struct layout_basis *b, int n, const char *const *names)
{
	if (n)
		s = arena_printf(ar, "%s%s%s", s, *s ? " | " : "", section);
	for (int i = 0; i < n; i++)
		s = text_basis(ar, s, &b[i], names);
	return s;
}

char *layout_text(struct arena *ar, const struct layout *l, const char *const *names)
{
	char *s = arena_string(ar, "", 0);
	s = text_bits(ar, s, "reg", l->reg, l->nreg, names);
	s = text_bits(ar, s, "lane", l->lane, l->nlane, names);
	s = text_bits(ar, s, "wave", l->wave, l->nwave, names);
	for (int a = 0, any = 0; a < LAYOUT_AXES; a++)
		if (l->block[a] != reached(l, a))
			s = arena_printf(ar, "%s%s %s:%d", s, any++ ? "" : *s ? " | block" : "block", names[a], l->block[a]);
	for (int a = 0, any = 0; a < LAYOUT_AXES; a++)
		if (l->rep[a] != 1)
			s = arena_printf(ar, "%s%s %s:%d", s, any++ ? "" : *s ? " | rep" : "rep", names[a], l->rep[a]);
	return s;
}

struct reader { const char *p; const char *const *names; int naxes; };

static void skip_space(struct reader *r)
{
	while (*r->p == ' ')
		r->p++;
}

static bool read_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);
	skip_space(r);
	if (strncmp(r->p, word, n) != 0 || isalnum((unsigned char)r->p[n]) || r->p[n] == ':')
		return false;
	r->p += n;
	return true;
}

/* "name:number": true, and the axis and number. */
static bool read_step(struct reader *r, int *axis, int *step)
{
	const char *colon = strchr(r->p, ':');
	char *end;
	size_t n = colon ? (size_t)(colon - r->p) : 0;
	for (*axis = 0; *axis < r->naxes; ++*axis)
		if (n && strlen(r->names[*axis]) == n && memcmp(r->names[*axis], r->p, n) == 0)
			break;
	if (*axis == r->naxes || !n || !isdigit((unsigned char)colon[1]))
		return false;
	long v = strtol(colon + 1, &end, 10);
	if (v < 1 || v > INT_MAX / 2)
		return false;
	*step = (int)v;
	r->p = end;
	return true;
}

static bool at_section_end(struct reader *r)
{
	skip_space(r);
	return *r->p == '|' || !*r->p;
}

/* The bits of one section, up to `most`. */
static bool read_bits(struct reader *r, struct layout_basis *bits, uint8_t *n, int most)
{
	while (!at_section_end(r)) {
		int axis, step;
		if (*n == most)
			return false;
		if (*r->p == '0') {
			r->p++;
			++*n;
			continue;
		}
		do {
			r->p += *r->p == '+';
			if (!read_step(r, &axis, &step) || step > INT16_MAX)
				return false;
			bits[*n].step[axis] = step;
		} while (*r->p == '+');
		++*n;
	}
	return true;
}

static bool read_sizes(struct reader *r, int *sizes)
{
	while (!at_section_end(r)) {
		int axis, size;
		if (!read_step(r, &axis, &size))
			return false;
		sizes[axis] = size;
	}
	return true;
}

static bool read_section(struct reader *r, struct layout *l, int *block)
{
	if (read_word(r, "reg"))
		return read_bits(r, l->reg, &l->nreg, LAYOUT_BITS);
	if (read_word(r, "lane"))
		return read_bits(r, l->lane, &l->nlane, 8);
	if (read_word(r, "wave"))
		return read_bits(r, l->wave, &l->nwave, 8);
	if (read_word(r, "block"))
		return read_sizes(r, block);
	return read_word(r, "rep") && read_sizes(r, l->rep);
}

const struct layout *layout_parse(struct arena *ar, const char *text, const char *const *names, int naxes, const char **err_at)
{
	struct layout *l = arena_alloc(ar, sizeof *l);
	struct reader r = {text, names, naxes};
	int block[LAYOUT_AXES] = {0};
	for (int a = 0; a < LAYOUT_AXES; a++)
		l->rep[a] = 1;
	bool more = !at_section_end(&r), good = true;
	while (good && more) {
		good = read_section(&r, l, block);
		more = good && *r.p == '|';
		r.p += more;
	}
	for (int a = 0; a < LAYOUT_AXES; a++)
		l->block[a] = block[a] ? block[a] : reached(l, a);
	if (good && !*r.p)
		return l;
	*err_at = r.p;
	return NULL;
}
