/* Text to tokens and back: bytes, characters, or byte-pair merges or WordPiece of a vocabulary file in the Hugging Face
 * tokenizer.json form. */
#ifndef LS_DATA_TOKENIZER_H
#define LS_DATA_TOKENIZER_H

#include "base/base.h"

typedef struct ls_tokenizer ls_tokenizer_t;

/* One token for each byte. */
ls_status_t ls_tokenizer_bytes(ls_ctx_t *ctx, ls_tokenizer_t **tokenizer);
/* One for each character of the list (of a checkpoint: its meta data's "vocabulary"). `owner`: whose it is. */
ls_status_t ls_tokenizer_characters(ls_ctx_t *ctx, const char *owner, const ls_strings_t *list,
                                    ls_tokenizer_t **tokenizer);
/* The characters of a text, in the order of their code points. LS_ERR_DATA. */
ls_status_t ls_tokenizer_scan(ls_ctx_t *ctx, const char *file, const char *text, size_t size,
                              ls_tokenizer_t **tokenizer);
/* A file: tokenizer.json with byte-pair merges or WordPiece (what would give other tokens is refused by its name: LS_ERR_UNSUPPORTED;
 * docs/data.md lists what is done), or a JSON list of characters. LS_ERR_DATA, LS_ERR_NOT_FOUND, LS_ERR_IO. */
ls_status_t ls_tokenizer_open(ls_ctx_t *ctx, const char *path, ls_tokenizer_t **tokenizer);
/* The same from text in memory. */
ls_status_t ls_tokenizer_parse(ls_ctx_t *ctx, const char *name, const char *json, size_t size,
                               ls_tokenizer_t **tokenizer);
void ls_tokenizer_close(ls_tokenizer_t *tokenizer);

int64_t ls_tokenizer_size(const ls_tokenizer_t *tokenizer); /* tokens are 0 .. size - 1 */
/* Whether the tokens of every text give back the same bytes. Not where a text gets a blank in front, loses some, or is
 * normalized. */
bool ls_tokenizer_keeps(const ls_tokenizer_t *tokenizer);
/* The characters, for a tokenizer of them; else an empty list. Borrowed. */
ls_strings_t ls_tokenizer_list(const ls_tokenizer_t *tokenizer);

/* Visits the tokens of a text, in order. `file` is for messages. Another program may overwrite the text during the
 * call: a piece between two added tokens of a tokenizer.json is read once, into memory, and its tokens are those of
 * what was read. LS_ERR_DATA: not UTF-8 (bytes take anything), a byte that has no token; LS_ERR_MISMATCH: a
 * character that is not in the list; LS_ERR_MEMORY. */
typedef void ls_token_fn(void *user, int32_t token);
ls_status_t ls_tokenizer_encode(ls_tokenizer_t *tokenizer, const char *file, const char *text, size_t size,
                                ls_token_fn *put, void *user);
/* The bytes that a token stands for, borrowed; NULL: there is no such token. A character may be spread over several. `first`:
 * the token begins a text, and is without the blank that encoding put in front of it, or that stands between tokens of
 * WordPiece. */
const char *ls_tokenizer_text(const ls_tokenizer_t *tokenizer, int64_t token, bool first, size_t *bytes);

#endif
