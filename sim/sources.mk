# Sources of the simulated device, for the top-level Makefile.
# SIM_SRC: everything both products share; list each new file here.
# libtdsl_sim.so = SIM_SRC + SIM_HIP_SRC, compiled with SIM_CFLAGS, linked with SIM_SO_LDFLAGS.
# tdsl-sim       = SIM_SRC + SIM_TOOL_SRC, linked with SIM_LIBS and -lcjson.
SIM_SRC := sim/chip.c sim/memory.c sim/msgpack.c sim/line.c sim/object.c sim/kernarg.c sim/stats.c \
           base/dtype.c base/num.c \
           $(sort $(wildcard sim/decode*.c sim/operand*.c sim/exec_*.c sim/core*.c))
SIM_HIP_SRC := sim/hip.c sim/hip_properties.c sim/hip_memory.c sim/hip_stream.c sim/hip_image.c sim/hip_module.c
SIM_TOOL_SRC := sim/tool.c base/tensorfile.c
# Only HIP's names and tdsl_sim_* leave the library, and it calls its own even beside a real libamdhip64.
SIM_CFLAGS := -fPIC -fvisibility=hidden -ffp-contract=off
SIM_SO_LDFLAGS := -shared -Wl,-Bsymbolic -Wl,-soname,libtdsl_sim.so
SIM_LIBS := -lm -lpthread
