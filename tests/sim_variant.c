/* sim_variant.c -- see sim_variant.h.
 *
 * A variant's configurations: rows of `shapes` for its kernel where there are some, else every pair of the rows and columns
 * below for which the variant is the first whose predicate holds: the smallest, more rows, long rows, last empty ones; of variants for many rows those
 * of `many`.  Tensors lie between guards, so that
 * an access one element off shows; inputs are seeded numbers with values beyond the range of 8-bit types after scaling, of other magnitudes in each
 * row, column and group of 32, so that what has a scale of its own has another one; the
 * largest number is elsewhere in each configuration, in both halves of a row: gate and value of gated activations. */
#include "sim_variant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const struct { const char *kernel, *sizes; } shapes[] = {
	{"grouped_gemm", "E=3 M=2608 N=960 K=72"}, {"grouped_gemm", "E=3 M=40 N=136 K=264"}, {"grouped_gemm", "E=3 M=90 N=136 K=264"}, {"grouped_gemm", "E=3 M=600 N=264 K=264"}, {"grouped_gemm", "E=3 M=600 N=131 K=261"}, {"grouped_gemm", "E=3 M=600 N=131 K=0"},
	{"grouped_gemm", "E=3 M=60 N=129 K=66"}, {"grouped_gemm", "E=3 M=60 N=130 K=67"}, {"grouped_gemm", "E=3 M=60 N=131 K=68"}, {"grouped_gemm", "E=3 M=60 N=132 K=69"},
	{"grouped_gemm", "E=3 M=60 N=133 K=70"}, {"grouped_gemm", "E=3 M=60 N=134 K=71"}, {"grouped_gemm", "E=3 M=60 N=135 K=72"}, {"grouped_gemm", "E=3 M=60 N=136 K=73"},
	{"grouped_gemm_mx", "E=3 M=2608 N=960 K=96"}, {"grouped_gemm_mx", "E=3 M=40 N=136 K=288"}, {"grouped_gemm_mx", "E=3 M=90 N=136 K=288"}, {"grouped_gemm_mx", "E=3 M=600 N=264 K=320"}, {"grouped_gemm_mx", "E=3 M=600 N=131 K=262"}, {"grouped_gemm_mx", "E=3 M=600 N=131 K=0"}, {"grouped_gemm_mx", "E=3 M=60 N=129 K=66"}, {"grouped_gemm_mx", "E=3 M=60 N=134 K=72"},
	{"grouped_gemm_mx_weights", "E=3 M=2608 N=960 K=96"}, {"grouped_gemm_mx_weights", "E=3 M=40 N=136 K=288"}, {"grouped_gemm_mx_weights", "E=3 M=90 N=136 K=288"}, {"grouped_gemm_mx_weights", "E=3 M=600 N=264 K=320"}, {"grouped_gemm_mx_weights", "E=3 M=600 N=131 K=262"}, {"grouped_gemm_mx_weights", "E=3 M=600 N=131 K=0"}, {"grouped_gemm_mx_weights", "E=3 M=60 N=129 K=66"}, {"grouped_gemm_mx_weights", "E=3 M=60 N=134 K=72"},
	{"attention", "B=1 H=1 G=1 S=260 L=280 D=64"}, {"attention", "B=1 H=1 G=1 S=260 L=280 D=128"}, {"attention", "B=1 H=1 G=1 S=260 L=280 D=56"},
	{"attention", "B=1 H=1 G=1 S=260 L=280 D=120"}, {"attention", "B=1 H=1 G=1 S=260 L=270 D=248"}, {"attention", "B=1 H=1 G=1 S=260 L=270 D=504"},
	{"attention", "B=1 H=1 G=1 S=260 L=280 D=61"}, {"attention", "B=1 H=1 G=1 S=260 L=280 D=125"}, {"attention", "B=1 H=1 G=1 S=260 L=270 D=253"}, {"attention", "B=1 H=1 G=1 S=260 L=0 D=56"}, {"attention", "B=1 H=1 G=1 S=260 L=0 D=61"},
	{"attention", "B=1 H=20 G=1 S=2 L=280 D=64"}, {"attention", "B=1 H=20 G=1 S=2 L=280 D=128"}, {"attention", "B=1 H=20 G=1 S=2 L=280 D=56"}, {"attention", "B=1 H=20 G=1 S=2 L=280 D=120"},
	{"attention", "B=1 H=20 G=1 S=2 L=270 D=248"}, {"attention", "B=1 H=20 G=1 S=2 L=0 D=56"},
	{"delayed_scaling", "H=5 K=132"}, {"delayed_scaling", "H=5 K=131"}, {"delayed_scaling", "H=5 K=1028"}, {"delayed_scaling", "H=5 K=1027"}, {"delayed_scaling", "H=0 K=131"},
	{"multi_tensor_amax", "K=3 N=5000"}, {"multi_tensor_amax", "K=3 N=15001"}, {"multi_tensor_l2norm", "K=3 N=5000"}, {"multi_tensor_l2norm", "K=3 N=15001"},
	{"multi_tensor_scale", "K=3 N=5000"}, {"multi_tensor_scale", "K=3 N=15001"}, {"multi_tensor_adam", "K=3 N=5000"}, {"multi_tensor_adam", "K=3 N=15001"},
};
static const int rows[] = {3, 32, 48, 64, 70, 128, 187, 512, 2048};
static const int columns[] = {64, 128, 131, 134, 256, 264, 272, 512, 640, 1000, 1001, 1008, 1024, 2032, 2040, 2048, 4080, 4096, 5120, 5632, 6144, 7168, 8176, 8192, 9001, 9002, 10752, 12288, 14336, 16368, 16384,
	16401, 16402, 20000, 20480, 32784, 33024};
/* Of 8 M elements and more, for variants that fewer do not select: columns that fill all lanes, all but one, few. */
static const int many[][2] = {{512, 16384}, {520, 16376}, {1024, 8192}, {1032, 8184}, {2048, 4096}, {2056, 4088}, {8192, 1024}, {8320, 1016}, {16200, 520}};
enum { NSHAPES = sizeof shapes / sizeof *shapes, NROWS = sizeof rows / sizeof *rows, NCOLUMNS = sizeof columns / sizeof *columns, NMANY = sizeof many / sizeof *many, SMALL = 4, ENDS = 16, MOST = 24,
	MOST_ELEMENTS = 1 << 22, PERIOD = 40961, FEW = 2 };

/* A symbol that is not named is 2. */
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
	const struct variant_run *r = ctx;
	if (op == HX_STRIDE)
		return r->tensor[imm / 16].stride[imm % 16];
	const struct variant_tensor *t = &r->tensor[imm];
	if (op == HX_PRESENT)
		return t->present;
	if (op == HX_FLAT || op == HX_UNIT || !t->present)
		return 1;
	for (int i = 0; i + 1 < t->rank; i++)
		if (t->stride[i] * dtype_info(t->dtype)->bits / 8 % 16)
			return 0;
	return !r->now->shift;
}

static bool evaluate(struct variant_run *r, const struct hexpr *e, int64_t *value)
{
	struct hexpr_env env = {r->symbols, r->kernel->nsymbols, leaf, r};
	const char *why = "";
	if (hexpr_eval(e, &env, value, &why) == 0)
		return true;
	snprintf(r->err, sizeof r->err, "%s: %s", r->name, why);
	return false;
}

static int64_t value_of(struct variant_run *r, const struct hexpr *e)
{
	int64_t v = 0;
	if (!evaluate(r, e, &v)) {
		fprintf(stderr, "%s\n", r->err);
		abort();
	}
	return v;
}

static void make_shape(struct variant_run *r, const struct variant_config *c)
{
	r->now = c;
	for (int s = 0; s < r->kernel->nsymbols; s++)
		r->symbols[s] = size_of(c->sizes, r->kernel->symbols[s].name);
	const struct model_instance *in = &r->kernel->instances[r->variant->instance];
	for (int p = 0; p < r->kernel->nparams; p++) {
		const struct model_param *m = &r->kernel->params[p];
		struct variant_tensor *t = &r->tensor[p];
		*t = (struct variant_tensor){.rank = m->rank, .out = m->role != ROLE_IN, .present = m->is_tensor && (!m->optional || c->present >> p & 1)};
		t->dtype = in->native[p] ? model_native(r->variant->target, in->native[p]) : in->dtype[p];
		int64_t count = 1;
		for (int d = m->rank - 1; m->is_tensor && d >= 0; d--) {
			t->extent[d] = value_of(r, m->extent[d]);
			t->stride[d] = t->present ? count : 0;
			count *= m->list && d == 0 ? 1 : t->extent[d];
		}
		t->bytes = t->present ? (size_t)dtype_bytes(t->dtype, count) : 0;
	}
}

/* Whether a call of this configuration would select the variant.  Nobody calls a kernel for no result at all. */
static bool selects(struct variant_run *r, const struct variant_config *c)
{
	bool result = false;
	make_shape(r, c);
	for (int p = 0; p < r->kernel->nparams; p++)
		result |= r->tensor[p].out && r->tensor[p].present;
	if (!result)
		return false;
	for (int p = 0; p < r->kernel->nparams; p++) /* rows of 4-bit elements begin with a byte */
		for (int d = 0; d + 1 < r->tensor[p].rank; d++)
			if (r->tensor[p].present && r->tensor[p].stride[d] * dtype_info(r->tensor[p].dtype)->bits % 8)
				return false;
	const struct model_variant *v = r->kernel->variants;
	for (int i = 0; i < r->kernel->nvariants; i++, v++) {
		int64_t holds = 1;
		if (v->instance != r->variant->instance || strcmp(v->target, r->variant->target) != 0)
			continue;
		if (v->predicate && !evaluate(r, v->predicate, &holds))
			return false;
		if (holds)
			return v == r->variant;
	}
	return false;
}

static bool is_other(const char *name) { return !strcmp(name, "causal") || !strcmp(name, "newest"); }

static bool has_other(const struct model_kernel *k)
{
	for (int p = 0; p < k->nparams; p++)
		if (is_other(k->params[p].name))
			return true;
	return false;
}

/* Sets of optional tensors to try: those that the variant's predicate names ("with w scale", "bare"), or, where it names none,
 * all of them, all but one, none. */
static int sets_of(const struct variant_run *r, uint32_t sets[MODEL_MAX_PARAM + 2])
{
	const struct model_kernel *k = r->kernel;
	const char *with = strstr(r->variant->predicate_text, " with ");
	uint32_t all = 0, named = 0;
	int n = 0;
	for (int p = 0; p < k->nparams; p++) {
		all |= k->params[p].optional ? 1u << p : 0;
		for (const char *at = with; at && (at = strstr(at + 1, k->params[p].name)) != NULL;) {
			char end = at[strlen(k->params[p].name)];
			named |= k->params[p].optional && at[-1] == ' ' && (end == ' ' || !end) ? 1u << p : 0;
		}
	}
	if (with || strstr(r->variant->predicate_text, " bare")) {
		sets[n++] = named;
		return n;
	}
	sets[n++] = all;
	for (int p = 0; p < k->nparams; p++)
		if (k->params[p].optional)
			sets[n++] = all & ~(1u << p);
	bool needed = false;                                   /* a result, without any optional one */
	for (int p = 0; p < k->nparams; p++)
		needed |= k->params[p].role != ROLE_IN && !k->params[p].optional;
	if (n > 2 && needed)
		sets[n++] = 0;
	return n;
}

/* One shape with the first set of optional tensors that selects the variant, and with others, each time later ones: so many in all. */
enum { ONE = 1, TWO = 2, ALL = MODEL_MAX_PARAM + 2 };
static void add_configs(struct variant_run *r, const char *sizes, bool shift, int most)
{
	uint32_t sets[MODEL_MAX_PARAM + 2];
	int n = sets_of(r, sets), added = 0, start = r->nconfigs / 2;
	for (int i = 0; i < n && added < most; i++) {
		struct variant_config c = {.present = sets[i ? 1 + (i - 1 + start) % (n - 1) : 0], .shift = shift};
		memcpy(c.sizes, sizes, strlen(sizes) + 1);
		for (int other = 0; other < 1 + has_other(r->kernel) && r->nconfigs < VARIANT_CONFIGS; other++) {
			c.other = other;
			if (!selects(r, &c))
				continue;
			r->config[r->nconfigs++] = c;
			added++;
		}
	}
}

static int by_size(const void *a, const void *b)
{
	const int *x = a, *y = b;
	int64_t d = (int64_t)rows[x[0]] * columns[x[1]] - (int64_t)rows[y[0]] * columns[y[1]];
	return d < 0 ? -1 : d > 0;
}

static void add_pair(struct variant_run *r, int m, int n, bool shift, int most)
{
	char sizes[64];
	snprintf(sizes, sizeof sizes, "M=%d N=%d E=5 S=%d", m, n, m);
	add_configs(r, sizes, shift, most);
}

static void find_configs(struct variant_run *r)
{
	int pairs[NROWS * NCOLUMNS][2], n = 0;
	bool own = false;
	for (int i = 0; i < NSHAPES; i++)
		for (int shift = 0; shift < 2 && !strcmp(shapes[i].kernel, r->kernel->name); shift++) {
			own = true;
			add_configs(r, shapes[i].sizes, shift, TWO);
		}
	if (own)
		return;
	for (int i = 0; i < NROWS * NCOLUMNS; i++, n++) {
		pairs[n][0] = i / NCOLUMNS;
		pairs[n][1] = i % NCOLUMNS;
	}
	qsort(pairs, (size_t)n, sizeof *pairs, by_size);
	for (int i = 0; i < n && r->nconfigs < SMALL && (!r->nconfigs || rows[pairs[i][0]] * columns[pairs[i][1]] <= MOST_ELEMENTS); i++)
		add_pair(r, rows[pairs[i][0]], columns[pairs[i][1]], false, TWO);
	for (int i = 0, none = !r->nconfigs; none && i < NMANY; i++)
		add_pair(r, many[i][0], many[i][1], false, ONE);
	bool any = strcmp(r->variant->predicate_text, "any") == 0;
	for (int i = 0, had = r->nconfigs; any && i < ENDS; i++, had = r->nconfigs) {   /* a run of 16 ends anywhere, in both directions */
		add_pair(r, 65 + i, 129 + i, false, ONE);
		if (r->nconfigs == had)                  /* whole vectors: what else makes a call unaligned */
			add_pair(r, 65 + i, 129 + i, true, ONE);
	}
	int most = r->nconfigs + MOST - SMALL;
	for (int m = NROWS, small = r->nconfigs; m-- > 3;)  /* more rows than a tile of 64 has, or than a wave, at the first width that fits */
		for (int i = 0, had = r->nconfigs; i < NCOLUMNS && r->nconfigs == had && r->nconfigs < most - 6; i++)
			add_pair(r, rows[m], columns[i], false, had == small ? ALL : TWO);
	for (int i = NCOLUMNS; i-- > 0 && r->nconfigs < most - 4;)   /* long rows, which have all waves: of as few as the variant takes */
		for (int m = 0, had = r->nconfigs; m < NROWS && r->nconfigs == had && rows[m] * columns[i] <= MOST_ELEMENTS; m++)
			add_pair(r, rows[m], columns[i], false, TWO);
	add_pair(r, rows[0], 0, false, TWO);
	add_pair(r, rows[0], 0, true, TWO);
}

/* ---- contents */

/* Where the first group of rows or elements ends. */
static int64_t group_end(int64_t all) { return all * 4 / 7; }

/* Numbers of tokens: none, parts of the rows that end at different places of a tile, and all or more than there are. */
static void fill_tokens(struct variant_run *r, struct variant_tensor *t)
{
	int64_t all = r->tensor[0].extent[1], beyond = (r->now - r->config) % 2;
	const int64_t tokens[] = {0, group_end(all), all * 3 / 4, all / 2 + 1, all + beyond};
	for (int64_t i = 0; i < t->extent[0]; i++)
		memcpy(t->data + 4 * i, &(int32_t){(int32_t)tokens[i % 5]}, 4);
}

/* First rows of groups: ascending, with an empty group. */
static void fill_indices(struct variant_run *r, struct variant_tensor *t)
{
	int64_t n = t->extent[0], all = r->tensor[0].extent[0];
	for (int64_t i = 0; i < n; i++)
		memcpy(t->data + 4 * i, &(int32_t){(int32_t)(i == 0 ? 0 : i + 1 == n ? all : group_end(all))}, 4);
}

/* The largest numbers; in every second configuration vectors, which meet each row of a matrix, have none.  Groups of elements that lie
 * one after the other have a larger one where the second begins, for whoever reads one too many of the first. */
static void put_peaks(struct variant_run *r, struct variant_tensor *t, int64_t width, int64_t height)
{
	int64_t turn = r->now - r->config, rows_of = t->rank > 2 ? t->extent[t->rank - 2] : height; /* of the last matrix, which is never empty */
	size_t step = (size_t)dtype_info(t->dtype)->bits / 8;
	uint32_t code = num_from_f32(16, t->dtype, false), more = num_from_f32(64, t->dtype, false);
	if (t->rank == 1 && t == r->tensor && t->extent[0])
		memcpy(t->data + (size_t)group_end(t->extent[0]) * step, &more, step);
	if (!rows_of || (t->rank == 1 && turn % 2 == 0))
		return;
	int64_t at = (height - rows_of + turn * 8 % rows_of) * width + (turn * 33 + turn / 4 * 32) % (width < 64 ? width : 64);
	for (int i = 0; i < 2; i++, at += width / 2)
		if ((size_t)(at + 1) * step <= t->bytes)
			memcpy(t->data + (size_t)at * step, &code, step);
}

static void fill(struct variant_run *r, int p)
{
	struct variant_tensor *t = &r->tensor[p];
	const char *name = r->kernel->params[p].name;
	uint32_t x = 12345 + (uint32_t)p;
	int bits = dtype_info(t->dtype)->bits;
	size_t step = bits < 8 ? 1 : (size_t)bits / 8;
	memset(t->memory, 0xa5, t->bytes + 2 * VARIANT_GUARD);
	if (r->kernel->params[p].role == ROLE_OUT)
		return;
	if (t->dtype == DT_I32) {
		(strcmp(name, "tokens") == 0 ? fill_tokens : fill_indices)(r, t);
		return;
	}
	bool state = t->out, one = t->bytes == step;          /* state of an optimiser, amax: not negative */
	int64_t width = t->rank && t->extent[t->rank - 1] ? t->extent[t->rank - 1] : 1, height = (int64_t)(t->bytes / step) / width;
	size_t own = t->bytes < PERIOD * step ? t->bytes : PERIOD * step;
	for (size_t i = 0; i + step <= own; i += step) {
		x = x * 1664525 + 1013904223;
		float f = (float)(int32_t)x / 2147483648.0f * (t->dtype == DT_I8 ? 127 : 2);
		int64_t at = (int64_t)(i / step), m = at / width, n = at % width;
		f = t->dtype == DT_I8 ? f : ldexpf(f, -(int)(n % 5 + n / 32 % 3 + m % 7 + m / 32 % 3));
		f = state && f < 0 ? -f : one ? 0x1p-12f : f;
		uint32_t code = bits < 8 ? x >> 24 : t->dtype == DT_E8M0 ? 120 + (x >> 29) : t->dtype == DT_I8 ? (uint32_t)(int32_t)f : num_from_f32(f, t->dtype, false);
		memcpy(t->data + i, &code, step);
	}
	for (size_t i = own; i < t->bytes; i += own)          /* the same again, at other places of other rows */
		memcpy(t->data + i, t->data, t->bytes - i < own ? t->bytes - i : own);
	if (bits >= 16 && !one)
		put_peaks(r, t, width, height);
}

/* A list's tensors lie one after the other in its memory: the first and the last share it, by whole vectors, what is between is empty. */
static void fill_table(struct variant_tensor *t)
{
	int64_t k = t->extent[0], n = t->extent[1], first = n * 4 / 7 / 8 * 8;
	t->table_bytes = (size_t)k * 12;
	t->table = aligned_alloc(256, 256 + t->table_bytes / 256 * 256);
	for (int64_t i = 0; i < k; i++) {
		int64_t from = i ? first : 0, to = i + 1 == k ? n : first;
		uint64_t address = (uint64_t)(uintptr_t)(t->data + dtype_bytes(t->dtype, from));
		int32_t length = (int32_t)(to - from);
		memcpy(t->table + 8 * i, &address, 8);
		memcpy(t->table + 8 * k + 4 * i, &length, 4);
	}
}

static void free_tensors(struct variant_run *r)
{
	for (int p = 0; p < r->kernel->nparams; p++) {
		free(r->tensor[p].table);
		r->tensor[p].table = NULL;
		free(r->tensor[p].memory);
		free(r->tensor[p].start);
		r->tensor[p].memory = r->tensor[p].start = NULL;
	}
	free(r->workspace);
	r->workspace = NULL;
}

void variant_config(struct variant_run *r, int i)
{
	variant_configs(r);
	free_tensors(r);
	make_shape(r, &r->config[i]);
	for (int p = 0; p < r->kernel->nparams; p++) {
		struct variant_tensor *t = &r->tensor[p];
		if (!t->present)
			continue;
		int bits = dtype_info(t->dtype)->bits;
		t->memory = aligned_alloc(256, (t->bytes + 2 * VARIANT_GUARD + 16 + 255) / 256 * 256);
		t->data = t->memory + VARIANT_GUARD + (r->now->shift ? (bits + 7) / 8 : 0);
		fill(r, p);
		if (r->kernel->params[p].list)
			fill_table(t);
		if (r->kernel->params[p].role == ROLE_INOUT && t->bytes) {
			t->start = malloc(t->bytes);
			memcpy(t->start, t->data, t->bytes);
		}
	}
	r->workspace_bytes = r->variant->workspace ? (size_t)value_of(r, r->variant->workspace) : 0;
	r->workspace = r->workspace_bytes ? aligned_alloc(256, (r->workspace_bytes + 255) / 256 * 256) : NULL;
}

int variant_configs(struct variant_run *r)
{
	if (!r->nconfigs)
		find_configs(r);
	if (!r->nconfigs) {
		fprintf(stderr, "%s: no shape selects it\n", r->name);
		abort();
	}
	return r->nconfigs;
}

bool variant_open(struct variant_run *r, const struct model_pack *pack, const struct model_kernel *k, const struct model_variant *v)
{
	memset(r, 0, sizeof *r);
	r->kernel = k;
	r->variant = v;
	snprintf(r->name, sizeof r->name, "%s %s %s %s", k->name, k->instances[v->instance].name, v->target, v->predicate_text);
	const struct model_object *o = r->file = &pack->objects[v->object];
	return sim_object_load(&r->object, sim_chip_by_name(v->target), o->bytes, o->size, r->err, sizeof r->err) == 0;
}

void variant_close(struct variant_run *r)
{
	free_tensors(r);
	sim_object_free(r->object);
}

/* ---- running */

static int64_t scalar_bits(const struct variant_run *r, int p)
{
	const struct model_param *m = &r->kernel->params[p];
	double d = is_other(m->name) ? r->now->other : m->has_default ? m->default_value : 0.125;
	enum dtype t = r->kernel->instances[r->variant->instance].dtype[p];
	int64_t v = 0;
	float f = (float)d;
	if (t == DT_I32 || t == DT_I64)
		return (int64_t)d;
	memcpy(&v, &f, 4);
	return v;
}

static void arguments(struct variant_run *r, const struct model_launch *l, uint8_t *block)
{
	for (int i = 0; i < l->nkargs; i++) {
		const struct model_karg *k = &l->kargs[i];
		const struct variant_tensor *t = &r->tensor[k->a];
		int64_t v = 0;
		switch (k->kind) {
		case KA_POINTER: v = (int64_t)(uintptr_t)(t->table ? t->table : t->data); break;
		case KA_STRIDE: case KA_STRIDE32: v = t->stride[k->b]; break;
		case KA_SYMBOL: v = r->symbols[k->a]; break;
		case KA_FOLD_INNER: v = 1; break;
		case KA_FOLD_STRIDE: v = t->stride[0]; break;
		case KA_SCALAR: v = scalar_bits(r, k->a); break;
		case KA_WORKSPACE: v = (int64_t)(uintptr_t)r->workspace; break;
		default: v = value_of(r, l->exprs[k->b]);
		}
		memcpy(block + k->offset, &v, k->size);
	}
}

bool variant_many(struct variant_run *r)
{
	int64_t most = 0;
	for (int i = 0; i < r->variant->nlaunches; i++) {
		int64_t groups = 1;
		for (int k = 0; k < 3; k++)
			groups *= value_of(r, r->variant->launches[i].grid[k]);
		most = groups > most ? groups : most;
	}
	return most > FEW;
}

int variant_go(struct variant_run *r, bool checks, uint64_t seed, uint64_t limit, bool few)
{
	int rc = 0;
	for (int p = 0; p < r->kernel->nparams; p++) {         /* inputs cannot be written */
		struct variant_tensor *t = &r->tensor[p];
		if (!t->present || !t->out)
			continue;
		memset(t->memory, 0xa5, t->bytes + 2 * VARIANT_GUARD);
		if (t->start)
			memcpy(t->data, t->start, t->bytes);
	}
	if (r->workspace)
		memset(r->workspace, 0xa5, r->workspace_bytes);
	for (int i = 0; rc == 0 && i < r->variant->nlaunches; i++) {
		const struct model_launch *l = &r->variant->launches[i];
		_Alignas(64) uint8_t block[1024] = {0};
		struct sim_memory *m = sim_memory_new();
		arguments(r, l, block);
		for (int p = 0; p < r->kernel->nparams; p++)
			if (r->tensor[p].present)
				sim_memory_add(m, r->tensor[p].data, r->tensor[p].bytes, r->kernel->params[p].name, r->tensor[p].out);
		for (int p = 0; p < r->kernel->nparams; p++)
			if (r->tensor[p].table)
				sim_memory_add(m, r->tensor[p].table, r->tensor[p].table_bytes, r->kernel->params[p].name, false);
		if (r->workspace)
			sim_memory_add(m, r->workspace, r->workspace_bytes, "workspace", true);
		struct sim_launch s = {.object = r->object, .kernel = sim_object_kernel(r->object, l->symbol), .memory = m,
			.block = {(uint32_t)(l->lanes ? value_of(r, l->lanes) : l->block), 1, 1}, .kernarg = block, .kernarg_size = ((size_t)l->kernarg_bytes + 64) / 64 * 64, .seed = seed,
			.checks = checks, .max_inst = limit, .threads = 1, .few = few ? FEW : 0, .stats = &r->stats};
		for (int k = 0; k < 3; k++)
			s.grid[k] = (uint32_t)value_of(r, l->grid[k]);
		rc = sim_run(&s, r->err, sizeof r->err);
		sim_memory_free(m);
	}
	return rc;
}

static uint64_t hash_of(uint64_t h, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i += 8) {
		uint64_t word = 0;
		memcpy(&word, bytes + i, n - i < 8 ? n - i : 8);
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h;
}

uint64_t variant_outputs(const struct variant_run *r)
{
	uint64_t h = 14695981039346656037u;
	for (int p = 0; p < r->kernel->nparams; p++)
		if (r->tensor[p].out && r->tensor[p].memory)
			h = hash_of(h, r->tensor[p].memory, r->tensor[p].bytes + 2 * VARIANT_GUARD);
	return r->workspace ? hash_of(h, r->workspace, r->workspace_bytes) : h;
}

uint64_t variant_code_end(const struct sim_object *o, const struct sim_kernel *k)
{
	uint64_t end = o->image_size;
	for (int j = 0; j < o->nkernels; j++)
		if (o->kernels[j].entry > k->entry && o->kernels[j].entry < end)
			end = o->kernels[j].entry;
	for (int s = 0; s < o->nsegments; s++) {
		const struct sim_segment *g = &o->segments[s];
		if (g->executable && g->offset <= k->entry && g->offset + g->size > k->entry && g->offset + g->size < end)
			end = g->offset + g->size;
	}
	return end;
}
