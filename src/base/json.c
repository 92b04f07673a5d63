/* Reading JSON files: one place for the limit, for strictness and for the message that names the line. */
#include "base/json.h"

#include "base/file.h"

#include <limits.h>

ls_status_t ls_json_read(ls_ctx_t *ctx, const char *path, size_t limit_bytes, ls_status_t broken,
                         const char *hint, json_t **json) {
  char *text;
  size_t size_bytes;
  ls_status_t status = ls_file_read(ctx, path, limit_bytes, &text, &size_bytes);
  if (status != LS_OK) return status;
  json_error_t error;
  json_t *parsed = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &error);
  ls_free(text);
  if (!parsed)
    return ls_fail(ctx, broken, "%s:%d:%d: %s%s", path, error.line, error.column, error.text, hint);
  *json = parsed;
  return LS_OK;
}

json_t *ls_json_text(const char *text) {
  json_t *as_it_is = json_string(text);
  if (as_it_is) return as_it_is;
  char plain[PATH_MAX];
  size_t len = 0;
  for (; text[len] && len < sizeof plain; len++)
    plain[len] = text[len] & 0x80 ? '?' : text[len];
  return json_stringn(plain, len);
}
