/* See unicode.h. */
#include "data/text/unicode.h"
#include "data/text/characters.h"

#include <stdlib.h>
#include <utf8proc.h>

bool ls_unicode_there(void) {
  return true;
}

static ls_status_t not_utf8(const ls_bytes_t *to, const ls_piece_t *line, size_t at) {
  return ls_place_fail_utf8(to->ctx, line->file, line->text, ls_piece_place(line, at));
}

static ls_status_t put_lower(const ls_piece_t *line, ls_bytes_t *to) {
  bool put = true;
  for (size_t at = 0, bytes; at < line->count && put; at += bytes) {
    int32_t code;
    char lower[LS_UTF8_BYTES_MAX + 1];
    bytes = ls_character(line->bytes + at, line->count - at, &code);
    if (bytes == 0) return not_utf8(to, line, at);
    if (code == 0x130) /* the only one whose lower case is two characters, of which utf8proc has the first */
      put = ls_bytes_put(to, "i\u0307", 3);
    else
      put = ls_bytes_put(to, lower, ls_character_write(utf8proc_tolower(code), lower));
  }
  return put ? LS_OK : LS_ERR_MEMORY;
}

ls_status_t ls_unicode_put(ls_unicode_t form, const ls_piece_t *line, ls_bytes_t *to) {
  static const unsigned options[LS_UNICODE_EACH] = {
      [LS_UNICODE_NFC] = UTF8PROC_COMPOSE,
      [LS_UNICODE_NFD] = UTF8PROC_DECOMPOSE,
      [LS_UNICODE_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
      [LS_UNICODE_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
  };
  if (form == LS_UNICODE_LOWER) return put_lower(line, to);
  utf8proc_uint8_t *made = NULL;
  utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)line->bytes, (utf8proc_ssize_t)line->count,
                                        &made, (utf8proc_option_t)(UTF8PROC_STABLE | options[form]));
  if (bytes == UTF8PROC_ERROR_INVALIDUTF8) return not_utf8(to, line, 0);
  if (bytes < 0)
    return ls_fail(to->ctx, LS_ERR_MEMORY, "%s: a line of %zu bytes: %s", line->file, line->count,
                   utf8proc_errmsg(bytes));
  bool put = ls_bytes_put(to, (const char *)made, (size_t)bytes);
  free(made);
  return put ? LS_OK : LS_ERR_MEMORY;
}
