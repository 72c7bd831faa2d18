/* library.h -- the text of lib/, built in: the files one after the other, each after a line "#file NAME" (library.sh). */
#ifndef TDSL_LIBRARY_H
#define TDSL_LIBRARY_H
extern const char dsl_library[];
#endif
