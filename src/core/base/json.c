/* Reading JSON files: one place for the limit, the strict rules and messages that name the line. */
#include "base/json.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <limits.h>
#include <math.h>

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

json_t *ls_json_number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}

const char *ls_json_real(double value, char text[LS_JSON_REAL_BYTES]) {
  enum { DIGITS_MIN = 6, DIGITS_MAX = 17 };
  for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
    snprintf(text, LS_JSON_REAL_BYTES, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  return text;
}

/* Shortens the number in place if possible; returns its new length. */
static size_t shorten(char *number, size_t len) {
  char text[LS_JSON_REAL_BYTES + 8];
  snprintf(text, sizeof text, "%.*s", (int)len, number);
  ls_json_real(strtod(text, NULL), text);
  if (!strpbrk(text, ".e")) strcat(text, ".0");
  size_t size = strlen(text);
  if (size >= len) return len;
  memcpy(number, text, size);
  return size;
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

json_t *ls_json_at(const json_t *json, const char *path) {
  char copy[64], *rest = copy;
  json_t *value = NULL;
  snprintf(copy, sizeof copy, "%s", path);
  for (char *part; (part = strtok_r(rest, ".", &rest)); json = value)
    value = json_object_get(json, part);
  return value;
}
