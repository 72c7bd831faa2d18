/* tune.c -- reads tables of tuned choices and answers dispatch from the one that TDSL_TUNE names.
 * The file is read again when its path, size or time has changed; the first entry that fits a call wins, so exact sizes stand
 * before "*". */
#include "tune.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "env.h"
#include "fork.h"

enum { FIELDS = 6, MOST_BYTES = 64 << 20 };

void tune_free(struct tune_table *t)
{
	free(t->entries);
	free(t->text);
	*t = (struct tune_table){0};
}

/* One line into an entry; NULL, or what is wrong with it. */
static const char *entry_parse(struct tune_entry *e, char *line)
{
	char *fields[FIELDS], *end;
	int n = 0;
	for (char *at = line; at && n < FIELDS; n++) {
		fields[n] = at;
		if ((at = strchr(at, '\t')))
			*at++ = 0;
		if (n == FIELDS - 1 && at)
			return "more than 6 fields";
	}
	if (n < FIELDS)
		return "expected kernel, instance, target, sizes, variant and share, with tabs between";
	*e = (struct tune_entry){fields[0], fields[1], fields[2], fields[3], fields[4], strtod(fields[5], &end)};
	if (end == fields[5] || *end || !(e->share > 0))
		return "the share of the peak is not a number above 0";
	return e->share > 1 ? "the share is above the hardware's peak" : NULL;
}

int tune_parse(struct tune_table *t, const char *text, size_t n, char *err, size_t errlen)
{
	*t = (struct tune_table){.text = malloc(n + 1)};
	int line = 1, cap = 0;
	if (!t->text) {
		snprintf(err, errlen, "1: out of memory");
		return -1;
	}
	memcpy(t->text, text, n);
	t->text[n] = 0;
	for (char *at = t->text, *next; at && *at; at = next, line++) {
		const char *why = NULL;
		if ((next = strchr(at, '\n')))
			*next++ = 0;
		if (line == 1)
			why = strcmp(at, "tdsl tune 1") ? "not a table of tuned choices (no \"tdsl tune 1\")" : NULL;
		else if (*at && *at != '#') {
			if (t->n == cap) {
				cap = cap ? 2 * cap : 16;
				struct tune_entry *more = realloc(t->entries, (size_t)cap * sizeof *more);
				if (more)
					t->entries = more;
				else
					why = "out of memory";
			}
			why = why ? why : entry_parse(&t->entries[t->n++], at);
		}
		if (why) {
			snprintf(err, errlen, "%d: %s", line, why);
			tune_free(t);
			return -1;
		}
	}
	if (line == 1) {
		snprintf(err, errlen, "1: not a table of tuned choices (the file is empty)");
		tune_free(t);
		return -1;
	}
	return 0;
}

/* ---- the table of TDSL_TUNE */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tune_table table;
static char table_path[4096];
static struct stat table_stat;

void tune_fork(enum fork_stage stage)
{
	fork_lock(&lock, stage);
}

static int table_read(const char *path)
{
	char err[200];
	struct stat st;
	FILE *f = fopen(path, "re");
	if (!f || fstat(fileno(f), &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MOST_BYTES) {
		int why = errno;
		if (f)
			fclose(f);
		FAIL(TDSL_EINVAL, "TDSL_TUNE: %s: %s", path, f ? "not a table" : strerror(why));
	}
	char *text = malloc((size_t)st.st_size + 1);
	size_t n = text ? fread(text, 1, (size_t)st.st_size, f) : 0;
	fclose(f);
	tune_free(&table);
	table_path[0] = 0;
	int rc = text ? tune_parse(&table, text, n, err, sizeof err) : -1;
	free(text);
	if (rc < 0)
		FAIL(TDSL_EINVAL, "TDSL_TUNE: %s:%s", path, text ? err : " out of memory");
	table_stat = st;
	snprintf(table_path, sizeof table_path, "%s", path);
	return 0;
}

static bool where_holds(const char *where, tune_size *size, void *ctx)
{
	if (strcmp(where, "*") == 0)
		return true;
	while (*where) {
		size_t n = strcspn(where, "="), all = strcspn(where, ",");
		int64_t value;
		if (n >= all || !size(ctx, where, n, &value) || value != strtoll(where + n + 1, NULL, 10))
			return false;
		where += all + (where[all] == ',');
	}
	return true;
}

int tune_find(char *variant, size_t size, const char *kernel, const char *instance, const char *target, tune_size *value, void *ctx)
{
	const char *path;
	struct stat st;
	int rc = 0;
	TRY(env_text(&path, "TDSL_TUNE"));
	if (!path)
		return 0;
	pthread_mutex_lock(&lock);
	if (strcmp(path, table_path) || stat(path, &st) < 0 || st.st_size != table_stat.st_size || st.st_ino != table_stat.st_ino ||
	    memcmp(&st.st_mtim, &table_stat.st_mtim, sizeof st.st_mtim))
		rc = table_read(path);
	for (int i = 0; rc == 0 && i < table.n; i++) {
		const struct tune_entry *e = &table.entries[i];
		if (strcmp(e->kernel, kernel) || strcmp(e->instance, instance) || strcmp(e->target, target) || !where_holds(e->where, value, ctx))
			continue;
		snprintf(variant, size, "%s", e->variant);
		rc = 1;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}
