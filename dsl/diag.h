/* diag.h -- messages about a text: place, what was found, what was expected; the source line with carets; notes.
 * Message texts live in messages.def with stable ids; each id has a test.  At most 20 errors are kept. */
#ifndef TDSL_DIAG_H
#define TDSL_DIAG_H
#include <stdbool.h>
#include <stddef.h>
#include "../base/arena.h"

enum diag_id {
#define MSG(id, severity, format) DIAG_##id,
#include "messages.def"
#undef MSG
	DIAG_COUNT
};
struct diag_span { int file, line, col, len; };        /* 1-based; file: 0 the text, 1 the library */
struct diag_message { enum diag_id id; struct diag_span at; const char *text; struct diag_message *notes; int nnotes; };
struct diag {
	struct arena *arena;
	const char *file, *source; size_t size;             /* of the text, for source lines; library likewise */
	const char *library; size_t library_size;
	struct diag_message *messages; int n, cap; int errors;
	int reported;                                       /* errors, those not kept included */
	bool full, dropped;                                 /* DIAG_MAX errors are there; the newest message was not kept */
};
enum { DIAG_MAX = 20 };
void diag_add(struct diag *, enum diag_id, struct diag_span, ...);           /* arguments as the message's format says */
void diag_note(struct diag *, struct diag_span, const char *fmt, ...);       /* added to the newest message */
/* Everything as text: "file:line:col: error: what was found; what was expected [E_NAME]", the line, carets, notes.
 * A library text may hold several files: a line "#file NAME" starts one, and places in it are given in that file. */
char *diag_text(const struct diag *);
const char *diag_name(enum diag_id);                                          /* "E_UNKNOWN_NAME" */
#endif
