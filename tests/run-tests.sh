#!/usr/bin/env bash
# run-tests.sh OUTDIR TEST... -- runs tests side by side and adds up their totals.
#
# In: programs of libcheck, which end in "100%: Checks: 5, Failures: 0, Errors: 0", and scripts (.sh, .py; one argument here may
# hold a script and its arguments) that print such a line too, or else count as one check by their exit status.
# Out: one line a test as it ends (with the reason where it prints "skipped: .."), the whole output of each that failed, and last
# the sums in Check's own form; exit 1 if anything failed.  A test that dies, is stopped after TEST_TIMEOUT seconds or prints no total counts as one error: a crash
# before the first check must not look like success.  Environment: PYTHON, TEST_TIMEOUT (600), JOBS.
set -uo pipefail
out=$1; shift
rm -rf "$out"; mkdir -p "$out"
export out

one() {
	local t name log start rc line cpu
	read -ra t <<<"$1"
	name=$(basename "${t[0]}"); log=$out/$name.log; start=$(date +%s.%N)
	case ${t[0]} in
	*.sh) timeout "${TEST_TIMEOUT:-600}" bash "${t[@]}" >"$log" 2>&1 </dev/null ;;
	*.py) timeout "${TEST_TIMEOUT:-600}" "${PYTHON:-python3}" "${t[@]}" >"$log" 2>&1 </dev/null ;;
	*) timeout "${TEST_TIMEOUT:-600}" "${t[@]}" >"$log" 2>&1 </dev/null ;;
	esac
	rc=$?
	times >"$out/$name.times"      # a pipe's shell has no children
	cpu=$(awk -F'[ms ]' 'NR == 2 { print $1 * 60 + $2 + $4 * 60 + $5 }' "$out/$name.times")
	line=$(grep -aE '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' "$log" | tail -1)
	local sum
	sum=$(sed -nE 's/.*Checks: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2 \3/p' <<<"$line")
	if [ -z "$sum" ] && [[ ${t[0]} == *.* && $rc = 0 ]]; then
		sum="1 0 0"; line="100%: Checks: 1, Failures: 0, Errors: 0"
	elif [ -z "$sum" ]; then
		sum="1 0 1"; line="no totals; exit status $rc"
	elif [ $rc -ne 0 ] && [[ $sum == *" 0 0" ]]; then
		sum="${sum%% *} 0 1"; line="$line, but exit status $rc"
	fi
	local skipped
	skipped=$(grep -am1 '^skipped: ' "$log")
	echo "$sum" >"$out/$name.sum"
	# seconds on the clock, and of processor time: the latter hardly depends on what else runs
	printf '%-28s %6.1f s %6.1f cpu  %s\n' "$name" "$(echo "$(date +%s.%N) $start" | awk '{print $1 - $2}')" "$cpu" "$line${skipped:+; $skipped}"
	case $sum in *" 0 0") ;; *) sed 's/^/    /' "$log" ;; esac
}
export -f one

# shellcheck disable=SC2016  # expanded by the inner shell
[ $# -gt 0 ] && printf '%s\0' "$@" | xargs -0 -r -n1 -P "${JOBS:-$(nproc)}" bash -c 'one "$0"'
cat "$out"/*.sum 2>/dev/null | awk -v tests=$# '
	{ checks += $1; failures += $2; errors += $3; n++ }
	END {
		if (n < tests) errors += tests - n
		printf "%d%%: Checks: %d, Failures: %d, Errors: %d\n",
			checks ? int(100 * (checks - failures - errors) / checks) : 0, checks, failures, errors
		exit failures + errors > 0 || checks == 0
	}'
