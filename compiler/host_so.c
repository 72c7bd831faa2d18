/* host_so.c -- a pack and its C functions as one shared library, made with LLVM and lld alone (`tdslc build --emit so`).
 *
 * In: a pack's model and bytes, the library's name.  Out: an ELF shared library for this machine that exports what the generated
 * binding would (binding.c): each function writes its arguments into an array of 8-byte values and calls tdsl_binding_call with a
 * static record that points at the pack's bytes.  The runtime is needed by name (DT_NEEDED libtdsl_rt.so): it is linked against a stub
 * made here, since a machine that builds need not have the runtime.  Same pack and name, same bytes. */
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llvm_shim.h"
#include "report.h"

struct host {
	LLVMContextRef context;
	LLVMModuleRef module;
	LLVMBuilderRef at;
	LLVMTypeRef ptr, i32, i64, record, call, query;  /* record: struct tdsl_binding of tdsl.h */
	LLVMValueRef call_fn, query_fn, pack;
	struct arena *arena;
};

static LLVMValueRef text_constant(struct host *h, const char *s)
{
	LLVMValueRef text = LLVMConstStringInContext(h->context, s, (unsigned)strlen(s), 0);
	LLVMValueRef g = LLVMAddGlobal(h->module, LLVMTypeOf(text), "tdsl.text");
	LLVMSetInitializer(g, text);
	LLVMSetGlobalConstant(g, 1);
	LLVMSetLinkage(g, LLVMPrivateLinkage);
	return g;
}

/* static struct tdsl_binding: name, signature, pack, its size, NULL.  No kernel has a name with a point. */
static LLVMValueRef binding_record(struct host *h, const struct model_kernel *k, size_t pack_size)
{
	LLVMValueRef fields[] = {text_constant(h, k->name), text_constant(h, binding_signature(h->arena, k)), h->pack, LLVMConstInt(h->i64, pack_size, 0),
	                         LLVMConstNull(h->ptr)};
	LLVMValueRef g = LLVMAddGlobal(h->module, h->record, "tdsl.binding");
	LLVMSetInitializer(g, LLVMConstNamedStruct(h->record, fields, 5));
	LLVMSetLinkage(g, LLVMPrivateLinkage);
	LLVMSetAlignment(g, 8);
	return g;
}

static LLVMTypeRef scalar_type(struct host *h, char letter)
{
	switch (letter) {
	case 'f': return LLVMFloatTypeInContext(h->context);
	case 'd': return LLVMDoubleTypeInContext(h->context);
	case 'i': return h->i32;
	case 'l': return h->i64;
	default: return h->ptr;
	}
}

/* A scalar as union tdsl_arg holds it: f32 in a double, i32 in an i64. */
static LLVMValueRef widened(struct host *h, char letter, LLVMValueRef v)
{
	if (letter == 'f')
		return LLVMBuildFPExt(h->at, v, LLVMDoubleTypeInContext(h->context), "");
	return letter == 'i' ? LLVMBuildSExt(h->at, v, h->i64, "") : v;
}

/* int NAME(stream, arguments.., [workspace, bytes]) or int64_t NAME_workspace(stream, arguments..). */
static void function_add(struct host *h, const struct model_kernel *k, LLVMValueRef record, bool query)
{
	const char *letters = binding_signature(h->arena, k);
	bool workspace = k->has_workspace && !query;
	LLVMTypeRef params[MODEL_MAX_PARAM + 3] = {h->ptr};
	unsigned n = (unsigned)k->nparams;
	for (unsigned i = 0; i < n; i++)
		params[1 + i] = scalar_type(h, letters[i]);
	params[1 + n] = h->ptr;
	params[2 + n] = h->i64;
	LLVMTypeRef type = LLVMFunctionType(query ? h->i64 : h->i32, params, 1 + n + (workspace ? 2 : 0), 0);
	LLVMValueRef f = LLVMAddFunction(h->module, query ? arena_printf(h->arena, "%s_workspace", k->name) : k->name, type);
	LLVMPositionBuilderAtEnd(h->at, LLVMAppendBasicBlockInContext(h->context, f, ""));
	LLVMValueRef args = LLVMBuildArrayAlloca(h->at, h->i64, LLVMConstInt(h->i32, n ? n : 1, 0), "args");
	for (unsigned i = 0; i < n; i++) {
		LLVMValueRef index = LLVMConstInt(h->i64, i, 0);
		LLVMBuildStore(h->at, widened(h, letters[i], LLVMGetParam(f, 1 + i)), LLVMBuildGEP2(h->at, h->i64, args, &index, 1, ""));
	}
	LLVMValueRef pass[] = {record, LLVMGetParam(f, 0), args, LLVMConstInt(h->i32, n, 0), workspace ? LLVMGetParam(f, 1 + n) : LLVMConstNull(h->ptr),
	                       workspace ? LLVMGetParam(f, 2 + n) : LLVMConstNull(h->i64)};
	LLVMBuildRet(h->at, LLVMBuildCall2(h->at, query ? h->query : h->call, query ? h->query_fn : h->call_fn, pass, query ? 4 : 6, ""));
}

static void host_begin(struct host *h, struct arena *a)
{
	*h = (struct host){.context = LLVMContextCreate(), .arena = a};
	h->module = LLVMModuleCreateWithNameInContext("binding", h->context);
	h->at = LLVMCreateBuilderInContext(h->context);
	h->ptr = LLVMPointerTypeInContext(h->context, 0);
	h->i32 = LLVMInt32TypeInContext(h->context);
	h->i64 = LLVMInt64TypeInContext(h->context);
	LLVMTypeRef fields[] = {h->ptr, h->ptr, h->ptr, h->i64, h->ptr}, params[] = {h->ptr, h->ptr, h->ptr, h->i32, h->ptr, h->i64};
	h->record = LLVMStructCreateNamed(h->context, "tdsl_binding");
	LLVMStructSetBody(h->record, fields, 5, 0);
	h->call = LLVMFunctionType(h->i32, params, 6, 0);
	h->query = LLVMFunctionType(h->i64, params, 4, 0);
	h->call_fn = LLVMAddFunction(h->module, "tdsl_binding_call", h->call);
	h->query_fn = LLVMAddFunction(h->module, "tdsl_binding_workspace", h->query);
}

static void host_end(struct host *h)
{
	LLVMDisposeBuilder(h->at);
	LLVMDisposeModule(h->module);
	LLVMContextDispose(h->context);
}

/* The runtime's two functions with nothing in them, to link against. */
static void stub_fill(struct host *h)
{
	LLVMValueRef both[] = {h->call_fn, h->query_fn};
	for (int i = 0; i < 2; i++) {
		LLVMPositionBuilderAtEnd(h->at, LLVMAppendBasicBlockInContext(h->context, both[i], ""));
		LLVMBuildUnreachable(h->at);
	}
}

static void binding_fill(struct host *h, const struct model_pack *p, const void *pack, size_t size)
{
	LLVMValueRef bytes = LLVMConstStringInContext2(h->context, pack, size, 1);
	h->pack = LLVMAddGlobal(h->module, LLVMTypeOf(bytes), "tdsl.pack");
	LLVMSetInitializer(h->pack, bytes);
	LLVMSetGlobalConstant(h->pack, 1);
	LLVMSetLinkage(h->pack, LLVMPrivateLinkage);
	LLVMSetAlignment(h->pack, 64);
	for (int i = 0; i < p->nkernels; i++) {
		LLVMValueRef record = binding_record(h, &p->kernels[i], size);
		function_add(h, &p->kernels[i], record, false);
		if (p->kernels[i].has_workspace)
			function_add(h, &p->kernels[i], record, true);
	}
}

/* ---- object and library */

static pthread_once_t native_once = PTHREAD_ONCE_INIT;

static void native_start(void)
{
	LLVMInitializeNativeTarget();
	LLVMInitializeNativeAsmPrinter();
}

static int object_emit(struct host *h, LLVMMemoryBufferRef *object, char *err, size_t errlen)
{
	char *triple = LLVMGetDefaultTargetTriple(), *why = NULL;
	LLVMTargetRef target;
	int rc = LLVMGetTargetFromTriple(triple, &target, &why);
	if (rc == 0) {
		LLVMTargetMachineRef m = LLVMCreateTargetMachine(target, triple, "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
		LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m);
		LLVMSetTarget(h->module, triple);
		LLVMSetModuleDataLayout(h->module, layout);
		rc = LLVMTargetMachineEmitToMemoryBuffer(m, h->module, LLVMObjectFile, &why, object);
		LLVMDisposeTargetData(layout);
		LLVMDisposeTargetMachine(m);
	}
	if (rc)
		snprintf(err, errlen, "no code for this machine (%s): %s", triple, why ? why : "unknown");
	LLVMDisposeMessage(why);
	LLVMDisposeMessage(triple);
	return rc ? -1 : 0;
}

static int link_host(LLVMMemoryBufferRef object, const void *stub, size_t stub_size, const char *soname, void **elf, size_t *size, char *err, size_t errlen)
{
	struct shim_input in[] = {{LLVMGetBufferStart(object), LLVMGetBufferSize(object)}, {stub, stub_size}};
	const char *const options[] = {"-soname", soname, "-rpath", "$ORIGIN", "--no-undefined", "-z", "relro", "-z", "now", NULL};
	return shim_link_inputs(in, stub ? 2 : 1, options, elf, size, err, errlen);
}

int host_library(struct arena *a, const struct model_pack *p, const void *pack, size_t pack_size, const char *soname, void **elf, size_t *size,
                 char *err, size_t errlen)
{
	struct host stub, binding;
	LLVMMemoryBufferRef stub_object = NULL, object = NULL;
	void *stub_elf = NULL;
	size_t stub_size;
	pthread_once(&native_once, native_start);
	host_begin(&stub, a);
	host_begin(&binding, a);
	stub_fill(&stub);
	binding_fill(&binding, p, pack, pack_size);
	int rc = object_emit(&stub, &stub_object, err, errlen) || object_emit(&binding, &object, err, errlen) ||
	         link_host(stub_object, NULL, 0, "libtdsl_rt.so", &stub_elf, &stub_size, err, errlen) ||
	         link_host(object, stub_elf, stub_size, soname, elf, size, err, errlen) ? -1 : 0;
	free(stub_elf);
	if (stub_object)
		LLVMDisposeMemoryBuffer(stub_object);
	if (object)
		LLVMDisposeMemoryBuffer(object);
	host_end(&stub);
	host_end(&binding);
	return rc;
}
