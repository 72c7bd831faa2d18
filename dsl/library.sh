#!/bin/sh
# library.sh FILE... -- the text of lib/ as a C string on standard output (ast.h).  One literal a line keeps it readable.
printf '/* Made by dsl/library.sh. */\nextern const char dsl_library[];\nconst char dsl_library[] =\n'
for file in "$@"; do
	printf '"#file %s\\n"\n' "$file"
	sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
done
printf ';\n'
