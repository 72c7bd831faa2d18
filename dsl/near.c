/* near.c -- for messages: the known name that is most like one that is not known.
 *
 * In: a name, then the names it could have been.  Out: "; did you mean ..?" or nothing.  Method: the number of letters changed,
 * added, left out or swapped with their neighbour; two are forgiven, one in names of three letters or fewer. */
#include <string.h>
#include "elab.h"

enum { LONGEST = 40 };

static int least(int a, int b) { return a < b ? a : b; }

static int distance(const char *a, const char *b)
{
	int row[LONGEST + 1][LONGEST + 1], n = (int)strlen(a), m = (int)strlen(b);
	for (int i = 0; i <= n; i++)
		for (int j = 0; j <= m; j++) {
			if (!i || !j) {
				row[i][j] = i + j;
				continue;
			}
			row[i][j] = least(row[i - 1][j - 1] + (a[i - 1] != b[j - 1]), 1 + least(row[i - 1][j], row[i][j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[i][j] = least(row[i][j], row[i - 2][j - 2] + 1);
		}
	return row[n][m];
}

void near_offer(struct near *x, const char *known)
{
	size_t n = strlen(x->name), most = n > 3 ? 2 : 1;
	if (n < 2 || n > LONGEST || strlen(known) > LONGEST)
		return;
	int d = distance(x->name, known);
	if (d == 0 || d > (int)most || (x->best && d >= x->distance))
		return;
	x->best = known;
	x->distance = d;
}

const char *near_hint(struct arena *ar, const struct near *x)
{
	return x->best ? arena_printf(ar, "; did you mean %s?", x->best) : "";
}
