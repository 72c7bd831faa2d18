/* tdslc_progress.c -- how far `tdslc build` is: one line on a terminal, rewritten in place, when it takes longer than a second.
 *
 * In: progress_step from the compiler's threads.  Out: the line on standard error where that is a terminal, and nothing anywhere else; it
 * is gone again before anything else is printed. */
#include "tdslc.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 78 };
static const double FIRST = 1, EVERY = 0.1;            /* seconds */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_start(struct progress *p)
{
	*p = (struct progress){.on = isatty(STDERR_FILENO), .start = now()};
	p->next = p->start + FIRST;
	pthread_mutex_init(&p->lock, NULL);
}

void progress_step(void *progress, int done, int total, const char *kernel)
{
	struct progress *p = progress;
	char line[WIDTH + 1];
	if (!p->on)
		return;
	pthread_mutex_lock(&p->lock);
	double t = now();
	if (t >= p->next && done > p->done) {
		p->done = done;                                /* threads may arrive out of order */
		p->next = t + EVERY;
		p->shown = true;
		snprintf(line, sizeof line, "tdslc: %d of %d variants, %.1f s: %s", done, total, t - p->start, kernel);
		fprintf(stderr, "\r%-*s", WIDTH, line);
		fflush(stderr);
	}
	pthread_mutex_unlock(&p->lock);
}

void progress_end(struct progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r%*s\r", WIDTH, "");
	pthread_mutex_destroy(&p->lock);
}
