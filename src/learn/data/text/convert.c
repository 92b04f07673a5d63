/* See convert.h. */
#include "data/text/convert.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Uses the view of one file. */
typedef ls_status_t (*use_fn)(ls_convert_t *c, ls_corpus_file_t *f);

static ls_status_t for_each(ls_convert_t *c, const ls_strings_t *files, use_fn use) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < files->count && status == LS_OK && !ferror(c->to); i++) {
    ls_corpus_file_t f = {.path = files->v[i]};
    status = ls_view_open(c->ctx, f.path, false, &f.view);
    if (status != LS_OK) break;
    ls_view_doubt(c->ctx, &f.view);
    status = use(c, &f);
    status = ls_view_end(c->ctx, &f.view, status);
  }
  return status;
}

ls_status_t ls_convert_characters(ls_ctx_t *ctx, const ls_strings_t *files, ls_tokenizer_t **tokenizer) {
  if (files->count > 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--characters of %d files: make their list from one of them, and give it "
                   "to all with --vocabulary",
                   files->count);
  ls_view_t view;
  ls_status_t status = ls_view_open(ctx, files->v[0], false, &view);
  if (status != LS_OK) return status;
  ls_view_doubt(ctx, &view);
  status = ls_tokenizer_scan(ctx, files->v[0], view.bytes, view.size, tokenizer);
  return ls_view_end(ctx, &view, status);
}

ls_status_t ls_convert_type(ls_convert_t *c) {
  const int64_t size = ls_tokenizer_size(c->tokenizer);
  const bool narrow = size <= UINT16_MAX + 1;
  c->dtype = c->chosen != LS_F32 ? c->chosen : narrow ? LS_U16 : LS_I32;
  if (c->dtype == LS_I32 || narrow) return LS_OK;
  return ls_fail(c->ctx, LS_ERR_ARGUMENT, "--type u16 does not hold %" PRId64 " tokens: use i32", size);
}

static void put_token(void *convert, int32_t token) {
  ls_convert_t *c = convert;
  const uint16_t narrow = (uint16_t)token;
  fwrite(c->dtype == LS_U16 ? (const void *)&narrow : &token, ls_dtype_bytes(c->dtype), 1, c->to);
  c->tokens++;
}

static ls_status_t encode_file(ls_convert_t *c, ls_corpus_file_t *f) {
  c->bytes += (int64_t)f->view.size;
  return ls_tokenizer_encode(c->tokenizer, f->path, f->view.bytes, f->view.size, put_token, c);
}

ls_status_t ls_convert_encode(ls_convert_t *c, const ls_strings_t *files, bool header) {
  char begin[LS_CORPUS_HEADER_BYTES] = {0};
  if (header) fwrite(begin, sizeof begin, 1, c->to);
  ls_status_t status = for_each(c, files, encode_file);
  if (status != LS_OK || !header) return status;
  if (c->tokens > INT32_MAX)
    return ls_fail(c->ctx, LS_ERR_UNSUPPORTED,
                   "llm.c's header counts at most %d tokens, these are %" PRId64 ": leave "
                   "--header out, or cut the text into several files",
                   INT32_MAX, c->tokens);
  ls_corpus_header(c->dtype, (int32_t)c->tokens, begin);
  rewind(c->to);
  fwrite(begin, sizeof begin, 1, c->to);
  return LS_OK;
}

static ls_status_t write_text(ls_convert_t *c, const ls_corpus_file_t *f) {
  for (int64_t i = 0; i < f->count; i++) {
    const int64_t token =
        c->dtype == LS_U16 ? ((const uint16_t *)f->tokens)[i] : ((const int32_t *)f->tokens)[i];
    size_t bytes;
    const char *text = ls_tokenizer_text(c->tokenizer, token, i == 0, &bytes);
    if (!text)
      return ls_fail(c->ctx, LS_ERR_DATA,
                     "%s: token %" PRId64 " (from 0) is %" PRId64 ", which is not in the vocabulary", f->path,
                     i, token);
    fwrite(text, 1, bytes, c->to);
    c->tokens++;
    c->bytes += (int64_t)bytes;
  }
  return LS_OK;
}

static ls_status_t decode_file(ls_convert_t *c, ls_corpus_file_t *f) {
  const bool chosen = c->chosen != LS_F32;
  const bool wide = ls_corpus_guess(f) == LS_TOKENS_I32 || ls_tokenizer_size(c->tokenizer) > UINT16_MAX + 1;
  c->dtype = chosen ? c->chosen : wide ? LS_I32 : LS_U16;
  ls_status_t status = ls_corpus_numbers(c->ctx, c->dtype, chosen, f);
  return status == LS_OK ? write_text(c, f) : status;
}

ls_status_t ls_convert_decode(ls_convert_t *c, const ls_strings_t *files) {
  return for_each(c, files, decode_file);
}

ls_status_t ls_convert_save_list(ls_ctx_t *ctx, const ls_tokenizer_t *tokenizer, const char *path) {
  const ls_strings_t list = ls_tokenizer_list(tokenizer);
  json_t *array = json_array();
  for (int i = 0; i < list.count; i++)
    json_array_append_new(array, json_string(list.v[i]));
  char *text = json_dumps(array, JSON_COMPACT);
  ls_status_t status = text && (int)json_array_size(array) == list.count
                           ? ls_file_replace(ctx, path, text, strlen(text))
                           : ls_fail(ctx, LS_ERR_MEMORY, "out of memory: the list of characters");
  free(text);
  json_decref(array);
  return status;
}
