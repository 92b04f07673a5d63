/* See characters.h. */
#include "data/text/characters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ASCII = 128 };

size_t ls_character(const char *text, size_t left, int32_t *code) {
  const unsigned char *t = (const unsigned char *)text;
  *code = t[0];
  if (t[0] < ASCII) return 1;
  unsigned char here[LS_UTF8_BYTES_MAX + 1] = {0};
  memcpy(here, t, left < LS_UTF8_BYTES_MAX ? left : LS_UTF8_BYTES_MAX);
  size_t bytes = ls_utf8_bytes(here);
  *code = bytes ? here[0] & (0x7f >> bytes) : 0;
  for (size_t i = 1; i < bytes; i++)
    *code = *code << 6 | (here[i] & 0x3f);
  return bytes;
}

ls_status_t ls_place_fail(ls_ctx_t *ctx, const char *file, const char *text, size_t at, ls_status_t status,
                          const char *what) {
  int64_t line = 1;
  size_t begin = 0;
  for (size_t i = 0; i < at; i++)
    if (text[i] == '\n') {
      line++;
      begin = i + 1;
    }
  return ls_fail(ctx, status, "%s:%" PRId64 ":%zu: %s", file, line, at - begin + 1, what);
}

ls_status_t ls_place_fail_utf8(ls_ctx_t *ctx, const char *file, const char *text, size_t at) {
  return ls_place_fail(ctx, file, text, at, LS_ERR_DATA,
                       "this is not UTF-8: save the file as UTF-8, or take its bytes");
}

static ls_status_t read_at(ls_ctx_t *ctx, const char *file, const char *text, size_t size, size_t at,
                           int32_t *code, size_t *bytes) {
  *bytes = ls_character(text + at, size - at, code);
  if (*bytes == 0) return ls_place_fail_utf8(ctx, file, text, at);
  if (*code == 0) return ls_place_fail(ctx, file, text, at, LS_ERR_DATA, "a zero byte: is this text?");
  return LS_OK;
}

ls_status_t ls_characters_mark(ls_ctx_t *ctx, const char *file, const char *text, size_t size,
                               uint32_t *number) {
  ls_status_t status = LS_OK;
  for (size_t at = 0, bytes; at < size && status == LS_OK; at += bytes) {
    int32_t code;
    status = read_at(ctx, file, text, size, at, &code, &bytes);
    number[code] = 1;
  }
  return status;
}

size_t ls_character_write(int32_t code, char text[LS_UTF8_BYTES_MAX + 1]) {
  static const int32_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  int bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  text[bytes] = '\0';
  for (int i = bytes - 1; i > 0; i--, code >>= 6)
    text[i] = (char)(0x80 | (code & 0x3f));
  text[0] = (char)(bytes == 1 ? code : lead[bytes] | code);
  return (size_t)bytes;
}

ls_status_t ls_characters_number(ls_arena_t *arena, uint32_t *number, ls_strings_t *list) {
  size_t count = 0;
  for (int32_t code = 0; code < LS_CODE_POINTS; code++)
    count += number[code];
  const char **texts = ls_arena_array(arena, count, sizeof *texts);
  char *text = ls_arena_alloc(arena, count * (LS_UTF8_BYTES_MAX + 1));
  if (!texts || !text) return LS_ERR_MEMORY;
  uint32_t next = 0;
  for (int32_t code = 0; code < LS_CODE_POINTS; code++) {
    if (number[code] == 0) continue;
    ls_character_write(code, text);
    texts[next++] = text;
    text += strlen(text) + 1;
    number[code] = next;
  }
  *list = (ls_strings_t){(int)count, texts};
  return LS_OK;
}

ls_status_t ls_characters_take(ls_arena_t *arena, const char *owner, const ls_strings_t *given,
                               ls_status_t damaged, uint32_t *number, ls_strings_t *list) {
  const char **texts = ls_arena_array(arena, (size_t)given->count, sizeof *texts);
  if (!texts) return LS_ERR_MEMORY;
  for (int i = 0; i < given->count; i++) {
    const char *text = given->v[i];
    int32_t code;
    bool one = *text && ls_character(text, strlen(text), &code) == strlen(text);
    if (!one || number[code] != 0)
      return ls_fail(arena->ctx, damaged, "%s: item %d (from 0) of its vocabulary, '%s', is %s", owner, i,
                     LS_SHOWN(text), one ? "there twice" : "no character");
    number[code] = (uint32_t)i + 1;
    if (!(texts[i] = ls_arena_strdup(arena, text))) return LS_ERR_MEMORY;
  }
  *list = (ls_strings_t){given->count, texts};
  return LS_OK;
}

static ls_status_t unknown(const ls_characters_t *of, const char *text, size_t at, size_t bytes,
                           int32_t code) {
  char shown[32], what[512];
  ls_text_shown(text + at, bytes, shown, sizeof shown);
  snprintf(what, sizeof what, "character '%s' (U+%04" PRIX32 ") is none of the %d in the vocabulary of %s",
           shown, (uint32_t)code, of->count, of->owner);
  return ls_place_fail(of->ctx, of->file, text, at, LS_ERR_MISMATCH, what);
}

static ls_status_t changed(const ls_characters_t *of) {
  return ls_fail(of->ctx, LS_ERR_IO,
                 "%s: changed while it was read: a data file must not change during a run: put it back and "
                 "run again",
                 of->file);
}

ls_status_t ls_characters_visit(const ls_characters_t *of, const char *text, size_t size,
                                void (*put)(void *user, int32_t number), void *user) {
  int64_t visited = 0;
  for (size_t at = 0, bytes; at < size; at += bytes, visited++) {
    int32_t code;
    if (of->counted > 0 && visited == of->counted) return changed(of);
    ls_status_t status = read_at(of->ctx, of->file, text, size, at, &code, &bytes);
    if (status != LS_OK) return status;
    if (of->number[code] == 0) return unknown(of, text, at, bytes, code);
    if (put) put(user, (int32_t)of->number[code] - 1);
  }
  return of->counted > 0 && visited != of->counted ? changed(of) : LS_OK;
}
