/* Stands for unicode.c in a build without utf8proc. Nobody asks it for a form. */
#include "data/unicode.h"

bool ls_unicode_there(void) {
  return false;
}

bool ls_unicode_put(ls_unicode_t form, const char *line, size_t count, ls_bytes_t *to) {
  (void)form;
  (void)line;
  (void)count;
  (void)to;
  return false;
}
