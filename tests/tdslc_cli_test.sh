#!/bin/sh
# tdslc_cli_test.sh -- tdslc's exit codes and messages: 0 fine, 1 error, 2 usage; nothing is left behind by a failure.
# B: the build folder (build where unset).
tdslc=${B:-build}/tdslc
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failures=0
checks=0

# expect CODE TEXT ARGS...: the exit code, and TEXT somewhere in what it prints on either stream.
expect()
{
	code=$1 text=$2
	shift 2
	said=$("$tdslc" "$@" 2>&1)
	got=$?
	checks=$((checks + 1))
	if [ "$got" != "$code" ] || ! printf '%s\n' "$said" | grep -qF -- "$text"; then
		printf 'tdslc %s\n  expected %s and "%s"; got %s and:\n%s\n' "$*" "$code" "$text" "$got" "$said"
		failures=$((failures + 1))
	fi
}
left_behind()
{
	checks=$((checks + 1))
	if [ -n "$(ls -A "$dir/out")" ]; then
		echo "left behind: $(ls -A "$dir/out")"
		failures=$((failures + 1))
	fi
}
# modes MODE FILE...: the files' modes.
modes()
{
	mode=$1
	shift
	for file; do
		checks=$((checks + 1))
		if [ "$(stat -c %a "$file")" != "$mode" ]; then
			echo "$file: mode $mode expected; got $(stat -c %a "$file")"
			failures=$((failures + 1))
		fi
	done
}
mkdir "$dir/out"
cat >"$dir/twice.tdsl" <<'T'
# y = a * x
kernel twice(x: f32[N], a: f32 = 2) -> y: f32[N]
{
    each n in N tiled {
        y[n] = x[n] * a
    }
}
T
printf 'kernel broken(x: f32[N]) -> y: f32[N]\n{\n    each n in N { y[n] = z[n] }\n}\n' >"$dir/broken.tdsl"
: >"$dir/empty"
one=$dir/twice.tdsl
out=$dir/out

expect 2 'tdslc build'
expect 0 'tdslc extract' --help
expect 0 'LLVM 22' --version
expect 2 'unknown command compile' compile
# What is asked for and cannot be written is an error.
for asked in --version --help 'build --help'; do
	checks=$((checks + 1))
	said=$("$tdslc" $asked 2>&1 >/dev/full)
	if [ $? != 1 ] || [ "$said" != 'tdslc: standard output: cannot write' ]; then
		echo "tdslc $asked >/dev/full: $said"
		failures=$((failures + 1))
	fi
done
checks=$((checks + 1))
"${B:-build}/tdsl-sim" --help | grep -q '^tdsl-sim FILE.hsaco KERNEL' && "${B:-build}/tdsl-sim" --help >"$dir/help" || failures=$((failures + 1))
expect 0 '[--header H.h [--binding B.c]]' build --help
expect 0 '"N=4096 aligned"' dump --help
expect 0 '[--instance I] [--without NAME]' run --help
expect 0 '[--target LIST] [--size N=4096]...' tune --help
expect 0 '[--in FILE]' tune --help
for command in build check dump list report verify extract run tune; do
	expect 0 "tdslc $command" $command --help
	expect 2 "tdslc $command: " $command
	expect 2 'unknown option --colour' $command a b --colour
done
expect 2 '-o OUT.tpack is needed' build "$one"
expect 2 '-o needs a value' build "$one" -o
expect 2 'unknown target gfx90a; known: gfx942, gfx950' build "$one" -o "$out/p" --target gfx90a
expect 2 'a number of threads' build "$one" -o "$out/p" -j 0
expect 2 '--header H.h is needed' build "$one" -o "$out/p" --binding "$out/b.c"
expect 2 'only "so" is known' build "$one" -o "$out/p" --emit exe
expect 2 'no --binding' build "$one" -o "$out/p" --emit so --binding b.c --header b.h
expect 1 "$dir/none.tdsl: No such file or directory" build "$dir/none.tdsl" -o "$out/p"
expect 1 "$dir: Is a directory" build "$dir" -o "$out/p"
expect 1 'no kernel "thrice"; the file has twice' build "$one" -o "$out/p" --kernel thrice
expect 1 'no instance "T=bf16"' build "$one" -o "$out/p" --instance T=bf16
expect 1 'broken.tdsl:3:' build "$dir/broken.tdsl" -o "$out/p"
expect 1 'broken.tdsl:3:' check "$dir/broken.tdsl"
expect 1 'No such file or directory' build "$one" -o "$dir/nowhere/p"
expect 1 'No such file or directory' build "$one" -o "$out/p" --header "$dir/nowhere/h.h"
expect 1 'No space left on device' build "$one" -o /dev/full
left_behind

# A text that is too long is not read to its end, nor is a library.
mkdir "$dir/long"
cp lib/*.tdsl "$dir/long"
head -c 8388608 /dev/zero >"$dir/long/zeros.tdsl"
expect 1 "$dir/long/zeros.tdsl:1:1: error: the text has more than 4194304 bytes; at most 4194304 are read [E_HUGE]" check "$dir/long/zeros.tdsl"
expect 1 "$dir/long/zeros.tdsl:1:1: error: the library up to here has more than 4194304 bytes" check "$one" --library "$dir/long"
expect 1 "$dir/long/zeros.tdsl:1:1: error: the text has more than" dump "$dir/long/zeros.tdsl" --kernel twice --stage ast
rm -r "$dir/long"

# Nothing that is read is overwritten, under whatever name, and no result by another.
mkdir "$dir/lib"
cp lib/*.tdsl "$dir/lib"
ln "$one" "$dir/hard.tpack"
ln -s "$one" "$dir/soft.tpack"
cp "$one" "$dir/before"
for to in "$one" "$dir/./twice.tdsl" "$dir/hard.tpack" "$dir/soft.tpack"; do
	expect 2 "-o $to would overwrite $one, which is read" build "$one" -o "$to"
	expect 2 "--header $to would overwrite" build "$one" -o "$out/p" --header "$to"
	expect 2 "-o $to would overwrite $one" tune "$one" --kernel twice --target gfx942 -o "$to"
done
expect 2 "-o $dir/lib/norm.tdsl would overwrite $dir/lib/norm.tdsl" build "$one" -o "$dir/lib/norm.tdsl" --library "$dir/lib"
expect 2 '--header names the same file' build "$one" -o "$out/p" --header "$out/h" --binding "$out/h"
expect 2 '-o names the same file' build "$one" -o "$out/p" --header "$out/p"
checks=$((checks + 1))
cmp "$one" "$dir/before" && cmp "$dir/lib/norm.tdsl" lib/norm.tdsl || failures=$((failures + 1))
left_behind
rm "$dir/hard.tpack" "$dir/soft.tpack"
expect 0 '' check "$one"
expect 2 '--kernel K and --stage S are needed' dump "$one"
expect 2 'unknown stage parse; known: ast, ir' dump "$one" --kernel twice --stage parse
expect 1 'no kernel "thrice"' dump "$one" --kernel thrice --stage ir
for stage in ast ir layout asm; do
	expect 1 'no variant "N=3" for gfx942; it has:' dump "$one" --kernel twice --stage $stage --variant N=3
done
for stage in ast ir layout llvm asm; do
	expect 0 twice dump "$one" --kernel twice --stage $stage
done
expect 0 'Method:' dump "$one" --kernel twice --explain
expect 0 'workgroups=264 joined rounds=6 paced aligned' dump kernels.tdsl --kernel swiglu_bwd --instance T=bf16 --target sm_90a --explain
for command in list report verify; do
	expect 1 "$dir/none: " $command "$dir/none"
	expect 1 'not a kernel pack' $command "$one"
	expect 1 "$dir/empty" $command "$dir/empty"
done

# A pack, the same for any number of threads, and everything that reads it.
expect 0 '' build "$one" -o "$dir/a.tpack" -j 1 --header "$dir/k.h" --binding "$dir/k.c"
expect 0 '' build "$one" -o "$dir/b.tpack" -j 4
checks=$((checks + 1))
cmp "$dir/a.tpack" "$dir/b.tpack" || failures=$((failures + 1))
checks=$((checks + 1))
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iruntime/include -c "$dir/k.c" -o "$dir/k.o" || failures=$((failures + 1))
checks=$((checks + 1))
${CXX:-c++} -Wall -Wextra -Werror -Iruntime/include -x c++ -c "$dir/k.h" -o "$dir/k.gch" || failures=$((failures + 1))
# Names that no C function can have are refused where functions are asked for, and only there; parameters get an underscore.
for name in int class main tdsl_open kDLCPU __twice malloc sqrtf; do
	sed "s/^kernel twice/kernel $name/" "$one" >"$dir/name.tdsl"
	expect 1 "$dir/name.tdsl:2: error: kernel '$name' with --header: the name is " build "$dir/name.tdsl" -o "$out/p" --header "$out/h" --binding "$out/c"
	expect 1 "$dir/name.tdsl:2: error: kernel '$name' with --emit so: the name is " build "$dir/name.tdsl" -o "$out/p.so" --emit so
done
left_behind
expect 0 '' build "$dir/name.tdsl" -o "$dir/name.tpack" --target gfx942
cat "$one" >>"$dir/name.tdsl"
expect 0 '' build "$dir/name.tdsl" -o "$dir/name.tpack" --target gfx942 --kernel twice --header "$dir/name.h"
# So are those that another kernel's functions have; and every kernel has its own in a library.
# A product whose tile, stored across, is more than group memory holds, in front of a phase without one: the first thing that this process builds.
cat >"$dir/across.tdsl" <<'end'
kernel product_both_ways(a: f32[M, K], b: f32[N, K]) -> (yt: f32[N, M], z: f32[N, M])
{
    each m in M tiled, n in N tiled {
        acc: f32[m, n] = 0
        for k in K tiled {
            acc += dot(a[m, k], b[n, k] over k)
        }
        yt[n, m] = acc
    }
    each m in M tiled, n in N tiled {
        z[n, m] = yt[n, m] * 2.0
    }
}
end
expect 0 '' build "$dir/across.tdsl" --target gfx942 -j 1 -o "$dir/across.tpack"
cat >"$dir/name.tdsl" <<'end'
kernel k(x: f32[M]) -> y: f32[M]
{
    temp t: f32[M]
    each m in M { t[m] = x[m] }
    each m in M { y[m] = t[m] }
}
kernel k_workspace(x: f32[M]) -> y: f32[M]
{
    each m in M { y[m] = x[m] }
}
kernel k_binding = copied[G: 1]
kernel text = copied[G: 1]
kernel text_workspace = copied[G: 1]
kernel binding = copied[G: 1]
kernel copied[G: int](x: f32[M]) -> y: f32[M]
{
    each m in M { y[m] = x[m] }
}
end
expect 1 "$dir/name.tdsl:7: error: kernel 'k_workspace' with --emit so: the name is of the function for the workspace of kernel 'k', line 1; expected" build "$dir/name.tdsl" -o "$out/p.so" --emit so
expect 1 "$dir/name.tdsl:11: error: kernel 'k_binding' with --header: the name is of the record in the binding of kernel 'k', line 1; expected" build "$dir/name.tdsl" -o "$out/p" --header "$out/h" --binding "$out/c"
left_behind
expect 0 '' build "$dir/name.tdsl" -o "$dir/name.tpack" --target gfx942
expect 0 '' build "$dir/name.tdsl" -o "$dir/name.so" --target gfx942 --emit so --kernel k_workspace --kernel k_binding --kernel text --kernel text_workspace --kernel binding
checks=$((checks + 1))
[ "$(nm -D --defined-only "$dir/name.so" | sed 's/.* //' | sort | tr '\n' ' ')" = 'binding k_binding k_workspace text text_workspace ' ] || failures=$((failures + 1))
sed 's/x: f32\[N\]/NULL: f32[N], int: f32[N], tdsl_binding_call: f32[N], DLTensor: f32[N], int64_t: f32[N], twice_binding: f32[N]/; s/x\[n\]/NULL[n]/' "$one" >"$dir/name.tdsl"
expect 0 '' build "$dir/name.tdsl" -o "$dir/name.tpack" --target gfx942 --header "$dir/name.h" --binding "$dir/name.c"
checks=$((checks + 1))
${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iruntime/include -c "$dir/name.c" -o "$dir/k.o" || failures=$((failures + 1))
checks=$((checks + 1))
${CXX:-c++} -Wall -Wextra -Werror -Iruntime/include -x c++ -c "$dir/name.h" -o "$dir/k.gch" || failures=$((failures + 1))

# What is new is for those that the umask lets in; a file that is there keeps its mode.
mkdir "$dir/modes"
umask 077
expect 0 '' build "$one" -o "$dir/modes/p" --header "$dir/modes/h" --binding "$dir/modes/c"
expect 0 '' build "$one" -o "$dir/modes/k.so" --emit so
expect 0 '' extract "$dir/modes/p" --kernel twice --target gfx942 -o "$dir/modes/o"
expect 0 '' tune "$one" --target gfx942 -o "$dir/modes/t"
modes 600 "$dir/modes"/*
chmod 640 "$dir/modes/p" "$dir/modes/h"
chmod 660 "$dir/modes/t"
umask 022
expect 0 '' build "$one" -o "$dir/modes/p" --header "$dir/modes/h" --binding "$dir/modes/c2"
expect 0 '' tune "$one" --target gfx942 -o "$dir/modes/t"
modes 640 "$dir/modes/p" "$dir/modes/h"
modes 660 "$dir/modes/t"
modes 644 "$dir/modes/c2"
pack=$dir/a.tpack
expect 0 'twice(x: f32[N], a: f32 = 2) -> (y: f32[N])' list "$pack"
expect 0 '"kernel":"twice"' list "$pack" --json
expect 0 'gfx950' report "$pack"
expect 0 '"matrix_share"' report "$pack" --json
expect 0 'every byte as written' verify "$pack"
expect 2 '--kernel, --target and -o are needed' extract "$pack" --kernel twice
expect 1 'no variant for gfx90a' extract "$pack" --kernel twice --target gfx90a -o "$out/k"
expect 1 'no kernel "thrice"' extract "$pack" --kernel thrice --target gfx942 -o "$out/k"
left_behind
expect 0 '' extract "$pack" --kernel twice --target gfx942 -o "$dir/k.hsaco"
checks=$((checks + 1))
head -c 4 "$dir/k.hsaco" | grep -q ELF || failures=$((failures + 1))
checks=$((checks + 2))
"${B:-build}/tdsl-sim" "$dir/k.hsaco" --list | grep -q '^twice' || failures=$((failures + 1))
"${B:-build}/tdsl-sim" "$dir/k.hsaco" --list 2>&1 >/dev/full | grep -q 'cannot write to the standard output' || failures=$((failures + 1))
expect 2 '--device, --in and --out are needed' run "$pack" twice --device sim:gfx942
expect 1 "thrice" run "$pack" thrice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st"
expect 1 "$dir/x.st" run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st"
expect 1 'sim:gfx000' run "$pack" twice --device sim:gfx000 --in "$dir/x.st" --out "$out/y.st"

# A file of 8 numbers: header, then 32 bytes of zeros.
head='{"x":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}'
printf '\070\000\000\000\000\000\000\000%-56s' "$head" >"$dir/x.st"
head -c 32 /dev/zero >>"$dir/x.st"
expect 2 '--arg a: NAME=X is needed' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st" --arg a
expect 2 '--arg a=1 and --arg a=2: a scalar is given once' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st" --arg a=1 --arg a=2
expect 1 'has no such scalar' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st" --arg b=1
expect 1 'a number is needed' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st" --arg a=two
expect 1 '--arg a=1e400: too large for f32' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st" --arg a=1e400
expect 1 '--arg a=-1e39: too large for f32' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st" --arg a=-1e39
expect 2 "--out $pack would overwrite $pack, which is read" run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$pack"
expect 2 "--out $dir/x.st would overwrite" run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$dir/x.st"
expect 2 "-o $pack would overwrite" extract "$pack" --kernel twice --target gfx942 -o "$pack"
expect 0 '' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$dir/y.st" --arg a=inf
expect 1 'no simulated device' run "$pack" twice --device null:gfx942 --in "$dir/x.st" --out "$out/y.st" --stats
expect 1 '/dev/full' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out /dev/full
left_behind
expect 0 '"valu":' run "$pack" twice --device sim:gfx942 --in "$dir/x.st" --out "$dir/y.st" --arg a=3 --stats
expect 0 '' run "$pack" twice --device sim:gfx950 --in "$dir/x.st" --out "$dir/y.st"
checks=$((checks + 1))
grep -q '"y"' "$dir/y.st" || failures=$((failures + 1))

# The instance that is asked for is the one that runs; lists are none of tdslc run's business.
printf 'kernel turned[T: bf16|f16](x: T[N]) -> y: T[N]\n{\n    each n in N { y[n] = T(0 - f32(x[n])) }\n}\n' >"$dir/types.tdsl"
printf 'kernel told[T: bf16|f16](x: f32[N]) -> (y?: T[N], z?: f32[N])\n{\n    each n in N {\n        y[n] = T(x[n])\n        z[n] = x[n]\n    }\n}\n' >>"$dir/types.tdsl"
printf 'kernel many(x: list f32[K, N], y: f32[K]) -> z: list f32[K, N]\n{\n    each k in K, i in x[k] tiled { z[k, i] = x[k, i] * y[k] }\n}\n' >>"$dir/types.tdsl"
expect 0 '' build "$dir/types.tdsl" --target gfx942 -o "$dir/types.tpack"
head='{"x":{"dtype":"BF16","shape":[16],"data_offsets":[0,32]}}'
printf '\100\000\000\000\000\000\000\000%-64s' "$head" >"$dir/bf16.st"
head -c 32 /dev/zero >>"$dir/bf16.st"
expect 1 "$dir/bf16.st: tensor \"x\" is bf16; --instance T=f16 of kernel turned takes f16" run "$dir/types.tpack" turned --device sim:gfx942 \
	--in "$dir/bf16.st" --out "$out/y.st" --instance T=f16
expect 1 'kernel turned has no instance "T=f32"' run "$dir/types.tpack" turned --device sim:gfx942 --in "$dir/bf16.st" --out "$out/y.st" --instance T=f32
expect 0 '' run "$dir/types.tpack" turned --device sim:gfx942 --in "$dir/bf16.st" --out "$dir/y.st" --instance T=bf16
expect 1 'kernel told: --instance T=f16 was asked for, these tensors run T=bf16' run "$dir/types.tpack" told --device sim:gfx942 --in "$dir/x.st" \
	--out "$out/y.st" --instance T=f16 --without y
expect 0 '' run "$dir/types.tpack" told --device sim:gfx942 --in "$dir/x.st" --out "$dir/y.st" --instance T=f16 --without z
checks=$((checks + 1))
grep -q F16 "$dir/y.st" || failures=$((failures + 1))
expect 1 'kernel many: x is a list of tensors, and tdslc run takes none' run "$dir/types.tpack" many --device sim:gfx942 --in "$dir/x.st" --out "$out/y.st"
left_behind

expect 0 'best twice' tune "$one" --kernel twice --target gfx942

# Where nothing is tuned there is no table, and a reason; tensors from a file are those of a kernel, of the types that they have.
sed -n '/^kernel grouped_gemm/,/^}/p' kernels.tdsl >"$dir/gemm.tdsl"
expect 1 'tune: nothing is tuned: 2 left out, 0 rejected, 0 failed' tune "$dir/gemm.tdsl" --instance T=bf16 --instance T=f16 --device sim:gfx950 -o "$out/t"
expect 1 'first holds integers: --in FILE with it is needed; left out' tune "$dir/gemm.tdsl" --instance T=bf16 --device sim:gfx950 -o "$out/t"
expect 1 "$dir/x.st: found tensor \"x\"; expected inputs of kernel grouped_gemm: a, b, first" tune "$dir/gemm.tdsl" --instance T=bf16 --device sim:gfx950 \
	--in "$dir/x.st" -o "$out/t"
expect 1 "turned[T=bf16] gfx950: x is f32 in $dir/x.st; expected bf16; left out" tune "$dir/types.tdsl" --kernel turned --instance T=bf16 --device sim:gfx950 \
	--in "$dir/x.st" -o "$out/t"
expect 1 '0 left out, 1 rejected, 0 failed' tune "$one" --device null:gfx950 --size N=16000000 -o "$out/t"
left_behind
expect 0 "turned[T=f16] gfx950: x is bf16 in $dir/bf16.st; expected f16; left out" tune "$dir/types.tdsl" --kernel turned --device sim:gfx950 --in "$dir/bf16.st" -o "$dir/t"
checks=$((checks + 1))
grep -q 'T=bf16' "$dir/t" && ! grep -q 'T=f16' "$dir/t" || failures=$((failures + 1))
TDSL_DEVICE=gpu expect 1 'tdslc: TDSL_DEVICE is "gpu"; expected hip:N' tune "$one"
TDSL_DEVICE=sim:gfx942 expect 1 "--device: 'none' is not a device" tune "$one" --device none

# A class of sizes that registers do not suffice for is left out and named; the pack holds the same for fewer.
sed -n '/^kernel many_states/,/^}/p' tests/lower/loops.tdsl | sed 's/^        e: f32\[n\] = 4/&\n        f: f32[n] = 5\n        g: f32[n] = 6/
	s/^            e = .*/&\n            f = max(f, v * t)\n            g = g + abs(q)/; s/u\[m, n\] = e/& + f + g/' >"$dir/many.tdsl"
expect 0 'warning: kernel many_states for gfx942: variant N<=16384 N%4=0 aligned is left out: ' build "$dir/many.tdsl" --target gfx942 -o "$dir/many.tpack"
expect 0 '| N<=8192 N%4=0 aligned | N<=256 |' list "$dir/many.tpack"
# Another has two instead, one that holds fewer columns and one that sweeps, and nobody is told; where it fits they are not built.
sed -n '/^kernel many_weights/,/^}/p' tests/lower/rows.tdsl >"$dir/weights.tdsl"
expect 0 '' build "$dir/weights.tdsl" --target gfx942 -o "$dir/weights.tpack"
checks=$((checks + 1))
[ -z "$said" ] || failures=$((failures + 1))
expect 0 '| N<=1024 N%4=0 aligned | N<=16384 N%4=0 aligned | N%4=0 aligned | any' list "$dir/weights.tpack"
# Threads share variants; what is left out, or built instead, is the same for any number of them.
for kernel in many weights; do
	for jobs in 1 2 7; do
		expect 0 '' build "$dir/$kernel.tdsl" --target gfx942 -j $jobs -o "$dir/$kernel$jobs.tpack"
		checks=$((checks + 1))
		cmp -s "$dir/$kernel.tpack" "$dir/$kernel$jobs.tpack" || failures=$((failures + 1))
	done
done
expect 0 '' build kernels.tdsl --kernel rmsnorm_quant --instance T=bf16,Q=i8 --target gfx942 -o "$dir/norm.tpack"
expect 0 '| N<=1024 N%16=0 aligned | N<=32768 N%16=0 aligned | any' list "$dir/norm.tpack"

# Rows with their transpose, whose variants have tiles of a launch behind: in every set of tensors, of sizes that are pinned, in classes and between them.
sed '/^pack {$/a\
    layernorm: T bf16, Q fp8, N 4096 5120, with w b scale amax rstd mu yt, with yt, with res w b scale yt res_out\
    rmsnorm: T bf16, Q fp8, N 4096 5120, with w scale amax rstd yt, with res w yt\
    softmax_bwd_static: T bf16, Q fp8, with amax dxt\
    layernorm_bwd_static: T bf16, Q fp8, with w mu dxt, with w mu dxt dw db' kernels.tdsl >"$dir/across.tdsl"
for target in sm_90a gfx942 gfx950; do
	TDSL_PTXAS= expect 0 '' build "$dir/across.tdsl" --kernel layernorm --kernel rmsnorm --kernel softmax_bwd_static --kernel layernorm_bwd_static \
		--instance T=bf16,Q=fp8 --target $target -o "$dir/across.tpack"
done
# A set that leaves tensors open asks for them; the transpose is known to be there also in a set that no line names.  In clusters no
# second tensor is held: those variants are for calls without one.
sed '/^pack {$/,/^}$/d' kernels.tdsl >"$dir/open.tdsl"
printf 'pack {\n    rmsnorm: T bf16, Q fp8, with w scale amax? yt rstd?\n}\n' >>"$dir/open.tdsl"
expect 0 '' build "$dir/open.tdsl" --kernel rmsnorm --target gfx942 -o "$dir/open.tpack"
expect 0 'N<=32768 M%16=0 N%16=0 aligned with w scale amax? yt rstd? | N<=32768 M%16=0 N%16=0 aligned with res? w? scale? amax? yt res_out? rstd? | N<=16384 N%16=0 aligned |' list "$dir/open.tpack"
expect 0 'clusters with w? scale? amax? yt res_out? rstd?: ' dump "$dir/open.tdsl" --kernel rmsnorm --target sm_90a --explain

# Rows' groups that nobody asks for are no groups, of a pinned size either: tiles of 64 columns, where they had been of 64 groups.
sed '/^pack {$/,/^}$/d' kernels.tdsl >"$dir/turned.tdsl"
printf 'pack {\n    quantize_both_mxfp8: T bf16, N 4096 5120, with yt scale_t\n}\n' >>"$dir/turned.tdsl"
for n in 4096 5120; do
	expect 0 "axis n.o grid tiled tile 64 : $n" dump "$dir/turned.tdsl" --kernel quantize_both_mxfp8 --target gfx942 --stage schedule --variant "N=$n M%32=0 aligned with yt scale_t"
done

# Held positions beside groups that are not theirs are no pair: 32 of each 64.
printf 'kernel halves(x: f32[M, N]) -> y: f32[M, N]\n{\n    each m in M, o in cdiv(N, 64) {\n        i = 0..32\n        y[m, o * 32 + i] = x[m, o * 32 + i]\n    }\n}\npack {\n    halves: N 256\n}\n' >"$dir/halves.tdsl"
expect 0 'axis o grid : 4 ' dump "$dir/halves.tdsl" --kernel halves --target gfx942 --stage ungroup --variant 'N=256 aligned'

# Files of kernels that the tests lower make packs of sm_90a, without a variant left out but the one that is there for it: of fourteen tensors no member
# of a cluster has more lanes than a workgroup, and rows that are taken in turns share none.
for file in tests/lower/*.tdsl; do
	[ "$file" = tests/lower/refused.tdsl ] && continue
	said=$(TDSL_PTXAS= "$tdslc" build "$file" -o "$dir/lower.tpack" --target sm_90a 2>&1) &&
		[ -z "$(printf %s "$said" | grep -v 'kernel sums_in_turn .* is left out: ')" ]
	got=$?
	checks=$((checks + 1))
	if [ $got != 0 ]; then
		printf 'tdslc build %s: %s\n' "$file" "$said"
		failures=$((failures + 1))
	fi
done

# In a round of products, of what is asked for (l), written to LDS (w) and multiplied (m): what the round before has asked for is written without being
# asked for in front of it; what is found by numbers that the round itself loads is not.
order()
{
	awk '/^L_/ {s = "L"} /buffer_load/ {c = "l"} /ds_write/ {c = "w"} /v_mfma/ {print s "m"; exit}
	     {if (c && substr(s, length(s)) != c) s = s c; c = ""}'
}
for round in 'ahead a[m, k]' 'itself a[row[m], at[k]]'; do
	operand=${round#* } wanted=${round%% *}
	printf 'kernel product(a: bf16[R, K], b: bf16[N, K], row: i32[M], at: i32[K]) -> c: f32[M, N]\n{\n    each m in M tiled, n in N tiled {\n' >"$dir/product.tdsl"
	printf '        acc: f32[m, n] = 0\n        for k in K tiled {\n            acc += dot(%s, b[n, k] over k)\n        }\n        c[m, n] = acc\n    }\n}\n' \
		"$operand" >>"$dir/product.tdsl"
	code=$("$tdslc" dump "$dir/product.tdsl" --kernel product --target gfx942 --stage asm --variant 'K%8=0 N%4=0 aligned' | order)
	case $code in L*lw*m) got=itself ;; Lw*lm) got=ahead ;; *) got=neither ;; esac
	checks=$((checks + 1))
	if [ "$got" != "$wanted" ]; then
		printf 'a round of products of %s: expected what was asked for by the round %s, got %s\n' "$operand" "$wanted" "$code"
		failures=$((failures + 1))
	fi
done

echo "100%: Checks: $checks, Failures: $failures, Errors: 0" | sed "s/^100%/$(((checks - failures) * 100 / checks))%/"
[ $failures = 0 ]
