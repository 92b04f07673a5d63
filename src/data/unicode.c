/* See unicode.h. */
#include "data/unicode.h"
#include "data/characters.h"

#include <stdlib.h>
#include <utf8proc.h>

bool ls_unicode_there(void) {
  return true;
}

static bool put_lower(const char *line, size_t count, ls_bytes_t *to) {
  bool put = true;
  for (size_t at = 0, bytes; at < count && put; at += bytes) {
    int32_t code;
    char lower[LS_UTF8_BYTES_MAX + 1];
    bytes = ls_character(line + at, count - at, &code);
    if (code == 0x130) /* the only one whose lower case is two characters, of which utf8proc has the first */
      put = ls_bytes_put(to, "i\u0307", 3);
    else
      put = ls_bytes_put(to, lower, ls_character_write(utf8proc_tolower(code), lower));
  }
  return put;
}

bool ls_unicode_put(ls_unicode_t form, const char *line, size_t count, ls_bytes_t *to) {
  static const unsigned options[LS_UNICODE_EACH] = {
      [LS_UNICODE_NFC] = UTF8PROC_COMPOSE,
      [LS_UNICODE_NFD] = UTF8PROC_DECOMPOSE,
      [LS_UNICODE_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
      [LS_UNICODE_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
  };
  if (form == LS_UNICODE_LOWER) return put_lower(line, count, to);
  utf8proc_uint8_t *made = NULL;
  utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)line, (utf8proc_ssize_t)count, &made,
                                        (utf8proc_option_t)(UTF8PROC_STABLE | options[form]));
  bool put = bytes >= 0 && ls_bytes_put(to, (const char *)made, (size_t)bytes);
  if (bytes < 0) ls_fail(to->ctx, LS_ERR_MEMORY, "out of memory: a line of %zu bytes", count);
  free(made);
  return put;
}
