/* dictionary.h -- a dictionary for the objects of a pack that is kept. */
#ifndef TDSL_DICTIONARY_H
#define TDSL_DICTIONARY_H
#include "../base/arena.h"
#include "../base/model.h"

/* Sets the model's dictionary, in the arena; leaves it without one where the objects are few or have nothing in common.  The same
 * objects give the same dictionary.  0, or -1 with text. */
int dictionary_train(struct arena *, struct model_pack *, char *err, size_t errlen);
#endif
