/* Vocabularies: the JSON of Hugging Face's tokenizers, with whatever it asks for that is not done here refused by its
 * name, and lists of characters. */
#include "data/tokenizer.h"
#include "data/bpe.h"
#include "data/characters.h"
#include "data/gunzip.h"
#include "data/read.h"

#include <inttypes.h>
#include <string.h>

enum { FILE_BYTES_MAX = 256 << 20, TOKENS_MAX = 1 << 24, BYTES = 256, ALPHABET = 256 + 68 };

typedef struct {
  const char *text;
  size_t bytes;
} token_t;

/* A token that stands for itself wherever it occurs, such as <|endoftext|>. */
typedef struct {
  const char *text;
  size_t bytes;
  int32_t token;
} added_t;

struct ls_tokenizer {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  const char *owner;
  token_t *token; /* (size) */
  int64_t size;
  ls_strings_t list;
  uint32_t *number; /* characters: characters.h */
  bool merges;      /* BPE: */
  ls_bpe_t bpe;
  added_t *added;
  int added_count;
  bool begins[BYTES]; /* an added token */
};

/* ---- bytes and characters ---- */

static ls_tokenizer_t *create(ls_ctx_t *ctx, const char *owner) {
  ls_tokenizer_t *t = ls_alloc(ctx, sizeof *t);
  if (!t) return NULL;
  t->ctx = t->bpe.ctx = ctx;
  ls_arena_init(&t->arena, ctx);
  if ((t->owner = ls_arena_strdup(&t->arena, owner))) return t;
  ls_tokenizer_close(t);
  return NULL;
}

void ls_tokenizer_close(ls_tokenizer_t *t) {
  if (!t) return;
  ls_free(t->number);
  ls_bpe_release(&t->bpe);
  ls_arena_release(&t->arena);
  ls_free(t);
}

static ls_status_t reserve(ls_tokenizer_t *t, int64_t size) {
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
  ls_status_t status = all ? reserve(t, BYTES) : LS_ERR_MEMORY;
  for (int i = 0; i < BYTES && status == LS_OK; i++) {
    all[i] = (char)i;
    t->token[i] = (token_t){all + i, 1};
  }
  return finish(t, status, out);
}

/* Of the texts in t->list. */
static ls_status_t take_list(ls_tokenizer_t *t, ls_status_t status) {
  if (status == LS_OK) status = reserve(t, t->list.count);
  for (int i = 0; i < t->list.count && status == LS_OK; i++)
    t->token[i] = (token_t){t->list.v[i], strlen(t->list.v[i])};
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

/* ---- tokenizer.json ---- */

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

/* The bytes of a token of the vocabulary, which writes each byte as a character. */
static ls_status_t take_text(ls_tokenizer_t *t, const int16_t *byte_of, const char *text, token_t *token) {
  size_t size = strlen(text), bytes = 0, length;
  char *to = ls_arena_alloc(&t->arena, size + 1);
  if (!to) return LS_ERR_MEMORY;
  for (size_t at = 0; at < size; at += length) {
    int32_t code;
    length = ls_character(text + at, size - at, &code);
    if (length == 0 || code >= ALPHABET || byte_of[code] < 0)
      return ls_fail(t->ctx, LS_ERR_UNSUPPORTED,
                     "%s: token '%s' is not of bytes: only byte-level vocabularies can be used", t->owner,
                     LS_SHOWN(text));
    to[bytes++] = (char)byte_of[code];
  }
  *token = (token_t){to, bytes};
  return LS_OK;
}

static const char *type_of(const json_t *object) {
  const char *type = json_string_value(json_object_get(object, "type"));
  return type ? type : json_is_null(object) || !object ? "none" : "nothing known";
}

static ls_status_t unsupported(const ls_tokenizer_t *t, const char *what, const char *name) {
  return ls_fail(
      t->ctx, LS_ERR_UNSUPPORTED,
      "%s: its %s is %s, which lockstep does not do: it reads byte-level BPE as GPT-2's. Another program can "
      "make a token file, which data.tokens: u16 or i32 reads",
      t->owner, what, LS_SHOWN(name));
}

static bool is_set(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return value && !json_is_null(value) && !json_is_false(value) &&
         !(json_is_number(value) && json_number_value(value) == 0) &&
         !(json_is_string(value) && !*json_string_value(value));
}

/* Everything that would give other tokens. */
static ls_status_t check_kind(const ls_tokenizer_t *t, const json_t *root) {
  static const char *const features[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                         "byte_fallback", "ignore_merges"};
  const json_t *model = json_object_get(root, "model"), *cut = json_object_get(root, "pre_tokenizer");
  const json_t *list = json_object_get(cut, "pretokenizers");
  if (strcmp(type_of(cut), "Sequence") == 0 && json_array_size(list) == 1) cut = json_array_get(list, 0);
  if (!json_is_object(model)) return ls_fail(t->ctx, LS_ERR_DATA, "%s: it has no model", t->owner);
  /* Files before 2020 do not name it. */
  if (json_object_get(model, "type") && strcmp(type_of(model), "BPE") != 0)
    return unsupported(t, "model", type_of(model));
  for (int i = 0; i < LS_COUNT(features); i++)
    if (is_set(model, features[i])) return unsupported(t, "model's option", features[i]);
  if (is_set(root, "normalizer"))
    return unsupported(t, "normalizer", type_of(json_object_get(root, "normalizer")));
  if (strcmp(type_of(cut), "ByteLevel") != 0) return unsupported(t, "pre_tokenizer", type_of(cut));
  if (is_set(cut, "add_prefix_space"))
    return unsupported(t, "pre_tokenizer's option", "add_prefix_space: true");
  if (json_is_false(json_object_get(cut, "use_regex")))
    return unsupported(t, "pre_tokenizer's option", "use_regex: false");
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

static ls_status_t take_vocab(ls_tokenizer_t *t, json_t *vocab) {
  int16_t byte_of[ALPHABET];
  const char *text;
  json_t *id;
  make_alphabet(byte_of);
  memset(t->bpe.of_byte, -1, sizeof t->bpe.of_byte);
  json_object_foreach(vocab, text, id) {
    token_t *token = &t->token[json_integer_value(id)];
    if (token->text)
      return ls_fail(t->ctx, LS_ERR_DATA, "%s: token '%s' has number %" PRId64 ", which another one has",
                     t->owner, LS_SHOWN(text), (int64_t)json_integer_value(id));
    ls_status_t status = take_text(t, byte_of, text, token);
    if (status != LS_OK) return status;
    if (token->bytes == 1) t->bpe.of_byte[(unsigned char)token->text[0]] = (int32_t)json_integer_value(id);
  }
  return LS_OK;
}

/* Added tokens are written as they are, also where the vocabulary repeats them. */
static ls_status_t take_added(ls_tokenizer_t *t, const json_t *vocab, const json_t *added) {
  static const char *const features[] = {"single_word", "lstrip", "rstrip"};
  t->added_count = (int)json_array_size(added);
  t->added = ls_arena_array(&t->arena, (size_t)t->added_count + 1, sizeof *t->added);
  if (!t->added) return LS_ERR_MEMORY;
  for (int i = 0; i < t->added_count; i++) {
    const json_t *one = json_array_get(added, (size_t)i);
    for (int k = 0; k < LS_COUNT(features); k++)
      if (is_set(one, features[k])) return unsupported(t, "added token's option", features[k]);
    const char *text = ls_arena_strdup(&t->arena, json_string_value(json_object_get(one, "content")));
    if (!text) return LS_ERR_MEMORY;
    int32_t id = (int32_t)json_integer_value(json_object_get(one, "id"));
    const token_t *token = &t->token[id];
    const json_t *same = json_object_get(vocab, text);
    if (token->text && !(same && json_integer_value(same) == id) &&
        (token->bytes != strlen(text) || memcmp(token->text, text, token->bytes) != 0))
      return ls_fail(t->ctx, LS_ERR_DATA,
                     "%s: added token '%s' has number %" PRId32 ", which another one has", t->owner,
                     LS_SHOWN(text), id);
    t->added[i] = (added_t){text, strlen(text), id};
    t->token[id] = (token_t){text, strlen(text)};
    t->begins[(unsigned char)*text] = true;
  }
  return LS_OK;
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
  if (ls_bpe_add(&t->bpe, id[0], id[1], (uint32_t)rank, id[2])) return LS_OK;
  return ls_fail(t->ctx, LS_ERR_DATA, "%s: merge %zu (from 0) is there twice", t->owner, rank);
}

static ls_status_t take_merges(ls_tokenizer_t *t, json_t *vocab, const json_t *merges) {
  size_t count = json_array_size(merges);
  ls_status_t status = ls_bpe_reserve(&t->bpe, count);
  for (size_t i = 0; i < count && status == LS_OK; i++) {
    ls_arena_t scratch;
    ls_arena_init(&scratch, t->ctx);
    status = take_merge(t, &scratch, vocab, json_array_get(merges, i), i);
    ls_arena_release(&scratch);
  }
  return status;
}

static ls_status_t take_model(ls_tokenizer_t *t, const json_t *root) {
  const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
  const json_t *merges = json_object_get(model, "merges");
  json_t *vocab = json_object_get(model, "vocab");
  ls_status_t status = check_kind(t, root);
  if (status != LS_OK) return status;
  if (!json_is_object(vocab) || !json_is_array(merges))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: its model has no %s", t->owner,
                   json_is_object(vocab) ? "merges" : "vocab");
  int64_t size;
  t->merges = true;
  status = count_tokens(t, vocab, added, &size);
  if (status == LS_OK) status = reserve(t, size);
  if (status == LS_OK) status = take_vocab(t, vocab);
  if (status == LS_OK) status = take_merges(t, vocab, merges);
  return status == LS_OK ? take_added(t, vocab, added) : status;
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
  if (t) status = json_is_array(root) ? take_array(t, root) : take_model(t, root);
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

const char *ls_tokenizer_text(const ls_tokenizer_t *t, int64_t token, size_t *bytes) {
  if (token < 0 || token >= t->size) return NULL;
  *bytes = t->token[token].bytes;
  return t->token[token].text;
}

/* ---- encoding ---- */

/* The longest added token that begins at `at`; NULL: none. */
static const added_t *added_at(const ls_tokenizer_t *t, const char *text, size_t at, size_t size) {
  const added_t *found = NULL;
  if (!t->begins[(unsigned char)text[at]]) return NULL;
  for (int i = 0; i < t->added_count; i++) {
    const added_t *a = &t->added[i];
    if (a->bytes <= size - at && (!found || a->bytes > found->bytes) &&
        memcmp(text + at, a->text, a->bytes) == 0)
      found = a;
  }
  return found;
}

static ls_status_t encode_merges(ls_tokenizer_t *t, const char *file, const char *text, size_t size,
                                 ls_token_fn *put, void *user) {
  ls_status_t status = LS_OK;
  for (size_t at = 0; at < size && status == LS_OK;) {
    const added_t *added = NULL;
    size_t end = at;
    while (end < size && !(added = added_at(t, text, end, size)))
      end++;
    status = ls_bpe_encode(&t->bpe, file, text, at, end, put, user);
    if (status == LS_OK && added) put(user, added->token);
    at = end + (added ? added->bytes : 0);
  }
  return status;
}

ls_status_t ls_tokenizer_encode(ls_tokenizer_t *t, const char *file, const char *text, size_t size,
                                ls_token_fn *put, void *user) {
  if (t->merges) return encode_merges(t, file, text, size, put, user);
  for (size_t i = 0; !t->number && i < size; i++)
    put(user, (unsigned char)text[i]);
  if (!t->number) return LS_OK;
  const ls_characters_t of = {
      .ctx = t->ctx, .file = file, .number = t->number, .owner = t->owner, .count = t->list.count};
  return ls_characters_visit(&of, text, size, put, user);
}
