/* The composed form of text (Unicode's NFC), for vocabularies whose normalizer asks for it. Source: Unicode Standard Annex 15. */
#ifndef LS_DATA_NFC_H
#define LS_DATA_NFC_H

#include "data/cut.h"

/* No character below U+0300 changes, and from there on UTF-8 begins with at least this byte. */
enum { LS_NFC_FIRST = 0xCC };

/* `piece` is UTF-8. *composed (free): its *count bytes in that form; NULL: the piece has it already. LS_ERR_MEMORY;
 * LS_ERR_UNSUPPORTED: a build without utf8proc, and a character that could change. */
ls_status_t ls_nfc(ls_ctx_t *ctx, const ls_piece_t *piece, char **composed, size_t *count);

#endif
