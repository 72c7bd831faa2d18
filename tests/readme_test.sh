#!/usr/bin/env bash
# readme_test.sh -- compiler/README.md names every source file under compiler/ exactly once, and no file that is not there.
# In: the tree.  Out: totals in Check's form.
set -u
cd "$(dirname "$0")/.." || exit 1
checks=0 failures=0
while read -r file; do
	checks=$((checks + 1))
	n=$(grep -oE '`[A-Za-z0-9_./]+\.(c|cpp)`' compiler/README.md | grep -cxF "\`$file\`")
	if [ "$n" != 1 ]; then
		echo "compiler/README.md names $file $n times, once is expected"
		failures=$((failures + 1))
	fi
done < <(cd compiler && find . -name '*.c' -o -name '*.cpp' | sed 's|^\./||' | sort)
while read -r file; do
	checks=$((checks + 1))
	if [ ! -f "compiler/$file" ]; then
		echo "compiler/README.md names $file, which is not there"
		failures=$((failures + 1))
	fi
done < <(grep -oE '`[A-Za-z0-9_./]+\.(c|cpp)`' compiler/README.md | tr -d '`')
echo "$(((checks - failures) * 100 / (checks ? checks : 1)))%: Checks: $checks, Failures: $failures, Errors: 0"
[ $failures = 0 ]
