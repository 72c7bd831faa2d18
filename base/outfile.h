/* outfile.h -- files that appear under their names only once they are complete: written beside, synced, renamed.  A full disk, a signal
 * or a crash leaves the old file or none.
 *
 * Functions return 0 or an errno value.  In this order: open, put.., sync, close, rename (who holds a lock on the file renames before it
 * closes), and drop at the end in any case: what was not renamed is removed. */
#ifndef TDSL_OUTFILE_H
#define TDSL_OUTFILE_H
#include <stddef.h>

enum {
	OUTFILE_UMASK = 1,    /* the process's umask is taken from the mode, as open does; else the mode is meant as it is */
	OUTFILE_FOLLOW = 2,   /* a symbolic link stays, the file that it leads to is replaced; else the link itself is */
	OUTFILE_DIRECT = 4    /* a result that somebody names: a file that is there keeps its mode, a device or a pipe is written to directly, a folder is an error */
};
struct outfile { int folder, fd; char *path, *temp; }; /* temp NULL: written directly, or renamed */

/* `path` is looked up in the open folder `folder`, or AT_FDCWD. */
int outfile_open(struct outfile *, int folder, const char *path, unsigned mode, unsigned flags);
int outfile_put(struct outfile *, const void *bytes, size_t size);
int outfile_sync(struct outfile *);
int outfile_close(struct outfile *);
int outfile_rename(struct outfile *);
void outfile_drop(struct outfile *);

/* All of it, mode 0644 where it is new.  0, or -1 with "path: why". */
int outfile_write(const char *path, const void *bytes, size_t size, char *err, size_t errlen);
#endif
