/* llvm_static.cpp -- the one name that linking LLVM's archives into tdslc and libtdslc.so leaves open.
 *
 * lld's driver carries LLVM's link-time optimiser, and Debian's archive of that names Polly, whose archive is a package of its
 * own.  Only bitcode as lld's input gets there; llvm_shim.cpp links objects alone, and whoever changes that ends here. */
#include <cstdlib>

void getPollyPluginInfo(); /* returns a structure in LLVM: C++ names it the same */
void getPollyPluginInfo()
{
	abort();
}
