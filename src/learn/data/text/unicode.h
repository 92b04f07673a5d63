/* Forms and lower case of text, by Unicode's tables: utf8proc has them. Sources: Unicode Standard Annex 15; Unicode's
 * SpecialCasing.txt. */
#ifndef LS_DATA_UNICODE_H
#define LS_DATA_UNICODE_H

#include "data/text/piece.h"

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
/* Appends a line in that form. No character of one line composes with one of the next. LS_ERR_DATA: it is not UTF-8;
 * LS_ERR_MEMORY; LS_ERR_UNSUPPORTED, not reported: the tables are not there. */
ls_status_t ls_unicode_put(ls_unicode_t form, const ls_piece_t *line, ls_bytes_t *to);

#endif
