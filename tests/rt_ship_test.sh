#!/usr/bin/env bash
# rt_ship_test.sh -- what ships: a pack or a library with its pack inside, used by C programs.
#
#   a pack is the same bytes from any folder, by any path and with any number of threads
#   `tdslc build --emit so` makes a library without a C compiler; a program on it has no LLVM mapped, and needs none
#   an instance in no pack is compiled from the text that the pack carries, once, and with TDSL_JIT=0 refused by name
#   TDSL_DISABLE, TDSL_TUNE, TDSL_LOG and TDSL_BATCH_INVARIANT at a call; the lines of docs/ship-kernels.md
#
# In: $B.  Out: totals in Check's form.
set -u
cd "$(dirname "$0")/.." || exit 1
B=$(realpath "${B:-build}") root=$PWD
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export TDSL_CACHE_DIR=$dir/cache
checks=0 failures=0
check() { # WHAT COMMAND..: the command succeeds
	local what=$1
	shift
	checks=$((checks + 1))
	"$@" >"$dir/said" 2>&1 || { echo "$what: exit $?"; sed 's/^/    /' "$dir/said"; failures=$((failures + 1)); }
}
says() { grep -qF -- "$1" "$dir/said" || { echo "expected \"$1\", got:"; cat "$dir/said"; failures=$((failures + 1)); }; checks=$((checks + 1)); }
refused() { # TEXT COMMAND..: the command fails and says TEXT
	local text=$1
	shift
	checks=$((checks + 1))
	if "$@" >"$dir/said" 2>&1 || ! grep -qF -- "$text" "$dir/said"; then
		echo "expected a failure with \"$text\" from $*:"; cat "$dir/said"; failures=$((failures + 1))
	fi
}

# ---- the same bytes
mkdir -p "$dir/here/deep" "$dir/there"
cat >"$dir/here/k.tdsl" <<'T'
# y = x * a, rows of any type
kernel scale[T: f32|f16|bf16](x: T[M, N], a: f32 = 2) -> y: T[M, N]
{
    each m in M {
        n = 0..N
        y[m, n] = T(f32(x[m, n]) * a)
    }
}
pack {
    scale: T f32
}
T
cp "$dir/here/k.tdsl" "$dir/there"
build="$B/tdslc build --instance T=f32 --target gfx942,gfx950"
check "build here" sh -c "cd $dir/here && $build k.tdsl -o $dir/a.tpack -j 1"
check "build there" sh -c "cd $dir/here/deep && $build $dir/there/k.tdsl -o $dir/b.tpack -j 5"
check "the same pack" cmp "$dir/a.tpack" "$dir/b.tpack"
check "library here" sh -c "cd $dir/here && $build k.tdsl -o libk.so --emit so -j 1"
check "library there" sh -c "cd / && $build $dir/there/k.tdsl -o $dir/there/libk.so --emit so -j 4"
check "the same library" cmp "$dir/here/libk.so" "$dir/there/libk.so"
needed=$(readelf -d "$dir/here/libk.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
check "it needs the runtime alone: $needed" test "$needed" = libtdsl_rt.so
check "no folder in it" sh -c "! grep -aq '$dir' $dir/here/libk.so"

# ---- a program on the library: alone in a folder with the runtime and the simulated device, no compiler beside
cat >"$dir/m.c" <<'C'
#include "libk.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	static _Alignas(16) uint16_t h[32], hy[32];
	static _Alignas(16) float x[32], y[32];
	int64_t shape[2] = {2, 16};
	char line[4096];
	tdsl_device d;
	int half = argc > 1 && !strcmp(argv[1], "half");
	DLTensor tx = {half ? (void *)h : x, {kDLCPU, 0}, 2, {TDSL_DL_FLOAT, half ? 16 : 32, 1}, shape, NULL, 0}, ty = tx;
	ty.data = half ? (void *)hy : y;
	for (int i = 0; i < 32; i++) {
		x[i] = (float)i;
		h[i] = (uint16_t)(0x3c00 + (i % 8 << 10)); /* 1, 2, 4, .. */
	}
	if (tdsl_open(&d, "sim:gfx942") || scale(NULL, &tx, 2, &ty)) {
		fprintf(stderr, "%s: %s\n", tdsl_error(), tdsl_error_name(-1));
		return 1;
	}
	for (int i = 0; i < 32; i++)
		if (half ? hy[i] != h[i] + 0x400 : y[i] != 2 * x[i])
			return 2;
	struct tdsl_last last;
	struct tdsl_counters c;
	if (tdsl_last_call(&last) || tdsl_counters(&c))
		return 3;
	printf("variant %s, compiles %d, jit %d\n", last.predicate, (int)c.compiles, (int)c.jit_kernels);
	FILE *maps = fopen("/proc/self/maps", "r");
	while (!half && fgets(line, sizeof line, maps))
		if (strstr(line, "LLVM") || strstr(line, "libtdslc"))
			return 4;
	return 0;
}
C
mkdir "$dir/alone"
cp "$dir/here/libk.so" "$B/libtdsl_rt.so" "$B/libtdsl_sim.so" "$dir/alone"
check "compile a program" ${CC:-cc} -std=c11 -Wall -Werror -I"$root/runtime/include" -I"$dir/here" "$dir/m.c" -o "$dir/alone/m" \
	-L"$dir/alone" -lk -ltdsl_rt -Wl,-rpath,'$ORIGIN' ${SAN:+-fsanitize=address,undefined}
check "a program on a library" "$dir/alone/m"
says 'compiles 0'
refused "argument 'x' is f16; expected f32" "$dir/alone/m" half
says 'no compiler'
check "nothing of LLVM is opened" sh -c "LD_DEBUG=files $dir/alone/m 2>&1 | grep -c LLVM | grep -qx 0"

# ---- an instance in no pack
export TDSL_COMPILER=$B/libtdslc.so
TDSL_JIT=0 refused "argument 'x' is f16; expected f32" "$dir/alone/m" half
says 'TDSL_JIT=0'
check "compiled when called" "$dir/alone/m" half
says 'compiles 1, jit 1'
check "from the cache, without the compiler" sh -c "LD_DEBUG=files $dir/alone/m half 2>$dir/loaded && ! grep -q LLVM $dir/loaded"
says 'compiles 0, jit 1'
check "from the cache" "$dir/alone/m" half
says 'compiles 0, jit 1'
check "what the pack has does not compile" "$dir/alone/m"
says 'compiles 0, jit 0'

# ---- compiling while a stream is captured: a driver that says so
cat >"$dir/capture.c" <<'C'
unsigned hipStreamIsCapturing(void *stream, unsigned *status) { (void)stream; *status = 1; return 0; }
C
check "a driver that captures" ${CC:-cc} -shared -fPIC "$dir/capture.c" -o "$dir/libcapture.so" -Wl,--no-as-needed -L"$dir/alone" -ltdsl_sim -Wl,-rpath,"$dir/alone"
TDSL_CACHE_DIR=$dir/empty TDSL_SIM_LIBRARY=$dir/libcapture.so refused "scale: a stream of sim:gfx942 is being captured into a graph" "$dir/alone/m" half
TDSL_SIM_LIBRARY=$dir/libcapture.so check "what the pack has runs while captured" "$dir/alone/m"

# ---- dispatch
chosen=$("$dir/alone/m" | sed 's/variant \(.*\), compiles.*/\1/')
TDSL_DISABLE="scale/$chosen" check "one variant disabled" "$dir/alone/m"
checks=$((checks + 1)); grep -qF "variant $chosen," "$dir/said" && [ "$chosen" != any ] && { echo "$chosen ran though disabled"; failures=$((failures + 1)); }
TDSL_DISABLE=scale refused "scale: disabled by TDSL_DISABLE" "$dir/alone/m"
TDSL_LOG=info check "log" "$dir/alone/m"
says "tdsl: info: scale[T=f32] on gfx942: variant \"$chosen\""
TDSL_LOG=debug check "log" "$dir/alone/m"
says "not needed"
printf 'tdsl tune 1\nscale\tT=f32\tgfx942\tM=2,N=16\tany\t0.9\n' >"$dir/tune"
TDSL_TUNE=$dir/tune check "tuned" "$dir/alone/m"
says 'variant any'
printf 'tdsl tune 1\nscale\tT=f32\tgfx942\t*\tany\t1.2\n' >"$dir/tune"
TDSL_TUNE=$dir/tune refused "tune:2: the share is above the hardware's peak" "$dir/alone/m"
TDSL_TUNE=$dir/none refused "TDSL_TUNE: $dir/none: No such file" "$dir/alone/m"
TDSL_BATCH_INVARIANT=1 check "batch invariant" "$dir/alone/m"
TDSL_JIT=maybe refused "TDSL_JIT is \"maybe\"; expected 0 or 1" "$dir/alone/m"
check "a table of tuned choices" sh -c "$B/tdslc tune kernels.tdsl --kernel grouped_gemm --instance T=bf16 --target gfx942 -o $dir/tune"
check "it has an entry" grep -q "^grouped_gemm	T=bf16	gfx942	\*	" "$dir/tune"
TDSL_TUNE=$dir/tune check "it is read" "$dir/alone/m"

# ---- tuning on a device: counts of the simulated one as time; dispatch follows the table; what is above the peak is rejected
tune() { env TDSL_SIM_LIBRARY="$B/libtdsl_sim.so" "$B/tdslc" tune "$@"; }
check "by the simulated device" tune "$dir/here/k.tdsl" --instance T=f32 --target gfx942,gfx950 --device sim:gfx942 --size N=16 -o "$dir/table"
says 'best scale[T=f32] gfx942 N=16: '
says ' us modelled'
best=$(sed -n 's/^scale\tT=f32\tgfx942\tN=16\t\(.*\)\t0\.[0-9]*$/\1/p' "$dir/table")
check "one entry, of that device: $(cat "$dir/table")" test "$(wc -l <"$dir/table")" = 2 -a -n "$best"
TDSL_TUNE=$dir/table TDSL_LOG=debug check "dispatch reads it" "$dir/alone/m"
says "variant $best,"
says "runs, by TDSL_TUNE"
check "where there is no device, both chips by the model" env -u TDSL_DEVICE TDSL_HIP_LIBRARY="$dir/none" TDSL_SIM_LIBRARY="$B/libtdsl_sim.so" \
	"$B/tdslc" tune "$dir/here/k.tdsl" --instance T=f32 --target gfx942,gfx950 --size N=16 -o "$dir/table"
check "two entries" test "$(grep -c 'N=16' "$dir/table")" = 2
refused "is above the hardware's peak: rejected" tune "$dir/here/k.tdsl" --instance T=f32 --target gfx942 --device null:gfx942 --size N=4096 -o "$dir/table"
says "tune: nothing is tuned: 0 left out, 1 rejected, 0 failed"
check "the table before it stays" test "$(grep -c 'N=16' "$dir/table")" = 2
check "for the device's code, where no target is named" tune "$dir/here/k.tdsl" --instance T=f32 --device sim:gfx950 --size N=16 -o "$dir/table"
check "which is all there is" test "$(grep -c gfx950 "$dir/table")" = 1 -a "$(grep -c gfx942 "$dir/table")" = 0
refused "tune: sim:gfx950 runs code for gfx950, which --target leaves out" tune "$dir/here/k.tdsl" --instance T=f32 --target gfx942,sm_90a --device sim:gfx950 --size N=16
refused "--size Q=4: no kernel here has this size" tune "$dir/here/k.tdsl" --instance T=f32 --device sim:gfx942 --size Q=4
refused "--size N=x: NAME=NUMBER is needed" tune "$dir/here/k.tdsl" --size N=x
refused "sim:gfx1" tune "$dir/here/k.tdsl" --instance T=f32 --device sim:gfx1
refused "tokens holds integers: --in FILE with it is needed; left out" tune kernels.tdsl --kernel swiglu_masked_rows --target gfx942 --device sim:gfx942 -o "$dir/table"

# ---- docs/environment.md has the table of runtime/env.c
for name in $(grep -oE '\{"TDSL_[A-Z_]+"' runtime/env.c | tr -d '{"'); do
	check "docs/environment.md names $name" grep -qF "| \`$name\` |" docs/environment.md
done

# ---- licence and text
check "a pack without its text" sh -c "cd $dir && $build here/k.tdsl -o c.tpack --licence Apache-2.0 --no-source && ! grep -aq 'n = 0..N' c.tpack && grep -aq Apache-2.0 c.tpack"
check "a pack with it" grep -aq 'n = 0..N' "$dir/a.tpack"

# ---- the commands of docs/ship-kernels.md, as they stand there
cp "$dir/here/k.tdsl" "$dir/my.tdsl"
sed -n '/^```sh$/,/^```$/{/^```/d;p}' docs/ship-kernels.md >"$dir/commands"
sed -n '/^```c$/,/^```$/{/^```/d;p}' docs/ship-kernels.md >"$dir/use.c"
check "docs/ship-kernels.md has commands" test "$(wc -l <"$dir/commands")" -ge 4
[ -n "${SAN:-}" ] || check "the commands of docs/ship-kernels.md" env -C "$dir" PATH="$B:$PATH" TDSL="$root/runtime/include" LIB="$B" sh -eu "$dir/commands"
echo "$(((checks - failures) * 100 / checks))%: Checks: $checks, Failures: $failures, Errors: 0"
[ $failures = 0 ]
