/* Words of other programs, and what to write in their place. */
#ifndef LS_BASE_HINTS_H
#define LS_BASE_HINTS_H

#include "base/base.h"

/* The advice for a user who wrote `text`; NULL: none is known. where: the option whose value it is ("model.loss"),
 * "model.layers" for the kind of a layer, or "in SECTION" for the name of an option. Pure. */
const char *ls_hint(const char *where, const char *text);
/* The rows of the table, for its test; false: there are no more. A remedy's first name in backticks is one that exists there. */
bool ls_hint_row(int index, const char **words, const char **where, const char **remedy);

#endif
