/* tdslc.c -- the compiler's command, and the place to start reading it.
 *
 * A .tdsl text becomes a kernel pack in these steps; each is one function, named with its file:
 *
 *   dsl_parse       dsl/lex.re, dsl/grammar.y    text -> AST
 *   dsl_elaborate   dsl/elaborate*.c             AST, one choice of dtypes, a target -> generic tile IR; all checks
 *   plan_variants   compiler/plan.c              which specialised variants an instance gets, and their tile sizes
 *   run_passes      compiler/pass.def, pass_*.c  tile IR -> specialised, scheduled, laid out tile IR
 *   translate       compiler/target/             tile IR -> LLVM IR, and the launches: grid, block, argument block
 *   object_build    compiler/object.c            LLVM IR -> linked code object
 *   object_facts    compiler/object_facts.c      code object -> registers, counts, the gate
 *   compile_text    compiler/driver.c            all of the above for each kernel, instance, target and variant -> model
 *   pack_write      runtime/pack_write.c         model -> the bytes of a pack
 *
 * Every step can be looked at: tdslc dump --stage ast|ir|<pass>|llvm|asm.
 * This file reads the command line: words and options in, one subcommand called, its exit code out. */
#include "tdslc.h"

#include <llvm-c/Core.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../runtime/include/tdsl.h"

static const struct command commands[] = {
	{"build", command_build, 1, 1, "-o= --target= --kernel= --instance= -j= --header= --binding= --emit= --library= --licence= --no-source",
	 "FILE.tdsl -o OUT.tpack [--target gfx942,gfx950,sm_90a] [--kernel NAME]... [--instance I]... [-j N]\n"
	 "            [--header H.h [--binding B.c]] [--emit so] [--licence NAME] [--no-source] [--library DIR]",
	 "Compiles kernels into a pack.\n"
	 "  -o OUT.tpack     the pack; OUT.tpack.times beside it keeps compile times for `tdslc report`\n"
	 "  --target LIST    of gfx942, gfx950, sm_90a (default: gfx942,gfx950)\n"
	 "  --kernel NAME    only this kernel; may be repeated (default: all)\n"
	 "  --instance I     only this choice of types, e.g. T=bf16,Q=fp8 (default: those of the pack block)\n"
	 "  -j N             threads (default: TDSL_JOBS, else what processors and memory allow); the pack does not depend on it\n"
	 "                   a terminal is told how far the build is when it takes longer than a second\n"
	 "  --header H.h     C functions, one per kernel, of its name: no keyword of C or C++, no name of tdsl.h or the C library\n"
	 "  --binding B.c    the source behind them, which includes H.h\n"
	 "  --emit so        OUT is a shared library with the functions and the pack inside, its header beside it; no C compiler is\n"
	 "                   needed; it needs libtdsl_rt.so where it runs\n"
	 "  --licence NAME   what the pack says of its licence (default: MIT)\n"
	 "  --no-source      leave the text out, from which the runtime compiles instances that the pack lacks\n"
	 "  --library DIR    the language's library from DIR/*.tdsl in place of the one built in"},
	{"check", command_check, 1, 1, "--library= --kernel= --instance=", "FILE.tdsl [--kernel NAME]... [--instance I]... [--library DIR]",
	 "Prints diagnostics for every declared instance; builds nothing."},
	{"dump", command_dump, 1, 1, "--kernel= --instance= --stage= --target= --variant= --explain --library=",
	 "FILE.tdsl --kernel K [--instance I] --stage ast|ir|<pass>|llvm|asm [--target T] [--variant V] [--explain]\n"
	 "            [--library DIR]",
	 "Prints one kernel at one stage of its compilation.\n"
	 "  --stage S     ast; ir: generic tile IR; the name of a pass: the IR after it; llvm: LLVM IR; asm: the object's code\n"
	 "  --target T    gfx942 (default), gfx950 or sm_90a\n"
	 "  --variant V   a variant's whole text, e.g. \"N=4096 aligned\" (default: the most specific one)\n"
	 "  --explain     the variants' choices, and of each pass what it is for and whether it changed anything"},
	{"list", command_list, 1, 1, "--json", "OUT.tpack [--json]", "Prints kernels, their signatures, instances and variants."},
	{"report", command_report, 1, 1, "--json", "OUT.tpack [--json]",
	 "Prints what each variant is made of: registers, LDS, instruction counts, the hot loop.\n"
	 "  waves: per SIMD.  clocks: modelled, for one pass of the hot loop by all waves of a SIMD.  share: useful FLOPs over what\n"
	 "  those clocks allow at the dtype's full rate.  ms: compile time, known only beside the file OUT.tpack.times.\n"
	 "  ordered, in JSON: the code stands in the order of its tile IR; false: in that of LLVM's scheduler, to save registers."},
	{"verify", command_verify, 1, 1, "", "OUT.tpack", "Checks every byte of a pack."},
	{"extract", command_extract, 1, 1, "--kernel= --instance= --target= --variant= -o=",
	 "OUT.tpack --kernel K [--instance I] --target T [--variant V] -o FILE.hsaco",
	 "Writes one variant's code object (default: the most specific variant)."},
	{"run", command_run, 2, 2, "--device= --in= --out= --arg= --instance= --without= --stats",
	 "OUT.tpack KERNEL --device sim:gfx942 --in IN.safetensors --out OUT.safetensors [--arg eps=1e-6]...\n"
	 "            [--instance I] [--without NAME]... [--stats]",
	 "Runs a kernel on tensors from a file.\n"
	 "  --device D     hip:N, cuda:N, sim:gfx942, sim:gfx950\n"
	 "  --in FILE      inputs by parameter name; absent optional tensors are left out of the file\n"
	 "  --out FILE     outputs by parameter name, allocated from the signature, zero before the run\n"
	 "  --arg NAME=X   a scalar\n"
	 "  --instance I   the choice of types that is run, e.g. T=bf16,Q=i8 (default: the first that the inputs fit)\n"
	 "  --without NAME an optional output that is not wanted\n"
	 "  --stats        the simulated device's statistics as JSON on standard output"},
	{"tune", command_tune, 1, 1, "--kernel= --target= --instance= --device= --size= --in= -j= --library= -o=",
	 "FILE.tdsl [--kernel K]... [--instance I]... [--device D] [--target LIST] [--size N=4096]...\n"
	 "            [--in FILE] [-j N] [--library DIR] [-o TABLE]",
	 "Builds the candidates that the schedules give and prints what each is made of and which is the best of each instance.\n"
	 "  --device D       where they are measured: hip:N, cuda:N; or sim:CHIP, where counts are turned into time by the chip's rates (default:\n"
	 "                   TDSL_DEVICE, else a GPU that is there, else the models of the chips: of the hot loop for kernels with matrix\n"
	 "                   work, of the simulated device for the others)\n"
	 "  --target LIST    what is built (default: what the device runs; for the models both AMD chips)\n"
	 "  --size NAME=X    a size to measure at (default: each one that a candidate is pinned to, many rows)\n"
	 "  --in FILE        input tensors; needed for those of integers; instances of other types are left out\n"
	 "  -o TABLE         the choices as a table that dispatch reads where TDSL_TUNE names it; what would be above the hardware's peak is\n"
	 "                   rejected; no table is written where nothing is tuned\n"
	 "  --kernel, --instance, -j and --library are those of `tdslc build`"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* --- messages */
int error(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fputs("tdslc: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	return EXIT_ERROR;
}

int usage_error(const struct arguments *a, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "tdslc %s: ", a->command);
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "; see tdslc %s --help\n", a->command);
	va_end(ap);
	return EXIT_USAGE;
}

int print(const char *text)
{
	if (fputs(text, stdout) < 0 || fflush(stdout) || ferror(stdout))
		return error("standard output: cannot write");
	return EXIT_FINE;
}

static int print_help(FILE *out)
{
	fputs("tdslc -- compiles kernels written in the tile language for gfx942, gfx950 and sm_90a\n\n", out);
	for (int i = 0; i < COMMANDS; i++)
		fprintf(out, "  tdslc %s %s\n", commands[i].name, commands[i].usage);
	fputs("\n  tdslc COMMAND --help explains a command; tdslc --version names the build.\n", out);
	return out == stderr ? EXIT_USAGE : print("");
}

/* --- options */
const char *option(const struct arguments *a, const char *name)
{
	for (int i = a->noptions; i-- > 0;)
		if (strcmp(a->options[i].name, name) == 0)
			return a->options[i].value;
	return NULL;
}

const char *const *option_list(const struct arguments *a, const char *name, bool split)
{
	ARRAY(const char *) list = {0};
	for (int i = 0; i < a->noptions; i++) {
		if (strcmp(a->options[i].name, name))
			continue;
		const char *p = a->options[i].value;
		for (;;) {
			size_t n = split ? strcspn(p, ",") : strlen(p);
			ARENA_PUSH(a->arena, &list, arena_string(a->arena, p, n));
			if (!p[n])
				break;
			p += n + 1;
		}
	}
	if (list.n)
		ARENA_PUSH(a->arena, &list, NULL);
	return list.items;
}

/* Length of the option's name as the command lists it, with *takes_value; 0 where it has no such option. */
static size_t option_known(const struct command *c, const char *word, bool *takes_value)
{
	size_t given = word[1] == '-' ? strcspn(word, "=") : 2;
	for (const char *p = c->options; *p;) {
		size_t n = strcspn(p, " "), name = n - (n && p[n - 1] == '=');
		if (name == given && strncmp(p, word, name) == 0) {
			*takes_value = name < n;
			return name;
		}
		p += n + (p[n] == ' ');
	}
	return 0;
}

static int read_arguments(const struct command *c, int argc, char **argv, struct arguments *a)
{
	a->words = arena_alloc(a->arena, (size_t)argc * sizeof *a->words + 1);
	a->options = arena_alloc(a->arena, (size_t)argc * sizeof *a->options + 1);
	for (int i = 0; i < argc; i++) {
		const char *word = argv[i];
		if (word[0] != '-' || !word[1]) {
			a->words[a->nwords++] = word;
			continue;
		}
		bool takes_value = false;
		size_t n = option_known(c, word, &takes_value);
		if (!n)
			return usage_error(a, "unknown option %s", word);
		struct given *g = &a->options[a->noptions++];
		const char *rest = word + n;
		g->name = arena_string(a->arena, word, n);
		g->value = "";
		if (!takes_value && *rest)
			return usage_error(a, "%s takes no value", g->name);
		if (takes_value && *rest)
			g->value = rest + (*rest == '=');
		else if (takes_value && i + 1 < argc)
			g->value = argv[++i];
		else if (takes_value)
			return usage_error(a, "%s needs a value", g->name);
	}
	if (a->nwords < c->least)
		return usage_error(a, c->least == 2 ? "a pack and a kernel's name are needed" : "a file is needed");
	if (a->nwords > c->most)
		return usage_error(a, "unexpected argument %s", a->words[c->most]);
	return EXIT_FINE;
}

static int run_command(const struct command *c, int argc, char **argv)
{
	struct arena arena = {0};
	struct arguments a = {.command = c->name, .arena = &arena};
	bool help = false;
	for (int i = 0; i < argc; i++)
		help = help || strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
	int code = help ? print(arena_printf(&arena, "tdslc %s %s\n\n%s\n", c->name, c->usage, c->help)) : read_arguments(c, argc, argv, &a);
	if (code == EXIT_FINE && !help)
		code = c->run(&a);
	arena_free(&arena);
	return code;
}

int main(int argc, char **argv)
{
	/* LLVM allocates and frees some 10 MB per kernel: keeping them in the process saves a tenth of the compile time. */
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 32 << 20);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	if (argc < 2)
		return print_help(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help(stdout);
	if (strcmp(argv[1], "--version") == 0) {
		unsigned major, minor, patch;
		LLVMGetVersion(&major, &minor, &patch);
		printf("tdslc %s, LLVM %u.%u.%u\n", TDSL_VERSION, major, minor, patch);
		return print("");
	}
	for (int i = 0; i < COMMANDS; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return run_command(&commands[i], argc - 2, argv + 2);
	fprintf(stderr, "tdslc: unknown command %s; see tdslc --help\n", argv[1]);
	return EXIT_USAGE;
}
