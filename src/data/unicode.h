/* Forms and lower case of text, by Unicode's tables: utf8proc has them. Sources: Unicode Standard Annex 15; Unicode's
 * SpecialCasing.txt. */
#ifndef LS_DATA_UNICODE_H
#define LS_DATA_UNICODE_H

#include "data/piece.h"

typedef enum {
  LS_UNICODE_NFC,
  LS_UNICODE_NFD,
  LS_UNICODE_NFKC,
  LS_UNICODE_NFKD,
  LS_UNICODE_LOWER, /* character by character, U+0130 to two; not of ASCII, which needs no table */
  LS_UNICODE_EACH
} ls_unicode_t;

/* Whether this build has the tables. */
bool ls_unicode_there(void);
/* Appends a line of UTF-8 in that form. No character of one line composes with one of the next. false: out of memory,
 * reported; or the tables are not there. */
bool ls_unicode_put(ls_unicode_t form, const char *line, size_t count, ls_bytes_t *to);

#endif
