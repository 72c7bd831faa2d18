#!/usr/bin/env bash
# run-tests.sh OUTDIR TEST... -- runs tests side by side and adds up their totals.
#
# In: programs of libcheck, or scripts (.sh, .py) that print a line of the same form, "100%: Checks: 5, Failures: 0, Errors: 0".
# Out: one line a test as it ends, the whole output of each that failed, and last the sums in Check's own form; exit 1 if
# anything failed.  A test that dies, is stopped after TEST_TIMEOUT seconds or prints no total counts as one error: a crash
# before the first check must not look like success.  Environment: PYTHON, TEST_TIMEOUT (600), JOBS.
set -uo pipefail
out=$1; shift
rm -rf "$out"; mkdir -p "$out"
export out

one() {
	local t=$1 name log start rc line
	name=$(basename "$t"); log=$out/$name.log; start=$(date +%s.%N)
	case $t in
	*.sh) timeout "${TEST_TIMEOUT:-600}" bash "$t" >"$log" 2>&1 </dev/null ;;
	*.py) timeout "${TEST_TIMEOUT:-600}" "${PYTHON:-python3}" "$t" >"$log" 2>&1 </dev/null ;;
	*) timeout "${TEST_TIMEOUT:-600}" "$t" >"$log" 2>&1 </dev/null ;;
	esac
	rc=$?
	line=$(grep -aE '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' "$log" | tail -1)
	local sum
	sum=$(sed -nE 's/.*Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2 \3/p' <<<"$line")
	if [ -z "$sum" ]; then
		sum="1 0 1"; line="no totals; exit status $rc"
	elif [ $rc -ne 0 ] && [[ $sum == *" 0 0" ]]; then
		sum="${sum%% *} 0 1"; line="$line, but exit status $rc"
	fi
	echo "$sum" >"$out/$name.sum"
	printf '%-28s %6.1f s  %s\n' "$name" "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')" "$line"
	case $sum in *" 0 0") ;; *) sed 's/^/    /' "$log" ;; esac
}
export -f one

printf '%s\0' "$@" | xargs -0 -r -n1 -P "${JOBS:-$(nproc)}" bash -c 'one "$0"'
cat "$out"/*.sum 2>/dev/null | awk -v tests=$# '
	{ checks += $1; failures += $2; errors += $3; n++ }
	END {
		if (n < tests) errors += tests - n
		printf "%d%%: Checks: %d, Failures: %d, Errors: %d\n",
			checks ? int(100 * (checks - failures - errors) / checks) : 0, checks, failures, errors
		exit failures + errors > 0 || checks == 0
	}'
