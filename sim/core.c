/* core.c -- one launch: workgroups dealt to host threads, waves stepped, barriers, statistics, reports.
 *
 * In: a checked launch.  Out: memory changed, statistics, or an error text.  Each host thread takes the next workgroup
 * from a counter and runs it alone: its waves take turns, each until a barrier, its end or the end of its slice, so a
 * result never depends on host timing unless workgroups race.  With a seed the order of waves and workgroups and the
 * slices are drawn from it.  With sim_launch.checks each instruction passes check.h's checks first.
 * A workgroup's registers, LDS and scratch are filled with a poison pattern first: a kernel that reads what it never wrote
 * behaves the same in every run. */
#include "check.h"
#include "exec.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SPARE_ROWS = 64, SLICE = 1 << 16 };
#define MAX_INST_DEFAULT UINT64_C(100000000)
#define POISON 0x7fa5a5a5u /* a signalling NaN */

struct run {
	const struct sim_launch *launch;
	struct sim_code *code;
	uint64_t next, total, last; /* workgroups dealt, and to be dealt; the last of the grid */
	int stop;
	pthread_mutex_t lock;
	int error;
	char *err; size_t errlen;
	struct sim_stats stats;
	uint8_t packet[64];
	struct check_global *global; /* NULL without checks */
	uint64_t step, first;       /* workgroup n of the order drawn is (first + n * step) % total */
};

struct worker {
	struct run *run;
	struct sim_group group;
	struct sim_wave *waves;
	uint32_t nwaves;
	uint32_t (*rows)[LANES];
	uint8_t *scratch;
	uint64_t random;
	struct check *check;        /* NULL without checks */
};

void sim_fail(struct sim_wave *w, const struct sim_inst *in, int code, int lane, const char *fmt, ...)
{
	struct sim_group *g = w->group;
	const struct sim_launch *l = g->launch;
	w->state = WAVE_FAIL;
	if (g->error)
		return;
	g->error = code;
	char what[256], line[128], place[32] = "";
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	static pthread_mutex_t lines = PTHREAD_MUTEX_INITIALIZER; /* the table is decoded on first use */
	pthread_mutex_lock(&lines);
	sim_object_line(l->object, in->at, line, sizeof line);
	pthread_mutex_unlock(&lines);
	if (lane >= 0)
		snprintf(place, sizeof place, " lane %d", lane);
	char words[48];
	int at = 0;
	for (int i = 0; i < (in->len ? in->len : 1) && i < 4; i++)
		at += snprintf(words + at, sizeof words - (size_t)at, "%s%08x", i ? " " : "", in->word[i]);
	snprintf(g->err, g->errlen, "%s: %s (%s) at 0x%llx%s%s, wave %u%s: %s", l->kernel->name, sim_op_name(in->op), words,
		(unsigned long long)(in->at - l->kernel->entry), *line ? " " : "", line, w->index, place, what);
}

void sim_unknown(struct sim_wave *w, const struct sim_inst *in)
{
	sim_fail(w, in, SIM_EINST, -1, "this instruction or one of its modifiers is not modelled");
}

bool sim_same_range(struct sim_wave *w, uint64_t lo, uint64_t hi, bool write)
{
	struct sim_group *g = w->group;
	for (int i = 0; i < 6; i++)
		if (lo >= g->range[i].lo && hi <= g->range[i].hi && lo < hi && (!write || g->range[i].writable))
			return true;
	uint64_t first, end;
	bool writable;
	if (lo >= hi || !sim_memory_range(g->launch->memory, lo, &first, &end, &writable) || hi > end || (write && !writable))
		return false;
	unsigned k = g->range_next++ & 3;
	g->range[k].lo = first;
	g->range[k].hi = end;
	g->range[k].writable = writable;
	return true;
}

void *sim_access(struct sim_wave *w, const struct sim_inst *in, int lane, uint64_t addr, uint32_t size, bool write)
{
	struct sim_group *g = w->group;
	if (sim_same_range(w, addr, addr + size, write))
		return (void *)(uintptr_t)addr;
	if (sim_memory_find(g->launch->memory, addr, size, write)) /* allocations that overlap */
		return (void *)(uintptr_t)addr;
	char where[160];
	sim_memory_describe(g->launch->memory, addr, size, where, sizeof where);
	sim_fail(w, in, SIM_EFAULT, lane, "%s of %u bytes at 0x%llx: %s", write ? "write" : "read", size, (unsigned long long)addr, where);
	return NULL;
}

/* MODE: rounding 3:0, denormals of f32 5:4 and of f16/f64 7:6 (bit 0 inputs kept, bit 1 results kept), DX10_CLAMP 8,
 * IEEE 9, FP16_OVFL 23. */
void sim_set_mode(struct sim_wave *w, uint32_t mode)
{
	w->mode = mode;
	w->flush_in = !(mode >> 4 & 1);
	w->flush_out = !(mode >> 5 & 1);
	w->flush_in16 = !(mode >> 6 & 1);
	w->flush_out16 = !(mode >> 7 & 1);
	w->flushing = (uint8_t)((w->flush_in ? FLUSH_F32 : 0) | (w->flush_in16 ? FLUSH_F16 : 0));
	w->dx10_clamp = mode >> 8 & 1;
	w->ieee = mode >> 9 & 1;
	w->ovfl = mode >> 23 & 1;
}

/* ---- the state a wave starts with: the kernel descriptor's user and system registers ---- */

static void put_packet(uint8_t *p, const struct sim_launch *l)
{
	uint16_t setup = 3;
	uint64_t kernarg = (uint64_t)(uintptr_t)l->kernarg;
	memset(p, 0, 64);
	memcpy(p + 2, &setup, 2);
	for (int i = 0; i < 3; i++) {
		uint16_t block = (uint16_t)l->block[i];
		uint32_t grid = l->grid[i] * l->block[i];
		memcpy(p + 4 + 2 * i, &block, 2);
		memcpy(p + 12 + 4 * i, &grid, 4);
	}
	uint32_t lds = l->kernel->lds_bytes + l->dynamic_lds;
	memcpy(p + 24, &l->kernel->scratch_bytes, 4);
	memcpy(p + 28, &lds, 4);
	memcpy(p + 40, &kernarg, 8);
}

static unsigned put64(struct sim_wave *w, unsigned at, uint64_t v)
{
	sim_sgpr64_set(w, at, v);
	return at + 2;
}

static void start_wave(struct worker *k, struct sim_wave *w, const uint32_t id[3])
{
	const struct sim_launch *l = k->run->launch;
	const struct sim_kernel *kn = l->kernel;
	uint32_t props = kn->properties, rsrc2 = kn->rsrc2;
	unsigned s = 0;
	memset(w->sgpr, 0, sizeof w->sgpr);
	for (int i = 0; i < LANES; i++)
		w->vgpr[0][i] = POISON;
	for (uint32_t r = 1; r < w->nvgpr; r++)
		memcpy(w->vgpr[r], w->vgpr[0], sizeof w->vgpr[0]);
	if (props & 1) /* private segment buffer */
		s += 4;
	if (props >> 1 & 1)
		s = put64(w, s, (uint64_t)(uintptr_t)k->run->packet);
	if (props >> 2 & 1) /* queue pointer */
		s = put64(w, s, 0);
	if (props >> 3 & 1)
		s = put64(w, s, (uint64_t)(uintptr_t)l->kernarg);
	if (props >> 4 & 1) /* dispatch id */
		s = put64(w, s, 0);
	if (props >> 5 & 1) /* flat scratch init */
		s = put64(w, s, 0);
	if (props >> 6 & 1)
		w->sgpr[s++] = kn->scratch_bytes;
	for (uint32_t i = 0; i < kn->preload_length && s < 16; i++, s++) {
		size_t at = ((size_t)kn->preload_offset + i) * 4;
		if (at + 4 <= l->kernarg_size)
			memcpy(&w->sgpr[s], (const char *)l->kernarg + at, 4);
	}
	s = rsrc2 >> 1 & 31; /* user SGPR count */
	if (rsrc2 >> 7 & 1)
		w->sgpr[s++] = id[0];
	if (rsrc2 >> 8 & 1)
		w->sgpr[s++] = id[1];
	if (rsrc2 >> 9 & 1)
		w->sgpr[s++] = id[2];
	if (rsrc2 >> 10 & 1) /* workgroup info */
		w->sgpr[s++] = 0;
	uint32_t lanes = l->block[0] * l->block[1] * l->block[2], first = w->index * LANES;
	for (uint32_t i = 0; i < LANES; i++) {
		uint32_t t = first + i, x = t % l->block[0], y = t / l->block[0] % l->block[1], z = t / l->block[0] / l->block[1];
		w->vgpr[0][i] = x | y << 10 | z << 20;
	}
	uint32_t active = lanes - first < LANES ? lanes - first : LANES;
	sim_sgpr64_set(w, REG_EXEC, active == 64 ? ~UINT64_C(0) : (UINT64_C(1) << active) - 1);
	w->sgpr[REG_M0] = ~0u;
	w->scc = w->trapsts = 0;
	w->index_mode = 0;
	w->executed = w->until = 0;
	w->state = WAVE_RUN;
	w->pc = (uint32_t)(kn->entry / 4);
	/* with preloading the code begins with a block that loads the arguments for firmware that cannot; it is skipped */
	if (kn->preload_length)
		w->pc += 256 / 4;
	uint32_t rsrc1 = kn->rsrc1;
	sim_set_mode(w, (rsrc1 >> 12 & 0xff) | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9 | (rsrc1 >> 26 & 1) << 23);
}

/* ---- running ---- */

static void run_wave(struct sim_wave *w, uint64_t steps)
{
	struct sim_group *g = w->group;
	struct sim_inst *code = g->code->inst;
	uint32_t end = (uint32_t)(g->code->object->code_size / 4);
	uint64_t before = w->executed;
	w->until = before + steps;
	while (w->executed < w->until && w->state == WAVE_RUN) {
		if (w->pc >= end) {
			struct sim_inst none = {.at = w->pc * 4};
			sim_fail(w, &none, SIM_EFAULT, -1, "ran past the end of the code");
			break;
		}
		const struct sim_inst *in = &code[w->pc];
		void (*exec)(struct sim_wave *, const struct sim_inst *) = __atomic_load_n(&in->exec, __ATOMIC_ACQUIRE);
		if (!exec) { /* another thread may be filling the slot: nothing else of it is read */
			sim_decode_slot(w, in);
			continue;
		}
		__builtin_prefetch(in + in->len);
		__builtin_prefetch((const char *)(in + in->len) + 64);
		g->stats.inst[in->cls]++;
		w->pc += in->len;
		w->executed++;
		exec(w, in);
	}
	g->clock += w->executed - before;
}

/* The same with every check; apart, so that the plain loop stays short. */
static void run_wave_checked(struct sim_wave *w, struct check *c, uint64_t steps)
{
	struct sim_group *g = w->group;
	uint32_t end = (uint32_t)(g->code->object->code_size / 4);
	uint64_t left = steps;
	while (left && w->state == WAVE_RUN && w->pc < end) {
		const struct sim_inst *in = &g->code->inst[w->pc];
		void (*exec)(struct sim_wave *, const struct sim_inst *) = __atomic_load_n(&in->exec, __ATOMIC_ACQUIRE);
		if (!exec) {
			sim_decode_slot(w, in);
			continue;
		}
		if (!check_before(c, w, in))
			break;
		g->stats.inst[in->cls]++;
		w->pc += in->len;
		exec(w, in);
		check_after(c, w, in);
		left--;
	}
	w->executed += steps - left;
	g->clock += steps - left;
	if (w->state == WAVE_RUN && w->pc >= end)
		run_wave(w, 1); /* reports */
}

static uint64_t draw(struct worker *k)
{
	k->random ^= k->random << 13;
	k->random ^= k->random >> 7;
	k->random ^= k->random << 17;
	return k->random;
}

static void hang(struct worker *k, struct sim_wave *w, const char *what)
{
	struct sim_inst none = {.at = w->pc * 4};
	const struct sim_inst *in = w->pc < k->run->code->object->code_size / 4 ? &k->run->code->inst[w->pc] : &none;
	sim_fail(w, in->len ? in : &none, SIM_EHANG, -1, "%s", what);
}

/* A wave that ended does not hold up the others at a barrier in hardware, but no kernel means to do that. */
static bool barrier_missed(struct worker *k)
{
	uint32_t missing = 0;
	while (missing < k->nwaves && k->waves[missing].state == WAVE_BARRIER)
		missing++;
	if (!k->check || missing == k->nwaves)
		return false;
	for (uint32_t n = 0; n < k->nwaves; n++)
		if (k->waves[n].state == WAVE_BARRIER) {
			struct sim_wave *w = &k->waves[n];
			w->pc--; /* the barrier itself */
			char text[96];
			snprintf(text, sizeof text, "waits at this barrier, wave %u has ended without reaching it", missing);
			hang(k, w, text);
			return true;
		}
	return false;
}

/* Waves take turns until all have ended.  A barrier opens when every wave that has not ended has reached it. */
static int run_group(struct worker *k, const uint32_t id[3], uint64_t number)
{
	const struct sim_launch *l = k->run->launch;
	uint64_t limit = l->max_inst ? l->max_inst : MAX_INST_DEFAULT;
	for (uint32_t i = 0; i < k->nwaves; i++)
		start_wave(k, &k->waves[i], id);
	memset(k->group.lds, 0xa5, k->group.lds_size);
	if (k->scratch)
		memset(k->scratch, 0xa5, (size_t)l->kernel->scratch_bytes * LANES * k->nwaves);
	k->random = ((l->seed << 32 | id[0]) ^ (uint64_t)id[1] << 20 ^ (uint64_t)id[2] << 40) * UINT64_C(0x9e3779b97f4a7c15) | 1;
	k->group.error = 0;
	if (k->check)
		check_start_group(k->check, k->waves, number);
	while (!__atomic_load_n(&k->run->stop, __ATOMIC_RELAXED)) {
		uint32_t running = 0, waiting = 0, shift = l->seed ? (uint32_t)(draw(k) % k->nwaves) : 0;
		for (uint32_t n = 0; n < k->nwaves; n++) {
			struct sim_wave *w = &k->waves[(n + shift) % k->nwaves];
			if (w->state == WAVE_RUN && k->check)
				run_wave_checked(w, k->check, l->seed ? 1 + draw(k) % 32 : SLICE);
			else if (w->state == WAVE_RUN)
				run_wave(w, l->seed ? 1 + draw(k) % 256 : SLICE);
			if (w->state == WAVE_FAIL)
				return k->group.error;
			if (w->state == WAVE_RUN && w->executed >= limit) {
				hang(k, w, "the wave does not end");
				return k->group.error;
			}
			running += w->state == WAVE_RUN;
			waiting += w->state == WAVE_BARRIER;
		}
		if (running)
			continue;
		if (!waiting)
			break;
		if (barrier_missed(k))
			return k->group.error;
		if (k->check)
			check_barrier(k->check);
		for (uint32_t n = 0; n < k->nwaves; n++)
			if (k->waves[n].state == WAVE_BARRIER)
				k->waves[n].state = WAVE_RUN;
	}
	k->group.stats.waves += k->nwaves;
	k->group.stats.workgroups++;
	return SIM_OK;
}

static void add_stats(struct sim_stats *to, const struct sim_stats *from)
{
	for (int i = 0; i < SIM_NCLASS; i++)
		to->inst[i] += from->inst[i];
	to->waves += from->waves;
	to->workgroups += from->workgroups;
	to->mfma_flops += from->mfma_flops;
	to->global_read += from->global_read;
	to->global_written += from->global_written;
	to->lds_read += from->lds_read;
	to->lds_written += from->lds_written;
	to->lds_conflicts += from->lds_conflicts;
}

static bool worker_init(struct worker *k, struct run *r)
{
	const struct sim_launch *l = r->launch;
	const struct sim_kernel *kn = l->kernel;
	uint32_t lanes = l->block[0] * l->block[1] * l->block[2];
	uint32_t nvgpr = kn->vgprs > kn->accum_offset + kn->agprs ? kn->vgprs : kn->accum_offset + kn->agprs;
	size_t rows = (size_t)nvgpr + SPARE_ROWS;
	memset(k, 0, sizeof *k);
	k->run = r;
	k->nwaves = (lanes + LANES - 1) / LANES;
	struct sim_group *g = &k->group;
	g->launch = l;
	g->code = r->code;
	g->lds_size = kn->lds_bytes + l->dynamic_lds;
	g->lds = aligned_alloc(64, (g->lds_size + 127u) & ~63u);
	g->errlen = 1024;
	g->err = malloc(g->errlen);
	g->patterns = sim_patterns_new();
	g->operands = sim_operands_new();
	g->range[4].lo = (uint64_t)(uintptr_t)l->kernarg;
	g->range[4].hi = g->range[4].lo + l->kernarg_size;
	g->range[5].lo = (uint64_t)(uintptr_t)r->packet;
	g->range[5].hi = g->range[5].lo + sizeof r->packet;
	k->waves = calloc(k->nwaves, sizeof *k->waves);
	k->rows = aligned_alloc(64, rows * k->nwaves * sizeof *k->rows);
	if (kn->scratch_bytes)
		k->scratch = malloc((size_t)kn->scratch_bytes * LANES * k->nwaves);
	if (!g->lds || !g->err || !k->waves || !k->rows || (kn->scratch_bytes && !k->scratch))
		return false;
	memset(k->rows, 0, rows * k->nwaves * sizeof *k->rows);
	for (uint32_t i = 0; i < k->nwaves; i++) {
		struct sim_wave *w = &k->waves[i];
		w->vgpr = k->rows + i * rows;
		w->nvgpr = nvgpr;
		w->index = i;
		w->scratch_size = kn->scratch_bytes;
		w->scratch = k->scratch ? k->scratch + (size_t)i * LANES * kn->scratch_bytes : NULL;
		w->group = g;
	}
	return !l->checks || (k->check = check_new(g, k->nwaves, r->global));
}

static void *work(void *arg)
{
	struct run *r = arg;
	const struct sim_launch *l = r->launch;
	struct worker k;
	int status = worker_init(&k, r) ? SIM_OK : SIM_ENOMEM;
	while (status == SIM_OK && !__atomic_load_n(&r->stop, __ATOMIC_RELAXED)) {
		uint64_t n = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
		if (n >= r->total)
			break;
		n = (uint64_t)((r->first + (unsigned __int128)n * r->step) % r->total);
		n = n + 1 == r->total ? r->last : n; /* of a few, one is the last of the grid */
		uint32_t id[3] = {(uint32_t)(n % l->grid[0]), (uint32_t)(n / l->grid[0] % l->grid[1]), (uint32_t)(n / l->grid[0] / l->grid[1])};
		status = run_group(&k, id, n);
	}
	pthread_mutex_lock(&r->lock);
	add_stats(&r->stats, &k.group.stats);
	if (status != SIM_OK && !r->error) {
		r->error = status;
		snprintf(r->err, r->errlen, "%s", status == SIM_ENOMEM ? "out of memory" : k.group.err);
		__atomic_store_n(&r->stop, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&r->lock);
	free(k.group.lds);
	free(k.group.err);
	free(k.group.patterns);
	free(k.group.operands);
	free(k.waves);
	free(k.rows);
	free(k.scratch);
	check_free(k.check);
	return NULL;
}

static int refuse(char *err, size_t errlen, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int refuse(char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return SIM_ELAUNCH;
}

static int check(const struct sim_launch *l, char *err, size_t errlen)
{
	const struct sim_kernel *k = l->kernel;
	uint64_t lanes = 1, lds = (uint64_t)k->lds_bytes + l->dynamic_lds;
	for (int i = 0; i < 3; i++) {
		if (!l->block[i] || l->block[i] > 1024)
			return refuse(err, errlen, "%s: a block of %u x %u x %u is not possible", k->name, l->block[0], l->block[1], l->block[2]);
		lanes *= l->block[i];
	}
	if (lanes > 1024 || (k->max_workgroup && lanes > k->max_workgroup))
		return refuse(err, errlen, "%s: %llu lanes in a workgroup, at most %u are possible", k->name, (unsigned long long)lanes,
			k->max_workgroup ? k->max_workgroup : 1024);
	if (lds > (uint64_t)l->object->chip->lds_bytes)
		return refuse(err, errlen, "%s: %llu bytes of LDS, %s has %d", k->name, (unsigned long long)lds, l->object->chip->name, l->object->chip->lds_bytes);
	if (l->kernarg_size < k->kernarg_size)
		return refuse(err, errlen, "%s: %zu bytes of arguments, the kernel reads %u", k->name, l->kernarg_size, k->kernarg_size);
	return SIM_OK;
}

/* The order in which workgroups are dealt: as they are numbered, or by a stride drawn from the seed that meets each once. */
static void order(struct run *r, uint64_t seed)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15), a, b;
	r->first = 0;
	r->step = 1;
	if (!seed)
		return;
	r->first = (x >> 20) % r->total;
	for (r->step = 1 + (x ^ x >> 31) % r->total;; r->step++) {
		for (a = r->step, b = r->total; b;) {
			uint64_t t = a % b;
			a = b;
			b = t;
		}
		if (a == 1)
			return;
	}
}

int sim_run(const struct sim_launch *l, char *err, size_t errlen)
{
	struct run r = {.launch = l, .err = err, .errlen = errlen, .lock = PTHREAD_MUTEX_INITIALIZER};
	int status = check(l, err, errlen);
	if (status != SIM_OK)
		return status;
	r.total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	if (!r.total)
		return SIM_OK;
	r.last = r.total - 1;
	r.total = l->few && l->few < r.total ? l->few : r.total;
	r.code = sim_code_get(l->object, l->kernel);
	if (!r.code) {
		snprintf(err, errlen, "out of memory");
		return SIM_ENOMEM;
	}
	put_packet(r.packet, l);
	order(&r, l->seed);
	if (l->checks && !(r.global = check_global_new())) {
		snprintf(err, errlen, "out of memory");
		return SIM_ENOMEM;
	}
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t n = l->threads > 0 ? (uint64_t)l->threads : cores > 0 ? (uint64_t)cores : 1;
	if (n > r.total)
		n = r.total;
	if (n > 64)
		n = 64;
	pthread_t threads[64];
	uint64_t started = 0;
	for (uint64_t i = 1; i < n; i++)
		if (pthread_create(&threads[started], NULL, work, &r) == 0)
			started++;
	work(&r);
	for (uint64_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	check_global_free(r.global);
	if (l->stats)
		add_stats(l->stats, &r.stats);
	return r.error;
}
