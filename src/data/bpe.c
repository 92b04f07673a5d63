/* Words by GPT-2's pattern, scanned by hand, and the merges of a word with a heap of candidates, so that a long word
 * takes n log n. */
#include "data/bpe.h"
#include "data/characters.h"
#include "data/unicode_ranges.h"

#include <stdio.h>
#include <string.h>

/* ---- words ---- */

typedef enum { OTHER, LETTER, NUMBER, BLANK, MALFORMED } class_t;

static bool in_ranges(const uint32_t ranges[][2], int count, uint32_t code) {
  int low = 0, high = count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (ranges[middle][0] <= code)
      low = middle;
    else
      high = middle - 1;
  }
  return ranges[low][0] <= code && code <= ranges[low][1];
}

/* White_Space of Unicode. */
static bool is_blank(uint32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

static class_t class_at(const char *text, size_t at, size_t end, size_t *bytes) {
  int32_t code;
  *bytes = ls_character(text + at, end - at, &code);
  uint32_t c = (uint32_t)code;
  if (*bytes == 0) return MALFORMED;
  if (is_blank(c)) return BLANK;
  if (c < 0x80) return (c | 32) >= 'a' && (c | 32) <= 'z' ? LETTER : c >= '0' && c <= '9' ? NUMBER : OTHER;
  if (in_ranges(letter_ranges, LS_COUNT(letter_ranges), c)) return LETTER;
  return in_ranges(number_ranges, LS_COUNT(number_ranges), c) ? NUMBER : OTHER;
}

/* Bytes of an English ending at the apostrophe `at`; 0: there is none. */
static size_t ending(const char *text, size_t at, size_t end) {
  static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (int i = 0; i < LS_COUNT(endings); i++) {
    size_t bytes = strlen(endings[i]);
    if (end - at >= bytes && memcmp(text + at, endings[i], bytes) == 0) return bytes;
  }
  return 0;
}

/* The end of the run of a class, and where its last character begins. */
static size_t run_end(const char *text, size_t at, size_t end, class_t class, size_t *last) {
  size_t bytes;
  while (at < end && class_at(text, at, end, &bytes) == class) {
    *last = at;
    at += bytes;
  }
  return at;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t word_end(const char *text, size_t at, size_t end) {
  size_t bytes, last = at, begin = at, apostrophe = text[at] == '\'' ? ending(text, at, end) : 0;
  if (apostrophe > 0) return at + apostrophe;
  class_t class = class_at(text, at, end, &bytes);
  if (text[at] == ' ' && at + 1 < end) {
    class_t next = class_at(text, at + 1, end, &bytes);
    if (next != BLANK && next != MALFORMED) {
      class = next;
      at++;
    }
  }
  if (class == MALFORMED) return begin;
  size_t stop = run_end(text, at, end, class, &last);
  /* Blanks leave their last to the word that follows. */
  return class == BLANK && stop < end && last > begin ? last : stop;
}

/* ---- merges ---- */

static uint64_t pair_of(int32_t left, int32_t right) {
  return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

/* Where the pair is, or could be. */
static ls_bpe_merge_t *merge_at(const ls_bpe_t *b, uint64_t pair) {
  size_t mask = b->merge_room - 1, at = (size_t)(pair * UINT64_C(0x9E3779B97F4A7C15) >> 20) & mask;
  while (b->merge[at].pair != 0 && b->merge[at].pair != pair)
    at = (at + 1) & mask;
  return &b->merge[at];
}

ls_status_t ls_bpe_reserve(ls_bpe_t *b, size_t merges) {
  b->merge_room = 2;
  while (b->merge_room < 2 * merges)
    b->merge_room *= 2;
  b->merge = ls_alloc_array(b->ctx, b->merge_room, sizeof *b->merge);
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

static ls_status_t no_token(ls_bpe_t *b, const char *file, const char *text, size_t at) {
  char what[64];
  snprintf(what, sizeof what, "byte 0x%02x has no token in the vocabulary",
           (unsigned)(unsigned char)text[at]);
  return ls_place_fail(b->ctx, file, text, at, LS_ERR_DATA, what);
}

static ls_status_t encode_word(ls_bpe_t *b, const char *file, const char *text, size_t at, size_t end,
                               ls_token_fn *put, void *user) {
  size_t count = end - at;
  if (count > INT32_MAX / 4)
    return ls_place_fail(b->ctx, file, text, at, LS_ERR_DATA, "a word of more than 512 MiB");
  ls_status_t status = reserve_word(b, count);
  if (status != LS_OK) return status;
  b->heaped = 0;
  for (size_t i = 0; i < count; i++) {
    int32_t token = b->of_byte[(unsigned char)text[at + i]];
    if (token < 0) return no_token(b, file, text, at + i);
    b->symbol[i] = (ls_bpe_symbol_t){token, (int32_t)i - 1, i + 1 < count ? (int32_t)i + 1 : -1};
  }
  for (size_t i = 0; i + 1 < count; i++)
    push(b, (int32_t)i);
  while (b->heaped > 0)
    apply(b, pop(b));
  for (int32_t i = 0; i >= 0; i = b->symbol[i].after)
    put(user, b->symbol[i].token);
  return LS_OK;
}

ls_status_t ls_bpe_encode(ls_bpe_t *b, const char *file, const char *text, size_t at, size_t end,
                          ls_token_fn *put, void *user) {
  ls_status_t status = LS_OK;
  while (at < end && status == LS_OK) {
    size_t stop = word_end(text, at, end);
    if (stop == at) return ls_place_fail_utf8(b->ctx, file, text, at);
    status = encode_word(b, file, text, at, stop, put, user);
    at = stop;
  }
  return status;
}
