/* Reading JSON files: one place for the limit, for strictness and for the message that names the line. */
#include "base/json.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* The number with as few digits as read back equal, written over itself; returns its new length. */
static size_t shorten(char *number, size_t len) {
  enum { DIGITS_MAX = 17 };
  char text[40];
  snprintf(text, sizeof text, "%.*s", (int)len, number);
  double value = strtod(text, NULL);
  int size = 0;
  for (int digits = 1; digits <= DIGITS_MAX; digits++) {
    size = snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  if (!strpbrk(text, ".e")) size += snprintf(text + size, sizeof text - (size_t)size, ".0");
  if (size <= 0 || (size_t)size >= len) return len;
  memcpy(number, text, (size_t)size);
  return (size_t)size;
}

char *ls_json_dump(const json_t *json, size_t flags) {
  static const char parts[] = "0123456789+-.eE";
  char *text = json_dumps(json, flags | JSON_ENCODE_ANY), *out = text;
  bool quoted = false;
  for (char *at = text; at && *at;) {
    size_t len = quoted ? 0 : strspn(at, parts);
    bool number = len > 0 && (*at == '-' || (*at >= '0' && *at <= '9')); /* not the end of "true" */
    if (number) {
      bool real = strcspn(at, ".eE") < len;
      memmove(out, at, len);
      out += real ? shorten(out, len) : len;
      at += len;
      continue;
    }
    if (*at == '"') quoted = !quoted;
    if (quoted && *at == '\\') *out++ = *at++;
    *out++ = *at++;
  }
  if (out) *out = '\0';
  return text;
}
