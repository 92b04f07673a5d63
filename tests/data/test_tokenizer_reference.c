/* Tokens of tokenizer.json files of every form, and the text that they give back, against those of Hugging Face's library
 * (tokenizers/reference.js made them). */
#include "common.h"
#include "data/text/tokenizer.h"

#include <jansson.h>

#define NO_NFC    "utf8proc (libutf8proc-dev) was not there"
#define REFERENCE "tests/data/tokenizers/reference.json"

typedef struct {
  FILE *to;
  const ls_tokenizer_t *tokenizer;
  int count;
  FILE *back;
} written_t;

static void write_token(void *user, int32_t token) {
  written_t *w = user;
  size_t bytes = 0;
  const char *text = ls_tokenizer_text(w->tokenizer, token, w->count == 0, &bytes);
  assert_non_null(text);
  fprintf(w->to, "%s%d", w->count++ ? " " : "", token);
  fwrite(text, 1, bytes, w->back);
}

static void check_text(ls_tokenizer_t *t, const char *name, const json_t *text, const char *want,
                       const json_t *back) {
  char *tokens = NULL, *given_back = NULL;
  size_t tokens_size, back_size;
  written_t w = {open_memstream(&tokens, &tokens_size), t, 0, open_memstream(&given_back, &back_size)};
  ls_status_t status =
      ls_tokenizer_encode(t, "text", json_string_value(text), json_string_length(text), write_token, &w);
  fclose(w.to);
  fclose(w.back);
  bool left_out = status != LS_OK && strstr(said.messages, NO_NFC);
  if (left_out) print_message("%s: not compared, because this build has no utf8proc\n", name);
  if (status != LS_OK && !left_out) fail_msg("%s: %s", name, said.messages);
  if (!left_out && strcmp(tokens, want) != 0) fail_msg("%s: the tokens\n%s\nare not\n%s", name, tokens, want);
  const char *wanted_back = json_string_value(back ? back : text);
  if (!left_out && (back || ls_tokenizer_keeps(t)) && strcmp(given_back, wanted_back) != 0)
    fail_msg("%s: the text\n%s\nis not\n%s", name, given_back, wanted_back);
  free(tokens);
  free(given_back);
}

/* The tokenizer.json of a case. */
static char *json_of(json_t *one, json_t *models) {
  json_t *root = json_copy(one),
         *model = json_copy(json_object_get(models, json_string_value(json_object_get(one, "model"))));
  json_object_update(model, json_object_get(one, "options"));
  json_object_set_new(root, "model", model);
  json_object_del(root, "tokens");
  char *text = json_dumps(root, 0);
  json_decref(root);
  return text;
}

static void tokens_are_those_of_the_reference(void **state) {
  json_t *root = json_load_file(REFERENCE, 0, NULL);
  json_t *cases = json_object_get(root, "cases"), *texts_of = json_object_get(root, "texts_of");
  assert_true(json_array_size(cases) >= 60);
  for (size_t i = 0; i < json_array_size(cases); i++) {
    json_t *one = json_array_get(cases, i), *back = json_object_get(one, "back");
    const char *name = json_string_value(json_object_get(one, "name"));
    char *json = json_of(one, json_object_get(root, "models"));
    json_t *own = json_object_get(texts_of, json_string_value(json_object_get(one, "model")));
    json_t *texts = own ? own : json_object_get(root, "texts");
    said_clear();
    ls_tokenizer_t *t = NULL;
    if (ls_tokenizer_parse(said.ctx, name, json, strlen(json), &t) != LS_OK && !strstr(said.messages, NO_NFC))
      fail_msg("%s", said.messages);
    if (!t) print_message("%s: left out, because this build has no utf8proc\n", name);
    for (size_t k = 0; t && k < json_array_size(texts); k++)
      check_text(t, name, json_array_get(texts, k),
                 json_string_value(json_array_get(json_object_get(one, "tokens"), k)),
                 json_array_get(back, k));
    ls_tokenizer_close(t);
    free(json);
  }
  json_decref(root);
}

TESTS(said_open, said_close, tokens_are_those_of_the_reference)
