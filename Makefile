# tdsl -- everything is built here; the sources are listed, objects and results lie under build/.
#
#   make             the compiler, the runtime and the simulated device     make test        all tests
#   make run         the pack, then the demonstration on both chips         make test-full   the large grids as well
#   make bench       tables, then every figure with met / not met           make san, fuzz   under ASan and UBSan
#   make wheel       the Python wheel                                       make bless       rewrite the golden files
#
# Every target installs the Debian packages it lacks first (tests/setup.sh; TDSL_SETUP=check only names them).
B ?= build
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:
Q = $(if $(V),,@)
SAY = $(if $(V),,@echo '  $(1)')

SETUP := $(shell mkdir -p $(B))$(B)/setup.stamp
LLVM_CONFIG ?= llvm-config-22
# Asked once, and only when a recipe needs it: the packages may not be there when this file is read.
LLVM_DIR = $(eval LLVM_DIR := $(shell $(LLVM_CONFIG) --prefix))$(LLVM_DIR)
LLVM_LIBS = $(shell $(LLVM_CONFIG) --link-shared --ldflags --libs) -llldELF -llldCommon $(shell $(LLVM_CONFIG) --link-shared --libs)

OPT ?= -O2 -g1
WARN = -Wall -Wextra -Werror -Wno-error=maybe-uninitialized -Wno-error=stringop-overflow -Wno-error=stringop-truncation \
	-Wno-error=format-truncation -Wno-error=array-bounds
CPPFLAGS = -D_GNU_SOURCE -MMD -MP
COMMON = $(OPT) -fPIC -fvisibility=hidden -ffunction-sections -ffp-contract=off $(SANFLAGS)
CFLAGS = -std=c11 $(COMMON) $(WARN)
CXXFLAGS = -std=c++17 -fno-rtti -fno-exceptions $(COMMON) $(WARN)
LDFLAGS = -Wl,--gc-sections -Wl,--as-needed -Wl,-rpath,'$$ORIGIN' $(SANFLAGS)
ifdef SAN
OPT = -O1 -g
SANFLAGS = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
endif

# ---- sources ---------------------------------------------------------------------------------------------------------------
BASE = $(wildcard base/*.c)
DSL = $(wildcard dsl/*.c)
COMPILER = $(filter-out compiler/tdslc% compiler/libtdslc.c,$(wildcard compiler/*.c compiler/*.cpp compiler/passes/*.c compiler/target/*.c))
TDSLC = $(wildcard compiler/tdslc*.c)
LIBTDSLC = $(wildcard compiler/libtdslc.c)
RUNTIME = $(wildcard runtime/*.c)
SIM = $(filter-out sim/tool.c sim/tdsl-sim.c,$(wildcard sim/*.c))
SIMTOOL = $(wildcard sim/tool.c sim/tdsl-sim.c)
LIBRARY = $(wildcard lib/*.tdsl)
TESTS = $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/*_test.c))
SCRIPTS = $(wildcard tests/*_test.sh tests/*_test.py)

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

.PHONY: all run test test-full bench wheel san fuzz clean bless setup
all: $(PRODUCTS)

setup: ; sh tests/setup.sh
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
$(B)/o/compiler/%.o: INCLUDES = -isystem $(LLVM_DIR)/include
$(B)/o/dsl/%.o: INCLUDES = -isystem $(LLVM_DIR)/include -I$(B)/gen -Idsl
$(B)/o/tests/%.o: INCLUDES = -isystem $(LLVM_DIR)/include -I$(B)/gen -Idsl -Iruntime/include
$(B)/o/bench/%.o: INCLUDES = -I$(B)/gen -Iruntime/include

%.a: ; @rm -f $@; ar rcs $@ $^
$(BASE_A): $(call obj,$(BASE))
$(DSL_A): $(call obj,$(DSL))
$(COMPILER_A): $(call obj,$(COMPILER))
$(RUNTIME_A): $(call obj,$(RUNTIME))
$(SIM_A): $(call obj,$(SIM))

$(B)/libtdsl_rt.so: $(RUNTIME_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-Bsymbolic -Wl,--whole-archive $(RUNTIME_A) -Wl,--no-whole-archive \
		-Wl,--exclude-libs,libzstd.a:libxxhash.a $(BASE_A) $(ZSTD) $(SYSTEM) -o $@
$(B)/libtdsl_sim.so: $(SIM_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-Bsymbolic -Wl,--whole-archive $(SIM_A) -Wl,--no-whole-archive $(BASE_A) $(SYSTEM) -o $@
$(B)/libtdslc.so: $(call obj,$(LIBTDSLC)) $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) -shared -Wl,-Bsymbolic $(call obj,$(LIBTDSLC)) -Wl,--start-group $(COMPILER_A) $(DSL_A) $(RUNTIME_A) \
		$(BASE_A) -Wl,--end-group $(LLVM_LIBS) $(ZSTD) $(SYSTEM) -o $@
$(B)/tdslc: $(call obj,$(TDSLC)) $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) $(call obj,$(TDSLC)) -Wl,--start-group $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(BASE_A) -Wl,--end-group \
		$(LLVM_LIBS) $(ZSTD) -lcjson $(SYSTEM) -o $@
$(B)/tdsl-sim: $(call obj,$(SIMTOOL)) $(SIM_A) $(BASE_A)
	$(call SAY,link $@)
	$(Q)$(CC) $(LDFLAGS) $^ -lcjson $(SYSTEM) -o $@

# ---- tests -----------------------------------------------------------------------------------------------------------------
VENV = $(B)/venv/stamp
$(VENV): | $(SETUP)
	python3 -m venv $(B)/venv
	$(B)/venv/bin/pip install -q numpy ml_dtypes
	@touch $@

$(B)/tests/%_test: $(B)/o/tests/%_test.o $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(SIM_A) $(BASE_A)
	@mkdir -p $(@D)
	$(call SAY,link $@)
	$(Q)$(CXX) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(COMPILER_A) $(DSL_A) $(RUNTIME_A) $(SIM_A) $(BASE_A) -Wl,--end-group \
		$$(pkg-config --libs check) $(LLVM_LIBS) $(ZSTD) -lcjson $(SYSTEM) -o $@

test: all $(TESTS) $(VENV)
	@PYTHON=$(abspath $(B))/venv/bin/python B=$(B) tests/run-tests.sh $(B)/test $(TESTS) $(SCRIPTS)

clean:
	rm -rf $(B)

-include $(shell find $(B)/o -name '*.d' 2>/dev/null)
