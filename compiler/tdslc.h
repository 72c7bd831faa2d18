/* tdslc.h -- the command line: what main (tdslc.c) hands to the subcommands, and what they share. */
#ifndef TDSLC_COMMAND_H
#define TDSLC_COMMAND_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include "compile.h"

enum exit_code { EXIT_FINE = 0, EXIT_ERROR = 1, EXIT_USAGE = 2 };

struct given { const char *name, *value; };           /* "--target", "gfx942"; value "" for a switch */
struct arguments {
	const char *command;
	const char **words; int nwords;                  /* FILE and the like, in order */
	struct given *options; int noptions;
	struct arena *arena;
};

/* One subcommand.  options: accepted names, each followed by '=' where it takes a value. */
struct command {
	const char *name;
	int (*run)(const struct arguments *);
	int least, most;                                 /* words */
	const char *options;
	const char *usage, *help;
};

const char *option(const struct arguments *, const char *name);            /* last value given, or NULL */
/* Every value of an option, split at commas where `split`; NULL-terminated; NULL where none was given. */
const char *const *option_list(const struct arguments *, const char *name, bool split);
/* "tdslc: ..." on standard error; returns EXIT_ERROR.  usage_error adds how to get help and returns EXIT_USAGE. */
int error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int usage_error(const struct arguments *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints text to standard output; EXIT_ERROR where that fails (a full disk behind a redirection). */
int print(const char *text);

int command_build(const struct arguments *);     /* tdslc_build.c */
int command_check(const struct arguments *);
int command_dump(const struct arguments *);      /* tdslc_dump.c */
int command_list(const struct arguments *);      /* tdslc_pack.c */
int command_report(const struct arguments *);
int command_verify(const struct arguments *);
int command_extract(const struct arguments *);
int command_run(const struct arguments *);       /* tdslc_run.c */
int command_tune(const struct arguments *);      /* tdslc_tune.c */

/* --- tdslc_compile.c
 * The text FILE and options.library from --library, into the arena.  0, or an exit code after a message. */
int read_text(const struct arguments *, const char *path, char **text, size_t *n, const char **library);
/* Refuses `path`, which `what` ("-o") names for a result, where it is a file that the command reads: FILE, one of --library, or --in. */
int output_check(const struct arguments *, const char *what, const char *path);
/* Compiles FILE with the options given, where --target is not for `target`, or for both AMD chips where that is NULL; messages are printed.  The result is the caller's to free in every case. */
int compile_file(const struct arguments *, const char *target, bool check, bool keep_going, struct compile_result *);
/* How far a build is, on a terminal (tdslc_progress.c).  progress_step is compile_options.progress. */
struct progress { bool on, shown; double start, next; int done; pthread_mutex_t lock; };
void progress_start(struct progress *);
void progress_step(void *progress, int done, int total, const char *kernel);
void progress_end(struct progress *);
const double *times_read(struct arena *, const char *pack_path, const struct model_pack *);
#endif
