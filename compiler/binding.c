/* binding.c -- the generated C interface of a pack: a header with one function per kernel, and the source behind it.
 *
 * In: the pack's model.  Out: two texts.  The functions take inputs, scalars, outputs in the order of the kernel's text, then
 * workspace where some variant needs it, and hand them to tdsl_binding_call (runtime/include/tdsl.h), which finds the kernel at
 * the first call.  Element types are not part of a signature: the runtime chooses the instance from the tensors. */
#include "binding.h"
#include "report.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names that are taken, sorted. */
static const char *const keywords[] = {
	"alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char", "char16_t", "char32_t",
	"char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast", "consteval", "constexpr", "constinit",
	"continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false",
	"float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
	"operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "restrict", "return", "short",
	"signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true",
	"try", "typedef", "typeid", "typename", "typeof", "typeof_unqual", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
	"while", "xor", "xor_eq",
};
static const char *const declared[] = {
	"DLDataType", "DLDevice", "DLDeviceType", "DLTensor", "NULL", "errno", "int16_t", "int32_t", "int64_t", "int8_t", "intptr_t", "linux",
	"offsetof", "ptrdiff_t", "size_t", "uint16_t", "uint32_t", "uint64_t", "uint8_t", "uintptr_t", "unix",
};
/* With their f and l. */
static const char *const functions_of_numbers[] = {
	"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cabs", "carg", "cbrt", "ceil", "conj", "copysign", "cos", "cosh", "erf",
	"erfc", "exp", "exp10", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "frexp", "gamma", "hypot", "ilogb",
	"isinf", "isnan", "j0", "j1", "jn", "ldexp", "lgamma", "llrint", "llround", "log", "log10", "log1p", "log2", "logb", "lrint", "lround",
	"modf", "nan", "nearbyint", "nextafter", "pow", "pow10", "remainder", "remquo", "rint", "round", "scalb", "scalbln", "scalbn", "signbit",
	"significand", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "y0", "y1", "yn",
};
static const char *const functions[] = {
	"abort", "abs", "accept", "access", "aligned_alloc", "alloca", "atexit", "atof", "atoi", "atol", "atoll", "bcmp", "bcopy", "bind",
	"bsearch", "bzero", "calloc", "clock", "clone", "close", "connect", "creat", "daemon", "div", "dlclose", "dlopen", "dlsym", "dup",
	"environ", "exit", "fclose", "ferror", "fflush", "ffs", "fgets", "fopen", "fork", "fprintf", "fputc", "fputs", "fread", "free", "fscanf",
	"fseek", "ftell", "fwrite", "getc", "getchar", "getenv", "getline", "getpid", "gets", "index", "ioctl", "isalnum", "isalpha", "isascii",
	"isdigit", "islower", "isprint", "isspace", "isupper", "kill", "labs", "ldiv", "link", "listen", "llabs", "localtime", "longjmp", "lseek",
	"malloc", "memalign", "memchr", "memcmp", "memcpy", "memmove", "memset", "mmap", "mprotect", "munmap", "nice", "open", "pause", "perror",
	"pipe", "poll", "posix_memalign", "printf", "putc", "putchar", "puts", "qsort", "raise", "rand", "random", "read", "realloc", "recv",
	"remove", "rename", "rewind", "rindex", "scanf", "select", "send", "setenv", "setjmp", "shutdown", "signal", "sleep", "snprintf", "socket",
	"splice", "sprintf", "srand", "sscanf", "stat", "stderr", "stdin", "stdout", "strcat", "strchr", "strcmp", "strcpy", "strdup", "strlen",
	"strncat", "strncmp", "strncpy", "strrchr", "strstr", "strtod", "strtof", "strtol", "strtoul", "sync", "syscall", "system", "tee", "time",
	"toascii", "tolower", "toupper", "truncate", "umask", "unlink", "usleep", "vfork", "wait", "write",
};

static int by_name(const void *name, const void *word)
{
	return strcmp(name, *(const char *const *)word);
}

#define LISTED(name, list) (bsearch(name, list, sizeof list / sizeof *list, sizeof *list, by_name) != NULL)

const char *binding_name_taken(const char *kernel)
{
	char stem[16] = "";
	size_t n = strlen(kernel);
	if (n && n <= sizeof stem && (kernel[n - 1] == 'f' || kernel[n - 1] == 'l'))
		memcpy(stem, kernel, n - 1);
	if (LISTED(kernel, keywords))
		return "a keyword of C or C++";
	if (!strcmp(kernel, "main"))
		return "where a program starts";
	if (!strncmp(kernel, "tdsl_", 5) || !strncmp(kernel, "TDSL_", 5) || !strncmp(kernel, "kDL", 3) || LISTED(kernel, declared))
		return "of tdsl.h or of a header that it includes";
	if (kernel[0] == '_' && (kernel[1] == '_' || isupper((unsigned char)kernel[1])))
		return "reserved in C";
	return LISTED(kernel, functions) || LISTED(kernel, functions_of_numbers) || LISTED(stem, functions_of_numbers) ? "of the C library" : NULL;
}

/* A parameter's name in C and C++: one that is taken, or of what the source says itself, gets an underscore. */
static const char *c_name(struct arena *a, const char *name)
{
	static const char *const ours[] = {"args", "binding", "stream", "workspace", "workspace_bytes"};
	static const char tail[] = "_binding";
	size_t n = strlen(name);
	bool of_a_kernel = n >= sizeof tail && !strcmp(name + n - (sizeof tail - 1), tail);
	bool taken = LISTED(name, keywords) || LISTED(name, declared) || LISTED(name, ours) || !strncmp(name, "tdsl_", 5);
	return taken || of_a_kernel ? arena_printf(a, "%s_", name) : name;
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
