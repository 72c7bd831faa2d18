/* dsl.c -- the front end's entry: parses the library and a text, and lists what the text declares.
 *
 * In: bytes.  Out: struct dsl_file with its kernels, their choices of types, schedules and the pack's instances.  What does not
 * depend on types is checked here, so that `tdslc check` finds it without choosing an instance. */
#include "dsl.h"

#include <string.h>

#include "elab.h"

enum { MAX_TYPES = 8, MAX_CHOICES = 256, MAX_DECLARATIONS = 1000 };

/* --- choices of types */

static struct dsl_binding binding_of(struct arena *ar, const struct ast_kernel *k, const char *const *chosen)
{
	struct dsl_binding b = {.text = ""};
	for (int t = 0; t < k->types.n; t++) {
		struct type type = type_named(chosen[t]);
		b.types[t] = type.dtype;
		b.native[t] = (uint8_t)type.native;
		b.text = arena_printf(ar, "%s%s%s=%s", b.text, t ? "," : "", k->types.items[t].name.text, chosen[t]);
	}
	return b;
}

struct bindings { struct dsl_binding *items; int n, cap; };
struct pins { struct dsl_pin *items; int n, cap; };
struct sets { struct dsl_set *items; int n, cap; };

static bool names_same(const struct dsl_set *a, const struct dsl_set *b)
{
	int same = 0;
	for (int i = 0; i < a->n; i++)
		for (int j = 0; j < b->n; j++)
			same += strcmp(a->tensors[i].name, b->tensors[j].name) == 0 && a->tensors[i].asked == b->tensors[j].asked;
	return a->n == b->n && same == a->n;
}

struct dsl_set dsl_set_joined(struct arena *ar, const struct dsl_set *a, const struct dsl_set *b)
{
	struct pins pins = {0};
	for (int i = 0; i < a->npins; i++)
		ARENA_PUSH(ar, &pins, a->pins[i]);
	for (int i = 0; i < b->npins; i++) {
		bool known = false;
		for (int j = 0; j < pins.n; j++)
			known |= strcmp(pins.items[j].symbol, b->pins[i].symbol) == 0 && pins.items[j].value == b->pins[i].value;
		if (!known)
			ARENA_PUSH(ar, &pins, b->pins[i]);
	}
	return (struct dsl_set){a->tensors, a->n, pins.items, pins.n};
}

/* What lines before said of an instance, and what one more says. */
static const struct dsl_special *special_joined(struct arena *ar, const struct dsl_special *a, const struct dsl_special *b)
{
	struct sets sets = {0};
	for (int i = 0; i < a->nsets; i++)
		ARENA_PUSH(ar, &sets, a->sets[i]);
	for (int i = 0; i < b->nsets; i++) {
		int known = 0;
		while (known < sets.n && !names_same(&sets.items[known], &b->sets[i]))
			known++;
		if (known < sets.n)
			sets.items[known] = dsl_set_joined(ar, &sets.items[known], &b->sets[i]);
		else
			ARENA_PUSH(ar, &sets, b->sets[i]);
	}
	const struct dsl_special both = {sets.items, sets.n};
	return arena_copy(ar, &both, sizeof both);
}

const struct dsl_special *dsl_special_with(struct arena *ar, const struct dsl_special *s, const struct dsl_set *set)
{
	struct dsl_set none = {0}, more = *set;
	const struct dsl_special nothing = {&none, 1}, one = {&more, 1};
	return special_joined(ar, s && s->nsets ? s : &nothing, &one);
}

/* Every combination, the last parameter fastest; choices[t] are those of parameter t.  special: NULL = of no pack line. */
static void combine(struct arena *ar, const struct ast_kernel *k, const struct ast_names *choices, const struct dsl_special *special,
                    struct bindings *out)
{
	const char *chosen[MAX_TYPES];
	int at[MAX_TYPES] = {0}, t;
	do {
		for (t = 0; t < k->types.n; t++)
			chosen[t] = choices[t].items[at[t]].text;
		struct dsl_binding b = binding_of(ar, k, chosen);
		int known = 0;
		while (known < out->n && strcmp(out->items[known].text, b.text))
			known++;
		if (known == out->n)
			ARENA_PUSH(ar, out, b);
		const struct dsl_special **of = &out->items[known].special;
		*of = *of && special ? special_joined(ar, *of, special) : special;
		for (t = k->types.n - 1; t >= 0 && ++at[t] == choices[t].n; t--)
			at[t] = 0;
	} while (t >= 0 && out->n < MAX_CHOICES);
}

static bool check_types(struct diag *d, const struct ast_kernel *k)
{
	bool good = true;
	if (k->types.n > MAX_TYPES) {
		diag_add(d, DIAG_E_TYPE_PARAMS, k->name.at, MAX_TYPES);
		return false;
	}
	for (int t = 0; t < k->types.n; t++) {
		const struct ast_typeparam *p = &k->types.items[t];
		if (type_named(p->name.text).dtype != DT_NONE || type_parameter(k, p->name.text) != t) {
			diag_add(d, DIAG_E_TAKEN, p->name.at, p->name.text);
			good = false;
		}
		for (int i = 0; i < p->choices.n; i++)
			if (type_named(p->choices.items[i].text).dtype == DT_NONE) {
				diag_add(d, DIAG_E_TYPE_NAME, p->choices.items[i].at, p->choices.items[i].text);
				good = false;
			}
	}
	return good;
}

static void list_all(struct arena *ar, const struct ast_kernel *k, struct dsl_kernel *out)
{
	struct ast_names choices[MAX_TYPES];
	struct bindings all = {0};
	for (int t = 0; t < k->types.n; t++)
		choices[t] = k->types.items[t].choices;
	combine(ar, k, choices, NULL, &all);
	out->all = all.items;
	out->nall = all.n;
}

/* A line of a pack or a schedule speaks of a kernel by its name, and of all instances of a template by the template's. */
static bool speaks_of(const char *name, const struct ast_kernel *k)
{
	return strcmp(name, k->name.text) == 0 || (k->of.text && strcmp(name, k->of.text) == 0);
}

/* --- pack: `rmsnorm_quant: T bf16 f16, Q fp8, N 4096 8192` */

static bool is_choice(const struct ast_typeparam *p, const char *name)
{
	for (int i = 0; i < p->choices.n; i++)
		if (strcmp(p->choices.items[i].text, name) == 0)
			return true;
	return false;
}

static void pack_types(struct diag *d, struct arena *ar, const struct ast_typeparam *p, const struct ast_entry *e, struct ast_names *chosen)
{
	*chosen = (struct ast_names){0};
	for (int i = 0; i < e->values.n; i++) {
		const struct ast_word *w = &e->values.items[i];
		if (!is_choice(p, w->text))
			diag_add(d, DIAG_E_PACK_TYPE, w->at, w->text, p->name.text);
		else
			ARENA_PUSH(ar, chosen, (struct ast_name){w->text, w->at});
	}
	if (!chosen->n)
		*chosen = p->choices;
}

static void pack_sizes(struct diag *d, struct arena *ar, const struct ast_entry *e, struct pins *pins)
{
	for (int i = 0; i < e->values.n; i++) {
		const struct ast_word *w = &e->values.items[i];
		if (!w->is_number || w->number < 1 || w->number > INT32_MAX)
			diag_add(d, DIAG_E_PACK_SIZE, w->at, w->text, e->name.text);
		else
			ARENA_PUSH(ar, pins, (struct dsl_pin){e->name.text, w->number});
	}
}

static void pack_given(struct diag *d, struct arena *ar, const struct model_kernel *m, const struct ast_entry *e, struct sets *sets)
{
	struct dsl_tensor *tensors = arena_alloc(ar, (size_t)(e->values.n + 1) * sizeof *tensors);
	int n = 0;
	for (int i = 0; i < e->values.n; i++) {
		const struct ast_word *w = &e->values.items[i];
		bool optional = false, twice = false;
		for (int p = 0; p < m->nparams; p++)
			optional |= m->params[p].optional && strcmp(m->params[p].name, w->text) == 0;
		for (int t = 0; t < n; t++)
			twice |= strcmp(tensors[t].name, w->text) == 0;
		if (!optional || twice)
			diag_add(d, optional ? DIAG_E_PACK_TWICE : DIAG_E_PACK_GIVEN, w->at, w->text, m->name);
		else
			tensors[n++] = (struct dsl_tensor){w->text, w->asked};
	}
	ARENA_PUSH(ar, sets, (struct dsl_set){tensors, n, NULL, 0});
}

static bool is_symbol(const struct model_kernel *m, const char *name)
{
	for (int i = 0; i < m->nsymbols; i++)
		if (strcmp(m->symbols[i].name, name) == 0)
			return true;
	return false;
}

/* `act_rows: none`: in the pack by name and types only, compiled when it is called. */
static bool left_out(const struct ast_line *line)
{
	return line->entries.n == 1 && !line->entries.items[0].values.n && strcmp(line->entries.items[0].name.text, "none") == 0;
}

static void list_packed(struct arena *ar, struct diag *d, const struct ast_file *file, const struct model_kernel *m, struct dsl_kernel *out)
{
	const struct ast_kernel *k = out->ast;
	struct bindings packed = {0};
	const struct dsl_special *first = NULL;
	bool named = false;
	for (int l = 0; l < file->packs.n; l++) {
		const struct ast_line *line = &file->packs.items[l];
		struct ast_names chosen[MAX_TYPES];
		struct pins pins = {0};
		struct sets sets = {0};
		if (!speaks_of(line->name.text, k))
			continue;
		named = true;
		if (left_out(line))
			continue;
		for (int t = 0; t < k->types.n; t++)
			chosen[t] = k->types.items[t].choices;
		for (int i = 0; i < line->entries.n; i++) {
			const struct ast_entry *e = &line->entries.items[i];
			int t = type_parameter(k, e->name.text);
			if (t >= 0)
				pack_types(d, ar, &k->types.items[t], e, &chosen[t]);
			else if (is_symbol(m, e->name.text))
				pack_sizes(d, ar, e, &pins);
			else if (strcmp(e->name.text, "with") == 0)
				pack_given(d, ar, m, e, &sets);
			else
				diag_add(d, DIAG_E_PACK_NAME, e->name.at, e->name.text, k->name.text);
		}
		if (!sets.n)
			ARENA_PUSH(ar, &sets, (struct dsl_set){0});
		for (int i = 0; i < sets.n; i++) {
			sets.items[i].pins = pins.items;
			sets.items[i].npins = pins.n;
		}
		const struct dsl_special special = {sets.items, sets.n}, *copy = arena_copy(ar, &special, sizeof special);
		first = first ? first : copy;
		combine(ar, k, chosen, copy, &packed);
	}
	for (int a = 0; a < out->nall; a++) {               /* compiled at run time: as in the pack, what is not in it as the first line says */
		out->all[a].special = first;
		for (int i = 0; i < packed.n; i++)
			if (strcmp(packed.items[i].text, out->all[a].text) == 0)
				out->all[a].special = packed.items[i].special;
	}
	out->packed = named ? packed.items : out->all;
	out->npacked = named ? packed.n : out->nall;
}

/* --- schedules */

static bool block_binds(const struct ast_block *b, const char *name)
{
	for (int i = 0; i < b->n; i++) {
		const struct ast_stmt *s = b->items[i];
		for (int j = 0; j < s->binders.n; j++)
			if (strcmp(s->binders.items[j].name.text, name) == 0)
				return true;
		if (s->kind == STMT_ASSIGN && s->rhs.hi && s->lhs.items[0]->name && strcmp(s->lhs.items[0]->name, name) == 0)
			return true;
		if (block_binds(&s->body, name) || block_binds(&s->other, name))
			return true;
	}
	return false;
}

/* Words of a schedule that are not names of indices: 1 = takes a value, 0 = stands alone, -1 = is none. */
static int schedule_word(const char *name)
{
	static const struct { const char *name; int value; } words[] = {
		{"waves", 1}, {"stages", 1}, {"split", 1}, {"group", 1}, {"unroll", 1}, {"vector", 1}, {"occupancy", 1},
		{"pingpong", 0}, {"persistent", 0}, {"swizzle", 0}, {"stream", 0}};
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i].name, name) == 0)
			return words[i].value;
	return -1;
}

static struct dsl_schedule schedule_line(struct arena *ar, struct diag *d, const struct ast_kernel *k, const struct ast_line *line)
{
	struct dsl_schedule s = {strcmp(line->name.text, "any") ? line->name.text : "", arena_alloc(ar, ((size_t)line->entries.n + 1) * sizeof(struct dsl_knob)), 0};
	if (s.target[0] && model_native(s.target, 8) == DT_NONE)
		diag_add(d, DIAG_E_TARGET, line->name.at, s.target);
	for (int i = 0; i < line->entries.n; i++) {
		const struct ast_entry *e = &line->entries.items[i];
		const struct ast_word *w = e->values.n ? &e->values.items[0] : NULL;
		int takes = block_binds(&k->body, e->name.text) ? 1 : schedule_word(e->name.text);
		if (takes < 0)
			diag_add(d, DIAG_E_KNOB, e->name.at, e->name.text, k->name.text);
		else if (!takes && w)
			diag_add(d, DIAG_E_KNOB_ALONE, e->name.at, e->name.text);
		else if (takes && (e->values.n != 1 || !w->is_number || w->number < 1 || w->number > 65536))
			diag_add(d, DIAG_E_KNOB_VALUE, e->name.at, e->name.text);
		else
			s.knobs[s.nknobs++] = (struct dsl_knob){e->name.text, w ? (int)w->number : 0, w != NULL, w ? span_join(e->name.at, w->at) : e->name.at};
	}
	return s;
}

static void list_schedules(struct arena *ar, struct diag *d, const struct ast_file *file, struct dsl_kernel *out)
{
	struct { struct dsl_schedule *items; int n, cap; } list = {0};
	for (int general = 0; general < 2; general++)
		for (int i = 0; i < file->schedules.n; i++) {
			const struct ast_schedule *s = file->schedules.items[i];
			for (int l = 0; l < s->lines.n && speaks_of(s->kernel.text, out->ast); l++)
				if ((strcmp(s->lines.items[l].name.text, "any") == 0) == general)
					ARENA_PUSH(ar, &list, schedule_line(ar, d, out->ast, &s->lines.items[l]));
		}
	out->schedules = list.items;
	out->nschedules = list.n;
}

/* --- the file */

static const struct ast_kernel *kernel_named(const struct ast_file *f, const char *name)
{
	for (int i = 0; i < f->kernels.n + f->templates.n; i++) {
		const struct ast_kernel *k = i < f->kernels.n ? f->kernels.items[i] : f->templates.items[i - f->kernels.n];
		if (strcmp(k->name.text, name) == 0)
			return k;
	}
	return NULL;
}

/* Each parameter has a name of its own, and types with a default stand behind the parameters that every call gives. */
static void check_fn_params(struct diag *d, const struct ast_fn *fn)
{
	bool defaults = false;
	for (int i = 0; i < fn->params.n; i++) {
		const struct ast_fnparam *p = &fn->params.items[i];
		bool taken = type_named(p->name.text).dtype != DT_NONE;
		for (int j = 0; j < i; j++)
			taken |= strcmp(fn->params.items[j].name.text, p->name.text) == 0;
		if (taken)
			diag_add(d, DIAG_E_TAKEN, p->name.at, p->name.text);
		if (p->value && (p->value->kind != AST_NAME || type_named(p->value->name).dtype == DT_NONE))
			diag_add(d, DIAG_E_DEFAULT_PARAM, p->value->at, p->name.text);
		if (defaults && !p->value && !p->is_axis)
			diag_add(d, DIAG_E_PARAM_ORDER, p->name.at, p->name.text);
		defaults |= p->value != NULL;
	}
}

/* kernels: as in dsl_parse; lines of a pack and schedules are looked at where all are wanted. */
static void check_names(struct diag *d, const struct ast_file *f, const char *const *kernels)
{
	for (int i = 0; i < f->kernels.n; i++)
		if (ast_wanted(f->kernels.items[i], kernels) && kernel_named(f, f->kernels.items[i]->name.text) != f->kernels.items[i])
			diag_add(d, DIAG_E_TAKEN, f->kernels.items[i]->name.at, f->kernels.items[i]->name.text);
	for (int i = 0; !kernels && i < f->templates.n; i++)
		if (kernel_named(f, f->templates.items[i]->name.text) != f->templates.items[i])
			diag_add(d, DIAG_E_TAKEN, f->templates.items[i]->name.at, f->templates.items[i]->name.text);
	for (int i = 0; i < f->fns.n; i++) {
		const struct ast_fn *fn = f->fns.items[i];
		bool twice = false;
		for (int j = 0; j < i; j++)
			twice |= strcmp(f->fns.items[j]->name.text, fn->name.text) == 0 && f->fns.items[j]->name.at.file == fn->name.at.file;
		if (twice || builtin_exists(fn->name.text) || type_named(fn->name.text).dtype != DT_NONE)
			diag_add(d, DIAG_E_TAKEN, fn->name.at, fn->name.text);
		check_fn_params(d, fn);
	}
	for (int i = 0; !kernels && i < f->schedules.n; i++)
		if (!kernel_named(f, f->schedules.items[i]->kernel.text))
			diag_add(d, DIAG_E_UNKNOWN_KERNEL, f->schedules.items[i]->kernel.at, f->schedules.items[i]->kernel.text);
	for (int i = 0; !kernels && i < f->packs.n; i++)
		if (!kernel_named(f, f->packs.items[i].name.text))
			diag_add(d, DIAG_E_UNKNOWN_KERNEL, f->packs.items[i].name.at, f->packs.items[i].name.text);
}

static void list_kernels(struct arena *ar, struct diag *d, const struct ast_file *ast, const char *const *kernels, struct dsl_file *out)
{
	out->kernels = arena_alloc(ar, ((size_t)ast->kernels.n + 1) * sizeof *out->kernels);
	for (int i = 0; i < ast->kernels.n && !d->full; i++) {
		struct ast_kernel *k = ast->kernels.items[i];
		struct dsl_kernel *to = &out->kernels[out->nkernels++];
		struct model_kernel m;
		*to = (struct dsl_kernel){.name = k->name.text, .doc = k->doc, .line = k->name.at.line, .ast = k};
		if (!ast_wanted(k, kernels))
			continue;
		for (int s = 0; s < k->body.n; s++)
			to->temps |= k->body.items[s]->kind == STMT_TEMP;
		bool types = check_types(d, k);
		if (signature_build(ar, d, k, &m) < 0 || !types)
			continue;
		list_all(ar, k, to);
		list_packed(ar, d, ast, &m, to);
		list_schedules(ar, d, ast, to);
	}
}

int dsl_parse(struct arena *ar, const char *text, size_t n, const char *file, const char *library, const char *const *kernels, struct diag *d,
              struct dsl_file **out)
{
	struct ast_file *ast = arena_alloc(ar, sizeof *ast);
	int before = d->reported;
	d->file = file;
	d->source = text;
	d->size = n;
	d->library = library ? library : dsl_library;
	d->library_size = strlen(d->library);
	if (!d->arena)
		d->arena = ar;
	parse_text(ar, d->library, d->library_size, 1, d, ast);
	parse_text(ar, text, n, 0, d, ast);
	struct dsl_file *f = arena_alloc(ar, sizeof *f);
	f->name = file;
	f->ast = ast;
	if (ast->kernels.n + ast->templates.n + ast->fns.n + ast->schedules.n + ast->packs.n > MAX_DECLARATIONS)
		diag_add(d, DIAG_E_DECLARATIONS, (struct diag_span){0, 1, 1, 1}, MAX_DECLARATIONS);
	if (d->reported == before)
		ast_instances(ar, d, ast, kernels);
	if (d->reported == before) {
		check_names(d, ast, kernels);
		list_kernels(ar, d, ast, kernels, f);
	}
	if (d->reported != before)
		return -1;
	*out = f;
	return 0;
}

char *dsl_dump(struct arena *ar, const struct dsl_file *file, const struct dsl_kernel *k)
{
	(void)file;
	return ast_dump_kernel(ar, k->ast);
}
