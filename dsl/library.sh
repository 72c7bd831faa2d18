#!/bin/sh
# library.sh FILE... -- the text of lib/ as a C string on standard output (library.h).  One literal a line: no size limit applies
# to the array, and a compiler's message still points at the line.
printf '#include "library.h"\nconst char dsl_library[] =\n'
for file in "$@"; do
	printf '"#file %s\\n"\n' "$file"
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
done
printf ';\n'
