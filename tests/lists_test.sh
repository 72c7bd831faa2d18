#!/usr/bin/env bash
# lists_test.sh -- nothing is forgotten: compiler/README.md names every source under compiler/ exactly once and nothing that is
# not there; the Makefile builds every source and runs every test; docs/README.md names every document,
# docs/environment.md every variable.
# In: the tree.  Out: totals in Check's form.
set -u
cd "$(dirname "$0")/.." || exit 1
checks=0 failures=0
check() { # VALUE EXPECTED TEXT
	checks=$((checks + 1))
	[ "$1" = "$2" ] || { echo "$3"; failures=$((failures + 1)); }
}

named=$(grep -oE '`[A-Za-z0-9_./]+\.(c|cpp)`' compiler/README.md | tr -d '`')
while read -r file; do
	check "$(grep -cxF "$file" <<<"$named")" 1 "compiler/README.md does not name $file once"
done < <(cd compiler && find . -name '*.c' -o -name '*.cpp' | sed 's|^\./||' | sort)
for file in $named; do
	check "$([ -f "compiler/$file" ] && echo there)" there "compiler/README.md names $file, which is not there"
done

# What make would build from, whole paths, one a line.
built=$(MAKEFLAGS= make -s B="${B:-build}" print-sources)
for file in base/*.c dsl/*.c runtime/*.c sim/*.c bench/*.c tests/*.c tests/*_test.sh tests/*_test.py $(find compiler -name '*.c' -o -name '*.cpp'); do
	check "$(grep -cxF "$file" <<<"$built")" 1 "the Makefile does not list $file once"
done
while read -r name; do
	check "$(grep -c "^| \`$name\` |" docs/environment.md)" 1 "docs/environment.md has no row for $name"
done < <(sed -n '/^static const struct row/,/};$/p' runtime/env.c | grep -oE 'TDSL_[A-Z_]+'; grep -rhoE 'getenv\("(TDSL_[A-Z_]+|TMPDIR)"' base compiler dsl runtime sim | cut -d'"' -f2;
	grep -rhoE 'environ\.get\("TDSL_[A-Z_]+"' python/tdsl | cut -d'"' -f2)
for file in docs/*.md; do
	[ "$file" = docs/README.md ] || check "$(grep -qF "]($(basename "$file"))" docs/README.md && echo named)" named "docs/README.md does not name $file"
done
echo "$(((checks - failures) * 100 / (checks ? checks : 1)))%: Checks: $checks, Failures: $failures, Errors: 0"
[ $failures = 0 ]
