/* heading.c -- could a kernel's text take a call's element types?  Looked up in the text's own heading, without the compiler:
 *
 *     kernel add[T: bf16|f16, Q: fp8|i8](x: T[M, N], res?: T[M, N]) -> (y: Q[M, N])
 *
 * In: a pack's source and the types of the tensors given.  Out: false only where the heading says for certain that they do not fit, so that a
 * caller's plain mistake is told as one, and does not load the compiler.  What is not understood may fit. */
#include <ctype.h>
#include <string.h>

#include "jit.h"

struct heading { const char *types, *params, *end; }; /* "[T: ..", "(x: ..", "{" */

static bool word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* The word `word` (n letters) in [at, end), or NULL. */
static const char *word_find(const char *at, const char *end, const char *word, size_t n)
{
	for (; at && at + n <= end; at++)
		if (memcmp(at, word, n) == 0 && !word_char(at[n]) && !word_char(at[-1]))
			return at;
	return NULL;
}

static const char *blanks_skip(const char *at)
{
	while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
		at++;
	return at;
}

static bool heading_find(struct heading *h, const char *text, const char *name)
{
	size_t n = strlen(name);
	for (const char *at = text; (at = strstr(at, "kernel ")); at += 7) {
		const char *its = blanks_skip(at + 7);
		if ((at != text && at[-1] != '\n') || strncmp(its, name, n) || word_char(its[n]))
			continue;
		const char *after = blanks_skip(its + n);
		if (*after == '=') /* another kernel with its choices made: that one's heading is elsewhere */
			return false;
		h->types = *after == '[' ? after : NULL;
		h->params = strchr(after, '(');
		h->end = h->params ? strchr(h->params, '{') : NULL;
		const char *comment = h->end ? memchr(after, '#', (size_t)(h->end - after)) : NULL;
		return h->end && !comment;
	}
	return false;
}

/* "bf16" is T's, where the heading has [T: bf16|f16]. */
static bool choice_has(const char *at, const char *end, enum dtype t, const char *target)
{
	const char *plain = dtype_info(t)->name;
	return word_find(at, end, plain, strlen(plain)) || (t == model_native(target, 8) && word_find(at, end, "fp8", 3)) ||
	       (t == model_native(target, 9) && word_find(at, end, "bf8", 3));
}

/* The parameter's type word in the heading; its end in *end.  NULL where it is not plain to see. */
static const char *type_word(const struct heading *h, const char *param, const char **end)
{
	const char *at = word_find(h->params + 1, h->end, param, strlen(param));
	if (!at)
		return NULL;
	at += strlen(param);
	at += *at == '?';
	at = blanks_skip(at);
	if (*at++ != ':')
		return NULL;
	at = blanks_skip(at);
	if (strncmp(at, "list", 4) == 0 && !word_char(at[4]) && at[4] != '[')
		at = blanks_skip(at + 4);
	for (*end = at; word_char(**end);)
		++*end;
	return *end > at ? at : NULL;
}

/* Of one parameter, and with the types that variables have by then. */
static bool param_fits(const struct heading *h, const char *param, enum dtype t, const char *target, enum dtype bound[26])
{
	const char *end, *word = type_word(h, param, &end), *variable = NULL;
	if (!word)
		return true;
	if (h->types)
		variable = word_find(h->types + 1, h->params, word, (size_t)(end - word));
	const char *choices = variable ? blanks_skip(variable + (end - word)) : NULL;
	if (!choices || *choices != ':')
		return choice_has(word, end + 1, t, target);
	const char *last = choices + strcspn(choices, ",]");
	if (!choice_has(choices + 1, last + 1, t, target))
		return false;
	if (end - word != 1 || *word < 'A' || *word > 'Z')
		return true;
	enum dtype before = bound[*word - 'A'];
	bound[*word - 'A'] = t;
	return before == DT_NONE || before == t;
}

bool heading_allows(const char *text, tdsl_kernel k, const char *target, const union tdsl_arg *args)
{
	struct heading h;
	enum dtype bound[26];
	for (int i = 0; i < 26; i++)
		bound[i] = DT_NONE;
	if (!heading_find(&h, text, pack_string(k->pack->file, k->k->name)))
		return true;
	for (int i = 0; i < k->nparams; i++) {
		const DLTensor *t = k->tensors >> i & 1 ? args[i].t : NULL;
		enum dtype type = t ? dtype_by_dlpack(t->dtype.code, t->dtype.bits) : DT_NONE;
		if (t && (type == DT_NONE || !param_fits(&h, pack_string(k->pack->file, k->params[i].name), type, target, bound)))
			return false;
	}
	return true;
}
