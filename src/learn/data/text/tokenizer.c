/* Vocabularies of bytes and of characters, and the encoding of all. tokenizer_model.c reads tokenizer.json. */
#include "data/gunzip.h"
#include "data/read.h"
#include "data/text/characters.h"
#include "data/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 256 << 20, BYTES = 256 };

/* ---- bytes and characters ---- */

static ls_tokenizer_t *create(ls_ctx_t *ctx, const char *owner) {
  ls_tokenizer_t *t = ls_alloc(ctx, sizeof *t);
  if (!t) return NULL;
  t->ctx = t->bpe.ctx = t->pieces.ctx = t->cut.ctx = ctx;
  ls_arena_init(&t->arena, ctx);
  if ((t->owner = t->cut.owner = ls_arena_strdup(&t->arena, owner))) return t;
  ls_tokenizer_close(t);
  return NULL;
}

void ls_tokenizer_close(ls_tokenizer_t *t) {
  if (!t) return;
  ls_free(t->number);
  ls_bpe_release(&t->bpe);
  ls_wordpiece_release(&t->pieces);
  ls_cut_release(&t->cut);
  for (int i = 0; i < LS_BESIDE_KINDS; i++)
    ls_pattern_close(t->beside[i]);
  ls_arena_release(&t->arena);
  ls_free(t);
}

ls_status_t ls_tokenizer_reserve(ls_tokenizer_t *t, int64_t size) {
  t->size = size;
  t->token = ls_arena_array(&t->arena, (size_t)size, sizeof *t->token);
  return t->token ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t finish(ls_tokenizer_t *t, ls_status_t status, ls_tokenizer_t **out) {
  if (status == LS_OK)
    *out = t;
  else
    ls_tokenizer_close(t);
  return status;
}

ls_status_t ls_tokenizer_bytes(ls_ctx_t *ctx, ls_tokenizer_t **out) {
  ls_tokenizer_t *t = create(ctx, "bytes");
  if (!t) return LS_ERR_MEMORY;
  char *all = ls_arena_alloc(&t->arena, BYTES);
  ls_status_t status = all ? ls_tokenizer_reserve(t, BYTES) : LS_ERR_MEMORY;
  for (int i = 0; i < BYTES && status == LS_OK; i++) {
    all[i] = (char)i;
    t->token[i] = (ls_token_t){all + i, 1};
  }
  return finish(t, status, out);
}

/* Compares two texts of t->list. */
static ls_status_t take_list(ls_tokenizer_t *t, ls_status_t status) {
  if (status == LS_OK) status = ls_tokenizer_reserve(t, t->list.count);
  for (int i = 0; i < t->list.count && status == LS_OK; i++)
    t->token[i] = (ls_token_t){t->list.v[i], strlen(t->list.v[i])};
  return status;
}

static ls_status_t number_room(ls_tokenizer_t *t) {
  t->number = ls_alloc_array(t->ctx, LS_CODE_POINTS, sizeof *t->number);
  return t->number ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t number_list(ls_tokenizer_t *t, const ls_strings_t *list) {
  ls_status_t status = number_room(t);
  if (status == LS_OK)
    status = ls_characters_take(&t->arena, t->owner, list, LS_ERR_DATA, t->number, &t->list);
  return take_list(t, status);
}

ls_status_t ls_tokenizer_characters(ls_ctx_t *ctx, const char *owner, const ls_strings_t *list,
                                    ls_tokenizer_t **out) {
  ls_tokenizer_t *t = create(ctx, owner);
  return t ? finish(t, number_list(t, list), out) : LS_ERR_MEMORY;
}

ls_status_t ls_tokenizer_scan(ls_ctx_t *ctx, const char *file, const char *text, size_t size,
                              ls_tokenizer_t **out) {
  ls_tokenizer_t *t = create(ctx, file);
  if (!t) return LS_ERR_MEMORY;
  ls_status_t status = number_room(t);
  if (status == LS_OK) status = ls_characters_mark(ctx, file, text, size, t->number);
  if (status == LS_OK) status = ls_characters_number(&t->arena, t->number, &t->list);
  return finish(t, take_list(t, status), out);
}

static ls_status_t take_array(ls_tokenizer_t *t, const json_t *array) {
  ls_strings_t list = {.count = (int)json_array_size(array)};
  const char **texts = ls_arena_array(&t->arena, (size_t)list.count + 1, sizeof *texts);
  if (!texts) return LS_ERR_MEMORY;
  for (int i = 0; i < list.count; i++)
    if (!(texts[i] = json_string_value(json_array_get(array, (size_t)i)))) texts[i] = "";
  list.v = texts;
  return number_list(t, &list);
}

ls_status_t ls_tokenizer_parse(ls_ctx_t *ctx, const char *name, const char *text, size_t size,
                               ls_tokenizer_t **out) {
  json_error_t error;
  if (size > FILE_BYTES_MAX)
    return ls_fail(ctx, LS_ERR_DATA, "%s: %zu bytes; a vocabulary has at most %d", name, size,
                   FILE_BYTES_MAX);
  json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
  if (!root)
    return ls_fail(ctx, LS_ERR_DATA, "%s:%d:%d: not JSON: %s", name, error.line, error.column,
                   LS_SHOWN(error.text));
  ls_tokenizer_t *t = create(ctx, name);
  ls_status_t status = LS_ERR_MEMORY;
  if (t) status = json_is_array(root) ? take_array(t, root) : ls_tokenizer_model(t, root);
  json_decref(root);
  return t ? finish(t, status, out) : status;
}

ls_status_t ls_tokenizer_open(ls_ctx_t *ctx, const char *path, ls_tokenizer_t **out) {
  ls_view_t view;
  ls_status_t status = ls_view_open(ctx, path, false, &view);
  if (status != LS_OK) return status;
  status = ls_tokenizer_parse(ctx, path, view.bytes, view.size, out);
  ls_view_close(&view);
  return status;
}

int64_t ls_tokenizer_size(const ls_tokenizer_t *t) {
  return t->size;
}

ls_strings_t ls_tokenizer_list(const ls_tokenizer_t *t) {
  return t->list;
}

bool ls_tokenizer_keeps(const ls_tokenizer_t *t) {
  bool keeps = t->cut.prefix == LS_PREFIX_NONE && !t->cut.characters && !t->cut.pieces &&
               t->cut.normalizer.count == 0 && !t->beside[LS_BESIDE_SPACE];
  for (int i = 0; i < t->cut.stages; i++)
    if (t->cut.stage[i].drops) keeps = false;
  return keeps;
}

const char *ls_tokenizer_text(const ls_tokenizer_t *t, int64_t token, bool first, size_t *bytes) {
  if (token < 0 || token >= t->size || !t->token[token].text) return NULL;
  const ls_token_t *found = first && t->first ? &t->first[token] : &t->token[token];
  size_t left_out = first && t->cut.strips && found->bytes > 0 && *found->text == ' ';
  *bytes = found->bytes - left_out;
  return found->text + left_out;
}

/* ---- encoding ---- */

typedef struct {
  ls_tokenizer_t *tokenizer;
  ls_token_fn *put;
  void *user;
} run_t;

static ls_status_t put_word(void *run_, const ls_piece_t *word) {
  run_t *run = run_;
  ls_tokenizer_t *t = run->tokenizer;
  return t->cut.pieces ? ls_wordpiece_encode(&t->pieces, word, run->put, run->user)
                       : ls_bpe_encode(&t->bpe, word, run->put, run->user);
}

/* By bytes; a text that the other begins with comes first. */
static int compare(const ls_added_t *added, const char *text, size_t bytes) {
  int order = memcmp(added->text, text, added->bytes < bytes ? added->bytes : bytes);
  return order != 0 ? order : (added->bytes > bytes) - (added->bytes < bytes);
}

/* The longest text of the list with which `text` begins; NULL: none. The candidate is the last one in order that is
 * not after the text, or after the beginning that the two have in common. */
static const ls_added_t *added_at(const ls_added_list_t *list, const char *text, size_t left) {
  for (size_t common; left > 0; left = common) {
    int low = 0, high = list->count;
    while (low < high) {
      int middle = (low + high) / 2;
      if (compare(&list->v[middle], text, left) <= 0)
        low = middle + 1;
      else
        high = middle;
    }
    if (low == 0) return NULL;
    const ls_added_t *a = &list->v[low - 1];
    for (common = 0; common < a->bytes && common < left && a->text[common] == text[common];)
      common++;
    if (common == a->bytes) return a;
  }
  return NULL;
}

static ls_status_t encode_piece(run_t *run, int list, const ls_piece_t *piece);

/* `bytes` is the piece as it is, or a copy of it. */
static ls_status_t check_utf8(const run_t *run, const ls_piece_t *piece, const char *bytes) {
  int32_t code;
  for (size_t at = 0, one; at < piece->count; at += one)
    if (!(one = ls_character(bytes + at, piece->count - at, &code)))
      return ls_place_fail_utf8(run->tokenizer->ctx, piece->file, piece->text, piece->at + at);
  return LS_OK;
}

static ls_status_t encode_normalized(run_t *run, const ls_piece_t *piece) {
  ls_piece_t normalized = *piece;
  char *made = NULL;
  ls_status_t status = LS_OK;
  const ls_tokenizer_t *t = run->tokenizer;
  /* Cutting knows both ways to write a blank. */
  if (t->cut.normalizer.count > 0 || t->added[LS_ADDED_NORMALIZED].count > 0) {
    status = ls_cut_normalize(&t->cut, piece, &made, &normalized.count);
    normalized.prefixed = true;
  }
  if (made) normalized.bytes = made;
  if (status == LS_OK) status = encode_piece(run, LS_ADDED_NORMALIZED, &normalized);
  ls_free(made);
  return status;
}

/* The text may be a mapped file, which others can overwrite at any time. What needs text that stays UTF-8 reads a copy,
 * checked once more; what does not may have left out what was none. */
static ls_status_t encode_part(run_t *run, const ls_piece_t *piece) {
  if (piece->count == 0) return LS_OK;
  if (ls_cut_takes_any(&run->tokenizer->cut)) {
    ls_status_t done = encode_normalized(run, piece);
    return done == LS_OK ? check_utf8(run, piece, piece->bytes) : done;
  }
  char *copy = ls_alloc(run->tokenizer->ctx, piece->count);
  if (!copy) return LS_ERR_MEMORY;
  memcpy(copy, piece->bytes, piece->count);
  ls_piece_t own = *piece;
  own.bytes = copy;
  ls_status_t status = check_utf8(run, piece, copy);
  if (status == LS_OK) status = encode_normalized(run, &own);
  ls_free(copy);
  return status;
}

/* Bytes of the character of this kind that begins at `at`, or with `before` ends there; 0: there is none. The piece may be
 * no UTF-8 any more. */
static size_t beside(const run_t *run, int kind, const ls_piece_t *p, size_t at, bool before) {
  char own[LS_UTF8_BYTES_MAX];
  size_t from = at, left, bytes, begin, end;
  int32_t code;
  while (before && from > 0 && ((unsigned char)p->bytes[--from] & 0xC0) == 0x80)
    ;
  left = before ? at - from : p->count - at;
  if (left > sizeof own) left = sizeof own;
  if (left == 0) return 0;
  memcpy(own, p->bytes + from, left);
  bytes = ls_character(own, left, &code);
  if (bytes == 0 || (before && bytes < left)) return 0;
  const char *why = ls_pattern_find(run->tokenizer->beside[kind], own, bytes, 0, &begin, &end);
  return !why && begin == 0 ? bytes : 0;
}

/* The first of the list that counts in bytes[from ..), and where; NULL: none. */
static const ls_added_t *next_added(const run_t *run, const ls_added_list_t *list, const ls_piece_t *p,
                                    size_t from, size_t *at) {
  for (size_t i = from; i < p->count; i++) {
    const ls_added_t *a =
        list->begins[(unsigned char)p->bytes[i]] ? added_at(list, p->bytes + i, p->count - i) : NULL;
    if (!a) continue;
    if (!a->word ||
        !(beside(run, LS_BESIDE_WORD, p, i, true) || beside(run, LS_BESIDE_WORD, p, i + a->bytes, false))) {
      *at = i;
      return a;
    }
    i += a->bytes - 1; /* no other begins within it */
  }
  return NULL;
}

/* Added tokens of one list after the other, and the words of what is between them. */
static ls_status_t encode_piece(run_t *run, int list, const ls_piece_t *piece) {
  if (list == LS_ADDED_LISTS) return ls_cut_words(&run->tokenizer->cut, piece, put_word, run);
  ls_status_t status = LS_OK;
  for (size_t at = 0, seek = 0; at < piece->count && status == LS_OK;) {
    size_t begin = piece->count, end = begin;
    const ls_added_t *added = next_added(run, &run->tokenizer->added[list], piece, seek, &begin);
    if (added) end = seek = begin + added->bytes;
    for (size_t space; added && added->left && begin > at; begin -= space)
      if (!(space = beside(run, LS_BESIDE_SPACE, piece, begin, true))) break;
    for (size_t space; added && added->right && end < piece->count; end += space)
      if (!(space = beside(run, LS_BESIDE_SPACE, piece, end, false))) break;
    ls_piece_t part = *piece;
    part.bytes += at;
    part.at += at;
    part.count = begin > at ? begin - at : 0;
    status = list == LS_ADDED_RAW ? encode_part(run, &part) : encode_piece(run, list + 1, &part);
    if (status == LS_OK && added) run->put(run->user, added->token);
    at = end;
  }
  return status;
}

static ls_status_t encode_words(ls_tokenizer_t *t, const char *file, const char *text, size_t size,
                                ls_token_fn *put, void *user) {
  run_t run = {t, put, user};
  const ls_piece_t all = {.bytes = text, .count = size, .file = file, .text = text, .size = size};
  ls_status_t status = check_utf8(&run, &all, text);
  return status == LS_OK ? encode_piece(&run, LS_ADDED_RAW, &all) : status;
}

ls_status_t ls_tokenizer_encode(ls_tokenizer_t *t, const char *file, const char *text, size_t size,
                                ls_token_fn *put, void *user) {
  if (t->words) return encode_words(t, file, text, size, put, user);
  for (size_t i = 0; !t->number && i < size; i++)
    put(user, (unsigned char)text[i]);
  if (!t->number) return LS_OK;
  const ls_characters_t of = {
      .ctx = t->ctx, .file = file, .number = t->number, .owner = t->owner, .count = t->list.count};
  return ls_characters_visit(&of, text, size, put, user);
}
