/* compile_ms.h -- what compiling a kernel takes, in this process and on one thread. */
#ifndef COMPILE_MS_H
#define COMPILE_MS_H
/* Compiles one instance ("" = the kernel's only one) for one target and gives the milliseconds of one variant: the time of the
 * call shared among the variants it made.  Negative with tdsl_error() set.  The caller turns the cache off (TDSL_CACHE_DIR=""). */
double compile_ms(const char *text, const char *kernel, const char *instance, const char *target, int *nvariants);
/* A file's text, malloc'ed; prints and exits where it cannot be read. */
char *read_text(const char *path);
#endif
