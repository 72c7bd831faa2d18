/* binding.c -- the generated C interface of a pack: a header with one function per kernel, and the source behind it.
 *
 * In: the pack's model.  Out: two texts.  The functions take inputs, scalars, outputs in the order of the kernel's text, then
 * workspace where some variant needs it, and hand them to tdsl_binding_call (runtime/include/tdsl.h), which finds the kernel at
 * the first call.  Element types are not part of a signature: the runtime chooses the instance from the tensors. */
#include "report.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A parameter's name in C and C++: a keyword gets an underscore. */
static const char *c_name(struct arena *a, const char *name)
{
	static const char *const words[] = {
		"auto", "bool", "break", "case", "catch", "char", "class", "const", "continue", "default", "delete", "do", "double", "else",
		"enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
		"namespace", "new", "operator", "or", "and", "not", "xor", "private", "protected", "public", "register", "restrict", "return",
		"short", "signed", "sizeof", "static", "stream", "struct", "switch", "template", "this", "throw", "true", "try", "typedef",
		"typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "workspace", "workspace_bytes", "args",
		"binding",
	};
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i], name) == 0)
			return arena_printf(a, "%s_", name);
	return name;
}

static enum dtype scalar_type(const struct model_kernel *k, int param)
{
	return k->ninstances ? k->instances[0].dtype[param] : DT_F32;
}

static const char *scalar_c_type(enum dtype t)
{
	return t == DT_I32 ? "int32_t" : t == DT_I64 ? "int64_t" : t == DT_F64 ? "double" : "float";
}

/* tdsl.h's letters: T L ? f d i l, W. */
char *binding_signature(struct arena *a, const struct model_kernel *k)
{
	char *s = arena_alloc(a, (size_t)k->nparams + 2);
	for (int i = 0; i < k->nparams; i++) {
		enum dtype t = scalar_type(k, i);
		s[i] = k->params[i].is_tensor ? (k->params[i].list ? 'L' : k->params[i].optional ? '?' : 'T') : t == DT_I32 ? 'i' : t == DT_I64 ? 'l' : t == DT_F64 ? 'd' : 'f';
	}
	if (k->has_workspace)
		s[k->nparams] = 'W';
	return s;
}

static void put_prototype(FILE *out, struct arena *a, const struct model_kernel *k, bool query)
{
	fprintf(out, "%s %s%s(tdsl_stream stream", query ? "int64_t" : "int", k->name, query ? "_workspace" : "");
	for (int i = 0; i < k->nparams; i++) {
		const struct model_param *p = &k->params[i];
		if (p->is_tensor)
			fprintf(out, ", %sDLTensor *%s", p->role == ROLE_IN || p->list || query ? "const " : "", c_name(a, p->name));
		else
			fprintf(out, ", %s %s", scalar_c_type(scalar_type(k, i)), c_name(a, p->name));
	}
	fprintf(out, "%s)", k->has_workspace && !query ? ", void *workspace, int64_t workspace_bytes" : "");
}

/* Types a parameter may have: "bf16, f16 or f32". */
static void put_types(FILE *out, const struct model_kernel *k, int param)
{
	const char *seen[64];
	int n = 0;
	for (int i = 0; i < k->ninstances && n < 64; i++) {
		const char *t = model_type_name(&k->instances[i], param);
		int j = 0;
		while (j < n && strcmp(seen[j], t))
			j++;
		if (j == n)
			seen[n++] = t;
	}
	for (int i = 0; i < n; i++)
		fprintf(out, "%s%s", i == 0 ? "" : i == n - 1 ? " or " : ", ", seen[i]);
}

/* A line of text inside a comment: the end of a comment is broken up. */
static void put_comment_text(FILE *out, const char *s)
{
	for (; *s; s++) {
		fputc(*s, out);
		if (s[0] == '\n')
			fputs(" * ", out);
		if (s[0] == '*' && s[1] == '/')
			fputc(' ', out);
	}
}

static void put_doc(FILE *out, struct arena *a, const struct model_kernel *k)
{
	fputs("/* ", out);
	put_comment_text(out, k->doc && *k->doc ? k->doc : k->name);
	for (int i = 0; i < k->nparams; i++) {
		const struct model_param *p = &k->params[i];
		fprintf(out, "\n *   %-10s %s", c_name(a, p->name), !p->is_tensor ? "" : p->role == ROLE_IN ? "in     " : p->role == ROLE_OUT ? "out    " : "in, out ");
		fputs(p->list ? "list of tensors (tdsl_list_open) of " : "", out);
		put_types(out, k, i);
		if (p->is_tensor) {
			fputc('[', out);
			put_comment_text(out, model_extents(a, k, i));
			fputc(']', out);
		}
		if (p->optional)
			fputs("; may be NULL", out);
		if (p->has_default)
			fprintf(out, "; usually %g", p->default_value);
	}
	for (int i = 0; i < k->nrequires; i++) {
		fputs("\n * Requires ", out);
		put_comment_text(out, k->requires[i].text);
		fputc('.', out);
	}
	if (k->has_workspace)
		fprintf(out, "\n * workspace: %s_workspace() bytes of device memory, 256-byte aligned; NULL where that is 0.", k->name);
	fputs(" */\n", out);
}

static const char *file_part(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

char *binding_header(struct arena *a, const struct model_pack *p, const char *header_name)
{
	char *text = NULL;
	size_t len;
	char *guard = arena_printf(a, "TDSL_GENERATED_%s", file_part(header_name));
	for (char *c = guard; *c; c++)
		*c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
	FILE *out = open_memstream(&text, &len);
	if (!out)
		abort();                      /* out of memory: base/arena.h's policy */
	fprintf(out, "/* %s -- made by tdslc %s.  Every function returns 0 or a negative code; tdsl_error() has the text. */\n"
	        "#ifndef %s\n#define %s\n#include <tdsl.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n", file_part(header_name),
	        p->tdsl_version, guard, guard);
	for (int i = 0; i < p->nkernels; i++) {
		fputc('\n', out);
		put_doc(out, a, &p->kernels[i]);
		put_prototype(out, a, &p->kernels[i], false);
		fputs(";\n", out);
		if (p->kernels[i].has_workspace) {
			put_prototype(out, a, &p->kernels[i], true);
			fputs(";\n", out);
		}
	}
	fputs("\n#ifdef __cplusplus\n}\n#endif\n#endif\n", out);
	fclose(out);
	char *copy = arena_string(a, text, len);
	free(text);
	return copy;
}

static void put_args(FILE *out, struct arena *a, const struct model_kernel *k)
{
	fputs("{\n\tconst union tdsl_arg args[] = {", out);
	for (int i = 0; i < k->nparams; i++) {
		enum dtype t = scalar_type(k, i);
		const char *field = k->params[i].is_tensor ? "t" : t == DT_I32 || t == DT_I64 ? "i" : "f";
		fprintf(out, "%s{.%s = %s}", i ? ", " : "", field, c_name(a, k->params[i].name));
	}
	fputs("};\n", out);
}

char *binding_source(struct arena *a, const struct model_pack *p, const char *header_name)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		abort();
	fprintf(out, "/* Made by tdslc %s: fills in the arguments and calls the runtime, which finds the kernels in the packs given to\n"
	        " * tdsl_pack_add or in TDSL_PACK_PATH. */\n#include \"%s\"\n#include <stddef.h>\n", p->tdsl_version, file_part(header_name));
	for (int i = 0; i < p->nkernels; i++) {
		const struct model_kernel *k = &p->kernels[i];
		fprintf(out, "\nstatic struct tdsl_binding %s_binding = {\"%s\", \"%s\", NULL, 0, NULL};\n\n", k->name, k->name, binding_signature(a, k));
		put_prototype(out, a, k, false);
		fputc('\n', out);
		put_args(out, a, k);
		fprintf(out, "\treturn tdsl_binding_call(&%s_binding, stream, args, %d, %s);\n}\n", k->name, k->nparams,
		        k->has_workspace ? "workspace, workspace_bytes" : "NULL, 0");
		if (!k->has_workspace)
			continue;
		fputc('\n', out);
		put_prototype(out, a, k, true);
		fputc('\n', out);
		put_args(out, a, k);
		fprintf(out, "\treturn tdsl_binding_workspace(&%s_binding, stream, args, %d);\n}\n", k->name, k->nparams);
	}
	fclose(out);
	char *copy = arena_string(a, text, len);
	free(text);
	return copy;
}
