#!/usr/bin/env bash
# links_test.sh -- what the products need at run time: no vendor library anywhere, no LLVM (it is inside), and the runtime and the
# simulated device nothing but libc's own.  In: $B.  Out: totals in Check's form.
set -u
cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
checks=0 failures=0
check() { # NAME PATTERN: every library that NAME needs matches PATTERN
	local lib
	for lib in $(readelf -d "$B/$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
		checks=$((checks + 1))
		if ! grep -qE "^($2)$" <<<"$lib"; then
			echo "$1 needs $lib"
			failures=$((failures + 1))
		fi
	done
}
c='libc\.so\.6|libm\.so\.6|ld-linux-x86-64\.so\.2|libpthread\.so\.0|libdl\.so\.2'
san='libasan\.so\.[0-9]+|libubsan\.so\.[0-9]+'
check libtdsl_rt.so "$c|$san"
check libtdsl_sim.so "$c|$san"
check tdsl-sim "$c|libcjson\.so\.1|$san"
for product in tdslc libtdslc.so; do
	check $product "$c|libz\.so\.1|libcjson\.so\.1|libstdc\+\+\.so\.6|libgcc_s\.so\.1|$san"
done
echo "$(((checks - failures) * 100 / (checks ? checks : 1)))%: Checks: $checks, Failures: $failures, Errors: 0"
[ $failures = 0 ] && [ $checks -gt 4 ]
