# Sources of the runtime and of the pack reader and writer, relative to the top of the tree.
# The compiler and the tools link PACK_SRC; RT_SRC includes it (the cache writes packs).  Both need RT_BASE_SRC.
PACK_SRC = runtime/pack_write.c runtime/pack_read.c runtime/pack_model.c
RT_SRC = runtime/error.c runtime/device.c runtime/device_hip.c runtime/device_null.c \
	runtime/packs.c runtime/module.c runtime/view.c runtime/bind.c runtime/plan.c runtime/call.c runtime/binding.c \
	runtime/cache.c runtime/jit.c $(PACK_SRC)
RT_BASE_SRC = base/arena.c base/dtype.c base/hexpr.c base/model.c
RT_LDFLAGS = -Wl,-Bsymbolic -Wl,--exclude-libs,ALL
RT_LIBS = -lzstd -lxxhash -lpthread -ldl
RT_CFLAGS = -fvisibility=hidden
