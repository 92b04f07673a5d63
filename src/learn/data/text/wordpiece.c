/* The longest token is found byte by byte from a trie's root, so that a long word takes no more than its length times that of
 * the longest token. Tokens and words are UTF-8, so a token ends where a character does. */
#include "data/text/wordpiece.h"

#include <string.h>

enum { ROOT_BEGIN, ROOT_CONTINUE, ROOTS };

/* Returns the slot of the step, or the empty slot for it. */
static ls_wordpiece_step_t *step_at(const ls_wordpiece_t *w, uint64_t step) {
  size_t mask = w->room - 1, at = (size_t)(step * UINT64_C(0x9E3779B97F4A7C15) >> 20) & mask;
  while (w->step[at].step != 0 && w->step[at].step != step)
    at = (at + 1) & mask;
  return &w->step[at];
}

static uint64_t step_of(uint32_t node, char byte) {
  return ((uint64_t)node << 8 | (unsigned char)byte) + 1;
}

static ls_status_t grow(ls_wordpiece_t *w) {
  ls_wordpiece_t old = *w;
  if (2 * (w->count + 1) <= w->room) return LS_OK;
  w->room = w->room ? 2 * w->room : 1024;
  w->step = ls_alloc_array(w->ctx, w->room, sizeof *w->step);
  if (!w->step) {
    *w = old;
    return LS_ERR_MEMORY;
  }
  for (size_t i = 0; i < old.room; i++)
    if (old.step[i].step != 0) *step_at(w, old.step[i].step) = old.step[i];
  ls_free(old.step);
  return LS_OK;
}

static ls_status_t add(ls_wordpiece_t *w, uint32_t root, const char *text, int32_t token) {
  ls_wordpiece_step_t *s = NULL;
  for (uint32_t node = root; *text; text++, node = s->node) {
    ls_status_t status = grow(w);
    if (status != LS_OK) return status;
    s = step_at(w, step_of(node, *text));
    if (s->step == 0) *s = (ls_wordpiece_step_t){step_of(node, *text), (uint32_t)(ROOTS + w->count++), -1};
  }
  if (s) s->token = token;
  return LS_OK;
}

ls_status_t ls_wordpiece_name(ls_wordpiece_t *w, const char *text, int32_t token) {
  size_t prefix = strlen(w->prefix);
  ls_status_t status = add(w, ROOT_BEGIN, text, token);
  if (status == LS_OK && strncmp(text, w->prefix, prefix) == 0)
    status = add(w, ROOT_CONTINUE, text + prefix, token);
  return status;
}

void ls_wordpiece_release(ls_wordpiece_t *w) {
  ls_free(w->step);
  ls_free(w->token);
}

/* Bytes of the longest token with which a text begins; 0: none. */
static size_t longest(const ls_wordpiece_t *w, uint32_t root, const char *text, size_t left, int32_t *token) {
  size_t found = 0;
  uint32_t node = root;
  for (size_t i = 0; i < left; i++) {
    const ls_wordpiece_step_t *s = step_at(w, step_of(node, text[i]));
    if (s->step == 0) break;
    node = s->node;
    if (s->token < 0) continue;
    found = i + 1;
    *token = s->token;
  }
  return found;
}

static ls_status_t reserve(ls_wordpiece_t *w, size_t tokens) {
  if (tokens <= w->token_room) return LS_OK;
  int32_t *token = ls_realloc_array(w->ctx, w->token, 2 * tokens, sizeof *token);
  if (!token) return LS_ERR_MEMORY;
  w->token = token;
  w->token_room = 2 * tokens;
  return LS_OK;
}

static bool is_too_long(const ls_wordpiece_t *w, const ls_piece_t *word) {
  int64_t characters = 0;
  if ((int64_t)word->count <= w->longest) return false;
  for (size_t i = 0; i < word->count; i++)
    characters += ((unsigned char)word->bytes[i] & 0xC0) != 0x80;
  return characters > w->longest;
}

ls_status_t ls_wordpiece_encode(ls_wordpiece_t *w, const ls_piece_t *word, ls_token_fn *put, void *user) {
  size_t count = 0, at = is_too_long(w, word) ? word->count + 1 : 0;
  for (size_t bytes; at < word->count; at += bytes) {
    ls_status_t status = reserve(w, count + 1);
    if (status != LS_OK) return status;
    bytes =
        longest(w, at ? ROOT_CONTINUE : ROOT_BEGIN, word->bytes + at, word->count - at, &w->token[count++]);
    if (bytes == 0) break;
  }
  if (at != word->count) put(user, w->unknown);
  for (size_t i = 0; i < count && at == word->count; i++)
    put(user, w->token[i]);
  return LS_OK;
}
