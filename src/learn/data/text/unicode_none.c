/* Replaces unicode.c in a build without utf8proc. Callers ask ls_unicode_there first. */
#include "data/text/unicode.h"

bool ls_unicode_there(void) {
  return false;
}

ls_status_t ls_unicode_put(ls_unicode_t form, const ls_piece_t *line, ls_bytes_t *to) {
  (void)form;
  (void)line;
  (void)to;
  return LS_ERR_UNSUPPORTED;
}
