/* Patterns of tokenizer.json files. They are written for Oniguruma (Ruby's syntax), and PCRE2 runs them: what the two
 * read differently is rewritten where it can be, and refused by name where not. */
#ifndef LS_DATA_PATTERN_H
#define LS_DATA_PATTERN_H

#include "data/text/piece.h"

typedef struct ls_pattern ls_pattern_t;

/* `owner`: the file, and `part`: which of its members has the pattern, for messages. LS_ERR_UNSUPPORTED: a pattern that PCRE2
 * does not read, would read differently, or that may match nothing; LS_ERR_MEMORY. */
ls_status_t ls_pattern_open(ls_ctx_t *ctx, const char *owner, const char *part, const char *text,
                            ls_pattern_t **pattern);
void ls_pattern_close(ls_pattern_t *pattern);

/* Whether it may search a text that is no UTF-8, in which nothing matches there: where PCRE2 has compiled it for this processor. */
bool ls_pattern_takes_any(const ls_pattern_t *pattern);
/* The first match in text[from .. size), UTF-8 unless ls_pattern_takes_any; it has at least one byte. *begin = *end = size: there
 * is none. Returns NULL, or why the search gave up (a limit on its steps or memory), borrowed until the next call. */
const char *ls_pattern_find(ls_pattern_t *pattern, const char *text, size_t size, size_t from, size_t *begin,
                            size_t *end);

/* Reports at piece->bytes[at] why a pattern of `owner` gave up there. Returns LS_ERR_DATA. */
ls_status_t ls_pattern_gave_up(ls_ctx_t *ctx, const char *owner, const ls_piece_t *piece, size_t at,
                               const char *why);

/* Reports that a tokenizer.json asks for something that is not done here: "OWNER: its WHAT is NAME, which lockstep ...".
 * Returns LS_ERR_UNSUPPORTED. */
ls_status_t ls_tokenizer_unsupported(ls_ctx_t *ctx, const char *owner, const char *what, const char *name);

#endif
