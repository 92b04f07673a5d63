/* A WordPiece vocabulary of a tokenizer.json, and the text that its tokens give back: they stand apart but for those that go
 * on with a word, and but for punctuation where the decoder cleans up. */
#include "data/text/tokenizer_parts.h"

#include <string.h>

/* Replacements of the decoder's `cleanup`, in this order. */
static const char *const cleanups[][2] = {
    {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

/* A text of the model's member, or its default. */
static ls_status_t take_text(const ls_tokenizer_t *t, const char *what, const json_t *of, const char *key,
                             const char *otherwise, const char **text) {
  const json_t *value = json_object_get(of, key);
  *text = value ? json_string_value(value) : otherwise;
  if (*text) return LS_OK;
  return ls_fail(t->ctx, LS_ERR_DATA, "%s: its %s's %s is no text", t->owner, what, key);
}

static ls_status_t take_options(ls_tokenizer_t *t, const json_t *model) {
  ls_wordpiece_t *w = &t->pieces;
  const json_t *longest = json_object_get(model, "max_input_chars_per_word");
  const char *unknown, *prefix;
  ls_status_t status = take_text(t, "model", model, "unk_token", "[UNK]", &unknown);
  if (status == LS_OK) status = take_text(t, "model", model, "continuing_subword_prefix", "##", &prefix);
  if (status != LS_OK) return status;
  const json_t *id = json_object_get(json_object_get(model, "vocab"), unknown);
  w->longest = longest ? json_integer_value(longest) : 100;
  w->unknown = (int32_t)json_integer_value(id);
  w->prefix = ls_arena_strdup(&t->arena, prefix);
  if (w->longest < 1)
    return ls_fail(t->ctx, LS_ERR_DATA,
                   "%s: its model's max_input_chars_per_word is not a whole number from 1", t->owner);
  if (!id)
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: its unk_token '%s' is not in the vocabulary", t->owner,
                   LS_SHOWN(unknown));
  return w->prefix ? LS_OK : LS_ERR_MEMORY;
}

ls_status_t ls_tokenizer_pieces_take(ls_tokenizer_t *t, const json_t *model, json_t *vocab) {
  const char *text;
  json_t *id;
  ls_status_t status = take_options(t, model);
  json_object_foreach(vocab, text, id) {
    if (status != LS_OK) return status;
    const int32_t number = (int32_t)json_integer_value(id);
    const char *kept = ls_arena_strdup(&t->arena, text);
    if (!kept) return LS_ERR_MEMORY;
    if ((status = ls_tokenizer_put(t, kept, strlen(kept), number)) == LS_OK)
      status = ls_wordpiece_name(&t->pieces, kept, number);
  }
  return status;
}

/* ---- back to text ---- */

/* Works in place, because each row of `cleanups` is longer than its replacement. */
static void replace_all(char *text, const char *from, const char *to) {
  const size_t bytes = strlen(from);
  char *out = text;
  for (const char *in = text; *in;) {
    bool found = strncmp(in, from, bytes) == 0;
    out = found ? stpcpy(out, to) : (*out = *in, out + 1);
    in += found ? bytes : 1;
  }
  *out = '\0';
}

static ls_status_t make_text(ls_tokenizer_t *t, const char *front, const char *text, bool cleanup,
                             ls_token_t *to) {
  char *written = ls_arena_printf(&t->arena, "%s%s", front, text);
  if (!written) return LS_ERR_MEMORY;
  for (int i = 0; i < LS_COUNT(cleanups) && cleanup; i++)
    replace_all(written, cleanups[i][0], cleanups[i][1]);
  *to = (ls_token_t){written, strlen(written)};
  return LS_OK;
}

ls_status_t ls_tokenizer_pieces_texts(ls_tokenizer_t *t, const json_t *decoder) {
  const char *type = json_string_value(json_object_get(decoder, "type")), *prefix = NULL;
  const bool there = decoder && !json_is_null(decoder);
  if (there && (!type || strcmp(type, "WordPiece") != 0))
    return ls_tokenizer_unsupported(t->ctx, t->owner, "decoder", type ? type : "nothing known");
  ls_status_t status = there ? take_text(t, "decoder", decoder, "prefix", "##", &prefix) : LS_OK;
  const json_t *cleans = json_object_get(decoder, "cleanup");
  const bool cleanup = there && !json_is_false(cleans);
  if (status == LS_OK && there && cleans && !json_is_boolean(cleans))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: its decoder's cleanup is neither true nor false", t->owner);
  t->first = status == LS_OK ? ls_arena_array(&t->arena, (size_t)t->size, sizeof *t->first) : NULL;
  if (status == LS_OK && !t->first) status = LS_ERR_MEMORY;
  for (int64_t i = 0; i < t->size && status == LS_OK; i++) {
    const char *text = t->token[i].text;
    if (!text) continue;
    const bool goes_on = prefix && strncmp(text, prefix, strlen(prefix)) == 0;
    status = make_text(t, "", text, cleanup, &t->first[i]);
    if (status == LS_OK)
      status =
          make_text(t, goes_on ? "" : " ", goes_on ? text + strlen(prefix) : text, cleanup, &t->token[i]);
  }
  return status;
}
