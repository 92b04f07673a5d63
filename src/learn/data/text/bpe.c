/* The merges of a word, with a heap of candidates, so that a long word takes n log n. */
#include "data/text/bpe.h"
#include "data/text/characters.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- tokens by their text ---- */

/* Returns the slot of the text, or the empty slot for it. */
static ls_bpe_name_t *name_at(const ls_bpe_t *b, const char *text, size_t bytes) {
  size_t mask = b->name_room - 1, at = (size_t)XXH3_64bits(text, bytes) & mask;
  while (b->name[at].text && (b->name[at].bytes != bytes || memcmp(b->name[at].text, text, bytes) != 0))
    at = (at + 1) & mask;
  return &b->name[at];
}

void ls_bpe_name(ls_bpe_t *b, const char *text, size_t bytes, int32_t token) {
  ls_bpe_name_t *n = name_at(b, text, bytes);
  if (!n->text) *n = (ls_bpe_name_t){text, bytes, token};
  if (bytes == 1 && b->of_byte[(unsigned char)*text] < 0) b->of_byte[(unsigned char)*text] = token;
}

static int32_t find(const ls_bpe_t *b, const char *text, size_t bytes) {
  if (bytes == 1) return b->of_byte[(unsigned char)*text];
  const ls_bpe_name_t *n = name_at(b, text, bytes);
  return n->text ? n->token : -1;
}

/* ---- merges ---- */

static uint64_t pair_of(int32_t left, int32_t right) {
  return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

/* Returns the slot of the pair, or the empty slot for it. */
static ls_bpe_merge_t *merge_at(const ls_bpe_t *b, uint64_t pair) {
  size_t mask = b->merge_room - 1, at = (size_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> 20) & mask;
  while (b->merge[at].pair != 0 && b->merge[at].pair != pair)
    at = (at + 1) & mask;
  return &b->merge[at];
}

static size_t room_for(size_t count) {
  size_t room = 2;
  while (room < 2 * count)
    room *= 2;
  return room;
}

ls_status_t ls_bpe_reserve(ls_bpe_t *b, size_t tokens, size_t merges) {
  b->name_room = room_for(tokens);
  b->merge_room = room_for(merges);
  b->name = ls_alloc_array(b->ctx, b->name_room, sizeof *b->name);
  b->merge = b->name ? ls_alloc_array(b->ctx, b->merge_room, sizeof *b->merge) : NULL;
  return b->merge ? LS_OK : LS_ERR_MEMORY;
}

bool ls_bpe_add(ls_bpe_t *b, int32_t left, int32_t right, uint32_t rank, int32_t made) {
  uint64_t pair = pair_of(left, right);
  ls_bpe_merge_t *m = merge_at(b, pair);
  if (m->pair != 0) return false;
  *m = (ls_bpe_merge_t){pair, rank, made};
  return true;
}

void ls_bpe_release(ls_bpe_t *b) {
  ls_free(b->name);
  ls_free(b->merge);
  ls_free(b->symbol);
  ls_free(b->heap);
}

static bool goes_first(const ls_bpe_candidate_t *a, const ls_bpe_candidate_t *b) {
  return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(ls_bpe_t *b, int32_t at) {
  if (at < 0 || b->symbol[at].after < 0) return;
  const ls_bpe_symbol_t *s = &b->symbol[at];
  const ls_bpe_merge_t *m = merge_at(b, pair_of(s->token, b->symbol[s->after].token));
  if (m->pair == 0) return;
  const ls_bpe_candidate_t c = {m->rank, at, m->made};
  size_t i = b->heaped++;
  for (; i > 0 && goes_first(&c, &b->heap[(i - 1) / 2]); i = (i - 1) / 2)
    b->heap[i] = b->heap[(i - 1) / 2];
  b->heap[i] = c;
}

static ls_bpe_candidate_t pop(ls_bpe_t *b) {
  ls_bpe_candidate_t top = b->heap[0], c = b->heap[--b->heaped];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < b->heaped; i = child) {
    if (child + 1 < b->heaped && goes_first(&b->heap[child + 1], &b->heap[child])) child++;
    if (!goes_first(&b->heap[child], &c)) break;
    b->heap[i] = b->heap[child];
  }
  b->heap[i] = c;
  return top;
}

/* Applies a candidate unless its pair has changed since it was pushed. */
static void apply(ls_bpe_t *b, ls_bpe_candidate_t c) {
  ls_bpe_symbol_t *s = &b->symbol[c.at];
  if (s->token < 0 || s->after < 0) return;
  ls_bpe_symbol_t *right = &b->symbol[s->after];
  const ls_bpe_merge_t *m = merge_at(b, pair_of(s->token, right->token));
  if (m->pair == 0 || m->rank != c.rank) return;
  s->token = c.made;
  s->after = right->after;
  right->token = -1;
  if (s->after >= 0) b->symbol[s->after].before = c.at;
  push(b, s->before);
  push(b, c.at);
}

static ls_status_t reserve_word(ls_bpe_t *b, size_t bytes) {
  if (bytes <= b->room) return LS_OK;
  size_t room = bytes < 32 ? 64 : 2 * bytes;
  ls_bpe_symbol_t *symbol = ls_realloc_array(b->ctx, b->symbol, room, sizeof *symbol);
  if (symbol) b->symbol = symbol;
  ls_bpe_candidate_t *heap = symbol ? ls_realloc_array(b->ctx, b->heap, 3 * room, sizeof *heap) : NULL;
  if (!heap) return LS_ERR_MEMORY;
  b->heap = heap;
  b->room = room;
  return LS_OK;
}

/* ---- the first symbols of a word ---- */

static ls_status_t no_token(const ls_bpe_t *b, const ls_piece_t *word, size_t at, size_t bytes) {
  char shown[32], what[96];
  ls_text_shown(word->bytes + at, bytes, shown, sizeof shown);
  if (b->characters)
    snprintf(what, sizeof what, "character '%s' has no token in the vocabulary", shown);
  else
    snprintf(what, sizeof what, "byte 0x%02x has no token in the vocabulary",
             (unsigned)(unsigned char)word->bytes[at]);
  return ls_place_fail(b->ctx, word->file, word->text, ls_piece_place(word, at), LS_ERR_DATA, what);
}

static void append(ls_bpe_t *b, int32_t *count, int32_t token) {
  b->symbol[*count] = (ls_bpe_symbol_t){token, *count - 1, *count + 1};
  ++*count;
}

static bool falls_back(const ls_bpe_t *b, const char *text, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (b->fallback[(unsigned char)text[i]] < 0) return false;
  return true;
}

/* At least one symbol, since a word has bytes, and each character gives one or goes on with an unknown one. */
static ls_status_t begin(ls_bpe_t *b, const ls_piece_t *word, int32_t *count) {
  int32_t code;
  *count = 0;
  for (size_t at = 0, bytes = 1; at < word->count; at += bytes) {
    const char *text = word->bytes + at;
    if (b->characters && !(bytes = ls_character(text, word->count - at, &code)))
      return ls_place_fail_utf8(b->ctx, word->file, word->text, ls_piece_place(word, at));
    int32_t token = find(b, text, bytes);
    const bool blank = b->characters && *text == ' ';
    const char *written = blank ? LS_CUT_BLANK : text;
    const size_t written_bytes = blank ? strlen(LS_CUT_BLANK) : bytes;
    if (token >= 0)
      append(b, count, token);
    else if (falls_back(b, written, written_bytes))
      for (size_t i = 0; i < written_bytes; i++)
        append(b, count, b->fallback[(unsigned char)written[i]]);
    else if (b->unknown < 0)
      return no_token(b, word, at, bytes);
    else if (!(b->fuses && *count > 0 && b->symbol[*count - 1].token == b->unknown))
      append(b, count, b->unknown);
  }
  b->symbol[*count - 1].after = -1;
  return LS_OK;
}

ls_status_t ls_bpe_encode(ls_bpe_t *b, const ls_piece_t *word, ls_token_fn *put, void *user) {
  if (word->count == 0) return LS_OK;
  int32_t count, token = b->whole && !word->part ? find(b, word->bytes, word->count) : -1;
  if (token >= 0) {
    put(user, token);
    return LS_OK;
  }
  if (word->count > INT32_MAX / 4)
    return ls_place_fail(b->ctx, word->file, word->text, word->at, LS_ERR_DATA,
                         "a word of more than 512 MiB");
  bool bare = b->characters && b->of_byte[' '] < 0; /* each blank may fall back to the bytes of U+2581 */
  ls_status_t status = reserve_word(b, (bare ? strlen(LS_CUT_BLANK) : 1) * word->count);
  if (status == LS_OK) status = begin(b, word, &count);
  if (status != LS_OK) return status;
  b->heaped = 0;
  for (int32_t i = 0; i + 1 < count; i++)
    push(b, i);
  while (b->heaped > 0)
    apply(b, pop(b));
  for (int32_t i = 0; i >= 0; i = b->symbol[i].after)
    put(user, b->symbol[i].token);
  return LS_OK;
}
