/* The model of a tokenizer.json of Hugging Face: vocabulary, merges, added tokens; tokenizer_pieces.c has what is WordPiece's.
 * What it asks for that is not done here is refused by its name. */
#include "data/text/characters.h"
#include "data/text/tokenizer_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 1 << 24, BYTES = 256, ALPHABET = 256 + 68 };

/* Bytes 33-126, 161-172 and 174-255 are written as the character of that code, the others as U+0100 and on. */
static void make_alphabet(int16_t byte_of[ALPHABET]) {
  int next = 256;
  for (int i = 0; i < ALPHABET; i++)
    byte_of[i] = -1;
  for (int byte = 0; byte < BYTES; byte++) {
    bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    byte_of[itself ? byte : next++] = (int16_t)byte;
  }
}

static bool is_added(const json_t *added, const char *text) {
  for (size_t i = 0; i < json_array_size(added); i++)
    if (strcmp(json_string_value(json_object_get(json_array_get(added, i), "content")), text) == 0)
      return true;
  return false;
}

/* The bytes of a token of a byte-level vocabulary, which writes each byte as a character. Added tokens are as they are. */
static ls_status_t take_bytes(ls_tokenizer_t *t, const int16_t *byte_of, const json_t *added,
                              const char *text, ls_token_t *token) {
  size_t size = strlen(text), bytes = 0, length;
  char *to = ls_arena_alloc(&t->arena, size + 1);
  if (!to) return LS_ERR_MEMORY;
  for (size_t at = 0; at < size; at += length) {
    int32_t code;
    length = ls_character(text + at, size - at, &code);
    bool byte = length > 0 && code < ALPHABET && byte_of[code] >= 0;
    if (!byte && is_added(added, text)) {
      *token = (ls_token_t){memcpy(to, text, size), size};
      return LS_OK;
    }
    if (!byte)
      return ls_fail(t->ctx, LS_ERR_UNSUPPORTED,
                     "%s: token '%s' is not of bytes: only byte-level vocabularies can be used", t->owner,
                     LS_SHOWN(text));
    to[bytes++] = (char)byte_of[code];
  }
  *token = (ls_token_t){to, bytes};
  return LS_OK;
}

/* The byte of "<0x0A>"; -1: it is no such token. */
static int byte_of_name(const ls_tokenizer_t *t, const char *text) {
  static const char digits[] = "0123456789ABCDEF";
  const char *high = NULL, *low = NULL;
  if (t->fallback && strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>') {
    high = strchr(digits, text[3]);
    low = strchr(digits, text[4]);
  }
  return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

/* The text of a token of a vocabulary of characters, which writes blanks as U+2581. */
static ls_status_t take_characters(ls_tokenizer_t *t, const char *text, ls_token_t *token) {
  size_t size = strlen(text), bytes = 0;
  int byte = byte_of_name(t, text);
  char *to = ls_arena_alloc(&t->arena, size + 1);
  if (!to) return LS_ERR_MEMORY;
  for (size_t at = 0, blank; at < size && byte < 0; at += blank ? blank : 1) {
    blank = ls_cut_blank(text + at, size - at);
    to[bytes++] = blank ? ' ' : text[at];
  }
  if (byte >= 0) to[bytes++] = (char)byte;
  *token = (ls_token_t){to, bytes};
  return LS_OK;
}

static bool is_set(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return value && !json_is_null(value) && !json_is_false(value) &&
         !(json_is_number(value) && json_number_value(value) == 0) &&
         !(json_is_string(value) && !*json_string_value(value));
}

/* Everything of the model that would give other tokens. */
static ls_status_t check_kind(ls_tokenizer_t *t, const json_t *model, const json_t *added) {
  static const char *const features[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
  const char *type = json_string_value(json_object_get(model, "type"));
  if (!json_is_object(model)) return ls_fail(t->ctx, LS_ERR_DATA, "%s: it has no model", t->owner);
  if (added && !json_is_null(added) && !json_is_array(added))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: its added_tokens are no list", t->owner);
  /* Files before 2020 do not name it. */
  t->cut.pieces = type && strcmp(type, "WordPiece") == 0;
  if (json_object_get(model, "type") && !t->cut.pieces && (!type || strcmp(type, "BPE") != 0))
    return ls_tokenizer_unsupported(t->ctx, t->owner, "model", type ? type : "nothing known");
  for (int i = 0; i < LS_COUNT(features); i++)
    if (is_set(model, features[i]) && !t->cut.pieces)
      return ls_tokenizer_unsupported(t->ctx, t->owner, "model's option", features[i]);
  return LS_OK;
}

static ls_status_t check_id(const ls_tokenizer_t *t, const char *text, const json_t *id) {
  json_int_t value = json_integer_value(id);
  if (json_is_integer(id) && value >= 0 && value < TOKENS_MAX) return LS_OK;
  return ls_fail(t->ctx, LS_ERR_DATA, "%s: the number of token '%s' is not a whole number from 0 to %d",
                 t->owner, LS_SHOWN(text), TOKENS_MAX - 1);
}

/* The highest number of all tokens, and one more. */
static ls_status_t count_tokens(const ls_tokenizer_t *t, json_t *vocab, const json_t *added, int64_t *size) {
  const char *text;
  json_t *id;
  ls_status_t status = LS_OK;
  *size = 0;
  json_object_foreach(vocab, text, id) {
    if ((status = check_id(t, text, id)) != LS_OK) return status;
    if (json_integer_value(id) >= *size) *size = json_integer_value(id) + 1;
  }
  for (size_t i = 0; i < json_array_size(added); i++) {
    json_t *one = json_array_get(added, i);
    const char *content = json_string_value(json_object_get(one, "content"));
    if (!content || !*content)
      return ls_fail(t->ctx, LS_ERR_DATA, "%s: added token %zu (from 0) has no content", t->owner, i);
    id = json_object_get(one, "id");
    if ((status = check_id(t, content, id)) != LS_OK) return status;
    if (json_integer_value(id) >= *size) *size = json_integer_value(id) + 1;
  }
  if (*size == 0) return ls_fail(t->ctx, LS_ERR_DATA, "%s: its vocabulary is empty", t->owner);
  return LS_OK;
}

ls_status_t ls_tokenizer_put(ls_tokenizer_t *t, const char *text, size_t bytes, int32_t number) {
  if (t->token[number].text)
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: token '%s' has number %" PRId32 ", which another one has",
                   t->owner, LS_SHOWN(text), number);
  t->token[number] = (ls_token_t){text, bytes};
  return LS_OK;
}

static ls_status_t take_vocab(ls_tokenizer_t *t, json_t *vocab, const json_t *added) {
  int16_t byte_of[ALPHABET];
  const char *text;
  json_t *id;
  make_alphabet(byte_of);
  json_object_foreach(vocab, text, id) {
    int32_t number = (int32_t)json_integer_value(id);
    ls_token_t *token = &t->token[number], made;
    int byte = byte_of_name(t, text);
    ls_status_t status =
        t->cut.characters ? take_characters(t, text, &made) : take_bytes(t, byte_of, added, text, &made);
    if (status == LS_OK) status = ls_tokenizer_put(t, made.text, made.bytes, number);
    if (status != LS_OK) return status;
    if (t->bpe.whole && strlen(text) > t->cut.uncut) t->cut.uncut = strlen(text);
    if (byte >= 0) {
      t->bpe.fallback[byte] = number;
      const char *name = t->bpe.whole ? ls_arena_strdup(&t->arena, text) : NULL; /* a word may be this name */
      if (t->bpe.whole && !name) return LS_ERR_MEMORY;
      if (name) ls_bpe_name(&t->bpe, name, strlen(name), number);
    } else if (!(t->cut.characters && strchr(text, ' '))) /* no word has a blank as it is */
      ls_bpe_name(&t->bpe, token->text, token->bytes, number);
  }
  return LS_OK;
}

/* \w and \s of Rust's regex. */
static ls_status_t open_beside(ls_tokenizer_t *t, const ls_added_t *added) {
  static const char *const patterns[LS_BESIDE_KINDS] = {
      [LS_BESIDE_WORD] = "[" LS_CUT_WORD "]", [LS_BESIDE_SPACE] = "\\s"};
  const bool asks[LS_BESIDE_KINDS] = {
      [LS_BESIDE_WORD] = added->word, [LS_BESIDE_SPACE] = added->left || added->right};
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_BESIDE_KINDS && status == LS_OK; i++)
    if (asks[i] && !t->beside[i])
      status = ls_pattern_open(t->ctx, t->owner, "added_tokens", patterns[i], &t->beside[i]);
  return status;
}

/* An added token as it stands in a text that was normalized. */
static ls_status_t normalize(ls_tokenizer_t *t, const char *text, const char **out) {
  char *made;
  size_t size = strlen(text), count;
  ls_status_t status = ls_cut_normalize(
      &t->cut, &(ls_piece_t){.bytes = text, .count = size, .file = t->owner, .text = text, .size = size},
      &made, &count);
  if (status != LS_OK || !made) return status;
  *out = ls_arena_strdup(&t->arena, made);
  ls_free(made);
  if (!*out) return LS_ERR_MEMORY;
  return **out ? LS_OK
               : ls_tokenizer_unsupported(t->ctx, t->owner,
                                          "added token, of which the normalizer leaves nothing,", text);
}

static ls_status_t take_one_added(ls_tokenizer_t *t, const json_t *vocab, const json_t *one) {
  bool normalized = is_set(one, "normalized");
  const char *text = ls_arena_strdup(&t->arena, json_string_value(json_object_get(one, "content")));
  if (!text) return LS_ERR_MEMORY;
  const char *found = text; /* what stands for it in the text */
  int32_t id = (int32_t)json_integer_value(json_object_get(one, "id"));
  ls_token_t *token = &t->token[id];
  const json_t *same = json_object_get(vocab, text);
  if (same && json_integer_value(same) != id)
    return ls_fail(t->ctx, LS_ERR_DATA,
                   "%s: added token '%s' has number %" PRId32 ", and number %" PRId64 " in the vocabulary",
                   t->owner, LS_SHOWN(text), id, (int64_t)json_integer_value(same));
  if (!same && token->text && (token->bytes != strlen(text) || memcmp(token->text, text, token->bytes) != 0))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: added token '%s' has number %" PRId32 ", which another one has",
                   t->owner, LS_SHOWN(text), id);
  ls_added_list_t *list = &t->added[normalized ? LS_ADDED_NORMALIZED : LS_ADDED_RAW];
  ls_status_t status = normalized ? normalize(t, text, &found) : LS_OK;
  const ls_added_t added = {
      found, strlen(found), id, is_set(one, "single_word"), is_set(one, "lstrip"), is_set(one, "rstrip")};
  if (status == LS_OK) status = open_beside(t, &added);
  if (status != LS_OK) return status;
  list->v[list->count++] = added;
  list->begins[(unsigned char)*found] = true;
  *token = (ls_token_t){text, strlen(text)};
  return t->cut.characters ? take_characters(t, text, token) : LS_OK;
}

static int by_text(const void *a_, const void *b_) {
  const ls_added_t *a = a_, *b = b_;
  return strcmp(a->text, b->text);
}

/* Byte-level added tokens are written as they are, also where the vocabulary repeats them. */
static ls_status_t take_added(ls_tokenizer_t *t, const json_t *vocab, const json_t *added) {
  size_t count = json_array_size(added);
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_ADDED_LISTS; i++)
    if (!(t->added[i].v = ls_arena_array(&t->arena, count + 1, sizeof *t->added[i].v))) return LS_ERR_MEMORY;
  for (size_t i = 0; i < count && status == LS_OK; i++)
    status = take_one_added(t, vocab, json_array_get(added, i));
  for (int i = 0; i < LS_ADDED_LISTS; i++) {
    const ls_added_list_t *list = &t->added[i];
    qsort(list->v, (size_t)list->count, sizeof *list->v, by_text);
    for (int k = 1; k < list->count && status == LS_OK; k++)
      if (strcmp(list->v[k - 1].text, list->v[k].text) == 0 && list->v[k - 1].token != list->v[k].token)
        status = ls_tokenizer_unsupported(t->ctx, t->owner, "added token, also under another number,",
                                          list->v[k].text);
  }
  return status;
}

/* "a b", or ["a", "b"]. The texts of both sides; NULL: it is neither. */
static ls_status_t sides_of(ls_arena_t *arena, const json_t *merge, const char *side[2]) {
  const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
  bool pair = json_is_array(merge) && json_array_size(merge) == 2, one = space && !strchr(space + 1, ' ');
  for (int i = 0; i < 2; i++)
    side[i] = pair ? json_string_value(json_array_get(merge, (size_t)i)) : NULL;
  if (!one) return LS_OK;
  side[0] = ls_arena_strndup(arena, text, (size_t)(space - text));
  side[1] = space + 1;
  return side[0] ? LS_OK : LS_ERR_MEMORY;
}

static void span_all(ls_tokenizer_t *t) {
  memset(t->cut.spans, true, sizeof t->cut.spans);
}

static ls_status_t take_merge(ls_tokenizer_t *t, ls_arena_t *scratch, json_t *vocab, const json_t *merge,
                              size_t rank) {
  const char *side[2];
  ls_status_t status = sides_of(scratch, merge, side);
  if (status != LS_OK) return status;
  if (!side[0] || !side[1])
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: merge %zu (from 0) is no pair of tokens", t->owner, rank);
  const char *made = ls_arena_printf(scratch, "%s%s", side[0], side[1]);
  if (!made) return LS_ERR_MEMORY;
  const char *const texts[] = {side[0], side[1], made};
  int32_t id[3];
  for (int i = 0; i < 3; i++) {
    const json_t *found = json_object_get(vocab, texts[i]);
    if (!found)
      return ls_fail(t->ctx, LS_ERR_DATA, "%s: merge %zu (from 0) is of '%s', which is not in the vocabulary",
                     t->owner, rank, LS_SHOWN(texts[i]));
    id[i] = (int32_t)json_integer_value(found);
  }
  const ls_token_t *left = &t->token[id[0]], *right = &t->token[id[1]];
  if (left->bytes > 0 && right->bytes > 0 && *right->text == ' ') {
    t->cut.spans[(unsigned char)left->text[left->bytes - 1]] = true;
    if (id[0] == t->bpe.unknown) span_all(t); /* it stands for any character */
  }
  if (ls_bpe_add(&t->bpe, id[0], id[1], (uint32_t)rank, id[2])) return LS_OK;
  return ls_fail(t->ctx, LS_ERR_DATA, "%s: merge %zu (from 0) is there twice", t->owner, rank);
}

static ls_status_t take_merges(ls_tokenizer_t *t, json_t *vocab, const json_t *merges) {
  ls_status_t status = LS_OK;
  for (size_t i = 0; i < json_array_size(merges) && status == LS_OK; i++) {
    ls_arena_t scratch;
    ls_arena_init(&scratch, t->ctx);
    status = take_merge(t, &scratch, vocab, json_array_get(merges, i), i);
    ls_arena_release(&scratch);
  }
  return status;
}

/* How characters without a token, and words that are a token, are treated. */
static ls_status_t take_options(ls_tokenizer_t *t, const json_t *model, const json_t *vocab) {
  const char *unknown = json_string_value(json_object_get(model, "unk_token"));
  const json_t *id = unknown ? json_object_get(vocab, unknown) : NULL;
  ls_bpe_t *b = &t->bpe;
  memset(b->of_byte, -1, sizeof b->of_byte);
  memset(b->fallback, -1, sizeof b->fallback);
  t->fallback = is_set(model, "byte_fallback");
  b->characters = t->cut.characters;
  b->whole = is_set(model, "ignore_merges");
  b->fuses = is_set(model, "fuse_unk");
  b->unknown = id ? (int32_t)json_integer_value(id) : -1;
  if (t->fallback && !b->characters)
    return ls_tokenizer_unsupported(t->ctx, t->owner, "model's option", "byte_fallback beside ByteLevel");
  if (unknown && *unknown && !id)
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: its unk_token '%s' is not in the vocabulary", t->owner,
                   LS_SHOWN(unknown));
  return LS_OK;
}

static ls_status_t take_bpe(ls_tokenizer_t *t, const json_t *model, json_t *vocab, const json_t *added) {
  const json_t *merges = json_object_get(model, "merges");
  ls_status_t status = take_options(t, model, vocab);
  if (status == LS_OK) status = ls_bpe_reserve(&t->bpe, json_object_size(vocab), json_array_size(merges));
  if (status == LS_OK) status = take_vocab(t, vocab, added);
  if (t->bpe.of_byte[' '] < 0) span_all(t); /* blanks are unknown, or bytes that merges may join to others */
  return status == LS_OK ? take_merges(t, vocab, merges) : status;
}

ls_status_t ls_tokenizer_model(ls_tokenizer_t *t, const json_t *root) {
  const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
  json_t *vocab = json_object_get(model, "vocab");
  ls_status_t status = check_kind(t, model, added);
  if (status == LS_OK) status = ls_cut_read(&t->cut, root);
  if (status != LS_OK) return status;
  if (!json_is_object(vocab) || (!t->cut.pieces && !json_is_array(json_object_get(model, "merges"))))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: its model has no %s", t->owner,
                   json_is_object(vocab) ? "merges" : "vocab");
  int64_t size;
  t->words = true;
  status = count_tokens(t, vocab, added, &size);
  if (status == LS_OK) status = ls_tokenizer_reserve(t, size);
  if (status == LS_OK)
    status = t->cut.pieces ? ls_tokenizer_pieces_take(t, model, vocab) : take_bpe(t, model, vocab, added);
  if (status == LS_OK) status = take_added(t, vocab, added);
  return status == LS_OK && t->cut.pieces ? ls_tokenizer_pieces_texts(t, json_object_get(root, "decoder"))
                                          : status;
}
