/* file.h -- files the compiler reads and writes whole. */
#ifndef TDSL_FILE_H
#define TDSL_FILE_H
#include <stdbool.h>
#include <stddef.h>

/* Bytes of a file, malloc'ed, with a NUL after them.  NULL with "path: why". */
char *file_read(const char *path, size_t *size, char *err, size_t errlen);
/* Text of the language: no more is read than what shows that it is too long.  more: bytes that stand before it in the same text. */
enum { TEXT_MOST = 4 << 20 };                          /* docs/language.md */
char *file_read_text(const char *path, size_t more, size_t *size, char *err, size_t errlen);
struct file_out { const char *path; const void *bytes; size_t size; };
/* Writes all files or none: each beside its place first, then renamed.  A device or a pipe is written to directly;
 * a new file's mode is what the umask leaves, one that is there keeps its own.  0 or -1 with "path: why". */
int files_write(const struct file_out *, int n, char *err, size_t errlen);
/* Where temporary files go: TMPDIR, else /tmp. */
const char *temporary_folder(void);
/* Writes the bytes to a new temporary file and its name into path; the caller unlinks it.  0 or -1 with "path: why", and no file. */
int file_temporary(char *path, size_t length, const void *bytes, size_t size, char *err, size_t errlen);
/* Are both names of one file that is there, whatever they look like?  Not of a device or a pipe. */
bool file_is(const char *path, const char *other);
/* Name of the *.tdsl in the folder that is the file `path`, malloc'ed, or NULL. */
char *library_has(const char *folder, const char *path);
/* Text of every *.tdsl in a folder, in order of their names, malloc'ed: the language's library from a folder. */
char *library_read(const char *folder, char *err, size_t errlen);
#endif
