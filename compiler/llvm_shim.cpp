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

#include <llvm-c/Target.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>
#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/PassRegistry.h>
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
#include <map>
#include <mutex>
#include <string>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>
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

/* A pass that is left out: its name on LLVM's command lines, and which of its occurrences, 0 = all. */
struct unwanted { llvm::StringRef name; int which; };

/* These find nothing to do in our functions: there are no variables to follow (lines are all that is described), no calls, no frame.
 * Following variables alone took a seventh of the time: it visits every alias of every register that is written, and AMDGPU's tuples
 * have hundreds. */
const unwanted idle[] = {{"livedebugvalues", 0}, {"removeredundantdebugvalues", 0}, {"stack-coloring", 0}, {"shrink-wrap", 0},
                         {"fentry-insert", 0}, {"xray-instrumentation", 0}, {"machine-sanmd", 0}, {"stack-frame-layout", 0}};

/* And these repeat what the tile passes have done: pass_loads orders the instructions of a row kernel, pass_clean leaves no two equal. */
const unwanted repeated[] = {{"machine-scheduler", 0}, {"postmisched", 0}, {"nary-reassociate", 0}, {"early-cse", 2}, {"machine-cse", 1}};

/* Of these addresses nothing is left to make cheaper: in a general variant of thousands of instructions the search took a third of the time. */
const unwanted cheap_addresses[] = {{"slsr", 0}};

/* And these, of AMDGPU's pipeline, what the translation has done: it takes what does not change out of a loop and keeps addresses in
 * two parts (emit/memory.c), accesses are as wide as they can be, blocks lie in the order in which they run.  Without all these a row
 * kernel compiles in half the time, to fewer registers; what it costs are the s_nops that the last scheduler would fill
 * (docs/performance.md). */
const unwanted repeated_amdgcn[] = {
	{"licm", 0}, {"early-cse", 3}, {"codegenprepare", 0}, {"sink", 0}, {"separate-const-offset-from-gep", 0},
	{"consthoist", 0}, {"mergeicmps", 0}, {"expand-memcmp", 0}, {"partially-inline-libcalls", 0}, {"scalarize-masked-mem-intrin", 0},
	{"expand-reductions", 0}, {"atomic-expand", 0}, {"amdgpu-atomic-optimizer", 0}, {"amdgpu-perf-hint", 0}, {"canon-freeze", 0},
	{"flattencfg", 0}, {"callbrprepare", 0}, {"safe-stack", 0}, {"stack-protector", 0}, {"objc-arc-contract", 0}, {"machine-sink", 0},
	{"postra-machine-sink", 0}, {"machinelicm", 0}, {"machine-cp", 0}, {"branch-folder", 0}, {"tailduplication", 0},
	{"early-tailduplication", 0}, {"block-placement", 0}, {"si-fold-operands", 2}, {"rename-independent-subregs", 0},
	{"rewrite-partial-reg-uses", 0}, {"amdgpu-pre-ra-optimizations", 0}, {"amdgpu-rewrite-agpr-copy-mfma", 0}, {"stack-slot-coloring", 0},
	{"dead-mi-elimination", 1}, {"dead-mi-elimination", 3}, {"machine-latecleanup", 0}, {"amdgpu-late-codegenprepare", 0},
	{"amdgpu-rewrite-undef-for-phi", 0}, {"amdgpu-lower-buffer-fat-pointers", 0}, {"amdgpu-lower-exec-sync", 0}, {"replace-with-veclib", 0},
	{"si-wqm", 0}, {"amdgpu-codegenprepare", 0}, {"amdgpu-uniform-intrinsic-combine", 0},
	/* Divergent branches enclose one block, and loops have one exit. */
	{"structurizecfg", 0}, {"amdgpu-unify-divergent-exit-nodes", 0}, {"fix-irreducible", 0}, {"unify-loop-exits", 0},
	/* Of where registers die, before they are assigned: copies are then joined as well without. */
	{"livevars", 0}, {"si-opt-vgpr-liverange", 0},
};

/* In front of register allocation, of what selection and the passes behind it have made equal. */
const unwanted repeated_plain[] = {{"machine-cse", 2}};

/* AMDGPU: a move of 64 bits has a literal of 32, which it takes as unsigned.  LLVM 22 makes such moves of any constant that comes to scalar registers from
 * vector ones, and the upper half is lost: -1000 is then 4,294,966,296 (llvm-project pull request 200576 mends it, for LLVM 23).  Each becomes the
 * instruction that is for any constant, which LLVM divides into two moves behind register allocation. */
struct wide_constants : llvm::MachineFunctionPass {
	static char ID;
	wide_constants() : MachineFunctionPass(ID) {}
	llvm::StringRef getPassName() const override { return "moves of wide constants"; }
	void getAnalysisUsage(llvm::AnalysisUsage &usage) const override
	{
		usage.setPreservesAll();
		MachineFunctionPass::getAnalysisUsage(usage);
	}
	bool runOnMachineFunction(llvm::MachineFunction &function) override
	{
		const llvm::TargetInstrInfo &info = *function.getSubtarget().getInstrInfo();
		unsigned move = opcode(info, "S_MOV_B64"), any = opcode(info, "S_MOV_B64_IMM_PSEUDO");
		bool changed = false;
		if (!move || !any)
			llvm::report_fatal_error("moves of 64 bits have other names in this LLVM");
		for (llvm::MachineBasicBlock &block : function)
			for (llvm::MachineInstr &i : block) {
				if (i.getOpcode() != move || !i.getOperand(1).isImm() || llvm::isUInt<32>(i.getOperand(1).getImm()))
					continue;
				i.setDesc(info.get(any));
				changed = true;
			}
		return changed;
	}

private:
	/* The names are those of a table of ten thousand: asked once for all functions. */
	static unsigned opcode(const llvm::TargetInstrInfo &info, llvm::StringRef name)
	{
		static std::mutex lock;
		static std::map<std::string, unsigned> known;
		std::lock_guard<std::mutex> held(lock);
		auto [at, unknown] = known.try_emplace(name.str(), 0u);
		for (unsigned o = 0; unknown && o < info.getNumOpcodes(); o++)
			if (info.getName(o) == name)
				at->second = o;
		return at->second;
	}
};
char wide_constants::ID = 0;

/* A pipeline without what is unwanted, however LLVM adds it, and with what it lacks. */
struct pass_list : llvm::legacy::PassManager {
	std::vector<unwanted> left_out;
	std::map<llvm::StringRef, int> seen;
	bool amdgcn = false;
	void add(llvm::Pass *pass) override
	{
		const llvm::PassInfo *info = llvm::PassRegistry::getPassRegistry()->getPassInfo(pass->getPassID());
		llvm::StringRef name = info ? info->getPassArgument() : "";
		int which = ++seen[name];
		if (name == "postrapseudos" && amdgcn)
			llvm::legacy::PassManager::add(new wide_constants);
		if (std::any_of(left_out.begin(), left_out.end(), [&](const unwanted &u) { return name == u.name && (!u.which || u.which == which); }))
			delete pass;
		else
			llvm::legacy::PassManager::add(pass);
		if (name == "si-fix-sgpr-copies")
			llvm::legacy::PassManager::add(new wide_constants);
	}
};

struct pipeline {
	llvm::SmallVector<char, 0> bytes;
	llvm::raw_svector_ostream stream{bytes};
	pass_list passes;
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
	std::unique_ptr<pipeline> pipelines[2][SHIM_ORDERS];       /* [assembly][order] */
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

/* What TargetMachine::addPassesToEmitFile does, less the passes above. */
static bool add_passes(llvm::TargetMachine &machine, pipeline &p, llvm::CodeGenFileType type, enum shim_order order)
{
	auto leave_out = [&p](llvm::ArrayRef<unwanted> list) { p.passes.left_out.insert(p.passes.left_out.end(), list.begin(), list.end()); };
	leave_out(idle);
	bool kept = order == SHIM_KEPT || order == SHIM_KEPT_PLAIN;
	p.passes.amdgcn = machine.getTargetTriple().isAMDGCN();
	if (order != SHIM_OWN)
		leave_out(cheap_addresses);
	if (kept)
		leave_out(repeated);
	if (kept && machine.getTargetTriple().isAMDGCN())
		leave_out(repeated_amdgcn);
	if (order == SHIM_KEPT_PLAIN && machine.getTargetTriple().isAMDGCN())
		leave_out(repeated_plain);
	llvm::TargetPassConfig *config = machine.createPassConfig(p.passes);
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
static pipeline *pipeline_of(struct shim_machine *m, bool assembly, enum shim_order order)
{
	auto &slot = m->pipelines[assembly][order];
	if (slot && !m->machine->getTargetTriple().isNVPTX()) /* NVPTX's printer keeps pointers into the module before */
		return slot.get();
	auto p = std::make_unique<pipeline>();
	if (!add_passes(*m->machine, *p, assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile, order))
		return nullptr;
	slot = std::move(p);
	return slot.get();
}

int shim_emit(struct shim_machine *m, LLVMModuleRef module, bool assembly, enum shim_order order, char **bytes, size_t *size, bool *broken, char *err, size_t errlen)
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
		p = pipeline_of(m, assembly, order);
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

struct shim_reader {
	std::unique_ptr<const llvm::MCRegisterInfo> registers;
	llvm::MCTargetOptions options;
	std::unique_ptr<const llvm::MCAsmInfo> syntax;
	std::unique_ptr<const llvm::MCSubtargetInfo> chip;
	std::unique_ptr<const llvm::MCInstrInfo> instructions;
	std::unique_ptr<llvm::MCContext> context;
	std::unique_ptr<const llvm::MCDisassembler> decoder;
	std::unique_ptr<llvm::MCInstPrinter> printer;
	/* By the bytes, of 4 and of 8 (low_registers): variants of a kernel share most instructions, and LLVM tries its tables one after the
	 * other. */
	std::unordered_map<uint64_t, const char *> read[2];
};

static std::unique_ptr<shim_reader> reader_new(const char *name, const char *cpu)
{
	std::string why;
	llvm::Triple triple(name);
	const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, why);
	if (!target)
		return nullptr;
	auto r = std::make_unique<shim_reader>();
	r->registers.reset(target->createMCRegInfo(triple));
	r->syntax.reset(target->createMCAsmInfo(*r->registers, triple, r->options));
	r->chip.reset(target->createMCSubtargetInfo(triple, cpu, ""));
	r->instructions.reset(target->createMCInstrInfo());
	r->context = std::make_unique<llvm::MCContext>(triple, r->syntax.get(), r->registers.get(), r->chip.get());
	r->decoder.reset(target->createMCDisassembler(*r->chip, *r->context));
	r->printer.reset(target->createMCInstPrinter(triple, r->syntax->getAssemblerDialect(), *r->syntax, *r->instructions, *r->registers));
	return r->decoder && r->printer ? std::move(r) : nullptr;
}

struct shim_reader *shim_reader_of(const char *triple, const char *cpu)
{
	static thread_local std::map<std::string, std::unique_ptr<shim_reader>> kept;
	start_once();
	auto &slot = kept[cpu];
	if (!slot)
		slot = reader_new(triple, cpu);
	return slot.get();
}

static int decode(struct shim_reader *r, llvm::ArrayRef<uint8_t> code, uint64_t address, llvm::MCInst *into)
{
	uint64_t bytes = 0;
	bool there = r->decoder->getInstruction(*into, bytes, code, address, llvm::nulls()) == llvm::MCDisassembler::Success;
	return there ? (int)bytes : 0;
}

/* Most likely an instruction of one word: a short format (CDNA3 ISA guide, "Microcode formats") without a literal or a second word of
 * modifiers among what may be operands.  Given more, LLVM tries all its tables of long instructions first. */
static bool is_word(uint32_t word)
{
	enum { SDWA = 0xf9, DPP = 0xfa, LITERAL = 0xff };
	uint32_t first = word & 0xff, second = word >> 8 & 0xff;
	return word >> 30 != 3 && first != SDWA && first != DPP && first != LITERAL && second != LITERAL;
}

/* Register operands of the long formats (CDNA3 ISA guide, "Microcode formats"), from which bit on, how many. */
struct long_format { uint32_t mask, is; struct { int at, bits; } operand[4]; };
const long_format long_formats[] = {
	{0xfc000000, 0xd0000000, {{0, 8}, {32, 9}, {41, 9}, {50, 9}}},      /* VOP3, VOP3P */
	{0xfc000000, 0xd8000000, {{32, 8}, {40, 8}, {48, 8}, {56, 8}}},     /* DS */
	{0xfc000000, 0xdc000000, {{32, 8}, {40, 8}, {48, 7}, {56, 8}}},     /* FLAT, GLOBAL */
	{0xfc000000, 0xe0000000, {{32, 8}, {40, 8}, {56, 8}, {0, 0}}},      /* MUBUF */
};

/* The same instruction of the lowest registers that are as far from a multiple of 4, where an operand's number is below 64: what it is
 * called, and whether it is one, depends on nothing else of them.  The last register of an operand, 31 behind its first, is there then. */
static uint64_t low_registers(uint64_t code)
{
	for (const long_format &f : long_formats) {
		if (((uint32_t)code & f.mask) != f.is)
			continue;
		for (const auto &o : f.operand) {
			uint64_t number = code >> o.at & ((1u << o.bits) - 1), vector = number & 256;
			if ((number & 255) < 64)
				code = (code & ~(((uint64_t)(1u << o.bits) - 1) << o.at)) | (vector | (number & 3)) << o.at;
		}
	}
	return code;
}

int shim_read(struct shim_reader *r, const void *code, size_t size, const char **mnemonic)
{
	enum { MOST = 1 << 16 };
	uint32_t word[2] = {};
	memcpy(word, code, size < sizeof word ? size : sizeof word);
	const uint64_t key[2] = {word[0], low_registers((uint64_t)word[1] << 32 | word[0])};
	for (int eight = 0; eight < 2; eight++) {
		auto known = r->read[eight].find(key[eight]);
		if (known != r->read[eight].end() && size >= (eight ? 8 : 4)) {
			*mnemonic = known->second;
			return eight ? 8 : 4;
		}
	}
	llvm::MCInst in;
	int bytes = decode(r, {(const uint8_t *)code, size < 4 || !is_word(word[0]) ? size : 4}, 0, &in);
	if (!bytes) {
		in = llvm::MCInst();
		bytes = decode(r, {(const uint8_t *)code, size}, 0, &in);
	}
	*mnemonic = bytes ? r->printer->getMnemonic(in).first : nullptr;
	if (!*mnemonic)
		return 0;
	if (bytes == 4 || bytes == 8) {
		auto &read = r->read[bytes == 8];
		if (read.size() >= MOST)
			read.clear();
		read[key[bytes == 8]] = *mnemonic;
	}
	return bytes;
}

int shim_spell(struct shim_reader *r, const void *code, size_t size, unsigned long long address, char *text, size_t length)
{
	llvm::MCInst in;
	int bytes = decode(r, {(const uint8_t *)code, size}, address, &in);
	if (!bytes)
		return 0;
	std::string whole;
	llvm::raw_string_ostream out(whole);
	r->printer->printInst(&in, address, "", *r->chip, out);
	snprintf(text, length, "%s", llvm::StringRef(whole).split('\n').first.trim().str().c_str());
	return bytes;
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
