/* msgpack.c -- the msgpack reader declared in msgpack.h.
 *
 * In: bytes from a code object, trusted in nothing.  Out: lengths, strings, integers.  Counts of maps and arrays are
 * checked against the bytes that are left (each value takes one at least), so a caller's loop over them is bounded by
 * the size of the note; nesting is bounded by a depth. */
#include "msgpack.h"

#include <string.h>

enum { DEPTH_MAX = 32 };

static uint64_t take(struct msgpack *m, size_t n)
{
	uint64_t v = 0;
	if (m->bad || (size_t)(m->end - m->p) < n) {
		m->bad = true;
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		v = v << 8 | m->p[i];
	m->p += n;
	return v;
}

static uint32_t count_checked(struct msgpack *m, uint64_t n, uint64_t bytes_each)
{
	if (m->bad || n * bytes_each > (uint64_t)(m->end - m->p)) {
		m->bad = true;
		return 0;
	}
	return (uint32_t)n;
}

uint32_t msgpack_map(struct msgpack *m)
{
	uint64_t tag = take(m, 1);
	if ((tag & 0xf0) == 0x80)
		return count_checked(m, tag & 0x0f, 2);
	if (tag == 0xde)
		return count_checked(m, take(m, 2), 2);
	if (tag == 0xdf)
		return count_checked(m, take(m, 4), 2);
	m->bad = true;
	return 0;
}

uint32_t msgpack_array(struct msgpack *m)
{
	uint64_t tag = take(m, 1);
	if ((tag & 0xf0) == 0x90)
		return count_checked(m, tag & 0x0f, 1);
	if (tag == 0xdc)
		return count_checked(m, take(m, 2), 1);
	if (tag == 0xdd)
		return count_checked(m, take(m, 4), 1);
	m->bad = true;
	return 0;
}

uint32_t msgpack_string(struct msgpack *m, const char **s)
{
	uint64_t tag = take(m, 1);
	uint32_t n = 0;
	*s = "";
	if ((tag & 0xe0) == 0xa0)
		n = count_checked(m, tag & 0x1f, 1);
	else if (tag == 0xd9 || tag == 0xda || tag == 0xdb)
		n = count_checked(m, take(m, (size_t)1 << (tag - 0xd9)), 1);
	else
		m->bad = true;
	if (m->bad)
		return 0;
	*s = (const char *)m->p;
	m->p += n;
	return n;
}

uint64_t msgpack_uint(struct msgpack *m)
{
	uint64_t tag = take(m, 1);
	if (tag < 0x80)
		return tag;
	if (tag >= 0xcc && tag <= 0xcf)
		return take(m, (size_t)1 << (tag - 0xcc));
	m->bad = true;
	return 0;
}

bool msgpack_is_string(const struct msgpack *m, const char *text)
{
	struct msgpack ahead = *m;
	const char *s;
	uint32_t n = msgpack_string(&ahead, &s);
	return !ahead.bad && n == strlen(text) && memcmp(s, text, n) == 0;
}

static void skip_bytes(struct msgpack *m, uint64_t n)
{
	m->p += count_checked(m, n, 1);
}

static void skip_depth(struct msgpack *m, int depth)
{
	const char *s;
	if (m->bad || m->p == m->end || depth == DEPTH_MAX) {
		m->bad = true;
		return;
	}
	uint8_t tag = *m->p;
	if ((tag & 0xf0) == 0x80 || tag == 0xde || tag == 0xdf) {
		for (uint64_t n = 2 * (uint64_t)msgpack_map(m); n > 0 && !m->bad; n--)
			skip_depth(m, depth + 1);
	} else if ((tag & 0xf0) == 0x90 || tag == 0xdc || tag == 0xdd) {
		for (uint32_t n = msgpack_array(m); n > 0 && !m->bad; n--)
			skip_depth(m, depth + 1);
	} else if ((tag & 0xe0) == 0xa0 || (tag >= 0xd9 && tag <= 0xdb)) {
		msgpack_string(m, &s);
	} else {
		take(m, 1);
		if (tag >= 0xc4 && tag <= 0xc6) /* bin */
			skip_bytes(m, take(m, (size_t)1 << (tag - 0xc4)));
		else if (tag >= 0xc7 && tag <= 0xc9) /* ext: a length, a type byte, the bytes */
			skip_bytes(m, take(m, (size_t)1 << (tag - 0xc7)) + 1);
		else if (tag == 0xca || tag == 0xcb) /* float */
			skip_bytes(m, tag == 0xca ? 4 : 8);
		else if (tag >= 0xcc && tag <= 0xd3) /* integers */
			skip_bytes(m, (uint64_t)1 << (tag & 3));
		else if (tag >= 0xd4 && tag <= 0xd8) /* fixext */
			skip_bytes(m, 1 + ((uint64_t)1 << (tag - 0xd4)));
		else if (tag == 0xc1)
			m->bad = true;
	}
}

void msgpack_skip(struct msgpack *m)
{
	skip_depth(m, 0);
}
