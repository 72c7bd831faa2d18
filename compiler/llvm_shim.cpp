/* llvm_shim.cpp -- the one C++ file of the compiler (see llvm_shim.h for what goes in and out).
 *
 * Code generation: the C API builds and throws away a pipeline of some 150 passes for every module, which costs about as much
 * as compiling a small kernel.  Here a machine keeps its pipeline and runs it again for each module; LLVM supports that
 * (llc -compile-twice tests it).
 *
 * Linking: lld reads and writes files.  Its input is a memfd and its output a pipe, both named by /proc/self/fd: into a pipe
 * lld writes directly, where for a regular file it would make a temporary one beside it, which /proc does not allow.
 * Every link also puts LLVM's command-line options back to their defaults, so nothing here may rest on one of them: what code
 * generation should do differently is said by function attributes and TargetOptions.
 *
 * Fatal errors: LLVM calls exit() after report_fatal_error.  A handler that leaves by longjmp keeps the process alive; it
 * skips destructors, so everything that the run touched is given up. */
#include "llvm_shim.h"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <lld/Common/CommonLinkerContext.h>
#include <lld/Common/Driver.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

LLD_HAS_DRIVER(elf)

namespace {

/* Where the running thread goes on after a fatal error, and what it was. */
struct fatal_exit { jmp_buf resume; char text[512]; };
thread_local fatal_exit *fatal_here;

void fatal_error(void *, const char *reason, bool)
{
	if (!fatal_here)
		return; /* not ours: LLVM goes on to exit */
	snprintf(fatal_here->text, sizeof fatal_here->text, "%s", reason);
	longjmp(fatal_here->resume, 1);
}

/* Runs `work`; false with text where LLVM ended it by a fatal error. */
__attribute__((noinline)) bool survives(llvm::function_ref<void()> work, char *err, size_t errlen)
{
	fatal_exit here;
	if (setjmp(here.resume)) {
		fatal_here = nullptr;
		snprintf(err, errlen, "LLVM: %s", here.text);
		return false;
	}
	fatal_here = &here;
	work();
	fatal_here = nullptr;
	return true;
}

void start_once()
{
	static std::once_flag once;
	std::call_once(once, [] {
		LLVMInitializeAMDGPUTargetInfo();
		LLVMInitializeAMDGPUTarget();
		LLVMInitializeAMDGPUTargetMC();
		LLVMInitializeAMDGPUAsmPrinter();
		LLVMInitializeAMDGPUDisassembler();
		LLVMInitializeNVPTXTargetInfo();
		LLVMInitializeNVPTXTarget();
		LLVMInitializeNVPTXTargetMC();
		LLVMInitializeNVPTXAsmPrinter();
		llvm::install_fatal_error_handler(fatal_error);
	});
}

struct pipeline {
	llvm::SmallVector<char, 0> bytes;
	llvm::raw_svector_ostream stream{bytes};
	llvm::legacy::PassManager passes;
};

/* Closes a descriptor at the end of its scope. */
struct descriptor {
	int fd = -1;
	~descriptor() { shut(); }
	void shut()
	{
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
};

bool write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t done = write(fd, p, n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		p += done;
		n -= (size_t)done;
	}
	return true;
}

void read_all(int fd, std::string *into)
{
	char part[1 << 16];
	for (;;) {
		ssize_t n = read(fd, part, sizeof part);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		into->append(part, (size_t)n);
	}
}

} // namespace

struct shim_machine {
	std::unique_ptr<llvm::TargetMachine> machine;
	std::unique_ptr<pipeline> object, assembly;
};

struct shim_machine *shim_machine_new(const char *triple, const char *cpu, const char *features, char *err, size_t errlen)
{
	start_once();
	std::string why;
	llvm::Triple t(triple);
	const llvm::Target *target = llvm::TargetRegistry::lookupTarget(t, why);
	if (!target) {
		snprintf(err, errlen, "%s", why.c_str());
		return nullptr;
	}
	llvm::TargetOptions options;
	options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
	auto *m = new shim_machine;
	m->machine.reset(target->createTargetMachine(t, cpu, features, options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
	return m;
}

void shim_machine_free(struct shim_machine *m)
{
	delete m;
}

/* What TargetMachine::addPassesToEmitFile does, less the passes that find nothing to do in our functions: there are no variables to
 * follow (lines are all that is described), no calls, and no frame.  Following variables alone took a seventh of the time: it visits
 * every alias of every register that is written, and AMDGPU's tuples have hundreds. */
static bool add_passes(llvm::TargetMachine &machine, pipeline &p, llvm::CodeGenFileType type)
{
	const void *idle[] = {&llvm::LiveDebugValuesID, &llvm::RemoveRedundantDebugValuesID, &llvm::StackColoringLegacyID, &llvm::StackMapLivenessID,
	                      &llvm::ShrinkWrapID, &llvm::FEntryInserterID, &llvm::XRayInstrumentationID, &llvm::PatchableFunctionID,
	                      &llvm::FuncletLayoutID, &llvm::MachineSanitizerBinaryMetadataID, &llvm::StackFrameLayoutAnalysisPassID};
	llvm::TargetPassConfig *config = machine.createPassConfig(p.passes);
	for (const void *id : idle)
		config->disablePass(id);
	config->setDisableVerify(true);
	auto *info = new llvm::MachineModuleInfoWrapperPass(&machine);
	p.passes.add(config);
	p.passes.add(info);
	if (config->addISelPasses())
		return false;
	config->addMachinePasses();
	config->setInitialized();
	if (machine.addAsmPrinter(p.passes, p.stream, nullptr, type, info->getMMI().getContext()))
		return false;
	p.passes.add(llvm::createFreeMachineFunctionPass());
	return true;
}

/* The machine's pipeline, made at its first use; NULL where the target cannot emit this kind of file. */
static pipeline *pipeline_of(struct shim_machine *m, bool assembly)
{
	auto &slot = assembly ? m->assembly : m->object;
	if (slot && !m->machine->getTargetTriple().isNVPTX()) /* NVPTX's printer keeps pointers into the module before */
		return slot.get();
	auto p = std::make_unique<pipeline>();
	if (!add_passes(*m->machine, *p, assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile))
		return nullptr;
	slot = std::move(p);
	return slot.get();
}

int shim_emit(struct shim_machine *m, LLVMModuleRef module, bool assembly, char **bytes, size_t *size, bool *broken, char *err, size_t errlen)
{
	*broken = false;
	std::unique_ptr<llvm::Module> owner(llvm::unwrap(module));
	owner->setTargetTriple(m->machine->getTargetTriple());
	owner->setDataLayout(m->machine->createDataLayout());
	if (m->machine->getTargetTriple().isAMDGCN() && !owner->getModuleFlag("amdhsa_code_object_version"))
		owner->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", 500);

	llvm::Module *running = owner.release();
	pipeline *p = nullptr;
	auto run = [&] {
		p = pipeline_of(m, assembly);
		if (p) {
			p->bytes.clear();
			p->passes.run(*running);
		}
		delete running;
	};
	if (!survives(run, err, errlen)) {
		*broken = true;
		return -1;
	}
	if (!p) {
		snprintf(err, errlen, "LLVM cannot emit %s for this target", assembly ? "assembly" : "objects");
		return -1;
	}
	*bytes = (char *)malloc(p->bytes.size() + 1);
	if (!*bytes) {
		snprintf(err, errlen, "out of memory");
		return -1;
	}
	memcpy(*bytes, p->bytes.data(), p->bytes.size());
	(*bytes)[p->bytes.size()] = 0;
	*size = p->bytes.size();
	return 0;
}

int shim_link(const void *object, size_t object_size, void **elf, size_t *elf_size, char *err, size_t errlen)
{
	const struct shim_input in = {object, object_size};
	const char *const options[] = {"--no-undefined", nullptr};
	return shim_link_inputs(&in, 1, options, elf, elf_size, err, errlen);
}

int shim_link_inputs(const struct shim_input *inputs, int n, const char *const *options, void **elf, size_t *elf_size, char *err, size_t errlen)
{
	static std::mutex one_link_at_a_time;
	descriptor out, result;
	std::vector<descriptor> in((size_t)n);
	std::vector<std::string> paths;
	int ends[2];
	bool there = true;
	for (int i = 0; i < n; i++) {
		in[i].fd = memfd_create("object", MFD_CLOEXEC);
		there = there && in[i].fd >= 0 && write_all(in[i].fd, (const char *)inputs[i].bytes, inputs[i].size);
		paths.push_back("/proc/self/fd/" + std::to_string(in[i].fd));
	}
	if (!there || pipe2(ends, O_CLOEXEC)) {
		snprintf(err, errlen, "linker: no file in memory: %s", strerror(errno));
		return -1;
	}
	result.fd = ends[0];
	out.fd = ends[1];
	std::string out_path = "/proc/self/fd/" + std::to_string(out.fd);
	std::vector<const char *> args = {"ld.lld", "-shared", "--threads=1", "-o", out_path.c_str()};
	for (; *options; options++)
		args.push_back(*options);
	for (const std::string &path : paths)
		args.push_back(path.c_str());
	std::string text, linked;
	llvm::raw_string_ostream messages(text);
	std::thread reader(read_all, result.fd, &linked);
	bool fine;
	{
		std::lock_guard<std::mutex> lock(one_link_at_a_time);
		fine = lld::elf::link(args, messages, messages, false, false);
		lld::CommonLinkerContext::destroy();
	}
	out.shut();
	reader.join();
	if (!fine || linked.empty()) {
		/* "ld.lld: error: undefined symbol: f\n>>> referenced by ..": the first line says it. */
		size_t start = text.find("error: ") == std::string::npos ? 0 : text.find("error: ") + 7;
		snprintf(err, errlen, "linker: %s", text.empty() ? "no output" : text.substr(start, text.find('\n', start) - start).c_str());
		return -1;
	}
	*elf = malloc(linked.size());
	if (!*elf) {
		snprintf(err, errlen, "out of memory");
		return -1;
	}
	memcpy(*elf, linked.data(), linked.size());
	*elf_size = linked.size();
	return 0;
}

LLVMMetadataRef shim_line_unit(LLVMDIBuilderRef builder, LLVMMetadataRef file, const char *producer, bool directives)
{
	using unit = llvm::DICompileUnit;
	auto *di = reinterpret_cast<llvm::DIBuilder *>(builder);
	return llvm::wrap(di->createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C11), llvm::cast<llvm::DIFile>(llvm::unwrap(file)),
	                                        producer, true, "", 0, "", directives ? unit::DebugDirectivesOnly : unit::LineTablesOnly));
}

void *shim_disassembler(const char *triple, const char *cpu)
{
	start_once();
	return LLVMCreateDisasmCPU(triple, cpu, nullptr, 0, nullptr, nullptr);
}

int shim_lines(const void *elf, size_t elf_size, struct shim_line **rows, int *n)
{
	*rows = nullptr;
	*n = 0;
	auto file = llvm::object::ObjectFile::createObjectFile(
	    llvm::MemoryBufferRef(llvm::StringRef((const char *)elf, elf_size), "code object"));
	if (!file) {
		llvm::consumeError(file.takeError());
		return -1;
	}
	auto ignore = [](llvm::Error e) { llvm::consumeError(std::move(e)); };
	auto dwarf = llvm::DWARFContext::create(**file, llvm::DWARFContext::ProcessDebugRelocations::Process, nullptr, "", ignore, ignore);
	std::vector<shim_line> found;
	for (const auto &unit : dwarf->compile_units()) {
		const auto *table = dwarf->getLineTableForUnit(unit.get());
		for (size_t i = 0; table && i < table->Rows.size(); i++)
			if (!table->Rows[i].EndSequence)
				found.push_back({table->Rows[i].Address.Address, (int)table->Rows[i].Line});
	}
	if (found.empty())
		return 0;
	std::stable_sort(found.begin(), found.end(), [](const shim_line &a, const shim_line &b) { return a.address < b.address; });
	*rows = (shim_line *)malloc(found.size() * sizeof **rows);
	if (!*rows)
		return -1;
	memcpy(*rows, found.data(), found.size() * sizeof **rows);
	*n = (int)found.size();
	return 0;
}
