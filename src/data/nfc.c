/* See nfc.h: by utf8proc, line by line, since no character composes with a line's end. */
#include "data/nfc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static bool may_change(const char *text, size_t count) {
  for (size_t i = 0; i < count; i++)
    if ((unsigned char)text[i] >= LS_NFC_FIRST) return true;
  return false;
}

static bool put_line(FILE *to, const char *line, size_t count) {
  if (!may_change(line, count)) return fwrite(line, 1, count, to) == count;
  utf8proc_uint8_t *composed = NULL;
  utf8proc_ssize_t bytes = utf8proc_map((const utf8proc_uint8_t *)line, (utf8proc_ssize_t)count, &composed,
                                        UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  bool put = bytes >= 0 && fwrite(composed, 1, (size_t)bytes, to) == (size_t)bytes;
  free(composed);
  return put;
}

ls_status_t ls_nfc(ls_ctx_t *ctx, const ls_piece_t *p, char **composed, size_t *count) {
  *composed = NULL;
  if (!may_change(p->bytes, p->count)) return LS_OK;
  FILE *to = open_memstream(composed, count);
  bool put = to != NULL;
  for (size_t at = 0, bytes; at < p->count && put; at += bytes) {
    const char *line = p->bytes + at, *end = memchr(line, '\n', p->count - at);
    bytes = end ? (size_t)(end - line) + 1 : p->count - at;
    put = put_line(to, line, bytes);
  }
  if (to && fclose(to) != 0) put = false;
  if (put) return LS_OK;
  free(*composed);
  *composed = NULL;
  return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: %s in its composed form (NFC)", p->file);
}
