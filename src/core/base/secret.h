/* Option values that must not be readable where a configuration is saved or shown (ls_option_t.secret). A document
 * names their source, "env:NAME" or "file:PATH", which is read when the value is needed and is shown as it is. A
 * value written in the document itself is shown as LS_SECRET_HIDDEN. */
#ifndef LS_BASE_SECRET_H
#define LS_BASE_SECRET_H

#include "base/ctx.h"

#define LS_SECRET_HIDDEN "(hidden)"
#define LS_SECRET_ENV    "env:"
#define LS_SECRET_FILE   "file:"

enum { LS_SECRET_BYTES = 4096 };

/* Whether the text is the value itself. */
bool ls_secret_is_value(const char *text);
/* The text, or LS_SECRET_HIDDEN in the place of a value. NULL stays NULL. */
const char *ls_secret_shown(const char *text);
/* The value that the text names or is: one line of a file, without its end. False: `why` says what is wrong, and what
 * to write. Any thread. */
bool ls_secret_read(const char *text, char value[LS_SECRET_BYTES], char *why, size_t why_bytes);

#endif
