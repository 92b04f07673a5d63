/* Token files made of text, and text made of token files (lockstep tokenize). */
#ifndef LS_DATA_CONVERT_H
#define LS_DATA_CONVERT_H

#include "data/text/corpus.h"
#include "data/text/tokenizer.h"

#include <stdio.h>

typedef struct {
  ls_ctx_t *ctx;
  ls_tokenizer_t *tokenizer;
  ls_dtype_t chosen;     /* type of the tokens: LS_U16 or LS_I32; LS_F32: none is chosen */
  ls_dtype_t dtype;      /* of the tokens that were written or read last */
  FILE *to;              /* whose errors the caller finds by ferror; the calls below return then */
  int64_t tokens, bytes; /* so far; bytes of text */
} ls_convert_t;

/* A token for each character of one file. */
ls_status_t ls_convert_characters(ls_ctx_t *ctx, const ls_strings_t *files, ls_tokenizer_t **tokenizer);

/* The type of tokens to write: the chosen one, else u16 if the vocabulary fits. LS_ERR_ARGUMENT: a chosen u16 is too narrow. */
ls_status_t ls_convert_type(ls_convert_t *c);
/* Writes the tokens of the files' text, one file after the other; `header`: after llm.c's header, for which `to` is a file.
 * LS_ERR_UNSUPPORTED: more tokens than that header counts. Errors of ls_tokenizer_encode. */
ls_status_t ls_convert_encode(ls_convert_t *c, const ls_strings_t *files, bool header);
/* Writes the text of the files' tokens. A type that is not chosen is that of each file. LS_ERR_DATA: a token that is not in
 * the vocabulary, and errors of ls_corpus_numbers. */
ls_status_t ls_convert_decode(ls_convert_t *c, const ls_strings_t *files);

/* Writes the characters of the tokenizer to a file, a JSON list that ls_tokenizer_open reads. */
ls_status_t ls_convert_save_list(ls_ctx_t *ctx, const ls_tokenizer_t *tokenizer, const char *path);

#endif
