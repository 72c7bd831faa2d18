/* report.c -- a pack's model as text: tables for people, JSON for tools.
 *
 * In: struct model_pack.  Out: text in an arena.  A variant's figures are rendered to JSON once, when it is compiled
 * (report_variant_json), and kept in the pack; `report --json` sets names around them, so both say the same. */
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- text that grows */
struct sheet { FILE *out; char *text; size_t len; };

static void sheet_open(struct sheet *s)
{
	s->text = NULL;
	s->out = open_memstream(&s->text, &s->len);
	if (!s->out)
		abort();                      /* out of memory: base/arena.h's policy */
}

static char *sheet_close(struct arena *a, struct sheet *s)
{
	fclose(s->out);
	char *copy = arena_string(a, s->text, s->len);
	free(s->text);
	return copy;
}

static void put_string(FILE *out, const char *s)
{
	fputc('"', out);
	for (; s && *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c == '\n')
			fputs("\\n", out);
		else if (c < 32)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* --- one variant's figures */
static const struct object_facts *facts_of(const struct object_facts *facts, int n, const char *symbol)
{
	for (int i = 0; i < n; i++)
		if (strcmp(facts[i].symbol, symbol) == 0)
			return &facts[i];
	return NULL;
}

static int larger(int a, int b) { return a > b ? a : b; }

static void add_facts(struct object_facts *sum, const struct object_facts *f)
{
	sum->vgpr = larger(sum->vgpr, f->vgpr);
	sum->agpr = larger(sum->agpr, f->agpr);
	sum->sgpr = larger(sum->sgpr, f->sgpr);
	sum->lds = larger(sum->lds, f->lds);
	sum->scratch = larger(sum->scratch, f->scratch);
	sum->waves_per_simd = f->waves_per_simd < sum->waves_per_simd ? f->waves_per_simd : sum->waves_per_simd;
	sum->spills += f->spills;
	sum->instructions += f->instructions;
	sum->barriers += f->barriers;
	sum->valu += f->valu;
	sum->salu += f->salu;
	sum->mfma += f->mfma;
	sum->lds_ops += f->lds_ops;
	sum->vmem += f->vmem;
	sum->smem += f->smem;
	sum->waits += f->waits;
	sum->padding += f->padding;
	if (f->loop.mfma > sum->loop.mfma || (f->loop.mfma == sum->loop.mfma && f->loop.clocks > sum->loop.clocks))
		sum->loop = f->loop;
}

static void put_facts(FILE *out, const struct object_facts *f)
{
	const struct object_loop *l = &f->loop;
	fprintf(out, "\"vgpr\":%d,\"agpr\":%d,\"sgpr\":%d,\"lds\":%d,\"scratch\":%d,\"spills\":%d,\"waves_per_simd\":%d,"
	        "\"instructions\":%d,\"barriers\":%d,\"valu\":%d,\"salu\":%d,\"mfma\":%d,\"lds_ops\":%d,\"vmem\":%d,\"smem\":%d,\"waits\":%d,"
	        "\"padding\":%d,\"loop\":{\"instructions\":%d,\"mfma\":%d,\"acc_moves\":%d,\"vmcnt0\":%d,\"bank_conflicts\":",
	        f->vgpr, f->agpr, f->sgpr, f->lds, f->scratch, f->spills, f->waves_per_simd, f->instructions, f->barriers, f->valu, f->salu,
	        f->mfma, f->lds_ops, f->vmem, f->smem, f->waits, f->padding, l->instructions, l->mfma, l->acc_moves, l->vmcnt0);
	if (l->bank_conflicts == OBJECT_UNKNOWN)
		fputs("null", out);
	else
		fprintf(out, "%d", l->bank_conflicts);
	fprintf(out, ",\"clocks\":%.0f,\"matrix_share\":%.4f}", l->clocks, l->matrix_share);
}

char *report_variant_json(struct arena *a, const struct model_launch *launches, int nlaunches, const struct object_facts *facts,
                          int nfacts, size_t object_bytes, bool ordered)
{
	struct object_facts sum = {.waves_per_simd = 16};
	struct sheet s;
	sheet_open(&s);
	for (int i = 0; i < nlaunches; i++) {
		const struct object_facts *f = facts_of(facts, nfacts, launches[i].symbol);
		if (f)
			add_facts(&sum, f);
	}
	fprintf(s.out, "{\"object_bytes\":%zu,\"ordered\":%s,", object_bytes, ordered ? "true" : "false");
	put_facts(s.out, &sum);
	if (nlaunches > 1) {
		fputs(",\"launches\":[", s.out);
		for (int i = 0; i < nlaunches; i++) {
			const struct object_facts *f = facts_of(facts, nfacts, launches[i].symbol);
			fprintf(s.out, "%s{\"symbol\":", i ? "," : "");
			put_string(s.out, launches[i].symbol);
			fputc(',', s.out);
			put_facts(s.out, f ? f : &sum);
			fputc('}', s.out);
		}
		fputc(']', s.out);
	}
	fputc('}', s.out);
	return sheet_close(a, &s);
}

/* Number of a key in JSON made above; the first one of that name after `from`.  NAN where it is absent or null. */
static double json_number(const char *json, const char *from, const char *key)
{
	char quoted[64];
	const char *p = json ? strstr(json, from) : NULL;
	snprintf(quoted, sizeof quoted, "\"%s\":", key);
	p = p ? strstr(p, quoted) : NULL;
	if (!p || strncmp(p + strlen(quoted), "null", 4) == 0)
		return NAN;
	return strtod(p + strlen(quoted), NULL);
}

/* --- tables: cells first, widths after */
enum { COLUMNS = 22 };
struct table { struct arena *a; ARRAY(const char **) rows; int columns; int text_columns; };

static void table_row(struct table *t, const char **cells)
{
	ARENA_PUSH(t->a, &t->rows, arena_copy(t->a, cells, sizeof *cells * (size_t)t->columns));
}

static void table_put(FILE *out, const struct table *t)
{
	int width[COLUMNS] = {0};
	for (int r = 0; r < t->rows.n; r++)
		for (int c = 0; c < t->columns; c++)
			width[c] = larger(width[c], (int)strlen(t->rows.items[r][c]));
	for (int r = 0; r < t->rows.n; r++) {
		for (int c = 0; c < t->columns; c++)
			fprintf(out, "%s%*s", c ? "  " : "", c < t->text_columns ? -width[c] : width[c], t->rows.items[r][c]);
		fputc('\n', out);
	}
}

static const char *cell(struct arena *a, double x, int digits)
{
	return isnan(x) || x < 0 ? "-" : arena_printf(a, "%.*f", digits, x);
}

char *report_table(struct arena *a, const struct model_pack *p, const double *compile_ms)
{
	static const char *head[] = {"kernel", "instance", "target", "variant", "vgpr", "agpr", "sgpr", "lds", "scratch", "spills", "waves",
	                             "bytes", "instrs", "barriers", "ms", "| loop", "mfma", "moves", "vmcnt0", "conflicts", "clocks", "share"};
	static const char *keys[] = {"vgpr", "agpr", "sgpr", "lds", "scratch", "spills", "waves_per_simd", "object_bytes", "instructions", "barriers"};
	static const char *loop_keys[] = {"instructions", "mfma", "acc_moves", "vmcnt0", "bank_conflicts", "clocks", "matrix_share"};
	struct table t = {.a = a, .columns = COLUMNS, .text_columns = 4};
	struct sheet s;
	int index = 0;
	table_row(&t, head);
	for (int k = 0; k < p->nkernels; k++)
		for (int i = 0; i < p->kernels[k].nvariants; i++, index++) {
			const struct model_variant *v = &p->kernels[k].variants[i];
			const char *instance = p->kernels[k].instances[v->instance].name;
			const char *row[COLUMNS] = {p->kernels[k].name, *instance ? instance : "-", v->target, v->predicate_text};
			bool loop = json_number(v->report_json, "\"loop\"", "instructions") > 0;
			for (int c = 0; c < 10; c++)
				row[4 + c] = cell(a, json_number(v->report_json, "{", keys[c]), 0);
			row[14] = cell(a, compile_ms ? compile_ms[index] : NAN, 1);
			for (int c = 0; c < 7; c++)
				row[15 + c] = loop ? cell(a, json_number(v->report_json, "\"loop\"", loop_keys[c]), c == 6 ? 3 : 0) : "-";
			table_row(&t, row);
		}
	sheet_open(&s);
	table_put(s.out, &t);
	return sheet_close(a, &s);
}

char *report_json(struct arena *a, const struct model_pack *p, const double *compile_ms)
{
	struct sheet s;
	int index = 0;
	sheet_open(&s);
	fputs("[", s.out);
	for (int k = 0; k < p->nkernels; k++)
		for (int i = 0; i < p->kernels[k].nvariants; i++, index++) {
			const struct model_variant *v = &p->kernels[k].variants[i];
			const char *figures = v->report_json ? v->report_json : "{}";
			fprintf(s.out, "%s\n{\"kernel\":", index ? "," : "");
			put_string(s.out, p->kernels[k].name);
			fputs(",\"instance\":", s.out);
			put_string(s.out, p->kernels[k].instances[v->instance].name);
			fputs(",\"target\":", s.out);
			put_string(s.out, v->target);
			fputs(",\"variant\":", s.out);
			put_string(s.out, v->predicate_text);
			if (compile_ms && compile_ms[index] >= 0)
				fprintf(s.out, ",\"compile_ms\":%.3f", compile_ms[index]);
			else
				fputs(",\"compile_ms\":null", s.out);
			fprintf(s.out, "%s%s", figures[1] == '}' ? "" : ",", figures + 1);
		}
	fputs("\n]\n", s.out);
	return sheet_close(a, &s);
}

/* --- list */
static const char *role_name(enum model_role r)
{
	return r == ROLE_IN ? "in" : r == ROLE_OUT ? "out" : "inout";
}

/* True where an earlier instance has the same type for the parameter. */
static bool type_seen(const struct model_kernel *k, int instance, int param)
{
	for (int i = 0; i < instance; i++)
		if (strcmp(model_type_name(&k->instances[i], param), model_type_name(&k->instances[instance], param)) == 0)
			return true;
	return false;
}

/* "x: bf16|f16[M, N]": the types of all instances. */
static void put_param(FILE *out, struct arena *a, const struct model_kernel *k, int i)
{
	const struct model_param *p = &k->params[i];
	fprintf(out, "%s%s%s: %s", p->role == ROLE_INOUT ? "inout " : "", p->name, p->optional ? "?" : "", p->list ? "list " : "");
	for (int n = 0; n < k->ninstances; n++)
		if (!type_seen(k, n, i))
			fprintf(out, "%s%s", n ? "|" : "", model_type_name(&k->instances[n], i));
	if (p->is_tensor)
		fprintf(out, "[%s]", model_extents(a, k, i));
	if (p->has_default)
		fprintf(out, " = %g", p->default_value);
}

static void put_signature(FILE *out, struct arena *a, const struct model_kernel *k)
{
	const char *between = "";
	fprintf(out, "%s(", k->name);
	for (int i = 0; i < k->nparams; i++)
		if (!k->params[i].is_tensor || k->params[i].role != ROLE_OUT) {
			fputs(between, out);
			put_param(out, a, k, i);
			between = ", ";
		}
	fputs(") -> (", out);
	between = "";
	for (int i = 0; i < k->nparams; i++)
		if (k->params[i].is_tensor && k->params[i].role == ROLE_OUT) {
			fputs(between, out);
			put_param(out, a, k, i);
			between = ", ";
		}
	fprintf(out, ")%s", k->has_workspace ? " with workspace" : "");
}

char *list_table(struct arena *a, const struct model_pack *p)
{
	struct sheet s;
	sheet_open(&s);
	fprintf(s.out, "tdsl %s, LLVM %s, %s, source %016llx%016llx\n", p->tdsl_version, p->llvm_version, p->options,
	        (unsigned long long)p->source_hash[1], (unsigned long long)p->source_hash[0]);
	for (int n = 0; n < p->nkernels; n++) {
		const struct model_kernel *k = &p->kernels[n];
		fputc('\n', s.out);
		put_signature(s.out, a, k);
		fputc('\n', s.out);
		for (int i = 0; i < k->nrequires; i++)
			fprintf(s.out, "    require %s\n", k->requires[i].text);
		for (int i = 0; i < k->ninstances; i++) {
			const char *target = "";
			fprintf(s.out, "    %s", *k->instances[i].name ? k->instances[i].name : "(one instance)");
			for (int v = 0; v < k->nvariants; v++) {
				if (k->variants[v].instance != i)
					continue;
				bool more = strcmp(target, k->variants[v].target) == 0;
				fprintf(s.out, more ? " | %s" : "\n        %s: %s", more ? k->variants[v].predicate_text : k->variants[v].target,
				        k->variants[v].predicate_text);
				target = k->variants[v].target;
			}
			fputc('\n', s.out);
		}
	}
	return sheet_close(a, &s);
}

static void put_param_json(FILE *out, struct arena *a, const struct model_kernel *k, int i)
{
	const struct model_param *p = &k->params[i];
	fprintf(out, "%s{\"name\":", i ? "," : "");
	put_string(out, p->name);
	fprintf(out, ",\"kind\":\"%s\",\"role\":\"%s\",\"optional\":%s", p->is_tensor ? "tensor" : "scalar", role_name(p->role),
	        p->optional ? "true" : "false");
	if (p->list)
		fputs(",\"list\":true", out);
	if (p->is_tensor) {
		fprintf(out, ",\"rank\":%d,\"extents\":", p->rank);
		put_string(out, model_extents(a, k, i));
	}
	if (p->has_default)
		fprintf(out, ",\"default\":%.17g", p->default_value);
	fputc('}', out);
}

static bool passes(const struct model_launch *l, enum model_karg_kind kind, int param)
{
	for (int i = 0; i < l->nkargs; i++)
		if (l->kargs[i].kind == kind && l->kargs[i].a == param)
			return true;
	return false;
}

/* Tensors whose leading dimensions may have two strides: every launch that takes the tensor takes both. */
static void put_two_strides(FILE *out, const struct model_kernel *k, const struct model_variant *v)
{
	const char *between = "";
	fputs(",\"two_strides\":[", out);
	for (int p = 0; p < k->nparams; p++) {
		int taken = 0, both = 0;
		for (int l = 0; l < v->nlaunches; l++) {
			bool takes = k->params[p].is_tensor && passes(&v->launches[l], KA_POINTER, p);
			taken += takes;
			both += takes && passes(&v->launches[l], KA_FOLD_STRIDE, p);
		}
		if (!taken || both < taken)
			continue;
		fputs(between, out);
		put_string(out, k->params[p].name);
		between = ",";
	}
	fputc(']', out);
}

static void put_kernel_json(FILE *out, struct arena *a, const struct model_pack *p, const struct model_kernel *k)
{
	fputs("{\"kernel\":", out);
	put_string(out, k->name);
	fputs(",\"doc\":", out);
	put_string(out, k->doc);
	fprintf(out, ",\"workspace\":%s,\"pointwise\":%s,\"params\":[", k->has_workspace ? "true" : "false", k->pointwise ? "true" : "false");
	for (int i = 0; i < k->nparams; i++)
		put_param_json(out, a, k, i);
	fputs("],\"requires\":[", out);
	for (int i = 0; i < k->nrequires; i++) {
		fputs(i ? "," : "", out);
		put_string(out, k->requires[i].text);
	}
	fputs("],\"instances\":[", out);
	for (int i = 0; i < k->ninstances; i++) {
		fprintf(out, "%s{\"name\":", i ? "," : "");
		put_string(out, k->instances[i].name);
		fputs(",\"types\":{", out);
		for (int j = 0; j < k->nparams; j++) {
			fputs(j ? "," : "", out);
			put_string(out, k->params[j].name);
			fprintf(out, ":\"%s\"", model_type_name(&k->instances[i], j));
		}
		fputs("}}", out);
	}
	fputs("],\"variants\":[", out);
	for (int i = 0; i < k->nvariants; i++) {
		const struct model_variant *v = &k->variants[i];
		fprintf(out, "%s{\"instance\":", i ? "," : "");
		put_string(out, k->instances[v->instance].name);
		fprintf(out, ",\"target\":\"%s\",\"variant\":", v->target);
		put_string(out, v->predicate_text);
		fprintf(out, ",\"object_bytes\":%llu,\"launches\":[", (unsigned long long)p->objects[v->object].size);
		for (int l = 0; l < v->nlaunches; l++) {
			fprintf(out, "%s{\"symbol\":", l ? "," : "");
			put_string(out, v->launches[l].symbol);
			fprintf(out, ",\"block\":%d,\"kernarg_bytes\":%d}", v->launches[l].block, v->launches[l].kernarg_bytes);
		}
		fputc(']', out);
		put_two_strides(out, k, v);
		fputc('}', out);
	}
	fputs("]}", out);
}

char *list_json(struct arena *a, const struct model_pack *p)
{
	struct sheet s;
	sheet_open(&s);
	fputs("{\"tdsl_version\":", s.out);
	put_string(s.out, p->tdsl_version);
	fputs(",\"llvm_version\":", s.out);
	put_string(s.out, p->llvm_version);
	fputs(",\"options\":", s.out);
	put_string(s.out, p->options);
	fprintf(s.out, ",\"source_hash\":\"%016llx%016llx\",\"kernels\":[", (unsigned long long)p->source_hash[1],
	        (unsigned long long)p->source_hash[0]);
	for (int k = 0; k < p->nkernels; k++) {
		fputs(k ? ",\n" : "\n", s.out);
		put_kernel_json(s.out, a, p, &p->kernels[k]);
	}
	fputs("\n]}\n", s.out);
	return sheet_close(a, &s);
}
