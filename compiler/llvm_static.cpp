/* llvm_static.cpp -- what linking LLVM's archives into tdslc and libtdslc.so leaves open, and what it must not bring along.
 *
 * In: LLVM's lists of its targets (llvm/Config/ *.def).  Out: definitions that the linker finds before it looks into the archives.
 * lld's driver is made for every target of LLVM: it starts them all, which would link twenty code generators, their tables and
 * their constructors.  Here the others' starts are empty; ours are the archives' own: the two chips' makers and the host, for which
 * `tdslc build --emit so` compiles.  The driver carries LLVM's link-time optimiser too, and Debian's archive of that names Polly,
 * whose archive is a package of its own.  Only bitcode as lld's input gets there; llvm_shim.cpp links objects alone, and whoever
 * changes that ends here. */
#include <cstdlib>

/* IS_OURS(X86) is 1 where OURS_X86 is defined, else 0: the preprocessor's way to ask whether a name is in a set. */
#define YES ~, 1
#define OURS_AMDGPU YES
#define OURS_NVPTX YES
#if defined(__x86_64__)
#define OURS_X86 YES
#elif defined(__aarch64__)
#define OURS_AArch64 YES
#endif
#define SECOND(a, b, ...) b
#define SECOND_OF(...) SECOND(__VA_ARGS__)
#define IS_OURS(target) SECOND_OF(OURS_##target, 0, ~)
#define EMPTY_1(name)
#define EMPTY_0(name) extern "C" void name() {}
#define EMPTY_IF(ours, name) EMPTY_##ours(name)
#define EMPTY_UNLESS(ours, name) EMPTY_IF(ours, name)

#define LLVM_TARGET(t) \
	EMPTY_UNLESS(IS_OURS(t), LLVMInitialize##t##TargetInfo) \
	EMPTY_UNLESS(IS_OURS(t), LLVMInitialize##t##Target) \
	EMPTY_UNLESS(IS_OURS(t), LLVMInitialize##t##TargetMC)
#include <llvm/Config/Targets.def>
#define LLVM_ASM_PRINTER(t) EMPTY_UNLESS(IS_OURS(t), LLVMInitialize##t##AsmPrinter)
#include <llvm/Config/AsmPrinters.def>
#define LLVM_ASM_PARSER(t) EMPTY_UNLESS(IS_OURS(t), LLVMInitialize##t##AsmParser)
#include <llvm/Config/AsmParsers.def>

void getPollyPluginInfo(); /* returns a structure in LLVM: C++ names it the same */
void getPollyPluginInfo()
{
	abort();
}
