/* sim_mutation_test.c -- alters one instruction of a shipped kernel at a time and expects the simulated device to notice.
 *
 * In: $B/kernels.tpack; each variant under the configurations of sim_variant.h that select it.  An instruction is altered under
 * the first configuration that reaches it and, while that goes unnoticed, under the others; it runs under every check, in two
 * orders of waves.  Each s_waitcnt and s_barrier is deleted, each s_nop made shorter, LDS addresses are swapped or moved by one
 * element, 8-bit floats exchanged, modes that clamp not set, comparisons that bound addresses and buffers' own bounds moved by one
 * element, clamps taken out; what the checks need not see of the last six shows in the results.  An alteration that goes unnoticed fails the test, but for
 *   - a wait whose deletion sim_waits.h proves to change nothing on any path, or on any but by a jump that no run takes: over code for
 *     lanes with 0 in some of the six low bits of their number, which each wave has;
 *   - what tests/sim_mutation_redundant.txt lists with its reason;
 *   - a comparison, bound or clamp that gave the same values in both forms, whenever it was executed: no data told them apart.
 * A sample of bounded time by default, everything where E2E_FULL is set; MUTATE=text takes only variants whose name holds
 * it and prints each alteration, MUTATE_KIND=n only one kind, counted from 0, MUTATE_PART=i/n every n-th variant from the i-th on,
 * MUTATE_LOG=file keeps what is done in a file, so that a run that was stopped goes on where it was. */
#include "../base/arena.h"
#include "../sim/check.h"
#include "sample.h"
#include "sim_variant.h"
#include "sim_waits.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* From COMPARISONS on an instruction runs in both forms. */
enum kind { WAITS, NOPS, LDS_ADDRESSES, FLOATS, MODES, COMPARISONS, BOUNDS_MORE, BOUNDS_LESS, CLAMPS, KINDS };
/* sample: by default every how many-th alteration of the kind runs, in every SAMPLE_VARIANTS-th variant. */
static const struct { const char *name; int sample; } kinds[KINDS] = {
	[WAITS] = {"waits and barriers", 3}, [NOPS] = {"wait states", 5}, [LDS_ADDRESSES] = {"LDS addresses", 7}, [FLOATS] = {"8-bit floats", 5},
	[MODES] = {"modes that clamp", 3},
	[COMPARISONS] = {"comparisons of addresses", 3}, [BOUNDS_MORE] = {"bounds one element further", 3}, [BOUNDS_LESS] = {"bounds one element nearer", 3}, [CLAMPS] = {"clamps", 3},
};
enum { MOST_SITES = 4096, MOST_INST = 2000000, SAMPLE_VARIANTS = 71, SMALLEST = 3 };

static bool full(void) { return getenv("E2E_FULL") || getenv("MUTATE"); }
static int every(enum kind kind) { return full() ? 1 : kinds[kind].sample; }
static bool wanted(enum kind kind) { return !getenv("MUTATE_KIND") || atoi(getenv("MUTATE_KIND")) == (int)kind; }

struct totals { int caught, proven, taken, listed, same, missed, unreached, sampled; };

/* ---- alterations of words ---- */

static uint32_t *word_at(const struct variant_run *r, uint64_t at) { return (uint32_t *)(void *)(r->object->image + at); }

/* A comparison of integers by order, of scalars or of vectors: ".. lt, le, gt, ge"; its mnemonic's last part, or NULL. */
static const char *comparison(const struct sim_inst *in)
{
	const char *name = sim_op_name(in->op);
	if ((strncmp(name, "s_cmp_", 6) != 0 && strncmp(name, "v_cmp_", 6) != 0) || name[8] != '_' || (name[9] != 'i' && name[9] != 'u'))
		return NULL;
	return (name[6] == 'l' || name[6] == 'g') && (name[7] == 't' || name[7] == 'e') ? name + 6 : NULL;
}

static bool clamps(const struct sim_inst *in)
{
	return in->op == OP_v_med3_f32 || in->op == OP_v_med3_i32 || (in->cls == SIM_VALU && in->clamp && in->dtype == 'f');
}

static bool alterable(const struct sim_inst *in, enum kind kind)
{
	unsigned ds = in->word[0] >> 17 & 0xff;
	switch (kind) {
	case WAITS: return in->op == OP_s_barrier || in->op == OP_s_waitcnt;
	case NOPS: return in->op == OP_s_nop && in->word[0] & 15;
	case LDS_ADDRESSES: return in->enc == ENC_DS && !(ds >= 0x3d && ds <= 0x3f);
	case FLOATS: return in->op == OP_v_cvt_pk_fp8_f32;
	case MODES: return in->op == OP_s_setreg_imm32_b32;
	case COMPARISONS: return comparison(in) != NULL && in->enc != ENC_SOPC;
	case BOUNDS_MORE: case BOUNDS_LESS: return in->enc == ENC_MUBUF && in->op != OP_buffer_wbl2 && in->op != OP_buffer_inv;
	default: return clamps(in);
	}
}

/* The word in place of the instruction's first one; of a mode that is set, in place of the value.
 * LDS: the two offsets of an instruction with two swapped, else the address off by 16 bytes, or 4 of small ones.
 * Comparisons: lt to le, gt to ge and back; their opcodes are 2 apart in vector formats, 1 in scalar ones. */
static uint32_t altered(const struct sim_inst *in, enum kind kind)
{
	uint32_t word = in->word[0];
	unsigned ds = word >> 17 & 0xff;
	bool two = ds == 0x0e || ds == 0x0f || ds == 0x37 || ds == 0x38 || ds == 0x4e || ds == 0x4f || ds == 0x77 || ds == 0x78;
	switch (kind) {
	case FLOATS: return word + (1 << 16);
	case MODES: return 0;
	case LDS_ADDRESSES: return two ? (word & 0xffff0000u) | (word & 0xff) << 8 | (word >> 8 & 0xff) : word ^ (ds == 0xdf || ds == 0xff ? 16 : 4);
	case COMPARISONS: {
		uint32_t step = in->enc == ENC_VOPC ? 2 << 17 : in->enc == ENC_VOP3 ? 2 << 16 : 1 << 16;
		return comparison(in)[1] == 't' ? word + step : word - step;
	}
	default: return 0xbf800000u;
	}
}

/* ---- the sites of one kernel, and instructions that run in both forms ---- */

/* chosen: in the sample; acts: the two forms gave different values; endless: a bound of 2 GB, which no tensor here comes near. */
struct site {
	struct sim_inst in, other;
	struct check_use use;
	void (*exec)(struct sim_wave *, const struct sim_inst *);
	enum kind kind;
	bool chosen, reached, done, acts, endless, proven, unnoticed;
};
static struct site sites[MOST_SITES];
static int nsites;
static struct { int active; } both;          /* active: the site whose other form counts, or -1 */

/* Sites of one instruction that run in both forms: at most two, one after the other. */
static struct site *site_of(const struct sim_inst *in, bool second)
{
	int lo = 0, hi = nsites;
	while (lo < hi) {
		int mid = (lo + hi) / 2;
		if (sites[mid].in.at < in->at || (sites[mid].in.at == in->at && sites[mid].kind < COMPARISONS))
			lo = mid + 1;
		else
			hi = mid;
	}
	return second && lo + 1 < nsites && sites[lo + 1].in.at == in->at ? &sites[lo + 1] : &sites[lo];
}

static bool is_active(const struct site *s) { return both.active >= 0 && s == &sites[both.active]; }

/* While another site is altered its garbage tells nothing. */
static void differs(struct site *s, bool yes) { s->acts |= yes && both.active < 0; }

static void both_comparison(struct sim_wave *w, const struct sim_inst *in)
{
	struct site *s = site_of(in, false);
	uint32_t before[2] = {w->sgpr[in->sdst], w->sgpr[in->sdst + 1]};
	s->exec(w, in);
	uint64_t was = in->enc == ENC_SOPC ? w->scc : sim_sgpr64(w, in->sdst);
	if (in->enc != ENC_SOPC)
		memcpy(&w->sgpr[in->sdst], before, sizeof before);
	s->other.exec(w, &s->other);
	uint64_t now = in->enc == ENC_SOPC ? w->scc : sim_sgpr64(w, in->sdst);
	differs(s, was != now);
	if (is_active(s))
		return;
	if (in->enc == ENC_SOPC)
		w->scc = (uint32_t)was;
	else
		sim_sgpr64_set(w, in->sdst, was);
}

/* The bound of a buffer as it is, moved by one element, and whether that lets other lanes in. */
static uint32_t moved_bound(struct sim_wave *w, struct site *s, const struct sim_inst *in)
{
	struct check_lanes was, now;
	uint32_t *records = &w->sgpr[in->saddr + 2], kept = *records, element = w->sgpr[in->saddr + 1] >> 16 & 0x3fff ? 1 : s->use.bytes;
	uint32_t moved = s->kind == BOUNDS_MORE ? kept + element : kept >= element ? kept - element : kept;
	was.from = now.from = 0;
	s->endless |= s->kind == BOUNDS_LESS && kept >= 0x7ffffff0;
	check_memory_lanes(w, in, &s->use, &was);
	*records = moved;
	check_memory_lanes(w, in, &s->use, &now);
	*records = kept;
	differs(s, memcmp(was.bytes, now.bytes, sizeof was.bytes) != 0);
	return moved;
}

static void both_bounds(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t *records = &w->sgpr[in->saddr + 2], kept = *records;
	struct site *more = site_of(in, false), *less = site_of(in, true);
	uint32_t further = moved_bound(w, more, in), nearer = moved_bound(w, less, in);
	*records = is_active(more) ? further : is_active(less) ? nearer : kept;
	more->exec(w, in);
	*records = kept;
}

static void both_clamp(struct sim_wave *w, const struct sim_inst *in)
{
	struct site *s = site_of(in, false);
	uint32_t *row = w->vgpr[in->vdst], before[LANES], clamped[LANES], source[LANES], buf[LANES];
	uint64_t exec = sim_exec(w);
	memcpy(before, row, sizeof before);
	memcpy(source, sim_src32(w, in, 0, buf), sizeof source);
	s->exec(w, in);
	memcpy(clamped, row, sizeof clamped);
	memcpy(row, before, sizeof before);
	if (in->clamp)
		s->other.exec(w, &s->other);
	else
		sim_put_row(w, in->vdst, source, exec);
	for (int i = 0; i < LANES; i++)
		differs(s, exec >> i & 1 && row[i] != clamped[i]);
	if (!is_active(s))
		memcpy(row, clamped, sizeof clamped);
}

/* Jumps over code that no lane wants: JUMP_NOT_TAKEN or JUMP_TAKEN, by dword of the image. */
static uint8_t jumps[1 << 18];
static void (*exec_jump)(struct sim_wave *, const struct sim_inst *);

static void watched_jump(struct sim_wave *w, const struct sim_inst *in)
{
	uint32_t next = in->at / 4 + in->len;
	exec_jump(w, in);
	if (jumps[in->at / 4] != JUMP_TAKEN)
		jumps[in->at / 4] = w->pc == next ? JUMP_NOT_TAKEN : JUMP_TAKEN;
}

static struct sim_inst *slot(const struct variant_run *r, const struct sim_kernel *k, uint64_t at)
{
	for (struct sim_code *c = r->object->code; c; c = c->next)
		if (c->kernel == k && c->inst[at / 4].len)
			return &c->inst[at / 4];
	return NULL;
}

static void watch_jumps(struct variant_run *r, const struct sim_kernel *k, bool on)
{
	uint64_t end = variant_code_end(r->object, k);
	for (uint64_t at = k->entry; at + 4 <= end && end / 4 < sizeof jumps; at += 4) {
		struct sim_inst *in = slot(r, k, at);
		if (!in || in->op != OP_s_cbranch_execz)
			continue;
		exec_jump = on ? in->exec : exec_jump;
		in->exec = on ? watched_jump : exec_jump;
	}
}

/* Puts both forms in the place of every instruction that has two, or takes them out. */
static void hook(struct variant_run *r, const struct sim_kernel *k, bool on)
{
	for (int i = 0; i < nsites; i++) {
		struct site *s = &sites[i];
		struct sim_inst *in = slot(r, k, s->in.at);
		if (s->kind < COMPARISONS || s->kind == BOUNDS_LESS || !in)
			continue;
		if (on) {
			s->exec = in->exec;
			in->exec = s->kind == COMPARISONS ? both_comparison : s->kind == CLAMPS ? both_clamp : both_bounds;
		} else {
			in->exec = s->exec;
		}
	}
}

/* ---- one alteration ---- */

/* What a range of one configuration gives unaltered: few says whether only the first and the last workgroup run. */
struct range { bool few; uint64_t want; };

/* Waits are tried under two orders of waves.  Altered values show in the results, mostly, and runs without checks are faster. */
static bool noticed(struct variant_run *r, enum kind kind, const struct range *range)
{
	if (kind <= NOPS)
		return variant_go(r, true, 1, MOST_INST, range->few) != 0 || variant_go(r, true, 2, MOST_INST, range->few) != 0;
	return variant_go(r, false, 1, MOST_INST, range->few) != 0 || variant_outputs(r) != range->want || variant_go(r, true, 1, MOST_INST, range->few) != 0;
}

static bool alter_word(struct variant_run *r, const struct site *s, const struct range *range)
{
	uint32_t *word = word_at(r, s->in.at) + (s->kind == MODES), keep = *word;
	*word = altered(&s->in, s->kind);
	sim_code_free(r->object);
	bool found = noticed(r, s->kind, range);
	if (!found && s->kind == LDS_ADDRESSES && *word != (keep ^ 1)) { /* two addresses swapped whose values are added: then one moved */
		*word = keep ^ 1;
		sim_code_free(r->object);
		found = noticed(r, s->kind, range);
	}
	*word = keep;
	sim_code_free(r->object);
	return found;
}

/* ---- the list of redundant instructions ---- */

/* Whether a name holds all parts of "part .. part", one behind the other. */
static bool holds(const char *name, const char *parts)
{
	const char *gap = strstr(parts, " .. ");
	size_t n = gap ? (size_t)(gap - parts) : strlen(parts);
	const char *at = memmem(name, strlen(name), parts, n);
	return at && (!gap || holds(at + n, gap + 4));
}

/* How many alterations of `what` the list allows the variant: lines "what of part of its name, at most n: reason", the last that holds. */
static int listed(const char *what, const char *name)
{
	static char lines[256][400];
	static int n = -1;
	int most = 0;
	if (n < 0) {
		FILE *f = fopen("tests/sim_mutation_redundant.txt", "r");
		for (n = 0; f && n < 256 && fgets(lines[n], sizeof lines[n], f);)
			n += *lines[n] != '#';
		if (f)
			fclose(f);
	}
	for (int i = 0; i < n; i++) {
		char head[200];
		int at_most;
		if (sscanf(lines[i], "%199[^,], at most %d:", head, &at_most) != 2)
			continue;
		char *of = strstr(head, " of ");
		if (of && (size_t)(of - head) == strlen(what) && memcmp(head, what, strlen(what)) == 0 && holds(name, of + 4))
			most = at_most;
	}
	return most;
}

static void what_text(const struct site *s, char *buf, size_t len)
{
	const struct sim_inst *in = &s->in;
	uint32_t word = in->word[0], vm = (word & 15) | (word >> 10 & 0x30), lgkm = word >> 8 & 15;
	if (s->kind == WAITS && in->op == OP_s_waitcnt)
		snprintf(buf, len, "s_waitcnt%s%.0d%s%.0d", vm < 63 ? vm ? " vm" : " vm0" : "", vm < 63 ? (int)vm : 0, lgkm < 15 ? lgkm ? " lgkm" : " lgkm0" : "",
			lgkm < 15 ? (int)lgkm : 0);
	else
		snprintf(buf, len, "%s%s", s->kind == COMPARISONS || s->kind == WAITS ? "" : s->kind == BOUNDS_MORE ? "further " : s->kind == BOUNDS_LESS ? "nearer " : "",
			sim_op_name(in->op));
}

/* ---- the log: what is done, so that a run that was stopped goes on ---- */

/* MUTATE_LOG names it.  A line of each kernel of each variant: a hash of the code object, the counts of each kind, seconds of processor time, the name;
 * before it a line "- .." of each wait that is redundant or was missed. */
static FILE *log_file;

static uint64_t hash_of_object(const struct model_object *o)
{
	uint64_t h = 14695981039346656037u;
	for (size_t i = 0; i < o->size; i++)
		h = (h ^ o->bytes[i]) * 1099511628211u;
	return h;
}

static void log_note(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	if (!log_file)
		return;
	fputs("- ", log_file);
	va_start(ap, fmt);
	vfprintf(log_file, fmt, ap);
	va_end(ap);
}

static void log_kernel(const char *key, const struct totals totals[KINDS], double seconds)
{
	if (!log_file)
		return;
	for (int i = 0; i < KINDS; i++) {
		const struct totals *t = &totals[i];
		fprintf(log_file, "%d %d %d %d %d %d %d %d ", t->caught, t->proven, t->taken, t->listed, t->same, t->missed, t->unreached, t->sampled);
	}
	fprintf(log_file, "%.2f s %s\n", seconds, key);
	fflush(log_file);
}

/* Whether the log has the kernel; its counts. */
static bool log_find(const char *key, struct totals totals[KINDS])
{
	char line[1000];
	FILE *f = getenv("MUTATE_LOG") ? fopen(getenv("MUTATE_LOG"), "r") : NULL;
	bool found = false;
	while (f && !found && fgets(line, sizeof line, f)) {
		char *at = line, *name = strstr(line, " s ");
		if (*line == '-' || !name || strncmp(name + 3, key, strlen(key)) != 0 || name[3 + strlen(key)] != '\n')
			continue;
		for (int i = 0; i < KINDS; i++) {
			int *numbers[] = {&totals[i].caught, &totals[i].proven, &totals[i].taken, &totals[i].listed, &totals[i].same, &totals[i].missed,
				&totals[i].unreached, &totals[i].sampled};
			for (int n = 0; n < 8; n++)
				*numbers[n] = (int)strtol(at, &at, 10);
		}
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

/* ---- a kernel ---- */

static void add_site(const struct variant_run *r, const struct sim_kernel *k, const struct sim_inst *in, enum kind kind, int *turn)
{
	struct site s = {.in = *in, .kind = kind};
	uint32_t words[4];
	memcpy(words, in->word, sizeof words);
	words[0] = kind == COMPARISONS ? altered(in, kind) : words[0];
	ck_assert(sim_decode(&s.other, words, 4, r->object->chip, k->accum_offset));
	s.other.at = in->at;
	s.other.clamp = kind == CLAMPS ? 0 : s.other.clamp;
	check_use_of(&s.use, in);
	s.chosen = turn[kind]++ % every(kind) == 0;
	ck_assert_int_lt(nsites, MOST_SITES);
	sites[nsites++] = s;
}

static bool decode_at(const struct variant_run *r, const struct sim_kernel *k, uint64_t at, uint64_t end, struct sim_inst *in)
{
	bool ok = sim_decode(in, word_at(r, at), (int)((end - at) / 4 < 4 ? (end - at) / 4 : 4), r->object->chip, k->accum_offset);
	in->at = (uint32_t)at;
	return ok;
}

/* A comparison of lane numbers with a small constant, as scans over lanes have them: no extent. */
static bool with_small_constant(const struct sim_inst *in)
{
	for (int i = 0; i < 2; i++)
		if (in->src[i].kind == SRC_CONST && (int32_t)in->src[i].value >= -16 && (int32_t)in->src[i].value <= 64)
			return true;
	return false;
}

/* Whether a comparison's mask, by itself or joined with others, selects the address of a memory access or the lanes that make
 * one: followed downwards from the comparison until the registers are written again. */
static bool bounds_address(const struct variant_run *r, const struct sim_kernel *k, const struct sim_inst *from, uint64_t end)
{
	struct sim_inst in;
	struct check_use u;
	bool mask[CHECK_SGPRS] = {false}, address[CHECK_VGPRS] = {false}, lanes = false;
	mask[from->sdst] = true;
	if (with_small_constant(from))
		return false;
	for (uint64_t at = from->at + 4u * from->len; at + 4 <= end && decode_at(r, k, at, end, &in); at += 4u * in.len) {
		check_use_of(&u, &in);
		bool reads = false, moves = in.op == OP_v_cndmask_b32;
		for (int i = 0; i < u.nsread; i++)
			reads |= mask[u.sread[i].first];
		for (int i = 0; i < u.nread && in.cls == SIM_VALU; i++)
			moves |= address[u.read[i].first];
		if (u.access != ACCESS_NONE && u.access != ACCESS_SMEM && (lanes || (u.addresses && address[u.read[0].first])))
			return true;
		if (in.op == OP_s_endpgm)
			return false;
		lanes |= reads && strstr(sim_op_name(in.op), "saveexec");
		bool select = in.op == OP_v_cndmask_b32 && mask[in.src[2].reg] && in.src[2].kind == SRC_SGPR;
		for (int i = 0; i < u.nswrite; i++)
			mask[u.swrite[i].first] = reads && in.cls == SIM_SALU && u.swrite[i].first != CHECK_SCC;
		for (int i = 0; i < u.nwrite; i++)
			address[u.write[i].first] = in.cls == SIM_VALU && (select || (moves && in.op != OP_v_cndmask_b32));
	}
	return false;
}

static void find_sites(const struct variant_run *r, const struct sim_kernel *k, int *turn)
{
	uint64_t end = variant_code_end(r->object, k);
	nsites = 0;
	for (uint64_t at = k->entry; at + 4 <= end;) {
		struct sim_inst in;
		bool ok = decode_at(r, k, at, end, &in);
		for (enum kind kind = WAITS; ok && kind < KINDS; kind++)
			if (wanted(kind) && alterable(&in, kind) && (kind != COMPARISONS || bounds_address(r, k, &in, end)))
				add_site(r, k, &in, kind, turn);
		at += ok ? 4u * in.len : 4;
	}
}

/* visible: only those whose alteration something may notice where they are executed. */
static bool any_left(bool visible)
{
	for (int i = 0; i < nsites; i++)
		if (sites[i].chosen && !sites[i].done && !sites[i].endless && (!visible || sites[i].kind < COMPARISONS || sites[i].acts))
			return true;
	return false;
}

/* One site under the present configuration. */
static void mutate_site(struct variant_run *r, const struct sim_kernel *k, struct site *s, const struct range *range)
{
	bool found;
	char why[200];
	if (s->kind < COMPARISONS) {
		found = alter_word(r, s, range);
	} else {
		both.active = (int)(s - sites);
		hook(r, k, true);
		found = noticed(r, s->kind, range);
		hook(r, k, false);
		both.active = -1;
	}
	if (s->kind == WAITS && !s->unnoticed) {
		s->proven = s->in.op == OP_s_waitcnt && sim_wait_redundant(r->object, k, s->in.at, NULL, why, sizeof why);
		ck_assert_msg(!(s->proven && found), "%s: %s at 0x%llx is said to be redundant (%s), but: %s", r->name, sim_op_name(s->in.op),
			(unsigned long long)(s->in.at - k->entry), why, r->err);
	}
	s->unnoticed = !found;
	s->done = found || s->proven;
	if (getenv("MUTATE"))
		printf("%s, %s, present %x%s%s: %s at 0x%llx %s%s\n", r->name, r->now->sizes, r->now->present, r->now->other ? ", other" : "",
			r->now->shift ? ", shift" : "", sim_op_name(s->in.op), (unsigned long long)(s->in.at - k->entry), found ? r->err : "unnoticed ",
			found ? "" : s->proven ? why : "");
}

/* Unaltered, under every check and the orders of waves that alterations get; a few workgroups may miss what others write. */
static bool is_clean(struct variant_run *r, bool few, bool words)
{
	for (uint64_t seed = 1; seed <= (words ? 2 : 1); seed++) {
		int rc = variant_go(r, true, seed, 0, few);
		ck_assert_msg(few || rc == 0, "%s, %s: %s", r->name, r->now->sizes, r->err);
		if (rc != 0)
			return false;
	}
	return true;
}

static bool tried(const struct site *s, bool here) { return s->chosen && !s->done && here && (s->kind < COMPARISONS || s->acts); }

/* Every open site that this range reaches.  A first run decodes and gives the right outputs, a second tells which forms differ. */
static void mutate_range(struct variant_run *r, const struct sim_kernel *k, bool few)
{
	struct range range = {.few = few};
	bool here[MOST_SITES], any = false, words = false;
	int rc = variant_go(r, false, 1, 0, few);
	ck_assert_msg(few || rc == 0, "%s, %s: %s", r->name, r->now->sizes, r->err);
	range.want = variant_outputs(r);
	hook(r, k, true);
	watch_jumps(r, k, true);
	rc = rc ? rc : variant_go(r, false, 1, 0, few);
	hook(r, k, false);
	watch_jumps(r, k, false);
	ck_assert_msg(rc != 0 || variant_outputs(r) == range.want, "%s, %s: both forms together change the results", r->name, r->now->sizes);
	for (int i = 0; i < nsites; i++) {
		here[i] = slot(r, k, sites[i].in.at) != NULL;
		sites[i].reached |= here[i];
		any |= tried(&sites[i], here[i]);
		words |= tried(&sites[i], here[i]) && sites[i].kind < COMPARISONS;
	}
	if (rc == 0 && any && is_clean(r, few, words))
		for (int last = 0; last < 2; last++) /* words last: altering them discards the decoded code, with both forms' places */
			for (int i = 0; i < nsites; i++)
				if (tried(&sites[i], here[i]) && last == (sites[i].kind < COMPARISONS))
					mutate_site(r, k, &sites[i], &range);
	sim_code_free(r->object);
}

static void log_redundant(const struct variant_run *r, const struct sim_kernel *k, const struct site *s, const char *what, const char *why)
{
	if (log_file)
		fprintf(log_file, "- %s: %s at 0x%llx is redundant: %s\n", r->name, what, (unsigned long long)(s->in.at - k->entry), why);
}

static void count(const struct variant_run *r, const struct sim_kernel *k, struct totals *totals)
{
	struct { char what[64]; int count; } used[64] = {0};
	for (int i = 0; i < nsites; i++) {
		const struct site *s = &sites[i];
		struct totals *t = &totals[s->kind];
		char what[64], why[200];
		if (!s->chosen)
			continue;
		what_text(s, what, sizeof what);
		t->sampled++;
		if (s->proven && sim_wait_redundant(r->object, k, s->in.at, NULL, why, sizeof why)) {
			t->proven++;
			log_redundant(r, k, s, what, why);
		} else if (s->done)
			t->caught++;
		else if (!s->reached)
			t->unreached++;
		else if (s->kind >= COMPARISONS && !s->acts)
			t->same++;
		else if (s->in.op == OP_s_waitcnt && sim_wait_redundant(r->object, k, s->in.at, jumps, why, sizeof why)) {
			t->taken++;
			strcat(why, ", but for jumps that are never taken");
			log_redundant(r, k, s, what, why);
		} else {
			int u = 0;
			while (u < 63 && *used[u].what && strcmp(used[u].what, what) != 0)
				u++;
			memcpy(used[u].what, what, sizeof what);
			bool known = ++used[u].count <= listed(what, r->name);
			t->listed += known;
			t->missed += !known;
			if (!known)
				log_note("%s: %s at 0x%llx can be altered unnoticed\n", r->name, what, (unsigned long long)(s->in.at - k->entry));
			else
				log_redundant(r, k, s, what, "listed");
			continue;
		}
		if (!s->done && !s->reached)
			log_note("%s: %s at 0x%llx is never executed\n", r->name, what, (unsigned long long)(s->in.at - k->entry));
	}
	fflush(stdout);
}

static void mutate_kernel(struct variant_run *r, const struct sim_kernel *k, int *turn, struct totals *totals)
{
	both.active = -1;
	memset(jumps, 0, sizeof jumps);
	find_sites(r, k, turn);
	for (int c = 0; any_left(false) && c < variant_configs(r); c++) {
		variant_config(r, c);
		mutate_range(r, k, variant_many(r));
	}
	/* all workgroups, for what a few did not show; forms that differed nowhere only in the smallest */
	for (int c = 0; any_left(c >= SMALLEST) && c < variant_configs(r); c++) {
		variant_config(r, c);
		if (variant_many(r))
			mutate_range(r, k, false);
	}
	count(r, k, totals);
}

static void add_totals(struct totals *to, const struct totals *from)
{
	to->caught += from->caught;
	to->proven += from->proven;
	to->taken += from->taken;
	to->listed += from->listed;
	to->same += from->same;
	to->missed += from->missed;
	to->unreached += from->unreached;
	to->sampled += from->sampled;
}

/* A kernel, or what the log says of it. */
static void logged_kernel(struct variant_run *r, const struct sim_kernel *k, int *turn, struct totals *totals)
{
	struct totals own[KINDS] = {0};
	char key[400];
	snprintf(key, sizeof key, "%016llx %s, %s", (unsigned long long)hash_of_object(r->file), r->name, k->name);
	if (log_find(key, own)) {
		for (int i = 0; i < KINDS; i++)
			turn[i] += own[i].sampled;
	} else {
		clock_t start = clock();
		mutate_kernel(r, k, turn, own);
		log_kernel(key, own, (double)(clock() - start) / CLOCKS_PER_SEC);
	}
	for (int i = 0; i < KINDS; i++)
		add_totals(&totals[i], &own[i]);
}

/* ---- the tests ---- */

static struct pack_file *pack;
static struct model_pack model;
static struct arena arena;

static void setup(void)
{
	char err[500], path[300];
	snprintf(path, sizeof path, "%s/kernels.tpack", getenv("B") ? getenv("B") : "build");
	ck_assert_msg(pack_open(&pack, path, err, sizeof err) == PACK_OK, "%s", err);
	ck_assert_msg(pack_model(pack, &arena, true, &model, err, sizeof err) == 0, "%s", err);
}

/* Every variant; of a kernel's variants the sample takes every fifth, of its configurations the smallest. */
START_TEST(every_shipped_variant_passes_the_checks)
{
	struct variant_run r;
	int turn = 0;
	for (int k = 0; k < model.nkernels; k++)
		for (int v = 0; v < model.kernels[k].nvariants; v++) {
			if (!full() && turn++ % (5 * sample_of()))
				continue;
			ck_assert_msg(variant_open(&r, &model, &model.kernels[k], &model.kernels[k].variants[v]), "%s", r.err);
			for (int c = 0; c < (full() ? variant_configs(&r) : 1); c++) {
				variant_config(&r, c);
				for (uint64_t seed = 0; seed < (full() ? 3 : 1); seed++)
					ck_assert_msg(variant_go(&r, true, seed, 0, false) == 0, "%s, %s, seed %llu: %s", r.name, r.now->sizes, (unsigned long long)seed, r.err);
			}
			variant_close(&r);
		}
}
END_TEST

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

START_TEST(alterations_are_noticed)
{
	struct variant_run r;
	struct totals totals[KINDS] = {0};
	const char *only = getenv("MUTATE");
	int turn[KINDS] = {0}, variants = 0, missed = 0, part = 0, parts = full() ? 1 : SAMPLE_VARIANTS * sample_of();
	if (getenv("MUTATE_PART"))
		ck_assert(sscanf(getenv("MUTATE_PART"), "%d/%d", &part, &parts) == 2 && parts > 0);
	double start = now();
	log_file = getenv("MUTATE_LOG") ? fopen(getenv("MUTATE_LOG"), "a") : NULL;
	for (int k = 0; k < model.nkernels; k++)
		for (int v = 0; v < model.kernels[k].nvariants; v++) {
			if (variants++ % parts != part)
				continue;
			ck_assert_msg(variant_open(&r, &model, &model.kernels[k], &model.kernels[k].variants[v]), "%s", r.err);
			for (int i = 0; i < r.object->nkernels; i++)
				if (!only || strstr(r.name, only))
					logged_kernel(&r, &r.object->kernels[i], turn, totals);
			variant_close(&r);
		}
	if (log_file)
		fclose(log_file);
	for (int i = 0; i < KINDS; i++) {
		const struct totals *t = &totals[i];
		if (!wanted((enum kind)i))
			continue;
		printf("%s: %d of %d altered: %d caught, %d proven redundant, %d but for jumps never taken, %d listed, %d without a difference, %d never executed, %d missed\n",
			kinds[i].name, t->sampled, turn[i], t->caught, t->proven, t->taken, t->listed, t->same, t->unreached, t->missed);
		missed += t->missed + t->unreached;
	}
	printf("%.1f s\n", now() - start);
	fflush(stdout);
	ck_assert_int_eq(missed, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mutations");
	TCase *shipped = tcase_create("shipped"), *altered_code = tcase_create("alterations");
	tcase_set_timeout(shipped, 36000);
	tcase_set_timeout(altered_code, 36000);
	tcase_add_unchecked_fixture(shipped, setup, NULL);
	tcase_add_unchecked_fixture(altered_code, setup, NULL);
	tcase_add_test(shipped, every_shipped_variant_passes_the_checks);
	tcase_add_test(altered_code, alterations_are_noticed);
	if (!getenv("MUTATE"))
		suite_add_tcase(s, shipped);
	suite_add_tcase(s, altered_code);
	SRunner *r = srunner_create(s);
	if (full()) /* libcheck cannot hand on the time of a process that took more than 35 minutes */
		srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
