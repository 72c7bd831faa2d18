/* sim_mutation_test.c -- takes one s_waitcnt or s_barrier at a time out of the shipped kernels and expects the simulated
 * device's checks to notice.
 *
 * In: $B/kernels.tpack; for each variant the first of a few small shapes that selects it.  A word is replaced by s_nop 0 and
 * the variant runs under every check, in two orders of waves.  A deletion that goes unnoticed is redundant where
 * tests/sim_mutation_redundant.txt lists it with its reason; anything else fails the test.  So with s_nops made shorter, with
 * LDS addresses swapped or off by one element, and with the other 8-bit float; those two may show in the results as well.
 * A sample of bounded time by default, everything where E2E_FULL is set; MUTATE=text takes only variants whose name holds
 * it and prints each deletion. */
#include "../base/arena.h"
#include "../runtime/pack.h"
#include "../sim/exec.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_RANK = MODEL_MAX_RANK, GUARD = 256 };

struct tensor { uint8_t *memory, *data; size_t bytes; int rank; int64_t extent[MAX_RANK], stride[MAX_RANK]; enum dtype dtype; bool out; };

struct run {
	const struct model_pack *pack;
	const struct model_kernel *kernel;
	const struct model_variant *variant;
	struct tensor tensor[MODEL_MAX_PARAM];
	int64_t symbols[MODEL_MAX_SYMBOL];
	struct sim_object *object;
	char name[200], err[1200];
	struct sim_stats stats;
};

/* ---- shapes: in the order tried; a symbol that is not named is 2 ---- */

static const struct { const char *kernel, *sizes; } shapes[] = {
	{"rmsnorm_quant", "M=3 N=2048"}, {"rmsnorm_quant", "M=3 N=5120"}, {"rmsnorm_quant", "M=3 N=7168"}, {"rmsnorm_quant", "M=3 N=14336"},
	{"rmsnorm_quant", "M=3 N=16384"}, {"rmsnorm_quant", "M=3 N=4096"}, {"rmsnorm_quant", "M=3 N=8192"}, {"rmsnorm_quant", "M=5 N=1008"}, {"rmsnorm_quant", "M=3 N=2032"},
	{"rmsnorm_quant", "M=3 N=4080"}, {"rmsnorm_quant", "M=3 N=8176"}, {"rmsnorm_quant", "M=3 N=16368"}, {"rmsnorm_quant", "M=3 N=20000"},
	{"rmsnorm_quant", "M=3 N=9001"},
	{"swiglu_quant", "M=3 N=512"}, {"swiglu_quant", "M=3 N=1000"}, {"swiglu_quant", "M=3 N=1001"},
	{"grouped_gemm", "E=3 M=600 N=264 K=264"}, {"grouped_gemm", "E=3 M=600 N=131 K=261"},
	{"attention", "B=1 H=1 G=1 S=260 L=280 D=64"}, {"attention", "B=1 H=1 G=1 S=260 L=280 D=128"}, {"attention", "B=1 H=1 G=1 S=260 L=280 D=56"},
	{"attention", "B=1 H=1 G=1 S=260 L=280 D=120"}, {"attention", "B=1 H=1 G=1 S=260 L=270 D=248"}, {"attention", "B=1 H=1 G=1 S=260 L=270 D=504"},
	{"attention", "B=1 H=1 G=1 S=260 L=280 D=61"}, {"attention", "B=1 H=1 G=1 S=260 L=280 D=125"}, {"attention", "B=1 H=1 G=1 S=260 L=270 D=253"},
};

static int64_t size_of(const char *sizes, const char *name)
{
	size_t n = strlen(name);
	for (const char *s = sizes; s; s = strchr(s, ' ') ? strchr(s, ' ') + 1 : NULL)
		if (strncmp(s, name, n) == 0 && s[n] == '=')
			return strtoll(s + n + 1, NULL, 10);
	return 2;
}

static int64_t leaf(void *ctx, enum hexpr_op op, int64_t imm)
{
	const struct run *r = ctx;
	if (op == HX_STRIDE)
		return r->tensor[imm / 16].stride[imm % 16];
	const struct tensor *t = &r->tensor[imm];
	if (op == HX_PRESENT || op == HX_FLAT || op == HX_UNIT)
		return 1;
	for (int i = 0; i + 1 < t->rank; i++)
		if (t->stride[i] * (dtype_info(t->dtype)->bits / 8) % 16)
			return 0;
	return 1;
}

static int64_t value_of(struct run *r, const struct hexpr *e)
{
	struct hexpr_env env = {r->symbols, r->kernel->nsymbols, leaf, r};
	int64_t v = 0;
	const char *why = "";
	ck_assert_msg(hexpr_eval(e, &env, &v, &why) == 0, "%s: %s", r->name, why);
	return v;
}

static void make_shape(struct run *r, const struct model_variant *v, const char *sizes)
{
	for (int s = 0; s < r->kernel->nsymbols; s++)
		r->symbols[s] = size_of(sizes, r->kernel->symbols[s].name);
	const struct model_instance *in = &r->kernel->instances[v->instance];
	for (int p = 0; p < r->kernel->nparams; p++) {
		const struct model_param *m = &r->kernel->params[p];
		struct tensor *t = &r->tensor[p];
		*t = (struct tensor){.rank = m->rank, .out = m->role != ROLE_IN};
		t->dtype = in->native[p] ? model_native(v->target, in->native[p]) : in->dtype[p];
		if (!m->is_tensor)
			continue;
		int64_t count = 1;
		for (int d = m->rank - 1; d >= 0; d--) {
			t->extent[d] = value_of(r, m->extent[d]);
			t->stride[d] = count;
			count *= t->extent[d];
		}
		t->bytes = (size_t)dtype_bytes(t->dtype, count);
	}
}

/* The shape by which a call would select this variant. */
static const char *shape_for(struct run *r, const struct model_variant *v)
{
	for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		if (strcmp(shapes[i].kernel, r->kernel->name) != 0)
			continue;
		make_shape(r, v, shapes[i].sizes);
		const struct model_variant *first = r->kernel->variants;
		const struct model_variant *end = first + r->kernel->nvariants;
		while (first < end && (first->instance != v->instance || strcmp(first->target, v->target) != 0 || (first->predicate && !value_of(r, first->predicate))))
			first++;
		if (first == v)
			return shapes[i].sizes;
	}
	return NULL;
}

/* Kernels of the table above; the others have their own tests. */
static bool has_shapes(const struct model_kernel *k)
{
	for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (strcmp(shapes[i].kernel, k->name) == 0)
			return true;
	return false;
}

static void fill(struct run *r, int p)
{
	struct tensor *t = &r->tensor[p];
	uint32_t x = 12345 + (uint32_t)p;
	t->memory = aligned_alloc(256, (t->bytes + 2 * GUARD + 255) / 256 * 256);
	t->data = t->memory + GUARD;
	memset(t->memory, 0xa5, t->bytes + 2 * GUARD);
	if (t->out)
		return;
	if (t->dtype == DT_I32) { /* first rows of experts: ascending, with an empty one */
		int64_t n = t->extent[0] - 1, rows = r->tensor[0].extent[0];
		for (int64_t i = 0; i <= n; i++)
			((int32_t *)t->data)[i] = (int32_t)(i == n ? rows : i == 0 ? 0 : rows * 4 / 7);
		return;
	}
	unsigned step = (unsigned)dtype_info(t->dtype)->bits / 8;
	for (size_t i = 0; i + step <= t->bytes; i += step) {
		x = x * 1664525 + 1013904223;
		float f = (float)(int32_t)x / 2147483648.0f * 2;
		uint64_t bits = num_from_f32(f, t->dtype, false);
		memcpy(t->data + i, &bits, step);
	}
}

static void open_run(struct run *r, const struct model_pack *pack, const struct model_kernel *k, const struct model_variant *v)
{
	memset(r, 0, sizeof *r);
	r->pack = pack;
	r->kernel = k;
	r->variant = v;
	snprintf(r->name, sizeof r->name, "%s %s %s %s", k->name, k->instances[v->instance].name, v->target, v->predicate_text);
	ck_assert_msg(shape_for(r, v) != NULL, "%s: no shape selects it", r->name);
	for (int p = 0; p < k->nparams; p++)
		if (k->params[p].is_tensor)
			fill(r, p);
	const struct model_object *o = &pack->objects[v->object];
	ck_assert_msg(sim_object_load(&r->object, sim_chip_by_name(v->target), o->bytes, o->size, r->err, sizeof r->err) == 0, "%s: %s", r->name, r->err);
}

static void close_run(struct run *r)
{
	for (int p = 0; p < r->kernel->nparams; p++)
		free(r->tensor[p].memory);
	sim_object_free(r->object);
}

static void arguments(struct run *r, const struct model_launch *l, uint8_t *block)
{
	for (int i = 0; i < l->nkargs; i++) {
		const struct model_karg *k = &l->kargs[i];
		const struct tensor *t = &r->tensor[k->a];
		int64_t v = 0;
		float f = r->kernel->params[k->a].has_default ? (float)r->kernel->params[k->a].default_value : 0.125f;
		switch (k->kind) {
		case KA_POINTER: v = (int64_t)(uintptr_t)t->data; break;
		case KA_STRIDE: case KA_STRIDE32: v = t->stride[k->b]; break;
		case KA_SYMBOL: v = r->symbols[k->a]; break;
		case KA_FOLD_INNER: v = 1; break;
		case KA_FOLD_STRIDE: v = t->stride[0]; break;
		case KA_SCALAR: memcpy(&v, &f, 4); break;
		case KA_EXPR: v = value_of(r, l->exprs[k->b]); break;
		default: ck_abort_msg("%s: argument kind %d", r->name, k->kind);
		}
		memcpy(block + k->offset, &v, k->size);
	}
}

/* Runs the variant on fresh outputs; 0 or what the device reports. */
static int go(struct run *r, bool checks, uint64_t seed, uint64_t limit)
{
	int rc = 0;
	for (int i = 0; rc == 0 && i < r->variant->nlaunches; i++) {
		const struct model_launch *l = &r->variant->launches[i];
		_Alignas(64) uint8_t block[1024] = {0};
		struct sim_memory *m = sim_memory_new();
		arguments(r, l, block);
		for (int p = 0; p < r->kernel->nparams; p++)
			if (r->kernel->params[p].is_tensor)
				sim_memory_add(m, r->tensor[p].data, r->tensor[p].bytes, r->kernel->params[p].name, r->tensor[p].out);
		struct sim_launch s = {.object = r->object, .kernel = sim_object_kernel(r->object, l->symbol), .memory = m,
			.block = {(uint32_t)l->block, 1, 1}, .kernarg = block, .kernarg_size = ((size_t)l->kernarg_bytes + 64) / 64 * 64, .seed = seed,
			.checks = checks, .max_inst = limit, .threads = 1, .stats = &r->stats};
		for (int k = 0; k < 3; k++)
			s.grid[k] = (uint32_t)value_of(r, l->grid[k]);
		rc = sim_run(&s, r->err, sizeof r->err);
		sim_memory_free(m);
	}
	return rc;
}

/* ---- deletions ---- */

struct totals { int caught, redundant, listed, missed, unreached, sampled; };

static uint32_t *word_at(struct run *r, uint64_t at) { return (uint32_t *)(void *)(r->object->image + at); }

static const char *const *redundant_lines(void)
{
	static char *lines[512];
	static int n = -1;
	if (n >= 0)
		return (const char *const *)lines;
	n = 0;
	FILE *f = fopen("tests/sim_mutation_redundant.txt", "r");
	char line[400];
	while (f && n < 511 && fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		if (*line && *line != '#')
			lines[n++] = strdup(line);
	}
	if (f)
		fclose(f);
	return (const char *const *)lines;
}

/* How many deletions of `what` the list allows the variant: lines "what of part of its name, at most n: reason". */
static int listed(const char *what, const char *name)
{
	int most = 0;
	for (const char *const *l = redundant_lines(); *l; l++) {
		char a[100], b[200];
		int n;
		if (sscanf(*l, "%99[^,], at most %d:", b, &n) != 2)
			continue;
		char *of = strstr(b, " of ");
		if (!of)
			continue;
		snprintf(a, sizeof a, "%.*s", (int)(of - b), b);
		if (strcmp(a, what) == 0 && strstr(name, of + 4))
			most = n;
	}
	return most;
}

static enum { WAITS, NOPS, LDS_ADDRESSES, FLOATS } mode;
static const char *const mode_name[] = {"waits and barriers", "wait states", "LDS addresses", "8-bit floats"};

static bool deletable(uint32_t word)
{
	unsigned ds = word >> 17 & 0xff;
	switch (mode) {
	case WAITS: return word == 0xbf8a0000u || word >> 16 == 0xbf8c;
	case NOPS: return word >> 16 == 0xbf80 && word & 15;
	case LDS_ADDRESSES: return word >> 26 == 0x36 && !(ds >= 0x3d && ds <= 0x3f);
	default: return word >> 16 == 0xd2a2; /* v_cvt_pk_fp8_f32 */
	}
}

/* LDS: the two offsets of an instruction with two swapped, else the address off by 16 bytes, or 4 of small ones. */
static uint32_t mutated(uint32_t word)
{
	unsigned ds = word >> 17 & 0xff;
	bool two = ds == 0x0e || ds == 0x0f || ds == 0x37 || ds == 0x38 || ds == 0x4e || ds == 0x4f || ds == 0x77 || ds == 0x78;
	if (mode == FLOATS)
		return word + (1 << 16);
	if (mode != LDS_ADDRESSES)
		return 0xbf800000u;
	return two ? (word & 0xffff0000u) | (word & 0xff) << 8 | (word >> 8 & 0xff) : word ^ (ds == 0xdf || ds == 0xff ? 16 : 4);
}

static void what_text(uint32_t word, char *buf, size_t len)
{
	uint32_t vm = (word & 15) | (word >> 10 & 0x30), lgkm = word >> 8 & 15;
	if (mode == LDS_ADDRESSES || mode == FLOATS)
		snprintf(buf, len, "%08x", word);
	else if (mode == NOPS)
		snprintf(buf, len, "s_nop %u", word & 15);
	else if (word == 0xbf8a0000u)
		snprintf(buf, len, "s_barrier");
	else
		snprintf(buf, len, "s_waitcnt%s%.0d%s%.0d", vm < 63 ? vm ? " vm" : " vm0" : "", vm < 63 ? (int)vm : 0, lgkm < 15 ? lgkm ? " lgkm" : " lgkm0" : "",
			lgkm < 15 ? (int)lgkm : 0);
}

/* Every byte of the outputs and of the guards beside them. */
static uint64_t outputs(const struct run *r)
{
	uint64_t h = 14695981039346656037u;
	for (int p = 0; p < r->kernel->nparams; p++)
		for (size_t i = 0; r->tensor[p].out && r->tensor[p].memory && i < r->tensor[p].bytes + 2 * GUARD; i++)
			h = (h ^ r->tensor[p].memory[i]) * 1099511628211u;
	return h;
}

/* Replaces the word and runs; true where the checks report it, or the results do, which are `want` otherwise (0: not asked). */
static bool reported(struct run *r, uint64_t at, uint32_t word, uint64_t limit, uint64_t want)
{
	uint32_t keep = *word_at(r, at);
	bool found = false;
	*word_at(r, at) = word;
	sim_code_free(r->object);
	for (uint64_t seed = 1; seed <= 2 && !found; seed++)
		found = go(r, true, seed, limit) != 0 || (want && outputs(r) != want);
	*word_at(r, at) = keep;
	sim_code_free(r->object);
	return found;
}

/* Instructions that a run reaches: those whose slots were decoded. */
static bool reached(const struct run *r, const struct sim_kernel *k, uint64_t at)
{
	for (const struct sim_code *c = r->object->code; c; c = c->next)
		if (c->kernel == k && c->inst[at / 4].len)
			return true;
	return false;
}

static void mutate_kernel(struct run *r, const struct sim_kernel *k, uint64_t end, int every, int *turn, struct totals *t, uint64_t limit)
{
	uint64_t sites[4096];
	int n = 0;
	struct { char what[64]; int count; } used[16] = {0};
	ck_assert_msg(go(r, true, 1, 0) == 0, "%s: %s", r->name, r->err);
	uint64_t want = mode == LDS_ADDRESSES || mode == FLOATS ? outputs(r) : 0;
	for (uint64_t at = k->entry; at < end && n < 4096; at += 4)
		if (reached(r, k, at) && deletable(*word_at(r, at)))
			sites[n++] = at;
		else if (deletable(*word_at(r, at)))
			t->unreached++;
	for (int i = 0; i < n; i++) {
		char what[64];
		if ((*turn)++ % every)
			continue;
		what_text(*word_at(r, sites[i]), what, sizeof what);
		t->sampled++;
		bool caught = reported(r, sites[i], mutated(*word_at(r, sites[i])), limit, want);
		int u = 0;
		while (!caught && u < 15 && *used[u].what && strcmp(used[u].what, what) != 0)
			u++;
		if (!caught)
			memcpy(used[u].what, what, sizeof what);
		bool known = !caught && ++used[u].count <= listed(what, r->name);
		t->caught += caught;
		t->listed += known;
		t->missed += !caught && !known;
		if (getenv("MUTATE"))
			printf("%s: %s at 0x%llx %s\n", r->name, what, (unsigned long long)(sites[i] - k->entry), caught ? r->err : known ? "listed" : "MISSED");
		else if (!caught && !known)
			printf("%s: %s at 0x%llx can be changed unnoticed\n", r->name, what, (unsigned long long)(sites[i] - k->entry));
	}
}

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

START_TEST(every_shipped_variant_passes_the_checks)
{
	struct run r;
	for (int k = 0; k < model.nkernels; k++)
		for (int v = 0; has_shapes(&model.kernels[k]) && v < model.kernels[k].nvariants; v++) {
			open_run(&r, &model, &model.kernels[k], &model.kernels[k].variants[v]);
			for (uint64_t seed = 0; seed < (getenv("E2E_FULL") ? 20 : 2); seed++)
				ck_assert_msg(go(&r, true, seed, 0) == 0, "%s, seed %llu: %s", r.name, (unsigned long long)seed, r.err);
			close_run(&r);
		}
}
END_TEST

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void mutate_all(void)
{
	struct run r;
	struct totals t = {0};
	const char *only = getenv("MUTATE");
	int every = getenv("E2E_FULL") || only ? 1 : 17, turn = 0;
	double start = now();
	for (int k = 0; k < model.nkernels; k++)
		for (int v = 0; has_shapes(&model.kernels[k]) && v < model.kernels[k].nvariants; v++) {
			open_run(&r, &model, &model.kernels[k], &model.kernels[k].variants[v]);
			if (only && !strstr(r.name, only)) {
				close_run(&r);
				continue;
			}
			for (int i = 0; i < r.object->nkernels; i++) {
				const struct sim_kernel *kn = &r.object->kernels[i];
				uint64_t end = r.object->image_size;
				for (int j = 0; j < r.object->nkernels; j++)
					if (r.object->kernels[j].entry > kn->entry && r.object->kernels[j].entry < end)
						end = r.object->kernels[j].entry;
				for (int s = 0; s < r.object->nsegments; s++)
					if (r.object->segments[s].executable && r.object->segments[s].offset + r.object->segments[s].size < end &&
					    r.object->segments[s].offset <= kn->entry && r.object->segments[s].offset + r.object->segments[s].size > kn->entry)
						end = r.object->segments[s].offset + r.object->segments[s].size;
				mutate_kernel(&r, kn, end, every, &turn, &t, 2000000);
			}
			close_run(&r);
		}
	printf("changed %d of %d %s: %d caught, %d listed as redundant, %d missed; %d are never executed; %.1f s\n", t.sampled,
		turn, mode_name[mode], t.caught, t.listed, t.missed, t.unreached, now() - start);
	fflush(stdout);
	ck_assert_int_eq(t.missed, 0);
}

START_TEST(mutations_are_noticed)
{
	mode = _i;
	mutate_all();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mutations");
	TCase *c = tcase_create("mutations");
	tcase_set_timeout(c, 7200);
	tcase_add_unchecked_fixture(c, setup, NULL);
	tcase_add_test(c, every_shipped_variant_passes_the_checks);
	tcase_add_loop_test(c, mutations_are_noticed, WAITS, FLOATS + 1);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	if (getenv("MUTATE"))
		srunner_set_fork_status(r, CK_NOFORK);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
